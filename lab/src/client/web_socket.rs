//! WebSocket, as far as the lab needs it: the request for a tunnel, and short messages of text. RFC 6455, section 5.2.
//!
//! ```text
//! 0x81  masked? + length  [mask, 4 bytes]  text
//! ```
//!
//! Clients mask their messages, servers do not. A message of the lab fits into one frame with a length of one byte.

use std::fmt;

/// Returns the request that opens a tunnel.
pub(crate) fn request(host: &str, path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {KEY}\r\n\r\n"
    )
    .into_bytes()
}

/// A message, and the bytes of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebSocketMessage {
    pub(crate) text: Vec<u8>,
    pub(crate) len: usize,
}

/// Reads the frame at the front of `wire`. Returns `None` while it is incomplete.
pub(crate) fn parse(wire: &[u8]) -> Result<Option<WebSocketMessage>, WebSocketError> {
    let &[kind, len, ref rest @ ..] = wire else { return Ok(None) };
    let (is_masked, len) = (len & MASKED != 0, usize::from(len & !MASKED));
    if kind != FINAL_TEXT || len > TEXT_LEN_MAX {
        return Err(WebSocketError);
    }
    let mask_len = if is_masked { 4 } else { 0 };
    let Some(payload) = rest.get(mask_len..mask_len + len) else { return Ok(None) };
    let mask = if is_masked { &rest[..mask_len] } else { &[0] };
    let text = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Ok(Some(WebSocketMessage { text, len: 2 + mask_len + len }))
}

/// Returns the frame of a message from a client.
pub(crate) fn from_client(text: &[u8]) -> Vec<u8> {
    assert!(text.len() <= TEXT_LEN_MAX, "the lab sends short messages");
    let masked = text.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [FINAL_TEXT, MASKED | text.len() as u8].into_iter().chain(MASK).chain(masked).collect()
}

/// Returns the frame of a message from a server.
pub(crate) fn from_server(text: &[u8]) -> Vec<u8> {
    assert!(text.len() <= TEXT_LEN_MAX, "the lab sends short messages");
    [&[FINAL_TEXT, text.len() as u8], text].concat()
}

/// The frame is not a short message of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebSocketError;

impl fmt::Display for WebSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes in the tunnel are not a short message of text")
    }
}

impl std::error::Error for WebSocketError {}

/// The key of every handshake of the lab, and the value that accepts it: the example of RFC 6455, section 1.3. So neither side needs SHA-1.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A final frame with text.
const FINAL_TEXT: u8 = 0x81;

/// The bit of a masked frame.
const MASKED: u8 = 0x80;

/// A mask is there to confuse caches, and nothing between client and server of the lab looks into a tunnel: it may be the same for all.
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

/// Longer messages have longer lengths.
const TEXT_LEN_MAX: usize = 125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_survives_framing_at_every_cut() {
        for text in [&b""[..], b"a", b"hello", &[b'x'; TEXT_LEN_MAX]] {
            for wire in [from_client(text), from_server(text)] {
                let want = WebSocketMessage { text: text.to_vec(), len: wire.len() };
                for cut in 0..wire.len() {
                    assert_eq!(parse(&wire[..cut]), Ok(None), "{cut} bytes of {wire:?}");
                }
                assert_eq!(parse(&[&wire[..], b"more"].concat()), Ok(Some(want)), "{wire:?}");
            }
        }
    }

    #[test]
    fn other_frames_are_refused() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8])] = &[
            ("binary",        &[0x82, 0]),
            ("close",         &[0x88, 0]),
            ("not final",     &[0x01, 0]),
            ("longer",        &[0x81, 126, 0, 126]),
            ("a response",    b"HTTP/1.1 502"),
        ];
        for (name, wire) in cases {
            assert_eq!(parse(wire), Err(WebSocketError), "{name}");
        }
    }
}
