//! The examples in `examples/`, as users run them: with requests of curl.

use crate::common::distinct_bytes;
use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
};

/// An example that runs until the value is dropped.
struct RunningExample {
    child: Child,
    url: String,
}

impl RunningExample {
    fn start(name: &str, arguments: &[&str]) -> RunningExample {
        let mut command = Command::new(built().join(name));
        command.arg("127.0.0.1:0").args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "{name}: {line}");
        RunningExample { child, url: line.trim().trim_end_matches('/').to_owned() }
    }

    /// Runs curl. Returns the content of the response, and its status.
    fn curl(&self, options: &[&str], target: &str) -> (Vec<u8>, String) {
        let output = Command::new("curl")
            .args(["-sS", "-w", "%{stderr}%{http_code}"])
            .args(options)
            .arg(format!("{}{target}", self.url))
            .output()
            .unwrap();
        assert!(output.status.success(), "{target}: {output:?}");
        (output.stdout, String::from_utf8(output.stderr).unwrap())
    }

    fn check(&self, cases: &[(&str, &[&str], &str, &str, &str)]) {
        for &(name, options, target, status, content) in cases {
            let (got, code) = self.curl(options, target);
            assert_eq!((&*code, &*String::from_utf8_lossy(&got)), (status, content), "{name}");
        }
    }
}

/// Builds the examples, unless they are built, and returns their directory: a run of this test alone builds none.
fn built() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        // `tests/programs` has built them.
        if env::var_os("TARPON_EXAMPLES_ARE_BUILT").is_none() {
            let status = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--locked", "--workspace", "--examples"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(status.unwrap().success(), "the examples are built");
        }
        env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples")
    });
    &BUILT
}

impl Drop for RunningExample {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn hello_answers_every_path() {
    RunningExample::start("hello", &[]).check(&[
        ("the root", &[], "/", "200", "Hello world\n"),
        ("another path", &[], "/a?b", "200", "Hello world\n"),
        ("content", &["-d", "a=b"], "/", "200", "Hello world\n"),
    ]);
}

#[test]
#[rustfmt::skip]
fn json_api_keeps_notes() {
    RunningExample::start("json_api", &[]).check(&[
        // case           options                         target       status  content
        ("none yet",      &[],                            "/notes",    "200",  "[]"),
        ("a note",        &["-d", "{\"text\":\"milk\"}"], "/notes",    "201",  "{\"number\":1,\"text\":\"milk\"}"),
        ("another",       &["-d", "{\"text\":\"tea\"}"],  "/notes",    "201",  "{\"number\":2,\"text\":\"tea\"}"),
        ("no JSON",       &["-d", "milk"],                "/notes",    "400",  "expected {\"text\": \"…\"}\n"),
        ("the first",     &[],                            "/notes/1",  "200",  "{\"number\":1,\"text\":\"milk\"}"),
        ("delete",        &["-X", "DELETE"],              "/notes/1",  "204",  ""),
        ("deleted",       &[],                            "/notes/1",  "404",  "no such note\n"),
        ("the others",    &[],                            "/notes",    "200",  "[{\"number\":2,\"text\":\"tea\"}]"),
        ("no such method", &["-X", "PATCH"],              "/notes",    "405",  ""),
        ("no function",   &["-o", "/dev/null"],           "/",         "404",  ""),
    ]);
}

#[test]
fn upload_stores_files_of_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    // More than the limit of other routes.
    let content = distinct_bytes(5_000_000);
    fs::write(&file, &content).unwrap();
    let example = RunningExample::start("upload", &[dir.path().to_str().unwrap()]);
    let (text, status) = example.curl(&["-T", file.to_str().unwrap()], "/upload");
    let text = String::from_utf8(text).unwrap();
    assert_eq!((&*status, &*text), ("201", "5000000 bytes in /upload/1\n"));
    assert!(fs::read(dir.path().join("1")).unwrap() == content);
    assert!(example.curl(&[], "/upload/1").0 == content);
    assert_eq!(example.curl(&[], "/upload/2").1, "404");
}

#[test]
fn events_arrive_one_by_one() {
    let example = RunningExample::start("server_sent_events", &[]);
    assert!(example.curl(&[], "/").0.starts_with(b"<!doctype html>"));
    let mut curl = Command::new("curl");
    curl.args(["-sSN", &format!("{}/events", example.url)]).stdout(Stdio::piped());
    let mut curl = curl.spawn().unwrap();
    let want = b"data: count 1\n\ndata: count 2\n\n";
    let mut got = vec![0; want.len()];
    curl.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    curl.kill().unwrap();
    curl.wait().unwrap();
    assert_eq!(got, want);
}

#[test]
fn site_has_an_api_beside_its_files() {
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("example/site");
    let example = RunningExample::start("site_with_api", &[site.to_str().unwrap()]);
    assert!(example.curl(&[], "/").0 == fs::read(site.join("index.html")).unwrap());
    example.check(&[
        ("the first visit", &[], "/api/visits", "200", "{\"visits\":1}"),
        ("the second", &[], "/api/visits", "200", "{\"visits\":2}"),
        ("on a thread", &[], "/api/slow", "200", "done\n"),
        ("another path", &["-o", "/dev/null"], "/api", "404", ""),
    ]);
}
