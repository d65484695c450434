//! The admin listener: health, readiness, metrics, and the command `tarpon status`.

use crate::common::{
    ENGINES, TEST_TIMEOUT,
    client::{Response, TestClient, get},
    distinct_bytes,
    load::SetOnDrop,
    port::ReservedPort,
    program::{RunningProgram, has_exited, serve, tarpon, unprivileged, wrap_command},
    readable_dir, site, wait_for, workers,
};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

#[test]
fn openmetrics_has_the_trace_of_a_slow_request() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    /// What Prometheus 3 sends.
    const ACCEPT: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
        application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
        text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    for engine in [Engine::Epoll, Engine::Prefork] {
        let dir = site(&[("index.html", "home")]);
        let temp = readable_dir();
        let (log, admin) = (temp.path().join("access.log"), temp.path().join("admin.sock"));
        let upstream = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let proxy = format!("/slow/=http://{}", upstream.local_addr().expect("an address"));
        thread::spawn(move || {
            for stream in upstream.incoming() {
                let mut stream = stream.expect("a connection");
                let _ = stream.read(&mut [0; 4096]);
                // The log counts milliseconds.
                thread::sleep(Duration::from_millis(3));
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        let address = format!("unix:{}", admin.display());
        let file = log.display().to_string();
        let options = [
            ["--engine", engine.name()],
            ["--workers", "1"],
            ["--admin", &address],
            ["--access-log", &file],
            ["--proxy", &proxy],
        ];
        let program = RunningProgram::start_ready(serve(dir.path(), options.as_flattened()));
        let request = |path: &str, flags: &str| {
            let mut client = TestClient::connect(program.address());
            let trace = if flags == "00" { TRACE.replace('4', "5") } else { TRACE.to_owned() };
            let field = format!("traceparent: 00-{trace}-00f067aa0ba902b7-{flags}\r\n");
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
            assert_eq!(client.response().status, 200, "{engine}: {path}");
        };
        // A trace that is not sampled is no exemplar.
        request("/slow/", "00");
        let read = |accept: &str| {
            let mut client = TestClient::connect_unix(&admin);
            client.send(format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"));
            let response = client.response();
            (response.field("Content-Type").map(str::to_owned), response.content)
        };
        let samples = wait_for("an exemplar", || {
            request("/slow/", "01");
            let (media, content) = read(ACCEPT);
            assert_eq!(media.as_deref(), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
            let has_trace = content.windows(TRACE.len()).any(|part| part == TRACE.as_bytes());
            has_trace.then(|| parsed_by_prometheus(&content, &["openmetrics"]))
        });
        let exemplars: Vec<Vec<&str>> = samples
            .lines()
            .map(|line| line.split('\t').collect())
            .filter(|row: &Vec<_>| row.len() == 5)
            .collect();
        assert!(!exemplars.is_empty(), "{engine}: {samples}");
        // On a busy machine some of the requests take longer, and are exemplars of other classes.
        for row in exemplars {
            let (end, took): (f64, f64) = (
                row[1].strip_prefix("le=").expect("a label").parse().expect("a number"),
                row[4].parse().expect("a number"),
            );
            assert_eq!((row[0], row[3]), ("tarpon_response_duration_seconds_bucket", TRACE), "{engine}");
            assert!(took >= 0.002 && took <= end, "{engine}: {row:?}");
        }
        // Another client gets the format of Prometheus, as before.
        for accept in ["*/*", "text/plain", "application/openmetrics-text;q=0", "text/html"] {
            let (media, content) = read(accept);
            assert_eq!(media.as_deref(), Some("text/plain; version=0.0.4; charset=utf-8"), "{accept}");
            let text = String::from_utf8(content).expect("UTF-8");
            assert!(!text.contains("trace_id") && !text.contains("# EOF"), "{accept}: {text}");
        }
    }
}

#[test]
fn admin_paths_have_the_documented_responses() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, u16, &str)] = &[
        // case                 input                                                                status and content
        ("health",              "GET /health HTTP/1.1\r\nHost: [::1]\r\n\r\n",                       200, "alive\n"),
        ("readiness",           "GET /ready HTTP/1.1\r\nHost: [::1]\r\n\r\n",                        200, "serving\n"),
        ("HTTP/1.0",            "GET /ready HTTP/1.0\r\n\r\n",                                       200, "serving\n"),
        ("HEAD",                "HEAD /ready HTTP/1.1\r\nHost: [::1]\r\n\r\n",                       200, ""),
        ("unknown path",        "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",                             404, "try /health, /ready, /metrics, /status, /dashboard, or POST to /reload or /upgrade\n"),
        ("wrong method",        "DELETE /health HTTP/1.1\r\nHost: [::1]\r\n\r\n",                    405, "GET or HEAD\n"),
        ("GET for an action",   "GET /reload HTTP/1.1\r\nHost: [::1]\r\n\r\n",                       405, "POST\n"),
        ("POST by a page",      "POST /reload HTTP/1.1\r\nHost: [::1]\r\nOrigin: null\r\n\r\n",      403, "not for web pages\n"),
        ("POST by a browser",   "POST /reload HTTP/1.1\r\nHost: [::1]\r\nSec-Fetch-Site: none\r\n\r\n", 403, "not from there\n"),
        ("GET by a page",       "GET /status HTTP/1.1\r\nHost: [::1]\r\nOrigin: http://x\r\n\r\n",   403, "not for web pages\n"),
        ("invalid request",     "\u{16}\u{3}\u{1}\r\n\r\n",                                          400, "malformed request\n"),
        ("oversized request",   "LONG",                                                              431, "too long\n"),
    ];
    let dir = site(&[("index.html", "home")]);
    for (name, admin) in [("tcp", "127.0.0.1:0"), ("unix", "unix:")] {
        let temp = tempfile::tempdir().expect("a directory");
        let socket = temp.path().join("admin");
        // The server does not print the port of its admin listener, so the test picks a free one.
        let port = ReservedPort::new();
        let admin =
            if name == "tcp" { port.address.to_string() } else { format!("{admin}{}", socket.display()) };
        let program = RunningProgram::start_ready(serve(dir.path(), &["--admin", &admin]));
        for &(case, sent, status, content) in cases {
            let mut client = connect(&admin);
            client.send(sent.replace("LONG", &format!("GET /{}", "x".repeat(4 * 1024 - 5))));
            let response = if sent.starts_with("HEAD") { client.try_head() } else { client.try_response() };
            let response = response.unwrap_or_else(|error| panic!("{name}, {case}: {error}"));
            assert_eq!((response.status, &*response.content), (status, content.as_bytes()), "{name}, {case}");
            assert!(response.closes(), "{name}, {case}");
        }
        program.signal(Signal::TERM);
        assert!(program.wait().status.success(), "{name}");
        assert!(!socket.exists(), "the server removes the socket");
    }
}

#[test]
fn foreign_host_is_refused_over_tcp_only() {
    #[rustfmt::skip]
    let cases: &[(&str, u16, u16)] = &[
        // Host                          TCP  Unix
        ("localhost",                    200, 200),
        ("LOCALHOST:9000",               200, 200),
        ("127.0.0.1",                    200, 200),
        ("[::1]:9000",                   200, 200),
        ("metrics.example",              200, 200),
        ("Metrics.Example:9000",         200, 200),
        ("rebound.example",              421, 200),
        ("rebound.example:9000",         421, 200),
        ("127.0.0.1.rebound.example",    421, 200),
        ("::1",                          400, 400),
    ];
    let dir = site(&[("index.html", "home")]);
    for engine in ["auto", "prefork"] {
        let (port, unix) = (ReservedPort::new(), AdminSocket::default());
        let tcp = port.address.to_string();
        for (admin, is_tcp) in [(&tcp, true), (&unix.address, false)] {
            let options = ["--admin", admin, "--admin-hosts", "metrics.example", "--engine", engine];
            let _program = RunningProgram::start_ready(serve(dir.path(), &options));
            let status = |line: &str, host: &str| {
                let mut client = connect(admin);
                client.send(format!("{line} HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n"));
                client.response().status
            };
            for &(host, over_tcp, over_unix) in cases {
                let expected = if is_tcp { over_tcp } else { over_unix };
                for line in ["GET /health", "GET /ready", "GET /metrics", "GET /status"] {
                    let host_line = format!("Host: {host}\r\n");
                    assert_eq!(status(line, &host_line), expected, "{engine}, {admin}: {line}, {host}");
                }
            }
            assert_eq!(status("GET /health", ""), 400, "no Host");
            let order = if is_tcp { 421 } else { 200 };
            assert_eq!(status("POST /reload", "Host: rebound.example\r\n"), order, "{engine}, {admin}");
            assert_eq!(status("POST /reload", "Host: localhost\r\n"), 200, "{engine}, {admin}");
        }
    }
}

#[test]
fn reload_changes_hosts_and_mode() {
    let text = |mode: &str, host: &str, admin: &str| {
        format!(
            "[server]\nadmin = \"{admin}\"\nadmin-mode = \"{mode}\"\nadmin-hosts = [\"{host}\"]\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"public\"\n"
        )
    };
    let (port, unix) = (ReservedPort::new(), AdminSocket::default());
    let tcp = port.address.to_string();
    for admin in [&tcp, &unix.address] {
        let dir = site(&[("public/index.html", "home")]);
        let file = dir.path().join("tarpon.toml");
        let configure = |mode, host| fs::write(&file, text(mode, host, admin)).expect("a file");
        configure("0640", "a.example");
        let arguments = ["serve", "--log-format", "human", "--config", file.to_str().expect("text")];
        let _program = RunningProgram::start_ready(tarpon(arguments.map(|word| word.as_ref())));
        let status = |host: &str| {
            let mut client = connect(admin);
            client.send(format!("GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            client.response().status
        };
        let is_tcp = *admin == tcp;
        if is_tcp {
            assert_eq!((status("a.example"), status("b.example")), (200, 421));
        } else {
            assert_eq!(unix.mode(), 0o640);
        }
        configure("0666", "b.example");
        let reload = || RunningProgram::run(tarpon(["reload", "--admin", admin].map(|word| word.as_ref())));
        assert!(reload().status.success());
        if is_tcp {
            // The predecessor may accept a few more clients.
            wait_for("the new hosts", || {
                ((status("a.example"), status("b.example")) == (421, 200)).then_some(())
            });
        } else {
            assert_eq!(unix.mode(), 0o666);
        }
        // A rejected configuration changes nothing.
        fs::write(&file, text("0600", "c.example", admin).replace("public", "missing")).expect("a file");
        assert!(!reload().status.success());
        if is_tcp {
            assert_eq!(status("c.example"), 421);
        } else {
            assert_eq!(unix.mode(), 0o666);
        }
    }
}

#[test]
fn unix_socket_has_its_mode_whatever_the_umask() {
    let dir = site(&[("index.html", "home")]);
    for umask in ["000", "022", "077"] {
        for (options, mode) in [(&[][..], 0o600), (&["--admin-mode", "0660"], 0o660)] {
            let admin = AdminSocket::default();
            let command = serve(dir.path(), &[&["--admin", &admin.address], options].concat());
            let script = format!("umask {umask}; exec \"$@\"");
            let program = RunningProgram::start_ready(wrap_command(&["sh", "-c", &script, "sh"], &command));
            assert_eq!(admin.mode(), mode, "umask {umask}, {options:?}");
            assert_eq!(admin.get("/health").status, 200);
            drop(program);
            wait_for("the end of its processes", || (!admin.is_listening()).then_some(()));
            // The socket of a killed server is replaced.
            let _program = RunningProgram::start_ready(wrap_command(&["sh", "-c", &script, "sh"], &command));
            assert_eq!(admin.mode(), mode, "umask {umask}, {options:?}: replaced");
        }
    }
}

#[test]
fn commands_of_another_user_fail_with_a_hint() {
    let dir = site(&[("index.html", "home")]);
    let admin = AdminSocket::default();
    // Without the permission to write, the owner may connect as little as another user.
    let options = ["--admin", &admin.address, "--admin-mode", "0400"];
    let _program = RunningProgram::start_ready(serve(dir.path(), &options));
    for name in ["status", "reload", "upgrade"] {
        let command = tarpon([name, "--admin", &admin.address].map(|word| word.as_ref()));
        let ended = RunningProgram::run(unprivileged(&command));
        let expected = format!(
            "tarpon: cannot reach the server at {}: permission denied; run this command as root or as the user of the supervisor; \
             --admin-mode 0660 of tarpon serve lets its group connect, too",
            admin.address
        );
        assert_eq!((ended.error_line(), ended.status.code()), (&*expected, Some(1)), "{name}");
    }
}

#[test]
fn busy_admin_address_fails_with_a_hint() {
    let dir = site(&[("index.html", "home")]);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (tcp, unix) = (busy.local_addr().expect("an address").to_string(), AdminSocket::default());
    let _other = std::os::unix::net::UnixListener::bind(&unix.path).expect("a socket");
    for (address, form) in [(&tcp, "ADDR:PORT"), (&unix.address, "unix:PATH")] {
        let ended = RunningProgram::run(serve(dir.path(), &["--admin", address]));
        let expected = format!(
            "cannot listen on {address}: address already in use; stop the server that listens there, or choose another with \
             --admin {form}"
        );
        assert!(ended.error_line().ends_with(&expected), "{}", ended.error_line());
        assert!(!ended.status.success());
    }
}

#[test]
fn metrics_match_the_traffic() {
    for &engine in ENGINES {
        let dir = site(&[("index.html", b"home".to_vec()), ("big", distinct_bytes(30 << 20))]);
        let admin = AdminSocket::default();
        let program = RunningProgram::start_ready(serve(
            dir.path(),
            // More workers than clients, because a worker of a blocking engine serves one client at a time.
            &["--admin", &admin.address, "--engine", engine.name(), "--workers", "8"],
        ));
        let mut clients: Vec<_> = (0..3).map(|_| TestClient::connect(program.address())).collect();
        let mut sent_len = 0;
        for client in &mut clients {
            client.send(get("/") + &get("/nothing") + &get("/"));
            for _ in 0..3 {
                let response = client.response();
                sent_len += response.head.len() + 4 + response.content.len();
            }
        }
        let mut http_1_0 = TestClient::connect(program.address());
        http_1_0.send("GET / HTTP/1.0\r\n\r\n");
        sent_len += http_1_0.read_to_end().len();
        let mut tls = TestClient::connect(program.address());
        tls.send("\u{16}\u{3}\u{1}\r\n\r\n");
        sent_len += tls.read_to_end().len();
        let want: &[(&str, u64)] = &[
            ("tarpon_requests_total status=200,version=1.1", 6),
            ("tarpon_requests_total status=404,version=1.1", 3),
            ("tarpon_requests_total status=200,version=1.0", 1),
            ("tarpon_requests_total status=400,version=none", 1),
            ("tarpon_connections_accepted_total ", 5),
            ("tarpon_connections_open ", 3),
            ("tarpon_sent_bytes_total ", sent_len as u64),
            ("tarpon_response_duration_seconds_count ", 11),
            ("tarpon_response_duration_seconds_bucket le=+Inf", 11),
            ("tarpon_responses_aborted_total ", 0),
            ("tarpon_access_log_dropped_total ", 0),
            ("tarpon_client_address_malformed_total ", 0),
            ("tarpon_proxy_header_refused_total ", 0),
            ("tarpon_requests_limited_total ", 0),
            ("tarpon_connections_limited_total ", 0),
            ("tarpon_reset_floods_total ", 0),
            ("tarpon_tls_handshakes_total kind=full,version=1.3", 0),
            ("tarpon_tls_failures_total ", 0),
            ("tarpon_workers ", workers(engine, 8) as u64),
            ("tarpon_ready ", 1),
            ("tarpon_site_files host=,site=0", 2),
            ("tarpon_site_bytes host=,site=0", (30 << 20) + 4),
            ("tarpon_site_loads_total host=,site=0", 1),
            ("tarpon_site_requests_total host=,site=0,status=2xx", 7),
            ("tarpon_site_requests_total host=,site=0,status=4xx", 4),
            ("tarpon_site_requests_total host=,site=0,status=5xx", 0),
        ];
        // The server may count the last closed connection as open for a moment, so the test polls.
        let missing = |found: &BTreeMap<String, u64>| {
            want.iter()
                .find(|(name, value)| found.get(*name) != Some(value))
                .map(|missing| format!("{missing:?}"))
        };
        let mut last = String::new();
        let mut matches = || {
            let found = admin.metrics();
            last = format!("{:?} in {found:#?}", missing(&found));
            missing(&found).is_none().then_some(())
        };
        let since = Instant::now();
        while matches().is_none() {
            assert!(since.elapsed() < TEST_TIMEOUT, "{engine}: {last}");
            thread::sleep(Duration::from_millis(20));
        }
        // An aborted response and a changed site.
        clients[0].send(get("/big"));
        clients[0].read_exact(10_000);
        drop(clients.remove(0));
        fs::write(dir.path().join("new.html"), "new").expect("a file");
        wait_for("an aborted response and a reload", || {
            let found = admin.metrics();
            let value = |name: &str| found.get(name).copied();
            (value("tarpon_responses_aborted_total ") == Some(1)
                && value("tarpon_site_loads_total host=,site=0") >= Some(2)
                && value("tarpon_site_files host=,site=0") == Some(3))
            .then_some(())
        });
    }
}

#[test]
fn draining_server_is_not_ready() {
    for &engine in ENGINES {
        let dir = site(&[("big", distinct_bytes(30 << 20))]);
        let admin = AdminSocket::default();
        let program = RunningProgram::start_ready(serve(
            dir.path(),
            &["--admin", &admin.address, "--engine", engine.name()],
        ));
        wait_until_ready(&admin);
        let mut client = TestClient::connect(program.address());
        client.send(get("/big"));
        client.read_exact(10_000);
        program.signal(Signal::TERM);
        let draining = wait_for("the server is not ready", || {
            Some(admin.get("/ready")).filter(|ready| ready.status == 503)
        });
        assert_eq!((&*draining.content, admin.get("/health").status), (&b"draining\n"[..], 200), "{engine}");
        drop(client);
        assert!(program.wait().status.success(), "{engine}");
    }
}

/// A download keeps the draining server from exiting.
#[test]
fn successor_alone_responds_while_its_predecessor_drains() {
    let dir = site(&[("big", distinct_bytes(30 << 20))]);
    for &engine in ENGINES {
        let admin = AdminSocket::default();
        let program = RunningProgram::start_ready(serve(
            dir.path(),
            &["--admin", &admin.address, "--engine", engine.name()],
        ));
        wait_until_ready(&admin);
        let mut client = TestClient::connect(program.address());
        client.send(get("/big"));
        client.read_exact(10_000);
        let predecessor = program.server();
        let (stopping, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _stops = SetOnDrop(&stopping);
            // Throughout the reload, every response reports ready.
            let prober = scope.spawn(|| {
                while !stopping.load(SeqCst) {
                    let ready = admin.get("/ready");
                    assert_eq!((ready.status, &*ready.content), (200, &b"serving\n"[..]), "{engine}");
                    count.fetch_add(1, SeqCst);
                }
            });
            let wait_for_responses = || {
                let from = count.load(SeqCst);
                wait_for("more responses", || {
                    (count.load(SeqCst) > from + 5 || prober.is_finished()).then_some(())
                });
            };
            wait_for_responses();
            let reloaded =
                RunningProgram::run(tarpon(["reload", "--admin", &admin.address].map(|word| word.as_ref())));
            assert!(reloaded.status.success(), "{engine}: {reloaded:?}");
            wait_for_responses();
        });
        assert!(!has_exited(predecessor), "{engine}: the predecessor drains");
        // The successor counts the client of its predecessor.
        for _ in 0..20 {
            let status: serde_json::Value =
                serde_json::from_slice(&admin.get("/status").content).expect("JSON");
            let found = (&status["state"], &status["accepted"], &status["open"]);
            assert_eq!(found, (&"serving".into(), &1.into(), &1.into()), "{engine}");
        }
        client.read_exact((30 << 20) - 10_000);
    }
}

#[test]
fn silent_clients_delay_no_other() {
    /// More clients than the listener has slots.
    const SILENT_COUNT: usize = 200;
    const SLOT_COUNT: usize = 64;
    let dir = site(&[("index.html", "home")]);
    for engine in ["auto", "prefork"] {
        let admin = AdminSocket::default();
        let options = ["--admin", &admin.address, "--engine", engine];
        let _program = RunningProgram::start_ready(serve(dir.path(), &options));
        wait_until_ready(&admin);
        let mut silent: Vec<_> = (0..SILENT_COUNT).map(|_| TestClient::connect_unix(&admin.path)).collect();
        assert_eq!(admin.get("/health").status, 200);
        // The clients that have been silent longest made room, and the others are still there: none of them timed out before the response.
        let evicted_count = SILENT_COUNT - SLOT_COUNT + 1;
        for (number, client) in silent.iter_mut().enumerate() {
            if number < evicted_count {
                assert_eq!(client.read_to_end(), b"", "{engine}: client {number} is evicted");
            } else {
                assert!(!client.is_closed(), "{engine}: client {number} is connected");
            }
        }
        // A client that was silent may still ask.
        assert_eq!(silent[SILENT_COUNT - 1].get("/ready").status, 200, "{engine}");
    }
}

#[test]
fn clients_that_send_a_byte_at_a_time_or_read_nothing_delay_no_other() {
    let dir = site(&[("index.html", "home")]);
    let admin = AdminSocket::default();
    let _program = RunningProgram::start_ready(serve(dir.path(), &["--admin", &admin.address]));
    let mut slow = TestClient::connect_unix(&admin.path);
    let mut unread = Vec::new();
    for byte in get("/ready").bytes() {
        slow.send([byte]);
        let mut client = TestClient::connect_unix(&admin.path);
        client.send(get("/metrics"));
        unread.push(client);
        // Its response shows that the listener has received the byte above.
        assert_eq!(admin.get("/health").status, 200);
    }
    assert_eq!(slow.response().content, b"serving\n");
    assert!(unread.iter_mut().all(|client| client.response().status == 200), "each has its response");
}

#[test]
fn connected_clients_are_answered_while_descriptors_are_short() {
    /// Fewer than the slots and the other descriptors of the server together.
    const DESCRIPTOR_COUNT: usize = 64;
    let dir = site(&[("index.html", "home")]);
    let admin = AdminSocket::default();
    let options = ["--admin", &admin.address, "--engine", "epoll", "--workers", "1"];
    let limit = format!("--nofile={DESCRIPTOR_COUNT}:{DESCRIPTOR_COUNT}");
    let program =
        RunningProgram::start_ready(wrap_command(&["prlimit", &limit], &serve(dir.path(), &options)));
    let server = program.server().as_raw_nonzero();
    let mut clients: Vec<_> = (0..DESCRIPTOR_COUNT).map(|_| TestClient::connect_unix(&admin.path)).collect();
    wait_for("a server without descriptors", || {
        let open = fs::read_dir(format!("/proc/{server}/fd")).expect("a process").count();
        (open == DESCRIPTOR_COUNT).then_some(())
    });
    assert_eq!(clients[0].get("/health").status, 200);
    drop(clients);
    assert_eq!(admin.get("/health").status, 200, "the server accepts again");
}

#[test]
fn unread_log_does_not_block_requests_and_dropped_lines_are_counted() {
    // Some 20 MB of log, more than the pipe and the ring hold.
    const COUNT: usize = 40_000;
    for &engine in ENGINES {
        let dir = site(&[("index.html", "home")]);
        let admin = AdminSocket::default();
        let options =
            ["--admin", &admin.address, "--access-log", "-", "--engine", engine.name(), "--workers", "1"];
        let mut command = serve(dir.path(), &options);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        wait_for("an admin listener", || admin.is_listening().then_some(()));
        let mut head = std::io::BufReader::new(&reader);
        let mut address = String::new();
        while !address.contains("http://") {
            address.clear();
            std::io::BufRead::read_line(&mut head, &mut address).expect("the banner");
        }
        let address = address.trim().trim_start_matches("http://").trim_end_matches('/');
        let mut client = TestClient::connect(address.parse().expect("an address"));
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "a".repeat(400));
        for _ in 0..COUNT / 100 {
            client.send(request.repeat(100));
            (0..100).for_each(|_| drop(client.response()));
        }
        let dropped = wait_for("dropped lines", || {
            admin.metrics().get("tarpon_access_log_dropped_total ").copied().filter(|&count| count > 0)
        });
        assert!(dropped < COUNT as u64, "{engine}: no line was logged");
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
}

#[test]
fn status_prints_text_and_json() {
    let dir = site(&[("index.html", "home")]);
    let admin = AdminSocket::default();
    let program = RunningProgram::start_ready(serve(dir.path(), &["--admin", &admin.address]));
    let mut client = TestClient::connect(program.address());
    client.send(get("/") + &get("/nothing"));
    (0..2).for_each(|_| drop(client.response()));
    let status = |json: &[&str]| {
        let arguments = [&["status", "--admin", &admin.address], json].concat();
        let ended = RunningProgram::run(tarpon(arguments.iter().map(|argument| argument.as_ref())));
        assert!(ended.status.success(), "{ended:?}");
        ended.out
    };
    let text = status(&[]);
    assert!(text.starts_with("serving for "), "{text}");
    for want in [
        "connections               1  open, of 1 accepted",
        "requests                  2  2xx 50.0%, 4xx 50.0%",
        "site 1  1 file, 4 bytes; loaded 1 time\n",
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    wait_for("percentiles", || status(&[]).contains("  p50; p99 ").then_some(()));
    let object: serde_json::Value = serde_json::from_str(&status(&["--json"])).expect("JSON");
    assert_eq!(
        (&object["state"], &object["accepted"], &object["sites"][0]["files"]),
        (&"serving".into(), &1.into(), &1.into())
    );
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
    let no_server =
        RunningProgram::run(tarpon(["status", "--admin", &admin.address].map(|argument| argument.as_ref())));
    let want = format!(
        "tarpon: cannot reach the server at {}: no such file or directory; start a server, or name its admin listener with --admin",
        admin.address
    );
    assert_eq!((no_server.error_line(), no_server.status.code()), (&*want, Some(1)));
}

#[test]
fn first_server_owns_the_default_admin_socket() {
    let dir = site(&[("index.html", "home")]);
    let temp = tempfile::tempdir().expect("a directory");
    let (own, others) = (temp.path().join("tarpon"), temp.path().join("others"));
    let directories = format!("{}:{}", own.display(), others.display());
    let with_environment = |mut command: Command| {
        command.env("RUNTIME_DIRECTORY", &directories);
        command
    };
    let serve = || {
        let dir = dir.path().to_str().expect("text");
        let arguments = ["serve", dir, "--listen", "127.0.0.1:0", "--log-format", "human"];
        with_environment(tarpon(arguments.map(|argument| argument.as_ref())))
    };
    let status =
        || RunningProgram::run(with_environment(tarpon(["status"].map(|argument| argument.as_ref()))));
    let first = RunningProgram::start_ready(serve());
    let second = RunningProgram::start_ready(serve());
    let socket = own.join("admin.sock");
    let warning = format!(
        "admin listener disabled: cannot listen on unix:{}: address already in use",
        socket.display()
    );
    wait_for("a message", || second.out().contains(&warning).then_some(()));
    assert!(status().out.starts_with("serving for "));
    second.signal(Signal::TERM);
    let second = second.wait();
    assert!(second.status.success(), "{second:?}");
    assert!(
        status().out.starts_with("serving for "),
        "the second server does not remove the socket of the first"
    );
    first.signal(Signal::TERM);
    let first = first.wait();
    assert!(first.status.success() && !first.out.contains("admin: "), "{first:?}");
    assert!(!socket.exists() && !others.exists());
}

/// Waits until the server reports ready: with worker processes, the process that answers learns it after the program.
fn wait_until_ready(admin: &AdminSocket) {
    wait_for("the server is ready", || (admin.get("/ready").status == 200).then_some(()));
}

/// An admin listener on a Unix socket.
struct AdminSocket {
    _dir: tempfile::TempDir,
    path: PathBuf,
    /// The value for `--admin`.
    address: String,
}

impl Default for AdminSocket {
    fn default() -> AdminSocket {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admin");
        let address = format!("unix:{}", path.display());
        AdminSocket { _dir: dir, path, address }
    }
}

impl AdminSocket {
    fn get(&self, target: &str) -> Response {
        TestClient::connect_unix(&self.path).get(target)
    }

    /// Returns the mode of the socket in the file system.
    fn mode(&self) -> u32 {
        fs::symlink_metadata(&self.path).expect("a socket").mode() & 0o7777
    }

    fn is_listening(&self) -> bool {
        UnixStream::connect(&self.path).is_ok()
    }

    /// Returns the metrics by name and labels, parsed by the client library of Prometheus.
    fn metrics(&self) -> BTreeMap<String, u64> {
        let response = self.get("/metrics");
        assert_eq!(response.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let samples = parsed_by_prometheus(&response.content, &[]);
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once('\t')?;
            Some((name.replace('\t', " "), value.parse().ok()?))
        };
        samples.lines().filter_map(sample).collect()
    }
}

fn parsed_by_prometheus(text: &[u8], arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redbot/bin/python");
    let mut reader = Command::new(python)
        .arg(root.join("tests/clients/metrics"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python is missing: run tests/setup");
    reader.stdin.take().expect("a pipe").write_all(text).expect("a reader");
    let output = reader.wait_with_output().expect("a reader");
    assert!(output.status.success(), "Prometheus rejects {}", String::from_utf8_lossy(text));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn connect(admin: &str) -> TestClient {
    match admin.strip_prefix("unix:") {
        Some(path) => TestClient::connect_unix(Path::new(path)),
        None => TestClient::connect(admin.parse().expect("an address")),
    }
}
