//! Records and counters of exchanges on streams.
//!
//! An exchange ends when the last byte of its response has left. Responses end in the outbox in another order than they begin, so each end is
//! noted when it is queued.

use super::begin::NewExchange;
use super::{Http2, stream::H2Exchange};
use crate::{
    ConnResources,
    bounded_writer::BoundedWriter,
    open_exchanges::NO_PLACE,
    record::{ExchangeEnd, ExchangeStart, HEADS_LEN_MAX, LINE_LEN_MAX, RecordedRequest},
    request::Client,
    sites::SiteId,
    span::Outbox,
};
use tarpon_http::{fields::Fields, h2::H2Request, head::Version, status::Status};

/// A response of which all is in the outbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedEnd {
    /// Where it ends in the bytes of the connection.
    end: u64,
    exchange: H2Exchange,
}

/// The parts of a request that its record has.
#[derive(Clone, Copy)]
pub(super) struct RecordedParts<'a> {
    pub(super) method: &'a [u8],
    pub(super) target: [&'a [u8]; 2],
    pub(super) authority: &'a [u8],
    pub(super) fields: Option<&'a Fields<'a>>,
}

impl<'a> RecordedParts<'a> {
    /// Nothing is known: the request is malformed.
    pub(super) const NONE: RecordedParts<'static> =
        RecordedParts { method: b"", target: [b"", b""], authority: b"", fields: None };

    /// Returns the parts of a request. `bytes`: those that its parts lie in.
    pub(super) fn of(request: &'a H2Request<'a>, bytes: &'a [u8]) -> RecordedParts<'a> {
        use tarpon_http::target::Target;
        let target = match request.target {
            Ok(Target::Origin { path, query: None }) => [path, &[][..]],
            Ok(Target::Origin { path, query: Some(query) }) => {
                // With its `?`.
                let at = query.as_ptr().addr() - bytes.as_ptr().addr();
                [path, &bytes[at - 1..][..query.len() + 1]]
            }
            Ok(Target::Asterisk) => [&b"*"[..], &[][..]],
            Ok(Target::Authority(_) | Target::Absolute { .. }) => [request.authority, &[][..]],
            Err(_) => [&[][..]; 2],
        };
        RecordedParts {
            method: request.method_token,
            target,
            authority: request.authority,
            fields: Some(&request.fields),
        }
    }
}

impl Http2 {
    /// Starts the record of an exchange whose response is about to be queued.
    #[cold]
    pub(super) fn start_record(
        &self,
        cx: &mut ConnResources<'_>,
        parts: &RecordedParts<'_>,
        client: Client,
        site: SiteId,
        status: Option<Status>,
        is_logged: bool,
    ) {
        if client.is_malformed {
            cx.counters.client_malformed.add(1);
        }
        let mut line = [0; LINE_LEN_MAX + 1];
        let line_len = write_line(parts, &mut line);
        let mut head = [0; HEADS_LEN_MAX + 1];
        let head_len =
            if cx.records.has_heads() { write_head(parts, &line[..line_len], &mut head) } else { 0 };
        let start = ExchangeStart {
            connection: self.finder.accepted().number,
            client: client.address,
            tls: self.tls,
            site,
            now_us: cx.now_us,
            span_index: 0,
            status,
            is_logged,
            is_protected: client.password.is_some(),
        };
        let request = RecordedRequest {
            version: Some(Version::Http2),
            line: &line[..line_len],
            host: parts.authority,
            fields: parts.fields,
            head: &head[..head_len],
        };
        cx.records.start_record_of(start, &request);
    }

    /// Records an exchange whose response is not known. Returns its place.
    #[cold]
    pub(super) fn record_unanswered(&self, cx: &mut ConnResources<'_>, new: &NewExchange<'_>) -> u32 {
        if !cx.records.is_on() {
            return NO_PLACE;
        }
        self.start_record(cx, new.parts, new.request.client, new.site, None, true);
        let place = cx.records.finish_record(Status::Ok, 0).unwrap_or(NO_PLACE);
        if place != NO_PLACE {
            cx.records.open_exchange(place).content_len = 0;
        }
        place
    }

    /// Finishes the start record of a response whose head was queued, and counts it.
    #[inline]
    pub(super) fn responded(
        &mut self,
        cx: &mut ConnResources<'_>,
        exchange: &mut H2Exchange,
        status: Status,
        content_len: u64,
    ) {
        cx.counters.responded(status, Some(Version::Http2), Some(exchange.site.index()));
        if cx.records.is_pending() {
            exchange.recorded_at = cx.records.finish_record(status, content_len).unwrap_or(NO_PLACE);
        }
    }

    /// Notes that all of a response is queued.
    #[inline]
    pub(super) fn response_queued(&mut self, out: &Outbox, exchange: H2Exchange) {
        let end = self.sent_len + out.len() + self.output.pending_len();
        self.endings.push_back(QueuedEnd { end, exchange });
    }

    /// Ends the exchanges whose responses have been sent.
    #[inline]
    pub(super) fn end_sent(&mut self, cx: &mut ConnResources<'_>) {
        while let Some(&QueuedEnd { end, exchange }) = self.endings.front()
            && end <= self.sent_len
        {
            self.endings.pop_front();
            cx.counters.completed(1, cx.now_us.saturating_sub(exchange.begun_us));
            self.resets.earn(1);
            end_record(cx, exchange, exchange.content_len, true);
        }
    }

    /// Ends an exchange whose response is not complete.
    #[cold]
    pub(super) fn abort_exchange(&mut self, cx: &mut ConnResources<'_>, exchange: H2Exchange) {
        cx.counters.aborted.add(1);
        end_record(cx, exchange, exchange.content_len, false);
    }

    /// Ends the exchanges whose responses are in the outbox of a connection that has closed. The outbox is sent in order.
    #[cold]
    pub(super) fn abort_endings(&mut self, cx: &mut ConnResources<'_>) {
        while let Some(QueuedEnd { end, exchange }) = self.endings.pop_front() {
            let sent_len = exchange.content_len.saturating_sub(end.saturating_sub(self.sent_len));
            cx.counters.aborted.add(1);
            end_record(cx, exchange, sent_len, false);
        }
    }
}

#[inline]
fn end_record(cx: &mut ConnResources<'_>, exchange: H2Exchange, content_len: u64, is_complete: bool) {
    if exchange.recorded_at != NO_PLACE {
        cx.records
            .record_end(exchange.recorded_at, ExchangeEnd { now_us: cx.now_us, content_len, is_complete });
    }
}

/// Writes the request line that HTTP/1 would have, as far as it fits.
fn write_line(parts: &RecordedParts<'_>, to: &mut [u8]) -> usize {
    let len_max = to.len();
    let mut writer = BoundedWriter::new(to);
    let mut write = || {
        if parts.method.is_empty() {
            return Some(());
        }
        writer.put(parts.method)?;
        writer.put(b" ")?;
        writer.put(parts.target[0])?;
        writer.put(parts.target[1])?;
        writer.put(b" HTTP/2.0")
    };
    match write() {
        Some(()) => writer.len(),
        // Cut where it does not fit.
        None => {
            let len = writer.len();
            let rest = parts.target.concat();
            let room = len_max - len;
            let begun = len.saturating_sub(parts.method.len() + 1).min(rest.len());
            let cut = &rest[begun..][..room.min(rest.len() - begun)];
            writer.put(cut);
            writer.len()
        }
    }
}

/// Writes the head as text, as far as whole lines fit.
fn write_head(parts: &RecordedParts<'_>, line: &[u8], to: &mut [u8]) -> usize {
    let mut writer = BoundedWriter::new(to);
    let mut write = || {
        writer.put(line)?;
        writer.put(b"\r\nhost: ")?;
        writer.put(parts.authority)?;
        writer.put(b"\r\n")?;
        for (name, value) in parts.fields.into_iter().flat_map(Fields::iter) {
            [name, b": ", value, b"\r\n"].into_iter().try_for_each(|part| writer.put(part))?;
        }
        writer.put(b"\r\n")
    };
    let _ = write();
    writer.len()
}
