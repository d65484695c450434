//! The end of a connection: a stop, a drain, the last request, the end of the input.

use super::sites::{established, sim, throughs};
use tarpon_conn::{Close, Input, SiteId, sim::Cuts};

#[test]
fn a_stop_answers_one_more_request_and_announces_the_close() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
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
}

#[test]
fn a_drain_closes_after_the_next_response_and_keeps_idle_connections_open() {
    for through in &throughs() {
        const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for is_reused in [false, true] {
            let mut sim = established(sim(), through);
            if is_reused {
                sim.client_sends(REQUEST);
                sim.run(Cuts::NONE);
            }
            let (from, deadline) = (sim.wire.len(), sim.deadline_ms());
            sim.drain();
            sim.run(Cuts::NONE);
            assert_eq!(
                (sim.close(), sim.deadline_ms()),
                (Close::No, deadline),
                "the client may send another request"
            );
            sim.client_sends(&REQUEST.repeat(3));
            sim.run(Cuts::NONE);
            let text = String::from_utf8_lossy(&sim.wire[from..]);
            assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
            assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
            assert_ne!(sim.close(), Close::No);
        }
    }
}

#[test]
fn after_the_end_of_input_nothing_is_read_while_a_response_is_sent() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.client_ends();
        sim.run(Cuts { read: usize::MAX, send: 0 });
        assert_eq!(
            sim.input(),
            Input::Pause,
            "an engine that reads again would get the end of input again and again"
        );
        sim.run(Cuts::NONE);
        assert_eq!(sim.close(), Close::Both);
    }
}

#[test]
fn no_request_after_the_last_allowed_one_is_answered() {
    for through in &throughs() {
        const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        const OLD: &[u8] = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        const POST: &[u8] =
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
        type Case<'a> = (&'a str, u32, &'a [&'a [u8]], &'a [&'a str]);
        #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                              max   requests               responses: status, and the value of Connection
        ("one",                              1,    &[GET, GET],           &["200 close"]),
        ("three of five",                    3,    &[GET; 5],             &["200", "200", "200 close"]),
        ("exactly three",                    3,    &[GET; 3],             &["200", "200", "200 close"]),
        ("two of three",                     3,    &[GET; 2],             &["200", "200"]),
        ("content counts with its request",  2,    &[POST, GET, GET],     &["405", "200 close"]),
        ("last request with content",        2,    &[GET, POST, GET],     &["200", "405 close"]),
        ("HTTP/1.0",                         2,    &[OLD, OLD, OLD],      &["200 keep-alive", "200 close"]),
        ("empty lines do not count",         2,    &[b"\r\n", GET, b"\r\n", GET, GET], &["200", "200 close"]),
        ("more than fit into an outbox",     20,   &[GET; 30],            &[&["200"; 19][..], &["200 close"]].concat()),
    ];
        for &(name, count_max, requests, want) in cases {
            for read in [1, 7, 100, usize::MAX] {
                let mut sim = established(sim(), through);
                sim.sites.limits_mut(SiteId::FIRST).keepalive_requests = count_max.try_into().unwrap();
                sim.client_sends(&requests.concat());
                sim.run(Cuts { read, ..Cuts::NONE });
                let text = String::from_utf8_lossy(&sim.wire);
                let heads = text.split("HTTP/1.1 ").skip(1).map(|response| {
                    let option =
                        response.split_once("\r\nConnection: ").map(|(_, rest)| rest.lines().next().unwrap());
                    [Some(&response[..3]), option].into_iter().flatten().collect::<Vec<_>>().join(" ")
                });
                assert_eq!(heads.collect::<Vec<_>>(), want, "{name}, {read} bytes at a time");
                // Input after the last request is read and dropped: unread bytes would reset the connection.
                let want = match want.last().unwrap().ends_with("close") {
                    true => (Input::Discard, Close::Write),
                    false => (Input::Bytes, Close::No),
                };
                assert_eq!((sim.input(), sim.close()), want, "{name}, {read} bytes at a time");
            }
        }
    }
}

#[test]
fn a_stop_finishes_the_exchange_that_has_begun() {
    for through in &throughs() {
        const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        #[rustfmt::skip]
    let cases: &[(&str, &[u8], &[u8], &str)] = &[
        // case                         before       after          response
        ("no request",                  b"",         b"",           ""),
        ("idle between requests",       REQUEST,     b"",           ""),
        ("a head has begun",            &REQUEST[..9], &REQUEST[9..], "\r\nConnection: close\r\n"),
    ];
        for &(name, before, after, want) in cases {
            let mut sim = established(sim(), through);
            sim.client_sends(before);
            sim.run(Cuts::NONE);
            let from = sim.wire.len();
            sim.stop();
            sim.client_sends(after);
            sim.client_ends();
            sim.run(Cuts::NONE);
            let text = String::from_utf8_lossy(&sim.wire[from..]).into_owned();
            assert!(text.contains(want) && (want.is_empty() == text.is_empty()), "{name}: {text}");
            assert_eq!(sim.close(), Close::Both, "{name}");
        }
    }
}
