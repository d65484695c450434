//! The paths whose requests the access log leaves out. The last pattern that matches a path counts; without one, its requests are logged.
//!
//! ```text
//! section:  [ row ][ row ] …                                  in the order of the configuration
//! row:      [ length, 2 ][ bits, 1 ][ zero, 1 ][ pattern ]    a sequence of steps
//! ```
//!
//! A missing path matches too, so the patterns stay patterns: a bit in the record of each path would not do. The image copies them when it is
//! opened, so that no request waits for their page. Without an access log nothing reads them.
//!
//! ```
//! use tarpon_site::rules::{LogPathRow, LogPaths, RuleStep};
//!
//! let row = |is_logged, text| {
//!     let pattern = &[RuleStep::Text(text), RuleStep::CaptureRest];
//!     LogPathRow { is_logged, optional_slash: true, pattern }.encode().expect("a short pattern")
//! };
//! let paths = LogPaths::new(&[row(false, b"/quiet/"), row(true, b"/quiet/but/")].concat()).expect("two rows");
//! assert!(!paths.is_logged(b"/quiet/a") && paths.is_logged(b"/quiet/but/a") && paths.is_logged(b"/"));
//! ```

use super::matching::{Captures, path_matches};
use super::parameter_names::ParameterNames;
use super::request_index::RequestIndex;
use super::{RULE_COUNT_MAX, RuleStep, RuleSteps, encode_steps};

/// The maximum number of these patterns in a site. Each costs a logged request as much as a rule does.
pub const LOG_PATH_COUNT_MAX: usize = RULE_COUNT_MAX;

/// A pattern to encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPathRow<'s> {
    /// Whether requests for the paths are logged.
    pub is_logged: bool,
    /// Whether a slash at the end of the path is optional.
    pub optional_slash: bool,
    /// The steps that match the path.
    pub pattern: &'s [RuleStep<'s>],
}

/// The patterns of an image.
#[derive(Clone, Debug)]
pub struct LogPaths {
    rows: Vec<LogPath>,
    /// Patterns have no parameters.
    names: ParameterNames,
}

#[derive(Clone, Debug)]
struct LogPath {
    is_logged: bool,
    optional_slash: bool,
    pattern: Box<[u8]>,
    /// What each path that matches begins with.
    front: Box<[u8]>,
}

const LOGGED: u8 = 1;
const OPTIONAL_SLASH: u8 = 2;

/// The length of a row before its pattern.
const ROW_HEAD_LEN: usize = 4;

impl LogPathRow<'_> {
    /// Returns the bytes of the row, or `None` if the pattern is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let pattern = encode_steps(self.pattern)?;
        let len = u16::try_from(ROW_HEAD_LEN + pattern.len()).ok()?;
        let [low, high] = len.to_le_bytes();
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let bits = bit(self.is_logged, LOGGED) | bit(self.optional_slash, OPTIONAL_SLASH);
        Some([&[low, high, bits, 0], &pattern[..]].concat())
    }
}

impl LogPaths {
    /// Decodes a section. Returns `None` if no packer writes it.
    pub fn new(mut section: &[u8]) -> Option<LogPaths> {
        let mut rows = Vec::new();
        while let [low, high, bits @ 0..=3, 0, ..] = *section {
            let (row, behind) = section.split_at_checked(u16::from_le_bytes([low, high]).into())?;
            let pattern = row.get(ROW_HEAD_LEN..).filter(|pattern| is_pattern(pattern))?;
            let (is_logged, optional_slash) = (bits & LOGGED != 0, bits & OPTIONAL_SLASH != 0);
            let front = front(pattern).into();
            rows.push(LogPath { is_logged, optional_slash, pattern: pattern.into(), front });
            section = behind;
        }
        let is_good = section.is_empty() && (1..=LOG_PATH_COUNT_MAX).contains(&rows.len());
        is_good.then(|| LogPaths { rows, names: ParameterNames::default() })
    }

    /// Returns whether requests for a path are logged. The path is normalized.
    #[inline(never)]
    pub fn is_logged(&self, path: &[u8]) -> bool {
        let mut index = RequestIndex::new(path, None, &self.names);
        let mut matches = |row: &&LogPath| {
            let LogPath { optional_slash, pattern, front, .. } = row;
            path.starts_with(front)
                && path_matches(pattern, *optional_slash, &mut index, &mut Captures::default())
        };
        self.rows.iter().rev().find(|row| matches(row)).is_none_or(|row| row.is_logged)
    }

    /// Returns the steps of each pattern, in order, and whether requests for its paths are logged.
    pub fn all(&self) -> impl Iterator<Item = (RuleSteps<'_>, bool)> {
        self.rows.iter().map(|row| (RuleSteps(&row.pattern), row.is_logged))
    }
}

/// Returns the text that each path begins with that matches a pattern: without the slash at its end, as `/a/*` matches `/a`, too.
fn front(pattern: &[u8]) -> &[u8] {
    match RuleSteps(pattern).next() {
        Some(RuleStep::Text(text)) => text.strip_suffix(b"/").unwrap_or(text),
        _ => b"",
    }
}

/// Returns whether these are the steps of a pattern.
fn is_pattern(encoded: &[u8]) -> bool {
    let mut steps = RuleSteps(encoded);
    let is_known = |step| matches!(step, RuleStep::Text(_) | RuleStep::Capture | RuleStep::CaptureRest);
    steps.by_ref().all(is_known) && steps.0.is_empty() && !encoded.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::match_pattern;
    use super::*;
    use proptest::{collection::vec, prelude::*, sample::select};

    proptest! {
        /// The front of a pattern never hides a match.
        #[test]
        fn a_pattern_matches_as_that_of_a_rule(
            texts in vec(select(vec!["/", "/a", "/a/", "a", "b/", "*", ":"]), 1..5),
            path in "/[ab/]{0,6}",
            optional_slash: bool,
        ) {
            let step = |text: &&'static str| match *text {
                "*" => RuleStep::CaptureRest,
                ":" => RuleStep::Capture,
                text => RuleStep::Text(text.as_bytes()),
            };
            let pattern = &texts.iter().map(step).collect::<Vec<_>>()[..];
            let row = LogPathRow { is_logged: false, optional_slash, pattern }.encode().expect("a short pattern");
            let want = match_pattern(&row[ROW_HEAD_LEN..], optional_slash, path.as_bytes(), &mut Captures::default());
            prop_assert_eq!(LogPaths::new(&row).expect("a row").is_logged(path.as_bytes()), !want);
        }
    }

    fn row(is_logged: bool, pattern: &[RuleStep<'_>]) -> Vec<u8> {
        LogPathRow { is_logged, optional_slash: true, pattern }.encode().expect("a short pattern")
    }

    #[test]
    #[rustfmt::skip]
    fn last_matching_pattern_counts() {
        use RuleStep::{Capture, CaptureRest, Text};
        let rows = [
            row(false, &[Text(b"/quiet/"), CaptureRest]),
            row(true,  &[Text(b"/quiet/but/"), CaptureRest]),
            row(false, &[Text(b"/quiet/but/this")]),
            row(false, &[Text(b"/"), Capture, Text(b"/icon.png")]),
            row(false, &[Text(b"/"), CaptureRest, Text(b".map")]),
        ];
        let paths = LogPaths::new(&rows.concat()).expect("rows");
        let cases: &[(&str, &str, bool)] = &[
            // case                      path                    logged
            ("no pattern matches",       "/",                    true),
            ("below",                    "/quiet/a/b",           false),
            ("the directory",            "/quiet/",              false),
            ("without its slash",        "/quiet",               false),
            ("a longer name",            "/quieter/a",           true),
            ("on again",                 "/quiet/but/a",         true),
            ("on again, the directory",  "/quiet/but",           true),
            ("off again",                "/quiet/but/this",      false),
            ("off again, with a slash",  "/quiet/but/this/",     false),
            ("off again, not below",     "/quiet/but/this/a",    true),
            ("a placeholder",            "/a/icon.png",          false),
            ("a placeholder, deeper",    "/a/b/icon.png",        true),
            ("a suffix",                 "/a/b.js.map",          false),
            ("the last pattern wins",    "/quiet/but/a.map",     false),
            ("no path",                  "",                     true),
        ];
        for &(name, path, want) in cases {
            assert_eq!(paths.is_logged(path.as_bytes()), want, "{name}: {path}");
        }
        let shown: Vec<_> = paths.all().map(|(steps, is_logged)| (steps.count(), is_logged)).collect();
        assert_eq!(shown, [(2, false), (2, true), (1, false), (3, false), (3, false)]);
    }

    #[test]
    #[rustfmt::skip]
    fn section_that_no_packer_writes_is_refused() {
        let good = row(false, &[RuleStep::Text(b"/a"), RuleStep::CaptureRest]);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let cases: &[(&str, Vec<u8>, bool)] = &[
            ("one row",             good.clone(),                                       true),
            ("as many as may be",   good.repeat(LOG_PATH_COUNT_MAX),                    true),
            ("one more",            good.repeat(LOG_PATH_COUNT_MAX + 1),                false),
            ("nothing",             vec![],                                             false),
            ("an unknown bit",      with(2, 4),                                         false),
            ("a byte that is zero", with(3, 1),                                         false),
            ("a length of 0",       with(0, 0),                                         false),
            ("a shorter row",       with(0, 3),                                         false),
            ("a longer row",        with(0, 200),                                       false),
            ("an unknown step",     with(ROW_HEAD_LEN, 9),                              false),
            ("a longer text",       with(ROW_HEAD_LEN + 1, 200),                        false),
            ("a step of a target",  row(false, &[RuleStep::Captured(0)]),               false),
            ("a parameter",         row(false, &[RuleStep::Name(b"a"), RuleStep::Capture]), false),
            ("no step",             row(false, &[]),                                    false),
        ];
        for (name, section, is_good) in cases {
            assert_eq!(LogPaths::new(section).is_some(), *is_good, "{name}");
        }
        for len in 1..good.len() {
            assert!(LogPaths::new(&[&good[..], &good[..len]].concat()).is_none(), "cut at {len}");
        }
    }
}
