//! Servers that are taken out after failures, and come back.

use super::{
    proxied::{Proxied, ProxyConfig, get},
    scripted::{AfterResponse, ScriptedServer, ok},
};
use crate::common::{ENGINES, port::ReservedPort, program::tarpon, wait_for};
use std::{
    ffi::OsStr,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};
use tarpon::Engine;

/// A check that takes longer than its interval is bad: so on a busy machine, one that takes long takes no server out.
const CHECKS: &str = "health-path = \"/health?a\"\nhealth-interval = \"200ms\"\nhealth-timeout = \"200ms\"\nhealth-rise = 1\nhealth-fall = 5";

/// One process with workers, and one for each worker. A helper of each program makes the checks, whatever the engine.
const CHECKED: [Engine; 2] = [Engine::Auto, Engine::Prefork];

/// A server whose health the test changes.
fn changeable(name: &'static str) -> (ScriptedServer, Arc<AtomicBool>) {
    let is_healthy = Arc::new(AtomicBool::new(true));
    let health = Arc::clone(&is_healthy);
    let server = ScriptedServer::responding(move |request| match request.target() {
        "/health?a" if health.load(SeqCst) => (ok("well"), AfterResponse::Keep),
        "/health?a" => (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(), AfterResponse::Keep),
        _ => (ok(name), AfterResponse::Keep),
    });
    (server, is_healthy)
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let ((a, a_is_healthy), (b, _)) = (changeable("a"), changeable("b"));
    for engine in CHECKED {
        let config = ProxyConfig { upstream: CHECKS, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[a.url(), b.url()], config);
        proxied.wait_for_state(0, "up");
        proxied.wait_for_state(1, "up");
        let mut client = proxied.connect();
        let mut names = |count: usize| {
            let mut names: Vec<String> =
                (0..count).map(|_| client.ask(get("/app/")).response.text()).collect();
            names.sort_unstable();
            names.concat()
        };
        assert_eq!(names(4), "aabb", "{engine}");
        a_is_healthy.store(false, SeqCst);
        proxied.wait_for_state(0, "down");
        assert_eq!(names(4), "bbbb", "{engine}");
        a_is_healthy.store(true, SeqCst);
        proxied.wait_for_state(0, "up");
        assert_eq!(names(4), "aabb", "{engine}");
    }
}

#[test]
fn checks_are_requests_of_their_own() {
    let (server, _) = changeable("a");
    let config = ProxyConfig { upstream: CHECKS, ..ProxyConfig::default() };
    let proxied = Proxied::start(Engine::default(), &[server.url()], config);
    let seen = server.next().message;
    assert_eq!(seen.start, "GET /health?a HTTP/1.1");
    assert_eq!(seen.all("Host").len(), 1, "{seen}");
    proxied.wait_for_state(0, "up");
}

#[test]
fn no_healthy_server_is_unavailable() {
    let (server, is_healthy) = changeable("a");
    for engine in CHECKED {
        is_healthy.store(false, SeqCst);
        let config = ProxyConfig { upstream: CHECKS, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[server.url()], config);
        proxied.wait_for_state(0, "down");
        let response = proxied.get("/app/");
        assert_eq!((response.status(), &*response.text()), (503, "page of the site for 503"), "{engine}");
        is_healthy.store(true, SeqCst);
        proxied.wait_for_state(0, "up");
        assert_eq!(proxied.get("/app/").text(), "a", "{engine}");
    }
}

#[test]
fn server_that_starts_later_comes_in() {
    for engine in CHECKED {
        let port = ReservedPort::new();
        let config = ProxyConfig { upstream: CHECKS, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[format!("http://{}", port.address)], config);
        proxied.wait_for_state(0, "down");
        let listener = wait_for("the port", || TcpListener::bind(port.address).ok());
        let server =
            ScriptedServer::on(listener, super::scripted::responder(|_| (ok("a"), AfterResponse::Keep)));
        proxied.wait_for_state(0, "up");
        assert_eq!(proxied.get("/app/").text(), "a", "{engine}");
        drop(proxied);
        drop(server);
    }
}

#[test]
fn failures_of_requests_take_a_server_out() {
    let bad = ScriptedServer::responding(|_| (b"no head".to_vec(), AfterResponse::Close));
    let good = ScriptedServer::responding(|_| (ok("good"), AfterResponse::Keep));
    for &engine in ENGINES {
        let config = ProxyConfig {
            upstream: "max-fails = 3\nfail-time = \"1h\"\nretries = 0",
            ..ProxyConfig::default()
        };
        let proxied = Proxied::start(engine, &[bad.url(), good.url()], config);
        // A process of its own counts the failures, so the workers learn it a little later.
        wait_for("the failures take the server out", || {
            assert!(matches!(proxied.get("/app/").status(), 200 | 502), "{engine}");
            (proxied.server_state(0) == "suspended").then_some(())
        });
        let before = bad.requests().len();
        assert!(before >= 3, "{engine}");
        for _ in 0..10 {
            assert_eq!(proxied.get("/app/").text(), "good", "{engine}");
        }
        assert_eq!(bad.requests().len(), before, "{engine}");
    }
}

#[test]
fn only_server_gets_requests_after_its_failures() {
    let bad = ScriptedServer::responding(|_| (b"no head".to_vec(), AfterResponse::Close));
    for &engine in ENGINES {
        let config = ProxyConfig {
            upstream: "max-fails = 2\nfail-time = \"1h\"\nretries = 0",
            ..ProxyConfig::default()
        };
        let proxied = Proxied::start(engine, &[bad.url()], config);
        let statuses = [(); 4].map(|()| proxied.get("/app/").status());
        assert_eq!(statuses, [502; 4], "{engine}: no other server can take them");
    }
}

#[test]
fn statuses_of_a_server_are_no_failures() {
    let server = ScriptedServer::responding(|_| {
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec(), AfterResponse::Keep)
    });
    let config = ProxyConfig { upstream: "max-fails = 1\nfail-time = \"1h\"", ..ProxyConfig::default() };
    let proxied = Proxied::start(Engine::default(), &[server.url()], config);
    for _ in 0..5 {
        assert_eq!(proxied.get("/app/").status(), 500);
    }
}

#[test]
fn status_command_lists_the_servers() {
    let (server, _) = changeable("a");
    let config = ProxyConfig { upstream: CHECKS, ..ProxyConfig::default() };
    let drained = format!("{} drain", server.url().replace("127.0.0.1", "localhost"));
    let proxied = Proxied::start(Engine::default(), &[server.url(), drained], config);
    proxied.wait_for_state(0, "up");
    proxied.wait_for_state(1, "draining");
    let admin = format!("unix:{}", proxied.admin().display());
    let output = tarpon(["status", "--admin", &admin].map(OsStr::new)).output().expect("the program");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    for part in ["up", &server.address().to_string(), "draining"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
