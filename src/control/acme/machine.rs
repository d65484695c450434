//! ACME as a machine: decides when to order which certificate. It reads no clock, and knows no directory, file or process.
//!
//! ```text
//!               no certificate, or time to renew            Issued
//! waiting ────────────────────────────────────▶ order ───────────────▶ waiting, until the renewal
//!    ▲                                            │ fails
//!    └──────────────── back-off ──────────────────┘     the certificate of before serves on
//! ```
//!
//! One job runs at a time: a directory counts orders, and nothing is urgent enough to send it many at once. Certificates expire by the
//! wall clock, which may jump; attempts wait by the monotonic one.

use super::{
    message::{FailureKind, OrderFailure},
    vocabulary::{
        AcmeAction, AcmeEvent, AcmeNotice, AcmeTime, JobId, NameSetId, NameSetPlan, NameSetStatus,
        RenewalWindow, Validity,
    },
};
use crate::control::process::clock;
use std::time::Duration;
use tarpon_conn::Tick;

/// Decides when to order certificates.
#[derive(Debug)]
pub(crate) struct AcmeMachine {
    sets: Vec<NameSet>,
    has_helper: bool,
    job: Option<Job>,
    job_count: u64,
    /// The state of the random numbers.
    random: u64,
    now: AcmeTime,
}

/// The names of a certificate, and what is known of it.
#[derive(Debug)]
struct NameSet {
    names: Vec<String>,
    validity: Option<Validity>,
    window: Option<RenewalWindow>,
    /// When to renew, in seconds since 1970: a random time, chosen when the certificate or the window became known.
    renew_at_s: u64,
    /// When to ask for the window again.
    ask_at: Tick,
    failure_count: u32,
    failure: Option<OrderFailure>,
    /// Not before this is another order tried.
    retry_at: Option<Tick>,
}

/// What the helper works on.
#[derive(Clone, Copy, Debug)]
struct Job {
    id: JobId,
    kind: JobKind,
    /// `None`: the set is not in the configuration any more.
    set: Option<usize>,
    deadline: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKind {
    Order,
    Renewal,
}

/// The delay after a failed order. Let's Encrypt allows five failed validations of a name an hour: with this delay there are four.
const FIRST_DELAY: Duration = Duration::from_secs(5 * 60);
/// The delay after a directory could not be reached, which counts no such attempt.
const UNREACHABLE_DELAY: Duration = Duration::from_secs(60);
/// The longest delay that this machine chooses: a failing renewal causes four warnings a day.
const DELAY_MAX: Duration = Duration::from_secs(6 * 3600);
/// The longest delay that a directory may ask for. The strictest limit of Let's Encrypt frees one order in 34 hours.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(48 * 3600);
/// How often and how rarely the directory is asked for the renewal window, whatever it says: RFC 9773, section 4.3.
const ASK_MIN: Duration = Duration::from_secs(60);
const ASK_MAX: Duration = Duration::from_secs(24 * 3600);
/// When a directory that did not answer is asked again: as RFC 9773, section 4.3.3, recommends.
const ASK_AGAIN: Duration = Duration::from_secs(6 * 3600);
/// The shortest time between two certificates of the same names, whatever their lifetime is.
const ORDER_INTERVAL_MIN: Duration = Duration::from_secs(60);
/// The shortest time between two certificates of the same names, or a tenth of their lifetime if that is shorter.
const ORDER_INTERVAL_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long an order may take: longer than the limits of the helper together, which has a hook wait for the DNS.
const JOB_TIME_MAX: Duration = Duration::from_secs(20 * 60);
/// How often the wall clock is read while nothing else happens: it may have jumped.
const CLOCK_INTERVAL: Duration = Duration::from_secs(15 * 60);
const SECONDS_A_DAY: u64 = 24 * 3600;

impl AcmeMachine {
    /// Returns a machine without names.
    pub(crate) fn new(now: AcmeTime, seed: u64) -> AcmeMachine {
        AcmeMachine { sets: Vec::new(), has_helper: false, job: None, job_count: 0, random: seed, now }
    }

    /// Handles an event, and appends the actions that follow.
    pub(crate) fn handle(&mut self, now: AcmeTime, event: AcmeEvent, actions: &mut Vec<AcmeAction>) {
        self.now = now;
        match event {
            AcmeEvent::Timer => {}
            AcmeEvent::Configured(plans) => self.configure(plans),
            AcmeEvent::HelperStarted => {
                // After a reload, another helper: it takes the job up.
                if let Some(job) = self.job {
                    self.end_job(job.id, job.kind, actions);
                }
                self.has_helper = true;
            }
            AcmeEvent::HelperExited => {
                self.interrupt(actions);
                self.has_helper = false;
            }
            AcmeEvent::Issued(id, validity) => self.issued(id, validity, actions),
            AcmeEvent::OrderFailed(id, failure) => self.order_failed(id, failure, actions),
            AcmeEvent::RenewalAnswered(id, answer) => self.renewal_answered(id, answer),
        }
        self.update(actions);
    }

    /// Returns the job that the helper works on.
    pub(crate) fn job(&self) -> Option<JobId> {
        self.job.map(|job| job.id)
    }

    /// Returns when the machine has something to do next.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        if let Some(job) = self.job {
            return Some(job.deadline);
        }
        if !self.has_helper {
            return None;
        }
        let sets = self.sets.iter().flat_map(|set| {
            let ask_at = set.validity.map(|_| set.ask_at);
            [Some(self.order_at(set)), ask_at]
        });
        sets.flatten().min()
    }

    /// Returns the state of each set.
    pub(crate) fn status(&self) -> Vec<NameSetStatus> {
        let status = |set: &NameSet| NameSetStatus {
            names: set.names.clone(),
            validity: set.validity,
            renew_at_s: set.validity.map(|_| set.renew_at_s),
            failure_count: set.failure_count,
            failure: set.failure.clone(),
            retry_delay: set
                .retry_at
                .filter(|_| set.failure.is_some())
                .map(|at| clock::between(self.now.tick, at)),
        };
        self.sets.iter().map(status).collect()
    }

    fn configure(&mut self, plans: Vec<NameSetPlan>) {
        let mut known = std::mem::take(&mut self.sets);
        let job_set = self.job.and_then(|job| job.set).map(|number| known[number].names.clone());
        for NameSetPlan { names, stored } in plans {
            let set = match known.iter().position(|set| set.names == names) {
                Some(place) => {
                    let set = known.swap_remove(place);
                    // An order that failed before may succeed with the new configuration, but a limit stays.
                    let is_limited =
                        set.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::RateLimited);
                    NameSet { retry_at: set.retry_at.filter(|_| is_limited), ..set }
                }
                None => {
                    let mut set = NameSet {
                        names,
                        validity: None,
                        window: None,
                        renew_at_s: 0,
                        ask_at: self.now.tick,
                        failure_count: 0,
                        failure: None,
                        retry_at: None,
                    };
                    if let Some(validity) = stored {
                        set.validity = Some(validity);
                        set.renew_at_s = self.renewal_of(validity);
                    }
                    set
                }
            };
            self.sets.push(set);
        }
        if let Some(job) = &mut self.job {
            job.set = job_set.and_then(|names| self.sets.iter().position(|set| set.names == names));
        }
    }

    /// Ends a job whose helper has exited.
    fn interrupt(&mut self, actions: &mut Vec<AcmeAction>) {
        let Some(job) = self.job else { return };
        let failure = OrderFailure::new(FailureKind::Interrupted, "the helper process has exited");
        match job.kind {
            JobKind::Order => self.order_failed(job.id, failure, actions),
            JobKind::Renewal => self.renewal_answered(job.id, None),
        }
    }

    /// Ends the job with this identity. `None`: it ended before, or its set is gone.
    fn end_job(&mut self, id: JobId, kind: JobKind, actions: &mut Vec<AcmeAction>) -> Option<usize> {
        let job = self.job.take_if(|job| job.id == id && job.kind == kind)?;
        if kind == JobKind::Order {
            actions.push(AcmeAction::ClearChallenges);
        }
        job.set
    }

    fn issued(&mut self, id: JobId, validity: Validity, actions: &mut Vec<AcmeAction>) {
        let Some(number) = self.end_job(id, JobKind::Order, actions) else { return };
        let renew_at_s = self.renewal_of(validity);
        let set = &mut self.sets[number];
        (set.validity, set.window, set.renew_at_s) = (Some(validity), None, renew_at_s);
        (set.failure_count, set.failure, set.retry_at) = (0, None, None);
        set.ask_at = self.now.tick;
        let days = validity.not_after_s.saturating_sub(self.now.unix_s) / SECONDS_A_DAY;
        actions.push(AcmeAction::Emit(AcmeNotice::Obtained { names: set.names.join(", "), days }));
        // Whatever a clock that is wrong or a window that is over says: no loop of orders.
        let interval = Duration::from_secs(validity.lifetime_s() / 10);
        let interval = interval.clamp(ORDER_INTERVAL_MIN, ORDER_INTERVAL_MAX);
        self.sets[number].retry_at = Some(clock::after(self.now.tick, interval));
    }

    fn order_failed(&mut self, id: JobId, failure: OrderFailure, actions: &mut Vec<AcmeAction>) {
        let Some(number) = self.end_job(id, JobKind::Order, actions) else { return };
        let account_is_gone = failure.kind == FailureKind::AccountGone;
        let set = &mut self.sets[number];
        // With the next account that the directory does not know something else is wrong, and the delay applies.
        let was_replaced =
            set.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::AccountGone);
        set.failure_count = set.failure_count.saturating_add(1);
        if account_is_gone {
            actions.push(AcmeAction::ForgetAccount);
            actions.push(AcmeAction::Emit(AcmeNotice::AccountReplaced));
        }
        if account_is_gone && !was_replaced {
            set.failure = Some(failure);
            set.retry_at = None;
            return;
        }
        let count = set.failure_count;
        let retry_delay = self.delay(&failure, count);
        let set = &mut self.sets[number];
        set.retry_at = Some(clock::after(self.now.tick, retry_delay));
        set.failure = Some(failure.clone());
        let days_left = set.validity.map(|validity| {
            let left_s = validity.not_after_s as i64 - self.now.unix_s as i64;
            left_s.div_euclid(SECONDS_A_DAY as i64)
        });
        let names = set.names.join(", ");
        actions.push(AcmeAction::Emit(AcmeNotice::Failed { names, failure, retry_delay, days_left }));
    }

    /// Returns the delay after so many failed orders: longer each time, and at least as long as the directory asks for.
    fn delay(&mut self, failure: &OrderFailure, count: u32) -> Duration {
        let first = match failure.kind {
            FailureKind::Unreachable | FailureKind::Interrupted => UNREACHABLE_DELAY,
            _ => FIRST_DELAY,
        };
        let delay = DELAY_MAX.min(first.saturating_mul(2u32.saturating_pow(count.saturating_sub(1).min(16))));
        // So that the hosts that a directory has failed do not all return at the same time.
        let jitter = Duration::from_secs(self.random(0, delay.as_secs() / 10));
        let asked = failure.retry_after_s.map_or(Duration::ZERO, Duration::from_secs);
        (delay + jitter).max(asked.min(RETRY_AFTER_MAX))
    }

    fn renewal_answered(&mut self, id: JobId, answer: Option<(RenewalWindow, Duration)>) {
        let Some(number) = self.end_job(id, JobKind::Renewal, &mut Vec::new()) else { return };
        let (window, wait) = match answer {
            Some((window, wait)) => (Some(window), wait.clamp(ASK_MIN, ASK_MAX)),
            None => (None, ASK_AGAIN),
        };
        self.sets[number].ask_at = clock::after(self.now.tick, wait);
        let Some(validity) = self.sets[number].validity else { return };
        // RFC 9773, section 4.2: a window that does not end after its start is not valid.
        if let Some(window) = window.filter(|window| window.start_s < window.end_s)
            && self.sets[number].window != Some(window)
        {
            // An expired certificate is useless, whatever the window says.
            let last_s = validity.not_after_s.saturating_sub(validity.lifetime_s() / 10);
            let renew_at_s = self.random(window.start_s, window.end_s).min(last_s);
            (self.sets[number].window, self.sets[number].renew_at_s) = (Some(window), renew_at_s);
        }
    }

    /// Chooses when to renew a certificate of which no renewal window is known: before two thirds of its lifetime have passed, by up to a
    /// thirtieth of it.
    fn renewal_of(&mut self, validity: Validity) -> u64 {
        let two_thirds = validity.not_before_s + validity.lifetime_s() / 3 * 2;
        two_thirds - self.random(0, validity.lifetime_s() / 30)
    }

    /// Returns a random number of a range. The last number is included.
    fn random(&mut self, first: u64, last: u64) -> u64 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        first + (mixed ^ (mixed >> 31)) % (last.saturating_sub(first).saturating_add(1)).max(1)
    }

    fn is_time_to_renew(&self, number: usize) -> bool {
        let set = &self.sets[number];
        set.validity.is_none_or(|_| set.renew_at_s <= self.now.unix_s)
    }

    /// Returns when an order of a set is due.
    fn order_at(&self, set: &NameSet) -> Tick {
        let wanted = match set.validity {
            None => self.now.tick,
            Some(_) => {
                let wait = Duration::from_secs(set.renew_at_s.saturating_sub(self.now.unix_s));
                clock::after(self.now.tick, wait.min(CLOCK_INTERVAL))
            }
        };
        wanted.max(set.retry_at.unwrap_or(wanted))
    }

    /// Starts the next job if none is under way.
    fn update(&mut self, actions: &mut Vec<AcmeAction>) {
        let tick = self.now.tick;
        if let Some(job) = self.job
            && job.deadline <= tick
        {
            actions.push(AcmeAction::KillHelper);
            self.has_helper = false;
            let failure = OrderFailure::new(FailureKind::Interrupted, "the order did not end in time");
            match job.kind {
                JobKind::Order => self.order_failed(job.id, failure, actions),
                JobKind::Renewal => self.renewal_answered(job.id, None),
            }
        }
        if !self.has_helper || self.job.is_some() {
            return;
        }
        let may_order = |number: &usize| {
            let set = &self.sets[*number];
            set.retry_at.is_none_or(|at| at <= tick) && self.is_time_to_renew(*number)
        };
        // Sites without a certificate come first, then the certificate with the earliest expiry.
        let expiry = |number: &usize| self.sets[*number].validity.map(|validity| validity.not_after_s);
        let order = (0..self.sets.len()).filter(may_order).min_by_key(expiry);
        if let Some(number) = order {
            let id = self.start(JobKind::Order, number);
            actions.push(AcmeAction::Order(id, NameSetId(number)));
            return;
        }
        let may_ask = |set: &NameSet| set.validity.is_some() && set.ask_at <= tick;
        if let Some(number) = self.sets.iter().position(may_ask) {
            let id = self.start(JobKind::Renewal, number);
            actions.push(AcmeAction::AskRenewal(id, NameSetId(number)));
        }
    }

    fn start(&mut self, kind: JobKind, number: usize) -> JobId {
        self.job_count += 1;
        let (id, deadline) = (JobId(self.job_count), clock::after(self.now.tick, JOB_TIME_MAX));
        self.job = Some(Job { id, kind, set: Some(number), deadline });
        id
    }
}

#[cfg(test)]
mod tests;
