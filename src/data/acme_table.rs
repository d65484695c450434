//! What ACME brings, in memory that all processes of a service share: the supervisor writes it, workers of all generations read it.
//!
//! ```text
//! supervisor ─ writes ─▶ [ challenges │ certificates │ states ] ◀─ reads ─ workers, admin listener
//! ```
//!
//! A worker that an attacker controls could write records; it gains nothing, as it may answer clients with anything by itself, and readers
//! check every length.

use super::record_table::RecordTable;
use crate::sys::shared::SharedArray;
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// The certificates and challenges of a service.
#[derive(Debug)]
pub(crate) struct AcmeTable {
    challenges: RecordTable,
    certificates: RecordTable,
    states: RecordTable,
    /// Counts the changes of `certificates`.
    changes: SharedArray<AtomicU64>,
}

/// Challenges at a time, at most: one order has no more names than this.
pub(crate) const CHALLENGE_COUNT_MAX: usize = 100;
/// Certificates of a service, at most. Each site with names of its own has one.
pub(crate) const CERTIFICATE_COUNT_MAX: usize = 1000;
/// Bytes of a challenge, at most: a name, a token, and a key authorization or a certificate with its key.
const CHALLENGE_LEN_MAX: usize = 2048;
/// Bytes of a certificate with its key in PEM, at most.
const CERTIFICATE_LEN_MAX: usize = 36 * 1024;
/// Bytes of the state of a certificate, at most.
const STATE_LEN_MAX: usize = 8 * 1024;

/// What a record of a challenge begins with.
const HTTP: u8 = 1;
const TLS_ALPN: u8 = 2;

/// The certificate and the key with which a server answers tls-alpn-01.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChallengeCertificate {
    /// In DER.
    pub(crate) certificate: Vec<u8>,
    /// In DER, PKCS #8.
    pub(crate) key: Vec<u8>,
}

impl AcmeTable {
    /// Maps a table without records. Its pages cost nothing until they are used.
    pub(crate) fn new() -> io::Result<AcmeTable> {
        Ok(AcmeTable {
            challenges: RecordTable::new(CHALLENGE_COUNT_MAX, CHALLENGE_LEN_MAX)?,
            certificates: RecordTable::new(CERTIFICATE_COUNT_MAX, CERTIFICATE_LEN_MAX)?,
            states: RecordTable::new(CERTIFICATE_COUNT_MAX, STATE_LEN_MAX)?,
            changes: SharedArray::zeros(1)?,
        })
    }

    /// Publishes the answer to http-01, in place of an earlier one for the name: an order that is tried again has another token. Returns whether there was room.
    pub(crate) fn add_http(&self, name: &str, token: &str, key_authorization: &str) -> bool {
        self.add(HTTP, [name.as_bytes(), token.as_bytes(), key_authorization.as_bytes()])
    }

    /// Publishes the answer to tls-alpn-01, in place of an earlier one for the name. Returns whether there was room.
    pub(crate) fn add_tls_alpn(&self, name: &str, certificate: &[u8], key: &[u8]) -> bool {
        self.add(TLS_ALPN, [name.as_bytes(), certificate, key])
    }

    fn add(&self, kind: u8, parts: [&[u8]; 3]) -> bool {
        let mut record = vec![kind];
        for part in parts {
            record.extend((part.len() as u16).to_le_bytes());
            record.extend(part);
        }
        let free = || (0..CHALLENGE_COUNT_MAX).find(|&number| self.challenges.is_empty(number));
        let number = self.find_challenge(kind, parts[0], |number, _, _| Some(number)).or_else(free);
        number.is_some_and(|number| self.challenges.write(number, &record))
    }

    /// Removes all challenges.
    pub(crate) fn clear_challenges(&self) {
        for number in 0..CHALLENGE_COUNT_MAX {
            if !self.challenges.is_empty(number) {
                self.challenges.write(number, &[]);
            }
        }
    }

    /// Finds the answer to http-01 for a host and a token, and writes it to the front of `to`. Returns its length.
    pub(crate) fn answer(&self, host: &[u8], token: &[u8], to: &mut [u8]) -> Option<usize> {
        self.find_challenge(HTTP, host, |_, second, answer| {
            let to = to.get_mut(..answer.len()).filter(|_| !token.is_empty() && second == token)?;
            to.copy_from_slice(answer);
            Some(answer.len())
        })
    }

    /// Finds the certificate with which a server answers tls-alpn-01 for a name: for a client that offers `acme-tls/1`, RFC 8737.
    pub(crate) fn challenge_certificate(&self, name: &str) -> Option<ChallengeCertificate> {
        self.find_challenge(TLS_ALPN, name.as_bytes(), |_, certificate, key| {
            Some(ChallengeCertificate { certificate: certificate.to_vec(), key: key.to_vec() })
        })
    }

    /// Returns the first result of a challenge of this kind and name, from its number and what follows the name.
    fn find_challenge<T>(
        &self,
        kind: u8,
        name: &[u8],
        mut result: impl FnMut(usize, &[u8], &[u8]) -> Option<T>,
    ) -> Option<T> {
        let name = name.strip_suffix(b".").unwrap_or(name);
        let mut record = Vec::new();
        (0..CHALLENGE_COUNT_MAX).filter(|&number| !self.challenges.is_empty(number)).find_map(|number| {
            self.challenges.read(number, &mut record)?;
            let (&found_kind, rest) = record.split_first()?;
            let (found_name, rest) = part(rest)?;
            let (second, rest) = part(rest)?;
            let (third, _) = part(rest)?;
            let is_meant = found_kind == kind && found_name.eq_ignore_ascii_case(name);
            if is_meant { result(number, second, third) } else { None }
        })
    }

    /// Sets the certificate of a number: the chain and the key, both in PEM. Returns whether they fit.
    pub(crate) fn set_certificate(&self, number: usize, chain: &str, key: &str) -> bool {
        let is_set = number < CERTIFICATE_COUNT_MAX
            && self.certificates.write(number, format!("{key}{chain}").as_bytes());
        self.changes[0].fetch_add(1, Ordering::Release);
        is_set
    }

    /// Removes the certificate of a number, and its state.
    pub(crate) fn remove(&self, number: usize) {
        self.certificates.write(number, &[]);
        self.states.write(number, &[]);
        self.changes[0].fetch_add(1, Ordering::Release);
    }

    /// Returns a number that changes with each change of a certificate: a reader that has seen it needs not read again.
    pub(crate) fn change_count(&self) -> u64 {
        self.changes[0].load(Ordering::Acquire)
    }

    /// Returns all certificates, each with its number: the key and the chain in PEM, in one text.
    pub(crate) fn certificates(&self) -> Vec<(usize, String)> {
        (0..CERTIFICATE_COUNT_MAX).filter_map(|number| Some((number, self.certificate(number)?))).collect()
    }

    fn certificate(&self, number: usize) -> Option<String> {
        if self.certificates.is_empty(number) {
            return None;
        }
        let mut record = Vec::new();
        self.certificates.read(number, &mut record)?;
        String::from_utf8(record).ok()
    }

    /// Sets the state of the certificate of a number, as text.
    pub(crate) fn set_state(&self, number: usize, state: &str) {
        self.states.write(number, state.as_bytes());
    }

    /// Returns the states of all certificates.
    pub(crate) fn states(&self) -> Vec<String> {
        let state = |number| {
            let mut record = Vec::new();
            self.states.read(number, &mut record)?;
            String::from_utf8(record).ok()
        };
        (0..CERTIFICATE_COUNT_MAX).filter(|&number| !self.states.is_empty(number)).filter_map(state).collect()
    }
}

/// Returns the part at the front of a record, and the rest.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, thread};

    #[test]
    fn challenges_are_found_by_name_and_token() {
        let table = AcmeTable::new().unwrap();
        assert!(table.add_http("a.example", "one", "one.print"));
        assert!(table.add_http("c.example", "former", "former.print"));
        assert!(table.add_http("c.example", "two", "two.print"));
        assert!(table.add_tls_alpn("a.example", b"former", b"former"));
        assert!(table.add_tls_alpn("a.example", b"der", b"key"));
        #[rustfmt::skip]
        let cases: [(&str, &str, Option<&str>); 9] = [
            ("a.example",  "one", Some("one.print")),
            ("C.Example.", "two", Some("two.print")),
            ("c.example",  "former", None),
            ("a.example",  "der", None),
            ("a.example",  "",    None),
            ("a.example",  "on",  None),
            ("b.example",  "one", None),
            ("",           "one", None),
            ("a.example",  "one.print", None),
        ];
        for (host, token, want) in cases {
            let mut to = [0; 192];
            let len = table.answer(host.as_bytes(), token.as_bytes(), &mut to);
            assert_eq!(len.map(|len| &to[..len]), want.map(str::as_bytes), "{host} {token}");
        }
        assert_eq!(table.answer(b"a.example", b"one", &mut [0; 3]), None, "no room");
        let certificate = ChallengeCertificate { certificate: b"der".to_vec(), key: b"key".to_vec() };
        assert_eq!(table.challenge_certificate("A.example"), Some(certificate));
        assert_eq!(table.challenge_certificate("b.example"), None);
        table.clear_challenges();
        assert_eq!(table.answer(b"a.example", b"one", &mut [0; 192]), None);
        assert_eq!(table.challenge_certificate("a.example"), None);
        // As many as an order may have, and no more.
        let added =
            (0..CHALLENGE_COUNT_MAX + 1).filter(|at| table.add_http(&at.to_string(), "t", "t.p")).count();
        assert_eq!(added, CHALLENGE_COUNT_MAX);
    }

    #[test]
    fn certificates_and_states_are_replaced() {
        let table = AcmeTable::new().unwrap();
        assert_eq!((table.certificate(0), table.states(), table.change_count()), (None, vec![], 0));
        assert!(table.set_certificate(0, "chain", "key ") && table.set_certificate(1, "other", ""));
        assert!(!table.set_certificate(0, &"x".repeat(CERTIFICATE_LEN_MAX + 1), ""));
        assert!(!table.set_certificate(CERTIFICATE_COUNT_MAX, "x", "x"));
        table.set_state(1, "good");
        assert_eq!(
            (table.certificate(0), table.states()),
            (Some("key chain".to_owned()), vec!["good".to_owned()])
        );
        let before = table.change_count();
        assert_eq!(table.certificates().len(), 2);
        table.remove(1);
        assert_eq!((table.certificate(1), table.states()), (None, vec![]));
        assert!(table.change_count() > before && table.certificate(0).is_some());
    }

    #[test]
    fn readers_see_whole_records_while_they_are_replaced() {
        let table = Arc::new(AcmeTable::new().unwrap());
        let text = |number: u8| (number as char).to_string().repeat(100 + usize::from(number));
        table.set_certificate(0, &text(b'a'), "");
        let stop = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (table, stop) = (Arc::clone(&table), Arc::clone(&stop));
                thread::spawn(move || {
                    while stop.load(Ordering::Relaxed) == 0 {
                        let Some(found) = table.certificate(0) else { continue };
                        assert_eq!(found, text(found.as_bytes()[0]));
                    }
                })
            })
            .collect();
        for round in 0..20_000u32 {
            table.set_certificate(0, &text(b'a' + (round % 20) as u8), "");
        }
        stop.store(1, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    }
}
