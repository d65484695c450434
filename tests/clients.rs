//! Third-party clients: http.client of Python, fetch of Node, net/http of Go. Each one sends the same requests and gets the files
//! on disk, with and without TLS. `tests/clients/README.md` documents the programs.

use crate::common::{
    ENGINES,
    endpoint::TestTls,
    program::RunningProgram,
    sample::{CODED, CODINGS, LARGE, PLAIN, on_disk, sample_site},
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

#[test]
fn python_http_client_gets_the_files() {
    let python =
        ClientKind { command: &["python3", "python.py"], codings: &[], decodes: &[], follows: false };
    python.test();
}

#[test]
fn node_fetch_gets_the_files() {
    let node = ClientKind {
        command: &["node", "node.mjs"],
        codings: &["gzip", "br"],
        decodes: &["gzip", "br"],
        follows: true,
    };
    node.test();
}

#[test]
fn go_net_http_gets_the_files() {
    let go = ClientKind { command: &["go", "go.go"], codings: &["gzip"], decodes: &[], follows: true };
    go.test();
}

/// The properties of a client.
struct ClientKind {
    /// The interpreter or compiler and the file in `tests/clients`.
    command: &'static [&'static str; 2],
    /// The codings that the client accepts and decodes by default.
    codings: &'static [&'static str],
    /// The codings that the client decodes if the request sets Accept-Encoding.
    decodes: &'static [&'static str],
    /// Whether the client follows redirects.
    follows: bool,
}

impl ClientKind {
    fn test(&self) {
        let (site, tls) = (sample_site(), TestTls::new());
        let program = RunningProgram::start_ready(tls.serve(site.path(), &[]));
        let origin = format!("https://localhost:{}", program.addresses()[1].port());
        ClientProcess::start(self, &origin, None).gets_nothing();
        for engine in ENGINES {
            let program = RunningProgram::start_ready(tls.serve(site.path(), &["--engine", engine.name()]));
            let [plain, tls_address] = program.addresses()[..] else { panic!("two listeners") };
            let https = format!("https://localhost:{}", tls_address.port());
            for (scheme, origin) in [("http", format!("http://{plain}")), ("https", https)] {
                let mut client = ClientProcess::start(self, &origin, Some(&tls));
                client.gets_files(site.path());
                client.validates_files(site.path());
                client.gets_codings(self, site.path());
                client.gets_ranges(site.path());
                client.resumes_a_download(site.path());
                client.gets_a_404();
                assert_eq!(client.connections, 1, "{engine}, {scheme}: one connection for all requests");
                client.gets_heads(site.path());
                client.gets_redirects(self, site.path());
                client.stop();
            }
            assert_eq!(program.err(), "", "{engine}");
        }
    }
}

impl ClientProcess {
    fn gets_files(&mut self, site: &Path) {
        for &(target, media_type) in PLAIN {
            let got = self.get(target, &[]);
            let content = fs::read(on_disk(site, target)).unwrap();
            assert_eq!((got.status, got.form.as_str()), (200, "as-sent"), "{target}");
            assert_eq!(got.field("Content-Type"), media_type, "{target}");
            assert_eq!(got.field("Content-Length"), content.len().to_string(), "{target}");
            assert!(got.content == content, "{target}");
        }
    }

    fn validates_files(&mut self, site: &Path) {
        for &(target, _) in PLAIN {
            let known = self.get(target, &[]);
            let (etag, date) = (known.field("ETag"), known.field("Last-Modified"));
            let earlier = "Thu, 01 Jan 1970 01:00:00 GMT";
            #[rustfmt::skip]
            let cases = [
                (304, format!("If-None-Match: {etag}")),
                (304, format!("If-None-Match: \"other\", W/{etag}")),
                (304, format!("If-Modified-Since: {date}")),
                (200, "If-None-Match: \"other\"".to_owned()),
                (200, format!("If-Modified-Since: {earlier}")),
            ];
            for (status, condition) in cases {
                let got = self.get(target, &[&condition]);
                assert_eq!(got.status, status, "{target}, {condition}");
                assert_eq!(got.field("ETag"), etag, "{target}, {condition}");
                let content = if status == 200 { fs::read(on_disk(site, target)).unwrap() } else { vec![] };
                assert!(got.content == content, "{target}, {condition}");
            }
        }
    }

    fn gets_codings(&mut self, kind: &ClientKind, site: &Path) {
        let plain = fs::read(on_disk(site, CODED)).unwrap();
        let got = self.get(CODED, &[]);
        assert_eq!(
            (got.status, got.form.as_str()),
            (200, if kind.codings.is_empty() { "as-sent" } else { "decoded" })
        );
        assert!(got.content == plain);
        for (coding, extension, _) in CODINGS {
            let got = self.get(CODED, &[&format!("Accept-Encoding: {coding}")]);
            assert_eq!((got.status, got.field("Content-Encoding")), (200, *coding));
            assert_eq!(got.field("Vary"), "Accept-Encoding");
            if kind.decodes.contains(coding) {
                assert!(got.content == plain, "{coding}");
            } else {
                assert!(
                    got.content == fs::read(on_disk(site, &format!("{CODED}.{extension}"))).unwrap(),
                    "{coding}"
                );
            }
            let condition = format!("If-None-Match: {}", got.field("ETag"));
            let again = self.get(CODED, &[&format!("Accept-Encoding: {coding}"), &condition]);
            assert_eq!((again.status, again.content.len()), (304, 0), "{coding}");
        }
    }

    fn gets_ranges(&mut self, site: &Path) {
        for target in [LARGE, CODED, "/index.html"] {
            let content = fs::read(on_disk(site, target)).unwrap();
            let len = content.len();
            let etag = self.get(target, &["Accept-Encoding: identity"]).field("ETag").to_owned();
            #[rustfmt::skip]
            let cases: &[(&[&str], Option<Range<usize>>)] = &[
                // fields                                                              the range, or the whole file
                (&["Range: bytes=0-0"],                                                Some(0..1)),
                (&["Range: bytes=7-99"],                                               Some(7..100)),
                (&["Range: bytes=-50"],                                                Some(len - 50..len)),
                (&["Range: bytes=0-"],                                                 Some(0..len)),
                (&[&format!("Range: bytes={}-", len - 1)],                             Some(len - 1..len)),
                (&[&format!("Range: bytes=9-{len}")],                                  Some(9..len)),
                (&["Range: bytes=7-99", &format!("If-Range: {etag}")],                 Some(7..100)),
                (&["Range: bytes=7-99", "If-Range: \"other\""],                        None),
                (&["Range: bytes=7-99", "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"],    None),
                (&["Range: lines=7-99"],                                               None),
            ];
            for (fields, part) in cases {
                let got = self.get(target, fields);
                let (status, content_range) = match part {
                    Some(Range { start, end }) => (206, format!("bytes {start}-{}/{len}", end - 1)),
                    None => (200, String::new()),
                };
                assert_eq!(
                    (got.status, got.field("Content-Range")),
                    (status, &*content_range),
                    "{target}, {fields:?}"
                );
                assert_eq!(got.field("ETag"), etag, "{target}, {fields:?}");
                assert!(got.content == content[part.clone().unwrap_or(0..len)], "{target}, {fields:?}");
            }
            let got = self.get(target, &[&format!("Range: bytes={len}-")]);
            assert_eq!(
                (got.status, got.field("Content-Range")),
                (416, &*format!("bytes */{len}")),
                "{target}"
            );
            let got = self.get(target, &["Range: bytes=7-99", &format!("If-None-Match: {etag}")]);
            assert_eq!((got.status, got.content.len()), (304, 0), "{target}");
        }
    }

    /// Resumes a download several times with Range and If-Range.
    fn resumes_a_download(&mut self, site: &Path) {
        let content = fs::read(on_disk(site, LARGE)).unwrap();
        let first = self.get(LARGE, &["Range: bytes=0-99999"]);
        let same = format!("If-Range: {}", first.field("ETag"));
        let mut received = first.content;
        while received.len() < content.len() {
            let rest = format!("Range: bytes={}-{}", received.len(), received.len() + 3_000_000);
            let got = self.get(LARGE, &[&rest, &same]);
            assert_eq!(got.status, 206, "{rest}");
            received.extend(got.content);
        }
        assert!(received == content);
    }

    fn gets_a_404(&mut self) {
        let got = self.get("/nothing", &[]);
        assert_eq!((got.status, got.field("Content-Type")), (404, "text/html; charset=utf-8"));
        assert!(got.content.starts_with(b"<!doctype html>"));
    }

    fn gets_heads(&mut self, site: &Path) {
        for &(target, _) in PLAIN {
            let got = self.request("HEAD", target, &["Accept-Encoding: identity"]);
            let len = fs::metadata(on_disk(site, target)).unwrap().len();
            assert_eq!((got.status, got.field("Content-Length")), (200, &*len.to_string()), "{target}");
            assert_eq!(got.content, b"", "{target}");
        }
    }

    fn gets_redirects(&mut self, kind: &ClientKind, site: &Path) {
        let got = self.get("/guide", &[]);
        if kind.follows {
            assert_eq!(got.status, 200);
            assert!(got.content == fs::read(site.join("guide/index.html")).unwrap());
        } else {
            assert_eq!((got.status, got.field("Location")), (301, "/guide/"));
        }
    }
}

/// A running client program.
struct ClientProcess {
    child: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
    /// The number of connections opened so far.
    connections: usize,
}

/// A response as the client returns it.
#[derive(Debug)]
struct ClientResponse {
    status: u16,
    /// `as-sent`, or `decoded` by the client.
    form: String,
    fields: Vec<(String, String)>,
    content: Vec<u8>,
}

impl ClientProcess {
    /// Starts the program, which trusts the authority of `tls`, and otherwise those of the system.
    fn start(kind: &ClientKind, origin: &str, tls: Option<&TestTls>) -> ClientProcess {
        let [program, file] = kind.command;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file);
        // A limit in case the client hangs.
        let mut command = Command::new("timeout");
        command.arg("180");
        match *program {
            "go" => command.arg(build_go(&file, "client-of-go")),
            program => command.arg(program).arg(file),
        };
        command.arg(origin).stdin(Stdio::piped()).stdout(Stdio::piped());
        match tls {
            Some(tls) => {
                for name in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"] {
                    command.env(name, tls.authority());
                }
            }
            // What it says of the certificate is no failure of the test.
            None => drop(command.stderr(Stdio::null())),
        }
        let mut child = command.spawn().expect("timeout of the coreutils");
        let requests = child.stdin.take().expect("a pipe");
        let responses = BufReader::new(child.stdout.take().expect("a pipe"));
        ClientProcess { child, requests, responses, connections: 0 }
    }

    #[track_caller]
    fn get(&mut self, target: &str, fields: &[&str]) -> ClientResponse {
        self.request("GET", target, fields)
    }

    #[track_caller]
    fn request(&mut self, method: &str, target: &str, fields: &[&str]) -> ClientResponse {
        let request = [&[method, target], fields].concat().join("\t");
        writeln!(self.requests, "{request}").expect("a running client: run tests/setup");
        let first = self.line();
        let [status, connections, form, len] = first.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{request:?} has the response {first:?}: run tests/setup");
        };
        self.connections = connections.parse().expect("a number");
        let mut fields = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            fields.push((name.to_owned(), value.to_owned()));
        }
        let mut content = vec![0; len.parse().expect("a length")];
        self.responses.read_exact(&mut content).expect("content");
        ClientResponse { status: status.parse().expect("a status"), form: form.to_owned(), fields, content }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.responses.read_line(&mut line).expect("a line in UTF-8");
        line.truncate(line.trim_end().len());
        line
    }

    /// Checks that the client does not accept the certificate: it exits without a response.
    fn gets_nothing(mut self) {
        writeln!(self.requests, "GET\t/index.html").expect("a running client: run tests/setup");
        assert_eq!(self.line(), "");
        assert!(!self.child.wait().expect("a child").success());
    }

    /// Stops the client and checks its exit status.
    fn stop(self) {
        let ClientProcess { mut child, requests, .. } = self;
        drop(requests);
        let status = child.wait().expect("a child");
        assert!(status.success(), "{status}");
    }
}

impl ClientResponse {
    /// Returns the value of a field, or an empty string.
    fn field(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        fields.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(&**value)).unwrap_or("")
    }
}

/// Builds a Go program without network access, under this name.
pub(crate) fn build_go(file: &Path, name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut build = Command::new("go");
    build.env("GOPROXY", "off").env("GOTOOLCHAIN", "local").arg("build").arg("-o").arg(&program).arg(file);
    let status = build.status().expect("go is missing: run tests/setup");
    assert!(status.success(), "go build: {status}");
    program
}
