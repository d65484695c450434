//! `tarpon release`: manages a directory of packed sites, one of which is current.

use super::{CommandResult, ignore_closed_pipe};
use crate::Releases;
use crate::program::output::{self, OutputForm, messages, progress, release_table};
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand, ValueHint};
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
    /// List the releases with sizes and dates, newest first
    ///
    /// Marks the current release, and the previous one, to which rollback returns.
    List {
        /// Read this directory of releases
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,

        /// Print only the names, one in each line
        #[arg(long, conflicts_with = "json")]
        names: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a release and make it the current one
    ///
    /// Checks the tables of the archive, as tarpon serve does, and refuses an archive that is truncated or damaged there. If another
    /// process changes the directory, prints its process ID and waits.
    Activate {
        /// Change this directory of releases
        #[arg(value_hint = ValueHint::DirPath)]
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
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Remove old releases
    ///
    /// Never removes the current release, nor the previous one, to which rollback returns. Leaves files that are damaged or that are
    /// still being written. A server that sends from a removed release goes on until the responses end.
    Prune {
        /// Change this directory of releases
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,

        /// Keep the newest N releases
        ///
        /// For tarpon serve --keep-releases M, keep at least M + 1.
        #[arg(long, value_name = "N")]
        keep: usize,

        /// Print what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let ReleaseArgs { action } = ReleaseArgs::from_arg_matches(matches)?;
    match action {
        ReleaseAction::List { dir, names, json } => list(&Releases::new(dir)?, names, json)?,
        ReleaseAction::Activate { dir, name, verify } => {
            let releases = Releases::new(dir)?;
            let activate = |progress: Option<&_>| releases.activate(&name, progress, messages::waiting);
            let activation = match verify {
                true => progress::show_during(|progress| activate(Some(progress))),
                false => activate(None),
            };
            messages::activated(&activation?);
        }
        ReleaseAction::Rollback { dir } => {
            messages::activated(&Releases::new(dir)?.rollback(messages::waiting)?)
        }
        ReleaseAction::Prune { dir, keep, dry_run } => {
            messages::pruned(&Releases::new(dir)?.prune(keep, dry_run, messages::waiting)?, dry_run);
        }
    }
    Ok(())
}

fn list(releases: &Releases, names: bool, json: bool) -> CommandResult {
    let mut out = output::stdout(if json { OutputForm::Json } else { OutputForm::Text });
    let done = match (names, json) {
        (true, _) => releases.names()?.iter().try_for_each(|name| writeln!(out, "{name}")),
        (_, true) => writeln!(out, "{}", release_table::json(&releases.list()?)),
        _ => release_table::write(&releases.list()?, &mut out),
    };
    ignore_closed_pipe(done.and_then(|()| out.flush()))?;
    if !names && let Some(hint) = releases.activation_hint()? {
        messages::none_active(&hint);
    }
    Ok(())
}
