//! The user interface: the command line, the configuration file, and everything that the program prints.
//!
//! ```text
//! arguments ─▶ cli ─┬─ config ◀── tarpon.toml
//!                   ├─ output ──▶ terminal, pipe, log daemon
//!                   └─▶ control, site
//! ```
//!
//! | module | content |
//! |---|---|
//! | `cli` | the command line: a file for each command |
//! | `config` | merges defaults, a file and flags into one checked configuration |
//! | `import` | makes a configuration of that of another server |
//! | `output` | messages, events, progress and tables |

mod cli;
pub mod config;
pub mod import;
mod output;

use crate::site::embedded::has_embedded_site;
use std::process::ExitCode;

/// Runs the program with the arguments of this process. Prints an error, and returns the exit status.
#[doc(hidden)]
pub fn run() -> ExitCode {
    let done = if has_embedded_site() { cli::run_embedded() } else { cli::run() };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::messages::error(&*error);
            ExitCode::FAILURE
        }
    }
}
