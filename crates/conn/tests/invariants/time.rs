//! Deadlines, and the minimum rate of a client.

use super::sites::{established, sim, throughs};
use tarpon_conn::{Close, SiteId, sim::Cuts};

#[test]
fn an_empty_line_after_a_request_begins_no_head() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n");
        sim.run(Cuts::NONE);
        assert_eq!((sim.bufs_held(), sim.deadline_ms()), (0, 75_000));
    }
}

/// Each state has a deadline; the last column is the response when it passes.
#[test]
fn deadlines_follow_the_state() {
    for through in &throughs() {
        const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        #[rustfmt::skip]
    let cases: &[(&str, &[u8], usize, u64, &str)] = &[
        // case                       bytes                                             send        deadline  response
        ("the first head",            b"",                                              usize::MAX, 20_000,   ""),
        ("a head that has begun",     b"GET / HT",                                      usize::MAX, 20_000,   "HTTP/1.1 408 "),
        ("the next request",          REQUEST,                                          usize::MAX, 75_000,   ""),
        ("a client that reads nothing", REQUEST,                                        0,          30_000,   ""),
        ("content",                   b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", usize::MAX, 30_000, ""),
        ("the client's close",        b"GET\r\n\r\n",                                   usize::MAX, 2_000,    ""),
    ];
        for &(name, bytes, send, deadline_ms, want) in cases {
            let mut sim = established(sim(), through);
            sim.client_sends(bytes);
            sim.run(Cuts { read: usize::MAX, send });
            assert_eq!(sim.deadline_ms(), deadline_ms, "{name}");
            let before = sim.wire.len();
            sim.pass(deadline_ms);
            sim.run(Cuts { read: usize::MAX, send });
            let text = String::from_utf8_lossy(&sim.wire[before..]).into_owned();
            assert!(text.starts_with(want) && (want.is_empty() == text.is_empty()), "{name}: {text}");
            sim.client_ends();
            sim.run(Cuts { read: usize::MAX, send });
            assert_eq!(sim.close(), Close::Both, "{name}");
        }
    }
}

#[test]
fn a_head_byte_by_byte_does_not_extend_its_deadline() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        for byte in b"GET / HTTP/1.1\r\nHost: a" {
            sim.client_sends(&[*byte]);
            sim.run(Cuts::NONE);
            sim.pass(500);
        }
        assert!(sim.deadline_ms() <= 20_000 - 500 * 23, "{} ms left", sim.deadline_ms());
    }
}

#[test]
fn content_byte_by_byte_does_not_extend_its_deadline() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
        sim.run(Cuts::NONE);
        let answered = sim.wire.len();
        for left_ms in (1..=30).rev().map(|s| s * 1_000) {
            assert_eq!((sim.deadline_ms(), sim.close()), (left_ms, Close::No));
            sim.client_sends(b"x");
            sim.run(Cuts::NONE);
            sim.pass(1_000);
        }
        sim.run(Cuts::NONE);
        assert_eq!(sim.close(), Close::Write, "later input must not reset the response");
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.pass(2_000);
        sim.run(Cuts::NONE);
        assert_eq!((sim.wire.len(), sim.close()), (answered, Close::Both));
    }
}

#[test]
fn a_refused_client_may_send_for_the_time_of_content() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n");
        sim.run(Cuts::NONE);
        let answered = sim.wire.len();
        for left_s in (1..=30).rev() {
            assert_eq!((sim.deadline_ms(), sim.close()), (2_000.min(left_s * 1_000), Close::Write));
            sim.pass(1_000);
            sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            sim.run(Cuts::NONE);
        }
        assert_eq!((sim.wire.len(), sim.close()), (answered, Close::Both));
    }
}

/// The last response was sent, but the client has not acknowledged its end. Closing would lose it if the client sends more.
#[test]
fn a_slow_client_gets_the_last_response_at_the_minimum_rate() {
    for through in &throughs() {
        type Case<'a> = (&'a str, &'a [(u64, u64)], bool);
        #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                                windows, each with unacknowledged bytes       stays open
        ("all acknowledged",                   &[(2_000, 0)],                                false),
        ("not all acknowledged",               &[(2_000, 60_000)],                           true),
        ("then no more",                       &[(2_000, 60_000), (30_000, 60_000)],         false),
        ("then at the minimum rate",           &[(2_000, 60_000), (30_000, 45_000), (30_000, 30_000)], true),
        ("then below it",                      &[(2_000, 60_000), (30_000, 45_000), (30_000, 30_001)], false),
        ("then the rest",                      &[(2_000, 60_000), (30_000, 0)],              false),
    ];
        for &(name, windows, stays_open) in cases {
            let mut sim = established(sim(), through);
            sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nmore");
            sim.run(Cuts::NONE);
            for &(window_ms, unacked) in windows {
                assert_eq!((sim.deadline_ms(), sim.close()), (window_ms, Close::Write), "{name}");
                sim.unacked = unacked;
                sim.client_sends(b"and more");
                sim.pass(window_ms);
                sim.run(Cuts::NONE);
            }
            assert_eq!(sim.close() == Close::Write, stays_open, "{name}");
        }
    }
}

#[test]
fn empty_lines_between_requests_do_not_extend_the_deadline() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts::NONE);
        for left_s in (1..=75).rev() {
            assert_eq!(sim.deadline_ms(), left_s * 1_000);
            sim.client_sends(b"\r\n");
            sim.run(Cuts::NONE);
            sim.pass(1_000);
        }
        sim.run(Cuts::NONE);
        assert_eq!(sim.close(), Close::Both);
    }
}

/// How much of a long response a client reads in each window of 30 seconds, and whether the connection stays open.
#[test]
fn a_client_is_served_at_the_minimum_rate_and_closed_below_it() {
    for through in &throughs() {
        type Case<'a> = (&'a str, u32, &'a [(usize, u64)], bool);
        #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                                      rate  sent, and unacknowledged stays open
        ("the minimum rate",                          500, &[(15_000, 0); 4],          true),
        ("one byte less",                             500, &[(15_000, 0), (14_999, 0)], false),
        ("a byte now and then",                       500, &[(1, 0)],                  false),
        ("nothing",                                   500, &[(0, 0)],                  false),
        ("another rate",                            1_000, &[(29_999, 0)],             false),
        ("rate 0, a byte per window",                   0, &[(1, 0); 9],               true),
        ("rate 0, a window without a byte",             0, &[(1, 0), (0, 0)],          false),
        ("full buffers, emptied in time",             500, &[(80_000, 60_000), (0, 45_000), (0, 30_000)], true),
        ("full buffers, not emptied",                 500, &[(80_000, 60_000), (0, 60_000)], false),
        ("full buffers, emptied too slowly",          500, &[(80_000, 60_000), (0, 45_001)], false),
        ("sent but not acknowledged",                 500, &[(80_000, 60_000), (15_000, 75_000)], false),
    ];
        for &(name, min_send_rate, windows, stays_open) in cases {
            let mut sim = established(sim(), through);
            sim.sites.limits_mut(SiteId::FIRST).min_send_rate = min_send_rate;
            sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
            sim.run(Cuts { read: usize::MAX, send: 0 });
            for (number, &(send, unacked)) in windows.iter().enumerate() {
                assert_eq!((sim.deadline_ms(), sim.close()), (30_000, Close::No), "{name}, window {number}");
                // A send within the window does not extend it.
                sim.pass(10_000);
                sim.send_on_wire(send);
                sim.unacked = unacked;
                assert_eq!(sim.deadline_ms(), 20_000, "{name}, window {number}");
                sim.pass(20_000);
                sim.run(Cuts { read: usize::MAX, send: 0 });
            }
            assert_eq!(sim.close() == Close::No, stays_open, "{name}");
        }
    }
}
