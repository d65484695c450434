//! How an idle worker waits for a client: epoll(7), so that the kernel wakes one idle worker for each client.
//!
//! ```text
//! poll(2)           a client wakes all workers that wait at its listener; all but one find nothing
//! EPOLLEXCLUSIVE    a client wakes one worker, which takes no client of another listener before it has looked at this one
//! ```
//!
//! The kernel wakes no worker a second time for the same client, so each event must lead to an accept:
//!
//! - A wait reports one event. The worker tries the listener of the event first: the kernel may have woken another worker for the client
//!   of another listener, and that worker takes only clients of that listener.
//! - A busy worker does not wait here, so the kernel passes over it. When it becomes idle, its first wait reports a client that waits.
//! - A woken worker waits no more, so the next client wakes another one, since Linux 5.7.
//! - A worker that is killed after it was woken leaves its client in the queue. The worker that replaces it finds this client.

use crate::{
    data::worker::timespec,
    sys::epoll::{self, Event, EventData, EventFlags},
};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

/// The wait of one worker. Dropping it ends its registrations.
pub(crate) struct IdleWait(OwnedFd);

/// What an idle worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleEvent {
    Mailbox,
    /// A client waits at the listener of this number.
    Client(usize),
}

impl IdleWait {
    /// Creates the wait of a worker. Its sandbox may forbid this call later.
    pub(crate) fn create() -> io::Result<Option<IdleWait>> {
        Ok(Some(IdleWait(epoll::create()?)))
    }

    /// Watches these descriptors from now on.
    ///
    /// # Errors
    /// The kernel is out of memory, or this user has no watches left.
    pub(super) fn watch(&self, mailbox: impl AsFd, listeners: &[OwnedFd]) -> Result<(), Errno> {
        epoll::add(&self.0, mailbox.as_fd(), EventData::new_u64(MAILBOX), EventFlags::IN)?;
        for (number, listener) in listeners.iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            epoll::add(&self.0, listener.as_fd(), EventData::new_u64(number as u64), flags)?;
        }
        Ok(())
    }

    /// Waits for an event for at most `wait_ms` milliseconds; `None`: without limit. The kernel rotates ready descriptors, so that no
    /// listener is preferred.
    pub(super) fn wait(&self, wait_ms: Option<u64>) -> Result<Option<IdleEvent>, Errno> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(MAILBOX) }];
        let count = epoll::wait(&self.0, &mut events, wait_ms.map(timespec).as_ref())?;
        Ok(events[..count].first().map(|event| match event.data.u64() {
            MAILBOX => IdleEvent::Mailbox,
            number => IdleEvent::Client(number as usize),
        }))
    }
}

/// The event data of the mailbox; that of a listener is its number.
const MAILBOX: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
    };

    #[test]
    fn wait_reports_each_waiting_client_and_the_mailbox_in_turn() {
        let (mailbox, mut sender) = UnixStream::pair().unwrap();
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let listeners = listeners.map(OwnedFd::from);
        let wait = IdleWait::create().unwrap().unwrap();
        wait.watch(&mailbox, &listeners).unwrap();
        assert_eq!(wait.wait(Some(0)), Ok(None));

        let _clients = addresses.map(|address| TcpStream::connect(address).unwrap());
        sender.write_all(b"x").unwrap();
        let events = [(); 6].map(|()| wait.wait(None).unwrap().unwrap());
        let all = [IdleEvent::Client(0), IdleEvent::Client(1), IdleEvent::Mailbox];
        assert_eq!(events[..3], all);
        assert_eq!(events[3..], all, "no event is lost before it is handled");
    }

    #[test]
    fn waiting_client_is_reported_to_each_worker_that_becomes_idle() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let listeners = [listener.into()];
        let (mailbox, _sender) = UnixStream::pair().unwrap();
        let waits = [(); 2].map(|()| IdleWait::create().unwrap().unwrap());
        waits.iter().for_each(|wait| wait.watch(&mailbox, &listeners).unwrap());
        let _client = TcpStream::connect(address).unwrap();
        // No worker waited when the client came.
        for wait in waits {
            assert_eq!(wait.wait(None), Ok(Some(IdleEvent::Client(0))));
        }
    }
}
