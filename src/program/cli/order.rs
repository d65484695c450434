//! `tarpon reload`, `tarpon upgrade`: what a server is told to do while it runs, by way of its admin listener.

use super::{
    CommandResult,
    status::{AdminOption, trouble},
    written,
};
use crate::Order;
use crate::program::output::{self, OutputForm};
use clap::{ArgMatches, FromArgMatches, Parser};
use std::io::ErrorKind;

/// Let a server read its configuration anew
///
/// Asks its admin listener, and waits until the configuration is served, or refused: then what is wrong with it is said, what was
/// served before still is, and the exit status is 1. No request fails meanwhile.
#[derive(Debug, Parser)]
#[command(name = "reload")]
pub(super) struct Reload {
    #[command(flatten)]
    desk: AdminOption,
}

/// Let a server leave its place to its program as it is installed now
///
/// Asks its admin listener. The program is started from its file with the same options, beside the one that runs and on the same sockets. Once
/// it serves the other one ends, and no request fails meanwhile; if it cannot, why not is said, the one that runs goes on, and the exit
/// status is 1. It is another process.
#[derive(Debug, Parser)]
#[command(name = "upgrade")]
pub(super) struct Upgrade {
    #[command(flatten)]
    desk: AdminOption,
}

pub(super) fn upgrade(matches: &ArgMatches) -> CommandResult {
    let Upgrade { desk } = Upgrade::from_arg_matches(matches)?;
    give(desk, Order::Upgrade, "; without one, kill -USR2 PID does the same")
}

pub(super) fn reload(matches: &ArgMatches) -> CommandResult {
    let Reload { desk } = Reload::from_arg_matches(matches)?;
    give(desk, Order::Reload, "; without one, kill -HUP PID does the same")
}

/// Gives an order, which can be given otherwise too, and shows what came of it.
fn give(desk: AdminOption, order: Order, otherwise: &str) -> CommandResult {
    let admin = desk.address()?;
    match crate::send_order(&admin, order) {
        Ok(said) => written(output::stdout(OutputForm::Words).say(format_args!("{said}"))),
        // In the words of the server.
        Err(error) if error.kind() == ErrorKind::Other => Err(error.into()),
        Err(error) => Err(trouble(&admin, &error, otherwise).into()),
    }
}
