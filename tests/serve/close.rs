//! That a close loses no response: bytes that nobody has read when a socket is closed reset the connection, and a
//! reset throws away what is under way.

use super::serve;
use crate::common::{
    PATIENCE,
    client::{Client, get},
    distinct_bytes,
    program::Program,
    site,
};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::{net::TcpStream, thread, time::Duration};

#[test]
fn what_a_client_sends_during_its_last_response_does_not_cut_it_off() {
    let content = distinct_bytes(16 << 20);
    let dir = site(&[("large", &content)]);
    let program = Program::started(serve(dir.path(), &["--workers", "1"]));
    for stray in ["\r\n".to_owned(), get("/large"), "x".repeat(10_000)] {
        let stream = TcpStream::connect(program.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A large buffer would take nearly all of the response before the stray bytes come.
        set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
        let mut client = Client::new(stream);
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(client.try_head().unwrap().closes());
        client.send(&stray);
        // They are there before the response has left.
        thread::sleep(Duration::from_millis(50));
        assert!(client.rest() == content, "{} stray bytes", stray.len());
    }
}

#[test]
fn behind_the_last_request_that_a_connection_takes_nothing_is_answered() {
    let content = distinct_bytes(1 << 20);
    let dir = site(&[("index.html", &b"home"[..]), ("large", &content)]);
    let program = Program::started(serve(dir.path(), &["--workers", "1", "--requests-max", "3"]));
    // Pipelined: the third response has still to leave when all of the others have been read.
    let mut client = Client::connect(program.address());
    client.send(get("/") + &get("/") + &get("/large") + &get("/").repeat(1_000));
    for last in [false, false, true] {
        let response = client.response();
        assert_eq!((response.status, response.closes()), (200, last));
        assert!(response.content == if last { &content[..] } else { b"home" });
    }
    assert_eq!(client.rest(), b"");
    // One by one; and each connection counts for itself.
    for _ in 0..2 {
        let mut client = Client::connect(program.address());
        for last in [false, false, true] {
            assert_eq!(client.get("/").closes(), last);
        }
        client.send(get("/"));
        assert_eq!(client.rest(), b"");
    }
}
