//! The limits of clients, on every engine: requests per second, open connections, and addresses that are allowed or denied.

use crate::common::{
    EMBEDDED, ENGINES,
    client::{TestClient, connect_on, connected, get},
    endpoint::{Endpoint, TestTls},
    is_disconnect,
    program::{RunningProgram, children, process_name, serve_config},
    readable_dir,
    server::{EmbeddedServer, settings_with_http2},
    site, wait_for, workers,
};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket, sockopt::set_socket_linger},
    process::{Signal, kill_process},
};
use std::{
    fs, io,
    net::{IpAddr, SocketAddr, TcpStream},
    num::NonZeroU32,
    os::unix::fs::PermissionsExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tarpon::{
    Engine, Functions, LimitChoice, PathLimit, Request, Route, Settings, Site, UnknownHost, VirtualHost,
    VirtualHosts,
};

/// One request in an hour, after a burst of 3: no test takes so long that another one would pass.
const SERVER: &str = "request-rate = \"1/h\"\nrequest-burst = 3";

/// The length of /long.txt in bytes.
const LONG_LEN: usize = 60_000;

#[test]
fn requests_of_all_workers_count_together() {
    for &engine in ENGINES {
        let served = Limited::start(engine, SERVER, "");
        for (_, connect) in connect_on(engine) {
            let mut client = connect(served.program.address());
            let statuses: Vec<_> = (0..5).map(|_| client.get("/").status).collect();
            // Each client has a connection of its own, which another worker may have accepted.
            let others: Vec<_> = (0..3).map(|_| connect(served.program.address()).get("/").status).collect();
            assert_eq!(others, [429; 3], "{engine}");
            let is_first = statuses[0] == 200;
            assert_eq!(statuses, if is_first { [200, 200, 200, 429, 429] } else { [429; 5] }, "{engine}");
            let refused = client.get("/");
            let wait: u32 = refused.field("Retry-After").expect("Retry-After").parse().expect("seconds");
            assert!((1..=3_600).contains(&wait), "{engine}: {wait}");
            assert!(
                String::from_utf8_lossy(&refused.content).contains("<h1>429 Too Many Requests</h1>"),
                "{engine}"
            );
            assert!(!refused.closes(), "{engine}: the connection stays usable");
        }
        wait_for("the line of the log", || {
            served.program.err().contains("more than 1/h to all sites").then_some(())
        });
        let lines = served.program.err().matches("requests are refused with 429").count();
        assert_eq!(lines, 1, "{engine}: one line, of all workers together");
    }
}

#[test]
fn paths_have_limits_of_their_own() {
    let paths = "[[site.limit]]\npath = \"/api\"\nrequest-rate = \"1/h\"\n\
                 [[site.limit]]\npath = \"/api/free\"\nrequest-rate = \"off\"\n";
    for &engine in ENGINES {
        let served = Limited::start(engine, SERVER, paths);
        let mut client = TestClient::connect(served.program.address());
        let mut statuses =
            |targets: &[&str]| -> Vec<_> { targets.iter().map(|target| client.get(target).status).collect() };
        // A path with a limit of its own does not count for the server.
        assert_eq!(statuses(&["/api/", "/api/", "//api/", "/x/..%2fapi/"]), [200, 429, 429, 429], "{engine}");
        assert_eq!(statuses(&["/api/free/"; 5]), [200; 5], "{engine}");
        assert_eq!(statuses(&["/", "/", "/", "/"]), [200, 200, 200, 429], "{engine}");
    }
}

#[test]
fn a_reload_forgives_nothing() {
    for &engine in ENGINES {
        let served = Limited::start(engine, SERVER, "");
        let mut client = TestClient::connect(served.program.address());
        assert_eq!(
            (0..4).map(|_| client.get("/").status).collect::<Vec<_>>(),
            [200, 200, 200, 429],
            "{engine}"
        );
        drop(client);
        served.program.signal(Signal::HUP);
        wait_for("the reload", || served.program.out().contains("\nreloaded\n").then_some(()));
        assert_eq!(TestClient::connect(served.program.address()).get("/").status, 429, "{engine}");
    }
}

#[test]
fn functions_of_a_program_count_too() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let functions = Functions::new()
            .route(Route::new("/fast", |_: &mut Request<'_>| "fast"))
            .route(Route::new("/slow", |_: &mut Request<'_>| "slow").on_threads());
        let rate = |path: &str| PathLimit {
            path: Some(path.parse().expect("a prefix")),
            request_rate: Some(LimitChoice::At("1/h".parse().expect("a rate"))),
            request_burst: NonZeroU32::new(2),
            ..PathLimit::default()
        };
        let host = VirtualHost {
            path_limits: vec![rate("/fast"), rate("/slow")],
            ..VirtualHost::from(Site::from_dir(dir.path()).expect("a site"))
        };
        let hosts =
            VirtualHosts::new(vec![host], UnknownHost::Site(0)).expect("a site").with_functions(functions);
        let server = EmbeddedServer::sites(&settings_with_http2(engine, 2), hosts);
        for (number, (_, connect)) in connect_on(engine).enumerate() {
            let mut client = connect(server.address);
            for path in ["/fast", "/slow"] {
                let statuses: Vec<_> = (0..4).map(|_| client.get(path).status).collect();
                let want = if number == 0 { [200, 200, 429, 429] } else { [429; 4] };
                assert_eq!(statuses, want, "{engine}: {path}");
            }
            assert_eq!(client.get("/").status, 200, "{engine}");
        }
        let limited = 4 * connect_on(engine).count() as u64 + 4 * (connect_on(engine).count() as u64 - 1);
        wait_for("the metrics", || (server.handle.metrics().requests_limited == limited).then_some(()));
    }
}

#[test]
fn an_address_has_no_more_connections_than_its_limit() {
    for &engine in ENGINES {
        let served = Limited::start(engine, "max-connections-per-ip = 3", "");
        let mut open: Vec<_> = (0..3).map(|_| served.client("127.0.0.1")).collect();
        // Each has its response: the server has accepted all of them.
        open.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200, "{engine}"));
        // A reset, before anything is read.
        assert!(served.is_refused("127.0.0.1"), "{engine}");
        assert_eq!(served.client("127.0.0.2").get("/").status, 200, "{engine}: another address");
        open.iter_mut()
            .for_each(|client| assert_eq!(client.get("/").status, 200, "{engine}: the others stay"));
        // The end of a connection frees its place, and so each time.
        for _ in 0..5 {
            drop(open.pop());
            open.push(wait_for("a free place", || {
                let mut client = served.client("127.0.0.1");
                client.try_send(get("/")).ok()?;
                client.try_response().ok().map(|_| client)
            }));
            assert!(served.is_refused("127.0.0.1"), "{engine}");
        }
        wait_for("the line of the log", || {
            served.program.err().contains("an address has 3 open, the most").then_some(())
        });
        assert_eq!(served.program.err().matches("connections are reset").count(), 1, "{engine}");
    }
}

#[test]
fn processes_that_die_leave_no_connections_behind() {
    for &engine in ENGINES {
        let served = Limited::start(engine, "max-connections-per-ip = 2", "");
        for _ in 0..3 {
            let _open: Vec<_> = (0..2).map(|_| served.served_client()).collect();
            assert!(served.is_refused("127.0.0.1"), "{engine}");
            let server = served.program.server();
            let workers: Vec<_> = children(server)
                .into_iter()
                .filter(|&child| process_name(child).as_deref() == Some("tarpon-worker"))
                .collect();
            // The worker processes, or with threads the whole server.
            for process in if workers.is_empty() { vec![server] } else { workers } {
                // One that served nothing may have exited.
                let _ = kill_process(process, Signal::KILL);
            }
        }
        // After a reload, too.
        let open = [served.served_client(), served.served_client()];
        served.program.signal(Signal::HUP);
        wait_for("the reload", || served.program.out().contains("\nreloaded\n").then_some(()));
        assert!(served.is_refused("127.0.0.1"), "{engine}: the former server has them");
        drop(open);
        served.served_client();
    }
}

#[test]
fn trusted_proxies_and_unix_sockets_have_as_many_connections_as_they_like() {
    for &engine in ENGINES {
        let options = "max-connections-per-ip = 1\ntrusted-proxies = [\"127.0.0.2\"]\nclient-address-from = \"forwarded\"";
        let served = Limited::start(engine, options, "");
        let mut open: Vec<_> = (0..4).map(|_| served.client("127.0.0.2")).collect();
        open.extend((0..4).map(|_| TestClient::connect_unix(&served.dir.path().join("http.sock"))));
        open.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200, "{engine}"));
        let _first = served.served_client();
        assert!(served.is_refused("127.0.0.1"), "{engine}");
    }
}

#[test]
fn denied_addresses_may_not_connect() {
    for &engine in ENGINES {
        let options = "allow = [\"127.0.0.0/8\"]\ndeny = [\"127.0.0.3\", \"127.9.0.0/16\"]";
        let served = Limited::start(engine, options, "");
        for (from, is_served) in [
            ("127.0.0.1", true),
            ("127.0.0.3", false),
            ("127.9.1.2", false),
            ("127.0.0.4", true),
            ("127.0.0.3", false),
        ] {
            assert_eq!(served.is_refused(from), !is_served, "{engine}: {from}");
        }
        // It is not among those that are allowed.
        let mut client = TestClient::connect_unix(&served.dir.path().join("http.sock"));
        assert!(client.try_send(get("/")).is_err() || client.try_response().is_err(), "{engine}");
    }
}

#[test]
fn denied_clients_get_403_at_some_paths() {
    let paths = "[[site.limit]]\npath = \"/api\"\nallow = [\"127.0.0.2\", \"203.0.113.0/24\"]\n\
                 [[site.limit]]\npath = \"/api/free\"\nallow = [\"all\"]\ndeny = [\"127.0.0.5\"]\n";
    let options = "trusted-proxies = [\"127.0.0.9\"]\nclient-address-from = \"forwarded\"";
    for &engine in ENGINES {
        let served = Limited::start(engine, options, paths);
        #[rustfmt::skip]
        let cases = [
            // from         Forwarded               path           status
            ("127.0.0.1",   "",                     "/",           200),
            ("127.0.0.1",   "",                     "/api/",       403),
            ("127.0.0.1",   "",                     "//api/",      403),
            ("127.0.0.1",   "",                     "/%61pi/none", 403),
            ("127.0.0.1",   "for=203.0.113.7",      "/api/",       403),
            ("127.0.0.1",   "",                     "/api/free/",  200),
            ("127.0.0.5",   "",                     "/api/free/",  403),
            ("127.0.0.2",   "",                     "/api/",       200),
            ("127.0.0.9",   "for=203.0.113.7",      "/api/",       200),
            ("127.0.0.9",   "for=198.51.100.7",     "/api/",       403),
        ];
        for (from, forwarded, path, want) in cases {
            let field =
                if forwarded.is_empty() { String::new() } else { format!("Forwarded: {forwarded}\r\n") };
            let mut client = served.client(from);
            for _ in 0..2 {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
                let response = client.response();
                assert_eq!(response.status, want, "{engine}: {path} from {from}, {forwarded}");
                assert!(!response.closes(), "{engine}: the connection stays usable");
            }
        }
    }
}

#[test]
fn clients_beyond_all_connections_wait_and_are_answered() {
    for &engine in EMBEDDED.iter().filter(|engine| !engine.is_blocking()) {
        let dir = site(&[("index.html", "home")]);
        let settings = Settings { max_connections: NonZeroU32::new(2), ..settings_with_http2(engine, 1) };
        let server = EmbeddedServer::dir(&settings, dir.path());
        let mut open = [(); 2].map(|()| TestClient::connect(server.address));
        open.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200, "{engine}"));
        // Two more: the kernel has accepted them, and the worker has not.
        let mut waiting = [(); 2].map(|()| TestClient::connect(server.address));
        for number in 0..2 {
            assert!(waiting[number].send(get("/")), "{engine}");
            (0..20)
                .for_each(|_| assert_eq!(open[1].get("/").status, 200, "{engine}: the open ones are served"));
            assert_eq!(server.handle.metrics().accepted, 2 + number as u64, "{engine}");
            // A place becomes free.
            match number {
                0 => open[0].shutdown_socket(),
                _ => waiting[0].shutdown_socket(),
            }
            assert_eq!(waiting[number].response().status, 200, "{engine}: client {number} was not forgotten");
        }
    }
}

#[test]
fn limits_hold_over_tls() {
    let tls = TestTls::new();
    for &engine in ENGINES {
        let paths = "[[site.limit]]\npath = \"/api\"\ndeny = [\"127.0.0.0/8\"]\n";
        let [certificate, key] = tls.files();
        let options = format!(
            "{SERVER}\nmax-connections-per-ip = 3\ntls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n\
             [[listener]]\naddress = \"tls:127.0.0.2:0\"\n"
        );
        let served = Limited::start(engine, &options, paths);
        let addresses = served.program.addresses();
        let [_, tls13, tls12] = tls.endpoints(&addresses);
        let mut client = tls13.connect();
        let statuses: Vec<_> = (0..5).map(|_| client.get("/").status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429], "{engine}");
        assert_eq!(client.get("/api/").status, 403, "{engine}");
        // The limit counts the connections of all listeners: the fourth is reset before its handshake.
        let mut others = [tls12.connect(), TestClient::connect(served.program.address())];
        others.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 429, "{engine}"));
        assert!(tls13.try_client(connected(tls13.address)).is_err(), "{engine}");
    }
}

#[test]
fn a_listener_has_addresses_of_its_own() {
    for &engine in ENGINES {
        let options =
            "deny = [\"127.0.0.3\"]\n[[listener]]\naddress = \"127.0.0.4:0\"\nallow = [\"127.0.0.3\"]\n";
        let served = Limited::start(engine, options, "");
        let addresses = served.program.addresses();
        let [usual, own] = addresses[..] else { panic!("{engine}: {addresses:?}") };
        for (from, at_usual, at_own) in [("127.0.0.2", true, false), ("127.0.0.3", false, true)] {
            for (at, is_allowed) in [(usual, at_usual), (own, at_own)] {
                let answered = client_from(from, at).and_then(|mut client| {
                    client.try_send(get("/"))?;
                    client.try_response()
                });
                match answered {
                    Ok(response) => assert!(is_allowed && response.status == 200, "{engine}: {from} at {at}"),
                    Err(error) => {
                        assert!(!is_allowed && is_disconnect(&error), "{engine}: {from} at {at}: {error}")
                    }
                }
            }
        }
        // A list alone, without any of the server, does the same.
        let own = "[[listener]]\naddress = \"127.0.0.4:0\"\nallow = [\"10.0.0.0/8\"]\n";
        let served = Limited::start(engine, own, "");
        let addresses = served.program.addresses();
        assert_eq!(TestClient::connect(addresses[0]).get("/").status, 200, "{engine}");
        let refused = client_from("127.0.0.2", addresses[1]).and_then(|mut client| {
            client.try_send(get("/"))?;
            client.try_response()
        });
        assert!(refused.is_err_and(|error| is_disconnect(&error)), "{engine}");
    }
}

#[test]
fn a_flood_of_resets_is_held_back_by_the_kernel() {
    // A process for each connection ends with it, and notices no flood.
    for &engine in ENGINES.iter().filter(|&&engine| engine != Engine::Fork) {
        let served = Limited::start(engine, "", "");
        let address = served.program.address();
        // The line comes once the kernel has agreed.
        let is_noticed = || served.program.err().contains("clients connect and reset at once");
        let start = Instant::now();
        while !is_noticed() {
            assert!(start.elapsed() < Duration::from_secs(60), "{engine}: no flood is noticed");
            for _ in 0..1_000 {
                // A full queue refuses some.
                if let Ok(silent) = TcpStream::connect(address) {
                    set_socket_linger(&silent, Some(Duration::ZERO)).expect("an option");
                }
            }
        }
        assert_eq!(TestClient::connect(address).get("/").status, 200, "{engine}");
    }
}

#[test]
fn a_request_arrives_with_the_first_packet() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // A connection has the cookie that one before got.
    let script = "ip link set lo up && echo 3 > /proc/sys/net/ipv4/tcp_fastopen || exit 1
        \"$0\" serve --config tarpon.toml >&2 & server=$!
        for at in 1 2 3; do
            until curl --silent --fail --tcp-fastopen --output got http://127.0.0.1:8080/; do kill -0 $server || exit 1; done
            cat got
        done
        kill $server; wait $server
        awk '/^TcpExt:/ { if (names[1] == \"\") { split($0, names) } else { for (at in names) if (names[at] == \"TCPFastOpenPassive\") print \" \" $at } }' /proc/net/netstat";
    for (line, is_open) in [("fast-open = 16\n", true), ("", false)] {
        let dir = site(&[("site/index.html", "home")]);
        let config = format!(
            "[server]\nadmin = \"off\"\n[[site]]\npath = \"site\"\n[[listener]]\naddress = \"127.0.0.1:8080\"\n{line}"
        );
        fs::write(dir.path().join("tarpon.toml"), config).expect("a file");
        let output = Command::new("unshare")
            .args(["--net", "sh", "-c", script, env!("CARGO_BIN_EXE_tarpon")])
            .current_dir(dir.path())
            .output()
            .expect("unshare");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = text.trim().strip_prefix("homehomehome ").and_then(|count| count.parse::<u32>().ok());
        let count = count.unwrap_or_else(|| panic!("{text}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(count > 0, is_open, "{line}: {count} requests");
    }
}

#[test]
fn responses_leave_at_their_rate() {
    // A step of 5,000 bytes leaves at once, and the rest takes 1.375 s.
    let tls = TestTls::new();
    let [certificate, key] = tls.files();
    let options = format!(
        "tls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n[[listener]]\naddress = \"tls:127.0.0.2:0\"\n"
    );
    thread::scope(|scope| {
        for &engine in ENGINES {
            let (tls, options) = (&tls, &options);
            scope.spawn(move || {
                let behind = Limited::start(engine, "", "");
                let paths = format!(
                    "proxy = [\"/up/=http://{}/\"]\n[[site.limit]]\nmax-send-rate = 40000\n\
                     [[site.limit]]\npath = \"/api\"\nmax-send-rate = 0\n",
                    behind.program.address()
                );
                let served = Limited::start(engine, options, &paths);
                let mut clients: Vec<_> =
                    connect_on(engine).map(|(_, connect)| connect(served.program.address())).collect();
                clients.extend(
                    tls.endpoints_with_http2(engine, &served.program.addresses())
                        .iter()
                        .skip(1)
                        .map(Endpoint::connect),
                );
                thread::scope(|scope| {
                    for (number, client) in clients.iter_mut().enumerate() {
                        scope.spawn(move || {
                            for path in
                                if number == 0 { &["/long.txt", "/up/long.txt"][..] } else { &["/long.txt"] }
                            {
                                let begin = Instant::now();
                                assert_eq!(client.get(path).content.len(), LONG_LEN, "{engine}: {path}");
                                // A message of another server leaves whole.
                                let least =
                                    Duration::from_millis(if *path == "/long.txt" { 1_370 } else { 900 });
                                assert!(begin.elapsed() >= least, "{engine}: {path}, client {number}");
                            }
                        });
                    }
                });
                let mut client = TestClient::connect(served.program.address());
                let begin = Instant::now();
                (0..3).for_each(|_| assert_eq!(client.get("/api/").status, 200, "{engine}"));
                // Short responses wait for nothing.
                assert!(begin.elapsed() < Duration::from_secs(10), "{engine}");
            });
        }
    });
}

#[test]
fn programs_and_other_servers_answer_within_the_limits() {
    let bin = readable_dir();
    let program = bin.path().join("hello");
    fs::write(&program, "#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Length: 5\\n\\nhello'\n")
        .expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    for &engine in ENGINES {
        let behind = Limited::start(engine, "", "");
        let limit = |path: &str| {
            format!("[[site.limit]]\npath = \"{path}\"\nrequest-rate = \"1/h\"\nrequest-burst = 2\n")
        };
        let deny = "[[site.limit]]\npath = \"/up/api\"\ndeny = [\"127.0.0.1\"]\n";
        let (cgi, up) = (bin.path().to_str().expect("UTF-8"), behind.program.address());
        let paths = format!(
            "cgi = [\"/cgi/={cgi}\"]\nproxy = [\"/up/=http://{up}/\"]\n{}{}{deny}",
            limit("/cgi"),
            limit("/up")
        );
        let user = if rustix::process::geteuid().is_root() { "cgi-user = \"daemon\"\n" } else { "" };
        let served = Limited::start(engine, user, &paths);
        let mut client = TestClient::connect(served.program.address());
        for path in ["/cgi/hello", "/up/"] {
            let statuses: Vec<_> = (0..4).map(|_| client.get(path).status).collect();
            assert_eq!(statuses, [200, 200, 429, 429], "{engine}: {path}");
        }
        for path in ["/up/api/", "/up//api/", "/up/x/..%2fapi/"] {
            assert_eq!(client.get(path).status, 403, "{engine}: {path}");
        }
        assert_eq!(client.get("/").status, 200, "{engine}: the connection stays usable");
    }
}

/// A program with limits.
struct Limited {
    program: RunningProgram,
    dir: tempfile::TempDir,
}

impl Limited {
    /// Serves a site with these options of the server, and these sections of the site.
    fn start(engine: Engine, server: &str, paths: &str) -> Limited {
        let page = |path: &str| (format!("site/{path}index.html"), "home");
        let dir = site(&["", "api/", "api/free/"].map(page));
        fs::write(dir.path().join("site/long.txt"), "x".repeat(LONG_LEN)).expect("a file");
        let config = format!(
            "[[site]]\npath = \"site\"\n{paths}\
             [[listener]]\naddress = \"127.0.0.1:0\"\n[[listener]]\naddress = \"unix:http.sock\"\n\
             [server]\nengine = \"{engine}\"\nworkers = {}\n{server}\n",
            workers(engine, 2)
        );
        Limited { program: RunningProgram::start_ready(serve_config(&config, dir.path(), &[])), dir }
    }

    /// Connects from this address of the host.
    fn client(&self, from: &str) -> TestClient {
        client_from(from, self.program.address()).expect("a listener")
    }

    /// Waits until there is a place for another client, and returns it after its first response.
    fn served_client(&self) -> TestClient {
        wait_for("a free place", || {
            let mut client = self.client("127.0.0.1");
            client.try_send(get("/")).ok()?;
            client.try_response().ok().map(|_| client)
        })
    }

    /// Returns whether a connection from this address is closed without a response.
    fn is_refused(&self, from: &str) -> bool {
        let mut client = self.client(from);
        // A reset may arrive before the request is sent.
        client.try_send(get("/")).is_err() || client.try_response().is_err()
    }
}

/// Connects from an address of the host to a listener.
fn client_from(from: &str, to: SocketAddr) -> io::Result<TestClient> {
    let from = SocketAddr::new(from.parse::<IpAddr>().expect("an address"), 0);
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&stream, &from)?;
    connect(&stream, &to)?;
    Ok(TestClient::new(TcpStream::from(stream)))
}
