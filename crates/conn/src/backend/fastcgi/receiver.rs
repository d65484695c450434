//! Reads the records of a response: the head of a program of CGI, then content. FastCGI Specification 1.0, section 6.2; RFC 3875, section 6.
//!
//! ```text
//! Stdout  Content-Type: text/html\n\n  ─▶ Head        Stdout  <p>hello  ─▶ Content
//! EndRequest ─▶ End: only now is the response complete
//! ```

use crate::pipe::fields::{MessageFieldsWriter, belongs_to_connection};
use std::mem;
use tarpon_http::{
    cgi::{self, CGI_HEAD_LEN_MAX, CgiHead, CgiHeadError, CgiResponse},
    fastcgi::{FastCgiDecoded, FastCgiDecoder, FastCgiEnd, FastCgiError, FastCgiPart, FastCgiProtocolStatus},
    status::Status,
};

/// The state of a response.
#[derive(Debug)]
pub(in crate::backend) struct FastCgiReceiver {
    /// The request was HEAD.
    is_head: bool,
    decoder: FastCgiDecoder,
    /// The head as far as it has arrived.
    head: Vec<u8>,
    part: CgiOutputPart,
}

/// The part of the output that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgiOutputPart {
    Head,
    /// The head is complete and was not written.
    CompleteHead,
    /// The head has no Content-Type: it passes at the end, when there is no content.
    NoContent,
    /// The head has passed, and what follows is dropped: the response has no content.
    Dropped,
    /// `left`: of Content-Length, if the application has sent it.
    Content {
        left: Option<u64>,
    },
}

/// The result of one call to [`FastCgiReceiver::receive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) struct FastCgiReceived {
    /// How many bytes at the front of the wire are used.
    pub(in crate::backend) used: usize,
    /// What follows them.
    pub(in crate::backend) event: FastCgiEvent,
}

/// The progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum FastCgiEvent {
    /// More bytes are needed.
    Incomplete,
    /// The head is complete: [`FastCgiReceiver::write_head`] is to be called once the pipe has room.
    Head,
    /// Content lies at the front of the rest of the wire, of this length. The caller [takes](FastCgiReceiver::take) what the pipe has room for.
    Content(usize),
    /// A message about an error lies in the used bytes.
    ErrorText { at: usize, len: usize },
    /// The response is complete. The connection can carry another request.
    End,
}

/// Why a response is not passed on, or aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCgiResponseError {
    /// A record is invalid.
    Record(FastCgiError),
    /// The head is invalid.
    Head(CgiHeadError),
    /// The head does not fit in a message.
    HeadTooLong,
    /// The response has ended before its head was complete.
    NoHead,
    /// Content follows a head without Content-Type: RFC 3875, section 6.3.1.
    NoContentType,
    /// The content is shorter than its Content-Length.
    Truncated,
    /// The application has no room for the request.
    Overloaded,
    /// The application does not answer such requests at all.
    Refused,
}

impl FastCgiResponseError {
    /// Returns the status of the response, if it has not begun.
    pub(in crate::backend) fn status(self) -> Status {
        match self {
            FastCgiResponseError::Overloaded => Status::ServiceUnavailable,
            _ => Status::BadGateway,
        }
    }
}

impl From<FastCgiError> for FastCgiResponseError {
    fn from(error: FastCgiError) -> FastCgiResponseError {
        FastCgiResponseError::Record(error)
    }
}

impl From<CgiHeadError> for FastCgiResponseError {
    fn from(error: CgiHeadError) -> FastCgiResponseError {
        FastCgiResponseError::Head(error)
    }
}

impl FastCgiReceiver {
    /// Returns the state of a response that begins. `is_head`: the request is HEAD.
    pub(in crate::backend) fn new(is_head: bool) -> FastCgiReceiver {
        FastCgiReceiver {
            is_head,
            decoder: FastCgiDecoder::default(),
            head: Vec::new(),
            part: CgiOutputPart::Head,
        }
    }

    /// Receives the start of `wire`. The caller calls again with the bytes that are neither used nor taken, followed by newly received bytes:
    /// after each event but [`Incomplete`](FastCgiEvent::Incomplete) and [`End`](FastCgiEvent::End) at once. The result does not depend on how
    /// the input is split.
    ///
    /// # Errors
    /// The response is invalid.
    pub(in crate::backend) fn receive(
        &mut self,
        wire: &[u8],
    ) -> Result<FastCgiReceived, FastCgiResponseError> {
        let mut at = 0;
        loop {
            if self.part == CgiOutputPart::CompleteHead {
                return Ok(FastCgiReceived { used: at, event: FastCgiEvent::Head });
            }
            let rest = &wire[at..];
            let FastCgiDecoded { used, part } = self.decoder.decode(rest)?;
            at += used;
            let event = match part {
                FastCgiPart::Incomplete => FastCgiEvent::Incomplete,
                FastCgiPart::Stderr(range) => {
                    self.decoder.take(range.len());
                    let text = FastCgiEvent::ErrorText { at, len: range.len() };
                    at += range.len();
                    text
                }
                FastCgiPart::Stdout(range) => match self.receive_output(&rest[range])? {
                    OutputUse::Used(len) => {
                        self.decoder.take(len);
                        at += len;
                        continue;
                    }
                    OutputUse::Content(len) => FastCgiEvent::Content(len),
                },
                FastCgiPart::End(range, end) => match self.receive_end(end)? {
                    OutputEnd::Head => continue,
                    OutputEnd::Complete => {
                        self.decoder.take(range.len());
                        at += range.len();
                        FastCgiEvent::End
                    }
                },
            };
            return Ok(FastCgiReceived { used: at, event });
        }
    }

    /// Handles output that has arrived.
    fn receive_output(&mut self, bytes: &[u8]) -> Result<OutputUse, FastCgiResponseError> {
        match self.part {
            CgiOutputPart::Head => {
                let before = self.head.len();
                // One byte more than a head may have shows that it is too long.
                let room = CGI_HEAD_LEN_MAX + 1 - before;
                self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
                let Some((head, len)) = cgi::parse(&self.head)? else {
                    return Ok(OutputUse::Used(self.head.len() - before));
                };
                let has_content = !self.is_head && !matches!(status_of(&head), 204 | 304);
                self.part = match head.has_content_type || !has_content {
                    true => CgiOutputPart::CompleteHead,
                    false if head.content_length.is_some_and(|length| length > 0) => {
                        return Err(FastCgiResponseError::NoContentType);
                    }
                    false => CgiOutputPart::NoContent,
                };
                self.head.truncate(len);
                Ok(OutputUse::Used(len - before))
            }
            CgiOutputPart::NoContent => Err(FastCgiResponseError::NoContentType),
            CgiOutputPart::CompleteHead => unreachable!("the head is written before more is received"),
            CgiOutputPart::Dropped | CgiOutputPart::Content { left: Some(0) } => {
                Ok(OutputUse::Used(bytes.len()))
            }
            CgiOutputPart::Content { left: None } => Ok(OutputUse::Content(bytes.len())),
            CgiOutputPart::Content { left: Some(left) } => {
                Ok(OutputUse::Content(bytes.len().min(left.try_into().unwrap_or(usize::MAX))))
            }
        }
    }

    /// Handles the end of the request.
    fn receive_end(&mut self, end: FastCgiEnd) -> Result<OutputEnd, FastCgiResponseError> {
        match end.protocol_status {
            FastCgiProtocolStatus::RequestComplete => {}
            FastCgiProtocolStatus::Overloaded => return Err(FastCgiResponseError::Overloaded),
            FastCgiProtocolStatus::CannotMultiplex | FastCgiProtocolStatus::UnknownRole => {
                return Err(FastCgiResponseError::Refused);
            }
        }
        match self.part {
            CgiOutputPart::Head => Err(FastCgiResponseError::NoHead),
            CgiOutputPart::NoContent => {
                self.part = CgiOutputPart::CompleteHead;
                Ok(OutputEnd::Head)
            }
            CgiOutputPart::CompleteHead => unreachable!("the head is written before more is received"),
            CgiOutputPart::Content { left: Some(1..) } => Err(FastCgiResponseError::Truncated),
            CgiOutputPart::Dropped | CgiOutputPart::Content { .. } => Ok(OutputEnd::Complete),
        }
    }

    /// Writes the head as a list of fields to the front of `to`. Returns its length and the status. Location without Status redirects the
    /// client, also to a path of this server.
    ///
    /// # Errors
    /// It does not fit.
    ///
    /// # Panics
    /// Panics if no head is complete.
    pub(in crate::backend) fn write_head(
        &mut self,
        to: &mut [u8],
    ) -> Result<(usize, u16), FastCgiResponseError> {
        assert_eq!(self.part, CgiOutputPart::CompleteHead, "a head is written once");
        let bytes = mem::take(&mut self.head);
        let Ok(Some((head, _))) = cgi::parse(&bytes) else { unreachable!("the head was valid") };
        let status = status_of(&head);
        let has_content = !self.is_head && !matches!(status, 204 | 304);
        let is_empty = has_content && !head.has_content_type;
        self.part = match has_content {
            true if is_empty => CgiOutputPart::Content { left: Some(0) },
            true => CgiOutputPart::Content { left: head.content_length },
            false => CgiOutputPart::Dropped,
        };
        let mut writer = MessageFieldsWriter::new(to);
        let mut put = || {
            writer.put(b":status", &[100, 10, 1].map(|unit| b'0' + (status / unit % 10) as u8))?;
            for (name, value) in head.fields().filter(|(name, _)| !belongs_to_connection(name)) {
                writer.put(name, value)?;
            }
            if is_empty && head.content_length.is_none() {
                writer.put(b"content-length", b"0")?;
            }
            Some(writer.len())
        };
        put().map(|len| (len, status)).ok_or(FastCgiResponseError::HeadTooLong)
    }

    /// Takes the first `len` bytes of the content that was received last.
    ///
    /// # Panics
    /// Panics if there is less content.
    pub(in crate::backend) fn take(&mut self, len: usize) {
        self.decoder.take(len);
        if let CgiOutputPart::Content { left: Some(left) } = &mut self.part {
            *left = left.checked_sub(len as u64).expect("no more than the content");
        }
    }
}

/// What becomes of output.
enum OutputUse {
    /// So many bytes of it belong to the head, or are dropped.
    Used(usize),
    /// So many bytes of it are content.
    Content(usize),
}

/// What the end of a request brings.
enum OutputEnd {
    /// The head, which has waited for it.
    Head,
    Complete,
}

/// Returns the status of a response.
fn status_of(head: &CgiHead<'_>) -> u16 {
    match head.response() {
        CgiResponse::Response(status) => status,
        CgiResponse::LocalRedirect(_) => 302,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::fields::MessageFields;
    use FastCgiResponseError::*;
    use tarpon_http::fastcgi::FastCgiHeader;

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let header =
            FastCgiHeader { kind, request: 1, content_len: content.len() as u16, padding_len: kind % 4 };
        [&header.encode()[..], content, &[0; 3][..usize::from(kind % 4)]].concat()
    }

    fn out(content: &str) -> Vec<u8> {
        record(6, content.as_bytes())
    }

    fn end(protocol_status: u8) -> Vec<u8> {
        record(3, &[0, 0, 0, 0, protocol_status, 0, 0, 0])
    }

    /// The fields of the head as `name: value`, the content, and whether the response is complete.
    type ReceivedResponse = Result<(String, String, bool), FastCgiResponseError>;

    /// Receives a response, `cut` bytes at a time, and takes `take_max` bytes of content at a time.
    fn receive(wire: &[u8], is_head: bool, cut: usize, take_max: usize) -> ReceivedResponse {
        let (mut receiver, mut at, mut arrived) = (FastCgiReceiver::new(is_head), 0, 0);
        let (mut head, mut content, mut errors) = (String::new(), Vec::new(), 0);
        loop {
            let bytes = &wire[at..arrived];
            let FastCgiReceived { used, event } = receiver.receive(bytes)?;
            at += used;
            match event {
                FastCgiEvent::Incomplete if arrived == wire.len() => break,
                FastCgiEvent::Incomplete => arrived = wire.len().min(arrived + cut),
                FastCgiEvent::Head => {
                    // The pipe may have no room at first.
                    let again = receiver.receive(&wire[at..arrived]).unwrap();
                    assert_eq!(again, FastCgiReceived { used: 0, event: FastCgiEvent::Head });
                    let mut to = [0; 2_000];
                    let (len, status) = receiver.write_head(&mut to)?;
                    let list = MessageFields::parse(&to[..len]).expect("a valid list");
                    assert_eq!(list.get(b":status"), Some(status.to_string().as_bytes()));
                    assert_eq!(head, "", "one head");
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let lines = list.iter().map(|(name, value)| format!("{}: {}", text(name), text(value)));
                    head = lines.collect::<Vec<_>>().join(", ");
                }
                FastCgiEvent::Content(len) => {
                    let len = len.min(take_max);
                    content.extend_from_slice(&bytes[used..][..len]);
                    receiver.take(len);
                    at += len;
                }
                FastCgiEvent::ErrorText { at, len } => {
                    assert!(bytes[at..at + len].iter().all(|&byte| byte == b'e'));
                    errors += len;
                }
                FastCgiEvent::End => {
                    assert_eq!(at, wire.len(), "{errors} bytes of messages");
                    return Ok((head, String::from_utf8(content).unwrap(), true));
                }
            }
        }
        Ok((head, String::from_utf8(content).unwrap(), false))
    }

    #[test]
    #[rustfmt::skip]
    fn responses_are_received_at_every_cut() {
        let ok = |head: &str, content: &str, is_complete| Ok((head.to_owned(), content.to_owned(), is_complete));
        let (get, head) = (false, true);
        let text = "Content-Type: text/plain\r\n\r\n";
        let cases: &[(&str, bool, Vec<Vec<u8>>, ReceivedResponse)] = &[
            // case                        request  records                                                               head, content, complete
            ("usual",                      get,  vec![out(text), out("hello"), end(0)],                                   ok(":status: 200, content-type: text/plain", "hello", true)),
            ("one record",                 get,  vec![out(&(text.to_owned() + "hello")), end(0)],                         ok(":status: 200, content-type: text/plain", "hello", true)),
            ("a head in records",          get,  vec![out("Content-"), out("Type: a/b\n"), out("\nhel"), out("lo"), end(0)], ok(":status: 200, content-type: a/b", "hello", true)),
            ("messages",                   get,  vec![record(7, b"e"), out(text), record(7, b"ee"), out("a"), record(7, b"e"), end(0)], ok(":status: 200, content-type: text/plain", "a", true)),
            ("empty records",              get,  vec![out(""), out(text), out("a"), out(""), record(7, b""), end(0)],     ok(":status: 200, content-type: text/plain", "a", true)),
            ("no content",                 get,  vec![out(text), end(0)],                                                 ok(":status: 200, content-type: text/plain", "", true)),
            ("status",                     get,  vec![out("Status: 404 Not Found\r\nContent-Type: a/b\n\nno"), end(0)],   ok(":status: 404, content-type: a/b", "no", true)),
            ("a redirect",                 get,  vec![out("Location: https://a.test/\n\n"), end(0)],                      ok(":status: 302, location: https://a.test/, content-length: 0", "", true)),
            ("a path as location",         get,  vec![out("Location: /x\n\n"), end(0)],                                   ok(":status: 302, location: /x, content-length: 0", "", true)),
            ("a redirect with content",    get,  vec![out("Status: 301\nLocation: /x\nContent-Type: a/b\n\nto"), end(0)], ok(":status: 301, location: /x, content-type: a/b", "to", true)),
            ("fields of a connection",     get,  vec![out("Content-Type: a/b\nConnection: close\nTransfer-Encoding: chunked\nX: y\n\n"), end(0)], ok(":status: 200, content-type: a/b, x: y", "", true)),
            ("length",                     get,  vec![out("Content-Type: a/b\nContent-Length: 5\n\nhello"), end(0)],       ok(":status: 200, content-type: a/b, content-length: 5", "hello", true)),
            ("longer than its length",     get,  vec![out("Content-Type: a/b\nContent-Length: 3\n\nhello"), out("x"), end(0)], ok(":status: 200, content-type: a/b, content-length: 3", "hel", true)),
            ("shorter than its length",    get,  vec![out("Content-Type: a/b\nContent-Length: 9\n\nhello"), end(0)],       Err(Truncated)),
            ("HEAD",                       head, vec![out("Content-Type: a/b\nContent-Length: 5\n\n"), end(0)],            ok(":status: 200, content-type: a/b, content-length: 5", "", true)),
            ("HEAD with content",          head, vec![out(text), out("hello"), end(0)],                                   ok(":status: 200, content-type: text/plain", "", true)),
            ("HEAD without a type",        head, vec![out("Status: 200\n\n"), end(0)],                                    ok(":status: 200", "", true)),
            ("204",                        get,  vec![out("Status: 204\n\n"), out("hello"), end(0)],                      ok(":status: 204", "", true)),
            ("304",                        get,  vec![out("Status: 304\nETag: \"a\"\n\n"), end(0)],                        ok(":status: 304, etag: \"a\"", "", true)),
            ("empty without a type",       get,  vec![out("Status: 200\nContent-Length: 0\n\n"), end(0)],                 ok(":status: 200, content-length: 0", "", true)),
            ("content without a type",     get,  vec![out("Status: 200\n\n"), out("x"), end(0)],                          Err(NoContentType)),
            ("length without a type",      get,  vec![out("Status: 200\nContent-Length: 1\n\n"), end(0)],                 Err(NoContentType)),
            ("no end",                     get,  vec![out(text), out("hello")],                                           ok(":status: 200, content-type: text/plain", "hello", false)),
            ("no end, all of its length",  get,  vec![out("Content-Type: a/b\nContent-Length: 5\n\nhello")],             ok(":status: 200, content-type: a/b, content-length: 5", "hello", false)),
            ("half a head",                get,  vec![out("Content-Type: a/b\n"), end(0)],                                Err(NoHead)),
            ("no output",                  get,  vec![end(0)],                                                            Err(NoHead)),
            ("messages only",              get,  vec![record(7, b"ee"), end(0)],                                          Err(NoHead)),
            ("overloaded",                 get,  vec![end(2)],                                                            Err(Overloaded)),
            ("overloaded in content",      get,  vec![out(text), end(2)],                                                 Err(Overloaded)),
            ("another role",               get,  vec![end(3)],                                                            Err(Refused)),
            ("no multiplexing",            get,  vec![end(1)],                                                            Err(Refused)),
            ("no head",                    get,  vec![out("hello\n"), end(0)],                                            Err(Head(CgiHeadError::Line))),
            ("a status line",              get,  vec![out("HTTP/1.1 200 OK\r\n"), end(0)],                                Err(Head(CgiHeadError::Line))),
            ("no field of CGI",            get,  vec![out("X: y\n\n"), end(0)],                                           Err(Head(CgiHeadError::NoCgiField))),
            ("a head that is too long",    get,  vec![out(&"x".repeat(CGI_HEAD_LEN_MAX)), end(0)],                        Err(Head(CgiHeadError::TooLong))),
            ("another kind",               get,  vec![out(text), record(5, b"")],                                         Err(Record(FastCgiError::Kind))),
            ("a list that is too long",    get,  vec![out(&format!("Content-Type: a/b\nX: {}\n\n", "x".repeat(2_000))), end(0)], Err(HeadTooLong)),
        ];
        for (name, is_head, records, want) in cases {
            let wire = records.concat();
            let step = wire.len() / 500 + 1;
            for cut in (1..=wire.len()).step_by(step) {
                for take_max in [1, usize::MAX] {
                    assert_eq!(receive(&wire, *is_head, cut, take_max), *want, "{name}, {cut} bytes at a time");
                }
            }
            // A response that is cut is never complete.
            for len in (0..wire.len()).step_by(step) {
                if let Ok((_, _, is_complete)) = receive(&wire[..len], *is_head, wire.len(), usize::MAX) {
                    assert!(!is_complete, "{name}, {len} bytes");
                }
            }
        }
    }

    #[test]
    fn errors_have_a_status() {
        assert_eq!(Overloaded.status(), Status::ServiceUnavailable);
        assert_eq!(Truncated.status(), Status::BadGateway);
    }
}
