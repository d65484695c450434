//! What the processes say to each other.

use crate::{
    base::{address::Address, engine::Engine, log_config::LogOwner},
    control::{admin::Order, counters::CounterHandover, tls::tickets::TicketSecret},
    data::worker::mailbox::ShutdownMode,
    site::transfer::SiteTransfer,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A message of a site builder to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromBuilder {
    /// The current version of a site, or an earlier release of it; the oldest release comes first. With all its descriptors.
    Site {
        /// The number of the site.
        site: usize,
        /// The version.
        transfer: SiteTransfer,
        /// Whether it is an earlier release.
        is_earlier: bool,
    },
    /// Another file or directory is the root of a site now, and the sandbox of this process hides it: the next builder reads it.
    RootReplaced,
    /// The builder cannot start, for this reason, and exits.
    StartFailed {
        /// The reason, for a user.
        why: String,
    },
}

/// A message of the supervisor to a server process, or of a master to a process of its pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// A version of a site: see [`FromBuilder::Site`].
    Site {
        /// The number of the site.
        site: usize,
        /// The version.
        transfer: SiteTransfer,
        /// Whether it is an earlier release.
        is_earlier: bool,
        /// How often this site was loaded since the service started, this time included.
        loads: u64,
    },
    /// Write the log of this owner to the descriptor that comes with this message.
    Log {
        /// The owner.
        of: LogOwner,
    },
    /// Accept no more clients, and exit after the grace period at the latest.
    Shutdown {
        /// What happens to open connections.
        mode: ShutdownMode,
        /// The grace period.
        grace: Duration,
    },
}

/// What a message is about: a newer message about the same replaces one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKey {
    /// The current version of the site with this number.
    Site(usize),
    /// The log of this owner.
    Log(LogOwner),
    /// The shutdown.
    Shutdown,
}

impl ToServer {
    /// Returns what the message is about. `None`: it waits beside other messages.
    pub(crate) fn key(&self) -> Option<MessageKey> {
        match *self {
            ToServer::Site { is_earlier: true, .. } => None,
            ToServer::Site { site, .. } => Some(MessageKey::Site(site)),
            ToServer::Log { of } => Some(MessageKey::Log(of)),
            ToServer::Shutdown { .. } => Some(MessageKey::Shutdown),
        }
    }
}

/// A message of a server process to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromServer {
    /// The workers serve.
    Serving {
        /// The engine that serves.
        engine: Engine,
        /// Why `auto` did not choose io_uring.
        fallback_reason: Option<String>,
        /// The restrictions of the process, in words.
        confinement: Vec<String>,
    },
    /// The reader of the log of this owner has gone.
    LogBroken {
        /// The owner.
        of: LogOwner,
    },
    /// The server cannot use a version of a site, and serves the previous one.
    SiteRejected {
        /// The number of the site.
        site: usize,
        /// The reason.
        rejection: SiteRejection,
    },
    /// The server cannot start or continue, for this reason, and exits.
    StartFailed {
        /// The reason, for a user.
        why: String,
    },
    /// An administrator gives an order. With the connection, for the reply.
    AdminRequest {
        /// The order.
        order: Order,
    },
}

impl FromServer {
    /// Returns what the message is about. `None`: it waits beside other messages.
    pub(crate) fn key(&self) -> Option<MessageKey> {
        match *self {
            FromServer::SiteRejected { site, .. } => Some(MessageKey::Site(site)),
            FromServer::LogBroken { of } => Some(MessageKey::Log(of)),
            FromServer::Serving { .. } | FromServer::StartFailed { .. } | FromServer::AdminRequest { .. } => {
                None
            }
        }
    }
}

/// Why a server process cannot use a version of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteRejection {
    /// The reason, for a user.
    pub(crate) why: String,
    /// The process is short of descriptors or memory: it may take the version later.
    pub(crate) is_shortage: bool,
}

/// A message of a supervisor to its successor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToSuccessor {
    /// What the successor starts with. With all these sockets, and then the tables of the counters.
    Sockets {
        /// The engine that accepts on the sockets.
        engine: Engine,
        /// The listeners.
        listeners: Vec<InheritedSocket>,
        /// How many [`Site`](ToSuccessor::Site) messages follow.
        site_count: usize,
        /// When the service started, in seconds since 1970.
        start_unix_s: u64,
        /// The counters of the service.
        #[serde(default)]
        counters: CounterHandover,
        /// The secret of session tickets, so that sessions resume with the successor.
        #[serde(default)]
        tickets: Option<TicketSecret>,
    },
    /// A version of a site that was served. With its descriptors.
    Site(InheritedSite),
    /// The successor is the only supervisor now. With the connections of the callers that ordered the upgrade.
    Commit,
}

/// A message of a successor to the supervisor that started it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromSuccessor {
    /// The successor has read its configuration, and has taken the sockets that it names.
    ConfigRead,
    /// Its server serves.
    Serving,
    /// The successor cannot start, for this reason, and exits.
    StartFailed {
        /// The reason, for a user.
        why: String,
    },
}

/// A listener on its way to a successor, whose sockets travel beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InheritedSocket {
    /// The configured address.
    pub(crate) configured: Address,
    /// The address of the sockets, with the port that the kernel chose.
    pub(crate) bound: Address,
    /// How many sockets there are.
    pub(crate) socket_count: usize,
    /// The supervisor that has the socket last removes its file.
    pub(crate) has_file: bool,
    /// systemd owns the socket.
    pub(crate) is_lent: bool,
}

/// A version of a site that was served, on its way to the next configuration or successor. Its descriptors travel beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InheritedSite {
    /// What tells its source from others.
    pub(crate) source: String,
    /// The version.
    pub(crate) transfer: SiteTransfer,
    /// How often the site was loaded since the service started.
    pub(crate) loads: u64,
}
