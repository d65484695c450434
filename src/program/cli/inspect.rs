//! `tarpon inspect`: lists the content of a packed site.

use super::{CommandResult, flags, ignore_closed_pipe};
use crate::config::{self, CommandKind};
use crate::program::output::{self, OutputForm, tables};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
};

/// List the paths of a packed site with their types, sizes and ETags
///
/// Sizes are those in each coding. Redirects and rules are listed too.
#[derive(Debug, Parser)]
#[command(name = "inspect")]
struct Inspect {
    /// Read this archive
    path: PathBuf,

    /// Print JSON
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
    let resolved = config::read(None, &flags::values(matches, CommandKind::Inspect), CommandKind::Inspect)?;
    Ok(resolved.config.sites[0].source.max_unpacked_len)
}

pub(super) fn inspect(path: &Path, json: bool, max_unpacked_len: u64) -> CommandResult {
    let site = crate::inspect(path, max_unpacked_len)?;
    let mut out = output::stdout(if json { OutputForm::Json } else { OutputForm::Text });
    let done = match json {
        true => writeln!(out, "{}", tables::json(&site)),
        false => tables::write(&site, terminal_width(), &mut out),
    };
    ignore_closed_pipe(done.and_then(|()| out.flush()))
}

/// Returns the columns of standard output, if it is a terminal.
pub(super) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&width| width > 0)
}
