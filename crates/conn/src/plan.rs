//! Plans the response to a request: from a request and an image to a [`Plan`]. A pure function.
//!
//! ```text
//! expectation ─▶ target ─▶ method ─▶ path ─find─▶ file ─▶ variant ─▶ preconditions ─▶ range ─▶ 200, 206 or 416
//!      417       400, 421  405, 501           └▶ redirect, or 404; for OPTIONS 204, or 404   └▶ 304 or 412
//!                                                │         └ application shell or 404.html of the site
//!                                                └ rules, if the entry or its absence asks for them: rules.rs
//! ```
//!
//! A plan depends neither on the connection nor on content that follows the head. It reads only pages of the image that are in memory: if
//! another one is needed there is no plan but [`NotResident`], and the caller loads the page and plans again.

use crate::{
    byte_ranges::{ByteRanges, PlannedRanges},
    challenge::Challenge,
    health::Health,
    host_redirect::HostRedirect,
    https_redirect::HttpsRedirect,
    passwords::PasswordRuleId,
    path_limits::Refusal,
    rate_table::RetryAfter,
    request::{Request, RequestPart, Resource},
    rules::{self, RuleAction, RuleRedirect, RuledPath},
    sites::{NoSite, Route},
};
use std::iter;
use tarpon_http::{
    FieldName, dictionary, field,
    fields::Fields,
    head::Method,
    media,
    negotiate::{AcceptEncoding, ContentCoding},
    precondition::{self, Outcome},
    range::{self, RangeSelection},
    status::Status,
    target,
};
use tarpon_site::{
    BASE_NAME, Coding, Content, Entry, Fallback, FieldBlock, Image, NotResident, RawRecord, ReadyResponse,
    Redirect, Region, Variant, Variants,
};

/// A response to send. It borrows nothing of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) status: Status,
    /// What follows the response prefix, before `fields`.
    pub(crate) generated: Generated,
    /// The site has nothing at the path: the response is a status page, a fallback or a rule's.
    pub(crate) not_found: bool,
    /// The fields, with the empty line that ends them.
    pub(crate) fields: FieldBlock,
    /// `None`: the response has no content, whatever its fields say (HEAD, 304). For status 206, the ranges are parts of it.
    pub(crate) content: Option<Content>,
}

/// A part of the response that depends on the request: it is written into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generated {
    /// Nothing.
    None,
    /// The Location line of a redirect that keeps the query.
    LocationWithQuery {
        /// The line up to the query, in the image.
        before_query: Region,
        /// The query, with its `?`.
        query: RequestPart,
    },
    /// The Location line of a redirect by a rule.
    RuleRedirect(RuleRedirect),
    /// All fields of the redirect to another host. There is no content.
    HostRedirect(HostRedirect),
    /// All fields of a redirect to TLS.
    HttpsRedirect(HttpsRedirect),
    /// All fields and the content of the response to a health check.
    Health(Health),
    /// All fields and the content of the answer to an ACME directory.
    Challenge(Challenge),
    /// The fields and delimiters of byte ranges.
    ByteRanges(PlannedRanges),
    /// The Content-Range line of a response without a part.
    Unsatisfied {
        /// The length of the representation in bytes.
        of: u64,
    },
    /// The Retry-After line of a response to a client that sends too many requests.
    RetryAfter(RetryAfter),
    /// The WWW-Authenticate line of a response to a client without credentials.
    Authenticate(PasswordRuleId),
    /// A Cache-Control line that keeps the response out of shared caches.
    Private,
}

/// What a plan depends on, besides request and image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanOptions {
    /// The current time in seconds since 1970.
    pub(crate) unix_s: u64,
    /// Whether there is a buffer for byte ranges. Without one the Range field is ignored, as RFC 9110, section 14.2, allows.
    pub(crate) with_ranges: bool,
}

impl Plan {
    /// Returns a plan without generated fields.
    fn new(status: Status, fields: FieldBlock, content: Option<Content>) -> Plan {
        Plan { status, generated: Generated::None, not_found: false, fields, content }
    }

    /// Returns a plan whose fields and content are all generated.
    fn generated(status: Status, generated: Generated) -> Plan {
        Plan { generated, ..Plan::new(status, FieldBlock::EMPTY, None) }
    }

    /// Keeps the response out of shared caches, whatever its fields say: a rule may allow them to keep it, and the Cache-Control of a name with
    /// a hash does. RFC 9111, section 3.5.
    pub(crate) fn make_private(&mut self) {
        match &mut self.generated {
            Generated::None => self.generated = Generated::Private,
            Generated::ByteRanges(ranges) => ranges.is_private = true,
            // Neither redirects nor these pages are kept: RFC 9111, section 3.5.
            _ => {}
        }
    }

    /// Returns the length of the content that the response sends.
    pub(crate) fn content_len(&self) -> u64 {
        match self.generated {
            Generated::ByteRanges(ranges) => ranges.content_len(),
            Generated::Health(health) => health.content_len(),
            Generated::Challenge(challenge) => challenge.content_len(),
            _ => self.content.map_or(0, |content| content.len()),
        }
    }
}

/// Plans the response of a site to a request.
///
/// # Errors
/// The plan needs a page of the image that is not in memory.
#[inline]
pub(crate) fn plan(request: &Request<'_>, image: &Image, options: PlanOptions) -> Result<Plan, NotResident> {
    let planned = plan_response(request, image, options);
    if let Ok(plan) = &planned {
        // The log may record the fields.
        image.check_resident(plan.fields.text)?;
    }
    planned
}

#[inline(always)]
fn plan_response(request: &Request<'_>, image: &Image, options: PlanOptions) -> Result<Plan, NotResident> {
    let with_content = request.with_content();
    if request.fields.has(FieldName::Expect) && !expects_only_continue(request.fields) {
        return Ok(page(image, Status::ExpectationFailed, with_content));
    }
    let (path, query) = match request.resource {
        Ok(Resource::Path { .. }) if request.is_misdirected() => {
            return Ok(page(image, Status::MisdirectedRequest, with_content));
        }
        Ok(Resource::Path { path, query }) => (path, query),
        Ok(Resource::Server) => return Ok(options_page(image)),
        Ok(Resource::Tunnel) => return Ok(page(image, Status::MethodNotAllowed, true)),
        // The forms of target that an unknown method allows are unknown, too.
        Err(_) if request.method == Method::Other => return Ok(page(image, Status::NotImplemented, true)),
        Err(error) => return Ok(page(image, error.status(), with_content)),
    };
    match request.method {
        Method::Get | Method::Head | Method::Options => {}
        Method::Other => return Ok(page(image, Status::NotImplemented, true)),
        _ => return Ok(page(image, Status::MethodNotAllowed, true)),
    }
    let wanted = RuledPath { request, path, query };
    if request.has_plain_path {
        return plan_path(wanted, path, image, options);
    }
    plan_normalized(wanted, image, options)
}

/// Plans the response to a request for a path that is not plain, or for a mount without its slash, of which no path is left.
#[cold]
fn plan_normalized(wanted: RuledPath<'_>, image: &Image, options: PlanOptions) -> Result<Plan, NotResident> {
    if wanted.path.is_empty() {
        let found = match image.find(BASE_NAME)? {
            Some(Entry::Redirect(redirect)) => Found::Entry(Entry::Redirect(redirect)),
            _ => Found::Status(Status::NotFound),
        };
        return plan_found(wanted, found, image, options);
    }
    let mut scratch = [0; target::PATH_LEN_MAX];
    match target::normalize(wanted.path, &mut scratch) {
        Ok(path) => plan_path(wanted, path, image, options),
        Err(error) => plan_found(wanted, Found::Status(error.status()), image, options),
    }
}

/// Plans the response to a request for a normalized path.
#[inline(always)]
fn plan_path(
    wanted: RuledPath<'_>,
    path: &[u8],
    image: &Image,
    options: PlanOptions,
) -> Result<Plan, NotResident> {
    let record = image.find_record(path)?;
    match record.and_then(|record| plan_ready(wanted.request, record, image)) {
        Some(plan) => Ok(plan),
        None => plan_entry(wanted, path, record, image, options),
    }
}

/// Plans the usual response: a whole file as it was packed. `None`: any other response, or one that needs a check first.
#[inline(always)]
fn plan_ready(request: &Request<'_>, record: RawRecord<'_>, image: &Image) -> Option<Plan> {
    if !matches!(request.method, Method::Get | Method::Head) || request.fields.has_any(SELECTING) {
        return None;
    }
    let ReadyResponse { fields, content } = ready(request.fields, record, image)?;
    Some(Plan::new(Status::Ok, fields, request.with_content().then_some(content)))
}

/// Returns the whole file of a record, in the coding that the client prefers, if it can be sent as it was packed without a check.
#[inline(always)]
pub(crate) fn ready(fields: &Fields<'_>, record: RawRecord<'_>, image: &Image) -> Option<ReadyResponse> {
    let mut offer = None;
    if fields.has(FieldName::AcceptEncoding) && !record.is_single() {
        let identity = (ContentCoding::Identity, record.identity_len(), None);
        let offers = record.offers().map(|offer| (coding_of(offer.coding), offer.len, Some(offer)));
        offer = AcceptEncoding::parse(fields).choose(iter::once(identity).chain(offers)).flatten();
    }
    image.ready_response(record, offer)
}

/// Fields that select another response than the whole file, or another variant.
const SELECTING: [FieldName; 6] = [
    FieldName::Range,
    FieldName::IfMatch,
    FieldName::IfNoneMatch,
    FieldName::IfModifiedSince,
    FieldName::IfUnmodifiedSince,
    FieldName::AvailableDictionary,
];

/// Plans the response to a request whose path leads to this record.
#[inline(never)]
fn plan_entry(
    wanted: RuledPath<'_>,
    path: &[u8],
    record: Option<RawRecord<'_>>,
    image: &Image,
    options: PlanOptions,
) -> Result<Plan, NotResident> {
    match record.and_then(|record| image.entry(record)) {
        Some(entry) if !entry.checks_rules() => plan_found(wanted, Found::Entry(entry), image, options),
        entry => plan_found(wanted, apply_rules(image, wanted, path, entry)?, image, options),
    }
}

/// Plans the response to a request with what its path leads to.
fn plan_found(
    wanted: RuledPath<'_>,
    found: Found,
    image: &Image,
    options: PlanOptions,
) -> Result<Plan, NotResident> {
    let RuledPath { request, query, .. } = wanted;
    let with_content = request.with_content();
    match found {
        Found::NotFoundPage(variants) => not_found(request, variants, image),
        Found::Status(status) => Ok(Plan { not_found: true, ..page(image, status, with_content) }),
        _ if request.method == Method::Options => Ok(options_page(image)),
        Found::Entry(Entry::File(variants)) => send_file(request, &variants, image, options),
        Found::Entry(Entry::Redirect(redirect)) => plan_redirect(request, image, redirect, query),
        Found::Fallback(variants) => fallback(request, variants, image, options),
        Found::RuleRedirect(status, redirect) => plan_rule_redirect(status, redirect, image, with_content),
    }
}

/// Plans the response to a request that its host or its missing encryption leads elsewhere. `None`: the response does not depend on the host, as
/// the request is for the server itself or invalid.
#[cold]
pub(crate) fn other_host(request: &Request<'_>, image: &Image, route: Route<'_>) -> Option<Plan> {
    let site = match route {
        Route::RedirectHost(site) => site,
        Route::NoSite(_, NoSite::Path) => {
            return Some(Plan { not_found: true, ..page(image, Status::NotFound, request.with_content()) });
        }
        Route::Https(_, port) if request.is_for_path() => {
            return Some(match HttpsRedirect::new(request, port) {
                Some(redirect) => {
                    Plan::generated(Status::PermanentRedirect, Generated::HttpsRedirect(redirect))
                }
                None => page(image, Status::MisdirectedRequest, request.with_content()),
            });
        }
        Route::Https(..) => return None,
        _ => return Some(page(image, Status::MisdirectedRequest, request.with_content())),
    };
    let (status, redirect) = HostRedirect::new(request, site)?;
    Some(Plan::generated(status, Generated::HostRedirect(redirect)))
}

/// Plans the answer to an ACME directory.
#[cold]
pub(crate) fn challenge(challenge: Challenge) -> Plan {
    Plan::generated(Status::Ok, Generated::Challenge(challenge))
}

/// Plans the response to a health check. `None`: the request is none.
#[cold]
pub(crate) fn health(request: &Request<'_>, health_path: &[u8], is_stopping: bool) -> Option<Plan> {
    let (status, health) = Health::new(request, health_path, is_stopping)?;
    Some(Plan::generated(status, Generated::Health(health)))
}

/// Plans the response to a request that the limits of clients refuse.
#[cold]
pub(crate) fn refused(refusal: Refusal, image: &Image, with_content: bool) -> Plan {
    match refusal {
        Refusal::Forbidden => page(image, Status::Forbidden, with_content),
        Refusal::TooManyRequests(wait) => Plan {
            generated: Generated::RetryAfter(wait),
            ..page(image, Status::TooManyRequests, with_content)
        },
        Refusal::Unauthorized(rule) => Plan {
            generated: Generated::Authenticate(rule),
            ..page(image, Status::Unauthorized, with_content)
        },
        Refusal::Busy(wait) => Plan {
            generated: Generated::RetryAfter(wait),
            ..page(image, Status::ServiceUnavailable, with_content)
        },
    }
}

/// Plans a response with the page of a status.
pub(crate) fn page(image: &Image, status: Status, with_content: bool) -> Plan {
    let page = image.status_page(status.code());
    Plan::new(status, page.fields, with_content.then_some(Content::Image(page.content)))
}

/// Plans a response with the 404.html of the site. It is not a representation of the target, so neither preconditions nor ranges apply:
/// RFC 9110, sections 13.2.1 and 14.2.
#[cold]
fn not_found(request: &Request<'_>, variants: Variants, image: &Image) -> Result<Plan, NotResident> {
    let with_content = request.with_content();
    let mut variant = choose(request, variants, image)?;
    if !image.is_framed(&variant)? {
        variant = variants.identity;
        if !image.is_framed(&variant)? {
            return Ok(Plan { not_found: true, ..forged(image, with_content) });
        }
    }
    let content = with_content.then_some(variant.content);
    Ok(Plan { not_found: true, ..Plan::new(Status::NotFound, variant.fields(), content) })
}

/// Plans the response in place of one whose fields do not frame its content. No packer writes such fields; sending them could insert a
/// second response into the first.
#[cold]
fn forged(image: &Image, with_content: bool) -> Plan {
    page(image, Status::InternalServerError, with_content)
}

/// Plans the response to OPTIONS, which names the methods: RFC 9110, section 9.3.7.
fn options_page(image: &Image) -> Plan {
    page(image, Status::NoContent, false)
}

/// Returns whether 100-continue is the only expectation.
pub(crate) fn expects_only_continue(fields: &Fields<'_>) -> bool {
    let mut members = fields.all(FieldName::Expect).flat_map(field::members);
    members.all(|member| member.eq_ignore_ascii_case(b"100-continue"))
}

/// Returns the variant that the client prefers. If it accepts none, returns the one without a coding: RFC 9110, section 12.5.3, does not
/// require an error.
#[inline]
pub(crate) fn choose(
    request: &Request<'_>,
    variants: Variants,
    image: &Image,
) -> Result<Variant, NotResident> {
    let fields = request.fields;
    if !fields.has(FieldName::AcceptEncoding) {
        return Ok(variants.identity);
    }
    if fields.has(FieldName::AvailableDictionary) {
        return choose_with_deltas(fields, variants, image);
    }
    let identity = (ContentCoding::Identity, variants.identity.content.len(), None);
    let offers = image.offers(variants).map(|offer| (coding_of(offer.coding), offer.len, Some(offer)));
    match AcceptEncoding::parse(fields).choose(iter::once(identity).chain(offers)).flatten() {
        None => Ok(variants.identity),
        Some(offer) => match image.variant(variants, offer) {
            Some(variant) => Ok(variant),
            // The variant is damaged.
            None => choose_with_deltas(fields, variants, image),
        },
    }
}

/// Returns the variant that the client prefers among those that are not damaged, including those compressed with a dictionary that the
/// client has.
#[cold]
fn choose_with_deltas(
    fields: &Fields<'_>,
    variants: Variants,
    image: &Image,
) -> Result<Variant, NotResident> {
    let deltas =
        dictionary::available(fields).map(|dictionary| image.deltas(variants, dictionary)).transpose()?;
    let coded = image.coded_variants(variants).chain(deltas.into_iter().flatten());
    let offered = iter::once((Coding::Identity, variants.identity)).chain(coded);
    let offered = offered.map(|(coding, variant)| (coding_of(coding), variant.content.len(), variant));
    Ok(AcceptEncoding::parse(fields).choose(offered).unwrap_or(variants.identity))
}

/// Returns the content coding of a field that a coding of an image stands for.
#[inline]
fn coding_of(coding: Coding) -> ContentCoding {
    match coding {
        Coding::Identity => ContentCoding::Identity,
        Coding::Br => ContentCoding::Br,
        Coding::Gzip => ContentCoding::Gzip,
        Coding::Zstd => ContentCoding::Zstd,
        Coding::Dcb => ContentCoding::Dcb,
        Coding::Dcz => ContentCoding::Dcz,
    }
}

/// Plans a response with a file, perhaps with the status of a rule.
fn send_file(
    request: &Request<'_>,
    variants: &Variants,
    image: &Image,
    options: PlanOptions,
) -> Result<Plan, NotResident> {
    let chosen;
    let mut variant = &variants.identity;
    // Without the field the client gets no coding: choosing would copy the variant.
    if !variants.is_single() && request.fields.has(FieldName::AcceptEncoding) {
        chosen = choose(request, *variants, image)?;
        variant = &chosen;
    }
    if !image.is_framed(variant)? {
        // If the coded variant is forged, the variant without a coding may still be as it was packed.
        variant = &variants.identity;
        if !image.is_framed(variant)? {
            return Ok(forged(image, request.with_content()));
        }
    }
    match variants.rule_status {
        None | Some(200) => file(request, variant, image, options),
        Some(code) => Ok(error_file(code, variant, request.with_content())),
    }
}

/// Plans a response with a file that is not at the path.
#[cold]
fn fallback(
    request: &Request<'_>,
    variants: Variants,
    image: &Image,
    options: PlanOptions,
) -> Result<Plan, NotResident> {
    Ok(Plan { not_found: true, ..send_file(request, &variants, image, options)? })
}

/// Plans a response with a variant of a file whose fields frame it.
pub(crate) fn file(
    request: &Request<'_>,
    variant: &Variant,
    image: &Image,
    options: PlanOptions,
) -> Result<Plan, NotResident> {
    let etag = image.resident_bytes(variant.etag)?;
    match precondition::evaluate(request.fields, etag, variant.last_modified, options.unix_s) {
        Outcome::Proceed => {
            let with_content = request.with_content();
            // RFC 9110, section 14.2: the Range field applies to GET alone.
            if request.fields.has(FieldName::Range)
                && with_content
                && options.with_ranges
                && let Some(plan) = plan_ranges(request, etag, variant, image, options.unix_s)?
            {
                return Ok(plan);
            }
            Ok(Plan::new(Status::Ok, variant.fields(), with_content.then_some(variant.content)))
        }
        // Only a forged record has no fields for this.
        Outcome::NotModified if variant.not_modified().text.len == 0 => {
            Ok(forged(image, request.with_content()))
        }
        Outcome::NotModified => Ok(Plan::new(Status::NotModified, variant.not_modified(), None)),
        // The page has neither Vary nor validators: no cache stores it (RFC 9110, section 15.1).
        Outcome::Failed => Ok(page(image, Status::PreconditionFailed, request.with_content())),
    }
}

/// Plans the response to a request for ranges of a file. `None`: send the whole file.
#[cold]
fn plan_ranges(
    request: &Request<'_>,
    etag: &[u8],
    variant: &Variant,
    image: &Image,
    unix_s: u64,
) -> Result<Option<Plan>, NotResident> {
    let fields = request.fields;
    if !precondition::range_applies(fields, etag, variant.last_modified, unix_s) {
        return Ok(None);
    }
    let of = variant.content.len();
    Ok(match range::select(fields, of) {
        RangeSelection::Whole => None,
        RangeSelection::Ranges(parts) => {
            let field = fields.first(FieldName::Range).map(|value| request.part(value));
            let field = field.expect("the field selects the ranges");
            ByteRanges::plan(parts, field, variant, image)?.map(|(ranges, fields)| Plan {
                generated: Generated::ByteRanges(ranges),
                ..Plan::new(Status::PartialContent, fields, Some(variant.content))
            })
        }
        RangeSelection::Unsatisfiable => {
            let page = page(image, Status::RangeNotSatisfiable, true);
            Some(Plan { generated: Generated::Unsatisfied { of }, ..page })
        }
    })
}

/// Plans a response with a file that a rule sends for an error: neither preconditions nor ranges apply (RFC 9110, sections 13.2.1 and
/// 14.2).
#[cold]
fn error_file(code: u16, variant: &Variant, with_content: bool) -> Plan {
    // Other statuses, such as 304, have no content.
    let status = Status::from_code(code).filter(|status| status.code() >= 400).unwrap_or(Status::NotFound);
    Plan::new(status, variant.fields(), with_content.then_some(variant.content))
}

/// Plans a redirect by a rule.
#[cold]
fn plan_rule_redirect(
    status: Status,
    redirect: RuleRedirect,
    image: &Image,
    with_content: bool,
) -> Result<Plan, NotResident> {
    let rules = image.rules()?.expect("the image has the rule that matched");
    let (fields, content) = redirect.rest(rules, image)?;
    let content = with_content.then_some(Content::Image(content));
    let not_found = !redirect.exists();
    let generated = Generated::RuleRedirect(redirect);
    Ok(Plan { generated, not_found, ..Plan::new(status, fields, content) })
}

/// Plans a redirect of the image. It keeps the query, as from `/dir?q` to `/dir/?q`, unless a rule sets one.
fn plan_redirect(
    request: &Request<'_>,
    image: &Image,
    redirect: Redirect,
    query: Option<&[u8]>,
) -> Result<Plan, NotResident> {
    if !image.is_redirect_framed(&redirect)? {
        return Ok(forged(image, request.with_content()));
    }
    let (before_query, content) = (redirect.before_query(), redirect.content);
    let (generated, fields) = match query.filter(|_| before_query.len > 0) {
        None => (Generated::None, redirect.fields()),
        Some(query) => {
            image.check_resident(before_query)?;
            let query = request.part(query).with_byte_before();
            (Generated::LocationWithQuery { before_query, query }, redirect.after_query())
        }
    };
    let content = request.with_content().then_some(Content::Image(content));
    let status = redirect.rule_status.and_then(Status::from_code).unwrap_or(Status::MovedPermanently);
    Ok(Plan { generated, ..Plan::new(status, fields, content) })
}

/// The result of a lookup of a path.
enum Found {
    /// The entry of the site at the path.
    Entry(Entry),
    /// A file of the site that lies elsewhere.
    Fallback(Variants),
    /// A redirect by a rule.
    RuleRedirect(Status, RuleRedirect),
    /// Nothing; the site has this 404.html.
    NotFoundPage(Variants),
    /// Nothing; the status page says so.
    Status(Status),
}

/// Finds what a path leads to if the site has nothing there, or if rules or a listing as JSON come before what it has.
#[cold]
fn apply_rules(
    image: &Image,
    wanted: RuledPath<'_>,
    path: &[u8],
    entry: Option<Entry>,
) -> Result<Found, NotResident> {
    let action = match image.rules()? {
        Some(rules) => rules::apply(rules, image, wanted, path, entry.is_some())?,
        None => None,
    };
    match (action, entry) {
        (Some(RuleAction::Send(file)), None) => return Ok(Found::Fallback(file)),
        (Some(RuleAction::Send(file)), Some(_)) => return Ok(Found::Entry(Entry::File(file))),
        (Some(RuleAction::Redirect(status, redirect)), _) => {
            return Ok(Found::RuleRedirect(status, redirect));
        }
        (None, Some(entry)) => {
            return Ok(Found::Entry(listing_as_json(image, wanted, path)?.unwrap_or(entry)));
        }
        (Some(RuleAction::SendMissing) | None, _) => {}
    }
    Ok(match image.fallback(path)? {
        Fallback::AppShell(variants) => Found::Fallback(variants),
        Fallback::NotFoundPage(variants) => Found::NotFoundPage(variants),
        Fallback::StatusPage => Found::Status(Status::NotFound),
    })
}

/// Returns the listing at a path as JSON if the client prefers that.
fn listing_as_json(image: &Image, wanted: RuledPath<'_>, path: &[u8]) -> Result<Option<Entry>, NotResident> {
    let json = image.listing_json(path)?;
    let preferred =
        |_: &Variants| media::is_preferred(wanted.request.fields, ("application", "json"), ("text", "html"));
    Ok(json.filter(preferred).map(Entry::File))
}
