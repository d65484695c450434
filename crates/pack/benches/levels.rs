//! Measures the cost and savings of each encoder level on a site, for the tables of `docs/packing.md`.
//!
//! `cargo bench -p tarpon-pack --bench levels -- DIR [NAME...]` measures all levels, or the named ones, such as `brotli-10`. Under
//! `cargo test` the bench runs once on a small content, as a check.

#![allow(clippy::disallowed_methods, reason = "a measurement prints the names of its own directory")]

use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, thread};
use tarpon_pack::{CompressionEffort, Encoder, compress};

/// The encoders of all efforts for contents up to 8 MiB, and the levels around them.
const ENCODERS: [Encoder; 22] = [
    Encoder::Brotli(5),
    Encoder::Brotli(9),
    Encoder::Brotli(10),
    Encoder::Brotli(11),
    Encoder::Libdeflate(6),
    Encoder::Libdeflate(8),
    Encoder::Libdeflate(9),
    Encoder::Libdeflate(10),
    Encoder::Libdeflate(11),
    Encoder::Libdeflate(12),
    Encoder::Zopfli(1),
    Encoder::Zopfli(5),
    Encoder::Zopfli(15),
    Encoder::Zstd(9),
    Encoder::Zstd(12),
    Encoder::Zstd(15),
    Encoder::Zstd(16),
    Encoder::Zstd(17),
    Encoder::Zstd(18),
    Encoder::Zstd(19),
    Encoder::Zstd(20),
    Encoder::Zstd(22),
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_measured = env::args().any(|argument| argument == "--bench");
    let contents = match arguments.first() {
        Some(dir) if is_measured => contents(Path::new(dir)),
        _ if is_measured => panic!("name a directory: cargo bench -p tarpon-pack --bench levels -- DIR"),
        _ => vec![b"The quick brown fox jumps over the lazy dog.".repeat(100)],
    };
    let plain: usize = contents.iter().map(Vec::len).sum();
    println!("{} contents, {plain} bytes\n", contents.len());
    let wanted = |encoder: &Encoder| arguments.len() < 2 || arguments[1..].contains(&short_name(*encoder));
    println!("| coding | encoder | level | effort | bytes | more than the highest level | CPU s |");
    println!("|---|---|--:|---|--:|--:|--:|");
    let measured: Vec<_> =
        ENCODERS.into_iter().filter(wanted).map(|encoder| (encoder, measure(encoder, &contents))).collect();
    for (encoder, (bytes, took)) in &measured {
        let highest = measured.iter().rev().find(|(other, _)| coding(*other) == coding(*encoder));
        let least = highest.map_or(*bytes, |(_, (bytes, _))| *bytes);
        let (name, level) = name(*encoder);
        println!(
            "| {} | {name} | {level} | {} | {bytes} | {:+.1} % | {:.1} |",
            coding(*encoder),
            effort(*encoder),
            (*bytes as f64 / least as f64 - 1.0) * 100.0,
            took.as_secs_f64(),
        );
        assert!(*bytes > 0 && *bytes < plain / 2, "{encoder}");
    }
}

/// Compresses all contents on all cores. Returns the compressed bytes, and the CPU time of all threads.
fn measure(encoder: Encoder, contents: &[Vec<u8>]) -> (usize, Duration) {
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut bytes, began) = (0, cpu_time());
        while let Some(content) = contents.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += compress(encoder, content).expect("memory").len();
        }
        (bytes, cpu_time() - began)
    };
    let worker_count = thread::available_parallelism().map_or(1, usize::from);
    let done = thread::scope(|scope| {
        let workers: Vec<_> = (0..worker_count).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect::<Vec<_>>()
    });
    let sum = |(bytes, took): (usize, Duration), &(more, longer): &_| (bytes + more, took + longer);
    done.iter().fold((0, Duration::ZERO), sum)
}

/// Returns the distinct contents below a directory that are worth compressing, the longest first. Follows links.
fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let (mut dirs, mut found) = (vec![PathBuf::from(dir)], BTreeSet::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let content = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let coded = compress(Encoder::Zstd(3), &content).expect("memory");
            if coded.len() + (content.len() / 16).max(48) <= content.len() {
                found.insert(content);
            }
        }
    }
    let mut contents: Vec<_> = found.into_iter().collect();
    contents.sort_by_key(|content| std::cmp::Reverse(content.len()));
    contents
}

fn coding(encoder: Encoder) -> &'static str {
    match encoder {
        Encoder::Brotli(_) => "br",
        Encoder::Libdeflate(_) | Encoder::Zopfli(_) => "gzip",
        Encoder::Zstd(_) => "zstd",
    }
}

fn name(encoder: Encoder) -> (&'static str, u8) {
    match encoder {
        Encoder::Brotli(level) => ("brotli", level),
        Encoder::Libdeflate(level) => ("libdeflate", level),
        Encoder::Zopfli(rounds) => ("zopfli", rounds),
        Encoder::Zstd(level) => ("zstd", level),
    }
}

fn short_name(encoder: Encoder) -> String {
    let (name, level) = name(encoder);
    format!("{name}-{level}")
}

fn effort(encoder: Encoder) -> &'static str {
    let used = |effort: CompressionEffort| effort.encoders().contains(&encoder);
    let efforts = [
        (CompressionEffort::Fast, "fast"),
        (CompressionEffort::Balanced, "**balanced**"),
        (CompressionEffort::Best, "best"),
    ];
    efforts.into_iter().find(|(effort, _)| used(*effort)).map_or("", |(_, name)| name)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
