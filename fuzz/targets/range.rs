//! Range: a simple parser, with strings, sorting and 128-bit numbers, selects the same ranges.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_http::head;
use tarpon_http::range::{RANGE_COUNT_MAX, RangeSelection, select};

// The first eight bytes are the length of the representation, shifted right by their lowest six bits; the rest is the field value.
fuzz_target!(|input: &[u8]| {
    let Some((len, value)) = input.split_first_chunk() else { return };
    let len = u64::from_le_bytes(*len) >> (len[0] % 64);
    let wire = [b"GET / HTTP/1.1\r\nRange:", value, b"\r\n\r\n"].concat();
    let Ok(Some((head, used))) = head::parse(&wire) else { return };
    if used < wire.len() || value.contains(&b'\n') {
        return;
    }
    let found = match select(&head.fields, len) {
        RangeSelection::Whole => None,
        RangeSelection::Unsatisfiable => Some(Vec::new()),
        RangeSelection::Ranges(ranges) => {
            let ranges = ranges.as_slice();
            assert!((1..=RANGE_COUNT_MAX).contains(&ranges.len()));
            Some(
                ranges
                    .iter()
                    .map(|range| (range.at.into(), i128::from(range.at) + i128::from(range.len)))
                    .collect(),
            )
        }
    };
    let requested = str::from_utf8(value).ok().and_then(|value| requested(value, len.into()));
    assert_eq!(found, requested.and_then(|requested| joined(&requested)));
});

/// Returns the satisfiable ranges as (first byte, byte after the last), or `None` if the server ignores the field.
fn requested(value: &str, len: i128) -> Option<Vec<(i128, i128)>> {
    let (unit, set) = value.trim_matches(OWS).split_once('=')?;
    let specs: Vec<&str> =
        set.split(',').map(|spec| spec.trim_matches(OWS)).filter(|spec| !spec.is_empty()).collect();
    if !unit.eq_ignore_ascii_case("bytes") || specs.is_empty() || len == 0 {
        return None;
    }
    let mut ranges = Vec::new();
    for spec in specs {
        let (from, to) = match spec.split_once('-')? {
            ("", suffix) => (len - number(suffix)?, len),
            (first, "") => (number(first)?, len),
            (first, last) if number(first)? > number(last)? => return None,
            (first, last) => (number(first)?, number(last)? + 1),
        };
        ranges.push((from.max(0), to.min(len)));
    }
    ranges.retain(|(from, to)| from < to);
    Some(ranges)
}

/// Joins ranges that overlap or touch, in the order of the first of them. Returns `None` if there are too many after any range.
fn joined(requested: &[(i128, i128)]) -> Option<Vec<(i128, i128)>> {
    let mut ordered = Vec::new();
    for count in 0..=requested.len() {
        let mut sorted = requested[..count].to_vec();
        sorted.sort_unstable();
        ordered.clear();
        for (from, to) in sorted {
            match ordered.last_mut() {
                Some((_, end)) if from <= *end => *end = to.max(*end),
                _ => ordered.push((from, to)),
            }
        }
        if ordered.len() > RANGE_COUNT_MAX {
            return None;
        }
    }
    ordered.sort_by_key(|(from, to)| requested.iter().position(|range| from <= &range.0 && range.1 <= *to));
    Some(ordered)
}

/// Parses a number and clamps it to 64 bits.
fn number(text: &str) -> Option<i128> {
    let digits = text.trim_start_matches('0');
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let last = i128::from(u64::MAX);
    Some(if digits.len() > 20 {
        last
    } else {
        format!("0{digits}").parse().map_or(last, |n: i128| n.min(last))
    })
}

const OWS: [char; 2] = [' ', '\t'];
