//! What stands in the place of Linux's own on other systems and needs no call of theirs: here for its tests.

#![expect(dead_code, reason = "only the tests use it")]

#[path = "bsd/name.rs"]
mod name;
#[path = "bsd/macos/plain.rs"]
mod plain;
#[path = "bsd/sealed.rs"]
mod sealed;
#[path = "bsd/wake.rs"]
mod wake;
