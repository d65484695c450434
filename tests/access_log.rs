//! The access log: one line per exchange, in every format, to files, sockets and standard output.

use crate::common::{
    EMBEDDED, ENGINES, TEST_TIMEOUT,
    client::{Response, TestClient, get},
    distinct_bytes,
    program::{RunningProgram, has_exited, serve, serve_exactly, tarpon, wrap_command},
    readable_dir,
    server::{EmbeddedServer, TestServer, settings},
    site, wait_for,
};
use rustix::process::{Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    num::NonZeroU32,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::{UnixDatagram, UnixListener},
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};
use tarpon::{
    Engine, LogClientIp, LogFormat, LogTarget, Logging, Rotation, Settings, Site, SiteLog, UnknownHost,
    VirtualHost, VirtualHosts,
};

#[test]
fn each_exchange_writes_one_line() {
    let long = "x".repeat(1_500);
    let big = distinct_bytes(300_000);
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str, &str)] = &[
        // case                      input                                                            request line          Referer and User-Agent
        ("a page",                   "GET / HTTP/1.1\r\nHost: h\r\n\r\n",                             "GET / HTTP/1.1",     r#""-" "-""#),
        ("HTTP/1.0",                 "GET / HTTP/1.0\r\n\r\n",                                        "GET / HTTP/1.0",     r#""-" "-""#),
        ("HEAD has no content",      "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",                            "HEAD / HTTP/1.1",    r#""-" "-""#),
        ("not found",                "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",                          "GET /a?b HTTP/1.1",  r#""-" "-""#),
        ("a redirect with a query",  "GET /dir?b HTTP/1.1\r\nHost: h\r\n\r\n",                        "GET /dir?b HTTP/1.1", r#""-" "-""#),
        ("part of a file",           "GET /big HTTP/1.1\r\nHost: h\r\nRange: bytes=1-7\r\n\r\n",      "GET /big HTTP/1.1",  r#""-" "-""#),
        ("several parts",            "GET /big HTTP/1.1\r\nHost: h\r\nRange: bytes=1-7,20-22\r\n\r\n", "GET /big HTTP/1.1", r#""-" "-""#),
        ("no such part",             "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=9-\r\n\r\n",          "GET / HTTP/1.1",     r#""-" "-""#),
        ("a large file",             "GET /big HTTP/1.1\r\nHost: h\r\n\r\n",                          "GET /big HTTP/1.1",  r#""-" "-""#),
        ("user agent and referrer",  "GET / HTTP/1.1\r\nHost: h\r\nuser-agent: A (b)\r\nREFERER: r?\"\r\n\r\n", "GET / HTTP/1.1", r#""r?\x22" "A (b)""#),
        ("a quote in the target",    "GET /\"\\ HTTP/1.1\r\nHost: h\r\n\r\n",                         r"GET /\x22\x5C HTTP/1.1", r#""-" "-""#),
        ("bytes beyond ASCII",       "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \u{fc}\r\n\r\n",       "GET / HTTP/1.1",     r#""-" "\xC3\xBC""#),
        ("too long a field",         "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: LONG\r\n\r\n",         "GET / HTTP/1.1",     r#""-" "CUT...""#),
        ("no such method",           "BREW / HTTP/1.1\r\nHost: h\r\n\r\n",                            "BREW / HTTP/1.1",    r#""-" "-""#),
        ("no Host",                  "GET / HTTP/1.1\r\nReferer: x\r\n\r\n",                          "GET / HTTP/1.1",     r#""x" "-""#),
        ("no HTTP",                  "\u{16}\u{3}\u{1}\r\n\r\n",                                      r"\x16\x03\x01",      r#""-" "-""#),
        ("a control in a field",     "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: \u{1b}[31m\r\n\r\n",   "GET / HTTP/1.1",     r#""-" "-""#),
        ("a head without an end",    "GET / HTTP/1.1\r\nHost:",                                       "-",                  r#""-" "-""#),
    ];
    for &engine in ENGINES {
        let dir = site(&[("index.html", &b"home"[..]), ("dir/index.html", b"dir"), ("big", &big)]);
        let short_timeout = Settings { header_timeout: Duration::from_millis(300), ..settings(engine, 1) };
        let log = LogFile::default();
        let served = log.server(&settings(engine, 1), LogFormat::Combined, dir.path());
        // For the case that waits for the timeout: a busy machine may delay other clients by as much.
        let impatient = log.server(&short_timeout, LogFormat::Combined, dir.path());
        for &(name, sent, line, fields) in cases {
            let mut client = TestClient::connect(if line == "-" { &impatient } else { &served }.address);
            client.send(sent.replace("LONG", &long));
            let response = if sent.starts_with("HEAD") { client.try_head() } else { client.try_response() };
            let Response { status, content, .. } = response.expect("a response");
            let (len, fields) = (content.len(), fields.replace("CUT", &long[..512]));
            let want = format!("127.0.0.1 - - [TIME] \"{line}\" {status} {len} {fields}");
            assert_eq!(without_time(&log.only_line(), LogFormat::Combined), want, "{name}, {engine}");
            log.empty();
        }
        // A connection without a request leaves no line and does not stop the log.
        drop(TcpStream::connect(served.address).expect("a server that listens"));
        TestClient::connect(served.address).get("/");
        log.only_line();
    }
}

#[test]
fn each_format_shows_the_same_exchange() {
    #[rustfmt::skip]
    let cases = [
        (LogFormat::Common,   r#"127.0.0.1 - - [TIME] "GET /?\x22 HTTP/1.1" 200 4"#),
        (LogFormat::Combined, r#"127.0.0.1 - - [TIME] "GET /?\x22 HTTP/1.1" 200 4 "r" "\x5C\xFF""#),
        (LogFormat::Simple,   r#"127.0.0.1 TIME "GET /?\x22 HTTP/1.1" 200 4"#),
        (LogFormat::Json,     r#"{"time":"TIME","client":"127.0.0.1","method":"GET","target":"/?\"","version":"HTTP/1.1","request":null,"host":"h","referer":"r","user_agent":"\\\\\\xFF","user":null,"status":200,"bytes":4,"duration_ms":MS,"complete":true,"cut":[]}"#),
    ];
    for &engine in ENGINES {
        let dir = site(&[("index.html", "home")]);
        for (form, want) in cases {
            let log = LogFile::default();
            let served = log.server(&settings(engine, 1), form, dir.path());
            let mut client = TestClient::connect(served.address);
            client.send(b"GET /?\" HTTP/1.1\r\nHost: h\r\nReferer: r\r\nUser-Agent: \\\xff\r\n\r\n");
            client.response();
            assert_eq!(without_time(&log.only_line(), form), want, "{form}, {engine}");
        }
    }
}

#[test]
fn aborted_response_is_logged_with_the_bytes_sent() {
    for &engine in ENGINES {
        let dir = site(&[("big", distinct_bytes(50 << 20))]);
        let log = LogFile::default();
        let served = log.server(&settings(engine, 1), LogFormat::Json, dir.path());
        let mut client = TestClient::connect(served.address);
        client.send(get("/big"));
        client.read_exact(100_000);
        drop(client);
        let line = log.only_line();
        let (_, rest) = line.split_once("\"bytes\":").expect("bytes");
        let len: u64 = rest.split_once(',').expect("more keys").0.parse().expect("a number");
        assert!((99_000..50 << 20).contains(&len), "{engine}: {line}");
        assert!(line.contains("\"complete\":false"), "{engine}: {line}");
    }
}

#[test]
fn pipelined_requests_are_logged_once_in_order() {
    const COUNT: usize = 500;
    for &engine in ENGINES {
        let dir = site(&[("index.html", "home")]);
        let log = LogFile::default();
        let served = log.server(&settings(engine, 2), LogFormat::Simple, dir.path());
        let mut client = TestClient::connect(served.address);
        client.send((0..COUNT).map(|number| get(&format!("/?{number}"))).collect::<String>());
        (0..COUNT).for_each(|_| drop(client.response()));
        let lines = log.lines(COUNT);
        for (number, line) in lines.iter().enumerate() {
            assert!(line.ends_with(&format!("\"GET /?{number} HTTP/1.1\" 200 4")), "{engine}: {line}");
        }
    }
}

#[test]
fn trace_of_a_request_is_logged_if_it_is_valid() {
    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let dir = site(&[("index.html", "home")]);
    let logs = readable_dir();
    let log = logs.path().join("log");
    let options = ["--access-log", log.to_str().expect("text"), "--access-log-format", "json"];
    let program = RunningProgram::start_ready(serve(dir.path(), &options));
    for (http, connect) in [("1", TestClient::connect as fn(_) -> _), ("2", TestClient::connect_http2)] {
        for (case, value, id) in [
            ("valid", format!("00-{ID}-00f067aa0ba902b7-01"), Some(ID)),
            ("upper", format!("00-{}-00f067aa0ba902b7-01", ID.to_uppercase()), None),
            ("zeros", format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            ("quote", format!("00-{ID}-00f067aa0ba902b7-01\""), None),
        ] {
            let target = format!("/?{case}-{http}");
            let mut client: TestClient = connect(program.address());
            client.send(get(&target).replace("\r\n\r\n", &format!("\r\nTraceparent: {value}\r\n\r\n")));
            assert_eq!(client.response().status, 200, "{target}");
            let line = wait_for("a line", || {
                let text = fs::read_to_string(&log).unwrap_or_default();
                text.lines().find(|line| line.contains(&target)).map(str::to_owned)
            });
            let found: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(found.get("trace_id").and_then(serde_json::Value::as_str), id, "{line}");
        }
    }
}

#[test]
fn sample_is_random_and_includes_every_failure() {
    const COUNT: usize = 20_000;
    let one_in = NonZeroU32::new(10).expect("a number");
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let log = LogFile::default();
        let logging = Some(Logging { format: LogFormat::Simple, sample: one_in, ..Logging::default() });
        let served = EmbeddedServer::dir(&Settings { logging, ..settings(engine, 1) }, dir.path());
        served.handle.log_to(log.target().open().expect("a file"));
        let mut client = TestClient::connect(served.address);
        for _ in 0..COUNT / 100 {
            // A pattern in which a sample of every tenth request would always hit the same requests.
            client.send(format!("{}{}", get("/even").repeat(5), get("/").repeat(95)));
            (0..100).for_each(|_| drop(client.response()));
        }
        client.send(get("/last"));
        client.response();
        let text = wait_for("the last line", || Some(log.text()).filter(|text| text.contains("/last")));
        let failures = text.lines().filter(|line| line.contains("/even")).count();
        assert_eq!(failures, COUNT / 20, "{engine}");
        // Expects 1,900 of 19,000. A deviation of five standard deviations occurs once in a million runs.
        let sampled = text.lines().filter(|line| line.contains("\"GET / ")).count();
        assert!((1_690..2_110).contains(&sampled), "{engine}: {sampled}");
    }
}

#[test]
fn client_addresses_are_logged_in_full_truncated_or_not() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        for (addresses, want) in [("full", "127.0.0.1"), ("truncated", "127.0.0.0"), ("none", "-")] {
            let log = LogFile::default();
            let addresses: LogClientIp = addresses.parse().expect("an address mode");
            let logging = Some(Logging { client_ip: addresses, ..Logging::default() });
            let served = EmbeddedServer::dir(&Settings { logging, ..settings(engine, 1) }, dir.path());
            served.handle.log_to(log.target().open().expect("a file"));
            TestClient::connect(served.address).get("/");
            let line = log.only_line();
            assert_eq!(line.split(' ').next(), Some(want), "{engine}");
        }
    }
}

#[test]
fn log_target_can_be_replaced() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let (first, second) = (LogFile::default(), LogFile::default());
        let served = first.embedded(&settings(engine, 1), LogFormat::Simple, dir.path());
        let mut client = TestClient::connect(served.address);
        client.get("/?1");
        first.lines(1);
        // Like logrotate: the file is renamed, gets further lines, and is then reopened.
        let renamed = first.path().with_extension("1");
        fs::rename(first.path(), &renamed).expect("a file");
        client.get("/?2");
        wait_for("a line in the renamed file", || Some(()).filter(|()| count(&renamed) == 2));
        served.handle.log_to(first.target().open().expect("a file"));
        client.get("/?3");
        assert!(first.only_line().contains("/?3"), "{engine}");
        served.handle.log_to(second.target().open().expect("a file"));
        client.get("/?4");
        assert!(second.only_line().contains("/?4"), "{engine}");
        assert_eq!((count(&renamed), count(first.path())), (2, 1), "{engine}");
    }
}

#[test]
fn files_rotate_by_size_without_losing_a_line() {
    const COUNT: usize = 2_000;
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let log = LogFile::default();
        let rotation = Rotation { len_max: Some(20_000), age_max: None, keep: 100 };
        let logging = Some(Logging { format: LogFormat::Simple, ..Logging::default() });
        let served = EmbeddedServer::dir(&Settings { logging, ..settings(engine, 1) }, dir.path());
        served.handle.log_to(log.target().open_rotating(rotation).expect("a file"));
        let mut client = TestClient::connect(served.address);
        for number in 0..COUNT {
            client.get(&format!("/?{number}"));
        }
        let files = || {
            (0..100).map(|number| match number {
                0 => log.path().to_owned(),
                number => log.path().with_extension(number.to_string()),
            })
        };
        let all = || files().map(|file| count(&file)).sum::<usize>();
        wait_for("all lines", || Some(()).filter(|()| all() == COUNT));
        let texts: Vec<_> = files().filter_map(|file| fs::read_to_string(file).ok()).collect();
        assert!(texts.len() > 3, "{engine}: {} files", texts.len());
        let lines = texts.iter().rev().flat_map(|text| text.lines());
        for (number, line) in lines.enumerate() {
            assert!(line.contains(&format!("\"GET /?{number} ")), "{engine}: {line} is not line {number}");
        }
        assert!(texts.iter().all(|text| text.len() <= 20_000), "{engine}: a file above the limit");
    }
}

#[test]
fn files_rotate_by_age() {
    let dir = site(&[("index.html", "home")]);
    let log = LogFile::default();
    let rotation = Rotation { len_max: None, age_max: Some(Duration::from_millis(300)), keep: 2 };
    let logging = Some(Logging::default());
    let served = EmbeddedServer::dir(&Settings { logging, ..settings(Engine::Epoll, 1) }, dir.path());
    served.handle.log_to(log.target().open_rotating(rotation).expect("a file"));
    let mut client = TestClient::connect(served.address);
    wait_for("three files", || {
        client.get("/");
        log.path().with_extension("2").exists().then_some(())
    });
    client.get("/");
    assert!(!log.path().with_extension("3").exists(), "a third old file");
}

#[test]
fn lines_go_to_datagram_and_stream_sockets() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let socket_dir = crate::common::readable_dir();
        let target = |name: &str| LogTarget::Socket(socket_dir.path().join(name));
        let datagrams = UnixDatagram::bind(socket_dir.path().join("datagrams")).expect("a socket");
        let stream = UnixListener::bind(socket_dir.path().join("stream")).expect("a socket");
        let logging = Some(Logging { format: LogFormat::Simple, ..Logging::default() });
        let served = EmbeddedServer::dir(&Settings { logging, ..settings(engine, 1) }, dir.path());
        served.handle.log_to(target("datagrams").open().expect("a listener"));
        let mut client = TestClient::connect(served.address);
        client.send(get("/?1") + &get("/?2"));
        for number in [1, 2] {
            let mut line = [0; 1_000];
            let len = datagrams.recv(&mut line).expect("a line");
            let line = String::from_utf8_lossy(&line[..len]).into_owned();
            assert!(line.ends_with(&format!("\"GET /?{number} HTTP/1.1\" 200 4")), "{engine}: {line:?}");
        }
        served.handle.log_to(target("stream").open().expect("a listener"));
        client.send(get("/?3") + &get("/?4"));
        let (reader, _) = stream.accept().expect("a log");
        let mut lines = BufReader::new(reader).lines();
        for number in [3, 4] {
            let line = lines.next().expect("a line").expect("UTF-8");
            assert!(line.ends_with(&format!("\"GET /?{number} HTTP/1.1\" 200 4")), "{engine}: {line:?}");
        }
        let error = target("missing").open().map(drop).expect_err("no listener").to_string();
        assert!(error.starts_with("cannot log to unix:") && error.contains("no such file"), "{error}");
    }
}

#[test]
fn program_logs_to_a_file_and_to_standard_output() {
    for &engine in ENGINES {
        let dir = site(&[("index.html", "home")]);
        let log = LogFile::default();
        let path = log.path().to_string_lossy().into_owned();
        let form = ["--access-log-format", "simple", "--engine", engine.name()];
        // To a file that logrotate renames.
        let options = ["--access-log", &path, "--log-client-ip", "truncated"];
        let program = RunningProgram::start_ready(serve(dir.path(), &[&form[..], &options].concat()));
        let mut client = TestClient::connect(program.address());
        client.get("/?1");
        assert!(log.only_line().starts_with("127.0.0.0 "), "{engine}");
        let renamed = log.path().with_extension("1");
        fs::rename(log.path(), &renamed).expect("a file");
        client.get("/?2");
        wait_for("a line in the renamed file", || Some(()).filter(|()| count(&renamed) == 2));
        program.signal(Signal::USR1);
        wait_for("a new file", || log.path().exists().then_some(()));
        wait_for("a line in the new file", || {
            client.get("/?3");
            Some(()).filter(|()| count(log.path()) > 0)
        });
        drop(program);
        // To standard output, among the messages.
        let program =
            RunningProgram::start_ready(serve(dir.path(), &[&form[..], &["--access-log", "-"]].concat()));
        TestClient::connect(program.address()).get("/?4");
        let logged = || program.out().lines().any(|line| line.ends_with("\"GET /?4 HTTP/1.1\" 200 4"));
        wait_for("a line", || logged().then_some(()));
    }
}

#[test]
fn log_file_is_private_and_links_are_not_followed() {
    let dir = site(&[("index.html", "home")]);
    let logs = crate::common::readable_dir();
    let at = |name: &str| logs.path().join(name);
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    let log_to = |target: &Path, more: &[&str]| {
        serve(dir.path(), &[&["--access-log", target.to_str().unwrap()], more].concat())
    };
    // The umask of the shell that runs the tests.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim();
    let created = 0o640 & !u32::from_str_radix(umask, 8).unwrap();

    // A new file and its successor after rotation; an existing file keeps its mode.
    fs::write(at("existing"), "").unwrap();
    fs::set_permissions(at("existing"), fs::Permissions::from_mode(0o604)).unwrap();
    for (name, want) in [("new", created), ("existing", 0o604)] {
        let program = RunningProgram::start_ready(log_to(&at(name), &["--access-log-size", "64KiB"]));
        let (first, mut client) = (format!("{name}.1"), TestClient::connect(program.address()));
        wait_for("the next file", || {
            client.send(get("/").repeat(100));
            (0..100).for_each(|_| drop(client.response()));
            (at(&first).exists() && at(name).exists()).then_some(())
        });
        assert_eq!((mode(&first), mode(name)), (want, created), "{name}");
    }

    // A link to an existing file and a dangling link.
    fs::write(at("target"), "untouched").unwrap();
    symlink("target", at("link")).unwrap();
    symlink("nothing", at("dangling")).unwrap();
    for name in ["link", "dangling"] {
        let ended = RunningProgram::run(log_to(&at(name), &[]));
        let want = format!(
            "tarpon: cannot log to {}: it is a symbolic link, which is not followed; name the target of the link, or - for \
             standard output",
            at(name).display()
        );
        assert_eq!((ended.status.code(), ended.error_line()), (Some(1), &*want), "{name}");
    }
    assert!(!at("nothing").exists());
    assert_eq!(fs::read_to_string(at("target")).unwrap(), "untouched");

    // A link among the parent directories, and the links in /dev.
    fs::create_dir(at("real")).unwrap();
    symlink("real", at("parent")).unwrap();
    let program = RunningProgram::start_ready(log_to(&at("parent").join("log"), &[]));
    TestClient::connect(program.address()).get("/");
    wait_for("a line", || (count(at("real/log")) == 1).then_some(()));
    for stream in ["/dev/stdout", "/dev/stderr"] {
        let program = RunningProgram::start_ready(log_to(Path::new(stream), &[]));
        TestClient::connect(program.address()).get("/");
        let output = || if stream == "/dev/stdout" { program.out() } else { program.err() };
        wait_for("a line", || output().contains("\"GET / HTTP/1.1\" 200 4").then_some(()));
    }
}

#[test]
fn program_rotates_log_files() {
    let dir = site(&[("index.html", "home")]);
    let log = LogFile::default();
    let path = log.path().to_string_lossy().into_owned();
    let options = ["--access-log", &path, "--access-log-size", "64KiB", "--access-log-keep", "2"];
    let program = RunningProgram::start_ready(serve(dir.path(), &options));
    wait_for("the second file", || {
        let mut client = TestClient::connect(program.address());
        client.send(get("/").repeat(1_000));
        (0..1_000).for_each(|_| drop(client.response()));
        log.path().with_extension("2").exists().then_some(())
    });
    assert!(!log.path().with_extension("3").exists(), "a third old file");
}

#[test]
fn restarted_socket_listener_gets_lines_again() {
    let dir = site(&[("index.html", "home")]);
    let socket_dir = crate::common::readable_dir();
    let path = socket_dir.path().join("socket");
    let target = format!("unix:{}", path.display());
    let first = UnixDatagram::bind(&path).expect("a socket");
    let program = RunningProgram::start_ready(serve(dir.path(), &["--access-log", &target]));
    let mut client = TestClient::connect(program.address());
    let receives_line = |socket: &UnixDatagram| socket.recv(&mut [0; 1_000]).is_ok_and(|len| len > 0);
    client.get("/");
    assert!(receives_line(&first));
    drop(first);
    fs::remove_file(&path).expect("a socket");
    client.get("/");
    let second = UnixDatagram::bind(&path).expect("a socket");
    second.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    wait_for("a line for the second listener", || {
        client.get("/");
        receives_line(&second).then_some(())
    });
    let failed = RunningProgram::run(serve(dir.path(), &["--access-log", "/nowhere/access.log"]));
    let want = "tarpon: cannot log to /nowhere/access.log: no such file or directory; name a file in an existing, writable \
                directory, or - for standard output";
    assert_eq!(failed.error_line(), want);
}

/// The host and target of a request; the log file and the line it expects.
type LogCase = (&'static str, &'static str, Option<(&'static str, &'static str)>);

#[test]
fn each_site_has_its_configured_log() {
    let config = r#"
[log]
access-log = "all.log"
access-log-format = "simple"
[[site]]
path = "site"
[[site]]
path = "site"
hosts = ["own"]
access-log = "own.log"
[[site]]
path = "site"
hosts = ["off"]
access-log = "off"
[[site]]
path = "site"
hosts = ["shy"]
log-client-ip = "none"
[[site]]
path = "site"
hosts = ["same"]
access-log = "own.log"
access-log-format = "json"
[[site]]
path = "site"
hosts = ["few"]
access-log = "few.log"
access-log-sample = 1000000
[[listener]]
address = "127.0.0.1:0"
"#;
    #[rustfmt::skip]
    let cases: &[LogCase] = &[
        // host       target    file and line
        ("any",       "/?1",    Some(("all.log", r#"127.0.0.1 TIME "GET /?1PHASE HTTP/1.1" 200 4"#))),
        ("own",       "/?2",    Some(("own.log", r#"127.0.0.1 TIME "GET /?2PHASE HTTP/1.1" 200 4"#))),
        ("off",       "/?3",    None),
        ("off",       "/none?", None),
        ("shy",       "/?4",    Some(("all.log", r#"- TIME "GET /?4PHASE HTTP/1.1" 200 4"#))),
        ("same",      "/?5",    Some(("own.log", r#""target":"/?5PHASE","version":"HTTP/1.1","request":null,"host":"same""#))),
        ("few",       "/?6",    None),
        ("few",       "/none?", Some(("few.log", r#"127.0.0.1 TIME "GET /none?PHASE HTTP/1.1" 404 "#))),
    ];
    let logs = ["all.log", "own.log", "few.log"];
    for &engine in ENGINES {
        let dir = configured(config);
        let program = RunningProgram::start_ready(serve_configured(&dir, engine));
        let at = |name: &str| dir.path().join(name);
        let request = |client: &mut TestClient, host: &str, target: &str| {
            client.send(get(target).replace("Host: localhost", &format!("Host: {host}")));
            client.response();
        };
        for phase in ["started", "reopened", "replaced"] {
            match phase {
                "reopened" => {
                    logs.iter().for_each(|name| {
                        fs::rename(at(name), at(name).with_extension("old")).expect("a log")
                    });
                    program.signal(Signal::USR1);
                    // The server receives this file last.
                    wait_for("new logs in use", || {
                        request(&mut TestClient::connect(program.address()), "few", "/none");
                        (count(at("few.log")) > 0).then_some(())
                    });
                }
                "replaced" => {
                    let server = program.server();
                    kill_process(server, Signal::KILL).expect("a server");
                    wait_for("a new server", || {
                        (has_exited(server) && program.server() != server).then_some(())
                    });
                }
                _ => {}
            }
            let mut client = program.connect_after_kill();
            cases
                .iter()
                .for_each(|(host, target, _)| request(&mut client, host, &format!("{target}{phase}")));
            let lines = |name: &str| {
                let text = fs::read_to_string(at(name)).unwrap_or_default();
                text.lines().filter(|line| line.contains(phase)).map(str::to_owned).collect::<Vec<_>>()
            };
            for (host, target, line) in cases {
                let Some((name, want)) = line else { continue };
                let (front, rest) = want.split_once("TIME").unwrap_or(("", want));
                let rest = rest.replace("PHASE", phase);
                wait_for(&format!("{host}{target} in {name}, {phase}, {engine}"), || {
                    lines(name)
                        .iter()
                        .any(|line| line.starts_with(front) && line.contains(&rest))
                        .then_some(())
                });
            }
            // The sample of one in a million logs nothing but failures.
            assert_eq!(logs.map(|name| lines(name).len()), [2, 2, 1], "{phase}, {engine}");
        }
        assert!(!at("off").exists(), "{engine}");
    }
}

#[test]
fn shared_file_rotates_once_and_logs_follow_the_configuration() {
    let sites = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"site\"\naccess-log = \"a.log\"\n\
                 [[site]]\npath = \"site\"\nhosts = [\"b\"]\naccess-log = \"WHERE\"\n";
    let rotation = "[log]\naccess-log-size = \"64KiB\"\naccess-log-keep = 100\n";
    let both = sites.replace("WHERE", "a.log");
    let dir = configured(&format!("{both}{rotation}"));
    let program = RunningProgram::start_ready(serve_configured(&dir, Engine::Auto));
    let at = |name: &str| dir.path().join(name);
    let burst = |host: &str| {
        let mut client = TestClient::connect(program.address());
        client.send(get("/").replace("Host: localhost", &format!("Host: {host}")).repeat(100));
        (0..100).for_each(|_| drop(client.response()));
    };
    let mut request_count = 0;
    wait_for("the second file", || {
        ["a", "b"].into_iter().for_each(burst);
        request_count += 200;
        at("a.log.2").exists().then_some(())
    });
    let files = || {
        std::iter::once(at("a.log"))
            .chain((1..).map(|number| at(&format!("a.log.{number}"))).take_while(|file| file.exists()))
    };
    wait_for("all lines", || (files().map(count).sum::<usize>() == request_count).then_some(()));
    for full in files().skip(1) {
        assert!(fs::metadata(&full).expect("a file").len() >= 64 << 10, "{} rotated early", full.display());
    }
    fs::write(at("tarpon.toml"), sites.replace("WHERE", "b.log")).expect("a configuration");
    program.signal(Signal::HUP);
    // One request per connection: a draining server closes a connection after its next response, whatever is pipelined.
    wait_for("a line in the other log", || {
        let mut client = TestClient::connect(program.address());
        client.send(get("/").replace("Host: localhost", "Host: b"));
        client.response();
        (count(at("b.log")) > 0).then_some(())
    });
    fs::write(at("tarpon.toml"), sites.replace("WHERE", "/nowhere/b.log")).expect("a configuration");
    program.signal(Signal::HUP);
    wait_for("the error message", || program.err().contains("cannot log to /nowhere/b.log").then_some(()));
    burst("b");
}

#[test]
fn library_configures_the_log_of_each_site() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home")]);
        let (common, own) = (LogFile::default(), LogFile::default());
        let simple = Logging { format: LogFormat::Simple, ..Logging::default() };
        let sites = [SiteLog::Server, SiteLog::Own(simple), SiteLog::Off].into_iter().enumerate();
        let sites = sites.map(|(number, log)| {
            let names = vec![format!("site{number}").parse().expect("a name")];
            VirtualHost { names, log, ..Site::from_dir(dir.path()).expect("a site").into() }
        });
        let hosts = VirtualHosts::new(sites.collect(), UnknownHost::Site(0)).expect("sites");
        let logging = Some(Logging { client_ip: LogClientIp::None, ..simple });
        let served = EmbeddedServer::sites(&Settings { logging, ..settings(engine, 1) }, hosts);
        served.handle.log_to(common.target().open().expect("a file"));
        let mut client = TestClient::connect(served.address);
        for number in 0..3 {
            client.send(get(&format!("/?{number}")).replace("localhost", &format!("site{number}")));
            client.response();
        }
        assert_eq!(
            (common.text(), own.text()),
            (String::new(), String::new()),
            "{engine}: no line before every log has a target"
        );
        served.handle.log_site_to(1, own.target().open().expect("a file"));
        assert_eq!(
            without_time(&common.only_line(), LogFormat::Simple),
            r#"- TIME "GET /?0 HTTP/1.1" 200 4"#
        );
        assert_eq!(
            without_time(&own.only_line(), LogFormat::Simple),
            r#"127.0.0.1 TIME "GET /?1 HTTP/1.1" 200 4"#
        );
        // A target for a site without a log, or for no site, has no effect.
        served.handle.log_site_to(2, own.target().open().expect("a file"));
        served.handle.log_site_to(7, own.target().open().expect("a file"));
        client.get("/?3");
        common.lines(2);
    }
}

/// Returns a directory with a site and this configuration.
fn configured(config: &str) -> tempfile::TempDir {
    site(&[("tarpon.toml", config), ("site/index.html", "home")])
}

fn serve_configured(dir: &tempfile::TempDir, engine: Engine) -> Command {
    let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
    command.arg(dir.path().join("tarpon.toml")).args(["--engine", engine.name()]);
    command
}

/// A log file in a temporary directory.
struct LogFile {
    dir: tempfile::TempDir,
}

impl Default for LogFile {
    fn default() -> LogFile {
        LogFile { dir: crate::common::readable_dir() }
    }
}

impl LogFile {
    /// Starts an embedded server that logs to this file.
    fn embedded(&self, with: &Settings, form: LogFormat, dir: &Path) -> EmbeddedServer {
        let logging = Some(Logging { format: form, ..Logging::default() });
        let served = EmbeddedServer::dir(&Settings { logging, ..with.clone() }, dir);
        served.handle.log_to(self.target().open().expect("a file"));
        served
    }

    /// Starts a server on any engine that logs to this file.
    fn server(&self, with: &Settings, form: LogFormat, dir: &Path) -> TestServer {
        if EMBEDDED.contains(&with.engine) {
            return self.embedded(with, form, dir).into();
        }
        let timeout = format!("{}ms", with.header_timeout.as_millis());
        let (path, form, workers) =
            (self.path().display().to_string(), form.to_string(), with.workers().to_string());
        let options = [
            ["--engine", with.engine.name()],
            ["--workers", &workers],
            ["--access-log", &path],
            ["--access-log-format", &form],
            ["--header-timeout", &timeout],
        ];
        RunningProgram::start_ready(serve_exactly(dir, options.as_flattened())).into()
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn target(&self) -> LogTarget {
        LogTarget::File(self.path())
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap_or_default()
    }

    fn empty(&self) {
        fs::write(self.path(), "").expect("a file");
    }

    /// Waits for exactly `count` lines.
    #[track_caller]
    fn lines(&self, count: usize) -> Vec<String> {
        let text = wait_for("lines", || {
            Some(self.text()).filter(|text| text.lines().count() >= count && text.ends_with('\n'))
        });
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{text}");
        lines
    }

    #[track_caller]
    fn only_line(&self) -> String {
        self.lines(1).remove(0)
    }
}

fn count(path: impl AsRef<Path>) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.matches('\n').count())
}

/// Checks the times in a line and replaces them with placeholders.
#[track_caller]
fn without_time(line: &str, form: LogFormat) -> String {
    let (before, after, shape) = match form {
        LogFormat::Common | LogFormat::Combined => ("[", "]", "dd/Mmm/dddd:dd:dd:dd +0000"),
        LogFormat::Simple => (" ", " ", "dddd-dd-ddTdd:dd:ddZ"),
        LogFormat::Json => ("\"time\":\"", "\"", "dddd-dd-ddTdd:dd:dd.dddZ"),
    };
    let (front, rest) = line.split_once(before).unwrap_or_else(|| panic!("a time in {line}"));
    let (time, rest) = rest.split_once(after).unwrap_or_else(|| panic!("a time in {line}"));
    let fits = |(found, shape): (char, char)| match shape {
        'd' => found.is_ascii_digit(),
        'M' => found.is_ascii_uppercase(),
        'm' => found.is_ascii_lowercase(),
        other => found == other,
    };
    assert!(time.len() == shape.len() && time.chars().zip(shape.chars()).all(fits), "{time}");
    let year = time.split(['/', '-', ':']).find_map(|part| part.parse().ok().filter(|&part: &u64| part > 31));
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970").as_secs() / 31_556_952;
    assert!(year.expect("a year").abs_diff(1970 + since_1970) <= 1, "{time}");
    let line = format!("{front}{before}TIME{after}{rest}");
    match line.split_once("\"duration_ms\":") {
        Some((front, rest)) => {
            let (ms, rest) = rest.split_once(',').expect("more keys");
            assert!(ms.parse::<u64>().expect("a number") < TEST_TIMEOUT.as_millis() as u64);
            format!("{front}\"duration_ms\":MS,{rest}")
        }
        None => line,
    }
}

#[test]
fn lines_lost_on_a_full_disk_are_counted() {
    // Only root may mount a small file system.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for engine in [Engine::Epoll, Engine::Prefork] {
        let dir = site(&[("index.html", "home")]);
        let temp = readable_dir();
        let (log, admin) = (temp.path().join("log"), temp.path().join("admin.sock"));
        fs::create_dir(&log).expect("a directory");
        let address = format!("unix:{}", admin.display());
        let file = log.join("access.log").display().to_string();
        let options =
            ["--engine", engine.name(), "--workers", "1", "--admin", &address, "--access-log", &file];
        // All of the small disk but a page is in use.
        let mount = format!(
            "mount -t tmpfs -o size=64k none {0} && head -c 61440 /dev/zero >{0}/other && exec \"$@\"",
            log.display()
        );
        let wrapper = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
        let program = RunningProgram::start_ready(wrap_command(&wrapper, &serve(dir.path(), &options)));
        let inside = Path::new("/proc").join(program.pid().as_raw_nonzero().to_string()).join("root");
        let inside = inside.join(log.strip_prefix("/").expect("an absolute path"));
        let mut sent = 0;
        let mut request = || {
            assert_eq!(TestClient::connect(program.address()).get("/").status, 200);
            sent += 1;
        };
        let lost = || {
            let metrics = TestClient::connect_unix(&admin).get("/metrics").content;
            let metrics = String::from_utf8(metrics).expect("text");
            let value = metrics.lines().find_map(|row| row.strip_prefix("tarpon_access_log_lost_total "));
            value.expect("a count").parse::<usize>().expect("a number")
        };
        wait_for("a lost line", || {
            request();
            (lost() > 2).then_some(())
        });
        wait_for("a warning", || program.err().contains("lines are lost until").then_some(()));
        fs::remove_file(inside.join("other")).expect("a file");
        wait_for("a line after the others", || {
            request();
            program.err().contains("can be written again; lines that were lost: ").then_some(())
        });
        let err = program.err();
        let (_, count) = err.trim_end().rsplit_once(": ").expect("a number at the end");
        assert_eq!(count.parse(), Ok(lost()), "{engine}: {err}");
        let whole = |line: &&str| line.contains("GET / HTTP/1.1") && line.ends_with("\"-\"");
        wait_for("all other lines", || {
            let text = fs::read_to_string(inside.join("access.log")).expect("a log");
            (text.lines().filter(whole).count() + lost() == sent).then_some(())
        });
    }
}
