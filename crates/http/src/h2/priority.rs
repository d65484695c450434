//! The priority of a response, as the client asks for it. RFC 9218.
//!
//! It arrives as the field `priority` of a request, and in PRIORITY_UPDATE.

use crate::structured::{MemberValue, dictionary};

/// The priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The urgency: 0, sent first, to 7. RFC 9218, section 4.1.
    pub urgency: u8,
    /// Whether the client can use a part of the response: then the server shares the connection between such responses of the same urgency.
    /// RFC 9218, section 4.2.
    pub is_incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, is_incremental: false }
    }
}

impl Priority {
    /// Parses a Priority Field Value. Ignores unknown members, and values that a member cannot have: RFC 9218, section 4. Returns the default if
    /// the value breaks the grammar: RFC 9651, section 4.2.
    ///
    /// ```
    /// use tarpon_http::h2::Priority;
    ///
    /// assert_eq!(Priority::parse(b"u=1, i"), Priority { urgency: 1, is_incremental: true });
    /// ```
    #[must_use]
    pub fn parse(value: &[u8]) -> Priority {
        Priority::parse_lines([value])
    }

    /// Parses the values of several fields as one: RFC 9651, section 4.2.
    pub(super) fn parse_lines<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Priority {
        let mut priority = Priority::default();
        for value in values {
            let read = dictionary(value, |key, value| match (key, value) {
                (b"u", MemberValue::Integer(urgency @ 0..=7)) => priority.urgency = urgency as u8,
                (b"i", MemberValue::Boolean(is_incremental)) => priority.is_incremental = is_incremental,
                _ => {}
            });
            if read.is_none() {
                return Priority::default();
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn priority_is_read_as_far_as_it_is_valid() {
        let cases: &[(&str, &[u8], u8, bool)] = &[
            // case                     value              urgency, incremental
            ("nothing",                 b"",               3, false),
            ("urgent",                  b"u=0",            0, false),
            ("in the background",       b"u=7, i",         7, true),
            ("false",                   b"i=?0, u=5",      5, false),
            ("the last counts",         b"u=1, u=2, i, i=?0", 2, false),
            ("parameters",              b"u=1;x=2, i;y",   1, true),
            ("unknown members",         b"x=(1 2), u=4, y=\"z\"", 4, false),
            ("too large",               b"u=8, i",         3, true),
            ("negative",                b"u=-1",           3, false),
            ("too large, after another", b"u=2, u=9",      2, false),
            ("another type",            b"u=1.0, i=1",     3, false),
            ("urgency without value",   b"u, i",           3, true),
            ("grammar",                 b"u=1, i, ",       3, false),
            ("grammar, at the start",   b"U=1",            3, false),
            ("not text",                b"\xff\x00",       3, false),
        ];
        for &(name, value, urgency, is_incremental) in cases {
            assert_eq!(Priority::parse(value), Priority { urgency, is_incremental }, "{name}");
        }
    }

    #[test]
    fn fields_form_one_value() {
        let parse = |lines: &[&'static [u8]]| Priority::parse_lines(lines.iter().copied());
        assert_eq!(parse(&[b"u=1", b"i"]), Priority { urgency: 1, is_incremental: true });
        assert_eq!(parse(&[b"u=1", b"i=="]), Priority::default());
    }
}
