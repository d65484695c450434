//! A request, as a function gets it.
//!
//! ```text
//! on a worker   the whole request, where it was received
//! on a thread   the fields in a message, the content from a socket
//! ```

use std::{
    borrow::Cow,
    fmt,
    io::{self, Read},
    net::IpAddr,
};
use tarpon_conn::{InlineRequest, MessageFields};
use tarpon_http::target::{self, PATH_LEN_MAX, Scheme};

/// A request. [`Read`] reads its content.
pub struct FunctionRequest<'r> {
    method: &'r str,
    scheme: Scheme,
    host: Option<&'r str>,
    path: &'r str,
    query: Option<&'r str>,
    client: Option<IpAddr>,
    fields: RequestFields<'r>,
    content: FunctionContent<'r>,
}

enum RequestFields<'r> {
    Inline(&'r InlineRequest<'r>),
    Message(MessageFields<'r>),
}

enum FunctionContent<'r> {
    /// The whole content, of which this many bytes were read.
    Whole(Cow<'r, [u8]>, usize),
    /// The rest of the content.
    Stream(&'r mut (dyn Read + 'r)),
}

impl<'r> FunctionRequest<'r> {
    /// Returns a request whose whole content has arrived.
    #[inline]
    pub(crate) fn inline(request: &'r InlineRequest<'r>) -> FunctionRequest<'r> {
        let &InlineRequest { method, scheme, authority, path, query, client, content, .. } = request;
        FunctionRequest {
            method: text(method),
            scheme,
            host: authority.map(text),
            path: text(path),
            query: query.map(text),
            client,
            fields: RequestFields::Inline(request),
            content: FunctionContent::Whole(Cow::Borrowed(content), 0),
        }
    }

    /// Returns a request whose content is read from `content`.
    pub(crate) fn streamed(list: MessageFields<'r>, content: &'r mut (dyn Read + 'r)) -> FunctionRequest<'r> {
        let get = |name: &[u8]| list.get(name).map(text);
        let target = get(b":path").unwrap_or("/");
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        FunctionRequest {
            method: get(b":method").unwrap_or_default(),
            scheme: if get(b":scheme") == Some("https") { Scheme::Https } else { Scheme::Http },
            host: get(b":authority").filter(|host| !host.is_empty()),
            path,
            query,
            client: get(b":client").and_then(|address| address.parse().ok()),
            fields: RequestFields::Message(list),
            content: FunctionContent::Stream(content),
        }
    }

    /// Returns the method, such as `GET`.
    #[inline]
    pub fn method(&self) -> &'r str {
        self.method
    }

    /// Returns the path, decoded and without dot segments, as routes are compared with it. A character that is not UTF-8 is replaced.
    pub fn path(&self) -> Cow<'r, str> {
        if target::is_plain(self.path.as_bytes()) {
            return Cow::Borrowed(self.path);
        }
        let mut scratch = [0; PATH_LEN_MAX];
        match target::normalize(self.path.as_bytes(), &mut scratch) {
            Ok(path) => Cow::Owned(String::from_utf8_lossy(path).into_owned()),
            // No route leads such a path here.
            Err(_) => Cow::Borrowed(self.path),
        }
    }

    /// Returns the path as received.
    #[inline]
    pub fn raw_path(&self) -> &'r str {
        self.path
    }

    /// Returns what follows the `?` of the target, as received.
    #[inline]
    pub fn query(&self) -> Option<&'r str> {
        self.query
    }

    /// Returns the host that the request is for, with its port if the client named one. `None`: a client of HTTP/1.0 named none.
    #[inline]
    pub fn host(&self) -> Option<&'r str> {
        self.host
    }

    /// Returns the scheme that the client has used, `http` or `https`: that of its connection, or as a
    /// [trusted proxy](crate::Settings::proxy_trust) tells it.
    #[inline]
    pub fn scheme(&self) -> &'static str {
        match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Returns the address of the client: the peer, or the client that a [trusted proxy](crate::Settings::proxy_trust) names. `None`: it is
    /// a client of a Unix socket, or has left.
    #[inline]
    pub fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// Returns the value of the first field (header) with this name, in any case. `None`: there is none, or it is not UTF-8.
    pub fn field(&self, name: &str) -> Option<&'r str> {
        let is_named = |(found, _): &(&[u8], &[u8])| found.eq_ignore_ascii_case(name.as_bytes());
        self.fields().find(is_named).and_then(|(_, value)| str::from_utf8(value).ok())
    }

    /// Returns the names and values of all fields (headers), in order, without those that belong to the connection, and without Host and
    /// Expect. A name has the case that the client has sent, or is in lower case.
    pub fn fields(&self) -> impl Iterator<Item = (&'r [u8], &'r [u8])> + use<'r> {
        let (inline, message) = match self.fields {
            RequestFields::Inline(request) => (Some(request.fields()), None),
            RequestFields::Message(list) => {
                (None, Some(list.iter().filter(|(name, _)| !name.starts_with(b":"))))
            }
        };
        inline.into_iter().flatten().chain(message.into_iter().flatten())
    }

    /// Returns the whole content. On a thread, waits for all of it, and keeps it in memory; what was read before is missing.
    ///
    /// # Errors
    /// The client has left, is too slow, or sends more than the limit of the route.
    pub fn content(&mut self) -> io::Result<&[u8]> {
        if let FunctionContent::Stream(stream) = &mut self.content {
            let mut content = Vec::new();
            stream.read_to_end(&mut content)?;
            self.content = FunctionContent::Whole(Cow::Owned(content), 0);
        }
        match &self.content {
            FunctionContent::Whole(content, _) => Ok(content),
            FunctionContent::Stream(_) => unreachable!("it was read above"),
        }
    }
}

impl Read for FunctionRequest<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match &mut self.content {
            FunctionContent::Whole(content, at) => {
                let len = (&content[*at..]).read(to)?;
                *at += len;
                Ok(len)
            }
            FunctionContent::Stream(stream) => stream.read(to),
        }
    }
}

impl fmt::Debug for FunctionRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Returns bytes as text. The parser accepts only ASCII in these places.
#[inline]
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}
