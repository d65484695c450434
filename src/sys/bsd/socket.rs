//! Sockets: what each kind of BSD has of its own, and what all of them lack.

pub(crate) use super::kind::socket::{
    FOR_US, QUIET, RDHUP, SPREADS, accept, accept_to_wait, pair, send_file, share_port, stream, unacked,
};

use rustix::net::SendFlags;

/// More is sent at once; nothing can be told of that.
pub(crate) const MORE: SendFlags = SendFlags::empty();
