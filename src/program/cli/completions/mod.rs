//! `tarpon completions`: prints completion scripts for shells.
//!
//! clap generates them from the command line. The names of releases depend on a directory, so each script gets a part that asks
//! `tarpon release list --names` (`releases.bash`, `releases.zsh`, `releases.fish`).

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
    ignore_closed_pipe(io::stdout().write_all(script(*shell).as_bytes()))
}

/// Returns the script of a shell: what clap generates, with the names of releases.
fn script(shell: Shell) -> String {
    let mut generated = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "tarpon", &mut generated);
    let generated = String::from_utf8(generated).expect("clap generates text");
    match shell {
        Shell::Bash => generated + include_str!("releases.bash"),
        Shell::Fish => generated + include_str!("releases.fish"),
        // The shell calls the function by the name in the specification of the argument. The last block calls the whole script.
        _ => {
            let (functions, call) = generated.rsplit_once("if [").expect("the script ends with its call");
            let functions =
                functions.replace(ZSH_RELEASE, &ZSH_RELEASE.replace("_default", "_tarpon_releases"));
            format!("{functions}{}if [{call}", include_str!("releases.zsh"))
        }
    }
}

/// The specification of the argument that names a release, as clap writes it for zsh.
const ZSH_RELEASE: &str = "':name -- Activate the archive of this name:_default'";

/// The shells that the tests cover.
const SHELLS: [(&str, Shell); 3] = [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];
