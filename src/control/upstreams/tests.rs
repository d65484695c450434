//! The helper on threads, with servers and workers over real sockets.

use super::{
    event_loop::UpstreamLoop,
    inbox::{Inbox, InboxItem},
    message::FromUpstreams,
    report_log::ReportLog,
    resolve::Resolver,
    service::UpstreamService,
};
use crate::{
    base::{
        engine::Engine,
        site_config::SiteConfig,
        upstream_config::{
            Balance, HealthCheck, HostPolicy, ProxyPaths, SiteProxy, UpstreamAddress, UpstreamConfig,
            UpstreamFastCgi, UpstreamProtocol, UpstreamServer, UpstreamTls,
        },
    },
    control::helpers::serve,
    data::{
        engine::{AcceptedSocket, WorkerReady, blocking::PreparedWorker},
        services::{ServiceReply, Services},
        upstreams::{
            connect::{ConnectOutcome, ConnectRequest},
            table::{ServerAvailability, UpstreamTable},
        },
        worker::{
            Backends, StartTime, WorkerConfig, WorkerRows,
            mailbox::{ShutdownMode, WorkerMessage},
        },
    },
    sys::poll::{PollEntry, poll},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};
use tarpon_conn::ServerEvent::{Closed, Opened};

/// Returns an upstream with these servers.
fn upstream(servers: &[UpstreamAddress]) -> UpstreamConfig {
    let second = Duration::from_secs(1);
    let server = |address: &UpstreamAddress| UpstreamServer {
        address: address.clone(),
        weight: 1,
        is_backup: false,
        is_draining: false,
    };
    UpstreamConfig {
        name: "app".to_owned(),
        protocol: UpstreamProtocol::Http,
        servers: servers.iter().map(server).collect(),
        balance: Balance::RoundRobin,
        host: HostPolicy::Client,
        connect_timeout: 60 * second,
        response_timeout: 60 * second,
        idle_timeout: 60 * second,
        total_timeout: None,
        tunnel_timeout: 3_600 * second,
        max_body: 1 << 20,
        pool_size: None,
        pool_idle_time: 65 * second,
        pool_requests: 1_000,
        max_connections: None,
        retries: 0,
        health: None,
        max_fails: 3,
        fail_time: 3_600 * second,
        slow_start: Duration::ZERO,
        tls: UpstreamTls::default(),
        fastcgi: UpstreamFastCgi {
            root: None,
            index: "index.php".to_owned(),
            suffix: ".php".to_owned(),
            params: Vec::new(),
        },
    }
}

fn tcp(address: SocketAddr) -> UpstreamAddress {
    UpstreamAddress::Tcp { host: address.ip().to_string(), port: address.port() }
}

/// Returns the address of a port at which nothing listens.
fn closed_port() -> UpstreamAddress {
    tcp(TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap())
}

/// A helper that runs on threads, as long as the test.
struct UpstreamHelperThreads {
    service: UpstreamService,
    table: Arc<UpstreamTable>,
    messages: Receiver<FromUpstreams>,
}

impl UpstreamHelperThreads {
    fn start(config: UpstreamConfig) -> UpstreamHelperThreads {
        let paths = ProxyPaths::Below("/app".parse().unwrap());
        let proxy = SiteProxy { paths, upstream: config.name.clone(), base: None };
        let site = SiteConfig { proxies: vec![proxy], ..SiteConfig::default() };
        let service = UpstreamService::new(&[config], &[site]).unwrap().expect("an upstream");
        let inbox = Arc::new(Inbox::new().unwrap());
        let resolved = Arc::clone(&inbox);
        let report = move |server, addresses| resolved.push(InboxItem::Addresses(server, addresses));
        let resolver = Resolver::start(service.names(), report).unwrap();
        let (sender, messages) = channel();
        let report = move |message: &FromUpstreams| drop(sender.send(message.clone()));
        let (setups, table) = (service.setups(), service.table());
        let log = ReportLog::new(service.reports().clone(), service.described(), &table);
        let event_loop =
            UpstreamLoop::new(setups, Arc::clone(&inbox), service.table(), resolver, log, report);
        thread::spawn(move || event_loop.run());
        let helper = service.helper().clone();
        thread::spawn(move || {
            serve(&helper, |request, reply| inbox.push(InboxItem::Request(request, reply)))
        });
        UpstreamHelperThreads { service, table, messages }
    }

    fn session(&self) -> ConnectSession {
        Services::new(self.service.backends().endpoints()[0].clone())
    }
}

type ConnectSession = Services<ConnectRequest, ConnectOutcome>;

fn receive(session: &mut ConnectSession) -> ServiceReply<ConnectOutcome> {
    loop {
        if let Some(reply) = session.receive() {
            return reply;
        }
        let socket = session.session().expect("a session");
        poll(&mut [PollEntry::new(socket, libc::POLLIN)], None).unwrap();
    }
}

fn connect(session: &mut ConnectSession) -> ServiceReply<ConnectOutcome> {
    session.request(&ConnectRequest { server: 0, row: 0 }).unwrap();
    receive(session)
}

#[derive(Clone, Copy, Debug)]
enum EngineUnderTest {
    Engine(Engine),
    /// As in a process of the engine `fork`.
    OneConnection,
}

/// Returns the status line of a response to a request for a path, by a worker with these backends.
fn status_line(engine: EngineUnderTest, backends: Backends, path: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listeners = match engine {
        EngineUnderTest::Engine(_) => vec![listener.try_clone().unwrap().into()],
        EngineUnderTest::OneConnection => Vec::new(),
    };
    let config = WorkerConfig::for_test(2, listeners).with_backends(backends);
    // Clients that wait are for the other worker.
    config.idle_workers.set(1, true);
    let mailbox = Arc::clone(&config.mailbox);
    let (started, is_started) = channel();
    let worker = thread::spawn(move || match engine {
        EngineUnderTest::Engine(engine) => engine.run(config, WorkerReady(started)).unwrap(),
        EngineUnderTest::OneConnection => {
            started.send(()).unwrap();
            let (client, _) = listener.accept().unwrap();
            client.set_nonblocking(true).unwrap();
            let rows = WorkerRows { number: 1, counters: 0, start: StartTime::now(), log: None };
            let mailbox = Arc::clone(&config.mailbox);
            let mut worker = PreparedWorker::new(WorkerConfig { upstream_row: None, ..config }).unwrap();
            worker.serve(AcceptedSocket { fd: client.into(), listener: 0 }, rows, &mailbox, || ()).unwrap();
        }
    });
    is_started.recv().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    // The worker waits for it to close.
    drop(client);
    mailbox.post(WorkerMessage::Shutdown { mode: ShutdownMode::Stop, grace: Duration::from_secs(60) });
    worker.join().unwrap();
    response.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn workers_of_all_engines_connect_through_the_helper() {
    let in_threads =
        Engine::ALL.iter().filter(|engine| !matches!(engine, Engine::Prefork | Engine::Fork | Engine::Auto));
    let engines =
        in_threads.map(|&engine| EngineUnderTest::Engine(engine)).chain([EngineUnderTest::OneConnection]);
    for engine in engines {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let helper = UpstreamHelperThreads::start(upstream(&[tcp(listener.local_addr().unwrap())]));
        let backends = || {
            let mut backends = Backends::default();
            helper.service.backends().add_to(&mut backends).unwrap();
            if matches!(engine, EngineUnderTest::Engine(engine) if !engine.is_blocking()) {
                backends.upstreams.as_mut().unwrap().start_thread().unwrap();
            }
            backends
        };
        // It closes the connection without a response.
        let server = thread::spawn(move || drop(listener.accept().unwrap()));
        assert_eq!(status_line(engine, backends(), "/app/x"), "HTTP/1.1 502 Bad Gateway", "{engine:?}");
        server.join().unwrap();
        assert_eq!(helper.table.counts(0).connects, 1, "{engine:?}");
        assert_eq!(
            status_line(engine, backends(), "/app"),
            "HTTP/1.1 502 Bad Gateway",
            "{engine:?}: refused"
        );
        let counts = helper.table.counts(0);
        assert_eq!((counts.connects, counts.connect_failures, counts.open), (1, 1, 0), "{engine:?}");
        assert_eq!(
            status_line(engine, backends(), "/"),
            "HTTP/1.1 200 OK",
            "{engine:?}: not at the upstream"
        );
    }
}

#[test]
fn request_waits_until_a_connection_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let limited =
        UpstreamConfig { max_connections: Some(2), ..upstream(&[tcp(listener.local_addr().unwrap())]) };
    let helper = UpstreamHelperThreads::start(limited);
    let (mut one, mut other) = (helper.session(), helper.session());
    helper.table.reset_row(0);
    for _ in 0..2 {
        assert_eq!(connect(&mut one).result, Ok(ConnectOutcome::Connected));
    }
    // Those that were sent count, also before their worker counts them.
    other.request(&ConnectRequest { server: 0, row: 0 }).unwrap();
    while helper.table.waiting(0) == 0 {
        thread::yield_now();
    }
    [Opened, Opened].into_iter().for_each(|event| helper.table.note(0, 0, event));
    assert!(other.receive().is_none());
    helper.table.note(0, 0, Closed);
    assert_eq!(receive(&mut other).result, Ok(ConnectOutcome::Connected));
    let refused = UpstreamConfig {
        max_connections: Some(0),
        connect_timeout: Duration::ZERO,
        ..upstream(&[closed_port()])
    };
    let helper = UpstreamHelperThreads::start(refused);
    assert_eq!(connect(&mut helper.session()).result, Ok(ConnectOutcome::Full), "none within its time");
}

#[test]
fn server_that_refuses_connections_is_suspended_beside_another() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = tcp(listener.local_addr().unwrap());
    for (servers, state) in [
        (vec![closed_port(), open], ServerAvailability::Suspended),
        (vec![closed_port()], ServerAvailability::Usable),
    ] {
        let helper = UpstreamHelperThreads::start(upstream(&servers));
        let mut session = helper.session();
        for _ in 0..3 {
            assert_eq!(connect(&mut session).result, Ok(ConnectOutcome::Unreachable));
        }
        if state == ServerAvailability::Suspended {
            let why = "connection refused, 3 times within 3600s".to_owned();
            assert_eq!(helper.messages.recv(), Ok(FromUpstreams::Down { server: 0, why }));
        }
        // Another answer comes after the state was written.
        assert_eq!(connect(&mut session).result, Ok(ConnectOutcome::Unreachable));
        assert_eq!(helper.table.state(0), state);
    }
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let health = HealthCheck {
        path: "/health?of=app".to_owned(),
        interval: Duration::from_millis(1),
        timeout: Duration::from_secs(60),
        rise: 2,
        fall: 3,
    };
    let checked = UpstreamConfig { health: Some(health), ..upstream(&[tcp(listener.local_addr().unwrap())]) };
    let helper = UpstreamHelperThreads::start(checked);
    let respond = |status: &str| {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 512];
        let len = client.read(&mut request).unwrap();
        assert!(request[..len].starts_with(b"GET /health?of=app HTTP/1.1\r\nHost: 127.0.0.1:"));
        write!(client, "HTTP/1.1 {status}\r\n\r\n").unwrap();
    };
    for status in ["200 OK", "500 Error", "404 Not Found", "503 Unavailable"] {
        respond(status);
    }
    let why = "its status is 503, at 3 checks in a row".to_owned();
    assert_eq!(helper.messages.recv(), Ok(FromUpstreams::Down { server: 0, why }));
    respond("302 Found");
    respond("204 No Content");
    assert_eq!(helper.messages.recv(), Ok(FromUpstreams::Up { server: 0 }));
}

#[test]
fn names_and_unix_sockets_are_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = |host: &str| UpstreamAddress::Tcp { host: host.to_owned(), port };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    for address in [name("localhost"), UpstreamAddress::Unix(path)] {
        let reply = connect(&mut UpstreamHelperThreads::start(upstream(&[address])).session());
        assert_eq!(reply.result, Ok(ConnectOutcome::Connected));
        assert!(reply.descriptor.is_some());
    }
    // No name of the domain `invalid` exists: RFC 6761, section 6.4.
    let helper = UpstreamHelperThreads::start(upstream(&[name("a.invalid")]));
    assert_eq!(connect(&mut helper.session()).result, Ok(ConnectOutcome::Unreachable));
    assert!(matches!(helper.messages.recv(), Ok(FromUpstreams::Unresolved { server: 0, .. })));
}
