//! The admin listener: health, readiness, metrics, and what `tarpon status` makes of them.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::{Client, Response, get},
    distinct_bytes,
    program::{Program, has_ended, serve, tarpon},
    site, wait_for, workers,
};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

#[test]
fn each_request_is_answered_and_nothing_else_is_done() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, u16, &str)] = &[
        // what it shows        sent                                                                 answered
        ("health",              "GET /health HTTP/1.1\r\nHost: admin\r\n\r\n",                       200, "alive\n"),
        ("readiness",           "GET /ready HTTP/1.1\r\nHost: admin\r\n\r\n",                        200, "serving\n"),
        ("HTTP/1.0",            "GET /ready HTTP/1.0\r\n\r\n",                                       200, "serving\n"),
        ("HEAD",                "HEAD /ready HTTP/1.1\r\nHost: admin\r\n\r\n",                       200, ""),
        ("nothing there",       "GET / HTTP/1.1\r\nHost: admin\r\n\r\n",                             404, "there are /health, /ready, /metrics, /status, and to POST /reload and /upgrade\n"),
        ("another method",      "DELETE /health HTTP/1.1\r\nHost: admin\r\n\r\n",                    405, "GET or HEAD\n"),
        ("no order",            "GET /reload HTTP/1.1\r\nHost: admin\r\n\r\n",                       405, "POST\n"),
        ("a page's order",      "POST /reload HTTP/1.1\r\nHost: admin\r\nOrigin: null\r\n\r\n",      403, "not for pages\n"),
        ("a browser's order",   "POST /reload HTTP/1.1\r\nHost: admin\r\nSec-Fetch-Site: none\r\n\r\n", 403, "not from there\n"),
        ("a page in a browser", "GET /status HTTP/1.1\r\nHost: admin\r\nOrigin: http://x\r\n\r\n",   403, "not for pages\n"),
        ("no request",          "\u{16}\u{3}\u{1}\r\n\r\n",                                          400, "this is no request\n"),
        ("no end of it",        "LONG",                                                              431, "too long\n"),
    ];
    let dir = site(&[("index.html", "home")]);
    for (name, admin) in [("tcp", "127.0.0.1:0"), ("unix", "unix:")] {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join("admin");
        // The port of a TCP listener that the kernel chose is told nowhere, so one is looked for.
        let admin = if name == "tcp" { free_port() } else { format!("{admin}{}", socket.display()) };
        let program = Program::started(serve(dir.path(), &["--admin", &admin]));
        for &(case, sent, status, content) in cases {
            let mut client = connect(&admin);
            client.send(sent.replace("LONG", &format!("GET /{}", "x".repeat(4 * 1024 - 5))));
            let response = if sent.starts_with("HEAD") { client.try_head() } else { client.try_response() };
            let response = response.unwrap_or_else(|error| panic!("{name}, {case}: {error}"));
            assert_eq!((response.status, &*response.content), (status, content.as_bytes()), "{name}, {case}");
            assert!(response.closes(), "{name}, {case}");
        }
        program.signal(Signal::TERM);
        assert!(program.ended().status.success(), "{name}");
        assert!(!socket.exists(), "the socket goes with the server");
    }
}

#[test]
fn by_tcp_a_server_is_told_what_to_do_under_its_address_alone() {
    let dir = site(&[("index.html", "home")]);
    let admin = free_port();
    let _program = Program::started(serve(dir.path(), &["--admin", &admin]));
    let cases = [
        ("localhost", 200),
        ("LOCALHOST:9000", 200),
        ("127.0.0.1", 200),
        (&admin, 200),
        ("[::1]:9000", 200),
        ("::1", 200),
        ("rebound.example", 403),
        ("rebound.example:9000", 403),
        ("127.0.0.1.rebound.example", 403),
    ];
    for (host, status) in cases {
        let mut client = connect(&admin);
        client.send(format!("POST /reload HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(client.response().status, status, "{host}");
    }
}

#[test]
fn metrics_are_what_happened() {
    for &engine in ENGINES {
        let dir = site(&[("index.html", b"home".to_vec()), ("big", distinct_bytes(30 << 20))]);
        let admin = Admin::default();
        let program = Program::started(serve(
            dir.path(),
            // More than clients: of some engines a worker has one at a time.
            &["--admin", &admin.address, "--engine", engine.name(), "--workers", "8"],
        ));
        let mut clients: Vec<_> = (0..3).map(|_| Client::connect(program.address())).collect();
        let mut sent_len = 0;
        for client in &mut clients {
            client.send(get("/") + &get("/nothing") + &get("/"));
            for _ in 0..3 {
                let response = client.response();
                sent_len += response.head.len() + 4 + response.content.len();
            }
        }
        let mut old = Client::connect(program.address());
        old.send("GET / HTTP/1.0\r\n\r\n");
        sent_len += old.rest().len();
        let mut rude = Client::connect(program.address());
        rude.send("\u{16}\u{3}\u{1}\r\n\r\n");
        sent_len += rude.rest().len();
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
            ("tarpon_workers ", workers(engine, 8) as u64),
            ("tarpon_ready ", 1),
            ("tarpon_site_files host=,site=0", 2),
            ("tarpon_site_bytes host=,site=0", (30 << 20) + 4),
            ("tarpon_site_loads_total host=,site=0", 1),
        ];
        // The last to leave may be counted as open a moment longer.
        let missing = |found: &BTreeMap<String, u64>| {
            want.iter()
                .find(|(name, value)| found.get(*name) != Some(value))
                .map(|missing| format!("{missing:?}"))
        };
        let mut last = String::new();
        let mut met = || {
            let found = admin.metrics();
            last = format!("{:?} in {found:#?}", missing(&found));
            missing(&found).is_none().then_some(())
        };
        let since = Instant::now();
        while met().is_none() {
            assert!(since.elapsed() < Duration::from_secs(10), "{engine}: {last}");
            thread::sleep(Duration::from_millis(20));
        }
        // A response that nobody waits for, and a change.
        clients[0].send(get("/big"));
        clients[0].take(10_000);
        drop(clients.remove(0));
        fs::write(dir.path().join("new.html"), "new").expect("a file");
        wait_for("a response cut short, and a change", || {
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
fn a_server_that_drains_is_not_ready_and_says_so() {
    for &engine in ENGINES {
        let dir = site(&[("big", distinct_bytes(30 << 20))]);
        let admin = Admin::default();
        let program =
            Program::started(serve(dir.path(), &["--admin", &admin.address, "--engine", engine.name()]));
        assert_eq!(admin.get("/ready").status, 200);
        let mut client = Client::connect(program.address());
        client.send(get("/big"));
        client.take(10_000);
        program.signal(Signal::TERM);
        let draining =
            wait_for("readiness ends", || Some(admin.get("/ready")).filter(|said| said.status == 503));
        assert_eq!((&*draining.content, admin.get("/health").status), (&b"draining\n"[..], 200), "{engine}");
        drop(client);
        assert!(program.ended().status.success(), "{engine}");
    }
}

/// With a download that keeps the one before from its end.
#[test]
fn while_a_server_drains_only_its_successor_answers() {
    let dir = site(&[("big", distinct_bytes(30 << 20))]);
    for &engine in ENGINES {
        let admin = Admin::default();
        let program =
            Program::started(serve(dir.path(), &["--admin", &admin.address, "--engine", engine.name()]));
        let mut client = Client::connect(program.address());
        client.send(get("/big"));
        client.take(10_000);
        let former = program.server();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // Neither the one that begins nor the one that ends says so: all the time one is ready.
            let asker = scope.spawn(|| {
                let mut count = 0;
                while !over.load(SeqCst) {
                    let ready = admin.get("/ready");
                    assert_eq!((ready.status, &*ready.content), (200, &b"serving\n"[..]), "{engine}");
                    count += 1;
                }
                count
            });
            let reloaded =
                Program::run(tarpon(["reload", "--admin", &admin.address].map(|word| word.as_ref())));
            assert!(reloaded.status.success(), "{engine}: {reloaded:?}");
            thread::sleep(Duration::from_millis(100));
            over.store(true, SeqCst);
            assert!(asker.join().expect("it is always ready") > 0, "{engine}");
        });
        assert!(!has_ended(former), "{engine}: it drains");
        // The successor has had no client.
        for _ in 0..20 {
            let status: serde_json::Value =
                serde_json::from_slice(&admin.get("/status").content).expect("JSON");
            assert_eq!(status["accepted"], 0, "{engine}");
        }
        client.take((30 << 20) - 10_000);
    }
}

#[test]
fn who_says_nothing_keeps_nobody_waiting_for_long() {
    let dir = site(&[("index.html", "home")]);
    let admin = Admin::default();
    let _program = Program::started(serve(dir.path(), &["--admin", &admin.address]));
    let silent = UnixStream::connect(&admin.path).expect("a listener");
    let since = Instant::now();
    assert_eq!(admin.get("/health").status, 200);
    assert!(since.elapsed() < Duration::from_secs(10), "after {:?}", since.elapsed());
    drop(silent);
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up_and_what_is_lost_is_counted() {
    // Some 20 MB of log, which pipe and ring together have no room for.
    const COUNT: usize = 40_000;
    for &engine in ENGINES {
        let dir = site(&[("index.html", "home")]);
        let admin = Admin::default();
        let options =
            ["--admin", &admin.address, "--access-log", "-", "--engine", engine.name(), "--workers", "1"];
        let mut command = serve(dir.path(), &options);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        wait_for("an admin listener", || admin.is_there().then_some(()));
        let mut head = std::io::BufReader::new(&reader);
        let mut address = String::new();
        while !address.contains("http://") {
            address.clear();
            std::io::BufRead::read_line(&mut head, &mut address).expect("the banner");
        }
        let address = address.trim().trim_start_matches("http://").trim_end_matches('/');
        let mut client = Client::connect(address.parse().expect("an address"));
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "a".repeat(400));
        for _ in 0..COUNT / 100 {
            client.send(request.repeat(100));
            (0..100).for_each(|_| drop(client.response()));
        }
        let unlogged = wait_for("what is lost", || {
            admin.metrics().get("tarpon_access_log_dropped_total ").copied().filter(|&lost| lost > 0)
        });
        assert!(unlogged < COUNT as u64, "{engine}: some were logged");
        // Who stops it need not read the log either.
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
}

#[test]
fn status_is_shown_in_a_terminal_and_as_json() {
    let dir = site(&[("index.html", "home")]);
    let admin = Admin::default();
    let program = Program::started(serve(dir.path(), &["--admin", &admin.address]));
    let mut client = Client::connect(program.address());
    client.send(get("/") + &get("/nothing"));
    (0..2).for_each(|_| drop(client.response()));
    let said = |json: &[&str]| {
        let arguments = [&["status", "--admin", &admin.address], json].concat();
        let ended = Program::run(tarpon(arguments.iter().map(|argument| argument.as_ref())));
        assert!(ended.status.success(), "{ended:?}");
        ended.out
    };
    let text = said(&[]);
    assert!(text.starts_with("serving for "), "{text}");
    for want in [
        "connections               1  open, of 1 accepted",
        "requests                  2  2xx 50.0%, 4xx 50.0%",
        "site 1  1 file, 4 bytes; loaded 1 time\n",
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let object: serde_json::Value = serde_json::from_str(&said(&["--json"])).expect("JSON");
    assert_eq!(
        (&object["stage"], &object["accepted"], &object["sites"][0]["files"]),
        (&"serving".into(), &1.into(), &1.into())
    );
    program.signal(Signal::TERM);
    assert!(program.ended().status.success());
    let nobody =
        Program::run(tarpon(["status", "--admin", &admin.address].map(|argument| argument.as_ref())));
    let want = format!(
        "tarpon: cannot reach the server at {}: no such file or directory; start a server, or name its admin listener with --admin",
        admin.address
    );
    assert_eq!((nobody.error_line(), nobody.status.code()), (&*want, Some(1)));
}

#[test]
fn the_usual_place_belongs_to_the_server_that_has_it_first() {
    let dir = site(&[("index.html", "home")]);
    let place = tempfile::tempdir().expect("a directory");
    let (made, others) = (place.path().join("tarpon"), place.path().join("others"));
    let directories = format!("{}:{}", made.display(), others.display());
    let in_place = |mut command: Command| {
        command.env("RUNTIME_DIRECTORY", &directories);
        command
    };
    let serve = || {
        let dir = dir.path().to_str().expect("text");
        let arguments = ["serve", dir, "--listen", "127.0.0.1:0", "--log-format", "human"];
        in_place(tarpon(arguments.map(|argument| argument.as_ref())))
    };
    let status = || Program::run(in_place(tarpon(["status"].map(|argument| argument.as_ref()))));
    let first = Program::started(serve());
    let second = Program::started(serve());
    let socket = made.join("admin.sock");
    let lacking =
        format!("admin listener disabled: unix:{} is in use; set another with --admin", socket.display());
    wait_for("what it says", || second.out().contains(&lacking).then_some(()));
    assert!(status().out.starts_with("serving for "));
    second.signal(Signal::TERM);
    let second = second.ended();
    assert!(second.status.success(), "{second:?}");
    assert!(status().out.starts_with("serving for "), "what it does not have it does not remove");
    first.signal(Signal::TERM);
    let first = first.ended();
    assert!(first.status.success() && !first.out.contains("admin: "), "{first:?}");
    assert!(!socket.exists() && !others.exists());
}

/// An admin listener on a Unix socket.
struct Admin {
    _dir: tempfile::TempDir,
    path: PathBuf,
    /// As for `--admin`.
    address: String,
}

impl Default for Admin {
    fn default() -> Admin {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admin");
        let address = format!("unix:{}", path.display());
        Admin { _dir: dir, path, address }
    }
}

impl Admin {
    fn get(&self, target: &str) -> Response {
        Client::connect_unix(&self.path).get(target)
    }

    fn is_there(&self) -> bool {
        UnixStream::connect(&self.path).is_ok()
    }

    /// As Prometheus reads them: by name and labels.
    fn metrics(&self) -> BTreeMap<String, u64> {
        let response = self.get("/metrics");
        assert_eq!(response.field("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let samples = as_prometheus_reads(&response.content);
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once('\t')?;
            Some((name.replace('\t', " "), value.parse().ok()?))
        };
        samples.lines().filter_map(sample).collect()
    }
}

fn as_prometheus_reads(text: &[u8]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redbot/bin/python");
    let mut reader = Command::new(python)
        .arg(root.join("tests/clients/metrics"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tests/setup installs it");
    reader.stdin.take().expect("a pipe").write_all(text).expect("a reader");
    let output = reader.wait_with_output().expect("a reader");
    assert!(output.status.success(), "Prometheus refuses {}", String::from_utf8_lossy(text));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn connect(admin: &str) -> Client {
    match admin.strip_prefix("unix:") {
        Some(path) => Client::connect_unix(Path::new(path)),
        None => Client::connect(admin.parse().expect("an address")),
    }
}

/// A port that was free a moment ago.
fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}
