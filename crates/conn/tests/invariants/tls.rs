//! Connections through TLS, with a client of rustls: every cut of the wire, the versions, and what fails.

use super::sites::{IMAGE, LARGE_LEN, established, sim};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion,
    client::Resumption,
    crypto::aws_lc_rs,
    pki_types::PrivateKeyDer,
    version::{TLS12, TLS13},
};
use std::sync::{Arc, LazyLock};
use tarpon_conn::{
    AcceptedClient, Close, Hosts, Limits, RouteTable, RouteTableId, SiteId, Sites,
    sim::{Cuts, Sim, Through},
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Returns both ends, with these versions at the client.
fn ends(versions: &[&'static SupportedProtocolVersion], protocols: &[&[u8]]) -> Through {
    static CERTIFIED: LazyLock<CertifiedKey<rcgen::KeyPair>> =
        LazyLock::new(|| generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chain = vec![CERTIFIED.cert.der().clone()];
    let key = PrivateKeyDer::try_from(CERTIFIED.signing_key.serialize_der()).unwrap();
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS12, &TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.clone(), key)
        .unwrap();
    server.alpn_protocols = [&b"http/1.1"[..], b"acme-tls/1"].map(Vec::from).into();
    let mut roots = RootCertStore::empty();
    roots.add(chain[0].clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = Resumption::disabled();
    client.alpn_protocols = protocols.iter().map(|&protocol| protocol.into()).collect();
    Through::Tls(server.into(), client.into())
}

pub(crate) fn tls13() -> Through {
    ends(&[&TLS13], &[])
}

fn handshakes(sim: &Sim) -> [u64; 5] {
    let counters = &sim.counters;
    [
        &counters.tls13_full,
        &counters.tls13_resumed,
        &counters.tls12_full,
        &counters.tls12_resumed,
        &counters.tls_failed,
    ]
    .map(|counter| counter.get())
}

#[test]
fn the_wire_may_be_cut_anywhere() {
    for (version, counts) in [(&TLS13, [1, 0, 0, 0, 0]), (&TLS12, [0, 0, 1, 0, 0])] {
        let through = ends(&[version], &[b"http/1.1"]);
        let answer = |through: &Through, read, send| {
            let mut sim = sim().through(through);
            sim.client_sends(&REQUEST.repeat(2));
            for _ in 0..40 {
                sim.step(Cuts { read, send });
            }
            sim.run(Cuts::NONE);
            assert_eq!(sim.bufs_held(), 0, "{version:?}: {read} {send}");
            (handshakes(&sim), sim.wire)
        };
        let (_, whole) = answer(&Through::Plain, usize::MAX, usize::MAX);
        for cut in (1..50).chain((50..2_000).step_by(37)) {
            for (read, send) in [(cut, usize::MAX), (usize::MAX, cut), (cut, cut)] {
                let (counted, wire) = answer(&through, read, send);
                assert_eq!(counted, counts, "{version:?}: {read} {send}");
                assert!(wire == whole, "{version:?}: {read} {send}: {}", wire.escape_ascii());
            }
        }
    }
}

/// The client's closing alert arrives with its request; in TLS 1.3 both may arrive with the end of the handshake.
#[test]
fn an_alert_behind_a_request_is_no_reason_to_leave_it_unanswered() {
    let whole = {
        let mut sim = sim();
        sim.client_sends(REQUEST);
        sim.run(Cuts::NONE);
        sim.wire
    };
    for (version, with_handshake) in [(&TLS12, false), (&TLS13, false), (&TLS13, true)] {
        let through = ends(&[version], &[]);
        for read in (1..300).chain([usize::MAX]) {
            let mut sim = sim().through(&through);
            if with_handshake {
                sim.client_sends(REQUEST);
                // What the client sends behind its hello waits.
                sim.arriving_len = sim.socket.len();
                sim.run(Cuts::NONE);
                sim.arriving_len = usize::MAX;
            } else {
                sim.run(Cuts::NONE);
                sim.client_sends(REQUEST);
            }
            sim.client_ends();
            sim.run(Cuts { read, ..Cuts::NONE });
            assert_eq!(
                (sim.wire.escape_ascii().to_string(), sim.close(), sim.client_has_alert()),
                (whole.escape_ascii().to_string(), Close::Both, true),
                "{version:?}, with the handshake: {with_handshake}, reads of {read} bytes"
            );
        }
    }
}

/// Neither the connection nor its transport holds one, after the handshake and after each exchange.
#[test]
fn an_idle_connection_holds_no_buffer() {
    let ranges = "GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,20-29,-1\r\n\r\n";
    #[rustfmt::skip]
    let cases: &[(&str, &[&str])] = &[
        // case                      records
        ("a file in the image",      &["GET / HTTP/1.1\r\nHost: a\r\n\r\n"]),
        ("two records",              &["GET /middle HTTP/1.1\r\nHost: a\r\n\r\n"]),
        ("a file beside the image",  &["GET /large HTTP/1.1\r\nHost: a\r\n\r\n"]),
        ("generated fields",         &["GET /dir?q HTTP/1.1\r\nHost: a\r\n\r\n"]),
        ("ranges",                   &[ranges]),
        ("no file",                  &["HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n"]),
        ("content",                  &["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"]),
        ("a head in records",        &["GET / HT", "TP/1.1\r\nHo", "st: a\r\n\r\n"]),
        ("content in records",       &["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "he", "llo"]),
        ("pipelined",                &[ranges, "GET /dir?q HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ranges]),
    ];
    for version in [&TLS12, &TLS13] {
        for cuts in [Cuts::NONE, Cuts { read: 7, send: usize::MAX }, Cuts { read: usize::MAX, send: 100 }] {
            let mut sim = established(sim(), &ends(&[version], &[]));
            assert_eq!(sim.bufs_held(), 0, "{version:?}, after the handshake");
            for (case, records) in cases {
                let before = sim.wire.len();
                records.iter().for_each(|record| sim.client_sends(record.as_bytes()));
                sim.run(cuts);
                assert!(sim.wire.len() > before && sim.close() == Close::No, "{version:?}, {case}, {cuts:?}");
                assert_eq!(sim.bufs_held(), 0, "{version:?}, {case}, {cuts:?}");
            }
        }
    }
}

#[test]
fn large_responses_pass_in_records() {
    let mut sim = established(sim(), &tls13());
    sim.client_sends(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    sim.run(Cuts { send: 1_000, ..Cuts::NONE });
    assert!(sim.wire.len() > LARGE_LEN);
    // The client may still announce its end.
    assert_eq!((sim.close(), sim.client_has_alert(), sim.bufs_held()), (Close::Write, true, 0));
    sim.client_ends();
    sim.run(Cuts::NONE);
    assert_eq!((sim.close(), sim.bufs_held()), (Close::Both, 0));
}

/// A head that does not fit in what is left of the plain inbox.
#[test]
fn heads_across_records_are_joined() {
    let head = |len| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(len)).into_bytes();
    for (first, second, want) in
        [(8_000, 12_000, "HTTP/1.1 200 "), (12_000, 16_300, "HTTP/1.1 200 "), (30, 16_384, "HTTP/1.1 431 ")]
    {
        let mut sim = established(sim(), &tls13());
        let bytes = [head(first), head(second)].concat();
        for part in bytes.chunks(15_000) {
            sim.client_sends(part);
            sim.run(Cuts::NONE);
        }
        let count = sim.wire.windows(want.len()).filter(|window| *window == want.as_bytes()).count();
        assert_eq!(
            count,
            if want.contains("200") { 2 } else { 1 },
            "{first}, {second}: {}",
            sim.wire.escape_ascii()
        );
    }
}

#[test]
fn what_fails_is_told_and_closed() {
    type Act = fn(&mut Sim);
    let none: Act = |_| {};
    let garbage: Act = |sim| {
        sim.socket
            .extend_from_slice(&[23, 3, 3, 0, 20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    };
    let oversized: Act =
        |sim| sim.socket.extend_from_slice(&[&[23, 3, 3, 0x48, 5][..], &[0; 20_000]].concat());
    let endless: Act = |sim| sim.socket.extend_from_slice(&[&[23, 3, 3, 0x48, 0][..], &[0; 20_000]].concat());
    #[rustfmt::skip]
    let cases: &[(&str, Through, Act, bool, u64)] = &[
        // case                      ends                          the client sends  answers  failures
        ("nothing",                  tls13(),                      none,             true,    0),
        ("the protocol of HTTP",     ends(&[&TLS13], &[b"http/1.1"]), none,          true,    0),
        ("another protocol",         ends(&[&TLS13], &[b"smtp"]),  none,             false,   1),
        ("a challenge",              ends(&[&TLS13], &[b"acme-tls/1"]), none,        false,   0),
        ("garbage",                  tls13(),                      garbage,          true,    1),
        ("a record that is too long", tls13(),                     oversized,        true,    1),
        ("a record that fits no buffer", tls13(),                  endless,          true,    1),
    ];
    for (name, through, act, answers, failures) in cases {
        let mut sim = established(sim(), through);
        sim.client_sends(REQUEST);
        sim.run(Cuts::NONE);
        act(&mut sim);
        sim.run(Cuts::NONE);
        assert_eq!(sim.wire.starts_with(b"HTTP/1.1 200 "), *answers, "{name}");
        assert_eq!(handshakes(&sim)[4], *failures, "{name}");
        sim.client_ends();
        sim.pass(60_000);
        sim.run(Cuts::NONE);
        assert_eq!((sim.bufs_held(), sim.close()), (0, Close::Both), "{name}");
    }
}

#[test]
fn a_request_without_tls_is_answered_readably() {
    let mut sim = sim().through(&tls13());
    // The handshake of the client does not arrive.
    sim.socket.clear();
    sim.socket.extend_from_slice(REQUEST);
    sim.answer_in_plain();
    sim.run(Cuts::NONE);
    let text = String::from_utf8_lossy(&sim.wire);
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\nServer: tarpon\r\nDate: "), "{text}");
    assert!(text.ends_with("\r\n\r\nThis port expects HTTPS: use https:// in place of http://.\n"), "{text}");
    assert!(
        text.contains("\r\nConnection: close\r\n") && text.contains("\r\nContent-Length: 59\r\n"),
        "{text}"
    );
    assert_eq!((sim.close(), handshakes(&sim)), (Close::Write, [0, 0, 0, 0, 1]));
}

/// What a target gets without TLS, and with it.
#[test]
fn requests_without_tls_are_redirected() {
    let mut routes = RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))));
    routes.redirect_to_https(SiteId::FIRST, 443);
    let tables: Arc<[RouteTable]> =
        [routes, RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))))].into();
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str, &str)] = &[
        // case                  request                                             without TLS                                       with TLS
        ("a file",               "GET /?q HTTP/1.1\r\nHost: a",                      "308 https://a/?q",                               "200 "),
        ("a form",               "POST /x HTTP/1.1\r\nHost: a:80\r\nContent-Length: 0", "308 https://a/x",                          "405 "),
        ("an http target",       "GET http://b/x HTTP/1.1\r\nHost: a",               "308 https://b/x",                                "404 "),
        ("an https target",      "GET https://b/ HTTP/1.1\r\nHost: a",               "308 https://b/",                                 "200 "),
        ("no host",              "GET / HTTP/1.0",                                   "421 ",                                           "200 "),
        ("the server",           "OPTIONS * HTTP/1.1\r\nHost: a",                    "204 ",                                           "204 "),
        ("the health path",      "GET /health HTTP/1.1\r\nHost: a",                  "200 ",                                           "200 "),
    ];
    for &(name, request, plain, with_tls) in cases {
        for (routes, want) in [(0, plain), (1, with_tls)] {
            let mut sites = Sites::by_route([(IMAGE.clone(), Limits::default())], Arc::clone(&tables));
            sites.set_health_path((*b"/health").into());
            let accepted = AcceptedClient {
                routes: RouteTableId(routes),
                has_tls: routes == 1,
                ..AcceptedClient::default()
            };
            let sim = Sim::accept(sites, accepted);
            let mut sim = if routes == 1 { established(sim, &tls13()) } else { sim };
            sim.client_sends(format!("{request}\r\n\r\n").as_bytes());
            sim.run(Cuts::NONE);
            let text = String::from_utf8_lossy(&sim.wire);
            let location = text.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_default();
            let got = format!("{} {location}", text.get(9..12).unwrap_or_default());
            assert_eq!(got, want, "{name}, {routes}: {text}");
        }
    }
}
