//! An error for the user: one line with what failed, why, and a hint.

use std::{error::Error, fmt};
use tarpon_site::printable::{is_invisible, write_escaped};

/// An error outside of any connection, as text for the user. [`Display`](fmt::Display) writes one line: `what: why; hint`, and the
/// number of errors if it is one of several. [`Debug`] writes the same line for each of several, as `main` prints an error that it returns
/// with `Debug`.
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct UserError {
    /// What failed, with the name of the file, address or option concerned.
    what: String,
    /// Why it failed; for a system call, the text of its error.
    why: String,
    /// What the user can do about it.
    hint: String,
    /// The option that the error is about, if what failed does not tell.
    option: Option<String>,
    /// Further errors of the same kind, such as those of other lines of a file.
    more: Vec<UserError>,
}

impl UserError {
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display, hint: impl fmt::Display) -> UserError {
        let (what, why, hint) = (escape(&what), escape(&why), escape(&hint));
        UserError { what, why, hint, option: None, more: Vec::new() }
    }

    /// Returns one error for several of the same kind. `None`: there are none.
    pub(crate) fn join(errors: impl IntoIterator<Item = UserError>) -> Option<UserError> {
        let mut errors = errors.into_iter();
        let first = errors.next()?;
        Some(UserError { more: errors.collect(), ..first })
    }

    /// Returns the errors that were joined.
    pub(crate) fn split(mut self) -> Vec<UserError> {
        let more = std::mem::take(&mut self.more);
        [self].into_iter().chain(more).collect()
    }

    /// Sets the option that the error is about.
    #[must_use]
    pub(crate) fn about(self, option: &str) -> UserError {
        UserError { option: Some(option.to_owned()), ..self }
    }

    /// Returns the option that the error is about, if it was set.
    pub(crate) fn option(&self) -> Option<&str> {
        self.option.as_deref()
    }

    /// Returns what failed with its reason, and the hint: an error about a configuration has another form.
    pub(crate) fn found_and_hint(&self) -> (String, &str) {
        (format!("{}: {}", self.what, self.why), &self.hint)
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserError { what, why, hint, more, option: _ } = self;
        write!(f, "{what}: {why}; {hint}")?;
        match more.len() {
            0 => Ok(()),
            count => write!(f, " (the first of {} errors)", count + 1),
        }
    }
}

impl fmt::Debug for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserError { what, why, hint, more, option: _ } = self;
        write!(f, "{what}: {why}; {hint}")?;
        more.iter().try_for_each(|other| write!(f, "\n{other:?}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_prints_the_sentence_of_each_error() {
        let error = |what: &str| UserError::new(what, "it does not exist", "create it");
        let joined = UserError::join(["cannot serve a", "cannot serve b"].map(error)).unwrap();
        assert_eq!(
            format!("{joined:?}"),
            "cannot serve a: it does not exist; create it\ncannot serve b: it does not exist; create it"
        );
        assert_eq!(
            joined.to_string(),
            "cannot serve a: it does not exist; create it (the first of 2 errors)"
        );
        // As `main` prints it.
        let boxed: Box<dyn Error> = error("cannot serve a").into();
        assert_eq!(format!("{boxed:?}"), "cannot serve a: it does not exist; create it");
    }
}
