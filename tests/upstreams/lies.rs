//! Servers that break the rules. An invalid head becomes 502 with the page of the site; invalid content never looks complete.

use super::{
    proxied::{get, on_every_engine, request},
    scripted::{AfterResponse, ScriptedServer, ok},
    wire::{StrictMessage, WireError},
};
use AfterResponse::{Close, Hold, Keep};

/// A case, what the server sends, and what it does then.
type Lie = (&'static str, &'static [u8], AfterResponse);

/// Heads of which no field may be believed.
#[rustfmt::skip]
const HEADS: &[Lie] = &[
    ("nothing",                      b"",                                                                              Close),
    ("part of a head",               b"HTTP/1.1 200 OK\r\nContent-Le",                                                 Close),
    ("text",                         b"hello\r\n\r\n",                                                                 Close),
    ("TLS",                          b"\x15\x03\x01\x00\x02\x02\x0a",                                                  Close),
    ("HTTP/0.9",                     b"<html>hello</html>",                                                            Close),
    ("empty line",                   b"\r\n\r\n",                                                                      Close),
    ("version 2",                    b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",                                  Keep),
    ("version in lower case",        b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",                                  Keep),
    ("no status",                    b"HTTP/1.1\r\nContent-Length: 0\r\n\r\n",                                         Keep),
    ("two digits",                   b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",                                   Keep),
    ("four digits",                  b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",                                 Keep),
    ("signed status",                b"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n",                                  Keep),
    ("status below 100",             b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",                                  Keep),
    ("two spaces",                   b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",                                 Keep),
    ("switch that was not asked",    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", Hold),
    ("bare LF",                      b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",                                        Keep),
    ("bare LF in a field",           b"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 0\r\n\r\n",                            Keep),
    ("bare CR",                      b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n",                       Keep),
    ("NUL",                          b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",                       Keep),
    ("no colon",                     b"HTTP/1.1 200 OK\r\nhello\r\nContent-Length: 0\r\n\r\n",                         Keep),
    ("no name",                      b"HTTP/1.1 200 OK\r\n: hello\r\nContent-Length: 0\r\n\r\n",                       Keep),
    ("space in a name",              b"HTTP/1.1 200 OK\r\nX Y: hello\r\nContent-Length: 0\r\n\r\n",                    Keep),
    ("length and chunks",            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Keep),
    ("two lengths",                  b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",           Keep),
    ("two lengths in one",           b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab",                             Keep),
    ("signed length",                b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",                                Keep),
    ("negative length",              b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na",                                Keep),
    ("hexadecimal length",           b"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\na",                               Keep),
    ("length in words",              b"HTTP/1.1 200 OK\r\nContent-Length: 1 1\r\n\r\na",                               Keep),
    ("empty length",                 b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\na",                                   Close),
    ("length above 64 bits",         b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\na",              Keep),
    ("another coding",               b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",                            Close),
    ("a second coding",              b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",          Close),
    ("chunked twice",                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",       Close),
    ("two lines of codings",         b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", Close),
    ("another word",                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",               Close),
    ("chunks of HTTP/1.0",           b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",                Close),
    ("invalid interim response",     b"HTTP/1.1 103 Early Hints\nLink: a\n\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Keep),
    ("end behind interim response",  b"HTTP/1.1 100 Continue\r\n\r\n",                                                 Close),
];

/// Heads that a proxy may repair: 502, or what the field means.
#[rustfmt::skip]
const REPAIRED: &[Lie] = &[
    ("folded line",                  b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",                    Keep),
    ("folded first line",            b"HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 0\r\n\r\n",                         Keep),
    ("folded length",                b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 0\r\n\r\n",                              Keep),
    ("space before a colon",         b"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n",                         Keep),
    ("space before the length",      b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",                                 Keep),
    ("the same length twice",        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",             Keep),
    ("the same length in one",       b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n",                               Keep),
    ("status above 599",             b"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",                                  Keep),
    ("no space behind the status",   b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",                                     Keep),
];

/// Contents that no length ends.
#[rustfmt::skip]
const CONTENTS: &[Lie] = &[
    ("shorter than its length",      b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",                             Close),
    ("no chunk",                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",                         Close),
    ("no last chunk",                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",           Close),
    ("cut chunk",                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",               Close),
    ("cut trailers",                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y",  Close),
    ("no end of the trailers",       b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",      Close),
    ("no number",                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n0\r\n\r\n",       Hold),
    ("empty size",                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",                 Hold),
    ("signed size",                  b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", Hold),
    ("hexadecimal mark",             b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", Hold),
    ("underscore",                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0_5\r\nhello\r\n0\r\n\r\n", Hold),
    ("space before the size",        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", Hold),
    ("size above 64 bits",           b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", Hold),
    ("longer than its size",         b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",  Hold),
    ("shorter than its size",        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello\r\n0\r\n\r\n",  Hold),
    ("bare LF behind the size",      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",    Hold),
    ("bare LF in an extension",      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n", Hold),
    ("bare LF behind the data",      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",    Hold),
    ("invalid trailer",              b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX : y\n\r\n", Hold),
];

/// Starts a server that responds to `/app/NUMBER` with a lie, and to other paths with their names.
fn liar(lies: &'static [Lie]) -> ScriptedServer {
    ScriptedServer::responding(|request| match lie_of(lies, request) {
        Some((_, bytes, then)) => (bytes.to_vec(), *then),
        None => (ok(request.target()), Keep),
    })
}

fn lie_of<'a>(lies: &'a [Lie], request: &StrictMessage) -> Option<&'a Lie> {
    request.target().strip_prefix("/app/")?.parse::<usize>().ok().map(|number| &lies[number])
}

#[test]
fn invalid_heads_are_bad_gateways() {
    let server = liar(HEADS);
    on_every_engine(&server, |proxied, engine| {
        for (number, (case, ..)) in HEADS.iter().enumerate() {
            let response = proxied.get(&format!("/app/{number}"));
            let page = "page of the site for 502";
            assert_eq!((response.status(), &*response.text()), (502, page), "{engine}, {case}");
            // No later byte of the server is a response.
            let response = proxied.get("/app/good");
            assert_eq!((response.status(), &*response.text()), (200, "/app/good"), "{engine}, {case}");
            let response = proxied.ask(request("HEAD", &format!("/app/{number}"), "")).response;
            // No content follows, so a client is not misled by how it would end. The reader has checked the framing.
            assert!(matches!(response.status(), 200 | 502), "{engine}, {case}, HEAD: {response}");
        }
    });
}

#[test]
fn unclear_heads_are_repaired_or_bad_gateways() {
    let server = liar(REPAIRED);
    on_every_engine(&server, |proxied, engine| {
        for (number, (case, ..)) in REPAIRED.iter().enumerate() {
            let response = proxied.get(&format!("/app/{number}"));
            if response.status() == 502 {
                assert_eq!(response.text(), "page of the site for 502", "{engine}, {case}");
            } else {
                assert_eq!(response.text(), "", "{engine}, {case}: {response}");
            }
            let response = proxied.get("/app/good");
            assert_eq!((response.status(), &*response.text()), (200, "/app/good"), "{engine}, {case}");
        }
    });
}

#[test]
fn invalid_contents_never_look_complete() {
    let server = liar(CONTENTS);
    on_every_engine(&server, |proxied, engine| {
        for (number, (case, ..)) in CONTENTS.iter().enumerate() {
            let mut client = proxied.connect();
            client.send(get(&format!("/app/{number}")));
            match client.try_answered("GET") {
                Err(WireError::Cut(_)) => {}
                Ok(answered) if answered.response.status() == 502 => {}
                other => panic!("{engine}, {case}: {other:?}"),
            }
            assert_eq!(proxied.get("/app/good").text(), "/app/good", "{engine}, {case}");
        }
    });
}

#[test]
fn oversized_heads_are_bad_gateways() {
    let server = ScriptedServer::responding(|request| {
        let fields = match request.target() {
            "/app/line" => format!("X: {}\r\n", "x".repeat(4 << 20)),
            "/app/fields" => "X: y\r\n".repeat(1 << 19),
            "/app/status" => {
                return (format!("HTTP/1.1 200 {}", "x".repeat(4 << 20)).into_bytes(), Hold);
            }
            "/app/interim" => {
                return ("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n".repeat(100_000).into_bytes(), Hold);
            }
            target => return (ok(target), Keep),
        };
        (format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").into_bytes(), Keep)
    });
    on_every_engine(&server, |proxied, engine| {
        for target in ["/app/line", "/app/fields", "/app/status", "/app/interim"] {
            // A client of HTTP/1.0 gets no interim response.
            let answered = proxied.ask(format!("GET {target} HTTP/1.0\r\nHost: a.example\r\n\r\n"));
            assert_eq!(answered.response.status(), 502, "{engine}, {target}: {answered:?}");
        }
        // A response may have long fields.
        assert_eq!(proxied.get("/app/good").text(), "/app/good", "{engine}");
    });
}
