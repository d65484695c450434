//! The way records take from a worker to the log: a ring of bytes, written and read without a lock.
//!
//! ```text
//! worker 0 ─ records of a batch ─▶ [ ring ] ─┐
//! worker 1 ─ records of a batch ─▶ [ ring ] ─┴▶ log, every few milliseconds while there is something
//!     └──────── rings the bell, if the log has fallen asleep ──────────┘
//! ```
//!
//! A worker never waits: a batch that finds no room is lost as a whole, and counted.

use rtrb::{Consumer, Producer, RingBuffer};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    io::Errno,
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    time::Duration,
};
use tarpon_conn::{Counters, RECORDS_LEN, Records};

/// Bytes that may wait for the log, of one worker: some 4,000 exchanges, which is more than a core answers in the time the
/// log naps.
const RING_LEN: usize = 1024 * 1024;
const _: () = assert!(RING_LEN > RECORDS_LEN);

/// The worker's side.
pub(crate) struct Inlet {
    ring: Producer<u8>,
    bell: Arc<Bell>,
}

/// The log's side.
pub(super) struct Outlet {
    ring: Consumer<u8>,
}

/// Wakes the log.
pub(super) struct Bell {
    /// The log sleeps until somebody rings.
    asleep: AtomicBool,
    fd: OwnedFd,
}

/// A ring for one worker.
pub(super) fn ring(bell: &Arc<Bell>) -> (Inlet, Outlet) {
    let (producer, consumer) = RingBuffer::new(RING_LEN);
    (Inlet { ring: producer, bell: Arc::clone(bell) }, Outlet { ring: consumer })
}

impl Inlet {
    /// Hands the records on, or loses them; either way they are cleared.
    pub(crate) fn give(&mut self, records: &mut Records, counters: &Counters) {
        let given = self.ring.push_entire_slice(records.bytes()).is_ok();
        let unlogged = records.take_lost() + if given { 0 } else { records.count() };
        if unlogged > 0 {
            counters.unlogged.add(unlogged);
        }
        records.clear();
        self.bell.ring_if_asleep();
    }
}

impl Outlet {
    /// Appends what has come to `bytes`. Whole records only, as they are given by the batch.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) {
        let Ok(chunk) = self.ring.read_chunk(self.ring.slots()) else { return };
        let (front, back) = chunk.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        chunk.commit_all();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { asleep: AtomicBool::new(false), fd })
    }

    /// Wakes the log, whatever it does.
    pub(super) fn ring(&self) {
        // It fails only when the counter is full, and then the log is being woken anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// One system call for a whole burst: the log does not sleep again before it has found nothing for a while.
    fn ring_if_asleep(&self) {
        // Between the records given and the look at `asleep`; its partner is in `sleep`. Without the two, each side could miss
        // what the other has just done.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Sleeps until somebody rings; not if `is_idle` says that something has come by now.
    pub(super) fn sleep(&self, is_idle: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_idle() {
            self.wait(None);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Sleeps for a while, or until somebody rings loudly.
    pub(super) fn nap(&self, time: Duration) {
        self.wait(Some(time));
    }

    fn wait(&self, time: Option<Duration>) {
        let time = time.and_then(|time| time.try_into().ok());
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => unreachable!("poll(2) of one descriptor that is open: {error}"),
        }
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn nobody_sleeps_through_what_has_come() {
        let bell = Arc::new(Bell::new().expect("an eventfd"));
        let (mut inlet, mut outlet) = ring(&bell);
        let writer = thread::spawn(move || {
            for number in 0..20_000u32 {
                while inlet.ring.push_entire_slice(&number.to_le_bytes()).is_err() {
                    thread::yield_now();
                }
                inlet.bell.ring_if_asleep();
            }
        });
        let mut bytes = Vec::new();
        while bytes.len() < 4 * 20_000 {
            bell.sleep(|| outlet.is_empty());
            outlet.take(&mut bytes);
        }
        writer.join().expect("a writer");
        assert!(bytes.chunks_exact(4).zip(0u32..).all(|(found, number)| *found == number.to_le_bytes()));
    }
}
