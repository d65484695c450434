//! What a worker asks of the helper `tarpon-net`: a connection to an upstream server.

use crate::data::services::{ServiceError, ServiceReply, Services};
use serde::{Deserialize, Serialize};
use std::{os::fd::OwnedFd, time::Duration};
use tarpon_conn::BackendRefusal;

/// A request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectRequest {
    /// The number of the server.
    pub(crate) server: u16,
    /// The row of the worker, in which the connection will be counted.
    pub(crate) row: u16,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ConnectOutcome {
    /// The connection comes with the reply.
    Connected,
    /// The server cannot be reached.
    Unreachable,
    /// The server has all connections that it may have.
    Full,
    /// Connecting takes too long.
    TimedOut,
}

/// A session with the helper.
pub(super) type ConnectServices = Services<ConnectRequest, ConnectOutcome>;

/// A connection, non-blocking, or why there is none.
pub(crate) type ConnectResult = Result<OwnedFd, BackendRefusal>;

/// How much longer than the helper a worker waits: the helper answers in time, unless it exits or starts.
pub(super) const WAIT_MARGIN: Duration = Duration::from_secs(1);

/// Returns the connection that a reply brings.
pub(super) fn result(reply: ServiceReply<ConnectOutcome>) -> ConnectResult {
    match (reply.result, reply.descriptor) {
        (Ok(ConnectOutcome::Connected), Some(fd)) => Ok(fd),
        // This process has no room for the descriptor.
        (Ok(ConnectOutcome::Connected), None) | (Ok(ConnectOutcome::Full), _) => Err(BackendRefusal::Full),
        (Ok(ConnectOutcome::TimedOut), _) => Err(BackendRefusal::TimedOut),
        (Ok(ConnectOutcome::Unreachable) | Err(_), _) => Err(BackendRefusal::Unreachable),
    }
}

/// Returns why a request that was not sent gets no connection.
pub(super) fn refusal(error: ServiceError) -> BackendRefusal {
    match error {
        ServiceError::Busy | ServiceError::Shortage => BackendRefusal::Full,
        ServiceError::TooLong => BackendRefusal::Unreachable,
    }
}
