//! Idle tunnels: the memory and the descriptors of proxies with thousands of WebSocket connections on which nothing passes.
//!
//! ```text
//! client ─ 10,000 tunnels ─▶ proxy ─ 10,000 tunnels ─▶ upstream
//!   before ─▶ all open ─▶ a message through some, and back        memory and descriptors of the proxy each time
//! ```
//!
//! The client opens the tunnels one after the other. The messages show that they are alive. A tunnel uses one port of the client and one of
//! the proxy; the addresses of their peers differ, so each may have nearly all ports of a loopback address.

use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Resource, getrlimit};

use super::cores::TwoCores;
use super::options::{
    CommonArgs, IsolationArgs, LabUpstreamCoreArgs, TwoCoreArgs, command_line, file_name, with_isolation,
};
use super::output::RecordFile;
use super::proxy::expect_proxies;
use super::race::raise_descriptor_limit_to;
use super::rounds::RoundPlan;
use crate::client::tunnels::OpenTunnels;
use crate::error::LabError;
use crate::measure::machine::this_machine;
use crate::measure::memory::{descriptors_of, kernel_memory, memory_of};
use crate::records::LabRecord;
use crate::records::server::{PeerServer, names};
use crate::records::tunnels::{TunnelResources, TunnelsRecord, TunnelsSettings, TunnelsWindow};
use crate::servers::process::ServerProcess;
use crate::servers::proxy_setup::{POOL_SIZE, ProxySetup};
use crate::servers::test_bed::TestBed;
use crate::servers::upstream::LabUpstream;
use crate::upstream_server::{self, TUNNEL};

/// Options of `tarpon-lab tunnels`.
#[derive(Args)]
pub(crate) struct TunnelsArgs {
    /// Run this many rounds
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Open this many tunnels
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..=TUNNELS_MAX))]
    tunnels: u16,
    /// Send a message through this many of them
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    sample: u16,
    /// Also measure this earlier build of tarpon; the names of its servers are before-uring and before-epoll
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Measure these proxies: tarpon on an engine, nginx, haproxy
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',', default_values_t = SERVERS)]
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

/// Measures idle tunnels, prints the report and writes the record. Fails if a tunnel does not open, or a message does not come back.
pub(crate) fn run(args: &TunnelsArgs) -> Result<(), LabError> {
    args.isolation.enter_with_usual_policy()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    output.finish(&LabRecord::Tunnels(record))
}

fn measure(args: &TunnelsArgs) -> Result<TunnelsRecord, LabError> {
    expect_proxies(&args.servers)?;
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    let settings = args.settings();
    raise_descriptor_limit_to(descriptors_of_proxy(settings.tunnels))
        .map_err(|error| format!("{error}; {}", fewer_tunnels()))?;
    let (upstream, _) = cores.start_upstream(&args.upstream, &[PAGE_LEN])?;

    let (tarpon, before) = (args.common.tarpon.as_deref(), args.before.as_deref());
    let mut bed = TestBed::new(&env::temp_dir(), (PAGE, Vec::new()), tarpon, before)?;
    bed.use_proxy(ProxySetup { upstream: upstream.address(), path: "/", pool_size: POOL_SIZE });
    bed.use_content(PAGE_LEN.to_string(), upstream_server::content(PAGE_LEN));
    let servers = bed.prepare(bed.installed(args.servers.clone()))?;
    let plan = RoundPlan {
        label: String::new(),
        servers: &servers,
        core: cores.server,
        // Nothing is timed that other processes could disturb.
        idle_wait: Duration::ZERO,
        clean: args.rounds,
    };
    let rounds = plan.run(
        |server| {
            let window = measure_window(&bed, &cores, &upstream, &settings, server);
            window.map_err(|error| format!("{error}\n{}", bed.server_output()).into())
        },
        |_| None,
    )?;
    Ok(TunnelsRecord { command: args.command(), machine, settings, servers, rounds })
}

/// Starts, measures and stops one proxy.
fn measure_window(
    bed: &TestBed,
    cores: &TwoCores,
    upstream: &LabUpstream,
    settings: &TunnelsSettings,
    server: PeerServer,
) -> Result<TunnelsWindow, LabError> {
    upstream.wait_for("tunnels", |counts| counts.tunnels, 0)?;
    let process = bed.start(server)?;
    let before = resources(&process)?;
    let start = Instant::now();
    let mut tunnels = cores.on_client_core(|| {
        Ok(OpenTunnels::open(process.address(), &format!("/{TUNNEL}"), settings.tunnels)?)
    })?;
    let open_time = start.elapsed();
    upstream.wait_for("tunnels", |counts| counts.tunnels, settings.tunnels)?;
    let open = resources(&process)?;
    let echo_max = cores.on_client_core(|| Ok(tunnels.echo(settings.sample)?))?;
    let after = resources(&process)?;
    upstream.wait_for("tunnels", |counts| counts.tunnels, settings.tunnels)?;
    Ok(TunnelsWindow {
        server,
        before,
        open,
        after,
        echoed: settings.sample,
        open_ns: open_time.as_nanos() as u64,
        echo_max_ns: echo_max.as_nanos() as u64,
    })
}

/// Returns the descriptors that a proxy needs: two for each tunnel, and some. Client and upstream need one for each tunnel.
fn descriptors_of_proxy(tunnels: usize) -> u64 {
    2 * tunnels as u64 + OTHER_DESCRIPTORS
}

/// Returns a hint for a process that may not raise its limit on open files.
fn fewer_tunnels() -> String {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let tunnels = limit.saturating_sub(OTHER_DESCRIPTORS) / 2;
    format!("the present limit of {limit} allows for {tunnels} tunnels: pass `--tunnels {tunnels}`")
}

fn resources(process: &ServerProcess) -> Result<TunnelResources, LabError> {
    let processes = process.processes()?;
    Ok(TunnelResources {
        memory: memory_of(&processes)?,
        descriptors: descriptors_of(&processes)?,
        kernel: kernel_memory()?,
    })
}

impl TunnelsArgs {
    fn settings(&self) -> TunnelsSettings {
        TunnelsSettings {
            rounds: self.rounds,
            tunnels: self.tunnels.into(),
            sample: self.sample.min(self.tunnels).into(),
            isolated: !self.isolation.no_isolation,
        }
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let mut options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("tunnels", self.tunnels.to_string()),
            ("sample", self.sample.to_string()),
            ("servers", names(&self.servers)),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
            ("before", file_name(self.before.as_deref())),
        ]);
        options.push(self.upstream.option());
        with_isolation(command_line("tunnels", &options), &self.isolation)
    }
}

const SERVERS: [PeerServer; 4] =
    [PeerServer::TarponUring, PeerServer::TarponEpoll, PeerServer::Nginx, PeerServer::Haproxy];

/// The configurations of other proxies allow for 32,768 connections, two for each tunnel.
const TUNNELS_MAX: i64 = 16_000;

/// Descriptors of a proxy besides those of tunnels.
const OTHER_DESCRIPTORS: u64 = 200;

/// The page of the site. No client requests it: the upstream answers all requests.
const PAGE: &str = "page.html";

/// The length of the upstream's response that the lab checks before it opens tunnels.
const PAGE_LEN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case         arguments                                                    after the rounds
            ("defaults",    &[],                                                         " --tunnels 10000 --sample 100 --servers tarpon-uring,tarpon-epoll,nginx,haproxy"),
            ("a trial",     &["--tunnels=9", "--servers=nginx", "--no-isolation"],       " --tunnels 9 --sample 100 --servers nginx --no-isolation"),
            ("two builds",  &["--servers=before-uring", "--before=/a/old", "--tarpon=/b/new"], " --tunnels 10000 --sample 100 --servers before-uring --tarpon new --before old"),
        ];
        for (name, arguments, want) in cases {
            let args = TunnelsCli::parse_from([&["tunnels"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab tunnels --rounds 3{want}"), "{name}");
        }
    }

    #[test]
    fn invalid_arguments_fail() {
        for argument in ["--tunnels=0", "--tunnels=16001", "--sample=0", "--rounds=0", "--servers=unknown"] {
            assert!(TunnelsCli::try_parse_from(["tunnels", argument]).is_err(), "{argument}");
        }
    }

    #[derive(Parser)]
    struct TunnelsCli {
        #[command(flatten)]
        args: TunnelsArgs,
    }
}
