//! The kernel structures that need an argument for their safety.

pub(crate) mod memory;
