//! Records after the handshake, sealed with the right keys.

use super::{AttackedServer, VERSIONS, send};
use crate::common::{
    ENGINES,
    client::get,
    client_hello::{ClientHello, handshake_message, record},
    is_disconnect,
    record_forge::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, RecordForge},
};
use std::{net::Shutdown, thread};

/// What a client that has shaken hands sees until the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordEnding {
    /// A response with this status, and `close_notify`.
    Response(u16),
    /// `close_notify` alone.
    CloseNotify,
    /// A fatal alert of this number.
    Fatal(u8),
    /// The warning of this number, and the end.
    Warning(u8),
    /// The end without an alert.
    Silence,
    /// A reset: the server closed while bytes were on their way.
    Reset,
    Other,
}

type RecordAttack = fn(&mut RecordForge) -> Vec<u8>;

#[test]
fn hostile_records_end_their_connection_alone() {
    use RecordEnding::*;
    const V12: &[usize] = &[1];
    const V13: &[usize] = &[0];
    const BOTH: &[usize] = &[0, 1];
    const DATA: u8 = APPLICATION_DATA;
    #[rustfmt::skip]
    let cases: &[(&str, &[usize], RecordAttack, RecordEnding)] = &[
        // case                        versions  sent                                                                     ends with
        ("a request",                  BOTH, |forge| last(forge),                                                         Response(200)),
        ("a byte per record",          BOTH, |forge| LAST.chunks(1).flat_map(|byte| forge.record(DATA, byte)).collect(),  Response(200)),
        ("30 empty records",           BOTH, |forge| [repeat(forge, 30, DATA, b""), last(forge)].concat(),                Response(200)),
        ("empty records",              BOTH, |forge| [repeat(forge, 5_000, DATA, b""), last(forge)].concat(),             Silence),
        ("a kind of 99",               BOTH, |forge| forge.record(99, b"x"),                                              Fatal(50)),
        ("a kind of 24",               BOTH, |forge| forge.record(24, b"\x01\x40\x00"),                                   Fatal(50)),
        ("only padding",               V13,  |forge| forge.record(0, &[0; 100]),                                          Silence),
        ("2^14 bytes",                 BOTH, |forge| [forge.record(DATA, &filled(1 << 14)), forge.record(DATA, TAIL)].concat(), Response(431)),
        ("2^14 + 1 bytes",             BOTH, |forge| forge.record(DATA, &[b'x'; (1 << 14) + 1]),                          Fatal(22)),
        ("2^14 + 900 bytes",           BOTH, |forge| forge.record(DATA, &[b'x'; (1 << 14) + 900]),                        Fatal(22)),
        ("2^14 + 2,000 bytes",         BOTH, |forge| forge.record(DATA, &[b'x'; (1 << 14) + 2_000]),                      Fatal(50)),
        ("2^14 + 2,048 bytes",         BOTH, |forge| forge.record(DATA, &[b'x'; (1 << 14) + 2_048]),                      Fatal(50)),
        ("a length of 65,535",         BOTH, |_| [&[DATA, 3, 3, 255, 255][..], &[0; 65_535]].concat(),                    Fatal(50)),
        ("a record without a tag",     BOTH, |_| record(DATA, b"short"),                                                  Fatal(20)),
        ("a record of another key",    BOTH, |_| record(DATA, &[7; 100]),                                                 Fatal(20)),
        ("a record twice",             BOTH, |forge| forge.record(DATA, b"GET / ").repeat(2),                             Fatal(20)),
        ("an unsealed alert",          BOTH, |_| record(ALERT, &[1, 0]),                                                  Fatal(20)),
        ("ChangeCipherSpec",           V13,  |_| record(CHANGE_CIPHER_SPEC, &[1]).repeat(1_000),                          Fatal(10)),
        ("sealed ChangeCipherSpec",    V13,  |forge| repeat(forge, 1_000, CHANGE_CIPHER_SPEC, &[1]),                      Fatal(10)),
        ("sealed ChangeCipherSpec",   V12,  |forge| repeat(forge, 1_000, CHANGE_CIPHER_SPEC, &[1]),                      Fatal(50)),
        ("empty handshake records",    BOTH, |forge| repeat(forge, 1_000, HANDSHAKE, b""),                                Silence),
        ("HelloRequests",              BOTH, |forge| repeat(forge, 1_000, HANDSHAKE, &handshake_message(0, b"")),         Fatal(10)),
        ("a ClientHello",              V13,  |forge| forge.record(HANDSHAKE, &ClientHello::new().message()),              Fatal(10)),
        ("renegotiation",              V12,  |forge| repeat(forge, 1_000, HANDSHAKE, &ClientHello::new().message()),      Warning(100)),
        ("part of a KeyUpdate",        V13,  |forge| forge.record(HANDSHAKE, &handshake_message(24, &[0])[..3]),          Silence),
        ("a KeyUpdate and more",       V13,  |forge| forge.record(HANDSHAKE, &handshake_message(24, &[0]).repeat(2)),     Fatal(10)),
        ("a wrong KeyUpdate",          V13,  |forge| forge.record(HANDSHAKE, &handshake_message(24, &[2])),               Fatal(47)),
        ("an endless message",         BOTH, |forge| [forge.record(HANDSHAKE, &[24, 255, 255, 255]), repeat(forge, 9, HANDSHAKE, &[0; 1 << 14])].concat(), Silence),
        ("a client's certificate",     V13,  |forge| forge.record(HANDSHAKE, &handshake_message(11, &[0, 0, 0, 0])),      Fatal(10)),
        ("a client's certificate",    V12,  |forge| forge.record(HANDSHAKE, &handshake_message(11, &[0, 0, 0, 0])),      Fatal(50)),
        ("warnings",                   BOTH, |forge| repeat(forge, 1_000, ALERT, &[1, 90]),                               Silence),
        ("unknown warnings",           V13,  |forge| repeat(forge, 1_000, ALERT, &[1, 200]),                              Fatal(50)),
        ("unknown warnings",          V12,  |forge| repeat(forge, 1_000, ALERT, &[1, 200]),                              Silence),
        ("a fatal alert",              BOTH, |forge| forge.record(ALERT, &[2, 80]),                                       Silence),
        ("an empty alert",             BOTH, |forge| forge.record(ALERT, b""),                                            Fatal(50)),
        ("half an alert",              BOTH, |forge| forge.record(ALERT, &[1]),                                           Fatal(50)),
        ("data after close_notify",    BOTH, |forge| [forge.record(ALERT, &[1, 0]), last(forge)].concat(),                CloseNotify),
        ("two thousand requests",      BOTH, |forge| [repeat(forge, 2_000, DATA, get("/").as_bytes()), last(forge)].concat(), Response(200)),
    ];
    for &engine in ENGINES {
        let target = AttackedServer::start(engine, &[]);
        target.serves_others("the start");
        let descriptors = target.descriptors();
        for &(name, versions, attack, want) in cases {
            for &version in versions {
                let before = target.files.counts();
                let mut client = target.begin(version);
                client.shake_hands().expect("a handshake");
                if version == 0 {
                    // The server has sent its tickets: it has seen the end of the handshake.
                    client.socket.peek(&mut [0]).expect("a ticket");
                }
                let mut forge = RecordForge::new(client);
                let bytes = attack(&mut forge);
                // The server may close before it has read all, and before the client has read its alert.
                let mut sending = forge.socket.try_clone().expect("a descriptor");
                let ending = thread::scope(|scope| {
                    scope.spawn(move || {
                        send(&mut sending, &bytes);
                        let _ = sending.shutdown(Shutdown::Write);
                    });
                    ending(&mut forge)
                });
                assert_eq!(ending, want, "{engine}, {name}, {}", VERSIONS[version].0);
                drop(forge);
                target.serves_others(name);
                let is_failure = !matches!(want, Response(_) | CloseNotify);
                target.wait_for_counts(name, before, [2, u64::from(is_failure)]);
            }
        }
        target.end(descriptors);
    }
}

const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const TAIL: &[u8] = b"\r\nConnection: close\r\n\r\n";

fn last(forge: &mut RecordForge) -> Vec<u8> {
    forge.record(APPLICATION_DATA, LAST)
}

/// Returns the first bytes of a head of which `TAIL` is the end, with more bytes than a head may have if this is long.
fn filled(len: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec();
    head.resize(len, b'x');
    head
}

fn repeat(forge: &mut RecordForge, count: usize, kind: u8, content: &[u8]) -> Vec<u8> {
    (0..count).flat_map(|_| forge.record(kind, content)).collect()
}

fn ending(forge: &mut RecordForge) -> RecordEnding {
    let records = match forge.read_to_end() {
        Ok(records) => records,
        Err(error) => {
            assert!(is_disconnect(&error), "{error}");
            return RecordEnding::Reset;
        }
    };
    // Tickets come first.
    let records: Vec<_> = records.iter().filter(|(kind, _)| *kind != HANDSHAKE).collect();
    let alert = |record: &(u8, Vec<u8>)| match record {
        (ALERT, alert) => Some((alert[0], alert[1])),
        _ => None,
    };
    let alerts: Vec<_> = records.iter().filter_map(|record| alert(record)).collect();
    let status = records.first().and_then(|(_, content)| content.strip_prefix(b"HTTP/1.1 "));
    let status = status.and_then(|rest| std::str::from_utf8(&rest[..3]).ok()?.parse().ok());
    match (&alerts[..], status) {
        ([(1, 0)], Some(status)) => RecordEnding::Response(status),
        ([(1, 0)], None) => RecordEnding::CloseNotify,
        ([(1, warning)], None) => RecordEnding::Warning(*warning),
        ([(2, number)], None) => RecordEnding::Fatal(*number),
        ([], None) => RecordEnding::Silence,
        _ => RecordEnding::Other,
    }
}
