//! `tarpon manual`: prints manual pages, generated from the help of the commands.

use super::{CommandResult, ignore_closed_pipe, manual_sections, reference};
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
        .about("Print a manual page, as in tarpon manual serve | man -l -")
        .arg(
            Arg::new("page")
                .value_name("PAGE")
                .help("Select the page: a command, or tarpon.toml for the configuration file")
                .default_value("tarpon"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::DirPath)
                .conflicts_with("page")
                .help("Write all pages to this directory"),
        )
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["page", "all"])
                .help("Print the reference of the configuration file as Markdown"),
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    if matches.get_flag("markdown") {
        return ignore_closed_pipe(io::stdout().write_all(reference::markdown().as_bytes()));
    }
    let pages = pages()?;
    if let Some(dir) = matches.get_one::<PathBuf>("all") {
        return write_all(&pages, dir);
    }
    let wanted: &String = matches.get_one("page").expect("the argument has a default");
    let Some(page) = pages.iter().find(|page| page.name == *wanted) else {
        let names: Vec<_> = pages.iter().map(|page| &*page.name).collect();
        return Err(format!("no manual page {wanted}; the pages are {}", names.join(", ")).into());
    };
    if io::stdout().is_terminal() {
        return Err(format!(
            "cannot print a manual page to a terminal; use a pipe, as in tarpon manual {wanted} | man -l -"
        )
        .into());
    }
    ignore_closed_pipe(io::stdout().write_all(&page.text))
}

struct ManualPage {
    /// The name on the command line.
    name: String,
    /// The name of its file.
    file: String,
    text: Vec<u8>,
}

/// Returns all pages.
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

/// Adds the page of a command, and those of its subcommands.
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
        section(&mut roff, "CONFIGURATION FILE", CONFIGURATION);
        section(&mut roff, "SIGNALS", SIGNALS);
    }
    let sections = manual_sections::of(&name);
    section(&mut roff, "EXAMPLES", sections.examples);
    section(&mut roff, "FILES", sections.files);
    section(&mut roff, "ENVIRONMENT", sections.environment);
    section(&mut roff, "EXIT STATUS", EXIT_STATUS);
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

/// Writes a section of terms and their descriptions, if it has any. An empty term makes a paragraph.
pub(super) fn section(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    if rows.is_empty() {
        return;
    }
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
    "The file of --config sets the same options as flags, and more; see tarpon.toml(5). Flags win over the file. A flag of a \
     site applies to every site of the file, and addresses of --listen replace all its listeners. --no-NAME switches off \
     an option that the file switches on.",
)];

const SIGNALS: &[(&str, &str)] = &[
    (
        "SIGTERM, SIGINT",
        "The server accepts no new connections and exits when all responses are sent, at the latest after --grace-period. A second \
         signal stops it at once.",
    ),
    (
        "SIGHUP",
        "The server reloads the configuration file, as tarpon reload does. New processes on the same sockets serve it, and no request \
         fails. If the file has errors, the server prints them to standard error and changes nothing.",
    ),
    (
        "SIGUSR2",
        "The server starts its program file again, as tarpon upgrade does. Once the new process serves on the same sockets, the old \
         one exits. If the new process cannot serve, the server prints why to standard error and continues.",
    ),
    ("SIGUSR1", "The server reopens the file of the access log, after another program has renamed it."),
];

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Success. A server was stopped by a signal."),
    ("1", "The command failed or found errors. Standard error has the reason and a hint."),
    ("2", "The command line is invalid."),
];
