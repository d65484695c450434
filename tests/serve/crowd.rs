//! More clients than the program has descriptors for: those that do not fit wait in the backlog, and no
//! processor time is spent on them.

use super::{IS_ONE_AT_A_TIME, serve};
use crate::{
    ENGINE,
    common::{
        client::{TestClient, get},
        program::{RunningProgram, without_user_change, wrap_command},
        site, wait_for,
    },
};
use rustix::process::{Resource, Rlimit, prlimit};
use std::{fs, thread, time::Duration};
use tarpon::Engine;

const CLIENT_COUNT: usize = 80;

/// Descriptors for all of a server. Where a worker has one connection, there are many workers, which have some of their own.
const LIMIT: &str = if IS_ONE_AT_A_TIME { "--nofile=100:100" } else { "--nofile=64:64" };

#[test]
fn clients_wait_their_turn_under_a_low_limit_on_open_files() {
    let dir = site(&[("index.html", "home")]);
    let command = wrap_command(&["prlimit", LIMIT], &serve(dir.path(), &["--workers", "1"]));
    crowd(&RunningProgram::start_ready(command));
}

#[test]
fn clients_wait_their_turn_when_accept_finds_no_descriptor() {
    let dir = site(&[("index.html", "home")]);
    let options = [&["--workers", "1"], without_user_change()].concat();
    let command = wrap_command(&["prlimit", LIMIT], &serve(dir.path(), &options));
    let program = RunningProgram::start_ready(command);
    // It reckons with the limit of its start, and io_uring with that of the moment when it began to accept: after a
    // first crowd, for which it stopped accepting, the kernel refuses before the worker does.
    crowd(&program);
    let held = fs::read_dir(format!("/proc/{}/fd", program.server().as_raw_nonzero())).unwrap().count();
    let limit = Some(held as u64 + 15);
    prlimit(Some(program.server()), Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    crowd(&program);
}

#[test]
fn clients_that_go_in_any_way_leave_nothing_behind() {
    let dir = site(&[("index.html", vec![b'h'; 500]), ("large", vec![b'l'; 8 << 20])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "2"]));
    for round in 0..50 {
        let mut clients: Vec<TestClient> = (0..8).map(|_| TestClient::connect(program.address())).collect();
        let [silent, ended, half, unread, half_read, garbage, many, refused] = clients.as_mut_slice() else {
            unreachable!("eight of them")
        };
        ended.shutdown_write();
        half.send("GET / HTTP/1.1\r\nHost: local");
        unread.send(get("/large"));
        half_read.send(get("/large"));
        assert_eq!(half_read.try_head().unwrap().status, 200);
        garbage.send(vec![round; 5_000]);
        many.send(get("/").repeat(40));
        refused.send("GET / HTTP/1.1\r\n\r\n".to_owned() + &get("/").repeat(500));
        if round % 2 == 0 {
            assert_eq!(refused.response().status, 400);
            assert_eq!(ended.read_to_end(), b"");
            silent.send(get("/dir?query"));
        }
    }
    wait_for("all clients have gone", || (program.connection_count() == 0).then_some(()));
    assert_eq!(TestClient::connect(program.address()).get("/").status, 200);
    assert_eq!(program.err(), "");
}

fn crowd(program: &RunningProgram) {
    let mut clients: Vec<TestClient> =
        (0..CLIENT_COUNT).map(|_| TestClient::connect(program.address())).collect();
    for client in &mut clients {
        client.send(get("/"));
    }
    wait_for("some clients are accepted", || (program.connection_count() > 10).then_some(()));
    let spent = program.cpu_ticks();
    thread::sleep(Duration::from_secs(1));
    let spent = program.cpu_ticks() - spent;
    assert!(spent < 20, "{spent} hundredths of a second spent in one");
    // Of several processes each has the limit for itself, and connections that gave way to others.
    if ENGINE != Engine::Prefork {
        assert!(program.connection_count() < CLIENT_COUNT, "not all of them fit");
    }
    for mut client in clients {
        // Those before it have gone.
        assert_eq!(client.response().content, b"home");
    }
    wait_for("all clients have gone", || (program.connection_count() == 0).then_some(()));
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
}
