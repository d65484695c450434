//! The users of paths with a password, and the passwords that were verified lately.
//!
//! ```text
//! name ─▶ user ─ hash ─┐
//! password ────────────┴─ keyed hash ─▶ digest ─ in the table? ─┬─ yes ─▶ passes
//!                                                                └─ no ──▶ slow hash, on another thread ─ right ─▶ into the table
//! ```
//!
//! **The table** has 1,024 digests in memory that all workers and processes share. A digest is an HMAC of the name, the password and the hash that the
//! user has, under a random key of the supervisor: so the table tells nothing without that key, and a changed password is another digest. A digest
//! that is read while another process writes it is a mixture of two, which no password has.
//!
//! **A name that no user has** takes as long as a wrong password: its password is compared with the hash that takes longest, and refused.

use crate::{
    base::password::{PasswordHash, PasswordUser},
    sys::shared::SharedArray,
};
use aws_lc_rs::hmac;
use std::{
    collections::HashMap,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tarpon_conn::{CredentialDigest, PasswordUsers};
use tarpon_http::basic::BasicCredentials;
use zeroize::Zeroize;

/// The passwords that all servers of a supervisor have verified.
#[derive(Clone)]
pub(crate) struct VerifiedPasswords {
    words: Arc<SharedArray<AtomicU64>>,
    key: Arc<hmac::Key>,
}

/// The users of some paths.
pub(super) struct UserTable {
    by_name: HashMap<Box<[u8]>, PasswordHash>,
    /// The hash that takes longest: that of names which no user has. `None`: there is no user.
    decoy: Option<PasswordHash>,
    verified: VerifiedPasswords,
}

/// Sets of digests, a power of two: 32 KiB in all.
const SET_COUNT: usize = 256;
/// The digests of a set: all are compared.
const SET_LEN: usize = 4;
/// The words of a digest.
const DIGEST_LEN: usize = 4;

impl VerifiedPasswords {
    /// Maps a table that is shared with all processes forked later, and makes its key.
    ///
    /// # Panics
    /// The kernel gives no random bytes.
    pub(crate) fn new() -> io::Result<VerifiedPasswords> {
        let words = Arc::new(SharedArray::zeros(SET_COUNT * SET_LEN * DIGEST_LEN)?);
        let mut key = [0; 32];
        // Not by aws-lc-rs, whose generator has to gather randomness first: a server without TLS starts without it.
        getrandom::fill(&mut key).expect("the kernel gives random bytes");
        let of_process = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &key));
        key.zeroize();
        Ok(VerifiedPasswords { words, key: of_process })
    }

    /// Returns what credentials are known by, of a user with this hash.
    fn digest(
        &self,
        BasicCredentials { name, password }: BasicCredentials<'_>,
        hash: Option<&PasswordHash>,
    ) -> CredentialDigest {
        let mut context = hmac::Context::with_key(&self.key);
        // Each part with its length, but the last.
        for part in [hash.map_or(&[][..], |hash| hash.as_str().as_bytes()), name] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        context.update(password);
        let tag = context.sign();
        CredentialDigest(tag.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes"))
    }

    /// Returns whether the table has a digest. Compares all of its set, to the last byte.
    fn has(&self, digest: &CredentialDigest) -> bool {
        let wanted = words_of(digest);
        let mut is_found = false;
        for place in self.set(&wanted).as_chunks::<DIGEST_LEN>().0 {
            let differs = place
                .iter()
                .zip(wanted)
                .fold(0, |differs, (word, wanted)| differs | (word.load(Relaxed) ^ wanted));
            is_found |= differs == 0;
        }
        is_found
    }

    /// Adds a digest, in the place of another one if its set is full.
    fn add(&self, digest: &CredentialDigest) {
        let words = words_of(digest);
        let (places, _) = self.set(&words).as_chunks::<DIGEST_LEN>();
        let is_free = |place: &[AtomicU64; DIGEST_LEN]| place.iter().all(|word| word.load(Relaxed) == 0);
        // No client can choose whose place it takes: the bits are those of a keyed hash.
        let random = words[DIGEST_LEN - 1] as usize % SET_LEN;
        let place = places.iter().position(is_free).unwrap_or(random);
        for (word, value) in places[place].iter().zip(words) {
            word.store(value, Relaxed);
        }
    }

    /// Returns the set that has a digest.
    fn set(&self, words: &[u64; DIGEST_LEN]) -> &[AtomicU64] {
        let number = words[0] as usize % SET_COUNT;
        &self.words[number * SET_LEN * DIGEST_LEN..][..SET_LEN * DIGEST_LEN]
    }
}

fn words_of(CredentialDigest(bytes): &CredentialDigest) -> [u64; DIGEST_LEN] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|number| u64::from_le_bytes(words[number]))
}

impl UserTable {
    /// Returns a table of these users.
    pub(super) fn new(users: &[PasswordUser], verified: VerifiedPasswords) -> UserTable {
        let decoy = users.iter().map(PasswordUser::hash).max_by_key(|hash| hash.cost()).cloned();
        let by_name = users.iter().map(|user| (user.name().as_bytes().into(), user.hash().clone()));
        UserTable { by_name: by_name.collect(), decoy, verified }
    }

    /// Returns the hash that a password must have, and whether there is a user of this name.
    fn find(&self, name: &[u8]) -> (Option<&PasswordHash>, bool) {
        let found = self.by_name.get(name);
        (found.or(self.decoy.as_ref()), found.is_some())
    }
}

impl PasswordUsers for UserTable {
    fn recall(&self, credentials: BasicCredentials<'_>) -> Result<(), CredentialDigest> {
        let (hash, is_user) = self.find(credentials.name);
        let digest = self.verified.digest(credentials, hash);
        if self.verified.has(&digest) & is_user { Ok(()) } else { Err(digest) }
    }

    fn verify(&self, credentials: BasicCredentials<'_>, digest: &CredentialDigest) -> bool {
        let (hash, is_user) = self.find(credentials.name);
        let is_right = hash.is_some_and(|hash| hash.is_of(credentials.password)) & is_user;
        if is_right {
            self.verified.add(digest);
        }
        is_right
    }
}

impl fmt::Debug for VerifiedPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedPasswords").finish_non_exhaustive()
    }
}

impl fmt::Debug for UserTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserTable").field("count", &self.by_name.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users with hashes of their names by bcrypt, at the least cost.
    fn table(names: &[&str], verified: &VerifiedPasswords) -> UserTable {
        let user = |name: &&str| {
            let hash = bcrypt::hash_with_salt(name, 4, [3; 16]).expect("a cost");
            format!("{name}:{hash}").parse().expect("a user")
        };
        UserTable::new(&names.iter().map(user).collect::<Vec<_>>(), verified.clone())
    }

    fn credentials<'a>(name: &'a str, password: &'a str) -> BasicCredentials<'a> {
        BasicCredentials { name: name.as_bytes(), password: password.as_bytes() }
    }

    #[test]
    fn right_passwords_are_remembered_and_no_others() {
        let verified = VerifiedPasswords::new().expect("memory");
        let users = table(&["ann", "bob"], &verified);
        // The last is the password of the user whose hash stands in for those of unknown names.
        for (name, password, is_right) in [
            ("ann", "ann", true),
            ("ann", "bob", false),
            ("bob", "bob", true),
            ("eve", "ann", false),
            ("eve", "bob", false),
            ("", "", false),
        ] {
            let digest = users.recall(credentials(name, password)).expect_err("nothing was verified");
            assert_eq!(users.verify(credentials(name, password), &digest), is_right, "{name}:{password}");
            assert_eq!(users.recall(credentials(name, password)).is_ok(), is_right, "{name}:{password}");
        }
        // A part of the name in the password is another name.
        assert!(users.recall(credentials("an", "nann")).is_err());
        // The same users in another server know each other's passwords; a user with another hash does not.
        assert!(table(&["bob", "ann"], &verified).recall(credentials("ann", "ann")).is_ok());
        let changed = bcrypt::hash_with_salt("ann", 4, [4; 16]).expect("a cost");
        let changed = [format!("ann:{changed}").parse().expect("a user")];
        let changed = UserTable::new(&changed, verified.clone());
        assert!(changed.recall(credentials("ann", "ann")).is_err(), "another salt");
        let other_key = VerifiedPasswords { key: VerifiedPasswords::new().expect("memory").key, ..verified };
        assert!(table(&["ann"], &other_key).recall(credentials("ann", "ann")).is_err(), "another key");
        let nobody = UserTable::new(&[], other_key);
        let digest = nobody.recall(credentials("", "")).expect_err("there is no user");
        assert!(!nobody.verify(credentials("", ""), &digest));
    }

    #[test]
    fn the_table_keeps_its_size() {
        let verified = VerifiedPasswords::new().expect("memory");
        let digest = |number: u64| {
            let hash =
                "$2b$04$......................LAtw7/ohmmBAhnXqmkuIz83Rl5Qdjhm".parse().expect("a hash");
            verified.digest(credentials(&number.to_string(), "a"), Some(&hash))
        };
        let all: Vec<_> = (0..3 * (SET_COUNT * SET_LEN) as u64).map(digest).collect();
        for digest in &all {
            verified.add(digest);
            assert!(verified.has(digest), "the last is known");
        }
        let known = all.iter().filter(|digest| verified.has(digest)).count();
        assert!((SET_COUNT * SET_LEN / 2..=SET_COUNT * SET_LEN).contains(&known), "{known} are known");
    }
}
