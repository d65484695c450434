//! The frames of the client, and what each changes. RFC 9113, section 6.

use super::{
    EARLY_PRIORITY_COUNT_MAX, Http2, Http2Phase, RETURNED_LEN_MIN, UPLOAD_HELD_MAX,
    frame_output::NoFrameBuffer,
    shutdown::{SHUTDOWN_PING, Shutdown},
    stream::{Body, Upload},
};
use crate::{BufRange, ConnResources, span::Outbox};
use tarpon_http::h2::{
    CONNECTION, ErrorCode, ErrorScope, FRAME_HEADER_LEN, Frame, FrameFlags, FrameHeader, FrameParts,
    FrameType, MAX_31_BITS, PREFACE_LEN, PrefaceCheck, Priority, SETTINGS_ACK, SettingName, SettingsPayload,
    check_preface, ping_ack, rst_stream, window_update,
};
use tarpon_http::{fields::Fields, status::Status};

impl Http2 {
    /// Reads the preface. Returns its length, or 0 if it is incomplete.
    pub(super) fn read_preface(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> usize {
        match check_preface(cx.pool.bytes(input)) {
            PrefaceCheck::Incomplete => 0,
            PrefaceCheck::Complete => {
                self.phase = Http2Phase::Settings;
                // The settings of this side come first: RFC 9113, section 3.4.
                if self.put_replies(cx, out).is_err() {
                    self.abort();
                }
                PREFACE_LEN
            }
            PrefaceCheck::Mismatch => {
                self.fail(cx, ErrorCode::PROTOCOL_ERROR);
                input.len as usize
            }
        }
    }

    /// Reads the frame at the front of `input`. Returns its length, or 0 if it is incomplete, or waits.
    #[inline]
    pub(super) fn read_frame(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> usize {
        if self.missing.is_some() || self.password_check.waits() {
            return 0;
        }
        if !self.has_room(cx, out) {
            (self.is_blocked, self.input_is_next) = (true, true);
            return 0;
        }
        let Some(header) = FrameHeader::decode(cx.pool.bytes(input)) else { return 0 };
        match self.handle_frame(cx, out, &header, input) {
            Ok(used) => used,
            Err(code) => {
                self.fail(cx, code);
                input.len as usize
            }
        }
    }

    /// Handles the frame at the front of `input`. An error ends the connection.
    #[inline]
    fn handle_frame(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        header: &FrameHeader,
        input: BufRange,
    ) -> Result<usize, ErrorCode> {
        let frame_type = FrameType::from_number(header.type_number);
        let awaits_continuation = self.block.as_ref().is_some_and(|block| block.awaits_more());
        if awaits_continuation && frame_type != Some(FrameType::Continuation) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let is_settings = frame_type == Some(FrameType::Settings) && !header.flags.has(FrameFlags::ACK);
        if self.phase == Http2Phase::Settings && !is_settings {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        if let Err(error) = header.check()
            && error.scope() == ErrorScope::Connection
        {
            return Err(error.code());
        }
        let len = FRAME_HEADER_LEN + header.len as usize;
        if (input.len as usize) < len {
            return Ok(0);
        }
        let payload = BufRange { len: header.len, ..input.skip(FRAME_HEADER_LEN) };
        let is_used = match frame_type {
            Some(FrameType::Headers) => {
                let bytes = cx.pool.bytes(payload);
                let parts = FrameParts::decode(header, bytes).map_err(|error| error.code())?;
                let parts = parts.ok_or(ErrorCode::FRAME_SIZE_ERROR)?;
                if header.flags.has(FrameFlags::PRIORITY) && depends_on_itself(header, bytes, parts) {
                    self.last_stream = self.last_stream.max(header.stream);
                    return Err(ErrorCode::PROTOCOL_ERROR);
                }
                let block =
                    BufRange { len: parts.content_len.into(), ..payload.skip(parts.prefix_len.into()) };
                self.headers(cx, out, header, block)?
            }
            Some(FrameType::Continuation) => self.continuation(cx, out, header, payload)?,
            Some(FrameType::Data) => {
                self.data(cx, out, header, payload)?;
                true
            }
            _ => {
                self.handle_other(cx, header, payload)?;
                if is_settings {
                    // Nothing that depends on the settings leaves before: RFC 9113, section 6.5.3.
                    self.put_replies(cx, out).map_err(|NoFrameBuffer| ErrorCode::INTERNAL_ERROR)?;
                }
                true
            }
        };
        Ok(if is_used { len } else { 0 })
    }

    /// Handles a frame that begins no exchange.
    fn handle_other(
        &mut self,
        cx: &mut ConnResources<'_>,
        header: &FrameHeader,
        payload: BufRange,
    ) -> Result<(), ErrorCode> {
        let stream = header.stream;
        let is_idle = stream > self.last_stream || stream.is_multiple_of(2) && stream != CONNECTION;
        let frame = match Frame::parse(header, cx.pool.bytes(payload)) {
            Ok(frame) => frame,
            Err(error) if error.scope() == ErrorScope::Connection => return Err(error.code()),
            Err(error) => {
                if is_idle && header.type_number != FrameType::Priority as u8 {
                    return Err(ErrorCode::PROTOCOL_ERROR);
                }
                self.spend(cx)?;
                self.reset_stream(cx, stream, error.code());
                return Ok(());
            }
        };
        match frame {
            Frame::RstStream(_) | Frame::WindowUpdate(_) if is_idle => return Err(ErrorCode::PROTOCOL_ERROR),
            Frame::RstStream(_) => {
                self.spend(cx)?;
                return self.client_reset(cx, stream);
            }
            Frame::Settings(settings) => {
                // Copied by value: the payload lies in the pool.
                self.apply_settings(settings)?;
                self.settings.spend(cx.now).map_err(|_| count_flood(cx))?;
                self.replies.extend_from_slice(&SETTINGS_ACK);
                self.phase = Http2Phase::Open;
            }
            Frame::Ping(data) => {
                self.spend(cx)?;
                self.replies.extend_from_slice(&ping_ack(data));
            }
            Frame::PingAck(data) => {
                if data == SHUTDOWN_PING && self.shutdown == Shutdown::Announced {
                    self.announce_last(self.last_stream, ErrorCode::NO_ERROR);
                }
                self.spend(cx)?;
            }
            Frame::WindowUpdate(increment) => {
                self.spend(cx)?;
                return self.widen(cx, stream, increment);
            }
            Frame::PriorityUpdate { stream, priority } => {
                self.spend(cx)?;
                self.prioritize(stream, priority);
            }
            Frame::Priority if depends_on_itself_alone(stream, cx.pool.bytes(payload)) => {
                self.spend(cx)?;
                self.reset_stream(cx, stream, ErrorCode::PROTOCOL_ERROR);
            }
            Frame::Priority | Frame::SettingsAck | Frame::GoAway { .. } | Frame::Unknown => self.spend(cx)?,
            Frame::Data { .. } | Frame::Headers { .. } | Frame::Continuation { .. } => {
                unreachable!("they are no other frames")
            }
        }
        Ok(())
    }

    /// Counts a frame that carries nothing.
    #[inline]
    fn spend(&mut self, cx: &ConnResources<'_>) -> Result<(), ErrorCode> {
        self.overhead.spend(cx.now).map_err(|_| count_flood(cx))
    }

    /// Handles content of a request.
    fn data(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        header: &FrameHeader,
        payload: BufRange,
    ) -> Result<(), ErrorCode> {
        let (stream, len) = (header.stream, header.len as i32);
        if stream > self.last_stream || stream.is_multiple_of(2) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        let ends_stream = header.flags.has(FrameFlags::END_STREAM);
        let parts = match FrameParts::decode(header, cx.pool.bytes(payload)) {
            Ok(parts) => parts.ok_or(ErrorCode::FRAME_SIZE_ERROR)?,
            Err(error) if error.scope() == ErrorScope::Connection => return Err(error.code()),
            Err(error) => {
                self.spend(cx)?;
                self.reset_stream(cx, stream, error.code());
                return Ok(());
            }
        };
        let content = BufRange { len: parts.content_len.into(), ..payload.skip(parts.prefix_len.into()) };
        if !self.count_data(cx, out, stream, len, content.len)? {
            return Ok(());
        }
        let Some(index) = self.streams.find(stream) else { return Ok(()) };
        match &mut self.streams.at(index).upload {
            Upload::Piped(_) | Upload::Tunnel { .. } => self.forward(cx, out, stream, content),
            Upload::Collected(collected) => {
                if collected.add(cx.pool.bytes(content)).is_err() {
                    self.end_collecting(cx, out, stream, Status::ServiceUnavailable);
                }
            }
            Upload::Dropped { .. } | Upload::Complete => {}
        }
        if ends_stream {
            self.end_upload(cx, out, stream, None);
        }
        Ok(())
    }

    /// Counts content of a request, and returns windows. Returns whether the stream takes it.
    fn count_data(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        len: i32,
        content_len: u32,
    ) -> Result<bool, ErrorCode> {
        self.receive_window -= len;
        if self.receive_window < 0 {
            return Err(ErrorCode::FLOW_CONTROL_ERROR);
        }
        match content_len {
            0 => self.spend(cx)?,
            _ => self.overhead.earn(1),
        }
        self.returned_len += len;
        let Some(index) = self.streams.find(stream) else {
            if self.streams.ended(stream) != Some(true) {
                self.reset_stream(cx, stream, ErrorCode::STREAM_CLOSED);
            }
            return Ok(false);
        };
        let stream_of = self.streams.at(index);
        let (window, unreturned, received, length, len_max, is_taken_at_once) = match &mut stream_of.upload {
            Upload::Complete => {
                self.reset_stream(cx, stream, ErrorCode::STREAM_CLOSED);
                return Ok(false);
            }
            Upload::Dropped { length, received, window, unreturned } => {
                *received += u64::from(content_len);
                (window, unreturned, *received, *length, u64::MAX, true)
            }
            Upload::Piped(piped) => {
                piped.received += u64::from(content_len);
                (&mut piped.window, &mut piped.unreturned, piped.received, piped.length, piped.len_max, false)
            }
            Upload::Tunnel { window, unreturned } => (window, unreturned, 0, None, u64::MAX, false),
            Upload::Collected(collected) => {
                collected.received += u64::from(content_len);
                let (received, length, len_max) = (collected.received, collected.length, collected.len_max());
                (&mut collected.window, &mut collected.unreturned, received, length, len_max, true)
            }
        };
        *window -= len;
        *unreturned += len;
        let mut error = None;
        if *window < 0 {
            error = Some(ErrorCode::FLOW_CONTROL_ERROR);
        } else if length.is_some_and(|length| received > length) {
            error = Some(ErrorCode::PROTOCOL_ERROR);
        }
        let is_too_long = received > len_max;
        if is_taken_at_once && error.is_none() && !is_too_long && *unreturned >= RETURNED_LEN_MIN {
            let increment = std::mem::take(unreturned);
            *window += increment;
            self.replies.extend_from_slice(&window_update(stream, increment as u32));
        }
        match error {
            Some(code) => self.reset_stream(cx, stream, code),
            None if is_too_long => self.refuse_long(cx, out, stream),
            None => return Ok(true),
        }
        Ok(false)
    }

    /// Refuses a request whose content is too long. The rest is dropped.
    #[cold]
    fn refuse_long(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        match &self.streams.at(index).upload {
            Upload::Piped(_) => self.end_piped_with(cx, out, id, Status::ContentTooLarge),
            Upload::Collected(_) => self.end_collecting(cx, out, id, Status::ContentTooLarge),
            Upload::Dropped { .. } | Upload::Tunnel { .. } | Upload::Complete => {}
        }
    }

    /// Handles the end of a request with content.
    pub(super) fn end_upload(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        trailers: Option<&Fields<'_>>,
    ) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        let (length, received) = match &stream.upload {
            Upload::Complete => return,
            Upload::Dropped { length, received, .. } => (*length, *received),
            Upload::Piped(piped) => (piped.length, piped.received),
            Upload::Tunnel { .. } => (None, 0),
            Upload::Collected(collected) => (collected.length, collected.received),
        };
        if length.is_some_and(|length| length != received) {
            return self.reset_stream(cx, id, ErrorCode::PROTOCOL_ERROR);
        }
        match &stream.upload {
            Upload::Piped(_) => self.end_piped_upload(cx, id, trailers),
            Upload::Tunnel { .. } => self.end_tunnel_upload(cx, id),
            Upload::Collected(_) => self.call_collected(cx, out, id),
            Upload::Dropped { .. } | Upload::Complete => {
                stream.upload = Upload::Complete;
                if stream.is_complete() {
                    self.streams.remove(index, false);
                    self.stream_ended(cx);
                }
            }
        }
    }

    /// Ends the content of a request that is not wanted, if its response is complete. RFC 9113, section 8.1.
    pub(super) fn reset_upload(&mut self, cx: &mut ConnResources<'_>, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        if matches!(self.streams.at(index).body, Body::Complete) {
            self.reset_stream(cx, id, ErrorCode::NO_ERROR);
        }
    }

    /// Handles the end of a stream by the client.
    fn client_reset(&mut self, cx: &mut ConnResources<'_>, id: u32) -> Result<(), ErrorCode> {
        let Some(index) = self.streams.find(id) else {
            // Its response is in the outbox, or has left.
            return Ok(());
        };
        let mut stream = self.streams.remove(index, false);
        cx.counters.http2_resets.add(1);
        if !matches!(stream.body, Body::Complete) {
            self.abort_exchange(cx, stream.exchange);
        }
        stream.body.release(cx);
        self.stream_ended(cx);
        self.resets.spend(cx.now).map_err(|_| count_flood(cx))
    }

    /// Ends a stream with an error. Errors that the client causes are counted like its own resets: CVE-2025-8671.
    pub(super) fn reset_stream(&mut self, cx: &mut ConnResources<'_>, id: u32, code: ErrorCode) {
        self.replies.extend_from_slice(&rst_stream(id, code));
        match self.streams.find(id) {
            None => self.streams.note_ended(id, true),
            Some(index) => {
                let mut stream = self.streams.remove(index, true);
                if !matches!(stream.body, Body::Complete) {
                    self.abort_exchange(cx, stream.exchange);
                }
                stream.body.release(cx);
                self.stream_ended(cx);
                if is_of_client(code) && self.resets.spend(cx.now).is_err() {
                    let error = count_flood(cx);
                    self.fail(cx, error);
                }
            }
        }
    }

    /// Returns the window of the connection for content that has arrived.
    pub(super) fn return_connection_window(&mut self) {
        if self.returned_len >= RETURNED_LEN_MIN && self.streams.unreturned_len() < UPLOAD_HELD_MAX {
            self.replies.extend_from_slice(&window_update(CONNECTION, self.returned_len as u32));
            self.receive_window += self.returned_len;
            self.returned_len = 0;
        }
    }

    /// Drops the rest of a request's content. The client gets its window back: it may send the rest, and look at the response then.
    pub(super) fn drop_upload(&mut self, cx: &mut ConnResources<'_>, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        let upload = &mut self.streams.at(index).upload;
        let Some(dropped) = upload.dropped() else { return };
        *upload = dropped;
        if let Upload::Dropped { window, unreturned: unreturned @ 1.., .. } = upload {
            self.replies.extend_from_slice(&window_update(id, *unreturned as u32));
            *window += std::mem::take(unreturned);
        }
        self.await_upload(cx.now.after(self.limits(cx).content_ms));
    }

    /// Notes that a stream has ended.
    pub(super) fn stream_ended(&mut self, cx: &ConnResources<'_>) {
        self.idle_by = cx.now.after(self.limits(cx).idle_ms);
        if self.streams.iter().all(|stream| stream.upload.is_complete()) {
            self.upload_by = None;
        }
    }

    /// Applies the settings of the client. RFC 9113, section 6.5.2.
    fn apply_settings(&mut self, settings: SettingsPayload<'_>) -> Result<(), ErrorCode> {
        for setting in settings.iter() {
            match setting.name {
                SettingName::InitialWindowSize => {
                    let window = setting.value as i32;
                    let change = window - self.initial_window;
                    self.initial_window = window;
                    for stream in self.streams.iter_mut() {
                        stream.window =
                            stream.window.checked_add(change).ok_or(ErrorCode::FLOW_CONTROL_ERROR)?;
                    }
                }
                SettingName::MaxFrameSize => self.payload_len_max = setting.value,
                SettingName::HeaderTableSize => self.encoder().limit_size(setting.value),
                SettingName::EnablePush
                | SettingName::MaxConcurrentStreams
                | SettingName::MaxHeaderListSize
                | SettingName::EnableConnectProtocol
                | SettingName::NoRfc7540Priorities => {}
            }
        }
        Ok(())
    }

    /// Adds to a window. RFC 9113, section 6.9.1.
    fn widen(&mut self, cx: &mut ConnResources<'_>, id: u32, increment: u32) -> Result<(), ErrorCode> {
        let increment = (increment & MAX_31_BITS) as i32;
        if id == CONNECTION {
            let window = self.send_window.checked_add(increment);
            self.send_window = window.ok_or(ErrorCode::FLOW_CONTROL_ERROR)?;
            return Ok(());
        }
        // The client may not know yet that the stream has ended.
        let Some(index) = self.streams.find(id) else { return Ok(()) };
        let stream = self.streams.at(index);
        match stream.window.checked_add(increment) {
            Some(window) => stream.window = window,
            None => self.reset_stream(cx, id, ErrorCode::FLOW_CONTROL_ERROR),
        }
        Ok(())
    }

    /// Sets the priority of a stream, which may not be open yet. RFC 9218, section 7.1.
    fn prioritize(&mut self, id: u32, priority: Priority) {
        if let Some(index) = self.streams.find(id) {
            self.streams.at(index).priority = priority;
        } else if id > self.last_stream {
            self.early_priorities.retain(|(other, _)| *other != id);
            if self.early_priorities.len() == EARLY_PRIORITY_COUNT_MAX {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((id, priority));
        }
    }
}

/// Counts a flood, which ends the connection with this error.
#[cold]
pub(super) fn count_flood(cx: &ConnResources<'_>) -> ErrorCode {
    cx.counters.http2_floods.add(1);
    ErrorCode::ENHANCE_YOUR_CALM
}

/// Returns whether an error of a stream is of the client.
fn is_of_client(code: ErrorCode) -> bool {
    [
        ErrorCode::PROTOCOL_ERROR,
        ErrorCode::FLOW_CONTROL_ERROR,
        ErrorCode::STREAM_CLOSED,
        ErrorCode::FRAME_SIZE_ERROR,
    ]
    .contains(&code)
}

/// Returns whether the priority of RFC 7540 in HEADERS makes a stream depend on itself. Priorities have no effect, but that is an error: RFC 7540,
/// section 5.3.1.
#[cold]
fn depends_on_itself(header: &FrameHeader, payload: &[u8], parts: FrameParts) -> bool {
    let at = usize::from(parts.prefix_len) - PRIORITY_LEN;
    depends_on_itself_alone(header.stream, &payload[at..])
}

/// Returns whether a priority of RFC 7540 makes a stream depend on itself.
#[cold]
fn depends_on_itself_alone(stream: u32, priority: &[u8]) -> bool {
    let on = priority.first_chunk().map(|word| u32::from_be_bytes(*word) & MAX_31_BITS);
    on == Some(stream)
}

/// The length of a priority of RFC 7540.
const PRIORITY_LEN: usize = 5;
