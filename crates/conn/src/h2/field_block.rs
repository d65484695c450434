//! Field blocks: in one frame of HEADERS, or continued in others. RFC 9113, section 4.3.
//!
//! ```text
//! HEADERS ─┬─ the whole block ──────────────▶ request, or trailers
//!          └─ CONTINUATION … ─ its rest ──────▶
//! ```
//!
//! Every block is decoded, also of a stream that is refused: later blocks need the dynamic table. A request that waits for room or a page keeps
//! its decoded fields, and its last frame is offered again.

use super::{Http2, frames::count_flood, section_buffer::BlockFields, shutdown::Shutdown};
use crate::{BufRange, ConnResources, span::Outbox};
use tarpon_http::h2::{ErrorCode, FrameFlags, FrameHeader, parse_trailers};

/// The maximum number of frames that continue a block. A section within the limit takes one at most, unless a client cuts it small.
/// CVE-2024-27316.
const CONTINUATION_COUNT_MAX: u8 = 8;

/// A block that is not complete, or whose request waits.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    kind: BlockKind,
    pub(super) decoded: Box<BlockFields>,
    continuation_count: u8,
    is_complete: bool,
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Request,
    Trailers,
    /// The stream is not answered.
    Ignored,
}

impl OpenBlock {
    /// Returns whether CONTINUATION must follow.
    pub(super) fn awaits_more(&self) -> bool {
        !self.is_complete
    }
}

impl Http2 {
    /// Handles HEADERS. `block`: where its part of the block lies. Returns whether the frame was used.
    #[inline]
    pub(super) fn headers(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        header: &FrameHeader,
        block: BufRange,
    ) -> Result<bool, ErrorCode> {
        if self.block.is_none() {
            let ends_stream = header.flags.has(FrameFlags::END_STREAM);
            let kind = self.block_kind(cx, header.stream, ends_stream)?;
            self.block = Some(OpenBlock {
                stream: header.stream,
                ends_stream,
                kind,
                decoded: cx.sections.take(),
                continuation_count: 0,
                is_complete: false,
            });
            self.decode_block(cx, header, block)?;
        }
        self.use_block(cx, out)
    }

    /// Handles CONTINUATION. Returns whether the frame was used.
    #[cold]
    pub(super) fn continuation(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        header: &FrameHeader,
        block: BufRange,
    ) -> Result<bool, ErrorCode> {
        let open = self.block.as_mut().filter(|open| open.stream == header.stream);
        let open = open.ok_or(ErrorCode::PROTOCOL_ERROR)?;
        if !open.is_complete {
            open.continuation_count += 1;
            if open.continuation_count > CONTINUATION_COUNT_MAX {
                return Err(count_flood(cx));
            }
            self.decode_block(cx, header, block)?;
        }
        self.use_block(cx, out)
    }

    /// Decides what a block on a stream is.
    fn block_kind(
        &mut self,
        cx: &mut ConnResources<'_>,
        stream: u32,
        ends_stream: bool,
    ) -> Result<BlockKind, ErrorCode> {
        if stream.is_multiple_of(2) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if stream > self.last_stream {
            self.last_stream = stream;
            if let Shutdown::Last { .. } = self.shutdown {
                // Its later frames are no errors.
                self.streams.note_ended(stream, true);
                return Ok(BlockKind::Ignored);
            }
            return Ok(BlockKind::Request);
        }
        match (self.streams.find(stream), self.streams.ended(stream)) {
            (Some(index), _) if self.streams.at(index).upload.is_complete() => Err(ErrorCode::STREAM_CLOSED),
            (Some(index), _) if ends_stream && !self.streams.at(index).upload.is_of_tunnel() => {
                Ok(BlockKind::Trailers)
            }
            // A second head, or one in a tunnel: RFC 9113, sections 8.1 and 8.5.
            (Some(_), _) => {
                self.reset_stream(cx, stream, ErrorCode::PROTOCOL_ERROR);
                Ok(BlockKind::Ignored)
            }
            (None, Some(true)) => Ok(BlockKind::Ignored),
            (None, Some(false)) => Err(ErrorCode::STREAM_CLOSED),
            // Lower than another, and perhaps never used: RFC 9113, section 5.1.1.
            (None, None) => Err(ErrorCode::PROTOCOL_ERROR),
        }
    }

    /// Decodes a part of the open block.
    #[inline]
    fn decode_block(
        &mut self,
        cx: &ConnResources<'_>,
        header: &FrameHeader,
        block: BufRange,
    ) -> Result<(), ErrorCode> {
        let Some(open) = &mut self.block else { return Ok(()) };
        let BlockFields { section, bytes, rest } = &mut *open.decoded;
        let is_end = header.flags.has(FrameFlags::END_HEADERS);
        let part = cx.pool.bytes(block);
        // It takes 5 KiB, which a connection without a request does without.
        let decoder = self.decoder.get_or_insert_default();
        let decoded = if rest.is_empty() {
            decoder.decode(part, is_end, section, bytes).map(|used| rest.extend_from_slice(&part[used..]))
        } else {
            rest.extend_from_slice(part);
            decoder.decode(rest, is_end, section, bytes).map(|used| drop(rest.drain(..used)))
        };
        open.is_complete = is_end;
        decoded.map_err(|error| error.code())
    }

    /// Uses the open block if it is complete. Returns whether its last frame was used.
    #[inline]
    fn use_block(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) -> Result<bool, ErrorCode> {
        let Some(open) = self.block.take_if(|open| open.is_complete) else { return Ok(true) };
        let is_used = match open.kind {
            BlockKind::Request => {
                let has_begun = self.begin(cx, out, &open);
                if has_begun {
                    // Lower streams that are not open never will be: RFC 9113, section 5.1.1.
                    self.early_priorities.retain(|(id, _)| *id > open.stream);
                }
                has_begun
            }
            BlockKind::Trailers => {
                self.trailers(cx, out, &open);
                true
            }
            BlockKind::Ignored => true,
        };
        match is_used {
            true => cx.sections.put_back(open.decoded),
            false => self.block = Some(open),
        }
        Ok(is_used)
    }

    /// Handles the trailers of a request, which end it.
    #[cold]
    fn trailers(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, open: &OpenBlock) {
        let BlockFields { section, bytes, .. } = &*open.decoded;
        if section.is_too_large() {
            return self.end_upload(cx, out, open.stream, None);
        }
        match parse_trailers(section, bytes) {
            Ok(fields) => self.end_upload(cx, out, open.stream, Some(&fields)),
            Err(error) => self.reset_stream(cx, open.stream, error.code()),
        }
    }
}
