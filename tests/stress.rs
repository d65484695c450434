//! A crowd that does at random what clients do and what they should not, while sites are swapped; and what a crowd may
//! do to the memory of a server.
//!
//! Every response that arrives whole is compared with the file it claims to be, by its entity tag. At the end nothing
//! may be left: no descriptor, no image.
//!
//! `STRESS_SEED` begins another run of chance, `STRESS_SECONDS` is how long each engine is stressed (1).

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    EMBEDDED, TEST_TIMEOUT,
    client::{Response, TestClient, get},
    distinct_bytes,
    server::{EmbeddedServer, settings},
    site,
};
use rustix::net::{
    AddressFamily, SocketType, connect, socket,
    sockopt::{set_socket_linger, set_socket_recv_buffer_size},
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
    },
    thread,
    time::{Duration, Instant},
};
use tarpon::{Engine, Server, Site};

#[test]
fn a_crowd_of_all_sorts_gets_what_is_right_and_leaves_nothing_behind() {
    let _alone = alone();
    let number = |name, default| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (seed, seconds) = (number("STRESS_SEED", 1), number("STRESS_SECONDS", 1));
    for &engine in EMBEDDED {
        let stressed = catch_unwind(AssertUnwindSafe(|| stress(engine, seed, Duration::from_secs(seconds))));
        if let Err(panic) = stressed {
            eprintln!("{engine}, STRESS_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

#[test]
fn a_head_is_understood_however_it_lies_in_what_arrives() {
    let _alone = alone();
    let dir = site(&[("index.html", "home")]);
    for &engine in EMBEDDED {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        // The first piece is such that no later piece ends where a buffer does.
        for (first, len) in [(100, 15_900), (1, 16_300), (1_000, 16_384), (333, 16_000)] {
            let mut client = TestClient::connect(served.address);
            let padding = "p".repeat(len - 47);
            let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nPadding: {padding}\r\n\r\n");
            let all = [long.as_str(), &get("/"), &get("/missing")].concat();
            client.send(&all[..first]);
            // Long enough that it arrives by itself.
            thread::sleep(Duration::from_millis(20));
            client.send(&all[first..]);
            let since = Instant::now();
            let statuses = [(); 3].map(|()| client.response().status);
            assert_eq!(statuses, [200, 200, 404], "{engine}, {first} of {len}");
            assert!(since.elapsed() < TEST_TIMEOUT / 2);
        }
        for piece_len in [777, 1_000, 3_000] {
            let mut client = TestClient::connect(served.address);
            let endless = format!("GET / HTTP/1.1\r\nPadding: {}", "p".repeat(40_000));
            for piece in endless.as_bytes().chunks(piece_len) {
                if !client.send(piece) {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            let since = Instant::now();
            assert_eq!(client.response().status, 431, "{engine}, {piece_len} bytes at a time");
            assert!(since.elapsed() < TEST_TIMEOUT / 2);
        }
    }
}

#[test]
fn clients_that_ask_for_much_and_take_nothing_leave_memory_for_others() {
    const GREEDY_COUNT: usize = 300;
    let _alone = alone();
    let dir = site(&[("index.html", vec![b'x'; 10]), ("large", vec![b'x'; 8 << 20])]);
    // Workers with one connection each share no buffers.
    for &engine in EMBEDDED.iter().filter(|engine| !engine.is_blocking()) {
        let served = EmbeddedServer::dir(&settings(engine, 1), dir.path());
        let requests = get("/large").repeat(3_000);
        let greedy: Vec<TcpStream> = (0..GREEDY_COUNT)
            .map(|_| {
                let mut stream = small_window(served.address, 4096).unwrap();
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(requests.as_bytes());
                stream
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        let mut others: Vec<TestClient> = (0..20).map(|_| TestClient::connect(served.address)).collect();
        for client in &mut others {
            assert!(client.send("GET / HTTP/1.1\r\n"));
        }
        thread::sleep(Duration::from_millis(50));
        for client in &mut others {
            client.send("Host: localhost\r\n\r\n");
            assert_eq!(client.response().status, 200, "{engine}");
        }
        drop(greedy);
        served.stop().unwrap();
    }
}

/// Names and lengths: copied, gathered, from the image's descriptor, and from a file of its own.
const FILES: [(&str, usize); 6] = [
    ("tiny", 1),
    ("small", 3_000),
    ("middle", 12_000),
    ("stretch", 60_000),
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
    let (stopping, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let whole_count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for client in 0..CLIENT_COUNT as u64 {
            let random = Random(seed << 32 | client << 8);
            let (known, stopping, over, whole_count) = (&known, &stopping, &over, &whole_count);
            let mut visitor = Visitor { address, random, known, stopping, whole_count };
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    visitor.visit();
                }
            });
        }
        let until = Instant::now() + time;
        for swap in 1.. {
            handle.swap(Site::from_dir(versions[swap % 2].path()).unwrap());
            thread::sleep(Duration::from_millis(3));
            if Instant::now() >= until {
                break;
            }
        }
        // Stopped in the middle of it all.
        stopping.store(true, Ordering::SeqCst);
        handle.stop(Duration::from_millis(200));
        let since = Instant::now();
        let server = thread::spawn(|| server.join());
        while !server.is_finished() && since.elapsed() < TEST_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        over.store(true, Ordering::Relaxed);
        assert!(server.is_finished(), "{engine}: it does not stop");
        server.join().unwrap().unwrap();
    });
    drop(handle);
    assert!(whole_count.load(Ordering::Relaxed) > CLIENT_COUNT, "{engine}: there was a crowd");
    drop(versions);
    assert_eq!(descriptors(), before, "{engine}");
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert_eq!(maps.matches("memfd:tarpon-image").count(), 0, "{engine}");
}

/// One of the crowd. It comes, does something, and goes.
struct Visitor<'a> {
    address: SocketAddr,
    random: Random,
    /// Content by name and entity tag.
    known: &'a HashMap<(&'static str, String), Vec<u8>>,
    /// From here on a connection may end at any time.
    stopping: &'a AtomicBool,
    whole_count: &'a AtomicUsize,
}

impl Visitor<'_> {
    fn visit(&mut self) {
        let window = [0, 0, 0, 1, 2_000, 50_000][self.random.below(6)];
        let Some(stream) = self.stream(window) else { return thread::sleep(Duration::from_millis(1)) };
        if self.random.below(3) == 0 {
            // It goes with a reset.
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
                // Takes something of it, slowly, and goes.
                let names = self.names(20);
                client.send(requests(&names) + &get("/huge"));
                for _ in 0..self.random.below(10) {
                    let mut some = vec![0; 1 + self.random.below(40_000)];
                    if !matches!(raw.read(&mut some), Ok(1..)) {
                        assert!(self.is_stopping(), "a slow client is served too");
                    }
                    thread::sleep(Duration::from_millis(self.random.below(3) as u64));
                }
            }
            6 => {
                let garbage: Vec<u8> =
                    (0..self.random.below(20_000)).map(|_| self.random.next() as u8).collect();
                client.send(&garbage);
                client.shutdown_write();
                // Refused, or reset for bytes that come after the end.
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
            // Connects and leaves.
            _ => {}
        }
    }

    /// Asks for so many at once, and reads them all.
    fn burst(&mut self, client: &mut TestClient, count: usize) {
        let names = self.names(count);
        client.send(requests(&names));
        self.expect(client, &names);
    }

    /// Reads the responses to these, in this order.
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
        assert!(response.content == *content, "{name} is not what its tag says");
        self.whole_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Small ones more often.
    fn names(&mut self, count: usize) -> Vec<&'static str> {
        let mut name = || FILES[self.random.below(6).min(self.random.below(6))].0;
        (0..count).map(|_| name()).collect()
    }

    /// Not, if the server has ended.
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

/// A connection that takes little at a time.
fn small_window(address: SocketAddr, len: usize) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    set_socket_recv_buffer_size(&socket, len)?;
    connect(&socket, &address)?;
    Ok(socket.into())
}

/// The tests of this file look at the whole process: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What each descriptor of this process is, without the numbers that the kernel gave.
fn descriptors() -> Vec<String> {
    let names =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mut names: Vec<String> = names.map(|name| name.display().to_string()).collect();
    names.retain(|name| !name.starts_with("/proc/"));
    names.sort();
    names
}

/// Chance that repeats itself: SplitMix64.
struct Random(u64);

impl Random {
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
