//! The report of HTTP/2: a table for each carrier, length of content and load.

use super::phrases;
use super::plot::LabPlot;
use super::table::{LabReport, NONE, ReportColumn, ReportTable, median, min_max};
use crate::format::{factor, percent, rate};
use crate::records::http2::{Http2RaceRecord, Http2RaceSeries, Http2RaceWindow, WHOLE};
use crate::records::server::PeerServer;

/// Returns the report.
pub(super) fn report(http2: &Http2RaceRecord) -> LabReport {
    let plot = |series: &Http2RaceSeries| {
        let costs = |server| series.spread(server, Http2RaceWindow::server_us);
        LabPlot::of_servers(&http2.servers, costs, |us| format!("{us:.2} µs CPU/request"))
    };
    let table = |series| ReportTable { columns: COLUMNS, rows: rows(http2, series), plot: plot(series) };
    LabReport {
        tables: http2.series.iter().map(|series| (Some(series.to_string()), table(series))).collect(),
        caption: caption(http2),
        command: http2.command.clone(),
    }
}

const COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("req/s", Some("requests/s")),
    ("of h2o", Some("of h2o")),
    ("range", Some("range")),
    ("server µs", Some("server CPU µs/request")),
    ("of h2o", Some("CPU of h2o")),
    ("range", Some("range")),
    ("busy", Some("server's core busy")),
    ("h2load", Some("h2load's core busy")),
    ("h2load µs", Some("h2load CPU µs/request")),
];

/// Returns a row for each server, and after an earlier build of tarpon a row with the comparison.
fn rows(http2: &Http2RaceRecord, series: &Http2RaceSeries) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for measured in &http2.servers {
        let server = measured.server;
        let spread = |number: fn(&Http2RaceWindow) -> f64| series.spread(server, number);
        let rates = series.ratio(server, PeerServer::H2o, |window| window.rate);
        let costs = series.ratio(server, PeerServer::H2o, Http2RaceWindow::server_us);
        let mark = if series.is_limited_by_client(server) { CLIENT_LIMIT } else { "" };
        rows.push(vec![
            format!("{}{mark}", measured.name),
            median(spread(|window| window.rate), rate),
            median(rates, factor_2),
            min_max(rates, two),
            median(spread(Http2RaceWindow::server_us), two),
            median(costs, factor_2),
            min_max(costs, two),
            median(spread(Http2RaceWindow::server_share), percent),
            median(spread(Http2RaceWindow::client_share), percent),
            median(spread(Http2RaceWindow::client_us), two),
        ]);
        let Some(current) = server.current_build() else { continue };
        let rates = series.ratio(current, server, |window| window.rate);
        let costs = series.ratio(current, server, Http2RaceWindow::server_us);
        let mut row = vec!["after/before".to_owned()];
        row.resize(COLUMNS.len(), NONE.into());
        (row[1], row[3]) = (median(rates, factor), min_max(rates, two));
        (row[4], row[6]) = (median(costs, factor), min_max(costs, two));
        rows.push(row);
    }
    rows
}

fn caption(http2: &Http2RaceRecord) -> String {
    let settings = &http2.settings;
    let series: Vec<_> = http2.series.iter().map(|series| series.rounds.as_slice()).collect();
    let length = format!("{} s per window", settings.seconds);
    let mut sentences = vec![
        phrases::rounds(&series, &length, settings.other_share_max),
        "\"Of h2o\" compares within rounds: requests/s divided by those of h2o, and CPU time per request divided by that of h2o. The table \
         shows the median of these ratios, and their range"
            .into(),
    ];
    let is_limited = |series: &Http2RaceSeries| {
        http2.servers.iter().any(|measured| series.is_limited_by_client(measured.server))
    };
    if http2.series.iter().any(is_limited) {
        sentences.push(
            "†: the client limits requests/s, because its core is busy and that of the server is not; only the CPU time compares"
                .into(),
        );
    }
    if http2.servers.iter().any(|measured| measured.server.current_build().is_some()) {
        sentences.push("after/before divides the current build by the earlier one".into());
    }
    sentences.push(format!(
        "The client is {} with one thread, and fails the experiment unless each response is complete. CPU times are those from its start to its \
         end. With TLS: TLS 1.3 with TLS_AES_128_GCM_SHA256 and X25519, and a certificate of ECDSA P-256",
        http2.client
    ));
    sentences.push(format!(
        "The server has one worker, alone on its core; the client has another core, {}",
        phrases::isolation(settings.isolated)
    ));
    if settings.server_percent < WHOLE {
        sentences.push(format!(
            "The kernel lets the server run for {}% of the time, in parts of 5 ms: so the server is the limit, and not the client",
            settings.server_percent
        ));
    }
    sentences.push(http2.machine.to_string());
    sentences.join(". ") + "."
}

fn factor_2(ratio: f64) -> String {
    format!("×{ratio:.2}")
}

fn two(number: f64) -> String {
    format!("{number:.2}")
}

/// Marks a server whose requests per second the client limits.
const CLIENT_LIMIT: &str = " †";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::cpu::CpuTimes;
    use crate::records::http2::{Http2Carrier, Http2Load, Http2RaceSettings};
    use crate::records::machine::MachineInfo;
    use crate::records::round::{MeasuredRound, MeasuredServer};
    use crate::records::two_cores::TwoCoreCpu;

    #[test]
    fn ratios_are_those_of_clean_rounds_and_a_busy_client_is_marked() {
        let text = report(&http2()).markdown();
        assert!(
            text.starts_with("**TLS, 1 KiB, 32 connections with 10 streams each**\n\n| server |"),
            "{text}"
        );
        // 100/50, 120/80 and 90/60 thousand requests; 5/10, 6/10 and 8/10 µs.
        let row = "| tarpon † | 100k | ×1.50 | 1.50–2.00 | 6.00 | ×0.60 | 0.50–0.80 | 54% | 95% | 9.50 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| h2o | 60k | ×1.00 | 1.00–1.00 | 10.00 |"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds, 1 s per window; 1 rejected"), "{words}");
        assert!(words.contains("†: the client limits requests/s"), "{words}");
        assert!(words.contains("The client is h2load nghttp2 1.52.0"), "{words}");
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Http2(http2());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    /// Returns a record with three clean rounds, and a dirty one that the report ignores.
    fn http2() -> Http2RaceRecord {
        let window = |server, thousands: usize, server_us: u64, client_ms: u64| {
            let requests = thousands * 1000;
            let cpu = CpuTimes {
                elapsed_ns: 1_000_000_000,
                server_ns: requests as u64 * server_us * 1000,
                client_ns: client_ms * 1_000_000,
                ..CpuTimes::default()
            };
            let cpu = TwoCoreCpu { cpu, client_core_busy_ns: 0 };
            Http2RaceWindow { server, requests, rate: requests as f64, cpu }
        };
        let round = |clean, tarpon: (usize, u64), h2o| MeasuredRound {
            clean,
            windows: vec![
                window(PeerServer::TarponEpoll, tarpon.0, tarpon.1, 950),
                window(PeerServer::H2o, h2o, 10, 500),
            ],
        };
        let named = |server, name: &str| MeasuredServer { server, name: name.into() };
        Http2RaceRecord {
            command: "tarpon-lab http2".into(),
            machine: MachineInfo::example(),
            settings: Http2RaceSettings {
                rounds: 3,
                seconds: 1.0,
                server_core: 0,
                client_core: 1,
                isolated: true,
                other_share_max: 0.05,
                server_percent: WHOLE,
            },
            client: "h2load nghttp2 1.52.0".into(),
            servers: vec![named(PeerServer::TarponEpoll, "tarpon"), named(PeerServer::H2o, "h2o")],
            series: vec![Http2RaceSeries {
                carrier: Http2Carrier::Tls,
                size: 1024,
                load: Http2Load { connections: 32, streams: 10 },
                rounds: vec![
                    round(true, (100, 5), 50),
                    round(false, (1, 900), 50),
                    round(true, (120, 8), 80),
                    round(true, (90, 6), 60),
                ],
            }],
        }
    }
}
