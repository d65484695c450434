//! The report of cold reads: response times of the hot page, alone and during cold reads.

use super::phrases;
use super::table::{LabReport, NONE, ReportColumn, median, min_max};
use crate::format::{mib, ms, thousands};
use crate::records::cold::{ColdRecord, ColdWindow};
use crate::records::round::MeasuredServer;

/// Returns the report.
pub(super) fn report(cold: &ColdRecord) -> LabReport {
    let row = |measured: &MeasuredServer| {
        let spread = |number: fn(&ColdWindow) -> f64| cold.spread(measured.server, number);
        let p99 = spread(|window| window.with_cold_reads.p99_ns as f64);
        let longest = spread(|window| window.with_cold_reads.max_ns as f64);
        vec![
            measured.name.clone(),
            median(spread(|window| window.alone.p50_ns as f64), ms),
            median(spread(|window| window.alone.p99_ns as f64), ms),
            median(spread(|window| window.with_cold_reads.p50_ns as f64), ms),
            median(p99, ms),
            min_max(p99, ms),
            longest.map_or(NONE.into(), |spread| ms(spread.max)),
            median(spread(|window| window.cold_bytes as f64), |bytes| mib(bytes / cold.settings.seconds)),
        ]
    };
    let rows = cold.servers.iter().map(row).collect();
    LabReport::single(COLUMNS, rows, caption(cold), &cold.command)
}

const COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("p50", None),
    ("p99", Some("p99 alone, ms")),
    ("cold: p50", Some("p50 with cold reads, ms")),
    ("p99", Some("p99 with cold reads, ms")),
    ("range", Some("range of that p99, ms")),
    ("max", Some("maximum with cold reads, ms")),
    ("cold MiB/s", Some("cold reads, MiB/s")),
];

fn caption(cold: &ColdRecord) -> String {
    let settings = &cold.settings;
    format!(
        "Response times of a page of {} bytes in memory, requested {} times per second on {} connections. A response time counts from \
         the scheduled time of its request. First alone, then while {} connections download files of {} MiB. No file is in memory, \
         clients request each file once, and the server reads at most {} MiB/s from the disk. {}. Server and clients share one core, \
         {}; one worker. {}.",
        thousands(settings.hot_size),
        thousands(settings.rate as usize),
        settings.hot_connections,
        settings.cold_connections,
        mib(settings.cold_size as f64),
        mib(settings.disk_rate as f64),
        phrases::rounds(
            &[&cold.rounds],
            &format!("two parts of {} s each", settings.seconds),
            settings.other_share_max
        ),
        phrases::isolation(settings.isolated),
        cold.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::cold::{ColdSettings, Latencies};
    use crate::records::cpu::CpuTimes;
    use crate::records::machine::MachineInfo;
    use crate::records::round::MeasuredRound;
    use crate::records::server::PeerServer;

    #[test]
    fn table_shows_medians_of_the_clean_rounds() {
        let round = |clean, ms| MeasuredRound { clean, windows: vec![window(ms)] };
        let cold = ColdRecord {
            command: "tarpon-lab cold".into(),
            machine: MachineInfo::example(),
            settings: ColdSettings::example(),
            servers: vec![MeasuredServer { server: PeerServer::Nginx, name: "nginx".into() }],
            rounds: vec![round(true, 2), round(false, 900), round(true, 30), round(true, 4)],
        };
        let text = report(&cold).markdown();
        assert!(text.contains("| nginx | 1.0 | 4.0 | 8.0 | 4.0–60.0 | 90.0 | 4.0 |"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds, two parts of 3 s each; 1 rejected"), "{text}");
    }

    /// A window in which the median during cold reads is `ms`, p99 twice and the maximum three times as long.
    fn window(ms: u64) -> ColdWindow {
        let latencies = |ms: u64| Latencies {
            requests: 3000,
            p50_ns: ms * 1_000_000,
            p99_ns: ms * 2_000_000,
            max_ns: ms * 3_000_000,
            cpu: CpuTimes { elapsed_ns: 3_000_000_000, ..CpuTimes::default() },
        };
        let mut alone = latencies(1);
        alone.p99_ns = 1_000_000;
        let bytes = 12 << 20;
        ColdWindow {
            server: PeerServer::Nginx,
            alone,
            with_cold_reads: latencies(ms),
            cold_requests: 11,
            cold_bytes: bytes,
            disk_bytes: bytes,
        }
    }
}
