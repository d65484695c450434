//! Why the program cannot start or go on: one line that says what, why, and what to do.

use std::{error::Error, fmt};
use tarpon_site::printable::{is_invisible, write_escaped};

/// A failure outside of any connection, as a user is told of it.
#[derive(Debug)]
pub struct UserError {
    /// What could not be done, with the name of what it concerns.
    what: String,
    /// Why, in the words of the system where it has some.
    why: String,
    /// What to do about it.
    remedy: String,
}

impl UserError {
    pub(crate) fn new(
        what: impl fmt::Display,
        why: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> UserError {
        UserError { what: in_line(&what), why: in_line(&why), remedy: in_line(&remedy) }
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserError { what, why, remedy } = self;
        write!(f, "{what}: {why}; {remedy}")
    }
}

impl Error for UserError {}

/// Returns text as a part of one line. Names in it are printable already; this is for text that others have made,
/// as the words of a library.
fn in_line(text: &impl fmt::Display) -> String {
    let mut line = String::new();
    let _ = write_escaped(text.to_string().as_bytes(), is_invisible, &mut line);
    line
}

/// An error of the system in its own words, without the number that Rust adds.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
