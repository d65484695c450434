//! Tunnels: a request with Upgrade that a server accepts or refuses.

use super::{
    proxied::{ProxyClient, get, on_every_engine, request},
    scripted::{ScriptGate, ScriptedServer, ok},
};
use crate::common::distinct_bytes;
use std::thread;

const FIELDS: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Asks for a tunnel.
fn ask_for(client: &mut ProxyClient, target: &str) {
    assert!(client.send(request("GET", target, FIELDS)));
}

/// Reads the head that opens a tunnel.
#[track_caller]
fn assert_opened(client: &mut ProxyClient, case: &str) {
    let head = client.response_head();
    assert_eq!((head.status(), head.field("Upgrade")), (101, Some("websocket")), "{case}: {head}");
    assert!(
        head.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade")),
        "{case}: {head}"
    );
    assert_eq!(head.field("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{case}: {head}");
    assert_eq!(
        (head.field("Content-Length"), head.field("Transfer-Encoding")),
        (None, None),
        "{case}: {head}"
    );
}

#[test]
fn bytes_pass_both_ways() {
    let server = ScriptedServer::start(|connection| {
        while let Some(head) = connection.head() {
            if head.target() == "/app/plain" {
                connection.send(ok("plain"));
                continue;
            }
            // Bytes of the tunnel come in one piece with the head.
            connection.send([ACCEPTED, "first"].concat());
            while let Some(part) = connection.some() {
                connection.send(part);
            }
            return;
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        assert_eq!(client.ask(get("/app/plain")).response.text(), "plain", "{engine}");
        server.next();
        ask_for(&mut client, "/app/tunnel");
        assert_opened(&mut client, engine.name());
        assert_eq!(client.raw(5), b"first", "{engine}");
        let seen = server.next();
        let fields = ["Connection", "Upgrade", "Sec-WebSocket-Key"].map(|name| seen.message.field(name));
        let [Some(connection), upgrade, key] = fields else { panic!("{engine}: {}", seen.message) };
        assert!(connection.eq_ignore_ascii_case("upgrade"), "{engine}: {}", seen.message);
        assert_eq!((upgrade, key), (Some("websocket"), Some("dGhlIHNhbXBsZSBub25jZQ==")), "{engine}");
        // tarpon parses no message of HTTP in a tunnel.
        for part in [&b"\0\xff\r\n"[..], b"GET ", b"\r\n\r\n"] {
            client.send(part);
            assert_eq!(client.raw(part.len()), part, "{engine}");
        }
        // More than all buffers hold, in both directions at once.
        let content = distinct_bytes(4 << 20);
        let mut sender = ProxyClient::new(client.stream());
        thread::scope(|scope| {
            scope.spawn(|| assert!(sender.send(&content)));
            assert!(client.raw(content.len()) == content, "{engine}");
        });
        drop((client, sender));
        server.wait_for_end(seen.connection);
    });
}

#[test]
fn each_side_ends_a_tunnel() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        let Some(head) = connection.head() else { return };
        connection.send(ACCEPTED);
        match head.target() {
            // The client says first that it sends nothing more.
            "/app/client" => {
                let got = connection.wait_for_end();
                connection.send([b"got ", &got[..]].concat());
            }
            // The server does: that ends the tunnel.
            "/app/server" => {
                connection.send("last");
                connection.shutdown_write();
                connection.wait_for_end();
            }
            "/app/reset" => {
                passed.pass();
                connection.reset();
            }
            target => panic!("{target}"),
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        ask_for(&mut client, "/app/client");
        assert_opened(&mut client, engine.name());
        client.send("hello");
        client.shutdown_write();
        assert_eq!(client.rest(), b"got hello", "{engine}");

        let mut client = proxied.connect();
        ask_for(&mut client, "/app/server");
        assert_opened(&mut client, engine.name());
        assert_eq!(client.rest(), b"last", "{engine}");
        server.next();
        server.wait_for_end(server.next().connection);

        let mut client = proxied.connect();
        ask_for(&mut client, "/app/reset");
        assert_opened(&mut client, engine.name());
        gate.open();
        assert_eq!(client.rest(), b"", "{engine}");
        server.next();
    });
}

#[test]
fn client_that_leaves_ends_its_tunnel() {
    let server = ScriptedServer::start(|connection| {
        while connection.head().is_some() {
            connection.send(ACCEPTED);
            connection.wait_for_end();
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        ask_for(&mut client, "/app/");
        assert_opened(&mut client, engine.name());
        let connection = server.next().connection;
        assert!(!server.has_ended(connection), "{engine}");
        drop(client);
        server.wait_for_end(connection);
    });
}

#[test]
fn refused_tunnels_are_responses() {
    let server = ScriptedServer::start(|connection| {
        while let Some(request) = connection.request() {
            let text = match request.target() {
                "/app/400" => "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno",
                "/app/426" => {
                    "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: other\r\nContent-Length: 2\r\n\r\nno"
                }
                // Upgrade is ignored.
                "/app/200" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext",
            };
            connection.send(text);
        }
    });
    on_every_engine(&server, |proxied, engine| {
        for status in [400, 426, 200] {
            let mut client = proxied.connect();
            ask_for(&mut client, &format!("/app/{status}"));
            let response = client.answered("GET").response;
            assert_eq!((response.status(), &*response.text()), (status, "no"), "{engine}: {response}");
            // The connection goes on with HTTP.
            assert_eq!(client.ask(get("/app/next")).response.text(), "next", "{engine}, {status}");
        }
    });
}

#[test]
fn invalid_switches_are_bad_gateways() {
    let server = ScriptedServer::start(|connection| {
        while let Some(request) = connection.request() {
            let fields = match request.target() {
                "/app/other" => "Connection: Upgrade\r\nUpgrade: other\r\n",
                "/app/none" => "",
                "/app/unnamed" => "Connection: Upgrade\r\n",
                _ => {
                    connection.send(ok("good"));
                    continue;
                }
            };
            connection.send(format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\nsecret"));
            connection.wait_for_end();
            return;
        }
    });
    on_every_engine(&server, |proxied, engine| {
        for target in ["/app/other", "/app/none", "/app/unnamed"] {
            let mut client = proxied.connect();
            ask_for(&mut client, target);
            let response = client.answered("GET").response;
            assert_eq!(response.status(), 502, "{engine}, {target}: {response}");
            assert!(!response.contains("secret"), "{engine}, {target}: {response}");
        }
        assert_eq!(proxied.get("/app/good").text(), "good", "{engine}");
    });
}
