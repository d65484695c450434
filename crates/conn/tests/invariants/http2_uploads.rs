//! Requests of HTTP/2 with content: streams, windows and deadlines stay right however it arrives.

use super::{
    functions::sites,
    http2_client::{END_HEADERS, END_STREAM, Http2Client, frame, get, preface, request, window_update},
    upstreams::UpstreamWorld,
};
use tarpon_conn::{
    AcceptedClient, Close, HttpVersions, UpstreamReply,
    sim::{Cuts, Sim},
};
use tarpon_http::h2::FrameType;

/// The length of the content that the function of [`sites`] returns.
const RESPONSE_LEN: usize = 90_000;

fn sim() -> Sim {
    Sim::accept(sites(), AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() })
}

fn post(stream: u32, path: &str) -> Vec<u8> {
    frame(FrameType::Headers, END_HEADERS, stream, &request("POST", path, &[]))
}

fn part(stream: u32, content: &[u8]) -> Vec<u8> {
    frame(FrameType::Data, 0, stream, content)
}

fn end(stream: u32) -> Vec<u8> {
    frame(FrameType::Data, END_STREAM, stream, b"")
}

#[test]
fn a_stream_whose_content_was_collected_keeps_its_place_and_its_window() {
    let (mut sim, mut client) = (sim(), Http2Client::default());
    let path = format!("/f?len={RESPONSE_LEN}");
    // Others open before the first one is complete.
    let open = [post(1, &path), get(3, &path), window_update(1, 2_000_000), get(5, &path), end(1)];
    sim.client_sends(&[preface(&[(4, 100)]), window_update(0, 2_000_000), open.concat()].concat());
    sim.run(Cuts::NONE);
    client.read(&sim.wire.clone());
    let content_len = |client: &Http2Client, stream| client.streams[&stream].content.len();
    assert_eq!([1, 3, 5].map(|stream| content_len(&client, stream)), [RESPONSE_LEN, 100, 100]);
    sim.client_sends(&[3, 5].map(|stream| window_update(stream, 1_000_000)).concat());
    client.run(&mut sim, Cuts::NONE);
    assert!([1, 3, 5].iter().all(|stream| client.streams[stream].is_complete));
    assert!([3, 5].iter().all(|stream| content_len(&client, *stream) == RESPONSE_LEN));
}

#[test]
fn content_may_take_long_if_it_does_not_stop() {
    let (mut sim, mut client) = (sim(), Http2Client::default());
    // Each read ends within a frame.
    let bytes = [preface(&[]), post(1, "/f"), part(1, &[b'x'; 500]).repeat(60), end(1)].concat();
    let (first, rest) = bytes.split_at(150);
    sim.client_sends(first);
    for piece in rest.chunks(509) {
        sim.pass(1_000);
        sim.client_sends(piece);
        sim.run(Cuts::NONE);
        // The acknowledgement of the settings must not cut a frame.
        client.read(&sim.wire.clone());
        assert_eq!(client.go_aways, []);
    }
    assert_eq!(client.streams[&1].status(), "200");
    assert_eq!(client.streams[&1].content.len(), b"POST /f ".len() + 60 * 500);
}

#[test]
fn content_that_stops_gets_408() {
    let (mut sim, mut client) = (sim(), Http2Client::default());
    sim.client_sends(&[preface(&[]), post(1, "/f"), part(1, b"x")].concat());
    for _ in 0..2 {
        sim.pass(11_000);
        client.run(&mut sim, Cuts::NONE);
    }
    assert_eq!(client.streams[&1].status(), "408");
}

#[test]
fn window_of_a_content_that_is_dropped_is_returned() {
    // A server that answers the head.
    let mut world = UpstreamWorld::new(|_, text| match text.contains("\r\n\r\n") {
        true => UpstreamReply { bytes: "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".into(), ends: false },
        false => UpstreamReply::default(),
    });
    world.sim.versions = HttpVersions::All;
    let number = world.sim.connect();
    let window = [part(1, &[b'x'; 16_000]).repeat(4), part(1, &[b'x'; 1_535])].concat();
    world.sim.client_sends(number, &[preface(&[]), post(1, "/app/"), window].concat());
    let mut client = Http2Client::default();
    world.sim.run(Cuts::NONE);
    client.read(&world.sim.take_received(number));
    assert_eq!(client.streams[&1].status(), "401");
    // A part below half a window may wait.
    for stream in [0, 1] {
        let returned = client.window_updates.iter().filter(|(of, _)| *of == stream).map(|(_, len)| len);
        let returned: u32 = returned.sum();
        assert!((32_768..=65_535).contains(&returned), "stream {stream}: {returned}");
    }
}

#[test]
fn two_deadlines_at_once_leave_nothing_behind() {
    let (mut sim, mut client) = (sim(), Http2Client::default());
    sim.client_sends(&[preface(&[]), post(1, "/f")].concat());
    client.run(&mut sim, Cuts::NONE);
    // Both deadlines pass before the server runs again, while a response waits for a client that does not read.
    sim.client_sends(&[get(3, &format!("/f?len={RESPONSE_LEN}")), vec![0; 5]].concat());
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    sim.pass(25_000);
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    for _ in 0..4 {
        sim.pass(40_000);
        sim.run(Cuts { send: 0, ..Cuts::NONE });
    }
    assert_eq!((sim.close(), sim.bufs_held(), sim.sites.holder_count()), (Close::Both, 0, 0));
}
