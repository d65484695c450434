//! The report of stalled programs, or of a stalled upstream: response times of a page, without and beside stalled requests.

use super::phrases;
use super::table::{LabReport, NONE, ReportColumn, median};
use crate::format::{range, thousands};
use crate::records::round::MeasuredServer;
use crate::records::stalled::{StalledBackend, StalledRecord, StalledWindow};

/// Returns the report.
pub(super) fn report(stalled: &StalledRecord) -> LabReport {
    let row = |measured: &MeasuredServer| {
        let spread = |number: fn(&StalledWindow) -> f64| stalled.spread(measured.server, number);
        let us = |ns: f64| format!("{:.0}", ns / 1e3);
        let ratio = spread(StalledWindow::p99_ratio);
        vec![
            measured.name.clone(),
            median(spread(|window| window.idle.latencies.p50_ns as f64), us),
            median(spread(|window| window.idle.latencies.p99_ns as f64), us),
            median(spread(|window| window.stalled.latencies.p50_ns as f64), us),
            median(spread(|window| window.stalled.latencies.p99_ns as f64), us),
            median(ratio, |ratio| format!("×{ratio:.2}")),
            ratio.map_or(NONE.into(), |ratio| {
                range(&format!("{:.2}", ratio.min), &format!("{:.2}", ratio.max))
            }),
        ]
    };
    let rows = stalled.servers.iter().map(row).collect();
    let columns = match stalled.settings.backend {
        StalledBackend::Programs => PROGRAM_COLUMNS,
        StalledBackend::Upstream => UPSTREAM_COLUMNS,
    };
    LabReport::single(columns, rows, caption(stalled), &stalled.command)
}

const PROGRAM_COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("idle p50", Some("p50 beside idle programs, µs")),
    ("p99", Some("p99 beside idle programs, µs")),
    ("stalled p50", Some("p50 beside stalled requests, µs")),
    ("p99", Some("p99 beside stalled requests, µs")),
    ("ratio", Some("ratio of the p99")),
    ("range", Some("range of the ratio")),
];

const UPSTREAM_COLUMNS: &[ReportColumn] = &[
    PROGRAM_COLUMNS[0],
    ("quiet p50", Some("p50 alone, µs")),
    ("p99", Some("p99 alone, µs")),
    PROGRAM_COLUMNS[3],
    PROGRAM_COLUMNS[4],
    PROGRAM_COLUMNS[5],
    PROGRAM_COLUMNS[6],
];

fn caption(stalled: &StalledRecord) -> String {
    let settings = &stalled.settings;
    let programs = settings.programs;
    let parts = match settings.backend {
        StalledBackend::Programs => format!(
            "First beside {programs} programs that wait, on the core of the server, and that the server does not know; then beside \
             {programs} requests for the same program, which never answers"
        ),
        StalledBackend::Upstream => format!(
            "First alone; then beside {programs} requests that the server has forwarded to an upstream, which never answers them"
        ),
    };
    format!(
        "Response times of a page of 1 KiB, requested {} times per second on {} connections. A response time counts from the scheduled \
         time of its request. {parts}. The ratio is computed within each round. {}. The server has one \
         worker, alone on its core; the client has another core, {}. {}.",
        thousands(settings.rate as usize),
        settings.connections,
        phrases::rounds(
            &[&stalled.rounds],
            &format!("two parts of {} s each", settings.seconds),
            settings.other_share_max
        ),
        phrases::isolation(settings.isolated),
        stalled.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::cold::Latencies;
    use crate::records::cpu::CpuTimes;
    use crate::records::machine::MachineInfo;
    use crate::records::round::MeasuredRound;
    use crate::records::server::PeerServer;
    use crate::records::stalled::StalledSettings;
    use crate::records::two_cores::TwoCoreTimes;

    #[test]
    fn ratio_is_computed_within_clean_rounds() {
        let text = report(&stalled(StalledBackend::Programs)).markdown();
        assert!(text.contains("| tarpon | 60 | 100 | 60 | 130 | ×1.10 | 0.90–1.30 |"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds, two parts of 2 s each; 1 rejected"), "{text}");
    }

    #[test]
    fn report_names_what_never_answers() {
        for (backend, column, caption) in [
            (
                StalledBackend::Programs,
                "p99 beside idle programs, µs",
                "beside 100 requests for the same program",
            ),
            (StalledBackend::Upstream, "p99 alone, µs", "beside 100 requests that the server has forwarded"),
        ] {
            let text = report(&stalled(backend)).markdown();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(column) && words.contains(caption), "{text}");
        }
    }

    fn stalled(backend: StalledBackend) -> StalledRecord {
        let times = |p99_us: u64| TwoCoreTimes {
            latencies: Latencies {
                requests: 2000,
                p50_ns: 60_000,
                p99_ns: 1000 * p99_us,
                max_ns: 1_000_000,
                cpu: CpuTimes { elapsed_ns: 2_000_000_000, ..CpuTimes::default() },
            },
            client_core_busy_ns: 0,
        };
        let round = |clean, idle, stalled| MeasuredRound {
            clean,
            windows: vec![StalledWindow {
                server: PeerServer::TarponEpoll,
                idle: times(idle),
                stalled: times(stalled),
            }],
        };
        StalledRecord {
            command: "tarpon-lab stalled".into(),
            machine: MachineInfo::example(),
            settings: StalledSettings {
                rounds: 3,
                seconds: 2.0,
                rate: 1000,
                connections: 4,
                programs: 100,
                backend,
                server_core: 0,
                client_core: 1,
                isolated: true,
                other_share_max: 0.05,
            },
            servers: vec![MeasuredServer { server: PeerServer::TarponEpoll, name: "tarpon".into() }],
            rounds: vec![
                round(true, 100, 110),
                round(false, 1, 900),
                round(true, 200, 180),
                round(true, 100, 130),
            ],
        }
    }
}
