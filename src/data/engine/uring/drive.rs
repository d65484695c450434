//! Drives one connection with the ring: hands it what was received, and submits its next send or receive, until it must wait for a
//! completion.

use super::{
    InFlight, Receive, Send,
    buffers::BufferGroup,
    ring::Ring,
    send_buffers::{BufferPart, SendBuffer},
};
use crate::{
    data::{
        engine::{Closed, NextDrive},
        worker::{MissingRange, SendLimits, Slot, Stage, WorkerContext},
    },
    sys::{
        inject::{self, Call},
        socket,
    },
};
use rustix::{
    io::{Errno, ioctl_fionbio},
    net::{RecvFlags, Shutdown, recv, shutdown},
};
use std::{
    mem,
    os::fd::{AsFd, OwnedFd},
};
use tarpon_conn::{BufRange, DriveStep, Input, Span};

/// Limit of steps per drive: enough for a burst of pipelined requests; then other connections come first.
const STEP_COUNT_MAX: usize = 16;

/// Less is copied than in the readiness engines, as each send in flight needs memory of its own.
const LIMITS: SendLimits = SendLimits {
    copied_len_max: 3 * 1024,
    copied_len_per_span: 0,
    file_len_min: 18 * 1024,
    send_file_len_max: 1024 * 1024,
};
const _: () = assert!(LIMITS.copied_len_max as usize <= SendBuffer::LEN);

/// Drives one connection. `step_count`: how many steps it has had since its last event.
#[inline(always)]
pub(super) fn drive(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    ring: &mut Ring,
    index: u32,
    step_count: &mut usize,
) -> Result<NextDrive, Closed> {
    while *step_count < STEP_COUNT_MAX {
        *step_count += 1;
        if let Some(next) = step(context, slot, ring, index)? {
            return Ok(next);
        }
    }
    Ok(NextDrive::Again)
}

/// Does one step. Returns `None` if another step may follow now.
#[inline(always)]
fn step(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    ring: &mut Ring,
    index: u32,
) -> Result<Option<NextDrive>, Closed> {
    if slot.state.closed {
        return Err(Closed);
    }
    match slot.next_step(slot.state.send.is_none()) {
        DriveStep::Close => return Err(Closed),
        DriveStep::Send => {
            if let Some(missing) = send_front(context, slot, ring, index)? {
                return Ok(Some(NextDrive::Load(missing)));
            }
        }
        DriveStep::Load => match context.missing_for_lookup(&slot.conn) {
            Some(missing) => return Ok(Some(NextDrive::Load(missing))),
            None => slot.conn.loaded(),
        },
        DriveStep::Handshake => {
            let step = context.take_handshake_step(slot).map_err(|_| Closed)?;
            return Ok(step.map(NextDrive::Handshake));
        }
        DriveStep::Verify => return Ok(slot.conn.take_password_job().map(NextDrive::Verify)),
        DriveStep::InstallKeys => return install_keys(context, slot, ring, index),
        DriveStep::ShutDown => {
            slot.write_closed = true;
            shutdown(&slot.fd, Shutdown::Write).map_err(|_| Closed)?;
        }
        DriveStep::Offer => offer(context, slot)?,
        DriveStep::Read | DriveStep::ReadContent | DriveStep::Discard if mem::take(&mut slot.state.ended) => {
            context.release_inbox(slot);
            slot.ended(&mut context.conn_resources());
        }
        DriveStep::Read | DriveStep::ReadContent if slot.state.record_waits.is_some() => {
            let error = slot.state.record_waits.take().expect("it waits");
            context.receive_record(slot, error).map_err(|_| Closed)?;
        }
        DriveStep::ReadContent if slot.state.may_take_content() && slot.inbox.is_none() => {
            take_content(context, slot)?;
        }
        // A receive in flight may find the end first, which is the usual case.
        DriveStep::Discard => {
            if slot.state.receive == Receive::Idle {
                slot.state.receive = Receive::Armed;
                ring.discard(index, &slot.fd);
            }
            return Ok(Some(NextDrive::Wait));
        }
        DriveStep::Read | DriveStep::ReadContent => {
            if slot.state.receive == Receive::Idle {
                (slot.state.receive, slot.state.may_have_more) = (Receive::Armed, false);
                match slot.state.receives_once {
                    true if slot.conn.is_to_backend() => {
                        ring.receive_once(index, &slot.fd, BufferGroup::LARGE)
                    }
                    true => ring.receive_once(index, &slot.fd, BufferGroup::USUAL),
                    false => ring.receive(index, &slot.fd, BufferGroup::USUAL),
                }
            }
            return Ok(Some(NextDrive::Wait));
        }
        DriveStep::Pause => {
            if slot.state.receive == Receive::Armed {
                slot.state.receive = Receive::Cancelling;
                ring.cancel_receive(index);
            }
            return Ok(Some(NextDrive::Wait));
        }
    }
    Ok(None)
}

/// Offers the inbox, and fills it again.
fn offer(context: &mut WorkerContext, slot: &mut Slot<InFlight>) -> Result<(), Closed> {
    context.offer_inbox(slot).map_err(|_| Closed)?;
    if !slot.inbox_changed || slot.inbox.is_none() {
        refill(context, slot);
    }
    Ok(())
}

/// Gives the keys of a connection to the kernel, once no receive is in flight and all that it received is opened: the rest is for the kernel.
#[cold]
fn install_keys(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    ring: &mut Ring,
    index: u32,
) -> Result<Option<NextDrive>, Closed> {
    if slot.state.receive == Receive::Armed {
        slot.state.receive = Receive::Cancelling;
        ring.cancel_receive(index);
    }
    if slot.state.receive.is_in_flight() {
        return Ok(Some(NextDrive::Wait));
    }
    if slot.inbox.is_some() {
        offer(context, slot)?;
    } else if slot.state.backlog.is_empty() {
        context.install_keys(slot).map_err(|_| Closed)?;
    } else {
        refill(context, slot);
    }
    Ok(None)
}

/// Sends the front of the outbox once: submits a send, or calls `sendfile`. Returns the range that must be read first.
#[inline(always)]
fn send_front(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    ring: &mut Ring,
    index: u32,
) -> Result<Option<Box<MissingRange>>, Closed> {
    let mut buffer = ring.take_send_buffer();
    if buffer.copy_with(|to| context.usual_sources().0.copy_outbox(slot, LIMITS, to)) {
        send(slot, ring, index, buffer, false);
        return Ok(None);
    }
    ring.release(buffer);
    send_staged(context, slot, ring, index)
}

/// Sends the front of the outbox in any case.
#[inline(never)]
fn send_staged(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    ring: &mut Ring,
    index: u32,
) -> Result<Option<Box<MissingRange>>, Closed> {
    if let Some(missing) = context.seal(slot, LIMITS).map_err(|_| Closed)? {
        return Ok(Some(missing));
    }
    let (buffer, has_more) = match context.stage(slot, LIMITS) {
        Stage::Missing(missing) => return Ok(Some(missing)),
        Stage::Own(record) => {
            return match context.send_own_record(slot, record) {
                Err(Errno::AGAIN) => {
                    slot.state.send = Some(Send::WaitWritable);
                    ring.wait_writable(index, &slot.fd);
                    Ok(None)
                }
                Ok(()) | Err(Errno::INTR) => Ok(None),
                Err(_) => Err(Closed),
            };
        }
        Stage::Sealed { record, has_more } => {
            let mut buffer = ring.take_send_buffer();
            // SAFETY: the record lies in a pool buffer that the transport holds until `Transport::sent` or `Transport::closed`, which the
            // engine calls once the send has completed, as for gathered parts.
            unsafe { buffer.gather([BufferPart::Borrowed(record)].into_iter()) };
            (buffer, has_more)
        }
        Stage::Copied { front, has_more } => {
            let mut buffer = ring.take_send_buffer();
            if !buffer.copy_with(|to| context.copy_spans(front, to)) {
                ring.release(buffer);
                return Err(Closed);
            }
            (buffer, has_more)
        }
        Stage::Gathered { front, has_more } => {
            let mut buffer = ring.take_send_buffer();
            let parts = front.iter().map(|span| match span {
                // Rendered once per second, perhaps while the kernel reads.
                Span::Prefix(prefix) => BufferPart::Copied(context.prefixes.bytes(*prefix)),
                _ => BufferPart::Borrowed(context.bytes_for_kernel(span)),
            });
            // SAFETY: the parts lie in images and pool buffers that the outbox holds. It releases them in `Connection::sent` and
            // `Connection::closed`; the engine calls these once the send has completed: in `UringEngine::sent`, and in
            // `Worker::remove`, which `UringEngine::close` calls only when nothing is in flight. `run` leaks the worker if the ring does
            // not finish.
            unsafe { buffer.gather(parts) };
            (buffer, has_more)
        }
        Stage::File { file, at, len } => {
            match send_file(&slot.fd, file, at, len) {
                // The file was truncated below its Content-Length: the client must see a cut response.
                Ok(0) => return Err(Closed),
                Ok(len) => slot.sent(&mut context.conn_resources(), len as u64),
                Err(Errno::AGAIN) => {
                    slot.state.send = Some(Send::WaitWritable);
                    ring.wait_writable(index, &slot.fd);
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(Closed),
            }
            return Ok(None);
        }
    };
    send(slot, ring, index, buffer, has_more);
    Ok(None)
}

/// Submits a send.
#[inline]
fn send(slot: &mut Slot<InFlight>, ring: &mut Ring, index: u32, mut buffer: Box<SendBuffer>, has_more: bool) {
    if let Some(len) = inject::short_len(Call::RingSend, || buffer.send_len()) {
        buffer.shorten(len);
    }
    slot.state.send = Some(Send::Buffer);
    ring.send(index, &slot.fd, buffer, has_more);
}

fn send_file(socket: &OwnedFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    ioctl_fionbio(socket, true)?;
    let sent = socket::send_file(socket, file, at, len);
    ioctl_fionbio(socket, false)?;
    sent
}

/// Stores received bytes in the inbox or behind it.
#[inline]
pub(super) fn store_received(
    context: &mut WorkerContext,
    slot: &mut Slot<InFlight>,
    bytes: &[u8],
) -> Result<(), Closed> {
    match slot.inbox {
        None => {
            context.pool.buf_mut(context.scratch)[..bytes.len()].copy_from_slice(bytes);
            let run = BufRange { buf: context.scratch, at: 0, len: bytes.len() as u32 };
            match slot.conn.need().input {
                Input::Bytes | Input::Content | Input::Discard => {
                    context.offer(slot, run).map_err(|_| Closed)
                }
                Input::Pause => context.keep_in_inbox(slot, run).map_err(|_| Closed),
            }
        }
        Some(ref mut inbox) => {
            let last = slot.state.backlog.back_mut().unwrap_or(inbox);
            let (front, rest) = bytes.split_at(bytes.len().min(context.pool.buf_len() - last.len as usize));
            *last = context.pool.append(*last, front);
            slot.inbox_changed = true;
            if !rest.is_empty() {
                let buf = context.pool.take().ok_or(Closed)?;
                context.pool.buf_mut(buf)[..rest.len()].copy_from_slice(rest);
                slot.state.backlog.push_back(BufRange { buf, at: 0, len: rest.len() as u32 });
            }
            Ok(())
        }
    }
}

/// Receives behind the bytes in the inbox what the socket holds. Returns whether it held anything.
pub(super) fn take_rest(context: &mut WorkerContext, slot: &mut Slot<InFlight>) -> bool {
    let Some(inbox) = slot.inbox.filter(|inbox| (inbox.len as usize) < context.pool.buf_len()) else {
        return false;
    };
    let is_open = !slot.state.closed && !slot.state.ended;
    if !is_open || !slot.state.backlog.is_empty() || slot.conn.need().input == Input::Pause {
        return false;
    }
    let inbox = if inbox.at == 0 { inbox } else { context.pool.copy(inbox, inbox.buf, 0) };
    let room = &mut context.pool.buf_mut(inbox.buf)[inbox.len as usize..];
    // The end, and an error, come with a completion, too.
    let len = recv(&slot.fd, room, RecvFlags::DONTWAIT).map_or(0, |(len, _)| len);
    slot.inbox = Some(BufRange { len: inbox.len + len as u32, ..inbox });
    slot.inbox_changed |= len > 0;
    len > 0
}

/// Receives the content of a backend that its socket holds.
#[inline(never)]
fn take_content(context: &mut WorkerContext, slot: &mut Slot<InFlight>) -> Result<(), Closed> {
    let Some((received, room_len)) = context.receive_content(slot) else { return Ok(()) };
    slot.state.may_have_more = matches!(received, Ok(len) if len == room_len);
    match received {
        Ok(0) => slot.state.ended = true,
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(_) => return Err(Closed),
    }
    Ok(())
}

/// Moves bytes from the backlog to the inbox, as far as they fit.
fn refill(context: &mut WorkerContext, slot: &mut Slot<InFlight>) {
    while let Some(next) = slot.state.backlog.pop_front() {
        let Some(run) = slot.inbox else {
            (slot.inbox, slot.inbox_changed) = (Some(next), true);
            continue;
        };
        let len = next.len.min(context.pool.buf_len() as u32 - run.len);
        slot.inbox_changed |= len > 0;
        slot.inbox = Some(context.pool.join(run, BufRange { len, ..next }));
        let rest = next.skip(len as usize);
        if rest.len > 0 {
            return slot.state.backlog.push_front(rest);
        }
        context.pool.release(rest.buf);
    }
}

pub(super) fn release_backlog(context: &mut WorkerContext, slot: &mut Slot<InFlight>) {
    for run in slot.state.backlog.drain(..) {
        context.pool.release(run.buf);
    }
}
