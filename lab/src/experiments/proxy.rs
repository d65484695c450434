//! Reverse proxies: requests per second, response times and CPU per request, with the same upstream behind each of them.
//!
//! ```text
//! client ─▶ proxy, alone on its core ─▶ upstream       1 KiB and 64 KiB, on 1, 16 and 100 connections
//! └────── on another core ──────────────┘ or on a third one
//! ```
//!
//! The client checks status and content of every response, and an error fails the experiment. It asks for the same content again and again:
//! the proxies have no cache.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

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
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::proxy::{ProxyRaceRecord, ProxyRaceSeries, ProxyRaceSettings, ProxyRaceWindow};
use crate::records::server::{PeerServer, names};
use crate::servers::proxy_setup::{POOL_SIZE, ProxySetup};
use crate::servers::test_bed::TestBed;
use crate::servers::upstream::LabUpstream;
use crate::upstream_server;

/// Options of `tarpon-lab proxy`.
#[derive(Args)]
pub(crate) struct ProxyRaceArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each window for this long
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Request responses with these lengths of content, in turn
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1024,65536", value_parser = parse_size)]
    sizes: Vec<usize>,
    /// Open this many connections, each with one request at a time; several counts run in turn
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,16,100", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: Vec<u16>,
    /// Keep this many idle connections to the upstream; with 0, each carries one request
    #[arg(long, value_name = "COUNT", default_value_t = POOL_SIZE, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pool_size: u32,
    /// Also measure this earlier build of tarpon, in the same rounds
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Measure these proxies: tarpon on an engine, nginx, haproxy [default: tarpon on io_uring and epoll, nginx and HAProxy]
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',')]
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

/// Measures proxies, prints the report and writes the record. Fails if too few rounds were clean, or if the client counted an error.
pub(crate) fn run(args: &ProxyRaceArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    let too_few =
        |series: &ProxyRaceSeries| expect_clean(&format!("{series}: "), &series.rounds, args.rounds).err();
    let (checked, too_few) = (record.checked(), record.series.iter().find_map(too_few));
    output.finish(&LabRecord::Proxy(record))?;
    match too_few {
        _ if checked.errors() > 0 => Err(format!("{} errors of clients: {checked}", checked.errors()).into()),
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn measure(args: &ProxyRaceArgs) -> Result<ProxyRaceRecord, LabError> {
    let servers = args.servers();
    expect_proxies(&servers)?;
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    let most = args.connections.iter().copied().max().unwrap_or_default();
    // A proxy needs two descriptors for each of them.
    raise_descriptor_limit(2 * usize::from(most))?;
    let (upstream, upstream_core) = cores.start_upstream(&args.upstream, &args.sizes)?;

    let (tarpon, before) = (args.common.tarpon.as_deref(), args.before.as_deref());
    let mut bed = TestBed::new(&env::temp_dir(), (PAGE, Vec::new()), tarpon, before)?;
    bed.use_proxy(ProxySetup { upstream: upstream.address(), path: "/", pool_size: args.pool_size });
    let servers = bed.prepare(bed.installed(servers))?;
    let settings = args.settings(&cores, upstream_core);
    let mut record =
        ProxyRaceRecord { command: args.command(), machine, settings, servers, series: Vec::new() };
    let lengths =
        args.sizes.iter().flat_map(|size| args.connections.iter().map(move |count| (*size, *count)));
    for (size, connections) in lengths {
        bed.use_content(size.to_string(), upstream_server::content(size));
        let mut series = ProxyRaceSeries { size, connections: connections.into(), rounds: Vec::new() };
        let plan = RoundPlan {
            label: format!("{series}, "),
            servers: &record.servers,
            core: cores.server,
            idle_wait: args.cores.idle_wait(),
            clean: args.rounds,
        };
        series.rounds = plan.run(
            |server| measure_window(&bed, &cores, (&upstream, upstream_core), &settings, &series, server),
            |window| Some(window.times.other_share()).filter(|share| *share > settings.other_share_max),
        )?;
        record.series.push(series);
    }
    Ok(record)
}

/// Starts, times and stops one proxy.
fn measure_window(
    bed: &TestBed,
    cores: &TwoCores,
    upstream: (&LabUpstream, usize),
    settings: &ProxyRaceSettings,
    series: &ProxyRaceSeries,
    server: PeerServer,
) -> Result<ProxyRaceWindow, LabError> {
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    cores.on_client_core(|| {
        let address = process.address();
        let request = CheckedRequest {
            name: bed.path(),
            wire: RequestForm::Short.request(&address.to_string(), &bed.path()),
            status: 200,
            content: ExpectedContent::Bytes(upstream_server::content(series.size)),
            closes: false,
        };
        let mut client = CheckedLoopClient::connect(address, vec![request], series.connections)?;
        client.warm_up(WARM_UP_TIME)?;
        let measured = cores.measure_with_upstream(
            upstream,
            || process.threads(),
            || {
                let times = client.run(Duration::from_secs_f64(settings.seconds))?;
                Ok((times.len(), times))
            },
        );
        let totals = client.finish()?;
        for message in &totals.messages {
            eprintln!("{series}, {}: {message}", server.name());
        }
        if totals.responses.errors() > 0 {
            eprint!("{}", bed.server_output());
        }
        let (times, upstream_time) = measured?;
        let upstream_ns = upstream_time.as_nanos() as u64;
        Ok(ProxyRaceWindow { server, times, upstream_ns, checked: totals.responses })
    })
}

/// Fails if the lab cannot configure one of the servers as a proxy.
pub(super) fn expect_proxies(servers: &[PeerServer]) -> Result<(), LabError> {
    match servers.iter().find(|server| !server.is_proxy()) {
        Some(server) => Err(format!("{} is no proxy of the lab", server.name()).into()),
        None => Ok(()),
    }
}

impl ProxyRaceArgs {
    /// Returns the servers, and the earlier build of tarpon on the same engines.
    fn servers(&self) -> Vec<PeerServer> {
        let mut servers = if self.servers.is_empty() { SERVERS.to_vec() } else { self.servers.clone() };
        if self.before.is_some() {
            let builds = [PeerServer::BeforeUring, PeerServer::BeforeEpoll];
            let is_measured =
                |build: &PeerServer| build.current_build().is_some_and(|server| servers.contains(&server));
            let added = builds.into_iter().filter(|build| is_measured(build) && !servers.contains(build));
            servers.extend(added.collect::<Vec<_>>());
        }
        servers
    }

    fn settings(&self, cores: &TwoCores, upstream_core: usize) -> ProxyRaceSettings {
        ProxyRaceSettings {
            rounds: self.rounds,
            seconds: self.seconds,
            pool_size: self.pool_size,
            server_core: cores.server,
            client_core: cores.client,
            upstream_core,
            isolated: !self.isolation.no_isolation,
            other_share_max: self.cores.other_share_max(),
        }
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let connections = self.connections.iter().map(|count| usize::from(*count)).collect::<Vec<_>>();
        let mut options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("seconds", self.seconds.to_string()),
            ("sizes", list(&self.sizes)),
            ("connections", list(&connections)),
            ("pool-size", self.pool_size.to_string()),
            ("servers", names(if self.servers.is_empty() { &SERVERS } else { &self.servers })),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
            ("before", file_name(self.before.as_deref())),
        ]);
        options.push(self.upstream.option());
        with_isolation(command_line("proxy", &options), &self.isolation)
    }
}

/// Parses a length of content.
fn parse_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size <= SIZE_MAX => Ok(size),
        _ => Err(format!("not a number of bytes up to {SIZE_MAX}")),
    }
}

const SERVERS: [PeerServer; 4] =
    [PeerServer::TarponUring, PeerServer::TarponEpoll, PeerServer::Nginx, PeerServer::Haproxy];

/// The page of the site, which no client requests: the upstream answers all requests.
const PAGE: &str = "page.html";

/// Longer contents would measure memory.
const SIZE_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        const SERVERS: &str = " --servers tarpon-uring,tarpon-epoll,nginx,haproxy";
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], String)] = &[
            // case         arguments                                           after the seconds
            ("defaults",    &[],                                                format!(" --sizes 1024,65536 --connections 1,16,100 --pool-size 128{SERVERS}")),
            ("selection",   &["--sizes=0", "--connections=4", "--servers=nginx", "--out=/a/b"], " --sizes 0 --connections 4 --pool-size 128 --servers nginx".into()),
            ("two builds",  &["--before=/a/b/old", "--tarpon=/a/b/new"],        format!(" --sizes 1024,65536 --connections 1,16,100 --pool-size 128{SERVERS} --tarpon new --before old")),
            ("cores",       &["--core=1", "--client-core=0", "--upstream-core=2"], format!(" --sizes 1024,65536 --connections 1,16,100 --pool-size 128{SERVERS} --core 1 --client-core 0 --upstream-core 2")),
            ("a trial",     &["--pool-size=0", "--no-isolation"],               format!(" --sizes 1024,65536 --connections 1,16,100 --pool-size 0{SERVERS} --no-isolation")),
        ];
        for (name, arguments, want) in cases {
            let args = ProxyRaceCli::parse_from([&["proxy"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab proxy --rounds 5 --seconds 2{want}"), "{name}");
        }
    }

    #[test]
    fn earlier_builds_run_on_the_same_engines() {
        use PeerServer::*;
        #[rustfmt::skip]
        let cases: &[(&[&str], &[PeerServer])] = &[
            (&[],                                              &[TarponUring, TarponEpoll, Nginx, Haproxy]),
            (&["--before=old"],                                &[TarponUring, TarponEpoll, Nginx, Haproxy, BeforeUring, BeforeEpoll]),
            (&["--before=old", "--servers=tarpon-epoll"],      &[TarponEpoll, BeforeEpoll]),
            (&["--before=old", "--servers=before-epoll"],      &[BeforeEpoll]),
        ];
        for (arguments, want) in cases {
            let args = ProxyRaceCli::parse_from([&["proxy"], *arguments].concat()).args;
            assert_eq!(args.servers(), *want, "{arguments:?}");
        }
    }

    #[test]
    fn only_proxies_can_be_measured() {
        use PeerServer::*;
        let cases =
            [(Haproxy, true), (Nginx, true), (TarponUring, true), (BeforeEpoll, true), (NginxLog, false)];
        for (server, want) in
            cases.into_iter().chain([(NullEpoll, false), (TarponUringPacked, false), (H2o, false)])
        {
            assert_eq!(expect_proxies(&[server]).is_ok(), want, "{}", server.name());
        }
    }

    #[derive(Parser)]
    struct ProxyRaceCli {
        #[command(flatten)]
        args: ProxyRaceArgs,
    }
}
