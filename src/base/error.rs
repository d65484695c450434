//! An error for the user: one line with what failed, why, and a hint.

use serde::{Deserialize, Serialize};
use std::{error::Error, fmt};
use tarpon_site::printable::{is_invisible, write_escaped};

/// An error outside of any connection, as text for the user. [`Display`](fmt::Display) writes one line: `what: why; hint`.
#[derive(Debug, Serialize, Deserialize)]
pub struct UserError {
    /// What failed, with the name of the file, address or option concerned.
    what: String,
    /// Why it failed; for a system call, the text of its error.
    why: String,
    /// What the user can do about it.
    hint: String,
}

impl UserError {
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display, hint: impl fmt::Display) -> UserError {
        UserError { what: escape(&what), why: escape(&why), hint: escape(&hint) }
    }
}

impl UserError {
    /// Returns what failed with its reason, and the hint: an error about a configuration has another form.
    pub(crate) fn found_and_hint(&self) -> (String, &str) {
        (format!("{}: {}", self.what, self.why), &self.hint)
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserError { what, why, hint } = self;
        write!(f, "{what}: {why}; {hint}")
    }
}

impl Error for UserError {}

/// Returns text with line breaks and invisible characters escaped. Names in it are escaped already; the messages of libraries are not.
fn escape(text: &impl fmt::Display) -> String {
    let mut line = String::new();
    let _ = write_escaped(text.to_string().as_bytes(), is_invisible, &mut line);
    line
}

/// Returns the text of a system error, in lower case and without the number that Rust adds.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
