//! Evaluates conditional requests. RFC 9110, section 13.
//!
//! ```text
//! If-Match, else If-Unmodified-Since ──true──▶ If-None-Match, else If-Modified-Since ──true──▶ Proceed
//!                 └─false─▶ Failed                               └─false─▶ NotModified
//! ```
//!
//! If-Range is separate: it decides whether Range applies, and only to a response that proceeds.
//!
//! This module reads no clock; the caller passes the time.

use crate::date;
use crate::field_name::FieldName;
use crate::fields::Fields;
use crate::token::{ETAG, prefix_len};

/// The result of evaluating the preconditions of a GET or HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send the representation.
    Proceed,
    /// Send status 304: the client has the current representation.
    NotModified,
    /// Send status 412: a precondition is false.
    Failed,
}

/// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110, section 13.2.2. Call this function only if the response
/// without preconditions would have status 200: section 13.2.1.
///
/// `etag` is the entity tag of the selected representation, including its quotes. `last_modified` and `now` are in seconds since
/// 1970; `now` decides the century of a two-digit year.
///
/// ```
/// use tarpon_http::head;
/// use tarpon_http::precondition::{Outcome, evaluate};
///
/// let input = b"GET / HTTP/1.1\r\nIf-None-Match: \"a\", \"b\"\r\n\r\n";
/// let (head, _) = head::parse(input).unwrap().unwrap();
/// assert_eq!(evaluate(&head.fields, b"\"b\"", 784_111_777, 1_795_219_200), Outcome::NotModified);
/// ```
#[inline]
pub fn evaluate(fields: &Fields<'_>, etag: &[u8], last_modified: u64, now: u64) -> Outcome {
    let is_conditional = fields.has(FieldName::IfNoneMatch)
        || fields.has(FieldName::IfModifiedSince)
        || fields.has(FieldName::IfMatch)
        || fields.has(FieldName::IfUnmodifiedSince);
    if is_conditional { evaluate_fields(fields, etag, last_modified, now) } else { Outcome::Proceed }
}

/// Returns whether the Range field of a GET applies. It applies if there is no If-Range, or if If-Range matches the selected
/// representation. Section 13.1.5; the parameters are those of [`evaluate`].
///
/// A date matches only if it is a strong validator (section 8.8.2.2). Until its second has passed it is weak, because two
/// representations may have the same date.
#[inline]
pub fn range_applies(fields: &Fields<'_>, etag: &[u8], last_modified: u64, now: u64) -> bool {
    let Some(validator) = fields.first(FieldName::IfRange) else { return true };
    if fields.is_repeated(FieldName::IfRange) {
        return false;
    }
    match EntityTag::split_first(validator) {
        Some((tag, [])) => tag.matches_strongly(EntityTag::parse(etag)),
        _ => last_modified < now && date::parse(validator, now) == Some(last_modified),
    }
}

fn evaluate_fields(fields: &Fields<'_>, etag: &[u8], last_modified: u64, now: u64) -> Outcome {
    let ours = EntityTag::parse(etag);
    // Sections 13.1.3 and 13.1.4: entity tags take precedence over a date, even if they are malformed.
    let holds = if fields.has(FieldName::IfMatch) {
        is_listed(fields, FieldName::IfMatch, |tag| tag.matches_strongly(ours))
    } else {
        date_of(fields, FieldName::IfUnmodifiedSince, now).is_none_or(|since| last_modified <= since)
    };
    if !holds {
        return Outcome::Failed;
    }
    let has_it = if fields.has(FieldName::IfNoneMatch) {
        is_listed(fields, FieldName::IfNoneMatch, |tag| tag.matches_weakly(ours))
    } else {
        // A date after `now` is valid: section 13.1.3 makes no exception for it.
        date_of(fields, FieldName::IfModifiedSince, now).is_some_and(|since| last_modified <= since)
    };
    if has_it { Outcome::NotModified } else { Outcome::Proceed }
}

/// Returns whether the field lines `name` are `*`, or list an entity tag for which `is_ours` is true. Sections 13.1.1 and
/// 13.1.2. A malformed member, or a `*` that is not alone, ends the list, because the members after it are ambiguous.
fn is_listed(fields: &Fields<'_>, name: FieldName, is_ours: impl Fn(EntityTag<'_>) -> bool) -> bool {
    if fields.first(name) == Some(b"*") && !fields.is_repeated(name) {
        return true;
    }
    for mut rest in fields.all(name) {
        loop {
            while let [b' ' | b'\t' | b',', behind @ ..] = rest {
                rest = behind;
            }
            if rest.is_empty() {
                break;
            }
            let Some((tag, behind)) = EntityTag::split_first(rest) else { return false };
            if is_ours(tag) {
                return true;
            }
            rest = behind;
        }
    }
    false
}

/// Returns the date in the field `name`. Returns `None`, so that the caller ignores the field, if it is repeated or not a valid
/// date. Sections 13.1.3 and 13.1.4.
fn date_of(fields: &Fields<'_>, name: FieldName, now: u64) -> Option<u64> {
    let value = fields.first(name).filter(|_| !fields.is_repeated(name))?;
    date::parse(value, now)
}

/// An entity tag. Section 8.8.3.
#[derive(Clone, Copy)]
struct EntityTag<'a> {
    is_weak: bool,
    /// The opaque tag, including its quotes.
    opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses an entity tag that is known to be well formed.
    fn parse(etag: &'a [u8]) -> EntityTag<'a> {
        let opaque = etag.strip_prefix(b"W/");
        EntityTag { is_weak: opaque.is_some(), opaque: opaque.unwrap_or(etag) }
    }

    /// Splits a list into its first entity tag and the rest, which is empty or begins with a comma. An opaque tag may contain
    /// commas, and `\` is not an escape in it.
    fn split_first(list: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let EntityTag { is_weak, opaque: list } = EntityTag::parse(list);
        let inner = list.strip_prefix(b"\"")?;
        let len = prefix_len(ETAG, inner);
        let (opaque, mut behind) = list.split_at_checked(len + 2)?;
        if inner[len] != b'"' {
            return None;
        }
        while let [b' ' | b'\t', rest @ ..] = behind {
            behind = rest;
        }
        matches!(behind, [] | [b',', ..]).then_some((EntityTag { is_weak, opaque }, behind))
    }

    /// Compares weakly. Section 8.8.3.2.
    fn matches_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// Compares strongly. Section 8.8.3.2.
    fn matches_strongly(self, other: EntityTag<'_>) -> bool {
        !self.is_weak && !other.is_weak && self.opaque == other.opaque
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::String;

    use super::*;
    use crate::head::parse;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: u64 = 784_111_777;
    const NOW: u64 = 1_795_219_200;

    #[test]
    fn current_representation_is_not_sent_again() {
        use Outcome::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Outcome)] = &[
            // case                     fields                                                      outcome
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
            ("malformed after",         "If-None-Match: \"a,b\", x\r\n",                            NotModified),
            ("junk after a tag",        "If-None-Match: \"a,b\"x\r\n",                              Proceed),
            ("space in a tag",          "If-None-Match: \"a, b\", \"a,b\"\r\n",                     Proceed),
            ("any in a list",           "If-None-Match: \"x\", *\r\n",                              Proceed),
            ("any in two lines",        "If-None-Match: *\r\nIf-None-Match: *\r\n",                 Proceed),
            ("empty opaque-tag",        "If-None-Match: \"\", \"a,b\"\r\n",                         NotModified),
            ("same date",               "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",     NotModified),
            ("later date",              "If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n",     NotModified),
            ("date of now",             "If-Modified-Since: Sat, 21 Nov 2026 00:00:00 GMT\r\n",     NotModified),
            ("date after now",          "If-Modified-Since: Sat, 21 Nov 2026 00:00:01 GMT\r\n",     NotModified),
            ("date long after now",     "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n",     NotModified),
            ("earlier date",            "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n",     Proceed),
            ("date in old form",        "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n",    NotModified),
            ("date of asctime",         "If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n",          NotModified),
            ("date without GMT",        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37\r\n",         Proceed),
            ("no such day",             "If-Modified-Since: Sun, 31 Nov 1994 08:49:37 GMT\r\n",     Proceed),
            ("no date",                 "If-Modified-Since: yesterday\r\n",                         Proceed),
            ("two dates",               "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Proceed),
            ("tag outranks date",       "If-None-Match: \"b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", Proceed),
            ("bad tag outranks date",   "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-None-Match: b\r\n", Proceed),
            ("tag alone is enough",     "If-None-Match: \"a,b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", NotModified),
        ];
        for (name, fields, want) in cases {
            for etag in ["\"a,b\"", "W/\"a,b\""] {
                assert_eq!(outcome(fields, etag.as_bytes()), *want, "{name}, the entity tag is {etag}");
            }
        }
    }

    #[test]
    fn precondition_on_another_representation_fails() {
        use Outcome::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Outcome)] = &[
            // case                     fields                                                      outcome
            ("same tag",                "If-Match: \"a,b\"\r\n",                                    Proceed),
            ("any",                     "If-Match: *\r\n",                                          Proceed),
            ("in a list",               "If-Match: \"x\" ,, W/\"y\",\"a,b\"\r\n",                   Proceed),
            ("in the second line",      "If-Match: \"x\"\r\nif-match: \"a,b\"\r\n",               Proceed),
            ("weak before strong",      "If-Match: W/\"a,b\", \"a,b\"\r\n",                         Proceed),
            ("another tag",             "If-Match: \"b\"\r\n",                                      Failed),
            ("weak tag",                "If-Match: W/\"a,b\"\r\n",                                  Failed),
            ("empty",                   "If-Match:\r\n",                                            Failed),
            ("without quotes",          "If-Match: a,b\r\n",                                        Failed),
            ("malformed before",        "If-Match: x, \"a,b\"\r\n",                                 Failed),
            ("malformed after",         "If-Match: \"a,b\", x\r\n",                                 Proceed),
            ("any in a list",           "If-Match: *, \"x\"\r\n",                                   Failed),
            ("any in two lines",        "If-Match: *\r\nIf-Match: *\r\n",                           Failed),
            ("same date",               "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",   Proceed),
            ("later date",              "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:38 GMT\r\n",   Proceed),
            ("earlier date",            "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n",   Failed),
            ("earlier, of RFC 850",     "If-Unmodified-Since: Sunday, 06-Nov-94 08:49:36 GMT\r\n",  Failed),
            ("earlier, of asctime",     "If-Unmodified-Since: Sun Nov  6 08:49:36 1994\r\n",        Failed),
            ("date to come",            "If-Unmodified-Since: Sun, 06 Nov 2044 08:49:37 GMT\r\n",   Proceed),
            ("no date",                 "If-Unmodified-Since: 0\r\n",                               Proceed),
            ("two dates",               "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", Proceed),
        ];
        for (name, fields, want) in cases {
            assert_eq!(outcome(fields, b"\"a,b\""), *want, "{name}");
        }
        // A weak entity tag may stand for two representations, so only `*` and dates can match it.
        assert_eq!(outcome("If-Match: W/\"a,b\", \"a,b\"\r\n", b"W/\"a,b\""), Failed);
    }

    #[test]
    fn preconditions_are_evaluated_in_order() {
        use Outcome::*;
        let [same, other] = ["\"a,b\"", "\"b\""];
        let [before, at] = ["Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"];
        #[rustfmt::skip]
        let cases = [
            // If-Match    If-Unmodified-Since  If-None-Match  If-Modified-Since  outcome
            (Some(same),   None,                None,          None,              Proceed),
            (Some(same),   Some(before),        None,          None,              Proceed),
            (Some(same),   Some(before),        Some(same),    None,              NotModified),
            (Some(same),   None,                Some(other),   Some(at),          Proceed),
            (Some(same),   None,                None,          Some(at),          NotModified),
            (Some(other),  Some(at),            None,          None,              Failed),
            (Some(other),  None,                Some(same),    None,              Failed),
            (Some(other),  None,                None,          Some(at),          Failed),
            (Some(other),  Some(at),            Some(other),   Some(before),      Failed),
            (Some("x"),    Some(at),            None,          None,              Failed),
            (None,         Some(at),            Some(same),    None,              NotModified),
            (None,         Some(at),            Some(other),   Some(at),          Proceed),
            (None,         Some(at),            None,          Some(at),          NotModified),
            (None,         Some(before),        Some(same),    None,              Failed),
            (None,         Some(before),        None,          Some(at),          Failed),
            (None,         Some("x"),           None,          Some(at),          NotModified),
        ];
        for case in cases {
            let (if_match, unmodified, if_none_match, modified, want) = case;
            let line = |name, value: Option<&str>| {
                value.map_or(String::new(), |value| format!("{name}: {value}\r\n"))
            };
            let mut lines = [
                line("If-Match", if_match),
                line("If-Unmodified-Since", unmodified),
                line("If-None-Match", if_none_match),
                line("If-Modified-Since", modified),
            ];
            assert_eq!(outcome(&lines.concat(), b"\"a,b\""), want, "{case:?}");
            lines.reverse();
            assert_eq!(outcome(&lines.concat(), b"\"a,b\""), want, "{case:?}, in the other order");
        }
    }

    #[test]
    fn range_applies_only_if_if_range_matches() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, bool)] = &[
            // case                     fields                                                      applies
            ("no If-Range",             "",                                                         true),
            ("same tag",                "If-Range: \"a,b\"\r\n",                                    true),
            ("same date",               "If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n",              true),
            ("date of RFC 850",         "If-Range: Sunday, 06-Nov-94 08:49:37 GMT\r\n",             true),
            ("date of asctime",         "If-Range: Sun Nov  6 08:49:37 1994\r\n",                   true),
            ("another tag",             "If-Range: \"b\"\r\n",                                      false),
            ("weak tag",                "If-Range: W/\"a,b\"\r\n",                                  false),
            ("a list",                  "If-Range: \"a,b\", \"b\"\r\n",                             false),
            ("comma after",             "If-Range: \"a,b\",\r\n",                                   false),
            ("two lines",               "If-Range: \"a,b\"\r\nIf-Range: \"a,b\"\r\n",             false),
            ("any",                     "If-Range: *\r\n",                                          false),
            ("empty",                   "If-Range:\r\n",                                            false),
            ("without quotes",          "If-Range: a,b\r\n",                                        false),
            ("quote left open",         "If-Range: \"a,b\r\n",                                       false),
            ("earlier date",            "If-Range: Sun, 06 Nov 1994 08:49:36 GMT\r\n",              false),
            ("later date",              "If-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n",              false),
            ("no date",                 "If-Range: yesterday\r\n",                                  false),
        ];
        let applies = |fields: &str, etag: &str, now| {
            let wire = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            range_applies(&head.fields, etag.as_bytes(), MODIFIED, now)
        };
        for &(name, fields, want) in cases {
            assert_eq!(applies(fields, "\"a,b\"", NOW), want, "{name}");
        }
        assert!(!applies("If-Range: W/\"a,b\"\r\n", "W/\"a,b\"", NOW), "both are weak");
        assert!(!applies("If-Range: \"a,b\"\r\n", "W/\"a,b\"", NOW), "the entity tag of the server is weak");
        for (now, want) in [(MODIFIED - 1, false), (MODIFIED, false), (MODIFIED + 1, true)] {
            let date = "If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
            assert_eq!(applies(date, "\"a,b\"", now), want, "a date, the time is {now}");
        }
    }

    fn outcome(fields: &str, etag: &[u8]) -> Outcome {
        let wire = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
        evaluate(&head.fields, etag, MODIFIED, NOW)
    }
}
