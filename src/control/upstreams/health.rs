//! The health of an upstream server: whether it gets requests, by checks and by the failures of requests.
//!
//! ```text
//!          `fall` bad checks in a row                        `max_fails` failures within `fail_time`
//! Usable ──────────────────────────▶ Down           Usable ──────────────────────────────────────▶ Suspended
//!        ◀──────────────────────────                       ◀──────────────────────────────────────
//!          `rise` good checks in a row                       `fail_time` later
//! ```
//!
//! A server that is back gets a growing part of its requests during its slow start. This machine has no clock and no socket.

use crate::{
    base::upstream_config::{HealthCheck, UpstreamConfig},
    control::process::clock::{after, between},
    data::upstreams::table::{FULL_WEIGHT, ServerAvailability},
};
use std::{collections::VecDeque, time::Duration};
use tarpon_conn::Tick;

/// The rules by which a server is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct HealthRules {
    /// Good checks in a row that bring a server back, and bad ones that take it out.
    pub(super) rise: u32,
    pub(super) fall: u32,
    /// 0: failures of requests take no server out.
    pub(super) max_fails: u32,
    pub(super) fail_time: Duration,
    pub(super) slow_start: Duration,
}

impl HealthRules {
    /// Returns the rules of an upstream. A server that is the only one is not taken out for failed requests: no other could take them.
    pub(super) fn new(config: &UpstreamConfig) -> HealthRules {
        let &UpstreamConfig { ref health, max_fails, fail_time, slow_start, ref servers, .. } = config;
        let (rise, fall) = health.as_ref().map_or((1, 1), |&HealthCheck { rise, fall, .. }| (rise, fall));
        let max_fails = if servers.len() > 1 { max_fails.min(FAIL_COUNT_MAX) } else { 0 };
        HealthRules { rise, fall, max_fails, fail_time, slow_start }
    }
}

/// The largest `max_fails`: the time of each failure is kept.
const FAIL_COUNT_MAX: u32 = 1_000;

/// The health of a server.
#[derive(Debug)]
pub(super) struct ServerHealth {
    rules: HealthRules,
    is_draining: bool,
    /// Checks have taken it out.
    is_down: bool,
    /// Checks in a row that contradict `is_down`.
    streak: u32,
    /// The last failures of requests, the oldest first: `max_fails` at most.
    failures: VecDeque<Tick>,
    suspended_until: Option<Tick>,
    /// When its slow start has begun.
    back_since: Option<Tick>,
}

/// A change that a user may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    /// It gets no requests any more, as this many checks in a row have failed.
    Down(u32),
    /// It gets no requests any more, as this many requests have failed.
    Suspended(u32),
    /// It gets requests again.
    Up,
}

impl ServerHealth {
    /// Returns the health of a server that has not been checked: it is usable, unless it was down before.
    pub(super) fn new(rules: HealthRules, is_draining: bool, was_down: bool) -> ServerHealth {
        ServerHealth {
            rules,
            is_draining,
            is_down: was_down,
            streak: 0,
            failures: VecDeque::new(),
            suspended_until: None,
            back_since: None,
        }
    }

    /// Returns whether the server gets requests.
    pub(super) fn state(&self) -> ServerAvailability {
        match (self.is_draining, self.is_down, self.suspended_until) {
            (true, ..) => ServerAvailability::Draining,
            (_, true, _) => ServerAvailability::Down,
            (_, _, Some(_)) => ServerAvailability::Suspended,
            (false, false, None) => ServerAvailability::Usable,
        }
    }

    /// Returns the weight of the server, in per mille of the configured one.
    pub(super) fn weight(&self, now: Tick) -> u64 {
        let Some(since) = self.back_since else { return FULL_WEIGHT };
        let (passed, whole) = (between(since, now).as_millis(), self.rules.slow_start.as_millis().max(1));
        u64::try_from(u128::from(FULL_WEIGHT) * passed / whole).unwrap_or(FULL_WEIGHT).clamp(1, FULL_WEIGHT)
    }

    /// Handles the result of a check.
    pub(super) fn checked(&mut self, now: Tick, is_good: bool) -> Option<HealthChange> {
        if is_good != self.is_down {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        let needed = if is_good { self.rules.rise } else { self.rules.fall };
        if self.streak < needed {
            return None;
        }
        let count = std::mem::take(&mut self.streak);
        self.is_down = !is_good;
        match is_good {
            true => self.back(now),
            false => (!self.is_draining).then_some(HealthChange::Down(count)),
        }
    }

    /// Handles failures of requests.
    pub(super) fn failed(&mut self, now: Tick, count: u64) -> Option<HealthChange> {
        let HealthRules { max_fails, fail_time, .. } = self.rules;
        if max_fails == 0 {
            return None;
        }
        for _ in 0..count.min(max_fails.into()) {
            self.failures.push_back(now);
        }
        while self.failures.len() > max_fails as usize
            || self.failures.front().is_some_and(|&at| after(at, fail_time) <= now)
        {
            self.failures.pop_front();
        }
        if self.failures.len() < max_fails as usize {
            return None;
        }
        let was_usable = self.state() == ServerAvailability::Usable;
        self.suspended_until = Some(after(now, fail_time));
        was_usable.then_some(HealthChange::Suspended(max_fails))
    }

    /// Handles the passing of time.
    pub(super) fn update(&mut self, now: Tick) -> Option<HealthChange> {
        if self.back_since.is_some_and(|since| after(since, self.rules.slow_start) <= now) {
            self.back_since = None;
        }
        self.suspended_until.take_if(|until| *until <= now)?;
        self.failures.clear();
        self.back(now)
    }

    fn back(&mut self, now: Tick) -> Option<HealthChange> {
        if self.state() != ServerAvailability::Usable {
            return None;
        }
        self.back_since = (!self.rules.slow_start.is_zero()).then_some(now);
        Some(HealthChange::Up)
    }

    /// Returns when [`update`](ServerHealth::update) is due.
    pub(super) fn deadline(&self, now: Tick) -> Option<Tick> {
        let step = self.rules.slow_start / SLOW_START_STEP_COUNT;
        let step = self.back_since.map(|_| after(now, step.max(Duration::from_millis(1))));
        [self.suspended_until, step].into_iter().flatten().min()
    }
}

/// Steps in which the weight of a server grows.
const SLOW_START_STEP_COUNT: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use HealthChange::{Down as IsDown, Suspended as IsSuspended, Up};
    use ServerAvailability::{Down, Draining, Suspended, Usable};

    #[derive(Clone, Copy, Debug)]
    enum HealthStep {
        Good,
        Bad,
        Failed(u64),
        Wait,
    }
    use HealthStep::{Bad, Failed, Good, Wait};

    fn rules() -> HealthRules {
        let second = Duration::from_secs(1);
        HealthRules { rise: 2, fall: 3, max_fails: 2, fail_time: 10 * second, slow_start: Duration::ZERO }
    }

    #[test]
    #[rustfmt::skip]
    fn checks_and_failures_change_the_state() {
        // Each step: the time in seconds, what happens, the change, and the state after it.
        type Steps = [(u64, HealthStep, Option<HealthChange>, ServerAvailability)];
        let cases: &[(&str, bool, &Steps)] = &[
            ("checks fail and recover", false, &[
                (0, Bad, None, Usable), (1, Bad, None, Usable), (2, Bad, Some(IsDown(3)), Down),
                (3, Bad, None, Down), (4, Good, None, Down), (5, Good, Some(Up), Usable),
            ]),
            ("a good check between bad ones", false, &[
                (0, Bad, None, Usable), (1, Bad, None, Usable), (2, Good, None, Usable),
                (3, Bad, None, Usable), (4, Bad, None, Usable), (5, Bad, Some(IsDown(3)), Down),
                (6, Good, None, Down), (7, Bad, None, Down), (8, Good, None, Down), (9, Good, Some(Up), Usable),
            ]),
            ("failures within the time", false, &[
                (0, Failed(1), None, Usable), (9, Failed(1), Some(IsSuspended(2)), Suspended),
                (18, Wait, None, Suspended), (19, Wait, Some(Up), Usable), (20, Failed(1), None, Usable),
            ]),
            ("failures at once", false, &[(0, Failed(100), Some(IsSuspended(2)), Suspended)]),
            ("failures too far apart", false, &[
                (0, Failed(1), None, Usable), (10, Failed(1), None, Usable), (20, Failed(1), None, Usable),
            ]),
            ("no failure", false, &[(0, Failed(0), None, Usable)]),
            ("failures while suspended", false, &[
                (0, Failed(2), Some(IsSuspended(2)), Suspended), (5, Failed(1), None, Suspended),
                (10, Wait, None, Suspended), (15, Wait, Some(Up), Usable),
            ]),
            ("down while suspended", false, &[
                (0, Failed(2), Some(IsSuspended(2)), Suspended), (1, Bad, None, Suspended), (2, Bad, None, Suspended),
                (3, Bad, Some(IsDown(3)), Down), (10, Wait, None, Down), (11, Good, None, Down), (12, Good, Some(Up), Usable),
            ]),
            ("back by checks, still suspended", false, &[
                (0, Bad, None, Usable), (0, Bad, None, Usable), (0, Bad, Some(IsDown(3)), Down), (1, Failed(2), None, Down),
                (2, Good, None, Down), (3, Good, None, Suspended), (11, Wait, Some(Up), Usable),
            ]),
            ("draining", true, &[
                (0, Failed(2), None, Draining), (1, Bad, None, Draining), (2, Bad, None, Draining),
                (3, Bad, None, Draining), (10, Wait, None, Draining), (11, Good, None, Draining), (12, Good, None, Draining),
            ]),
        ];
        for (name, is_draining, steps) in cases {
            let mut health = ServerHealth::new(rules(), *is_draining, false);
            for &(at, step, change, state) in *steps {
                let now = Tick(at * 1_000);
                let found = match step {
                    Good => health.checked(now, true),
                    Bad => health.checked(now, false),
                    Failed(count) => health.failed(now, count),
                    Wait => health.update(now),
                };
                assert_eq!((found, health.state()), (change, state), "{name}: {step:?} at {at} s");
            }
        }
    }

    #[test]
    fn failures_of_requests_take_no_server_out_without_a_limit() {
        let mut health = ServerHealth::new(HealthRules { max_fails: 0, ..rules() }, false, false);
        assert_eq!((health.failed(Tick(0), 100), health.state()), (None, Usable));
    }

    #[test]
    #[rustfmt::skip]
    fn weight_grows_during_the_slow_start() {
        let slow_start = Duration::from_secs(10);
        let mut health = ServerHealth::new(HealthRules { slow_start, ..rules() }, false, false);
        assert_eq!(health.weight(Tick(0)), FULL_WEIGHT, "at the start");
        health.failed(Tick(0), 2);
        assert_eq!(health.deadline(Tick(0)), Some(Tick(10_000)));
        assert_eq!(health.update(Tick(10_000)), Some(Up));
        let cases = [(10_000, 1), (10_100, 10), (15_000, 500), (19_999, 999), (20_000, 1_000), (90_000, 1_000)];
        for (ms, want) in cases {
            assert_eq!(health.weight(Tick(ms)), want, "{ms} ms");
        }
        assert_eq!(health.deadline(Tick(15_000)), Some(Tick(15_200)));
        assert_eq!(health.update(Tick(20_000)), None);
        assert_eq!((health.deadline(Tick(20_000)), health.weight(Tick(10_000))), (None, FULL_WEIGHT));
    }
}
