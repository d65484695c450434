//! The invariants of a connection: as properties, for any input, cuts and times; and as cases that show what they mean.
//!
//! | file | what |
//! |---|---|
//! | `properties.rs` | properties for any bytes, cuts and times |
//! | `records.rs` | the records for the log: every exchange begun is ended once |
//! | `log_paths.rs` | the paths that a site keeps out of the log |
//! | `ranges.rs` | byte ranges, compared with a simple reference |
//! | `spans.rs` | an outbox names bytes by place, and holds what they lie in |
//! | `time.rs` | deadlines, and the minimum rate of a client |
//! | `ends.rs` | the end of a connection: a stop, a drain, the last request |
//! | `backends.rs` | exchanges with a backend, through a pipe |
//! | `backend_tls.rs` | exchanges with a backend behind TLS |
//! | `heads.rs` | heads up to the limit of their length, and beyond it |
//! | `functions.rs` | exchanges with a function of the worker |
//! | `http2.rs` | connections of HTTP/2 |
//! | `http2_backends.rs` | exchanges of HTTP/2 with backends |
//! | `http2_client.rs` | a client of HTTP/2 for these tests |
//! | `http2_of_others.rs` | connections of HTTP/2 with a client that others wrote |
//! | `proxies.rs` | the clients behind proxies, and PROXY headers |
//! | `client_limits.rs` | the limits of clients |
//! | `passwords.rs` | passwords that another thread verifies |
//! | `transports.rs` | what a sealing transport adds: a handshake, records, an alert |
//! | `tls.rs` | connections through TLS |
//! | `sites.rs` | the sites of these tests |
//!
//! `Sim` checks bounds, frozen front, quiet and idle after every event, and moves the connection before it.

#![allow(clippy::disallowed_methods, reason = "the ban is for the core, not for its tests")]

mod backend_tls;
mod backends;
mod client_limits;
mod ends;
mod functions;
mod heads;
mod http2;
mod http2_backends;
mod http2_client;
mod http2_of_others;
mod http2_uploads;
mod log_paths;
mod paces;
mod passwords;
mod properties;
mod proxies;
mod ranges;
mod records;
mod sites;
mod spans;
mod time;
mod tls;
mod transports;
mod upstreams;

use proptest::test_runner::Config;

/// Returns a configuration with twice the usual number of cases. `PROPTEST_CASES` changes both numbers.
fn twice_the_cases() -> Config {
    let default = Config::default();
    Config { cases: 2 * default.cases, ..default }
}
