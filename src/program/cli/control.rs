//! `tarpon reload` and `tarpon upgrade`: send an order to the admin listener of a running server.

use super::{
    CommandResult, ignore_closed_pipe,
    status::{AdminOption, connect_error},
};
use crate::Order;
use crate::program::output::{self, OutputForm};
use clap::{ArgMatches, FromArgMatches, Parser};
use std::io::ErrorKind;

/// Make a running server reload its configuration
///
/// Sends the order to the admin listener and waits until the server serves the new configuration or rejects it. A rejected
/// configuration changes nothing: the command prints the errors and exits with status 1. No request fails.
#[derive(Debug, Parser)]
#[command(name = "reload")]
pub(super) struct Reload {
    #[command(flatten)]
    admin: AdminOption,
}

/// Replace a running server by its installed program
///
/// Sends the order to the admin listener. The server starts its program file again, with the same options and on the same
/// sockets, and exits once the new process serves. No request fails. If the new process cannot serve, the command prints why and
/// exits with status 1, and the old server continues. The process ID changes.
#[derive(Debug, Parser)]
#[command(name = "upgrade")]
pub(super) struct Upgrade {
    #[command(flatten)]
    admin: AdminOption,
}

pub(super) fn upgrade(matches: &ArgMatches) -> CommandResult {
    let Upgrade { admin } = Upgrade::from_arg_matches(matches)?;
    send(admin, Order::Upgrade, "; without an admin listener, use kill -USR2 PID")
}

pub(super) fn reload(matches: &ArgMatches) -> CommandResult {
    let Reload { admin } = Reload::from_arg_matches(matches)?;
    send(admin, Order::Reload, "; without an admin listener, use kill -HUP PID")
}

/// Sends an order and prints its result. `alternative`: another way to give the order, for the hint.
fn send(admin: AdminOption, order: Order, alternative: &str) -> CommandResult {
    let admin = admin.address()?;
    match crate::send_order(&admin, order) {
        Ok(reply) => ignore_closed_pipe(output::stdout(OutputForm::Text).print_line(format_args!("{reply}"))),
        // The text comes from the server.
        Err(error) if error.kind() == ErrorKind::Other => Err(error.into()),
        Err(error) => Err(connect_error(&admin, &error, alternative).into()),
    }
}
