//! Connections of proxies: the client of each request depends only on the bytes received, and a connection without a valid PROXY header gets
//! no answer.

use super::{
    http2_client::{Http2Client, get, preface},
    records::recorded,
    sites::{IMAGE, distinct_bytes},
    tls::tls13,
};
use std::{net::IpAddr, sync::Arc};
use tarpon_conn::{
    AcceptedClient, Close, HttpVersions, Limits, PeerAddress, ProxyTrust, Record, Sites,
    sim::{Cuts, Sim, Through},
};
use tarpon_http::forwarded::ForwardedField;

/// The PROXY headers of these tests: version 1, and version 2 with a TLV.
const V1: &[u8] = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13\xcb\0\x71\x08\x0a\0\0\x01\x12\x67\0\x50\x04\0\x04abcd";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const TRUSTED: &[u8] = b"PROXY TCP4 10.0.0.9 10.0.0.1 4711 80\r\n";
const UNIX: &[u8] = &{
    let mut header = [b'/'; 16 + 216];
    let front = *b"\r\n\r\n\0\r\nQUIT\n\x21\x31\0\xd8";
    let mut at = 0;
    while at < front.len() {
        header[at] = front[at];
        at += 1;
    }
    header
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const FORWARDED: &[u8] =
    b"GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=10.0.0.3, for=198.51.100.4, for=10.0.0.8\r\n\r\n";

/// The case; the peer, and whether it must send a PROXY header; the input; the client of each request.
type ClientCase = (&'static str, &'static str, bool, &'static [&'static [u8]], &'static [&'static str]);

#[test]
fn clients_do_not_depend_on_cuts() {
    #[rustfmt::skip]
    let cases: &[ClientCase] = &[
        // case                           peer         PROXY   input                            client of each request
        ("no proxy",                      "192.0.2.1", false,  &[GET, FORWARDED],               &["192.0.2.1", "192.0.2.1"]),
        ("Forwarded",                     "10.0.0.1",  false,  &[GET, FORWARDED, GET],          &["10.0.0.1", "198.51.100.4", "10.0.0.1"]),
        ("Forwarded, by a Unix socket",   "unix",      false,  &[GET, FORWARDED],               &["-", "198.51.100.4"]),
        ("version 1",                     "10.0.0.1",  true,   &[V1, GET, GET],                 &["203.0.113.7", "203.0.113.7"]),
        ("version 2",                     "10.0.0.1",  true,   &[V2, GET, GET],                 &["203.0.113.8", "203.0.113.8"]),
        ("local",                         "10.0.0.1",  true,   &[LOCAL, GET, FORWARDED],        &["10.0.0.1", "198.51.100.4"]),
        ("a client that is no proxy",     "10.0.0.1",  true,   &[V1, FORWARDED],                &["203.0.113.7"]),
        ("a client that is a proxy",      "unix",      true,   &[TRUSTED, FORWARDED, GET],      &["198.51.100.4", "10.0.0.9"]),
        ("a client at a Unix socket",     "10.0.0.1",  true,   &[UNIX, GET, FORWARDED],         &["-", "198.51.100.4"]),
        ("an empty line after it",        "10.0.0.1",  true,   &[V1, b"\r\n", GET],             &["203.0.113.7"]),
        ("an invalid request after it",   "10.0.0.1",  true,   &[V1, b"\x16\x03\x01\r\n"],      &["203.0.113.7"]),
        // The server answers nothing.
        ("no header",                     "10.0.0.1",  true,   &[GET],                          &[]),
        ("an untrusted peer",             "192.0.2.1", true,   &[V1, GET],                      &[]),
        ("an unknown peer",               "-",         true,   &[V1, GET],                      &[]),
        ("a malformed line",              "10.0.0.1",  true,   &[b"PROXY TCP4 1 2 3 4\r\n", GET], &[]),
        ("a line that is too long",       "10.0.0.1",  true,   &[b"PROXY UNKNOWN", &[b' '; 200], GET], &[]),
        ("another version",               "10.0.0.1",  true,   &[b"\r\n\r\n\0\r\nQUIT\n\x31\0\0\0", GET], &[]),
        ("two headers",                   "10.0.0.1",  true,   &[V1, V1, GET],                  &["203.0.113.7"]),
    ];
    for &(case, peer, expects_proxy_header, input, want) in cases {
        let input = input.concat();
        for read in (1..=input.len()).filter(|read| *read < 80 || *read == input.len()) {
            let mut sim = sim(peer, expects_proxy_header);
            sim.client_sends(&input);
            sim.run(Cuts { read, send: usize::MAX });
            assert_eq!(clients(&sim), want, "{case}: {read} bytes at a time");
            let is_refused = want.is_empty();
            assert_eq!(sim.counters.proxy_refused.get(), is_refused.into(), "{case}: {read} bytes at a time");
            if is_refused {
                assert!(sim.wire.is_empty() && sim.close() == Close::Both, "{case}: {read} bytes at a time");
            }
        }
    }
}

#[test]
fn a_header_that_does_not_arrive_closes_the_connection() {
    for (case, header, refused) in
        [("nothing", &V1[..0], 0), ("a byte", &V1[..1], 1), ("all but a byte", &V1[..V1.len() - 1], 1)]
    {
        for ends in [false, true] {
            let mut sim = sim("10.0.0.1", true);
            sim.client_sends(header);
            sim.run(Cuts::NONE);
            // The time counts from the start of the connection, for the first head too.
            assert_eq!(sim.deadline_ms(), Limits::default().head_ms, "{case}");
            match ends {
                true => sim.client_ends(),
                false => sim.pass(Limits::default().head_ms),
            }
            sim.run(Cuts::NONE);
            assert!(sim.wire.is_empty() && sim.close() == Close::Both, "{case}");
            assert_eq!(sim.counters.proxy_refused.get(), refused, "{case}");
        }
    }
    let mut sim = sim("10.0.0.1", true);
    sim.stop();
    sim.run(Cuts::NONE);
    assert_eq!((sim.close(), sim.counters.proxy_refused.get()), (Close::Both, 0), "a server that stops");
}

/// The header is not in a record, and may arrive with the first one.
#[test]
fn a_header_precedes_the_handshake() {
    let scrambled = Through::Scrambled { seed: 3, record_lens: 1..=300 };
    for (through, header) in [(&scrambled, V1), (&scrambled, V2), (&tls13(), V1), (&tls13(), V2)] {
        for read in (1..300).chain([usize::MAX]) {
            let mut sim = sim("10.0.0.1", true).through(through);
            sim.socket.splice(..0, header.iter().copied());
            sim.client_sends(&[GET, GET].concat());
            sim.run(Cuts { read, send: usize::MAX });
            let client = if header == V1 { "203.0.113.7" } else { "203.0.113.8" };
            assert_eq!(clients(&sim), [client; 2], "{through:?}: {read} bytes at a time");
            assert_eq!(sim.bufs_held(), 0, "{through:?}: {read} bytes at a time");
        }
    }
}

#[test]
fn malformed_lists_are_counted() {
    let mut sim = sim("10.0.0.1", false);
    sim.client_sends(b"GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=198.51.100.4, for=\"\r\n\r\n");
    sim.run(Cuts::NONE);
    assert_eq!((clients(&sim), sim.counters.client_malformed.get()), (vec!["10.0.0.1".to_owned()], 1));
}

#[test]
fn proxy_header_comes_before_the_preface_of_http2() {
    for versions in [HttpVersions::All, HttpVersions::OnlyHttp2] {
        for (header, client_of) in [(V1, "203.0.113.7"), (V2, "203.0.113.8")] {
            for read in 1..header.len() + 40 {
                let place = format!("{versions:?}, {read} bytes at a time");
                let (mut sim, mut client) = (sim_of("10.0.0.1", true, versions), Http2Client::default());
                sim.client_sends(&[header, &preface(&[]), &get(1, "/")].concat());
                client.run(&mut sim, Cuts { read, ..Cuts::NONE });
                assert_eq!(client.streams[&1].status(), "200", "{place}");
                assert_eq!(clients(&sim), [client_of], "{place}");
            }
        }
    }
    // HTTP/1 after the header.
    let (mut sim, mut client) = (sim_of("10.0.0.1", true, HttpVersions::OnlyHttp2), Http2Client::default());
    sim.client_sends(&[V1, GET].concat());
    client.run(&mut sim, Cuts::NONE);
    assert_eq!((&client.go_aways[..], sim.close()), (&[(0, 1)][..], Close::Write));
    // A server that stops waits for no preface.
    let mut sim = sim_of("10.0.0.1", true, HttpVersions::OnlyHttp2);
    sim.client_sends(V1);
    sim.run(Cuts::NONE);
    sim.stop();
    sim.run(Cuts::NONE);
    assert_eq!(sim.close(), Close::Both);
}

/// Accepts a peer, for a worker that trusts 10.0.0.0/8 and Unix sockets.
fn sim(peer: &str, expects_proxy_header: bool) -> Sim {
    sim_of(peer, expects_proxy_header, HttpVersions::Http1)
}

/// As [`sim`], for a client that may speak these versions.
fn sim_of(peer: &str, expects_proxy_header: bool, versions: HttpVersions) -> Sim {
    let proxies = ["10.0.0.0/8", "unix"].map(|text| text.parse().expect("a network")).into();
    let mut sites = Sites::new(IMAGE.clone(), Limits::default());
    sites.set_proxy_trust(Arc::new(ProxyTrust { proxies, field: Some(ForwardedField::Forwarded) }));
    let peer = match peer {
        "unix" => Some(PeerAddress::Unix),
        _ => peer.parse().ok().map(PeerAddress::Ip),
    };
    let mut sim = Sim::accept(
        sites,
        AcceptedClient { peer, expects_proxy_header, versions, ..AcceptedClient::default() },
    );
    sim.files = vec![distinct_bytes(100)];
    recorded(sim, false)
}

/// Returns the client of each exchange.
fn clients(sim: &Sim) -> Vec<String> {
    let (mut bytes, mut clients) = (sim.records.bytes(), Vec::new());
    while let Some((record, len)) = Record::read(bytes) {
        bytes = &bytes[len..];
        if let Record::Start(start) = record {
            clients.push(start.client.map_or("-".to_owned(), |client: IpAddr| client.to_string()));
        }
    }
    clients
}
