//! No memory for a new version of the site: the present one serves on, and the new one comes once there is memory.

use crate::common::{
    client::TestClient,
    distinct_bytes,
    program::{RunningProgram, serve, without_user_change},
    site, wait_for, write_files,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::{fs, process::ExitStatus};

/// Of a file of the site, in bytes: small enough for the image, and many of them need memory.
const FILE_LEN: usize = 16 << 10;
const FILE_COUNT: usize = 1_000;

/// What a process may still take, in bytes: enough for messages and the list of files, and not for their contents.
const SPARE_LEN: u64 = 4 << 20;
const _: () = assert!(SPARE_LEN < (FILE_LEN * FILE_COUNT) as u64 / 2);

#[test]
fn site_that_finds_no_memory_is_served_later() {
    let content = distinct_bytes(FILE_LEN);
    for engine in ["epoll", "prefork"] {
        for process in ["builder", "server"] {
            let dir = site(&[("index.html", "one")]);
            let options = [&["--engine", engine, "--workers", "2"], without_user_change()].concat();
            let program = RunningProgram::start_ready(serve(dir.path(), &options));
            let mut client = TestClient::connect(program.address());
            assert_eq!(client.get("/").content, b"one");
            let limited = if process == "builder" { program.builder() } else { program.server() };
            set_memory_max(limited, Some(memory_len(limited) + SPARE_LEN));
            let files: Vec<_> = (0..FILE_COUNT).map(|number| (number.to_string(), &content)).collect();
            write_files(dir.path(), &files);
            write_files(dir.path(), &[("index.html", "two")]);
            let what = format!("{process}, {engine}");
            wait_for("a warning", || {
                program.err().contains("still serving the previous version").then_some(())
            });
            assert!(program.err().contains("cannot allocate memory"), "{what}: {}", program.err());
            assert_eq!(client.get("/").content, b"one", "{what}");
            assert_eq!(TestClient::connect(program.address()).get("/").content, b"one", "{what}");
            set_memory_max(limited, None);
            wait_for("the change", || (client.get("/").content == b"two").then_some(()));
            // Each worker process gets the site by itself.
            let last = format!("/{}", FILE_COUNT - 1);
            wait_for("the last file", || {
                (TestClient::connect(program.address()).get(&last).content == content).then_some(())
            });
            assert!(!program.err().contains("starting another"), "{what}: {}", program.err());
            program.signal(Signal::TERM);
            assert_eq!(program.wait().status, ExitStatus::default());
        }
    }
}

/// Sets the largest address space of a process.
fn set_memory_max(pid: Pid, current: Option<u64>) {
    prlimit(Some(pid), Resource::As, Rlimit { current, maximum: None }).expect("a limit of a child");
}

/// Returns the length of the address space of a process. proc(5), /proc/pid/stat.
fn memory_len(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a length");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
