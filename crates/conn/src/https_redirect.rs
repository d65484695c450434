//! The redirect from a request without TLS to the same target with it. RFC 9110, section 15.4.9.
//!
//! ```text
//! GET /a?b HTTP/1.1      HTTP/1.1 308 Permanent Redirect
//! Host: example.org      Location: https://example.org/a?b
//! ```
//!
//! All methods get 308, so that none becomes GET.

use crate::{
    bounded_writer::BoundedWriter,
    host_redirect::REDIRECT_FIELDS,
    request::{Request, RequestPart, RequestPath, Resource},
};
use tarpon_http::host;

/// The port of https URIs without one. RFC 9110, section 4.2.2.
const DEFAULT_PORT: u16 = 443;

/// A redirect to the same target with TLS, with the parts of the request that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpsRedirect {
    port: u16,
    host: RequestPart,
    path: RequestPath,
    /// With its `?`.
    query: Option<RequestPart>,
}

impl HttpsRedirect {
    /// Returns the redirect of a request to `port`. `None`: the request is not for a path, or names no host.
    pub(crate) fn new(request: &Request<'_>, port: u16) -> Option<HttpsRedirect> {
        let Ok(Resource::Path { path, query }) = request.resource else { return None };
        let (host, _) = host::split_port(request.authority?);
        let query = query.map(|query| request.part(query).with_byte_before());
        Some(HttpsRedirect { port, host: request.part(host), path: request.path_part(path), query })
    }

    /// Writes all fields to the front of `to`; `bytes` are those of the request. Returns their length, or `None` if they do not fit.
    pub(crate) fn write(&self, bytes: &[u8], to: &mut [u8]) -> Option<usize> {
        let mut writer = BoundedWriter::new(to);
        writer.put(b"Location: https://")?;
        writer.put(self.host.of(bytes))?;
        if self.port != DEFAULT_PORT {
            writer.put(b":")?;
            writer.put_number(self.port.into())?;
        }
        writer.put_escaped(self.path.of(bytes))?;
        writer.put_escaped(self.query.map_or(b"", |query| query.of(bytes)))?;
        writer.put(REDIRECT_FIELDS)?;
        Some(writer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::request;
    use tarpon_http::head;

    #[test]
    #[rustfmt::skip]
    fn redirect_keeps_host_path_and_query() {
        let cases: &[(&str, &str, &str, u16, Option<&str>)] = &[
            // case           target                    host              port  location
            ("root",          "/",                      "example.org",    443,  Some("https://example.org/")),
            ("query",         "/a%20b?c=%0a",           "example.org",    443,  Some("https://example.org/a%20b?c=%0a")),
            ("plain port",    "/a",                     "example.org:80", 443,  Some("https://example.org/a")),
            ("other port",    "/a",                     "example.org:80", 8443, Some("https://example.org:8443/a")),
            ("IPv6",          "/",                      "[::1]:8080",     8443, Some("https://[::1]:8443/")),
            ("absolute",      "http://b.example/x?",    "a.example",      443,  Some("https://b.example/x?")),
            ("two slashes",   "//evil.example/",        "example.org",    443,  Some("https://example.org//evil.example/")),
            ("the server",    "*",                      "example.org",    443,  None),
        ];
        for &(name, target, host, port, want) in cases {
            let method = if target == "*" { "OPTIONS" } else { "GET" };
            let text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let (head, _) = head::parse(text.as_bytes()).unwrap().unwrap();
            let request = request(&head, text.as_bytes(), head.host().unwrap());
            let location = HttpsRedirect::new(&request, port).map(|redirect| {
                let mut to = [0; 300];
                let len = redirect.write(text.as_bytes(), &mut to).unwrap();
                let fields = String::from_utf8_lossy(&to[..len]).into_owned();
                let (location, rest) = fields.split_once("\r\n").unwrap();
                assert_eq!(rest.as_bytes(), &REDIRECT_FIELDS[2..], "{name}");
                location.strip_prefix("Location: ").unwrap().to_owned()
            });
            assert_eq!(location.as_deref(), want, "{name}");
        }
    }
}
