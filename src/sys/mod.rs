//! Kernel structures and calls that need an argument for their safety.

pub(crate) mod cached;
mod fault;
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod socket;
