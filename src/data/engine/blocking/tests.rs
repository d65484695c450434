//! Which connections make room for a waiting client, on a clock that the tests set.

use super::*;
use std::net::{SocketAddr, TcpListener, TcpStream};

#[test]
fn unused_connection_gives_way_after_a_moment_if_no_worker_is_idle() {
    #[rustfmt::skip]
    let cases = [
        // case                           another is idle   unused for          gives way
        ("unused for long",               false,            IDLE_MS_MIN,        true),
        ("just used",                     false,            IDLE_MS_MIN - 1,    false),
        ("another worker takes the client", true,           IDLE_MS_MIN,        false),
        ("and always will",               true,             100 * IDLE_MS_MIN,  false),
    ];
    for (name, is_another_idle, unused_ms, gives_way) in cases {
        let (mut blocking, address) = worker(is_another_idle);
        let _first = serve_client(&mut blocking, address);
        blocking.worker.advance_to(Tick(unused_ms));
        let _waiting = TcpStream::connect(address).unwrap();
        blocking.on_waiting_client().unwrap();
        assert_eq!(blocking.half_closed.len(), usize::from(gives_way), "{name}");
        assert!(blocking.is_serving(), "{name}");
    }
}

#[test]
fn connection_drains_when_a_client_still_waits_at_the_second_look() {
    let (mut blocking, address) = worker(false);
    let _first = serve_client(&mut blocking, address);
    let _waiting = TcpStream::connect(address).unwrap();
    assert!(blocking.watches_listeners());
    blocking.on_waiting_client().unwrap();
    assert!(blocking.waiting_clients == WaitingClients::Seen(Tick(0)));
    blocking.worker.advance_to(Tick(CLIENT_WAIT_MS_MAX - 1));
    assert!(!blocking.watches_listeners(), "too early for the second look");
    blocking.worker.advance_to(Tick(CLIENT_WAIT_MS_MAX));
    assert!(blocking.watches_listeners());
    blocking.on_waiting_client().unwrap();
    assert!(blocking.waiting_clients == WaitingClients::Draining);
}

/// Returns a worker with a listener and its address. The other worker of the server may be idle.
fn worker(is_another_idle: bool) -> (Blocking, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let blocking = Blocking::new(WorkerConfig::for_test(2, vec![listener.into()])).unwrap();
    blocking.idle_mark.idle_workers.set(1, is_another_idle);
    (blocking, address)
}

/// Connects a client that the worker accepts.
fn serve_client(blocking: &mut Blocking, address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    blocking.on_waiting_client().unwrap();
    assert!(blocking.is_serving());
    client
}
