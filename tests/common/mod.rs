//! What the black-box tests share.
//!
//! | module | what |
//! |---|---|
//! | `client` | a client that says exactly what it is told, and reads responses |
//! | `load` | clients that ask all the time |
//! | `page` | a page in a browser |
//! | `program` | the program `tarpon`, as a child process |
//! | `releases` | releases of a site |
//! | `served` | a server within the test's own process |
//! | `web` | a site with a little of everything that clients ask for |

#![allow(dead_code, reason = "no test needs all of it")]

pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod program;
pub(crate) mod releases;
pub(crate) mod sample;
pub(crate) mod server;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

/// Every engine there is.
pub(crate) const ENGINES: &[Engine] = Engine::ALL;

/// Those that run within the process of a test. The others have the program for it.
pub(crate) const EMBEDDED: &[Engine] = Engine::EMBEDDED;

/// How many workers of an engine have at least as many connections as so many of any other have in a test.
pub(crate) fn workers(engine: Engine, count: usize) -> usize {
    if engine.is_one_at_a_time() { 32 * count } else { count }
}

/// Nothing a test waits for takes so long, however busy the machine is.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Looks again and again until there is an answer.
///
/// # Panics
/// There is none within [`TEST_TIMEOUT`].
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < TEST_TIMEOUT, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Writes files, with the directories they are in. Their paths begin at `root`.
pub(crate) fn write_files<P: AsRef<Path>, C: AsRef<[u8]>>(root: &Path, files: &[(P, C)]) {
    for (path, content) in files {
        let path = root.join(path);
        let dir = path.parent().expect("a file is in a directory");
        fs::create_dir_all(dir).and_then(|()| fs::write(&path, content)).expect("a file of the site");
    }
}

/// A new directory that every user may read: where the tests run as root, the program serves as somebody else.
pub(crate) fn open_dir() -> tempfile::TempDir {
    opened(tempfile::tempdir().expect("a directory"))
}

/// Lets every user read a directory.
pub(crate) fn opened(dir: tempfile::TempDir) -> tempfile::TempDir {
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("the owner may");
    dir
}

/// A new directory with these files.
pub(crate) fn site<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)]) -> tempfile::TempDir {
    let dir = open_dir();
    write_files(dir.path(), files);
    dir
}

/// Bytes in which no two places look alike, so that a stretch that is cut, doubled or moved is noticed.
pub(crate) fn distinct_bytes(len: usize) -> Vec<u8> {
    (0u64..).flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).take(len).collect()
}

/// Whether an error says that the other side is gone.
pub(crate) fn is_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
    )
}
