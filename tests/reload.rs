//! A configuration takes the place of another: what can be served is served from then on, what cannot changes nothing, and no
//! client notices either.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::{Client, get},
    distinct_bytes,
    load::Load,
    open_dir,
    program::{Program, has_ended, tarpon},
    wait_for, write_files,
};
use rustix::process::Signal;
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};
use tarpon::Engine;
use tempfile::TempDir;

#[test]
fn no_request_fails_and_no_connection_is_reset_while_configurations_change() {
    const RELOAD_COUNT: usize = 8;
    const CLIENT_COUNT: usize = 4;
    for &engine in ENGINES {
        let made = Made::new(engine);
        made.say("one", 2, "");
        let program = made.start();
        let address = program.address();
        let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            // Whatever happens here: they would ask for ever.
            let _ends = Ends(&over);
            let clients: Vec<_> =
                (0..CLIENT_COUNT).map(|_| scope.spawn(|| ask_until(&over, &count, address))).collect();
            for number in 1..=RELOAD_COUNT {
                let site = if number % 2 == 1 { "two" } else { "one" };
                // Fewer workers than sockets, and more.
                made.say(site, 1 + number % 4, "");
                let from = count.load(SeqCst);
                program.signal(Signal::HUP);
                wait_for("the other site", || {
                    (asked(address) == site.as_bytes() || clients.iter().any(|client| client.is_finished()))
                        .then_some(())
                });
                wait_for("the end of this one", || {
                    (program.out().matches("\nreloaded\n").count() == number).then_some(())
                });
                wait_for("requests meanwhile", || {
                    (count.load(SeqCst) > from + 50 || clients.iter().any(|client| client.is_finished()))
                        .then_some(())
                });
            }
            over.store(true, SeqCst);
            for client in clients {
                // One that does not get to ask between two of them has met both at once.
                assert!(
                    client.join().unwrap() > RELOAD_COUNT / 2,
                    "{engine}: asked to close, and served anew"
                );
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

/// Not counted, but also with clients that have a connection for each request, and as many workers as there usually are.
#[test]
fn nor_does_one_fail_for_clients_that_come_and_go() {
    for &engine in ENGINES {
        let made = Made::new(engine);
        let say = |site: &str| made.say_all(site, "[server]\ngrace = \"1h\"\n");
        say("one");
        let program = made.start();
        let load = Load::start(made.address, "/same", b"same");
        for (number, site) in ["two", "one"].into_iter().enumerate() {
            load.wait_for(50);
            say(site);
            program.signal(Signal::HUP);
            wait_for("a reload", || {
                (program.out().matches("\nreloaded\n").count() == number + 1).then_some(())
            });
        }
        load.wait_for(50);
        let failures = load.end();
        assert!(failures.is_empty(), "{engine}: {failures:?}");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn a_configuration_that_cannot_be_served_changes_nothing() {
    let made = Made::new(Engine::Auto);
    made.say("one", 1, "");
    let program = made.start();
    let mut client = Client::connect(program.address());
    assert_eq!(client.get("/").content, b"one");
    let server = program.server();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("[[listener]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    let everywhere = format!("[[listener]]\naddress = \"0.0.0.0:{}\"\n", made.address.port());
    let cases: [(&str, &str, &str); 5] = [
        ("one", "[server]\nno-such-option = 1\n", "no-such-option"),
        ("missing", "", "it does not exist"),
        ("one", &taken, "address already in use"),
        ("one", &everywhere, "this server has the port already"),
        ("one", "[server]\nuser = \"no-such-user\"\n", "no-such-user"),
    ];
    for (site, rest, why) in cases {
        let said = program.err().len();
        made.say_all(site, rest);
        program.signal(Signal::HUP);
        wait_for(why, || {
            program.err()[said..].contains("still serving the previous configuration").then_some(())
        });
        assert!(program.err()[said..].contains(why), "{why}: {}", program.err());
        assert_eq!(client.get("/").content, b"one", "{why}");
        assert!(!client.get("/").closes(), "{why}");
        assert_eq!(program.server(), server, "{why}");
    }
    // And one that can be is, after all that.
    made.say("two", 1, "");
    program.signal(Signal::HUP);
    wait_for("the other site", || (asked(program.address()) == b"two").then_some(()));
    wait_for("the first server", || {
        // It is waited for until its client has asked once more.
        (has_ended(server) || client.get("/").closes()).then_some(())
    });
    wait_for("its end", || has_ended(server).then_some(()));
}

#[test]
fn tarpon_reload_tells_what_came_of_it() {
    let made = Made::new(Engine::Auto);
    let admin = format!("unix:{}", made.dir.path().join("admin").display());
    let with_admin = format!("admin = \"{admin}\"\n");
    let say = |site: &str, rest: &str| made.say_all(site, &format!("[server]\n{with_admin}{rest}"));
    let reload = || Program::run(tarpon(["reload", "--admin", &admin].map(AsRef::as_ref)));
    say("one", "");
    let program = made.start();
    say("two", "workers = 1\n");
    let done = reload();
    assert!(done.status.success(), "{done:?}");
    let address = made.address;
    let want = format!("reloaded: sites: 1, files: 2, bytes: 7, at {address}; engine: ");
    assert!(done.out.starts_with(&want) && done.out.ends_with(", workers: 1\n"), "{done:?}");
    // Who leaves may take a client yet who has come at the same time.
    let wait_for_site =
        |site: &str| wait_for(site, || (asked(program.address()) == site.as_bytes()).then_some(()));
    wait_for_site("two");

    say("one", "worker = 1\n");
    let refused = reload();
    assert_eq!((refused.status.code(), &*refused.out), (Some(1), ""));
    for want in ["tarpon.toml:7:1", "worker", "workers", "still serving the previous configuration"] {
        assert!(refused.err.contains(want), "{want}: {}", refused.err);
    }
    assert_eq!(asked(program.address()), b"two");

    // Two at once: both are told of what is served in the end.
    say("one", "");
    thread::scope(|scope| {
        let both = [scope.spawn(reload), scope.spawn(reload)];
        both.map(|done| done.join().unwrap())
            .iter()
            .for_each(|done| assert!(done.status.success(), "{done:?}"));
    });
    wait_for_site("one");

    program.signal(Signal::TERM);
    assert!(program.ended().status.success());
    let nobody = reload();
    let want = format!(
        "tarpon: cannot reach the server at {admin}: no such file or directory; start a server, or name its admin listener \
         with --admin; without an admin listener, use kill -HUP PID"
    );
    assert_eq!((nobody.error_line(), nobody.status.code()), (&*want, Some(1)));
}

#[test]
fn listeners_come_and_go() {
    let made = Made::new(Engine::Auto);
    let socket = made.dir.path().join("socket");
    let more = format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display());
    made.say("one", 1, "");
    let program = made.start();
    made.say("one", 1, &more);
    program.signal(Signal::HUP);
    wait_for("another listener", || UnixStream::connect(&socket).is_ok().then_some(()));
    let mut client = Client::connect_unix(&socket);
    assert_eq!(client.get("/").content, b"one");
    // A request that has begun is served by who has the connection.
    let head = get("/");
    client.send(&head[..10]);
    made.say("two", 1, "");
    program.signal(Signal::HUP);
    wait_for("nobody listens any more", || UnixStream::connect(&socket).is_err().then_some(()));
    assert!(!socket.exists());
    client.send(&head[10..]);
    assert_eq!(client.response().content, b"one");
    // The one before may still have taken somebody.
    wait_for("the other site", || (asked(program.address()) == b"two").then_some(()));
    program.signal(Signal::TERM);
    assert!(program.ended().status.success());
}

#[test]
fn a_download_of_a_configuration_before_is_finished_also_when_the_program_stops() {
    let made = Made::new(Engine::Auto);
    let large = distinct_bytes(32 << 20);
    write_files(made.dir.path(), &[("one/large", &large)]);
    made.say("one", 1, "");
    let mut program = made.start();
    let mut client = Client::connect(program.address());
    client.send(get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    made.say("two", 1, "");
    program.signal(Signal::HUP);
    wait_for("the other site", || (asked(program.address()) == b"two").then_some(()));
    program.signal(Signal::TERM);
    wait_for("no new client is taken", || TcpStream::connect(program.address()).is_err().then_some(()));
    thread::sleep(Duration::from_millis(100));
    assert!(program.is_running());
    assert!(client.take(large.len()) == large);
    assert!(program.ended().status.success());
}

/// Sites, and a configuration file that names one of them.
struct Made {
    dir: TempDir,
    engine: Engine,
    /// Where it listens: the same each time, so that it is the same listener.
    address: SocketAddr,
}

impl Made {
    fn new(engine: Engine) -> Made {
        let dir = open_dir();
        for site in ["one", "two"] {
            write_files(
                dir.path(),
                &[(format!("{site}/index.html"), site), (format!("{site}/same"), "same")],
            );
        }
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Made { dir, engine, address }
    }

    fn say(&self, site: &str, workers: usize, rest: &str) {
        self.say_all(site, &format!("{rest}[server]\nworkers = {workers}\ngrace = \"1h\"\n"));
    }

    fn say_all(&self, site: &str, rest: &str) {
        let (dir, address) = (self.dir.path().display(), self.address);
        let text =
            format!("[[site]]\npath = \"{dir}/{site}\"\n[[listener]]\naddress = \"{address}\"\n{rest}");
        // As a whole: it may be read at any time.
        fs::write(self.dir.path().join("next.toml"), text).unwrap();
        fs::rename(self.dir.path().join("next.toml"), self.file()).unwrap();
    }

    fn file(&self) -> impl AsRef<Path> + use<> {
        self.dir.path().join("tarpon.toml")
    }

    fn start(&self) -> Program {
        let mut command = tarpon(["serve", "--config"].map(AsRef::as_ref));
        command.arg(self.file().as_ref()).args(["--engine", self.engine.name()]);
        Program::started(command)
    }
}

/// Ends those that ask, when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// What a client that comes now is served.
fn asked(address: SocketAddr) -> Vec<u8> {
    Client::connect(address).get("/").content
}

/// Asks on a connection until the server says that it will close it, and then on another. Returns how many there were.
fn ask_until(over: &AtomicBool, count: &AtomicUsize, address: SocketAddr) -> usize {
    let mut connection_count = 1;
    let mut client = Client::connect(address);
    while !over.load(SeqCst) {
        client.send(get("/same"));
        let response =
            client.try_response().unwrap_or_else(|error| panic!("connection {connection_count}: {error}"));
        assert_eq!(response.content, b"same");
        count.fetch_add(1, SeqCst);
        if response.closes() {
            assert_eq!(client.rest(), b"");
            client = Client::connect(address);
            connection_count += 1;
        }
    }
    connection_count
}
