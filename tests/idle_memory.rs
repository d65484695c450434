//! The memory of idle connections, on every engine whose workers serve many: with TLS it is that of the keys, and no buffer of the worker.

use crate::common::{
    ENGINES,
    client::TestClient,
    endpoint::{Endpoint, TestTls},
    kernel::private_len,
    program::RunningProgram,
    site,
};

/// Idle connections of each kind. The memory of a process is known to some pages, which are few bytes for each of them.
const CONNECTION_COUNT: usize = 300;

/// The limit for a connection without TLS, in bytes: its slot, and that slots and timers have room for more.
const PLAIN_LEN_MAX: usize = 2 << 10;

/// The limit for a connection with TLS, in bytes: less than a buffer, which has 17 KiB.
const TLS_LEN_MAX: usize = 12 << 10;

#[test]
fn idle_connection_with_tls_holds_no_buffer() {
    let dir = site(&[("index.html", "home".repeat(100)), ("large", "large".repeat(100_000))]);
    let tls = TestTls::new();
    for engine in ENGINES.iter().filter(|engine| !engine.is_blocking()) {
        let program = RunningProgram::start_ready(
            tls.serve(dir.path(), &["--engine", engine.name(), "--workers", "1"]),
        );
        let server = program.server();
        for endpoint in tls.endpoints(&program.addresses()) {
            let idle = |count| -> Vec<TestClient> { (0..count).map(|_| idle_client(&endpoint)).collect() };
            // The first of them take memory that the later ones share.
            let first = idle(20);
            let before = private_len(server);
            let later = idle(CONNECTION_COUNT);
            let len = private_len(server).saturating_sub(before) / CONNECTION_COUNT;
            println!("{engine}, {endpoint}: {len} bytes for each idle connection");
            let max = if endpoint.has_tls() { TLS_LEN_MAX } else { PLAIN_LEN_MAX };
            assert!(len <= max, "{engine}, {endpoint}: {len} bytes for each idle connection");
            drop((first, later));
        }
    }
}

/// Returns a client after its responses, of one record and of many.
fn idle_client(endpoint: &Endpoint) -> TestClient {
    let mut client = endpoint.connect();
    for target in ["/", "/large"] {
        assert_eq!(client.get(target).status, 200, "{endpoint}");
    }
    client
}
