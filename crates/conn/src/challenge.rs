//! The answer to an ACME directory that checks a name by http-01: RFC 8555, section 8.3.
//!
//! ```text
//! GET /.well-known/acme-challenge/TOKEN      200, the key authorization: the host and the token are known
//!                                            otherwise the request is like any other
//! ```
//!
//! It comes before routes, redirects and rules. Without the lookup, as in a server that obtains no certificates, no request passes here.

use crate::{
    bounded_writer::BoundedWriter,
    request::{Request, RequestPart},
};
use std::sync::Arc;
use tarpon_http::{head::Method, host};

/// Finds the answer for a host, without its port, and a token. Writes it to the front of the buffer, which has
/// [`CHALLENGE_ANSWER_LEN_MAX`] bytes, and returns its length. Called from any thread.
pub type FindChallenge = Arc<dyn Fn(&[u8], &[u8], &mut [u8]) -> Option<usize> + Send + Sync>;

/// Bytes of an answer, at most: a token of up to 128 bytes, a dot, and a thumbprint of 43.
pub const CHALLENGE_ANSWER_LEN_MAX: usize = 192;

/// What precedes the token in the path.
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// A request of a directory for an answer that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    host: RequestPart,
    token: RequestPart,
    len: u16,
    with_content: bool,
}

impl Challenge {
    /// Returns the challenge that a request asks for.
    pub(crate) fn find(request: &Request<'_>, find: &FindChallenge) -> Option<Challenge> {
        let token = request.path()?.strip_prefix(PATH)?;
        if !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        let (host, _) = host::split_port(request.authority?);
        let len = find(host, token, &mut [0; CHALLENGE_ANSWER_LEN_MAX])?;
        Some(Challenge {
            host: request.part(host),
            token: request.part(token),
            len: len as u16,
            with_content: request.with_content(),
        })
    }

    /// Writes all fields, and then the content, to the front of `to`. `bytes` contain the request. Returns the length, or `None` if the
    /// challenge has been removed, or if it does not fit.
    pub(crate) fn write(self, find: &FindChallenge, bytes: &[u8], to: &mut [u8]) -> Option<usize> {
        let mut answer = [0; CHALLENGE_ANSWER_LEN_MAX];
        let len = find(self.host.of(bytes), self.token.of(bytes), &mut answer)?;
        if len != self.len as usize {
            return None;
        }
        let mut writer = BoundedWriter::new(to);
        writer.put(b"Content-Type: text/plain\r\nX-Content-Type-Options: nosniff\r\n")?;
        writer.put(b"Cache-Control: no-store\r\nContent-Length: ")?;
        writer.put_number(len as u64)?;
        writer.put(b"\r\n\r\n")?;
        if self.with_content {
            writer.put(&answer[..len])?;
        }
        Some(writer.len())
    }

    /// Returns the length of the content in bytes.
    pub(crate) fn content_len(self) -> u64 {
        if self.with_content { self.len.into() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::request;
    use tarpon_http::head;

    #[test]
    fn only_known_tokens_of_their_host_are_answered() {
        let known: FindChallenge = Arc::new(|host, token, to| {
            let answer = match (host, token) {
                (b"a.example", b"tok-en_1") => b"tok-en_1.print",
                _ => return None,
            };
            to[..answer.len()].copy_from_slice(answer);
            Some(answer.len())
        });
        #[rustfmt::skip]
        let cases: &[(&str, &str, Option<&str>)] = &[
            // what it shows      request line and host                                                          content
            ("known",             "GET /.well-known/acme-challenge/tok-en_1 HTTP/1.1\r\nHost: a.example",        Some("tok-en_1.print")),
            ("HEAD",              "HEAD /.well-known/acme-challenge/tok-en_1 HTTP/1.1\r\nHost: a.example",       Some("")),
            ("with a port",       "GET /.well-known/acme-challenge/tok-en_1 HTTP/1.1\r\nHost: a.example:80",     Some("tok-en_1.print")),
            ("absolute",          "GET http://a.example/.well-known/acme-challenge/tok-en_1 HTTP/1.1\r\nHost: b", Some("tok-en_1.print")),
            ("another host",      "GET /.well-known/acme-challenge/tok-en_1 HTTP/1.1\r\nHost: b.example",        None),
            ("another token",     "GET /.well-known/acme-challenge/tok-en_2 HTTP/1.1\r\nHost: a.example",        None),
            ("a longer token",    "GET /.well-known/acme-challenge/tok-en_1/ HTTP/1.1\r\nHost: a.example",       None),
            ("no token",          "GET /.well-known/acme-challenge/ HTTP/1.1\r\nHost: a.example",                None),
            ("another path",      "GET /.well-known/acme-challenges HTTP/1.1\r\nHost: a.example",                None),
            ("another method",    "POST /.well-known/acme-challenge/tok-en_1 HTTP/1.1\r\nHost: a.example",       None),
            ("no host",           "GET /.well-known/acme-challenge/tok-en_1 HTTP/1.0\r\nA: b",                   None),
        ];
        for &(name, head, want) in cases {
            let wire = format!("{head}\r\n\r\n");
            let (head, _) = head::parse(wire.as_bytes()).expect(name).expect(name);
            let request = request(&head, wire.as_bytes(), head.host().expect(name));
            let answer = Challenge::find(&request, &known).map(|challenge| {
                let mut to = [0; 400];
                let len = challenge.write(&known, wire.as_bytes(), &mut to).expect("room");
                let text = String::from_utf8(to[..len].to_vec()).expect("ASCII");
                let (fields, content) = text.split_once("\r\n\r\n").expect("an empty line");
                assert!(fields.ends_with("\r\nContent-Length: 14"), "{name}: {fields}");
                assert_eq!(challenge.content_len(), content.len() as u64, "{name}");
                let gone: FindChallenge = Arc::new(|_, _, _| None);
                assert_eq!(
                    challenge.write(&gone, wire.as_bytes(), &mut to),
                    None,
                    "{name}: a removed challenge"
                );
                content.to_owned()
            });
            assert_eq!(answer.as_deref(), want, "{name}");
        }
    }
}
