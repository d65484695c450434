//! The entries of a site that are not served, counted by reason.

use crate::url_path;
use std::fmt;
use std::path::{Path, PathBuf};
use tarpon_site::Printable;

/// Why an entry is not served, or a precompressed file is not used as a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// Its name begins with a dot, and is not `.well-known` (RFC 8615).
    Dotfile,
    /// A FIFO, socket or device.
    Special,
    /// A symbolic link that leaves the root.
    LinkOutside,
    /// A symbolic link whose target does not exist.
    LinkDangling,
    /// A symbolic link to itself, or to a directory that contains the link.
    LinkLoop,
    /// Its path is longer than [`PATH_LEN_MAX`](tarpon_site::format::PATH_LEN_MAX).
    PathTooLong,
    /// A precompressed file that is older than its source: served at its own path only.
    PrecompressedStale,
    /// A file whose name claims a content coding that its content does not have: served at its own path only.
    PrecompressedInvalid,
    /// A precompressed file that does not decode to its source: served at its own path only.
    PrecompressedMismatch,
    /// A page whose address, with or without a trailing slash, belongs to another file: see `docs/pages-and-caching.md`.
    AddressTaken,
    /// In an archive: a name that begins with a slash.
    NameAbsolute,
    /// In an archive: a name that contains `..`.
    NameUpwards,
    /// In an archive: a name that is not UTF-8.
    NameNotText,
    /// A home directory that this process may not enter.
    UserHomeClosed,
    /// A file or directory that this process cannot read: it answers 403, or 500 if the disk is at fault.
    Unreadable,
    /// In a user directory: a file or directory that this process cannot read.
    UserUnreadable,
    /// In a user directory: a file too large for the image, and no more files may stay open.
    UserLarge,
}

/// All entries that were skipped for one reason. A directory counts as one entry; nothing in it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The reason.
    pub reason: SkipReason,
    /// The number of entries.
    pub count: u64,
    /// The first of them, relative to the root of the site.
    pub example: PathBuf,
    /// If that is a link out of the site which could be allowed: the absolute path that it leads to.
    pub target: Option<PathBuf>,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = match self.reason {
            SkipReason::Dotfile => ("dotfile", "dotfiles"),
            SkipReason::Special => ("FIFO, socket or device", "FIFOs, sockets or devices"),
            SkipReason::LinkOutside => ("symbolic link out of the site", "symbolic links out of the site"),
            SkipReason::LinkDangling => ("dangling symbolic link", "dangling symbolic links"),
            SkipReason::LinkLoop => ("symbolic link loop", "symbolic link loops"),
            SkipReason::PathTooLong => ("path that is too long", "paths that are too long"),
            SkipReason::PrecompressedStale => {
                ("compressed file older than its source", "compressed files older than their sources")
            }
            SkipReason::PrecompressedInvalid => (
                "file that is not compressed as its name indicates",
                "files that are not compressed as their names indicate",
            ),
            SkipReason::PrecompressedMismatch => (
                "compressed file that does not decompress to its source",
                "compressed files that do not decompress to their sources",
            ),
            SkipReason::AddressTaken => {
                ("clean URL that belongs to another file", "clean URLs that belong to other files")
            }
            SkipReason::NameAbsolute => ("member with an absolute name", "members with absolute names"),
            SkipReason::NameUpwards => ("member with .. in its name", "members with .. in their names"),
            SkipReason::UserHomeClosed => {
                ("home directory without search permission", "home directories without search permission")
            }
            SkipReason::Unreadable => ("unreadable file or directory", "unreadable files or directories"),
            SkipReason::UserUnreadable => {
                ("unreadable file or directory of a user", "unreadable files or directories of users")
            }
            SkipReason::UserLarge => (
                "large file of a user because of the open-file limit",
                "large files of users because of the open-file limit",
            ),
            SkipReason::NameNotText => {
                ("member whose name is not UTF-8", "members whose names are not UTF-8")
            }
        };
        let example = self.example.printable();
        match self.count {
            1 => write!(f, "skipped 1 {one}: {example}")?,
            count => write!(f, "skipped {count} {many}, such as {example}")?,
        }
        match &self.target {
            None if self.reason == SkipReason::Unreadable => {
                let it = if self.count == 1 { "it" } else { "them" };
                write!(
                    f,
                    "; make {it} readable, as with chmod -R a+rX, or start with --strict to refuse such a site"
                )
            }
            None => Ok(()),
            Some(target) => {
                let dir = target.parent().unwrap_or(target).printable();
                write!(f, ", which leads to {}; --follow-links {dir} would allow it", target.printable())
            }
        }
    }
}

/// Counts one more entry.
pub(crate) fn skip(skipped: &mut Vec<Skipped>, reason: SkipReason, example: &Path) {
    skip_all(skipped, vec![Skipped { reason, count: 1, example: example.to_owned(), target: None }]);
}

/// Counts one more link out of the site, at a path that begins with a slash.
pub(crate) fn skip_link(skipped: &mut Vec<Skipped>, path: &[u8], target: PathBuf) {
    let (example, target) = (url_path::relative(path).to_owned(), Some(target));
    skip_all(skipped, vec![Skipped { reason: SkipReason::LinkOutside, count: 1, example, target }]);
}

/// Counts one more entry, at a path that begins with a slash.
pub(crate) fn skip_path(skipped: &mut Vec<Skipped>, reason: SkipReason, path: &[u8]) {
    skip(skipped, reason, url_path::relative(path));
}

/// Adds the counts in `more`.
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
    fn row_is_one_line_with_an_example() {
        let mut rows = Vec::new();
        for name in [".git", ".env", ".cache"] {
            skip(&mut rows, SkipReason::Dotfile, Path::new(name));
        }
        skip(&mut rows, SkipReason::Special, Path::new("log/pipe"));
        skip(&mut rows, SkipReason::PrecompressedStale, Path::new("a.css.br"));
        skip_link(&mut rows, b"/js/jquery.js", "/usr/share/javascript/jquery.js".into());
        let lines: Vec<_> = rows.iter().map(Skipped::to_string).collect();
        let want = [
            "skipped 3 dotfiles, such as .git",
            "skipped 1 FIFO, socket or device: log/pipe",
            "skipped 1 symbolic link out of the site: js/jquery.js, which leads to /usr/share/javascript/jquery.js; \
             --follow-links /usr/share/javascript would allow it",
            "skipped 1 compressed file older than its source: a.css.br",
        ];
        assert_eq!(lines, want);
    }
}
