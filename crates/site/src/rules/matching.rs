//! Matches the steps of a rule against a request: its pattern against the path, its parameters against the query.
//!
//! No step backtracks or reads ahead: text is compared in place, and [`RequestIndex`] knows the end of each segment and the value of each
//! parameter. So the cost of a rule is that of its own text.

use super::parameter_names::ParameterNames;
use super::request_index::RequestIndex;
use super::{CAPTURE_COUNT_MAX, RuleStep, RuleSteps};

/// The captures of a match, in order.
#[derive(Default)]
pub struct Captures<'r> {
    pub(super) values: [&'r [u8]; CAPTURE_COUNT_MAX],
    count: usize,
}

impl<'r> Captures<'r> {
    /// Returns the captured values.
    pub fn values(&self) -> &[&'r [u8]] {
        &self.values[..self.count]
    }

    fn push(&mut self, value: &'r [u8]) -> bool {
        let Some(slot) = self.values.get_mut(self.count) else { return false };
        *slot = value;
        self.count += 1;
        true
    }
}

/// Returns whether `path` matches a pattern that [`encode_steps`](super::encode_steps) encoded, and appends its captures. With
/// `optional_slash`, a slash at the end makes no difference.
pub fn match_pattern<'r>(
    pattern: &[u8],
    optional_slash: bool,
    path: &'r [u8],
    captures: &mut Captures<'r>,
) -> bool {
    let names = ParameterNames::default();
    path_matches(pattern, optional_slash, &mut RequestIndex::new(path, None, &names), captures)
}

/// Returns whether the path of a request matches a pattern, and appends its captures.
pub(super) fn path_matches<'r>(
    pattern: &[u8],
    optional_slash: bool,
    request: &mut RequestIndex<'_, 'r>,
    captures: &mut Captures<'r>,
) -> bool {
    let path = request.path();
    let bare = if optional_slash && path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    let mut steps = RuleSteps(pattern);
    let mut rest = path;
    while let Some(step) = steps.next() {
        match step {
            RuleStep::Text(text) => match rest.strip_prefix(text) {
                Some(behind) => rest = behind,
                // `/a/*` matches `/a`, too.
                None if optional_slash
                    && text.strip_suffix(b"/") == Some(rest)
                    && RuleSteps(steps.0).next() == Some(RuleStep::CaptureRest) =>
                {
                    rest = b"";
                }
                None => return optional_slash && steps.0.is_empty() && tail(path, bare, rest) == Some(text),
            },
            RuleStep::Capture => {
                let at = path.len() - rest.len();
                let Some(end) = request.segment_end(at) else { return false };
                let suffix = match RuleSteps(steps.0).next() {
                    Some(RuleStep::Text(text)) => {
                        text.iter().position(|&byte| byte == b'/').unwrap_or(text.len())
                    }
                    _ => 0,
                };
                let Some(len @ 1..) = (end - at).checked_sub(suffix) else { return false };
                if !captures.push(&rest[..len]) {
                    return false;
                }
                rest = &rest[len..];
            }
            RuleStep::CaptureRest => {
                let suffix = match steps.next() {
                    Some(RuleStep::Text(text)) => text,
                    None => b"",
                    Some(_) => return false,
                };
                return match rest.strip_suffix(suffix) {
                    Some(value) => steps.0.is_empty() && captures.push(value),
                    None => false,
                };
            }
            _ => return false,
        }
    }
    rest.is_empty() || (optional_slash && rest == b"/" && path.len() > 1)
}

/// Returns `rest`, the unmatched end of `path`, without the final slash that `bare` lacks.
fn tail<'r>(path: &'r [u8], bare: &'r [u8], rest: &'r [u8]) -> Option<&'r [u8]> {
    rest.get(..rest.len().checked_sub(path.len() - bare.len())?)
}

/// Returns whether the query has each parameter, and appends the captures.
pub(super) fn parameters_match<'r>(
    parameters: &[u8],
    request: &mut RequestIndex<'_, 'r>,
    captures: &mut Captures<'r>,
) -> bool {
    let mut steps = RuleSteps(parameters);
    while let Some(step) = steps.next() {
        let RuleStep::Name(name) = step else { return false };
        let fits = match (steps.next(), request.value(name)) {
            (Some(RuleStep::Text(text)), Some(value)) => value == text,
            (Some(RuleStep::Capture), Some(value)) => !value.is_empty() && captures.push(value),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    true
}
