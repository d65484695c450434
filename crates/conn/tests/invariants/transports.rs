//! What a sealing transport adds to a connection: a handshake, records, and an alert that closes.

use super::sites::{LARGE_LEN, archived, established, sim, throughs};
use tarpon_conn::{
    Close, Span,
    sim::{Cuts, Sim, Through},
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SCRAMBLED: Through = Through::Scrambled { seed: 7, record_lens: 1..=300 };

/// The bytes that the client sends in a handshake: two messages.
const HANDSHAKE_LEN: usize = 30;

#[test]
fn a_handshake_that_never_completes_ends_by_the_header_timeout() {
    for arriving_len in 0..HANDSHAKE_LEN {
        let mut sim = sim().through(&SCRAMBLED);
        sim.arriving_len = arriving_len;
        sim.client_sends(REQUEST);
        sim.run(Cuts::NONE);
        assert_eq!((sim.deadline_ms(), sim.close()), (20_000, Close::No), "{arriving_len} bytes");
        sim.pass(19_999);
        sim.run(Cuts::NONE);
        assert_eq!(sim.close(), Close::No, "{arriving_len} bytes");
        sim.pass(1);
        sim.run(Cuts::NONE);
        assert_eq!((sim.close(), sim.wire.len()), (Close::Both, 0), "{arriving_len} bytes");
    }
}

#[test]
fn a_handshake_that_the_socket_has_no_room_for_ends_by_the_header_timeout() {
    let mut sim = sim().through(&SCRAMBLED);
    sim.client_sends(REQUEST);
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    sim.pass(20_000);
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    assert_eq!((sim.close(), sim.wire.len(), sim.bufs_held()), (Close::Both, 0, 0));
}

/// With any cut of the wire in two, in both directions.
#[test]
fn the_wire_may_be_cut_anywhere() {
    let answer = |through: &Through, read, send| {
        let mut sim = sim().through(through);
        sim.client_sends(&REQUEST.repeat(2));
        sim.step(Cuts { read, send });
        sim.step(Cuts { read, send });
        sim.run(Cuts::NONE);
        sim.wire
    };
    let whole = answer(&Through::Plain, usize::MAX, usize::MAX);
    for cut in 1..200 {
        assert!(answer(&SCRAMBLED, cut, usize::MAX) == whole, "reads of {cut} bytes");
        assert!(answer(&SCRAMBLED, usize::MAX, cut) == whole, "sends of {cut} bytes");
    }
}

/// Each change to the client's bytes, and whether the connection goes on.
#[test]
fn a_wire_byte_that_is_lost_or_repeated_or_reordered_closes_the_connection() {
    type Change = fn(&mut Vec<u8>);
    #[rustfmt::skip]
    let cases: &[(&str, Change, bool)] = &[
        ("none",      |_| {},                                          true),
        ("lost",      |wire| { wire.remove(9); },                      false),
        ("repeated",  |wire| wire.insert(9, wire[9]),                  false),
        ("reordered", |wire| wire.swap(9, 10),                         false),
        ("changed",   |wire| wire[9] ^= 1,                             false),
        ("all again", |wire| wire.extend_from_within(..),              false),
    ];
    for &(name, change, goes_on) in cases {
        let mut sim = established(sim(), &SCRAMBLED);
        sim.client_sends(&REQUEST.repeat(2));
        change(&mut sim.socket);
        // A record that lost a byte is complete with the first of the next.
        sim.client_sends(b"\r\n");
        sim.run(Cuts::NONE);
        assert_eq!(sim.close() == Close::No, goes_on, "{name}");
    }
}

/// The archive is truncated between the moment at which its bytes are read and that at which they would leave.
#[test]
fn bytes_of_a_damaged_source_are_never_sent() {
    for through in &throughs() {
        for (is_damaged, content_len, close) in [(false, 800, Close::No), (true, 0, Close::Both)] {
            let mut sim = established(archived(), through);
            sim.client_sends(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            sim.run(Cuts { send: 0, ..Cuts::NONE });
            assert!(matches!(sim.outbox(), [.., Span::Archive { len: 800, .. }]), "{through:?}");
            sim.archive_is_damaged = is_damaged;
            sim.run(Cuts::NONE);
            let mut ends = sim.wire.windows(4).enumerate().filter(|(_, bytes)| bytes == b"\r\n\r\n");
            let head_len = ends.next().map_or(sim.wire.len(), |(at, _)| at + 4);
            assert_eq!((sim.wire.len() - head_len, sim.close()), (content_len, close), "{through:?}");
            assert!(!sim.client_has_alert(), "{through:?}");
        }
    }
}

#[test]
fn a_close_in_order_sends_an_alert_and_a_cut_response_has_none() {
    type Case<'a> = (&'a str, &'a [u8], fn(&mut Sim), usize, Close, bool);
    const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[Case<'_>] = &[
        // case                      bytes     then                    socket takes  closes        alert
        ("open",                     REQUEST,  |_| {},                 usize::MAX,   Close::No,    false),
        ("the last response",        LAST,     |_| {},                 usize::MAX,   Close::Both,  true),
        ("an invalid request",       b"GET\r\n\r\n", |_| {},         usize::MAX,   Close::Write, true),
        ("the last, a full socket",  LAST,     |_| {},                 0,            Close::No,    false),
        ("an idle client",           REQUEST,  |sim| sim.pass(75_000), usize::MAX,   Close::Both,  true),
        ("no request",               b"",      |sim| sim.pass(20_000), usize::MAX,   Close::Both,  true),
        ("no request, a full socket", b"",     |sim| sim.pass(20_000), 0,            Close::Both,  false),
        ("a stop",                   REQUEST,  Sim::stop,              usize::MAX,   Close::Both,  true),
        ("the client's end",         REQUEST,  Sim::client_ends,       usize::MAX,   Close::Both,  true),
        ("a client that reads nothing", LARGE, |sim| sim.pass(30_000), 0,            Close::Both,  false),
    ];
    for &(name, bytes, then, send, close, has_alert) in cases {
        let mut sim = established(sim(), &SCRAMBLED);
        sim.client_sends(bytes);
        sim.run(Cuts { send, ..Cuts::NONE });
        then(&mut sim);
        sim.run(Cuts { send, ..Cuts::NONE });
        assert_eq!((sim.close(), sim.client_has_alert()), (close, has_alert), "{name}");
    }
}

/// The deadline passes in the middle of a response, and the socket has room: what is left of it must not leave, nor an alert.
#[test]
fn a_response_that_is_cut_ends_without_an_alert() {
    let mut sim = established(sim(), &Through::LARGEST);
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    sim.run(Cuts { send: 0, ..Cuts::NONE });
    sim.send_on_wire(10_000);
    sim.pass(30_000);
    sim.run(Cuts::NONE);
    assert_eq!((sim.close(), sim.client_has_alert()), (Close::Both, false));
    assert!(sim.wire.len() < LARGE_LEN);
}

/// A record leaves for longer than its response prefix stays the same.
#[test]
fn a_record_that_leaves_slowly_has_one_date() {
    for seed in 0..20 {
        let mut sim = established(sim(), &Through::Scrambled { seed, record_lens: 20..=60 });
        sim.client_sends(REQUEST);
        sim.run(Cuts { send: 0, ..Cuts::NONE });
        sim.send_on_wire(1);
        sim.pass(5_000);
        sim.run(Cuts::NONE);
        let text = String::from_utf8_lossy(&sim.wire);
        assert!(text.contains("\r\nDate: Mon, 07 Nov 1994 08:49:37 GMT\r\n"), "{text}");
    }
}

/// The wire bytes behind an evicted head cannot be opened, but the client still learns why the connection ends.
#[test]
fn an_evicted_head_is_answered() {
    for through in &throughs() {
        let mut sim = established(sim(), through);
        sim.client_sends(b"GET / HT");
        sim.run(Cuts::NONE);
        assert!(sim.bufs_held() > 0, "{through:?}");
        sim.evict();
        sim.client_sends(b"TP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts::NONE);
        assert!(sim.wire.starts_with(b"HTTP/1.1 408 "), "{through:?}: {}", sim.wire.escape_ascii());
        assert_eq!(sim.close(), Close::Write, "{through:?}");
        sim.client_ends();
        sim.run(Cuts::NONE);
        assert_eq!((sim.close(), sim.bufs_held()), (Close::Both, 0), "{through:?}");
    }
}
