//! The worker processes of `prefork` and `fork`: how many there are, what becomes of one that dies, and that nothing is left of them.

#![allow(clippy::disallowed_methods, reason = "tests name their own files")]

mod common;

use common::{
    client::{TestClient, get},
    distinct_bytes,
    program::{RunningProgram, children, has_exited, process_name, serve_exactly, tarpon, wrap_command},
    site, wait_for, write_files,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::{BTreeSet, HashSet},
    fs, iter,
    net::{TcpListener, TcpStream},
    path::Path,
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};
use tarpon::{Address, Engine};

const ENGINES: [Engine; 2] = [Engine::Prefork, Engine::Fork];

#[test]
fn a_worker_that_is_killed_is_told_and_nobody_else_notices() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(4 << 20))]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "3"]));
        let mut lost = TestClient::connect(program.address());
        assert_eq!(lost.get("/").content, b"home");
        let first = serving(&program, &[]);
        let mut other = TestClient::connect(program.address());
        other.send(get("/large"));
        assert_eq!(other.try_head().unwrap().status, 200);
        kill_process(first, Signal::KILL).unwrap();
        wait_for("its end", || has_exited(first).then_some(()));
        assert!(lost.try_read_to_end().is_ok_and(|rest| rest.is_empty()), "{engine}");
        assert_eq!(other.read_exact(24 << 20), "large ".repeat(4 << 20).as_bytes(), "{engine}");
        // More than there were before, one after the other and at once.
        let mut clients: Vec<_> = (0..2).map(|_| TestClient::connect(program.address())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").content, b"home", "{engine}"));
        let want = match engine {
            Engine::Prefork => "warning: the worker process was killed by SIGKILL; starting another\n",
            _ => "warning: a worker process was killed by SIGKILL; its connection is lost\n",
        };
        wait_for("a warning", || (program.err() == want).then_some(()));
        if engine == Engine::Prefork {
            wait_for("another", || (workers(&program).len() == 3).then_some(()));
        }
        assert_eq!(zombies(&program), [], "{engine}");
    }
}

#[test]
fn a_worker_that_finds_a_client_waiting_when_it_begins_is_busy_at_once() {
    const COUNT: usize = 40;
    let dir = site(&[("index.html", "home")]);
    for _ in 0..3 {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        let options = ["--workers", &COUNT.to_string(), "--listen", &free.to_string()];
        // On one core those that have begun take turns with what begins the others.
        let command =
            wrap_command(&["taskset", "--cpu-list", "0"], &with(dir.path(), Engine::Prefork, &options));
        let _program = RunningProgram::start(command);
        let first = wait_for("a server", || TcpStream::connect(free).ok());
        let others = (1..COUNT).map(|_| TcpStream::connect(free).unwrap());
        let mut kept: Vec<_> = iter::once(first).chain(others).map(TestClient::new).collect();
        kept.iter_mut().for_each(|client| assert!(client.send(get("/"))));
        kept.iter_mut().for_each(|client| assert_eq!(client.response().content, b"home"));
        // One of them gives way.
        assert_eq!(TestClient::connect(free).get("/").content, b"home");
    }
}

#[test]
fn a_site_that_changes_is_served_on_connections_that_are_open() {
    let dir = site(&[("index.html", "0")]);
    for engine in ENGINES {
        write_files(dir.path(), &[("index.html", "0")]);
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "8"]));
        let mut clients: Vec<_> = (0..5).map(|_| TestClient::connect(program.address())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").content, b"0", "{engine}"));
        let before = workers(&program);
        for round in 1..=5 {
            let content = round.to_string();
            write_files(dir.path(), &[("index.html", &content)]);
            for client in &mut clients {
                wait_for("the change", || (client.get("/").content == content.as_bytes()).then_some(()));
            }
            let fresh = TestClient::connect(program.address()).get("/").content;
            assert_eq!(fresh, content.as_bytes(), "{engine}: who comes later");
        }
        assert!(before.is_subset(&workers(&program)), "{engine}: by the same processes");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn an_archive_that_is_replaced_is_held_by_nobody() {
    let dir = site(&[("site/index.html", "0")]);
    let archive = dir.path().join("site.tar");
    let pack = || {
        let arguments = ["pack", "site", "--effort", "fast", "-o", "site.tar"];
        let packed = tarpon(arguments.map(AsRef::as_ref)).current_dir(dir.path()).output().unwrap();
        assert!(packed.status.success(), "{packed:?}");
    };
    for engine in ENGINES {
        write_files(dir.path(), &[("site/index.html", "0")]);
        pack();
        let program = RunningProgram::start_ready(with(&archive, engine, &["--workers", "4"]));
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"0", "{engine}");
        write_files(dir.path(), &[("site/index.html", "1")]);
        pack();
        wait_for("the change", || (client.get("/").content == b"1").then_some(()));
        let holds = |pid: Pid| {
            let maps = fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero()));
            maps.is_ok_and(|maps| maps.contains("site.tar (deleted)"))
        };
        wait_for("the end of the first one", || (!workers(&program).into_iter().any(holds)).then_some(()));
    }
}

#[test]
fn there_are_as_many_processes_as_are_wanted_and_with_fork_as_there_are_connections() {
    let dir = site(&[("index.html", "home")]);
    for (engine, idle, busy) in [(Engine::Prefork, 5, 5), (Engine::Fork, 0, 3)] {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "5"]));
        // Each names itself when it begins.
        wait_for("as many as are wanted", || (workers(&program).len() == idle).then_some(()));
        let mut clients: Vec<_> = (0..3).map(|_| TestClient::connect(program.address())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").content, b"home"));
        assert_eq!(workers(&program).len(), busy, "{engine}");
        drop(clients);
        wait_for("the end of them", || (workers(&program).len() == idle).then_some(()));
        let rest = || (children(program.server()).len() == idle + 1).then_some(());
        wait_for("nobody beside them but a desk, and no zombie", rest);
    }
}

#[test]
fn nothing_is_left_of_a_thousand_connections() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(100_000))]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "4"]));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
        let at_rest =
            || (workers(&program).len() == if engine == Engine::Fork { 0 } else { 4 }).then_some(());
        wait_for("rest", at_rest);
        let held = |pid: Pid| fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap().count();
        let all = || {
            let server = program.server();
            let mut all = children(server);
            all.push(server);
            let mut held: Vec<_> = all.into_iter().map(|pid| (process_name(pid), held(pid))).collect();
            held.sort();
            held
        };
        // A worker may be about to begin, or to close what it had.
        let before = wait_for("nothing changes", || {
            let now = all();
            thread::sleep(Duration::from_millis(300));
            (all() == now).then_some(now)
        });
        let crowd = |round: usize| {
            for number in 0..250 {
                let mut client = TestClient::connect(program.address());
                match (round + number) % 4 {
                    0 => assert_eq!(client.get("/").content, b"home"),
                    1 => assert_eq!(client.get("/large").content.len(), 600_000),
                    2 => drop(client.send(get("/large"))),
                    _ => {}
                }
            }
        };
        thread::scope(|scope| (0..4).for_each(|round| drop(scope.spawn(move || crowd(round)))));
        wait_for("rest", at_rest);
        let since = Instant::now();
        while all() != before && since.elapsed() < common::TEST_TIMEOUT {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(all(), before, "{engine}: as before");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn who_finds_no_place_is_refused_and_counted() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(8 << 20))]);
    let admin = dir.path().join("admin.sock");
    let admin = format!("unix:{}", admin.display());
    let program =
        RunningProgram::start_ready(with(dir.path(), Engine::Fork, &["--workers", "2", "--admin", &admin]));
    let mut busy: Vec<_> = (0..2).map(|_| TestClient::connect(program.address())).collect();
    for client in &mut busy {
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
    }
    let since = Instant::now();
    for _ in 0..3 {
        let mut client = TestClient::connect(program.address());
        client.send(get("/"));
        let refusal = client.response();
        assert_eq!((refusal.status, refusal.field("Retry-After")), (503, Some("2")), "{refusal:?}");
        assert!(refusal.closes());
        assert_eq!(client.read_to_end(), b"", "in order, without a reset");
    }
    assert!(since.elapsed() > Duration::from_secs(1), "not at once: {:?}", since.elapsed());
    assert_eq!(workers(&program).len(), 2);
    let admin: Address = admin.parse().unwrap();
    let metrics = tarpon::ask(&admin).unwrap();
    let refused = metrics.responses.iter().find(|responses| responses.status == 503).map(|found| found.count);
    assert_eq!((refused, metrics.accepted, metrics.open), (Some(3), 5, 2));
    for client in &mut busy {
        assert_eq!(client.read_exact(48 << 20).len(), 48 << 20);
    }
    // They are not used any more.
    wait_for("a place", || {
        (TestClient::connect(program.address()).get("/").content == b"home").then_some(())
    });
}

#[test]
fn connections_that_are_not_used_make_room_for_who_waits() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "3"]));
        for _ in 0..3 {
            // More than there is room for, and all of them keep their connections.
            let mut clients: Vec<_> = (0..6).map(|_| TestClient::connect(program.address())).collect();
            for client in &mut clients {
                client.send(get("/"));
            }
            for client in &mut clients {
                assert_eq!(client.response().content, b"home", "{engine}");
            }
        }
    }
}

#[test]
fn what_all_processes_have_done_is_counted_and_logged_once() {
    const CLIENT_COUNT: usize = 4;
    const CONNECTION_COUNT: usize = 10;
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let temp = common::readable_dir();
        let (log, admin) = (temp.path().join("log"), format!("unix:{}", temp.path().join("admin").display()));
        let options = ["--workers", "16", "--admin", &admin, "--access-log", log.to_str().unwrap()];
        let program = RunningProgram::start_ready(with(dir.path(), engine, &options));
        let admin: Address = admin.parse().unwrap();
        let address = program.address();
        thread::scope(|scope| {
            for number in 0..CLIENT_COUNT {
                scope.spawn(move || {
                    for connection in 0..CONNECTION_COUNT {
                        let mut client = TestClient::connect(address);
                        for request in 0..5 {
                            let target = format!("/?{number}-{connection}-{request}");
                            assert_eq!(client.get(&target).content, b"home");
                        }
                    }
                });
            }
        });
        let connection_count = CLIENT_COUNT * CONNECTION_COUNT;
        let count = 5 * connection_count;
        let metrics = wait_for("the end of all of them", || {
            tarpon::ask(&admin)
                .ok()
                .filter(|metrics| metrics.open == 0 && metrics.accepted == connection_count as u64)
        });
        assert_eq!((metrics.response_count(), metrics.workers), (count as u64, 16), "{engine}");
        assert_eq!((metrics.log_dropped, metrics.aborted), (0, 0), "{engine}");
        assert_eq!((metrics.engine.as_str(), metrics.sites[0].files), (engine.name(), 1));
        program.signal(Signal::TERM);
        assert_eq!(program.wait().status, ExitStatus::default(), "{engine}");
        let logged = fs::read_to_string(&log).unwrap();
        let told: BTreeSet<_> =
            logged.lines().map(|line| line.split('"').nth(1).expect("a request")).collect();
        assert_eq!((logged.lines().count(), told.len()), (count, count), "{engine}: {logged}");
        assert!(logged.lines().all(|line| line.contains("\" 200 4 ")), "{engine}: {logged}");
    }
}

#[test]
fn a_desk_that_is_killed_is_replaced_and_the_log_goes_on() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let temp = common::readable_dir();
        let (log, admin) = (temp.path().join("log"), format!("unix:{}", temp.path().join("admin").display()));
        let options = ["--workers", "2", "--admin", &admin, "--access-log", log.to_str().unwrap()];
        let program = RunningProgram::start_ready(with(dir.path(), engine, &options));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
        wait_for("a line", || (fs::read_to_string(&log).unwrap().lines().count() == 1).then_some(()));
        let desk = named(&program, "tarpon-desk").into_iter().next().expect("a desk");
        kill_process(desk, Signal::KILL).unwrap();
        wait_for("its end", || has_exited(desk).then_some(()));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
        wait_for("another line", || (fs::read_to_string(&log).unwrap().lines().count() == 2).then_some(()));
        let admin: Address = admin.parse().unwrap();
        let metrics = wait_for("an answer", || tarpon::ask(&admin).ok());
        assert_eq!(metrics.response_count(), 2, "{engine}: what was counted is still there");
        program.wait_for_err("warning: the desk process was killed by SIGKILL; starting another\n");
    }
}

#[test]
fn the_end_waits_for_what_is_under_way_and_not_longer_than_the_grace() {
    let large = distinct_bytes(48 << 20);
    let dir = site(&[("index.html", "home".as_bytes()), ("large", &large)]);
    for engine in ENGINES {
        for (grace, is_patient) in [("3600", true), ("1", false)] {
            let program = RunningProgram::start_ready(with(
                dir.path(),
                engine,
                &["--workers", "4", "--grace-period", grace],
            ));
            let mut idle = TestClient::connect(program.address());
            assert_eq!(idle.get("/").content, b"home");
            let mut client = TestClient::connect(program.address());
            client.send(get("/large"));
            assert_eq!(client.try_head().unwrap().status, 200);
            program.signal(Signal::TERM);
            assert_eq!(idle.read_to_end(), b"", "{engine}: an idle one at once");
            wait_for("no new client", || TcpStream::connect(program.address()).is_err().then_some(()));
            if is_patient {
                assert!(client.read_exact(large.len()) == large, "{engine}");
            }
            let ended = program.wait();
            assert_eq!((ended.status, &*ended.err), (ExitStatus::default(), ""), "{engine}, {grace}");
        }
    }
}

#[test]
fn when_the_process_that_controls_is_killed_its_workers_end_and_others_take_their_places() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "2"]));
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"home");
        let (server, mut parts) = (program.server(), children(program.server()));
        assert!(parts.len() >= 2, "{engine}");
        parts.push(server);
        kill_process(server, Signal::KILL).unwrap();
        parts.into_iter().for_each(|part| wait_for("its end", || has_exited(part).then_some(())));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home", "{engine}");
        program.wait_for_err("warning: the server process was killed by SIGKILL; starting another\n");
    }
}

#[test]
fn a_reload_leaves_no_client_without_an_answer() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "4"]));
        let before = program.server();
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"home");
        program.signal(Signal::HUP);
        wait_for("the next one", || (program.out().contains("reloaded")).then_some(()));
        // It hears of it a moment later.
        wait_for("the last response", || {
            let response = client.get("/");
            assert_eq!(response.content, b"home", "{engine}");
            response.closes().then_some(())
        });
        wait_for("the end of the first", || has_exited(before).then_some(()));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home", "{engine}");
        assert_eq!(program.err(), "", "{engine}");
    }
}

fn with(dir: &Path, engine: Engine, options: &[&str]) -> std::process::Command {
    serve_exactly(dir, &[options, &["--engine", engine.name()]].concat())
}

/// The children of the server with this name that have not ended.
fn named(program: &RunningProgram, name: &str) -> HashSet<Pid> {
    let children = children(program.server()).into_iter();
    children.filter(|&pid| process_name(pid).as_deref() == Some(name) && !has_exited(pid)).collect()
}

fn workers(program: &RunningProgram) -> HashSet<Pid> {
    named(program, "tarpon-worker")
}

/// Children of the server that have ended and were not waited for, for longer than a moment.
fn zombies(program: &RunningProgram) -> Vec<Pid> {
    thread::sleep(Duration::from_millis(200));
    children(program.server()).into_iter().filter(|&pid| has_exited(pid)).collect()
}

/// The worker that has a connection, and none of those. proc(5), /proc/pid/fd: the sockets beside those of a worker at rest.
fn serving(program: &RunningProgram, others: &[Pid]) -> Pid {
    let sockets = |pid: &Pid| {
        let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("one that runs");
        entries
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|of| of.to_string_lossy().starts_with("socket:"))
            .count()
    };
    let workers = workers(program).into_iter().filter(|pid| !others.contains(pid));
    workers.max_by_key(sockets).expect("a worker")
}
