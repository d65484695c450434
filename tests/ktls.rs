//! Kernel TLS, in a virtual machine whose kernel has it: `tests/vm`. The clients are programs of the host, which reach the servers there through
//! forwarded ports.
//!
//! ```text
//! rustls, curl, openssl, h2spec ── forwarded ports ─▶ tarpon with each engine ─▶ records by the kernel
//!                               ◀─ console ── /proc/net/tls_stat
//! ```
//!
//! A machine without the emulator skips these tests, and says so.

use crate::{
    cases,
    common::{
        client::{Stream, TestClient, connected, get},
        distinct_bytes,
        endpoint::{Endpoint, TestTls},
        found_within,
        kernel::TcpPair,
        port::ReservedPort,
        program::RunningProgram,
        tls_stream::TlsStream,
        wait_at_most, wait_for,
    },
};
use rustls::ClientConfig;
use std::{
    collections::HashMap,
    fs,
    io::{self, BufRead, BufReader, PipeWriter, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// Linux 6.12, which cannot change keys.
#[test]
fn kernel_seals_and_opens_records() {
    let _alone = alone();
    let Some(machine) = Machine::start("6.12", None, &ENGINES[..2]) else { return };
    for served in &machine.served {
        every_suite_goes_to_the_kernel(&machine, served);
        bytes_read_ahead_are_not_lost(&machine, served);
        pipelined_requests_are_answered_in_order(&machine, served);
        update_of_keys_with_the_first_request_is_followed(&machine, served);
        no_nonce_comes_twice(&machine, served);
        update_of_keys_ends_the_connection(&machine, served);
    }
    thread::scope(|scope| {
        let downloads = machine.served.iter().zip(["--http1.1", "--http2"]).map(|(served, version)| {
            let machine = &machine;
            scope.spawn(move || large_file_arrives_unchanged(machine, served, version))
        });
        downloads.collect::<Vec<_>>().into_iter().for_each(|download| download.join().expect("a download"));
    });
    let endpoints: Vec<_> = machine.served.iter().flat_map(|served| machine.endpoints(served)).collect();
    let failed = cases::failures_over_tls(&endpoints);
    assert!(failed.is_empty(), "{}", failed.concat());
    machine.served.iter().for_each(|served| slow_clients_get_all_at_the_end(&machine, served));
    let stalled: Vec<_> = machine.served.iter().map(|served| stalled_client(&machine, served)).collect();
    machine.served.iter().for_each(|served| h2spec_passes(&machine, served));
    drop(stalled);
    let stat = wait_for("the end of all connections", || {
        let stat = machine.stat();
        (stat["TlsCurrTxSw"] + stat["TlsCurrRxSw"] == 0).then_some(stat)
    });
    let mut connections = 0;
    for served in &machine.served {
        let counts = served.counts();
        assert_eq!(counts["tarpon_tls_kernel_refused_total"], 1, "{}", served.engine);
        connections += counts["tarpon_tls_kernel_connections_total"];
    }
    // Each server has kept one connection: its client changed the keys at once. The probes at the start of each server are the others.
    assert_eq!((stat["TlsTxSw"], stat["TlsRxSw"]), (connections + 2 * 6, connections + 2 * 6));
    assert_eq!(stat["TlsTxDevice"], 0);
}

/// A kernel that can change keys: Linux 6.14 and later.
#[test]
fn kernel_follows_updates_of_keys() {
    let _alone = alone();
    let Some(machine) = Machine::start("rekey", Some("rekey"), &ENGINES) else { return };
    for served in &machine.served {
        let mut client = TlsStream::new(connected(served.tls), &machine.tls.client()).expect("a handshake");
        exchange(&mut client, "before the keys go to the kernel");
        for round in 0..4 {
            exchange(&mut client, &format!("round {round} on {}", served.engine));
            client.conn.refresh_traffic_keys().expect("TLS 1.3");
        }
        exchange(&mut client, "after the last update");
        asked_updates_are_answered(served);
        let counts = served.counts();
        assert_eq!(counts["tarpon_tls_kernel_updates_failed_total"], 0, "{}", served.engine);
        assert_eq!(counts["tarpon_tls_kernel_refused_total"], 0, "{}", served.engine);
    }
    let stat = machine.stat();
    // Of each server: four updates of rustls, and two of OpenSSL. Each asks for the other direction too.
    assert_eq!((stat["TlsRxRekeyOk"], stat["TlsTxRekeyOk"]), (3 * (4 + 2), 3 * (4 + 2)));
    assert_eq!((stat["TlsRxRekeyError"], stat["TlsTxRekeyError"]), (0, 0));
}

/// Waits until no other machine runs: each keeps two processors busy.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running machine with two servers.
struct Machine {
    program: RunningProgram,
    console: PipeWriter,
    tls: TestTls,
    served: Vec<ServedInMachine>,
    large: Vec<u8>,
    _root: TempDir,
}

/// One server of a machine.
struct ServedInMachine {
    engine: &'static str,
    tls: SocketAddr,
    admin: SocketAddr,
    _ports: [ReservedPort; 2],
}

/// Options of curl, before the certificate of the authority.
const CURL: [&str; 6] = ["--silent", "--show-error", "--fail", "--max-time", "300", "--cacert"];

const LARGE_LEN: usize = 100_000_000;

/// How long a machine may take to boot, and then each of its servers to start: it is emulated, and other tests keep this one busy.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a machine is started: now and then the emulator stands still while its kernel boots, without load, before any program of the machine runs.
const BOOT_COUNT_MAX: usize = 3;

const ENGINES: [&str; 3] = ["epoll", "io_uring", "poll"];

impl Machine {
    /// Boots a machine with a server of each engine. `directory`: that of its kernel. `None`: there is no emulator for this system.
    fn start(directory: &str, kernel: Option<&str>, engines: &[&'static str]) -> Option<Machine> {
        let kernels = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm");
        if !kernels.join(directory).is_dir() {
            let why = "SKIPPED: kernel TLS is not tested: no kernel or emulator for it; see tests/setup and tests/vm";
            // Past the output that a passing test hides.
            writeln!(io::stderr(), "{why}").expect("standard error");
            // The archive need not have the other one: it takes a newer kernel in the place of an older one.
            assert!(
                kernel.is_some() || !can_be_installed(),
                "the emulator can be installed here: run tests/setup"
            );
            return None;
        }
        let (tls, large) = (TestTls::new(), distinct_bytes(LARGE_LEN));
        let root = root(&tls, &large, engines);
        let served: Vec<_> = engines.iter().copied().map(ServedInMachine::new).collect();
        let (program, console) = boot(|| {
            let mut command = vm(&["boot"]);
            command.arg(root.path());
            command.args(kernel.into_iter().flat_map(|kernel| ["--kernel", kernel]));
            for (number, server) in served.iter().enumerate() {
                for (address, guest) in [(server.tls, 4_000), (server.admin, 5_000)] {
                    command.args(["--forward", &format!("{}:{}", address.port(), guest + number)]);
                }
            }
            command
        });
        let machine = Machine { program, console, tls, served, large, _root: root };
        for count in 1..=engines.len() {
            wait_at_most(BOOT_TIMEOUT, "a server of the machine", || {
                let out = machine.program.out();
                assert!(!out.contains("vm: exit status"), "{out}");
                (out.matches("Ctrl-C").count() >= count).then_some(())
            });
        }
        Some(machine)
    }

    fn endpoints(&self, served: &ServedInMachine) -> [Endpoint; 2] {
        let [_, tls13, tls12] = self.tls.endpoints(&[served.tls, served.tls]);
        [tls13, tls12]
    }

    /// Returns what the kernel of the machine has counted.
    fn stat(&self) -> HashMap<String, u64> {
        let before = self.program.out().matches("stat: end").count();
        (&self.console).write_all(b"stat\n").expect("the console");
        let out = wait_for("the statistics", || {
            let out = self.program.out();
            (out.matches("stat: end").count() > before).then_some(out)
        });
        let last = out.rsplit("stat: begin").next().expect("a part");
        let rows = last.lines().filter_map(|line| line.split_once(char::is_whitespace));
        rows.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect()
    }
}

impl ServedInMachine {
    fn new(engine: &'static str) -> ServedInMachine {
        let ports = [ReservedPort::new(), ReservedPort::new()];
        ServedInMachine { engine, tls: ports[0].address, admin: ports[1].address, _ports: ports }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.tls.port())
    }

    /// Returns the metrics without labels.
    fn counts(&self) -> HashMap<String, u64> {
        let metrics = TestClient::connect(self.admin).get("/metrics").content;
        let metrics = String::from_utf8(metrics).expect("UTF-8");
        let rows = metrics.lines().filter_map(|line| line.split_once(' '));
        rows.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }
}

/// Boots a machine. Returns it when its first program runs, and its console.
fn boot(command: impl Fn() -> Command) -> (RunningProgram, PipeWriter) {
    for _ in 0..BOOT_COUNT_MAX {
        let (input, console) = io::pipe().expect("a pipe");
        let program = RunningProgram::start_with_stdin(command(), input.into());
        if found_within(BOOT_TIMEOUT, || program.out().contains("vm: start").then_some(())).is_some() {
            return (program, console);
        }
        // Past the output that a passing test hides.
        writeln!(io::stderr(), "the machine does not boot; its console: {}", program.out())
            .expect("standard error");
    }
    panic!("the machine does not boot, {BOOT_COUNT_MAX} times");
}

/// Returns whether `tests/setup` installs the emulator on this system.
fn can_be_installed() -> bool {
    cfg!(target_arch = "x86_64") && Path::new("/usr/bin/apt-get").exists()
}

fn vm(arguments: &[&str]) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vm"));
    command.args(arguments);
    command
}

/// Makes the files of the machine.
fn root(tls: &TestTls, large: &[u8], engines: &[&str]) -> TempDir {
    let root = tempfile::tempdir().expect("a directory");
    let site = cases::fixture();
    let path = |name: &str| root.path().join(name);
    let copied = Command::new("cp").arg("-a").arg(site.path()).arg(path("site")).status();
    assert!(copied.expect("cp").success());
    fs::write(path("site/hundred-megabytes"), large).expect("a file");
    for (file, name) in tls.files().iter().zip(["server.pem", "server.key"]) {
        fs::copy(file, path(name)).expect("a file");
    }
    let mut libraries = vm(&["libraries"]);
    libraries.arg(root.path()).arg(env!("CARGO_BIN_EXE_tarpon"));
    assert!(libraries.status().expect("tests/vm").success());
    let mut start = String::from("#!/bin/sh\nexport TARPON_COMPRESS=off\n");
    for (number, engine) in engines.iter().enumerate() {
        start += &format!(
            "tarpon serve /site --engine {engine} --listen tls:0.0.0.0:{} --tls-cert /server.pem --tls-key /server.key --ktls on \
             --admin 0.0.0.0:{} --admin-hosts localhost --log-format human --send-timeout 600s --idle-timeout 600s \
             --header-timeout 600s 2>&1 | cat &\n",
            4_000 + number,
            5_000 + number,
        );
    }
    start += "while read line; do echo stat: begin; cat /proc/net/tls_stat; echo stat: end; done\n";
    fs::write(path("start"), start).expect("a file");
    fs::set_permissions(path("start"), fs::Permissions::from_mode(0o755)).expect("a file of this user");
    root
}

/// With curl, over HTTP/1.1 and HTTP/2: whole files, and a range.
fn every_suite_goes_to_the_kernel(machine: &Machine, served: &ServedInMachine) {
    const SUITES: [&[&str]; 6] = [
        &["--tlsv1.3", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256"],
        &["--tlsv1.3", "--tls13-ciphers", "TLS_AES_256_GCM_SHA384"],
        &["--tlsv1.3", "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"],
        &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"],
        &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"],
    ];
    let count = || served.counts()["tarpon_tls_kernel_connections_total"];
    for (number, suite) in SUITES.into_iter().enumerate() {
        // The versions take turns.
        let is_first = number % 2 == usize::from(served.engine == "epoll");
        let version = if is_first { "--http1.1" } else { "--http2" };
        let before = count();
        let mut curl = Command::new("curl");
        curl.args(CURL).arg(machine.tls.authority());
        // The range is that of each file.
        curl.args(suite).args([version, "--range", "70000-369999"]);
        curl.args([served.url("/hundred-megabytes"), served.url("/hundred-megabytes?again")]);
        let got = curl.output().expect("curl");
        let part = &machine.large[70_000..370_000];
        assert!(got.status.success(), "{suite:?} {version}: {}", String::from_utf8_lossy(&got.stderr));
        assert!(got.stdout == [part, part].concat(), "{suite:?} {version} on {}", served.engine);
        assert_eq!(count(), before + 1, "{suite:?} {version} on {}", served.engine);
    }
}

/// A client sends its request with the end of its handshake, in two segments.
fn bytes_read_ahead_are_not_lost(machine: &Machine, served: &ServedInMachine) {
    let [tls13, _] = machine.endpoints(served);
    let config = tls13.config().expect("a client of TLS");
    for part in 0..20 {
        let mut client = shaken_hands(served, config);
        let requests =
            [get("/hundred-megabytes").replace("\r\n\r\n", "\r\nRange: bytes=0-9\r\n\r\n"), get("/none")];
        for request in requests {
            client.conn.writer().write_all(request.as_bytes()).expect("memory");
        }
        let flight = client.flight();
        let (first, second) = flight.split_at(flight.len() * part / 20);
        client.socket.write_all(first).expect("a connection");
        client.socket.write_all(second).expect("a connection");
        let mut client = TestClient::new(client);
        assert_eq!(client.response().content, machine.large[..10], "part {part} on {}", served.engine);
        assert_eq!(client.response().status, 404, "part {part} on {}", served.engine);
    }
}

fn pipelined_requests_are_answered_in_order(machine: &Machine, served: &ServedInMachine) {
    const COUNT: usize = 64;
    for endpoint in machine.endpoints(served) {
        let mut client = endpoint.connect();
        let range = |number: usize| {
            let (begin, end) = (number * 1_000, number * 3_000 + 10);
            (
                begin..=end,
                format!("GET /hundred-megabytes HTTP/1.1\r\nHost: a\r\nRange: bytes={begin}-{end}\r\n\r\n"),
            )
        };
        client.send((0..COUNT).map(|number| range(number).1).collect::<String>());
        for number in 0..COUNT {
            let want = &machine.large[range(number).0];
            assert!(client.response().content == want, "response {number} on {}", served.engine);
        }
    }
}

/// The client changes its keys and asks for those of the server between the end of the handshake and its first request, all in one write.
fn update_of_keys_with_the_first_request_is_followed(machine: &Machine, served: &ServedInMachine) {
    let mut client = shaken_hands(served, &machine.tls.client());
    client.conn.refresh_traffic_keys().expect("TLS 1.3");
    client.conn.writer().write_all(get("/empty.txt").as_bytes()).expect("memory");
    let flight = client.flight();
    client.socket.write_all(&flight).expect("a connection");
    receive_head(&mut client, "behind the update");
    exchange(&mut client, "after the update");
    assert_eq!(served.counts()["tarpon_tls_kernel_refused_total"], 1, "{}", served.engine);
}

/// Returns a client whose handshake is complete, except that the server has not got its end.
fn shaken_hands(served: &ServedInMachine, config: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let mut client = TlsStream::begin(connected(served.tls), config);
    let hello = client.flight();
    client.socket.write_all(&hello).expect("a connection");
    while client.conn.is_handshaking() {
        client.conn.read_tls(&mut client.socket).expect("a connection");
        client.conn.process_new_packets().expect("a handshake");
    }
    client
}

/// With TLS 1.2, each record of AES-GCM has a number of its own behind its header: RFC 5288, section 3.
fn no_nonce_comes_twice(machine: &Machine, served: &ServedInMachine) {
    let [_, tls12] = machine.endpoints(served);
    let socket = RecordedSocket { socket: connected(served.tls), received: Vec::new() };
    let mut client = TlsStream::new(socket, tls12.config().expect("TLS")).expect("a handshake");
    let suite = client.conn.negotiated_cipher_suite().expect("a suite").suite();
    assert!(format!("{suite:?}").contains("GCM"), "{suite:?}");
    for _ in 0..20 {
        exchange(&mut client, "TLS 1.2");
    }
    let (mut rest, mut is_encrypted, mut nonces) = (&client.socket.received[..], false, Vec::new());
    while let [kind, _, _, high, low, behind @ ..] = rest {
        let (record, next) = behind.split_at(u16::from_be_bytes([*high, *low]).into());
        if is_encrypted {
            nonces.push(record[..8].to_vec());
        }
        // change_cipher_spec.
        is_encrypted |= *kind == 20;
        rest = next;
    }
    let count = nonces.len();
    nonces.sort();
    nonces.dedup();
    assert!(count > 20 && nonces.len() == count, "{} of {count} on {}", nonces.len(), served.engine);
}

/// A socket that keeps what it has received.
struct RecordedSocket {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Read for RecordedSocket {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.socket.read(to)?;
        self.received.extend_from_slice(&to[..len]);
        Ok(len)
    }
}

impl Write for RecordedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Stream for RecordedSocket {
    fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown_write()
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.socket.set_blocking(blocking)
    }

    fn tcp_pair(&self) -> Option<TcpPair> {
        self.socket.tcp_pair()
    }
}

/// Clients announce their end behind the request, and read little at a time: the server closes with its last byte, and the end arrives too.
fn slow_clients_get_all_at_the_end(machine: &Machine, served: &ServedInMachine) {
    const LEN: usize = 5_000_000;
    for endpoint in machine.endpoints(served) {
        let mut client = endpoint.connect();
        let range = format!("\r\nRange: bytes=0-{}\r\n\r\n", LEN - 1);
        client.send(get("/hundred-megabytes").replace("\r\n\r\n", &range));
        client.send_close_notify();
        client.try_head().expect("a head");
        for at in (0..LEN).step_by(LEN / 50) {
            // Lets the buffers between fill. The test does not depend on it.
            thread::sleep(Duration::from_millis(10));
            let part = client.read_exact(LEN / 50);
            assert!(part == machine.large[at..][..part.len()], "{endpoint} on {}", served.engine);
        }
        assert!(client.read_to_end().is_empty(), "{endpoint} on {}", served.engine);
    }
}

/// The kernel cannot change keys: the client hears of it.
fn update_of_keys_ends_the_connection(machine: &Machine, served: &ServedInMachine) {
    let mut client = TlsStream::new(connected(served.tls), &machine.tls.client()).expect("a handshake");
    exchange(&mut client, "before the update");
    client.conn.refresh_traffic_keys().expect("TLS 1.3");
    // The alert, or a reset, as the server does not read what follows.
    let end = client.write_all(get("/empty.txt").as_bytes()).and_then(|()| client.read(&mut [0; 100]));
    end.expect_err("an end of the connection");
    wait_for("the count", || (served.counts()["tarpon_tls_kernel_updates_failed_total"] == 1).then_some(()));
}

/// Sends a request, and reads its response.
fn exchange<S: Stream>(client: &mut TlsStream<S>, when: &str) {
    client.write_all(get("/empty.txt").as_bytes()).unwrap_or_else(|error| panic!("{when}: {error}"));
    receive_head(client, when);
}

fn receive_head<S: Stream>(client: &mut TlsStream<S>, when: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap_or_else(|error| panic!("{when}: {error}"));
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{when}: {}", head.escape_ascii());
}

/// OpenSSL updates its keys and asks for those of the server, between requests.
fn asked_updates_are_answered(served: &ServedInMachine) {
    let mut command = Command::new("timeout");
    command.args([
        "100",
        "openssl",
        "s_client",
        "-connect",
        &served.tls.to_string(),
        "-crlf",
        "-tls1_3",
        "-servername",
        "localhost",
    ]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = piped.spawn().expect("openssl");
    let mut input = client.stdin.take().expect("a pipe");
    let mut output = BufReader::new(client.stdout.take().expect("a pipe"));
    let mut errors = BufReader::new(client.stderr.take().expect("a pipe"));
    for round in 0..4 {
        // The keys go to the kernel with the first response.
        if round >= 2 {
            input.write_all(b"K\n").expect("a client");
            lines_until(&mut errors, "KEYUPDATE");
        }
        input.write_all(b"GET /empty.txt HTTP/1.1\nHost: a\n\n").expect("a client");
        lines_until(&mut output, "HTTP/1.1 200 ");
        lines_until(&mut output, "Content-Length: 0");
    }
    drop(input);
    client.wait().expect("a child");
}

/// Reads lines until one of them has this text.
#[track_caller]
fn lines_until(from: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(from.read_line(&mut line).expect("text") > 0, "the output ends before {text}");
    }
}

fn large_file_arrives_unchanged(machine: &Machine, served: &ServedInMachine, version: &str) {
    let saved = tempfile::NamedTempFile::new().expect("a file");
    let mut curl = Command::new("curl");
    curl.arg(version).args(CURL).arg(machine.tls.authority());
    curl.arg("--output").arg(saved.path()).arg(served.url("/hundred-megabytes"));
    let output = curl.output().expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let got = fs::read(saved.path()).expect("a file");
    assert!(got == machine.large, "{version} on {}: {} bytes, but others", served.engine, got.len());
}

/// Returns a client that reads nothing of a large response. The server serves others too.
fn stalled_client(machine: &Machine, served: &ServedInMachine) -> TestClient {
    let [endpoint, _] = machine.endpoints(served);
    let mut stalled = endpoint.connect();
    stalled.send(get("/hundred-megabytes"));
    stalled.try_head().expect("a head");
    assert_eq!(endpoint.connect().get("/none").status, 404);
    stalled
}

/// h2spec has 145 cases.
fn h2spec_passes(machine: &Machine, served: &ServedInMachine) {
    let report = machine._root.path().join("report.xml");
    let program: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("h2spec/h2spec");
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &served.tls.port().to_string(), "-o", "20", "-t", "-k", "-j"]);
    let output = command.arg(&report).output().expect("h2spec; run tests/setup");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {text}", served.engine);
    assert!(text.contains("145 tests, 145 passed"), "{}: {text}", served.engine);
}
