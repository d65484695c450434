//! Clients that stop, close or reset at each step of a handshake and of a response.

use super::{AttackedServer, VERSIONS};
use crate::common::{
    ENGINES,
    client::get,
    client_hello::{ClientHello, PADDING},
    is_disconnect,
    load::pause,
    tls_stream::TlsStream,
};
use rustix::net::sockopt::set_socket_linger;
use rustls::ProtocolVersion;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

/// The timeout under test, in seconds: long enough for each step of a client on a busy machine.
const TIMEOUT_S: u64 = 4;

/// A timeout may begin earlier than a test by this time: a worker reads the clock when it wakes up.
const CLOCK_MS: u64 = 50;

/// How far a client goes, and whether its handshake is complete then.
type ClientStep = (&'static str, fn(&mut TlsStream<TcpStream>) -> io::Result<()>, bool);

#[rustfmt::skip]
const STEPS: &[ClientStep] = &[
    ("connected",               |_| Ok(()),                                                     false),
    ("a byte",                  |client| send_flight(client, |_| 1),                            false),
    ("half a header",           |client| send_flight(client, |_| 3),                            false),
    ("a header",                |client| send_flight(client, |_| 5),                            false),
    ("half a ClientHello",      |client| send_flight(client, |len| len / 2),                    false),
    ("all but a byte",          |client| send_flight(client, |len| len - 1),                    false),
    ("a ClientHello",           |client| send_flight(client, |len| len),                        false),
    ("ten bytes of the answer", |client| { send_flight(client, |len| len)?; client.socket.read_exact(&mut [0; 10]) }, false),
    ("the answer",              receive_flight,                                                 false),
    ("half a last flight",      |client| { receive_flight(client)?; send_flight(client, |len| len / 2) }, false),
    ("all but a byte of it",    |client| { receive_flight(client)?; send_flight(client, |len| len - 1) }, false),
    ("a handshake",             TlsStream::shake_hands,                                         true),
    ("half a record",           |client| { client.shake_hands()?; client.conn.writer().write_all(b"GET / HT")?; send_flight(client, |len| len / 2) }, true),
];

/// Steps behind the deadline of a head.
#[rustfmt::skip]
const LATER_STEPS: &[ClientStep] = &[
    ("half a request",  |client| { client.shake_hands()?; client.write_all(b"GET / HTTP/1.1\r\nHo") },        true),
    ("a large request", |client| { client.shake_hands()?; client.write_all(get("/large").as_bytes()) },       true),
    ("half a response", |client| { client.shake_hands()?; client.write_all(get("/large").as_bytes())?; client.read_exact(&mut vec![0; 1 << 20]) }, true),
];

/// Sends the first bytes of the next flight: as many as `part` takes of its length.
fn send_flight(client: &mut TlsStream<TcpStream>, part: fn(usize) -> usize) -> io::Result<()> {
    let flight = client.flight();
    client.socket.write_all(&flight[..part(flight.len())])
}

/// Receives the flight of the server, and sends no answer.
fn receive_flight(client: &mut TlsStream<TcpStream>) -> io::Result<()> {
    send_flight(client, |len| len)?;
    // With TLS 1.3, the last flight is the client's.
    while client.conn.is_handshaking()
        && !(client.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2) && client.conn.wants_write())
    {
        client.conn.read_tls(&mut client.socket)?;
        client.conn.process_new_packets().map_err(io::Error::other)?;
    }
    Ok(())
}

#[test]
fn header_timeout_ends_handshakes_at_each_step() {
    thread::scope(|scope| {
        for &engine in ENGINES {
            scope.spawn(move || time_out_at_each_step(engine));
        }
    });
}

fn time_out_at_each_step(engine: Engine) {
    let target = AttackedServer::start(engine, &["--header-timeout", &format!("{TIMEOUT_S}s")]);
    let descriptors = target.descriptors();
    let (before, since) = (target.files.counts(), Instant::now());
    let mut clients = Vec::new();
    for (version, (version_name, _)) in VERSIONS.iter().enumerate() {
        for (name, go, _) in STEPS {
            let mut client = target.begin(version);
            go(&mut client).unwrap_or_else(|error| panic!("{engine}, {version_name}, {name}: {error}"));
            clients.push((name, client));
        }
    }
    // A client that sends a byte from time to time.
    let mut drip = target.connect();
    let hello = ClientHello::new().with(PADDING, vec![0; 15_000]).records(1 << 14);
    let sent = hello.iter().take_while(|byte| {
        pause();
        drip.write_all(&[**byte]).is_ok()
    });
    let sent_count = sent.count();
    assert!(sent_count < hello.len(), "{engine}: bytes of a handshake put its end off");
    for (name, mut client) in clients {
        let end = io::copy(&mut client.socket, &mut io::sink());
        end.unwrap_or_else(|error| panic!("{engine}, {name}: {error}"));
    }
    let elapsed = since.elapsed();
    assert!(elapsed >= Duration::from_millis(TIMEOUT_S * 1000 - CLOCK_MS), "{engine}: {elapsed:?}");
    let complete = STEPS.iter().filter(|(.., is_complete)| *is_complete).count() as u64;
    target.wait_for_counts("time-outs", before, [2 * complete, 0]);
    target.end(descriptors);
}

/// How a client ends.
#[derive(Clone, Copy, Debug)]
enum Way {
    Close,
    HalfClose,
    Reset,
}

#[test]
fn clients_may_end_at_each_step() {
    for &engine in ENGINES {
        let target = AttackedServer::start(engine, &[]);
        target.serves_others("the start");
        let descriptors = target.descriptors();
        for (name, go, is_complete) in STEPS.iter().chain(LATER_STEPS) {
            for way in [Way::Close, Way::HalfClose, Way::Reset] {
                let before = target.files.counts();
                for version in 0..VERSIONS.len() {
                    let mut client = target.begin(version);
                    go(&mut client).unwrap_or_else(|error| panic!("{engine}, {name}: {error}"));
                    if *is_complete {
                        // A reset, as by a client that closes before it has read the tickets, may overtake its last flight.
                        target.wait_for_counts(name, before, [version as u64 + 1, 0]);
                    }
                    end(client.socket, way);
                }
                let what = format!("{name}, {way:?}");
                target.serves_others(&what);
                let complete = if *is_complete { 2 } else { 0 };
                target.wait_for_counts(&what, before, [1 + complete, 0]);
            }
        }
        target.end(descriptors);
    }
}

fn end(mut socket: TcpStream, way: Way) {
    match way {
        Way::Close => {}
        Way::Reset => set_socket_linger(&socket, Some(Duration::ZERO)).expect("a socket"),
        Way::HalfClose => {
            socket.shutdown(Shutdown::Write).expect("a connection");
            // The server sends what it owes, and closes too.
            if let Err(error) = io::copy(&mut socket, &mut io::sink()) {
                assert!(is_disconnect(&error), "{error}");
            }
        }
    }
}
