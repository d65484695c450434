//! Connections to servers that carry one request after the other.

use super::{
    proxied::{Proxied, ProxyConfig, get, on_engines, post},
    scripted::{AfterResponse, ScriptedServer, ok},
};
use crate::common::{
    kernel::{client_count, connection_count},
    wait_for,
};
use tarpon::Engine;

/// The numbers of the connections that requests use, one after the other, from 0 on.
fn connections(server: &ScriptedServer, proxied: &Proxied, targets: &[&str]) -> Vec<usize> {
    // One client has one worker.
    let mut client = proxied.connect();
    let mut used = Vec::new();
    for target in targets {
        let answered =
            if *target == "/app/post" { client.ask(post(target, "hello")) } else { client.ask(get(target)) };
        assert!(answered.response.status() < 300, "{target}: {answered:?}");
        used.push(server.next().connection);
    }
    let first = used[0];
    used.iter().map(|number| number - first).collect()
}

#[test]
fn connections_are_used_again() {
    let server = ScriptedServer::responding(|request| match request.target() {
        "/app/close" => (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
            AfterResponse::Hold,
        ),
        "/app/CLOSE" => (
            b"HTTP/1.1 200 OK\r\nConnection: x, CLOSE\r\nContent-Length: 0\r\n\r\n".to_vec(),
            AfterResponse::Hold,
        ),
        "/app/old" => (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(), AfterResponse::Hold),
        "/app/end" => (b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec(), AfterResponse::Close),
        "/app/chunks" => {
            let head =
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n";
            (head.to_vec(), AfterResponse::Keep)
        }
        "/app/204" => (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), AfterResponse::Keep),
        target => (ok(target), AfterResponse::Keep),
    });
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &[usize])] = &[
        // options             targets                                                   connections
        ("",                   &["/app/a", "/app/b", "/app/post", "/app/chunks", "/app/204", "/app/c"], &[0, 0, 0, 0, 0, 0]),
        ("",                   &["/app/close", "/app/CLOSE", "/app/old", "/app/end", "/app/a"],        &[0, 1, 2, 3, 4]),
        ("pool-requests = 2",  &["/app/a", "/app/b", "/app/c", "/app/d", "/app/e"],      &[0, 0, 1, 1, 2]),
        ("pool-requests = 1",  &["/app/a", "/app/b", "/app/c"],                          &[0, 1, 2]),
        ("pool-size = 0",      &["/app/a", "/app/b", "/app/c"],                          &[0, 1, 2]),
    ];
    for (options, targets, want) in cases {
        on_engines(
            &server,
            ProxyConfig { upstream: options, ..ProxyConfig::default() },
            |proxied, engine| {
                assert_eq!(connections(&server, proxied, targets), *want, "{engine}, {options}, {targets:?}");
            },
        );
    }
}

#[test]
fn connection_that_its_server_has_closed_is_not_used_again() {
    let server = ScriptedServer::responding(|request| (ok(request.target()), AfterResponse::Close));
    // Without repetition.
    let config = ProxyConfig { upstream: "retries = 0", ..ProxyConfig::default() };
    on_engines(&server, config, |proxied, engine| {
        let mut client = proxied.connect();
        for number in 0..5 {
            let target = format!("/app/{number}");
            let response = client.ask(get(&target)).response;
            assert_eq!((response.status(), response.text()), (200, target), "{engine}");
            let port = server.address().port();
            // The proxy has closed it too: no row of the kernel has an owner.
            wait_for("the end of the idle connection", || {
                (connection_count(port) == 0 && client_count(port) == 0).then_some(())
            });
        }
    });
}

#[test]
fn pool_is_bounded_over_all_workers() {
    const CLIENTS: usize = 12;
    let server = ScriptedServer::naming_targets();
    let config = ProxyConfig { worker_count: 3, upstream: "pool-size = 2", ..ProxyConfig::default() };
    on_engines(&server, config, |proxied, engine| {
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| proxied.connect()).collect();
        for _ in 0..3 {
            clients.iter_mut().for_each(|client| assert!(client.send(get("/app/"))));
            for client in &mut clients {
                assert_eq!(client.answered("GET").response.text(), "/app/", "{engine}");
            }
        }
        let port = server.address().port();
        let what = "idle connections above the size of the pool are closed";
        wait_for(what, || (client_count(port) <= 2).then_some(()));
    });
}

#[test]
fn sites_share_connections_to_the_same_server() {
    let server = ScriptedServer::naming_targets();
    let option = format!("\"/app/={0}\", \"/other/={0}\"", server.url());
    let config = ProxyConfig { proxy: &option, ..ProxyConfig::default() };
    let proxied = Proxied::start(Engine::default(), &[server.url()], config);
    assert_eq!(connections(&server, &proxied, &["/app/a", "/other/b", "/app/c"]), [0, 0, 0]);
}
