//! The slots of the pool: the master reaps their processes, starts new ones, and assigns connections to free slots.

use super::{master::Master, pool_process::PoolProcess};
use crate::{
    control::{
        process::{ProcessExit as End, RestartPolicy, channel::Channel},
        supervisor::{Notice, Role},
    },
    sys::signals::Signals,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{WaitOptions, wait},
    time::Timespec,
};
use std::{
    io,
    time::{Duration, Instant},
};

/// A slot for a process.
#[derive(Default)]
pub(super) struct PoolSlot {
    pub(super) process: Option<PoolProcess>,
    backoff: RestartPolicy,
    /// When to start a process.
    pub(super) start_at: Option<Instant>,
}

/// How long the master tries no fork after one has failed.
const FORK_BACKOFF: Duration = Duration::from_secs(1);

/// How long the aux process may take to write the log records that the workers have left.
const AUX_TIME_MAX: Duration = Duration::from_secs(3);

impl PoolSlot {
    /// Schedules another process in place of one that has exited.
    fn restart(&mut self, role: Role, end: &End, lived: std::time::Duration, emit: fn(Notice<'_>)) {
        let delay = self.backoff.after_exit(lived);
        emit(Notice::ProcessEnded { role, how: &end.to_string(), restart_delay: delay });
        self.start_at = Some(Instant::now() + delay);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.start_at.is_some_and(|at| at <= now)
    }
}

impl Master<'_> {
    /// Reaps all processes that have exited.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        while self.signals.next()?.is_some() {}
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Ok(None) | Err(Errno::CHILD) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let has_pid = |slot: &PoolSlot| slot.process.as_ref().is_some_and(|process| process.pid() == pid);
            if has_pid(&self.aux) {
                let (end, lived) = self.aux.process.take().expect("the slot has this process").end(status);
                self.aux.restart(Role::Aux, &end, lived, self.emit);
            } else if let Some(slot) = self.workers.iter().position(has_pid) {
                let (end, lived) =
                    self.workers[slot].process.take().expect("the slot has this process").end(status);
                self.worker_ended(slot, &end, lived);
            }
        }
    }

    fn worker_ended(&mut self, slot: usize, end: &End, lived: std::time::Duration) {
        if !end.is_success() {
            // The worker could not update the shared memory itself.
            self.shared.counters[slot].lose_open();
            self.shared.idle_workers.set(slot, false);
        }
        if self.forks() {
            if !end.is_success() {
                (self.emit)(Notice::ConnectionLost(&end.to_string()));
            }
            self.free_slot(slot);
        } else if self.draining.is_none() {
            self.workers[slot].restart(Role::Worker, end, lived, self.emit);
        }
    }

    /// Makes a slot free for a connection.
    pub(super) fn free_slot(&mut self, slot: usize) {
        self.free_slots.insert(slot);
        match self.fork_after {
            Some(_) => self.resume_forking(),
            None => self.shared.idle_workers.set(slot, true),
        }
        self.acceptor.slot_freed();
    }

    /// Takes a free slot for a connection.
    fn take_slot(&mut self, slot: usize) {
        self.free_slots.remove(&slot);
        self.shared.idle_workers.set(slot, false);
    }

    /// Sends queued messages to all processes.
    pub(super) fn flush_processes(&mut self) {
        for slot in self.workers.iter_mut().chain([&mut self.aux]) {
            if let Some(process) = &mut slot.process {
                process.flush();
            }
        }
    }

    /// Starts another aux process when it is due.
    pub(super) fn update_aux(&mut self) {
        let now = Instant::now();
        if self.aux.is_due(now) && self.start_aux().is_err() {
            // The fork failed: retry later.
            self.aux.start_at = Some(now + FORK_BACKOFF);
        }
    }

    /// With `prefork`, starts the workers that are due. With `fork`, accepts connections and starts a worker for each.
    pub(super) fn update_slots(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if !self.forks() {
            for slot in 0..self.workers.len() {
                let is_due = self.workers[slot].is_due(now);
                let mut start = || self.start_worker(slot, Channel::pair()?, &mut None);
                if is_due && start().is_err() {
                    // The fork failed: retry later.
                    self.workers[slot].start_at = Some(now + FORK_BACKOFF);
                }
            }
            return Ok(());
        }
        if self.fork_after.is_some_and(|at| at <= now) {
            self.resume_forking();
        }
        while self.fork_after.is_none()
            && let Some(slot) = self.free_slots.first().copied()
        {
            // The channel comes before the accept: without descriptors, clients wait in the backlog.
            let Some(channel) = self.spare_channel.take().or_else(|| Channel::pair().ok()) else {
                self.pause_forking(now);
                break;
            };
            let mut connection = self.acceptor.accept()?;
            if connection.is_none() {
                self.spare_channel = Some(channel);
                break;
            }
            self.take_slot(slot);
            if self.start_worker(slot, channel, &mut connection).is_err() {
                self.free_slots.insert(slot);
                self.pause_forking(now);
                if let Some(connection) = connection {
                    self.acceptor.refuse(connection);
                }
                break;
            }
        }
        self.acceptor.update(self.is_full())
    }

    /// With `fork`: returns whether the master can start no worker now.
    pub(super) fn is_full(&self) -> bool {
        self.free_slots.is_empty() || self.fork_after.is_some()
    }

    /// Pauses forking after a failure, until a back-off has passed or a worker exits. Meanwhile no slot counts as idle, so that workers
    /// close idle connections.
    fn pause_forking(&mut self, now: Instant) {
        self.fork_after = Some(now + FORK_BACKOFF);
        self.free_slots.iter().for_each(|&slot| self.shared.idle_workers.set(slot, false));
    }

    fn resume_forking(&mut self) {
        self.fork_after = None;
        self.free_slots.iter().for_each(|&slot| self.shared.idle_workers.set(slot, true));
    }
}

/// Closes the channel to the aux process, and waits until it has written the remaining log records and exited.
pub(super) fn end_aux(aux: &mut PoolSlot, signals: &mut Signals) {
    let Some(process) = aux.process.take() else { return };
    let pid = process.pid();
    drop(process);
    let deadline = Instant::now() + AUX_TIME_MAX;
    while Instant::now() < deadline {
        match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(None) => {
                let time = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                let _ = poll(&mut [PollFd::new(&*signals, PollFlags::IN)], Some(&time));
                while let Ok(Some(_)) = signals.next() {}
            }
            _ => return,
        }
    }
}
