//! More clients than file descriptors: excess clients wait in the backlog and cost no CPU time.

use super::ENGINE;
use super::{IS_BLOCKING, serve};
use crate::common::{
    client::{TestClient, get},
    kernel::wait_until_asleep,
    program::{RunningProgram, without_user_change, wrap_command},
    site, wait_for,
};
use rustix::process::{Resource, Rlimit, prlimit};
use std::fs;
use tarpon::Engine;

const CLIENT_COUNT: usize = 80;

/// The descriptor limit of the server. A blocking engine has many workers, each with descriptors of its own.
const LIMIT: &str = if IS_BLOCKING { "--nofile=132:132" } else { "--nofile=64:64" };

#[test]
fn excess_clients_wait_under_a_low_descriptor_limit() {
    let dir = site(&[("index.html", "home")]);
    let command = wrap_command(&["prlimit", LIMIT], &serve(dir.path(), &["--workers", "1"]));
    connect_excess_clients(&RunningProgram::start_ready(command));
}

#[test]
fn excess_clients_wait_when_accept_fails_with_emfile() {
    let dir = site(&[("index.html", "home")]);
    let options = [&["--workers", "1"], without_user_change()].concat();
    let command = wrap_command(&["prlimit", LIMIT], &serve(dir.path(), &options));
    let program = RunningProgram::start_ready(command);
    // The worker uses the limit from its start; io_uring uses the limit from the start of an accept operation. The first
    // load makes the worker pause accepting, so that the kernel refuses a later accept before the worker does.
    connect_excess_clients(&program);
    let open = fs::read_dir(format!("/proc/{}/fd", program.server().as_raw_nonzero())).unwrap().count();
    let limit = Some(open as u64 + 15);
    prlimit(Some(program.server()), Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    connect_excess_clients(&program);
}

#[test]
fn disconnected_clients_leave_no_connection_open() {
    let dir = site(&[("index.html", vec![b'h'; 500]), ("large", vec![b'l'; 8 << 20])]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--workers", "2"]));
    for round in 0..50 {
        let mut clients: Vec<TestClient> = (0..8).map(|_| TestClient::connect(program.address())).collect();
        let [silent, shut_down, half, unread, half_read, garbage, many, rejected] = clients.as_mut_slice()
        else {
            unreachable!("eight clients")
        };
        shut_down.shutdown_write();
        half.send("GET / HTTP/1.1\r\nHost: local");
        unread.send(get("/large"));
        half_read.send(get("/large"));
        assert_eq!(half_read.try_head().unwrap().status, 200);
        garbage.send(vec![round; 5_000]);
        many.send(get("/").repeat(40));
        rejected.send("GET / HTTP/1.1\r\n\r\n".to_owned() + &get("/").repeat(500));
        if round % 2 == 0 {
            assert_eq!(rejected.response().status, 400);
            assert_eq!(shut_down.read_to_end(), b"");
            silent.send(get("/dir?query"));
        }
    }
    wait_for("all connections are closed", || (program.connection_count() == 0).then_some(()));
    assert_eq!(TestClient::connect(program.address()).get("/").status, 200);
    assert_eq!(program.err(), "");
}

fn connect_excess_clients(program: &RunningProgram) {
    let mut clients: Vec<TestClient> =
        (0..CLIENT_COUNT).map(|_| TestClient::connect(program.address())).collect();
    for client in &mut clients {
        client.send(get("/"));
    }
    wait_for("accepted clients", || (program.connection_count() > 10).then_some(()));
    // `accepting_pauses_until_the_back_off_expires_or_a_connection_closes` shows for how long.
    wait_until_asleep("the server sleeps while clients wait", || program.processes());
    // With prefork, each process has the limit for itself, and evicted connections that linger still count.
    if ENGINE != Engine::Prefork {
        assert!(program.connection_count() < CLIENT_COUNT, "no client waits");
    }
    for mut client in clients {
        // The clients before this one have disconnected.
        assert_eq!(client.response().content, b"home");
    }
    wait_for("all connections are closed", || (program.connection_count() == 0).then_some(()));
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
}
