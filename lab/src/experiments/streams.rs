//! Streams of HTTP/2: the memory of idle connections, and of streams whose responses wait for a window.
//!
//! ```text
//! client ─ 1,000 connections ─▶ server      before ─▶ all open and idle ─▶ 100 streams on 100 of them        memory of the server each time
//! ```
//!
//! The client gives streams no window: each response begins, and its content waits in the server.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cores::TwoCores;
use super::http2::expect_http2;
use super::options::{CommonArgs, IsolationArgs, TwoCoreArgs, command_line, file_name, with_isolation};
use super::output::RecordFile;
use super::race::raise_descriptor_limit;
use super::rounds::RoundPlan;
use crate::client::http2::LabHttp2Client;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::measure::memory::memory_of;
use crate::records::LabRecord;
use crate::records::http2::{Http2Carrier, carrier_names};
use crate::records::server::{PeerServer, names};
use crate::records::streams::{StreamsRecord, StreamsSeries, StreamsSettings, StreamsWindow};
use crate::servers::certificate::CertificateKey;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab streams`.
#[derive(Args)]
pub(crate) struct StreamsArgs {
    /// Run this many rounds
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Open this many connections
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Open streams on this many of them
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    busy_connections: u32,
    /// Open this many streams on each of these; servers allow for 100 or more
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    streams: u32,
    /// Request a page of this length on each stream
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    /// Measure in clear text, with TLS, or both in turn
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Http2Carrier::Clear, Http2Carrier::Tls])]
    carriers: Vec<Http2Carrier>,
    /// Also measure this earlier build of tarpon; the names of its servers are before-uring and before-epoll
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
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

/// Measures the memory of connections and streams, prints the report and writes the record. Fails if a response does not begin.
pub(crate) fn run(args: &StreamsArgs) -> Result<(), LabError> {
    args.isolation.enter_with_usual_policy()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    output.finish(&LabRecord::Streams(record))
}

fn measure(args: &StreamsArgs) -> Result<StreamsRecord, LabError> {
    expect_http2(&args.servers)?;
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    let settings = args.settings();
    raise_descriptor_limit(settings.connections as usize)?;
    let page = (PAGE, generated_site::lines(settings.size));
    let mut bed =
        TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), args.before.as_deref())?;
    bed.use_http2();
    let servers = bed.prepare(bed.installed(args.servers.clone()))?;
    let mut series = Vec::new();
    for carrier in &args.carriers {
        match carrier {
            Http2Carrier::Clear => bed.use_no_certificate(),
            Http2Carrier::Tls => bed.use_certificate(CertificateKey::EcdsaP256)?,
        }
        let plan = RoundPlan {
            label: format!("{}, ", carrier.name()),
            servers: &servers,
            core: cores.server,
            // Nothing is timed that other processes could disturb.
            idle_wait: Duration::ZERO,
            clean: args.rounds,
        };
        let rounds = plan.run(
            |server| {
                let window = measure_window(&bed, &cores, &settings, server);
                window.map_err(|error| format!("{error}\n{}", bed.server_output()).into())
            },
            |_| None,
        )?;
        series.push(StreamsSeries { carrier: *carrier, rounds });
    }
    Ok(StreamsRecord { command: args.command(), machine, settings, servers, series })
}

/// Starts, measures and stops one server.
fn measure_window(
    bed: &TestBed,
    cores: &TwoCores,
    settings: &StreamsSettings,
    server: PeerServer,
) -> Result<StreamsWindow, LabError> {
    let process = bed.start(server)?;
    let memory = || memory_of(&process.processes()?);
    let before = memory()?;
    cores.on_client_core(|| {
        let (offer, path) = (bed.http2_offer()?, bed.path());
        let open = || LabHttp2Client::connect(process.address(), offer.as_ref(), &path, 0);
        let mut clients = (0..settings.connections).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let idle = memory()?;
        for client in &mut clients[..settings.busy_connections as usize] {
            client.begin(settings.streams)?;
        }
        Ok(StreamsWindow { server, before, idle, open: memory()? })
    })
}

impl StreamsArgs {
    fn settings(&self) -> StreamsSettings {
        StreamsSettings {
            rounds: self.rounds,
            connections: self.connections,
            busy_connections: self.busy_connections.min(self.connections),
            streams: self.streams,
            size: self.size as usize,
            isolated: !self.isolation.no_isolation,
        }
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let options = self.cores.after(&[
            ("rounds", self.rounds.to_string()),
            ("connections", self.connections.to_string()),
            ("busy-connections", self.busy_connections.to_string()),
            ("streams", self.streams.to_string()),
            ("size", self.size.to_string()),
            ("carriers", carrier_names(&self.carriers)),
            ("servers", names(&self.servers)),
            ("tarpon", file_name(self.common.tarpon.as_deref())),
            ("before", file_name(self.before.as_deref())),
        ]);
        with_isolation(command_line("streams", &options), &self.isolation)
    }
}

const SERVERS: [PeerServer; 4] =
    [PeerServer::TarponUring, PeerServer::TarponEpoll, PeerServer::Nginx, PeerServer::H2o];

/// The page of the site.
const PAGE: &str = "page.html";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case         arguments                                       after the rounds
            ("defaults",    &[],                                            " --connections 1000 --busy-connections 100 --streams 100 --size 65536 --carriers clear,tls --servers tarpon-uring,tarpon-epoll,nginx,h2o"),
            ("a trial",     &["--connections=9", "--busy-connections=2", "--streams=3", "--size=4", "--carriers=tls", "--servers=nginx", "--no-isolation"], " --connections 9 --busy-connections 2 --streams 3 --size 4 --carriers tls --servers nginx --no-isolation"),
        ];
        for (name, arguments, want) in cases {
            let args = StreamsCli::parse_from([&["streams"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab streams --rounds 3{want}"), "{name}");
        }
    }

    #[test]
    fn invalid_arguments_fail() {
        for argument in
            ["--connections=0", "--busy-connections=0", "--streams=101", "--size=0", "--servers=unknown"]
        {
            assert!(StreamsCli::try_parse_from(["streams", argument]).is_err(), "{argument}");
        }
    }

    #[derive(Parser)]
    struct StreamsCli {
        #[command(flatten)]
        args: StreamsArgs,
    }
}
