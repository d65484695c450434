//! `tarpon config`: checks and prints the configuration.

use super::{CommandResult, flags, ignore_closed_pipe, read};
use crate::config::{self, CommandKind, OptionValue, ResolvedConfig};
use crate::program::output::{self, OutputForm, messages, tables};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::io::{self, Write};

pub(super) fn command() -> Command {
    Command::new("config")
        .about("Check a configuration file, or show the value of every option")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("check")
                .about("Report all errors of a configuration file")
                .long_about(
                    "Report all errors of a configuration file\n\n\
                     The exit status is 0 if it has none, else 1.",
                )
                .arg(read::config_arg().required(true)),
        )
        .subcommand(
            Command::new("show")
                .about("Show the value of every option and its origin")
                .long_about(
                    "Show the value of every option and its origin\n\n\
                     The origin is the default, a line of the file, or a flag.",
                )
                .arg(
                    Arg::new("toml")
                        .long("toml")
                        .action(ArgAction::SetTrue)
                        .help("Print an equivalent configuration file"),
                )
                .arg(read::config_arg())
                .args(flags::args(CommandKind::Serve)),
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some((_, matches)) => show(matches),
        None => unreachable!("clap requires one"),
    }
}

fn show(matches: &ArgMatches) -> CommandResult {
    let resolved = read::resolve(matches)?;
    let mut out = output::stdout(OutputForm::Text);
    let done = match matches.get_flag("toml") {
        true => write!(out, "{}", resolved.toml()),
        false => write_table(&resolved, &mut out),
    };
    ignore_closed_pipe(done.and_then(|()| out.flush()))
}

fn check(matches: &ArgMatches) -> CommandResult {
    let resolved = read::resolve_file(matches)?;
    config::check_system(&resolved).map_err(read::ReadError)?;
    read::check_exposed(&resolved)?;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let warnings = config::check_certificates(&resolved, now).map_err(read::ReadError)?;
    messages::config_ok(&resolved, &warnings);
    Ok(())
}

fn write_table(resolved: &ResolvedConfig, to: &mut impl Write) -> io::Result<()> {
    let row = |entry: &OptionValue| {
        [entry.section_text(), entry.option.name.to_owned(), entry.text(), resolved.origin(entry)]
    };
    let rows: Vec<_> = resolved.entries.iter().map(row).collect();
    // All columns are text: the range of numeric columns lies behind them.
    tables::columns(["section", "option", "value", "from"], &rows, 4..=4, to)
}
