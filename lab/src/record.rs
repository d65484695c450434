//! The record of a measurement: all that was measured, rejected rounds included. It is the result file.
//!
//! Numbers stay as they were read; what is made of them is made for the report, as in `Standing`, and can be made again.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Trouble;
use crate::cold::Cold;
use crate::machine::Machine;
use crate::pack::Pack;
use crate::peer::Server;
use crate::report::report;
use crate::start::Start;
use crate::stats::Spread;
use crate::table::thousands;

/// What a result file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "measurement", rename_all = "kebab-case")]
pub(crate) enum Record {
    Race(Race),
    Cold(Cold),
    Start(Start),
    Pack(Pack),
}

/// Where a record is kept, if anywhere.
pub(crate) struct Keeper(Option<File>);

impl Keeper {
    /// Opens the file, before anything is measured: a mistyped path shall not cost the record. What it holds is kept
    /// until there is a new one.
    pub(crate) fn open(path: Option<&Path>) -> Result<Keeper, Trouble> {
        let create = |path: &Path| {
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| File::options().write(true).create(true).truncate(false).open(path))
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(Keeper(path.map(create).transpose()?))
    }

    /// Prints what the record says, and keeps it.
    pub(crate) fn keep(self, record: &Record) -> Result<(), Trouble> {
        print!("{}", report(record).plain());
        if let Some(mut file) = self.0 {
            file.set_len(0)?;
            serde_json::to_writer_pretty(&mut file, record)?;
            writeln!(file)?;
        }
        Ok(())
    }
}

/// The command that makes such a measurement anywhere: with its defaults, without places on this machine. Options
/// without a value are left out.
pub(crate) fn command(name: &str, options: &[(&str, String)]) -> String {
    let given = options.iter().filter(|(_, value)| !value.is_empty());
    given.fold(format!("tarpon-lab {name}"), |command, (option, value)| {
        format!("{command} --{option} {value}")
    })
}

/// A program on a command line, without its place on this machine.
pub(crate) fn file_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// A race from beginning to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Race {
    /// The command that makes another one like it.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    pub(crate) entrants: Vec<Entrant>,
    /// One for each number of connections, in the order they were run.
    pub(crate) heats: Vec<Heat>,
    /// Why system calls were not counted.
    pub(crate) uncounted: Option<String>,
}

/// What was the same for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// Clean rounds wanted.
    pub(crate) rounds: u32,
    /// Rounds run at most.
    pub(crate) rounds_max: u32,
    /// Length of a timed window.
    pub(crate) seconds: f64,
    /// Time before each window, not counted.
    pub(crate) warm_up_seconds: f64,
    /// Bytes of content in a response.
    pub(crate) size: usize,
    /// The core for server and client.
    pub(crate) core: usize,
    /// Whether the race made its own conditions, or took those it found.
    pub(crate) made_conditions: bool,
    /// A window in which others had a larger share of the core makes its round dirty.
    pub(crate) foreign_share_max: f64,
}

/// A server in the race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entrant {
    pub(crate) server: Server,
    /// Name and version.
    pub(crate) name: String,
}

/// All rounds with the same number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heat {
    /// Kept connections.
    pub(crate) connections: usize,
    /// In the order they were run.
    pub(crate) rounds: Vec<Round>,
    /// System calls of each server, as far as they could be counted.
    pub(crate) calls: Vec<Calls>,
}

/// System calls of one server, counted in a window of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calls {
    pub(crate) server: Server,
    pub(crate) requests: u64,
    pub(crate) calls: u64,
}

/// A window for each server, one behind the other. A dirty one ends its round, which counts for nobody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) clean: bool,
    /// In the order they were run.
    pub(crate) windows: Vec<Window>,
}

/// One server, timed once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) server: Server,
    pub(crate) requests: u64,
    /// Connections that the server closed, and that were opened anew.
    #[serde(default)]
    pub(crate) reopened: u64,
    /// Bytes of a response.
    pub(crate) response_len: usize,
    pub(crate) elapsed_ns: u64,
    /// CPU time of all threads of the server.
    pub(crate) server_ns: u64,
    /// CPU time of the client.
    pub(crate) client_ns: u64,
    /// Time the core was busy, with whatever it was.
    pub(crate) busy_ns: u64,
    /// Time the host took from the core.
    pub(crate) steal_ns: u64,
    /// Time the other cores were busy or stolen, all together. No rule rejects it.
    pub(crate) elsewhere_ns: u64,
}

impl Window {
    /// The share of the window in which the core worked for neither server nor client, or was stolen.
    pub(crate) fn foreign_share(&self) -> f64 {
        foreign_share(self.elapsed_ns, self.busy_ns, self.server_ns + self.client_ns, self.steal_ns)
    }

    fn rate(&self) -> f64 {
        self.requests as f64 / (self.elapsed_ns as f64 / 1e9)
    }

    fn server_us(&self) -> f64 {
        self.server_ns as f64 / 1e3 / self.requests as f64
    }

    fn client_us(&self) -> f64 {
        self.client_ns as f64 / 1e3 / self.requests as f64
    }
}

/// The share of a time in which a core was stolen, or busy with anything but what is `own`; all in nanoseconds.
pub(crate) fn foreign_share(elapsed_ns: u64, busy_ns: u64, own_ns: u64, steal_ns: u64) -> f64 {
    (busy_ns.saturating_sub(own_ns) + steal_ns) as f64 / elapsed_ns as f64
}

impl Race {
    /// How many other cores were busy in the clean rounds, in the middle of their windows.
    pub(crate) fn elsewhere(&self) -> Option<f64> {
        let windows = self.heats.iter().flat_map(Heat::clean).flat_map(|round| &round.windows);
        Some(Spread::of(windows.map(|window| window.elsewhere_ns as f64 / window.elapsed_ns as f64))?.median)
    }
}

impl Heat {
    /// The rounds that count.
    pub(crate) fn clean(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.clean)
    }

    /// What the clean rounds say of a server; `None` if there were none.
    pub(crate) fn standing(&self, server: Server) -> Option<Standing> {
        let windows = || self.clean().filter_map(|round| round.window(server));
        Some(Standing {
            rate: Spread::of(windows().map(Window::rate))?,
            of_epoll: self.beside(server, Server::NullEpoll, Window::rate),
            of_uring: self.beside(server, Server::NullUring, Window::rate),
            server_us: Spread::of(windows().map(Window::server_us))?,
            client_us: Spread::of(windows().map(Window::client_us))?,
        })
    }

    /// What the clean rounds say of a change since the build `before`; `None` unless it and tarpon on the same
    /// engine were in one.
    pub(crate) fn change(&self, before: Server) -> Option<Change> {
        let after = before.after()?;
        let beside = |number| self.beside(after, before, number);
        Some(Change {
            rate: beside(Window::rate)?,
            server_us: beside(Window::server_us)?,
            client_us: beside(Window::client_us)?,
        })
    }

    /// Whether a server closed connections, which were then opened anew.
    pub(crate) fn reopens(&self, server: Server) -> bool {
        self.clean().filter_map(|round| round.window(server)).any(|window| window.reopened > 0)
    }

    /// System calls of a server per request, where they were counted.
    pub(crate) fn calls_per_request(&self, server: Server) -> Option<f64> {
        let calls = self.calls.iter().find(|calls| calls.server == server)?;
        Some(calls.calls as f64 / calls.requests as f64)
    }

    /// A number of a server as a share of that of another, each within a clean round.
    fn beside(&self, server: Server, base: Server, number: fn(&Window) -> f64) -> Option<Spread> {
        let pairs = self.clean().filter_map(|round| Some((round.window(server)?, round.window(base)?)));
        Spread::of_ratios(pairs.map(|(window, base)| (number(window), number(base))))
    }
}

impl fmt::Display for Heat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.connections == 1 { "" } else { "s" };
        write!(f, "{} connection{plural}", thousands(self.connections))
    }
}

impl Round {
    fn window(&self, server: Server) -> Option<&Window> {
        self.windows.iter().find(|window| window.server == server)
    }
}

/// What the clean rounds say of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    /// Requests a second.
    pub(crate) rate: Spread,
    /// Its rate as a share of that of the null server on epoll, each within a round.
    pub(crate) of_epoll: Option<Spread>,
    /// The same for io_uring.
    pub(crate) of_uring: Option<Spread>,
    /// CPU time of the server per request, in microseconds.
    pub(crate) server_us: Spread,
    /// CPU time of the client per request, in microseconds.
    pub(crate) client_us: Spread,
}

/// Tarpon as a share of its earlier build, each number within a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// Of requests a second: above one it has become faster.
    pub(crate) rate: Spread,
    /// Of CPU time of the server per request.
    pub(crate) server_us: Spread,
    /// Of CPU time of the client per request, which no change of a server should change.
    pub(crate) client_us: Spread,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_neither_server_nor_client_used_is_foreign() {
        #[rustfmt::skip]
        let cases = [
            // what it shows          busy, steal, share
            ("all ours",               900,   0,   0.0),
            ("a tick too few",         890,   0,   0.0),
            ("somebody else",          950,   0,   0.05),
            ("stolen",                 900,  20,   0.02),
            ("both",                   950,  20,   0.07),
        ];
        for (name, busy_ns, steal_ns, want) in cases {
            let window = Window { busy_ns, steal_ns, ..WINDOW };
            assert!((window.foreign_share() - want).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn a_heat_is_called_by_its_connections() {
        for (connections, want) in [
            (1, "1 connection"),
            (64, "64 connections"),
            (1000, "1,000 connections"),
            (12_034, "12,034 connections"),
        ] {
            let heat = Heat { connections, rounds: Vec::new(), calls: Vec::new() };
            assert_eq!(heat.to_string(), want);
        }
    }

    const WINDOW: Window = Window {
        reopened: 0,
        server: Server::TarponEpoll,
        requests: 1,
        response_len: 1,
        elapsed_ns: 1000,
        server_ns: 500,
        client_ns: 400,
        busy_ns: 0,
        steal_ns: 0,
        elsewhere_ns: 0,
    };
}
