//! Counts the requests of each address, in memory of a fixed size that all workers and processes share.
//!
//! ```text
//! limit, address ─ keyed hash ─┬─▶ set ─▶ [ entry │ entry │ … 8 of them: one cache line ]
//!                              └─▶ tag         │
//!                                   entry: tag, 22 bits │ when the client is idle again, 42 bits
//! ```
//!
//! An entry is one word, so a request takes one look into a set and one compare-and-swap: no lock, and nothing to repair if a process dies at any
//! instruction. Two workers that see a client for the first time at the same instant choose the same entry, and one of them tries again.
//!
//! **A flood of addresses** takes no memory: a full set replaces the entry of the client that is idle next. A client at its limit is ahead by a
//! whole burst, so its entry is the last to go. A new address is ahead by one request, so its entry goes first, and a flood of single requests
//! replaces nothing but itself. A client loses its entry only to seven other addresses of its set that are ahead as far. It cannot choose
//! them, since the hash has a secret key, so it needs about eight times as many addresses as there are sets: 131,072. Each of these may send
//! requests of its own, which are far more than the client wins.
//!
//! **A tag of another client** stands for a client in one of half a million looks into a full set. Then both share a limit.

use crate::bounded_writer::BoundedWriter;
use crate::request_rate::{AHEAD_MAX, RequestPace, UNIT_US};
use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A table of rates.
pub struct RateTable {
    words: Box<dyn AsRef<[AtomicU64]> + Send + Sync>,
    keys: RandomState,
}

/// The identity of a client: its IPv4 address, or the first half of its IPv6 address, the smallest network that a provider assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(u128);

/// How long a client has to wait for its next request, in whole seconds, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryAfter(pub(crate) u32);

/// Words that a table needs: 16,384 sets, 1 MiB. Those that no request has touched take no memory.
pub const RATE_WORD_COUNT: usize = (1 << 14) * SET_LEN + SET_LEN;

/// The words of a set: a cache line. The first line of a table has no set, but what all limits share.
const SET_LEN: usize = 8;

/// What the log tells of. The word of the first line with this number has the time at which the next line of the log is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LimitReportKind {
    Requests,
    Passwords,
}

const TIME_BITS: u32 = 42;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

// The times go round in 203 days. An entry that nothing has touched for so long may seem to be one of a client that is ahead, for a day.
const _: () = assert!(AHEAD_MAX < TIME_MASK / 100);

/// How often the log tells of each, in microseconds.
const REPORT_US: u64 = 60_000_000;

impl ClientKey {
    /// Returns what stands for an address.
    #[inline]
    pub fn new(address: IpAddr) -> ClientKey {
        match address.to_canonical() {
            IpAddr::V4(v4) => ClientKey(u128::from(v4.to_bits())),
            // The bits of an IPv4 address lie elsewhere.
            IpAddr::V6(v6) => ClientKey(v6.to_bits() & !u128::from(u64::MAX) | 1 << 63),
        }
    }
}

impl RateTable {
    /// Returns a table in this memory, which is zero at first, and then whatever other tables with the same keys have written to it.
    ///
    /// # Panics
    /// Panics if the memory has no room for a set.
    pub fn new(words: impl AsRef<[AtomicU64]> + Send + Sync + 'static, keys: RandomState) -> RateTable {
        assert!(words.as_ref().len() >= 2 * SET_LEN, "a table has a set at least");
        RateTable { words: Box::new(words), keys }
    }

    /// Counts a request of a client towards the limit with this number. `now_us`: a time that all workers share.
    ///
    /// # Errors
    /// The request is one too many, and is not counted.
    pub(crate) fn admit(
        &self,
        limit: u64,
        client: ClientKey,
        pace: RequestPace,
        now_us: u64,
    ) -> Result<(), RetryAfter> {
        let hash = self.keys.hash_one((limit, client));
        let (tag, now) = (hash >> TIME_BITS, now_us / UNIT_US);
        let set = self.set(hash as u32);
        loop {
            // Idle entries are alike: the first is taken.
            let (mut place, mut before, mut ahead, mut least) = (0, 0, 0, u64::MAX);
            for (number, word) in set.iter().enumerate() {
                let word = word.load(Relaxed);
                let of_word = ahead_of(word, now);
                if word != 0 && word >> TIME_BITS == tag {
                    (place, before, ahead) = (number, word, of_word);
                    break;
                }
                if of_word < least {
                    (place, before, least) = (number, word, of_word);
                }
            }
            let after = pace.admit(ahead).map_err(RetryAfter::of_units)?;
            let word = tag << TIME_BITS | now.wrapping_add(after) & TIME_MASK;
            if set[place].compare_exchange(before, word, Relaxed, Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// Returns whether to write a line of this kind to the log: one in a minute, of all workers together.
    #[cold]
    pub(crate) fn is_report_due(&self, kind: LimitReportKind, now_us: u64) -> bool {
        let word = &(*self.words).as_ref()[kind as usize];
        let due_us = word.load(Relaxed);
        due_us <= now_us && word.compare_exchange(due_us, now_us + REPORT_US, Relaxed, Relaxed).is_ok()
    }

    /// Returns the set of a hash.
    fn set(&self, hash: u32) -> &[AtomicU64] {
        let words = (*self.words).as_ref();
        let count = (words.len() / SET_LEN - 1) as u64;
        let number = (u64::from(hash) * count) >> 32;
        &words[SET_LEN * (1 + number as usize)..][..SET_LEN]
    }
}

/// Returns how far ahead of its rate the client of an entry is.
#[inline]
fn ahead_of(word: u64, now: u64) -> u64 {
    let ahead = word.wrapping_sub(now) & TIME_MASK;
    if word == 0 || ahead > AHEAD_MAX { 0 } else { ahead }
}

impl RetryAfter {
    /// The shortest time.
    pub(crate) const SECOND: RetryAfter = RetryAfter(1);

    fn of_units(wait: u64) -> RetryAfter {
        let seconds = (wait * UNIT_US).div_ceil(1_000_000).max(1);
        RetryAfter(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Writes the field to the front of `to`. RFC 9110, section 10.2.3. Returns its length, or `None` if it does not fit.
    pub(crate) fn write(self, to: &mut [u8]) -> Option<usize> {
        let mut writer = BoundedWriter::new(to);
        writer.put(b"Retry-After: ")?;
        writer.put_number(self.0.into())?;
        writer.put(b"\r\n")?;
        Some(writer.len())
    }
}

impl fmt::Debug for RateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateTable").field("words", &(*self.words).as_ref().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_rate::RequestLimit;
    use std::{collections::HashMap, iter, net::Ipv4Addr, num::NonZeroU32, sync::Arc};

    /// The interval of the limit of the tests, in units.
    const INTERVAL: u64 = 25_000;

    #[test]
    fn addresses_of_one_client_have_one_key() {
        let key = |text: &str| ClientKey::new(text.parse().expect(text));
        #[rustfmt::skip]
        let cases = [
            // one               another                     are the same client
            ("192.0.2.1",        "192.0.2.1",                true),
            ("192.0.2.1",        "192.0.2.2",                false),
            ("192.0.2.1",        "::ffff:192.0.2.1",         true),
            ("192.0.2.1",        "::192.0.2.1",              false),
            ("0.0.0.0",          "::",                       false),
            ("2001:db8::1",      "2001:db8::ffff:2:3:4",     true),
            ("2001:db8:0:1::1",  "2001:db8:0:2::1",          false),
            ("2001:db8::1",      "2001:db9::1",              false),
        ];
        for (one, another, are_same) in cases {
            assert_eq!(key(one) == key(another), are_same, "{one}, {another}");
        }
    }

    #[test]
    fn each_client_has_the_verdicts_of_a_model() {
        let mut random = Random(7);
        for round in 0..20 {
            // With fewer clients than a set has entries, no entry is replaced, whatever the keys are.
            let (table, pace) = (table(1 + round % 3), limit(1 + random.below(5)));
            let mut model: HashMap<u64, u64> = HashMap::new();
            // Also across the end of the times.
            let mut now = if round % 2 == 0 { TIME_MASK - 20 * INTERVAL } else { 1 + random.below(1 << 30) };
            for _ in 0..2_000 {
                now += random.below(2) * random.below(INTERVAL);
                let client = random.below(8);
                let idle_at = model.get(&client).map_or(now, |&idle_at: &u64| idle_at.max(now));
                let want = pace.admit(idle_at - now).map(|ahead| model.insert(client, now + ahead));
                let found = table.admit(3, key(client), pace, now * UNIT_US);
                assert_eq!(found.is_ok(), want.is_ok(), "client {client}");
                if let (Err(RetryAfter(seconds)), Err(wait)) = (found, want) {
                    let us = u64::from(seconds) * 1_000_000;
                    assert!(us >= wait * UNIT_US && (us - wait * UNIT_US < 1_000_000 || seconds == 1));
                }
            }
        }
    }

    #[test]
    fn limits_are_apart() {
        let (table, pace) = (table(1), limit(1));
        assert_eq!(table.admit(1, key(1), pace, 8), Ok(()));
        assert_eq!(table.admit(1, key(1), pace, 8), Err(RetryAfter(1)));
        assert_eq!(table.admit(2, key(1), pace, 8), Ok(()));
        assert_eq!(table.admit(1, key(2), pace, 8), Ok(()));
    }

    #[test]
    fn a_flood_of_addresses_frees_no_client() {
        let (table, pace, now_us) = (table(4), limit(10), 1_000);
        // A client in each set, or several, at their limits.
        let clients: Vec<_> = (0..8).map(key).collect();
        for &client in &clients {
            while table.admit(1, client, pace, now_us).is_ok() {}
        }
        let refused =
            (100..100_100).filter(|&number| table.admit(1, key(number), pace, now_us).is_err()).count();
        // Those with the tag of a client at its limit.
        assert!(refused <= SAME_TAG_MAX, "{refused} new addresses");
        let escaped = clients.iter().filter(|&&client| table.admit(1, client, pace, now_us).is_ok()).count();
        assert_eq!(escaped, 0, "of {} clients", clients.len());
    }

    #[test]
    fn a_full_set_gives_up_the_client_that_is_idle_next() {
        let (table, pace, now_us) = (table(1), limit(20), 4_000_000);
        // Client n is ahead by n + 2 requests.
        for client in 0..8 {
            (0..client + 2)
                .for_each(|_| table.admit(1, key(client), pace, now_us).expect("within the burst"));
        }
        table.admit(1, key(100), pace, now_us).expect("a new address");
        let ahead = |table: &RateTable| {
            let mut ahead: Vec<_> = table
                .set(0)
                .iter()
                .map(|word| ahead_of(word.load(Relaxed), now_us / UNIT_US) / INTERVAL)
                .collect();
            ahead.sort_unstable();
            ahead
        };
        assert_eq!(ahead(&table), [1, 3, 4, 5, 6, 7, 8, 9], "client 0 has gone");
        // After a second, 10 requests are forgotten: all are idle, and a new address takes the place of one of them.
        let later_us = now_us + 1_000_000;
        table.admit(1, key(101), pace, later_us).expect("a new address");
        assert_eq!(
            table.set(0).iter().filter(|word| ahead_of(word.load(Relaxed), later_us / UNIT_US) > 0).count(),
            1
        );
    }

    #[test]
    fn threads_share_one_burst() {
        let (table, pace) = (Arc::new(table(1)), limit(1_000));
        let threads: Vec<_> = iter::repeat_with(|| Arc::clone(&table)).take(4).collect();
        let counts: Vec<usize> = std::thread::scope(|scope| {
            let run = |table: Arc<RateTable>| {
                (0..1_000).filter(|_| table.admit(1, key(1), pace, 4_000).is_ok()).count()
            };
            let threads: Vec<_> = threads.into_iter().map(|table| scope.spawn(move || run(table))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(counts.iter().sum::<usize>(), 1_000);
    }

    #[test]
    fn the_log_hears_of_refusals_once_a_minute() {
        let table = table(1);
        let is_due = |kind, second: u64| table.is_report_due(kind, 5 + second * 1_000_000);
        let due: Vec<_> = (0..180).filter(|second| is_due(LimitReportKind::Requests, *second)).collect();
        assert_eq!(due, [0, 60, 120]);
        assert!(is_due(LimitReportKind::Passwords, 170), "each kind has lines of its own");
    }

    fn table(set_count: usize) -> RateTable {
        let words: Vec<_> = iter::repeat_with(AtomicU64::default).take((1 + set_count) * SET_LEN).collect();
        RateTable::new(words, RandomState::new())
    }

    /// Returns the pace of 10 requests a second.
    fn limit(burst: u64) -> RequestPace {
        let burst = NonZeroU32::new(burst as u32);
        RequestLimit { rate: "10/s".parse().expect("a rate"), burst }.pace()
    }

    fn key(number: u64) -> ClientKey {
        ClientKey::new(Ipv4Addr::from_bits(number as u32).into())
    }

    /// New addresses of a flood of 100,000 that may have the tag of one of 8 clients: with 22 bits one flood in twenty has one.
    const SAME_TAG_MAX: usize = 4;

    /// A generator of numbers: splitmix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27) % end
        }
    }
}
