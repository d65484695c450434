//! The report of server starts: time to the first response, and memory.

use super::phrases;
use super::table::{LabReport, ReportColumn, median, min_max};
use crate::format::{mib, ms, thousands};
use crate::records::round::MeasuredServer;
use crate::records::start::{StartRecord, StartWindow};

/// Returns the report.
pub(super) fn report(start: &StartRecord) -> LabReport {
    let row = |measured: &MeasuredServer| {
        let spread = |number: fn(&StartWindow) -> u64| start.spread(measured.server, number);
        let first_response = spread(|window| window.first_response_ns);
        vec![
            measured.name.clone(),
            median(first_response, ms),
            min_max(first_response, ms),
            median(spread(|window| window.memory_at_first_response.rss), mib),
            median(spread(|window| window.memory_at_first_response.pss), mib),
            median(spread(|window| window.memory_at_first_response.private()), mib),
            median(spread(|window| window.memory_after_requests.pss), mib),
            median(spread(|window| window.memory_after_requests.private()), mib),
        ]
    };
    let rows = start.servers.iter().map(row).collect();
    LabReport::single(COLUMNS, rows, caption(start), &start.command)
}

const COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("first ms", Some("first response, ms")),
    ("range", Some("range, ms")),
    ("RSS MiB", None),
    ("PSS", Some("PSS, MiB")),
    ("private", Some("private, MiB")),
    ("later: PSS", Some("PSS later, MiB")),
    ("private", Some("private later, MiB")),
];

fn caption(start: &StartRecord) -> String {
    let requests = start.rounds.iter().flatten().map(|window| window.requests).max().unwrap_or_default();
    format!(
        "A generated site of {} pages, {} MiB, all in the page cache. The time counts from before the process is created to the last \
         byte of the first response. The memory is that of all processes of the server, after the first response and later, after {} \
         different pages. PSS: proportional set size, with mapped files. Private: anonymous memory and memfds, which only the exit of \
         the processes frees; the kernel can drop other pages at any time. Medians of {} rounds; one worker; {}. {}.",
        thousands(start.files as usize),
        mib(start.bytes as f64),
        thousands(requests as usize),
        start.rounds.len(),
        phrases::isolation(start.isolated),
        start.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::machine::MachineInfo;
    use crate::records::memory::MemoryUse;
    use crate::records::server::PeerServer;

    #[test]
    fn table_shows_medians_of_all_rounds() {
        let memory = |mib: u64| MemoryUse {
            rss: mib << 21,
            pss: mib << 20,
            anonymous: mib << 19,
            memory_files: mib << 18,
        };
        let round = |ms: u64| {
            vec![StartWindow {
                server: PeerServer::Nginx,
                first_response_ns: ms * 1_000_000,
                memory_at_first_response: memory(ms),
                requests: 1000,
                memory_after_requests: memory(4 * ms),
            }]
        };
        let start = StartRecord {
            command: "tarpon-lab start".into(),
            machine: MachineInfo::example(),
            isolated: true,
            files: 100_000,
            bytes: 500 << 20,
            servers: vec![MeasuredServer { server: PeerServer::Nginx, name: "nginx".into() }],
            rounds: vec![round(8), round(40), round(12)],
        };
        let text = report(&start).markdown();
        assert!(text.contains("| nginx | 12.0 | 8.0–40.0 | 12.0 | 9.0 | 48.0 | 36.0 |"), "{text}");
        assert!(text.starts_with("| server | first response, ms | range, ms |"), "{text}");
        assert!(text.contains("100,000 pages, 500 MiB"), "{text}");
    }
}
