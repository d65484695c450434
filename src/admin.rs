//! The admin listener: answers whoever watches over the server, on a socket of its own and a thread of its own.
//!
//! | request | answer |
//! |---|---|
//! | `GET /health` | 200: the process is alive |
//! | `GET /ready` | 200 while clients are accepted; 503 before and after that |
//! | `GET /metrics` | [`Metrics`] for Prometheus |
//! | `GET /status` | [`Metrics`] as JSON |
//!
//! One request on a connection, one connection at a time, and a second for each: whoever is slow keeps the next one waiting no
//! longer than that. Nobody is asked who he is; whoever can connect may know.

use crate::{
    listen::{Address, Bound},
    metrics::{Metrics, Stage},
    server::Handle,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    io::Errno,
    net::{
        RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tarpon_http::{
    head::{self, Head, Method},
    status::Status,
};

/// An admin listener that answers. Dropped, it does not any more.
#[derive(Debug)]
pub struct Admin {
    server: Arc<OnceLock<Handle>>,
    end: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// A connection may take so long, all in all.
const TIME_MAX: Duration = Duration::from_secs(1);

/// A request has a line, and a few fields of a client for Prometheus.
const REQUEST_LEN_MAX: usize = 4 * 1024;

/// What is answered to a request.
struct Answer {
    status: Status,
    media: &'static str,
    content: String,
}

impl Admin {
    /// Answers from now on; what it answers of a server says that it starts.
    ///
    /// # Errors
    /// Threads or descriptors are lacking.
    pub fn start(listener: &Bound) -> io::Result<Admin> {
        let (server, end) = (Arc::new(OnceLock::new()), eventfd(0, EventfdFlags::CLOEXEC)?);
        let desk = Desk {
            listener: listener.sockets()[0].try_clone()?,
            server: Arc::clone(&server),
            end: Arc::new(end),
        };
        let end = Arc::clone(&desk.end);
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || desk.run())?;
        Ok(Admin { server, end, thread: Some(thread) })
    }

    /// The server it answers for has begun.
    pub fn serving(&self, server: Handle) {
        // A second one is not answered for.
        let _ = self.server.set(server);
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Desk {
    listener: OwnedFd,
    server: Arc<OnceLock<Handle>>,
    end: Arc<OwnedFd>,
}

impl Desk {
    fn run(self) {
        loop {
            let mut polled =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&*self.end, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory, for the moment.
                Err(_) => thread::sleep(TIME_MAX),
            }
            if !polled[1].revents().is_empty() {
                return;
            }
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                // What goes wrong with one client is for him to see.
                Ok(client) => drop(self.attend(&client)),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                // Out of descriptors, as a rule: the client waits in the backlog.
                Err(_) => thread::sleep(TIME_MAX),
            }
        }
    }

    fn attend(&self, client: &OwnedFd) -> io::Result<()> {
        let by = Instant::now() + TIME_MAX;
        let (mut request, mut len) = ([0; REQUEST_LEN_MAX], 0);
        let answer = loop {
            match head::parse(&request[..len]) {
                Ok(Some((head, _))) => break self.answer(&head),
                Ok(None) if len == REQUEST_LEN_MAX => {
                    break page(Status::RequestHeaderFieldsTooLarge, "too long\n");
                }
                Ok(None) => {}
                Err(error) => break page(error.status(), "this is no request\n"),
            }
            set_socket_timeout(client, Timeout::Recv, Some(left(by)?))?;
            match recv(client, &mut request[len..], RecvFlags::empty())? {
                (0, _) => return Ok(()),
                (more, _) => len += more,
            }
        };
        let with_content = !request.starts_with(b"HEAD ");
        let bytes = answer.bytes(with_content);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            set_socket_timeout(client, Timeout::Send, Some(left(by)?))?;
            rest = &rest[send(client, rest, SendFlags::NOSIGNAL)?..];
        }
        Ok(shutdown(client, Shutdown::Write)?)
    }

    fn answer(&self, head: &Head<'_>) -> Answer {
        // A page that a browser shows could ask in its name: RFC 6454. Programs send no such field.
        if head.fields().any(|(name, _)| name.eq_ignore_ascii_case(b"Origin")) {
            return page(Status::Forbidden, "not for pages\n");
        }
        if !matches!(head.method, Method::Get | Method::Head) {
            return page(Status::MethodNotAllowed, "GET or HEAD\n");
        }
        match head.target {
            b"/health" => page(Status::Ok, "alive\n"),
            b"/ready" => match self.metrics().stage {
                Stage::Starting => page(Status::ServiceUnavailable, "starting\n"),
                Stage::Serving => page(Status::Ok, "serving\n"),
                Stage::Draining => page(Status::ServiceUnavailable, "draining\n"),
            },
            b"/metrics" => {
                let media = "text/plain; version=0.0.4; charset=utf-8";
                Answer { status: Status::Ok, media, content: self.metrics().prometheus() }
            }
            b"/status" => {
                let mut content =
                    serde_json::to_string(&self.metrics()).expect("it has numbers and names only");
                content.push('\n');
                Answer { status: Status::Ok, media: "application/json", content }
            }
            _ => page(Status::NotFound, "there are /health, /ready, /metrics and /status\n"),
        }
    }

    fn metrics(&self) -> Metrics {
        self.server.get().map(Handle::metrics).unwrap_or_default()
    }
}

impl Answer {
    fn bytes(&self, with_content: bool) -> Vec<u8> {
        let Answer { status, media, content } = self;
        let (code, reason, len) = (status.code(), status.reason(), content.len());
        let allow = if *status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {media}\r\nContent-Length: {len}\r\n{allow}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if with_content {
            bytes.extend_from_slice(content.as_bytes());
        }
        bytes
    }
}

fn page(status: Status, content: &str) -> Answer {
    Answer { status, media: "text/plain; charset=utf-8", content: content.to_owned() }
}

/// What is left of the time.
fn left(by: Instant) -> io::Result<Duration> {
    let left = by.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// What a server says of itself, asked at the address of its admin listener.
///
/// # Errors
/// Nobody answers there; or it is not such a listener that does.
pub fn ask(address: &Address) -> io::Result<Metrics> {
    const REQUEST: &[u8] = b"GET /status HTTP/1.0\r\n\r\n";
    let response = match address {
        Address::Tcp(address) => {
            exchange(TcpStream::connect_timeout(address, ASK_TIME_MAX)?, REQUEST, |stream| {
                stream.set_read_timeout(Some(ASK_TIME_MAX))
            })
        }
        Address::Unix(path) => exchange(UnixStream::connect(path)?, REQUEST, |stream| {
            stream.set_read_timeout(Some(ASK_TIME_MAX))
        }),
    }?;
    let content = response.strip_prefix("HTTP/1.1 200 ").and_then(|rest| rest.split_once("\r\n\r\n"));
    let (_, content) = content.ok_or(io::Error::other("it is no admin listener of tarpon"))?;
    Ok(serde_json::from_str(content)?)
}

/// Sends a request and reads all that is answered.
fn exchange<S: Read + Write>(
    mut stream: S,
    request: &[u8],
    limit: impl FnOnce(&S) -> io::Result<()>,
) -> io::Result<String> {
    limit(&stream)?;
    stream.write_all(request)?;
    let mut response = String::new();
    stream.take(RESPONSE_LEN_MAX).read_to_string(&mut response)?;
    Ok(response)
}

/// Longer than others keep a listener busy.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// What a server says of itself, at most: a few hundred bytes for each of its sites.
const RESPONSE_LEN_MAX: u64 = 16 * 1024 * 1024;
