//! `tarpon inspect`: shows what a packed site has.

use super::{Done, written};
use crate::table;
use clap::{ArgMatches, FromArgMatches, Parser};
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

/// Show what a packed site has: paths, types, sizes in each coding, entity-tags, where redirects lead, rules
#[derive(Debug, Parser)]
#[command(name = "inspect")]
pub(super) struct Inspect {
    /// The archive
    path: PathBuf,

    /// Show it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(matches: &ArgMatches) -> Done {
    let Inspect { path, json } = Inspect::from_arg_matches(matches)?;
    inspect(&path, json)
}

pub(super) fn inspect(path: &Path, json: bool) -> Done {
    let site = tarpon::inspect(path)?;
    let mut out = BufWriter::new(anstream::stdout().lock());
    let done = match json {
        true => writeln!(out, "{}", table::json(&site)),
        false => table::write(&site, terminal_width(), &mut out),
    };
    written(done.and_then(|()| out.flush()))
}

/// The columns of the terminal that is written to, if it is one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&width| width > 0)
}
