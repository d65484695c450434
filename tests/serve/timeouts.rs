//! Timeouts for clients. `crates/conn/tests/invariants/time.rs` shows with a simulated clock which deadline each state has, and that a
//! client that sends byte by byte puts none off; here the engines keep the deadlines.

use super::serve;
use crate::common::{
    TEST_TIMEOUT,
    client::{TestClient, get},
    program::RunningProgram,
    site, wait_for,
};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::{
    io::{ErrorKind::ConnectionReset, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

/// The timeout under test in seconds; all other timeouts are much longer.
const SHORT: &str = "0.3";
const SHORT_MS: u128 = 300;

/// A timeout may begin earlier than a test by this time: a worker reads the clock when it wakes up.
const CLOCK_MS: u128 = 50;

#[test]
fn incomplete_head_gets_408() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--header-timeout", SHORT]));
    for after_another in [false, true] {
        let (mut client, since) = wait_for("a client that sends within the timeout", || {
            let mut since = Instant::now();
            let mut client = TestClient::connect(program.address());
            if after_another {
                client.send(get("/"));
                client.try_response().ok().filter(|response| response.status == 200)?;
                since = Instant::now();
            }
            client.send("GET / HTTP/1.1\r\nHost: local");
            (since.elapsed().as_millis() < SHORT_MS).then_some((client, since))
        });
        let response = client.response();
        assert_eq!(response.status, 408);
        assert!(response.closes(), "{response:?}");
        assert_eq!(client.read_to_end(), b"");
        assert!(since.elapsed().as_millis() >= SHORT_MS - CLOCK_MS, "{:?}", since.elapsed());
    }
}

#[test]
fn silent_client_is_closed_without_a_response() {
    let dir = site(&[("index.html", "home")]);
    for (option, first_request) in [("--header-timeout", false), ("--idle-timeout", true)] {
        let program = RunningProgram::start_ready(serve(dir.path(), &[option, SHORT]));
        let since = Instant::now();
        let mut client = TestClient::connect(program.address());
        if first_request {
            assert_eq!(client.get("/").status, 200);
        }
        assert_eq!(client.read_to_end(), b"", "{option}");
        assert!(since.elapsed().as_millis() >= SHORT_MS - CLOCK_MS, "{option}: {:?}", since.elapsed());
    }
}

#[test]
fn client_that_does_not_read_is_reset() {
    let len = 32 << 20;
    let dir = site(&[("large", vec![0; len])]);
    let program =
        RunningProgram::start_ready(serve(dir.path(), &["--send-timeout", SHORT, "--workers", "1"]));
    let mut client = TestClient::connect(program.address());
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    wait_for("the connection is closed", || (program.connection_count() == 0).then_some(()));
    // A reset makes the kernel discard the send buffer instead of keeping it for the client.
    assert_eq!(
        client.try_read_to_end().map(|rest| rest.len()).map_err(|error| error.kind()),
        Err(ConnectionReset)
    );
}

/// The client reads some 600 KB a second, so that the server waits longer than the timeout until the socket is writable:
/// the kernel reports a full socket as writable after a third of its buffer is free.
#[test]
#[ignore = "soak: reads at a given rate"]
fn client_below_the_minimum_send_rate_is_closed() {
    const LEN: usize = 6 << 20;
    /// Half of the timeout. A longer pause by the scheduler puts the reader below any rate.
    const PAUSE_MAX: Duration = Duration::from_millis(500);
    let dir = site(&[("large", vec![7; LEN])]);
    for (rate_min, served) in [("20000", true), ("100000000", false)] {
        let options = ["--send-timeout", "1", "--min-send-rate", rate_min, "--workers", "1"];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let received = wait_for("a reader without a long pause", || {
            let (received, longest) = read_slowly(&program);
            ((received > LEN) == served || longest < PAUSE_MAX).then_some(received)
        });
        assert_eq!(received > LEN, served, "{rate_min}: {received} of {LEN} bytes and a head");
    }
}

/// Reads a whole response at 600 KB a second. Returns its length and the longest pause of the reader.
fn read_slowly(program: &RunningProgram) -> (usize, Duration) {
    let mut stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut block = vec![0; 100_000];
    let mut received = stream.read(&mut block).unwrap();
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while program.connection_count() > 0 {
        thread::sleep(Duration::from_millis(150));
        received += stream.read(&mut block).unwrap_or(0);
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    // Reads the rest that the kernel has buffered.
    while let Ok(some @ 1..) = stream.read(&mut block) {
        received += some;
    }
    (received, longest)
}

#[test]
#[ignore = "soak: reads at a given rate"]
fn slow_reader_that_makes_progress_is_served() {
    let len = 24 << 20;
    let dir = site(&[("large", vec![7; len])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--send-timeout", "2", "--workers", "1"]));
    let stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    // With a large receive buffer, the server would not notice the pauses of the client.
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    let mut client = TestClient::new(stream);
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    let (since, mut received) = (Instant::now(), 0);
    // Reads 2 MiB twelve times, which takes longer than the send timeout.
    while received < len {
        received += client.read_exact(2 << 20).len();
        if received < len {
            thread::sleep(Duration::from_millis(300));
        }
    }
    assert!(since.elapsed() > Duration::from_secs(3));
    assert_eq!(client.get("/large").content.len(), len);
}
