//! The null server on epoll, edge triggered.
//!
//! ```text
//! wait (up to 256 events) ─▶ each: one recv into a shared buffer, one send
//! ```
//!
//! One readiness, one response: a client that pipelines would be answered too seldom.

use std::io;
use std::net::TcpListener;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

/// Answers `response` to anything that arrives on a connection of `listener`.
pub(super) fn serve(listener: &TcpListener, response: &[u8]) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut input = [0; INPUT_LEN];
    let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let place = event.data.u64();
            if place == LISTENER {
                let stream = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
                let place = stream.as_raw_fd() as usize;
                let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                epoll::add(&epoll, &stream, epoll::EventData::new_u64(place as u64), interest)?;
                if connections.len() <= place {
                    connections.resize_with(place + 1, || None);
                }
                connections[place] = Some(Connection { stream, owed: 0 });
                continue;
            }
            let slot = &mut connections[place as usize];
            let Some(connection) = slot else { continue };
            let flags = event.flags;
            if connection.ready(flags.contains(epoll::EventFlags::IN), &mut input, response).is_err() {
                *slot = None;
            }
        }
    }
}

struct Connection {
    stream: OwnedFd,
    /// Bytes of the response the socket has not taken yet.
    owed: usize,
}

impl Connection {
    /// Sends what is owed, then answers what has arrived. An error ends the connection.
    #[inline]
    fn ready(&mut self, readable: bool, input: &mut [u8], response: &[u8]) -> Result<(), Errno> {
        if self.owed > 0 {
            self.send(response)?;
        }
        if self.owed > 0 || !readable {
            return Ok(());
        }
        match recv(&self.stream, input, RecvFlags::empty()) {
            Ok((0, _)) => Err(Errno::PIPE),
            Ok(_) => {
                self.owed = response.len();
                self.send(response)
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    #[inline]
    fn send(&mut self, response: &[u8]) -> Result<(), Errno> {
        match send(&self.stream, &response[response.len() - self.owed..], SendFlags::NOSIGNAL) {
            Ok(len) => self.owed -= len,
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }
}

/// The listener's place; no descriptor is this large.
const LISTENER: u64 = u64::MAX;

/// Events taken at once. Below 16 the waits are felt; this is more than a race has connections as a rule.
const EVENT_COUNT_MAX: usize = 256;

/// Bytes taken at once, from any connection, into memory that stays in the cache.
const INPUT_LEN: usize = 16 << 10;
