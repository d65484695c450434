//! The response to a health check of a load balancer.
//!
//! ```text
//! GET /healthz HTTP/1.1      200  ok          the server serves, or a successor takes over
//!                            503  stopping    the server stops: send clients elsewhere
//! ```
//!
//! The path is the same for every host, and no cache may store the response. A site that has something at the path answers itself, so
//! the check costs other requests nothing.

use crate::{bounded_writer::BoundedWriter, request::Request};
use tarpon_http::{head::Method, status::Status};

/// The response to a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    is_stopping: bool,
    with_content: bool,
}

impl Health {
    /// Returns the response to a request if it is a health check at this path.
    #[cold]
    pub(crate) fn new(
        request: &Request<'_>,
        health_path: &[u8],
        is_stopping: bool,
    ) -> Option<(Status, Health)> {
        if !matches!(request.method, Method::Get | Method::Head) || request.path() != Some(health_path) {
            return None;
        }
        let status = if is_stopping { Status::ServiceUnavailable } else { Status::Ok };
        Some((status, Health { is_stopping, with_content: request.with_content() }))
    }

    /// Writes all fields, and then the content, to the front of `to`. Returns their length, or `None` if they do not fit.
    pub(crate) fn write(self, to: &mut [u8]) -> Option<usize> {
        let mut writer = BoundedWriter::new(to);
        writer.put(b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n")?;
        writer.put(b"Cache-Control: no-store\r\nContent-Length: ")?;
        writer.put(if self.is_stopping { b"9" } else { b"3" })?;
        writer.put(b"\r\n\r\n")?;
        if self.with_content {
            writer.put(self.content())?;
        }
        Some(writer.len())
    }

    /// Returns the length of the content in bytes.
    pub(crate) fn content_len(self) -> u64 {
        if self.with_content { self.content().len() as u64 } else { 0 }
    }

    fn content(self) -> &'static [u8] {
        if self.is_stopping { b"stopping\n" } else { b"ok\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::request;
    use tarpon_http::head;

    /// The case, the request, whether the server stops, and the status and content of the response.
    type HealthCase = (&'static str, &'static str, bool, Option<(u16, &'static str)>);

    #[test]
    fn only_requests_for_the_path_are_answered() {
        #[rustfmt::skip]
        let cases: &[HealthCase] = &[
            // what it shows        request                        stopping   status, and content
            ("serves",              "GET /healthz",                false,     Some((200, "ok\n"))),
            ("stopping",            "GET /healthz",                true,      Some((503, "stopping\n"))),
            ("HEAD",                "HEAD /healthz",               false,     Some((200, ""))),
            ("HEAD, stopping",      "HEAD /healthz",               true,      Some((503, ""))),
            ("a query",             "GET /healthz?x",              false,     Some((200, "ok\n"))),
            ("with a host",         "GET http://h/healthz",        false,     Some((200, "ok\n"))),
            ("below it",            "GET /healthz/x",              false,     None),
            ("another case",        "GET /Healthz",                false,     None),
            ("the root",            "GET /",                       false,     None),
            ("another method",      "POST /healthz",               false,     None),
            ("OPTIONS",             "OPTIONS *",                   false,     None),
        ];
        for &(name, line, is_stopping, want) in cases {
            let wire = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
            let (head, _) = head::parse(wire.as_bytes()).expect(name).expect(name);
            let request = request(&head, wire.as_bytes(), head.host().expect(name));
            let answer = Health::new(&request, b"/healthz", is_stopping).map(|(status, health)| {
                let mut to = [0; 200];
                let len = health.write(&mut to).expect("room");
                let text = String::from_utf8(to[..len].to_vec()).expect("ASCII");
                let (fields, content) = text.split_once("\r\n\r\n").expect("an empty line");
                let len = if is_stopping { 9 } else { 3 };
                assert!(
                    fields.ends_with(&format!("Cache-Control: no-store\r\nContent-Length: {len}")),
                    "{name}"
                );
                assert_eq!(health.content_len(), content.len() as u64, "{name}");
                (status.code(), content.to_owned())
            });
            assert_eq!(answer.as_ref().map(|(code, content)| (*code, &**content)), want, "{name}");
        }
    }
}
