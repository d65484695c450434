//! Random lives of a pool: from its start through faults and changes of sites to its end.
//!
//! `SEED=17 cargo test --lib worker_pool_survives` replays one.

use super::{SimPool, SimPoolConfig};
use crate::{
    base::log_config::LogOwner,
    control::process::{
        ProcessExit,
        message::{FromServer, ToServer},
        random::{SimRandom, variable},
    },
    data::worker::mailbox::ShutdownMode,
    site::transfer::SiteTransfer,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};
use tarpon_conn::Tick;

/// Lives in one run of the tests: they take half a minute of CPU. `TARPON_SEEDS_FACTOR` multiplies twice as many.
const SEED_COUNT: u64 = 1_500;

#[test]
fn worker_pool_survives_faults() {
    if let Some(seed) = variable("SEED") {
        live(seed);
        return;
    }
    let mut seen = BTreeSet::new();
    for seed in 0..SEED_COUNT * variable("TARPON_SEEDS_FACTOR").map_or(1, |factor| 2 * factor) {
        let _replay = Replay(seed);
        seen.extend(live(seed));
    }
    // A world in which less happens would prove less.
    assert_eq!(seen.len(), SITUATION_COUNT, "{seen:?}");
}

/// The situations that `SimPool` distinguishes.
const SITUATION_COUNT: usize = 21;

/// What the supervisor does.
#[derive(Clone, Debug)]
enum Step {
    Send(ToServer),
    /// The supervisor exits.
    Exit,
    /// The master is killed.
    Kill,
    /// The faults stop. The pool must serve within the longest back-off.
    Calm,
    CheckService,
}

/// Lets a pool live. Returns what happened.
fn live(seed: u64) -> BTreeSet<&'static str> {
    let mut random = SimRandom::new(seed);
    let config = SimPoolConfig::random(&mut random);
    let mut pool = SimPool::new(Tick(0), random.fork(), config);
    let mut steps = steps(&mut random, config);
    let (mut serving_count, mut is_killed) = (0, false);
    loop {
        let messages = pool.take_messages();
        serving_count +=
            messages.iter().filter(|message| matches!(message, FromServer::Serving { .. })).count();
        let next = steps.first_key_value().map(|(&(at, _), _)| at);
        let Some(now) = next.into_iter().chain(pool.deadline()).min() else { break };
        if pool.exit().is_some() {
            break;
        }
        if next != Some(now) {
            pool.wake(now);
            continue;
        }
        match steps.pop_first().expect("a step").1 {
            Step::Send(message) => pool.receive(now, message),
            Step::Exit => pool.supervisor_gone(now),
            Step::Kill => {
                pool.kill();
                is_killed = true;
            }
            Step::Calm => pool.calm(),
            Step::CheckService => pool.check_recovered(now),
        }
    }
    let is_expected = |exit| matches!(exit, ProcessExit::Status(_)) != is_killed;
    assert!(pool.exit().is_some_and(is_expected), "the pool exits: {:?}", pool.exit());
    assert!(serving_count <= 1);
    assert!(pool.deadline().is_none());
    pool.seen
}

/// Returns what the supervisor does in a life, by time.
fn steps(random: &mut SimRandom, config: SimPoolConfig) -> BTreeMap<(Tick, usize), Step> {
    let mut steps = BTreeMap::new();
    let mut add = |at: u64, step: Step| {
        let number = steps.len();
        steps.insert((Tick(at), number), step);
    };
    let log = |of| Step::Send(ToServer::Log { of });
    let site = |number: usize, version: u64, is_earlier| {
        let transfer = SiteTransfer::simulated(version);
        Step::Send(ToServer::Site { site: number, transfer, is_earlier, loads: 1 })
    };
    if config.pool.has_log {
        add(random.within(0..10), log(LogOwner::Server));
        add(random.within(0..30_000), log(LogOwner::Server));
        add(random.within(0..30_000), log(LogOwner::Site(0)));
    }
    let mut version = 0;
    for number in 0..config.pool.site_count {
        let at = random.within(0..1_000);
        for is_earlier in [true, true, false] {
            version += 1;
            add(at, site(number, version, is_earlier));
        }
        for _ in 0..random.within(0..5) {
            version += 1;
            add(random.within(at..30_000), site(number, version, random.percent(10)));
        }
    }
    if random.percent(30) {
        let at = random.within(0..20_000);
        add(at, Step::Calm);
        add(at + 11_000, Step::CheckService);
    }
    let end = if random.percent(20) { random.within(0..2_000) } else { random.within(10_000..40_000) };
    for _ in 0..random.within(1..4) {
        let grace = Duration::from_millis([0, 1_000, 8_000][random.within(0..3) as usize]);
        let mode = if random.percent(50) { ShutdownMode::Stop } else { ShutdownMode::Drain };
        add(end + random.within(0..3_000), Step::Send(ToServer::Shutdown { mode, grace }));
    }
    match random.within(0..20) {
        0 | 1 => add(random.within(0..end + 3_000), Step::Exit),
        2 => add(random.within(0..end), Step::Kill),
        _ => {}
    }
    steps
}

/// Prints how to replay a life that fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("replay: SEED={} cargo test --lib worker_pool_survives", self.0);
        }
    }
}
