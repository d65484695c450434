//! The report of random reads from a disk.

use super::table::{LabReport, ReportColumn, median, min_max};
use crate::format::{factor, mib, percent, rate};
use crate::records::disk::{DiskRecord, DiskWindow};

/// Returns the report.
pub(super) fn report(disk: &DiskRecord) -> LabReport {
    let row = |depth: &u32| {
        let spread = |number: fn(&DiskWindow) -> Option<f64>| disk.spread(*depth, number);
        let rates = spread(|window| Some(window.rate));
        vec![
            depth.to_string(),
            median(rates, rate),
            median(disk.gain(*depth), factor),
            median(spread(|window| Some(window.p50_ns as f64)), us),
            median(spread(|window| Some(window.p99_ns as f64)), us),
            median(spread(|window| Some(window.cpu_share)), percent),
            median(spread(|window| window.disk_share), percent),
            min_max(rates, rate),
        ]
    };
    let rows = disk.depths.iter().map(row).collect();
    LabReport::single(COLUMNS, rows, caption(disk), &disk.command)
}

const COLUMNS: &[ReportColumn] = &[
    ("at once", Some("reads at once")),
    ("reads/s", Some("reads/s")),
    ("of first", Some("of the first row")),
    ("p50 µs", Some("p50, µs")),
    ("p99 µs", Some("p99, µs")),
    ("CPU", Some("CPU of the reader")),
    ("busy", Some("disk busy")),
    ("range", Some("range of reads/s")),
];

/// Formats nanoseconds as microseconds.
fn us(ns: f64) -> String {
    format!("{:.0}", ns / 1e3)
}

fn caption(disk: &DiskRecord) -> String {
    format!(
        "Random reads of 4 KiB from a file of {} MiB, past the page cache (O_DIRECT), by {} with io_uring. Medians of {} rounds, {} s per window. In a \
         virtual machine the disk is a service of the host, which may cache, delay and limit reads. {}.",
        mib(disk.file_len as f64),
        disk.program,
        disk.rounds.len(),
        disk.seconds,
        disk.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::machine::MachineInfo;

    #[test]
    fn each_length_of_the_queue_is_compared_with_the_first() {
        let window = |depth, rate, disk_share| DiskWindow {
            depth,
            rate,
            p50_ns: 100_000,
            p99_ns: 1_500_000,
            cpu_share: 0.25,
            disk_share,
        };
        let round = |first, second| vec![window(1, first, Some(0.5)), window(16, second, None)];
        let disk = DiskRecord {
            command: "tarpon-lab disk".into(),
            machine: MachineInfo::example(),
            program: "fio-1".into(),
            file_len: 256 << 20,
            seconds: 2,
            depths: vec![1, 16],
            rounds: vec![round(8_000.0, 40_000.0), round(4_000.0, 16_000.0), round(9_000.0, 27_000.0)],
        };
        let text = report(&disk).markdown();
        assert!(text.contains("| 1 | 8.0k | ×1.000 | 100 | 1500 | 25% | 50% | 4.0k–9.0k |"), "{text}");
        assert!(text.contains("| 16 | 27k | ×4.000 | 100 | 1500 | 25% | – | 16k–40k |"), "{text}");
        assert!(text.contains("a file of 256 MiB"), "{text}");
    }
}
