//! The listeners of a master that accepts for its workers, and the refusal of clients.

use crate::{
    data::engine::{AcceptedSocket, is_fatal},
    sys::{
        poll::PollEntry,
        socket::{self, NO_SIGNAL},
    },
};
use libc::POLLIN;
use rustix::{
    io::{Errno, ioctl_fionbio},
    net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};
use tarpon_conn::Counters;
use tarpon_http::status::Status;

/// The listeners.
#[derive(Debug)]
pub(super) struct PoolListeners {
    sockets: Vec<OwnedFd>,
    /// The socket that [`accept`](PoolListeners::accept) tries first. It rotates, so that no listener starves another.
    first: usize,
}

/// The result of an attempt to accept a client.
#[derive(Debug)]
pub(super) enum Accepted {
    Client(AcceptedSocket),
    /// No client waits.
    Empty,
    /// The process is out of descriptors or memory.
    Short(io::Error),
    /// A listener is unusable.
    Failed(io::Error),
}

/// The whole refusal. RFC 9110, section 15.6.4.
pub(super) const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The refusal of a client that begins a handshake: the fatal alert internal_error, which is not encrypted yet. No alert says that the server
/// is busy. RFC 8446, sections 5.1 and 6.
pub(super) const TLS_REFUSAL: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

impl PoolListeners {
    pub(super) fn new(sockets: Vec<OwnedFd>) -> io::Result<PoolListeners> {
        // Other processes share the sockets and may have made them blocking.
        sockets.iter().try_for_each(|socket| ioctl_fionbio(socket, true))?;
        Ok(PoolListeners { sockets, first: 0 })
    }

    pub(super) fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// Hands the sockets over to a worker that accepts for itself, or to nothing, which closes them.
    pub(super) fn take(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.sockets)
    }

    pub(super) fn polled(&self) -> impl Iterator<Item = PollEntry> {
        self.sockets.iter().map(|socket| PollEntry::new(socket.as_fd(), POLLIN))
    }

    pub(super) fn accept(&mut self) -> Accepted {
        let count = self.sockets.len();
        for number in (0..count).map(|number| (self.first + number) % count) {
            loop {
                match socket::accept(&self.sockets[number]) {
                    Ok(fd) => {
                        self.first = number + 1;
                        return Accepted::Client(AcceptedSocket { fd, listener: number });
                    }
                    Err(Errno::AGAIN) => break,
                    Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                        return Accepted::Short(error.into());
                    }
                    Err(error) if is_fatal(error) => return Accepted::Failed(error.into()),
                    // The client has gone, or accept(2) reports a network error of this one connection.
                    Err(_) => {}
                }
            }
        }
        Accepted::Empty
    }
}

/// Answers a client with 503, or with an alert if its listener has TLS, and counts it before the client sees EOF.
pub(super) fn refuse(connection: &OwnedFd, has_tls: bool, counters: &Counters) {
    let refusal = if has_tls { TLS_REFUSAL } else { REFUSAL };
    // A new socket always has room for the refusal. A client that has gone makes the send fail, which does not matter.
    let sent_len = send(connection, refusal, NO_SIGNAL | SendFlags::DONTWAIT).unwrap_or(0) as u64;
    counters.refused((!has_tls).then_some(Status::ServiceUnavailable), sent_len);
    let _ = shutdown(connection, Shutdown::Write);
}

/// Closes the connection of a refused client.
#[inline(never)]
pub(super) fn close_refused(connection: OwnedFd) {
    let mut dropped = [0; 4096];
    // Unread bytes would turn the close into a reset.
    let _ = recv(&connection, &mut dropped, RecvFlags::DONTWAIT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn accept_alternates_between_listeners() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let mut listeners = PoolListeners::new(listeners.map(Into::into).into()).unwrap();
        let _clients = [0, 0, 0, 1, 0].map(|number: usize| TcpStream::connect(addresses[number]).unwrap());
        let served = [(); 5].map(|()| match listeners.accept() {
            Accepted::Client(AcceptedSocket { fd, listener }) => {
                let at = TcpStream::from(fd).local_addr().unwrap();
                assert_eq!(addresses[listener], at);
                listener
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(served, [0, 1, 0, 0, 0]);
        assert!(matches!(listeners.accept(), Accepted::Empty));
        assert_eq!((listeners.take().len(), listeners.polled().count()), (2, 0));
        assert!(matches!(listeners.accept(), Accepted::Empty));
    }

    #[test]
    fn refused_client_is_counted_and_receives_the_whole_refusal_and_eof() {
        for (has_tls, refusal) in [(false, REFUSAL), (true, TLS_REFUSAL)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let connection = OwnedFd::from(listener.accept().unwrap().0);
            let counters = Counters::default();
            refuse(&connection, has_tls, &counters);
            assert_eq!(counters.responses(Status::ServiceUnavailable, None), u64::from(!has_tls));
            assert_eq!(counters.tls_failed.get(), u64::from(has_tls));
            assert_eq!((counters.accepted.get(), counters.closed.get()), (1, 1));
            assert_eq!(counters.sent_len.get(), refusal.len() as u64);
            // The request has arrived: EOF, and no reset, follows the refusal.
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, refusal);
            close_refused(connection);
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        }
    }
}
