//! What the log says about exchanges that fail, and about the standard error of FastCGI programs. There is no access log.

use super::{
    addresses::{readable, tls_server},
    proxied::{Proxied, ProxyConfig, get, on_engines, post, request},
    scripted::{AfterResponse, ScriptedServer, ok},
};
use crate::common::{ENGINES, TEST_TIMEOUT, port::ReservedPort, tls_files::TlsFiles, wait_for};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

/// Waits until the log has a line about a server with this text.
#[track_caller]
fn wait_for_line(proxied: &Proxied, server: impl std::fmt::Display, text: &str) {
    let line = format!("upstream up: {server}: {text}\n");
    wait_for(&line, || proxied.program().err().contains(&line).then_some(()));
}

/// Returns the number of lines with a text.
fn count(proxied: &Proxied, text: &str) -> usize {
    proxied.program().err().lines().filter(|line| line.contains(text)).count()
}

#[test]
fn failed_exchanges_are_in_the_log_with_their_reason() {
    let server = ScriptedServer::responding(|request| match request.target() {
        "/app/nothing" => (Vec::new(), AfterResponse::Close),
        "/app/head" => (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n".to_vec(), AfterResponse::Keep),
        "/app/framing?secret" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
            (head.to_vec(), AfterResponse::Keep)
        }
        "/app/cut" => (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".to_vec(), AfterResponse::Close),
        "/app/chunk" => {
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_vec(), AfterResponse::Hold)
        }
        "/app/silent" => (Vec::new(), AfterResponse::Hold),
        target => (ok(target), AfterResponse::Keep),
    });
    #[rustfmt::skip]
    let cases = [
        // target                 line
        ("/app/nothing",          "it closed the connection before its response (POST /app/nothing)"),
        ("/app/head",             "its response is not HTTP/1: the first line is invalid; check the scheme and the port of the server (POST /app/head)"),
        ("/app/framing?secret",   "the end of its response is unclear: Content-Length is invalid, or contradicts Transfer-Encoding (POST /app/framing)"),
        ("/app/cut",              "it closed the connection before the end of its response (POST /app/cut)"),
        ("/app/chunk",            "the chunks of its response are invalid (POST /app/chunk)"),
        ("/app/silent",           "it did not respond within 1s (response-timeout) (POST /app/silent)"),
    ];
    // As long as the machine of a test needs for the good response, with a lot to spare.
    let config = ProxyConfig { upstream: "response-timeout = \"1s\"", ..ProxyConfig::default() };
    on_engines(&server, config, |proxied, engine| {
        for (target, line) in cases {
            let mut client = proxied.connect();
            client.send(post(target, ""));
            // 502, 504 or a response that is cut.
            let _ = client.try_answered("POST");
            wait_for_line(proxied, server.address(), line);
        }
        assert_eq!(proxied.get("/app/good").text(), "/app/good", "{engine}");
        assert_eq!(
            proxied.program().err().lines().count(),
            cases.len(),
            "{engine}: {}",
            proxied.program().err()
        );
    });
}

#[test]
fn certificates_that_are_not_accepted_are_in_the_log() {
    let (files, others) = (TlsFiles::new(), TlsFiles::new());
    let (trusted, other) = (files.file("ca", "pem"), others.file("ca", "pem"));
    let (trusted, other) = (format!("ca = {trusted:?}"), format!("ca = {other:?}"));
    readable(&files);
    readable(&others);
    let server = tls_server(&files, "server", &["127.0.0.1", "a.example"]);
    let url = server.url().replace("http:", "https:");
    for &engine in ENGINES {
        #[rustfmt::skip]
        let cases = [
            // options of the upstream                         reason
            (other.clone(),                                    "; name the certificate of its authority with ca (GET /app/a)\n"),
            (format!("{trusted}\ntls-name = \"b.example\""),   "its certificate is for another name; set tls-name to a name that the certificate is for: it is for "),
        ];
        for (options, want) in cases {
            let config = ProxyConfig { upstream: &options, ..ProxyConfig::default() };
            let proxied = Proxied::start(engine, &[&url], config);
            assert_eq!(proxied.get("/app/a?secret").status(), 502, "{engine}, {options}");
            let start = format!("upstream up: {}: TLS has failed: ", server.address());
            let err = wait_for("a line", || {
                let err = proxied.program().err();
                (err.contains(&start) && err.contains(want)).then_some(err)
            });
            assert!(!err.contains("secret"), "{engine}: {err}");
            assert_eq!(err.contains("a.example"), options.contains("b.example"), "{engine}: {err}");
        }
    }
}

#[test]
fn servers_without_a_connection_are_in_the_log() {
    let closed = ReservedPort::new();
    for &engine in ENGINES {
        let url = format!("http://{}", closed.address);
        let proxied = Proxied::start(engine, &[url], ProxyConfig::default());
        assert_eq!(proxied.get("/app/").status(), 502, "{engine}");
        wait_for_line(&proxied, closed.address, "cannot connect: connection refused");
    }
}

/// A server that is down, and one that has lost its mind: few lines, however many requests fail.
#[test]
fn flood_of_failures_takes_few_lines() {
    let server = ScriptedServer::responding(|request| match request.target() {
        "/app/last" => {
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_vec(), AfterResponse::Hold)
        }
        _ => (Vec::new(), AfterResponse::Close),
    });
    on_engines(&server, ProxyConfig::default(), |proxied, engine| {
        for number in 0..300 {
            let response = proxied.ask(post(&format!("/app/{number}"), "")).response;
            assert_eq!(response.status(), 502, "{engine}");
        }
        let mut client = proxied.connect();
        client.send(get("/app/last"));
        assert!(client.try_answered("GET").is_err(), "{engine}: a response that is cut");
        // Reports arrive in order.
        wait_for_line(proxied, server.address(), "the chunks of its response are invalid (GET /app/last)");
        // One at once, and one each ten seconds on a slow machine.
        let lines = count(proxied, "it closed the connection before its response");
        assert!((1..6).contains(&lines), "{engine}: {}", proxied.program().err());
        wait_for_line(
            proxied,
            server.address(),
            "it closed the connection before its response (POST /app/0)",
        );
    });
}

#[test]
fn standard_error_of_fastcgi_programs_is_in_the_log() {
    let server = FastCgiServer::start(|_| {
        let warning = b"PHP message: PHP Warning:  Undefined variable $x\nstack:\n#0 \x1b[2J\xff {main}\n";
        let output = b"Content-Type: text/plain\n\ngood";
        vec![(7, warning.to_vec()), (6, output.to_vec()), (7, b"at the end".to_vec()), (3, vec![0; 8])]
    });
    for &engine in ENGINES {
        let url = format!("fastcgi://{}", server.address);
        let proxied = Proxied::start(engine, &[url], ProxyConfig::default());
        assert_eq!(proxied.get("/app/x.php?secret").text(), "good", "{engine}");
        for line in [
            "stderr: PHP message: PHP Warning:  Undefined variable $x (GET /app/x.php)",
            "stderr: stack: (GET /app/x.php)",
            "stderr: #0 \\x1b[2J\\xff {main} (GET /app/x.php)",
            "stderr: at the end (GET /app/x.php)",
        ] {
            wait_for_line(&proxied, server.address, line);
        }
    }
}

#[test]
fn failed_scripts_are_in_the_log() {
    let server = FastCgiServer::start(|_| vec![(7, b"PHP Fatal error: x\n".to_vec()), (3, vec![0; 8])]);
    let url = format!("fastcgi://{}", server.address);
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &[&url], ProxyConfig::default());
        assert_eq!(proxied.get("/app/x.php").status(), 502, "{engine}");
        wait_for_line(&proxied, server.address, "stderr: PHP Fatal error: x (GET /app/x.php)");
        wait_for_line(&proxied, server.address, "the script has ended without a response (GET /app/x.php)");
    }
}

#[test]
fn chunked_uploads_reach_fastcgi_up_to_a_limit() {
    let server = FastCgiServer::start(|content| {
        vec![
            (6, format!("Content-Type: text/plain\n\n{} bytes", content.len()).into_bytes()),
            (3, vec![0; 8]),
        ]
    });
    let url = format!("fastcgi://{}", server.address);
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &[&url], ProxyConfig::default());
        for (len, status, text) in [(5, 200, "5 bytes"), (65_536, 200, "65536 bytes"), (65_537, 411, "")] {
            let head = request("POST", "/app/x.php", "Transfer-Encoding: chunked\r\n");
            let upload = format!("{head}{len:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(len));
            let response = proxied.ask(upload).response;
            assert_eq!(response.status(), status, "{engine}, {len}: {response}");
            assert!(response.text().contains(text), "{engine}, {len}: {response}");
        }
    }
}

/// The kinds and contents of records.
type FastCgiRecords = Vec<(u8, Vec<u8>)>;

/// A FastCGI server with one request on each connection. It stops when the value is dropped.
struct FastCgiServer {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FastCgiServer {
    /// Answers each request with records. `respond` gets the content of the request.
    fn start(respond: impl Fn(&[u8]) -> FastCgiRecords + Send + Sync + 'static) -> FastCgiServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (stops, respond) = (Arc::clone(&is_stopping), Arc::new(respond));
        let connections = Mutex::new(Vec::new());
        let thread = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept()
                && !stops.load(SeqCst)
            {
                let respond = Arc::clone(&respond);
                let connection = thread::spawn(move || serve_fastcgi(stream, &*respond));
                connections.lock().expect("a list").push(connection);
            }
            for connection in connections.into_inner().expect("a list") {
                connection.join().expect("a connection without a fault");
            }
        });
        FastCgiServer { address, is_stopping, thread: Some(thread) }
    }
}

impl Drop for FastCgiServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, SeqCst);
        drop(TcpStream::connect(self.address));
        let ended = self.thread.take().expect("it runs").join();
        if !thread::panicking() {
            ended.expect("a server without a fault");
        }
    }
}

fn serve_fastcgi(mut stream: TcpStream, respond: &dyn Fn(&[u8]) -> FastCgiRecords) {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("an option");
    let mut content = Vec::new();
    loop {
        let mut header = [0; 8];
        // A client that leaves.
        let Ok(()) = stream.read_exact(&mut header) else { return };
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut bytes = vec![0; len + usize::from(header[6])];
        stream.read_exact(&mut bytes).expect("a whole record");
        match (header[1], len) {
            (5, 0) => break,
            (5, _) => content.extend_from_slice(&bytes[..len]),
            _ => {}
        }
    }
    for (kind, bytes) in respond(&content) {
        let [high, low] = u16::try_from(bytes.len()).expect("a short record").to_be_bytes();
        let header = [1, kind, 0, 1, high, low, 0, 0];
        // Fails if the client has left.
        let _ = stream.write_all(&[&header, &*bytes].concat());
    }
}
