//! Mailbox of a worker: messages from the control plane, the loader, the threads of handshakes and passwords, and that of upstream connections. A
//! message wakes the worker.

use crate::{
    data::upstreams::ConnectResult,
    site::{FileRange, Site, versions::SiteVersions},
    sys::wake::Wake,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tarpon_conn::{HandshakeStep, PasswordJob, SiteId, Unconnected};

/// A message to a worker, which handles it between two drives.
pub(crate) enum WorkerMessage {
    /// Serve new exchanges of this site from these versions.
    UpdateSite(SiteId, SiteVersions),
    /// Stop accepting, and end after the grace period at the latest.
    Shutdown { mode: ShutdownMode, grace: Duration },
    /// The loader has tried to read the range that this connection waits for.
    Loaded { site: Arc<Site>, range: FileRange, index: u32, generation: u32 },
    /// The step of the handshake that this connection waits for has run.
    HandshakeStepped { step: Box<HandshakeStep>, index: u32, generation: u32 },
    /// The job of the password that this connection waits for has ended.
    Verified { job: Box<PasswordJob>, index: u32, generation: u32 },
    /// The helper has connected to an upstream server for this pipe, or could not.
    Connected { unconnected: Unconnected, result: ConnectResult },
}

/// What happens to open connections during shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum ShutdownMode {
    /// Another server accepts on the same sockets: each connection gets one more response, with `Connection: close`.
    Drain,
    /// The server ends: exchanges that have begun are finished, idle connections are closed.
    Stop,
}

/// Mailbox of one worker.
pub(crate) struct Mailbox {
    /// `None`: the worker has ended.
    messages: Mutex<Option<Vec<WorkerMessage>>>,
    /// Readable when there are messages.
    wake: MailboxWake,
    /// Set for a worker process: reads the messages from its channel.
    receiver: Option<Mutex<ReceiveMessages>>,
}

/// The descriptor that becomes readable when there are messages.
enum MailboxWake {
    Wake(Wake),
    /// The channel of a worker process.
    Socket(Arc<OwnedFd>),
}

/// Returns the messages received so far, without waiting.
type ReceiveMessages = Box<dyn FnMut() -> Vec<WorkerMessage> + Send>;

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let wake = MailboxWake::Wake(Wake::new()?);
        Ok(Mailbox { messages: Mutex::new(Some(Vec::new())), wake, receiver: None })
    }

    /// Creates the mailbox of a worker process. `receive` reads messages from the socket and does not wait.
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

    /// Queues a message and wakes the worker. After the worker has ended, messages are dropped. The mailbox of a worker process
    /// receives from its channel instead.
    pub(crate) fn post(&self, message: WorkerMessage) {
        if let Some(messages) = &mut *self.lock() {
            messages.push(message);
        }
        if let MailboxWake::Wake(wake) = &self.wake {
            wake.wake();
        }
    }

    /// Takes all messages, oldest first.
    pub(crate) fn take(&self) -> Vec<WorkerMessage> {
        if let Some(receiver) = &self.receiver {
            return receiver.lock().unwrap_or_else(PoisonError::into_inner)();
        }
        // Cleared first: a message posted in between wakes the worker again.
        if let MailboxWake::Wake(wake) = &self.wake {
            wake.clear();
        }
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns whether the worker still reads its mailbox.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Drops all messages, and all later ones.
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
