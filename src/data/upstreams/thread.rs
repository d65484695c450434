//! Connections for the workers of an event loop: a thread of their process asks the helper, and posts what it gets to their mailboxes.
//!
//! ```text
//! worker ── job ─▶ queue ─▶ thread ── requests, a session for each server ─▶ helper
//!        ◀─ mailbox: connected ┘    ◀─────────────────── replies ──────────
//! ```
//!
//! A session has a limited number of requests without a reply; more of them wait here. Each server has a session of its own, so that a
//! server that does not answer keeps no other waiting.

use super::{
    connect::{ConnectRequest, ConnectResult, ConnectServices, WAIT_MARGIN, refusal, result},
    table::UpstreamTable,
};
use crate::{
    data::{
        services::{RequestId, ServiceEndpoint, ServiceError},
        worker::mailbox::{Mailbox, WorkerMessage},
    },
    sys::{
        poll::{PollEntry, poll},
        wake::Wake,
    },
};
use libc::POLLIN;
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tarpon_conn::{BackendRefusal, ServerEvent, Unconnected};

/// Asks for connections, for all workers of a process.
#[derive(Clone)]
pub(crate) struct ConnectThread(Arc<JobQueueHandle>);

/// A connection to ask for.
pub(crate) struct ConnectJob {
    pub(crate) request: ConnectRequest,
    /// How long the helper may take.
    pub(crate) timeout: Duration,
    /// The worker and the pipe that wait for it.
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) unconnected: Unconnected,
}

/// The queue closes when this is dropped, and the thread ends.
struct JobQueueHandle(Arc<JobQueue>);

struct JobQueue {
    /// `None`: it is closed. Each pipe has one job at most, so the limit of connections bounds the queue.
    jobs: Mutex<Option<Vec<ConnectJob>>>,
    wake: Wake,
}

/// How long the thread waits before it tries again to reach a helper that has not received what was sent before.
const BUSY_WAIT: Duration = Duration::from_millis(20);

impl ConnectThread {
    /// Starts the thread. It ends after the last handle was dropped.
    ///
    /// # Errors
    /// The system is out of threads or descriptors.
    pub(crate) fn start(endpoint: ServiceEndpoint, table: Arc<UpstreamTable>) -> io::Result<ConnectThread> {
        let queue = Arc::new(JobQueue { jobs: Mutex::new(Some(Vec::new())), wake: Wake::new()? });
        let handle = ConnectThread(Arc::new(JobQueueHandle(Arc::clone(&queue))));
        let links = (0..table.server_count()).map(|_| ServerLink::new(endpoint.clone())).collect();
        let mut connections = Connections { queue, table, links };
        thread::Builder::new().name("upstreams".to_owned()).spawn(move || connections.run())?;
        Ok(handle)
    }

    /// Queues a job and returns at once. The worker gets a message in any case.
    pub(crate) fn push(&self, job: ConnectJob) {
        let JobQueueHandle(queue) = &*self.0;
        if let Some(jobs) = &mut *queue.lock() {
            jobs.push(job);
        }
        queue.wake.wake();
    }
}

impl Drop for JobQueueHandle {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.wake.wake();
    }
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<ConnectJob>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread has.
struct Connections {
    queue: Arc<JobQueue>,
    table: Arc<UpstreamTable>,
    /// By the number of the server.
    links: Vec<ServerLink>,
}

/// The session for a server.
struct ServerLink {
    services: ConnectServices,
    /// Jobs without a request so far.
    queued: VecDeque<(ConnectJob, Instant)>,
    /// Jobs with a request.
    sent: Vec<SentRequest>,
    /// The helper has not received what was sent before.
    is_busy: bool,
}

struct SentRequest {
    id: RequestId,
    request: ConnectRequest,
    /// `None`: the worker has an answer already, as this one takes too long.
    job: Option<(ConnectJob, Instant)>,
}

impl Connections {
    fn run(&mut self) {
        while let Some(jobs) = self.take_jobs() {
            let now = Instant::now();
            for job in jobs {
                let deadline = now + job.timeout + WAIT_MARGIN;
                match self.links.get_mut(usize::from(job.request.server)) {
                    Some(link) => link.queued.push_back((job, deadline)),
                    None => post(job, Err(BackendRefusal::Unreachable)),
                }
            }
            for link in self.links.iter_mut().filter(|link| link.has_jobs()) {
                link.receive(&self.table);
                link.send();
                link.expire(now);
            }
            self.wait();
        }
    }

    /// Returns the new jobs. `None`: the queue is closed.
    fn take_jobs(&self) -> Option<Vec<ConnectJob>> {
        // Cleared first: a job pushed in between wakes the thread again.
        self.queue.wake.clear();
        self.queue.lock().as_mut().map(mem::take)
    }

    fn wait(&self) {
        let links = self.links.iter().filter(|link| link.has_jobs());
        let mut polled = vec![PollEntry::new(self.queue.wake.as_fd(), POLLIN)];
        polled.extend(
            links
                .clone()
                .filter_map(|link| link.services.session())
                .map(|session| PollEntry::new(session, POLLIN)),
        );
        let now = Instant::now();
        let until = |deadline: Instant| deadline.saturating_duration_since(now);
        let times = links.flat_map(|link| [link.deadline().map(until), link.is_busy.then_some(BUSY_WAIT)]);
        let time = times.flatten().min().map(|time| time.as_millis() as u64 + 1);
        // An error means that this process is out of memory, or was interrupted.
        if poll(&mut polled, time).is_err() {
            thread::sleep(BUSY_WAIT);
        }
    }
}

impl ServerLink {
    fn new(endpoint: ServiceEndpoint) -> ServerLink {
        ServerLink {
            services: ConnectServices::new(endpoint),
            queued: VecDeque::new(),
            sent: Vec::new(),
            is_busy: false,
        }
    }

    fn has_jobs(&self) -> bool {
        !self.queued.is_empty() || !self.sent.is_empty()
    }

    /// Sends requests, as many as the session may have.
    fn send(&mut self) {
        self.is_busy = false;
        while let Some((job, _)) = self.queued.front() {
            match self.services.request(&job.request) {
                Ok(id) => {
                    let request = job.request;
                    self.sent.push(SentRequest { id, request, job: self.queued.pop_front() });
                }
                Err(ServiceError::Busy) => {
                    // A reply makes room. Without one to come, the thread tries again.
                    self.is_busy = self.sent.is_empty();
                    return;
                }
                Err(error) => {
                    if let Some((job, _)) = self.queued.pop_front() {
                        post(job, Err(refusal(error)));
                    }
                }
            }
        }
    }

    /// Passes replies on.
    fn receive(&mut self, table: &UpstreamTable) {
        while let Some(reply) = self.services.receive() {
            let Some(place) = self.sent.iter().position(|sent| sent.id == reply.request) else { continue };
            let SentRequest { request, job, .. } = self.sent.swap_remove(place);
            match (job, result(reply)) {
                (Some((job, _)), result) => post(job, result),
                (None, Ok(_late)) => {
                    // It was open, so it counts.
                    let (row, server) = (request.row.into(), request.server.into());
                    table.note(row, server, ServerEvent::Opened);
                    table.note(row, server, ServerEvent::Closed);
                }
                (None, Err(_)) => {}
            }
        }
    }

    /// Answers the jobs that have waited for too long.
    fn expire(&mut self, now: Instant) {
        while self.queued.front().is_some_and(|(_, deadline)| *deadline <= now)
            && let Some((job, _)) = self.queued.pop_front()
        {
            post(job, Err(BackendRefusal::TimedOut));
        }
        for sent in &mut self.sent {
            if let Some((job, _)) = sent.job.take_if(|(_, deadline)| *deadline <= now) {
                post(job, Err(BackendRefusal::TimedOut));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let sent = self.sent.iter().filter_map(|sent| sent.job.as_ref());
        self.queued.iter().chain(sent).map(|(_, deadline)| *deadline).min()
    }
}

fn post(ConnectJob { mailbox, unconnected, .. }: ConnectJob, result: ConnectResult) {
    mailbox.post(WorkerMessage::Connected { unconnected, result });
}
