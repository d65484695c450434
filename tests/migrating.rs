//! docs/migrating.md: nginx, Caddy and tarpon serve with the three files that the page shows. The answers are the same, except for the
//! differences that the page lists.

use crate::common::{
    client::{Response, TestClient},
    other_server::OtherServer,
    port::ReservedPort,
    program::{RunningProgram, serve_config, tarpon},
    site, wait_for,
};
use flate2::read::GzDecoder;
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
};
use tempfile::TempDir;

/// The servers that tarpon is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparedServer {
    Nginx,
    Caddy,
}
use ComparedServer::{Caddy, Nginx};

/// A difference of one answer: the part, the value of the peer and that of tarpon. The contents only differ.
type ListedDifference = (ComparedServer, &'static str, &'static str, &'static str);

const CONTENT: &str = "content";
const FRAME: &str = "X-Frame-Options";
const WWW: &str = "www.example.org";
const MAIN: &str = "example.org";
const BLOG: &str = "blog.example.org";

/// Requests, and the differences that the page lists.
#[rustfmt::skip]
const REQUESTS: &[(&str, &str, &[ListedDifference])] = &[
    // host  request                differences
    (MAIN, "GET /",                  &[]),
    (MAIN, "HEAD /about.html",       &[]),
    (MAIN, "GET /about.html",        &[]),
    (MAIN, "GET /about.html?q=1",    &[]),
    (MAIN, "GET /blog/post.html",    &[]),
    (MAIN, "GET /none",              &[]),
    (MAIN, "GET /old.html",          &[]),
    (MAIN, "GET /old.html?q=1",      &[(Nginx, "Location", "/about.html", "/about.html?q=1"), (Caddy, "Location", "/about.html", "/about.html?q=1")]),
    (MAIN, "GET /news/post.html?q=1", &[(Caddy, "Location", "/blog/post.html", "/blog/post.html?q=1")]),
    (MAIN, "GET /assets/style.css",  &[]),
    (MAIN, "GET /assets/",           &[(Nginx, "status", "403", "404"), (Nginx, CONTENT, "", "")]),
    (MAIN, "GET /files/a.txt",       &[]),
    (MAIN, "GET /files/",            &[(Nginx, CONTENT, "", ""), (Caddy, CONTENT, "", "")]),
    (MAIN, "GET /files",             &[(Caddy, "status", "404", "301"), (Caddy, "Location", "", "/files/")]),
    (MAIN, "GET /app/",              &[]),
    (MAIN, "GET /app/route/7",       &[]),
    (MAIN, "GET /app/app.js",        &[]),
    (MAIN, "GET /app/none.js",       &[]),
    (MAIN, "GET /app",               &[(Caddy, "status", "308", "301")]),
    (MAIN, "GET /media/logo.txt",    &[]),
    (MAIN, "GET /media/none",        &[(Nginx, CONTENT, "", ""), (Caddy, CONTENT, "", "")]),
    (MAIN, "GET /media",             &[(Nginx, "status", "404", "301"), (Caddy, "status", "404", "301"), (Nginx, "Location", "", "/media/"), (Caddy, "Location", "", "/media/")]),
    (MAIN, "GET /api/x?q=1",         &[(Nginx, FRAME, "DENY", ""), (Caddy, FRAME, "DENY", "")]),
    (MAIN, "POST /api/x",            &[(Nginx, FRAME, "DENY", ""), (Caddy, FRAME, "DENY", "")]),
    (MAIN, "POST /about.html",       &[(Nginx, CONTENT, "", ""), (Caddy, "status", "200", "405"), (Caddy, CONTENT, "", "")]),
    (WWW,  "GET /about.html?q=1",    &[]),
    (BLOG, "GET /",                  &[]),
    (BLOG, "GET /none",              &[(Nginx, CONTENT, "", ""), (Caddy, CONTENT, "", "")]),
    ("other.example", "GET /",       &[]),
];

#[test]
fn documented_files_are_those_of_the_tests() {
    let page = fs::read_to_string(root().join("docs/migrating.md")).expect("the page");
    for (language, file) in [("nginx", "nginx.conf"), ("caddy", "Caddyfile"), ("toml", "tarpon.toml")] {
        let shown =
            page.split_once(&format!("```{language}\n")).and_then(|(_, rest)| rest.split_once("```\n"));
        let (shown, _) = shown.unwrap_or_else(|| panic!("the page has no block of {language}"));
        assert!(shown == configuration(file), "docs/migrating.md and tests/migrating/{file} differ");
    }
}

#[test]
fn answers_are_those_of_nginx_and_caddy_but_for_the_listed_differences() {
    let setup = MigrationSetup::new();
    let program = setup.start(&setup.adapted("tarpon.toml"));
    for peer in [Nginx, Caddy] {
        setup.compare(peer, &program);
    }
    compare_logs(setup.dir.path());
}

#[test]
fn imported_configurations_serve_the_same_answers() {
    let setup = MigrationSetup::new();
    for (peer, syntax, file) in [(Nginx, "nginx", "nginx.conf"), (Caddy, "caddy", "Caddyfile")] {
        let source = setup.dir.path().join(file);
        fs::write(&source, setup.adapted(file)).expect("a file");
        let import = RunningProgram::run(tarpon(
            ["import", syntax].map(OsStr::new).into_iter().chain([source.as_os_str()]),
        ));
        assert!(import.status.success() && !import.err.contains("left out"), "{import:?}");
        let check = setup.dir.path().join("checked.toml");
        fs::write(&check, &import.out).expect("a file");
        let checked = RunningProgram::run(tarpon(
            ["config", "check", "--offline"].map(OsStr::new).into_iter().chain([check.as_os_str()]),
        ));
        assert!(checked.status.success(), "{checked:?}");
        // The other server writes the log of the file.
        let config = import.out.replace(&format!("/log/{syntax}/"), "/log/tarpon/");
        let program = setup.start(&config);
        setup.compare(peer, &program);
        if peer == Nginx {
            compare_logs(setup.dir.path());
        }
    }
}

/// The files of all servers, and the API.
struct MigrationSetup {
    dir: TempDir,
    api: SocketAddr,
}

impl MigrationSetup {
    fn new() -> MigrationSetup {
        let dir = site(&[
            ("srv/www/example.org/index.html", "<p>home"),
            ("srv/www/example.org/about.html", "<p>about"),
            ("srv/www/example.org/404.html", "<p>not here"),
            ("srv/www/example.org/assets/style.css", &"p { color: red }\n".repeat(100)),
            ("srv/www/example.org/files/a.txt", "a file"),
            ("srv/www/example.org/blog/post.html", "<p>post"),
            ("srv/www/example.org/app/index.html", "<p>app"),
            ("srv/www/example.org/app/app.js", "app()"),
            ("srv/media/logo.txt", "a logo"),
            ("srv/www/blog.example.org/index.html", "<p>blog"),
            ("log/nginx/none", ""),
            ("log/caddy/none", ""),
            ("log/tarpon/none", ""),
        ]);
        MigrationSetup { dir, api: start_api() }
    }

    /// Returns a file of the page with the paths of this test.
    fn adapted(&self, file: &str) -> String {
        let at = self.dir.path().display();
        let text = configuration(file).replace("/srv/", &format!("{at}/srv/"));
        text.replace("/var/log/", &format!("{at}/log/")).replace("127.0.0.1:9000", &self.api.to_string())
    }

    /// Starts tarpon at a port of its own.
    fn start(&self, config: &str) -> RunningProgram {
        let config = config.replace("\"80\"", "\"127.0.0.1:0\"");
        RunningProgram::start_ready(serve_config(&config, self.dir.path(), &[]))
    }

    /// Starts another server, and compares its answers with those of tarpon.
    fn compare(&self, peer: ComparedServer, program: &RunningProgram) {
        let port = ReservedPort::new();
        let address = port.address;
        let (name, title, config) = match peer {
            Nginx => {
                let config = self.adapted("nginx.conf").replace("listen 80", &format!("listen {address}"));
                ("nginx", "nginx", config)
            }
            Caddy => ("caddy", "Caddy", with_port(&self.adapted("Caddyfile"), address.port())),
        };
        let mut server = OtherServer::start(name, &config, self.dir.path());
        drop(server.connect("127.0.0.1:0", address, title));
        for (host, request, differences) in REQUESTS {
            let own = ask(program.address(), host, request, "");
            let theirs = ask(address, host, request, "");
            compare(peer, host, request, (&theirs, &own), differences);
        }
        compare_files(peer, address, program.address());
        compare_tunnels(peer, address, program.address());
        if peer == Caddy {
            // Caddy logs in JSON.
            wait_for("the log of Caddy", || {
                let text =
                    fs::read_to_string(self.dir.path().join("log/caddy/access.log")).unwrap_or_default();
                text.lines()
                    .any(|line| line.starts_with('{') && line.contains("\"/about.html\""))
                    .then_some(())
            });
        }
    }
}

/// Compares two answers: that of a peer and that of tarpon.
fn compare(
    peer: ComparedServer,
    host: &str,
    request: &str,
    (theirs, own): (&Response, &Response),
    differences: &[ListedDifference],
) {
    let case = format!("{peer:?}, {host}, {request}:\n{}\n\n{}\n", theirs.head, own.head);
    let differences: Vec<_> = differences.iter().filter(|(of, ..)| *of == peer).collect();
    let mut parts = vec!["status", "Location", FRAME];
    let is_redirect = own.status / 100 == 3;
    // The text of a redirect is each server's own, and so is its type.
    if !is_redirect && !differences.iter().any(|(_, part, ..)| [CONTENT, "status"].contains(part)) {
        parts.push("type");
        assert_eq!(theirs.content, own.content, "{case}");
    }
    for part in parts {
        let found = (value(theirs, host, part), value(own, host, part));
        match differences.iter().find(|(_, listed, ..)| *listed == part) {
            Some((_, _, theirs, own)) => {
                assert_eq!((&*found.0, &*found.1), (*theirs, *own), "{part}: {case}");
            }
            None => assert_eq!(found.0, found.1, "{part}: {case}"),
        }
    }
    if differences.iter().any(|(_, part, ..)| *part == CONTENT) {
        assert_ne!(theirs.content, own.content, "{case}");
    }
    // Differences of all answers that are not those of the API.
    if !request.contains("/api/") && host != WWW {
        let cached = match own.status {
            _ if request.contains("style.css") => "max-age=3600",
            200..400 => "no-cache",
            _ => "no-store",
        };
        assert_eq!(own.field("Cache-Control"), Some(cached), "{case}");
        assert_eq!(own.field("X-Content-Type-Options"), Some("nosniff"), "{case}");
        assert_eq!(theirs.field("X-Content-Type-Options"), None, "{case}");
    }
}

/// Returns a part of an answer to a request for a host. Empty: it has none.
fn value(response: &Response, host: &str, part: &str) -> String {
    let field = |name: &str| response.field(name).unwrap_or_default().to_owned();
    match part {
        "status" => response.status.to_string(),
        "type" => field("Content-Type").split(';').next().unwrap_or_default().to_owned(),
        // Absolute or relative.
        "Location" => {
            let location = field("Location");
            let location = location.strip_prefix("http:").unwrap_or(&location);
            let Some((authority, path)) = location.strip_prefix("//").and_then(|rest| rest.split_once('/'))
            else {
                return location.to_owned();
            };
            let name = authority.split(':').next().unwrap_or_default();
            if name == host { format!("/{path}") } else { format!("//{name}/{path}") }
        }
        field_name => field(field_name),
    }
}

/// Compares what conditions, ranges and compression do to a file.
fn compare_files(peer: ComparedServer, address: SocketAddr, own_address: SocketAddr) {
    let both = |fields: &str, request: &str| {
        [address, own_address].map(|address| ask(address, MAIN, request, fields))
    };
    let [theirs, own] = both("", "GET /assets/style.css");
    let case = format!("{peer:?}:\n{}\n\n{}\n", theirs.head, own.head);
    assert_eq!(theirs.field("Last-Modified"), own.field("Last-Modified"), "{case}");
    assert_eq!(theirs.field("Cache-Control"), own.field("Cache-Control"), "{case}");
    // Expires is older than Cache-Control, which every client knows.
    assert_eq!((theirs.field("Expires").is_some(), own.field("Expires")), (peer == Nginx, None), "{case}");
    let [tag, own_tag] = [&theirs, &own].map(|response| response.field("ETag").expect("a tag").to_owned());
    assert_ne!(tag, own_tag, "{case}");
    let modified = own.field("Last-Modified").expect("a time").to_owned();
    for (tag, address) in [(&tag, address), (&own_tag, own_address)] {
        for fields in [format!("If-None-Match: {tag}\r\n"), format!("If-Modified-Since: {modified}\r\n")] {
            assert_eq!(ask(address, MAIN, "GET /assets/style.css", &fields).status, 304, "{case}{fields}");
        }
    }
    let [theirs, own] = both("Range: bytes=1-2\r\n", "GET /about.html");
    let range = |response: &Response| {
        (response.status, response.field("Content-Range").map(str::to_owned), response.content.clone())
    };
    assert_eq!(range(&theirs), range(&own), "{case}");
    assert_eq!(range(&own), (206, Some("bytes 1-2/8".to_owned()), b"p>".to_vec()), "{case}");
    // tarpon compresses nothing while it serves.
    let [theirs, own] = both("Accept-Encoding: gzip\r\n", "GET /assets/style.css");
    assert_eq!(
        (theirs.field("Content-Encoding"), own.field("Content-Encoding")),
        (Some("gzip"), None),
        "{case}"
    );
    let mut decoded = Vec::new();
    GzDecoder::new(&theirs.content[..]).read_to_end(&mut decoded).expect("gzip");
    assert!(decoded == own.content, "{case}");
}

/// Compares a WebSocket to the API.
fn compare_tunnels(peer: ComparedServer, address: SocketAddr, own_address: SocketAddr) {
    for address in [address, own_address] {
        let mut client = TestClient::connect(address);
        client.send(
            "GET /api/socket HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let head = client.try_head().expect("a head");
        assert_eq!(head.status, 101, "{peer:?}: {}", head.head);
        for part in ["first", "second"] {
            client.send(part);
            assert_eq!(client.read_exact(part.len()), part.as_bytes(), "{peer:?}");
        }
    }
}

/// The log of nginx and that of tarpon have the same lines but for the time.
fn compare_logs(dir: &Path) {
    let lines = |server: &str| -> Vec<String> {
        let text = fs::read_to_string(dir.join("log").join(server).join("access.log")).unwrap_or_default();
        let of_files = text.lines().filter(|line| line.contains(" /about.html HTTP") && line.contains("GET"));
        let without_time = of_files.filter_map(|line| {
            let (before, rest) = line.split_once('[')?;
            let (_, behind) = rest.split_once(']')?;
            Some(format!("{before}[]{behind}"))
        });
        without_time.collect()
    };
    let want = "127.0.0.1 - - [] \"GET /about.html HTTP/1.1\" 200 8 \"-\" \"-\"";
    for server in ["nginx", "tarpon"] {
        wait_for("the line of the log", || lines(server).iter().any(|line| line == want).then_some(()));
    }
}

/// Sends one request on a connection of its own.
fn ask(address: SocketAddr, host: &str, request: &str, fields: &str) -> Response {
    let mut client = TestClient::connect(address);
    let content = if request.starts_with("POST") { "Content-Length: 2\r\n\r\nhi" } else { "\r\n" };
    client.send(format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}{content}"));
    let head = client.try_head().expect("a head");
    let content = client.read_to_end();
    let is_chunked = head.field("Transfer-Encoding") == Some("chunked");
    Response { content: if is_chunked { joined(&content) } else { content }, ..head }
}

/// Returns content without its chunked coding. RFC 9112, section 7.1.
fn joined(mut wire: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = wire.windows(2).position(|end| end == b"\r\n").expect("the size of a chunk");
        let size = str::from_utf8(&wire[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let (chunk, rest) = wire[end + 2..].split_at(size.expect("a number"));
        if chunk.is_empty() {
            return content;
        }
        content.extend_from_slice(chunk);
        wire = rest.strip_prefix(b"\r\n").expect("the end of a chunk");
    }
}

/// Starts the API: it names what it has received, and sends back the bytes of a tunnel.
fn start_api() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve_api(stream));
        }
    });
    address
}

/// Answers the requests of a connection. `None`: the connection has ended.
fn serve_api(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (mut head, mut line) = (Vec::new(), String::new());
        while reader.read_line(&mut line).ok().filter(|len| *len > 0)? > 2 {
            head.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        let field = |name: &str| {
            let named = head.iter().skip(1).filter_map(|line| line.split_once(": "));
            named.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
        };
        let mut content = vec![0; field("Content-Length").map_or(0, |len| len.parse().expect("a length"))];
        reader.read_exact(&mut content).ok()?;
        if field("Upgrade").is_some() {
            let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{accept}\r\n\r\n"
            );
            writer.write_all(head.as_bytes()).ok()?;
            let mut byte = [0];
            while reader.read(&mut byte).ok()? > 0 {
                writer.write_all(&byte).ok()?;
            }
            return None;
        }
        let seen = |name: &str| field(name).unwrap_or("none");
        let text = format!(
            "{}\n{}\nfor {}, {}\n{}\n",
            head.first()?,
            seen("Host"),
            seen("X-Forwarded-For"),
            seen("X-Forwarded-Proto"),
            String::from_utf8_lossy(&content)
        );
        let len = text.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\r\n");
        writer.write_all((head + &text).as_bytes()).ok()?;
    }
}

/// Returns a Caddyfile whose sites are at this port of the loopback address.
fn with_port(config: &str, port: u16) -> String {
    let site = |line: &str| match line.strip_suffix(" {").filter(|names| names.starts_with("http://")) {
        Some(names) => {
            let names: Vec<_> = names.split(", ").map(|name| format!("{name}:{port}")).collect();
            format!("{} {{\n\tbind 127.0.0.1\n", names.join(", "))
        }
        None => format!("{line}\n"),
    };
    config.lines().map(site).collect()
}

fn configuration(file: &str) -> String {
    fs::read_to_string(root().join("tests/migrating").join(file)).expect("a file of this test")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
