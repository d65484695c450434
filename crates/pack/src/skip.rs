//! What was not served, for the one who asks why: a row for each kind.

use std::fmt;
use std::path::{Path, PathBuf};
use tarpon_site::Printable;

/// Why something in the directory is not served, or not as what it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// Its name begins with a dot, and it is not `.well-known` (RFC 8615).
    Dotfile,
    /// A FIFO, socket or device.
    Special,
    /// A symbolic link that leaves the root.
    LinkOutside,
    /// A symbolic link to nothing.
    LinkDangling,
    /// A symbolic link to itself, or to a directory it lies in.
    LinkLoop,
    /// Its path is longer than a path can be.
    PathTooLong,
    /// A coded form of the file it is named for, but older: served at its own name alone.
    PrecompressedStale,
    /// Named as a coded form of a file, but not in that coding: served at its own name alone.
    PrecompressedInvalid,
    /// Named as a coded form of a file, but does not decode to it: served at its own name alone.
    PrecompressedMismatch,
    /// A page whose address, with a slash or without, another file has: see `docs/pages-and-caching.md`.
    AddressTaken,
    /// In an archive: a name that begins with a slash.
    NameAbsolute,
    /// In an archive: a name that leads upwards.
    NameUpwards,
    /// In an archive: a name that is not UTF-8.
    NameNotText,
    /// A home of a user that may not be entered: whether there is something to serve cannot be seen.
    UserHomeClosed,
    /// In a directory of a user: a file or directory that cannot be read.
    UserUnreadable,
    /// In a directory of a user: a file too large for the image, of which enough are open.
    UserLarge,
}

/// All that was skipped for one reason. A directory counts once; what lies in it was not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The reason.
    pub reason: SkipReason,
    /// How many.
    pub count: u64,
    /// The first, from the root of the site.
    pub example: PathBuf,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = match self.reason {
            SkipReason::Dotfile => ("dotfile", "dotfiles"),
            SkipReason::Special => ("FIFO, socket or device", "FIFOs, sockets or devices"),
            SkipReason::LinkOutside => ("symbolic link out of the site", "symbolic links out of the site"),
            SkipReason::LinkDangling => ("symbolic link to nothing", "symbolic links to nothing"),
            SkipReason::LinkLoop => ("symbolic link in a circle", "symbolic links in a circle"),
            SkipReason::PathTooLong => ("path that is too long", "paths that are too long"),
            SkipReason::PrecompressedStale => {
                ("compressed form older than its file", "compressed forms older than their files")
            }
            SkipReason::PrecompressedInvalid => {
                ("compressed form that is none", "compressed forms that are none")
            }
            SkipReason::PrecompressedMismatch => (
                "compressed form that does not decompress to its file",
                "compressed forms that do not decompress to their files",
            ),
            SkipReason::AddressTaken => {
                ("clean URL that another file has", "clean URLs that other files have")
            }
            SkipReason::NameAbsolute => ("member with an absolute name", "members with absolute names"),
            SkipReason::NameUpwards => ("member whose name has ..", "members whose names have .."),
            SkipReason::UserHomeClosed => {
                ("home of a user that may not be entered", "homes of users that may not be entered")
            }
            SkipReason::UserUnreadable => (
                "file or directory of a user that cannot be read",
                "files or directories of users that cannot be read",
            ),
            SkipReason::UserLarge => (
                "large file of a user, as the limit on open files leaves no room",
                "large files of users, as the limit on open files leaves no room",
            ),
            SkipReason::NameNotText => {
                ("member whose name is not UTF-8", "members whose names are not UTF-8")
            }
        };
        let example = self.example.printable();
        match self.count {
            1 => write!(f, "skipped 1 {one}: {example}"),
            count => write!(f, "skipped {count} {many}, such as {example}"),
        }
    }
}

/// Counts one more.
pub(crate) fn skip(skipped: &mut Vec<Skipped>, reason: SkipReason, example: &Path) {
    skip_all(skipped, vec![Skipped { reason, count: 1, example: example.to_owned() }]);
}

/// Counts all of these too.
pub(crate) fn skip_all(skipped: &mut Vec<Skipped>, more: Vec<Skipped>) {
    for more in more {
        match skipped.binary_search_by_key(&more.reason, |row| row.reason) {
            Ok(at) => skipped[at].count += more.count,
            Err(at) => skipped.insert(at, more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_as_a_sentence() {
        let mut rows = Vec::new();
        for name in [".git", ".env", ".cache"] {
            skip(&mut rows, SkipReason::Dotfile, Path::new(name));
        }
        skip(&mut rows, SkipReason::Special, Path::new("log/pipe"));
        skip(&mut rows, SkipReason::PrecompressedStale, Path::new("a.css.br"));
        let lines: Vec<_> = rows.iter().map(Skipped::to_string).collect();
        let want = [
            "skipped 3 dotfiles, such as .git",
            "skipped 1 FIFO, socket or device: log/pipe",
            "skipped 1 compressed form older than its file: a.css.br",
        ];
        assert_eq!(lines, want);
    }
}
