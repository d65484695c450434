//! A check of a server: connects, asks for a path, and reads the status.
//!
//! ```text
//! connect ─┬─ FastCGI: good
//!          └─ HTTP: GET path ─▶ status from 200 to 399: good
//! ```

use super::connect::{ConnectAddress, ConnectAttempt, ConnectError, ConnectProgress};
use crate::{base::error::reason, sys::poll::PollEntry};
use libc::{POLLIN, POLLOUT};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::AsFd,
    sync::Arc,
};
use tarpon_conn::Tick;

/// The part of a check that follows the connection.
#[derive(Clone, Debug)]
pub(super) enum CheckKind {
    /// Nothing: FastCGI has no request without effect.
    Connect,
    /// Sends this request and reads the status.
    Http { request: Arc<[u8]>, tls: Option<CheckTls> },
}

/// The TLS of a check.
#[derive(Clone, Debug)]
pub(super) struct CheckTls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// A check under way.
#[derive(Debug)]
pub(super) struct Check {
    kind: CheckKind,
    deadline: Tick,
    stage: CheckStage,
}

#[derive(Debug)]
enum CheckStage {
    Connecting(ConnectAttempt),
    Exchange(Box<CheckExchange>),
}

#[derive(Debug)]
struct CheckExchange {
    /// A Unix socket, too: only send and receive are used.
    socket: TcpStream,
    tls: Option<ClientConnection>,
    request: Arc<[u8]>,
    /// Bytes of the request that were sent.
    sent: usize,
    /// The start of the response.
    received: Vec<u8>,
}

/// Bytes of a response until its status is complete: `HTTP/1.1 200`, and a space or the end of the line.
const STATUS_LEN: usize = 13;

impl Check {
    /// Begins a check.
    pub(super) fn new(kind: CheckKind, addresses: &[ConnectAddress], deadline: Tick) -> Check {
        Check { kind, deadline, stage: CheckStage::Connecting(ConnectAttempt::new(addresses, deadline)) }
    }

    /// Goes on as far as possible without waiting. `None`: the check is not over. The error is the reason of a bad check.
    pub(super) fn drive(&mut self, now: Tick) -> Option<Result<(), String>> {
        if let CheckStage::Connecting(attempt) = &mut self.stage {
            match attempt.drive(now) {
                ConnectProgress::Waits => return None,
                ConnectProgress::Failed(error) => return Some(Err(error.to_string())),
                ConnectProgress::Connected(socket, _) => match &self.kind {
                    CheckKind::Connect => return Some(Ok(())),
                    CheckKind::Http { request, tls } => {
                        let tls = tls
                            .as_ref()
                            .map(|tls| ClientConnection::new(Arc::clone(&tls.config), tls.name.clone()));
                        let tls = match tls.transpose() {
                            Ok(tls) => tls,
                            Err(error) => return Some(Err(error.to_string())),
                        };
                        let exchange = CheckExchange {
                            socket: socket.into(),
                            tls,
                            request: Arc::clone(request),
                            sent: 0,
                            received: Vec::new(),
                        };
                        self.stage = CheckStage::Exchange(Box::new(exchange));
                    }
                },
            }
        }
        let CheckStage::Exchange(exchange) = &mut self.stage else { return None };
        match exchange.drive() {
            Ok(true) => Some(judge(&exchange.received)),
            Ok(false) if now >= self.deadline => Some(Err(ConnectError::TimedOut.to_string())),
            Ok(false) => None,
            Err(error) => Some(Err(reason(&error))),
        }
    }

    /// Returns what to wait for. `None`: only for a time.
    pub(super) fn polled(&self) -> Option<PollEntry> {
        match &self.stage {
            CheckStage::Connecting(attempt) => attempt.polled(),
            CheckStage::Exchange(exchange) => {
                let wants_write = match &exchange.tls {
                    Some(tls) => tls.wants_write(),
                    None => exchange.sent < exchange.request.len(),
                };
                let events = if wants_write { POLLIN | POLLOUT } else { POLLIN };
                Some(PollEntry::new(exchange.socket.as_fd(), events))
            }
        }
    }

    /// Notes that the wait has found an event.
    pub(super) fn set_ready(&mut self) {
        if let CheckStage::Connecting(attempt) = &mut self.stage {
            attempt.set_ready();
        }
    }

    /// Returns when the check goes on without an event.
    pub(super) fn wake_at(&self) -> Tick {
        match &self.stage {
            CheckStage::Connecting(attempt) => attempt.wake_at(),
            CheckStage::Exchange(_) => self.deadline,
        }
    }
}

impl CheckExchange {
    /// Sends and receives without waiting. Returns whether the status is complete.
    fn drive(&mut self) -> io::Result<bool> {
        loop {
            let progress = match self.tls {
                Some(_) => self.drive_tls(),
                None => self.drive_plain(),
            };
            match progress {
                Ok(_) if self.received.len() >= STATUS_LEN => return Ok(true),
                Ok(0) => return Err(io::Error::other("it closes the connection before its response")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns how many bytes it has moved. 0: the peer has closed.
    fn drive_plain(&mut self) -> io::Result<usize> {
        if let rest @ [_, ..] = &self.request[self.sent..] {
            let len = self.socket.write(rest)?;
            self.sent += len;
            return Ok(len);
        }
        let mut bytes = [0; 64];
        let len = self.socket.read(&mut bytes)?;
        self.received.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn drive_tls(&mut self) -> io::Result<usize> {
        let CheckExchange { socket, tls: Some(tls), request, sent, received } = self else { return Ok(0) };
        if *sent < request.len() {
            // The connection keeps it until the handshake is complete.
            *sent += tls.writer().write(&request[*sent..])?;
        }
        if tls.wants_write() {
            return tls.write_tls(socket);
        }
        let len = tls.read_tls(socket)?;
        tls.process_new_packets().map_err(io::Error::other)?;
        let mut bytes = [0; 64];
        match tls.reader().read(&mut bytes) {
            Ok(plain_len) => received.extend_from_slice(&bytes[..plain_len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(len)
    }
}

/// Judges the start of a response.
fn judge(received: &[u8]) -> Result<(), String> {
    let status = match received {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', b' ', status @ ..] => status,
        _ => return Err("it does not speak HTTP/1.1".to_owned()),
    };
    match status {
        [b'2' | b'3', b'0'..=b'9', b'0'..=b'9', b' ' | b'\r' | b'\n', ..] => Ok(()),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ' | b'\r' | b'\n', ..] => {
            Err(format!("its status is {}{}{}", char::from(*a), char::from(*b), char::from(*c)))
        }
        _ => Err("its response has no status".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        control::tls::{
            policy::TlsConfig,
            test_certificates::{TestAuthority, client},
        },
        sys::poll::poll,
    };
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    use std::{
        net::{SocketAddr, TcpListener},
        thread,
    };

    #[test]
    #[rustfmt::skip]
    fn status_is_judged() {
        let cases: &[(&str, Result<(), &str>)] = &[
            ("HTTP/1.1 200 OK\r\n",     Ok(())),
            ("HTTP/1.0 302 Found\r\n",  Ok(())),
            ("HTTP/1.1 399\r\nA: b",    Ok(())),
            ("HTTP/1.1 404 Not Found",  Err("its status is 404")),
            ("HTTP/1.1 503 No\r\n",     Err("its status is 503")),
            ("HTTP/1.1 100 Continue",   Err("its status is 100")),
            ("HTTP/1.1 2000 OK\r\n",    Err("its response has no status")),
            ("HTTP/2.0 200 OK\r\n",     Err("it does not speak HTTP/1.1")),
            ("SSH-2.0-OpenSSH_9.0\r\n", Err("it does not speak HTTP/1.1")),
        ];
        for (response, want) in cases {
            assert_eq!(judge(response.as_bytes()), want.map_err(str::to_owned), "{response}");
        }
    }

    fn finish(kind: CheckKind, address: SocketAddr) -> Result<(), String> {
        let mut check = Check::new(kind, &[ConnectAddress::Tcp(address)], Tick(60_000));
        loop {
            if let Some(result) = check.drive(Tick(0)) {
                return result;
            }
            let mut polled = [check.polled().expect("a socket")];
            poll(&mut polled, None).unwrap();
            check.set_ready();
        }
    }

    #[test]
    fn request_is_sent_and_the_status_read_however_it_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        #[rustfmt::skip]
        let cases: [(&[&str], Result<(), &str>); 4] = [
            (&["HTTP/1.1 200 OK\r\n\r\n"],          Ok(())),
            (&["HTT", "P/1.1 2", "0", "4 No", "\n"], Ok(())),
            (&["HTTP/1.1 500 Error\r\n"],           Err("its status is 500")),
            (&["HTTP"],                             Err("it closes the connection before its response")),
        ];
        let server = thread::spawn(move || {
            for (response, _) in cases {
                let (mut client, _) = listener.accept().unwrap();
                client.set_nodelay(true).unwrap();
                let mut request = [0; REQUEST.len()];
                client.read_exact(&mut request).unwrap();
                assert_eq!(&request, REQUEST);
                // A check that has read a status closes the connection: what comes after it may find no reader.
                response.iter().for_each(|part| drop(client.write_all(part.as_bytes())));
            }
            listener
        });
        for (_, want) in cases {
            let kind = CheckKind::Http { request: (*REQUEST).into(), tls: None };
            assert_eq!(finish(kind, address), want.map_err(str::to_owned));
        }
        let _listener = server.join().unwrap();
        assert_eq!(finish(CheckKind::Connect, address), Ok(()), "nothing is sent");
        // Bound, so that no other program listens there.
        let unused = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&unused, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(getsockname(&unused).unwrap()).unwrap();
        assert_eq!(finish(CheckKind::Connect, address), Err("connection refused".to_owned()));
    }

    const REQUEST: &[u8; 18] = b"GET / HTTP/1.1\r\n\r\n";

    #[test]
    fn silent_server_is_bad_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ConnectAddress::Tcp(listener.local_addr().unwrap());
        let kind = CheckKind::Http { request: (*REQUEST).into(), tls: None };
        let mut check = Check::new(kind, &[address], Tick(2_000));
        while check.drive(Tick(0)).is_none() && matches!(check.stage, CheckStage::Connecting(_)) {
            poll(&mut [check.polled().expect("a socket")], None).unwrap();
            check.set_ready();
        }
        assert_eq!(check.drive(Tick(1_999)), None);
        assert_eq!(check.wake_at(), Tick(2_000));
        assert_eq!(check.drive(Tick(2_000)), Some(Err("it does not answer in time".to_owned())));
    }

    #[test]
    fn status_is_read_through_tls() {
        let authority = TestAuthority::new();
        let server = Arc::clone(TlsConfig::new(&[authority.issue(&["localhost"])]).unwrap().server());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            for _ in 0..2 {
                let (mut client, _) = listener.accept().unwrap();
                let mut tls = rustls::ServerConnection::new(Arc::clone(&server)).unwrap();
                let mut stream = rustls::Stream::new(&mut tls, &mut client);
                let mut request = [0; REQUEST.len()];
                // Fails if the client does not accept the certificate.
                if stream.read_exact(&mut request).is_ok() {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                }
            }
        });
        let check = |name: &'static str| CheckKind::Http {
            request: (*REQUEST).into(),
            tls: Some(CheckTls {
                config: client(&authority, rustls::ALL_VERSIONS, None),
                name: ServerName::try_from(name).unwrap(),
            }),
        };
        assert_eq!(finish(check("localhost"), address), Ok(()));
        assert!(finish(check("another"), address).is_err(), "its certificate is for another name");
        server.join().unwrap();
    }
}
