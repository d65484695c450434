//! Kernel TLS in a build without TLS: no connection has it.

use super::{context::WorkerContext, receiving::SendError, slots::Slot};
pub(crate) use crate::sys::kernel_tls::KernelSuites;
use rustix::io::Errno;
use tarpon_conn::{OwnRecord, Transport};

impl WorkerContext {
    pub(super) fn offer_to_kernel(&self, _: &mut Transport) {}

    pub(crate) fn install_keys<S>(&mut self, _: &mut Slot<S>) -> Result<(), SendError> {
        Ok(())
    }

    pub(crate) fn receive_record<S>(&mut self, _: &mut Slot<S>, _: Errno) -> Result<(), SendError> {
        Err(SendError)
    }

    pub(crate) fn send_own_record<S>(&mut self, _: &mut Slot<S>, record: OwnRecord) -> Result<(), Errno> {
        match record {}
    }
}
