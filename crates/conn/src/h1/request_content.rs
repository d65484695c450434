//! The content of a request: for a backend, or read and dropped; never parsed as the next request.

use tarpon_http::{
    FieldName,
    chunked::{ChunkedDecoder, Decoded},
    field,
    framing::{self, Framing},
    head::{Head, Version},
    status::Status,
};

/// The maximum length of the content of a request that is read and dropped, in bytes, as in nginx. For longer content, closing the
/// connection costs less than reading.
pub const CONTENT_LEN_MAX: u64 = 1024 * 1024;

/// The rest of the content of a request.
#[derive(Debug)]
pub(super) enum RequestContent {
    Length { left: u64 },
    Chunked { decoder: ChunkedDecoder, left: u64 },
}

/// The content is malformed or too long: its end is unknown, or not worth waiting for. The status of the response, if it has not begun.
pub(super) struct InvalidContent(pub(super) Status);

impl RequestContent {
    /// Returns the content that follows a head, of at most `len_max` bytes. RFC 9112, section 6.3.
    ///
    /// # Errors
    /// Returns the status of the response if the framing is invalid or the content too long.
    #[inline]
    pub(super) fn of(head: &Head<'_>, len_max: u64) -> Result<Option<RequestContent>, Status> {
        match framing::framing(head).map_err(|error| error.status())? {
            Framing::None | Framing::Length(0) => Ok(None),
            Framing::Length(len) if len > len_max => Err(Status::ContentTooLarge),
            Framing::Length(left) => Ok(Some(RequestContent::Length { left })),
            Framing::Chunked => {
                Ok(Some(RequestContent::Chunked { decoder: ChunkedDecoder::default(), left: len_max }))
            }
        }
    }

    /// Decodes content at the front of `input`.
    pub(super) fn decode(&mut self, input: &[u8]) -> Result<Decoded, InvalidContent> {
        match self {
            RequestContent::Length { left } => {
                let used = (*left).min(input.len() as u64);
                *left -= used;
                Ok(Decoded { used: used as usize, content: 0..used as usize, trailers: 0..0 })
            }
            RequestContent::Chunked { decoder, left } => {
                let piece = decoder.decode(input).map_err(|error| InvalidContent(error.status()))?;
                let len = piece.content.len() as u64;
                *left = left.checked_sub(len).ok_or(InvalidContent(Status::ContentTooLarge))?;
                Ok(piece)
            }
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        match self {
            RequestContent::Length { left } => *left == 0,
            RequestContent::Chunked { decoder, .. } => decoder.is_done(),
        }
    }
}

/// Returns whether the client waits for 100 (Continue) before it sends the content. RFC 9110, section 10.1.1.
pub(super) fn expects_continue(head: &Head<'_>) -> bool {
    // A server ignores the expectation of an HTTP/1.0 request.
    head.version == Version::Http11 && field::has_token(head.fields.all(FieldName::Expect), b"100-continue")
}
