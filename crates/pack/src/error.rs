//! The errors of packing. Each message names the file and, where possible, what to do.

use crate::rules::{RuleFileError, RuleFileErrors};
use crate::tree::{DirTree, Inaccessible};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use tarpon_site::Printable;

/// Why a directory or an archive cannot be packed.
#[derive(Debug)]
pub enum PackError {
    /// The root of the site cannot be opened.
    Root {
        /// The path that the caller gave.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file or directory of the site cannot be read.
    Read {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// This process has no permission to read a file or directory of the site.
    Denied {
        /// Its path.
        path: PathBuf,
        /// The file or directory without permission: at `path`, or above it.
        denied_by: Inaccessible,
    },
    /// Symbolic links lead to the same directories too often.
    Repeats {
        /// The path of one of these directories.
        path: PathBuf,
    },
    /// More large files than may stay open.
    FileCount {
        /// The number of large files.
        count: usize,
        /// The number of files that may stay open.
        max: usize,
    },
    /// An archive is no tar archive, is damaged, or has members that cannot be served.
    Archive {
        /// Its path.
        path: PathBuf,
        /// The kind of damage.
        damage: Damage,
        /// Where, in bytes from the start of the archive.
        at: u64,
        /// The name of the member; empty if unknown.
        member: Vec<u8>,
    },
    /// The archive has no directory of this name.
    Prefix {
        /// The archive.
        path: PathBuf,
        /// The directory that the caller gave.
        prefix: PathBuf,
    },
    /// Errors in `_headers` and `_redirects`, or in rules of the configuration.
    Rules(RuleFileErrors),
    /// The site of a single-page application has no `/index.html`.
    NoShell,
    /// The image would exceed the range of its index.
    TooLarge,
    /// The image cannot be written.
    Write(io::Error),
}

/// A defect of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It does not begin with a tar header.
    NotTar,
    /// It ends too early.
    Truncated,
    /// The header of a member is damaged.
    Header,
    /// The extended header (pax) of a member is damaged.
    Extension,
    /// A member is a sparse file: its content is stored in pieces.
    Sparse,
    /// Its symbolic links multiply its members beyond the limit.
    TooMany,
}

impl PackError {
    /// Returns the error for an entry of a tree that this process cannot read.
    pub(crate) fn unreadable(tree: &DirTree, path: &Path, error: io::Error) -> PackError {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let denied_by = if is_denied { tree.inaccessible_part(path) } else { None };
        let path = tree.full_path(path);
        match denied_by {
            Some(denied_by) => PackError::Denied { path, denied_by },
            None => PackError::Read { path, error },
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::NotTar => "not a tar archive",
            Damage::Truncated => "the archive is truncated",
            Damage::Header => "damaged header",
            Damage::Extension => "damaged extended header",
            Damage::Sparse => "sparse members are not supported",
            Damage::TooMany => "its symbolic links lead to too many paths",
        })
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Root { path, error } => write!(f, "cannot serve {}: {error}", path.printable()),
            PackError::Read { path, error } => {
                let path = path.printable();
                write!(f, "cannot read {path}: {error}; make it readable, or move it out of the site")
            }
            PackError::Denied { path, denied_by } => {
                let path = path.printable();
                write!(
                    f,
                    "cannot read {path}: permission denied by {denied_by}; make it readable, or move it out of the site"
                )
            }
            PackError::Repeats { path } => write!(
                f,
                "symbolic links lead to {} and other directories too often; remove links to directories that contain such \
                 links",
                path.printable()
            ),
            PackError::FileCount { count, max } => write!(
                f,
                "cannot keep {count} large files open: the open-file limit leaves room for {max}; raise the limit, for example \
                 with ulimit -n {}",
                // The limit also covers connections, and the descriptors of the program itself.
                (2 * count).next_power_of_two().max(1024),
            ),
            PackError::Archive { path, damage, at, member } => {
                write!(f, "cannot read {}: {damage}, at byte {at}", path.printable())?;
                match &**member {
                    [] => Ok(()),
                    member => write!(f, " ({})", member.printable()),
                }
            }
            PackError::Prefix { path, prefix } => {
                write!(f, "there is no directory {} in {}", prefix.printable(), path.printable())
            }
            PackError::Rules(errors) => errors.first().fmt(f),
            PackError::NoShell => f.write_str("a single-page application needs an index.html at its root"),
            PackError::TooLarge => {
                f.write_str("the image would exceed 256 GiB; keep more of the files on disk")
            }
            PackError::Write(error) => write!(f, "cannot write the image: {error}"),
        }
    }
}

impl Error for PackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PackError::Root { error, .. } | PackError::Read { error, .. } | PackError::Write(error) => {
                Some(error)
            }
            PackError::Archive { .. }
            | PackError::Prefix { .. }
            | PackError::FileCount { .. }
            | PackError::Denied { .. }
            | PackError::Repeats { .. }
            | PackError::Rules(_)
            | PackError::NoShell
            | PackError::TooLarge => None,
        }
    }
}

impl From<RuleFileErrors> for PackError {
    fn from(errors: RuleFileErrors) -> PackError {
        PackError::Rules(errors)
    }
}

impl From<RuleFileError> for PackError {
    fn from(error: RuleFileError) -> PackError {
        PackError::Rules(error.into())
    }
}

impl From<io::Error> for PackError {
    /// An I/O error without a path comes from writing the image.
    fn from(error: io::Error) -> PackError {
        PackError::Write(error)
    }
}
