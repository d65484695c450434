//! HTTP/2 on one connection. RFC 9113.
//!
//! ```text
//! input ─ frames ─┬─ HEADERS, CONTINUATION ─ decode ─▶ Request ─ route, plan ─▶ HEADERS of the response ─▶ outbox
//!                 │                                                          └▶ content, in its stream
//!                 ├─ WINDOW_UPDATE, SETTINGS, PRIORITY_UPDATE ─▶ windows and priorities
//!                 └─ SETTINGS, PING ─▶ frames in reply                                    │
//! outbox ◀─ frames in reply, then DATA of the most urgent stream with a window ◀──────────┘
//! ```
//!
//! The head of a response is queued at once, from its packed block. Content is queued late, a frame at a time, while the outbox
//! holds less than 64 KiB: so priorities count, and the windows of the client bound the outbox.
//!
//! While replies wait that the client does not read, no input is taken: it cannot make the connection hold more than its budget.
//!
//! | file | what |
//! |---|---|
//! | `frames` | the frames of the client, and what each changes |
//! | `field_block` | field blocks, from one frame or several |
//! | `begin` | begins an exchange: request, route, plan, head |
//! | `head` | writes the head of a response, and finds its content |
//! | `piped` | an exchange with a backend |
//! | `tunnel` | an exchange that becomes a tunnel: WebSocket |
//! | `function` | an exchange with a function that the worker calls |
//! | `send` | queues content and replies |
//! | `shutdown` | the end of the connection |
//! | `stream` | the streams, and which is next |
//! | `frame_output` | writes frames to the outbox |
//! | `flood_budget` | bounds frames that carry nothing |
//! | `section_buffer` | the buffer for decoded fields |
//! | `h2_records` | records and counters of exchanges |

mod begin;
mod field_block;
mod flood_budget;
mod frame_output;
mod frames;
mod function;
mod h2_records;
mod head;
mod piped;
mod section_buffer;
mod send;
mod shutdown;
mod stream;
mod tunnel;

pub use section_buffer::SectionBuffer;

use crate::{
    BufRange, Close, ConnResources, Input, Limits, Need, Pipes, Tick, TlsSession,
    client_finder::ClientFinder,
    passwords::{PasswordCheck, PasswordJob},
    sites::{MissingPage, SiteId},
    span::Outbox,
};
use field_block::OpenBlock;
use flood_budget::FloodBudget;
use frame_output::FrameOutput;
use h2_records::QueuedEnd;
use shutdown::Shutdown;
use std::collections::VecDeque;
use stream::{H2Stream, H2Streams, Upload};
use tarpon_http::h2::{
    ErrorCode, Priority, Setting, SettingName,
    hpack::{HpackDecoder, HpackEncoder},
    write_settings,
};
use tarpon_http::status::Status;

/// The maximum number of streams that are open at a time, sent as `SETTINGS_MAX_CONCURRENT_STREAMS`: what browsers and RFC 9113, section
/// 6.5.2, expect at least is 100. A stream takes a few hundred bytes.
pub(crate) const STREAM_COUNT_MAX: u32 = 128;

/// The length of replies that wait, in bytes, with which no input is taken: some 300 acknowledgements.
const REPLIES_LEN_MAX: usize = 4 * 1024;

/// The number of frames that carry nothing which a client may send ahead, and each second: browsers send a few for each response. Small frames of a
/// tunnel are answered with two windows each, and more than a thousand may be on their way.
const OVERHEAD_COUNT_MAX: u32 = 4_000;
const OVERHEAD_COUNT_PER_S: u32 = 100;

/// The number of settings that a client may send ahead, and each second: clients send them once, and some again when a window is to grow.
/// CVE-2019-9515.
const SETTINGS_COUNT_MAX: u32 = 200;
const SETTINGS_COUNT_PER_S: u32 = 10;

/// The number of exchanges that a client may cancel ahead, and each second; each complete one allows another. A page that is left cancels at most
/// [`STREAM_COUNT_MAX`]. CVE-2023-44487.
const RESET_COUNT_MAX: u32 = 400;
const RESET_COUNT_PER_S: u32 = 40;

/// How many priorities are kept of streams that the client has not opened: RFC 9218, section 7.1.
const EARLY_PRIORITY_COUNT_MAX: usize = 16;

/// The windows of this side: the initial ones of RFC 9113, section 6.9.2.
const RECEIVE_WINDOW: i32 = 65_535;

/// The content of requests that waits for backends, in bytes, with which the client gets no more window for the connection: one connection
/// holds no more, and a window of a stream besides for each other stream that was open before.
const UPLOAD_HELD_MAX: i32 = 1024 * 1024;

/// A part of a window of this side is returned when it has this length: fewer frames, and the client does not wait.
const RETURNED_LEN_MIN: i32 = RECEIVE_WINDOW / 2;

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    finder: ClientFinder,
    tls: Option<TlsSession>,
    phase: Http2Phase,
    shutdown: Shutdown,
    /// `None` before the first block.
    decoder: Option<Box<HpackDecoder>>,
    /// The block that waits for CONTINUATION, for room in the outbox, or for a page.
    block: Option<OpenBlock>,
    streams: H2Streams,
    /// The priorities of streams that are not open yet.
    early_priorities: Vec<(u32, Priority)>,
    /// The highest number of a stream of the client.
    last_stream: u32,
    /// The settings of the client: the window of each new stream, and the maximum length of a payload.
    initial_window: i32,
    payload_len_max: u32,
    /// `None` before the first block.
    encoder: Option<Box<HpackEncoder>>,
    /// How much content the client lets the server send.
    send_window: i32,
    /// How much content the client may send, and how much of that is to be returned.
    receive_window: i32,
    returned_len: i32,
    /// Frames that are not in the outbox: settings, acknowledgements, resets, windows.
    replies: Vec<u8>,
    output: FrameOutput,
    /// Responses of which all is in the outbox.
    endings: VecDeque<QueuedEnd>,
    overhead: FloodBudget,
    settings: FloodBudget,
    resets: FloodBudget,
    request_count: u32,
    /// The last stream whose request has passed the limits of clients: it may wait for room, and is offered again. 0: none has.
    limited_stream: u32,
    /// The site whose limits apply: that of the last request.
    site: SiteId,
    /// Bytes sent.
    sent_len: u64,
    /// The bytes that the client had received at the last deadline for output, as its transport counts them.
    acknowledged_len: u64,
    /// The client sends no more, and opens no window.
    has_ended: bool,
    /// The next frame waits for room.
    is_blocked: bool,
    /// The next frame has waited for room, and was not offered again: until then no content takes the room.
    input_is_next: bool,
    /// The next frame waits for a page.
    missing: Option<MissingPage>,
    /// The password that the next frame waits for.
    password_check: PasswordCheck,
    /// When the client must have received enough of the output. `None`: nothing waits.
    send_by: Option<Tick>,
    /// When what the client has begun to send must be complete: a frame, a block. `None`: nothing has begun.
    receive_by: Option<Tick>,
    /// When the contents of requests are not read any more. `None`: there are none.
    upload_by: Option<Tick>,
    /// When more of a stream with a pace may be queued. `None`: nothing waits for that.
    paced_by: Option<Tick>,
    /// When a connection without a stream ends.
    idle_by: Tick,
}

/// What the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http2Phase {
    /// The preface. RFC 9113, section 3.4.
    Preface,
    /// The first frame, which must be SETTINGS.
    Settings,
    /// Frames.
    Open,
    /// Until the last frame, GOAWAY, has been sent. Input is dropped.
    LastFrame,
    /// Until the client closes too. Input is dropped.
    Lingering {
        /// The end of the wait, however much the client sends.
        by: Tick,
    },
    Closed,
}

impl Http2 {
    /// Returns the state of a connection whose next bytes are the preface.
    pub(crate) fn new(cx: &ConnResources<'_>, finder: ClientFinder, tls: Option<TlsSession>) -> Http2 {
        cx.counters.http2_connections.add(1);
        let site = cx.sites.fallback(finder.accepted().routes);
        let limits = cx.sites.limits(site);
        let mut http = Http2 {
            finder,
            tls,
            phase: Http2Phase::Preface,
            shutdown: Shutdown::No,
            decoder: None,
            block: None,
            streams: H2Streams::default(),
            early_priorities: Vec::new(),
            last_stream: 0,
            initial_window: 65_535,
            payload_len_max: 16_384,
            encoder: None,
            send_window: 65_535,
            receive_window: RECEIVE_WINDOW,
            returned_len: 0,
            replies: Vec::new(),
            output: FrameOutput::default(),
            endings: VecDeque::new(),
            overhead: FloodBudget::new(OVERHEAD_COUNT_MAX, OVERHEAD_COUNT_PER_S, cx.now),
            settings: FloodBudget::new(SETTINGS_COUNT_MAX, SETTINGS_COUNT_PER_S, cx.now),
            resets: FloodBudget::new(RESET_COUNT_MAX, RESET_COUNT_PER_S, cx.now),
            request_count: 0,
            limited_stream: 0,
            site,
            sent_len: 0,
            acknowledged_len: 0,
            has_ended: false,
            is_blocked: false,
            input_is_next: false,
            missing: None,
            password_check: PasswordCheck::default(),
            send_by: None,
            receive_by: Some(cx.now.after(limits.head_ms)),
            upload_by: None,
            paced_by: None,
            idle_by: cx.now.after(limits.idle_ms),
        };
        let mut settings = [0; 64];
        let len = write_settings(&OWN_SETTINGS, &mut settings);
        http.replies.extend_from_slice(&settings[..len]);
        http
    }

    /// Handles input: all frames that are complete.
    pub(crate) fn received(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> usize {
        let mut used = 0;
        self.input_is_next = false;
        while used < input.len as usize {
            let rest = input.skip(used);
            let step = match self.phase {
                Http2Phase::Preface => self.read_preface(cx, out, rest),
                Http2Phase::Settings | Http2Phase::Open => self.read_frame(cx, out, rest),
                // It would reset the connection if it were not read.
                Http2Phase::LastFrame | Http2Phase::Lingering { .. } | Http2Phase::Closed => {
                    rest.len as usize
                }
            };
            used += step;
            if step == 0 {
                break;
            }
        }
        self.note_incomplete(cx, used > 0, used < input.len as usize);
        self.send(cx, out);
        used
    }

    /// Handles the end of the input: the client has left. The rest of the outbox is still sent.
    pub(crate) fn ended(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        match self.phase {
            Http2Phase::Lingering { .. } | Http2Phase::Closed => self.abort(),
            _ if out.is_empty() && self.streams.is_empty() => self.abort(),
            // It sends no more content.
            _ if self.streams.iter().any(|stream| !stream.upload.is_complete()) => self.abort(),
            // A client that has closed only its sending side still gets what its windows allow.
            _ => {
                self.has_ended = true;
                self.announce_last(self.last_stream, ErrorCode::NO_ERROR);
                self.send(cx, out);
            }
        }
    }

    /// Handles the event that bytes of the outbox have been sent.
    #[inline]
    pub(crate) fn sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, len: u64) {
        self.sent_len += len;
        cx.counters.sent_len.add(len);
        self.end_sent(cx);
        self.send(cx, out);
    }

    /// Handles the end of the deadline.
    pub(crate) fn expired(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        acknowledged_len: u64,
        unacknowledged: u64,
    ) {
        let received = acknowledged_len.saturating_sub(self.acknowledged_len);
        let is_fast_enough = received >= self.limits(cx).send_len_min();
        let now = cx.now;
        let has_expired = |by: Option<Tick>| by.is_some_and(|by| by <= now);
        match &mut self.phase {
            // Closing would reset what has not reached the client, if it sends more.
            Http2Phase::Lingering { by } if unacknowledged > 0 && (*by > cx.now || is_fast_enough) => {
                *by = cx.now.after(shutdown::LINGER_MS);
                self.acknowledged_len = acknowledged_len;
                return;
            }
            Http2Phase::Lingering { .. } | Http2Phase::Closed => return self.abort(),
            _ => {}
        }
        if has_expired(self.send_by) {
            if !is_fast_enough {
                return self.time_out_output(cx, out);
            }
            self.acknowledged_len = acknowledged_len;
            self.send_by = Some(cx.now.after(self.limits(cx).send_ms));
        }
        if has_expired(self.upload_by) {
            self.check_uploads(cx, out);
        }
        if has_expired(self.paced_by) {
            self.paced_by = None;
        }
        if has_expired(self.receive_by) || self.deadline() <= cx.now {
            return self.time_out(cx, out);
        }
        self.send(cx, out);
    }

    /// Returns what to read and what to close.
    #[inline]
    pub(crate) fn need(&self) -> Need {
        let (input, close) = match self.phase {
            Http2Phase::Preface | Http2Phase::Settings | Http2Phase::Open if self.is_paused() => {
                (Input::Pause, Close::No)
            }
            Http2Phase::Preface | Http2Phase::Settings | Http2Phase::Open | Http2Phase::LastFrame => {
                (Input::Bytes, Close::No)
            }
            Http2Phase::Lingering { .. } => (Input::Discard, Close::Write),
            Http2Phase::Closed => (Input::Pause, Close::Both),
        };
        Need { input, close }
    }

    /// Returns whether the next frame waits, for room, a page or a password.
    #[inline]
    fn is_paused(&self) -> bool {
        self.is_blocked || self.missing.is_some() || self.password_check.waits()
    }

    /// Returns whether nothing goes on: no stream is open, and no output is pending.
    #[inline]
    pub(crate) fn is_unused(&self, out: &Outbox) -> bool {
        matches!(self.phase, Http2Phase::Preface | Http2Phase::Open)
            && self.receive_by.is_none()
            && self.streams.is_empty()
            && self.block.is_none()
            && out.is_empty()
    }

    #[inline]
    pub(crate) fn missing_page(&self) -> Option<MissingPage> {
        self.missing
    }

    pub(crate) fn loaded(&mut self) {
        self.missing = None;
    }

    /// Returns the check of the next request's password.
    pub(crate) fn password_check(&mut self) -> &mut PasswordCheck {
        &mut self.password_check
    }

    #[inline]
    pub(crate) fn has_password_job(&self) -> bool {
        self.password_check.is_due()
    }

    /// Handles the end of the job that the next frame waits for.
    #[cold]
    pub(crate) fn verified(&mut self, cx: &ConnResources<'_>, job: Box<PasswordJob>) {
        self.password_check.done(cx.counters, job);
    }

    #[inline]
    pub(crate) fn sent_len(&self) -> u64 {
        self.sent_len
    }

    /// Returns the earliest of the deadlines that count.
    #[inline]
    pub(crate) fn deadline(&self) -> Tick {
        match self.phase {
            Http2Phase::Closed => return Tick::NEVER,
            Http2Phase::Lingering { by } => return by,
            _ => {}
        }
        // A response that is queued may take a slow client longer.
        let idle_by = (self.streams.is_empty() && self.send_by.is_none()).then_some(self.idle_by);
        let each = [self.send_by, self.receive_by, self.upload_by, self.paced_by, idle_by];
        each.into_iter().flatten().min().unwrap_or(Tick::NEVER)
    }

    /// Returns the encoder of fields. It takes 6 KiB, which a connection without a response does without.
    #[inline]
    fn encoder(&mut self) -> &mut HpackEncoder {
        self.encoder.get_or_insert_default()
    }

    /// Returns the limits that apply.
    #[inline]
    fn limits<'c>(&self, cx: &'c ConnResources<'_>) -> &'c Limits {
        cx.sites.limits(self.site)
    }

    /// Notes whether the rest of a frame or of a block is missing. `has_used`: a frame has ended.
    #[inline]
    fn note_incomplete(&mut self, cx: &ConnResources<'_>, has_used: bool, has_rest: bool) {
        let awaits_block = self.block.as_ref().is_some_and(OpenBlock::awaits_more);
        let is_open = matches!(self.phase, Http2Phase::Open);
        let is_complete = is_open && (!has_rest || self.is_paused()) && !awaits_block;
        // A frame that has begun in this input has all its time.
        let has_begun = self.receive_by.is_none() || is_open && has_used && !awaits_block;
        if is_complete {
            self.receive_by = None;
        } else if has_begun {
            self.receive_by = Some(cx.now.after(self.limits(cx).head_ms));
        }
    }

    /// Notes that content of a request must have arrived at this time.
    #[inline]
    fn await_upload(&mut self, by: Tick) {
        self.upload_by = Some(self.upload_by.map_or(by, |other| other.min(by)));
    }

    /// Ends the contents of requests that have taken too long.
    #[cold]
    fn check_uploads(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.upload_by = None;
        let is_dropped = |stream: &&H2Stream| matches!(stream.upload, Upload::Dropped { .. });
        let dropped: Vec<u32> = self.streams.iter().filter(is_dropped).map(|stream| stream.id).collect();
        for id in dropped {
            self.reset_upload(cx, id);
        }
        let mut late = Vec::new();
        for stream in self.streams.iter_mut() {
            if let Upload::Collected(collected) = &mut stream.upload
                && collected.period_end <= cx.now
                && !collected.begin_period(cx.now)
            {
                late.push(stream.id);
            }
        }
        for id in late {
            self.end_collecting(cx, out, id, Status::RequestTimeout);
        }
        let piped_by = self.check_piped_uploads(cx, out);
        let collected_by = self.streams.iter().filter_map(|stream| match &stream.upload {
            Upload::Collected(collected) => Some(collected.period_end),
            _ => None,
        });
        let next = collected_by.chain(piped_by).min();
        let has_dropped = self.streams.iter().any(|stream| matches!(stream.upload, Upload::Dropped { .. }));
        let dropped_by = has_dropped.then(|| cx.now.after(self.limits(cx).content_ms));
        self.upload_by = [next, dropped_by].into_iter().flatten().min();
    }

    /// Returns whether a stream, or the pipe of one, holds buffers.
    pub(crate) fn holds_buffers(&self, pipes: &Pipes) -> bool {
        let mut piped = self.streams.iter().filter_map(H2Stream::piped);
        self.streams.held_count() > 0
            || piped.any(|piped| piped.front.is_some() || pipes.holds_buffers(piped.pipe))
    }
}

/// The settings of this side. The rest have their initial values.
const OWN_SETTINGS: [Setting; 4] = [
    Setting { name: SettingName::MaxConcurrentStreams, value: STREAM_COUNT_MAX },
    Setting { name: SettingName::MaxHeaderListSize, value: tarpon_http::h2::hpack::SECTION_SIZE_MAX as u32 },
    Setting { name: SettingName::EnableConnectProtocol, value: 1 },
    Setting { name: SettingName::NoRfc7540Priorities, value: 1 },
];
