//! The report of the ladder: a table for each server, with a row for each stage beside the figures of the case study.

use super::phrases;
use super::table::{LabReport, NONE, ReportColumn, ReportTable, median, min_max};
use crate::format::{ms, percent, rate, thousands};
use crate::records::ladder::{LadderRecord, LadderStage};
use crate::records::server::PeerServer;

/// Returns the report.
pub(super) fn report(ladder: &LadderRecord) -> LabReport {
    let table = |server| {
        let rows = LadderStage::ALL.into_iter().map(|stage| row(ladder, server, stage)).collect();
        ReportTable { columns: COLUMNS, rows, plot: None }
    };
    let tables = ladder.servers.iter().map(|measured| (Some(measured.name.clone()), table(measured.server)));
    LabReport { tables: tables.collect(), caption: caption(ladder), command: ladder.command.clone() }
}

const COLUMNS: &[ReportColumn] = &[
    ("stage", Some("stage")),
    ("req/s", Some("requests/s")),
    ("gain", Some("gain")),
    ("range", Some("range")),
    ("CPU µs", Some("server CPU µs/request")),
    ("p50 ms", Some("p50, ms")),
    ("p99 ms", Some("p99, ms")),
    ("busy", Some("server's core busy")),
    ("client µs", None),
    ("story", Some("published requests/s ‡")),
    ("gain", Some("published gain ‡")),
];

fn row(ladder: &LadderRecord, server: PeerServer, stage: LadderStage) -> Vec<String> {
    let us = |us: f64| format!("{us:.1}");
    let gain = ladder.gain(server, stage);
    vec![
        stage.to_string(),
        median(ladder.spread(server, stage, |step| step.times.rate()), rate),
        median(gain, factor_2),
        min_max(gain, |gain| format!("{gain:.2}")),
        median(ladder.spread(server, stage, |step| step.times.server_us()), us),
        median(ladder.spread(server, stage, |step| step.times.latencies.p50_ns as f64), ms),
        median(ladder.spread(server, stage, |step| step.times.latencies.p99_ns as f64), ms),
        median(ladder.spread(server, stage, |step| step.times.server_share()), percent),
        median(ladder.spread(server, stage, |step| step.times.client_us()), us),
        stage.published().map_or(NONE.into(), thousands),
        stage.published_gain().map_or(NONE.into(), factor_2),
    ]
}

fn caption(ladder: &LadderRecord) -> String {
    let (settings, checked) = (&ladder.settings, ladder.checked());
    let length = format!("{} s per stage", settings.seconds);
    let mut sentences = vec![
        phrases::rounds(&[&ladder.rounds], &length, settings.other_share_max),
        format!(
            "{} connections request, in turn, a file of 4 KiB, a file of 64 KiB, and JSON of 1 KiB from an upstream; the client checks \
             status and content of every response. Each stage has the optimisations of all stages above it in the table, and a new process",
            thousands(settings.connections)
        ),
        "The gain is that over the measured stage before, computed within each round. A stage without numbers is no switch of that server: \
         tarpon sends large files with sendfile in any case, nginx has no io_uring, and both have pools of memory in any case"
            .into(),
        "Without keep-alive, a connection carries one request; a response time counts from the request, after the connect. With it, the pool \
         has 128 idle connections of up to 1,000 requests and 65 s, as in the case study"
            .into(),
        "System tuning sets buffers of up to 16 MiB, queues of 65,535, the reuse of ports in TIME_WAIT, a FIN timeout of 15 s and Fast Open; \
         stages before it have the defaults of Linux"
            .into(),
    ];
    if !settings.isolated {
        sentences.push("System tuning needs the private network namespace, and was left out".into());
    }
    if checked.errors() > 0 {
        sentences.push(format!("THE CLIENT COUNTED ERRORS: {checked}"));
    }
    sentences.push(
        "‡ Figures of a published case study, with other contents on another machine (32 cores, 100 Gbit/s, wrk with 12 threads and 400 \
         connections), so they do not compare with the rates here"
            .into(),
    );
    let cores = match settings.upstream_core == settings.client_core {
        true => "client and upstream share another core",
        false => "client and upstream have a core each",
    };
    sentences.push(format!(
        "The server has one worker, alone on its core; {cores}, {}",
        phrases::isolation(settings.isolated)
    ));
    sentences.push(ladder.machine.to_string());
    sentences.join(". ") + "."
}

/// Formats a ratio with two digits after the point.
fn factor_2(ratio: f64) -> String {
    format!("×{ratio:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::cold::Latencies;
    use crate::records::cpu::CpuTimes;
    use crate::records::ladder::{LadderSettings, LadderStep, LadderWindow};
    use crate::records::loads::CheckedResponses;
    use crate::records::machine::MachineInfo;
    use crate::records::round::{MeasuredRound, MeasuredServer};
    use crate::records::two_cores::TwoCoreTimes;

    #[test]
    fn gain_skips_stages_that_are_no_switch() {
        let text = report(&ladder()).markdown();
        for row in [
            "| initial | 1.0k | – | – | 500.0 | 0.10 | 0.30 | 50% | 10,937 | – |",
            "| + sendfile | – | – | – | – | – | – | – | 18,234 | ×1.67 |",
            "| + io_uring | 2.0k | ×2.00 | 2.00–4.00 | 250.0 | 0.10 | 0.30 | 50% | 32,456 | ×1.78 |",
            "| + memory pool | – | – | – | – | – | – | – | 41,234 | ×1.27 |",
        ] {
            assert!(text.contains(row), "{text}");
        }
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 clean rounds, 1 s per stage; 1 rejected"), "{words}");
        assert!(words.contains("THE CLIENT COUNTED ERRORS: timeout 1."), "{words}");
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Ladder(ladder());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    /// Returns a record with three clean rounds without errors, and a dirty one with an error.
    fn ladder() -> LadderRecord {
        let step = |stage, requests, timeouts| {
            let cpu = CpuTimes { elapsed_ns: 1_000_000_000, server_ns: 500_000_000, ..CpuTimes::default() };
            let latencies = Latencies { requests, p50_ns: 100_000, p99_ns: 300_000, max_ns: 1_000_000, cpu };
            LadderStep {
                stage,
                times: TwoCoreTimes { latencies, client_core_busy_ns: 0 },
                upstream_ns: 0,
                checked: CheckedResponses { timeouts, ..CheckedResponses::default() },
            }
        };
        let server = PeerServer::TarponEpoll;
        let round = |clean, initial, uring| MeasuredRound {
            clean,
            windows: vec![LadderWindow {
                server,
                steps: vec![
                    step(LadderStage::Initial, initial, u64::from(!clean)),
                    step(LadderStage::Uring, uring, 0),
                ],
            }],
        };
        LadderRecord {
            command: "tarpon-lab ladder".into(),
            machine: MachineInfo::example(),
            settings: LadderSettings {
                rounds: 3,
                seconds: 1.0,
                connections: 400,
                server_core: 0,
                client_core: 1,
                upstream_core: 1,
                isolated: true,
                other_share_max: 0.05,
            },
            servers: vec![MeasuredServer { server, name: "tarpon".into() }],
            rounds: vec![
                round(true, 1000, 2000),
                round(false, 10, 9000),
                round(true, 1000, 2000),
                round(true, 500, 2000),
            ],
        }
    }
}
