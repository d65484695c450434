//! Pipes: each joins an exchange of a client with a backend connection.
//!
//! ```text
//! client's connection ── Head, Data …, Trailers, End ─────────────▶ backend connection
//!                     ◀─ Interim …, Head, Data …, Trailers, End ──
//! ```
//!
//! The two connections never see each other: they add messages to a pipe and take messages from it. A message does not depend on a
//! protocol. Each direction is bounded; a full one makes the connection that adds to it stop reading from its socket. If a connection adds
//! or takes, the pipe schedules the other one, and the engine drives that one in the same batch.
//!
//! Content is copied into buffers of the pipe, or received into new ones. Small pieces are copied together, so a backend that sends byte by
//! byte cannot take all buffers; and no buffer that a socket is read into is ever shared.
//!
//! | file | what |
//! |---|---|
//! | `content` | content that is received without a copy |
//! | `fields` | heads and trailers without a protocol |
//! | `idle` | backend connections that wait for an exchange |

pub(crate) mod content;
pub(crate) mod fields;
mod idle;

use crate::{
    Tick,
    backend::{
        BackendId, BackendProtocol, BackendRoute, BackendServers, BackendSettings, ServerEvent, ServerId,
        ServerReport, servers::NoServers,
    },
    functions::{CollectBudget, Payload},
    pool::{BUF_LEN, BufRange, Pool},
    websocket_keys::{WebSocketKey, WebSocketKeys},
};
use idle::{IDLE_COUNT_MAX, IdleBackends};
use std::{collections::VecDeque, mem, sync::Arc};
use tarpon_http::status::Status;

/// The name of a pipe of one worker. It stays valid until both connections have left the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeId(u32);

/// One of the two connections of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// A message of a pipe. Its bytes lie in a buffer that it holds, with [`MESSAGE_ROOM`] bytes of room before and after them for the framing
/// of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The head of a request or of a final response.
    Head(BufRange),
    /// The head of an interim response: RFC 9110, section 15.2.
    Interim(BufRange),
    /// The head of a request to answer instead, from a backend. The end follows.
    Redirect(BufRange),
    /// A part of the content.
    Data(BufRange),
    /// The trailers.
    Trailers(BufRange),
    /// The end. No message follows.
    End(PipeEnd),
}

/// The end of one direction of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeEnd {
    /// The message is complete.
    Complete,
    /// The rest is missing. If the client's response has not begun, it has this status.
    Aborted(Status),
}

/// The room in bytes before and after the bytes of a message: the size line and the end of a chunk (RFC 9112, section 7.1), the header of
/// an HTTP/2 frame (9 bytes) or of a FastCGI record (8 bytes).
pub(crate) const MESSAGE_ROOM: usize = 16;

/// The maximum length of a message in bytes, unless it is the head of a request: [`request_len_max`].
pub(crate) const MESSAGE_LEN_MAX: usize = BUF_LEN - 2 * MESSAGE_ROOM;

/// The maximum length in bytes of a message that is the head of a request, in buffers of a pool.
pub(crate) fn request_len_max(pool: &Pool) -> usize {
    pool.buf_len() - 2 * MESSAGE_ROOM
}

/// The maximum number of messages in one direction, besides its end: a head and 84 KiB. Fewer if the pool runs low, so that clients that do
/// not take their responses leave buffers for others.
pub(crate) const MESSAGE_COUNT_MAX: usize = 6;

/// The pipes of one worker.
#[derive(Debug)]
pub struct Pipes {
    /// By the number of the backend. Without an entry: it speaks frames.
    settings: Arc<[BackendSettings]>,
    servers: Box<dyn BackendServers>,
    /// The memory for contents that a backend gets as a whole.
    budget: CollectBudget,
    websocket_keys: WebSocketKeys,
    pipes: Vec<Option<Pipe>>,
    free: Vec<u32>,
    /// The number of pipes opened so far.
    opened_count: u64,
    idle: IdleBackends,
    /// Pipes that need a new backend connection.
    unconnected: VecDeque<PipeId>,
    /// Numbers of the connections whose other side has added or taken a message.
    scheduled: VecDeque<u32>,
}

#[derive(Debug)]
struct Pipe {
    route: BackendRoute,
    /// What distinguishes the pipe from others with the same name.
    ticket: u64,
    /// The hash by which servers are chosen.
    key: u64,
    /// The server that gets the exchange. `None`: no server can take it now.
    server_id: Option<ServerId>,
    /// The servers that could not be reached.
    tried: Vec<ServerId>,
    /// How often the exchange has been repeated.
    retry_count: u8,
    /// What the connector of the backend gets.
    payload: Option<Payload>,
    /// The numbers of the connections. `None`: it has left, or the backend connection has not joined yet.
    client: Option<u32>,
    server: Option<u32>,
    has_backend_left: bool,
    to_backend: PipeQueue,
    to_client: PipeQueue,
}

/// One direction of a pipe.
#[derive(Debug, Default)]
struct PipeQueue {
    messages: VecDeque<Message>,
    is_ended: bool,
}

impl PipeQueue {
    /// Returns how many messages more there may be.
    fn room(&self, pool: &Pool) -> usize {
        pool.share(MESSAGE_COUNT_MAX).saturating_sub(self.messages.len())
    }

    /// Returns how many bytes fit behind the last part of the content, in its buffer.
    fn room_behind_last(&self) -> usize {
        match self.messages.back() {
            Some(Message::Data(last)) => MESSAGE_ROOM + MESSAGE_LEN_MAX - (last.at + last.len) as usize,
            _ => 0,
        }
    }

    /// Copies bytes behind the last part of the content, where they fit.
    fn append(&mut self, pool: &mut Pool, bytes: BufRange) {
        if let Some(Message::Data(last)) = self.messages.back_mut() {
            pool.copy(bytes, last.buf, last.at + last.len);
            last.len += bytes.len;
        }
    }

    fn release(&mut self, pool: &mut Pool) {
        for message in self.messages.drain(..) {
            message.release(pool);
        }
    }
}

impl Message {
    /// Releases the buffer of the message.
    pub(crate) fn release(self, pool: &mut Pool) {
        if let Message::Head(range)
        | Message::Interim(range)
        | Message::Redirect(range)
        | Message::Data(range)
        | Message::Trailers(range) = self
        {
            pool.release(range.buf);
        }
    }
}

/// A pipe that needs a new backend connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconnected {
    /// The pipe.
    pub pipe: PipeId,
    /// What distinguishes it from later pipes with the same name.
    pub ticket: u64,
    /// Its route.
    pub route: BackendRoute,
    /// The server to connect to.
    pub server: ServerId,
}

impl Default for Pipes {
    /// Pipes to backends that speak frames.
    fn default() -> Pipes {
        Pipes::new(Arc::default(), Box::new(NoServers))
    }
}

impl Pipes {
    /// Returns the pipes of a worker. `settings`: by the number of the backend; one without speaks frames.
    #[must_use]
    pub fn new(settings: Arc<[BackendSettings]>, servers: Box<dyn BackendServers>) -> Pipes {
        Pipes {
            settings,
            servers,
            budget: CollectBudget::default(),
            websocket_keys: WebSocketKeys::default(),
            pipes: Vec::new(),
            free: Vec::new(),
            opened_count: 0,
            idle: IdleBackends::default(),
            unconnected: VecDeque::new(),
            scheduled: VecDeque::new(),
        }
    }

    /// Sets the seed of the keys of WebSocket handshakes.
    pub fn set_seed(&mut self, seed: u64) {
        self.websocket_keys.seed = seed;
    }

    /// Returns a new key for a WebSocket handshake with a server.
    pub(crate) fn next_websocket_key(&mut self) -> WebSocketKey {
        self.websocket_keys.next()
    }

    /// Opens a pipe from the connection of a client to a backend. `key`: the hash by which a server is chosen. An idle connection to the
    /// server is scheduled to join; without one, [`next_unconnected`](Pipes::next_unconnected) returns the pipe.
    pub(crate) fn open(&mut self, client: u32, route: BackendRoute, key: u64, now: Tick) -> PipeId {
        self.opened_count += 1;
        let pipe = Pipe {
            route,
            ticket: self.opened_count,
            key,
            server_id: self.choose(route, key, &[], now),
            tried: Vec::new(),
            retry_count: 0,
            payload: None,
            client: Some(client),
            server: None,
            has_backend_left: false,
            to_backend: PipeQueue::default(),
            to_client: PipeQueue::default(),
        };
        let server_id = pipe.server_id;
        let index = self.free.pop().unwrap_or(self.pipes.len() as u32);
        match self.pipes.get_mut(index as usize) {
            Some(place) => *place = Some(pipe),
            None => self.pipes.push(Some(pipe)),
        }
        let id = PipeId(index);
        match server_id.and_then(|server| self.idle.assign(server, id)) {
            Some(server) => self.scheduled.push_back(server),
            None => self.unconnected.push_back(id),
        }
        id
    }

    /// Opens a pipe with a payload for the connector of the backend. Such a backend keeps no idle connection.
    pub(crate) fn open_with(
        &mut self,
        client: u32,
        route: BackendRoute,
        payload: Payload,
        now: Tick,
    ) -> PipeId {
        let id = self.open(client, route, 0, now);
        self.pipe(id).payload = Some(payload);
        id
    }

    /// Takes the payload of a pipe that needs a new backend connection.
    pub fn take_payload(&mut self, id: PipeId) -> Option<Payload> {
        self.pipe(id).payload.take()
    }

    /// Returns the settings of a backend.
    pub(crate) fn settings(&self, BackendId(number): BackendId) -> Option<&BackendSettings> {
        self.settings.get(number as usize)
    }

    /// Chooses a server for an exchange. `None`: no server can take it.
    fn choose(&mut self, route: BackendRoute, key: u64, tried: &[ServerId], now: Tick) -> Option<ServerId> {
        match self.protocol(route.backend) {
            BackendProtocol::Frames => Some(ServerId::of_backend(route.backend)).filter(|_| tried.is_empty()),
            BackendProtocol::Http1 | BackendProtocol::FastCgi => {
                self.servers.choose(route.backend, key, tried, now)
            }
        }
    }

    /// Returns the language of a backend.
    pub(crate) fn protocol(&self, backend: BackendId) -> BackendProtocol {
        self.settings(backend).map_or(BackendProtocol::Frames, |settings| settings.protocol)
    }

    /// Returns the route of a pipe.
    pub(crate) fn route_of(&mut self, id: PipeId) -> BackendRoute {
        self.pipe(id).route
    }

    /// Returns whether messages wait in a pipe, in either direction.
    pub(crate) fn holds_buffers(&self, id: PipeId) -> bool {
        let pipe = self.pipes.get(id.0 as usize).and_then(Option::as_ref);
        pipe.is_some_and(|pipe| !pipe.to_backend.messages.is_empty() || !pipe.to_client.messages.is_empty())
    }

    /// Returns the memory for contents that a backend gets as a whole.
    pub(crate) fn budget(&self) -> &CollectBudget {
        &self.budget
    }

    /// Counts an event at a server.
    pub(crate) fn note(&mut self, server: ServerId, event: ServerEvent) {
        if server.upstream_number().is_some() {
            self.servers.note(server, event);
        }
    }

    /// Reports a failure at a server, or a line of its error output, to the log.
    pub(crate) fn report(&mut self, server: ServerId, report: ServerReport<'_>) {
        if server.upstream_number().is_some() {
            self.servers.report(server, report);
        }
    }

    /// Returns the next pipe that needs a new backend connection. The engine connects and calls
    /// [`Connection::to_backend`](crate::Connection::to_backend), at once or when it [still awaits](Pipes::awaits) that; or it calls
    /// [`connect_failed`](Pipes::connect_failed) or [`refuse`](Pipes::refuse).
    pub fn next_unconnected(&mut self, pool: &mut Pool) -> Option<Unconnected> {
        while let Some(id) = self.unconnected.pop_front() {
            if let Some(Some(pipe)) = self.pipes.get(id.0 as usize)
                && pipe.server.is_none()
                && !pipe.has_backend_left
            {
                let (ticket, route) = (pipe.ticket, pipe.route);
                match pipe.server_id {
                    Some(server) => return Some(Unconnected { pipe: id, ticket, route, server }),
                    None => self.refuse(pool, id, BackendRefusal::Full),
                }
            }
        }
        None
    }

    /// Returns whether a pipe still awaits the connection that [`next_unconnected`](Pipes::next_unconnected) has asked for.
    #[must_use]
    pub fn awaits(&self, Unconnected { pipe, ticket, server, .. }: Unconnected) -> bool {
        self.pipes.get(pipe.0 as usize).and_then(Option::as_ref).is_some_and(|pipe| {
            pipe.ticket == ticket
                && pipe.server_id == Some(server)
                && pipe.server.is_none()
                && !pipe.has_backend_left
        })
    }

    /// Tries another server for a pipe whose server could not be reached, or ends the pipe if there is none.
    pub fn connect_failed(
        &mut self,
        pool: &mut Pool,
        unconnected: Unconnected,
        why: BackendRefusal,
        now: Tick,
    ) {
        let Unconnected { pipe: id, route, server, .. } = unconnected;
        let pipe = self.pipe(id);
        pipe.tried.push(server);
        let (key, tried) = (pipe.key, mem::take(&mut pipe.tried));
        let next = match tried.len() <= route.limits.retries_max.into() {
            true => self.choose(route, key, &tried, now),
            false => None,
        };
        self.pipe(id).tried = tried;
        match next {
            Some(next) => self.connect_to(id, next),
            None => self.refuse(pool, id, why),
        }
    }

    /// Chooses a server for the repetition of an exchange, other than `excluded`. Returns `false` if it was repeated often enough, its client
    /// has left, or no server can take it.
    pub(crate) fn may_repeat(&mut self, id: PipeId, excluded: Option<ServerId>, now: Tick) -> bool {
        let pipe = self.pipe(id);
        if pipe.retry_count >= pipe.route.limits.retries_max || pipe.client.is_none() {
            return false;
        }
        pipe.tried.extend(excluded);
        let (route, key, tried) = (pipe.route, pipe.key, mem::take(&mut pipe.tried));
        let chosen = self.choose(route, key, &tried, now);
        let pipe = self.pipe(id);
        pipe.tried = tried;
        match chosen {
            None => false,
            Some(server) => {
                let former = pipe.server_id.replace(server);
                pipe.retry_count += 1;
                if let Some(former) = former {
                    self.note(former, ServerEvent::Retried);
                }
                true
            }
        }
    }

    /// Repeats an exchange of which a connection has sent the head, and has received nothing: on a new connection.
    pub(crate) fn repeat(&mut self, id: PipeId, head: Message) {
        let pipe = self.pipe(id);
        pipe.server = None;
        pipe.to_backend.messages.push_front(Message::End(PipeEnd::Complete));
        pipe.to_backend.messages.push_front(head);
        self.unconnected.push_back(id);
    }

    fn connect_to(&mut self, id: PipeId, server: ServerId) {
        self.pipe(id).server_id = Some(server);
        self.unconnected.push_back(id);
    }

    /// Ends a pipe that has no backend connection.
    pub fn refuse(&mut self, pool: &mut Pool, id: PipeId, why: BackendRefusal) {
        let status = match why {
            BackendRefusal::Unreachable => Status::BadGateway,
            BackendRefusal::Full => Status::ServiceUnavailable,
            BackendRefusal::TimedOut => Status::GatewayTimeout,
        };
        self.push(id, Side::Backend, Message::End(PipeEnd::Aborted(status)));
        self.leave(pool, id, Side::Backend);
    }

    /// Returns a pipe to those that need a new connection: the idle one that was to join it has closed.
    pub(crate) fn reconnect(&mut self, id: PipeId) {
        self.unconnected.push_back(id);
    }

    /// Adds a connection that waits for an exchange. Returns `false` if there are enough: the connection closes.
    pub(crate) fn add_idle(&mut self, server: ServerId, number: u32) -> bool {
        let is_wanted = match server.upstream_number() {
            None => self.idle.count(server) < IDLE_COUNT_MAX,
            Some(_) => self.servers.keeps_idle(server),
        };
        if is_wanted {
            self.idle.add(server, number);
            self.note(server, ServerEvent::IdleBegan);
        }
        is_wanted
    }

    /// Joins a pipe as its backend connection.
    pub(crate) fn join(&mut self, id: PipeId, server: u32) {
        self.pipe(id).server = Some(server);
    }

    /// Returns the next connection that the engine calls [`woken`](crate::Connection::woken) on, and drives then.
    #[inline]
    pub fn next_scheduled(&mut self) -> Option<u32> {
        self.scheduled.pop_front()
    }

    /// Returns whether a pipe needs a new backend connection.
    #[inline]
    pub fn has_unconnected(&self) -> bool {
        !self.unconnected.is_empty()
    }

    /// Returns whether a connection is scheduled, or a pipe needs a connection.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.scheduled.is_empty() || !self.unconnected.is_empty()
    }

    /// Returns the number of connections that are scheduled now.
    #[inline]
    pub fn scheduled_count(&self) -> usize {
        self.scheduled.len()
    }

    /// Returns the number of open pipes.
    pub fn open_count(&self) -> usize {
        self.pipes.len() - self.free.len()
    }

    /// Returns the idle backend connections, which wait for an exchange.
    pub(crate) fn idle(&mut self) -> &mut IdleBackends {
        &mut self.idle
    }

    /// Returns whether a side may add a message.
    pub(crate) fn has_room(&mut self, pool: &Pool, id: PipeId, from: Side) -> bool {
        self.pipe(id).queue_from(from).room(pool) > 0
    }

    /// Returns how many bytes of content a side may add.
    pub(crate) fn room(&mut self, pool: &Pool, id: PipeId, from: Side) -> usize {
        let queue = self.pipe(id).queue_from(from);
        queue.room(pool) * MESSAGE_LEN_MAX + queue.room_behind_last()
    }

    /// Returns whether the other side has taken all messages of a side.
    pub(crate) fn is_drained(&mut self, id: PipeId, from: Side) -> bool {
        self.pipe(id).queue_from(from).messages.is_empty()
    }

    /// Returns whether the other side has left the pipe.
    pub(crate) fn has_other_left(&mut self, id: PipeId, side: Side) -> bool {
        let pipe = self.pipe(id);
        match side {
            Side::Client => pipe.has_backend_left,
            Side::Backend => pipe.client.is_none(),
        }
    }

    /// Adds a message. The caller has asked for room, unless the message is the end. After the end, drops the message.
    pub(crate) fn push(&mut self, id: PipeId, from: Side, message: Message) {
        let pipe = self.pipe(id);
        let queue = pipe.queue_from(from);
        debug_assert!(!queue.is_ended, "no message follows the end");
        queue.is_ended |= matches!(message, Message::End(_));
        queue.messages.push_back(message);
        self.schedule_other(id, from);
    }

    /// Adds a part of the content: as much of `bytes` as there is room for. Returns how many bytes it has added.
    ///
    /// # Errors
    /// No buffer is free.
    pub(crate) fn push_data(
        &mut self,
        pool: &mut Pool,
        id: PipeId,
        from: Side,
        bytes: BufRange,
    ) -> Result<usize, NoBuffer> {
        // As many as `room` has told, although the pool has fewer free buffers after each.
        let room = self.pipe(id).queue_from(from).room(pool);
        self.push_parts(pool, id, from, bytes, room)
    }

    /// Adds a part of the content, whose sender has bounded how much there is at a time.
    ///
    /// # Errors
    /// No buffer is free.
    pub(crate) fn push_bounded_data(
        &mut self,
        pool: &mut Pool,
        id: PipeId,
        from: Side,
        bytes: BufRange,
    ) -> Result<(), NoBuffer> {
        self.push_parts(pool, id, from, bytes, usize::MAX).map(drop)
    }

    fn push_parts(
        &mut self,
        pool: &mut Pool,
        id: PipeId,
        from: Side,
        bytes: BufRange,
        mut room: usize,
    ) -> Result<usize, NoBuffer> {
        let queue = self.pipe(id).queue_from(from);
        let len = queue.room_behind_last().min(bytes.len as usize);
        queue.append(pool, BufRange { len: len as u32, ..bytes });
        let mut added = len;
        while added < bytes.len as usize && room > 0 {
            room -= 1;
            let rest = bytes.skip(added);
            let buf = pool.take_for_response().ok_or(NoBuffer)?;
            let len = rest.len.min(MESSAGE_LEN_MAX as u32);
            let data = pool.copy(BufRange { len, ..rest }, buf, MESSAGE_ROOM as u32);
            queue.messages.push_back(Message::Data(data));
            added += len as usize;
        }
        if added > 0 {
            self.schedule_other(id, from);
        }
        Ok(added)
    }

    /// Adds a part of the content behind the last one, in its buffer. Returns `false` if it does not fit there as a whole.
    fn append_data(&mut self, pool: &mut Pool, id: PipeId, from: Side, bytes: BufRange) -> bool {
        let queue = self.pipe(id).queue_from(from);
        let fits = queue.room_behind_last() >= bytes.len as usize;
        if fits {
            queue.append(pool, bytes);
            self.schedule_other(id, from);
        }
        fits
    }

    /// Takes the next message for a side, which then holds its buffer.
    pub(crate) fn pop(&mut self, pool: &Pool, id: PipeId, to: Side) -> Option<Message> {
        let queue = self.pipe(id).queue_from(to.other());
        let was_full = queue.room(pool) == 0;
        let message = queue.messages.pop_front()?;
        if was_full || queue.messages.is_empty() {
            self.schedule_other(id, to);
        }
        Some(message)
    }

    /// Returns whether the next message for a side is its complete end, and takes it then.
    pub(crate) fn pop_end(&mut self, id: PipeId, to: Side) -> bool {
        let queue = self.pipe(id).queue_from(to.other());
        let is_end = queue.messages.front() == Some(&Message::End(PipeEnd::Complete));
        if is_end {
            queue.messages.pop_front();
        }
        is_end
    }

    /// Leaves a pipe. If the side has not ended its direction, that is aborted. The pipe ends when both sides have left.
    pub(crate) fn leave(&mut self, pool: &mut Pool, id: PipeId, side: Side) {
        let pipe = self.pipe(id);
        match side {
            Side::Client => pipe.client = None,
            Side::Backend => (pipe.server, pipe.has_backend_left) = (None, true),
        }
        // Without a backend connection there is no other side to leave.
        let is_last = pipe.client.is_none() && pipe.server.is_none();
        pipe.queue_from(side.other()).release(pool);
        let queue = pipe.queue_from(side);
        if !mem::replace(&mut queue.is_ended, true) {
            queue.messages.push_back(Message::End(PipeEnd::Aborted(Status::BadGateway)));
        }
        if is_last {
            queue.release(pool);
            let assigned = self.idle.unassign(id);
            self.pipes[id.0 as usize] = None;
            self.free.push(id.0);
            self.scheduled.extend(assigned);
        } else {
            self.schedule_other(id, side);
        }
    }

    fn schedule_other(&mut self, id: PipeId, side: Side) {
        let pipe = self.pipe(id);
        let other = match side {
            Side::Client => pipe.server,
            Side::Backend => pipe.client,
        };
        if let Some(number) = other
            && self.scheduled.back() != Some(&number)
        {
            self.scheduled.push_back(number);
        }
    }

    fn pipe(&mut self, id: PipeId) -> &mut Pipe {
        self.pipes[id.0 as usize].as_mut().expect("a pipe is open until both sides have left it")
    }
}

/// The reason why a pipe gets no backend connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendRefusal {
    /// Connecting has failed: the client gets 502.
    Unreachable,
    /// The worker or the server has as many connections as it may have: the client gets 503.
    Full,
    /// Connecting takes too long: the client gets 504.
    TimedOut,
}

/// The error that no buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoBuffer;

impl Pipe {
    fn queue_from(&mut self, side: Side) -> &mut PipeQueue {
        match side {
            Side::Client => &mut self.to_backend,
            Side::Backend => &mut self.to_client,
        }
    }
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Backend,
            Side::Backend => Side::Client,
        }
    }
}
