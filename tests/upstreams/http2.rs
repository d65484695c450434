//! Clients that speak HTTP/2, before upstream servers that speak HTTP/1: requests and tunnels.

use super::{
    proxied::{Proxied, ProxyConfig},
    scripted::{AfterResponse, ScriptedServer, ok},
};
use crate::common::{client::connected, distinct_bytes, has_http2};
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};
use tarpon::Engine;
use tarpon_http::h2::{
    FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, PREFACE,
    hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX, encode_field},
};

/// The engines that offer HTTP/2.
pub(super) fn engines() -> impl Iterator<Item = Engine> {
    Engine::ALL.iter().copied().filter(|engine| has_http2(*engine))
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

#[test]
fn each_side_ends_a_tunnel_over_http2() {
    const ACCEPTED: &str =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    const CANCEL: u32 = 8;
    let server = ScriptedServer::start(|connection| {
        let Some(head) = connection.head() else { return };
        if head.target() == "/app/no" {
            connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
            return;
        }
        connection.send([ACCEPTED, "first,"].concat());
        match head.target() {
            "/app/client" | "/app/cancel" => {
                let got = connection.wait_for_end();
                connection.send([b"got ", &got[..]].concat());
            }
            "/app/server" => {
                connection.send("last");
                connection.shutdown_write();
                connection.wait_for_end();
            }
            "/app/reset" => {
                let got = connection.raw(5).expect("bytes of the client");
                assert_eq!(got, b"hello");
                connection.reset();
            }
            target => panic!("{target}"),
        }
    });
    for engine in engines() {
        let proxied = Proxied::start(engine, &[server.url()], ProxyConfig::default());
        let (data, end) = (FrameType::Data, FrameFlags::END_STREAM);
        let mut client = Http2Tunnel::open(&proxied, "/app/client", b"200");
        client.send(data, FrameFlags::NONE, STREAM, b"hello");
        client.send(data, end, STREAM, b"");
        assert_eq!(client.rest(), (b"first,got hello".to_vec(), None), "{engine}");
        let seen = server.next().message;
        assert!(seen.start.starts_with("GET /app/client HTTP/1.1"), "{engine}: {seen}");
        assert_eq!(seen.field("Upgrade"), Some("websocket"), "{engine}: {seen}");

        let mut client = Http2Tunnel::open(&proxied, "/app/server", b"200");
        assert_eq!(client.rest(), (b"first,last".to_vec(), None), "{engine}");
        server.wait_for_end(server.next().connection);

        let mut client = Http2Tunnel::open(&proxied, "/app/reset", b"200");
        client.send(data, FrameFlags::NONE, STREAM, b"hello");
        assert_eq!(client.rest(), (b"first,".to_vec(), Some(CANCEL)), "{engine}");
        server.next();

        let mut client = Http2Tunnel::open(&proxied, "/app/cancel", b"200");
        client.send(FrameType::RstStream, FrameFlags::NONE, STREAM, &CANCEL.to_be_bytes());
        server.wait_for_end(server.next().connection);

        let mut client = Http2Tunnel::open(&proxied, "/app/no", b"403");
        assert_eq!(client.rest(), (b"no".to_vec(), None), "{engine}");
        server.next();
        drop(Http2Tunnel::open(&proxied, "/", b"501"));
        drop(proxied);
        server.check(engine.name());
    }
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

/// A tunnel on a connection of its own.
struct Http2Tunnel(TcpStream);

/// The only stream of a tunnel's connection.
const STREAM: u32 = 1;

impl Http2Tunnel {
    /// Asks for a tunnel, and reads up to the head of the response, which begins with this status.
    fn open(proxied: &Proxied, path: &str, status: &[u8]) -> Http2Tunnel {
        let mut block = Vec::new();
        let authority = proxied.address().to_string();
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", &authority),
            (":path", path),
            ("sec-websocket-version", "13"),
        ];
        for (name, value) in fields {
            encode_field(name.as_bytes(), value.as_bytes(), &mut |byte| block.push(byte));
        }
        let mut tunnel = Http2Tunnel(connected(proxied.address()));
        tunnel.0.write_all(PREFACE).expect("a connection");
        tunnel.send(FrameType::Settings, FrameFlags::NONE, 0, b"");
        tunnel.send(FrameType::Headers, FrameFlags::END_HEADERS, STREAM, &block);
        let (header, head) = tunnel.next();
        assert_eq!(header.type_number, FrameType::Headers as u8);
        let (mut section, mut bytes) = (FieldSection::new(), [0; SECTION_SIZE_MAX]);
        HpackDecoder::new().decode(&head, true, &mut section, &mut bytes).expect("a block");
        assert_eq!(section.iter(&bytes).next(), Some((&b":status"[..], status)), "{path}");
        tunnel
    }

    fn send(&mut self, kind: FrameType, flags: FrameFlags, stream: u32, payload: &[u8]) {
        let header = FrameHeader::new(kind, flags, stream, payload.len() as u32).encode();
        self.0.write_all(&[&header[..], payload].concat()).expect("a connection");
    }

    /// Returns the next frame of the stream.
    fn next(&mut self) -> (FrameHeader, Vec<u8>) {
        loop {
            let mut bytes = [0; FRAME_HEADER_LEN];
            self.0.read_exact(&mut bytes).expect("a frame");
            let header = FrameHeader::decode(&bytes).expect("a header");
            let mut payload = vec![0; header.len as usize];
            self.0.read_exact(&mut payload).expect("a payload");
            if header.stream == STREAM && header.type_number != FrameType::WindowUpdate as u8 {
                return (header, payload);
            }
        }
    }

    /// Returns the bytes up to the end of the stream, and the code of its reset.
    fn rest(&mut self) -> (Vec<u8>, Option<u32>) {
        let mut rest = Vec::new();
        loop {
            let (header, payload) = self.next();
            match FrameType::from_number(header.type_number) {
                Some(FrameType::Data) => rest.extend(payload),
                Some(FrameType::RstStream) => {
                    return (rest, Some(u32::from_be_bytes(payload.try_into().expect("a code"))));
                }
                other => panic!("{other:?} in a tunnel"),
            }
            if header.flags.has(FrameFlags::END_STREAM) {
                return (rest, None);
            }
        }
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
