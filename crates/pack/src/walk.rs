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
use crate::repeats::Repeats;
use crate::skip::{Kind, Skipped, skip};
use crate::tree::{Located, Tree, Unresolved};
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
pub(crate) struct Walk {
    pub(crate) found: Vec<Found<Located>>,
    pub(crate) dirs: Vec<Dir>,
    pub(crate) skipped: Vec<Skipped>,
}

/// A directory of the site, but the root: nothing is served of it, but an archive of the site has it.
#[derive(Debug)]
pub(crate) struct Dir {
    /// Begins and ends with a slash.
    pub(crate) path: Vec<u8>,
    pub(crate) mode: u32,
    /// Seconds since 1970; 0 before.
    pub(crate) modified_s: u64,
}

/// A file to be served.
pub(crate) struct Found<F> {
    /// The path of a request, decoded: begins with one slash.
    pub(crate) path: Vec<u8>,
    /// Where the file lies.
    pub(crate) file: F,
}

/// Lists the files of a site.
pub(crate) fn list(tree: &Arc<Tree>) -> Result<Walk, PackError> {
    let mut walker = Walker::new(tree, b"/");
    walker.dir(Path::new(""), b"/")?;
    Ok(walker.walk())
}

/// Lists the files of a user, whose directory is served at `path`. Skips what cannot be read in it. `None`: there are more than
/// `entry_count_max` entries of whatever kind.
pub(crate) fn list_of_user(
    tree: &Arc<Tree>,
    path: &[u8],
    entry_count_max: usize,
) -> Result<Option<Walk>, PackError> {
    let mut walker = Walker { is_of_user: true, entries_left: entry_count_max, ..Walker::new(tree, path) };
    walker.dir(Path::new(""), path)?;
    Ok((!walker.is_cut).then(|| walker.walk()))
}

struct Walker<'r> {
    tree: &'r Arc<Tree>,
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
    repeats: Repeats,
    found: Vec<Found<Located>>,
    dirs: Vec<Dir>,
    skipped: Vec<Skipped>,
}

impl<'r> Walker<'r> {
    fn new(tree: &'r Arc<Tree>, top: &'r [u8]) -> Walker<'r> {
        Walker {
            tree,
            top,
            is_of_user: false,
            entries_left: usize::MAX,
            is_cut: false,
            above: Vec::new(),
            listed: HashSet::new(),
            repeats: Repeats::default(),
            found: Vec::new(),
            dirs: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn walk(self) -> Walk {
        let Walker { found, dirs, skipped, .. } = self;
        Walk { found, dirs, skipped }
    }

    /// Lists the directory `at` as `path`, which ends in a slash.
    fn dir(&mut self, at: &Path, path: &[u8]) -> Result<(), PackError> {
        let listed = self.tree.list(at, self.entries_left.saturating_add(1));
        let Some((meta, mut entries)) = self.judge(at, path, listed)? else { return Ok(()) };
        let id = (meta.dev(), meta.ino());
        if self.above.contains(&id) {
            self.skip(Kind::LinkLoop, path);
            return Ok(());
        }
        self.is_cut |= entries.len() > self.entries_left;
        if self.is_cut {
            return Ok(());
        }
        self.entries_left -= entries.len();
        let is_first = self.listed.insert(id);
        if self.repeats.add(entries.len(), is_first).is_err() {
            return Err(PackError::Repeats { path: self.tree.name(at) });
        }
        if path != self.top {
            let modified_s = u64::try_from(meta.mtime()).unwrap_or(0);
            self.dirs.push(Dir { path: path.to_vec(), mode: permissions(meta.mode()), modified_s });
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.above.push(id);
        for entry in entries {
            let (at, path) = (at.join(OsStr::from_bytes(&entry.name)), [path, &entry.name].concat());
            if entry.name.starts_with(b".") && entry.name != b".well-known" {
                self.skip(Kind::Dotfile, &path);
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
            self.skip(Kind::PathTooLong, &path);
            return Ok(());
        }
        match kind {
            FileType::RegularFile => {
                self.found.push(Found { path, file: Located { tree: Arc::clone(self.tree), path: at } });
            }
            FileType::Directory => {
                path.push(b'/');
                self.dir(&at, &path)?;
            }
            FileType::Symlink => self.link(&at, path)?,
            _ => self.skip(Kind::Special, &path),
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
            Err(Unresolved::Unreadable(error)) => {
                return self.judge(at, &path, Err::<(), _>(error)).map(drop);
            }
            Err(Unresolved::Outside) => Kind::LinkOutside,
            Err(Unresolved::Dangling) => Kind::LinkDangling,
            Err(Unresolved::Loop) => Kind::LinkLoop,
        };
        self.skip(kind, &path);
        Ok(())
    }

    /// The result; none if there is nothing any more; or the error that ends the packing.
    fn judge<T>(&mut self, at: &Path, path: &[u8], result: io::Result<T>) -> Result<Option<T>, PackError> {
        match result {
            Ok(value) => Ok(Some(value)),
            // All but the root: a site that is being replaced must not become an empty one.
            Err(error) if (is_gone(&error) || is_link(&error)) && path != self.top => Ok(None),
            Err(error) if is(&error, Errno::NAMETOOLONG) => {
                self.skip(Kind::PathTooLong, path);
                Ok(None)
            }
            Err(_) if self.is_of_user && path != self.top => {
                self.skip(Kind::UserUnreadable, path);
                Ok(None)
            }
            Err(error) => Err(PackError::unreadable(self.tree, at, error)),
        }
    }

    fn skip(&mut self, kind: Kind, path: &[u8]) {
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
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a link lies where a directory was listed a moment ago.
fn is_link(error: &io::Error) -> bool {
    is(error, Errno::LOOP) || is(error, Errno::MLINK)
}

/// Whether this is what the system said.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}
