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
use crate::skip::{Kind, Skipped, skip};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tarpon_site::format::PATH_LEN_MAX;

/// What was found.
pub(crate) struct Walk {
    pub(crate) found: Vec<Found<PathBuf>>,
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
    /// Where the file lies, with no symbolic link on the way.
    pub(crate) file: F,
}

/// Lists the files of a site.
pub(crate) fn list(root: &Path) -> Result<Walk, PackError> {
    let canonical = fs::canonicalize(root).and_then(|canonical| match canonical.is_dir() {
        true => Ok(canonical),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    let canonical = canonical.map_err(|error| PackError::Root { path: root.to_owned(), error })?;
    let mut walker = Walker::new(&canonical, b"/");
    walker.dir(&canonical, b"/")?;
    Ok(walker.walk())
}

/// Lists the files of a user, whose directory `root` is canonical and served at `path`. What cannot be read in it is
/// skipped. None: there are more than `entry_count_max` entries of whatever kind.
pub(crate) fn list_of_user(
    root: &Path,
    path: &[u8],
    entry_count_max: usize,
) -> Result<Option<Walk>, PackError> {
    let mut walker = Walker { is_of_user: true, entries_left: entry_count_max, ..Walker::new(root, path) };
    walker.dir(root, path)?;
    Ok((!walker.is_cut).then(|| walker.walk()))
}

struct Walker<'r> {
    /// Canonical.
    root: &'r Path,
    /// What the root is served as; ends in a slash.
    top: &'r [u8],
    is_of_user: bool,
    /// How many entries may still be found.
    entries_left: usize,
    /// There were more.
    is_cut: bool,
    /// The directories we are in, by device and inode: a link to one of them would never end.
    above: Vec<(u64, u64)>,
    found: Vec<Found<PathBuf>>,
    dirs: Vec<Dir>,
    skipped: Vec<Skipped>,
}

impl<'r> Walker<'r> {
    fn new(root: &'r Path, top: &'r [u8]) -> Walker<'r> {
        let (above, found, dirs, skipped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (is_of_user, entries_left, is_cut) = (false, usize::MAX, false);
        Walker { root, top, is_of_user, entries_left, is_cut, above, found, dirs, skipped }
    }

    fn walk(self) -> Walk {
        let Walker { found, dirs, skipped, .. } = self;
        Walk { found, dirs, skipped }
    }

    /// Lists the directory `at`, which is canonical, as `path`, which ends in a slash.
    fn dir(&mut self, at: &Path, path: &[u8]) -> Result<(), PackError> {
        let Some(meta) = self.judge(at, path, fs::metadata(at))? else { return Ok(()) };
        let id = (meta.dev(), meta.ino());
        if self.above.contains(&id) {
            self.skip(Kind::LinkLoop, path);
            return Ok(());
        }
        let entries = fs::read_dir(at).and_then(|entries| {
            entries
                .take(self.entries_left.saturating_add(1))
                .map(|entry| entry.map(|entry| (entry.file_name().into_vec(), entry.file_type())))
                .collect::<io::Result<Vec<_>>>()
        });
        let Some(mut entries) = self.judge(at, path, entries)? else { return Ok(()) };
        self.is_cut |= entries.len() > self.entries_left;
        if self.is_cut {
            return Ok(());
        }
        self.entries_left -= entries.len();
        if path != self.top {
            let modified_s = u64::try_from(meta.mtime()).unwrap_or(0);
            self.dirs.push(Dir { path: path.to_vec(), mode: permissions(meta.mode()), modified_s });
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.above.push(id);
        for (name, file_type) in entries {
            let (at, path) = (at.join(OsStr::from_bytes(&name)), [path, &name].concat());
            if name.starts_with(b".") && name != b".well-known" {
                self.skip(Kind::Dotfile, &path);
            } else if let Some(file_type) = self.judge(&at, &path, file_type)? {
                self.entry(at, path, file_type)?;
            }
        }
        self.above.pop();
        Ok(())
    }

    /// One entry, no matter whether a link led to it.
    fn entry(&mut self, at: PathBuf, mut path: Vec<u8>, file_type: FileType) -> Result<(), PackError> {
        // A directory takes one byte more, for the slash behind.
        if path.len() + usize::from(file_type.is_dir()) > PATH_LEN_MAX {
            self.skip(Kind::PathTooLong, &path);
        } else if file_type.is_file() {
            self.found.push(Found { path, file: at });
        } else if file_type.is_dir() {
            path.push(b'/');
            self.dir(&at, &path)?;
        } else if file_type.is_symlink() {
            self.link(&at, path)?;
        } else {
            self.skip(Kind::Special, &path);
        }
        Ok(())
    }

    /// Follows a symbolic link as far as it stays within the root. Names on its way may begin with a dot: who
    /// sets a link to `.releases/7` means it.
    fn link(&mut self, at: &Path, path: Vec<u8>) -> Result<(), PackError> {
        let target = match fs::canonicalize(at) {
            Err(error) if is_gone(&error) => {
                self.skip(Kind::LinkDangling, &path);
                return Ok(());
            }
            Err(error) if is(&error, Errno::LOOP) => {
                self.skip(Kind::LinkLoop, &path);
                return Ok(());
            }
            result => result,
        };
        let Some(target) = self.judge(at, &path, target)? else { return Ok(()) };
        if !target.starts_with(self.root) {
            self.skip(Kind::LinkOutside, &path);
            return Ok(());
        }
        match self.judge(&target, &path, fs::symlink_metadata(&target))? {
            // What was a target and is a link now changes under our eyes; the next pack will see it.
            Some(meta) if !meta.is_symlink() => self.entry(target, path, meta.file_type()),
            _ => Ok(()),
        }
    }

    /// The result; none if there is nothing any more; or the error that ends the packing.
    fn judge<T>(&mut self, at: &Path, path: &[u8], result: io::Result<T>) -> Result<Option<T>, PackError> {
        match result {
            Ok(value) => Ok(Some(value)),
            // All but the root: a site that is being replaced must not become an empty one.
            Err(error) if is_gone(&error) && path != self.top => Ok(None),
            Err(error) if is(&error, Errno::NAMETOOLONG) => {
                self.skip(Kind::PathTooLong, path);
                Ok(None)
            }
            Err(_) if self.is_of_user && path != self.top => {
                self.skip(Kind::UserUnreadable, path);
                Ok(None)
            }
            Err(error) => Err(PackError::Read { path: at.to_owned(), error }),
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

/// Whether this is what the system said.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}
