//! The race: server and client share one core, and take turns on it.
//!
//! ```text
//! round 1   epoll   uring   tarpon  nginx      each: a fresh process, checked, warmed up, timed
//! round 2   uring   epoll   nginx   tarpon     one dirty window, and the round is run again
//! …
//! then      system calls of each, counted in windows of their own
//! ```
//!
//! On one core placement and wake-ups cost everybody the same, and no client can be the bottleneck unseen:
//! what it uses is measured too. A microsecond of CPU burnt in a server shows as one microsecond of the
//! server's.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Trouble;
use crate::client::{Client, Keeping};
use crate::conditions;
use crate::count;
use crate::cpu::{self, CoreTime};
use crate::limit;
use crate::machine::Machine;
use crate::peer::{Server, Stage, names};
use crate::record::{self, Calls, Entrant, Heat, Keeper, Race, Record, Round, Setting, Window, file_name};

/// How to race.
#[derive(Args)]
pub(crate) struct Options {
    /// Clean rounds to run.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of a timed window.
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Kept connections, each with one request outstanding; all rounds again for each number given.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "64", value_parser = count)]
    connections: Vec<usize>,
    /// Bytes of content in a response.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// The program tarpon; by default the one beside this one.
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
    /// An earlier build of tarpon, to take part in the same rounds and show what a change has changed.
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Servers to race against.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "nginx")]
    peers: Vec<Server>,
    /// Of all servers, run only these.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SERVERS")]
    only: Vec<Server>,
    /// The core for server and client; by default the one with the least to do.
    #[arg(long, value_name = "NUMBER")]
    core: Option<usize>,
    /// Writes everything measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Longest wait for the core to fall quiet, before the first round and after a dirty one.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    quiet_wait: u32,
    /// Race under the conditions that are here, for trying it out without root.
    #[arg(long)]
    here: bool,
}

/// Runs a race, prints its table, and keeps its record. Fails if too few rounds were clean.
pub(crate) fn main(options: &Options) -> Result<(), Trouble> {
    if !options.here {
        conditions::enter()?;
    }
    let keeper = Keeper::open(options.out.as_deref())?;
    let race = run(options)?;
    let short = race.heats.iter().find_map(|heat| {
        let (clean, run) = (heat.clean().count(), heat.rounds.len());
        let busy = || format!("{heat}, clean rounds: {clean} of {run}; this machine is too busy now");
        (clean < options.rounds as usize).then(busy)
    });
    keeper.keep(&Record::Race(race))?;
    short.map_or(Ok(()), |short| Err(short.into()))
}

fn run(options: &Options) -> Result<Race, Trouble> {
    let machine = Machine::here();
    let core = options.core.map_or_else(|| cpu::least_busy(WATCH_TIME), Ok)?;
    cpu::pin(core).map_err(|error| format!("core {core}: {error}"))?;
    allow_descriptors(options.connections.iter().copied().max().unwrap_or_default())?;

    let page = (PAGE, limit::content(options.size));
    let mut stage = Stage::set(&env::temp_dir(), page, options.tarpon.as_deref(), options.before.as_deref())?;
    let entrants = stage.entrants(options.servers())?;
    if let Some(tarpon) = entrants.iter().find(|entrant| entrant.server.is_tarpon()) {
        stage.match_null(tarpon.server)?;
    }
    let quiet_wait = Duration::from_secs(options.quiet_wait.into());
    let setting = Setting {
        rounds: options.rounds,
        rounds_max: options.rounds * ROUNDS_PER_CLEAN_MAX,
        seconds: options.seconds,
        warm_up_seconds: WARM_UP_TIME.as_secs_f64(),
        size: options.size,
        core,
        made_conditions: !options.here,
        foreign_share_max: FOREIGN_SHARE_MAX,
    };
    let command = options.command();
    let mut race = Race { command, machine, setting, entrants, heats: Vec::new(), uncounted: None };
    for connections in &options.connections {
        let heat = heat(&stage, &mut race, *connections, quiet_wait)?;
        race.heats.push(heat);
    }
    Ok(race)
}

/// All rounds with this number of connections, and the system calls behind them.
fn heat(stage: &Stage, race: &mut Race, connections: usize, quiet_wait: Duration) -> Result<Heat, Trouble> {
    let setting = &race.setting;
    let mut heat = Heat { connections, rounds: Vec::new(), calls: Vec::new() };
    await_quiet(setting.core, quiet_wait)?;
    while heat.clean().count() < setting.rounds as usize && heat.rounds.len() < setting.rounds_max as usize {
        let round = round(stage, race, &heat)?;
        if !round.clean {
            await_quiet(setting.core, quiet_wait)?;
        }
        heat.rounds.push(round);
    }
    for entrant in &race.entrants {
        match calls(stage, entrant.server, connections) {
            Ok(calls) => heat.calls.push(calls),
            Err(trouble) => race.uncounted = Some(trouble.to_string()),
        }
    }
    Ok(heat)
}

/// Waits for the core to fall quiet, and warns of what a race would suffer from.
pub(crate) fn await_quiet(core: usize, longest: Duration) -> Result<(), Trouble> {
    let load = cpu::await_quiet(core, FOREIGN_SHARE_MAX, longest)?;
    if load.core > FOREIGN_SHARE_MAX {
        let percent = load.core * 100.0;
        eprintln!("warning: others have {percent:.0}% of core {core}; rounds will be dirty");
    }
    if load.elsewhere > ELSEWHERE_MAX {
        let cores = load.elsewhere;
        eprintln!(
            "warning: other cores busy: {cores:.1}; what they share with core {core} makes rounds differ"
        );
    }
    Ok(())
}

/// One window for each server, unless one is dirty.
fn round(stage: &Stage, race: &Race, heat: &Heat) -> Result<Round, Trouble> {
    let mut round = Round { clean: true, windows: Vec::new() };
    let number = heat.rounds.len();
    for entrant in order(&race.entrants, number) {
        let window = window(stage, &race.setting, entrant.server, heat.connections)
            .map_err(|trouble| format!("{}: {trouble}", entrant.name))?;
        round.windows.push(window);
        let share = window.foreign_share();
        if share > foreign_share_max(entrant.server, heat.connections) {
            round.clean = false;
            let (percent, name) = (share * 100.0, &entrant.name);
            eprintln!(
                "{heat}, round {}: dirty, others had {percent:.1}% of the core beside {name}",
                number + 1
            );
            return Ok(round);
        }
    }
    eprintln!("{heat}, round {}: clean", number + 1);
    Ok(round)
}

/// In which order the entrants of a round have their turns. Each round begins with another one, and goes round the
/// other way: who stands behind whom evens out.
pub(crate) fn order(entrants: &[Entrant], round: usize) -> impl Iterator<Item = &Entrant> {
    let count = entrants.len();
    (0..count).map(move |turn| {
        let step = if round.is_multiple_of(2) { turn } else { count - turn };
        &entrants[(round + step) % count]
    })
}

/// Times one server, from its start to its end.
fn window(stage: &Stage, setting: &Setting, server: Server, connections: usize) -> Result<Window, Trouble> {
    let running = stage.start(server)?;
    let keeping = server.keeping(connections);
    let mut client = Client::connect(running.address(), &stage.path(), connections, keeping)?;
    client.run(WARM_UP_TIME)?;
    let threads = running.threads()?;
    threads.expect_on(setting.core)?;

    let (core, server_time, client_time) = (CoreTime::read(setting.core)?, threads.time()?, cpu::own_time());
    let run = client.run(Duration::from_secs_f64(setting.seconds))?;
    let client_time = cpu::own_time() - client_time;
    // With the processes it has made meanwhile.
    let server_time = running.threads()?.time()?.saturating_sub(server_time);
    let core = CoreTime::read(setting.core)?.since(core);

    Ok(Window {
        server,
        requests: run.requests,
        reopened: run.reopened,
        response_len: client.response_len(),
        elapsed_ns: run.elapsed.as_nanos() as u64,
        server_ns: server_time.as_nanos() as u64,
        client_ns: client_time.as_nanos() as u64,
        busy_ns: core.busy.as_nanos() as u64,
        steal_ns: core.steal.as_nanos() as u64,
        elsewhere_ns: core.elsewhere.as_nanos() as u64,
    })
}

/// Counts the system calls of one server.
fn calls(stage: &Stage, server: Server, connections: usize) -> Result<Calls, Trouble> {
    let running = stage.start(server)?;
    let keeping = server.keeping(connections);
    let mut client = Client::connect(running.address(), &stage.path(), connections, keeping)?;
    client.run(WARM_UP_TIME)?;
    let mut calls = count::Calls::of(&running.threads()?)?;
    calls.start()?;
    let run = client.run(COUNT_TIME)?;
    Ok(Calls { server, requests: run.requests, calls: calls.stop()? })
}

/// Raises the limit on open files, here and for the servers, if the connections need it.
fn allow_descriptors(connections: usize) -> Result<(), Trouble> {
    let wanted = connections as u64 + DESCRIPTORS_BESIDE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
            .map_err(|error| format!("{wanted} open files are not allowed: {error}"))?;
    }
    Ok(())
}

impl Options {
    /// The null servers, tarpon and its peers, as far as they are wanted.
    fn servers(&self) -> Vec<Server> {
        let mut servers =
            vec![Server::NullEpoll, Server::NullUring, Server::TarponUring, Server::TarponEpoll];
        if self.before.is_some() {
            servers.extend([Server::BeforeUring, Server::BeforeEpoll]);
        }
        let named = self.peers.iter().chain(self.only.iter().filter(|server| !self.peers.contains(server)));
        servers.extend(named.filter(|server| server.is_peer()));
        servers.retain(|server| self.only.is_empty() || self.only.contains(server));
        servers
    }

    /// The command that makes such a race anywhere: with its defaults, without places on this machine.
    fn command(&self) -> String {
        let connections = self.connections.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let command = record::command(
            "race",
            &[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("connections", connections),
                ("size", self.size.to_string()),
                ("peers", names(&self.peers)),
                ("only", names(&self.only)),
                ("tarpon", file_name(self.tarpon.as_deref())),
                ("before", file_name(self.before.as_deref())),
                ("core", self.core.map_or_else(String::new, |core| core.to_string())),
            ],
        );
        if self.here { command + " --here" } else { command }
    }
}

/// The length of a window: long enough to hold a request, short enough to wait for.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds between 0.01 and 600".into()),
    }
}

/// A number of connections: without one nothing is asked.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=CONNECTIONS_MAX).contains(&count) => Ok(count),
        _ => Err(format!("not a number of connections between 1 and {CONNECTIONS_MAX}")),
    }
}

/// The page that is asked for.
const PAGE: &str = "page.html";

/// What every server is set up for: half of what loopback has ports for.
const CONNECTIONS_MAX: usize = 14_000;

/// The rule, fixed before any race: a window in which others had more of the core than this is dirty, and so
/// is its round. What a core did is told in ticks of 10 ms: one at either end is one percent of
/// two seconds.
pub(crate) const FOREIGN_SHARE_MAX: f64 = 0.03;

/// The same for a server whose processes come and go: what they leave behind threads of the kernel clear away, which count as
/// others and are its own doing.
pub(crate) const FOREIGN_SHARE_MAX_OF_FORK: f64 = 0.10;

fn foreign_share_max(server: Server, connections: usize) -> f64 {
    match server {
        Server::TarponFork if server.keeping(connections) == Keeping::Some => FOREIGN_SHARE_MAX_OF_FORK,
        _ => FOREIGN_SHARE_MAX,
    }
}

/// Rounds run at most, for each clean one wanted.
pub(crate) const ROUNDS_PER_CLEAN_MAX: u32 = 3;

/// Enough for caches, congestion windows and buffers to settle.
pub(crate) const WARM_UP_TIME: Duration = Duration::from_millis(300);

/// A window with the tracepoint on.
const COUNT_TIME: Duration = Duration::from_millis(500);

/// Other cores that may be busy without a warning. They share caches and memory, and two of a machine may be
/// halves of one; but what that costs is not seen from here, so it rejects nothing.
const ELSEWHERE_MAX: f64 = 0.1;

/// How long cores are watched to find the least busy one.
pub(crate) const WATCH_TIME: Duration = Duration::from_millis(300);

/// Descriptors a server needs beside its connections.
const DESCRIPTORS_BESIDE: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn the_null_servers_race_first_and_only_the_wanted_race() {
        use Server::*;
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &[Server])] = &[
            // what it shows   arguments                                   servers
            ("by default",     &[],                                        &[NullEpoll, NullUring, TarponUring, TarponEpoll, Nginx]),
            ("some",           &["--only", "nginx,null-epoll"],            &[NullEpoll, Nginx]),
            ("not twice",      &["--peers", "tarpon-epoll,null-uring"],          &[NullEpoll, NullUring, TarponUring, TarponEpoll]),
            ("after, before",  &["--before", "old/tarpon"],                &[NullEpoll, NullUring, TarponUring, TarponEpoll, BeforeUring, BeforeEpoll, Nginx]),
            ("one engine",     &["--before=old", "--only=tarpon-epoll,before-epoll"], &[TarponEpoll, BeforeEpoll]),
            ("out of a tar",   &["--peers=tarpon-epoll-tar", "--only=tarpon-epoll,tarpon-epoll-tar"], &[TarponEpoll, TarponEpollTar]),
            ("no before",      &["--only", "before-uring"],               &[]),
            ("packed, before", &["--before=old", "--only=tarpon-uring-packed,before-uring-packed"], &[TarponUringPacked, BeforeUringPacked]),
            ("with a log",     &["--only", "tarpon-epoll,tarpon-epoll-log,nginx"], &[TarponEpoll, Nginx, TarponEpollLog]),
        ];
        for (name, arguments, want) in cases {
            let options = Arguments::parse_from([&["race"], *arguments].concat()).options;
            assert_eq!(options.servers(), *want, "{name}");
        }
    }

    #[test]
    fn a_command_names_programs_by_their_files_alone() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // what it shows   arguments                                              behind the numbers
            ("by default",     &[],                                                   " --peers nginx"),
            ("programs",       &["--tarpon", "/a/b/new", "--before=../c/old"],        " --peers nginx --tarpon new --before old"),
            ("record",         &["--out", "/a/race.json"],                            " --peers nginx"),
            ("other rules",    &["--only=null-epoll,tarpon-epoll", "--core=1", "--here"],   " --peers nginx --only null-epoll,tarpon-epoll --core 1 --here"),
        ];
        for (name, arguments, want) in cases {
            let options = Arguments::parse_from([&["race"], *arguments].concat()).options;
            let numbers = "tarpon-lab race --rounds 5 --seconds 2 --connections 64 --size 1024";
            assert_eq!(options.command(), format!("{numbers}{want}"), "{name}");
        }
    }

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }
}
