//! A request without its protocol.
//!
//! ```text
//! HTTP/1    request line, Host, fields ────────────────────┐
//! HTTP/2    :method, :scheme, :authority, :path, fields ───┴─▶ Request ─▶ route, plan
//! ```
//!
//! The protocol makes a [`Request`] of what it has parsed; route and plan read nothing else of it. A response is queued after the bytes of
//! the request are gone, so what it needs of them is copied into a buffer before; until then a [`RequestPart`] names it by place.

use crate::passwords::PasswordRuleId;
use std::{net::IpAddr, num::NonZeroU16};
use tarpon_http::{
    fields::Fields,
    head::Method,
    target::{Scheme, TargetError},
};

/// A request. All its parts lie in one buffer.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The method.
    pub(crate) method: Method,
    /// The client.
    pub(crate) client: Client,
    /// The scheme, if the request names one.
    pub(crate) scheme: Option<Scheme>,
    /// Host and port that the request is for, valid and not empty.
    pub(crate) authority: Option<&'a [u8]>,
    /// The resource at this host.
    pub(crate) resource: Result<Resource<'a>, TargetError>,
    /// Whether the resource is a path that is normalized as received.
    pub(crate) has_plain_path: bool,
    /// The fields.
    pub(crate) fields: &'a Fields<'a>,
    /// The bytes that contain all parts of the request.
    pub(crate) bytes: &'a [u8],
}

/// The client of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// Its address, as trusted proxies name it. `None`: it has none, or it is unknown.
    pub(crate) address: Option<IpAddr>,
    /// Its port. `None`: it has none, or a proxy has not named it.
    pub(crate) port: Option<NonZeroU16>,
    /// The scheme that it has used: that of its connection, or as a trusted proxy names it. `None`: the connection has no TLS, and no proxy
    /// names one.
    pub(crate) scheme: Option<Scheme>,
    /// Whether a trusted proxy has sent a malformed list. Then the address is that of the proxy.
    pub(crate) is_malformed: bool,
    /// The rule of passwords of the path: unless the request is refused, it has the credentials of a user.
    pub(crate) password: Option<PasswordRuleId>,
}

/// A resource of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    /// A path, as received, and the bytes after its `?`. It begins with `/`.
    Path { path: &'a [u8], query: Option<&'a [u8]> },
    /// The server itself: `*`, for OPTIONS.
    Server,
    /// A tunnel to the authority, for CONNECT.
    Tunnel,
}

/// A part of a request, by its place in the bytes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPart {
    at: u32,
    len: u32,
}

/// The path of a request, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPath {
    /// The path of the root, which a target in absolute form may omit: then it is no part of the request.
    Root,
    /// Any other path.
    Part(RequestPart),
}

impl<'a> Request<'a> {
    /// Returns whether the response has content: not for HEAD (RFC 9110, section 9.3.2).
    #[inline]
    pub(crate) fn with_content(&self) -> bool {
        self.method != Method::Head
    }

    /// Returns whether the target names https on a connection without TLS. RFC 9110, section 7.4: such a request must not be served.
    #[inline]
    pub(crate) fn is_misdirected(&self) -> bool {
        self.scheme == Some(Scheme::Https) && self.client.scheme != Some(Scheme::Https)
    }

    /// Returns whether the target is a path.
    #[inline]
    pub(crate) fn is_for_path(&self) -> bool {
        matches!(self.resource, Ok(Resource::Path { .. }))
    }

    /// Returns the path, as received. `None`: the target is invalid, or has none.
    #[inline]
    pub(crate) fn path(&self) -> Option<&'a [u8]> {
        match self.resource {
            Ok(Resource::Path { path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Returns the request with a part of its path instead of the whole.
    pub(crate) fn with_path(self, part: &'a [u8]) -> Request<'a> {
        let query = match self.resource {
            Ok(Resource::Path { query, .. }) => query,
            _ => None,
        };
        // A part of a plain path is plain.
        let has_plain_path = self.has_plain_path && !part.is_empty();
        Request { resource: Ok(Resource::Path { path: part, query }), has_plain_path, ..self }
    }

    /// Returns the place of `part`, which is a slice of the bytes of the request.
    pub(crate) fn part(&self, part: &[u8]) -> RequestPart {
        let at = part.as_ptr().addr() - self.bytes.as_ptr().addr();
        RequestPart { at: at as u32, len: part.len() as u32 }
    }

    /// Returns the place of `path`, which is the path of the request.
    pub(crate) fn path_part(&self, path: &[u8]) -> RequestPath {
        if path == b"/" { RequestPath::Root } else { RequestPath::Part(self.part(path)) }
    }
}

impl RequestPart {
    /// Returns the part with the byte before it, such as the `?` of a query.
    pub(crate) fn with_byte_before(self) -> RequestPart {
        RequestPart { at: self.at - 1, len: self.len + 1 }
    }

    /// Returns the bytes of the part in the bytes of its request.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at as usize..][..self.len as usize]
    }
}

impl RequestPath {
    /// Returns the path in the bytes of its request.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            RequestPath::Root => b"/",
            RequestPath::Part(part) => part.of(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        h1,
        plan::{Generated, Plan, PlanOptions, plan},
    };
    use std::{io::Cursor, path::Path};
    use tarpon_http::{
        fields::{FieldPlace, Place},
        head,
        target::{self, Target},
    };
    use tarpon_pack::{BuildCache, PackOptions, Progress, pack_tar};
    use tarpon_site::Image;

    /// A request as HTTP/2 has it, with the status of its response: a method, a path, and fields in lower case.
    type RequestRow =
        (&'static str, &'static str, &'static str, u16, &'static [(&'static str, &'static str)]);

    #[test]
    fn the_plan_does_not_depend_on_the_protocol() {
        #[rustfmt::skip]
        let cases: &[RequestRow] = &[
            // what it shows         method     path             status, fields
            ("a file",               "GET",     "/a.txt",        200, &[]),
            ("HEAD",                 "HEAD",    "/a.txt",        200, &[("accept", "*/*")]),
            ("a path to normalize",  "GET",     "/x/../%61.txt", 200, &[("cookie", "a=b")]),
            ("a coding",             "GET",     "/b.txt",        200, &[("accept-encoding", "gzip")]),
            ("a field twice",        "GET",     "/b.txt",        200, &[("accept-encoding", "br"), ("x", "y"), ("accept-encoding", "gzip")]),
            ("not modified",         "GET",     "/a.txt",        304, &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            ("a precondition fails", "GET",     "/a.txt",        412, &[("if-match", "\"another\""), ("if-match", "\"other\"")]),
            ("a range",              "GET",     "/a.txt",        206, &[("accept", "a"), ("range", "bytes=1-2")]),
            ("ranges",               "GET",     "/b.txt",        206, &[("range", "bytes=1-2,900-"), ("cookie", "c")]),
            ("no such range",        "GET",     "/a.txt",        416, &[("range", "bytes=100-")]),
            ("a directory",          "GET",     "/dir",          301, &[]),
            ("with a query",         "GET",     "/dir?a=b",      301, &[("accept", "text/html")]),
            ("a rule",               "GET",     "/old/x?q",      301, &[]),
            ("nothing",              "GET",     "/none",         404, &[]),
            ("a bad escape",         "GET",     "/%zz",          400, &[]),
            ("the server",           "OPTIONS", "*",             204, &[]),
            ("an unknown method",    "BREW",    "/a.txt",        501, &[]),
            ("content",              "POST",    "/a.txt",        405, &[("content-length", "2")]),
            ("expects the unknown",  "GET",     "/a.txt",        417, &[("expect", "tea")]),
        ];
        let image = image();
        for &(name, method, path, status, fields) in cases {
            let text = text(method, path, fields);
            let (head, _) = head::parse(text.as_bytes()).expect(name).expect(name);
            let of_text = h1::request(&head, text.as_bytes(), head.host().expect(name));

            let (bytes, places) = decoded(path, fields);
            let fields = Fields::decoded(&bytes, &places);
            let of_section = request(head.method, path.len(), &bytes, &fields);

            let options = PlanOptions { unix_s: 784_198_177, with_ranges: true };
            let [want, found] = [of_text, of_section].map(|request| {
                let plan = plan(&request, &image, options).expect("the image is in memory");
                (Plan { generated: Generated::None, ..plan }, generated(&plan, &image, request.bytes))
            });
            assert_eq!((found.0.status.code(), &found), (status, &want), "{name}");
        }
    }

    /// Returns the request in the text of HTTP/1.
    fn text(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} {path} HTTP/1.1\r\nHost: {AUTHORITY}\r\n{lines}\r\n")
    }

    /// Returns what a decoder of HTTP/2 leaves: the path, the authority and all values, with nothing between them, and then the names.
    fn decoded(path: &str, fields: &[(&str, &str)]) -> (Vec<u8>, Vec<FieldPlace>) {
        let mut bytes = [path, AUTHORITY].concat().into_bytes();
        let mut put = |text: &str| {
            let place = Place { at: bytes.len() as u16, len: text.len() as u16 };
            bytes.extend_from_slice(text.as_bytes());
            place
        };
        let values: Vec<_> = fields.iter().map(|(_, value)| put(value)).collect();
        let names: Vec<_> = fields.iter().map(|(name, _)| put(name)).collect();
        let places = names.into_iter().zip(values).map(|(name, value)| FieldPlace { name, value });
        (bytes, places.collect())
    }

    /// Returns the request of a decoded section.
    fn request<'a>(method: Method, path_len: usize, bytes: &'a [u8], fields: &'a Fields<'a>) -> Request<'a> {
        let (path, rest) = bytes.split_at(path_len);
        let resource = target::parse(method, path).map(|target| match target {
            Target::Origin { path, query } => Resource::Path { path, query },
            Target::Asterisk => Resource::Server,
            other => panic!("no :path is {other:?}"),
        });
        let authority = Some(&rest[..AUTHORITY.len()]);
        let has_plain_path = target::is_plain(path);
        let client = Client::default();
        Request {
            method,
            client,
            scheme: Some(Scheme::Http),
            authority,
            resource,
            has_plain_path,
            fields,
            bytes,
        }
    }

    /// Returns what a plan generates, with the parts of the request in place of their places.
    fn generated(plan: &Plan, image: &Image, bytes: &[u8]) -> String {
        let mut to = [0; 200];
        match plan.generated {
            Generated::LocationWithQuery { before_query, query } => {
                format!("{before_query:?} {:?}", query.of(bytes))
            }
            Generated::RuleRedirect(redirect) => {
                let rules = image.rules().expect("the image is in memory").expect("the image has rules");
                let len = redirect.write(rules, bytes, &mut to).expect("room");
                String::from_utf8_lossy(&to[..len]).into_owned()
            }
            Generated::ByteRanges(ranges) => format!("{:?}", ranges.select(bytes).parts()),
            other => format!("{other:?}"),
        }
    }

    fn image() -> Image {
        let long = "b".repeat(1_000);
        let mut archive = tar::Builder::new(tempfile::tempfile().expect("a file"));
        for (path, content) in [
            ("a.txt", "hello"),
            ("b.txt", &*long),
            ("b.txt.gz", "gzip"),
            ("dir/index.html", "dir"),
            ("_redirects", "/old/:it /new/:it"),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mtime(784_111_777);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, content.as_bytes()).expect("a member");
        }
        let archive = archive.into_inner().expect("a tar");
        let (name, mut out) = (Path::new("a.tar"), Cursor::new(Vec::new()));
        pack_tar(
            &archive,
            name,
            Path::new(""),
            &mut out,
            &PackOptions::new(784_111_777),
            &mut BuildCache::default(),
            &Progress::default(),
        )
        .expect("a site");
        Image::new(out.into_inner().into()).expect("an image")
    }

    const AUTHORITY: &str = "example.org";
}
