//! Checks that the fields of a packed response frame its content. Otherwise a forged record could append bytes that a client takes
//! for the next response. RFC 9112, sections 5 and 6.
//!
//! ```text
//! name ":" value CRLF   …   Content-Length: the length of the content   …   CRLF, and nothing after it
//! ```
//!
//! The server checks each response once; [`ValidatedResponses`] stores a bit per response of an image.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The set of responses whose fields have passed the check: one bit each. All clones of an image share it, because its bytes do not
/// change.
#[derive(Clone, Debug)]
pub(crate) struct ValidatedResponses(Arc<[AtomicU64]>);

impl ValidatedResponses {
    /// Creates the set for an image with `count` responses, none of them checked.
    pub(crate) fn new(count: usize) -> ValidatedResponses {
        ValidatedResponses((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns whether a response has passed the check.
    #[inline]
    pub(crate) fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word.load(Relaxed) & (1 << (number % 64)) != 0)
    }

    /// Records that a response has passed the check.
    pub(crate) fn add(&self, number: usize) {
        if let Some(word) = self.0.get(number / 64) {
            word.fetch_or(1 << (number % 64), Relaxed);
        }
    }
}

/// Returns whether `fields` frame a content of `len` bytes.
pub(crate) fn frames_content(fields: &[u8], len: u64) -> bool {
    let mut length_count = 0;
    let in_order = is_field_section(fields, |name, value| match name {
        _ if name.eq_ignore_ascii_case(b"Content-Length") => {
            length_count += 1;
            is_number(value, len)
        }
        _ => !is_reserved(name),
    });
    in_order && length_count == 1
}

/// Returns whether `fields` frame a response that never has content: 204 or 304.
pub(crate) fn frames_nothing(fields: &[u8]) -> bool {
    is_field_section(fields, |name, _| !name.eq_ignore_ascii_case(b"Content-Length") && !is_reserved(name))
}

/// Returns whether `fields` frame a redirect with a content of `len` bytes. The server may insert a query at `query_at` unless that is
/// 0. Location is the first field, or the server writes it before the fields.
pub(crate) fn frames_redirect(fields: &[u8], len: u64, query_at: usize) -> bool {
    let (others, is_good) = match fields.strip_prefix(LOCATION) {
        None => (fields, query_at == 0),
        Some(rest) => {
            let end = rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len());
            let (target, behind) = rest.split_at(end);
            let positions = LOCATION.len() + 1..=LOCATION.len() + target.len();
            let is_good = is_target(target) && (query_at == 0 || positions.contains(&query_at));
            (behind.strip_prefix(b"\r\n").unwrap_or_default(), is_good)
        }
    };
    is_good
        && frames_content(others, len)
        && is_field_section(others, |name, _| !name.eq_ignore_ascii_case(b"Location"))
}

/// Returns whether `fields` frame a redirect with a content of `len` bytes if the server writes Location before them.
pub(crate) fn frames_behind_location(fields: &[u8], len: u64) -> bool {
    !fields.starts_with(LOCATION) && frames_redirect(fields, len, 0)
}

/// Returns whether a redirect may have this target: a path, which begins with a single slash (RFC 3986, section 4.2), or an http or
/// https URI.
pub(crate) fn is_target(target: &[u8]) -> bool {
    let is_path_or_uri = match target {
        [b'/', b'/', ..] => false,
        [b'/', ..] => true,
        _ => authority(target).is_some(),
    };
    is_path_or_uri && target.iter().all(|&byte| is_uri_byte(byte))
}

/// Returns the authority of an http or https URI, which is not empty.
pub(crate) fn authority(target: &[u8]) -> Option<&[u8]> {
    let rest = target.strip_prefix(b"http://").or_else(|| target.strip_prefix(b"https://"))?;
    let len = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    (len > 0).then(|| &rest[..len])
}

/// Returns whether a URI may contain this byte: RFC 3986, section 2. It must not contain a backslash, which browsers treat as a slash.
pub(crate) fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)
}

/// Returns whether `fields` are field lines that all satisfy `is_good`, and one empty line at the end.
fn is_field_section(mut fields: &[u8], mut is_good: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
    if fields.len() > FIELDS_LEN_MAX {
        return false;
    }
    while let Some(end) = fields.iter().position(|&byte| byte == b'\n') {
        let (line, behind) = fields.split_at(end + 1);
        let Some(line) = line.strip_suffix(b"\r\n") else { return false };
        if line.is_empty() {
            return behind.is_empty();
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let is_in_order = !name.is_empty()
            && name.iter().all(|&byte| is_token(byte))
            && value.iter().all(|&byte| is_text(byte));
        if !is_in_order || !is_good(name, value.trim_ascii()) {
            return false;
        }
        fields = behind;
    }
    false
}

/// Returns whether packed fields must not have this name: the field frames a message, controls the connection, or comes from the
/// server itself.
fn is_reserved(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 10] = [
        b"Connection",
        b"Content-Range",
        b"Date",
        b"Keep-Alive",
        b"Proxy-Connection",
        b"Server",
        b"TE",
        b"Trailer",
        b"Transfer-Encoding",
        b"Upgrade",
    ];
    NAMES.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Returns whether a value is this number, in decimal and without leading zeros.
fn is_number(value: &[u8], number: u64) -> bool {
    let plain = value == b"0" || !value.starts_with(b"0");
    let digits = std::str::from_utf8(value).ok().filter(|_| plain && value.iter().all(u8::is_ascii_digit));
    digits.and_then(|digits| digits.parse().ok()) == Some(number)
}

/// Returns whether a field name may contain this byte. RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a field value may contain this byte. RFC 9110, section 5.5.
fn is_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

/// The start of the fields of a redirect, unless the server writes Location before them.
pub(crate) const LOCATION: &[u8] = b"Location: ";
/// The maximum length of the fields of a response. A rules file of 1 MiB cannot produce more, and no client accepts as much. The limit
/// keeps a forged record from making each request for it read a whole archive.
const FIELDS_LEN_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn fields_frame_a_content() {
        let cases: &[(&str, &[u8], bool)] = &[
            // case                     fields                                                           of a content of 5 bytes
            ("as packed",               b"Content-Length: 5\r\nContent-Type: text/css\r\n\r\n",           true),
            ("not the first",           b"Content-Type: text/css\r\nContent-Length: 5\r\n\r\n",           true),
            ("small letters",           b"content-length:5 \r\n\r\n",                                     true),
            ("text beyond ASCII",       b"Content-Length: 5\r\nX-A: \xc3\xa9\t!\r\n\r\n",                 true),
            ("an empty value",          b"Content-Length: 5\r\nX-A:\r\n\r\n",                             true),
            ("no length",               b"Content-Type: text/css\r\n\r\n",                                false),
            ("nothing",                 b"",                                                              false),
            ("the empty line alone",    b"\r\n",                                                          false),
            ("no empty line",           b"Content-Length: 5\r\n",                                         false),
            ("half of it",              b"Content-Length: 5\r\n\r",                                       false),
            ("another length",          b"Content-Length: 6\r\n\r\n",                                     false),
            ("zeros",                   b"Content-Length: 000\r\n\r\n",                                   false),
            ("a zero before",           b"Content-Length: 05\r\n\r\n",                                    false),
            ("a sign",                  b"Content-Length: +5\r\n\r\n",                                    false),
            ("hexadecimal",             b"Content-Length: 0x5\r\n\r\n",                                   false),
            ("a list",                  b"Content-Length: 5, 5\r\n\r\n",                                  false),
            ("beyond counting",         b"Content-Length: 18446744073709551621\r\n\r\n",                  false),
            ("twice",                   b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",                false),
            ("twice, in small letters", b"Content-Length: 5\r\ncontent-length: 5\r\n\r\n",                false),
            ("empty line inside",       b"Content-Length: 5\r\n\r\nX-A: 1\r\n\r\n",                       false),
            ("a byte after",            b"Content-Length: 5\r\n\r\nx",                                    false),
            ("a second response",       b"Content-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",              false),
            ("a bare LF",               b"Content-Length: 5\nX-A: 1\r\n\r\n",                             false),
            ("a bare LF in a value",    b"Content-Length: 5\r\nX-A: 1\n2\r\n\r\n",                        false),
            ("a bare CR in a value",    b"Content-Length: 5\r\nX-A: 1\r2\r\n\r\n",                        false),
            ("a CR before CRLF",        b"Content-Length: 5\r\r\n\r\n",                                   false),
            ("NUL in a value",          b"Content-Length: 5\r\nX-A: \0\r\n\r\n",                          false),
            ("no colon",                b"Content-Length: 5\r\nX-A\r\n\r\n",                              false),
            ("no name",                 b"Content-Length: 5\r\n: 1\r\n\r\n",                              false),
            ("a space before a colon",  b"Content-Length : 5\r\n\r\n",                                    false),
            ("a line that goes on",     b"Content-Length: 5\r\n X-A: 1\r\n\r\n",                          false),
            ("another coding",          b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",       false),
            ("a field of the server",   b"Content-Length: 5\r\nconnection: close\r\n\r\n",                false),
            ("another protocol",        b"Content-Length: 5\r\nUpgrade: h2c\r\n\r\n",                     false),
            ("a part",                  b"Content-Length: 5\r\nContent-Range: bytes 0-4/5\r\n\r\n",       false),
        ];
        for &(name, fields, want) in cases {
            assert_eq!(frames_content(fields, 5), want, "{name}");
        }
        assert!(frames_content(b"Content-Length: 0\r\n\r\n", 0) && !frames_content(b"Content-Length: 00\r\n\r\n", 0));
        assert!(frames_content(b"Content-Length: 18446744073709551615\r\n\r\n", u64::MAX));
    }

    #[test]
    #[rustfmt::skip]
    fn fields_frame_no_content() {
        let cases: &[(&str, &[u8], bool)] = &[
            ("of 304",            b"ETag: \"a\"\r\n\r\n",                      true),
            ("the empty line",    b"\r\n",                                     true),
            ("nothing",           b"",                                         false),
            ("a length",          b"ETag: \"a\"\r\nContent-Length: 5\r\n\r\n", false),
            ("a coding",          b"Transfer-Encoding: chunked\r\n\r\n",       false),
            ("no empty line",     b"ETag: \"a\"\r\n",                          false),
            ("bytes after",       b"ETag: \"a\"\r\n\r\nx",                     false),
        ];
        for &(name, fields, want) in cases {
            assert_eq!(frames_nothing(fields), want, "{name}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn fields_frame_a_redirect() {
        let cases: &[(&str, &[u8], usize, bool)] = &[
            // case                   fields                                                            query at
            ("no query",              b"Location: /a/\r\nContent-Length: 5\r\n\r\n",                      0,  true),
            ("a query",               b"Location: /a/\r\nContent-Length: 5\r\n\r\n",                      13, true),
            ("before a fragment",     b"Location: /a/#b\r\nContent-Length: 5\r\n\r\n",                    13, true),
            ("another host",          b"Location: https://a.org\r\nContent-Length: 5\r\n\r\n",            23, true),
            ("after Location",        b"Content-Length: 5\r\n\r\n",                                       0,  true),
            ("query after Location",  b"Content-Length: 5\r\n\r\n",                                       3,  false),
            ("query in the name",     b"Location: /a/\r\nContent-Length: 5\r\n\r\n",                      9,  false),
            ("query before a path",   b"Location: /a/\r\nContent-Length: 5\r\n\r\n",                      10, false),
            ("query in a line end",   b"Location: /a/\r\nContent-Length: 5\r\n\r\n",                      14, false),
            ("query after all",       b"Location: /a/\r\nContent-Length: 5\r\n\r\n",                      36, false),
            ("two slashes",           b"Location: //a.org/\r\nContent-Length: 5\r\n\r\n",                 0,  false),
            ("slash and backslash",   b"Location: /\\a.org/\r\nContent-Length: 5\r\n\r\n",                0,  false),
            ("a tab between",         b"Location: /\t/a.org/\r\nContent-Length: 5\r\n\r\n",               0,  false),
            ("another scheme",        b"Location: javascript:a\r\nContent-Length: 5\r\n\r\n",             0,  false),
            ("no host",               b"Location: https:///a\r\nContent-Length: 5\r\n\r\n",               0,  false),
            ("nowhere",               b"Location: \r\nContent-Length: 5\r\n\r\n",                         0,  false),
            ("twice",                 b"Location: /a\r\nlocation: /b\r\nContent-Length: 5\r\n\r\n",       0,  false),
            ("not the first",         b"Content-Length: 5\r\nLocation: /a\r\n\r\n",                       0,  false),
            ("a bare CR",             b"Location: /a\rContent-Length: 5\r\n\r\n",                         0,  false),
            ("no length",             b"Location: /a\r\n\r\n",                                            0,  false),
            ("no end",                b"Location: /a",                                                    0,  false),
        ];
        for &(name, fields, query_at, want) in cases {
            assert_eq!(frames_redirect(fields, 5, query_at), want, "{name}");
        }
    }

    #[test]
    fn validated_response_does_not_affect_others() {
        let validated = ValidatedResponses::new(65);
        validated.add(64);
        let known: Vec<_> = (0..200).filter(|&number| validated.has(number)).collect();
        assert_eq!(known, [64]);
        validated.add(1 << 40);
    }
}
