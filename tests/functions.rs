//! Functions of the embedding program, on every engine.

use crate::common::{
    EMBEDDED,
    client::{Response as Received, TestClient, connect_on},
    distinct_bytes,
    endpoint::{Endpoint, TestTls},
    server::{EmbeddedServer, settings, settings_with_http2},
    site, wait_for,
};
use std::{
    error::Error,
    fmt,
    fs::{self, File},
    io::{Read, Write},
    net::SocketAddr,
    num::NonZeroUsize,
    panic::panic_any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};
use tarpon::{Bytes, Engine, Functions, Request, Response, Route, Site, VirtualHosts};

/// Serves functions, and a site with one file, with one worker.
fn serve(engine: Engine, functions: Functions) -> EmbeddedServer {
    EmbeddedServer::sites(&settings_with_http2(engine, 1), sites(functions))
}

/// As [`serve`], with and without TLS, and with HTTP/2.
fn serve_with_tls(tls: &TestTls, engine: Engine, functions: Functions) -> (EmbeddedServer, Vec<Endpoint>) {
    let served = EmbeddedServer::start(tls.listeners(), &settings_with_http2(engine, 1), sites(functions));
    let endpoints = tls.endpoints_with_http2(engine, &served.addresses);
    (served, endpoints)
}

fn sites(functions: Functions) -> VirtualHosts {
    let dir = site(&[("index.html", "home")]);
    VirtualHosts::from(Site::from_dir(dir.path()).unwrap()).with_functions(functions)
}

/// Returns a request.
fn request(method: &str, target: &str, fields: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}").into_bytes();
    if !content.is_empty() {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", content.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(content);
    bytes
}

/// Reads a response whose content may be in chunks.
fn read(client: &mut TestClient) -> Received {
    let mut response = client.try_head().unwrap();
    match response.field("Transfer-Encoding") {
        None => {
            let len = response.field("Content-Length").map_or(0, |len| len.parse().unwrap());
            response.content = client.read_exact(len);
        }
        Some(_) => loop {
            let len = chunk_len(client);
            response.content.extend(client.read_exact(len));
            client.read_exact(2);
            if len == 0 {
                break;
            }
        },
    }
    response
}

fn chunk_len(client: &mut TestClient) -> usize {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(client.read_exact(1));
    }
    usize::from_str_radix(str::from_utf8(&line).unwrap().trim(), 16).unwrap()
}

/// Describes a request, with its content.
fn describe(request: &mut Request<'_>) -> Result<Response, std::io::Error> {
    let field = request.field("x-test").unwrap_or("none").to_owned();
    let has_own = request
        .fields()
        .any(|(name, _)| name.eq_ignore_ascii_case(b"host") || name.eq_ignore_ascii_case(b"connection"));
    let head = format!(
        "{} {} {} {:?} {field} {:?} {} {:?} {has_own} ",
        request.method(),
        request.path(),
        request.raw_path(),
        request.query(),
        request.host(),
        request.scheme(),
        request.client().map(|client| client.to_string()),
    );
    let mut text = head.into_bytes();
    text.extend_from_slice(request.content()?);
    Ok(Response::bytes("text/x-test", text).status(299).field("X-Answer", "yes"))
}

/// A case, the method, what is below the route in the target, fields, content, and the start of its description.
type FunctionCall<'a> = (&'a str, &'a str, &'a str, &'a str, &'a [u8], &'a str);

#[test]
fn functions_get_the_request_and_return_the_response() {
    let tls = TestTls::new();
    let large = distinct_bytes(300_000);
    for &engine in EMBEDDED {
        let functions = Functions::new()
            .route(Route::new("/fast", describe))
            .route(Route::new("/slow", describe).on_threads());
        let (_served, endpoints) = serve_with_tls(&tls, engine, functions);
        for endpoint in endpoints {
            let scheme = if endpoint.has_tls() { "https" } else { "http" };
            let mut client = endpoint.connect();
            for place in ["/fast", "/slow"] {
                #[rustfmt::skip]
                let cases: &[FunctionCall<'_>] = &[
                    // case             method    below the route  fields                                  content   method, paths, query, field
                    ("no content",      "GET",    "",              "",                                     b"",      "GET PATH PATH None none"),
                    ("a query",         "GET",    "/x%20y/../z?q=%31", "X-TEST: 1\r\n",                    b"",      "GET PATH/z PATH/x%20y/../z Some(\"q=%31\") 1"),
                    ("content",         "POST",   "/",             "",                                     b"hello", "POST PATH/ PATH/ None none"),
                    ("own field",       "POST",   "/",             "Connection: X-Test\r\nX-Test: 1\r\n",  b"hello", "POST PATH/ PATH/ None none"),
                    ("another method",  "BREW",   "/",             "",                                     b"",      "BREW PATH/ PATH/ None none"),
                    ("long content",    "PUT",    "/",             "",                                     &large,   "PUT PATH/ PATH/ None none"),
                ];
                for &(name, method, target, fields, content, want) in cases {
                    // HTTP/2 has no field about the connection.
                    if endpoint.is_http2() && fields.contains("Connection") {
                        continue;
                    }
                    let name = format!("{engine:?} {endpoint} {place} {name}");
                    client.send(request(method, &format!("{place}{target}"), fields, content));
                    let got = read(&mut client);
                    let want = format!("{want} Some(\"a.example\") {scheme} Some(\"127.0.0.1\") false ");
                    let mut want = want.replace("PATH", place).into_bytes();
                    want.extend_from_slice(content);
                    assert_eq!(got.status, 299, "{name}");
                    assert!(
                        got.content == want,
                        "{name}: {}",
                        got.content[..got.content.len().min(200)].escape_ascii()
                    );
                    assert_eq!(got.field("X-Answer"), Some("yes"), "{name}");
                    assert_eq!(got.field("Content-Type"), Some("text/x-test"), "{name}");
                    assert!(got.field("Date").is_some(), "{name}");
                }
            }
            // The site beside them.
            assert_eq!(client.get("/").content, b"home");
            assert_eq!(client.get("/fastest").status, 404);
        }
    }
}

#[test]
fn content_in_pieces_is_collected() {
    for &engine in EMBEDDED {
        for route in [Route::new("/f", describe), Route::new("/f", describe).on_threads()] {
            let served = serve(engine, Functions::new().route(route.content_len_max(40_000)));
            let mut client = TestClient::connect(served.address);
            // A client that waits for 100 (Continue).
            client.send("POST /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
            assert_eq!(client.try_head().unwrap().status, 100, "{engine:?}");
            client.send("abc");
            assert!(read(&mut client).content.ends_with(b" abc"), "{engine:?}");
            // Chunks, and a request behind them.
            client.send("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nchun\r\n");
            client.send("2\r\nks\r\n0\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(read(&mut client).content.ends_with(b" chunks"), "{engine:?}");
            assert!(read(&mut client).content.starts_with(b"GET "), "{engine:?}");
            // More than the limit, known before and after.
            client.send(request("POST", "/f", "", &[b'x'; 40_000]));
            assert_eq!(
                read(&mut client).content.len(),
                40_000 + "POST /f /f None none Some(\"a.example\") http Some(\"127.0.0.1\") false ".len()
            );
            client.send("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 40001\r\n\r\n");
            assert_eq!(read(&mut client).status, 413, "{engine:?}");
            let mut client = TestClient::connect(served.address);
            client.send("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send([format!("{:x}\r\n", 40_001).as_bytes(), &[b'x'; 40_001]].concat());
            assert_eq!(read(&mut client).status, 413, "{engine:?}");
            // Malformed chunks, and content that ends early.
            let mut client = TestClient::connect(served.address);
            client.send("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
            assert_eq!(read(&mut client).status, 400, "{engine:?}");
            let mut client = TestClient::connect(served.address);
            client.send("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
            client.shutdown_write();
            assert_eq!(read(&mut client).status, 400, "{engine:?}");
        }
    }
}

#[test]
fn long_contents_arrive_whole() {
    let long = distinct_bytes(3_000_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, &long).unwrap();
    let tls = TestTls::new();
    for &engine in EMBEDDED {
        let (bytes, file, stream) = (long.clone(), path.clone(), long.clone());
        let bytes = move |_: &mut Request<'_>| Response::bytes("a/b", bytes.clone());
        let file = move |_: &mut Request<'_>| -> std::io::Result<Response> {
            Ok(Response::file("a/b", File::open(&file)?, 1_000..2_000_000))
        };
        let stream = move |_: &mut Request<'_>| {
            let stream = stream.clone();
            Response::stream("a/b", move |to| stream.chunks(777).try_for_each(|part| to.write_all(part)))
        };
        let functions = Functions::new()
            .route(Route::new("/bytes", bytes.clone()))
            .route(Route::new("/file", file.clone()))
            .route(Route::new("/stream", stream.clone()))
            .route(Route::new("/slow/bytes", bytes).on_threads())
            .route(Route::new("/slow/file", file).on_threads())
            .route(Route::new("/slow/stream", stream).on_threads());
        let (_served, endpoints) = serve_with_tls(&tls, engine, functions);
        let contents = [
            ("bytes", &long[..], Some("3000000")),
            ("file", &long[1_000..2_000_000], Some("1999000")),
            ("stream", &long[..], None),
        ];
        for (endpoint, (place, content, len)) in
            endpoints.iter().flat_map(|endpoint| contents.map(|content| (endpoint, content)))
        {
            let mut client = endpoint.connect();
            for target in [format!("/{place}"), format!("/slow/{place}")] {
                client.send(request("GET", &target, "", b""));
                let got = read(&mut client);
                assert_eq!((got.status, got.field("Content-Length")), (200, len), "{engine:?} {target}");
                assert!(got.content == content, "{engine:?} {target}");
                // HEAD has the same fields and no content: the next response follows at once.
                client.send(request("HEAD", &target, "", b""));
                assert_eq!(client.try_head().unwrap().field("Content-Length"), len, "{engine:?} {target}");
                if endpoint.is_http2() {
                    continue;
                }
                // A client of HTTP/1.0 gets no chunks: the content ends with the connection.
                drop(client);
                let mut old = endpoint.connect();
                old.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
                let head = old.try_head().unwrap();
                assert_eq!((head.status, head.field("Transfer-Encoding")), (200, None), "{engine:?}");
                assert!(old.read_to_end() == content, "{engine:?} {target}");
                drop(old);
                client = endpoint.connect();
            }
        }
    }
}

#[test]
fn statuses_without_content_have_none() {
    for &engine in EMBEDDED {
        for on_threads in [false, true] {
            let functions = [200, 204, 304, 418, 599].into_iter().fold(Functions::new(), |all, code| {
                let content = if code == 200 { "" } else { "content" };
                let route = Route::new(format!("/{code}"), move |_| Response::text(content).status(code));
                all.route(if on_threads { route.on_threads() } else { route })
            });
            let served = serve(engine, functions);
            for (version, connect) in connect_on(engine) {
                let mut client = connect(served.address);
                for (code, len, content) in [
                    (200, Some("0"), ""),
                    (204, None, ""),
                    (304, None, ""),
                    (418, Some("7"), "content"),
                    (599, Some("7"), "content"),
                ] {
                    client.send(request("GET", &format!("/{code}"), "", b""));
                    let got = read(&mut client);
                    assert_eq!(
                        (got.status, got.field("Content-Length")),
                        (code, len),
                        "{engine:?}, {version}"
                    );
                    assert_eq!(got.content, content.as_bytes(), "{engine:?}, {version}, {code}");
                }
            }
        }
    }
}

#[test]
fn failures_become_500_and_the_worker_goes_on() {
    for &engine in EMBEDDED {
        for on_threads in [false, true] {
            let add =
                |all: Functions, route: Route| all.route(if on_threads { route.on_threads() } else { route });
            let mut functions = Functions::new();
            functions = add(functions, Route::new("/error", |_| Err::<Response, _>("out of order")));
            functions = add(functions, Route::new("/panic", |_| -> Response { panic!("a test panics") }));
            functions =
                add(functions, Route::new("/field", |_| Response::text("").field("X", "a\r\nSet-Cookie: b")));
            functions = add(functions, Route::new("/status", |_| Response::new(101)));
            let served = serve(engine, functions);
            for (version, connect) in connect_on(engine) {
                let mut client = connect(served.address);
                for target in ["/error", "/panic", "/field", "/status"] {
                    client.send(request("GET", target, "", b""));
                    let got = read(&mut client);
                    assert_eq!(
                        (got.status, &got.content[..]),
                        (500, &b"Internal Server Error\n"[..]),
                        "{version}, {target}"
                    );
                    assert_eq!(got.field("Set-Cookie"), None);
                }
                assert_eq!(client.get("/").content, b"home");
            }
        }
    }
}

/// A value of a program that panics when it is dropped, and whose text panics if it is empty. It is the owner of bytes, too.
#[derive(Debug)]
struct PanicsWhenDropped(Vec<u8>);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        // A panic during a panic aborts the process.
        if !thread::panicking() {
            panic!("a test panics in a drop");
        }
    }
}

impl AsRef<[u8]> for PanicsWhenDropped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for PanicsWhenDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.0.is_empty(), "a test panics in a text");
        f.write_str("a test fails")
    }
}

impl Error for PanicsWhenDropped {}

fn panics_when_dropped() -> PanicsWhenDropped {
    PanicsWhenDropped(vec![b'x'; 100])
}

#[test]
fn panics_in_drops_of_the_program_end_neither_worker_nor_thread() {
    const LONG: usize = 300_000;
    let long = || Bytes::from_owner(PanicsWhenDropped(vec![b'x'; LONG]));
    let stream = || {
        let value = panics_when_dropped();
        Response::stream("a/b", move |to| to.write_all(value.as_ref())).len(100)
    };
    for &engine in EMBEDDED {
        let of_route = panics_when_dropped();
        let functions = Functions::new()
            .route(Route::new("/short", |_| Bytes::from_owner(panics_when_dropped()).to_vec()))
            .route(Route::new("/owner", |_| Response::text(Bytes::from_owner(panics_when_dropped()))))
            .route(Route::new("/long", move |_| Response::text(long())))
            .route(Route::new("/stream", move |_| stream()))
            .route(Route::new("/error", |_| Err::<Response, _>(panics_when_dropped())))
            .route(Route::new("/text", |_| Err::<Response, _>(PanicsWhenDropped(Vec::new()))))
            .route(Route::new("/panic", |_| -> Response { panic_any(panics_when_dropped()) }))
            .route(Route::new("/invalid", move |_| stream().status(1)))
            .route(Route::new("/threads/owner", move |_| Response::text(long())).on_threads())
            .route(Route::new("/threads/stream", move |_| stream()).on_threads())
            .route(Route::new("/threads/error", |_| Err::<Response, _>(panics_when_dropped())).on_threads())
            .route(Route::new("/threads/fail", |_| {
                Response::stream("a/b", |_| Err(std::io::Error::other(panics_when_dropped())))
            }))
            .route(Route::new("/owned", move |_| of_route.as_ref().to_vec()))
            .thread_count(NonZeroUsize::MIN)
            .queue_len(1);
        // One worker, except with `threads`, and one thread for functions: the next request finds out whether a panic has ended either.
        let served = serve(engine, functions);
        let exchange = |connect: fn(SocketAddr) -> TestClient, method: &str, target: &str| {
            let mut client = connect(served.address);
            client.send(request(method, target, "Connection: close\r\n", b""));
            let head = client.try_head().unwrap();
            (head.status, client.try_read_to_end().unwrap_or_default().len())
        };
        for ((version, connect), method) in
            connect_on(engine).flat_map(|connect| ["GET", "HEAD"].map(|method| (connect, method)))
        {
            let is_head = method == "HEAD";
            #[rustfmt::skip]
            let cases = [
                // target             status  content
                ("/short",            500,    22),
                ("/owner",            200,    100),
                ("/long",             200,    LONG),
                ("/error",            500,    22),
                ("/text",             500,    22),
                ("/panic",            500,    22),
                ("/invalid",          500,    22),
                ("/threads/owner",    200,    LONG),
                ("/threads/error",    500,    22),
            ];
            for (target, status, len) in cases {
                let want = (status, if is_head { 0 } else { len });
                let got = exchange(connect, method, target);
                assert_eq!(got, want, "{engine:?}, {version}, {method} {target}");
            }
            // The closure panics after it has written: the response is aborted.
            for target in ["/stream", "/threads/stream", "/threads/fail"] {
                let status = exchange(connect, method, target).0;
                assert!(matches!(status, 200 | 502), "{engine:?}, {version}, {method} {target}: {status}");
            }
        }
        // A client leaves in the middle of a response.
        let mut client = TestClient::connect(served.address);
        client.send(request("GET", "/long", "", b"").repeat(20));
        client.try_head().unwrap();
        drop(client);
        assert_eq!(TestClient::connect(served.address).get("/").content, b"home", "{engine:?}");
        // The server drops the functions, and what they hold.
        served.stop().unwrap();
    }
}

#[test]
fn worker_drops_a_stream_that_no_thread_sends() {
    for &engine in EMBEDDED {
        let (gate, open) = Gate::new();
        let entered = Arc::clone(&gate);
        let slow = Route::new("/slow", move |_| {
            gate.pass();
            "done"
        });
        let stream = Route::new("/stream", |_| {
            let value = panics_when_dropped();
            Response::stream("a/b", move |to| to.write_all(value.as_ref()))
        });
        let functions = Functions::new()
            .route(slow.on_threads())
            .route(stream)
            .thread_count(NonZeroUsize::MIN)
            .queue_len(0);
        let served = serve(engine, functions);
        // It is dropped before the server, which waits for the function.
        let open = open;
        let mut waiting = TestClient::connect(served.address);
        waiting.send(request("GET", "/slow", "", b""));
        wait_for("the call", || (entered.entered.load(SeqCst) == 1).then_some(()));
        let mut client = TestClient::connect(served.address);
        client.send(request("GET", "/stream", "", b""));
        assert_eq!(read(&mut client).status, 503, "{engine:?}");
        assert_eq!(TestClient::connect(served.address).get("/").content, b"home", "{engine:?}");
        open.send(()).unwrap();
        assert_eq!(read(&mut waiting).content, b"done", "{engine:?}");
    }
}

#[test]
fn response_that_ends_early_never_looks_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short");
    fs::write(&path, "short").unwrap();
    let tls = TestTls::new();
    for &engine in EMBEDDED {
        let file = path.clone();
        let functions = Functions::new()
            .route(Route::new("/error", |_| {
                Response::stream("a/b", |to| {
                    to.write_all(b"begun")?;
                    Err(std::io::Error::other("a test fails"))
                })
            }))
            .route(Route::new("/panic", |_| {
                Response::stream("a/b", |to| {
                    to.write_all(b"begun")?;
                    to.flush()?;
                    panic!("a test panics")
                })
            }))
            .route(Route::new("/less", |_| Response::stream("a/b", |to| to.write_all(b"begun")).len(9)))
            .route(Route::new("/more", |_| Response::stream("a/b", |to| to.write_all(b"begun")).len(3)))
            .route(Route::new("/file", move |_| Response::file("a/b", File::open(&file).unwrap(), 0..9)));
        let (_served, endpoints) = serve_with_tls(&tls, engine, functions);
        let targets = ["/error", "/panic", "/less", "/more", "/file"];
        for (endpoint, target) in
            endpoints.iter().flat_map(|endpoint| targets.map(|target| (endpoint, target)))
        {
            let mut client = endpoint.connect();
            if endpoint.is_http2() {
                client.send(request("GET", target, "Connection: close\r\n", b""));
                let head = client.try_head().unwrap();
                // The stream is reset.
                let is_cut = client.try_read_to_end().is_err();
                assert!(
                    is_cut != (head.status == 502 && target == "/more"),
                    "{engine:?} {endpoint} {target}"
                );
                continue;
            }
            client.send(request("GET", target, "", b""));
            let head = client.try_head().unwrap();
            // What follows the head may be reset.
            let rest = client.try_read_to_end().unwrap_or_default();
            match head.field("Content-Length") {
                // A length that the content exceeds is known to be wrong before the head has left.
                Some(_) if head.status == 502 => assert_eq!(target, "/more"),
                Some(len) => assert!(rest.len() < len.parse().unwrap(), "{engine:?} {endpoint} {target}"),
                None => assert!(!rest.ends_with(b"0\r\n\r\n"), "{engine:?} {endpoint} {target}"),
            }
        }
    }
}

/// Lets functions on threads go on one by one.
struct Gate {
    entered: AtomicUsize,
    open: Mutex<Receiver<()>>,
}

impl Gate {
    fn new() -> (Arc<Gate>, Sender<()>) {
        let (sender, open) = channel();
        (Arc::new(Gate { entered: AtomicUsize::new(0), open: Mutex::new(open) }), sender)
    }

    fn pass(&self) {
        self.entered.fetch_add(1, SeqCst);
        self.open.lock().unwrap().recv().unwrap();
    }
}

#[test]
fn full_queue_is_a_503_and_other_requests_go_on() {
    for &engine in EMBEDDED {
        if engine == Engine::Threads {
            // A worker of this engine serves one client at a time.
            continue;
        }
        let (gate, open) = Gate::new();
        let entered = Arc::clone(&gate);
        let slow = Route::new("/slow", move |_| {
            gate.pass();
            "done"
        });
        let functions = Functions::new()
            .route(slow.on_threads())
            .route(Route::new("/fast", |_| "fast"))
            .thread_count(NonZeroUsize::MIN)
            .queue_len(1);
        let served = serve(engine, functions);
        let mut clients: Vec<_> = (0..2).map(|_| TestClient::connect(served.address)).collect();
        clients[0].send(request("GET", "/slow", "", b""));
        wait_for("the first call", || (entered.entered.load(SeqCst) == 1).then_some(()));
        clients[1].send(request("GET", "/slow", "", b""));
        // The worker has read the second request once it has answered a later one.
        let mut third = TestClient::connect(served.address);
        assert_eq!(third.get("/fast").content, b"fast", "{engine:?}");
        assert_eq!(third.get("/").content, b"home", "{engine:?}");
        third.send(request("GET", "/slow", "", b""));
        let refused = read(&mut third);
        assert_eq!(refused.status, 503, "{engine:?}");
        assert!(refused.field("Retry-After").is_some(), "{engine:?}");
        open.send(()).unwrap();
        open.send(()).unwrap();
        for client in &mut clients {
            assert_eq!(read(client).content, b"done", "{engine:?}");
        }
    }
}

#[test]
fn request_that_has_timed_out_in_the_queue_is_not_called() {
    for &engine in EMBEDDED {
        let (gate, open) = Gate::new();
        let entered = Arc::clone(&gate);
        let slow = Route::new("/slow", move |_| {
            gate.pass();
            "done"
        });
        let functions = Functions::new()
            .route(slow.on_threads().response_timeout(Duration::from_millis(50)))
            .route(Route::new("/next", |_| "next").on_threads())
            .thread_count(NonZeroUsize::MIN);
        let served = serve(engine, functions);
        // The first occupies the thread, and the second waits for it.
        for _ in 0..2 {
            let mut client = TestClient::connect(served.address);
            client.send(request("GET", "/slow", "", b""));
            assert_eq!(read(&mut client).status, 504, "{engine:?}");
        }
        let mut client = TestClient::connect(served.address);
        assert_eq!(client.get("/").content, b"home", "{engine:?}");
        open.send(()).unwrap();
        assert_eq!(client.get("/next").content, b"next", "{engine:?}");
        assert_eq!(entered.entered.load(SeqCst), 1, "{engine:?}");
    }
}

#[test]
fn failed_response_ends_while_the_client_sends() {
    for &engine in EMBEDDED {
        let fail =
            Route::new("/fail", |_| Response::stream("a/b", |_| Err(std::io::Error::other("a test fails"))));
        let functions = Functions::new().route(fail.on_threads());
        let served = serve(engine, functions);
        let mut client = TestClient::connect(served.address);
        client.send("POST /fail HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello");
        assert_eq!(client.try_head().unwrap().status, 200, "{engine:?}");
        assert!(!client.try_read_to_end().unwrap_or_default().ends_with(b"0\r\n\r\n"), "{engine:?}");
    }
}

#[test]
fn calls_under_way_survive_a_swap_and_a_stop_within_its_grace() {
    for &engine in EMBEDDED {
        let (gate, open) = Gate::new();
        let entered = Arc::clone(&gate);
        let slow = Route::new("/slow", move |_| {
            gate.pass();
            "done"
        });
        let served = serve(engine, Functions::new().route(slow.on_threads()));
        let mut client = TestClient::connect(served.address);
        client.send(request("GET", "/slow", "", b""));
        wait_for("the call", || (entered.entered.load(SeqCst) == 1).then_some(()));
        let dir = site(&[("index.html", "another")]);
        served.handle.swap(Site::from_dir(dir.path()).unwrap());
        open.send(()).unwrap();
        assert_eq!(read(&mut client).content, b"done", "{engine:?}");
        assert_eq!(client.get("/").content, b"another", "{engine:?}");
        client.send(request("GET", "/slow", "", b""));
        wait_for("another call", || (entered.entered.load(SeqCst) == 2).then_some(()));
        served.handle.stop(Duration::from_secs(60));
        open.send(()).unwrap();
        let got = read(&mut client);
        assert_eq!((got.field("Connection"), &got.content[..]), (Some("close"), &b"done"[..]), "{engine:?}");
        served.join_within(Duration::from_secs(60));
    }
}

#[test]
fn stop_without_grace_ends_writers() {
    for &engine in EMBEDDED {
        let (sender, result) = channel();
        let sender = Mutex::new(sender);
        let endless = Route::new("/", move |_| {
            let sender = sender.lock().unwrap().clone();
            Response::stream("a/b", move |to| {
                let written = (0..).try_for_each(|_| to.write_all(&[b'x'; 50_000]));
                sender.send(written.is_err()).unwrap();
                written
            })
        });
        let served = serve(engine, Functions::new().route(endless));
        let mut client = TestClient::connect(served.address);
        client.send(request("GET", "/", "", b""));
        assert_eq!(client.try_head().unwrap().status, 200, "{engine:?}");
        served.stop().unwrap();
        assert_eq!(result.try_recv(), Ok(true), "{engine:?}");
    }
}

#[test]
fn events_are_sent_at_once_and_end_with_the_client() {
    for &engine in EMBEDDED {
        let (gate, open) = Gate::new();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let events = Route::new("/events", move |_| {
            let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
            Response::events(move |events| {
                let sent = (0..).try_for_each(|number| {
                    gate.pass();
                    events.send(&number.to_string())
                });
                ended.store(true, SeqCst);
                sent
            })
        });
        let served = serve(engine, Functions::new().route(events));
        let mut client = TestClient::connect(served.address);
        client.send(request("GET", "/events", "", b""));
        // The head comes before the first event.
        assert_eq!(client.try_head().unwrap().field("Content-Type"), Some("text/event-stream"));
        for number in 0..3 {
            open.send(()).unwrap();
            let want = format!("data: {number}\n\n");
            let len = chunk_len(&mut client);
            assert_eq!(client.read_exact(len + 2), format!("{want}\r\n").as_bytes(), "{engine:?}");
        }
        drop(client);
        wait_for("the end of the function", || {
            let _ = open.send(());
            has_ended.load(SeqCst).then_some(())
        });
    }
}

#[test]
fn client_that_leaves_ends_reading() {
    for &engine in EMBEDDED {
        let (sender, result) = channel();
        let (sender, begun) = (Mutex::new(sender), Arc::new(AtomicBool::new(false)));
        let begins = Arc::clone(&begun);
        let upload = Route::new("/upload", move |request: &mut Request<'_>| {
            begins.store(true, SeqCst);
            let mut content = Vec::new();
            let error = request.read_to_end(&mut content).map_err(|error| error.kind());
            sender.lock().unwrap().send((content, error)).unwrap();
            "done"
        });
        let served = serve(engine, Functions::new().route(upload.on_threads()));
        let mut client = TestClient::connect(served.address);
        client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello");
        wait_for("the call", || begun.load(SeqCst).then_some(()));
        drop(client);
        let (content, error) = result.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(b"hello".starts_with(&content[..]), "{engine:?}");
        assert_eq!(error, Err(std::io::ErrorKind::UnexpectedEof), "{engine:?}");
    }
}

#[test]
fn slow_clients_hold_back_writers_in_bounded_memory() {
    // Much more than all sockets and pipes between a function and a client hold.
    const LEN: usize = 64 << 20;
    for &engine in EMBEDDED {
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        let stream = Route::new("/", move |_| {
            let count = Arc::clone(&count);
            Response::stream("a/b", move |to| {
                let part = [b'x'; 65_536];
                for _ in 0..LEN / part.len() {
                    to.write_all(&part)?;
                    count.fetch_add(part.len(), SeqCst);
                }
                Ok(())
            })
        });
        let served = serve(engine, Functions::new().route(stream));
        let mut client = TestClient::connect(served.address);
        client.send(request("GET", "/", "", b""));
        assert_eq!(client.try_head().unwrap().status, 200);
        // The client receives nothing more until the writer stands still.
        let mut before = 0;
        wait_for("a writer that waits", || {
            thread::sleep(Duration::from_millis(100));
            let now = written.load(SeqCst);
            let is_still = now == before && now > 0;
            before = now;
            is_still.then_some(())
        });
        assert!(before < LEN / 2, "{engine:?}: {before} bytes were written");
        let mut len = 0;
        loop {
            let chunk = chunk_len(&mut client);
            client.read_exact(chunk + 2);
            len += chunk;
            if chunk == 0 {
                break;
            }
        }
        assert_eq!(len, LEN, "{engine:?}");
    }
}

#[test]
fn early_response_does_not_wait_for_the_content() {
    for &engine in EMBEDDED {
        let refuse = Route::new("/upload", |_| Response::text("no").status(403));
        let functions = Functions::new().route(refuse.on_threads().content_len_max(1 << 40));
        let served = serve(engine, functions);
        let mut client = TestClient::connect(served.address);
        client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhello");
        let got = read(&mut client);
        assert_eq!((got.status, &got.content[..]), (403, &b"no"[..]), "{engine:?}");
        // The content that nothing reads does not become a request.
        client.send(vec![b'x'; 1_000_000 - 5]);
        assert_eq!(client.get("/").content, b"home", "{engine:?}");
    }
}

#[test]
fn routes_match_by_host_and_longest_path() {
    for &engine in EMBEDDED {
        let functions = Functions::new()
            .route(Route::new("/", |_| "root"))
            .route(Route::new("/a", |_| "a"))
            .route(Route::new("/a/b", |_| "a/b"))
            .route(Route::new("/a", |_| "a at b").host("b.example").unwrap());
        let served = EmbeddedServer::sites(&settings(engine, 1), functions);
        let mut client = TestClient::connect(served.address);
        for (host, target, want) in [
            ("x", "/", "root"),
            ("x", "/ab", "root"),
            ("x", "/a", "a"),
            ("x", "/a/c", "a"),
            ("x", "/a/b/c", "a/b"),
            ("B.example:80", "/a/x", "a at b"),
            ("b.example", "/a/b", "a/b"),
        ] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(read(&mut client).content, want.as_bytes(), "{engine:?} {host} {target}");
        }
    }
}

#[test]
fn invalid_routes_are_refused_with_a_hint() {
    let start = |functions: Functions| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = settings(Engine::Auto, 1);
        let started = tarpon::Server::start(&settings, vec![listener.try_into().unwrap()], functions);
        started.expect_err("an error").to_string()
    };
    let route = |path: &str| Route::new(path, |_| "");
    assert!(start(Functions::new().route(route("api"))).contains("begins with /"));
    let twice = Functions::new().route(route("/api")).route(route("/api/"));
    assert!(start(twice).contains("another route or site is there"));
    assert!(route("/").host("no host").is_err());
}
