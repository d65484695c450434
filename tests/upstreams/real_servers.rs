//! Servers of other projects behind tarpon: those of Python, Node and Go. `servers/README.md` documents the programs.

use super::{
    proxied::{Proxied, ProxyClient, ProxyConfig, get, post, request},
    wire::StrictMessage,
};
use crate::{
    clients::build_go,
    common::{ENGINES, distinct_bytes},
};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
};
use tarpon::Engine;

#[test]
fn python_server_is_passed_on() {
    check(
        "python",
        |file| {
            let mut command = Command::new("python3");
            command.arg(file);
            command
        },
        "python.py",
    );
}

#[test]
fn node_server_is_passed_on() {
    check(
        "node",
        |file| {
            let mut command = Command::new("node");
            command.arg(file);
            command
        },
        "node.mjs",
    );
}

#[test]
fn go_server_is_passed_on() {
    check("go", |file| Command::new(build_go(file, "server-of-go")), "go.go");
}

/// A running server.
struct RealServer {
    child: Child,
    port: u16,
    _input: ChildStdin,
}

impl RealServer {
    fn start(mut command: Command) -> RealServer {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}: run tests/setup"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a port");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("no port: {line}"));
        RealServer { _input: child.stdin.take().expect("a pipe"), port, child }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check(language: &str, command: impl Fn(&Path) -> Command, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/servers").join(file);
    let server = RealServer::start(command(&file));
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &[server.url()], ProxyConfig::default());
        let mut client = proxied.connect();
        let case = format!("{engine}, {language}");
        let hello = format!("hello from {language}\n");
        for _ in 0..3 {
            let response = client.ask(get("/app/")).response;
            assert_eq!((response.status(), response.text()), (200, hello.clone()), "{case}");
        }
        let head = client.ask(request("HEAD", "/app/", "")).response;
        assert_eq!(head.field("Content-Length"), Some(&*hello.len().to_string()), "{case}: {head}");
        let response = client.ask(get("/app/none")).response;
        assert_eq!((response.status(), &*response.text()), (404, "nothing\n"), "{case}");

        let content = distinct_bytes(1 << 20);
        let chunks = content
            .chunks(50_000)
            .map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        let head = request("POST", "/app/echo", "Transfer-Encoding: chunked\r\n").into_bytes();
        let chunked = [vec![head], chunks.collect(), vec![b"0\r\n\r\n".to_vec()]].concat().concat();
        for sent in [post("/app/echo", &content), chunked] {
            let response = echoed(&mut client, &sent);
            assert!(response.status() == 200 && response.content == content, "{case}");
        }
        let lines: String = (0..100).map(|number| format!("chunk {number}\n")).collect();
        assert_eq!(client.ask(get("/app/chunks")).response.text(), lines, "{case}");

        client.send(get("/app/events"));
        assert_eq!(client.response_head().status(), 200, "{case}");
        for number in 0..3 {
            assert_eq!(proxied.ask(post("/app/next", "")).response.status(), 204, "{case}");
            assert_eq!(client.chunk(), format!("data: {number}\n\n").as_bytes(), "{case}");
        }
        assert!(client.chunk().is_empty(), "{case}");
    }
}

/// Sends a request and reads its response at the same time.
fn echoed(client: &mut ProxyClient, sent: &[u8]) -> StrictMessage {
    let mut sender = ProxyClient::new(client.stream());
    thread::scope(|scope| {
        scope.spawn(|| assert!(sender.send(sent)));
        client.answered("POST").response
    })
}

/// A WSGI program cannot tell `X_Forwarded_For` from `X-Forwarded-For`.
#[test]
fn wsgi_program_learns_the_client_and_nothing_forged() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/servers/python.py");
    let mut command = Command::new("python3");
    command.arg(file);
    let server = RealServer::start(command);
    let proxied = Proxied::start(Engine::default(), &[server.url()], ProxyConfig::default());
    let fields = "X-Forwarded-For: 198.51.100.9\r\nX_Forwarded_For: 198.51.100.9\r\nX_Forwarded_Proto: gopher\r\nX-Forwarded_Proto: gopher\r\n";
    let response = proxied.ask(request("GET", "/app/wsgi/a%20b?c=%20d", fields)).response;
    let want = "HTTP_X_FORWARDED_FOR=127.0.0.1\nHTTP_X_FORWARDED_PROTO=http\nHTTP_HOST=a.example\nPATH_INFO=/app/wsgi/a%20b\nQUERY_STRING=c=%20d\n";
    assert_eq!(response.text(), want);
}
