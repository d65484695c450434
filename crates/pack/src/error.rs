//! Why there is no image: each message names the file and, where there is one, the remedy.

use crate::rules::{RuleError, RuleFile};
use crate::tree::DirTree;
use rustix::fs::Stat;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use tarpon_site::Printable;

/// Why a directory could not be packed.
#[derive(Debug)]
pub enum PackError {
    /// The root of the site cannot be opened.
    Root {
        /// As it was given.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file or directory of the site cannot be read.
    Read {
        /// Where it lies.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Permissions keep a file or directory of the site from being read.
    Denied {
        /// Where it lies.
        path: PathBuf,
        /// What bars the way: the file or directory itself, or one above it.
        barrier: Inaccessible,
    },
    /// Its symbolic links lead to the same directories again and again.
    Repeats {
        /// Where one of these directories lies.
        path: PathBuf,
    },
    /// More large files than may stay open.
    FileCount {
        /// How many there are.
        count: usize,
        /// How many may be.
        max: usize,
    },
    /// An archive cannot be understood.
    Archive {
        /// Its name.
        path: PathBuf,
        /// What is wrong.
        damage: Damage,
        /// Where, in bytes from the start of the archive.
        at: u64,
        /// The member it concerns; empty if none is known.
        member: Vec<u8>,
    },
    /// There is no directory of this name in the archive.
    Prefix {
        /// The archive.
        path: PathBuf,
        /// The directory, as it was given.
        prefix: PathBuf,
    },
    /// A file of rules says what cannot be done.
    Rules {
        /// Which.
        file: RuleFile,
        /// From 1.
        line: u32,
        /// In bytes, from 1.
        column: u32,
        /// What is wrong.
        error: RuleError,
    },
    /// The page of an application, `/index.html`, is not there.
    NoShell,
    /// The image would be larger than its index can tell.
    TooLarge,
    /// The image cannot be written.
    Write(io::Error),
}

/// A file or directory that this process may not read or search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inaccessible {
    /// Where it lies.
    pub path: PathBuf,
    /// Its owner.
    pub uid: u32,
    /// Its permissions: the last nine bits of the mode, and those of set-id and sticky.
    pub mode: u32,
    /// Whether it is a directory.
    pub is_dir: bool,
}

impl Inaccessible {
    /// A file or directory of this state.
    pub fn new(path: PathBuf, stat: &Stat) -> Inaccessible {
        #[allow(clippy::unnecessary_cast, reason = "16 bits on other systems")]
        let mode = stat.st_mode as u32;
        Inaccessible { path, uid: stat.st_uid, mode: mode & 0o7777, is_dir: mode & S_IFMT == S_IFDIR }
    }
}

impl fmt::Display for Inaccessible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inaccessible { path, uid, mode, .. } = self;
        let owner = if *uid == 0 { "root".to_owned() } else { format!("user number {uid}") };
        write!(f, "{} (owned by {owner}, mode {mode:04o})", path.printable())
    }
}

/// The bits of a mode that tell the kind of file, and their value for a directory: the same on every Unix.
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;

impl PackError {
    /// An entry of a tree cannot be read.
    pub(crate) fn unreadable(tree: &DirTree, path: &Path, error: io::Error) -> PackError {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let barrier = if is_denied { tree.inaccessible_part(path) } else { None };
        let path = tree.full_path(path);
        match barrier {
            Some(barrier) => PackError::Denied { path, barrier },
            None => PackError::Read { path, error },
        }
    }
}

/// What is wrong with an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It does not begin as a tar archive does.
    NotTar,
    /// It ends before it is complete.
    Truncated,
    /// The header of a member is damaged.
    Header,
    /// The extended header (pax) of a member is damaged.
    Extension,
    /// A member is stored as a sparse file: its content is in pieces.
    Sparse,
    /// Its links lead to more paths than a site has.
    TooMany,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::NotTar => "it is no tar archive",
            Damage::Truncated => "it is incomplete",
            Damage::Header => "the header is damaged",
            Damage::Extension => "the extended header is damaged",
            Damage::Sparse => "a sparse member cannot be served as it lies",
            Damage::TooMany => "its links lead to too many paths",
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
            PackError::Denied { path, barrier } => {
                let path = path.printable();
                write!(
                    f,
                    "cannot read {path}: permission denied by {barrier}; make it readable, or move it out of the site"
                )
            }
            PackError::Repeats { path } => write!(
                f,
                "symbolic links lead to the entries of {} and others too often; remove links to directories that hold such \
                 links themselves",
                path.printable()
            ),
            PackError::FileCount { count, max } => write!(
                f,
                "{count} large files would stay open, but the open-file limit leaves room for {max}; raise it, as with \
                 ulimit -n {}",
                // Room for the connections and the rest, which now have what `max` leaves of the limit.
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
            PackError::Rules { file, line, column, error } => {
                write!(f, "{}:{line}:{column}: {error}; {}", file.name(), error.remedy())
            }
            PackError::NoShell => f.write_str("there is no index.html to answer for other paths"),
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
            | PackError::Rules { .. }
            | PackError::NoShell
            | PackError::TooLarge => None,
        }
    }
}

impl From<io::Error> for PackError {
    /// What fails while packing, without a path of its own, is the writing.
    fn from(error: io::Error) -> PackError {
        PackError::Write(error)
    }
}
