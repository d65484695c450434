//! How a connection ends: a stop, a drain, the last request, the end of what the client sends.

use super::sites::sim;
use tarpon_conn::{BUF_LEN, Close, Input, SiteId, sim::Cuts};

#[test]
fn a_stop_answers_one_more_of_the_requests_that_had_arrived_and_says_that_it_closes() {
    let mut sim = sim();
    sim.client_sends(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
    sim.run(Cuts { read: usize::MAX, send: 0 });
    sim.stop();
    sim.client_ends();
    sim.run(Cuts::NONE);
    let text = String::from_utf8_lossy(&sim.wire);
    let last = text.rfind("HTTP/1.1 200 OK").unwrap();
    assert!(text[last..].contains("\r\nConnection: close\r\n"), "{text}");
    assert_eq!(sim.close(), Close::Both);
}

#[test]
fn a_drain_ends_each_connection_with_its_next_response_and_closes_none_that_waits() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for asked_before in [false, true] {
        let mut sim = sim();
        if asked_before {
            sim.client_sends(REQUEST);
            sim.run(Cuts::NONE);
        }
        let (from, deadline) = (sim.wire.len(), sim.deadline_ms());
        sim.drain();
        sim.run(Cuts::NONE);
        assert_eq!((sim.close(), sim.deadline_ms()), (Close::No, deadline), "it may still ask");
        sim.client_sends(&REQUEST.repeat(3));
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire[from..]);
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert_ne!(sim.close(), Close::No);
    }
}

#[test]
fn behind_the_end_nothing_is_read_while_a_response_leaves() {
    let mut sim = sim();
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.client_ends();
    sim.run(Cuts { read: usize::MAX, send: 0 });
    assert_eq!(
        sim.input(),
        Input::Pause,
        "an engine that asked again would be told of the end again and again"
    );
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Both);
}

#[test]
fn behind_the_last_request_that_a_connection_takes_nothing_is_answered() {
    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const OLD: &[u8] = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    const POST: &[u8] =
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    type Case<'a> = (&'a str, u32, &'a [&'a [u8]], &'a [&'a str]);
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // what it shows                     most  requests               responses, up to what tells them apart
        ("one",                              1,    &[GET, GET],           &["200 close"]),
        ("three of five",                    3,    &[GET; 5],             &["200", "200", "200 close"]),
        ("three, and no more come",          3,    &[GET; 3],             &["200", "200", "200 close"]),
        ("one less",                         3,    &[GET; 2],             &["200", "200"]),
        ("content counts with its request",  2,    &[POST, GET, GET],     &["405", "200 close"]),
        ("content of the last",              2,    &[GET, POST, GET],     &["200", "405 close"]),
        ("HTTP/1.0",                         2,    &[OLD, OLD, OLD],      &["200 keep-alive", "200 close"]),
        ("empty lines do not count",         2,    &[b"\r\n", GET, b"\r\n", GET, GET], &["200", "200 close"]),
        ("more than fit into an outbox",     20,   &[GET; 30],            &[&["200"; 19][..], &["200 close"]].concat()),
    ];
    for &(name, most, requests, want) in cases {
        for read in [1, 7, 100, usize::MAX] {
            let mut sim = sim();
            sim.sites.limits_mut(SiteId::FIRST).keepalive_requests = most.try_into().unwrap();
            sim.client_sends(&requests.concat());
            sim.run(Cuts { read, ..Cuts::NONE });
            let text = String::from_utf8_lossy(&sim.wire);
            let heads = text.split("HTTP/1.1 ").skip(1).map(|response| {
                let option =
                    response.split_once("\r\nConnection: ").map(|(_, rest)| rest.lines().next().unwrap());
                [Some(&response[..3]), option].into_iter().flatten().collect::<Vec<_>>().join(" ")
            });
            assert_eq!(heads.collect::<Vec<_>>(), want, "{name}, {read} bytes at a time");
            // What comes behind the last is read, so that it resets nothing, and dropped.
            let close = if want.last().unwrap().ends_with("close") { Close::Write } else { Close::No };
            let input = Input::Bytes { max: BUF_LEN as u32 };
            assert_eq!((sim.input(), sim.close()), (input, close), "{name}, {read} bytes at a time");
        }
    }
}

#[test]
fn a_stop_finishes_what_has_begun() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &[u8], &str)] = &[
        // what it shows                before       after          answered
        ("nothing has begun",           b"",         b"",           ""),
        ("idle between requests",       REQUEST,     b"",           ""),
        ("a head has begun",            &REQUEST[..9], &REQUEST[9..], "\r\nConnection: close\r\n"),
    ];
    for &(name, before, after, answered) in cases {
        let mut sim = sim();
        sim.client_sends(before);
        sim.run(Cuts::NONE);
        let begun = sim.wire.len();
        sim.stop();
        sim.client_sends(after);
        sim.client_ends();
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire[begun..]).into_owned();
        assert!(text.contains(answered) && (answered.is_empty() == text.is_empty()), "{name}: {text}");
        assert_eq!(sim.close(), Close::Both, "{name}");
    }
}
