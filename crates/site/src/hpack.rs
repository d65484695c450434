//! Encodes the fields of a response as an HPACK block, which HTTP/2 sends. RFC 7541.
//!
//! ```text
//! Vary: Accept-Encoding CRLF   ─▶ [ index of "vary" ][ length ][ "Accept-Encoding", with the Huffman code ]
//! CRLF, the empty line         ─▶ nothing
//! ```
//!
//! A text has exactly one block: a field that the static table has is its index; any other is a literal without indexing, its name an
//! index if the table has that; a string has the Huffman code where that is shorter. A block neither uses nor changes the dynamic table
//! of a connection, so a decoder reads each field without those before it, and a part of a block is a block.
//!
//! So a reader needs no decoder: it compares a block with the result of [`encode`].

use tarpon_http::h2::hpack::{encode_field, split_field};

/// Passes the block of a text to `emit`, byte by byte. The text consists of field lines and one empty line. Returns `None` if a line is
/// no field line; what was emitted then is no block.
pub fn encode(text: &[u8], emit: &mut impl FnMut(u8)) -> Option<()> {
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r\n")?;
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|&byte| byte == b':')?;
        encode_field(&line[..colon], line[colon + 1..].trim_ascii(), emit);
    }
    Some(())
}

/// Returns whether `block` is the block of a text.
pub(crate) fn is_block_of(block: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut is_same) = (block.iter(), true);
    let encoded = encode(text, &mut |byte| is_same &= rest.next() == Some(&byte));
    encoded.is_some() && is_same && rest.next().is_none()
}

/// Returns the length of the first `count` fields of a block, or `None` if it has fewer.
pub(crate) fn fields_len(block: &[u8], count: usize) -> Option<usize> {
    let rest = (0..count).try_fold(block, |rest, _| split_field(rest).map(|(_, rest)| rest))?;
    Some(block.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn field_has_the_length_of_its_encoding() {
        let cases: &[(&str, &str, &str)] = &[
            // case                    name               value
            ("indexed",                ":method",         "GET"),
            ("name indexed",           "Vary",            "X"),
            ("name not indexed",       "X-A",             "~"),
            ("beyond ASCII",           "etag",            "\u{e9}"),
        ];
        for &(name, field, value) in cases {
            let mut got = Vec::new();
            encode_field(field.as_bytes(), value.as_bytes(), &mut |byte| got.push(byte));
            assert_eq!(fields_len(&got, 1), Some(got.len()), "{name}");
            for cut in 0..got.len() {
                assert_eq!(fields_len(&got[..cut], 1), None, "{name}, {cut} bytes");
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn block_belongs_to_one_text() {
        let text = b"ETag:\t1 \r\nVary: X\r\nX-A: ~\r\n\r\n";
        let mut block = Vec::new();
        encode(text, &mut |byte| block.push(byte)).expect("field lines");
        assert_eq!(hex(&block), "0f1301310f2c01580003782d61017e");
        let lens: Vec<_> = (0..5).map(|count| fields_len(&block, count)).collect();
        assert_eq!(lens, [Some(0), Some(4), Some(8), Some(15), None]);

        let cases: &[(&str, &[u8], bool)] = &[
            ("the same",          text,                                                true),
            ("written otherwise", b"etag: 1\r\nvary: X\r\nx-a:~\r\n\r\n",            true),
            ("another value",     b"ETag: 2\r\nVary: X\r\nX-A: ~\r\n\r\n",           false),
            ("another order",     b"Vary: X\r\nETag: 1\r\nX-A: ~\r\n\r\n",           false),
            ("one field less",    b"ETag: 1\r\nVary: X\r\n\r\n",                     false),
            ("one field more",    b"ETag: 1\r\nVary: X\r\nX-A: ~\r\nX: 1\r\n\r\n", false),
            ("no field line",     b"ETag: 1\r\nVary: X\r\nX-A~\r\n\r\n",             false),
            ("a bare LF",         b"ETag: 1\nVary: X\r\nX-A: ~\r\n\r\n",             false),
            ("nothing",           b"",                                                 false),
        ];
        for &(name, text, want) in cases {
            assert_eq!(is_block_of(&block, text), want, "{name}");
        }
        for bit in 0..block.len() * 8 {
            let mut forged = block.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_block_of(&forged, text), "bit {bit}");
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
