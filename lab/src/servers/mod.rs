//! The servers of a measurement: how the lab starts, checks and stops them.
//!
//! ```text
//! TestBed ─ spawn ─▶ ServerProcess ─▶ check ─▶ address, processes, threads ─▶ drop: SIGTERM, SIGKILL, port free
//!    │
//!    └─ site: directory, tar archive, packed archive
//! ```
//!
//! | file | content |
//! |---|---|
//! | `test_bed.rs` | the site in all forms; starts servers |
//! | `programs.rs` | version and command line of each server |
//! | `configurations.rs` | the configuration files of nginx, h2o, Caddy, Apache httpd, lighttpd and HAProxy |
//! | `proxy_setup.rs` | how servers forward requests, and the lines of their configurations for it |
//! | `upstream.rs` | the running server behind proxies |
//! | `cgi_programs.rs` | the CGI programs of the lab |
//! | `certificate.rs` | certificates for TLS |
//! | `port.rs` | the port of each server |
//! | `process.rs` | a running server |
//! | `check.rs` | checks that a server sends the complete content and closes connections on request |
//!
//! Each server serves the same site on the core of the calling thread, each time on a new port. It has one worker, or a pool of
//! workers that serve one connection each.

pub(crate) mod certificate;
pub(crate) mod cgi_programs;
pub(crate) mod check;
mod configurations;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod proxy_setup;
pub(crate) mod test_bed;
pub(crate) mod upstream;
