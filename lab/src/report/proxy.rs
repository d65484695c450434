//! The report of reverse proxies: a table for each length of content and number of connections.

use super::phrases;
use super::plot::LabPlot;
use super::table::{LabReport, NONE, ReportColumn, ReportTable, median, min_max};
use crate::format::{factor, percent, rate};
use crate::records::proxy::{ProxyRaceRecord, ProxyRaceSeries, ProxyRaceWindow};
use crate::records::server::PeerServer;
use crate::stats::Spread;

/// Returns the report.
pub(super) fn report(proxy: &ProxyRaceRecord) -> LabReport {
    let plot = |series: &ProxyRaceSeries| {
        let rates = |server| series.spread(server, |window: &ProxyRaceWindow| window.times.rate());
        LabPlot::of_servers(&proxy.servers, rates, |number| format!("{} requests/s", rate(number)))
    };
    let table = |series| ReportTable { columns: COLUMNS, rows: rows(proxy, series), plot: plot(series) };
    LabReport {
        tables: proxy.series.iter().map(|series| (Some(series.to_string()), table(series))).collect(),
        caption: caption(proxy),
        command: proxy.command.clone(),
    }
}

const COLUMNS: &[ReportColumn] = &[
    ("proxy", Some("proxy")),
    ("req/s", Some("requests/s")),
    ("of nginx", Some("of nginx")),
    ("range", Some("range")),
    ("of HAProxy", Some("of HAProxy")),
    ("range", Some("range")),
    ("CPU µs", Some("CPU µs/request")),
    ("of nginx", Some("CPU of nginx")),
    ("range", Some("range")),
    ("of HAProxy", Some("CPU of HAProxy")),
    ("range", Some("range")),
    ("p50 µs", Some("p50, µs")),
    ("p99 µs", Some("p99, µs")),
    ("of nginx", Some("p99 of nginx")),
    ("busy", Some("proxy's core busy")),
    ("client", Some("client and upstream busy")),
    ("client µs", None),
];

/// Returns a row for each proxy, and after an earlier build of tarpon a row with the comparison.
fn rows(proxy: &ProxyRaceRecord, series: &ProxyRaceSeries) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for measured in &proxy.servers {
        let server = measured.server;
        let of = |base, number: fn(&ProxyRaceWindow) -> f64| series.ratio(server, base, number);
        let [rates, costs] = [(|window| window.times.rate()) as fn(&ProxyRaceWindow) -> f64, |window| {
            window.times.server_us()
        }]
        .map(|number| PEERS.map(|peer| of(peer, number)));
        rows.push(vec![
            measured.name.clone(),
            median(series.spread(server, |window| window.times.rate()), rate),
            median(rates[0], factor_2),
            min_max(rates[0], two),
            median(rates[1], factor_2),
            min_max(rates[1], two),
            median(series.spread(server, |window| window.times.server_us()), |us| format!("{us:.2}")),
            median(costs[0], factor_2),
            min_max(costs[0], two),
            median(costs[1], factor_2),
            min_max(costs[1], two),
            median(series.spread(server, |window| window.times.latencies.p50_ns as f64), us),
            median(series.spread(server, ProxyRaceWindow::p99_ns), us),
            median(of(PeerServer::Nginx, ProxyRaceWindow::p99_ns), factor_2),
            median(series.spread(server, ProxyRaceWindow::server_share), percent),
            median(series.spread(server, |window| window.client_share(&proxy.settings)), percent),
            median(series.spread(server, |window| window.times.client_us()), |us| format!("{us:.2}")),
        ]);
        rows.extend(server.current_build().and_then(|current| comparison_row(series, current, server)));
    }
    rows
}

/// Returns the row that compares the current build with an earlier one.
fn comparison_row(series: &ProxyRaceSeries, current: PeerServer, before: PeerServer) -> Option<Vec<String>> {
    let ratio = |number: fn(&ProxyRaceWindow) -> f64| series.ratio(current, before, number);
    let mut row = vec![NONE.to_owned(); COLUMNS.len()];
    let shown: [(usize, Spread); 3] = [
        (1, ratio(|window| window.times.rate())?),
        (6, ratio(|window| window.times.server_us())?),
        (12, ratio(ProxyRaceWindow::p99_ns)?),
    ];
    row[0] = "after/before".into();
    for (at, spread) in shown {
        row[at] = factor(spread.median);
    }
    Some(row)
}

fn caption(proxy: &ProxyRaceRecord) -> String {
    let series: Vec<_> = proxy.series.iter().map(|series| series.rounds.as_slice()).collect();
    let settings = &proxy.settings;
    let (checked, has_builds) =
        (proxy.checked(), proxy.servers.iter().any(|measured| measured.server.current_build().is_some()));
    let pool = match settings.pool_size {
        0 => "Each connection to the upstream carries one request".to_owned(),
        size => format!(
            "Each proxy keeps up to {size} idle connections to the upstream, for up to 1,000 requests each"
        ),
    };
    let mut sentences = vec![
        phrases::rounds(&series, &format!("{} s per window", settings.seconds), settings.other_share_max),
        "Every proxy forwards the requests to the same upstream, a server of the lab, which sends responses that it has made before. The \
         client has one request outstanding on each connection, and checks status and content of every response"
            .into(),
        pool,
        "\"Of\" a proxy compares within rounds, and the table shows the median and the range of these ratios: for requests/s, above ×1 is \
         better, and for CPU and p99, below ×1 is better. CPU is that of all processes of the proxy. If its core is less than 100% busy, \
         client and upstream, or the way between the cores, limit requests/s"
            .into(),
    ];
    if has_builds {
        sentences.push("after/before are the same ratios for two builds".into());
    }
    if checked.errors() > 0 {
        sentences.push(format!("THE CLIENT COUNTED ERRORS: {checked}"));
    }
    let cores = match settings.upstream_core == settings.client_core {
        true => "client and upstream share another core",
        false => "client and upstream have a core each",
    };
    sentences.push(format!(
        "The proxy has one worker, alone on its core; {cores}, {}",
        phrases::isolation(settings.isolated)
    ));
    sentences.push(proxy.machine.to_string());
    sentences.join(". ") + "."
}

/// Formats a ratio with two digits after the point.
fn factor_2(ratio: f64) -> String {
    format!("×{}", two(ratio))
}

fn two(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Formats nanoseconds as microseconds.
fn us(ns: f64) -> String {
    format!("{:.0}", ns / 1e3)
}

/// The proxies that the others are compared with.
const PEERS: [PeerServer; 2] = [PeerServer::Nginx, PeerServer::Haproxy];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::cold::Latencies;
    use crate::records::cpu::CpuTimes;
    use crate::records::loads::CheckedResponses;
    use crate::records::machine::MachineInfo;
    use crate::records::proxy::ProxyRaceSettings;
    use crate::records::round::{MeasuredRound, MeasuredServer};
    use crate::records::two_cores::TwoCoreTimes;

    #[test]
    fn ratios_are_computed_within_clean_rounds() {
        let record = proxies();
        let text = report(&record).markdown();
        let row = "| tarpon | 2.0k | ×2.00 | 1.50–4.00 | – | – | 250.00 | ×0.50 | 0.25–0.67 | – | – | 100 | 300 | ×1.00 | 50% | 30% |";
        assert!(text.contains(row), "{text}");
        assert!(text.starts_with("**1 KiB, 16 connections**\n"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds, 1 s per window; 1 rejected"), "{words}");
        assert!(words.contains("client and upstream share another core"), "{words}");
        assert!(words.contains("THE CLIENT COUNTED ERRORS: read 1."), "{words}");
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Proxy(proxies());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    /// Returns a record with three clean rounds without errors, and a dirty one with an error.
    fn proxies() -> ProxyRaceRecord {
        let window = |server, requests, read_errors| {
            let cpu = CpuTimes {
                elapsed_ns: 1_000_000_000,
                server_ns: 500_000_000,
                client_ns: 100_000_000,
                ..CpuTimes::default()
            };
            let latencies = Latencies { requests, p50_ns: 100_000, p99_ns: 300_000, max_ns: 1_000_000, cpu };
            ProxyRaceWindow {
                server,
                times: TwoCoreTimes { latencies, client_core_busy_ns: 100_000_000 },
                upstream_ns: 200_000_000,
                checked: CheckedResponses { read_errors, ..CheckedResponses::default() },
            }
        };
        let round = |clean, tarpon, nginx| MeasuredRound {
            clean,
            windows: vec![
                window(PeerServer::TarponEpoll, tarpon, u64::from(!clean)),
                window(PeerServer::Nginx, nginx, 0),
            ],
        };
        let named = |server, name: &str| MeasuredServer { server, name: name.into() };
        ProxyRaceRecord {
            command: "tarpon-lab proxy".into(),
            machine: MachineInfo::example(),
            settings: ProxyRaceSettings {
                rounds: 3,
                seconds: 1.0,
                pool_size: 128,
                server_core: 0,
                client_core: 1,
                upstream_core: 1,
                isolated: true,
                other_share_max: 0.05,
            },
            servers: vec![named(PeerServer::TarponEpoll, "tarpon"), named(PeerServer::Nginx, "nginx")],
            series: vec![ProxyRaceSeries {
                size: 1024,
                connections: 16,
                rounds: vec![
                    round(true, 2000, 1000),
                    round(false, 9000, 1000),
                    round(true, 2000, 500),
                    round(true, 3000, 2000),
                ],
            }],
        }
    }
}
