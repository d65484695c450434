//! Helpers: do for workers what their sandbox forbids. Each is a process of its own with its own rights, or a thread of an embedding
//! program, and runs [`serve`].
//!
//! ```text
//! endpoint ── sessions of the workers ─▶ poll ── request ─▶ handler ── ReplySender ─▶ reply to the session
//! ```
//!
//! A handler may keep a [`ReplySender`] and answer later, also from another thread. A worker that an attacker controls reaches only what the
//! handler allows.

use crate::{
    data::services::{HelperEndpoint, PACKET_LEN_MAX, ReplyPacket, RequestId, RequestPacket, SessionArrival},
    sys::{
        packet::{self, Packet},
        socket::peer_process,
    },
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Pid,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::HashMap,
    io,
    marker::PhantomData,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

/// The kinds of helpers that a configuration may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelperKind {
    /// `tarpon-net`: obtains certificates. It answers the supervisor, not the workers.
    Net,
    /// `tarpon-cgi`: runs CGI programs for the workers.
    Cgi,
    /// `tarpon-net`: connects to upstream servers for the workers. A process of its own: it has other rights.
    Upstreams,
    /// The stand-in of the tests.
    #[cfg(test)]
    StandIn,
}

/// Sessions of a helper, at most: each worker of two generations has one, and there are at most 1,024 workers.
const SESSION_COUNT_MAX: usize = 2 * 1024;

/// Requests of one session in one turn of the loop, so that no worker keeps the helper from the others.
const REQUESTS_PER_TURN: usize = 16;

/// Serves the requests of all workers, until every worker has exited.
///
/// # Errors
/// poll(2) fails: the process is out of memory.
pub(crate) fn serve<Q: DeserializeOwned, R: Serialize>(
    endpoint: &HelperEndpoint,
    mut handle: impl FnMut(Q, ReplySender<R>),
) -> io::Result<()> {
    let mut sessions = Sessions { count_max: SESSION_COUNT_MAX, sessions: Vec::new() };
    loop {
        let mut polled = vec![PollFd::new(endpoint, PollFlags::IN)];
        polled.extend(sessions.sessions.iter().map(|session| PollFd::new(&*session.socket, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready: Vec<_> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut at = 1;
        sessions.sessions.retain(|session| {
            at += 1;
            !is_ready[at - 1] || drive(&session.socket, &mut handle)
        });
        match endpoint.accept() {
            Ok(SessionArrival::Session(socket)) => {
                sessions.add(Session { process: peer_process(&socket), socket: Arc::new(socket) });
            }
            Ok(SessionArrival::End) => return Ok(()),
            Ok(SessionArrival::Nothing | SessionArrival::Malformed) => {}
            // The worker of the lost session sees EOF, and opens another.
            Ok(SessionArrival::Lost) | Err(_) => sessions.evict(),
        }
    }
}

/// The sessions of a helper, the oldest first.
struct Sessions {
    count_max: usize,
    sessions: Vec<Session>,
}

/// The session of a worker.
struct Session {
    socket: Arc<OwnedFd>,
    /// The process that has opened it: a worker, or all of them. `None`: the system does not tell.
    process: Option<Pid>,
}

impl Sessions {
    fn add(&mut self, session: Session) {
        // The new session counts, too: its process may have the most by it.
        self.sessions.push(session);
        if self.sessions.len() > self.count_max {
            self.evict();
        }
    }

    /// Ends the oldest session of the process that has the most. A worker opens one session at a time; so a worker process that opens
    /// many takes room from itself alone.
    fn evict(&mut self) {
        let mut counts: HashMap<Option<Pid>, usize> = HashMap::new();
        for session in &self.sessions {
            *counts.entry(session.process).or_default() += 1;
        }
        let most = counts.values().max();
        let place = self.sessions.iter().position(|session| counts.get(&session.process) == most);
        drop(place.map(|place| self.sessions.remove(place)));
    }
}

/// Handles requests of a session. Returns whether the session stays open.
fn drive<Q: DeserializeOwned, R: Serialize>(
    session: &Arc<OwnedFd>,
    handle: &mut impl FnMut(Q, ReplySender<R>),
) -> bool {
    let mut bytes = vec![0; PACKET_LEN_MAX];
    for _ in 0..REQUESTS_PER_TURN {
        match packet::receive(session, &mut bytes) {
            Ok(Packet { len: 0, .. }) => return false,
            Ok(Packet { len, .. }) => {
                let Ok(RequestPacket { id, request }) = serde_json::from_slice(&bytes[..len]) else {
                    // No worker of ours sends such requests.
                    return false;
                };
                handle(request, ReplySender { session: Some(Arc::clone(session)), id, reply: PhantomData });
            }
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
    true
}

/// Answers one request. Dropping it answers that the helper could not.
#[derive(Debug)]
pub(crate) struct ReplySender<R: Serialize> {
    session: Option<Arc<OwnedFd>>,
    id: RequestId,
    reply: PhantomData<fn(R)>,
}

impl<R: Serialize> ReplySender<R> {
    /// Sends the reply, with a descriptor if there is one. The reply to a worker that has exited is lost.
    pub(crate) fn send(mut self, result: Result<R, String>, descriptor: Option<OwnedFd>) {
        self.reply(result, descriptor);
    }

    fn reply(&mut self, result: Result<R, String>, descriptor: Option<OwnedFd>) {
        let Some(session) = self.session.take() else { return };
        let Ok(mut bytes) = serde_json::to_vec(&ReplyPacket { id: self.id, result }) else { return };
        if bytes.len() > PACKET_LEN_MAX {
            let result: Result<R, _> = Err("the reply is too long".to_owned());
            bytes = serde_json::to_vec(&ReplyPacket { id: self.id, result }).unwrap_or_default();
        }
        // The socket buffer has room for the replies to all pending requests. A worker that sends more than it may loses them.
        let _ = packet::send(&*session, &bytes, descriptor.as_ref().map(AsFd::as_fd));
    }
}

impl<R: Serialize> Drop for ReplySender<R> {
    fn drop(&mut self) {
        self.reply(Err("the helper could not answer".to_owned()), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::services::{
            PENDING_COUNT_MAX, ServiceEndpoint, ServiceError, ServiceReply, Services, endpoints,
        },
        sys::{attempts, io::timespec, socket},
    };
    use rustix::process::{Signal, WaitOptions, getpid, kill_process, waitpid};
    use std::{
        collections::BTreeMap,
        fs::File,
        io::{Read, Seek, Write},
        thread,
        time::Duration,
    };

    /// The stand-in for a helper: returns a file that contains the request, or an error for an empty one.
    fn stand_in(request: String, responder: ReplySender<usize>) {
        match &*request {
            "" => responder.send(Err("an empty request".to_owned()), None),
            "drop" => drop(responder),
            "long" => {
                let answer = move || responder.send(Ok(4), None);
                drop(thread::spawn(answer));
            }
            text => {
                let mut file = tempfile::tempfile().expect("a file");
                file.write_all(text.as_bytes()).and_then(|()| file.rewind()).expect("a file");
                responder.send(Ok(text.len()), Some(file.into()));
            }
        }
    }

    fn helper_thread() -> (ServiceEndpoint, thread::JoinHandle<io::Result<()>>) {
        let (workers, helper) = endpoints().unwrap();
        (workers, thread::spawn(move || serve(&helper, stand_in)))
    }

    fn receive(services: &mut Services<String, usize>) -> ServiceReply<usize> {
        loop {
            if let Some(reply) = services.receive() {
                return reply;
            }
            let session = services.session().expect("a session");
            poll(&mut [PollFd::from_borrowed_fd(session, PollFlags::IN)], None).unwrap();
        }
    }

    #[test]
    fn replies_match_their_requests_and_bring_descriptors() {
        let (endpoint, helper) = helper_thread();
        thread::scope(|scope| {
            for worker in 0..4 {
                let endpoint = endpoint.clone();
                scope.spawn(move || {
                    let mut services = Services::<String, usize>::new(endpoint);
                    let mut sent = BTreeMap::new();
                    for number in 0..PENDING_COUNT_MAX {
                        let text = format!("worker {worker}, request {}", "x".repeat(number));
                        let id = services.request(&text).unwrap();
                        sent.insert(format!("{id:?}"), text);
                    }
                    assert_eq!(services.request(&"more".to_owned()), Err(ServiceError::Busy));
                    while !sent.is_empty() {
                        let ServiceReply { request, result, descriptor } = receive(&mut services);
                        let want = sent.remove(&format!("{request:?}")).expect("one reply for each request");
                        assert_eq!(result, Ok(want.len()));
                        let mut content = String::new();
                        File::from(descriptor.expect("a file")).read_to_string(&mut content).unwrap();
                        assert_eq!(content, want);
                    }
                });
            }
        });
        drop(endpoint);
        helper.join().unwrap().unwrap();
    }

    #[test]
    fn every_request_gets_a_reply() {
        let (endpoint, _helper) = helper_thread();
        let mut services = Services::<String, usize>::new(endpoint);
        #[rustfmt::skip]
        let cases: [(&str, Result<usize, &str>); 3] = [
            ("",     Err("an empty request")),
            ("drop", Err("the helper could not answer")),
            ("long", Ok(4)),
        ];
        for (request, want) in cases {
            let id = services.request(&request.to_owned()).unwrap();
            let reply = receive(&mut services);
            assert_eq!((reply.request, reply.result), (id, want.map_err(str::to_owned)), "{request}");
        }
        assert_eq!(services.request(&"x".repeat(PACKET_LEN_MAX)), Err(ServiceError::TooLong));
    }

    #[test]
    fn malformed_packet_ends_neither_the_helper_nor_a_session() {
        let (endpoint, helper) = helper_thread();
        let mut earlier = Services::<String, usize>::new(endpoint.clone());
        earlier.request(&"one".to_owned()).unwrap();
        assert_eq!(receive(&mut earlier).result, Ok(3));
        for bytes in [&b""[..], b"x"] {
            packet::send(&endpoint, bytes, None).unwrap();
            let session = File::open("/dev/null").unwrap();
            packet::send(&endpoint, bytes, Some(session.as_fd())).unwrap();
            // The helper takes packets in order: the reply shows that it has taken these.
            let mut later = Services::<String, usize>::new(endpoint.clone());
            later.request(&"four".to_owned()).unwrap();
            assert_eq!(receive(&mut later).result, Ok(4));
        }
        let session = earlier.session().expect("a session");
        let mut polled = [PollFd::from_borrowed_fd(session, PollFlags::IN)];
        assert_eq!(poll(&mut polled, Some(&timespec(Duration::ZERO))), Ok(0), "the session stays open");
        drop((endpoint, earlier));
        helper.join().unwrap().unwrap();
    }

    #[test]
    fn process_that_opens_many_sessions_loses_its_own() {
        let session = |process: i32| {
            let (ours, theirs) = socket::pair().unwrap();
            (Session { socket: Arc::new(ours), process: Pid::from_raw(process) }, theirs)
        };
        let mut sessions = Sessions { count_max: 4, sessions: Vec::new() };
        let mut peers = Vec::new();
        for process in [1, 2, 3, 3, 3, 3, 4, 3] {
            let (session, peer) = session(process);
            sessions.add(session);
            peers.push(peer);
        }
        let left: Vec<_> = sessions.sessions.iter().map(|session| session.process).collect();
        assert_eq!(left, [1, 2, 4, 3].map(Pid::from_raw));
        // All have as many, so the oldest session ends.
        sessions.evict();
        let left: Vec<_> = sessions.sessions.iter().map(|session| session.process).collect();
        assert_eq!(left, [2, 4, 3].map(Pid::from_raw));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_tells_the_process_of_a_session() {
        let (session, _theirs) = socket::pair().unwrap();
        assert_eq!(peer_process(&session), Some(getpid()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn replacement_of_a_helper_process_serves_the_next_request() {
        let (endpoint, helper) = endpoints().unwrap();
        let start = || attempts::in_child(|| serve(&helper, stand_in).unwrap()).unwrap();
        let mut services = Services::<String, usize>::new(endpoint);
        let first = start();
        let id = services.request(&"one".to_owned()).unwrap();
        let reply = receive(&mut services);
        assert_eq!((reply.request, reply.result), (id, Ok(3)));
        kill_process(first, Signal::STOP).unwrap();
        let id = services.request(&"lost".to_owned()).unwrap();
        kill_process(first, Signal::KILL).unwrap();
        waitpid(Some(first), WaitOptions::empty()).unwrap();
        let reply = receive(&mut services);
        assert_eq!((reply.request, reply.result), (id, Err("the helper has exited".to_owned())));
        // Sent before there is a replacement: it waits in the endpoint.
        let id = services.request(&"two!".to_owned()).unwrap();
        let second = start();
        let reply = receive(&mut services);
        assert_eq!((reply.request, reply.result), (id, Ok(4)));
        kill_process(second, Signal::KILL).unwrap();
        waitpid(Some(second), WaitOptions::empty()).unwrap();
    }
}
