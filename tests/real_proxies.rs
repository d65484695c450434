//! The configurations of docs/proxies.md, with the real proxies: tarpon logs the client, whatever the client forges.

#![allow(clippy::disallowed_methods, reason = "tests name their own files")]

mod common;

use common::{
    other_server::OtherServer,
    port::ReservedPort,
    program::{RunningProgram, serve_config},
    site, wait_for,
};
use rustix::process::geteuid;
use std::{fs, path::Path};

/// The address of the client: no proxy of the page has it.
const CLIENT: &str = "127.0.0.3:0";

#[test]
fn documented_proxies_name_the_client() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/proxies.md")).expect("the page");
    let blocks = code_blocks(&page);
    let (mut config, mut count) = ("", 0);
    for (language, text) in &blocks {
        match *language {
            "toml" => config = text,
            program => {
                check(program, text, config);
                count += 1;
            }
        }
    }
    assert_eq!(count, 9, "the page has all its examples");
}

/// Serves with this configuration of tarpon, behind a proxy with this one. A request through the proxy must be logged with its client.
fn check(program: &str, proxy_config: &str, config: &str) {
    let dir = site(&[("www/index.html", "home")]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (log, socket_path) = (dir.path().join("access.log"), path("http.sock"));
    // Only root gives a socket to another group; other users run the proxy themselves.
    let group = if geteuid().is_root() { "group = \"www-data\"" } else { "" };
    let config = config
        .replace("group = \"www-data\"", group)
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("/run/tarpon/http.sock", &socket_path)
        .replace("/srv/www", &path("www"))
        .replace("/var/log/tarpon/access.log", &path("access.log"));
    let served = RunningProgram::start_ready(serve_config(&config, dir.path(), &[]));
    let server = if config.contains("unix:") { String::new() } else { served.address().to_string() };

    let port = ReservedPort::new();
    let public = port.address.to_string();
    let proxy_config = proxy_config
        .replace("127.0.0.1:8080", &server)
        .replace("/run/tarpon/http.sock", &socket_path)
        .replace("listen 80;", &format!("listen {public};"))
        .replace("bind :80\n", &format!("bind {public}\n"))
        .replace(":80 {", &format!("http://:{} {{\n    bind 127.0.0.1", port.address.port()));
    let case = format!("{program}:\n{proxy_config}");
    let mut proxy = OtherServer::start(program, &proxy_config, dir.path());

    let mut client = proxy.connect(CLIENT, port.address, &case);
    client.send(
        "GET /?asked HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 198.51.100.8, 127.0.0.1\r\n\
         Forwarded: for=198.51.100.9\r\nX-Forwarded-Host: forged.example\r\nX-Real-IP: 198.51.100.9\r\nConnection: close\r\n\r\n",
    );
    let response = client.response();
    assert_eq!((response.status, &*response.content), (200, &b"home"[..]), "{case}");
    let line = wait_for("a line in the log", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        // A proxy may ask for the health of the server.
        text.lines().find(|line| line.contains("/?asked")).map(str::to_owned)
    });
    assert!(line.starts_with("127.0.0.3 - - ["), "{line}, behind {case}");
    if proxy_config.contains("httpchk") {
        // The proxy speaks for itself.
        let is_check =
            |line: &str| line.starts_with("127.0.0.1 ") && line.contains("\"GET / HTTP/1.0\" 200 ");
        wait_for("a health check", || {
            fs::read_to_string(&log).unwrap_or_default().lines().any(is_check).then_some(())
        });
    }
}

/// Returns the code blocks of a page, each with its language.
fn code_blocks(page: &str) -> Vec<(&str, String)> {
    let (mut blocks, mut lines) = (Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text = lines.by_ref().take_while(|line| *line != "```").map(|line| line.to_owned() + "\n");
            blocks.push((language, text.collect()));
        }
    }
    blocks
}
