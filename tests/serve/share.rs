//! That no client, and no crowd of them, takes the program for itself.

use super::{IS_ONE_AT_A_TIME, serve};
use crate::common::{
    client::{TestClient, get},
    program::RunningProgram,
    site,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

#[test]
fn a_client_that_floods_leaves_others_their_share() {
    /// Within a second. One that waits for each pause of the floods gets fewer, and on any machine it could have many
    /// more.
    const RESPONSE_COUNT_MIN: usize = 100;
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    for _ in 0..2 {
        flood(program.address());
    }
    let mut client = TestClient::connect(program.address());
    client.get("/");
    let since = Instant::now();
    let mut response_count = 0;
    while since.elapsed() < Duration::from_secs(1) {
        assert_eq!(client.get("/").content, b"home");
        response_count += 1;
    }
    assert!(response_count >= RESPONSE_COUNT_MIN, "{response_count} responses");
}

#[test]
fn heads_that_never_end_do_not_keep_another_from_being_read() {
    /// More than a worker has buffers for; but where each of them has a worker to itself, no more than there are.
    const HOLDER_COUNT: usize = if IS_ONE_AT_A_TIME { 15 } else { 4_500 };
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "1"]));
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let room = usize::try_from(limit.maximum.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    // Where fewer fit, they are no danger either: the program has no more descriptors than we.
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
        // It is read in two pieces.
        thread::sleep(Duration::from_millis(50));
        client.send(second);
        assert_eq!(client.response().content, b"home");
    }
    drop(holders);
}

/// Sends requests without end, and reads as fast as it can, until the server is gone.
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
