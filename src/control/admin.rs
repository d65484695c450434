//! The admin listener: answers whoever watches over the server, on a socket of its own and a thread of its own.
//!
//! | request | answer |
//! |---|---|
//! | `GET /health` | 200: the process is alive |
//! | `GET /ready` | 200 while clients are accepted; 503 before and after that |
//! | `GET /metrics` | [`Metrics`] for Prometheus |
//! | `GET /status` | [`Metrics`] as JSON |
//! | `POST /reload`, `POST /upgrade` | what came of it, where there is a supervisor |
//!
//! One request on a connection, one connection at a time, and a second for each: whoever is slow keeps the next one waiting no
//! longer than that. Nobody is asked who he is; whoever can connect may know, and may give orders if he is on this host. The
//! connection of who gave one is handed on, to be answered when it is done.

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

/// An admin listener that answers. Dropped, it does not any more.
#[derive(Debug)]
pub struct Admin {
    server: Arc<OnceLock<Arc<ServerStats>>>,
    end: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

/// What can be asked of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Read the configuration anew.
    Reload,
    /// Leave the place to the program as its file is now.
    Upgrade,
}

impl Order {
    /// Every order there is.
    pub const ALL: [Order; 2] = [Order::Reload, Order::Upgrade];

    /// What is requested to give it.
    fn target(self) -> &'static str {
        match self {
            Order::Reload => "/reload",
            Order::Upgrade => "/upgrade",
        }
    }
}

/// Where orders go, with the connection of who gave them.
type AdminHandler = Box<dyn Fn(Order, OwnedFd) + Send>;

/// A connection may take so long, all in all.
const TIME_MAX: Duration = Duration::from_secs(1);

/// A request has a line, and a few fields of a client for Prometheus.
const REQUEST_LEN_MAX: usize = 4 * 1024;

/// What is answered to a request.
pub(crate) struct AdminAnswer {
    status: Status,
    media: &'static str,
    content: String,
    /// The methods that there are, where it was another one.
    allow: &'static str,
}

/// What becomes of a request.
enum AdminReply {
    Answer(AdminAnswer),
    /// Somebody else answers, when it is done.
    Order(Order),
}

impl Admin {
    /// Answers from now on; what it answers of a server says that it starts.
    ///
    /// # Errors
    /// Threads or descriptors are lacking.
    pub fn start(listener: &Listener) -> io::Result<Admin> {
        Admin::begin(listener, None, None)
    }

    /// The same for a server with a supervisor, who is told of orders; and for one that has begun.
    pub(crate) fn start_with(
        listener: &Listener,
        ledger: Option<Arc<ServerStats>>,
        orders: impl Fn(Order, OwnedFd) + Send + 'static,
    ) -> io::Result<Admin> {
        Admin::begin(listener, ledger, Some(Box::new(orders)))
    }

    fn begin(
        listener: &Listener,
        ledger: Option<Arc<ServerStats>>,
        orders: Option<AdminHandler>,
    ) -> io::Result<Admin> {
        let server = ledger.map_or_else(OnceLock::new, OnceLock::from);
        let (server, end) = (Arc::new(server), Wake::new()?);
        let desk = AdminDesk {
            listener: listener.sockets()[0].try_clone()?,
            server: Arc::clone(&server),
            end: Arc::new(end),
            orders,
        };
        let end = Arc::clone(&desk.end);
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || desk.run())?;
        Ok(Admin { server, end, thread: Some(thread) })
    }

    /// The server it answers for has begun.
    pub fn serving(&self, server: Handle) {
        self.answering(server.ledger());
    }

    /// The same, where there is no handle: this is what is known of the server.
    pub(crate) fn answering(&self, ledger: &Arc<ServerStats>) {
        // A second one is not answered for.
        let _ = self.server.set(Arc::clone(ledger));
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

/// What the thread has.
struct AdminDesk {
    listener: OwnedFd,
    server: Arc<OnceLock<Arc<ServerStats>>>,
    end: Arc<Wake>,
    orders: Option<AdminHandler>,
}

impl AdminDesk {
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
            match socket::accept_blocking(&self.listener) {
                // What goes wrong with one client is for him to see.
                Ok(client) => drop(self.attend(client)),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                // Out of descriptors, as a rule: the client waits in the backlog.
                Err(_) => thread::sleep(TIME_MAX),
            }
        }
    }

    fn attend(&self, client: OwnedFd) -> io::Result<()> {
        let by = Instant::now() + TIME_MAX;
        let (mut request, mut len) = ([0; REQUEST_LEN_MAX], 0);
        let reply = loop {
            match head::parse(&request[..len]) {
                Ok(Some((head, _))) => break self.reply(&head, &client),
                Ok(None) if len == REQUEST_LEN_MAX => {
                    break page(Status::RequestHeaderFieldsTooLarge, "too long\n").into();
                }
                Ok(None) => {}
                Err(error) => break page(error.status(), "this is no request\n").into(),
            }
            set_socket_timeout(&client, Timeout::Recv, Some(left(by)?))?;
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
            (AdminReply::Order(_), None) => page(Status::NotImplemented, "there is no supervisor\n"),
        };
        let with_content = !request.starts_with(b"HEAD ");
        let bytes = answer.bytes(with_content);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            set_socket_timeout(&client, Timeout::Send, Some(left(by)?))?;
            rest = &rest[send(&client, rest, socket::NO_SIGNAL)?..];
        }
        Ok(shutdown(&client, Shutdown::Write)?)
    }

    fn reply(&self, head: &Head<'_>, client: &OwnedFd) -> AdminReply {
        // A page that a browser shows could ask in its name: RFC 6454. Programs send no such field.
        if head.fields().any(|(name, _)| name.eq_ignore_ascii_case(b"Origin")) {
            return page(Status::Forbidden, "not for pages\n").into();
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
            b"/ready" => match self.metrics().stage {
                ServerState::Starting => page(Status::ServiceUnavailable, "starting\n"),
                ServerState::Serving => page(Status::Ok, "serving\n"),
                ServerState::Draining => page(Status::ServiceUnavailable, "draining\n"),
            },
            b"/metrics" => {
                let media = "text/plain; version=0.0.4; charset=utf-8";
                AdminAnswer { media, ..page(Status::Ok, &self.metrics().prometheus()) }
            }
            b"/status" => {
                let content = serde_json::to_string(&self.metrics()).expect("it has numbers and names only");
                AdminAnswer { media: "application/json", ..page(Status::Ok, &(content + "\n")) }
            }
            _ => page(
                Status::NotFound,
                "there are /health, /ready, /metrics, /status, and to POST /reload and /upgrade\n",
            ),
        }
    }

    fn metrics(&self) -> Metrics {
        self.server.get().map(|ledger| ledger.metrics()).unwrap_or_default()
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

/// Whether who asks may give orders. No browser: it says so by Fetch Metadata. On a Unix socket, whoever could connect; on TCP, who
/// is on this host, and has not been led here by a name that a stranger has given to its address.
fn may_order(head: &Head<'_>, client: &OwnedFd) -> bool {
    if head.fields().any(|(name, _)| name.to_ascii_lowercase().starts_with(b"sec-fetch-")) {
        return false;
    }
    if getsockname(client).is_ok_and(|own| own.address_family() == AddressFamily::UNIX) {
        return true;
    }
    // Who has gone again is nobody.
    let peer = getpeername(client).ok().flatten();
    let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { return false };
    let mut hosts = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"Host"));
    peer.ip().to_canonical().is_loopback() && hosts.all(|(_, host)| names_this_host(host))
}

/// An address, or `localhost`, with or without a port.
fn names_this_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_address =
        host.parse::<SocketAddr>().is_ok() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address || name.eq_ignore_ascii_case("localhost")
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
    let response = request(address, "GET", "/status", Some(ASK_TIME_MAX))?;
    match parts(&response)? {
        (200, content) => Ok(serde_json::from_str(content)?),
        _ => Err(no_admin()),
    }
}

/// Gives an order to the supervisor of a server, at the address of its admin listener, and waits until it is done. What came of
/// it, in words.
///
/// # Errors
/// Nobody answers there; or it is not such a listener that does; or the order was refused, or could not be carried out: `Other`, in
/// the words of the server.
pub fn order(address: &Address, order: Order) -> io::Result<String> {
    let response = request(address, "POST", order.target(), None)?;
    if response.is_empty() {
        return Err(io::Error::other("it has ended without an answer"));
    }
    match parts(&response)? {
        (200, said) => Ok(said.trim_end().to_owned()),
        (_, said) => Err(io::Error::other(said.trim_end())),
    }
}

/// Sends a request without content and reads all that is answered, each piece of it within a time.
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

/// Status and content of a response.
fn parts(response: &str) -> io::Result<(u16, &str)> {
    let status = response.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let content = response.split_once("\r\n\r\n").map(|(_, content)| content);
    status.zip(content).ok_or_else(no_admin)
}

fn no_admin() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no admin listener of tarpon")
}

/// Longer than others keep a listener busy.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// What a server says of itself, at most: a few hundred bytes for each of its sites.
const RESPONSE_LEN_MAX: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::{net::TcpListener, thread};

    #[test]
    fn who_has_gone_again_gives_no_orders() {
        let order = b"POST /reload HTTP/1.0\r\n\r\n";
        let Ok(Some((head, _))) = head::parse(order) else { panic!("a head") };
        let (unix, _other) = UnixStream::pair().unwrap();
        assert!(may_order(&head, &unix.into()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0.into();
        assert!(may_order(&head, &accepted));
        // What it has sent is still there to be read, but not who it was.
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        while getpeername(&accepted).is_ok() {
            thread::yield_now();
        }
        assert!(!may_order(&head, &accepted));
    }
}
