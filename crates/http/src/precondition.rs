//! Whether a client already has what it asks for. RFC 9110, section 13.
//!
//! Knows the two preconditions that matter where nothing is ever changed by a request:
//! If-None-Match and If-Modified-Since.

use crate::date;
use crate::head::{Head, Name};
use crate::token::{ETAG, run};

/// What a GET or HEAD is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The representation.
    Proceed,
    /// Status 304: the client has it.
    NotModified,
}

/// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110, section 13.2.2.
///
/// `etag` is the entity-tag of the representation that would be sent, with its quotes.
/// `last_modified` and `now` are in seconds since 1970; `now` decides the century of a two-digit
/// year.
#[inline]
pub fn evaluate(head: &Head<'_>, etag: &[u8], last_modified: u64, now: u64) -> Outcome {
    if !head.has(Name::IfNoneMatch) && !head.has(Name::IfModifiedSince) {
        return Outcome::Proceed;
    }
    // Section 13.1.3: If-Modified-Since is ignored where there is If-None-Match.
    let has_it = if head.has(Name::IfNoneMatch) {
        is_matched(head, etag)
    } else {
        is_unmodified(head, last_modified, now)
    };
    if has_it { Outcome::NotModified } else { Outcome::Proceed }
}

/// Section 13.1.2, with the weak comparison of section 8.8.3.2. A malformed member ends the list:
/// what stands behind it cannot be told apart.
fn is_matched(head: &Head<'_>, etag: &[u8]) -> bool {
    if head.first(Name::IfNoneMatch) == Some(b"*") && !head.is_repeated(Name::IfNoneMatch) {
        return true;
    }
    let ours = etag.strip_prefix(b"W/").unwrap_or(etag);
    for mut rest in head.all(Name::IfNoneMatch) {
        loop {
            while let [b' ' | b'\t' | b',', behind @ ..] = rest {
                rest = behind;
            }
            if rest.is_empty() {
                break;
            }
            let Some((opaque, behind)) = split_opaque_tag(rest) else { return false };
            if opaque == ours {
                return true;
            }
            rest = behind;
        }
    }
    false
}

/// Takes the first entity-tag off a list, and what must follow it: OWS, then a comma or the end.
/// Returns its opaque-tag, with quotes. An opaque-tag may have commas, and `\` escapes nothing in it.
fn split_opaque_tag(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let list = list.strip_prefix(b"W/").unwrap_or(list);
    let inner = list.strip_prefix(b"\"")?;
    let len = run(ETAG, inner);
    let (opaque, mut behind) = list.split_at_checked(len + 2)?;
    if inner[len] != b'"' {
        return None;
    }
    while let [b' ' | b'\t', rest @ ..] = behind {
        behind = rest;
    }
    matches!(behind, [] | [b',', ..]).then_some((opaque, behind))
}

/// Section 13.1.3: ignored if it is no valid date, or more than one.
fn is_unmodified(head: &Head<'_>, last_modified: u64, now: u64) -> bool {
    let since = head.first(Name::IfModifiedSince).and_then(|value| date::parse(value, now));
    !head.is_repeated(Name::IfModifiedSince) && since.is_some_and(|since| last_modified <= since)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;
    use crate::head::parse;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: u64 = 784_111_777;
    const NOW: u64 = 1_795_219_200;

    #[test]
    fn a_client_that_has_the_representation_is_told_so() {
        use Outcome::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Outcome)] = &[
            // what it shows            fields                                                      outcome
            ("no precondition",         "",                                                         Proceed),
            ("same tag",                "If-None-Match: \"a,b\"\r\n",                               NotModified),
            ("another tag",             "If-None-Match: \"b\"\r\n",                                 Proceed),
            ("weak tag",                "If-None-Match: W/\"a,b\"\r\n",                             NotModified),
            ("any",                     "If-None-Match: *\r\n",                                     NotModified),
            ("in a list",               "If-None-Match: \"x\", W/\"y\" ,\t\"a,b\"\r\n",             NotModified),
            ("without space",           "If-None-Match: \"x\",\"a,b\"\r\n",                         NotModified),
            ("empty members",           "If-None-Match: , ,\"a,b\",\r\n",                           NotModified),
            ("in the second line",      "If-None-Match: \"x\"\r\nif-none-match: \"a,b\"\r\n",       NotModified),
            ("backslash in a tag",      "If-None-Match: \"x\\\", \"a,b\"\r\n",                      NotModified),
            ("not in a list",           "If-None-Match: \"a\", \"b\", \"b,a\"\r\n",                 Proceed),
            ("empty",                   "If-None-Match:\r\n",                                       Proceed),
            ("without quotes",          "If-None-Match: a,b\r\n",                                   Proceed),
            ("small w",                 "If-None-Match: w/\"a,b\"\r\n",                             Proceed),
            ("longer",                  "If-None-Match: \"a,b,\"\r\n",                              Proceed),
            ("quote left open",         "If-None-Match: \"a,b\r\n",                                 Proceed),
            ("malformed before",        "If-None-Match: x, \"a,b\"\r\n",                            Proceed),
            ("malformed line before",   "If-None-Match: x\r\nIf-None-Match: \"a,b\"\r\n",           Proceed),
            ("malformed behind",        "If-None-Match: \"a,b\", x\r\n",                            NotModified),
            ("junk behind a tag",       "If-None-Match: \"a,b\"x\r\n",                              Proceed),
            ("space in a tag",          "If-None-Match: \"a, b\", \"a,b\"\r\n",                     Proceed),
            ("any in a list",           "If-None-Match: \"x\", *\r\n",                              Proceed),
            ("any in two lines",        "If-None-Match: *\r\nIf-None-Match: *\r\n",                 Proceed),
            ("same date",               "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",     NotModified),
            ("later date",              "If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n",     NotModified),
            ("earlier date",            "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n",     Proceed),
            ("date in old form",        "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n",    NotModified),
            ("no date",                 "If-Modified-Since: yesterday\r\n",                         Proceed),
            ("two dates",               "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Proceed),
            ("tag outranks date",       "If-None-Match: \"b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Proceed),
            ("bad tag outranks date",   "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-None-Match: b\r\n", Proceed),
            ("tag alone is enough",     "If-None-Match: \"a,b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", NotModified),
        ];
        for (name, fields, want) in cases {
            let wire = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            for etag in ["\"a,b\"", "W/\"a,b\""] {
                assert_eq!(evaluate(&head, etag.as_bytes(), MODIFIED, NOW), *want, "{name}, ours is {etag}");
            }
        }
    }
}
