//! `tarpon manual`: pages for man, made of the words of the command line.

use super::{CommandResult, reference, written};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

pub(super) fn command() -> Command {
    Command::new("manual")
        .about("Write a page of the manual, as in tarpon manual serve | man -l -")
        .arg(
            Arg::new("page")
                .value_name("PAGE")
                .help("A command, or tarpon.toml for the configuration file")
                .default_value("tarpon"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .conflicts_with("page")
                .help("Write all pages into this directory, each under its name"),
        )
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["page", "all"])
                .help("Write the reference of the configuration file as Markdown"),
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    if matches.get_flag("markdown") {
        return written(io::stdout().write_all(reference::markdown().as_bytes()));
    }
    let pages = pages()?;
    if let Some(dir) = matches.get_one::<PathBuf>("all") {
        return write_all(&pages, dir);
    }
    let wanted: &String = matches.get_one("page").expect("there is a default");
    let Some(page) = pages.iter().find(|page| page.name == *wanted) else {
        let names: Vec<_> = pages.iter().map(|page| &*page.name).collect();
        return Err(format!("there is no page {wanted}; there are {}", names.join(", ")).into());
    };
    if io::stdout().is_terminal() {
        return Err(format!(
            "a page is nothing for a terminal; take it on, as with tarpon manual {wanted} | man -l -"
        )
        .into());
    }
    written(io::stdout().write_all(&page.text))
}

struct ManualPage {
    /// As a user asks for it.
    name: String,
    /// Of its file.
    file: String,
    text: Vec<u8>,
}

/// Every page there is.
fn pages() -> io::Result<Vec<ManualPage>> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    pages.push(ManualPage {
        name: "tarpon.toml".into(),
        file: "tarpon.toml.5".into(),
        text: reference::page().into_bytes(),
    });
    Ok(pages)
}

/// The page of a command, and those of its own commands.
fn add(command: &Command, pages: &mut Vec<ManualPage>) -> io::Result<()> {
    let full = command.get_display_name().unwrap_or(command.get_name());
    let name = full.strip_prefix("tarpon-").unwrap_or(full).to_owned();
    let man =
        Man::new(command.clone()).source(concat!("tarpon ", env!("CARGO_PKG_VERSION"))).manual("tarpon");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    if name == "serve" {
        said(&mut roff, "CONFIGURATION FILE", CONFIGURATION);
        said(&mut roff, "SIGNALS", SIGNALS);
    }
    said(&mut roff, "EXIT STATUS", EXIT_STATUS);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("tarpon"), roman("(1), "), bold("tarpon.toml"), roman("(5)")]);
    roff.to_writer(&mut text)?;
    pages.push(ManualPage { name, file: man.get_filename(), text });
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| add(command, pages))
}

fn write_all(pages: &[ManualPage], dir: &Path) -> CommandResult {
    for ManualPage { file, text, .. } in pages {
        let path = dir.join(file);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.printable()))?;
    }
    Ok(())
}

/// A section of terms and what is said of them.
fn said(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (term, text) in rows {
        if term.is_empty() {
            roff.text([roman(*text)]);
        } else {
            roff.control("TP", []);
            roff.text([bold(*term)]);
            roff.text([roman(*text)]);
        }
    }
}

const CONFIGURATION: &[(&str, &str)] = &[(
    "",
    "The file that --config names says what flags can say, and more; see tarpon.toml(5). Flags win over it, those of a \
     site in every site of the file; addresses given with --listen take the place of all its listeners. --no-NAME \
     switches off what the file has switched on.",
)];

const SIGNALS: &[(&str, &str)] = &[
    (
        "SIGTERM, SIGINT",
        "No new connections are taken; responses under way may finish within the time of --grace. A second one ends it at once.",
    ),
    (
        "SIGHUP",
        "The configuration file is read anew, as by tarpon reload. What can be served is, by new processes on the same sockets, and no request fails for \
         it; of what cannot, standard error says why, and nothing changes.",
    ),
    (
        "SIGUSR2",
        "The program is started anew, as its file is by then, as by tarpon upgrade. Once it serves on the same sockets this one ends; it is \
         another process. If it cannot, standard error says why, and nothing changes.",
    ),
    ("SIGUSR1", "The file of the access log is opened anew, after another program has renamed it."),
];

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "All went well; a server was told to stop."),
    (
        "1",
        "It could not be done, or something was found to be wrong; standard error says what, why, and what to do.",
    ),
    ("2", "The command line was not understood."),
];
