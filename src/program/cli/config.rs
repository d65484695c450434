//! `tarpon config`: the configuration, checked and shown.

use super::{CommandResult, flags, read, written};
use crate::config::{self, CommandKind, OptionValue, ResolvedConfig};
use crate::program::output::{self, OutputForm, messages, tables};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::io::{self, Write};

pub(super) fn command() -> Command {
    Command::new("config")
        .about("Check a configuration, or show what holds and who said it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("check")
                .about("Say all that is wrong with a configuration file; the exit status tells whether anything is")
                .arg(read::config_arg().required(true)),
        )
        .subcommand(
            Command::new("show")
                .about("Show the value of every option, and who said it: the default, the file, or a flag")
                .arg(
                    Arg::new("toml")
                        .long("toml")
                        .action(ArgAction::SetTrue)
                        .help("Write a configuration file that says the same"),
                )
                .arg(read::config_arg())
                .args(flags::args(CommandKind::Serve)),
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some((_, matches)) => show(matches),
        None => unreachable!("clap asks for one"),
    }
}

fn show(matches: &ArgMatches) -> CommandResult {
    let settled = read::settled(matches)?;
    let mut out = output::stdout(OutputForm::Words);
    let done = match matches.get_flag("toml") {
        true => write!(out, "{}", settled.toml()),
        false => write_table(&settled, &mut out),
    };
    written(done.and_then(|()| out.flush()))
}

fn check(matches: &ArgMatches) -> CommandResult {
    let settled = read::of_file(matches)?;
    config::look(&settled).map_err(read::ReadError)?;
    messages::in_order(&settled);
    Ok(())
}

fn write_table(settled: &ResolvedConfig, to: &mut impl Write) -> io::Result<()> {
    let row = |said: &OptionValue| {
        let number = said.number.filter(|_| said.section.is_many()).map(|number| format!(" {}", number + 1));
        let section = format!("{}{}", said.section.head(), number.unwrap_or_default());
        [section, said.option.name.to_owned(), said.words(), settled.from(said)]
    };
    let rows: Vec<_> = settled.said.iter().map(row).collect();
    // No column of numbers.
    tables::columns(["section", "option", "value", "from"], &rows, 4..=4, to)
}
