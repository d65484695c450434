//! The command line: a file for each command.
//!
//! | module | content |
//! |---|---|
//! | `serve` | serves sites |
//! | `status` | prints the state of a running server |
//! | `top` | shows a running server live |
//! | `control` | sends reload and upgrade orders to a running server |
//! | `pack`, `inspect`, `verify`, `release` | make, list, check and activate packed sites |
//! | `config` | checks and prints the configuration |
//! | `import` | makes a configuration of that of another server |
//! | `doctor` | examines the machine and a configuration, and advises |
//! | `hash_password` | prints the hash of a password |
//! | `manual` | prints manual pages, generated from the help of the commands |
//! | `manual_sections` | the examples, files and variables of the environment for each page |
//! | `reference` | the reference of the configuration file, as manual page and as Markdown |
//! | `completions` | prints completion scripts for shells |
//! | `flags` | the flags of the options of the configuration |
//! | `read` | merges flags with the configuration file |
//! | `embedded` | the command line of a program with an embedded site |

mod completions;
mod config;
mod control;
mod doctor;
mod embedded;
mod flags;
mod hash_password;
mod import;
mod inspect;
mod local_file;
mod manual;
mod manual_sections;
mod pack;
mod read;
mod reference;
mod release;
mod serve;
mod status;
mod top;
mod verify;

use crate::config::Opt;
use crate::program::output::{self, OutputForm};
use clap::{
    ArgMatches, Command, CommandFactory,
    error::{ContextKind, ContextValue},
};
pub(crate) use embedded::run as run_embedded;
use std::{
    error::Error,
    io::{self, Write},
};
use tarpon_site::printable::{Printable, is_invisible};

/// The result of a command. The caller prints the error.
type CommandResult = Result<(), Box<dyn Error>>;

/// A command.
struct CliCommand {
    /// Returns its name, help and arguments.
    command: fn() -> Command,
    /// Runs it.
    run: fn(&ArgMatches) -> CommandResult,
}

/// All commands, in the order of the help.
const COMMANDS: [CliCommand; 15] = [
    CliCommand { command: serve::command, run: serve::run },
    CliCommand { command: pack::command, run: pack::run },
    CliCommand { command: inspect::command, run: inspect::run },
    CliCommand { command: verify::command, run: verify::run },
    CliCommand { command: release::ReleaseArgs::command, run: release::run },
    CliCommand { command: status::StatusArgs::command, run: status::run },
    CliCommand { command: top::TopArgs::command, run: top::run },
    CliCommand { command: control::Reload::command, run: control::reload },
    CliCommand { command: control::Upgrade::command, run: control::upgrade },
    CliCommand { command: config::command, run: config::run },
    CliCommand { command: import::command, run: import::run },
    CliCommand { command: doctor::command, run: doctor::run },
    CliCommand { command: hash_password::HashPasswordArgs::command, run: hash_password::run },
    CliCommand { command: manual::command, run: manual::run },
    CliCommand { command: completions::command, run: completions::run },
];

/// Returns the whole command line.
fn command() -> Command {
    base("tarpon")
        .about("A web server for static sites")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(COMMANDS.iter().map(|action| (action.command)()))
}

/// Parses the command line and runs the command.
pub(crate) fn run() -> CommandResult {
    let matches = parse(command());
    let (name, matches) = matches.subcommand().expect("clap requires one");
    let action = COMMANDS.iter().find(|action| (action.command)().get_name() == name);
    (action.expect("clap accepts no other").run)(matches)
}

/// Parses the command line. Prints help or an error and exits if there is one.
fn parse(command: Command) -> ArgMatches {
    command.try_get_matches().unwrap_or_else(|mut error| {
        escape_arguments(&mut error);
        suggest_renamed(&mut error);
        let text = error.render();
        let _ = match error.use_stderr() {
            true => write!(output::stderr(OutputForm::Text), "{}", text.ansi()),
            false => write!(output::stdout(OutputForm::Text), "{}", text.ansi()),
        };
        std::process::exit(error.exit_code())
    })
}

/// Escapes invisible characters of arguments that the error quotes.
fn escape_arguments(error: &mut clap::Error) {
    let context: Vec<_> = error.context().map(|(kind, value)| (kind, value.clone())).collect();
    let is_unsafe = |text: &str| text.chars().any(is_invisible);
    for (kind, value) in context {
        let value = match value {
            ContextValue::String(text) if is_unsafe(&text) => {
                ContextValue::String(text.printable().to_string())
            }
            ContextValue::Strings(texts) if texts.iter().any(|text| is_unsafe(text)) => {
                ContextValue::Strings(texts.iter().map(|text| text.printable().to_string()).collect())
            }
            // Hints quote the argument too: drops those that do.
            ContextValue::StyledStrs(hints) => ContextValue::StyledStrs(
                hints.into_iter().filter(|hint| !is_unsafe(&hint.to_string())).collect(),
            ),
            _ => continue,
        };
        error.insert(kind, value);
    }
}

/// Suggests the current name in the error about an option that was renamed.
fn suggest_renamed(error: &mut clap::Error) {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return };
    let name = name.trim_start_matches("--");
    let (switch, name) = name.strip_prefix("no-").map_or(("", name), |name| ("no-", name));
    if let Some(option) = Opt::renamed(name) {
        let hint = format!("it is now called --{switch}{}", option.flag_name());
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
}

/// Returns the parts that the main program and programs with an embedded site share.
fn base(name: &'static str) -> Command {
    Command::new(name).version(env!("CARGO_PKG_VERSION")).max_term_width(100)
}

/// Treats a closed pipe as success and explains other errors of standard output.
fn ignore_closed_pipe(done: io::Result<()>) -> CommandResult {
    match done {
        // The reader, such as head, needs no more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| format!("cannot write to standard output: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definitions_are_consistent() {
        command().debug_assert();
    }
}
