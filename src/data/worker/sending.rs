//! Sending: the bytes of spans, and whether they are in memory and intact.

use super::{context::WorkerContext, receiving::SendError, served_site::ServedSite, slots::Slot};
use crate::site::{FileRange, StoreId};
use rustix::io::{pread, retry_on_intr};
use std::{fs::File, mem};
use tarpon_conn::{
    Connection, ImageId, MissingPage, OwnRecord, Pool, RECORD_PLAIN_LEN_MAX, ResponsePrefixes, Sites, Span,
    Tick,
};
use tarpon_site::Region;

/// A range of an image's files that is not in memory. Boxed where it is passed on: it is rare, and the results that may hold it then fit in
/// registers.
pub(crate) struct MissingRange {
    pub(super) image: ImageId,
    pub(super) range: FileRange,
}

/// The length of the buffer for spans that are copied together: small responses, or the plain bytes of a record.
pub(crate) const COPY_LEN_MAX: usize = 16 * 1024;
const _: () = assert!(COPY_LEN_MAX >= RECORD_PLAIN_LEN_MAX);

/// The limits that decide how an engine sends, in bytes. The lab measured them.
#[derive(Clone, Copy)]
pub(crate) struct SendLimits {
    /// Spans in memory are copied together up to this length.
    pub(crate) copied_len_max: u64,
    /// For each span after the second one, this length more is copied: the kernel gathers few spans at a lower cost than many.
    pub(crate) copied_len_per_span: u64,
    /// Spans of an image of at least this length are sent by sendfile(2).
    pub(crate) file_len_min: u64,
    /// The maximum length of one sendfile(2).
    pub(crate) send_file_len_max: u64,
}

impl SendLimits {
    /// Returns up to which length this many spans are copied together.
    fn copied_len_of(&self, span_count: usize) -> u64 {
        let more = self.copied_len_per_span * span_count.saturating_sub(2) as u64;
        (self.copied_len_max + more).min(COPY_LEN_MAX as u64)
    }
}

/// How the front of an outbox, or the record that holds it, is sent. `has_more`: another send follows at once.
pub(crate) enum Stage<'s, 'c> {
    /// This range must be read first.
    Missing(Box<MissingRange>),
    /// A record of the transport, sealed by the kernel.
    Own(OwnRecord),
    /// The rest of a sealed record, which stays in its buffer until it was sent.
    Sealed { record: &'c [u8], has_more: bool },
    /// These spans, copied into one buffer.
    Copied { front: &'s [Span], has_more: bool },
    /// These spans, gathered by the kernel.
    Gathered { front: &'s [Span], has_more: bool },
    /// A part of a file, by sendfile(2).
    File { file: &'c File, at: u64, len: usize },
}

/// The sources of the usual spans.
pub(crate) struct UsualSources<'c> {
    prefixes: &'c ResponsePrefixes,
    pool: &'c Pool,
    sites: &'c Sites,
    served_sites: &'c [Option<ServedSite>],
    now: Tick,
}

impl UsualSources<'_> {
    /// Copies an outbox to the front of `to` if it is short, known to be in memory, and sent as plain bytes. Returns the copy, or
    /// `None` if the front must be [staged](WorkerContext::stage).
    #[inline(always)]
    pub(crate) fn copy_outbox<'t, S>(
        &self,
        slot: &Slot<S>,
        limits: SendLimits,
        to: &'t mut [u8],
    ) -> Option<&'t [u8]> {
        if !slot.transport.sends_outbox(&slot.conn) || slot.conn.outbox_len() > limits.copied_len_max {
            return None;
        }
        let mut end = 0;
        for span in slot.conn.outbox() {
            let (bytes, source) = match *span {
                Span::Prefix(prefix) => (self.prefixes.bytes(prefix), None),
                Span::Site { image, at, len } => {
                    let (served, region) = (self.served_sites[image.index()].as_ref()?, Region { at, len });
                    if !served.is_known(region, self.now) {
                        return None;
                    }
                    (self.sites.image(image).bytes(region), Some(served))
                }
                Span::Buf(run) => (self.pool.bytes(run), None),
                Span::Archive { .. } | Span::File { .. } => return None,
            };
            to[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
            // Checked after the copy, as another process may truncate the file during it.
            if source.is_some_and(ServedSite::is_image_damaged) {
                return None;
            }
        }
        Some(&to[..end])
    }
}

impl WorkerContext {
    /// Returns what the usual spans are copied from, and the buffer for the copy.
    #[inline(always)]
    pub(crate) fn usual_sources(&mut self) -> (UsualSources<'_>, &mut [u8]) {
        let WorkerContext { prefixes, pool, sites, served_sites, now, copy, .. } = self;
        (UsualSources { prefixes, pool, sites, served_sites, now: *now }, copy)
    }

    /// Returns whether the bytes that a connection waits for are in memory. Asks the kernel.
    #[cold]
    pub(super) fn is_resident(&mut self, missing: MissingPage) -> bool {
        self.missing_for_page(missing).is_none()
    }

    /// Returns the range that the next exchange of a connection waits for. `None`: it is in memory.
    #[cold]
    pub(crate) fn missing_for_lookup(&mut self, conn: &Connection) -> Option<Box<MissingRange>> {
        self.missing_for_page(conn.missing_page()?)
    }

    /// Returns the range around a page that is not in memory. If the image was retired, returns `None`.
    #[cold]
    fn missing_for_page(&mut self, MissingPage { image, page }: MissingPage) -> Option<Box<MissingRange>> {
        let served = self.served_sites[image.index()].as_mut()?;
        served.missing_for_lookup(page, self.now).map(|range| Box::new(MissingRange { image, range }))
    }

    /// Decides how the front of an outbox is sent. A transport that seals has put it into a record.
    #[inline]
    pub(crate) fn stage<'s, S>(&mut self, slot: &'s Slot<S>, limits: SendLimits) -> Stage<'s, '_> {
        if let Some(record) = slot.transport.own_record() {
            return Stage::Own(record);
        }
        match slot.transport.queued() {
            Some(record) => {
                let has_more = slot.transport.has_more(&slot.conn);
                Stage::Sealed { record: self.pool.bytes(record), has_more }
            }
            None => self.stage_spans(slot.conn.outbox(), limits),
        }
    }

    /// Prepares a send: if the transport seals, seals the front of the outbox, unless a record leaves already. Returns the range that must
    /// be read first.
    #[inline]
    pub(crate) fn seal<S>(
        &mut self,
        slot: &mut Slot<S>,
        limits: SendLimits,
    ) -> Result<Option<Box<MissingRange>>, SendError> {
        match slot.transport.record_len(&slot.conn, &mut self.pool) {
            Ok(None) => Ok(None),
            Ok(Some(len)) => self.seal_front(slot, limits, len),
            Err(_) => Err(SendError),
        }
    }

    /// Seals at most `len` bytes of the outbox: content of an image that fills the record from where it lies, and all else gathered. The
    /// sources are checked after the bytes are sealed: a record of a truncated file is thrown away.
    #[inline(never)]
    fn seal_front<S>(
        &mut self,
        slot: &mut Slot<S>,
        limits: SendLimits,
        len: usize,
    ) -> Result<Option<Box<MissingRange>>, SendError> {
        let mut copy = mem::take(&mut self.copy);
        // Each byte is read here, so a descriptor saves nothing.
        let limits = SendLimits { file_len_min: u64::MAX, ..limits };
        let stage = self.stage_spans(slot.conn.outbox(), limits);
        let (record, front) = match stage {
            Stage::Missing(missing) => {
                self.copy = copy;
                return Ok(Some(missing));
            }
            Stage::Copied { front, .. } | Stage::Gathered { front, .. } => {
                let len = len as u64;
                let record = match *front {
                    [Span::Site { image, at, len: in_span }, ..] if in_span >= len => {
                        let bytes = self.sites.image(image).bytes(Region { at, len });
                        Some(slot.transport.seal(&mut self.pool, bytes))
                    }
                    [Span::Archive { image, at, len: in_span }, ..] if in_span >= len => {
                        let served = self.served_sites[image.index()].as_ref();
                        let bytes =
                            served.and_then(|served| served.site.archive().map.bytes(Region { at, len }));
                        bytes.map(|bytes| slot.transport.seal(&mut self.pool, bytes))
                    }
                    _ => {
                        let gathered = self.copy_front(front, &mut copy[..len as usize]);
                        gathered.map(|len| slot.transport.seal(&mut self.pool, &copy[..len]))
                    }
                };
                (record, front)
            }
            Stage::File { file, at, len: part_len } => {
                let read = read_at(file, at, &mut copy[..len.min(part_len)]);
                (read.map(|len| slot.transport.seal(&mut self.pool, &copy[..len])), &[][..])
            }
            Stage::Sealed { .. } | Stage::Own(_) => unreachable!("a record leaves before the next is sealed"),
        };
        self.copy = copy;
        let record = record.ok_or(SendError)?.map_err(|_| SendError)?;
        if !self.are_intact(front) {
            self.pool.release(record.discard());
            return Err(SendError);
        }
        slot.transport.queue(record);
        Ok(None)
    }

    /// Copies the first bytes of spans in memory, as far as they fit. Returns `None` if an archive was truncated.
    fn copy_front(&self, spans: &[Span], to: &mut [u8]) -> Option<usize> {
        let mut end = 0;
        for span in spans {
            let bytes = self.bytes(span)?;
            let len = bytes.len().min(to.len() - end);
            to[end..][..len].copy_from_slice(&bytes[..len]);
            end += len;
        }
        Some(end)
    }

    /// Decides how the first spans are sent: together if they are sent from memory, or else the first one alone.
    #[inline(never)]
    fn stage_spans<'s>(&mut self, spans: &'s [Span], limits: SendLimits) -> Stage<'s, '_> {
        let may_be_missing = self.any_on_disk && !self.blocks_on_disk;
        let (mut count, mut len) = (0, 0);
        for span in spans {
            let is_in_memory = self.is_in_memory(span, limits);
            if !is_in_memory && count > 0 {
                break;
            }
            if may_be_missing && let Some(missing) = self.missing_for_span(span, limits) {
                return Stage::Missing(missing);
            }
            if !is_in_memory {
                return self.stage_file(span, limits);
            }
            len += span.len();
            count += 1;
        }
        let (front, behind) = spans.split_at(count);
        let has_more = !behind.is_empty();
        match len <= limits.copied_len_of(count) {
            true => Stage::Copied { front, has_more },
            false => Stage::Gathered { front, has_more },
        }
    }

    /// Stages a span that is not sent from memory.
    fn stage_file(&self, span: &Span, limits: SendLimits) -> Stage<'static, '_> {
        let ((file, begin), at, len) = match *span {
            Span::File { image, number, at, len } => ((self.site(image).file(number), 0), at, len),
            Span::Archive { image, at, len } => (self.site(image).file_of(StoreId::Archive), at, len),
            Span::Site { image, at, len } => (self.site(image).store(), at, len),
            Span::Prefix(_) | Span::Buf(_) => unreachable!("is sent from memory"),
        };
        Stage::File { file, at: begin + at, len: len.min(limits.send_file_len_max) as usize }
    }

    /// Returns the range that must be read before a span can be sent, up to the length of one send.
    fn missing_for_span(&mut self, span: &Span, limits: SendLimits) -> Option<Box<MissingRange>> {
        let (Span::Site { image, .. } | Span::Archive { image, .. } | Span::File { image, .. }) = *span
        else {
            return None;
        };
        let served =
            self.served_sites[image.index()].as_mut().expect("a site outlives the spans that name its image");
        let range = served.missing_for_span(span, limits.send_file_len_max, self.now)?;
        Some(Box::new(MissingRange { image, range }))
    }

    /// Copies spans in memory to the front of `to`, which has room for them, and returns the copy. Returns `None` if a file behind a span
    /// was truncated: the client must see a cut response.
    pub(crate) fn copy_spans<'t>(&self, spans: &[Span], to: &'t mut [u8]) -> Option<&'t [u8]> {
        let mut end = 0;
        for span in spans {
            let bytes = self.bytes(span)?;
            to[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
        }
        // Checked after the copy, as another process may truncate the file during it.
        self.are_intact(spans).then_some(&to[..end])
    }

    /// Returns whether a span is sent from memory. Long spans, files beside an image and an archive whose map is damaged are sent from
    /// their descriptors.
    #[inline]
    fn is_in_memory(&self, span: &Span, limits: SendLimits) -> bool {
        match *span {
            Span::Prefix(_) | Span::Buf(_) => true,
            Span::Site { len, .. } => len < limits.file_len_min,
            Span::Archive { len, .. } => len < limits.file_len_min && self.is_intact(span),
            Span::File { .. } => false,
        }
    }

    /// Returns the bytes of a span in memory. Copy them at once, then check [`are_intact`](WorkerContext::are_intact) before the copy
    /// is sent. Returns `None` if the archive does not have the bytes.
    fn bytes(&self, span: &Span) -> Option<&[u8]> {
        match *span {
            Span::Prefix(prefix) => Some(self.prefixes.bytes(prefix)),
            Span::Site { image, at, len } => Some(self.sites.image(image).bytes(Region { at, len })),
            Span::Buf(run) => Some(self.pool.bytes(run)),
            Span::Archive { image, at, len } => self.site(image).archive().map.bytes(Region { at, len }),
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
            _ => self.bytes(span).unwrap_or_default(),
        }
    }

    /// Returns whether the bytes of all spans came from intact files.
    fn are_intact(&self, spans: &[Span]) -> bool {
        spans.iter().all(|span| self.is_intact(span))
    }

    /// Returns whether the bytes of a span came from an intact file. A truncated archive reads as zeros.
    #[inline(always)]
    fn is_intact(&self, span: &Span) -> bool {
        match *span {
            Span::Archive { image, .. } => !self.site(image).archive().map.is_damaged(),
            Span::Site { image, .. } => !self.served(image).is_image_damaged(),
            _ => true,
        }
    }
}

/// Reads a part of a file, which is in memory. Returns `None` if the file was truncated or cannot be read.
fn read_at(file: &File, at: u64, to: &mut [u8]) -> Option<usize> {
    let mut end = 0;
    while end < to.len() {
        match retry_on_intr(|| pread(file, &mut to[end..], at + end as u64)) {
            Ok(0) | Err(_) => return None,
            Ok(len) => end += len,
        }
    }
    Some(end)
}
