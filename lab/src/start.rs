//! Start: how soon does a server of many files answer, and how much memory does it take?
//!
//! ```text
//! spawn ─▶ exec ─ … ─▶ connection accepted ─▶ first answer ─▶ memory ─▶ many different pages ─▶ memory
//! └────────────────── timed ──────────────────────────┘
//! ```
//!
//! All files are in memory: what a disk would add is its own.

use std::env;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::Trouble;
use crate::client::{read_response, request};
use crate::conditions;
use crate::limit;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::peer::{Running, Server, Stage, names};
use crate::race;
use crate::record::{self, Entrant, Keeper, Record, file_name};
use crate::site;
use crate::stats::Spread;
use crate::table::{Column, NONE, Report, Table, mib, ms, range, thousands};

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds to run.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Pages of the site that is generated.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Different pages to ask for before memory is looked at again.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    requests: u32,
    /// A directory for the site [default: where temporary files are].
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// The program tarpon; by default the one beside this one.
    #[arg(long, value_name = "PATH")]
    tarpon: Option<PathBuf>,
    /// The servers to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = SERVERS)]
    servers: Vec<Server>,
    /// Writes everything measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure in the network and with the scheduling that are here, for trying it out without root.
    #[arg(long)]
    here: bool,
}

/// All that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The command that makes another one like it.
    command: String,
    machine: Machine,
    made_conditions: bool,
    files: u32,
    /// Bytes of all pages.
    bytes: u64,
    entrants: Vec<Entrant>,
    rounds: Vec<Vec<Window>>,
}

/// One server, started once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Window {
    server: Server,
    /// From before its process was made to the last byte of its first answer.
    answer_ns: u64,
    /// What it held then.
    started: Memory,
    /// Different pages asked for after that.
    requests: u32,
    /// What it held then.
    asked: Memory,
}

/// Measures, prints the table, and keeps the record.
pub(crate) fn main(options: &Options) -> Result<(), Trouble> {
    if !options.here {
        conditions::enter()?;
    }
    let keeper = Keeper::open(options.out.as_deref())?;
    let place = options.place.clone().unwrap_or_else(env::temp_dir);
    let stage = Stage::set(&place, (PAGE, limit::content(PAGE_LEN)), options.tarpon.as_deref(), None)?;
    // Kept while the stage stands: to remove so many files takes a while.
    keeper.keep(&Record::Start(run(options, &stage)?))
}

fn run(options: &Options, stage: &Stage) -> Result<Start, Trouble> {
    let machine = Machine::here();
    eprintln!("writing {} files", thousands(options.files as usize));
    let bytes = site::write(&stage.site(), options.files as usize)?;
    let entrants = stage.entrants(options.servers.clone())?;
    let mut rounds = Vec::new();
    // Round 0 is a rehearsal, so that what is read from the disk in a later one has been read before.
    for round in 0..=options.rounds {
        let mut windows = Vec::new();
        for entrant in race::order(&entrants, round as usize) {
            let window = window(stage, entrant.server, options)
                .map_err(|trouble| format!("{}: {trouble}\n{}", entrant.name, stage.said()))?;
            windows.push(window);
        }
        if round > 0 {
            eprintln!("round {round}");
            rounds.push(windows);
        }
    }
    let (command, made_conditions) = (options.command(), !options.here);
    Ok(Start { command, machine, made_conditions, files: options.files, bytes, entrants, rounds })
}

fn window(stage: &Stage, server: Server, options: &Options) -> Result<Window, Trouble> {
    let mut running = stage.spawn(server)?;
    let mut stream = running.connect()?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    let answer = ask(&mut stream, &running, 0)?;
    let answer_ns = running.began().elapsed().as_nanos() as u64;
    expect(0, &answer)?;

    let processes = running.processes()?;
    let started = Memory::of(&processes)?;
    let requests = options.requests.min(options.files);
    for number in 0..requests {
        let number = u64::from(number) * u64::from(options.files) / u64::from(requests);
        expect(number as usize, &ask(&mut stream, &running, number as usize)?)?;
    }
    let asked = Memory::of(&processes)?;
    Ok(Window { server, answer_ns, started, requests, asked })
}

/// Asks for a page, and returns its content.
fn ask(stream: &mut TcpStream, running: &Running, number: usize) -> Result<Vec<u8>, Trouble> {
    stream.write_all(&request(running.address(), &format!("/{}", site::path(number))))?;
    let mut wire = Vec::new();
    let extent = read_response(stream, &mut wire)?;
    Ok(wire.split_off(extent.head_len))
}

fn expect(number: usize, content: &[u8]) -> Result<(), Trouble> {
    match content == site::page(number) {
        true => Ok(()),
        false => Err(format!("/{} is not that of the file", site::path(number)).into()),
    }
}

impl Options {
    fn command(&self) -> String {
        let command = record::command(
            "start",
            &[
                ("rounds", self.rounds.to_string()),
                ("files", self.files.to_string()),
                ("requests", self.requests.to_string()),
                ("servers", names(&self.servers)),
                ("tarpon", file_name(self.tarpon.as_deref())),
            ],
        );
        if self.here { command + " --here" } else { command }
    }
}

/// The table: time to the first answer, and memory.
pub(crate) fn report(start: &Start) -> Report {
    let row = |entrant: &Entrant| {
        let windows = || start.rounds.iter().flatten().filter(|window| window.server == entrant.server);
        let of = |number: fn(&Window) -> u64| Spread::of(windows().map(|window| number(window) as f64));
        let memory = |number| of(number).map_or(NONE.into(), |spread| mib(spread.median));
        let answer = of(|window| window.answer_ns);
        vec![
            entrant.name.clone(),
            answer.map_or(NONE.into(), |spread| ms(spread.median)),
            answer.map_or(NONE.into(), |spread| range(&ms(spread.min), &ms(spread.max))),
            memory(|window| window.started.rss),
            memory(|window| window.started.pss),
            memory(|window| window.started.own()),
            memory(|window| window.asked.pss),
            memory(|window| window.asked.own()),
        ]
    };
    let rows = start.entrants.iter().map(row).collect();
    Report {
        tables: vec![(None, Table { columns: COLUMNS, rows })],
        caption: caption(start),
        command: start.command.clone(),
    }
}

const COLUMNS: &[Column] = &[
    ("server", Some("server")),
    ("answer ms", Some("first answer, ms")),
    ("range", Some("range")),
    ("RSS MiB", None),
    ("PSS", Some("resident, MiB")),
    ("own", Some("own, MiB")),
    ("then: PSS", Some("later: resident, MiB")),
    ("own", Some("own, MiB")),
];

fn caption(start: &Start) -> String {
    let conditions = match start.made_conditions {
        true => "In a private network, as batch tasks.",
        false => "UNDER CONDITIONS AS FOUND: for trying out only.",
    };
    let requests = start.rounds.iter().flatten().map(|window| window.requests).max().unwrap_or_default();
    format!(
        "A generated site of {} pages, {} MiB, all in memory. From before the process is made to the last byte of its \
         first answer; what it holds then; and later, after {} different pages. Resident is the proportional set size of \
         all its processes; own is what of the machine's memory ends with them alone: anonymous memory, and files that exist in \
         memory only. The rest is cache of files on the disk, which the kernel can take back. Medians of {} rounds; one \
         worker. {conditions} {}.",
        thousands(start.files as usize),
        mib(start.bytes as f64),
        thousands(requests as usize),
        start.rounds.len(),
        start.machine,
    )
}

const SERVERS: [Server; 4] =
    [Server::TarponUringPacked, Server::TarponUringTar, Server::TarponUring, Server::Nginx];

/// The front page of the site.
const PAGE: &str = "index.html";
const PAGE_LEN: usize = 1024;

/// Longest wait for the first answer: enough to read a million files.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_the_middle_of_all_rounds() {
        let memory = |mib: u64| Memory {
            rss: mib << 21,
            pss: mib << 20,
            anonymous: mib << 19,
            memory_files: mib << 18,
        };
        let round = |ms: u64| {
            let (started, asked) = (memory(ms), memory(4 * ms));
            vec![Window { server: Server::Nginx, answer_ns: ms * 1_000_000, started, requests: 1000, asked }]
        };
        let start = Start {
            command: "tarpon-lab start".into(),
            machine: Machine::here(),
            made_conditions: true,
            files: 100_000,
            bytes: 500 << 20,
            entrants: vec![Entrant { server: Server::Nginx, name: "nginx".into() }],
            rounds: vec![round(8), round(40), round(12)],
        };
        let text = report(&start).markdown();
        assert!(text.contains("| nginx | 12.0 | 8.0–40.0 | 12.0 | 9.0 | 48.0 | 36.0 |"), "{text}");
        assert!(text.starts_with("| server | first answer, ms | range |"), "{text}");
        assert!(text.contains("100,000 pages, 500 MiB"), "{text}");
    }
}
