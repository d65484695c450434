//! The processes of `tarpon serve`: any of them may end in any way, and clients are served all the same.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::{TestClient, get},
    load::LoadGenerator,
    program::{RunningProgram, has_exited, serve, wrap_command},
    site, wait_for, write_files,
};
use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use std::{
    fs,
    net::TcpStream,
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

#[test]
fn a_server_process_that_is_killed_is_replaced_and_clients_wait_for_the_next() {
    let (dir, temp) = (site(&[("index.html", "home")]), common::readable_dir());
    for &engine in ENGINES {
        let socket = temp.path().join("socket");
        let unix = format!("unix:{}", socket.display());
        let options = ["--engine", engine.name(), "--listen", "127.0.0.1:0", "--listen", &unix];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let first = program.server();
        // So that there is a time without a server, in which clients come.
        kill_process(program.pid(), Signal::STOP).unwrap();
        end(first);
        let mut clients: Vec<_> = (0..20)
            .flat_map(|_| [TestClient::connect(program.address()), TestClient::connect_unix(&socket)])
            .collect();
        for client in &mut clients {
            client.send(get("/"));
        }
        kill_process(program.pid(), Signal::CONT).unwrap();
        for client in &mut clients {
            assert_eq!(client.response().content, b"home", "{engine}");
        }
        let warning = "warning: the server process was killed by SIGKILL; starting another\n";
        program.wait_for_err(warning);
        // It follows changes as the first one did.
        write_files(dir.path(), &[("index.html", "new")]);
        let asked = || TestClient::connect(program.address()).get("/").content;
        wait_for("the change", || (asked() == b"new").then_some(()));
        write_files(dir.path(), &[("index.html", "home")]);
        program.signal(Signal::TERM);
        assert_eq!(program.wait().status, ExitStatus::default(), "{engine}");
        assert!(!socket.exists(), "{engine}");
    }
}

/// Only who had a connection to it, or was about to, may be left without an answer; all who come later have one.
#[test]
fn a_server_process_that_is_killed_under_load_costs_its_connections_and_no_other() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES {
        let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", engine.name()]));
        let load = LoadGenerator::start(program.address(), "/", b"home");
        load.wait_for_responses(50);
        let server = program.server();
        kill_process(server, Signal::KILL).unwrap();
        wait_for("its end", || has_exited(server).then_some(()));
        let late = if engine == Engine::IoUring { LATE } else { Duration::ZERO };
        let by = Instant::now() + late;
        load.wait_for_responses(50);
        thread::sleep(late);
        load.wait_for_responses(50);
        let failures = load.stop();
        let later: Vec<_> = failures.iter().filter(|failure| failure.connected > by).collect();
        assert!(later.is_empty(), "{engine}: {later:?}");
    }
}

#[test]
fn a_keeper_process_that_is_killed_is_replaced_and_no_client_notices() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"home");
    let (keeper, server) = (program.builder(), program.server());
    kill_process(keeper, Signal::KILL).unwrap();
    for content in ["second", "third"] {
        write_files(dir.path(), &[("index.html", content)]);
        wait_for(content, || (client.get("/").content == content.as_bytes()).then_some(()));
    }
    program.wait_for_err("warning: the builder process was killed by SIGKILL; starting another\n");
    assert_ne!(program.builder(), keeper);
    assert_eq!(program.server(), server);
}

#[test]
fn what_was_kept_of_earlier_releases_outlives_a_server_process() {
    let dir = site(&[("index.html", "1"), ("assets/app-1a2b3c4d.js", "first")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--keep-releases", "3"]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"1");
    fs::remove_file(dir.path().join("assets/app-1a2b3c4d.js")).unwrap();
    write_files(dir.path(), &[("index.html", "2")]);
    wait_for("the next release", || (client.get("/").content == b"2").then_some(()));
    end(program.server());
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"2");
    assert_eq!(client.get("/assets/app-1a2b3c4d.js").content, b"first");
}

#[test]
fn more_large_files_than_go_into_one_message_arrive() {
    const COUNT: usize = 600;
    let files: Vec<_> =
        (0..COUNT).map(|number| (format!("{number}"), number.to_string().repeat(40_000))).collect();
    let dir = site(&files);
    let command = wrap_command(&["prlimit", "--nofile=8192:8192"], &serve(dir.path(), &[]));
    let program = RunningProgram::start_ready(command);
    for killed in [false, true] {
        if killed {
            end(program.server());
        }
        let mut client = TestClient::connect(program.address());
        for (name, content) in files.iter().step_by(37).chain(files.last()) {
            assert!(client.get(&format!("/{name}")).content == content.as_bytes(), "{name}");
        }
    }
}

#[test]
fn a_server_process_that_ends_again_and_again_is_replaced_less_and_less_often() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut last = None;
    let since = Instant::now();
    for _ in 0..4 {
        let server =
            wait_for("another one", || Some(program.server()).filter(|&server| Some(server) != last));
        kill_process(server, Signal::KILL).unwrap();
        last = Some(server);
    }
    thread::sleep(LATE);
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"home");
    let waits = ["", " in 100ms", " in 200ms", " in 400ms"];
    let want: String = waits
        .map(|wait| format!("warning: the server process was killed by SIGKILL; starting another{wait}\n"))
        .concat();
    program.wait_for_err(&want);
    assert!(since.elapsed() >= Duration::from_millis(700), "{:?}", since.elapsed());
}

#[test]
fn when_the_supervisor_is_killed_nothing_is_left() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let (address, parts) = (program.address(), [program.builder(), program.server()]);
    let mut client = TestClient::connect(address);
    assert_eq!(client.get("/").content, b"home");
    program.signal(Signal::KILL);
    for part in parts {
        wait_for("its end", || has_exited(part).then_some(()));
    }
    wait_for("the port to be free", || TcpStream::connect(address).is_err().then_some(()));
}

#[test]
fn a_signal_to_all_of_them_stops_them_in_order() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(8 << 20))]);
    // As Ctrl-C does, and as systemd does with a whole unit.
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = serve(dir.path(), &["--grace-period", "3600"]);
        command.process_group(0);
        let program = RunningProgram::start_ready(command);
        let mut client = TestClient::connect(program.address());
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        kill_process_group(program.pid(), signal).unwrap();
        wait_for("no new client", || TcpStream::connect(program.address()).is_err().then_some(()));
        thread::sleep(Duration::from_millis(100));
        assert_eq!(client.read_to_end().len(), 48 << 20, "a download under way is finished");
        let ended = program.wait();
        assert_eq!((ended.status, &*ended.err), (ExitStatus::default(), ""));
    }
}

#[test]
fn a_signal_before_anything_is_served_ends_it_at_once() {
    let (dir, temp) = (site(&[("index.html", "home")]), common::readable_dir());
    let socket = temp.path().join("socket");
    // A site that takes its time.
    let content = "long ".repeat(1 << 20);
    for number in 0..40 {
        write_files(dir.path(), &[(format!("{number}"), &content[number..])]);
    }
    let program = RunningProgram::start(serve(
        dir.path(),
        &["--preload", "--listen", &format!("unix:{}", socket.display())],
    ));
    wait_for("it listens", || UnixStream::connect(&socket).is_ok().then_some(()));
    let parts: Vec<Pid> = vec![program.builder()];
    program.signal(Signal::TERM);
    let ended = program.wait();
    assert_eq!(ended.out, "");
    for part in parts {
        wait_for("its end", || has_exited(part).then_some(()));
    }
}

/// Each process has what it needs, and nothing of what the others have. proc(5), /proc/pid/fd.
#[test]
fn no_process_has_descriptors_that_are_another_s() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(50_000))]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", "epoll", "--workers", "1"]));
    let open = |pid: Pid| -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
        let paths = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        paths.map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let count = |pid: Pid, what: &str| open(pid).iter().filter(|of| of.starts_with(what)).count();
    let large = |pid: Pid| open(pid).iter().filter(|of| Path::new(of).ends_with("large")).count();
    let (supervisor, keeper, server) = (program.pid(), program.builder(), program.server());
    // A channel; and the listener.
    assert_eq!([keeper, server].map(|pid| count(pid, "socket:")), [1, 2]);
    // Two channels, and the listener.
    assert_eq!(count(supervisor, "socket:"), 3);
    // The site; and the names on the way to it, if the keeper has gone it with the rights of root.
    let watched = if geteuid().is_root() { 2 } else { 1 };
    assert_eq!([keeper, server].map(|pid| count(pid, "anon_inode:inotify")), [watched, 0]);
    // It is closed a moment after it was sent.
    wait_for("the builder to let go", || (count(keeper, "/memfd:") + large(keeper) == 0).then_some(()));
    assert_eq!([supervisor, server].map(|pid| count(pid, "/memfd:")), [1, 1]);
    assert_eq!([supervisor, server].map(large), [1, 1]);
}

/// Kills a server process, and waits until it accepts nothing more.
fn end(server: Pid) {
    kill_process(server, Signal::KILL).unwrap();
    wait_for("its end", || has_exited(server).then_some(()));
    thread::sleep(LATE);
}

/// How long the kernel may go on accepting for a ring whose process was killed, only to reset whom it has accepted.
const LATE: Duration = Duration::from_millis(100);
