//! Percent-encoding of paths. RFC 3986, sections 2.1 and 3.3.

/// Returns a path as URIs write it: percent-encodes every byte that is neither a pchar nor a slash.
pub(crate) fn encode(path: &[u8]) -> String {
    let mut to = Vec::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' => to.push(byte),
            _ if b"-._~!$&'()*+,;=:@".contains(&byte) => to.push(byte),
            _ => escape(byte, &mut to),
        }
    }
    String::from_utf8(to).expect("the encoded path is ASCII")
}

/// Percent-encodes a byte.
pub(crate) fn escape(byte: u8, to: &mut Vec<u8>) {
    to.extend(format!("%{byte:02X}").bytes());
}
