//! The configuration of a command line: its flags, and the file that it names.

use super::flags;
use crate::config::{self, Faults, File, Flags, Program, Settled};
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
pub(super) fn settled(matches: &ArgMatches) -> Result<Settled, Box<dyn Error>> {
    with(matches, &flags::said(matches, Program::Serve))
}

/// What the file says.
pub(super) fn of_file(matches: &ArgMatches) -> Result<Settled, Box<dyn Error>> {
    with(matches, &Flags::default())
}

fn with(matches: &ArgMatches, flags: &Flags) -> Result<Settled, Box<dyn Error>> {
    let file = matches.get_one::<PathBuf>("config").map(File::open).transpose()?;
    Ok(config::read(file.as_ref(), flags, Program::Serve).map_err(Refused)?)
}

/// Why a configuration cannot be used, as a terminal shows it.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Faults);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused(faults) = self;
        let path = faults.path().map_or("the command line".into(), |path| path.printable().to_string());
        let count = match faults.count() {
            1 => "one error".to_owned(),
            count => format!("{count} errors"),
        };
        write!(f, "cannot use {path}: {count}\n\n{}", faults.coloured())
    }
}

impl Error for Refused {}
