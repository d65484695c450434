//! The side of a worker: connects to the helper.

use crate::data::{services::ServiceEndpoint, worker::BackendConnector};
use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

/// Connects to a mount of the helper.
#[derive(Debug)]
pub(super) struct CgiConnector {
    helper: ServiceEndpoint,
    mount: u16,
}

impl CgiConnector {
    pub(super) fn new(helper: ServiceEndpoint, mount: usize) -> CgiConnector {
        // Sites have far fewer mounts than this, as a configuration file is limited.
        CgiConnector { helper, mount: mount as u16 }
    }
}

impl BackendConnector for CgiConnector {
    /// Sends the helper one end of a new pair. The socket holds the bytes of the worker until the helper reads, also until a new helper does.
    fn connect(&self, is_nonblocking: bool) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(is_nonblocking)?;
        self.helper.pass(&self.mount.to_le_bytes(), &theirs.into())?;
        Ok(ours.into())
    }
}
