//! The access logs of a generation: when each is opened again, and when its file is due for rotation. The driver opens the files.
//!
//! The supervisor alone opens and rotates: the server may open nothing. The server writes to the file it has until it gets the next one,
//! so no line is lost.

use super::event::{Action, GenerationId, LogId};
use crate::{
    base::log_config::LogOwner,
    control::process::{Backoff, clock},
};
use std::{mem, time::Duration};
use tarpon_conn::Tick;

/// The logs of a generation, by number. Owners that log to the same place share one.
#[derive(Debug)]
pub(super) struct LogFiles {
    generation: GenerationId,
    logs: Vec<LogEntry>,
    /// When to check the files that rotate.
    check_at: Option<Tick>,
}

/// What the configuration says about a log.
#[derive(Clone, Debug)]
pub(super) struct LogFilePlan {
    /// The owners of the lines.
    pub(super) owners: Vec<LogOwner>,
    /// The log is a file that rotates.
    pub(super) rotates: bool,
}

#[derive(Debug)]
struct LogEntry {
    plan: LogFilePlan,
    /// When to open the log again.
    open_at: Option<Tick>,
    /// The last attempt to open it.
    opened: Option<Tick>,
    backoff: Backoff,
    /// The last attempt to open or rotate the log failed.
    is_failing: bool,
}

/// How often the driver checks whether a file is full or old. A core writes some 20 MB in this time, at most.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two attempts to open a log whose reader has gone, however often a server reports it.
const OPEN_INTERVAL: Duration = Duration::from_secs(1);

impl LogFiles {
    pub(super) fn new(generation: GenerationId, plans: Vec<LogFilePlan>) -> LogFiles {
        let log = |plan| {
            let backoff = Backoff::default();
            LogEntry { plan, open_at: None, opened: None, backoff, is_failing: false }
        };
        LogFiles { generation, logs: plans.into_iter().map(log).collect(), check_at: None }
    }

    /// Starts to check the files that rotate. Before the generation serves, another server may still own them.
    pub(super) fn start(&mut self, now: Tick) {
        if self.logs.iter().any(|log| log.plan.rotates) {
            self.check_at = Some(now);
        }
    }

    /// Returns all logs with their owners: what a new server gets.
    pub(super) fn all(&self) -> impl Iterator<Item = (LogId, LogOwner)> {
        let of_log = |(number, log): (usize, &LogEntry)| {
            let id = LogId(self.generation, number);
            log.plan.owners.clone().into_iter().map(move |of| (id, of))
        };
        self.logs.iter().enumerate().flat_map(of_log)
    }

    /// Opens all logs again: an administrator has renamed the files.
    pub(super) fn reopen(&mut self, now: Tick) {
        self.logs.iter_mut().for_each(|log| log.open_at = Some(now));
    }

    /// Opens the log of an owner again: its reader has gone.
    pub(super) fn broken(&mut self, of: LogOwner, now: Tick) {
        if let Some(log) = self.logs.iter_mut().find(|log| log.plan.owners.contains(&of))
            && log.open_at.is_none()
        {
            log.open_at = Some(log.opened.map_or(now, |opened| now.max(clock::after(opened, OPEN_INTERVAL))));
        }
    }

    /// Notes that a log was opened. Returns its owners.
    pub(super) fn opened(&mut self, id: LogId) -> Vec<LogOwner> {
        let Some(log) = self.logs.get_mut(id.1) else { return Vec::new() };
        (log.backoff, log.is_failing) = (Backoff::default(), false);
        log.plan.owners.clone()
    }

    /// Notes that a log could not be opened, and schedules another attempt. Returns whether it is the first failure in a row.
    pub(super) fn open_failed(&mut self, id: LogId, now: Tick) -> bool {
        let Some(log) = self.logs.get_mut(id.1) else { return false };
        log.open_at = Some(clock::after(now, log.backoff.after_failure().max(OPEN_INTERVAL)));
        !mem::replace(&mut log.is_failing, true)
    }

    /// Notes that a file could not be rotated: the next check tries again. Returns whether it is the first failure in a row.
    pub(super) fn rotate_failed(&mut self, id: LogId) -> bool {
        self.logs.get_mut(id.1).is_some_and(|log| !mem::replace(&mut log.is_failing, true))
    }

    /// Returns when [`update`](LogFiles::update) has something to do.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.logs.iter().map(|log| log.open_at).chain([self.check_at]).flatten().min()
    }

    /// Opens and checks what is due.
    pub(super) fn update(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let is_due = |at: Option<Tick>| at.is_some_and(|at| at <= now);
        for (number, log) in self.logs.iter_mut().enumerate() {
            let id = LogId(self.generation, number);
            if is_due(log.open_at) {
                (log.open_at, log.opened) = (None, Some(now));
                actions.push(Action::OpenLog(id));
            } else if is_due(self.check_at) && log.plan.rotates {
                actions.push(Action::CheckLog(id));
            }
        }
        if is_due(self.check_at) {
            self.check_at = Some(clock::after(now, CHECK_INTERVAL));
        }
    }
}
