//! The result of a TLS handshake, for records and counters.

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// Whether the version is 1.3, and not 1.2.
    pub is_tls13: bool,
    /// Whether the handshake resumed a session.
    pub is_resumed: bool,
    /// The number of the cipher suite, of IANA's registry "TLS Cipher Suites".
    pub suite: u16,
}

impl TlsSession {
    /// The length of the encoded form, in bytes.
    pub(crate) const LEN: usize = 3;

    const PRESENT: u8 = 1;
    const TLS13: u8 = 2;
    const RESUMED: u8 = 4;

    /// Encodes a session, or its absence.
    pub(crate) fn to_bytes(session: Option<TlsSession>) -> [u8; TlsSession::LEN] {
        let Some(TlsSession { is_tls13, is_resumed, suite }) = session else { return [0; TlsSession::LEN] };
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let [high, low] = suite.to_be_bytes();
        let flags =
            TlsSession::PRESENT | flag(is_tls13, TlsSession::TLS13) | flag(is_resumed, TlsSession::RESUMED);
        [flags, high, low]
    }

    /// Decodes a session, or its absence.
    pub(crate) fn from_bytes([flags, high, low]: [u8; TlsSession::LEN]) -> Option<TlsSession> {
        let is_set = |flag| flags & flag != 0;
        is_set(TlsSession::PRESENT).then(|| TlsSession {
            is_tls13: is_set(TlsSession::TLS13),
            is_resumed: is_set(TlsSession::RESUMED),
            suite: u16::from_be_bytes([high, low]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_sessions_are_decoded() {
        for bits in 0..4 {
            let session = TlsSession { is_tls13: bits & 1 > 0, is_resumed: bits & 2 > 0, suite: 0xc02b };
            assert_eq!(TlsSession::from_bytes(TlsSession::to_bytes(Some(session))), Some(session));
        }
        assert_eq!(TlsSession::from_bytes(TlsSession::to_bytes(None)), None);
    }
}
