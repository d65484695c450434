//! The ladder of a published case study: files, and JSON of an upstream, with one optimisation after the other.
//!
//! ```text
//! initial ─▶ + sendfile ─▶ + io_uring ─▶ + keep-alive to clients ─▶ + keep-alive to the upstream ─▶ + system tuning
//! └──────────────── one window of a server: all its stages, a new process for each ────────────────┘
//! ```
//!
//! A server climbs all its stages before the next server does: the gain of a stage is computed within that window.
//!
//! | file | content |
//! |---|---|
//! | `tuning.rs` | the settings of the kernel that the case study changes |

mod tuning;

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::cores::TwoCores;
use super::options::{
    CommonArgs, IsolationArgs, LabUpstreamCoreArgs, TwoCoreArgs, command_line, file_name, parse_seconds,
    with_isolation,
};
use super::output::RecordFile;
use super::race::raise_descriptor_limit;
use super::rounds::{RoundPlan, WARM_UP_TIME, expect_clean};
use crate::client::checked_loop::{CheckedLoopClient, CheckedRequest, ExpectedContent};
use crate::client::request::RequestForm;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::ladder::{LadderRecord, LadderSettings, LadderStage, LadderStep, LadderWindow};
use crate::records::round::MeasuredServer;
use crate::records::server::{PeerServer, names};
use crate::servers::proxy_setup::{POOL_SIZE, ProxySetup, ServerSwitches};
use crate::servers::test_bed::TestBed;
use crate::servers::upstream::LabUpstream;
use crate::upstream_server;

/// Options of `tarpon-lab ladder`.
#[derive(Args)]
pub(crate) struct LadderArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each stage for this long
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Open this many connections, each with one request at a time
    #[arg(long, value_name = "COUNT", default_value_t = 400, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,
    /// Let these servers climb: tarpon-epoll stands for tarpon, which changes to io_uring at that stage, and nginx
    #[arg(long, value_delimiter = ',', default_value = "tarpon-epoll,nginx", value_parser = parse_server)]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    upstream: LabUpstreamCoreArgs,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures the ladder, prints the report and writes the record. Fails if too few rounds were clean, or if the client counted an error.
pub(crate) fn run(args: &LadderArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    let (checked, too_few) = (record.checked(), expect_clean("", &record.rounds, args.rounds).err());
    output.finish(&LabRecord::Ladder(record))?;
    match too_few {
        _ if checked.errors() > 0 => Err(format!("{} errors of clients: {checked}", checked.errors()).into()),
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn measure(args: &LadderArgs) -> Result<LadderRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    // A server needs two descriptors for each connection.
    raise_descriptor_limit(2 * usize::from(args.connections))?;
    let (upstream, upstream_core) = cores.start_upstream(&args.upstream, &[JSON_LEN])?;
    let page = (SMALL_FILE, generated_site::lines(SMALL_LEN));
    let mut bed = TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), None)?;
    fs::write(bed.site().join(LARGE_FILE), generated_site::lines(LARGE_LEN))?;
    let (servers, has_uring) = prepare(&bed, &args.servers)?;
    let settings = args.settings(&cores, upstream_core);
    let mut ladder =
        Ladder { bed: &mut bed, cores: &cores, upstream: (&upstream, upstream_core), settings, has_uring };
    let plan = RoundPlan {
        label: String::new(),
        servers: &servers,
        core: cores.server,
        idle_wait: args.cores.idle_wait(),
        clean: args.rounds,
    };
    let rounds = plan.run(
        |server| ladder.measure_window(server),
        |window| Some(window.other_share()).filter(|share| *share > settings.other_share_max),
    )?;
    Ok(LadderRecord { command: args.command(), machine, settings, servers, rounds })
}

/// Returns the servers that are installed, and whether this host has io_uring.
fn prepare(bed: &TestBed, servers: &[PeerServer]) -> Result<(Vec<MeasuredServer>, bool), LabError> {
    let mut engines = servers.to_vec();
    if servers.iter().any(|server| server.is_tarpon()) {
        engines.push(PeerServer::TarponUring);
    }
    let mut measured = bed.prepare(bed.installed(engines))?;
    let has_uring = measured.iter().any(|measured| measured.server == PeerServer::TarponUring);
    measured.retain(|measured| measured.server != PeerServer::TarponUring);
    for measured in measured.iter_mut().filter(|measured| measured.server.is_tarpon()) {
        measured.name = bed.tarpon_version()?;
    }
    Ok((measured, has_uring))
}

/// What all stages share.
struct Ladder<'a> {
    bed: &'a mut TestBed,
    cores: &'a TwoCores,
    /// The upstream and its core.
    upstream: (&'a LabUpstream, usize),
    settings: LadderSettings,
    has_uring: bool,
}

impl Ladder<'_> {
    /// Measures all stages of one server.
    fn measure_window(&mut self, server: PeerServer) -> Result<LadderWindow, LabError> {
        let mut steps = Vec::new();
        for stage in LadderStage::ALL.into_iter().filter(|stage| stage.is_switch_of(server)) {
            let needs_uring = stage == LadderStage::Uring && !self.has_uring;
            // The settings of the kernel belong to the private network namespace.
            let needs_namespace = stage == LadderStage::SystemTuning && !self.settings.isolated;
            if needs_uring || needs_namespace {
                continue;
            }
            steps.push(self.measure_step(server, stage).map_err(|error| format!("{stage}: {error}"))?);
        }
        Ok(LadderWindow { server, steps })
    }

    /// Starts, times and stops a server at one stage.
    fn measure_step(&mut self, server: PeerServer, stage: LadderStage) -> Result<LadderStep, LabError> {
        let setup = StageSetup::of(server, stage, self.has_uring);
        if self.settings.isolated {
            tuning::apply(stage >= LadderStage::SystemTuning)?;
        }
        self.bed.use_switches(setup.switches);
        let upstream = self.upstream.0.address();
        self.bed.use_proxy(ProxySetup { upstream, path: API_PATH, pool_size: setup.pool_size });
        let process = self.bed.start(setup.server)?;
        process.threads()?.expect_pinned_to(self.cores.server)?;
        let (address, connections) = (process.address(), self.settings.connections);
        self.cores.on_client_core(|| {
            let requests = requests(address, !setup.switches.keeps_clients);
            let mut client = CheckedLoopClient::connect(address, requests, connections)?;
            client.warm_up(WARM_UP_TIME)?;
            let measured = self.cores.measure_with_upstream(
                self.upstream,
                || process.threads(),
                || {
                    let times = client.run(Duration::from_secs_f64(self.settings.seconds))?;
                    Ok((times.len(), times))
                },
            );
            let totals = client.finish()?;
            for message in &totals.messages {
                eprintln!("{stage}, {}: {message}", setup.server.name());
            }
            if totals.responses.errors() > 0 {
                eprint!("{}", self.bed.server_output());
            }
            let (times, upstream_time) = measured?;
            let upstream_ns = upstream_time.as_nanos() as u64;
            Ok(LadderStep { stage, times, upstream_ns, checked: totals.responses })
        })
    }
}

/// The server of a stage, and its switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StageSetup {
    server: PeerServer,
    switches: ServerSwitches,
    pool_size: u32,
}

impl StageSetup {
    fn of(server: PeerServer, stage: LadderStage, has_uring: bool) -> StageSetup {
        let uses_uring = server.is_tarpon() && has_uring && stage >= LadderStage::Uring;
        StageSetup {
            server: if uses_uring { PeerServer::TarponUring } else { server },
            switches: ServerSwitches {
                keeps_clients: stage >= LadderStage::KeepClients,
                sendfile: stage >= LadderStage::Sendfile,
                ..ServerSwitches::default()
            },
            pool_size: if stage >= LadderStage::KeepUpstream { POOL_SIZE } else { 0 },
        }
    }
}

/// Returns the requests of the client: files, and JSON of the upstream.
fn requests(server: SocketAddr, closes: bool) -> Vec<CheckedRequest> {
    let contents = [
        (format!("/{SMALL_FILE}"), generated_site::lines(SMALL_LEN)),
        (format!("/{LARGE_FILE}"), generated_site::lines(LARGE_LEN)),
        (format!("{API_PATH}{JSON_LEN}"), upstream_server::content(JSON_LEN)),
    ];
    let request = |(path, content): (String, Vec<u8>)| CheckedRequest {
        wire: RequestForm::Short.request(&server.to_string(), &path),
        name: path,
        status: 200,
        content: ExpectedContent::Bytes(content),
        closes,
    };
    contents.into_iter().map(request).collect()
}

impl LadderArgs {
    fn settings(&self, cores: &TwoCores, upstream_core: usize) -> LadderSettings {
        LadderSettings {
            rounds: self.rounds,
            seconds: self.seconds,
            connections: self.connections.into(),
            server_core: cores.server,
            client_core: cores.client,
            upstream_core,
            isolated: !self.isolation.no_isolation,
            other_share_max: self.cores.other_share_max(),
        }
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let mut options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("seconds", self.seconds.to_string()),
            ("connections", self.connections.to_string()),
            ("servers", names(&self.servers)),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
        ]);
        options.push(self.upstream.option());
        with_isolation(command_line("ladder", &options), &self.isolation)
    }
}

/// Parses a server that serves files and forwards requests.
fn parse_server(text: &str) -> Result<PeerServer, String> {
    match PeerServer::from_str(text, false) {
        Ok(server @ (PeerServer::TarponEpoll | PeerServer::Nginx)) => Ok(server),
        _ => Err("not tarpon-epoll or nginx".into()),
    }
}

/// The files: one of the length that the case study's disk reads have, and one that is long enough for sendfile.
const SMALL_FILE: &str = "small.html";
const SMALL_LEN: usize = 4 << 10;
const LARGE_FILE: &str = "large.html";
const LARGE_LEN: usize = 64 << 10;

/// The path below which the upstream answers, and the length of its JSON.
const API_PATH: &str = "/api/";
const JSON_LEN: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn each_stage_has_the_switches_of_those_before() {
        use LadderStage::*;
        use PeerServer::{Nginx, TarponEpoll, TarponUring};
        #[rustfmt::skip]
        let cases = [
            // server      stage          io_uring   runs          clients  sendfile  pool
            (TarponEpoll,  Initial,       true,      TarponEpoll,  false,   false,    0),
            (TarponEpoll,  Uring,         true,      TarponUring,  false,   true,     0),
            (TarponEpoll,  Uring,         false,     TarponEpoll,  false,   true,     0),
            (TarponEpoll,  KeepClients,   true,      TarponUring,  true,    true,     0),
            (TarponEpoll,  KeepUpstream,  true,      TarponUring,  true,    true,     128),
            (TarponEpoll,  SystemTuning,  true,      TarponUring,  true,    true,     128),
            (Nginx,        Initial,       true,      Nginx,        false,   false,    0),
            (Nginx,        Sendfile,      true,      Nginx,        false,   true,     0),
            (Nginx,        KeepUpstream,  true,      Nginx,        true,    true,     128),
        ];
        for (server, stage, has_uring, runs, keeps_clients, sendfile, pool_size) in cases {
            let switches = ServerSwitches { keeps_clients, sendfile, ..ServerSwitches::default() };
            let want = StageSetup { server: runs, switches, pool_size };
            assert_eq!(StageSetup::of(server, stage, has_uring), want, "{server:?}, {stage}");
        }
    }

    #[test]
    fn command_contains_defaults_and_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case         arguments                                               after the name
            ("defaults",    &[],                                                    " --rounds 3 --seconds 3 --connections 400 --servers tarpon-epoll,nginx"),
            ("a trial",     &["--seconds=0.1", "--rounds=1", "--connections=9", "--no-isolation"], " --rounds 1 --seconds 0.1 --connections 9 --servers tarpon-epoll,nginx --no-isolation"),
            ("selection",   &["--servers=nginx", "--tarpon=/a/new"],                " --rounds 3 --seconds 3 --connections 400 --servers nginx --tarpon new"),
        ];
        for (name, arguments, want) in cases {
            let args = LadderCli::parse_from([&["ladder"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab ladder{want}"), "{name}");
        }
        assert!(LadderCli::try_parse_from(["ladder", "--servers=haproxy"]).is_err());
    }

    #[derive(Parser)]
    struct LadderCli {
        #[command(flatten)]
        args: LadderArgs,
    }
}
