//! Accepts clients for the master of `fork`, and answers 503 to clients that find no free slot for too long.
//!
//! ```text
//! master ── accept ─┬─ a slot is free ─▶ worker process: serves one connection and exits
//!                   └─ no slot has become free for a while ─▶ 503 with Retry-After
//!           slot ◀── the master reaps its worker
//! ```
//!
//! While all slots are taken, clients wait in the backlog, and workers close idle connections. If no slot becomes free for
//! [`STALL_TIME`], the acceptor refuses waiting clients: a refusal costs one send, and no process.

use crate::{
    data::engine::is_fatal,
    sys::{
        shared::SharedRow,
        socket::{self, NO_SIGNAL},
    },
};
use rustix::{
    event::{PollFd, PollFlags},
    io::{Errno, ioctl_fionbio},
    net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown},
};
use std::{
    collections::VecDeque,
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use tarpon_conn::Counters;
use tarpon_http::status::Status;

/// Accepts clients for a process that forks a worker for each, and refuses clients when there is no free slot.
#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<OwnedFd>,
    /// The listener that [`accept`](Acceptor::accept) tries first. It rotates, so that no listener starves another.
    first: usize,
    /// The acceptor closes the listeners when their backlogs are empty.
    is_draining: bool,
    /// A successor accepts on the same sockets and may have free slots.
    has_successor: bool,
    /// The last time when a slot became free or a client was accepted.
    stalled_since: Instant,
    /// Accept back-off: the acceptor accepts nothing before this time, as the process was out of descriptors or memory.
    accept_after: Option<Instant>,
    /// Refused clients, and when to close each connection.
    refused: VecDeque<(OwnedFd, Instant)>,
    counters: SharedRow<Counters>,
}

/// How long a client waits for a free slot before it gets a 503. Workers close idle connections within this time.
const STALL_TIME: Duration = Duration::from_secs(2);

/// How long a refused client may take to read the refusal. If the acceptor closed at once, the kernel would answer unread bytes of the
/// client with a reset, which may overtake the refusal.
const REFUSED_TIME: Duration = Duration::from_secs(1);

/// The largest number of refused connections that stay open. Beyond it, the acceptor closes the oldest at once.
const REFUSED_COUNT_MAX: usize = 64;

/// How many clients the acceptor refuses in one pass, so that it does not delay other work of the master.
const REFUSE_MAX: usize = 16;

/// The accept back-off when the process is out of descriptors or memory.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// The whole refusal. RFC 9110, section 15.6.4.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: tarpon\r\nRetry-After: 2\r\nContent-Length: 0\r\n\
      Connection: close\r\n\r\n";

impl Acceptor {
    /// Accepts on these listeners, and counts refusals in `counters`.
    pub(super) fn new(listeners: Vec<OwnedFd>, counters: SharedRow<Counters>) -> io::Result<Acceptor> {
        // Other processes share the sockets and may have made them blocking.
        listeners.iter().try_for_each(|listener| ioctl_fionbio(listener, true))?;
        Ok(Acceptor {
            listeners,
            first: 0,
            is_draining: false,
            has_successor: false,
            stalled_since: Instant::now(),
            accept_after: None,
            refused: VecDeque::new(),
            counters,
        })
    }

    pub(super) fn listeners(&self) -> &[OwnedFd] {
        &self.listeners
    }

    /// Hands the listeners over to a worker process that accepts for itself.
    pub(super) fn take_listeners(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.listeners)
    }

    /// Returns the listeners to poll. `is_full`: no slot is free.
    pub(super) fn polled(&self, is_full: bool) -> impl Iterator<Item = PollFd<'_>> {
        let now = Instant::now();
        let waits = self.accept_after.is_some_and(|at| at > now) || is_full && !self.is_stalled(now);
        self.listeners.iter().filter(move |_| !waits).map(|listener| PollFd::new(listener, PollFlags::IN))
    }

    /// Returns when [`update`](Acceptor::update) must run next, even without an event.
    pub(super) fn due(&self, is_full: bool) -> Option<Instant> {
        let stall = self.stalled_since + STALL_TIME;
        let stall =
            (is_full && self.is_open() && !self.has_successor && stall > Instant::now()).then_some(stall);
        let close_refused = self.refused.front().map(|(_, at)| *at);
        [stall, self.accept_after, close_refused].into_iter().flatten().min()
    }

    /// Accepts a client. `None`: no client waits, or the accept back-off runs.
    ///
    /// # Errors
    /// A listener is unusable.
    pub(super) fn accept(&mut self) -> io::Result<Option<OwnedFd>> {
        let now = Instant::now();
        self.accept_after = self.accept_after.filter(|&at| at > now);
        if self.accept_after.is_some() {
            return Ok(None);
        }
        let count = self.listeners.len();
        for number in (0..count).map(|number| (self.first + number) % count) {
            loop {
                match socket::accept(&self.listeners[number]) {
                    Ok(connection) => {
                        self.stalled_since = now;
                        self.first = number + 1;
                        return Ok(Some(connection));
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        self.back_off();
                        return Ok(None);
                    }
                    Err(error) if is_fatal(error) => return Err(error.into()),
                    // The client has gone, or accept(2) reports a network error of this one connection.
                    Err(_) => {}
                }
            }
        }
        if self.is_draining {
            self.listeners.clear();
        }
        Ok(None)
    }

    /// Starts the accept back-off: the process is out of descriptors or memory.
    fn back_off(&mut self) {
        self.accept_after = Some(Instant::now() + ACCEPT_BACKOFF);
    }

    /// Notes that a slot has become free.
    pub(super) fn slot_freed(&mut self) {
        self.stalled_since = Instant::now();
    }

    /// Refuses clients that have waited too long, and closes refused connections whose time is up.
    pub(super) fn update(&mut self, is_full: bool) -> io::Result<()> {
        let now = Instant::now();
        let stalled_since = self.stalled_since;
        for _ in 0..REFUSE_MAX {
            if !is_full || !self.is_stalled(now) {
                break;
            }
            let Some(connection) = self.accept()? else { break };
            // Accepting a client to refuse it has freed no slot.
            self.stalled_since = stalled_since;
            self.refuse(connection);
        }
        while self.refused.front().is_some_and(|(_, at)| *at <= now) {
            self.close_oldest_refused();
        }
        Ok(())
    }

    /// Answers a client with 503.
    pub(super) fn refuse(&mut self, connection: OwnedFd) {
        // A new socket always has room for the refusal. A client that has gone makes the send fail, which does not matter.
        let sent = send(&connection, REFUSAL, NO_SIGNAL | SendFlags::DONTWAIT);
        let _ = shutdown(&connection, Shutdown::Write);
        self.counters.refused(Status::ServiceUnavailable, sent.unwrap_or(0) as u64);
        self.refused.push_back((connection, Instant::now() + REFUSED_TIME));
        if self.refused.len() > REFUSED_COUNT_MAX {
            self.close_oldest_refused();
        }
    }

    fn close_oldest_refused(&mut self) {
        if let Some((connection, _)) = self.refused.pop_front() {
            let mut dropped = [0; 4096];
            // Unread bytes would turn the close into a reset.
            let _ = recv(&connection, &mut dropped, RecvFlags::DONTWAIT);
        }
    }

    /// Returns whether waiting clients get a 503 now.
    fn is_stalled(&self, now: Instant) -> bool {
        !self.has_successor && now.duration_since(self.stalled_since) >= STALL_TIME
    }

    /// Returns whether a listener is still open.
    pub(super) fn is_open(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Accepts the clients of the backlogs, then closes the listeners. With a successor, the acceptor refuses no client.
    pub(super) fn close_when_empty(&mut self, has_successor: bool) {
        (self.is_draining, self.has_successor) = (true, has_successor);
    }

    /// Closes the listeners.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::shared::SharedArray;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        sync::Arc,
        thread,
    };

    #[test]
    fn client_without_a_slot_gets_503_after_the_stall_time_and_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counters: Arc<SharedArray<Counters>> = Arc::new(SharedArray::new(1).unwrap());
        let mut acceptor = Acceptor::new(vec![listener.into()], counters.row(0)).unwrap();
        let mut clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        clients.iter_mut().for_each(|client| client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
        let first = acceptor.accept().unwrap();
        assert!(first.is_some());
        acceptor.update(true).unwrap();
        assert_eq!(counters[0].accepted.get(), 0, "a slot may become free");
        assert_eq!(acceptor.polled(true).count(), 0);
        thread::sleep(STALL_TIME);
        assert_eq!((acceptor.polled(true).count(), acceptor.polled(false).count()), (1, 1));
        acceptor.update(true).unwrap();
        for client in &mut clients[1..] {
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, REFUSAL);
        }
        assert_eq!(counters[0].responses(Status::ServiceUnavailable, None), 2);
        assert_eq!((counters[0].accepted.get(), counters[0].closed.get()), (2, 2));
        acceptor.slot_freed();
        assert_eq!(acceptor.polled(true).count(), 0);
        acceptor.close_when_empty(false);
        assert!(acceptor.is_open());
        assert!(acceptor.accept().unwrap().is_none());
        assert!(!acceptor.is_open());
    }

    #[test]
    fn accept_alternates_between_listeners_and_refuses_no_client_if_there_is_a_successor() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let counters: Arc<SharedArray<Counters>> = Arc::new(SharedArray::new(1).unwrap());
        let mut acceptor = Acceptor::new(listeners.map(Into::into).into(), counters.row(0)).unwrap();
        let _clients = [0, 0, 0, 1, 0].map(|number: usize| TcpStream::connect(addresses[number]).unwrap());
        let from = |connection: Option<OwnedFd>| {
            let at = TcpStream::from(connection.unwrap()).local_addr().unwrap();
            addresses.iter().position(|address| *address == at).unwrap()
        };
        let served = [(); 4].map(|()| from(acceptor.accept().unwrap()));
        assert_eq!(served, [0, 1, 0, 0]);
        acceptor.close_when_empty(true);
        thread::sleep(STALL_TIME);
        assert_eq!((acceptor.polled(true).count(), acceptor.due(true)), (0, None));
        acceptor.update(true).unwrap();
        assert_eq!(counters[0].accepted.get(), 0);
        assert_eq!(from(acceptor.accept().unwrap()), 0, "when a slot is free again");
        assert!(acceptor.accept().unwrap().is_none() && !acceptor.is_open());
    }
}
