//! The command line: what the program can be told to do, each in a file of its own.
//!
//! | module | what |
//! |---|---|
//! | `serve` | serves until it is told to stop |
//! | `status` | what a server says of itself |
//! | `order` | what a server is told to do while it runs |
//! | `pack`, `inspect`, `verify`, `release` | packed sites |
//! | `config` | the configuration, checked and shown |
//! | `manual`, `reference` | pages for man, made of all these words; the one of the configuration file, as Markdown too |
//! | `completions` | the same for shells |
//! | `flags`, `read` | the flags of the options that a configuration has; what they say together with a file |
//! | `carrier` | a program that carries its site |

mod completions;
mod config;
mod embedded;
mod flags;
mod inspect;
mod manual;
mod order;
mod pack;
mod read;
mod reference;
mod release;
mod serve;
mod status;
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

/// What became of it.
type CommandResult = Result<(), Box<dyn Error>>;

/// Something the program can be told to do.
struct CliCommand {
    /// How it is said.
    command: fn() -> Command,
    /// Does it.
    run: fn(&ArgMatches) -> CommandResult,
}

/// In the order of the help.
const ACTIONS: [CliCommand; 11] = [
    CliCommand { command: serve::command, run: serve::run },
    CliCommand { command: pack::command, run: pack::run },
    CliCommand { command: inspect::command, run: inspect::run },
    CliCommand { command: verify::command, run: verify::run },
    CliCommand { command: release::ReleaseArgs::command, run: release::run },
    CliCommand { command: status::StatusArgs::command, run: status::run },
    CliCommand { command: order::Reload::command, run: order::reload },
    CliCommand { command: order::Upgrade::command, run: order::upgrade },
    CliCommand { command: config::command, run: config::run },
    CliCommand { command: manual::command, run: manual::run },
    CliCommand { command: completions::command, run: completions::run },
];

/// All of the command line.
fn command() -> Command {
    base("tarpon")
        .about("A web server for static sites")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(ACTIONS.iter().map(|action| (action.command)()))
}

/// Does what the command line says.
pub(crate) fn run() -> CommandResult {
    let matches = matches(command());
    let (name, matches) = matches.subcommand().expect("clap asks for one");
    let action = ACTIONS.iter().find(|action| (action.command)().get_name() == name);
    (action.expect("clap knows no other").run)(matches)
}

/// Reads the command line. Help, or what is wrong with it, is shown, and ends the program.
fn matches(command: Command) -> ArgMatches {
    command.try_get_matches().unwrap_or_else(|mut refused| {
        in_line(&mut refused);
        name_successor(&mut refused);
        let text = refused.render();
        let _ = match refused.use_stderr() {
            true => write!(output::stderr(OutputForm::Words), "{}", text.ansi()),
            false => write!(output::stdout(OutputForm::Words), "{}", text.ansi()),
        };
        std::process::exit(refused.exit_code())
    })
}

/// Makes what was said on the command line a part of one line, where it is quoted.
fn in_line(refused: &mut clap::Error) {
    let context: Vec<_> = refused.context().map(|(kind, value)| (kind, value.clone())).collect();
    let is_odd = |text: &str| text.chars().any(is_invisible);
    for (kind, value) in context {
        let value = match value {
            ContextValue::String(text) if is_odd(&text) => ContextValue::String(text.printable().to_string()),
            ContextValue::Strings(texts) if texts.iter().any(|text| is_odd(text)) => {
                ContextValue::Strings(texts.iter().map(|text| text.printable().to_string()).collect())
            }
            // A hint that quotes it once more.
            ContextValue::StyledStrs(hints) => ContextValue::StyledStrs(
                hints.into_iter().filter(|hint| !is_odd(&hint.to_string())).collect(),
            ),
            _ => continue,
        };
        refused.insert(kind, value);
    }
}

/// Names the option of today in the error for one of an earlier version.
fn name_successor(refused: &mut clap::Error) {
    let Some(ContextValue::String(name)) = refused.get(ContextKind::InvalidArg) else { return };
    let name = name.trim_start_matches("--");
    let (switch, name) = name.strip_prefix("no-").map_or(("", name), |name| ("no-", name));
    if let Some(option) = Opt::renamed(name) {
        let hint = format!("it is called --{switch}{} now", option.flag_name());
        refused.remove(ContextKind::SuggestedArg);
        refused.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
}

/// What every program of ours has.
fn base(name: &'static str) -> Command {
    Command::new(name).version(env!("CARGO_PKG_VERSION")).max_term_width(100)
}

/// What came of writing to standard output.
fn written(done: io::Result<()>) -> CommandResult {
    match done {
        // Who reads it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| format!("cannot write to standard output: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        command().debug_assert();
    }
}
