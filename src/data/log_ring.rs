//! Log ring: records of one worker on their way to the log. A ring of bytes, written and read without a lock.
//!
//! ```text
//! worker 0 ─ records of a batch ─▶ [ ring ] ─┐
//! worker 1 ─ records of a batch ─▶ [ ring ] ─┴▶ log, every few milliseconds while there is something
//!     └────────── wakes the log if it sleeps ────────────┘
//!
//! ring   written  read  │ length, records … │ length, records … │          words of 8 bytes, a batch begins with one
//!                       └ read              └ written: nothing is valid behind it
//! ```
//!
//! A worker never waits: if the ring has no room for a batch, the batch is dropped and counted.
//!
//! The rings lie in memory shared with forked processes, so threads and worker processes use the same code. A worker that is killed
//! during a write has written nothing. Each ring has one writer at a time.

use crate::sys::{
    self,
    shared::{SharedArray, SharedRow},
    wake::Wake,
};
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    time::Duration,
};
use tarpon_conn::{Counters, RECORDS_LEN, Records};

/// Ring size of one worker in bytes: some 4,000 exchanges, more than a core serves between two reads of the log.
const RING_LEN: usize = 1024 * 1024;

/// Limit for the rings of all workers in bytes: no more workers run at once than there are cores.
const RINGS_LEN: usize = 32 * 1024 * 1024;

/// Lower limit of a ring's size in bytes: a few full batches.
const RING_LEN_MIN: usize = 4 * RECORDS_LEN;

/// Rings of all workers.
#[derive(Clone)]
pub(crate) struct LogRings {
    words: Arc<SharedArray<AtomicU64>>,
    count: usize,
    wakeup: Arc<Wakeup>,
}

/// Write end of a ring, held by the worker.
pub(crate) struct RingProducer {
    ring: LogRing,
    wakeup: Arc<Wakeup>,
}

/// Read end of a ring, held by the log.
pub(crate) struct RingConsumer {
    ring: LogRing,
}

/// Wakes the log when it sleeps.
pub(crate) struct Wakeup {
    /// Set while the log sleeps without a time limit.
    asleep: SharedRow<AtomicBool>,
    wake: Wake,
}

impl LogRings {
    /// Creates a ring for each of `count` workers.
    pub(crate) fn new(count: usize) -> io::Result<LogRings> {
        let len = (RINGS_LEN / count.max(1)).clamp(RING_LEN_MIN, RING_LEN);
        let data_len = 1 << (len / WORD_LEN).ilog2();
        let words = Arc::new(SharedArray::zeros(count * (DATA + data_len))?);
        Ok(LogRings { words, count, wakeup: Arc::new(Wakeup::new()?) })
    }

    /// Returns the write end of a worker's ring.
    pub(crate) fn producer(&self, number: usize) -> RingProducer {
        RingProducer { ring: self.ring(number), wakeup: Arc::clone(&self.wakeup) }
    }

    /// Returns the read ends, by worker number.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = RingConsumer> {
        (0..self.count).map(|number| RingConsumer { ring: self.ring(number) })
    }

    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    fn ring(&self, number: usize) -> LogRing {
        let len = self.words.len() / self.count;
        LogRing { words: Arc::clone(&self.words), at: number * len, data_len: len - DATA }
    }
}

impl AsFd for LogRings {
    /// The wakeup's: a process that has rings has it too.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.wake.as_fd()
    }
}

impl RingProducer {
    /// Pushes the records to the ring, or drops and counts them. Clears them in both cases.
    pub(crate) fn push_records(&mut self, records: &mut Records, counters: &Counters) {
        let pushed = self.ring.push(records.bytes());
        let unlogged = records.take_lost() + if pushed { 0 } else { records.count() };
        if unlogged > 0 {
            counters.log_dropped.add(unlogged);
        }
        records.clear();
        self.wakeup.wake_if_asleep();
    }
}

impl RingConsumer {
    /// Appends all new batches to `bytes`. A batch holds whole records only.
    pub(crate) fn take(&mut self, bytes: &mut Vec<u8>) {
        self.ring.take(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

/// One ring within the shared words.
struct LogRing {
    words: Arc<SharedArray<AtomicU64>>,
    at: usize,
    /// Data words: a power of two.
    data_len: usize,
}

const WORD_LEN: usize = size_of::<u64>();

/// Positions of the counters of words ever written and ever read. Each has a cache line of its own.
const WRITTEN: usize = 0;
const READ: usize = 128 / WORD_LEN;
const DATA: usize = 2 * READ;

impl LogRing {
    /// Appends a batch if it fits as a whole. Returns whether it did.
    fn push(&self, batch: &[u8]) -> bool {
        let (written, read) =
            (self.word(WRITTEN).load(Ordering::Relaxed), self.word(READ).load(Ordering::Acquire));
        let len = 1 + batch.len().div_ceil(WORD_LEN) as u64;
        if written.wrapping_sub(read).saturating_add(len) > self.data_len as u64 {
            return false;
        }
        self.data(written).store(batch.len() as u64, Ordering::Relaxed);
        let (words, rest) = batch.as_chunks();
        let mut at = written.wrapping_add(1);
        for word in words {
            self.data(at).store(u64::from_le_bytes(*word), Ordering::Relaxed);
            at = at.wrapping_add(1);
        }
        if !rest.is_empty() {
            let mut last = [0; WORD_LEN];
            last[..rest.len()].copy_from_slice(rest);
            self.data(at).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.word(WRITTEN).store(written.wrapping_add(len), Ordering::Release);
        true
    }

    /// Appends all batches to `bytes`.
    fn take(&self, bytes: &mut Vec<u8>) {
        let written = self.word(WRITTEN).load(Ordering::Acquire);
        let mut read = self.word(READ).load(Ordering::Relaxed);
        let mut left = written.wrapping_sub(read);
        while left > 0 && left <= self.data_len as u64 {
            let len = self.data(read).load(Ordering::Relaxed) as usize;
            let word_count = len.div_ceil(WORD_LEN) as u64;
            if word_count >= left {
                break;
            }
            let begin = bytes.len();
            for number in 1..=word_count {
                let word = self.data(read.wrapping_add(number)).load(Ordering::Relaxed);
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.truncate(begin + len);
            read = read.wrapping_add(1 + word_count);
            left -= 1 + word_count;
        }
        // Stored even if the lengths do not add up: a compromised worker may write anything to its ring.
        self.word(READ).store(written, Ordering::Release);
    }

    fn is_empty(&self) -> bool {
        self.word(READ).load(Ordering::Relaxed) == self.word(WRITTEN).load(Ordering::Relaxed)
    }

    fn word(&self, which: usize) -> &AtomicU64 {
        &self.words[self.at + which]
    }

    /// Returns the data word of this running number.
    fn data(&self, number: u64) -> &AtomicU64 {
        &self.words[self.at + DATA + (number as usize & (self.data_len - 1))]
    }
}

impl Wakeup {
    fn new() -> io::Result<Wakeup> {
        Ok(Wakeup { asleep: Arc::new(SharedArray::new(1)?).row(0), wake: Wake::new()? })
    }

    /// Wakes the log in any case.
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    /// Wakes the log only if it sleeps. A burst of records costs one system call: the log sleeps again only after a while without
    /// records.
    fn wake_if_asleep(&self) {
        // Orders the push before the load of `asleep`; `sleep` has the matching fence. Without both, each side could miss the other's
        // store.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Sleeps until a worker wakes the log, unless `is_idle` returns false.
    pub(crate) fn sleep(&self, is_idle: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_idle() {
            self.wait(None);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Sleeps for `time`, or until [`wake`](Wakeup::wake).
    pub(crate) fn sleep_for(&self, time: Duration) {
        self.wait(Some(time));
    }

    fn wait(&self, time: Option<Duration>) {
        let time = time.map(sys::io::timespec);
        match sys::io::wait(&mut [PollFd::new(&self.wake, PollFlags::IN)], time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => unreachable!("poll(2) of one descriptor that is open: {error}"),
        }
        self.wake.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn no_wakeup_is_lost() {
        let rings = LogRings::new(3).expect("memory");
        let (producer, mut consumer) = (rings.producer(1), rings.consumers().nth(1).expect("one of three"));
        let writer = thread::spawn(move || {
            for number in 0..20_000u32 {
                while !producer.ring.push(&number.to_le_bytes()) {
                    thread::yield_now();
                }
                producer.wakeup.wake_if_asleep();
            }
        });
        let mut bytes = Vec::new();
        while bytes.len() < 4 * 20_000 {
            rings.wakeup().sleep(|| consumer.is_empty());
            consumer.take(&mut bytes);
        }
        writer.join().expect("a writer");
        assert!(bytes.chunks_exact(4).zip(0u32..).all(|(found, number)| *found == number.to_le_bytes()));
        assert!(rings.consumers().all(|consumer| consumer.is_empty()), "the other rings are empty");
    }

    #[test]
    fn batches_arrive_whole_or_not_at_all() {
        let rings = LogRings::new(1_000).expect("memory");
        let (ring, mut consumer) = (rings.ring(0), rings.consumers().next().expect("the first"));
        // Batches of many lengths, several times round the ring.
        let mut pushed = 0;
        for pass in 0..40 {
            let mut want = Vec::new();
            for len in (0..RECORDS_LEN).step_by(1 + 997 * (pass % 7)).chain([RECORDS_LEN; 9]) {
                let batch: Vec<u8> = (0..len).map(|at| (at + pass) as u8).collect();
                if !ring.push(&batch) {
                    break;
                }
                want.extend(batch);
                pushed += 1;
            }
            let mut bytes = Vec::new();
            consumer.take(&mut bytes);
            assert!(bytes == want, "pass {pass}");
        }
        assert!(pushed > 1_000);
        assert!(consumer.is_empty());
    }

    #[test]
    fn invalid_lengths_from_a_worker_are_harmless() {
        for (written, len) in [(u64::MAX, 0), (1 << 40, 1), (3, 1 << 40), (3, u64::MAX), (3, u64::MAX - 6)] {
            let rings = LogRings::new(1).expect("memory");
            let (ring, mut consumer) = (rings.ring(0), rings.consumers().next().expect("one"));
            ring.data(0).store(len, Ordering::Relaxed);
            ring.word(WRITTEN).store(written, Ordering::Relaxed);
            let mut bytes = Vec::new();
            consumer.take(&mut bytes);
            assert!(consumer.is_empty(), "{written}, {len}");
            assert!(bytes.len() <= RING_LEN, "{written}, {len}");
        }
    }
}
