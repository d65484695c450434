//! `tarpon reload`: what a server is told to do while it runs, by way of its admin listener.

use super::{
    Done,
    status::{Desk, trouble},
    written,
};
use clap::{ArgMatches, FromArgMatches, Parser};
use std::io::{ErrorKind, Write};
use tarpon::Order;

/// Let a server read its configuration anew
///
/// Asks its admin listener, and waits until the configuration is served, or refused: then what is wrong with it is said, what was
/// served before still is, and the exit status is 1. No request fails meanwhile.
#[derive(Debug, Parser)]
#[command(name = "reload")]
pub(super) struct Reload {
    #[command(flatten)]
    desk: Desk,
}

pub(super) fn reload(matches: &ArgMatches) -> Done {
    let Reload { desk } = Reload::from_arg_matches(matches)?;
    give(desk, Order::Reload, "; without one, kill -HUP PID does the same")
}

/// Gives an order, which can be given otherwise too, and shows what came of it.
fn give(desk: Desk, order: Order, otherwise: &str) -> Done {
    let admin = desk.address()?;
    match tarpon::order(&admin, order) {
        Ok(said) => written(writeln!(anstream::stdout(), "{said}")),
        // In the words of the server.
        Err(error) if error.kind() == ErrorKind::Other => Err(error.into()),
        Err(error) => Err(trouble(&admin, &error, otherwise).into()),
    }
}
