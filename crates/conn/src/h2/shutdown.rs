//! The end of a connection. RFC 9113, section 6.8.
//!
//! ```text
//! the server stops ─▶ GOAWAY for all streams, PING ─ its acknowledgement ─▶ GOAWAY with the last stream ─ streams end ─┐
//! an error, a time-out ─────────────────────────────▶ GOAWAY with a code ──────────────────────────────────────────────┴▶ Lingering ─▶ Closed
//! ```
//!
//! The acknowledgement shows that the client knows: no request that it has sent before is lost.

use super::{Http2, Http2Phase, stream::Body};
use crate::{ConnResources, passwords::PasswordCheck, span::Outbox};
use tarpon_http::h2::{ErrorCode, FrameFlags, FrameHeader, FrameType, MAX_31_BITS, go_away};

/// How far the end is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    No,
    /// The client knows that the connection ends, and may not know since when.
    Announced,
    /// Later streams are not answered.
    Last {
        stream: u32,
    },
}

/// The data of the PING after the first GOAWAY.
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"shutdown";

/// How long a closing connection waits for a silent client, in milliseconds: a long round trip.
pub(super) const LINGER_MS: u64 = 2_000;

impl Http2 {
    /// Announces that the connection ends, because another server takes over.
    pub(crate) fn drain(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.announce_shutdown();
        self.send(cx, out);
    }

    /// Finishes the streams that the client has begun, because the server stops.
    pub(crate) fn stop(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.announce_shutdown();
        // A client that does not answer has no stream.
        self.idle_by = self.idle_by.min(cx.now.after(LINGER_MS));
        self.send(cx, out);
    }

    /// Ends the connection: its transport has failed, and sends what it has queued.
    #[cold]
    pub(crate) fn refuse_transport(&mut self, cx: &mut ConnResources<'_>, out: &Outbox) {
        self.abort_streams(cx);
        match out.is_empty() {
            true => self.linger(cx),
            false => self.abort(),
        }
    }

    /// Returns whether the connection takes no more requests soon.
    pub(super) fn is_stopping(&self) -> bool {
        self.shutdown != Shutdown::No
    }

    /// Queues the first GOAWAY.
    pub(crate) fn announce_shutdown(&mut self) {
        let is_open = matches!(self.phase, Http2Phase::Preface | Http2Phase::Settings | Http2Phase::Open);
        if self.shutdown == Shutdown::No && is_open {
            self.shutdown = Shutdown::Announced;
            self.replies.extend_from_slice(&go_away(MAX_31_BITS, ErrorCode::NO_ERROR));
            let header = FrameHeader::new(FrameType::Ping, FrameFlags::NONE, 0, SHUTDOWN_PING.len() as u32);
            self.replies.extend_from_slice(&header.encode());
            self.replies.extend_from_slice(&SHUTDOWN_PING);
        }
    }

    /// Queues the last GOAWAY. Streams up to `last_stream` are still answered.
    pub(super) fn announce_last(&mut self, last_stream: u32, code: ErrorCode) {
        if !matches!(self.shutdown, Shutdown::Last { .. }) {
            self.shutdown = Shutdown::Last { stream: last_stream };
            self.replies.extend_from_slice(&go_away(last_stream, code));
        }
    }

    /// Ends the connection because of an error of the client. The outbox is still sent.
    #[cold]
    pub(super) fn fail(&mut self, cx: &mut ConnResources<'_>, code: ErrorCode) {
        self.abort_streams(cx);
        // The client learns of an error even after another GOAWAY, which must not name a lower stream.
        let stream = match self.shutdown {
            Shutdown::Last { stream } => stream,
            Shutdown::No | Shutdown::Announced => self.last_stream,
        };
        self.shutdown = Shutdown::Last { stream };
        self.replies.extend_from_slice(&go_away(stream, code));
        self.phase = Http2Phase::LastFrame;
        (self.is_blocked, self.missing) = (false, None);
        self.password_check = PasswordCheck::default();
        (self.receive_by, self.upload_by) = (None, None);
    }

    /// Ends the connection because the client is idle or too slow to send.
    #[cold]
    pub(crate) fn time_out(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if !out.is_empty() || self.phase == Http2Phase::LastFrame {
            return self.time_out_output(cx, out);
        }
        match self.phase {
            Http2Phase::Lingering { .. } | Http2Phase::Closed => self.abort(),
            _ => {
                self.fail(cx, ErrorCode::NO_ERROR);
                self.send(cx, out);
            }
        }
    }

    /// Ends the connection because the client does not receive.
    #[cold]
    pub(super) fn time_out_output(&mut self, cx: &mut ConnResources<'_>, _out: &Outbox) {
        self.abort_streams(cx);
        self.abort();
    }

    /// Waits until the client closes too.
    #[cold]
    pub(super) fn linger(&mut self, cx: &ConnResources<'_>) {
        self.phase = Http2Phase::Lingering { by: cx.now.after(LINGER_MS) };
    }

    /// Closes the connection. Pending output is not sent.
    #[cold]
    pub(crate) fn abort(&mut self) {
        self.phase = Http2Phase::Closed;
    }

    /// Ends all streams.
    #[cold]
    fn abort_streams(&mut self, cx: &mut ConnResources<'_>) {
        let streams: Vec<_> = self.streams.drain().collect();
        for mut stream in streams {
            if !matches!(stream.body, Body::Complete) {
                self.abort_exchange(cx, stream.exchange);
            }
            stream.body.release(cx);
        }
    }

    /// Releases all resources after the connection has closed.
    pub(crate) fn closed(&mut self, cx: &mut ConnResources<'_>) {
        self.abort_streams(cx);
        self.abort_endings(cx);
        self.output.release(cx.pool);
        if let Some(block) = self.block.take() {
            cx.sections.put_back(block.decoded);
        }
        self.phase = Http2Phase::Closed;
    }
}
