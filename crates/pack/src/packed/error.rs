//! Why there is no packed site.

use crate::PackError;
use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};
use tarpon_site::ImageError;
use tarpon_site::Printable;

/// Why a site could not be packed into an archive.
#[derive(Debug)]
pub enum SiteError {
    /// What it is made of cannot be read.
    Input(PackError),
    /// A file changed while it was packed.
    Changed {
        /// Where it lies.
        path: PathBuf,
    },
    /// The archive would lie in the directory it is packed from, and so be packed itself the next time.
    Inside {
        /// The archive.
        path: PathBuf,
    },
    /// The archive, or a temporary file precompressed it, cannot be written.
    Write {
        /// The archive.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The earlier archive, whose variants were to be taken over, cannot be read.
    Reuse {
        /// The earlier archive.
        path: PathBuf,
        /// Why not.
        error: OpenError,
    },
    /// An earlier archive, whose files clients may have, cannot be read.
    Dictionary {
        /// The earlier archive.
        path: PathBuf,
        /// Why not.
        error: OpenError,
    },
}

/// Why an archive cannot be looked at as a packed site.
#[derive(Debug)]
pub enum OpenError {
    /// It cannot be read.
    Read(io::Error),
    /// It is none.
    NotPacked,
    /// Its image is so damaged that nothing can be served of it.
    Image(ImageError),
    /// Something in its image is damaged.
    Body,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteError::Input(error) => error.fmt(f),
            SiteError::Changed { path } => write!(f, "{} changed while it was packed", path.printable()),
            SiteError::Inside { path } => write!(f, "{} would be a part of the site", path.printable()),
            SiteError::Write { path, error } => write!(f, "cannot write {}: {error}", path.printable()),
            SiteError::Reuse { path, error } => write!(f, "cannot reuse {}: {error}", path.printable()),
            SiteError::Dictionary { path, error } => {
                write!(f, "cannot take dictionaries from {}: {error}", path.printable())
            }
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Read(error) => error.fmt(f),
            OpenError::NotPacked => f.write_str("it is no packed site"),
            OpenError::Image(error) => error.fmt(f),
            OpenError::Body => f.write_str("its image is damaged"),
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

impl Error for OpenError {}

impl From<PackError> for SiteError {
    fn from(error: PackError) -> SiteError {
        SiteError::Input(error)
    }
}

impl From<io::Error> for SiteError {
    /// What fails without a path of its own is the writing of the archive, whose name [`pack_site`](crate::pack_site) adds.
    fn from(error: io::Error) -> SiteError {
        SiteError::Input(PackError::Write(error))
    }
}
