//! Session tickets: their keys, the same in all workers, processes and generations without a message.
//!
//! ```text
//! secret of epoch 7 ─HKDF─▶ secret of epoch 8 ─HKDF─▶ secret of epoch 9 ─▶ …      an epoch: 8 hours of Unix time
//!       └─HKDF─▶ key 7            └─HKDF─▶ key 8            └─HKDF─▶ key 9
//!
//! ticket: epoch (4 bytes) │ nonce (12) │ session, sealed with AES-256-GCM │ tag (16)      associated data: epoch, policy
//! ```
//!
//! The supervisor makes the first secret. Each process that inherits it goes forward by itself and erases the earlier secrets, so a process that is
//! taken over reveals no session of an earlier epoch than the one before. A process that starts later gets the present state only.
//!
//! A ticket is bound to the policy under which it was made: a client that was never asked for a certificate cannot resume where one is required.

use crate::base::tls_config::TlsPolicyId;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    hkdf::{HKDF_SHA256, KeyType, Prk},
};
use rustls::{
    pki_types::UnixTime,
    server::ProducesTickets,
    time_provider::{DefaultTimeProvider, TimeProvider},
};
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};
use zeroize::Zeroize;

/// The length of an epoch: 8 hours. A key seals tickets for one epoch and opens them for two, so a session resumes within 8 to 16 hours. A longer
/// time gains few resumptions, and a stolen key would open more sessions.
const EPOCH_S: u64 = 8 * 3600;

/// The secret of an epoch, from which those of all later epochs follow.
#[derive(Clone)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct TicketSecret {
    /// The first epoch whose tickets a process with this secret can open: the one before the present.
    epoch: u32,
    secret: [u8; SECRET_LEN],
}

const SECRET_LEN: usize = 32;

/// The keys of tickets of a process. All listeners share them.
pub(crate) struct TicketKeys {
    clock: Arc<dyn TimeProvider>,
    state: RwLock<KeyState>,
}

struct KeyState {
    secret: TicketSecret,
    /// The present epoch. It never goes back, even if the clock does.
    epoch: u32,
    /// The key of the epoch before, and that of the present one.
    keys: [RandomizedNonceKey; 2],
}

/// Seals and opens the tickets of one policy.
#[derive(Debug)]
pub(crate) struct Ticketer {
    pub(crate) keys: Arc<TicketKeys>,
    /// The policy that a session is bound to.
    pub(crate) policy: TlsPolicyId,
}

impl TicketSecret {
    /// Makes a secret for this process and those that inherit it.
    ///
    /// # Panics
    /// The kernel gives no random bytes.
    pub(crate) fn random() -> TicketSecret {
        TicketSecret::random_at(now(&DefaultTimeProvider))
    }

    fn random_at(unix_s: u64) -> TicketSecret {
        let mut secret = [0; SECRET_LEN];
        aws_lc_rs::rand::fill(&mut secret).expect("the kernel gives random bytes");
        TicketSecret { epoch: epoch_of(unix_s).saturating_sub(1), secret }
    }

    /// Goes forward by an epoch, and erases the earlier secret.
    fn advance(&mut self) {
        let mut next = self.expand(b"tarpon ticket secret");
        self.secret.zeroize();
        self.secret = next;
        next.zeroize();
        self.epoch += 1;
    }

    /// Returns the key of the epoch.
    fn key(&self) -> RandomizedNonceKey {
        let mut key = self.expand(b"tarpon ticket key");
        let made = RandomizedNonceKey::new(&AES_256_GCM, &key).expect("the key has 32 bytes");
        key.zeroize();
        made
    }

    /// RFC 5869, section 2.3.
    fn expand(&self, label: &[u8]) -> [u8; SECRET_LEN] {
        let mut out = [0; SECRET_LEN];
        let info = [label];
        let key = Prk::new_less_safe(HKDF_SHA256, &self.secret);
        let expanded = key.expand(&info, OutputLen);
        expanded.and_then(|okm| okm.fill(&mut out)).expect("HKDF-SHA256 gives 32 bytes");
        out
    }
}

impl Drop for TicketSecret {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

struct OutputLen;

impl KeyType for OutputLen {
    fn len(&self) -> usize {
        SECRET_LEN
    }
}

impl TicketKeys {
    /// Returns the keys that follow from a secret.
    pub(crate) fn new(secret: TicketSecret) -> Arc<TicketKeys> {
        TicketKeys::with_clock(secret, Arc::new(DefaultTimeProvider))
    }

    fn with_clock(secret: TicketSecret, clock: Arc<dyn TimeProvider>) -> Arc<TicketKeys> {
        let state = KeyState::new(secret);
        let keys = TicketKeys { clock, state: RwLock::new(state) };
        keys.advance();
        Arc::new(keys)
    }

    /// Goes forward to the present epoch. A process that makes no tickets calls this now and then, so that it forgets earlier secrets too.
    pub(crate) fn advance(&self) {
        let epoch = epoch_of(now(&*self.clock));
        if self.state.read().unwrap_or_else(PoisonError::into_inner).epoch < epoch {
            self.state.write().unwrap_or_else(PoisonError::into_inner).advance(epoch);
        }
    }

    /// Returns the present secret, for a process that takes over.
    pub(crate) fn secret(&self) -> TicketSecret {
        self.advance();
        self.state.read().unwrap_or_else(PoisonError::into_inner).secret.clone()
    }
}

impl KeyState {
    fn new(secret: TicketSecret) -> KeyState {
        let mut next = secret.clone();
        next.advance();
        KeyState { epoch: next.epoch, keys: [secret.key(), next.key()], secret }
    }

    fn advance(&mut self, epoch: u32) {
        if epoch <= self.epoch {
            return;
        }
        let mut secret = self.secret.clone();
        while secret.epoch < epoch - 1 {
            secret.advance();
        }
        *self = KeyState::new(secret);
    }

    /// Returns the key of an epoch, if its tickets are accepted.
    fn key(&self, epoch: u32) -> Option<&RandomizedNonceKey> {
        let age = self.epoch.checked_sub(epoch)?;
        [&self.keys[1], &self.keys[0]].get(age as usize).copied()
    }
}

impl Ticketer {
    /// Returns the associated data of a ticket.
    fn associated_data(&self, epoch: u32) -> Aad<[u8; 36]> {
        let mut data = [0; 36];
        data[..4].copy_from_slice(&epoch.to_be_bytes());
        data[4..].copy_from_slice(&self.policy.0);
        Aad::from(data)
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        EPOCH_S as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.advance();
        let state = self.keys.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut sealed = plain.to_vec();
        let data = self.associated_data(state.epoch);
        let nonce = state.keys[1].seal_in_place_append_tag(data, &mut sealed).ok()?;
        Some([&state.epoch.to_be_bytes()[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (epoch, rest) = ticket.split_first_chunk::<4>()?;
        let (nonce, sealed) = rest.split_first_chunk::<12>()?;
        let epoch = u32::from_be_bytes(*epoch);
        self.keys.advance();
        let state = self.keys.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = state.key(epoch)?.open_in_place(nonce, self.associated_data(epoch), &mut sealed);
        let len = opened.ok()?.len();
        sealed.truncate(len);
        Some(sealed)
    }
}

/// Returns the number of the epoch. A 32-bit number lasts for four million years.
fn epoch_of(unix_s: u64) -> u32 {
    u32::try_from(unix_s / EPOCH_S).unwrap_or(u32::MAX - 1)
}

/// Returns the wall clock in seconds since 1970; 0 if it is set before.
fn now(clock: &dyn TimeProvider) -> u64 {
    clock.current_time().map_or(0, |now: UnixTime| now.as_secs())
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketSecret").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicU64, Ordering::Relaxed},
        time::Duration,
    };

    #[derive(Debug, Default)]
    struct TestClock(AtomicU64);

    impl TimeProvider for TestClock {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Relaxed))))
        }
    }

    /// Returns the ticketer of a process that starts at this time.
    fn process(secret: &TicketSecret, at: u64, policy: u8) -> (Ticketer, Arc<TestClock>) {
        let clock = Arc::new(TestClock(at.into()));
        let keys = TicketKeys::with_clock(secret.clone(), Arc::clone(&clock) as Arc<dyn TimeProvider>);
        (Ticketer { keys, policy: TlsPolicyId([policy; 32]) }, clock)
    }

    const START: u64 = 1_800_000_000 / EPOCH_S * EPOCH_S;
    const H: u64 = 3600;

    #[test]
    #[rustfmt::skip]
    fn ticket_is_opened_in_its_epoch_and_the_next_by_every_process() {
        let secret = TicketSecret::random_at(START);
        let cases: &[(&str, u64, u64, bool)] = &[
            // case                     made        opened        accepted
            ("at once",                 0,          0,            true),
            ("the end of the epoch",    0,          8 * H - 1,    true),
            ("the next epoch",          0,          8 * H,        true),
            ("the end of the next",     0,          16 * H - 1,   true),
            ("two epochs later",        0,          16 * H,       false),
            ("a late ticket",           8 * H - 1,  8 * H,        true),
            ("years later",             0,          90_000 * H,   false),
            ("another process is late", 8 * H,      8 * H - 1,    false),
            ("made after years",        90_000 * H, 90_001 * H,   true),
        ];
        for (name, made, opened, is_accepted) in cases {
            let (maker, _) = process(&secret, START + made, 1);
            let (opener, _) = process(&secret, START + opened, 1);
            // A process that has run since the start derives the same keys as one that starts now.
            let (running, clock) = process(&secret, START, 1);
            running.encrypt(b"session").unwrap();
            clock.0.store(START + opened, Relaxed);
            let ticket = maker.encrypt(b"session").unwrap();
            let want = is_accepted.then(|| b"session".to_vec());
            assert_eq!(opener.decrypt(&ticket), want, "{name}");
            assert_eq!(running.decrypt(&ticket), want, "{name}, long-running");
            // A successor gets the present state only.
            let (successor, _) = process(&running.keys.secret(), START + opened, 1);
            assert_eq!(successor.decrypt(&ticket), want, "{name}, successor");
        }
    }

    #[test]
    fn clock_that_goes_back_changes_no_key() {
        let (process, clock) = process(&TicketSecret::random_at(START), START + 8 * H, 1);
        let ticket = process.encrypt(b"session").unwrap();
        for at in [START, 0, START + 8 * H] {
            clock.0.store(at, Relaxed);
            assert_eq!(process.decrypt(&ticket).as_deref(), Some(&b"session"[..]), "{at}");
            assert_eq!(process.encrypt(b"session").unwrap()[..4], ticket[..4], "{at}");
        }
    }

    #[test]
    fn forged_ticket_and_that_of_another_policy_do_not_resume() {
        let secret = TicketSecret::random_at(START);
        let (ticketer, _) = process(&secret, START, 1);
        let ticket = ticketer.encrypt(b"session").unwrap();
        assert_eq!(process(&secret, START, 2).0.decrypt(&ticket), None, "another policy");
        assert_eq!(
            process(&TicketSecret::random_at(START), START, 1).0.decrypt(&ticket),
            None,
            "another secret"
        );
        for len in 0..ticket.len() {
            assert_eq!(ticketer.decrypt(&ticket[..len]), None, "cut at {len}");
            let mut changed = ticket.clone();
            changed[len] ^= 1;
            assert_eq!(ticketer.decrypt(&changed), None, "byte {len} changed");
        }
        let mut longer = ticket.clone();
        longer.push(0);
        assert_eq!(ticketer.decrypt(&longer), None, "a byte more");
        assert_eq!(ticketer.decrypt(&[0xff; 200]), None, "garbage");
        assert_ne!(ticketer.encrypt(b"session").unwrap(), ticket, "a nonce for each ticket");
    }

    #[test]
    fn earlier_secret_does_not_follow_from_a_later_one() {
        let mut secret = TicketSecret::random_at(START);
        let earlier = secret.clone();
        secret.advance();
        assert_eq!(secret.epoch, earlier.epoch + 1);
        assert_ne!(secret.secret, earlier.secret);
        assert!(!format!("{secret:?}").contains("secret:"), "Debug shows no secret");
    }
}
