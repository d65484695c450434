//! What macOS has, and FreeBSD in another form.

mod plain;
pub(super) mod process;
pub(super) mod socket;
