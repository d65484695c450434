//! What happens in a server's life, as lines of JSON.

mod common;

use common::{
    client::Client,
    program::{Program, serve},
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
    let events =
        || program.err().lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>();
    let event =
        |message: &str| wait_for(message, || events().into_iter().find(|event| event["message"] == message));
    let serving = event("serving");
    let address =
        serving["addresses"].as_str().expect("addresses").trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(Client::connect(address.parse().expect("an address")).get("/").content, b"home");
    assert_eq!((&serving["level"], serving["timestamp"].as_str().map(str::len)), (&"INFO".into(), Some(24)));
    fs::write(dir.path().join("new.html"), "new").expect("a file");
    let changed = event("changed");
    assert_eq!((&changed["files"], &changed["bytes"]), (&2.into(), &7.into()));
    program.signal(Signal::TERM);
    assert_eq!(event("stopping")["grace_s"], 30.0);
    let ended = program.ended();
    assert!(ended.status.success() && ended.out.is_empty(), "{ended:?}");
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
