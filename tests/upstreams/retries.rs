//! Requests that are repeated on another connection: where that is safe, and nowhere else.

use super::{
    proxied::{get, on_every_engine, post, request},
    scripted::{AfterResponse, ScriptedServer, ok},
    wire::WireError,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

/// A case, a request, what the server sends before it closes the used connection, and whether the request is repeated.
type RetryCase = (&'static str, Vec<u8>, &'static [u8], bool);

#[test]
fn only_safe_requests_are_repeated() {
    #[rustfmt::skip]
    let cases: &[RetryCase] = &[
        ("GET",                   get("/app/").into(),                                                                  b"",                                  true),
        ("HEAD",                  request("HEAD", "/app/", "").into(),                                                  b"",                                  true),
        ("DELETE",                request("DELETE", "/app/", "").into(),                                                b"",                                  true),
        ("POST",                  post("/app/", "hello"),                                                               b"",                                  false),
        ("POST without content",  request("POST", "/app/", "Content-Length: 0\r\n").into(),                             b"",                                  false),
        ("PATCH",                 request("PATCH", "/app/", "Content-Length: 5\r\n").into_bytes().into_iter().chain(*b"hello").collect(), b"",                false),
        ("unknown method",        request("SPEND", "/app/", "").into(),                                                 b"",                                  false),
        ("first byte",            get("/app/").into(),                                                                  b"H",                                 false),
        ("part of the head",      get("/app/").into(),                                                                  b"HTTP/1.1 200 OK\r\nContent-Le",     false),
        ("interim response",      get("/app/").into(),                                                                  b"HTTP/1.1 103 Early Hints\r\n\r\n",  false),
        ("part of the content",   get("/app/").into(),                                                                  b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", false),
    ];
    for (case, sent, before_close, is_repeated) in cases {
        // The server breaks the next used connection.
        let breaks = Arc::new(AtomicBool::new(false));
        let (armed, part) = (Arc::clone(&breaks), *before_close);
        let server = ScriptedServer::responding(move |request| {
            if request.target() == "/app/first" {
                armed.store(true, SeqCst);
            } else if armed.swap(false, SeqCst) {
                return (part.to_vec(), AfterResponse::Close);
            }
            let content = if request.method() == "HEAD" { "" } else { "good" };
            (ok(content), AfterResponse::Keep)
        });
        on_every_engine(&server, |proxied, engine| {
            let mut client = proxied.connect();
            assert_eq!(client.ask(get("/app/first")).response.text(), "good", "{engine}, {case}");
            let first = server.next().connection;
            client.send(sent);
            let method = str::from_utf8(sent.split(|byte| *byte == b' ').next().unwrap()).unwrap();
            let answered = client.try_answered(method);
            let second = server.next();
            assert_eq!(second.connection, first, "{engine}, {case}: the connection is used again");
            if *is_repeated {
                let third = server.next();
                assert_ne!(third.connection, first, "{engine}, {case}");
                assert_eq!(third.message, second.message, "{engine}, {case}");
                assert_eq!(answered.expect("a response").response.status(), 200, "{engine}, {case}");
            } else {
                match answered {
                    Ok(answered) => assert_eq!(answered.response.status(), 502, "{engine}, {case}"),
                    Err(WireError::Cut(_)) if case.contains("content") => {}
                    Err(error) => panic!("{engine}, {case}: {error:?}"),
                }
                // No request comes late.
                assert_eq!(proxied.get("/app/last").text(), "good", "{engine}, {case}");
                assert_eq!(server.next().message.target(), "/app/last", "{engine}, {case}");
            }
        });
    }
}

#[test]
fn new_connection_that_closes_is_no_reason_to_repeat_for_ever() {
    let server = ScriptedServer::responding(|_| (Vec::new(), AfterResponse::Close));
    on_every_engine(&server, |proxied, engine| {
        let before = server.requests().len();
        assert_eq!(proxied.get("/app/").status(), 502, "{engine}");
        let count = server.requests().len() - before;
        // At first, and the default of `retries`.
        assert!((1..=3).contains(&count), "{engine}: {count}");
        let before = server.requests().len();
        assert_eq!(proxied.ask(post("/app/", "hello")).response.status(), 502, "{engine}");
        assert_eq!(server.requests().len() - before, 1, "{engine}");
    });
}
