//! Clients that speak HTTP/2, before upstream servers that speak HTTP/1.

use super::{
    proxied::{Proxied, ProxyConfig},
    scripted::{AfterResponse, ScriptedServer, ok},
};
use crate::common::distinct_bytes;
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};
use tarpon::Engine;

/// The engines that offer HTTP/2.
pub(super) fn engines() -> impl Iterator<Item = Engine> {
    Engine::ALL
        .iter()
        .copied()
        .filter(|engine| !matches!(engine, Engine::Threads | Engine::Prefork | Engine::Fork))
}

/// Runs curl, and returns what it shows.
fn curl(options: &[&str]) -> String {
    let mut command = Command::new("curl");
    command
        .args(["-q", "-sS", "--max-time", "20", "--noproxy", "*", "--http2-prior-knowledge"])
        .args(options);
    let output = command.output().expect("curl is missing: run tests/setup");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn requests_are_forwarded_as_http1() {
    let server = ScriptedServer::responding(|request| (ok(&request.content), AfterResponse::Keep));
    for engine in engines() {
        let proxied = Proxied::start(engine, &[server.url()], ProxyConfig::default());
        let url = format!("http://{}/app/x?a=b", proxied.address());
        let fields = ["-H", "Cookie: a=1", "-H", "Cookie: b=2", "-H", "X-Own: yes"];
        curl(&[&fields[..], &[&url]].concat());
        let seen = server.next().message;
        assert!(seen.start.starts_with("GET /app/x?a=b HTTP/1.1"), "{engine}: {seen}");
        assert_eq!(seen.field("Cookie"), Some("a=1; b=2"), "{engine}: {seen}");
        assert_eq!(seen.field("X-Own"), Some("yes"), "{engine}: {seen}");
        assert_eq!(seen.field("Via"), Some("2.0 tarpon"), "{engine}: {seen}");
        assert_eq!(seen.field("Host"), Some(&*proxied.address().to_string()), "{engine}: {seen}");
        // Content, with its length and without.
        let dir = tempfile::tempdir().expect("a directory");
        let (sent, saved) = (dir.path().join("sent"), dir.path().join("saved"));
        for len in [0, 1, 16_384, 700_000, 3_000_000] {
            fs::write(&sent, distinct_bytes(len)).expect("a file");
            for streams in [false, true] {
                let data = format!("@{}", sent.display());
                let upload = sent.display().to_string();
                let options = match streams {
                    false => vec!["--data-binary", &data],
                    true => vec!["-X", "POST", "-H", "Content-Length:", "-T", &upload],
                };
                let shown = curl(
                    &[&options[..], &["-o", &saved.display().to_string(), "-w", "%{http_code}", &url]]
                        .concat(),
                );
                assert_eq!(shown, "200", "{engine}, {len} bytes");
                assert!(fs::read(&saved).expect("a file") == distinct_bytes(len), "{engine}, {len} bytes");
                assert!(server.next().message.content == distinct_bytes(len), "{engine}, {len} bytes");
            }
        }
        drop(proxied);
        server.check(engine.name());
    }
}

#[test]
fn responses_of_each_framing_are_passed_on() {
    let server = ScriptedServer::responding(|request| {
        let content = String::from_utf8_lossy(&distinct_bytes(100_000).escape_ascii().collect::<Vec<u8>>())
            .into_owned();
        let line = request.start.clone();
        if line.contains("/chunks") {
            let chunks: String = content
                .as_bytes()
                .chunks(30_000)
                .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)))
                .collect();
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
            return (format!("{head}{chunks}0\r\nX-Sum: 9\r\n\r\n").into_bytes(), AfterResponse::Keep);
        }
        if line.contains("/close") {
            return (format!("HTTP/1.1 200 OK\r\n\r\n{content}").into_bytes(), AfterResponse::Close);
        }
        if line.contains("/hints") {
            let head = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            return (head.as_bytes().to_vec(), AfterResponse::Keep);
        }
        if line.contains("/none") {
            return (b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n".to_vec(), AfterResponse::Keep);
        }
        if line.contains("/lie") {
            return (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_vec(), AfterResponse::Close);
        }
        (ok(&content), AfterResponse::Keep)
    });
    let content =
        String::from_utf8_lossy(&distinct_bytes(100_000).escape_ascii().collect::<Vec<u8>>()).into_owned();
    for engine in engines() {
        let proxied = Proxied::start(engine, &[server.url()], ProxyConfig::default());
        let url = |path: &str| format!("http://{}/app{path}", proxied.address());
        for path in ["/length", "/chunks", "/close"] {
            assert!(curl(&[&url(path)]) == content, "{engine}, {path}");
        }
        let hints = curl(&["-D", "-", &url("/hints")]);
        assert!(
            hints.starts_with("HTTP/2 103") && hints.contains("link: </a.css>") && hints.ends_with("ok"),
            "{hints}"
        );
        assert!(curl(&["-D", "-", &url("/chunks")]).contains("x-sum: 9"), "{engine}: trailers");
        assert_eq!(curl(&["-o", "/dev/null", "-w", "%{http_code}", &url("/none")]), "204", "{engine}");
        assert_eq!(curl(&["-w", " %{http_code}", &url("/lie")]), "page of the site for 502 502", "{engine}");
        assert_eq!(
            curl(&["-I", "-o", "/dev/null", "-w", "%{http_code}", &url("/length")]),
            "200",
            "{engine}"
        );
        // All on one connection.
        let urls = (0..40).map(|number| url(&format!("/length?{number}")));
        let output = Command::new("nghttp").arg("--timeout=20").args(urls).output();
        let output = output.expect("nghttp is missing: run tests/setup");
        assert_eq!(output.stdout.len(), 40 * content.len(), "{engine}");
        drop(proxied);
    }
}

/// The number of files that Node loads: half of them, and an upload, are less than the streams that a client may have at a time.
const FILE_COUNT: usize = 200;

#[test]
fn a_stop_finishes_what_node_has_begun() {
    let files: Vec<(String, String)> =
        (0..FILE_COUNT).map(|number| (format!("many/{number}"), format!("{number},").repeat(5000))).collect();
    let server = ScriptedServer::responding(|request| (ok(&request.content), AfterResponse::Keep));
    for engine in engines() {
        let config =
            ProxyConfig { server: "grace-period = \"60s\"\n", files: &files, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &[server.url()], config);
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/http2.mjs");
        let mut node = Command::new("node");
        node.arg(program).args([format!("http://{}", proxied.address()), FILE_COUNT.to_string()]);
        let mut node = node.stdout(Stdio::piped()).spawn().expect("node is missing: run tests/setup");
        let mut lines = BufReader::new(node.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().map(|line| line.expect("a line"));
        assert_eq!(line().as_deref(), Some("stop"), "{engine}");
        proxied.program().signal(Signal::TERM);
        assert_eq!(line().as_deref(), Some("done"), "{engine}");
        assert!(node.wait().expect("node ends").success(), "{engine}");
        assert!(proxied.wait().status.success(), "{engine}");
        server.check(engine.name());
        assert_eq!(server.next().message.content, b"content ".repeat(10_000), "{engine}");
    }
}
