//! Which response a request gets: head and image in, [`Plan`] out. A pure function.
//!
//! ```text
//! expectation ─▶ target ─▶ method ─▶ path ─find─▶ file ─▶ variant ─▶ preconditions ─▶ range ─▶ 200, 206 or 416
//!      417       400, 421  405, 501           └▶ redirect, or 404; for OPTIONS 204, or 404   └▶ 304 or 412
//!                                                │         └ the shell, or the nearest page, that the site has
//!                                                └ where rules may come first, they are asked: ruled.rs
//! ```
//!
//! Knows nothing of connections, persistence or content that follows the head.

use crate::health::Health;
use crate::moved::Moved;
use crate::partial::Partial;
use crate::ruled::{self, Found, Leads, Wanted, offset};
use crate::sites::Chosen;
use std::iter;
use tarpon_http::{
    dictionary, field,
    head::{FieldName, Head, Method, Version},
    media,
    negotiate::{AcceptEncoding, ContentCoding},
    precondition::{self, Outcome},
    range::{self, RangeSelection},
    status::Status,
    target::{self, Scheme, Target},
};
use tarpon_site::{Content, Entry, Fallback, Image, Redirect, Region, Variant, Variants};

/// What one exchange will send. Borrows nothing of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Names the start of the response.
    pub(crate) status: Status,
    /// Goes between start and `fields`.
    pub(crate) own: Own,
    /// The site has nothing at the path: a page or a rule says so, or something stands for it.
    pub(crate) missed: bool,
    /// Fields, with the empty line that ends them.
    pub(crate) fields: Region,
    /// `None`: the response has no content, whatever its fields say (HEAD, 304). With status 206, the parts are parts
    /// of it.
    pub(crate) content: Option<Content>,
}

impl Plan {
    /// Bytes of content that the response has.
    pub(crate) fn content_len(&self, image: &Image) -> u64 {
        match self.own {
            Own::Parts(partial) => partial.content_len(image),
            Own::Health(health) => health.content_len(),
            _ => self.content.map_or(0, |content| content.len()),
        }
    }
}

/// What a response has for itself and no packer could write: it goes into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// As most.
    Nothing,
    /// The target of a redirect that keeps its query.
    Location(Location),
    /// Where a rule leads.
    Leads(Leads),
    /// All fields of the redirect to another host. There is no content.
    Moved(Moved),
    /// All fields and the content of the answer to a load balancer.
    Health(Health),
    /// What is said of parts.
    Parts(Partial),
    /// That there are no such parts.
    Unsatisfied {
        /// Length of the representation, in bytes.
        of: u64,
    },
}

/// A `Location` field up to its query, and the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// In the image: `Location: ` and the target.
    pub(crate) target: Region,
    /// Where the query begins in the bytes of the head, with its `?`.
    pub(crate) query_at: u32,
    /// Length of the query in bytes, with its `?`.
    pub(crate) query_len: u32,
}

/// What the request whose head lies in `wire` is answered with. `unix_s` is the time, in seconds since 1970.
/// `with_ranges`: whether there is a buffer for what a range needs; without one, Range is ignored, as it may be at any
/// time (RFC 9110, section 14.2).
#[inline]
pub(crate) fn plan(head: &Head<'_>, wire: &[u8], image: &Image, unix_s: u64, with_ranges: bool) -> Plan {
    let with_content = head.method != Method::Head;
    if head.has(FieldName::Expect) && !expects_nothing_else(head) {
        return page(image, Status::ExpectationFailed, with_content);
    }
    let (path, query) = match target::parse(head.method, head.target) {
        Ok(Target::Origin { path, query }) => (path, query),
        // No request comes in over TLS, and for what is to be asked for over TLS it must: RFC 9110, section 7.4.
        Ok(Target::Absolute { scheme: Scheme::Https, .. }) => {
            return page(image, Status::MisdirectedRequest, with_content);
        }
        Ok(Target::Absolute { path, query, .. }) => (path, query),
        Ok(Target::Asterisk) => return options(image),
        Ok(Target::Authority(_)) => return page(image, Status::MethodNotAllowed, true),
        // What targets a method may have that nobody here knows, nobody here knows.
        Err(_) if head.method == Method::Other => return page(image, Status::NotImplemented, true),
        Err(error) => return page(image, error.status(), with_content),
    };
    match head.method {
        Method::Get | Method::Head | Method::Options => {}
        Method::Other => return page(image, Status::NotImplemented, true),
        _ => return page(image, Status::MethodNotAllowed, true),
    }
    match find(image, Wanted { head, wire, path, query }) {
        Ok(_) if head.method == Method::Options => options(image),
        Ok(Found::Entry(Entry::File(variants))) => {
            sent(head, variants, image, unix_s, with_content, with_ranges)
        }
        Ok(Found::Entry(Entry::Redirect(to))) => {
            redirect(image, to, query.map(|query| (offset(wire, query), query)), with_content)
        }
        Ok(Found::Instead(variants)) => instead(head, variants, image, unix_s, with_content, with_ranges),
        Ok(Found::Leads(status, leads)) => lead(status, leads, image, with_content),
        Err(Failed::Missing(variants)) => missing(head, variants, image, with_content),
        Err(Failed::Status(status)) => Plan { missed: true, ..page(image, status, with_content) },
    }
}

/// What is answered where `host`, the value of the Host field, is no site's own name. None: the same as under any other, as it is
/// about the server, or not in order.
#[cold]
pub(crate) fn elsewhere(
    head: &Head<'_>,
    wire: &[u8],
    image: &Image,
    host: Option<&[u8]>,
    chosen: Chosen,
) -> Option<Plan> {
    let Chosen::Alias(site) = chosen else {
        return Some(page(image, Status::MisdirectedRequest, head.method != Method::Head));
    };
    let (status, moved) = Moved::new(head, wire, host, site)?;
    let fields = Region { at: 0, len: 0 };
    Some(Plan { status, own: Own::Moved(moved), missed: false, fields, content: None })
}

/// What a load balancer is answered, if it is one that asks, for this path.
#[cold]
pub(crate) fn health(head: &Head<'_>, health_path: &[u8], is_stopping: bool) -> Option<Plan> {
    let (status, health) = Health::new(head, health_path, is_stopping)?;
    let fields = Region { at: 0, len: 0 };
    Some(Plan { status, own: Own::Health(health), missed: false, fields, content: None })
}

/// Why there is nothing at a path.
enum Failed {
    /// Nobody put anything there, and the site has a page that says so.
    Missing(Variants),
    /// As the page for the status says.
    Status(Status),
}

/// What stands for a status that is not about one file.
pub(crate) fn page(image: &Image, status: Status, with_content: bool) -> Plan {
    let page = image.status_page(status.code());
    let content = with_content.then_some(Content::Image(page.content));
    Plan { status, own: Own::Nothing, missed: false, fields: page.fields, content }
}

/// The page of the site for what is missing. It is no representation of that, so neither preconditions nor ranges are about
/// it: RFC 9110, sections 13.2.1 and 14.2.
#[cold]
fn missing(head: &Head<'_>, variants: Variants, image: &Image, with_content: bool) -> Plan {
    let mut variant = choose(head, variants, image);
    if !image.is_framed(&variant) {
        variant = variants.identity;
        if !image.is_framed(&variant) {
            return Plan { missed: true, ..forged(image, with_content) };
        }
    }
    let content = with_content.then_some(variant.content);
    Plan { status: Status::NotFound, own: Own::Nothing, missed: true, fields: variant.fields, content }
}

/// The answer where the fields of a response do not frame it: a packer has not written them, and to send them could put a second
/// response into the first.
#[cold]
fn forged(image: &Image, with_content: bool) -> Plan {
    page(image, Status::InternalServerError, with_content)
}

/// Which methods there are, for any target: RFC 9110, section 9.3.7.
fn options(image: &Image) -> Plan {
    page(image, Status::NoContent, false)
}

/// Whether the client waits to be told to go on. RFC 9110, section 10.1.1.
pub(crate) fn expects_continue(head: &Head<'_>) -> bool {
    // In HTTP/1.0 there is no such thing.
    head.version == Version::Http11 && field::has_token(head.all(FieldName::Expect), b"100-continue")
}

/// Whether the client expects nothing but perhaps that.
fn expects_nothing_else(head: &Head<'_>) -> bool {
    let mut members = head.all(FieldName::Expect).flat_map(field::members);
    members.all(|member| member.eq_ignore_ascii_case(b"100-continue"))
}

/// The variant the client likes best. If it takes none, the one without a coding: better than an error, which
/// RFC 9110, section 12.5.3, does not ask for.
#[inline]
pub(crate) fn choose(head: &Head<'_>, variants: Variants, image: &Image) -> Variant {
    if head.has(FieldName::AvailableDictionary) {
        return choose_among_all(head, variants, image);
    }
    let identity = (ContentCoding::Identity, variants.identity.content.len(), None);
    let offers = image.offers(variants).map(|offer| (known(offer.coding), offer.len, Some(offer)));
    match AcceptEncoding::parse(head).choose(iter::once(identity).chain(offers)).flatten() {
        None => variants.identity,
        Some(offer) => {
            image.variant(variants, offer).unwrap_or_else(|| choose_among_all(head, variants, image))
        }
    }
}

/// The same where the client has a dictionary, which may be that of a variant, or where one is damaged.
#[cold]
fn choose_among_all(head: &Head<'_>, variants: Variants, image: &Image) -> Variant {
    let deltas = dictionary::available(head).map(|dictionary| image.deltas(variants, dictionary));
    let coded = image.coded_variants(variants).chain(deltas.into_iter().flatten());
    let offered = iter::once((tarpon_site::Coding::Identity, variants.identity)).chain(coded);
    let offered = offered.map(|(coding, variant)| (known(coding), variant.content.len(), variant));
    AcceptEncoding::parse(head).choose(offered).unwrap_or(variants.identity)
}

/// The coding by its name in a field.
#[inline]
fn known(coding: tarpon_site::Coding) -> ContentCoding {
    match coding {
        tarpon_site::Coding::Identity => ContentCoding::Identity,
        tarpon_site::Coding::Br => ContentCoding::Br,
        tarpon_site::Coding::Gzip => ContentCoding::Gzip,
        tarpon_site::Coding::Zstd => ContentCoding::Zstd,
        tarpon_site::Coding::Dcb => ContentCoding::Dcb,
        tarpon_site::Coding::Dcz => ContentCoding::Dcz,
    }
}

/// A file, as a rule may want it. Always inlined, as what it calls: the usual request comes here, and of its 2,070 instructions a
/// call, with what it copies, is 60.
#[inline(always)]
fn sent(
    head: &Head<'_>,
    variants: Variants,
    image: &Image,
    unix_s: u64,
    with_content: bool,
    with_ranges: bool,
) -> Plan {
    let chosen;
    let mut variant = &variants.identity;
    if !variants.is_single() {
        chosen = choose(head, variants, image);
        variant = &chosen;
    }
    if !image.is_framed(variant) {
        // If the coded variant is forged, the variant without a coding may still be as it was packed.
        variant = &variants.identity;
        if !image.is_framed(variant) {
            return forged(image, with_content);
        }
    }
    match variants.rule_status {
        None | Some(200) => file(head, variant, image, unix_s, with_content, with_ranges),
        Some(code) => error_file(code, variant, with_content),
    }
}

/// The same for one that lies elsewhere.
#[cold]
fn instead(
    head: &Head<'_>,
    variants: Variants,
    image: &Image,
    unix_s: u64,
    with_content: bool,
    with_ranges: bool,
) -> Plan {
    Plan { missed: true, ..sent(head, variants, image, unix_s, with_content, with_ranges) }
}

/// The answer for a file, of which this variant was chosen and is framed.
#[inline(always)]
pub(crate) fn file(
    head: &Head<'_>,
    variant: &Variant,
    image: &Image,
    unix_s: u64,
    with_content: bool,
    with_ranges: bool,
) -> Plan {
    match precondition::evaluate(head, image.bytes_if_resident(variant.etag), variant.last_modified, unix_s) {
        Outcome::Proceed => {
            let whole = Plan {
                status: Status::Ok,
                own: Own::Nothing,
                missed: false,
                fields: variant.fields,
                content: with_content.then_some(variant.content),
            };
            // Range means nothing but with GET: RFC 9110, section 14.2.
            if head.has(FieldName::Range) && with_content && with_ranges {
                return ranged(head, variant, image, unix_s).unwrap_or(whole);
            }
            whole
        }
        // Only a forged record has none.
        Outcome::NotModified if variant.not_modified.len == 0 => forged(image, with_content),
        Outcome::NotModified => Plan {
            status: Status::NotModified,
            own: Own::Nothing,
            missed: false,
            fields: variant.not_modified,
            content: None,
        },
        // Without Vary and validators: no cache stores it (RFC 9110, section 15.1).
        Outcome::Failed => page(image, Status::PreconditionFailed, with_content),
    }
}

/// What a range of a file is answered with. `None`: with the whole file.
#[cold]
fn ranged(head: &Head<'_>, variant: &Variant, image: &Image, unix_s: u64) -> Option<Plan> {
    if !precondition::range_applies(
        head,
        image.bytes_if_resident(variant.etag),
        variant.last_modified,
        unix_s,
    ) {
        return None;
    }
    let of = variant.content.len();
    match range::select(head, of) {
        RangeSelection::Whole => None,
        RangeSelection::Ranges(parts) => {
            let (partial, fields) = Partial::new(parts, variant, image)?;
            let content = Some(variant.content);
            let (status, own) = (Status::PartialContent, Own::Parts(partial));
            Some(Plan { status, own, missed: false, fields, content })
        }
        RangeSelection::Unsatisfiable => {
            let page = page(image, Status::RangeNotSatisfiable, true);
            Some(Plan { own: Own::Unsatisfied { of }, ..page })
        }
    }
}

/// A file that stands for an error: neither preconditions nor ranges are about it (RFC 9110, sections 13.2.1 and 14.2).
#[cold]
fn error_file(code: u16, variant: &Variant, with_content: bool) -> Plan {
    // Other statuses, as 304, have no content.
    let status = Status::from_code(code).filter(|status| status.code() >= 400).unwrap_or(Status::NotFound);
    let content = with_content.then_some(variant.content);
    Plan { status, own: Own::Nothing, missed: false, fields: variant.fields, content }
}

/// Where a rule leads.
#[cold]
fn lead(status: Status, leads: Leads, image: &Image, with_content: bool) -> Plan {
    let rules = image.rules().expect("a rule leads there");
    let (fields, content) = leads.rest(rules, image);
    let content = with_content.then_some(Content::Image(content));
    Plan { status, own: Own::Leads(leads), missed: !leads.exists(), fields, content }
}

/// The query of the request goes along: `/dir?q` leads to `/dir/?q`. Unless a rule says what is in it.
fn redirect(image: &Image, to: Redirect, query: Option<(u32, &[u8])>, with_content: bool) -> Plan {
    if !image.is_redirect_framed(&to) {
        return forged(image, with_content);
    }
    let whole = Region { at: to.before_query.at, len: to.before_query.len + to.after_query.len };
    let (own, fields) = match query.filter(|_| to.before_query.len > 0) {
        None => (Own::Nothing, whole),
        Some((at, query)) => {
            let query_len = query.len() as u32 + 1;
            image.is_resident(to.before_query);
            let location = Location { target: to.before_query, query_at: at - 1, query_len };
            (Own::Location(location), to.after_query)
        }
    };
    let content = with_content.then_some(Content::Image(to.content));
    let status = to.rule_status.and_then(Status::from_code).unwrap_or(Status::MovedPermanently);
    Plan { status, own, missed: false, fields, content }
}

#[inline]
fn find(image: &Image, wanted: Wanted<'_>) -> Result<Found, Failed> {
    if target::is_plain(wanted.path) {
        return look(image, wanted, wanted.path);
    }
    let mut scratch = [0; target::PATH_LEN_MAX];
    match target::normalize(wanted.path, &mut scratch) {
        Ok(path) => look(image, wanted, path),
        Err(error) => Err(Failed::Status(error.status())),
    }
}

/// What lies at a path, or where a rule leads from there.
#[inline]
fn look(image: &Image, wanted: Wanted<'_>, path: &[u8]) -> Result<Found, Failed> {
    let entry = image.find(path);
    match entry {
        Some(entry) if !entry.checks_rules() => Ok(Found::Entry(entry)),
        _ => stand_in(image, wanted, path, entry),
    }
}

/// The listing at a path as JSON, for a client that likes it better.
fn as_json(image: &Image, wanted: Wanted<'_>, path: &[u8]) -> Option<Entry> {
    let json = image.listing_json(path)?;
    let is_liked = media::is_preferred(wanted.head, ("application", "json"), ("text", "html"));
    is_liked.then_some(Entry::File(json))
}

/// What answers where there is nothing, or where a rule may come first.
#[cold]
fn stand_in(image: &Image, wanted: Wanted<'_>, path: &[u8], entry: Option<Entry>) -> Result<Found, Failed> {
    let ruled =
        image.rules().map_or(Ok(None), |rules| ruled::ask(rules, image, wanted, path, entry.is_some()));
    match (ruled, entry) {
        (Ok(Some(Found::Entry(Entry::File(file)))), None) => return Ok(Found::Instead(file)),
        (Ok(Some(found)), _) => return Ok(found),
        (Ok(None), Some(entry)) => return Ok(Found::Entry(as_json(image, wanted, path).unwrap_or(entry))),
        (Ok(None), None) | (Err(ruled::Nowhere), _) => {}
    }
    match image.fallback(path) {
        Fallback::AppShell(variants) => Ok(Found::Instead(variants)),
        Fallback::NotFoundPage(variants) => Err(Failed::Missing(variants)),
        Fallback::StatusPage => Err(Failed::Status(Status::NotFound)),
    }
}
