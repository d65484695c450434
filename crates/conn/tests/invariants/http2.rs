//! Connections of HTTP/2: the same responses as HTTP/1, at any cut; windows, priorities, floods and the end.

use super::{
    http2_client::{
        ACK, END_HEADERS, END_STREAM, Http2Client, StreamReceived, block, frame, get, preface, request,
        window_update,
    },
    properties::{cuts, through},
    records::recorded,
    sites::{IMAGE, LARGE_LEN, distinct_bytes, established, sim_on_disk, site, throughs},
    tls::tls13,
};
use proptest::{collection::vec, prelude::*, sample::select};
use tarpon_conn::{
    AcceptedClient, Close, HttpVersions, Limits, Record, SiteId, Sites,
    sim::{Cuts, Sim},
};
use tarpon_http::h2::{FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, PREFACE};

/// Returns a simulation whose client may speak HTTP/2.
pub(crate) fn sim() -> Sim {
    let sites = Sites::new(IMAGE.clone(), Limits::default());
    let mut sim =
        Sim::accept(sites, AcceptedClient { versions: HttpVersions::All, ..AcceptedClient::default() });
    sim.files = vec![distinct_bytes(LARGE_LEN)];
    sim
}

/// As [`sim`], with images on disk of which no page is in memory.
fn sim_cold() -> Sim {
    let on_disk = sim_on_disk(false);
    let (mut sim, resident) = (sim(), on_disk.resident_pages.clone());
    let image = on_disk.sites.image(on_disk.sites.current_id(SiteId::FIRST)).clone();
    sim.sites.swap(SiteId::FIRST, image);
    sim.sites.retire().for_each(drop);
    sim.resident_pages = resident;
    sim
}

/// Requests: method, path, fields.
pub(crate) type Http2Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

#[rustfmt::skip]
pub(crate) const REQUESTS: &[Http2Row] = &[
    ("GET",     "/",              &[]),
    ("GET",     "/small",         &[("accept-encoding", "gzip, br")]),
    ("HEAD",    "/small",         &[]),
    ("GET",     "/middle",        &[]),
    ("GET",     "/large",         &[]),
    ("GET",     "/empty",         &[]),
    ("GET",     "/dir",           &[]),
    ("GET",     "/dir?a=b&c={",   &[]),
    ("GET",     "/x/../small",    &[]),
    ("GET",     "/none",          &[]),
    ("GET",     "/%zz",           &[]),
    ("GET",     "/small",         &[("range", "bytes=1-2")]),
    ("GET",     "/middle",        &[("range", "bytes=1-2,900-999,-5")]),
    ("GET",     "/large",         &[("range", "bytes=5-,1-2")]),
    ("GET",     "/small",         &[("range", "bytes=90000-")]),
    ("GET",     "/small",         &[("if-none-match", "*")]),
    ("GET",     "/small",         &[("if-match", "\"x\"")]),
    ("GET",     "/small",         &[("expect", "tea")]),
    ("OPTIONS", "*",              &[]),
    ("POST",    "/",              &[]),
    ("BREW",    "/",              &[]),
];

fn requests() -> impl Strategy<Value = Vec<Http2Row>> {
    vec(select(REQUESTS), 0..12)
}

/// Returns the bytes of a client with these requests, on streams 1, 3, 5 ….
fn bytes_of(requests: &[Http2Row], settings: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = preface(settings);
    for (number, (method, path, fields)) in requests.iter().enumerate() {
        let stream = 2 * number as u32 + 1;
        bytes.extend(frame(
            FrameType::Headers,
            END_HEADERS | END_STREAM,
            stream,
            &request(method, path, fields),
        ));
    }
    bytes
}

/// Returns what HTTP/1 answers: the status, the fields by lower-case name, and the content.
pub(crate) fn over_http1((method, path, fields): Http2Row) -> StreamReceived {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut sim = sim();
    sim.client_sends(
        format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}Connection: close\r\n\r\n").as_bytes(),
    );
    sim.client_ends();
    sim.run(Cuts::NONE);
    let at = sim.wire.windows(4).position(|end| end == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(sim.wire[..at].to_vec()).expect("text");
    let (line, lines) = head.split_once("\r\n").expect("fields");
    let status = (":status".to_owned(), line[9..12].to_owned());
    let fields = lines.split("\r\n").map(|line| {
        let (name, value) = line.split_once(": ").expect("a field");
        (name.to_lowercase(), value.to_owned())
    });
    let fields = fields.filter(|(name, _)| name != "connection");
    StreamReceived {
        sections: vec![[status].into_iter().chain(fields).collect()],
        content: sim.wire[at + 4..].to_vec(),
        is_complete: true,
        reset: None,
    }
}

proptest! {
    #[test]
    fn responses_are_those_of_http1_at_any_cut(
        requests in requests(), cuts in vec(cuts(), 1..40), through in through(), is_recorded: bool, is_cold: bool, window in select(&[1u32, 100, 65_535, 1_000_000][..]),
        table_size in select(&[0u32, 100, 300, 4_096, 65_536][..]),
    ) {
        let base = if is_cold { sim_cold() } else { sim() };
        let base = if is_recorded { recorded(base, true) } else { base };
        let mut sim = base.through(&through);
        // TLS would choose the protocol in the handshake.
        let mut client = Http2Client::default();
        sim.client_sends(&bytes_of(&requests, &[(1, table_size), (4, window)]));
        for &cuts in &cuts {
            sim.step(cuts);
        }
        client.run(&mut sim, *cuts.last().expect("cuts"));
        prop_assert_eq!(client.streams.len(), requests.len());
        for (number, &row) in requests.iter().enumerate() {
            let received = &client.streams[&(2 * number as u32 + 1)];
            prop_assert!(received == &over_http1(row), "{row:?}: {:?}", received.sections);
        }
        prop_assert!(client.go_aways.is_empty() && client.payload_len_max <= 16_384);
        prop_assert_eq!(client.settings_ack_count, 1);
        prop_assert!(client.decoder.table_size() <= table_size as usize);
        prop_assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0), "an idle connection holds nothing");
    }

    /// For any frames, cuts, time, a stop and a swap: the invariants hold, and at last the connection closes.
    #[test]
    fn the_invariants_hold_for_any_frames(
        frames in vec(any_frame(), 0..30),
        ops in vec((0u8..7, 0usize..300, 0u64..40_000), 0..60),
        through in through(),
        is_recorded: bool,
    ) {
        let base = if is_recorded { recorded(sim(), false) } else { sim() };
        let mut sim = base.through(&through);
        let bytes = [preface(&[(4, 1_000)]), frames.concat()].concat();
        let mut bytes = &bytes[..];
        for (op, amount, ms) in ops {
            match op {
                0 | 1 => {
                    let (now, later) = bytes.split_at(amount.min(bytes.len()));
                    sim.client_sends(now);
                    bytes = later;
                }
                2 => sim.run(Cuts { read: amount + 1, send: 0 }),
                3 => { sim.step(Cuts { read: amount + 1, send: amount + 1 }); }
                4 => sim.pass(ms),
                _ if amount < 3 => sim.stop(),
                _ if amount < 6 => sim.drain(),
                _ if amount < 12 => sim.evict(),
                _ if amount < 20 => { sim.sites.swap(SiteId::FIRST, site("changed")); }
                _ => sim.run(Cuts { read: amount + 1, send: amount + 1 }),
            }
            sim.sites.retire().for_each(drop);
        }
        sim.client_sends(bytes);
        sim.run(Cuts::NONE);
        sim.client_ends();
        sim.run(Cuts::NONE);
        for _ in 0..20 {
            sim.pass(40_000);
            sim.run(Cuts { send: 0, ..Cuts::NONE });
        }
        prop_assert_eq!(sim.close(), Close::Both);
        prop_assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0));
    }
}

/// Returns frames of any kind, with numbers that a client may confuse.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let streams = || select(&[0u32, 1, 1, 3, 3, 5, 7, 9, 2][..]);
    let word = select(&[0u32, 1, 100, 1_000, 0x7fff_ffff][..]);
    prop_oneof![
        6 => (streams(), select(REQUESTS), any::<bool>()).prop_map(|(stream, (method, path, fields), ends)| {
            frame(FrameType::Headers, END_HEADERS | u8::from(ends), stream, &request(method, path, fields))
        }),
        2 => (streams(), 0usize..3_000, any::<bool>()).prop_map(|(stream, len, ends)| frame(FrameType::Data, u8::from(ends), stream, &vec![b'x'; len])),
        3 => (streams(), word.clone()).prop_map(|(stream, by)| window_update(stream, by)),
        1 => (streams(), word.clone()).prop_map(|(stream, code)| frame(FrameType::RstStream, 0, stream, &code.to_be_bytes())),
        1 => (4u16..6, word).prop_map(|(name, value)| frame(FrameType::Settings, 0, 0, &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat())),
        1 => Just(frame(FrameType::Ping, 0, 0, b"12345678")),
        1 => (streams(), any::<bool>()).prop_map(|(stream, ends)| frame(FrameType::Headers, if ends { 0 } else { END_STREAM }, stream, b"\x82\x84")),
        1 => (streams(), any::<bool>()).prop_map(|(stream, ends)| frame(FrameType::Continuation, if ends { END_HEADERS } else { 0 }, stream, b"\x86\x41\x01a")),
        1 => (streams()).prop_map(|stream| frame(FrameType::PriorityUpdate, 0, 0, &[&stream.to_be_bytes()[..], b"u=1, i"].concat())),
        1 => vec(any::<u8>(), 0..40),
    ]
}

#[test]
fn errors_end_the_connection_or_the_stream() {
    let open = |rest: &[u8]| [&preface(&[])[..], rest].concat();
    let header = |stream, flags, block: &[u8]| frame(FrameType::Headers, flags, stream, block);
    let head = request("POST", "/", &[("content-length", "3")]);
    let large = |count| block(&vec![("x", "y"); count]);
    type Want = (Option<u32>, Option<(u32, u32)>);
    #[rustfmt::skip]
    let cases: Vec<(&str, Vec<u8>, Want)> = vec![
        // case                                bytes                                                              GOAWAY, or RST_STREAM
        ("no settings",                        [&PREFACE[..], &get(1, "/")].concat(),                             (Some(1), None)),
        ("acknowledged settings first",        [&PREFACE[..], &frame(FrameType::Settings, ACK, 0, b"")].concat(), (Some(1), None)),
        ("settings of 7 bytes",                [&PREFACE[..], &frame(FrameType::Settings, 0, 0, b"1234567")].concat(), (Some(6), None)),
        ("a window of 2^31",                   preface(&[(4, 1 << 31)]),                                          (Some(3), None)),
        ("frames of 100 bytes",                preface(&[(5, 100)]),                                              (Some(1), None)),
        ("an even stream",                     open(&get(2, "/")),                                                (Some(1), None)),
        ("stream 0",                           open(&get(0, "/")),                                                (Some(1), None)),
        ("a lower stream",                     open(&[get(5, "/"), get(3, "/")].concat()),                        (Some(1), None)),
        ("a stream again",                     open(&[get(5, "/"), get(5, "/")].concat()),                        (Some(5), None)),
        ("content of an idle stream",          open(&frame(FrameType::Data, 0, 1, b"x")),                         (Some(1), None)),
        ("content after the end",              open(&[get(1, "/"), frame(FrameType::Data, 0, 1, b"x")].concat()), (None, Some((1, 5)))),
        ("a window of an idle stream",         open(&window_update(1, 1)),                                        (Some(1), None)),
        ("a window that overflows",            open(&window_update(0, 0x7fff_ffff)),                              (Some(3), None)),
        ("no increment",                       open(&window_update(0, 0)),                                        (Some(1), None)),
        ("a reset of an idle stream",          open(&frame(FrameType::RstStream, 0, 1, &[0; 4])),                 (Some(1), None)),
        ("PUSH_PROMISE",                       open(&frame(FrameType::PushPromise, 0, 1, &[0; 4])),               (Some(1), None)),
        ("PING of 7 bytes",                    open(&frame(FrameType::Ping, 0, 0, b"1234567")),                   (Some(6), None)),
        ("a frame that is too long",           open(b"\0\x40\x01\0\0\0\0\0\x01"),                                 (Some(6), None)),
        ("CONTINUATION alone",                 open(&frame(FrameType::Continuation, 4, 1, b"")),                  (Some(1), None)),
        ("PING within a block",                open(&[header(1, 1, b"\x82"), frame(FrameType::Ping, 0, 0, &[0; 8])].concat()), (Some(1), None)),
        ("CONTINUATION of another stream",     open(&[header(1, 1, b"\x82"), frame(FrameType::Continuation, 4, 3, b"\x84")].concat()), (Some(1), None)),
        ("a block that cannot be decoded",     open(&header(1, 5, b"\xff\xff\xff\xff\xff\xff")),                  (Some(9), None)),
        ("a block that is cut",                open(&header(1, 5, b"\x41\x09a")),                                 (Some(9), None)),
        ("no path",                            open(&header(1, 5, &block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a")]))), (None, Some((1, 1)))),
        ("a field of the connection",          open(&header(1, 5, &request("GET", "/", &[("connection", "x")]))), (None, Some((1, 1)))),
        ("a length without content",           open(&header(1, 5, &head)),                                        (None, Some((1, 1)))),
        ("content longer than its length",     open(&[header(1, 4, &head), frame(FrameType::Data, 1, 1, b"1234")].concat()), (None, Some((1, 1)))),
        ("content shorter than its length",    open(&[header(1, 4, &head), frame(FrameType::Data, 1, 1, b"12")].concat()), (None, Some((1, 1)))),
        ("trailers that do not end",           open(&[header(1, 4, &head), header(1, 4, &block(&[("x", "y")]))].concat()), (None, Some((1, 1)))),
        ("a stream that depends on itself",    open(&frame(FrameType::Priority, 0, 1, &[0, 0, 0, 1, 9])),         (None, Some((1, 1)))),
        ("a tenth CONTINUATION",               open(&[header(1, 1, b"\x82"), frame(FrameType::Continuation, 0, 1, b"").repeat(10)].concat()), (Some(11), None)),
        ("long content, not wanted",           open(&[header(1, 4, &request("POST", "/", &[])), frame(FrameType::Data, 0, 1, &[b'x'; 16_384]).repeat(200)].concat()), (None, None)),
        ("too many fields",                    open(&header(1, 5, &large(300))),                                  (None, None)),
    ];
    for (name, bytes, (code, reset)) in cases {
        let reads = if bytes.len() < 10_000 { &[1, 100, usize::MAX][..] } else { &[usize::MAX] };
        for &read in reads {
            let (mut sim, mut client) = (sim(), Http2Client::default());
            sim.client_sends(&bytes);
            client.run(&mut sim, Cuts { read, ..Cuts::NONE });
            assert_eq!(client.go_aways.last().map(|(_, code)| *code), code, "{name}, {read} bytes at a time");
            let mut resets = client.streams.iter().filter_map(|(id, of)| of.reset.map(|code| (*id, code)));
            assert_eq!(resets.next_back(), reset, "{name}, {read} bytes at a time");
            assert_eq!(sim.close() != Close::No, code.is_some(), "{name}");
        }
    }
}

/// Returns a simulation whose client must speak HTTP/2.
fn sim_of_http2_alone(has_tls: bool) -> Sim {
    let sites = Sites::new(IMAGE.clone(), Limits::default());
    let versions = HttpVersions::OnlyHttp2;
    Sim::accept(sites, AcceptedClient { versions, has_tls, ..AcceptedClient::default() })
}

#[test]
fn first_bytes_of_another_protocol_end_a_connection_for_http2_alone() {
    let mut almost = *PREFACE;
    almost[PREFACE.len() - 1] = b'x';
    #[rustfmt::skip]
    let cases: &[(&str, &[u8])] = &[
        ("HTTP/1.1",                  b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("HTTP/1.0",                  b"GET / HTTP/1.0\r\n\r\n"),
        ("PRI of HTTP/1.1",           b"PRI * HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("an upgrade",                b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n"),
        ("an empty line",             b"\r\n"),
        ("another last byte",         &almost),
        ("frames without a preface",  &get(1, "/")),
        ("a handshake of TLS",        b"\x16\x03\x01\x00\x05hello"),
    ];
    for (name, bytes) in cases {
        for (through, read) in
            throughs().iter().flat_map(|through| (1..=bytes.len()).map(move |read| (through, read)))
        {
            let place = format!("{name}, {through:?}, {read} bytes at a time");
            let mut sim = established(sim_of_http2_alone(false), through);
            let mut client = Http2Client::default();
            sim.client_sends(bytes);
            client.run(&mut sim, Cuts { read, ..Cuts::NONE });
            // PROTOCOL_ERROR.
            assert_eq!((&client.go_aways[..], client.streams.len()), (&[(0, 1)][..], 0), "{place}");
            assert_eq!(sim.close(), Close::Write, "{place}");
            sim.client_ends();
            sim.run(Cuts::NONE);
            assert_eq!(sim.close(), Close::Both, "{place}");
        }
    }
}

#[test]
fn preface_in_pieces_begins_a_connection_for_http2_alone() {
    for through in &throughs() {
        for read in 1..PREFACE.len() + 20 {
            let mut sim = established(sim_of_http2_alone(false), through);
            let mut client = Http2Client::default();
            sim.client_sends(&[preface(&[]), get(1, "/small"), get(3, "/none")].concat());
            client.run(&mut sim, Cuts { read, ..Cuts::NONE });
            let statuses = [1, 3].map(|stream| client.streams[&stream].status());
            assert_eq!(statuses, ["200", "404"], "{through:?}, {read} bytes at a time");
            assert_eq!((&client.go_aways[..], sim.close()), (&[][..], Close::No));
        }
    }
}

#[test]
fn client_that_chooses_no_protocol_in_the_handshake_must_speak_http2_alone() {
    for is_http2 in [true, false] {
        let mut sim = established(sim_of_http2_alone(true), &tls13());
        let mut client = Http2Client::default();
        let bytes = if is_http2 { preface(&[]) } else { b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec() };
        sim.client_sends(&bytes);
        client.run(&mut sim, Cuts::NONE);
        let want: &[(u32, u32)] = if is_http2 { &[] } else { &[(0, 1)] };
        assert_eq!((&client.go_aways[..], client.settings_count), (want, 1), "{is_http2}");
    }
}

#[test]
fn silent_client_of_http2_alone_gets_nothing() {
    type Event = (&'static str, fn(&mut Sim));
    let events: [Event; 4] = [
        ("the server stops", Sim::stop),
        ("another connection needs its buffers", Sim::evict),
        ("the client ends", Sim::client_ends),
        ("its time passes", |sim| sim.pass(Limits::default().head_ms)),
    ];
    for (name, event) in events {
        let mut sim = sim_of_http2_alone(false);
        sim.run(Cuts::NONE);
        event(&mut sim);
        sim.run(Cuts::NONE);
        assert_eq!((sim.close(), &sim.wire[..]), (Close::Both, &[][..]), "{name}");
    }
}

/// The first request is still answered, and the client opens another connection for the next.
#[test]
fn connection_that_begins_while_the_server_drains_ends_soon() {
    for mut sim in [sim(), sim_of_http2_alone(false)] {
        let mut client = Http2Client::default();
        sim.run(Cuts::NONE);
        sim.drain();
        sim.client_sends(&[preface(&[]), get(1, "/")].concat());
        client.run(&mut sim, Cuts::NONE);
        assert_eq!(client.streams[&1].status(), "200");
        assert_eq!(client.go_aways.first(), Some(&(0x7fff_ffff, 0)));
    }
}

#[test]
fn fields_that_are_too_large_get_431() {
    let (mut sim, mut client) = (sim(), Http2Client::default());
    let fields = block(&vec![("x", "y"); 300]);
    sim.client_sends(&[preface(&[]), frame(FrameType::Headers, 5, 1, &fields), get(3, "/")].concat());
    client.run(&mut sim, Cuts::NONE);
    assert_eq!((client.streams[&1].status(), client.streams[&3].status()), ("431", "200"));
}

#[test]
fn a_block_may_be_continued_anywhere() {
    let fields = request("GET", "/small", &[("x-long", &"z".repeat(3_000))]);
    for through in &throughs() {
        for cut in [0, 1, 2, 10, 20, 1_000, fields.len() - 1, fields.len()] {
            let (mut sim, mut client) = (established(sim(), through), Http2Client::default());
            let frames = [
                frame(FrameType::Headers, END_STREAM, 1, &fields[..cut]),
                frame(FrameType::Continuation, 0, 1, b""),
                frame(FrameType::Continuation, END_HEADERS, 1, &fields[cut..]),
            ];
            sim.client_sends(&[preface(&[]), frames.concat(), get(3, "/")].concat());
            client.run(&mut sim, Cuts { read: 700, ..Cuts::NONE });
            assert_eq!(client.streams[&1].status(), "200", "{cut}");
            assert_eq!(client.streams[&3].content, b"hello", "{cut}");
        }
    }
}

#[test]
fn urgent_and_incremental_responses_leave_first() {
    let headers = |stream, priority| {
        frame(FrameType::Headers, 5, stream, &request("GET", "/large", &[("priority", priority)]))
    };
    type Case<'a> = (&'a str, &'a [(u32, &'a str)], Option<(u32, &'a str)>, &'a [u32]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                   streams                                 PRIORITY_UPDATE        order in which streams end
        ("as they came", &[(1, "u=3"), (3, "u=3")], None, &[1, 3]),
        ("the second is urgent", &[(1, "u=3"), (3, "u=0")], None, &[3, 1]),
        ("changed", &[(1, "u=3"), (3, "u=3"), (5, "u=3")], Some((5, "u=1")), &[5, 1, 3]),
        ("later than all", &[(1, "u=7"), (3, "u=3, i"), (5, "u=3")], None, &[5, 3, 1]),
    ];
    for &(name, streams, update, want) in cases {
        let (mut sim, mut client) = (sim(), Http2Client::default());
        let mut bytes = preface(&[(4, 1_000_000)]);
        bytes.extend(streams.iter().flat_map(|(stream, priority)| headers(*stream, priority)));
        if let Some((stream, priority)) = update {
            let payload = [&u32::to_be_bytes(stream)[..], priority.as_bytes()].concat();
            bytes.extend(frame(FrameType::PriorityUpdate, 0, 0, &payload));
        }
        // The client takes content only after the server has seen all requests.
        sim.client_sends(&bytes);
        sim.run(Cuts { send: 0, ..Cuts::NONE });
        sim.client_sends(&window_update(0, 1_000_000));
        client.run(&mut sim, Cuts::NONE);
        let mut ends: Vec<u32> = streams.iter().map(|(stream, _)| *stream).collect();
        ends.sort_by_key(|stream| client.order.iter().rposition(|found| found == stream));
        assert_eq!(ends, want, "{name}: {:?}", client.order);
    }
    // Incremental ones share.
    let (mut sim, mut client) = (sim(), Http2Client::default());
    sim.client_sends(&[preface(&[(4, 1_000_000)]), headers(1, "i"), headers(3, "i")].concat());
    client.run(&mut sim, Cuts::NONE);
    assert!(
        client.order.windows(4).any(|turns| turns == [1, 3, 1, 3] || turns == [3, 1, 3, 1]),
        "{:?}",
        client.order
    );
}

#[test]
fn priority_from_before_the_stream_opens_outlives_a_wait_for_pages() {
    for base in [sim, sim_cold] {
        let (mut sim, mut client) = (base(), Http2Client::default());
        let early = frame(FrameType::PriorityUpdate, 0, 0, b"\0\0\0\x01u=7");
        sim.client_sends(&[preface(&[(4, 1_000_000)]), early, get(1, "/large"), get(3, "/large")].concat());
        // The client takes content only after the server has seen both requests.
        sim.run(Cuts { send: 0, ..Cuts::NONE });
        sim.client_sends(&window_update(0, 1_000_000));
        client.run(&mut sim, Cuts::NONE);
        let [first, second] = [1, 3].map(|id| client.order.iter().rposition(|found| *found == id));
        assert!(first > second, "{:?}", client.order);
    }
}

#[test]
fn a_full_outbox_delays_no_frame_of_the_client() {
    let urgent = || frame(FrameType::Headers, 5, 3, &request("GET", "/small", &[("priority", "u=0")]));
    let reset = || frame(FrameType::RstStream, 0, 1, &8u32.to_be_bytes());
    // Whether the first response is complete, and whether it ends before the second one.
    let cases = [("an urgent request", urgent(), true), ("a reset", [reset(), urgent()].concat(), false)];
    for (name, frames, is_complete) in cases {
        for send in [1_000, usize::MAX] {
            let (mut sim, mut client) = (sim(), Http2Client::default());
            let windows = [preface(&[(4, 10_000_000)]), window_update(0, 10_000_000)].concat();
            sim.client_sends(&[windows, get(1, "/large")].concat());
            sim.run(Cuts { send: 0, ..Cuts::NONE });
            sim.client_sends(&frames);
            sim.run(Cuts { send: 0, ..Cuts::NONE });
            client.run(&mut sim, Cuts { send, ..Cuts::NONE });
            let last = |stream| client.order.iter().rposition(|found| *found == stream);
            assert!(client.streams[&3].is_complete, "{name}, {send}");
            assert_eq!(client.streams[&1].is_complete, is_complete, "{name}, {send}");
            assert!(!is_complete || last(3) < last(1), "{name}, {send}: {:?}", client.order);
        }
    }
}

#[test]
fn floods_end_the_connection() {
    let reset = |stream: u32| {
        let head = frame(FrameType::Headers, 5, stream, &request("GET", "/large", &[]));
        [head, frame(FrameType::RstStream, 0, stream, &8u32.to_be_bytes())].concat()
    };
    let resets: Vec<u8> = (0..1_000).flat_map(|number| reset(2 * number + 1)).collect();
    // Each makes the server reset its stream: CVE-2025-8671.
    let error = |stream: u32| [get(stream, "/large"), window_update(stream, 0)].concat();
    let errors: Vec<u8> = (0..1_000).flat_map(|number| error(2 * number + 1)).collect();
    #[rustfmt::skip]
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("PING",             frame(FrameType::Ping, 0, 0, b"12345678").repeat(6_000)),
        ("settings",         frame(FrameType::Settings, 0, 0, &[0, 4, 0, 0, 255, 255]).repeat(300)),
        ("empty settings",   frame(FrameType::Settings, 0, 0, b"").repeat(300)),
        ("windows",          window_update(0, 1).repeat(6_000)),
        ("priorities",       frame(FrameType::PriorityUpdate, 0, 0, b"\0\0\0\x01u=1").repeat(6_000)),
        ("old priorities",   frame(FrameType::Priority, 0, 1, &[0, 0, 0, 0, 9]).repeat(6_000)),
        ("unknown frames",   b"\0\0\0\x99\0\0\0\0\0".repeat(6_000)),
        ("empty content",    [frame(FrameType::Headers, 4, 1, &request("POST", "/", &[])), frame(FrameType::Data, 0, 1, b"").repeat(6_000)].concat()),
        ("resets",           resets),
        ("errors of streams", errors),
    ];
    for (name, bytes) in cases {
        let (mut sim, mut client) = (sim(), Http2Client::default());
        sim.client_sends(&[preface(&[(4, 0)]), bytes].concat());
        sim.run(Cuts::NONE);
        client.read(&sim.wire.clone());
        assert_eq!(client.go_aways.last().map(|(_, code)| *code), Some(11), "{name}");
        assert_eq!(sim.counters.http2_floods.get(), 1, "{name}");
    }
}

#[test]
fn a_client_that_reads_nothing_makes_the_server_hold_little() {
    let mut sim = sim();
    let requests: Vec<u8> = (0..3_000).flat_map(|number| get(2 * number + 1, "/none")).collect();
    sim.client_sends(&[preface(&[]), requests].concat());
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert!(!sim.socket.is_empty(), "the rest waits in the kernel");
    sim.pass(40_000);
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert_eq!(sim.close(), Close::Both);
}

#[test]
fn a_client_without_a_window_is_closed() {
    for (window, after_ms) in [(0, 31_000), (1, 31_000), (1, 29_000)] {
        let (mut sim, mut client) = (sim(), Http2Client::default());
        sim.client_sends(&[preface(&[(4, window)]), get(1, "/middle"), get(3, "/large")].concat());
        sim.run(Cuts::NONE);
        client.read(&sim.wire.clone());
        assert_eq!(client.streams[&1].status(), "200");
        for _ in 0..4 {
            sim.pass(after_ms);
            // One byte at a time is too slow.
            sim.client_sends(&window_update(1, 1));
            sim.run(Cuts::NONE);
        }
        assert_eq!(sim.close(), Close::Both, "a window of {window}");
        assert_eq!(sim.counters.aborted.get(), 2);
    }
}

/// The client gets the last GOAWAY. No stream waits for a window that the client can no longer open.
#[test]
fn a_client_that_ends_without_a_window_is_closed_at_once() {
    for window in [0, 10] {
        let (mut sim, mut client) = (sim(), Http2Client::default());
        sim.client_sends(&[preface(&[(4, window)]), get(1, "/middle"), get(3, "/large")].concat());
        sim.client_ends();
        sim.run(Cuts::NONE);
        client.read(&sim.wire.clone());
        assert_eq!(client.streams[&1].status(), "200");
        assert_eq!(client.streams[&3].content.len(), window as usize);
        assert_eq!(sim.close(), Close::Both, "a window of {window}");
        assert_eq!(sim.counters.aborted.get(), 2);
    }
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let bytes: Vec<u8> = (0..200).flat_map(|number| get(2 * number + 1, "/large")).collect();
    let (mut sim, mut client) = (sim(), Http2Client::default());
    sim.client_sends(&[preface(&[(4, 0)]), bytes].concat());
    sim.run(Cuts::NONE);
    client.read(&sim.wire.clone());
    let refused = client.streams.values().filter(|stream| stream.reset == Some(7)).count();
    assert_eq!(refused, 200 - 128);
    let answered = client.streams.values().filter(|stream| stream.status() == "200").count();
    assert_eq!(answered, 128);
}

#[test]
fn a_stop_and_a_drain_lose_no_stream() {
    for is_drain in [false, true] {
        let (mut sim, mut client) = (sim(), Http2Client::default());
        sim.client_sends(&[preface(&[(4, 0)]), get(1, "/middle")].concat());
        sim.run(Cuts::NONE);
        if is_drain {
            sim.drain()
        } else {
            sim.stop()
        };
        sim.run(Cuts::NONE);
        // The client has sent another request before it knew.
        sim.client_sends(&get(3, "/small"));
        sim.run(Cuts::NONE);
        let replies = client.read(&sim.wire.clone());
        assert_eq!(client.go_aways, [(0x7fff_ffff, 0)]);
        sim.client_sends(&replies);
        sim.run(Cuts::NONE);
        client.read(&sim.wire.clone());
        assert_eq!(client.go_aways, [(0x7fff_ffff, 0), (3, 0)]);
        assert_eq!(sim.close(), Close::No, "two streams are open");
        // They would be answered elsewhere, and what follows of them is no error.
        let later = frame(FrameType::Headers, END_HEADERS, 7, &request("POST", "/", &[]));
        let content = frame(FrameType::Data, 0, 7, b"content");
        let cancel = frame(FrameType::RstStream, 0, 7, &8u32.to_be_bytes());
        sim.client_sends(&[get(5, "/small"), window_update(5, 1), later, content, cancel].concat());
        sim.client_sends(&[window_update(1, 100_000), window_update(3, 100_000)].concat());
        client.run(&mut sim, Cuts::NONE);
        assert!([1, 3].iter().all(|id| client.streams[id].is_complete) && !client.streams.contains_key(&5));
        assert_eq!(sim.close(), Close::Write);
    }
}

#[test]
fn buffers_that_streams_hold_delay_no_redirect() {
    let (mut sim, mut client) = (sim(), Http2Client::default());
    let ranges = request("GET", "/large", &[("range", "bytes=1-2,900-999,-5")]);
    let held =
        [1, 3, 5, 7].map(|stream| frame(FrameType::Headers, END_HEADERS | END_STREAM, stream, &ranges));
    sim.client_sends(&[preface(&[(4, 0)]), held.concat(), get(9, "/dir?q"), get(11, "/small")].concat());
    sim.run(Cuts::NONE);
    client.read(&sim.wire.clone());
    assert_eq!([1, 7, 9, 11].map(|stream| client.streams[&stream].status()), ["206", "206", "301", "200"]);
}

#[test]
fn settings_are_acknowledged_before_anything_that_depends_on_them() {
    let mut sim = sim();
    let wider = frame(FrameType::Settings, 0, 0, &[0, 4, 0, 0, 255, 255]);
    sim.client_sends(&[preface(&[(4, 0)]), wider, get(1, "/small")].concat());
    sim.run(Cuts::NONE);
    let (mut wire, mut kinds) = (&sim.wire[..], Vec::new());
    while let Some(header) = FrameHeader::decode(wire) {
        kinds.push((header.type_number, header.flags.has(FrameFlags::ACK)));
        wire = &wire[FRAME_HEADER_LEN + header.len as usize..];
    }
    let [settings, ack] = [false, true].map(|is_ack| (FrameType::Settings as u8, is_ack));
    let [headers, data] = [FrameType::Headers, FrameType::Data].map(|kind| (kind as u8, false));
    assert_eq!(
        kinds.iter().map(|&(kind, flag)| (kind, flag && kind == 4)).collect::<Vec<_>>(),
        [settings, ack, ack, headers, data]
    );
}

#[test]
fn every_exchange_is_recorded_once() {
    let mut sim = recorded(sim(), false);
    let mut client = Http2Client::default();
    let cancel = frame(FrameType::RstStream, 0, 5, &8u32.to_be_bytes());
    sim.client_sends(
        &[preface(&[(4, 100)]), get(1, "/small"), get(3, "/"), get(5, "/large"), cancel].concat(),
    );
    client.run(&mut sim, Cuts::NONE);
    let (mut starts, mut ends, mut bytes) = (Vec::new(), Vec::new(), sim.records.bytes());
    while let Some((record, len)) = Record::read(bytes) {
        match record {
            Record::Start(start) => starts.push((
                start.id,
                String::from_utf8_lossy(start.line.bytes).into_owned(),
                start.status,
                start.content_len,
            )),
            Record::End(end) => ends.push((end.id, end.content_len, end.is_complete)),
        }
        bytes = &bytes[len..];
    }
    let line = |path: &str| format!("GET {path} HTTP/2.0");
    let [a, b, c] = [0, 1, 2].map(|index: usize| starts[index].0);
    assert_eq!(
        starts,
        [(a, line("/small"), 200, 2_000), (b, line("/"), 200, 5), (c, line("/large"), 200, LARGE_LEN as u64)]
    );
    ends.sort_by_key(|(id, ..)| starts.iter().position(|start| start.0 == *id));
    assert_eq!(ends, [(a, 2_000, true), (b, 5, true), (c, 0, false)]);
    assert_eq!(sim.counters.http2_resets.get(), 1);
}

#[test]
fn http1_is_answered_where_http2_is_offered() {
    for text in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"PRI / HTTP/1.1\r\nHost: a\r\n\r\n", b"P"] {
        let mut sim = sim();
        sim.client_sends(text);
        sim.run(Cuts { read: 1, ..Cuts::NONE });
        let status =
            text.starts_with(b"GET").then_some("HTTP/1.1 200 OK").or(Some("HTTP/1.1 501 Not Implemented"));
        match text {
            b"P" => assert!(sim.wire.is_empty()),
            _ => assert!(sim.wire.starts_with(status.expect("a status").as_bytes())),
        }
    }
    let mut sim = Sim::new(IMAGE.clone());
    sim.client_sends(&preface(&[]));
    sim.run(Cuts::NONE);
    assert!(sim.wire.starts_with(b"HTTP/1.1 505"), "{}", sim.wire.escape_ascii());
}
