//! Which rule comes first for a path, as far as the path alone tells; whether rules lead round in a circle.
//!
//! ```text
//! a path the site has ───── a forced rule matches it ──▶ its record asks the table first
//! the path of a plain rule, not in the site ─┬─ the first rule that matches needs no query ──▶ a record
//!                                            └─ it does ─────────────────────────────────────▶ the table
//! any other path ─────────────────────────────────────────────────────────────────────────────▶ the table
//! ```
//!
//! A plain rule that no path needs the table for is not in it: so tens of thousands of them cost nothing.

use super::error::{LocatedRuleError, RuleError};
use super::redirects::RedirectRule;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tarpon_site::rules::{Asked, RULE_COUNT_MAX, RuleRow, encode_head};

/// Rules, as they go into an image.
#[derive(Debug)]
pub(crate) struct CompiledRules<'r> {
    order: RuleIndex<'r>,
    /// Paths that the site does not have, and where a rule leads from each.
    pub(crate) records: BTreeMap<Vec<u8>, Destination>,
    /// The others, each with where it lies among them.
    pub(crate) table: Vec<(u32, &'r RedirectRule)>,
}

/// Where a rule leads from one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To another place.
    Place {
        status: u16,
        /// A URI, up to where a query can go in.
        before_query: Vec<u8>,
        fragment: Vec<u8>,
        keeps_query: bool,
    },
    /// To a file of the site, that is sent with this status.
    File { status: u16, path: Vec<u8> },
}

impl<'r> CompiledRules<'r> {
    /// `file`: where the file at a path is, if the site has one; `exists`: whether it has anything there.
    pub(crate) fn new(
        rules: &'r [RedirectRule],
        file: impl Fn(&[u8]) -> Option<Vec<u8>>,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Result<CompiledRules<'r>, LocatedRuleError> {
        let order = RuleIndex::new(rules);
        for rule in rules.iter().filter(|rule| !rule.is_redirect()) {
            if rule.target.text().is_some_and(|path| resolve_file(path, &file).is_none()) {
                return Err(rule.target_error(RuleError::NoFile));
            }
        }
        for rule in rules {
            order.reject_loop(rule, &exists)?;
        }
        let mut records = BTreeMap::new();
        let mut unsettled = BTreeSet::new();
        for (number, rule) in rules.iter().enumerate() {
            let Some(path) = rule.pattern.plain().filter(|_| rule.is_settled_by_path()) else {
                unsettled.insert(number);
                continue;
            };
            for path in spellings(path, rule.pattern.loose) {
                match order.first(&path, exists(&path)) {
                    _ if exists(&path) && !rule.forced => {}
                    FirstMatch::Rule(first) if !exists(&path) => {
                        if let Some(destination) = destination(first, &path, &file)? {
                            records.insert(path, destination);
                        }
                    }
                    _ => drop(unsettled.insert(number)),
                }
            }
        }
        let (mut table, mut at) = (Vec::new(), 0);
        for rule in unsettled.into_iter().map(|number| &rules[number]) {
            if table.len() == RULE_COUNT_MAX {
                return Err(rule.target_error(RuleError::TooManyRules));
            }
            table.push((at, rule));
            at += rule.encode()?.len() as u32;
        }
        Ok(CompiledRules { order, records, table })
    }

    /// Whether a rule may come before what the site has at a path.
    pub(crate) fn has_forced_rule(&self, path: &[u8]) -> bool {
        self.order.matching(path, true).next().is_some()
    }

    /// The section, if there is anything to say in it; with what is sent behind Location.
    pub(crate) fn section(&self, fields: &[u8], content: &[u8]) -> Result<Option<Vec<u8>>, LocatedRuleError> {
        if self.table.is_empty() {
            return Ok(None);
        }
        let mut section = encode_head(fields, content);
        for (_, rule) in &self.table {
            section.extend(rule.encode()?);
        }
        Ok(Some(section))
    }
}

/// The rules in their order, so that those a path may match are found fast.
#[derive(Debug)]
struct RuleIndex<'r> {
    rules: &'r [RedirectRule],
    /// Those for one path, by that path.
    plain: HashMap<&'r [u8], Vec<usize>>,
    /// The others.
    others: Vec<usize>,
}

/// What comes first for a path.
enum FirstMatch<'r> {
    /// Perhaps one that needs the query.
    Unsettled,
    Rule(&'r RedirectRule),
    Nothing,
}

impl<'r> RuleIndex<'r> {
    fn new(rules: &'r [RedirectRule]) -> RuleIndex<'r> {
        let mut order = RuleIndex { rules, plain: HashMap::new(), others: Vec::new() };
        for (number, rule) in rules.iter().enumerate() {
            match rule.pattern.plain() {
                Some(path) => order.plain.entry(path).or_default().push(number),
                None => order.others.push(number),
            }
        }
        order
    }

    /// The rules that match a path, in their order, if not forbidden by what exists there.
    fn matching(&self, path: &[u8], exists: bool) -> impl Iterator<Item = &'r RedirectRule> {
        let bare = path.strip_suffix(b"/").filter(|bare| !bare.is_empty());
        let plain = |path: Option<&[u8]>| {
            path.and_then(|path| self.plain.get(path)).into_iter().flatten().copied().collect::<Vec<_>>()
        };
        let mut numbers = [plain(Some(path)), plain(bare), self.others.clone()].concat();
        numbers.sort_unstable();
        let rules = numbers.into_iter().map(|number| &self.rules[number]);
        let matching: Vec<_> =
            rules.filter(|rule| (rule.forced || !exists) && rule.pattern.captures(path).is_some()).collect();
        matching.into_iter()
    }

    fn first(&self, path: &[u8], exists: bool) -> FirstMatch<'r> {
        match self.matching(path, exists).next() {
            Some(rule) if rule.is_settled_by_path() => FirstMatch::Rule(rule),
            Some(_) => FirstMatch::Unsettled,
            None => FirstMatch::Nothing,
        }
    }

    /// Follows redirects as a client does, from a path that the rule is about.
    fn reject_loop(
        &self,
        rule: &RedirectRule,
        exists: &impl Fn(&[u8]) -> bool,
    ) -> Result<(), LocatedRuleError> {
        let mut path = rule.pattern.example();
        let mut seen = BTreeSet::new();
        let mut forced = true;
        for _ in 0..HOP_COUNT_MAX {
            let FirstMatch::Rule(next) = self.first(&path, exists(&path)) else { return Ok(()) };
            if !next.is_redirect() || !next.target.is_local {
                return Ok(());
            }
            forced &= next.forced;
            let to = redirect_path(next, &path)?;
            if !seen.insert(std::mem::replace(&mut path, to)) || seen.contains(&path) {
                return Err(rule.target_error(RuleError::Loop));
            }
        }
        // Ever new paths: where rules give way to files, one of those may be there.
        if forced { Err(rule.target_error(RuleError::Loop)) } else { Ok(()) }
    }
}

/// Where a redirect leads on this site: the path, decoded.
fn redirect_path(rule: &RedirectRule, path: &[u8]) -> Result<Vec<u8>, LocatedRuleError> {
    let location = expand(rule, path)?;
    let end = location.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(location.len());
    let mut decoded = Vec::new();
    let mut rest = &location[..end];
    while let [byte, behind @ ..] = rest {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%') {
            Some(byte) => {
                decoded.push(byte);
                rest = &behind[2..];
            }
            None => {
                decoded.push(*byte);
                rest = behind;
            }
        }
    }
    Ok(decoded)
}

/// What the rule leads to from this path, as the server would write it.
fn expand(rule: &RedirectRule, path: &[u8]) -> Result<Vec<u8>, LocatedRuleError> {
    let encoded = rule.encode()?;
    let asked = Asked { path, query: None, exists: false };
    let mut to = vec![0; LOCATION_LEN_MAX];
    let written = RuleRow::matched(&encoded, asked).and_then(|found| match rule.is_redirect() {
        true => found.location(&mut to),
        false => found.path(&mut to),
    });
    to.truncate(written.ok_or_else(|| rule.target_error(RuleError::RuleLength))?);
    Ok(to)
}

/// Where a rule leads from a path it matches. None: to no file.
fn destination(
    rule: &RedirectRule,
    path: &[u8],
    file: &impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Option<Destination>, LocatedRuleError> {
    let mut to = expand(rule, path)?;
    let status = rule.status;
    if !rule.is_redirect() {
        return Ok(resolve_file(&to, file).map(|path| Destination::File { status, path }));
    }
    let fragment = rule.target.fragment.clone();
    to.truncate(to.len() - fragment.len());
    Ok(Some(Destination::Place { status, before_query: to, fragment, keeps_query: rule.keeps_query() }))
}

/// Where the file is that a path means: itself, the index of a directory, or a page without its extension.
pub(crate) fn resolve_file(path: &[u8], file: &impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let tries = tarpon_site::rules::FILE_SUFFIXES.map(|suffix| [path, suffix].concat());
    tries.into_iter().find_map(|path| file(&path))
}

/// The paths that one path of a rule means.
fn spellings(path: &[u8], loose: bool) -> Vec<Vec<u8>> {
    let mut paths = vec![path.to_vec()];
    if loose && path != b"/" {
        paths.push([path, b"/"].concat());
    }
    paths
}

/// Redirects a browser follows before it gives up (Fetch, section 4.4).
const HOP_COUNT_MAX: usize = 20;
/// Far more than a rule and an example have together.
const LOCATION_LEN_MAX: usize = 1 << 18;
