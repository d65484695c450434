//! `tarpon serve`: serves until it is told to stop.

use super::{Done, flags, read};
use crate::events;
use clap::{ArgMatches, Command};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tarpon::{
    Bound, Service, Trouble,
    config::{Config, ListenerConfig, Program, ServerConfig},
    default_addresses,
};

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
        .args(flags::args(Program::Serve))
        .after_help(
            "Options on the command line win over those of a configuration file; --NAME and --no-NAME switch on and off what it says \
             otherwise.",
        )
}

pub(super) fn run(matches: &ArgMatches) -> Done {
    serve(read::settled(matches)?.config)
}

/// Serves what a configuration says.
pub(super) fn serve(config: Config) -> Done {
    raise_file_limit();
    events::begin(config.log.events);
    let unknown = config.unknown();
    let Config { sites, listeners, server, log } = config;
    let ServerConfig { settings, grace, user, sandbox, admin, .. } = server;
    // Before anything else is looked at: a port in use is told at once, not after a long reading.
    let listeners = listen(&listeners, settings.worker_count.get())?;
    let admin = admin.map(|address| Bound::new(&address, 1)).transpose()?;
    let service = Service { settings, listeners, sites, unknown, grace, user, sandbox, log, admin };
    tarpon::supervise(service, events::told)
}

fn listen(wanted: &[ListenerConfig], worker_count: usize) -> Result<Vec<Bound>, Trouble> {
    if !wanted.is_empty() {
        return wanted.iter().map(|listener| Bound::new(&listener.address, worker_count)).collect();
    }
    let addresses = default_addresses();
    let supported = addresses.iter().filter(|address| address.is_supported());
    supported.map(|address| Bound::new(address, worker_count)).collect()
}

/// As many descriptors as the system allows: clients and large files each need one.
fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // It may always be raised up to the maximum; where it is not, the server serves fewer at once.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
