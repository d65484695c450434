//! `tarpon top`: shows a running server live.
//!
//! ```text
//! keys, signals, samples ─ poll ─▶ view ─ lines ─▶ screen
//!                 ▲
//! thread: asks the admin listener once a second
//! ```

use super::{
    CommandResult, ignore_closed_pipe,
    status::{AdminSource, ReadOption},
};
use crate::Metrics;
use crate::program::output::{
    self, OutputForm,
    full_screen::FullScreen,
    status::now,
    top::{TopLayout, TopSample, TopView},
};
use crate::sys::signals::{Signals, die_of};
use clap::{ArgMatches, FromArgMatches, Parser};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
    stdio::stdin,
};
use std::{
    io::{self, IsTerminal, Read, Write},
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// Show requests, connections and sites of a running server live
///
/// Asks the admin listener of the server once a second, and shows rates: requests, statuses, durations, connections, the load of the
/// workers, sites, upstream servers and certificates. Keys: q quits, s sorts the sites by another column, the arrows scroll them, and ? shows
/// help. If standard output is no terminal, prints the state once.
#[derive(Debug, Parser)]
#[command(name = "top")]
pub(super) struct TopArgs {
    #[command(flatten)]
    admin: ReadOption,

    /// Print the state once, with the rates of one second
    #[arg(long)]
    once: bool,
}

/// The time between two questions.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn run(matches: &ArgMatches) -> CommandResult {
    let TopArgs { admin, once } = TopArgs::from_arg_matches(matches)?;
    let admin = admin.source()?;
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if once || is_dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return print_once(&admin);
    }
    let is_coloured = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
    match show(admin, is_coloured)
        .map_err(|error| format!("cannot use the terminal: {error}; use tarpon top --once"))?
    {
        // The signal ends the process as it would have done without a view.
        Some(signal) => die_of(signal),
        None => Ok(()),
    }
}

/// Prints the state once, without a terminal.
fn print_once(admin: &AdminSource) -> CommandResult {
    let begin = Instant::now();
    let mut view = TopView::default();
    while !view.has_rates() {
        let metrics = admin.fetch()?;
        let has_first = view.failure.is_none() && begin.elapsed() >= INTERVAL;
        view.add(TopSample { at_ms: begin.elapsed().as_millis() as u64, metrics });
        if has_first {
            break;
        }
        thread::sleep(INTERVAL);
    }
    let layout = TopLayout { width: 80, height: None, is_coloured: false, has_keys: false };
    let mut out = output::stdout(OutputForm::Text);
    let lines = view.lines(now(), layout);
    ignore_closed_pipe(lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush()))
}

/// Shows the view until a key or a signal ends it. Returns that signal.
fn show(admin: AdminSource, is_coloured: bool) -> io::Result<Option<Signal>> {
    // Before the thread starts, which inherits the block.
    let signals = Signals::block(&[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::WINCH])?;
    let begin = Instant::now();
    let (samples, wakeup) = start_asking(admin)?;
    let screen = FullScreen::open()?;
    let mut view = TopView::default();
    let mut keys = KeyReader::default();
    loop {
        let (width, height) = screen.size();
        screen.draw(
            &view.lines(now(), TopLayout { width, height: Some(height), is_coloured, has_keys: true }),
        )?;
        let input = stdin();
        let mut fds = [
            PollFd::new(&input, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(&wakeup, PollFlags::IN),
        ];
        // The time that the server has been up goes on without samples.
        let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = signals.next()? {
            if signal != Signal::WINCH {
                return Ok(Some(signal));
            }
        }
        let is_ready = |at: usize| !fds[at].revents().is_empty();
        if is_ready(2) {
            let _ = (&wakeup).read(&mut [0; 64]);
        }
        for sample in samples.try_iter() {
            match sample {
                Ok(metrics) => view.add(TopSample { at_ms: begin.elapsed().as_millis() as u64, metrics }),
                Err(failure) => view.failure = Some(failure),
            }
        }
        if is_ready(0) {
            let mut bytes = [0; 64];
            let len = match rustix::io::read(input, &mut bytes) {
                // The terminal has gone.
                Ok(0) | Err(rustix::io::Errno::IO) => return Ok(None),
                Ok(len) => len,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => 0,
                Err(error) => return Err(error.into()),
            };
            for &byte in &bytes[..len] {
                match keys.received(byte) {
                    Some(TopKey::Quit) => return Ok(None),
                    Some(TopKey::Sort) => view.sort = view.sort.next(),
                    Some(TopKey::Up) => view.scroll_by(-1),
                    Some(TopKey::Down) => view.scroll_by(1),
                    Some(TopKey::Help) => view.shows_help = !view.shows_help,
                    None => {}
                }
            }
        }
    }
}

/// Starts a thread that asks the server again and again: a server that answers slowly delays no key. Its end of the socket gets a byte with each
/// sample.
fn start_asking(admin: AdminSource) -> io::Result<(Receiver<Result<Metrics, String>>, UnixStream)> {
    let (wakeup, mut waker) = UnixStream::pair()?;
    wakeup.set_nonblocking(true)?;
    let (sender, receiver) = channel();
    thread::Builder::new().name("top".to_owned()).spawn(move || {
        loop {
            let asked = Instant::now();
            if sender.send(admin.fetch()).is_err() || waker.write_all(&[0]).is_err() {
                return;
            }
            thread::sleep(INTERVAL.saturating_sub(asked.elapsed()));
        }
    })?;
    Ok((receiver, wakeup))
}

/// A key with an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopKey {
    Quit,
    Sort,
    Up,
    Down,
    Help,
}

/// Finds keys in the bytes of a terminal. Arrows are sequences: `ESC [ A`, or `ESC O A`.
#[derive(Debug, Default)]
struct KeyReader {
    /// The bytes of a sequence so far.
    begun: Vec<u8>,
}

impl KeyReader {
    fn received(&mut self, byte: u8) -> Option<TopKey> {
        match (&self.begun[..], byte) {
            // Ctrl-C quits, whatever came before.
            (_, 0x03) => Some(TopKey::Quit),
            (_, 0x1b) => {
                self.begun = vec![byte];
                None
            }
            ([0x1b], b'[' | b'O') => {
                self.begun.push(byte);
                None
            }
            // Parameters of a longer sequence.
            ([0x1b, b'['], b'0'..=b'?') => None,
            ([0x1b, _], byte) => {
                self.begun.clear();
                match byte {
                    b'A' => Some(TopKey::Up),
                    b'B' => Some(TopKey::Down),
                    _ => None,
                }
            }
            (_, byte) => {
                self.begun.clear();
                match byte {
                    b'q' | b'Q' => Some(TopKey::Quit),
                    b's' => Some(TopKey::Sort),
                    b'k' => Some(TopKey::Up),
                    b'j' => Some(TopKey::Down),
                    b'?' | b'h' => Some(TopKey::Help),
                    _ => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn keys_are_bytes_or_sequences() {
        let cases: &[(&[u8], &[TopKey])] = &[
            // bytes             keys
            (b"q",               &[TopKey::Quit]),
            (b"\x03",            &[TopKey::Quit]),
            (b"\x1b\x03",        &[TopKey::Quit]),
            (b"ss?",             &[TopKey::Sort, TopKey::Sort, TopKey::Help]),
            (b"\x1b[A\x1bOB",    &[TopKey::Up, TopKey::Down]),
            (b"\x1b[1;5Aq",      &[TopKey::Up, TopKey::Quit]),
            (b"\x1b[3~s",        &[TopKey::Sort]),
            (b"\x1b\x1b[B",      &[TopKey::Down]),
            (b"\x1bq",           &[TopKey::Quit]),
            (b"\xff\x00xy",      &[]),
        ];
        for (bytes, want) in cases {
            let mut reader = KeyReader::default();
            let keys: Vec<_> = bytes.iter().filter_map(|byte| reader.received(*byte)).collect();
            assert_eq!(keys, *want, "{bytes:?}");
        }
    }
}
