//! `tarpon config`: checks and prints the configuration.

use super::{CommandResult, flags, ignore_closed_pipe, read, serve};
use crate::UserError;
use crate::config::{self, CommandKind, ConfigErrors, OptionValue, ResolvedConfig};
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
                     The exit status is 0 if a server with this configuration would start, else 1. The check does what the start does, \
                     as the same users: it reads sites with their _headers and _redirects, certificates and keys, and tries listeners and \
                     logs. It changes nothing. A port that is in use is no error: the server that runs may have it.",
                )
                .args(read::file_args())
                .arg(Arg::new("offline").long("offline").action(ArgAction::SetTrue).help(
                    "Check the file alone, without the users, files and addresses of this machine",
                ).long_help(
                    "Check the file alone, without the users, files and addresses of this machine\n\nFor a machine that will not run \
                     the server, as in continuous integration.",
                )),
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
    let mut resolved = read::resolve_file(matches)?;
    if !matches.get_flag("offline") {
        let warnings = read::load_files(&mut resolved)?;
        check_machine(&resolved, warnings)?;
    }
    messages::config_ok(&resolved);
    Ok(())
}

/// Checks that a server with a valid configuration would start on this machine. Prints warnings.
fn check_machine(resolved: &ResolvedConfig, of_users: Vec<UserError>) -> Result<(), read::ReadError> {
    // The limits decide how many large files a site may have.
    serve::raise_limits();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let system = config::check_system(resolved);
    let (certificates, mut warnings) = match config::check_certificates(resolved, now) {
        Ok(warnings) => (Ok(()), warnings),
        Err(errors) => (Err(errors), Vec::new()),
    };
    let mut service = serve::service(resolved.config.clone());
    warnings.extend(of_users.into_iter().chain(config::cleartext_warning(&service)));
    if certificates.is_err() {
        // The start reads them first, and would report the first of them again.
        service.tls.listeners.clear();
    }
    let start = config::check_start(resolved, service, now);
    warnings.extend(config::cgi_warnings(resolved));
    messages::config_warnings(&warnings);
    let found = ConfigErrors::join([system, certificates, start]);
    // A site that holds files of the server may have other errors, too.
    match (found, config::check_exposed(resolved)) {
        (None, Ok(())) => Ok(()),
        (Some(errors), Ok(())) | (None, Err(errors)) => Err(read::ReadError(errors)),
        (Some(errors), Err(exposed)) => Err(read::ReadError(errors.with(exposed))),
    }
}

fn write_table(resolved: &ResolvedConfig, to: &mut impl Write) -> io::Result<()> {
    let row = |entry: &OptionValue| {
        [entry.section_text(), entry.option.name.to_owned(), entry.text(), resolved.origin(entry)]
    };
    let rows: Vec<_> = resolved.entries.iter().map(row).collect();
    // All columns are text: the range of numeric columns lies behind them.
    tables::columns(["section", "option", "value", "from"], &rows, 4..=4, to)
}
