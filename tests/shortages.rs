//! The program when the system runs short of something: processes, descriptors, room in a backlog. The running processes serve on, and
//! what failed is tried again.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    program::{RunningProgram, has_exited, serve, suspend, wrap_command},
    site, wait_for, write_files,
};
use rustix::{
    fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with},
    io::ioctl_fionbio,
    process::{Pid, Resource, Rlimit, Signal, geteuid, kill_process, prlimit},
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::Command,
};

/// A user that no other program runs as: its limit of processes is for tarpon alone.
const USER: u32 = 54_321;

#[test]
fn failed_fork_is_retried_while_the_server_serves() {
    if !geteuid().is_root() {
        return eprintln!("not run: only root can become the user of this test");
    }
    let dir = site(&[("index.html", "one")]);
    let user = USER.to_string();
    let wrapper = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let program = RunningProgram::start_ready(wrap_command(&wrapper, &serve(dir.path(), &[])));
    let mut client = TestClient::connect(program.address());
    assert_eq!(client.get("/").content, b"one");
    // As the user of the program: root of a container may not change the limits of other users.
    let set_process_count_max = |max: &str| {
        let (pid, limit) = (program.pid().as_raw_nonzero().to_string(), format!("--nproc={max}:"));
        let status =
            Command::new(wrapper[0]).args(&wrapper[1..]).args(["prlimit", "--pid", &pid, &limit]).status();
        assert!(status.is_ok_and(|status| status.success()), "a limit of the program");
    };
    let builder = program.builder();
    set_process_count_max("1");
    kill_process(builder, Signal::KILL).unwrap();
    wait_for_message(
        &program,
        "cannot start a builder process: resource temporarily unavailable; next attempt in",
    );
    assert_eq!(client.get("/").content, b"one");
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"one");
    set_process_count_max("1000");
    write_files(dir.path(), &[("index.html", "two")]);
    wait_for("the change", || (client.get("/").content == b"two").then_some(()));
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
}

#[test]
fn server_without_descriptors_for_its_start_is_started_later() {
    let dir = site(&[("index.html", "one")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &[]));
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let set_descriptor_count_max = |current| {
        let limit = Rlimit { current, ..limit };
        prlimit(Some(program.pid()), Resource::Nofile, limit).expect("a limit of a child");
    };
    set_descriptor_count_max(Some(4));
    let server = program.server();
    kill_process(server, Signal::KILL).unwrap();
    wait_for_message(&program, "cannot start a server process: too many open files; next attempt in");
    // The supervisor has the listening socket: the client waits.
    let mut client = TestClient::connect(program.address());
    client.send(get("/"));
    set_descriptor_count_max(limit.current);
    assert_eq!(client.response().content, b"one");
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
}

#[test]
fn output_that_nobody_reads_stops_no_one() {
    let (dir, temp) = (site(&[("index.html", "one")]), crate::common::readable_dir());
    let fifo = temp.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut pipe = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let script = format!("exec \"$@\" 2>{}", fifo.display());
    let program =
        RunningProgram::start_ready(wrap_command(&["sh", "-c", &script, "sh"], &serve(dir.path(), &[])));
    // Only this end: the program writes and blocks as usual.
    ioctl_fionbio(&pipe, true).unwrap();
    while pipe.write(b"\n").is_ok() {}
    let server = program.server();
    kill_process(server, Signal::KILL).unwrap();
    wait_for("another server", || (has_exited(server) && program.server() != server).then_some(()));
    assert_eq!(program.connect_after_kill().get("/").content, b"one");
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
}

#[test]
fn flood_of_reloads_costs_few_and_answers_all() {
    let (dir, temp) = (site(&[("index.html", "one")]), crate::common::readable_dir());
    let admin = temp.path().join("admin");
    let address = format!("unix:{}", admin.display());
    let program = RunningProgram::start_ready(serve(dir.path(), &["--admin", &address]));
    const COUNT: usize = 300;
    // A stopped supervisor carries out no order, so all of them wait.
    suspend(program.pid());
    let mut clients: Vec<_> = (0..COUNT)
        .map(|_| {
            let mut client = wait_for("room in the backlog", || UnixStream::connect(&admin).ok());
            client.write_all(b"POST /reload HTTP/1.0\r\n\r\n").unwrap();
            client
        })
        .collect();
    kill_process(program.pid(), Signal::CONT).unwrap();
    let (mut done, mut refused) = (0, 0);
    for client in &mut clients {
        let mut response = String::new();
        // A client that the full admin listener has evicted gets no response.
        let _ = client.read_to_string(&mut response);
        match response.split(' ').nth(1) {
            Some("200") => done += 1,
            Some("503") => refused += 1,
            _ => assert!(response.is_empty(), "{response}"),
        }
    }
    assert!(done >= 32, "{done} done, {refused} refused");
    let reloads = program.out().matches("reloaded").count();
    assert!(reloads < 20, "{reloads} reloads for {COUNT} orders");
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"one");
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
}

#[test]
fn log_reader_with_a_full_backlog_blocks_neither_start_nor_reopen_nor_stop() {
    let (dir, temp) = (site(&[("index.html", "one")]), crate::common::readable_dir());
    let path = temp.path().join("log");
    let target = format!("unix:{}", path.display());
    let fill = |listener: &UnixListener| {
        // Another listen(2) on the socket sets its backlog.
        rustix::net::listen(listener, 0).unwrap();
        let mut waiting = Vec::new();
        loop {
            let socket = rustix::net::socket_with(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::STREAM,
                rustix::net::SocketFlags::NONBLOCK,
                None,
            )
            .unwrap();
            let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
            match rustix::net::connect(&socket, &address) {
                Ok(()) => waiting.push(socket),
                Err(rustix::io::Errno::AGAIN) => return waiting,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let program = RunningProgram::start_ready(serve(dir.path(), &["--access-log", &target]));
    let mut lines = listener.accept().unwrap().0;
    TestClient::connect(program.address()).get("/");
    let mut line = [0; 9];
    lines.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"127.0.0.1");
    let waiting = fill(&listener);
    program.signal(Signal::USR1);
    wait_for_message(&program, "its backlog is full");
    // The log goes on to the connection that it has.
    TestClient::connect(program.address()).get("/");
    let second = RunningProgram::run(serve(dir.path(), &["--access-log", &target]));
    assert!(second.err.contains("its backlog is full"), "{second:?}");
    assert!(second.err.contains("start the log reader first"), "{second:?}");
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
    drop(waiting);
}

#[test]
fn sites_with_too_many_large_files_together_are_refused_by_name() {
    let content = |number: usize| format!("{number:05}").repeat(20_000);
    let files = |count: usize| -> Vec<_> {
        (0..count).map(|number| (format!("{number}"), content(number))).collect()
    };
    let dirs = [35, 23, 10, 1].map(|count| site(&files(count)));
    let config = crate::common::readable_dir();
    let path = config.path().join("tarpon.toml");
    let mut text = "[server]\nadmin = \"off\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n".to_owned();
    for (number, dir) in dirs.iter().enumerate() {
        text += &format!("[[site]]\nhosts = [\"{number}.test\"]\npath = \"{}\"\n", dir.path().display());
    }
    fs::write(&path, text).unwrap();
    let command = |limit: &str| {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_tarpon"));
        serve.args(["serve", "--log-format", "human", "--config", path.to_str().unwrap()]);
        wrap_command(&["prlimit", limit], &serve)
    };
    // Nine sixteenths of the limit are for the current versions.
    let exit = RunningProgram::run(command("--nofile=128:128"));
    assert_eq!(exit.status.code(), Some(1), "{exit:?}");
    for part in [
        "cannot keep all sites open: they need 73 open files, and the limit leaves room for 72",
        &format!("{} needs 36, {} needs 24, ", dirs[0].path().display(), dirs[1].path().display()),
        "pack the sites with tarpon pack, as an archive needs one, or raise the limit, as with ulimit -n 256 or LimitNOFILE=256",
    ] {
        assert!(exit.err.contains(part), "{part}: {exit:?}");
    }
    // With one file less the sites fit. Then one grows: the others and its previous version are served on.
    fs::remove_file(dirs[3].path().join("0")).unwrap();
    let program = RunningProgram::start_ready(command("--nofile=128:128"));
    let fetch = |host: &str, target: &str| {
        let mut client = TestClient::connect(program.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        client.response()
    };
    assert!(fetch("0.test", "/7").content == content(7).as_bytes());
    write_files(dirs[3].path(), &[("index.html", "home".to_owned())]);
    wait_for("the small site", || (fetch("3.test", "/").content == b"home").then_some(()));
    write_files(dirs[3].path(), &files(1));
    wait_for_message(&program, "cannot keep all sites open: they need 73 open files");
    assert_eq!(fetch("3.test", "/").content, b"home");
    assert!(fetch("0.test", "/7").content == content(7).as_bytes());
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
}

#[test]
fn large_files_may_take_half_of_the_descriptors_and_change() {
    const COUNT: usize = 255;
    let content = |number: usize, version: &str| format!("{version} {number:05}").repeat(10_000);
    let temp = crate::common::readable_dir();
    let data = |site: &Path| site.join("data");
    for &engine in ENGINES {
        let (dir, others) = (temp.path().join(engine.name()), temp.path().join(format!("{engine} others")));
        for (place, version) in [(data(&dir), "one"), (others.clone(), "all")] {
            let files: Vec<_> =
                (0..COUNT).map(|number| (number.to_string(), content(number, version))).collect();
            fs::create_dir_all(&place).unwrap();
            write_files(&place, &files);
        }
        let serve = serve(&dir, &["--engine", engine.name(), "--workers", "1"]);
        let program = RunningProgram::start_ready(wrap_command(&["prlimit", "--nofile=512:512"], &serve));
        let is_served = |number: usize, version: &str| {
            let response = TestClient::connect(program.address()).get(&format!("/data/{number}"));
            response.content == content(number, version).as_bytes()
        };
        assert!(is_served(0, "one") && is_served(COUNT - 1, "one"), "{engine}");
        for version in ["two", "three"] {
            for number in [0, COUNT - 1] {
                write_files(&data(&dir), &[(number.to_string(), content(number, version))]);
                wait_for("the change", || is_served(number, version).then_some(()));
            }
        }
        assert!(is_served(1, "one"), "{engine}");
        assert_eq!(program.err(), "", "{engine}");
        // Twice as many do not fit: the version that is served stays.
        renameat_with(CWD, data(&dir), CWD, &others, RenameFlags::EXCHANGE).unwrap();
        wait_for_message(&program, "cannot load the new version of");
        let want = "256 of its open files are new, and the limit leaves room for 384 of both versions; \
                    restart tarpon, pack the site with tarpon pack";
        assert!(program.err().contains(want), "{engine}: {}", program.err());
        assert!(is_served(0, "three") && is_served(1, "one"), "{engine}");
        renameat_with(CWD, data(&dir), CWD, &others, RenameFlags::EXCHANGE).unwrap();
        write_files(&data(&dir), &[("1", content(1, "four"))]);
        wait_for("a version that fits", || is_served(1, "four").then_some(()));
        program.signal(Signal::TERM);
        assert!(program.wait().status.success(), "{engine}");
    }
}

#[test]
fn process_1_of_a_container_reaps_orphans() {
    let dir = site(&[("index.html", "one")]);
    let wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new("unshare").args(&wrapper[1..]).arg("true").status().is_ok_and(|status| status.success())
    {
        return eprintln!("not run: this user may not make a container");
    }
    let program = RunningProgram::start_ready(wrap_command(&wrapper, &serve(dir.path(), &[])));
    let init = program.child_pids()[0];
    // The shell exits before its child, which process 1 inherits.
    let pid = init.as_raw_nonzero().to_string();
    let orphan = "sleep 0.1 & echo $!";
    let enter = Command::new("nsenter").args(["-t", &pid, "-p", "-m", "sh", "-c", orphan]).output().unwrap();
    assert!(enter.status.success(), "{enter:?}");
    let is_zombie =
        |path: &Path| fs::read_to_string(path.join("stat")).is_ok_and(|stat| stat.contains(") Z "));
    let children = || -> Vec<Pid> { crate::common::program::children(init) };
    // Builder and server stay; the orphan is gone, and no zombie is left.
    wait_for("the orphan to be reaped", || {
        let children = children();
        let zombies = children
            .iter()
            .filter(|pid| is_zombie(Path::new(&format!("/proc/{}", pid.as_raw_nonzero()))))
            .count();
        (children.len() == 2 && zombies == 0).then_some(())
    });
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"one");
    kill_process(init, Signal::TERM).unwrap();
    wait_for("process 1 to exit", || has_exited(init).then_some(()));
    assert!(TcpStream::connect(program.address()).is_err());
}

/// Waits until standard error contains a text.
#[track_caller]
fn wait_for_message(program: &RunningProgram, want: &str) {
    wait_for(want, || program.err().contains(want).then_some(()));
}
