//! A machine in a simulated world: a directory with faults, and clocks that a test sets.

use super::*;
use crate::control::process::random::SimRandom;

const DAY: u64 = SECONDS_A_DAY;
/// The wall clock at the start of a world.
const START_S: u64 = 1_800_000_000;
/// How long an order takes.
const ORDER_MS: u64 = 7_000;

/// The time of an order, its set, and whether it was successful.
type OrderRow = (u64, usize, bool);

/// A directory and a helper, as far as the machine sees them.
struct AcmeWorld {
    machine: AcmeMachine,
    tick: u64,
    /// The error of the wall clock in seconds.
    jump_s: i64,
    lifetime_s: u64,
    /// While it is in this range of days, the directory cannot be reached.
    down: std::ops::Range<u64>,
    /// The failures that the next orders have.
    failures: Vec<OrderFailure>,
    window: Option<(RenewalWindow, Duration)>,
    has_account: bool,
    /// The directory has revoked the stored account.
    is_revoked: bool,
    account_count: usize,
    orders: Vec<OrderRow>,
    validity: Vec<Option<Validity>>,
    notices: Vec<(u64, AcmeNotice)>,
    /// Challenges that were published and not removed.
    has_challenges: bool,
}

impl AcmeWorld {
    fn new(seed: u64, names: &[&str]) -> AcmeWorld {
        let now = AcmeTime { tick: Tick(0), unix_s: START_S };
        let mut world = AcmeWorld {
            machine: AcmeMachine::new(now, seed),
            tick: 0,
            jump_s: 0,
            lifetime_s: 90 * DAY,
            down: 0..0,
            failures: Vec::new(),
            window: None,
            has_account: false,
            is_revoked: false,
            account_count: 0,
            orders: Vec::new(),
            validity: vec![None; names.len()],
            notices: Vec::new(),
            has_challenges: false,
        };
        world.event(AcmeEvent::Configured(world.plans(names)));
        world.event(AcmeEvent::HelperStarted);
        world
    }

    fn plans(&self, names: &[&str]) -> Vec<NameSetPlan> {
        let plan = |name: &&str| NameSetPlan { names: vec![(*name).to_owned()], stored: None };
        names.iter().map(plan).collect()
    }

    /// Returns the true time in seconds.
    fn true_s(&self) -> u64 {
        START_S + self.tick / 1000
    }

    fn day(&self) -> u64 {
        self.tick / 1000 / DAY
    }

    fn now(&self) -> AcmeTime {
        let unix_s = self.true_s().checked_add_signed(self.jump_s).expect("a time");
        AcmeTime { tick: Tick(self.tick), unix_s }
    }

    fn event(&mut self, event: AcmeEvent) {
        let mut events = std::collections::VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            self.machine.handle(self.now(), event, &mut actions);
            for action in actions {
                events.extend(self.perform(action));
            }
        }
    }

    fn perform(&mut self, action: AcmeAction) -> Option<AcmeEvent> {
        match action {
            AcmeAction::Order(id, NameSetId(set)) => {
                assert!(!self.has_challenges, "one order at a time");
                self.has_challenges = true;
                self.tick += ORDER_MS;
                let result = self.order(set);
                assert!(self.orders.len() < 10_000, "a loop of orders");
                self.orders.push((self.true_s() - START_S, set, result.is_ok()));
                Some(match result {
                    Ok(validity) => {
                        self.validity[set] = Some(validity);
                        AcmeEvent::Issued(id, validity)
                    }
                    Err(failure) => AcmeEvent::OrderFailed(id, failure),
                })
            }
            AcmeAction::AskRenewal(id, _) => Some(AcmeEvent::RenewalAnswered(id, self.window)),
            AcmeAction::ClearChallenges => {
                self.has_challenges = false;
                None
            }
            AcmeAction::ForgetAccount => {
                assert!(self.has_account);
                self.has_account = false;
                None
            }
            AcmeAction::KillHelper => Some(AcmeEvent::HelperExited),
            AcmeAction::Emit(notice) => {
                self.notices.push((self.day(), notice));
                None
            }
        }
    }

    fn order(&mut self, set: usize) -> Result<Validity, OrderFailure> {
        if self.down.contains(&self.day()) {
            return Err(OrderFailure::new(FailureKind::Unreachable, "connection refused"));
        }
        if !self.has_account {
            (self.has_account, self.is_revoked) = (true, false);
            self.account_count += 1;
        }
        if self.is_revoked {
            return Err(OrderFailure::new(FailureKind::AccountGone, "unauthorized"));
        }
        if !self.failures.is_empty() {
            return Err(self.failures.remove(0));
        }
        let _ = set;
        // The directory has the true time.
        let not_before_s = self.true_s() - 3600;
        Ok(Validity { not_before_s, not_after_s: not_before_s + self.lifetime_s })
    }

    /// Lets time pass until this day.
    fn run_until(&mut self, day: u64) {
        while self.day() < day {
            let next = self.machine.deadline().map_or(u64::MAX, |deadline| deadline.0);
            assert!(next >= self.tick || self.machine.deadline().is_some());
            self.tick = next.clamp(self.tick + 1, day * DAY * 1000);
            self.event(AcmeEvent::Timer);
        }
    }

    /// Returns the days of the successful orders.
    fn ok_orders(&self) -> Vec<u64> {
        self.orders.iter().filter(|order| order.2).map(|order| order.0 / DAY).collect()
    }
}

#[test]
fn first_certificates_come_at_once_and_are_renewed_in_time() {
    for seed in 0..50 {
        let mut world = AcmeWorld::new(seed, &["a.example", "b.example"]);
        assert_eq!(world.orders.len(), 2, "one after the other, at once");
        world.run_until(365);
        let days = world.ok_orders();
        assert_eq!(days.len(), world.orders.len(), "none fails: {:?}", world.orders);
        for set in 0..2 {
            let of_set: Vec<_> =
                world.orders.iter().filter(|order| order.1 == set).map(|order| order.0).collect();
            for pair in of_set.windows(2) {
                let after = (pair[1] - pair[0]) / DAY;
                assert!((56..=60).contains(&after), "seed {seed}: renewed after {after} days");
            }
        }
        assert_eq!(world.account_count, 1);
        let is_obtained = |notice: &(u64, AcmeNotice)| matches!(notice.1, AcmeNotice::Obtained { .. });
        assert!(world.notices.iter().all(is_obtained) && world.notices.len() == days.len());
        assert!(!world.has_challenges);
    }
}

#[test]
fn renewals_of_many_hosts_are_spread() {
    let first = |seed| {
        let mut world = AcmeWorld::new(seed, &["a.example"]);
        world.run_until(65);
        world.orders[1].0
    };
    let times: std::collections::BTreeSet<_> = (0..20).map(first).collect();
    assert_eq!(times.len(), 20);
}

#[test]
fn directory_that_is_down_for_a_day_delays_nothing_else() {
    for seed in 0..50 {
        let mut world = AcmeWorld::new(seed, &["a.example"]);
        world.run_until(50);
        let renewal = (world.machine.status()[0].renew_at_s.unwrap() - START_S) / DAY;
        world.down = renewal..renewal + 1;
        world.run_until(renewal + 3);
        let (tried, good): (Vec<OrderRow>, Vec<OrderRow>) =
            world.orders[1..].iter().copied().partition(|order| !order.2);
        assert!((1..=30).contains(&tried.len()), "seed {seed}: {} attempts on that day", tried.len());
        assert_eq!(good.len(), 1, "renewed when the directory is back: {:?}", world.orders);
        assert!(good[0].0 < world.validity[0].unwrap().not_after_s - START_S);
        // Each failure causes a warning with the remaining days.
        let failed = world.notices.iter().filter_map(|(_, notice)| match notice {
            AcmeNotice::Failed { days_left, retry_delay, failure, .. } => {
                Some((days_left, retry_delay, failure))
            }
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        assert_eq!(failed.len(), tried.len());
        for (days_left, retry_delay, failure) in failed {
            assert!((28..=34).contains(&days_left.unwrap()), "{days_left:?}");
            assert!(*retry_delay <= DELAY_MAX + DELAY_MAX / 10 && failure.kind == FailureKind::Unreachable);
        }
        let status = &world.machine.status()[0];
        assert_eq!((status.failure_count, status.failure.is_none()), (0, true));
    }
}

#[test]
fn a_directory_that_stays_down_is_told_often_and_asked_rarely() {
    let mut world = AcmeWorld::new(1, &["a.example"]);
    world.down = 0..1000;
    world.run_until(100);
    for day in 62..100 {
        let count = world
            .notices
            .iter()
            .filter(|(at, notice)| *at == day && matches!(notice, AcmeNotice::Failed { .. }));
        assert!((3..=5).contains(&count.count()), "day {day}");
    }
    let last = world.notices.iter().rev().find_map(|(_, notice)| match notice {
        AcmeNotice::Failed { days_left, .. } => *days_left,
        _ => None,
    });
    assert!((-11..=-9).contains(&last.unwrap()), "expired since {last:?}");
}

#[test]
fn a_revoked_account_is_replaced_at_once() {
    let mut world = AcmeWorld::new(7, &["a.example"]);
    world.is_revoked = true;
    world.run_until(61);
    assert_eq!((world.account_count, world.orders.len()), (2, 3), "{:?}", world.orders);
    assert_eq!(world.orders[1].0 + ORDER_MS / 1000, world.orders[2].0, "the next order follows at once");
    assert!(
        world.orders[2].2 && world.notices.iter().any(|(_, notice)| *notice == AcmeNotice::AccountReplaced)
    );
}

#[test]
fn accounts_that_are_refused_again_and_again_do_not_order_in_a_loop() {
    let mut world = AcmeWorld::new(7, &["a.example"]);
    world.validity[0] = None;
    let gone = OrderFailure::new(FailureKind::AccountGone, "unauthorized");
    world.failures = vec![gone; 1000];
    world.run_until(59);
    let before = world.orders.len();
    world.run_until(63);
    assert!((4..=40).contains(&(world.orders.len() - before)), "{} orders", world.orders.len() - before);
}

#[test]
fn retry_after_is_respected_up_to_a_limit() {
    #[rustfmt::skip]
    let cases = [
        // what                      Retry-After       at least             at most
        ("none",                     None,             5 * 60,              6 * 60),
        ("shorter than the delay",   Some(1),          5 * 60,              6 * 60),
        ("longer",                   Some(3600),       3600,                3600),
        ("34 hours",                 Some(34 * 3600),  34 * 3600,           34 * 3600),
        ("without end",              Some(u64::MAX),   48 * 3600,           48 * 3600),
    ];
    for (name, retry_after_s, least, most) in cases {
        let mut world = AcmeWorld::new(3, &[]);
        let limit = OrderFailure::new(FailureKind::RateLimited, "too many certificates");
        world.failures = vec![OrderFailure { retry_after_s, ..limit }];
        world.validity = vec![None];
        world.event(AcmeEvent::Configured(world.plans(&["a.example"])));
        assert_eq!(world.orders.len(), 1);
        // Neither time nor a reload shortens it.
        world.event(AcmeEvent::Configured(world.plans(&["a.example"])));
        assert_eq!(world.orders.len(), 1, "{name}");
        world.run_until(3);
        let wait = world.orders[1].0 - world.orders[0].0 - ORDER_MS / 1000;
        assert!((least..=most).contains(&wait), "{name}: {wait} s");
    }
}

#[test]
fn failed_validations_stay_below_the_limit_of_an_hour() {
    let mut world = AcmeWorld::new(9, &[]);
    world.failures = vec![OrderFailure::new(FailureKind::NotReachable, "connection refused"); 1000];
    world.validity = vec![None];
    world.event(AcmeEvent::Configured(world.plans(&["a.example"])));
    world.run_until(2);
    for order in &world.orders {
        let within = world.orders.iter().filter(|other| (order.0..order.0 + 3600).contains(&other.0)).count();
        assert!(within <= 5, "{within} within an hour");
    }
    // A reload tries again at once: the user has changed something.
    let before = world.orders.len();
    world.failures.clear();
    world.event(AcmeEvent::Configured(world.plans(&["a.example"])));
    assert_eq!((world.orders.len(), world.orders.last().unwrap().2), (before + 1, true));
}

#[test]
fn the_directory_says_when_to_renew() {
    #[rustfmt::skip]
    let cases = [
        // what                             window in days after the start     renewed on these days
        ("early",                           10.. 12,                           10..=12),
        ("at once, after a revocation",     0 .. 0,                            1..=1),
        ("after the end",                   200..300,                          75..=82),
        ("two thirds",                      57..60,                            57..=60),
    ];
    for (name, window, want) in cases {
        for seed in 0..10 {
            let mut world = AcmeWorld::new(seed, &[]);
            let window = RenewalWindow {
                start_s: START_S + window.start * DAY,
                end_s: START_S + window.end * DAY + 1,
            };
            world.window = Some((window, Duration::from_secs(6 * 3600)));
            world.validity = vec![None];
            world.event(AcmeEvent::Configured(world.plans(&["a.example"])));
            while world.orders.len() < 2 {
                world.run_until(world.day() + 1);
                assert!(world.day() < 100, "{name}");
            }
            let day = world.orders[1].0 / DAY;
            assert!(want.contains(&day), "{name}: on day {day}");
        }
    }
}

#[test]
fn a_window_that_was_renewed_in_orders_no_second_certificate_in_a_loop() {
    let mut world = AcmeWorld::new(2, &[]);
    // Of a directory that does not notice the new certificate.
    world.window = Some((RenewalWindow { start_s: START_S - DAY, end_s: START_S }, Duration::ZERO));
    world.validity = vec![None];
    world.event(AcmeEvent::Configured(world.plans(&["a.example"])));
    world.run_until(1);
    assert!(world.orders.len() <= 2, "{} orders on a day", world.orders.len());
}

#[test]
fn clocks_that_jump_order_no_certificate_in_a_loop() {
    #[rustfmt::skip]
    let cases = [
        // what                 jump in seconds          orders within three days
        ("an hour ahead",       3600,                    1..=1),
        ("an hour behind",      -3600,                   1..=1),
        ("to 1970",             -(START_S as i64) + 60,  1..=1),
        ("a year ahead",        365 * DAY as i64,        2..=20),
    ];
    for (name, jump_s, want) in cases {
        let mut world = AcmeWorld::new(5, &["a.example"]);
        world.run_until(1);
        world.jump_s = jump_s;
        world.run_until(4);
        assert!(want.contains(&world.orders.len()), "{name}: {} orders", world.orders.len());
        // The clock is right again: the certificate is good, and is renewed in time.
        world.jump_s = 0;
        let before = world.orders.len();
        world.run_until(40);
        assert_eq!(world.orders.len(), before, "{name}");
        world.run_until(70);
        assert_eq!(world.orders.len(), before + 1, "{name}");
    }
}

#[test]
fn a_jump_past_the_renewal_is_noticed_soon() {
    let mut world = AcmeWorld::new(5, &["a.example"]);
    world.run_until(1);
    // As after the sleep of a notebook: the monotonic clock stood still.
    world.jump_s = 70 * DAY as i64;
    let wait = world.machine.deadline().unwrap().0 - world.tick;
    assert!(wait <= CLOCK_INTERVAL.as_millis() as u64, "{wait} ms");
}

#[test]
fn jobs_of_a_helper_that_exits_are_taken_up() {
    let now = AcmeTime { tick: Tick(0), unix_s: START_S };
    let mut machine = AcmeMachine::new(now, 1);
    let plan = NameSetPlan { names: vec!["a.example".to_owned()], stored: None };
    let mut handle = |tick: u64, event| {
        let mut actions = Vec::new();
        machine.handle(AcmeTime { tick: Tick(tick), ..now }, event, &mut actions);
        (actions, machine.deadline())
    };
    let order = |number| AcmeAction::Order(JobId(number), NameSetId(0));
    assert_eq!(handle(0, AcmeEvent::Configured(vec![plan])), (vec![], None), "no helper");
    assert_eq!(handle(0, AcmeEvent::HelperStarted).0, [order(1)]);
    // Another helper, after a reload.
    assert_eq!(handle(0, AcmeEvent::HelperStarted).0, [AcmeAction::ClearChallenges, order(2)]);
    let (actions, deadline) = handle(1, AcmeEvent::HelperExited);
    assert_eq!((&actions[0], actions.len(), deadline), (&AcmeAction::ClearChallenges, 2, None));
    // An answer of the one before is none any more.
    let validity = Validity { not_before_s: START_S, not_after_s: START_S + DAY };
    assert_eq!(handle(1, AcmeEvent::Issued(JobId(2), validity)).0, []);
    let (actions, deadline) = handle(2, AcmeEvent::HelperStarted);
    assert_eq!(actions, [], "not at once");
    let due = deadline.unwrap().0;
    assert!((60_000..70_000).contains(&due), "{due}");
    assert_eq!(handle(due, AcmeEvent::Timer).0, [order(3)]);
    // A helper that hangs is killed.
    let late = due + JOB_TIME_MAX.as_millis() as u64;
    let (actions, _) = handle(late, AcmeEvent::Timer);
    assert_eq!(actions[..2], [AcmeAction::KillHelper, AcmeAction::ClearChallenges]);
}

/// Any world: one job at a time, and no certificate is lost that could be renewed.
#[test]
fn any_faults_end_with_a_valid_certificate() {
    for seed in 0..200 {
        let mut random = SimRandom::new(seed);
        let names: Vec<_> = (0..random.within(1..5)).map(|number| format!("{number}.example")).collect();
        let mut world = AcmeWorld::new(seed, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let kinds =
            [FailureKind::Directory, FailureKind::NotReachable, FailureKind::RateLimited, FailureKind::Dns];
        for day in (1..365).step_by(5) {
            if random.percent(20) {
                world.down = day + 1..day + 1 + random.within(0..4);
            }
            if random.percent(20) {
                let kind = kinds[random.within(0..4) as usize];
                let retry_after_s = random.percent(50).then(|| random.within(0..1 << 40));
                let failure = OrderFailure { retry_after_s, ..OrderFailure::new(kind, "x") };
                world.failures = vec![failure; random.within(0..4) as usize];
            }
            world.is_revoked |= random.percent(5);
            if random.percent(10) {
                world.event(AcmeEvent::HelperExited);
                world.event(AcmeEvent::HelperStarted);
            }
            world.run_until(day);
            if day > 20 {
                for validity in &world.validity {
                    let validity = validity.expect("a certificate");
                    assert!(validity.not_after_s > world.true_s(), "seed {seed}, day {day}");
                }
            }
        }
        assert!(world.orders.len() < 3000, "seed {seed}: {} orders", world.orders.len());
    }
}
