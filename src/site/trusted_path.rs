//! Opens the path to a site step by step: every directory and symbolic link from `/` on.
//!
//! ```text
//! /srv/www/current      / ── srv ── www ── current ─ link ─▶ releases/7 ── releases ── 7 ─▶ the site
//!                       each step: is the directory trusted?       ─ no ─▶ Untrusted
//!                                  may this process search it?     ─ no ─▶ Denied
//! ```
//!
//! The site builder opens the path as root before it switches to the server's user, so that a site can be below a directory which
//! that user cannot enter. It passes only through directories that root or the starting user controls: another user who could replace
//! a step could lead root into a directory that is closed to that user. The builder reads the site itself with the rights of the
//! server's user: it opens the descriptor with `O_PATH`, which grants no access.

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};
use tarpon_pack::{DirTree, Inaccessible, LINK_COUNT_MAX, OPEN_DIR, reversed_components};

/// The result of opening a path step by step.
pub(crate) struct TrustedPath {
    /// The root of the site, or the step that failed.
    pub(crate) end: Result<SiteRoot, PathBarrier>,
    /// The directory that contains the last name of the path.
    pub(crate) last_dir: Option<Arc<OwnedFd>>,
}

/// The directory or archive of a site, opened once by its path and then used by its descriptor.
#[derive(Debug)]
pub(crate) struct SiteRoot {
    kind: PathKind,
    /// The absolute path without links.
    path: PathBuf,
    /// The path as the user gave it.
    given: PathBuf,
}

#[derive(Debug)]
enum PathKind {
    Directory(OwnedFd),
    File(OwnedFd),
}

/// Why a path cannot be opened.
#[derive(Debug)]
pub(crate) enum PathBarrier {
    /// The path does not exist.
    Missing(PathBuf),
    /// Another user can replace entries of this directory, or owns this link.
    Untrusted(Inaccessible),
    /// This process may not search this directory.
    Denied(Inaccessible),
    /// A system call failed at this path.
    Failed(PathBuf, io::Error),
}

impl TrustedPath {
    /// Opens an absolute path. `trusted`: the users that may own its steps; `None`: all users. Calls `on_step` for each name before it
    /// is looked up, with the directory that contains it.
    pub(crate) fn find(
        path: &Path,
        trusted: Option<&[u32]>,
        mut on_step: impl FnMut(BorrowedFd<'_>, &OsStr),
    ) -> TrustedPath {
        let mut last_dir = None;
        let end = open_steps(path, trusted, |dir, name, is_last| {
            on_step(dir.as_fd(), name);
            if is_last {
                last_dir = Some(Arc::clone(dir));
            }
        });
        TrustedPath { end, last_dir }
    }
}

fn open_steps(
    given: &Path,
    trusted: Option<&[u32]>,
    mut on_step: impl FnMut(&Arc<OwnedFd>, &OsStr, bool),
) -> Result<SiteRoot, PathBarrier> {
    let is_trusted = |stat: &Stat| trusted.is_none_or(|users| users.contains(&stat.st_uid));
    let root =
        rustix::fs::open("/", OPEN_DIR, Mode::empty()).map_err(|error| PathBarrier::of("/".into(), error))?;
    let mut dirs = vec![Arc::new(root)];
    let mut at = PathBuf::from("/");
    let mut names = reversed_components(given);
    // Whether the next name belongs to the given path, not to the target of its last link.
    let (mut is_given, mut link_count) = (true, 0);
    while let Some(name) = names.pop() {
        let is_last = names.is_empty() && is_given;
        is_given &= !names.is_empty();
        match name.as_bytes() {
            b"/" => {
                dirs.truncate(1);
                at = PathBuf::from("/");
                continue;
            }
            b".." => {
                dirs.truncate((dirs.len() - 1).max(1));
                at.pop();
                continue;
            }
            _ => {}
        }
        let dir = Arc::clone(dirs.last().expect("the root of the file system stays"));
        let stat = fstat(&*dir).map_err(|error| PathBarrier::of(at.clone(), error))?;
        if !is_trusted(&stat) || trusted.is_some() && others_may_replace_entries(&stat) {
            return Err(PathBarrier::Untrusted(Inaccessible::new(at, &stat)));
        }
        on_step(&dir, &name, is_last);
        let next = at.join(&name);
        let failed = |error| match error {
            Errno::ACCESS => PathBarrier::Denied(Inaccessible::new(at.clone(), &stat)),
            error => PathBarrier::of(next.clone(), error),
        };
        let found = statat(&*dir, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                link_count += 1;
                if link_count > LINK_COUNT_MAX {
                    return Err(PathBarrier::of(next, Errno::LOOP));
                }
                if !is_trusted(&found) {
                    return Err(PathBarrier::Untrusted(Inaccessible::new(next, &found)));
                }
                let target = readlinkat(&*dir, &name, Vec::new()).map_err(failed)?;
                names.extend(reversed_components(Path::new(&OsString::from_vec(target.into_bytes()))));
            }
            FileType::Directory => {
                let dir = openat(&*dir, &name, OPEN_DIR, Mode::empty()).map_err(failed)?;
                dirs.push(Arc::new(dir));
                at = next;
            }
            _ if !names.is_empty() => return Err(PathBarrier::of(next, Errno::NOTDIR)),
            _ => {
                let flags = OPEN_DIR.difference(OFlags::DIRECTORY);
                let file = openat(&*dir, &name, flags, Mode::empty()).map_err(failed)?;
                return Ok(SiteRoot { kind: PathKind::File(file), path: next, given: given.to_owned() });
            }
        }
    }
    let dir = dirs.last().expect("the root of the file system stays");
    let dir = dir.try_clone().map_err(|error| PathBarrier::Failed(at.clone(), error))?;
    Ok(SiteRoot { kind: PathKind::Directory(dir), path: at, given: given.to_owned() })
}

impl SiteRoot {
    /// Returns the directory for reading; `None` if the site is a file.
    pub(crate) fn tree(&self) -> io::Result<Option<DirTree>> {
        let PathKind::Directory(dir) = &self.kind else { return Ok(None) };
        Ok(Some(DirTree::new(dir.try_clone()?, self.path.clone()).with_alias(self.given.clone())))
    }

    /// Opens the file for reading, with the current rights of this process.
    ///
    /// # Errors
    /// The site is a directory, this process may not read the file, or `/proc` is not mounted.
    pub(crate) fn file(&self) -> io::Result<File> {
        match &self.kind {
            PathKind::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
            PathKind::File(file) => reopen(file),
        }
    }

    /// Returns the barrier if the permissions of the root keep this process from reading the site.
    pub(crate) fn barrier(&self) -> Option<Inaccessible> {
        let opened = match &self.kind {
            PathKind::Directory(dir) => {
                openat(dir, ".", LIST, Mode::empty()).map(drop).map_err(io::Error::from)
            }
            PathKind::File(file) => reopen(file).map(drop),
        };
        opened.err().filter(|error| error.kind() == io::ErrorKind::PermissionDenied)?;
        Some(Inaccessible::new(self.path.clone(), &fstat(self.descriptor()).ok()?))
    }

    /// Returns the root if users other than these can change its entries: it belongs to another one, or its group or all users may write
    /// to it, be it sticky or not.
    pub(crate) fn changeable_by_others(&self, trusted: &[u32]) -> Option<Inaccessible> {
        let stat = fstat(self.descriptor()).ok()?;
        let others_write = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        let is_changeable = others_write || !trusted.contains(&stat.st_uid);
        is_changeable.then(|| Inaccessible::new(self.path.clone(), &stat))
    }

    /// Returns the absolute path without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the site is a file: an archive.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, PathKind::File(_))
    }

    /// Returns the descriptor of the directory or archive, which is not open for reading.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.kind {
            PathKind::Directory(fd) | PathKind::File(fd) => fd.as_fd(),
        }
    }

    /// Returns a path to the directory that needs no rights on its parents: proc(5), `/proc/self/fd`. `None` if the site is a file.
    pub(crate) fn reopen_path(&self) -> Option<PathBuf> {
        match &self.kind {
            PathKind::Directory(dir) => Some(fd_path(dir).join(".")),
            PathKind::File(_) => None,
        }
    }
}

/// Opens a path with `O_PATH`: the descriptor names the file and grants no access. Follows links.
pub(crate) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OPEN_DIR.difference(OFlags::DIRECTORY | OFlags::NOFOLLOW) | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a descriptor of [`open_path`] for reading. Does not wait for the writer of a FIFO.
pub(crate) fn reopen(file: &OwnedFd) -> io::Result<File> {
    Ok(rustix::fs::open(fd_path(file), READ, Mode::empty())?.into())
}

/// Returns a path to the file of a descriptor, valid only in this process.
pub(crate) fn fd_path(fd: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

impl PathBarrier {
    fn of(path: PathBuf, error: Errno) -> PathBarrier {
        match error {
            Errno::NOENT => PathBarrier::Missing(path),
            error => PathBarrier::Failed(path, error.into()),
        }
    }
}

/// Returns whether users other than its owner may replace entries of a directory. In a sticky directory only the owners of the entry and
/// of the directory may: unlink(2), EPERM. An access control list is visible in the group bits: acl(5).
fn others_may_replace_entries(dir: &Stat) -> bool {
    let mode = Mode::from_raw_mode(dir.st_mode);
    mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX)
}

const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };
    use tarpon_site::Printable;

    #[test]
    fn path_is_trusted_if_no_other_user_can_replace_a_step() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let own = dir.metadata().unwrap().uid();
        let mode =
            |name: &str, mode| fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
        for name in ["safe/site", "group/site", "sticky/site"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        fs::write(dir.join("safe/site.tar"), "x").unwrap();
        symlink("safe/site", dir.join("link")).unwrap();
        symlink("../group/site", dir.join("safe/through")).unwrap();
        symlink("nothing", dir.join("dangling")).unwrap();
        symlink("ring", dir.join("ring")).unwrap();
        mode("safe", 0o755);
        mode("group", 0o775);
        mode("sticky", 0o1777);
        let trusted = [0, own];
        let no_user = [u32::MAX];
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], &str)] = &[
            ("safe/site",       &trusted, "safe/site"),
            ("safe/site.tar",   &trusted, "safe/site.tar"),
            ("safe/../safe/./site", &trusted, "safe/site"),
            ("link",            &trusted, "safe/site"),
            ("sticky/site",     &trusted, "sticky/site"),
            ("group",           &trusted, "group"),
            ("group/site",      &trusted, "untrusted group"),
            ("safe/through",    &trusted, "untrusted group"),
            ("safe/nothing",    &trusted, "missing safe/nothing"),
            ("dangling",        &trusted, "missing nothing"),
            ("safe/site.tar/x", &trusted, "failed safe/site.tar"),
            ("ring",            &trusted, "failed ring"),
            ("safe/site",       &no_user, "untrusted /"),
        ];
        for (path, trusted, want) in cases {
            let found = TrustedPath::find(&dir.join(path), Some(trusted), |_, _| ());
            let text = match found.end {
                Ok(root) => root.path.printable().to_string(),
                Err(PathBarrier::Missing(at)) => format!("missing {}", at.printable()),
                Err(PathBarrier::Untrusted(Inaccessible { path, .. })) => {
                    format!("untrusted {}", path.printable())
                }
                Err(PathBarrier::Denied(Inaccessible { path, .. })) => format!("denied {}", path.printable()),
                Err(PathBarrier::Failed(at, _)) => format!("failed {}", at.printable()),
            };
            let text = text.replace(&format!("{}/", dir.printable()), "");
            assert_eq!(text, *want, "{path}");
        }
    }

    #[test]
    fn each_step_is_reported_with_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("releases/7")).unwrap();
        symlink("releases/7", dir.join("current")).unwrap();
        let mut names = Vec::new();
        let found = TrustedPath::find(&dir.join("current"), None, |_, name| names.push(name.to_owned()));
        assert_eq!(names[names.len() - 3..], ["current", "releases", "7"]);
        let last = fstat(&*found.last_dir.unwrap()).unwrap();
        assert_eq!(last.st_ino, dir.metadata().unwrap().ino());
    }
}
