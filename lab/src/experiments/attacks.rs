//! Attacks: response times of another client beside an attacker, compared with those beside a process that only burns as much CPU.
//!
//! ```text
//! server, alone on its core ◀─ open-loop client ┐ on another core
//!                           ◀─ attacker         ┘      then a new server, and a process that uses as much of that core as the attacker did
//! ```
//!
//! Both share a core with the other client, and both give way to it (`SCHED_IDLE`): otherwise the time slices of the attacker would be a
//! large part of what is measured. The ratio is the share of the server.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rustix::process::{Resource, getrlimit};
use rustix::thread::set_current_timer_slack;

use super::cores::TwoCores;
use super::options::{
    CommonArgs, IsolationArgs, TwoCoreArgs, command_line, file_name, parse_seconds, with_isolation,
};
use super::output::RecordFile;
use super::race::raise_descriptor_limit;
use super::rounds::WARM_UP_TIME;
use crate::client::attack::IDLE_COUNT_MAX;
use crate::client::open_loop::OpenLoopClient;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::cpu::ServerThreads;
use crate::measure::machine::this_machine;
use crate::measure::memory::{descriptors_of, memory_of};
use crate::records::LabRecord;
use crate::records::attacks::{AttackKind, AttackWindow, AttacksRecord, AttacksSettings, ClientTimes};
use crate::records::server::{PeerServer, names};
use crate::servers::process::ServerProcess;
use crate::servers::test_bed::TestBed;
use crate::stats::quantile;
use crate::sys::arrival::ArrivalStream;

/// Options of `tarpon-lab attacks`.
#[derive(Args)]
pub(crate) struct AttacksArgs {
    /// Run each attack this often
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each part of a window for this long
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Let the other client send this many requests per second, on 4 connections
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Run only these attacks
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<AttackKind>,
    /// Attack these servers
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_delimiter = ',',
        default_value = "tarpon-uring,tarpon-epoll,nginx,h2o"
    )]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures each attack on each server, prints the report and writes the record.
pub(crate) fn run(args: &AttacksArgs) -> Result<(), LabError> {
    args.isolation.enter_with_usual_policy()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    output.finish(&LabRecord::Attacks(record))
}

fn measure(args: &AttacksArgs) -> Result<AttacksRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    // Without the right to raise it, the limit stays.
    let _ = raise_descriptor_limit(IDLE_COUNT_MAX);
    let open_files_max = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    // The default timer slack delays scheduled requests by up to 50 µs. Threads inherit the setting.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let page = (PAGE, generated_site::lines(1024));
    let bed = TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), None)?;
    fs::write(bed.site().join(LARGE), generated_site::lines(1 << 20))?;
    let servers = bed.prepare(bed.installed(args.servers.clone()))?;
    let kinds = if args.kinds.is_empty() { AttackKind::value_variants() } else { &args.kinds };
    let settings = AttacksSettings {
        rounds: args.rounds,
        seconds: args.seconds,
        rate: args.rate,
        connections: CONNECTIONS,
        idle_connections: IDLE_COUNT_MAX.min(open_files_max.saturating_sub(OTHER_FILES)),
        server_core: cores.server,
        client_core: cores.client,
        isolated: !args.isolation.no_isolation,
    };
    let mut windows = Vec::new();
    for round in 1..=args.rounds {
        for kind in kinds {
            for measured in servers.iter().filter(|measured| is_open_to(*kind, measured.server)) {
                let window = measure_window(&bed, &settings, &cores, measured.server, *kind);
                let window = window.map_err(|error| format!("{}, {kind}: {error}", measured.name))?;
                let ratio =
                    window.p99_ratio().map_or("no response".to_owned(), |ratio| format!("p99 ×{ratio:.2}"));
                eprintln!("round {round}, {kind}, {}: {ratio}", measured.name);
                windows.push(window);
            }
        }
    }
    Ok(AttacksRecord { command: args.command(), machine, settings, servers, windows })
}

/// Returns whether the lab's server of this name accepts what the attack needs on the port of the other client.
fn is_open_to(kind: AttackKind, server: PeerServer) -> bool {
    let is_http2 = matches!(
        kind,
        AttackKind::Http2Pings
            | AttackKind::Http2Settings
            | AttackKind::Http2Resets
            | AttackKind::Http2Continuations
    );
    // nginx speaks either version on a port without TLS.
    !is_http2 || server.is_tarpon() || server == PeerServer::H2o
}

/// Attacks a server, then burns as much CPU beside another one.
fn measure_window(
    bed: &TestBed,
    settings: &AttacksSettings,
    cores: &TwoCores,
    server: PeerServer,
    kind: AttackKind,
) -> Result<AttackWindow, LabError> {
    let time = Duration::from_secs_f64(settings.seconds);
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    let private = || -> Result<u64, LabError> { Ok(memory_of(&process.processes()?)?.private()) };
    let descriptors = || descriptors_of(&process.processes()?);
    let mut client = connect(bed, settings, cores, &process)?;
    let (memory_before, descriptors_before) = (private()?, descriptors()?);
    let attacker = Attacker::start(cores, process.address(), settings, kind, None)?;
    let (start, cpu_before) = (Instant::now(), attacker.cpu_time()?);
    let attacked = measure_client(cores, &process, &mut client, time);
    let share = (attacker.cpu_time()? - cpu_before).div_duration_f64(start.elapsed());
    let memory_attacked = private()?;
    drop(attacker);
    let end = Instant::now();
    while descriptors()? > descriptors_before && end.elapsed() < RECOVERY_MAX {
        sleep(Duration::from_millis(50));
    }
    let (memory_after, descriptors_after) = (private()?, descriptors()?);
    drop((client, process));

    let process = bed.start(server)?;
    let mut client = connect(bed, settings, cores, &process)?;
    let burning = Attacker::start(cores, process.address(), settings, kind, Some(share))?;
    let burned = measure_client(cores, &process, &mut client, time)?;
    drop(burning);
    Ok(AttackWindow {
        server,
        kind,
        burning: burned,
        attacked: attacked.map_err(|error| error.to_string()),
        private_bytes: [memory_before, memory_attacked, memory_after],
        descriptors: [descriptors_before, descriptors_after],
    })
}

type AttackedClient = OpenLoopClient<ArrivalStream>;

fn connect(
    bed: &TestBed,
    settings: &AttacksSettings,
    cores: &TwoCores,
    process: &ServerProcess,
) -> Result<AttackedClient, LabError> {
    cores.on_client_core(|| {
        let (connections, rate) = (settings.connections, settings.rate);
        let mut client =
            OpenLoopClient::connect_without_own_delays(process.address(), &bed.path(), connections, rate)?;
        client.run(WARM_UP_TIME)?;
        Ok(client)
    })
}

fn measure_client(
    cores: &TwoCores,
    process: &ServerProcess,
    client: &mut AttackedClient,
    time: Duration,
) -> Result<ClientTimes, LabError> {
    cores.on_client_core(|| {
        let mut slice_p99s_ns = Vec::new();
        let run = || {
            let (start, mut all) = (Instant::now(), Vec::new());
            while start.elapsed() < time {
                let mut times = client.run(SLICE_TIME)?;
                times.sort_unstable();
                slice_p99s_ns.push(quantile(&times, 0.99));
                all.append(&mut times);
            }
            Ok((all.len(), all))
        };
        let all = cores.measure(|| process.threads(), run)?;
        Ok(ClientTimes { all, slice_p99s_ns })
    })
}

/// A process that attacks, or burns: for [`SETTLE_TIME`] already. Dropping the value ends it.
struct Attacker(Child);

impl Attacker {
    fn start(
        cores: &TwoCores,
        server: SocketAddr,
        settings: &AttacksSettings,
        kind: AttackKind,
        burn: Option<f64>,
    ) -> Result<Attacker, LabError> {
        let name = kind.to_possible_value().expect("each attack has a name");
        let path = if kind == AttackKind::SlowReaders { LARGE } else { PAGE };
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(env::current_exe()?);
        command.args([
            "attacker",
            name.get_name(),
            &format!("--server={server}"),
            &format!("--path=/{path}"),
        ]);
        command.arg(format!("--idle={}", settings.idle_connections));
        command.args(burn.map(|share| format!("--burn={share}")));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut attacker = cores.on_client_core(|| Ok(Attacker(command.spawn()?)))?;
        let output = attacker.0.stdout.take().expect("its output is a pipe");
        if BufReader::new(output).read_line(&mut String::new())? == 0 {
            return Err("the attacker ended before its attack; its error is above".into());
        }
        sleep(SETTLE_TIME);
        Ok(attacker)
    }

    fn cpu_time(&self) -> Result<Duration, LabError> {
        Ok(ServerThreads::of(self.0.id())?.time()?)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl AttacksArgs {
    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let kinds: Vec<String> = self
            .kinds
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        let options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("seconds", self.seconds.to_string()),
            ("rate", self.rate.to_string()),
            ("kinds", kinds.join(",")),
            ("servers", names(&self.servers)),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
        ]);
        with_isolation(command_line("attacks", &options), &self.isolation)
    }
}

const PAGE: &str = "page.html";
const LARGE: &str = "large.html";

/// Connections of the other client.
const CONNECTIONS: u32 = 4;

/// As long as a virtual machine stands still in few slices: then the median of their p99 is that of the server.
const SLICE_TIME: Duration = Duration::from_millis(250);

/// Files that a server has open beside its connections.
const OTHER_FILES: usize = 500;

/// How long an attack runs before the other client is measured: until the server has sent what readers that stand still take.
const SETTLE_TIME: Duration = Duration::from_millis(1500);

/// How long the server may take until it has closed what the attack left.
const RECOVERY_MAX: Duration = Duration::from_secs(5);
