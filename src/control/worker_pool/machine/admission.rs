//! Admits clients to the slots of `fork`, and refuses clients that find no free slot for too long. Plain data.
//!
//! ```text
//! accept ─┬─ a slot is free ─▶ worker process: serves one connection and exits
//!         └─ no slot has become free for a while ─▶ 503 with Retry-After, closed a little later
//! ```
//!
//! While all slots are taken, clients wait in the backlog, and workers close idle connections. If no slot becomes free for
//! [`STALL_TIME`], waiting clients are refused: a refusal costs one send, and no process.

use crate::control::{
    process::clock,
    worker_pool::vocabulary::{ClientId, PoolAction},
};
use std::{collections::VecDeque, time::Duration};
use tarpon_conn::Tick;

/// Decides when to accept a client, and what becomes of a refused one.
#[derive(Debug, Default)]
pub(super) struct Admission {
    listening: Listening,
    /// Since when no slot is free.
    full_since: Option<Tick>,
    /// Accept back-off: the master accepts nothing before this time, as it was out of descriptors or memory.
    accept_after: Option<Tick>,
    /// How many more clients the master accepts without a wait in between.
    burst_left: usize,
    /// Refused clients, and when to close the connection of each.
    refused: VecDeque<(ClientId, Tick)>,
}

/// What the master does with the listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listening {
    /// It holds them for its workers, or until it serves.
    #[default]
    Held,
    /// It accepts clients.
    Open,
    /// It accepts the clients of the backlogs, then closes the listeners: when the last descriptor of a listener closes, the kernel
    /// resets the clients in its backlog.
    Closing {
        /// A successor accepts on the same sockets and may have free slots: no client is refused.
        has_successor: bool,
    },
    Closed,
}

/// How long a client waits for a free slot before it gets a 503. Workers close idle connections within this time.
const STALL_TIME: Duration = Duration::from_secs(2);

/// How many clients the master accepts after one wait: so it waits less often, and still reaps soon.
const BURST_MAX: usize = 16;

/// How long a refused client may take to read the refusal. If the connection were closed at once, the kernel would answer unread bytes of
/// the client with a reset, which may overtake the refusal.
pub(in crate::control::worker_pool) const REFUSED_TIME: Duration = Duration::from_secs(1);

/// The largest number of refused connections that stay open. Beyond it, the oldest is closed at once.
pub(in crate::control::worker_pool) const REFUSED_COUNT_MAX: usize = 64;

impl Admission {
    /// Starts to accept clients.
    pub(super) fn open(&mut self) {
        self.listening = Listening::Open;
    }

    /// Closes the listeners: at once, or after the clients of the backlogs if the master accepts.
    pub(super) fn shut_down(&mut self, has_successor: bool, actions: &mut Vec<PoolAction>) {
        match self.listening {
            Listening::Held => self.close(actions),
            Listening::Open | Listening::Closing { .. } => {
                self.listening = Listening::Closing { has_successor };
            }
            Listening::Closed => {}
        }
    }

    /// Closes the listeners.
    pub(super) fn close(&mut self, actions: &mut Vec<PoolAction>) {
        if !self.is_closed() {
            self.listening = Listening::Closed;
            actions.push(PoolAction::CloseListeners);
        }
    }

    /// Returns whether the listeners are closed.
    pub(super) fn is_closed(&self) -> bool {
        self.listening == Listening::Closed
    }

    /// Notes whether a slot is free, after each event.
    pub(super) fn update(&mut self, now: Tick, is_full: bool) {
        self.full_since = if is_full { self.full_since.or(Some(now)) } else { None };
    }

    /// Returns whether the master accepts a client now: for a worker, or to refuse it.
    pub(super) fn accepts(&self, now: Tick) -> bool {
        let is_open = matches!(self.listening, Listening::Open | Listening::Closing { .. });
        is_open
            && self.accept_after.is_none_or(|at| at <= now)
            && (self.full_since.is_none() || self.is_stalled(now))
    }

    /// Notes that a client waits: others may wait behind it.
    pub(super) fn client_waits(&mut self) {
        self.burst_left = BURST_MAX;
    }

    /// Returns whether the master tries to accept another client at once, after one has got a worker.
    pub(super) fn goes_on(&mut self) -> bool {
        self.burst_left = self.burst_left.saturating_sub(1);
        self.burst_left > 0
    }

    /// Returns whether the master tries to accept a client even if none is reported, to learn when the backlogs are empty.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.listening, Listening::Closing { .. })
    }

    /// Notes that no client waits.
    pub(super) fn backlog_empty(&mut self, actions: &mut Vec<PoolAction>) {
        self.burst_left = 0;
        if self.is_closing() {
            self.close(actions);
        }
    }

    /// Notes that the master could not accept a client: it tries again at this time, or when descriptors are free.
    pub(super) fn back_off(&mut self, until: Tick) {
        self.accept_after = Some(until);
    }

    /// Notes that the master has closed descriptors.
    pub(super) fn descriptors_freed(&mut self) {
        self.accept_after = None;
    }

    /// Refuses a client.
    pub(super) fn refuse(&mut self, client: ClientId, now: Tick, actions: &mut Vec<PoolAction>) {
        actions.push(PoolAction::Refuse { client });
        self.refused.push_back((client, clock::after(now, REFUSED_TIME)));
        if self.refused.len() > REFUSED_COUNT_MAX {
            self.close_refused(actions);
        }
    }

    /// Closes refused connections whose time is up, and ends the accept back-off.
    pub(super) fn expire(&mut self, now: Tick, actions: &mut Vec<PoolAction>) {
        while self.refused.front().is_some_and(|(_, at)| *at <= now) {
            self.close_refused(actions);
        }
        self.accept_after = self.accept_after.filter(|at| *at > now);
    }

    fn close_refused(&mut self, actions: &mut Vec<PoolAction>) {
        if let Some((client, _)) = self.refused.pop_front() {
            actions.push(PoolAction::Close { client });
        }
    }

    /// Returns when the next decision is due without an event.
    pub(super) fn deadline(&self, now: Tick) -> Option<Tick> {
        let stall =
            self.full_since.filter(|_| self.may_refuse()).map(|since| clock::after(since, STALL_TIME));
        let try_now = (self.is_closing() && self.accepts(now)).then_some(now);
        let refused = self.refused.front().map(|(_, at)| *at);
        [stall.filter(|at| *at > now), try_now, self.accept_after, refused].into_iter().flatten().min()
    }

    /// Returns whether waiting clients get a 503 now.
    fn is_stalled(&self, now: Tick) -> bool {
        self.may_refuse() && self.full_since.is_some_and(|since| clock::after(since, STALL_TIME) <= now)
    }

    fn may_refuse(&self) -> bool {
        matches!(self.listening, Listening::Open | Listening::Closing { has_successor: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId(1);

    #[test]
    fn client_without_a_slot_is_refused_after_the_stall_time() {
        let mut admission = Admission::default();
        assert!(!admission.accepts(Tick(0)), "the pool does not serve yet");
        admission.open();
        admission.update(Tick(0), false);
        assert!(admission.accepts(Tick(0)));
        admission.update(Tick(100), true);
        admission.update(Tick(500), true);
        assert_eq!(
            (admission.accepts(Tick(2_099)), admission.deadline(Tick(500))),
            (false, Some(Tick(2_100)))
        );
        assert_eq!((admission.accepts(Tick(2_100)), admission.deadline(Tick(2_100))), (true, None));
        let mut actions = Vec::new();
        admission.refuse(CLIENT, Tick(2_100), &mut actions);
        assert_eq!(names(&actions), ["refuse 1"]);
        assert_eq!(admission.deadline(Tick(2_100)), Some(Tick(3_100)));
        admission.expire(Tick(3_100), &mut actions);
        assert_eq!(names(&actions), ["refuse 1", "close 1"]);
        assert!(admission.accepts(Tick(3_100)), "no slot is free: the next client is refused too");
        // A slot becomes free, and is taken.
        admission.update(Tick(3_200), false);
        admission.update(Tick(3_300), true);
        assert_eq!(
            (admission.accepts(Tick(3_300)), admission.deadline(Tick(3_300))),
            (false, Some(Tick(5_300)))
        );
    }

    #[test]
    fn listeners_close_when_the_backlogs_are_empty_and_no_client_is_refused_if_there_is_a_successor() {
        for has_successor in [false, true] {
            let (mut admission, mut actions) = (Admission::default(), Vec::new());
            admission.open();
            admission.backlog_empty(&mut actions);
            admission.update(Tick(0), true);
            admission.shut_down(has_successor, &mut actions);
            assert_eq!(names(&actions), Vec::<String>::new());
            assert_eq!(admission.accepts(Tick(2_000)), !has_successor);
            assert_eq!(admission.deadline(Tick(0)), (!has_successor).then_some(Tick(2_000)));
            admission.update(Tick(3_000), false);
            assert_eq!(
                (admission.accepts(Tick(3_000)), admission.deadline(Tick(3_000))),
                (true, Some(Tick(3_000)))
            );
            admission.backlog_empty(&mut actions);
            assert_eq!((names(&actions), admission.is_closed()), (vec!["close listeners".to_owned()], true));
            assert_eq!((admission.accepts(Tick(3_000)), admission.deadline(Tick(3_000))), (false, None));
        }
    }

    #[test]
    fn pool_that_does_not_accept_closes_its_listeners_at_once() {
        let (mut admission, mut actions) = (Admission::default(), Vec::new());
        admission.shut_down(false, &mut actions);
        admission.shut_down(true, &mut actions);
        assert_eq!(names(&actions), ["close listeners"]);
    }

    #[test]
    fn accept_back_off_ends_in_time_or_when_descriptors_are_free() {
        let (mut admission, mut actions) = (Admission::default(), Vec::new());
        admission.open();
        for frees in [false, true] {
            admission.back_off(Tick(100));
            assert_eq!((admission.accepts(Tick(99)), admission.deadline(Tick(0))), (false, Some(Tick(100))));
            match frees {
                true => admission.descriptors_freed(),
                false => admission.expire(Tick(100), &mut actions),
            }
            assert_eq!((admission.accepts(Tick(100)), admission.deadline(Tick(100))), (true, None));
        }
    }

    #[test]
    fn number_of_refused_connections_is_limited() {
        let (mut admission, mut actions) = (Admission::default(), Vec::new());
        for number in 0..=REFUSED_COUNT_MAX as u64 {
            admission.refuse(ClientId(number), Tick(0), &mut actions);
        }
        let last = names(&actions).pop();
        assert_eq!((actions.len(), last.as_deref()), (REFUSED_COUNT_MAX + 2, Some("close 0")));
    }

    fn names(actions: &[PoolAction]) -> Vec<String> {
        let name = |action: &PoolAction| match action {
            PoolAction::Refuse { client } => format!("refuse {}", client.0),
            PoolAction::Close { client } => format!("close {}", client.0),
            PoolAction::CloseListeners => "close listeners".to_owned(),
            other => panic!("{other:?}"),
        };
        actions.iter().map(name).collect()
    }
}
