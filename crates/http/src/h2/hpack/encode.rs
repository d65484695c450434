//! Encodes fields without the dynamic table: as an index of the static table, or as a literal without indexing. RFC 7541, section 6.

use super::static_table::{self, StaticIndex};
use super::{HUFFMAN, INDEXED, huffman, integer};

/// Passes a field to `emit`, byte by byte, with its name in lower case: RFC 9113, section 8.2.1. The field neither uses nor changes a dynamic
/// table. A field that the static table has is its index; any other is a literal without indexing, its name an index if the table has that;
/// a string has the Huffman code where that is shorter.
pub fn encode_field(name: &[u8], value: &[u8], emit: &mut impl FnMut(u8)) {
    match static_table::find(name, value) {
        Some(StaticIndex::Field(index)) => return integer::encode(INDEXED, 7, index.into(), emit),
        Some(StaticIndex::Name(index)) => integer::encode(LITERAL, 4, index.into(), emit),
        None => {
            integer::encode(LITERAL, 4, 0, emit);
            encode_string(name.iter().map(u8::to_ascii_lowercase), emit);
        }
    }
    encode_string(value.iter().copied(), emit);
}

/// Encodes a string. RFC 7541, section 5.2.
fn encode_string(bytes: impl ExactSizeIterator<Item = u8> + Clone, emit: &mut impl FnMut(u8)) {
    let (len, coded_len) = (bytes.len(), huffman::encoded_len(bytes.clone()));
    if coded_len < len {
        integer::encode(HUFFMAN, 7, coded_len, emit);
        huffman::encode(bytes, emit);
    } else {
        integer::encode(0, 7, len, emit);
        bytes.for_each(emit);
    }
}

/// The pattern of a literal without indexing. RFC 7541, section 6.2.2.
const LITERAL: u8 = 0;

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;

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
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
