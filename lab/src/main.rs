//! Measures tarpon beside its peers and beside servers that do nothing, in one run.
//!
//! ```text
//! race ─┬─ conditions  the same for all
//!       ├─ peer        starts a server        limit: the servers that do nothing
//!       ├─ check       is it worth timing?
//!       ├─ client      asks, counts
//!       ├─ cpu         who used the core      count: system calls
//!       └─▶ record ──▶ report ──▶ table       stats: medians, ratios
//! ```
//!
//! Knows nothing of tarpon's code: a measure must not share code with what it measures.

#![deny(unsafe_code)]

mod check;
mod client;
mod conditions;
mod count;
mod cpu;
mod limit;
mod machine;
mod peer;
mod race;
mod record;
mod report;
mod response;
mod stats;

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
    /// Prints the table of a result file as Markdown, or keeps it in a document.
    Report(report::Options),
    /// A server that answers the same bytes to anything: the limit.
    Null(limit::Options),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Race(options) => race::main(&options),
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
