//! The laws of the seam: as properties, whatever a client sends, however it is cut, whenever time passes; and as cases that show
//! what they come to.
//!
//! | file | what |
//! |---|---|
//! | `properties.rs` | what holds of any bytes, cuts and times |
//! | `ranges.rs` | parts of contents, against an answer that is made in the most obvious way |
//! | `spans.rs` | what is owed is named by its place, and what it lies in is kept for it |
//! | `time.rs` | deadlines, and the least rate of a reader |
//! | `ends.rs` | how a connection ends: a stop, a drain, the last request |
//! | `sites.rs` | the sites that they ask for |
//!
//! `Sim` checks bounds, frozen front, quiet and idle after every fact, and moves the connection before it.

#![allow(clippy::disallowed_methods, reason = "the ban is for the core, not for those who test it")]

mod ends;
mod properties;
mod ranges;
mod sites;
mod spans;
mod time;

use proptest::test_runner::Config;

/// Twice as many cases as other properties have. `PROPTEST_CASES` changes both.
fn twice_the_cases() -> Config {
    let usual = Config::default();
    Config { cases: 2 * usual.cases, ..usual }
}
