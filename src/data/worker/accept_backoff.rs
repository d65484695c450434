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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::worker::{
        WorkerConfig,
        mailbox::{ShutdownMode, WorkerMessage},
    };
    use rustix::net::{AddressFamily, SocketType, socket};
    use std::time::Duration;
    use tarpon_conn::Tick;

    #[test]
    fn accepting_pauses_until_the_back_off_expires_or_a_connection_closes() {
        let mut worker: Worker<()> = Worker::new(WorkerConfig::for_test(1, vec![]));
        assert!(worker.may_accept());
        worker.advance_to(Tick(5_000));
        worker.back_off_accepting();
        worker.advance_to(Tick(5_999));
        assert_eq!(
            (worker.may_accept(), worker.wait_ms()),
            (false, Some(1)),
            "the engine waits for the rest"
        );
        worker.advance_to(Tick(6_000));
        assert_eq!((worker.may_accept(), worker.wait_ms()), (true, None));
        worker.back_off_accepting();
        assert!(!worker.may_accept());
        let open = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let open = worker.insert(open, 0).expect("no limit of connections");
        assert!(!worker.may_accept(), "the other connections stay open");
        worker.remove(open);
        assert!(worker.may_accept());
        worker.back_off_accepting();
        worker
            .mailbox
            .post(WorkerMessage::Shutdown { mode: ShutdownMode::Stop, grace: Duration::from_secs(60) });
        assert_eq!(worker.read_messages(), Some(ShutdownMode::Stop));
        assert!(worker.may_accept(), "clients that wait would be reset");
    }
}
