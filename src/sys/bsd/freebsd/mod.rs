//! Calls of FreeBSD that differ on macOS.

pub(super) mod process;
pub(super) mod socket;
