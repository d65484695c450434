//! Connections whose records the kernel seals and opens: gives it the keys, and passes records of other kinds than data.

use super::{context::WorkerContext, receiving::SendError, slots::Slot};
use crate::sys::kernel_tls;
pub(crate) use crate::sys::kernel_tls::KernelSuites;
use rustix::io::{Errno, retry_on_intr};
use tarpon_conn::{KernelFailure, KernelKeys, OwnRecord, Transport};

/// How much is looked at of a record of another kind than data: those that have a meaning are shorter.
const RECORD_BEGIN_LEN: usize = 8;

impl WorkerContext {
    /// Lets the keys of a new connection go to the kernel after the handshake, if it has any suite.
    pub(super) fn offer_to_kernel(&self, transport: &mut Transport) {
        if !self.kernel_suites.is_empty() {
            transport.offer_to_kernel();
        }
    }

    /// Gives the keys of a connection to the kernel. If it cannot take them, they stay here: that is known before they leave.
    #[cold]
    pub(crate) fn install_keys<S>(&mut self, slot: &mut Slot<S>) -> Result<(), SendError> {
        if slot.inbox.is_some() {
            // The transport has not seen them.
            return self.offer_inbox(slot);
        }
        let takes = slot.transport.kernel_suite().is_some_and(|suite| self.kernel_suites.has(suite));
        let attached = if takes { kernel_tls::attach(&slot.fd) } else { Err(Errno::OPNOTSUPP) };
        if let Err(error) = attached {
            // The kernel takes no connection whose client has closed its side.
            let is_refused = error != Errno::NOTCONN;
            slot.transport.keep_keys(&self.conn_resources(), is_refused);
            return Ok(());
        }
        let keys = slot.transport.give_keys(&mut self.conn_resources()).map_err(|_| SendError)?;
        // An error here is one of memory.
        keys.iter().try_for_each(|keys| kernel_tls::install(&slot.fd, keys)).map_err(|_| SendError)
    }

    /// Handles the error of a receive from a connection in records of the kernel: a record of another kind than data is next, or the
    /// connection has failed.
    #[cold]
    pub(crate) fn receive_record<S>(&mut self, slot: &mut Slot<S>, error: Errno) -> Result<(), SendError> {
        let failure = match error {
            Errno::IO => return self.receive_own_kind(slot),
            Errno::BADMSG => KernelFailure::Invalid,
            Errno::MSGSIZE => KernelFailure::TooLong,
            _ => return Err(SendError),
        };
        self.fail_in_kernel(slot, failure)
    }

    fn receive_own_kind<S>(&mut self, slot: &mut Slot<S>) -> Result<(), SendError> {
        let mut bytes = [0; RECORD_BEGIN_LEN];
        let room = self.pool.buf_mut(self.scratch);
        let received = retry_on_intr(|| kernel_tls::receive_record(&slot.fd, room));
        bytes.copy_from_slice(&room[..RECORD_BEGIN_LEN]);
        let (kind, len) = match received {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::IO) => return Err(SendError),
            Err(error) => return self.receive_record(slot, error),
        };
        let Slot { transport, conn, .. } = slot;
        let keys = transport.received_record(
            conn,
            &mut self.conn_resources(),
            kind,
            &bytes[..len.min(RECORD_BEGIN_LEN)],
        );
        if slot.transport.drops_kernel_input() {
            self.release_inbox(slot);
        }
        keys.map_or(Ok(()), |keys| self.change_keys(slot, &keys))
    }

    /// Sends the record of a transport that leaves before all else, whole.
    #[cold]
    pub(crate) fn send_own_record<S>(&mut self, slot: &mut Slot<S>, record: OwnRecord) -> Result<(), Errno> {
        if let Err(error) = kernel_tls::send_record(&slot.fd, record.kind, record.bytes()) {
            if error == Errno::AGAIN {
                slot.transport.own_waits(self.now);
            }
            return Err(error);
        }
        let keys = slot.transport.sent_own().map_err(|_| Errno::IO)?;
        keys.map_or(Ok(()), |keys| self.change_keys(slot, &keys)).map_err(|SendError| Errno::IO)
    }

    /// Changes the keys of one direction after an update. A kernel that cannot ends the connection.
    fn change_keys<S>(&mut self, slot: &mut Slot<S>, keys: &KernelKeys) -> Result<(), SendError> {
        match kernel_tls::install(&slot.fd, keys) {
            Ok(()) => Ok(()),
            Err(_) => self.fail_in_kernel(slot, KernelFailure::NoUpdate),
        }
    }

    fn fail_in_kernel<S>(&mut self, slot: &mut Slot<S>, failure: KernelFailure) -> Result<(), SendError> {
        let Slot { transport, conn, .. } = slot;
        transport.kernel_failed(conn, &mut self.conn_resources(), failure).map_err(|_| SendError)
    }
}
