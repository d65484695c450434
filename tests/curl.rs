//! A client that everybody has: curl.

#![allow(clippy::disallowed_methods, reason = "tests name their own files")]

mod common;

use common::{
    ENGINES, distinct_bytes,
    program::{RunningProgram, serve},
    site,
};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

#[test]
fn curl_gets_what_is_there() {
    for (dir, program) in served() {
        let url = url(&program);
        #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str, &str)] = &[
        // what it shows       options                        target   what curl says
        ("GET",                &[],                           "/",     "home"),
        ("HTTP/1.0",           &["-0"],                       "/",     "home"),
        ("compressed",         &["--compressed"],             "/",     "home"),
        ("no expectation",     &["-H", "Expect:"],            "/",     "home"),
        ("a directory",        &["-L"],                       "/dir",  "in here"),
        ("a directory's code", &["-w", " %{http_code}"],      "/dir/", "in here 200"),
        ("a redirect",         &["-o", "/dev/null", "-w", "%{http_code} %{redirect_url}"], "/dir?q=1", "301 URL/dir/?q=1"),
        ("a redirect's end",   &["-L", "-w", " %{url_effective} %{num_redirects}"],        "/dir?q=1", "in here URL/dir/?q=1 1"),
        ("nothing",            &["-o", "/dev/null", "-w", "%{http_code}"],                 "/none",    "404"),
        ("a path as it is",    &["--path-as-is", "-o", "/dev/null", "-w", "%{http_code}"], "/../etc/passwd", "404"),
        ("OPTIONS *",          &["-X", "OPTIONS", "--request-target", "*", "-o", "/dev/null", "-w", "%{http_code}"], "/", "204"),
        ("a date",             &["-z", "index.html", "-w", "%{http_code}"],                "/",        "304"),
    ];
        for (name, options, target, want) in cases {
            let said = curl(dir.path(), &[options, &[&format!("{url}{target}")[..]][..]].concat());
            assert_eq!(said, want.replace("URL", &url), "{name}");
        }
    }
}

#[test]
fn curl_has_the_head_of_a_file_and_no_content() {
    for (dir, program) in served() {
        let said = curl(dir.path(), &["-I", &url(&program)]);
        assert!(said.starts_with("HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: "), "{said}");
        assert!(said.contains("\r\nContent-Length: 4\r\n") && said.ends_with("\r\n\r\n"), "{said}");
    }
}

#[test]
fn curl_decodes_what_was_compressed_beforehand() {
    for (dir, program) in served() {
        let url = format!("{}/page.txt", url(&program));
        let (page, coded_len) =
            ("page ".repeat(100), fs::metadata(dir.path().join("page.txt.gz")).unwrap().len());
        let said = curl(dir.path(), &["--compressed", "-w", " %{size_download}", &url]);
        assert_eq!(said, format!("{page} {coded_len}"));
        let said = curl(dir.path(), &["-w", " %{size_download}", &url]);
        assert_eq!(said, format!("{page} {}", page.len()));
        curl(dir.path(), &["-o", "saved.gz", &format!("{url}.gz")]);
        assert!(
            fs::read(dir.path().join("saved.gz")).unwrap()
                == fs::read(dir.path().join("page.txt.gz")).unwrap()
        );
    }
}

#[test]
fn curl_saves_a_large_file_byte_for_byte() {
    for (dir, program) in served() {
        curl(dir.path(), &["-o", "saved", &format!("{}/large", url(&program))]);
        assert!(fs::read(dir.path().join("saved")).unwrap() == distinct_bytes(LARGE_LEN));
    }
}

#[test]
fn curl_gets_parts_of_a_file() {
    for (dir, program) in served() {
        let url = url(&program);
        #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str, &str)] = &[
        // what it shows      options                                   target   what curl says
        ("the first bytes",   &["-r", "0-1", "-w", " %{http_code}"],    "/",     "ho 206"),
        ("from a byte on",    &["-r", "2-", "-w", " %{http_code}"],     "/",     "me 206"),
        ("the last bytes",    &["-r", "-3", "-w", " %{http_code}"],     "/",     "ome 206"),
        ("none that there is", &["-r", "4-", "-o", "/dev/null", "-w", "%{http_code}"], "/", "416"),
        ("another unit",      &["-H", "Range: lines=1-2", "-w", " %{http_code}"], "/", "home 200"),
        ("HEAD",              &["-I", "-r", "0-1", "-o", "/dev/null", "-w", "%{http_code}"], "/", "200"),
        ("of a coded form",   &["-r", "0-1", "-H", "Accept-Encoding: gzip", "-o", "/dev/null", "-w", "%{size_download} %{http_code}"], "/page.txt", "2 206"),
    ];
        for (name, options, target, want) in cases {
            let said = curl(dir.path(), &[options, &[&format!("{url}{target}")[..]][..]].concat());
            assert_eq!(said, *want, "{name}");
        }
        curl(dir.path(), &["-r", "1000000-3999999", "-o", "part", &format!("{url}/large")]);
        assert!(
            fs::read(dir.path().join("part")).unwrap() == distinct_bytes(LARGE_LEN)[1_000_000..4_000_000]
        );
        let said = curl(
            dir.path(),
            &["-r", "0-9,100-109", "-w", " %{http_code} %{content_type}", &format!("{url}/page.txt")],
        );
        let [first, second] =
            ["bytes 0-9/500\r\n\r\npage page \r\n--", "bytes 100-109/500\r\n\r\npage page \r\n--"];
        assert!(said.contains(first) && said.contains(second), "{said}");
        assert!(said.contains(" 206 multipart/byteranges; boundary="), "{said}");
    }
}

#[test]
fn curl_resumes_a_download() {
    for (dir, program) in served() {
        let url = format!("{}/large", url(&program));
        let saved = dir.path().join("saved");
        for len in [1, 1_234_567, LARGE_LEN - 1] {
            fs::write(&saved, &distinct_bytes(LARGE_LEN)[..len]).unwrap();
            let said =
                curl(dir.path(), &["-C", "-", "-o", "saved", "-w", "%{http_code} %{size_download}", &url]);
            assert_eq!(said, format!("206 {}", LARGE_LEN - len));
            assert!(fs::read(&saved).unwrap() == distinct_bytes(LARGE_LEN), "{len}");
        }
    }
}

#[test]
fn curl_saves_many_files_at_once() {
    for (dir, program) in served() {
        let url = url(&program);
        curl(dir.path(), &["-Z", "--parallel-max", "20", &format!("{url}/many/[0-99]"), "-o", "saved-#1"]);
        for number in 0..100 {
            let saved = fs::read_to_string(dir.path().join(format!("saved-{number}"))).unwrap();
            assert_eq!(saved, format!("number {number}"));
        }
    }
}

#[test]
fn curl_uses_its_connection_again() {
    for (dir, program) in served() {
        let url = url(&program);
        let urls = [format!("{url}/"), format!("{url}/none"), format!("{url}/dir"), format!("{url}/large")];
        let mut options = vec!["-w", "%{num_connects}"];
        for url in &urls {
            options.extend(["-o", "/dev/null", url]);
        }
        assert_eq!(curl(dir.path(), &options), "1000");
        assert_eq!(curl(dir.path(), &[&["-0"], &options[..]].concat()), "1111");
    }
}

#[test]
fn curl_is_told_that_nothing_is_taken() {
    for (dir, program) in served() {
        let url = url(&program);
        let code = ["-o", "/dev/null", "-w", "%{http_code}"];
        #[rustfmt::skip]
    let cases: &[(&[&str], &str)] = &[
        (&["-d", "@form"],                                   "405"),
        (&["-d", "@large"],                                  "413"),
        (&["-d", "@form", "-H", "Expect: 100-continue"],     "405"),
        (&["-d", "@form", "-H", "Expect:"],                  "405"),
        (&["-T", "form"],                                    "405"),
        (&["-d", "@form", "-H", "Transfer-Encoding: chunked"], "405"),
        (&["-X", "DELETE"],                                  "405"),
        (&["-X", "BREW"],                                    "501"),
    ];
        fs::write(dir.path().join("form"), vec![b'f'; 100_000]).unwrap();
        for (options, want) in cases {
            assert_eq!(
                curl(dir.path(), &[options, &code[..], &[url.as_str()]].concat()),
                *want,
                "{options:?}"
            );
        }
    }
}

#[test]
fn curl_is_told_at_once_that_there_is_no_http_2() {
    for (dir, program) in served() {
        let Output { status, stdout, .. } =
            run_curl(dir.path(), &["--http2-prior-knowledge", &url(&program)]);
        assert!(!status.success() && stdout.is_empty(), "{status}");
        // 28 is a timeout; what there is instead depends on its version.
        assert_ne!(status.code(), Some(28));
        // Upgrading from HTTP/1.1 may be asked for, and is passed over.
        assert_eq!(curl(dir.path(), &["--http2", &url(&program)]), "home");
    }
}

#[test]
fn curl_asks_through_a_unix_socket() {
    let dir = site(&[("index.html", "home")]);
    let socket = dir.path().join("tarpon.sock");
    let address = format!("unix:{}", socket.display());
    let _program = RunningProgram::start_ready(serve(dir.path(), &["--listen", &address]));
    let said = curl(dir.path(), &["--unix-socket", socket.to_str().unwrap(), "http://localhost/"]);
    assert_eq!(said, "home");
}

const LARGE_LEN: usize = 5_000_000;

/// A site, which is curl's directory too, and the program that serves it: with each engine, one after the other.
fn served() -> impl Iterator<Item = (TempDir, RunningProgram)> {
    ENGINES.iter().map(|engine| served_with(engine.name()))
}

fn served_with(engine: &str) -> (TempDir, RunningProgram) {
    // Is shown when a test fails.
    println!("with {engine}");
    let dir = site(&[("index.html", &b"home"[..]), ("dir/index.html", b"in here")]);
    common::write_files(dir.path(), &[("large", distinct_bytes(LARGE_LEN))]);
    let many: Vec<_> =
        (0..100).map(|number| (format!("many/{number}"), format!("number {number}"))).collect();
    common::write_files(dir.path(), &many);
    common::write_files(dir.path(), &[("page.txt", "page ".repeat(100))]);
    let gzip = Command::new("gzip").args(["-k", "page.txt"]).current_dir(dir.path()).status();
    assert!(gzip.expect("gzip is missing").success());
    let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", engine]));
    (dir, program)
}

fn url(program: &RunningProgram) -> String {
    format!("http://{}", program.address())
}

/// What curl says to standard output. It must succeed.
#[track_caller]
fn curl(dir: &Path, options: &[&str]) -> String {
    let Output { status, stdout, stderr } = run_curl(dir, options);
    assert!(status.success(), "curl {options:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn run_curl(dir: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("curl");
    // `-q`: whatever the user's own .curlrc says.
    command.args(["-q", "-sS", "--max-time", "20", "--noproxy", "*"]).args(options).current_dir(dir);
    command.output().expect("curl is missing: run tests/setup")
}
