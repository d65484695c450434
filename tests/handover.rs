//! Handover between servers that share a listening socket, without a failed request.

use crate::common::{
    EMBEDDED, TEST_TIMEOUT,
    client::TestClient,
    distinct_bytes,
    load::SetOnDrop,
    server::{EmbeddedServer, settings},
    site, wait_for,
};
use std::{
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

/// Response sizes that the server sends in one buffer, gathered, and from a descriptor.
const LENS: [(&str, usize); 3] = [("small", 100), ("middle", 30_000), ("large", 200_000)];

#[test]
fn handover_fails_no_request() {
    const HANDOVER_COUNT: usize = 20;
    const CLIENT_COUNT: usize = 4;
    let dir = site(&LENS.map(|(name, len)| (name, distinct_bytes(len))));
    for &engine in EMBEDDED {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let start =
            || EmbeddedServer::dir_on(listener.try_clone().unwrap(), &settings(engine, 2), dir.path());
        let mut served = start();
        let address = served.address;
        let (stopping, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _stops = SetOnDrop(&stopping);
            let clients: Vec<_> = (0..CLIENT_COUNT)
                .map(|_| {
                    scope.spawn(|| {
                        // A failed request panics.
                        let mut client = TestClient::connect(address);
                        let (mut served, mut last_count) = (0, 0);
                        for (name, len) in LENS.iter().cycle().take_while(|_| !stopping.load(Ordering::SeqCst)) {
                            client.send(crate::common::client::get(&format!("/{name}")));
                            let response = client.try_response().unwrap_or_else(|error| {
                                panic!("{engine}: request {served} of a client, with {last_count} handovers: {error}")
                            });
                            assert_eq!(response.content.len(), *len, "{engine}: {name}");
                            served += 1;
                            count.fetch_add(1, Ordering::SeqCst);
                            if response.head.contains("\r\nConnection: close\r\n") {
                                assert_eq!(client.read_to_end(), b"", "{engine}");
                                client = TestClient::connect(address);
                                last_count += 1;
                            }
                        }
                        (served, last_count)
                    })
                })
                .collect();
            for _ in 0..HANDOVER_COUNT {
                let successor = start();
                let from = count.load(Ordering::SeqCst);
                served.handle.drain(Duration::from_secs(60));
                served.join_within(TEST_TIMEOUT);
                served = successor;
                wait_for("more responses", || (count.load(Ordering::SeqCst) > from + 10).then_some(()));
            }
            stopping.store(true, Ordering::SeqCst);
            for client in clients {
                let (served, last_count) = client.join().expect("no request fails");
                assert!(served > 10 && last_count >= HANDOVER_COUNT / 2, "{engine}: {served}, {last_count}");
            }
        });
    }
}

#[test]
fn idle_client_gets_one_more_response_within_the_grace_period() {
    let dir = site(&[("index.html", "home")]);
    for &engine in EMBEDDED {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        let mut clients = [(); 2].map(|()| TestClient::connect(served.address));
        // The first client has not sent a request yet.
        assert_eq!(clients[1].get("/").content, b"home");
        served.handle.drain(Duration::from_secs(3600));
        // A worker closes its listener and marks its connections in one pass of the event loop.
        wait_for("every worker drains", || TcpStream::connect(served.address).is_err().then_some(()));
        for client in &mut clients {
            let response = client.get("/");
            assert!(response.head.contains("\r\nConnection: close\r\n"), "{engine}: {}", response.head);
            assert_eq!(client.read_to_end(), b"", "{engine}");
        }
        served.join_within(TEST_TIMEOUT);
    }
}

#[test]
fn idle_client_is_closed_at_the_end_of_the_grace_period() {
    const GRACE: Duration = Duration::from_secs(1);
    let dir = site(&[("index.html", "home")]);
    let run = |engine: Engine| {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        let mut client = TestClient::connect(served.address);
        assert_eq!(client.get("/").content, b"home");
        let since = Instant::now();
        served.handle.drain(GRACE);
        assert_eq!(client.read_to_end(), b"", "{engine}");
        // The workers count milliseconds from the last event.
        assert!(
            since.elapsed() > GRACE - Duration::from_millis(50),
            "{engine}: closed before the grace period"
        );
        served.join_within(TEST_TIMEOUT);
    };
    // In parallel, because the test mostly waits.
    thread::scope(|scope| EMBEDDED.iter().for_each(|&engine| drop(scope.spawn(move || run(engine)))));
}

#[test]
fn draining_server_can_be_stopped() {
    let dir = site(&[("index.html", "home")]);
    for &engine in EMBEDDED {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        let mut client = TestClient::connect(served.address);
        assert_eq!(client.get("/").content, b"home");
        served.handle.drain(Duration::from_secs(60));
        wait_for("every worker drains", || TcpStream::connect(served.address).is_err().then_some(()));
        served.handle.stop(Duration::from_secs(60));
        assert_eq!(client.read_to_end(), b"", "{engine}");
        served.join_within(TEST_TIMEOUT);
    }
}
