//! Reads the configuration that a command line describes: its flags, and the file of --config.

use super::{flags, local_file};
use crate::UserError;
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
        .long_help(
            "Read this configuration file\n\nRelative paths in it start at its directory. Without this option and without a path, tarpon \
             serve reads ./tarpon.toml if it exists, and if no other user can write to it or to its directory.",
        )
}

/// Returns the arguments of a command about one file: its path, or `--config`.
pub(super) fn file_args() -> [Arg; 2] {
    let [path, config] = optional_file_args();
    [path.required_unless_present("config"), config]
}

/// Returns the same arguments for a command that also works without a file.
pub(super) fn optional_file_args() -> [Arg; 2] {
    let path = Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .conflicts_with("config")
        .help("Read this configuration file");
    [path, config_arg()]
}

/// Merges the file and the flags of `tarpon serve`. Without `--config` and without a path, the file is `./tarpon.toml`.
pub(super) fn resolve(matches: &ArgMatches) -> Result<ResolvedConfig, Box<dyn Error>> {
    let flags = flags::values(matches, CommandKind::Serve);
    let is_file_named = matches.contains_id("config") || flags.0.contains_key("path");
    let file = if is_file_named { named_file(matches)? } else { local_file::read()? };
    read(file.as_ref(), &flags, CommandKind::Serve)
}

/// Merges the file that an argument names and the flags of a command.
pub(super) fn resolve_for(
    matches: &ArgMatches,
    command: CommandKind,
) -> Result<ResolvedConfig, Box<dyn Error>> {
    read(named_file(matches)?.as_ref(), &flags::values(matches, command), command)
}

/// Returns whether [`resolve`] has read `./tarpon.toml`, which no argument names.
pub(super) fn is_local_file(matches: &ArgMatches, resolved: &ResolvedConfig) -> bool {
    resolved.file.is_some() && !matches.contains_id("config")
}

/// Checks that no site serves the files of the server itself.
pub(super) fn check_exposed(resolved: &ResolvedConfig) -> Result<(), ReadError> {
    config::check_exposed(resolved).map_err(ReadError)
}

/// Reads the files with secrets. Returns warnings.
pub(super) fn load_files(resolved: &mut ResolvedConfig) -> Result<Vec<UserError>, ReadError> {
    config::load_files(resolved).map_err(ReadError)
}

/// Reads the file of [`file_args`] alone.
pub(super) fn resolve_file(matches: &ArgMatches) -> Result<ResolvedConfig, Box<dyn Error>> {
    let file = matches.get_one::<PathBuf>("file").map(ConfigFile::open).transpose()?;
    let file = file.map_or_else(|| named_file(matches), |file| Ok(Some(file)))?;
    read(file.as_ref(), &CliFlags::default(), CommandKind::Serve)
}

/// Reads a file alone.
pub(super) fn resolve_path(path: &PathBuf) -> Result<ResolvedConfig, Box<dyn Error>> {
    read(Some(&ConfigFile::open(path)?), &CliFlags::default(), CommandKind::Serve)
}

fn named_file(matches: &ArgMatches) -> Result<Option<ConfigFile>, UserError> {
    matches.get_one::<PathBuf>("config").map(ConfigFile::open).transpose()
}

fn read(
    file: Option<&ConfigFile>,
    flags: &CliFlags,
    command: CommandKind,
) -> Result<ResolvedConfig, Box<dyn Error>> {
    Ok(config::read(file, flags, command).map_err(ReadError)?)
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
