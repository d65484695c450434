//! Range requests where it matters how a server sends: a response that waits for room, and clients that ask for parts
//! and never take them. What is answered stands in `tests/cases/ranges.http`.

mod common;

use common::{
    EMBEDDED, ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    server::{EmbeddedServer, TestServer, settings},
    site, wait_for,
};
use rustix::{
    net::{
        AddressFamily, SocketType, connect, socket,
        sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size},
    },
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// Six parts: more than there is room for beside what another response owes.
const IN_PARTS: &str =
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=9-9, 7-7, 5-5, 3-3, 1-1, 5000000-5999999\r\n\r\n";

const LARGE_LEN: usize = 8 << 20;

#[test]
fn a_response_in_parts_waits_for_room_and_comes_without_another_byte_from_the_client() {
    let large = distinct_bytes(LARGE_LEN);
    let dir = site(&[("large", &large)]);
    for &engine in ENGINES {
        let served = TestServer::dir(engine, 1, dir.path());
        let mut client = TestClient::new(small_window(served.address, 128 << 10));
        client.send(get("/large"));
        // Until the socket takes no more.
        thread::sleep(Duration::from_millis(100));
        client.send(IN_PARTS);
        thread::sleep(Duration::from_millis(100));
        assert!(client.response().content == large, "{engine}");
        let response = client.response();
        assert_eq!(response.status, 206, "{engine}");
        let heads = response.content.windows(23).filter(|bytes| *bytes == b"\r\nContent-Range: bytes ");
        assert_eq!(heads.count(), 6, "{engine}");
        assert!(response.content.windows(1_000_000).any(|bytes| bytes == &large[5_000_000..6_000_000]));
        assert_eq!(client.get("/none").status, 404, "{engine}");
    }
}

/// Each holds two buffers: for the responses behind the one it does not take. When half of all are held, ranges are
/// ignored, and the rest is there for heads in parts.
#[test]
fn clients_that_ask_for_parts_and_take_nothing_leave_buffers_for_others() {
    /// A quarter of a worker's buffers, and some more.
    const GREEDY_COUNT: u64 = 1_100;
    let limit = getrlimit(Resource::Nofile);
    assert!(limit.maximum.is_none_or(|most| most > 2 * GREEDY_COUNT + 200), "ulimit -Hn: {limit:?}");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let dir = site(&[("index.html", &b"home"[..]), ("large", &distinct_bytes(LARGE_LEN))]);
    // Workers with one connection each share no buffers.
    for &engine in EMBEDDED.iter().filter(|engine| !engine.is_blocking()) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The sockets it accepts take little: the kernel's memory is not what this is about.
        set_socket_send_buffer_size(&listener, 16 << 10).unwrap();
        let served = EmbeddedServer::dir_on(listener, &settings(engine, 1), dir.path());
        // Two at once: the first may take the last buffer that ranges may have.
        let ranges = || {
            let mut client = TestClient::connect(served.address);
            client.send("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n".repeat(2));
            [client.response().status, client.response().status]
        };
        assert_eq!(ranges(), [206, 206], "{engine}");
        let greedy: Vec<TcpStream> = (0..GREEDY_COUNT)
            .map(|_| {
                let mut stream = small_window(served.address, 4096);
                let request = "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=1-\r\n\r\n";
                stream.write_all(request.repeat(3).as_bytes()).unwrap();
                stream
            })
            .collect();
        wait_for("half of the buffers are held", || (ranges()[1] == 200).then_some(()));
        let mut others: Vec<TestClient> = (0..100).map(|_| TestClient::connect(served.address)).collect();
        others.iter_mut().for_each(|client| assert!(client.send("GET / HTTP/1.1\r\n")));
        thread::sleep(Duration::from_millis(50));
        for client in &mut others {
            client.send("Host: a\r\n\r\n");
            assert_eq!(client.response().status, 200, "{engine}");
        }
        drop(greedy);
        wait_for("their buffers are free again", || (ranges() == [206, 206]).then_some(()));
        served.stop().unwrap();
    }
}

/// A client whose socket takes little.
fn small_window(address: SocketAddr, len: usize) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, len).unwrap();
    connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}
