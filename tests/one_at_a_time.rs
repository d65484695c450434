//! Engines whose workers serve one connection at a time: a client that waits finds a worker, whatever the others do with theirs,
//! and nobody loses a connection that nobody waits for.

mod common;

use common::{
    ENGINES,
    client::{TestClient, get},
    server::TestServer,
    site, wait_for,
};
use std::{
    io::ErrorKind,
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

/// Longer than a connection is left alone that is not used.
const UNUSED: Duration = Duration::from_millis(400);

#[test]
fn idle_clients_never_stop_service() {
    const WORKER_COUNT: usize = 4;
    each(WORKER_COUNT, |served, engine| {
        let mut idle = Vec::new();
        for number in 0..40 {
            let mut client = TestClient::connect(served.address);
            // Some have never asked.
            if number % 3 > 0 {
                // Within `TEST_TIMEOUT`, which is shorter than a connection may be idle.
                assert_eq!(client.get("/").content, b"home", "{engine}");
            }
            idle.push(client);
        }
        // As many stay open as there are workers, at most. Which ones is open: each worker looks for itself how long its
        // client has been idle. The others were closed in order, the first of them while the last ones connected.
        wait_for(&format!("{engine} closes all but four connections"), || {
            idle.retain_mut(|client| !client.is_closed());
            (idle.len() <= WORKER_COUNT).then_some(())
        });
    });
}

#[test]
fn a_request_on_a_connection_that_gave_way_meets_its_end_and_no_reset() {
    each(1, |served, engine| {
        let mut first = TestClient::connect(served.address);
        assert_eq!(first.get("/").content, b"home");
        thread::sleep(UNUSED);
        assert_eq!(TestClient::connect(served.address).get("/").content, b"home", "{engine}");
        // As if it had been on its way.
        assert!(first.send(get("/")));
        let error = first.try_response().expect_err("it gave way");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{engine}: {error}");
    });
}

#[test]
fn who_asks_without_end_is_told_to_come_again_when_others_wait() {
    each(2, |served, engine| {
        let address = served.address;
        let asking: Vec<_> = (0..6)
            .map(|_| {
                thread::spawn(move || {
                    let (until, mut answer_count, mut last_count) =
                        (Instant::now() + Duration::from_secs(2), 0, 0);
                    let mut client = TestClient::connect(address);
                    while Instant::now() < until || answer_count <= 10 {
                        let response = client.get("/");
                        assert_eq!(response.content, b"home");
                        answer_count += 1;
                        if response.closes() {
                            assert_eq!(client.read_to_end(), b"");
                            client = TestClient::connect(address);
                            last_count += 1;
                        }
                    }
                    (answer_count, last_count)
                })
            })
            .collect();
        let counts: Vec<(u32, u32)> = asking.into_iter().map(|asking| asking.join().unwrap()).collect();
        assert!(counts.iter().any(|(_, last_count)| *last_count > 0), "{engine}: {counts:?}");
    });
}

#[test]
fn while_somebody_is_free_nobody_gives_way() {
    // A worker may be late to notice that its client has closed. With one for each client, another is always free.
    const OTHER_COUNT: usize = 50;
    each(2 + OTHER_COUNT + 1, |served, engine| {
        let mut idle = [(); 2].map(|()| TestClient::connect(served.address));
        for client in &mut idle {
            assert_eq!(client.get("/").content, b"home");
        }
        thread::sleep(UNUSED);
        for _ in 0..OTHER_COUNT {
            assert!(!TestClient::connect(served.address).get("/").closes(), "{engine}");
        }
        for client in &mut idle {
            assert!(!client.get("/").closes(), "{engine}");
        }
    });
}

/// Runs a test on each of these engines, with so many workers.
fn each(worker_count: usize, test: impl Fn(&TestServer, Engine)) {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES.iter().filter(|engine| engine.is_blocking()) {
        test(&TestServer::with_workers(engine, worker_count, dir.path()), engine);
    }
}
