//! Reports of connections to upstream servers for the log: why an exchange has failed, and the standard error of FastCGI programs.
//!
//! ```text
//! BackendConnection ── ServerReport ─▶ BackendServers::report ─▶ the log of the service
//! ```
//!
//! A report borrows its texts. Those of servers and clients may have any bytes: the log escapes them.

use super::{BackendLimits, fastcgi::FastCgiResponseError};
use crate::{pipe::fields::MessageFields, transport::TlsFailure};
use std::{fmt, time::Duration};
use tarpon_http::{cgi::CgiHeadError, response_head::ResponseHeadError};

/// A report about an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerReport<'a> {
    /// An exchange has failed.
    Failed {
        /// The reason.
        reason: FailureReason,
        /// Text of the server about it, such as the names in its certificate. Empty: there is none.
        detail: &'a [u8],
        /// The method and the path of the request, without the query, which may have secrets.
        request: &'a [u8],
    },
    /// The program has written a line to its standard error.
    ErrorOutput {
        /// The line, without its end.
        line: &'a [u8],
        /// As above.
        request: &'a [u8],
    },
}

/// The reason why an exchange with an upstream server has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The server has closed the connection before the first byte of its response.
    ClosedBeforeResponse,
    /// The server has closed the connection within the head of its response.
    ClosedWithinHead,
    /// The server has closed the connection before the end of its response.
    ClosedWithinContent,
    /// The socket has failed.
    Broken,
    /// The head of the response is invalid.
    Head(ResponseHeadError),
    /// The head, or its list of fields, does not fit in a buffer.
    HeadTooLong,
    /// The server changes to a protocol that the client has not asked for.
    Upgrade,
    /// The server sends interim responses without end.
    InterimCount,
    /// The chunks of the content are invalid.
    Chunks,
    /// The response of a FastCGI server is invalid.
    FastCgi(FastCgiResponseError),
    /// TLS has failed.
    Tls(TlsFailure),
    /// The server has not taken the request in this time, in milliseconds.
    RequestTimeout(u64),
    /// The response has not begun within this time.
    ResponseTimeout(u64),
    /// The server has sent no more of its response, or taken no more of the content, for this time.
    ContentTimeout(u64),
    /// The exchange has taken longer than this time.
    TotalTimeout(u64),
    /// No buffer of this server is free.
    NoBuffer,
}

/// How many bytes of a request a report has, at most.
pub const REPORTED_REQUEST_LEN_MAX: usize = 256;

/// Writes the method and the path in the head of a request to `to`, in the place of what it has.
pub(super) fn write_request(list: &[u8], to: &mut Vec<u8>) {
    to.clear();
    let fields = MessageFields::known(list);
    let path = fields.get(b":path").unwrap_or_default();
    let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
    for part in [fields.get(b":method").unwrap_or_default(), b" ", path] {
        let room = REPORTED_REQUEST_LEN_MAX - to.len();
        to.extend_from_slice(&part[..part.len().min(room)]);
    }
}

impl FailureReason {
    /// Returns the reason of a connection that has closed. `has_begun`: a byte of the response has arrived; `status`: its code, or 0.
    pub(super) fn closed(has_begun: bool, status: u16) -> FailureReason {
        match (has_begun, status) {
            (false, _) => FailureReason::ClosedBeforeResponse,
            (true, 0) => FailureReason::ClosedWithinHead,
            (true, _) => FailureReason::ClosedWithinContent,
        }
    }

    /// Returns the reason of an exchange whose time has passed. `has_output`: the server has not taken what was to be sent.
    pub(super) fn timed_out(
        limits: &BackendLimits,
        is_total: bool,
        status: u16,
        has_output: bool,
    ) -> FailureReason {
        match (is_total, status, has_output) {
            (true, ..) => FailureReason::TotalTimeout(limits.total_ms),
            (false, 0, true) => FailureReason::RequestTimeout(limits.first_byte_ms),
            (false, 0, false) => FailureReason::ResponseTimeout(limits.first_byte_ms),
            (false, ..) => FailureReason::ContentTimeout(limits.response_ms),
        }
    }
}

impl fmt::Display for FailureReason {
    /// A sentence whose subject is the server, or that stands behind its name; with what to do, where that is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FailureReason::*;
        let in_time = |ms: &u64| Duration::from_millis(*ms);
        let text = match self {
            ClosedBeforeResponse => "it closed the connection before its response",
            ClosedWithinHead => "it closed the connection within the headers of its response",
            ClosedWithinContent => "it closed the connection before the end of its response",
            Broken => "the connection was reset, or the network has failed",
            Head(ResponseHeadError::StatusLine) => {
                "its response is not HTTP/1: the first line is invalid; check the scheme and the port of the server"
            }
            Head(ResponseHeadError::Field) => {
                "a header of its response is invalid: not a name, a colon and a value"
            }
            Head(ResponseHeadError::TooLarge) | HeadTooLong => {
                "the headers of its response are too long, or too many"
            }
            Head(ResponseHeadError::Framing) => {
                "the end of its response is unclear: Content-Length is invalid, or contradicts Transfer-Encoding"
            }
            Upgrade => "it changes the protocol (101) although the client did not ask for that",
            InterimCount => "it sends too many interim responses",
            Chunks => "the chunks of its response are invalid",
            FastCgi(error) => return error.fmt(f),
            Tls(failure) => return write!(f, "TLS has failed: {failure}"),
            RequestTimeout(ms) => {
                return write!(f, "it did not take the request within {:?} (response-timeout)", in_time(ms));
            }
            ResponseTimeout(ms) => {
                return write!(f, "it did not respond within {:?} (response-timeout)", in_time(ms));
            }
            ContentTimeout(ms) => {
                return write!(f, "it made no progress for {:?} (idle-timeout)", in_time(ms));
            }
            TotalTimeout(ms) => {
                return write!(f, "the exchange took longer than {:?} (total-timeout)", in_time(ms));
            }
            NoBuffer => {
                "tarpon has no free buffer for the exchange: too many responses wait for slow clients"
            }
        };
        f.write_str(text)
    }
}

impl fmt::Display for FastCgiResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FastCgiResponseError::*;
        f.write_str(match self {
            Record(_) => "its response is not FastCGI: a record is invalid; check the scheme and the port of the server",
            Head(CgiHeadError::NoCgiField) => {
                "the script has sent none of the headers Content-Type, Location and Status"
            }
            Head(CgiHeadError::TooLong) | HeadTooLong => "the headers of the script are too long",
            Head(_) => "a header of the script is invalid",
            NoHead => "the script has ended without a response",
            NoContentType => "the script has sent content without Content-Type",
            Truncated => "the script has sent less content than its Content-Length",
            Overloaded => "it is overloaded: it has refused the request; allow it more processes",
            Refused => "it does not answer such requests: it is no FastCGI responder",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageFieldsWriter;

    #[test]
    #[rustfmt::skip]
    fn reasons_follow_from_the_state_of_the_exchange() {
        let limits = BackendLimits { first_byte_ms: 1_000, response_ms: 2_000, total_ms: 60_000, ..BackendLimits::default() };
        let timed_out = |is_total, status, has_output| FailureReason::timed_out(&limits, is_total, status, has_output);
        let closed = FailureReason::closed;
        let cases = [
            // reason                      sentence
            (closed(false, 0),             "it closed the connection before its response"),
            (closed(true, 0),              "it closed the connection within the headers of its response"),
            (closed(true, 200),            "it closed the connection before the end of its response"),
            (timed_out(false, 0, true),    "it did not take the request within 1s (response-timeout)"),
            (timed_out(false, 0, false),   "it did not respond within 1s (response-timeout)"),
            (timed_out(false, 200, false), "it made no progress for 2s (idle-timeout)"),
            (timed_out(false, 200, true),  "it made no progress for 2s (idle-timeout)"),
            (timed_out(true, 0, false),    "the exchange took longer than 60s (total-timeout)"),
            (timed_out(true, 200, false),  "the exchange took longer than 60s (total-timeout)"),
        ];
        for (reason, want) in cases {
            assert_eq!(reason.to_string(), want, "{reason:?}");
        }
    }

    #[test]
    fn reported_request_is_short_and_has_no_query() {
        let long = "/".to_owned() + &"x".repeat(1_000);
        #[rustfmt::skip]
        let cases = [
            // method  path                      reported
            ("GET",    "/a?password=b",          "GET /a".to_owned()),
            ("POST",   "/",                      "POST /".to_owned()),
            ("GET",    &*long,                   format!("GET {}", &long[..REPORTED_REQUEST_LEN_MAX - 4])),
        ];
        let mut to = b"the last one".to_vec();
        for (method, path, want) in cases {
            let mut list = [0; 2_000];
            let mut writer = MessageFieldsWriter::new(&mut list);
            writer.put(b":method", method.as_bytes()).unwrap();
            writer.put(b":path", path.as_bytes()).unwrap();
            let len = writer.len();
            write_request(&list[..len], &mut to);
            assert_eq!(to, want.as_bytes());
        }
    }
}
