//! Lists a packed site, with messages for the user.

use crate::{
    base::error::{UserError, reason},
    site::archive,
};
use std::path::Path;
use tarpon_pack::{OpenError, SiteInspection};
use tarpon_site::Printable;

/// Lists a packed site: its paths, and the response for each. A compressed archive may unpack to `max_unpacked_len` bytes;
/// [`MAX_UNPACKED_LEN`](crate::MAX_UNPACKED_LEN) is the default of the program.
///
/// # Errors
/// The archive cannot be read, is not a packed site, or is too damaged to be served.
pub fn inspect(path: &Path, max_unpacked_len: u64) -> Result<SiteInspection, UserError> {
    tarpon_pack::inspect(&archive::open_as_file(path, max_unpacked_len)?)
        .map_err(|error| open_error(path, error))
}

/// Returns the message for an archive that cannot be opened as a packed site.
pub(super) fn open_error(path: &Path, error: OpenError) -> UserError {
    let what = format!("cannot inspect {}", path.printable());
    match error {
        OpenError::Read(error) => UserError::new(what, reason(&error), "name an archive that may be read"),
        error @ OpenError::NotPacked => {
            UserError::new(what, error, "pack it, as with tarpon pack DIR -o FILE")
        }
        error @ (OpenError::Image(_) | OpenError::Body) => {
            UserError::new(what, error, "pack the site again, or download the archive again")
        }
    }
}
