//! How the program ends.

use super::serve;
use crate::{
    ENGINE,
    common::{
        client::{Client, get},
        distinct_bytes,
        program::{Program, through},
        site, wait_for,
    },
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

/// Far more than a test takes: who waits for it has waited in vain.
const LONG: [&str; 2] = ["--grace-period", "3600"];

#[test]
fn an_idle_server_ends_at_once_when_it_is_told_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = site(&[("index.html", "home")]);
        let program = Program::started(serve(dir.path(), &LONG));
        let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(program.address())).collect();
        for client in &mut clients[1..] {
            assert_eq!(client.get("/").status, 200);
        }
        program.signal(signal);
        let ended = program.ended();
        assert_eq!(ended.status, ExitStatus::default(), "{signal:?}: {ended:?}");
        assert!(
            ended.out.ends_with("stopping within 3600s; a second signal stops it at once\n"),
            "{ended:?}"
        );
        for mut client in clients {
            assert_eq!(client.rest(), b"", "in order, without a reset");
        }
    }
}

#[test]
fn a_download_under_way_is_finished_first() {
    for workers in ["1", "3"] {
        let content = distinct_bytes(LARGE_LEN);
        let dir = site(&[("large", &content)]);
        let mut program = Program::started(serve(dir.path(), &[&LONG[..], &["--workers", workers]].concat()));
        let address = program.address();
        let mut client = Client::connect(address);
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        program.signal(Signal::TERM);
        wait_for("no new client is taken", || TcpStream::connect(address).is_err().then_some(()));
        assert!(program.is_running(), "{workers} workers");
        assert!(client.rest() == content, "{workers} workers");
        assert_eq!(program.ended().status, ExitStatus::default(), "{workers} workers");
    }
}

#[test]
fn a_client_that_takes_nothing_is_waited_for_no_longer_than_the_grace() {
    let dir = site(&[("large", vec![0; LARGE_LEN])]);
    let program = Program::started(serve(dir.path(), &["--grace-period", "1", "--workers", "2"]));
    let mut client = Client::connect(program.address());
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    let since = Instant::now();
    program.signal(Signal::TERM);
    let ended = program.ended();
    let took = since.elapsed();
    assert_eq!(ended.status, ExitStatus::default(), "{ended:?}");
    assert!(took >= Duration::from_millis(950), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_second_signal_ends_the_grace() {
    for workers in ["1", "3"] {
        let dir = site(&[("large", vec![0; LARGE_LEN])]);
        let mut program = Program::started(serve(dir.path(), &[&LONG[..], &["--workers", workers]].concat()));
        let address = program.address();
        let mut client = Client::connect(address);
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        program.signal(Signal::TERM);
        wait_for("no new client is taken", || TcpStream::connect(address).is_err().then_some(()));
        assert!(program.is_running(), "{workers} workers");
        program.signal(Signal::TERM);
        let ended = program.ended();
        assert_eq!(ended.status, ExitStatus::default(), "{workers} workers: {ended:?}");
        assert!(ended.out.ends_with("stopping now\n"), "{ended:?}");
    }
}

#[test]
fn a_program_that_cannot_say_anything_serves_and_stops_all_the_same() {
    let (dir, temp) = (site(&[("index.html", "home")]), crate::common::open_dir());
    let socket = temp.path().join("socket");
    for form in ["human", "json"] {
        let at = format!("unix:{}", socket.display());
        let command = serve(dir.path(), &["--listen", &at, "--log-format", form]);
        let program =
            Program::start(through(&["sh", "-c", "exec \"$0\" \"$@\" > /dev/full 2> /dev/full"], &command));
        wait_for("it listens", || UnixStream::connect(&socket).is_ok().then_some(()));
        for content in ["one", "another"] {
            fs::write(dir.path().join("index.html"), content).unwrap();
            let content = content.as_bytes();
            wait_for("the change", || {
                (Client::connect_unix(&socket).get("/").content == content).then_some(())
            });
        }
        program.signal(Signal::TERM);
        assert_eq!(program.ended().status, ExitStatus::default(), "{form}");
    }
}

#[test]
fn a_request_that_has_begun_is_answered_and_the_connection_closes() {
    let dir = site(&[("index.html", "home")]);
    let program = Program::started(serve(dir.path(), &[&LONG[..], &["--workers", "1"]].concat()));
    let mut begun = Client::connect(program.address());
    begun.send("GET / HTTP/1.1\r\nHo");
    let mut idle = Client::connect(program.address());
    assert_eq!(idle.get("/").status, 200);
    program.signal(Signal::TERM);
    assert_eq!(idle.rest(), b"");
    // Connections are told before their worker ceases to listen.
    wait_for("nobody listens", || TcpStream::connect(program.address()).is_err().then_some(()));
    begun.send("st: localhost\r\n\r\n");
    let response = begun.response();
    assert_eq!((response.status, response.content.as_slice()), (200, &b"home"[..]));
    // With fork somebody else ceases to listen, who does not wait until all workers have heard it.
    assert!(response.closes() || ENGINE == Engine::Fork, "{response:?}");
    assert_eq!(begun.rest(), b"");
    assert_eq!(program.ended().status, ExitStatus::default());
}

#[test]
fn requests_that_have_arrived_are_answered_before_the_end() {
    let dir = site(&[("index.html", "home")]);
    let program = Program::started(serve(dir.path(), &[&LONG[..], &["--workers", "1"]].concat()));
    let mut clients: Vec<Client> = (0..12).map(|_| Client::connect(program.address())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    // While it sleeps, the kernel takes connections and requests for it: more than are accepted in one go.
    let server = program.server();
    kill_process(server, Signal::STOP).unwrap();
    clients.extend((0..300).map(|_| Client::connect(program.address())));
    for client in &mut clients {
        client.send(get("/"));
    }
    program.signal(Signal::TERM);
    kill_process(server, Signal::CONT).unwrap();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().content, b"home", "client {number}");
        assert_eq!(client.rest(), b"", "client {number}");
    }
    assert_eq!(program.ended().status, ExitStatus::default());
}
