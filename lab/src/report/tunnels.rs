//! The report of idle tunnels: a row for each proxy.

use super::phrases;
use super::table::{LabReport, ReportColumn, median, min_max};
use crate::format::{mib, thousands};
use crate::records::round::MeasuredServer;
use crate::records::server::PeerServer;
use crate::records::tunnels::{TunnelResources, TunnelsRecord, TunnelsWindow};

/// Returns the report.
pub(super) fn report(tunnels: &TunnelsRecord) -> LabReport {
    let count = tunnels.settings.tunnels;
    let row = |measured: &MeasuredServer| {
        let spread = |number: &dyn Fn(&TunnelsWindow) -> f64| tunnels.spread(measured.server, number);
        let per_tunnel =
            |number: fn(&TunnelResources) -> f64| spread(&|window| window.per_tunnel(count, number));
        let pss = per_tunnel(TunnelResources::pss);
        let two = |ratio: f64| format!("{ratio:.2}");
        vec![
            measured.name.clone(),
            median(pss, kib),
            min_max(pss, kib),
            median(per_tunnel(TunnelResources::private), kib),
            median(tunnels.memory_ratio(measured.server, PeerServer::Nginx), |ratio| format!("×{ratio:.2}")),
            median(spread(&|window| window.before.pss()), mib),
            median(spread(&|window| window.open.pss()), mib),
            median(spread(&|window| window.per_tunnel_after(count, TunnelResources::pss)), kib),
            median(per_tunnel(TunnelResources::descriptors), two),
            median(per_tunnel(TunnelResources::kernel), kib),
            median(spread(&|window| window.open_ns as f64 / 1e3 / count as f64), |us| format!("{us:.0}")),
            median(spread(&|window| window.echo_max_ns as f64 / 1e3), |us| format!("{us:.0}")),
        ]
    };
    let rows = tunnels.servers.iter().map(row).collect();
    LabReport::single(COLUMNS, rows, caption(tunnels), &tunnels.command)
}

const COLUMNS: &[ReportColumn] = &[
    ("proxy", Some("proxy")),
    ("KiB each", Some("memory per tunnel, KiB")),
    ("range", Some("range")),
    ("private", Some("private memory per tunnel, KiB")),
    ("of nginx", Some("memory of nginx")),
    ("before", Some("memory before, MiB")),
    ("open", Some("memory with all tunnels, MiB")),
    ("after", Some("memory per tunnel after messages, KiB")),
    ("fds", Some("descriptors per tunnel")),
    ("kernel", Some("kernel memory per tunnel, KiB")),
    ("open µs", None),
    ("echo µs", None),
];

fn caption(tunnels: &TunnelsRecord) -> String {
    let settings = &tunnels.settings;
    let plural = if settings.rounds == 1 { "" } else { "s" };
    format!(
        "Medians of {} round{plural}. {} WebSocket connections through each proxy to the same upstream, all open at once and idle. Memory is \
         the proportional set size (PSS) of all processes of the proxy, per tunnel that with all tunnels open, less that before the first \
         one; private is the part of it that no file backs. Then the client sends a message through {} tunnels, and each comes back. Descriptors are those of the proxy. Kernel memory is \
         that of the whole machine which the kernel cannot reclaim: it includes the sockets of client and upstream, two of the four of each \
         tunnel. Each proxy has one worker and room for 32,768 connections or more, {}. {}.",
        settings.rounds,
        thousands(settings.tunnels),
        thousands(settings.sample),
        phrases::isolation_with_usual_policy(settings.isolated),
        tunnels.machine,
    )
}

/// Formats bytes as KiB with two digits after the point.
fn kib(bytes: f64) -> String {
    format!("{:.2}", bytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::machine::MachineInfo;
    use crate::records::memory::MemoryUse;
    use crate::records::round::MeasuredRound;
    use crate::records::tunnels::TunnelsSettings;

    #[test]
    fn memory_is_that_of_the_tunnels_alone() {
        let record = tunnels();
        let text = report(&record).markdown();
        assert!(
            text.contains("| tarpon | 2.00 | 2.00–4.00 | 0.00 | ×0.50 | 1.0 | 1.2 | 2.00 | 2.00 | 1.00 |"),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 rounds. 100 WebSocket connections"), "{words}");
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Tunnels(tunnels());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    fn tunnels() -> TunnelsRecord {
        let window = |server, kib_each: u64| {
            let resources = |tunnels: u64| TunnelResources {
                memory: MemoryUse { pss: (1 << 20) + tunnels * (kib_each << 10), ..MemoryUse::default() },
                descriptors: 10 + 2 * tunnels as usize,
                kernel: (5 << 20) + (tunnels << 10),
            };
            let (before, open) = (resources(0), resources(100));
            TunnelsWindow { server, before, open, after: open, echoed: 10, open_ns: 1, echo_max_ns: 1 }
        };
        let round = |tarpon, nginx| MeasuredRound {
            clean: true,
            windows: vec![window(PeerServer::TarponEpoll, tarpon), window(PeerServer::Nginx, nginx)],
        };
        let named = |server, name: &str| MeasuredServer { server, name: name.into() };
        TunnelsRecord {
            command: "tarpon-lab tunnels".into(),
            machine: MachineInfo::example(),
            settings: TunnelsSettings { rounds: 3, tunnels: 100, sample: 10, isolated: true },
            servers: vec![named(PeerServer::TarponEpoll, "tarpon"), named(PeerServer::Nginx, "nginx")],
            rounds: vec![round(2, 4), round(2, 4), round(4, 6)],
        }
    }
}
