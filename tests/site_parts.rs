//! Options for parts of a site: `[[site.location]]`, `[[site.error-page]]`, `index`; and `server-header`.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::TestClient,
    program::{RunningProgram, tarpon, with_long_timeouts},
    site,
};
use std::{fs, path::Path, process::Command};

/// Starts a server with the configuration `tarpon.toml` of a directory.
fn serve(dir: &Path, flags: &[&str]) -> Command {
    let mut command =
        tarpon(["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--config"].map(AsRef::as_ref));
    command.arg(dir.join("tarpon.toml")).args(flags);
    if !flags.contains(&"--log-format") {
        command.args(["--log-format", "human"]);
    }
    with_long_timeouts(&mut command);
    command
}

const FILES: &[(&str, &str)] = &[
    ("site/index.html", "home"),
    ("site/missing.html", "<p>not here"),
    ("site/method.html", "<p>not that way"),
    ("site/deep/404.html", "<p>deep"),
    ("site/deep/a.txt", "a"),
    ("site/both/index.html", "html"),
    ("site/both/index.htm", "htm"),
    ("site/old/index.htm", "old"),
    ("site/downloads/a/b.txt", "b"),
    ("site/downloads/private/c.txt", "c"),
    ("site/other/d.txt", "d"),
];

const CONFIG: &str = r#"
[[site]]
path = "SITE"
index = ["index.html", "index.htm"]

[[site.location]]
path = "/downloads/*"
listings = true
cache = "max-age=3600"

[[site.location]]
path = "/downloads/private/*"
listings = false

[[site.error-page]]
status = 404
path = "/missing.html"

[[site.error-page]]
status = 405
path = "/method.html"
"#;

#[test]
#[rustfmt::skip]
fn parts_of_a_site_have_options_of_their_own() {
    let dir = site(FILES);
    let archive = dir.path().join("site.tar");
    let tar = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(dir.path().join("site")).arg(".").status();
    assert!(tar.expect("tar").success());
    let cases: &[(&str, &str, &[&str])] = &[
        // request                 status  in the response
        ("GET /downloads/",        "200",  &["Cache-Control: max-age=3600\r\n", "private", "/downloads/a/"]),
        ("GET /downloads/a/",      "200",  &["b.txt"]),
        ("GET /downloads/a/b.txt", "200",  &["Cache-Control: max-age=3600\r\n", "\r\n\r\nb"]),
        ("GET /downloads/private/", "404", &["Cache-Control: no-store\r\n", "\r\n\r\n<p>not here"]),
        ("GET /other/",            "404",  &["Content-Type: text/html; charset=utf-8\r\n", "\r\n\r\n<p>not here"]),
        ("GET /other/d.txt",       "200",  &["Cache-Control: no-cache\r\n"]),
        ("GET /missing.html",      "200",  &["ETag: ", "\r\n\r\n<p>not here"]),
        ("GET /deep/none",         "404",  &["\r\n\r\n<p>deep"]),
        ("POST /",                 "405",  &["Allow: GET, HEAD, OPTIONS\r\n", "Content-Length: 15\r\n", "\r\n\r\n<p>not that way"]),
        ("GET /both/",             "200",  &["\r\n\r\nhtml"]),
        ("GET /both/index.htm",    "200",  &["\r\n\r\nhtm"]),
        ("GET /old/",              "200",  &["\r\n\r\nold"]),
        ("GET /old",               "301",  &["Location: /old/\r\n"]),
    ];
    for source in ["site", "site.tar"] {
        fs::write(dir.path().join("tarpon.toml"), CONFIG.replace("SITE", source)).expect("a file");
        let program = RunningProgram::start_ready(serve(dir.path(), &[]));
        for (request, status, want) in cases {
            let mut client = TestClient::connect(program.address());
            client.send(format!("{request} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
            let response = client.response();
            let text = format!("{}\r\n\r\n{}", response.head, String::from_utf8_lossy(&response.content));
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{source}: {request}\n{text}");
            for want in *want {
                assert!(text.contains(want), "{source}: {request}: {want:?}\n{text}");
            }
        }
    }
}

#[test]
fn shown_location_leaves_listings_to_the_site() {
    let text = "[[site]]\npath = \"site\"\nlistings = true\n[[site.location]]\npath = \"/a/*\"\ncache = \"no-store\"\n";
    let dir = site(&[("tarpon.toml", text)]);
    let mut command = tarpon(["config", "show", "--toml", "--config"].map(AsRef::as_ref));
    let shown = RunningProgram::run({
        command.arg(dir.path().join("tarpon.toml"));
        command
    });
    assert!(shown.out.contains("\nlistings = true  # "), "{}", shown.out);
    assert!(shown.out.contains("\n# listings: the value of the site  # default\n"), "{}", shown.out);
}

#[test]
fn errors_of_parts_have_the_position_of_the_configuration() {
    let long = "x".repeat((64 << 10) + 1);
    let dir = site(&[("site/index.html", "home"), ("site/long.html", &long)]);
    let cases = [
        (
            "[[site.error-page]]\nstatus = 404\npath = \"/none.html\"\n",
            "tarpon.toml:5:8: the site has no such file",
        ),
        (
            "[[site.error-page]]\nstatus = 500\npath = \"/none.html\"\n",
            "tarpon.toml:5:8: the site has no such file",
        ),
        (
            "[[site.error-page]]\nstatus = 500\npath = \"/long.html\"\n",
            "tarpon.toml:5:8: the page is longer than 64 KiB",
        ),
        (
            "[[site.error-page]]\nstatus = 410\npath = \"/long.html\"\n",
            "the server has no page of its own for this status",
        ),
        ("[[site.location]]\npath = \"/*/*\"\nlistings = true\n", "the path has more than one *"),
    ];
    for (text, want) in cases {
        fs::write(dir.path().join("tarpon.toml"), format!("[[site]]\npath = \"site\"\n{text}"))
            .expect("a file");
        let ended = RunningProgram::run(serve(dir.path(), &[]));
        assert!(!ended.status.success() && ended.err.contains(want), "{want}: {}", ended.err);
    }
}

#[test]
fn packed_site_is_refused_with_rules_of_the_configuration() {
    let dir = site(FILES);
    let packed = dir.path().join("packed.tar");
    let mut command = tarpon(["pack"].map(AsRef::as_ref));
    command.arg(dir.path().join("site")).arg("-o").arg(&packed).args([
        "--index",
        "index.htm",
        "--effort",
        "fast",
    ]);
    let ended = RunningProgram::run(command);
    assert!(ended.status.success(), "{}", ended.err);
    let write = |rest: &str| {
        let text = format!("[[site]]\npath = \"packed.tar\"\n{rest}");
        fs::write(dir.path().join("tarpon.toml"), text).expect("a file");
        serve(dir.path(), &[])
    };
    for rest in [
        "[[site.header]]\npath = \"/*\"\nset = [\"X-A: b\"]\n",
        "[[site.location]]\npath = \"/*\"\nlistings = true\n",
    ] {
        let ended = RunningProgram::run(write(rest));
        assert!(ended.err.contains("with rules of the configuration: it is a packed site"), "{}", ended.err);
    }
    let program = RunningProgram::start_ready(write(""));
    assert_eq!(TestClient::connect(program.address()).get("/both/").content, b"htm");
}

#[test]
fn pack_takes_the_rules_of_the_configuration() {
    let dir = site(FILES);
    let text = format!(
        "{}[[site.header]]\npath = \"/*\"\nset = [\"X-A: b\"]\n",
        CONFIG.replace("SITE", "elsewhere")
    );
    fs::write(dir.path().join("pack.toml"), text).expect("a file");
    let pack = |config: &str| {
        let mut command = tarpon(["pack", "--effort", "fast"].map(AsRef::as_ref));
        command.arg(dir.path().join("site")).arg("-o").arg(dir.path().join("packed.tar"));
        RunningProgram::run({
            command.arg("--config").arg(dir.path().join(config));
            command
        })
    };
    let ended = pack("pack.toml");
    assert!(ended.status.success(), "{}", ended.err);
    fs::write(dir.path().join("tarpon.toml"), "[[site]]\npath = \"packed.tar\"\n").expect("a file");
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut client = TestClient::connect(program.address());
    for (target, want) in [("/none", "<p>not here"), ("/old/", "old"), ("/downloads/", "private")] {
        let response = client.get(target);
        assert!(response.head.contains("\r\nX-A: b"), "{target}: {}", response.head);
        assert!(String::from_utf8_lossy(&response.content).contains(want), "{target}: {}", response.head);
    }
    let two = "[[site]]\npath = \"a\"\n[[site]]\npath = \"b\"\nhosts = [\"b.example\"]\n";
    fs::write(dir.path().join("two.toml"), two).expect("a file");
    assert!(pack("two.toml").err.contains("the configuration has 2 sites"));
}

#[test]
fn server_header_can_be_left_out_on_every_engine() {
    let dir = site(FILES);
    for &engine in ENGINES {
        for (option, is_sent) in [("", true), ("server-header = false\n", false)] {
            let text = format!(
                "[[site]]\npath = \"site\"\n[server]\nworkers = 2\nengine = \"{}\"\n{option}",
                engine.name()
            );
            fs::write(dir.path().join("tarpon.toml"), text).expect("a file");
            let program = RunningProgram::start_ready(serve(dir.path(), &[]));
            for target in ["/", "/none", "/old/index.htm"] {
                let head = TestClient::connect(program.address()).get(target).head;
                assert_eq!(
                    head.contains("Server: tarpon\r\n"),
                    is_sent,
                    "{} {target}: {head}",
                    engine.name()
                );
                assert!(head.contains("\r\nDate: "), "{head}");
            }
        }
    }
}
