//! The admin listener: answers monitoring and administrators, on a socket and a thread of its own.
//!
//! | request | answer |
//! |---|---|
//! | `GET /health` | 200: the process is alive |
//! | `GET /ready` | 200 while clients are accepted; 503 before and after that |
//! | `GET /metrics` | [`Metrics`] for Prometheus |
//! | `GET /status` | [`Metrics`] as JSON |
//! | `POST /reload`, `POST /upgrade` | the result, if there is a supervisor |
//!
//! One request on a connection, one connection at a time, and one second for each: a slow client delays the next no longer than that.
//! There is no authentication: every client that can connect may read, and may give orders if it is on this host. The connection of an
//! order goes to the supervisor, which answers when the order is done.

use crate::{
    base::address::Address,
    control::{
        listeners::Listener,
        metrics::{Metrics, ServerState},
        server::Handle,
        stats::ServerStats,
    },
    sys::{socket, wake::Wake},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, Shutdown, getpeername, getsockname, recv, send, shutdown,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tarpon_http::{
    head::{self, Head, Method},
    status::Status,
};

/// A running admin listener. Dropping it stops it.
#[derive(Debug)]
pub struct Admin {
    server: Arc<OnceLock<Arc<ServerStats>>>,
    end: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

/// An order to a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Read the configuration again and serve it.
    Reload,
    /// Start the program file again and hand over to it.
    Upgrade,
}

impl Order {
    /// All orders.
    pub const ALL: [Order; 2] = [Order::Reload, Order::Upgrade];

    /// Returns the request target of the order.
    fn target(self) -> &'static str {
        match self {
            Order::Reload => "/reload",
            Order::Upgrade => "/upgrade",
        }
    }
}

/// Receives orders, each with the connection of its client.
type AdminHandler = Box<dyn Fn(Order, OwnedFd) + Send>;

/// The longest life of a connection.
const TIME_MAX: Duration = Duration::from_secs(1);

/// The longest request: a line, and a few fields of a Prometheus client.
const REQUEST_LEN_MAX: usize = 4 * 1024;

/// An answer to a request.
pub(crate) struct AdminAnswer {
    status: Status,
    media: &'static str,
    content: String,
    /// The allowed methods, for a 405.
    allow: &'static str,
}

/// How a request is answered.
enum AdminReply {
    Answer(AdminAnswer),
    /// The supervisor answers when the order is done.
    Order(Order),
}

impl Admin {
    /// Starts answering. Until [`set_server`](Admin::set_server), the reported state is "starting".
    ///
    /// # Errors
    /// The process is out of threads or descriptors.
    pub fn start(listener: &Listener) -> io::Result<Admin> {
        Admin::start_thread(listener, None, None)
    }

    /// Starts answering for a server with a supervisor, which gets the orders; with `stats`, for a server that already serves.
    pub(crate) fn start_with(
        listener: &Listener,
        stats: Option<Arc<ServerStats>>,
        orders: impl Fn(Order, OwnedFd) + Send + 'static,
    ) -> io::Result<Admin> {
        Admin::start_thread(listener, stats, Some(Box::new(orders)))
    }

    fn start_thread(
        listener: &Listener,
        stats: Option<Arc<ServerStats>>,
        orders: Option<AdminHandler>,
    ) -> io::Result<Admin> {
        let server = stats.map_or_else(OnceLock::new, OnceLock::from);
        let (server, end) = (Arc::new(server), Wake::new()?);
        let admin = AdminServer {
            listener: listener.sockets()[0].try_clone()?,
            server: Arc::clone(&server),
            end: Arc::new(end),
            orders,
        };
        let end = Arc::clone(&admin.end);
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || admin.run())?;
        Ok(Admin { server, end, thread: Some(thread) })
    }

    /// Reports on this server, which has started.
    pub fn set_server(&self, server: Handle) {
        self.set_stats(server.stats());
    }

    /// Reports these statistics, for a server without a handle.
    pub(crate) fn set_stats(&self, stats: &Arc<ServerStats>) {
        // The first server stays.
        let _ = self.server.set(Arc::clone(stats));
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.end.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the admin thread.
struct AdminServer {
    listener: OwnedFd,
    server: Arc<OnceLock<Arc<ServerStats>>>,
    end: Arc<Wake>,
    orders: Option<AdminHandler>,
}

impl AdminServer {
    fn run(self) {
        loop {
            let mut polled =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&*self.end, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory: pause.
                Err(_) => thread::sleep(TIME_MAX),
            }
            if !polled[1].revents().is_empty() {
                return;
            }
            match socket::accept_blocking(&self.listener) {
                // An error of one client concerns that client only.
                Ok(client) => drop(self.serve(client)),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                // Usually out of descriptors: the client waits in the backlog.
                Err(_) => thread::sleep(TIME_MAX),
            }
        }
    }

    fn serve(&self, client: OwnedFd) -> io::Result<()> {
        let deadline = Instant::now() + TIME_MAX;
        let (mut request, mut len) = ([0; REQUEST_LEN_MAX], 0);
        let reply = loop {
            match head::parse(&request[..len]) {
                Ok(Some((head, _))) => break self.reply(&head, &client),
                Ok(None) if len == REQUEST_LEN_MAX => {
                    break page(Status::RequestHeaderFieldsTooLarge, "too long\n").into();
                }
                Ok(None) => {}
                Err(error) => break page(error.status(), "malformed request\n").into(),
            }
            set_socket_timeout(&client, Timeout::Recv, Some(time_left(deadline)?))?;
            match recv(&client, &mut request[len..], RecvFlags::empty())? {
                (0, _) => return Ok(()),
                (more, _) => len += more,
            }
        };
        let answer = match (reply, &self.orders) {
            (AdminReply::Answer(answer), _) => answer,
            (AdminReply::Order(order), Some(orders)) => {
                orders(order, client);
                return Ok(());
            }
            (AdminReply::Order(_), None) => page(Status::NotImplemented, "no supervisor\n"),
        };
        let with_content = !request.starts_with(b"HEAD ");
        let bytes = answer.bytes(with_content);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            set_socket_timeout(&client, Timeout::Send, Some(time_left(deadline)?))?;
            rest = &rest[send(&client, rest, socket::NO_SIGNAL)?..];
        }
        Ok(shutdown(&client, Shutdown::Write)?)
    }

    fn reply(&self, head: &Head<'_>, client: &OwnedFd) -> AdminReply {
        // A web page could make a browser send the request: RFC 6454. Programs send no Origin field.
        if head.fields().any(|(name, _)| name.eq_ignore_ascii_case(b"Origin")) {
            return page(Status::Forbidden, "not for web pages\n").into();
        }
        match Order::ALL.into_iter().find(|order| order.target().as_bytes() == head.target) {
            None => self.answer(head).into(),
            Some(_) if head.method != Method::Post => not_allowed("POST").into(),
            Some(_) if !may_order(head, client) => page(Status::Forbidden, "not from there\n").into(),
            Some(order) => AdminReply::Order(order),
        }
    }

    fn answer(&self, head: &Head<'_>) -> AdminAnswer {
        if !matches!(head.method, Method::Get | Method::Head) {
            return not_allowed("GET, HEAD");
        }
        match head.target {
            b"/health" => page(Status::Ok, "alive\n"),
            b"/ready" => match self.metrics().state {
                ServerState::Starting => page(Status::ServiceUnavailable, "starting\n"),
                ServerState::Serving => page(Status::Ok, "serving\n"),
                ServerState::Draining => page(Status::ServiceUnavailable, "draining\n"),
            },
            b"/metrics" => {
                let media = "text/plain; version=0.0.4; charset=utf-8";
                AdminAnswer { media, ..page(Status::Ok, &self.metrics().prometheus()) }
            }
            b"/status" => {
                let content = serde_json::to_string(&self.metrics()).expect("metrics serialize to JSON");
                AdminAnswer { media: "application/json", ..page(Status::Ok, &(content + "\n")) }
            }
            _ => page(
                Status::NotFound,
                "try /health, /ready, /metrics, /status, or POST to /reload or /upgrade\n",
            ),
        }
    }

    fn metrics(&self) -> Metrics {
        self.server.get().map(|stats| stats.metrics()).unwrap_or_default()
    }
}

impl AdminAnswer {
    pub(crate) fn bytes(&self, with_content: bool) -> Vec<u8> {
        let AdminAnswer { status, media, content, allow } = self;
        let (code, reason, len) = (status.code(), status.reason(), content.len());
        let allow = if allow.is_empty() { String::new() } else { format!("Allow: {allow}\r\n") };
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {media}\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Length: {len}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if with_content {
            bytes.extend_from_slice(content.as_bytes());
        }
        bytes
    }
}

impl From<AdminAnswer> for AdminReply {
    fn from(answer: AdminAnswer) -> AdminReply {
        AdminReply::Answer(answer)
    }
}

pub(crate) fn page(status: Status, content: &str) -> AdminAnswer {
    AdminAnswer { status, media: "text/plain; charset=utf-8", content: content.to_owned(), allow: "" }
}

fn not_allowed(allow: &'static str) -> AdminAnswer {
    let content = allow.replace(", ", " or ") + "\n";
    AdminAnswer { allow, ..page(Status::MethodNotAllowed, &content) }
}

/// Returns whether the client may give orders. A browser may not: it sends Fetch Metadata. On a Unix socket every client may; on TCP a client
/// on this host may, unless its Host is a name other than localhost, as in DNS rebinding.
fn may_order(head: &Head<'_>, client: &OwnedFd) -> bool {
    if head.fields().any(|(name, _)| name.to_ascii_lowercase().starts_with(b"sec-fetch-")) {
        return false;
    }
    if getsockname(client).is_ok_and(|own| own.address_family() == AddressFamily::UNIX) {
        return true;
    }
    // A client that has disconnected has no peer address, and may not.
    let peer = getpeername(client).ok().flatten();
    let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { return false };
    let mut hosts = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"Host"));
    peer.ip().to_canonical().is_loopback() && hosts.all(|(_, host)| is_local_host(host))
}

/// Returns whether a Host is an address or `localhost`, with or without a port.
fn is_local_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_address =
        host.parse::<SocketAddr>().is_ok() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address || name.eq_ignore_ascii_case("localhost")
}

/// Returns the time until the deadline, or an error if it has passed.
fn time_left(deadline: Instant) -> io::Result<Duration> {
    let time_left = deadline.saturating_duration_since(Instant::now());
    if time_left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(time_left) }
}

/// Fetches the metrics of a server from its admin listener.
///
/// # Errors
/// No server answers at the address, or it is not an admin listener.
pub fn fetch_metrics(address: &Address) -> io::Result<Metrics> {
    let response = request(address, "GET", "/status", Some(ASK_TIME_MAX))?;
    match split_response(&response)? {
        (200, content) => Ok(serde_json::from_str(content)?),
        _ => Err(not_admin()),
    }
}

/// Sends an order to the supervisor of a server through its admin listener, and waits until it is done. Returns the message of the server.
///
/// # Errors
/// No server answers at the address, or it is not an admin listener. `Other`: the server refused the order or could not carry it out, with
/// its message.
pub fn send_order(address: &Address, order: Order) -> io::Result<String> {
    let response = request(address, "POST", order.target(), None)?;
    if response.is_empty() {
        return Err(io::Error::other("the server closed the connection without an answer"));
    }
    match split_response(&response)? {
        (200, text) => Ok(text.trim_end().to_owned()),
        (_, text) => Err(io::Error::other(text.trim_end())),
    }
}

/// Sends a request without content, and reads the whole response with a timeout for each read.
fn request(address: &Address, method: &str, target: &str, time: Option<Duration>) -> io::Result<String> {
    let request = format!("{method} {target} HTTP/1.0\r\n\r\n");
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, ASK_TIME_MAX)?;
            stream.set_read_timeout(time)?;
            exchange(stream, &request)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(time)?;
            exchange(stream, &request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.take(RESPONSE_LEN_MAX).read_to_string(&mut response)?;
    Ok(response)
}

/// Splits a response into status and content.
fn split_response(response: &str) -> io::Result<(u16, &str)> {
    let status = response.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let content = response.split_once("\r\n\r\n").map(|(_, content)| content);
    status.zip(content).ok_or_else(not_admin)
}

fn not_admin() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not an admin listener of tarpon")
}

/// Longer than several slow clients before this one keep the listener busy.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest response: a few hundred bytes for each site.
const RESPONSE_LEN_MAX: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::{net::TcpListener, thread};

    #[test]
    fn disconnected_client_gives_no_orders() {
        let order = b"POST /reload HTTP/1.0\r\n\r\n";
        let Ok(Some((head, _))) = head::parse(order) else { panic!("a head") };
        let (unix, _other) = UnixStream::pair().unwrap();
        assert!(may_order(&head, &unix.into()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0.into();
        assert!(may_order(&head, &accepted));
        // The request is still readable, but the kernel no longer knows the peer.
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        while getpeername(&accepted).is_ok() {
            thread::yield_now();
        }
        assert!(!may_order(&head, &accepted));
    }
}
