//! A directory with everything below it, read by descriptor: every step is an `openat` of one name, and the kernel follows no
//! symbolic link.
//!
//! ```text
//! DirTree ── root, a descriptor
//!   │  docs ── openat(root, "docs", O_NOFOLLOW)
//!   └─   a.html ── openat(docs, "a.html", O_NOFOLLOW)
//! link ── readlinkat ── its target, name by name from the root ── outside │ dangling │ loop │ a path below the root without links
//!                                                                   └ in a tree of `with_links`: a path below the root of that tree
//! ```
//!
//! A path in the tree is relative to the root and contains no symbolic link. If another process replaces one of its directories by
//! a link later, opening the path fails. With an absolute path, `O_NOFOLLOW` would protect the last component only.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tarpon_site::Printable;

/// An open directory with everything below it.
#[derive(Debug)]
pub struct DirTree {
    root: Arc<OwnedFd>,
    /// Its absolute path without links, for messages and for resolving absolute links.
    path: PathBuf,
    /// Another absolute path of the root, which links may use: the path that the caller opened.
    alias: PathBuf,
    /// The trees that symbolic links may lead into.
    links: Vec<Arc<DirTree>>,
    /// The directory that was opened last: files come directory by directory.
    last: Mutex<Option<(PathBuf, Arc<OwnedFd>)>>,
}

/// A path without symbolic links, in a tree or in one of those that its links may lead into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePath {
    /// 0: the tree itself. Others count the trees of [`DirTree::with_links`] from 1.
    pub(crate) tree: usize,
    /// Relative to the root of that tree.
    pub(crate) path: PathBuf,
}

impl TreePath {
    /// Returns a path in the tree itself.
    pub(crate) fn own(path: impl Into<PathBuf>) -> TreePath {
        TreePath { tree: 0, path: path.into() }
    }
}

/// An entry of a directory.
#[derive(Debug)]
pub(crate) struct DirEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) file_type: FileType,
}

/// Why a symbolic link leads to no entry of the tree.
#[derive(Debug)]
pub(crate) enum ResolveError {
    /// Leads to this absolute path.
    Outside(PathBuf),
    Dangling,
    Loop,
    Unreadable(io::Error),
}

/// A file or directory that this process may not read or search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inaccessible {
    /// Its path.
    pub path: PathBuf,
    /// Its owner.
    pub uid: u32,
    /// Its permissions: the last nine bits of the mode, and the set-id and sticky bits.
    pub mode: u32,
    /// Whether it is a directory.
    pub is_dir: bool,
}

impl DirTree {
    /// Opens the directory at a path. Follows symbolic links in the path.
    ///
    /// # Errors
    /// The path does not exist, is no directory, or this process may not search one of its directories.
    pub fn open(path: &Path) -> io::Result<DirTree> {
        let root = rustix::fs::open(path, OPEN_DIR.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let real = path.canonicalize()?;
        Ok(DirTree { alias: std::path::absolute(path)?, ..DirTree::new(root, real) })
    }

    /// Takes an open directory, and its absolute path without links.
    pub fn new(root: OwnedFd, path: PathBuf) -> DirTree {
        DirTree { root: Arc::new(root), alias: path.clone(), path, links: Vec::new(), last: Mutex::new(None) }
    }

    /// Returns the same tree, whose symbolic links may lead into these trees too, and from there into each of them.
    #[must_use]
    pub fn with_links(self, links: Vec<DirTree>) -> DirTree {
        DirTree { links: links.into_iter().map(Arc::new).collect(), ..self }
    }

    /// Returns the trees that symbolic links may lead into.
    pub(crate) fn links(&self) -> &[Arc<DirTree>] {
        &self.links
    }

    /// Returns the tree with a number of [`TreePath`].
    pub(crate) fn numbered(&self, number: usize) -> &DirTree {
        number.checked_sub(1).map_or(self, |link| &self.links[link])
    }

    /// Returns the tree that contains an absolute path without links, and the path there.
    fn locate<'p>(&self, at: &'p Path) -> Option<(usize, &'p Path)> {
        (0..=self.links.len())
            .find_map(|number| Some((number, at.strip_prefix(&self.numbered(number).path).ok()?)))
    }

    /// Returns the same tree with another absolute path that symbolic links may use for the root.
    #[must_use]
    pub fn with_alias(self, alias: PathBuf) -> DirTree {
        DirTree { alias, ..self }
    }

    /// Returns the absolute path of the root, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor of the root, which need not be open for reading.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns the tree below one of its directories.
    pub(crate) fn subtree(&self, path: &Path) -> io::Result<DirTree> {
        let root = match path.as_os_str().is_empty() {
            true => self.root.try_clone()?,
            false => self.open_dir(path)?.try_clone()?,
        };
        Ok(DirTree::new(root, self.path.join(path)))
    }

    /// Returns the absolute path of an entry, for messages.
    pub(crate) fn full_path(&self, path: &Path) -> PathBuf {
        // Joining an empty path would add a slash.
        if path.as_os_str().is_empty() { self.path.clone() } else { self.path.join(path) }
    }

    /// Lists a directory, up to `count_max` entries.
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
            let file_type = match entry.file_type() {
                // Some file systems do not report the type here.
                FileType::Unknown => match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                file_type => file_type,
            };
            entries.push(DirEntry { name: name.to_bytes().to_vec(), file_type });
        }
        Ok((dir.metadata()?, entries))
    }

    /// Returns the type of the entry at a path.
    pub(crate) fn file_type(&self, path: &Path) -> io::Result<FileType> {
        let Some((above, name)) = self.parent(path)? else { return Ok(FileType::Directory) };
        Ok(FileType::from_raw_mode(statat(&*above, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
    }

    /// Returns the length in bytes of the file at a path, or `None` if the file cannot be examined.
    pub(crate) fn file_len(&self, path: &Path) -> Option<u64> {
        let (above, name) = self.parent(path).ok()??;
        let stat = statat(&*above, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        u64::try_from(stat.st_size).ok()
    }

    /// Opens a regular file. Returns `None` if the path no longer exists, or is no regular file.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<Option<(File, Metadata)>> {
        let opened = self.parent(path).and_then(|parent| match parent {
            Some((above, name)) => Ok(openat(&*above, name, READ, Mode::empty())?),
            None => Err(io::ErrorKind::IsADirectory.into()),
        });
        let file = match opened {
            Ok(file) => File::from(file),
            Err(error) if NO_REGULAR_FILE.iter().any(|&errno| is_errno(&error, errno)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        Ok(meta.is_file().then_some((file, meta)))
    }

    /// Resolves a path that may contain symbolic links to a path in the tree, or in one that its links may lead into. Follows links
    /// name by name as long as they stay below these roots. A link that leaves a root and returns by its absolute path stays below it.
    pub(crate) fn resolve(&self, path: &TreePath) -> Result<TreePath, ResolveError> {
        let mut todo: Vec<OsString> = reversed_components(&path.path);
        let mut at = self.numbered(path.tree).path.clone();
        let mut link_count = 0;
        while let Some(name) = todo.pop() {
            match name.as_bytes() {
                b"/" => at = PathBuf::from("/"),
                b".." => drop(at.pop()),
                _ => at.push(&name),
            }
            let mut trees = (0..=self.links.len()).map(|number| self.numbered(number));
            if let Some(tree) = trees.find(|tree| at == tree.alias) {
                at.clone_from(&tree.path);
            }
            // Reads entries below the roots only.
            let (tree, below) = match self.locate(&at) {
                Some((tree, below)) if !below.as_os_str().is_empty() && name != ".." => (tree, below),
                _ => continue,
            };
            if let Some(target) = self.numbered(tree).link_target(below).map_err(ResolveError::from)? {
                link_count += 1;
                if link_count > LINK_COUNT_MAX {
                    return Err(ResolveError::Loop);
                }
                at.pop();
                todo.extend(reversed_components(&target));
            }
        }
        match self.locate(&at) {
            Some((tree, below)) => Ok(TreePath { tree, path: below.to_owned() }),
            None => Err(ResolveError::Outside(at)),
        }
    }

    /// Returns the target of a symbolic link, or `None` if the entry is no link.
    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let Some((above, name)) = self.parent(path)? else { return Ok(None) };
        match readlinkat(&*above, name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the first directory on a path that this process may not search, or else the entry at the path.
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
            dir = openat(&dir, *name, OPEN_DIR, Mode::empty()).ok()?;
        }
        Some(Inaccessible::new(at, &rustix::fs::fstat(&dir).ok()?))
    }

    /// Returns the directory that contains an entry, and the name of the entry there. `None`: the path is that of the root.
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
            dir = Arc::new(openat(&*dir, name, OPEN_DIR, Mode::empty())?);
        }
        *last = Some((path.to_owned(), Arc::clone(&dir)));
        Ok(dir)
    }
}

impl Inaccessible {
    /// A file or directory with these attributes.
    pub fn new(path: PathBuf, stat: &Stat) -> Inaccessible {
        let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
        #[allow(clippy::unnecessary_cast, reason = "16 bits on other systems")]
        let mode = stat.st_mode as u32;
        Inaccessible { path, uid: stat.st_uid, mode: mode & 0o7777, is_dir }
    }
}

impl fmt::Display for Inaccessible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inaccessible { path, uid, mode, .. } = self;
        let owner = if *uid == 0 { "root".to_owned() } else { format!("user number {uid}") };
        write!(f, "{} (owned by {owner}, mode {mode:04o})", path.printable())
    }
}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> ResolveError {
        if is_not_found(&error) { ResolveError::Dangling } else { ResolveError::Unreadable(error) }
    }
}

/// Returns the components of a path, the last one first, without `.`. The root of the file system is the component `/`.
pub fn reversed_components(path: &Path) -> Vec<OsString> {
    let components = path.components().rev().filter(|component| *component != Component::CurDir);
    components.map(|component| component.as_os_str().to_owned()).collect()
}

/// Returns whether the entry does not exist. An entry may vanish after its directory was listed.
pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns whether the system reported this error.
pub(crate) fn is_errno(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

/// Opens a directory in order to open an entry of it; the directory need not be readable. `O_NOFOLLOW` with `O_DIRECTORY` refuses a
/// symbolic link.
pub const OPEN_DIR: OFlags = SEARCH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
const SEARCH: OFlags = OFlags::PATH;
/// There is no `O_PATH`: each directory on a path must be readable.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
const SEARCH: OFlags = OFlags::RDONLY;

/// Opens a directory for listing.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a file for reading: follows no link, does not wait for the writer of a FIFO, and takes no controlling terminal.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Errors of opening a path that no longer exists, or is now a link, a socket or a directory. For a link, Linux and macOS return
/// ELOOP and FreeBSD EMLINK; for a socket, Linux returns ENXIO and the others EOPNOTSUPP.
const NO_REGULAR_FILE: [Errno; 7] =
    [Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::MLINK, Errno::NXIO, Errno::OPNOTSUPP];

/// The number of symbolic links that the resolution of one path may follow, as in the kernel: path_resolution(7).
pub const LINK_COUNT_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Resolves the same path by the kernel. Returns `None` if the result is not below the root.
    fn resolved_by_kernel(root: &Path, path: &str) -> Option<PathBuf> {
        let real = root.join(path).canonicalize().ok()?;
        real.strip_prefix(root.canonicalize().expect("a root")).ok().map(Path::to_owned)
    }

    #[test]
    fn resolves_each_path_as_the_kernel_does() {
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
            let found = tree.resolve(&TreePath::own(path));
            match resolved_by_kernel(&root, path) {
                Some(want) => assert_eq!(found.expect(path), TreePath::own(want), "{path}"),
                // The path ends below the root, so tarpon serves it. The kernel fails: `secret` on this path is no directory.
                None if path == "through-out" => assert_eq!(found.expect(path), TreePath::own("a")),
                None => drop(found.expect_err(path)),
            }
        }
    }

    #[test]
    fn absolute_link_may_use_the_path_that_opened_the_root() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("real/a")).expect("directories");
        symlink("real", dir.path().join("name")).expect("a link");
        symlink(dir.path().join("name/a"), dir.path().join("real/link")).expect("a link");
        let tree = DirTree::open(&dir.path().join("name")).expect("a tree");
        assert_eq!(tree.resolve(&TreePath::own("link")).expect("inside"), TreePath::own("a"));
    }

    #[test]
    fn link_may_lead_into_a_named_tree_and_from_there_into_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("a directory");
        for name in ["site/static", "share/js/jquery", "share/real", "share/js-two", "secret"] {
            fs::create_dir_all(top.join(name)).expect("directories");
        }
        for name in ["share/js/jquery/jquery.js", "share/real/real.js", "secret/key"] {
            fs::write(top.join(name), "x").expect("a file");
        }
        symlink("share", top.join("alias")).expect("a link");
        let absolute = |path: &str| top.join(path).to_str().expect("text").to_owned();
        let links: &[(&str, &str)] = &[
            ("site/static/relative", "../../share/js/jquery/jquery.js"),
            ("site/static/absolute", &absolute("share/js/jquery/jquery.js")),
            ("site/static/by-alias", &absolute("alias/js/jquery")),
            ("site/static/dir", "../../share/js/jquery"),
            ("site/static/chain", "../../share/js/first"),
            ("site/static/to-secret", "../../secret/key"),
            ("site/static/to-secret-by-tree", "../../share/js/secret"),
            ("site/static/name-prefix", "../../share/js-two"),
            ("site/static/up", "../../share/js/.."),
            ("site/static/nothing", "../../share/js/nothing"),
            ("share/js/first", "second"),
            ("share/js/second", "../real/real.js"),
            ("share/js/secret", "../../secret/key"),
            ("share/js/back", &absolute("site/static")),
            ("share/js/ring", "ring"),
            ("site/ring", "../share/js/ring"),
        ];
        for (link, target) in links {
            symlink(target, top.join(link)).expect(link);
        }
        let open = |path: &str| DirTree::open(&top.join(path)).expect("a tree");
        // Opened by another path than the canonical one.
        let trees = vec![open("alias/js"), open("share/real")];
        let tree = open("site").with_links(trees);
        let at = |tree, path: &str| Some(TreePath { tree, path: path.into() });
        #[rustfmt::skip]
        let cases: &[(TreePath, Option<TreePath>)] = &[
            (TreePath::own("static/relative"),               at(1, "jquery/jquery.js")),
            (TreePath::own("static/absolute"),               at(1, "jquery/jquery.js")),
            (TreePath::own("static/dir"),                    at(1, "jquery")),
            (TreePath::own("static/dir/jquery.js"),          at(1, "jquery/jquery.js")),
            (TreePath::own("static/chain"),                  at(2, "real.js")),
            (TreePath { tree: 1, path: "back".into() },      at(0, "static")),
            (TreePath { tree: 1, path: "back/dir".into() },  at(1, "jquery")),
            (TreePath { tree: 1, path: "second".into() },    at(2, "real.js")),
            // Only the whole path that opened a tree stands for it.
            (TreePath::own("static/by-alias"),               at(1, "jquery")),
            (TreePath::own("static/to-secret"),              None),
            (TreePath::own("static/to-secret-by-tree"),      None),
            (TreePath::own("static/name-prefix"),            None),
            (TreePath::own("static/up"),                     None),
            (TreePath::own("static/nothing"),                None),
            (TreePath::own("ring"),                          None),
        ];
        for (path, want) in cases {
            let found = tree.resolve(path);
            assert_eq!(found.as_ref().ok(), want.as_ref(), "{path:?} {found:?}");
            // The kernel comes to the same file.
            if let Some(TreePath { tree: number, path: below }) = want {
                let by_kernel =
                    tree.numbered(path.tree).path.join(&path.path).canonicalize().expect("a file");
                assert_eq!(tree.numbered(*number).full_path(below), by_kernel, "{path:?}");
            }
        }
        let Err(ResolveError::Outside(target)) = tree.resolve(&TreePath::own("static/to-secret-by-tree"))
        else {
            panic!("not outside");
        };
        assert_eq!(target, top.join("secret/key"));
    }

    #[test]
    fn directory_replaced_by_a_link_is_not_followed() {
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
