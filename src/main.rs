//! The program: says what it does, and does it until it is told to stop.

mod bar;
mod config;
mod say;
mod table;

use clap::Parser;
use config::{Action, Carrier, CarrierAction, Command, How, Inspect, Pack, ReleaseAction, Verify};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    env,
    error::Error,
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};
use tarpon::{
    Address, Bound, Change, Chosen, Handle, Releases, Server, Site, Source, Trouble, Watched,
    default_addresses,
};

fn main() -> ExitCode {
    let done = if tarpon::carries_site() { own_site() } else { act(Command::parse().action) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn act(action: Action) -> Result<(), Box<dyn Error>> {
    match action {
        Action::Serve(options) => serve(options.source(), &options.how),
        Action::Pack(options) => pack(&options),
        Action::Inspect(Inspect { path, json }) => inspect(&path, json),
        Action::Verify(Verify { path }) => verify(&path),
        Action::Release(action) => release(action),
    }
}

/// Of a program that carries its site.
fn own_site() -> Result<(), Box<dyn Error>> {
    let Carrier { action, how } = Carrier::parse();
    let path = env::current_exe()?;
    match action {
        None => serve(how.source(&path), &how),
        Some(CarrierAction::Inspect { json }) => inspect(&path, json),
        Some(CarrierAction::Verify) => verify(&path),
        Some(CarrierAction::Extract) => extract(&path),
    }
}

fn extract(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        return Err("a tar archive is nothing for a terminal; take it on, as with extract | tar -x".into());
    }
    written(io::copy(&mut tarpon::carried_archive(path)?, &mut out).and_then(|_| out.flush()))
}

/// What came of writing to standard output.
fn written(done: io::Result<()>) -> Result<(), Box<dyn Error>> {
    match done {
        // Who reads it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| format!("cannot write to standard output: {error}").into()),
    }
}

fn pack(options: &Pack) -> Result<(), Box<dyn Error>> {
    let (began, packing) = (Instant::now(), options.packing());
    let report = bar::during(|progress| tarpon::pack(&options.source(), &packing, progress))?;
    say::packed(&options.path, &packing.target, &report, began.elapsed());
    Ok(())
}

fn inspect(path: &Path, json: bool) -> Result<(), Box<dyn Error>> {
    let site = tarpon::inspect(path)?;
    let mut out = BufWriter::new(anstream::stdout().lock());
    let done = match json {
        true => writeln!(out, "{}", table::json(&site)),
        false => table::write(&site, &mut out),
    };
    written(done.and_then(|()| out.flush()))
}

fn verify(path: &Path) -> Result<(), Box<dyn Error>> {
    let verified = tarpon::verify(path)?;
    say::verified(path, &verified);
    match verified.damage.len() {
        0 => Ok(()),
        count => {
            let (archive, ways) = (path.display(), if count == 1 { "one way" } else { "several ways" });
            Err(format!("{archive} is damaged in {ways}; pack the site anew, or fetch it again").into())
        }
    }
}

fn release(action: ReleaseAction) -> Result<(), Box<dyn Error>> {
    match action {
        ReleaseAction::List { dir } => {
            let releases = Releases::new(dir)?.list()?;
            written(say::releases(&releases, &mut anstream::stdout().lock()))?;
        }
        ReleaseAction::Activate { dir, name, verify } => {
            say::switched(&Releases::new(dir)?.activate(&name, verify, say::waiting)?);
        }
        ReleaseAction::Rollback { dir } => say::switched(&Releases::new(dir)?.rollback(say::waiting)?),
    }
    Ok(())
}

/// What happens while the workers serve.
enum Event {
    /// The user, or the system, wants the program to stop.
    Signal,
    /// The directory has changed.
    Change(Change),
}

fn serve(source: Source, how: &How) -> Result<(), Box<dyn Error>> {
    raise_file_limit();
    let Chosen { engine, instead } = how.engine.choose()?;
    let settings = how.settings(engine);
    // Before anything else is looked at: a port in use is told at once, not after a long reading.
    let bound = listen(&how.listen, settings.worker_count.get())?;
    let path = source.path.clone();
    let (watched, site) = Watched::new(source)?;
    say::warnings(&site);
    if let Some(reason) = instead {
        say::without_uring(&reason);
    }
    let banner = say::Banner::new(&path, &site);
    let (send, events) = channel();
    forward_signals(send.clone())?;
    let server = Server::start_after(&settings, bound, site, earlier(&path, how.keep_releases()))?;
    banner.say(&server, &settings);
    let _following = watched.follow(move |change| {
        // Heard until the program ends.
        let _ = send.send(Event::Change(change));
    })?;
    let (handle, grace) = (server.handle(), how.grace);
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

fn listen(wanted: &[Address], worker_count: usize) -> Result<Vec<Bound>, Trouble> {
    if !wanted.is_empty() {
        return wanted.iter().map(|address| Bound::new(address, worker_count)).collect();
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
