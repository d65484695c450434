//! Writes the head of a response: HEADERS with a block.
//!
//! ```text
//! [ header of the frame ][ :status ][ Server, Date ][ generated fields ][ the block of the image ]
//! ```
//!
//! The parts are packed without a dynamic table, the same for all clients. The encoder replaces fields that it has sent before by their indexes.
//! Generated fields are not added to the table: few are sent twice.

use super::{Http2, frame_output::NoFrameBuffer};
use crate::{
    BUF_LEN, BufRange, ConnResources,
    generated_text::{self, PRIVATE_LINE},
    plan::{Generated, Plan},
    pool::BufId,
    sites::ImageId,
    span::{Outbox, Span},
};
use std::ops::Range;
use tarpon_http::{
    h2::{FRAME_HEADER_LEN, FRAME_PAYLOAD_LEN_MAX, headers_header, hpack::SIZE_UPDATES_LEN_MAX},
    status::Status,
};
use tarpon_site::{NotResident, Region, hpack};

/// The content of a response whose head is queued.
pub(super) enum HeadContent {
    None,
    /// One span, which is not held.
    Place(Span),
    /// Spans that are held, the last one first.
    Held(Vec<Span>),
}

/// The head cannot be queued.
pub(super) enum UnqueuedHead {
    /// A page is not in memory.
    Missing(NotResident),
    /// The response to send instead.
    Status(Status),
}

/// The generated part of a response, in a buffer that it holds.
struct GeneratedPart {
    buf: BufId,
    /// The lines of the fields.
    text: Range<usize>,
    content: Vec<Span>,
}

/// The most that a block begins with: changes of the table's size, `:status`, Server and Date.
const START_LEN_MAX: usize = 64;

/// The number of streams whose content lies in part in a buffer of the pool, such as byte ranges: a client that opens no window must not hold more.
const HELD_COUNT_MAX: usize = 4;

impl Http2 {
    /// Returns whether a response may have byte ranges.
    pub(super) fn may_have_ranges(&self, cx: &ConnResources<'_>) -> bool {
        cx.pool.has_for_response() && self.streams.held_count() < HELD_COUNT_MAX
    }

    /// Queues the head of a response. `request`: the bytes of the request.
    #[inline]
    pub(super) fn put_head(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        image: ImageId,
        plan: &Plan,
        request: &[u8],
    ) -> Result<HeadContent, UnqueuedHead> {
        let block = match cx.sites.image(image).hpack(plan.fields) {
            Ok(Some(block)) => block,
            // The fields of a forged image.
            Ok(None) => return Err(UnqueuedHead::Status(Status::InternalServerError)),
            Err(missing) => return Err(UnqueuedHead::Missing(missing)),
        };
        if let Generated::None = plan.generated {
            let content = plan.content.filter(|content| content.len() > 0);
            self.put_block(cx, out, stream, plan.status, image, &[], block, content.is_none())?;
            return Ok(match content {
                None => HeadContent::None,
                Some(content) => HeadContent::Place(Span::of_content(image, content)),
            });
        }
        if let Generated::Private = plan.generated {
            return self.put_private(cx, out, stream, image, plan, block);
        }
        self.put_generated(cx, out, stream, image, plan, request, block)
    }

    /// Queues a head that keeps the response out of shared caches.
    #[cold]
    fn put_private(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        image: ImageId,
        plan: &Plan,
        block: Region,
    ) -> Result<HeadContent, UnqueuedHead> {
        let (mut fields, mut len) = ([0; 2 * PRIVATE_LINE.len()], 0);
        let encoded = hpack::encode(PRIVATE_LINE, &mut |byte| {
            fields[len] = byte;
            len += 1;
        });
        debug_assert_eq!(encoded, Some(()), "it is a line");
        let content = plan.content.filter(|content| content.len() > 0);
        let (status, ends_stream) = (plan.status, content.is_none());
        self.put_block(cx, out, stream, status, image, &fields[..len], block, ends_stream)?;
        Ok(content.map_or(HeadContent::None, |content| HeadContent::Place(Span::of_content(image, content))))
    }

    /// Queues a head with generated fields.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the parts of one response")]
    fn put_generated(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        image: ImageId,
        plan: &Plan,
        request: &[u8],
        block: Region,
    ) -> Result<HeadContent, UnqueuedHead> {
        let GeneratedPart { buf, text, mut content } =
            generate(cx, image, plan, request).map_err(UnqueuedHead::Status)?;
        // Byte ranges were bounded when they were planned.
        let is_bounded = content.is_empty() || matches!(plan.generated, Generated::ByteRanges(_));
        if !is_bounded && self.streams.held_count() >= HELD_COUNT_MAX {
            content.iter().for_each(|span| span.release(cx.sites, cx.pool));
            cx.pool.release(buf);
            return Err(UnqueuedHead::Status(Status::ServiceUnavailable));
        }
        if let Some(of_plan) = plan.content.filter(|of| of.len() > 0 && content.is_empty()) {
            let span = Span::of_content(image, of_plan);
            span.hold(cx.sites, cx.pool);
            content.push(span);
        }
        let (mut fields, mut len) = ([0; 2 * TEXT_LEN_MAX], 0);
        let text = BufRange { buf, at: text.start as u32, len: text.len() as u32 };
        let encoded = hpack::encode(cx.pool.bytes(text), &mut |byte| {
            fields[len] = byte;
            len += 1;
        });
        debug_assert_eq!(encoded, Some(()), "generated fields are lines");
        let (status, ends_stream) = (plan.status, content.is_empty());
        let put = self.put_block(cx, out, stream, status, image, &fields[..len], block, ends_stream);
        cx.pool.release(buf);
        match put {
            Ok(()) => Ok(HeadContent::Held(content)),
            Err(error) => {
                content.iter().for_each(|span| span.release(cx.sites, cx.pool));
                Err(error)
            }
        }
    }

    /// Queues HEADERS. `generated`: fields as HPACK.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the parts of one head")]
    fn put_block(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        status: Status,
        image: ImageId,
        generated: &[u8],
        block: Region,
        ends_stream: bool,
    ) -> Result<(), UnqueuedHead> {
        let len_max = START_LEN_MAX + generated.len() + block.len as usize;
        if len_max > FRAME_PAYLOAD_LEN_MAX {
            return Err(UnqueuedHead::Status(Status::InternalServerError));
        }
        self.output
            .reserve(cx, out, FRAME_HEADER_LEN + len_max)
            .map_err(|NoFrameBuffer| UnqueuedHead::Status(Status::ServiceUnavailable))?;
        let to = self.output.rest(cx.pool);
        let encoder = self.encoder.get_or_insert_default();
        let mut end = FRAME_HEADER_LEN;
        end += encoder.begin_block(&mut to[end..]);
        end += encoder.put(cx.prefixes.hpack_status(status), &mut to[end..]);
        end += encoder.put(cx.prefixes.hpack_fields(), &mut to[end..]);
        to[end..][..generated.len()].copy_from_slice(generated);
        end += generated.len();
        end += encoder.put(cx.sites.image(image).bytes(block), &mut to[end..]);
        let payload_len = (end - FRAME_HEADER_LEN) as u32;
        to[..FRAME_HEADER_LEN].copy_from_slice(&headers_header(stream, payload_len, true, ends_stream));
        self.output.advance(end);
        Ok(())
    }

    /// Queues HEADERS with a block whose fields neither use the dynamic table nor are added to it.
    pub(super) fn put_plain_block(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        block: &[u8],
        ends_stream: bool,
    ) -> Result<(), Status> {
        if SIZE_UPDATES_LEN_MAX + block.len() > FRAME_PAYLOAD_LEN_MAX {
            return Err(Status::InternalServerError);
        }
        self.output
            .reserve(cx, out, FRAME_HEADER_LEN + SIZE_UPDATES_LEN_MAX + block.len())
            .map_err(|NoFrameBuffer| Status::ServiceUnavailable)?;
        let mut updates = [0; SIZE_UPDATES_LEN_MAX];
        let updates_len = self.encoder().begin_block(&mut updates);
        let payload_len = (updates_len + block.len()) as u32;
        self.output.put(cx.pool, &headers_header(stream, payload_len, true, ends_stream));
        self.output.put(cx.pool, &updates[..updates_len]);
        self.output.put(cx.pool, block);
        Ok(())
    }
}

/// The maximum length of generated fields as text: as HPACK they have twice that at most. A Location with the longest path and query, escaped,
/// may be longer and is refused.
const TEXT_LEN_MAX: usize = (FRAME_PAYLOAD_LEN_MAX - START_LEN_MAX) / 2;

/// Writes the generated part of a response to a new buffer.
///
/// # Errors
/// Returns the status of the response to send instead: the fields do not fit, or no buffer is free.
fn generate(
    cx: &mut ConnResources<'_>,
    image: ImageId,
    plan: &Plan,
    request: &[u8],
) -> Result<GeneratedPart, Status> {
    let buf = cx.pool.take_for_response().ok_or(Status::ServiceUnavailable)?;
    let written = write(cx, image, plan, request, buf);
    if written.is_none() {
        cx.pool.release(buf);
    }
    let (text, content) = written.ok_or(Status::UriTooLong)?;
    Ok(GeneratedPart { buf, text, content })
}

/// Writes the generated part of a response to a buffer. Returns the place of its lines, and its content, the last part first.
fn write(
    cx: &mut ConnResources<'_>,
    image: ImageId,
    plan: &Plan,
    request: &[u8],
    buf: BufId,
) -> Option<(Range<usize>, Vec<Span>)> {
    let current = cx.sites.image(image);
    if let Generated::ByteRanges(ranges) = plan.generated {
        let ranges = ranges.select(request);
        let pieces = ranges.write(current, cx.pool.buf_mut(buf));
        let mut pieces = pieces.ranges();
        let fields = pieces.next()?;
        let content = plan.content.expect("ranges are parts of a content");
        let mut spans = Vec::with_capacity(2 * ranges.parts().len() + 1);
        let mut parts = ranges.parts().iter();
        loop {
            let (piece, part) = (pieces.next(), parts.next());
            if let Some(piece) = &piece {
                spans.push(Span::Buf(BufRange { buf, at: piece.start, len: piece.end - piece.start }));
            }
            match part {
                Some(part) => spans.push(Span::of_content(image, content.part(part.at, part.len))),
                None if piece.is_none() => break,
                None => {}
            }
        }
        spans.iter().for_each(|span| span.hold(cx.sites, cx.pool));
        spans.reverse();
        return Some((fields.start as usize..fields.end as usize, spans));
    }
    let to = &mut cx.pool.buf_mut(buf)[..BUF_LEN - 2];
    let mut len = match plan.generated {
        Generated::LocationWithQuery { before_query, query } => {
            let before = current.bytes(before_query);
            to.get_mut(..before.len())?.copy_from_slice(before);
            let len = before.len() + generated_text::write_query(query, request, &mut to[before.len()..])?;
            // The fragment of the target, with which the text of the other fields begins.
            let fragment =
                current.bytes(plan.fields.text).split(|byte| *byte == b'\r').next().unwrap_or_default();
            to.get_mut(len..len + fragment.len())?.copy_from_slice(fragment);
            len + fragment.len()
        }
        generated => generated_text::write(&generated, cx.sites, image, request, to)?,
    };
    let written = &cx.pool.buf_mut(buf)[..len];
    let text_len = written.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 2);
    if let Some(text_len) = text_len {
        // The empty line, and what follows.
        let at = text_len + 2;
        let content = BufRange { buf, at: at as u32, len: (len - at) as u32 };
        let spans = if content.len > 0 { vec![Span::Buf(content)] } else { Vec::new() };
        spans.iter().for_each(|span| span.hold(cx.sites, cx.pool));
        return (text_len <= TEXT_LEN_MAX).then_some((0..text_len, spans));
    }
    if !written.ends_with(b"\r\n") {
        cx.pool.buf_mut(buf)[len..len + 2].copy_from_slice(b"\r\n");
        len += 2;
    }
    (len <= TEXT_LEN_MAX).then_some((0..len, Vec::new()))
}
