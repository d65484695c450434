//! Escapes bytes of a client for display: no byte ends a line, a quoted string or an object, or controls a terminal.
//!
//! | | unchanged | otherwise |
//! |---|---|---|
//! | [`quoted`] | visible ASCII and SP, except `"` and `\` | `\xHH`, as nginx does |
//! | [`word`] | visible ASCII, except `"` and `\` | `\xHH` |
//! | [`lines`] | visible ASCII and SP, except `\`; line ends | `\xHH` |
//! | [`json`] | UTF-8, except `"`, `\` and invisible characters | `\uHHHH`; a byte that is not UTF-8, as the text `\xHH`, and `\` as the text `\\` |
//!
//! Each escape is reversible: a `\` is always the first byte of an escape.

use tarpon_site::printable::is_invisible;

/// Appends `bytes`, escaped for a quoted string in a line of text.
pub(super) fn quoted(bytes: &[u8], to: &mut Vec<u8>) {
    escaped(bytes, |byte| byte != b'"', to);
}

/// Appends `bytes`, escaped for a word in a line of text.
pub(super) fn word(bytes: &[u8], to: &mut Vec<u8>) {
    escaped(bytes, |byte| !matches!(byte, b'"' | b' '), to);
}

/// Returns `bytes` as lines of text, without empty lines at the end.
pub(super) fn lines(bytes: &[u8]) -> String {
    let mut to = Vec::new();
    for (number, line) in bytes.trim_ascii_end().split(|&byte| byte == b'\n').enumerate() {
        if number > 0 {
            to.push(b'\n');
        }
        escaped(line.strip_suffix(b"\r").unwrap_or(line), |_| true, &mut to);
    }
    String::from_utf8(to).expect("ASCII")
}

/// Appends visible ASCII and SP unchanged if `is_plain` allows, and any other byte as `\xHH`.
fn escaped(bytes: &[u8], is_plain: impl Fn(u8) -> bool, to: &mut Vec<u8>) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\' && is_plain(byte);
    let mut rest = bytes;
    loop {
        let plain = rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len());
        to.extend_from_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { return };
        to.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
        rest = &rest[plain + 1..];
    }
}

/// Appends `bytes`, escaped for a string in JSON. RFC 8259, section 7.
pub(super) fn json(bytes: &[u8], to: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for shown in chunk.valid().chars() {
            match shown {
                '"' => to.extend_from_slice(b"\\\""),
                '\\' => to.extend_from_slice(b"\\\\\\\\"),
                // Control characters above U+007F too, as some terminals act on them, and characters that change the text direction.
                unseen if is_invisible(unseen) => {
                    for unit in unseen.encode_utf16(&mut [0; 2]) {
                        let [high, low] = unit.to_be_bytes();
                        let digits = [high >> 4, high & 15, low >> 4, low & 15].map(digit);
                        to.extend_from_slice(b"\\u");
                        to.extend_from_slice(&digits);
                    }
                }
                shown => to.extend_from_slice(shown.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            to.extend_from_slice(&[b'\\', b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

fn digit(value: u8) -> u8 {
    b"0123456789ABCDEF"[value as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_head_stay_lines_and_controls_are_escaped() {
        #[rustfmt::skip]
        let cases: &[(&[u8], &str)] = &[
            (b"",                                       ""),
            (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",       "GET / HTTP/1.1\nHost: h"),
            (b"GET / HTTP/1.1\nIf-Match: \"a\"\n",       "GET / HTTP/1.1\nIf-Match: \"a\""),
            (b"\x1b[31m\r\x07\r\n\xff\\x00",            "\\x1B[31m\\x0D\\x07\n\\xFF\\x5Cx00"),
            (b"\r\n\r\nGET",                            "\n\nGET"),
        ];
        for &(bytes, want) in cases {
            assert_eq!(lines(bytes), want);
        }
    }

    #[test]
    fn quotes_line_ends_and_controls_are_escaped() {
        #[rustfmt::skip]
        let cases: &[(&[u8], &str, &str)] = &[
            // bytes                   in text                       in JSON
            (b"",                      "",                           ""),
            (b"GET / HTTP/1.1",        "GET / HTTP/1.1",             "GET / HTTP/1.1"),
            (b"a\"b",                  "a\\x22b",                    "a\\\"b"),
            (b"a\\b",                  "a\\x5Cb",                    "a\\\\\\\\b"),
            (b"\\xff",                 "\\x5Cxff",                   "\\\\\\\\xff"),
            (b"a\nb\r\0",              "a\\x0Ab\\x0D\\x00",          "a\\u000Ab\\u000D\\u0000"),
            (b"\x1b[31m\x7f",          "\\x1B[31m\\x7F",             "\\u001B[31m\\u007F"),
            ("caf\u{e9}".as_bytes(),   "caf\\xC3\\xA9",              "caf\u{e9}"),
            ("\u{9b}1m".as_bytes(),    "\\xC2\\x9B1m",               "\\u009B1m"),
            ("a\u{202e}b\u{e0041}".as_bytes(), "a\\xE2\\x80\\xAEb\\xF3\\xA0\\x81\\x81", "a\\u202Eb\\uDB40\\uDC41"),
            (b"\xff\xc3",              "\\xFF\\xC3",                 "\\\\xFF\\\\xC3"),
        ];
        for &(bytes, in_text, in_json) in cases {
            let (mut text, mut object) = (Vec::new(), Vec::new());
            quoted(bytes, &mut text);
            json(bytes, &mut object);
            assert_eq!(
                (String::from_utf8_lossy(&text), String::from_utf8_lossy(&object)),
                (in_text.into(), in_json.into())
            );
        }
    }
}
