//! The report of loads: a row for each load and engine, beside the figures of the story.

use super::phrases;
use super::table::{LabReport, ReportColumn, median, min_max};
use crate::format::{ms, percent, rate, thousands};
use crate::records::loads::{LoadSeries, LoadsRecord, PublishedFigure};
use crate::records::round::MeasuredServer;

/// Returns the report of loads.
pub(super) fn report(loads: &LoadsRecord) -> LabReport {
    let rows = loads.series.iter().flat_map(|series| loads.servers.iter().map(|server| row(series, server)));
    LabReport::single(COLUMNS, rows.collect(), caption(loads), &loads.command)
}

const COLUMNS: &[ReportColumn] = &[
    ("load", Some("load")),
    ("conns", Some("connections")),
    ("server", Some("server")),
    ("req/s", Some("requests/s")),
    ("range", Some("range")),
    ("busy", Some("server's core busy")),
    ("server µs", Some("server CPU µs/request")),
    ("client µs", None),
    ("p50 ms", Some("p50, ms")),
    ("p99 ms", Some("p99, ms")),
    ("errors", Some("client's errors")),
    ("checked", Some("responses checked")),
    ("story, first", Some("published, first stage ‡")),
    ("story, best", Some("published, best stage ‡")),
];

fn row(series: &LoadSeries, measured: &MeasuredServer) -> Vec<String> {
    let server = measured.server;
    let checked = series.checked(server);
    let requests = series.spread(server, |times| times.rate());
    let us = |us: f64| format!("{us:.1}");
    let [first, best] = series.load.published().map(published);
    vec![
        series.load.to_string(),
        thousands(series.connections),
        measured.name.clone(),
        median(requests, rate),
        min_max(requests, rate),
        median(series.spread(server, |times| times.server_share()), percent),
        median(series.spread(server, |times| times.server_us()), us),
        median(series.spread(server, |times| times.client_us()), us),
        median(series.spread(server, |times| times.latencies.p50_ns as f64), ms),
        median(series.spread(server, |times| times.latencies.p99_ns as f64), ms),
        thousands(checked.errors() as usize),
        thousands(checked.correct as usize),
        first,
        best,
    ]
}

/// Formats a figure of the story, with its errors in parentheses.
fn published(figure: PublishedFigure) -> String {
    let errors = figure.errors.map_or(String::new(), |count| format!(" ({})", thousands(count)));
    thousands(figure.requests) + &errors
}

fn caption(loads: &LoadsRecord) -> String {
    let series: Vec<_> = loads.series.iter().map(|series| series.rounds.as_slice()).collect();
    let settings = &loads.settings;
    let mut lengths: Vec<String> = loads.series.iter().map(|series| series.seconds.to_string()).collect();
    lengths.dedup();
    let checked = loads.checked();
    let mut sentences = vec![
        phrases::rounds(&series, &format!("{} s per window", lengths.join(", ")), settings.other_share_max),
        "Functions of a program that embeds tarpon send every response. The client has one request outstanding on each connection, \
         checks status and content of every response, and counts connects, reads, writes and timeouts that fail and responses that \
         differ. Errors and checked responses are sums over all rounds. A response time counts from the first byte of a request, so \
         with thousands of connections most of it is the wait for the other connections. The client limits the rate of a server whose \
         core is less than 100% busy"
            .into(),
        "Heavy payloads are, in turn, a POST of 64 KiB to 4 MiB, whose response depends on every byte of the content, a short GET, and a \
         malformed request, which the server must refuse with the right status and a close"
            .into(),
    ];
    if checked.errors() > 0 {
        sentences.push(format!("THE CLIENT COUNTED ERRORS: {checked}"));
    }
    sentences.push(
        "‡ Requests/s of a server in C++ in a published story, with other requests on another machine (macOS, 10 cores, kqueue, wrk with \
         4 or 8 threads), so they do not compare with the rates here. In parentheses: read errors, and with heavy payloads the responses \
         with another status than 2xx"
            .into(),
    );
    sentences.push(format!(
        "The server has one worker, on one core with the threads of its functions; the client has another core, {}",
        phrases::isolation(settings.isolated)
    ));
    sentences.push(loads.machine.to_string());
    sentences.join(". ") + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::cold::Latencies;
    use crate::records::cpu::CpuTimes;
    use crate::records::loads::{CheckedResponses, FunctionLoad, LoadWindow, LoadsSettings};
    use crate::records::machine::MachineInfo;
    use crate::records::round::MeasuredRound;
    use crate::records::server::PeerServer;
    use crate::records::two_cores::TwoCoreTimes;

    #[test]
    fn rates_are_of_clean_rounds_and_errors_of_all() {
        let record = loads();
        let text = report(&record).markdown();
        let row = "| baseline | 10,000 | tarpon 0.1.0, epoll | 2.0k | 1.0k–3.0k | 50% | 250.0 | 0.10 | 0.30 | 1 | 8,003 | 1,217 (9,406) | 44,944 (0) |";
        assert!(text.contains(row), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("THE CLIENT COUNTED ERRORS: read 1."), "{words}");
        assert!(words.contains("Medians of 3 clean rounds, 10 s per window; 1 rejected"), "{words}");
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Loads(loads());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    /// Returns a record with three clean rounds without errors, and a dirty one with an error.
    fn loads() -> LoadsRecord {
        let window = |requests, read_errors| {
            let cpu = CpuTimes { elapsed_ns: 1_000_000_000, server_ns: 500_000_000, ..CpuTimes::default() };
            let latencies = Latencies { requests, p50_ns: 100_000, p99_ns: 300_000, max_ns: 1_000_000, cpu };
            LoadWindow {
                server: PeerServer::TarponEpoll,
                times: TwoCoreTimes { latencies, client_core_busy_ns: 400_000_000 },
                checked: CheckedResponses {
                    correct: requests as u64,
                    read_errors,
                    ..CheckedResponses::default()
                },
            }
        };
        let round =
            |clean, requests| MeasuredRound { clean, windows: vec![window(requests, u64::from(!clean))] };
        LoadsRecord {
            command: "tarpon-lab loads".into(),
            machine: MachineInfo::example(),
            settings: LoadsSettings {
                rounds: 3,
                time_factor: 1.0,
                server_core: 0,
                client_core: 1,
                isolated: true,
                other_share_max: 0.05,
            },
            servers: vec![MeasuredServer {
                server: PeerServer::TarponEpoll,
                name: "tarpon 0.1.0, epoll".into(),
            }],
            series: vec![LoadSeries {
                load: FunctionLoad::Baseline,
                connections: 10_000,
                seconds: 10.0,
                rounds: vec![round(true, 1000), round(false, 2003), round(true, 2000), round(true, 3000)],
            }],
        }
    }
}
