//! Clients and backends in memory, around the pipes of one worker.
//!
//! ```text
//! test ──▶ client's connection ── pipe ── backend connection ──▶ EchoBackend
//! ```
//!
//! After every event it checks that the buffers held are bounded. When nothing moves any more, a test checks what the client has received.

use super::echo::EchoBackend;
use crate::{
    AcceptedClient, BackendRefusal, BackendServers, BackendSettings, BufRange, ConnResources, Connection,
    Counters, DriveState, DriveStep, HttpVersions, PeerAddress, Pipes, Pool, Records, ResponsePrefixes,
    SectionBuffer, Sites, Span, Tick, Transport,
    pipe::{MESSAGE_COUNT_MAX, content::CONTENT_PART_COUNT_MAX},
    sim::{Cuts, Through, TransportClient},
    span::MESSAGE_BUF_COUNT_MAX,
};
use rustls::{ClientConfig, ServerConfig};
use std::{net::IpAddr, sync::Arc};
use tarpon_site::Region;

/// A simulation of the connections of one worker.
pub struct BackendSim {
    sites: Sites,
    pool: Pool,
    prefixes: ResponsePrefixes,
    now: Tick,
    /// The counters of the worker.
    pub counters: Counters,
    /// The records for the log, which are off unless a test replaces them.
    pub records: Records,
    pipes: Pipes,
    sections: SectionBuffer,
    /// The connections by number. `None`: closed.
    parties: Vec<Option<SimParty>>,
    /// The bytes sent on closed connections, by number.
    received: Vec<Vec<u8>>,
    /// The number of connections made to the backend.
    pub connect_count: usize,
    /// Connecting to the backend fails.
    pub refuses: bool,
    /// Backends receive nothing.
    pub stalls: bool,
    /// How the bytes of clients travel.
    pub through: Through,
    /// The versions that clients may speak.
    pub versions: HttpVersions,
    /// What the backend sends on each connection before it closes it. `None`: it is an [`EchoBackend`].
    pub script: Option<Vec<u8>>,
    /// The server of upstream tests. `None`: the backend speaks frames.
    pub upstream: Option<SimUpstream>,
    /// TLS between the backend connections and the backend. `None`: their bytes travel as they are.
    pub backend_tls: Option<BackendTls>,
    /// How many requests have reached the backend whole.
    pub echoed_count: usize,
    /// How many handshakes with the backend have resumed a session, of connections that are closed.
    pub resumed_count: usize,
}

/// An upstream server in memory: it gets the number of the connection, from 0 on, and all bytes that have arrived on it since the last time
/// that it has sent some. It is asked each time that more arrive.
pub type SimUpstream = Box<dyn FnMut(usize, &[u8]) -> UpstreamReply>;

/// What an upstream server does.
#[derive(Clone, Debug, Default)]
pub struct UpstreamReply {
    /// The bytes that it sends.
    pub bytes: Vec<u8>,
    /// It closes its sending side then.
    pub ends: bool,
}

/// TLS to a backend in memory.
#[derive(Clone)]
pub struct BackendTls {
    /// The configuration of the backend connections.
    pub client: Arc<ClientConfig>,
    /// The name that they ask for.
    pub name: &'static str,
    /// The configuration of the backend. `None`: it does not speak TLS, and is silent unless it has a script.
    pub server: Option<Arc<ServerConfig>>,
    /// Whether the backend announces that it sends no more before it closes a connection.
    pub has_alert: bool,
    /// How many bytes of the backend arrive on each connection, which then ends without a further word.
    pub arriving_len: usize,
}

struct SimParty {
    transport: Transport,
    conn: Connection,
    /// The other end of the transport.
    peer: TransportClient,
    inbox: Option<BufRange>,
    inbox_changed: bool,
    /// Bytes that the other end has sent and the engine has not read.
    socket: Vec<u8>,
    has_ended: bool,
    /// The connection knows that its input has ended.
    is_end_passed: bool,
    is_write_shut_down: bool,
    /// The bytes sent to the other end.
    wire: Vec<u8>,
    echo: Option<EchoBackend>,
    /// The number of the connection to an upstream server, and the bytes that it has received and not answered.
    upstream_number: usize,
    unanswered: Vec<u8>,
    /// The bytes that the backend still has to send, in the place of `echo`.
    script: Option<Vec<u8>>,
    /// How many more bytes of the other end arrive before the connection is cut.
    arriving_len: usize,
}

/// The buffers that one connection holds: those of its outbox and inbox, two of its transport, and both directions of its pipe, and those for
/// content.
const BUFS_HELD_MAX: usize = 4 + MESSAGE_BUF_COUNT_MAX + 2 * (MESSAGE_COUNT_MAX + 1) + CONTENT_PART_COUNT_MAX;

/// The number of buffers: those of many connections.
const POOL_COUNT: u32 = 256;

impl BackendSim {
    /// Returns a worker with these sites.
    pub fn new(sites: Sites) -> BackendSim {
        BackendSim {
            sites,
            pool: Pool::new(POOL_COUNT),
            prefixes: ResponsePrefixes::new(crate::sim::UNIX_S),
            now: Tick(0),
            counters: Counters::default(),
            records: Records::off(),
            pipes: Pipes::default(),
            sections: SectionBuffer::default(),
            parties: Vec::new(),
            received: Vec::new(),
            connect_count: 0,
            refuses: false,
            stalls: false,
            through: Through::Plain,
            versions: HttpVersions::Http1,
            script: None,
            upstream: None,
            backend_tls: None,
            echoed_count: 0,
            resumed_count: 0,
        }
    }

    /// Returns a worker whose backends are upstream servers.
    pub fn with_upstream(
        sites: Sites,
        settings: Vec<BackendSettings>,
        servers: Box<dyn BackendServers>,
        upstream: SimUpstream,
    ) -> BackendSim {
        let pipes = Pipes::new(settings.into(), servers);
        BackendSim { pipes, upstream: Some(upstream), ..BackendSim::new(sites) }
    }

    /// Takes heads of at most so many bytes, before the first client.
    #[must_use]
    pub fn with_heads(self, len_max: usize) -> BackendSim {
        assert_eq!(self.pool.held(), 0, "before the first client");
        BackendSim { pool: Pool::for_heads(POOL_COUNT, len_max), ..self }
    }

    /// Accepts a client. Returns its number.
    pub fn connect(&mut self) -> usize {
        self.accept(AcceptedClient::default())
    }

    /// Accepts a client at this address. Returns its number.
    pub fn connect_from(&mut self, address: IpAddr) -> usize {
        self.accept(AcceptedClient { peer: Some(PeerAddress::Ip(address)), ..AcceptedClient::default() })
    }

    fn accept(&mut self, accepted: AcceptedClient) -> usize {
        let number = self.parties.len();
        let versions = self.versions;
        let accepted = AcceptedClient { number: number as u32, versions, ..accepted };
        let conn = Connection::new(&mut self.cx(), accepted);
        let mut party = SimParty::new(conn, None);
        party.peer = TransportClient::new(&self.through, &mut party.socket);
        party.transport = self.through.transport();
        self.add(party);
        number
    }

    /// Sends bytes as a client.
    pub fn client_sends(&mut self, client: usize, bytes: &[u8]) {
        let SimParty { peer, socket, .. } = self.party(client);
        peer.send(bytes, socket);
    }

    /// Closes a client's sending side.
    pub fn client_ends(&mut self, client: usize) {
        let SimParty { peer, socket, has_ended, .. } = self.party(client);
        peer.end(socket);
        *has_ended = true;
    }

    /// Removes a client without notice.
    pub fn client_vanishes(&mut self, client: usize) {
        self.close(client);
    }

    /// Returns what a client has received since the last call.
    pub fn take_received(&mut self, client: usize) -> Vec<u8> {
        let open = self.parties[client].as_mut();
        std::mem::take(open.map_or(&mut self.received[client], |party| &mut party.wire))
    }

    /// Returns whether a connection is closed.
    pub fn is_closed(&self, number: usize) -> bool {
        self.parties[number].is_none()
    }

    /// Returns the number of held buffers.
    pub fn bufs_held(&self) -> usize {
        self.pool.held()
    }

    /// Returns the number of open pipes.
    pub fn pipe_count(&self) -> usize {
        self.pipes.open_count()
    }

    /// Returns the number of open backend connections.
    pub fn backend_count(&self) -> usize {
        self.parties.iter().flatten().filter(|party| party.echo.is_some()).count()
    }

    /// Advances the clock and passes the deadlines that have ended.
    pub fn pass(&mut self, ms: u64, cuts: Cuts) {
        self.now = self.now.after(ms);
        for number in 0..self.parties.len() {
            let now = self.now;
            if self.parties[number].as_ref().is_some_and(|party| party.conn.deadline() <= now) {
                self.event(number, |transport, conn, cx| transport.expired(conn, cx, 0));
            }
        }
        self.run(cuts);
    }

    /// Tells all connections that the server stops.
    pub fn stop(&mut self) {
        for number in 0..self.parties.len() {
            if self.parties[number].is_some() {
                self.event(number, |_, conn, cx| conn.stop(cx));
            }
        }
    }

    /// Runs until nothing moves. With `cuts.send == 0` the clients receive nothing.
    pub fn run(&mut self, cuts: Cuts) {
        loop {
            let mut any = false;
            while let Some(unconnected) = self.pipes.next_unconnected(&mut self.pool) {
                any = true;
                if self.refuses {
                    let why = BackendRefusal::Unreachable;
                    self.pipes.connect_failed(&mut self.pool, unconnected, why, self.now);
                    continue;
                }
                let number = self.parties.len() as u32;
                let conn = Connection::to_backend(&mut self.cx(), number, unconnected);
                let mut party = SimParty::new(conn, Some(EchoBackend::default()));
                party.upstream_number = self.connect_count;
                party.script = self.script.clone();
                if let Some(tls) = &self.backend_tls {
                    party.use_tls(tls);
                }
                self.add(party);
                self.connect_count += 1;
            }
            for _ in 0..self.pipes.scheduled_count() {
                let Some(number) = self.pipes.next_scheduled() else { break };
                any = true;
                if self.parties.get(number as usize).is_some_and(Option::is_some) {
                    self.event(number as usize, |_, conn, cx| conn.woken(cx));
                }
            }
            for number in 0..self.parties.len() {
                any |= self.step(number, cuts);
                any |= self.run_echo(number);
            }
            if !any {
                return;
            }
        }
    }

    /// Takes one step of a connection. Returns whether it made progress.
    fn step(&mut self, number: usize, cuts: Cuts) -> bool {
        let Some(party) = &self.parties[number] else { return false };
        let send_max = match (&party.echo, cuts.send) {
            (Some(_), _) if self.stalls => 0,
            (Some(_), 0) => usize::MAX,
            (_, max) => max,
        };
        let state = DriveState {
            can_send: send_max > 0,
            is_loading: false,
            has_new_input: party.inbox_changed && (party.inbox.is_some() || party.transport.has_input()),
            is_write_shut_down: party.is_write_shut_down,
        };
        let step = party.conn.next_step(&party.transport, state);
        match step {
            DriveStep::Close => self.close(number),
            DriveStep::Send => self.send(number, send_max),
            DriveStep::Load => panic!("all pages are in memory"),
            DriveStep::InstallKeys => panic!("no kernel is there"),
            DriveStep::Verify => self.event(number, |_, conn, cx| {
                let mut job = conn.take_password_job().expect("the step is Verify");
                job.run();
                conn.verified(cx, job);
            }),
            DriveStep::Handshake => self.run_handshake_step(number),
            DriveStep::ShutDown => self.party(number).is_write_shut_down = true,
            DriveStep::Offer => {
                let inbox = party.inbox;
                let inbox = inbox.unwrap_or_else(|| self.empty_range());
                self.offer(number, inbox);
            }
            DriveStep::ReadContent if party.inbox.is_none() => return self.read_content(number, cuts.read),
            DriveStep::Read | DriveStep::ReadContent | DriveStep::Discard => {
                return self.read(number, cuts.read);
            }
            DriveStep::Pause => return false,
        }
        true
    }

    fn read_content(&mut self, number: usize, cut: usize) -> bool {
        let party = self.party(number);
        let len = party.socket.len().min(cut).min(party.arriving_len);
        if len == 0 {
            return self.read(number, cut);
        }
        let room = self.event(number, |_, conn, cx| conn.content_room(cx));
        // The connection pauses.
        let Some(room) = room else { return true };
        let BackendSim { parties, pool, .. } = self;
        let party = parties[number].as_mut().expect("an open connection");
        let len = len.min(room.capacity());
        party.arriving_len -= len;
        let mut received = party.socket.drain(..len);
        for part in pool.ranges_mut(room.parts()) {
            for (byte, received) in part.iter_mut().zip(&mut received) {
                *byte = received;
            }
        }
        drop(received);
        self.event(number, |_, conn, cx| conn.content_received(cx, room, len));
        true
    }

    fn run_handshake_step(&mut self, number: usize) {
        let mut step = self.party(number).transport.take_step().expect("the step is Handshake");
        step.run();
        let stepped = self.event(number, |transport, conn, cx| transport.stepped(conn, cx, *step));
        stepped.expect("a buffer for the records of the handshake");
        self.party(number).inbox_changed = true;
    }

    fn send(&mut self, number: usize, max: usize) {
        let BackendSim { parties, pool, .. } = self;
        let party = parties[number].as_mut().expect("an open connection");
        let record_len = party.transport.record_len(&party.conn, pool).expect("a buffer for a record");
        if let Some(len) = record_len {
            let plain = self.gather(number, len);
            let BackendSim { parties, pool, .. } = self;
            let party = parties[number].as_mut().expect("an open connection");
            let record = party.transport.seal(pool, &plain).expect("a buffer for a record");
            party.transport.queue(record);
        }
        let queued = self.party(number).transport.queued();
        let bytes = match queued {
            Some(record) => self.pool.bytes(record)[..max.min(record.len as usize)].to_vec(),
            None => self.gather(number, max),
        };
        let SimParty { peer, wire, socket, .. } = self.party(number);
        peer.receive(&bytes, wire, socket);
        self.event(number, |transport, conn, cx| transport.sent(conn, cx, bytes.len() as u64));
    }

    /// Returns at most the first `max` bytes of an outbox.
    fn gather(&self, number: usize, max: usize) -> Vec<u8> {
        let party = self.parties[number].as_ref().expect("an open connection");
        let mut gathered = Vec::new();
        for span in party.conn.outbox() {
            let bytes = match *span {
                Span::Prefix(prefix) => self.prefixes.bytes(prefix),
                Span::Site { image, at, len } => self.sites.image(image).bytes(Region { at, len }),
                Span::Buf(range) => self.pool.bytes(range),
                Span::File { .. } | Span::Archive { .. } => panic!("{span:?}: the site is in memory"),
            };
            gathered.extend_from_slice(&bytes[..bytes.len().min(max - gathered.len())]);
        }
        gathered
    }

    fn empty_range(&mut self) -> BufRange {
        BufRange { buf: self.pool.take().expect("a buffer"), at: 0, len: 0 }
    }

    fn read(&mut self, number: usize, cut: usize) -> bool {
        let BackendSim { parties, pool, .. } = self;
        let party = parties[number].as_mut().expect("an open connection");
        if party.socket.is_empty() || party.arriving_len == 0 {
            let is_cut = party.arriving_len == 0;
            let is_end = (is_cut || party.has_ended && !party.peer.is_waiting()) && !party.is_end_passed;
            if is_end {
                party.is_end_passed = true;
                if let Some(range) = party.inbox.take() {
                    pool.release(range.buf);
                }
                self.event(number, |transport, conn, cx| transport.ended(conn, cx));
            }
            return is_end;
        }
        let range = match party.inbox.take() {
            Some(range) => pool.copy(range, range.buf, 0),
            None => BufRange { buf: pool.take().expect("a buffer"), at: 0, len: 0 },
        };
        let room = pool.buf_len() - range.len as usize;
        assert!(room > 0, "a connection refuses what fills a buffer and is still incomplete");
        let len = party.socket.len().min(cut).min(room).min(party.arriving_len);
        party.arriving_len -= len;
        pool.buf_mut(range.buf)[range.len as usize..][..len].copy_from_slice(&party.socket[..len]);
        party.socket.drain(..len);
        let range = BufRange { len: range.len + len as u32, ..range };
        party.inbox = Some(range);
        self.offer(number, range);
        len > 0
    }

    fn offer(&mut self, number: usize, range: BufRange) {
        let received = self.event(number, |transport, conn, cx| transport.received(conn, cx, range));
        let used = received.expect("valid records, and a free buffer");
        let BackendSim { parties, pool, .. } = self;
        let party = parties[number].as_mut().expect("an open connection");
        party.inbox_changed = used > 0 || party.conn.need().input == crate::Input::Pause;
        party.inbox = Some(range.skip(used)).filter(|rest| rest.len > 0);
        if party.inbox.is_none() {
            pool.release(range.buf);
        }
    }

    /// Passes the bytes of a backend connection to the backend, and its response back.
    fn run_echo(&mut self, number: usize) -> bool {
        let has_alert = self.backend_tls.as_ref().is_none_or(|tls| tls.has_alert);
        let Some(party) = &mut self.parties[number] else { return false };
        let Some(echo) = &mut party.echo else { return false };
        if party.has_ended || party.peer.is_waiting() {
            return false;
        }
        let (output, is_closed, any) = match (party.script.take(), &mut self.upstream) {
            (Some(script), _) => (script, true, true),
            _ if self.backend_tls.as_ref().is_some_and(|tls| tls.server.is_none()) => return false,
            (None, Some(upstream)) => {
                let bytes = std::mem::take(&mut party.wire);
                if bytes.is_empty() {
                    return false;
                }
                party.unanswered.extend(bytes);
                let UpstreamReply { bytes, ends } = upstream(party.upstream_number, &party.unanswered);
                if !bytes.is_empty() || ends {
                    party.unanswered.clear();
                }
                (bytes, ends, true)
            }
            (None, None) => {
                let bytes = std::mem::take(&mut party.wire);
                let count = echo.request_count;
                let output = echo.received(&bytes);
                self.echoed_count += echo.request_count - count;
                (output, echo.is_closed(), !bytes.is_empty())
            }
        };
        party.peer.send(&output, &mut party.socket);
        if is_closed {
            party.has_ended = true;
            if has_alert {
                party.peer.end(&mut party.socket);
            }
        }
        any || is_closed
    }

    fn close(&mut self, number: usize) {
        let BackendSim { parties, pool, .. } = self;
        if let Some(party) = parties[number].as_mut()
            && let Some(range) = party.inbox.take()
        {
            pool.release(range.buf);
        }
        self.event(number, |transport, conn, cx| transport.closed(conn, cx));
        let party = self.parties[number].take().expect("an open connection");
        if let TransportClient::Tls(peer) = &party.peer
            && party.echo.is_some()
        {
            self.resumed_count += usize::from(peer.is_resumed());
        }
        self.received[number] = party.wire;
    }

    /// Passes an event to a connection, and checks the invariants.
    fn event<T>(
        &mut self,
        number: usize,
        event: impl FnOnce(&mut Transport, &mut Connection, &mut ConnResources<'_>) -> T,
    ) -> T {
        let mut party = self.parties[number].take().expect("an open connection");
        let result = event(&mut party.transport, &mut party.conn, &mut self.cx());
        self.parties[number] = Some(party);
        let open_count = self.parties.iter().flatten().count();
        assert!(self.pool.held() <= open_count * BUFS_HELD_MAX, "{} buffers held", self.pool.held());
        result
    }

    fn add(&mut self, party: SimParty) {
        self.parties.push(Some(party));
        self.received.push(Vec::new());
    }

    fn party(&mut self, number: usize) -> &mut SimParty {
        self.parties[number].as_mut().expect("an open connection")
    }

    fn cx(&mut self) -> ConnResources<'_> {
        ConnResources {
            sites: &mut self.sites,
            pool: &mut self.pool,
            prefixes: &self.prefixes,
            now: self.now,
            now_us: self.now.0 * 1_000,
            counters: &self.counters,
            records: &mut self.records,
            pipes: &mut self.pipes,
            sections: &mut self.sections,
            hot_paths: None,
        }
    }
}

impl SimParty {
    fn new(conn: Connection, echo: Option<EchoBackend>) -> SimParty {
        SimParty {
            transport: Transport::Plain,
            conn,
            peer: TransportClient::Plain,
            inbox: None,
            inbox_changed: false,
            socket: Vec::new(),
            has_ended: false,
            is_end_passed: false,
            is_write_shut_down: false,
            wire: Vec::new(),
            echo,
            upstream_number: 0,
            unanswered: Vec::new(),
            script: None,
            arriving_len: usize::MAX,
        }
    }

    /// Puts TLS between a backend connection and the backend.
    fn use_tls(&mut self, tls: &BackendTls) {
        let name = tls.name.try_into().expect("a name");
        self.transport = Transport::tls_client(&tls.client, name).expect("a usable configuration");
        self.peer = tls.server.as_ref().map_or(TransportClient::Plain, TransportClient::backend);
        self.arriving_len = tls.arriving_len;
    }
}
