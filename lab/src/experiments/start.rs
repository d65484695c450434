//! Starts: time from the start of a server to its first response, and its memory, with a site of many files.
//!
//! ```text
//! fork ─▶ exec ─ … ─▶ accept ─▶ first response ─▶ memory ─▶ many different pages ─▶ memory
//! └───────────── timed ──────────────────────┘
//! ```
//!
//! All files are in the page cache, so the times exclude the disk.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use clap::Args;

use super::options::{CommonArgs, IsolationArgs, SiteDirArgs, command_line, file_name, with_isolation};
use super::output::RecordFile;
use super::rounds::order;
use crate::client::read_response;
use crate::client::request::RequestForm;
use crate::error::LabError;
use crate::format::thousands;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::measure::memory::memory_of;
use crate::records::LabRecord;
use crate::records::server::{PeerServer, names};
use crate::records::start::{StartRecord, StartWindow};
use crate::servers::process::ServerProcess;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab start`.
#[derive(Args)]
pub(crate) struct StartArgs {
    /// Run this many rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Generate a site with this many pages
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Request this many different pages before the second look at memory
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    requests: u32,
    /// Measure these servers
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = SERVERS)]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    site: SiteDirArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures starts, prints the report and writes the record.
pub(crate) fn run(args: &StartArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let page = (PAGE, generated_site::lines(PAGE_LEN));
    let bed = TestBed::new(&args.site.dir(), page, args.common.tarpon.as_deref(), None)?;
    // Writes the record before `bed` is dropped: removing that many files takes a while.
    output.finish(&LabRecord::Start(measure(args, &bed)?))
}

fn measure(args: &StartArgs, bed: &TestBed) -> Result<StartRecord, LabError> {
    let machine = this_machine();
    eprintln!("writing {} files", thousands(args.files as usize));
    let bytes = generated_site::write(&bed.site(), args.files as usize)?;
    let servers = bed.prepare(args.servers.clone())?;
    let mut rounds = Vec::new();
    // Round 0 is a warm-up: it brings all files into the page cache.
    for round in 0..=args.rounds {
        let mut windows = Vec::new();
        for measured in order(&servers, round as usize) {
            let window = measure_window(bed, measured.server, args)
                .map_err(|error| format!("{}: {error}\n{}", measured.name, bed.server_output()))?;
            windows.push(window);
        }
        if round > 0 {
            eprintln!("round {round}");
            rounds.push(windows);
        }
    }
    let (command, isolated) = (args.command(), !args.isolation.no_isolation);
    Ok(StartRecord { command, machine, isolated, files: args.files, bytes, servers, rounds })
}

fn measure_window(bed: &TestBed, server: PeerServer, args: &StartArgs) -> Result<StartWindow, LabError> {
    let mut process = bed.spawn(server)?;
    let mut stream = process.connect()?;
    stream.set_read_timeout(Some(RESPONSE_TIME_MAX))?;
    let first = fetch(&mut stream, &process, 0)?;
    let first_response_ns = process.spawn_time().elapsed().as_nanos() as u64;
    expect_page(0, &first)?;

    let processes = process.processes()?;
    let memory_at_first_response = memory_of(&processes)?;
    let requests = args.requests.min(args.files);
    for number in 0..requests {
        let number = u64::from(number) * u64::from(args.files) / u64::from(requests);
        expect_page(number as usize, &fetch(&mut stream, &process, number as usize)?)?;
    }
    let memory_after_requests = memory_of(&processes)?;
    Ok(StartWindow { server, first_response_ns, memory_at_first_response, requests, memory_after_requests })
}

/// Requests a generated page, and returns its content.
fn fetch(stream: &mut TcpStream, process: &ServerProcess, number: usize) -> Result<Vec<u8>, LabError> {
    stream.write_all(
        &RequestForm::Short
            .request(&process.address().to_string(), &format!("/{}", generated_site::path(number))),
    )?;
    let mut wire = Vec::new();
    let size = read_response(stream, &mut wire)?;
    Ok(wire.split_off(size.head_len))
}

fn expect_page(number: usize, content: &[u8]) -> Result<(), LabError> {
    match content == generated_site::page(number) {
        true => Ok(()),
        false => {
            let path = generated_site::path(number);
            Err(format!("/{path}: the server sent another content than that of the file").into())
        }
    }
}

impl StartArgs {
    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let command = command_line(
            "start",
            &[
                ("rounds", self.rounds.to_string()),
                ("files", self.files.to_string()),
                ("requests", self.requests.to_string()),
                ("servers", names(&self.servers)),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
            ],
        );
        with_isolation(command, &self.isolation)
    }
}

const SERVERS: [PeerServer; 4] =
    [PeerServer::TarponUringPacked, PeerServer::TarponUringTar, PeerServer::TarponUring, PeerServer::Nginx];

/// The front page of the site.
const PAGE: &str = "index.html";
const PAGE_LEN: usize = 1024;

/// Longest wait for the first response: a server may read a million files first.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(120);
