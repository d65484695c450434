//! Reports: a record as tables with a caption, for the terminal or a Markdown document.
//!
//! ```text
//! LabRecord ─▶ report ─▶ LabReport ─┬▶ plain text
//!                                   └▶ Markdown ─▶ between two marks of a document
//! ```
//!
//! | file | content |
//! |---|---|
//! | `race.rs`, `cold.rs`, `start.rs`, `tls.rs`, `stalled.rs`, `attacks.rs`, `loads.rs`, `pack.rs` | the report of each experiment |
//! | `proxy.rs`, `tunnels.rs`, `ladder.rs` | the same for the experiments with an upstream |
//! | `http2.rs`, `streams.rs` | the same for HTTP/2 |
//! | `ktls.rs`, `sweep.rs` | the same for kernel TLS, and for ways to send a file |
//! | `disk.rs` | the same for random reads from a disk |
//! | `table.rs` | tables and captions as text |
//! | `phrases.rs` | sentences that several captions share |
//! | `stories.rs` | the same for the loads of published stories |
//! | `plot.rs` | plots as SVG |
//! | `page.rs` | the command `page`: all result files as one page |
//! | `figures.rs` | the command `figures`: the few numbers of the README |
//! | `document.rs` | the command `report`: prints a report, or updates a document |
//!
//! A report contains only numbers of its record.

pub(crate) mod document;
pub(crate) mod figures;
pub(crate) mod page;

mod attacks;
mod cold;
mod disk;
mod http2;
mod ktls;
mod ladder;
mod loads;
mod pack;
mod phrases;
mod plot;
mod proxy;
mod race;
mod stalled;
mod start;
mod stories;
mod streams;
mod sweep;
mod table;
mod tls;
mod tunnels;

use self::table::LabReport;
use crate::records::LabRecord;

/// Returns the report of a record.
pub(crate) fn report(record: &LabRecord) -> LabReport {
    match record {
        LabRecord::Race(race) => race::report(race),
        LabRecord::Cold(cold) => cold::report(cold),
        LabRecord::Start(start) => start::report(start),
        LabRecord::Pack(pack) => pack::report(pack),
        LabRecord::Tls(tls) => tls::report(tls),
        LabRecord::TlsStorm(storm) => tls::storm_report(storm),
        LabRecord::Stalled(stalled) => stalled::report(stalled),
        LabRecord::Attacks(attacks) => attacks::report(attacks),
        LabRecord::Loads(loads) => loads::report(loads),
        LabRecord::Proxy(proxy) => proxy::report(proxy),
        LabRecord::Tunnels(tunnels) => tunnels::report(tunnels),
        LabRecord::Ladder(ladder) => ladder::report(ladder),
        LabRecord::Http2(http2) => http2::report(http2),
        LabRecord::Streams(streams) => streams::report(streams),
        LabRecord::KernelTls(ktls) => ktls::report(ktls),
        LabRecord::Sweep(sweep) => sweep::report(sweep),
        LabRecord::Stories(stories) => stories::report(stories),
        LabRecord::Disk(disk) => disk::report(disk),
    }
}
