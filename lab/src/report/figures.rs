//! The command `figures`: the few numbers of the README, each from its result file.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::document::update;
use crate::error::LabError;
use crate::format::{mib, ms};
use crate::records::LabRecord;
use crate::records::pack::ReferenceCoding;
use crate::records::proxy::ProxyRaceRecord;
use crate::records::server::PeerServer;
use crate::records::server::PeerServer::{
    H2o, Nginx, NginxThreads, TarponEpoll, TarponUring, TarponUringPacked,
};
use crate::records::tls::{TlsOperation, TlsRecord};
use crate::records::tunnels::TunnelResources;
use crate::stats::Spread;

/// Options of `tarpon-lab figures`.
#[derive(Args)]
pub(crate) struct FiguresArgs {
    /// Write the figures into this document, between the marks `<!-- figures:start -->` and `<!-- figures:end -->`
    #[arg(default_value = "README.md")]
    document: PathBuf,
    /// Read the result files of this directory
    #[arg(long, value_name = "DIR", default_value = "lab/results")]
    results: PathBuf,
    /// Change nothing, but fail if the document is out of date
    #[arg(long)]
    check: bool,
}

/// Writes the figures into the document.
pub(crate) fn run(args: &FiguresArgs) -> Result<(), LabError> {
    let figures = figures(&args.results)?;
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", args.document.display());
    let text = fs::read_to_string(&args.document).map_err(|error| named(&error))?;
    let updated = update(&text, "figures", &figures)
        .ok_or_else(|| named(&"no marks `<!-- figures:start -->` and `<!-- figures:end -->`"))?;
    match updated == text {
        true => Ok(()),
        false if args.check => Err(named(&"out of date; run `tarpon-lab figures`").into()),
        false => Ok(fs::write(&args.document, updated)?),
    }
}

/// Returns a list with an item for each result file that has one.
fn figures(results: &Path) -> Result<String, LabError> {
    let mut list = String::new();
    for (name, title, place) in ITEMS {
        let path = results.join(format!("{name}.json"));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let record: LabRecord =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let figure =
            figure(&record, title).ok_or_else(|| format!("{}: no figure for {title}", path.display()))?;
        let item = format!(
            "- **{title}.** {figure} ([{place}](docs/performance.md#{})).",
            place.to_lowercase().replace(' ', "-")
        );
        list += &super::table::fold(&item, 130).replace('\n', "\n  ");
        list += "\n";
    }
    Ok(list)
}

/// Result file, title, and section of the document with its table.
const ITEMS: [(&str, &str, &str); 8] = [
    ("race", "As fast as the kernel allows", "Requests"),
    ("race", "Little CPU time", "Requests"),
    ("tls", "HTTPS", "HTTPS"),
    ("cold", "A slow disk delays only its own clients", "Cold reads"),
    ("start", "Ready at once", "Start"),
    ("proxy", "A proxy, too", "Reverse proxy"),
    ("tunnels", "Idle tunnels", "Reverse proxy"),
    ("pack", "Small downloads", "Packing"),
];

/// Returns what a record says. `None`: it lacks a number.
fn figure(record: &LabRecord, title: &str) -> Option<String> {
    let median = |spread: Option<Spread>| Some(spread?.median);
    Some(match record {
        LabRecord::Race(race) => {
            let series = race.series.iter().find(|series| series.connections == 64)?;
            let summary = |server| series.summary(server, race.peers());
            let (tarpon, nginx) = (summary(TarponUring)?, summary(Nginx)?);
            if title == "Little CPU time" {
                let per_call = 1.0 / series.calls_per_request(TarponUring)?;
                return Some(format!(
                    "tarpon takes {:.1} µs of CPU time for a request, nginx {:.1} µs. With io_uring, one system call serves about {per_call:.0} requests",
                    tarpon.server_us.median, nginx.server_us.median
                ));
            }
            let share = |spread| Some(format!("{:.0} %", median(spread)? * 100.0));
            format!(
                "With 64 connections tarpon serves {} of the requests of a server that parses nothing; nginx serves {}",
                share(tarpon.of_peers[1])?,
                share(nginx.of_peers[1])?
            )
        }
        LabRecord::Tls(tls) => {
            let us = |operation, server| cpu_us(tls, operation, server);
            let full = |server| Some(format!("{:.2} ms", us(TlsOperation::Full, server)? / 1e3));
            let small = |server| Some(format!("{:.1} µs", us(TlsOperation::Small, server)?));
            format!(
                "For a full handshake of TLS 1.3 tarpon takes {} of CPU time, nginx {}; for a request of 1 KiB {}, nginx {} and h2o {}",
                full(TarponUring)?,
                full(Nginx)?,
                small(TarponUring)?,
                small(Nginx)?,
                small(H2o)?
            )
        }
        LabRecord::Cold(cold) => {
            let p99 = |server| {
                Some(ms(median(cold.spread(server, |window| window.with_cold_reads.p99_ns as f64))?))
            };
            format!(
                "While other clients read from a slow disk, a page in memory takes {} ms (p99). nginx takes {} ms, or {} ms with `aio threads`",
                p99(TarponUring)?,
                p99(Nginx)?,
                p99(NginxThreads)?
            )
        }
        LabRecord::Start(start) => {
            let first = |server| Some(ms(median(start.spread(server, |window| window.first_response_ns))?));
            let private = |server| {
                Some(mib(median(start.spread(server, |window| window.memory_at_first_response.private()))?))
            };
            format!(
                "tarpon answers {} ms after its start from a packed site of 100,000 files, and takes {} MiB of private memory; nginx takes {} ms and {} MiB",
                first(TarponUringPacked)?,
                private(TarponUringPacked)?,
                first(Nginx)?,
                private(Nginx)?
            )
        }
        LabRecord::Proxy(proxy) => format!(
            "A response of 1 KiB from an upstream server costs {} µs of CPU time, in nginx {} µs",
            proxy_us(proxy, &[TarponUring, TarponEpoll])?,
            proxy_us(proxy, &[Nginx])?
        ),
        LabRecord::Tunnels(tunnels) => {
            let kib = |server| {
                let each = |window: &_| per_tunnel(window, tunnels.settings.tunnels);
                Some(format!("{:.1} KiB", median(tunnels.spread(server, each))? / 1024.0))
            };
            format!("An idle WebSocket tunnel takes {}, in nginx {}", kib(TarponUring)?, kib(Nginx)?)
        }
        LabRecord::Pack(pack) => {
            let share = |coding| {
                let sizes = pack.sites.first()?.codings.iter().find(|sizes| sizes.coding == coding)?;
                Some(format!("{:.2} %", sizes.tarpon as f64 / sizes.reference as f64 * 100.0))
            };
            format!(
                "The files of `tarpon pack --effort best` have {} of the size with `brotli -q 11`, {} of `zopfli` and {} of `zstd -22`",
                share(ReferenceCoding::Br)?,
                share(ReferenceCoding::Gzip)?,
                share(ReferenceCoding::Zstd)?
            )
        }
        _ => return None,
    })
}

fn cpu_us(tls: &TlsRecord, operation: TlsOperation, server: PeerServer) -> Option<f64> {
    let series = tls.series.iter().find(|series| series.operation == operation)?;
    Some(series.spread(server, |times| times.server_us())?.median)
}

/// Returns the range of the medians with any number of connections.
fn proxy_us(proxy: &ProxyRaceRecord, servers: &[PeerServer]) -> Option<String> {
    let series = || proxy.series.iter().filter(|series| series.size == 1024);
    let medians = servers.iter().flat_map(|server| {
        series().filter_map(|series| Some(series.spread(*server, |window| window.times.server_us())?.median))
    });
    let all = Spread::of(medians)?;
    Some(format!("{:.0} to {:.0}", all.min, all.max))
}

fn per_tunnel(window: &crate::records::tunnels::TunnelsWindow, tunnels: usize) -> f64 {
    window.per_tunnel(tunnels, TunnelResources::pss)
}
