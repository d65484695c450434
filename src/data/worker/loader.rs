//! Loader: threads that read file ranges into memory, so that workers need not wait for the disk.
//!
//! ```text
//! worker ── job ──▶ queue ── loader threads ── read, forget the bytes ──▶ mailbox of the worker: loaded
//!    └ the connection waits; closing it cancels its job
//! ```

use crate::{
    data::worker::mailbox::{Mailbox, WorkerMessage},
    site::{FileRange, Site},
    sys::cached,
};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    fs::File,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
};
use tarpon_site::Region;

/// Handle that queues jobs, shared by all workers.
#[derive(Clone)]
pub(crate) struct Loader(Arc<QueueHandle>);

/// A range to read into memory.
pub(crate) struct LoadJob {
    pub(crate) site: Arc<Site>,
    pub(crate) range: FileRange,
    /// The worker and the slot that wait for the range.
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// Dropped when the connection no longer waits.
    pub(crate) waiter: Weak<()>,
}

/// Number of threads, and so of reads in flight: enough to keep a disk busy.
const THREAD_COUNT: usize = 4;

/// Length of one read in bytes.
const READ_LEN: u64 = 256 * 1024;

/// Queue length below which stale jobs are not removed: they take some tens of KiB at most. Above it at most every second job is
/// stale, so the queue is at most twice as long as the number of waiting connections, however many clients request cold files and
/// disconnect.
const STALE_COUNT_MAX: usize = 1_024;

impl Loader {
    /// Creates a loader whose threads have not started. `dev_null` is the target of the reads: [`dev_null`].
    pub(crate) fn new(dev_null: File) -> (Loader, LoaderThreads) {
        let queue = Arc::new(LoadQueue::default());
        (
            Loader(Arc::new(QueueHandle(Arc::clone(&queue)))),
            LoaderThreads { queue, dev_null: Arc::new(dev_null) },
        )
    }

    /// Queues a job and returns at once. The worker gets a message in any case, if the connection still waits.
    pub(crate) fn load(&self, job: LoadJob) {
        let QueueHandle(queue) = &*self.0;
        queue.lock().push(job);
        queue.wake.notify_one();
    }
}

/// The queue closes when this is dropped.
struct QueueHandle(Arc<LoadQueue>);

impl Drop for QueueHandle {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.wake.notify_all();
    }
}

/// Queued jobs.
#[derive(Default)]
struct LoadQueue {
    jobs: Mutex<QueuedJobs>,
    /// Notified for a new job, and when the queue closes.
    wake: Condvar,
}

#[derive(Default)]
struct QueuedJobs {
    queued: VecDeque<LoadJob>,
    /// Queue length after the last removal of stale jobs.
    count_after_cleanup: usize,
    is_closed: bool,
}

impl QueuedJobs {
    fn push(&mut self, job: LoadJob) {
        if self.queued.len() >= (2 * self.count_after_cleanup).max(STALE_COUNT_MAX) {
            self.queued.retain(LoadJob::is_wanted);
            self.count_after_cleanup = self.queued.len();
        }
        self.queued.push_back(job);
    }
}

impl LoadJob {
    fn is_wanted(&self) -> bool {
        self.waiter.strong_count() > 0 && self.mailbox.is_open()
    }
}

impl LoadQueue {
    /// Takes the next job whose connection still waits. `None`: the queue is closed.
    fn take(&self) -> Option<LoadJob> {
        let mut jobs = self.lock();
        loop {
            while let Some(job) = jobs.queued.pop_front() {
                if job.is_wanted() {
                    return Some(job);
                }
            }
            if jobs.is_closed {
                return None;
            }
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedJobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens `/dev/null`, the target of the loader's reads.
///
/// # Errors
/// The process is out of descriptors.
pub(crate) fn dev_null() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}

/// Threads of the loader, before they start.
pub(crate) struct LoaderThreads {
    queue: Arc<LoadQueue>,
    dev_null: Arc<File>,
}

impl LoaderThreads {
    /// Starts the threads. They end when the last [`Loader`] is dropped and their current read has returned. Shutdown does not wait
    /// for them, as a disk may never answer.
    pub(crate) fn start(self) -> io::Result<()> {
        let start = |number| {
            let (queue, dev_null) = (Arc::clone(&self.queue), Arc::clone(&self.dev_null));
            thread::Builder::new()
                .name(format!("loader {number}"))
                .spawn(move || run_thread(&queue, &dev_null))
                .map(drop)
        };
        (0..THREAD_COUNT).try_for_each(start)
    }
}

fn run_thread(queue: &LoadQueue, dev_null: &File) {
    while let Some(job) = queue.take() {
        let (file, _) = job.site.file_of(job.range.store);
        // A read stops when its connection no longer waits: other jobs wait, and so may shutdown.
        read(file, job.range.region, dev_null, || job.is_wanted());
        // The read may have failed in part: the worker will ask again.
        if !job.is_wanted() {
            continue;
        }
        let LoadJob { site, range, mailbox, index, generation, .. } = job;
        mailbox.post(WorkerMessage::Loaded { site, range, index, generation });
    }
}

/// Reads a region while the connection waits for it.
fn read(file: &File, region: Region, dev_null: &File, mut is_wanted: impl FnMut() -> bool) {
    let end = region.at + region.len;
    let mut at = region.at;
    while at < end && is_wanted() {
        let len = (end - at).min(READ_LEN) as usize;
        // One request for the whole read: read-ahead is off.
        cached::read_ahead(file, at, len as u64);
        match cached::fetch(file, &mut at, len, dev_null) {
            Ok(1..) | Err(Errno::INTR) => {}
            // The send will fail in the same way.
            Ok(0) | Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        site::StoreId,
        sys::poll::{PollEntry, poll},
    };
    use libc::POLLIN;
    use std::os::fd::AsFd;

    #[test]
    fn jobs_of_closed_connections_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("large"), vec![0; 100_000]).unwrap();
        let site = Arc::new(Site::from_dir(dir.path()).unwrap());
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let (loader, threads) = Loader::new(dev_null().unwrap());
        let queue = Arc::clone(&threads.queue);
        let range = FileRange { store: StoreId::File(0), region: Region { at: 0, len: 5 } };
        let mut waiting = Vec::new();
        for index in 0..20 * STALE_COUNT_MAX as u32 {
            let waiter = Arc::new(());
            let (site, mailbox, waited) = (Arc::clone(&site), Arc::clone(&mailbox), Arc::downgrade(&waiter));
            loader.load(LoadJob { site, range, mailbox, index, generation: 7, waiter: waited });
            // One connection in ten keeps waiting.
            waiting.extend((index % 10 == 0).then_some((index, waiter)));
            let most = (2 * waiting.len()).max(STALE_COUNT_MAX) + 1;
            assert!(queue.lock().queued.len() <= most, "{index}");
        }
        threads.start().unwrap();
        let mut loaded = Vec::new();
        while loaded.len() < waiting.len() {
            let mut wake = [PollEntry::new(mailbox.as_fd(), POLLIN)];
            assert_eq!(poll(&mut wake, Some(20_000)), Ok(1), "the loader posts no more: {loaded:?}");
            for message in mailbox.take() {
                let WorkerMessage::Loaded { index, generation: 7, .. } = message else {
                    panic!("another message")
                };
                loaded.push(index);
            }
        }
        loaded.sort_unstable();
        assert_eq!(loaded, waiting.iter().map(|(index, _)| *index).collect::<Vec<_>>());
        // The threads may not have skipped the last stale jobs yet.
        assert!(
            queue.lock().queued.iter().all(|job| job.waiter.upgrade().is_none()),
            "all wanted jobs are done"
        );
        drop(loader);
        assert!(queue.take().is_none(), "the queue is closed");
    }

    #[test]
    fn region_is_read_while_it_is_wanted() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 * READ_LEN).unwrap();
        let dev_null = File::options().write(true).open("/dev/null").unwrap();
        #[rustfmt::skip]
        let cases = [
            // what it shows    at  len  wanted  reads
            ("all",             0,  10,  99,     10),
            ("a range",       2,   6,  99,      6),
            ("beyond the end",  8,   6,  99,      3),
            ("wanted at first", 0,  10,   2,      2),
            ("never wanted"   , 0,  10,   0,      0),
        ];
        for (name, at, len, wanted, want) in cases {
            let mut read_count = 0;
            read(&file, Region { at: at * READ_LEN, len: len * READ_LEN }, &dev_null, || {
                let wanted_now = read_count < wanted;
                read_count += u32::from(wanted_now);
                wanted_now
            });
            assert_eq!(read_count, want, "{name}");
        }
    }
}
