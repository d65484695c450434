//! The connection to a worker: its frames, and the state of the request that it sends.
//!
//! ```text
//! Idle ─ head ─┬ length known, or none ──▶ Waiting ─ a place is free ─▶ Running ─ response passed ─▶ Idle
//!              └ unknown ─▶ Collecting ─ end ─▶ ┘                          └ failed ─▶ Aborted ─ the worker closes
//! ```
//!
//! The worker may be in the hands of an attacker: each frame is checked, and each buffer has a bound.

use super::{
    exchange::{ProgramExchange, WAITING_LEN_MAX, add_frame},
    request::{CgiRefusal, CgiRequest},
};
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use std::{
    mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};
use tarpon_conn::{FRAME_PREFIX_LEN, FrameKind, FramePrefix, REQUEST_FRAME_LEN_MAX};
use tarpon_http::Status;

/// Bytes of content that are collected if its length is unknown: programs need CONTENT_LENGTH (RFC 3875, section 4.1.2), and a form has less.
/// A longer content gets 411.
const COLLECTED_LEN_MAX: usize = 64 * 1024;

/// Bytes that are received at a time.
const RECEIVE_LEN: usize = 16 * 1024;

/// Bytes of input that wait, at most: the longest head with its prefix, and what is received at a time.
const INPUT_LEN_MAX: usize = FRAME_PREFIX_LEN + REQUEST_FRAME_LEN_MAX + RECEIVE_LEN;

/// A connection to a worker.
#[derive(Debug)]
pub(super) struct CgiConnection {
    socket: OwnedFd,
    /// The number of the mount.
    pub(super) mount: usize,
    input: Vec<u8>,
    /// The rest of the data frame that is being received.
    data_left: u32,
    /// The end of the request has arrived.
    is_request_complete: bool,
    output: Vec<u8>,
    pub(super) state: RequestState,
    /// The last use, to evict the connection that was idle for the longest time.
    pub(super) used_at: Instant,
}

/// The state of a request.
#[derive(Debug)]
pub(super) enum RequestState {
    /// Waits for a head.
    Idle,
    /// Collects content of unknown length.
    Collecting {
        request: Box<CgiRequest>,
        content: Vec<u8>,
    },
    /// Waits for a free place. `content`: what has arrived.
    Waiting {
        request: Box<CgiRequest>,
        content: Vec<u8>,
        since: Instant,
    },
    Running(Box<ProgramExchange>),
    /// The response was aborted: the worker closes.
    Aborted,
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionEvent {
    /// Nothing else to do.
    Pending,
    /// A request waits for its program.
    Waiting,
    /// A request is refused.
    Refused(CgiRefusal),
    /// The worker has closed, or is none of ours.
    Closed,
}

impl CgiConnection {
    pub(super) fn new(socket: OwnedFd, mount: usize, now: Instant) -> CgiConnection {
        CgiConnection {
            socket,
            mount,
            input: Vec::new(),
            data_left: 0,
            is_request_complete: false,
            output: Vec::new(),
            state: RequestState::Idle,
            used_at: now,
        }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns whether the connection reads.
    pub(super) fn wants_input(&self) -> bool {
        let has_room = match &self.state {
            RequestState::Waiting { content, .. } => content.len() < WAITING_LEN_MAX,
            RequestState::Running(exchange) => exchange.room() > 0,
            RequestState::Idle | RequestState::Collecting { .. } | RequestState::Aborted => true,
        };
        has_room && self.input.len() < INPUT_LEN_MAX
    }

    /// Returns whether a request is in progress.
    pub(super) fn has_request(&self) -> bool {
        !matches!(self.state, RequestState::Idle | RequestState::Aborted)
    }

    /// Returns whether output waits.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the frames for the worker, which have a bound: see [`ProgramExchange::readable_output`].
    pub(super) fn output(&self) -> &Vec<u8> {
        &self.output
    }

    /// Returns the exchange with the frames for the worker.
    pub(super) fn exchange(&mut self) -> Option<(&mut ProgramExchange, &mut Vec<u8>)> {
        match &mut self.state {
            RequestState::Running(exchange) => Some((exchange, &mut self.output)),
            _ => None,
        }
    }

    /// Receives what the worker has sent.
    pub(super) fn receive(&mut self, now: Instant) -> ConnectionEvent {
        let mut bytes = [0; RECEIVE_LEN];
        // The other end may have made the socket blocking.
        match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((len @ 1.., _)) => {
                self.used_at = now;
                if !matches!(self.state, RequestState::Aborted) {
                    self.input.extend_from_slice(&bytes[..len]);
                }
                self.advance(now)
            }
            Err(Errno::AGAIN | Errno::INTR) => ConnectionEvent::Pending,
            _ => ConnectionEvent::Closed,
        }
    }

    /// Handles what was received, as far as there is room.
    pub(super) fn advance(&mut self, now: Instant) -> ConnectionEvent {
        let mut used = 0;
        let event = loop {
            match self.handle_frame(used, now) {
                Ok(0) => break ConnectionEvent::Pending,
                Ok(len) => used += len,
                Err((len, event)) => {
                    used += len;
                    break event;
                }
            }
        };
        self.input.drain(..used);
        event
    }

    /// Handles the front of the input after `used` bytes. Returns how many bytes it has consumed; 0: more bytes or room are needed. `Err`:
    /// an event ends the input for now.
    fn handle_frame(&mut self, used: usize, now: Instant) -> Result<usize, (usize, ConnectionEvent)> {
        let input = &self.input[used..];
        if self.data_left > 0 {
            let len = input.len().min(self.data_left as usize);
            let taken = self.state.add_content(&input[..len]).map_err(|event| (0, event))?;
            self.data_left -= taken as u32;
            return Ok(taken);
        }
        const MALFORMED: (usize, ConnectionEvent) = (0, ConnectionEvent::Refused(CgiRefusal::Malformed));
        let Some(FramePrefix { kind, len }) = FramePrefix::decode(input).map_err(|_| MALFORMED)? else {
            return Ok(0);
        };
        let whole_len = FRAME_PREFIX_LEN + len as usize;
        match (kind, &self.state) {
            (FrameKind::Data, _)
                if !self.is_request_complete && !matches!(self.state, RequestState::Idle) =>
            {
                self.data_left = len;
                Ok(FRAME_PREFIX_LEN)
            }
            _ if input.len() < whole_len => Ok(0),
            (FrameKind::Head, RequestState::Idle) => {
                let request = CgiRequest::read(&input[FRAME_PREFIX_LEN..whole_len]);
                let request = Box::new(request.map_err(|why| (0, ConnectionEvent::Refused(why)))?);
                self.is_request_complete = false;
                let content = Vec::new();
                if request.content_length.is_none() {
                    // No content, if the end follows.
                    self.state = RequestState::Collecting { request, content };
                    return Ok(whole_len);
                }
                self.state = RequestState::Waiting { request, content, since: now };
                Err((whole_len, ConnectionEvent::Waiting))
            }
            (FrameKind::Trailers, RequestState::Idle | RequestState::Aborted) => Err(MALFORMED),
            // A program has no place for them.
            (FrameKind::Trailers, _) if !self.is_request_complete => Ok(whole_len),
            (FrameKind::End, _) if !self.is_request_complete => {
                self.is_request_complete = true;
                match mem::replace(&mut self.state, RequestState::Idle) {
                    RequestState::Idle => return Err(MALFORMED),
                    RequestState::Collecting { request, content } => {
                        self.state = RequestState::Waiting { request, content, since: now };
                        return Err((whole_len, ConnectionEvent::Waiting));
                    }
                    RequestState::Running(mut exchange) => {
                        exchange.is_content_complete = true;
                        self.state = RequestState::Running(exchange);
                    }
                    state => self.state = state,
                }
                Ok(whole_len)
            }
            _ => Err(MALFORMED),
        }
    }

    /// Returns whether all of the request has arrived.
    pub(super) fn is_request_complete(&self) -> bool {
        self.is_request_complete
    }

    /// Sends what waits. Returns whether the worker is still there.
    pub(super) fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            match send(&self.socket, &self.output, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Ends the response with an end frame. Returns the exchange, whose program may still run.
    pub(super) fn complete(&mut self) -> Option<Box<ProgramExchange>> {
        add_frame(&mut self.output, FrameKind::End, b"");
        self.finish()
    }

    /// Ends the exchange, as all of its response is in the output.
    pub(super) fn finish(&mut self) -> Option<Box<ProgramExchange>> {
        match mem::replace(&mut self.state, RequestState::Idle) {
            RequestState::Running(exchange) => {
                if !self.is_request_complete {
                    // The worker closes: it does not send the rest of the content.
                    self.state = RequestState::Aborted;
                    self.input = Vec::new();
                }
                self.is_request_complete = false;
                Some(exchange)
            }
            _ => None,
        }
    }

    /// Aborts the response. Returns the exchange, if a program runs.
    pub(super) fn abort(&mut self, status: Status) -> Option<Box<ProgramExchange>> {
        add_frame(&mut self.output, FrameKind::Abort, &status.code().to_le_bytes());
        self.input = Vec::new();
        match mem::replace(&mut self.state, RequestState::Aborted) {
            RequestState::Running(exchange) => Some(exchange),
            _ => None,
        }
    }
}

impl RequestState {
    /// Adds content. Returns how much there was room for.
    fn add_content(&mut self, bytes: &[u8]) -> Result<usize, ConnectionEvent> {
        match self {
            RequestState::Collecting { content, .. } => {
                if content.len() + bytes.len() > COLLECTED_LEN_MAX {
                    return Err(ConnectionEvent::Refused(CgiRefusal::LengthRequired));
                }
                content.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            RequestState::Waiting { content, .. } => {
                let len = bytes.len().min(WAITING_LEN_MAX.saturating_sub(content.len()));
                content.extend_from_slice(&bytes[..len]);
                Ok(len)
            }
            RequestState::Running(exchange) => {
                let len = bytes.len().min(exchange.room());
                exchange.add_content(&bytes[..len]);
                Ok(len)
            }
            // The worker sends on until it notices.
            RequestState::Idle | RequestState::Aborted => Ok(bytes.len()),
        }
    }
}
