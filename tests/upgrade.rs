//! A program takes the place of another: what can serve does from then on, what cannot changes nothing, and no client notices either.

#![allow(clippy::disallowed_methods, reason = "a test names files of its own")]

mod common;

use common::{
    ENGINES,
    client::Client,
    load::Load,
    open_dir,
    program::{Ended, Program, Successor, has_ended, tarpon},
    wait_for, write_files,
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
fn no_request_fails_and_no_connection_is_reset_while_programs_take_turns() {
    for &engine in ENGINES {
        let made = Made::new(&format!("engine = \"{engine}\"\n"));
        let program = made.start();
        let load = Load::start(made.address, "/", b"one");
        load.wait_for(50);
        let first = made.upgrade();
        assert!(first.status.success(), "{engine}: {first:?}");
        load.wait_for(50);
        let first = Successor::told(&first.out);
        wait_for("the end of the program before", || has_ended(program.pid()).then_some(()));
        kill_process(first.0, Signal::USR2).unwrap();
        wait_for("its successor", || has_ended(first.0).then_some(()));
        load.wait_for(50);
        // It says so itself: all of them have one standard output.
        let said = program.out();
        let (_, second) = said.rsplit_once("\nupgraded: process ").expect("two of them");
        let second = Successor::told(&format!("upgraded: process {}", second.replace(' ', ",")));
        let failures = load.end();
        assert!(failures.is_empty(), "{engine}: {failures:?}");
        assert_eq!(program.err(), "", "{engine}");
        second.end();
    }
}

#[test]
fn what_lies_in_the_place_of_the_program_is_started_and_has_what_it_had() {
    let made = Made::new("");
    let socket = made.dir.path().join("socket");
    made.say("one", &format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display()));
    let program = made.start();
    let before = (descriptors(program.pid()), mask(program.pid()));
    let place = fs::metadata(&socket).unwrap().ino();
    // Another file under the same name, as packages are installed.
    let inode = made.install(Path::new(env!("CARGO_BIN_EXE_tarpon")));
    made.say("two", &format!("[[listener]]\naddress = \"unix:{}\"\n", socket.display()));
    let upgraded = made.upgrade();
    let next = Successor::told(&upgraded.out);
    assert_eq!(fs::metadata(format!("/proc/{}/exe", next.0.as_raw_nonzero())).unwrap().ino(), inode);
    made.wait_for("two");
    wait_for("the end of the program before", || has_ended(program.pid()).then_some(()));
    // The socket is where it was, and so is that of the admin.
    assert_eq!(fs::metadata(&socket).unwrap().ino(), place);
    assert_eq!(Client::connect_unix(&socket).get("/").content, b"two");
    assert_eq!((descriptors(next.0), mask(next.0)), before, "descriptors, and blocked signals");
    assert!(made.run("status").status.success());
    // And again, with what was handed over once.
    let upgraded = made.upgrade();
    let last = Successor::told(&upgraded.out);
    wait_for("the end of the program before", || has_ended(next.0).then_some(()));
    assert_eq!(Client::connect_unix(&socket).get("/").content, b"two");
    last.end();
    assert!(!socket.exists() && !made.dir.path().join("admin").exists(), "who has them last removes them");
}

/// What it shows; what lies in the place of the program; the site, and what else the configuration says; why not.
type Case<'a> = (&'a str, Option<Vec<u8>>, &'a str, &'a str, &'a str);

#[test]
fn a_program_that_cannot_begin_changes_nothing() {
    let made = Made::new("");
    let program = made.start();
    let server = program.server();
    let mut client = Client::connect(made.address);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("[[listener]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    let real = fs::read(env!("CARGO_BIN_EXE_tarpon")).unwrap();
    let shell = |words: &str| format!("#!/bin/sh\n{words}\n").into_bytes();
    #[rustfmt::skip]
    let cases: [Case<'_>; 9] = [
        // what it shows         the file                           the site   the rest        why
        ("no file",              None,                              "one",     "",             "no such file or directory"),
        ("no program",           Some(vec![0; 100]),                "one",     "",             "exec format error"),
        ("one that ends",        Some(shell("exit 3")),             "one",     "",             "the new program ended with status 3"),
        ("one that crashes",     Some(shell("kill -SEGV $$")),      "one",     "",             "the new program was killed by SIGSEGV"),
        ("one that hangs",       Some(shell("exec sleep 1000")),    "one",     "",             "did not serve in time, and was killed"),
        ("one that talks",       Some(shell("exec bash -c 'printf \"\\0\\0\\0\\0no\" >&$TARPON_TAKES_OVER; exec sleep 1000'")), "one", "",  "the new program does not understand"),
        ("a configuration",      Some(real.clone()),                "one",     "[sever]\n",    "unknown section `sever`"),
        ("a port in use",        Some(real.clone()),                "one",     &taken,         "address already in use"),
        ("a site that is not",   Some(real.clone()),                "missing", "",             "it does not exist"),
    ];
    for (name, file, site, rest, why) in cases {
        made.say(site, rest);
        match file {
            Some(file) => drop(made.write(&file)),
            None => fs::remove_file(made.program()).unwrap(),
        }
        let refused = made.upgrade();
        assert_eq!((refused.status.code(), &*refused.out), (Some(1), ""), "{name}");
        for want in ["tarpon: not upgraded: ", why, "\nthe old process still serves\n"] {
            assert!(refused.err.contains(want), "{name}: {want}: {}", refused.err);
        }
        wait_for("a warning", || program.err().contains("warning: not upgraded: ").then_some(()));
        assert_eq!(client.get("/").content, b"one", "{name}");
        assert!(!client.get("/").closes(), "{name}");
        assert_eq!((program.server(), program.parts().len()), (server, 2), "{name}: nothing is left of it");
    }
    // And one that can is started, after all that.
    made.say("two", "");
    made.write(&real);
    let upgraded = made.upgrade();
    let next = Successor::told(&upgraded.out);
    made.wait_for("two");
    next.end();
}

#[test]
fn what_is_asked_for_later_takes_the_place_of_what_has_not_begun() {
    let made = Made::new("");
    let program = made.start();
    made.write(b"#!/bin/sh\nexec sleep 1000\n");
    let hanging = || program.parts().into_iter().find(|&pid| is_sleep(pid));
    thread::scope(|scope| {
        let first = scope.spawn(|| made.upgrade());
        let former = wait_for("a program that hangs", hanging);
        let second = scope.spawn(|| made.upgrade());
        wait_for("another one", || hanging().filter(|&pid| pid != former));
        made.say("two", "");
        let reloaded = made.run("reload");
        assert!(reloaded.status.success(), "{reloaded:?}");
        // They have waited for the same.
        for upgrade in [first, second] {
            let said = upgrade.join().unwrap().err;
            assert!(said.contains("not upgraded: something else was asked for meanwhile"), "{said}");
        }
    });
    assert_eq!(hanging(), None);
    made.wait_for("two");
    // A program that is told to stop takes with it what has not begun.
    program.signal(Signal::USR2);
    let hanging = wait_for("a program that hangs", hanging);
    program.signal(Signal::TERM);
    assert!(program.ended().status.success());
    wait_for("its end", || has_ended(hanging).then_some(()));
}

#[test]
fn a_download_of_the_program_before_is_finished() {
    let made = Made::new("grace-period = \"1h\"\n");
    let large = common::distinct_bytes(32 << 20);
    write_files(made.dir.path(), &[("one/large", &large)]);
    let program = made.start();
    let mut client = Client::connect(made.address);
    client.send(common::client::get("/large"));
    assert_eq!(client.try_head().unwrap().status, 200);
    made.say("two", "");
    let upgraded = made.upgrade();
    let next = Successor::told(&upgraded.out);
    made.wait_for("two");
    assert!(!has_ended(program.pid()));
    assert!(client.take(large.len()) == large);
    drop(client);
    wait_for("the end of the program before", || has_ended(program.pid()).then_some(()));
    next.end();
}

#[test]
fn what_was_kept_of_earlier_releases_outlives_reloads_and_programs() {
    let made = Made::new("");
    let dir = made.dir.path().join("one");
    let asset = |release: usize| (format!("assets/app-1a2b3c{release}d.js"), release.to_string());
    write_files(&dir, &[asset(1)]);
    let mut command = made.command();
    command.args(["--keep-releases", "2"]);
    let program = Program::started(command);
    for release in [2, 3] {
        fs::remove_file(dir.join(asset(release - 1).0)).unwrap();
        write_files(&dir, &[asset(release), ("index.html".into(), release.to_string())]);
        made.wait_for(&release.to_string());
    }
    let assert_kept = |when: &str| {
        let mut client = Client::connect(made.address);
        for (name, content) in [1, 2, 3].map(asset) {
            assert_eq!(client.get(&format!("/{name}")).content, content.as_bytes(), "{when}: {name}");
        }
    };
    assert_kept("before");
    let server = program.server();
    assert!(made.run("reload").status.success());
    wait_for("the end of the server before", || has_ended(server).then_some(()));
    assert_kept("reloaded");
    let next = Successor::told(&made.upgrade().out);
    wait_for("the end of the program before", || has_ended(program.pid()).then_some(()));
    assert_kept("upgraded");
    let last = Successor::told(&made.upgrade().out);
    wait_for("the end of the program before", || has_ended(next.0).then_some(()));
    assert_kept("upgraded again");
    last.end();
}

#[test]
fn a_program_that_carries_its_site_is_replaced_by_another() {
    let made = Made::new("");
    let pack = |site: &str| {
        let target = made.dir.path().join("packed");
        let mut command = tarpon(["pack", "--executable", "--effort", "fast", "-o"].map(AsRef::as_ref));
        let ended = Program::run({
            command.arg(&target).arg(made.dir.path().join(site));
            command
        });
        assert!(ended.status.success(), "{ended:?}");
        fs::rename(target, made.program()).unwrap();
    };
    pack("one");
    let mut command = Command::new(made.program());
    command.args(["--admin", &made.admin(), "--listen", &made.address.to_string()]);
    let program = Program::started(command);
    assert_eq!(Client::connect(made.address).get("/").content, b"one");
    pack("two");
    let upgraded = made.upgrade();
    let next = Successor::told(&upgraded.out);
    made.wait_for("two");
    wait_for("the end of the program before", || has_ended(program.pid()).then_some(()));
    next.end();
}

#[test]
fn the_variable_by_which_programs_take_over_is_for_them_alone() {
    let made = Made::new("");
    for value in ["", "x", "1", "1000"] {
        let mut command = made.command();
        command.env("TARPON_TAKES_OVER", value);
        let ended = Program::run(command);
        assert!(
            ended.error_line().contains("TARPON_TAKES_OVER is for tarpon itself: "),
            "{value}: {ended:?}"
        );
    }
}

/// A program under a name of its own, sites, and a configuration file that names one of them.
struct Made {
    dir: TempDir,
    /// Of the server, in the configuration.
    server: String,
    address: SocketAddr,
}

impl Made {
    fn new(server: &str) -> Made {
        let dir = open_dir();
        write_files(dir.path(), &[("one/index.html", "one"), ("two/index.html", "two")]);
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let made = Made { dir, server: server.to_owned(), address };
        made.install(Path::new(env!("CARGO_BIN_EXE_tarpon")));
        made.say("one", "");
        made
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("program")
    }

    fn admin(&self) -> String {
        format!("unix:{}", self.dir.path().join("admin").display())
    }

    /// Puts a file in the place of the program, as a whole. Returns its inode.
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

    fn say(&self, site: &str, rest: &str) {
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
        command
    }

    fn start(&self) -> Program {
        Program::started(self.command())
    }

    /// `tarpon upgrade`, or something like it, of the program that was built.
    fn run(&self, what: &str) -> Ended {
        Program::run(tarpon([what, "--admin", &self.admin()].map(AsRef::as_ref)))
    }

    /// Until this site is served. Who leaves may take a client yet who has come at the same time.
    #[track_caller]
    fn wait_for(&self, site: &str) {
        wait_for(site, || (Client::connect(self.address).get("/").content == site.as_bytes()).then_some(()));
    }

    fn upgrade(&self) -> Ended {
        self.run("upgrade")
    }
}

/// What a process has open: of what has no name, what kind of thing it is. proc(5), /proc/pid/fd.
fn descriptors(pid: Pid) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    let paths = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let kind = |path: PathBuf| path.to_string_lossy().split(":[").next().unwrap().to_owned();
    let mut kinds: Vec<_> = paths.map(kind).collect();
    kinds.sort();
    kinds
}

/// The signals that it blocks, and those it ignores. proc(5), /proc/pid/status.
fn mask(pid: Pid) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let wanted = |line: &&str| line.starts_with("SigBlk:") || line.starts_with("SigIgn:");
    status.lines().filter(wanted).map(str::to_owned).collect()
}

/// The words that it was started with. proc(5), /proc/pid/cmdline.
fn is_sleep(pid: Pid) -> bool {
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|words| words.starts_with(b"sleep\0"))
}
