//! Kernel structures and calls that need an argument for their safety.

#[cfg(test)]
pub(crate) mod attempts;
pub(crate) mod cached;
mod fault;
pub(crate) mod forbidden;
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod shared;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod user;
