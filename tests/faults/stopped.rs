//! Each process is stopped and continues: the others serve on, requests to it wait, and no process is replaced.

use crate::common::{
    client::{TestClient, get},
    program::{RunningProgram, children, process_name, serve, serve_config, suspend},
    site, wait_for, write_files,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::{
    collections::HashSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::ExitStatus,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A process to stop, and the paths that the others serve meanwhile.
#[derive(Clone, Copy)]
struct StopCase {
    engine: &'static str,
    /// The name of the process. Among several workers, the test stops one without a connection.
    process: &'static str,
    /// The paths that are served while the process is stopped, on a connection that is open.
    served: &'static [&'static str],
}

const ALL: &[&str] = &["/", "/up/", "/cgi-bin/program"];

#[rustfmt::skip]
const CASES: &[StopCase] = &[
    StopCase { engine: "epoll",   process: "tarpon",         served: ALL },
    StopCase { engine: "epoll",   process: "tarpon-builder", served: ALL },
    StopCase { engine: "epoll",   process: "tarpon-server",  served: &[] },
    StopCase { engine: "epoll",   process: "tarpon-net",     served: &["/", "/cgi-bin/program"] },
    StopCase { engine: "epoll",   process: "tarpon-cgi",     served: &["/", "/up/"] },
    StopCase { engine: "prefork", process: "tarpon-master",  served: ALL },
    StopCase { engine: "prefork", process: "tarpon-aux",     served: ALL },
    StopCase { engine: "prefork", process: "tarpon-worker",  served: ALL },
    StopCase { engine: "fork",    process: "tarpon-master",  served: ALL },
];

#[test]
fn stopped_process_delays_only_what_it_does() {
    stop_each(Duration::ZERO);
}

#[test]
#[ignore = "soak: stops each process for a minute"]
fn process_that_is_stopped_for_a_minute_delays_only_what_it_does() {
    stop_each(Duration::from_secs(60));
}

/// Stops each process for at least this time.
fn stop_each(time: Duration) {
    let upstream = site(&[("up/index.html", "upstream")]);
    let upstream = RunningProgram::start_ready(serve(upstream.path(), &["--workers", "1"]));
    thread::scope(|scope| {
        let upstream = &upstream;
        let cases: Vec<_> = CASES.iter().map(|case| scope.spawn(|| case.check(upstream, time))).collect();
        cases.into_iter().for_each(|case| case.join().expect("a case"));
    });
}

impl StopCase {
    fn check(self, upstream: &RunningProgram, time: Duration) {
        let what = format!("{}, {}", self.process, self.engine);
        let dir = site(&[("www/index.html", "home"), ("bin/program", PROGRAM)]);
        let program = self.start(&dir, upstream);
        let content = |path: &str| match path {
            "/" => "home",
            "/up/" => "upstream",
            _ => "program",
        };
        let mut open = TestClient::connect(program.address());
        for path in ALL {
            assert_eq!(open.get(path).content, content(path).as_bytes(), "{what}, {path}");
        }
        let before = processes(&program);
        let stopped = self.find(&program);
        suspend(stopped);
        for path in self.served {
            assert_eq!(open.get(path).content, content(path).as_bytes(), "{what}, {path}");
        }
        // These may have to wait: for the process, or for a worker that the stopped one would have started.
        let mut waiting: Vec<_> = ALL
            .iter()
            .map(|path| {
                let mut client = TestClient::connect(program.address());
                assert!(client.send(get(path)), "{what}");
                (path, client)
            })
            .collect();
        // Only the soak waits.
        thread::sleep(time);
        for path in self.served {
            assert_eq!(open.get(path).content, content(path).as_bytes(), "{what}, {path}, at the end");
        }
        kill_process(stopped, Signal::CONT).expect("the process runs");
        for (path, client) in &mut waiting {
            let response = client.response();
            assert_eq!(
                (response.status, &*response.content),
                (200, content(path).as_bytes()),
                "{what}, {path}"
            );
        }
        drop(waiting);
        // Changes arrive, and each request has its line in the log.
        write_files(dir.path(), &[("www/index.html", "changed")]);
        let mut count = 2 * ALL.len() + 2 * self.served.len();
        wait_for("the change", || {
            count += 1;
            (TestClient::connect(program.address()).get("/").content == b"changed").then_some(())
        });
        wait_for(&format!("{count} lines of the log, {what}"), || {
            let log = fs::read_to_string(dir.path().join("log")).expect("a log");
            (log.lines().filter(|line| line.contains("\" 200 ")).count() == count).then_some(())
        });
        assert_eq!(process_name(stopped).as_deref(), Some(self.process), "{what}: it was replaced");
        assert!(before.is_subset(&processes(&program)), "{what}: a process was replaced");
        assert_eq!(program.err(), "", "{what}");
        program.signal(Signal::TERM);
        assert_eq!(program.wait().status, ExitStatus::default(), "{what}");
    }

    fn start(self, dir: &TempDir, upstream: &RunningProgram) -> RunningProgram {
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::set_permissions(at("bin/program"), Permissions::from_mode(0o755)).expect("a file");
        // No timeout ends a request while a process is stopped.
        let timeouts = ["connect-timeout", "response-timeout", "idle-timeout"];
        let config = format!(
            "[[site]]\npath = \"www\"\nproxy = [\"/up/=up\"]\ncgi = [\"/cgi-bin/={}\"]\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n\
             [log]\naccess-log = \"{}\"\n\
             [server]\nengine = \"{}\"\n{}\
             [[upstream]]\nname = \"up\"\nservers = [\"http://{}\"]\n{}",
            at("bin"),
            at("log"),
            self.engine,
            if self.engine == "epoll" { "workers = 1\n" } else { "workers = 8\n" },
            upstream.address(),
            timeouts.map(|name| format!("{name} = \"1h\"\n")).concat(),
        );
        let user: &[&str] = if geteuid().is_root() { &["--cgi-user", "daemon"] } else { &[] };
        let program = RunningProgram::start_ready(serve_config(&config, dir.path(), user));
        if self.engine == "prefork" {
            let is_worker = |pid: &Pid| process_name(*pid).as_deref() == Some("tarpon-worker");
            wait_for("the workers", || {
                (children(program.server()).iter().filter(|pid| is_worker(pid)).count() == 8).then_some(())
            });
        }
        program
    }

    /// Returns the process to stop.
    fn find(self, program: &RunningProgram) -> Pid {
        let is_named = |pid: &Pid| process_name(*pid).as_deref() == Some(self.process);
        let found = program.processes().into_iter().filter(is_named);
        found.min_by_key(|pid| socket_count(*pid)).expect(self.process)
    }
}

/// A CGI program.
const PROGRAM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\nContent-Length: 7\\n\\nprogram'\n";

/// Returns the processes of a program that stay: workers of the engine `fork` end with their connection.
fn processes(program: &RunningProgram) -> HashSet<(Pid, String)> {
    let named = |pid: Pid| Some((pid, process_name(pid)?));
    let all = program.processes().into_iter().filter_map(named);
    all.filter(|(_, name)| name != "tarpon-worker" && name.starts_with("tarpon")).collect()
}

/// proc(5), /proc/pid/fd.
fn socket_count(pid: Pid) -> usize {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("a running process");
    let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}
