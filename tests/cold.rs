//! Files and archives that the kernel has dropped from the page cache are served, and no worker blocks on the disk.

use crate::common::{
    ENGINES,
    client::TestClient,
    program::{RunningProgram, serve, tarpon},
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
    io::{self, IoSliceMut},
    path::{Path, PathBuf},
    process::Command,
};
use tarpon::Engine;

#[test]
fn files_outside_the_page_cache_are_served() {
    // In the target directory, because the directory for temporary files may be a tmpfs.
    let temp = crate::common::make_readable(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
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
    assert!(RunningProgram::run(tarpon(pack)).status.success());
    let large = dir.join("large.bin");
    for engine in ENGINES {
        for site in [&dir, &archive, &packed] {
            // A new copy: sockets that are not closed yet may still hold pages of the old file.
            fs::copy(&large, dir.join("new")).and_then(|_| fs::rename(dir.join("new"), &large)).unwrap();
            let program =
                RunningProgram::start_ready(serve(site, &["--engine", engine.name(), "--workers", "1"]));
            wait_for("a file outside the page cache", || is_evicted(&large, 0).then_some(()));
            // Drops the pages of the archives that no process maps.
            is_evicted(&archive, 0);
            is_evicted(&packed, 0);
            let mut pipelined = TestClient::connect(program.address());
            for (name, _) in contents {
                pipelined.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
            }
            for (name, _) in contents {
                let want = fs::read(dir.join(name)).unwrap();
                assert!(pipelined.response().content == want, "{engine}: {name}");
            }
            if site == &dir && has_loaders(*engine) {
                // A loader thread has read the file; the worker would have blocked.
                assert!(read_by(program.server(), "loader") >= 1 << 20, "{engine}");
            }
        }
    }
}

/// Small files are in the image. The kernel has dropped all of its pages except those that a process maps.
#[test]
fn workers_do_not_fault_on_a_lookup_in_a_cold_image() {
    let temp = crate::common::make_readable(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let (dir, packed) = (temp.path().join("site"), temp.path().join("packed.tar"));
    fs::create_dir(&dir).unwrap();
    // Incompressible bytes.
    let mut noise = 1_u64;
    let mut next = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 56) as u8
    };
    let mut content = || (0..15 << 10).map(|_| next()).collect();
    let contents: Vec<(String, Vec<u8>)> =
        (0..400).map(|number| (format!("{number:03}.bin"), content())).collect();
    for (name, content) in &contents {
        fs::write(dir.join(name), content).unwrap();
    }
    fs::write(dir.join("_headers"), "/*\n  X-Site: cold\n").unwrap();
    let pack =
        [OsStr::new("pack"), dir.as_os_str(), "--effort=fast".as_ref(), "-o".as_ref(), packed.as_os_str()];
    assert!(RunningProgram::run(tarpon(pack)).status.success());
    let archive = fs::read(&packed).unwrap();
    let record_offset = |name: &str| {
        let record = archive.windows(name.len()).position(|bytes| bytes == name.as_bytes());
        record.expect("a record with that path") as u64
    };
    for &engine in ENGINES.iter().filter(|engine| has_loaders(**engine)) {
        cache_in_single_pages(&packed);
        let program =
            RunningProgram::start_ready(serve(&packed, &["--engine", engine.name(), "--workers", "1"]));
        let mut client = TestClient::connect(program.address());
        for (round, chosen) in contents.chunks(40).enumerate() {
            // Not the first entries, which are mapped because opening the site reads them.
            let (name, content) = &chosen[20];
            let record = record_offset(&format!("/{name}"));
            wait_for("a record outside the page cache", || is_evicted(&packed, record).then_some(()));
            let before = faults(program.server(), "worker");
            let (fields, status) = match round % 4 {
                0 => ("", 200),
                1 => ("Range: bytes=10-19\r\n", 206),
                2 => ("If-None-Match: *\r\n", 304),
                _ => ("If-None-Match: \"other\"\r\n", 200),
            };
            client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let response = client.response();
            assert_eq!(response.status, status, "{engine}: {name}");
            match status {
                200 => assert!(&response.content == content, "{engine}: {name}"),
                206 => assert_eq!(response.content, content[10..20], "{engine}: {name}"),
                _ => {}
            }
            assert_eq!(
                faults(program.server(), "worker"),
                before,
                "{engine}: {name}: a page fault of the worker"
            );
        }
        client.send("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().status, 404);
        // The loader threads have read the records.
        assert!(read_by(program.server(), "loader") >= 1 << 16, "{engine}");
    }
}

/// Returns whether the workers of an engine serve several connections, so that loader threads read from disk for them.
fn has_loaders(engine: Engine) -> bool {
    !matches!(engine.name(), "threads" | "prefork" | "fork")
}

/// Makes the page cache hold a file in single pages, which the kernel can drop one by one. A file written at once lies in large
/// folios, of which the kernel cannot drop a part.
fn cache_in_single_pages(path: &Path) {
    wait_for("a file outside the page cache", || is_evicted(path, 0).then_some(()));
    let mut file = File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    io::copy(&mut file, &mut io::sink()).unwrap();
}

/// Makes the kernel drop a file from the page cache. Returns whether an unmapped page near `at` is gone.
fn is_evicted(path: &Path, at: u64) -> bool {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    // The check itself may read a page, so it uses a neighbour and disables read-ahead.
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let neighbour = at + (16 << 10);
    let read = preadv2(&file, &mut [IoSliceMut::new(&mut [0])], neighbour, ReadWriteFlags::NOWAIT);
    read == Err(Errno::AGAIN)
}

/// Counts the major page faults of the threads of a process whose names start with `thread`. proc(5).
fn faults(process: Pid, thread: &str) -> u64 {
    let count = |task: PathBuf| {
        let stat = fs::read_to_string(task.join("stat")).unwrap();
        let (_, after_name) = stat.rsplit_once(')').unwrap();
        after_name.split_whitespace().nth(9).unwrap().parse::<u64>().unwrap()
    };
    threads(process, thread).map(count).sum()
}

/// Counts the bytes read by the threads of a process whose names start with `thread`. proc(5).
fn read_by(process: Pid, thread: &str) -> u64 {
    let count = |task: PathBuf| {
        let io = fs::read_to_string(task.join("io")).unwrap();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        read.parse::<u64>().unwrap()
    };
    threads(process, thread).map(count).sum()
}

/// Returns the threads of a process whose names start with `thread`, as directories in /proc.
fn threads(process: Pid, thread: &str) -> impl Iterator<Item = PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap();
    let tasks = tasks.map(|task| task.unwrap().path());
    tasks.filter(move |task| fs::read_to_string(task.join("comm")).unwrap().starts_with(thread))
}
