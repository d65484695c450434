//! Servers that have been told to exit: each has until its deadline, and is killed then.

use super::event::{Action, ToChild};
use crate::{
    control::process::{ProcessId, clock},
    data::worker::mailbox::ShutdownMode,
};
use std::time::Duration;
use tarpon_conn::Tick;

/// A server that has been told to exit.
#[derive(Debug)]
pub(super) struct DrainingServer {
    pub(super) process: ProcessId,
    /// The helpers of the server, which are killed after it has exited.
    pub(super) helpers: Vec<ProcessId>,
    /// When the server is killed.
    deadline: Tick,
    /// When a server that drains is told to stop, and the grace period that it has then.
    stop: Option<(Tick, Duration)>,
    pub(super) is_overdue: bool,
    /// Why the server cannot go on, in its own words.
    pub(super) why: Option<String>,
}

/// How much longer than the grace period a server may take to exit.
pub(super) const OVERDUE: Duration = Duration::from_secs(10);

/// How long a draining server waits for silent clients if its successor waits for its exit: a client that is busy sends a request within
/// this time, and learns from the response that the connection closes.
const PATIENCE: Duration = Duration::from_secs(1);

impl DrainingServer {
    /// Orders a server to drain or stop.
    pub(super) fn start(
        process: ProcessId,
        helpers: Vec<ProcessId>,
        now: Tick,
        mode: ShutdownMode,
        grace: Duration,
        actions: &mut Vec<Action>,
    ) -> DrainingServer {
        actions.push(Action::Send(process, ToChild::Shutdown { mode, grace }));
        let deadline = clock::after(now, grace.saturating_add(OVERDUE));
        DrainingServer { process, helpers, deadline, stop: None, is_overdue: false, why: None }
    }

    /// Limits the time for silent clients: the successor starts only after the exit of this server.
    pub(super) fn limit_patience(&mut self, now: Tick, grace: Duration) {
        let patience = PATIENCE.min(grace);
        self.stop = Some((clock::after(now, patience), grace - patience));
    }

    /// Tells the server to stop within this time, or earlier if it was told so.
    pub(super) fn stop(&mut self, now: Tick, grace: Duration, actions: &mut Vec<Action>) {
        self.stop = None;
        self.deadline = self.deadline.min(clock::after(now, grace.saturating_add(OVERDUE)));
        actions.push(Action::Send(self.process, ToChild::Shutdown { mode: ShutdownMode::Stop, grace }));
    }

    /// Returns when [`update`](DrainingServer::update) has something to do.
    pub(super) fn deadline(&self) -> Option<Tick> {
        (!self.is_overdue).then(|| self.stop.map_or(self.deadline, |(at, _)| at.min(self.deadline)))
    }

    /// Stops or kills the server when its time has come.
    pub(super) fn update(&mut self, now: Tick, actions: &mut Vec<Action>) {
        if let Some((_, grace)) = self.stop.take_if(|(at, _)| *at <= now) {
            self.stop(now, grace, actions);
        }
        if !self.is_overdue && self.deadline <= now {
            self.is_overdue = true;
            actions.push(Action::Kill(self.process));
        }
    }
}
