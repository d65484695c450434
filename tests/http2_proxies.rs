//! HTTP/2 through HAProxy and nginx: the same requests, mixed on one connection, get the same responses as directly.
//!
//! ```text
//! h2 of Python ─ HTTP/2 ─┬─────────────────────────────────▶ tarpon
//!                        ├─▶ HAProxy ─ HTTP/2, with and without TLS ─▶
//!                        └─▶ nginx ─ HTTP/1 ─▶
//! ```
//!
//! nginx speaks HTTP/2 to clients only.

use crate::{
    common::{distinct_bytes, other_server::OtherServer, port::ReservedPort, readable_dir},
    http2::{Http2Server, LARGE_LEN, engines, many_content, run_python},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// A request: method, target, fields, and length of the content; and its response: status, and content if the test knows it.
type MixedRequest<'a> = (&'a str, &'a str, Value, usize, u16, Option<&'a [u8]>);

/// How often each request of the first table is sent.
const ROUND_COUNT: usize = 3;

#[test]
fn proxies_change_no_response_of_mixed_requests() {
    let (page, large) = (b"page ".repeat(100), distinct_bytes(LARGE_LEN));
    #[rustfmt::skip]
    let mixed: &[MixedRequest<'_>] = &[
        // method   target           fields                                             length     status, content
        ("GET",     "/",             json!([]),                                         0,         200, Some(b"home")),
        ("HEAD",    "/page.txt",     json!([]),                                         0,         200, Some(b"")),
        ("GET",     "/empty.txt",    json!([]),                                         0,         200, Some(b"")),
        ("GET",     "/dir",          json!([]),                                         0,         301, None),
        ("GET",     "/dir/?a=b&c",   json!([]),                                         0,         200, Some(b"in here")),
        ("GET",     "/old/one",      json!([]),                                         0,         302, None),
        ("GET",     "/none",         json!([]),                                         0,         404, None),
        ("GET",     "/x/../page.txt", json!([]),                                        0,         200, Some(&page)),
        ("GET",     "/page.txt",     json!([["range", "bytes=5-9"]]),                   0,         206, Some(&page[5..10])),
        ("GET",     "/large",        json!([["range", "bytes=1000000-1199999"]]),       0,         206, Some(&large[1_000_000..1_200_000])),
        ("GET",     "/page.txt",     json!([["range", "bytes=90000-"]]),                0,         416, None),
        ("GET",     "/page.txt",     json!([["if-none-match", "*"]]),                   0,         304, Some(b"")),
        ("GET",     "/page.txt",     json!([["if-match", "\"x\""]]),                    0,         412, None),
        ("POST",    "/",             json!([]),                                         12,        405, None),
        ("POST",    "/many/3",       json!([]),                                         9_000,     405, None),
        ("BREW",    "/",             json!([]),                                         0,         501, None),
        ("OPTIONS", "/",             json!([]),                                         0,         204, Some(b"")),
    ];
    // A response with several ranges holds a buffer, so the server makes only a few of them at a time.
    let once: &[MixedRequest<'_>] = &[
        ("GET", "/page.txt", json!([["range", "bytes=0-9,100-109,-3"]]), 0, 206, None),
        ("GET", "/large", json!([]), 0, 200, Some(&large)),
    ];
    // Without long responses: HAProxy 2.6 reads no window while it holds a part of a content, so long contents in both directions may stall it.
    let uploads: &[MixedRequest<'_>] = &[
        ("POST", "/many/3", json!([]), 200_000, 405, None),
        ("POST", "/none", json!([]), 1_200_000, 413, None),
    ];
    let rounds = (0..ROUND_COUNT).flat_map(|_| mixed);
    let sequences = [rounds.chain(once).collect::<Vec<_>>(), uploads.iter().collect()];
    for engine in engines() {
        let served = Http2Server::start(engine, &[]);
        let fronts = Http2Fronts::start(&served);
        let origins = [&served.origins()[..], &fronts.origins].concat();
        for sequence in &sequences {
            check(&served, &origins, sequence);
        }
    }
}

/// Sends these requests to each origin, with one of a file behind each, and checks the responses.
fn check(served: &Http2Server, origins: &[String], sequence: &[&MixedRequest<'_>]) {
    let mut requests = Vec::new();
    for (method, target, fields, length, ..) in sequence {
        requests.push(json!({"method": method, "path": target, "fields": fields, "content_length": length}));
        requests.push(json!({"method": "GET", "path": format!("/many/{}", requests.len())}));
    }
    let found = run_python("http2_interleaved.py", origins, &served.tls, &json!(requests));
    let content = |at: usize| {
        BASE64_STANDARD.decode(found[at][2].as_str().expect("a text")).expect("content in base64")
    };
    for (at, (.., status, want)) in (0..).step_by(2).zip(sequence) {
        assert_eq!(found[at][0], *status, "{}: {}", requests[at], found[at]);
        assert!(want.is_none_or(|want| content(at) == want), "{}: {}", requests[at], found[at]);
        assert_eq!(found[at + 1][0], 200, "{}", requests[at + 1]);
        assert!(content(at + 1) == many_content(at + 1).into_bytes(), "{}", requests[at + 1]);
    }
}

/// Proxies before a server, and where they listen.
struct Http2Fronts {
    origins: Vec<String>,
    _proxies: [OtherServer; 2],
    _dir: TempDir,
}

impl Http2Fronts {
    fn start(served: &Http2Server) -> Http2Fronts {
        let dir = readable_dir();
        let ports = [(); 4].map(|()| ReservedPort::new());
        let [haproxy, haproxy_tls, nginx, nginx_tls] = ports.each_ref().map(|port| port.address);
        let [plain, secure] = served.program.addresses()[..] else { panic!("two listeners") };
        let (authority, [certificate, key]) =
            (served.tls.authority().display().to_string(), served.tls.files());
        // HAProxy reads both from one file.
        let both = dir.path().join("both.pem").display().to_string();
        let parts = [&certificate, &key].map(|file| fs::read_to_string(file).expect("a file"));
        fs::write(&both, parts.concat()).expect("a file");
        let haproxy_config = format!(
            "defaults\n  mode http\n  timeout connect 60s\n  timeout client 60s\n  timeout server 60s\n\
             listen plain\n  bind {haproxy} proto h2\n  server s {plain} proto h2\n\
             listen secure\n  bind {haproxy_tls} ssl crt {both} alpn h2\n\
             \x20 server s {secure} ssl verify required ca-file {authority} alpn h2\n"
        );
        let nginx_config = format!(
            "events {{}}\nhttp {{\n server {{\n  listen {nginx} http2;\n  listen {nginx_tls} ssl http2;\n\
             \x20 ssl_certificate {certificate};\n  ssl_certificate_key {key};\n  client_max_body_size 0;\n\
             \x20 location / {{\n   proxy_pass http://{plain};\n   proxy_http_version 1.1;\n\
             \x20  proxy_set_header Host $http_host;\n   proxy_set_header Connection \"\";\n\
             \x20  proxy_pass_header Server;\n  }}\n }}\n}}\n"
        );
        let configs = [("haproxy", haproxy_config, haproxy_tls), ("nginx", nginx_config, nginx_tls)];
        let proxies = configs.map(|(program, config, address)| {
            let mut proxy = OtherServer::start(program, &config, dir.path());
            drop(proxy.connect("127.0.0.1:0", address, program));
            proxy
        });
        let origins = [("http", haproxy), ("https", haproxy_tls), ("http", nginx), ("https", nginx_tls)];
        let origins = origins.map(|(scheme, address)| format!("{scheme}://{address}")).into();
        Http2Fronts { origins, _proxies: proxies, _dir: dir }
    }
}
