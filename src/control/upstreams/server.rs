//! A server as the helper sees it: its addresses, the requests for connections to it, its checks and its health.
//!
//! ```text
//! request ─▶ queue ── addresses are known, and there is room ─▶ attempt ─▶ reply
//!                └─ the time of the request is over ─▶ reply
//! ```

use super::{
    check::{Check, CheckKind},
    connect::{ConnectAddress, ConnectAttempt, ConnectError, ConnectProgress},
    health::{HealthChange, HealthRules, ServerHealth},
    message::FromUpstreams,
    resolve::Addresses,
    transit::Transit,
};
use crate::{
    base::upstream_config::HealthCheck,
    control::{helpers::ReplySender, process::clock::after},
    data::upstreams::{
        connect::{ConnectOutcome, ConnectRequest},
        table::{ConnectCount, ServerAvailability, UpstreamTable},
    },
};
use rustix::io::Errno;
use std::{collections::VecDeque, time::Duration};
use tarpon_conn::Tick;

/// What the helper knows of a server from the start.
#[derive(Clone, Debug)]
pub(super) struct ServerSetup {
    /// Its address. `None`: its name is looked up.
    pub(super) destination: Option<ConnectAddress>,
    pub(super) is_draining: bool,
    pub(super) connect_timeout: Duration,
    pub(super) max_connections: Option<u32>,
    pub(super) rules: HealthRules,
    pub(super) check: Option<(HealthCheck, CheckKind)>,
}

/// A server.
#[derive(Debug)]
pub(super) struct HelperServer {
    number: usize,
    setup: ServerSetup,
    health: ServerHealth,
    /// `None`: its name has not been looked up yet. Empty: it has no address.
    addresses: Option<Vec<ConnectAddress>>,
    /// The last failed look-up was reported.
    is_unresolved: bool,
    queue: VecDeque<PendingConnect>,
    attempts: Vec<(ConnectAttempt, PendingConnect)>,
    transit: Transit,
    check: Option<Check>,
    next_check: Tick,
    /// Failed exchanges that were counted already.
    seen_failures: u64,
    next_look: Tick,
}

/// A request for a connection.
#[derive(Debug)]
struct PendingConnect {
    row: u16,
    reply: ReplySender<ConnectOutcome>,
    deadline: Tick,
}

/// What a server needs of the event loop, and tells it.
pub(super) struct ServerContext<'a> {
    pub(super) now: Tick,
    pub(super) table: &'a UpstreamTable,
    pub(super) messages: &'a mut Vec<FromUpstreams>,
    /// Servers that gave no connection, with the reason.
    pub(super) failures: &'a mut Vec<(u16, String)>,
    /// Servers whose names are to be looked up again.
    pub(super) look_up: &'a mut Vec<usize>,
}

/// How often the failures that workers have counted are read, in milliseconds, while there are connections.
const LOOK_MS: u64 = 500;

/// How often the number of open connections is read, in milliseconds, while requests wait for room.
const ROOM_WAIT_MS: u64 = 10;

/// Requests for connections to one server, at most. Each worker limits its own.
const QUEUE_LEN_MAX: usize = 16 * 1024;

impl HelperServer {
    pub(super) fn new(number: usize, setup: ServerSetup, table: &UpstreamTable) -> HelperServer {
        // A server that was down stays down: another helper would need several checks to find that.
        let was_down = setup.check.is_some() && table.state(number) == ServerAvailability::Down;
        let health = ServerHealth::new(setup.rules, setup.is_draining, was_down);
        table.set_waiting(number, 0);
        table.set_state(number, health.state());
        HelperServer {
            number,
            health,
            addresses: setup.destination.clone().map(|destination| vec![destination]),
            is_unresolved: false,
            queue: VecDeque::new(),
            attempts: Vec::new(),
            transit: Transit::default(),
            check: None,
            next_check: Tick(0),
            // Those of an earlier helper.
            seen_failures: table.failures(number),
            next_look: Tick(0),
            setup,
        }
    }

    /// Takes a request for a connection.
    pub(super) fn request(&mut self, request: ConnectRequest, reply: ReplySender<ConnectOutcome>, now: Tick) {
        if self.queue.len() >= QUEUE_LEN_MAX {
            return reply.send(Ok(ConnectOutcome::Full), None);
        }
        let deadline = after(now, self.setup.connect_timeout);
        self.queue.push_back(PendingConnect { row: request.row, reply, deadline });
    }

    /// Takes the result of a look-up of its name.
    pub(super) fn resolved(&mut self, addresses: Addresses, cx: &mut ServerContext<'_>) {
        match addresses {
            Ok(found) => {
                self.addresses = Some(found.into_iter().map(ConnectAddress::Tcp).collect());
                self.is_unresolved = false;
            }
            Err(why) => {
                // Those of before are better than none.
                self.addresses.get_or_insert_default();
                if !std::mem::replace(&mut self.is_unresolved, true) {
                    cx.messages.push(FromUpstreams::Unresolved { server: self.number as u16, why });
                }
            }
        }
    }

    /// Goes on as far as possible without waiting.
    pub(super) fn drive(&mut self, cx: &mut ServerContext<'_>) {
        self.start_attempts(cx);
        self.drive_attempts(cx);
        self.drive_check(cx);
        self.look_at_failures(cx);
        let change = self.health.update(cx.now);
        self.changed(change, cx, String::new);
        cx.table.set_state(self.number, self.health.state());
        cx.table.set_weight(self.number, self.health.weight(cx.now));
    }

    /// Starts attempts for the requests for which there is room.
    fn start_attempts(&mut self, cx: &mut ServerContext<'_>) {
        let was_waiting = !self.queue.is_empty();
        while let Some(deadline) = self.queue.front().map(|request| request.deadline) {
            let has_room = self.has_room(cx);
            let refused = match &self.addresses {
                None if deadline <= cx.now => Some(ConnectOutcome::Unreachable),
                Some(_) if deadline <= cx.now => Some(ConnectOutcome::Full),
                None => break,
                Some(_) if !has_room => break,
                Some(_) => None,
            };
            let Some(pending) = self.queue.pop_front() else { break };
            match (refused, &self.addresses) {
                (None, Some(addresses)) => {
                    self.attempts.push((ConnectAttempt::new(addresses, pending.deadline), pending));
                }
                (refused, _) => {
                    if refused == Some(ConnectOutcome::Full) {
                        let time = self.setup.connect_timeout;
                        let why =
                            format!("all of its connections were in use for {time:?} (max-connections)");
                        cx.failures.push((self.number as u16, why));
                    }
                    pending.reply.send(Ok(refused.unwrap_or(ConnectOutcome::Unreachable)), None);
                }
            }
        }
        if was_waiting && self.setup.max_connections.is_some() {
            cx.table.set_waiting(self.number, self.queue.len() as u64);
        }
    }

    fn has_room(&mut self, cx: &ServerContext<'_>) -> bool {
        let Some(max) = self.setup.max_connections else { return true };
        let in_transit = self.transit.count(self.number, cx.table, cx.now);
        cx.table.open(self.number) + in_transit + (self.attempts.len() as u64) < u64::from(max)
    }

    fn drive_attempts(&mut self, cx: &mut ServerContext<'_>) {
        let mut at = 0;
        while let Some((attempt, _)) = self.attempts.get_mut(at) {
            let progress = attempt.drive(cx.now);
            if let ConnectProgress::Waits = progress {
                at += 1;
                continue;
            }
            let (_, pending) = self.attempts.swap_remove(at);
            match progress {
                ConnectProgress::Waits => {}
                ConnectProgress::Connected(socket, destination) => {
                    self.prefer(destination);
                    cx.table.add(self.number, ConnectCount::Connected);
                    if self.setup.max_connections.is_some() {
                        let received = cx.table.opened(pending.row.into(), self.number);
                        self.transit.add(pending.row, received, cx.now);
                    }
                    pending.reply.send(Ok(ConnectOutcome::Connected), Some(socket));
                }
                ConnectProgress::Failed(error) => {
                    cx.table.add(self.number, ConnectCount::Failed);
                    pending.reply.send(Ok(outcome(error)), None);
                    self.connect_failed(error, cx);
                }
            }
        }
    }

    /// Handles an attempt that has failed.
    fn connect_failed(&mut self, error: ConnectError, cx: &mut ServerContext<'_>) {
        cx.failures.push((self.number as u16, format!("cannot connect: {error}")));
        if self.setup.destination.is_none() {
            cx.look_up.push(self.number);
        }
        // This process lacks something, and not the server.
        if matches!(error, ConnectError::Failed(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) {
            return;
        }
        let change = self.health.failed(cx.now, 1);
        self.changed(change, cx, || error.to_string());
    }

    /// Tries an address first that has accepted a connection.
    fn prefer(&mut self, destination: ConnectAddress) {
        let addresses = self.addresses.get_or_insert_default();
        if let Some(place) = addresses.iter().position(|address| *address == destination) {
            addresses[..=place].rotate_right(1);
        }
    }

    fn drive_check(&mut self, cx: &mut ServerContext<'_>) {
        let Some((HealthCheck { interval, timeout, .. }, kind)) = &self.setup.check else { return };
        if self.check.is_none()
            && self.next_check <= cx.now
            && let Some(addresses) = &self.addresses
        {
            self.check = Some(Check::new(kind.clone(), addresses, after(cx.now, *timeout)));
            self.next_check = after(cx.now, *interval);
        }
        let Some(result) = self.check.as_mut().and_then(|check| check.drive(cx.now)) else { return };
        self.check = None;
        if result.is_err() && self.setup.destination.is_none() {
            cx.look_up.push(self.number);
        }
        let change = self.health.checked(cx.now, result.is_ok());
        self.changed(change, cx, || result.err().unwrap_or_default());
    }

    /// Reads the failures that workers have counted.
    fn look_at_failures(&mut self, cx: &mut ServerContext<'_>) {
        if self.setup.rules.max_fails == 0 || cx.now < self.next_look {
            return;
        }
        self.next_look = cx.now.after(LOOK_MS);
        let failures = cx.table.failures(self.number);
        let new = failures.saturating_sub(self.seen_failures);
        self.seen_failures = failures;
        let change = self.health.failed(cx.now, new);
        self.changed(change, cx, || "its responses fail".to_owned());
    }

    /// Reports a change of its health.
    fn changed(
        &self,
        change: Option<HealthChange>,
        cx: &mut ServerContext<'_>,
        why: impl FnOnce() -> String,
    ) {
        let server = self.number as u16;
        cx.messages.extend(change.map(|change| match change {
            HealthChange::Down(count) => {
                FromUpstreams::Down { server, why: format!("{}, at {count} checks in a row", why()) }
            }
            HealthChange::Suspended(count) => {
                let time = self.setup.rules.fail_time;
                FromUpstreams::Down { server, why: format!("{}, {count} times within {time:?}", why()) }
            }
            HealthChange::Up => FromUpstreams::Up { server },
        }));
    }

    /// Calls `each` with the sockets to wait for: those of attempts, and that of the check. It may note their events.
    pub(super) fn each_wait(&mut self, mut each: impl FnMut(ServerWait<'_>)) {
        self.attempts.iter_mut().for_each(|(attempt, _)| each(ServerWait::Attempt(attempt)));
        self.check.iter_mut().for_each(|check| each(ServerWait::Check(check)));
    }

    /// Returns when the server goes on without an event.
    pub(super) fn deadline(&self, table: &UpstreamTable, now: Tick) -> Option<Tick> {
        let waits_for_room = self.addresses.is_some() && !self.queue.is_empty();
        let look = self.setup.rules.max_fails > 0 && table.open(self.number) > 0;
        let starts_check = self.setup.check.is_some() && self.check.is_none() && self.addresses.is_some();
        let attempts = self.attempts.iter().map(|(attempt, _)| attempt.wake_at()).min();
        [
            attempts,
            self.queue.front().map(|request| request.deadline),
            waits_for_room.then(|| now.after(ROOM_WAIT_MS)),
            look.then_some(self.next_look),
            starts_check.then_some(self.next_check),
            self.check.as_ref().map(Check::wake_at),
            self.health.deadline(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// Something of a server that waits for its socket.
pub(super) enum ServerWait<'a> {
    Attempt(&'a mut ConnectAttempt),
    Check(&'a mut Check),
}

fn outcome(error: ConnectError) -> ConnectOutcome {
    match error {
        ConnectError::TimedOut => ConnectOutcome::TimedOut,
        ConnectError::Failed(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
            ConnectOutcome::Full
        }
        ConnectError::NoAddress | ConnectError::Failed(_) => ConnectOutcome::Unreachable,
    }
}
