//! Exchanges of HTTP/2 with backends: what the client must get before it sends content.

use super::{
    backends::worker,
    functions::sites,
    http2_client::{END_HEADERS, END_STREAM, Http2Client, StreamReceived, frame, get, preface, request},
    upstreams::UpstreamWorld,
};
use tarpon_conn::{
    AcceptedClient, BackendLimits, BackendSim, UpstreamReply,
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
        sim.offers_http2 = true;
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
            if replies.is_empty() {
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
    let mut sim = Sim::accept(sites(), AcceptedClient { offers_http2: true, ..AcceptedClient::default() });
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
