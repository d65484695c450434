//! `tarpon import`: makes a configuration of that of another server.

use super::{CommandResult, ignore_closed_pipe};
use crate::UserError;
use crate::base::error::reason;
use crate::program::import::{HashOutput, ImportSyntax, Imported, import};
use crate::program::output::{self, OutputForm, messages::Count};
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand, ValueHint};
use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// Convert the configuration of nginx or Caddy
///
/// Writes tarpon.toml to standard output, and to standard error a line for each directive that was left out, that has another effect, or
/// that is not needed. The exit status is 0 if nothing was left out, 1 if something was left out or a file cannot be read, and 2 if
/// the arguments are wrong.
#[derive(Debug, Parser)]
#[command(name = "import")]
struct ImportArgs {
    #[command(subcommand)]
    from: ImportFrom,
}

#[derive(Debug, Subcommand)]
enum ImportFrom {
    /// Read nginx.conf, or a file of a server block, and the files that it includes
    Nginx(ImportFile),
    /// Read a Caddyfile of Caddy 2, and the files that it imports
    Caddy(ImportFile),
}

#[derive(Debug, clap::Args)]
struct ImportFile {
    /// Read this file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Write the configuration to this file, which must not exist; with hashes of passwords its owner alone may read it
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

pub(super) fn command() -> clap::Command {
    <ImportArgs as clap::CommandFactory>::command()
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let (syntax, ImportFile { file, output }) = match ImportArgs::from_arg_matches(matches)?.from {
        ImportFrom::Nginx(file) => (ImportSyntax::Nginx, file),
        ImportFrom::Caddy(file) => (ImportSyntax::Caddy, file),
    };
    // The mode of standard output is not ours.
    let hashes = if output.is_some() { HashOutput::Write } else { HashOutput::LeaveOut };
    let imported = import(syntax, &file, hashes)?;
    match &output {
        Some(path) => write_new(path, &imported).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AlreadyExists => "name another file, or remove this one",
                _ => "name a file in a directory that you may write to",
            };
            UserError::new(format_args!("cannot write {}", path.printable()), reason(&error), hint)
        })?,
        None => {
            let mut out = output::stdout(OutputForm::Text);
            ignore_closed_pipe(write!(out, "{}", imported.toml).and_then(|()| out.flush()))?;
        }
    }
    let mut err = output::stderr(OutputForm::Text);
    ignore_closed_pipe(write!(err, "{}", imported.report).and_then(|()| err.flush()))?;
    match imported.report.left_out_count() {
        0 => Ok(()),
        count => Err(format!(
            "{} left out; the line of each tells what to do instead",
            Count(count as u64, "directive")
        )
        .into()),
    }
}

fn write_new(path: &Path, imported: &Imported) -> io::Result<()> {
    let mode = if imported.has_hashes { SECRET_MODE } else { PLAIN_MODE };
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(imported.toml.as_bytes())?;
    file.sync_all()
}

/// The mode of a file with hashes of passwords.
const SECRET_MODE: u32 = 0o600;
/// The mode of another file, but for the umask.
const PLAIN_MODE: u32 = 0o666;
