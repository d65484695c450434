//! Stalled programs, or a stalled upstream: response times of a page while requests for these are never answered.
//!
//! ```text
//! server ◀─ open-loop client: a page of 1 KiB at fixed times      first beside idle programs of the lab, or alone,
//!        ◀─ requests whose programs, or upstream, wait for ever   then together with these
//! ```
//!
//! Idle programs cost the kernel something too, so the first part has as many of them. Requests that wait at an upstream cost it nothing.

use std::env;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::set_current_timer_slack;

use super::cores::TwoCores;
use super::options::{
    CommonArgs, IsolationArgs, LabUpstreamCoreArgs, TwoCoreArgs, command_line, file_name, parse_seconds,
    with_isolation,
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
use crate::records::stalled::{StalledBackend, StalledRecord, StalledSettings, StalledWindow};
use crate::servers::cgi_programs::STALL;
use crate::servers::process::ServerProcess;
use crate::servers::proxy_setup::{POOL_SIZE, ProxySetup};
use crate::servers::test_bed::TestBed;
use crate::servers::upstream::LabUpstream;
use crate::upstream_server;

/// Options of `tarpon-lab stalled`.
#[derive(Args)]
pub(crate) struct StalledArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each part of a window for this long
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Stall an upstream instead of CGI programs
    #[arg(long)]
    upstream: bool,
    /// Stall this many requests, each with a program or with a connection to the upstream
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    stalled: u32,
    /// Send this many requests per second, on all connections together
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Open this many connections for the page
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Measure these servers [default: tarpon on io_uring and epoll, Apache httpd and lighttpd; with --upstream nginx instead of both]
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',')]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    upstream_core: LabUpstreamCoreArgs,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures stalled programs or a stalled upstream, prints the report and writes the record. Fails if too few rounds were clean.
pub(crate) fn run(args: &StalledArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    let too_few = expect_clean("", &record.rounds, args.rounds).err();
    output.finish(&LabRecord::Stalled(record))?;
    too_few.map_or(Ok(()), |error| Err(error.into()))
}

fn measure(args: &StalledArgs) -> Result<StalledRecord, LabError> {
    let servers = args.servers();
    expect_backend(args.backend(), &servers)?;
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    // The default timer slack delays scheduled requests by up to 50 µs. Threads inherit the setting.
    set_current_timer_slack(NonZeroU64::new(1))?;

    let page = (PAGE, generated_site::lines(PAGE_LEN));
    let mut bed = TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), None)?;
    let backend = match args.backend() {
        StalledBackend::Programs => StallingBackend::Programs(bed.use_cgi_programs()?.join(STALL)),
        StalledBackend::Upstream => {
            let (upstream, _) = cores.start_upstream(&args.upstream_core, &[PAGE_LEN])?;
            bed.use_proxy(ProxySetup { upstream: upstream.address(), path: API_PATH, pool_size: POOL_SIZE });
            StallingBackend::Upstream(upstream)
        }
    };
    let servers = bed.prepare(bed.installed(servers))?;
    let settings = args.settings(&cores);
    let plan = RoundPlan {
        label: String::new(),
        servers: &servers,
        core: cores.server,
        idle_wait: args.cores.idle_wait(),
        clean: args.rounds,
    };
    let rounds = plan.run(
        |server| measure_window(&bed, &backend, &settings, &cores, server),
        |window| Some(window.other_share()).filter(|share| *share > settings.other_share_max),
    )?;
    Ok(StalledRecord { command: args.command(), machine, settings, servers, rounds })
}

/// Starts, measures and stops one server.
fn measure_window(
    bed: &TestBed,
    backend: &StallingBackend,
    settings: &StalledSettings,
    cores: &TwoCores,
    server: PeerServer,
) -> Result<StalledWindow, LabError> {
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    let idle_programs = match backend {
        // They inherit the core of this thread, which is that of the server.
        StallingBackend::Programs(program) => IdlePrograms::start(program, settings.programs)?,
        StallingBackend::Upstream(_) => IdlePrograms(Vec::new()),
    };
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
    let requests = stall(backend, &process, address, settings.programs)?;
    let stalled = measure()?;
    drop(requests);
    Ok(StalledWindow { server, idle, stalled })
}

/// What never answers.
enum StallingBackend {
    /// The program that waits.
    Programs(PathBuf),
    Upstream(LabUpstream),
}

/// Sends requests that are never answered, and waits until all of them have arrived. They end when the result is dropped.
fn stall(
    backend: &StallingBackend,
    process: &ServerProcess,
    address: SocketAddr,
    count: u32,
) -> Result<Vec<TcpStream>, LabError> {
    match backend {
        StallingBackend::Programs(_) => {
            let before = process.processes()?.len();
            let requests = send_requests(address, STALL_PATH, count)?;
            wait_for_programs(process, before, count)?;
            Ok(requests)
        }
        StallingBackend::Upstream(upstream) => {
            // Those of the window before must have ended.
            upstream.wait_for("requests", |counts| counts.stalled, 0)?;
            let requests = send_requests(address, &format!("{API_PATH}{}", upstream_server::STALL), count)?;
            upstream.wait_for("requests", |counts| counts.stalled, count as usize)?;
            Ok(requests)
        }
    }
}

/// Sends a request on each of `count` connections.
fn send_requests(address: SocketAddr, path: &str, count: u32) -> Result<Vec<TcpStream>, LabError> {
    let request = RequestForm::Short.request(&address.to_string(), path);
    (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&request)?;
            Ok(stream)
        })
        .collect()
}

/// Waits until the server has this many processes more than `before`.
fn wait_for_programs(process: &ServerProcess, before: usize, count: u32) -> Result<(), LabError> {
    let start = Instant::now();
    loop {
        let running = process.processes()?.len() - before;
        if running >= count as usize {
            return Ok(());
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

/// Fails if one of the servers cannot have this backend beside its pages.
fn expect_backend(backend: StalledBackend, servers: &[PeerServer]) -> Result<(), LabError> {
    let has_backend = |server: PeerServer| match backend {
        StalledBackend::Programs => RaceAnswer::Program.is_answered_by(server),
        StalledBackend::Upstream => server.is_proxy() && server != PeerServer::Haproxy,
    };
    match (servers.iter().find(|server| !has_backend(**server)), backend) {
        (None, _) => Ok(()),
        (Some(server), StalledBackend::Programs) => {
            Err(format!("{} runs no CGI programs", server.name()).into())
        }
        (Some(server), StalledBackend::Upstream) => {
            Err(format!("{} does not serve pages beside an upstream in the lab", server.name()).into())
        }
    }
}

impl StalledArgs {
    fn backend(&self) -> StalledBackend {
        if self.upstream { StalledBackend::Upstream } else { StalledBackend::Programs }
    }

    fn servers(&self) -> Vec<PeerServer> {
        match self.backend() {
            _ if !self.servers.is_empty() => self.servers.clone(),
            StalledBackend::Programs => PROGRAM_SERVERS.to_vec(),
            StalledBackend::Upstream => UPSTREAM_SERVERS.to_vec(),
        }
    }

    fn settings(&self, cores: &TwoCores) -> StalledSettings {
        StalledSettings {
            rounds: self.rounds,
            seconds: self.seconds,
            rate: self.rate,
            connections: self.connections,
            programs: self.stalled,
            backend: self.backend(),
            server_core: cores.server,
            client_core: cores.client,
            isolated: !self.isolation.no_isolation,
            other_share_max: self.cores.other_share_max(),
        }
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let mut options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("seconds", self.seconds.to_string()),
            ("stalled", self.stalled.to_string()),
            ("rate", self.rate.to_string()),
            ("connections", self.connections.to_string()),
            ("servers", names(&self.servers())),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
        ]);
        options.push(self.upstream_core.option());
        let name = if self.upstream { "stalled --upstream" } else { "stalled" };
        with_isolation(command_line(name, &options), &self.isolation)
    }
}

const PROGRAM_SERVERS: [PeerServer; 4] =
    [PeerServer::TarponUring, PeerServer::TarponEpoll, PeerServer::Apache, PeerServer::Lighttpd];

const UPSTREAM_SERVERS: [PeerServer; 3] =
    [PeerServer::TarponUring, PeerServer::TarponEpoll, PeerServer::Nginx];

/// The path below which the upstream answers, or does not.
const API_PATH: &str = "/api/";

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
        let args = StalledCli::parse_from(["stalled", "--upstream", "--rounds=1"]).args;
        let want = "tarpon-lab stalled --upstream --rounds 1 --seconds 3 --stalled 100 --rate 1000 --connections 4 \
                    --servers tarpon-uring,tarpon-epoll,nginx";
        assert_eq!(args.command(), want);
    }

    #[test]
    fn servers_must_have_the_backend() {
        use PeerServer::*;
        use StalledBackend::{Programs, Upstream};
        #[rustfmt::skip]
        let cases = [
            (Programs,  TarponEpoll,  true),
            (Programs,  Apache,       true),
            (Programs,  Nginx,        false),
            (Upstream,  TarponEpoll,  true),
            (Upstream,  Nginx,        true),
            (Upstream,  Apache,       false),
            (Upstream,  Haproxy,      false),
        ];
        for (backend, server, want) in cases {
            assert_eq!(expect_backend(backend, &[server]).is_ok(), want, "{backend:?}, {server:?}");
        }
    }

    #[derive(Parser)]
    struct StalledCli {
        #[command(flatten)]
        args: StalledArgs,
    }
}
