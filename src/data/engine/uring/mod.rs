//! The io_uring(7) engine: driven by completions.
//!
//! ```text
//! listener ─ accept, multishot ─▶ slot ─ receive, multishot ─▶ provided buffer ─ copy ─▶ inbox ─▶ Connection
//!                                  ▲                                                                │ outbox
//!                                  └──────────── sent ◀─ completion ◀─ send ◀─ buffer ◀─────────────┘
//! ```
//!
//! Only this engine knows which operations of a connection are in flight. A closed connection is freed when nothing is in flight, so
//! that the kernel never touches freed memory.
//!
//! A receive stays armed while the connection wants bytes. When the connection pauses, the engine cancels the receive; bytes that
//! arrive before the cancel completes wait in pool buffers behind the inbox.
//!
//! Once a receive from a backend has filled a buffer, those that follow from this backend take one larger buffer each, and the engine receives
//! more content with direct calls into buffers that the pipe passes on.
//!
//! When more connections have bytes than there are provided buffers, the kernel ends the receives that found none. They start again in
//! turn ([`StarvedReceives`]), for one buffer each: a receive that goes on takes up to 32 in one call, so a few clients that send without a
//! pause would take all buffers in each turn.
//!
//! During a [flood of connections](AcceptFlood) each accept takes one client, and a client that fills its buffers without a pause gets one buffer in
//! turn, too.
//!
//! The kernel gives each of many connections one buffer in turn. So when a buffer is full and its request incomplete, the engine takes the rest
//! with a direct `recv`, once it has seen all completions: otherwise thousands of clients with large headers would have a part of them in the
//! pool.
//!
//! Large file ranges are sent with a direct `sendfile` call, as the ring has no such operation. The socket blocks, as the ring needs,
//! and is made non-blocking for that call.

mod accept_flood;
mod accept_recheck;
mod buffers;
mod drive;
mod ring;
mod send_buffers;
mod starved_receives;

use crate::{
    data::{
        engine::{Closed, NextDrive, RingFeatures, WorkerReady, accept::ACCEPT_MAX},
        worker::{Worker, WorkerConfig, idle_len, mailbox::ShutdownMode},
    },
    sys::socket,
};
use accept_flood::AcceptFlood;
use accept_recheck::AcceptRecheck;
use buffers::BufferGroup;
use drive::{release_backlog, store_received, take_rest};
use ring::{Completion, Op, Ring};
use rustix::{
    io::{Errno, ioctl_fionbio},
    net::sockopt::{Timeout, set_socket_timeout},
};
use starved_receives::StarvedReceives;
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{FromRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::Duration,
};
use tarpon_conn::{BUF_LEN, BufRange, Input};

/// Operations in flight for one connection.
#[derive(Default)]
pub(super) struct InFlight {
    receive: Receive,
    send: Option<Send>,
    /// The connection is closed: no operation starts any more, and the slot is freed when none is in flight.
    closed: bool,
    /// The connection is closed, and its buffers are free with the slot.
    frees_buffers: bool,
    /// The client has closed its side.
    ended: bool,
    /// The error of a receive in records of the kernel: a record of another kind than data is next.
    record_waits: Option<Errno>,
    /// The slot is queued for a drive without a completion.
    queued: bool,
    /// The socket may hold the rest of a request.
    may_have_rest: bool,
    /// The last receive from a backend has filled its buffer, so the socket may hold more.
    may_have_more: bool,
    /// A receive takes one buffer. The backend has sent more than that at a time, and direct calls take the rest; or a client found no
    /// buffer, and has sent more than one since, or sends without a pause.
    receives_once: bool,
    /// Heads or frames of a client that filled the last buffers, one after the other.
    full_count: u8,
    /// Received while the inbox was full, oldest first.
    backlog: VecDeque<BufRange>,
}

impl InFlight {
    /// Returns whether a direct call may find content of a backend, and no receive in flight takes it.
    fn may_take_content(&self) -> bool {
        self.may_have_more && self.receive == Receive::Idle
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Receive {
    #[default]
    Idle,
    Armed,
    /// Cancelled, and not completed yet.
    Cancelling,
    /// Ended by the kernel, as no provided buffer was left. It starts again in its turn.
    Starved,
}

impl Receive {
    fn is_in_flight(self) -> bool {
        matches!(self, Receive::Armed | Receive::Cancelling)
    }
}

enum Send {
    /// A send, whose buffer the ring keeps.
    Buffer,
    /// The socket is full; the engine waits until it is writable.
    WaitWritable,
}

/// Checks that the host offers a ring with all that the engine needs.
///
/// # Errors
/// The kernel is older than 6.1, or the host forbids it.
pub(super) fn probe() -> io::Result<()> {
    // On its own thread: the kernel frees a ring later, and interrupts system calls of the thread that made it.
    let probe = thread::Builder::new().name("probe".to_owned()).spawn(|| Ring::new(&GROUPS).map(drop))?;
    probe.join().expect("making a ring does not panic")
}

/// Returns what a ring of this host can do.
///
/// # Errors
/// The host has no io_uring, or forbids it.
pub(super) fn features() -> io::Result<RingFeatures> {
    // On its own thread, as above.
    let probe = thread::Builder::new().name("probe".to_owned()).spawn(ring::features)?;
    probe.join().expect("making a ring does not panic")
}

pub(super) fn run(config: WorkerConfig, ready: WorkerReady) -> io::Result<()> {
    let groups = if config.has_backends() { &GROUPS } else { &GROUPS[..1] };
    let worker = Worker::new(config);
    for listener in &worker.listeners {
        // On a non-blocking listener the ring returns EAGAIN instead of waiting.
        ioctl_fionbio(listener, false)?;
    }
    let mut engine = UringEngine {
        accepts: vec![Receive::Idle; worker.listeners.len()],
        accept_flood: AcceptFlood::default(),
        accept_recheck: AcceptRecheck::new(worker.context.now),
        arrivals: VecDeque::new(),
        shutdown_mode: None,
        worker,
        ring: Ring::new(groups)?,
        again: VecDeque::new(),
        starved: StarvedReceives::default(),
        rests: Vec::new(),
        freeing_count: 0,
    };
    engine.ring.watch_mailbox(&engine.worker.mailbox);
    ready.signal();
    let outcome = catch_unwind(AssertUnwindSafe(|| engine.run()));
    // In every case, after a panic too, the kernel must be done with images and pool buffers before they are freed, as gathered sends
    // name them. If that fails, they are leaked.
    if let Err(error) = engine.ring.finish() {
        mem::forget(engine);
        return Err(error);
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The groups of provided buffers. Without backends a ring has the first one.
const GROUPS: [BufferGroup; 2] = [BufferGroup::USUAL, BufferGroup::LARGE];

/// Dropped in this order: first the ring, then the memory that gathered sends name.
struct UringEngine {
    ring: Ring,
    worker: Worker<InFlight>,
    /// State of the accept of each listener; after a flood of connections, of several for each, the first ones of all listeners first.
    accepts: Vec<Receive>,
    accept_flood: AcceptFlood,
    accept_recheck: AcceptRecheck,
    /// Accepted connections without a slot, with their listeners. While there are many, the kernel accepts no more.
    arrivals: VecDeque<(OwnedFd, usize)>,
    /// Shutdown mode while accepts are still in flight.
    shutdown_mode: Option<ShutdownMode>,
    /// Slots to drive again without a completion.
    again: VecDeque<u32>,
    starved: StarvedReceives,
    /// Slots whose sockets may hold the rest of a request.
    rests: Vec<u32>,
    /// Closed connections that hold buffers until nothing is in flight: to evict others in their place would free nothing sooner.
    freeing_count: usize,
}

/// Limit of the memory of an idle connection, in bytes: its operations in flight need more than a known readiness, and so does the kernel.
const IDLE_LEN_MAX: usize = 900;
const _: () = assert!(idle_len::<InFlight>() <= IDLE_LEN_MAX);

/// Buffers that a client may fill with heads or frames, one after the other, before its receives take one buffer each: those of the longest head.
const FULL_COUNT_MAX: u8 = BUF_LEN.div_ceil(BufferGroup::USUAL.len) as u8;

/// Accepted connections without a slot at which the kernel is asked to stop accepting.
const ARRIVALS_MAX: usize = 256;

/// Limit of calls at a stop that a signal may interrupt before connections are told to stop.
const STOP_RETRY_COUNT: usize = 16;

/// Receive timeout of a listener that is about to be closed: the minimum.
const BACKLOG_WAIT: Duration = Duration::from_millis(1);

impl UringEngine {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.update_accepting();
            self.resume_receives();
            self.ring.wait(self.wait_ms())?;
            self.worker.update_time();
            self.complete()?;
            if self.accept_flood.end_batch(self.worker.context.now) {
                self.accepts.resize(self.worker.listeners.len() * ACCEPT_MAX, Receive::Idle);
                self.cancel_accepts();
            }
            for _ in 0..ACCEPT_MAX {
                if !self.may_start() || !self.start_arrival() {
                    break;
                }
            }
            self.take_rests();
            if self.accept_recheck.take_due(self.worker.context.now) {
                self.cancel_accepts();
            }
            for _ in 0..self.again.len() {
                let Some(index) = self.again.pop_front() else { break };
                if let Some(slot) = self.worker.slots.get_mut(index) {
                    slot.state.queued = false;
                }
                self.drive(index);
            }
            while let Some(index) = self.worker.next_resumed() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_expired() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_evicted(self.freeing_count) {
                self.drive(index);
            }
            for _ in 0..self.worker.woken_count() {
                let Some(index) = self.worker.next_woken() else { break };
                self.drive(index);
            }
            while let Some(index) = self.worker.next_backend(false) {
                self.drive(index);
            }
            self.worker.end_batch();
            let any_in_flight = self.accepts.iter().any(|&accepting| accepting != Receive::Idle);
            if self.worker.is_finished() && !any_in_flight {
                return Ok(());
            }
        }
    }

    /// Returns how many milliseconds to wait for a completion. `None`: for ever.
    #[inline]
    fn wait_ms(&self) -> Option<u64> {
        if !self.again.is_empty() || !self.starved.is_empty() || self.may_start() && !self.arrivals.is_empty()
        {
            return Some(0);
        }
        let recheck = self.accept_recheck.wait_ms(self.worker.context.now);
        self.worker.wait_ms().into_iter().chain(recheck).min()
    }

    /// Handles all completions. Returns whether there was one.
    fn complete(&mut self) -> io::Result<bool> {
        let mut any = false;
        while let Some(completion) = self.ring.next() {
            any = true;
            match completion.op {
                Op::Receive(index) => self.received(index, completion),
                Op::Send(index) => self.sent(index, completion.result),
                Op::Accept(number) => self.accepted(number, &completion)?,
                Op::Mailbox => self.read_mailbox(&completion)?,
                op if completion.result.is_err() => self.retry_cancel(op),
                _ => {}
            }
        }
        Ok(any)
    }

    #[inline]
    fn received(&mut self, index: u32, completion: Completion) {
        let UringEngine { worker: Worker { slots, context, .. }, ring, starved, .. } = self;
        let slot = slots.get_mut(index).expect("a slot lives while something is in flight for it");
        if !completion.more {
            slot.state.receive = Receive::Idle;
        }
        let (mut is_full, mut is_usual) = (false, true);
        let kept = match (completion.result, &completion.buffer) {
            (Ok(0), _) => {
                slot.state.ended = true;
                Ok(())
            }
            (Ok(len), Some(buffer)) if !slot.state.closed => {
                (is_full, is_usual) = (len as usize >= buffer.group().len, buffer.is_usual());
                slot.state.receives_once &= is_full || slot.conn.is_to_backend();
                store_received(context, slot, ring.received(buffer, len as usize))
            }
            (Ok(_), _) => Ok(()),
            // All provided buffers are offered again before the next system call.
            (Err(Errno::NOBUFS), _) if !slot.state.closed && slot.state.receive == Receive::Idle => {
                slot.state.receive = Receive::Starved;
                slot.state.receives_once = true;
                starved.push(index, slot.inbox.is_some());
                Ok(())
            }
            (Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN), _) => Ok(()),
            (Err(error @ (Errno::IO | Errno::BADMSG | Errno::MSGSIZE)), _)
                if slot.transport.is_kernel_tls() && !slot.state.closed =>
            {
                slot.state.record_waits = Some(error);
                Ok(())
            }
            (Err(_), _) => Err(Closed),
        };
        if let Some(buffer) = completion.buffer {
            ring.offer(buffer);
        }
        if is_full && slot.state.receive == Receive::Armed && slot.conn.need().input == Input::Discard {
            slot.state.receive = Receive::Cancelling;
            ring.cancel_receive(index);
        }
        slot.state.full_count = if is_full { slot.state.full_count.saturating_add(1) } else { 0 };
        // A receive that goes on takes 32 buffers at a time, which keep the worker from others.
        if slot.state.full_count >= FULL_COUNT_MAX
            && slot.state.receive == Receive::Armed
            && !slot.state.receives_once
            && slot.conn.is_client()
            && slot.conn.need().input == Input::Bytes
        {
            slot.state.receives_once = true;
            slot.state.receive = Receive::Cancelling;
            ring.cancel_receive(index);
        }
        if is_full && slot.conn.is_to_backend() {
            slot.state.may_have_more = true;
            if !mem::replace(&mut slot.state.receives_once, true) && slot.state.receive == Receive::Armed {
                slot.state.receive = Receive::Cancelling;
                ring.cancel_receive(index);
            }
        }
        match kept {
            Ok(()) => self.drive(index),
            Err(Closed) => return self.close(index),
        }
        if is_full {
            if is_usual {
                self.starved.note_full();
            }
            self.note_rest(index);
        }
    }

    /// Notes that the socket may hold the rest of a request, if that is incomplete.
    fn note_rest(&mut self, index: u32) {
        if let Some(slot) = self.worker.slots.get_mut(index)
            && slot.inbox.is_some()
            && !mem::replace(&mut slot.state.may_have_rest, true)
        {
            self.rests.push(index);
        }
    }

    /// Takes the rests of requests. The kernel receives only within calls of this thread, so all earlier bytes have arrived, unless
    /// completions still wait in the kernel.
    fn take_rests(&mut self) {
        if self.rests.is_empty() || self.ring.has_overflow() {
            return;
        }
        for index in mem::take(&mut self.rests) {
            let Worker { slots, context, .. } = &mut self.worker;
            let Some(slot) = slots.get_mut(index) else { continue };
            if mem::take(&mut slot.state.may_have_rest) && take_rest(context, slot) {
                self.drive(index);
            }
        }
    }

    /// Starts starved receives again: those whose turn it is.
    fn resume_receives(&mut self) {
        for _ in 0..self.starved.start_turn(self.worker.context.pool.buf_len()) {
            let Some(index) = self.starved.pop() else { break };
            // Since then the slot may have closed, and serve another client.
            let Some(slot) = self.worker.slots.get_mut(index) else { continue };
            if slot.state.receive == Receive::Starved {
                slot.state.receive = Receive::Idle;
                self.drive(index);
            }
        }
    }

    #[inline]
    fn sent(&mut self, index: u32, result: Result<u32, Errno>) {
        let Worker { slots, context, .. } = &mut self.worker;
        let slot = slots.get_mut(index).expect("a slot lives while something is in flight for it");
        let sent = match (slot.state.send.take(), result) {
            (Some(Send::Buffer), Ok(len @ 1..)) => {
                if !slot.state.closed {
                    slot.sent(&mut context.conn_resources(), len.into());
                }
                Ok(())
            }
            (Some(Send::Buffer), Err(Errno::INTR | Errno::AGAIN)) => Ok(()),
            // An error, or the archive was truncated: nothing is left to send.
            (Some(Send::Buffer), _) => Err(Closed),
            // The next send shows whether the socket is writable and the client still connected.
            (Some(Send::WaitWritable) | None, _) => Ok(()),
        };
        match sent {
            Ok(()) => self.drive(index),
            Err(Closed) => self.close(index),
        }
    }

    fn drive(&mut self, index: u32) {
        let mut step_count = 0;
        loop {
            let UringEngine { worker, ring, again, .. } = self;
            let driven = worker.drive(index, |context, slot| {
                let next = drive::drive(context, slot, ring, index, &mut step_count)?;
                if matches!(next, NextDrive::Again) && !mem::replace(&mut slot.state.queued, true) {
                    again.push_back(index);
                }
                Ok(next)
            });
            match driven {
                None | Some(Ok(NextDrive::Wait | NextDrive::Again)) => return,
                // Meanwhile the connection may receive or close.
                Some(Ok(NextDrive::Load(missing))) => self.worker.load(index, *missing),
                Some(Ok(NextDrive::Handshake(step))) => self.worker.hand_off(index, step),
                Some(Ok(NextDrive::Verify(job))) => self.worker.verify(index, job),
                Some(Err(Closed)) => return self.close(index),
            }
        }
    }

    /// Closes a connection: cancels its operations, and frees the slot when none is in flight.
    #[cold]
    fn close(&mut self, index: u32) {
        let UringEngine { worker: Worker { slots, context, .. }, ring, freeing_count, .. } = self;
        let Some(slot) = slots.get_mut(index) else { return };
        let first = !mem::replace(&mut slot.state.closed, true);
        // The kernel does not use these buffers: other connections may need them at once.
        context.release_inbox(slot);
        release_backlog(context, slot);
        if !slot.state.receive.is_in_flight() && slot.state.send.is_none() {
            *freeing_count -= usize::from(slot.state.frees_buffers);
            self.worker.remove(index);
            return;
        }
        if !first {
            return;
        }
        slot.state.frees_buffers = slot.holds_buffers(&context.pipes);
        *freeing_count += usize::from(slot.state.frees_buffers);
        if slot.state.receive == Receive::Armed {
            slot.state.receive = Receive::Cancelling;
            ring.cancel_receive(index);
        }
        if slot.state.send.is_some() {
            ring.cancel_send(index);
        }
    }

    /// A cancel did not find its target: the target has completed, or the engine must cancel it again.
    #[cold]
    fn retry_cancel(&mut self, op: Op) {
        let UringEngine { worker: Worker { slots, .. }, ring, accepts, .. } = self;
        let mut is = |index, in_flight: fn(&InFlight) -> bool| {
            slots.get_mut(index).is_some_and(|slot| in_flight(&slot.state))
        };
        match op {
            Op::CancelAccept(number) if accepts.get(number as usize) == Some(&Receive::Cancelling) => {
                ring.cancel_accept(number);
            }
            Op::CancelReceive(index) if is(index, |in_flight| in_flight.receive == Receive::Cancelling) => {
                ring.cancel_receive(index);
            }
            Op::CancelSend(index) if is(index, |in_flight| in_flight.closed && in_flight.send.is_some()) => {
                ring.cancel_send(index);
            }
            _ => {}
        }
    }

    fn accepted(&mut self, number: u32, completion: &Completion) -> io::Result<()> {
        if !completion.more {
            self.accepts[number as usize] = Receive::Idle;
        }
        match completion.result {
            Ok(fd) => {
                self.accept_flood.count();
                self.arrivals.push_back((accepted(fd), number as usize % self.worker.listeners.len().max(1)));
            }
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                self.worker.back_off_accepting()
            }
            Err(error) if crate::data::engine::is_fatal(error) => return Err(error.into()),
            // The client has gone already; accept(2) reports an error of this client's network; or the accept was cancelled.
            Err(_) => {}
        }
        self.shut_down_clients()
    }

    /// Returns whether there is room for a connection. One accept of the kernel may bring more than that: the others wait.
    #[inline]
    fn may_start(&self) -> bool {
        !self.worker.slots.is_full() || self.worker.is_shutting_down()
    }

    /// Starts the next connection that was accepted. Returns whether there was one.
    #[inline]
    fn start_arrival(&mut self) -> bool {
        let Some((fd, listener)) = self.arrivals.pop_front() else { return false };
        self.start(fd, listener);
        true
    }

    fn start(&mut self, fd: OwnedFd, listener: usize) {
        if let Some(index) = self.worker.insert(fd, listener) {
            self.drive(index);
        }
    }

    fn read_mailbox(&mut self, completion: &Completion) -> io::Result<()> {
        if !completion.more {
            self.ring.watch_mailbox(&self.worker.mailbox);
        }
        if let Some(shutdown_mode) = self.worker.read_messages() {
            self.shutdown_mode = Some(shutdown_mode);
            self.cancel_accepts();
            self.shut_down_clients()?;
        }
        Ok(())
    }

    /// Shuts down the open connections, once no accept is in flight.
    fn shut_down_clients(&mut self) -> io::Result<()> {
        let any_in_flight = self.accepts.iter().any(|&accepting| accepting != Receive::Idle);
        let Some(shutdown_mode) = self.shutdown_mode.filter(|_| !any_in_flight) else { return Ok(()) };
        self.shutdown_mode = None;
        self.accepts.clear();
        while self.start_arrival() {}
        self.accept_backlog()?;
        if shutdown_mode == ShutdownMode::Stop {
            // Bytes that have arrived count as a request. Receives that have bytes complete before the connections are told to stop;
            // one call returns only some of them.
            let pass_count = self.worker.slots.indices().len() + STOP_RETRY_COUNT;
            for _ in 0..pass_count {
                self.resume_receives();
                let has_looked = self.ring.wait(Some(0))?;
                if !self.complete()? && has_looked && self.starved.is_empty() {
                    break;
                }
            }
        }
        for index in self.worker.slots.indices() {
            let Worker { slots, context, .. } = &mut self.worker;
            let Some(slot) = slots.get_mut(index) else { continue };
            match shutdown_mode {
                ShutdownMode::Drain => slot.conn.drain(&mut context.conn_resources()),
                ShutdownMode::Stop => slot.conn.stop(&mut context.conn_resources()),
            }
            self.drive(index);
        }
        Ok(())
    }

    /// Accepts all clients in the accept queue: closing the listener would reset them, and the kernel may have woken no other worker
    /// for them.
    fn accept_backlog(&mut self) -> io::Result<()> {
        for (number, listener) in mem::take(&mut self.worker.listeners).into_iter().enumerate() {
            // A timeout rather than non-blocking mode: a worker with the same listener that starts now would undo that mode.
            set_socket_timeout(&listener, Timeout::Recv, Some(BACKLOG_WAIT))?;
            while self.worker.may_accept() {
                match socket::accept_blocking(&listener) {
                    Ok(fd) => self.start(fd, number),
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    Err(_) => break,
                }
            }
        }
        Ok(())
    }

    /// Cancels the accepts in flight. They start again if the worker may accept.
    #[cold]
    fn cancel_accepts(&mut self) {
        for (number, accepting) in self.accepts.iter_mut().enumerate() {
            if *accepting == Receive::Armed {
                *accepting = Receive::Cancelling;
                self.ring.cancel_accept(number as u32);
            }
        }
    }

    /// Starts or cancels accepts, depending on whether the worker may accept.
    #[inline]
    fn update_accepting(&mut self) {
        let open =
            self.worker.may_accept() && !self.worker.is_shutting_down() && self.arrivals.len() < ARRIVALS_MAX;
        let listeners = self.worker.listeners.iter();
        for ((number, accepting), listener) in self.accepts.iter_mut().enumerate().zip(listeners.cycle()) {
            match (open, *accepting) {
                (true, Receive::Idle) if self.accept_flood.is_on() => {
                    *accepting = Receive::Armed;
                    self.ring.accept_once(number as u32, listener);
                }
                (true, Receive::Idle) if number < self.worker.listeners.len() => {
                    *accepting = Receive::Armed;
                    self.ring.accept(number as u32, listener);
                }
                (false, Receive::Armed) => {
                    *accepting = Receive::Cancelling;
                    self.ring.cancel_accept(number as u32);
                }
                _ => {}
            }
        }
    }
}

/// Returns the descriptor of an accept completion.
fn accepted(fd: u32) -> OwnedFd {
    // SAFETY: the kernel has just created this descriptor, and no other code has its number.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}
