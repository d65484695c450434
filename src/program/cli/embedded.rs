//! The command line of a program with an embedded site: serves the site unless a subcommand asks for something else.

use super::{
    CommandResult, base, flags, ignore_closed_pipe, inspect::inspect, parse, serve::serve, verify::verify,
};
use crate::{
    MAX_UNPACKED_LEN,
    config::{self, CommandKind},
};
use clap::{FromArgMatches, Subcommand};
use std::{
    env,
    io::{self, IsTerminal, Write},
    path::Path,
};

/// The subcommands.
#[derive(Debug, Subcommand)]
enum EmbeddedAction {
    /// List the paths of the site with their types, sizes and ETags
    Inspect {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check every checksum of the site and every compressed form
    ///
    /// Reports all damage. The exit status is 0 if there is none, else 1.
    Verify,
    /// Write the site to standard output as a tar archive
    ///
    /// As in extract | tar -x.
    Extract,
}

pub(crate) fn run() -> CommandResult {
    let command =
        base("tarpon").args_conflicts_with_subcommands(true).args(flags::args(CommandKind::Embedded));
    let command = EmbeddedAction::augment_subcommands(command).subcommand_required(false);
    // After the subcommands: adding them sets a text of its own.
    let command = command.about("Serves the embedded site, unless a subcommand is given").long_about(None);
    let matches = parse(command);
    let path = env::current_exe()?;
    if matches.subcommand().is_none() {
        let flags = flags::values(&matches, CommandKind::Embedded);
        return serve(&|| {
            let mut config = config::read(None, &flags, CommandKind::Embedded)?.config;
            config.sites[0].source.path.clone_from(&path);
            Ok((config, Vec::new()))
        });
    }
    match EmbeddedAction::from_arg_matches(&matches)? {
        EmbeddedAction::Inspect { json } => inspect(&path, json, MAX_UNPACKED_LEN),
        EmbeddedAction::Verify => verify(&path, &[], MAX_UNPACKED_LEN),
        EmbeddedAction::Extract => extract(&path),
    }
}

fn extract(path: &Path) -> CommandResult {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err("cannot write a tar archive to a terminal; use a pipe, as in extract | tar -x".into());
    }
    ignore_closed_pipe(io::copy(&mut crate::embedded_archive(path)?, &mut out).and_then(|_| out.flush()))
}
