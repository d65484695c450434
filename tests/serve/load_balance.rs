//! A worker shares its time and buffers fairly between clients.

use super::ENGINE;
use super::{IS_BLOCKING, serve, serve_exactly};
use crate::common::{
    client::{TestClient, get},
    kernel::{sleep_count, wait_until_arrived, wait_until_asleep, wait_until_read},
    program::{RunningProgram, children, suspend},
    readable_dir, site,
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
};
use tarpon::Engine;

/// A server that serves a flood to its end before it serves another client lets that client wait for ever.
#[test]
fn flooding_clients_do_not_starve_another() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    for _ in 0..2 {
        flood(program.address());
    }
    let mut client = TestClient::connect(program.address());
    for _ in 0..100 {
        assert_eq!(client.get("/").content, b"home");
    }
}

/// The access log has the order in which one worker responds. In a blocking engine, the kernel schedules the clients.
#[test]
fn pipelined_requests_take_turns_with_those_of_another_client() {
    /// The requests of each pipelining client: several times what a worker handles before it turns to another client.
    const REQUEST_COUNT: usize = 400;
    if IS_BLOCKING {
        return;
    }
    let (dir, temp) = (site(&[("index.html", "home")]), readable_dir());
    let log = temp.path().join("log");
    let options = ["--workers", "1", "--access-log", log.to_str().unwrap()];
    let program = RunningProgram::start_ready(serve(dir.path(), &options));
    let mut clients = [(); 3].map(|()| TestClient::connect(program.address()));
    for client in &mut clients {
        assert_eq!(client.get("/?connected").content, b"home");
    }
    // All requests have arrived when the server continues.
    let server = program.server();
    suspend(server);
    let [first, second, other] = &mut clients;
    first.send(get("/?first").repeat(REQUEST_COUNT));
    second.send(get("/?second").repeat(REQUEST_COUNT));
    other.send(get("/?other"));
    [&*first, second, other].into_iter().for_each(wait_until_arrived);
    kill_process(server, Signal::CONT).unwrap();
    for (client, count) in [(first, REQUEST_COUNT), (second, REQUEST_COUNT), (other, 1)] {
        (0..count).for_each(|_| assert_eq!(client.response().content, b"home"));
    }
    drop(clients);
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
    let log = fs::read_to_string(&log).unwrap();
    let position = |what: &str| log.lines().position(|line| line.contains(what)).expect("a line");
    let last =
        |what: &str| log.lines().count() - log.lines().rev().position(|line| line.contains(what)).unwrap();
    for pipelining in ["/?first", "/?second"] {
        assert!(position("/?other") < last(pipelining), "{log}");
    }
    assert!(position("/?first") < last("/?second") && position("/?second") < last("/?first"), "{log}");
}

/// Where a client wakes all workers that wait at the listener, each connection costs more with each idle worker.
#[test]
fn client_wakes_one_of_many_idle_workers() {
    const WORKER_COUNT: u64 = 40;
    const CLIENT_COUNT: u64 = 100;
    /// A worker that waits for its client, for the request and for the end goes to sleep three times.
    const SLEEPS_PER_CLIENT_MAX: u64 = 8;
    if !matches!(ENGINE, Engine::Threads | Engine::Prefork) {
        return;
    }
    let dir = site(&[("index.html", "home")]);
    let options = ["--workers", &WORKER_COUNT.to_string()];
    let program = RunningProgram::start_ready(serve_exactly(dir.path(), &options));
    let server = program.server();
    let processes = || [children(server), vec![server]].concat();
    wait_until_asleep("all workers are idle", processes);
    let before = sleep_count(&processes());
    for _ in 0..CLIENT_COUNT {
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
    }
    let count = sleep_count(&processes()) - before;
    assert!((CLIENT_COUNT..CLIENT_COUNT * SLEEPS_PER_CLIENT_MAX).contains(&count), "{count} times");
}

#[test]
fn incomplete_heads_do_not_block_another_client() {
    /// More connections than a worker has buffers. In a blocking engine each connection occupies a worker, so there are fewer.
    const HOLDER_COUNT: usize = if IS_BLOCKING { 15 } else { 4_500 };
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let room = usize::try_from(limit.maximum.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    // A lower descriptor limit of this process applies to the program too.
    let holder_count = HOLDER_COUNT.min(room.saturating_sub(500));
    let hold = |_| {
        let mut stream = TcpStream::connect(program.address()).unwrap();
        stream.write_all(b"G").unwrap();
        stream
    };
    let holders: Vec<TcpStream> = (0..holder_count).map(hold).collect();
    for _ in 0..5 {
        let mut client = TestClient::connect(program.address());
        let head = get("/");
        let (first, second) = head.split_at(20);
        client.send(first);
        // The server reads the head in two pieces.
        wait_until_read([&client]);
        client.send(second);
        assert_eq!(client.response().content, b"home");
    }
    drop(holders);
}

/// Sends requests and reads responses as fast as possible until the server exits.
fn flood(address: SocketAddr) {
    let mut writer = TcpStream::connect(address).unwrap();
    let mut reader = writer.try_clone().unwrap();
    let requests = get("/").repeat(1_000);
    thread::spawn(move || while writer.write_all(requests.as_bytes()).is_ok() {});
    thread::spawn(move || {
        let mut block = vec![0; 1 << 20];
        while let Ok(1..) = reader.read(&mut block) {}
    });
}
