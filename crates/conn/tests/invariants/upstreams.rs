//! Exchanges with servers that speak HTTP/1: what they get, and what becomes of what they send.

use super::sites::site;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use tarpon_conn::{
    BackendId, BackendLimits, BackendProtocol, BackendRoute, BackendServers, BackendSettings, BackendSim,
    Hosts, Limits, PathRewrite, RouteTable, RouteTarget, ServerEvent, ServerId, ServerOutcome, ServerReport,
    SiteId, Sites, Tick, UpstreamReply, sim::Cuts,
};

/// Servers that are chosen in turn.
#[derive(Debug)]
struct Servers {
    count: u16,
    next: u16,
    events: Events,
    reports: Reports,
}

/// The reports so far, a line each.
type Reports = Arc<Mutex<Vec<String>>>;

type Events = Arc<Mutex<Vec<(Option<u16>, ServerEvent)>>>;

impl BackendServers for Servers {
    fn choose(&mut self, _: BackendId, _: u64, tried: &[ServerId], _: Tick) -> Option<ServerId> {
        for _ in 0..self.count {
            let server = ServerId::upstream(self.next);
            self.next = (self.next + 1) % self.count;
            if !tried.contains(&server) {
                return Some(server);
            }
        }
        None
    }

    fn keeps_idle(&mut self, _: ServerId) -> bool {
        true
    }

    fn note(&mut self, server: ServerId, event: ServerEvent) {
        self.events.lock().unwrap().push((server.upstream_number(), event));
    }

    fn report(&mut self, server: ServerId, report: ServerReport<'_>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let line = match report {
            ServerReport::Failed { reason, detail: b"", request } => format!("{reason} ({})", text(request)),
            ServerReport::Failed { reason, detail, request } => {
                format!("{reason}: {} ({})", text(detail), text(request))
            }
            ServerReport::ErrorOutput { line, request } => {
                format!("stderr: {} ({})", text(line), text(request))
            }
        };
        assert!(server.upstream_number().is_some(), "{line}");
        self.reports.lock().unwrap().push(line);
    }
}

/// A worker whose requests below `/app` go to upstream servers.
pub(crate) struct UpstreamWorld {
    pub(crate) sim: BackendSim,
    /// The bytes that the servers have received, by the number of the connection.
    received: Arc<Mutex<Vec<String>>>,
    events: Events,
    reports: Reports,
}

impl UpstreamWorld {
    pub(crate) fn new(upstream: impl FnMut(usize, &str) -> UpstreamReply + 'static) -> UpstreamWorld {
        UpstreamWorld::with(BackendLimits::default(), http1(), 1, upstream)
    }

    fn with(
        limits: BackendLimits,
        settings: BackendSettings,
        server_count: u16,
        mut upstream: impl FnMut(usize, &str) -> UpstreamReply + 'static,
    ) -> UpstreamWorld {
        let mut routes = RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))));
        let route = RouteTarget::Backend(BackendRoute { backend: BackendId(0), limits });
        routes.add(None, "/app".parse().unwrap(), route).unwrap();
        let sites = Sites::by_route([(site("hello"), Limits::default())], [routes].into());
        let (events, reports) = (Events::default(), Reports::default());
        let servers = Servers {
            count: server_count,
            next: 0,
            events: Arc::clone(&events),
            reports: Arc::clone(&reports),
        };
        let received: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&received);
        let server = move |number: usize, bytes: &[u8]| {
            // Each byte is a character, also those of FastCGI that are no text.
            let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
            let reply = upstream(number, &text);
            let mut seen = seen.lock().unwrap();
            let len = seen.len().max(number + 1);
            seen.resize(len, String::new());
            if !reply.bytes.is_empty() || reply.ends {
                seen[number].push_str(&text);
            }
            reply
        };
        let settings = vec![settings];
        let sim = BackendSim::with_upstream(sites, settings, Box::new(servers), Box::new(server));
        UpstreamWorld { sim, received, events, reports }
    }

    /// Sends bytes as a new client, and returns what it receives.
    fn respond(&mut self, request: &str) -> String {
        self.respond_in_cuts(request, Cuts::NONE)
    }

    pub(crate) fn respond_in_cuts(&mut self, request: &str, cuts: Cuts) -> String {
        let client = self.sim.connect();
        self.sim.client_sends(client, request.as_bytes());
        self.sim.run(cuts);
        String::from_utf8(self.sim.take_received(client)).expect("text")
    }

    /// Returns all that the servers have received.
    pub(crate) fn received(&self) -> String {
        self.received.lock().unwrap().concat()
    }

    /// Returns what was reported since the last call.
    pub(crate) fn take_reports(&self) -> Vec<String> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }

    /// Returns how the exchanges have ended.
    pub(crate) fn ends(&self) -> Vec<ServerOutcome> {
        let events = self.events.lock().unwrap();
        let end = |(_, event): &(Option<u16>, ServerEvent)| match event {
            ServerEvent::ExchangeEnded(end) => Some(*end),
            _ => None,
        };
        events.iter().filter_map(end).collect()
    }
}

/// Returns the settings of a backend that speaks HTTP/1.
fn http1() -> BackendSettings {
    BackendSettings { protocol: BackendProtocol::Http1, ..BackendSettings::default() }
}

fn reply(bytes: &str) -> UpstreamReply {
    UpstreamReply { bytes: bytes.as_bytes().to_vec(), ends: false }
}

fn last_reply(bytes: &str) -> UpstreamReply {
    UpstreamReply { ends: true, ..reply(bytes) }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers once the whole head has arrived, and the content if its length is named or it is chunked.
fn when_complete(text: &str, answer: UpstreamReply) -> UpstreamReply {
    let Some((head, content)) = text.split_once("\r\n\r\n") else { return UpstreamReply::default() };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let is_complete = match length {
        Some(length) => content.len() >= length.parse().unwrap(),
        None if head.contains("Transfer-Encoding: chunked") => content.ends_with("\r\n\r\n"),
        None => true,
    };
    if is_complete { answer } else { UpstreamReply::default() }
}

fn without_date(response: &str) -> String {
    let lines = response.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("Date: ") && !line.starts_with("Server: ")).collect()
}

/// Returns the head that a server gets for a request, without the fields that all requests have.
fn forwarded(settings: BackendSettings, request: &str) -> String {
    let answer = |_, text: &str| when_complete(text, reply(OK));
    let mut world = UpstreamWorld::with(BackendLimits::default(), settings, 1, answer);
    let response = world.respond(request);
    assert!(response.contains("200"), "{request}: {response}");
    let usual =
        ["Via: 1.1 tarpon", "Forwarded: for=unknown", "X-Forwarded-Host: ", "X-Forwarded-Proto: http\r"];
    let received = world.received();
    let lines = received.split_inclusive("\r\n");
    lines.filter(|line| !usual.iter().any(|field| line.starts_with(field))).collect()
}

#[test]
#[rustfmt::skip]
fn servers_get_what_was_parsed() {
    let cases: &[(&str, &str, &str)] = &[
        // case                     request                                                                                   what the server gets
        ("usual",                   "GET /app/x?q=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",                              "GET /app/x?q=1 HTTP/1.1\r\nHost: a\r\naccept: */*\r\n\r\n"),
        ("trace context",           "GET /app/x HTTP/1.1\r\nHost: a\r\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nTracestate: a=1,b=2\r\n\r\n", "GET /app/x HTTP/1.1\r\nHost: a\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: a=1,b=2\r\n\r\n"),
        ("dot segments",            "GET /x/../app/./%2e%2e/app/y HTTP/1.1\r\nHost: a\r\n\r\n",                               "GET /app/y HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("escapes stay",            "GET /app/%41%20b HTTP/1.1\r\nHost: a\r\n\r\n",                                           "GET /app/%41%20b HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("absolute form",           "GET http://b:80/app/ HTTP/1.1\r\nHost: a\r\n\r\n",                                       "GET /app/ HTTP/1.1\r\nHost: b:80\r\n\r\n"),
        ("another method",          "PATCH /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",                         "PATCH /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"),
        ("empty content",           "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",                            "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
        ("chunks",                  "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\n\r\n", "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0002\r\nhi\r\n0\r\n\r\n"),
        ("trailers",                "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: 1\r\nHost: b\r\n\r\n", "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0002\r\nhi\r\n0\r\nx-t: 1\r\n\r\n"),
        ("repeated length",         "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",     "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"),
        ("connection fields",       "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: close, X-A\r\nX-A: 1\r\nTE: trailers\r\nKeep-Alive: 1\r\nProxy-Connection: x\r\n\r\n", "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("length named by it",      "POST /app/ HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nhi", "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0002\r\nhi\r\n0\r\n\r\n"),
        ("forged fields",           "GET /app/ HTTP/1.1\r\nHost: a\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nContent_Length: 5\r\n\r\n", "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("Via",                     "GET /app/ HTTP/1.1\r\nHost: a\r\nVia: 1.0 x\r\n\r\n",                                    "GET /app/ HTTP/1.1\r\nHost: a\r\nVia: 1.0 x, 1.1 tarpon\r\n\r\n"),
        ("Upgrade without it",      "GET /app/ HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",                            "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("another HTTP",            "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",           "GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a limit of forwards",     "OPTIONS /app/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n",                            "OPTIONS /app/ HTTP/1.1\r\nHost: a\r\nmax-forwards: 2\r\n\r\n"),
        ("OPTIONS",                 "OPTIONS /app/ HTTP/1.1\r\nHost: a\r\n\r\n",                                              "OPTIONS /app/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (case, request, want) in cases {
        assert_eq!(forwarded(http1(), request), *want, "{case}");
    }
}

#[test]
fn requests_that_are_not_forwarded_are_refused() {
    let cases = [
        ("OPTIONS /app/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", "501"),
        ("TRACE /app/ HTTP/1.1\r\nHost: a\r\n\r\n", "405"),
    ];
    for (request, status) in cases {
        let mut world = UpstreamWorld::new(|_, _| reply(OK));
        let response = world.respond(request);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {response}");
        assert_eq!(world.received(), "");
    }
}

#[test]
fn settings_change_host_and_path() {
    let rewrite = |base: &str| Some(PathRewrite { prefix_len: "/app".len(), base: base.into() });
    #[rustfmt::skip]
    let cases = [
        // base   path              sent
        ("",      "/app/x?q",       "/x?q"),
        ("",      "/app",           "/"),
        ("/b",    "/app/x",         "/b/x"),
        ("/b",    "/%61pp/%2e/x",   "/b/x"),
    ];
    for (base, path, want) in cases {
        let settings = BackendSettings { rewrite: rewrite(base), host: Some("b:81".into()), ..http1() };
        let head = forwarded(settings, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head, format!("GET {want} HTTP/1.1\r\nHost: b:81\r\n\r\n"), "{path} to {base}");
    }
}

#[test]
#[rustfmt::skip]
fn responses_are_written_anew() {
    let cases: &[(&str, &str, &str, &str)] = &[
        // case               request line         from the server                                                                        to the client
        ("length",            "GET / HTTP/1.1",    OK,                                                                                    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        ("HEAD",              "HEAD / HTTP/1.1",   "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",                                        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
        ("chunks",            "GET / HTTP/1.1",    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n",       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0002\r\nok\r\n0\r\n\r\n"),
        ("trailers",          "GET / HTTP/1.1",    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0002\r\nok\r\n0\r\nx-t: 1\r\n\r\n"),
        ("to HTTP/1.0",       "GET / HTTP/1.0",    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",           "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"),
        ("304",               "GET / HTTP/1.1",    "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",                                    "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n"),
        ("interim",           "GET / HTTP/1.1",    "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 204 x\r\n\r\n",                 "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
        ("connection fields", "GET / HTTP/1.1",    "HTTP/1.1 200 OK\r\nConnection: x-a\r\nX-A: 1\r\nKeep-Alive: 1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("two cookies",       "GET / HTTP/1.1",    "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",      "HTTP/1.1 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\ncontent-length: 0\r\n\r\n"),
    ];
    for (case, line, from_server, want) in cases {
        let line = line.replace(" / ", " /app/ ");
        let from_server = *from_server;
        let mut world = UpstreamWorld::new(move |_, text| when_complete(text, reply(from_server)));
        assert_eq!(without_date(&world.respond(&format!("{line}\r\nHost: a\r\n\r\n"))), *want, "{case}");
        assert_eq!(world.ends().len(), 1, "{case}");
    }
    // Delimited by the end of the connection.
    let mut world = UpstreamWorld::new(|_, text| when_complete(text, last_reply("HTTP/1.0 200 OK\r\n\r\nok")));
    let response = world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(without_date(&response), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0002\r\nok\r\n0\r\n\r\n");
}

#[test]
#[rustfmt::skip]
fn server_that_breaks_the_protocol_gives_502() {
    let cases: &[(&str, &str)] = &[
        ("no response",                 ""),
        ("another protocol",            "SSH-2.0-x\r\n"),
        ("head cut off",                "HTTP/1.1 200 OK\r\nContent-"),
        ("two lengths",                 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        ("length and chunks",           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("folded field",                "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"),
        ("bare LF",                     "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
        ("101 without a request for it",  "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
    ];
    for (case, from_server) in cases {
        let from_server = *from_server;
        let mut world = UpstreamWorld::new(move |_, text| when_complete(text, last_reply(from_server)));
        let response = world.respond("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{case}: {response}");
        assert_eq!(world.ends(), [ServerOutcome::Failed], "{case}");
    }
}

#[test]
#[rustfmt::skip]
fn failures_are_reported_with_their_reason() {
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let many = "HTTP/1.1 103 x\r\n\r\n".repeat(200);
    let long = format!("{head}X: {}\r\n", "x".repeat(40_000));
    let (long_line, fields) = (format!("{head}X: {}", "x".repeat(20_000)), format!("{head}{}\r\n", "X: y\r\n".repeat(2_000)));
    let cases: &[(&str, String, &str)] = &[
        // case                  from the server, which closes then                                  reported
        ("nothing",              String::new(),                                                      "it closed the connection before its response"),
        ("part of a head",       format!("{head}Content-"),                                          "it closed the connection within the headers of its response"),
        ("interim, then nothing", "HTTP/1.1 103 x\r\n\r\n".into(),                                 "it closed the connection within the headers of its response"),
        ("shorter",              format!("{head}Content-Length: 9\r\n\r\nok"),                     "it closed the connection before the end of its response"),
        ("no last chunk",        format!("{chunked}2\r\nok\r\n"),                                  "it closed the connection before the end of its response"),
        ("another protocol",     "SSH-2.0-x\r\n".into(),                                            "its response is not HTTP/1: the first line is invalid; check the scheme and the port of the server"),
        ("HTTP/2",               "HTTP/2.0 200 OK\r\n\r\n".into(),                                 "its response is not HTTP/1: the first line is invalid; check the scheme and the port of the server"),
        ("invalid field",        format!("{head}a b: c\r\n\r\n"),                                  "a header of its response is invalid: not a name, a colon and a value"),
        ("two lengths",          format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "the end of its response is unclear: Content-Length is invalid, or contradicts Transfer-Encoding"),
        ("another coding",       format!("{head}Transfer-Encoding: gzip\r\n\r\n"),                 "the end of its response is unclear: Content-Length is invalid, or contradicts Transfer-Encoding"),
        ("long head",            long,                                                               "the headers of its response are too long, or too many"),
        ("long line",            long_line,                                                          "the headers of its response are too long, or too many"),
        ("many fields",          fields,                                                             "the headers of its response are too long, or too many"),
        ("change of protocol",   "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n".into(), "it changes the protocol (101) although the client did not ask for that"),
        ("many interim",         many,                                                               "it sends too many interim responses"),
        ("invalid chunk",        format!("{chunked}x\r\n"),                                         "the chunks of its response are invalid"),
        ("invalid trailer",      format!("{chunked}0\r\na b\r\n\r\n"),                            "the chunks of its response are invalid"),
    ];
    for (case, from_server, want) in cases {
        for cuts in [Cuts::NONE, Cuts { read: 100, send: usize::MAX }] {
            let from_server = from_server.clone();
            let mut world = UpstreamWorld::new(move |_, text| when_complete(text, last_reply(&from_server)));
            world.respond_in_cuts("POST /app/x?secret HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", cuts);
            assert_eq!(world.take_reports(), [format!("{want} (POST /app/x)")], "{case}");
            assert_eq!(world.ends(), [ServerOutcome::Failed], "{case}");
        }
    }
}

#[test]
fn timeouts_are_reported_with_their_option() {
    let limits = BackendLimits { first_byte_ms: 1_000, response_ms: 2_000, ..BackendLimits::default() };
    let with_total = BackendLimits { total_ms: 500, ..limits };
    let part = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok";
    #[rustfmt::skip]
    let cases = [
        // case           limits      from the server     reported
        ("silent",        limits,     "",                 "it did not respond within 1s (response-timeout)"),
        ("part of a head", limits,    "HTTP/1.1 200 OK",  "it did not respond within 1s (response-timeout)"),
        ("content",       limits,     part,               "it made no progress for 2s (idle-timeout)"),
        ("total",         with_total, "",                 "the exchange took longer than 500ms (total-timeout)"),
        ("total, content", with_total, part,              "the exchange took longer than 500ms (total-timeout)"),
    ];
    for (case, limits, from_server, want) in cases {
        let answer = move |_, text: &str| when_complete(text, reply(from_server));
        let mut world = UpstreamWorld::with(limits, http1(), 1, answer);
        world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(world.take_reports(), Vec::<String>::new(), "{case}");
        world.sim.pass(5_000, Cuts::NONE);
        world.sim.run(Cuts::NONE);
        assert_eq!(world.take_reports(), [format!("{want} (GET /app/)")], "{case}");
        assert_eq!(world.ends(), [ServerOutcome::TimedOut], "{case}");
    }
}

#[test]
fn usual_events_are_not_reported() {
    // A client that leaves.
    let mut world = UpstreamWorld::new(|_, _| UpstreamReply::default());
    let client = world.sim.connect();
    world.sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    world.sim.run(Cuts::NONE);
    world.sim.client_ends(client);
    world.sim.run(Cuts::NONE);
    assert_eq!(world.take_reports(), Vec::<String>::new());
    // An error that the server sends itself.
    let error = "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n";
    let mut world = UpstreamWorld::new(move |_, text| when_complete(text, reply(error)));
    world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(world.take_reports(), Vec::<String>::new());
    // A server that closes an idle connection while a request is on its way.
    let mut count = 0;
    let mut world = UpstreamWorld::new(move |number, text| {
        count += usize::from(number == 0);
        when_complete(text, if number == 0 && count > 1 { last_reply("") } else { reply(OK) })
    });
    for _ in 0..2 {
        assert!(world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").contains(" 200 "));
    }
    assert_eq!((world.sim.connect_count, world.take_reports()), (2, Vec::<String>::new()));
}

#[test]
fn failure_is_reported_also_if_another_server_gets_the_request() {
    let answer = |number, text: &str| match number {
        0 => when_complete(text, last_reply("")),
        _ => when_complete(text, reply(OK)),
    };
    let mut world = UpstreamWorld::with(BackendLimits::default(), http1(), 2, answer);
    assert!(world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").contains(" 200 "));
    assert_eq!(world.take_reports(), ["it closed the connection before its response (GET /app/)"]);
}

#[test]
#[rustfmt::skip]
fn error_output_and_failures_of_fastcgi_are_reported() {
    let record = |kind: u8, content: &str| {
        let len = u16::try_from(content.len()).unwrap().to_be_bytes();
        let header = [1, kind, 0, 1, len[0], len[1], 0, 0];
        [str::from_utf8(&header).expect("a short record"), content].concat()
    };
    let (out, err) = (|text: &str| record(6, text), |text: &str| record(7, text));
    let end = |status: char| record(3, &format!("\0\0\0\0{status}\0\0\0"));
    let good = || out("Content-Type: a/b\n\nok") + &end('\0');
    let cases: &[(&str, String, &[&str])] = &[
        // case                 from the server                              reported
        ("nothing",             good(),                                      &[]),
        ("a line",              err("PHP Warning: x\n") + &good(),           &["stderr: PHP Warning: x"]),
        ("without an end",      err("PHP Warning: x") + &good(),             &["stderr: PHP Warning: x"]),
        ("lines in records",    err("a\nb") + &err("c\n") + &good(),         &["stderr: a", "stderr: bc"]),
        ("control characters",  err("\x1b[2J\0\n") + &good(),               &["stderr: \x1b[2J\0"]),
        ("output, no response", err("PHP Fatal error: x") + &end('\0'),      &["stderr: PHP Fatal error: x", "the script has ended without a response"]),
        ("no field of CGI",     out("X: y\n\n") + &end('\0'),               &["the script has sent none of the headers Content-Type, Location and Status"]),
        ("overloaded",          end('\u{2}'),                                &["it is overloaded: it has refused the request; allow it more processes"]),
        ("HTTP",                "HTTP/1.1 400 x\r\n\r\n".into(),            &["its response is not FastCGI: a record is invalid; check the scheme and the port of the server"]),
        ("closed",              err("x\n"),                                  &["stderr: x", "it closed the connection within the headers of its response"]),
        ("closed in content",   out("Content-Type: a/b\n\nok"),              &["it closed the connection before the end of its response"]),
    ];
    for (case, from_server, want) in cases {
        for cuts in [Cuts::NONE, Cuts { read: 1, send: usize::MAX }] {
            let from_server = from_server.clone();
            let answer = move |_, text: &str| if text.is_empty() { UpstreamReply::default() } else { last_reply(&from_server) };
            let settings = BackendSettings { protocol: BackendProtocol::FastCgi, ..BackendSettings::default() };
            let mut world = UpstreamWorld::with(BackendLimits::default(), settings, 1, answer);
            world.respond_in_cuts("POST /app/x.php?secret HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", cuts);
            let want: Vec<_> = want.iter().map(|line| format!("{line} (POST /app/x.php)")).collect();
            assert_eq!(world.take_reports(), want, "{case}");
        }
    }
}

#[test]
fn content_without_a_length_is_collected_for_fastcgi() {
    #[rustfmt::skip]
    let cases = [
        // chunks of this length, count   status
        (0,      0,                       200),
        (1,      1,                       200),
        (5,      3,                       200),
        (1_000,  65,                      200),
        (65_536, 1,                       200),
        (65_536, 2,                       411),
        (1,      65_537,                  411),
        (80_000, 1,                       411),
    ];
    for (len, count, status) in cases {
        for cuts in [Cuts::NONE, Cuts { read: 1_000, send: 1_000 }] {
            let whole = Arc::new(Mutex::new(Vec::new()));
            let sent = Arc::clone(&whole);
            let answer = move |_, bytes: &str| {
                let mut sent = sent.lock().unwrap();
                *sent = bytes.chars().map(|char| char as u8).collect();
                match sent.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]) {
                    // An output and its end.
                    true => last_reply(
                        "\u{1}\u{6}\0\u{1}\0\u{19}\0\0Content-Type: text/a\n\nok!\u{1}\u{3}\0\u{1}\0\u{8}\0\0\0\0\0\0\0\0\0\0",
                    ),
                    false => UpstreamReply::default(),
                }
            };
            let settings =
                BackendSettings { protocol: BackendProtocol::FastCgi, ..BackendSettings::default() };
            let mut world = UpstreamWorld::with(BackendLimits::default(), settings, 1, answer);
            let chunk = format!("{len:x}\r\n{}\r\n", "x".repeat(len));
            let chunks = if len > 0 { chunk.repeat(count) } else { String::new() };
            let head = "POST /app/x.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            let response = world.respond_in_cuts(&format!("{head}{chunks}0\r\nX-Trailer: a\r\n\r\n"), cuts);
            let what = format!("{count} of {len}: {response}");
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{what}");
            let sent = whole.lock().unwrap();
            if status == 411 {
                assert!(sent.is_empty(), "{what}");
                continue;
            }
            let length = (len * count).to_string();
            let param = format!("\u{e}{}CONTENT_LENGTH{length}", length.len() as u8 as char);
            let has_length = sent.windows(param.len()).any(|window| window == param.as_bytes());
            assert_eq!(has_length, len > 0, "{what}");
            assert_eq!(stdin_of(&sent).len(), len * count, "{what}");
            assert_eq!((world.sim.pipe_count(), world.sim.bufs_held()), (0, 0), "{what}");
        }
    }
}

/// Returns the content in the records of a FastCGI request.
fn stdin_of(mut records: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let [_, kind, _, _, high, low, padding, _, rest @ ..] = records {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind == 5 {
            content.extend_from_slice(&rest[..len]);
        }
        records = &rest[len + usize::from(*padding)..];
    }
    content
}

#[test]
fn cut_response_never_looks_complete() {
    #[rustfmt::skip]
    let cases = [
        // from the server                                                                 whether the client can tell
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",                                 "content-length: 9"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",               "Transfer-Encoding: chunked"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX",         "Transfer-Encoding: chunked"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n-1\r\n",         "Transfer-Encoding: chunked"),
    ];
    for (from_server, framing) in cases {
        let mut world = UpstreamWorld::new(move |_, text| when_complete(text, last_reply(from_server)));
        let response = world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.contains(framing), "{response}");
        assert!(!response.ends_with("0\r\n\r\n"), "{response}");
        assert!(world.sim.is_closed(0), "the connection of the client closes");
        assert_eq!(world.ends(), [ServerOutcome::Failed], "{from_server}");
    }
}

#[test]
fn connection_is_used_again() {
    let mut world = UpstreamWorld::new(|_, text| when_complete(text, reply(OK)));
    for _ in 0..3 {
        world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(world.sim.connect_count, 1);
    let limits = BackendLimits { requests_max: 2, ..BackendLimits::default() };
    let answer = |_, text: &str| when_complete(text, reply(OK));
    let mut world = UpstreamWorld::with(limits, http1(), 1, answer);
    for _ in 0..3 {
        world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(world.sim.connect_count, 2);
}

#[test]
fn second_response_ends_the_connection_and_reaches_nobody() {
    let twice = format!("{OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    let mut world = UpstreamWorld::new(move |_, text| when_complete(text, reply(&twice)));
    for _ in 0..2 {
        let response = world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.ends_with("\r\n\r\nok"), "{response}");
    }
    assert_eq!(world.sim.connect_count, 2, "each on a connection of its own");
}

#[test]
fn request_is_repeated_only_where_that_is_safe() {
    #[rustfmt::skip]
    let cases = [
        // method, fields                       before it closes        status, connections
        ("GET",  "",                            "",                     200, 2),
        ("HEAD", "",                            "",                     200, 2),
        ("POST", "Content-Length: 0\r\n",       "",                     502, 1),
        ("PUT",  "Content-Length: 1\r\n",       "",                     502, 1),
        ("GET",  "",                            "HTTP/1.1 200",         502, 1),
    ];
    for (method, fields, before, status, connections) in cases {
        // The second request on a connection makes the server close it.
        let mut count = 0;
        let mut world = UpstreamWorld::new(move |number, text| {
            count += usize::from(number == 0);
            match (number, count) {
                (0, 2..) => when_complete(text, last_reply(before)),
                _ => when_complete(text, reply(OK)),
            }
        });
        world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        let content = if fields.contains("Length: 1") { "x" } else { "" };
        let response = world.respond(&format!("{method} /app/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n{content}"));
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {before}: {response}");
        assert_eq!(world.sim.connect_count, connections, "{method} {before}");
    }
}

#[test]
fn another_server_gets_a_request_that_the_first_one_dropped() {
    let answer = |number, text: &str| match number {
        0 => when_complete(text, last_reply("")),
        _ => when_complete(text, reply(OK)),
    };
    let mut world = UpstreamWorld::with(BackendLimits::default(), http1(), 2, answer);
    assert!(world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").contains(" 200 "));
    assert_eq!(world.ends(), [ServerOutcome::Failed, ServerOutcome::Responded(200)]);
    // A single server is not asked twice on new connections.
    let mut world = UpstreamWorld::new(|_, text| when_complete(text, last_reply("")));
    assert!(world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").contains(" 502 "));
    assert_eq!(world.sim.connect_count, 1);
}

#[test]
fn servers_that_cannot_be_reached_give_502() {
    let mut world = UpstreamWorld::with(BackendLimits::default(), http1(), 2, |_, _| reply(OK));
    world.sim.refuses = true;
    assert!(world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").contains(" 502 "));
    let mut world = UpstreamWorld::with(BackendLimits::default(), http1(), 0, |_, _| reply(OK));
    assert!(world.respond("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").contains(" 503 "), "there is no server");
}

#[test]
fn silent_server_gives_504() {
    let mut world = UpstreamWorld::new(|_, _| UpstreamReply::default());
    let client = world.sim.connect();
    world.sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    world.sim.run(Cuts::NONE);
    world.sim.pass(BackendLimits::default().first_byte_ms, Cuts::NONE);
    world.sim.run(Cuts::NONE);
    let response = String::from_utf8(world.sim.take_received(client)).unwrap();
    assert!(response.starts_with("HTTP/1.1 504 "), "{response}");
    assert_eq!(world.ends(), [ServerOutcome::TimedOut]);
}

#[test]
fn expectation_is_the_servers_to_answer() {
    let upload = "POST /app/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    let mut world = UpstreamWorld::new(|_, text| match text.split_once("\r\n\r\n") {
        Some((_, "hi")) => reply(OK),
        Some((head, "")) if head.contains("expect: 100-continue") => reply("HTTP/1.1 100 Continue\r\n\r\n"),
        _ if text == "hi" => reply(OK),
        _ => UpstreamReply::default(),
    });
    let client = world.sim.connect();
    world.sim.client_sends(client, upload.as_bytes());
    world.sim.run(Cuts::NONE);
    assert_eq!(world.sim.take_received(client), b"HTTP/1.1 100 Continue\r\n\r\n");
    world.sim.client_sends(client, b"hi");
    world.sim.run(Cuts::NONE);
    let response = String::from_utf8(world.sim.take_received(client)).unwrap();
    assert!(response.ends_with("\r\n\r\nok"), "{response}");

    let mut world = UpstreamWorld::new(|_, _| reply("HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n"));
    assert!(world.respond(upload).starts_with("HTTP/1.1 413 "), "a final response instead");
}

#[test]
fn upgrade_makes_a_tunnel() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello";
    let mut world = UpstreamWorld::new(move |_, text| match text {
        "bye" => last_reply("bye"),
        text if text.contains("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n") => reply(switch),
        text => reply(&text.to_uppercase()),
    });
    let client = world.sim.connect();
    let request =
        "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    world.sim.client_sends(client, request.as_bytes());
    world.sim.run(Cuts::NONE);
    let head = String::from_utf8(world.sim.take_received(client)).unwrap();
    assert_eq!(head, switch);
    world.sim.client_sends(client, b"GET / HTTP/1.1\r\n\r\n");
    world.sim.run(Cuts::NONE);
    assert_eq!(world.sim.take_received(client), b"GET / HTTP/1.1\r\n\r\n");
    // An hour of silence.
    world.sim.pass(BackendLimits::default().tunnel_ms - 1, Cuts::NONE);
    world.sim.run(Cuts::NONE);
    world.sim.client_sends(client, b"bye");
    world.sim.run(Cuts::NONE);
    assert_eq!(world.sim.take_received(client), b"bye");
    assert!(world.sim.is_closed(client), "the server has ended the tunnel");
    assert_eq!((world.sim.pipe_count(), world.sim.bufs_held()), (0, 0));
    assert_eq!(world.ends(), [ServerOutcome::Responded(101)]);
}

#[test]
fn refused_upgrade_is_a_usual_response() {
    let mut world = UpstreamWorld::new(|_, text| when_complete(text, reply(OK)));
    let client = world.sim.connect();
    let request = "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    for _ in 0..2 {
        world.sim.client_sends(client, request.as_bytes());
        world.sim.run(Cuts::NONE);
        let response = String::from_utf8(world.sim.take_received(client)).unwrap();
        assert_eq!(without_date(&response), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
}

#[test]
fn client_that_leaves_ends_the_exchange() {
    let mut world = UpstreamWorld::new(|_, _| UpstreamReply::default());
    let client = world.sim.connect();
    world.sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    world.sim.run(Cuts::NONE);
    assert_eq!(world.sim.backend_count(), 1);
    world.sim.client_ends(client);
    world.sim.run(Cuts::NONE);
    assert_eq!((world.sim.backend_count(), world.sim.pipe_count()), (0, 0));
    assert_eq!(world.ends(), [ServerOutcome::Abandoned]);
}

/// Text without repetition within a buffer.
fn long_content(len: usize) -> String {
    (0..).flat_map(|number| format!("{number},").into_bytes()).take(len).map(char::from).collect()
}

#[test]
fn long_content_passes_unchanged() {
    let content = long_content(200_000);
    let with_length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len());
    #[rustfmt::skip]
    let cases = [
        // case                          response                                                                         persists
        ("length",                       reply(&with_length),                                                             true),
        ("more than the length",         reply(&format!("{with_length}{OK}")),                                            false),
        ("until the end",                last_reply(&format!("HTTP/1.0 200 OK\r\n\r\n{content}")),                        false),
        ("another protocol",             last_reply(&format!("HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n{content}")), false),
    ];
    for (what, response, persists) in cases {
        for read in [900, 5_000, 20_000, usize::MAX] {
            for send in [700, usize::MAX] {
                let answer = response.clone();
                let mut world = UpstreamWorld::new(move |_, text| when_complete(text, answer.clone()));
                let request = "GET /app/ HTTP/1.0\r\nHost: a\r\n\r\n";
                let upgrade = "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n";
                let request = if what == "another protocol" { upgrade } else { request };
                let received = world.respond_in_cuts(request, Cuts { read, send });
                let (_, passed) = received.split_once("\r\n\r\n").unwrap();
                assert!(passed == content, "{what}, {read}, {send}: {} bytes", passed.len());
                assert_eq!(world.sim.backend_count(), usize::from(persists), "{what}, {read}, {send}");
                assert_eq!((world.sim.pipe_count(), world.sim.bufs_held()), (0, 0), "{what}");
            }
        }
    }
}

#[test]
fn clients_that_receive_nothing_leave_buffers_for_others() {
    let content = long_content(1_000_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len());
    let mut world = UpstreamWorld::new(move |_, text| when_complete(text, reply(&answer)));
    // Each would hold more than ten of the 256 buffers, if it were alone.
    let clients: Vec<_> = (0..50).map(|_| world.sim.connect()).collect();
    for &client in &clients {
        world.sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        world.sim.run(Cuts { send: 0, ..Cuts::NONE });
    }
    assert!(world.sim.bufs_held() < 250, "{} buffers held", world.sim.bufs_held());
    for client in clients {
        world.sim.run(Cuts::NONE);
        let received = String::from_utf8(world.sim.take_received(client)).unwrap();
        assert!(received.ends_with(&content), "{} bytes", received.len());
    }
    assert_eq!((world.sim.pipe_count(), world.sim.bufs_held()), (0, 0));
}

proptest! {
    /// The bytes sent do not depend on how those received were cut, on both sides.
    #[test]
    fn cuts_change_nothing(read in 1_usize..40, send in 1_usize..40) {
        let long = "x".repeat(30_000);
        let chunked = format!(
            "HTTP/1.1 103 Early\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7530\r\n{long}\r\n0\r\nX-T: 1\r\n\r\n"
        );
        let request = format!(
            "POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7530\r\n{long}\r\n0\r\nX-T: 1\r\n\r\n"
        );
        let unchunked = |response: &str| response.split_once("\r\n\r\nHTTP/1.1 200").map(|(_, rest)| {
            let content: String = rest.chars().filter(|&byte| byte == 'x').collect();
            (content.len(), rest.ends_with("0\r\nx-t: 1\r\n\r\n"))
        });
        let mut world = UpstreamWorld::new(move |_, text| when_complete(text, reply(&chunked)));
        let cuts = Cuts { read: read * 100, send: send * 100 };
        let response = world.respond_in_cuts(&request, cuts);
        prop_assert_eq!(unchunked(&response), Some((30_001, true)), "{}", response.len());
        let received = world.received();
        prop_assert!(received.ends_with("0\r\nx-t: 1\r\n\r\n"));
        prop_assert_eq!(received.chars().filter(|&byte| byte == 'x').count(), 30_001 + received.matches("x-t").count() - 1);
    }
}
