//! Where servers listen: names, Unix sockets, TLS.

use super::{
    proxied::{Proxied, ProxyConfig, on_every_engine, post},
    scripted::{AfterResponse, ScriptedServer, ok, responder},
};
use crate::common::{ENGINES, distinct_bytes, readable_dir, tls_files::TlsFiles};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs::default_provider,
    pki_types::PrivateKeyDer,
    version::{TLS12, TLS13},
};
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, sync::Arc};
use tarpon::Engine;

#[test]
fn names_are_resolved() {
    let server = ScriptedServer::naming_targets();
    let url = format!("http://localhost:{}", server.address().port());
    for &engine in ENGINES {
        let config = ProxyConfig { upstream: "host = \"upstream\"", ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[&url], config);
        assert_eq!(proxied.get("/app/a").text(), "/app/a", "{engine}");
        let host = format!("localhost:{}", server.address().port());
        assert_eq!(server.next().message.field("Host"), Some(&*host), "{engine}");
    }
}

#[test]
fn unknown_name_is_a_bad_gateway() {
    // RFC 6761, section 6.4: no resolver has an address for it.
    let proxied = Proxied::start(Engine::default(), &["http://name.invalid"], ProxyConfig::default());
    assert!(matches!(proxied.get("/app/").status(), 502 | 503));
    assert_eq!(proxied.get("/").text(), "home");
}

#[test]
fn ipv6_addresses_are_connected_to() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return eprintln!("not run: no IPv6") };
    let server =
        ScriptedServer::on(listener, responder(|request| (ok(request.target()), AfterResponse::Keep)));
    let proxied = Proxied::start(Engine::default(), &[server.url()], ProxyConfig::default());
    assert_eq!(proxied.get("/app/a").text(), "/app/a");
}

#[test]
fn unix_sockets_are_connected_to() {
    let dir = readable_dir();
    let path = dir.path().join("server.sock");
    let server =
        ScriptedServer::at_path(&path, responder(|request| (ok(&request.content), AfterResponse::Keep)));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a socket of this user");
    on_every_engine(&server, |proxied, engine| {
        let (mut client, content) = (proxied.connect(), distinct_bytes(300_000));
        for _ in 0..3 {
            let mut sender = super::proxied::ProxyClient::new(client.stream());
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(sender.send(post("/app/", &content))));
                assert!(client.answered("POST").response.content == content, "{engine}");
            });
        }
        let connections: Vec<usize> = (0..3).map(|_| server.next().connection).collect();
        assert!(connections.iter().all(|number| *number == connections[0]), "{engine}: {connections:?}");
    });
}

#[test]
fn servers_with_tls_show_a_certificate() {
    let (files, others) = (TlsFiles::new(), TlsFiles::new());
    let (trusted, other) = (files.file("ca", "pem"), others.file("ca", "pem"));
    let (trusted, other) = (format!("ca = {trusted:?}"), format!("ca = {other:?}"));
    readable(&files);
    readable(&others);
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], String, u16)] = &[
        // case                    names of the certificate        options of the upstream                          status
        ("its address",            &["127.0.0.1"],                 trusted.clone(),                                 200),
        ("another address",        &["127.0.0.2"],                 trusted.clone(),                                 502),
        ("a name in the options",  &["a.example"],                 format!("{trusted}\ntls-name = \"a.example\""),  200),
        ("another name",           &["a.example"],                 format!("{trusted}\ntls-name = \"b.example\""),  502),
        ("another authority",      &["127.0.0.1"],                 other.clone(),                                   502),
        ("those of the system",    &["127.0.0.1"],                 String::new(),                                   502),
        ("any",                    &["b.example"],                 "insecure = true".to_owned(),                    200),
    ];
    for (number, (case, names, options, want)) in cases.iter().enumerate() {
        let server = tls_server(&files, &format!("server{number}"), names);
        let url = server.url().replace("http:", "https:");
        let config = ProxyConfig { upstream: options, ..ProxyConfig::default() };
        let proxied = Proxied::start(Engine::default(), &[url], config);
        for _ in 0..2 {
            let response = proxied.get("/app/a");
            assert_eq!(response.status(), *want, "{case}: {response}");
            if *want == 200 {
                assert_eq!(response.text(), "", "{case}");
                assert_eq!(server.next().connection, 0, "{case}: one connection");
            } else {
                assert_eq!(response.text(), "page of the site for 502", "{case}");
                assert_eq!(server.requests().len(), 0, "{case}: a server that is not trusted gets nothing");
            }
        }
    }
}

#[test]
fn contents_pass_over_tls_on_every_engine() {
    let files = TlsFiles::new();
    readable(&files);
    let server = tls_server(&files, "server", &["127.0.0.1"]);
    let url = server.url().replace("http:", "https:");
    let options = format!("ca = {:?}", files.file("ca", "pem"));
    let content = distinct_bytes(300_000);
    for &engine in ENGINES {
        let config = ProxyConfig { upstream: &options, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[&url], config);
        let mut client = proxied.connect();
        for _ in 0..3 {
            let response = client.ask(post("/app/", &content)).response;
            assert!(response.status() == 200 && response.content == content, "{engine}");
        }
    }
}

/// Starts a server with TLS that responds with the content of the request.
pub(super) fn tls_server(files: &TlsFiles, name: &str, names: &[&str]) -> ScriptedServer {
    let (certificate, key) = files.issue(name, names);
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS12, &TLS13])
        .expect("versions of the provider")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate");
    ScriptedServer::with_tls(config.into(), responder(|request| (ok(&request.content), AfterResponse::Keep)))
}

/// Lets the user of the server read the certificates.
pub(super) fn readable(files: &TlsFiles) {
    let mode = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(files.path(), 0o755)
        .and_then(|()| mode(&files.file("ca", "pem"), 0o644))
        .expect("files of this user");
}
