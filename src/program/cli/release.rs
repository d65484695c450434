//! `tarpon release`: a directory of packed sites, of which one is current.

use super::{CommandResult, written};
use crate::Releases;
use crate::program::output::{self, OutputForm, messages};
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};
use std::{io::Write, path::PathBuf};

/// Manage a directory of packed releases, of which one is current
///
/// DIR holds packed sites (*.tar) and a symbolic link `current` to one of them, to be served with tarpon serve
/// DIR/current. To deploy, copy another archive into DIR and activate it: the link is replaced from one moment to
/// the next, and whoever serves it follows.
#[derive(Debug, Parser)]
#[command(name = "release")]
pub(super) struct ReleaseArgs {
    #[command(subcommand)]
    action: ReleaseAction,
}

#[derive(Debug, Subcommand)]
enum ReleaseAction {
    /// Show the releases, the youngest first: which is current, and which was before
    List {
        /// The directory of releases
        dir: PathBuf,
    },
    /// Make a release the current one, if it is in order
    ///
    /// Checks the tables of the archive, as serving it does; an archive that is cut short or damaged there is refused.
    /// While another process changes the directory, says which, and waits.
    Activate {
        /// The directory of releases
        dir: PathBuf,

        /// The name of the archive in it
        name: String,

        /// Check all of the archive first, as tarpon verify does
        #[arg(long)]
        verify: bool,
    },
    /// Make the release current again that was so before; once more goes further back
    Rollback {
        /// The directory of releases
        dir: PathBuf,
    },
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let ReleaseArgs { action } = ReleaseArgs::from_arg_matches(matches)?;
    match action {
        ReleaseAction::List { dir } => {
            let releases = Releases::new(dir)?.list()?;
            let mut out = output::stdout(OutputForm::Words);
            written(messages::releases(&releases, &mut out).and_then(|()| out.flush()))?;
        }
        ReleaseAction::Activate { dir, name, verify } => {
            messages::switched(&Releases::new(dir)?.activate(&name, verify, messages::waiting)?);
        }
        ReleaseAction::Rollback { dir } => {
            messages::switched(&Releases::new(dir)?.rollback(messages::waiting)?)
        }
    }
    Ok(())
}
