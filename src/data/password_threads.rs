//! Password threads: verify passwords for workers with many connections, so that no worker computes a slow hash.
//!
//! ```text
//! worker ── task ──▶ queue of a fixed size ── password threads, of low priority ──▶ mailbox of the worker: verified
//!    │                  └ full: 503; too many of one client: 429
//!    └ the connection takes no input until then
//! ```
//!
//! A hash takes as long as thousands of requests, and many MiB. So there are few threads, and few tasks wait: a flood of wrong passwords takes a
//! part of one core, with a low priority, and its clients take each other's places rather than those of others.

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
    time::{Duration, Instant},
};
use tarpon_conn::{PasswordJob, PasswordOutcome};

/// Passwords that wait, at most, in the whole server: a second of work for one thread with the usual hashes.
pub(super) const WAITING_COUNT_MAX: usize = 64;

/// Passwords of one client that wait, at most. A browser asks for some things of a page at a time.
pub(super) const WAITING_PER_CLIENT_MAX: usize = 8;

/// How long a password waits, at most.
pub(super) const WAITING_TIME_MAX: Duration = Duration::from_secs(10);

/// Passwords that are verified at a time, at most. Each takes the memory of its hash.
pub(super) const RUNNING_COUNT_MAX: usize = 4;

/// The queue of tasks, shared by all workers. It closes when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct PasswordThreads(Arc<PasswordQueueHandle>);

/// A password to verify.
pub(crate) struct PasswordTask {
    pub(crate) job: Box<PasswordJob>,
    /// The worker and the slot that wait for it.
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

struct PasswordQueueHandle(Arc<PasswordQueue>);

#[derive(Default)]
struct PasswordQueue {
    /// `None`: it is closed.
    tasks: Mutex<Option<VecDeque<(Instant, PasswordTask)>>>,
    /// Notified for a new task, and when the queue closes.
    wake: Condvar,
}

/// Returns how many passwords are verified at a time: half of the cores stay free of them.
pub(crate) fn running_count() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, RUNNING_COUNT_MAX)
}

impl PasswordThreads {
    /// Starts threads, each of which has lowered its priority on return.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start() -> io::Result<PasswordThreads> {
        let queue =
            Arc::new(PasswordQueue { tasks: Mutex::new(Some(VecDeque::new())), ..Default::default() });
        let handle = PasswordThreads(Arc::new(PasswordQueueHandle(Arc::clone(&queue))));
        let (started, all_started) = std::sync::mpsc::channel();
        for number in 0..running_count() {
            let (queue, started) = (Arc::clone(&queue), started.clone());
            thread::Builder::new().name(format!("password {number}")).spawn(move || {
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

    /// Queues a task and returns at once. The worker gets a message in any case.
    pub(crate) fn push(&self, mut task: PasswordTask) {
        let PasswordQueueHandle(queue) = &*self.0;
        let refused = match &mut *queue.lock() {
            Some(tasks) => match refusal(tasks, &task.job) {
                None => {
                    tasks.push_back((Instant::now(), task));
                    queue.wake.notify_one();
                    return;
                }
                Some(outcome) => outcome,
            },
            None => PasswordOutcome::Busy,
        };
        task.job.refuse(refused);
        task.answer();
    }
}

/// Returns why a task cannot wait beside these.
fn refusal(tasks: &VecDeque<(Instant, PasswordTask)>, job: &PasswordJob) -> Option<PasswordOutcome> {
    let of_client =
        |(_, task): &&(Instant, PasswordTask)| job.client().is_some() && task.job.client() == job.client();
    if tasks.iter().filter(of_client).count() >= WAITING_PER_CLIENT_MAX {
        return Some(PasswordOutcome::TooMany);
    }
    (tasks.len() >= WAITING_COUNT_MAX).then_some(PasswordOutcome::Busy)
}

impl PasswordTask {
    /// Tells the worker the outcome.
    fn answer(self) {
        let PasswordTask { job, mailbox, index, generation } = self;
        mailbox.post(WorkerMessage::Verified { job, index, generation });
    }
}

impl Drop for PasswordQueueHandle {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.wake.notify_all();
    }
}

impl PasswordQueue {
    fn run(&self) {
        while let Some((since, mut task)) = self.take() {
            if !task.mailbox.is_open() {
                continue;
            }
            run_or_refuse(&mut task.job, since.elapsed());
            task.answer();
        }
    }

    /// Waits for a task. `None`: the queue is closed.
    fn take(&self) -> Option<(Instant, PasswordTask)> {
        let mut tasks = self.lock();
        loop {
            if let Some(task) = tasks.as_mut()?.pop_front() {
                return Some(task);
            }
            tasks = self.wake.wait(tasks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<(Instant, PasswordTask)>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a job that has not waited too long.
pub(super) fn run_or_refuse(job: &mut PasswordJob, waited: Duration) {
    // Other passwords need this thread.
    if waited > WAITING_TIME_MAX || panic::catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
        job.refuse(PasswordOutcome::Busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll::{PollEntry, poll};
    use libc::POLLIN;
    use std::os::fd::AsFd;
    use tarpon_conn::{ClientKey, CredentialDigest, PasswordUsers};
    use tarpon_http::basic::BasicCredentials;

    /// Users whose passwords are verified while the test does not hold the lock.
    #[derive(Debug, Default)]
    struct GatedUsers(Mutex<()>);

    impl PasswordUsers for GatedUsers {
        fn recall(&self, _: BasicCredentials<'_>) -> Result<(), CredentialDigest> {
            Err(CredentialDigest([0; 32]))
        }

        fn verify(
            &self,
            BasicCredentials { password, .. }: BasicCredentials<'_>,
            _: &CredentialDigest,
        ) -> bool {
            // A panic must not poison it.
            drop(self.0.lock().unwrap());
            assert_ne!(password, b"panic", "it panics");
            password == b"right"
        }
    }

    #[test]
    fn each_task_has_one_answer_and_few_wait() {
        let (threads, mailbox) = (PasswordThreads::start().unwrap(), Arc::new(Mailbox::new().unwrap()));
        let users = Arc::new(GatedUsers::default());
        let gate = users.0.lock().unwrap();
        let push = |index: u32, client: Option<u32>, password: &[u8]| {
            let client = client.map(|number| ClientKey::new(std::net::Ipv4Addr::from_bits(number).into()));
            let users: Arc<dyn PasswordUsers> = Arc::<GatedUsers>::clone(&users);
            let credentials = BasicCredentials { name: b"ann", password };
            let job = Box::new(PasswordJob::new(users, credentials, CredentialDigest([0; 32]), client));
            threads.push(PasswordTask { job, mailbox: Arc::clone(&mailbox), index, generation: 7 });
        };
        // They run, or wait, but those of one client.
        let running = running_count() as u32;
        let of_one = WAITING_PER_CLIENT_MAX as u32 + running + 5;
        (0..of_one).for_each(|index| push(index, Some(1), b"right"));
        // Others find room, up to the limit of all. Some of the first may not have been taken before.
        let others = WAITING_COUNT_MAX as u32 + running;
        (0..others).for_each(|index| push(100 + index, Some(2 + index), b"wrong"));
        (0..5).for_each(|index| push(500 + index, None, b"panic"));
        drop(gate);
        let mut outcomes = Vec::new();
        while outcomes.len() < (of_one + others + 5) as usize {
            let mut wake = [PollEntry::new(mailbox.as_fd(), POLLIN)];
            assert_eq!(poll(&mut wake, Some(20_000)), Ok(1), "there are no more answers: {outcomes:?}");
            for message in mailbox.take() {
                let WorkerMessage::Verified { job, index, generation: 7 } = message else {
                    panic!("another message")
                };
                outcomes.push((index, job.outcome()));
            }
        }
        let count = |range: std::ops::Range<u32>, of: PasswordOutcome| {
            outcomes.iter().filter(|(index, outcome)| range.contains(index) && *outcome == of).count() as u32
        };
        let (right, refused) =
            (count(0..100, PasswordOutcome::Right), count(0..100, PasswordOutcome::TooMany));
        assert_eq!(right + refused, of_one);
        assert!((5..=5 + running).contains(&refused), "{refused} refused of one client");
        let (wrong, busy) = (count(100..500, PasswordOutcome::Wrong), count(100..500, PasswordOutcome::Busy));
        assert_eq!(wrong + busy, others);
        assert!(
            busy > 0 && wrong >= WAITING_COUNT_MAX as u32 - WAITING_PER_CLIENT_MAX as u32,
            "{wrong} verified"
        );
        assert_eq!(count(500..600, PasswordOutcome::Busy), 5);
        // A thread outlives a panic: with an empty queue, the task runs.
        push(900, None, b"panic");
        push(901, None, b"right");
        let mut last = Vec::new();
        while last.len() < 2 {
            let mut wake = [PollEntry::new(mailbox.as_fd(), POLLIN)];
            assert_eq!(poll(&mut wake, Some(20_000)), Ok(1), "there are no more answers");
            last.extend(mailbox.take().into_iter().map(|message| match message {
                WorkerMessage::Verified { job, index, .. } => (index, job.outcome()),
                _ => panic!("another message"),
            }));
        }
        last.sort_by_key(|(index, _)| *index);
        assert_eq!(last, [(900, PasswordOutcome::Busy), (901, PasswordOutcome::Right)]);
    }
}
