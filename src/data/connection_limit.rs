//! Limits the open connections of each address, counted by all workers and processes in memory of a fixed size.
//!
//! ```text
//! address ─ keyed hash ─▶ window of the table ─▶ [ entry │ free │ entry │ … ]
//!                                                   tag, 32 bits │ owner, 15 bits │ count, 17 bits
//! ```
//!
//! **An entry belongs to an owner**, the process that holds the connections, and only the owner changes its count. So an address has as many
//! connections as its entries have together, and each change is one compare-and-swap: whatever instruction a process dies at, its entries say what
//! it held. The process that reaps it frees them.
//!
//! **A connection counts first and is checked then.** Of two workers that accept at the same instant, one at least sees the entry of the other, so
//! an address never has more connections than its limit; at worst both are refused.
//!
//! **A flood of addresses** takes no memory. If all entries of a window are taken, a new address is not counted, and its connections are served: so many
//! addresses at a time are a case for `max-connections`, and not for a limit of each.

use crate::sys::shared::SharedArray;
use rustix::net::sockopt::set_socket_linger;
use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroU32,
    ops::Range,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tarpon_conn::{AddressList, ClientKey, Counters, PeerAddress, ProxyTrust};

/// The connections that each address has, of all servers of a supervisor.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionTable {
    words: Arc<SharedArray<AtomicU64>>,
    keys: RandomState,
}

/// Which connections a process accepts: by the address of the peer, and by how many connections that has.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimit {
    table: ConnectionTable,
    /// `u32::MAX`: there is no limit.
    count_max: u32,
    /// The addresses that may connect to listeners without a list. `None`: all.
    addresses: Option<Arc<AddressList>>,
    owner: ConnectionOwner,
    /// The entries that an address may be in.
    window_len: usize,
    proxy_trust: Arc<ProxyTrust>,
}

/// A process that holds connections: the place of its first row of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionOwner(pub(crate) u16);

impl ConnectionOwner {
    /// Returns the owner with its counters at this place.
    pub(crate) fn of_place(place: usize) -> ConnectionOwner {
        ConnectionOwner(u16::try_from(place).expect("fewer rows than 2^15"))
    }
}

/// A connection that counts, until it is [released](ConnectionLimit::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedConnection(u64);

/// The result of counting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionVerdict {
    /// It is within the limit.
    Counted(CountedConnection),
    /// It has no limit: of a trusted proxy, which carries many clients; of a Unix socket, whose permissions decide; or there is no entry for it.
    Unlimited,
    /// It is one too many, and does not count.
    Refused,
    /// Its address may not connect.
    Denied,
}

/// Words of a table: 2 MiB. Those that no connection has touched take no memory.
pub(crate) const CONNECTION_WORD_COUNT: usize = HEADER_LEN + (1 << 18);

/// The words before the entries.
const HEADER_LEN: usize = 8;
/// A server has had a limit. Until then no entry is in use, and looking through them would take memory for them.
const USED_AT: usize = 0;
/// When the next line of the log is due, in microseconds.
const REPORT_AT: usize = 1;

/// How often the log tells that connections are refused, in microseconds.
const REPORT_US: u64 = 60_000_000;

/// Entries of a window beside those that one address may have: for other addresses with a hash close to it.
const WINDOW_LEN_MIN: usize = 64;

const OWNER_AT: u32 = 17;
const TAG_AT: u32 = 32;
const COUNT_MASK: u64 = (1 << OWNER_AT) - 1;
const OWNER_MASK: u64 = (1 << TAG_AT) - (1 << OWNER_AT);

impl ConnectionTable {
    /// Returns a table in this memory, which is zero at first.
    pub(crate) fn new(words: Arc<SharedArray<AtomicU64>>, keys: RandomState) -> ConnectionTable {
        ConnectionTable { words, keys }
    }

    /// Frees all entries of processes that have exited.
    pub(crate) fn forget(&self, owners: Range<usize>) {
        if owners.is_empty() || self.words[USED_AT].load(SeqCst) == 0 {
            return;
        }
        for word in self.entries() {
            let value = word.load(SeqCst);
            if value != 0 && owners.contains(&owner_of(value)) {
                // No process but a dead one changes it.
                let _ = word.compare_exchange(value, 0, SeqCst, SeqCst);
            }
        }
    }

    fn entries(&self) -> &[AtomicU64] {
        &self.words[HEADER_LEN..]
    }
}

impl ConnectionLimit {
    /// Returns a limit of `count_max` connections of each address. `owner_count`: the processes of the server that may hold connections.
    pub(crate) fn new(
        table: ConnectionTable,
        count_max: Option<NonZeroU32>,
        owner: ConnectionOwner,
        owner_count: usize,
        proxy_trust: Arc<ProxyTrust>,
        addresses: Option<Arc<AddressList>>,
    ) -> ConnectionLimit {
        let count_max = count_max.map_or(u32::MAX, NonZeroU32::get);
        // An address has an entry in each process at most, and no more than connections.
        let of_address = owner_count.min((count_max as usize).saturating_add(1));
        let window_len = (WINDOW_LEN_MIN + 2 * of_address).min(table.entries().len());
        table.words[USED_AT].store(1, SeqCst);
        ConnectionLimit { table, count_max, addresses, owner, window_len, proxy_trust }
    }

    /// Returns the same limit for another process.
    pub(crate) fn of(&self, owner: ConnectionOwner) -> ConnectionLimit {
        ConnectionLimit { owner, ..self.clone() }
    }

    /// Counts a connection that was accepted from this peer. `None`: the client has gone.
    /// `of_listener`: the addresses of its listener, in the place of those of the server.
    pub(crate) fn count(
        &self,
        peer: Option<PeerAddress>,
        of_listener: Option<&AddressList>,
    ) -> ConnectionVerdict {
        if self.denies(peer, of_listener) {
            return ConnectionVerdict::Denied;
        }
        let Some(counted) = self.counted(peer) else { return ConnectionVerdict::Unlimited };
        if self.sum(counted) >= u64::from(self.count_max) {
            return ConnectionVerdict::Refused;
        }
        if !self.add(counted) {
            return ConnectionVerdict::Unlimited;
        }
        if self.sum(counted) > u64::from(self.count_max) {
            self.release(counted);
            return ConnectionVerdict::Refused;
        }
        ConnectionVerdict::Counted(counted)
    }

    /// Returns what [`count`](ConnectionLimit::count) would return for this peer, without counting.
    pub(crate) fn check(
        &self,
        peer: Option<PeerAddress>,
        of_listener: Option<&AddressList>,
    ) -> ConnectionVerdict {
        let is_reached = |counted| self.sum(counted) >= u64::from(self.count_max);
        match self.counted(peer) {
            _ if self.denies(peer, of_listener) => ConnectionVerdict::Denied,
            Some(counted) if is_reached(counted) => ConnectionVerdict::Refused,
            _ => ConnectionVerdict::Unlimited,
        }
    }

    /// Returns whether a peer may not connect. A peer that has gone may: it gets nothing.
    fn denies(&self, peer: Option<PeerAddress>, of_listener: Option<&AddressList>) -> bool {
        let addresses = of_listener.or(self.addresses.as_deref());
        let (Some(addresses), Some(peer)) = (addresses, peer) else { return false };
        !addresses.allows(peer.ip())
    }

    /// Frees all entries of a process that has exited.
    pub(crate) fn forget(&self, owner: ConnectionOwner) {
        let place = usize::from(owner.0);
        self.table.forget(place..place + 1);
    }

    /// Resets a refused connection: the kernel keeps nothing of it, no TIME_WAIT either, and the client learns at once. The log hears of the
    /// limit once in a minute, from all workers together. `now_us`: a time that they share.
    #[cold]
    pub(crate) fn reset(
        &self,
        connection: OwnedFd,
        verdict: ConnectionVerdict,
        counters: &Counters,
        now_us: u64,
    ) {
        // An error means that the client has gone already.
        let _ = set_socket_linger(&connection, Some(Duration::ZERO));
        if verdict == ConnectionVerdict::Denied {
            return counters.connections_denied.add(1);
        }
        counters.connections_limited.add(1);
        let word = &self.table.words[REPORT_AT];
        let due_us = word.load(SeqCst);
        if due_us <= now_us && word.compare_exchange(due_us, now_us + REPORT_US, SeqCst, SeqCst).is_ok() {
            tracing::warn!(
                "connections are reset: an address has {} open, the most that max-connections-per-ip allows; \
                 tarpon_connections_limited_total counts them",
                self.count_max
            );
        }
    }

    /// Ends the count of a connection.
    pub(crate) fn release(&self, counted: CountedConnection) {
        while let Some((word, value)) = self.own_entry(counted) {
            // The last one frees the entry.
            let after = if value & COUNT_MASK == 1 { 0 } else { value - 1 };
            if word.compare_exchange(value, after, SeqCst, SeqCst).is_ok() {
                return;
            }
        }
    }

    /// Returns what stands for a peer that has a limit.
    fn counted(&self, peer: Option<PeerAddress>) -> Option<CountedConnection> {
        if self.count_max == u32::MAX {
            return None;
        }
        let peer = peer.filter(|&peer| !self.proxy_trust.trusts(peer))?;
        Some(CountedConnection(self.table.keys.hash_one(ClientKey::new(peer.ip()?))))
    }

    /// Adds one to the entry of this process. Returns `false` if the window has no room for one.
    fn add(&self, counted: CountedConnection) -> bool {
        loop {
            let (word, value) = match self.own_entry(counted) {
                Some((_, value)) if value & COUNT_MASK == COUNT_MASK => return false,
                Some(own) => own,
                None => match self.window(counted).find(|word| word.load(SeqCst) == 0) {
                    Some(free) => (free, 0),
                    None => return false,
                },
            };
            let after = if value == 0 { self.own_bits(counted) | 1 } else { value + 1 };
            if word.compare_exchange(value, after, SeqCst, SeqCst).is_ok() {
                return true;
            }
        }
    }

    /// Returns an entry of this process for an address, and its value.
    fn own_entry(&self, counted: CountedConnection) -> Option<(&AtomicU64, u64)> {
        let own = self.own_bits(counted);
        self.window(counted)
            .map(|word| (word, word.load(SeqCst)))
            .find(|(_, value)| value & !COUNT_MASK == own)
    }

    /// Returns how many connections an address has, in all processes.
    fn sum(&self, counted: CountedConnection) -> u64 {
        let values = self.window(counted).map(|word| word.load(SeqCst));
        values
            .filter(|value| *value != 0 && value >> TAG_AT == counted.tag())
            .map(|value| value & COUNT_MASK)
            .sum()
    }

    fn own_bits(&self, counted: CountedConnection) -> u64 {
        // An owner is not 0, so that no entry is.
        counted.tag() << TAG_AT | (u64::from(self.owner.0) + 1) << OWNER_AT
    }

    /// Returns the words that an address may have entries in.
    fn window(&self, counted: CountedConnection) -> impl Iterator<Item = &AtomicU64> {
        let words = self.table.entries();
        let start = (counted.0 & u64::from(u32::MAX)) as usize % words.len();
        words[start..].iter().chain(words).take(self.window_len)
    }
}

impl CountedConnection {
    fn tag(self) -> u64 {
        self.0 >> 32
    }
}

fn owner_of(value: u64) -> usize {
    ((value & OWNER_MASK) >> OWNER_AT) as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashMap, net::Ipv4Addr, thread};

    #[test]
    fn counts_are_those_of_a_model() {
        let mut seed = 5_u64;
        let mut below = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        };
        for count_max in [1, 2, 7] {
            let table = table(1 << 10);
            let limits: Vec<_> = (0..4).map(|owner| limit(&table, count_max, owner)).collect();
            // The connections of each process, by address.
            let mut open: HashMap<(u64, u64), Vec<CountedConnection>> = HashMap::new();
            for _ in 0..20_000 {
                let (owner, address) = (below(4), below(6));
                let of_address = |open: &HashMap<(u64, u64), Vec<_>>| -> usize {
                    (0..4).filter_map(|owner| open.get(&(owner, address))).map(Vec::len).sum()
                };
                match below(20) {
                    // A process dies, and its successor has nothing.
                    0 => {
                        table.forget(owner as usize..owner as usize + 1);
                        open.retain(|(of, _), _| *of != owner);
                    }
                    1..=9 => {
                        if let Some(counted) = open.entry((owner, address)).or_default().pop() {
                            limits[owner as usize].release(counted);
                        }
                    }
                    _ => {
                        let before = of_address(&open);
                        match limits[owner as usize].count(peer(address), None) {
                            ConnectionVerdict::Counted(counted) => {
                                assert!(before < count_max as usize);
                                open.entry((owner, address)).or_default().push(counted);
                            }
                            verdict => {
                                assert_eq!(
                                    (verdict, before),
                                    (ConnectionVerdict::Refused, count_max as usize)
                                );
                            }
                        }
                    }
                }
                assert_eq!(
                    (limits[0].check(peer(address), None) == ConnectionVerdict::Refused),
                    of_address(&open) == count_max as usize
                );
            }
            for ((owner, _), counted) in open {
                counted.into_iter().for_each(|counted| limits[owner as usize].release(counted));
            }
            assert!(table.entries().iter().all(|word| word.load(SeqCst) == 0), "nothing is left");
        }
    }

    #[test]
    fn workers_that_accept_at_once_never_exceed_the_limit() {
        let table = table(256);
        let open = AtomicU64::new(0);
        thread::scope(|scope| {
            for owner in 0..4 {
                // Two threads of each process.
                for _ in 0..2 {
                    let (limit, open) = (limit(&table, 3, owner), &open);
                    scope.spawn(move || {
                        for _ in 0..5_000 {
                            if let ConnectionVerdict::Counted(counted) = limit.count(peer(1), None) {
                                assert!(open.fetch_add(1, SeqCst) < 3);
                                open.fetch_sub(1, SeqCst);
                                limit.release(counted);
                            }
                        }
                    });
                }
            }
        });
        assert!(table.entries().iter().all(|word| word.load(SeqCst) == 0), "nothing is left");
    }

    #[test]
    fn a_flood_of_addresses_takes_no_memory_and_frees_no_client() {
        let table = table(256);
        let limit = limit(&table, 2, 0);
        let first: Vec<_> = (0..2).map(|_| limit.count(peer(1), None)).collect();
        assert!(first.iter().all(|verdict| matches!(verdict, ConnectionVerdict::Counted(_))));
        let verdicts: Vec<_> = (2..5_000).map(|address| limit.count(peer(address), None)).collect();
        let counted =
            verdicts.iter().filter(|verdict| matches!(verdict, ConnectionVerdict::Counted(_))).count();
        assert!((100..256).contains(&counted), "{counted} of 256 entries");
        assert!(!verdicts.contains(&ConnectionVerdict::Refused), "others are served");
        assert_eq!(limit.count(peer(1), None), ConnectionVerdict::Refused);
    }

    #[test]
    fn proxies_and_unix_sockets_have_no_limit() {
        let proxies = ["10.0.0.0/8".parse().expect("a network")].into();
        let trust = Arc::new(ProxyTrust { proxies, field: None });
        let limit = ConnectionLimit::new(table(256), NonZeroU32::new(1), ConnectionOwner(0), 1, trust, None);
        let verdicts = |peer: Option<PeerAddress>| [limit.count(peer, None), limit.count(peer, None)];
        let v4 = |text: &str| Some(PeerAddress::Ip(text.parse().expect("an address")));
        assert_eq!(verdicts(v4("10.1.2.3")), [ConnectionVerdict::Unlimited; 2]);
        assert_eq!(verdicts(Some(PeerAddress::Unix)), [ConnectionVerdict::Unlimited; 2]);
        assert_eq!(verdicts(None), [ConnectionVerdict::Unlimited; 2]);
        assert_eq!(verdicts(v4("11.1.2.3"))[1], ConnectionVerdict::Refused);
        assert_eq!(verdicts(v4("2001:db8::1"))[1], ConnectionVerdict::Refused);
        assert_eq!(verdicts(v4("2001:db8::2")), [ConnectionVerdict::Refused; 2], "the same network");
    }

    #[test]
    fn denied_addresses_may_not_connect() {
        let entries =
            |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an entry")).collect::<Vec<_>>();
        let list = Arc::new(AddressList::new(&entries(&["10.0.0.0/8", "unix"]), &entries(&["10.9.0.0/16"])));
        // A trusted proxy has to be allowed, too.
        let trust = ProxyTrust { proxies: ["192.0.2.1".parse().expect("a network")].into(), field: None };
        let limit =
            ConnectionLimit::new(table(256), None, ConnectionOwner(0), 1, Arc::new(trust), Some(list));
        #[rustfmt::skip]
        let cases = [
            ("10.1.2.3", ConnectionVerdict::Unlimited), ("10.9.2.3", ConnectionVerdict::Denied),
            ("192.0.2.1", ConnectionVerdict::Denied), ("::1", ConnectionVerdict::Denied),
        ];
        for (address, want) in cases {
            let peer = Some(PeerAddress::Ip(address.parse().expect(address)));
            assert_eq!([limit.count(peer, None), limit.check(peer, None)], [want; 2], "{address}");
        }
        assert_eq!(
            [Some(PeerAddress::Unix), None].map(|peer| limit.count(peer, None)),
            [ConnectionVerdict::Unlimited; 2]
        );
    }

    fn table(word_count: usize) -> ConnectionTable {
        ConnectionTable::new(
            Arc::new(SharedArray::zeros(HEADER_LEN + word_count).expect("memory")),
            RandomState::new(),
        )
    }

    fn limit(table: &ConnectionTable, count_max: u32, owner: u16) -> ConnectionLimit {
        ConnectionLimit::new(
            table.clone(),
            NonZeroU32::new(count_max),
            ConnectionOwner(owner),
            4,
            Arc::default(),
            None,
        )
    }

    fn peer(number: u64) -> Option<PeerAddress> {
        Some(PeerAddress::Ip(Ipv4Addr::from_bits(number as u32).into()))
    }
}
