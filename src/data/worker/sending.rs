//! Sending: the bytes of spans, and whether they are in memory and intact.

use super::context::WorkerContext;
use crate::site::FileRange;
use tarpon_conn::{ImageId, MissingPage, Span};
use tarpon_site::Region;

/// A range of an image's files that is not in memory.
pub(crate) struct MissingRange {
    pub(super) image: ImageId,
    pub(super) range: FileRange,
}

/// Bytes that are copied together for one send: see `engine/readiness/drive.rs`.
pub(crate) const COPY_LEN_MAX: usize = 8 * 1024;

impl WorkerContext {
    /// Returns the first range that must be read before the front of an outbox can be sent: of the spans in memory, or of the first
    /// span, of which at most `len_max` bytes are sent now.
    #[inline]
    pub(crate) fn first_not_resident(
        &mut self,
        spans: &[Span],
        file_len_min: u64,
        len_max: u64,
    ) -> Option<MissingRange> {
        if !self.any_on_disk || self.blocks_on_disk {
            return None;
        }
        for (number, span) in spans.iter().enumerate() {
            if number > 0 && !self.is_in_memory(span, file_len_min) {
                break;
            }
            let (Span::Site { image, .. } | Span::Archive { image, .. } | Span::File { image, .. }) = *span
            else {
                continue;
            };
            let served = self.served_sites[image.index()]
                .as_mut()
                .expect("a site outlives the spans that name its image");
            if let Some(range) = served.missing_for_span(span, len_max, self.now) {
                return Some(MissingRange { image, range });
            }
        }
        None
    }

    /// Returns whether the bytes that a connection waits for are in memory. Asks the kernel.
    #[cold]
    pub(super) fn is_resident(&mut self, missing: MissingPage) -> bool {
        self.missing_for_page(missing).is_none()
    }

    /// Returns the range that a connection waits for and that is not in memory. If the image was retired, returns `None`.
    #[cold]
    pub(crate) fn missing_for_page(
        &mut self,
        MissingPage { image, page }: MissingPage,
    ) -> Option<MissingRange> {
        let served = self.served_sites[image.index()].as_mut()?;
        served.missing_for_lookup(page, self.now).map(|range| MissingRange { image, range })
    }

    /// Returns whether a span is sent from memory. Spans of at least `file_len_min` bytes, files beside an image and an archive
    /// whose map is damaged are sent from their descriptors.
    #[inline]
    pub(crate) fn is_in_memory(&self, span: &Span, file_len_min: u64) -> bool {
        match *span {
            Span::Prefix(_) | Span::Buf(_) => true,
            Span::Site { len, .. } => len < file_len_min,
            Span::Archive { len, .. } => len < file_len_min && self.is_intact(span),
            Span::File { .. } => false,
        }
    }

    /// Returns the bytes of a span in memory. Copy them at once, then check [`is_intact`](WorkerContext::is_intact) before the copy
    /// is sent.
    #[inline]
    pub(crate) fn bytes(&self, span: &Span) -> &[u8] {
        match *span {
            Span::Prefix(prefix) => self.prefixes.bytes(prefix),
            Span::Site { image, at, len } => self.sites.image(image).bytes(Region { at, len }),
            Span::Buf(run) => self.pool.bytes(run),
            Span::Archive { image, at, len } => {
                self.site(image).archive().map.bytes(Region { at, len }).unwrap_or_default()
            }
            Span::File { .. } => unreachable!("leaves from its descriptor"),
        }
    }

    /// Returns the bytes of a span in memory for a system call to read. User code must not read them: a truncated file raises SIGBUS.
    #[inline]
    pub(crate) fn bytes_for_kernel(&self, span: &Span) -> &[u8] {
        match *span {
            Span::Archive { image, at, len } => {
                self.site(image).archive().map.bytes_for_kernel(Region { at, len }).unwrap_or_default()
            }
            Span::Site { image, at, len } => self.site(image).bytes_for_kernel(Region { at, len }),
            _ => self.bytes(span),
        }
    }

    /// Returns whether the bytes of a span came from an intact file. A truncated archive reads as zeros.
    #[inline]
    pub(crate) fn is_intact(&self, span: &Span) -> bool {
        match *span {
            _ if !self.any_on_disk => true,
            Span::Archive { image, .. } => !self.site(image).archive().map.is_damaged(),
            Span::Site { image, .. } => !self.site(image).is_damaged(),
            _ => true,
        }
    }
}
