//! Clients that do valid and invalid things at random while the test swaps sites, and clients that hold the memory of a server.
//!
//! The test compares each complete response with the file of its entity tag. In the end the server has closed all descriptors and unmapped
//! all images.
//!
//! `STRESS_SEED` seeds the random numbers (1), `STRESS_SECONDS` is the time for each engine and seed (1). `TARPON_SEEDS_FACTOR` is the
//! number of seeds (1).

use crate::common::{
    EMBEDDED, TEST_TIMEOUT,
    client::{Response, TestClient, get},
    distinct_bytes,
    kernel::wait_until_read,
    load::SetOnDrop,
    seeds_factor,
    server::{EmbeddedServer, settings},
    site, wait_for,
};
use rustix::{
    io::retry_on_intr,
    net::{
        AddressFamily, RecvFlags, SocketType, connect, listen, recv, socket,
        sockopt::{set_socket_linger, set_socket_recv_buffer_size},
    },
};
use std::{
    collections::HashMap,
    env, fs, io,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
    time::{Duration, Instant},
};
use tarpon::{Engine, Server, Site};

#[test]
fn random_clients_get_correct_responses_and_leak_nothing() {
    let _running = one_test_at_a_time();
    let number = |name, default| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (seed, seconds) = (number("STRESS_SEED", 1), number("STRESS_SECONDS", 1));
    for seed in seed..seed + seeds_factor() as u64 {
        for &engine in EMBEDDED {
            let stressed =
                catch_unwind(AssertUnwindSafe(|| stress(engine, seed, Duration::from_secs(seconds))));
            if let Err(panic) = stressed {
                eprintln!("{engine}, STRESS_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
}

#[test]
fn head_is_parsed_wherever_the_pieces_of_the_input_end() {
    let _running = one_test_at_a_time();
    let dir = site(&[("index.html", "home")]);
    for &engine in EMBEDDED {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        // With a first piece of this length, no later piece ends at the end of a buffer.
        for (first, len) in [(100, 15_900), (1, 16_300), (1_000, 16_384), (333, 16_000)] {
            let mut client = TestClient::connect(served.address);
            let padding = "p".repeat(len - 47);
            let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nPadding: {padding}\r\n\r\n");
            let all = [long.as_str(), &get("/"), &get("/missing")].concat();
            client.send(&all[..first]);
            wait_until_read([&client]);
            client.send(&all[first..]);
            let statuses = [(); 3].map(|()| client.response().status);
            assert_eq!(statuses, [200, 200, 404], "{engine}, {first} of {len}");
        }
        for piece_len in [777, 1_000, 3_000] {
            let mut client = TestClient::connect(served.address);
            let endless = format!("GET / HTTP/1.1\r\nPadding: {}", "p".repeat(40_000));
            for piece in endless.as_bytes().chunks(piece_len) {
                if !client.send(piece) {
                    break;
                }
                wait_until_read([&client]);
            }
            assert_eq!(client.response().status, 431, "{engine}, {piece_len} bytes at a time");
        }
    }
}

#[test]
fn unread_responses_leave_memory_for_other_clients() {
    const GREEDY_COUNT: usize = 300;
    let _running = one_test_at_a_time();
    let dir = site(&[("index.html", vec![b'x'; 10]), ("large", vec![b'x'; 8 << 20])]);
    // A worker with one connection shares no buffers.
    for &engine in EMBEDDED.iter().filter(|engine| !engine.is_blocking()) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // With room for all clients, no connection waits for a SYN that is sent again.
        listen(&listener, GREEDY_COUNT as i32).unwrap();
        let served = EmbeddedServer::dir_on(listener, &settings(engine, 1), dir.path());
        let requests = get("/large").repeat(3_000);
        let greedy: Vec<TcpStream> = (0..GREEDY_COUNT)
            .map(|_| {
                let mut stream = small_window(served.address, 4096).unwrap();
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(requests.as_bytes());
                stream
            })
            .collect();
        // A client receives the first bytes after the server has read as many of its requests as it holds.
        for client in &greedy {
            client.set_nonblocking(false).unwrap();
            client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            let (received, _) = retry_on_intr(|| recv(client, &mut [0][..], RecvFlags::PEEK)).unwrap();
            assert_eq!(received, 1, "{engine}");
        }
        let mut others: Vec<TestClient> = (0..20).map(|_| TestClient::connect(served.address)).collect();
        for client in &mut others {
            assert!(client.send("GET / HTTP/1.1\r\n"));
        }
        wait_until_read(&others);
        for client in &mut others {
            client.send("Host: localhost\r\n\r\n");
            assert_eq!(client.response().status, 200, "{engine}");
        }
        drop(greedy);
        served.stop().unwrap();
    }
}

/// Names and lengths. The server copies the shortest files into the response, gathers longer ones, and sends the longest from the
/// descriptor of the image or of the file.
const FILES: [(&str, usize); 6] = [
    ("tiny", 1),
    ("small", 3_000),
    ("middle", 12_000),
    ("big", 60_000),
    ("large", 300_000),
    ("huge", 3 << 20),
];

const CLIENT_COUNT: usize = 24;

fn stress(engine: Engine, seed: u64, time: Duration) {
    let before = descriptors();
    let versions = [1, 2].map(|version: u8| {
        site(&FILES.map(|(name, len)| {
            (name, distinct_bytes(len).iter().map(|byte| byte ^ version).collect::<Vec<_>>())
        }))
    });
    let known = versions.iter().flat_map(|dir| {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        let mut client = TestClient::connect(served.address);
        FILES.map(|(name, len)| {
            let response = client.get(&format!("/{name}"));
            assert_eq!((response.status, response.content.len()), (200, len));
            let tag = response.field("ETag").expect("a tag").to_owned();
            ((name, tag), response.content)
        })
    });
    let known: HashMap<(&str, String), Vec<u8>> = known.collect();
    assert_eq!(known.len(), 2 * FILES.len());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let first = Site::from_dir(versions[0].path()).unwrap();
    let server = Server::start(&settings(engine, 2), vec![listener.try_into().unwrap()], first).unwrap();
    let handle = server.handle();
    let (stopping, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let complete_count = AtomicUsize::new(0);
    thread::scope(|scope| {
        let _stops = SetOnDrop(&done);
        for client in 0..CLIENT_COUNT as u64 {
            let random = StressRandom(seed << 32 | client << 8);
            let (known, stopping, done, complete_count) = (&known, &stopping, &done, &complete_count);
            let mut visitor = Visitor { address, random, known, stopping, complete_count };
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    visitor.visit();
                }
            });
        }
        let until = Instant::now() + time;
        for swap in 1.. {
            handle.swap(Site::from_dir(versions[swap % 2].path()).unwrap());
            let before = complete_count.load(Ordering::Relaxed);
            wait_for("a response", || (complete_count.load(Ordering::Relaxed) > before).then_some(()));
            // On a busy machine the time may pass before the clients have so many responses.
            if Instant::now() >= until && before > CLIENT_COUNT {
                break;
            }
        }
        // The server stops while all clients are active.
        stopping.store(true, Ordering::SeqCst);
        handle.stop(Duration::from_millis(200));
        let (send, ended) = channel();
        thread::spawn(move || send.send(server.join()));
        let ended = ended.recv_timeout(TEST_TIMEOUT);
        done.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|_| panic!("{engine}: the server does not stop")).unwrap();
    });
    drop(handle);
    drop(versions);
    // The threads of the loader end after the server, also those of the server before this one.
    wait_for(&format!("{engine} closes all descriptors but {before:?}: {:?}", descriptors()), || {
        let mut now = descriptors();
        for known in &before {
            now.iter().position(|name| name == known).map(|at| now.swap_remove(at));
        }
        now.is_empty().then_some(())
    });
    wait_for(&format!("{engine} unmaps all images"), || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        (!maps.contains("memfd:tarpon-image")).then_some(())
    });
}

/// A client that connects, does something at random and disconnects.
struct Visitor<'a> {
    address: SocketAddr,
    random: StressRandom,
    /// Content by name and entity tag.
    known: &'a HashMap<(&'static str, String), Vec<u8>>,
    /// From here on a connection may end at any time.
    stopping: &'a AtomicBool,
    complete_count: &'a AtomicUsize,
}

impl Visitor<'_> {
    fn visit(&mut self) {
        let window = [0, 0, 0, 1, 2_000, 50_000][self.random.below(6)];
        let Some(stream) = self.stream(window) else { return thread::yield_now() };
        if self.random.below(3) == 0 {
            // The client closes with a reset.
            set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
        let mut raw = stream.try_clone().unwrap();
        let mut client = TestClient::new(stream);
        match self.random.below(9) {
            0 | 1 => {
                let count = 1 + self.random.below(60);
                self.burst(&mut client, count);
            }
            2 => {
                let names = self.names(9);
                client.send(requests(&names));
                client.shutdown_write();
                self.expect(&mut client, &names);
                let rest = client.try_read_to_end();
                assert!(rest.as_ref().is_ok_and(Vec::is_empty) || self.is_stopping(), "{rest:?}");
            }
            3 => {
                let name = FILES[self.random.below(6)].0;
                for byte in get(&format!("/{name}")).as_bytes().chunks(1 + self.random.below(40)) {
                    client.send(byte);
                }
                self.expect(&mut client, &[name]);
            }
            4 => {
                let request = get("/tiny");
                client.send(&request[..self.random.below(request.len())]);
                self.burst(&mut client, 0);
            }
            5 => {
                // Reads a part in small pieces, and disconnects.
                let names = self.names(20);
                client.send(requests(&names) + &get("/huge"));
                for _ in 0..self.random.below(10) {
                    let mut some = vec![0; 1 + self.random.below(40_000)];
                    if !matches!(raw.read(&mut some), Ok(1..)) {
                        assert!(self.is_stopping(), "the server serves a slow client");
                    }
                }
            }
            6 => {
                let garbage: Vec<u8> =
                    (0..self.random.below(20_000)).map(|_| self.random.next() as u8).collect();
                client.send(&garbage);
                client.shutdown_write();
                // The server refuses the garbage, or resets the connection for bytes after the end.
                let _ = client.try_read_to_end();
            }
            7 => {
                let content = vec![b'c'; self.random.below(100_000)];
                client.send(format!(
                    "POST /tiny HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                    content.len()
                ));
                client.send(&content);
                match client.try_response() {
                    Ok(response) => assert_eq!(response.status, 405),
                    Err(error) => assert!(self.is_stopping(), "{error}"),
                }
                self.burst(&mut client, 2);
            }
            // Connects and disconnects.
            _ => {}
        }
    }

    /// Sends `count` requests at once, and reads all responses.
    fn burst(&mut self, client: &mut TestClient, count: usize) {
        let names = self.names(count);
        client.send(requests(&names));
        self.expect(client, &names);
    }

    /// Reads the responses to requests for these files, in this order.
    fn expect(&mut self, client: &mut TestClient, names: &[&'static str]) {
        for name in names {
            match client.try_response() {
                Ok(response) => self.check(name, &response),
                Err(error) => return assert!(self.is_stopping(), "{name}: {error}"),
            }
        }
    }

    fn check(&self, name: &'static str, response: &Response) {
        assert_eq!(response.status, 200, "{name}: {}", response.head);
        let tag = response.field("ETag").expect("a tag").to_owned();
        let content = self.known.get(&(name, tag)).expect("a tag of this file");
        assert!(response.content == *content, "{name} has other content than its tag");
        self.complete_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns random names, small files more often.
    fn names(&mut self, count: usize) -> Vec<&'static str> {
        let mut name = || FILES[self.random.below(6).min(self.random.below(6))].0;
        (0..count).map(|_| name()).collect()
    }

    /// Connects, unless the server is stopping.
    fn stream(&mut self, window: usize) -> Option<TcpStream> {
        let connected = match window {
            0 => TcpStream::connect(self.address),
            len => small_window(self.address, len),
        };
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => {
                assert!(self.is_stopping(), "{error}");
                return None;
            }
        };
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        Some(stream)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

fn requests(names: &[&str]) -> String {
    names.iter().map(|name| get(&format!("/{name}"))).collect()
}

/// Connects with a small receive buffer.
fn small_window(address: SocketAddr, len: usize) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    set_socket_recv_buffer_size(&socket, len)?;
    connect(&socket, &address)?;
    Ok(socket.into())
}

/// The tests of this file count descriptors of the whole process, so they run one after another.
fn one_test_at_a_time() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what each descriptor of this process refers to, without the numbers of the descriptors.
fn descriptors() -> Vec<String> {
    let names =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mut names: Vec<String> = names.map(|name| name.display().to_string()).collect();
    names.retain(|name| !name.starts_with("/proc/"));
    names.sort();
    names
}

/// Pseudo-random numbers: SplitMix64.
struct StressRandom(u64);

impl StressRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
