//! Stopping on a signal, with a grace period.

use super::ENGINE;
use super::serve;
use crate::common::{
    client::{TestClient, get},
    distinct_bytes,
    program::{RunningProgram, suspend, wrap_command},
    site, wait_for,
};
use rustix::process::{Signal, kill_process};
use std::{
    fs,
    net::TcpStream,
    os::unix::net::UnixStream,
    process::ExitStatus,
    time::{Duration, Instant},
};
use tarpon::Engine;

/// More than the socket buffers of both sides hold.
const LARGE_LEN: usize = 32 << 20;

/// Far longer than a test: a server that waits for its end fails the test.
const LONG: [&str; 2] = ["--grace-period", "3600"];

#[test]
fn idle_server_stops_immediately() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = site(&[("index.html", "home")]);
        let program = RunningProgram::start_ready(serve(dir.path(), &LONG));
        let mut clients: Vec<TestClient> = (0..5).map(|_| TestClient::connect(program.address())).collect();
        for client in &mut clients[1..] {
            assert_eq!(client.get("/").status, 200);
        }
        program.signal(signal);
        let ended = program.wait();
        assert_eq!(ended.status, ExitStatus::default(), "{signal:?}: {ended:?}");
        assert!(
            ended.out.ends_with("stopping within 3600s; a second signal stops it at once\n"),
            "{ended:?}"
        );
        for mut client in clients {
            assert_eq!(client.read_to_end(), b"", "EOF without a reset");
        }
    }
}

#[test]
fn stop_completes_a_running_download() {
    for workers in ["1", "3"] {
        let content = distinct_bytes(LARGE_LEN);
        let dir = site(&[("large", &content)]);
        let mut program =
            RunningProgram::start_ready(serve(dir.path(), &[&LONG[..], &["--workers", workers]].concat()));
        let address = program.address();
        let mut client = TestClient::connect(address);
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        program.signal(Signal::TERM);
        wait_for("the listeners are closed", || TcpStream::connect(address).is_err().then_some(()));
        assert!(program.is_running(), "{workers} workers");
        assert!(client.read_to_end() == content, "{workers} workers");
        assert_eq!(program.wait().status, ExitStatus::default(), "{workers} workers");
    }
}

#[test]
fn grace_period_limits_the_wait_for_a_stalled_client() {
    let dir = site(&[("large", vec![0; LARGE_LEN])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--grace-period", "1", "--workers", "2"]));
    let mut client = TestClient::connect(program.address());
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    let since = Instant::now();
    program.signal(Signal::TERM);
    let ended = program.wait();
    let took = since.elapsed();
    assert_eq!(ended.status, ExitStatus::default(), "{ended:?}");
    assert!(took >= Duration::from_millis(950), "{took:?}");
}

#[test]
fn second_signal_stops_immediately() {
    for workers in ["1", "3"] {
        let dir = site(&[("large", vec![0; LARGE_LEN])]);
        let mut program =
            RunningProgram::start_ready(serve(dir.path(), &[&LONG[..], &["--workers", workers]].concat()));
        let address = program.address();
        let mut client = TestClient::connect(address);
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        program.signal(Signal::TERM);
        wait_for("the listeners are closed", || TcpStream::connect(address).is_err().then_some(()));
        assert!(program.is_running(), "{workers} workers");
        program.signal(Signal::TERM);
        let ended = program.wait();
        assert_eq!(ended.status, ExitStatus::default(), "{workers} workers: {ended:?}");
        assert!(ended.out.ends_with("stopping now\n"), "{ended:?}");
    }
}

#[test]
fn server_with_unwritable_output_serves_and_stops() {
    let (dir, temp) = (site(&[("index.html", "home")]), crate::common::readable_dir());
    let socket = temp.path().join("socket");
    for form in ["human", "json"] {
        let at = format!("unix:{}", socket.display());
        let command = serve(dir.path(), &["--listen", &at, "--log-format", form]);
        let program = RunningProgram::start(wrap_command(
            &["sh", "-c", "exec \"$0\" \"$@\" > /dev/full 2> /dev/full"],
            &command,
        ));
        wait_for("the listener", || UnixStream::connect(&socket).is_ok().then_some(()));
        for content in ["one", "another"] {
            fs::write(dir.path().join("index.html"), content).unwrap();
            let content = content.as_bytes();
            wait_for("the change", || {
                (TestClient::connect_unix(&socket).get("/").content == content).then_some(())
            });
        }
        program.signal(Signal::TERM);
        assert_eq!(program.wait().status, ExitStatus::default(), "{form}");
    }
}

#[test]
fn partial_request_is_completed_before_the_stop() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[&LONG[..], &["--workers", "1"]].concat()));
    let mut partial = TestClient::connect(program.address());
    partial.send("GET / HTTP/1.1\r\nHo");
    let mut idle = TestClient::connect(program.address());
    assert_eq!(idle.get("/").status, 200);
    program.signal(Signal::TERM);
    assert_eq!(idle.read_to_end(), b"");
    // A worker marks its connections as closing before it closes its listeners.
    wait_for("the listeners are closed", || TcpStream::connect(program.address()).is_err().then_some(()));
    partial.send("st: localhost\r\n\r\n");
    let response = partial.response();
    assert_eq!((response.status, response.content.as_slice()), (200, &b"home"[..]));
    // With the fork engine, the acceptor closes the listeners without waiting for the workers to receive the stop.
    assert!(response.closes() || ENGINE == Engine::Fork, "{response:?}");
    assert_eq!(partial.read_to_end(), b"");
    assert_eq!(program.wait().status, ExitStatus::default());
}

#[test]
fn stop_serves_requests_that_have_arrived() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[&LONG[..], &["--workers", "1"]].concat()));
    let mut clients: Vec<TestClient> = (0..12).map(|_| TestClient::connect(program.address())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    // While the server is suspended, the kernel queues connections and requests: more than one event-loop pass accepts.
    let server = program.server();
    suspend(server);
    clients.extend((0..300).map(|_| TestClient::connect(program.address())));
    for client in &mut clients {
        client.send(get("/"));
    }
    program.signal(Signal::TERM);
    kill_process(server, Signal::CONT).unwrap();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().content, b"home", "client {number}");
        assert_eq!(client.read_to_end(), b"", "client {number}");
    }
    assert_eq!(program.wait().status, ExitStatus::default());
}
