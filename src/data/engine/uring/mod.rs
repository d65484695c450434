//! Completions, with io_uring(7).
//!
//! ```text
//! listener ─ accept, multishot ─▶ slot ─ receive, multishot ─▶ provided buffer ─ copy ─▶ inbox ─▶ Connection
//!                                  ▲                                                                │ outbox
//!                                  └──────────── sent ◀─ completion ◀─ send ◀─ buffer ◀─────────────┘
//! ```
//!
//! What is in flight for a connection is known here alone. A connection that is over is let go of when nothing is in
//! in_flight any more, so that the kernel never touches what has been freed.
//!
//! Receiving goes on by itself while the connection wants bytes without a limit. When it asks to pause, the receive is
//! cancelled; what arrives until that is done waits in pool buffers behind the inbox.
//!
//! A large stretch leaves by `sendfile`, called from here: the ring has no such operation. The socket, which is
//! blocking for the ring's sake, is made non-blocking for the moment.

mod buffers;
mod ring;
mod send_buffers;

use crate::{
    data::{
        engine::WorkerReady,
        worker::{Slot, Worker, WorkerConfig, WorkerContext, mailbox::ShutdownMode},
    },
    site::StoreId,
};
use ring::{Completion, Op, Ring};
use rustix::{
    fs::sendfile,
    io::{Errno, ioctl_fionbio},
    net::{
        Shutdown, SocketFlags, accept_with, shutdown,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use send_buffers::{BufferPart, SendBuffer, SendBuffers};
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::Duration,
};
use tarpon_conn::{BUF_LEN, Close, Input, Leg, Run, Span};

/// What is in flight for one connection.
#[derive(Default)]
pub(super) struct InFlight {
    receive: Receive,
    send: Option<Send>,
    /// The connection is over: nothing is begun any more, and when nothing is in flight it is let go of.
    closed: bool,
    /// The client has closed its side.
    ended: bool,
    /// It will have a turn although no completion tells.
    queued: bool,
    /// Arrived while the inbox was full, oldest first.
    backlog: VecDeque<Run>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Receive {
    #[default]
    Idle,
    Armed,
    /// Cancelled, and not completed yet.
    Cancelling,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Send {
    /// A buffer is on its way.
    Buffer(u32),
    /// The socket is full; its room is waited for.
    WaitWritable,
}

/// The connection is over: closed in order, reset, or failed.
struct UringClosed;

/// Whether there is a ring to be had with all that the engine needs.
///
/// # Errors
/// The kernel is older than 6.1, or the host forbids it.
pub(super) fn probe() -> io::Result<()> {
    // On a thread of its own: the kernel ends a ring later, and interrupts the system calls of the thread that had it.
    let probe = thread::Builder::new().name("probe".to_owned()).spawn(|| Ring::new().map(drop))?;
    probe.join().expect("making a ring does not panic")
}

pub(super) fn run(config: WorkerConfig, ready: WorkerReady) -> io::Result<()> {
    let worker = Worker::new(config);
    for listener in &worker.listeners {
        // A non-blocking listener would make the ring say so instead of waiting.
        ioctl_fionbio(listener, false)?;
    }
    let mut engine = UringEngine {
        accepts: vec![Receive::Idle; worker.listeners.len()],
        shutdown_mode: None,
        worker,
        send_buffers: SendBuffers::default(),
        ring: Ring::new()?,
        again: VecDeque::new(),
    };
    engine.ring.watch_mailbox(&engine.worker.mailbox);
    ready.signal();
    let outcome = catch_unwind(AssertUnwindSafe(|| engine.run()));
    // Whatever has happened, a panic too, the kernel must be done with our memory before it is freed. If that cannot
    // be had, it is not freed.
    if let Err(error) = engine.ring.finish() {
        mem::forget(engine);
        return Err(error);
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Dropped in this order: first the ring, then what its entries have named.
struct UringEngine {
    ring: Ring,
    send_buffers: SendBuffers,
    worker: Worker<InFlight>,
    /// For each listener.
    accepts: Vec<Receive>,
    /// How it is to part from its clients, once it has ended to accept.
    shutdown_mode: Option<ShutdownMode>,
    /// Slots that have more to do although no completion will tell.
    again: VecDeque<u32>,
}

/// Steps of one turn: enough for a burst of pipelined requests, and then others come first.
const STEP_COUNT_MAX: usize = 16;

/// Responses up to this length, in bytes, are copied: less than with readiness, as each send in flight needs memory of
/// its own.
const COPIED_LEN_MAX: u64 = 3 * 1024;
const _: () = assert!(COPIED_LEN_MAX as usize <= SendBuffer::LEN);

/// Stretches from this length on, in bytes, leave by `sendfile`.
const SEND_FILE_LEN_MIN: u64 = 18 * 1024;

/// The most that one `sendfile` is asked for, in bytes.
const SEND_FILE_LEN_MAX: u64 = 1024 * 1024;

/// How long a listener that is about to be closed is waited for: as good as not at all.
const BACKLOG_WAIT: Duration = Duration::from_millis(1);

impl UringEngine {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.update_accepting();
            let wait_ms = if self.again.is_empty() { self.worker.wait_ms() } else { Some(0) };
            self.ring.wait(wait_ms)?;
            self.worker.update_time();
            self.complete()?;
            for _ in 0..self.again.len() {
                let Some(index) = self.again.pop_front() else { break };
                if let Some(slot) = self.worker.slots.get_mut(index) {
                    slot.state.queued = false;
                }
                self.drive(index);
            }
            while let Some(index) = self.worker.next_loaded() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_expired() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_evicted() {
                self.drive(index);
            }
            self.worker.end_batch();
            let any_in_flight = self.accepts.iter().any(|&accepting| accepting != Receive::Idle);
            if self.worker.is_finished() && !any_in_flight {
                return Ok(());
            }
        }
    }

    /// Acts on all completions there are. Returns whether there was one.
    fn complete(&mut self) -> io::Result<bool> {
        let mut any = false;
        while let Some(completion) = self.ring.next() {
            any = true;
            match completion.op {
                Op::Receive(index) => self.received(index, &completion),
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
    fn received(&mut self, index: u32, completion: &Completion) {
        let UringEngine { worker: Worker { slots, context, .. }, ring, .. } = self;
        let slot = slots.get_mut(index).expect("a slot lives while something is in flight for it");
        if !completion.more {
            slot.state.receive = Receive::Idle;
        }
        let kept = match (completion.result, completion.buffer) {
            (Ok(0), _) => {
                slot.state.ended = true;
                Ok(())
            }
            (Ok(len), Some(buffer)) if !slot.state.closed => {
                store_received(context, slot, ring.buffers.bytes(buffer, len as usize))
            }
            (Ok(_), _) => Ok(()),
            // Out of buffers, which are all given back before the kernel is called again; or cancelled, as asked.
            (Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN), _) => Ok(()),
            (Err(_), _) => Err(UringClosed),
        };
        if let Some(buffer) = completion.buffer {
            ring.buffers.offer(buffer);
        }
        match kept {
            Ok(()) => self.drive(index),
            Err(UringClosed) => self.close(index),
        }
    }

    #[inline]
    fn sent(&mut self, index: u32, result: Result<u32, Errno>) {
        let UringEngine { worker: Worker { slots, context, .. }, send_buffers, .. } = self;
        let slot = slots.get_mut(index).expect("a slot lives while something is in flight for it");
        let sent = match (slot.state.send.take(), result) {
            (Some(Send::Buffer(buffer)), result) => {
                send_buffers.release(buffer);
                match result {
                    // Of an archive that has become shorter nothing is left to send.
                    Ok(0) => Err(UringClosed),
                    Ok(len) => {
                        if !slot.state.closed {
                            slot.conn.sent(&mut context.cx(), Leg::Client, len.into());
                        }
                        Ok(())
                    }
                    Err(Errno::INTR | Errno::AGAIN) => Ok(()),
                    Err(_) => Err(UringClosed),
                }
            }
            // Whether there is room, and whether the client is still there, the next send tells.
            (Some(Send::WaitWritable) | None, _) => Ok(()),
        };
        match sent {
            Ok(()) => self.drive(index),
            Err(UringClosed) => self.close(index),
        }
    }

    fn drive(&mut self, index: u32) {
        for _ in 0..STEP_COUNT_MAX {
            match self.step(index) {
                Ok(true) => {}
                Ok(false) => return self.worker.update_deadline(index),
                Err(UringClosed) => return self.close(index),
            }
        }
        if let Some(slot) = self.worker.slots.get_mut(index)
            && !mem::replace(&mut slot.state.queued, true)
        {
            self.again.push_back(index);
        }
        self.worker.update_deadline(index);
    }

    /// One step of a turn. Returns whether there may be another one now.
    #[inline]
    fn step(&mut self, index: u32) -> Result<bool, UringClosed> {
        let UringEngine { worker: Worker { slots, context, .. }, ring, send_buffers, .. } = self;
        let Some(slot) = slots.get_mut(index) else { return Ok(false) };
        if slot.state.closed {
            return Err(UringClosed);
        }
        let need = slot.conn.need(Leg::Client);
        // First of all: what a connection still owes when it gives up must not be sent.
        if need.close == Close::Both {
            return Err(UringClosed);
        }
        if slot.state.send.is_none() && slot.loading.is_none() && !slot.conn.outbox(Leg::Client).is_empty() {
            if let Some(missing) = context.first_not_resident(
                slot.conn.outbox(Leg::Client),
                SEND_FILE_LEN_MIN,
                SEND_FILE_LEN_MAX,
            ) {
                self.worker.load(index, missing);
                return Ok(true);
            }
            return send_front(context, slot, ring, send_buffers, index).map(|()| true);
        }
        if let Some(wanted) = slot.conn.wants()
            && slot.loading.is_none()
            && slot.conn.outbox(Leg::Client).is_empty()
        {
            match context.wanted_not_resident(wanted) {
                Some(missing) => self.worker.load(index, missing),
                None => slot.conn.loaded(),
            }
            return Ok(true);
        }
        if need.close == Close::Write && !slot.write_closed {
            slot.write_closed = true;
            shutdown(&slot.fd, Shutdown::Write).map_err(|_| UringClosed)?;
        }
        let in_flight = &mut slot.state;
        match (need.input, slot.inbox) {
            (Input::Pause, _) => {
                if in_flight.receive == Receive::Armed {
                    in_flight.receive = Receive::Cancelling;
                    ring.cancel_receive(index);
                }
                Ok(false)
            }
            (Input::Bytes { .. }, Some(run)) if slot.inbox_changed => {
                context.offer(slot, run).map_err(|_| UringClosed)?;
                if !slot.inbox_changed || slot.inbox.is_none() {
                    refill(context, slot);
                }
                Ok(true)
            }
            (Input::Bytes { .. }, _) => {
                if mem::take(&mut slot.state.ended) {
                    context.release_inbox(slot);
                    slot.conn.ended(&mut context.cx(), Leg::Client);
                    return Ok(true);
                }
                if slot.state.receive == Receive::Idle {
                    slot.state.receive = Receive::Armed;
                    ring.receive(index, &slot.fd);
                }
                Ok(false)
            }
        }
    }

    /// The connection is over: ends what is in flight, and lets go of it when nothing is.
    #[cold]
    fn close(&mut self, index: u32) {
        let UringEngine { worker: Worker { slots, context, .. }, ring, .. } = self;
        let Some(slot) = slots.get_mut(index) else { return };
        let first = !mem::replace(&mut slot.state.closed, true);
        // Copies, of which the kernel knows nothing: others may need their buffers at once.
        context.release_inbox(slot);
        release_backlog(context, slot);
        if slot.state.receive == Receive::Idle && slot.state.send.is_none() {
            self.worker.remove(index);
            return;
        }
        if !first {
            return;
        }
        if slot.state.receive == Receive::Armed {
            slot.state.receive = Receive::Cancelling;
            ring.cancel_receive(index);
        }
        if slot.state.send.is_some() {
            ring.cancel_send(index);
        }
    }

    /// Something was to be ended, and was not found: it has completed, or must be looked for again.
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
            Ok(fd) => self.start(accepted(fd)),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                self.worker.back_off_accepting()
            }
            Err(error) if crate::data::engine::is_fatal(error) => return Err(error.into()),
            // The client has gone again; accept(2) reports an error of the network that is its own; or cancelled.
            Err(_) => {}
        }
        self.shut_down_clients()
    }

    fn start(&mut self, fd: OwnedFd) {
        let index = self.worker.insert(fd);
        self.drive(index);
    }

    fn read_mailbox(&mut self, completion: &Completion) -> io::Result<()> {
        if !completion.more {
            self.ring.watch_mailbox(&self.worker.mailbox);
        }
        if let Some(shutdown_mode) = self.worker.read_messages() {
            self.shutdown_mode = Some(shutdown_mode);
            for (number, accepting) in self.accepts.iter_mut().enumerate() {
                if *accepting == Receive::Armed {
                    *accepting = Receive::Cancelling;
                    self.ring.cancel_accept(number as u32);
                }
            }
            self.shut_down_clients()?;
        }
        Ok(())
    }

    /// Part from the clients, once no accept is in flight any more.
    fn shut_down_clients(&mut self) -> io::Result<()> {
        let any_in_flight = self.accepts.iter().any(|&accepting| accepting != Receive::Idle);
        let Some(shutdown_mode) = self.shutdown_mode.filter(|_| !any_in_flight) else { return Ok(()) };
        self.shutdown_mode = None;
        self.accepts.clear();
        self.accept_backlog()?;
        if shutdown_mode == ShutdownMode::Stop {
            // What has arrived by now has begun. Receives begun just now, and those that have bytes, complete before anybody is
            // told to stop. One call brings only some of them.
            for _ in self.worker.slots.indices() {
                self.ring.wait(Some(0))?;
                if !self.complete()? {
                    break;
                }
            }
        }
        for index in self.worker.slots.indices() {
            let Worker { slots, context, .. } = &mut self.worker;
            let Some(slot) = slots.get_mut(index) else { continue };
            match shutdown_mode {
                ShutdownMode::Drain => slot.conn.drain(),
                ShutdownMode::Stop => {
                    slot.conn.stop(&mut context.cx());
                    self.drive(index);
                }
            }
        }
        Ok(())
    }

    /// Who is in the backlog has begun. Closing the listener would reset them; and where others accept on it too, the kernel may
    /// have told nobody else of them.
    fn accept_backlog(&mut self) -> io::Result<()> {
        for listener in mem::take(&mut self.worker.listeners) {
            // Not made non-blocking, which another worker that has the same listener and only just begins would undo.
            set_socket_timeout(&listener, Timeout::Recv, Some(BACKLOG_WAIT))?;
            while self.worker.may_accept() {
                match accept_with(&listener, SocketFlags::CLOEXEC) {
                    Ok(fd) => self.start(fd),
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    Err(_) => break,
                }
            }
        }
        Ok(())
    }

    /// Accepts while connections may be accepted, and only then.
    #[inline]
    fn update_accepting(&mut self) {
        let open = self.worker.may_accept() && !self.worker.is_shutting_down();
        for (number, listener) in self.worker.listeners.iter().enumerate() {
            let accepting = &mut self.accepts[number];
            match (open, *accepting) {
                (true, Receive::Idle) => {
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

/// A descriptor that a completion brought.
fn accepted(fd: u32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and told nobody else.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// Puts what has arrived into the inbox, or behind it.
#[inline]
fn store_received(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    bytes: &[u8],
) -> Result<(), UringClosed> {
    match slot.inbox {
        None => {
            context.pool.buf_mut(context.scratch)[..bytes.len()].copy_from_slice(bytes);
            let run = Run { buf: context.scratch, at: 0, len: bytes.len() as u32 };
            match slot.conn.need(Leg::Client).input {
                Input::Bytes { .. } => context.offer(slot, run).map_err(|_| UringClosed),
                Input::Pause => context.keep_in_inbox(slot, run).map_err(|_| UringClosed),
            }
        }
        Some(ref mut inbox) => {
            let last = slot.state.backlog.back_mut().unwrap_or(inbox);
            let (front, rest) = bytes.split_at(bytes.len().min(BUF_LEN - last.len as usize));
            *last = context.pool.append(*last, front);
            slot.inbox_changed = true;
            if !rest.is_empty() {
                let buf = context.pool.take().ok_or(UringClosed)?;
                context.pool.buf_mut(buf)[..rest.len()].copy_from_slice(rest);
                slot.state.backlog.push_back(Run { buf, at: 0, len: rest.len() as u32 });
            }
            Ok(())
        }
    }
}

/// Moves what waits behind the inbox into it, as far as it fits.
fn refill(context: &mut WorkerContext, slot: &mut Slot<InFlight>) {
    while let Some(next) = slot.state.backlog.pop_front() {
        let Some(run) = slot.inbox else {
            (slot.inbox, slot.inbox_changed) = (Some(next), true);
            continue;
        };
        let len = next.len.min(BUF_LEN as u32 - run.len);
        slot.inbox_changed |= len > 0;
        slot.inbox = Some(context.pool.join(run, Run { len, ..next }));
        let rest = next.skip(len as usize);
        if rest.len > 0 {
            return slot.state.backlog.push_front(rest);
        }
        context.pool.release(rest.buf);
    }
}

fn release_backlog(context: &mut WorkerContext, slot: &mut Slot<InFlight>) {
    for run in slot.state.backlog.drain(..) {
        context.pool.release(run.buf);
    }
}

/// Sends the front of the outbox once: begins to, or has done so when this returns.
#[inline]
fn send_front(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    ring: &mut Ring,
    send_buffers: &mut SendBuffers,
    index: u32,
) -> Result<(), UringClosed> {
    let spans = slot.conn.outbox(Leg::Client);
    let (file, at, len) = match spans[0] {
        Span::File { image, number, at, len } => (context.site(image).file(number), at, len),
        Span::Archive { image, at, len } if !context.is_in_memory(&spans[0], SEND_FILE_LEN_MIN) => {
            let (file, begin) = context.site(image).file_of(StoreId::Archive);
            (file, begin + at, len)
        }
        Span::Site { image, at, len } if len >= SEND_FILE_LEN_MIN => {
            let (store, begin) = context.site(image).store();
            (store, begin + at, len)
        }
        _ => {
            let number = send_buffers.take();
            let more = fill(send_buffers.get(number), spans, context)
                .inspect_err(|_| send_buffers.release(number))?;
            slot.state.send = Some(Send::Buffer(number));
            ring.send(index, &slot.fd, send_buffers.get(number), more);
            return Ok(());
        }
    };
    match send_file(&slot.fd, file, at, len) {
        // A file that has become shorter than its Content-Length: the client must see that it is cut.
        Ok(0) => Err(UringClosed),
        Ok(len) => {
            slot.conn.sent(&mut context.cx(), Leg::Client, len as u64);
            Ok(())
        }
        Err(Errno::AGAIN) => {
            slot.state.send = Some(Send::WaitWritable);
            ring.wait_writable(index, &slot.fd);
            Ok(())
        }
        Err(Errno::INTR) => Ok(()),
        Err(_) => Err(UringClosed),
    }
}

/// Writes the spans in memory that are at the front into a buffer. Returns whether more follows.
#[inline]
fn fill(buffer: &mut SendBuffer, spans: &[Span], context: &WorkerContext) -> Result<bool, UringClosed> {
    let count = spans.iter().take_while(|span| context.is_in_memory(span, SEND_FILE_LEN_MIN)).count();
    let (front, behind) = spans.split_at(count);
    let len: u64 = front.iter().map(Span::len).sum();
    if len <= COPIED_LEN_MAX {
        for span in front {
            buffer.copy(context.bytes(span));
        }
        // An archive that has become shorter: the client must see that it is cut.
        if buffer.bytes().len() as u64 != len || !front.iter().all(|span| context.is_intact(span)) {
            return Err(UringClosed);
        }
    } else {
        buffer.gather(front.iter().map(|span| match span {
            // Rendered anew while the kernel may still read.
            Span::Start(_) => BufferPart::Copied(context.bytes(span)),
            _ => BufferPart::Borrowed(context.bytes_for_kernel(span)),
        }));
    }
    Ok(!behind.is_empty())
}

fn send_file(socket: &OwnedFd, file: impl AsFd, at: u64, len: u64) -> Result<usize, Errno> {
    let mut at = at;
    ioctl_fionbio(socket, true)?;
    let sent = sendfile(socket, file, Some(&mut at), len.min(SEND_FILE_LEN_MAX) as usize);
    ioctl_fionbio(socket, false)?;
    sent
}
