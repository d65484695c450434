//! Measures tarpon beside its peers and beside servers that do nothing, in one run.
//!
//! ```text
//! race ──┐
//! cold ──┼─ conditions  the same for all
//! start ─┤  peer        starts a server        limit: the servers that do nothing
//! pack ──┤  check       is it worth timing?
//!        ├─ client      asks, counts           site: generated pages
//!        ├─ cpu         who used the core      count: system calls
//!        ├─ memory      what a server holds    throttle: a slow disk
//!        └─▶ record ──▶ report ──▶ table       stats: medians, ratios
//! ```
//!
//! Knows nothing of tarpon's code: a measure must not share code with what it measures.

#![allow(clippy::disallowed_methods, reason = "the lab names files of its own")]
#![deny(unsafe_code)]

mod check;
mod client;
mod cold;
mod conditions;
mod count;
mod cpu;
mod limit;
mod machine;
mod memory;
mod pack;
mod peer;
mod race;
mod record;
mod report;
mod response;
mod site;
mod start;
mod stats;
mod table;
mod throttle;

use std::process::ExitCode;

use clap::Parser;

/// What went wrong and what to do about it, for the person at the terminal.
type Trouble = Box<dyn std::error::Error>;

/// Measures web servers side by side, honestly.
#[derive(Parser)]
#[command(name = "tarpon-lab", version, disable_help_subcommand = true)]
enum Command {
    /// Server and client on one core: requests a second and CPU per request, beside the null servers.
    Race(race::Options),
    /// A hot page beside reads from a slow disk: how long its clients wait.
    Cold(cold::Options),
    /// A site of many files: time from the start to the first answer, and memory.
    Start(start::Options),
    /// Packing a site: time and sizes, beside the reference encoders.
    Pack(pack::Options),
    /// Prints the table of a result file as Markdown, or keeps it in a document.
    Report(report::Options),
    /// A server that answers the same bytes to anything: the limit.
    Null(limit::Options),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Race(options) => race::main(&options),
        Command::Cold(options) => cold::main(&options),
        Command::Start(options) => start::main(&options),
        Command::Pack(options) => pack::main(&options),
        Command::Report(options) => report::main(&options),
        Command::Null(options) => limit::main(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("tarpon-lab: {trouble}");
            ExitCode::FAILURE
        }
    }
}
