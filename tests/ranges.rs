//! Range requests that depend on how the server sends: a response that waits for space in the outbox, and clients that request ranges
//! and never read them. `tests/cases/ranges.http` has the responses.

mod common;

use common::{
    EMBEDDED, ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    kernel::wait_until_read,
    server::{EmbeddedServer, TestServer, settings},
    site, wait_for,
};
use rustix::{
    net::{
        AddressFamily, SocketType, connect, listen, socket,
        sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size},
    },
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
};

/// Six ranges: more than fit in an outbox that holds another response.
const IN_PARTS: &str =
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=9-9, 7-7, 5-5, 3-3, 1-1, 5000000-5999999\r\n\r\n";

const LARGE_LEN: usize = 8 << 20;

#[test]
fn response_with_several_ranges_waits_for_space_and_then_follows_by_itself() {
    let large = distinct_bytes(LARGE_LEN);
    let dir = site(&[("large", &large)]);
    for &engine in ENGINES {
        let served = TestServer::dir(engine, 1, dir.path());
        let mut client = TestClient::new(small_window(served.address, 128 << 10));
        client.send(get("/large"));
        // The kernel takes only a part of this response, so the second request arrives while the rest is in the outbox.
        wait_until_read([&client]);
        client.send(IN_PARTS);
        wait_until_read([&client]);
        assert!(client.response().content == large, "{engine}");
        let response = client.response();
        assert_eq!(response.status, 206, "{engine}");
        let heads = response.content.windows(23).filter(|bytes| *bytes == b"\r\nContent-Range: bytes ");
        assert_eq!(heads.count(), 6, "{engine}");
        assert!(response.content.windows(1_000_000).any(|bytes| bytes == &large[5_000_000..6_000_000]));
        assert_eq!(client.get("/none").status, 404, "{engine}");
    }
}

/// Each greedy client holds two buffers, for the responses that follow the unread one. While half of its buffers are held, a worker
/// ignores ranges, so that the other half stays free for heads that come in several pieces.
#[test]
fn unread_range_responses_leave_buffers_for_other_clients() {
    /// Slightly more than a quarter of the buffers of a worker.
    const GREEDY_COUNT: usize = 1_100;
    const GREEDY_COUNT_MAX: usize = 1_400;
    let limit = getrlimit(Resource::Nofile);
    assert!(
        limit.maximum.is_none_or(|most| most > 2 * GREEDY_COUNT_MAX as u64 + 200),
        "ulimit -Hn: {limit:?}"
    );
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let dir = site(&[("index.html", &b"home"[..]), ("large", &distinct_bytes(LARGE_LEN))]);
    // A worker with one connection shares no buffers.
    for &engine in EMBEDDED.iter().filter(|engine| !engine.is_blocking()) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // With room for all clients, no connection waits for a SYN that is sent again.
        listen(&listener, GREEDY_COUNT as i32).unwrap();
        // Accepted sockets inherit the small send buffer, so that responses stay in the server and not in the kernel.
        set_socket_send_buffer_size(&listener, 16 << 10).unwrap();
        let served = EmbeddedServer::dir_on(listener, &settings(engine, 1), dir.path());
        // Two requests: the first may take the last buffer for ranges.
        let ranges = || {
            let mut client = TestClient::connect(served.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n".repeat(2));
            [client.response().status, client.response().status]
        };
        assert_eq!(ranges(), [206, 206], "{engine}");
        let greedy_client = || {
            let mut stream = small_window(served.address, 4096);
            let request = "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=1-\r\n\r\n";
            stream.write_all(request.repeat(3).as_bytes()).unwrap();
            stream
        };
        let mut greedy: Vec<TcpStream> = (0..GREEDY_COUNT).map(|_| greedy_client()).collect();
        wait_for("clients hold half of the buffers", || {
            let is_half_held = ranges()[1] == 200;
            // A client gives back a buffer when the kernel takes the last bytes of it.
            if !is_half_held && greedy.len() < GREEDY_COUNT_MAX {
                greedy.push(greedy_client());
            }
            is_half_held.then_some(())
        });
        let mut others: Vec<TestClient> = (0..100).map(|_| TestClient::connect(served.address)).collect();
        others.iter_mut().for_each(|client| assert!(client.send("GET / HTTP/1.1\r\n")));
        wait_until_read(&others);
        for client in &mut others {
            client.send("Host: a\r\n\r\n");
            assert_eq!(client.response().status, 200, "{engine}");
        }
        drop(greedy);
        wait_for("the buffers are free again", || (ranges() == [206, 206]).then_some(()));
        served.stop().unwrap();
    }
}

/// Connects with a small receive buffer.
fn small_window(address: SocketAddr, len: usize) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, len).unwrap();
    connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}
