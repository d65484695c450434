//! CGI programs, on every engine: in shell, Python, Perl and C.

#![cfg(target_os = "linux")]

use crate::common::{
    ENGINES,
    client::connected,
    has_http2,
    http2_stream::Http2Stream,
    page::BrowserPage,
    program::{RunningProgram, children, has_exited, process_name, serve, serve_config, tarpon},
    readable_dir, site, wait_for, write_files,
};
use rustix::process::{Pid, Signal};
use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread,
};
use tarpon::Engine;
use tempfile::TempDir;

/// A response.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    content: Vec<u8>,
    /// Its framing shows that nothing is missing.
    is_complete: bool,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }

    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Reads a response up to the end of its connection.
    fn read(stream: &mut impl Read) -> Reply {
        let mut bytes = Vec::new();
        // A connection that closes in the middle of a response may be reset.
        let _ = stream.read_to_end(&mut bytes);
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
        let bytes = bytes.strip_prefix(interim).unwrap_or(&bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {}", bytes.escape_ascii()));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let (status, rest) = (head[9..12].parse().expect("a status"), &bytes[end + 4..]);
        let mut reply = Reply { status, head, content: rest.to_vec(), is_complete: true };
        if reply.field("Transfer-Encoding").is_some() {
            let decoded = dechunked(rest);
            (reply.is_complete, reply.content) = (decoded.is_some(), decoded.unwrap_or_default());
        } else if let Some(len) = reply.field("Content-Length") {
            reply.is_complete = len.parse() == Ok(rest.len());
        }
        reply
    }
}

/// Returns the bytes of all chunks. `None`: some are missing.
fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let len = usize::from_str_radix(str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        content.extend(rest.get(line + 2..line + 2 + len)?);
        rest = rest.get(line + 2 + len + 2..)?;
        if len == 0 {
            return Some(content);
        }
    }
}

/// Sends a request with these fields and this content, and reads the response.
fn request(address: SocketAddr, line: &str, fields: &str, content: &[u8]) -> Reply {
    let stream = TcpStream::connect(address).expect("the server listens");
    request_on(stream, line, fields, content)
}

fn request_on(mut stream: impl Read + Write, line: &str, fields: &str, content: &[u8]) -> Reply {
    let head = format!("{line} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(&[head.as_bytes(), content].concat()).expect("the server reads");
    Reply::read(&mut stream)
}

/// Sends the requests of the other functions here, over HTTP/2 if that is `true`.
fn ask(address: SocketAddr, is_http2: bool, line: &str, content: &[u8]) -> Reply {
    let fields = match line.starts_with("POST") {
        true => format!("Content-Length: {}\r\n", content.len()),
        false => String::new(),
    };
    match is_http2 {
        false => request(address, line, &fields, content),
        true => request_on(Http2Stream::new(connected(address)), line, &fields, content),
    }
}

fn get(address: SocketAddr, target: &str) -> Reply {
    request(address, &format!("GET {target}"), "", b"")
}

fn post(address: SocketAddr, target: &str, content: &[u8]) -> Reply {
    request(address, &format!("POST {target}"), &format!("Content-Length: {}\r\n", content.len()), content)
}

/// Programs, and a site.
struct Programs {
    bin: TempDir,
    site: TempDir,
}

/// Prints its standard input: the whole response, head included.
const RAW: (&str, &str) = ("raw", "#!/bin/sh\nexec cat\n");

/// Prints its variables.
const ENV: (&str, &str) = ("env", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec env\n");

impl Programs {
    fn new(programs: &[(&str, &str)]) -> Programs {
        let (bin, site) = (readable_dir(), site(&[("index.html", "home")]));
        for (name, text) in programs {
            write_program(&bin.path().join(name), text);
        }
        Programs { bin, site }
    }

    fn command(&self, options: &[&str]) -> Command {
        let cgi = format!("/cgi-bin/={}", self.bin.path().to_str().expect("a name"));
        let options = [&["--cgi", &cgi][..], cgi_user(), options].concat();
        serve(self.site.path(), &options)
    }

    fn start(&self, options: &[&str]) -> RunningProgram {
        RunningProgram::start_ready(self.command(options))
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of this user");
}

/// Returns the options that name a user for programs, which root must.
fn cgi_user() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["--cgi-user", "daemon"] } else { &[] }
}

/// Returns the process of the helper.
fn helper(program: &RunningProgram) -> Pid {
    wait_for("the helper", || {
        // One that has exited may not be reaped yet.
        let is_helper = |&pid: &Pid| process_name(pid).as_deref() == Some("tarpon-cgi") && !has_exited(pid);
        program.child_pids().into_iter().find(is_helper)
    })
}

/// Writes a program in C.
fn write_c_program(bin: &Path, name: &str, text: &str) {
    let source = bin.join("source.c");
    fs::write(&source, text).expect("a file");
    let status = Command::new("cc").arg("-O1").arg("-o").arg(bin.join(name)).arg(&source).status();
    assert!(status.expect("a compiler").success());
    fs::remove_file(source).expect("a file");
}

const PYTHON: &str = "#!/usr/bin/env python3
import os, sys
body = sys.stdin.buffer.read(int(os.environ.get('CONTENT_LENGTH', 0)))
print('Content-Type: text/plain\\nX-Language: python\\n')
sys.stdout.flush()
sys.stdout.buffer.write(os.environ['REQUEST_METHOD'].encode() + b' ' + body)
";
const PERL: &str = "#!/usr/bin/perl
read(STDIN, my $body, $ENV{CONTENT_LENGTH} || 0);
print \"Content-Type: text/plain\\r\\nX-Language: perl\\r\\n\\r\\n$ENV{REQUEST_METHOD} $body\";
";
const SHELL: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\nX-Language: sh\\n\\n%s ' \"$REQUEST_METHOD\"
cat
";
const C: &str = "#include <stdio.h>
#include <stdlib.h>
int main(void) {
    int byte;
    printf(\"Content-Type: text/plain\\nX-Language: c\\n\\n%s \", getenv(\"REQUEST_METHOD\"));
    while ((byte = getchar()) != EOF) putchar(byte);
}
";

#[test]
fn programs_in_several_languages_answer_on_every_engine() {
    let programs = Programs::new(&[("python", PYTHON), ("perl", PERL), ("sh", SHELL)]);
    write_c_program(programs.bin.path(), "c", C);
    let second = Programs::new(&[("other", SHELL)]);
    let other = format!("/other={}", second.bin.path().to_str().expect("a name"));
    for &engine in ENGINES {
        let served = programs.start(&["--engine", engine.name(), "--workers", "1", "--cgi", &other]);
        let address = served.address();
        for language in ["python", "perl", "sh", "c"] {
            let target = format!("/cgi-bin/{language}");
            for is_http2 in [false, true].into_iter().filter(|is_http2| !is_http2 || has_http2(engine)) {
                let place = format!("{engine:?}, {language}, HTTP/2: {is_http2}");
                let reply = ask(address, is_http2, &format!("GET {target}"), b"");
                assert_eq!((reply.status, &*reply.text()), (200, "GET "), "{place}");
                assert_eq!(reply.field("X-Language"), Some(language), "{place}");
                // More than all buffers between client and program hold.
                let content: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
                let reply = ask(address, is_http2, &format!("POST {target}"), &content);
                assert!(reply.is_complete && reply.content[5..] == content, "{place}");
                let reply = ask(address, is_http2, &format!("HEAD {target}"), b"");
                assert_eq!((reply.status, reply.content.len()), (200, 0), "{place}");
            }
        }
        // One connection: two mounts, the site, and an unknown method.
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let requests =
            ["GET /cgi-bin/sh", "GET /other/other", "GET /", "PURGE /cgi-bin/sh", "GET /cgi-bin/none"];
        let requests = requests.map(|line| format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")).concat();
        stream.write_all(requests.as_bytes()).expect("the server reads");
        // The server keeps the connection after the page for 404.
        stream.shutdown(Shutdown::Write).expect("an open connection");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("text");
        let statuses: Vec<_> = all.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect();
        assert_eq!(statuses, ["200", "200", "200", "200", "404"], "{engine:?}: {all}");
        assert!(all.contains("PURGE ") && all.contains("home"), "{engine:?}: {all}");
    }
}

#[test]
fn environment_is_that_of_rfc_3875_and_nothing_else() {
    let programs = Programs::new(&[ENV]);
    let mut command =
        programs.command(&["--cgi-env", "TZ=UTC", "--cgi-env", "PASSED", "--cgi-env", "MISSING"]);
    command.env("PASSED", "on").env("SECRET", "1").env("HTTP_PROXY", "http://inherited/");
    command.args(["--trusted-proxies", "127.0.0.1", "--client-address-from", "x-forwarded-for"]);
    let served = RunningProgram::start_ready(command);
    let fields = "Content-Type: text/x\r\nContent-Length: 2\r\nProxy: evil\r\nX_Under: 1\r\nAuthorization: Basic eA==\r\n\
                  X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
                  traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nCookie: a=1\r\nCookie: b=2\r\n";
    let reply = request(served.address(), "POST /cgi-bin/env/p%61th/%C3%A9?a=%20b", fields, b"ab");
    let text = reply.text();
    let (bin, root) = (programs.bin.path().to_str().unwrap(), programs.site.path().to_str().unwrap());
    let mut found: Vec<&str> = text.lines().filter(|line| !line.starts_with("PWD=")).collect();
    found.sort_unstable();
    let mut want = [
        "CONTENT_LENGTH=2",
        "CONTENT_TYPE=text/x",
        &format!("DOCUMENT_ROOT={root}"),
        "GATEWAY_INTERFACE=CGI/1.1",
        "HTTPS=on",
        "HTTP_COOKIE=a=1; b=2",
        "HTTP_HOST=example.org",
        "HTTP_TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "HTTP_X_FORWARDED_FOR=192.0.2.7",
        "HTTP_X_FORWARDED_PROTO=https",
        "PASSED=on",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "PATH_INFO=/path/é",
        &format!("PATH_TRANSLATED={root}/path/é"),
        "QUERY_STRING=a=%20b",
        "REMOTE_ADDR=192.0.2.7",
        "REMOTE_HOST=192.0.2.7",
        "REQUEST_METHOD=POST",
        "REQUEST_SCHEME=https",
        "REQUEST_URI=/cgi-bin/env/p%61th/%C3%A9?a=%20b",
        &format!("SCRIPT_FILENAME={bin}/env"),
        "SCRIPT_NAME=/cgi-bin/env",
        "SERVER_NAME=example.org",
        "SERVER_PORT=443",
        "SERVER_PROTOCOL=HTTP/1.1",
        &format!("SERVER_SOFTWARE=tarpon/{}", env!("CARGO_PKG_VERSION")),
        "TZ=UTC",
    ];
    want.sort_unstable();
    assert_eq!(found, want);
    // A client that no proxy has named has a port.
    let mut stream = TcpStream::connect(served.address()).expect("the server listens");
    stream.write_all(b"GET /cgi-bin/env HTTP/1.0\r\n\r\n").expect("the server reads");
    let text = Reply::read(&mut stream).text();
    let port = stream.local_addr().expect("an address").port();
    assert!(text.contains("\nREMOTE_ADDR=127.0.0.1\n"), "{text}");
    assert!(text.contains(&format!("\nREMOTE_PORT={port}\n")), "{text}");
}

#[test]
fn heads_and_lengths_of_programs_are_checked() {
    let programs = Programs::new(&[RAW]);
    let served = programs.start(&[]);
    #[rustfmt::skip]
    let cases: &[(&str, &str, u16, Option<&str>)] = &[
        // case                     output of the program                                    status  content; none: incomplete
        ("usual",                   "Content-Type: a/b\n\nhello",                            200,    Some("hello")),
        ("status",                  "Status: 404 Gone\nContent-Type: a/b\n\nhello",          404,    Some("hello")),
        ("unknown status",          "Status: 299 Fine\nContent-Type: a/b\n\nhello",          299,    Some("hello")),
        ("no content",              "Status: 204\n\n",                                       204,    Some("")),
        ("content without need",    "Status: 204\n\nhello",                                  204,    Some("")),
        ("redirect",                "Location: https://example.net/\n\n",                    302,    Some("")),
        ("redirect with a status",  "Status: 301\nLocation: /a\nContent-Type: a/b\n\nmoved", 301,    Some("moved")),
        ("length",                  "Content-Type: a/b\nContent-Length: 5\n\nhello",         200,    Some("hello")),
        ("length and more",         "Content-Type: a/b\nContent-Length: 2\n\nhello",         200,    Some("he")),
        ("length and less",         "Content-Type: a/b\nContent-Length: 9\n\nhello",         200,    None),
        ("no content at all",       "Content-Type: a/b\n\n",                                 200,    Some("")),
        ("its connection",          "Content-Type: a/b\nConnection: x\nTransfer-Encoding: chunked\nKeep-Alive: 1\n\n0", 200, Some("0")),
        ("nothing",                 "",                                                      502,    Some("page")),
        ("no empty line",           "Content-Type: a/b\n",                                   502,    Some("page")),
        ("text",                    "hello\n",                                               502,    Some("page")),
        ("a status line",           "HTTP/1.1 200 OK\nContent-Type: a/b\n\nhello",           502,    Some("page")),
        ("content without type",    "Status: 200\n\nhello",                                  502,    Some("page")),
        ("a line break in a value", "Content-Type: a/b\nX: a\rY: b\n\nhello",                502,    Some("page")),
        ("two lengths",             "Content-Type: a/b\nContent-Length: 1\nContent-Length: 2\n\n", 502, Some("page")),
        ("interim",                 "Status: 100\n\n",                                       502,    Some("page")),
    ];
    let both = cases.iter().flat_map(|case| [(case, false), (case, true)]);
    for ((name, output, status, content), is_http2) in both {
        let name = format!("{name}, HTTP/2: {is_http2}");
        let reply = ask(served.address(), is_http2, "POST /cgi-bin/raw", output.as_bytes());
        assert_eq!(reply.status, *status, "{name}: {}", reply.head);
        match content {
            Some("page") => assert!(reply.is_complete && reply.text().contains("502"), "{name}"),
            Some(content) => {
                assert_eq!((&*reply.text(), reply.is_complete), (*content, true), "{name}: {}", reply.head)
            }
            None => assert!(!reply.is_complete, "{name}"),
        }
        assert!(!reply.head.contains("Keep-Alive"), "{name}");
    }
    let two = b"Content-Type: a/b\nSet-Cookie: a=1\nSet-Cookie: b=2\n\n";
    let head = post(served.address(), "/cgi-bin/raw", two).head;
    assert!(head.contains("set-cookie: a=1\r\nset-cookie: b=2"), "{head}");
    // Content of unknown length is collected, and a client that waits for 100 (Continue) gets it.
    let chunked = b"1d\r\nContent-Type: text/plain\n\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    let fields = "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n";
    assert_eq!(request(served.address(), "POST /cgi-bin/raw", fields, chunked).text(), "hello");
    // Over HTTP/2 too: without it, curl would wait longer than it may take.
    let curl = Command::new("curl")
        .args(["-q", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "--max-time", "20"])
        .args(["--expect100-timeout", "30", "-H", "Expect: 100-continue"])
        .args(["--data-binary", "Content-Type: text/plain\n\nhello"])
        .arg(format!("http://{}/cgi-bin/raw", served.address()))
        .output()
        .expect("curl");
    assert!(curl.status.success() && curl.stdout == b"hello", "{curl:?}");
    let long =
        [format!("{:x}\r\n", 100_000).into_bytes(), vec![b'x'; 100_000], b"\r\n0\r\n\r\n".to_vec()].concat();
    let reply = request(served.address(), "POST /cgi-bin/raw", "Transfer-Encoding: chunked\r\n", &long);
    assert_eq!(reply.status, 411);
}

#[test]
fn failing_programs_are_answered_logged_and_leave_no_process() {
    let programs = Programs::new(&[
        ("crash", "#!/bin/sh\nkill -SEGV $$\n"),
        ("crash-later", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nhello'\nkill -SEGV $$\n"),
        ("status", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nhello'\nexit 3\n"),
        ("silent", "#!/bin/sh\nsleep 1000 & sleep 1000\n"),
        ("stuck", "#!/bin/sh\ntrap '' TERM PIPE HUP\nprintf 'Content-Type: a/b\\n\\nhello'\nsleep 1000\n"),
        ("child", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nhello'\nsleep 1000 &\n"),
        ("endless", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n'\nexec cat /dev/zero\n"),
        ("busy", "#!/bin/sh\nwhile :; do :; done\n"),
        (
            "error",
            "#!/bin/sh\nprintf 'one\\033[31m\\n' >&2\nhead -c 5000 /dev/zero | tr '\\0' x >&2\necho >&2\nprintf 'Content-Type: a/b\\n\\n'\n",
        ),
        ("interpreter", "#!/no/such/interpreter\n"),
        ("plain", "hello\n"),
    ]);
    let served =
        programs.start(&["--cgi-timeout", "1s", "--cgi-max-output", "1MiB", "--cgi-max-cpu-time", "1s"]);
    #[rustfmt::skip]
    let cases: &[(&str, u16, bool)] = &[
        // program      status  complete
        ("crash",       502,    true),
        ("crash-later", 200,    false),
        ("status",      200,    true),
        ("silent",      504,    true),
        ("stuck",       200,    false),
        ("child",       200,    true),
        ("endless",     200,    false),
        ("busy",        50,     true),
        ("error",       200,    true),
        ("interpreter", 502,    true),
        ("plain",       502,    true),
    ];
    let address = served.address();
    thread::scope(|scope| {
        for (name, status, is_complete) in cases {
            scope.spawn(move || {
                let reply = get(address, &format!("/cgi-bin/{name}"));
                // The time of the processor may be over before or after that without progress.
                let found = if *name == "busy" { reply.status / 10 } else { reply.status };
                assert_eq!((found, reply.is_complete), (*status, *is_complete), "{name}");
            });
        }
    });
    let err = wait_for("the messages", || {
        let err = served.err();
        let all = [
            "CGI program /cgi-bin/crash: it was killed by signal 11 before the head",
            "CGI program /cgi-bin/crash-later: it was killed by signal 11 in the middle",
            "CGI program /cgi-bin/silent: killed after 1s without progress",
            "CGI program /cgi-bin/endless: more output than cgi-max-output allows",
            "CGI program /cgi-bin/error: one\\x1b[31m\n",
            "CGI program /cgi-bin/interpreter: cannot start: no such file",
            "CGI program /cgi-bin/plain: cannot start: exec format error",
        ];
        all.iter().all(|part| err.contains(part)).then_some(err)
    });
    let long = err.lines().find(|line| line.contains("xxxx")).expect("a line");
    assert!(long.ends_with("x…") && long.len() < 1200, "{long}");
    let helper = helper(&served);
    wait_for("no program is left", || children(helper).is_empty().then_some(()));
    let metrics = |name: &str| err.matches(name).count();
    assert!(metrics("CGI program") >= 7);
}

/// Returns the number of descriptors of a process.
fn descriptor_count(pid: Pid) -> usize {
    fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("a process").count()
}

#[test]
fn many_requests_at_once_leave_no_process_and_no_descriptor() {
    let programs = Programs::new(&[]);
    write_c_program(programs.bin.path(), "c", C);
    for engine in [Engine::Auto, Engine::Prefork] {
        let served =
            programs.start(&["--engine", engine.name(), "--workers", "2", "--cgi-max-programs", "8"]);
        let address = served.address();
        let helper = helper(&served);
        let before = descriptor_count(helper);
        thread::scope(|scope| {
            for client in 0..32 {
                scope.spawn(move || {
                    for number in 0..if engine == Engine::Auto { 32 } else { 8 } {
                        let reply = match (client + number) % 4 {
                            // Gone before its response.
                            0 => {
                                let mut stream = TcpStream::connect(address).unwrap();
                                stream
                                    .write_all(
                                        b"POST /cgi-bin/c HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
                                    )
                                    .unwrap();
                                continue;
                            }
                            _ => post(address, "/cgi-bin/c", b"hello"),
                        };
                        assert_eq!((reply.status, &*reply.text()), (200, "POST hello"), "{engine:?}");
                    }
                });
            }
        });
        wait_for("no program is left", || children(helper).is_empty().then_some(()));
        // Idle connections of workers close after some seconds.
        wait_for("no descriptor is left", || (descriptor_count(helper) == before).then_some(()));
    }
}

#[test]
fn stopping_and_reloading_ends_programs_and_changes_mounts() {
    let programs = Programs::new(&[
        ("wait", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nhello'\nsleep 1000 & sleep 1000\n"),
        ("sh", SHELL),
    ]);
    let config = |mount: &str| {
        let user = if cgi_user().is_empty() { "" } else { "cgi-user = \"daemon\"\n" };
        let (site, bin) = (programs.site.path(), programs.bin.path().to_str().unwrap());
        format!(
            "[[site]]\npath = {site:?}\ncgi = [\"{mount}={bin}\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\ngrace-period = \"1s\"\n{user}"
        )
    };
    let dir = readable_dir();
    let served = RunningProgram::start_ready(serve_config(&config("/one"), dir.path(), &[]));
    let address = served.address();
    assert_eq!(get(address, "/one/sh").text(), "GET ");
    assert_eq!(get(address, "/two/sh").status, 404);
    let begin = |target: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"hello\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            received.extend(byte);
        }
        stream
    };
    let _client = begin("/one/wait");
    let first = helper(&served);
    let running = children(first);
    assert_eq!(running.len(), 1);
    fs::write(dir.path().join("tarpon.toml"), config("/two")).unwrap();
    served.signal(Signal::HUP);
    wait_for("the new mount", || (get(address, "/two/sh").status == 200).then_some(()));
    // The server that drains may still accept a client.
    wait_for("the end of the former mount", || (get(address, "/one/sh").status == 404).then_some(()));
    // The program of the former configuration ends within the grace period, with all that it has started.
    wait_for("the former helper exits", || (!is_running(first)).then_some(()));
    let _client = begin("/two/wait");
    let second = helper(&served);
    let descendants = wait_for("the program and its two children", || {
        let program = children(second);
        let started = children(*program.first()?);
        (started.len() == 2).then(|| [program, started].concat())
    });
    served.signal(Signal::TERM);
    assert!(served.wait().status.success());
    for pid in running.into_iter().chain(descendants) {
        wait_for("the program exits", || (!is_running(pid)).then_some(()));
    }
}

/// Returns whether a process runs: it is there, and no zombie.
fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

#[test]
fn killed_helper_is_replaced_and_its_programs_end() {
    let programs = Programs::new(&[("sh", SHELL)]);
    let served = programs.start(&[]);
    assert_eq!(get(served.address(), "/cgi-bin/sh").text(), "GET ");
    let first = helper(&served);
    let mut stream = TcpStream::connect(served.address()).unwrap();
    stream.write_all(b"POST /cgi-bin/sh HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").unwrap();
    let program = wait_for("the program", || children(first).pop());
    rustix::process::kill_process(first, Signal::KILL).unwrap();
    wait_for("the program exits", || (!is_running(program)).then_some(()));
    // A request without a helper waits for the next one.
    assert_eq!(get(served.address(), "/cgi-bin/sh").text(), "GET ");
    assert!(helper(&served) != first);
}

#[test]
fn source_of_a_program_is_never_served() {
    let dir = site(&[("index.html", "home"), ("sub/text.txt", "text")]);
    fs::create_dir_all(dir.path().join("bin")).unwrap();
    for path in ["a.cgi", "sub/b.cgi", "bin/c"] {
        write_program(
            &dir.path().join(path),
            "#!/bin/sh\n# source\nprintf 'Content-Type: text/plain\\n\\n%s' \"$PATH_INFO\"\n",
        );
    }
    fs::write(dir.path().join("sub/not-executable.cgi"), "source").unwrap();
    for (link, target) in
        [("link.txt", "a.cgi"), ("link-dir", "bin"), ("other.txt", "bin/c"), ("x.cgi", "sub/text.txt")]
    {
        std::os::unix::fs::symlink(target, dir.path().join(link)).unwrap();
    }
    let bin = format!("/run={}", dir.path().join("bin").to_str().unwrap());
    let options =
        [&["--cgi-suffix", ".cgi", "--cgi", &bin, "--listings", "--clean-urls"][..], cgi_user()].concat();
    let served = RunningProgram::start_ready(serve(dir.path(), &options));
    #[rustfmt::skip]
    let cases: &[(&str, u16, &str)] = &[
        ("/a.cgi",                     200, ""),
        ("/a.cgi/x/y",                 200, "/x/y"),
        ("/sub/b.cgi/",                200, "/"),
        ("/%61.cgi",                   200, ""),
        ("/a%2ecgi/x",                 200, "/x"),
        ("/sub/../a.cgi",              200, ""),
        ("/run/c/z",                   200, "/z"),
        ("/sub/text.txt",              200, "text"),
        ("/bin/c",                     404, "page"),
        ("/link.txt",                  404, "page"),
        ("/other.txt",                 404, "page"),
        ("/link-dir/c",                404, "page"),
        ("/x.cgi",                     403, "page"),
        ("/sub/not-executable.cgi",    403, "page"),
        ("/none.cgi",                  404, "page"),
        ("/sub/b.cgi%00",              404, "page"),
    ];
    for (target, status, content) in cases {
        let reply = get(served.address(), target);
        assert_eq!(reply.status, *status, "{target}: {}", reply.text());
        assert!(!reply.text().contains("source"), "{target}");
        assert!(*content == "page" || reply.text() == *content, "{target}: {}", reply.text());
    }
}

#[test]
fn packed_site_has_no_programs() {
    let dir = site(&[
        ("index.html", "home"),
        ("a.cgi", "source of a"),
        ("sub/b.cgi", "source of b"),
        ("bin/c", "source of c"),
    ]);
    std::os::unix::fs::symlink("a.cgi", dir.path().join("link.txt")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let (source, tar, config) = (dir.path().to_str().unwrap(), path("files.tar"), path("tarpon.toml"));
    assert!(Command::new("tar").args(["-cf", &tar, "-C", source, "."]).status().unwrap().success());
    let text = format!("[[site]]\npath = {source:?}\ncgi-suffix = \".cgi\"\ncgi = [\"/run={source}/bin\"]\n");
    fs::write(&config, text).unwrap();
    #[rustfmt::skip]
    let cases: &[(&str, &str, &[&str], &str)] = &[
        // case                      packed   options                     programs that it has
        ("no option",                source,  &[],                        "abc"),
        ("a suffix",                 source,  &["--cgi-suffix", ".cgi"],  "c"),
        ("a suffix, of an archive",  &tar,    &["--cgi-suffix", ".cgi"],  "c"),
        ("a file",                   source,  &["--config", &config],     ""),
    ];
    for (name, from, options, want) in cases {
        let target = path("site.tar");
        let output = tarpon(["pack", from, "-o", &target].map(OsStr::new)).args(*options).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let packed = fs::read(&target).unwrap();
        let has = |text: &str| packed.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(has("home"), "{name}");
        for program in ["a", "b", "c"] {
            assert_eq!(has(&format!("source of {program}")), want.contains(program), "{name}: {program}");
        }
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn mistakes_in_the_configuration_are_errors_with_a_hint() {
    let programs = Programs::new(&[("sh", SHELL)]);
    let (site, bin) = (programs.site.path().to_str().unwrap(), programs.bin.path().to_str().unwrap());
    let run = |options: &[&str]| {
        let mut command =
            tarpon(["serve", site, "--listen", "127.0.0.1:0", "--admin", "off"].map(OsStr::new));
        command.args(options);
        let exit = RunningProgram::run(command);
        assert!(!exit.status.success(), "{options:?}");
        exit.err
    };
    let mount = format!("/cgi-bin/={bin}");
    let missing = format!("/cgi-bin/={bin}/none");
    let with_user = |options: &[&str]| run(&[cgi_user(), options].concat());
    assert!(with_user(&["--cgi", &missing]).contains("create the directory"));
    assert!(with_user(&["--cgi", &format!("/a={bin}/sh")]).contains("it is no directory"));
    assert!(with_user(&["--cgi", &mount, "--cgi", &mount]).contains("occurs twice"));
    assert!(run(&["--cgi", "/cgi-bin"]).contains("expected a path and a directory"));
    assert!(run(&["--cgi-env", "HTTP_PROXY=x"]).contains("expected NAME or NAME=value"));
    assert!(run(&["--cgi", &mount, "--cgi-user", "no-such-user"]).contains("the user does not exist"));
    if rustix::process::geteuid().is_root() {
        assert!(run(&["--cgi", &mount]).contains("set cgi-user"));
        assert!(run(&["--cgi", &mount, "--cgi-user", "root"]).contains("they must not run as root"));
        assert!(
            run(&["--cgi", &mount, "--user", "daemon", "--cgi-user", "daemon"])
                .contains("the user of the server")
        );
        // The server could replace the programs.
        rustix::fs::chown(programs.bin.path(), Some(rustix::fs::Uid::from_raw(1)), None).unwrap();
        let why = run(&["--cgi", &mount, "--user", "daemon", "--cgi-user", "bin"]);
        assert!(why.contains("may change it"), "{why}");
        rustix::fs::chown(programs.bin.path(), Some(rustix::fs::Uid::ROOT), None).unwrap();
    }
    fs::set_permissions(programs.bin.path().join("sh"), fs::Permissions::from_mode(0o644)).unwrap();
    let config = programs.site.path().join("tarpon.toml");
    fs::write(&config, format!("[[site]]\npath = \".\"\ncgi = [\"{mount}\"]\n")).unwrap();
    let exit = RunningProgram::run(tarpon([
        "config".as_ref(),
        "check".as_ref(),
        "--config".as_ref(),
        config.as_os_str(),
    ]));
    assert!(format!("{}{}", exit.out, exit.err).contains("is not executable"), "{} {}", exit.out, exit.err);
}

#[test]
fn local_redirects_are_followed_on_every_engine() {
    let programs = Programs::new(&[RAW, ENV]);
    fs::write(programs.site.path().join("large.txt"), LARGE.repeat(50_000)).expect("a file");
    for &engine in ENGINES {
        let served = programs.start(&["--engine", engine.name()]);
        #[rustfmt::skip]
        let cases = [
            // output of the program                  status  content
            ("Location: /index.html?a=b\n\n",         200,    "home"),
            // Content in a file beside the image.
            ("Location: /large.txt\n\n",              200,    &*LARGE.repeat(50_000)),
            ("Location: /none\n\n",                   404,    "404"),
            ("Location: /cgi-bin/env?x=1\n\n",        200,    "QUERY_STRING=x=1\n"),
            // The program gets no content now, and so writes no head.
            ("Location: /cgi-bin/raw\n\n",            502,    "502"),
            ("Content-Type: a/b\n\nhello",            200,    "hello"),
        ];
        for (output, status, content) in cases {
            for is_http2 in [false, true].into_iter().filter(|is_http2| !is_http2 || has_http2(engine)) {
                let place = format!("{engine:?}, {output}, HTTP/2: {is_http2}");
                let reply = ask(served.address(), is_http2, "POST /cgi-bin/raw", output.as_bytes());
                assert_eq!((reply.status, reply.is_complete), (status, true), "{place}");
                assert!(reply.text().contains(content), "{place}");
            }
        }
        // On one connection, the next response begins where the redirected one ends.
        let mut stream = TcpStream::connect(served.address()).expect("the server listens");
        let redirect = "Location: /\n\n";
        let post = format!(
            "POST /cgi-bin/raw HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{redirect}",
            redirect.len()
        );
        let last = "GET /large.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all([&post, &*post, last].concat().as_bytes()).expect("the server reads");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("text");
        let contents: Vec<_> = all.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
        assert_eq!(contents.len(), 3, "{engine:?}");
        assert!(contents[..2].iter().all(|part| part.ends_with("\r\n\r\nhome")), "{engine:?}");
        assert!(contents[2].ends_with(&format!("\r\n\r\n{}", LARGE.repeat(50_000))), "{engine:?}");
    }
}

const LARGE: &str = "large ";

#[test]
fn programs_answer_over_tls_on_every_engine() {
    let programs = Programs::new(&[RAW, ENV]);
    let large = LARGE.repeat(50_000);
    fs::write(programs.site.path().join("large.txt"), &large).expect("a file");
    for &engine in ENGINES {
        let served = programs.start(&[
            "--engine",
            engine.name(),
            "--listen",
            "tls:127.0.0.1:0",
            "--tls",
            "self-signed",
        ]);
        let raw = format!("https://{}/cgi-bin/raw", served.address());
        let env = format!("https://{}/cgi-bin/env", served.address());
        let data = ["Location: /large.txt\n\n", "Content-Type: a/b\n\nhello", "a=b"];
        let options = ["--silent", "--insecure", "--show-error"];
        // On one connection.
        let mut curl = Command::new("curl");
        for (data, url) in data.iter().zip([&raw, &raw, &env]) {
            curl.args(options).args(["--data-binary", data, url, "--next"]);
        }
        let output = curl.args(options).arg(&env).output().expect("curl");
        let text = String::from_utf8_lossy(&output.stdout);
        let rest = text.strip_prefix(&large).and_then(|rest| rest.strip_prefix("hello"));
        let rest = rest.unwrap_or_else(|| panic!("{engine:?}: {output:?}"));
        for line in ["HTTPS=on\n", "REQUEST_SCHEME=https\n", "CONTENT_LENGTH=3\n", "REQUEST_METHOD=GET\n"] {
            assert!(rest.contains(line), "{engine:?} {line}: {rest}");
        }
    }
}

#[test]
fn program_has_the_rights_of_its_user_and_its_limits() {
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ngrep -E '^(Uid|Groups|NoNewPrivs|CapEff|SigBlk|SigIgn):' /proc/self/status\n\
                kill -0 $PPID 2>/dev/null && echo 'reaches its parent'\nulimit -n\nulimit -c\nulimit -t\nls /proc/self/fd\n\
                echo direct > /dev/stdout\ncat /proc/$PPID/environ 2>/dev/null && echo 'reads its parent'\nexit 0\n";
    let programs = Programs::new(&[("rights", text)]);
    let served = programs.start(&["--cgi-max-open-files", "40", "--cgi-max-cpu-time", "9s"]);
    let reply = get(served.address(), "/cgi-bin/rights");
    let text = reply.text();
    for line in ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "SigBlk:\t0000000000000000"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // The C library keeps two real-time signals for itself.
    let ignored = text.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a line");
    let ignored = u64::from_str_radix(ignored, 16).expect("a mask");
    assert_eq!(ignored & 0x7fff_ffff, 0, "{text}");
    assert!(text.contains("\n40\n0\n9\n0\n1\n2\n3\ndirect\n"), "{text}");
    if rustix::process::geteuid().is_root() {
        assert!(text.contains("Uid:\t1\t1\t1\t1\n") && text.contains("Groups:\t1 \n"), "{text}");
        assert!(!text.contains("reads its parent"), "{text}");
    }
    // Landlock's scopes: Linux 6.12.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) >= (Some(6), Some(12)) {
        assert!(!text.contains("reaches its parent"), "{text}");
    }
}

/// Runs git in a directory, without the configuration of a user.
fn git(dir: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=A", "-c", "user.email=a@example.org"]).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.output().expect("git");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn cgit_shows_a_real_repository() {
    let (repositories, site) = (readable_dir(), site(&[("index.html", "home")]));
    let work = repositories.path().join("demo");
    fs::create_dir(&work).unwrap();
    git(&work, &["init", "--quiet"]);
    fs::write(work.join("README"), "hello\n".repeat(20_000)).unwrap();
    git(&work, &["add", "README"]);
    git(&work, &["commit", "--quiet", "--message", "the first commit"]);
    let config = repositories.path().join("cgitrc");
    let text = format!("scan-path={}\nvirtual-root=/git/cgit.cgi/\n", repositories.path().to_str().unwrap());
    fs::write(&config, text).unwrap();
    let environment = format!("CGIT_CONFIG={}", config.to_str().unwrap());
    let options = [&["--cgi", "/git/=/usr/lib/cgit", "--cgi-env", &environment][..], cgi_user()].concat();
    for &engine in ENGINES {
        let served = RunningProgram::start_ready(serve(
            site.path(),
            &[&options[..], &["--engine", engine.name()]].concat(),
        ));
        let page = |path: &str| get(served.address(), &format!("/git/cgit.cgi/{path}"));
        assert!(page("").text().contains("demo/.git"), "{engine:?}");
        let log = page("demo/.git/log/");
        assert!(log.is_complete && log.text().contains("the first commit"), "{engine:?}: {}", log.text());
        assert!(log.field("content-type").is_some_and(|of| of.starts_with("text/html")), "{engine:?}");
        let plain = page("demo/.git/plain/README");
        assert_eq!((plain.status, plain.content.len()), (200, 120_000), "{engine:?}");
        assert_eq!(page("demo/.git/plain/none").status, 404, "{engine:?}");
    }
}

#[test]
fn pages_of_cgit_have_their_style_and_lead_on_in_a_browser() {
    let (work, site) = (
        readable_dir(),
        site(&[
            ("cgit.html", include_str!("browser/cgit.html")),
            ("cgit.js", include_str!("browser/cgit.js")),
            ("render.js", include_str!("browser/render.js")),
        ]),
    );
    let git = |arguments: &[&str]| git(work.path(), arguments);
    git(&["init", "--quiet", "--initial-branch=main"]);
    write_files(work.path(), &[("README", "one\ntwo\nthree\n"), ("notes/a b #1 100%25+é.txt", "päper\n")]);
    git(&["add", "README", "notes"]);
    git(&["commit", "--quiet", "--message", "first & only"]);
    git(&["tag", "v1"]);
    fs::write(work.path().join("README"), "one\n<2> & more\nthree\n").unwrap();
    git(&["commit", "--quiet", "--all", "--message", "change a line"]);
    git(&["branch", "topic"]);

    let config = work.path().join("cgitrc");
    let repository = format!("repo.url=demo\nrepo.path={}/.git\n", work.path().to_str().unwrap());
    // With the paths of Debian's /etc/cgitrc.
    let text = "css=/cgit-css/cgit.css\nlogo=/cgit-css/cgit.png\nfavicon=/cgit-css/favicon.ico\n\
                virtual-root=/git/cgit.cgi/\nsnapshots=tar.gz\n";
    fs::write(&config, format!("{text}{repository}")).unwrap();
    let environment = format!("CGIT_CONFIG={}", config.to_str().unwrap());
    let sites = format!(
        "[[site]]\npath = {:?}\ncgi = [\"/git/=/usr/lib/cgit\"]\n\
         [[site]]\npath = \"/usr/share/cgit\"\nmount = \"/cgit-css\"\n",
        site.path()
    );
    for engine in [Engine::Auto, Engine::Prefork] {
        let options = [&["--cgi-env", &environment, "--engine", engine.name()], cgi_user()].concat();
        let dir = readable_dir();
        let served = RunningProgram::start_ready(serve_config(&sites, dir.path(), &options));
        let url = format!("http://{}/cgit.html", served.address());
        let page = BrowserPage::load(&url, &["--verdict", "#verdict"]);
        let file = "notes/a%20b%20%231%20100%2525+%c3%a9.txt";
        let want = [
            "",
            "demo/",
            "demo/log/",
            "demo/commit/?id=HASH",
            "demo/commit/?id=HASH&context=3&ignorews=0&dt=1",
            "demo/diff/?id=HASH&dt=1",
            "demo/tree/?id=HASH",
            "demo/tree/notes?id=HASH",
            &format!("demo/tree/{file}?id=HASH"),
            &format!("demo/log/{file}?id=HASH&qt=grep&q=first+%26+only"),
        ];
        let (pages, links) = page.verdict.split_once("\nlinks: ").unwrap_or_else(|| panic!("{page:?}"));
        assert_eq!(pages, want.map(|path| format!("/git/cgit.cgi/{path}")).join("\n"), "{engine:?}");
        assert!(links.parse::<u32>().is_ok_and(|count| count > 40), "{engine:?}: {links}");
        // The browser revalidates the style sheet and the logo for each page.
        let complete = page.count(r#""status": 200"#) + page.count(r#""status": 304"#);
        assert_eq!(complete, page.resources.len(), "{engine:?}: {page:?}");
        assert_eq!(page.count(r#""error": null"#), complete, "{engine:?}: {page:?}");
        assert_eq!((&*page.errors, served.err()), ("[]", String::new()), "{engine:?}");
    }
}
