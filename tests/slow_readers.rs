//! More clients that never read their responses than a worker has buffers for, on every engine whose workers serve many connections: the
//! worker evicts some of them, and other clients get the same responses as without them.

use crate::common::{
    ENGINES, TEST_TIMEOUT,
    client::{TestClient, get},
    kernel::wait_until_read,
    program::{RunningProgram, serve, suspend},
    site, wait_for,
};
use rustix::{
    net::{AddressFamily, SocketType, connect, socket, sockopt},
    process::{Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit},
};
use std::net::{SocketAddr, TcpListener, TcpStream};
use tarpon::Engine;

/// Clients that request more than their connection takes, and never read. The worker holds two or three buffers for most of them.
const SLOW_COUNT: usize = 2_100;

/// The buffers of a worker. So many of these clients hold all, as each holds one at least.
const BUF_COUNT: usize = 4_096;

/// Redirects that each of them requests: all wait in the outbox, or more than it takes, so that the others wait in the inbox.
const REDIRECT_COUNTS: [usize; 2] = [2, 8];

/// How many of them begin before other clients have their turn.
const TURN: usize = 700;

/// Clients that send at once, and fit in one batch of events: fewer than would use up the reserve for heads.
const BURST: usize = 120;

/// What the kernel takes of a response for each client, in bytes. It doubles this.
const SEND_BUFFER_LEN: usize = 64 * 1024;

/// One in this many clients of the burst sends part of a head.
const HEAD_ONE_IN: usize = 8;

#[test]
fn slow_readers_take_no_response_from_other_clients() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the maximum");
    let dir = site(&[
        ("index.html", b"home".to_vec()),
        ("large", vec![b'l'; 8 << 20]),
        ("_redirects", b"/old/* /new/:splat 301\n".to_vec()),
    ]);
    let engines = ENGINES.iter().copied().filter(|engine| !engine.is_blocking());
    for (engine, redirect_count) in engines.flat_map(|engine| REDIRECT_COUNTS.map(|count| (engine, count))) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        // The kernel would take 256 KiB ahead of each of these clients, half a GiB in all. A small machine has less for TCP, and its other
        // connections would be reset.
        sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER_LEN).expect("a size");
        let listen = address.to_string();
        let options = ["--engine", engine.name(), "--workers", "1", "--listen", &listen];
        let program = RunningProgram::start_with_listener(&serve(dir.path(), &options), &listener);
        wait_for("the banner", || program.out().contains("Ctrl-C").then_some(()));
        drop(listener);
        let mut slow: Vec<TestClient> = Vec::new();
        // How many buffers each holds depends on when its bytes arrive: more clients begin until some are evicted.
        while slow.len() < SLOW_COUNT || (program.connection_count() >= slow.len() && slow.len() < BUF_COUNT)
        {
            let from = slow.len();
            slow.extend((0..TURN).map(|_| slow_client(address)));
            slow[from..].iter_mut().for_each(|client| stall(client, redirect_count));
            wait_until_read(&slow[from..]);
            others_get_their_responses(address, &format!("{engine}, {} slow readers", slow.len()));
        }
        let count = program.connection_count();
        assert!(count < slow.len(), "{engine} evicts some of {}", slow.len());
        assert!(
            count > slow.len() / 3,
            "{engine} evicts no more than it has to: {count} of {} are left",
            slow.len()
        );
        heads_in_a_burst_are_answered(&program, engine, redirect_count);
        others_get_their_responses(address, &format!("{engine}, after a burst"));
        assert_eq!(program.err(), "", "{engine}");
    }
}

/// Requests what needs a buffer of the worker.
fn others_get_their_responses(address: SocketAddr, when: &str) {
    assert_eq!(redirect(address), (301, Some("/new/page?q".to_owned())), "{when}");
    assert_eq!(range(address), (206, b"ome".to_vec()), "{when}");
    let mut client = TestClient::connect(address);
    client.send(PIECES[0]);
    wait_until_read([&client]);
    client.send(PIECES[1]);
    assert_eq!(client.response().content, b"home", "{when}");
}

/// Lets slow readers and clients that send part of a head do so in one batch of events, when the worker has no time to evict.
fn heads_in_a_burst_are_answered(program: &RunningProgram, engine: Engine, redirect_count: usize) {
    let mut clients: Vec<TestClient> = (0..BURST).map(|_| slow_client(program.address())).collect();
    wait_until_read(&clients);
    suspend(program.server());
    for (number, client) in clients.iter_mut().enumerate() {
        match number % HEAD_ONE_IN {
            0 => drop(client.send(PIECES[0])),
            _ => stall(client, redirect_count),
        }
    }
    kill_process(program.server(), Signal::CONT).expect("the server");
    wait_until_read(&clients);
    for client in clients.iter_mut().step_by(HEAD_ONE_IN) {
        assert!(client.send(PIECES[1]), "{engine} closes a connection with part of a head");
        assert_eq!(client.response().content, b"home", "{engine}");
    }
}

/// A head in two pieces. The connection holds a buffer between them.
const PIECES: [&str; 2] = ["GET / HTTP/1.1\r\nHo", "st: localhost\r\n\r\n"];

/// Returns a client whose kernel takes few bytes of a response.
fn slow_client(address: SocketAddr) -> TestClient {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    // The kernel raises this to its minimum.
    sockopt::set_socket_recv_buffer_size(&socket, 1).expect("a size");
    connect(&socket, &address).expect("a server that listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    TestClient::new(stream)
}

/// Requests a large file and then redirects, which need buffers of the worker.
fn stall(client: &mut TestClient, redirect_count: usize) {
    client.send(get("/large") + &get("/old/page?q").repeat(redirect_count));
}

fn redirect(address: SocketAddr) -> (u16, Option<String>) {
    let response = TestClient::connect(address).get("/old/page?q");
    (response.status, response.field("Location").map(str::to_owned))
}

fn range(address: SocketAddr) -> (u16, Vec<u8>) {
    let mut client = TestClient::connect(address);
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\nRange: bytes=1-\r\n\r\n");
    let response = client.response();
    (response.status, response.content)
}
