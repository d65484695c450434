//! What the rules of a site say to a request that its path alone does not settle.
//!
//! ```text
//! path, query ─ first rule ─┬─ sends a file ─▶ its entry, with the rule's status
//!                           └─ redirects ────▶ Leads ─ write ─▶ Location, in a buffer
//! ```
//!
//! A plan borrows nothing of the request, so a redirect is matched again where it is written: one rule, that applied a
//! moment ago. Knows nothing of connections.

use tarpon_http::{
    head::Head,
    status::Status,
    target::{self, PATH_LEN_MAX},
};
use tarpon_site::{
    Entry, Image, Region, Variants,
    rules::{FILE_SUFFIXES, RULE_NAME_LEN, RuleMatch, RuleRequest, Rules, rule_name},
};

/// A rule that leads elsewhere, and where in the bytes of the head that lies which its placeholders hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leads {
    /// The rule, among the rules of the image.
    rule: u32,
    exists: bool,
    /// None: the root.
    path: Option<Part>,
    query: Option<Part>,
}

/// A part of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    at: u32,
    len: u32,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What the site has.
    Entry(Entry),
    /// A file that the site has elsewhere, and nothing here.
    Instead(Variants),
    /// Where a rule leads.
    Leads(Status, Leads),
}

/// What a target asks for, as it lies in the head.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'w> {
    /// The head.
    pub(crate) head: &'w Head<'w>,
    /// Its bytes.
    pub(crate) wire: &'w [u8],
    /// The path, as received.
    pub(crate) path: &'w [u8],
    /// The query, as received, without its `?`.
    pub(crate) query: Option<&'w [u8]>,
}

/// A rule applies, and sends a file that is not there.
pub(crate) struct Nowhere;

/// What the rules make of a path; `exists`: the site has something there. None: no rule applies.
pub(crate) fn ask(
    rules: Rules<'_>,
    image: &Image,
    wanted: Wanted<'_>,
    path: &[u8],
    exists: bool,
) -> Result<Option<Found>, Nowhere> {
    let asked = RuleRequest { path, query: wanted.query, exists };
    let Some(found) = rules.first_match(asked) else { return Ok(None) };
    let status = Status::from_code(found.status()).ok_or(Nowhere)?;
    if !is_redirect(status) {
        let mut file = own(image, found.at).and_then(file_of).map_or_else(|| elsewhere(image, &found), Ok)?;
        file.rule_status = Some(found.status());
        return Ok(Some(Found::Entry(Entry::File(file))));
    }
    let part = |part: &[u8]| Part { at: offset(wanted.wire, part), len: part.len() as u32 };
    // A target may go without the path of the root: then it lies nowhere in the head.
    let path = (wanted.path != b"/").then(|| part(wanted.path));
    let query = wanted.query.map(part);
    Ok(Some(Found::Leads(status, Leads { rule: found.at, exists, path, query })))
}

impl Leads {
    /// The fields that come behind Location, and the content.
    pub(crate) fn rest(&self, rules: Rules<'_>, image: &Image) -> (Region, Region) {
        match own(image, self.rule) {
            // One that is forged could have a Location of its own.
            Some(Entry::Redirect(redirect)) if image.needs_location(&redirect) => {
                (redirect.after_query, redirect.content)
            }
            _ => (rules.fields(), rules.content()),
        }
    }

    /// Whether the site has something at the path.
    pub(crate) fn exists(&self) -> bool {
        self.exists
    }

    /// Writes the field Location to the front of `to`; `wire` is the head. Returns its length. None: it would be too long.
    pub(crate) fn write(&self, rules: Rules<'_>, wire: &[u8], to: &mut [u8]) -> Option<usize> {
        const NAME: &[u8] = b"Location: ";
        let part = |part: Part| wire.get(part.at as usize..)?.get(..part.len as usize);
        let mut scratch = [0; PATH_LEN_MAX];
        let path = self.path.map_or(Some(&b"/"[..]), part)?;
        let path = target::normalize(path, &mut scratch).ok()?;
        let asked = RuleRequest { path, query: self.query.and_then(part), exists: self.exists };
        let found = rules.match_at(self.rule, asked)?;
        let (name, rest) = to.split_at_mut_checked(NAME.len())?;
        name.copy_from_slice(NAME);
        let room = rest.len().saturating_sub(2).min(LOCATION_LEN_MAX);
        let len = found.location(&mut rest[..room])?;
        rest[len..len + 2].copy_from_slice(b"\r\n");
        Some(NAME.len() + len + 2)
    }
}

/// What the image has for a rule alone.
fn own(image: &Image, rule: u32) -> Option<Entry> {
    image.find(rule_name(rule, &mut [0; RULE_NAME_LEN]))
}

/// The file that a rewrite leads to from this path. What another rule leads to is no file: rules are asked once.
fn elsewhere(image: &Image, found: &RuleMatch<'_, '_>) -> Result<Variants, Nowhere> {
    let mut path = [0; PATH_LEN_MAX];
    let len = found.rewrite_path(&mut path).ok_or(Nowhere)?;
    let find = |path: &[u8]| match found.status() {
        200 => image.find(path).and_then(file_of).filter(|file| file.rule_status.is_none()),
        _ => image.error_file(path),
    };
    let mut suffixes = FILE_SUFFIXES.into_iter();
    let file = suffixes.find_map(|suffix| {
        path.get_mut(len..len + suffix.len())?.copy_from_slice(suffix);
        find(&path[..len + suffix.len()])
    });
    file.ok_or(Nowhere)
}

fn file_of(entry: Entry) -> Option<Variants> {
    match entry {
        Entry::File(file) => Some(file),
        Entry::Redirect(_) => None,
    }
}

/// Where `part`, a piece of `whole`, begins in it.
pub(crate) fn offset(whole: &[u8], part: &[u8]) -> u32 {
    (part.as_ptr() as usize - whole.as_ptr() as usize) as u32
}

fn is_redirect(status: Status) -> bool {
    (300..400).contains(&status.code())
}

/// The longest target of a redirect by a rule, in bytes: what browsers and proxies are known to take.
const LOCATION_LEN_MAX: usize = 8 << 10;
