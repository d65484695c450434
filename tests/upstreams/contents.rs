//! Content and trailers, in both directions, with each framing; Expect.

use super::{
    proxied::{Proxied, ProxyClient, get, on_every_engine, post, request},
    scripted::{AfterResponse, ScriptGate, ScriptedServer, ok},
    wire::StrictMessage,
};
use crate::common::distinct_bytes;

/// Lengths around those of buffers.
const LENGTHS: &[usize] = &[0, 1, 16_383, 16_384, 16_385, 700_000];

#[test]
fn content_of_requests_is_forwarded() {
    let server = ScriptedServer::responding(|request| (ok(&request.content), AfterResponse::Keep));
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        for &len in LENGTHS {
            let content = distinct_bytes(len);
            for chunk_len in [0, 1_000, 65_536] {
                let case = format!("{engine}, {len} bytes in chunks of {chunk_len}");
                let sent = if chunk_len == 0 {
                    post("/app/", &content)
                } else {
                    chunked_post(&content, chunk_len, "")
                };
                let response = answered_while_sending(&mut client, sent);
                assert!(response.status() == 200 && response.content == content, "{case}");
                let seen = server.next().message;
                assert!(seen.content == content, "{case}");
                let (length, coding) = (seen.field("Content-Length"), seen.field("Transfer-Encoding"));
                match chunk_len {
                    0 => assert_eq!((length, coding), (Some(&*len.to_string()), None), "{case}"),
                    // A proxy that has all chunks knows the length.
                    _ if coding.is_none() => assert_eq!(length, Some(&*len.to_string()), "{case}"),
                    _ => assert_eq!((length, coding), (None, Some("chunked")), "{case}"),
                }
            }
        }
    });
}

#[test]
fn trailers_of_requests_are_forwarded_and_change_no_head() {
    let server = ScriptedServer::responding(|request| (ok(&request.content), AfterResponse::Keep));
    on_every_engine(&server, |proxied, engine| {
        let sent = chunked_post(b"hello", 3, "X-Sum: 5\r\nX-Other: a, b\r\n");
        assert_eq!(proxied.ask(sent).response.text(), "hello", "{engine}");
        let seen = server.next().message;
        let trailers =
            |name: &str| seen.trailers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name)).count();
        assert_eq!((trailers("X-Sum"), trailers("X-Other")), (1, 1), "{engine}: {seen}");
        // Fields for framing, routing and the connection are no trailers: RFC 9110, section 6.5.1.
        for field in [
            "Content-Length: 3",
            "Transfer-Encoding: chunked",
            "Host: b.example",
            "Connection: x",
            "X-Forwarded-For: 198.51.100.9",
        ] {
            let before = server.requests().len();
            let response = proxied.ask(chunked_post(b"hello", 5, &format!("{field}\r\n"))).response;
            if server.requests().len() == before {
                assert!(response.status() >= 400, "{engine}, {field}: {response}");
                continue;
            }
            let seen = server.next().message;
            assert!(seen.trailers.is_empty() && seen.content == b"hello", "{engine}, {field}: {seen}");
        }
    });
}

#[test]
fn content_of_responses_is_passed_on() {
    let server = ScriptedServer::responding(respond);
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        for kind in ["length", "chunked", "close", "http10"] {
            for &len in LENGTHS {
                let (content, case) = (distinct_bytes(len), format!("{engine}, {kind}, {len} bytes"));
                let target = format!("/app/{kind}/{len}");
                let response = client.ask(get(&target)).response;
                assert!(response.status() == 200 && response.content == content, "{case}");
                if kind == "length" {
                    assert_eq!(response.field("Content-Length"), Some(&*len.to_string()), "{case}");
                }
                let response = client.ask(request("HEAD", &target, "")).response;
                assert!(response.status() == 200 && response.content.is_empty(), "{case}, HEAD");
                // A client of HTTP/1.0 knows no chunks.
                let response =
                    proxied.ask(format!("GET {target} HTTP/1.0\r\nHost: a.example\r\n\r\n")).response;
                assert_eq!(response.field("Transfer-Encoding"), None, "{case}, HTTP/1.0");
                assert_eq!((response.status(), response.content.len()), (200, len), "{case}, HTTP/1.0");
                assert!(response.content == content, "{case}, HTTP/1.0");
            }
        }
        for status in [204, 304] {
            let response = client.ask(get(&format!("/app/empty/{status}"))).response;
            assert_eq!((response.status(), response.content.len()), (status, 0), "{engine}");
            assert_eq!(response.field("ETag"), Some("\"a\""), "{engine}: {response}");
        }
        assert_eq!(client.ask(get("/app/length/5")).response.content, distinct_bytes(5), "{engine}");
    });
}

/// Responds as the target says: `/app/KIND/LEN`.
fn respond(request: &StrictMessage) -> (Vec<u8>, AfterResponse) {
    let parts: Vec<&str> = request.target().split('/').collect();
    let len = parts[3].parse().expect("a number");
    let mut content = distinct_bytes(len);
    let (head, then) = match parts[2] {
        "length" => (format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"), AfterResponse::Keep),
        "chunked" => {
            content =
                if request.method() == "HEAD" { content } else { chunks(&content, 1_000, ";a=\"b;\"", "") };
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), AfterResponse::Keep)
        }
        "close" => ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), AfterResponse::Close),
        "http10" => ("HTTP/1.0 200 OK\r\n\r\n".to_owned(), AfterResponse::Close),
        "empty" => {
            let head = format!("HTTP/1.1 {len} X\r\nETag: \"a\"\r\n\r\n");
            return (head.into_bytes(), AfterResponse::Keep);
        }
        other => panic!("{other}"),
    };
    let is_head = request.method() == "HEAD";
    ([head.as_bytes(), if is_head { b"" } else { &content }].concat(), then)
}

#[test]
fn trailers_of_responses_are_passed_on() {
    let server = ScriptedServer::responding(|_| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
        ([&head[..], &chunks(b"hello", 2, "", "X-Sum: 5\r\n")].concat(), AfterResponse::Keep)
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        let fields = "TE: trailers\r\nConnection: TE\r\n";
        let response = client.ask(request("GET", "/app/", fields)).response;
        assert_eq!(response.text(), "hello", "{engine}");
        let trailers: Vec<(String, &str)> = response
            .trailers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
            .collect();
        assert_eq!(trailers, [("x-sum".to_owned(), "5")], "{engine}: {response}");
        // A client that accepts none gets the content.
        assert_eq!(client.ask(get("/app/")).response.text(), "hello", "{engine}");
    });
}

#[test]
fn expectations_are_for_the_server() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        while let Some(mut head) = connection.head() {
            passed.pass();
            if head.target() == "/app/refused" {
                connection.send("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
                connection.wait_for_end();
                return;
            }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n");
            if !connection.content(&mut head) {
                return;
            }
            connection.send(ok(&head.content));
        }
    });
    let expecting = |target: &str| request("POST", target, "Expect: 100-continue\r\nContent-Length: 5\r\n");
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        client.send(expecting("/app/taken"));
        // The server has the head, and nothing more: no content comes unless it asks.
        let seen = server.next().message;
        assert!(
            seen.field("Expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")),
            "{engine}: {seen}"
        );
        gate.open();
        assert_eq!(client.try_response("POST").expect("an interim response").status(), 100, "{engine}");
        client.send("hello");
        assert_eq!(client.answered("POST").response.text(), "hello", "{engine}");

        client.send(expecting("/app/refused"));
        server.next();
        gate.open();
        let answered = client.answered("POST");
        assert_eq!((answered.interim.len(), answered.response.status()), (0, 403), "{engine}");
        assert_eq!(answered.response.text(), "no", "{engine}");
    });
}

#[test]
fn interim_responses_are_passed_on() {
    let server = ScriptedServer::responding(|_| {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n";
        ([hints.as_bytes(), &ok("final")].concat(), AfterResponse::Keep)
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        let answered = client.ask(get("/app/"));
        let links: Vec<_> = answered.interim.iter().filter_map(|response| response.field("Link")).collect();
        assert_eq!(links, ["</a.css>; rel=preload", "</b.css>"], "{engine}: {answered:?}");
        assert_eq!(answered.response.text(), "final", "{engine}");
        let answered = client.ask("GET /app/ HTTP/1.0\r\nHost: a.example\r\n\r\n");
        assert_eq!(
            (answered.interim.len(), &*answered.response.text()),
            (0, "final"),
            "{engine}: {answered:?}"
        );
    });
}

/// Sends a request, and reads the response at the same time: neither side holds all of it.
fn answered_while_sending(client: &mut ProxyClient, sent: Vec<u8>) -> StrictMessage {
    let mut sender = ProxyClient::new(client.stream());
    std::thread::scope(|scope| {
        scope.spawn(move || assert!(sender.send(sent), "the proxy takes all content"));
        client.answered("POST").response
    })
}

/// Returns a POST whose content is in chunks.
fn chunked_post(content: &[u8], chunk_len: usize, trailers: &str) -> Vec<u8> {
    let head = request("POST", "/app/", "Transfer-Encoding: chunked\r\n");
    [head.as_bytes(), &chunks(content, chunk_len, ";x", trailers)].concat()
}

/// Returns content in chunks, the first and the last one with an extension: a server limits the length of all of them.
fn chunks(content: &[u8], chunk_len: usize, extension: &str, trailers: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for (number, chunk) in content.chunks(chunk_len).enumerate() {
        let extension = if number == 0 { extension } else { "" };
        wire.extend(format!("{:X}{extension}\r\n", chunk.len()).into_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend(format!("0{extension}\r\n{trailers}\r\n").into_bytes());
    wire
}

#[test]
fn content_that_is_too_long_is_refused() {
    let server = ScriptedServer::naming_targets();
    let config = super::proxied::ProxyConfig { upstream: "max-body = \"1KiB\"", ..Default::default() };
    super::proxied::on_engines(&server, config, |proxied: &Proxied, engine| {
        let content = distinct_bytes(1_025);
        let before = server.requests().len();
        assert_eq!(proxied.ask(post("/app/", &content)).response.status(), 413, "{engine}");
        assert_eq!(server.requests().len(), before, "{engine}");
        // The length of chunks shows as they arrive: the server may have the head already, but never gets a whole request.
        let response = proxied.ask(chunked_post(&content, 100, "")).response;
        assert_eq!((response.status(), server.requests().len()), (413, before), "{engine}: {response}");
        assert_eq!(proxied.ask(post("/app/", &content[..1_024])).response.status(), 200, "{engine}");
        server.next();
    });
}
