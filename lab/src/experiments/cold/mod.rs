//! Cold reads: response times of a page in memory, while other clients wait for a slow disk.
//!
//! ```text
//! server ◀─ open-loop client: a small hot page, at fixed times      first alone,
//!        ◀─ downloads: large files, not in memory, slow disk        then together with these
//! ```
//!
//! | file | content |
//! |---|---|
//! | `files.rs` | creates the cold files, and drops them from the page cache |
//! | `downloads.rs` | clients that download cold files |

mod downloads;
mod files;

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::set_current_timer_slack;

use self::downloads::ColdDownloads;
use super::options::{
    CommonArgs, CoreArgs, IsolationArgs, SiteDirArgs, command_line, file_name, parse_seconds, with_isolation,
};
use super::output::RecordFile;
use super::rounds::{RoundPlan, WARM_UP_TIME, expect_clean, pin_to_core};
use crate::client::ClientError;
use crate::client::open_loop::OpenLoopClient;
use crate::error::LabError;
use crate::generated_site;
use crate::measure::cpu::{self, CpuMeter, ServerThreads};
use crate::measure::disk_throttle::{DiskThrottle, read_from_disk};
use crate::measure::machine::this_machine;
use crate::records::LabRecord;
use crate::records::cold::{ColdRecord, ColdSettings, ColdWindow, Latencies};
use crate::records::cpu::OTHER_SHARE_MAX;
use crate::records::server::{PeerServer, names};
use crate::servers::test_bed::TestBed;
use crate::stats::quantile;

/// Options of `tarpon-lab cold`.
#[derive(Args)]
pub(crate) struct ColdArgs {
    /// Run this many clean rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time each of the two parts of a window for this long
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Request the hot page this many times per second, on all connections together
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Request the hot page on this many connections
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    hot_connections: u32,
    /// Download cold files on this many connections
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    cold_connections: u32,
    /// Give the hot page this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    hot_size: usize,
    /// Give each cold file this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(128 << 10..))]
    cold_size: u64,
    /// Limit the disk reads of a server to this many bytes per second
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    disk_rate: u64,
    /// Measure these servers
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = SERVERS)]
    servers: Vec<PeerServer>,
    #[command(flatten)]
    site: SiteDirArgs,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Measures cold reads, prints the report and writes the record. Fails if too few rounds were clean.
pub(crate) fn run(args: &ColdArgs) -> Result<(), LabError> {
    args.isolation.enter()?;
    let output = RecordFile::open(args.common.out.as_deref())?;
    let cold = measure(args)?;
    let clean = expect_clean("", &cold.rounds, args.rounds);
    output.finish(&LabRecord::Cold(cold))?;
    Ok(clean?)
}

fn measure(args: &ColdArgs) -> Result<ColdRecord, LabError> {
    let machine = this_machine();
    let dir = args.site.dir();
    // Fails early: most hosts allow the throttle only to root.
    drop(DiskThrottle::new(&dir, args.disk_rate)?);
    let core = pin_to_core(&args.core)?;
    // The default timer slack delays scheduled requests by up to 50 µs. Threads inherit the setting.
    set_current_timer_slack(NonZeroU64::new(1))?;

    let page = (PAGE, generated_site::lines(args.hot_size));
    let bed = TestBed::new(&dir, page, args.common.tarpon.as_deref(), None)?;
    let cold_count = args.cold_count();
    files::write(&bed.site(), args.cold_size, cold_count)?;
    let servers = bed.prepare(args.servers.clone())?;
    let settings = ColdSettings {
        rounds: args.rounds,
        seconds: args.seconds,
        rate: args.rate,
        hot_connections: args.hot_connections,
        cold_connections: args.cold_connections,
        hot_size: args.hot_size,
        cold_size: args.cold_size,
        disk_rate: args.disk_rate,
        core,
        isolated: !args.isolation.no_isolation,
        other_share_max: OTHER_SHARE_MAX,
    };
    let plan = RoundPlan {
        label: String::new(),
        servers: &servers,
        core,
        idle_wait: Duration::from_secs(args.core.idle_wait.into()),
        clean: args.rounds,
    };
    let rounds = plan.run(
        |server| measure_window(&bed, &settings, server, cold_count),
        |window| {
            let share = window.alone.cpu.other_share().max(window.with_cold_reads.cpu.other_share());
            (share > OTHER_SHARE_MAX).then_some(share)
        },
    )?;
    Ok(ColdRecord { command: args.command(), machine, settings, servers, rounds })
}

/// Starts, measures and stops one server.
fn measure_window(
    bed: &TestBed,
    settings: &ColdSettings,
    server: PeerServer,
    cold_count: usize,
) -> Result<ColdWindow, LabError> {
    let throttle = DiskThrottle::new(&bed.site(), settings.disk_rate)?;
    let process = bed.start(server)?;
    let (address, processes, threads) = (process.address(), process.processes()?, process.threads()?);
    threads.expect_pinned_to(settings.core)?;
    for process in &processes {
        throttle.add(*process)?;
    }
    let mut hot = OpenLoopClient::connect(address, &bed.path(), settings.hot_connections, settings.rate)?;
    hot.run(WARM_UP_TIME)?;
    let time = Duration::from_secs_f64(settings.seconds);
    let alone = measure_latencies(settings.core, &threads, || hot.run(time))?;

    files::drop_from_page_cache(bed, server.site_form(), settings.cold_size, cold_count)?;
    let disk_bytes = || processes.iter().map(|process| read_from_disk(*process)).sum::<Result<u64, _>>();
    let downloads = ColdDownloads::new(address, settings.cold_size, cold_count, time);
    let disk_bytes_before = disk_bytes()?;
    let (with_cold_reads, error) = thread::scope(|scope| {
        let readers: Vec<_> =
            (0..settings.cold_connections).map(|_| scope.spawn(|| downloads.run())).collect();
        let latencies = measure_latencies(settings.core, &threads, || hot.run(time));
        let results = readers.into_iter().map(|reader| reader.join().expect("a reader does not panic"));
        (latencies, results.filter_map(Result::err).next())
    });
    let with_cold_reads = with_cold_reads?;
    if let Some(error) = error {
        return Err(error.into());
    }
    let disk_bytes = disk_bytes()? - disk_bytes_before;
    throttle.lift()?;
    let (cold_requests, cold_bytes) = downloads.received()?;
    let window = ColdWindow { server, alone, with_cold_reads, cold_requests, cold_bytes, disk_bytes };
    expect_cold(&window, settings)?;
    Ok(window)
}

/// Fails if the files were not cold, or if the disk was not slow.
fn expect_cold(window: &ColdWindow, settings: &ColdSettings) -> Result<(), LabError> {
    // A small part may come from memory: read-ahead, and pages at the edges of files.
    if window.disk_bytes < window.cold_bytes / 10 * 9 {
        let (read, sent) = (window.disk_bytes, window.cold_bytes);
        return Err(format!("only {read} of {sent} bytes of cold files came from the disk").into());
    }
    // The test uses received bytes, because read-ahead requests more bytes from the disk than the disk has delivered.
    let bytes_max = settings.disk_rate as f64 * (settings.seconds + BURST_SECONDS);
    if window.cold_bytes as f64 > bytes_max {
        let received = window.cold_bytes;
        return Err(format!("the disk was not throttled: clients received {received} bytes").into());
    }
    Ok(())
}

/// Runs the hot client, and measures response times and CPU times.
fn measure_latencies(
    core: usize,
    threads: &ServerThreads,
    run: impl FnOnce() -> Result<Vec<u64>, ClientError>,
) -> Result<Latencies, LabError> {
    let meter = CpuMeter::start(core, threads, cpu::process_time)?;
    let start = Instant::now();
    let mut times = run()?;
    let cpu = meter.finish(start.elapsed(), || Ok(threads.time()?))?;
    times.sort_unstable();
    Ok(Latencies {
        requests: times.len(),
        p50_ns: quantile(&times, 0.5),
        p99_ns: quantile(&times, 0.99),
        max_ns: quantile(&times, 1.0),
        cpu,
    })
}

impl ColdArgs {
    /// Returns the number of cold files: twice what the disk can deliver in one window, so that no server runs out of files.
    fn cold_count(&self) -> usize {
        let bytes = self.disk_rate as f64 * (self.seconds + BURST_SECONDS);
        let delivered = (bytes / self.cold_size as f64).ceil() as usize;
        2 * (delivered + self.cold_connections as usize)
    }

    /// Returns the command that repeats the experiment on any machine.
    fn command(&self) -> String {
        let command = command_line(
            "cold",
            &[
                ("rounds", self.rounds.to_string()),
                ("seconds", self.seconds.to_string()),
                ("rate", self.rate.to_string()),
                ("hot-connections", self.hot_connections.to_string()),
                ("cold-connections", self.cold_connections.to_string()),
                ("hot-size", self.hot_size.to_string()),
                ("cold-size", self.cold_size.to_string()),
                ("disk-rate", self.disk_rate.to_string()),
                ("servers", names(&self.servers)),
                ("tarpon", file_name(self.common.tarpon.as_deref())),
                ("core", self.core.core.map_or_else(String::new, |core| core.to_string())),
            ],
        );
        with_isolation(command, &self.isolation)
    }
}

const SERVERS: [PeerServer; 6] = [
    PeerServer::TarponUring,
    PeerServer::TarponEpoll,
    PeerServer::TarponUringPacked,
    PeerServer::TarponEpollPacked,
    PeerServer::Nginx,
    PeerServer::NginxThreads,
];

/// The hot page.
const PAGE: &str = "page.html";

/// A throttled disk that was idle may deliver the bytes of this time at once.
const BURST_SECONDS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::cpu::CpuTimes;

    #[test]
    fn window_is_valid_only_if_files_came_from_a_slow_disk() {
        const MIB: u64 = 1 << 20;
        #[rustfmt::skip]
        let cases = [
            // case                     received   from disk   valid
            ("all from disk",           12 * MIB,  12 * MIB,   true),
            ("much read ahead",         12 * MIB,  30 * MIB,   true),
            ("edges from memory",       12 * MIB,  11 * MIB,   true),
            ("from memory",             12 * MIB,   2 * MIB,   false),
            ("disk at full speed",      40 * MIB,  40 * MIB,   false),
        ];
        let settings = ColdSettings::example();
        let latencies = Latencies { requests: 1, p50_ns: 1, p99_ns: 1, max_ns: 1, cpu: CpuTimes::default() };
        for (name, cold_bytes, disk_bytes, want) in cases {
            let window = ColdWindow {
                server: PeerServer::Nginx,
                alone: latencies,
                with_cold_reads: latencies,
                cold_requests: 11,
                cold_bytes,
                disk_bytes,
            };
            assert_eq!(expect_cold(&window, &settings).is_ok(), want, "{name}");
        }
    }
}
