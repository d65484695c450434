//! Clients that others wrote, and that many use: http.client of Python, fetch of Node, net/http of Go. Each asks the same
//! in its own way, and gets what lies on disk. How they are asked is in `tests/clients/README.md`.

mod common;

use common::{
    ENGINES,
    program::{RunningProgram, serve},
    sample::{CODED, CODINGS, LARGE, PLAIN, on_disk, sample_site},
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

#[test]
fn http_client_of_python_gets_what_lies_on_disk() {
    let python = Kind { command: &["python3", "python.py"], codings: &[], decodes: &[], follows: false };
    python.is_served();
}

#[test]
fn fetch_of_node_gets_what_lies_on_disk() {
    let node = Kind {
        command: &["node", "node.mjs"],
        codings: &["gzip", "br"],
        decodes: &["gzip", "br"],
        follows: true,
    };
    node.is_served();
}

#[test]
fn net_http_of_go_gets_what_lies_on_disk() {
    let go = Kind { command: &["go", "go.go"], codings: &["gzip"], decodes: &[], follows: true };
    go.is_served();
}

/// What sets one client apart from another.
struct Kind {
    /// What runs it, and its file in `tests/clients`.
    command: &'static [&'static str; 2],
    /// One of these it has taken, and decoded, if nothing is said of codings. None: it asks for none by itself.
    codings: &'static [&'static str],
    /// What it decodes although it was told what to accept.
    decodes: &'static [&'static str],
    /// It follows redirects.
    follows: bool,
}

impl Kind {
    fn is_served(&self) {
        let site = sample_site();
        for engine in ENGINES {
            let program = RunningProgram::start_ready(serve(site.path(), &["--engine", engine.name()]));
            let mut client = ClientProcess::start(self, program.address());
            client.gets_files(site.path());
            client.gets_what_changed(site.path());
            client.gets_codings(self, site.path());
            client.gets_ranges(site.path());
            client.gets_what_it_was_interrupted_in(site.path());
            client.gets_what_is_not_there();
            assert_eq!(client.connections, 1, "{engine}: it has kept its connection");
            client.gets_heads(site.path());
            client.gets_redirects(self, site.path());
            client.end();
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

    fn gets_what_changed(&mut self, site: &Path) {
        for &(target, _) in PLAIN {
            let known = self.get(target, &[]);
            let (etag, date) = (known.field("ETag"), known.field("Last-Modified"));
            let an_hour_after_1970 = "Thu, 01 Jan 1970 01:00:00 GMT";
            #[rustfmt::skip]
            let cases = [
                (304, format!("If-None-Match: {etag}")),
                (304, format!("If-None-Match: \"other\", W/{etag}")),
                (304, format!("If-Modified-Since: {date}")),
                (200, "If-None-Match: \"other\"".to_owned()),
                (200, format!("If-Modified-Since: {an_hour_after_1970}")),
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

    fn gets_codings(&mut self, kind: &Kind, site: &Path) {
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
                // fields                                                              the part of the file, or all of it
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

    /// In pieces, each from where the last one ended, and only if it is still the same.
    fn gets_what_it_was_interrupted_in(&mut self, site: &Path) {
        let content = fs::read(on_disk(site, LARGE)).unwrap();
        let first = self.get(LARGE, &["Range: bytes=0-99999"]);
        let same = format!("If-Range: {}", first.field("ETag"));
        let mut have = first.content;
        while have.len() < content.len() {
            let rest = format!("Range: bytes={}-{}", have.len(), have.len() + 3_000_000);
            let got = self.get(LARGE, &[&rest, &same]);
            assert_eq!(got.status, 206, "{rest}");
            have.extend(got.content);
        }
        assert!(have == content);
    }

    fn gets_what_is_not_there(&mut self) {
        let got = self.get("/nothing", &[]);
        assert_eq!((got.status, got.field("Content-Type")), (404, "text/html; charset=utf-8"));
        assert!(got.content.starts_with(b"<!doctype html>"));
    }

    fn gets_heads(&mut self, site: &Path) {
        for &(target, _) in PLAIN {
            let got = self.ask("HEAD", target, &["Accept-Encoding: identity"]);
            let len = fs::metadata(on_disk(site, target)).unwrap().len();
            assert_eq!((got.status, got.field("Content-Length")), (200, &*len.to_string()), "{target}");
            assert_eq!(got.content, b"", "{target}");
        }
    }

    fn gets_redirects(&mut self, kind: &Kind, site: &Path) {
        let got = self.get("/guide", &[]);
        if kind.follows {
            assert_eq!(got.status, 200);
            assert!(got.content == fs::read(site.join("guide/index.html")).unwrap());
        } else {
            assert_eq!((got.status, got.field("Location")), (301, "/guide/"));
        }
    }
}

/// A client that runs.
struct ClientProcess {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// That it has opened by now.
    connections: usize,
}

/// An answer as the client gave it.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// `as-sent`, or `decoded` by the client.
    form: String,
    fields: Vec<(String, String)>,
    content: Vec<u8>,
}

impl ClientProcess {
    fn start(kind: &Kind, address: SocketAddr) -> ClientProcess {
        let [program, file] = kind.command;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file);
        // Whatever happens to a client, it does not keep the test for ever.
        let mut command = Command::new("timeout");
        command.arg("180");
        match *program {
            "go" => command.arg(built_by_go(&file)),
            program => command.arg(program).arg(file),
        };
        command.arg(address.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("timeout, of the coreutils");
        let requests = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        ClientProcess { child, requests, answers, connections: 0 }
    }

    #[track_caller]
    fn get(&mut self, target: &str, fields: &[&str]) -> Answer {
        self.ask("GET", target, fields)
    }

    #[track_caller]
    fn ask(&mut self, method: &str, target: &str, fields: &[&str]) -> Answer {
        let request = [&[method, target], fields].concat().join("\t");
        writeln!(self.requests, "{request}").expect("a client that runs: run tests/setup");
        let first = self.line();
        let [status, connections, form, len] = first.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{request:?} is answered with {first:?}: run tests/setup");
        };
        self.connections = connections.parse().expect("a number");
        let mut fields = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            fields.push((name.to_owned(), value.to_owned()));
        }
        let mut content = vec![0; len.parse().expect("a length")];
        self.answers.read_exact(&mut content).expect("content");
        Answer { status: status.parse().expect("a status"), form: form.to_owned(), fields, content }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a line in UTF-8");
        line.truncate(line.trim_end().len());
        line
    }

    /// Has nothing more to ask.
    fn end(self) {
        let ClientProcess { mut child, requests, .. } = self;
        drop(requests);
        let status = child.wait().expect("a child");
        assert!(status.success(), "{status}");
    }
}

impl Answer {
    /// The value of a field, or nothing.
    fn field(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        fields.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(&**value)).unwrap_or("")
    }
}

/// The program that Go makes of a file, without asking anybody for anything.
fn built_by_go(file: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-of-go");
    let mut build = Command::new("go");
    build.env("GOPROXY", "off").env("GOTOOLCHAIN", "local").arg("build").arg("-o").arg(&program).arg(file);
    let status = build.status().expect("go is missing: run tests/setup");
    assert!(status.success(), "go build: {status}");
    program
}
