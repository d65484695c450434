//! The response of a function, and what a function may return instead of one.

use super::{
    route::FunctionError,
    stream::{EventWriter, ResponseWriter},
};
use bytes::Bytes;
use std::{borrow::Cow, convert::Infallible, error::Error, fmt, fs::File, io, ops::Range};
use tarpon_conn::ProgramValue;

/// A response: status, fields and content. The server adds Date, Server, and what frames the content.
///
/// ```
/// use tarpon::Response;
///
/// let response = Response::json("{}").status(201).field("Location", "/things/1");
/// # let _ = response;
/// ```
#[must_use]
pub struct FunctionResponse {
    pub(crate) code: u16,
    /// Field lines, each with its line end.
    pub(crate) lines: Cow<'static, [u8]>,
    pub(crate) content: ResponseContent,
    /// The first reason why the response cannot be sent.
    invalid: Option<InvalidResponse>,
}

/// The content of a response.
pub(crate) enum ResponseContent {
    Bytes(ProgramValue<Bytes>),
    File { file: File, at: u64, len: u64 },
    Stream { write: ProgramValue<WriteContent>, len: Option<u64> },
}

impl ResponseContent {
    #[inline]
    fn of_bytes(bytes: Bytes) -> ResponseContent {
        ResponseContent::Bytes(ProgramValue::new(bytes))
    }
}

/// Writes the content of a response, on a thread.
pub(crate) type WriteContent = Box<dyn FnOnce(&mut ResponseWriter<'_>) -> io::Result<()> + Send>;

/// The reason why a response cannot be sent: the client gets 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InvalidResponse {
    /// The status is not between 200 and 599.
    Status(u16),
    /// The name of a field is not a token.
    Name(String),
    /// The value of this field has a control character, or a space at its start or end.
    Value(String),
    /// The server sets this field itself.
    Reserved(String),
    /// The fields are longer than [`LINES_LEN_MAX`].
    Length,
}

/// The maximum length of all field lines in bytes: they fit into one buffer, with the content of most responses behind them.
const LINES_LEN_MAX: usize = 8 * 1024;

/// Fields that belong to the connection (RFC 9110, section 7.6.1), frame the content, or are made by the server.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl FunctionResponse {
    /// Returns a response with this status, between 200 and 599, and without content.
    pub fn new(status: u16) -> FunctionResponse {
        FunctionResponse::with_content(ResponseContent::of_bytes(Bytes::new()), b"").status(status)
    }

    /// Returns plain text.
    #[inline]
    pub fn text(text: impl Into<Bytes>) -> FunctionResponse {
        FunctionResponse::typed(text, b"Content-Type: text/plain; charset=utf-8\r\n")
    }

    /// Returns an HTML page.
    pub fn html(page: impl Into<Bytes>) -> FunctionResponse {
        FunctionResponse::typed(page, b"Content-Type: text/html; charset=utf-8\r\n")
    }

    /// Returns a text in JSON.
    pub fn json(text: impl Into<Bytes>) -> FunctionResponse {
        FunctionResponse::typed(text, b"Content-Type: application/json\r\n")
    }

    /// Returns bytes of this media type.
    pub fn bytes(media_type: &str, bytes: impl Into<Bytes>) -> FunctionResponse {
        FunctionResponse::typed(bytes, b"").field("Content-Type", media_type)
    }

    /// Returns a part of a file: its bytes from `range.start` to `range.end`. A thread reads it.
    pub fn file(media_type: &str, file: File, range: Range<u64>) -> FunctionResponse {
        FunctionResponse::bytes(media_type, "").content_of_file(file, range)
    }

    /// Returns a response whose content is written on a thread, as the client receives it: writing waits for a slow client. It fails if the
    /// client leaves. If `write` fails, the client sees that the response is incomplete.
    pub fn stream(
        media_type: &str,
        write: impl FnOnce(&mut ResponseWriter<'_>) -> io::Result<()> + Send + 'static,
    ) -> FunctionResponse {
        FunctionResponse::bytes(media_type, "").content_of_stream(write)
    }

    /// Returns server-sent events, each of which is sent at once. `send` runs on a thread until it returns, or the client leaves.
    pub fn events(
        send: impl FnOnce(&mut EventWriter<'_, '_>) -> io::Result<()> + Send + 'static,
    ) -> FunctionResponse {
        FunctionResponse::stream("text/event-stream", |writer| send(&mut EventWriter::new(writer)))
            .field("Cache-Control", "no-store")
    }

    /// Replaces the content by these bytes.
    pub fn content(mut self, bytes: impl Into<Bytes>) -> FunctionResponse {
        self.content = ResponseContent::of_bytes(bytes.into());
        self
    }

    /// Replaces the content by a part of a file, as in [`file`](FunctionResponse::file).
    pub fn content_of_file(mut self, file: File, range: Range<u64>) -> FunctionResponse {
        let len = range.end.saturating_sub(range.start);
        self.content = ResponseContent::File { file, at: range.start, len };
        self
    }

    /// Replaces the content by what `write` writes, as in [`stream`](FunctionResponse::stream).
    pub fn content_of_stream(
        mut self,
        write: impl FnOnce(&mut ResponseWriter<'_>) -> io::Result<()> + Send + 'static,
    ) -> FunctionResponse {
        let write: WriteContent = Box::new(write);
        self.content = ResponseContent::Stream { write: ProgramValue::new(write), len: None };
        self
    }

    /// Sets the status, between 200 and 599.
    pub fn status(mut self, status: u16) -> FunctionResponse {
        if !(200..600).contains(&status) {
            self.refuse(InvalidResponse::Status(status));
        }
        self.code = status;
        self
    }

    /// Sets the length of a [stream](FunctionResponse::stream), which is then sent as Content-Length. A stream that writes another length
    /// is incomplete. No effect on other contents, whose length is known.
    pub fn len(mut self, bytes: u64) -> FunctionResponse {
        if let ResponseContent::Stream { len, .. } = &mut self.content {
            *len = Some(bytes);
        }
        self
    }

    /// Adds a field (header). The name must be a token, and the value must have no control characters. The server sets Date, Server, and the fields
    /// that frame the content or belong to the connection. A response with a field that is not allowed is sent as 500, with an event that
    /// names the field.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> FunctionResponse {
        let value = value.as_ref();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        // RFC 9110, section 5.5.
        let is_allowed = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
        if name.is_empty() || !name.bytes().all(is_token) {
            self.refuse(InvalidResponse::Name(name.to_owned()));
        } else if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            self.refuse(InvalidResponse::Reserved(name.to_owned()));
        } else if !value.iter().all(is_allowed) || value.trim_ascii() != value {
            self.refuse(InvalidResponse::Value(name.to_owned()));
        } else if self.lines.len() + name.len() + value.len() + 4 > LINES_LEN_MAX {
            self.refuse(InvalidResponse::Length);
        } else {
            let lines = self.lines.to_mut();
            lines.extend_from_slice(name.as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value);
            lines.extend_from_slice(b"\r\n");
        }
        self
    }

    #[inline]
    fn typed(bytes: impl Into<Bytes>, line: &'static [u8]) -> FunctionResponse {
        FunctionResponse::with_content(ResponseContent::of_bytes(bytes.into()), line)
    }

    #[inline]
    fn with_content(content: ResponseContent, lines: &'static [u8]) -> FunctionResponse {
        FunctionResponse { code: 200, lines: Cow::Borrowed(lines), content, invalid: None }
    }

    #[cold]
    fn refuse(&mut self, why: InvalidResponse) {
        self.invalid.get_or_insert(why);
    }

    /// Returns the response with these parts, which were checked.
    pub(crate) fn from_parts(
        code: u16,
        lines: Cow<'static, [u8]>,
        content: ResponseContent,
    ) -> FunctionResponse {
        FunctionResponse { code, lines, content, invalid: None }
    }

    /// Returns the response if it can be sent.
    #[inline]
    pub(crate) fn checked(self) -> Result<FunctionResponse, FunctionError> {
        match self.invalid {
            None => Ok(self),
            Some(why) => Err(why.into()),
        }
    }
}

impl fmt::Debug for FunctionResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.code).finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidResponse::Status(code) => {
                write!(f, "the status {code} is not that of a final response; use one from 200 to 599")
            }
            InvalidResponse::Name(name) => {
                write!(f, "the name {name:?} of a field is not a token; use letters, digits and hyphens")
            }
            InvalidResponse::Value(name) => write!(
                f,
                "the value of the field {name} has a control character, or a space at its start or end; remove it"
            ),
            InvalidResponse::Reserved(name) => write!(f, "the server sets the field {name}; leave it out"),
            InvalidResponse::Length => {
                write!(f, "the fields are longer than {LINES_LEN_MAX} bytes; send less in them")
            }
        }
    }
}

impl Error for InvalidResponse {}

/// What a function may return: a response; text or bytes, which become one with the status 200; or a `Result` of these, whose error becomes
/// a response with the status 500 and an event through `tracing`.
pub trait IntoResponse {
    /// Returns the response.
    ///
    /// # Errors
    /// The function has failed.
    fn into_response(self) -> Result<FunctionResponse, Box<dyn Error + Send + Sync>>;
}

impl IntoResponse for FunctionResponse {
    #[inline]
    fn into_response(self) -> Result<FunctionResponse, FunctionError> {
        Ok(self)
    }
}

impl<R: IntoResponse, E: Into<FunctionError>> IntoResponse for Result<R, E> {
    #[inline]
    fn into_response(self) -> Result<FunctionResponse, FunctionError> {
        self.map_err(Into::into)?.into_response()
    }
}

impl IntoResponse for Infallible {
    fn into_response(self) -> Result<FunctionResponse, FunctionError> {
        match self {}
    }
}

impl IntoResponse for &'static str {
    #[inline]
    fn into_response(self) -> Result<FunctionResponse, FunctionError> {
        Ok(FunctionResponse::text(self))
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Result<FunctionResponse, FunctionError> {
        Ok(FunctionResponse::text(self))
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Result<FunctionResponse, FunctionError> {
        Ok(FunctionResponse::bytes("application/octet-stream", self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_responses_are_refused() {
        let ok = || FunctionResponse::text("a");
        #[rustfmt::skip]
        let cases: Vec<(&str, FunctionResponse, Option<&str>)> = vec![
            // case                  response                                       the refusal begins with
            ("text",                 ok(),                                          None),
            ("field",                ok().field("X-A", "b c"),                      None),
            ("empty value",          ok().field("X-A", ""),                         None),
            ("bytes above ASCII",    ok().field("X-A", "\u{e4}"),                   None),
            ("the lowest status",    ok().status(200),                              None),
            ("interim status",       ok().status(103),                              Some("the status 103")),
            ("no status",            ok().status(600),                              Some("the status 600")),
            ("no name",              ok().field("", "a"),                           Some("the name \"\"")),
            ("line break in a name", ok().field("A\r\nB", "a"),                     Some("the name \"A\\r\\nB\"")),
            ("line break",           ok().field("X-A", "a\r\nSet-Cookie: b"),       Some("the value of the field X-A")),
            ("LF",                   ok().field("X-A", "a\nb"),                     Some("the value of the field X-A")),
            ("NUL",                  ok().field("X-A", "a\0"),                      Some("the value of the field X-A")),
            ("space at the start",   ok().field("X-A", " a"),                       Some("the value of the field X-A")),
            ("framing",              ok().field("Content-Length", "1"),             Some("the server sets the field Content-Length")),
            ("coding",               ok().field("transfer-encoding", "chunked"),    Some("the server sets the field transfer-encoding")),
            ("name of the server",   ok().field("server", "x"),                     Some("the server sets the field server")),
            ("connection",           ok().field("CONNECTION", "close"),             Some("the server sets the field CONNECTION")),
            ("too long",             ok().field("X-A", "a".repeat(8_192)),          Some("the fields are longer")),
            ("the first counts",     ok().status(99).field("", ""),                 Some("the status 99")),
        ];
        for (name, response, want) in cases {
            match (response.checked(), want) {
                (Ok(_), None) => {}
                (Err(why), Some(want)) => assert!(why.to_string().starts_with(want), "{name}: {why}"),
                (result, _) => panic!("{name}: {result:?}"),
            }
        }
    }
}
