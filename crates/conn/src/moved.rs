//! The answer where a host is an alias: the same target, at the canonical name of its site. RFC 9110, sections 15.4.2 and
//! 15.4.9.
//!
//! ```text
//! GET /a?b HTTP/1.1          HTTP/1.1 301 Moved Permanently
//! Host: www.example.org:81   Location: //example.org:81/a?b
//! ```
//!
//! The reference is without a scheme, so it is the one the client came by, whoever took it off on the way (RFC 3986, section
//! 4.2). GET and HEAD get 301, which every client knows; other methods 308, lest they become GET.
//!
//! Knows nothing of images: neither name nor target is known when they are made.

use crate::{room::Room, ruled::offset, sites::SiteId};
use tarpon_http::{
    head::{Head, Method},
    host,
    status::Status,
    target::{self, Scheme, Target},
};

/// Where in the bytes of the head that lies which goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Whose canonical name it leads to.
    site: SiteId,
    port: Part,
    /// From the path on, or from the query on where there is no path.
    rest: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    at: u32,
    len: u32,
}

impl Moved {
    /// What is answered, to the request whose head lies in `wire` and whose Host field is `host`. None: that is not
    /// about a path here.
    pub(crate) fn new(
        head: &Head<'_>,
        wire: &[u8],
        host: Option<&[u8]>,
        site: SiteId,
    ) -> Option<(Status, Moved)> {
        let (host, rest) = match target::parse(head.method, head.target).ok()? {
            Target::Origin { .. } => (host?, head.target),
            Target::Absolute { scheme: Scheme::Http, authority, .. } => {
                let end = offset(head.target, authority) as usize + authority.len();
                (authority, &head.target[end..])
            }
            Target::Absolute { .. } | Target::Authority(_) | Target::Asterisk => return None,
        };
        let (_, port) = host::split_port(host);
        let part = |part: &[u8]| Part { at: offset(wire, part), len: part.len() as u32 };
        let status = match head.method {
            Method::Get | Method::Head => Status::MovedPermanently,
            _ => Status::PermanentRedirect,
        };
        Some((status, Moved { site, port: part(port), rest: part(rest) }))
    }

    /// Whose canonical name it leads to.
    pub(crate) fn site(&self) -> SiteId {
        self.site
    }

    /// Writes all fields to the front of `to`; `wire` is the head. Returns their length. None: they would be too long.
    pub(crate) fn write(&self, canonical: &[u8], wire: &[u8], to: &mut [u8]) -> Option<usize> {
        let part = |part: Part| &wire[part.at as usize..][..part.len as usize];
        let (port, rest) = (part(self.port), part(self.rest));
        // A colon alone is no port.
        let port = if port.len() > 1 { port } else { b"" };
        let slash: &[u8] = if rest.starts_with(b"/") { b"" } else { b"/" };
        let mut room = Room::new(to);
        for bytes in [b"Location: //", canonical, port, slash] {
            room.put(bytes)?;
        }
        room.put_escaped(rest)?;
        room.put(FIELDS)?;
        Some(room.len())
    }
}

/// What comes behind Location. As with other redirects, caches ask again: a name may be an alias no longer.
const FIELDS: &[u8] = b"\r\nContent-Length: 0\r\nCache-Control: no-cache\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_http::head;

    #[test]
    #[rustfmt::skip]
    fn path_query_and_port_go_along() {
        use Status::{MovedPermanently, PermanentRedirect};
        type Case<'a> = (&'a str, &'a str, &'a str, Option<(Status, &'a str)>);
        let cases: &[Case<'_>] = &[
            // what it shows        request-line, without version   Host          status and Location
            ("path",                "GET /a/b",                     "w.a",        Some((MovedPermanently, "//a.org/a/b"))),
            ("query",               "GET /a?b=c?d",                 "w.a",        Some((MovedPermanently, "//a.org/a?b=c?d"))),
            ("empty query",         "GET /?",                       "w.a",        Some((MovedPermanently, "//a.org/?"))),
            ("port",                "GET /",                        "w.a:8080",   Some((MovedPermanently, "//a.org:8080/"))),
            ("no port",             "GET /",                        "w.a:",       Some((MovedPermanently, "//a.org/"))),
            ("an address",          "GET /",                        "[::1]:81",   Some((MovedPermanently, "//a.org:81/"))),
            ("two slashes",         "GET //b.org/",                 "w.a",        Some((MovedPermanently, "//a.org//b.org/"))),
            ("dots stay",           "GET /%2e/../a",                "w.a",        Some((MovedPermanently, "//a.org/%2e/../a"))),
            ("no URI's bytes",      "GET /\\a|\"<?{",            "w.a",        Some((MovedPermanently, "//a.org/%5Ca%7C%22%3C?%7B"))),
            ("absolute",            "GET http://w.a:1/b?c",         "x.a:2",      Some((MovedPermanently, "//a.org:1/b?c"))),
            ("absolute, no path",   "GET http://w.a",               "x.a",        Some((MovedPermanently, "//a.org/"))),
            ("absolute, but query", "GET http://w.a?b/c",           "x.a",        Some((MovedPermanently, "//a.org/?b/c"))),
            ("HEAD",                "HEAD /",                       "w.a",        Some((MovedPermanently, "//a.org/"))),
            ("POST stays POST",     "POST /form",                   "w.a",        Some((PermanentRedirect, "//a.org/form"))),
            ("unknown method",      "BREW /",                       "w.a",        Some((PermanentRedirect, "//a.org/"))),
            ("OPTIONS",             "OPTIONS /",                    "w.a",        Some((PermanentRedirect, "//a.org/"))),
            ("asterisk",            "OPTIONS *",                    "w.a",        None),
            ("tunnel",              "CONNECT w.a:443",              "w.a:443",    None),
            ("https",               "GET https://w.a/",             "w.a",        None),
            ("no target",           "GET a",                        "w.a",        None),
        ];
        for &(name, line, host, want) in cases {
            let wire = format!("\r\n{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let wire = wire.as_bytes();
            let (head, _) = head::parse(wire).unwrap().unwrap();
            let moved = Moved::new(&head, wire, head.host().unwrap(), SiteId::FIRST);
            assert_eq!(moved.map(|(status, _)| status), want.map(|(status, _)| status), "{name}");
            let (Some((_, moved)), Some((_, location))) = (moved, want) else { continue };
            let want = format!("Location: {location}\r\nContent-Length: 0\r\nCache-Control: no-cache\r\n\r\n");
            let mut to = [0; 200];
            let len = moved.write(b"a.org", wire, &mut to).unwrap();
            assert_eq!(str::from_utf8(&to[..len]), Ok(&*want), "{name}");
            for room in 0..len {
                assert_eq!(moved.write(b"a.org", wire, &mut to[..room]), None, "{name}: {room} bytes of {len}");
            }
        }
    }
}
