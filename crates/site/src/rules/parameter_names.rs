//! The names of all query parameters that the rules of an image match, numbered when the image is opened.
//!
//! A request reads its query once with them: a name that no rule has is skipped, any other gets a place by its number. The table
//! holds names of rules only, so a client cannot fill it; the hash is keyed, so the author of a site cannot slow it down either.

use super::{RULE_COUNT_MAX, Rule, RuleStep, RuleSteps};
use std::collections::HashMap;

/// The maximum number of different parameter names in the rules of a site: one for each rule.
pub const PARAMETER_NAME_COUNT_MAX: usize = RULE_COUNT_MAX;

/// Numbers for the parameter names of rules.
#[derive(Clone, Debug, Default)]
pub(super) struct ParameterNames {
    numbers: HashMap<Box<[u8]>, usize>,
}

impl ParameterNames {
    /// Numbers the names in these rules. Returns `None` if there are more than [`PARAMETER_NAME_COUNT_MAX`].
    pub(super) fn new<'i>(rules: impl Iterator<Item = Rule<'i>>) -> Option<ParameterNames> {
        let mut names = ParameterNames::default();
        for step in rules.flat_map(|rule| RuleSteps(rule.parameters)) {
            let RuleStep::Name(name) = step else { continue };
            let next = names.numbers.len();
            names.numbers.entry(name.into()).or_insert(next);
        }
        (names.numbers.len() <= PARAMETER_NAME_COUNT_MAX).then_some(names)
    }

    /// Returns the number of a name, below [`PARAMETER_NAME_COUNT_MAX`], if a rule has it.
    pub(super) fn number(&self, name: &[u8]) -> Option<usize> {
        self.numbers.get(name).copied()
    }
}
