//! What FreeBSD has, and macOS in another form.

pub(super) mod process;
pub(super) mod socket;
