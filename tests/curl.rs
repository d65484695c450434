//! Tests with curl.

use crate::common::{
    ENGINES, distinct_bytes,
    endpoint::TestTls,
    program::{RunningProgram, serve},
    readable_dir, site,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    rc::Rc,
};
use tempfile::TempDir;

#[test]
fn curl_gets_files_and_redirects() {
    for served in servers() {
        let url = served.url();
        #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str, &str)] = &[
        // case                options                        target   output
        ("GET",                &[],                           "/",     "home"),
        ("HTTP/1.0",           &["-0"],                       "/",     "home"),
        ("compressed",         &["--compressed"],             "/",     "home"),
        ("no expectation",     &["-H", "Expect:"],            "/",     "home"),
        ("a directory",        &["-L"],                       "/dir",  "in here"),
        ("a directory's status", &["-w", " %{http_code}"],      "/dir/", "in here 200"),
        ("a redirect",         &["-o", "/dev/null", "-w", "%{http_code} %{redirect_url}"], "/dir?q=1", "301 URL/dir/?q=1"),
        ("a followed redirect", &["-L", "-w", " %{url_effective} %{num_redirects}"],        "/dir?q=1", "in here URL/dir/?q=1 1"),
        ("a missing file",     &["-o", "/dev/null", "-w", "%{http_code}"],                 "/none",    "404"),
        ("an unnormalized path", &["--path-as-is", "-o", "/dev/null", "-w", "%{http_code}"], "/../etc/passwd", "404"),
        ("OPTIONS *",          &["-X", "OPTIONS", "--request-target", "*", "-o", "/dev/null", "-w", "%{http_code}"], "/", "204"),
        ("a date",             &["-z", "index.html", "-w", "%{http_code}"],                "/",        "304"),
    ];
        for (name, options, target, want) in cases {
            let output = served.curl(&[options, &[&format!("{url}{target}")[..]][..]].concat());
            assert_eq!(output, want.replace("URL", &url), "{name}");
        }
    }
}

#[test]
fn curl_head_has_no_content() {
    for served in servers() {
        let output = served.curl(&["-I", &served.url()]);
        assert!(output.starts_with("HTTP/1.1 200 OK\r\nServer: tarpon\r\nDate: "), "{output}");
        assert!(output.contains("\r\nContent-Length: 4\r\n") && output.ends_with("\r\n\r\n"), "{output}");
    }
}

#[test]
fn curl_decodes_precompressed_files() {
    for served in servers() {
        let url = format!("{}/page.txt", served.url());
        let (page, coded_len) =
            ("page ".repeat(100), fs::metadata(served.path("page.txt.gz")).unwrap().len());
        let output = served.curl(&["--compressed", "-w", " %{size_download}", &url]);
        assert_eq!(output, format!("{page} {coded_len}"));
        let output = served.curl(&["-w", " %{size_download}", &url]);
        assert_eq!(output, format!("{page} {}", page.len()));
        served.curl(&["-o", "saved.gz", &format!("{url}.gz")]);
        assert!(fs::read(served.path("saved.gz")).unwrap() == fs::read(served.path("page.txt.gz")).unwrap());
    }
}

#[test]
fn curl_saves_a_large_file_byte_for_byte() {
    for (served, url) in origins() {
        served.curl(&["-o", "saved", &format!("{url}/large")]);
        assert!(fs::read(served.path("saved")).unwrap() == distinct_bytes(LARGE_LEN), "{url}");
    }
}

#[test]
fn curl_gets_ranges() {
    for (served, url) in origins() {
        #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str, &str)] = &[
        // case               options                                   target   output
        ("the first bytes",   &["-r", "0-1", "-w", " %{http_code}"],    "/",     "ho 206"),
        ("an open range",     &["-r", "2-", "-w", " %{http_code}"],     "/",     "me 206"),
        ("the last bytes",    &["-r", "-3", "-w", " %{http_code}"],     "/",     "ome 206"),
        ("after the end",      &["-r", "4-", "-o", "/dev/null", "-w", "%{http_code}"], "/", "416"),
        ("another unit",      &["-H", "Range: lines=1-2", "-w", " %{http_code}"], "/", "home 200"),
        ("HEAD",              &["-I", "-r", "0-1", "-o", "/dev/null", "-w", "%{http_code}"], "/", "200"),
        ("a coded variant",   &["-r", "0-1", "-H", "Accept-Encoding: gzip", "-o", "/dev/null", "-w", "%{size_download} %{http_code}"], "/page.txt", "2 206"),
    ];
        for (name, options, target, want) in cases {
            let output = served.curl(&[options, &[&format!("{url}{target}")[..]][..]].concat());
            assert_eq!(output, *want, "{name}");
        }
        served.curl(&["-r", "1000000-3999999", "-o", "part", &format!("{url}/large")]);
        assert!(fs::read(served.path("part")).unwrap() == distinct_bytes(LARGE_LEN)[1_000_000..4_000_000]);
        let output = served.curl(&[
            "-r",
            "0-9,100-109",
            "-w",
            " %{http_code} %{content_type}",
            &format!("{url}/page.txt"),
        ]);
        let [first, second] =
            ["bytes 0-9/500\r\n\r\npage page \r\n--", "bytes 100-109/500\r\n\r\npage page \r\n--"];
        assert!(output.contains(first) && output.contains(second), "{output}");
        assert!(output.contains(" 206 multipart/byteranges; boundary="), "{output}");
    }
}

#[test]
fn curl_resumes_a_download() {
    for (served, url) in origins() {
        let url = format!("{url}/large");
        let saved = served.path("saved");
        for len in [1, 1_234_567, LARGE_LEN - 1] {
            fs::write(&saved, &distinct_bytes(LARGE_LEN)[..len]).unwrap();
            let output =
                served.curl(&["-C", "-", "-o", "saved", "-w", "%{http_code} %{size_download}", &url]);
            assert_eq!(output, format!("206 {}", LARGE_LEN - len));
            assert!(fs::read(&saved).unwrap() == distinct_bytes(LARGE_LEN), "{len}");
        }
    }
}

#[test]
fn curl_saves_many_files_in_parallel() {
    for served in servers() {
        let url = served.url();
        served.curl(&["-Z", "--parallel-max", "20", &format!("{url}/many/[0-99]"), "-o", "saved-#1"]);
        for number in 0..100 {
            let saved = fs::read_to_string(served.path(&format!("saved-{number}"))).unwrap();
            assert_eq!(saved, format!("number {number}"));
        }
    }
}

#[test]
fn curl_reuses_its_connection() {
    for (served, url) in origins() {
        let urls = [format!("{url}/"), format!("{url}/none"), format!("{url}/dir"), format!("{url}/large")];
        let mut options = vec!["-w", "%{num_connects}"];
        for url in &urls {
            options.extend(["-o", "/dev/null", url]);
        }
        assert_eq!(served.curl(&options), "1000");
        assert_eq!(served.curl(&[&["-0"], &options[..]].concat()), "1111");
    }
}

#[test]
fn curl_uploads_are_refused() {
    for served in servers() {
        let url = served.url();
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
        fs::write(served.path("form"), vec![b'f'; 100_000]).unwrap();
        for (options, want) in cases {
            assert_eq!(served.curl(&[options, &code[..], &[url.as_str()]].concat()), *want, "{options:?}");
        }
    }
}

/// The server ignores a request to upgrade, and with TLS an engine without HTTP/2 chooses HTTP/1.1.
#[test]
fn curl_that_asks_for_http_2_gets_the_page() {
    for (served, url) in origins() {
        assert_eq!(served.curl(&["--http2", &url]), "home");
    }
}

#[test]
fn curl_uses_a_unix_socket() {
    let dir = site(&[("index.html", "home")]);
    let temp = readable_dir();
    let socket = temp.path().join("tarpon.sock");
    let address = format!("unix:{}", socket.display());
    let _program = RunningProgram::start_ready(serve(dir.path(), &["--listen", &address]));
    let output = run_curl(dir.path(), &["--unix-socket", socket.to_str().unwrap(), "http://localhost/"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "home", "{output:?}");
}

const LARGE_LEN: usize = 5_000_000;

/// A server whose site is also the working directory of curl.
struct CurlServer {
    dir: TempDir,
    tls: TestTls,
    program: RunningProgram,
}

/// Starts a server for each engine in turn.
fn servers() -> impl Iterator<Item = CurlServer> {
    ENGINES.iter().map(|engine| server_with(engine.name()))
}

fn server_with(engine: &str) -> CurlServer {
    // The test harness shows this if the test fails.
    println!("with {engine}");
    let dir = site(&[("index.html", &b"home"[..]), ("dir/index.html", b"in here")]);
    crate::common::write_files(dir.path(), &[("large", distinct_bytes(LARGE_LEN))]);
    let many: Vec<_> =
        (0..100).map(|number| (format!("many/{number}"), format!("number {number}"))).collect();
    crate::common::write_files(dir.path(), &many);
    crate::common::write_files(dir.path(), &[("page.txt", "page ".repeat(100))]);
    let gzip = Command::new("gzip").args(["-k", "page.txt"]).current_dir(dir.path()).status();
    assert!(gzip.expect("gzip is missing").success());
    let tls = TestTls::new();
    let program = RunningProgram::start_ready(tls.serve(dir.path(), &["--engine", engine]));
    CurlServer { dir, tls, program }
}

/// Returns the origins of all servers, without TLS and with it.
fn origins() -> impl Iterator<Item = (Rc<CurlServer>, String)> {
    servers().map(Rc::new).flat_map(|served| served.urls().map(|url| (Rc::clone(&served), url)))
}

impl CurlServer {
    /// Returns the origin without TLS.
    fn url(&self) -> String {
        let [plain, _] = self.urls();
        plain
    }

    /// Returns the origins without TLS, and with it.
    fn urls(&self) -> [String; 2] {
        let addresses = self.program.addresses();
        [format!("http://{}", addresses[0]), format!("https://{}", addresses[1])]
    }

    /// Returns the path of a file of the site.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs curl, which must succeed, and returns its standard output.
    #[track_caller]
    fn curl(&self, options: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.run_curl(options);
        assert!(status.success(), "curl {options:?}: {status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    fn run_curl(&self, options: &[&str]) -> Output {
        let authority = self.tls.authority();
        run_curl(self.dir.path(), &[&["--cacert", authority.to_str().expect("UTF-8")], options].concat())
    }
}

fn run_curl(dir: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("curl");
    // `-q` ignores the user's .curlrc.
    command.args(["-q", "-sS", "--max-time", "20", "--noproxy", "*"]).args(options).current_dir(dir);
    command.output().expect("curl is missing: run tests/setup")
}
