//! The processes of `tarpon serve`: clients get their responses although the server or the builder is killed.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    is_disconnect,
    load::LoadGenerator,
    program::{RunningProgram, children, has_exited, process_name, serve, suspend, wrap_command},
    site, wait_for, write_files,
};
use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use std::{
    fs,
    net::TcpStream,
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::ExitStatus,
    time::{Duration, Instant},
};
use tarpon::Engine;

#[test]
fn killed_server_process_is_replaced_and_waiting_clients_are_served() {
    let (dir, temp) = (site(&[("index.html", "home")]), crate::common::readable_dir());
    for &engine in ENGINES {
        let socket = temp.path().join("socket");
        let unix = format!("unix:{}", socket.display());
        let options = ["--engine", engine.name(), "--listen", "127.0.0.1:0", "--listen", &unix];
        let program = RunningProgram::start_ready(serve(dir.path(), &options));
        let first = program.server();
        wait_for_workers(first, engine);
        // While the supervisor is stopped, clients connect and no server runs.
        suspend(program.pid());
        end(first);
        let mut clients: Vec<_> = (0..20)
            .flat_map(|_| [TestClient::connect(program.address()), TestClient::connect_unix(&socket)])
            .collect();
        for client in &mut clients {
            client.send(get("/"));
        }
        kill_process(program.pid(), Signal::CONT).unwrap();
        for client in &mut clients {
            match client.try_response() {
                Ok(response) => assert_eq!(response.content, b"home", "{engine}"),
                // The kernel accepted this client for the ring of the killed process.
                Err(error) => {
                    assert!(engine == Engine::IoUring && is_disconnect(&error), "{engine}: {error}");
                    assert_eq!(program.connect_after_kill().get("/").content, b"home");
                }
            }
        }
        let warning = "warning: the server process was killed by SIGKILL; starting another\n";
        program.wait_for_err(warning);
        // The new server receives changes of the site.
        write_files(dir.path(), &[("index.html", "new")]);
        let home = || program.connect_after_kill().get("/").content;
        wait_for("the change", || (home() == b"new").then_some(()));
        write_files(dir.path(), &[("index.html", "home")]);
        program.signal(Signal::TERM);
        assert_eq!(program.wait().status, ExitStatus::default(), "{engine}");
        assert!(!socket.exists(), "{engine}");
    }
}

/// Only clients that were connected to the killed server, or were connecting, may fail; later clients get responses.
#[test]
fn killed_server_process_loses_only_its_own_connections_under_load() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES {
        let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", engine.name()]));
        let load = LoadGenerator::start(program.address(), "/", b"home");
        load.wait_for_responses(50);
        let server = program.server();
        kill_process(server, Signal::KILL).unwrap();
        wait_for("the server exits", || has_exited(server).then_some(()));
        drop(program.connect_after_kill());
        let since = wait_for("responses without a failure in between", || {
            let (before, since) = (load.failure_count(), Instant::now());
            load.wait_for_responses(50);
            // At once, but for the ring of a killed process.
            (load.failure_count() == before || engine != Engine::IoUring).then_some(since)
        });
        load.wait_for_responses(50);
        let failures = load.stop();
        let later: Vec<_> = failures.iter().filter(|failure| failure.connected > since).collect();
        assert!(later.is_empty(), "{engine}: {later:?}");
    }
}

#[test]
fn killed_builder_process_is_replaced_without_an_effect_on_clients() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"home");
    let (builder, server) = (program.builder(), program.server());
    kill_process(builder, Signal::KILL).unwrap();
    for content in ["second", "third"] {
        write_files(dir.path(), &[("index.html", content)]);
        wait_for(content, || (client.get("/").content == content.as_bytes()).then_some(()));
    }
    program.wait_for_err("warning: the builder process was killed by SIGKILL; starting another\n");
    assert_ne!(program.builder(), builder);
    assert_eq!(program.server(), server);
}

#[test]
fn retained_assets_outlive_a_server_process() {
    let dir = site(&[("index.html", "1"), ("assets/app-1a2b3c4d.js", "first")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--keep-releases", "3"]));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"1");
    fs::remove_file(dir.path().join("assets/app-1a2b3c4d.js")).unwrap();
    write_files(dir.path(), &[("index.html", "2")]);
    wait_for("the next release", || (client.get("/").content == b"2").then_some(()));
    end(program.server());
    let mut client = program.connect_after_kill();
    assert_eq!(client.get("/").content, b"2");
    assert_eq!(client.get("/assets/app-1a2b3c4d.js").content, b"first");
}

#[test]
fn site_with_more_large_files_than_fit_in_one_message_is_served() {
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
        let mut client = program.connect_after_kill();
        for (name, content) in files.iter().step_by(37).chain(files.last()) {
            assert!(client.get(&format!("/{name}")).content == content.as_bytes(), "{name}");
        }
    }
}

#[test]
fn server_process_that_is_killed_repeatedly_restarts_with_back_off() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let mut last = None;
    let since = Instant::now();
    for _ in 0..4 {
        let server =
            wait_for("the next server", || Some(program.server()).filter(|&server| Some(server) != last));
        kill_process(server, Signal::KILL).unwrap();
        last = Some(server);
    }
    let last = last.expect("a server");
    wait_for("the last server exits", || has_exited(last).then_some(()));
    assert_eq!(program.connect_after_kill().get("/").content, b"home");
    let waits = ["", " in 100ms", " in 200ms", " in 400ms"];
    let want: String = waits
        .map(|wait| format!("warning: the server process was killed by SIGKILL; starting another{wait}\n"))
        .concat();
    program.wait_for_err(&want);
    assert!(since.elapsed() >= Duration::from_millis(700), "{:?}", since.elapsed());
}

#[test]
fn killed_supervisor_leaves_no_process() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let (address, parts) = (program.address(), [program.builder(), program.server()]);
    let mut client = TestClient::connect(address);
    assert_eq!(client.get("/").content, b"home");
    program.signal(Signal::KILL);
    for part in parts {
        wait_for("the process exits", || has_exited(part).then_some(()));
    }
    wait_for("the port to be free", || TcpStream::connect(address).is_err().then_some(()));
}

#[test]
fn signal_to_the_process_group_stops_all_processes_in_order() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(8 << 20))]);
    // Ctrl-C sends SIGINT to the process group, and systemd sends SIGTERM to each process of a unit.
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = serve(dir.path(), &["--grace-period", "3600"]);
        command.process_group(0);
        let program = RunningProgram::start_ready(command);
        let mut client = TestClient::connect(program.address());
        client.send(get("/large"));
        assert_eq!(client.try_head().unwrap().status, 200);
        kill_process_group(program.pid(), signal).unwrap();
        wait_for("new clients are refused", || TcpStream::connect(program.address()).is_err().then_some(()));
        assert_eq!(client.read_to_end().len(), 48 << 20, "the client receives the rest of a download");
        let ended = program.wait();
        assert_eq!((ended.status, &*ended.err), (ExitStatus::default(), ""));
    }
}

#[test]
fn signal_during_the_first_load_stops_the_program_at_once() {
    let (dir, temp) = (site(&[("index.html", "home")]), crate::common::readable_dir());
    let socket = temp.path().join("socket");
    // A site that takes long to load.
    let content = "long ".repeat(1 << 20);
    for number in 0..40 {
        write_files(dir.path(), &[(format!("{number}"), &content[number..])]);
    }
    let program = RunningProgram::start(serve(
        dir.path(),
        &["--preload", "--listen", &format!("unix:{}", socket.display())],
    ));
    wait_for("the program listens", || UnixStream::connect(&socket).is_ok().then_some(()));
    let parts: Vec<Pid> = vec![program.builder()];
    program.signal(Signal::TERM);
    let ended = program.wait();
    assert_eq!(ended.out, "");
    for part in parts {
        wait_for("the process exits", || has_exited(part).then_some(()));
    }
}

/// Each process has only the descriptors that it needs. proc(5), /proc/pid/fd.
#[test]
fn no_process_has_the_descriptors_of_another() {
    let dir = site(&[("index.html", "home"), ("large", &"large ".repeat(50_000))]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", "epoll", "--workers", "1"]));
    let open = |pid: Pid| -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
        let paths = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        paths.map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let count = |pid: Pid, what: &str| open(pid).iter().filter(|of| of.starts_with(what)).count();
    let large = |pid: Pid| open(pid).iter().filter(|of| Path::new(of).ends_with("large")).count();
    let (supervisor, builder, server) = (program.pid(), program.builder(), program.server());
    // The builder has a channel; the server has a channel and the listener.
    assert_eq!([builder, server].map(|pid| count(pid, "socket:")), [1, 2]);
    // The supervisor has two channels and the listener.
    assert_eq!(count(supervisor, "socket:"), 3);
    // An inotify instance for the site, and another for the directories above the site if the builder opened them as root.
    let watched = if geteuid().is_root() { 2 } else { 1 };
    assert_eq!([builder, server].map(|pid| count(pid, "anon_inode:inotify")), [watched, 0]);
    // The builder closes the files of the site soon after it has sent the site. It keeps the image, whose compressed variants the next one uses.
    wait_for("the builder closes the files", || {
        (large(builder) == 0 && count(builder, "/memfd:") == 1).then_some(())
    });
    // The image, and in the supervisor the table of the counters, for a successor.
    assert_eq!([supervisor, server].map(|pid| count(pid, "/memfd:")), [2, 1]);
    assert_eq!([supervisor, server].map(|pid| count(pid, "/memfd:tarpon-counters")), [1, 0]);
    assert_eq!([supervisor, server].map(large), [1, 1]);
}

/// For a look-up of a user, the C library loads modules, which it never unloads. proc(5), /proc/pid/maps.
#[test]
fn no_process_has_loaded_a_user_database() {
    let dir = site(&[("index.html", "home")]);
    for engine in [Engine::Epoll, Engine::Fork] {
        let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", engine.name()]));
        for pid in [program.pid(), program.builder(), program.server()] {
            let maps = fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero())).unwrap();
            assert!(!maps.contains("/libnss_"), "{engine}: {maps}");
        }
    }
}

/// Waits until the worker processes of a server have started: in its first moments, a process would report that its parent has exited. A
/// started process has another name than its parent.
fn wait_for_workers(server: Pid, engine: Engine) {
    let count = match engine {
        Engine::Prefork => engine.default_worker_count().get(),
        _ => 0,
    };
    wait_for("the worker processes", || {
        let parts = children(server);
        let have_started = parts.iter().all(|&part| process_name(part) != process_name(server));
        (parts.len() >= count && have_started).then_some(())
    });
}

/// Kills a server process, and waits until it has exited.
fn end(server: Pid) {
    kill_process(server, Signal::KILL).unwrap();
    wait_for("the server exits", || has_exited(server).then_some(()));
}
