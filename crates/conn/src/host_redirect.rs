//! The redirect from a redirect host to the canonical host of its site: the same target at the other host. RFC 9110, sections 15.4.2
//! and 15.4.9.
//!
//! ```text
//! GET /a?b HTTP/1.1          HTTP/1.1 301 Moved Permanently
//! Host: www.example.org:81   Location: //example.org:81/a?b
//! ```
//!
//! The reference has no scheme, so the client keeps its own, even behind a proxy that ends TLS (RFC 3986, section 4.2). GET and HEAD get
//! 301, which every client knows; other methods get 308, so that they do not become GET.

use crate::{
    bounded_writer::BoundedWriter,
    request::{Request, RequestPart, RequestPath, Resource},
    sites::SiteId,
};
use tarpon_http::{head::Method, host, status::Status};

/// A redirect to the canonical host of a site, with the parts of the request that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostRedirect {
    site: SiteId,
    port: RequestPart,
    path: RequestPath,
    /// With its `?`.
    query: Option<RequestPart>,
}

impl HostRedirect {
    /// Returns the redirect of a request to the canonical host of `site`. `None`: the request is not for a path at this host.
    pub(crate) fn new(request: &Request<'_>, site: SiteId) -> Option<(Status, HostRedirect)> {
        let (Ok(Resource::Path { path, query }), false) = (request.resource, request.is_misdirected()) else {
            return None;
        };
        let (_, port) = host::split_port(request.authority?);
        let status = match request.method {
            Method::Get | Method::Head => Status::MovedPermanently,
            _ => Status::PermanentRedirect,
        };
        let (port, path) = (request.part(port), request.path_part(path));
        let query = query.map(|query| request.part(query).with_byte_before());
        Some((status, HostRedirect { site, port, path, query }))
    }

    /// Returns the site whose canonical host is the target.
    pub(crate) fn site(&self) -> SiteId {
        self.site
    }

    /// Writes all fields to the front of `to`; `bytes` are those of the request. Returns their length, or `None` if they do not fit.
    pub(crate) fn write(&self, canonical: &[u8], bytes: &[u8], to: &mut [u8]) -> Option<usize> {
        let port = self.port.of(bytes);
        // A colon without digits is no port.
        let port = if port.len() > 1 { port } else { b"" };
        let mut writer = BoundedWriter::new(to);
        for bytes in [b"Location: //", canonical, port] {
            writer.put(bytes)?;
        }
        writer.put_escaped(self.path.of(bytes))?;
        writer.put_escaped(self.query.map_or(b"", |query| query.of(bytes)))?;
        writer.put(REDIRECT_FIELDS)?;
        Some(writer.len())
    }
}

/// The fields after Location. Caches revalidate, as for other redirects: a redirect host may become the host of another site.
pub(crate) const REDIRECT_FIELDS: &[u8] = b"\r\nContent-Length: 0\r\nCache-Control: no-cache\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::request;
    use tarpon_http::head;

    #[test]
    #[rustfmt::skip]
    fn redirect_keeps_path_query_and_port() {
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
            ("escaped bytes",       "GET /\\a|\"<?{",            "w.a",        Some((MovedPermanently, "//a.org/%5Ca%7C%22%3C?%7B"))),
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
            let request = request(&head, wire, head.host().unwrap());
            let redirect = HostRedirect::new(&request, SiteId::FIRST);
            assert_eq!(redirect.map(|(status, _)| status), want.map(|(status, _)| status), "{name}");
            let (Some((_, redirect)), Some((_, location))) = (redirect, want) else { continue };
            let want = format!("Location: {location}\r\nContent-Length: 0\r\nCache-Control: no-cache\r\n\r\n");
            let mut to = [0; 200];
            let len = redirect.write(b"a.org", wire, &mut to).unwrap();
            assert_eq!(str::from_utf8(&to[..len]), Ok(&*want), "{name}");
            for room in 0..len {
                assert_eq!(redirect.write(b"a.org", wire, &mut to[..room]), None, "{name}: {room} bytes of {len}");
            }
        }
    }
}
