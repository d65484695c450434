//! The experiments. Each measures all servers under the same conditions, prints a report and writes a record.
//!
//! ```text
//! options ─▶ isolation ─▶ test bed ─▶ rounds of windows ─▶ record ─▶ report on the terminal, JSON file
//! ```
//!
//! | file | content |
//! |---|---|
//! | `set.rs` | several experiments, one after the other |
//! | `race.rs` | requests per second and CPU per request |
//! | `protocols.rs` | a race over HTTPS or HTTP/2 |
//! | `cold/` | response times of a hot page while other clients read cold files from a slow disk |
//! | `start.rs` | time from start to first response, and memory |
//! | `tls/` | CPU per handshake and per request with TLS; response times beside handshakes |
//! | `stalled.rs` | response times of a page while CGI programs, or an upstream, never answer |
//! | `attacks.rs` | response times and memory while clients attack |
//! | `loads/` | rates and response times of a program that embeds tarpon, with every response checked |
//! | `proxy.rs` | rates, response times and CPU per request of reverse proxies |
//! | `tunnels.rs` | memory and descriptors of idle tunnels |
//! | `ladder/` | a published ladder of optimisations, one after the other |
//! | `http2.rs` | requests per second and CPU per request over HTTP/2 |
//! | `ktls/` | instructions and system calls with TLS in the kernel, in a virtual machine |
//! | `stories.rs` | the loads of published stories, with their own programs |
//! | `profile.rs` | where the time of a server goes |
//! | `sweep.rs` | CPU time of each way to send a file, by length |
//! | `disk.rs` | random reads from a disk, by the length of its queue |
//! | `streams.rs` | memory of idle connections and of open streams of HTTP/2 |
//! | `pgo/` | a profile-guided build, trained with the loads of clients |
//! | `pack.rs` | time and size of packing, compared with reference encoders |
//! | `cost.rs` | instructions per request |
//! | `tls_provider.rs` | handshakes and records of TLS, with both providers of cryptography |
//! | `cores.rs` | a core for the server and one for the client, and the times on them |
//! | `options.rs` | options that several experiments share; the command that repeats an experiment |
//! | `isolation.rs` | the private network namespace and the scheduling policy |
//! | `rounds.rs` | the order of servers; the wait for an idle core; the repetition of dirty rounds |
//! | `output.rs` | prints the report and writes the record |

pub(crate) mod attacks;
pub(crate) mod cold;
pub(crate) mod cost;
pub(crate) mod disk;
pub(crate) mod http2;
pub(crate) mod ktls;
pub(crate) mod ladder;
pub(crate) mod loads;
pub(crate) mod pack;
pub(crate) mod pgo;
pub(crate) mod profile;
pub(crate) mod proxy;
pub(crate) mod race;
pub(crate) mod set;
pub(crate) mod stalled;
pub(crate) mod start;
pub(crate) mod stories;
pub(crate) mod streams;
pub(crate) mod sweep;
pub(crate) mod tls;
pub(crate) mod tls_provider;
pub(crate) mod tunnels;

mod cores;
mod isolation;
mod options;
mod output;
mod protocols;
mod rounds;
