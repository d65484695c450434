//! What stands on FreeBSD and macOS in the place of what only Linux has: the same modules as in `../linux/`, with the same functions.
//! Type-checked, and not run: see docs/systems.md. What needs no call of a BSD is tested on Linux, too.

pub(crate) mod cached;
pub(crate) mod clock;
pub(crate) mod cores;
pub(crate) mod huge;
#[cfg_attr(target_os = "macos", path = "macos/mod.rs")]
#[cfg_attr(not(target_os = "macos"), path = "freebsd/mod.rs")]
mod kind;
pub(crate) mod name;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod sealed;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod wake;
