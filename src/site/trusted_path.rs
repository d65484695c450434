//! The way to a site: every directory and symbolic link from `/` on, opened name by name.
//!
//! ```text
//! /srv/www/current      / ── srv ── www ── current ─ link ─▶ releases/7 ── releases ── 7 ─▶ the site
//!                       each name: is its directory safe? ─ no ─▶ untrusted
//!                                  may it be searched?    ─ no ─▶ barred
//! ```
//!
//! A builder that is about to become another user goes this way with root's rights, so that a site can lie below a directory closed
//! to that user. It goes only where root, or the user that started the server, decides what lies on the way: if another user could
//! exchange a name, that user could send root into a directory that is closed to both. The site itself is read with the rights of
//! the server's user: its descriptor is opened with `O_PATH` and grants nothing.

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
    path::{Component, Path, PathBuf},
    sync::Arc,
};
use tarpon_pack::{Barrier, Tree};

/// How far a path leads.
pub(crate) struct TrustedPath {
    /// The site, or what stops the way.
    pub(crate) end: Result<SiteRoot, PathBarrier>,
    /// The directory that the last name of the path stands in.
    pub(crate) last_dir: Option<Arc<OwnedFd>>,
}

/// A directory or archive that was opened by its path once, and is read by its descriptor.
#[derive(Debug)]
pub(crate) struct SiteRoot {
    kind: PathKind,
    /// Absolute, without links.
    path: PathBuf,
    /// As it was given.
    given: PathBuf,
}

#[derive(Debug)]
enum PathKind {
    Directory(OwnedFd),
    File(OwnedFd),
}

/// What stops a way.
#[derive(Debug)]
pub(crate) enum PathBarrier {
    /// Nothing lies at this path.
    Missing(PathBuf),
    /// Another user may exchange what lies in this directory, or owns this link.
    Untrusted(Barrier),
    /// This process may not search this directory.
    Denied(Barrier),
    /// The system says so.
    Failed(PathBuf, io::Error),
}

impl TrustedPath {
    /// Goes the way of an absolute path. `trusted`: the users that may decide what lies on it; `None`: all. Calls `saw` for each name
    /// before it is looked up, with the directory it stands in.
    pub(crate) fn find(
        path: &Path,
        trusted: Option<&[u32]>,
        mut saw: impl FnMut(BorrowedFd<'_>, &OsStr),
    ) -> TrustedPath {
        let mut last_dir = None;
        let end = go(path, trusted, |dir, name, is_last| {
            saw(dir.as_fd(), name);
            if is_last {
                last_dir = Some(Arc::clone(dir));
            }
        });
        TrustedPath { end, last_dir }
    }
}

fn go(
    given: &Path,
    trusted: Option<&[u32]>,
    mut saw: impl FnMut(&Arc<OwnedFd>, &OsStr, bool),
) -> Result<SiteRoot, PathBarrier> {
    let is_trusted = |stat: &Stat| trusted.is_none_or(|users| users.contains(&stat.st_uid));
    let root =
        rustix::fs::open("/", STEP, Mode::empty()).map_err(|error| PathBarrier::of("/".into(), error))?;
    let mut dirs = vec![Arc::new(root)];
    let mut at = PathBuf::from("/");
    let mut todo = reversed(given);
    let (mut is_own, mut link_count) = (true, 0);
    while let Some(name) = todo.pop() {
        let is_last = todo.is_empty() && is_own;
        is_own &= !todo.is_empty();
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
        if !is_trusted(&stat) || trusted.is_some() && others_may_exchange(&stat) {
            return Err(PathBarrier::Untrusted(Barrier::new(at, &stat)));
        }
        saw(&dir, &name, is_last);
        let next = at.join(&name);
        let failed = |error| match error {
            Errno::ACCESS => PathBarrier::Denied(Barrier::new(at.clone(), &stat)),
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
                    return Err(PathBarrier::Untrusted(Barrier::new(next, &found)));
                }
                let target = readlinkat(&*dir, &name, Vec::new()).map_err(failed)?;
                todo.extend(reversed(Path::new(&OsString::from_vec(target.into_bytes()))));
            }
            FileType::Directory => {
                let dir = openat(&*dir, &name, STEP, Mode::empty()).map_err(failed)?;
                dirs.push(Arc::new(dir));
                at = next;
            }
            _ if !todo.is_empty() => return Err(PathBarrier::of(next, Errno::NOTDIR)),
            _ => {
                let flags = STEP.difference(OFlags::DIRECTORY);
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
    /// The directory, to be read; `None`: it is a file.
    pub(crate) fn tree(&self) -> io::Result<Option<Tree>> {
        let PathKind::Directory(dir) = &self.kind else { return Ok(None) };
        Ok(Some(Tree::new(dir.try_clone()?, self.path.clone()).also_called(self.given.clone())))
    }

    /// The file, opened for reading with the rights that this process has now.
    ///
    /// # Errors
    /// It is a directory, may not be read, or there is no `/proc`.
    pub(crate) fn file(&self) -> io::Result<File> {
        match &self.kind {
            PathKind::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
            PathKind::File(file) => reopen(file),
        }
    }

    /// What keeps this process from reading the site, if permissions of its root do.
    pub(crate) fn barrier(&self) -> Option<Barrier> {
        let opened = match &self.kind {
            PathKind::Directory(dir) => {
                openat(dir, ".", LIST, Mode::empty()).map(drop).map_err(io::Error::from)
            }
            PathKind::File(file) => reopen(file).map(drop),
        };
        opened.err().filter(|error| error.kind() == io::ErrorKind::PermissionDenied)?;
        Some(Barrier::new(self.path.clone(), &fstat(self.descriptor()).ok()?))
    }

    /// Whether it is an archive.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, PathKind::File(_))
    }

    /// The directory or archive, which is not open for reading.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.kind {
            PathKind::Directory(fd) | PathKind::File(fd) => fd.as_fd(),
        }
    }

    /// A path to the directory that needs no rights on the way: proc(5), `/proc/self/fd`. `None`: it is a file.
    pub(crate) fn reopen_path(&self) -> Option<PathBuf> {
        match &self.kind {
            PathKind::Directory(dir) => Some(fd_path(dir).join(".")),
            PathKind::File(_) => None,
        }
    }
}

/// Opens what lies at a path, only to name it: it is neither read nor written. Follows links.
pub(crate) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = STEP.difference(OFlags::DIRECTORY | OFlags::NOFOLLOW) | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a file for reading that [`open_to_name`] has opened. Does not wait for the writer of a FIFO.
pub(crate) fn reopen(file: &OwnedFd) -> io::Result<File> {
    Ok(rustix::fs::open(fd_path(file), READ, Mode::empty())?.into())
}

/// A path to what a descriptor means, for this process alone.
pub(crate) fn fd_path(fd: &OwnedFd) -> PathBuf {
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

/// Whether another user than its owner may put something else in the place of what lies in a directory. In a sticky one only the
/// owners of both may: unlink(2), EPERM. An access list shows in the bits of the group: acl(5).
fn others_may_exchange(dir: &Stat) -> bool {
    let mode = Mode::from_raw_mode(dir.st_mode);
    mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX)
}

/// The names of a path, the first one last. The root of the file system is the name `/`.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|component| *component != Component::CurDir);
    names.map(|component| component.as_os_str().to_owned()).collect()
}

/// A directory on the way, which need not be readable.
const STEP: OFlags = STEP_MODE.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
const STEP_MODE: OFlags = OFlags::PATH;
/// There is no `O_PATH`: directories on the way have to be readable.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
const STEP_MODE: OFlags = OFlags::RDONLY;

const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// As many as the kernel follows: path_resolution(7).
const LINK_COUNT_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };
    use tarpon_site::Printable;

    #[test]
    fn a_way_is_trusted_as_long_as_no_other_user_decides_it() {
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
        let nobody_at_all = [u32::MAX];
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
            ("safe/site",       &nobody_at_all, "untrusted /"),
        ];
        for (path, trusted, want) in cases {
            let way = TrustedPath::find(&dir.join(path), Some(trusted), |_, _| ());
            let said = match way.end {
                Ok(root) => root.path.printable().to_string(),
                Err(PathBarrier::Missing(at)) => format!("missing {}", at.printable()),
                Err(PathBarrier::Untrusted(Barrier { path, .. })) => {
                    format!("untrusted {}", path.printable())
                }
                Err(PathBarrier::Denied(Barrier { path, .. })) => format!("barred {}", path.printable()),
                Err(PathBarrier::Failed(at, _)) => format!("failed {}", at.printable()),
            };
            let said = said.replace(&format!("{}/", dir.printable()), "");
            assert_eq!(said, *want, "{path}");
        }
    }

    #[test]
    fn each_name_on_the_way_is_shown_with_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("releases/7")).unwrap();
        symlink("releases/7", dir.join("current")).unwrap();
        let mut names = Vec::new();
        let way = TrustedPath::find(&dir.join("current"), None, |_, name| names.push(name.to_owned()));
        assert_eq!(names[names.len() - 3..], ["current", "releases", "7"]);
        let last = fstat(&*way.last_dir.unwrap()).unwrap();
        assert_eq!(last.st_ino, dir.metadata().unwrap().ino());
    }
}
