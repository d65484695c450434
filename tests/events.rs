//! Messages of the server: text on a terminal, JSON lines otherwise.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    program::{RunningProgram, serve, tarpon},
    site, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, os::unix::fs::symlink};

#[test]
fn each_event_is_a_json_object_on_standard_error() {
    let dir = site(&[("index.html", "home")]);
    symlink("/etc/passwd", dir.path().join("outside")).expect("a link");
    let program = RunningProgram::start(serve(dir.path(), &["--log-format", "json"]));
    let event = |message: &str| event(&program, message);
    let serving = event("serving");
    let address =
        serving["addresses"].as_str().expect("addresses").trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(TestClient::connect(address.parse().expect("an address")).get("/").content, b"home");
    assert_eq!((&serving["level"], serving["timestamp"].as_str().map(str::len)), (&"INFO".into(), Some(24)));
    assert_eq!(
        [&serving["sites"], &serving["files"], &serving["bytes"]].map(Value::as_u64),
        [Some(1), Some(1), Some(4)]
    );
    // A rename, as the builder may otherwise read the new file before its content.
    let staged = site(&[("new.html", "new")]);
    fs::rename(staged.path().join("new.html"), dir.path().join("new.html")).expect("a file");
    let changed = event("site_reloaded");
    assert_eq!((&changed["files"], &changed["bytes"]), (&2.into(), &7.into()));
    assert_eq!(changed["text"], "read the site again: 2 files, 7 bytes");
    let text = format!(
        "tarpon {} serves {}: 1 file, 4 bytes, at http://{address}/",
        env!("CARGO_PKG_VERSION"),
        dir.path().display()
    );
    assert_eq!(serving["text"], text);
    program.signal(Signal::HUP);
    let reloaded = event("reloaded");
    assert_eq!((&reloaded["addresses"], &reloaded["files"]), (&serving["addresses"], &2.into()));
    program.signal(Signal::TERM);
    assert_eq!(event("stopping")["grace_s"], 30.0);
    let ended = program.wait();
    assert!(ended.status.success() && ended.out.is_empty(), "{ended:?}");
    assert_eq!(ended.err.matches("\"serving\"").count(), 1, "a reload is not a start: {}", ended.err);
    for line in ended.err.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(
            event["timestamp"].is_string() && event["level"].is_string() && event["message"].is_string(),
            "{line}"
        );
        let text = event["text"].as_str().unwrap_or_default();
        assert!(!text.is_empty() && !text.contains(['\n', '\u{1b}']), "{line}");
    }
    assert!(
        ended.err.lines().any(|line| line.contains("\"WARN\"") && line.contains("outside")),
        "{}",
        ended.err
    );
}

#[test]
fn log_format_depends_on_the_terminal_and_the_option() {
    let dir = site(&[("index.html", "home")]);
    #[rustfmt::skip]
    let cases: &[(Option<&str>, bool, bool)] = &[
        // option        on a terminal   text
        (None,           true,           true),
        (None,           false,          false),
        (Some("auto"),   true,           true),
        (Some("auto"),   false,          false),
        (Some("human"),  true,           true),
        (Some("human"),  false,          true),
        (Some("json"),   true,           false),
        (Some("json"),   false,          false),
    ];
    for &(option, on_terminal, is_text) in cases {
        let mut command = tarpon(["serve".as_ref(), dir.path().as_os_str()]);
        command.args(["--listen", "127.0.0.1:0"]);
        if let Some(option) = option {
            command.args(["--log-format", option]);
        }
        let start = if on_terminal { RunningProgram::start_on_terminal } else { RunningProgram::start };
        let program = start(command);
        let output = || program.out() + &program.err();
        let output = wait_for("output", || Some(output()).filter(|output| output.contains("workers")));
        let case = format!("{option:?}, on a terminal: {on_terminal}: {output}");
        assert_eq!(output.contains("press Ctrl-C to stop"), is_text, "{case}");
        assert_eq!(
            output.lines().any(|line| serde_json::from_str::<Value>(line).is_ok()),
            !is_text,
            "{case}"
        );
        assert_eq!(output.contains('\u{1b}'), on_terminal && is_text, "colour: {case}");
    }
}

#[test]
fn terminal_and_events_say_the_same() {
    let dir = site(&[
        ("index.html", "home"),
        ("tarpon.toml", "[[site]]\npath = \"public\"\n"),
        ("public/index.html", "home"),
    ]);
    let file = dir.path().join("tarpon.toml");
    let start = |format: &str| {
        let mut command = tarpon(["serve".as_ref(), "--config".as_ref(), file.as_os_str()]);
        command.args(["--listen", "127.0.0.1:0", "--admin", "off", "--log-format", format]);
        RunningProgram::start(command)
    };
    let programs = [start("human"), start("json")];
    let output = |program: &RunningProgram| program.out() + &program.err();
    programs
        .iter()
        .for_each(|program| wait_for("a start", || output(program).contains("workers").then_some(())));
    let staged = site(&[("new.html", "new")]);
    fs::hard_link(staged.path().join("new.html"), dir.path().join("public/new.html")).expect("a file");
    let changed = "read the site again: 2 files, 7 bytes";
    programs.iter().for_each(|program| wait_for(changed, || output(program).contains(changed).then_some(())));
    fs::write(&file, "[[site]]\npath = \"public\"\nnothing = 1\n").expect("a file");
    let stays = "still serving the previous configuration";
    for program in &programs {
        program.signal(Signal::HUP);
        wait_for(stays, || output(program).contains(stays).then_some(()));
        program.signal(Signal::TERM);
    }
    let [human, events] = programs.map(RunningProgram::wait);
    let human = human.out + &human.err;
    for line in events.err.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let text = event["text"].as_str().expect("text");
        // On a terminal, the banner says it.
        if event["message"] == "site_loaded" {
            continue;
        }
        // The ports differ.
        let sentence = text.split(", at http").next().expect("a part");
        let parts: Vec<_> = sentence.split("; still").collect();
        assert!(human.contains(parts[0]) && (parts.len() == 1 || human.contains(stays)), "{text}: {human}");
    }
}

#[test]
fn debug_option_reports_each_exchange() {
    let dir = site(&[("index.html", &b"home"[..]), ("big", &distinct_bytes(30 << 20))]);
    for &engine in ENGINES {
        let options = ["--log-format", "json", "--debug", "--engine", engine.name()];
        let program = RunningProgram::start(serve(dir.path(), &options));
        let address = event(&program, "serving")["addresses"].as_str().expect("addresses").to_owned();
        let address =
            address.trim_start_matches("http://").trim_end_matches('/').parse().expect("an address");
        // While the client downloads a large file, only the start is reported.
        let mut client = TestClient::connect(address);
        client.send(get("/big"));
        let start = event(&program, "request_start");
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (text(&start, "client"), text(&start, "request")),
            ("127.0.0.1".into(), get("/big").trim_end().replace('\r', ""))
        );
        let response = text(&start, "response");
        assert!(
            response.starts_with("HTTP/1.1 200 OK\n") && response.contains("\nContent-Length: 31457280\n"),
            "{response}"
        );
        assert!(!program.err().contains("\"request_end\""), "{engine}");
        drop(client);
        let end = event(&program, "request_end");
        assert_eq!((&end["status"], &end["complete"]), (&200.into(), &false.into()), "{engine}");
        let connection = text(&start, "connection");
        assert_eq!(
            text(&start, "text"),
            format!("{connection} 127.0.0.1: GET /big HTTP/1.1 -> HTTP/1.1 200 OK")
        );
        let line = text(&end, "text");
        assert!(
            line.starts_with(&format!("{connection} 200, ")) && line.ends_with(", aborted GET /big HTTP/1.1"),
            "{line}"
        );
        assert_eq!(end["connection"], start["connection"]);
        assert!(end["bytes"].as_u64().expect("a number") < 30 << 20, "{end}");
    }
}

#[test]
fn control_characters_of_a_client_are_escaped_on_the_terminal() {
    let dir = site(&[("index.html", "home")]);
    let mut command = tarpon(["serve".as_ref(), dir.path().as_os_str()]);
    let with = ["--listen", "127.0.0.1:0", "--admin", "off", "--debug", "--access-log", "off"];
    let program = RunningProgram::start_on_terminal({
        command.args(with);
        command
    });
    let address =
        wait_for("an address", || program.out().split("http://").nth(1)?.split('/').next()?.parse().ok());
    for sent in [
        "GET /\u{1b}[31m HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: \"\u{9b}1m\u{7}\\\"\r\n\r\n",
    ] {
        let mut client = TestClient::connect(address);
        client.send(sent);
        client.try_response().expect("a response");
    }
    let output = wait_for("both exchanges", || {
        Some(program.out()).filter(|output| output.matches(" bytes of content in ").count() == 2)
    });
    let plain = anstream::adapter::strip_str(&output).to_string().replace('\r', "");
    assert!(plain.contains("  > GET /\\x1B[31m HTTP/1.1\n  > Host: h\n  < HTTP/1.1 400 "), "{plain}");
    assert!(plain.contains("\n  > X: \"\\xC2\\x9B1m\\x07\\x5C\"\n"), "{plain}");
    assert!(plain.chars().all(|shown| shown == '\n' || (' '..='~').contains(&shown)), "{plain:?}");
}

/// Waits for an event of a program with JSON messages.
fn event(program: &RunningProgram, message: &str) -> Value {
    let events =
        || program.err().lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>();
    wait_for(message, || events().into_iter().find(|event| event["message"] == message))
}
