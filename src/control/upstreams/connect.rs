//! An attempt to connect to a server: tries its addresses in turn, without blocking.
//!
//! ```text
//! address 1 ─ refused, or its part of the time is over ─▶ address 2 ─ connected ─▶ socket
//! ```

use crate::{
    base::error::reason,
    sys::{poll::PollEntry, socket},
};
use libc::POLLOUT;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, connect,
        sockopt::{set_tcp_nodelay, socket_error},
    },
};
use std::{
    collections::VecDeque,
    fmt, mem,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};
use tarpon_conn::Tick;

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectAddress {
    Tcp(SocketAddr),
    Unix(SocketAddrUnix),
}

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct ConnectAttempt {
    /// The addresses to try, the first now.
    left: VecDeque<ConnectAddress>,
    socket: Option<OwnedFd>,
    /// The socket has connected, or failed.
    is_ready: bool,
    /// The end of the present address.
    try_until: Tick,
    /// The end of the attempt.
    deadline: Tick,
    /// The server has no room in its backlog: the attempt goes on at this time.
    retry_at: Option<Tick>,
    last: ConnectError,
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) enum ConnectProgress {
    Waits,
    Connected(OwnedFd, ConnectAddress),
    Failed(ConnectError),
}

/// Why an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectError {
    /// The name has no address.
    NoAddress,
    /// This was the last error.
    Failed(Errno),
    /// No address has answered in time.
    TimedOut,
}

/// How long an attempt waits for room in the backlog of a Unix socket before it tries again: the kernel does not tell.
const BACKLOG_WAIT_MS: u64 = 10;

impl ConnectAttempt {
    /// Begins to connect to one of these addresses. It is over at the deadline.
    pub(super) fn new(addresses: &[ConnectAddress], deadline: Tick) -> ConnectAttempt {
        ConnectAttempt {
            left: addresses.iter().cloned().collect(),
            socket: None,
            is_ready: false,
            try_until: deadline,
            deadline,
            retry_at: None,
            last: ConnectError::NoAddress,
        }
    }

    /// Goes on as far as possible without waiting.
    pub(super) fn drive(&mut self, now: Tick) -> ConnectProgress {
        loop {
            let progress = match &self.socket {
                Some(_) => self.finish(now),
                None if self.retry_at.is_some_and(|at| at > now) && now < self.deadline => {
                    return ConnectProgress::Waits;
                }
                None => self.start(now),
            };
            match progress {
                Ok(Some(connected)) => return connected,
                Ok(None) => return ConnectProgress::Waits,
                Err(error) => {
                    self.last = error;
                    self.left.pop_front();
                    (self.socket, self.retry_at) = (None, None);
                    if self.left.is_empty() || now >= self.deadline {
                        return ConnectProgress::Failed(error);
                    }
                }
            }
        }
    }

    /// Begins with the next address.
    fn start(&mut self, now: Tick) -> Result<Option<ConnectProgress>, ConnectError> {
        let Some(destination) = self.left.front() else { return Err(self.last) };
        if now >= self.deadline {
            return Err(ConnectError::TimedOut);
        }
        let failed = |error| ConnectError::Failed(error);
        let family = match destination {
            ConnectAddress::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
            ConnectAddress::Tcp(_) => AddressFamily::INET6,
            ConnectAddress::Unix(_) => AddressFamily::UNIX,
        };
        let socket = socket::stream(family).map_err(failed)?;
        if let ConnectAddress::Tcp(_) = destination {
            // Requests and responses are sent in whole, and small ones must not wait.
            set_tcp_nodelay(&socket, true).map_err(failed)?;
        }
        let connected = match destination {
            ConnectAddress::Tcp(address) => connect(&socket, address),
            ConnectAddress::Unix(address) => connect(&socket, address),
        };
        // Each address has the same part of what is left.
        let part = (self.deadline.0 - now.0) / self.left.len() as u64;
        self.try_until = now.after(part.max(1));
        match connected {
            Ok(()) => Ok(self.connected(socket)),
            Err(Errno::INPROGRESS | Errno::INTR) => {
                self.socket = Some(socket);
                Ok(None)
            }
            Err(Errno::AGAIN) if family == AddressFamily::UNIX => {
                self.retry_at = Some(now.after(BACKLOG_WAIT_MS));
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Takes the result of the present address, if there is one.
    fn finish(&mut self, now: Tick) -> Result<Option<ConnectProgress>, ConnectError> {
        let Some(socket) = self.socket.take() else { return Ok(None) };
        if !mem::take(&mut self.is_ready) {
            self.socket = Some(socket);
            return if now >= self.try_until { Err(ConnectError::TimedOut) } else { Ok(None) };
        }
        match socket_error(&socket) {
            Ok(Ok(())) => Ok(self.connected(socket)),
            Ok(Err(error)) | Err(error) => Err(ConnectError::Failed(error)),
        }
    }

    fn connected(&mut self, socket: OwnedFd) -> Option<ConnectProgress> {
        self.left.pop_front().map(|destination| ConnectProgress::Connected(socket, destination))
    }

    /// Returns what to wait for. `None`: only for a time.
    pub(super) fn polled(&self) -> Option<PollEntry> {
        self.socket.as_ref().map(|socket| PollEntry::new(socket.as_fd(), POLLOUT))
    }

    /// Notes that the wait has found an event.
    pub(super) fn set_ready(&mut self) {
        self.is_ready = true;
    }

    /// Returns when the attempt goes on without an event.
    pub(super) fn wake_at(&self) -> Tick {
        self.retry_at.unwrap_or(self.try_until).min(self.deadline)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NoAddress => f.write_str("its name has no address"),
            ConnectError::Failed(error) => f.write_str(&reason(&(*error).into())),
            ConnectError::TimedOut => f.write_str("it does not answer in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll::poll;
    use std::{net::TcpListener, os::unix::net::UnixListener};

    /// Returns what becomes of an attempt. The clock stands still until the attempt waits for it.
    fn finish(addresses: &[ConnectAddress]) -> Result<ConnectAddress, ConnectError> {
        let (mut attempt, mut now) = (ConnectAttempt::new(addresses, Tick(1_000)), Tick(0));
        loop {
            match attempt.drive(now) {
                ConnectProgress::Connected(_, destination) => return Ok(destination),
                ConnectProgress::Failed(error) => return Err(error),
                ConnectProgress::Waits => {}
            }
            match attempt.polled() {
                // Loopback answers at once: a wait for the time is one for the backlog.
                Some(entry) if poll(&mut [entry], Some(10_000)) == Ok(1) => attempt.set_ready(),
                _ => now = attempt.wake_at(),
            }
        }
    }

    #[test]
    fn addresses_are_tried_in_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = ConnectAddress::Tcp(listener.local_addr().unwrap());
        let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        let closed = ConnectAddress::Tcp(closed);
        let refused = ConnectError::Failed(Errno::CONNREFUSED);
        #[rustfmt::skip]
        let cases: &[(&str, &[&ConnectAddress], Result<&ConnectAddress, ConnectError>)] = &[
            ("none",                 &[],                         Err(ConnectError::NoAddress)),
            ("open",                 &[&open],                    Ok(&open)),
            ("closed",               &[&closed],                  Err(refused)),
            ("closed, then open",    &[&closed, &closed, &open],  Ok(&open)),
            ("open, then closed",    &[&open, &closed],           Ok(&open)),
            ("all closed",           &[&closed, &closed],         Err(refused)),
        ];
        for (name, addresses, want) in cases {
            let addresses: Vec<_> = addresses.iter().map(|&address| address.clone()).collect();
            assert_eq!(finish(&addresses), want.cloned(), "{name}");
        }
    }

    #[test]
    fn full_backlog_of_a_unix_socket_is_waited_for_until_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = ConnectAddress::Unix(SocketAddrUnix::new(&path).unwrap());
        let addresses = [address.clone()];
        assert_eq!(finish(&addresses), Ok(address));
        assert_eq!(finish(&addresses), Err(ConnectError::TimedOut), "one client waits already");
        drop(listener);
        assert_eq!(finish(&addresses), Err(ConnectError::Failed(Errno::CONNREFUSED)));
    }
}
