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

/// `tarpon serve` on this engine, on a free port of this host unless another address is given.
fn serve(dir: &Path, options: &[&str]) -> Command {
    let mut command = program::serve(dir, options);
    command.args(["--engine", ENGINE.name()]);
    command
}
