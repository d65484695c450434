//! Keys of WebSocket handshakes with servers of HTTP/1, for clients that send none: those of HTTP/2. RFC 6455, section 4.1.
//!
//! A key shows a server that the client means WebSocket, and keeps caches from answering. It is no secret, so a seed and a count make it.
//! This side does not check the answer of a server to a key, Sec-WebSocket-Accept: that takes SHA-1, which the crate does not have. The servers
//! are those of the configuration, and each must name the protocol in its response.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The keys of one worker.
#[derive(Debug, Default)]
pub(crate) struct WebSocketKeys {
    pub(crate) seed: u64,
    count: u64,
}

/// A key: 16 bytes as base64.
pub(crate) type WebSocketKey = [u8; 24];

impl WebSocketKeys {
    /// Returns a new key.
    pub(crate) fn next(&mut self) -> WebSocketKey {
        self.count += 1;
        let half = |number: u8| {
            let mut hasher = DefaultHasher::new();
            (self.seed, self.count, number).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        encode(half(0) << 64 | half(1))
    }
}

/// Returns the base64 form of 16 bytes, the first ones highest. RFC 4648, section 4.
fn encode(bytes: u128) -> WebSocketKey {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut key = *b"AAAAAAAAAAAAAAAAAAAAAA==";
    for (number, digit) in key[..22].iter_mut().enumerate() {
        // 21 digits of 6 bits, and one with the last 2.
        let bits = if number < 21 { bytes >> (122 - 6 * number) } else { bytes << 4 };
        *digit = DIGITS[(bits & 63) as usize];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_base64_of_16_bytes_and_differ() {
        // RFC 6455, section 1.3.
        assert_eq!(&encode(u128::from_be_bytes(*b"the sample nonce")), b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(&encode(u128::MAX), b"/////////////////////w==");
        let mut seen = HashSet::new();
        for seed in [0, 1, u64::MAX] {
            let mut keys = WebSocketKeys { seed, count: 0 };
            assert!((0..1_000).all(|_| seen.insert(keys.next())), "seed {seed}");
        }
    }
}
