//! What a server gets of a request: its target, its method, its host and its fields.

use super::{
    proxied::{Proxied, ProxyConfig, get, on_every_engine, request},
    scripted::{AfterResponse, ScriptedServer, ok},
};
use tarpon::Engine;

#[test]
fn targets_are_forwarded_as_they_were_understood() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str)] = &[
        // case                       target of the client         target that the server gets
        ("path",                      "/app/a",                    "/app/a"),
        ("prefix",                    "/app/",                     "/app/"),
        ("query",                     "/app/a?b=c&d=%20;e",        "/app/a?b=c&d=%20;e"),
        ("query with a path",         "/app/a?/../x//y",           "/app/a?/../x//y"),
        ("escapes",                   "/app/%C3%A9%20b%3Fc",       "/app/%C3%A9%20b%3Fc"),
        ("escaped percent sign",      "/app/%252e%252e/a",         "/app/%252e%252e/a"),
        ("marks",                     "/app/a;b=c,d/(e)!$&'*+:@~", "/app/a;b=c,d/(e)!$&'*+:@~"),
        ("dot segment",               "/app/./a/./b",              "/app/a/b"),
        ("two dots",                  "/app/a/../b",               "/app/b"),
        ("two dots at the end",       "/app/a/b/..",               "/app/a/"),
        ("escaped dots",              "/app/a/%2e%2E/b",           "/app/b"),
        ("into the prefix",           "/other/../app/a",           "/app/a"),
        ("absolute form",             "http://a.example/app/a?b",  "/app/a?b"),
    ];
    let server = ScriptedServer::naming_targets();
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        for (case, sent, want) in cases {
            let response = client.ask(get(sent)).response;
            assert_eq!((response.status(), &*response.text()), (200, *want), "{engine}, {case}");
            let seen = server.next().message;
            assert_eq!(seen.start, format!("GET {want} HTTP/1.1"), "{engine}, {case}");
        }
        // Out of the prefix: the path of a file.
        assert_eq!(client.ask(get("/app/../index.html")).response.text(), "home", "{engine}");
        assert_eq!(client.ask(get("/application")).response.status(), 404, "{engine}");
    });
}

#[test]
fn methods_are_forwarded() {
    let server = ScriptedServer::responding(|request| match request.method() {
        "HEAD" => (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n".to_vec(), AfterResponse::Keep),
        method => (ok(method), AfterResponse::Keep),
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "M-SEARCH"] {
            let response = client.ask(request(method, "/app/", "Content-Length: 0\r\n")).response;
            let want = if method == "HEAD" { "" } else { method };
            assert_eq!((response.status(), &*response.text()), (200, want), "{engine}, {method}");
            assert_eq!(server.next().message.start, format!("{method} /app/ HTTP/1.1"), "{engine}");
        }
    });
}

#[test]
fn prefixes_are_replaced() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str, &str)] = &[
        // case           option                   target of the client  target that the server gets
        ("kept",          "/app/=SERVER",          "/app/a?b",           "/app/a?b"),
        ("replaced",      "/app/=SERVER/v1/",      "/app/a?b",           "/v1/a?b"),
        ("removed",       "/app/=SERVER/",         "/app/a%20b",         "/a%20b"),
        ("only a prefix", "/app/=SERVER/",         "/app/",              "/"),
        ("dots",          "/app/=SERVER/v1/",      "/app/a/../b",        "/v1/b"),
        ("all paths",     "/=SERVER",              "/index.html",        "/index.html"),
        ("suffix",        "*.php=SERVER",          "/a/b.php?c",         "/a/b.php?c"),
        ("suffix within", "*.php=SERVER",          "/a.php/b",           "/a.php/b"),
        ("of a name",     "/app/=up/v2",           "/app/a",             "/v2/a"),
    ];
    let server = ScriptedServer::naming_targets();
    for (case, option, sent, want) in cases {
        let option = format!("{:?}", option.replace("SERVER", &server.url()));
        let config = ProxyConfig { proxy: &option, ..ProxyConfig::default() };
        let proxied = Proxied::start(Engine::default(), &[server.url()], config);
        let response = proxied.get(sent);
        assert_eq!((response.status(), &*response.text()), (200, *want), "{case}");
    }
}

#[test]
fn host_follows_the_policy() {
    let server = ScriptedServer::naming_targets();
    let address = server.address().to_string();
    #[rustfmt::skip]
    let cases: &[(&str, &str, &str)] = &[
        // policy                     request                                                    host that the server gets
        ("",                          "GET /app/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n",                   "a.example:81"),
        ("host = \"client\"",         "GET http://b.example/app/ HTTP/1.1\r\nHost: a.example\r\n\r\n",      "b.example"),
        ("host = \"upstream\"",       "GET /app/ HTTP/1.1\r\nHost: a.example\r\n\r\n",                      &address),
        ("host = \"other.example\"",  "GET /app/ HTTP/1.1\r\nHost: a.example\r\n\r\n",                      "other.example"),
    ];
    for (policy, sent, want) in cases {
        let config = ProxyConfig { upstream: policy, ..ProxyConfig::default() };
        let proxied = Proxied::start(Engine::default(), &[server.url()], config);
        assert_eq!(proxied.ask(sent).response.status(), 200, "{policy}");
        assert_eq!(server.next().message.field("Host"), Some(*want), "{policy}");
    }
}

#[test]
fn fields_of_a_connection_are_not_forwarded() {
    let server = ScriptedServer::responding(|_| {
        let fields = "Connection: X-Named, keep-alive\r\nX-Named: secret\r\nKeep-Alive: timeout=secret\r\nProxy-Connection: secret\r\n\
                      Proxy-Authenticate: Basic\r\nUpgrade: secret\r\nSet-Cookie: a=1\r\nX-Kept: yes\r\nSet-Cookie: b=2\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        (
            format!("HTTP/1.1 200 Fine\r\n{fields}Content-Length: 2\r\n\r\nok").into_bytes(),
            AfterResponse::Keep,
        )
    });
    let fields = "Connection: X-Named, close\r\nX-Named: secret\r\nConnection: ,x-second ,\r\nX-Second: secret\r\nKeep-Alive: timeout=secret\r\n\
                  Proxy-Connection: secret\r\nTE: secret\r\nUpgrade: secret\r\nAccept: text/x\r\nCookie: a=1\r\nX-Kept: 1\r\nAuthorization: Basic eA==\r\n\
                  X-Kept: 2\r\nX-Empty:\r\nX-Text: \ta \"b\", c \t\r\nX-High: \u{e9}\r\n";
    on_every_engine(&server, |proxied, engine| {
        let response = proxied.ask(request("GET", "/app/", fields)).response;
        let seen = server.next().message;
        assert!(!seen.contains("secret") && !seen.contains("X-Named"), "{engine}: {seen}");
        for (name, values) in [
            ("Accept", &["text/x"][..]),
            ("Cookie", &["a=1"]),
            ("Authorization", &["Basic eA=="]),
            ("X-Kept", &["1", "2"]),
            ("X-Empty", &[""]),
            ("X-Text", &["a \"b\", c"]),
            ("X-High", &["\u{c3}\u{a9}"]),
        ] {
            assert_eq!(seen.all(name), values, "{engine}: {seen}");
        }
        assert_eq!((response.status(), &*response.text()), (200, "ok"), "{engine}");
        assert!(!response.contains("secret") && !response.contains("X-Named"), "{engine}: {response}");
        assert_eq!(response.all("Set-Cookie"), ["a=1", "b=2"], "{engine}: {response}");
        assert_eq!(response.field("X-Kept"), Some("yes"), "{engine}: {response}");
        assert_eq!(response.field("Date"), Some("Thu, 01 Jan 1970 00:00:00 GMT"), "{engine}: {response}");
        assert_eq!(response.field("Connection"), Some("close"), "{engine}: {response}");
    });
}
