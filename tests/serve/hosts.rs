//! Several sites in one server, selected by host and configured in `tarpon.toml`.

use super::ENGINE;
use crate::common::{
    client::{Response, TestClient},
    endpoint::TestTls,
    program::{RunningProgram, tarpon},
    site, wait_for, write_files,
};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// Returns a directory with the sites `one` and `two` and a configuration for them.
fn configured(config: &str) -> TempDir {
    site(&[
        ("one/index.html", "one"),
        ("one/404.html", "nothing in one"),
        ("two/index.html", "two"),
        ("two/about.html", "about two"),
        ("two/_headers", "/*\n  X-Site: two\n"),
        ("tarpon.toml", config),
    ])
}

const CONFIG: &str = r#"
[[listener]]
address = "127.0.0.1:0"

[[site]]
path = "one"
hosts = ["one.example", "*.one.example"]
redirect-hosts = ["www.one.example"]

[[site]]
path = "two"
hosts = ["two.example"]
clean-urls = true
keepalive-requests = 2
"#;

fn serve(dir: &Path) -> Command {
    tarpon([
        "serve".as_ref(),
        "--config".as_ref(),
        dir.join("tarpon.toml").as_os_str(),
        "--engine".as_ref(),
        ENGINE.name().as_ref(),
    ])
}

fn request(client: &mut TestClient, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response()
}

fn summary(response: &Response) -> String {
    let content = String::from_utf8_lossy(&response.content).into_owned();
    format!("{} {}", response.status, response.field("Location").unwrap_or(&content))
}

#[test]
fn each_site_uses_its_own_settings() {
    let dir = configured(CONFIG);
    let tls = TestTls::for_hosts(&["one.example", "*.one.example", "two.example"]);
    let mut command = serve(dir.path());
    command.args(tls.options());
    let program = RunningProgram::start_ready(command);
    assert!(program.out().contains(" serves 2 sites\n  one.example, *.one.example: "), "{}", program.out());
    assert_eq!(program.err(), "");
    #[rustfmt::skip]
    let cases = [
        ("one.example",       "/",       "200 one"),
        ("a.b.one.example",   "/",       "200 one"),
        ("www.one.example",   "/?q",     "301 //one.example/?q"),
        ("one.example",       "/about",  "404 nothing in one"),
        ("another.example",   "/",       "200 one"),
        ("two.example",       "/about",  "200 about two"),
    ];
    for endpoint in tls.endpoints(&program.addresses()) {
        let mut client = endpoint.connect();
        for (host, target, want) in cases {
            assert_eq!(summary(&request(&mut client, host, target)), want, "{endpoint}: {host} {target}");
        }
        assert_eq!(
            client.read_to_end(),
            b"",
            "{endpoint}: the second site allows two requests per connection"
        );
        let two = request(&mut endpoint.connect(), "two.example", "/");
        assert_eq!((two.field("X-Site"), two.field("Connection")), (Some("two"), None), "{endpoint}");
    }
}

#[test]
fn each_site_reloads_and_a_rejected_one_keeps_its_version() {
    let dir = configured(CONFIG);
    let program = RunningProgram::start_ready(serve(dir.path()));
    let mut client = TestClient::connect(program.address());
    write_files(dir.path(), &[("one/index.html", "changed")]);
    wait_for("the change", || {
        (summary(&request(&mut client, "one.example", "/")) == "200 changed").then_some(())
    });
    assert_eq!(summary(&request(&mut TestClient::connect(program.address()), "two.example", "/")), "200 two");
    // The server may serve the change before the supervisor prints the message of the builder.
    let message = format!("\nread the site {} again: 2 files, ", dir.path().join("one").display());
    wait_for("the message", || program.out().contains(&message).then_some(()));

    write_files(dir.path(), &[("two/_redirects", "not/a/rule\n"), ("one/index.html", "again")]);
    wait_for("a warning", || program.err().contains("_redirects").then_some(()));
    wait_for("the other site", || {
        (summary(&request(&mut client, "one.example", "/")) == "200 again").then_some(())
    });
    assert_eq!(summary(&request(&mut TestClient::connect(program.address()), "two.example", "/")), "200 two");
    fs::remove_file(dir.path().join("two/_redirects")).unwrap();
    write_files(dir.path(), &[("two/index.html", "corrected")]);
    wait_for("the corrected site", || {
        (summary(&request(&mut TestClient::connect(program.address()), "two.example", "/"))
            == "200 corrected")
            .then_some(())
    });
}

#[test]
fn unknown_hosts_are_refused_or_get_the_default_site() {
    let dir = configured(&format!("{CONFIG}\n[server]\nrefuse-unknown-hosts = true\n"));
    let program = RunningProgram::start_ready(serve(dir.path()));
    let mut client = TestClient::connect(program.address());
    assert_eq!(request(&mut client, "another.example", "/").status, 421);
    assert_eq!(summary(&request(&mut client, "one.example", "/")), "200 one");
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().status, 421, "no host");

    let dir = configured(&CONFIG.replace("clean-urls", "default = true\nclean-urls"));
    let program = RunningProgram::start_ready(serve(dir.path()));
    let mut client = TestClient::connect(program.address());
    assert_eq!(summary(&request(&mut client, "another.example", "/")), "200 two", "the default site");
}

#[test]
fn contradictory_hosts_fail_at_start() {
    let cases = [
        (
            "two defaults",
            CONFIG.replace("path = \"", "default = true\npath = \""),
            "another site is the default already",
        ),
        (
            "a default site and refusal",
            format!(
                "[server]\nrefuse-unknown-hosts = true\n{}",
                CONFIG.replace("clean-urls", "default = true\nclean-urls")
            ),
            "this site is the default, but refuse-unknown-hosts refuses what it would answer",
        ),
        (
            "site without a host",
            CONFIG.replace("hosts = [\"two.example\"]\n", ""),
            "no request reaches this site",
        ),
        (
            "first site without a host",
            "[server]\nrefuse-unknown-hosts = true\n[[site]]\npath = \"one\"\n".to_owned(),
            "no request reaches this site",
        ),
        ("a name twice", CONFIG.replace("two.example", "One.example."), "host one.example occurs twice"),
        (
            "redirect hosts of a wildcard",
            CONFIG.replace("\"one.example\", ", ""),
            "`redirect-hosts` have no host to redirect to",
        ),
        ("a port", CONFIG.replace("two.example", "two.example:80"), "expected a host without its port"),
    ];
    for (name, config, want) in cases {
        let dir = configured(&config);
        let ended = RunningProgram::run(serve(dir.path()));
        assert!(!ended.status.success(), "{name}");
        assert!(ended.err.contains(want), "{name}: {}", ended.err);
    }
}
