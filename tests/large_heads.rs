//! `max-head-size`: heads of requests up to 64 KiB, on every engine, with and without TLS; for files, redirects, programs, functions and servers
//! behind.

#![cfg(target_os = "linux")]

use crate::common::{
    EMBEDDED, ENGINES,
    client::TestClient,
    endpoint::TestTls,
    program::{RunningProgram, serve_config},
    readable_dir,
    server::{EmbeddedServer, settings},
    site, wait_for, workers,
};
use std::{fs, os::unix::fs::PermissionsExt};
use tarpon::{
    Engine, Functions, Request, Response, Route, Settings, Site, UnknownHost, VirtualHost, VirtualHosts,
};

/// The highest limit.
const LIMIT: usize = 64 * 1024;

/// Returns a request with a header `X` that fills it up to `len` bytes.
fn long_header(target: &str, len: usize) -> String {
    let head = |value: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nX: {value}\r\n\r\n");
    head(&"x".repeat(len - head("").len()))
}

/// Returns a request with a query that fills it up to `len` bytes.
fn long_query(target: &str, len: usize) -> String {
    let head = |query: &str| format!("GET {target}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    head(&"q".repeat(len - head("").len()))
}

/// Returns the length of the header `X` in a request of [`long_header`].
fn value_len(target: &str, len: usize) -> String {
    (len - format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nX: \r\n\r\n").len()).to_string()
}

/// Serves functions that respond with the length of the header `X`: on the worker, and on a thread.
fn functions(engine: Engine, max_head_size: usize) -> EmbeddedServer {
    let dir = site(&[("index.html", "home")]);
    let len = |request: &mut Request<'_>| {
        Response::bytes("text/plain", request.field("x").map_or(0, str::len).to_string())
    };
    let functions =
        Functions::new().route(Route::new("/worker", len)).route(Route::new("/thread", len).on_threads());
    let host = VirtualHost::from(Site::from_dir(dir.path()).expect("a site"));
    let hosts =
        VirtualHosts::new(vec![host], UnknownHost::Site(0)).expect("a site").with_functions(functions);
    EmbeddedServer::sites(&Settings { max_head_size, ..settings(engine, 1) }, hosts)
}

#[test]
fn heads_pass_up_to_the_limit_with_and_without_tls() {
    let (tls, behind) = (TestTls::new(), functions(Engine::Poll, LIMIT));
    let [certificate, key] = tls.files();
    let (dir, bin) =
        (site(&[("site/index.html", "home"), ("site/dir/index.html", "in here")]), readable_dir());
    let program = bin.path().join("len");
    let text = "#!/bin/sh\nlen=${#HTTP_X}\nprintf 'Content-Type: text/plain\\nContent-Length: %s\\n\\n%s' ${#len} $len\n";
    fs::write(&program, text).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a file of this user");
    let user = if rustix::process::geteuid().is_root() { "cgi-user = \"daemon\"\n" } else { "" };
    for &engine in ENGINES {
        let config = format!(
            "[[site]]\npath = \"site\"\ncgi = [\"/cgi-bin/={}\"]\nproxy = [\"/up/=http://{}/\"]\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n[[listener]]\naddress = \"tls:127.0.0.2:0\"\n\
             [log]\naccess-log = \"access.log\"\n\
             [server]\nengine = \"{engine}\"\nworkers = {}\nmax-head-size = \"64KiB\"\n{user}\
             tls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n",
            bin.path().to_str().expect("text"),
            behind.address,
            workers(engine, 1),
        );
        let log = dir.path().join("access.log");
        let program = RunningProgram::start_ready(serve_config(&config, dir.path(), &[]));
        for endpoint in tls.endpoints(&program.addresses()) {
            let mut client = endpoint.connect();
            client.send([long_header("/", LIMIT), long_header("/dir/", 20_000)].concat());
            let contents = [(); 2].map(|()| client.response().content);
            assert_eq!(contents, [&b"home"[..], b"in here"], "{engine}, {endpoint}");

            let redirect = long_query("/dir", LIMIT);
            let (first, last) = redirect.split_at(30_000);
            client.send(first);
            client.send(last);
            let location = client.response().field("Location").expect("a redirect").to_owned();
            let query = &redirect["GET /dir".len()..redirect.find(" HTTP").expect("a version")];
            assert!(location == format!("/dir/{query}"), "{engine}, {endpoint}: {} bytes", location.len());

            // The server behind has the same limit, and gets more headers.
            for (path, len) in [("/cgi-bin/len", LIMIT), ("/up/worker", LIMIT - 400), ("/up/thread", 20_000)]
            {
                client.send(long_header(path, len));
                let content = client.response().content;
                assert_eq!(
                    String::from_utf8_lossy(&content),
                    value_len(path, len),
                    "{engine}, {endpoint}: {path}"
                );
            }
            for (request, status) in [
                (long_header("/", LIMIT + 1), 431),
                (long_header("/up/worker", LIMIT + 1), 431),
                (long_query("/", LIMIT + 20), 414),
            ] {
                let mut client = endpoint.connect();
                client.send(&request);
                assert_eq!(client.response().status, status, "{engine}, {endpoint}");
            }
        }
        // The log has the beginning of a long target.
        wait_for("the line of the log", || {
            fs::read_to_string(&log).ok()?.contains("\"GET /dir?qqqqqqqqqq").then_some(())
        });
        fs::remove_file(&log).expect("a log");
    }
}

#[test]
fn functions_get_the_longest_head() {
    for &engine in EMBEDDED {
        for limit in [LIMIT, 30_000] {
            let served = functions(engine, limit);
            let mut client = TestClient::connect(served.address);
            for path in ["/worker", "/thread"] {
                client.send(long_header(path, limit));
                assert_eq!(client.response().content, value_len(path, limit).as_bytes(), "{engine}: {path}");
            }
            client.send(long_header("/worker", limit + 1));
            assert_eq!(client.response().status, 431, "{engine}, at most {limit} bytes");
        }
    }
}

#[test]
fn the_limit_is_16_kib_without_the_option_and_cannot_be_any() {
    let served = functions(Engine::Poll, Settings::default().max_head_size);
    let mut client = TestClient::connect(served.address);
    client.send([long_header("/", 16_384), long_header("/", 16_385)].concat());
    assert_eq!([(); 2].map(|()| client.response().status), [200, 431]);
    let dir = site(&[("site/index.html", "home")]);
    for (size, is_valid) in [("16KiB", true), ("65536", true), ("65537", false), ("8KiB", false)] {
        let config = format!("[[site]]\npath = \"site\"\n[server]\nmax-head-size = \"{size}\"\n");
        let file = dir.path().join("tarpon.toml");
        fs::write(&file, config).expect("a file");
        let check = ["config", "check", file.to_str().expect("text")].map(std::ffi::OsStr::new);
        let end = RunningProgram::run(crate::common::program::tarpon(check));
        assert_eq!(end.status.success(), is_valid, "{size}: {}", end.err);
        assert_eq!(end.err.contains("from 16KiB to 64KiB"), !is_valid, "{size}: {}", end.err);
    }
}
