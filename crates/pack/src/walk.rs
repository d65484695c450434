//! Which files of a directory are served, at which paths.
//!
//! ```text
//! entry ─┬─ file ────────────────────────────▶ found
//!        ├─ directory ───────────────────────▶ its entries
//!        ├─ symbolic link, within the root ──▶ as what it leads to
//!        └─ anything else ───────────────────▶ skipped, and counted
//! ```
//!
//! Entries come in the order of their names, so that the same directory gives the same image. Names are
//! bytes, UTF-8 or not, as the path of a request is once decoded.

use crate::error::PackError;
use crate::repeats::RepeatedEntries;
use crate::skip::{SkipReason, Skipped, skip};
use crate::tree::{DirTree, ResolveError, TreeFile};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tarpon_site::format::PATH_LEN_MAX;

/// What was found.
pub(crate) struct DirFiles {
    pub(crate) found: Vec<SiteFile<TreeFile>>,
    pub(crate) dirs: Vec<SiteDir>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A directory of the site, but the root: nothing is served of it, but an archive of the site has it.
#[derive(Debug)]
pub(crate) struct SiteDir {
    /// Begins and ends with a slash.
    pub(crate) path: Vec<u8>,
    pub(crate) mode: u32,
    /// Seconds since 1970; 0 before.
    pub(crate) modified_s: u64,
}

/// A file to be served.
pub(crate) struct SiteFile<F> {
    /// The path of a request, decoded: begins with one slash.
    pub(crate) path: Vec<u8>,
    /// Where the file lies.
    pub(crate) file: F,
}

/// Lists the files of a site.
pub(crate) fn list(tree: &Arc<DirTree>) -> Result<DirFiles, PackError> {
    let mut walker = DirWalker::new(tree, b"/");
    walker.dir(Path::new(""), b"/")?;
    Ok(walker.walk())
}

/// Lists the files of a user, whose directory is served at `path`. Skips what cannot be read in it. `None`: there are more than
/// `entry_count_max` entries of whatever kind.
pub(crate) fn list_user(
    tree: &Arc<DirTree>,
    path: &[u8],
    entry_count_max: usize,
) -> Result<Option<DirFiles>, PackError> {
    let mut walker =
        DirWalker { is_of_user: true, entries_left: entry_count_max, ..DirWalker::new(tree, path) };
    walker.dir(Path::new(""), path)?;
    Ok((!walker.is_cut).then(|| walker.walk()))
}

struct DirWalker<'r> {
    tree: &'r Arc<DirTree>,
    /// What the root is served as; ends in a slash.
    top: &'r [u8],
    is_of_user: bool,
    /// How many entries may still be found.
    entries_left: usize,
    /// There were more.
    is_cut: bool,
    /// The directories we are in, by device and inode: a link to one of them would never end.
    above: Vec<(u64, u64)>,
    /// All directories that were listed so far.
    listed: HashSet<(u64, u64)>,
    repeats: RepeatedEntries,
    found: Vec<SiteFile<TreeFile>>,
    dirs: Vec<SiteDir>,
    skipped: Vec<Skipped>,
}

impl<'r> DirWalker<'r> {
    fn new(tree: &'r Arc<DirTree>, top: &'r [u8]) -> DirWalker<'r> {
        DirWalker {
            tree,
            top,
            is_of_user: false,
            entries_left: usize::MAX,
            is_cut: false,
            above: Vec::new(),
            listed: HashSet::new(),
            repeats: RepeatedEntries::default(),
            found: Vec::new(),
            dirs: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn walk(self) -> DirFiles {
        let DirWalker { found, dirs, skipped, .. } = self;
        DirFiles { found, dirs, skipped }
    }

    /// Lists the directory `at` as `path`, which ends in a slash.
    fn dir(&mut self, at: &Path, path: &[u8]) -> Result<(), PackError> {
        let listed = self.tree.list(at, self.entries_left.saturating_add(1));
        let Some((meta, mut entries)) = self.handle_error(at, path, listed)? else { return Ok(()) };
        let id = (meta.dev(), meta.ino());
        if self.above.contains(&id) {
            self.skip(SkipReason::LinkLoop, path);
            return Ok(());
        }
        self.is_cut |= entries.len() > self.entries_left;
        if self.is_cut {
            return Ok(());
        }
        self.entries_left -= entries.len();
        let is_first = self.listed.insert(id);
        if self.repeats.add(entries.len(), is_first).is_err() {
            return Err(PackError::Repeats { path: self.tree.full_path(at) });
        }
        if path != self.top {
            let modified_s = u64::try_from(meta.mtime()).unwrap_or(0);
            self.dirs.push(SiteDir { path: path.to_vec(), mode: permissions(meta.mode()), modified_s });
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.above.push(id);
        for entry in entries {
            let (at, path) = (at.join(OsStr::from_bytes(&entry.name)), [path, &entry.name].concat());
            if entry.name.starts_with(b".") && entry.name != b".well-known" {
                self.skip(SkipReason::Dotfile, &path);
            } else {
                self.entry(at, path, entry.kind)?;
            }
        }
        self.above.pop();
        Ok(())
    }

    /// One entry, no matter whether a link led to it.
    fn entry(&mut self, at: PathBuf, mut path: Vec<u8>, kind: FileType) -> Result<(), PackError> {
        // A directory takes one byte more, for the slash behind.
        if path.len() + usize::from(kind.is_dir()) > PATH_LEN_MAX {
            self.skip(SkipReason::PathTooLong, &path);
            return Ok(());
        }
        match kind {
            FileType::RegularFile => {
                self.found.push(SiteFile { path, file: TreeFile { tree: Arc::clone(self.tree), path: at } });
            }
            FileType::Directory => {
                path.push(b'/');
                self.dir(&at, &path)?;
            }
            FileType::Symlink => self.link(&at, path)?,
            _ => self.skip(SkipReason::Special, &path),
        }
        Ok(())
    }

    /// Follows a symbolic link as far as it stays within the root. Names on its way may begin with a dot: a link to `.releases/7`
    /// is meant.
    fn link(&mut self, at: &Path, path: Vec<u8>) -> Result<(), PackError> {
        let resolved = self.tree.resolve(at).and_then(|target| {
            let kind = self.tree.kind(&target)?;
            Ok((target, kind))
        });
        let kind = match resolved {
            // Another process has just replaced the target by a link; the next pack will see it.
            Ok((_, FileType::Symlink)) => return Ok(()),
            Ok((target, kind)) => return self.entry(target, path, kind),
            Err(ResolveError::Unreadable(error)) => {
                return self.handle_error(at, &path, Err::<(), _>(error)).map(drop);
            }
            Err(ResolveError::Outside) => SkipReason::LinkOutside,
            Err(ResolveError::Dangling) => SkipReason::LinkDangling,
            Err(ResolveError::Loop) => SkipReason::LinkLoop,
        };
        self.skip(kind, &path);
        Ok(())
    }

    /// The result; none if there is nothing any more; or the error that ends the packing.
    fn handle_error<T>(
        &mut self,
        at: &Path,
        path: &[u8],
        result: io::Result<T>,
    ) -> Result<Option<T>, PackError> {
        match result {
            Ok(value) => Ok(Some(value)),
            // All but the root: a site that is being replaced must not become an empty one.
            Err(error) if (is_not_found(&error) || is_link(&error)) && path != self.top => Ok(None),
            Err(error) if is_errno(&error, Errno::NAMETOOLONG) => {
                self.skip(SkipReason::PathTooLong, path);
                Ok(None)
            }
            Err(_) if self.is_of_user && path != self.top => {
                self.skip(SkipReason::UserUnreadable, path);
                Ok(None)
            }
            Err(error) => Err(PackError::unreadable(self.tree, at, error)),
        }
    }

    fn skip(&mut self, kind: SkipReason, path: &[u8]) {
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        let relative = relative.strip_suffix(b"/").unwrap_or(relative);
        skip(&mut self.skipped, kind, Path::new(OsStr::from_bytes(relative)));
    }
}

/// What of a mode an archive has: who may read, write and search or execute. Whose rights a program has when it runs is
/// no business of a site.
pub(crate) fn permissions(mode: u32) -> u32 {
    mode & 0o777
}

/// Whether nothing is there: what was listed a moment ago may be gone.
pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a link lies where a directory was listed a moment ago.
fn is_link(error: &io::Error) -> bool {
    is_errno(error, Errno::LOOP) || is_errno(error, Errno::MLINK)
}

/// Whether this is what the system said.
pub(crate) fn is_errno(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}
