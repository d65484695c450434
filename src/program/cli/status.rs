//! `tarpon status`: what a server says of itself.

use super::{CommandResult, written};
use crate::Address;
use crate::program::output::{self, OutputForm, status};
use clap::{ArgMatches, Args, FromArgMatches, Parser};
use std::io::{self, ErrorKind, Write};

/// Show what a server is doing: connections, requests, sites
///
/// Asks its admin listener.
#[derive(Debug, Parser)]
#[command(name = "status")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    desk: AdminOption,

    /// Show it as JSON
    #[arg(long)]
    json: bool,
}

/// Where to ask.
#[derive(Debug, Args)]
pub(super) struct AdminOption {
    /// Where the server listens for this, if it was given an --admin [default: unix:/run/tarpon/admin.sock; for others than root,
    /// in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<Address>,
}

impl AdminOption {
    /// The place that was named, or the usual one.
    pub(super) fn address(self) -> Result<Address, &'static str> {
        self.admin
            .or_else(crate::default_admin_address)
            .ok_or("there is no usual place to ask a server at; name one with --admin")
    }
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let StatusArgs { desk, json } = StatusArgs::from_arg_matches(matches)?;
    let admin = desk.address()?;
    let metrics = crate::fetch_metrics(&admin).map_err(|error| trouble(&admin, &error, ""))?;
    let mut out = output::stdout(if json { OutputForm::Json } else { OutputForm::Words });
    let done = match json {
        true => {
            serde_json::to_writer_pretty(&mut out, &metrics).map_err(Into::into).and_then(|()| writeln!(out))
        }
        false => status::write(&metrics, status::now(), &mut out),
    };
    written(done.and_then(|()| out.flush()))
}

/// Why nobody answers there, and what to do; and what else, where there is no such listener.
pub(super) fn trouble(admin: &Address, error: &io::Error, otherwise: &str) -> String {
    let (remedy, otherwise) = match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            ("start a server, or name with --admin where it answers", otherwise)
        }
        ErrorKind::PermissionDenied => ("ask as the user who started the server, or as root", ""),
        _ => ("name the address that the server was given with --admin", ""),
    };
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
    format!("cannot ask the server at {admin}: {why}; {remedy}{otherwise}")
}
