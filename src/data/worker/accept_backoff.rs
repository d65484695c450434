//! Accept back-off: stops accepting while the process is out of descriptors or memory.

use super::Worker;

/// Length of an accept back-off in milliseconds. It ends earlier if a connection closes.
const ACCEPT_BACKOFF_MS: u64 = 1_000;

impl<S> Worker<S> {
    /// Returns whether the worker may accept another connection.
    #[inline]
    pub(crate) fn may_accept(&self) -> bool {
        !self.slots.is_full() && self.accept_backoff.is_none()
    }

    /// Stops accepting until a connection closes or the back-off expires: the process is out of descriptors or memory. New clients
    /// stay in the accept queue.
    pub(crate) fn back_off_accepting(&mut self) {
        self.accept_backoff = Some(self.context.now.after(ACCEPT_BACKOFF_MS));
    }
}
