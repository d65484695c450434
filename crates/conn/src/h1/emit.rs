//! Queues a planned response as HTTP/1.1: the only place that knows its order on the wire.
//!
//! ```text
//! [ prefix ][ generated fields, in a buffer ][ fields in the image, with the empty line ][ content ]
//! ```

use crate::{
    BufRange, ConnResources,
    byte_ranges::ByteRanges,
    content_cursor::ContentCursor,
    generated_text,
    plan::{Generated, Plan},
    pool::{BufId, Pool},
    response_prefix::Persistence,
    sites::ImageId,
    span::{Outbox, SPAN_COUNT_MAX, Span},
};
use tarpon_http::{range::RANGE_COUNT_MAX, status::Status};
use tarpon_site::{Content, Region};

/// Spans that the usual response queues: prefix, and fields with content. While the outbox has no room for them, no exchange begins.
pub(super) const USUAL_SPAN_COUNT: usize = 2;

/// Spans that a status page queues at most: prefix, fields, content.
pub(super) const PAGE_SPAN_COUNT: usize = 3;

/// Spans that a response queues at most unless it has several byte ranges: prefix, generated fields, query, fields, content.
pub(super) const SPAN_COUNT: usize = 5;

const _: () = assert!(PAGE_SPAN_COUNT <= SPAN_COUNT && range_span_count(1) <= SPAN_COUNT);
const _: () = assert!(range_span_count(RANGE_COUNT_MAX) <= SPAN_COUNT_MAX);

/// Returns the number of spans of a response with byte ranges: prefix, generated fields, fields; delimiter and part for each of several
/// ranges, and the last delimiter.
const fn range_span_count(range_count: usize) -> usize {
    if range_count > 1 { 3 + 2 * range_count + 1 } else { 3 + range_count }
}

/// Returns the maximum number of spans that a response queues.
#[inline]
pub(super) fn span_count(plan: &Plan) -> usize {
    match &plan.generated {
        Generated::None if joined(plan.fields.text, plan.content).is_some() => USUAL_SPAN_COUNT,
        Generated::None => PAGE_SPAN_COUNT,
        Generated::ByteRanges(ranges) => range_span_count(ranges.part_count()),
        _ => SPAN_COUNT,
    }
}

/// Queues a response to the request that lies in `request`.
///
/// # Errors
/// Nothing is queued: the generated fields do not fit into a buffer, or no buffer is free. Returns the status of the response to send
/// instead.
#[inline(always)]
pub(super) fn emit(
    cx: &mut ConnResources<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    persistence: Persistence,
    request: BufRange,
) -> Result<(), Status> {
    if let Generated::None = plan.generated {
        push_prefix(cx, out, plan.status, persistence);
        push_rest(cx, out, image, plan);
        return Ok(());
    }
    emit_generated(cx, out, image, plan, persistence, request)
}

/// Queues a response without generated fields.
#[inline(never)]
pub(super) fn emit_planned(
    cx: &mut ConnResources<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    persistence: Persistence,
) {
    push_prefix(cx, out, plan.status, persistence);
    push_rest(cx, out, image, plan);
}

#[cold]
fn emit_generated(
    cx: &mut ConnResources<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    persistence: Persistence,
    request: BufRange,
) -> Result<(), Status> {
    let sites = &*cx.sites;
    let fields = match plan.generated {
        Generated::None => {
            emit_planned(cx, out, image, plan, persistence);
            return Ok(());
        }
        Generated::LocationWithQuery { before_query, query } => {
            // Browsers send bytes in a query that a Location must not contain.
            let write = |request: &[u8], to: &mut [u8]| generated_text::write_query(query, request, to);
            let query = write_to_buf(cx.pool, request, write)?;
            push_prefix(cx, out, plan.status, persistence);
            out.push(cx.sites, site_span(image, before_query));
            out.push(cx.sites, Span::Buf(query));
            push_rest(cx, out, image, plan);
            return Ok(());
        }
        Generated::ByteRanges(ranges) => {
            let ranges = ranges.select(cx.pool.bytes(request));
            push_ranges(cx, out, image, plan, persistence, &ranges);
            return Ok(());
        }
        generated => write_to_buf(cx.pool, request, |request, to| {
            generated_text::write(&generated, sites, image, request, to)
        })?,
    };
    push_prefix(cx, out, plan.status, persistence);
    out.push(cx.sites, Span::Buf(fields));
    push_rest(cx, out, image, plan);
    Ok(())
}

#[inline(always)]
fn push_prefix(cx: &mut ConnResources<'_>, out: &mut Outbox, status: Status, persistence: Persistence) {
    out.push(cx.sites, Span::Prefix(cx.prefixes.prefix(status, persistence)));
}

/// Queues a response with byte ranges. Its generated pieces lie in one buffer, which each of their spans holds.
fn push_ranges(
    cx: &mut ConnResources<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    persistence: Persistence,
    ranges: &ByteRanges,
) {
    let buf = take(cx.pool);
    let content = plan.content.expect("ranges are parts of a content");
    let pieces = ranges.write(cx.sites.image(image), cx.pool.buf_mut(buf));
    let mut pieces =
        pieces.ranges().map(|range| BufRange { buf, at: range.start, len: range.end - range.start });
    let mut push_piece = |cx: &mut ConnResources<'_>, out: &mut Outbox| {
        if let Some(piece) = pieces.next() {
            cx.pool.hold(buf);
            out.push(cx.sites, Span::Buf(piece));
        }
    };
    push_prefix(cx, out, plan.status, persistence);
    push_piece(cx, out);
    out.push(cx.sites, site_span(image, plan.fields.text));
    for part in ranges.parts() {
        push_piece(cx, out);
        out.push(cx.sites, Span::of_content(image, content.part(part.at, part.len)));
    }
    push_piece(cx, out);
    cx.pool.release(buf);
}

/// Returns the place of fields and content if they are one span: the content follows the fields, or there is none.
#[inline(always)]
pub(super) fn joined(fields: Region, content: Option<Content>) -> Option<Region> {
    match content {
        Some(Content::Image(content)) if content.at == fields.at + fields.len => {
            Some(Region { at: fields.at, len: fields.len + content.len })
        }
        Some(_) => None,
        None => Some(fields),
    }
}

/// Queues the fields in the image, and the content.
#[inline(always)]
fn push_rest(cx: &mut ConnResources<'_>, out: &mut Outbox, image: ImageId, plan: &Plan) {
    let fields = plan.fields.text;
    match (joined(fields, plan.content), plan.content) {
        (None, Some(content)) => push_apart(cx, out, image, fields, content),
        (rest, _) => out.push(cx.sites, site_span(image, rest.unwrap_or(fields))),
    }
}

/// Queues the fields, and a content that lies elsewhere.
#[inline(never)]
fn push_apart(
    cx: &mut ConnResources<'_>,
    out: &mut Outbox,
    image: ImageId,
    fields: Region,
    content: Content,
) {
    out.push(cx.sites, site_span(image, fields));
    let mut cursor = ContentCursor::new(content);
    while let Some(part) = cursor.take(u64::MAX) {
        out.push(cx.sites, Span::of_content(image, part));
    }
}

#[inline]
pub(super) fn site_span(image: ImageId, region: Region) -> Span {
    Span::Site { image, at: region.at, len: region.len }
}

fn take(pool: &mut Pool) -> BufId {
    pool.take_for_response().expect("ranges are planned only if a buffer is free for them")
}

/// Writes into a free buffer what depends on the bytes of the request, whose own buffer will be read into again.
fn write_to_buf(
    pool: &mut Pool,
    request: BufRange,
    write: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>,
) -> Result<BufRange, Status> {
    let buf = pool.take_for_response().ok_or(Status::ServiceUnavailable)?;
    let (bytes, to) = pool.split_mut(request, buf);
    match write(bytes, to) {
        Some(len) => Ok(BufRange { buf, at: 0, len: len as u32 }),
        None => {
            pool.release(buf);
            Err(Status::UriTooLong)
        }
    }
}
