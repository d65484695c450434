//! Handshakes: threads that run the steps of TLS handshakes, so that workers need not wait for a signature.
//!
//! ```text
//! worker ── job ──▶ queue ── handshake threads, of low priority ──▶ mailbox of the worker: stepped
//!    └ the connection takes no input until then
//! ```
//!
//! A signature takes as long as hundreds of requests. The threads have a low priority: on a core that they share with a worker, a request is
//! answered first.

use crate::{
    data::worker::mailbox::{Mailbox, WorkerMessage},
    sys::priority,
};
use std::{
    collections::VecDeque,
    io,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};
use tarpon_conn::HandshakeStep;

/// The queue of jobs, shared by all workers.
#[derive(Clone)]
pub(crate) struct Handshakes(Arc<HandshakeQueueHandle>);

/// A step to run.
pub(super) struct HandshakeJob {
    pub(super) step: Box<HandshakeStep>,
    /// The worker and the slot that wait for the step.
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// The queue closes when this is dropped.
struct HandshakeQueueHandle(Arc<HandshakeQueue>);

/// Each connection has one job at most, so the limit of connections bounds the queue.
#[derive(Default)]
struct HandshakeQueue {
    /// `None`: it is closed.
    jobs: Mutex<Option<StepQueue<HandshakeJob>>>,
    /// Notified for a new job, and when the queue closes.
    wake: Condvar,
}

/// Steps in order, where first steps and later ones take turns. A later step ends a handshake, and its records hold a buffer until it has
/// run: it does not wait for thousands of first steps. Nor can clients that send their first message in many pieces keep others from theirs.
struct StepQueue<T> {
    first: VecDeque<T>,
    later: VecDeque<T>,
    is_turn_of_first: bool,
}

impl<T> Default for StepQueue<T> {
    fn default() -> StepQueue<T> {
        StepQueue { first: VecDeque::new(), later: VecDeque::new(), is_turn_of_first: false }
    }
}

impl<T> StepQueue<T> {
    fn push(&mut self, is_first: bool, step: T) {
        if is_first { &mut self.first } else { &mut self.later }.push_back(step);
    }

    fn pop(&mut self) -> Option<T> {
        let StepQueue { first, later, is_turn_of_first } = self;
        let queues = if *is_turn_of_first { [first, later] } else { [later, first] };
        *is_turn_of_first = !*is_turn_of_first;
        queues.into_iter().find_map(VecDeque::pop_front)
    }
}

impl Handshakes {
    /// Starts threads, each of which has lowered its priority on return. They end after the last handle was dropped.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start(thread_count: usize) -> io::Result<Handshakes> {
        let queue = HandshakeQueue { jobs: Mutex::new(Some(StepQueue::default())), ..Default::default() };
        let queue = Arc::new(queue);
        let handle = Handshakes(Arc::new(HandshakeQueueHandle(Arc::clone(&queue))));
        let (started, all_started) = std::sync::mpsc::channel();
        for number in 0..thread_count {
            let (queue, started) = (Arc::clone(&queue), started.clone());
            thread::Builder::new().name(format!("handshake {number}")).spawn(move || {
                // Before the sandbox forbids the call. The thread does its work at any priority.
                let _ = priority::lower();
                drop(started);
                queue.run();
            })?;
        }
        drop(started);
        // Fails once each thread has dropped its sender.
        let _: Result<(), _> = all_started.recv();
        Ok(handle)
    }

    /// Queues a job and returns at once.
    pub(super) fn push(&self, job: HandshakeJob) {
        let HandshakeQueueHandle(queue) = &*self.0;
        if let Some(jobs) = &mut *queue.lock() {
            jobs.push(job.step.is_first(), job);
        }
        queue.wake.notify_one();
    }
}

impl Drop for HandshakeQueueHandle {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.wake.notify_all();
    }
}

impl HandshakeQueue {
    fn run(&self) {
        while let Some(HandshakeJob { mut step, mailbox, index, generation }) = self.take() {
            if mailbox.is_open() {
                // Other connections need this thread.
                if panic::catch_unwind(AssertUnwindSafe(|| step.run())).is_err() {
                    step.fail();
                }
                mailbox.post(WorkerMessage::HandshakeStepped { step, index, generation });
            }
        }
    }

    /// Waits for a job. `None`: the queue is closed.
    fn take(&self) -> Option<HandshakeJob> {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.as_mut()?.pop() {
                return Some(job);
            }
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<StepQueue<HandshakeJob>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_later_steps_take_turns() {
        let mut queue = StepQueue::default();
        for (is_first, step) in [(true, "a"), (true, "b"), (true, "c"), (false, "1"), (false, "2")] {
            queue.push(is_first, step);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["1", "a", "2", "b", "c"]);
        queue.push(false, "3");
        assert_eq!(queue.pop(), Some("3"));
    }
}
