//! The null server on epoll, edge triggered.
//!
//! ```text
//! wait (up to 256 events) ─▶ each: one recv into a shared buffer, one send
//! ```
//!
//! One event gets the responses to what arrived: the requests of a batch must arrive together.

use std::io;
use std::net::TcpListener;

use super::NullResponses;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

/// Sends responses whenever bytes arrive on a connection of `listener`.
pub(super) fn serve(listener: &TcpListener, responses: NullResponses) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<NullConnection>> = Vec::new();
    let mut input = [0; INPUT_LEN];
    let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                let stream = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
                let slot = stream.as_raw_fd() as usize;
                let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                epoll::add(&epoll, &stream, epoll::EventData::new_u64(slot as u64), interest)?;
                if connections.len() <= slot {
                    connections.resize_with(slot + 1, || None);
                }
                connections[slot] = Some(NullConnection { stream, unsent: &[] });
                continue;
            }
            let slot = &mut connections[token as usize];
            let Some(connection) = slot else { continue };
            let flags = event.flags;
            if connection.handle_event(flags.contains(epoll::EventFlags::IN), &mut input, responses).is_err()
            {
                *slot = None;
            }
        }
    }
}

struct NullConnection {
    stream: OwnedFd,
    /// The rest of the responses, which the socket has not accepted yet.
    unsent: &'static [u8],
}

impl NullConnection {
    /// Sends the rest of the last response, then responds to received bytes. An error closes the connection.
    #[inline]
    fn handle_event(
        &mut self,
        readable: bool,
        input: &mut [u8],
        responses: NullResponses,
    ) -> Result<(), Errno> {
        if !self.unsent.is_empty() {
            self.send()?;
        }
        if !self.unsent.is_empty() || !readable {
            return Ok(());
        }
        match recv(&self.stream, input, RecvFlags::empty()) {
            Ok((0, _)) => Err(Errno::PIPE),
            Ok((len, _)) => {
                self.unsent = responses.to_requests(len);
                self.send()
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    #[inline]
    fn send(&mut self) -> Result<(), Errno> {
        match send(&self.stream, self.unsent, SendFlags::NOSIGNAL) {
            Ok(len) => self.unsent = &self.unsent[len..],
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }
}

/// The token of the listener. Tokens of connections are their descriptors, which are smaller.
const LISTENER: u64 = u64::MAX;

/// Events per wait. Below 16, waits cost measurable time; races usually have fewer connections than this.
const EVENT_COUNT_MAX: usize = 256;

/// Bytes per receive. All connections share the buffer, so it stays in the CPU cache.
const INPUT_LEN: usize = 16 << 10;
