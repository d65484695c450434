//! The configuration of a command line: its flags, and the file that it names.

use super::flags;
use crate::config::{self, CliFlags, CommandKind, ConfigErrors, ConfigFile, ResolvedConfig};
use clap::{Arg, ArgMatches, ValueHint, value_parser};
use std::{error::Error, fmt, path::PathBuf};
use tarpon_site::Printable;

/// The file to read.
pub(super) fn config_arg() -> Arg {
    Arg::new("config")
        .short('c')
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("A configuration file. Its paths begin where it is")
}

/// What the file and the flags of `tarpon serve` say together.
pub(super) fn settled(matches: &ArgMatches) -> Result<ResolvedConfig, Box<dyn Error>> {
    with(matches, &flags::said(matches, CommandKind::Serve))
}

/// What the file says.
pub(super) fn of_file(matches: &ArgMatches) -> Result<ResolvedConfig, Box<dyn Error>> {
    with(matches, &CliFlags::default())
}

fn with(matches: &ArgMatches, flags: &CliFlags) -> Result<ResolvedConfig, Box<dyn Error>> {
    let file = matches.get_one::<PathBuf>("config").map(ConfigFile::open).transpose()?;
    Ok(config::read(file.as_ref(), flags, CommandKind::Serve).map_err(ReadError)?)
}

/// Why a configuration cannot be used, as a terminal shows it.
#[derive(Debug)]
pub(super) struct ReadError(pub(super) ConfigErrors);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadError(faults) = self;
        let path = faults.path().map_or("the command line".into(), |path| path.printable().to_string());
        let count = match faults.count() {
            1 => "one error".to_owned(),
            count => format!("{count} errors"),
        };
        write!(f, "cannot use {path}: {count}\n\n{}", faults.coloured())
    }
}

impl Error for ReadError {}
