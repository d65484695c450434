//! Requests over HTTP/2 that a server behind, which gets HTTP/1, may understand in another way: `gadgets/README.md` has those of HTTP/1.
//!
//! ```text
//! client ─ gadget twice, GET /app/after ─ HTTP/2 ─▶ tarpon ─ HTTP/1 ─▶ a server that reads strictly, and records each request
//! ```
//!
//! Each gadget comes first as literals, then from the dynamic table.

use super::{
    http2::engines,
    http2_wire::{FieldClient, FieldCoding, Http2Answer, RawField},
    proxied::{Proxied, ProxyConfig},
    scripted::ScriptedServer,
    wire::StrictMessage,
};
use tarpon::Engine;

/// What the server behind must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    /// Nothing: the client gets an error.
    Refused,
    /// The request.
    Forwarded,
    /// One of both.
    Either,
}
use Passage::{Either, Forwarded, Refused};

/// A case, its fields, the parts of its content, its trailers, what the server gets, and a text that the server must not get.
type Http2Gadget = (
    &'static str,
    &'static [RawField<'static>],
    &'static [&'static str],
    &'static [RawField<'static>],
    Passage,
    &'static str,
);

const GET: RawField<'_> = (":method", "GET");
const POST: RawField<'_> = (":method", "POST");
const SCHEME: RawField<'_> = (":scheme", "http");
const AUTHORITY: RawField<'_> = (":authority", "a.example");
const PATH: RawField<'_> = (":path", "/app/gadget");

/// Content that is a request.
const SMUGGLED: &str = "GET /app/smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
/// The same behind the end of chunks.
const CHUNKED: &str = "0\r\n\r\nGET /app/smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
/// A text that no request has.
const NONE: &str = "\n\n";

// Fields of a request: the usual ones with further ones behind them, or with another value of one of them.
macro_rules! get {
    ($($field:expr),*) => { &[GET, SCHEME, AUTHORITY, PATH, $($field),*] };
}
macro_rules! post {
    ($($field:expr),*) => { &[POST, SCHEME, AUTHORITY, PATH, $($field),*] };
}
macro_rules! path {
    ($path:expr) => {
        &[GET, SCHEME, AUTHORITY, (":path", $path)]
    };
}
macro_rules! method {
    ($method:expr) => {
        &[(":method", $method), SCHEME, AUTHORITY, PATH]
    };
}
macro_rules! authority {
    ($authority:expr) => {
        &[GET, SCHEME, (":authority", $authority), PATH]
    };
}
macro_rules! scheme {
    ($scheme:expr) => {
        &[GET, (":scheme", $scheme), AUTHORITY, PATH]
    };
}

#[rustfmt::skip]
const GADGETS: &[Http2Gadget] = &[
    // case                            fields                                                              content, trailers       passage, not in it
    ("usual",                          get!(),                                                             &[], &[],               Forwarded, NONE),
    ("usual, with content",            post!(),                                                            &["hello"], &[],        Forwarded, NONE),
    // Paths.
    ("path, CR LF",                    path!("/app/gadget\r\n\r\nGET /app/smuggled"),                      &[], &[],               Refused, NONE),
    ("path, a line",                   path!("/app/gadget HTTP/1.1\r\nX-Smuggled: y\r\nX: "),              &[], &[],               Refused, NONE),
    ("path, LF",                       path!("/app/gadget\nX-Smuggled: y"),                                &[], &[],               Refused, NONE),
    ("path, CR",                       path!("/app/gadget\rX"),                                            &[], &[],               Refused, NONE),
    ("path, NUL",                      path!("/app/gadget\0"),                                             &[], &[],               Refused, NONE),
    ("path, space",                    path!("/app/gadget /app/smuggled"),                                 &[], &[],               Refused, NONE),
    ("path, version",                  path!("/app/gadget HTTP/1.0"),                                      &[], &[],               Refused, NONE),
    ("path, tab",                      path!("/app/gadget\tHTTP/1.1"),                                     &[], &[],               Refused, NONE),
    ("path, space first",              path!(" /app/gadget"),                                              &[], &[],               Refused, NONE),
    ("path, LF in the query",          path!("/app/gadget?a\r\nX-Smuggled: y"),                            &[], &[],               Refused, NONE),
    ("path, fragment",                 path!("/app/gadget#/app/smuggled"),                                 &[], &[],               Either, "#"),
    ("path, fragment in the query",    path!("/app/gadget?a#/app/smuggled"),                               &[], &[],               Either, "#"),
    ("path, high byte",                path!("/app/gadget?\u{e9}"),                                        &[], &[],               Either, NONE),
    ("path, escaped CR LF",            path!("/app/gadget?%0d%0aX-Smuggled:%20y"),                         &[], &[],               Either, "X-Smuggled: y"),
    ("path, escaped NUL",              path!("/app/gadget%00"),                                            &[], &[],               Either, NONE),
    ("path, invalid escape",           path!("/app/gadget?%zz"),                                           &[], &[],               Either, NONE),
    ("path, dots",                     path!("/app/x/../gadget"),                                          &[], &[],               Forwarded, NONE),
    ("path, escaped dots",             path!("/app/x/%2e%2E/gadget"),                                      &[], &[],               Forwarded, NONE),
    ("path, escaped escape",           path!("/app/%252e%252e/gadget"),                                    &[], &[],               Either, "/app/%2e"),
    ("path, dots with parameters",     path!("/app/..;/gadget"),                                           &[], &[],               Either, "GET /gadget"),
    ("path, backslash",                path!("/app/x\\..\\gadget"),                                        &[], &[],               Either, NONE),
    ("path, out of the prefix",        path!("/app/../smuggled"),                                          &[], &[],               Refused, NONE),
    ("path, out, escaped",             path!("/app/%2e%2e/smuggled"),                                      &[], &[],               Refused, NONE),
    ("path, out, escaped slash",       path!("/app/..%2fsmuggled"),                                        &[], &[],               Either, "/app/../"),
    ("path, relative",                 path!("app/gadget"),                                                &[], &[],               Refused, NONE),
    ("path, empty",                    path!(""),                                                          &[], &[],               Refused, NONE),
    ("path, asterisk",                 path!("*"),                                                         &[], &[],               Refused, NONE),
    ("path, absolute",                 path!("http://b.example/app/gadget"),                               &[], &[],               Refused, NONE),
    ("path, two slashes",              path!("//b.example/app/gadget"),                                    &[], &[],               Either, "Host: b.example"),
    ("path, @",                        path!("@b.example/app/gadget"),                                     &[], &[],               Refused, NONE),
    // Methods.
    ("method, a request",              method!("GET /app/smuggled HTTP/1.1\r\nHost: a.example\r\n\r\nGET"), &[], &[],              Refused, NONE),
    ("method, path",                   method!("GET /app/smuggled"),                                       &[], &[],               Refused, NONE),
    ("method, path and version",       method!("GET /app/smuggled HTTP/1.1 "),                             &[], &[],               Refused, NONE),
    ("method, LF",                     method!("GET\n"),                                                   &[], &[],               Refused, NONE),
    ("method, CR",                     method!("\rGET"),                                                   &[], &[],               Refused, NONE),
    ("method, NUL",                    method!("GET\0"),                                                   &[], &[],               Refused, NONE),
    ("method, space",                  method!("GET "),                                                    &[], &[],               Refused, NONE),
    ("method, tab",                    method!("\tGET"),                                                   &[], &[],               Refused, NONE),
    ("method, empty",                  method!(""),                                                        &[], &[],               Refused, NONE),
    ("method, no token",               method!("GE(T"),                                                    &[], &[],               Refused, NONE),
    ("method, small letters",          method!("get"),                                                     &[], &[],               Either, NONE),
    ("method, the preface",            &[(":method", "PRI"), SCHEME, AUTHORITY, (":path", "*")],            &[], &[],              Refused, NONE),
    ("TRACE",                          method!("TRACE"),                                                   &[], &[],               Either, NONE),
    ("CONNECT, path",                  method!("CONNECT"),                                                 &[], &[],               Refused, NONE),
    ("CONNECT",                        &[(":method", "CONNECT"), (":authority", "a.example:80")],          &[], &[],               Refused, NONE),
    ("CONNECT, protocol",              &[(":method", "CONNECT"), (":protocol", "websocket"), SCHEME, AUTHORITY, PATH], &[], &[],   Either, NONE),
    ("OPTIONS, content",               &[(":method", "OPTIONS"), SCHEME, AUTHORITY, PATH],                 &[SMUGGLED], &[],       Forwarded, NONE),
    ("DELETE, content",                &[(":method", "DELETE"), SCHEME, AUTHORITY, PATH],                  &[SMUGGLED], &[],       Forwarded, NONE),
    // Schemes.
    ("scheme, a target",               scheme!("http://a.example/app/smuggled?"),                          &[], &[],               Refused, NONE),
    ("scheme, CR LF",                  scheme!("http\r\nX-Smuggled: y"),                                   &[], &[],               Refused, NONE),
    ("scheme, space",                  scheme!("http "),                                                   &[], &[],               Refused, NONE),
    ("scheme, empty",                  scheme!(""),                                                        &[], &[],               Refused, NONE),
    ("scheme, another",                scheme!("ftp"),                                                     &[], &[],               Either, NONE),
    ("scheme, with TLS",               scheme!("https"),                                                   &[], &[],               Either, NONE),
    // Authorities.
    ("authority, CR LF",               authority!("a.example\r\nX-Smuggled: y"),                           &[], &[],               Refused, NONE),
    ("authority, LF",                  authority!("a.example\n"),                                          &[], &[],               Refused, NONE),
    ("authority, NUL",                 authority!("a.example\0"),                                          &[], &[],               Refused, NONE),
    ("authority, space",               authority!("a.example b.example"),                                  &[], &[],               Refused, NONE),
    ("authority, space first",         authority!(" a.example"),                                           &[], &[],               Refused, NONE),
    ("authority, path",                authority!("a.example/app/smuggled?"),                              &[], &[],               Refused, NONE),
    ("authority, fragment",            authority!("a.example#"),                                           &[], &[],               Refused, NONE),
    ("authority, user",                authority!("b.example@a.example"),                                  &[], &[],               Refused, NONE),
    ("authority, list",                authority!("a.example, b.example"),                                 &[], &[],               Refused, NONE),
    ("authority, two ports",           authority!("a.example:80:81"),                                      &[], &[],               Refused, NONE),
    ("authority, no port",             authority!("a.example:x"),                                          &[], &[],               Refused, NONE),
    ("authority, backslash",           authority!("a.example\\b"),                                         &[], &[],               Refused, NONE),
    ("authority, empty",               authority!(""),                                                     &[], &[],               Refused, NONE),
    ("no authority",                   &[GET, SCHEME, PATH],                                               &[], &[],               Refused, NONE),
    ("Host alone",                     &[GET, SCHEME, PATH, ("host", "b.example")],                        &[], &[],               Forwarded, "a.example"),
    ("Host, the same",                 get!(("host", "a.example")),                                        &[], &[],               Forwarded, "b.example"),
    ("Host, another",                  get!(("host", "b.example")),                                        &[], &[],               Refused, NONE),
    ("Host, another port",             get!(("host", "a.example:81")),                                     &[], &[],               Refused, NONE),
    ("Host, another user",             get!(("host", "b.example@a.example")),                              &[], &[],               Refused, NONE),
    ("Host, list",                     get!(("host", "a.example, b.example")),                             &[], &[],               Refused, NONE),
    ("Host, space",                    get!(("host", "a.example b.example")),                              &[], &[],               Refused, NONE),
    ("Host, path",                     get!(("host", "a.example/b.example")),                              &[], &[],               Refused, NONE),
    ("Host, CR LF",                    get!(("host", "a.example\r\nX-Smuggled: y")),                       &[], &[],               Refused, NONE),
    ("Host, empty",                    get!(("host", "")),                                                 &[], &[],               Refused, NONE),
    ("Host twice",                     get!(("host", "a.example"), ("host", "a.example")),                 &[], &[],               Refused, NONE),
    ("Host twice, another",            get!(("host", "a.example"), ("host", "b.example")),                 &[], &[],               Refused, NONE),
    ("Host alone, CR LF",              &[GET, SCHEME, PATH, ("host", "a.example\r\nX-Smuggled: y")],       &[], &[],               Refused, NONE),
    ("X-Forwarded-Host with _",        get!(("x_forwarded_host", "b.example")),                            &[], &[],               Either, "b.example"),
    // Pseudo-header fields.
    ("method twice",                   &[GET, POST, SCHEME, AUTHORITY, PATH],                              &[], &[],               Refused, NONE),
    ("scheme twice",                   &[GET, SCHEME, SCHEME, AUTHORITY, PATH],                            &[], &[],               Refused, NONE),
    ("authority twice",                &[GET, SCHEME, AUTHORITY, (":authority", "b.example"), PATH],        &[], &[],              Refused, NONE),
    ("path twice",                     &[GET, SCHEME, AUTHORITY, PATH, (":path", "/app/smuggled")],        &[], &[],               Refused, NONE),
    ("path twice, the first",          &[GET, SCHEME, AUTHORITY, (":path", "/app/smuggled"), PATH],        &[], &[],               Refused, NONE),
    ("path after a field",             &[GET, SCHEME, AUTHORITY, ("x", "y"), PATH],                        &[], &[],               Refused, NONE),
    ("path again after a field",       get!(("x", "y"), (":path", "/app/smuggled")),                       &[], &[],               Refused, NONE),
    ("method after a field",           &[SCHEME, AUTHORITY, PATH, ("x", "y"), GET],                        &[], &[],               Refused, NONE),
    ("authority after a field",        &[GET, SCHEME, PATH, ("host", "b.example"), AUTHORITY],             &[], &[],               Refused, NONE),
    ("no method",                      &[SCHEME, AUTHORITY, PATH],                                         &[], &[],               Refused, NONE),
    ("no scheme",                      &[GET, AUTHORITY, PATH],                                            &[], &[],               Refused, NONE),
    ("no path",                        &[GET, SCHEME, AUTHORITY],                                          &[], &[],               Refused, NONE),
    ("unknown pseudo-header field",    get!((":x", "y")),                                                  &[], &[],               Refused, NONE),
    ("pseudo-header field of responses", get!((":status", "200")),                                         &[], &[],               Refused, NONE),
    ("pseudo-header field, capital",   &[GET, SCHEME, AUTHORITY, (":Path", "/app/gadget")],                &[], &[],               Refused, NONE),
    ("pseudo-header field, space",     get!((":path ", "/app/smuggled")),                                  &[], &[],               Refused, NONE),
    ("pseudo-header field, protocol",  get!((":protocol", "websocket")),                                   &[], &[],               Refused, NONE),
    ("pseudo-header field, no name",   get!((":", "y")),                                                   &[], &[],               Refused, NONE),
    ("pseudo-header field, two colons", get!(("::path", "/app/smuggled")),                                 &[], &[],               Refused, NONE),
    // Names.
    ("name, empty",                    get!(("", "y")),                                                    &[], &[],               Refused, NONE),
    ("name, capitals",                 get!(("X-A", "y")),                                                 &[], &[],               Refused, NONE),
    ("name, Transfer-Encoding",        post!(("Transfer-Encoding", "chunked")),                            &[CHUNKED], &[],        Refused, NONE),
    ("name, space behind",             post!(("transfer-encoding ", "chunked")),                           &[CHUNKED], &[],        Refused, NONE),
    ("name, tab behind",               post!(("transfer-encoding\t", "chunked")),                          &[CHUNKED], &[],        Refused, NONE),
    ("name, space before",             post!((" transfer-encoding", "chunked")),                           &[CHUNKED], &[],        Refused, NONE),
    ("name, colon",                    post!(("transfer-encoding:", "chunked")),                           &[CHUNKED], &[],        Refused, NONE),
    ("name, colon and value",          post!(("transfer-encoding: chunked\r\nx", "y")),                    &[CHUNKED], &[],        Refused, NONE),
    ("name, a line before",            post!(("x: y\r\ntransfer-encoding", "chunked")),                    &[CHUNKED], &[],        Refused, NONE),
    ("name, LF",                       post!(("x\ntransfer-encoding", "chunked")),                         &[CHUNKED], &[],        Refused, NONE),
    ("name, CR",                       post!(("transfer-encoding\r", "chunked")),                          &[CHUNKED], &[],        Refused, NONE),
    ("name, CR first",                 post!(("\rtransfer-encoding", "chunked")),                          &[CHUNKED], &[],        Refused, NONE),
    ("name, NUL",                      post!(("transfer-encoding\0", "chunked")),                          &[CHUNKED], &[],        Refused, NONE),
    ("name, high byte",                get!(("x\u{e9}", "y")),                                             &[], &[],               Refused, NONE),
    ("name, DEL",                      get!(("x\x7f", "y")),                                               &[], &[],               Refused, NONE),
    ("name, quote",                    get!(("x\"", "y")),                                                 &[], &[],               Refused, NONE),
    ("name, slash",                    get!(("x/", "y")),                                                  &[], &[],               Refused, NONE),
    ("name, a request",                get!((" / HTTP/1.1\r\n\r\nGET /app/smuggled HTTP/1.1\r\nx", "y")),  &[], &[],               Refused, NONE),
    ("name, underscore",               post!(("transfer_encoding", "chunked")),                            &[CHUNKED], &[],        Either, NONE),
    // Values.
    ("value, CR LF",                   post!(("x", "y\r\nTransfer-Encoding: chunked")),                    &[CHUNKED], &[],        Refused, NONE),
    ("value, LF",                      post!(("x", "y\nTransfer-Encoding: chunked")),                      &[CHUNKED], &[],        Refused, NONE),
    ("value, CR",                      post!(("x", "y\rTransfer-Encoding: chunked")),                      &[CHUNKED], &[],        Refused, NONE),
    ("value, a request",               get!(("x", "y\r\n\r\nGET /app/smuggled HTTP/1.1\r\nHost: a.example")), &[], &[],            Refused, NONE),
    ("value, CR LF last",              get!(("x", "y\r\n")),                                               &[], &[],               Refused, NONE),
    ("value, CR LF first",             get!(("x", "\r\ny")),                                               &[], &[],               Refused, NONE),
    ("value, folded",                  get!(("x", "y\r\n z")),                                             &[], &[],               Refused, NONE),
    ("value, CR last",                 get!(("x", "y\r")),                                                 &[], &[],               Refused, NONE),
    ("value, NUL",                     get!(("x", "y\0z")),                                                &[], &[],               Refused, NONE),
    ("value, NUL last",                get!(("x", "y\0")),                                                 &[], &[],               Refused, NONE),
    ("value, vertical tab",            get!(("x", "y\x0bz")),                                              &[], &[],               Either, "\x0b"),
    ("value, DEL",                     get!(("x", "y\x7f")),                                               &[], &[],               Either, "\x7f"),
    ("value, space first",             get!(("x", " y")),                                                  &[], &[],               Refused, NONE),
    ("value, tab last",                get!(("x", "y\t")),                                                 &[], &[],               Refused, NONE),
    ("value, tab",                     get!(("x", "y\tz")),                                                &[], &[],               Either, NONE),
    ("value, high byte",               get!(("x", "\u{e9}")),                                              &[], &[],               Either, NONE),
    ("value, colon",                   get!(("x", "transfer-encoding: chunked")),                          &[], &[],               Forwarded, NONE),
    ("value, empty",                   get!(("x", "")),                                                    &[], &[],               Forwarded, NONE),
    ("cookie, CR LF",                  get!(("cookie", "a=b\r\nX-Smuggled: y"), ("cookie", "c")),          &[], &[],               Refused, NONE),
    // Fields of a connection of HTTP/1.
    ("Transfer-Encoding",              post!(("transfer-encoding", "chunked")),                            &[CHUNKED], &[],        Refused, NONE),
    ("Transfer-Encoding, identity",    post!(("transfer-encoding", "identity")),                           &[CHUNKED], &[],        Refused, NONE),
    ("Transfer-Encoding, empty",       post!(("transfer-encoding", "")),                                   &[CHUNKED], &[],        Refused, NONE),
    ("Transfer-Encoding, gzip",        post!(("transfer-encoding", "gzip, chunked")),                      &[CHUNKED], &[],        Refused, NONE),
    ("Transfer-Encoding and length",   post!(("content-length", "52"), ("transfer-encoding", "chunked")),  &[CHUNKED], &[],        Refused, NONE),
    ("Transfer-Encoding twice",        post!(("transfer-encoding", "x"), ("transfer-encoding", "chunked")), &[CHUNKED], &[],       Refused, NONE),
    ("Transfer-Encoding, GET",         get!(("transfer-encoding", "chunked")),                             &[], &[],               Refused, NONE),
    ("Connection",                     get!(("connection", "close")),                                      &[], &[],               Refused, NONE),
    ("Connection, another field",      get!(("connection", "x-forwarded-for"), ("x-forwarded-for", "198.51.100.9")), &[], &[],     Refused, NONE),
    ("Connection, length",             post!(("connection", "content-length"), ("content-length", "46")),  &[SMUGGLED], &[],       Refused, NONE),
    ("Keep-Alive",                     get!(("keep-alive", "timeout=5")),                                  &[], &[],               Refused, NONE),
    ("Proxy-Connection",               get!(("proxy-connection", "keep-alive")),                           &[], &[],               Refused, NONE),
    ("Upgrade",                        get!(("upgrade", "h2c")),                                           &[], &[],               Refused, NONE),
    ("Upgrade, WebSocket",             get!(("upgrade", "websocket"), ("connection", "upgrade")),          &[], &[],               Refused, NONE),
    ("HTTP2-Settings",                 get!(("http2-settings", "AAMAAABkAAQAAP__")),                       &[], &[],               Either, "HTTP2-Settings"),
    ("TE, gzip",                       get!(("te", "gzip")),                                               &[], &[],               Refused, NONE),
    ("TE, a list",                     get!(("te", "trailers, chunked")),                                  &[], &[],               Refused, NONE),
    ("TE, trailers",                   get!(("te", "trailers")),                                           &[], &[],               Forwarded, NONE),
    ("Expect",                         post!(("expect", "100-continue")),                                  &["hello"], &[],        Forwarded, NONE),
    ("Expect, GET",                    get!(("expect", "100-continue")),                                   &[], &[],               Either, NONE),
    ("Expect, unknown",                post!(("expect", "x 100-continue")),                                &[SMUGGLED], &[],       Either, NONE),
    // Lengths.
    ("length",                         post!(("content-length", "5")),                                     &["hello"], &[],        Forwarded, NONE),
    ("length, in two parts",           post!(("content-length", "5")),                                     &["he", "llo"], &[],    Forwarded, NONE),
    ("length, none",                   post!(),                                                            &[SMUGGLED], &[],       Forwarded, NONE),
    ("length, none, GET",              get!(),                                                             &[SMUGGLED], &[],       Forwarded, NONE),
    ("length, none, empty content",    get!(),                                                             &[""], &[],             Forwarded, NONE),
    ("length of nothing",              post!(("content-length", "0")),                                     &[], &[],               Forwarded, NONE),
    ("length 0",                       post!(("content-length", "0")),                                     &[SMUGGLED], &[],       Refused, NONE),
    ("length too small",               post!(("content-length", "5")),                                     &["helloGET /app/smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"], &[], Refused, NONE),
    ("length too small, two parts",    post!(("content-length", "5")),                                     &["hello", SMUGGLED], &[], Either, "smuggled"),
    ("length too large",               post!(("content-length", "99")),                                    &["hello"], &[],        Refused, NONE),
    ("length without content",         post!(("content-length", "46")),                                    &[], &[],               Refused, NONE),
    ("length and an empty content",    post!(("content-length", "46")),                                    &[""], &[],             Refused, NONE),
    ("length without content, GET",    get!(("content-length", "1")),                                      &[], &[],               Refused, NONE),
    ("length with a sign",             post!(("content-length", "+5")),                                    &["hello"], &[],        Refused, NONE),
    ("length, negative",               post!(("content-length", "-5")),                                    &["hello"], &[],        Refused, NONE),
    ("length, hexadecimal",            post!(("content-length", "0x5")),                                   &["hello"], &[],        Refused, NONE),
    ("length with a fraction",         post!(("content-length", "5.0")),                                   &["hello"], &[],        Refused, NONE),
    ("length with an exponent",        post!(("content-length", "5e0")),                                   &["hello"], &[],        Refused, NONE),
    ("length with a space",            post!(("content-length", "0 5")),                                   &["hello"], &[],        Refused, NONE),
    ("length with an underscore",      post!(("content-length", "0_5")),                                   &["hello"], &[],        Refused, NONE),
    ("length, empty",                  post!(("content-length", "")),                                      &["hello"], &[],        Refused, NONE),
    ("length, NUL",                    post!(("content-length", "5\0")),                                   &["hello"], &[],        Refused, NONE),
    ("length, CR LF",                  post!(("content-length", "5\r\nX-Smuggled: y")),                    &["hello"], &[],        Refused, NONE),
    ("length, 65 bits",                post!(("content-length", "18446744073709551621")),                  &["hello"], &[],        Refused, NONE),
    ("length with zeros",              post!(("content-length", "0000000005")),                            &["hello"], &[],        Either, NONE),
    ("length twice, the same",         post!(("content-length", "5"), ("content-length", "5")),            &["hello"], &[],        Either, NONE),
    ("length twice",                   post!(("content-length", "5"), ("content-length", "0")),            &["hello"], &[],        Refused, NONE),
    ("length, list of the same",       post!(("content-length", "5, 5")),                                  &["hello"], &[],        Either, NONE),
    ("length, list",                   post!(("content-length", "5, 0")),                                  &["hello"], &[],        Refused, NONE),
    ("length with _",                  post!(("content-length", "5"), ("content_length", "0")),            &["hello"], &[],        Either, NONE),
    // Trailers.
    ("trailers",                       post!(),                                                            &["hello"], &[("x-sum", "y")], Forwarded, NONE),
    ("trailers, length",               post!(),                                                            &["hello"], &[("content-length", "0")], Either, "Content-Length"),
    ("trailers, another length",       post!(("content-length", "5")),                                     &["hello"], &[("content-length", "0")], Either, "Content-Length: 0"),
    ("trailers, Transfer-Encoding",    post!(),                                                            &["hello"], &[("transfer-encoding", "chunked")], Refused, NONE),
    ("trailers, Connection",           post!(),                                                            &["hello"], &[("connection", "close")], Refused, NONE),
    ("trailers, Host",                 post!(),                                                            &["hello"], &[("host", "b.example")], Either, "b.example"),
    ("trailers, X-Forwarded-For",      post!(),                                                            &["hello"], &[("x-forwarded-for", "198.51.100.9")], Either, "198.51.100.9"),
    ("trailers, CR LF",                post!(),                                                            &["hello"], &[("x", "y\r\n\r\nGET /app/smuggled HTTP/1.1")], Refused, NONE),
    ("trailers, CR LF in the name",    post!(),                                                            &["hello"], &[("x: y\r\n\r\nGET /app/smuggled HTTP/1.1\r\nx", "y")], Refused, NONE),
    ("trailers, empty name",           post!(),                                                            &["hello"], &[("", "y")], Refused, NONE),
    ("trailers, NUL",                  post!(),                                                            &["hello"], &[("x", "\0")], Refused, NONE),
    ("trailers, capitals",             post!(),                                                            &["hello"], &[("X", "y")], Refused, NONE),
    ("trailers, path",                 post!(),                                                            &["hello"], &[(":path", "/app/smuggled")], Refused, NONE),
    ("trailers, method",               post!(),                                                            &["hello"], &[(":method", "GET")], Refused, NONE),
    ("trailers without content",       post!(),                                                            &[], &[("x-sum", "y")], Forwarded, NONE),
    ("trailers before the length",     post!(("content-length", "46")),                                    &["hello"], &[("x-sum", "y")], Refused, NONE),
];

#[test]
fn servers_get_what_was_understood() {
    let server = ScriptedServer::naming_targets();
    for engine in engines() {
        let proxied = Proxied::start(engine, &[server.url()], ProxyConfig::default());
        let failures: String = GADGETS
            .iter()
            .filter_map(|gadget| failure(gadget, &proxied, &server))
            .map(|failure| format!("{engine}, {failure}\n"))
            .collect();
        assert!(failures.is_empty(), "\n{failures}");
    }
}

/// Sends a gadget, then usual requests, and describes a failure.
fn failure(gadget: &Http2Gadget, proxied: &Proxied, server: &ScriptedServer) -> Option<String> {
    let (case, fields, parts, trailers, ..) = *gadget;
    let before = server.requests().len();
    let mut client = FieldClient::connect(proxied.address());
    let mut answers = vec![client.ask(fields, FieldCoding::Literals, parts, trailers)];
    // Trailers add to the table too.
    if trailers.is_empty() && !client.has_ended() {
        answers.push(client.ask(fields, FieldCoding::Indexes, parts, trailers));
    }
    let usual = |path| [GET, SCHEME, AUTHORITY, (":path", path)];
    let after =
        (!client.has_ended()).then(|| client.ask(&usual("/app/after"), FieldCoding::Literals, &[], &[]));
    // The next client, perhaps on the same connection to the server.
    let mut next = FieldClient::connect(proxied.address());
    let next = next.ask(&usual("/app/next"), FieldCoding::Literals, &[], &[]);
    let seen: Vec<StrictMessage> =
        server.requests().split_off(before).into_iter().map(|seen| seen.message).collect();
    let failure = server.fault().or_else(|| judge(gadget, &answers, after.as_ref(), &next, &seen))?;
    let shown: Vec<String> = seen.iter().map(|message| format!("\n    server got   {message}")).collect();
    Some(format!("{case}: {failure}\n    client got   {answers:?}, {after:?}, {next:?}{}", shown.concat()))
}

fn judge(
    &(_, _, parts, _, passage, lacks): &Http2Gadget,
    answers: &[Http2Answer],
    after: Option<&Http2Answer>,
    next: &Http2Answer,
    seen: &[StrictMessage],
) -> Option<String> {
    let is_for = |answer: &Http2Answer, target: &str| {
        (answer.status, &answer.content[..], answer.is_complete) == (Some(200), target.as_bytes(), true)
    };
    let (last, seen) = seen.split_last()?;
    if !is_for(next, "/app/next") || last.target() != "/app/next" {
        return Some("the next client got another response".to_owned());
    }
    let gadgets = match after {
        None => seen,
        Some(after) => {
            let (last, gadgets) = seen.split_last()?;
            if !is_for(after, "/app/after") || last.target() != "/app/after" {
                return Some("the request behind got another response".to_owned());
            }
            gadgets
        }
    };
    let is_smuggled = |request: &StrictMessage| {
        request.target().split(['/', '?']).any(|part| part == "smuggled") || request.contains("\nX-Smuggled:")
    };
    if gadgets.iter().any(is_smuggled) {
        return Some("a part became a request or a field".to_owned());
    }
    if gadgets.iter().any(|request| request.contains(lacks)) {
        return Some(format!("has {lacks:?}"));
    }
    let content = parts.concat();
    if gadgets.iter().any(|request| passage == Forwarded && request.content != content.as_bytes()) {
        return Some("another content".to_owned());
    }
    // A response is for its request.
    let answered: Vec<&Http2Answer> = answers.iter().filter(|answer| answer.status == Some(200)).collect();
    let is_answered = |answer: &&Http2Answer| gadgets.iter().any(|request| is_for(answer, request.target()));
    if answered.len() > gadgets.len() || gadgets.len() > answers.len() || !answered.iter().all(is_answered) {
        return Some("responses and requests differ".to_owned());
    }
    let is_refusal = |answer: &Http2Answer| answer.status.is_none_or(|status| status >= 400);
    match passage {
        Refused if !gadgets.is_empty() => Some("forwarded".to_owned()),
        Refused if !answers.iter().all(is_refusal) => Some("neither forwarded nor refused".to_owned()),
        Forwarded if answered.len() != answers.len() => Some("not forwarded".to_owned()),
        Either if !answers.iter().all(|answer| is_refusal(answer) || answer.status == Some(200)) => {
            Some("neither forwarded nor refused".to_owned())
        }
        _ => None,
    }
}

#[test]
fn a_passage_that_is_not_wanted_is_noticed() {
    let server = ScriptedServer::naming_targets();
    let proxied = Proxied::start(Engine::default(), &[server.url()], ProxyConfig::default());
    #[rustfmt::skip]
    let cases: &[(Http2Gadget, Option<&str>)] = &[
        (("usual",            get!(),                       &["hello"], &[], Forwarded, NONE),     None),
        (("usual",            get!(),                       &["hello"], &[], Refused, NONE),       Some("forwarded")),
        (("a field",          get!(("x", "y")),             &[],        &[], Forwarded, "X: y"),   Some("has \"X: y\"")),
        (("another path",     path!("/app/smuggled?a"),     &[],        &[], Either, NONE),        Some("a part became a request or a field")),
        (("a malformed path", path!("*"),                   &[],        &[], Forwarded, NONE),     Some("not forwarded")),
        (("another site",     path!("/"),                   &[],        &[], Refused, NONE),       Some("responses and requests differ")),
    ];
    for (gadget, want) in cases {
        let found = failure(gadget, &proxied, &server);
        let found = found.as_ref().map(|text| text.split('\n').next().expect("a line"));
        assert_eq!(found, want.map(|want| format!("{}: {want}", gadget.0)).as_deref());
    }
}
