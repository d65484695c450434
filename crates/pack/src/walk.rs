//! Lists the files of a site and their paths: of a directory, or of an archive (`archive.rs`).
//!
//! ```text
//! entry ─┬─ file ───────────────────────────▶ listed
//!        ├─ directory ──────────────────────▶ its entries
//!        ├─ symbolic link below the root, or below that of a tree which links may lead into ─▶ its target
//!        └─ anything else ──────────────────▶ skipped, and counted
//! ```
//!
//! Entries come in the order of their names, so the same directory gives the same image. Names are bytes, UTF-8 or not, like the
//! decoded path of a request.

use crate::error::PackError;
use crate::repeats::RepeatedEntries;
use crate::skip::{SkipReason, Skipped, skip_link, skip_path};
use crate::tree::{DirTree, ResolveError, TreePath, is_errno, is_not_found};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::hash::Hash;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use tarpon_site::format::PATH_LEN_MAX;

/// The files and directories of a site. `F` locates a file.
pub(crate) struct SiteFiles<F> {
    pub(crate) files: Vec<SiteFile<F>>,
    pub(crate) dirs: Vec<SiteDir>,
    pub(crate) skipped: Vec<Skipped>,
    /// The paths of directories and links that cannot be read; that of a directory ends with a slash.
    pub(crate) unreadable: Vec<Vec<u8>>,
}

impl<F> Default for SiteFiles<F> {
    fn default() -> SiteFiles<F> {
        SiteFiles { files: Vec::new(), dirs: Vec::new(), skipped: Vec::new(), unreadable: Vec::new() }
    }
}

/// A file of a site.
pub(crate) struct SiteFile<F> {
    /// Its path, decoded: begins with one slash.
    pub(crate) path: Vec<u8>,
    /// Where the packer reads it.
    pub(crate) location: F,
}

/// A directory of a site, other than the root. An image has no entry for it; an archive of the site has one.
#[derive(Debug)]
pub(crate) struct SiteDir {
    /// Begins and ends with a slash.
    pub(crate) path: Vec<u8>,
    pub(crate) mode: u32,
    /// Seconds since 1970; 0 before.
    pub(crate) modified_s: u64,
}

/// A file of a directory on disk.
#[derive(Clone, Debug)]
pub(crate) struct TreeFile {
    pub(crate) tree: Arc<DirTree>,
    /// Its path in the tree, without symbolic links.
    pub(crate) path: PathBuf,
}

impl TreeFile {
    /// Opens the file. Returns `None` if it no longer exists, or is no regular file.
    pub(crate) fn open(&self) -> Result<Option<(File, Metadata)>, PackError> {
        self.tree.open_file(&self.path).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn unreadable(&self, error: io::Error) -> PackError {
        PackError::unreadable(&self.tree, &self.path, error)
    }

    /// Returns its length in bytes, if it exists.
    pub(crate) fn len(&self) -> Option<u64> {
        self.tree.file_len(&self.path)
    }

    /// Returns its absolute path, for messages.
    pub(crate) fn full_path(&self) -> PathBuf {
        self.tree.full_path(&self.path)
    }
}

/// Lists the files of a site. `is_strict`: what cannot be read is an error; otherwise it is skipped.
pub(crate) fn list(tree: &Arc<DirTree>, is_strict: bool) -> Result<SiteFiles<TreeFile>, PackError> {
    let unreadable = (!is_strict).then_some(SkipReason::Unreadable);
    let dir = DirWalk { tree, is_of_user: false, unreadable };
    let files = walk(&dir, TreePath::own(""), b"/", usize::MAX)?;
    Ok(files.expect("the number of entries has no limit"))
}

/// Lists the files of a user directory that is served at `path`. Skips what this process cannot read. Returns `None` if the
/// directory has more than `entry_count_max` entries of any kind.
pub(crate) fn list_user(
    tree: &Arc<DirTree>,
    path: &[u8],
    entry_count_max: usize,
) -> Result<Option<SiteFiles<TreeFile>>, PackError> {
    let unreadable = Some(SkipReason::UserUnreadable);
    walk(&DirWalk { tree, is_of_user: true, unreadable }, TreePath::own(""), path, entry_count_max)
}

/// A tree of entries that [`walk`] can list: a directory on disk, or the members of an archive.
pub(crate) trait EntryTree {
    /// Where an entry lies in the tree, without symbolic links.
    type Location;
    /// Identifies a directory, whichever path leads to it.
    type DirId: Eq + Hash + Clone;
    /// Where the packer reads a file.
    type File;

    /// Lists a directory, sorted by name, up to `count_max` entries.
    fn list(
        &self,
        dir: &Self::Location,
        is_top: bool,
        count_max: usize,
    ) -> Result<DirListing<Self::DirId>, WalkError>;

    /// Returns the location of an entry of a directory.
    fn join(&self, dir: &Self::Location, name: &[u8]) -> Self::Location;

    /// Resolves a symbolic link to its target, which is no link. A component of the target may begin with a dot: a link to
    /// `.releases/7` is intended.
    fn follow(&self, link: &Self::Location) -> Result<(Self::Location, EntryKind), WalkError>;

    /// Returns the location of a file for later reads.
    fn file(&self, location: Self::Location) -> Self::File;

    /// Returns the error for symbolic links that lead to a directory too often.
    fn too_many_repeats(&self, dir: &Self::Location) -> PackError;
}

/// The entries of a directory.
pub(crate) struct DirListing<I> {
    pub(crate) id: I,
    /// Its mode, and the time of its last change in seconds since 1970. `None`: an archive without a member for the directory.
    pub(crate) attributes: Option<(u32, u64)>,
    pub(crate) entries: Vec<(Vec<u8>, EntryKind)>,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Dir,
    Link,
    /// A FIFO, socket or device.
    Special,
}

/// Why an entry cannot be walked.
#[derive(Debug)]
pub(crate) enum WalkError {
    /// Another process removed or replaced it. The next pack sees the new state.
    Vanished,
    Skip(SkipReason),
    /// A symbolic link leads to this path, which lies in no tree that links may lead into.
    LinkOutside(PathBuf),
    Fatal(PackError),
}

/// Lists the files below the directory `top` of a tree, which is served at `path`. Returns `None` if there are more than
/// `entry_count_max` entries.
pub(crate) fn walk<T: EntryTree>(
    tree: &T,
    top: T::Location,
    path: &[u8],
    entry_count_max: usize,
) -> Result<Option<SiteFiles<T::File>>, PackError> {
    let mut walker = Walker {
        tree,
        top: path,
        entries_left: entry_count_max,
        exceeds_limit: false,
        open: Vec::new(),
        listed: HashSet::new(),
        repeats: RepeatedEntries::default(),
        files: SiteFiles::default(),
    };
    walker.open(top, path.to_vec())?;
    while let Some(dir) = walker.open.last_mut() {
        if walker.exceeds_limit {
            return Ok(None);
        }
        let Some((name, kind)) = dir.entries.next() else {
            walker.open.pop();
            continue;
        };
        let path = [&dir.path, &name[..]].concat();
        if name.starts_with(b".") && name != b".well-known" {
            walker.skip(SkipReason::Dotfile, &path);
        } else {
            let at = tree.join(&dir.at, &name);
            walker.entry(at, path, kind)?;
        }
    }
    Ok((!walker.exceeds_limit).then_some(walker.files))
}

struct Walker<'w, T: EntryTree> {
    tree: &'w T,
    /// The path of the root; ends in a slash.
    top: &'w [u8],
    entries_left: usize,
    exceeds_limit: bool,
    /// The current directory, and all above it. A list instead of recursion: a path may have 2,048 directories.
    open: Vec<OpenDir<T>>,
    /// All directories that were listed so far.
    listed: HashSet<T::DirId>,
    repeats: RepeatedEntries,
    files: SiteFiles<T::File>,
}

struct OpenDir<T: EntryTree> {
    at: T::Location,
    /// Ends in a slash.
    path: Vec<u8>,
    id: T::DirId,
    entries: std::vec::IntoIter<(Vec<u8>, EntryKind)>,
}

impl<T: EntryTree> Walker<'_, T> {
    /// Lists the directory `at`, in order to walk it as `path`, which ends in a slash.
    fn open(&mut self, at: T::Location, path: Vec<u8>) -> Result<(), PackError> {
        let listed = self.tree.list(&at, path == self.top, self.entries_left.saturating_add(1));
        let Some(DirListing { id, attributes, entries }) = self.ok_or_skip(listed, &path)? else {
            return Ok(());
        };
        // A link to a directory above it would never end.
        if self.open.iter().any(|dir| dir.id == id) {
            self.skip(SkipReason::LinkLoop, &path);
            return Ok(());
        }
        self.exceeds_limit = entries.len() > self.entries_left;
        if self.exceeds_limit {
            return Ok(());
        }
        self.entries_left -= entries.len();
        let is_first = self.listed.insert(id.clone());
        if self.repeats.add(entries.len(), is_first).is_err() {
            return Err(self.tree.too_many_repeats(&at));
        }
        if let Some((mode, modified_s)) = attributes.filter(|_| path != self.top) {
            self.files.dirs.push(SiteDir { path: path.clone(), mode, modified_s });
        }
        self.open.push(OpenDir { at, path, id, entries: entries.into_iter() });
        Ok(())
    }

    /// Lists one entry: an entry of a directory, or the target of a link there.
    fn entry(&mut self, at: T::Location, mut path: Vec<u8>, kind: EntryKind) -> Result<(), PackError> {
        // The path of a directory takes one byte more, for the trailing slash.
        if path.len() + usize::from(kind == EntryKind::Dir) > PATH_LEN_MAX {
            self.skip(SkipReason::PathTooLong, &path);
            return Ok(());
        }
        match kind {
            EntryKind::File => self.files.files.push(SiteFile { path, location: self.tree.file(at) }),
            EntryKind::Dir => {
                path.push(b'/');
                self.open(at, path)?;
            }
            EntryKind::Link => {
                let followed = self.tree.follow(&at);
                if let Some((target, kind)) = self.ok_or_skip(followed, &path)? {
                    self.entry(target, path, kind)?;
                }
            }
            EntryKind::Special => self.skip(SkipReason::Special, &path),
        }
        Ok(())
    }

    /// Returns the value, or `None` after counting a skipped entry, or the error that ends the packing.
    fn ok_or_skip<V>(&mut self, result: Result<V, WalkError>, path: &[u8]) -> Result<Option<V>, PackError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(WalkError::Vanished) => Ok(None),
            Err(WalkError::Skip(reason)) => {
                self.skip(reason, path);
                if reason == SkipReason::Unreadable {
                    self.files.unreadable.push(path.to_vec());
                }
                Ok(None)
            }
            Err(WalkError::LinkOutside(target)) => {
                skip_link(&mut self.files.skipped, path, target);
                Ok(None)
            }
            Err(WalkError::Fatal(error)) => Err(error),
        }
    }

    fn skip(&mut self, reason: SkipReason, path: &[u8]) {
        skip_path(&mut self.files.skipped, reason, path);
    }
}

/// A directory on disk, while it is walked.
struct DirWalk<'t> {
    tree: &'t Arc<DirTree>,
    is_of_user: bool,
    /// The reason for which unreadable entries are skipped. `None`: they are errors.
    unreadable: Option<SkipReason>,
}

impl EntryTree for DirWalk<'_> {
    type Location = TreePath;
    /// Device and inode.
    type DirId = (u64, u64);
    type File = TreeFile;

    fn list(
        &self,
        dir: &TreePath,
        is_top: bool,
        count_max: usize,
    ) -> Result<DirListing<(u64, u64)>, WalkError> {
        let listed = self.tree.numbered(dir.tree).list(&dir.path, count_max);
        let (meta, mut entries) = listed.map_err(|error| self.walk_error(dir, is_top, error))?;
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let modified_s = u64::try_from(meta.mtime()).unwrap_or(0);
        Ok(DirListing {
            id: (meta.dev(), meta.ino()),
            attributes: Some((permissions(meta.mode()), modified_s)),
            entries: entries.into_iter().map(|entry| (entry.name, entry.file_type.into())).collect(),
        })
    }

    fn join(&self, dir: &TreePath, name: &[u8]) -> TreePath {
        TreePath { tree: dir.tree, path: dir.path.join(OsStr::from_bytes(name)) }
    }

    fn follow(&self, link: &TreePath) -> Result<(TreePath, EntryKind), WalkError> {
        let resolved = self.tree.resolve(link).and_then(|target| {
            let file_type = self.tree.numbered(target.tree).file_type(&target.path)?;
            Ok((target, file_type))
        });
        match resolved {
            // Another process has just replaced the target by a link.
            Ok((_, FileType::Symlink)) => Err(WalkError::Vanished),
            Ok((target, file_type)) => Ok((target, file_type.into())),
            Err(ResolveError::Unreadable(error)) => Err(self.walk_error(link, false, error)),
            Err(ResolveError::Outside(_)) if self.is_of_user => Err(WalkError::Skip(SkipReason::LinkOutside)),
            Err(ResolveError::Outside(target)) => Err(WalkError::LinkOutside(target)),
            Err(ResolveError::Dangling) => Err(WalkError::Skip(SkipReason::LinkDangling)),
            Err(ResolveError::Loop) => Err(WalkError::Skip(SkipReason::LinkLoop)),
        }
    }

    fn file(&self, TreePath { tree, path }: TreePath) -> TreeFile {
        let tree = tree.checked_sub(1).map_or(self.tree, |link| &self.tree.links()[link]);
        TreeFile { tree: Arc::clone(tree), path }
    }

    fn too_many_repeats(&self, dir: &TreePath) -> PackError {
        PackError::Repeats { path: self.tree.numbered(dir.tree).full_path(&dir.path) }
    }
}

impl DirWalk<'_> {
    fn walk_error(&self, at: &TreePath, is_top: bool, error: io::Error) -> WalkError {
        match error {
            // Except for the root: a site that another process is replacing must not become an empty one.
            error if (is_not_found(&error) || is_link(&error)) && !is_top => WalkError::Vanished,
            error if is_errno(&error, Errno::NAMETOOLONG) => WalkError::Skip(SkipReason::PathTooLong),
            error => match self.unreadable.filter(|_| !is_top) {
                Some(reason) => WalkError::Skip(reason),
                None => WalkError::Fatal(PackError::unreadable(self.tree.numbered(at.tree), &at.path, error)),
            },
        }
    }
}

impl From<FileType> for EntryKind {
    fn from(file_type: FileType) -> EntryKind {
        match file_type {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Dir,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Special,
        }
    }
}

/// Returns the bits of a mode that an archive of the site keeps: the permissions, without set-id and sticky bits.
pub(crate) fn permissions(mode: u32) -> u32 {
    mode & 0o777
}

/// Returns whether a symbolic link has replaced the directory that was listed.
fn is_link(error: &io::Error) -> bool {
    is_errno(error, Errno::LOOP) || is_errno(error, Errno::MLINK)
}
