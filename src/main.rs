//! The program: says what it does, and does it until it is told to stop.

mod bar;
mod config;
mod say;
mod table;

use clap::Parser;
use config::{Action, Command, Inspect, Pack, Serve, Verify};
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
    time::{Duration, Instant},
};
use tarpon::{Bound, Change, Chosen, Handle, Server, Trouble, Watched, default_addresses};

fn main() -> ExitCode {
    let Command { action } = Command::parse();
    let done = match action {
        Action::Serve(options) => serve(&options),
        Action::Pack(options) => pack(&options),
        Action::Inspect(options) => inspect(&options),
        Action::Verify(options) => verify(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn pack(options: &Pack) -> Result<(), Box<dyn Error>> {
    let (began, packing) = (Instant::now(), options.packing());
    let report = bar::during(|progress| tarpon::pack(&options.source(), &packing, progress))?;
    say::packed(&options.path, &packing.target, &report, began.elapsed());
    Ok(())
}

fn inspect(options: &Inspect) -> Result<(), Box<dyn Error>> {
    let site = tarpon::inspect(&options.path)?;
    match options.json {
        true => anstream::println!("{}", table::json(&site)),
        false => table::print(&site),
    }
    Ok(())
}

fn verify(options: &Verify) -> Result<(), Box<dyn Error>> {
    let verified = tarpon::verify(&options.path)?;
    say::verified(&options.path, &verified);
    match verified.damage.len() {
        0 => Ok(()),
        count => {
            let archive = options.path.display();
            Err(format!("{archive} is damaged in {count} ways; pack the site anew, or fetch it again").into())
        }
    }
}

/// What happens while the workers serve.
enum Event {
    /// The user, or the system, wants the program to stop.
    Signal,
    /// The directory has changed.
    Change(Change),
}

fn serve(options: &Serve) -> Result<(), Box<dyn Error>> {
    raise_file_limit();
    let Chosen { engine, instead } = options.engine.choose()?;
    let settings = options.settings(engine);
    // Before anything else is looked at: a port in use is told at once, not after a long reading.
    let bound = listen(options, settings.worker_count.get())?;
    let (watched, site) = Watched::new(options.source())?;
    say::warnings(&site);
    if let Some(reason) = instead {
        say::without_uring(&reason);
    }
    let banner = say::Banner::new(&options.path, &site);
    let (send, events) = channel();
    forward_signals(send.clone())?;
    let server = Server::start(&settings, bound, site)?;
    banner.say(&server, &settings);
    let _following = watched.follow(move |change| {
        // Heard until the program ends.
        let _ = send.send(Event::Change(change));
    })?;
    let (handle, grace) = (server.handle(), options.grace);
    thread::Builder::new().name("control".to_owned()).spawn(move || attend(&handle, &events, grace))?;
    Ok(server.join()?)
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
