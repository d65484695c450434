//! A worker that serves one connection at a time and waits for that alone, in `poll(2)`: the oldest model there is, for threads
//! and for processes.
//!
//! ```text
//! asked of the kernel    connection   mailbox   listeners …
//!                                     └─────────────────────┘   free: waits for a client
//!                        └────────────────────┘                 serving: a client that waits is taken by who is free
//!                        └──────────────────────────────────┘   serving, and nobody is free
//! ```
//!
//! Nobody is free, and somebody waits for more than a moment: then a connection that is used gets one more answer, which says
//! that it is the last one, and one that is not used gives way. Its worker accepts first and parts then, so at most one gives way
//! to each client. It is left open for a while, with its sending side closed: a request that was on its way meets the end of
//! the stream and no reset.
//!
//! A listener that somebody connects to wakes all who wait there, and one of them gets the client.

use super::{
    WorkerReady, accept,
    readiness::{
        drive::{self, Closed, NextDrive, Readiness},
        poll::{learn, to_ask},
    },
};
use crate::{
    data::worker::{Slot, Worker, WorkerConfig, idle_workers::IdleWorkers, mailbox::ShutdownMode},
    sys::{
        BACKLOG,
        poll::{PollEntry, PollEvents, poll},
        shared::SharedRow,
    },
};
use libc::POLLIN;
use rustix::{
    io::Errno,
    net::{Shutdown, shutdown},
};
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, OwnedFd},
};
use tarpon_conn::Tick;

/// Runs a worker until it is told to stop.
pub(crate) fn run(outfit: WorkerConfig, begun: WorkerReady) -> io::Result<()> {
    let mut blocking = Blocking::new(outfit)?;
    begun.tell();
    loop {
        blocking.round()?;
        if blocking.worker.is_over() {
            return Ok(());
        }
    }
}

/// Serves a connection that was accepted, and returns when it is over. The outfit has no listeners.
pub(crate) fn serve(outfit: WorkerConfig, connection: OwnedFd) -> io::Result<()> {
    let mut blocking = Blocking::new(outfit)?;
    // Its first turn comes before its first wait, and may be recorded.
    blocking.worker.tell_time();
    // Of one that is only just beginning its parent may want to be rid already.
    let farewell = blocking.worker.read_mail();
    blocking.begin(connection);
    if farewell == Some(ShutdownMode::Stop) {
        blocking.stop();
    }
    blocking.leave_room();
    while blocking.is_serving() && !blocking.worker.is_over() {
        blocking.round()?;
        blocking.leave_room();
    }
    Ok(())
}

struct Blocking {
    worker: Worker<Readiness>,
    place: IdleMark,
    /// What the kernel is asked: see the module. Without a connection the first one is out of date.
    asked: Vec<PollEntry>,
    /// The connection has more to do although the kernel will not tell.
    again: bool,
    quiet: Quiet,
    crowd: WaitingClients,
    /// The listener that is asked first: none is asked always before another.
    first_listener: usize,
    /// Accepted when the worker was told to leave.
    waiting: VecDeque<OwnedFd>,
    /// As many as there are, of which each may take its share of who waits.
    worker_count: usize,
    /// Connections that gave way, and when each is closed.
    parting: VecDeque<(OwnedFd, Tick)>,
}

/// Whether somebody waits and nobody is free, as far as it is known to who serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitingClients {
    /// It was not so, the last time.
    No,
    /// It was so at this time.
    Seen(Tick),
    /// It still was a while later: the connection was told that its next response is the last one.
    Told,
}

/// A worker's row in the roster.
struct IdleMark {
    roster: SharedRow<IdleWorkers>,
    number: usize,
    is_free: bool,
}

/// For how long the connection has been as it is.
struct Quiet {
    since: Tick,
    /// Its deadline: every request and every response moves it, and nothing else does.
    deadline: Tick,
}

/// What the last wait has told.
struct Woken {
    connection: PollEvents,
    mail: bool,
    client: bool,
}

/// The slot of the only connection.
const ONLY: u32 = 0;

/// Where the kernel is asked about it, about the mailbox, and about the first listener.
const CONNECTION: usize = 0;
const MAILBOX: usize = 1;
const LISTENERS: usize = 2;

/// A connection that is not used gives way after so long, in milliseconds. A client that reads a page and then asks for what is
/// on it takes less.
const PATIENCE_MS: u64 = 250;

/// Who waits for so long, in milliseconds, is not about to be taken by somebody who is only just free: connections are told.
const CROWD_MS: u64 = 20;

/// With a connection that is not used, a worker looks so often whether anybody else is free, in milliseconds. Nobody says when
/// the last one is not: that would cost every connection something.
const LOOK_MS: u64 = 1_000;

/// How long a connection that gave way is left open, in milliseconds: as others are on which the last response has left.
const PARTING_MS: u64 = 2_000;

/// So many of these a worker has at most. Beyond, the oldest one is closed.
const PARTING_COUNT_MAX: usize = 16;

impl Blocking {
    fn new(outfit: WorkerConfig) -> io::Result<Blocking> {
        accept::never_wait(&outfit.listeners)?;
        let place = IdleMark { roster: outfit.roster.clone(), number: outfit.number, is_free: true };
        let worker_count = outfit.worker_count;
        // Who comes is there before who gives way has gone. Whatever the process has descriptors for: buffers are counted by it.
        let connection_count_max = 2;
        let worker: Worker<Readiness> = Worker::new(WorkerConfig { connection_count_max, ..outfit });
        let mailbox = PollEntry::new(worker.mailbox.as_fd(), POLLIN);
        let listeners = worker.listeners.iter().map(|listener| PollEntry::new(listener.as_fd(), POLLIN));
        let asked = [mailbox, mailbox].into_iter().chain(listeners).collect();
        Ok(Blocking {
            worker,
            place,
            asked,
            again: false,
            quiet: Quiet { since: Tick(0), deadline: Tick(0) },
            crowd: WaitingClients::No,
            first_listener: 0,
            waiting: VecDeque::new(),
            worker_count,
            parting: VecDeque::with_capacity(PARTING_COUNT_MAX + 1),
        })
    }

    fn is_serving(&self) -> bool {
        !self.worker.slots.is_empty()
    }

    /// Whether there is no connection, or none that waits for more than its client to go.
    fn is_done(&mut self) -> bool {
        self.only().is_none_or(|slot| slot.shut)
    }

    fn round(&mut self) -> io::Result<()> {
        let woken = self.wait()?;
        self.worker.tell_time();
        if woken.mail {
            self.mail()?;
        }
        if woken.connection != 0 {
            self.ready(woken.connection);
        } else if self.again {
            self.turn();
        }
        while self.worker.next_expired().is_some() {
            self.turn();
        }
        if woken.client {
            self.client()?;
        }
        while self.is_done()
            && let Some(fd) = self.waiting.pop_front()
        {
            if self.is_serving() {
                self.part();
            }
            self.begin(fd);
            if self.worker.is_stopping() {
                self.stop();
            }
        }
        let now = self.worker.commons.now;
        while self.parting.front().is_some_and(|(_, by)| *by <= now) {
            self.parting.pop_front();
        }
        self.worker.end_batch();
        Ok(())
    }

    /// Waits for what concerns the worker now.
    fn wait(&mut self) -> io::Result<Woken> {
        let is_serving = self.is_serving();
        self.place.set(!is_serving && !self.worker.listeners.is_empty() && self.worker.may_accept());
        // Looked at once: whether anybody is free may change at any moment.
        let end = if self.wants_client() { self.asked.len() } else { LISTENERS };
        let wait_ms = self.wait_ms(end > LISTENERS);
        if let Some(slot) = self.only() {
            let entry = PollEntry::new(slot.fd.as_fd(), to_ask(&slot.state));
            self.asked[CONNECTION] = entry;
        }
        let asked = &mut self.asked[if is_serving { CONNECTION } else { MAILBOX }..end];
        match poll(asked, wait_ms) {
            // What was told before is still there.
            Err(Errno::INTR) => Ok(Woken { connection: 0, mail: false, client: false }),
            told => {
                told?;
                let is_told = |entry: &PollEntry| entry.told() != 0;
                let client = self.asked[LISTENERS..end].iter().any(is_told);
                if !client && self.is_seen_for_long() {
                    self.crowd = WaitingClients::No;
                }
                Ok(Woken {
                    connection: if is_serving { self.asked[CONNECTION].told() } else { 0 },
                    mail: is_told(&self.asked[MAILBOX]),
                    client,
                })
            }
        }
    }

    /// Whether it would take a client who waits, or wants to know of him.
    fn wants_client(&mut self) -> bool {
        if !self.is_serving() {
            return self.worker.may_accept();
        }
        let wants_to_know = match self.crowd {
            WaitingClients::No => true,
            WaitingClients::Seen(_) => self.is_seen_for_long(),
            WaitingClients::Told => self.may_give_way(),
        };
        wants_to_know && self.worker.may_accept() && !self.place.is_any_free()
    }

    /// Whether it is time to look whether somebody still waits.
    fn is_seen_for_long(&self) -> bool {
        matches!(self.crowd, WaitingClients::Seen(at) if at.after(CROWD_MS) <= self.worker.commons.now)
    }

    /// How long to wait at most, in milliseconds; and whether a client who waits would be noticed.
    fn wait_ms(&mut self, notices_clients: bool) -> Option<u64> {
        if self.again {
            return Some(0);
        }
        let now = self.worker.commons.now;
        let until = |by: Tick| by.0.saturating_sub(now.0);
        let parting = self.parting.front().map(|(_, by)| until(*by));
        let (is_unused, may_give_way) = (self.is_unused(), self.may_give_way());
        let look = match self.crowd {
            // When that time has come, it looks and does not wait.
            WaitingClients::Seen(at) => Some(until(at.after(CROWD_MS))),
            _ if !is_unused => None,
            WaitingClients::Told if !may_give_way => Some(until(self.quiet.since.after(PATIENCE_MS))),
            _ => (!notices_clients).then_some(LOOK_MS),
        };
        [self.worker.wait_ms(), parting, look].into_iter().flatten().min()
    }

    fn only(&mut self) -> Option<&mut Slot<Readiness>> {
        self.worker.slots.get_mut(ONLY)
    }

    /// Whether there is a connection on which nothing has begun, or all is said.
    fn is_unused(&mut self) -> bool {
        self.only().is_some_and(|slot| slot.shut || slot.conn.is_unused())
    }

    fn may_give_way(&mut self) -> bool {
        self.is_unused() && self.quiet.since.after(PATIENCE_MS) <= self.worker.commons.now
    }

    /// Somebody waits.
    fn client(&mut self) -> io::Result<()> {
        if !self.is_serving() {
            if let Some(fd) = self.accept()? {
                self.begin(fd);
            }
        } else if self.place.is_any_free() {
            // Who takes him.
        } else if self.may_give_way() {
            if let Some(fd) = self.accept()? {
                self.part();
                self.begin(fd);
            }
        } else if let Some(slot) = self.worker.slots.get_mut(ONLY) {
            self.crowd = match self.crowd {
                WaitingClients::No => WaitingClients::Seen(self.worker.commons.now),
                WaitingClients::Seen(_) => {
                    slot.conn.drain();
                    WaitingClients::Told
                }
                WaitingClients::Told => WaitingClients::Told,
            };
        }
        Ok(())
    }

    /// Nobody is free: that somebody waits is known to others only, and is taken for granted.
    fn leave_room(&mut self) {
        let now = self.worker.commons.now;
        let is_any_free = self.place.is_any_free();
        if !is_any_free && self.may_give_way() {
            self.worker.remove(ONLY);
        }
        let Some(slot) = self.worker.slots.get_mut(ONLY) else { return };
        self.crowd = match self.crowd {
            WaitingClients::Told => WaitingClients::Told,
            _ if is_any_free => WaitingClients::No,
            WaitingClients::No => WaitingClients::Seen(now),
            WaitingClients::Seen(at) if at.after(CROWD_MS) > now => WaitingClients::Seen(at),
            WaitingClients::Seen(_) => {
                slot.conn.drain();
                WaitingClients::Told
            }
        };
    }

    fn accept(&mut self) -> io::Result<Option<OwnedFd>> {
        let count = self.worker.listeners.len();
        for number in (0..count).map(|number| (self.first_listener + number) % count) {
            if let Some(fd) = accept::accept(&mut self.worker, number)? {
                self.first_listener = number + 1;
                return Ok(Some(fd));
            }
        }
        Ok(None)
    }

    /// The connection gives way to another.
    fn part(&mut self) {
        let fd = self.worker.remove(ONLY);
        // Fails where it is closed already, or the client has gone.
        let _ = shutdown(&fd, Shutdown::Write);
        self.parting.push_back((fd, self.worker.commons.now.after(PARTING_MS)));
        if self.parting.len() > PARTING_COUNT_MAX {
            self.parting.pop_front();
        }
    }

    /// Takes the first turn before the connection is waited for: often the request has come with it.
    fn begin(&mut self, fd: OwnedFd) {
        let index = self.worker.insert(fd);
        debug_assert_eq!(index, ONLY, "one at a time");
        if self.worker.is_leaving()
            && let Some(slot) = self.worker.slots.get_mut(index)
        {
            slot.conn.drain();
        }
        self.place.set(false);
        self.crowd = WaitingClients::No;
        self.quiet = Quiet { since: self.worker.commons.now, deadline: Tick::NEVER };
        self.turn();
    }

    fn ready(&mut self, flags: PollEvents) {
        if let Some(slot) = self.only() {
            learn(&mut slot.state, flags);
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.again = false;
        let Worker { slots, commons, .. } = &mut self.worker;
        let Some(slot) = slots.get_mut(ONLY) else { return };
        match drive::drive(commons, slot) {
            Ok(NextDrive::Wait) => {}
            Ok(NextDrive::Again) => self.again = true,
            Ok(NextDrive::Load(_)) => unreachable!("without a loader nothing is cold"),
            Err(Closed) => {
                self.worker.remove(ONLY);
                return;
            }
        }
        let (deadline, now) = (slot.conn.deadline(), commons.now);
        if self.quiet.deadline != deadline {
            self.quiet = Quiet { since: now, deadline };
        }
        self.worker.mind_deadline(ONLY);
    }

    fn mail(&mut self) -> io::Result<()> {
        let Some(farewell) = self.worker.read_mail() else { return Ok(()) };
        // Who is in the backlog has begun; closing the listener would reset them. But who is taken here waits for this connection.
        let is_serving = self.is_serving();
        let count_max = match farewell {
            _ if !is_serving => BACKLOG as usize,
            // Others accept who waits.
            ShutdownMode::Drain => 0,
            ShutdownMode::Stop if self.place.is_any_free() => 0,
            ShutdownMode::Stop => (BACKLOG as usize).div_ceil(self.worker_count),
        };
        while self.waiting.len() < count_max
            && let Some(fd) = self.accept()?
        {
            self.waiting.push_back(fd);
        }
        match farewell {
            ShutdownMode::Drain => {
                if let Some(slot) = self.only() {
                    slot.conn.drain();
                }
            }
            ShutdownMode::Stop => self.stop(),
        }
        self.worker.listeners.clear();
        self.asked.truncate(LISTENERS);
        Ok(())
    }

    /// What has arrived by now has begun; nothing else will begin.
    fn stop(&mut self) {
        if let Some(slot) = self.only() {
            slot.state.readable = true;
        }
        self.turn();
        let Worker { slots, commons, .. } = &mut self.worker;
        if let Some(slot) = slots.get_mut(ONLY) {
            slot.conn.stop(&mut commons.cx());
            self.turn();
        }
    }
}

impl IdleMark {
    fn set(&mut self, is_free: bool) {
        if self.is_free != is_free {
            self.is_free = is_free;
            self.roster.set(self.number, is_free);
        }
    }

    /// Whether anybody is free to take a client.
    #[inline]
    fn is_any_free(&self) -> bool {
        self.roster.is_any_free()
    }
}

impl Drop for IdleMark {
    fn drop(&mut self) {
        self.set(false);
    }
}
