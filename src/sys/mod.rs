//! The kernel structures that need an argument for their safety.

mod fault;
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod socket;
