//! The header, and programs in C and C++ that are built as users build them: installed, and through pkg-config.

#![allow(clippy::disallowed_methods, reason = "tests name their own files")]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

#[test]
fn header_is_that_of_the_crate() {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(root().join("src/text.rs"))
        .with_src(root().join("src/exchange.rs"))
        .with_src(root().join("src/stream.rs"))
        .with_src(root().join("src/server.rs"))
        .generate()
        .unwrap()
        .write(&mut header);
    let path = root().join("include/tarpon.h");
    if env::var_os("TARPON_WRITE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let want = fs::read(&path).unwrap_or_default();
    assert!(header == want, "{} is out of date: run this test with TARPON_WRITE_HEADER=1", path.display());
}

#[test]
fn programs_in_c_and_cpp_serve() {
    let installed = Installed::new();
    let hello = installed.build("c++", &["-std=c++17"], "hello.cc");
    let site = installed.build("cc", &["-std=c99", "-D_POSIX_C_SOURCE=200809L"], "site.c");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let packed = installed.0.path().join("site.tar");
    pack(dir.path(), &packed);
    let keys = tempfile::tempdir().unwrap();
    let tls = certificate(keys.path());
    for engine in ["epoll", "io_uring", "poll", "threads"] {
        check_hello(installed.run(&[], &hello, &["127.0.0.1:0", engine]));
        let arguments = ["127.0.0.1:0", engine, tls[0].to_str().unwrap(), tls[1].to_str().unwrap()];
        check_hello_over_tls(installed.run(&[], &hello, &arguments), &tls[0]);
        check_site(
            installed.run(&[], &site, &[packed.to_str().unwrap(), "127.0.0.1:0", engine]),
            Some(&packed),
        );
    }
    check_site(installed.run(&[], &site, &[dir.path().to_str().unwrap(), "127.0.0.1:0", "epoll"]), None);
    // Valgrind has no io_uring.
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    check_hello(installed.run(&valgrind, &hello, &["127.0.0.1:0", "epoll"]));
    check_site(
        installed.run(&valgrind, &site, &[packed.to_str().unwrap(), "127.0.0.1:0", "epoll"]),
        Some(&packed),
    );
    check_errors(&installed, &site, dir.path());
}

#[test]
fn program_with_the_static_library_serves() {
    let installed = Installed::new();
    let site = installed.build_static("cc", &["-std=c99", "-D_POSIX_C_SOURCE=200809L"], "site.c");
    // The program needs no shared library any more.
    fs::remove_file(installed.lib().join("libtarpon.so.0")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let packed = installed.0.path().join("site.tar");
    pack(dir.path(), &packed);
    check_site(installed.run(&[], &site, &[packed.to_str().unwrap(), "127.0.0.1:0", "epoll"]), Some(&packed));
}

/// Checks that errors are texts with a hint.
fn check_errors(installed: &Installed, site: &Path, dir: &Path) {
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], &str)] = &[
        // case               arguments                            on stderr
        ("no site",           &["/nowhere", "127.0.0.1:0"],        "/nowhere"),
        ("no such engine",    &["/", "127.0.0.1:0", "steam"],      "there is no engine steam"),
        ("no address",        &["/", "nothing"],                   "cannot listen at nothing"),
        ("processes",         &["DIR", "127.0.0.1:0", "prefork"],  "use the engine threads"),
    ];
    for (name, arguments, want) in cases {
        let arguments: Vec<_> =
            arguments.iter().map(|argument| argument.replace("DIR", dir.to_str().unwrap())).collect();
        let output = installed.command(&[], site, &arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(want), "{name}: {error}");
    }
}

/// The library, installed for one test: it is large.
struct Installed(TempDir);

impl Installed {
    fn new() -> Installed {
        let prefix = tempfile::tempdir().unwrap();
        // Cargo has built the library beside this test.
        let built = env::current_exe().unwrap().parent().unwrap().to_owned();
        run(Command::new(root().join("install")).arg(prefix.path()).arg(built));
        Installed(prefix)
    }

    fn lib(&self) -> PathBuf {
        self.0.path().join("lib")
    }

    /// Builds an example with the shared library. Returns the program.
    fn build(&self, compiler: &str, options: &[&str], source: &str) -> PathBuf {
        self.build_with(compiler, options, source, &self.flags(&[]))
    }

    /// Builds an example with the static library, as docs/embedding.md shows. Returns the program.
    fn build_static(&self, compiler: &str, options: &[&str], source: &str) -> PathBuf {
        let flags = self.flags(&["--static"]).replace("-ltarpon", "-l:libtarpon.a");
        self.build_with(compiler, options, source, &flags)
    }

    fn flags(&self, options: &[&str]) -> String {
        let mut flags = Command::new("pkg-config");
        flags.args(options).args(["--cflags", "--libs", "tarpon"]);
        flags.env("PKG_CONFIG_PATH", self.lib().join("pkgconfig"));
        String::from_utf8(flags.output().unwrap().stdout).unwrap()
    }

    fn build_with(&self, compiler: &str, options: &[&str], source: &str, flags: &str) -> PathBuf {
        let program = self.0.path().join(source.replace('.', "_"));
        let mut build = Command::new(compiler);
        build.args(options).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]);
        build.arg(root().join("examples").join(source)).arg("-o").arg(&program);
        run(build.args(flags.split_whitespace()));
        program
    }

    fn command(&self, wrapper: &[&str], program: &Path, arguments: &[impl AsRef<str>]) -> Command {
        let mut words = wrapper.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        words.push(program.to_str().unwrap().to_owned());
        words.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("LD_LIBRARY_PATH", self.lib());
        command
    }

    /// Runs a program until it has told its port.
    fn run(&self, wrapper: &[&str], program: &Path, arguments: &[&str]) -> RunningExampleServer {
        let mut child = self.command(wrapper, program, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (_, port) =
            line.trim_end().split_once("://127.0.0.1:").unwrap_or_else(|| panic!("{program:?}: {line}"));
        RunningExampleServer { child, port: port.trim_end_matches('/').parse().unwrap() }
    }
}

struct RunningExampleServer {
    child: Child,
    port: u16,
}

impl RunningExampleServer {
    /// Returns the response on a new connection.
    fn respond(&self, request: &str) -> String {
        String::from_utf8(self.respond_in_bytes(request)).unwrap()
    }

    fn respond_in_bytes(&self, request: &str) -> Vec<u8> {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        client.read_to_end(&mut response).unwrap();
        response
    }

    /// Stops the program. Its exit status is also that of valgrind.
    fn stop(mut self) {
        run(Command::new("kill").arg(self.child.id().to_string()));
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

fn check_hello(server: RunningExampleServer) {
    for target in ["/", "/any?where"] {
        let response =
            server.respond(&format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.contains("\r\nContent-Type: text/plain\r\n"), "{response}");
        assert!(response.ends_with("\r\nContent-Length: 12\r\n\r\nHello world\n"), "{response}");
    }
    server.stop();
}

fn check_hello_over_tls(server: RunningExampleServer, certificate: &Path) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--cacert"]).arg(certificate).arg(format!("https://127.0.0.1:{}/", server.port));
    let output = curl.output().unwrap();
    assert_eq!((output.status.success(), &output.stdout[..]), (true, &b"Hello world\n"[..]), "{output:?}");
    server.stop();
}

/// `packed`: the archive that is served. `None`: a directory is.
fn check_site(server: RunningExampleServer, packed: Option<&Path>) {
    let response = server.respond("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhome"), "{response}");
    let response = server.respond(
        "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhello"), "{response}");
    let response = server.respond("GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    // Contents that are longer than what the library holds of them.
    let len = 5_000_000;
    let head =
        format!("PUT /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n");
    let response = server.respond(&(head + &"x".repeat(len)));
    assert!(response.ends_with(&format!("\r\n\r\n{len}\n")), "{response}");
    let want: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    // Without chunks.
    let response = server.respond("GET /numbers?200000 HTTP/1.0\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with(&format!("\r\n\r\n{want}")));
    // A file: with its content for GET, and without for HEAD.
    let packed = packed.map(|packed| fs::read(packed).unwrap());
    for method in ["GET", "HEAD"] {
        let response = server
            .respond_in_bytes(&format!("{method} /archive HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let (head, content) = (str::from_utf8(&response[..end]).unwrap(), &response[end..]);
        match &packed {
            None => assert!(head.starts_with("HTTP/1.1 404 "), "{head}"),
            Some(packed) => {
                let len = format!("\r\ncontent-length: {}\r\n", packed.len());
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                assert!(head.to_lowercase().contains(&len), "{head}");
                assert!(content == if method == "HEAD" { &[] } else { &packed[..] }, "{method}");
            }
        }
    }
    // A client that leaves ends the writer, and its context is released.
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    client.write_all(b"GET /numbers?2000000000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    client.read_exact(&mut [0; 100]).unwrap();
    drop(client);
    server.stop();
}

/// Writes the files of a new certificate for 127.0.0.1, and of its key.
fn certificate(dir: &Path) -> [PathBuf; 2] {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = ["certificate", "key"].map(|name| dir.join(name));
    fs::write(&files[0], key.cert.pem()).unwrap();
    fs::write(&files[1], key.signing_key.serialize_pem()).unwrap();
    files
}

/// Packs a directory into an archive.
fn pack(dir: &Path, to: &Path) {
    let source = tarpon::SiteSource { path: dir.to_owned(), ..tarpon::SiteSource::default() };
    tarpon::pack(&source, &tarpon::SitePacking::new(to), &tarpon::Progress::default()).unwrap();
}

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
