//! What a client sends before the server has answered.

use super::{AttackedServer, send};
use crate::common::{
    ENGINES,
    client::get,
    client_hello::{
        ALPN, ClientHello, KEY_SHARE, PADDING, SERVER_NAME, SIGNATURE_ALGORITHMS, SUPPORTED_GROUPS,
        SUPPORTED_VERSIONS, handshake_message, protocols, record, server_name, with_len8, with_len16,
    },
    is_disconnect,
    record_forge::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE},
};
use Seen::*;
use std::{
    io::Read,
    net::{Shutdown, TcpStream},
};

/// What a client sees of a server that it attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The first flight of the server.
    ServerHello,
    /// The alert of this number, and the end of the connection.
    Alert(u8),
    /// The response to a request without TLS, and the end of the connection.
    BadRequest,
    /// The first flight of the server, which then refuses the client.
    LateRefusal,
    /// The end of the connection, without a byte: the server refuses the client.
    End,
    /// Nothing: the server waits for more, until the client closes.
    Waits,
    /// Anything else.
    Other,
}

impl Seen {
    /// Returns what the client sees at first.
    fn seen(self) -> Seen {
        match self {
            LateRefusal => ServerHello,
            Waits => End,
            seen => seen,
        }
    }
}

#[test]
fn hostile_first_flights_end_their_connection_alone() {
    let cases = cases();
    for &engine in ENGINES {
        let target = AttackedServer::start(engine, &[]);
        target.serves_others("the start");
        let descriptors = target.descriptors();
        for (name, bytes, want) in &cases {
            let before = target.files.counts();
            let mut socket = target.connect();
            send(&mut socket, bytes);
            // A server that waits for more ends the connection now.
            let _ = socket.shutdown(Shutdown::Write);
            let seen = answer(&mut socket);
            assert_eq!(seen, want.seen(), "{engine}, {name}");
            drop(socket);
            target.serves_others(name);
            let is_failure = !matches!(want, ServerHello | Waits);
            target.wait_for_counts(name, before, [1, u64::from(is_failure)]);
        }
        target.end(descriptors);
    }
}

/// Receives what the server answers.
fn answer(socket: &mut TcpStream) -> Seen {
    let mut received = Vec::new();
    loop {
        let mut block = [0; 4096];
        match socket.read(&mut block) {
            Ok(0) => break,
            Ok(len) => received.extend_from_slice(&block[..len]),
            Err(error) => {
                assert!(is_disconnect(&error), "{error}");
                break;
            }
        }
        if let [HANDSHAKE, 3, 3, _, _, 2, ..] = received[..] {
            return ServerHello;
        }
    }
    match received[..] {
        [] => End,
        [ALERT, 3, _, 0, 2, 2, number] => Alert(number),
        _ if received.starts_with(b"HTTP/1.1 400 ")
            && received.ends_with(b"This port expects HTTPS: use https:// in place of http://.\n") =>
        {
            BadRequest
        }
        _ => Other,
    }
}

fn cases() -> Vec<(&'static str, Vec<u8>, Seen)> {
    let hello = ClientHello::new;
    let one = || hello().records(1 << 14);
    let named = |name: &[u8]| hello().with(SERVER_NAME, server_name(name)).records(1 << 14);
    let padded = |len: usize| hello().with(PADDING, vec![0; len]);
    #[rustfmt::skip]
    let cases = vec![
        // case                        sent                                                                the client sees
        ("a ClientHello",              one(),                                                              ServerHello),
        ("a byte per record",          hello().records(1),                                                 ServerHello),
        ("of maximal length",          padded(15_000).records(1 << 14),                                    ServerHello),
        ("in 3 records",               padded(15_000).records(6_000),                                      ServerHello),
        ("longer than a record",       padded(16_600).records(9_000),                                      ServerHello),
        ("longer than a buffer",       padded(40_000).records(1 << 14),                                    End),
        ("of endless length",          [record(HANDSHAKE, &[1, 255, 255, 255]), record(HANDSHAKE, &[0; 1 << 14]).repeat(4)].concat(), End),
        // rustls allows each record the length of a sealed one.
        ("a record that is too long",  padded(16_500).records(1 << 15),                                    ServerHello),
        ("2^14 + 2049",                [&[HANDSHAKE, 3, 3, 0x48, 1][..], &[0; 20_000]].concat(),           Alert(22)),
        ("2^14 + 2048",                [&[HANDSHAKE, 3, 3, 0x48, 0][..], &[0; 20_000]].concat(),           Alert(22)),
        // A buffer has 17 KiB, and a header 5 bytes.
        ("17,404",                     vec![HANDSHAKE, 3, 3, 0x43, 0xfc],                                 Alert(22)),
        ("17,403",                     vec![HANDSHAKE, 3, 3, 0x43, 0xfb],                                  Waits),
        ("2^14 + 2048 in record 2",    [record(HANDSHAKE, &[1, 0, 90, 0]), vec![HANDSHAKE, 3, 3, 0x48, 0]].concat(), Alert(22)),
        ("65535",                      [&[HANDSHAKE, 3, 3, 255, 255][..], &[0; 65_535]].concat(),          Alert(22)),
        ("two ClientHellos",           one().repeat(2),                                                    LateRefusal),
        ("garbage",                    (0..5_000_u32).map(|at| ((at * at) >> 3) as u8 | 128).collect(),      Alert(50)),
        ("zeros",                      vec![0; 20_000],                                                    Alert(50)),
        ("SSLv2",                      [&[0x80, 46, 1, 0, 2, 0, 21, 0, 0, 0, 16][..], &[3; 37]].concat(),  Alert(50)),
        ("HTTP",                       get("/").into_bytes(),                                              BadRequest),
        ("HTTP of 60 kB",              get(&format!("/{}", "x".repeat(60_000))).into_bytes(),              BadRequest),
        ("HTTP/2",                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),                       BadRequest),
        ("a letter first",               record(99, b"x"),                                                   BadRequest),
        ("a kind of 24",               record(24, b"\x01\x40\x00"),                                        Alert(50)),
        ("empty handshake records",    record(HANDSHAKE, b"").repeat(1_000),                               Alert(50)),
        ("data",                       record(APPLICATION_DATA, b"GET / HTTP/1.1\r\n\r\n"),                Alert(10)),
        ("empty data",                 record(APPLICATION_DATA, b"").repeat(1_000),                        Alert(10)),
        ("ChangeCipherSpec",           record(CHANGE_CIPHER_SPEC, &[1]).repeat(1_000),                     Alert(10)),
        ("ChangeCipherSpec of 2",      record(CHANGE_CIPHER_SPEC, &[2]),                                   Alert(50)),
        ("warnings",                   record(ALERT, &[1, 90]).repeat(1_000),                              End),
        ("unknown warnings",           record(ALERT, &[1, 255]).repeat(1_000),                             End),
        ("a fatal alert",              record(ALERT, &[2, 40]),                                            End),
        // Anybody may have sent it: rustls ignores warnings before the handshake ends, up to a number.
        ("close_notify",               record(ALERT, &[1, 0]),                                             Waits),
        ("a short alert",              record(ALERT, &[1]),                                                Alert(50)),
        ("HelloRequests",              record(HANDSHAKE, &handshake_message(0, b"")).repeat(1_000),        Alert(10)),
        ("ServerHello",                record(HANDSHAKE, &handshake_message(2, &[3; 60])),                 Alert(50)),
        ("Finished",                   record(HANDSHAKE, &handshake_message(20, &[3; 32])),                Alert(10)),
        ("an empty ClientHello",       record(HANDSHAKE, &handshake_message(1, b"")),                      Alert(50)),
        ("TLS 1.0",                    ClientHello { legacy_version: 0x301, ..hello() }.without(SUPPORTED_VERSIONS).records(1 << 14), Alert(70)),
        ("TLS 1.1",                    hello().with(SUPPORTED_VERSIONS, with_len8(&[3, 2])).records(1 << 14), Alert(70)),
        ("TLS 9.9",                    hello().with(SUPPORTED_VERSIONS, with_len8(&[9, 9])).records(1 << 14), Alert(70)),
        ("no suite in common",         ClientHello { suites: vec![0x2f, 0x35, 0xc013], ..hello() }.records(1 << 14), Alert(40)),
        ("no suite",                   ClientHello { suites: vec![], ..hello() }.records(1 << 14),         Alert(50)),
        ("no group in common",         hello().with(SUPPORTED_GROUPS, with_len16(&[0, 30])).records(1 << 14), Alert(40)),
        ("no signature in common",     hello().with(SIGNATURE_ALGORITHMS, with_len16(&[2, 1])).records(1 << 14), LateRefusal),
        ("no key share",               hello().without(KEY_SHARE).records(1 << 14),                        Alert(40)),
        ("a short key share",          hello().with(KEY_SHARE, with_len16(&[&[0, 29][..], &with_len16(&[7; 31])].concat())).records(1 << 14), Alert(47)),
        ("a key share of zeros",       hello().with(KEY_SHARE, with_len16(&[&[0, 29][..], &with_len16(&[0; 32])].concat())).records(1 << 14), Alert(47)),
        ("an extension twice",         ClientHello { extensions: [hello().extensions, vec![(PADDING, vec![]); 2]].concat(), ..hello() }.records(1 << 14), Alert(47)),
        ("3,900 extensions",            ClientHello { extensions: (100..4_000).map(|number| (number, vec![])).chain(hello().extensions).collect(), ..hello() }.records(1 << 14), ServerHello),
        ("no ALPN",                    hello().without(ALPN).records(1 << 14),                             ServerHello),
        ("unknown protocols",          hello().with(ALPN, protocols(&[b"h9", b"spdy/3"])).records(1 << 14), LateRefusal),
        ("acme-tls/1 alone",           hello().with(ALPN, protocols(&[b"acme-tls/1"])).records(1 << 14),   LateRefusal),
        ("an empty protocol",          hello().with(ALPN, protocols(&[b""])).records(1 << 14),             Alert(50)),
        ("no protocol",                hello().with(ALPN, protocols(&[])).records(1 << 14),                Alert(50)),
        ("no name",                    hello().without(SERVER_NAME).records(1 << 14),                      ServerHello),
        ("an unknown name",            named(b"example.org"),                                              ServerHello),
        ("an empty name",              named(b""),                                                         Alert(50)),
        ("a name of 255 bytes",        named(&[b'a'; 255]),                                                Alert(47)),
        ("a name of 10,000 bytes",     named(&[b'a'; 10_000]),                                             Alert(47)),
        ("a name with NUL",            named(b"localhost\0.example.org"),                                  Alert(47)),
        ("an address of IPv4",         named(b"127.0.0.1"),                                                ServerHello),
        ("an address of IPv6",         named(b"::1"),                                                      ServerHello),
        ("a name that is not ASCII",   named("l\u{f6}calhost".as_bytes()),                                 Alert(47)),
        ("a name with a path",         named(b"../../etc/passwd"),                                         Alert(47)),
        ("a name with a wildcard",     named(b"*.localhost"),                                              Alert(47)),
        ("a name with a dot",          named(b"localhost."),                                               ServerHello),
        ("two names",                  hello().with(SERVER_NAME, with_len16(&[&[0][..], &with_len16(b"a"), &[0], &with_len16(b"b")].concat())).records(1 << 14), Alert(50)),
        ("a name beyond its end",      hello().with(SERVER_NAME, vec![0, 200, 0, 0, 197, b'a']).records(1 << 14), Alert(50)),
    ];
    cases
}
