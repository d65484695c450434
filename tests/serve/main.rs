//! The program `tarpon serve`, seen from outside.
//!
//! | module | what |
//! |---|---|
//! | `start` | what it says, where it listens, and why it refuses to begin |
//! | `reach` | which paths it does not serve |
//! | `change` | that it follows its directory |
//! | `wait` | how long it waits for clients |
//! | `crowd` | more clients than it has descriptors for |
//! | `stop` | how it ends |

#[path = "../common/mod.rs"]
mod common;

mod change;
mod crowd;
mod reach;
mod start;
mod stop;
mod wait;
