//! Replacements for Linux-only modules that need no call of another system: compiled here for their tests.

#![expect(dead_code, reason = "only the tests use it")]

#[path = "bsd/name.rs"]
mod name;
#[path = "bsd/macos/plain.rs"]
mod plain;
#[path = "bsd/sealed.rs"]
mod sealed;
#[path = "bsd/wake.rs"]
mod wake;
