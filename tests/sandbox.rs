//! The rights of the processes of `tarpon serve`, as the kernel reports them.

use crate::common::{
    EMBEDDED, ENGINES,
    client::TestClient,
    program::{RunningProgram, children, serve},
    site,
};
use rustix::process::{Pid, geteuid};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};
use tarpon::Engine;

#[test]
fn every_thread_of_builder_and_server_is_unprivileged_and_confined() {
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES {
        let program = RunningProgram::start_ready(serve(dir.path(), &["--engine", engine.name()]));
        let mut client = TestClient::connect(program.address());
        assert_eq!(client.get("/").content, b"home");
        let line = sandbox_line(&program);
        if geteuid().is_root() {
            assert!(line.starts_with("sandbox: user "), "{line}");
        }
        for part in ["Landlock", "seccomp"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert_eq!(line.contains("io_uring restricted"), engine == Engine::IoUring, "{line}");
        let forks = !EMBEDDED.contains(&engine);
        let of_server = if forks { children(program.server()) } else { Vec::new() };
        for process in [program.builder(), program.server()].into_iter().chain(of_server) {
            let threads = statuses(process);
            // A process that forks has one thread, and its children need no more.
            assert!(threads.len() > 1 || forks && process != program.builder(), "{engine}: {threads:?}");
            for status in threads {
                let of = |name: &str| field(&status, name).to_owned();
                assert_eq!((of("Seccomp"), of("NoNewPrivs")), ("2".into(), "1".into()), "{engine}: {status}");
                for capabilities in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                    assert_eq!(of(capabilities), "0".repeat(16), "{engine}: {status}");
                }
                assert!(of("Uid").split_whitespace().all(|uid| uid != "0"), "{engine}: {status}");
                assert!(of("Gid").split_whitespace().all(|gid| gid != "0"), "{engine}: {status}");
                assert!(of("Groups").split_whitespace().all(|gid| gid != "0"), "{engine}: {status}");
            }
        }
        // The supervisor keeps its rights: it binds addresses, reads files and starts processes.
        assert_eq!(field(&statuses(program.pid())[0], "Seccomp"), "0");
    }
}

#[test]
fn sandbox_line_shows_what_options_turn_off() {
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(dir.path(), &["--no-sandbox", "--engine", "epoll"]));
    let status = &statuses(program.server())[0];
    assert_eq!((field(status, "Seccomp"), field(status, "NoNewPrivs")), ("0", "1"));
    let want = if geteuid().is_root() { "sandbox: user " } else { "sandbox: off" };
    let line = sandbox_line(&program);
    assert!(line.starts_with(want) && !line.contains("seccomp"), "{line}");
    if geteuid().is_root() {
        let program =
            RunningProgram::start_ready(serve(dir.path(), &["--user", "root", "--engine", "epoll"]));
        assert_eq!(sandbox_line(&program), "sandbox: user root, Landlock, seccomp");
        let status = &statuses(program.server())[0];
        assert_eq!(
            (field(status, "Uid").split_whitespace().next(), field(status, "CapEff")),
            (Some("0"), "0000000000000000")
        );
    }
}

#[test]
fn unknown_or_unprivileged_user_fails_with_a_hint() {
    let dir = site(&[("closed/site/index.html", "home"), ("site.tar", "never read")]);
    let (closed, archive) = (dir.path().join("closed"), dir.path().join("site.tar"));
    for (path, mode) in [(&closed, 0o700), (&archive, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = closed.join("site");
    let nobody = "tarpon: cannot run as user no-such-user: the user does not exist; create it, as with useradd --system \
                  no-such-user, or choose another with --user NAME";
    let mut cases = vec![(&path, "no-such-user", nobody.to_owned())];
    if geteuid().is_root() {
        // The directory belongs to another user: the program serves a closed directory that only root can change.
        chown(&closed, Some(4711), None).unwrap();
        let barred = |path: &Path, what, mode, at: &Path, of: &str, owner: &str| {
            let (path, at) = (path.display(), at.display());
            format!(
                "tarpon: cannot serve {path}: user nobody may not {what} {at} (owner {of}); allow it, as with chmod {mode} {at}, or run \
                 as the owner with --user {owner}"
            )
        };
        let enter = |path| barred(path, "enter", "o+rx", &closed, "4711, mode 0700", "NAME");
        cases.push((&path, "nobody", enter(&path)));
        cases.push((&closed, "nobody", enter(&closed)));
        cases.push((
            &archive,
            "nobody",
            barred(&archive, "read", "o+r", &archive, "root, mode 0600", "root"),
        ));
    } else {
        let root = "tarpon: cannot run as user root: only root can become another user; leave --user out, or start tarpon as root";
        cases.push((&path, "root", root.to_owned()));
    }
    for (path, user, want) in cases {
        let ended = RunningProgram::run(serve(path, &["--user", user]));
        assert_eq!((ended.status.code(), ended.error_line()), (Some(1), &*want));
    }
}

/// Returns the line about the sandbox.
fn sandbox_line(program: &RunningProgram) -> String {
    let output = program.out();
    output.lines().find(|line| line.starts_with("sandbox: ")).expect("a line about the sandbox").to_owned()
}

/// Returns the status of each thread of a process. proc(5), /proc/pid/task/tid/status.
fn statuses(process: Pid) -> Vec<String> {
    let tasks =
        fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).expect("a process that runs");
    // A thread may exit at the same time.
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok()).collect()
}

fn field<'s>(status: &'s str, name: &str) -> &'s str {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.trim())
        .unwrap_or_else(|| panic!("no {name}: {status}"))
}
