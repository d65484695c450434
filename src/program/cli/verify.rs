//! `tarpon verify`: checks a packed site.

use super::{CommandResult, flags, inspect::max_unpacked_len};
use crate::config::CommandKind;
use crate::program::output::{messages, progress};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::path::{Path, PathBuf};
use tarpon_site::Printable;

/// Check every checksum of a packed site and every compressed form
///
/// Reports all damage. The exit status is 0 if there is none, else 1.
#[derive(Debug, Parser)]
#[command(name = "verify")]
struct Verify {
    /// Check this archive
    path: PathBuf,

    /// Decode deltas against this earlier archive, as given to tarpon pack --dictionary
    ///
    /// Without it, the checksums of deltas are checked, but their content is not. May be given more than once.
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
    let verified =
        progress::show_during(|progress| crate::verify(path, dictionaries, max_unpacked_len, progress))?;
    messages::verified(path, &verified);
    match verified.defects.len() {
        0 => Ok(()),
        count => {
            let (archive, places) =
                (path.printable(), if count == 1 { "one place" } else { "several places" });
            Err(format!("{archive} is damaged in {places}; pack the site again, or copy the archive again")
                .into())
        }
    }
}
