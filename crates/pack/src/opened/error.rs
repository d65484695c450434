//! Errors of opening a packed site.

use std::error::Error;
use std::{fmt, io};
use tarpon_site::ImageError;

/// Why a packed site cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file cannot be read.
    Read(io::Error),
    /// The file is not a packed site.
    NotPacked,
    /// The image is so damaged that the server cannot serve it.
    Image(ImageError),
    /// A part of the image is damaged.
    Body,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Read(error) => error.fmt(f),
            OpenError::NotPacked => f.write_str("it is not a packed site"),
            OpenError::Image(error) => error.fmt(f),
            OpenError::Body => f.write_str("its image is damaged"),
        }
    }
}

impl Error for OpenError {}
