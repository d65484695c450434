//! Reloads of the configuration: a valid one takes effect without an effect on clients, and an invalid one changes nothing.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    distinct_bytes,
    load::{LoadGenerator, SetOnDrop},
    port::ReservedPort,
    program::{RunningProgram, has_exited, tarpon, with_long_timeouts},
    readable_dir, wait_for, write_files,
};
use rustix::process::Signal;
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
};
use tarpon::Engine;
use tempfile::TempDir;

#[test]
fn reloads_fail_no_request_and_reset_no_connection() {
    const RELOAD_COUNT: usize = 8;
    const CLIENT_COUNT: usize = 4;
    for &engine in ENGINES {
        let config = TestConfig::new(engine);
        // A worker with one connection closes it when another client waits: there are more workers than clients.
        let spare_count = if engine.is_blocking() { 2 * CLIENT_COUNT } else { 0 };
        config.write("one", 2 + spare_count, "");
        let program = config.start();
        let address = program.address();
        let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            // If the test panics here, the clients stop too.
            let _stops = SetOnDrop(&stop);
            let clients: Vec<_> =
                (0..CLIENT_COUNT).map(|_| scope.spawn(|| ask_until(&stop, &count, address))).collect();
            for number in 1..=RELOAD_COUNT {
                let site = if number % 2 == 1 { "two" } else { "one" };
                // From one to four workers.
                config.write(site, 1 + number % 4 + spare_count, "");
                let from = count.load(SeqCst);
                program.signal(Signal::HUP);
                wait_for("the other site", || {
                    (home(address) == site.as_bytes() || clients.iter().any(|client| client.is_finished()))
                        .then_some(())
                });
                wait_for("the end of this reload", || {
                    (program.out().matches("\nreloaded\n").count() == number).then_some(())
                });
                wait_for("requests", || {
                    (count.load(SeqCst) > from + 50 || clients.iter().any(|client| client.is_finished()))
                        .then_some(())
                });
            }
            stop.store(true, SeqCst);
            for client in clients {
                // A client that sends no request between two reloads needs only one new connection for both.
                let count = client.join().unwrap_or_else(|_| panic!("{engine}: a client failed"));
                assert!(count > RELOAD_COUNT / 2, "{engine}: too few new connections");
            }
        });
        assert_eq!(
            program.out().matches("\nreloaded\n").count(),
            RELOAD_COUNT,
            "{engine}: {}",
            program.err()
        );
        assert_eq!(program.err(), "", "{engine}");
    }
}

/// Also with a new connection for each request, and with the default number of workers.
#[test]
fn reloads_fail_no_request_on_a_new_connection() {
    for &engine in ENGINES {
        let config = TestConfig::new(engine);
        let write = |site: &str| config.write_with(site, "[server]\ngrace-period = \"1h\"\n");
        write("one");
        let program = config.start();
        let load = LoadGenerator::start(config.address, "/same", b"same");
        for (number, site) in ["two", "one"].into_iter().enumerate() {
            load.wait_for_responses(50);
            write(site);
            program.signal(Signal::HUP);
            wait_for("a reload", || {
                (program.out().matches("\nreloaded\n").count() == number + 1).then_some(())
            });
        }
        load.wait_for_responses(50);
        let failures = load.stop();
        assert!(failures.is_empty(), "{engine}: {failures:?}");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn invalid_configuration_changes_nothing() {
    let config = TestConfig::new(Engine::Auto);
    config.write("one", 1, "");
    let program = config.start();
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"one");
    let server = program.server();
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = format!("[[listener]]\naddress = \"{}\"\n", used.local_addr().unwrap());
    let everywhere = format!("[[listener]]\naddress = \"0.0.0.0:{}\"\n", config.address.port());
    let cases: [(&str, &str, &str); 5] = [
        ("one", "[server]\nno-such-option = 1\n", "no-such-option"),
        ("missing", "", "it does not exist"),
        ("one", &used, "address already in use"),
        ("one", &everywhere, "uses the port of 127.0.0.1"),
        ("one", "[server]\nuser = \"no-such-user\"\n", "no-such-user"),
    ];
    for (site, rest, why) in cases {
        let start = program.err().len();
        config.write_with(site, rest);
        program.signal(Signal::HUP);
        wait_for(why, || {
            program.err()[start..].contains("still serving the previous configuration").then_some(())
        });
        assert!(program.err()[start..].contains(why), "{why}: {}", program.err());
        assert_eq!(client.get("/").content, b"one", "{why}");
        assert!(!client.get("/").closes(), "{why}");
        assert_eq!(program.server(), server, "{why}");
    }
    // A valid configuration still takes effect.
    config.write("two", 1, "");
    program.signal(Signal::HUP);
    wait_for("the other site", || (home(program.address()) == b"two").then_some(()));
    wait_for("the first server", || {
        // The first server runs until its client sends another request.
        (has_exited(server) || client.get("/").closes()).then_some(())
    });
    wait_for("the first server exits", || has_exited(server).then_some(()));
}

#[test]
fn tarpon_reload_prints_the_result() {
    let config = TestConfig::new(Engine::Auto);
    let admin = format!("unix:{}", config.dir.path().join("admin").display());
    let with_admin = format!("admin = \"{admin}\"\n");
    let write = |site: &str, rest: &str| config.write_with(site, &format!("[server]\n{with_admin}{rest}"));
    let reload = || RunningProgram::run(tarpon(["reload", "--admin", &admin].map(AsRef::as_ref)));
    write("one", "");
    let program = config.start();
    write("two", "workers = 1\n");
    let done = reload();
    assert!(done.status.success(), "{done:?}");
    let address = config.address;
    let want = format!("reloaded: sites: 1, files: 2, bytes: 7, at {address}; engine: ");
    assert!(done.out.starts_with(&want) && done.out.ends_with(", workers: 1\n"), "{done:?}");
    // The draining server may still accept a client that connects at the same time.
    let wait_for_site =
        |site: &str| wait_for(site, || (home(program.address()) == site.as_bytes()).then_some(()));
    wait_for_site("two");

    write("one", "worker = 1\n");
    let refused = reload();
    assert_eq!((refused.status.code(), &*refused.out), (Some(1), ""));
    for want in ["tarpon.toml:7:1", "worker", "workers", "still serving the previous configuration"] {
        assert!(refused.err.contains(want), "{want}: {}", refused.err);
    }
    wait_for_site("two");

    // Two reloads at once: both succeed.
    write("one", "");
    thread::scope(|scope| {
        let both = [scope.spawn(reload), scope.spawn(reload)];
        both.map(|done| done.join().unwrap())
            .iter()
            .for_each(|done| assert!(done.status.success(), "{done:?}"));
    });
    wait_for_site("one");

    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
    let unanswered = reload();
    let want = format!(
        "tarpon: cannot reach the server at {admin}: no such file or directory; start a server, or name its admin listener \
         with --admin; without an admin listener, use kill -HUP PID"
    );
    assert_eq!((unanswered.error_line(), unanswered.status.code()), (&*want, Some(1)));
}

#[test]
fn reload_adds_and_removes_listeners() {
    let config = TestConfig::new(Engine::Auto);
    let socket = config.dir.path().join("socket");
    let more = format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display());
    config.write("one", 1, "");
    let program = config.start();
    config.write("one", 1, &more);
    program.signal(Signal::HUP);
    wait_for("another listener", || UnixStream::connect(&socket).is_ok().then_some(()));
    let mut client = TestClient::connect_unix(&socket);
    assert_eq!(client.get("/").content, b"one");
    // The server that has the connection finishes a request that has begun.
    let head = get("/");
    client.send(&head[..10]);
    config.write("two", 1, "");
    program.signal(Signal::HUP);
    wait_for("the listener is closed", || UnixStream::connect(&socket).is_err().then_some(()));
    assert!(!socket.exists());
    client.send(&head[10..]);
    assert_eq!(client.response().content, b"one");
    // The draining server may still accept a client.
    wait_for("the other site", || (home(program.address()) == b"two").then_some(()));
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
}

#[test]
fn download_from_a_draining_server_completes_when_the_program_stops() {
    let config = TestConfig::new(Engine::Auto);
    let large = distinct_bytes(32 << 20);
    write_files(config.dir.path(), &[("one/large", &large)]);
    config.write("one", 1, "");
    let mut program = config.start();
    let mut client = TestClient::connect(program.address());
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    config.write("two", 1, "");
    program.signal(Signal::HUP);
    wait_for("the other site", || (home(program.address()) == b"two").then_some(()));
    program.signal(Signal::TERM);
    wait_for("new clients are refused", || TcpStream::connect(program.address()).is_err().then_some(()));
    assert!(program.is_running());
    assert!(client.read_exact(large.len()) == large);
    assert!(program.wait().status.success());
}

/// A configuration file beside two sites, with one of them.
struct TestConfig {
    dir: TempDir,
    engine: Engine,
    /// The address of the listener, which is the same in each configuration, so that the listener stays.
    address: SocketAddr,
    _port: ReservedPort,
}

impl TestConfig {
    fn new(engine: Engine) -> TestConfig {
        let dir = readable_dir();
        for site in ["one", "two"] {
            write_files(
                dir.path(),
                &[(format!("{site}/index.html"), site), (format!("{site}/same"), "same")],
            );
        }
        let port = ReservedPort::new();
        TestConfig { dir, engine, address: port.address, _port: port }
    }

    fn write(&self, site: &str, workers: usize, rest: &str) {
        self.write_with(site, &format!("{rest}[server]\nworkers = {workers}\ngrace-period = \"1h\"\n"));
    }

    fn write_with(&self, site: &str, rest: &str) {
        let (dir, address) = (self.dir.path().display(), self.address);
        let text =
            format!("[[site]]\npath = \"{dir}/{site}\"\n[[listener]]\naddress = \"{address}\"\n{rest}");
        // A rename, as the server may read the file at any time.
        fs::write(self.dir.path().join("next.toml"), text).unwrap();
        fs::rename(self.dir.path().join("next.toml"), self.file()).unwrap();
    }

    fn file(&self) -> impl AsRef<Path> + use<> {
        self.dir.path().join("tarpon.toml")
    }

    fn start(&self) -> RunningProgram {
        let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
        command.arg(self.file().as_ref()).args(["--engine", self.engine.name()]);
        with_long_timeouts(&mut command);
        RunningProgram::start_ready(command)
    }
}

/// Returns the home page, from a new connection.
fn home(address: SocketAddr) -> Vec<u8> {
    TestClient::connect(address).get("/").content
}

/// Sends requests on a connection until the server sends `Connection: close`, and then on another. Returns the number of connections.
fn ask_until(stop: &AtomicBool, count: &AtomicUsize, address: SocketAddr) -> usize {
    let mut connection_count = 1;
    let mut client = TestClient::connect(address);
    while !stop.load(SeqCst) {
        client.send(get("/same"));
        let response =
            client.try_response().unwrap_or_else(|error| panic!("connection {connection_count}: {error}"));
        assert_eq!(response.content, b"same");
        count.fetch_add(1, SeqCst);
        if response.closes() {
            assert_eq!(client.read_to_end(), b"");
            client = TestClient::connect(address);
            connection_count += 1;
        }
    }
    connection_count
}
