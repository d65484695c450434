//! The tests of this crate from outside, all in one test program: it builds and links once.
//!
//! Each module is what its first lines say, and runs by its name: `cargo test --package tarpon-pack --test pack packed::`.

mod archive;
mod compression;
mod deltas;
mod hpack;
mod missing;
mod pack;
mod packed;
mod rules;
mod users;
mod verify;
#[cfg(target_os = "linux")]
mod walk;
