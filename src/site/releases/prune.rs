//! Removes old releases.
//!
//! ```text
//! newest ◀─────────────────────────────────▶ oldest
//! [ kept: the newest N ] [ removed … ] [ current ] [ removed … ] [ previous ]
//! ```
//!
//! The current release and the previous one stay, whatever their age. A file that cannot be opened as a release stays too: an upload may
//! still be writing it.

use super::{Release, Releases};
use crate::base::error::{UserError, reason};
use std::{collections::HashSet, fs, io, os::unix::fs::MetadataExt, path::Path};
use tarpon_site::Printable;

/// The result of pruning.
#[derive(Debug, Default)]
pub struct PruneReport {
    /// The releases that were removed, or would be, the latest first.
    pub removed: Vec<Release>,
    /// The bytes that this frees. A file with another name, or a symbolic link, frees none.
    pub freed_len: u64,
    /// How many releases stay.
    pub kept_count: usize,
    /// Files that cannot be opened as a release, and stay.
    pub damaged: Vec<Release>,
}

impl Releases {
    /// Removes all releases except the newest `keep_count`, the current and the previous one. With `is_dry_run` it only reports them.
    /// While another process holds the lock of the directory, calls `held_by` with its PID, if known, and waits.
    ///
    /// # Errors
    /// No release is active yet, the directory cannot be read, or a file cannot be removed. Releases that are newer than that file were
    /// removed.
    pub fn prune(
        &self,
        keep_count: usize,
        is_dry_run: bool,
        held_by: impl FnOnce(Option<u32>),
    ) -> Result<PruneReport, UserError> {
        self.require_active(&format_args!("cannot remove releases in {}", self.dir.printable()))?;
        let _lock = self.lock(held_by)?;
        let (damaged, good): (Vec<_>, Vec<_>) =
            self.list()?.into_iter().partition(|release| release.files.is_err() && release.state.is_none());
        let mut report = PruneReport { damaged, ..PruneReport::default() };
        let (kept, old) = split(good, keep_count);
        // Another name of a kept file may be the target of a link.
        let mut kept_files: HashSet<_> =
            kept.iter().filter_map(|release| ReleaseFileId::of(&self.at(&release.name)).ok()).collect();
        report.kept_count = kept.len();
        for release in old {
            let path = self.at(&release.name);
            if ReleaseFileId::of(&path).is_ok_and(|file| !kept_files.insert(file)) {
                report.kept_count += 1;
                continue;
            }
            report.freed_len += freed_len(&path).map_err(|error| self.unreadable(&path, &error))?;
            if !is_dry_run {
                fs::remove_file(&path).map_err(|error| unremovable(&path, &error))?;
            }
            report.removed.push(release);
        }
        if !is_dry_run && !report.removed.is_empty() {
            self.sync().map_err(|error| self.unwritable(&self.dir, &error))?;
        }
        Ok(report)
    }
}

/// Splits releases, the latest first, into those to keep and those to remove.
fn split(releases: Vec<Release>, keep_count: usize) -> (Vec<Release>, Vec<Release>) {
    let mut newer_count = 0;
    releases.into_iter().partition(|release| {
        newer_count += 1;
        newer_count <= keep_count || release.state.is_some()
    })
}

/// A file, whatever its name.
#[derive(PartialEq, Eq, Hash)]
struct ReleaseFileId {
    dev: u64,
    ino: u64,
}

impl ReleaseFileId {
    /// Follows symbolic links.
    fn of(path: &Path) -> io::Result<ReleaseFileId> {
        fs::metadata(path).map(|meta| ReleaseFileId { dev: meta.dev(), ino: meta.ino() })
    }
}

/// Returns how many bytes are free after this name is removed.
fn freed_len(path: &Path) -> io::Result<u64> {
    let meta = fs::symlink_metadata(path)?;
    Ok(if meta.is_file() && meta.nlink() == 1 { meta.len() } else { 0 })
}

fn unremovable(path: &Path, error: &io::Error) -> UserError {
    let what = format_args!("cannot remove {}", path.printable());
    UserError::new(what, reason(error), "run it as a user that may write to the directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReleaseState;

    #[test]
    fn newest_current_and_previous_stay() {
        #[rustfmt::skip]
        let cases: &[(&str, usize, &str)] = &[
            // releases, the latest first: c is current, p previous   keep   removed
            ("c p 1 2",                                               1,     "1 2"),
            ("c p 1 2",                                               3,     "2"),
            ("c p 1 2",                                               9,     ""),
            ("1 2 c p",                                               1,     "2"),
            ("1 2 3 p 4 c 5",                                         2,     "3 4 5"),
            ("c",                                                     1,     ""),
            ("1 2 c",                                                 0,     "1 2"),
        ];
        for (names, keep_count, want) in cases {
            let release = |name: &str| Release {
                name: name.to_owned(),
                modified_s: 0,
                len: 1,
                files: Ok(1),
                state: match name {
                    "c" => Some(ReleaseState::Current),
                    "p" => Some(ReleaseState::Previous),
                    _ => None,
                },
            };
            let (_, old) = split(names.split(' ').map(release).collect(), *keep_count);
            let old: Vec<_> = old.iter().map(|release| &*release.name).collect();
            assert_eq!(old.join(" "), *want, "{names}, keep {keep_count}");
        }
    }
}
