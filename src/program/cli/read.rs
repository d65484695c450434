//! Reads the configuration that a command line describes: its flags, and the file of --config.

use super::flags;
use crate::config::{self, CliFlags, CommandKind, ConfigErrors, ConfigFile, ResolvedConfig};
use clap::{Arg, ArgMatches, ValueHint, value_parser};
use std::{error::Error, fmt, path::PathBuf};
use tarpon_site::Printable;

/// Returns the option `--config`.
pub(super) fn config_arg() -> Arg {
    Arg::new("config")
        .short('c')
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("Read this configuration file")
        .long_help("Read this configuration file\n\nRelative paths in it start at its directory.")
}

/// Merges the file and the flags of `tarpon serve`.
pub(super) fn resolve(matches: &ArgMatches) -> Result<ResolvedConfig, Box<dyn Error>> {
    read(matches, &flags::values(matches, CommandKind::Serve))
}

/// Reads the file alone.
pub(super) fn resolve_file(matches: &ArgMatches) -> Result<ResolvedConfig, Box<dyn Error>> {
    read(matches, &CliFlags::default())
}

fn read(matches: &ArgMatches, flags: &CliFlags) -> Result<ResolvedConfig, Box<dyn Error>> {
    let file = matches.get_one::<PathBuf>("config").map(ConfigFile::open).transpose()?;
    Ok(config::read(file.as_ref(), flags, CommandKind::Serve).map_err(ReadError)?)
}

/// The errors of a configuration, formatted for a terminal.
#[derive(Debug)]
pub(super) struct ReadError(pub(super) ConfigErrors);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadError(errors) = self;
        let path = errors.path().map_or("the command line".into(), |path| path.printable().to_string());
        let count = match errors.count() {
            1 => "one error".to_owned(),
            count => format!("{count} errors"),
        };
        write!(f, "cannot use {path}: {count}\n\n{}", errors.coloured())
    }
}

impl Error for ReadError {}
