//! What rules look up in a request: the end of each path segment, and the values of query parameters.
//!
//! ```text
//! /blog/2026/a ─ one pass ─▶ segment ends     ?a=1&id=7 ─ one pass ─▶ values, by the number of their name
//! ```
//!
//! Each pass happens at the first look-up that needs it. Rules have no other access to the query, and compare the path with their text
//! only, so the cost of 1,000 rules does not grow with the length of the request.

use super::parameter_names::{PARAMETER_NAME_COUNT_MAX, ParameterNames};
use crate::format::PATH_LEN_MAX;

/// The path and the query of a request, each read once.
pub(super) struct RequestIndex<'n, 'r> {
    path: &'r [u8],
    query: &'r [u8],
    names: &'n ParameterNames,
    segment_ends: Option<[u16; PATH_LEN_MAX]>,
    values: Option<[Option<&'r [u8]>; PARAMETER_NAME_COUNT_MAX]>,
}

impl<'n, 'r> RequestIndex<'n, 'r> {
    pub(super) fn new(path: &'r [u8], query: Option<&'r [u8]>, names: &'n ParameterNames) -> Self {
        RequestIndex { path, query: query.unwrap_or_default(), names, segment_ends: None, values: None }
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &'r [u8] {
        self.path
    }

    /// Returns the offset of the first slash of the path from `at` on, or the length of the path. Returns `None` at the end of the path,
    /// and for a path that is too long for a request.
    pub(super) fn segment_end(&mut self, at: usize) -> Option<usize> {
        if at >= self.path.len() || self.path.len() > PATH_LEN_MAX {
            return None;
        }
        let ends = self.segment_ends.get_or_insert_with(|| segment_ends(self.path));
        Some(usize::from(ends[at]))
    }

    /// Returns the value of the first parameter with this name, if a rule of the image has the name.
    pub(super) fn value(&mut self, name: &[u8]) -> Option<&'r [u8]> {
        if self.query.is_empty() {
            return None;
        }
        let values = self.values.get_or_insert_with(|| values(self.query, self.names));
        values[self.names.number(name)?]
    }
}

/// Returns the end of the segment at each offset of a path.
fn segment_ends(path: &[u8]) -> [u16; PATH_LEN_MAX] {
    #[cfg(test)]
    tests::count_scan(path);
    let mut ends = [0; PATH_LEN_MAX];
    let mut end = path.len();
    for (at, &byte) in path.iter().enumerate().rev() {
        if byte == b'/' {
            end = at;
        }
        ends[at] = end as u16;
    }
    ends
}

/// Returns the first value of each numbered name.
fn values<'r>(query: &'r [u8], names: &ParameterNames) -> [Option<&'r [u8]>; PARAMETER_NAME_COUNT_MAX] {
    #[cfg(test)]
    tests::count_scan(query);
    let mut values = [None; PARAMETER_NAME_COUNT_MAX];
    for pair in query.split(|&byte| byte == b'&') {
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { continue };
        if let Some(number) = names.number(&pair[..equals]) {
            values[number].get_or_insert(&pair[equals + 1..]);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::{RuleRequest, RuleRow, RuleStep, Rules, RulesLayout, encode_head};
    use super::*;
    use crate::format::HpackPlace;
    use std::cell::Cell;

    #[test]
    fn rules_read_path_and_query_once() {
        // Each rule matches the path, and none of the queries: the worst case.
        let names: Vec<String> = (0..1_000).map(|number| format!("p{number}")).collect();
        let rules: Vec<_> = names
            .iter()
            .map(|name| {
                rule(
                    &[RuleStep::Text(b"/"), RuleStep::Capture, RuleStep::Text(b"/"), RuleStep::Capture],
                    &[RuleStep::Name(name.as_bytes()), RuleStep::Text(b"no")],
                )
            })
            .collect();
        let section = [encode_head(b"", HpackPlace::default(), b""), rules.concat()].concat();
        let layout = RulesLayout::new(&section, 0).expect("a section");
        let path = format!("/{}/{}", "a".repeat(2_000), "b".repeat(2_000));
        for query in ["x&".repeat(8_000), "p999=n&".repeat(2_000), names.join("=no1&")] {
            SCANNED.set(0);
            let request = RuleRequest { path: path.as_bytes(), query: Some(query.as_bytes()), exists: false };
            assert!(Rules::new(&layout, &section).first_match(request).is_none());
            assert_eq!(SCANNED.get(), path.len() + query.len());
        }
    }

    #[test]
    fn rules_that_differ_in_text_read_nothing() {
        let rule = rule(&[RuleStep::Text(b"/b/"), RuleStep::Capture], &[]);
        let section = [encode_head(b"", HpackPlace::default(), b""), rule.repeat(1_000)].concat();
        let layout = RulesLayout::new(&section, 0).expect("a section");
        SCANNED.set(0);
        let request = RuleRequest { path: b"/a/c", query: Some(b"q=1"), exists: false };
        assert!(Rules::new(&layout, &section).first_match(request).is_none());
        assert_eq!(SCANNED.get(), 0);
    }

    #[test]
    fn the_first_value_of_a_name_counts() {
        let rule = rule(&[RuleStep::Text(b"/")], &[RuleStep::Name(b"p"), RuleStep::Text(b"1")]);
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], bool)] = &[
            // case                query              matches
            ("alone",              b"p=1",            true),
            ("among others",       b"a=b&&c&p=1&d=",  true),
            ("twice",              b"p=1&p=2",        true),
            ("later",              b"p=2&p=1",        false),
            ("after a bare name",  b"p&p=1",          true),
            ("empty first",        b"p=&p=1",         false),
            ("a longer name",      b"pp=1&ap=1",      false),
            ("an = in the value",  b"p=1=1",          false),
            ("no query",           b"",               false),
        ];
        for (name, query, want) in cases {
            let request = RuleRequest { path: b"/", query: Some(query), exists: false };
            assert_eq!(RuleRow::match_request(&rule, request).is_some(), *want, "{name}");
        }
    }

    #[test]
    fn a_section_has_a_bounded_number_of_parameter_names() {
        let section = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
            let steps: Vec<_> = names
                .iter()
                .flat_map(|name| [RuleStep::Name(name.as_bytes()), RuleStep::Text(b"x")])
                .collect();
            [encode_head(b"", HpackPlace::default(), b""), rule(&[RuleStep::Text(b"/")], &steps)].concat()
        };
        assert!(RulesLayout::new(&section(PARAMETER_NAME_COUNT_MAX), 0).is_some());
        assert!(RulesLayout::new(&section(PARAMETER_NAME_COUNT_MAX + 1), 0).is_none());
    }

    /// Returns an encoded redirect to `/to`.
    fn rule(pattern: &[RuleStep<'_>], parameters: &[RuleStep<'_>]) -> Vec<u8> {
        let target = &[RuleStep::Text(b"/to")];
        let row = RuleRow {
            status: 301,
            forced: false,
            optional_slash: true,
            keeps_query: false,
            pattern,
            parameters,
            target,
            fragment: b"",
        };
        row.encode().expect("a short rule")
    }

    thread_local! {
        /// The number of bytes that the passes of this thread have read.
        static SCANNED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_scan(bytes: &[u8]) {
        SCANNED.set(SCANNED.get() + bytes.len());
    }
}
