//! Chooses the server of an exchange, for one worker.
//!
//! ```text
//! usable ─┬─ none: backups ─┬─ none: suspended ─┬─ none: no server
//!         └─────────────────┴───────────────────┴─▶ in turn, the least busy, or by a hash
//! ```
//!
//! Servers take turns by smooth weighted round robin, as in nginx: each turn adds to each server its weight, takes the largest sum, and
//! subtracts all weights from it. So weights of 2 and 1 give A B A, and not A A B.

use super::{
    plan::{ServerPlan, UpstreamPlan, UpstreamPlans},
    reports,
    table::{ServerAvailability, UpstreamTable},
};
use crate::{base::upstream_config::Balance, data::services::ServiceEndpoint};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tarpon_conn::{BackendId, BackendServers, ServerEvent, ServerId, ServerReport, Tick};

/// The row of a worker in the table. A process of a prepared worker gets its row late; until then it counts in none.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamRow(Arc<AtomicUsize>);

impl Default for UpstreamRow {
    fn default() -> UpstreamRow {
        UpstreamRow(Arc::new(AtomicUsize::new(usize::MAX)))
    }
}

impl UpstreamRow {
    pub(crate) fn set(&self, number: usize) {
        self.0.store(number, Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Chooses servers for one worker, and counts in its row.
#[derive(Debug)]
pub(crate) struct Balancer {
    plans: Arc<UpstreamPlans>,
    table: Arc<UpstreamTable>,
    row: UpstreamRow,
    /// By the number of the backend: the number of its upstream.
    by_backend: Arc<[Option<u16>]>,
    /// Takes reports. `None`: they are dropped.
    reports: Option<ServiceEndpoint>,
    /// By the number of the upstream.
    turns: Vec<Turns>,
    /// Kept between choices, so that a choice allocates nothing.
    candidates: Vec<Candidate>,
}

/// The turns of the servers of an upstream.
#[derive(Clone, Debug, Default)]
struct Turns {
    /// By the place of the server. Empty before the first turn.
    sums: Vec<i64>,
}

/// A server that could take an exchange.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Its place among the servers of the upstream.
    place: usize,
    /// In per mille.
    weight: u64,
    /// Its exchanges in progress.
    busy: u64,
}

/// Turns that a worker skips at its start, at most, so that not all workers begin with the same server.
const SKIPPED_TURN_COUNT_MAX: u64 = 256;

impl Balancer {
    pub(crate) fn new(
        plans: Arc<UpstreamPlans>,
        table: Arc<UpstreamTable>,
        row: UpstreamRow,
        by_backend: Arc<[Option<u16>]>,
        reports: Option<ServiceEndpoint>,
    ) -> Balancer {
        let turns = vec![Turns::default(); plans.upstreams.len()];
        Balancer { plans, table, row, by_backend, reports, turns, candidates: Vec::new() }
    }

    /// Collects the servers of the best kind: usable, else backups, else suspended ones.
    fn collect(&self, upstream: &UpstreamPlan, tried: &[ServerId], found: &mut Vec<Candidate>) {
        found.clear();
        let kinds = [
            (ServerAvailability::Usable, Some(false)),
            (ServerAvailability::Usable, Some(true)),
            // Failures of requests alone make no server unreachable: a try is better than a certain error.
            (ServerAvailability::Suspended, None),
        ];
        for (state, is_backup) in kinds {
            let fits = |server: &ServerPlan| {
                is_backup.is_none_or(|is_backup| server.is_backup == is_backup)
                    && self.table.state(server.number.into()) == state
                    && !tried.contains(&ServerId::upstream(server.number))
            };
            let fitting = upstream.servers.iter().enumerate().filter(|(_, server)| fits(server));
            found.extend(fitting.map(|(place, server)| {
                let weight = u64::from(server.weight) * self.table.weight(server.number.into());
                Candidate { place, weight: weight.max(1), busy: 0 }
            }));
            if !found.is_empty() {
                return;
            }
        }
    }

    /// Leaves the candidates with the fewest exchanges in progress for their weight, the new one included.
    fn keep_least_busy(&self, upstream: &UpstreamPlan, candidates: &mut Vec<Candidate>) {
        for candidate in &mut *candidates {
            candidate.busy = self.table.busy(upstream.servers[candidate.place].number.into());
        }
        let least = candidates.iter().copied().reduce(|least, other| match other.is_less_busy(&least) {
            true => other,
            false => least,
        });
        candidates.retain(|candidate| least.is_none_or(|least| !least.is_less_busy(candidate)));
    }

    fn place(&mut self, number: usize, key: u64, candidates: &mut Vec<Candidate>) -> Option<usize> {
        let upstream = self.plans.upstreams.get(number)?;
        if let [only] = **candidates {
            return Some(only.place);
        }
        match upstream.balance {
            Balance::HashClient | Balance::HashPath => {
                return Some(highest_score(upstream, candidates, key)?.place);
            }
            Balance::RoundRobin => {}
            Balance::LeastConnections => self.keep_least_busy(upstream, candidates),
        }
        let Balancer { plans, table, turns, .. } = self;
        turns[number].next(plans.upstreams[number].servers.len(), || table.next_turn(number), candidates)
    }
}

impl Candidate {
    /// Compares the exchanges in progress for the weight, as fractions.
    fn is_less_busy(&self, other: &Candidate) -> bool {
        let cross = |one: &Candidate, other: &Candidate| u128::from(one.busy + 1) * u128::from(other.weight);
        cross(self, other) < cross(other, self)
    }
}

impl BackendServers for Balancer {
    fn choose(
        &mut self,
        BackendId(number): BackendId,
        key: u64,
        tried: &[ServerId],
        _: Tick,
    ) -> Option<ServerId> {
        let number = usize::from((*self.by_backend.get(usize::from(number))?)?);
        let mut candidates = mem::take(&mut self.candidates);
        self.collect(self.plans.upstreams.get(number)?, tried, &mut candidates);
        let place = self.place(number, key, &mut candidates);
        self.candidates = candidates;
        Some(ServerId::upstream(self.plans.upstreams[number].servers[place?].number))
    }

    fn keeps_idle(&mut self, server: ServerId) -> bool {
        let Some(number) = server.upstream_number().map(usize::from) else { return false };
        let Some(upstream) = self.plans.of_server(number) else { return false };
        let idle = self.table.idle(number);
        let is_wanted = match upstream.max_connections {
            // An idle connection is of use to one worker alone: the others need room for theirs.
            Some(max) => idle < u64::from(max / 2) && self.table.waiting(number) == 0,
            None => true,
        };
        is_wanted
            && idle < u64::from(upstream.pool_size)
            && self.table.state(number) != ServerAvailability::Draining
    }

    fn note(&mut self, server: ServerId, event: ServerEvent) {
        if let Some(number) = server.upstream_number() {
            self.table.note(self.row.get(), number.into(), event);
        }
    }

    fn report(&mut self, server: ServerId, report: ServerReport<'_>) {
        if let (Some(number), Some(endpoint)) = (server.upstream_number(), &self.reports)
            && reports::send(endpoint, number, report).is_err()
        {
            self.table.add_lost_report();
        }
    }
}

impl Turns {
    /// Returns the place of the server whose turn it is. `start`: the number of the first turn.
    fn next(
        &mut self,
        server_count: usize,
        start: impl FnOnce() -> u64,
        candidates: &[Candidate],
    ) -> Option<usize> {
        if self.sums.is_empty() {
            self.sums = vec![0; server_count];
            for _ in 0..start() % SKIPPED_TURN_COUNT_MAX {
                self.take(candidates)?;
            }
        }
        self.take(candidates)
    }

    fn take(&mut self, candidates: &[Candidate]) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for &Candidate { place, weight, .. } in candidates {
            total += weight as i64;
            self.sums[place] += weight as i64;
            if best.is_none_or(|best| self.sums[place] > self.sums[best]) {
                best = Some(place);
            }
        }
        self.sums[best?] -= total;
        best
    }
}

/// Returns the candidate with the highest score for a key: rendezvous hashing with weights. If a server is left out, only its own keys move.
fn highest_score(upstream: &UpstreamPlan, candidates: &[Candidate], key: u64) -> Option<Candidate> {
    let score = |candidate: &Candidate| {
        let hash = mix(key ^ upstream.servers[candidate.place].seed);
        // Between 0 and 1, and never one of them.
        let share = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        candidate.weight as f64 / -share.ln()
    };
    candidates.iter().copied().max_by(|one, other| score(one).total_cmp(&score(other)))
}

/// Mixes the bits of a number: the last step of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_conn::ServerOutcome;

    /// Returns a balancer for one upstream, as that of backend 1, with servers of these weights. Those from `backups_at` on are backups.
    fn balancer(balance: Balance, weights: &[u32], backups_at: usize) -> Balancer {
        let servers = weights.iter().enumerate().map(|(place, &weight)| ServerPlan {
            number: place as u16,
            weight,
            is_backup: place >= backups_at,
            seed: mix(place as u64),
        });
        let plan = UpstreamPlan { balance, servers: servers.collect(), ..UpstreamPlan::for_test() };
        let table = Arc::new(UpstreamTable::new(1, weights.len()).unwrap());
        table.reset_row(0);
        let plans = Arc::new(UpstreamPlans::new(vec![plan]));
        Balancer::new(plans, table, UpstreamRow::default(), [None, Some(0)].into(), None)
    }

    fn choose(balancer: &mut Balancer, key: u64, tried: &[u16]) -> Option<u16> {
        let tried: Vec<_> = tried.iter().map(|&number| ServerId::upstream(number)).collect();
        balancer.choose(BackendId(1), key, &tried, Tick(0)).and_then(ServerId::upstream_number)
    }

    /// Returns the next servers as letters.
    fn sequence(balancer: &mut Balancer, count: usize) -> String {
        (0..count)
            .map(|_| choose(balancer, 0, &[]).map_or('-', |number| char::from(b'A' + number as u8)))
            .collect()
    }

    use ServerAvailability::{Down, Draining, Suspended, Usable};

    #[test]
    #[rustfmt::skip]
    fn servers_take_turns_by_weight_and_state() {
        type Servers<'a> = (&'a [u32], usize, &'a [ServerAvailability]);
        let cases: &[(&str, Servers<'_>, &str)] = &[
            // case                     weights       backups  states                        sequence
            ("one",                     (&[1],         1,       &[Usable]),                    "AAAA"),
            ("two",                     (&[1, 1],      2,       &[Usable, Usable]),            "ABABAB"),
            ("smooth",                  (&[5, 1, 1],   3,       &[Usable, Usable, Usable]),    "AABACAAAABACAA"),
            ("one is down",             (&[1, 1, 1],   3,       &[Usable, Down, Usable]),      "ACACAC"),
            ("one is suspended",        (&[1, 1],      2,       &[Suspended, Usable]),         "BBBB"),
            ("one is draining",         (&[1, 1],      2,       &[Draining, Usable]),          "BBBB"),
            ("the backup waits",        (&[1, 1],      1,       &[Usable, Usable]),            "AAAA"),
            ("the backup serves",       (&[1, 1],      1,       &[Down, Usable]),              "BBBB"),
            ("before the suspended",    (&[1, 1],      1,       &[Suspended, Usable]),         "BBBB"),
            ("a suspended one alone",   (&[1],         1,       &[Suspended]),                 "AAAA"),
            ("all suspended",           (&[1, 1],      2,       &[Suspended, Suspended]),      "ABAB"),
            ("suspended and down",      (&[1, 1],      2,       &[Suspended, Down]),           "AAAA"),
            ("all down",                (&[1, 1],      2,       &[Down, Draining]),            "--"),
        ];
        for (name, (weights, backups_at, states), want) in cases {
            let mut balancer = balancer(Balance::RoundRobin, weights, *backups_at);
            for (server, &state) in states.iter().enumerate() {
                balancer.table.set_state(server, state);
            }
            assert_eq!(sequence(&mut balancer, want.len()), *want, "{name}");
        }
    }

    #[test]
    fn workers_begin_at_different_servers() {
        let first = balancer(Balance::RoundRobin, &[1, 1, 1], 3);
        let starts = (0..4).map(|_| {
            let Balancer { plans, table, by_backend, .. } = &first;
            let (plans, table, by_backend) = (Arc::clone(plans), Arc::clone(table), Arc::clone(by_backend));
            sequence(&mut Balancer::new(plans, table, UpstreamRow::default(), by_backend, None), 1)
        });
        assert_eq!(starts.collect::<String>(), "ABCA");
    }

    #[test]
    fn server_in_its_slow_start_gets_a_part() {
        let mut balancer = balancer(Balance::RoundRobin, &[1, 1], 2);
        balancer.table.set_weight(1, 100);
        let sequence = sequence(&mut balancer, 110);
        assert_eq!(sequence.matches('B').count(), 10, "{sequence}");
    }

    #[test]
    #[rustfmt::skip]
    fn least_busy_server_is_chosen_for_its_weight() {
        let cases: &[(&str, &[u32], &[u64], &str)] = &[
            // case                weights      in progress    sequence
            ("none is busy",       &[1, 1],     &[0, 0],       "ABAB"),
            ("one is",             &[1, 1],     &[1, 0],       "BBBB"),
            ("by weight",          &[3, 1],     &[2, 1],       "AAAA"),
            ("equal by weight",    &[2, 1],     &[1, 0],       "ABA"),
            ("the heavier first",  &[1, 2],     &[0, 0],       "BBBB"),
        ];
        for (name, weights, busy, want) in cases {
            let mut balancer = balancer(Balance::LeastConnections, weights, weights.len());
            for (server, &count) in busy.iter().enumerate() {
                // Those of another worker count, too.
                balancer.table.reset_row(1);
                (0..count).for_each(|row| balancer.table.note(row as usize % 2, server, ServerEvent::ExchangeBegan));
            }
            assert_eq!(sequence(&mut balancer, want.len()), *want, "{name}");
        }
    }

    #[test]
    fn hash_moves_only_the_keys_of_a_server_that_is_left_out() {
        let mut balancer = balancer(Balance::HashClient, &[1, 1, 2], 3);
        let keys: Vec<u64> = (0..4_000).map(mix).collect();
        let chosen = |balancer: &mut Balancer| -> Vec<u16> {
            keys.iter().map(|&key| choose(balancer, key, &[]).unwrap()).collect()
        };
        let before = chosen(&mut balancer);
        let counts = [0, 1, 2].map(|server| before.iter().filter(|&&chosen| chosen == server).count());
        for (count, want) in counts.into_iter().zip([1_000, 1_000, 2_000]) {
            assert!(count.abs_diff(want) < 150, "{counts:?}");
        }
        assert_eq!(chosen(&mut balancer), before);
        balancer.table.set_state(1, Down);
        let during = chosen(&mut balancer);
        assert!(before.iter().zip(&during).all(|(before, during)| before == during || *before == 1));
        assert!(!during.contains(&1));
        balancer.table.set_state(1, Usable);
        assert_eq!(chosen(&mut balancer), before);
    }

    #[test]
    fn tried_servers_and_other_backends_get_nothing() {
        for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::HashPath] {
            let mut balancer = balancer(balance, &[1, 1, 1], 2);
            for key in 0..20 {
                assert_eq!(choose(&mut balancer, key, &[0]), Some(1));
                assert_eq!(choose(&mut balancer, key, &[0, 1]), Some(2), "the backup");
                assert_eq!(choose(&mut balancer, key, &[0, 1, 2]), None);
            }
            assert_eq!(balancer.choose(BackendId(0), 0, &[], Tick(0)), None);
            assert_eq!(balancer.choose(BackendId(2), 0, &[], Tick(0)), None);
        }
    }

    #[test]
    #[rustfmt::skip]
    fn idle_connections_are_limited_over_all_workers() {
        type Table = (u64, u64, ServerAvailability);
        let cases: &[(&str, Option<u32>, Table, bool)] = &[
            // case               max      idle  waiting  state     kept
            ("none yet",          None,    (0,    0,       Usable),   true),
            ("one less",          None,    (3,    0,       Usable),   true),
            ("enough",            None,    (4,    0,       Usable),   false),
            ("half of the max",   Some(4), (2,    0,       Usable),   false),
            ("less than that",    Some(4), (1,    0,       Usable),   true),
            ("another waits",     Some(4), (1,    1,       Usable),   false),
            ("draining",          None,    (0,    0,       Draining), false),
            ("suspended",         None,    (0,    0,       Suspended), true),
        ];
        for &(name, max_connections, (idle, waiting, state), want) in cases {
            let mut balancer = balancer(Balance::RoundRobin, &[1], 1);
            let plan = UpstreamPlan { max_connections, pool_size: 4, ..balancer.plans.upstreams[0].clone() };
            balancer.plans = Arc::new(UpstreamPlans::new(vec![plan]));
            balancer.table.reset_row(1);
            (0..idle).for_each(|row| balancer.table.note(row as usize % 2, 0, ServerEvent::IdleBegan));
            balancer.table.set_waiting(0, waiting);
            balancer.table.set_state(0, state);
            assert_eq!(balancer.keeps_idle(ServerId::upstream(0)), want, "{name}");
        }
    }

    #[test]
    fn events_are_counted_in_the_row_of_the_worker() {
        let mut balancer = balancer(Balance::RoundRobin, &[1], 1);
        balancer.row.set(3);
        balancer.table.reset_row(3);
        balancer.note(ServerId::upstream(0), ServerEvent::Opened);
        balancer.note(ServerId::upstream(0), ServerEvent::ExchangeBegan);
        balancer.note(ServerId::upstream(0), ServerEvent::ExchangeEnded(ServerOutcome::TimedOut));
        assert_eq!((balancer.table.opened(3, 0), balancer.table.counts(0).timed_out), (1, 1));
    }
}
