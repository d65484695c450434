//! `tarpon inspect`: shows what a packed site has.

use super::{CommandResult, flags, written};
use crate::config::{self, CommandKind};
use crate::program::output::{self, OutputForm, tables};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
};

/// Show what a packed site has: paths, types, sizes in each coding, ETags, where redirects lead, rules
#[derive(Debug, Parser)]
#[command(name = "inspect")]
struct Inspect {
    /// The archive
    path: PathBuf,

    /// Show it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn command() -> clap::Command {
    Inspect::command().args(flags::args(CommandKind::Inspect))
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let Inspect { path, json } = Inspect::from_arg_matches(matches)?;
    inspect(&path, json, max_unpacked_len(matches)?)
}

/// Reads from the flags how many bytes a compressed archive may unpack to.
pub(super) fn max_unpacked_len(matches: &ArgMatches) -> Result<u64, Box<dyn Error>> {
    let settled = config::read(None, &flags::said(matches, CommandKind::Inspect), CommandKind::Inspect)?;
    Ok(settled.config.sites[0].source.max_unpacked_len)
}

pub(super) fn inspect(path: &Path, json: bool, max_unpacked_len: u64) -> CommandResult {
    let site = crate::inspect(path, max_unpacked_len)?;
    let mut out = output::stdout(if json { OutputForm::Json } else { OutputForm::Words });
    let done = match json {
        true => writeln!(out, "{}", tables::json(&site)),
        false => tables::write(&site, terminal_width(), &mut out),
    };
    written(done.and_then(|()| out.flush()))
}

/// The columns of the terminal that is written to, if it is one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&width| width > 0)
}
