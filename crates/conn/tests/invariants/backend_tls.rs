//! Exchanges with a backend behind TLS: every cut of the wire, trusted and other certificates, and failures.

use super::{backends::worker, upstreams::UpstreamWorld};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
    version::{TLS12, TLS13},
};
use std::sync::{Arc, LazyLock};
use tarpon_conn::{BackendSim, BackendTls, ServerOutcome, UpstreamReply, sim::Cuts};

const REQUEST: &[u8] = b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Length: 5\r\n\r\nhello";
const LARGE: &[u8] = b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Size: 100000\r\n\r\n";

/// An authority, which connections to the backend trust.
static AUTHORITY: LazyLock<TestIssuer> = LazyLock::new(TestIssuer::new);
/// Another one.
static STRANGER: LazyLock<TestIssuer> = LazyLock::new(TestIssuer::new);

struct TestIssuer {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl TestIssuer {
    fn new() -> TestIssuer {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        TestIssuer { issuer: Issuer::new(params, key), certificate }
    }

    /// Returns a server whose certificate is for a name, from one year to another.
    fn server(&self, name: &str, (from, until): (i32, i32)) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&TLS12, &TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap()
    }
}

const VALID: (i32, i32) = (1975, 4096);

fn client(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(AUTHORITY.certificate.clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    client.into()
}

fn tls(versions: &[&'static SupportedProtocolVersion]) -> BackendTls {
    let server = AUTHORITY.server("backend.test", VALID);
    BackendTls {
        client: client(versions),
        name: "backend.test",
        server: Some(server.into()),
        has_alert: true,
        arriving_len: usize::MAX,
    }
}

fn worker_with(tls: BackendTls) -> BackendSim {
    let mut sim = worker();
    sim.backend_tls = Some(tls);
    sim
}

fn respond(sim: &mut BackendSim, request: &[u8], cuts: Cuts) -> Vec<u8> {
    let client = sim.connect();
    sim.client_sends(client, request);
    sim.run(cuts);
    sim.run(Cuts::NONE);
    sim.take_received(client)
}

/// Removes what chunks have around them: their lengths depend on the cuts.
fn without_chunk_lines(response: &[u8]) -> Vec<u8> {
    let lines =
        response.split(|byte| *byte == b'\n').filter(|line| !line.ends_with(b"\r") || line.len() != 5);
    lines.flatten().filter(|byte| **byte != b'\r').copied().collect()
}

#[test]
fn the_wire_may_be_cut_anywhere() {
    for request in [REQUEST, LARGE] {
        let whole = without_chunk_lines(&respond(&mut worker(), request, Cuts::NONE));
        for version in [&TLS12, &TLS13] {
            let tls = tls(&[version]);
            let cuts = if request == LARGE { (7..200).step_by(97) } else { (1..400).step_by(7) };
            for cut in cuts.chain([usize::MAX]) {
                for (read, send) in [(cut, usize::MAX), (usize::MAX, cut), (cut, cut)] {
                    let mut sim = worker_with(tls.clone());
                    let response = without_chunk_lines(&respond(&mut sim, request, Cuts { read, send }));
                    let what = format!("{version:?}: {read} {send}");
                    assert!(response == whole, "{what}: {}", response.escape_ascii());
                    assert_eq!(
                        (sim.connect_count, sim.backend_count(), sim.bufs_held()),
                        (1, 1, 0),
                        "{what}"
                    );
                    // The counters are those of clients.
                    let counters = &sim.counters;
                    let counted = [&counters.tls13_full, &counters.tls12_full, &counters.tls_failed];
                    assert_eq!(counted.map(|counter| counter.get()), [0; 3], "{what}");
                    sim.pass(4_000, Cuts::NONE);
                    assert_eq!((sim.backend_count(), sim.bufs_held()), (0, 0), "{what}");
                }
            }
        }
    }
}

/// A connection that is used again, and another one that resumes the session of the first.
#[test]
fn sessions_are_resumed() {
    for version in [&TLS12, &TLS13] {
        let mut sim = worker_with(tls(&[version]));
        let client = sim.connect();
        for count in 1..4 {
            sim.client_sends(client, REQUEST);
            sim.run(Cuts::NONE);
            assert!(sim.take_received(client).ends_with(b"\r\n\r\nhello"), "{version:?}");
            assert_eq!((sim.connect_count, sim.bufs_held()), (1, 0), "{version:?}: {count}");
        }
        for count in 0..3 {
            sim.pass(4_000, Cuts::NONE);
            assert_eq!((sim.backend_count(), sim.resumed_count), (0, count), "{version:?}");
            sim.client_sends(client, REQUEST);
            sim.run(Cuts::NONE);
            assert!(sim.take_received(client).ends_with(b"\r\n\r\nhello"), "{version:?}");
        }
    }
}

fn other_protocol() -> ServerConfig {
    let mut server = AUTHORITY.server("backend.test", VALID);
    server.alpn_protocols = vec![b"h2".to_vec()];
    server
}

#[test]
fn server_that_does_not_show_who_it_is_gets_no_request() {
    type Backend = fn() -> ServerConfig;
    #[rustfmt::skip]
    let cases: &[(&str, Backend, &str)] = &[
        // case              certificate                                         status
        ("good",             || AUTHORITY.server("backend.test", VALID),         "200"),
        ("another name",     || AUTHORITY.server("other.test", VALID),           "502"),
        ("unknown authority", || STRANGER.server("backend.test", VALID),         "502"),
        ("expired",          || AUTHORITY.server("backend.test", (1975, 2020)),  "502"),
        ("not valid yet",    || AUTHORITY.server("backend.test", (4000, 4096)),  "502"),
        ("another protocol", other_protocol,                                     "502"),
    ];
    for (what, server, status) in cases {
        for version in [&TLS12, &TLS13] {
            for read in [1, 100, usize::MAX] {
                let mut sim = worker_with(BackendTls { server: Some(server().into()), ..tls(&[version]) });
                let response = respond(&mut sim, REQUEST, Cuts { read, ..Cuts::NONE });
                let response = response.escape_ascii();
                assert!(
                    response.to_string().starts_with(&format!("HTTP/1.1 {status} ")),
                    "{what}, {version:?}: {response}"
                );
                // The backend has opened no record with a request.
                let request_count = usize::from(*status == "200");
                assert_eq!((sim.echoed_count, sim.backend_count()), (request_count, request_count), "{what}");
                assert_eq!((sim.pipe_count(), sim.bufs_held()), (0, 0), "{what}");
            }
        }
    }
}

#[test]
fn server_without_tls_gets_no_request() {
    let record = [&[23, 3, 3, 0, 20][..], &[7; 20]].concat();
    #[rustfmt::skip]
    let cases: &[(&str, &[u8])] = &[
        ("an end",            b""),
        ("HTTP",              b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ("half a header",     &[22, 3]),
        ("half a record",     &[22, 3, 3, 0, 9, 1]),
        ("a record of data",  &record),
        ("an alert",          &[21, 3, 3, 0, 2, 2, 40]),
        ("a closing alert",   &[21, 3, 3, 0, 2, 1, 0]),
    ];
    for (what, bytes) in cases {
        for read in 1..bytes.len().max(2) {
            let mut sim = worker_with(BackendTls { server: None, ..tls(&[&TLS13]) });
            sim.script = Some(bytes.to_vec());
            let response = respond(&mut sim, REQUEST, Cuts { read, ..Cuts::NONE });
            assert!(response.starts_with(b"HTTP/1.1 502 "), "{what}: {}", response.escape_ascii());
            assert_eq!((sim.backend_count(), sim.pipe_count(), sim.bufs_held()), (0, 0, 0), "{what}");
        }
    }
}

#[test]
fn failures_of_tls_are_reported_with_their_reason() {
    let server = |server: ServerConfig| Some(Arc::new(server));
    let until_close = "HTTP/1.1 200 OK\r\n\r\nhello";
    #[rustfmt::skip]
    let cases = [
        // server                                                    script   reported
        (server(STRANGER.server("backend.test", VALID)),             "",      "TLS has failed: a signature of its certificate is wrong; name the certificate of its authority with ca"),
        (server(AUTHORITY.server("other.test", VALID)),              "",      "TLS has failed: its certificate is for another name; set tls-name to a name that the certificate is for: it is for other.test"),
        (server(AUTHORITY.server("backend.test", (1975, 2020))),     "",      "TLS has failed: its certificate has expired; renew it"),
        (server(AUTHORITY.server("backend.test", (4000, 4096))),     "",      "TLS has failed: its certificate is not valid yet; check the clocks of both machines"),
        (server(other_protocol()),                                   "",      "TLS has failed: it has refused the connection with an alert: NoApplicationProtocol"),
        (None, "HTTP/1.1 400 x\r\n\r\n",                                     "TLS has failed: it does not speak TLS at this port; check the scheme and the port of the server: InvalidContentType"),
        (None, "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{28}",                        "TLS has failed: it has refused the connection with an alert: HandshakeFailure"),
        (None, "",                                                            "TLS has failed: it closed the connection within the handshake"),
        (server(AUTHORITY.server("backend.test", VALID)), until_close,        "TLS has failed: it closed the connection without the alert that ends a response, so a part may be missing"),
        (server(AUTHORITY.server("backend.test", VALID)), "",                 "it closed the connection before its response"),
        (server(AUTHORITY.server("backend.test", VALID)), "HTTP/1.1 200 OK\r\nCon", "it closed the connection within the headers of its response"),
    ];
    for (server, script, want) in cases {
        for read in [1, usize::MAX] {
            let reply = move |_: usize, _: &str| UpstreamReply { bytes: script.into(), ends: true };
            let mut world = UpstreamWorld::new(reply);
            world.sim.backend_tls =
                Some(BackendTls { server: server.clone(), has_alert: false, ..tls(&[&TLS13]) });
            if server.is_none() {
                world.sim.script = Some(script.into());
            }
            let request = "POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
            world.respond_in_cuts(request, Cuts { read, ..Cuts::NONE });
            assert_eq!(world.take_reports(), [format!("{want} (POST /app)")], "{read}");
        }
    }
}

/// The connection ends after any number of bytes, in the handshake and in the response.
#[test]
fn response_that_is_cut_never_looks_complete() {
    for version in [&TLS12, &TLS13] {
        let tls = tls(&[version]);
        let mut incomplete_count = 0;
        for arriving_len in (0..).step_by(61) {
            let mut sim = worker_with(BackendTls { arriving_len, ..tls.clone() });
            let request = b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Size: 9000\r\n\r\n";
            let response = respond(&mut sim, request, Cuts::NONE);
            if response.ends_with(b"\r\n0\r\n\r\n") {
                assert!(arriving_len > 9_000, "{version:?}");
                break;
            }
            incomplete_count += 1;
            let (refused, begun) = (b"HTTP/1.1 502 ", b"HTTP/1.1 200 ");
            assert!(
                response.starts_with(refused) || response.starts_with(begun),
                "{}",
                response.escape_ascii()
            );
            sim.pass(100_000, Cuts::NONE);
            assert_eq!((sim.backend_count(), sim.pipe_count(), sim.bufs_held()), (0, 0, 0), "{version:?}");
        }
        assert!(incomplete_count > 100, "{version:?}");
    }
}

/// A response that ends with the connection is complete only if the server has announced the end: RFC 8446, section 6.1.
#[test]
fn end_without_an_alert_cuts_a_response_off() {
    let until_close = "HTTP/1.1 200 OK\r\n\r\nhello";
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let cut_length = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    #[rustfmt::skip]
    let cases = [
        // case                     response       alert   complete
        ("with the connection",     until_close,   true,   true),
        ("with the connection",     until_close,   false,  false),
        ("by its length",           length,        true,   true),
        ("by its length",           length,        false,  true),
        ("cut",                     cut_length,    true,   false),
        ("cut",                     cut_length,    false,  false),
        ("no response",             "",            true,   false),
        ("no response",             "",            false,  false),
    ];
    for (what, response, has_alert, is_complete) in cases {
        for version in [&TLS12, &TLS13] {
            for read in [1, 50, usize::MAX] {
                let mut world =
                    UpstreamWorld::new(move |_, _| UpstreamReply { bytes: response.into(), ends: true });
                world.sim.backend_tls = Some(BackendTls { has_alert, ..tls(&[version]) });
                // A repeated request would find the same server.
                let request = "POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
                let received = world.respond_in_cuts(request, Cuts { read, ..Cuts::NONE });
                let is_whole =
                    received.ends_with("hello\r\n0\r\n\r\n") || received.ends_with("\r\n\r\nhello");
                let has_length_9 =
                    received.contains("ontent-Length: 9") || received.contains("ontent-length: 9");
                let what = format!("{what}, {version:?}, {has_alert}: {received}");
                assert_eq!(is_whole && !has_length_9, is_complete, "{what}");
                assert_eq!(world.ends() == [ServerOutcome::Responded(200)], is_complete, "{what}");
                // The end of an idle connection is no failure.
                assert_eq!(world.take_reports().len(), usize::from(!is_complete), "{what}");
                assert_eq!(
                    (world.sim.backend_count(), world.sim.pipe_count(), world.sim.bufs_held()),
                    (0, 0, 0),
                    "{what}"
                );
            }
        }
    }
}

/// The handshake hangs: the exchange ends by its timeout.
#[test]
fn server_that_never_completes_the_handshake_times_out() {
    let mut sim = worker_with(BackendTls { server: None, ..tls(&[&TLS13]) });
    let client = sim.connect();
    sim.client_sends(client, b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Silent: 1\r\n\r\n");
    sim.run(Cuts::NONE);
    sim.pass(60_000, Cuts::NONE);
    assert!(sim.take_received(client).starts_with(b"HTTP/1.1 504 "));
    assert_eq!((sim.backend_count(), sim.pipe_count(), sim.bufs_held()), (0, 0, 0));
}
