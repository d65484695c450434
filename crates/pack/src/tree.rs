//! A directory with all below it, read by descriptor: every step is an `openat` of one name, and the kernel follows no symbolic link.
//!
//! ```text
//! Tree ── root, a descriptor
//!   │  docs ── openat(root, "docs", O_NOFOLLOW)
//!   └─   a.html ── openat(docs, "a.html", O_NOFOLLOW)
//! link ── readlinkat ── its target, name by name from the root ── outside │ dangling │ loop │ a path below the root without links
//! ```
//!
//! A path below is relative to the root and has no link on the way. If another process exchanges one of its directories for a link
//! later, opening the path fails: `O_NOFOLLOW` on an absolute name would guard its last component alone.

use crate::error::{Inaccessible, PackError};
use crate::walk::is_errno;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A directory, opened.
#[derive(Debug)]
pub struct DirTree {
    root: Arc<OwnedFd>,
    /// Without links, for messages and for links that are absolute.
    path: PathBuf,
    /// Another absolute name of the root, which links may use: the one it was opened by.
    alias: PathBuf,
    /// The directory that was opened last: files come directory by directory.
    last: Mutex<Option<(PathBuf, Arc<OwnedFd>)>>,
}

/// A file of a tree.
#[derive(Clone, Debug)]
pub(crate) struct TreeFile {
    pub(crate) tree: Arc<DirTree>,
    /// Below its root, with no symbolic link on the way.
    pub(crate) path: PathBuf,
}

/// An entry of a directory.
#[derive(Debug)]
pub(crate) struct DirEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: FileType,
}

/// Where a symbolic link does not lead.
#[derive(Debug)]
pub(crate) enum ResolveError {
    Outside,
    Dangling,
    Loop,
    Unreadable(io::Error),
}

impl DirTree {
    /// Opens the directory at a path. Follows links on the way to it.
    ///
    /// # Errors
    /// It is missing, no directory, or may not be reached.
    pub fn open(path: &Path) -> io::Result<DirTree> {
        let root = rustix::fs::open(path, STEP.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let real = path.canonicalize()?;
        Ok(DirTree { alias: std::path::absolute(path)?, ..DirTree::new(root, real) })
    }

    /// A directory that is open, with its absolute path without links.
    pub fn new(root: OwnedFd, path: PathBuf) -> DirTree {
        DirTree { root: Arc::new(root), alias: path.clone(), path, last: Mutex::new(None) }
    }

    /// The same directory, which links may call by this absolute name too.
    #[must_use]
    pub fn with_alias(self, alias: PathBuf) -> DirTree {
        DirTree { alias, ..self }
    }

    /// Its absolute path, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor, which need not be readable.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The tree below one of its directories.
    pub(crate) fn subtree(&self, path: &Path) -> io::Result<DirTree> {
        let root = match path.as_os_str().is_empty() {
            true => self.root.try_clone()?,
            false => self.open_dir(path)?.try_clone()?,
        };
        Ok(DirTree::new(root, self.path.join(path)))
    }

    /// Where a path of it lies, for messages.
    pub(crate) fn full_path(&self, path: &Path) -> PathBuf {
        // Joining nothing would add a slash.
        if path.as_os_str().is_empty() { self.path.clone() } else { self.path.join(path) }
    }

    /// Lists a directory, at most `count_max` entries of it.
    pub(crate) fn list(&self, path: &Path, count_max: usize) -> io::Result<(Metadata, Vec<DirEntry>)> {
        let dir = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => openat(&*self.open_dir(above)?, name, LIST, Mode::empty())?,
            _ => openat(&*self.root, ".", LIST, Mode::empty())?,
        };
        let dir = File::from(dir);
        let mut entries = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entries.len() == count_max {
                break;
            }
            let kind = match entry.file_type() {
                // Not every file system tells.
                FileType::Unknown => match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                kind => kind,
            };
            entries.push(DirEntry { name: name.to_bytes().to_vec(), kind });
        }
        Ok((dir.metadata()?, entries))
    }

    /// Returns the kind of the entry at a path.
    pub(crate) fn kind(&self, path: &Path) -> io::Result<FileType> {
        let Some((above, name)) = self.parent(path)? else { return Ok(FileType::Directory) };
        Ok(FileType::from_raw_mode(statat(&*above, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
    }

    /// Opens a regular file. Returns `None` if the path now leads to nothing, or to anything else.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<Option<(File, Metadata)>> {
        let opened = self.parent(path).and_then(|parent| match parent {
            Some((above, name)) => Ok(openat(&*above, name, READ, Mode::empty())?),
            None => Err(io::ErrorKind::IsADirectory.into()),
        });
        let file = match opened {
            Ok(file) => File::from(file),
            Err(error) if OTHER.iter().any(|&errno| is_errno(&error, errno)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        Ok(meta.is_file().then_some((file, meta)))
    }

    /// Resolves a path that may have symbolic links on the way to a path below the root without any. Follows links name by name, as
    /// long as they stay below the root; a link that leaves the root and comes back by the root's own name stays below it.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, ResolveError> {
        let mut todo: Vec<OsString> = reversed(path);
        let mut at = self.path.clone();
        let mut link_count = 0;
        while let Some(name) = todo.pop() {
            match name.as_bytes() {
                b"/" => at = PathBuf::from("/"),
                b".." => drop(at.pop()),
                _ => at.push(&name),
            }
            if at == self.alias {
                at.clone_from(&self.path);
            }
            // Only what lies below the root is looked at.
            let below = match at.strip_prefix(&self.path) {
                Ok(below) if !below.as_os_str().is_empty() && name != ".." => below,
                _ => continue,
            };
            if let Some(target) = self.link_target(below).map_err(ResolveError::from)? {
                link_count += 1;
                if link_count > LINK_COUNT_MAX {
                    return Err(ResolveError::Loop);
                }
                at.pop();
                todo.extend(reversed(&target));
            }
        }
        match at.strip_prefix(&self.path) {
            Ok(below) => Ok(below.to_owned()),
            Err(_) => Err(ResolveError::Outside),
        }
    }

    /// Returns the target of a symbolic link, or `None` if the path is no link.
    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let Some((above, name)) = self.parent(path)? else { return Ok(None) };
        match readlinkat(&*above, name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What keeps this process from reading a path, if permissions do.
    pub(crate) fn inaccessible_part(&self, path: &Path) -> Option<Inaccessible> {
        let names: Vec<&OsStr> = path.iter().collect();
        let mut dir = self.root.try_clone().ok()?;
        let mut at = self.path.clone();
        for (number, name) in names.iter().enumerate() {
            let Ok(stat) = statat(&dir, *name, AtFlags::SYMLINK_NOFOLLOW) else {
                let stat = rustix::fs::fstat(&dir).ok()?;
                return Some(Inaccessible::new(at, &stat));
            };
            at.push(name);
            if number + 1 == names.len() {
                return Some(Inaccessible::new(at, &stat));
            }
            dir = openat(&dir, *name, STEP, Mode::empty()).ok()?;
        }
        Some(Inaccessible::new(at, &rustix::fs::fstat(&dir).ok()?))
    }

    /// The directory that a path lies in, and its name there; `None`: the path is that of the root.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<Option<(Arc<OwnedFd>, &'p OsStr)>> {
        match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => Ok(Some((self.open_dir(above)?, name))),
            _ => Ok(None),
        }
    }

    /// Opens a directory, one name after the other.
    fn open_dir(&self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, dir)) = &*last
            && known == path
        {
            return Ok(Arc::clone(dir));
        }
        let mut dir = Arc::clone(&self.root);
        for name in path {
            dir = Arc::new(openat(&*dir, name, STEP, Mode::empty())?);
        }
        *last = Some((path.to_owned(), Arc::clone(&dir)));
        Ok(dir)
    }
}

impl TreeFile {
    pub(crate) fn open(&self) -> Result<Option<(File, Metadata)>, PackError> {
        self.tree.open_file(&self.path).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn unreadable(&self, error: io::Error) -> PackError {
        PackError::unreadable(&self.tree, &self.path, error)
    }

    /// In bytes, if it is there.
    pub(crate) fn len(&self) -> Option<u64> {
        let (above, name) = self.tree.parent(&self.path).ok()??;
        let stat = statat(&*above, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        u64::try_from(stat.st_size).ok()
    }

    /// For messages.
    pub(crate) fn name(&self) -> PathBuf {
        self.tree.full_path(&self.path)
    }
}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> ResolveError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ResolveError::Dangling,
            _ => ResolveError::Unreadable(error),
        }
    }
}

/// The names of a path, the first one last. The root of the file system is the name `/`.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|component| *component != Component::CurDir);
    names.map(|component| component.as_os_str().to_owned()).collect()
}

/// A directory on the way: it need not be readable. `O_NOFOLLOW` with `O_DIRECTORY` refuses a link.
const STEP: OFlags = STEP_MODE.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
const STEP_MODE: OFlags = OFlags::PATH;
/// There is no `O_PATH`: directories on the way have to be readable.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
const STEP_MODE: OFlags = OFlags::RDONLY;

/// A directory whose entries are read.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file: no link is followed, no FIFO waited for, no terminal taken.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Not what was listed, but nothing, a link, a socket or a directory: Linux and macOS answer ELOOP for a link and FreeBSD EMLINK;
/// Linux answers ENXIO for a socket and the others EOPNOTSUPP.
const OTHER: [Errno; 7] =
    [Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::MLINK, Errno::NXIO, Errno::OPNOTSUPP];

/// Links that one path may lead through, as the kernel has it: path_resolution(7).
const LINK_COUNT_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// What the kernel says of the same path, as far as it stays below the root.
    fn oracle(root: &Path, path: &str) -> Option<PathBuf> {
        let real = root.join(path).canonicalize().ok()?;
        real.strip_prefix(root.canonicalize().expect("a root")).ok().map(Path::to_owned)
    }

    #[test]
    fn a_path_leads_where_the_kernel_says_or_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("site");
        fs::create_dir_all(root.join("a/b")).expect("directories");
        fs::create_dir(root.join(".releases")).expect("a directory");
        fs::write(root.join("a/b/file"), "x").expect("a file");
        fs::write(dir.path().join("secret"), "x").expect("a file");
        let links: &[(&str, &str)] = &[
            ("down", "a/b"),
            ("up", "a/../a/b/file"),
            ("a/home", ".."),
            ("a/abs", root.to_str().expect("text")),
            ("chain", "down/file"),
            ("hidden", ".releases"),
            ("out", "../secret"),
            ("back", "../site/a"),
            ("absolute-out", "/etc/passwd"),
            ("dangling", "nothing"),
            ("self", "self"),
            ("ring", "a/ring"),
            ("a/ring", "../ring"),
            ("through-out", "../secret/../site/a"),
        ];
        for (link, target) in links {
            symlink(target, root.join(link)).expect(link);
        }
        let tree = DirTree::open(&root).expect("a tree");
        let more =
            ["", "a", "a/b/file", "a/home/a/abs/down/file", "a/b/../b", "nothing/x", "down/nothing", "out/x"];
        for path in links.iter().map(|(link, _)| *link).chain(more) {
            let found = tree.resolve(Path::new(path));
            match oracle(&root, path) {
                Some(want) => assert_eq!(found.expect(path), want, "{path}"),
                // Lexically the path comes back; the kernel finds no directory on the way. tarpon serves it, as it ends below the root.
                None if path == "through-out" => assert_eq!(found.expect(path), Path::new("a")),
                None => drop(found.expect_err(path)),
            }
        }
    }

    #[test]
    fn the_root_may_be_called_by_the_name_it_was_opened_by() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("real/a")).expect("directories");
        symlink("real", dir.path().join("name")).expect("a link");
        symlink(dir.path().join("name/a"), dir.path().join("real/link")).expect("a link");
        let tree = DirTree::open(&dir.path().join("name")).expect("a tree");
        assert_eq!(tree.resolve(Path::new("link")).expect("inside"), Path::new("a"));
    }

    #[test]
    fn what_became_a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("site/docs")).expect("directories");
        fs::create_dir(at("outside")).expect("a directory");
        fs::write(at("site/docs/file"), "inside").expect("a file");
        fs::write(at("outside/file"), "secret").expect("a file");
        let tree = DirTree::open(&at("site")).expect("a tree");
        fs::rename(at("site/docs"), at("site/old")).expect("renamed");
        symlink(at("outside"), at("site/docs")).expect("a link");
        assert!(tree.open_file(Path::new("docs/file")).expect("not there").is_none());
        assert!(tree.list(Path::new("docs"), 9).is_err());
    }
}
