//! Range requests that depend on how the server sends: a response that waits for space in the outbox. `tests/cases/ranges.http` has the
//! responses, and `slow_readers.rs` the clients that request ranges and never read them.

use crate::common::{
    ENGINES, client::get, distinct_bytes, endpoint::TestTls, kernel::wait_until_read, server::TestServer,
    site,
};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt::set_socket_recv_buffer_size};
use std::net::{SocketAddr, TcpStream};

/// Six ranges: more than fit in an outbox that holds another response.
const IN_PARTS: &str =
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=9-9, 7-7, 5-5, 3-3, 1-1, 5000000-5999999\r\n\r\n";

const LARGE_LEN: usize = 8 << 20;

#[test]
fn response_with_several_ranges_waits_for_space_and_then_follows_by_itself() {
    let large = distinct_bytes(LARGE_LEN);
    let dir = site(&[("large", &large)]);
    let tls = TestTls::new();
    let servers =
        ENGINES.iter().map(|&engine| (engine, TestServer::dir_with_tls(engine, 1, dir.path(), &tls)));
    for (engine, served) in servers {
        for endpoint in tls.endpoints_with_http2(engine, &served.addresses) {
            let mut client = endpoint.client(small_window(endpoint.address, 128 << 10));
            client.send(get("/large"));
            // The kernel takes only a part of this response, so the second request arrives while the rest is in the outbox.
            wait_until_read([&client]);
            client.send(IN_PARTS);
            wait_until_read([&client]);
            assert!(client.response().content == large, "{engine}, {endpoint}");
            let response = client.response();
            assert_eq!(response.status, 206, "{engine}, {endpoint}");
            let heads = response.content.windows(23).filter(|bytes| *bytes == b"\r\nContent-Range: bytes ");
            assert_eq!(heads.count(), 6, "{engine}, {endpoint}");
            assert!(response.content.windows(1_000_000).any(|bytes| bytes == &large[5_000_000..6_000_000]));
            assert_eq!(client.get("/none").status, 404, "{engine}, {endpoint}");
        }
    }
}

/// Connects with a small receive buffer.
fn small_window(address: SocketAddr, len: usize) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, len).unwrap();
    connect(&socket, &address).unwrap();
    TcpStream::from(socket)
}
