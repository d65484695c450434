//! Drives the supervisor through seeded worlds: processes exit at any step, starts fail, descriptors run out, messages arrive late or as
//! garbage, orders arrive in floods. After each step the invariants hold; each world ends quiet, serves, and stops in time.
//!
//! ```text
//! seed ─▶ World: processes, versions, callers ─┬─ events ──▶ Supervisor
//!                                              └─ perform ◀─ actions
//! ```
//!
//! | file | what |
//! |---|---|
//! | `world` | the kernel and the processes, as far as the supervisor sees them |
//! | `script` | what happens to a world, from its seed |
//! | `pool` | a server process that is a worker pool, in the same world |

mod pool;
mod script;
mod world;

use crate::control::process::random::variable;
use script::run;
use std::{
    panic::catch_unwind,
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, available_parallelism},
};
use world::WorldHistory;

/// How often something has happened in a world.
type Times = fn(&WorldHistory) -> u64;

/// Worlds in one run of the tests: they take half a minute of CPU. `TARPON_SEEDS_FACTOR` multiplies twice as many.
const SEED_COUNT: u64 = 5_000;

#[test]
fn supervisor_keeps_its_promises_in_every_world() {
    if let Some(seed) = variable("SEED") {
        eprintln!("{:?}", run(seed, true));
        return;
    }
    let count = SEED_COUNT * variable("TARPON_SEEDS_FACTOR").map_or(1, |factor| 2 * factor);
    let next = AtomicU64::new(0);
    let worlds = || {
        let mut histories = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return histories;
            }
            let Ok(history) = catch_unwind(|| run(seed, false)) else {
                let test = "supervisor_keeps_its_promises";
                panic!("replay it with: SEED={seed} cargo test --lib {test} -- --nocapture");
            };
            histories.push(history);
        }
    };
    let histories: Vec<WorldHistory> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(worlds)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("every world passes")).collect()
    });
    // Worlds in which nothing happens would show nothing.
    #[rustfmt::skip]
    let shares: [(&str, Times, u64); 16] = [
        // what happens                                     in at least this share of the worlds, in thousandths
        ("the service starts",                  |history| history.served, 450),
        ("the configuration is reloaded",       |history| history.reloaded, 500),
        ("the program takes over",              |history| history.upgraded, 100),
        ("a successor takes over",              |history| history.handed_over, 150),
        ("an order fails",                      |history| history.order_failed, 450),
        ("an order is refused",                 |history| history.order_refused, 350),
        ("a process cannot be started",         |history| history.start_failed, 180),
        ("a process is replaced",               |history| history.restarted, 500),
        ("a site has too many large files",     |history| history.too_large, 100),
        ("a draining server fails",             |history| history.overdue, 200),
        ("as many servers drain as may",        |history| u64::from(history.most_draining >= 8), 2),
        ("a worker pool serves",                |history| history.pool_served, 80),
        ("a supervisor dies before its pool",   |history| history.pool_orphaned, 8),
        ("a server has no room for a site",     |history| history.site_lost, 100),
        ("certificates change",                 |history| history.renewed, 10),
        ("the service stops",                   |history| history.stopped, 350),
    ];
    for (what, times, thousandths) in shares {
        let worlds = histories.iter().filter(|history| times(history) > 0).count() as u64;
        println!("{what}: {worlds} of {count} worlds");
        assert!(worlds * 1_000 >= thousandths * count, "{what}: only {worlds} of {count} worlds");
    }
}
