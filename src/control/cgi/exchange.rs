//! A running program, and what passes between it and the worker.
//!
//! ```text
//! worker ── content ─▶ Content, 64 KiB at most ─▶ standard input
//!        ◀─ frames ── output, 64 KiB at most ◀── head ◀─ standard output
//! ```
//!
//! A full side stops the reads of the other: of the worker while the program does not read, and of the program while the worker does not.

use super::{ending::RunningProcess, request::CgiRequest};
use crate::sys::spawn::ProgramEnd;
use rustix::io::{Errno, read, write};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};
use tarpon_conn::{FrameKind, FramePrefix, MessageFieldsWriter, REQUEST_FRAME_LEN_MAX};
use tarpon_http::{
    Status,
    cgi::{self, CgiHead, CgiHeadError, CgiResponse},
};

/// Bytes that wait on one side, at most: as much as a pipe of the kernel holds.
pub(super) const WAITING_LEN_MAX: usize = 64 * 1024;

/// Bytes of the output that are read at a time.
const READ_LEN: usize = 16 * 1024;

/// How long the end of a response without Content-Length waits for the exit of its program, which tells whether it has crashed.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Room for the list of fields of a head: a head of 12 KiB with names of one byte becomes somewhat longer.
const LIST_LEN_MAX: usize = 16 * 1024 - 64;

/// A request whose program runs.
#[derive(Debug)]
pub(super) struct ProgramExchange {
    pub(super) process: RunningProcess,
    input: Option<OwnedFd>,
    /// Content that the program has not read.
    content: VecDeque<u8>,
    /// All content has arrived.
    pub(super) is_content_complete: bool,
    output: Option<OwnedFd>,
    /// The output until its head is complete, and after a head that waits for the first content.
    head: Vec<u8>,
    part: OutputPart,
    request: CgiRequest,
    /// Bytes of content so far.
    content_len: u64,
    output_len_max: u64,
    /// The last progress of the program.
    pub(super) progress_at: Instant,
    /// Set at the end of the output.
    ended_at: Option<Instant>,
    /// How the program has ended.
    end: Option<ProgramEnd>,
}

/// The part of the output that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputPart {
    Head,
    /// The head has no Content-Type: it passes when there is no content.
    NoContent,
    /// `left`: of Content-Length, if the program has sent it.
    Content {
        left: Option<u64>,
    },
}

/// The state of an exchange after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExchangeProgress {
    /// It goes on.
    Pending,
    /// The response is complete.
    Complete,
    /// The server answers another request.
    Redirected,
    /// The program has made a mistake, in this way: a response that has begun is aborted.
    Failed(Status, String),
    /// The program has taken too long.
    TimedOut,
}

impl ProgramExchange {
    pub(super) fn new(
        process: RunningProcess,
        request: CgiRequest,
        [input, output]: [OwnedFd; 2],
        content: Vec<u8>,
        output_len_max: u64,
        now: Instant,
    ) -> ProgramExchange {
        ProgramExchange {
            process,
            input: Some(input),
            content: content.into(),
            is_content_complete: false,
            output: Some(output),
            head: Vec::new(),
            part: OutputPart::Head,
            request,
            content_len: 0,
            output_len_max,
            progress_at: now,
            ended_at: None,
            end: None,
        }
    }

    /// Returns the standard input of the program while there is content for it.
    pub(super) fn waiting_input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.content.is_empty()).map(AsFd::as_fd)
    }

    /// Returns the standard output of the program while there is room for it.
    pub(super) fn readable_output(&self, waiting_len: usize) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().filter(|_| waiting_len < WAITING_LEN_MAX).map(AsFd::as_fd)
    }

    /// Returns how many bytes of content may be added.
    pub(super) fn room(&self) -> usize {
        WAITING_LEN_MAX.saturating_sub(self.content.len())
    }

    /// Adds content.
    pub(super) fn add_content(&mut self, bytes: &[u8]) {
        // A program that has closed its input does not want the rest.
        if self.input.is_some() {
            self.content.extend(bytes);
        }
    }

    /// Writes content to the program.
    pub(super) fn write_input(&mut self, now: Instant) {
        while let Some(input) = &self.input
            && !self.content.is_empty()
        {
            match write(input, self.content.as_slices().0) {
                Ok(len) => {
                    self.content.drain(..len);
                    self.progress_at = now;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.content = VecDeque::new();
                    self.input = None;
                }
            }
        }
        if self.is_content_complete && self.content.is_empty() {
            self.input = None;
        }
    }

    /// Reads output of the program, and adds frames to `frames`.
    pub(super) fn read_output(&mut self, frames: &mut Vec<u8>, now: Instant) -> ExchangeProgress {
        let Some(output) = &self.output else { return ExchangeProgress::Pending };
        let mut bytes = [0; READ_LEN];
        match read(output, &mut bytes) {
            Ok(len @ 1..) => {
                self.progress_at = now;
                self.add_output(&bytes[..len], frames)
            }
            Err(Errno::AGAIN | Errno::INTR) => ExchangeProgress::Pending,
            _ => {
                self.output = None;
                self.ended_at = Some(now);
                ExchangeProgress::Pending
            }
        }
    }

    fn add_output(&mut self, bytes: &[u8], frames: &mut Vec<u8>) -> ExchangeProgress {
        match self.part {
            OutputPart::Head => {
                self.head.extend_from_slice(bytes);
                match cgi::parse(&self.head) {
                    Ok(None) => ExchangeProgress::Pending,
                    Ok(Some((head, len))) => {
                        let part = match self.pass_head(&head, frames) {
                            Ok(part) => part,
                            Err(progress) => return progress,
                        };
                        self.part = part;
                        let content = self.head.split_off(len);
                        match content.is_empty() && part != (OutputPart::Content { left: Some(0) }) {
                            true => ExchangeProgress::Pending,
                            false => self.add_output(&content, frames),
                        }
                    }
                    Err(error) => ExchangeProgress::Failed(
                        Status::BadGateway,
                        format!("invalid response: {}", why(error)),
                    ),
                }
            }
            OutputPart::NoContent => {
                let what = "invalid response: content without Content-Type".to_owned();
                ExchangeProgress::Failed(Status::BadGateway, what)
            }
            OutputPart::Content { left } => {
                let len =
                    left.map_or(bytes.len(), |left| bytes.len().min(left.try_into().unwrap_or(usize::MAX)));
                self.content_len += len as u64;
                if self.content_len > self.output_len_max {
                    let what = "more output than cgi-max-output allows".to_owned();
                    return ExchangeProgress::Failed(Status::BadGateway, what);
                }
                if len > 0 {
                    add_frame(frames, FrameKind::Data, &bytes[..len]);
                }
                let left = left.map(|left| left - len as u64);
                self.part = OutputPart::Content { left };
                if left == Some(0) { ExchangeProgress::Complete } else { ExchangeProgress::Pending }
            }
        }
    }

    /// Passes the head on. Returns what follows, or that nothing does.
    fn pass_head(&self, head: &CgiHead<'_>, frames: &mut Vec<u8>) -> Result<OutputPart, ExchangeProgress> {
        let status = match head.response() {
            CgiResponse::Response(status) => status,
            CgiResponse::LocalRedirect(path) => {
                add_redirect(frames, &self.request, path)?;
                return Err(ExchangeProgress::Redirected);
            }
        };
        let has_no_content = self.request.is_head() || matches!(status, 204 | 304);
        if !has_no_content && !head.has_content_type {
            return match head.content_length {
                Some(1..) => {
                    let what = "invalid response: Content-Length without Content-Type".to_owned();
                    Err(ExchangeProgress::Failed(Status::BadGateway, what))
                }
                _ => Ok(OutputPart::NoContent),
            };
        }
        add_head(frames, status, head, None)?;
        match has_no_content {
            true => Err(ExchangeProgress::Complete),
            false => Ok(OutputPart::Content { left: head.content_length }),
        }
    }

    /// Returns what the exchange has come to, after all that was read.
    pub(super) fn update(&mut self, frames: &mut Vec<u8>, now: Instant) -> ExchangeProgress {
        if self.end.is_none() {
            self.end = self.process.end();
            if self.end.is_some() {
                // A child in the background would hold the output open.
                self.process.kill_group();
            }
        }
        let Some(ended_at) = self.ended_at else { return ExchangeProgress::Pending };
        let how = || match self.end {
            Some(ProgramEnd::Killed(signal)) => format!("it was killed by signal {signal}"),
            Some(ProgramEnd::Exited(0)) | None => "it ended".to_owned(),
            Some(ProgramEnd::Exited(status)) => format!("it exited with status {status}"),
        };
        // The end of the program says whether it has crashed, and comes at once.
        if self.end.is_none() && now < ended_at + EXIT_WAIT {
            return ExchangeProgress::Pending;
        }
        let has_crashed = matches!(self.end, Some(ProgramEnd::Killed(_)));
        match self.part {
            OutputPart::Head => {
                let what = format!("{} before the head of its response was complete", how());
                ExchangeProgress::Failed(Status::BadGateway, what)
            }
            OutputPart::NoContent if !has_crashed => {
                let Ok(Some((head, _))) = cgi::parse(&self.head) else { return ExchangeProgress::Pending };
                let CgiResponse::Response(status) = head.response() else { return ExchangeProgress::Pending };
                match add_head(frames, status, &head, Some(0)) {
                    Ok(()) => ExchangeProgress::Complete,
                    Err(progress) => progress,
                }
            }
            OutputPart::Content { left: None } if !has_crashed => ExchangeProgress::Complete,
            OutputPart::Content { left: Some(left) } if !has_crashed => ExchangeProgress::Failed(
                Status::BadGateway,
                format!("{}, and {left} bytes of its Content-Length are missing", how()),
            ),
            _ => ExchangeProgress::Failed(
                Status::BadGateway,
                format!("{} in the middle of its response", how()),
            ),
        }
    }

    /// Returns whether the exit of the program has not been seen.
    pub(super) fn waits_for_exit(&self) -> bool {
        self.end.is_none()
    }

    /// Returns when [`update`](ProgramExchange::update) has something to do without an event.
    pub(super) fn exit_deadline(&self) -> Option<Instant> {
        self.ended_at.filter(|_| self.end.is_none()).map(|ended_at| ended_at + EXIT_WAIT)
    }

    /// Returns whether the exchange waits for the worker: for content, or until it takes output.
    pub(super) fn waits_for_worker(&self, waiting_len: usize) -> bool {
        let lacks_content = !self.is_content_complete && self.content.is_empty() && self.input.is_some();
        waiting_len >= WAITING_LEN_MAX || lacks_content
    }
}

/// Adds the head of a response. `length`: that of the content, if the program does not say.
fn add_head(
    frames: &mut Vec<u8>,
    status: u16,
    head: &CgiHead<'_>,
    length: Option<u64>,
) -> Result<(), ExchangeProgress> {
    let mut list = vec![0; LIST_LEN_MAX];
    let mut writer = MessageFieldsWriter::new(&mut list);
    let mut put = || {
        writer.put(b":status", status.to_string().as_bytes())?;
        for (name, value) in head.fields() {
            writer.put(name, value)?;
        }
        if let Some(length) = length.filter(|_| head.content_length.is_none()) {
            writer.put(b"content-length", length.to_string().as_bytes())?;
        }
        Some(writer.len())
    };
    let Some(len) = put() else {
        return Err(ExchangeProgress::Failed(
            Status::BadGateway,
            "invalid response: its head is too long".to_owned(),
        ));
    };
    add_frame(frames, FrameKind::Head, &list[..len]);
    Ok(())
}

/// Adds the head of the request that the server is to answer instead: that of the client, with another path and without content.
fn add_redirect(frames: &mut Vec<u8>, request: &CgiRequest, path: &[u8]) -> Result<(), ExchangeProgress> {
    const DROPPED: [&[u8]; 4] = [b"content-length", b"content-type", b"range", b"if-range"];
    let mut list = vec![0; (request.list_len() + path.len()).min(REQUEST_FRAME_LEN_MAX)];
    let mut writer = MessageFieldsWriter::new(&mut list);
    let mut put = || {
        for (name, value) in request.fields().iter().filter(|(name, _)| !DROPPED.contains(name)) {
            let value = match name {
                b":method" if !request.is_head() => b"GET",
                b":path" => path,
                _ => value,
            };
            writer.put(name, value)?;
        }
        Some(writer.len())
    };
    let Some(len) = put() else {
        return Err(ExchangeProgress::Failed(
            Status::BadGateway,
            "invalid response: its Location is too long".to_owned(),
        ));
    };
    add_frame(frames, FrameKind::Redirect, &list[..len]);
    Ok(())
}

/// Adds a frame.
pub(super) fn add_frame(frames: &mut Vec<u8>, kind: FrameKind, bytes: &[u8]) {
    frames.extend(FramePrefix { kind, len: bytes.len() as u32 }.encode());
    frames.extend_from_slice(bytes);
}

/// Returns why a head is refused, in words.
fn why(error: CgiHeadError) -> &'static str {
    match error {
        CgiHeadError::Line => "a line of its head is no header; a head is followed by an empty line",
        CgiHeadError::Value => "a header contains a control character",
        CgiHeadError::Repeated => "Status, Location, Content-Type or Content-Length occurs twice",
        CgiHeadError::Status => "Status is not a number from 200 to 599",
        CgiHeadError::Location => "Location is empty",
        CgiHeadError::ContentLength => "Content-Length is not a number",
        CgiHeadError::NoCgiField => "none of Content-Type, Location and Status",
        CgiHeadError::TooLong => "its head is longer than 12 KiB",
    }
}
