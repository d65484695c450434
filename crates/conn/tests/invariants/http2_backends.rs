//! Exchanges of HTTP/2 with backends: what the client gets before it sends content, and tunnels.

use super::{
    backends::worker,
    functions::sites,
    http2_client::{
        END_HEADERS, END_STREAM, Http2Client, StreamReceived, block, frame, get, preface, request,
        window_update,
    },
    upstreams::UpstreamWorld,
};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::Config};
use std::num::NonZeroU32;
use tarpon_conn::{
    AcceptedClient, BackendLimits, BackendSim, HttpVersions, Record, Recording, Records, ServerOutcome,
    UpstreamReply,
    sim::{Cuts, Sim},
};
use tarpon_http::h2::FrameType;

/// A client of HTTP/2 among those of a worker.
struct BackendClient {
    number: usize,
    wire: Vec<u8>,
    client: Http2Client,
}

impl BackendClient {
    /// Connects, and sends these bytes.
    fn connect(sim: &mut BackendSim, bytes: &[u8]) -> BackendClient {
        sim.versions = HttpVersions::All;
        let number = sim.connect();
        sim.client_sends(number, bytes);
        BackendClient { number, wire: Vec::new(), client: Http2Client::default() }
    }

    /// Lets all run until none has anything to send.
    fn run(&mut self, sim: &mut BackendSim, cuts: Cuts) {
        loop {
            sim.run(cuts);
            self.wire.extend(sim.take_received(self.number));
            let replies = self.client.read(&self.wire);
            if replies.is_empty() || sim.is_closed(self.number) {
                break;
            }
            sim.client_sends(self.number, &replies);
        }
    }

    /// Returns whether stream 1 is complete, and the code of its reset.
    fn end(&self) -> (bool, Option<u32>) {
        (self.client.streams[&1].is_complete, self.client.streams[&1].reset)
    }

    /// Returns the statuses of the sections of a stream.
    fn statuses(&self, stream: u32) -> Vec<&str> {
        statuses(&self.client, stream)
    }
}

/// Returns the statuses that a client has received on a stream.
fn statuses(client: &Http2Client, stream: u32) -> Vec<&str> {
    let sections = client.streams.get(&stream).map_or(&[][..], |of| &of.sections);
    sections
        .iter()
        .filter_map(|of| of.iter().find(|(name, _)| name == ":status"))
        .map(|(_, value)| &**value)
        .collect()
}

/// Returns HEADERS of a request for `path` whose content follows.
fn post(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(FrameType::Headers, END_HEADERS, stream, &request("POST", path, fields))
}

fn data(stream: u32, content: &[u8]) -> Vec<u8> {
    frame(FrameType::Data, END_STREAM, stream, content)
}

#[test]
fn content_is_asked_for_when_a_backend_wants_it() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool, &'a [&'a str]);
    const EXPECT: (&str, &str) = ("expect", "100-continue");
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                    fields                                    with content  statuses before the end of the content
        ("asked for",              &[EXPECT, ("content-length", "5")],       false,        &["100", "200"]),
        ("without a length",       &[EXPECT],                                false,        &["100", "200"]),
        ("content has arrived",    &[EXPECT],                                true,         &["200"]),
        ("no expectation",         &[],                                      false,        &["200"]),
        ("another expectation",    &[("expect", "tea")],                     false,        &["417"]),
        ("too long",               &[EXPECT, ("content-length", "9999999")], false,        &["413"]),
    ];
    for (case, fields, with_content, want) in cases {
        // Content that arrives later than its head is asked for.
        let reads = if *with_content { &[usize::MAX][..] } else { &[1, 20, usize::MAX] };
        for &read in reads {
            let (mut sim, cuts) = (worker(), Cuts { read, ..Cuts::NONE });
            let content = frame(FrameType::Data, 0, 1, b"he");
            let first = if *with_content { &content[..] } else { b"" };
            let bytes = [&preface(&[])[..], &post(1, "/app/", fields), first].concat();
            let mut client = BackendClient::connect(&mut sim, &bytes);
            client.run(&mut sim, cuts);
            assert_eq!(client.statuses(1), *want, "{case}, {read} bytes at a time");
            if want.ends_with(&["200"]) {
                let rest = if *with_content { &b"llo"[..] } else { b"hello" };
                sim.client_sends(client.number, &data(1, rest));
                client.run(&mut sim, cuts);
                assert_eq!(client.statuses(1), *want, "{case}, {read} bytes at a time");
                let StreamReceived { content, is_complete, .. } = &client.client.streams[&1];
                assert_eq!((&content[..], *is_complete), (&b"hello"[..], true), "{case}");
            }
        }
    }
}

#[test]
fn a_server_that_speaks_http_asks_for_content_itself() {
    let mut world = UpstreamWorld::new(|_, text| {
        let reply = |bytes: &str| UpstreamReply { bytes: bytes.into(), ends: false };
        match text {
            text if text.ends_with("0005\r\nhello\r\n0\r\n\r\n") => {
                reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
            text if text.contains("x-asks: yes\r\n") && text.contains("expect: 100-continue\r\n") => {
                reply("HTTP/1.1 100 Continue\r\n\r\n")
            }
            _ => UpstreamReply::default(),
        }
    });
    let expect = ("expect", "100-continue");
    let bytes =
        [preface(&[]), post(1, "/app/", &[expect, ("x-asks", "yes")]), post(3, "/app/", &[expect])].concat();
    let mut client = BackendClient::connect(&mut world.sim, &bytes);
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.statuses(1), client.statuses(3)), (vec!["100"], vec![]));
    world.sim.client_sends(client.number, &data(1, b"hello"));
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.statuses(1), client.statuses(3)), (vec!["100", "200"], vec![]));
}

#[test]
fn content_for_a_function_is_asked_for() {
    let mut sim =
        Sim::accept(sites(), AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() });
    let mut client = Http2Client::default();
    sim.client_sends(
        &[preface(&[]), post(1, "/f", &[("expect", "100-continue")]), post(3, "/f", &[])].concat(),
    );
    client.run(&mut sim, Cuts::NONE);
    assert_eq!((statuses(&client, 1), statuses(&client, 3)), (vec!["100"], vec![]));
    sim.client_sends(&[data(1, b"hi"), data(3, b"ho")].concat());
    client.run(&mut sim, Cuts::NONE);
    assert_eq!((statuses(&client, 1), statuses(&client, 3)), (vec!["100", "200"], vec!["200"]));
    assert_eq!(client.streams[&1].content, b"POST /f hi");
}

#[test]
fn aborted_response_resets_its_stream_at_once() {
    #[rustfmt::skip]
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("in the content",           &[("x-size", "100000"), ("x-abort", "50000")]),
        ("at its start",             &[("x-size", "9"), ("x-abort", "0")]),
        ("too short for its length", &[("x-size", "5"), ("x-length", "9")]),
        ("too long for its length",  &[("x-size", "9"), ("x-length", "5")]),
    ];
    for (case, fields) in cases {
        for read in [100, usize::MAX] {
            let mut sim = worker();
            let head =
                frame(FrameType::Headers, END_HEADERS | END_STREAM, 1, &request("GET", "/app/", fields));
            let mut client = BackendClient::connect(&mut sim, &[preface(&[]), head].concat());
            client.run(&mut sim, Cuts { read, ..Cuts::NONE });
            assert_eq!((client.statuses(1), client.end()), (vec!["200"], (false, Some(2))), "{case}");
            assert_eq!((sim.pipe_count(), sim.bufs_held()), (0, 0), "{case}");
        }
    }
    // After a silence, when nothing else leaves.
    let mut world = UpstreamWorld::new(|_, _| UpstreamReply {
        bytes: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".into(),
        ends: false,
    });
    let mut client = BackendClient::connect(&mut world.sim, &[preface(&[]), get(1, "/app/")].concat());
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.statuses(1), client.end()), (vec!["200"], (false, None)));
    world.sim.pass(BackendLimits::default().response_ms, Cuts::NONE);
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.end(), world.sim.pipe_count()), ((false, Some(2)), 0));
}

/// Returns HEADERS of extended CONNECT, with these further fields.
fn connect(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[(":protocol", "websocket")], fields].concat();
    frame(FrameType::Headers, END_HEADERS, stream, &request("CONNECT", path, &fields))
}

/// Returns DATA that does not end its stream.
fn part(stream: u32, content: &[u8]) -> Vec<u8> {
    frame(FrameType::Data, 0, stream, content)
}

fn reset(stream: u32) -> Vec<u8> {
    frame(FrameType::RstStream, 0, stream, &CANCEL.to_be_bytes())
}

const CANCEL: u32 = 8;

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\nContent-Length: 9\r\n\r\n";

/// A worker before a server that agrees to a tunnel and greets, sends back what it gets in capitals, and ends the tunnel after a bye.
fn tunnel_world() -> UpstreamWorld {
    UpstreamWorld::new(|_, text| {
        let bytes = match text {
            text if text.ends_with("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n") => {
                format!("{SWITCH}hi,")
            }
            text if text.starts_with("GET ") => return UpstreamReply::default(),
            text => text.to_uppercase(),
        };
        UpstreamReply { ends: bytes.ends_with("BYE"), bytes: bytes.into() }
    })
}

/// Opens a tunnel on stream 1.
fn open_tunnel(world: &mut UpstreamWorld) -> BackendClient {
    let bytes = [preface(&[]), connect(1, "/app/", &[])].concat();
    let mut client = BackendClient::connect(&mut world.sim, &bytes);
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.statuses(1), client.content()), (vec!["200"], "hi,"));
    client
}

impl BackendClient {
    /// Returns the content of stream 1 as text.
    fn content(&self) -> &str {
        str::from_utf8(&self.client.streams[&1].content).expect("text")
    }

    /// Sends bytes, and lets all run.
    fn send(&mut self, sim: &mut BackendSim, bytes: &[u8]) {
        sim.client_sends(self.number, bytes);
        self.run(sim, Cuts::NONE);
    }
}

#[test]
fn websocket_is_an_upgrade_for_the_server() {
    let fields = [
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "of the client"),
        ("expect", "100-continue"),
        ("origin", "http://a"),
    ];
    for (window, read) in [(65_535, usize::MAX), (1, usize::MAX), (10, 1), (65_535, 7)] {
        let (mut world, cuts) = (tunnel_world(), Cuts { read, ..Cuts::NONE });
        let bytes = [preface(&[(4, window)]), connect(1, "/app/x?y", &fields)].concat();
        let mut client = BackendClient::connect(&mut world.sim, &bytes);
        client.run(&mut world.sim, cuts);
        let received = world.received();
        let (line, rest) = received.split_once("\r\n").expect("a line");
        assert_eq!(line, "GET /app/x?y HTTP/1.1");
        let keys: Vec<&str> =
            rest.split("\r\n").filter_map(|line| line.strip_prefix("sec-websocket-key: ")).collect();
        assert!(matches!(keys[..], [key] if key.len() == 24 && key.ends_with("==")), "{received}");
        assert!(
            ["sec-websocket-version: 13\r\n", "origin: http://a\r\n"].iter().all(|line| rest.contains(line)),
            "{received}"
        );
        assert!(
            ["expect", "content-length", "transfer-encoding"]
                .iter()
                .all(|name| !rest.to_lowercase().contains(name)),
            "{received}"
        );

        let head = &client.client.streams[&1];
        assert_eq!((head.status(), head.field("sec-websocket-protocol")), ("200", Some("chat")));
        for name in ["sec-websocket-accept", "upgrade", "connection", "content-length"] {
            assert_eq!(head.field(name), None, "{name}");
        }
        for text in ["one,", "BREW / HTTP/1.1\r\n\r\n,", "bye"] {
            world.sim.client_sends(client.number, &part(1, text.as_bytes()));
            client.run(&mut world.sim, cuts);
        }
        assert_eq!((client.content(), client.end()), ("hi,ONE,BREW / HTTP/1.1\r\n\r\n,BYE", (true, None)));
        assert_eq!(world.ends(), [ServerOutcome::Responded(101)]);
        assert_eq!((world.sim.pipe_count(), world.sim.backend_count(), world.sim.bufs_held()), (0, 0, 0));
    }
}

#[test]
fn tunnels_that_are_not_allowed_are_refused() {
    type Case<'a> = (&'a str, Vec<u8>, &'a str, Result<&'a str, u32>);
    let headers = |fields: &[(&str, &str)]| frame(FrameType::Headers, END_HEADERS, 1, &block(fields));
    let asking = |method, protocol| {
        frame(FrameType::Headers, END_HEADERS, 1, &request(method, "/app/", &[(":protocol", protocol)]))
    };
    let refused = "HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\nno";
    let other = "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                            frames                                                                        from the server  status, or RST_STREAM
        ("another protocol",               asking("CONNECT", "connect-udp"),                                             SWITCH,          Ok("501")),
        ("a file",                         connect(1, "/", &[]),                                                         SWITCH,          Ok("501")),
        ("nothing",                        connect(1, "/none", &[]),                                                     SWITCH,          Ok("501")),
        ("a length",                       connect(1, "/app/", &[("content-length", "5")]),                              SWITCH,          Ok("400")),
        ("an expectation",                 connect(1, "/app/", &[("expect", "tea")]),                                    SWITCH,          Ok("417")),
        ("a tunnel to a host",             headers(&[(":method", "CONNECT"), (":authority", "a:80")]),                   SWITCH,          Ok("405")),
        ("another method",                 asking("GET", "websocket"),                                                   SWITCH,          Err(1)),
        ("no path",                        headers(&[(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a")]), SWITCH, Err(1)),
        ("bytes before the response",      [connect(1, "/app/", &[]), part(1, b"x")].concat(),                           SWITCH,          Err(1)),
        ("by the server",                  connect(1, "/app/", &[]),                                                     refused,         Ok("403")),
        ("another protocol of the server", connect(1, "/app/", &[]),                                                     other,           Ok("502")),
    ];
    for (case, frames, from_server, want) in cases {
        let from_server = *from_server;
        let mut world = UpstreamWorld::new(move |_, text| {
            let bytes = if text.ends_with("\r\n\r\n") { from_server } else { "" };
            UpstreamReply { bytes: bytes.into(), ends: false }
        });
        let mut client = BackendClient::connect(&mut world.sim, &[&preface(&[])[..], frames].concat());
        client.run(&mut world.sim, Cuts::NONE);
        let stream = &client.client.streams[&1];
        match want {
            Ok(status) => assert_eq!((stream.status(), client.end()), (*status, (true, None)), "{case}"),
            Err(code) => assert_eq!(client.end(), (false, Some(*code)), "{case}"),
        }
        assert_eq!((world.sim.pipe_count(), client.client.go_aways.len()), (0, 0), "{case}");
        // The connection goes on, and forgets a client that does not end its side.
        client.send(&mut world.sim, &get(3, "/"));
        assert_eq!(client.statuses(3), ["200"], "{case}");
        world.sim.pass(31_000, Cuts::NONE);
        client.run(&mut world.sim, Cuts::NONE);
        assert_eq!(client.client.streams[&1].reset, Some(want.err().unwrap_or(0)), "{case}");
        assert_eq!(world.sim.bufs_held(), 0, "{case}");
    }
    // Backends that do not speak HTTP make no tunnels.
    let mut sim = worker();
    let mut client = BackendClient::connect(&mut sim, &[preface(&[]), connect(1, "/app/", &[])].concat());
    client.run(&mut sim, Cuts::NONE);
    assert_eq!((client.statuses(1), sim.connect_count), (vec!["501"], 0));
}

#[test]
fn each_side_ends_a_tunnel() {
    // The client ends its side: it still gets what the server sends.
    let mut world = tunnel_world();
    let mut client = open_tunnel(&mut world);
    client.send(&mut world.sim, &data(1, b"last"));
    assert_eq!((client.content(), client.end()), ("hi,LAST", (false, None)));
    // An hour of silence.
    world.sim.pass(BackendLimits::default().tunnel_ms, Cuts::NONE);
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.end(), world.sim.pipe_count()), ((false, Some(CANCEL)), 0));

    // It has ended it before the server agrees.
    let mut world = tunnel_world();
    let mut head = connect(1, "/app/", &[]);
    head[4] |= END_STREAM;
    let mut client = BackendClient::connect(&mut world.sim, &[preface(&[]), head].concat());
    client.run(&mut world.sim, Cuts::NONE);
    assert_eq!((client.content(), client.end(), world.sim.pipe_count()), ("hi,", (false, None), 1));

    // The server ends the tunnel: what the client still sends is dropped.
    for ends in [false, true] {
        let mut world = tunnel_world();
        let mut client = open_tunnel(&mut world);
        client.send(&mut world.sim, &part(1, b"bye"));
        assert_eq!((client.content(), client.end()), ("hi,BYE", (true, None)));
        assert_eq!((world.sim.pipe_count(), world.sim.backend_count()), (0, 0));
        client.send(&mut world.sim, &frame(FrameType::Data, u8::from(ends), 1, b"more"));
        world.sim.pass(31_000, Cuts::NONE);
        client.run(&mut world.sim, Cuts::NONE);
        assert_eq!(client.end(), (true, (!ends).then_some(0)));
    }

    // One side resets it, or the client sends what is no part of a tunnel.
    type Break = fn(&mut BackendClient, &mut BackendSim);
    let trailers = |client: &mut BackendClient, sim: &mut BackendSim| {
        client.send(sim, &frame(FrameType::Headers, END_HEADERS | END_STREAM, 1, &block(&[("x", "y")])));
    };
    let cases: [(&str, Break, Option<u32>, ServerOutcome); 3] = [
        ("the client", |client, sim| client.send(sim, &reset(1)), None, ServerOutcome::Abandoned),
        (
            "the server",
            |client, sim| {
                sim.client_vanishes(client.number + 1);
                client.run(sim, Cuts::NONE);
            },
            Some(CANCEL),
            ServerOutcome::Failed,
        ),
        ("trailers", trailers, Some(1), ServerOutcome::Abandoned),
    ];
    for (case, breaks, code, outcome) in cases {
        let mut world = tunnel_world();
        let mut client = open_tunnel(&mut world);
        breaks(&mut client, &mut world.sim);
        assert_eq!(client.end(), (false, code), "{case}");
        assert_eq!(
            (world.ends(), world.sim.pipe_count(), world.sim.backend_count()),
            (vec![outcome], 0, 0),
            "{case}"
        );
        assert_eq!(world.sim.counters.aborted.get(), 1, "{case}");
        // The connection goes on.
        client.send(&mut world.sim, &get(3, "/"));
        assert_eq!(client.statuses(3), ["200"], "{case}");
    }
}

#[test]
fn tunnel_is_recorded_as_it_was_sent() {
    let mut world = tunnel_world();
    world.sim.records =
        Records::new(Recording { one_in: vec![NonZeroU32::new(1)].into(), heads: false, seed: 1 });
    let mut client = open_tunnel(&mut world);
    client.send(&mut world.sim, &data(1, b"bye"));
    assert_eq!(client.end(), (true, None));
    let bytes = world.sim.records.bytes();
    let Some((Record::Start(start), len)) = Record::read(bytes) else { panic!("no start") };
    assert_eq!(start.line.bytes, b"CONNECT /app/ HTTP/2.0");
    let Some((Record::End(end), _)) = Record::read(&bytes[len..]) else { panic!("no end") };
    assert_eq!((end.status, end.content_len, end.is_complete), (Some(200), 6, true));
}

proptest! {
    // Each case sends hundreds of kilobytes, also in the smallest frames.
    #![proptest_config(Config { cases: Config::default().cases / 8, ..Config::default() })]

    /// Bytes pass both ways unchanged, whatever the windows and cuts, while the client obeys its window.
    #[test]
    fn bytes_pass_through_a_tunnel_unchanged(
        lens in vec(1usize..16_384, 1..30), window in select(&[1u32, 1_000, 65_535, 1_000_000][..]), read in select(&[100usize, 5_000, usize::MAX][..]), stalls: bool,
    ) {
        let mut world = tunnel_world();
        let bytes = [preface(&[(4, window.max(3))]), connect(1, "/app/", &[])].concat();
        let mut client = BackendClient::connect(&mut world.sim, &bytes);
        let cuts = Cuts { read, ..Cuts::NONE };
        client.run(&mut world.sim, cuts);
        let content: Vec<u8> = (0u32..).flat_map(|number| format!("{number:x},").into_bytes()).take(lens.iter().sum()).collect();
        let (mut rest, mut sent) = (&content[..], 0);
        for len in lens {
            let (now, later) = rest.split_at(len);
            rest = later;
            // While the client has a window, the server takes nothing.
            let room = |client: &BackendClient| 65_535 + client.client.window_updates.iter().filter(|(stream, _)| *stream == 1).map(|(_, by)| *by as usize).sum::<usize>();
            world.sim.stalls = stalls;
            if room(&client) < sent + len {
                world.sim.stalls = false;
                client.run(&mut world.sim, cuts);
            }
            prop_assert!(room(&client) >= sent + len, "the server returns the window");
            world.sim.client_sends(client.number, &part(1, now));
            client.run(&mut world.sim, cuts);
            sent += len;
        }
        world.sim.stalls = false;
        world.sim.client_sends(client.number, &part(1, b"bye"));
        client.run(&mut world.sim, cuts);
        let want = format!("hi,{}BYE", String::from_utf8(content).unwrap().to_uppercase());
        prop_assert!(client.content() == want, "{} of {} bytes", client.content().len(), want.len());
        prop_assert_eq!((client.end(), world.sim.pipe_count(), world.sim.bufs_held()), ((true, None), 0, 0));
    }

    /// For any frames, time and servers that vanish: the invariants hold, and at last nothing is left.
    #[test]
    fn nothing_is_left_of_tunnels(
        ops in vec((0u8..12, select(&[1u32, 3, 5][..]), 0usize..20_000), 0..40), window in select(&[0u32, 100, 65_535][..]), cut in select(&[50usize, 5_000, usize::MAX][..]),
    ) {
        let (mut world, cuts) = (tunnel_world(), Cuts { read: cut, send: cut });
        let mut client = BackendClient::connect(&mut world.sim, &preface(&[(4, window)]));
        for (op, stream, amount) in ops {
            let mut ended = connect(stream, "/app/", &[]);
            ended[4] |= END_STREAM;
            let frames = match op {
                0 | 1 => connect(stream, "/app/", &[]),
                2 => ended,
                3 => part(stream, &vec![b'x'; amount.min(16_384)]),
                4 => data(stream, b"x"),
                5 => part(stream, b"bye"),
                6 => reset(stream),
                7 => window_update(stream, amount as u32 + 1),
                8 => post(stream, "/app/", &[("expect", "100-continue")]),
                _ => Vec::new(),
            };
            match op {
                9 => world.sim.stalls = !world.sim.stalls,
                10 => world.sim.pass(amount as u64 * 200, cuts),
                11 if !world.sim.is_closed(world.sim.connect_count) => world.sim.client_vanishes(world.sim.connect_count),
                _ => {}
            }
            if world.sim.is_closed(client.number) {
                break;
            }
            world.sim.client_sends(client.number, &frames);
            if amount % 3 > 0 {
                client.run(&mut world.sim, cuts);
            }
        }
        world.sim.stalls = false;
        if !world.sim.is_closed(client.number) {
            world.sim.client_ends(client.number);
        }
        for _ in 0..5 {
            world.sim.run(Cuts::NONE);
            // A tunnel whose client has ended, and whose server says nothing, has an hour.
            world.sim.pass(1_000_000, Cuts::NONE);
        }
        prop_assert!(world.sim.is_closed(client.number));
        prop_assert_eq!((world.sim.pipe_count(), world.sim.backend_count(), world.sim.bufs_held()), (0, 0, 0));
    }
}
