//! Requests that two servers may understand in two ways: `gadgets/README.md`. A server behind tarpon gets what tarpon has understood.

use super::{
    proxied::{Proxied, ProxyConfig, get, on_engines, on_every_engine, request},
    scripted::ScriptedServer,
    wire::StrictMessage,
};
use crate::cases::{bytes, line_bytes};
use std::{fs, path::Path, sync::LazyLock};

/// A file of the directory.
#[derive(Debug, Default)]
struct Gadget {
    name: String,
    /// The bytes of the client.
    wire: Vec<u8>,
    /// Whether the server gets it. `None`: perhaps.
    is_forwarded: Option<bool>,
    content: Option<Vec<u8>>,
    has: Vec<String>,
    lacks: Vec<String>,
}

static GADGETS: LazyLock<Vec<Gadget>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/gadgets");
    let files = fs::read_dir(dir).expect("the gadgets").map(|entry| entry.expect("a gadget").path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "http")).collect();
    files.sort();
    files.iter().map(|path| Gadget::read(path)).collect()
});

#[test]
fn servers_get_what_was_understood() {
    assert!(GADGETS.len() > 100, "{} gadgets", GADGETS.len());
    let server = ScriptedServer::naming_targets();
    // The preface of HTTP/2 is no request.
    let config = ProxyConfig { server: "http2 = \"off\"\n", ..ProxyConfig::default() };
    on_engines(&server, config, |proxied, engine| {
        let failures: String = GADGETS
            .iter()
            .filter_map(|gadget| gadget.failure(proxied, &server))
            .map(|failure| format!("{engine}, {failure}\n"))
            .collect();
        assert!(failures.is_empty(), "\n{failures}");
    });
}

impl Gadget {
    fn read(path: &Path) -> Gadget {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a text");
        let mut gadget = Gadget { name, ..Gadget::default() };
        for line in text.lines() {
            let rest = line.get(2..).unwrap_or_default();
            match line.as_bytes() {
                [b'#', ..] => {}
                [b'>', ..] => gadget.wire.extend(line_bytes(rest, "\r\n")),
                [b'=', ..] => gadget.content = Some(bytes(rest)),
                [b'+', ..] => gadget.has.push(rest.to_owned()),
                [b'!', ..] => gadget.lacks.push(rest.to_owned()),
                b"refused" => gadget.is_forwarded = Some(false),
                b"forwarded" => gadget.is_forwarded = Some(true),
                b"either" => {}
                _ => panic!("{}: {line}", gadget.name),
            }
        }
        gadget
    }

    /// Sends the gadget, and describes a failure.
    fn failure(&self, proxied: &Proxied, server: &ScriptedServer) -> Option<String> {
        let before = server.requests().len();
        let mut client = proxied.connect();
        let after = request("GET", "/app/after", "Connection: close\r\n");
        // Fails if the server has refused the start.
        let _ = client.send([&self.wire[..], after.as_bytes()].concat());
        let mut responses = Vec::new();
        while let Ok(answered) = client.try_answered("GET") {
            responses.push(answered.response);
        }
        // The next client, perhaps on the same connection to the server.
        let next = proxied.get("/app/next");
        let seen: Vec<StrictMessage> =
            server.requests().split_off(before).into_iter().map(|seen| seen.message).collect();
        let failure = server.fault().or_else(|| self.judge(&responses, &next, &seen))?;
        let shown: Vec<String> = seen.iter().map(|message| format!("\n    server got   {message}")).collect();
        let got: Vec<String> =
            responses.iter().map(|message| format!("\n    client got   {message}")).collect();
        let sent = self.wire[..self.wire.len().min(1_000)].escape_ascii();
        Some(format!("{}: {failure}\n    client sent  {sent}{}{}", self.name, shown.concat(), got.concat()))
    }

    fn judge(
        &self,
        responses: &[StrictMessage],
        next: &StrictMessage,
        seen: &[StrictMessage],
    ) -> Option<String> {
        let (last, seen) = seen.split_last()?;
        if next.text() != "/app/next" || last.target() != "/app/next" {
            return Some(format!("the response for the next client is that for {}", next.text()));
        }
        let targets: Vec<&str> = seen.iter().map(StrictMessage::target).collect();
        let answered: Vec<String> =
            responses.iter().filter(|response| response.status() == 200).map(StrictMessage::text).collect();
        if answered != targets {
            return Some(format!("responses for {answered:?} to requests for {targets:?}"));
        }
        let gadgets = match seen.split_last() {
            Some((last, gadgets)) if last.target() == "/app/after" => gadgets,
            _ => seen,
        };
        if gadgets.iter().any(|request| request.target().split(['/', '?']).any(|part| part == "smuggled")) {
            return Some("content became a request".to_owned());
        }
        let is_forwarded = !gadgets.is_empty();
        if self.is_forwarded.is_some_and(|wanted| wanted != is_forwarded) {
            return Some(format!("forwarded: {is_forwarded}"));
        }
        if !is_forwarded && responses.first().is_none_or(|response| response.status() < 400) {
            return Some("neither forwarded nor refused".to_owned());
        }
        if is_forwarded {
            if self.content.as_ref().is_some_and(|content| gadgets[0].content != *content) {
                return Some("another content".to_owned());
            }
            if let Some(text) = self.has.iter().find(|text| !gadgets[0].contains(text)) {
                return Some(format!("lacks {text}"));
            }
        }
        let text = self.lacks.iter().find(|text| gadgets.iter().any(|request| request.contains(text)));
        text.map(|text| format!("has {text}"))
    }
}

#[test]
fn usual_requests_are_no_gadgets() {
    let server = ScriptedServer::naming_targets();
    on_every_engine(&server, |proxied, engine| {
        let usual = Gadget {
            name: "usual".to_owned(),
            wire: get("/app/gadget").into_bytes(),
            is_forwarded: Some(true),
            ..Gadget::default()
        };
        assert_eq!(usual.failure(proxied, &server), None, "{engine}");
    });
}
