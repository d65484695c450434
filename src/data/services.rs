//! What a worker asks of a helper: to do what the worker's sandbox forbids, such as to connect to a configured address.
//!
//! ```text
//! worker ── session ─▶ endpoint, one for all workers ─▶ helper: a process, or a thread of an embedding program
//!        ── requests ────────────────────────────────▶
//!        ◀──────────────── replies, with a descriptor ──
//! ```
//!
//! Nothing blocks: a request that does not fit fails at once. Each worker may have [`PENDING_COUNT_MAX`] requests without a reply. If the
//! helper exits, its requests fail, and the next request opens a session with its replacement: the endpoint outlives both.

use crate::sys::{
    io,
    packet::{self, Packet},
    socket,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// The end of the workers, shared by all of them and inherited by worker processes.
#[derive(Clone, Debug)]
pub(crate) struct ServiceEndpoint(Arc<OwnedFd>);

/// The end of the helper. The supervisor keeps it too, for the replacement of a helper.
#[derive(Clone, Debug)]
pub(crate) struct HelperEndpoint(Arc<OwnedFd>);

/// Returns both ends of a new channel to a helper.
pub(crate) fn endpoints() -> Result<(ServiceEndpoint, HelperEndpoint), Errno> {
    let (workers, helper) = socket::pair()?;
    Ok((ServiceEndpoint(Arc::new(workers)), HelperEndpoint(Arc::new(helper))))
}

impl ServiceEndpoint {
    /// Passes the helper a descriptor with some bytes, without blocking. No reply follows.
    ///
    /// # Errors
    /// The helper has not received what was sent before (`AGAIN`), or this process is out of memory.
    pub(crate) fn pass(&self, bytes: &[u8], descriptor: &OwnedFd) -> Result<(), Errno> {
        packet::send(&*self.0, bytes, Some(descriptor.as_fd()))
    }
}

impl HelperEndpoint {
    /// Returns the next descriptor that a worker has [passed](ServiceEndpoint::pass), with its bytes, without blocking. `None`: there is none
    /// now, or what was passed is lost or malformed.
    pub(crate) fn receive_passed<const LEN: usize>(&self) -> Option<([u8; LEN], OwnedFd)> {
        let mut bytes = [0; LEN];
        match packet::receive(&*self.0, &mut bytes) {
            Ok(Packet { len, descriptor: Some(descriptor), .. }) if len == LEN => Some((bytes, descriptor)),
            _ => None,
        }
    }

    /// Returns what a worker has sent, without blocking.
    ///
    /// # Errors
    /// This process is out of memory.
    pub(crate) fn accept(&self) -> Result<SessionArrival, Errno> {
        let packet = match packet::receive(&*self.0, &mut [0; 1]) {
            Err(Errno::AGAIN) => return Ok(SessionArrival::Nothing),
            packet => packet?,
        };
        Ok(match packet {
            Packet { descriptor: Some(session), .. } => SessionArrival::Session(session),
            Packet { is_descriptor_lost: true, .. } => SessionArrival::Lost,
            // An empty packet has the same length as the end of all workers.
            Packet { len: 0, .. } if has_hung_up(&self.0) => SessionArrival::End,
            _ => SessionArrival::Malformed,
        })
    }
}

/// A packet that the endpoint of a helper has received.
#[derive(Debug)]
pub(crate) enum SessionArrival {
    Nothing,
    Session(OwnedFd),
    /// The session of a worker, for which this process has no descriptor left.
    Lost,
    /// A packet that no worker of ours sends.
    Malformed,
    /// Every worker has exited.
    End,
}

/// Returns whether the peer of a socket has closed its end.
fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let is_over = poll(&mut polled, Some(&io::timespec(Duration::ZERO)));
    is_over.is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

impl HelperEndpoint {
    /// Returns whether every worker has exited.
    pub(crate) fn has_ended(&self) -> bool {
        has_hung_up(&self.0)
    }
}

impl AsFd for ServiceEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for HelperEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The requests of one worker to one helper. `Q` is the request, `R` the reply.
#[derive(Debug)]
pub(crate) struct Services<Q, R> {
    endpoint: ServiceEndpoint,
    session: Option<OwnedFd>,
    /// Requests without a reply.
    pending: Vec<RequestId>,
    /// Requests that a helper has not answered before it exited.
    lost: VecDeque<RequestId>,
    last: u64,
    types: PhantomData<fn(Q) -> R>,
}

/// The identity of a request of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestId(u64);

/// The reply to a request.
#[derive(Debug)]
pub(crate) struct ServiceReply<R> {
    pub(crate) request: RequestId,
    /// The result, or why the helper cannot give one.
    pub(crate) result: Result<R, String>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceError {
    /// Too many requests wait, of this worker or of all.
    Busy,
    /// The request is longer than [`PACKET_LEN_MAX`].
    TooLong,
    /// The process is out of descriptors or memory.
    Shortage,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServiceError::Busy => "too many requests wait",
            ServiceError::TooLong => "the request is too long",
            ServiceError::Shortage => "out of descriptors or memory",
        })
    }
}

impl std::error::Error for ServiceError {}

/// A request on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestPacket<Q> {
    pub(crate) id: RequestId,
    pub(crate) request: Q,
}

/// A reply on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplyPacket<R> {
    pub(crate) id: RequestId,
    pub(crate) result: Result<R, String>,
}

/// Requests of one worker without a reply: replies to all of them fit into the socket buffer, so that a helper never waits for a worker.
pub(crate) const PENDING_COUNT_MAX: usize = 64;

/// Bytes of a request or a reply: a few addresses, or the environment of a program.
pub(crate) const PACKET_LEN_MAX: usize = 16 * 1024;

const GONE: &str = "the helper has exited";

impl<Q: Serialize, R: DeserializeOwned> Services<Q, R> {
    /// Returns a worker's side, without a session so far.
    pub(crate) fn new(endpoint: ServiceEndpoint) -> Services<Q, R> {
        Services {
            endpoint,
            session: None,
            pending: Vec::new(),
            lost: VecDeque::new(),
            last: 0,
            types: PhantomData,
        }
    }

    /// Returns the descriptor that is readable when a reply may be there.
    pub(crate) fn session(&self) -> Option<BorrowedFd<'_>> {
        self.session.as_ref().map(AsFd::as_fd)
    }

    /// Sends a request without blocking.
    ///
    /// # Errors
    /// The request was not sent, and gets no reply.
    pub(crate) fn request(&mut self, request: &Q) -> Result<RequestId, ServiceError> {
        if self.pending.len() + self.lost.len() >= PENDING_COUNT_MAX {
            return Err(ServiceError::Busy);
        }
        let id = RequestId(self.last + 1);
        let packet = RequestPacket { id, request };
        let bytes = serde_json::to_vec(&packet).map_err(|_| ServiceError::TooLong)?;
        if bytes.len() > PACKET_LEN_MAX {
            return Err(ServiceError::TooLong);
        }
        // Another attempt: the helper of the first session may have exited just now.
        for _ in 0..2 {
            let session = match self.session.take() {
                Some(session) => session,
                None => self.open_session()?,
            };
            match packet::send(&session, &bytes, None) {
                Ok(()) => {
                    self.session = Some(session);
                    self.last = id.0;
                    self.pending.push(id);
                    return Ok(id);
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.session = Some(session);
                    return Err(ServiceError::Busy);
                }
                Err(_) => self.lose_session(),
            }
        }
        Err(ServiceError::Busy)
    }

    fn open_session(&self) -> Result<OwnedFd, ServiceError> {
        let (ours, theirs) = socket::pair().map_err(|_| ServiceError::Shortage)?;
        packet::send(&*self.endpoint.0, &[0], Some(theirs.as_fd())).map_err(|_| ServiceError::Busy)?;
        Ok(ours)
    }

    /// Returns the next reply without blocking. `None`: there is none now.
    pub(crate) fn receive(&mut self) -> Option<ServiceReply<R>> {
        loop {
            if let Some(request) = self.lost.pop_front() {
                return Some(ServiceReply { request, result: Err(GONE.to_owned()), descriptor: None });
            }
            let session = self.session.as_ref()?;
            let mut bytes = vec![0; PACKET_LEN_MAX];
            let (len, descriptor) = match packet::receive(session, &mut bytes) {
                Ok(Packet { len, descriptor, .. }) => (len, descriptor),
                Err(Errno::AGAIN) => return None,
                Err(_) => (0, None),
            };
            let packet = serde_json::from_slice::<ReplyPacket<R>>(&bytes[..len]);
            match packet.ok().and_then(|packet| Some((self.place(packet.id)?, packet))) {
                Some((place, ReplyPacket { id, result })) => {
                    self.pending.swap_remove(place);
                    return Some(ServiceReply { request: id, result, descriptor });
                }
                // EOF, or a helper that violates the protocol.
                None => {
                    self.session = None;
                    self.lose_session();
                    if self.lost.is_empty() {
                        return None;
                    }
                }
            }
        }
    }

    fn place(&self, id: RequestId) -> Option<usize> {
        self.pending.iter().position(|&pending| pending == id)
    }

    /// Notes that the helper of the session answers no more.
    fn lose_session(&mut self) {
        self.lost.extend(self.pending.drain(..));
    }
}
