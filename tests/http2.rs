//! HTTP/2 with programs of others: curl, nghttp, h2spec, and h2 of Python. The engines that serve one connection at a time do not offer it.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    endpoint::TestTls,
    has_http2,
    http2_client::Http2Client,
    page::BrowserPage,
    program::{RunningProgram, serve, serve_config},
    sample::PICTURE,
    server::settings,
    site, wait_for, write_files,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tarpon::{Engine, Http2Use, Server, Settings, Site};
use tempfile::TempDir;

/// A length that takes many frames, and more than the first windows.
pub(crate) const LARGE_LEN: usize = 3_000_000;

/// The number of small files.
const MANY_COUNT: usize = 200;

/// Returns the letter of which a small file consists.
fn letter(number: usize) -> &'static str {
    let at = number % 26;
    &"abcdefghijklmnopqrstuvwxyz"[at..=at]
}

/// Returns the content of a small file.
pub(crate) fn many_content(number: usize) -> String {
    letter(number).repeat(number * 50)
}

/// A server with a listener without TLS and one with it.
pub(crate) struct Http2Server {
    dir: TempDir,
    pub(crate) tls: TestTls,
    pub(crate) program: RunningProgram,
}

pub(crate) fn engines() -> impl Iterator<Item = Engine> {
    ENGINES.iter().copied().filter(|engine| has_http2(*engine))
}

impl Http2Server {
    pub(crate) fn start(engine: Engine, options: &[&str]) -> Http2Server {
        // The test harness shows this if the test fails.
        println!("with {engine}");
        let dir = site(&[("index.html", &b"home"[..]), ("dir/index.html", b"in here"), ("empty.txt", b"")]);
        write_files(dir.path(), &[("large", distinct_bytes(LARGE_LEN)), ("page.txt", b"page ".repeat(100))]);
        let many: Vec<_> =
            (0..MANY_COUNT).map(|number| (format!("many/{number}"), many_content(number))).collect();
        write_files(dir.path(), &many);
        write_files(dir.path(), &[("_redirects", "/old/:x /new/:x 302\n")]);
        let tls = TestTls::new();
        let options = [&["--engine", engine.name()], options].concat();
        let program = RunningProgram::start_ready(tls.serve(dir.path(), &options));
        Http2Server { dir, tls, program }
    }

    /// Returns the origins without TLS, and with it.
    pub(crate) fn origins(&self) -> [String; 2] {
        let addresses = self.program.addresses();
        [format!("http://{}", addresses[0]), format!("https://{}", addresses[1])]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn curl(&self, options: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.curl_command(options).output().expect("curl");
        assert!(status.success(), "curl {options:?}: {status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }

    fn curl_command(&self, options: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command
            .args(["-q", "-sS", "--max-time", "20", "--noproxy", "*", "--cacert"])
            .arg(self.tls.authority());
        command.args(options).current_dir(self.dir.path());
        command
    }
}

/// Returns the options with which curl speaks HTTP/2 to an origin.
fn over_http2(origin: &str) -> &'static str {
    if origin.starts_with("https") { "--http2" } else { "--http2-prior-knowledge" }
}

#[test]
fn curl_gets_the_same_as_over_http1() {
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str)] = &[
        // case                    options                                     target
        ("a page",                 &[],                                        "/"),
        ("HEAD",                   &["-I", "-o", "/dev/null"],                     "/page.txt"),
        ("an empty file",          &[],                                        "/empty.txt"),
        ("a directory",            &[],                                        "/dir"),
        ("a query",                &[],                                        "/dir?a=b&c"),
        ("a rule",                 &[],                                        "/old/one"),
        ("nothing",                &[],                                        "/none"),
        ("a path to normalize",    &["--path-as-is"],                          "/x/../page.txt"),
        ("a range",                &["-r", "5-9"],                             "/page.txt"),
        ("ranges",                 &["-r", "0-9,100-109,-3"],                  "/page.txt"),
        ("no such range",          &["-r", "90000-"],                          "/page.txt"),
        ("a date",                 &["-z", "index.html"],                      "/"),
        ("not modified",           &["-H", "If-None-Match: *"],                "/page.txt"),
        ("a precondition fails",   &["-H", "If-Match: \"x\""],                 "/page.txt"),
        ("content",                &["-d", "some content"],                    "/"),
        ("long content",           &["-d", "@large"],                          "/"),
        ("an unknown method",      &["-X", "BREW"],                            "/"),
        ("OPTIONS",                &["-X", "OPTIONS"],                         "/"),
        ("a large file",           &["-o", "saved", "-w", "%{size_download}"], "/large"),
    ];
    for engine in engines() {
        let served = Http2Server::start(engine, &[]);
        for origin in served.origins() {
            for (case, options, target) in cases {
                let url = format!("{origin}{target}");
                let [mut first, mut second] = ["--http1.1", over_http2(&origin)].map(|version| {
                    let shown = served.curl(&[&["-D", "-", version, &url], *options].concat());
                    // The status line, and the names of fields, are those of the version.
                    let (head, content) = shown.split_once("\r\n\r\n").unwrap_or((&shown, ""));
                    let mut lines = head.split("\r\n");
                    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("none");
                    let fields = lines.map(|line| {
                        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
                        (name.to_lowercase(), value.to_owned())
                    });
                    let fields = fields.filter(|(name, _)| !["date", "connection"].contains(&&**name));
                    let saved = fs::read(served.path("saved")).unwrap_or_default();
                    (status.to_owned(), fields.collect::<Vec<_>>(), content.to_owned(), saved)
                });
                // curl shows both the head of the response and that of the request it follows with -I.
                first.2.truncate(1_000_000);
                second.2.truncate(1_000_000);
                assert!(first == second, "{engine}, {origin}, {case}: {first:?} and {second:?}");
            }
            let version =
                served.curl(&["-o", "saved", "-w", "%{http_version}", over_http2(&origin), &origin]);
            assert_eq!(version, "2", "{engine}, {origin}");
            let saved = served.curl(&[over_http2(&origin), "-o", "saved", &format!("{origin}/large")]);
            assert!(saved.is_empty() && fs::read(served.path("saved")).unwrap() == distinct_bytes(LARGE_LEN));
        }
    }
}

#[test]
fn nghttp_gets_many_files_on_one_connection() {
    for engine in engines() {
        let served = Http2Server::start(engine, &[]);
        for origin in served.origins() {
            let urls = (0..MANY_COUNT).map(|number| format!("{origin}/many/{number}"));
            let mut command = Command::new("nghttp");
            let output = command.args(["--no-verify-peer", "--timeout=20"]).args(urls).output();
            let output = output.expect("nghttp is missing: run tests/setup");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            // It shows the contents as their parts arrive, mixed.
            for number in 0..26 {
                let wanted = letter(number).as_bytes()[0];
                let count = output.stdout.iter().filter(|byte| **byte == wanted).count();
                let want: usize = (number..MANY_COUNT).step_by(26).map(|number| number * 50).sum();
                assert_eq!(count, want, "{engine}, {origin}, {}", letter(number));
            }
        }
    }
}

#[test]
fn cuts_of_frames_do_not_change_what_python_gets() {
    /// The start of a page that the server has made.
    const PAGE: &str = "<!doctype html>";
    #[rustfmt::skip]
    let cases = [
        // request                                                                               status, content
        (json!({"method": "GET", "path": "/"}),                                                  200, "home"),
        (json!({"method": "GET", "path": "/page.txt", "fields": [["range", "bytes=5-9"]]}),      206, "page "),
        (json!({"method": "HEAD", "path": "/page.txt"}),                                         200, ""),
        (json!({"method": "GET", "path": "/page.txt", "fields": [["if-none-match", "*"]]}),      304, ""),
        (json!({"method": "GET", "path": "/dir?a=b"}),                                           301, PAGE),
        (json!({"method": "POST", "path": "/many/7", "content_length": 20}),                     405, PAGE),
    ];
    let requests: Vec<_> = cases.iter().map(|(request, ..)| request).collect();
    for engine in engines() {
        let served = Http2Server::start(engine, &[]);
        let address = served.program.addresses()[0];
        let arguments = [address.ip().to_string(), address.port().to_string()];
        let found = run_python("http2_cuts.py", &arguments, &served.tls, &json!(requests));
        assert!(found["script_len"].as_u64() > Some(200), "{engine}: {found}");
        for (at, (request, status, content)) in cases.iter().enumerate() {
            let response = &found["responses"][at];
            assert_eq!(response[0], *status, "{engine}, {request}: {response}");
            let text = response[2].as_str().expect("a text");
            let is_equal = text == *content || *content == PAGE && text.starts_with(PAGE);
            assert!(is_equal, "{engine}, {request}: {response}");
        }
    }
}

/// Runs a program of `tests/clients` with the package h2, and returns what it writes.
pub(crate) fn run_python(program: &str, arguments: &[String], tls: &TestTls, input: &Value) -> Value {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redbot/bin/python");
    let mut command = Command::new(&python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(program));
    command.args(arguments).env("SSL_CERT_FILE", tls.authority()).env("PYTHONDONTWRITEBYTECODE", "1");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child =
        child.unwrap_or_else(|error| panic!("{} is missing: run tests/setup: {error}", python.display()));
    // The program reads all before it writes.
    let mut requests = child.stdin.take().expect("a pipe");
    requests.write_all(input.to_string().as_bytes()).expect("a reader");
    drop(requests);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child");
    assert!(status.success(), "{program}: {}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).expect("JSON")
}

/// h2spec has 145 cases. One of them expects that a connection without TLS is closed if its first bytes are not the preface; where HTTP/1 is
/// served too, they are a request, which is answered with 400.
#[test]
fn h2spec_passes() {
    check_with_h2spec("on");
}

#[test]
fn h2spec_passes_with_http2_alone() {
    check_with_h2spec("only");
}

fn check_with_h2spec(http2: &str) {
    for engine in engines() {
        let served = Http2Server::start(engine, &["--http2", http2]);
        // With TLS the option makes no difference to a client that offers HTTP/2.
        let endpoint_count = if http2 == "only" { 1 } else { 2 };
        let endpoints = std::iter::zip(served.program.addresses(), [false, true]);
        for (address, has_tls) in endpoints.take(endpoint_count) {
            let report = served.path("report.xml");
            let mut command = Command::new(h2spec());
            command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-o", "10"]);
            command.args(if has_tls { &["-t", "-k"][..] } else { &[] }).arg("-j").arg(&report);
            let output = command.stdout(Stdio::null()).status().expect("h2spec");
            let report = fs::read_to_string(report).expect("a report");
            let failed = report.split("<testcase").skip(1).filter(|case| case.contains("<failure"));
            let failed: Vec<&str> = failed.filter_map(|case| case.split('"').nth(3)).collect();
            assert_eq!(report.matches("<testcase").count(), 145, "{engine}");
            match has_tls || http2 == "only" {
                true => assert!(output.success() && failed.is_empty(), "{engine}: {failed:?}"),
                // A client that has not read the answer when the connection closes sees a reset.
                false => {
                    let is_known = |case: &&str| *case == "Sends invalid connection preface";
                    assert!(failed.iter().all(is_known), "{engine}: {failed:?}");
                }
            }
        }
    }
}

/// Returns the program that tests/setup has installed.
fn h2spec() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("h2spec/h2spec");
    assert!(path.exists(), "{} is missing: run tests/setup", path.display());
    path
}

#[test]
fn a_stop_finishes_the_download_that_has_begun() {
    for engine in engines() {
        for index in 0..2 {
            let served = Http2Server::start(engine, &["--grace-period", "20s"]);
            let origin = served.origins()[index].clone();
            let url = format!("{origin}/large");
            let mut curl =
                served.curl_command(&[over_http2(&origin), "--limit-rate", "4M", "-o", "saved", &url]);
            let mut curl = curl.spawn().expect("curl");
            wait_for("the start of the download", || {
                fs::metadata(served.path("saved")).ok().filter(|saved| saved.len() > 0)
            });
            served.program.signal(Signal::TERM);
            assert!(curl.wait().expect("curl ends").success(), "{engine}, {origin}");
            assert!(
                fs::read(served.path("saved")).unwrap() == distinct_bytes(LARGE_LEN),
                "{engine}, {origin}"
            );
            let Http2Server { program, dir: _dir, .. } = served;
            assert!(program.wait().status.success(), "{engine}");
        }
    }
}

#[test]
fn http2_is_offered_as_the_engine_and_the_options_say() {
    for &engine in ENGINES {
        for options in [&[][..], &["--http2", "on"], &["--http2", "off"]] {
            let served = Http2Server::start(engine, options);
            let [plain, secure] = served.origins();
            let is_offered = has_http2(engine) && options.last() != Some(&"off");
            let version = served.curl(&["--http2", "-o", "saved", "-w", "%{http_version}", &secure]);
            assert_eq!(version, if is_offered { "2" } else { "1.1" }, "{engine} {options:?}");
            let output = served.curl_command(&["--http2-prior-knowledge", &plain]).output().expect("curl");
            assert_eq!(output.status.success(), is_offered, "{engine} {options:?}");
            // 28 is a timeout.
            assert_ne!(output.status.code(), Some(28), "{engine} {options:?}");
        }
    }
}

#[test]
fn each_listener_decides_about_http2() {
    let dir = site(&[("site/index.html", "home")]);
    let tls = TestTls::new();
    let [certificate, key] = tls.files();
    // With TLS, curl offers both versions unless it is to speak HTTP/1.1 alone.
    const BOTH: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];
    #[rustfmt::skip]
    let listeners: [(&str, &str, [Option<&str>; 2]); 6] = [
        // scheme, http2,  the versions that curl gets
        ("http",   "off",  [Some("1.1"), None]),
        ("http",   "only", [None,        Some("2")]),
        ("https",  "off",  [Some("1.1"), Some("1.1")]),
        ("https",  "only", [None,        Some("2")]),
        ("https",  "on",   [Some("1.1"), Some("2")]),
        ("https",  "",     [Some("1.1"), Some("2")]),
    ];
    for engine in engines() {
        for default in ["on", "off"] {
            let mut config = format!(
                "[[site]]\npath = \"site\"\n[server]\nengine = \"{engine}\"\nhttp2 = \"{default}\"\n\
                 tls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n",
                engine = engine.name()
            );
            for (number, (scheme, http2, _)) in listeners.iter().enumerate() {
                let tls = if *scheme == "https" { "tls:" } else { "" };
                config += &format!("[[listener]]\naddress = \"{tls}127.0.0.{}:0\"\n", number + 1);
                if !http2.is_empty() {
                    config += &format!("http2 = \"{http2}\"\n");
                }
            }
            let program =
                RunningProgram::start_ready(serve_config(&config, dir.path(), &["--log-format", "human"]));
            for (address, (scheme, http2, versions)) in std::iter::zip(program.addresses(), listeners) {
                let versions = match (http2, default) {
                    ("", "off") => [Some("1.1"); 2],
                    _ => versions,
                };
                for (option, want) in std::iter::zip(BOTH, versions) {
                    // The certificate is for this name.
                    let port = address.port();
                    let to = format!("localhost:{port}:{address}");
                    let output = Command::new("curl")
                        .args(["-q", "-sS", "--max-time", "20", "--noproxy", "*", "--cacert"])
                        .arg(tls.authority())
                        .args(["-o", "/dev/null", "-w", "%{http_version}", "--connect-to", &to, option])
                        .arg(format!("{scheme}://localhost:{port}/"))
                        .output()
                        .expect("curl");
                    let got = String::from_utf8_lossy(&output.stdout);
                    let got = output.status.success().then_some(&*got);
                    assert_eq!(got, want, "{engine}, {default}: {scheme}, {http2}, {option}");
                }
            }
        }
    }
}

/// How curl exits if the answer is not HTTP/1, if its connection is reset, and if the handshake fails.
const CURL_REFUSED: [i32; 3] = [1, 56, 35];

#[test]
fn http2_alone_refuses_clients_of_http1() {
    for engine in engines() {
        let served = Http2Server::start(engine, &["--http2", "only", "--health-path", "/healthz"]);
        let [plain, secure] = served.origins();
        for origin in [&plain, &secure] {
            for target in ["/", "/healthz"] {
                let url = format!("{origin}{target}");
                let options = [over_http2(origin), "-o", "saved", "-w", "%{http_version} %{http_code}", &url];
                assert_eq!(served.curl(&options), "2 200", "{engine}, {url}");
                for options in [&["--http1.1"][..], &["--http1.0"], &["--http1.1", "--no-alpn"]] {
                    let output = served.curl_command(&[options, &[&url]].concat()).output().expect("curl");
                    let code = output.status.code().unwrap_or_default();
                    assert!(CURL_REFUSED.contains(&code), "{engine}, {url}, {options:?}: {output:?}");
                }
            }
        }
        // The bytes: the settings of the server, and GOAWAY with PROTOCOL_ERROR.
        let mut client = TestClient::connect(served.program.addresses()[0]);
        client.send(get("/"));
        let (wire, mut frames) = (client.read_to_end(), Http2Client::default());
        frames.read(&wire);
        assert_eq!((&frames.go_aways[..], frames.streams.len()), (&[(0, 1)][..], 0), "{engine}");
        assert_eq!(served.program.err(), "", "{engine}");
    }
}

#[test]
fn engines_without_http2_do_not_serve_it_alone() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES.iter().filter(|engine| !has_http2(**engine)) {
        let ended = RunningProgram::run(serve(dir.path(), &["--engine", engine.name(), "--http2", "only"]));
        let want = format!("the engine {engine} does not offer HTTP/2");
        assert!(!ended.status.success() && ended.err.contains(&want), "{engine}: {ended:?}");
    }
    let settings = Settings { http2: Http2Use::Only, ..settings(Engine::Threads, 1) };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let site = Site::from_dir(dir.path()).expect("a site");
    let started = Server::start(&settings, vec![listener.try_into().expect("a listener")], site);
    let error = started.expect_err("an engine without HTTP/2").to_string();
    assert!(error.contains("cannot serve HTTP/2 alone with the engine threads"), "{error}");
}

/// The number of images of the page.
const IMAGE_COUNT: usize = 200;

/// The length of an image, in bytes.
const IMAGE_LEN: usize = 20_000;

#[test]
fn a_browser_gets_the_stylesheet_before_most_of_many_images() {
    let mut image = PICTURE.to_vec();
    // Decoders ignore what follows the last chunk.
    image.resize(IMAGE_LEN, 0);
    let page = include_str!("browser/images.html");
    let dir =
        site(&[("index.html", page.as_bytes()), ("image", &image), ("last.css", b"p { color: green }")]);
    write_files(dir.path(), &[("_headers", "/image\n  Content-Type: image/png\n")]);
    let tls = TestTls::new();
    let trusted = tls.public_key_hash();
    for engine in engines() {
        let options = ["--engine", engine.name()];
        let program = RunningProgram::start_ready(tls.serve(dir.path(), &options));
        let url = format!("https://{}/", program.addresses()[1]);
        let page = BrowserPage::load(&url, &["--verdict", "#verdict", "--trust-key", &trusted]);
        let order: Vec<&str> = page.verdict.lines().collect();
        let images = order.iter().filter(|line| **line == "h2 /image").count();
        assert_eq!((images, order.len()), (IMAGE_COUNT, IMAGE_COUNT + 1), "{engine}: {page:?}");
        let before = order.iter().position(|line| *line == "h2 /last.css");
        assert!(before.is_some_and(|before| before < IMAGE_COUNT / 2), "{engine}: {before:?} before it");
        assert_eq!((&*page.errors, program.err()), ("[]", String::new()), "{engine}");
    }
}
