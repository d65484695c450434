//! What the supervisor and its driver say to each other: events go in, actions come out.

use super::generation::GenerationPlan;
use crate::{
    base::{engine::Engine, error::UserError, log_config::LogOwner},
    control::{
        admin::Order,
        helpers::HelperKind,
        process::{ProcessExit, ProcessId, message::FromServer},
    },
    data::worker::mailbox::ShutdownMode,
};
use std::time::Duration;

/// The identity of a generation: a configuration that was read, and its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GenerationId(pub(super) u64);

/// The identity of a version of a site. The driver holds its descriptors until [`Action::DropVersion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VersionId(pub(super) u64);

/// The identity of the connection of an administrator. The driver holds it until [`Action::Reply`] or a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallerId(pub(super) u64);

/// A log of a generation, by number. The driver holds its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogId(pub(super) GenerationId, pub(super) usize);

/// A version of a site, as far as the supervisor decides anything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiteVersion {
    pub(super) id: VersionId,
    pub(super) descriptor_count: usize,
    pub(super) file_count: u64,
    pub(super) content_len: u64,
    /// Versions with the same content have the same.
    pub(super) content_id: u128,
}

/// The descriptors of a version did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VersionLost {
    pub(super) descriptor_count: usize,
    /// How many of its files are not those of versions that the supervisor holds, if they do not fit beside these: another attempt would fail,
    /// too. `None`: descriptors are short for a moment.
    pub(super) unfit_count: Option<usize>,
}

/// An event: something has happened, or an action was carried out.
#[derive(Debug)]
pub(super) enum SupervisorEvent {
    /// The time of [`Supervisor::deadline`](super::machine::Supervisor::deadline) has come.
    Timer,
    /// A signal has arrived.
    Signal(SupervisorSignal),
    /// The result of [`Action::Prepare`]; an error in the words for a user.
    Prepared(GenerationId, Result<GenerationPlan, String>),
    /// The process of [`Action::Start`] runs.
    Started(ProcessId),
    /// The process of [`Action::Start`] does not run, for this reason.
    StartFailed(ProcessId, String),
    /// A builder has built a site. `Err`: the descriptors, this many, were lost.
    SiteBuilt { builder: ProcessId, site: usize, version: Result<SiteVersion, VersionLost>, is_earlier: bool },
    /// A builder may not read the new root of a site.
    RootReplaced(ProcessId),
    /// A message of a server process. The connection of an order is beside it.
    Server(ProcessId, FromServer, Option<CallerId>),
    /// The successor has read its configuration.
    SuccessorReady(ProcessId),
    /// The server of the successor serves.
    SuccessorServes(ProcessId),
    /// A builder or the successor cannot start, for this reason, and exits.
    Failed(ProcessId, String),
    /// A process has violated the protocol, in this way.
    Malformed(ProcessId, String),
    /// A process was reaped, after all its messages were delivered.
    Exited(ProcessId, ProcessExit),
    /// A log was opened: the result of [`Action::OpenLog`], or of [`Action::CheckLog`] if the file was rotated.
    LogOpened(LogId),
    /// A log could not be opened. The driver keeps the previous descriptor.
    LogOpenFailed(LogId, UserError),
    /// The file of a log could not be rotated, and grows.
    LogRotateFailed(LogId, UserError),
    /// The files of certificates have changed: the result of [`Action::CheckCertificates`].
    CertificatesChanged(GenerationId),
    /// The predecessor has left: this is the only supervisor now. With the callers that ordered the upgrade.
    Committed(Vec<CallerId>),
    /// The predecessor has exited without a commit.
    PredecessorGone,
}

impl SupervisorEvent {
    /// Returns the process that says with this event that it serves.
    pub(super) fn starts_to_serve(&self) -> Option<ProcessId> {
        match self {
            SupervisorEvent::Server(process, FromServer::Serving { .. }, _)
            | SupervisorEvent::SuccessorServes(process) => Some(*process),
            _ => None,
        }
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupervisorSignal {
    /// SIGTERM and SIGINT, by number.
    Stop(i32),
    /// SIGHUP.
    Reload,
    /// SIGUSR2.
    Upgrade,
    /// SIGUSR1.
    ReopenLogs,
}

/// What a process is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessStart {
    /// A site builder.
    Builder(GenerationId, BuilderStart),
    /// A server process. A successor of a server that still serves keeps away from the admin listener until it serves itself.
    Server { generation: GenerationId, engine: Engine, is_successor: bool },
    /// A helper of a generation.
    Helper(GenerationId, HelperKind),
    /// The current file of the program, with the sites of the current generation and the sockets on which this engine accepts.
    Successor(Engine),
}

/// What a builder starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::control) enum BuilderStart {
    /// Nothing is served yet: a site that cannot be built fails the start. Earlier releases are sent too.
    First,
    /// A builder has exited: the sites may have changed meanwhile.
    Again,
    /// The root of a site was replaced.
    RootReplaced,
}

/// A message to a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToChild {
    /// A version of a site.
    Site { site: usize, version: VersionId, is_earlier: bool, loads: u64 },
    /// The log of an owner.
    Log { log: LogId, of: LogOwner },
    /// Accept no more clients, and exit within the grace period.
    Shutdown { mode: ShutdownMode, grace: Duration },
    /// The successor is the only supervisor now, and replies to these callers.
    Commit { callers: Vec<CallerId> },
}

/// An action: the driver carries it out, and reports the result as an event.
#[derive(Debug)]
pub(super) enum Action {
    /// Read the configuration, bind what is new, open the logs.
    Prepare(GenerationId),
    /// Start a process.
    Start(ProcessId, ProcessStart),
    /// Send a message. One to a process that has exited is lost.
    Send(ProcessId, ToChild),
    /// Kill a process. Its exit is reported.
    Kill(ProcessId),
    /// Let the successor go on alone. No exit is reported.
    Release(ProcessId),
    /// Close the descriptors of a version.
    DropVersion(VersionId),
    /// Open a log again.
    OpenLog(LogId),
    /// Rotate a log if its file is full or old.
    CheckLog(LogId),
    /// Look whether the files of the certificates have changed, and forget the secrets of earlier session tickets.
    CheckCertificates(GenerationId),
    /// The generation serves: close the listeners that its configuration does not name.
    AdoptListeners(GenerationId),
    /// The generation serves no more, or never will: forget its configuration, close its logs, and the listeners that it alone uses.
    Forget(GenerationId),
    /// Close all listeners. The files of Unix sockets stay until the end.
    CloseListeners,
    /// Whether this supervisor removes the files of Unix sockets at its end.
    OwnSocketFiles(bool),
    /// Tell the user, systemd and the callers that a generation serves.
    Announce(Box<Announcement>),
    /// Emit a notice.
    Emit(SupervisorNotice),
    /// Tell systemd.
    Notify(SystemdState),
    /// Reply to an administrator, and close the connection.
    Reply(CallerId, OrderOutcome),
    /// Notify the predecessor that this program serves.
    NotifyPredecessor,
    /// Exit by the default action of a signal, with all children.
    Die(i32),
    /// Exit. All children have been reaped.
    Exit(Result<(), String>),
}

/// A generation serves.
#[derive(Debug)]
pub(super) struct Announcement {
    pub(super) generation: GenerationId,
    pub(super) kind: AnnouncementKind,
    pub(super) serving: ServingInfo,
    /// The number of files and of bytes of each site.
    pub(super) sites: Vec<(u64, u64)>,
    pub(super) callers: Vec<CallerId>,
}

/// Why a generation serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnnouncementKind {
    /// The program has started.
    Started,
    /// The program has taken over from its predecessor.
    Upgraded,
    /// The configuration was reloaded.
    Reloaded,
}

/// What a server says when it serves.
#[derive(Clone, Debug)]
pub(super) struct ServingInfo {
    pub(super) engine: Engine,
    pub(super) fallback_reason: Option<String>,
    pub(super) confinement: Vec<String>,
}

/// A notice of the supervisor, without the names that only the driver knows.
#[derive(Debug)]
pub(super) enum SupervisorNotice {
    /// See [`Notice::ProcessEnded`](super::Notice::ProcessEnded).
    ProcessEnded { role: super::Role, how: String, restart_delay: Duration },
    /// See [`Notice::StartFailed`](super::Notice::StartFailed).
    StartFailed { role: super::Role, error: String, retry_delay: Duration },
    /// See [`Notice::SiteReloadFailed`](super::Notice::SiteReloadFailed).
    SiteReloadFailed(UserError),
    /// See [`Notice::SiteRejected`](super::Notice::SiteRejected).
    SiteRejected { why: String, retry_delay: Option<Duration> },
    /// See [`Notice::LogReopenFailed`](super::Notice::LogReopenFailed).
    LogReopenFailed(UserError),
    /// An order failed, for this reason.
    OrderFailed(Order, String),
    /// See [`Notice::Upgraded`](super::Notice::Upgraded).
    Upgraded(ProcessId),
    /// See [`Notice::DrainFailed`](super::Notice::DrainFailed).
    DrainFailed(String),
    /// See [`Notice::Stopping`](super::Notice::Stopping).
    Stopping(Duration),
}

impl SupervisorNotice {
    /// Returns the role of the child that has caused the notice. `None`: it reports something that the supervisor does once.
    pub(super) fn cause(&self) -> Option<super::Role> {
        match self {
            SupervisorNotice::ProcessEnded { role, .. } | SupervisorNotice::StartFailed { role, .. } => {
                Some(*role)
            }
            SupervisorNotice::SiteReloadFailed(_) => Some(super::Role::Builder),
            // The server passes the orders of administrators on.
            SupervisorNotice::SiteRejected { .. }
            | SupervisorNotice::LogReopenFailed(_)
            | SupervisorNotice::OrderFailed(..)
            | SupervisorNotice::DrainFailed(_) => Some(super::Role::Server),
            SupervisorNotice::Upgraded(_) | SupervisorNotice::Stopping(_) => None,
        }
    }
}

/// A notification for systemd.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SystemdState {
    /// The service is ready, with this status line.
    Ready(String),
    /// A reload or an upgrade starts.
    Reloading,
    /// The service stops.
    Stopping,
    /// This process is the main process of the service.
    MainProcess(ProcessId),
}

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrderOutcome {
    /// The order failed, for this reason.
    Failed(String),
    /// The order was not tried, for this reason.
    Refused(&'static str),
}
