//! Records: the result files. A record holds every number as it was measured, rejected rounds included.
//!
//! ```text
//! LabRecord ─┬─ RaceRecord ──┐
//!            ├─ ColdRecord ──┼─▶ machine, servers, rounds of windows ─▶ medians, ratios
//!            ├─ StartRecord ─┤
//!            ├─ TlsRecord ───┤
//!            ├─ StormRecord ─┤
//!            ├─ StalledRecord ┤
//!            ├─ AttacksRecord ┤
//!            ├─ LoadsRecord ─┤
//!            ├─ ProxyRaceRecord ─┤
//!            ├─ TunnelsRecord ┤
//!            ├─ Http2RaceRecord ┤
//!            ├─ StreamsRecord ┤
//!            ├─ KernelTlsRecord ┤
//!            ├─ SweepRecord ─┤
//!            ├─ StoriesRecord ┤
//!            ├─ DiskRecord ──┤
//!            ├─ LadderRecord ┘
//!            └─ PackRecord
//! ```
//!
//! | file | content |
//! |---|---|
//! | `proxy.rs`, `tunnels.rs`, `ladder.rs` | the same for the experiments with an upstream |
//! | `http2.rs`, `streams.rs` | the same for HTTP/2 |
//! | `ktls.rs`, `sweep.rs` | the same for kernel TLS, and for ways to send a file |
//! | `stories.rs` | the same for the loads of published stories |
//! | `disk.rs` | the same for random reads from a disk |
//! | `send_method.rs` | the ways to send a file |
//! | `race.rs`, `cold.rs`, `start.rs`, `tls.rs`, `stalled.rs`, `attacks.rs`, `loads.rs`, `pack.rs` | the record of each experiment, and the numbers derived from it |
//! | `cost.rs` | the accepted numbers of instructions per request |
//! | `server.rs` | the servers that the lab can start |
//! | `round.rs` | rounds, and the servers in them |
//! | `cpu.rs`, `two_cores.rs`, `memory.rs`, `machine.rs` | CPU times, memory and the machine, as the record stores them |
//!
//! Derived numbers are computed for each report, never stored.

pub(crate) mod attacks;
pub(crate) mod cold;
pub(crate) mod cost;
pub(crate) mod cpu;
pub(crate) mod disk;
pub(crate) mod http2;
pub(crate) mod ktls;
pub(crate) mod ladder;
pub(crate) mod loads;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod pack;
pub(crate) mod proxy;
pub(crate) mod race;
pub(crate) mod round;
pub(crate) mod send_method;
pub(crate) mod server;
pub(crate) mod stalled;
pub(crate) mod start;
pub(crate) mod stories;
pub(crate) mod streams;
pub(crate) mod sweep;
pub(crate) mod tls;
pub(crate) mod tunnels;
pub(crate) mod two_cores;

use serde::{Deserialize, Serialize};

use self::attacks::AttacksRecord;
use self::cold::ColdRecord;
use self::disk::DiskRecord;
use self::http2::Http2RaceRecord;
use self::ktls::KernelTlsRecord;
use self::ladder::LadderRecord;
use self::loads::LoadsRecord;
use self::pack::PackRecord;
use self::proxy::ProxyRaceRecord;
use self::race::RaceRecord;
use self::stalled::StalledRecord;
use self::start::StartRecord;
use self::stories::StoriesRecord;
use self::streams::StreamsRecord;
use self::sweep::SweepRecord;
use self::tls::{StormRecord, TlsRecord};
use self::tunnels::TunnelsRecord;

/// The content of a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "measurement", rename_all = "kebab-case")]
pub(crate) enum LabRecord {
    Race(RaceRecord),
    Cold(ColdRecord),
    Start(StartRecord),
    Pack(PackRecord),
    Tls(TlsRecord),
    TlsStorm(StormRecord),
    Stalled(StalledRecord),
    Attacks(AttacksRecord),
    Loads(LoadsRecord),
    Proxy(ProxyRaceRecord),
    Tunnels(TunnelsRecord),
    Ladder(LadderRecord),
    Http2(Http2RaceRecord),
    Streams(StreamsRecord),
    KernelTls(KernelTlsRecord),
    Sweep(SweepRecord),
    Stories(StoriesRecord),
    Disk(DiskRecord),
}
