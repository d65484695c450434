//! What is not in memory is served all the same: large files, and archives, that the kernel has dropped.

mod common;

use common::{
    ENGINES,
    client::Client,
    program::{Program, serve, tarpon},
    wait_for,
};
use rustix::{
    fs::{Advice, fadvise},
    io::{Errno, ReadWriteFlags, preadv2},
    process::Pid,
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::IoSliceMut,
    path::Path,
    process::Command,
};

#[test]
fn what_was_dropped_from_memory_is_read_and_sent() {
    // Beside the program: where temporary files are, the file system may be memory itself.
    let temp = common::opened(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let (dir, archive) = (temp.path().join("site"), temp.path().join("site.tar"));
    fs::create_dir(&dir).unwrap();
    let contents = [("small.txt", 100), ("middle.txt", 8 << 10), ("large.bin", 3 << 20)];
    for (name, len) in contents {
        let content: Vec<u8> = (0..len).map(|at: u32| (at / 7) as u8).collect();
        fs::write(dir.join(name), content).unwrap();
    }
    let tar = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&dir).arg(".").status();
    assert!(tar.expect("tar").success());
    let packed = temp.path().join("packed.tar");
    let pack =
        [OsStr::new("pack"), dir.as_os_str(), "--effort=fast".as_ref(), "-o".as_ref(), packed.as_os_str()];
    assert!(Program::run(tarpon(pack)).status.success());
    let large = dir.join("large.bin");
    for engine in ENGINES {
        for site in [&dir, &archive, &packed] {
            // A new one: of the old one pages may still be with sockets that nobody has ended yet.
            fs::copy(&large, dir.join("new")).and_then(|_| fs::rename(dir.join("new"), &large)).unwrap();
            let program = Program::started(serve(site, &["--engine", engine.name(), "--workers", "1"]));
            wait_for("the kernel to forget a file", || is_forgotten(&large).then_some(()));
            // As far as nobody has it mapped.
            is_forgotten(&archive);
            is_forgotten(&packed);
            let mut pipelined = Client::connect(program.address());
            for (name, _) in contents {
                pipelined.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
            }
            for (name, _) in contents {
                let want = fs::read(dir.join(name)).unwrap();
                assert!(pipelined.response().content == want, "{engine}: {name}");
            }
            if site == &dir {
                // Not by the worker, which would have waited for the disk.
                assert!(read_by(program.server(), "loader") >= 1 << 20, "{engine}");
            }
        }
    }
}

/// Has the kernel drop a file from its memory. Returns whether it has.
fn is_forgotten(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let read = preadv2(&file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT);
    read == Err(Errno::AGAIN)
}

/// Bytes that the threads of a process whose names begin so have read. proc(5).
fn read_by(process: Pid, thread: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))
        .unwrap()
        .map(|task| task.unwrap().path());
    let named = tasks.filter(|task| fs::read_to_string(task.join("comm")).unwrap().starts_with(thread));
    named
        .map(|task| {
            let io = fs::read_to_string(task.join("io")).unwrap();
            let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
            read.parse::<u64>().unwrap()
        })
        .sum()
}
