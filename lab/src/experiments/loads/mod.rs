//! Loads: four loads on functions of a program that embeds tarpon. The client checks status and content of every response.
//!
//! ```text
//! one core: tarpon-function-server ◀─ another core: client
//!   warm-up         1,000 connections    short requests
//!   baseline       10,000 connections    short requests
//!   header stress   5,000 connections    requests with large headers
//!   heavy payloads    100 connections    large contents, short requests, malformed requests
//! ```
//!
//! A load is a test too: an error of any kind fails the experiment.
//!
//! | file | content |
//! |---|---|
//! | `requests.rs` | the requests of each load, and the responses that the server must send |

mod requests;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tempfile::NamedTempFile;

use self::requests::requests;
use super::cores::TwoCores;
use super::options::{IsolationArgs, TwoCoreArgs, command_line, file_name, with_isolation};
use super::output::RecordFile;
use super::race::raise_descriptor_limit;
use super::rounds::{RoundPlan, WARM_UP_TIME, expect_clean};
use crate::client::checked_loop::CheckedLoopClient;
use crate::error::LabError;
use crate::measure::machine::this_machine;
use crate::null_server;
use crate::records::LabRecord;
use crate::records::loads::{FunctionLoad, LoadSeries, LoadWindow, LoadsRecord, LoadsSettings, load_names};
use crate::records::round::MeasuredServer;
use crate::records::server::{PeerServer, names};
use crate::servers::port::unused_address;
use crate::servers::process::ServerProcess;

/// Options of `tarpon-lab loads`.
#[derive(Args)]
pub(crate) struct LoadsArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Multiply the time of each load by this factor, for trial runs
    ///
    /// The times are 5 s for warm-up, 10 s for baseline and header-stress, and 15 s for heavy-payloads.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_time_factor)]
    time_factor: f64,
    /// Run these loads
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = LOADS)]
    loads: Vec<FunctionLoad>,
    /// Open this many connections for every load, for trial runs [default: those of the load]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: Option<u16>,
    /// Count a response as an error after this time in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_SECONDS, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Measure these engines: tarpon-uring, tarpon-epoll, tarpon-poll
    #[arg(long, value_delimiter = ',', default_value = "tarpon-uring,tarpon-epoll", value_parser = parse_server)]
    servers: Vec<PeerServer>,
    /// Measure this build of tarpon-function-server [default: the program next to tarpon-lab]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Write all measured numbers to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
}

/// Runs the loads, prints the report and writes the record. Fails if too few rounds were clean, or if the client counted an error.
pub(crate) fn run(args: &LoadsArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.out.as_deref())?;
    let record = measure(args)?;
    let too_few =
        |series: &LoadSeries| expect_clean(&format!("{}: ", series.load), &series.rounds, args.rounds).err();
    let (checked, too_few) = (record.checked(), record.series.iter().find_map(too_few));
    output.finish(&LabRecord::Loads(record))?;
    match too_few {
        _ if checked.errors() > 0 => Err(format!("{} errors of clients: {checked}", checked.errors()).into()),
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn measure(args: &LoadsArgs) -> Result<LoadsRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    raise_descriptor_limit(args.loads.iter().map(|load| args.connections(*load)).max().unwrap_or_default())?;
    let program = FunctionServer::new(args.program.clone())?;
    let servers = program.prepare(&args.servers)?;
    let settings = LoadsSettings {
        rounds: args.rounds,
        time_factor: args.time_factor,
        server_core: cores.server,
        client_core: cores.client,
        isolated: !args.isolation.no_isolation,
        other_share_max: args.cores.other_share_max(),
    };
    let mut record = LoadsRecord { command: args.command(), machine, settings, servers, series: Vec::new() };
    for &load in &args.loads {
        let (connections, seconds) = (args.connections(load), load.seconds() * args.time_factor);
        let mut series = LoadSeries { load, connections, seconds, rounds: Vec::new() };
        let plan = RoundPlan {
            label: format!("{load}, "),
            servers: &record.servers,
            core: cores.server,
            idle_wait: args.cores.idle_wait(),
            clean: args.rounds,
        };
        series.rounds = plan.run(
            |server| measure_window(&program, &cores, &series, server, args.timeout()),
            |window| {
                let share = window.times.other_share();
                (share > settings.other_share_max).then_some(share)
            },
        )?;
        record.series.push(series);
    }
    Ok(record)
}

/// Starts, times and stops one server.
fn measure_window(
    program: &FunctionServer,
    cores: &TwoCores,
    series: &LoadSeries,
    server: PeerServer,
    timeout: Duration,
) -> Result<LoadWindow, LabError> {
    let process = program.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    cores.on_client_core(|| {
        let (address, requests) = (process.address(), requests(series.load));
        let mut client = CheckedLoopClient::connect(address, requests, series.connections)?;
        client.response_time_max = timeout;
        client.warm_up(WARM_UP_TIME)?;
        let times = cores.measure(
            || process.threads(),
            || {
                let times = client.run(Duration::from_secs_f64(series.seconds))?;
                Ok((times.len(), times))
            },
        );
        let totals = client.finish()?;
        for message in &totals.messages {
            eprintln!("{}, {}: {message}", series.load, server.name());
        }
        if totals.responses.errors() > 0 {
            eprint!("{}", program.output());
        }
        Ok(LoadWindow { server, times: times?, checked: totals.responses })
    })
}

/// The program that embeds tarpon, and a file for its output.
struct FunctionServer {
    program: PathBuf,
    output: NamedTempFile,
}

impl FunctionServer {
    fn new(program: Option<PathBuf>) -> Result<FunctionServer, LabError> {
        let program = match program {
            Some(program) => program,
            None => env::current_exe()?.with_file_name(PROGRAM),
        };
        Ok(FunctionServer { program, output: NamedTempFile::new()? })
    }

    /// Removes engines that this host cannot run, and reads the version of the others.
    fn prepare(&self, servers: &[PeerServer]) -> Result<Vec<MeasuredServer>, LabError> {
        let output = Command::new(&self.program).arg("--version").output().map_err(|error| {
            let hint = format!(
                "run `cargo build --release --package {PROGRAM}`, or pass the program with `--program`"
            );
            format!("{}: {error}; {hint}", self.program.display())
        })?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let mut servers = servers.to_vec();
        if let Err(error) = null_server::probe() {
            eprintln!("skipped: tarpon on io_uring; this host does not support io_uring ({error})");
            servers.retain(|server| *server != PeerServer::TarponUring);
        }
        if servers.is_empty() {
            return Err("no engine left to measure; change `--servers`".into());
        }
        let engine = |server: PeerServer| server.engine().unwrap_or_default();
        let measured = |server| MeasuredServer { server, name: format!("{version}, {}", engine(server)) };
        Ok(servers.into_iter().map(measured).collect())
    }

    /// Starts the program, and waits until it listens.
    fn start(&self, server: PeerServer) -> Result<ServerProcess, LabError> {
        let address = unused_address()?;
        let mut command = Command::new(&self.program);
        command.arg(address.to_string()).args(server.engine());
        let output = self.output.reopen()?;
        output.set_len(0)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let mut process = ServerProcess::spawn(server, &mut command, address)?;
        process.connect().map_err(|error| format!("{error}\n{}", self.output()))?;
        Ok(process)
    }

    /// Returns the output of the server that was started last.
    fn output(&self) -> String {
        fs::read_to_string(self.output.path()).unwrap_or_default()
    }
}

impl LoadsArgs {
    fn connections(&self, load: FunctionLoad) -> usize {
        self.connections.map_or(load.connections(), usize::from)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let number = |number: Option<usize>| number.map_or_else(String::new, |number| number.to_string());
        let unless = |is_default: bool, value: String| if is_default { String::new() } else { value };
        let command = command_line(
            "loads",
            &self.cores.after(&[
                ("rounds", self.rounds.to_string()),
                ("time-factor", unless(self.time_factor == 1.0, self.time_factor.to_string())),
                ("loads", load_names(&self.loads)),
                ("connections", number(self.connections.map(usize::from))),
                ("timeout", unless(self.timeout == TIMEOUT_SECONDS, self.timeout.to_string())),
                ("servers", names(&self.servers)),
                ("program", file_name(self.program.as_deref())),
            ]),
        );
        with_isolation(command, &self.isolation)
    }
}

/// Parses a factor of the time of a load.
fn parse_time_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.01..=10.0).contains(&factor) => Ok(factor),
        _ => Err("not a number between 0.01 and 10".into()),
    }
}

/// Parses an engine that can be embedded, and that keeps all connections of a load open.
fn parse_server(text: &str) -> Result<PeerServer, String> {
    match PeerServer::from_str(text, false) {
        Ok(server @ (PeerServer::TarponUring | PeerServer::TarponEpoll | PeerServer::TarponPoll)) => {
            Ok(server)
        }
        _ => Err("not tarpon-uring, tarpon-epoll or tarpon-poll".into()),
    }
}

const LOADS: [FunctionLoad; 4] =
    [FunctionLoad::WarmUp, FunctionLoad::Baseline, FunctionLoad::HeaderStress, FunctionLoad::HeavyPayloads];

/// As long as no client waits for a small response.
const TIMEOUT_SECONDS: u64 = 5;

/// The program that embeds tarpon.
const PROGRAM: &str = "tarpon-function-server";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        const ALL: &str = " --loads warm-up,baseline,header-stress,heavy-payloads";
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], String)] = &[
            // case         arguments                                        after the rounds
            ("defaults",    &[],                                             format!("{ALL} --servers tarpon-uring,tarpon-epoll")),
            ("a program",   &["--program=/a/b", "--out", "/c/loads.json"],   format!("{ALL} --servers tarpon-uring,tarpon-epoll --program b")),
            ("a trial",     &["--time-factor=0.1", "--connections=9", "--other-max=100", "--no-isolation"], format!(" --time-factor 0.1{ALL} --connections 9 --servers tarpon-uring,tarpon-epoll --other-max 100 --no-isolation")),
            ("selection",   &["--loads=baseline", "--servers", "tarpon-poll", "--core=1", "--client-core=0"], " --loads baseline --servers tarpon-poll --core 1 --client-core 0".into()),
        ];
        for (name, arguments, want) in cases {
            let args = LoadsCli::parse_from([&["loads"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab loads --rounds 3{want}"), "{name}");
        }
    }

    #[test]
    fn invalid_arguments_fail() {
        for arguments in [
            &["--loads=other"][..],
            &["--servers=nginx"],
            &["--servers=tarpon-threads"],
            &["--time-factor=0"],
            &["--connections=10001"],
            &["--rounds=0"],
        ] {
            assert!(LoadsCli::try_parse_from([&["loads"], arguments].concat()).is_err(), "{arguments:?}");
        }
    }

    #[derive(Parser)]
    struct LoadsCli {
        #[command(flatten)]
        args: LoadsArgs,
    }
}
