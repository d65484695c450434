//! Drives one connection: sends its outbox, closes, offers the inbox, and reads, until the connection must wait for an event.
//!
//! Size and place of the bytes decide which system call sends them; the lab measured the limits:
//!
//! ```text
//!  spans in memory, together up to 5 KiB   copied, one send         the copy costs less than a second iovec; 1 KiB more for
//!                                                                   each span after the second one
//!  spans in memory, together more          gathered, one sendmsg
//!  a span of 18 KiB or more, or in a file  sendfile                 the response prefix before it goes out with MSG_MORE
//! ```

use crate::{
    data::{
        engine::{Closed, NextDrive},
        worker::{COPY_LEN_MAX, SendLimits, Slot, Stage, WorkerContext, idle_len},
    },
    sys::{
        io,
        socket::{self, MORE, NO_SIGNAL},
    },
};
use rustix::{
    io::{Errno, retry_on_intr},
    net::{SendFlags, Shutdown, shutdown},
};
use std::{io::IoSlice, mem};
use tarpon_conn::{BufRange, DriveStep, SPAN_COUNT_MAX};

/// Known readiness of a socket: events set it, calls that return EAGAIN clear it.
pub(crate) struct Readiness {
    /// A read may return bytes.
    pub(crate) readable: bool,
    /// A send may find room.
    pub(crate) writable: bool,
    /// The client has closed its side, or the socket has failed: behind the last bytes, a read returns EOF or the error.
    pub(crate) hung_up: bool,
    /// The slot is queued for a drive without an event.
    pub(crate) queued: bool,
}

impl Default for Readiness {
    /// A new socket is writable, and often the request has arrived with the connection.
    fn default() -> Readiness {
        Readiness { readable: true, writable: true, hung_up: false, queued: false }
    }
}

impl Readiness {
    /// Adds the readiness that an event reports. A failed socket counts as ready: the next read or write returns its error.
    #[inline]
    pub(crate) fn add(&mut self, readable: bool, writable: bool, hung_up: bool, failed: bool) {
        self.hung_up |= hung_up | failed;
        self.readable |= readable | self.hung_up;
        self.writable |= writable | failed;
    }

    /// Notes that a read with room for so many bytes has returned this many.
    #[inline]
    fn note_read(&mut self, len: usize, room_len: usize) {
        // A short read has drained the socket; only EOF may still follow.
        self.readable = len == room_len || self.hung_up;
    }
}

/// Limit of steps per drive: enough for a burst of pipelined requests or for 16 calls of `sendfile`. Then the engine drives other
/// connections first.
const STEP_COUNT_MAX: usize = 16;

/// Reads that fill their buffer end a drive: a client that sends without a pause has others wait for this much only.
const FULL_COUNT_MAX: usize = 2;

/// A send that copies so much to the kernel ends a drive: the client reads it while it is in the cache, and other connections come first. Sixteen
/// of them are a MiB, which is in memory before the client has read half.
const YIELD_LEN: u64 = 48 * 1024;

/// A copy of 5 KiB costs less than gathering. A `sendfile` of 1 MiB is so large that the call itself costs little, and so small that other
/// connections wait only briefly.
const LIMITS: SendLimits = SendLimits {
    copied_len_max: 5 * 1024,
    copied_len_per_span: 1024,
    file_len_min: 18 * 1024,
    send_file_len_max: 1024 * 1024,
};
const _: () = assert!(LIMITS.copied_len_max as usize <= COPY_LEN_MAX);

/// Limit of the memory of an idle connection, in bytes: the state of a transport that is not plain is boxed.
const IDLE_LEN_MAX: usize = 700;
const _: () = assert!(idle_len::<Readiness>() <= IDLE_LEN_MAX);

/// Drives one connection.
#[inline(always)]
pub(crate) fn drive(context: &mut WorkerContext, slot: &mut Slot<Readiness>) -> Result<NextDrive, Closed> {
    let mut full_count = 0;
    for _ in 0..STEP_COUNT_MAX {
        match slot.next_step(slot.state.writable) {
            DriveStep::Read => {
                if !slot.state.readable || !read(context, slot)? {
                    return Ok(NextDrive::Wait);
                }
                if slot.state.readable {
                    full_count += 1;
                    if full_count == FULL_COUNT_MAX {
                        return Ok(NextDrive::Again);
                    }
                }
            }
            DriveStep::Send => {
                if let Some(next) = send_front(context, slot)? {
                    return Ok(next);
                }
            }
            step => {
                if let Some(next) = other_step(context, slot, step)? {
                    return Ok(next);
                }
            }
        }
    }
    Ok(NextDrive::Again)
}

/// Does a step that is neither a read nor a send. Returns `None` if another step may follow now.
#[inline(never)]
fn other_step(
    context: &mut WorkerContext,
    slot: &mut Slot<Readiness>,
    step: DriveStep,
) -> Result<Option<NextDrive>, Closed> {
    match step {
        DriveStep::Close => return Err(Closed),
        DriveStep::Load => match context.missing_for_lookup(&slot.conn) {
            Some(missing) => return Ok(Some(NextDrive::Load(missing))),
            None => slot.conn.loaded(),
        },
        DriveStep::Handshake => {
            let step = context.take_handshake_step(slot).map_err(|_| Closed)?;
            return Ok(step.map(NextDrive::Handshake));
        }
        DriveStep::Verify => return Ok(slot.conn.take_password_job().map(NextDrive::Verify)),
        DriveStep::InstallKeys => context.install_keys(slot).map_err(|_| Closed)?,
        DriveStep::ShutDown => {
            slot.write_closed = true;
            shutdown(&slot.fd, Shutdown::Write).map_err(|_| Closed)?;
        }
        DriveStep::Offer => context.offer_inbox(slot).map_err(|_| Closed)?,
        DriveStep::ReadContent => {
            if !slot.state.readable || !read_content(context, slot)? {
                return Ok(Some(NextDrive::Wait));
            }
        }
        DriveStep::Discard => {
            if !slot.state.readable || !discard(context, slot)? {
                return Ok(Some(NextDrive::Wait));
            }
        }
        DriveStep::Pause => return Ok(Some(NextDrive::Wait)),
        DriveStep::Read | DriveStep::Send => unreachable!("the usual steps"),
    }
    Ok(None)
}

/// Receives content once, behind that in the inbox if there is any. Returns `false` if the socket has neither bytes nor EOF.
fn read_content(context: &mut WorkerContext, slot: &mut Slot<Readiness>) -> Result<bool, Closed> {
    if slot.inbox.is_some() {
        return read(context, slot);
    }
    let Some((received, room_len)) = context.receive_content(slot) else { return Ok(true) };
    let Ok(len @ 1..) = received else { return received_none(context, slot, received) };
    slot.state.note_read(len, room_len);
    Ok(true)
}

/// Drops what the socket holds. Returns `false` if it has neither bytes nor EOF.
fn discard(context: &mut WorkerContext, slot: &mut Slot<Readiness>) -> Result<bool, Closed> {
    let received = retry_on_intr(|| io::discard(&slot.fd));
    let Ok(len @ 1..) = received else { return received_none(context, slot, received) };
    slot.state.note_read(len, io::DISCARD_LEN_MAX);
    Ok(true)
}

/// Reads once, behind the bytes in the inbox, and offers the whole inbox. Returns `false` if the socket has neither bytes nor EOF.
#[inline(always)]
fn read(context: &mut WorkerContext, slot: &mut Slot<Readiness>) -> Result<bool, Closed> {
    let (buf, held) = match slot.inbox {
        None => (context.scratch, 0),
        Some(run) => {
            let run = if run.at == 0 { run } else { context.pool.copy(run, run.buf, 0) };
            slot.inbox = Some(run);
            (run.buf, run.len as usize)
        }
    };
    let room = &mut context.pool.buf_mut(buf)[held..];
    assert!(!room.is_empty(), "a connection refuses what fills a buffer and is still incomplete");
    let received = retry_on_intr(|| io::receive(&slot.fd, room));
    let Ok(len @ 1..) = received else { return received_none(context, slot, received) };
    slot.state.note_read(len, room.len());
    let run = BufRange { buf, at: 0, len: (held + len) as u32 };
    context.offer(slot, run).map_err(|_| Closed)?;
    Ok(true)
}

/// Handles what a read has found in place of bytes: the end, nothing yet, or an error. Returns `false` if there was nothing.
#[inline(never)]
fn received_none(
    context: &mut WorkerContext,
    slot: &mut Slot<Readiness>,
    received: Result<usize, Errno>,
) -> Result<bool, Closed> {
    match received {
        Ok(_) => {
            (slot.state.readable, slot.state.hung_up) = (false, false);
            context.release_inbox(slot);
            slot.ended(&mut context.conn_resources());
            Ok(true)
        }
        Err(Errno::AGAIN) => {
            slot.state.readable = false;
            Ok(false)
        }
        // A record of another kind than data is next, or the connection has failed.
        Err(error) if slot.transport.is_kernel_tls() => {
            context.receive_record(slot, error).map(|()| true).map_err(|_| Closed)
        }
        Err(_) => Err(Closed),
    }
}

/// Sends the front of the outbox with one system call. Returns `None` if another step may follow now.
#[inline(always)]
fn send_front(context: &mut WorkerContext, slot: &mut Slot<Readiness>) -> Result<Option<NextDrive>, Closed> {
    let (sources, copy) = context.usual_sources();
    let Some(bytes) = sources.copy_outbox(slot, LIMITS, copy) else { return send_staged(context, slot) };
    let sent = io::send(&slot.fd, bytes, NO_SIGNAL);
    sent_front(context, slot, sent).map(|()| None)
}

/// Sends the front of the outbox in any case.
#[inline(never)]
fn send_staged(context: &mut WorkerContext, slot: &mut Slot<Readiness>) -> Result<Option<NextDrive>, Closed> {
    if let Some(missing) = context.seal(slot, LIMITS).map_err(|_| Closed)? {
        return Ok(Some(NextDrive::Load(missing)));
    }
    let mut next = None;
    let sent = match context.stage(slot, LIMITS) {
        Stage::Missing(missing) => return Ok(Some(NextDrive::Load(missing))),
        Stage::Own(record) => {
            let sent = context.send_own_record(slot, record).map(|()| None);
            return match sent {
                Err(Errno::AGAIN) => {
                    slot.state.writable = false;
                    Ok(None)
                }
                Err(Errno::INTR) => Ok(None),
                sent => sent.map_err(|_| Closed),
            };
        }
        Stage::Sealed { record, has_more } => io::send(&slot.fd, record, flags(has_more)),
        Stage::Copied { front, has_more } => {
            let mut copy = mem::take(&mut context.copy);
            let sent = match context.copy_spans(front, &mut copy) {
                Some(bytes) => io::send(&slot.fd, bytes, flags(has_more)),
                // A file behind a span was truncated.
                None => Ok(0),
            };
            context.copy = copy;
            sent
        }
        Stage::Gathered { front, has_more } => {
            let mut parts = [IoSlice::new(&[]); SPAN_COUNT_MAX];
            for (part, span) in parts.iter_mut().zip(front) {
                *part = IoSlice::new(context.bytes_for_kernel(span));
            }
            let sent = io::send_gathered(&slot.fd, &parts[..front.len()], flags(has_more));
            next = sent.is_ok_and(|len| len as u64 >= YIELD_LEN).then_some(NextDrive::Again);
            sent
        }
        Stage::File { file, at, len } => socket::send_file(&slot.fd, file, at, len),
    };
    sent_front(context, slot, sent).map(|()| next)
}

/// Handles the result of a send.
#[inline]
fn sent_front(
    context: &mut WorkerContext,
    slot: &mut Slot<Readiness>,
    sent: Result<usize, Errno>,
) -> Result<(), Closed> {
    match sent {
        // The file or archive was truncated, so the rest of the content is missing. The close tells the client that the response is cut.
        Ok(0) => return Err(Closed),
        Ok(len) => slot.sent(&mut context.conn_resources(), len as u64),
        Err(Errno::AGAIN) => slot.state.writable = false,
        Err(Errno::INTR) => {}
        Err(_) => return Err(Closed),
    }
    Ok(())
}

/// Returns the flags of a send. With MORE the kernel puts its bytes and the start of the following `sendfile` into one segment.
fn flags(has_more: bool) -> SendFlags {
    if has_more { NO_SIGNAL | MORE } else { NO_SIGNAL }
}
