//! The program `tarpon serve`, seen from outside, on the engine that the test program is for: each engine has one.
//!
//! | module | what |
//! |---|---|
//! | `start` | what it says, where it listens, and why it refuses to begin |
//! | `reach` | which paths it does not serve |
//! | `change` | that it follows its directory |
//! | `wait` | how long it waits for clients |
//! | `close` | that a close loses no response |
//! | `share` | that no client takes it for itself |
//! | `crowd` | more clients than it has descriptors for |
//! | `hosts` | several sites, told apart by host |
//! | `stop` | how it ends |

mod change;
mod close;
mod crowd;
mod hosts;
mod reach;
mod share;
mod start;
mod stop;
mod wait;

use crate::{ENGINE, common::program};
use std::{path::Path, process::Command};
use tarpon::Engine;

/// `tarpon serve` on this engine, on a free port of this host unless another address is given.
///
/// Where a worker serves one connection at a time there are 16 for each that is asked for: a test that wants one wants all of its
/// clients to be served by the same, and has no more of them.
fn serve(dir: &Path, options: &[&str]) -> Command {
    let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    if IS_ONE_AT_A_TIME && let Some(at) = options.iter().position(|option| option == "--workers") {
        options[at + 1] = format!("{}", 16 * options[at + 1].parse::<usize>().expect("a number"));
    }
    exactly(dir, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The same with these options and no others.
fn exactly(dir: &Path, options: &[&str]) -> Command {
    let mut command = program::serve(dir, options);
    command.args(["--engine", ENGINE.name()]);
    command
}

/// Whether a worker of this engine serves one connection at a time.
const IS_ONE_AT_A_TIME: bool = matches!(ENGINE, Engine::Threads);
