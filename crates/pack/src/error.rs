//! Why there is no image: each message names the file and, where there is one, the remedy.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

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
    /// More large files than may stay open.
    FileCount {
        /// How many there are.
        count: usize,
        /// How many may be.
        max: usize,
    },
    /// The image would be larger than its index can tell.
    TooLarge,
    /// The image cannot be written.
    Write(io::Error),
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Root { path, error } => write!(f, "cannot serve {}: {error}", path.display()),
            PackError::Read { path, error } => {
                let path = path.display();
                write!(f, "cannot read {path}: {error}; make it readable, or move it out of the site")
            }
            PackError::FileCount { count, max } => write!(
                f,
                "{count} large files would stay open, but the open-file limit leaves room for {max}; raise it, as with \
                 ulimit -n {}",
                // Room for the connections and the rest, which now have what `max` leaves of the limit.
                (2 * count).next_power_of_two().max(1024),
            ),
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
            PackError::FileCount { .. } | PackError::TooLarge => None,
        }
    }
}

impl From<io::Error> for PackError {
    /// What fails while packing, without a path of its own, is the writing.
    fn from(error: io::Error) -> PackError {
        PackError::Write(error)
    }
}
