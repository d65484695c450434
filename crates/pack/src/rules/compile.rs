//! Compiles rules: finds the first match for each path of a plain rule, and rejects redirect loops.
//!
//! ```text
//! a path of the site that a forced rule matches ──────────────────────────────────────▶ its record refers to the table
//! the path of a plain rule, not of the site ─┬─ the first match does not need a query ─▶ a record
//!                                            └─ the first match needs a query ─────────▶ the table
//! any other path ──────────────────────────────────────────────────────────────────────▶ the table
//! ```
//!
//! A plain rule is in the table only if one of its paths needs the table. So tens of thousands of plain rules cost requests nothing.

use super::error::{LocatedRuleError, RuleError};
use super::redirects::RedirectRule;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tarpon_site::rules::{PARAMETER_NAME_COUNT_MAX, RULE_COUNT_MAX, RuleRequest, RuleRow};

/// Rules in the form that an image holds.
#[derive(Debug)]
pub(crate) struct CompiledRules<'r> {
    index: RuleIndex<'r>,
    /// Paths that the site does not have, and their destinations.
    pub(crate) records: BTreeMap<Vec<u8>, Destination>,
    /// The rules that requests try in order, each with its offset in the table.
    pub(crate) table: Vec<(u32, &'r RedirectRule)>,
    /// See [`Policy::base`](crate::Policy).
    base: &'r str,
}

/// The destination of a rule for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A redirect.
    Redirect {
        status: u16,
        /// The URI, up to the place of the query.
        before_query: Vec<u8>,
        fragment: Vec<u8>,
        keeps_query: bool,
    },
    /// A file of the site, which the server sends with this status.
    File { status: u16, path: Vec<u8> },
}

impl<'r> CompiledRules<'r> {
    /// Compiles rules of a site that clients see below `base`. `file` returns the address of the file at a path; `exists` tells whether the site has anything at a path.
    ///
    /// # Errors
    /// Every target that is missing and every rule of a loop; or the first rule that does not fit into an image.
    pub(crate) fn new(
        rules: &'r [RedirectRule],
        base: &'r str,
        file: impl Fn(&[u8]) -> Option<Vec<u8>>,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Result<CompiledRules<'r>, Vec<LocatedRuleError>> {
        let index = RuleIndex::new(rules);
        let has_no_file = |rule: &&RedirectRule| {
            !rule.is_redirect() && rule.target.text().is_some_and(|path| resolve_file(path, &file).is_none())
        };
        let no_file = rules.iter().filter(has_no_file).map(|rule| rule.target_error(RuleError::NoFile));
        let loops = rules.iter().filter_map(|rule| index.reject_loop(rule, &exists).err());
        let errors: Vec<_> = no_file.chain(loops).collect();
        match errors.is_empty() {
            true => CompiledRules::with_index(index, base, file, exists).map_err(|error| vec![error]),
            false => Err(errors),
        }
    }

    fn with_index(
        index: RuleIndex<'r>,
        base: &'r str,
        file: impl Fn(&[u8]) -> Option<Vec<u8>>,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Result<CompiledRules<'r>, LocatedRuleError> {
        let rules = index.rules;
        let mut records = BTreeMap::new();
        let mut undecided = BTreeSet::new();
        for (number, rule) in rules.iter().enumerate() {
            let Some(path) = rule.pattern.plain().filter(|_| rule.needs_path_only()) else {
                undecided.insert(number);
                continue;
            };
            for path in with_and_without_slash(path, rule.pattern.loose) {
                match index.first(&path, exists(&path)) {
                    _ if exists(&path) && !rule.forced => {}
                    FirstMatch::Rule(first) if !exists(&path) => {
                        if let Some(destination) = destination(first, &path, base, &file)? {
                            records.insert(path, destination);
                        }
                    }
                    _ => drop(undecided.insert(number)),
                }
            }
        }
        let (mut table, mut at) = (Vec::new(), 0);
        let mut parameter_names = BTreeSet::new();
        for rule in undecided.into_iter().map(|number| &rules[number]) {
            if table.len() == RULE_COUNT_MAX {
                return Err(rule.target_error(RuleError::TooManyRules));
            }
            parameter_names.extend(rule.parameter_names());
            if parameter_names.len() > PARAMETER_NAME_COUNT_MAX {
                return Err(rule.target_error(RuleError::TooManyParameters));
            }
            table.push((at, rule));
            at += rule.encode(base)?.len() as u32;
        }
        Ok(CompiledRules { index, records, table, base })
    }

    /// Returns whether a forced rule matches a path of the site.
    pub(crate) fn has_forced_rule(&self, path: &[u8]) -> bool {
        self.index.matching(path, true).next().is_some()
    }

    /// Returns the rules of the table, as the section of an image has them.
    pub(crate) fn encode_table(&self) -> Result<Vec<u8>, LocatedRuleError> {
        let mut rules = Vec::new();
        for (_, rule) in &self.table {
            rules.extend(rule.encode(self.base)?);
        }
        Ok(rules)
    }
}

/// Finds the rules that match a path, in the order of the file.
#[derive(Debug)]
struct RuleIndex<'r> {
    rules: &'r [RedirectRule],
    /// The rules for one path, by that path.
    plain: HashMap<&'r [u8], Vec<usize>>,
    /// All other rules.
    others: Vec<usize>,
}

/// The first rule that matches a path.
enum FirstMatch<'r> {
    /// The first match depends on the query.
    Undecided,
    Rule(&'r RedirectRule),
    Nothing,
}

impl<'r> RuleIndex<'r> {
    fn new(rules: &'r [RedirectRule]) -> RuleIndex<'r> {
        let mut index = RuleIndex { rules, plain: HashMap::new(), others: Vec::new() };
        for (number, rule) in rules.iter().enumerate() {
            match rule.pattern.plain() {
                Some(path) => index.plain.entry(path).or_default().push(number),
                None => index.others.push(number),
            }
        }
        index
    }

    /// Returns the rules that match a path, in the order of the file. If the site has the path, only forced rules match.
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
            Some(rule) if rule.needs_path_only() => FirstMatch::Rule(rule),
            Some(_) => FirstMatch::Undecided,
            None => FirstMatch::Nothing,
        }
    }

    /// Follows redirects as a client does, from an example path of the rule.
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
        // The path changes with each redirect. Unless all rules are forced, a file at one of the paths may end the chain.
        if forced { Err(rule.target_error(RuleError::Loop)) } else { Ok(()) }
    }
}

/// Returns the decoded path that a redirect within the site leads to.
fn redirect_path(rule: &RedirectRule, path: &[u8]) -> Result<Vec<u8>, LocatedRuleError> {
    let location = expand(rule, path, "")?;
    let end = location.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(location.len());
    let mut decoded = Vec::new();
    let mut rest = &location[..end];
    while let [byte, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%') {
            Some(byte) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            None => {
                decoded.push(*byte);
                rest = after;
            }
        }
    }
    Ok(decoded)
}

/// Returns the target of a rule for a path, with captures inserted as the server does.
fn expand(rule: &RedirectRule, path: &[u8], base: &str) -> Result<Vec<u8>, LocatedRuleError> {
    let encoded = rule.encode(base)?;
    let asked = RuleRequest { path, query: None, exists: false };
    let mut to = vec![0; LOCATION_LEN_MAX];
    let written = RuleRow::match_request(&encoded, asked).and_then(|found| match rule.is_redirect() {
        true => found.location(&mut to),
        false => found.rewrite_path(&mut to),
    });
    to.truncate(written.ok_or_else(|| rule.target_error(RuleError::RuleLength))?);
    Ok(to)
}

/// Returns the destination of a rule for a path. `None`: the rule is a rewrite, and the site does not have the file.
fn destination(
    rule: &RedirectRule,
    path: &[u8],
    base: &str,
    file: &impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Option<Destination>, LocatedRuleError> {
    let mut to = expand(rule, path, base)?;
    let status = rule.status;
    if !rule.is_redirect() {
        return Ok(resolve_file(&to, file).map(|path| Destination::File { status, path }));
    }
    let fragment = rule.target.fragment.clone();
    to.truncate(to.len() - fragment.len());
    Ok(Some(Destination::Redirect { status, before_query: to, fragment, keeps_query: rule.keeps_query() }))
}

/// Returns the address of the file at a path: of the path itself, of the index of the directory, or of the page whose extension the
/// path leaves out.
pub(crate) fn resolve_file(path: &[u8], file: &impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let tries = tarpon_site::rules::FILE_SUFFIXES.map(|suffix| [path, suffix].concat());
    tries.into_iter().find_map(|path| file(&path))
}

/// Returns the path of a rule, and for a loose rule also the path with a slash at its end.
fn with_and_without_slash(path: &[u8], loose: bool) -> Vec<Vec<u8>> {
    let mut paths = vec![path.to_vec()];
    if loose && path != b"/" {
        paths.push([path, b"/"].concat());
    }
    paths
}

/// The number of redirects that a browser follows (Fetch, section 4.4).
const HOP_COUNT_MAX: usize = 20;
/// Larger than any rule with its captures.
const LOCATION_LEN_MAX: usize = 1 << 18;
