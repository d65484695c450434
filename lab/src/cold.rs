//! Hot beside cold: how long do clients of a page in memory wait while others wait for a slow disk?
//!
//! ```text
//! server ◀─ hot: a small page, at fixed moments ─── how long until the answer?      first alone,
//!        ◀─ cold: large files that are in no memory, from a disk that is slowed     then beside those
//! ```
//!
//! A request is due at its moment, whether the one before it on its connection was answered or not, and its time counts
//! from there. A client that waits for an answer before it looks at the clock asks less while a server stalls, and
//! does not see what everybody else would have seen.

mod clients;
mod forget;

use std::env;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::set_current_timer_slack;
use serde::{Deserialize, Serialize};

use self::clients::{Hot, Reads};
use self::forget::forget;
use crate::Trouble;
use crate::client::ClientError;
use crate::conditions;
use crate::cpu::{self, CoreTime, Threads};
use crate::limit;
use crate::machine::Machine;
use crate::peer::{Server, Stage, names};
use crate::race::{self, FOREIGN_SHARE_MAX, ROUNDS_PER_CLEAN_MAX, WARM_UP_TIME, WATCH_TIME};
use crate::record::{self, Entrant, Keeper, Record, file_name, foreign_share};
use crate::site::noise;
use crate::stats::{Spread, quantile};
use crate::table::{Column, NONE, Report, Table, mib, ms, range, thousands};
use crate::throttle::{Throttle, read_from_disk};

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Clean rounds to run.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of a timed part; a window has two, alone and beside cold reads.
    #[arg(long, default_value_t = 3.0, value_parser = race::seconds)]
    seconds: f64,
    /// Requests a second for the hot page, on all its connections together.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Connections that ask for the hot page.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    hot: u32,
    /// Connections that ask for cold files.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    cold: u32,
    /// Bytes of the hot page.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Bytes of a cold file: more than a server keeps in its own memory.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(128 << 10..))]
    large: u64,
    /// What the disk gives a server, in bytes a second.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    disk: u64,
    /// A directory on a disk, for the site [default: where temporary files are].
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// The program tarpon; by default the one beside this one.
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
    /// The servers to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = SERVERS)]
    servers: Vec<Server>,
    /// The core for server and clients; by default the one with the least to do.
    #[arg(long, value_name = "NUMBER")]
    core: Option<usize>,
    /// Writes everything measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Longest wait for the core to fall quiet, before the first round and after a dirty one.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    quiet_wait: u32,
    /// Measure in the network and with the scheduling that are here, for trying it out.
    #[arg(long)]
    here: bool,
}

/// All that was measured, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cold {
    /// The command that makes another one like it.
    command: String,
    machine: Machine,
    setting: Setting,
    entrants: Vec<Entrant>,
    /// In the order they were run.
    rounds: Vec<Round>,
}

/// What was the same for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Setting {
    rounds: u32,
    seconds: f64,
    /// Requests a second for the hot page.
    rate: u32,
    hot: u32,
    cold: u32,
    /// Bytes of the hot page.
    size: usize,
    /// Bytes of a cold file.
    large: u64,
    /// Bytes a second from the disk.
    disk: u64,
    core: usize,
    made_conditions: bool,
    foreign_share_max: f64,
}

/// A window for each server, one behind the other. A dirty one ends its round, which counts for nobody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Round {
    clean: bool,
    windows: Vec<Window>,
}

/// One server, measured once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Window {
    server: Server,
    alone: Part,
    beside: Part,
    /// Cold files received whole while the hot page was asked for beside them.
    cold_requests: usize,
    /// Bytes of cold responses received meanwhile, those of unfinished ones too.
    cold_bytes: u64,
    /// Bytes that the server had the disk read for that.
    disk_bytes: u64,
}

/// What clients of the hot page saw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    requests: usize,
    /// From the moment a request was due to the last byte of its answer.
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    elapsed_ns: u64,
    /// CPU time of the server.
    server_ns: u64,
    /// CPU time of the clients.
    client_ns: u64,
    busy_ns: u64,
    steal_ns: u64,
}

impl Part {
    fn foreign_share(&self) -> f64 {
        foreign_share(self.elapsed_ns, self.busy_ns, self.server_ns + self.client_ns, self.steal_ns)
    }
}

/// Measures, prints the table, and keeps the record. Fails if too few rounds were clean.
pub(crate) fn main(options: &Options) -> Result<(), Trouble> {
    if !options.here {
        conditions::enter()?;
    }
    let keeper = Keeper::open(options.out.as_deref())?;
    let cold = run(options)?;
    let clean = cold.clean().count();
    let (rounds, wanted) = (cold.rounds.len(), options.rounds as usize);
    keeper.keep(&Record::Cold(cold))?;
    if clean < wanted {
        return Err(format!("clean rounds: {clean} of {rounds}; this machine is too busy now").into());
    }
    Ok(())
}

fn run(options: &Options) -> Result<Cold, Trouble> {
    let machine = Machine::here();
    let place = options.place.clone().unwrap_or_else(env::temp_dir);
    // Tried before anything is made: most hosts refuse it to most users.
    drop(Throttle::new(&place, options.disk)?);
    let core = options.core.map_or_else(|| cpu::least_busy(WATCH_TIME), Ok)?;
    cpu::pin(core).map_err(|error| format!("core {core}: {error}"))?;
    // Otherwise a moment is met to 50 µs only; threads inherit it.
    set_current_timer_slack(NonZeroU64::new(1))?;

    let page = (PAGE, limit::content(options.size));
    let stage = Stage::set(&place, page, options.tarpon.as_deref(), None)?;
    let cold_count = options.cold_count();
    for number in 0..cold_count {
        std::fs::write(stage.site().join(cold_name(number)), noise(number as u64, options.large as usize))?;
    }
    std::fs::write(stage.site().join(LAST), noise(0, LAST_LEN))?;
    let entrants = stage.entrants(options.servers.clone())?;
    let quiet_wait = Duration::from_secs(options.quiet_wait.into());
    let setting = Setting {
        rounds: options.rounds,
        seconds: options.seconds,
        rate: options.rate,
        hot: options.hot,
        cold: options.cold,
        size: options.size,
        large: options.large,
        disk: options.disk,
        core,
        made_conditions: !options.here,
        foreign_share_max: FOREIGN_SHARE_MAX,
    };
    let mut cold = Cold { command: options.command(), machine, setting, entrants, rounds: Vec::new() };
    race::await_quiet(core, quiet_wait)?;
    let rounds_max = (options.rounds * ROUNDS_PER_CLEAN_MAX) as usize;
    while cold.clean().count() < options.rounds as usize && cold.rounds.len() < rounds_max {
        let round = round(&stage, &cold, cold_count)?;
        let (number, said) = (cold.rounds.len() + 1, if round.clean { "clean" } else { "dirty" });
        eprintln!("round {number}: {said}");
        if !round.clean {
            race::await_quiet(core, quiet_wait)?;
        }
        cold.rounds.push(round);
    }
    Ok(cold)
}

fn round(stage: &Stage, cold: &Cold, cold_count: usize) -> Result<Round, Trouble> {
    let mut round = Round { clean: true, windows: Vec::new() };
    for entrant in race::order(&cold.entrants, cold.rounds.len()) {
        let window = window(stage, &cold.setting, entrant.server, cold_count)
            .map_err(|trouble| format!("{}: {trouble}", entrant.name))?;
        round.windows.push(window);
        if window.alone.foreign_share().max(window.beside.foreign_share()) > FOREIGN_SHARE_MAX {
            round.clean = false;
            break;
        }
    }
    Ok(round)
}

/// Measures one server, from its start to its end.
fn window(stage: &Stage, setting: &Setting, server: Server, cold_count: usize) -> Result<Window, Trouble> {
    let throttle = Throttle::new(&stage.site(), setting.disk)?;
    let running = stage.start(server)?;
    let (address, processes, threads) = (running.address(), running.processes()?, running.threads()?);
    threads.expect_on(setting.core)?;
    for process in &processes {
        throttle.hold(*process)?;
    }
    let mut hot = Hot::connect(address, &stage.path(), setting)?;
    hot.ask(WARM_UP_TIME)?;
    let time = Duration::from_secs_f64(setting.seconds);
    let alone = part(setting.core, &threads, || hot.ask(time))?;

    forget(stage, server.form(), setting.large, cold_count)?;
    let from_disk = || processes.iter().map(|process| read_from_disk(*process)).sum::<Result<u64, _>>();
    let reads = Reads::new(address, setting, cold_count, time);
    let disk_before = from_disk()?;
    let (beside, spoilt) = thread::scope(|scope| {
        let readers: Vec<_> = (0..setting.cold).map(|_| scope.spawn(|| reads.ask())).collect();
        let beside = part(setting.core, &threads, || hot.ask(time));
        let ended = readers.into_iter().map(|reader| reader.join().expect("a reader does not panic"));
        (beside, ended.filter_map(Result::err).next())
    });
    let beside = beside?;
    if let Some(spoilt) = spoilt {
        return Err(spoilt.into());
    }
    let disk_bytes = from_disk()? - disk_before;
    throttle.lift()?;
    let (cold_requests, cold_bytes) = reads.received()?;
    let window = Window { server, alone, beside, cold_requests, cold_bytes, disk_bytes };
    window.expect_cold(setting)?;
    Ok(window)
}

impl Window {
    /// Fails if what was asked for beside the hot page was not cold, or came from a disk that was not slow.
    fn expect_cold(&self, setting: &Setting) -> Result<(), Trouble> {
        // What was received just before a part ended may have been read ahead; a little lies in memory at the edges of files.
        if self.disk_bytes < self.cold_bytes / 10 * 9 {
            let (read, sent) = (self.disk_bytes, self.cold_bytes);
            return Err(format!("of {sent} bytes of cold files only {read} came from the disk").into());
        }
        // Of what the disk is asked to give, much is read ahead and still on its way: what was sent has come.
        let at_most = setting.disk as f64 * (setting.seconds + BURST_SECONDS);
        if self.cold_bytes as f64 > at_most {
            return Err(
                format!("the disk was not slowed: {} bytes of cold files came", self.cold_bytes).into()
            );
        }
        Ok(())
    }
}

/// Runs a part and tells what its clients saw, and who used the core.
fn part(
    core: usize,
    threads: &Threads,
    ask: impl FnOnce() -> Result<Vec<u64>, ClientError>,
) -> Result<Part, Trouble> {
    let (core_time, server_time, client_time) = (CoreTime::read(core)?, threads.time()?, cpu::process_time());
    let start = Instant::now();
    let mut times = ask()?;
    let elapsed = start.elapsed();
    let client_time = cpu::process_time() - client_time;
    let server_time = threads.time()? - server_time;
    let core_time = CoreTime::read(core)?.since(core_time);
    times.sort_unstable();
    Ok(Part {
        requests: times.len(),
        p50_ns: quantile(&times, 0.5),
        p99_ns: quantile(&times, 0.99),
        max_ns: quantile(&times, 1.0),
        elapsed_ns: elapsed.as_nanos() as u64,
        server_ns: server_time.as_nanos() as u64,
        client_ns: client_time.as_nanos() as u64,
        busy_ns: core_time.busy.as_nanos() as u64,
        steal_ns: core_time.steal.as_nanos() as u64,
    })
}

/// What lies behind the cold files in an archive and is never asked for: the kernel drops nothing of a stretch of 2 MiB of which a page
/// is in use, as the last one of a mapped archive is.
const LAST: &str = "zz.mp4";
const LAST_LEN: usize = 4 << 20;

fn cold_name(number: usize) -> String {
    format!("cold-{number:04}.mp4")
}

impl Options {
    /// Twice as many as the disk can give in a part, so that no server runs out of them.
    fn cold_count(&self) -> usize {
        let given = (self.disk as f64 * (self.seconds + BURST_SECONDS) / self.large as f64).ceil() as usize;
        2 * (given + self.cold as usize)
    }

    fn command(&self) -> String {
        let command = record::command(
            "cold",
            &[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("rate", self.rate.to_string()),
                ("hot", self.hot.to_string()),
                ("cold", self.cold.to_string()),
                ("size", self.size.to_string()),
                ("large", self.large.to_string()),
                ("disk", self.disk.to_string()),
                ("servers", names(&self.servers)),
                ("tarpon", file_name(self.tarpon.as_deref())),
                ("core", self.core.map_or_else(String::new, |core| core.to_string())),
            ],
        );
        if self.here { command + " --here" } else { command }
    }
}

impl Cold {
    fn clean(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.clean)
    }

    /// A number of a server in the clean rounds.
    fn spread(&self, server: Server, number: impl Fn(&Window) -> f64) -> Option<Spread> {
        let windows = self.clean().flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(number))
    }
}

/// The table: what clients of the hot page saw, alone and beside cold reads.
pub(crate) fn report(cold: &Cold) -> Report {
    let row = |entrant: &Entrant| {
        let of = |number: fn(&Window) -> f64| cold.spread(entrant.server, number);
        let time = |number| of(number).map_or(NONE.into(), |spread| ms(spread.median));
        let p99 = of(|window| window.beside.p99_ns as f64);
        vec![
            entrant.name.clone(),
            time(|window| window.alone.p50_ns as f64),
            time(|window| window.alone.p99_ns as f64),
            time(|window| window.beside.p50_ns as f64),
            time(|window| window.beside.p99_ns as f64),
            p99.map_or(NONE.into(), |spread| range(&ms(spread.min), &ms(spread.max))),
            of(|window| window.beside.max_ns as f64).map_or(NONE.into(), |spread| ms(spread.max)),
            of(|window| window.cold_bytes as f64)
                .map_or(NONE.into(), |spread| mib(spread.median / cold.setting.seconds)),
        ]
    };
    let rows = cold.entrants.iter().map(row).collect();
    Report {
        tables: vec![(None, Table { columns: COLUMNS, rows })],
        caption: caption(cold),
        command: cold.command.clone(),
    }
}

const COLUMNS: &[Column] = &[
    ("server", Some("server")),
    ("p50", None),
    ("p99", Some("p99 alone, ms")),
    ("beside: p50", Some("beside cold reads: p50, ms")),
    ("p99", Some("p99, ms")),
    ("range", Some("range of p99")),
    ("max", Some("longest, ms")),
    ("cold MiB/s", Some("cold reads, MiB/s")),
];

fn caption(cold: &Cold) -> String {
    let setting = &cold.setting;
    let clean = cold.clean().count();
    let conditions = match setting.made_conditions {
        true => "on one core as batch tasks, in a private network",
        false => "on one core, OTHERWISE UNDER CONDITIONS AS FOUND: for trying out only",
    };
    format!(
        "Times for a page of {} bytes in memory, asked for {} times a second on {} kept connections; each counts from \
         the moment its request was due. First alone, then beside {} connections that ask for files of {} MiB, none \
         of them in memory and each asked for once, from a disk slowed to {} MiB/s for the server. Medians of {clean} clean \
         round{} of {} s each; {} rejected, in which others had more than {}% of the core. Server and clients {conditions}; \
         one worker. {}.",
        thousands(setting.size),
        thousands(setting.rate as usize),
        setting.hot,
        setting.cold,
        mib(setting.large as f64),
        mib(setting.disk as f64),
        if clean == 1 { "" } else { "s" },
        setting.seconds,
        cold.rounds.len() - clean,
        setting.foreign_share_max * 100.0,
        cold.machine,
    )
}

const SERVERS: [Server; 6] = [
    Server::TarponUring,
    Server::TarponEpoll,
    Server::TarponUringPacked,
    Server::TarponEpollPacked,
    Server::Nginx,
    Server::NginxThreads,
];

/// The page that is hot.
const PAGE: &str = "page.html";

/// What a slowed disk may give at once when nobody has read from it for a while.
const BURST_SECONDS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_only_if_its_files_came_from_a_slow_disk() {
        const MIB: u64 = 1 << 20;
        #[rustfmt::skip]
        let cases = [
            // what it shows            received   from the disk   counts
            ("all of it",               12 * MIB,  12 * MIB,       true),
            ("much read ahead",         12 * MIB,  30 * MIB,       true),
            ("the edges in memory",     12 * MIB,  11 * MIB,       true),
            ("from memory",             12 * MIB,   2 * MIB,       false),
            ("from a disk at its best", 40 * MIB,  40 * MIB,       false),
        ];
        for (name, cold_bytes, disk_bytes, want) in cases {
            let window = Window { cold_bytes, disk_bytes, ..window(1) };
            assert_eq!(window.expect_cold(&setting()).is_ok(), want, "{name}");
        }
    }

    #[test]
    fn a_table_tells_the_middle_of_the_clean_rounds() {
        let round = |clean, ms| Round { clean, windows: vec![window(ms)] };
        let cold = Cold {
            command: "tarpon-lab cold".into(),
            machine: Machine::here(),
            setting: setting(),
            entrants: vec![Entrant { server: Server::Nginx, name: "nginx".into() }],
            rounds: vec![round(true, 2), round(false, 900), round(true, 30), round(true, 4)],
        };
        let text = report(&cold).markdown();
        assert!(text.contains("| nginx | 1.0 | 4.0 | 8.0 | 4.0–60.0 | 90.0 | 4.0 |"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds of 3 s each; 1 rejected"), "{text}");
    }

    fn setting() -> Setting {
        Setting {
            rounds: 3,
            seconds: 3.0,
            rate: 1000,
            hot: 4,
            cold: 4,
            size: 1024,
            large: 1 << 20,
            disk: 4 << 20,
            core: 0,
            made_conditions: true,
            foreign_share_max: 0.03,
        }
    }

    /// In which answers beside cold reads took so long in the middle, and twice and three times that at worst.
    fn window(ms: u64) -> Window {
        let part = |ms: u64| Part {
            requests: 3000,
            p50_ns: ms * 1_000_000,
            p99_ns: ms * 2_000_000,
            max_ns: ms * 3_000_000,
            elapsed_ns: 3_000_000_000,
            server_ns: 0,
            client_ns: 0,
            busy_ns: 0,
            steal_ns: 0,
        };
        let mut alone = part(1);
        alone.p99_ns = 1_000_000;
        let bytes = 12 << 20;
        Window {
            server: Server::Nginx,
            alone,
            beside: part(ms),
            cold_requests: 11,
            cold_bytes: bytes,
            disk_bytes: bytes,
        }
    }
}
