//! Parses Range. RFC 9110, sections 14.1 and 14.2.
//!
//! ```text
//! Range: bytes=0-99, 50-149, -10     of 1,000 bytes:     0 ▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░ … ░░░░▓▓ 1,000
//!              └─┬─┘ └──┬─┘ └─┬─┘                          └ at 0, len 150 ┘       └ at 990, len 10
//!             int-range     suffix-range
//! ```
//!
//! The parser ignores the field, and so selects the whole representation, where the RFC allows that: for another unit, for a
//! malformed or repeated field, for more than [`RANGE_COUNT_MAX`] ranges, and for more than [`RANGE_SPEC_COUNT_MAX`] that join to
//! fewer. It also ignores the field for an empty representation, because Content-Range cannot express an empty range, and some
//! clients send `bytes=0-` with every request.
//!
//! This module does not evaluate If-Range; see `precondition`.

use crate::field::trim_ows;
use crate::field_name::FieldName;
use crate::fields::Fields;

/// The maximum number of ranges in one response. A media player asks for one; a client that reads an index at either end of a
/// file asks for two or three; many small ranges cost more than the whole representation.
pub const RANGE_COUNT_MAX: usize = 6;

/// The maximum number of ranges in a request, overlapping or not. No client asks for so many, and each takes time. RFC 9110, section 14.2, names
/// many small and overlapping ranges as a sign of an attack.
pub const RANGE_SPEC_COUNT_MAX: usize = 512;

/// The part of a representation that a request selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSelection {
    /// The whole representation: the request has no Range field, or the parser ignores it.
    Whole,
    /// At least one range.
    Ranges(RangeSet),
    /// No byte of the representation: the status is 416.
    Unsatisfiable,
}

/// A range of bytes of a representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The offset from the start of the representation.
    pub at: u64,
    /// The length in bytes, at least 1.
    pub len: u64,
}

/// The ranges of a request, in its order. No two of them overlap or touch: the parser joins those that do, at the position of the
/// first of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeSet {
    ranges: [ByteRange; RANGE_COUNT_MAX],
    count: u8,
}

/// Parses the Range field of a GET for a representation of `len` bytes.
///
/// Numbers that exceed 64 bits are clamped. The parser ignores the field as soon as there are more than [`RANGE_COUNT_MAX`]
/// separate ranges, even if later ones would join them, or more than [`RANGE_SPEC_COUNT_MAX`] of any kind.
///
/// ```
/// use tarpon_http::head;
/// use tarpon_http::range::{ByteRange, RangeSelection, select};
///
/// let (head, _) = head::parse(b"GET / HTTP/1.1\r\nRange: bytes=0-99, -10\r\n\r\n").unwrap().unwrap();
/// let RangeSelection::Ranges(ranges) = select(&head.fields, 1_000) else { panic!() };
/// assert_eq!(ranges.as_slice(), [ByteRange { at: 0, len: 100 }, ByteRange { at: 990, len: 10 }]);
/// ```
pub fn select(fields: &Fields<'_>, len: u64) -> RangeSelection {
    match fields.first(FieldName::Range) {
        Some(value) if !fields.is_repeated(FieldName::Range) => select_by(value, len),
        _ => RangeSelection::Whole,
    }
}

/// Parses the value of a Range field that is not repeated; see [`select`].
pub fn select_by(value: &[u8], len: u64) -> RangeSelection {
    if len == 0 {
        return RangeSelection::Whole;
    }
    parse_specifier(value, len).unwrap_or(RangeSelection::Whole)
}

impl ByteRange {
    /// Returns the offset of the last byte.
    #[inline]
    pub fn last(self) -> u64 {
        self.at + (self.len - 1)
    }

    /// Returns whether the ranges overlap or are adjacent.
    fn touches(self, other: ByteRange) -> bool {
        self.at <= other.last().saturating_add(1) && other.at <= self.last().saturating_add(1)
    }

    /// Returns the smallest range that contains both.
    fn union(self, other: ByteRange) -> ByteRange {
        let at = self.at.min(other.at);
        ByteRange { at, len: self.last().max(other.last()) - at + 1 }
    }
}

impl RangeSet {
    /// Returns the ranges; at least one.
    #[inline]
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.ranges[..self.count as usize]
    }

    /// Adds a range and joins it with those it touches. Returns `None` if that makes too many ranges.
    fn add(&mut self, range: ByteRange) -> Option<()> {
        // The ranges in the set do not touch each other, so a range that touches the union touches `range` itself.
        let joined =
            self.as_slice().iter().filter(|other| other.touches(range)).fold(range, |a, &b| a.union(b));
        let (mut kept, mut placed) = (0, false);
        for at in 0..self.count as usize {
            let other = self.ranges[at];
            if !other.touches(range) {
                self.ranges[kept] = other;
            } else if placed {
                continue;
            } else {
                self.ranges[kept] = joined;
                placed = true;
            }
            kept += 1;
        }
        if !placed {
            *self.ranges.get_mut(kept)? = joined;
            kept += 1;
        }
        self.count = kept as u8;
        Some(())
    }
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &RangeSet) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for RangeSet {}

/// Parses a ranges-specifier, `bytes "=" 1#range-spec`. Returns `None` if the server ignores the field.
fn parse_specifier(specifier: &[u8], len: u64) -> Option<RangeSelection> {
    let equals = specifier.iter().position(|&byte| byte == b'=')?;
    let (unit, set) = (&specifier[..equals], &specifier[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let (mut ranges, mut is_empty) = (RangeSet::default(), true);
    // A comma in quotes needs no care: a range with a quote is malformed.
    let specs = set.split(|&byte| byte == b',').map(trim_ows).filter(|spec| !spec.is_empty());
    for (at, spec) in specs.enumerate() {
        if at == RANGE_SPEC_COUNT_MAX {
            return None;
        }
        is_empty = false;
        if let Some(range) = RangeSpec::parse(spec)?.resolve(len) {
            ranges.add(range)?;
        }
    }
    match ranges.count {
        _ if is_empty => None,
        0 => Some(RangeSelection::Unsatisfiable),
        _ => Some(RangeSelection::Ranges(ranges)),
    }
}

/// A range-spec of the grammar.
enum RangeSpec {
    /// `first "-" [ last ]`. An omitted `last` becomes `u64::MAX`. Invariant: `first <= last`.
    Int { first: u64, last: u64 },
    /// `"-" len`: the last bytes.
    Suffix { len: u64 },
}

impl RangeSpec {
    /// Parses a range-spec. Returns `None` if it is malformed or its last byte is before its first.
    fn parse(spec: &[u8]) -> Option<RangeSpec> {
        let dash = spec.iter().position(|&byte| byte == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            ([], len) => Some(RangeSpec::Suffix { len: number(len)? }),
            (first, []) => Some(RangeSpec::Int { first: number(first)?, last: u64::MAX }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(RangeSpec::Int { first, last })
            }
        }
    }

    /// Returns the selected range of a representation of `of` bytes, at least one. Returns `None` if it selects no byte.
    fn resolve(self, of: u64) -> Option<ByteRange> {
        match self {
            RangeSpec::Int { first, .. } if first >= of => None,
            RangeSpec::Int { first, last } => {
                Some(ByteRange { at: first, len: last.min(of - 1) - first + 1 })
            }
            RangeSpec::Suffix { len: 0 } => None,
            RangeSpec::Suffix { len } => Some(ByteRange { at: of - len.min(of), len: len.min(of) }),
        }
    }
}

/// Parses 1*DIGIT and clamps the number to 64 bits.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = digits.iter().map(|digit| u64::from(digit - b'0'));
    Some(digits.fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(digit)))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::head::parse;

    /// Each case is a request for a representation of 100 bytes. The ranges are (at, len); no ranges means status 416.
    #[test]
    fn range_selects_existing_bytes() {
        const WHOLE: Option<&[(u64, u64)]> = None;
        const NOTHING: Option<&[(u64, u64)]> = Some(&[]);
        #[rustfmt::skip]
        let cases: &[(&str, &str, Option<&[(u64, u64)]>)] = &[
            // case                     value                           ranges
            ("single",                  "bytes=10-19",                  Some(&[(10, 10)])),
            ("one byte",                "bytes=0-0",                    Some(&[(0, 1)])),
            ("the last byte",           "bytes=99-99",                  Some(&[(99, 1)])),
            ("open",                    "bytes=90-",                    Some(&[(90, 10)])),
            ("open from the start",     "bytes=0-",                     Some(&[(0, 100)])),
            ("suffix",                  "bytes=-10",                    Some(&[(90, 10)])),
            ("longer suffix",           "bytes=-1000",                  Some(&[(0, 100)])),
            ("beyond the end",          "bytes=95-200",                 Some(&[(95, 5)])),
            ("after the end",           "bytes=100-",                   NOTHING),
            ("empty suffix",            "bytes=-0",                     NOTHING),
            ("no existing byte",        "bytes=100-200, 300-, -0",      NOTHING),
            ("one existing range",      "bytes=300-400, 7-8",           Some(&[(7, 2)])),
            ("several",                 "bytes=0-4,10-14,-5",           Some(&[(0, 5), (10, 5), (95, 5)])),
            ("in order of the request", "bytes=-5, 10-14, 0-4",         Some(&[(95, 5), (10, 5), (0, 5)])),
            ("overlapping",             "bytes=0-9,5-14",               Some(&[(0, 15)])),
            ("adjacent",                "bytes=0-9,10-14",              Some(&[(0, 15)])),
            ("adjacent, backwards",     "bytes=10-14,0-9",              Some(&[(0, 15)])),
            ("a gap of one byte",       "bytes=0-8,10-14",              Some(&[(0, 9), (10, 5)])),
            ("within",                  "bytes=0-49,10-14",             Some(&[(0, 50)])),
            ("the same twice",          "bytes=0-0,0-0",                Some(&[(0, 1)])),
            ("all joined by the last",  "bytes=0-1,50-51,10-11,-100",   Some(&[(0, 100)])),
            ("some joined by the last", "bytes=80-,20-29,0-9,5-24",     Some(&[(80, 20), (0, 30)])),
            ("space and empty members", "bytes= 0-1\t,, 4-5 ,",         Some(&[(0, 2), (4, 2)])),
            ("unit in capitals",        "Bytes=0-1",                    Some(&[(0, 2)])),
            ("leading zeros",           "bytes=007-0008",               Some(&[(7, 2)])),
            ("six ranges",              "bytes=0-0,2-2,4-4,6-6,8-8,10-10", Some(&[(0, 1), (2, 1), (4, 1), (6, 1), (8, 1), (10, 1)])),
            ("seven separate ranges",   "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12", WHOLE),
            ("seven joined to one",     "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6", Some(&[(0, 7)])),
            ("six ranges, and nothing", "bytes=0-0,2-2,4-4,6-6,8-8,10-10,200-", Some(&[(0, 1), (2, 1), (4, 1), (6, 1), (8, 1), (10, 1)])),
            ("2^64 - 1",                "bytes=0-18446744073709551615", Some(&[(0, 100)])),
            ("2^64",                    "bytes=0-18446744073709551616", Some(&[(0, 100)])),
            ("2^64 and 2 bytes",        "bytes=18446744073709551618-",  NOTHING),
            ("longer than any number",  "bytes=5-99999999999999999999999999999999999999999", Some(&[(5, 95)])),
            ("as long a suffix",        "bytes=-99999999999999999999999999999999999999999",  Some(&[(0, 100)])),
            ("another unit",            "lines=0-1",                    WHOLE),
            ("no unit",                 "=0-1",                         WHOLE),
            ("a unit alone",            "bytes",                        WHOLE),
            ("space before =",          "bytes =0-1",                   WHOLE),
            ("no range",                "bytes=",                       WHOLE),
            ("only commas",             "bytes=, ,",                    WHOLE),
            ("nothing",                 "",                             WHOLE),
            ("no dash",                 "bytes=5",                      WHOLE),
            ("only a dash",             "bytes=-",                      WHOLE),
            ("two dashes",              "bytes=0-1-2",                  WHOLE),
            ("negative",                "bytes=--1",                    WHOLE),
            ("a sign",                  "bytes=+1-2",                   WHOLE),
            ("last before first",       "bytes=5-4",                    WHOLE),
            ("hexadecimal",             "bytes=0x0-0x1",                WHOLE),
            ("space within",            "bytes=0 - 1",                  WHOLE),
            ("malformed after",         "bytes=0-1, x",                 WHOLE),
            ("malformed, out of reach", "bytes=200-100",                WHOLE),
            ("quoted",                  "bytes=\"0-1\"",                WHOLE),
            ("a comma in quotes",       "bytes=\"0-1,2-3\"",            WHOLE),
            ("two lines",               "bytes=0-1\r\nRange: bytes=4-5", WHOLE),
        ];
        for &(name, value, want) in cases {
            assert_eq!(selected(value, 100), want.map(<[_]>::to_vec), "{name}");
        }
    }

    #[test]
    fn many_ranges_are_ignored_even_if_they_join() {
        let value = |count: usize| {
            let specs: Vec<_> = (0..count).map(|at| format!("{at}-{at}")).collect();
            format!("bytes={}", specs.join(","))
        };
        assert_eq!(selected(&value(RANGE_SPEC_COUNT_MAX), 1000), Some(std::vec![(0, 512)]));
        assert_eq!(selected(&value(RANGE_SPEC_COUNT_MAX + 1), 1000), None);
    }

    #[test]
    fn ranges_of_an_empty_representation_are_ignored() {
        for value in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-"] {
            assert_eq!(selected(value, 0), None, "{value}");
        }
        let (head, _) = parse(b"GET / HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!(select(&head.fields, 100), RangeSelection::Whole, "without the field");
    }

    proptest! {
        /// A byte is selected exactly once if the request names it, and not at all otherwise.
        #[test]
        fn selected_bytes_are_the_requested_ones(
            ranges in prop::collection::vec((0_u64..60, 0_u64..20), 1..9), len in 1_u64..50,
        ) {
            let value = ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect::<Vec<_>>();
            let asked = |byte| ranges.iter().any(|(first, more)| (*first..=first + more).contains(&byte));
            if let Some(found) = selected(&format!("bytes={}", value.join(",")), len) {
                for byte in 0..len {
                    let count = found.iter().filter(|(at, len)| (*at..at + len).contains(&byte)).count();
                    prop_assert_eq!(count, usize::from(asked(byte)));
                }
                prop_assert!(found.iter().all(|(at, len_of)| *len_of > 0 && at + len_of <= len));
            }
        }

        #[test]
        fn any_value_is_handled_without_panic(value in "(bytes=)?[-0-9, =a]{0,60}", len: u64) {
            selected(&value, len);
        }
    }

    /// Returns the ranges; none for status 416, `None` for the whole representation.
    fn selected(value: &str, len: u64) -> Option<Vec<(u64, u64)>> {
        let wire = format!("GET / HTTP/1.1\r\nRange: {value}\r\n\r\n");
        let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
        match select(&head.fields, len) {
            RangeSelection::Whole => None,
            RangeSelection::Ranges(ranges) => {
                Some(ranges.as_slice().iter().map(|range| (range.at, range.len)).collect())
            }
            RangeSelection::Unsatisfiable => Some(Vec::new()),
        }
    }
}
