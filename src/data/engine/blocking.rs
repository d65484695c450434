//! The blocking engine: a worker serves one connection at a time. Used for threads and for processes.
//!
//! ```text
//! entries of poll(2)     connection   mailbox   listeners …
//!                        └────────────────────┘                 serving: an idle worker accepts a waiting client
//!                        └──────────────────────────────────┘   serving, and no worker is idle
//!                                     └─────────────────────┘   idle, on systems without an `IdleWait`
//! ```
//!
//! A connection to a backend, which the exchange of the client needs, or which is idle after one, comes before all others.
//!
//! An idle worker waits in an [`IdleWait`]: a client that connects wakes one of them. On other systems it wakes all idle workers, and one
//! of them accepts it.
//!
//! If no worker is idle and a client waits for more than a moment, a busy connection gets one more response with `Connection: close`,
//! and an unused connection gives way. Its worker accepts first and closes then, so at most one connection gives way to each client.
//! The worker shuts down its sending side and keeps it open for a while: a late request then meets EOF and no reset.

#[cfg_attr(target_os = "linux", path = "blocking/idle_wait.rs")]
#[cfg_attr(not(target_os = "linux"), path = "blocking/no_idle_wait.rs")]
mod idle_wait;

pub(crate) use idle_wait::IdleWait;

use super::{
    AcceptedSocket, Closed, NextDrive, WorkerReady, accept,
    readiness::{
        drive::{self, Readiness},
        poll::{events_to_wait_for, update_readiness},
    },
};
use crate::{
    base::settings::Http2Use,
    data::worker::{
        KernelSuites, Slot, SocketSettings, StartTime, Worker, WorkerConfig, WorkerRows,
        idle_workers::IdleWorkers,
        mailbox::{Mailbox, ShutdownMode},
    },
    sys::{
        BACKLOG,
        poll::{PollEntry, PollEvents, poll},
        shared::SharedRow,
    },
};
use idle_wait::IdleEvent;
use libc::POLLIN;
use rustix::{
    io::Errno,
    net::{Shutdown, shutdown},
};
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};
use tarpon_conn::Tick;

/// Runs a worker until it has shut down. `idle_wait`: its [`IdleWait`], if this system has one.
pub(crate) fn run(config: WorkerConfig, idle_wait: Option<IdleWait>, ready: WorkerReady) -> io::Result<()> {
    let mut blocking = Blocking::new(config)?;
    // Without memory or watches for it, the worker waits in poll(2).
    blocking.idle_wait =
        idle_wait.filter(|wait| wait.watch(&*blocking.worker.mailbox, &blocking.worker.listeners).is_ok());
    ready.signal();
    loop {
        blocking.run_once()?;
        if blocking.worker.is_finished() {
            return Ok(());
        }
    }
}

/// A worker without listeners for the process that a master forks next, which serves one connection and exits.
///
/// A process copies each page that it writes and shares with its parent. So the master makes all tables of a worker once, and most of
/// their pages stay shared.
pub(crate) struct PreparedWorker(Blocking);

impl PreparedWorker {
    pub(crate) fn new(config: WorkerConfig) -> io::Result<PreparedWorker> {
        tarpon_http::detect_processor();
        for (versions, _) in config.sites.iter() {
            versions.current.image().check_framing(CHECKED_COUNT_MAX);
        }
        let mut blocking = Blocking::new(config)?;
        // One for the client, and one for a backend.
        blocking.worker.reserve(2);
        // The master sets the flag of the free slots.
        blocking.idle_mark.is_idle = false;
        Ok(PreparedWorker(blocking))
    }

    /// Brings up to date, in the master, what each process would otherwise have to.
    pub(crate) fn update(&mut self, time: StartTime) {
        self.0.worker.render_prefixes(time);
    }

    /// Serves an accepted connection and returns when it is closed, in a process that exits then. Calls `stays_open` if the connection is
    /// open after its first response.
    pub(crate) fn serve(
        &mut self,
        connection: AcceptedSocket,
        rows: WorkerRows,
        mailbox: &Arc<Mailbox>,
        stays_open: impl FnOnce(),
    ) -> io::Result<()> {
        let blocking = &mut self.0;
        blocking.worker.assign(rows);
        blocking.entries[MAILBOX] = PollEntry::new(mailbox.as_fd(), POLLIN);
        // The parent may have asked for shutdown already.
        let has_message = blocking.has_message();
        if has_message {
            blocking.worker.mailbox = Arc::clone(mailbox);
        }
        let shutdown_mode = if has_message { blocking.worker.read_messages() } else { None };
        blocking.start(connection);
        if shutdown_mode == Some(ShutdownMode::Stop) {
            blocking.stop();
        }
        blocking.yield_if_needed();
        if blocking.is_serving() {
            blocking.worker.mailbox = Arc::clone(mailbox);
            stays_open();
        }
        while blocking.is_serving() && !blocking.worker.is_finished() {
            blocking.run_once()?;
            blocking.yield_if_needed();
        }
        blocking.worker.end();
        Ok(())
    }
}

struct Blocking {
    worker: Worker<Readiness>,
    idle_mark: IdleMark,
    /// Set until shutdown, if this system has one.
    idle_wait: Option<IdleWait>,
    /// Entries for the kernel: see the module. Without a connection the first one is out of date.
    entries: Vec<PollEntry>,
    /// The slot of the connection to a backend, if there is one.
    backend: Option<u32>,
    /// Drive this slot again without an event: that of the client, and that of the backend.
    again: [Option<u32>; 2],
    /// The slot of the client's connection, if there is one.
    client: u32,
    last_activity: LastActivity,
    waiting_clients: WaitingClients,
    /// The listener to try first: it rotates, so that no listener is preferred.
    first_listener: usize,
    /// Clients accepted at the start of shutdown.
    accepted: VecDeque<AcceptedSocket>,
    /// Number of workers: each takes its share of the accept queue at shutdown.
    worker_count: usize,
    /// Connections that gave way, and the time to close each.
    half_closed: VecDeque<(OwnedFd, Tick)>,
}

/// What this worker knows of clients that wait while no worker is idle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitingClients {
    /// No client waited at the last check.
    No,
    /// A client waited at this time.
    Seen(Tick),
    /// A client still waited later: the next response of the connection is its last one.
    Draining,
}

/// This worker's bit in the set of idle workers.
struct IdleMark {
    idle_workers: SharedRow<IdleWorkers>,
    number: usize,
    is_idle: bool,
}

/// Time since the connection's last activity.
struct LastActivity {
    since: Tick,
    /// Deadline of the connection: it changes with each request and response, and at no other time.
    deadline: Tick,
}

/// Result of one wait.
#[derive(Default)]
struct WaitResult {
    backend: PollEvents,
    connection: PollEvents,
    mailbox: bool,
    client: bool,
}

/// Positions of the connection to a backend, that of the client, the mailbox and the first listener among the entries.
const BACKEND: usize = 0;
const CONNECTION: usize = 1;
const MAILBOX: usize = 2;
const LISTENERS: usize = 3;

/// Clients of a listener that a worker refuses before it returns to its connection.
const REFUSED_COUNT_MAX: usize = 64;

/// An unused connection may give way after this time in milliseconds. A client that reads a page and then requests its parts takes
/// less.
const IDLE_MS_MIN: u64 = 250;

/// A client that waits for this many milliseconds will not be taken by a worker that becomes idle just now: connections start to
/// drain.
const CLIENT_WAIT_MS_MAX: u64 = 20;

/// With an unused connection, a worker checks this often, in milliseconds, whether another worker is idle. A notification would cost
/// every connection something.
const IDLE_CHECK_MS: u64 = 1_000;

/// Time in milliseconds that a connection which gave way stays half-closed: the same as after a last response.
const HALF_CLOSED_MS: u64 = 2_000;

/// Limit of half-closed connections per worker. Beyond it the oldest one is closed.
const HALF_CLOSED_COUNT_MAX: usize = 16;

/// A master checks the responses of this many entries of each site: what a child checks is known to that child alone. They take about a
/// millisecond.
const CHECKED_COUNT_MAX: usize = 1_024;

impl Blocking {
    fn new(config: WorkerConfig) -> io::Result<Blocking> {
        accept::set_nonblocking(&config.listeners)?;
        let idle_mark =
            IdleMark { idle_workers: config.idle_workers.clone(), number: config.number, is_idle: true };
        let worker_count = config.worker_count;
        // Three: the new connection is accepted before the old one is closed, and an exchange may need one to a backend. The number of
        // buffers depends on it, so the limit of descriptors is not used.
        let connection_count_max = 3;
        let without_http2 =
            |settings: &SocketSettings| SocketSettings { http2: Http2Use::Off, ..settings.clone() };
        let socket_settings = config.socket_settings.iter().map(without_http2).collect();
        let worker: Worker<Readiness> = Worker::new(WorkerConfig {
            connection_count_max,
            socket_settings,
            kernel_suites: KernelSuites::NONE,
            ..config
        });
        let mailbox = PollEntry::new(worker.mailbox.as_fd(), POLLIN);
        let listeners = worker.listeners.iter().map(|listener| PollEntry::new(listener.as_fd(), POLLIN));
        let entries = [mailbox, mailbox, mailbox].into_iter().chain(listeners).collect();
        Ok(Blocking {
            worker,
            idle_mark,
            idle_wait: None,
            entries,
            backend: None,
            again: [None; 2],
            client: 0,
            last_activity: LastActivity { since: Tick(0), deadline: Tick(0) },
            waiting_clients: WaitingClients::No,
            first_listener: 0,
            accepted: VecDeque::new(),
            worker_count,
            half_closed: VecDeque::with_capacity(HALF_CLOSED_COUNT_MAX + 1),
        })
    }

    /// Returns whether the mailbox has a message.
    fn has_message(&mut self) -> bool {
        poll(&mut self.entries[MAILBOX..LISTENERS], Some(0)) == Ok(1)
    }

    fn is_serving(&self) -> bool {
        self.worker.slots.has_clients()
    }

    /// Returns whether there is no connection, or only one that waits for its client to close.
    fn may_start_next(&mut self) -> bool {
        self.client_slot().is_none_or(|slot| slot.write_closed)
    }

    fn run_once(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        self.worker.update_time();
        if ready.mailbox {
            self.read_mailbox()?;
        }
        let again = mem::take(&mut self.again);
        if let Some(backend) = self.backend.filter(|_| ready.backend != 0) {
            self.on_ready(backend, ready.backend);
        }
        if ready.connection != 0 {
            self.on_ready(self.client, ready.connection);
        }
        for index in again.into_iter().flatten() {
            self.drive(index);
        }
        while let Some(index) = self.worker.next_expired() {
            self.drive(index);
        }
        self.drive_woken();
        if ready.client {
            self.on_waiting_client()?;
        }
        while self.may_start_next()
            && let Some(accepted) = self.accepted.pop_front()
        {
            if self.is_serving() {
                self.give_way();
            }
            self.start(accepted);
            if self.worker.is_stopping() {
                self.stop();
            }
        }
        let now = self.worker.context.now;
        while self.half_closed.front().is_some_and(|(_, by)| *by <= now) {
            self.half_closed.pop_front();
        }
        self.drive_woken();
        self.worker.end_batch();
        Ok(())
    }

    /// Drives the connections whose pipe has changed, and connects to a backend if an exchange needs it.
    fn drive_woken(&mut self) {
        for _ in 0..self.worker.woken_count() {
            let Some(index) = self.worker.next_woken() else { break };
            self.drive(index);
        }
        while let Some(index) = self.worker.next_backend(true) {
            // The former one is idle, and for another backend.
            if let Some(former) = self.backend.replace(index).filter(|&former| former != index)
                && self.worker.slots.get_mut(former).is_some_and(|slot| !slot.conn.is_client())
            {
                self.worker.remove(former);
            }
            self.drive(index);
        }
    }

    /// Waits for events.
    fn wait(&mut self) -> io::Result<WaitResult> {
        let is_serving = self.is_serving();
        let is_idle = !is_serving && !self.worker.listeners.is_empty() && self.worker.may_accept();
        self.idle_mark.set(is_idle);
        if is_idle && self.idle_wait.is_some() {
            return self.wait_idle();
        }
        // Read once: idle workers may change at any moment.
        let end = if self.watches_listeners() { self.entries.len() } else { LISTENERS };
        let wait_ms = self.wait_ms(end > LISTENERS);
        let first = match (self.backend, is_serving) {
            (Some(_), _) => BACKEND,
            (None, true) => CONNECTION,
            (None, false) => MAILBOX,
        };
        // Without a client its entry would be out of date.
        self.entries[CONNECTION] = self.entries[MAILBOX];
        let (client, backend) = (is_serving.then_some(self.client), self.backend);
        for (place, index) in [(CONNECTION, client), (BACKEND, backend)] {
            if let Some(slot) = index.and_then(|index| self.worker.slots.get_mut(index)) {
                self.entries[place] = PollEntry::new(slot.fd.as_fd(), events_to_wait_for(&slot.state));
            }
        }
        let entries = &mut self.entries[first..end];
        match poll(entries, wait_ms) {
            // Unhandled events are reported again.
            Err(Errno::INTR) => Ok(WaitResult::default()),
            result => {
                result?;
                let is_ready = |entry: &PollEntry| entry.revents() != 0;
                let client = self.entries[LISTENERS..end].iter().any(is_ready);
                if !client && self.has_waited_long() {
                    self.waiting_clients = WaitingClients::No;
                }
                Ok(WaitResult {
                    backend: if first == BACKEND { self.entries[BACKEND].revents() } else { 0 },
                    connection: if is_serving { self.entries[CONNECTION].revents() } else { 0 },
                    mailbox: is_ready(&self.entries[MAILBOX]),
                    client,
                })
            }
        }
    }

    /// Waits for a client or a message.
    fn wait_idle(&mut self) -> io::Result<WaitResult> {
        self.waiting_clients = WaitingClients::No;
        let wait_ms = self.wait_ms(true);
        let event = match &self.idle_wait {
            Some(idle_wait) => idle_wait.wait(wait_ms),
            None => Ok(None),
        };
        let event = match event {
            Err(Errno::INTR) => None,
            event => event?,
        };
        let (mailbox, client) = match event {
            None => (false, false),
            Some(IdleEvent::Mailbox) => (true, false),
            Some(IdleEvent::Client(number)) => {
                self.first_listener = number;
                // At a stop, an idle worker accepts all waiting clients: it must read the message before it becomes busy.
                (self.has_message(), true)
            }
        };
        Ok(WaitResult { mailbox, client, ..WaitResult::default() })
    }

    /// Returns whether the worker would accept a client, or checks whether one waits.
    fn watches_listeners(&mut self) -> bool {
        if !self.is_serving() {
            return self.worker.may_accept();
        }
        let checks_now = match self.waiting_clients {
            WaitingClients::No => true,
            WaitingClients::Seen(_) => self.has_waited_long(),
            WaitingClients::Draining => self.may_give_way(),
        };
        checks_now && self.worker.may_accept() && !self.idle_mark.is_any_idle()
    }

    /// Returns whether a client has waited long enough for a second check.
    fn has_waited_long(&self) -> bool {
        matches!(self.waiting_clients, WaitingClients::Seen(at) if at.after(CLIENT_WAIT_MS_MAX) <= self.worker.context.now)
    }

    /// Returns the longest wait in milliseconds. `sees_clients`: the wait includes the listeners.
    fn wait_ms(&mut self, sees_clients: bool) -> Option<u64> {
        if self.again.iter().any(Option::is_some) {
            return Some(0);
        }
        let now = self.worker.context.now;
        let ms_until = |at: Tick| at.0.saturating_sub(now.0);
        let half_closed = self.half_closed.front().map(|(_, by)| ms_until(*by));
        let (is_unused, may_give_way) = (self.is_unused(), self.may_give_way());
        let check_again = match self.waiting_clients {
            // At that time the worker checks without waiting.
            WaitingClients::Seen(at) => Some(ms_until(at.after(CLIENT_WAIT_MS_MAX))),
            _ if !is_unused => None,
            WaitingClients::Draining if !may_give_way => {
                Some(ms_until(self.last_activity.since.after(IDLE_MS_MIN)))
            }
            _ => (!sees_clients).then_some(IDLE_CHECK_MS),
        };
        [self.worker.wait_ms(), half_closed, check_again].into_iter().flatten().min()
    }

    /// Returns the slot of the client.
    fn client_slot(&mut self) -> Option<&mut Slot<Readiness>> {
        self.worker.slots.get_mut(self.client).filter(|slot| slot.conn.is_client())
    }

    /// Returns whether there is a connection without a request in progress, or with all sent.
    fn is_unused(&mut self) -> bool {
        self.client_slot().is_some_and(|slot| slot.write_closed || slot.conn.is_unused())
    }

    fn may_give_way(&mut self) -> bool {
        self.is_unused() && self.last_activity.since.after(IDLE_MS_MIN) <= self.worker.context.now
    }

    /// Handles a client that waits at a listener.
    fn on_waiting_client(&mut self) -> io::Result<()> {
        if !self.is_serving() {
            if let Some(accepted) = self.accept()? {
                self.start(accepted);
            }
        } else if self.idle_mark.is_any_idle() {
            // An idle worker accepts the client.
        } else if self.may_give_way() {
            if let Some(accepted) = self.accept()? {
                self.give_way();
                self.start(accepted);
            }
        } else {
            self.waiting_clients = match self.waiting_clients {
                WaitingClients::No => WaitingClients::Seen(self.worker.context.now),
                WaitingClients::Seen(_) | WaitingClients::Draining => self.drain_client(),
            };
        }
        Ok(())
    }

    /// Assumes a waiting client if no worker is idle: only the acceptor process sees the accept queue.
    fn yield_if_needed(&mut self) {
        if !self.is_serving() {
            return;
        }
        let now = self.worker.context.now;
        let is_any_idle = self.idle_mark.is_any_idle();
        if !is_any_idle && self.may_give_way() {
            self.worker.remove(self.client);
            return;
        }
        self.waiting_clients = match self.waiting_clients {
            WaitingClients::Draining => WaitingClients::Draining,
            _ if is_any_idle => WaitingClients::No,
            WaitingClients::No => WaitingClients::Seen(now),
            WaitingClients::Seen(at) if at.after(CLIENT_WAIT_MS_MAX) > now => WaitingClients::Seen(at),
            WaitingClients::Seen(_) => self.drain_client(),
        };
    }

    /// Has the connection of the client announce its end with the next response.
    fn drain_connection(&mut self) {
        let Worker { slots, context, .. } = &mut self.worker;
        if let Some(slot) = slots.get_mut(self.client).filter(|slot| slot.conn.is_client()) {
            slot.conn.drain(&mut context.conn_resources());
        }
    }

    /// Makes the next response of the client the last one.
    fn drain_client(&mut self) -> WaitingClients {
        self.drain_connection();
        WaitingClients::Draining
    }

    fn accept(&mut self) -> io::Result<Option<AcceptedSocket>> {
        let count = self.worker.listeners.len();
        for number in (0..count).map(|number| (self.first_listener + number) % count) {
            for _ in 0..REFUSED_COUNT_MAX {
                let Some(fd) = accept::accept(&mut self.worker, number)? else { break };
                // No connection gives way to a client that is refused.
                if let Some(fd) = self.worker.refuse_early(fd, number) {
                    self.first_listener = number + 1;
                    return Ok(Some(AcceptedSocket { fd, listener: number }));
                }
            }
        }
        Ok(None)
    }

    /// Half-closes the connection to make room for another one.
    fn give_way(&mut self) {
        let fd = self.worker.remove(self.client);
        // An error means that it is closed already, or that the client has gone.
        let _ = shutdown(&fd, Shutdown::Write);
        self.half_closed.push_back((fd, self.worker.context.now.after(HALF_CLOSED_MS)));
        if self.half_closed.len() > HALF_CLOSED_COUNT_MAX {
            self.half_closed.pop_front();
        }
    }

    /// Starts a connection and drives it before the first wait: often the request has arrived with it.
    fn start(&mut self, accepted: AcceptedSocket) {
        // An idle connection to a backend may have been closed since it was watched.
        if let Some(backend) = self.backend {
            self.on_ready(backend, POLLIN);
        }
        let Some(client) = self.worker.insert(accepted.fd, accepted.listener) else { return };
        self.client = client;
        if self.worker.is_shutting_down() {
            self.drain_client();
        }
        self.idle_mark.set(false);
        self.waiting_clients = WaitingClients::No;
        self.last_activity = LastActivity { since: self.worker.context.now, deadline: Tick::NEVER };
        self.drive(self.client);
        self.drive_woken();
    }

    fn on_ready(&mut self, index: u32, flags: PollEvents) {
        if let Some(slot) = self.worker.slots.get_mut(index) {
            update_readiness(&mut slot.state, flags);
            self.drive(index);
        }
    }

    fn drive(&mut self, index: u32) {
        let Blocking { worker, again, last_activity, .. } = self;
        let driven = worker.drive(index, |context, slot| {
            let is_client = slot.conn.is_client();
            let mut job = None;
            match drive::drive(context, slot)? {
                NextDrive::Wait => {}
                NextDrive::Again => again[usize::from(is_client)] = Some(index),
                NextDrive::Verify(of_slot) => {
                    again[usize::from(is_client)] = Some(index);
                    job = Some(of_slot);
                }
                NextDrive::Load(_) => unreachable!("without a loader nothing is cold"),
                NextDrive::Handshake(_) => unreachable!("the worker runs handshakes itself"),
            }
            let deadline = slot.conn.deadline();
            if is_client && last_activity.deadline != deadline {
                *last_activity = LastActivity { since: context.now, deadline };
            }
            Ok(job)
        });
        match driven {
            Some(Err(Closed)) => {
                self.worker.remove(index);
                self.backend = self.backend.filter(|&backend| backend != index);
            }
            // The worker has no other client.
            Some(Ok(Some(job))) => self.worker.verify(index, job),
            Some(Ok(None)) | None => {}
        }
    }

    fn read_mailbox(&mut self) -> io::Result<()> {
        let Some(shutdown_mode) = self.worker.read_messages() else { return Ok(()) };
        // The accept queue belongs to this server: closing the listener would reset these clients. But clients accepted here wait for
        // this connection.
        let is_serving = self.is_serving();
        let is_last = shutdown_mode == ShutdownMode::Stop && self.idle_mark.begin_stop(self.worker_count);
        let count_max = match shutdown_mode {
            _ if !is_serving => BACKLOG as usize,
            // The successor accepts waiting clients.
            ShutdownMode::Drain => 0,
            // The others have left to it what they did not take.
            ShutdownMode::Stop if is_last => BACKLOG as usize,
            ShutdownMode::Stop if self.idle_mark.is_any_idle() => 0,
            ShutdownMode::Stop => (BACKLOG as usize).div_ceil(self.worker_count),
        };
        while self.accepted.len() < count_max
            && let Some(accepted) = self.accept()?
        {
            self.accepted.push_back(accepted);
        }
        match shutdown_mode {
            ShutdownMode::Drain => self.drain_connection(),
            ShutdownMode::Stop => self.stop(),
        }
        self.worker.listeners.clear();
        self.entries.truncate(LISTENERS);
        self.idle_wait = None;
        Ok(())
    }

    /// Stops the connection: finishes requests that have arrived, and takes no others.
    fn stop(&mut self) {
        if let Some(slot) = self.client_slot() {
            slot.state.readable = true;
        }
        self.drive(self.client);
        let Worker { slots, context, .. } = &mut self.worker;
        for index in slots.indices() {
            let Some(slot) = slots.get_mut(index) else { continue };
            slot.conn.stop(&mut context.conn_resources());
        }
        for index in self.worker.slots.indices() {
            self.drive(index);
        }
    }
}

impl IdleMark {
    fn set(&mut self, is_idle: bool) {
        if self.is_idle != is_idle {
            self.is_idle = is_idle;
            self.idle_workers.set(self.number, is_idle);
        }
    }

    /// Returns whether this worker is the last one that begins to stop.
    fn begin_stop(&self, worker_count: usize) -> bool {
        self.idle_workers.begin_stop(worker_count)
    }

    /// Returns whether any worker is idle.
    #[inline]
    fn is_any_idle(&self) -> bool {
        self.idle_workers.is_any_idle()
    }
}

impl Drop for IdleMark {
    fn drop(&mut self) {
        self.set(false);
    }
}

#[cfg(test)]
mod tests;
