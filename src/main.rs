//! The program: says what it does, and does it until it is told to stop.

mod config;
mod say;

use clap::Parser;
use config::{Action, Command, Serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    error::Error,
    io,
    process::ExitCode,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};
use tarpon::{Bound, Change, Server, Trouble, Watched, default_addresses};

fn main() -> ExitCode {
    let Command { action } = Command::parse();
    let done = match action {
        Action::Serve(options) => serve(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&*error);
            ExitCode::FAILURE
        }
    }
}

/// What the main thread hears of while the workers serve.
enum Event {
    /// The user, or the system, wants the program to stop.
    Signal,
    /// The directory has changed.
    Change(Change),
}

fn serve(options: &Serve) -> Result<(), Box<dyn Error>> {
    raise_file_limit();
    let settings = options.settings();
    // Before anything else is looked at: a port in use is told at once, not after a long reading.
    let bound = listen(options, settings.worker_count.get())?;
    let (watched, site) = Watched::new(&options.dir)?;
    let (send, events) = channel();
    forward_signals(send.clone())?;
    say::warnings(&site);
    let banner = say::Banner::new(&options.dir, &site);
    let server = Server::start(&settings, bound, site)?;
    banner.say(&server, &settings);
    watched.follow(move |change| send.send(Event::Change(change)).is_ok())?;
    attend(&server, &events, options.grace)?;
    Ok(server.join()?)
}

/// Swaps changed sites in until a signal comes; a second one ends the grace. Returns when a worker has ended.
fn attend(server: &Server, events: &Receiver<Event>, grace: Duration) -> io::Result<()> {
    let handle = server.handle();
    let mut grace = Some(grace);
    while !server.has_ended() {
        match events.recv_timeout(Duration::from_millis(LOOK_MS)) {
            Ok(Event::Signal) => {
                let grace = grace.take().unwrap_or_default();
                say::stopping(grace);
                handle.stop(grace);
            }
            Ok(Event::Change(change)) => match change {
                Change::Site(site) => {
                    say::changed(&site);
                    handle.swap(*site);
                }
                Change::Failed(trouble) => say::unchanged(&trouble),
                Change::Polling(reason) => say::polling(&reason),
            },
            Err(_) => {}
        }
    }
    // The others must not serve on as a part of a server.
    handle.stop(grace.unwrap_or_default());
    Ok(())
}

/// How often the main thread looks whether a worker has ended, in milliseconds.
const LOOK_MS: u64 = 50;

fn listen(options: &Serve, worker_count: usize) -> Result<Vec<Bound>, Trouble> {
    if !options.listen.is_empty() {
        return options.listen.iter().map(|address| Bound::new(address, worker_count)).collect();
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
