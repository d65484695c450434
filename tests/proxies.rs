//! The client behind a proxy: Forwarded, X-Forwarded-For and PROXY headers of trusted proxies, and of others.

use crate::common::{
    ENGINES,
    client::{TestClient, connected, get},
    endpoint::TestTls,
    kernel::wait_until_read,
    program::{RunningProgram, tarpon, with_long_timeouts},
    server::settings,
    site, wait_for, workers,
};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::Signal,
};
use std::{
    fs,
    io::Write,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    time::Duration,
};
use tarpon::{Address, Engine, Listener, ProxyTrust, Server, Settings, Site};

#[test]
fn the_log_has_the_client_that_trusted_proxies_name() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str, &[&str], &str)] = &[
        // case                       header that is read  peer         header lines                                            client
        ("no header",                 "x-forwarded-for",   "127.0.0.1", &[],                                                    "127.0.0.1"),
        ("the client",                "x-forwarded-for",   "127.0.0.1", &["X-Forwarded-For: 203.0.113.7"],                      "203.0.113.7"),
        ("a forged left part",        "x-forwarded-for",   "127.0.0.1", &["X-Forwarded-For: 198.51.100.9, 203.0.113.7"],        "203.0.113.7"),
        ("several lines and proxies", "x-forwarded-for",   "127.0.0.1", &["X-Forwarded-For: 198.51.100.9", "x-forwarded-for: 2001:db8::7, 10.0.0.2"], "2001:db8::7"),
        ("a peer that is no proxy",   "x-forwarded-for",   "127.0.0.2", &["X-Forwarded-For: 203.0.113.7"],                      "127.0.0.2"),
        ("the other header",          "x-forwarded-for",   "127.0.0.1", &["Forwarded: for=203.0.113.7"],                        "127.0.0.1"),
        ("malformed",                 "x-forwarded-for",   "127.0.0.1", &["X-Forwarded-For: 203.0.113.7, example.org"],         "127.0.0.1"),
        ("hidden",                    "forwarded",         "127.0.0.1", &["Forwarded: for=203.0.113.7, for=_a, for=10.0.0.2"],  "10.0.0.2"),
        ("quoted",                    "forwarded",         "127.0.0.1", &["Forwarded: for=\"[2001:db8::7]:1\";by=\"a, for=10.0.0.2\""], "2001:db8::7"),
        ("a client leaves a quote",   "forwarded",         "127.0.0.1", &["Forwarded: for=\"10.0.0.2, for=203.0.113.7"],        "203.0.113.7"),
        ("the former header",         "forwarded",         "127.0.0.1", &["X-Forwarded-For: 203.0.113.7"],                      "127.0.0.1"),
        ("another peer",              "forwarded",         "127.0.0.2", &["Forwarded: for=203.0.113.7"],                        "127.0.0.2"),
    ];
    for &engine in ENGINES {
        for field in ["x-forwarded-for", "forwarded"] {
            let served = Served::start(
                engine,
                &format!(
                    "trusted-proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\nclient-address-from = \"{field}\""
                ),
                "",
            );
            for &(case, _, peer, lines, client) in cases.iter().filter(|case| case.1 == field) {
                let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
                served.client(peer).send(format!(
                    "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: b\r\n{lines}Connection: close\r\n\r\n"
                ));
                assert_eq!(served.logged_clients(1), [client], "{case}: {engine}");
            }
        }
    }
}

#[test]
fn each_request_of_a_connection_has_its_client() {
    for &engine in ENGINES {
        let options = "trusted-proxies = [\"unix\"]\nclient-address-from = \"x-forwarded-for\"";
        let served = Served::start(engine, options, "");
        let request = |field: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        let fields = [
            "X-Forwarded-For: 203.0.113.7\r\n",
            "",
            "X-Forwarded-For: 203.0.113.8, 203.0.113.9\r\n",
            "X-Forwarded-For: unknown\r\n",
        ];
        let mut client = TestClient::connect_unix(&served.socket);
        client.send(fields.map(request).concat());
        fields.iter().for_each(|_| drop(client.response()));
        assert_eq!(served.logged_clients(4), ["203.0.113.7", "-", "203.0.113.9", "-"], "{engine}");
        // No proxy at a TCP port is trusted.
        served.client("127.0.0.1").send(request(fields[0]));
        assert_eq!(served.logged_clients(1), ["127.0.0.1"], "{engine}");
    }
}

#[test]
fn a_reload_changes_which_listeners_have_the_proxy_protocol() {
    let options = "trusted-proxies = [\"127.0.0.1\"]\nclient-address-from = \"x-forwarded-for\"";
    let served = Served::start(Engine::default(), options, "");
    let request = get("/").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for (listener, header, client) in [
        ("proxy-protocol = true", "PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n", "203.0.113.7"),
        ("proxy-protocol = false", "", "127.0.0.1"),
    ] {
        served.reload(options, listener);
        let request = format!("{header}{request}");
        // The former server may still accept a client.
        wait_for(listener, || (served.logged_client(&request).as_deref() == Some(client)).then_some(()));
    }
}

#[test]
fn a_reload_changes_which_proxies_are_trusted() {
    let options =
        |proxy: &str| format!("trusted-proxies = [\"{proxy}\"]\nclient-address-from = \"x-forwarded-for\"");
    let served = Served::start(Engine::default(), &options("127.0.0.1"), "");
    let request =
        get("/").replace("\r\n\r\n", "\r\nX-Forwarded-For: 203.0.113.7\r\nConnection: close\r\n\r\n");
    for (proxy, client) in
        [("127.0.0.1", "203.0.113.7"), ("127.0.0.2", "127.0.0.1"), ("127.0.0.0/8", "203.0.113.7")]
    {
        served.reload(&options(proxy), "");
        wait_for(proxy, || (served.logged_client(&request).as_deref() == Some(client)).then_some(()));
    }
}

#[test]
fn each_connection_begins_with_a_proxy_header() {
    let v1 = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n";
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x08\x0a\0\0\x01\x12\x67\0\x50";
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let late = &v1[..20];
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[u8], &str)] = &[
        // case                       peer         header                             client, or nothing: closed
        ("version 1",                 "127.0.0.1", v1,                                "203.0.113.7"),
        ("version 2",                 "127.0.0.1", v2,                                "203.0.113.8"),
        ("local",                     "127.0.0.1", local,                             "127.0.0.1"),
        ("unknown",                   "127.0.0.1", b"PROXY UNKNOWN\r\n",              "127.0.0.1"),
        ("none",                      "127.0.0.1", b"",                               ""),
        ("malformed",                 "127.0.0.1", b"PROXY TCP4 1 2 3 4\r\n",         ""),
        ("a peer that is no proxy",   "127.0.0.2", v1,                                ""),
    ];
    for &engine in ENGINES {
        let options = ("trusted-proxies = [\"127.0.0.1\", \"unix\"]", "proxy-protocol = true");
        let served = Served::start(engine, options.0, options.1);
        let request = get("/").into_bytes();
        for &(case, peer, header, client) in cases {
            let input = [header, &request].concat();
            // At once, and cut within and behind the header: the server has read the first part when it is sent.
            for cut in [input.len(), 1, header.len().saturating_sub(1), header.len()] {
                let mut proxy = served.client(peer);
                let sent = proxy.try_send(&input[..cut]).and_then(|()| {
                    if cut < input.len() && !client.is_empty() {
                        wait_until_read([&proxy]);
                    }
                    proxy.try_send(&input[cut..])
                });
                if client.is_empty() {
                    assert!(
                        sent.is_err() || proxy.try_read_to_end().unwrap_or_default().is_empty(),
                        "{case}: {engine}, {cut}"
                    );
                    continue;
                }
                assert_eq!(proxy.response().content, b"home", "{case}: {engine}, {cut}");
                proxy.send(get("/"));
                proxy.response();
                assert_eq!(served.logged_clients(2), [client; 2], "{case}: {engine}, {cut}");
            }
        }
        let mut proxy = TestClient::connect_unix(&served.socket);
        proxy.send([v1, &*request].concat());
        proxy.response();
        assert_eq!(served.logged_clients(1), ["203.0.113.7"], "a Unix socket: {engine}");

        let impatient = Served::start_with(engine, options.0, options.1, &["--header-timeout", "300ms"]);
        let mut proxy = impatient.client("127.0.0.1");
        proxy.send(late);
        assert_eq!(proxy.try_read_to_end().unwrap_or_default(), b"", "a late header: {engine}");
    }
}

/// The header is not encrypted: the proxy does not end TLS.
#[test]
fn a_proxy_header_precedes_the_handshake() {
    let tls = TestTls::new();
    let v1 = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n";
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x08\x0a\0\0\x01\x12\x67\0\x50";
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &str)] = &[
        // case          header                         client, or nothing: closed
        ("version 1",    v1,                            "203.0.113.7"),
        ("version 2",    v2,                            "203.0.113.8"),
        ("none",         b"",                           ""),
        ("malformed",    b"PROXY TCP4 1 2 3 4\r\n",     ""),
    ];
    let files = tls.files();
    let server = format!(
        "trusted-proxies = [\"127.0.0.1\"]\ntls-cert = [{:?}]\ntls-key = [{:?}]\n\
         [[listener]]\naddress = \"tls:127.0.0.2:0\"\nproxy-protocol = true",
        files[0], files[1]
    );
    for &engine in ENGINES {
        let served = Served::start(engine, &server, "");
        let endpoints = tls.endpoints(&served.program.addresses());
        for ((case, header, client), endpoint) in
            cases.iter().flat_map(|case| endpoints[1..].iter().map(move |endpoint| (case, endpoint)))
        {
            let case = format!("{case}: {engine}, {endpoint}");
            // At once, and cut within and behind the header: the server has read the first part when it is sent.
            for cut in [0, 1, header.len()].map(|cut| cut.min(header.len())) {
                let mut socket = connected(endpoint.address);
                let mut proxy = TestClient::new(socket.try_clone().expect("a descriptor"));
                proxy.send(&header[..cut]);
                if cut > 0 && !client.is_empty() {
                    wait_until_read([&proxy]);
                }
                // A server that refuses the header may have closed the connection.
                let handshake = socket.write_all(&header[cut..]).and_then(|()| endpoint.try_client(socket));
                if client.is_empty() {
                    assert!(handshake.is_err(), "{case}, {cut}");
                    continue;
                }
                let mut through = handshake.unwrap_or_else(|error| panic!("{case}, {cut}: {error}"));
                assert_eq!(through.get("/").content, b"home", "{case}, {cut}");
                assert_eq!(served.logged_clients(1), [*client], "{case}, {cut}");
            }
        }
    }
}

#[test]
fn embedding_programs_have_the_same_listeners() {
    let dir = site(&[("index.html", "home")]);
    let listener = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Listener::try_from(listener).expect("a listener for all workers").with_proxy_protocol(true)
    };
    let start = |proxy_trust: ProxyTrust, listener: Listener| {
        let settings = Settings { proxy_trust, ..settings(Engine::default(), 1) };
        Server::start(&settings, vec![listener], Site::from_dir(dir.path()).expect("a site"))
    };
    let error = start(ProxyTrust::default(), listener()).expect_err("no proxy is trusted").to_string();
    assert!(error.contains("no proxy is trusted to send one"), "{error}");

    let proxies = ["127.0.0.1".parse().expect("an address")].into();
    let server = start(ProxyTrust { proxies, field: None }, listener()).expect("a server");
    let [Address::Tcp(address)] = *server.addresses() else { panic!("one TCP address") };
    let mut refused = TestClient::connect(address);
    assert!(!refused.send(get("/")) || refused.try_read_to_end().unwrap_or_default().is_empty());
    let mut proxy = TestClient::connect(address);
    proxy.send(format!("PROXY TCP6 2001:db8::7 ::1 4711 80\r\n{}", get("/")));
    assert_eq!(proxy.response().content, b"home");
    wait_for("the refusal", || (server.handle().metrics().proxy_refused == 1).then_some(()));
    server.handle().stop(Duration::ZERO);
    server.join().expect("no worker fails");
}

/// Writes the configuration of a server with a TCP port, a Unix socket and a log.
fn write_config(dir: &tempfile::TempDir, engine: Engine, server: &str, listener: &str) {
    let text = format!(
        "[[site]]\npath = \"site\"\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\n{listener}\n\
         [[listener]]\naddress = \"unix:http.sock\"\n{listener}\n\
         [server]\nengine = \"{engine}\"\nworkers = {}\nadmin = \"off\"\n{server}\n\
         [log]\naccess-log = \"log\"\naccess-log-format = \"simple\"\n",
        workers(engine, 1)
    );
    fs::write(dir.path().join("tarpon.toml"), text).expect("a file");
}

/// A program with a configuration file, a TCP port, a Unix socket and an access log.
struct Served {
    program: RunningProgram,
    engine: Engine,
    dir: tempfile::TempDir,
    /// The path of the Unix socket.
    socket: PathBuf,
}

impl Served {
    /// Serves with these options of the server and of both listeners.
    fn start(engine: Engine, server: &str, listener: &str) -> Served {
        Served::start_with(engine, server, listener, &[])
    }

    fn start_with(engine: Engine, server: &str, listener: &str, flags: &[&str]) -> Served {
        let dir = site(&[("site/index.html", "home")]);
        write_config(&dir, engine, server, listener);
        let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
        command.arg(dir.path().join("tarpon.toml")).args(flags);
        with_long_timeouts(&mut command);
        Served {
            program: RunningProgram::start_ready(command),
            engine,
            socket: dir.path().join("http.sock"),
            dir,
        }
    }

    /// Reloads with other options.
    fn reload(&self, server: &str, listener: &str) {
        let reloads = || self.program.out().matches("\nreloaded\n").count();
        let before = reloads();
        write_config(&self.dir, self.engine, server, listener);
        self.program.signal(Signal::HUP);
        wait_for("the reload", || (reloads() > before).then_some(()));
    }

    /// Connects to the TCP port from this address of the host.
    fn client(&self, from: &str) -> TestClient {
        let from = SocketAddr::new(from.parse::<IpAddr>().expect("an address"), 0);
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&stream, &from).expect("an address of this host");
        connect(&stream, &self.program.address()).expect("a listener");
        TestClient::new(TcpStream::from(stream))
    }

    /// Sends a request. Returns the client in its line of the log. `None`: the server has closed the connection without an answer.
    fn logged_client(&self, request: &str) -> Option<String> {
        let mut client = self.client("127.0.0.1");
        client.try_send(request).ok()?;
        match client.try_read_to_end().unwrap_or_default().is_empty() {
            true => None,
            false => self.logged_clients(1).pop(),
        }
    }

    /// Waits for this many lines in the log, and empties it. Returns their clients.
    fn logged_clients(&self, count: usize) -> Vec<String> {
        let path = self.dir.path().join("log");
        let lines = wait_for("lines", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            (text.lines().count() >= count && text.ends_with('\n')).then_some(text)
        });
        fs::write(&path, "").expect("a file");
        lines.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }
}
