//! What supervisor, keeper and server say to each other; and two supervisors, of which one takes over.

use super::{lineup::Kept, listeners::Bequest};
use crate::{
    base::{engine::Engine, log_config::LogOwner},
    control::admin::Order,
    site::transfer::SiteTransfer,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The keeper to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromKeeper {
    /// A site as it is now, or an earlier release of it; of these the oldest comes first. With all its descriptors.
    Site { site: usize, record: SiteTransfer, is_earlier: bool },
    /// Its root is another one by now, which its sandbox keeps from it: another keeper shall read that.
    Moved,
    /// It cannot begin.
    Refused { why: String },
}

/// The supervisor to a server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// As from the keeper.
    Site { site: usize, record: SiteTransfer, is_earlier: bool },
    /// Log what is `of` this owner to this from now on. With its descriptor.
    Log { of: LogOwner },
    /// Accept nothing more, finish what has begun, and end after `grace-period` at the latest.
    Stop { grace: Duration },
    /// Leave the clients to another server that has the same listeners, and end after `grace-period` at the latest.
    Drain { grace: Duration },
}

/// A server to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromServer {
    /// The workers have begun, with this engine; why it is not io_uring, where that was wanted if possible; and what they are
    /// confined to, in words.
    Serving { engine: Engine, instead: Option<String>, confined: Vec<String> },
    /// Nobody listens any more to what is logged `of` this owner.
    LogBroken { of: LogOwner },
    /// A site is not in order; the one before is still served.
    Unfit { why: String },
    /// It cannot begin, or not go on.
    Refused { why: String },
    /// Somebody wants this. With his connection.
    Asked { order: Order },
}

/// A supervisor to the one that it has started to take its place.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToHeir {
    /// What it begins with: the engine that accepts so far, and where; and how much follows of what is kept of sites. With all these
    /// sockets.
    Sockets { engine: Engine, listeners: Vec<Bequest>, kept_count: usize },
    /// A site that was served. With all its descriptors.
    Kept(Kept),
    /// From now on it is the only one. With the connections of those who want to know.
    Yours,
}

/// A supervisor to the one that has started it, and whose place it takes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromHeir {
    /// It has read its configuration, and all the sockets that this names.
    Taken,
    /// Its server serves.
    Serving,
    /// It cannot begin.
    Refused { why: String },
}
