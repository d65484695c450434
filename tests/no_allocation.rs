//! A worker allocates nothing while it serves static files; over TLS, only rustls allocates, for each record.
//!
//! The test counts every allocation of this process, except for those of its own thread.

#[path = "no_allocation/counting.rs"]
mod counting;
#[path = "no_allocation/passwords.rs"]
mod passwords;
#[path = "no_allocation/records.rs"]
mod records;

mod common;

use common::{
    EMBEDDED,
    client::{TestClient, get},
    kernel::wait_until_asleep,
    server::{EmbeddedServer, settings},
    site,
};
use counting::{allocation_count, excuse_this_thread};
use std::{num::NonZeroU32, path::Path};
use tarpon::{ForwardedField, HostName, ProxyTrust, Settings, Site, UnknownHost, VirtualHost, VirtualHosts};

/// The only test of this file: the allocations of another test would count too.
#[test]
fn a_worker_allocates_nothing_for_static_files() {
    excuse_this_thread();
    let files = [
        ("index.html", vec![b'h'; 500]),
        ("middle", vec![b'm'; 20_000]),
        ("middle.gz", b"\x1f\x8b\x08 gzip".to_vec()),
        ("dir/index.html", vec![b'd'; 9]),
        ("dir/404.html", vec![b'n'; 9]),
        (
            "_redirects",
            b"/old /new\n/r/:a/* https://example.net/:splat?a=:a\n/q b=:b /c/:b\n/w/* /:splat 200\n".to_vec(),
        ),
        ("_headers", b"/dir/*\n  X-A: b\n".to_vec()),
        ("large", vec![b'l'; 100_000]),
    ];
    let dir = site(&files);
    for (&engine, several) in EMBEDDED.iter().flat_map(|engine| [(engine, false), (engine, true)]) {
        let before = allocation_count();
        let settings = Settings {
            keepalive_requests: NonZeroU32::MAX,
            // The path of each request is counted, or of none.
            hot_paths: NonZeroU32::new(several.into()),
            proxy_trust: if several { proxy_trust() } else { ProxyTrust::default() },
            ..settings(engine, 1)
        };
        let served = EmbeddedServer::sites(
            &settings,
            if several { three_sites(dir.path()) } else { one_site(dir.path()) },
        );
        let mut client = TestClient::connect(served.address);
        mixed_requests(&mut client, several, 100);
        wait_for_sleep();
        assert!(allocation_count() > before, "the count includes the worker, which allocates when it starts");
        let before = allocation_count();
        mixed_requests(&mut client, several, 2_000);
        wait_for_sleep();
        assert_eq!(allocation_count() - before, 0, "{engine:?}, several sites: {several}");
    }
    passwords::known_passwords_allocate_nothing(dir.path());
    records::only_rustls_allocates(|| one_site(dir.path()));
}

/// Trusts the client as a proxy.
/// Waits until all other threads sleep: each has started, and finished its work. On a busy machine, threads that have nothing to do yet start
/// late, and allocate then.
fn wait_for_sleep() {
    wait_until_asleep("other threads that sleep", || vec![rustix::process::getpid()]);
}

fn proxy_trust() -> ProxyTrust {
    let proxies = ["127.0.0.1", "10.0.0.0/8"].map(|text| text.parse().expect("a network")).into();
    ProxyTrust { proxies, field: Some(ForwardedField::Forwarded) }
}

fn one_site(dir: &Path) -> VirtualHosts {
    Site::from_dir(dir).expect("a site").into()
}

/// Returns the site three times: for two names with a redirect host, for a wildcard, and for all other names.
fn three_sites(dir: &Path) -> VirtualHosts {
    let name = |name: &str| -> HostName { name.parse().expect("a name") };
    let sites = [vec![], vec![name("a"), name("b")], vec![name("*.b")]].map(|names| {
        let redirect_hosts = if names.len() == 2 { vec![name("www.b")] } else { vec![] };
        VirtualHost { names, redirect_hosts, ..Site::from_dir(dir).expect("a site").into() }
    });
    VirtualHosts::new(sites.into(), UnknownHost::Site(0)).expect("names of their own")
}

/// Sends at least `count` requests of every kind on one connection, and goes on until the second of the clock changes.
fn mixed_requests(client: &mut TestClient, several: bool, count: usize) {
    let first = client.get("/");
    let tag = first.field("ETag").expect("an entity-tag");
    let middle = client.get("/middle");
    let middle = middle.field("ETag").expect("an entity-tag");
    let kinds = [
        (get("/"), vec![200]),
        (get("/nothing"), vec![404]),
        (get("/dir/not/at/all"), vec![404]),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"), vec![304]),
        (
            "GET /none HTTP/1.1\r\nHost: a\r\nForwarded: for=x, for=\"203.0.113.\\7:1\";proto=https\r\nForwarded: for=10.0.0.2\r\n\r\n"
                .to_owned(),
            vec![404],
        ),
        (get("/dir"), vec![301]),
        (get("/%64ir/../dir/"), vec![200]),
        (get("/old?a"), vec![301]),
        (get("/r/1/%41/b"), vec![301]),
        (get("/q?a=1&b=2"), vec![301]),
        (get("/w/middle"), vec![200]),
        (get("/middle"), vec![200]),
        ("GET /middle HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br;q=0.5, gzip\r\n\r\n".to_owned(), vec![200]),
        (
            "GET /middle HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, dcb, dcz\r\n\
            Available-Dictionary: :pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:\r\n\r\n"
                .to_owned(),
            vec![200],
        ),
        (get("/").repeat(5), vec![200; 5]),
        (
            format!("GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=100-\r\nIf-Range: {middle}\r\n\r\n"),
            vec![206],
        ),
        ("GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,20-29,-1\r\n\r\n".to_owned(), vec![206]),
        ("GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=20000-\r\n\r\n".to_owned(), vec![416]),
        (get("/").replace("GET", "PUT"), vec![405]),
        (get("/").replace("Host: localhost", "Host: b:80"), vec![200]),
        (get("/").replace("Host: localhost", "Host: x.y.B."), vec![200]),
        (get("/").replace("Host: localhost", "Host: [::1]:8080"), vec![200]),
        // A single site answers for all names.
        (get("/|").replace("Host: localhost", "Host: www.b"), vec![if several { 301 } else { 404 }]),
    ];
    let mut sent = 0;
    while sent < count || client.get("/").field("Date") == first.field("Date") {
        for (requests, statuses) in &kinds {
            client.send(requests);
            for status in statuses {
                assert_eq!(client.response().status, *status, "{requests}");
            }
            sent += statuses.len();
        }
        client.send(get("/middle").replace("GET", "HEAD"));
        assert_eq!(client.try_head().expect("a head").status, 200);
        sent += 1;
    }
}
