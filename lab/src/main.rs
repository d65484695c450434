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
//! | `experiments` | race, cold reads, starts, TLS, TLS in the kernel, HTTP/2, its streams, stalled programs, attacks, loads, proxies, tunnels, ladder, cost of a request, packing, profile-guided builds, cryptography |
//! | `servers` | starts, checks and stops servers |
//! | `null_server` | servers that parse nothing: the upper limit |
//! | `naive_server` | a server with the mistakes of published stories |
//! | `upstream_server` | the server behind proxies |
//! | `client` | load generators, with and without TLS |
//! | `measure` | CPU time, memory, system calls, instructions, a slow disk |
//! | `records` | the result files |
//! | `report` | tables for the terminal and for documents; a page with plots |
//! | `sys` | calls of the system that need unsafe code: fork, options of sockets, sends of a file |
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
mod naive_server;
mod null_server;
mod records;
mod report;
mod servers;
mod stats;
mod sys;
mod upstream_server;

use std::process::ExitCode;

use clap::Parser;

use self::client::attack;
use self::experiments::{
    attacks, cold, cost, disk, http2, ktls, ladder, loads, pack, pgo, profile, proxy, race, set, stalled,
    start, stories, streams, sweep, tls, tls_provider, tunnels,
};
use self::report::{document, figures, page};

/// Measure web servers on one machine, under the same conditions
#[derive(Parser)]
#[command(name = "tarpon-lab", version, disable_help_subcommand = true)]
enum LabCommand {
    /// Measure requests per second and CPU per request, compared with null servers
    Race(race::RaceArgs),
    /// Run several experiments, one after the other, each with a result file of its own
    Set(set::SetArgs),
    /// Measure response times of a hot page while other clients read from a slow disk
    Cold(cold::ColdArgs),
    /// Measure the time from start to first response, and memory, with many files
    Start(start::StartArgs),
    /// Measure handshakes and requests with TLS, or response times beside a storm of handshakes
    Tls(tls::TlsArgs),
    /// Measure requests per second and CPU per request over HTTP/2, with h2load
    Http2(http2::Http2RaceArgs),
    /// Count instructions and system calls with TLS in the kernel, in a virtual machine
    Ktls(ktls::KernelTlsArgs),
    /// Show where the time of a server goes: utilisation, CPU, system calls, distributions
    Profile(profile::ProfileArgs),
    /// Repeat the loads of published stories, beside their figures
    Stories(stories::StoriesArgs),
    /// Measure CPU time of each way to send a file, from 1 KiB to 100 MiB
    Sweep(sweep::SweepArgs),
    /// Measure random reads from a disk, by the length of its queue, with fio
    Disk(disk::DiskArgs),
    /// Measure memory of idle connections and of open streams of HTTP/2
    Streams(streams::StreamsArgs),
    /// Measure response times of a page while CGI programs, or an upstream, never answer
    Stalled(stalled::StalledArgs),
    /// Measure response times and memory while clients attack
    Attacks(attacks::AttacksArgs),
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
    /// Build tarpon with a profile of its loads, for a race of both builds
    Pgo(pgo::PgoArgs),
    /// Measure handshakes and records of TLS with both providers of cryptography
    TlsProvider(tls_provider::TlsProviderArgs),
    /// Print the report of a result file as Markdown, or write it into a document
    Report(document::ReportArgs),
    /// Write the few numbers of the README, each from its result file
    Figures(figures::FiguresArgs),
    /// Write all result files as one page with plots, which needs no other file
    Page(page::PageArgs),
    /// Attack a server: the attacker of an experiment
    Attacker(attack::AttackerArgs),
    /// Drop what arrives on a port: the receiver of a sweep
    Sink(sweep::SinkArgs),
    /// Run a null server: it sends the same bytes for every request
    NullServer(null_server::NullServerArgs),
    /// Run a naive server: it forks for each connection, and makes the mistakes of a rung
    NaiveServer(naive_server::NaiveServerArgs),
    /// Run the server behind proxies: it sends prepared responses, stalls, and sends messages of tunnels back
    UpstreamServer(upstream_server::UpstreamServerArgs),
}

fn main() -> ExitCode {
    let outcome = match LabCommand::parse() {
        LabCommand::Race(args) => race::run(&args),
        LabCommand::Set(args) => set::run(&args),
        LabCommand::Cold(args) => cold::run(&args),
        LabCommand::Start(args) => start::run(&args),
        LabCommand::Tls(args) => tls::run(&args),
        LabCommand::Http2(args) => http2::run(&args),
        LabCommand::Ktls(args) => ktls::run(&args),
        LabCommand::Profile(args) => profile::run(&args),
        LabCommand::Stories(args) => stories::run(&args),
        LabCommand::Sweep(args) => sweep::run(&args),
        LabCommand::Disk(args) => disk::run(&args),
        LabCommand::Streams(args) => streams::run(&args),
        LabCommand::Stalled(args) => stalled::run(&args),
        LabCommand::Attacks(args) => attacks::run(&args),
        LabCommand::Attacker(args) => attack::run(&args),
        LabCommand::Loads(args) => loads::run(&args),
        LabCommand::Proxy(args) => proxy::run(&args),
        LabCommand::Tunnels(args) => tunnels::run(&args),
        LabCommand::Ladder(args) => ladder::run(&args),
        LabCommand::Cost(args) => cost::run(&args),
        LabCommand::Pack(args) => pack::run(&args),
        LabCommand::Pgo(args) => pgo::run(&args),
        LabCommand::TlsProvider(args) => tls_provider::run(&args),
        LabCommand::Report(args) => document::run(&args),
        LabCommand::Figures(args) => figures::run(&args),
        LabCommand::Page(args) => page::run(&args),
        LabCommand::Sink(args) => sweep::sink(&args),
        LabCommand::NullServer(args) => null_server::run(&args),
        LabCommand::NaiveServer(args) => naive_server::run(&args),
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
