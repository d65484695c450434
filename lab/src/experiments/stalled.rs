//! Stalled programs: response times of a page while CGI programs never answer.
//!
//! ```text
//! server ◀─ open-loop client: a page of 1 KiB at fixed times      first beside idle programs of the lab,
//!        ◀─ requests whose programs wait for ever                 then together with these
//! ```
//!
//! Idle programs cost the kernel something too, so the first part has as many of them.

use std::env;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::set_current_timer_slack;

use super::cores::TwoCores;
use super::options::{
    CommonArgs, IsolationArgs, TwoCoreArgs, command_line, file_name, parse_seconds, with_isolation,
};
use super::output::RecordFile;
use super::rounds::{RoundPlan, WARM_UP_TIME, expect_clean};
use crate::client::open_loop::OpenLoopClient;
use crate::client::request::RequestForm;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::server::{PeerServer, RaceAnswer, names};
use crate::records::stalled::{StalledRecord, StalledSettings, StalledWindow};
use crate::servers::cgi_programs::STALL;
use crate::servers::process::ServerProcess;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab stalled`.
#[derive(Args)]
pub(crate) struct StalledArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each part of a window for this long
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Stall this many programs
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    stalled: u32,
    /// Send this many requests per second, on all connections together
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Open this many connections for the page
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Measure these servers
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',', default_values_t = SERVERS)]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures stalled programs, prints the report and writes the record. Fails if too few rounds were clean.
pub(crate) fn run(args: &StalledArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    let too_few = expect_clean("", &record.rounds, args.rounds).err();
    output.finish(&LabRecord::Stalled(record))?;
    too_few.map_or(Ok(()), |error| Err(error.into()))
}

fn measure(args: &StalledArgs) -> Result<StalledRecord, LabError> {
    if let Some(server) = args.servers.iter().find(|server| !RaceAnswer::Program.is_answered_by(**server)) {
        return Err(format!("{} runs no CGI programs", server.name()).into());
    }
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    // The default timer slack delays scheduled requests by up to 50 µs. Threads inherit the setting.
    set_current_timer_slack(NonZeroU64::new(1))?;

    let page = (PAGE, generated_site::lines(PAGE_LEN));
    let mut bed = TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), None)?;
    let programs = bed.use_cgi_programs()?;
    let servers = bed.prepare(bed.installed(args.servers.clone()))?;
    let settings = args.settings(&cores);
    let plan = RoundPlan {
        label: String::new(),
        servers: &servers,
        core: cores.server,
        idle_wait: args.cores.idle_wait(),
        clean: args.rounds,
    };
    let rounds = plan.run(
        |server| measure_window(&bed, &programs.join(STALL), &settings, &cores, server),
        |window| Some(window.other_share()).filter(|share| *share > settings.other_share_max),
    )?;
    Ok(StalledRecord { command: args.command(), machine, settings, servers, rounds })
}

/// Starts, measures and stops one server.
fn measure_window(
    bed: &TestBed,
    program: &Path,
    settings: &StalledSettings,
    cores: &TwoCores,
    server: PeerServer,
) -> Result<StalledWindow, LabError> {
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    // They inherit the core of this thread, which is that of the server.
    let idle_programs = IdlePrograms::start(program, settings.programs)?;
    let (address, path, time) = (process.address(), bed.path(), Duration::from_secs_f64(settings.seconds));
    let mut client = cores.on_client_core(|| {
        let mut client = OpenLoopClient::connect(address, &path, settings.connections, settings.rate)?;
        client.run(WARM_UP_TIME)?;
        Ok(client)
    })?;
    let mut measure = || {
        cores.on_client_core(|| {
            let run = || {
                let times = client.run(time)?;
                Ok((times.len(), times))
            };
            cores.measure(|| process.threads(), run)
        })
    };
    let idle = measure()?;
    drop(idle_programs);
    let requests = stall(&process, address, settings.programs)?;
    let stalled = measure()?;
    drop(requests);
    Ok(StalledWindow { server, idle, stalled })
}

/// Sends requests for the program that never answers, and waits until all the programs run. The requests end when the result is dropped.
fn stall(process: &ServerProcess, address: SocketAddr, count: u32) -> Result<Vec<TcpStream>, LabError> {
    let before = process.processes()?.len();
    let request = RequestForm::Short.request(&address.to_string(), STALL_PATH);
    let requests = (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&request)?;
            Ok(stream)
        })
        .collect::<Result<Vec<_>, LabError>>()?;
    let start = Instant::now();
    loop {
        let running = process.processes()?.len() - before;
        if running >= count as usize {
            return Ok(requests);
        }
        if start.elapsed() > STALL_TIME_MAX {
            return Err(
                format!("{running} of {count} programs run after {} s", STALL_TIME_MAX.as_secs()).into()
            );
        }
        sleep(POLL_INTERVAL);
    }
}

/// Programs that wait. Dropping the value ends them.
struct IdlePrograms(Vec<Child>);

impl IdlePrograms {
    fn start(program: &Path, count: u32) -> Result<IdlePrograms, LabError> {
        let mut programs = IdlePrograms(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(program);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            programs.0.push(command.spawn()?);
        }
        Ok(programs)
    }
}

impl Drop for IdlePrograms {
    fn drop(&mut self) {
        for program in &mut self.0 {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

impl StalledArgs {
    fn settings(&self, cores: &TwoCores) -> StalledSettings {
        StalledSettings {
            rounds: self.rounds,
            seconds: self.seconds,
            rate: self.rate,
            connections: self.connections,
            programs: self.stalled,
            server_core: cores.server,
            client_core: cores.client,
            isolated: !self.isolation.no_isolation,
            other_share_max: self.cores.other_share_max(),
        }
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let command = command_line(
            "stalled",
            &self.cores.after(&[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("stalled", self.stalled.to_string()),
                ("rate", self.rate.to_string()),
                ("connections", self.connections.to_string()),
                ("servers", names(&self.servers)),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
            ]),
        );
        with_isolation(command, &self.isolation)
    }
}

const SERVERS: [PeerServer; 4] =
    [PeerServer::TarponUring, PeerServer::TarponEpoll, PeerServer::Apache, PeerServer::Lighttpd];

const PAGE: &str = "page.html";
const PAGE_LEN: usize = 1024;

/// The path of the program that never answers.
const STALL_PATH: &str = "/cgi-bin/stall";

/// Longest wait for all programs to run.
const STALL_TIME_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case         arguments                                   after the numbers
            ("defaults",    &[],                                        " --servers tarpon-uring,tarpon-epoll,apache,lighttpd"),
            ("selection",   &["--servers=apache", "--tarpon=/a/b/new"], " --servers apache --tarpon new"),
            ("trial",       &["--other-max=100", "--core=1", "--no-isolation"], " --servers tarpon-uring,tarpon-epoll,apache,lighttpd --other-max 100 --core 1 --no-isolation"),
        ];
        for (name, arguments, want) in cases {
            let args = StalledCli::parse_from([&["stalled"], *arguments].concat()).args;
            let numbers =
                "tarpon-lab stalled --rounds 5 --seconds 3 --stalled 100 --rate 1000 --connections 4";
            assert_eq!(args.command(), format!("{numbers}{want}"), "{name}");
        }
    }

    #[derive(Parser)]
    struct StalledCli {
        #[command(flatten)]
        args: StalledArgs,
    }
}
