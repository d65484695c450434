//! The report of packing: for each site a table of sizes per coding, and times.

use super::table::{LabReport, NONE, ReportColumn, ReportTable};
use crate::format::{mib, thousands};
use crate::records::pack::{PackRecord, PackedSiteRecord};

/// Returns the report.
pub(super) fn report(pack: &PackRecord) -> LabReport {
    let tables = pack.sites.iter().map(|site| {
        let heading =
            format!("{}: {} files, {} MiB", site.name, thousands(site.files), mib(site.bytes as f64));
        (Some(heading), ReportTable { columns: COLUMNS, rows: rows(site), plot: None })
    });
    LabReport { tables: tables.collect(), caption: caption(pack), command: pack.command.clone() }
}

const COLUMNS: &[ReportColumn] = &[
    ("coding", Some("coding")),
    ("files", Some("files")),
    ("original", Some("original, bytes")),
    ("tarpon", Some("tarpon, bytes")),
    ("reference", Some("reference, bytes")),
    ("ratio", Some("tarpon / reference")),
    ("tarpon s", Some("tarpon, s")),
    ("reference s", Some("reference, s")),
];

fn rows(site: &PackedSiteRecord) -> Vec<Vec<String>> {
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    let bytes = |bytes: u64| thousands(bytes as usize);
    let row =
        |name: &str, files, original, [tarpon, reference, ratio, tarpon_s, reference_s]: [String; 5]| {
            let (files, original) = (thousands(files), bytes(original));
            vec![name.to_owned(), files, original, tarpon, reference, ratio, tarpon_s, reference_s]
        };
    let codings = site.codings.iter().map(|coding| {
        let ratio = format!("{:.2}%", coding.tarpon as f64 / coding.reference as f64 * 100.0);
        let time = seconds(coding.reference_ns);
        let cells = [bytes(coding.tarpon), bytes(coding.reference), ratio, NONE.into(), time];
        row(coding.coding.name(), coding.files, coding.original, cells)
    });
    let reference_ns = site.codings.iter().map(|coding| coding.reference_ns).sum();
    let times = (seconds(site.elapsed_ns), seconds(reference_ns));
    let total = [bytes(site.packed), NONE.into(), NONE.into(), times.0, times.1];
    codings.chain([row("all, in one archive", site.files, site.bytes, total)]).collect()
}

fn caption(pack: &PackRecord) -> String {
    format!(
        "{} with `--effort {}`, compared with {}. The reference encoders run once per file, on all cores, for the files that the packed \
         site offers in that coding. Sizes are those of contents, as tarpon sends them from the packed site. One run. {}.",
        pack.tarpon,
        pack.effort.name(),
        pack.encoders.join(", "),
        pack.machine,
    )
}
