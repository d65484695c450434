//! How long the program waits for clients.

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

/// What is set below, in seconds; and what no other timeout is near.
const SHORT: &str = "0.3";
const SHORT_MS: u128 = 300;

#[test]
fn a_head_that_is_not_completed_is_answered_with_408() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--header-timeout", SHORT]));
    for behind_another in [false, true] {
        let mut client = TestClient::connect(program.address());
        if behind_another {
            assert_eq!(client.get("/").status, 200);
        }
        let since = Instant::now();
        client.send("GET / HTTP/1.1\r\nHost: local");
        let response = client.response();
        assert_eq!(response.status, 408);
        assert!(response.closes(), "{response:?}");
        assert_eq!(client.read_to_end(), b"");
        // From the accept on, if it is the first; that may have been a little earlier.
        assert!(since.elapsed().as_millis() >= SHORT_MS - 50, "{:?}", since.elapsed());
    }
}

#[test]
fn a_head_in_drops_has_no_more_time_than_any_other() {
    /// Ten seconds.
    const DROP_COUNT_MAX: usize = 400;
    let dir = site(&[("index.html", "home")]);
    // What comes behind the answer is content to be dropped.
    let limits = ["--header-timeout", SHORT, "--body-timeout", SHORT];
    let program = RunningProgram::start_ready(serve(dir.path(), &limits));
    // Within a line, and line by line: a hundred lines would be too many, but not before five seconds.
    for drops in [["x", "y"], ["X: ", "y\r\n"]] {
        let mut stream = TcpStream::connect(program.address()).unwrap();
        let mut client = TestClient::new(stream.try_clone().unwrap());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n").unwrap();
        let dropping = thread::spawn(move || {
            let taken = drops.iter().cycle().take(DROP_COUNT_MAX).take_while(|drop| {
                thread::sleep(Duration::from_millis(25));
                stream.write_all(drop.as_bytes()).is_ok()
            });
            taken.count()
        });
        assert_eq!(client.response().status, 408);
        // It takes the drops for a while, so as not to reset before the answer is read, but not for ever.
        assert!(dropping.join().unwrap() < DROP_COUNT_MAX);
    }
}

#[test]
fn content_in_drops_has_no_more_time_than_any_other() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--body-timeout", SHORT]));
    let mut stream = TcpStream::connect(program.address()).unwrap();
    let mut client = TestClient::new(stream.try_clone().unwrap());
    let since = Instant::now();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n").unwrap();
    // Twenty-five seconds of drops, if it took them.
    let dropping = thread::spawn(move || {
        let drops = (0..1000).take_while(|_| {
            thread::sleep(Duration::from_millis(25));
            stream.write_all(b"x").is_ok()
        });
        drops.count()
    });
    assert_eq!(client.response().status, 405);
    assert_eq!(client.read_to_end(), b"", "an end, and no reset");
    assert!(since.elapsed().as_millis() >= SHORT_MS - 50, "{:?}", since.elapsed());
    assert!(dropping.join().unwrap() < 500);
}

#[test]
fn a_client_that_says_nothing_is_left_without_a_word() {
    let dir = site(&[("index.html", "home")]);
    for (option, first_request) in [("--header-timeout", false), ("--idle-timeout", true)] {
        let program = RunningProgram::start_ready(serve(dir.path(), &[option, SHORT]));
        let mut client = TestClient::connect(program.address());
        if first_request {
            assert_eq!(client.get("/").status, 200);
        }
        let since = Instant::now();
        assert_eq!(client.read_to_end(), b"", "{option}");
        assert!(since.elapsed().as_millis() >= SHORT_MS - 50, "{option}: {:?}", since.elapsed());
    }
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let len = 32 << 20;
    let dir = site(&[("large", vec![0; len])]);
    let program =
        RunningProgram::start_ready(serve(dir.path(), &["--send-timeout", SHORT, "--workers", "1"]));
    let mut client = TestClient::connect(program.address());
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    assert_eq!(program.connection_count(), 1);
    wait_for("the client is cut off", || (program.connection_count() == 0).then_some(()));
    // By a reset: the kernel does not keep what it has taken either, for as long as the client likes.
    assert_eq!(
        client.try_read_to_end().map(|rest| rest.len()).map_err(|error| error.kind()),
        Err(ConnectionReset)
    );
}

/// It takes some 600 KB a second, so that it takes longer than the timeout until the server sees room for more: a
/// socket whose buffer is full has none before a third of it is free.
#[test]
fn a_reader_is_served_at_the_least_rate_and_cut_off_below_it() {
    const LEN: usize = 6 << 20;
    /// Half of the timeout. A reader that the machine stops for longer is below any rate.
    const PAUSE_MAX: Duration = Duration::from_millis(500);
    let dir = site(&[("large", vec![7; LEN])]);
    for (rate_min, served) in [("20000", true), ("100000000", false)] {
        let options = ["--send-timeout", "1", "--min-send-rate", rate_min, "--workers", "1"];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let taken = wait_for("a reader that is never stopped", || {
            let (taken, longest) = read_slowly(&program);
            ((taken > LEN) == served || longest < PAUSE_MAX).then_some(taken)
        });
        assert_eq!(taken > LEN, served, "{rate_min}: {taken} of {LEN} bytes and a head");
    }
}

/// Reads a response at 600 KB a second, to its end. Returns its length, and the longest pause of the reader.
fn read_slowly(program: &RunningProgram) -> (usize, Duration) {
    let mut stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut block = vec![0; 100_000];
    let mut taken = stream.read(&mut block).unwrap();
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while program.connection_count() > 0 {
        thread::sleep(Duration::from_millis(150));
        taken += stream.read(&mut block).unwrap_or(0);
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    // Takes what the kernel still has for the client, or nothing.
    while let Ok(some @ 1..) = stream.read(&mut block) {
        taken += some;
    }
    (taken, longest)
}

#[test]
fn a_client_that_is_slow_but_takes_something_is_served() {
    let len = 24 << 20;
    let dir = site(&[("large", vec![7; len])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--send-timeout", "2", "--workers", "1"]));
    let stream = TcpStream::connect(program.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    // A large buffer would take it all at first, and the server would see nothing of the client's pauses.
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    let mut client = TestClient::new(stream);
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    let (since, mut taken) = (Instant::now(), 0);
    // Twelve times 2 MiB, in longer than it may take nothing at all.
    while taken < len {
        taken += client.read_exact(2 << 20).len();
        if taken < len {
            thread::sleep(Duration::from_millis(300));
        }
    }
    assert!(since.elapsed() > Duration::from_secs(3));
    assert_eq!(client.get("/large").content.len(), len);
}
