//! Errors of packing a site.

use crate::PackError;
pub(crate) use crate::opened::OpenError;
use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};
use tarpon_site::Printable;

/// Why a site could not be packed into an archive.
#[derive(Debug)]
pub enum SiteError {
    /// The input cannot be read.
    Input(PackError),
    /// A file changed during the packing.
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The archive would be inside the directory to pack. The next packing would pack it too.
    Inside {
        /// The archive.
        path: PathBuf,
    },
    /// The archive, or its temporary file, cannot be written.
    Write {
        /// The archive.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The previous archive cannot be reused.
    Reuse {
        /// The previous archive.
        path: PathBuf,
        /// The reason.
        error: OpenError,
    },
    /// The archive of an earlier release cannot be used for dictionaries.
    Dictionary {
        /// The archive.
        path: PathBuf,
        /// The reason.
        error: OpenError,
    },
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteError::Input(error) => error.fmt(f),
            SiteError::Changed { path } => write!(f, "{} changed during the packing", path.printable()),
            SiteError::Inside { path } => write!(f, "{} would be part of the site", path.printable()),
            SiteError::Write { path, error } => write!(f, "cannot write {}: {error}", path.printable()),
            SiteError::Reuse { path, error } => write!(f, "cannot reuse {}: {error}", path.printable()),
            SiteError::Dictionary { path, error } => {
                write!(f, "cannot take dictionaries from {}: {error}", path.printable())
            }
        }
    }
}

impl Error for SiteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SiteError::Input(error) => error.source(),
            SiteError::Write { error, .. } => Some(error),
            SiteError::Reuse { error, .. } | SiteError::Dictionary { error, .. } => Some(error),
            SiteError::Changed { .. } | SiteError::Inside { .. } => None,
        }
    }
}

impl From<PackError> for SiteError {
    fn from(error: PackError) -> SiteError {
        SiteError::Input(error)
    }
}

impl From<io::Error> for SiteError {
    /// Converts an error of writing the archive. [`pack_site`](crate::pack_site) adds the path.
    fn from(error: io::Error) -> SiteError {
        SiteError::Input(PackError::Write(error))
    }
}
