//! Exchanges that end too early: a server that cuts a response, and a client that leaves.

use super::{
    proxied::{get, on_every_engine, request},
    scripted::{AfterResponse, ScriptGate, ScriptedServer, ok},
    wire::WireError,
};
use crate::common::distinct_bytes;

/// More than all buffers between a server and a client hold, but not much more.
const LONG: usize = 1 << 20;

#[test]
fn cut_responses_never_look_complete() {
    let server = ScriptedServer::responding(|request| {
        let parts: Vec<&str> = request.target().split('/').collect();
        let [_, _, framing, len, end] = parts[..] else { return (ok("good"), AfterResponse::Keep) };
        let content = distinct_bytes(len.parse().expect("a number"));
        let mut bytes = match framing {
            "length" => {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len() + 1).into_bytes()
            }
            _ => format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", content.len() + 1)
                .into_bytes(),
        };
        bytes.extend_from_slice(&content);
        (bytes, if end == "close" { AfterResponse::Close } else { AfterResponse::Reset })
    });
    on_every_engine(&server, |proxied, engine| {
        for framing in ["length", "chunked"] {
            for len in [0, 5, LONG] {
                for end in ["close", "reset"] {
                    let target = format!("/app/{framing}/{len}/{end}");
                    let mut client = proxied.connect();
                    client.send(get(&target));
                    match client.try_answered("GET") {
                        Err(WireError::Cut(_)) => {}
                        Ok(answered) if answered.response.status() == 502 => {}
                        other => panic!("{engine}, {target}: {other:?}"),
                    }
                    // A cut response is not asked for again.
                    server.next();
                    assert_eq!(proxied.get("/app/").text(), "good", "{engine}, {target}");
                    assert_eq!(server.next().message.target(), "/app/", "{engine}, {target}");
                }
            }
        }
    });
}

#[test]
fn exchange_ends_when_the_client_leaves() {
    let server = ScriptedServer::start(|connection| {
        let Some(head) = connection.head() else { return };
        let part = match head.target() {
            "/app/waits" | "/app/uploads" => b"".as_slice(),
            "/app/begun" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
            "/app/chunks" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "/app/unlimited" => b"HTTP/1.1 200 OK\r\n\r\nhello",
            target => panic!("{target}"),
        };
        connection.send(part);
        connection.wait_for_end();
    });
    on_every_engine(&server, |proxied, engine| {
        for (method, target, fields) in [
            ("GET", "/app/waits", ""),
            ("POST", "/app/uploads", "Content-Length: 100000\r\n"),
            ("POST", "/app/uploads", "Transfer-Encoding: chunked\r\n"),
            ("GET", "/app/begun", ""),
            ("GET", "/app/chunks", ""),
            ("GET", "/app/unlimited", ""),
        ] {
            let mut client = proxied.connect();
            client.send(request(method, target, fields));
            if method == "POST" {
                client.send("5\r\nhello\r\n");
            }
            let connection = server.next().connection;
            if !matches!(target, "/app/waits" | "/app/uploads") {
                assert_eq!(client.response_head().status(), 200, "{engine}, {target}");
            }
            assert!(!server.has_ended(connection), "{engine}, {target}");
            drop(client);
            server.wait_for_end(connection);
        }
    });
}

#[test]
fn request_that_a_client_cuts_is_never_complete() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        while let Some(mut head) = connection.head() {
            passed.pass();
            if !connection.content(&mut head) {
                return;
            }
            connection.send(ok(format!("whole: {}", head.target())));
        }
    });
    on_every_engine(&server, |proxied, engine| {
        for (fields, content) in [
            ("Content-Length: 10\r\n", "hello"),
            ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"),
            ("Transfer-Encoding: chunked\r\n", "9\r\nhello"),
            ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n"),
        ] {
            let mut client = proxied.connect();
            client.send(request("POST", "/app/", fields) + content);
            let connection = server.next().connection;
            client.shutdown_write();
            gate.open();
            server.wait_for_end(connection);
            let rest = client.rest();
            let whole = rest.windows(5).any(|window| window == b"whole");
            assert!(!whole, "{engine}, {content}: {}", rest.escape_ascii());
        }
    });
}
