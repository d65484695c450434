//! What the machine of a worker pool handles, and what it asks its driver to do.
//!
//! The driver keeps descriptors, sockets and processes. The machine names them: an [`ArrivalId`] stands for a message that brought
//! descriptors, a [`ClientId`] for the connection of an accepted client, a [`ProcessId`] for a child.

use crate::{
    base::log_config::LogOwner,
    control::{
        process::{ProcessExit, ProcessId, message::SiteRejection},
        supervisor::Role,
    },
    data::worker::mailbox::ShutdownMode,
};
use std::time::Duration;

/// A message with descriptors, which the driver keeps until the machine releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ArrivalId(pub(crate) u64);

/// An accepted client, whose connection the driver keeps until a worker serves it or the machine closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

/// An event. An event that answers an action reaches the machine before the next event of another kind.
#[derive(Clone, Debug)]
pub(crate) enum PoolEvent {
    /// The supervisor sent a version of a site, and the driver has checked it.
    SiteArrived {
        /// The number of the site.
        site: usize,
        /// The version.
        version: ArrivalId,
        /// Whether it is an earlier release.
        is_earlier: bool,
    },
    /// The supervisor sent a version of a site that this process cannot use: its descriptors were lost, or it is malformed.
    SiteUnusable {
        /// The number of the site.
        site: usize,
        /// Whether it is an earlier release.
        is_earlier: bool,
        /// The reason.
        rejection: SiteRejection,
    },
    /// The supervisor sent the descriptor of a log.
    LogArrived {
        /// The owner of the log.
        of: LogOwner,
        /// The message with the descriptor.
        log: ArrivalId,
    },
    /// The supervisor sent the descriptor of a log, but it was lost.
    LogLost {
        /// The owner of the log.
        of: LogOwner,
        /// The reason, for a user.
        why: String,
    },
    /// The supervisor ordered a shutdown.
    ShutdownOrdered {
        /// Whether a successor accepts clients.
        mode: ShutdownMode,
        /// The grace period.
        grace: Duration,
    },
    /// The supervisor has exited, or violates the protocol.
    SupervisorGone {
        /// The reason, for a user.
        why: String,
    },
    /// A process started.
    Started(ProcessId),
    /// A process could not be started.
    StartFailed {
        /// The process.
        process: ProcessId,
        /// The error, for a user.
        error: String,
    },
    /// A process has exited and was reaped.
    Exited {
        /// The process.
        process: ProcessId,
        /// How it ended.
        exit: ProcessExit,
    },
    /// The aux process reports that the reader of a log has gone.
    LogBroken {
        /// The owner of the log.
        of: LogOwner,
    },
    /// The aux process forwards an administrator's order.
    AdminRequested {
        /// The message with the connection of the administrator.
        request: ArrivalId,
    },
    /// A client waits at a listener.
    ClientWaits,
    /// A client was accepted.
    ClientAccepted(ClientId),
    /// No client waits at any listener.
    BacklogEmpty,
    /// The master could not accept a client, as it is out of descriptors or memory.
    AcceptFailed {
        /// The error, for a user.
        error: String,
    },
    /// A listener is unusable.
    ListenerFailed {
        /// The error, for a user.
        error: String,
    },
    /// The [deadline](super::machine::WorkerPool::deadline) has passed.
    Timer,
}

/// What the driver does, in order.
#[derive(Clone, Debug)]
pub(crate) enum PoolAction {
    /// Start the aux process. Answered by [`Started`](PoolEvent::Started) or [`StartFailed`](PoolEvent::StartFailed).
    StartAux {
        /// The process.
        process: ProcessId,
    },
    /// Start a worker. Answered as above. The client belongs to the worker if it starts.
    StartWorker {
        /// The process.
        process: ProcessId,
        /// The number of the worker: its rows in the shared memory.
        slot: usize,
        /// The client that it serves. `None`: the clients that it accepts.
        client: Option<ClientId>,
    },
    /// Send a message to a process.
    Send {
        /// The process.
        process: ProcessId,
        /// The message.
        message: PoolMessage,
    },
    /// Tell a process that no more messages come.
    EndMessages {
        /// The process.
        process: ProcessId,
    },
    /// Kill a process.
    Kill {
        /// The process.
        process: ProcessId,
    },
    /// Accept a client. For a worker, prepare what its start needs before: without descriptors, the client waits in the backlog. Answered by [`ClientAccepted`](PoolEvent::ClientAccepted), [`BacklogEmpty`](PoolEvent::BacklogEmpty),
    /// [`AcceptFailed`](PoolEvent::AcceptFailed) or [`ListenerFailed`](PoolEvent::ListenerFailed).
    Accept {
        /// The client gets a worker. Otherwise it is refused.
        for_worker: bool,
    },
    /// Answer a client with 503, and keep the connection until [`Close`](PoolAction::Close).
    Refuse {
        /// The client.
        client: ClientId,
    },
    /// Close the connection of a client.
    Close {
        /// The client.
        client: ClientId,
    },
    /// Close the listeners.
    CloseListeners,
    /// Workers that start from now on serve these sites, by number. This takes all these versions.
    Serve {
        /// The sites.
        sites: Vec<SiteArrivals>,
    },
    /// Workers that start from now on serve this version of a site.
    Replace {
        /// The number of the site.
        site: usize,
        /// The version.
        version: ArrivalId,
    },
    /// Forget a message, and close the descriptors that it brought.
    Release {
        /// The message.
        arrival: ArrivalId,
    },
    /// Send a message to the supervisor.
    Report(PoolReport),
    /// Emit a notice.
    Emit(PoolNotice),
    /// Set the idle flag of a worker in the shared memory.
    SetIdle {
        /// The number of the worker.
        slot: usize,
        /// Whether it is idle.
        is_idle: bool,
    },
    /// Correct the shared memory of a worker that exited without doing so: its connections are closed, and it is not idle.
    RepairSlot {
        /// The number of the worker.
        slot: usize,
    },
    /// Exit. This closes all descriptors and kills all processes.
    Exit {
        /// The exit status.
        status: i32,
    },
}

/// The versions of a site that a pool starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteArrivals {
    /// The current version.
    pub(crate) current: ArrivalId,
    /// The earlier versions; the oldest comes first.
    pub(crate) earlier: Vec<ArrivalId>,
}

/// A message to a process of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolMessage {
    /// A version of a site, with its descriptors: for a worker.
    Site {
        /// The number of the site.
        site: usize,
        /// The version.
        version: ArrivalId,
    },
    /// The counts of the served version of a site: for the statistics of the aux process.
    SiteCounts {
        /// The number of the site.
        site: usize,
    },
    /// The descriptor of a log: for the aux process.
    Log {
        /// The owner of the log.
        of: LogOwner,
        /// The message that brought the descriptor.
        log: ArrivalId,
    },
    /// Shut down.
    Shutdown {
        /// Whether a successor accepts clients.
        mode: ShutdownMode,
        /// The grace period.
        grace: Duration,
    },
}

/// A message to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PoolReport {
    /// The pool serves.
    Serving,
    /// The pool cannot use a version of a site, and serves the previous one.
    SiteRejected {
        /// The number of the site.
        site: usize,
        /// The reason.
        rejection: SiteRejection,
    },
    /// The reader of a log has gone.
    LogBroken {
        /// The owner of the log.
        of: LogOwner,
    },
    /// An administrator gives an order. This takes the message with the connection.
    AdminRequest {
        /// The message.
        request: ArrivalId,
    },
    /// The pool cannot start or continue, for this reason, and exits.
    StartFailed {
        /// The reason.
        why: String,
    },
}

/// A notice for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PoolNotice {
    /// A process exited unexpectedly. Another one replaces it after a delay.
    ProcessEnded {
        /// The role of the process.
        role: Role,
        /// How it ended.
        exit: ProcessExit,
        /// The time until the next process starts.
        restart_delay: Duration,
    },
    /// A worker with a single connection exited unexpectedly.
    ConnectionLost {
        /// How it ended.
        exit: ProcessExit,
    },
    /// A process could not be started. The next attempt comes after a delay.
    StartFailed {
        /// The role of the process.
        role: Role,
        /// The error.
        error: String,
        /// The time until the next attempt.
        retry_delay: Duration,
    },
    /// An earlier release is not kept, for this reason.
    ReleaseNotKept {
        /// The reason.
        why: String,
    },
    /// The access log stays in its current file, for this reason.
    LogNotReopened {
        /// The reason.
        why: String,
    },
}

impl PoolNotice {
    /// Returns the role of the process that has caused the notice.
    pub(crate) fn cause(&self) -> Role {
        match self {
            PoolNotice::ProcessEnded { role, .. } | PoolNotice::StartFailed { role, .. } => *role,
            PoolNotice::ConnectionLost { .. } | PoolNotice::ReleaseNotKept { .. } => Role::Worker,
            PoolNotice::LogNotReopened { .. } => Role::Aux,
        }
    }
}
