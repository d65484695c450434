//! Runs the protocol cases while the server injects faults by seed: short reads and writes, and errors. Every response is byte-exact.
//!
//! Each run starts the program with one engine. `TARPON_SEEDS_FACTOR` multiplies the seeds.

use super::{KeepsOpen, ProtocolCase, ShutsDown, check, fixture};
use crate::common::{
    ENGINES,
    client::TestClient,
    distinct_bytes,
    endpoint::Endpoint,
    faults::{FAULTS_VARIABLE, FaultRun, seeds},
    write_files,
};
use std::{collections::BTreeMap, net::SocketAddr, panic::catch_unwind, path::Path, thread};
use tarpon::Engine;

/// Seeds of each engine in one run of the tests.
const SEED_COUNT: u64 = 2;

/// A file that takes many calls of sendfile(2), and how often a client gets it.
const LARGE: &str = "faults/large";
const LARGE_LEN: usize = 8 << 20;
const LARGE_COUNT: usize = 6;

#[test]
fn cases_pass_on_every_engine_with_faults() {
    let site = fixture();
    write_files(site.path(), &[(LARGE, &distinct_bytes(LARGE_LEN))]);
    // Engines wait for accept back-offs most of the time.
    thread::scope(|scope| {
        let runs = |engine| {
            let site = site.path();
            move || (engine, counts_of_all_seeds(engine, site))
        };
        let engines: Vec<_> = ENGINES.iter().map(|&engine| scope.spawn(runs(engine))).collect();
        for engine in engines {
            let (engine, counts) = engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if std::env::var_os(FAULTS_VARIABLE).is_none() {
                for names in expected(engine) {
                    let count: u64 = names.split(", ").map(|name| counts[name]).sum();
                    assert!(count > 0, "{engine} saw no {names}: {counts:?}");
                }
            }
        }
    });
}

/// Runs the cases on an engine with all seeds. Returns how often each fault was injected.
fn counts_of_all_seeds(engine: Engine, site: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for seed in seeds(SEED_COUNT) {
        let Ok(counts_of_run) = catch_unwind(|| run(engine, seed, site)) else {
            let test = "cases_pass_on_every_engine_with_faults";
            panic!("{engine} fails; replay it with: {FAULTS_VARIABLE}={seed} cargo test --test all {test}");
        };
        counts_of_run.into_iter().for_each(|(name, count)| *counts.entry(name).or_insert(0) += count);
    }
    counts
}

/// Runs the cases on a server that injects the faults of a seed. Returns the counts of the faults.
fn run(engine: Engine, seed: u64, site: &Path) -> BTreeMap<String, u64> {
    let served = FaultRun::start(engine, seed, site);
    let failure = |case: &ProtocolCase| failure_on(case, engine, served.address(), seed);
    check(|case| failure(case).map(|failure| format!("{engine}: {failure}")));
    for _ in 0..LARGE_COUNT {
        // With the engine `fork`, each one may be the last of its connection: while the master pauses forking, no slot is idle.
        let response = TestClient::connect(served.address()).get(&format!("/{LARGE}"));
        assert!(response.content == distinct_bytes(LARGE_LEN), "{engine}: a large file differs");
    }
    served.counts()
}

/// The client splits its request and ends in another way with each seed.
fn failure_on(case: &ProtocolCase, engine: Engine, address: SocketAddr, seed: u64) -> Option<String> {
    let then = if seed.is_multiple_of(2) { KeepsOpen } else { ShutsDown };
    let cut = if seed.is_multiple_of(3) && case.request.len() < 300 { 1 } else { case.request.len() };
    match engine {
        Engine::Fork => case.failure_unless(is_whole_or_ends_early, &Endpoint::plain(address), cut, then),
        _ => case.failure_on(address, cut, then),
    }
}

/// Returns whether a client has received what it wanted, or the first responses, perhaps all, of which the last announces the end of the
/// connection: so a connection gives way to other clients while the master cannot start a process for them.
fn is_whole_or_ends_early(got: &[u8], want: &[u8]) -> bool {
    const CLOSE: &[u8] = b"Connection: close\r\n";
    let last = got.windows(CLOSE.len()).rposition(|window| window == CLOSE);
    let ends_early = |at: usize| {
        let unannounced = [&got[..at], &got[at + CLOSE.len()..]].concat();
        want.strip_prefix(&unannounced[..])
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"HTTP/1.1 "))
    };
    got == want || last.is_some_and(ends_early)
}

/// Faults without which a run shows nothing. Of several in one line, one is enough.
fn expected(engine: Engine) -> Vec<&'static str> {
    let common = ["sendfile short", "sendfile EAGAIN", "sendfile EINTR"];
    let calls = match engine {
        Engine::IoUring => vec![
            "ring recv short",
            "ring recv ENOBUFS",
            "ring recv EINTR",
            "ring send short",
            "ring send EINTR",
            "ring wait EINTR",
            "ring wait EAGAIN",
        ],
        _ => vec![
            "recv short",
            "recv EAGAIN",
            "send short",
            "send EAGAIN",
            "accept ECONNABORTED",
            "accept EMFILE, accept ENFILE, accept ENOBUFS, accept ENOMEM",
            "wait EINTR",
        ],
    };
    let own = match engine {
        Engine::Epoll => vec!["wait short", "probe EAGAIN"],
        // Workers of fork leave their channels to later ones, so few are made: too few to expect a failure.
        Engine::Prefork | Engine::Fork => vec!["channel recv EINTR"],
        _ => vec![],
    };
    [&common[..], &calls, &own].concat()
}
