//! Verifies a packed site, with messages for the user.

use super::inspect::open_error;
use crate::{
    base::error::UserError,
    site::{archive, pack::dictionary_error},
};
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
};
use tarpon_pack::{Dictionaries, Progress, SiteError, Verification};

/// Verifies a packed site: every checksum, variant and member. The result lists the defects. Variants compressed against files of earlier
/// archives are decoded only if `dictionaries` contains those archives. The archive may be compressed, as for [`inspect`](crate::inspect). Other threads can
/// read the `progress`.
///
/// # Errors
/// The archive cannot be read, is not a packed site, or is too damaged to be served.
pub fn verify(
    path: &Path,
    dictionaries: &[PathBuf],
    max_unpacked_len: u64,
    progress: &Progress,
) -> Result<Verification, UserError> {
    let workers = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let dictionaries = Dictionaries::open(dictionaries).map_err(|error| match error {
        SiteError::Dictionary { path, error } => dictionary_error(&path, error),
        error => UserError::new("cannot read dictionaries", error, "leave --dictionary out"),
    })?;
    let archive = archive::open_as_file(path, max_unpacked_len)?;
    tarpon_pack::verify(&archive, path, &dictionaries, workers, progress)
        .map_err(|error| open_error(path, error))
}
