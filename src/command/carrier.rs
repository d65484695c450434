//! A program that carries its site: serves it, unless it is told something else.

use super::{Done, base, flags, inspect::inspect, serve::serve, verify::verify, written};
use clap::{FromArgMatches, Subcommand};
use std::{
    env,
    io::{self, IsTerminal, Write},
    path::Path,
};
use tarpon::config::{self, Program};

/// What else it can do.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show what the site has: paths, types, sizes in each coding, entity-tags
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

pub(crate) fn run() -> Done {
    let command = base("tarpon").about("Serves the site that this program carries");
    let command = command.args_conflicts_with_subcommands(true).args(flags::args(Program::Carrier));
    let matches = Action::augment_subcommands(command).subcommand_required(false).get_matches();
    let path = env::current_exe()?;
    if matches.subcommand().is_none() {
        let flags = flags::said(&matches, Program::Carrier);
        return serve(&|| {
            let mut config = config::read(None, &flags, Program::Carrier)?.config;
            config.sites[0].source.path.clone_from(&path);
            Ok(config)
        });
    }
    match Action::from_arg_matches(&matches)? {
        Action::Inspect { json } => inspect(&path, json),
        Action::Verify => verify(&path, &[]),
        Action::Extract => extract(&path),
    }
}

fn extract(path: &Path) -> Done {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err("a tar archive is nothing for a terminal; take it on, as with extract | tar -x".into());
    }
    written(io::copy(&mut tarpon::carried_archive(path)?, &mut out).and_then(|_| out.flush()))
}
