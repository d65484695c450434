//! A process for each connection, which runs [`blocking`] and ends with it: the oldest model of all.
//!
//! ```text
//! control ── accept ─┬─ a place is free ─▶ worker: serve, end
//!                    └─ none has been for a while ─▶ 503, and Retry-After
//!            place ◀── its worker has ended
//! ```
//!
//! While all places are taken clients wait in the backlog, for as long as places become free; a connection that is not used gives way
//! then. When nobody has gone for a while, who waits is told so: that costs a send, and no process.
//!
//! What makes the processes is in `supervisor/crew`.

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

/// Accepts clients for a process that forks a worker for each, and refuses those for whom there is no place.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listeners: Vec<OwnedFd>,
    /// The listener that is asked first: none is asked always before another.
    first: usize,
    /// It closes the listeners when nobody waits there.
    is_leaving: bool,
    /// Others accept there too, and may have places.
    is_succeeded: bool,
    /// Since when no place has become free.
    stalled_since: Instant,
    /// Accepts nothing before: the process was out of descriptors or memory.
    gate: Option<Instant>,
    /// Who was told that there is no place, and when he is let go.
    refused: VecDeque<(OwnedFd, Instant)>,
    counters: SharedRow<Counters>,
}

/// As long as no place becomes free, clients wait so long. A connection that is not used has given way by then.
const STALL_TIME: Duration = Duration::from_secs(2);

/// How long a refused client may take to read why. Closed at once, what he has sent would be answered with a reset, which may
/// overtake the refusal.
const PARTING_TIME: Duration = Duration::from_secs(1);

/// So many are being refused at most. Beyond, the first of them is let go at once.
const REFUSED_COUNT_MAX: usize = 64;

/// Refused in one go, so that those who are served are not kept waiting.
const REFUSE_MAX: usize = 16;

/// How long nobody is accepted when the process is out of descriptors.
const GATE_TIME: Duration = Duration::from_millis(100);

/// All that is said to them. RFC 9110, section 15.6.4.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: tarpon\r\nRetry-After: 2\r\nContent-Length: 0\r\n\
      Connection: close\r\n\r\n";

impl Acceptor {
    /// Accepts on these listeners. What it refuses is counted there.
    pub(crate) fn new(listeners: Vec<OwnedFd>, counters: SharedRow<Counters>) -> io::Result<Acceptor> {
        // They are shared with other processes, which may have made them wait.
        listeners.iter().try_for_each(|listener| ioctl_fionbio(listener, true))?;
        Ok(Acceptor {
            listeners,
            first: 0,
            is_leaving: false,
            is_succeeded: false,
            stalled_since: Instant::now(),
            gate: None,
            refused: VecDeque::new(),
            counters,
        })
    }

    pub(crate) fn listeners(&self) -> &[OwnedFd] {
        &self.listeners
    }

    /// Hands the listeners over, in a process that accepts for itself.
    pub(crate) fn take(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.listeners)
    }

    /// What to wait for, where all places are taken or not.
    pub(crate) fn polled(&self, is_full: bool) -> impl Iterator<Item = PollFd<'_>> {
        let now = Instant::now();
        let waits = self.gate.is_some_and(|by| by > now) || is_full && !self.is_stalled(now);
        self.listeners.iter().filter(move |_| !waits).map(|listener| PollFd::new(listener, PollFlags::IN))
    }

    /// When there is something to do, whatever happens.
    pub(crate) fn due(&self, is_full: bool) -> Option<Instant> {
        let stall = self.stalled_since + STALL_TIME;
        let stall =
            (is_full && self.is_open() && !self.is_succeeded && stall > Instant::now()).then_some(stall);
        let parting = self.refused.front().map(|(_, by)| *by);
        [stall, self.gate, parting].into_iter().flatten().min()
    }

    /// Somebody who waits. `None`: nobody does.
    ///
    /// # Errors
    /// A listener is of no use.
    pub(crate) fn accept(&mut self) -> io::Result<Option<OwnedFd>> {
        let now = Instant::now();
        self.gate = self.gate.filter(|&by| by > now);
        if self.gate.is_some() {
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
                        self.shut_gate();
                        return Ok(None);
                    }
                    Err(error) if is_fatal(error) => return Err(error.into()),
                    // The client has gone again, or accept(2) reports an error of the network that is its own.
                    Err(_) => {}
                }
            }
        }
        if self.is_leaving {
            self.listeners.clear();
        }
        Ok(None)
    }

    /// The process is out of descriptors or memory: accepts again a little later.
    fn shut_gate(&mut self) {
        self.gate = Some(Instant::now() + GATE_TIME);
    }

    /// A place has become free.
    pub(crate) fn has_room(&mut self) {
        self.stalled_since = Instant::now();
    }

    /// Refuses who has waited too long, and lets go of those who were refused.
    pub(crate) fn mind(&mut self, is_full: bool) -> io::Result<()> {
        let now = Instant::now();
        let stalled_since = self.stalled_since;
        for _ in 0..REFUSE_MAX {
            if !is_full || !self.is_stalled(now) {
                break;
            }
            let Some(connection) = self.accept()? else { break };
            // That he was accepted has given nobody a place.
            self.stalled_since = stalled_since;
            self.refuse(connection);
        }
        while self.refused.front().is_some_and(|(_, by)| *by <= now) {
            self.let_go();
        }
        Ok(())
    }

    /// Tells a client that there is no place for him.
    pub(crate) fn refuse(&mut self, connection: OwnedFd) {
        // There is room for it in any new socket; and who has gone does not hear it.
        let sent = send(&connection, REFUSAL, NO_SIGNAL | SendFlags::DONTWAIT);
        let _ = shutdown(&connection, Shutdown::Write);
        self.counters.refused(Status::ServiceUnavailable, sent.unwrap_or(0) as u64);
        self.refused.push_back((connection, Instant::now() + PARTING_TIME));
        if self.refused.len() > REFUSED_COUNT_MAX {
            self.let_go();
        }
    }

    /// Closes the first who was refused.
    fn let_go(&mut self) {
        if let Some((connection, _)) = self.refused.pop_front() {
            let mut dropped = [0; 4096];
            // What is left unread would make it a reset.
            let _ = recv(&connection, &mut dropped, RecvFlags::DONTWAIT);
        }
    }

    /// Whether who waits is to be told that there is no place for him.
    fn is_stalled(&self, now: Instant) -> bool {
        !self.is_succeeded && now.duration_since(self.stalled_since) >= STALL_TIME
    }

    /// Whether anybody may come.
    pub(crate) fn is_open(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Accepts who waits by now, and then nobody more. Where it is succeeded, it refuses nobody either.
    pub(crate) fn close_when_empty(&mut self, is_succeeded: bool) {
        (self.is_leaving, self.is_succeeded) = (true, is_succeeded);
    }

    /// Accepts nobody more.
    pub(crate) fn close(&mut self) {
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
    fn who_finds_no_place_for_too_long_is_told_so_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counters: Arc<SharedArray<Counters>> = Arc::new(SharedArray::new(1).unwrap());
        let mut porter = Acceptor::new(vec![listener.into()], counters.row(0)).unwrap();
        let mut clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        clients.iter_mut().for_each(|client| client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
        let first = porter.accept().unwrap();
        assert!(first.is_some());
        porter.mind(true).unwrap();
        assert_eq!(counters[0].accepted.get(), 0, "it may become free");
        assert_eq!(porter.polled(true).count(), 0);
        thread::sleep(STALL_TIME);
        assert_eq!((porter.polled(true).count(), porter.polled(false).count()), (1, 1));
        porter.mind(true).unwrap();
        for client in &mut clients[1..] {
            let mut said = Vec::new();
            client.read_to_end(&mut said).unwrap();
            assert_eq!(said, REFUSAL);
        }
        assert_eq!(counters[0].responses(Status::ServiceUnavailable, None), 2);
        assert_eq!((counters[0].accepted.get(), counters[0].closed.get()), (2, 2));
        porter.has_room();
        assert_eq!(porter.polled(true).count(), 0);
        porter.close_when_empty(false);
        assert!(porter.is_open());
        assert!(porter.accept().unwrap().is_none());
        assert!(!porter.is_open());
    }

    #[test]
    fn each_listener_has_its_turn_and_who_has_a_successor_refuses_nobody() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let counters: Arc<SharedArray<Counters>> = Arc::new(SharedArray::new(1).unwrap());
        let mut porter = Acceptor::new(listeners.map(Into::into).into(), counters.row(0)).unwrap();
        let _clients = [0, 0, 0, 1, 0].map(|number: usize| TcpStream::connect(addresses[number]).unwrap());
        let from = |connection: Option<OwnedFd>| {
            let at = TcpStream::from(connection.unwrap()).local_addr().unwrap();
            addresses.iter().position(|address| *address == at).unwrap()
        };
        let served = [(); 4].map(|()| from(porter.accept().unwrap()));
        assert_eq!(served, [0, 1, 0, 0]);
        porter.close_when_empty(true);
        thread::sleep(STALL_TIME);
        assert_eq!((porter.polled(true).count(), porter.due(true)), (0, None));
        porter.mind(true).unwrap();
        assert_eq!(counters[0].accepted.get(), 0);
        assert_eq!(from(porter.accept().unwrap()), 0, "when there is a place again");
        assert!(porter.accept().unwrap().is_none() && !porter.is_open());
    }
}
