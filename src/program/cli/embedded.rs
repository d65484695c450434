//! A program that carries its site: serves it, unless it is told something else.

use super::{CommandResult, base, flags, inspect::inspect, matches, serve::serve, verify::verify, written};
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

/// What else it can do.
#[derive(Debug, Subcommand)]
enum EmbeddedAction {
    /// Show what the site has: paths, types, sizes in each coding, ETags
    Inspect {
        /// Show it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the site: every checksum, and that every compressed form is its file
    ///
    /// Says all that is wrong; the exit status tells whether anything is.
    Verify,
    /// Write the site to standard output, as the tar archive it is: extract | tar -x
    Extract,
}

pub(crate) fn run() -> CommandResult {
    let command =
        base("tarpon").args_conflicts_with_subcommands(true).args(flags::args(CommandKind::Carrier));
    let command = EmbeddedAction::augment_subcommands(command).subcommand_required(false);
    // Behind the subcommands, which bring a sentence of their own.
    let command = command
        .about("Serves the site that this program carries, unless a command says otherwise")
        .long_about(None);
    let matches = matches(command);
    let path = env::current_exe()?;
    if matches.subcommand().is_none() {
        let flags = flags::said(&matches, CommandKind::Carrier);
        return serve(&|| {
            let mut config = config::read(None, &flags, CommandKind::Carrier)?.config;
            config.sites[0].source.path.clone_from(&path);
            Ok(config)
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
        return Err("a tar archive is nothing for a terminal; take it on, as with extract | tar -x".into());
    }
    written(io::copy(&mut crate::embedded_archive(path)?, &mut out).and_then(|_| out.flush()))
}
