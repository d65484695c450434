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

mod huffman;
mod static_table;

use static_table::StaticIndex;

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
    let rest = (0..count).try_fold(block, |rest, _| skip_field(rest))?;
    Some(block.len() - rest.len())
}

/// Encodes a field, with its name in lower case. RFC 9113, section 8.2.1.
fn encode_field(name: &[u8], value: &[u8], emit: &mut impl FnMut(u8)) {
    match static_table::find(name, value) {
        Some(StaticIndex::Field(index)) => return encode_integer(INDEXED, 7, index.into(), emit),
        Some(StaticIndex::Name(index)) => encode_integer(LITERAL, 4, index.into(), emit),
        None => {
            encode_integer(LITERAL, 4, 0, emit);
            encode_string(name.iter().map(u8::to_ascii_lowercase), emit);
        }
    }
    encode_string(value.iter().copied(), emit);
}

/// Encodes a string. RFC 7541, section 5.2.
fn encode_string(bytes: impl ExactSizeIterator<Item = u8> + Clone, emit: &mut impl FnMut(u8)) {
    let (len, coded_len) = (bytes.len(), huffman::encoded_len(bytes.clone()));
    if coded_len < len {
        encode_integer(HUFFMAN, 7, coded_len, emit);
        huffman::encode(bytes, emit);
    } else {
        encode_integer(0, 7, len, emit);
        bytes.for_each(emit);
    }
}

/// Encodes an integer in the lower `prefix` bits of a byte, whose upper bits are those of `pattern`, and in the bytes after it. RFC 7541,
/// section 5.1.
fn encode_integer(pattern: u8, prefix: u32, value: usize, emit: &mut impl FnMut(u8)) {
    let max = (1 << prefix) - 1;
    let Some(mut rest) = value.checked_sub(max) else { return emit(pattern | value as u8) };
    emit(pattern | max as u8);
    while rest >= 0x80 {
        emit(0x80 | rest as u8);
        rest >>= 7;
    }
    emit(rest as u8);
}

/// Returns what follows the first field of a block.
fn skip_field(block: &[u8]) -> Option<&[u8]> {
    let first = *block.first()?;
    if first & INDEXED != 0 {
        return Some(decode_integer(block, 7)?.1);
    }
    let (index, rest) = decode_integer(block, 4)?;
    let rest = if index == 0 { skip_string(rest)? } else { rest };
    skip_string(rest)
}

/// Returns what follows a string.
fn skip_string(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = decode_integer(bytes, 7)?;
    rest.get(len..)
}

/// Decodes an integer, and returns what follows it. Refuses numbers above 2^28, which no block has.
fn decode_integer(bytes: &[u8], prefix: u32) -> Option<(usize, &[u8])> {
    let max = (1 << prefix) - 1;
    let (&first, mut rest) = bytes.split_first()?;
    let mut value = usize::from(first) & max;
    if value < max {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, behind) = rest.split_first()?;
        value += (usize::from(byte) & 0x7f) << shift;
        rest = behind;
        if byte < 0x80 {
            return Some((value, rest));
        }
    }
    None
}

/// The pattern of a field that the static table has. RFC 7541, section 6.1.
const INDEXED: u8 = 0x80;
/// The pattern of a literal without indexing. RFC 7541, section 6.2.2.
const LITERAL: u8 = 0;
/// The pattern of a string with the Huffman code.
const HUFFMAN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn integers_are_encoded_as_in_the_rfc() {
        let cases: &[(&str, u32, usize, &[u8])] = &[
            // case                      prefix  value       RFC 7541, section C.1
            ("fits",                     5,      10,         &[0b01010]),
            ("does not fit",             5,      1337,       &[0b11111, 0b1001_1010, 0b1010]),
            ("at the start of a byte",   8,      42,         &[42]),
            ("all ones",                 5,      31,         &[0b11111, 0]),
            ("two bytes",                7,      127 + 128,  &[0x7f, 0x80, 1]),
            ("largest",                  7,      127 + (1 << 28) - 1, &[0x7f, 0xff, 0xff, 0xff, 0x7f]),
        ];
        for &(name, prefix, value, want) in cases {
            let mut got = Vec::new();
            encode_integer(0, prefix, value, &mut |byte| got.push(byte));
            assert_eq!(got, want, "{name}");
            assert_eq!(decode_integer(&got, prefix), Some((value, &b""[..])), "{name}");
            for cut in 0..got.len() {
                assert_eq!(decode_integer(&got[..cut], prefix), None, "{name}, {cut} bytes");
            }
        }
        assert_eq!(decode_integer(&[0x7f, 0x80, 0x80, 0x80, 0x80, 1], 7), None);
    }

    #[test]
    #[rustfmt::skip]
    fn strings_are_encoded_as_in_the_rfc() {
        let cases: &[(&str, &str)] = &[
            // RFC 7541, sections C.4 and C.6
            ("www.example.com",               "8cf1e3c2e5f23a6ba0ab90f4ff"),
            ("no-cache",                      "86a8eb10649cbf"),
            ("custom-key",                    "8825a849e95ba97d7f"),
            ("custom-value",                  "8925a849e95bb8e8b4bf"),
            ("302",                           "826402"),
            ("private",                       "85aec3771a4b"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "96d07abe941054d444a8200595040b8166e082a62d1bff"),
            ("https://www.example.com",       "919d29ad171863c78f0b97c8e9ae82ae43d3"),
            ("gzip",                          "839bd9ab"),
            ("foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
             "ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"),
            // No shorter with the code.
            ("",                              "00"),
            ("1",                             "0131"),
            ("\"{\"",                         "03227b22"),
        ];
        for &(text, want) in cases {
            let mut got = Vec::new();
            encode_string(text.bytes(), &mut |byte| got.push(byte));
            assert_eq!(hex(&got), want, "{text}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn field_is_an_index_or_a_literal() {
        let cases: &[(&str, &str, &str, &str)] = &[
            // case                    name               value            block
            ("indexed",                ":method",         "GET",           "82"),
            ("indexed, in capitals",   "Accept-Encoding", "gzip, deflate", "90"),
            ("an empty value",         "ETag",            "",              "a2"),
            ("name indexed",           "Vary",            "X",             "0f2c0158"),
            ("first of several names", ":status",         "302",           "08826402"),
            ("name not indexed",       "X-A",             "~",             "0003782d61017e"),
            ("beyond ASCII",           "etag",            "\u{e9}",        "0f1302c3a9"),
        ];
        for &(name, field, value, want) in cases {
            let mut got = Vec::new();
            encode_field(field.as_bytes(), value.as_bytes(), &mut |byte| got.push(byte));
            assert_eq!(hex(&got), want, "{name}");
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
