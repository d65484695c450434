//! HTTP/2: requests per second and CPU per request.
//!
//! ```text
//! one core: server ◀─ another core: h2load      32 connections with 32 streams each, then 1 with 100
//!                                               1 KiB, then 64 KiB; in clear text, then with TLS
//! ```
//!
//! The client is h2load. It may need more CPU time than a server: the report says where it limits the rate.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cores::TwoCores;
use super::options::{
    CommonArgs, IsolationArgs, TwoCoreArgs, command_line, file_name, parse_seconds, with_isolation,
};
use super::output::RecordFile;
use super::protocols::ProtocolRace;
use super::rounds::{RoundPlan, WARM_UP_TIME, expect_clean};
use crate::client::h2load;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::cpu;
use crate::measure::cpu_quota::CpuQuota;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::http2::{
    Http2Carrier, Http2Load, Http2RaceRecord, Http2RaceSeries, Http2RaceSettings, Http2RaceWindow, WHOLE,
    carrier_names,
};
use crate::records::server::{PeerServer, names};
use crate::servers::certificate::CertificateKey;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab http2`.
#[derive(Args)]
pub(crate) struct Http2RaceArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each window for this long
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Open so many connections with so many streams each; several loads run in turn
    #[arg(long, value_name = "CONNECTIONSxSTREAMS", value_delimiter = ',', default_value = "32x32,1x100")]
    loads: Vec<Http2Load>,
    /// Request responses with these lengths of content, in turn
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1024,65536", value_parser = clap::value_parser!(u32).range(1..=SIZE_MAX))]
    sizes: Vec<u32>,
    /// Measure in clear text, with TLS, or both in turn
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Http2Carrier::Clear, Http2Carrier::Tls])]
    carriers: Vec<Http2Carrier>,
    /// Let the server run for so much of the time, where the client would be busy before it
    #[arg(long, value_name = "PERCENT", default_value_t = WHOLE, value_parser = clap::value_parser!(u32).range(1..=100))]
    server_percent: u32,
    /// Also measure this earlier build of tarpon, in the same rounds
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Measure these servers [default: tarpon on io_uring and epoll, nginx, h2o and Caddy]
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',')]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures servers of HTTP/2, prints the report and writes the record. Fails if too few rounds were clean, or if a response was not complete.
pub(crate) fn run(args: &Http2RaceArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let record = measure(args)?;
    let too_few =
        |series: &Http2RaceSeries| expect_clean(&format!("{series}: "), &series.rounds, args.rounds).err();
    let error = record.series.iter().find_map(too_few);
    output.finish(&LabRecord::Http2(record))?;
    error.map_or(Ok(()), |error| Err(error.into()))
}

fn measure(args: &Http2RaceArgs) -> Result<Http2RaceRecord, LabError> {
    let servers = args.servers();
    expect_http2(&servers)?;
    let (machine, client) = (this_machine(), h2load::version()?);
    let cores = TwoCores::choose(&args.cores)?;
    let settings = args.settings(&cores);
    let page = (PAGE, Vec::new());
    let mut bed =
        TestBed::new(&env::temp_dir(), page, args.common.tarpon.as_deref(), args.before.as_deref())?;
    for size in &args.sizes {
        fs::write(bed.site().join(page_of(*size)), generated_site::lines(*size as usize))?;
    }
    bed.use_http2();
    let servers = bed.prepare(bed.installed(servers))?;
    let mut record =
        Http2RaceRecord { command: args.command(), machine, settings, client, servers, series: Vec::new() };
    for carrier in &args.carriers {
        match carrier {
            Http2Carrier::Clear => bed.use_no_certificate(),
            Http2Carrier::Tls => bed.use_certificate(CertificateKey::EcdsaP256)?,
        }
        for (size, load) in
            args.sizes.iter().flat_map(|size| args.loads.iter().map(move |load| (*size, *load)))
        {
            bed.use_content(page_of(size), generated_site::lines(size as usize));
            let mut series =
                Http2RaceSeries { carrier: *carrier, size: size as usize, load, rounds: Vec::new() };
            let plan = RoundPlan {
                label: format!("{series}, "),
                servers: &record.servers,
                core: cores.server,
                idle_wait: args.cores.idle_wait(),
                clean: args.rounds,
            };
            series.rounds = plan.run(
                |server| measure_window(&bed, &cores, &settings, &series, server),
                |window| Some(window.cpu.other_share()).filter(|share| *share > settings.other_share_max),
            )?;
            record.series.push(series);
        }
    }
    Ok(record)
}

/// Starts, times and stops one server.
fn measure_window(
    bed: &TestBed,
    cores: &TwoCores,
    settings: &Http2RaceSettings,
    series: &Http2RaceSeries,
    server: PeerServer,
) -> Result<Http2RaceWindow, LabError> {
    // Dropped after the server: the group must be empty.
    let quota = (settings.server_percent < WHOLE)
        .then(|| CpuQuota::new(f64::from(settings.server_percent) / 100.0))
        .transpose()?;
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    quota.iter().try_for_each(|quota| quota.add(process.threads()?.processes()))?;
    let (path, has_tls) = (bed.path(), series.carrier == Http2Carrier::Tls);
    let load = |time| h2load::run(process.address(), has_tls, (&path, series.size), series.load, time);
    cores.on_client_core(|| {
        load(WARM_UP_TIME)?;
        let time = Duration::from_secs_f64(settings.seconds);
        let (counts, cpu) =
            cores.measure_cpu(|| process.threads(), cpu::ended_children_time, || load(time))?;
        Ok(Http2RaceWindow { server, requests: counts.requests, rate: counts.rate, cpu })
    })
}

/// Fails if the lab cannot measure HTTP/2 of a server.
pub(crate) fn expect_http2(servers: &[PeerServer]) -> Result<(), LabError> {
    match servers.iter().find(|server| !server.has_http2()) {
        Some(server) => Err(format!("{} does not speak HTTP/2 in the lab", server.name()).into()),
        None => Ok(()),
    }
}

impl Http2RaceArgs {
    /// Returns the options of a race over HTTP/2.
    pub(super) fn of_race(
        race: ProtocolRace,
        loads: Vec<Http2Load>,
        sizes: Vec<u32>,
        carrier: Http2Carrier,
    ) -> Http2RaceArgs {
        Http2RaceArgs {
            rounds: race.rounds,
            seconds: race.seconds,
            loads,
            sizes,
            carriers: vec![carrier],
            server_percent: WHOLE,
            before: race.before,
            servers: race.servers,
            cores: race.cores,
            isolation: race.isolation,
            common: race.common,
        }
    }

    fn settings(&self, cores: &TwoCores) -> Http2RaceSettings {
        Http2RaceSettings {
            rounds: self.rounds,
            seconds: self.seconds,
            server_core: cores.server,
            client_core: cores.client,
            isolated: !self.isolation.no_isolation,
            other_share_max: self.cores.other_share_max(),
            server_percent: self.server_percent,
        }
    }

    /// Returns the servers: those of `--servers`, or the default.
    fn servers(&self) -> Vec<PeerServer> {
        if !self.servers.is_empty() {
            return self.servers.clone();
        }
        let before: &[PeerServer] = match self.before {
            Some(_) => &[PeerServer::BeforeUring, PeerServer::BeforeEpoll],
            None => &[],
        };
        [&[PeerServer::TarponUring, PeerServer::TarponEpoll], before, &PEERS].concat()
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let list = |values: Vec<String>| values.join(",");
        let command = command_line(
            "http2",
            &self.cores.after(&[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("loads", list(self.loads.iter().map(Http2Load::to_string).collect())),
                ("sizes", list(self.sizes.iter().map(u32::to_string).collect())),
                ("carriers", carrier_names(&self.carriers)),
                ("server-percent", percent_of(self.server_percent)),
                ("servers", names(&self.servers())),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
                ("before", file_name(self.before.as_deref())),
            ]),
        );
        with_isolation(command, &self.isolation)
    }
}

/// Returns the share of its core that a server gets, if it is not the whole.
fn percent_of(percent: u32) -> String {
    if percent == WHOLE { String::new() } else { percent.to_string() }
}

/// Returns the name of the page with this length.
fn page_of(size: u32) -> String {
    format!("{size}.html")
}

const PEERS: [PeerServer; 3] = [PeerServer::Nginx, PeerServer::H2o, PeerServer::Caddy];

/// The page of the site that no client requests.
const PAGE: &str = "index.html";

/// The largest content, in bytes.
const SIZE_MAX: i64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case         arguments                                       after the numbers
            ("defaults",    &[],                                            " --loads 32x32,1x100 --sizes 1024,65536 --carriers clear,tls --servers tarpon-uring,tarpon-epoll,nginx,h2o,caddy"),
            ("builds",      &["--tarpon=/a/new", "--before", "/b/old"],     " --loads 32x32,1x100 --sizes 1024,65536 --carriers clear,tls --servers tarpon-uring,tarpon-epoll,before-uring,before-epoll,nginx,h2o,caddy --tarpon new --before old"),
            ("a share",     &["--server-percent=50"],                       " --loads 32x32,1x100 --sizes 1024,65536 --carriers clear,tls --server-percent 50 --servers tarpon-uring,tarpon-epoll,nginx,h2o,caddy"),
            ("selection",   &["--loads=1x1", "--sizes=9", "--carriers=tls", "--servers=h2o", "--no-isolation"], " --loads 1x1 --sizes 9 --carriers tls --servers h2o --no-isolation"),
        ];
        for (name, arguments, want) in cases {
            let args = Http2RaceCli::parse_from([&["http2"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab http2 --rounds 5 --seconds 2{want}"), "{name}");
        }
    }

    #[test]
    fn invalid_arguments_fail() {
        for argument in
            ["--loads=0x1", "--loads=1", "--sizes=0", "--carriers=quic", "--rounds=0", "--server-percent=0"]
        {
            assert!(Http2RaceCli::try_parse_from(["http2", argument]).is_err(), "{argument}");
        }
        assert!(expect_http2(&[PeerServer::TarponEpoll, PeerServer::H2o, PeerServer::Nginx]).is_ok());
        for server in [PeerServer::TarponFork, PeerServer::NullEpoll, PeerServer::Haproxy] {
            assert!(expect_http2(&[server]).is_err(), "{server:?}");
        }
    }

    #[derive(Parser)]
    struct Http2RaceCli {
        #[command(flatten)]
        args: Http2RaceArgs,
    }
}
