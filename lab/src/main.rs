//! Measures web servers on one machine, one after the other under the same conditions.
//!
//! ```text
//! main ─▶ experiments ─┬─▶ servers ─▶ client, null_server, upstream_server
//!                      ├─▶ client ───────────────────────┐
//!                      ├─▶ measure ──────────────────────┼─▶ records ─▶ stats, format
//!                      └─▶ report ───────────────────────┘
//! ```
//!
//! | module | content |
//! |---|---|
//! | `experiments` | race, cold reads, starts, TLS, HTTP/2, its streams, stalled programs, loads, proxies, tunnels, ladder, cost of a request, packing, cryptography |
//! | `servers` | starts, checks and stops servers |
//! | `null_server` | servers that parse nothing: the upper limit |
//! | `upstream_server` | the server behind proxies |
//! | `client` | load generators, with and without TLS |
//! | `measure` | CPU time, memory, system calls, instructions, a slow disk |
//! | `records` | the result files |
//! | `report` | tables for the terminal and for documents |
//! | `generated_site` | pages that are the same on every machine |
//! | `stats`, `format`, `error` | medians; numbers as text; the error type |
//!
//! Shares no code with tarpon: a measurement must not share code with what it measures.

#![allow(clippy::disallowed_methods, reason = "the lab prints only paths of its own and of its options")]
#![deny(unsafe_code)]

mod client;
mod error;
mod experiments;
mod format;
mod generated_site;
mod measure;
mod null_server;
mod records;
mod report;
mod servers;
mod stats;
mod upstream_server;

use std::process::ExitCode;

use clap::Parser;

use self::experiments::{
    cold, cost, http2, ladder, loads, pack, proxy, race, stalled, start, streams, tls, tls_provider, tunnels,
};
use self::report::document;

/// Measure web servers on one machine, under the same conditions
#[derive(Parser)]
#[command(name = "tarpon-lab", version, disable_help_subcommand = true)]
enum LabCommand {
    /// Measure requests per second and CPU per request, compared with null servers
    Race(race::RaceArgs),
    /// Measure response times of a hot page while other clients read from a slow disk
    Cold(cold::ColdArgs),
    /// Measure the time from start to first response, and memory, with many files
    Start(start::StartArgs),
    /// Measure handshakes and requests with TLS, or response times beside a storm of handshakes
    Tls(tls::TlsArgs),
    /// Measure requests per second and CPU per request over HTTP/2, with h2load
    Http2(http2::Http2RaceArgs),
    /// Measure memory of idle connections and of open streams of HTTP/2
    Streams(streams::StreamsArgs),
    /// Measure response times of a page while CGI programs, or an upstream, never answer
    Stalled(stalled::StalledArgs),
    /// Measure four loads on a program that embeds tarpon, and check every response
    Loads(loads::LoadsArgs),
    /// Measure requests per second, response times and CPU per request of reverse proxies
    Proxy(proxy::ProxyRaceArgs),
    /// Measure memory and descriptors of idle WebSocket tunnels through reverse proxies
    Tunnels(tunnels::TunnelsArgs),
    /// Measure a published ladder of optimisations: files, and JSON of an upstream
    Ladder(ladder::LadderArgs),
    /// Count the instructions per request with callgrind, and compare them with the accepted counts
    Cost(cost::CostArgs),
    /// Measure time and size of packing, compared with reference encoders
    Pack(pack::PackExperimentArgs),
    /// Measure handshakes and records of TLS with both providers of cryptography
    TlsProvider(tls_provider::TlsProviderArgs),
    /// Print the report of a result file as Markdown, or write it into a document
    Report(document::ReportArgs),
    /// Run a null server: it sends the same bytes for every request
    NullServer(null_server::NullServerArgs),
    /// Run the server behind proxies: it sends prepared responses, stalls, and sends messages of tunnels back
    UpstreamServer(upstream_server::UpstreamServerArgs),
}

fn main() -> ExitCode {
    let outcome = match LabCommand::parse() {
        LabCommand::Race(args) => race::run(&args),
        LabCommand::Cold(args) => cold::run(&args),
        LabCommand::Start(args) => start::run(&args),
        LabCommand::Tls(args) => tls::run(&args),
        LabCommand::Http2(args) => http2::run(&args),
        LabCommand::Streams(args) => streams::run(&args),
        LabCommand::Stalled(args) => stalled::run(&args),
        LabCommand::Loads(args) => loads::run(&args),
        LabCommand::Proxy(args) => proxy::run(&args),
        LabCommand::Tunnels(args) => tunnels::run(&args),
        LabCommand::Ladder(args) => ladder::run(&args),
        LabCommand::Cost(args) => cost::run(&args),
        LabCommand::Pack(args) => pack::run(&args),
        LabCommand::TlsProvider(args) => tls_provider::run(&args),
        LabCommand::Report(args) => document::run(&args),
        LabCommand::NullServer(args) => null_server::run(&args),
        LabCommand::UpstreamServer(args) => upstream_server::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tarpon-lab: {error}");
            ExitCode::FAILURE
        }
    }
}
