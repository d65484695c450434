//! `tarpon upgrade`: a new program takes over without an effect on clients, and a program that fails to start changes nothing.

use crate::common::{
    ENGINES,
    client::TestClient,
    load::LoadGenerator,
    port::ReservedPort,
    program::{ProgramExit, RunningProgram, UpgradedProgram, has_exited, tarpon, with_long_timeouts},
    readable_dir, wait_for, write_files,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
};
use tempfile::TempDir;

#[test]
fn upgrades_fail_no_request_and_reset_no_connection() {
    for &engine in ENGINES {
        let copy = InstalledProgram::new(&format!("engine = \"{engine}\"\n"));
        let program = copy.start();
        let load = LoadGenerator::start(copy.address, "/", b"one");
        load.wait_for_responses(50);
        let first = copy.upgrade();
        assert!(first.status.success(), "{engine}: {first:?}");
        load.wait_for_responses(50);
        let first = UpgradedProgram::from_output(&first.out);
        wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));
        kill_process(first.0, Signal::USR2).unwrap();
        wait_for("the first successor exits", || has_exited(first.0).then_some(()));
        load.wait_for_responses(50);
        // All programs write to the same standard output.
        let second = wait_for("the second successor", || second_successor(&program.out()));
        let failures = load.stop();
        assert!(failures.is_empty(), "{engine}: {failures:?}");
        assert_eq!(program.err(), "", "{engine}");
        second.stop();
    }
}

#[test]
fn replaced_program_file_is_started_with_the_sockets_of_its_predecessor() {
    let copy = InstalledProgram::new("");
    let socket = copy.dir.path().join("socket");
    copy.configure("one", &format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display()));
    let program = copy.start();
    let before = (descriptors(program.pid()), mask(program.pid()));
    let place = fs::metadata(&socket).unwrap().ino();
    // A new file of the same name, as package managers install programs.
    let inode = copy.install(Path::new(env!("CARGO_BIN_EXE_tarpon")));
    copy.configure("two", &format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display()));
    let upgraded = copy.upgrade();
    let next = UpgradedProgram::from_output(&upgraded.out);
    assert_eq!(fs::metadata(format!("/proc/{}/exe", next.0.as_raw_nonzero())).unwrap().ino(), inode);
    copy.wait_for("two");
    wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));
    // The sockets stay, also that of the admin listener.
    assert_eq!(fs::metadata(&socket).unwrap().ino(), place);
    assert_eq!(TestClient::connect_unix(&socket).get("/").content, b"two");
    // The successor closes what it has inherited when it notices the exit.
    wait_for("the successor has the descriptors and blocked signals of its predecessor", || {
        ((descriptors(next.0), mask(next.0)) == before).then_some(())
    });
    assert!(copy.run("status").status.success());
    // A second upgrade, with sockets that were handed over before.
    let upgraded = copy.upgrade();
    let last = UpgradedProgram::from_output(&upgraded.out);
    wait_for("the predecessor exits", || has_exited(next.0).then_some(()));
    assert_eq!(TestClient::connect_unix(&socket).get("/").content, b"two");
    last.stop();
    assert!(
        !socket.exists() && !copy.dir.path().join("admin").exists(),
        "the last program removes the sockets"
    );
}

/// What the case shows; the file of the program; the site and the rest of the configuration; a part of the error.
type FailingUpgrade<'a> = (&'a str, Option<Vec<u8>>, &'a str, &'a str, &'a str);

#[test]
fn program_that_fails_to_start_changes_nothing() {
    let copy = InstalledProgram::new("");
    let program = copy.start();
    let server = program.server();
    let mut client = TestClient::connect(copy.address);
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = format!("[[listener]]\naddress = \"{}\"\n", used.local_addr().unwrap());
    let real = fs::read(env!("CARGO_BIN_EXE_tarpon")).unwrap();
    let shell = |words: &str| format!("#!/bin/sh\n{words}\n").into_bytes();
    #[rustfmt::skip]
    let cases: [FailingUpgrade<'_>; 9] = [
        // what it shows         file                               site       rest            error
        ("no file",              None,                              "one",     "",             "no such file or directory"),
        ("no program",           Some(vec![0; 100]),                "one",     "",             "exec format error"),
        ("exits at once",        Some(shell("exit 3")),             "one",     "",             "the new program ended with status 3"),
        ("crashes",              Some(shell("kill -SEGV $$")),      "one",     "",             "the new program was killed by SIGSEGV"),
        ("hangs",                Some(shell("exec sleep 1000")),    "one",     "",             "did not serve in time, and was killed"),
        ("sends garbage",        Some(shell("exec bash -c 'printf \"\\0\\0\\0\\0no\" >&$TARPON_HANDOVER; exec sleep 1000'")), "one", "",  "the new program sent a malformed message"),
        ("a configuration",      Some(real.clone()),                "one",     "[sever]\n",    "unknown section `sever`"),
        ("a port in use",        Some(real.clone()),                "one",     &used,          "address already in use"),
        ("a missing site",       Some(real.clone()),                "missing", "",             "it does not exist"),
    ];
    for (name, file, site, rest, why) in cases {
        copy.configure(site, rest);
        match file {
            Some(file) => drop(copy.write(&file)),
            None => fs::remove_file(copy.program()).unwrap(),
        }
        let refused = copy.upgrade();
        assert_eq!((refused.status.code(), &*refused.out), (Some(1), ""), "{name}");
        for want in ["tarpon: not upgraded: ", why, "\nthe old process still serves\n"] {
            assert!(refused.err.contains(want), "{name}: {want}: {}", refused.err);
        }
        wait_for("a warning", || program.err().contains("warning: not upgraded: ").then_some(()));
        assert_eq!(client.get("/").content, b"one", "{name}");
        assert!(!client.get("/").closes(), "{name}");
        assert_eq!(program.server(), server, "{name}");
        // A program that was killed may exit after the response.
        wait_for("no other process is left", || (program.child_pids().len() == 2).then_some(()));
    }
    // A working program still starts.
    copy.configure("two", "");
    copy.write(&real);
    let upgraded = copy.upgrade();
    let next = UpgradedProgram::from_output(&upgraded.out);
    copy.wait_for("two");
    next.stop();
}

#[test]
fn orders_wait_for_an_upgrade_under_way() {
    let copy = InstalledProgram::new("");
    let program = copy.start();
    copy.write(b"#!/bin/sh\nexec sleep 1000\n");
    let hanging = || program.child_pids().into_iter().find(|&pid| is_sleep(pid));
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| copy.upgrade());
        let pid = wait_for("a program that hangs", hanging);
        copy.configure("two", "");
        let reloads: Vec<_> = (0..5).map(|_| scope.spawn(|| copy.run("reload"))).collect();
        kill_process(pid, Signal::KILL).unwrap();
        let error = upgrade.join().unwrap().err;
        assert!(error.contains("not upgraded: the new program was killed by SIGKILL"), "{error}");
        for reload in reloads {
            let reload = reload.join().unwrap();
            assert!(reload.status.success(), "{reload:?}");
        }
    });
    assert_eq!(hanging(), None);
    copy.wait_for("two");
    // A program that stops kills the program that has not started to serve.
    program.signal(Signal::USR2);
    let hanging = wait_for("a program that hangs", hanging);
    program.signal(Signal::TERM);
    assert!(program.wait().status.success());
    wait_for("the hanging program exits", || has_exited(hanging).then_some(()));
}

#[test]
fn download_from_the_predecessor_completes() {
    let copy = InstalledProgram::new("grace-period = \"1h\"\n");
    let large = crate::common::distinct_bytes(32 << 20);
    write_files(copy.dir.path(), &[("one/large", &large)]);
    let program = copy.start();
    let mut client = TestClient::connect(copy.address);
    client.send(crate::common::client::get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    copy.configure("two", "");
    let upgraded = copy.upgrade();
    let next = UpgradedProgram::from_output(&upgraded.out);
    copy.wait_for("two");
    assert!(!has_exited(program.pid()));
    assert!(client.read_exact(large.len()) == large);
    drop(client);
    wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));
    next.stop();
}

#[test]
fn retained_assets_outlive_reloads_and_upgrades() {
    let copy = InstalledProgram::new("");
    let dir = copy.dir.path().join("one");
    let asset = |release: usize| (format!("assets/app-1a2b3c{release}d.js"), release.to_string());
    write_files(&dir, &[asset(1)]);
    let mut command = copy.command();
    command.args(["--keep-releases", "2"]);
    let program = RunningProgram::start_ready(command);
    for release in [2, 3] {
        fs::remove_file(dir.join(asset(release - 1).0)).unwrap();
        write_files(&dir, &[asset(release), ("index.html".into(), release.to_string())]);
        copy.wait_for(&release.to_string());
    }
    let assert_retained = |when: &str| {
        let mut client = TestClient::connect(copy.address);
        for (name, content) in [1, 2, 3].map(asset) {
            assert_eq!(client.get(&format!("/{name}")).content, content.as_bytes(), "{when}: {name}");
        }
    };
    assert_retained("before");
    let server = program.server();
    assert!(copy.run("reload").status.success());
    wait_for("the previous server exits", || has_exited(server).then_some(()));
    assert_retained("reloaded");
    let next = UpgradedProgram::from_output(&copy.upgrade().out);
    wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));
    assert_retained("upgraded");
    let last = UpgradedProgram::from_output(&copy.upgrade().out);
    wait_for("the predecessor exits", || has_exited(next.0).then_some(()));
    assert_retained("upgraded again");
    last.stop();
}

#[test]
fn program_with_an_embedded_site_is_upgraded() {
    let copy = InstalledProgram::new("");
    let pack = |site: &str| {
        let target = copy.dir.path().join("packed");
        let mut command = tarpon(["pack", "--executable", "--effort", "fast", "-o"].map(AsRef::as_ref));
        let ended = RunningProgram::run({
            command.arg(&target).arg(copy.dir.path().join(site));
            command
        });
        assert!(ended.status.success(), "{ended:?}");
        fs::rename(target, copy.program()).unwrap();
    };
    pack("one");
    let mut command = Command::new(copy.program());
    command.args(["--admin", &copy.admin(), "--listen", &copy.address.to_string()]);
    let program = RunningProgram::start_ready(command);
    assert_eq!(TestClient::connect(copy.address).get("/").content, b"one");
    pack("two");
    let upgraded = copy.upgrade();
    let next = UpgradedProgram::from_output(&upgraded.out);
    copy.wait_for("two");
    wait_for("the predecessor exits", || has_exited(program.pid()).then_some(()));
    next.stop();
}

#[test]
fn variable_for_the_handover_is_refused_from_users() {
    let copy = InstalledProgram::new("");
    for value in ["", "x", "1", "1000"] {
        let mut command = copy.command();
        command.env("TARPON_HANDOVER", value);
        let ended = RunningProgram::run(command);
        assert!(ended.error_line().contains("TARPON_HANDOVER is for tarpon itself: "), "{value}: {ended:?}");
    }
}

/// A copy of the program, with two sites and a configuration file that names one of them.
struct InstalledProgram {
    dir: TempDir,
    /// Lines of the section `[server]`.
    server: String,
    address: SocketAddr,
    _port: ReservedPort,
}

impl InstalledProgram {
    fn new(server: &str) -> InstalledProgram {
        let dir = readable_dir();
        write_files(dir.path(), &[("one/index.html", "one"), ("two/index.html", "two")]);
        let port = ReservedPort::new();
        let copy = InstalledProgram { dir, server: server.to_owned(), address: port.address, _port: port };
        copy.install(Path::new(env!("CARGO_BIN_EXE_tarpon")));
        copy.configure("one", "");
        copy
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("program")
    }

    fn admin(&self) -> String {
        format!("unix:{}", self.dir.path().join("admin").display())
    }

    /// Replaces the program by a copy of a file. Returns the inode.
    fn install(&self, file: &Path) -> u64 {
        self.write(&fs::read(file).unwrap())
    }

    fn write(&self, content: &[u8]) -> u64 {
        let next = self.dir.path().join("next");
        fs::write(&next, content).unwrap();
        fs::set_permissions(&next, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&next, self.program()).unwrap();
        fs::metadata(self.program()).unwrap().ino()
    }

    fn configure(&self, site: &str, rest: &str) {
        let (dir, address, server, admin) =
            (self.dir.path().display(), self.address, &self.server, self.admin());
        let text = format!(
            "[[site]]\npath = \"{dir}/{site}\"\n[[listener]]\naddress = \"{address}\"\n\
             [server]\nadmin = \"{admin}\"\n{server}{rest}"
        );
        fs::write(self.dir.path().join("tarpon.toml"), text).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args(["serve", "--config"]).arg(self.dir.path().join("tarpon.toml"));
        with_long_timeouts(&mut command);
        command
    }

    fn start(&self) -> RunningProgram {
        RunningProgram::start_ready(self.command())
    }

    /// Runs `tarpon upgrade` or another command that uses the admin listener.
    fn run(&self, command: &str) -> ProgramExit {
        RunningProgram::run(tarpon([command, "--admin", &self.admin()].map(AsRef::as_ref)))
    }

    /// Waits until the program serves this site: a draining server may still accept a client.
    #[track_caller]
    fn wait_for(&self, site: &str) {
        wait_for(site, || {
            (TestClient::connect(self.address).get("/").content == site.as_bytes()).then_some(())
        });
    }

    fn upgrade(&self) -> ProgramExit {
        self.run("upgrade")
    }
}

/// Returns the second program that a predecessor has named on standard output.
fn second_successor(out: &str) -> Option<UpgradedProgram> {
    let id =
        |line: &str| line.strip_prefix("upgraded: process ")?.strip_suffix(" serves now\n")?.parse().ok();
    out.split_inclusive('\n').filter_map(id).nth(1).and_then(Pid::from_raw).map(UpgradedProgram)
}

/// Returns the paths of the open files of a process, and the kinds of those without a path. proc(5), /proc/pid/fd.
fn descriptors(pid: Pid) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    let paths = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let kind = |path: PathBuf| path.to_string_lossy().split(":[").next().unwrap().to_owned();
    let mut kinds: Vec<_> = paths.map(kind).collect();
    kinds.sort();
    kinds
}

/// Returns the blocked and the ignored signals of a process. proc(5), /proc/pid/status.
fn mask(pid: Pid) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let wanted = |line: &&str| line.starts_with("SigBlk:") || line.starts_with("SigIgn:");
    status.lines().filter(wanted).map(str::to_owned).collect()
}

/// Returns whether a process is `sleep`. proc(5), /proc/pid/cmdline.
fn is_sleep(pid: Pid) -> bool {
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|words| words.starts_with(b"sleep\0"))
}
