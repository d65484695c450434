//! Several sites in one program, told apart by host, each with what `tarpon.toml` says of it.

use crate::{
    ENGINE,
    common::{
        client::{Client, Response},
        program::{Program, tarpon},
        site, wait_for, write_files,
    },
};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// Directories `one` and `two`, and a configuration that serves them.
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

fn ask(client: &mut Client, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response()
}

fn told(response: &Response) -> String {
    let content = String::from_utf8_lossy(&response.content).into_owned();
    format!("{} {}", response.status, response.field("Location").unwrap_or(&content))
}

#[test]
fn each_site_is_served_as_its_section_says() {
    let dir = configured(CONFIG);
    let program = Program::started(serve(dir.path()));
    assert!(program.out().contains(" serves 2 sites\n  one.example, *.one.example: "), "{}", program.out());
    assert_eq!(program.err(), "");
    let mut client = Client::connect(program.address());
    #[rustfmt::skip]
    let cases = [
        ("one.example",       "/",       "200 one"),
        ("a.b.one.example",   "/",       "200 one"),
        ("www.one.example",   "/?q",     "301 //one.example/?q"),
        ("one.example",       "/about",  "404 nothing in one"),
        ("another.example",   "/",       "200 one"),
        ("two.example",       "/about",  "200 about two"),
    ];
    for (host, target, want) in cases {
        assert_eq!(told(&ask(&mut client, host, target)), want, "{host} {target}");
    }
    assert_eq!(client.rest(), b"", "the second site takes two requests on a connection");
    let mut client = Client::connect(program.address());
    let two = ask(&mut client, "two.example", "/");
    assert_eq!((two.field("X-Site"), two.field("Connection")), (Some("two"), None));
}

#[test]
fn each_site_follows_its_directory_and_a_broken_one_stays_as_it_was() {
    let dir = configured(CONFIG);
    let program = Program::started(serve(dir.path()));
    let mut client = Client::connect(program.address());
    write_files(dir.path(), &[("one/index.html", "changed")]);
    wait_for("the change", || (told(&ask(&mut client, "one.example", "/")) == "200 changed").then_some(()));
    assert_eq!(told(&ask(&mut Client::connect(program.address()), "two.example", "/")), "200 two");
    // The server may serve it before what the keeper says of it has come through its pipe.
    let said = format!("\nchanged: {}: 2 files, ", dir.path().join("one").display());
    wait_for("what is said of it", || program.out().contains(&said).then_some(()));

    write_files(dir.path(), &[("two/_redirects", "not/a/rule\n"), ("one/index.html", "again")]);
    wait_for("a warning", || program.err().contains("_redirects").then_some(()));
    wait_for("the other", || (told(&ask(&mut client, "one.example", "/")) == "200 again").then_some(()));
    assert_eq!(told(&ask(&mut Client::connect(program.address()), "two.example", "/")), "200 two");
    fs::remove_file(dir.path().join("two/_redirects")).unwrap();
    write_files(dir.path(), &[("two/index.html", "healed")]);
    wait_for("the healed one", || {
        (told(&ask(&mut Client::connect(program.address()), "two.example", "/")) == "200 healed")
            .then_some(())
    });
}

#[test]
fn hosts_that_no_site_has_can_be_refused() {
    let dir = configured(&format!("{CONFIG}\n[server]\nrefuse-unknown-hosts = true\n"));
    let program = Program::started(serve(dir.path()));
    let mut client = Client::connect(program.address());
    assert_eq!(ask(&mut client, "another.example", "/").status, 421);
    assert_eq!(told(&ask(&mut client, "one.example", "/")), "200 one");
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().status, 421, "no host at all");

    let dir = configured(&CONFIG.replace("clean-urls", "default = true\nclean-urls"));
    let program = Program::started(serve(dir.path()));
    let mut client = Client::connect(program.address());
    assert_eq!(told(&ask(&mut client, "another.example", "/")), "200 two", "and another site be the default");
}

#[test]
fn what_hosts_contradict_is_said_at_once() {
    let cases = [
        (
            "two defaults",
            CONFIG.replace("path = \"", "default = true\npath = \""),
            "another site is the default already",
        ),
        (
            "a default, and refused",
            format!(
                "[server]\nrefuse-unknown-hosts = true\n{}",
                CONFIG.replace("clean-urls", "default = true\nclean-urls")
            ),
            "this site is the default, but refuse-unknown-hosts refuses what it would answer",
        ),
        ("not reached", CONFIG.replace("hosts = [\"two.example\"]\n", ""), "no request reaches this site"),
        (
            "nobody's first",
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
        let ended = Program::run(serve(dir.path()));
        assert!(!ended.status.success(), "{name}");
        assert!(ended.err.contains(want), "{name}: {}", ended.err);
    }
}
