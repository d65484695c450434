//! The health path for load balancers: on every host, with any site, until the server stops.

use crate::common::{
    ENGINES,
    client::{Response, TestClient},
    endpoint::TestTls,
    program::{RunningProgram, tarpon},
    site, wait_for,
};
use rustix::process::Signal;
use std::{fs, path::Path, process::Command};
use tarpon::Engine;

const CONFIG: &str = r#"
[server]
health-path = "/healthz"
refuse-unknown-hosts = true
[[listener]]
address = "127.0.0.1:0"
[[site]]
path = "plain"
hosts = ["plain"]
redirect-hosts = ["alias"]
[[site]]
path = "plain"
hosts = ["app"]
spa = true
[[site]]
path = "ruled"
hosts = ["ruled"]
[[site]]
path = "own"
hosts = ["own"]
"#;

#[test]
fn health_path_is_served_on_every_host_unless_the_site_has_the_file() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str, u16, &str)] = &[
        // host      method      target         status, and content
        ("plain",    "GET",      "/healthz",     200,   "ok\n"),
        ("plain",    "HEAD",     "/healthz",     200,   ""),
        ("plain",    "GET",      "/healthz?a",   200,   "ok\n"),
        ("app",      "GET",      "/healthz",     200,   "ok\n"),
        ("ruled",    "GET",      "/healthz",     200,   "ok\n"),
        ("alias",    "GET",      "/healthz",     200,   "ok\n"),
        ("10.0.0.7", "GET",      "/healthz",     200,   "ok\n"),
        ("own",      "GET",      "/healthz",     200,   "its own"),
        ("alias",    "GET",      "/other",       301,   ""),
        ("10.0.0.7", "GET",      "/",            421,   "*"),
        ("plain",    "GET",      "/healthz/",    404,   "*"),
        ("plain",    "POST",     "/healthz",     405,   "*"),
        ("app",      "GET",      "/route",       200,   "plain"),
        ("ruled",    "GET",      "/route",       302,   "*"),
    ];
    let (dir, tls) = (configured(), TestTls::new());
    for &engine in ENGINES {
        let mut command = serve(dir.path(), engine);
        command.args(tls.options());
        let program = RunningProgram::start_ready(command);
        for endpoint in tls.endpoints_with_http2(engine, &program.addresses()) {
            let mut client = endpoint.connect();
            for &(host, method, target, status, content) in cases {
                client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                let response = if method == "HEAD" { client.try_head() } else { client.try_response() };
                let response = response.expect("a response");
                let case = format!("{method} {host}{target}, {engine}, {endpoint}");
                assert_eq!(response.status, status, "{case}");
                assert!(content == "*" || response.content == content.as_bytes(), "{case}: {response:?}");
                if content == "ok\n" {
                    assert_eq!(response.field("Cache-Control"), Some("no-store"), "{case}");
                    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"), "{case}");
                }
                if response.closes() {
                    client = endpoint.connect();
                }
            }
        }
    }
}

#[test]
fn stopping_server_is_unhealthy_and_reloaded_server_is_healthy() {
    let dir = configured();
    // Several workers do not receive the notice at the same time, and blocking engines have a worker per connection.
    for &engine in ENGINES.iter().filter(|engine| !engine.is_blocking()) {
        let mut command = serve(dir.path(), engine);
        command.args(["--workers", "1"]);
        let program = RunningProgram::start_ready(command);
        let health_after = |signal, message: &str| -> Response {
            // A partial request, which is in progress when the signal arrives.
            let mut client = TestClient::connect(program.address());
            client.send("GET /healthz HTTP/1.1\r\n");
            let mut another = TestClient::connect(program.address());
            another.get("/");
            program.signal(signal);
            wait_for(message, || program.out().contains(message).then_some(()));
            // The server receives the notice after the supervisor prints the message.
            wait_for("the idle connection closes", || {
                another.send("GET / HTTP/1.1\r\nHost: plain\r\n\r\n");
                another.try_response().map_or(true, |response| response.closes()).then_some(())
            });
            client.send("Host: plain\r\n\r\n");
            client.try_response().expect("a response")
        };
        let reloaded = health_after(Signal::HUP, "reloaded");
        assert_eq!(
            (reloaded.status, &*reloaded.content, reloaded.closes()),
            (200, &b"ok\n"[..], true),
            "{engine}"
        );
        let stopped = health_after(Signal::TERM, "stopping");
        assert_eq!(
            (stopped.status, &*stopped.content, stopped.closes()),
            (503, &b"stopping\n"[..], true),
            "{engine}"
        );
        assert!(program.wait().status.success());
    }
}

fn configured() -> tempfile::TempDir {
    let dir = site(&[
        ("tarpon.toml", CONFIG),
        ("plain/index.html", "plain"),
        ("ruled/index.html", "ruled"),
        ("ruled/_redirects", "/* https://example.org/:splat 302\n"),
        ("own/healthz", "its own"),
    ]);
    fs::write(dir.path().join("own/index.html"), "own").expect("a file");
    dir
}

fn serve(dir: &Path, engine: Engine) -> Command {
    let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
    command.arg(dir.join("tarpon.toml")).args(["--engine", engine.name(), "--admin", "off"]);
    command
}
