//! Exchanges with a function of the worker: the response does not depend on how the bytes were cut, and nothing is left behind.

use super::sites::site;
use proptest::prelude::*;
use std::sync::Arc;
use tarpon_conn::{
    AcceptedClient, BackendId, BackendLimits, BackendRoute, BackendSim, CollectBudget, HostName, Hosts,
    InlineContent, InlineFunction, InlineRequest, InlineResponse, Limits, ProgramValue, RouteTable,
    RouteTarget, SiteBackends, SiteId, Sites,
    sim::{Cuts, Sim},
};

/// Sends back method, path and content, with what the query asks for: `?status=CODE`, `?len=LENGTH`.
struct Echo;

impl InlineFunction for Echo {
    fn call(&self, request: &InlineRequest<'_>) -> InlineResponse {
        let query = str::from_utf8(request.query.unwrap_or_default()).unwrap();
        let number = |name: &str| query.strip_prefix(name).and_then(|number| number.parse().ok());
        let content = match number("len=") {
            Some(len) => (0..len).map(|at: u32| (at % 251) as u8).collect(),
            None => [request.method, b" ", request.path, b" ", request.content].concat(),
        };
        InlineResponse {
            code: number("status=").unwrap_or(200) as u16,
            lines: b"X-Function: echo\r\n"[..].into(),
            content: InlineContent::Bytes(ProgramValue::new(content.into())),
        }
    }
}

const LIMITS: BackendLimits = BackendLimits {
    content_len_max: 50_000,
    content_window_ms: 10_000,
    min_content_rate: 10,
    first_byte_ms: 60_000,
    response_ms: 60_000,
    total_ms: u64::MAX,
    tunnel_ms: 60_000,
    idle_ms: 0,
    requests_max: u32::MAX,
    retries_max: 0,
};

/// A worker with a site, a function for the paths below `/f`, and a backend of the site for those below `/cgi-bin`.
pub(crate) fn sites() -> Sites {
    let mut hosts = Hosts::new(Some(SiteId::FIRST));
    hosts.add_of_other_listener(&"closed.org".parse().unwrap(), SiteId::FIRST);
    let mut routes = RouteTable::new(Arc::new(hosts));
    let route = RouteTarget::Backend(BackendRoute { backend: BackendId(3), limits: LIMITS });
    for host in [None, Some("closed.org")] {
        let host: Option<HostName> = host.map(|host| host.parse().unwrap());
        routes.add(host.as_ref(), "/f".parse().unwrap(), route).unwrap();
    }
    let program = BackendRoute { backend: BackendId(0), limits: LIMITS };
    let programs = SiteBackends {
        prefixes: vec![("/cgi-bin".parse().unwrap(), program)],
        suffixes: Vec::new(),
        all: None,
    };
    routes.set_site_backends(SiteId::FIRST, programs);
    let mut sites = Sites::by_route([(site("hello"), Limits::default())], [routes].into());
    sites.add_function(BackendId(3), Arc::new(Echo), &CollectBudget::default());
    sites
}

/// Returns what a client receives for these bytes, and the state of the connection after them.
fn respond(request: &[u8], cuts: Cuts) -> (Vec<u8>, Sim) {
    let mut sim = Sim::accept(sites(), AcceptedClient::default());
    sim.client_sends(request);
    sim.run(cuts);
    (sim.wire.clone(), sim)
}

fn text(request: &str) -> String {
    let (wire, _) = respond(request.as_bytes(), Cuts::NONE);
    let text = String::from_utf8(wire).expect("text");
    let usual = ["Server: ", "Date: ", "X-Function: echo"];
    text.split_inclusive("\r\n").filter(|line| !usual.iter().any(|field| line.starts_with(field))).collect()
}

#[test]
fn functions_respond_to_complete_requests() {
    #[rustfmt::skip]
    let cases = [
        // case                 request                                                                                    response
        ("no content",          "GET /f HTTP/1.1\r\nHost: a\r\n\r\n",                                                      "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nGET /f "),
        ("content",             "POST /f/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",                            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nPOST /f/x hi"),
        ("chunks",              "PUT /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nPUT /f hi"),
        ("HEAD",                "HEAD /f HTTP/1.1\r\nHost: a\r\n\r\n",                                                     "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"),
        ("204",                 "GET /f?status=204 HTTP/1.1\r\nHost: a\r\n\r\n",                                           "HTTP/1.1 204 No Content\r\n\r\n"),
        ("304",                 "GET /f?status=304 HTTP/1.1\r\nHost: a\r\n\r\n",                                           "HTTP/1.1 304 Not Modified\r\n\r\n"),
        ("unknown status",      "GET /f?status=418 HTTP/1.1\r\nHost: a\r\n\r\n",                                           "HTTP/1.1 418 \r\nContent-Length: 7\r\n\r\nGET /f "),
        ("HTTP/1.0",            "GET /f HTTP/1.0\r\n\r\n",                                                                 "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nGET /f "),
        ("HTTP/1.0, kept",      "GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",                                       "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 7\r\n\r\nGET /f "),
        ("close",               "GET /f?status=299 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",                      "HTTP/1.1 299 \r\nConnection: close\r\nContent-Length: 7\r\n\r\nGET /f "),
        ("100 (Continue)",      "PUT /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",         "HTTP/1.1 100 Continue\r\n\r\n"),
        ("pipelined",           "GET /f HTTP/1.1\r\nHost: a\r\n\r\nPUT /f HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\naGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nGET /f HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nPUT /f aHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nGET /f "),
    ];
    for (what, request, want) in cases {
        assert_eq!(text(request), want, "{what}");
    }
}

#[test]
fn invalid_requests_do_not_reach_the_function() {
    #[rustfmt::skip]
    let cases = [
        // case                 request                                                                              status
        ("too long",            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 50001\r\n\r\n",                      "413"),
        ("another expectation", "GET /f HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",                                   "417"),
        ("malformed chunk",     "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",            "400"),
        ("another listener",    "GET /f HTTP/1.1\r\nHost: closed.org\r\n\r\n",                                        "421"),
        ("two framings",        "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
    ];
    for (what, request, status) in cases {
        let received = text(request);
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {received}");
        assert!(!received.contains("X-Function"), "{what}");
    }
}

#[test]
#[rustfmt::skip]
fn site_has_functions_beside_programs() {
    let mut sim = BackendSim::new(sites());
    let client = sim.connect();
    for (what, request, want) in [
        ("a function",                "GET /f HTTP/1.1\r\nHost: a\r\n\r\n",                       "X-Function: echo\r\n"),
        ("a program",                 "GET /cgi-bin/f HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\n", "x-path: /cgi-bin/f\r\n"),
        ("a file",                    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",                        "\r\n\r\nhello"),
        // The connector of the route calls it: here that is the echo.
        ("from program to function",  "GET /cgi-bin/f HTTP/1.1\r\nHost: a\r\nX-Redirect: /f\r\n\r\n", "x-path: /f\r\n"),
    ] {
        sim.client_sends(client, request.as_bytes());
        sim.run(Cuts::NONE);
        let received = String::from_utf8(sim.take_received(client)).unwrap();
        assert!(received.starts_with("HTTP/1.1 200 ") && received.contains(want), "{what}: {received}");
    }
}

#[test]
fn client_must_send_content_at_the_minimum_rate() {
    let (_, mut sim) = respond(b"POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", Cuts::NONE);
    for len in [100, 100, 99] {
        sim.client_sends(&vec![b'x'; len]);
        sim.run(Cuts::NONE);
        assert!(sim.wire.is_empty());
        sim.pass(LIMITS.content_window_ms);
    }
    sim.run(Cuts::NONE);
    assert!(sim.wire.starts_with(b"HTTP/1.1 408 "));
}

#[test]
fn content_that_ends_early_is_refused() {
    let (_, mut sim) = respond(b"POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", Cuts::NONE);
    sim.client_ends();
    sim.run(Cuts::NONE);
    assert!(sim.wire.starts_with(b"HTTP/1.1 400 "));
    assert_eq!(sim.bufs_held(), 0);
}

proptest! {
    #[test]
    fn cuts_change_nothing(
        lens in proptest::collection::vec((0u32..60_000, 0usize..40_000, any::<bool>()), 1..4),
        read in 1usize..5_000,
        send in 1usize..5_000,
    ) {
        let mut request = Vec::new();
        for (len, content_len, is_chunked) in lens {
            let content = vec![b'c'; content_len];
            if is_chunked {
                request.extend_from_slice(
                    format!("PUT /f?len={len} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
                );
                for part in content.chunks(7_000) {
                    request.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                    request.extend_from_slice(part);
                    request.extend_from_slice(b"\r\n");
                }
                request.extend_from_slice(b"0\r\n\r\n");
            } else {
                request.extend_from_slice(
                    format!("PUT /f?len={len} HTTP/1.1\r\nHost: a\r\nContent-Length: {content_len}\r\n\r\n").as_bytes(),
                );
                request.extend_from_slice(&content);
            }
        }
        let (whole, sim) = respond(&request, Cuts::NONE);
        prop_assert_eq!(sim.bufs_held(), 0);
        let (cut, sim) = respond(&request, Cuts { read, send });
        prop_assert!(whole == cut);
        prop_assert_eq!(sim.bufs_held(), 0);
    }
}
