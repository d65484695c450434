//! Reads messages of HTTP/1.1 strictly: each deviation from what RFC 9112 lets a sender write is an error.
//!
//! ```text
//! stream ─▶ WireReader ─ request ──▶ StrictMessage   what an upstream server gets
//!                      └ response ─▶ StrictMessage   what a client gets
//! ```

use std::{
    fmt,
    io::{self, Read},
};

/// A request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StrictMessage {
    /// All bytes of the message.
    pub(super) bytes: Vec<u8>,
    /// The request line or the status line.
    pub(super) start: String,
    pub(super) fields: Vec<(String, String)>,
    /// The content, without transfer coding.
    pub(super) content: Vec<u8>,
    pub(super) trailers: Vec<(String, String)>,
}

/// Why no message was read.
pub(super) enum WireError {
    /// The connection ended before the first byte of a message.
    Ended,
    /// The connection ended within a message: what has arrived of it.
    Cut(Vec<u8>),
    /// A sender must not write this.
    Malformed(String),
}

/// Reads messages from a stream.
pub(super) struct WireReader<S> {
    pub(super) stream: S,
    /// Bytes that no message has used.
    received: Vec<u8>,
    /// The bytes of the message that is read.
    message: Vec<u8>,
}

/// How the content of a message ends.
enum WireFraming {
    None,
    Length(usize),
    Chunked,
    Close,
}

impl StrictMessage {
    pub(super) fn status(&self) -> u16 {
        self.start.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{self}"))
    }

    pub(super) fn method(&self) -> &str {
        self.start.split(' ').next().expect("a first word")
    }

    pub(super) fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_else(|| panic!("no target: {self}"))
    }

    /// Returns all values of a field.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        values(&self.fields, name)
    }

    /// Returns the value of a field that a message has once at most.
    #[track_caller]
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let found = self.all(name);
        assert!(found.len() <= 1, "{name} twice: {self}");
        found.first().copied()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }

    /// Returns whether these bytes stand anywhere in the message.
    pub(super) fn contains(&self, part: &str) -> bool {
        self.bytes.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    }
}

impl fmt::Display for StrictMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A longer message shows its start only.
        const SHOWN_LEN: usize = 2_000;
        self.bytes[..self.bytes.len().min(SHOWN_LEN)].escape_ascii().fmt(f)
    }
}

impl fmt::Debug for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Ended => f.write_str("the connection ended"),
            WireError::Cut(bytes) => write!(f, "the connection ended after {}", bytes.escape_ascii()),
            WireError::Malformed(rule) => f.write_str(rule),
        }
    }
}

fn values<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    fields
        .iter()
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

impl<S: Read> WireReader<S> {
    pub(super) fn new(stream: S) -> WireReader<S> {
        WireReader { stream, received: Vec::new(), message: Vec::new() }
    }

    /// Reads a request.
    pub(super) fn request(&mut self) -> Result<StrictMessage, WireError> {
        let mut request = self.request_head()?;
        self.request_content(&mut request)?;
        Ok(request)
    }

    /// Reads a request up to its content.
    pub(super) fn request_head(&mut self) -> Result<StrictMessage, WireError> {
        let request = self.head()?;
        check_request(&request).map_err(|rule| malformed(rule, &request.bytes))?;
        Ok(request)
    }

    /// Reads the content of a request.
    pub(super) fn request_content(&mut self, request: &mut StrictMessage) -> Result<(), WireError> {
        let framing = framing(request)?.unwrap_or(WireFraming::None);
        self.content(request, framing)
    }

    /// Reads a response to a request of this method: an interim one, or the final one.
    pub(super) fn response(&mut self, method: &str) -> Result<StrictMessage, WireError> {
        let mut response = self.response_head()?;
        let status = response.status();
        let framing = match framing(&response)? {
            _ if status < 200 || method == "HEAD" || matches!(status, 204 | 304) => WireFraming::None,
            _ if method == "CONNECT" && status < 300 => WireFraming::None,
            Some(framing) => framing,
            None => WireFraming::Close,
        };
        self.content(&mut response, framing)?;
        Ok(response)
    }

    /// Reads the head of a response.
    pub(super) fn response_head(&mut self) -> Result<StrictMessage, WireError> {
        let response = self.head()?;
        check_status_line(&response.start).map_err(|rule| malformed(rule, &response.bytes))?;
        Ok(response)
    }

    /// Reads one chunk behind a head: nothing if it is the last one.
    pub(super) fn chunk(&mut self) -> Result<Vec<u8>, WireError> {
        self.message.clear();
        let len = self.chunk_len()?;
        let chunk = self.exactly(len)?;
        if self.exactly(2)? != b"\r\n" {
            return Err(malformed("the end of a chunk", &self.message));
        }
        Ok(chunk)
    }

    /// Reads what is left until the stream ends. An error of the stream ends it too.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        while self.receive().is_ok_and(|len| len > 0) {}
        std::mem::take(&mut self.received)
    }

    /// Reads this many bytes outside of messages, such as those of a tunnel.
    pub(super) fn raw(&mut self, len: usize) -> Result<Vec<u8>, WireError> {
        self.message.clear();
        self.exactly(len)
    }

    /// Reads what has arrived outside of messages, and waits for at least one byte.
    pub(super) fn some(&mut self) -> Result<Vec<u8>, WireError> {
        self.message.clear();
        if self.received.is_empty() {
            self.more()?;
        }
        Ok(std::mem::take(&mut self.received))
    }

    fn head(&mut self) -> Result<StrictMessage, WireError> {
        self.message.clear();
        let start = self.line()?;
        let fields = self.fields()?;
        Ok(StrictMessage { start, fields, bytes: self.message.clone(), ..StrictMessage::default() })
    }

    fn fields(&mut self) -> Result<Vec<(String, String)>, WireError> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let field = line.split_once(':').filter(|(name, _)| is_token(name));
            let (name, value) = field.ok_or_else(|| malformed("a field", &self.message))?;
            let value = value.trim_matches([' ', '\t']);
            if value.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control()) {
                return Err(malformed("a control character in a value", &self.message));
            }
            fields.push((name.to_owned(), value.to_owned()));
        }
    }

    fn content(&mut self, message: &mut StrictMessage, framing: WireFraming) -> Result<(), WireError> {
        match framing {
            WireFraming::None => {}
            WireFraming::Length(len) => message.content = self.exactly(len)?,
            WireFraming::Chunked => self.chunks(message)?,
            WireFraming::Close => {
                message.content = self.rest();
                self.message.extend_from_slice(&message.content);
            }
        }
        message.bytes.clone_from(&self.message);
        Ok(())
    }

    fn chunks(&mut self, message: &mut StrictMessage) -> Result<(), WireError> {
        loop {
            let len = self.chunk_len()?;
            if len == 0 {
                message.trailers = self.fields()?;
                return Ok(());
            }
            message.content.extend(self.exactly(len)?);
            if self.exactly(2)? != b"\r\n" {
                return Err(malformed("the end of a chunk", &self.message));
            }
        }
    }

    fn chunk_len(&mut self) -> Result<usize, WireError> {
        let line = self.line()?;
        // No extension: each one has a meaning between two neighbours only.
        let is_size = (1..=16).contains(&line.len()) && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        let len = is_size.then(|| usize::from_str_radix(&line, 16).ok()).flatten();
        len.ok_or_else(|| malformed("a size of a chunk", &self.message))
    }

    /// Reads a line, without its CRLF.
    fn line(&mut self) -> Result<String, WireError> {
        let end = loop {
            match self.received.iter().position(|&byte| byte == b'\n') {
                Some(at) => break at + 1,
                None => self.more()?,
            }
        };
        let line: Vec<u8> = self.received.drain(..end).collect();
        self.message.extend_from_slice(&line);
        let text = line.strip_suffix(b"\r\n").filter(|text| !text.contains(&b'\r') && !text.contains(&0));
        let text = text.ok_or_else(|| malformed("the end of a line", &self.message))?;
        Ok(text.iter().map(|&byte| char::from(byte)).collect())
    }

    fn exactly(&mut self, len: usize) -> Result<Vec<u8>, WireError> {
        while self.received.len() < len {
            self.more()?;
        }
        let bytes: Vec<u8> = self.received.drain(..len).collect();
        self.message.extend_from_slice(&bytes);
        Ok(bytes)
    }

    /// Receives more of a message.
    fn more(&mut self) -> Result<(), WireError> {
        match self.receive() {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) if self.message.is_empty() && self.received.is_empty() => Err(WireError::Ended),
            Ok(0) | Err(_) => Err(WireError::Cut([&self.message[..], &self.received].concat())),
        }
    }

    /// Receives once.
    ///
    /// # Panics
    /// Nothing arrives in the time of a test.
    fn receive(&mut self) -> io::Result<usize> {
        let mut block = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut block) {
                Ok(len) => {
                    self.received.extend_from_slice(&block[..len]);
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let all = [&self.message[..], &self.received].concat();
                    panic!("timed out waiting for a message, after {}", all.escape_ascii());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn malformed(rule: &str, bytes: &[u8]) -> WireError {
    WireError::Malformed(format!("{rule}: {}", bytes.escape_ascii()))
}

fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

fn check_request(request: &StrictMessage) -> Result<(), &'static str> {
    let words: Vec<&str> = request.start.split(' ').collect();
    let [method, target, version] = words[..] else { return Err("a request line") };
    let is_target = (target.starts_with('/') || target == "*")
        && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if !is_token(method) || !is_target || version != "HTTP/1.1" {
        return Err("a request line");
    }
    if request.all("Host").len() != 1 {
        return Err("one Host");
    }
    Ok(())
}

fn check_status_line(line: &str) -> Result<(), &'static str> {
    let code = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next());
    let is_valid = code.is_some_and(|code| {
        code.len() == 3
            && code.bytes().all(|byte| byte.is_ascii_digit())
            && (b'1'..=b'9').contains(&code.as_bytes()[0])
    });
    is_valid.then_some(()).ok_or("a status line")
}

/// Returns how the content of a message ends. `None`: the fields do not tell. RFC 9112, section 6.
fn framing(message: &StrictMessage) -> Result<Option<WireFraming>, WireError> {
    let (codings, lengths) = (message.all("Transfer-Encoding"), message.all("Content-Length"));
    match (&codings[..], &lengths[..]) {
        ([], []) => Ok(None),
        (["chunked"], []) => Ok(Some(WireFraming::Chunked)),
        ([], [len]) if !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Some(WireFraming::Length(len.parse().map_err(|_| malformed("a length", &message.bytes))?)))
        }
        _ => Err(malformed("the framing", &message.bytes)),
    }
}

/// A case, the bytes of a request, and its content. `None`: it is refused.
type StrictCase = (&'static str, &'static [u8], Option<&'static [u8]>);

#[test]
fn strict_reader_accepts_and_refuses() {
    #[rustfmt::skip]
    let cases: &[StrictCase] = &[
        // case                  request                                                                     content, or nothing: an error
        ("no content",           b"GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n",                                      Some(b"")),
        ("length",               b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",              Some(b"hello")),
        ("chunks",               b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n", Some(b"hello")),
        ("cut head",             b"GET / HTTP/1.1\r\nHost: a\r\n",                                             None),
        ("cut content",          b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nhello",              None),
        ("cut chunks",           b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", None),
        ("bare LF",              b"GET / HTTP/1.1\nHost: a\r\n\r\n",                                           None),
        ("bare CR",              b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n",                                      None),
        ("NUL",                  b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",                                       None),
        ("folded line",          b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",                                   None),
        ("space before colon",   b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",                                        None),
        ("no Host",              b"GET / HTTP/1.1\r\n\r\n",                                                    None),
        ("two Hosts",            b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",                              None),
        ("absolute form",        b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",                                 None),
        ("HTTP/1.0",             b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",                                         None),
        ("two lengths",          b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", None),
        ("signed length",        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",                 None),
        ("length and chunked",   b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
        ("another coding",       b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", None),
        ("chunk extension",      b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\na\r\n0\r\n\r\n", None),
        ("chunk too long",       b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", None),
    ];
    for (name, wire, want) in cases {
        let found = WireReader::new(*wire).request();
        match (&found, want) {
            (Ok(request), Some(content)) => {
                assert_eq!((&request.content[..], &request.bytes[..]), (*content, *wire), "{name}");
            }
            (Err(_), None) => {}
            _ => panic!("{name}: {found:?}"),
        }
    }
    let mut reader = WireReader::new(&b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 \r\n\r\nhello"[..]);
    assert_eq!(reader.response("GET").expect("a response").status(), 103);
    assert_eq!(reader.response("GET").expect("a response").content, b"hello");
    assert!(matches!(reader.response("GET"), Err(WireError::Ended)));
}
