//! What a server learns of the client: Forwarded, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and Via. A client forges none.

use super::{
    proxied::{ProxyConfig, on_engines, on_every_engine, request},
    scripted::ScriptedServer,
    wire::StrictMessage,
};
use crate::common::{client::TestClient, endpoint::TestTls};

/// Values that clients forge. A server must find them nowhere in a request.
const FORGED: &[&str] = &["198.51.100.9", "forged.example", "gopher"];

#[test]
fn clients_forge_nothing() {
    #[rustfmt::skip]
    let cases: &[(&str, &str)] = &[
        // case                  fields of the client
        ("none",                 ""),
        ("Forwarded",            "Forwarded: for=198.51.100.9;proto=gopher;host=forged.example\r\n"),
        ("several",              "Forwarded: for=198.51.100.9\r\nForwarded: for=198.51.100.9, for=198.51.100.9\r\n"),
        ("open quote",           "Forwarded: for=\"198.51.100.9\r\n"),
        ("X-Forwarded-For",      "X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 198.51.100.9, 198.51.100.9\r\n"),
        ("X-Forwarded-Proto",    "X-Forwarded-Proto: gopher\r\n"),
        ("X-Forwarded-Host",     "X-Forwarded-Host: forged.example\r\n"),
        ("X-Forwarded-Port",     "X-Forwarded-Port: 198.51.100.9\r\n"),
        ("X-Forwarded-Server",   "X-Forwarded-Server: forged.example\r\n"),
        ("X-Real-IP",            "X-Real-IP: 198.51.100.9\r\n"),
        ("case",                 "x-forwarded-FOR: 198.51.100.9\r\nFORWARDED: for=198.51.100.9\r\n"),
        // A CGI variable or WSGI key has the same name for both spellings: RFC 3875, section 4.1.18.
        ("underscores",          "X_Forwarded_For: 198.51.100.9\r\nX_Forwarded_Proto: gopher\r\nX_Forwarded_Host: forged.example\r\nX_Real_IP: 198.51.100.9\r\n"),
        ("some underscores",     "X-Forwarded_For: 198.51.100.9\r\nx_forwarded-proto: gopher\r\nX_Forwarded-Host: forged.example\r\n"),
        ("named by Connection",  "Connection: X-Forwarded-For, Forwarded, X-Forwarded-Proto, Via\r\nX-Forwarded-For: 198.51.100.9\r\n"),
    ];
    let server = ScriptedServer::naming_targets();
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        for (case, fields) in cases {
            assert_eq!(
                client.ask(request("GET", "/app/", fields)).response.status(),
                200,
                "{engine}, {case}"
            );
            let seen = server.next().message;
            for forged in FORGED {
                assert!(!seen.contains(forged), "{engine}, {case}: {seen}");
            }
            assert_provenance(&seen, "127.0.0.1", "http", "a.example", &format!("{engine}, {case}"));
        }
    });
}

#[test]
fn trusted_proxies_name_the_client() {
    let server = ScriptedServer::naming_targets();
    let lines = "trusted-proxies = [\"127.0.0.1\"]\nclient-address-from = \"x-forwarded-for\"";
    on_engines(&server, ProxyConfig { server: lines, ..ProxyConfig::default() }, |proxied, engine| {
        let fields = "X-Forwarded-For: 198.51.100.9, 203.0.113.7\r\nX-Forwarded-Proto: https\r\nForwarded: for=198.51.100.8\r\n";
        assert_eq!(proxied.ask(request("GET", "/app/", fields)).response.status(), 200, "{engine}");
        let seen = server.next().message;
        let clients = seen.field("X-Forwarded-For").expect("the client");
        assert!(clients.contains("203.0.113.7"), "{engine}: {seen}");
        assert_eq!(seen.field("X-Forwarded-Proto"), Some("https"), "{engine}: {seen}");
        assert!(seen.contains("203.0.113.7") && !seen.contains("198.51.100.8"), "{engine}: {seen}");
    });
}

#[test]
fn via_names_each_proxy() {
    let server = ScriptedServer::naming_targets();
    on_every_engine(&server, |proxied, engine| {
        for (sent, want) in [
            (request("GET", "/app/", ""), "1.1 "),
            (
                request("GET", "/app/", "Via: 1.0 fred, 1.1 p.example (x)\r\n"),
                "1.0 fred, 1.1 p.example (x), 1.1 ",
            ),
            ("GET /app/ HTTP/1.0\r\nHost: a.example\r\n\r\n".to_owned(), "1.0 "),
        ] {
            assert_eq!(proxied.ask(sent).response.status(), 200, "{engine}");
            let seen = server.next().message;
            let via = seen.all("Via").join(", ");
            assert!(via.starts_with(want) && via.len() > want.len(), "{engine}: {seen}");
        }
    });
}

#[test]
fn servers_learn_that_the_client_speaks_tls() {
    let (server, tls) = (ScriptedServer::naming_targets(), TestTls::new());
    let [certificate, key] = tls.files();
    let lines = format!(
        "tls-cert = [{certificate:?}]\ntls-key = [{key:?}]\n[[listener]]\naddress = \"tls:127.0.0.2:0\""
    );
    on_engines(&server, ProxyConfig { server: &lines, ..ProxyConfig::default() }, |proxied, engine| {
        for endpoint in
            tls.endpoints(&proxied.program().addresses()).iter().filter(|endpoint| endpoint.has_tls())
        {
            let mut client: TestClient = endpoint.connect();
            client.send(request("GET", "/app/", "X-Forwarded-Proto: http\r\n"));
            assert_eq!(client.response().status, 200, "{engine}, {endpoint}");
            let case = format!("{engine}, {endpoint}");
            assert_provenance(&server.next().message, "127.0.0.1", "https", "a.example", &case);
        }
    });
}

/// Checks the fields that name the client.
#[track_caller]
fn assert_provenance(seen: &StrictMessage, client: &str, scheme: &str, host: &str, case: &str) {
    let found = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"].map(|name| seen.field(name));
    assert_eq!(found, [Some(client), Some(scheme), Some(host)], "{case}: {seen}");
    let forwarded = seen.field("Forwarded").unwrap_or_else(|| panic!("{case}: {seen}"));
    let mut parts: Vec<String> = forwarded.split(';').map(|part| part.trim().replace('"', "")).collect();
    parts.retain(|part| !part.starts_with("by="));
    parts.sort_unstable();
    let want = [format!("for={client}"), format!("host={host}"), format!("proto={scheme}")];
    assert_eq!(parts, want, "{case}: {seen}");
}
