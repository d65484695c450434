//! Helpers for the black-box tests.
//!
//! | module | contents |
//! |---|---|
//! | `acme` | certificates by ACME, and simulated time |
//! | `client` | a client that sends given bytes and reads responses |
//! | `client_hello` | a ClientHello of which a test can change every part |
//! | `directory` | an ACME directory: Pebble |
//! | `endpoint` | listeners with and without TLS, and clients of them |
//! | `faults` | the program with faults injected by seed |
//! | `http2_client` | a client that reads and writes frames of HTTP/2 |
//! | `http2_request` | a request of HTTP/1.1 as HTTP/2 has it |
//! | `http2_stream` | a connection of HTTP/2 for tests that write and read HTTP/1.1 |
//! | `kernel` | waits for what the kernel reports about connections and threads |
//! | `load` | clients that send requests continuously |
//! | `other_server` | other servers: nginx, Caddy, HAProxy |
//! | `page` | a page loaded in a browser |
//! | `port` | the port of a server that a test starts later |
//! | `program` | the program `tarpon` as a child process |
//! | `record_forge` | records of TLS with any content |
//! | `releases` | releases of a site |
//! | `sample` | a sample site with common file types |
//! | `server` | a server in the process of the test |
//! | `tls` | a client that speaks TLS |
//! | `tls_files` | a certificate authority, certificates in files, and clients that trust it |
//! | `tls_stream` | the client's end of a TLS connection |

#![allow(dead_code, reason = "`no_allocation` uses some of these helpers")]

pub(crate) mod acme;
pub(crate) mod client;
pub(crate) mod client_hello;
pub(crate) mod directory;
pub(crate) mod endpoint;
pub(crate) mod faults;
#[path = "../../crates/conn/tests/invariants/http2_client.rs"]
pub(crate) mod http2_client;
pub(crate) mod http2_request;
pub(crate) mod http2_stream;
pub(crate) mod kernel;
pub(crate) mod load;
pub(crate) mod other_server;
pub(crate) mod page;
pub(crate) mod port;
pub(crate) mod program;
pub(crate) mod record_forge;
pub(crate) mod releases;
pub(crate) mod sample;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod tls_files;
pub(crate) mod tls_stream;

use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use tarpon::Engine;

/// All engines of this platform.
pub(crate) const ENGINES: &[Engine] = Engine::ALL;

/// The engines that run in the process of a test. For the others, tests start the program.
pub(crate) const EMBEDDED: &[Engine] = Engine::EMBEDDED;

/// Returns whether an engine offers HTTP/2.
pub(crate) fn has_http2(engine: Engine) -> bool {
    !engine.is_blocking()
}

/// Scales a worker count for engines whose workers serve one connection each, so that all clients of a test can connect.
pub(crate) fn workers(engine: Engine, count: usize) -> usize {
    if engine.is_blocking() { 32 * count } else { count }
}

/// Limit for every wait in a test. It only ends a test that hangs: on a machine that is busy with other work, an event may take many
/// seconds. Shorter than [`SERVER_TIMEOUT`].
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Each timeout of a server that a test does not set: on a busy machine, a client of a test may be slower than the default timeouts allow.
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(3600);

/// Polls `look` until it returns a value. The pause leaves the processor to the processes that the test waits for; it decides nothing, as
/// `look` sees the event itself.
///
/// # Panics
/// `look` returns `None` for [`TEST_TIMEOUT`].
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_at_most(TEST_TIMEOUT, what, look)
}

/// Does as [`wait_for`], with another limit.
#[track_caller]
pub(crate) fn wait_at_most<T>(limit: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    found_within(limit, look).unwrap_or_else(|| panic!("timed out waiting for: {what}"))
}

/// Does as [`wait_for`], with another limit, after which it returns `None`.
pub(crate) fn found_within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let since = Instant::now();
    loop {
        let found = look();
        if found.is_some() || since.elapsed() >= limit {
            return found;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// How many times more cases than usual a test with random or repeated cases runs: `tests/run --soak` sets 10.
pub(crate) fn seeds_factor() -> usize {
    env::var("TARPON_SEEDS_FACTOR")
        .map_or(1, |factor| factor.parse().expect("TARPON_SEEDS_FACTOR is a number"))
}

/// Writes files below `root` and creates their directories.
pub(crate) fn write_files<P: AsRef<Path>, C: AsRef<[u8]>>(root: &Path, files: &[(P, C)]) {
    for (path, content) in files {
        let path = root.join(path);
        let dir = path.parent().expect("a file is in a directory");
        fs::create_dir_all(dir).and_then(|()| fs::write(&path, content)).expect("a file of the site");
    }
}

/// Returns a new directory that every user may read: if the tests run as root, the server runs as another user.
pub(crate) fn readable_dir() -> tempfile::TempDir {
    make_readable(tempfile::tempdir().expect("a directory"))
}

/// Makes a directory readable for every user.
pub(crate) fn make_readable(dir: tempfile::TempDir) -> tempfile::TempDir {
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a directory of this user");
    dir
}

/// Returns a new directory with these files.
pub(crate) fn site<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)]) -> tempfile::TempDir {
    let dir = readable_dir();
    write_files(dir.path(), files);
    dir
}

/// Returns bytes without repetition, so that a comparison finds a lost, duplicated or moved range.
pub(crate) fn distinct_bytes(len: usize) -> Vec<u8> {
    (0u64..).flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).take(len).collect()
}

/// Returns whether an error means that the peer closed the connection.
pub(crate) fn is_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted
    )
}
