//! The threads that run functions, and the requests that wait for one.
//!
//! ```text
//! submit ─▶ queue, bounded ─▶ thread 0, 1, … bounded; they start when they are needed, and end with the server
//! ```

use super::exchange::{self, FunctionJob};
use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// The threads, and the requests that wait for one.
pub(super) struct ThreadPool(Arc<PoolShared>);

struct PoolShared {
    state: Mutex<PoolState>,
    /// There is a job, or the pool has ended.
    wake: Condvar,
    thread_count_max: usize,
    queue_len_max: usize,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<FunctionJob>,
    threads: Vec<thread::JoinHandle<()>>,
    /// The threads that wait for a job.
    idle_count: usize,
    has_ended: bool,
}

impl ThreadPool {
    pub(super) fn new(thread_count: NonZeroUsize, queue_len: usize) -> ThreadPool {
        ThreadPool(Arc::new(PoolShared {
            state: Mutex::default(),
            wake: Condvar::new(),
            thread_count_max: thread_count.get(),
            queue_len_max: queue_len,
        }))
    }

    /// Queues a job for the next free thread.
    ///
    /// # Errors
    /// `WouldBlock`: all threads are busy, or cannot be started, and the queue is full.
    pub(super) fn submit(&self, job: FunctionJob) -> io::Result<()> {
        let mut state = self.0.lock();
        let has_idle = state.idle_count > state.queue.len();
        let has_started =
            !has_idle && state.threads.len() < self.0.thread_count_max && self.start(&mut state);
        // Without a thread nothing would take the job.
        let has_room = state.queue.len() < self.0.queue_len_max && !state.threads.is_empty();
        if !has_idle && !has_started && !has_room {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.queue.push_back(job);
        drop(state);
        self.0.wake.notify_one();
        Ok(())
    }

    /// Starts a thread. Returns whether it has started: the system may be short of threads.
    fn start(&self, state: &mut PoolState) -> bool {
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name(format!("function {}", state.threads.len()));
        let Ok(started) = thread.spawn(move || shared.run()) else { return false };
        state.threads.push(started);
        true
    }

    /// Drops the jobs that wait, and waits until all others are done.
    pub(super) fn join(&self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        state.queue.clear();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.wake.notify_all();
        for thread in threads {
            // A job catches the panics of its function.
            let _ = thread.join();
        }
    }
}

impl PoolShared {
    fn run(&self) {
        while let Some(job) = self.next() {
            exchange::run(job);
        }
    }

    fn next(&self) -> Option<FunctionJob> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.has_ended {
                return None;
            }
            state.idle_count += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_count -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.join();
    }
}
