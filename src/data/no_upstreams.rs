//! Upstream servers in a build without the program, whose helper connects to them: no such value can exist, so the compiler removes the code that
//! handles it.

use crate::data::worker::mailbox::Mailbox;
use std::{io, os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{BackendRefusal, BackendSettings, Pipes, ServerId, Transport, Unconnected};

/// A connection, non-blocking, or why there is none.
pub(crate) type ConnectResult = Result<OwnedFd, BackendRefusal>;

/// The upstreams of a server. There are none.
#[derive(Clone, Debug)]
pub(crate) enum WorkerUpstreams {}

/// The upstream servers of a worker. There are none.
pub(crate) enum UpstreamLink {}

impl WorkerUpstreams {
    pub(crate) fn start_thread(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn have_tls(&self) -> bool {
        match *self {}
    }

    pub(crate) fn pipes(
        &self,
        _: Arc<[BackendSettings]>,
        _: Arc<[Option<u16>]>,
    ) -> (Pipes, Option<UpstreamLink>) {
        match *self {}
    }
}

impl UpstreamLink {
    pub(crate) fn take_row(&self, _: usize) {
        match *self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }

    pub(crate) fn connect(&mut self, _: Unconnected, _: &Arc<Mailbox>) -> Option<ConnectResult> {
        match *self {}
    }

    pub(crate) fn add(&mut self, _: Unconnected, _: ConnectResult) {
        match *self {}
    }

    pub(crate) fn next(&mut self) -> Option<(Unconnected, ConnectResult)> {
        match *self {}
    }

    pub(crate) fn has_connected(&self) -> bool {
        match *self {}
    }

    pub(crate) fn drop_unused(&self, _: ServerId, _: ConnectResult) {
        match *self {}
    }

    pub(crate) fn transport(&self, _: ServerId) -> Result<Transport, BackendRefusal> {
        match *self {}
    }
}
