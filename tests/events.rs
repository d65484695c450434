//! What happens in a server's life: in words on a terminal, and otherwise as lines of JSON.

mod common;

use common::{
    ENGINES,
    client::{Client, get},
    distinct_bytes,
    program::{Program, serve, tarpon},
    site, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, os::unix::fs::symlink};

#[test]
fn each_event_is_an_object_on_standard_error() {
    let dir = site(&[("index.html", "home")]);
    symlink("/etc/passwd", dir.path().join("outside")).expect("a link");
    let program = Program::start(serve(dir.path(), &["--log-format", "json"]));
    let event = |message: &str| event(&program, message);
    let serving = event("serving");
    let address =
        serving["addresses"].as_str().expect("addresses").trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(Client::connect(address.parse().expect("an address")).get("/").content, b"home");
    assert_eq!((&serving["level"], serving["timestamp"].as_str().map(str::len)), (&"INFO".into(), Some(24)));
    assert_eq!(
        [&serving["sites"], &serving["files"], &serving["bytes"]].map(Value::as_u64),
        [Some(1), Some(1), Some(4)]
    );
    fs::write(dir.path().join("new.html"), "new").expect("a file");
    let changed = event("site_reloaded");
    assert_eq!((&changed["files"], &changed["bytes"]), (&2.into(), &7.into()));
    program.signal(Signal::HUP);
    let reloaded = event("reloaded");
    assert_eq!((&reloaded["addresses"], &reloaded["files"]), (&serving["addresses"], &2.into()));
    program.signal(Signal::TERM);
    assert_eq!(event("stopping")["grace_s"], 30.0);
    let ended = program.ended();
    assert!(ended.status.success() && ended.out.is_empty(), "{ended:?}");
    assert_eq!(ended.err.matches("\"serving\"").count(), 1, "a reload is no start: {}", ended.err);
    for line in ended.err.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(
            event["timestamp"].is_string() && event["level"].is_string() && event["message"].is_string(),
            "{line}"
        );
    }
    assert!(
        ended.err.lines().any(|line| line.contains("\"WARN\"") && line.contains("outside")),
        "{}",
        ended.err
    );
}

#[test]
fn words_are_for_a_terminal_and_json_for_everything_else_unless_it_is_said() {
    let dir = site(&[("index.html", "home")]);
    #[rustfmt::skip]
    let cases: &[(Option<&str>, bool, bool)] = &[
        // said          on a terminal   in words
        (None,           true,           true),
        (None,           false,          false),
        (Some("auto"),   true,           true),
        (Some("auto"),   false,          false),
        (Some("human"),  true,           true),
        (Some("human"),  false,          true),
        (Some("json"),   true,           false),
        (Some("json"),   false,          false),
    ];
    for &(said, on_terminal, in_words) in cases {
        let mut command = tarpon(["serve".as_ref(), dir.path().as_os_str()]);
        command.args(["--listen", "127.0.0.1:0"]);
        if let Some(said) = said {
            command.args(["--log-format", said]);
        }
        let start = if on_terminal { Program::on_terminal } else { Program::start };
        let program = start(command);
        let told = || program.out() + &program.err();
        let told = wait_for("what it says", || Some(told()).filter(|told| told.contains("workers")));
        let case = format!("{said:?}, on a terminal: {on_terminal}: {told}");
        assert_eq!(told.contains("press Ctrl-C to stop"), in_words, "{case}");
        assert_eq!(told.lines().any(|line| serde_json::from_str::<Value>(line).is_ok()), !in_words, "{case}");
        assert_eq!(told.contains('\u{1b}'), on_terminal && in_words, "colour: {case}");
    }
}

#[test]
fn each_exchange_is_told_as_it_happens_where_that_is_asked_for() {
    let dir = site(&[("index.html", &b"home"[..]), ("big", &distinct_bytes(30 << 20))]);
    for &engine in ENGINES {
        let options = ["--log-format", "json", "--debug", "--engine", engine.name()];
        let program = Program::start(serve(dir.path(), &options));
        let address = event(&program, "serving")["addresses"].as_str().expect("addresses").to_owned();
        let address =
            address.trim_start_matches("http://").trim_end_matches('/').parse().expect("an address");
        // Of a large file all is told but its end, while the client still takes it.
        let mut client = Client::connect(address);
        client.send(get("/big"));
        let begun = event(&program, "request_start");
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (text(&begun, "client"), text(&begun, "request")),
            ("127.0.0.1".into(), get("/big").trim_end().replace('\r', ""))
        );
        let response = text(&begun, "response");
        assert!(
            response.starts_with("HTTP/1.1 200 OK\n") && response.contains("\nContent-Length: 31457280\n"),
            "{response}"
        );
        assert!(!program.err().contains("\"over\""), "{engine}");
        drop(client);
        let over = event(&program, "request_end");
        assert_eq!((&over["status"], &over["complete"]), (&200.into(), &false.into()), "{engine}");
        assert_eq!(over["connection"], begun["connection"]);
        assert!(over["bytes"].as_u64().expect("a number") < 30 << 20, "{over}");
    }
}

#[test]
fn what_a_client_sends_steers_no_terminal() {
    let dir = site(&[("index.html", "home")]);
    let mut command = tarpon(["serve".as_ref(), dir.path().as_os_str()]);
    let with = ["--listen", "127.0.0.1:0", "--admin", "off", "--debug", "--access-log", "off"];
    let program = Program::on_terminal({
        command.args(with);
        command
    });
    let address =
        wait_for("an address", || program.out().split("http://").nth(1)?.split('/').next()?.parse().ok());
    for sent in [
        "GET /\u{1b}[31m HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: \"\u{9b}1m\u{7}\\\"\r\n\r\n",
    ] {
        let mut client = Client::connect(address);
        client.send(sent);
        client.try_response().expect("an answer");
    }
    let said = wait_for("both", || {
        Some(program.out()).filter(|said| said.matches(" bytes of content in ").count() == 2)
    });
    let plain = anstream::adapter::strip_str(&said).to_string().replace('\r', "");
    assert!(plain.contains("  > GET /\\x1B[31m HTTP/1.1\n  > Host: h\n  < HTTP/1.1 400 "), "{plain}");
    assert!(plain.contains("\n  > X: \"\\xC2\\x9B1m\\x07\\x5C\"\n"), "{plain}");
    assert!(plain.chars().all(|shown| shown == '\n' || (' '..='~').contains(&shown)), "{plain:?}");
}

/// Waits for an event of a program that says them as JSON.
fn event(program: &Program, message: &str) -> Value {
    let events =
        || program.err().lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>();
    wait_for(message, || events().into_iter().find(|event| event["message"] == message))
}
