//! The null server that sends files: as that on epoll, but the content leaves by sendfile(2) from a file in memory.
//!
//! ```text
//! wait ─▶ each: one recv, one send of the head, sendfile until the socket is full
//! ```
//!
//! For long contents it is the limit of servers that do not copy them.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpListener;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

/// Sends a head and the content whenever bytes arrive on a connection of `listener`.
pub(super) fn serve(listener: &TcpListener, head: &[u8], content: &[u8]) -> io::Result<()> {
    let mut file = File::from(memfd_create("null-content", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    let page = NullPage { head, file, len: content.len() as u64 };
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<FileConnection>> = Vec::new();
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
                connections[slot] = Some(FileConnection { stream, at: page.len });
                continue;
            }
            let slot = &mut connections[token as usize];
            let Some(connection) = slot else { continue };
            let flags = event.flags;
            if connection.handle_event(flags.contains(epoll::EventFlags::IN), &page).is_err() {
                *slot = None;
            }
        }
    }
}

/// What every request gets.
struct NullPage<'a> {
    head: &'a [u8],
    file: File,
    len: u64,
}

struct FileConnection {
    stream: OwnedFd,
    /// How much of the content the socket has accepted. All of it: no response is being sent.
    at: u64,
}

impl FileConnection {
    /// Sends the rest of the last response, then responds to received bytes. An error closes the connection.
    fn handle_event(&mut self, readable: bool, page: &NullPage<'_>) -> Result<(), Errno> {
        self.send(page)?;
        if self.at < page.len || !readable {
            return Ok(());
        }
        match recv(&self.stream, &mut [0; INPUT_LEN], RecvFlags::empty()) {
            Ok((0, _)) => Err(Errno::PIPE),
            // The socket is empty, so the head fits.
            Ok(_)
                if send(&self.stream, page.head, SendFlags::NOSIGNAL | SendFlags::MORE)?
                    == page.head.len() =>
            {
                self.at = 0;
                self.send(page)
            }
            Ok(_) => Err(Errno::PIPE),
            Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn send(&mut self, page: &NullPage<'_>) -> Result<(), Errno> {
        while self.at < page.len {
            let rest = (page.len - self.at) as usize;
            match sendfile(&self.stream, &page.file, Some(&mut self.at), rest) {
                Ok(0) => return Err(Errno::PIPE),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// The token of the listener. Tokens of connections are their descriptors, which are smaller.
const LISTENER: u64 = u64::MAX;

const EVENT_COUNT_MAX: usize = 256;

/// Bytes per receive: more than a request.
const INPUT_LEN: usize = 4 << 10;
