//! That a close loses no response: bytes that nobody has read when a socket is closed reset the connection, and a
//! reset throws away what is under way.

use super::serve;
use crate::common::{
    TEST_TIMEOUT,
    client::{TestClient, get},
    distinct_bytes,
    program::RunningProgram,
    site, wait_for,
};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use std::{net::TcpStream, thread, time::Duration};

#[test]
fn what_a_client_sends_during_its_last_response_does_not_cut_it_off() {
    let content = distinct_bytes(16 << 20);
    let dir = site(&[("large", &content)]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    for stray in ["\r\n".to_owned(), get("/large"), "x".repeat(10_000)] {
        let stream = TcpStream::connect(program.address()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        // A large buffer would take nearly all of the response before the stray bytes come.
        set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
        let mut client = TestClient::new(stream);
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(client.try_head().unwrap().closes());
        client.send(&stray);
        // They are there before the response has left.
        thread::sleep(Duration::from_millis(50));
        assert!(client.read_to_end() == content, "{} stray bytes", stray.len());
    }
}

#[test]
fn a_client_that_closes_its_sending_side_still_gets_the_whole_response() {
    let content = distinct_bytes(16 << 20);
    let dir = site(&[("large", &content)]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    let mut client = TestClient::connect(program.address());
    client.send(get("/large").repeat(2));
    client.shutdown_write();
    for _ in 0..2 {
        assert!(client.response().content == content);
    }
    assert_eq!(client.read_to_end(), b"");
}

#[test]
fn behind_the_last_request_that_a_connection_takes_nothing_is_answered() {
    let content = distinct_bytes(1 << 20);
    let dir = site(&[("index.html", &b"home"[..]), ("large", &content)]);
    let program =
        RunningProgram::start_ready(serve(dir.path(), &["--workers", "1", "--keepalive-requests", "3"]));
    // Pipelined: the third response has still to leave when all of the others have been read.
    let mut client = TestClient::connect(program.address());
    client.send(get("/") + &get("/") + &get("/large") + &get("/").repeat(1_000));
    for last in [false, false, true] {
        let response = client.response();
        assert_eq!((response.status, response.closes()), (200, last));
        assert!(response.content == if last { &content[..] } else { b"home" });
    }
    assert_eq!(client.read_to_end(), b"");
    // One by one; and each connection counts for itself.
    for _ in 0..2 {
        let mut client = TestClient::connect(program.address());
        for last in [false, false, true] {
            assert_eq!(client.get("/").closes(), last);
        }
        client.send(get("/"));
        assert_eq!(client.read_to_end(), b"");
    }
}

#[test]
fn an_answer_to_too_much_content_is_not_lost() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    let len = 3 << 20;
    let chunk = format!("{len:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(len));
    for (framing, content, status) in [
        (format!("Content-Length: {len}"), "x".repeat(len), 413),
        // Answered before it turned out to be too long.
        ("Transfer-Encoding: chunked".to_owned(), chunk, 200),
    ] {
        let mut client = TestClient::connect(program.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n"));
        // It sends all of it before it looks for an answer.
        client.send(content + &get("/"));
        assert_eq!(client.response().status, status, "{framing}");
        assert_eq!(client.read_to_end(), b"", "{framing}");
    }
}

#[test]
fn a_client_that_takes_its_time_with_the_last_response_gets_it_whole_whatever_it_sends() {
    let content = distinct_bytes(1 << 20);
    let dir = site(&[("large", &content)]);
    let program =
        RunningProgram::start_ready(serve(dir.path(), &["--workers", "1", "--keepalive-requests", "1"]));
    let stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    // The rest has left and waits in the server's kernel.
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    let mut client = TestClient::new(stream);
    client.send(get("/large"));
    assert!(client.try_head().unwrap().closes());
    thread::sleep(LINGERED);
    client.send(get("/large"));
    thread::sleep(Duration::from_millis(50));
    assert!(client.read_to_end() == content);
}

#[test]
fn a_client_that_is_slow_to_send_what_is_refused_still_reads_the_answer() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    let mut client = TestClient::connect(program.address());
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
    for _ in 0..25 {
        assert!(client.send("x".repeat(1_000)));
        thread::sleep(LINGERED / 25);
    }
    assert_eq!(client.response().status, 413);
    assert_eq!(client.read_to_end(), b"");
}

#[test]
fn a_reset_at_any_moment_ends_its_connection_alone() {
    let dir = site(&[("index.html", vec![b'h'; 500]), ("large", vec![b'l'; 32 << 20])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    let mut beside = TestClient::connect(program.address());
    let home = get("/");
    #[rustfmt::skip]
    let moments: &[(&str, &str, usize)] = &[
        // what the server does       it has been sent                                                           responses
        ("waits for the first head",  "",                                                                        0),
        ("waits for more of a head",  "GET / HTTP/1.1\r\nHo",                                                    0),
        ("waits for another head",    &home,                                                                     1),
        ("waits for content",         "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",      1),
        ("lingers",                   "GET / HTTP/1.1\r\n\r\n",                                                  1),
        ("sends",                     &get("/large"),                                                            0),
    ];
    for (moment, sent, responses) in moments {
        let stream = TcpStream::connect(program.address()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        let mut client = TestClient::new(stream);
        client.send(sent);
        (0..*responses).for_each(|_| drop(client.response()));
        wait_for("it has been accepted", || (program.connection_count() == 2).then_some(()));
        drop(client);
        wait_for(moment, || (program.connection_count() == 1).then_some(()));
        assert_eq!(beside.get("/").status, 200, "{moment}");
    }
    assert_eq!(program.err(), "");
}

/// Longer than a client is waited for that has everything and sends nothing.
const LINGERED: Duration = Duration::from_millis(2_500);
