//! The report of streams: a row for each server, a table for each carrier.

use super::phrases;
use super::table::{LabReport, ReportColumn, ReportTable, median, min_max};
use crate::format::{mib, thousands};
use crate::records::http2::Http2Carrier;
use crate::records::memory::MemoryUse;
use crate::records::round::MeasuredServer;
use crate::records::streams::{StreamsRecord, StreamsSeries, StreamsWindow};

/// Returns the report.
pub(super) fn report(streams: &StreamsRecord) -> LabReport {
    let table = |series: &StreamsSeries| {
        let heading = match series.carrier {
            Http2Carrier::Clear => "Clear text",
            Http2Carrier::Tls => "TLS",
        };
        let rows = streams.servers.iter().map(|measured| row(streams, series, measured)).collect();
        (Some(heading.to_owned()), ReportTable { columns: COLUMNS, rows, plot: None })
    };
    LabReport {
        tables: streams.series.iter().map(table).collect(),
        caption: caption(streams),
        command: streams.command.clone(),
    }
}

const COLUMNS: &[ReportColumn] = &[
    ("server", Some("server")),
    ("KiB/conn", Some("memory per idle connection, KiB")),
    ("range", Some("range")),
    ("private", Some("private memory per idle connection, KiB")),
    ("KiB/stream", Some("memory per open stream, KiB")),
    ("range", Some("range")),
    ("private", Some("private memory per open stream, KiB")),
    ("before", Some("memory before, MiB")),
    ("idle", Some("memory with all connections, MiB")),
    ("open", Some("memory with all streams, MiB")),
];

fn row(streams: &StreamsRecord, series: &StreamsSeries, measured: &MeasuredServer) -> Vec<String> {
    let settings = &streams.settings;
    let spread = |number: &dyn Fn(&StreamsWindow) -> f64| series.spread(measured.server, number);
    let per_connection = |number| spread(&move |window| window.per_connection(settings, number));
    let per_stream = |number| spread(&move |window| window.per_stream(settings, number));
    let [connection, stream] = [per_connection(PSS), per_stream(PSS)];
    vec![
        measured.name.clone(),
        median(connection, kib),
        min_max(connection, kib),
        median(per_connection(MemoryUse::private), kib),
        median(stream, kib),
        min_max(stream, kib),
        median(per_stream(MemoryUse::private), kib),
        median(spread(&|window| window.before.pss as f64), mib),
        median(spread(&|window| window.idle.pss as f64), mib),
        median(spread(&|window| window.open.pss as f64), mib),
    ]
}

fn caption(streams: &StreamsRecord) -> String {
    let settings = &streams.settings;
    let plural = if settings.rounds == 1 { "" } else { "s" };
    format!(
        "Medians of {} round{plural}. {} connections of HTTP/2, all open at once: settings are exchanged, and no request follows. Then {} of them \
         request a page of {} bytes on {} streams each. The client gives the streams no window, so each response has begun and its content \
         waits. Memory is the proportional set size (PSS) of all processes of the server: the growth per connection, then the growth per \
         stream. Private is the part of it that no file backs. The kernel's memory of the sockets is not in it. Each server has one worker, \
         {}. {}.",
        settings.rounds,
        thousands(settings.connections as usize),
        thousands(settings.busy_connections as usize),
        thousands(settings.size),
        thousands(settings.streams as usize),
        phrases::isolation_with_usual_policy(settings.isolated),
        streams.machine,
    )
}

const PSS: fn(MemoryUse) -> u64 = |memory| memory.pss;

/// Formats bytes as KiB with two digits after the point.
fn kib(bytes: f64) -> String {
    format!("{:.2}", bytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::machine::MachineInfo;
    use crate::records::round::MeasuredRound;
    use crate::records::server::PeerServer;
    use crate::records::streams::StreamsSettings;

    #[test]
    fn memory_is_that_of_connections_and_of_streams() {
        let text = report(&streams()).markdown();
        assert!(text.starts_with("**TLS**\n\n| server |"), "{text}");
        let row = "| tarpon | 4.00 | 2.00–6.00 | 0.00 | 1.00 | 1.00–1.00 | 0.00 | 1.0 | 1.4 | 2.4 |";
        assert!(text.contains(row), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Medians of 3 rounds. 100 connections of HTTP/2"), "{words}");
        assert!(
            words.contains("Then 10 of them request a page of 65,536 bytes on 100 streams each"),
            "{words}"
        );
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Streams(streams());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    fn streams() -> StreamsRecord {
        let round = |kib_each: u64| {
            let pss = |kib: u64| MemoryUse { pss: (1 << 20) + (kib << 10), ..MemoryUse::default() };
            let [before, idle, open] = [pss(0), pss(100 * kib_each), pss(100 * kib_each + 1000)];
            let window = StreamsWindow { server: PeerServer::TarponEpoll, before, idle, open };
            MeasuredRound { clean: true, windows: vec![window] }
        };
        StreamsRecord {
            command: "tarpon-lab streams".into(),
            machine: MachineInfo::example(),
            settings: StreamsSettings {
                rounds: 3,
                connections: 100,
                busy_connections: 10,
                streams: 100,
                size: 65_536,
                isolated: true,
            },
            servers: vec![MeasuredServer { server: PeerServer::TarponEpoll, name: "tarpon".into() }],
            series: vec![StreamsSeries {
                carrier: Http2Carrier::Tls,
                rounds: vec![round(4), round(2), round(6)],
            }],
        }
    }
}
