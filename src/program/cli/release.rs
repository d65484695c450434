//! `tarpon release`: manages a directory of packed sites, one of which is current.

use super::{CommandResult, ignore_closed_pipe};
use crate::Releases;
use crate::program::output::{self, OutputForm, messages};
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};
use std::{io::Write, path::PathBuf};

/// Manage a directory of packed releases, one of which is current
///
/// DIR holds packed sites (*.tar) and a symbolic link `current` to one of them; tarpon serve DIR/current serves it. To deploy, copy
/// an archive into DIR and activate it: the command replaces the link atomically, and a running server follows it.
#[derive(Debug, Parser)]
#[command(name = "release")]
pub(super) struct ReleaseArgs {
    #[command(subcommand)]
    action: ReleaseAction,
}

#[derive(Debug, Subcommand)]
enum ReleaseAction {
    /// List the releases, newest first, and mark the current and the previous one
    List {
        /// Read this directory of releases
        dir: PathBuf,
    },
    /// Check a release and make it the current one
    ///
    /// Checks the tables of the archive, as tarpon serve does, and refuses an archive that is truncated or damaged there. If another
    /// process changes the directory, prints its process ID and waits.
    Activate {
        /// Change this directory of releases
        dir: PathBuf,

        /// Activate the archive of this name
        name: String,

        /// Check the whole archive first, as tarpon verify does
        #[arg(long)]
        verify: bool,
    },
    /// Make the previous release the current one again
    ///
    /// Each further call goes back by one more release.
    Rollback {
        /// Change this directory of releases
        dir: PathBuf,
    },
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let ReleaseArgs { action } = ReleaseArgs::from_arg_matches(matches)?;
    match action {
        ReleaseAction::List { dir } => {
            let releases = Releases::new(dir)?.list()?;
            let mut out = output::stdout(OutputForm::Text);
            ignore_closed_pipe(messages::releases(&releases, &mut out).and_then(|()| out.flush()))?;
        }
        ReleaseAction::Activate { dir, name, verify } => {
            messages::activated(&Releases::new(dir)?.activate(&name, verify, messages::waiting)?);
        }
        ReleaseAction::Rollback { dir } => {
            messages::activated(&Releases::new(dir)?.rollback(messages::waiting)?)
        }
    }
    Ok(())
}
