//! The clients of the admin listener: which of them are received from and sent to, and which make room for others.
//!
//! ```text
//! accepted ─▶ Request ─answered─▶ Response ─sent─▶ Linger ─closed─▶
//!     │          │ ├── taken: an order, which another process answers
//!     │          │ └── streams ─▶ Stream, with an event a second ─closed, or the listener ends─▶
//!     └──────────┴─ evicted for a newer client, or expired
//! ```
//!
//! No client can delay another one: the table never waits for a client, and a new client always gets a slot. Memory is bounded:
//! the number of clients, the request of each, and the unsent responses of all. A client of a stream that does not read misses events.
//!
//! Knows nothing of sockets, of HTTP, or of the clock. `S` is what the caller keeps for each client: its socket.

use super::dashboard::EVENT_INTERVAL_MS;
use tarpon_conn::Tick;

/// The largest number of clients: more than the probes, scrapers and operators of a server, and few enough to poll all of them at once.
pub(super) const CLIENT_COUNT_MAX: usize = 64;

/// The largest request in bytes: a request line, and a few fields of a Prometheus client.
pub(super) const REQUEST_LEN_MAX: usize = 4 * 1024;

/// The lifetime of a client, for request and response: the time after which Prometheus gives a scrape up by default. It may be long, as a silent
/// client delays no other one, and makes room if its slot is needed.
pub(super) const LIFETIME_MS: u64 = 10_000;

/// How long a client may take to close after its response. Closing first could reset the connection, and destroy a response that the
/// client has not read: RFC 9112, section 9.6.
pub(super) const LINGER_MS: u64 = 1_000;

/// How long clients may take once the listener ends: a client that has connected just before gets its response.
pub(super) const END_MS: u64 = 1_000;

/// The accept back-off: how long the listener accepts no client after the process was out of descriptors or memory.
pub(super) const ACCEPT_BACKOFF_MS: u64 = 100;

/// The length of all unsent responses, beyond which clients that do not read are evicted. A response has a few hundred bytes for each
/// site, and what the kernel takes at once does not count.
pub(super) const UNSENT_LEN_MAX: usize = 4 * 1024 * 1024;

/// The largest number of clients that watch the events, such as the screens of a team. Most slots stay free for monitoring and orders.
pub(super) const STREAM_COUNT_MAX: usize = 8;

/// The clients of an admin listener.
#[derive(Debug)]
pub(super) struct ClientTable<S> {
    slots: Vec<Option<AdminClient<S>>>,
    /// The number of activities so far: orders clients by their last activity, even within one tick.
    activity_count: u64,
    /// The end of the accept back-off.
    accept_after: Option<Tick>,
    /// The time of the next event, if a client watches.
    event_at: Option<Tick>,
    is_ending: bool,
}

#[derive(Debug)]
struct AdminClient<S> {
    socket: S,
    progress: ClientProgress,
    /// The number of its last activity: accepted, received or sent bytes.
    active: u64,
    deadline: Tick,
}

/// The progress of a client. Each state awaits what it is named after.
#[derive(Debug)]
enum ClientProgress {
    Request(Vec<u8>),
    Response {
        bytes: Vec<u8>,
        sent_len: usize,
    },
    /// The bytes are those of one event, and of the head before the first.
    Stream {
        bytes: Vec<u8>,
        sent_len: usize,
    },
    Linger,
}

/// What to do for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientNeed {
    /// Receive bytes of its request.
    Request,
    /// Send bytes of its response.
    Send,
    /// Receive and discard bytes, until the client closes.
    Discard,
}

impl<S> ClientTable<S> {
    pub(super) fn new() -> ClientTable<S> {
        let slots = (0..CLIENT_COUNT_MAX).map(|_| None).collect();
        ClientTable { slots, activity_count: 0, accept_after: None, event_at: None, is_ending: false }
    }

    /// Adds a client. Returns its slot, and the socket of the client that was evicted for it if all slots were taken: a client that has
    /// its response, or else the client that has been silent longest. So a flood of silent clients evicts its own.
    pub(super) fn accepted(&mut self, socket: S, now: Tick) -> (usize, Option<S>) {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.or_else(|| self.first_to_evict(None, |_| true)).expect("there are slots");
        let client = AdminClient {
            socket,
            progress: ClientProgress::Request(Vec::with_capacity(REQUEST_LEN_MAX)),
            active: self.next_activity(),
            deadline: now.after(LIFETIME_MS),
        };
        let evicted = self.slots[slot].replace(client);
        (slot, evicted.map(|client| client.socket))
    }

    /// Starts the accept back-off.
    pub(super) fn accept_failed(&mut self, now: Tick) {
        self.accept_after = Some(now.after(ACCEPT_BACKOFF_MS));
    }

    /// Adds bytes to a request, at most as many as its [`room`](ClientTable::room).
    pub(super) fn received(&mut self, slot: usize, bytes: &[u8]) {
        let active = self.next_activity();
        let client = self.client_mut(slot);
        client.active = active;
        if let ClientProgress::Request(request) = &mut client.progress {
            assert!(bytes.len() <= REQUEST_LEN_MAX - request.len(), "a request has a limit");
            request.extend_from_slice(bytes);
        }
    }

    /// Sets the response to a client. Returns the sockets of clients that were evicted, as they do not read their responses.
    pub(super) fn answered(&mut self, slot: usize, bytes: Vec<u8>) -> Vec<S> {
        let client = self.client_mut(slot);
        assert!(matches!(client.progress, ClientProgress::Request(_)), "one response for each request");
        client.progress = ClientProgress::Response { bytes, sent_len: 0 };
        self.make_room(slot)
    }

    /// Starts the stream of a client with these bytes. Returns the sockets of clients that were evicted, as they do not read their responses.
    ///
    /// # Panics
    /// There are [too many](ClientTable::has_stream_slot).
    pub(super) fn streams(&mut self, slot: usize, bytes: Vec<u8>, now: Tick) -> Vec<S> {
        assert!(self.has_stream_slot(), "the caller asks before");
        let client = self.client_mut(slot);
        assert!(matches!(client.progress, ClientProgress::Request(_)), "one response for each request");
        client.progress = ClientProgress::Stream { bytes, sent_len: 0 };
        client.deadline = now.after(LIFETIME_MS);
        self.event_at.get_or_insert(now.after(EVENT_INTERVAL_MS));
        self.make_room(slot)
    }

    /// Returns whether another client may watch the events.
    pub(super) fn has_stream_slot(&self) -> bool {
        self.stream_count() < STREAM_COUNT_MAX
    }

    /// Returns whether it is time for an event, and plans the next one.
    pub(super) fn takes_event(&mut self, now: Tick) -> bool {
        if self.stream_count() == 0 {
            self.event_at = None;
        }
        let is_due = self.event_at.is_some_and(|at| at <= now);
        if is_due {
            self.event_at = Some(now.after(EVENT_INTERVAL_MS));
        }
        is_due
    }

    /// Gives an event to all clients that have read the one before. Returns their slots. An event that exceeds the limit of unsent bytes is
    /// not sent.
    pub(super) fn add_event(&mut self, event: &[u8]) -> Vec<usize> {
        let mut room = UNSENT_LEN_MAX.saturating_sub(self.unsent_len());
        let mut slots = Vec::new();
        for (slot, client) in self.slots.iter_mut().enumerate() {
            if let Some(AdminClient { progress: ClientProgress::Stream { bytes, sent_len }, .. }) = client
                && *sent_len == bytes.len()
                && event.len() <= room
            {
                bytes.clear();
                bytes.extend_from_slice(event);
                *sent_len = 0;
                room -= event.len();
                slots.push(slot);
            }
        }
        slots
    }

    fn stream_count(&self) -> usize {
        let clients = self.slots.iter().flatten();
        clients.filter(|client| matches!(client.progress, ClientProgress::Stream { .. })).count()
    }

    /// Evicts clients that do not read while there are too many unsent bytes.
    fn make_room(&mut self, slot: usize) -> Vec<S> {
        let mut evicted = Vec::new();
        while self.unsent_len() > UNSENT_LEN_MAX {
            let owes = |other: &AdminClient<S>| !other.unsent().is_empty();
            let others = self.first_to_evict(Some(slot), owes);
            // The newest response is sent, however long.
            let Some(other) = others else { break };
            evicted.extend(self.closed(other));
        }
        evicted
    }

    /// Records that the kernel has taken this many bytes of a response. Returns whether that was the whole rest; a stream has no end.
    pub(super) fn sent(&mut self, slot: usize, len: usize, now: Tick) -> bool {
        let active = self.next_activity();
        let client = self.client_mut(slot);
        client.active = active;
        let (bytes, sent_len, is_stream) = match &mut client.progress {
            ClientProgress::Response { bytes, sent_len } => (bytes, sent_len, false),
            ClientProgress::Stream { bytes, sent_len } => (bytes, sent_len, true),
            ClientProgress::Request(_) | ClientProgress::Linger => return false,
        };
        *sent_len += len;
        assert!(*sent_len <= bytes.len(), "no more than there is");
        let is_done = *sent_len == bytes.len();
        if is_stream {
            // A client that reads each event in time may stay.
            if is_done {
                client.deadline = now.after(LIFETIME_MS);
            }
            return false;
        }
        if is_done {
            client.progress = ClientProgress::Linger;
            client.deadline = client.deadline.min(now.after(LINGER_MS));
        }
        is_done
    }

    /// Removes a client, and returns its socket.
    pub(super) fn closed(&mut self, slot: usize) -> Option<S> {
        self.slots[slot].take().map(|client| client.socket)
    }

    /// Removes the clients whose time is over, and returns their sockets; ends an accept back-off whose time is over.
    pub(super) fn expired(&mut self, now: Tick) -> Vec<S> {
        self.accept_after = self.accept_after.filter(|&at| at > now);
        let is_due = |client: &mut AdminClient<S>| client.deadline <= now;
        self.slots.iter_mut().filter_map(|slot| slot.take_if(is_due)).map(|client| client.socket).collect()
    }

    /// Accepts no more clients, and shortens the time of those that are there. Removes the clients that watch the events, which could watch for
    /// ever, and returns their sockets: the next server answers when they connect again.
    pub(super) fn end(&mut self, now: Tick) -> Vec<S> {
        self.is_ending = true;
        let watches = |client: &mut AdminClient<S>| matches!(client.progress, ClientProgress::Stream { .. });
        let watching =
            self.slots.iter_mut().filter_map(|slot| slot.take_if(watches)).map(|client| client.socket);
        let watching = watching.collect();
        for client in self.slots.iter_mut().flatten() {
            client.deadline = client.deadline.min(now.after(END_MS));
        }
        watching
    }

    /// Returns whether to accept clients.
    pub(super) fn accepts(&self) -> bool {
        !self.is_ending && self.accept_after.is_none()
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns whether the table accepts no more clients, and the last one has gone.
    pub(super) fn has_ended(&self) -> bool {
        self.is_ending && self.slots.iter().all(Option::is_none)
    }

    /// Returns the time of the next call to [`expired`](ClientTable::expired) or [`takes_event`](ClientTable::takes_event), unless another event comes
    /// first.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let clients = self.slots.iter().flatten().map(|client| client.deadline);
        clients.chain(self.accept_after).chain(self.event_at).min()
    }

    /// Returns the clients: slot, socket, and what to do.
    pub(super) fn clients(&self) -> impl Iterator<Item = (usize, &S, ClientNeed)> {
        let clients = self.slots.iter().enumerate();
        clients
            .filter_map(|(slot, client)| client.as_ref().map(|client| (slot, &client.socket, client.need())))
    }

    /// Returns the socket of a client and what to do, unless the client has gone.
    pub(super) fn client(&self, slot: usize) -> Option<(&S, ClientNeed)> {
        self.slots[slot].as_ref().map(|client| (&client.socket, client.need()))
    }

    /// Returns the request of a client as far as it has arrived.
    pub(super) fn request(&self, slot: usize) -> &[u8] {
        match self.slots[slot].as_ref().map(|client| &client.progress) {
            Some(ClientProgress::Request(request)) => request,
            _ => &[],
        }
    }

    /// Returns how many bytes of a request to receive next. 0: the request is too long.
    pub(super) fn room(&self, slot: usize) -> usize {
        REQUEST_LEN_MAX - self.request(slot).len()
    }

    /// Returns the rest of the response to a client.
    pub(super) fn unsent(&self, slot: usize) -> &[u8] {
        self.slots[slot].as_ref().map_or(&[], AdminClient::unsent)
    }

    fn unsent_len(&self) -> usize {
        self.slots.iter().flatten().map(|client| client.unsent().len()).sum()
    }

    /// Returns the slot to evict first, other than `except`: a client that has its response, or else the longest silent client.
    fn first_to_evict(&self, except: Option<usize>, may: impl Fn(&AdminClient<S>) -> bool) -> Option<usize> {
        let clients = self.slots.iter().enumerate().filter(|(slot, _)| Some(*slot) != except);
        let clients = clients.filter_map(|(slot, client)| client.as_ref().map(|client| (slot, client)));
        let order =
            |client: &AdminClient<S>| (!matches!(client.progress, ClientProgress::Linger), client.active);
        clients
            .filter(|(_, client)| may(client))
            .min_by_key(|(_, client)| order(client))
            .map(|(slot, _)| slot)
    }

    fn client_mut(&mut self, slot: usize) -> &mut AdminClient<S> {
        self.slots[slot].as_mut().expect("the client is there")
    }

    fn next_activity(&mut self) -> u64 {
        self.activity_count += 1;
        self.activity_count
    }
}

impl<S> AdminClient<S> {
    fn need(&self) -> ClientNeed {
        match self.progress {
            ClientProgress::Request(_) => ClientNeed::Request,
            ClientProgress::Response { .. } => ClientNeed::Send,
            ClientProgress::Stream { .. } if !self.unsent().is_empty() => ClientNeed::Send,
            // A client of a stream closes when it has seen enough.
            ClientProgress::Stream { .. } | ClientProgress::Linger => ClientNeed::Discard,
        }
    }

    fn unsent(&self) -> &[u8] {
        match &self.progress {
            ClientProgress::Response { bytes, sent_len } | ClientProgress::Stream { bytes, sent_len } => {
                &bytes[*sent_len..]
            }
            ClientProgress::Request(_) | ClientProgress::Linger => &[],
        }
    }
}

#[cfg(test)]
mod tests;
