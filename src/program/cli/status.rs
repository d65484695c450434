//! `tarpon status`: prints the state of a running server.

use super::{CommandResult, ignore_closed_pipe, read};
use crate::config::{AdminAt, read_admin_token};
use crate::program::output::{self, OutputForm, status};
use crate::{Address, AdminToken, Metrics, ServerState, UserError};
use clap::{ArgMatches, Args, FromArgMatches, Parser, ValueHint};
use std::{
    error::Error,
    io::{self, ErrorKind, Write},
    path::PathBuf,
};
use tarpon_site::Printable;

/// Show the connections, requests and sites of a running server
///
/// Asks the admin listener of the server.
#[derive(Debug, Parser)]
#[command(name = "status")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    admin: ReadOption,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print the state alone, and exit with status 1 unless the server serves its sites
    ///
    /// For health checks of containers.
    #[arg(long, conflicts_with = "json")]
    ready: bool,
}

/// The address of the admin listener.
#[derive(Debug, Args)]
pub(super) struct AdminOption {
    /// Ask this admin listener, as given to tarpon serve --admin
    ///
    /// Default: unix:/run/tarpon/admin.sock; $XDG_RUNTIME_DIR/tarpon/admin.sock if not root.
    #[arg(long, value_name = "ADDR:PORT")]
    admin: Option<Address>,

    /// Ask the server of this configuration file, at its admin listener
    ///
    /// The listener is that of the option admin in the file. Relative paths in it start at its directory.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "admin")]
    config: Option<PathBuf>,
}

/// The admin listener, to be read from.
#[derive(Debug, Args)]
pub(super) struct ReadOption {
    #[command(flatten)]
    admin: AdminOption,

    /// Send the token in this file to an admin listener on TCP
    ///
    /// Default: that of the option admin-token-file in the configuration file, if --config names one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    admin_token_file: Option<PathBuf>,
}

/// An admin listener, and the token for it.
#[derive(Debug)]
pub(super) struct AdminSource {
    pub(super) address: Address,
    token: Option<AdminToken>,
}

impl ReadOption {
    /// Returns the admin listener and the token that its clients need over TCP.
    pub(super) fn source(self) -> Result<AdminSource, Box<dyn Error>> {
        let (address, configured) = self.admin.resolve()?;
        let file = self.admin_token_file.or(configured).filter(|_| matches!(address, Address::Tcp(_)));
        let token = file.map(|file| read_admin_token(&file)).transpose()?.map(|(token, _)| token);
        Ok(AdminSource { address, token })
    }
}

impl AdminSource {
    /// Fetches the metrics.
    ///
    /// # Errors
    /// The message of the failure, with a hint.
    pub(super) fn fetch(&self) -> Result<Metrics, String> {
        crate::fetch_metrics_with_token(&self.address, self.token.as_ref())
            .map_err(|error| connect_error(&self.address, &error, ""))
    }
}

impl AdminOption {
    /// Returns the given address, that of the configuration file, or the default.
    pub(super) fn address(self) -> Result<Address, Box<dyn Error>> {
        self.resolve().map(|(address, _)| address)
    }

    /// Returns the address, and the file of the token in the configuration file.
    fn resolve(self) -> Result<(Address, Option<PathBuf>), Box<dyn Error>> {
        let server = self.config.as_ref().map(|path| read::resolve_path(path)).transpose()?;
        let server = server.map(|resolved| resolved.config.server);
        let token_file = server.as_ref().and_then(|server| server.admin_token_file.clone());
        let configured = match self.config.as_ref().zip(server) {
            Some((path, server)) => match server.admin {
                AdminAt::Default => None,
                AdminAt::At(address) => Some(address),
                AdminAt::Off => {
                    let what = format_args!("cannot ask the server of {}", path.printable());
                    let why = "its admin listener is off";
                    let hint = "set admin in [server] to an address, or use signals: kill -HUP PID reloads";
                    return Err(UserError::new(what, why, hint).into());
                }
            },
            None => self.admin,
        };
        let address = configured.or_else(crate::default_admin_address);
        let missing = "no default admin listener: $XDG_RUNTIME_DIR is not set; name its address with --admin";
        let address = address.ok_or(missing)?;
        Ok((address, token_file))
    }
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let StatusArgs { admin, json, ready } = StatusArgs::from_arg_matches(matches)?;
    let admin = admin.source()?;
    let metrics = admin.fetch()?;
    if ready {
        return check_ready(metrics.state, &admin.address);
    }
    let mut out = output::stdout(if json { OutputForm::Json } else { OutputForm::Text });
    let done = match json {
        true => {
            serde_json::to_writer_pretty(&mut out, &metrics).map_err(Into::into).and_then(|()| writeln!(out))
        }
        false => status::write(&metrics, status::now(), &mut out),
    };
    ignore_closed_pipe(done.and_then(|()| out.flush()))
}

/// Prints the state. Fails unless the server serves its sites.
fn check_ready(state: ServerState, admin: &Address) -> CommandResult {
    let (state, hint) = match state {
        ServerState::Serving => {
            return ignore_closed_pipe(output::stdout(OutputForm::Text).print_line(format_args!("serving")));
        }
        ServerState::Starting => {
            ("starting", "its sites are not loaded yet; its log tells why this takes long")
        }
        ServerState::Draining => ("draining", "it stops; start another one"),
    };
    Err(format!("the server at {admin} is {state}: {hint}").into())
}

/// Formats an error of the connection to the admin listener, with a hint. `alternative`: an extra hint for a missing listener.
pub(super) fn connect_error(admin: &Address, error: &io::Error, alternative: &str) -> String {
    let (hint, alternative) = match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            ("start a server, or name its admin listener with --admin", alternative)
        }
        // The system has not refused the connection: the listener has.
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            ("name the file with the token by --admin-token-file, as given to tarpon serve", "")
        }
        ErrorKind::PermissionDenied => (
            "run this command as root or as the user of the supervisor; --admin-mode 0660 of tarpon serve lets its group connect, too",
            "",
        ),
        _ => ("name the address that tarpon serve has as --admin", ""),
    };
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
    format!("cannot reach the server at {admin}: {why}; {hint}{alternative}")
}
