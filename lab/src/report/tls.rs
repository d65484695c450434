//! The reports of TLS: a table for each operation, or for each kind of certificate.

use super::phrases;
use super::plot::LabPlot;
use super::table::{LabReport, ReportColumn, ReportTable, median, min_max};
use crate::format::{factor, percent, range, rate, thousands};
use crate::records::server::PeerServer;
use crate::records::tls::{
    StormPart, StormRecord, StormWindow, TlsOperation, TlsRecord, TlsSeries, connection_count,
};
use crate::stats::Spread;

/// Returns the report of operations with TLS.
pub(super) fn report(tls: &TlsRecord) -> LabReport {
    let tables = tls.series.iter().map(|series| {
        let columns = if series.operation.reference() == PeerServer::Nginx { OF_NGINX } else { OF_H2O };
        let costs = |server| series.spread(server, |times| times.server_us());
        let plot = LabPlot::of_servers(&tls.servers, costs, |us| format!("{us:.1} µs CPU"));
        (Some(series.operation.to_string()), ReportTable { columns, rows: rows(tls, series), plot })
    });
    LabReport { tables: tables.collect(), caption: caption(tls), command: tls.command.clone() }
}

const OF_NGINX: &[ReportColumn] = &[
    ("server", Some("server")),
    ("ops/s", Some("operations/s")),
    ("busy", Some("server's core busy")),
    ("server µs", Some("server CPU µs/operation")),
    ("of nginx", Some("of nginx")),
    ("range", Some("range")),
    ("client µs", None),
    ("p50 µs", Some("p50, µs")),
    ("p99 µs", Some("p99, µs")),
];

const OF_H2O: &[ReportColumn] = &[
    OF_NGINX[0],
    OF_NGINX[1],
    OF_NGINX[2],
    OF_NGINX[3],
    ("of h2o", Some("of h2o")),
    OF_NGINX[5],
    OF_NGINX[6],
    OF_NGINX[7],
    OF_NGINX[8],
];

/// Returns a row for each server, and after an earlier build of tarpon a row with the comparison.
fn rows(tls: &TlsRecord, series: &TlsSeries) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for measured in &tls.servers {
        let server = measured.server;
        let ratio = series.ratio(server, series.operation.reference());
        rows.push(vec![
            measured.name.clone(),
            median(series.spread(server, |times| times.rate()), rate),
            median(series.spread(server, |times| times.server_share()), percent),
            median(series.spread(server, |times| times.server_us()), |us| format!("{us:.1}")),
            median(ratio, factor_2),
            ratio_range(ratio),
            median(series.spread(server, |times| times.client_us()), |us| format!("{us:.1}")),
            median(series.spread(server, |times| times.latencies.p50_ns as f64), us),
            median(series.spread(server, |times| times.latencies.p99_ns as f64), us),
        ]);
        let comparison = server.current_build().and_then(|current| series.ratio(server, current));
        if let Some(comparison) = comparison {
            let mut row = vec!["after/before".to_owned()];
            row.resize(OF_NGINX.len(), super::table::NONE.into());
            row[3] = factor(comparison.median);
            row[5] = ratio_range(Some(comparison));
            rows.push(row);
        }
    }
    rows
}

fn caption(tls: &TlsRecord) -> String {
    let series: Vec<_> = tls.series.iter().map(|series| series.rounds.as_slice()).collect();
    let length = format!("{} s per window", tls.settings.seconds);
    let mut sentences = vec![
        phrases::rounds(&series, &length, tls.settings.other_share_max),
        "\"Of nginx\" and \"of h2o\" compare within rounds: how many operations the server completes in the CPU time in which nginx or \
         h2o completes one. Above ×1, the server needs less CPU time. The table shows the median of these ratios, and their range"
            .into(),
        "The client limits operations/s and the times of a server whose core is less than 100% busy".into(),
        format!(
            "{CRYPTOGRAPHY}, and a certificate of ECDSA P-256; HTTP/1.1, {}, each with one operation at a time; a response to a \
             handshake has 1 KiB of content",
            connection_count(tls.connections)
        ),
    ];
    let lacks_windows = |series: &TlsSeries| {
        let has_window = |server| {
            series.rounds.iter().flat_map(|round| &round.windows).any(|window| window.server == server)
        };
        series.operation == TlsOperation::Resumed
            && !tls.servers.iter().all(|measured| has_window(measured.server))
    };
    if tls.series.iter().any(lacks_windows) {
        sentences.push(
            "A server without numbers renews no tickets: the client uses each ticket once, and would complete full handshakes in between"
                .into(),
        );
    }
    if tls.servers.iter().any(|measured| measured.server.current_build().is_some()) {
        sentences.push(
            "after/before is the CPU time of the current build divided by that of the earlier one".into(),
        );
    }
    sentences.push(cores(phrases::isolation(tls.settings.isolated)));
    sentences.push(tls.machine.to_string());
    sentences.join(". ") + "."
}

/// Returns the report of storms.
pub(super) fn storm_report(storm: &StormRecord) -> LabReport {
    let table = |part: fn(&StormWindow) -> &StormPart| {
        let rows = storm.servers.iter().map(|measured| {
            let spread =
                |number: fn(&StormPart) -> f64| storm.spread(measured.server, |window| number(part(window)));
            let ratio = spread(StormPart::p99_ratio);
            vec![
                measured.name.clone(),
                median(spread(|part| part.quiet.latencies.p50_ns as f64), us),
                median(spread(|part| part.quiet.latencies.p99_ns as f64), us),
                median(spread(|part| part.storm.latencies.p50_ns as f64), us),
                median(spread(|part| part.storm.latencies.p99_ns as f64), us),
                median(ratio, factor_2),
                min_max(ratio, |ratio| format!("{ratio:.2}")),
                median(spread(StormPart::handshake_rate), rate),
                median(spread(|part| part.storm.server_share()), percent),
            ]
        });
        ReportTable { columns: STORM_COLUMNS, rows: rows.collect(), plot: None }
    };
    let tables = vec![
        (Some("Handshakes with ECDSA P-256".to_owned()), table(|window| &window.ecdsa)),
        (Some("Handshakes with RSA-2048".to_owned()), table(|window| &window.rsa)),
    ];
    LabReport { tables, caption: storm_caption(storm), command: storm.command.clone() }
}

const STORM_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("quiet p50", Some("p50 quiet, µs")),
    ("p99", Some("p99 quiet, µs")),
    ("storm p50", Some("p50 in the storm, µs")),
    ("p99", Some("p99 in the storm, µs")),
    ("ratio", Some("p99 storm/quiet")),
    ("range", Some("range")),
    ("hs/s", Some("handshakes/s")),
    ("busy", Some("server's core busy")),
];

fn storm_caption(storm: &StormRecord) -> String {
    let length = format!("four parts of {} s each", storm.settings.seconds);
    format!(
        "Response times of a page of 1 KiB, requested {} times per second on {} with TLS. A response time counts from the scheduled time \
         of its request. First without handshakes, then beside {} full handshakes per second, each followed by a request and a close. The \
         ratio is computed within each part of a round. {}. {CRYPTOGRAPHY}. The threads of the storm run only while the client's core is \
         otherwise idle. {}. {}.",
        thousands(storm.rate as usize),
        connection_count(storm.connections as usize),
        thousands(storm.storm_rate as usize),
        phrases::rounds(&[&storm.rounds], &length, storm.settings.other_share_max),
        cores(phrases::isolation_with_usual_policy(storm.settings.isolated)),
        storm.machine,
    )
}

fn cores(isolation: &str) -> String {
    format!("The server has one worker, alone on its core; the client has another core, {isolation}")
}

fn ratio_range(ratio: Option<Spread>) -> String {
    ratio.map_or(super::table::NONE.into(), |spread| {
        range(&format!("{:.2}", spread.min), &format!("{:.2}", spread.max))
    })
}

/// Formats a ratio with two digits after the point: rounds of this experiment differ by percents.
fn factor_2(ratio: f64) -> String {
    format!("×{ratio:.2}")
}

/// Formats nanoseconds as microseconds.
fn us(ns: f64) -> String {
    format!("{:.0}", ns / 1e3)
}

const CRYPTOGRAPHY: &str = "TLS 1.3 with TLS_AES_128_GCM_SHA256 and X25519";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::cold::Latencies;
    use crate::records::cpu::CpuTimes;
    use crate::records::machine::MachineInfo;
    use crate::records::round::{MeasuredRound, MeasuredServer};
    use crate::records::tls::{TlsSettings, TlsWindow};
    use crate::records::two_cores::TwoCoreTimes;

    #[test]
    fn ratios_are_computed_within_clean_rounds() {
        let text = report(&tls()).markdown();
        // 50/100, 80/100 and 120/200 µs.
        let row = "| tarpon 0.1.0, epoll | 1.0k | 8% | 80.0 | ×1.67 | 1.25–2.00 | 100 | 300 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| nginx 1.22.1 | 1.0k | 10% | 100.0 | ×1.00 | 1.00–1.00 | 100 | 300 |"),
            "{text}"
        );
        assert!(text.starts_with("**Full handshake, request and close**\n\n| server |"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds, 2 s per window; 1 rejected"), "{text}");
        assert!(words.contains("16 connections, each with one operation at a time"), "{text}");
        assert!(text.ends_with("\n```sh\ntarpon-lab tls\n```\n"), "{text}");
    }

    #[test]
    fn server_without_a_window_has_an_empty_row() {
        let mut tls = tls();
        tls.servers.push(MeasuredServer { server: PeerServer::H2o, name: "h2o 2.2.5".into() });
        let text = report(&tls).markdown();
        assert!(text.contains("| h2o 2.2.5 | – | – | – | – | – | – | – |"), "{text}");
        assert!(!text.contains("renews"), "{text}");
        tls.series[0].operation = TlsOperation::Resumed;
        let words = report(&tls).markdown().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("A server without numbers renews no tickets"), "{words}");
    }

    #[test]
    fn builds_are_compared_within_each_round() {
        let mut tls = tls();
        for window in tls.series[0].rounds.iter_mut().flat_map(|round| &mut round.windows) {
            if window.server == PeerServer::Nginx {
                window.server = PeerServer::BeforeEpoll;
            }
        }
        tls.servers[1] = MeasuredServer { server: PeerServer::BeforeEpoll, name: "tarpon before".into() };
        let text = report(&tls).plain();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("after/before – – ×0.600 – 0.50–0.80 – – –"), "{text}");
    }

    #[test]
    fn plain_table_shows_the_client() {
        let text = report(&tls()).plain();
        assert!(
            text.contains("server               ops/s  busy  server µs  of nginx      range  client µs"),
            "{text}"
        );
    }

    #[test]
    fn storm_has_a_table_for_each_certificate() {
        let storm = storm();
        let text = storm_report(&storm).markdown();
        let (ecdsa, rsa) = text.split_once("**Handshakes with RSA-2048**").unwrap();
        assert!(
            ecdsa.contains("| nginx 1.22.1 | 100 | 300 | 100 | 390 | ×1.30 | 1.20–1.50 | 500 | 10% |"),
            "{text}"
        );
        assert!(
            rsa.contains("| nginx 1.22.1 | 100 | 300 | 100 | 780 | ×2.60 | 2.40–3.00 | 500 | 10% |"),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("four parts of 2 s each; 0 rejected"), "{text}");
        assert!(words.contains("1,000 times per second on 4 connections"), "{text}");
    }

    #[test]
    fn records_survive_serialization() {
        for record in [LabRecord::Tls(tls()), LabRecord::TlsStorm(storm())] {
            let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
            assert_eq!(read, record);
        }
    }

    /// Returns a record with three clean rounds, and a dirty one that the report ignores.
    fn tls() -> TlsRecord {
        let window = |server, us| TlsWindow { server, times: times(us, 300) };
        let round = |clean, tarpon_us, nginx_us| MeasuredRound {
            clean,
            windows: vec![window(PeerServer::TarponEpoll, tarpon_us), window(PeerServer::Nginx, nginx_us)],
        };
        let rounds =
            vec![round(true, 50, 100), round(false, 1, 900), round(true, 80, 100), round(true, 120, 200)];
        TlsRecord {
            command: "tarpon-lab tls".into(),
            machine: MachineInfo::example(),
            settings: settings(),
            connections: 16,
            servers: vec![
                MeasuredServer { server: PeerServer::TarponEpoll, name: "tarpon 0.1.0, epoll".into() },
                MeasuredServer { server: PeerServer::Nginx, name: "nginx 1.22.1".into() },
            ],
            series: vec![TlsSeries { operation: TlsOperation::Full, rounds }],
        }
    }

    fn storm() -> StormRecord {
        let part = |p99_us| StormPart { quiet: times(100, 300), storm: times(100, p99_us), handshakes: 1000 };
        let round = |p99_us| MeasuredRound {
            clean: true,
            windows: vec![StormWindow {
                server: PeerServer::Nginx,
                ecdsa: part(p99_us),
                rsa: part(2 * p99_us),
            }],
        };
        StormRecord {
            command: "tarpon-lab tls --storm".into(),
            machine: MachineInfo::example(),
            settings: settings(),
            rate: 1000,
            connections: 4,
            storm_rate: 500,
            servers: vec![MeasuredServer { server: PeerServer::Nginx, name: "nginx 1.22.1".into() }],
            rounds: vec![round(360), round(390), round(450)],
        }
    }

    /// A window of 2 s with 1,000 operations per second, each of which costs the server `server_us`.
    fn times(server_us: u64, p99_us: u64) -> TwoCoreTimes {
        let cpu = CpuTimes {
            elapsed_ns: 2_000_000_000,
            server_ns: 2_000_000 * server_us,
            client_ns: 400_000_000,
            ..CpuTimes::default()
        };
        let latencies =
            Latencies { requests: 2000, p50_ns: 100_000, p99_ns: 1000 * p99_us, max_ns: 1_000_000, cpu };
        TwoCoreTimes { latencies, client_core_busy_ns: 400_000_000 }
    }

    fn settings() -> TlsSettings {
        TlsSettings {
            rounds: 3,
            seconds: 2.0,
            server_core: 0,
            client_core: 1,
            isolated: true,
            other_share_max: 0.03,
        }
    }
}
