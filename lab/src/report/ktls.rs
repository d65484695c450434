//! The report of kernel TLS: a table of responses for each engine, and one of ways to send a file.

use super::plot::{BarKind, LabPlot, LinePlot, PlotLine};
use super::table::{LabReport, NONE, ReportColumn, ReportTable};
use crate::format::thousands;
use crate::records::ktls::{InsideRecord, KernelTlsRecord, ResponseCost, Sealing, SendTotal};
use crate::records::send_method::SendMethod;

/// Returns the report.
pub(super) fn report(record: &KernelTlsRecord) -> LabReport {
    let inside = &record.inside;
    let mut tables = Vec::new();
    for engine in in_order(inside.responses.iter().map(|cost| cost.engine.as_str())) {
        let sizes = in_order(inside.responses.iter().map(|cost| cost.size));
        let rows = sizes.map(|size| response_row(inside, engine, size)).collect();
        let plot = Some(LabPlot::Lines(lines(inside, engine)));
        tables.push((Some(format!("Responses of {engine}")), ReportTable { columns: RESPONSES, rows, plot }));
    }
    for is_sealed in [false, true] {
        let heading = if is_sealed { "Files sealed by the kernel" } else { "Files in clear text" };
        let rows = SendMethod::ALL.into_iter().map(|method| send_row(inside, method, is_sealed)).collect();
        tables.push((Some(heading.to_owned()), ReportTable { columns: SENDS, rows, plot: None }));
    }
    LabReport { tables, caption: caption(record), command: record.command.clone() }
}

/// Returns a line for each sealing: instructions per byte, by length.
fn lines(inside: &InsideRecord, engine: &str) -> LinePlot {
    let line = |sealing: Sealing| {
        let costs =
            inside.responses.iter().filter(|cost| (cost.engine.as_str(), cost.sealing) == (engine, sealing));
        let points = costs.map(|cost| (cost.size as f64, cost.instructions_per_request() / cost.size as f64));
        let kind = if sealing == Sealing::Kernel { BarKind::Tarpon } else { BarKind::Other };
        PlotLine { name: sealing.to_string(), kind, points: points.collect() }
    };
    LinePlot { axes: ["bytes of content", "instructions per byte"], lines: Sealing::ALL.map(line).into() }
}

/// Returns each value once.
fn in_order<T: Copy + PartialEq>(values: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut seen = Vec::new();
    values.for_each(|value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
    });
    seen.into_iter()
}

const RESPONSES: &[ReportColumn] = &[
    ("content", Some("content")),
    ("clear", Some("clear text, instructions per response")),
    ("server", Some("TLS in the server")),
    ("kernel", Some("TLS in the kernel")),
    ("/server", Some("kernel/server")),
    ("calls clear", Some("system calls, clear text")),
    ("server", Some("TLS in the server")),
    ("kernel", Some("TLS in the kernel")),
];

fn response_row(inside: &InsideRecord, engine: &str, size: u64) -> Vec<String> {
    let find = |sealing| {
        let is_wanted =
            |cost: &&ResponseCost| (cost.engine.as_str(), cost.sealing, cost.size) == (engine, sealing, size);
        inside.responses.iter().find(is_wanted)
    };
    let cell =
        |sealing, number: &dyn Fn(&ResponseCost) -> String| find(sealing).map_or(NONE.to_owned(), number);
    let instructions = |cost: &ResponseCost| thousands(cost.instructions_per_request() as usize);
    let calls = |cost: &ResponseCost| format!("{:.1}", cost.system_calls_per_request());
    let ratio =
        find(Sealing::Kernel).zip(find(Sealing::Server)).map_or(NONE.to_owned(), |(kernel, server)| {
            format!("{:.2}", kernel.instructions_per_request() / server.instructions_per_request())
        });
    let mut row = vec![length(size)];
    row.extend(Sealing::ALL.map(|sealing| cell(sealing, &instructions)));
    row.push(ratio);
    row.extend(Sealing::ALL.map(|sealing| cell(sealing, &calls)));
    row
}

const SENDS: &[ReportColumn] = &[
    ("method", Some("method")),
    ("16 KiB", Some("16 KiB, instructions per KiB")),
    ("64 KiB", Some("64 KiB")),
    ("1 MiB", Some("1 MiB")),
    ("16 MiB", Some("16 MiB")),
    ("calls 16 KiB", Some("system calls per MiB, 16 KiB")),
    ("64 KiB", Some("64 KiB")),
    ("1 MiB", Some("1 MiB")),
    ("16 MiB", Some("16 MiB")),
];

/// The files of the columns.
const SIZES: [u64; 4] = [16 << 10, 64 << 10, 1 << 20, 16 << 20];

fn send_row(inside: &InsideRecord, method: SendMethod, is_sealed: bool) -> Vec<String> {
    let per_kib = |size, sum: fn(SendTotal) -> u64| {
        let sends = &mut inside.sends.iter();
        sends.find(|cost| (cost.method, cost.is_sealed, cost.size) == (method, is_sealed, size))?.per_kib(sum)
    };
    let instructions = SIZES.map(|size| match per_kib(size, |cost| cost.instructions) {
        Some(count) => thousands(count as usize),
        None => "refused".to_owned(),
    });
    let calls = SIZES.map(|size| match per_kib(size, |cost| cost.system_calls) {
        Some(count) => format!("{:.1}", count * 1024.0),
        None => NONE.to_owned(),
    });
    [vec![method.to_string()], instructions.into(), calls.into()].concat()
}

/// Formats a length that is a power of two.
fn length(size: u64) -> String {
    if size >= 1 << 20 { format!("{} MiB", size >> 20) } else { format!("{} KiB", size >> 10) }
}

fn caption(record: &KernelTlsRecord) -> String {
    format!(
        "Instructions of the server, or of the sender, in user space and in the kernel, what the kernel does for the receiver within its sends included. The virtual \
         machine has one emulated processor and Linux {}; its clock counts instructions. An instruction of AES counts as much as an \
         addition, and neither caches nor memory take time, so ratios of times differ. Responses: one connection, one request at a time, \
         TLS_AES_128_GCM_SHA256. Files: a file in the page cache to a blocking socket on loopback, whose receiver drops what arrives; the threads that \
         the kernel makes for the ring are included. Refused: the kernel has no such send on a socket that it seals. Emulated on {}.",
        record.inside.kernel.split('-').next().unwrap_or_default(),
        record.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::ktls::SendCost;
    use crate::records::machine::MachineInfo;

    #[test]
    fn rows_compare_who_seals() {
        let text = report(&example()).markdown();
        let row = "| 64 KiB | 1,000 | 4,000 | 3,000 | 0.75 | 2.0 | 2.0 | 2.0 |";
        assert!(text.starts_with("**Responses of epoll**\n\n| content |") && text.contains(row), "{text}");
        assert!(
            text.contains("| sendfile | refused | 10 | refused | refused | – | 16.0 | – | – |"),
            "{text}"
        );
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::KernelTls(example());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    fn example() -> KernelTlsRecord {
        let response = |sealing, instructions| ResponseCost {
            engine: "epoll".into(),
            sealing,
            size: 64 << 10,
            requests: 10,
            instructions,
            counted_requests: 2,
            system_calls: 4,
        };
        let responses = [(Sealing::Clear, 10_000), (Sealing::Server, 40_000), (Sealing::Kernel, 30_000)];
        let cost = Some(SendTotal { instructions: 1_280, system_calls: 2 });
        KernelTlsRecord {
            command: "tarpon-lab ktls".into(),
            machine: MachineInfo::example(),
            inside: InsideRecord {
                kernel: "6.12.1-cloud".into(),
                responses: responses.map(|(sealing, count)| response(sealing, count)).into(),
                sends: vec![SendCost {
                    method: SendMethod::SendFile,
                    is_sealed: true,
                    size: 64 << 10,
                    files: 2,
                    cost,
                }],
            },
        }
    }
}
