//! The answer to a load balancer that asks whether this server is to be sent clients.
//!
//! ```text
//! GET /healthz HTTP/1.1      200  ok          it serves, or another takes over what it serves
//!                            503  stopping    it ends: send clients elsewhere
//! ```
//!
//! It is asked whatever the host, and so often that no cache may keep the answer. It stands only where a site has nothing: a request
//! that is answered otherwise never comes here, and costs nothing.
//!
//! Knows nothing of sites.

use crate::room::Room;
use tarpon_http::{
    head::{Head, Method},
    status::Status,
    target::{self, Target},
};

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    is_stopping: bool,
    with_content: bool,
}

impl Health {
    /// What is answered to a request, if it is one for this path.
    #[cold]
    pub(crate) fn new(head: &Head<'_>, health_path: &[u8], is_stopping: bool) -> Option<(Status, Health)> {
        let with_content = match head.method {
            Method::Get => true,
            Method::Head => false,
            _ => return None,
        };
        let (Target::Origin { path, .. } | Target::Absolute { path, .. }) =
            target::parse(head.method, head.target).ok()?
        else {
            return None;
        };
        let status = if is_stopping { Status::ServiceUnavailable } else { Status::Ok };
        (path == health_path).then_some((status, Health { is_stopping, with_content }))
    }

    /// Writes all fields, and the content behind them, to the front of `to`. Returns their length. None: there is no room.
    pub(crate) fn write(self, to: &mut [u8]) -> Option<usize> {
        let mut room = Room::new(to);
        room.put(b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n")?;
        room.put(b"Cache-Control: no-store\r\nContent-Length: ")?;
        room.put(if self.is_stopping { b"9" } else { b"3" })?;
        room.put(b"\r\n\r\n")?;
        if self.with_content {
            room.put(self.content())?;
        }
        Some(room.len())
    }

    /// Bytes of content.
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
    use tarpon_http::head;

    /// What it shows; the request; whether the server stops; status and content, if it is one for the path.
    type Asked = (&'static str, &'static str, bool, Option<(u16, &'static str)>);

    #[test]
    fn only_who_asks_for_the_path_is_answered() {
        #[rustfmt::skip]
        let cases: &[Asked] = &[
            // what it shows        request                        stopping   status, and content
            ("well",                "GET /healthz",                false,     Some((200, "ok\n"))),
            ("it ends",             "GET /healthz",                true,      Some((503, "stopping\n"))),
            ("HEAD",                "HEAD /healthz",               false,     Some((200, ""))),
            ("HEAD, it ends",       "HEAD /healthz",               true,      Some((503, ""))),
            ("a query",             "GET /healthz?x",              false,     Some((200, "ok\n"))),
            ("with a host",         "GET http://h/healthz",        false,     Some((200, "ok\n"))),
            ("below it",            "GET /healthz/x",              false,     None),
            ("another case",        "GET /Healthz",                false,     None),
            ("the root",            "GET /",                       false,     None),
            ("another method",      "POST /healthz",               false,     None),
            ("OPTIONS",             "OPTIONS *",                   false,     None),
        ];
        for &(name, request, is_stopping, want) in cases {
            let wire = format!("{request} HTTP/1.1\r\nHost: h\r\n\r\n");
            let (head, _) = head::parse(wire.as_bytes()).expect(name).expect(name);
            let answer = Health::new(&head, b"/healthz", is_stopping).map(|(status, health)| {
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
