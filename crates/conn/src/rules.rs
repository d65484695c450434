//! What the rules of a site make of a request that its path alone does not decide.
//!
//! ```text
//! path, query ─ first match ─┬─ rewrite ──▶ the entry of a file, with the status of the rule
//!                            └─ redirect ─▶ RuleRedirect ─ write ─▶ Location, in a buffer
//! ```
//!
//! A plan borrows nothing of the request, so a redirect matches its rule again when it is written: one rule, which has just matched.

use crate::request::{Request, RequestPart, RequestPath};
use tarpon_http::{
    status::Status,
    target::{self, PATH_LEN_MAX},
};
use tarpon_site::{
    Entry, FieldBlock, Image, NotResident, Region, Variants,
    rules::{FILE_SUFFIXES, RULE_NAME_LEN, RuleMatch, RuleRequest, Rules, rule_name},
};

/// A redirect by a rule, with the parts of the request that its placeholders take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleRedirect {
    /// The number of the rule in the image.
    rule: u32,
    /// Whether the site has something at the path.
    exists: bool,
    path: RequestPath,
    query: Option<RequestPart>,
}

/// A request for a path, as the rules see it.
#[derive(Clone, Copy)]
pub(crate) struct RuledPath<'a> {
    pub(crate) request: &'a Request<'a>,
    /// The path, as received.
    pub(crate) path: &'a [u8],
    /// The query, as received, without its `?`.
    pub(crate) query: Option<&'a [u8]>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleAction {
    /// It sends this file, with its own status.
    Send(Variants),
    /// It redirects, with this status.
    Redirect(Status, RuleRedirect),
    /// It sends a file that does not exist.
    SendMissing,
}

/// Returns what the first rule that matches does. `path` is normalized; `exists`: the site has something there. `None`: no rule matches.
pub(crate) fn apply(
    rules: Rules<'_>,
    image: &Image,
    ruled: RuledPath<'_>,
    path: &[u8],
    exists: bool,
) -> Result<Option<RuleAction>, NotResident> {
    let RuledPath { request, path: received, query } = ruled;
    let Some(found) = rules.first_match(RuleRequest { path, query, exists }) else { return Ok(None) };
    let Some(status) = Status::from_code(found.status()) else { return Ok(Some(RuleAction::SendMissing)) };
    if !is_redirect(status) {
        let file = match entry_of(image, found.at)? {
            Some(Entry::File(file)) => Some(file),
            _ => rewritten(image, &found)?,
        };
        let Some(mut file) = file else { return Ok(Some(RuleAction::SendMissing)) };
        file.rule_status = Some(found.status());
        return Ok(Some(RuleAction::Send(file)));
    }
    let path = request.path_part(received);
    let query = query.map(|query| request.part(query));
    Ok(Some(RuleAction::Redirect(status, RuleRedirect { rule: found.at, exists, path, query })))
}

impl RuleRedirect {
    /// Returns the fields after Location, and the content.
    pub(crate) fn rest(&self, rules: Rules<'_>, image: &Image) -> Result<(FieldBlock, Region), NotResident> {
        if let Some(Entry::Redirect(redirect)) = entry_of(image, self.rule)?
            // A forged one could have a Location of its own.
            && image.needs_location(&redirect)?
        {
            return Ok((redirect.after_query(), redirect.content));
        }
        Ok((rules.fields(), rules.content()))
    }

    /// Returns whether the site has something at the path.
    pub(crate) fn exists(&self) -> bool {
        self.exists
    }

    /// Writes the Location line to the front of `to`; `bytes` are those of the request. Returns its length, or `None` if it is too long.
    pub(crate) fn write(&self, rules: Rules<'_>, bytes: &[u8], to: &mut [u8]) -> Option<usize> {
        const NAME: &[u8] = b"Location: ";
        let mut scratch = [0; PATH_LEN_MAX];
        let path = target::normalize(self.path.of(bytes), &mut scratch).ok()?;
        let query = self.query.map(|query| query.of(bytes));
        let found = rules.match_at(self.rule, RuleRequest { path, query, exists: self.exists })?;
        let (name, rest) = to.split_at_mut_checked(NAME.len())?;
        name.copy_from_slice(NAME);
        let room = rest.len().saturating_sub(2).min(LOCATION_LEN_MAX);
        let len = found.location(&mut rest[..room])?;
        rest[len..len + 2].copy_from_slice(b"\r\n");
        Some(NAME.len() + len + 2)
    }
}

/// Returns the entry that the image has for this rule.
fn entry_of(image: &Image, rule: u32) -> Result<Option<Entry>, NotResident> {
    image.find(rule_name(rule, &mut [0; RULE_NAME_LEN]))
}

/// Returns the file that a rule rewrites this path to. A file that another rule sends does not count: rules apply once.
fn rewritten(image: &Image, found: &RuleMatch<'_, '_>) -> Result<Option<Variants>, NotResident> {
    let mut path = [0; PATH_LEN_MAX];
    let Some(len) = found.rewrite_path(&mut path) else { return Ok(None) };
    for suffix in FILE_SUFFIXES {
        let Some(end) = path.get_mut(len..len + suffix.len()) else { continue };
        end.copy_from_slice(suffix);
        let path = &path[..len + suffix.len()];
        let file = match found.status() {
            200 => match image.find(path)? {
                Some(Entry::File(file)) => Some(file).filter(|file| file.rule_status.is_none()),
                _ => None,
            },
            _ => image.error_file(path)?,
        };
        if file.is_some() {
            return Ok(file);
        }
    }
    Ok(None)
}

fn is_redirect(status: Status) -> bool {
    (300..400).contains(&status.code())
}

/// The maximum length of the target of a redirect by a rule, in bytes: as much as browsers and proxies are known to accept.
const LOCATION_LEN_MAX: usize = 8 << 10;
