//! docs/guides/behind-a-load-balancer.md: HAProxy before two servers, which reload, stop and start while requests are sent.

use super::{block, replaced};
use crate::common::{
    load::LoadGenerator,
    other_server::OtherServer,
    port::ReservedPort,
    program::{RunningProgram, serve_config},
    site, wait_for,
};
use rustix::process::Signal;
use std::{fs, path::Path};

const GUIDE: &str = "behind-a-load-balancer";
/// A client that no server has as its address.
const CLIENT: &str = "127.0.0.3";

#[test]
fn clients_do_not_notice_servers_that_reload_and_stop() {
    let dir = site(&[("www/index.html", "home"), ("one/none", ""), ("two/none", "")]);
    let ports = [(); 3].map(|()| ReservedPort::new());
    let [public, one, two] = ports.each_ref().map(|port| port.address);
    let start = |name: &str, address| {
        let at = dir.path().join(name);
        let mut config = block(GUIDE, "toml");
        for (from, to) in [
            ("\"8080\"", &*format!("\"{address}\"")),
            ("192.0.2.10", "127.0.0.1"),
            ("/srv/www", &dir.path().join("www").display().to_string()),
            ("/var/log/tarpon", &at.display().to_string()),
        ] {
            config = replaced(&config, from, to);
        }
        RunningProgram::start_ready(serve_config(&config, &at, &[]))
    };
    let mut servers = [start("one", one), start("two", two)];
    let mut config = block(GUIDE, "haproxy");
    for (from, to) in [
        ("bind :80\n", &*format!("bind {public}\n")),
        ("192.0.2.21:8080", &one.to_string()),
        ("192.0.2.22:8080", &two.to_string()),
    ] {
        config = replaced(&config, from, to);
    }
    let mut balancer = OtherServer::start("haproxy", &config, dir.path());

    let mut client = balancer.connect(&format!("{CLIENT}:0"), public, &config);
    client.send("GET /?asked HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.9\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().content, b"home");
    let log = |name: &str| fs::read_to_string(dir.path().join(name).join("access.log")).unwrap_or_default();
    wait_for("the line of the client", || {
        let lines = log("one") + &log("two");
        lines
            .lines()
            .find(|line| line.contains("/?asked "))
            .map(|line| assert!(line.starts_with(CLIENT), "{line}"))
    });

    let load = LoadGenerator::start(public, "/", b"home");
    load.wait_for_responses(50);
    for (number, (name, address)) in [("one", one), ("two", two)].into_iter().enumerate() {
        servers[number].signal(Signal::HUP);
        load.wait_for_responses(100);
        servers[number].signal(Signal::TERM);
        // The balancer sends all requests to the other server, and then to both again.
        load.wait_for_responses(100);
        wait_until_exited(&mut servers[number]);
        servers[number] = start(name, address);
        let before = log(name).len();
        wait_for("requests to the new server", || (log(name).len() > before).then_some(()));
    }
    let failures = load.stop();
    assert!(failures.is_empty(), "{failures:?}");
    assert!(!(log("one") + &log("two")).contains("/healthz"), "checks are in the log");
    assert!(Path::new(&dir.path().join("one/access.log")).exists());
}

fn wait_until_exited(server: &mut RunningProgram) {
    wait_for("the server exits", || (!server.is_running()).then_some(()));
}
