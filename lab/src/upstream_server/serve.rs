//! The event loop of the upstream server.
//!
//! ```text
//! wait ─▶ each connection: recv into a shared buffer ─▶ heads ─▶ one send per response
//!                                                    └▶ messages, once the connection is a tunnel
//! ```

use std::io;
use std::net::TcpListener;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use super::{COUNTS, LabUpstreamResponses, STALL, TUNNEL, head, wire};
use crate::client::web_socket;

/// The server: its connections, and what they share.
pub(super) struct LabUpstreamLoop {
    epoll: OwnedFd,
    listener: TcpListener,
    /// By the number of their descriptors.
    connections: Vec<Option<LabUpstreamConnection>>,
    service: LabUpstreamService,
}

/// What all connections share.
struct LabUpstreamService {
    responses: LabUpstreamResponses,
    /// Requests that wait for ever, on connections that are open.
    stalled: usize,
    /// Tunnels that are open.
    tunnels: usize,
}

struct LabUpstreamConnection {
    stream: OwnedFd,
    /// The first part of a head, or of a message.
    partial: Vec<u8>,
    /// The rest of a response, which the socket has not accepted yet.
    unsent: UnsentBytes,
    phase: LabUpstreamPhase,
}

/// Bytes that are to be sent.
enum UnsentBytes {
    Fixed(&'static [u8]),
    Made(Vec<u8>),
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabUpstreamPhase {
    /// It waits for requests.
    Requests,
    /// It ends after the response.
    Closing,
    /// It waits with a request that gets no response.
    Stalled,
    /// It sends messages back.
    Tunnel,
}

impl LabUpstreamLoop {
    pub(super) fn new(listener: TcpListener, responses: LabUpstreamResponses) -> io::Result<LabUpstreamLoop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let service = LabUpstreamService { responses, stalled: 0, tunnels: 0 };
        Ok(LabUpstreamLoop { epoll, listener, connections: Vec::new(), service })
    }

    /// Serves for ever.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut input = vec![0; INPUT_LEN];
        let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    slot => self.drive(slot as usize, event.flags, &mut input),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let stream = match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(stream) => stream,
            Err(Errno::CONNABORTED | Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let slot = stream.as_raw_fd() as usize;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        epoll::add(
            &self.epoll,
            &stream,
            epoll::EventData::new_u64(slot as u64),
            interest | epoll::EventFlags::ET,
        )?;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(LabUpstreamConnection {
            stream,
            partial: Vec::new(),
            unsent: UnsentBytes::Fixed(&[]),
            phase: LabUpstreamPhase::Requests,
        });
        Ok(())
    }

    fn drive(&mut self, slot: usize, flags: epoll::EventFlags, input: &mut [u8]) {
        let Some(connection) = &mut self.connections[slot] else { return };
        if connection.drive(&mut self.service, flags, input).is_err() {
            match connection.phase {
                LabUpstreamPhase::Stalled => self.service.stalled -= 1,
                LabUpstreamPhase::Tunnel => self.service.tunnels -= 1,
                LabUpstreamPhase::Requests | LabUpstreamPhase::Closing => {}
            }
            self.connections[slot] = None;
        }
    }
}

impl LabUpstreamConnection {
    /// Sends what is left, and reads what has arrived. An error closes the connection.
    fn drive(
        &mut self,
        service: &mut LabUpstreamService,
        flags: epoll::EventFlags,
        input: &mut [u8],
    ) -> Result<(), Errno> {
        self.send()?;
        let ends =
            flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        if !flags.contains(epoll::EventFlags::IN) && !ends {
            return Ok(());
        }
        loop {
            let len = match recv(&self.stream, &mut *input, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            };
            self.receive(service, &input[..len])?;
            // A receive that does not fill the buffer empties the socket; further bytes cause a new edge.
            if len < input.len() && !ends {
                return Ok(());
            }
        }
    }

    /// Handles received bytes, with those that an incomplete head or message had before.
    fn receive(&mut self, service: &mut LabUpstreamService, received: &[u8]) -> Result<(), Errno> {
        if self.partial.is_empty() {
            let used = self.consume(service, received)?;
            self.partial.extend_from_slice(&received[used..]);
        } else {
            let mut wire = std::mem::take(&mut self.partial);
            wire.extend_from_slice(received);
            let used = self.consume(service, &wire)?;
            wire.drain(..used);
            self.partial = wire;
        }
        // A proxy sends one request at a time, and a head or message of the lab is short.
        if self.partial.len() > INPUT_LEN { Err(Errno::MSGSIZE) } else { Ok(()) }
    }

    /// Answers all complete heads and messages at the front of `wire`. Returns the length of these.
    fn consume(&mut self, service: &mut LabUpstreamService, wire: &[u8]) -> Result<usize, Errno> {
        let mut used = 0;
        while used < wire.len() {
            let len = match self.phase {
                LabUpstreamPhase::Requests => self.answer(service, &wire[used..])?,
                LabUpstreamPhase::Tunnel => self.echo(&wire[used..])?,
                // Nothing that follows counts.
                LabUpstreamPhase::Stalled | LabUpstreamPhase::Closing => return Ok(wire.len()),
            };
            let Some(len) = len else { break };
            used += len;
        }
        Ok(used)
    }

    /// Answers the request at the front of `wire`. Returns its length, or `None` if it is incomplete.
    fn answer(&mut self, service: &mut LabUpstreamService, wire: &[u8]) -> Result<Option<usize>, Errno> {
        let Some(request) = head::parse(wire) else { return Ok(None) };
        let response = if request.segment == STALL.as_bytes() {
            (self.phase, service.stalled) = (LabUpstreamPhase::Stalled, service.stalled + 1);
            return Ok(Some(request.len));
        } else if request.segment == TUNNEL.as_bytes() {
            (self.phase, service.tunnels) = (LabUpstreamPhase::Tunnel, service.tunnels + 1);
            UnsentBytes::Fixed(service.responses.switching)
        } else if request.segment == COUNTS.as_bytes() {
            UnsentBytes::Made(counts(service))
        } else {
            let response = service.responses.find(request.segment);
            UnsentBytes::Fixed(if request.closes { response.closing } else { response.kept })
        };
        if request.closes && self.phase == LabUpstreamPhase::Requests {
            self.phase = LabUpstreamPhase::Closing;
        }
        self.unsent = response;
        self.send()?;
        Ok(Some(request.len))
    }

    /// Sends the message at the front of `wire` back. Returns its length, or `None` if it is incomplete.
    fn echo(&mut self, wire: &[u8]) -> Result<Option<usize>, Errno> {
        let Some(message) = web_socket::parse(wire).map_err(|_| Errno::PROTO)? else { return Ok(None) };
        self.unsent = UnsentBytes::Made(web_socket::from_server(&message.text));
        self.send()?;
        Ok(Some(message.len))
    }

    /// Sends what is left. A closing connection ends with an error once all is sent.
    fn send(&mut self) -> Result<(), Errno> {
        loop {
            let bytes = match &self.unsent {
                UnsentBytes::Fixed(bytes) => bytes,
                UnsentBytes::Made(bytes) => bytes.as_slice(),
            };
            if bytes.is_empty() {
                return if self.phase == LabUpstreamPhase::Closing { Err(Errno::PIPE) } else { Ok(()) };
            }
            let len = match send(&self.stream, bytes, SendFlags::NOSIGNAL) {
                Ok(len) => len,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            };
            match &mut self.unsent {
                UnsentBytes::Fixed(bytes) => *bytes = &bytes[len..],
                UnsentBytes::Made(bytes) => drop(bytes.drain(..len)),
            }
        }
    }
}

/// Returns the response with the counts: those of requests that wait, and of tunnels.
fn counts(service: &LabUpstreamService) -> Vec<u8> {
    wire("200 OK", "", format!("{} {}", service.stalled, service.tunnels).as_bytes())
}

/// The token of the listener. Tokens of connections are their descriptors, which are smaller.
const LISTENER: u64 = u64::MAX;

/// Events per wait: all connections of an experiment but that with tunnels.
const EVENT_COUNT_MAX: usize = 256;

/// Bytes per receive. All connections share the buffer, so it stays in the CPU cache.
const INPUT_LEN: usize = 16 << 10;
