//! Which of several servers gets a request.

use super::{
    proxied::{Proxied, ProxyClient, ProxyConfig, get},
    scripted::{ScriptGate, ScriptedServer, ok},
};
use crate::common::{ENGINES, TEST_TIMEOUT, client::connected, port::ReservedPort};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{SocketAddr, TcpStream},
};
use tarpon::Engine;

/// Starts servers that respond with their names: `a`, `b` and so on. Requests for `/app/held` wait.
fn named_servers(count: usize, gate: &ScriptGate) -> Vec<ScriptedServer> {
    (0..count)
        .map(|number| {
            let (name, passed) = (name(number), gate.clone());
            ScriptedServer::start(move |connection| {
                while let Some(request) = connection.request() {
                    if request.target() == "/app/held" {
                        passed.pass();
                    }
                    connection.send(ok(name.to_string()));
                }
            })
        })
        .collect()
}

fn name(number: usize) -> char {
    char::from(b'a' + u8::try_from(number).expect("a letter"))
}

/// Returns the servers with options, as `servers` names them.
fn with_options(servers: &[ScriptedServer], options: &[&str]) -> Vec<String> {
    let named = servers.iter().zip(options).map(|(server, options)| format!("{} {options}", server.url()));
    named.map(|server| server.trim_end().to_owned()).collect()
}

/// Counts the responses of each server to `count` requests on one connection.
fn counts(client: &mut ProxyClient, count: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..count {
        *counts.entry(client.ask(get("/app/")).response.text()).or_default() += 1;
    }
    counts
}

fn map<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

#[test]
fn servers_take_turns_by_weight() {
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], BTreeMap<String, usize>)] = &[
        // case         options of the servers               requests of each, of 12
        ("equal",       &["", "", ""],                       map([("a", 4), ("b", 4), ("c", 4)])),
        ("weights",     &["weight=3", "", "weight=2"],       map([("a", 6), ("b", 2), ("c", 4)])),
        ("backup",      &["", "backup", ""],                 map([("a", 6), ("c", 6)])),
        ("drain",       &["", "", "drain"],                  map([("a", 6), ("b", 6)])),
    ];
    let servers = named_servers(3, &ScriptGate::default());
    for &engine in ENGINES {
        for (case, options, want) in cases {
            let proxied = Proxied::start(engine, &with_options(&servers, options), ProxyConfig::default());
            assert_eq!(counts(&mut proxied.connect(), 12), *want, "{engine}, {case}");
        }
    }
}

#[test]
fn workers_share_the_turns() {
    const CLIENTS: usize = 10;
    let servers = named_servers(2, &ScriptGate::default());
    for &engine in ENGINES {
        let config = ProxyConfig { worker_count: 2, ..ProxyConfig::default() };
        let proxied = Proxied::start(engine, &with_options(&servers, &["", ""]), config);
        let mut total = BTreeMap::<String, usize>::new();
        for _ in 0..CLIENTS {
            for (name, count) in counts(&mut proxied.connect(), 3) {
                *total.entry(name).or_default() += count;
            }
        }
        // Each worker may take turns of its own: at most one request more on each.
        let (a, b) = (total["a"], total["b"]);
        assert!(a + b == 3 * CLIENTS && a.abs_diff(b) <= CLIENTS, "{engine}: {total:?}");
    }
}

#[test]
fn server_with_the_fewest_requests_is_next() {
    let gate = ScriptGate::default();
    let servers = named_servers(3, &gate);
    let config = ProxyConfig { upstream: "balance = \"least-connections\"", ..ProxyConfig::default() };
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &with_options(&servers, &["", "", ""]), config);
        let mut held: Vec<ProxyClient> = Vec::new();
        // Each of the servers gets one of three that wait, and then the second one of three more.
        for turn in 1..=2 {
            let before: Vec<usize> = servers.iter().map(|server| server.requests().len()).collect();
            for number in 1..=3 {
                let mut client = proxied.connect();
                client.send(get("/app/held"));
                held.push(client);
                crate::common::wait_for("the request", || {
                    let now: usize = servers.iter().map(|server| server.requests().len()).sum();
                    (now == before.iter().sum::<usize>() + number).then_some(())
                });
            }
            let each: Vec<usize> =
                servers.iter().zip(before).map(|(server, before)| server.requests().len() - before).collect();
            assert_eq!(each, [1, 1, 1], "{engine}, turn {turn}");
        }
        held.iter().for_each(|_| gate.open());
        for client in &mut held {
            assert_eq!(client.answered("GET").response.status(), 200, "{engine}");
        }
    }
}

#[test]
fn a_path_keeps_its_server() {
    let servers = named_servers(3, &ScriptGate::default());
    let config =
        ProxyConfig { upstream: "balance = \"hash-path\"", worker_count: 2, ..ProxyConfig::default() };
    let mut earlier: Option<BTreeMap<String, String>> = None;
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &with_options(&servers, &["", "", ""]), config);
        let mut of_paths = BTreeMap::new();
        for round in 0..3 {
            let mut client = proxied.connect();
            for number in 0..30 {
                // The query does not count.
                let path = format!("/app/{number}");
                let name = client.ask(get(&format!("{path}?{round}"))).response.text();
                let known = of_paths.entry(path.clone()).or_insert_with(|| name.clone());
                assert_eq!(*known, name, "{engine}, {path}");
            }
        }
        let used: BTreeSet<&String> = of_paths.values().collect();
        assert_eq!(used.len(), 3, "{engine}: {of_paths:?}");
        // All processes agree, those of other engines too.
        let earlier = earlier.get_or_insert_with(|| of_paths.clone());
        assert_eq!(*earlier, of_paths, "{engine}");
    }
}

#[test]
fn few_paths_move_when_a_server_leaves() {
    let servers = named_servers(4, &ScriptGate::default());
    let config = ProxyConfig { upstream: "balance = \"hash-path\"", ..ProxyConfig::default() };
    let of_paths = |options: &[&str]| {
        let proxied = Proxied::start(Engine::default(), &with_options(&servers, options), config);
        let mut client = proxied.connect();
        let names = (0..100).map(|number| client.ask(get(&format!("/app/{number}"))).response.text());
        names.collect::<Vec<_>>()
    };
    let (before, after) = (of_paths(&["", "", "", ""]), of_paths(&["", "", "drain", ""]));
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after && *before != "c").count();
    assert!(after.iter().all(|name| name != "c"), "{after:?}");
    assert_eq!(moved, 0, "only the paths of the server that left move: {before:?}, {after:?}");
}

#[test]
fn a_client_keeps_its_server() {
    let servers = named_servers(3, &ScriptGate::default());
    let config = ProxyConfig { upstream: "balance = \"hash-client\"", ..ProxyConfig::default() };
    for &engine in ENGINES {
        let proxied = Proxied::start(engine, &with_options(&servers, &["", "", ""]), config);
        let mut used = BTreeSet::new();
        for number in 2..32 {
            let from = format!("127.0.0.{number}");
            let mut of_client = BTreeSet::new();
            for _ in 0..2 {
                of_client.extend(counts(&mut connect_from(&from, proxied.address()), 2).into_keys());
            }
            assert_eq!(of_client.len(), 1, "{engine}, {from}: {of_client:?}");
            used.extend(of_client);
        }
        assert_eq!(used.len(), 3, "{engine}");
    }
}

/// Connects from this address of the host.
fn connect_from(from: &str, to: SocketAddr) -> ProxyClient {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&stream, &SocketAddr::new(from.parse().expect("an address"), 0)).expect("an address of this host");
    connect(&stream, &to).expect("a listener");
    let stream = TcpStream::from(stream);
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    ProxyClient::new(stream)
}

#[test]
fn request_goes_to_another_server_if_one_does_not_listen() {
    let (servers, closed) = (named_servers(2, &ScriptGate::default()), ReservedPort::new());
    for &engine in ENGINES {
        let urls =
            [format!("http://{}", closed.address), servers[0].url(), format!("{} backup", servers[1].url())];
        let proxied = Proxied::start(engine, &urls, ProxyConfig::default());
        let mut client = ProxyClient::new(connected(proxied.address()));
        assert_eq!(counts(&mut client, 6), map([("a", 6)]), "{engine}");
        // Nothing was sent yet: a POST moves too.
        for _ in 0..3 {
            let answered = client.ask(super::proxied::post("/app/", "hello"));
            assert_eq!((answered.response.status(), &*answered.response.text()), (200, "a"), "{engine}");
        }
    }
}
