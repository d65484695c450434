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

mod answer;
mod fetch;

pub(crate) use answer::page;
pub use fetch::{fetch_metrics, send_order};

use crate::{
    control::{
        listeners::Listener,
        metrics::{Metrics, ServerState},
        server::Handle,
        stats::ServerStats,
    },
    sys::{socket, wake::Wake},
};
use answer::{AdminAnswer, not_allowed};
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
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
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

impl From<AdminAnswer> for AdminReply {
    fn from(answer: AdminAnswer) -> AdminReply {
        AdminReply::Answer(answer)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
        thread,
    };

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
