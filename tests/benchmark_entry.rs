//! The entry of a public benchmark: its configuration keeps the rules of the benchmark, and its image builds what the configuration needs.

use crate::common::{
    client::{Response, TestClient, connected},
    distinct_bytes,
    endpoint::TestTls,
    http2_stream::Http2Stream,
    program::{RunningProgram, serve_config},
    readable_dir, wait_for, write_files,
};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

/// The files of the benchmark by name, with their media type.
#[rustfmt::skip]
const FILES: &[(&str, &str)] = &[
    ("reset.css", "text/css"), ("layout.css", "text/css"), ("theme.css", "text/css"), ("components.css", "text/css"),
    ("utilities.css", "text/css"), ("analytics.js", "text/javascript"), ("helpers.js", "text/javascript"),
    ("app.js", "text/javascript"), ("vendor.js", "text/javascript"), ("router.js", "text/javascript"),
    ("header.html", "text/html"), ("footer.html", "text/html"), ("regular.woff2", "font/woff2"), ("bold.woff2", "font/woff2"),
    ("logo.svg", "image/svg+xml"), ("icon-sprite.svg", "image/svg+xml"), ("hero.webp", "image/webp"),
    ("thumb1.webp", "image/webp"), ("thumb2.webp", "image/webp"), ("manifest.json", "application/json"),
];

/// What the clients of the benchmark accept.
const ACCEPT_ENCODING: &str = "br;q=1, gzip;q=0.8";

#[test]
fn benchmark_entry_keeps_the_rules_of_static_files() {
    let dir = readable_dir();
    let files = dir.path().join("static");
    for (name, _) in FILES {
        write_files(&files, &[(name, content(name, b'a'))]);
        if is_text(name) {
            compress(&files, name);
        }
    }
    let tls = TestTls::new();
    let [certificate, key] = tls.files();
    let config = fs::read_to_string(entry("tarpon.toml"))
        .unwrap()
        .replace("0.0.0.0:8080", "127.0.0.2:0")
        .replace("0.0.0.0:8081", "127.0.0.3:0")
        .replace("0.0.0.0:8443", "127.0.0.1:0")
        .replace("/certs/server.crt", &certificate)
        .replace("/certs/server.key", &key)
        .replace("/data/static", files.to_str().unwrap());
    let program = RunningProgram::start_ready(serve_config(&config, dir.path(), &["--log-format", "human"]));
    let &[plain, http1, http2] = &program.addresses()[..] else { panic!("three listeners") };

    // Both clients offer TLS 1.3, and both versions of HTTP.
    let encrypted = |address, want: &[u8]| {
        let mut offer = ClientConfig::clone(&tls.client());
        offer.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let conn = ClientConnection::new(Arc::new(offer), "localhost".try_into().unwrap()).unwrap();
        let mut socket = StreamOwned::new(conn, connected(address));
        socket.conn.complete_io(&mut socket.sock).expect("a handshake");
        assert_eq!(socket.conn.alpn_protocol(), Some(want));
        socket
    };
    let clients = [
        (TestClient::connect(plain), "HTTP/1.1"),
        (TestClient::new(encrypted(http1, b"http/1.1")), "HTTP/1.1 with TLS"),
        (TestClient::new(Http2Stream::new(encrypted(http2, b"h2"))), "HTTP/2"),
    ];
    for (mut client, protocol) in clients {
        for (name, media_type) in FILES {
            let whole = get(&mut client, name, "");
            assert_eq!((whole.status, whole.field("Content-Encoding")), (200, None), "{protocol} {name}");
            assert_eq!(whole.content, content(name, b'a'), "{protocol} {name}");
            assert!(whole.field("Content-Type").unwrap().starts_with(media_type), "{protocol} {whole:?}");

            let coded = get(&mut client, name, &format!("Accept-Encoding: {ACCEPT_ENCODING}\r\n"));
            let want = match is_text(name) {
                true => (Some("br"), fs::read(files.join(format!("{name}.br"))).unwrap()),
                false => (None, content(name, b'a')),
            };
            assert_eq!((coded.field("Content-Encoding"), coded.content.clone()), want, "{protocol} {name}");
            assert_eq!(coded.field("Content-Type"), whole.field("Content-Type"), "{protocol} {name}");
        }
        assert_eq!(get(&mut client, "nonexistent.txt", "").status, 404, "{protocol}");
        // The benchmark waits for a response here, whatever its status.
        assert_eq!(client.get("/baseline11?a=1&b=1").status, 404, "{protocol}");
    }

    // A file of the same length takes the place of another, with its compressed forms.
    let new = dir.path().join("new");
    write_files(&new, &[("app.js", content("app.js", b'b'))]);
    compress(&new, "app.js");
    for name in ["app.js", "app.js.br", "app.js.gz"] {
        fs::rename(new.join(name), files.join(name)).unwrap();
    }
    let mut client = TestClient::connect(plain);
    wait_for("the new file", || {
        (get(&mut client, "app.js", "").content == content("app.js", b'b')).then_some(())
    });
    assert_eq!(program.err(), "");
}

#[test]
fn benchmark_entry_names_profiles_that_tarpon_answers_and_pinned_images() {
    let meta: Value = serde_json::from_slice(&fs::read(entry("meta.json")).unwrap()).unwrap();
    assert_eq!(meta["type"], "infrastructure");
    assert_eq!(meta["tests"], serde_json::json!(["static-tls", "static-h2"]));
    let dockerfile = fs::read_to_string(entry("Dockerfile")).unwrap();
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let (_, version) = manifest.split_once("\nrust-version = \"").unwrap();
    let version = version.split('"').next().unwrap();
    assert!(dockerfile.contains(&format!("\nFROM rust:{version}-bookworm AS build\n")), "{dockerfile}");
    let images = dockerfile.lines().filter(|line| line.starts_with("FROM "));
    assert!(images.clone().count() == 2 && images.clone().all(|line| !line.contains("latest")));
}

fn get(client: &mut TestClient, name: &str, headers: &str) -> Response {
    client.send(format!("GET /static/{name} HTTP/1.1\r\nHost: localhost:8080\r\n{headers}\r\n"));
    client.response()
}

/// Returns a text that compresses well, or bytes that do not, as the file has.
fn content(name: &str, letter: u8) -> Vec<u8> {
    match is_text(name) {
        true => [name.as_bytes(), &[letter; 20_000]].concat(),
        false => distinct_bytes(20_000),
    }
}

fn is_text(name: &str) -> bool {
    !name.ends_with(".woff2") && !name.ends_with(".webp")
}

/// Writes the compressed forms of a file beside it, as the benchmark has them.
fn compress(dir: &Path, name: &str) {
    for (program, level) in [("gzip", "-9"), ("brotli", "--quality=5")] {
        let status = Command::new(program).args(["--keep", level, name]).current_dir(dir).status();
        assert!(status.expect(program).success(), "{program} {name}");
    }
}

fn entry(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/benchmark/httparena").join(name)
}
