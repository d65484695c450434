//! Password turns: workers with one connection verify its password themselves, and few of them at a time, in all processes.
//!
//! ```text
//! words shared by all processes    [ running, a few ][ waiting, 64 ]
//!                                     └ end of the lease, 40 bits │ client, 24 bits
//! ```
//!
//! A turn is a lease: if a process dies in its turn, the turn is free again when the lease ends, and nothing else has to happen. So a worker tries
//! again until a turn is free; it has no other client.

use super::password_threads::{
    RUNNING_COUNT_MAX, WAITING_COUNT_MAX, WAITING_PER_CLIENT_MAX, WAITING_TIME_MAX, run_or_refuse,
    running_count,
};
use crate::sys::shared::SharedArray;
use rustix::time::{ClockId, clock_gettime};
use std::{
    hash::{BuildHasher, RandomState},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};
use tarpon_conn::{ClientKey, PasswordJob, PasswordOutcome};

/// The turns of all servers of a supervisor.
#[derive(Clone, Debug)]
pub(crate) struct PasswordTurns {
    words: Arc<SharedArray<AtomicU64>>,
    /// Secret, so that no client knows which clients share a tag with it.
    keys: RandomState,
    running_max: usize,
}

/// How long a turn lasts, at most, in milliseconds: longer than the slowest hash takes on a busy machine.
const TURN_MS_MAX: u64 = 20_000;

/// How long a worker sleeps before it tries again.
const RETRY_TIME: Duration = Duration::from_millis(5);

const TAG_BITS: u32 = 24;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// A word that a worker has taken.
struct Lease<'t> {
    word: &'t AtomicU64,
    value: u64,
}

impl PasswordTurns {
    /// Maps the turns, which are shared with all processes forked later.
    pub(crate) fn new(keys: RandomState) -> io::Result<PasswordTurns> {
        let words = Arc::new(SharedArray::zeros(RUNNING_COUNT_MAX + WAITING_COUNT_MAX)?);
        Ok(PasswordTurns { words, keys, running_max: running_count() })
    }

    /// Verifies a password when it is its turn. Takes long.
    pub(crate) fn run(&self, job: &mut PasswordJob) {
        self.run_with(job, now_ms, || thread::sleep(RETRY_TIME));
    }

    fn run_with(&self, job: &mut PasswordJob, now_ms: impl Fn() -> u64, mut sleep: impl FnMut()) {
        let tag = self.tag(job.client());
        let since = now_ms();
        let turn = match self.take_turn(tag, since) {
            Some(turn) => turn,
            None => match self.wait(tag, since, &now_ms, &mut sleep) {
                Ok(turn) => turn,
                Err(outcome) => return job.refuse(outcome),
            },
        };
        run_or_refuse(job, Duration::ZERO);
        drop(turn);
    }

    /// Waits for a turn.
    fn wait(
        &self,
        tag: u64,
        since: u64,
        now_ms: &impl Fn() -> u64,
        sleep: &mut impl FnMut(),
    ) -> Result<Lease<'_>, PasswordOutcome> {
        let waiting = &self.words[RUNNING_COUNT_MAX..];
        let is_same = |word: &&AtomicU64| {
            let value = word.load(SeqCst);
            tag != 0 && !is_free(value, since) && value & TAG_MASK == tag
        };
        if waiting.iter().filter(is_same).count() >= WAITING_PER_CLIENT_MAX {
            return Err(PasswordOutcome::TooMany);
        }
        let end = since + WAITING_TIME_MAX.as_millis() as u64;
        let _place =
            waiting.iter().find_map(|word| take(word, tag, since, end)).ok_or(PasswordOutcome::Busy)?;
        loop {
            sleep();
            let now = now_ms();
            match self.take_turn(tag, now) {
                Some(turn) => return Ok(turn),
                None if now >= end => return Err(PasswordOutcome::Busy),
                None => {}
            }
        }
    }

    fn take_turn(&self, tag: u64, now: u64) -> Option<Lease<'_>> {
        self.words[..self.running_max].iter().find_map(|word| take(word, tag, now, now + TURN_MS_MAX))
    }

    /// Returns what a client is known by. 0: it has no address.
    fn tag(&self, client: Option<ClientKey>) -> u64 {
        client.map_or(0, |client| (self.keys.hash_one(client) & TAG_MASK).max(1))
    }
}

/// Takes a word if it is free, until `end`.
fn take(word: &AtomicU64, tag: u64, now: u64, end: u64) -> Option<Lease<'_>> {
    let (before, value) = (word.load(SeqCst), end << TAG_BITS | tag);
    let is_taken = is_free(before, now) && word.compare_exchange(before, value, SeqCst, SeqCst).is_ok();
    // Not before it is taken: the end of a lease frees its word.
    is_taken.then(|| Lease { word, value })
}

/// Returns whether a lease has ended.
fn is_free(value: u64, now: u64) -> bool {
    value >> TAG_BITS <= now
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // Another worker may have taken it after its end.
        let _ = self.word.compare_exchange(self.value, 0, SeqCst, SeqCst);
    }
}

/// Returns the time of a clock that all processes share, in milliseconds.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Never 0, at which all words are free.
    now.tv_sec.max(0) as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tarpon_conn::{CredentialDigest, PasswordUsers};
    use tarpon_http::basic::BasicCredentials;

    #[derive(Debug)]
    struct EveryUser;

    impl PasswordUsers for EveryUser {
        fn recall(&self, _: BasicCredentials<'_>) -> Result<(), CredentialDigest> {
            Err(CredentialDigest([0; 32]))
        }

        fn verify(&self, _: BasicCredentials<'_>, _: &CredentialDigest) -> bool {
            true
        }
    }

    #[test]
    fn few_run_and_few_wait() {
        let turns =
            PasswordTurns { running_max: 2, ..PasswordTurns::new(RandomState::new()).expect("memory") };
        let (clock, sleeps) = (Cell::new(1_000), Cell::new(0));
        let run = |client: Option<u8>| {
            let client = client.map(|number| ClientKey::new([192, 0, 2, number].into()));
            let credentials = BasicCredentials { name: b"a", password: b"b" };
            let mut job =
                PasswordJob::new(Arc::new(EveryUser), credentials, CredentialDigest([0; 32]), client);
            turns.run_with(
                &mut job,
                || clock.get(),
                || {
                    clock.set(clock.get() + 1_000);
                    sleeps.set(sleeps.get() + 1);
                },
            );
            job.outcome()
        };
        assert_eq!((run(Some(1)), sleeps.get()), (PasswordOutcome::Right, 0));
        // Two processes have died in their turns: the third waits until their leases end, but not for so long.
        let dead = [0, 1].map(|_| turns.take_turn(5, clock.get()).expect("a turn"));
        dead.into_iter().for_each(std::mem::forget);
        assert_eq!(run(Some(1)), PasswordOutcome::Busy);
        assert_eq!(sleeps.replace(0), WAITING_TIME_MAX.as_secs());
        clock.set(clock.get() + TURN_MS_MAX / 2 - 3_000);
        assert_eq!((run(Some(1)), sleeps.replace(0)), (PasswordOutcome::Right, 3));
        // A client has some places among those that wait, and all together have some more.
        let busy = [0, 1].map(|_| turns.take_turn(5, clock.get()).expect("a turn"));
        let waiting = &turns.words[RUNNING_COUNT_MAX..];
        let (now, tag) = (clock.get(), turns.tag(Some(ClientKey::new([192, 0, 2, 1].into()))));
        let place = |tag| waiting.iter().find_map(|word| take(word, tag, now, now + 1_000)).expect("a place");
        let mut places: Vec<_> = (0..WAITING_PER_CLIENT_MAX).map(|_| place(tag)).collect();
        assert_eq!((run(Some(1)), sleeps.get()), (PasswordOutcome::TooMany, 0));
        places.extend((places.len()..WAITING_COUNT_MAX).map(|_| place(0)));
        assert_eq!(
            (run(Some(2)), run(None), sleeps.get()),
            (PasswordOutcome::Busy, PasswordOutcome::Busy, 0)
        );
        drop((busy, places));
        assert_eq!((run(Some(1)), sleeps.get()), (PasswordOutcome::Right, 0));
        assert!(turns.words.iter().all(|word| word.load(SeqCst) == 0), "nothing is left behind");
    }
}
