//! `tarpon verify`: checks a packed site.

use super::{CommandResult, flags, inspect::max_unpacked_len};
use crate::config::CommandKind;
use crate::program::output::messages;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::path::{Path, PathBuf};
use tarpon_site::Printable;

/// Check a packed site: every checksum, and that every compressed form is its file
///
/// Says all that is wrong; the exit status tells whether anything is.
#[derive(Debug, Parser)]
#[command(name = "verify")]
struct Verify {
    /// The archive
    path: PathBuf,

    /// The earlier archive that pack was given as such: without it, forms that are differences are checked, but not decoded.
    /// May be given several times
    #[arg(long = "dictionary", value_name = "FILE")]
    dictionaries: Vec<PathBuf>,
}

pub(super) fn command() -> clap::Command {
    Verify::command().args(flags::args(CommandKind::Inspect))
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let Verify { path, dictionaries } = Verify::from_arg_matches(matches)?;
    verify(&path, &dictionaries, max_unpacked_len(matches)?)
}

pub(super) fn verify(path: &Path, dictionaries: &[PathBuf], max_unpacked_len: u64) -> CommandResult {
    let verified = crate::verify(path, dictionaries, max_unpacked_len)?;
    messages::verified(path, &verified);
    match verified.defects.len() {
        0 => Ok(()),
        count => {
            let (archive, ways) = (path.printable(), if count == 1 { "one way" } else { "several ways" });
            Err(format!("{archive} is damaged in {ways}; pack the site anew, or fetch it again").into())
        }
    }
}
