//! The site that is embedded in a program.

use crate::{
    base::{
        error::{UserError, reason},
        site_config::MAX_UNPACKED_LEN,
    },
    site::archive,
    sys::program,
};
use std::{fs::File, io::Seek, path::Path};
use tarpon_pack::embedded_site;

/// Returns whether this program has an embedded site: `tarpon pack --executable` wrote it.
pub fn has_embedded_site() -> bool {
    let embedded = program::open().and_then(|program| embedded_site(&program));
    embedded.is_ok_and(|embedded| embedded.is_some())
}

/// Returns the tar archive embedded in a program, positioned at its start.
///
/// # Errors
/// The program cannot be read, or there is too little memory for a copy of the archive.
pub fn embedded_archive(program: &Path) -> Result<File, UserError> {
    let mut archive = archive::open_as_file(program, MAX_UNPACKED_LEN)?;
    let rewound = archive.rewind().map(|()| archive);
    rewound.map_err(|error| UserError::new("cannot read this program", reason(&error), "pack it again"))
}
