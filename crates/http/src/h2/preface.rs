//! The preface: the first bytes of each client. RFC 9113, section 3.4.

/// The bytes that a client sends first. A frame of [SETTINGS](super::FrameType::Settings) follows them.
pub const PREFACE: &[u8; PREFACE_LEN] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of [`PREFACE`] in bytes.
pub const PREFACE_LEN: usize = 24;

/// Whether a connection begins with the preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefaceCheck {
    /// It does; the first frame begins after [`PREFACE_LEN`] bytes.
    Complete,
    /// It does as far as its bytes have arrived.
    Incomplete,
    /// It does not: it is no connection of HTTP/2, and the error is `PROTOCOL_ERROR`.
    Mismatch,
}

/// Checks the first bytes of a connection: all that have arrived, or at least the first [`PREFACE_LEN`]. A byte that differs is a mismatch at
/// once, so that a client of another protocol gets an answer before the timeout.
///
/// ```
/// use tarpon_http::h2::{PrefaceCheck, check_preface};
///
/// assert_eq!(check_preface(b"PRI * HT"), PrefaceCheck::Incomplete);
/// assert_eq!(check_preface(b"GET"), PrefaceCheck::Mismatch);
/// ```
#[must_use]
pub fn check_preface(received: &[u8]) -> PrefaceCheck {
    let len = received.len().min(PREFACE_LEN);
    match received[..len] == PREFACE[..len] {
        false => PrefaceCheck::Mismatch,
        true if len == PREFACE_LEN => PrefaceCheck::Complete,
        true => PrefaceCheck::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preface_is_checked_at_every_cut() {
        for cut in 0..PREFACE_LEN {
            assert_eq!(check_preface(&PREFACE[..cut]), PrefaceCheck::Incomplete, "{cut} bytes");
            let mut other = *PREFACE;
            other[cut] ^= 1;
            for end in cut + 1..=PREFACE_LEN {
                assert_eq!(check_preface(&other[..end]), PrefaceCheck::Mismatch, "byte {cut} of {end}");
            }
        }
        let mut with_frame = [0; PREFACE_LEN + 9];
        with_frame[..PREFACE_LEN].copy_from_slice(PREFACE);
        assert_eq!(check_preface(PREFACE), PrefaceCheck::Complete);
        assert_eq!(check_preface(&with_frame), PrefaceCheck::Complete);
    }
}
