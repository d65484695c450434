//! Hundreds and thousands of handshakes at once, on every engine whose workers serve many connections: a request is answered before most
//! of them, all complete, clients that stop in their handshake are closed at its timeout, and a connection takes little memory.

use crate::common::{
    ENGINES,
    client::{TestClient, connected, get},
    kernel::private_len,
    program::{RunningProgram, serve_config, suspend},
    site,
    tls_files::TlsFiles,
    tls_stream::TlsStream,
    wait_for,
};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, EventData, EventFlags},
    process::{Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit},
};
use rustls::version::TLS13;
use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    os::fd::OwnedFd,
};
use tarpon::Engine;
use tempfile::TempDir;

#[test]
fn hundreds_of_handshakes_at_once() {
    engines().for_each(|engine| HandshakeStorm::start(engine, "60s").pass(300, 0));
}

#[test]
#[ignore = "soak: thousands of handshakes"]
fn thousands_of_handshakes_at_once() {
    engines().for_each(|engine| HandshakeStorm::start(engine, "60s").pass(5_000, 20));
}

/// The limit for a connection whose handshake waits for its turn, in bytes: a ClientHello, the state of rustls, and the first answer.
const WAITING_LEN_MAX: usize = 32 << 10;

/// The limit for a connection after the storm, in bytes: less than a buffer, which has 17 KiB.
const IDLE_LEN_MAX: usize = 16 << 10;

/// A server with one worker, a listener with TLS and one without.
struct HandshakeStorm {
    engine: Engine,
    files: TlsFiles,
    program: RunningProgram,
    _site: TempDir,
}

impl HandshakeStorm {
    fn start(engine: Engine, header_timeout: &str) -> HandshakeStorm {
        let (files, site) = (TlsFiles::new(), site(&[("index.html", "home")]));
        files.issue("a", &["localhost"]);
        let config = format!(
            "[[site]]\npath = {:?}\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n[[listener]]\naddress = \"127.0.0.2:0\"\n\
             [server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n",
            site.path()
        );
        let options = ["--engine", engine.name(), "--workers", "1", "--header-timeout", header_timeout];
        let program = RunningProgram::start_ready(serve_config(&config, files.path(), &options));
        HandshakeStorm { engine, files, program, _site: site }
    }

    /// `count` clients shake hands, and others stop in their handshake.
    fn pass(self, count: usize, stopped_count: usize) {
        let HandshakeStorm { engine, files, program, .. } = &self;
        let [tls, plain]: [SocketAddr; 2] = program.addresses().try_into().expect("two listeners");
        let config = files.client(&TLS13);
        let begin = || TlsStream::begin(connected(tls), &config);
        // The first connection takes memory that the others share.
        TlsStream::new(connected(tls), &config).expect("a handshake");
        TestClient::connect(plain).get("/");
        wait_for("the end of these connections", || (program.connection_count() == 0).then_some(()));
        let before = private_len(program.server());
        let len_of_each = || private_len(program.server()).saturating_sub(before) / count;

        let mut clients: Vec<_> = (0..count).map(|_| begin()).collect();
        let stopped: Vec<_> = (0..stopped_count)
            .map(|_| {
                let mut client = begin();
                let flight = client.flight();
                client.socket.write_all(&flight[..flight.len() / 2]).expect("room in the socket");
                TestClient::new(client.socket)
            })
            .collect();
        wait_for("connections", || (program.connection_count() == count + stopped_count).then_some(()));
        suspend(program.server());
        for client in &mut clients {
            let flight = client.flight();
            client.socket.write_all(&flight).expect("room in the socket");
        }
        let mut late = connected(plain);
        late.write_all(get("/").as_bytes()).expect("room in the socket");
        let order = ReadyOrder::watch(clients.iter().map(|client| &client.socket).chain([&late]));
        kill_process(program.server(), Signal::CONT).expect("the server");
        let earlier = order.count_before(count);
        let waiting_len = len_of_each();
        println!(
            "{engine}: {earlier} of {count} handshakes came before the request; {waiting_len} bytes for each"
        );
        assert!(earlier < count / 2, "{engine}: {earlier} of {count} handshakes came before the request");
        assert!(waiting_len <= WAITING_LEN_MAX, "{engine}: {waiting_len} bytes for each waiting connection");

        let mut served: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                client.shake_hands().unwrap_or_else(|error| panic!("{engine}: {error}"));
                TestClient::new(client)
            })
            .collect();
        for client in &mut served {
            assert_eq!(client.get("/").content, b"home", "{engine}");
        }
        let idle_len = len_of_each();
        println!("{engine}: {idle_len} bytes for each afterwards");
        assert!(idle_len <= IDLE_LEN_MAX, "{engine}: {idle_len} bytes for each idle connection");
        for mut client in stopped {
            client.read_to_end();
        }
        drop(served);
        wait_for("the end of all connections", || (program.connection_count() <= 1).then_some(()));
    }
}

/// The order in which sockets become readable.
struct ReadyOrder(OwnedFd);

impl ReadyOrder {
    fn watch<'a>(sockets: impl Iterator<Item = &'a TcpStream>) -> ReadyOrder {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
        for (number, socket) in sockets.enumerate() {
            let flags = EventFlags::IN | EventFlags::ONESHOT;
            epoll::add(&poll, socket, EventData::new_u64(number as u64), flags).expect("room for an event");
        }
        ReadyOrder(poll)
    }

    /// Waits for a socket, by its number. Returns how many others came before.
    fn count_before(self, socket: usize) -> usize {
        let mut before = 0;
        let mut events = Vec::with_capacity(1);
        loop {
            events.clear();
            epoll::wait(&self.0, spare_capacity(&mut events), None).expect("events");
            match events.iter().any(|event| event.data.u64() == socket as u64) {
                true => return before,
                false => before += events.len(),
            }
        }
    }
}

/// Returns the engines with event loops, with room for all sockets of a test.
fn engines() -> impl Iterator<Item = Engine> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the maximum");
    ENGINES.iter().copied().filter(|engine| !engine.is_blocking())
}
