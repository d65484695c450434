//! Black-box tests of `tarpon serve`. A module for each engine includes them.
//!
//! | module | subject |
//! |---|---|
//! | `start` | banner, listeners and start errors |
//! | `paths` | paths outside the site |
//! | `reload` | changes of the directory |
//! | `timeouts` | client timeouts |
//! | `close` | closing without loss of a response |
//! | `load_balance` | one worker shared fairly between clients |
//! | `fd_limit` | more clients than file descriptors |
//! | `hosts` | several sites, selected by host |
//! | `stop` | stopping with a grace period |

mod close;
#[cfg(debug_assertions)]
mod faults;
mod fd_limit;
mod hosts;
mod load_balance;
mod paths;
mod reload;
mod start;
mod stop;
mod timeouts;

use super::ENGINE;
use crate::common::program;
use std::{path::Path, process::Command};

/// Returns the command `tarpon serve` with this engine, on a free local port unless the options name an address.
fn serve(dir: &Path, options: &[&str]) -> Command {
    program::serve(dir, &[options, &["--engine", ENGINE.name()]].concat())
}

/// Like [`serve`], but leaves the `--workers` option unchanged.
fn serve_exactly(dir: &Path, options: &[&str]) -> Command {
    program::serve_exactly(dir, &[options, &["--engine", ENGINE.name()]].concat())
}

/// Whether each worker of this engine serves one connection at a time.
const IS_BLOCKING: bool = ENGINE.is_blocking();
