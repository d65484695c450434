//! The report of a sweep: a table for each link, with a row for each length.

use super::phrases;
use super::plot::{BarKind, LabPlot, LinePlot, PlotLine};
use super::table::{LabReport, NONE, ReportColumn, ReportTable};
use crate::records::send_method::SendMethod;
use crate::records::sweep::{SweepRecord, SweepSeries};

/// Returns the report.
pub(super) fn report(sweep: &SweepRecord) -> LabReport {
    let table = |series: &SweepSeries| {
        let rows = series.sizes().into_iter().map(|size| row(series, size)).collect();
        let plot = Some(LabPlot::Lines(lines(series)));
        (Some(series.link.to_string()), ReportTable { columns: COLUMNS, rows, plot })
    };
    LabReport {
        tables: sweep.series.iter().map(table).collect(),
        caption: caption(sweep),
        command: sweep.command.clone(),
    }
}

const COLUMNS: &[ReportColumn] = &[
    ("content", Some("content")),
    ("memory µs", Some("send from memory, CPU µs per file")),
    ("read", Some("read and send, of that")),
    ("sendfile", Some("sendfile")),
    ("splices", Some("linked splices on a ring")),
    ("zero copy", Some("zero-copy send on a ring")),
];

/// The methods beside that from memory, in the order of the columns.
const OTHERS: [SendMethod; 4] =
    [SendMethod::Read, SendMethod::SendFile, SendMethod::RingSplice, SendMethod::RingZeroCopy];

fn row(series: &SweepSeries, size: u64) -> Vec<String> {
    let memory = series.ns_per_file(SendMethod::Memory, size);
    let mut row = vec![length(size), memory.map_or(NONE.into(), |ns| format!("{:.1}", ns.median / 1e3))];
    row.extend(OTHERS.map(|method| match series.of_memory(method, size) {
        Some(ratio) => format!("×{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max),
        None => NONE.into(),
    }));
    row
}

fn lines(series: &SweepSeries) -> LinePlot {
    let line = |method: SendMethod| {
        let points = series
            .sizes()
            .into_iter()
            .filter_map(|size| Some((size as f64, series.of_memory(method, size)?.median)));
        PlotLine { name: method.to_string(), kind: BarKind::Other, points: points.collect() }
    };
    LinePlot { axes: ["bytes of content", "CPU time, of a send from memory"], lines: OTHERS.map(line).into() }
}

fn length(size: u64) -> String {
    match size {
        0x10_0000.. => format!("{} MiB", size >> 20),
        1024.. => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

fn caption(sweep: &SweepRecord) -> String {
    let settings = &sweep.settings;
    let plural = if settings.rounds == 1 { "" } else { "s" };
    let crossovers = sweep.series.iter().map(|series| {
        let from = series.crossover(SendMethod::SendFile);
        let from = from.map_or("at no length here".to_owned(), |size| format!("from {} on", length(size)));
        format!("{}: sendfile takes less CPU time than a send from memory {from}. ", series.link)
    });
    format!(
        "{}CPU time of the sender, per file: medians of {} round{plural}. Ratios compare within rounds, with their range in parentheses. A head of {} bytes precedes \
         each content: gathered with it from memory, and in a send of its own before the other methods. Each window sends {} MiB, or one file, to a \
         socket with congestion control {}; the receiver, on another core, drops what arrives. The time of threads that the kernel makes for the ring counts. {}. {}.",
        crossovers.collect::<String>(),
        settings.rounds,
        settings.head_len,
        settings.window_len >> 20,
        sweep.machine.congestion_control.as_deref().unwrap_or("unknown"),
        phrases::isolation_with_usual_policy(settings.isolated).replacen("with", "With", 1),
        sweep.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::LabRecord;
    use crate::records::machine::MachineInfo;
    use crate::records::sweep::SweepSettings;

    #[test]
    fn rows_compare_with_sends_from_memory() {
        let text = report(&sweep()).markdown();
        assert!(text.contains("| 64 KiB | 100.0 | – | ×0.50 (0.50–0.50) | – | – |"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("sendfile takes less CPU time than a send from memory from 64 KiB on"),
            "{words}"
        );
    }

    #[test]
    fn record_survives_serialization() {
        let record = LabRecord::Sweep(sweep());
        let read: LabRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    fn sweep() -> SweepRecord {
        SweepRecord {
            command: "tarpon-lab sweep".into(),
            machine: MachineInfo::example(),
            settings: SweepSettings {
                rounds: 1,
                head_len: 200,
                window_len: 32 << 20,
                sender_core: 0,
                receiver_core: 1,
                isolated: true,
            },
            series: vec![SweepSeries::example(&[(1 << 10, 1.5), (64 << 10, 0.5)])],
        }
    }
}
