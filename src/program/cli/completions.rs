//! `tarpon completions`: prints completion scripts for shells.

use super::{CommandResult, ignore_closed_pipe};
use clap::{
    Arg, ArgMatches, Command,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use std::io::{self, Write};

pub(super) fn command() -> Command {
    let shells = SHELLS.map(|(name, _)| name);
    let shell = PossibleValuesParser::new(shells).map(|name| {
        let shell = SHELLS.into_iter().find(|(known, _)| *known == name);
        shell.expect("clap accepts no other").1
    });
    Command::new("completions")
        .about("Print the completion script of a shell")
        .long_about(
            "Print the completion script of a shell\n\n\
             bash: tarpon completions bash > /usr/share/bash-completion/completions/tarpon\n\
             zsh: tarpon completions zsh > /usr/share/zsh/site-functions/_tarpon\n\
             fish: tarpon completions fish > /usr/share/fish/vendor_completions.d/tarpon.fish",
        )
        .arg(
            Arg::new("shell").value_name("SHELL").help("Select the shell").required(true).value_parser(shell),
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let shell: &Shell = matches.get_one("shell").expect("clap requires one");
    let mut script = Vec::new();
    clap_complete::generate(*shell, &mut super::command(), "tarpon", &mut script);
    ignore_closed_pipe(io::stdout().write_all(&script))
}

/// The shells that the tests cover.
const SHELLS: [(&str, Shell); 3] = [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];
