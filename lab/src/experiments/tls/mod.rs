//! TLS: handshakes, and requests on connections that stay open.
//!
//! ```text
//! one core: server ◀─ another core: client      handshake, request, close      full, then resumed
//!                                               request, request, …           1 KiB, then 64 KiB
//! ```
//!
//! The CPU time of the server per operation is the result: a handshake costs the client about as much as the server, so the client may limit
//! the rate.
//!
//! | file | content |
//! |---|---|
//! | `storm.rs` | response times beside a storm of handshakes |

mod storm;

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
use crate::client::tls_load::{TlsLoadClient, TlsLoadResult};
use crate::error::LabError;
use crate::generated_site;
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::round::MeasuredServer;
use crate::records::server::{PeerServer, names};
use crate::records::tls::{TlsOperation, TlsRecord, TlsSeries, TlsSettings, TlsWindow, operation_names};
use crate::servers::certificate::CertificateKey;
use crate::servers::test_bed::TestBed;

/// Options of `tarpon-lab tls`.
#[derive(Args)]
pub(crate) struct TlsArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each window for this long, or each part of a window with --storm
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Run these operations
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = OPERATIONS, conflicts_with = "storm")]
    operations: Vec<TlsOperation>,
    /// Open this many connections, each with one operation at a time [default: 16, or 4 with --storm]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: Option<u16>,
    /// Measure instead the response times of requests for 1 KiB, quiet and beside this many full handshakes per second [default: 500]
    #[arg(long, value_name = "RATE", num_args = 0..=1, default_missing_value = "500", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    storm: Option<u32>,
    /// With --storm, send this many requests per second, on all connections together
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Also measure this earlier build of tarpon, in the same rounds
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Measure these servers [default: tarpon on io_uring and epoll, nginx, h2o and Caddy; with --storm, without h2o and Caddy]
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',')]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    cores: TwoCoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures operations with TLS, prints the report and writes the record. Fails if too few rounds were clean.
pub(crate) fn run(args: &TlsArgs) -> Result<(), LabError> {
    match args.storm {
        Some(_) => args.isolation.enter_with_usual_policy()?,
        None => args.isolation.enter()?,
    }
    let output = RecordFile::open(args.common.out.as_deref())?;
    let (record, error) = match args.storm {
        Some(rate) => {
            let storm = storm::measure(args, rate)?;
            let error = expect_clean("", &storm.rounds, args.rounds).err();
            (LabRecord::TlsStorm(storm), error)
        }
        None => {
            let tls = measure(args)?;
            let too_few = |series: &TlsSeries| {
                expect_clean(&format!("{}: ", series.operation), &series.rounds, args.rounds).err()
            };
            let error = tls.series.iter().find_map(too_few);
            (LabRecord::Tls(tls), error)
        }
    };
    output.finish(&record)?;
    error.map_or(Ok(()), |error| Err(error.into()))
}

fn measure(args: &TlsArgs) -> Result<TlsRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    let mut bed = args.test_bed()?;
    bed.use_certificate(CertificateKey::EcdsaP256)?;
    let servers = bed.prepare(bed.installed(args.servers()))?;
    let (command, settings, connections) = (args.command(), args.settings(&cores), args.connections());
    let mut series = Vec::new();
    for &operation in &args.operations {
        let servers = if operation == TlsOperation::Resumed {
            with_ticket_renewal(&bed, &cores, &servers)?
        } else {
            servers.clone()
        };
        let plan = RoundPlan { label: format!("{operation}, "), ..args.plan(&servers, &cores) };
        let rounds = plan.run(
            |server| measure_window(&bed, &settings, &cores, connections, server, operation),
            |window| settings.dirty_share(window.times.other_share()),
        )?;
        series.push(TlsSeries { operation, rounds });
    }
    Ok(TlsRecord { command, machine, settings, connections, servers, series })
}

/// Returns the servers that send a new ticket with each resumed handshake. The client uses each ticket once, as RFC 8446 advises in appendix
/// C.4, so it would complete full handshakes with the others in between.
fn with_ticket_renewal(
    bed: &TestBed,
    cores: &TwoCores,
    servers: &[MeasuredServer],
) -> Result<Vec<MeasuredServer>, LabError> {
    let mut renewing = Vec::new();
    for measured in servers {
        let process = bed.start(measured.server)?;
        let (address, path, offer) = (process.address(), bed.path(), bed.tls_offer(true)?);
        let page = (path.as_str(), TlsOperation::Resumed.content_len());
        let result = cores.on_client_core(|| {
            let mut client = TlsLoadClient::connect(address, offer, page, 1, true)?;
            client.run(WARM_UP_TIME)?;
            Ok(client.run(WARM_UP_TIME)?)
        })?;
        match expect_operations(TlsOperation::Resumed, &result) {
            Ok(()) => renewing.push(measured.clone()),
            Err(_) if !measured.server.is_tarpon() => {
                eprintln!("left out of resumed handshakes: {} renews no tickets", measured.name);
            }
            Err(error) => return Err(format!("{}: {error}", measured.name).into()),
        }
    }
    Ok(renewing)
}

/// Starts, times and stops one server.
fn measure_window(
    bed: &TestBed,
    settings: &TlsSettings,
    cores: &TwoCores,
    connections: usize,
    server: PeerServer,
    operation: TlsOperation,
) -> Result<TlsWindow, LabError> {
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    let path = if operation == TlsOperation::Large { format!("/{LARGE_PAGE}") } else { bed.path() };
    let offer = bed.tls_offer(operation == TlsOperation::Resumed)?;
    let times = cores.on_client_core(|| {
        let (server, page) = (process.address(), (path.as_str(), operation.content_len()));
        let mut client = TlsLoadClient::connect(server, offer, page, connections, operation.reconnects())?;
        client.run(WARM_UP_TIME)?;
        cores.measure(
            || process.threads(),
            || {
                let result = client.run(Duration::from_secs_f64(settings.seconds))?;
                expect_operations(operation, &result)?;
                Ok((result.operations as usize, result.times))
            },
        )
    })?;
    Ok(TlsWindow { server, times })
}

/// Fails if the client did something else than the operation.
fn expect_operations(operation: TlsOperation, result: &TlsLoadResult) -> Result<(), LabError> {
    let (full, resumed) = (result.full_handshakes, result.resumed_handshakes);
    let other = match operation {
        TlsOperation::Full => resumed,
        TlsOperation::Resumed => full,
        TlsOperation::Small | TlsOperation::Large => full + resumed,
    };
    match other {
        0 => Ok(()),
        _ => {
            Err(format!("{full} full and {resumed} resumed handshakes in a window of `{}`", operation.name())
                .into())
        }
    }
}

impl TlsArgs {
    /// Returns the options of a race over HTTPS.
    pub(super) fn of_race(race: ProtocolRace, operations: Vec<TlsOperation>, connections: u16) -> TlsArgs {
        TlsArgs {
            rounds: race.rounds,
            seconds: race.seconds,
            operations,
            connections: Some(connections),
            storm: None,
            rate: 0,
            before: race.before,
            servers: race.servers,
            cores: race.cores,
            isolation: race.isolation,
            common: race.common,
        }
    }

    /// Creates a site with both pages.
    fn test_bed(&self) -> Result<TestBed, LabError> {
        let page = (PAGE, generated_site::lines(TlsOperation::Small.content_len()));
        let bed =
            TestBed::new(&env::temp_dir(), page, self.common.tarpon.as_deref(), self.before.as_deref())?;
        fs::write(bed.site().join(LARGE_PAGE), generated_site::lines(TlsOperation::Large.content_len()))?;
        Ok(bed)
    }

    fn settings(&self, cores: &TwoCores) -> TlsSettings {
        TlsSettings {
            rounds: self.rounds,
            seconds: self.seconds,
            server_core: cores.server,
            client_core: cores.client,
            isolated: !self.isolation.no_isolation,
            other_share_max: self.cores.other_share_max(),
        }
    }

    fn plan<'a>(&self, servers: &'a [MeasuredServer], cores: &TwoCores) -> RoundPlan<'a> {
        RoundPlan {
            label: String::new(),
            servers,
            core: cores.server,
            idle_wait: self.cores.idle_wait(),
            clean: self.rounds,
        }
    }

    fn connections(&self) -> usize {
        let default = if self.storm.is_some() { STORM_CONNECTIONS } else { CONNECTIONS };
        self.connections.unwrap_or(default).into()
    }

    /// Returns the servers: those of `--servers`, or the default for the experiment.
    fn servers(&self) -> Vec<PeerServer> {
        if !self.servers.is_empty() {
            return self.servers.clone();
        }
        let mut servers = vec![PeerServer::TarponUring, PeerServer::TarponEpoll];
        if self.before.is_some() {
            servers.extend([PeerServer::BeforeUring, PeerServer::BeforeEpoll]);
        }
        servers.push(PeerServer::Nginx);
        if self.storm.is_none() {
            servers.extend([PeerServer::H2o, PeerServer::Caddy]);
        }
        servers
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let (operations, rate) = match self.storm {
            Some(_) => (String::new(), self.rate.to_string()),
            None => (operation_names(&self.operations), String::new()),
        };
        let command = command_line(
            "tls",
            &self.cores.after(&[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("operations", operations),
                ("storm", self.storm.map_or_else(String::new, |rate| rate.to_string())),
                ("rate", rate),
                ("connections", self.connections().to_string()),
                ("servers", names(&self.servers())),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
                ("before", file_name(self.before.as_deref())),
            ]),
        );
        with_isolation(command, &self.isolation)
    }
}

const OPERATIONS: [TlsOperation; 4] =
    [TlsOperation::Full, TlsOperation::Resumed, TlsOperation::Small, TlsOperation::Large];

/// The pages of 1 KiB and of 64 KiB.
const PAGE: &str = "page.html";
const LARGE_PAGE: &str = "large.html";

/// Connections of the closed loop, and of the requests beside a storm.
const CONNECTIONS: u16 = 16;
const STORM_CONNECTIONS: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn command_contains_defaults_and_no_directories() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &str)] = &[
            // case         arguments                                       after the numbers
            ("defaults",    &[],                                            " --operations full,resumed,small,large --connections 16 --servers tarpon-uring,tarpon-epoll,nginx,h2o,caddy"),
            ("builds",      &["--tarpon=/a/new", "--before", "/b/old"],     " --operations full,resumed,small,large --connections 16 --servers tarpon-uring,tarpon-epoll,before-uring,before-epoll,nginx,h2o,caddy --tarpon new --before old"),
            ("selection",   &["--operations=full", "--servers=nginx", "--connections=8", "--core=1", "--client-core=0"], " --operations full --connections 8 --servers nginx --core 1 --client-core 0"),
            ("storm",       &["--storm"],                                   " --storm 500 --rate 1000 --connections 4 --servers tarpon-uring,tarpon-epoll,nginx"),
            ("other storm", &["--storm", "50", "--rate=9", "--other-max=100", "--no-isolation"], " --storm 50 --rate 9 --connections 4 --servers tarpon-uring,tarpon-epoll,nginx --other-max 100 --no-isolation"),
        ];
        for (name, arguments, want) in cases {
            let args = TlsCli::parse_from([&["tls"], *arguments].concat()).args;
            assert_eq!(args.command(), format!("tarpon-lab tls --rounds 5 --seconds 2{want}"), "{name}");
        }
    }

    #[test]
    fn arguments_that_contradict_each_other_fail() {
        for arguments in [
            &["--storm", "--operations=full"][..],
            &["--storm=0"],
            &["--connections=0"],
            &["--operations=half"],
        ] {
            assert!(TlsCli::try_parse_from([&["tls"], arguments].concat()).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn window_with_other_handshakes_fails() {
        use TlsOperation::*;
        #[rustfmt::skip]
        let cases = [
            // case                          operation  full  resumed  passes
            ("full handshakes",              Full,      9,    0,       true),
            ("one of them resumed",          Full,      8,    1,       false),
            ("resumed handshakes",           Resumed,   0,    9,       true),
            ("the server sent no ticket",    Resumed,   1,    8,       false),
            ("no handshake",                 Small,     0,    0,       true),
            ("a new connection",             Large,     1,    0,       false),
        ];
        for (name, operation, full_handshakes, resumed_handshakes, want) in cases {
            let (operations, elapsed, times) = (9, Duration::ZERO, Vec::new());
            let result = TlsLoadResult { operations, full_handshakes, resumed_handshakes, elapsed, times };
            assert_eq!(expect_operations(operation, &result).is_ok(), want, "{name}");
        }
    }

    #[derive(Parser)]
    struct TlsCli {
        #[command(flatten)]
        args: TlsArgs,
    }
}
