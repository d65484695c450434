//! Parses Available-Dictionary, the hash of the dictionary that a client has. RFC 9842, section 2.2.
//!
//! ```text
//! Available-Dictionary: :pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:   ─▶  SHA-256 of the dictionary
//!                        └──── base64, a Byte Sequence of RFC 9651 ──┘
//! ```
//!
//! The parser ignores a field that is malformed, repeated, or not as long as a SHA-256, so the client gets a response that needs no
//! dictionary. The client has already checked that the dictionary applies to the request: that it is from the same origin, is
//! fresh, and matches the path.

use crate::field::trim_ows;
use crate::field_name::FieldName;
use crate::fields::Fields;

/// The SHA-256 of a dictionary.
pub type DictionaryHash = [u8; 32];

/// Returns the hash of the dictionary that the client has for this request.
pub fn available(fields: &Fields<'_>) -> Option<DictionaryHash> {
    let value = fields
        .first(FieldName::AvailableDictionary)
        .filter(|_| !fields.is_repeated(FieldName::AvailableDictionary))?;
    parse_hash(value)
}

/// Parses an Item of RFC 9651, section 3.3, that is a Byte Sequence of 32 bytes. Ignores its parameters.
fn parse_hash(value: &[u8]) -> Option<DictionaryHash> {
    let value = trim_ows(value).strip_prefix(b":")?;
    let (base64, behind) = value.split_at(value.iter().position(|&byte| byte == b':')?);
    if !matches!(behind, [b':'] | [b':', b';', ..]) {
        return None;
    }
    // RFC 9651, section 4.2.7, allows missing padding and any padding bits.
    let base64 = base64.strip_suffix(b"=").unwrap_or(base64);
    let digits: &[u8; DIGIT_COUNT] = base64.try_into().ok()?;
    let mut digest = [0; 32];
    for (digits, to) in digits.chunks(4).zip(digest.chunks_mut(3)) {
        let mut bits = 0;
        for (at, &digit) in digits.iter().enumerate() {
            bits |= sextet(digit)? << (18 - 6 * at);
        }
        to.copy_from_slice(&bits.to_be_bytes()[1..=to.len()]);
    }
    Some(digest)
}

/// Returns the value of a base64 digit. RFC 4648, section 4.
pub(crate) fn sextet(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

/// The number of base64 digits of 32 bytes, without the padding.
const DIGIT_COUNT: usize = 43;

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;
    use crate::head::parse;

    /// The example of RFC 9842, section 2.2.
    const EXAMPLE: DictionaryHash = [
        0xa5, 0x91, 0xa6, 0xd4, 0x0b, 0xf4, 0x20, 0x40, 0x4a, 0x01, 0x17, 0x33, 0xcf, 0xb7, 0xb1, 0x90, 0xd6,
        0x2c, 0x65, 0xbf, 0x0b, 0xcd, 0xa3, 0x2b, 0x57, 0xb2, 0x77, 0xd9, 0xad, 0x9f, 0x14, 0x6e,
    ];

    #[test]
    #[rustfmt::skip]
    fn dictionary_is_one_byte_sequence() {
        const HASH: &str = "pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4";
        let of = |before: &str, behind: &str| format!("Available-Dictionary: {before}{HASH}{behind}\r\n");
        let cases = [
            // case                    field lines                                      known
            ("the RFC's example",      of(":", "=:"),                                   true),
            ("space around it",        of(" \t:", "=:\t "),                             true),
            ("without padding",        of(":", ":"),                                    true),
            ("a parameter",            of(":", "=:;a=1"),                               true),
            ("in any case",            of(":", "=:").to_uppercase().replace(&HASH.to_uppercase(), HASH), true),

            ("absent",                 "".into(),                                       false),
            ("empty",                  "Available-Dictionary:\r\n".into(),              false),
            ("no bytes",               "Available-Dictionary: ::\r\n".into(),           false),
            ("a colon alone",          "Available-Dictionary: :\r\n".into(),            false),
            ("two lines",              of(":", "=:") + &of(":", "=:"),                  false),
            ("a list",                 of(":", "=:, :AA==:"),                           false),
            ("an inner list",          of("(:", "=:)"),                                 false),
            ("a token",                of("", ""),                                      false),
            ("a string",               of("\"", "=\""),                                 false),
            ("left open",              of(":", "="),                                    false),
            ("opened late",            of("", "=:"),                                    false),
            ("too much padding",       of(":", "==:"),                                  false),
            ("more after it",          of(":", "=: x"),                                 false),
            ("a byte more",            of(":AAAA", "=:"),                               false),
            ("a digit more",           of(":", "A:"),                                   false),
            ("a digit less",           format!("Available-Dictionary: :{}:\r\n", &HASH[1..]), false),
            ("another alphabet",       of(":", "=:").replace('p', "-"),                 false),
            ("space within",           of(":", "=:").replace('p', " "),                 false),
            ("padding within",         of(":", "=:").replace('p', "="),                 false),
        ];
        for (name, lines, known) in cases {
            let wire = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            assert_eq!(available(&head.fields), known.then_some(EXAMPLE), "{name}");
        }
    }

    #[test]
    fn every_digit_is_decoded_at_every_position() {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (value, &digit) in ALPHABET.iter().enumerate() {
            for at in 0..DIGIT_COUNT {
                let mut field = *b":AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
                field[1 + at] = digit;
                // 258 bits: the last two are padding.
                let mut bits = [0_u8; 33];
                for bit in (0..6).filter(|bit| value >> (5 - bit) & 1 == 1) {
                    bits[(6 * at + bit) / 8] |= 0x80 >> ((6 * at + bit) % 8);
                }
                assert_eq!(
                    parse_hash(&field).as_ref().map(|digest| &digest[..]),
                    Some(&bits[..32]),
                    "{at}: {digit}"
                );
            }
        }
    }
}
