//! Options for parts of a site: `[[site.location]]`, `[[site.error-page]]`, `index`; and `server-header`.

use crate::common::{
    ENGINES,
    client::{CONNECT, Connect, HTTP2, TestClient, connect_on},
    program::{RunningProgram, tarpon, with_long_timeouts},
    site, wait_for,
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
        for ((version, connect), (request, status, want)) in
            CONNECT.into_iter().flat_map(|connect| cases.iter().map(move |case| (connect, case)))
        {
            let mut client = connect(program.address());
            client.send(format!("{request} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
            let response = client.response();
            let text = format!("{}\r\n\r\n{}", response.head, String::from_utf8_lossy(&response.content));
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{version}, {source}: {request}\n{text}");
            for want in *want {
                assert!(text.contains(want), "{version}, {source}: {request}: {want:?}\n{text}");
            }
        }
    }
}

/// A request, the status of its response, and whether it is logged.
type RequestCase = (&'static str, &'static str, bool);

#[rustfmt::skip]
const LOG_CASES: &[RequestCase] = &[
    // method, path, fields                                status  logged
    ("GET /index.html",                                    "200",  true),
    ("GET /downloads/a/b.txt",                             "200",  false),
    ("HEAD /downloads/a/b.txt",                            "200",  false),
    ("GET /%64ownloads/./a/b.txt",                         "200",  false),
    ("GET /downloads/a/b.txt If-None-Match: *",            "304",  false),
    ("GET /downloads/a/b.txt Range: bytes=0-0",            "206",  false),
    ("GET /downloads/a/b.txt Range: bytes=99-",            "416",  false),
    ("POST /downloads/a/b.txt Content-Length: 0",          "405",  false),
    ("GET /downloads/a",                                   "301",  false),
    ("GET /downloads/moved",                               "302",  false),
    ("GET /downloads/none",                                "404",  false),
    ("GET /downloads/private/c.txt",                       "200",  true),
    ("GET /downloads/private/none",                        "404",  true),
    ("GET /old",                                           "301",  true),
    ("GET /none",                                          "404",  true),
];

const LOG_CONFIG: &str = r#"
[log]
access-log = "access.log"
[[site]]
path = "SITE"
"#;

const LOG_LOCATIONS: &str = r#"
listings = true
[[site.location]]
path = "/downloads/*"
access-log = "off"
[[site.location]]
path = "/downloads/private/*"
access-log = "on"
[[site.redirect]]
from = "/downloads/moved"
to = "/"
status = 302
"#;

/// The health check and a mount, which a packed site does not have.
const LOG_MORE: &str = r#"
[[site]]
path = "SITE"
mount = "/docs"
[[site.location]]
path = "/*"
access-log = "off"
[server]
health-path = "/downloads/health"
"#;

const LOG_MORE_CASES: &[RequestCase] = &[
    ("GET /downloads/health", "200", false),
    ("GET /docs", "301", false),
    ("GET /docs/index.html", "200", false),
    ("GET /docs/none", "404", false),
];

/// Sends requests on one connection, and checks that the log has the right ones.
fn check_log(dir: &Path, flags: &[&str], cases: &[RequestCase], (version, connect): Connect) {
    let log = dir.join("access.log");
    fs::write(&log, "").expect("a file");
    let program = RunningProgram::start_ready(serve(dir, flags));
    let mut client = connect(program.address());
    // The last one is malformed, so its path does not count. HTTP/2 cannot express it.
    let malformed = [("GET /downloads/a/b.txt Host: b", "400", true)];
    let cases = cases.iter().chain(malformed.iter().filter(|_| version != HTTP2.0));
    for (number, (request, status, _)) in cases.clone().enumerate() {
        let mut parts = request.splitn(3, ' ');
        let [method, path, field] = [(); 3].map(|()| parts.next().unwrap_or("X: y"));
        client.send(format!("{method} {path}?n{number}. HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
        let response = if method == "HEAD" { client.try_head() } else { client.try_response() };
        let head = response.expect("a response").head;
        assert_eq!(head.split(' ').nth(1), Some(*status), "{version}, {flags:?}: {request}\n{head}");
    }
    let want: Vec<_> = cases.enumerate().filter(|(_, case)| case.2).map(|(number, _)| number).collect();
    let last = format!("?n{}.", want[want.len() - 1]);
    let text = wait_for("the last line", || {
        Some(fs::read_to_string(&log).expect("a log"))
            .filter(|text| text.ends_with('\n') && text.contains(&last))
    });
    let number = |line: &str| line.split("?n").nth(1)?.split('.').next()?.parse().ok();
    let found: Vec<usize> = text.lines().map(|line| number(line).expect("a number")).collect();
    assert_eq!(found, want, "{version}, {flags:?}:\n{text}");
}

#[test]
fn paths_are_kept_out_of_the_log_on_every_engine_and_in_every_format() {
    let dir = site(FILES);
    let text = format!("{LOG_CONFIG}{LOG_LOCATIONS}{LOG_MORE}").replace("SITE", "site");
    fs::write(dir.path().join("tarpon.toml"), text).expect("a file");
    let formats = ["combined", "common", "simple", "json"];
    for (&engine, format) in ENGINES.iter().zip(formats.iter().cycle()) {
        let flags = ["--engine", engine.name(), "--workers", "2", "--access-log-format", format];
        let cases = [LOG_CASES, LOG_MORE_CASES].concat();
        connect_on(engine).for_each(|connect| check_log(dir.path(), &flags, &cases, connect));
    }
}

#[test]
fn packed_site_keeps_paths_out_of_the_log_and_shows_them() {
    let dir = site(FILES);
    let packed = dir.path().join("packed.tar");
    let write = |name: &str, text: String| fs::write(dir.path().join(name), text).expect("a file");
    write("pack.toml", format!("{LOG_CONFIG}{LOG_LOCATIONS}").replace("SITE", "elsewhere"));
    let mut pack = tarpon(["pack", "--effort", "fast"].map(AsRef::as_ref));
    pack.arg(dir.path().join("site"))
        .arg("-o")
        .arg(&packed)
        .arg("--config")
        .arg(dir.path().join("pack.toml"));
    let ended = RunningProgram::run(pack);
    assert!(ended.status.success(), "{}", ended.err);

    write("tarpon.toml", LOG_CONFIG.replace("SITE", "packed.tar"));
    CONNECT.into_iter().for_each(|connect| check_log(dir.path(), &[], LOG_CASES, connect));

    let inspect = |flags: &[&str]| {
        let mut command = tarpon(["inspect"].map(AsRef::as_ref));
        command.arg(&packed).args(flags);
        RunningProgram::run(command).out
    };
    let lines = [
        "/downloads/a/b.txt not logged, text/plain; charset=utf-8",
        "/downloads/a not logged, 301 -> /downloads/a/",
        "/downloads/private/c.txt text/plain; charset=utf-8",
        "path, the last that matches counts access-log /downloads/* off /downloads/private/* on",
    ];
    let text = inspect(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    lines.iter().for_each(|line| assert!(text.contains(line), "{line}\n{text}"));
    let json = inspect(&["--json"]);
    let parts = [
        "{\"path\":\"/downloads/a\",\"status\":301,\"location\":\"/downloads/a/\",\"logged\":false}",
        "\"cache_control\":\"no-cache\",\"logged\":true,\"forms\":[{\"coding\":\"identity\",\"len\":1,\"tag\":\"\\\"12d8bdd1",
        "\"log_paths\":[\n{\"path\":\"/downloads/*\",\"logged\":false},\n{\"path\":\"/downloads/private/*\",\"logged\":true}\n]}",
    ];
    parts.iter().for_each(|part| assert!(json.contains(part), "{part}\n{json}"));
    let verified = RunningProgram::run(tarpon(["verify".as_ref(), packed.as_os_str()]));
    assert!(verified.status.success(), "{}", verified.err);
}

#[test]
fn shown_location_leaves_listings_to_the_site() {
    let text = "[[site]]\npath = \"site\"\nlistings = true\n[[site.location]]\npath = \"/a/*\"\ncache = \"no-store\"\naccess-log = \"off\"\n";
    let dir = site(&[("tarpon.toml", text)]);
    let mut command = tarpon(["config", "show", "--toml", "--config"].map(AsRef::as_ref));
    let shown = RunningProgram::run({
        command.arg(dir.path().join("tarpon.toml"));
        command
    });
    assert!(shown.out.contains("\nlistings = true  # "), "{}", shown.out);
    assert!(shown.out.contains("\n# listings: the value of the site  # default\n"), "{}", shown.out);
    assert!(shown.out.contains("\naccess-log = \"off\"  # "), "{}", shown.out);
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
