//! How the control plane speaks to a worker: it posts, and wakes the worker out of its wait.

use crate::{
    data::worker::loader::FileRange,
    site::{Site, versions::SiteVersions},
    sys::wake::Wake,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tarpon_conn::SiteId;

/// What a worker is told. It acts on it between two turns.
pub(crate) enum WorkerMessage {
    /// Plan new exchanges of this site from these.
    UpdateSite(SiteId, SiteVersions),
    /// Accept nothing more, and end after `grace-period` at the latest.
    Shutdown { mode: ShutdownMode, grace: Duration },
    /// What this connection waits for was read into memory, if it could be.
    Loaded { site: Arc<Site>, range: FileRange, index: u32, generation: u32 },
}

/// How a worker parts from its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownMode {
    /// Another server accepts on the same sockets: each connection gets one more answer, which says that it is the last one.
    Drain,
    /// Nobody will listen here: what has begun is finished, who waits for nothing is left.
    Stop,
}

/// Messages to one worker.
pub(crate) struct Mailbox {
    /// `None`: the worker has ended.
    messages: Mutex<Option<Vec<WorkerMessage>>>,
    /// Readable when there are messages.
    wake: MailboxWake,
    /// They come from another process.
    receiver: Option<Mutex<ReceiveMessages>>,
}

/// What becomes readable when there are messages.
enum MailboxWake {
    Wake(Wake),
    /// Of a channel to another process.
    Socket(Arc<OwnedFd>),
}

/// What another process has said.
type ReceiveMessages = Box<dyn FnMut() -> Vec<WorkerMessage> + Send>;

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let wake = MailboxWake::Wake(Wake::new()?);
        Ok(Mailbox { messages: Mutex::new(Some(Vec::new())), wake, receiver: None })
    }

    /// Of a worker that is a process: `receive` reads what comes at this socket, and does not wait for it.
    pub(crate) fn for_process(
        socket: Arc<OwnedFd>,
        receive: impl FnMut() -> Vec<WorkerMessage> + Send + 'static,
    ) -> Mailbox {
        Mailbox {
            messages: Mutex::default(),
            wake: MailboxWake::Socket(socket),
            receiver: Some(Mutex::new(Box::new(receive))),
        }
    }

    /// Leaves a message; for a worker that has ended, it is dropped. Nobody has the mailbox of a process but itself.
    pub(crate) fn post(&self, message: WorkerMessage) {
        if let Some(messages) = &mut *self.lock() {
            messages.push(message);
        }
        if let MailboxWake::Wake(wake) = &self.wake {
            wake.wake();
        }
    }

    /// All messages, oldest first.
    pub(crate) fn take(&self) -> Vec<WorkerMessage> {
        if let Some(receiver) = &self.receiver {
            return receiver.lock().unwrap_or_else(PoisonError::into_inner)();
        }
        // In this order: a message posted in between wakes the worker again.
        if let MailboxWake::Wake(wake) = &self.wake {
            wake.clear();
        }
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether there is a worker to read it.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// The worker ends: what is here, and what comes, is for nobody.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<WorkerMessage>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.wake {
            MailboxWake::Wake(wake) => wake.as_fd(),
            MailboxWake::Socket(socket) => socket.as_fd(),
        }
    }
}
