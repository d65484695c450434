//! The clients of the admin listener: which of them are received from and sent to, and which make room for others.
//!
//! ```text
//! accepted ─▶ Request ─answered─▶ Response ─sent─▶ Linger ─closed─▶
//!     │          │ └── taken: an order, which another process answers
//!     └──────────┴─ evicted for a newer client, or expired
//! ```
//!
//! No client can delay another one: the table never waits for a client, and a new client always gets a slot. Memory is bounded:
//! the number of clients, the request of each, and the unsent responses of all.
//!
//! Knows nothing of sockets, of HTTP, or of the clock. `S` is what the caller keeps for each client: its socket.

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

/// The clients of an admin listener.
#[derive(Debug)]
pub(super) struct ClientTable<S> {
    slots: Vec<Option<AdminClient<S>>>,
    /// The number of activities so far: orders clients by their last activity, even within one tick.
    activity_count: u64,
    /// The end of the accept back-off.
    accept_after: Option<Tick>,
    is_ending: bool,
}

#[derive(Debug)]
struct AdminClient<S> {
    socket: S,
    progress: Progress,
    /// The number of its last activity: accepted, received or sent bytes.
    active: u64,
    deadline: Tick,
}

/// The progress of a client. Each state awaits what it is named after.
#[derive(Debug)]
enum Progress {
    Request(Vec<u8>),
    Response { bytes: Vec<u8>, sent_len: usize },
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
        ClientTable { slots, activity_count: 0, accept_after: None, is_ending: false }
    }

    /// Adds a client. Returns its slot, and the socket of the client that was evicted for it if all slots were taken: a client that has
    /// its response, or else the client that has been silent longest. So a flood of silent clients evicts its own.
    pub(super) fn accepted(&mut self, socket: S, now: Tick) -> (usize, Option<S>) {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.or_else(|| self.first_to_evict(None, |_| true)).expect("there are slots");
        let client = AdminClient {
            socket,
            progress: Progress::Request(Vec::with_capacity(REQUEST_LEN_MAX)),
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
        if let Progress::Request(request) = &mut client.progress {
            assert!(bytes.len() <= REQUEST_LEN_MAX - request.len(), "a request has a limit");
            request.extend_from_slice(bytes);
        }
    }

    /// Sets the response to a client. Returns the sockets of clients that were evicted, as they do not read their responses.
    pub(super) fn answered(&mut self, slot: usize, bytes: Vec<u8>) -> Vec<S> {
        let client = self.client_mut(slot);
        assert!(matches!(client.progress, Progress::Request(_)), "one response for each request");
        client.progress = Progress::Response { bytes, sent_len: 0 };
        let mut evicted = Vec::new();
        while self.unsent_len() > UNSENT_LEN_MAX {
            let owes = |other: &AdminClient<S>| matches!(other.progress, Progress::Response { .. });
            let others = self.first_to_evict(Some(slot), owes);
            // The newest response is sent, however long.
            let Some(other) = others else { break };
            evicted.extend(self.closed(other));
        }
        evicted
    }

    /// Records that the kernel has taken this many bytes of a response. Returns whether that was the whole rest.
    pub(super) fn sent(&mut self, slot: usize, len: usize, now: Tick) -> bool {
        let active = self.next_activity();
        let client = self.client_mut(slot);
        client.active = active;
        let Progress::Response { bytes, sent_len } = &mut client.progress else { return false };
        *sent_len += len;
        assert!(*sent_len <= bytes.len(), "no more than there is");
        let is_done = *sent_len == bytes.len();
        if is_done {
            client.progress = Progress::Linger;
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

    /// Accepts no more clients, and shortens the time of those that are there.
    pub(super) fn end(&mut self, now: Tick) {
        self.is_ending = true;
        for client in self.slots.iter_mut().flatten() {
            client.deadline = client.deadline.min(now.after(END_MS));
        }
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

    /// Returns the time of the next call to [`expired`](ClientTable::expired), unless another event comes first.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let clients = self.slots.iter().flatten().map(|client| client.deadline);
        clients.chain(self.accept_after).min()
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
            Some(Progress::Request(request)) => request,
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
        let order = |client: &AdminClient<S>| (!matches!(client.progress, Progress::Linger), client.active);
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
            Progress::Request(_) => ClientNeed::Request,
            Progress::Response { .. } => ClientNeed::Send,
            Progress::Linger => ClientNeed::Discard,
        }
    }

    fn unsent(&self) -> &[u8] {
        match &self.progress {
            Progress::Response { bytes, sent_len } => &bytes[*sent_len..],
            Progress::Request(_) | Progress::Linger => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fills a table with the clients 0, 1, 2 and so on, at time 0.
    fn full() -> ClientTable<usize> {
        let mut table = ClientTable::new();
        for client in 0..CLIENT_COUNT_MAX {
            assert_eq!(table.accepted(client, Tick(0)), (client, None));
        }
        table
    }

    #[test]
    fn newcomer_evicts_the_client_that_has_been_silent_longest() {
        type Act = fn(&mut ClientTable<usize>);
        #[rustfmt::skip]
        let cases: &[(&str, Act, usize)] = &[
            // case                                  before the newcomer comes                            evicted
            ("all silent",                           |_| (),                                              0),
            ("the first has sent a byte",            |table| table.received(0, b"G"),                     1),
            ("all but one have sent a byte",         |table| for slot in 0..CLIENT_COUNT_MAX {
                                                         if slot != 40 { table.received(slot, b"G") }
                                                     },                                                   40),
            ("one has a response that it does not read", |table| assert!(table.answered(9, b"ab".into()).is_empty()), 0),
            ("one reads its response",               |table| {
                                                         table.answered(0, b"ab".into());
                                                         assert!(!table.sent(0, 1, Tick(0)));
                                                     },                                                   1),
            ("one has its whole response",           |table| {
                                                         table.answered(9, b"ab".into());
                                                         assert!(table.sent(9, 2, Tick(0)));
                                                     },                                                   9),
        ];
        for (name, act, evicted) in cases {
            let mut table = full();
            act(&mut table);
            assert_eq!(table.accepted(1000, Tick(0)), (*evicted, Some(*evicted)), "{name}");
            assert_eq!(table.client(*evicted), Some((&1000, ClientNeed::Request)), "{name}");
        }
    }

    #[test]
    fn flood_of_silent_clients_evicts_its_own() {
        let mut table = full();
        let (slot, _) = table.accepted(1000, Tick(0));
        // As many clients as fit between two bytes of a client do not evict it.
        for byte in 0..3 {
            for client in 1..CLIENT_COUNT_MAX {
                assert_ne!(table.accepted(2000 + client, Tick(0)).1, Some(1000), "byte {byte}");
            }
            table.received(slot, b"G");
        }
        assert_eq!(table.request(slot), b"GGG");
    }

    #[test]
    fn client_expires_after_its_lifetime_whatever_it_sends() {
        let mut table = ClientTable::new();
        let (silent, _) = table.accepted("silent", Tick(5));
        let (slow, _) = table.accepted("slow", Tick(7));
        assert_eq!(table.deadline(), Some(Tick(5 + LIFETIME_MS)));
        assert!(table.expired(Tick(4 + LIFETIME_MS)).is_empty());
        table.received(slow, b"G");
        assert_eq!(table.expired(Tick(5 + LIFETIME_MS)), ["silent"]);
        assert_eq!((table.client(silent), table.deadline()), (None, Some(Tick(7 + LIFETIME_MS))));
        assert_eq!(table.expired(Tick(7 + LIFETIME_MS)), ["slow"]);
        assert_eq!(table.deadline(), None);
    }

    #[test]
    fn client_with_its_response_lingers_briefly() {
        for (answered_at, deadline) in [(0, LINGER_MS), (LIFETIME_MS - 1, LIFETIME_MS)] {
            let mut table = ClientTable::new();
            let (slot, _) = table.accepted((), Tick(0));
            table.answered(slot, b"abc".into());
            assert!(!table.sent(slot, 2, Tick(answered_at)));
            assert_eq!((table.unsent(slot), table.deadline()), (&b"c"[..], Some(Tick(LIFETIME_MS))));
            assert!(table.sent(slot, 1, Tick(answered_at)));
            assert_eq!(table.client(slot), Some((&(), ClientNeed::Discard)));
            assert_eq!(table.deadline(), Some(Tick(deadline)));
            table.received(slot, &[b'x'; 2 * REQUEST_LEN_MAX]);
            assert_eq!(table.request(slot), b"", "discarded");
        }
    }

    #[test]
    fn accept_backoff_pauses_accepting_only() {
        let mut table = ClientTable::new();
        let (slot, _) = table.accepted((), Tick(0));
        table.accept_failed(Tick(10));
        assert_eq!((table.accepts(), table.deadline()), (false, Some(Tick(10 + ACCEPT_BACKOFF_MS))));
        table.received(slot, b"G");
        table.answered(slot, b"x".into());
        assert!(table.sent(slot, 1, Tick(20)), "the client is served meanwhile");
        assert!(table.expired(Tick(9 + ACCEPT_BACKOFF_MS)).is_empty() && !table.accepts());
        assert!(table.expired(Tick(10 + ACCEPT_BACKOFF_MS)).is_empty() && table.accepts());
    }

    #[test]
    fn ending_table_waits_briefly_for_its_clients() {
        let mut table = ClientTable::new();
        let (slot, _) = table.accepted("quick", Tick(0));
        table.accepted("silent", Tick(0));
        table.end(Tick(50));
        assert!(!table.accepts() && !table.has_ended());
        table.answered(slot, b"x".into());
        assert!(table.sent(slot, 1, Tick(60)));
        assert_eq!(table.closed(slot), Some("quick"));
        assert_eq!(table.deadline(), Some(Tick(50 + END_MS)));
        assert_eq!(table.expired(Tick(50 + END_MS)), ["silent"]);
        assert!(table.has_ended());
    }

    #[test]
    fn clients_that_read_nothing_make_room_for_other_responses() {
        let mut table = full();
        let response = || vec![b'x'; UNSENT_LEN_MAX / 4];
        for slot in 0..4 {
            assert!(table.answered(slot, response()).is_empty(), "the limit is not exceeded");
        }
        assert!(!table.sent(0, 1, Tick(0)));
        assert_eq!(table.answered(10, response()), [1], "the client 0 reads");
        assert_eq!(table.answered(11, vec![b'x'; 2 * UNSENT_LEN_MAX]), [2, 3, 10, 0], "however long");
        assert_eq!(table.unsent(11).len(), 2 * UNSENT_LEN_MAX);
    }

    /// What happens to a table.
    #[derive(Clone, Debug)]
    enum Fact {
        Accepted,
        Received(usize, usize),
        Answered(usize, usize),
        Sent(usize, usize),
        Closed(usize),
        Passed(u64),
    }

    fn fact() -> impl Strategy<Value = Fact> {
        let slot = 0..CLIENT_COUNT_MAX;
        prop_oneof![
            6 => Just(Fact::Accepted),
            4 => (slot.clone(), 0..2000usize).prop_map(|(slot, len)| Fact::Received(slot, len)),
            2 => (slot.clone(), 1..UNSENT_LEN_MAX / 3).prop_map(|(slot, len)| Fact::Answered(slot, len)),
            2 => (slot.clone(), 1..UNSENT_LEN_MAX / 3).prop_map(|(slot, len)| Fact::Sent(slot, len)),
            1 => slot.prop_map(Fact::Closed),
            1 => (0..LIFETIME_MS).prop_map(Fact::Passed),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn bounds_hold_whatever_clients_do(facts in prop::collection::vec(fact(), 1..400)) {
            let mut table = ClientTable::new();
            let mut now = Tick(0);
            // For each client: when it was accepted, and the number of the fact of its last activity.
            let mut model: Vec<(Tick, usize)> = Vec::new();
            let mut open = std::collections::BTreeSet::new();
            for (number, fact) in facts.into_iter().enumerate() {
                let client_in = |table: &ClientTable<usize>, slot| table.client(slot).map(|(&id, need)| (id, need));
                match fact {
                    Fact::Accepted => {
                        let id = model.len();
                        let was_full = open.len() == CLIENT_COUNT_MAX;
                        let lingers = |table: &ClientTable<usize>, id: usize| {
                            table.clients().any(|(_, &other, need)| other == id && need == ClientNeed::Discard)
                        };
                        let longest_silent = |ids: &mut dyn Iterator<Item = usize>| ids.min_by_key(|&id| model[id].1);
                        let expected = longest_silent(&mut open.iter().copied().filter(|&id| lingers(&table, id)))
                            .or_else(|| longest_silent(&mut open.iter().copied()));
                        let (slot, evicted) = table.accepted(id, now);
                        prop_assert_eq!(evicted, expected.filter(|_| was_full));
                        evicted.map(|id| open.remove(&id));
                        prop_assert_eq!(client_in(&table, slot), Some((id, ClientNeed::Request)));
                        open.insert(id);
                        model.push((now, number));
                    }
                    Fact::Received(slot, len) => if let Some((id, need)) = client_in(&table, slot) {
                        if need != ClientNeed::Send {
                            let len = len.min(table.room(slot));
                            table.received(slot, &vec![b'x'; len]);
                            model[id].1 = number;
                        }
                    }
                    Fact::Answered(slot, len) => if let Some((_, ClientNeed::Request)) = client_in(&table, slot) {
                        for id in table.answered(slot, vec![b'x'; len]) {
                            prop_assert!(open.remove(&id));
                        }
                        prop_assert_eq!(table.unsent(slot).len(), len);
                    }
                    Fact::Sent(slot, len) => if let Some((id, ClientNeed::Send)) = client_in(&table, slot) {
                        let rest = table.unsent(slot).len();
                        let len = len.min(rest);
                        prop_assert_eq!(table.sent(slot, len, now), len == rest);
                        model[id].1 = number;
                    }
                    Fact::Closed(slot) => if let Some(id) = table.closed(slot) {
                        open.remove(&id);
                    }
                    Fact::Passed(ms) => {
                        let deadline = table.deadline();
                        now = now.after(ms);
                        let expired = table.expired(now);
                        prop_assert_eq!(expired.is_empty(), deadline.is_none_or(|at| at > now));
                        for id in expired {
                            prop_assert!(open.remove(&id));
                        }
                        prop_assert!(open.iter().all(|&id| now < model[id].0.after(LIFETIME_MS)));
                    }
                }
                prop_assert_eq!(table.clients().map(|(_, &id, _)| id).collect::<std::collections::BTreeSet<_>>(), open.clone());
                prop_assert!(open.len() <= CLIENT_COUNT_MAX);
                prop_assert!(table.unsent_len() <= UNSENT_LEN_MAX, "each response here is shorter");
                prop_assert!((0..CLIENT_COUNT_MAX).all(|slot| table.request(slot).len() <= REQUEST_LEN_MAX));
            }
        }
    }
}
