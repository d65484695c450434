//! FreeBSD and macOS: the same modules with the same functions as in `../linux/`. Type-checked only: see docs/systems.md. Code
//! without BSD calls is also tested on Linux.

pub(crate) mod cached;
pub(crate) mod clock;
pub(crate) mod cores;
pub(crate) mod huge;
#[cfg_attr(target_os = "macos", path = "macos/mod.rs")]
#[cfg_attr(not(target_os = "macos"), path = "freebsd/mod.rs")]
mod kind;
pub(crate) mod name;
pub(crate) mod priority;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod sealed;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod spawn;
pub(crate) mod wake;
