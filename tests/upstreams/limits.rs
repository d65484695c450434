//! Requests that no server can take, which become 503, and servers that are too slow, which become 504.

use super::{
    proxied::{Proxied, ProxyConfig, get, on_engines},
    scripted::{AfterResponse, ScriptGate, ScriptedServer, ok},
    wire::WireError,
};
use crate::common::{ENGINES, port::ReservedPort};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with};
use std::{
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
};

#[test]
fn silent_server_is_a_gateway_timeout() {
    let server = ScriptedServer::responding(|request| match request.target() {
        "/app/silent" => (Vec::new(), AfterResponse::Hold),
        "/app/head" => (b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), AfterResponse::Hold),
        "/app/interim" => (b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec(), AfterResponse::Hold),
        target => (ok(target), AfterResponse::Keep),
    });
    // As long as the machine of a test needs for the good response, with a lot to spare.
    let config = ProxyConfig { upstream: "response-timeout = \"1s\"\nretries = 0", ..ProxyConfig::default() };
    on_engines(&server, config, |proxied, engine| {
        // At the same time, as each waits for the timeout.
        let mut clients = ["/app/silent", "/app/head", "/app/interim"].map(|target| {
            let mut client = proxied.connect();
            client.send(get(target));
            (target, client)
        });
        for (target, client) in &mut clients {
            let response = client.answered("GET").response;
            let want = (504, "page of the site for 504");
            assert_eq!((response.status(), &*response.text()), want, "{engine}, {target}: {response}");
            let connection = server.next().connection;
            server.wait_for_end(connection);
            assert_eq!(proxied.get("/app/good").text(), "/app/good", "{engine}, {target}");
        }
        clients.iter().for_each(|_| drop(server.next()));
    });
}

#[test]
fn server_that_stops_within_a_response_is_cut() {
    let server = ScriptedServer::responding(|request| match request.target() {
        "/app/length" => (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".to_vec(), AfterResponse::Hold),
        "/app/chunk" => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
            (head.to_vec(), AfterResponse::Hold)
        }
        target => (ok(target), AfterResponse::Keep),
    });
    // The total is long enough for a head to pass on a busy machine.
    for option in ["idle-timeout = \"100ms\"", "total-timeout = \"1s\""] {
        on_engines(&server, ProxyConfig { upstream: option, ..ProxyConfig::default() }, |proxied, engine| {
            // At the same time, as each waits for the timeout.
            let clients = ["/app/length", "/app/chunk"].map(|target| {
                let mut client = proxied.connect();
                client.send(get(target));
                (target, client)
            });
            for (target, mut client) in clients {
                let cut = client.try_answered("GET");
                assert!(matches!(cut, Err(WireError::Cut(_))), "{engine}, {option}, {target}: {cut:?}");
                let connection = server.next().connection;
                server.wait_for_end(connection);
            }
        });
    }
}

#[test]
fn unreachable_server_is_a_bad_gateway_and_a_slow_one_a_timeout() {
    let (closed, full) = (ReservedPort::new(), FullListener::new());
    for &engine in ENGINES {
        #[rustfmt::skip]
        let cases = [
            ("refuses",         format!("http://{}", closed.address),           502),
            ("no such socket",  "http://unix:/nothing/socket".to_owned(),       502),
            ("does not accept", format!("http://{}", full.address),             504),
        ];
        for (case, server, status) in cases {
            // The kernel never completes the connection, so the length of the timeout does not matter.
            let config = ProxyConfig { upstream: "connect-timeout = \"100ms\"", ..ProxyConfig::default() };
            let proxied = Proxied::start(engine, &[server], config);
            let response = proxied.get("/app/");
            let page = format!("page of the site for {status}");
            assert_eq!((response.status(), response.text()), (status, page), "{engine}, {case}");
            assert_eq!(proxied.get("/").text(), "home", "{engine}, {case}");
        }
    }
}

#[test]
fn busy_servers_are_unavailable() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        while let Some(request) = connection.request() {
            if request.target() == "/app/held" {
                passed.pass();
            }
            connection.send(ok(request.target()));
        }
    });
    // How long a request waits for a place, too.
    let lines = "max-connections = 1\nconnect-timeout = \"100ms\"";
    let config = ProxyConfig { upstream: lines, ..ProxyConfig::default() };
    on_engines(&server, config, |proxied, engine| {
        let mut held = proxied.connect();
        held.send(get("/app/held"));
        server.next();
        let response = proxied.get("/app/other");
        let want = (503, "page of the site for 503");
        assert_eq!((response.status(), &*response.text()), want, "{engine}: {response}");
        gate.open();
        assert_eq!(held.answered("GET").response.text(), "/app/held", "{engine}");
        // On the same connection: another worker may have no idle one, and may open none.
        assert_eq!(held.ask(get("/app/other")).response.text(), "/app/other", "{engine}");
        server.next();
    });
}

/// A listener whose kernel completes no further connection.
struct FullListener {
    address: SocketAddr,
    _sockets: Vec<OwnedFd>,
}

impl FullListener {
    fn new() -> FullListener {
        let new_socket = |flags| {
            let flags = SocketFlags::CLOEXEC | flags;
            socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket")
        };
        let listener = new_socket(SocketFlags::empty());
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        listen(&listener, 0).expect("a listener");
        let address: SocketAddr =
            getsockname(&listener).expect("an address").try_into().expect("an IP address");
        // A queue of length 0 has room for one connection. listen(2)
        let waiting = new_socket(SocketFlags::empty());
        connect(&waiting, &address).expect("the first connection");
        FullListener { address, _sockets: vec![listener, waiting] }
    }
}
