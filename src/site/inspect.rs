//! Looks into a packed site, or checks it: what the library finds, for a user.

use crate::{
    base::error::{UserError, reason},
    site::{archive, pack::dictionary_error},
};
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
};
use tarpon_pack::{Dictionaries, OpenError, SiteError, SiteInspection, Verification};
use tarpon_site::Printable;

/// Reads what a packed site has: its paths, and what is sent for each. A compressed archive may unpack to `max_unpacked_len` bytes;
/// [`MAX_UNPACKED_LEN`](crate::MAX_UNPACKED_LEN) is the default of the program.
///
/// # Errors
/// It cannot be read, is no packed site, or nothing could be served of it.
pub fn inspect(path: &Path, max_unpacked_len: u64) -> Result<SiteInspection, UserError> {
    tarpon_pack::inspect(&archive::open_as_file(path, max_unpacked_len)?)
        .map_err(|error| trouble(path, error))
}

/// Checks a packed site: every checksum, every variant, every member. What is wrong with it is in the result. What is coded
/// with files of earlier archives is decoded if these are given. Its own may be compressed, as for [`inspect`].
///
/// # Errors
/// It cannot be read, is no packed site, or nothing could be served of it.
pub fn verify(
    path: &Path,
    dictionaries: &[PathBuf],
    max_unpacked_len: u64,
) -> Result<Verification, UserError> {
    let workers = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let dictionaries = Dictionaries::open(dictionaries).map_err(|error| match error {
        SiteError::Dictionary { path, error } => dictionary_error(&path, error),
        error => UserError::new("cannot take dictionaries", error, "leave --dictionary out"),
    })?;
    let archive = archive::open_as_file(path, max_unpacked_len)?;
    tarpon_pack::verify(&archive, path, &dictionaries, workers).map_err(|error| trouble(path, error))
}

/// What is told of an archive that was looked at in vain.
fn trouble(path: &Path, error: OpenError) -> UserError {
    let what = format!("cannot look into {}", path.printable());
    match error {
        OpenError::Read(error) => UserError::new(what, reason(&error), "name an archive that may be read"),
        error @ OpenError::NotPacked => {
            UserError::new(what, error, "pack it, as with tarpon pack DIR -o FILE")
        }
        error @ (OpenError::Image(_) | OpenError::Body) => {
            UserError::new(what, error, "pack the site anew, or fetch the archive again")
        }
    }
}
