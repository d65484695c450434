//! The configurations of docs/proxies.md, with the real proxies: tarpon logs the client, whatever the client forges.

use crate::common::{
    other_server::{CURRENT_CADDY, OtherServer},
    port::ReservedPort,
    program::{RunningProgram, serve_config},
    site, wait_for,
};
use rustix::process::geteuid;
use std::{fs, path::Path};

/// Addresses of clients: no proxy of the page has them.
const CLIENTS: [&str; 2] = ["127.0.0.3", "127.0.0.4"];

#[test]
fn documented_proxies_name_the_client() {
    assert_eq!(check_all(|program| program != CURRENT_CADDY), 9, "the page has all its examples");
}

/// Debian 12 has a version of Caddy that does not speak the PROXY protocol.
#[test]
#[ignore = "soak: tests/setup --soak builds a current Caddy"]
fn documented_caddy_speaks_the_proxy_protocol() {
    assert_eq!(check_all(|program| program == CURRENT_CADDY), 1, "the page has the example");
}

/// Checks the examples of the page whose programs are chosen. Returns their number.
fn check_all(is_chosen: impl Fn(&str) -> bool) -> usize {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/proxies.md")).expect("the page");
    let (mut config, mut count) = (String::new(), 0);
    for (language, text) in code_blocks(&page) {
        let program = match language {
            "toml" => {
                config = text;
                continue;
            }
            "caddy" if text.contains("proxy_protocol") => CURRENT_CADDY,
            program => program,
        };
        if is_chosen(program) {
            check(program, &text, &config);
            count += 1;
        }
    }
    count
}

/// Serves with this configuration of tarpon, behind a proxy with this one. Requests through the proxy must be logged with their clients.
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

    // The proxy may keep the connection of the first client to the server.
    for (number, client) in CLIENTS.into_iter().enumerate() {
        let mut connection = proxy.connect(&format!("{client}:0"), port.address, &case);
        connection.send(format!(
            "GET /?asked{number} HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 198.51.100.8, 127.0.0.1\r\n\
             Forwarded: for=198.51.100.9\r\nX-Forwarded-Host: forged.example\r\nX-Real-IP: 198.51.100.9\r\nConnection: close\r\n\r\n",
        ));
        let response = connection.response();
        assert_eq!((response.status, &*response.content), (200, &b"home"[..]), "{case}");
        let line = wait_for("a line in the log", || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            // A proxy may ask for the health of the server.
            text.lines().find(|line| line.contains(&format!("/?asked{number} "))).map(str::to_owned)
        });
        assert!(line.starts_with(&format!("{client} - - [")), "{line}, behind {case}");
    }
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
