//! The worker processes of the engines `prefork` and `fork`: their number, a crash of one, and their cleanup.

use crate::common::{
    client::{TestClient, connected, get},
    distinct_bytes,
    endpoint::TestTls,
    port::ReservedPort,
    program::{RunningProgram, children, has_exited, process_name, serve_exactly, tarpon, wrap_command},
    site, wait_for, write_files,
};
use rustix::process::{Pid, Signal, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, getrlimit};
use std::{
    collections::{BTreeSet, HashSet},
    fs, iter,
    net::TcpStream,
    path::Path,
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};
#[cfg(target_os = "linux")]
use std::{os::unix::process::CommandExt, process::Command};
use tarpon::{Address, Engine};

const ENGINES: [Engine; 2] = [Engine::Prefork, Engine::Fork];

#[test]
fn killed_worker_is_reported_and_other_clients_are_served() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(4 << 20))]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "3"]));
        let mut lost = TestClient::connect(program.address());
        assert_eq!(lost.get("/").content, b"home");
        let first = busy_worker(&program);
        let mut other = TestClient::connect(program.address());
        other.send(get("/large"));
        assert_eq!(other.try_head().unwrap().status, 200);
        kill_process(first, Signal::KILL).unwrap();
        wait_for("the worker exits", || has_exited(first).then_some(()));
        assert!(lost.try_read_to_end().is_ok_and(|rest| rest.is_empty()), "{engine}");
        assert_eq!(other.read_exact(24 << 20), "large ".repeat(4 << 20).as_bytes(), "{engine}");
        // The second client needs the restarted worker.
        let mut clients: Vec<_> = (0..2).map(|_| TestClient::connect(program.address())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").content, b"home", "{engine}"));
        let want = match engine {
            Engine::Prefork => "warning: the worker process was killed by SIGKILL; starting another\n",
            _ => "warning: a worker process was killed by SIGKILL; its connection is lost\n",
        };
        wait_for("a warning", || (program.err() == want).then_some(()));
        if engine == Engine::Prefork {
            wait_for("a new worker", || (workers(&program).len() == 3).then_some(()));
        }
        let is_zombie = |&pid: &Pid| has_exited(pid);
        wait_for("no zombie is left", || (!children(program.server()).iter().any(is_zombie)).then_some(()));
    }
}

#[test]
fn worker_that_starts_with_a_waiting_client_counts_as_busy() {
    const COUNT: usize = 40;
    let dir = site(&[("index.html", "home")]);
    for _ in 0..3 {
        let port = ReservedPort::new();
        let free = port.address;
        let options = ["--workers", &COUNT.to_string(), "--listen", &free.to_string()];
        // On one core, running workers compete with the process that forks the others.
        let command =
            wrap_command(&["taskset", "--cpu-list", "0"], &with(dir.path(), Engine::Prefork, &options));
        let _program = RunningProgram::start(command);
        let first = wait_for("a server", || TcpStream::connect(free).ok());
        let others = (1..COUNT).map(|_| TcpStream::connect(free).unwrap());
        let mut clients: Vec<_> = iter::once(first).chain(others).map(TestClient::new).collect();
        clients.iter_mut().for_each(|client| assert!(client.send(get("/"))));
        clients.iter_mut().for_each(|client| assert_eq!(client.response().content, b"home"));
        // A worker evicts its idle connection.
        assert_eq!(TestClient::connect(free).get("/").content, b"home");
    }
}

#[test]
fn changed_site_is_served_on_open_connections() {
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
            // Its process may be the last that hears of the change.
            let fresh = || TestClient::connect(program.address()).get("/").content;
            wait_for("a new connection with the change", || (fresh() == content.as_bytes()).then_some(()));
        }
        assert!(before.is_subset(&workers(&program)), "{engine}: a worker was replaced");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn workers_unmap_a_replaced_archive() {
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
        let maps_archive = |pid: Pid| {
            let maps = fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero()));
            maps.is_ok_and(|maps| maps.contains("site.tar (deleted)"))
        };
        wait_for("the unmapped archive", || (!workers(&program).into_iter().any(maps_archive)).then_some(()));
    }
}

#[test]
fn prefork_has_the_configured_workers_and_fork_one_per_connection() {
    let dir = site(&[("index.html", "home")]);
    for (engine, idle, busy) in [(Engine::Prefork, 5, 5), (Engine::Fork, 0, 3)] {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "5"]));
        // Each worker sets its name when it starts.
        wait_for("the idle workers", || (workers(&program).len() == idle).then_some(()));
        let mut clients: Vec<_> = (0..3).map(|_| TestClient::connect(program.address())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").content, b"home"));
        assert_eq!(workers(&program).len(), busy, "{engine}");
        drop(clients);
        wait_for("the busy workers exit", || (workers(&program).len() == idle).then_some(()));
        let only_aux = || (children(program.server()).len() == idle + 1).then_some(());
        wait_for("no child but the aux process and idle workers", only_aux);
    }
}

#[test]
fn thousand_connections_leak_no_descriptor_or_process() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(100_000))]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "4"]));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
        let is_idle =
            || (workers(&program).len() == if engine == Engine::Fork { 0 } else { 4 }).then_some(());
        wait_for("idle workers", is_idle);
        // Every worker has started, and closed its first connection.
        let mut clients: Vec<_> = (0..4).map(|_| TestClient::connect(program.address())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").content, b"home"));
        drop(clients);
        wait_for("idle workers", is_idle);
        wait_for("no connection", || (program.connection_count() == 0).then_some(()));
        let before = wait_for("processes that run", || descriptor_counts(&program));
        let connect = |round: usize| {
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
        thread::scope(|scope| (0..4).for_each(|round| drop(scope.spawn(move || connect(round)))));
        wait_for("idle workers", is_idle);
        // A process may still hold one more descriptor when the test counts first, but never again one less.
        let has_leaked = |now: &DescriptorCounts| {
            now.len() > before.len() || now.iter().zip(&before).any(|(now, before)| now > before)
        };
        wait_for(&format!("{engine}: no more than {before:?}"), || {
            descriptor_counts(&program).filter(|now| !has_leaked(now))
        });
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[test]
fn client_without_a_free_slot_gets_503_and_is_counted() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(8 << 20))]);
    let temp = tempfile::tempdir().unwrap();
    let admin = format!("unix:{}", temp.path().join("admin.sock").display());
    let tls = TestTls::new();
    let options = ["--engine", "fork", "--workers", "2", "--admin", &admin];
    let program = RunningProgram::start_ready(tls.serve_exactly(dir.path(), &options));
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
        assert_eq!(client.read_to_end(), b"", "EOF without a reset");
    }
    assert!(since.elapsed() > Duration::from_secs(1), "refused without waiting: {:?}", since.elapsed());
    let [_, tls13, tls12] = tls.endpoints(&program.addresses());
    for endpoint in [tls13, tls12] {
        let handshake = endpoint.try_client(connected(endpoint.address));
        let error = handshake.map(drop).expect_err("no slot is free").to_string();
        assert!(error.contains("InternalError"), "{endpoint}: {error}");
    }
    assert_eq!(workers(&program).len(), 2);
    let admin: Address = admin.parse().unwrap();
    // The acceptor counts a refused client after it has closed the connection.
    wait_for("the metrics of seven clients", || {
        let metrics = tarpon::fetch_metrics(&admin).unwrap();
        let refused = metrics.responses.iter().find(|responses| responses.status == 503)?.count;
        ((refused, metrics.tls_failed, metrics.accepted, metrics.open) == (3, 2, 7, 2)).then_some(())
    });
    for client in &mut busy {
        assert_eq!(client.read_exact(48 << 20).len(), 48 << 20);
    }
    // The two connections are idle now.
    wait_for("a free slot", || {
        (TestClient::connect(program.address()).get("/").content == b"home").then_some(())
    });
}

#[test]
fn idle_connections_are_evicted_for_waiting_clients() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "3"]));
        for _ in 0..3 {
            // More clients than slots, and all of them keep their connections open.
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
fn requests_of_all_processes_are_counted_and_logged_once() {
    const CLIENT_COUNT: usize = 4;
    const CONNECTION_COUNT: usize = 10;
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let temp = crate::common::readable_dir();
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
        let metrics = wait_for("the end of all connections", || {
            tarpon::fetch_metrics(&admin)
                .ok()
                .filter(|metrics| metrics.open == 0 && metrics.accepted == connection_count as u64)
        });
        assert_eq!((metrics.response_count(), metrics.workers), (count as u64, 16), "{engine}");
        assert_eq!((metrics.log_dropped, metrics.aborted), (0, 0), "{engine}");
        assert_eq!((metrics.engine.as_str(), metrics.sites[0].files), (engine.name(), 1));
        program.signal(Signal::TERM);
        assert_eq!(program.wait().status, ExitStatus::default(), "{engine}");
        let logged = fs::read_to_string(&log).unwrap();
        let distinct: BTreeSet<_> =
            logged.lines().map(|line| line.split('"').nth(1).expect("a request")).collect();
        assert_eq!((logged.lines().count(), distinct.len()), (count, count), "{engine}: {logged}");
        assert!(logged.lines().all(|line| line.contains("\" 200 4 ")), "{engine}: {logged}");
    }
}

#[test]
fn killed_aux_process_is_replaced_and_the_log_continues() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let temp = crate::common::readable_dir();
        let (log, admin) = (temp.path().join("log"), format!("unix:{}", temp.path().join("admin").display()));
        let options = ["--workers", "2", "--admin", &admin, "--access-log", log.to_str().unwrap()];
        let program = RunningProgram::start_ready(with(dir.path(), engine, &options));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
        wait_for("a line", || (fs::read_to_string(&log).unwrap().lines().count() == 1).then_some(()));
        let aux = named(&program, "tarpon-aux").into_iter().next().expect("an aux process");
        kill_process(aux, Signal::KILL).unwrap();
        wait_for("the aux process exits", || has_exited(aux).then_some(()));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
        wait_for("another line", || (fs::read_to_string(&log).unwrap().lines().count() == 2).then_some(()));
        let admin: Address = admin.parse().unwrap();
        let metrics = wait_for("metrics", || tarpon::fetch_metrics(&admin).ok());
        assert_eq!(metrics.response_count(), 2, "{engine}: the counts survive");
        program.wait_for_err("warning: the aux process was killed by SIGKILL; starting another\n");
    }
}

#[test]
fn stop_waits_for_a_download_within_the_grace_period() {
    let large = distinct_bytes(48 << 20);
    let dir = site(&[("index.html", "home".as_bytes()), ("large", &large)]);
    for engine in ENGINES {
        for (grace, completes) in [("3600", true), ("1", false)] {
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
            assert_eq!(idle.read_to_end(), b"", "{engine}: an idle connection closes immediately");
            wait_for("the listener is closed", || {
                TcpStream::connect(program.address()).is_err().then_some(())
            });
            if completes {
                assert!(client.read_exact(large.len()) == large, "{engine}");
            }
            let ended = program.wait();
            assert_eq!((ended.status, &*ended.err), (ExitStatus::default(), ""), "{engine}, {grace}");
        }
    }
}

#[test]
fn workers_of_a_killed_master_exit_and_are_replaced() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "2"]));
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"home");
        let (server, mut processes) = (program.server(), children(program.server()));
        assert!(processes.len() >= 2, "{engine}");
        processes.push(server);
        kill_process(server, Signal::KILL).unwrap();
        processes.into_iter().for_each(|pid| wait_for("the process exits", || has_exited(pid).then_some(())));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home", "{engine}");
        program.wait_for_err("warning: the server process was killed by SIGKILL; starting another\n");
    }
}

#[test]
fn reload_loses_no_request() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "4"]));
        let before = program.server();
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"home");
        program.signal(Signal::HUP);
        wait_for("the reload", || (program.out().contains("reloaded")).then_some(()));
        // The worker receives the notice slightly later.
        wait_for("the last response", || {
            let response = client.get("/");
            assert_eq!(response.content, b"home", "{engine}");
            response.closes().then_some(())
        });
        wait_for("the predecessor exits", || has_exited(before).then_some(()));
        assert_eq!(TestClient::connect(program.address()).get("/").content, b"home", "{engine}");
        assert_eq!(program.err(), "", "{engine}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn fork_that_fails_is_reported_and_retried_while_others_are_served() {
    let dir = site(&[("index.html", "home")]);
    for engine in ENGINES {
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "2"]));
        wait_for("the idle workers", || {
            (workers(&program).len() == if engine == Engine::Fork { 0 } else { 2 }).then_some(())
        });
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"home", "{engine}");
        let limit = SoftLimit::set(program.server(), Resource::Nproc, 0);
        if engine == Engine::Fork {
            let mut refused = TestClient::connect(program.address());
            refused.send(get("/"));
            assert_eq!(refused.response().status, 503);
        } else {
            let busy = busy_worker(&program);
            let idle = workers(&program).into_iter().find(|&pid| pid != busy).expect("an idle worker");
            kill_process(idle, Signal::KILL).unwrap();
        }
        let want = "warning: cannot start a worker process: resource temporarily unavailable; next attempt in 100ms\n";
        wait_for("a warning", || program.err().contains(want).then_some(()));
        assert_eq!(client.get("/").content, b"home", "{engine}: a running worker");
        drop(limit);
        match engine {
            Engine::Fork => wait_for("a worker", || {
                let mut client = TestClient::connect(program.address());
                client.send(get("/"));
                (client.response().status == 200).then_some(())
            }),
            _ => wait_for("a worker", || (workers(&program).len() == 2).then_some(())),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn site_that_finds_no_descriptors_is_sent_again_until_it_fits() {
    let dir = site(&[("index.html", "0")]);
    for engine in ENGINES {
        write_files(dir.path(), &[("index.html", "0")]);
        let program = RunningProgram::start_ready(with(dir.path(), engine, &["--workers", "2"]));
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"0", "{engine}");
        let open = fs::read_dir(format!("/proc/{}/fd", program.server().as_raw_nonzero())).unwrap();
        let open: HashSet<u64> =
            open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        let lowest_free = (0..).find(|number| !open.contains(number)).unwrap();
        let limit = SoftLimit::set(program.server(), Resource::Nofile, lowest_free);
        write_files(dir.path(), &[("index.html", "1")]);
        let why = "warning: cannot take over the site: no room for 1 more open files; still serving the previous version, \
                   trying again in 100ms\n";
        wait_for("a warning", || program.err().contains(why).then_some(()));
        assert_eq!(client.get("/").content, b"0", "{engine}");
        drop(limit);
        wait_for("the change", || (client.get("/").content == b"1").then_some(()));
    }
}

/// A lowered limit of another process. Dropping this restores it.
#[cfg(target_os = "linux")]
struct SoftLimit {
    pid: Pid,
    name: &'static str,
    before: Option<u64>,
}

#[cfg(target_os = "linux")]
impl SoftLimit {
    fn set(pid: Pid, resource: Resource, limit: u64) -> SoftLimit {
        let name = if resource == Resource::Nproc { "nproc" } else { "nofile" };
        // The program inherited it from this process.
        let limits = SoftLimit { pid, name, before: getrlimit(resource).current };
        limits.change(Some(limit));
        limits
    }

    /// Sets the limit as the user of the process: root of a container may not.
    fn change(&self, limit: Option<u64>) {
        let pid = self.pid.as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let id = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let limit = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
        let mut command = Command::new("prlimit");
        command.args([format!("--pid={pid}"), format!("--{}={limit}:", self.name)]);
        assert!(command.uid(id("Uid:")).gid(id("Gid:")).status().unwrap().success());
    }
}

#[cfg(target_os = "linux")]
impl Drop for SoftLimit {
    fn drop(&mut self) {
        self.change(self.before);
    }
}

fn with(dir: &Path, engine: Engine, options: &[&str]) -> std::process::Command {
    serve_exactly(dir, &[options, &["--engine", engine.name()]].concat())
}

/// Returns the running children of the server with this name.
fn named(program: &RunningProgram, name: &str) -> HashSet<Pid> {
    let children = children(program.server()).into_iter();
    children.filter(|&pid| process_name(pid).as_deref() == Some(name) && !has_exited(pid)).collect()
}

fn workers(program: &RunningProgram) -> HashSet<Pid> {
    named(program, "tarpon-worker")
}

/// The number of open descriptors of each process of a server, by name.
type DescriptorCounts = Vec<(String, usize)>;

/// Counts the descriptors of the server and its children. Returns `None` if one of them exits meanwhile.
fn descriptor_counts(program: &RunningProgram) -> Option<DescriptorCounts> {
    let server = program.server();
    let count = |pid: Pid| {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
        Some((process_name(pid)?, descriptors.count()))
    };
    let mut counts: DescriptorCounts =
        children(server).into_iter().chain([server]).map(count).collect::<Option<_>>()?;
    counts.sort();
    Some(counts)
}

/// Returns the worker with a connection: the one with the most sockets. proc(5), /proc/pid/fd.
fn busy_worker(program: &RunningProgram) -> Pid {
    let sockets = |pid: &Pid| {
        let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("a running process");
        entries
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    workers(program).into_iter().max_by_key(sockets).expect("a worker")
}
