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
//! | `random` | the seeded generator |

mod random;
mod script;
mod world;

use script::run;

/// Worlds in one run of the tests. `TARPON_SEED_FACTOR` multiplies them.
const SEED_COUNT: u64 = 10_000;

#[test]
fn supervisor_keeps_its_promises_in_every_world() {
    if let Some(seed) = number("SEED") {
        return run(seed, true);
    }
    let count = SEED_COUNT * number("TARPON_SEED_FACTOR").unwrap_or(1);
    // Each thread takes every n-th seed.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || {
                for seed in (first..count).step_by(threads as usize) {
                    let result = std::panic::catch_unwind(|| run(seed, false));
                    assert!(
                        result.is_ok(),
                        "seed {seed} fails; replay it with\n    SEED={seed} cargo test --lib \
                         supervisor_keeps_its_promises -- --nocapture"
                    );
                }
            });
        }
    });
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
