//! Closing a connection loses no response. The kernel resets a connection that is closed with unread input, and a reset
//! discards data in flight, so the server lingers: it drains the input first.

use super::ENGINE;
use super::serve;
use crate::common::{
    TEST_TIMEOUT,
    client::{TestClient, connected, get},
    distinct_bytes,
    endpoint::{Endpoint, TestTls},
    faults::FAULTS_VARIABLE,
    kernel::{self, wait_until_arrived},
    program::RunningProgram,
    site, wait_for,
};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use std::{env, io::ErrorKind, net::TcpStream, path::Path, thread, time::Duration};

#[test]
fn input_during_the_last_response_does_not_truncate_it() {
    let content = distinct_bytes(16 << 20);
    let dir = site(&[("large", &content)]);
    let served = ServedWithTls::start(dir.path(), &[]);
    let strays = ["\r\n".to_owned(), get("/large"), "x".repeat(10_000)];
    for (stray, endpoint) in
        strays.iter().flat_map(|stray| served.endpoints().map(|endpoint| (stray, endpoint)))
    {
        let stream = connected(endpoint.address);
        // A large receive buffer would take nearly the whole response before the client sends the stray bytes.
        set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
        let mut client = endpoint.client(stream);
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(client.try_head().unwrap().closes());
        client.send(stray);
        // The stray bytes arrive before the server has sent the response, as the client reads nothing.
        wait_until_arrived(&client);
        assert!(client.read_to_end() == content, "{endpoint}: {} stray bytes", stray.len());
    }
}

#[test]
fn client_that_shuts_down_sending_gets_the_whole_response() {
    let content = distinct_bytes(16 << 20);
    let dir = site(&[("large", &content)]);
    let served = ServedWithTls::start(dir.path(), &[]);
    for endpoint in served.endpoints() {
        let mut client = endpoint.connect();
        client.send(get("/large").repeat(2));
        client.shutdown_write();
        for _ in 0..2 {
            assert!(client.response().content == content, "{endpoint}");
        }
        // An injected fault tells the server that the socket is full, so it closes without its alert: the responses are complete.
        match client.try_read_to_end() {
            Err(error) if env::var_os(FAULTS_VARIABLE).is_some() => {
                assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{endpoint}");
            }
            rest => assert_eq!(rest.expect("the closing alert"), b"", "{endpoint}"),
        }
    }
}

#[test]
fn requests_after_the_keepalive_limit_get_no_response() {
    let content = distinct_bytes(1 << 20);
    let dir = site(&[("index.html", &b"home"[..]), ("large", &content)]);
    let served = ServedWithTls::start(dir.path(), &["--keepalive-requests", "3"]);
    for endpoint in served.endpoints() {
        // Pipelined: the server has read all requests before it has sent the third response.
        let mut client = endpoint.connect();
        client.send(get("/") + &get("/") + &get("/large") + &get("/").repeat(1_000));
        for last in [false, false, true] {
            let response = client.response();
            assert_eq!((response.status, response.closes()), (200, last), "{endpoint}");
            assert!(response.content == if last { &content[..] } else { b"home" }, "{endpoint}");
        }
        assert_eq!(client.read_to_end(), b"", "{endpoint}");
        // One at a time. Each connection has its own count.
        for _ in 0..2 {
            let mut client = endpoint.connect();
            for last in [false, false, true] {
                assert_eq!(client.get("/").closes(), last, "{endpoint}");
            }
            client.send(get("/"));
            assert_eq!(client.read_to_end(), b"", "{endpoint}");
        }
    }
}

#[test]
fn response_to_oversized_content_arrives() {
    let dir = site(&[("index.html", "home")]);
    let served = ServedWithTls::start(dir.path(), &[]);
    let len = 3 << 20;
    let chunk = format!("{len:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(len));
    for (framing, content, status) in [
        (format!("Content-Length: {len}"), "x".repeat(len), 413),
        // The server responds before the chunks exceed the limit.
        ("Transfer-Encoding: chunked".to_owned(), chunk, 200),
    ] {
        let content = content + &get("/");
        for endpoint in served.endpoints() {
            let mut client = endpoint.connect();
            client.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n"));
            // The client sends everything before it reads.
            client.send(&content);
            assert_eq!(client.response().status, status, "{endpoint}: {framing}");
            assert_eq!(client.read_to_end(), b"", "{endpoint}: {framing}");
        }
    }
}

/// The protocol without an engine: `a_slow_reader_of_the_last_response_is_waited_for_at_the_least_rate` of `tarpon-conn`.
#[test]
#[ignore = "soak: sleeps for longer than the server lingers"]
fn slow_reader_that_sends_input_gets_the_whole_last_response() {
    let content = distinct_bytes(1 << 20);
    let dir = site(&[("large", &content)]);
    let program =
        RunningProgram::start_ready(serve(dir.path(), &["--workers", "1", "--keepalive-requests", "1"]));
    let stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    // The rest of the response waits in the send buffer of the server's kernel.
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    let mut client = TestClient::new(stream);
    client.send(get("/large"));
    assert!(client.try_head().unwrap().closes());
    thread::sleep(LINGERED);
    client.send(get("/large"));
    wait_until_arrived(&client);
    assert!(client.read_to_end() == content);
}

/// The protocol without an engine: `a_refused_client_that_sends_on_is_waited_for_as_long_as_content_is` of `tarpon-conn`.
#[test]
#[ignore = "soak: sends for longer than the server lingers"]
fn slow_sender_of_rejected_content_gets_the_response() {
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
fn reset_in_any_state_closes_only_its_connection() {
    let dir = site(&[("index.html", vec![b'h'; 500]), ("large", vec![b'l'; 32 << 20])]);
    let served = ServedWithTls::start(dir.path(), &[]);
    let program = &served.program;
    let mut other = TestClient::connect(program.address());
    let home = get("/");
    #[rustfmt::skip]
    let states: &[(&str, &str, usize)] = &[
        // state of the server        input                                                                      responses
        ("waits for the first head",  "",                                                                        0),
        ("waits for more of a head",  "GET / HTTP/1.1\r\nHo",                                                    0),
        ("waits for another head",    &home,                                                                     1),
        ("waits for content",         "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",      1),
        ("lingers",                   "GET / HTTP/1.1\r\n\r\n",                                                  1),
        ("sends",                     &get("/large"),                                                            0),
    ];
    for (endpoint, (state, sent, responses)) in
        served.endpoints().iter().flat_map(|endpoint| states.iter().map(move |state| (endpoint, state)))
    {
        let connection_count = || kernel::connection_count(endpoint.address.port());
        let others = usize::from(!endpoint.has_tls());
        let stream = connected(endpoint.address);
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        let mut client = endpoint.client(stream);
        client.send(sent);
        // A response shows that the server has accepted the connection.
        if *responses == 0 {
            wait_for("the connection is accepted", || (connection_count() == others + 1).then_some(()));
        }
        (0..*responses).for_each(|_| drop(client.response()));
        drop(client);
        wait_for(state, || (connection_count() == others).then_some(()));
        assert_eq!(other.get("/").status, 200, "{endpoint}: {state}");
    }
    assert_eq!(program.err(), "");
}

/// A server with one worker, which clients reach with and without TLS.
struct ServedWithTls {
    program: RunningProgram,
    tls: TestTls,
}

impl ServedWithTls {
    fn start(dir: &Path, options: &[&str]) -> ServedWithTls {
        let tls = TestTls::new();
        let options = [options, &["--workers", "1", "--engine", ENGINE.name()]].concat();
        ServedWithTls { program: RunningProgram::start_ready(tls.serve(dir, &options)), tls }
    }

    fn endpoints(&self) -> [Endpoint; 3] {
        self.tls.endpoints(&self.program.addresses())
    }
}

/// Longer than the server lingers for a client that has acknowledged everything and sends nothing.
const LINGERED: Duration = Duration::from_millis(2_500);
