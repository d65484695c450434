//! The dashboard of the admin listener: which clients may see it, how many may watch, and what a browser shows.

use crate::common::{
    ENGINES,
    client::{TestClient, connect_on, get},
    load::SetOnDrop,
    page::BrowserPage,
    port::ReservedPort,
    program::{RunningProgram, serve, tarpon},
    site, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

const TOKEN: &str = "right-token-right-token";

/// The clients that may watch at a time.
const STREAM_COUNT_MAX: usize = 8;

fn token_file(dir: &Path) -> PathBuf {
    let path = dir.join("token");
    fs::write(&path, format!("{TOKEN}\n")).expect("a file");
    path
}

fn request(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// A client that reads events.
struct EventClient(TestClient);

impl EventClient {
    fn open(mut client: TestClient, fields: &str) -> EventClient {
        client.send(request("/events", fields));
        let head = until(&mut client, "\r\n\r\n");
        for part in ["HTTP/1.1 200 OK\r\n", "text/event-stream", "no-store", "nosniff"] {
            assert!(head.contains(part), "{part}: {head}");
        }
        EventClient(client)
    }

    fn event(&mut self) -> Value {
        let event = until(&mut self.0, "\n\n");
        serde_json::from_str(event.strip_prefix("data: ").expect("an event")).expect("JSON")
    }
}

fn until(client: &mut TestClient, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.extend(client.read_exact(1));
    }
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_token_on_a_network_is_a_warning() {
    let dir = site(&[("site/index.html", "home")]);
    let file = token_file(dir.path());
    for (admin, warns) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let config = dir.path().join("tarpon.toml");
        let text = format!(
            "[[site]]\npath = \"site\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nadmin = \"{admin}\"\nadmin-token-file = \"{}\"\n",
            file.to_str().expect("text")
        );
        fs::write(&config, text).expect("a file");
        let check = RunningProgram::run(tarpon(["config".as_ref(), "check".as_ref(), config.as_os_str()]));
        let warning = format!("the token of the admin listener travels in clear text to {admin}");
        assert!(check.status.success() && check.err.contains(&warning) == warns, "{admin}: {check:?}");
    }
}

#[test]
fn dashboard_over_tcp_needs_the_token() {
    let dir = site(&[("index.html", "home")]);
    let run = tempfile::TempDir::new().expect("a directory");
    let (file, port) = (token_file(run.path()), ReservedPort::new());
    let (file, admin) = (file.to_str().expect("text"), port.address.to_string());
    let server =
        RunningProgram::start_ready(serve(dir.path(), &["--admin", &admin, "--admin-token-file", file]));
    let ask = |target: &str, fields: &str| {
        let mut client = TestClient::connect(port.address);
        client.send(request(target, fields));
        client.response()
    };
    let page = ask("/dashboard", "");
    assert_eq!(page.status, 200);
    let policy = page.field("Content-Security-Policy").expect("a policy");
    for part in ["default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let fields = ["X-Content-Type-Options", "Cache-Control", "Referrer-Policy"].map(|name| page.field(name));
    assert_eq!(fields, [Some("nosniff"), Some("no-store"), Some("no-referrer")]);
    let wrong = "Authorization: Bearer wrong-token-wrong-token\r\n";
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    for target in ["/events", "/metrics", "/status"] {
        for fields in ["", wrong] {
            let refusal = ask(target, fields);
            assert_eq!(
                (refusal.status, refusal.field("WWW-Authenticate")),
                (401, Some("Bearer realm=\"admin\"")),
                "{target}"
            );
        }
    }
    // The token must not come in the target, which others may log.
    assert_eq!(ask(&format!("/events?token={TOKEN}"), "").status, 401);
    assert_eq!(ask("/metrics", &right).status, 200);
    let mut events = EventClient::open(TestClient::connect(port.address), &right);
    let first = events.event();
    let mut client = TestClient::connect(server.address());
    client.send(get("/?secret=1"));
    assert_eq!(client.response().status, 200);
    let last = wait_for("the request", || Some(events.event()).filter(|event| event["responses"][1] == 1));
    assert!(last["at_ms"].as_u64() > first["at_ms"].as_u64(), "{first} {last}");
    let text = last.to_string();
    assert!(!text.contains("secret") && !text.contains("127.0.0.1"), "{text}");
    // The commands send it, too; and a token gives no right to order.
    let command = |name: &str, options: &[&str]| {
        RunningProgram::run(tarpon([name, "--admin", &admin].iter().chain(options).map(OsStr::new)))
    };
    let status = command("status", &["--json", "--admin-token-file", file]);
    assert!(status.status.success() && status.out.contains("\"engine\""), "{status:?}");
    let refused = command("status", &[]);
    assert!(
        refused.err.contains("it asks for a token; name the file with the token by --admin-token-file"),
        "{refused:?}"
    );
    let order = command("reload", &[]);
    assert!(order.status.code() == Some(1) && order.err.contains("not from there"), "{order:?}");
    assert!(!server.err().contains(TOKEN));
}

#[test]
fn dashboard_over_tcp_is_closed_without_a_token() {
    let dir = site(&[("index.html", "home")]);
    let port = ReservedPort::new();
    let _server = RunningProgram::start_ready(serve(dir.path(), &["--admin", &port.address.to_string()]));
    for (target, status) in [("/dashboard", 403), ("/events", 403), ("/metrics", 200)] {
        let mut client = TestClient::connect(port.address);
        client.send(request(target, ""));
        assert_eq!(client.response().status, status, "{target}");
    }
}

#[test]
fn streams_are_bounded_and_end_with_a_reload_or_a_stop() {
    let dir = site(&[("index.html", "home")]);
    for engine in ["auto", "prefork"] {
        let run = tempfile::TempDir::new().expect("a directory");
        let socket = run.path().join("admin");
        let admin = format!("unix:{}", socket.display());
        let server = RunningProgram::start_ready(serve(dir.path(), &["--admin", &admin, "--engine", engine]));
        let open = || {
            let mut client = EventClient::open(TestClient::connect_unix(&socket), "");
            assert_eq!(client.event()["state"], "serving", "{engine}");
            client
        };
        let watching: Vec<_> = (0..STREAM_COUNT_MAX).map(|_| open()).collect();
        let mut client = TestClient::connect_unix(&socket);
        client.send(request("/events", ""));
        let refusal = client.response();
        assert_eq!((refusal.status, refusal.field("Retry-After")), (503, Some("5")), "{engine}");
        let reload = RunningProgram::run(tarpon(["reload", "--admin", &admin].map(OsStr::new)));
        assert!(reload.status.success(), "{engine}: {reload:?}");
        for EventClient(mut client) in watching {
            // Whole events, and then the end.
            let rest = String::from_utf8(client.read_to_end()).expect("UTF-8");
            assert!(rest.is_empty() || rest.ends_with("}\n\n"), "{engine}: {rest}");
        }
        // The next server answers, and stops though a client watches.
        let EventClient(mut last) = open();
        server.signal(Signal::TERM);
        last.read_to_end();
        assert!(server.wait().status.success(), "{engine}");
    }
}

#[test]
fn page_is_live_in_a_browser() {
    let dir = site(&[("index.html", "home")]);
    let run = tempfile::TempDir::new().expect("a directory");
    let (file, port) = (token_file(run.path()), ReservedPort::new());
    let admin = port.address.to_string();
    let options = ["--admin", &admin, "--admin-token-file", file.to_str().expect("text"), "--hot-paths", "1"];
    let server = RunningProgram::start_ready(serve(dir.path(), &options));
    let targets: Vec<_> = hostile_targets().into_iter().chain([b"/?secret=1".to_vec()]).collect();
    let verdict =
        with_requests(server.address(), &targets, || load(&admin, &["--size", "390x844", "--dark"]));
    let lines: Vec<_> = verdict.lines().collect();
    for line in [
        "first: this listener asks for a token",
        "second: the token is wrong",
        "title: tarpon",
        "cards: 8",
        "fits: true",
        "markup: 0",
        "ran: nothing",
        "background: rgb(13, 17, 23)",
        "token in the page: false",
    ] {
        assert!(lines.contains(&line), "{line}: {verdict}");
    }
    assert!(lines.iter().any(|line| line.starts_with("row: site 1 | ")), "{verdict}");
    assert!(!verdict.contains("secret") && !verdict.contains("127.0.0.1"), "{verdict}");
    // The hostile paths are there, as text.
    for path in ["/<script>window.ran=1</script>", "/%1b%5b2J%1b%5d0;owned%07", "/%E2%80%AEgpj.exe"] {
        assert!(lines.iter().any(|line| line.starts_with(&format!("row: {path} | "))), "{path}: {verdict}");
    }
    assert!(verdict.contains("paths, by share of the last requests (1 in 1)"), "{verdict}");
}

/// Targets that try to leave the place where they are shown.
fn hostile_targets() -> Vec<Vec<u8>> {
    let mut targets: Vec<Vec<u8>> = [
        "/<script>window.ran=1</script>",
        "/<img/src=x/onerror=window.ran=1>",
        "/%3Cscript%3Ewindow.ran=1%3C/script%3E",
        "/\"'&lt;b&gt;${window.ran=1}",
        "/%1b%5b2J%1b%5d0;owned%07",
        "/%E2%80%AEgpj.exe",
        "/%0d%0adata:%20x",
        "/%00%ff",
        // Bytes that no target may have: refused, and so not counted.
        "/\u{1b}[2J\u{1b}]0;owned\u{7}",
        "/\u{9b}31m",
        "/\u{202e}gpj.exe",
    ]
    .map(|target| target.as_bytes().to_vec())
    .into();
    targets.push(b"/\xff\xfe".to_vec());
    targets.push([b"/".as_slice(), &[b'w'; 3_000], b"?secret=2"].concat());
    targets
}

/// Sends a request with any target, and returns the status of the response.
fn ask(address: SocketAddr, target: &[u8]) -> u16 {
    let mut client = TestClient::connect(address);
    client.send([b"GET ".as_slice(), target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    client.response().status
}

#[test]
fn hot_paths_are_counted_by_all_engines() {
    let dir = site(&[("index.html", "home"), ("a/b.txt", "b")]);
    for engine in ENGINES {
        let run = tempfile::TempDir::new().expect("a directory");
        let admin = format!("unix:{}", run.path().join("admin").display());
        let proxy = "/api/=http://127.0.0.1:1";
        let options = ["--admin", &admin, "--engine", engine.name(), "--hot-paths", "1", "--proxy", proxy];
        let server = RunningProgram::start_ready(serve(dir.path(), &options));
        let mut want: BTreeMap<String, u64> = BTreeMap::new();
        for (_, connect) in connect_on(*engine) {
            for (target, count) in [("/", 6), ("/a/b.txt?secret=1", 4), ("/none", 2), ("/api/x?secret=3", 1)]
            {
                for _ in 0..count {
                    let mut client = connect(server.address());
                    client.send(get(target));
                    client.response();
                    *want.entry(target.split('?').next().expect("a path").to_owned()).or_default() += 1;
                }
            }
        }
        for target in hostile_targets() {
            let status = ask(server.address(), &target);
            let path = target.split(|&byte| byte == b'?').next().expect("a path");
            let is_visible = path.iter().all(u8::is_ascii_graphic);
            assert!(status == 404 || status == 400, "{engine}: {status}");
            if is_visible {
                let path = std::str::from_utf8(path).expect("visible ASCII");
                *want.entry(path.chars().take(128).collect()).or_default() += 1;
            }
        }
        let status = RunningProgram::run(tarpon(["status", "--json", "--admin", &admin].map(OsStr::new)));
        let metrics: Value = serde_json::from_str(&status.out).expect("JSON");
        let paths = metrics["hot_paths"]["paths"].as_array().expect("paths");
        let found = paths.iter().map(|path| {
            let text = path["path"].as_str().expect("text").to_owned();
            (text, path["count"].as_u64().expect("a number"))
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), want, "{engine}");
        let order: Vec<_> = paths.iter().take(2).map(|path| path["path"].as_str()).collect();
        assert_eq!(order, [Some("/"), Some("/a/b.txt")], "{engine}");
        assert_eq!(metrics["hot_paths"]["samples"], want.values().sum::<u64>(), "{engine}");
        assert!(!status.out.contains("secret"), "{engine}: {}", status.out);
    }
}

#[test]
fn hot_paths_reach_a_terminal_as_visible_text() {
    let dir = site(&[("index.html", "home")]);
    let run = tempfile::TempDir::new().expect("a directory");
    let admin = format!("unix:{}", run.path().join("admin").display());
    let server = RunningProgram::start_ready(serve(dir.path(), &["--admin", &admin, "--hot-paths", "1"]));
    for target in hostile_targets() {
        ask(server.address(), &target);
    }
    let top = RunningProgram::run(tarpon(["top", "--once", "--admin", &admin].map(OsStr::new)));
    assert!(top.out.contains("\n/<script>window.ran=1</script> "), "{top:?}");
    assert!(top.out.contains("path, by share of the last requests (1 in 1)"), "{top:?}");
    assert!(top.out.chars().all(|char| char == '\n' || !char.is_control()), "{top:?}");
    assert!(top.out.lines().all(|line| line.chars().count() <= 80) && !top.out.contains("secret"), "{top:?}");
}

/// Loads the dashboard, and returns what `tests/browser/dashboard.js` has found.
fn load(admin: &str, options: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/dashboard.js");
    let options = [&["--script", script.to_str().expect("text"), "--verdict", "#verdict"], options].concat();
    let page = BrowserPage::load(&format!("http://{admin}/dashboard"), &options);
    // Both refusals of the token, and nothing of the policy.
    assert_eq!(page.errors.matches("401 (Unauthorized)").count(), 2, "{page:?}");
    assert!(!page.errors.contains("Content Security Policy"), "{page:?}");
    page.verdict
}

/// Sends requests one after another until the call returns.
fn with_requests<T>(address: SocketAddr, targets: &[Vec<u8>], call: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if the call fails.
        let _done = SetOnDrop(&is_done);
        scope.spawn(|| {
            while !is_done.load(SeqCst) {
                for target in targets {
                    ask(address, target);
                }
                // Some requests for each event, without load.
                thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        call()
    })
}
