//! A worker shares its time and buffers fairly between clients.

use super::{IS_BLOCKING, serve};
use crate::common::{
    client::{TestClient, get},
    program::{CPU_TICKS_PER_SECOND, RunningProgram},
    site,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

#[test]
fn flooding_clients_do_not_starve_another() {
    /// Responses per second of CPU time of the server, so that other load of the machine does not count. A server that drains
    /// a flood before it serves the next client sends fewer; a fair one sends thousands.
    const RESPONSE_COUNT_MIN: usize = 100;
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    for _ in 0..2 {
        flood(program.address());
    }
    let mut client = TestClient::connect(program.address());
    client.get("/");
    let (start, mut response_count) = (program.cpu_ticks(), 0);
    while program.cpu_ticks().saturating_sub(start) < CPU_TICKS_PER_SECOND {
        assert_eq!(client.get("/").content, b"home");
        response_count += 1;
    }
    assert!(response_count >= RESPONSE_COUNT_MIN, "{response_count} responses");
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
        thread::sleep(Duration::from_millis(50));
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
