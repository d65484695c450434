//! The report of attacks: for each of them, what another client noticed and what the server took.

use clap::ValueEnum;

use super::phrases;
use super::table::{LabReport, NONE, ReportColumn, ReportTable};
use crate::format::{range, thousands};
use crate::records::attacks::{AttackKind, AttackWindow, AttacksRecord, ClientTimes, SliceTimes};
use crate::stats::Spread;

/// Returns the report.
pub(super) fn report(attacks: &AttacksRecord) -> LabReport {
    let table = |kind: &AttackKind| {
        let rows: Vec<_> = attacks
            .servers
            .iter()
            .filter_map(|measured| {
                let windows: Vec<&AttackWindow> = attacks.windows(measured.server, *kind).collect();
                (!windows.is_empty()).then(|| row(attacks, &measured.name, &windows))
            })
            .collect();
        (!rows.is_empty())
            .then(|| (Some(kind.to_string()), ReportTable { columns: COLUMNS, rows, plot: None }))
    };
    LabReport {
        tables: AttackKind::value_variants().iter().filter_map(table).collect(),
        caption: caption(attacks),
        command: attacks.command.clone(),
    }
}

const COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("burning", Some("p99 beside a burning process, µs")),
    ("quarters", Some("half of the slices, µs")),
    ("attacked", Some("p99 beside the attack, µs")),
    ("quarters", Some("half of the slices, µs")),
    ("ratio", Some("ratio of the p99")),
    ("of all", Some("p99 of all requests: burning, attack, µs")),
    ("MiB more", Some("memory at the end of the attack, MiB more")),
    ("after", Some("memory after it, MiB more")),
    ("fds", Some("descriptors left open")),
];

fn row(attacks: &AttacksRecord, name: &str, windows: &[&AttackWindow]) -> Vec<String> {
    let first = windows[0];
    let (burning, attacked) = attacks.slices(first.server, first.kind);
    let median = |numbers: Vec<f64>, format: fn(f64) -> String| {
        Spread::of(numbers).map_or(NONE.to_owned(), |spread| format(spread.median))
    };
    let us = |us: f64| format!("{us:.0}");
    let half = |slices: &Option<SliceTimes>| match slices {
        Some(slices) => [us(slices.us(0.5)), range(&us(slices.us(0.25)), &us(slices.us(0.75)))],
        None => [NONE.to_owned(), NONE.to_owned()],
    };
    let [burning_p99, burning_half] = half(&burning);
    let [attacked_p99, attacked_half] = half(&attacked);
    let ratio = burning.zip(attacked).map(|(burning, attacked)| attacked.us(0.5) / burning.us(0.5));
    let of_all = |times: Vec<&ClientTimes>| {
        median(times.iter().map(|times| times.all.latencies.p99_ns as f64 / 1e3).collect(), |us| {
            format!("{us:.0}")
        })
    };
    let all_burning = of_all(windows.iter().map(|window| &window.burning).collect());
    let all_attacked = of_all(windows.iter().filter_map(|window| window.attacked.as_ref().ok()).collect());
    let more = |at: usize| {
        windows
            .iter()
            .map(|window| window.private_bytes[at] as f64 - window.private_bytes[0] as f64)
            .collect()
    };
    let mib = |bytes: f64| format!("{:.1}", bytes / f64::from(1 << 20));
    let left =
        windows.iter().map(|window| window.descriptors[1].saturating_sub(window.descriptors[0]) as f64);
    vec![
        name.to_owned(),
        burning_p99,
        burning_half,
        attacked_p99,
        attacked_half,
        ratio.map_or("no response".to_owned(), |ratio| format!("×{ratio:.2}")),
        format!("{all_burning}, {all_attacked}"),
        median(more(1), mib),
        median(more(2), mib),
        median(left.collect(), |count| format!("{count:.0}")),
    ]
}

fn caption(attacks: &AttacksRecord) -> String {
    let settings = &attacks.settings;
    let plural = if settings.rounds == 1 { "" } else { "s" };
    format!(
        "Response times of a page of 1 KiB, requested {} times per second on {} connections, while an attacker on the same core as this client does what the \
         heading says; and beside a process that burns as much CPU as the attacker used. Both give way to the client (SCHED_IDLE). A response time counts from the scheduled time of its request, or \
         from when the client woke if that was later and it waited for no response, until the kernel has the response: the client may not run at once, as it shares its \
         core with the attacker. Each p99 is the median of those of slices of 0.25 s, \
         from {} round{plural} with two parts of {} s each: as a virtual processor stands still for milliseconds now and then, the p99 of all requests of a part tells more of the machine. The \
         last of these columns has its median over the rounds. \"No response\": the client was cut off in a round. The server has one worker, alone on its \
         core, and the options that it has by default, except that connections stay open and limits on their number are high. {} connections are idle, as the limit \
         on open files allows. Memory is what only the \
         exit of the server frees. nginx speaks either HTTP/1.1 or HTTP/2 on a port without TLS, so it has no rows for HTTP/2. {}. {}.",
        thousands(settings.rate as usize),
        settings.connections,
        settings.rounds,
        settings.seconds,
        thousands(settings.idle_connections),
        phrases::isolation_with_usual_policy(settings.isolated),
        attacks.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::attacks::AttacksSettings;
    use crate::records::cold::Latencies;
    use crate::records::cpu::CpuTimes;
    use crate::records::machine::MachineInfo;
    use crate::records::round::MeasuredServer;
    use crate::records::server::PeerServer;
    use crate::records::two_cores::TwoCoreTimes;

    #[test]
    fn each_attack_has_a_table() {
        let text = report(&attacks()).markdown();
        assert!(text.contains("**idle connections**"), "{text}");
        assert!(
            text.contains("| tarpon | 100 | 95–105 | 150 | 145–155 | ×1.50 | 200, 300 | 2.0 | 1.0 | 3 |"),
            "{text}"
        );
        assert!(
            text.contains("| tarpon | 100 | 95–105 | – | – | no response | 200, – | 2.0 | 1.0 | 3 |"),
            "{text}"
        );
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Attacks(attacks());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    fn attacks() -> AttacksRecord {
        let times = |p99_ns| TwoCoreTimes {
            latencies: Latencies { requests: 1, p50_ns: 1, p99_ns, max_ns: p99_ns, cpu: CpuTimes::default() },
            client_core_busy_ns: 0,
        };
        let times = |p99_ns: u64| ClientTimes {
            all: times(2 * p99_ns),
            slice_p99s_ns: vec![p99_ns, p99_ns + 5_000, p99_ns - 5_000],
        };
        let window = |kind, attacked| AttackWindow {
            server: PeerServer::TarponEpoll,
            kind,
            burning: times(100_000),
            attacked,
            private_bytes: [1 << 20, 3 << 20, 2 << 20],
            descriptors: [10, 13],
        };
        AttacksRecord {
            command: "tarpon-lab attacks".into(),
            machine: MachineInfo::example(),
            settings: AttacksSettings {
                rounds: 1,
                seconds: 3.0,
                rate: 1000,
                connections: 4,
                idle_connections: 20_000,
                server_core: 0,
                client_core: 1,
                isolated: true,
            },
            servers: vec![MeasuredServer { server: PeerServer::TarponEpoll, name: "tarpon".into() }],
            windows: vec![
                window(AttackKind::Idle, Ok(times(150_000))),
                window(AttackKind::Ranges, Err("closed".into())),
            ],
        }
    }
}
