//! Calls of macOS that differ on FreeBSD.

mod plain;
pub(super) mod process;
pub(super) mod socket;
