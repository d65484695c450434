//! `tarpon serve`: serves until it is told to stop.

use super::{Done, flags, read};
use crate::say;
use clap::{ArgMatches, Command};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};
use tarpon::{
    Bound, Change, Chosen, Handle, Releases, Server, Settings, Site, Trouble, Unknown, VirtualHost,
    VirtualHosts, Watched,
    config::{Config, ListenerConfig, Program, ServerConfig, SiteConfig},
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
            "Options on the command line win over those of a configuration file; --no-NAME switches off what is on there.",
        )
}

pub(super) fn run(matches: &ArgMatches) -> Done {
    serve(read::settled(matches)?.config)
}

/// What happens while the workers serve.
enum Event {
    /// The user, or the system, wants the program to stop.
    Signal,
    /// The directory has changed.
    Change(Change),
}

/// Serves what a configuration says.
pub(super) fn serve(config: Config) -> Done {
    raise_file_limit();
    let Config { mut sites, listeners, server: ServerConfig { settings, grace } } = config;
    if let Some(other) = sites.get(1) {
        let path = other.source.path.display();
        return Err(format!(
            "cannot serve {path} beside another site: there are no hosts yet; start a server for each"
        )
        .into());
    }
    let SiteConfig { source, keep_releases, .. } = sites.swap_remove(0);
    let Chosen { engine, instead } = settings.engine.choose()?;
    let settings = Settings { engine, keep_releases, ..settings };
    // Before anything else is looked at: a port in use is told at once, not after a long reading.
    let bound = listen(&listeners, settings.worker_count.get())?;
    let path = source.path.clone();
    let (watched, site) = Watched::new(source)?;
    say::warnings(&site);
    if let Some(reason) = instead {
        say::without_uring(&reason);
    }
    let banner = say::Banner::new(&path, &site);
    let (send, events) = channel();
    forward_signals(send.clone())?;
    let sites = vec![VirtualHost { earlier: earlier(&path, keep_releases), ..site.into() }];
    let server = Server::start(&settings, bound, VirtualHosts::new(sites, Unknown::Site(0))?)?;
    banner.say(&server, &settings);
    let _following = watched.follow(move |change| {
        // Heard until the program ends.
        let _ = send.send(Event::Change(change));
    })?;
    let handle = server.handle();
    thread::Builder::new().name("control".to_owned()).spawn(move || attend(&handle, &events, grace))?;
    Ok(server.join()?)
}

/// So many releases that were current before what a path leads to, the latest first.
fn earlier(path: &Path, count: usize) -> Vec<Site> {
    let archives = Releases::before(path);
    let open = |archive: &PathBuf| match Site::from_archive(archive, "") {
        Ok(site) => Some(site),
        Err(trouble) => {
            say::not_kept(&trouble);
            None
        }
    };
    archives.iter().take(count).filter_map(open).collect()
}

/// Swaps changed sites in, and stops the server when a signal comes; a second one ends the grace.
fn attend(server: &Handle, events: &Receiver<Event>, grace: Duration) {
    let mut grace = Some(grace);
    for event in events {
        match event {
            Event::Signal => {
                let grace = grace.take().unwrap_or_default();
                say::stopping(grace);
                server.stop(grace);
            }
            Event::Change(Change::Site(site)) => {
                say::changed(&site);
                server.swap(*site);
            }
            Event::Change(Change::Failed(trouble)) => say::unchanged(&trouble),
            Event::Change(Change::Polling(reason)) => say::polling(&reason),
        }
    }
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

fn forward_signals(send: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if send.send(Event::Signal).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
