//! Engines whose workers serve one connection at a time: a client that waits gets a worker whatever the other clients do, and a worker
//! closes an idle connection only while a client waits.

use crate::common::{
    ENGINES, TEST_TIMEOUT,
    client::{TestClient, get},
    server::TestServer,
    site, wait_for,
};
use std::{
    io::ErrorKind,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Instant,
};
use tarpon::Engine;

#[test]
fn idle_clients_never_stop_service() {
    const WORKER_COUNT: usize = 4;
    each(WORKER_COUNT, |served, engine| {
        let mut idle = Vec::new();
        for number in 0..40 {
            let mut client = TestClient::connect(served.address);
            // Every third client sends no request.
            if number % 3 > 0 {
                // The idle timeout is longer than the test.
                assert_eq!(client.get("/").content, b"home", "{engine}");
            }
            idle.push(client);
        }
        // At most one connection per worker stays open. Each worker measures the idle time of its own client, so any of the
        // connections may stay open.
        wait_for(&format!("{engine} closes all but four connections"), || {
            idle.retain_mut(|client| !client.is_closed());
            (idle.len() <= WORKER_COUNT).then_some(())
        });
    });
}

#[test]
fn request_on_a_connection_that_gave_way_gets_eof_without_a_reset() {
    each(1, |served, engine| {
        let mut first = TestClient::connect(served.address);
        assert_eq!(first.get("/").content, b"home");
        // This client waits until the first connection is idle for long enough.
        assert_eq!(TestClient::connect(served.address).get("/").content, b"home", "{engine}");
        // The client sends this before it reads the end of the connection.
        assert!(first.send(get("/")));
        let error = first.try_response().expect_err("it gave way");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{engine}: {error}");
    });
}

#[test]
fn busy_connection_gets_connection_close_while_other_clients_wait() {
    each(2, |served, engine| {
        let (address, is_drained, since) = (served.address, AtomicBool::new(false), Instant::now());
        let ask = || {
            let mut client = TestClient::connect(address);
            loop {
                let response = client.get("/");
                assert_eq!(response.content, b"home", "{engine}");
                if response.closes() {
                    assert_eq!(client.read_to_end(), b"", "{engine}");
                    client = TestClient::connect(address);
                    is_drained.store(true, SeqCst);
                }
                if is_drained.load(SeqCst) {
                    return;
                }
                assert!(since.elapsed() < TEST_TIMEOUT, "{engine} drains no connection");
            }
        };
        thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(ask))));
    });
}

/// `unused_connection_gives_way_after_a_moment_if_no_worker_is_idle` shows the same for connections that are unused for long.
#[test]
fn no_connection_gives_way_while_a_worker_is_free() {
    // A worker may notice late that its client has closed. With a worker for each client, another worker is always free.
    const OTHER_COUNT: usize = 50;
    each(2 + OTHER_COUNT + 1, |served, engine| {
        let mut idle = [(); 2].map(|()| TestClient::connect(served.address));
        for client in &mut idle {
            assert_eq!(client.get("/").content, b"home");
        }
        for _ in 0..OTHER_COUNT {
            assert!(!TestClient::connect(served.address).get("/").closes(), "{engine}");
        }
        for client in &mut idle {
            assert!(!client.get("/").closes(), "{engine}");
        }
    });
}

/// Runs a test on each engine whose workers serve one connection at a time.
fn each(worker_count: usize, test: impl Fn(&TestServer, Engine)) {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES.iter().filter(|engine| engine.is_blocking()) {
        test(&TestServer::with_workers(engine, worker_count, dir.path()), engine);
    }
}
