//! Exchanges with a backend: messages pass through a bounded pipe, an aborted backend never looks complete, and nothing is left behind.

use super::{properties::through, sites::site};
use proptest::{collection::vec, prelude::*, sample::select};
use std::num::NonZeroU32;
use std::sync::Arc;
use tarpon_conn::{
    BackendId, BackendLimits, BackendRoute, BackendSim, Hosts, Limits, Record, Recording, Records,
    RouteTable, RouteTarget, SiteId, Sites,
    sim::{Cuts, Through},
};

/// A worker with a site, and a backend for the paths below `/app/`.
pub(crate) fn worker() -> BackendSim {
    worker_with(BackendLimits::default())
}

fn worker_with(limits: BackendLimits) -> BackendSim {
    let mut routes = RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))));
    let route = RouteTarget::Backend(BackendRoute { backend: BackendId(0), limits });
    routes.add(None, "/app".parse().unwrap(), route).unwrap();
    BackendSim::new(Sites::by_route([(site("hello"), Limits::default())], [routes].into()))
}

/// Returns what a client receives for these bytes.
fn respond(request: &str) -> String {
    let mut sim = worker();
    let client = sim.connect();
    sim.client_sends(client, request.as_bytes());
    sim.run(Cuts::NONE);
    let received = sim.take_received(client);
    String::from_utf8(received).expect("text")
}

/// Returns the response without the fields that all responses have.
fn without_usual_fields(response: &str) -> String {
    let usual = ["Server: ", "Date: ", "content-type: ", "x-path: ", "x-method: ", "x-authority: "];
    response
        .split_inclusive("\r\n")
        .filter(|line| !usual.iter().any(|field| line.starts_with(field)))
        .collect()
}

#[test]
fn requests_and_responses_pass_through_a_pipe() {
    #[rustfmt::skip]
    let cases = [
        // case                       request                                                                              response
        ("no content",                "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n",                                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("content",                   "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n0\r\n\r\n"),
        ("chunks",                    "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n0\r\n\r\n"),
        ("length of the response",    "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Length: 5\r\n\r\nhello",   "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        ("HTTP/1.0",                  "POST /app/ HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",                  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"),
        ("HTTP/1.0, kept alive",      "POST /app/ HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 1\r\nX-Length: 1\r\n\r\na", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nConnection: keep-alive\r\n\r\na"),
        ("HEAD",                      "HEAD /app/ HTTP/1.1\r\nHost: a\r\nX-Length: 9\r\nX-Size: 9\r\n\r\n",                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
        ("204",                       "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Status: 204\r\nX-Length: 0\r\n\r\n",             "HTTP/1.1 204 No Content\r\n\r\n"),
        ("unknown status",            "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Status: 299\r\nX-Length: 0\r\n\r\n",             "HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n"),
        ("interim response",          "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Interim: 103\r\nX-Length: 0\r\n\r\n",            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("interim, HTTP/1.0",         "GET /app/ HTTP/1.0\r\nHost: a\r\nX-Interim: 103\r\nX-Length: 0\r\n\r\n",            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n"),
        ("trailers",                  "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX-Trailer: t\r\n\r\na",      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0001\r\na\r\n0\r\nx-trailer: t\r\n\r\n"),
        ("trailers without chunks",   "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX-Length: 1\r\nX-Trailer: t\r\n\r\na", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na"),
        ("100 (Continue)",            "POST /app/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("close",                     "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Length: 0\r\n\r\n",         "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n"),
        ("pipelined",                 "GET /app/ HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\nPOST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX-Length: 1\r\n\r\na", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na"),
    ];
    for (what, request, want) in cases {
        assert_eq!(without_usual_fields(&respond(request)), want, "{what}");
    }
}

#[test]
fn backend_sees_the_request_without_its_protocol() {
    let response = respond(
        "PATCH http://b:80/app/x?q=1 HTTP/1.1\r\nHost: a\r\nConnection: x-silent\r\nX-Silent: 1\r\nX-Length: 0\r\n\r\n",
    );
    for field in ["x-method: PATCH", "x-path: /app/x?q=1", "x-authority: b:80"] {
        assert!(response.contains(&format!("\r\n{field}\r\n")), "{field} in {response}");
    }
    assert!(
        response.starts_with("HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: Mon, 07 Nov 1994"),
        "{response}"
    );
    #[rustfmt::skip]
    let cases = [
        // target                    path
        ("/app/x",                   "/app/x"),
        ("/app/x?",                  "/app/x?"),
        ("/app/../app/x?a=%20",      "/app/../app/x?a=%20"),
        ("http://b/app?q",           "/app?q"),
    ];
    for (target, path) in cases {
        let response = respond(&format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\n"));
        assert!(response.contains(&format!("\r\nx-path: {path}\r\n")), "{path} in {response}");
    }
}

#[test]
fn invalid_requests_do_not_reach_the_backend() {
    #[rustfmt::skip]
    let cases = [
        // case                    request                                                                               status
        ("content too long",       "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n",                  "413"),
        ("another expectation",    "GET /app/ HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",                                 "417"),
        ("two framings",           "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
    ];
    for (what, request, status) in cases {
        let mut sim = worker();
        let client = sim.connect();
        sim.client_sends(client, request.as_bytes());
        sim.run(Cuts::NONE);
        let response = String::from_utf8(sim.take_received(client)).unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {response}");
        assert_eq!((sim.connect_count, sim.pipe_count()), (0, 0), "{what}");
    }
}

#[test]
fn aborted_response_never_looks_complete() {
    #[rustfmt::skip]
    let cases = [
        // case                            fields of the request                        received
        ("before the head",                "X-Status: 99\r\n",                          "HTTP/1.1 502 Bad Gateway\r\n"),
        ("status without digits",          "X-Status: abc\r\n",                         "HTTP/1.1 502 Bad Gateway\r\n"),
        ("refused with a status",          "X-Refuse: 404\r\n",                         "HTTP/1.1 404 Not Found\r\n"),
        ("refused with an unknown one",    "X-Refuse: 299\r\n",                         "HTTP/1.1 502 Bad Gateway\r\n"),
        ("101 as an interim response",     "X-Interim: 101\r\n",                        "HTTP/1.1 502 Bad Gateway\r\n"),
        ("invalid length",                 "X-Length: 1x\r\n",                          "HTTP/1.1 502 Bad Gateway\r\n"),
        ("in a chunked content",           "X-Size: 100000\r\nX-Abort: 50000\r\n",      "HTTP/1.1 200 OK\r\n"),
        ("in a content with a length",     "X-Size: 9\r\nX-Length: 9\r\nX-Abort: 5\r\n", "HTTP/1.1 200 OK\r\n"),
        ("too short for its length",       "X-Size: 5\r\nX-Length: 9\r\n",              "HTTP/1.1 200 OK\r\n"),
        ("too long for its length",        "X-Size: 9\r\nX-Length: 5\r\n",              "HTTP/1.1 200 OK\r\n"),
    ];
    for (what, fields, want) in cases {
        let mut sim = worker();
        let client = sim.connect();
        sim.client_sends(client, format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        sim.run(Cuts::NONE);
        let received = String::from_utf8(sim.take_received(client)).unwrap();
        assert!(received.starts_with(want), "{what}: {received}");
        if want.contains("200") {
            assert!(!received.ends_with("0\r\n\r\n") && sim.is_closed(client), "{what}");
        }
        sim.pass(100_000, Cuts::NONE);
        assert_eq!((sim.bufs_held(), sim.pipe_count(), sim.backend_count()), (0, 0, 0), "{what}");
    }
}

#[test]
fn local_redirect_is_answered_as_another_request() {
    #[rustfmt::skip]
    let cases = [
        // case                    fields of the request                          status  in the response
        ("a file",                 "X-Redirect: /\r\n",                           "200",  "\r\n\r\nhello"),
        ("nothing",                "X-Redirect: /none\r\n",                       "404",  "Not Found"),
        ("the backend",            "X-Redirect: /app/x?y\r\n",                    "200",  "x-path: /app/x?y\r\n"),
        ("a loop",                 "X-Redirect: /app/x\r\nX-Loop: 1\r\n",         "502",  "Bad Gateway"),
        ("no path",                "X-Redirect: x y\r\n",                         "502",  "Bad Gateway"),
        ("with content",           "Content-Length: 5\r\nX-Redirect: /\r\n",      "200",  "\r\n\r\nhello"),
    ];
    for (what, fields, status, part) in cases {
        for cut in [1, 7, usize::MAX] {
            let mut sim = worker();
            let client = sim.connect();
            let content = if fields.contains("Length") { "12345" } else { "" };
            let request = format!("POST /app/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n{content}");
            for part in request.as_bytes().chunks(cut) {
                sim.client_sends(client, part);
                sim.run(Cuts::NONE);
            }
            let received = String::from_utf8(sim.take_received(client)).unwrap();
            assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {received}");
            assert!(received.contains(part), "{what}: {received}");
            // The connection goes on, unless the response is an error of the server.
            if status == "200" {
                sim.client_sends(client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                sim.run(Cuts::NONE);
                let next = String::from_utf8(sim.take_received(client)).unwrap();
                assert!(next.ends_with("\r\n\r\nhello"), "{what}: {next}");
            }
            sim.pass(100_000, Cuts::NONE);
            assert_eq!((sim.bufs_held(), sim.pipe_count(), sim.backend_count()), (0, 0, 0), "{what}");
        }
    }
}

#[test]
fn idle_connection_to_a_backend_is_used_again() {
    let mut sim = worker();
    let client = sim.connect();
    for _ in 0..3 {
        sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\n");
        sim.run(Cuts::NONE);
        assert!(sim.take_received(client).starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!((sim.connect_count, sim.backend_count(), sim.pipe_count(), sim.bufs_held()), (1, 1, 0, 0));
    // It closes when the backend closes it, or when it has been idle for long.
    sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\nX-Close: 1\r\n\r\n");
    sim.run(Cuts::NONE);
    assert_eq!((sim.connect_count, sim.backend_count()), (1, 0));
    sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\n");
    sim.run(Cuts::NONE);
    assert_eq!((sim.connect_count, sim.backend_count()), (2, 1));
    sim.pass(4_000, Cuts::NONE);
    assert_eq!(sim.backend_count(), 0);
}

#[test]
fn slow_client_stops_its_backend() {
    let mut sim = worker();
    let (client, blocked) = (sim.connect(), Cuts { send: 0, ..Cuts::NONE });
    sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Size: 10000000\r\n\r\n");
    sim.run(blocked);
    let held = sim.bufs_held();
    assert!((4..16).contains(&held), "{held} buffers for 10 MB");
    sim.run(Cuts::NONE);
    let received = sim.take_received(client);
    assert!(received.len() > 10_000_000 && received.ends_with(b"0\r\n\r\n"));
    assert_eq!(sim.bufs_held(), 0);
}

/// The pipe has room for a few bytes, and the next ones frame a chunk.
#[test]
fn pipe_with_less_room_than_a_chunk_line_stops_the_client() {
    let chunk = |len: usize| format!("{len:x}\r\n{}\r\n", "x".repeat(len));
    for first in 1..200 {
        let (mut sim, count) = (worker(), 1_000);
        let client = sim.connect();
        let chunks = chunk(first) + &chunk(200).repeat(count) + "0\r\n\r\n";
        let len = first + count * 200;
        let head = format!(
            "POST /app/ HTTP/1.1\r\nHost: a\r\nX-Length: {len}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        sim.client_sends(client, (head + &chunks).as_bytes());
        sim.stalls = true;
        sim.run(Cuts::NONE);
        sim.stalls = false;
        sim.run(Cuts::NONE);
        let received = sim.take_received(client);
        assert_eq!(received.iter().rev().take_while(|&&byte| byte == b'x').count(), len, "{first}");
        assert_eq!(sim.bufs_held(), 0, "{first}");
    }
}

#[test]
fn backend_that_does_not_answer_times_out() {
    let mut sim = worker();
    let client = sim.connect();
    sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Silent: 1\r\n\r\n");
    sim.run(Cuts::NONE);
    sim.pass(59_999, Cuts::NONE);
    assert_eq!(sim.take_received(client), b"");
    sim.pass(1, Cuts::NONE);
    assert!(sim.take_received(client).starts_with(b"HTTP/1.1 504 Gateway Timeout\r\n"));
    assert_eq!((sim.pipe_count(), sim.backend_count()), (0, 0));
}

#[test]
fn client_must_send_its_content_at_a_minimum_rate() {
    let limits =
        BackendLimits { content_window_ms: 1_000, min_content_rate: 100, ..BackendLimits::default() };
    let mut sim = worker_with(limits);
    let (honest, slow) = (sim.connect(), sim.connect());
    for client in [honest, slow] {
        sim.client_sends(
            client,
            b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nX-Length: 1000\r\n\r\n",
        );
    }
    sim.run(Cuts::NONE);
    // The response has begun, so a client that is too slow is cut off.
    for _ in 0..9 {
        sim.client_sends(honest, &[b'x'; 100]);
        if !sim.is_closed(slow) {
            sim.client_sends(slow, b"x");
        }
        sim.run(Cuts::NONE);
        sim.pass(1_000, Cuts::NONE);
    }
    assert!(sim.is_closed(slow) && !sim.is_closed(honest));
    sim.client_sends(honest, &[b'x'; 100]);
    sim.run(Cuts::NONE);
    assert!(sim.take_received(honest).ends_with(&[b'x'; 1000]));
}

#[test]
fn client_that_vanishes_ends_its_exchange() {
    let mut sim = worker();
    let client = sim.connect();
    sim.client_sends(client, b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhello");
    sim.run(Cuts::NONE);
    assert_eq!((sim.pipe_count(), sim.backend_count()), (1, 1));
    sim.client_vanishes(client);
    sim.run(Cuts::NONE);
    assert_eq!((sim.pipe_count(), sim.backend_count(), sim.bufs_held()), (0, 0, 0));
}

#[test]
fn client_whose_backend_cannot_be_reached_gets_502() {
    let mut sim = worker();
    sim.refuses = true;
    let client = sim.connect();
    sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts::NONE);
    assert!(sim.take_received(client).starts_with(b"HTTP/1.1 502 Bad Gateway\r\n"));
    assert_eq!(sim.pipe_count(), 0);
}

#[test]
fn early_response_ends_the_exchange_before_the_content() {
    let mut sim = worker();
    let client = sim.connect();
    sim.client_sends(
        client,
        b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX-Length: 0\r\nX-Early: 1\r\n\r\na",
    );
    sim.run(Cuts::NONE);
    assert!(sim.take_received(client).starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!((sim.pipe_count(), sim.backend_count()), (0, 0));
    // The rest of the content is dropped, and the next request is answered.
    sim.client_sends(client, b"bcGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts::NONE);
    assert!(sim.take_received(client).starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[test]
fn exchanges_are_recorded_with_the_status_of_the_backend() {
    #[rustfmt::skip]
    let cases = [
        // case          fields of the request                          status       length, complete
        ("whole",        "X-Size: 9\r\n",                               Some(200),   (9, true)),
        ("status",       "X-Status: 404\r\nX-Size: 9\r\nX-Length: 9\r\n", Some(404), (9, true)),
        ("aborted",      "X-Size: 9\r\nX-Length: 9\r\nX-Abort: 5\r\n",  Some(200),   (5, false)),
        ("no head",      "X-Status: 99\r\n",                            Some(502),   (470, true)),
        ("silent",       "X-Silent: 1\r\n",                             None,        (0, false)),
    ];
    let samplings = [(NonZeroU32::MIN, true), (NonZeroU32::MAX, false)];
    let all = samplings.into_iter().flat_map(|sampling| cases.map(|case| (sampling, case)));
    for ((one_in, is_sampled), (what, fields, status, (content_len, is_complete))) in all {
        let mut sim = worker();
        let one_in = [Some(one_in)].into();
        sim.records = Records::new(Recording { one_in, heads: false, seed: 1 });
        let client = sim.connect();
        sim.client_sends(client, format!("GET /app/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        sim.run(Cuts::NONE);
        if !sim.is_closed(client) {
            sim.client_vanishes(client);
        }
        let mut records = Vec::new();
        let mut rest = sim.records.bytes();
        while let Some((record, len)) = Record::read(rest) {
            records.push(record);
            rest = &rest[len..];
        }
        let [Record::Start(start), Record::End(end)] = records[..] else { panic!("{what}: {records:?}") };
        assert_eq!((start.id, start.is_sampled), (end.id, is_sampled), "{what}");
        assert_eq!(
            end.is_failure(),
            status.is_some_and(|status| status >= 400),
            "{what}: logged in any case"
        );
        assert_eq!(
            (end.status, end.content_len, end.is_complete),
            (status, content_len, is_complete),
            "{what}"
        );
    }
}

/// Requests to the backend and to the site.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let content = (select(vec![0usize, 1, 100, 5_000, 40_000]), any::<bool>());
    let fields = select(vec![
        "",
        "",
        "X-Trailer: t\r\n",
        "X-Interim: 103\r\n",
        "X-Status: 404\r\n",
        "X-Size: 30000\r\n",
        "X-Status: 204\r\n",
        "X-Close: 1\r\n",
    ]);
    let request = (select(vec!["/app/a", "/app/b?c", "/", "/nothing"]), content, fields);
    vec(request, 1..6).prop_map(|requests| {
        let mut bytes = Vec::new();
        for (path, (len, is_chunked), fields) in requests {
            let method = if len > 0 { "POST" } else { "GET" };
            bytes.extend(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}").bytes());
            match is_chunked {
                true => {
                    bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    if len > 0 {
                        bytes.extend(format!("{len:x}\r\n{}\r\n", "c".repeat(len)).bytes());
                    }
                    bytes.extend(b"0\r\n\r\n");
                }
                false => bytes.extend(format!("Content-Length: {len}\r\n\r\n{}", "c".repeat(len)).bytes()),
            }
        }
        bytes
    })
}

/// Returns the responses in these bytes, with chunks joined. Panics if the last one is incomplete.
fn decode(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut responses = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap().to_owned();
        bytes = &bytes[end..];
        let mut content = Vec::new();
        let lower = head.to_ascii_lowercase();
        if lower.contains("transfer-encoding: chunked") {
            loop {
                let line = bytes.windows(2).position(|window| window == b"\r\n").expect("a size line");
                let len = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
                bytes = &bytes[line + 2..];
                if len == 0 {
                    let end = match bytes.starts_with(b"\r\n") {
                        true => 2,
                        false => bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4,
                    };
                    content.extend(&bytes[..end]);
                    bytes = &bytes[end..];
                    break;
                }
                content.extend(&bytes[..len]);
                bytes = &bytes[len + 2..];
            }
        } else if let Some(at) = lower.find("content-length: ")
            && !head.starts_with("HTTP/1.1 1")
        {
            let len: usize = lower[at + 16..].split("\r\n").next().unwrap().parse().unwrap();
            content.extend(&bytes[..len]);
            bytes = &bytes[len..];
        }
        responses.push((head, content));
    }
    responses
}

proptest! {
    #[test]
    fn responses_do_not_depend_on_cuts(
        bytes in requests(),
        cuts in vec((1usize..2_000, 1usize..5_000), 1..20),
        through in through(),
    ) {
        let run = |cuts: &[(usize, usize)], through: &Through| {
            let mut sim = worker();
            sim.through = through.clone();
            let client = sim.connect();
            sim.client_sends(client, &bytes);
            let mut received = Vec::new();
            for &(read, send) in cuts.iter().cycle().take(cuts.len()) {
                sim.run(Cuts { read, send });
                received.extend(sim.take_received(client));
            }
            sim.client_ends(client);
            sim.run(Cuts::NONE);
            received.extend(sim.take_received(client));
            sim.pass(200_000, Cuts::NONE);
            sim.pass(200_000, Cuts::NONE);
            assert_eq!((sim.bufs_held(), sim.pipe_count(), sim.backend_count()), (0, 0, 0));
            decode(&received)
        };
        let whole = run(&[(16_384, usize::MAX)], &Through::Plain);
        prop_assert_eq!(run(&cuts, &through), whole);
    }

    /// For any order of bytes, time, slow clients and clients that vanish: buffers are bounded, and in the end nothing is held.
    #[test]
    fn nothing_is_left_of_any_exchange(
        requests in vec(requests(), 1..5),
        ops in vec((0u8..7, 0usize..5, 1usize..20_000, 0u64..40_000), 0..40),
        through in through(),
    ) {
        let mut sim = worker();
        sim.through = through;
        let mut clients: Vec<_> = requests.iter().map(|bytes| (sim.connect(), &bytes[..])).collect();
        let mut gone = vec![false; clients.len()];
        for (op, client, amount, ms) in ops {
            let at = client % clients.len();
            let (number, bytes) = &mut clients[at];
            gone[at] |= sim.is_closed(*number);
            match op {
                0..=2 if !gone[at] => {
                    let (now, later) = bytes.split_at(amount.min(bytes.len()));
                    sim.client_sends(*number, now);
                    *bytes = later;
                }
                3 => sim.run(Cuts { read: amount, send: 0 }),
                4 => sim.run(Cuts { read: amount, send: amount }),
                5 => sim.pass(ms, Cuts { read: amount, send: amount }),
                6 if amount < 2_000 && !gone[at] => {
                    sim.client_vanishes(*number);
                    gone[at] = true;
                }
                _ => {}
            }
        }
        sim.stop();
        for _ in 0..6 {
            sim.pass(200_000, Cuts::NONE);
        }
        prop_assert_eq!((sim.bufs_held(), sim.pipe_count(), sim.backend_count()), (0, 0, 0));
        prop_assert!(clients.iter().all(|(number, _)| sim.is_closed(*number)));
    }
}
