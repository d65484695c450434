//! `tarpon serve`: serves until it is told to stop.

use super::{CommandResult, flags, read};
use crate::program::output::events;
use crate::{
    Service,
    config::{AdminAt, CommandKind, Config, ServerConfig},
    default_admin_address,
};
use clap::{ArgMatches, Command};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::error::Error;

pub(super) fn command() -> Command {
    Command::new("serve")
        .about("Serve a directory or a tar archive")
        .long_about(
            "Serve a directory or a tar archive\n\nAll of a directory is read into one image before the first request, and \
             again whenever it changes. Only regular files are served; dotfiles (other than .well-known), special files and \
             symbolic links that leave the directory are not. Of an archive only the headers are read; its contents are \
             sent from where they lie.",
        )
        .arg(read::config_arg())
        .args(flags::args(CommandKind::Serve))
        .after_help(
            "Options on the command line win over those of a configuration file; --NAME and --no-NAME switch on and off what it says \
             otherwise.",
        )
}

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    serve(&|| Ok(read::settled(matches)?.config))
}

/// Serves what a configuration says, each time it is read.
pub(super) fn serve(read: &dyn Fn() -> Result<Config, Box<dyn Error>>) -> CommandResult {
    raise_limits();
    crate::supervise(&|| Ok(service(read()?)), events::told)
}

fn service(config: Config) -> Service {
    // The first time: how events are shown does not change.
    events::begin(config.log.events);
    let unknown_host = config.unknown();
    let Config { sites, listeners, server, log } = config;
    let ServerConfig { settings, grace_period, user, sandbox, admin, .. } = server;
    let addresses = listeners.into_iter().map(|listener| listener.address).collect();
    let admin_is_default = admin == AdminAt::Usual;
    let admin = match admin {
        AdminAt::Usual => default_admin_address(),
        AdminAt::At(address) => Some(address),
        AdminAt::Nowhere => None,
    };
    Service {
        settings,
        addresses,
        sites,
        unknown_host,
        grace_period,
        log,
        user,
        sandbox,
        admin,
        admin_is_default,
    }
}

/// As many descriptors as the system allows: clients and large files each need one. And as much locked memory, without any limit
/// where we may: the kernel counts the rings of io_uring as such, those of all processes of a user together.
fn raise_limits() {
    let unlimited = Rlimit { current: None, maximum: None };
    let is_unlimited = setrlimit(Resource::Memlock, unlimited).is_ok();
    let limits = if is_unlimited { &[Resource::Nofile][..] } else { &[Resource::Nofile, Resource::Memlock] };
    for &resource in limits {
        let Rlimit { maximum, .. } = getrlimit(resource);
        // It may always be raised up to the maximum; where it is not, the server serves fewer at once.
        let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
    }
}
