//! The errors of a configuration, each with its position and a hint, in the layout of compiler errors.
//!
//! ```text
//! error: unknown option `clean-url`
//!  --> tarpon.toml:7:1
//!   |
//! 7 | clean-url = true
//!   | ^^^^^^^^^ expected an option of [[site]]
//!   = did you mean `clean-urls`?
//! ```

use super::ConfigFile;
use anstyle::{AnsiColor, Style};
use std::{error::Error, fmt, ops::Range, path::PathBuf};
use tarpon_site::printable::{Printable, is_invisible, write_escaped};

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The bytes of the file that are wrong. `None`: the error is about a flag.
    span: Option<Range<usize>>,
    /// The problem.
    found: String,
    /// The expected content.
    expected: String,
    /// What the user can do.
    hint: String,
}

/// All errors, in the order of the file.
#[derive(Clone, Debug)]
pub struct ConfigErrors {
    file: Option<ConfigFile>,
    list: Vec<ConfigError>,
}

impl ConfigError {
    pub(super) fn at(
        span: Range<usize>,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        ConfigError { span: Some(span), ..ConfigError::new(found, expected, hint) }
    }

    pub(super) fn new(
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        // Each of them may quote names and values of the file.
        let [found, expected, hint] =
            [found.into(), expected.into(), hint.into()].map(|text| escaped(text.trim_end()));
        ConfigError { span: None, found, expected, hint }
    }

    /// Returns the error with the start of its file added to its position.
    pub(super) fn shifted(self, by: usize) -> ConfigError {
        ConfigError { span: self.span.map(|span| span.start + by..span.end + by), ..self }
    }

    /// Returns the byte of the file where the error begins.
    pub(super) fn start(&self) -> Option<usize> {
        self.span.as_ref().map(|span| span.start)
    }
}

impl ConfigErrors {
    pub(super) fn new(file: Option<&ConfigFile>, mut list: Vec<ConfigError>) -> ConfigErrors {
        list.sort_by_key(ConfigError::start);
        ConfigErrors { file: file.cloned(), list }
    }

    /// Joins the errors of checks of the same file. `None`: there are none. Several checks may find the same defect of a value: its errors are
    /// those of the first check that has any.
    pub(crate) fn join(checks: impl IntoIterator<Item = Result<(), ConfigErrors>>) -> Option<ConfigErrors> {
        let mut found = checks.into_iter().filter_map(Result::err);
        let ConfigErrors { file, mut list } = found.next()?;
        for errors in found {
            let is_new = |error: &ConfigError| list.iter().all(|known| known.span != error.span);
            let more: Vec<_> =
                errors.list.into_iter().filter(|error| error.span.is_none() || is_new(error)).collect();
            list.extend(more);
        }
        Some(ConfigErrors::new(file.as_ref(), list))
    }

    /// Adds the errors of another check of the same file.
    pub(crate) fn with(self, other: ConfigErrors) -> ConfigErrors {
        let ConfigErrors { file, list } = self;
        ConfigErrors::new(file.as_ref(), list.into_iter().chain(other.list).collect())
    }

    /// Returns each error: the byte of the file where it begins, the problem with what was expected, and the hint.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Option<usize>, String, String)> {
        self.list
            .iter()
            .map(|error| (error.start(), format!("{}; {}", error.found, error.expected), error.hint.clone()))
    }

    /// Returns the number of errors.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(|file| &file.path)
    }

    /// Returns a line for each error: `7:1: problem; expected content; hint`, with the path of the file before it if another file includes
    /// that one. Lines and columns start at 1; columns count characters.
    pub fn lines(&self) -> Vec<String> {
        let line = |ConfigError { span, found, expected, hint }: &ConfigError| {
            let position =
                self.file.as_ref().zip(span.as_ref()).map(|(file, span)| SourceLine::of(file, span.start));
            let position = position.map(|line| line.prefix()).unwrap_or_default();
            format!("{position}{found}; {expected}; {hint}")
        };
        self.list.iter().map(line).collect()
    }

    /// Returns the text of `Display` with colours.
    pub fn coloured(&self) -> impl fmt::Display {
        StyledErrors { errors: self, styles: COLOURED }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        StyledErrors { errors: self, styles: PLAIN }.fmt(f)
    }
}

impl Error for ConfigErrors {}

/// The line of a file that contains a byte.
struct SourceLine<'a> {
    file: &'a ConfigFile,
    /// Whether another file includes it.
    is_included: bool,
    number: usize,
    column: usize,
    /// The offset of its first byte in its file.
    start: usize,
    /// The offset of the position in its file.
    at: usize,
    text: &'a str,
}

impl SourceLine<'_> {
    fn of(file: &ConfigFile, at: usize) -> SourceLine<'_> {
        let (number, file, at) = file.find(at);
        let is_included = number > 0;
        // An error at the end of the file lies behind the last byte.
        let at = at.min(file.text.len());
        let start = file.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let text = file.text[start..].lines().next().unwrap_or_default();
        let column = file.text[start..at].chars().count() + 1;
        SourceLine { file, is_included, number: file.line(at), column, start, at, text }
    }

    fn prefix(&self) -> String {
        let path = if self.is_included { format!("{}:", self.file.path.printable()) } else { String::new() };
        format!("{path}{}:{}: ", self.number, self.column)
    }
}

struct StyledErrors<'a> {
    errors: &'a ConfigErrors,
    styles: Styles,
}

#[derive(Clone, Copy)]
struct Styles {
    error: Style,
    strong: Style,
    frame: Style,
}

const PLAIN: Styles = Styles { error: Style::new(), strong: Style::new(), frame: Style::new() };

const COLOURED: Styles = Styles {
    error: AnsiColor::Red.on_default().bold(),
    strong: Style::new().bold(),
    frame: AnsiColor::Cyan.on_default(),
};

impl fmt::Display for StyledErrors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, config_error) in self.errors.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            self.write(config_error, f)?;
        }
        Ok(())
    }
}

impl StyledErrors<'_> {
    fn write(&self, config_error: &ConfigError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { span, found, expected, hint } = config_error;
        let Styles { error, strong, frame } = self.styles;
        writeln!(f, "{error}error{error:#}{strong}: {found}{strong:#}")?;
        let Some((file, span)) = self.errors.file.as_ref().zip(span.as_ref()) else {
            return writeln!(f, "  {frame}={frame:#} {expected}: {hint}");
        };
        let SourceLine { file, number, column, start, at, text, .. } = SourceLine::of(file, span.start);
        let span = at..at + span.len();
        let margin = " ".repeat(number.to_string().len());
        // The marker ends with the line and has at least one caret.
        let end = span.end.min(start + text.len());
        // An escape is wider than the character that it replaces.
        let width_of = |range| file.text.get(range).map_or(0, |text| escaped(text).chars().count());
        let (indent, carets) =
            (" ".repeat(width_of(start..span.start)), "^".repeat(width_of(span.start..end).max(1)));
        writeln!(f, "{margin}{frame}-->{frame:#} {}:{number}:{column}", file.path.printable())?;
        writeln!(f, "{margin} {frame}|{frame:#}")?;
        let source = escaped(text.trim_end());
        let gap = if source.is_empty() { "" } else { " " };
        writeln!(f, "{frame}{number} |{frame:#}{gap}{source}")?;
        writeln!(f, "{margin} {frame}|{frame:#} {indent}{error}{carets} {expected}{error:#}")?;
        writeln!(f, "{margin} {frame}={frame:#} {hint}")
    }
}

/// Returns text as one line in which invisible characters are escaped. Backslashes stay: the text may quote the file, or hold names
/// that are escaped already.
fn escaped(text: &str) -> String {
    let mut line = String::new();
    let _ = write_escaped(text.replace('\t', " ").as_bytes(), is_invisible, &mut line);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn errors_mark_their_position_in_the_line() {
        let tabs = "a\n\tüb = \u{1b}[31m1\r\nc";
        let bidi = "\u{202e}ü = 1";
        let cases: &[(&str, &str, Option<Range<usize>>, &str)] = &[
            // case              the file   span              output
            ("the first",        "a = 1\n", Some(0..1),       "error: F\n --> x/t.toml:1:1\n  |\n1 | a = 1\n  | ^ E\n  = R\n"),
            ("the middle",       "a = 1\n", Some(4..5),       "error: F\n --> x/t.toml:1:5\n  |\n1 | a = 1\n  |     ^ E\n  = R\n"),
            ("characters",       tabs,      Some(3..6),       "error: F\n --> x/t.toml:2:2\n  |\n2 |  üb = \\x1b[31m1\n  |  ^^ E\n  = R\n"),
            ("behind an escape", bidi,      Some(3..5),       "error: F\n --> x/t.toml:1:2\n  |\n1 | \\u{202e}ü = 1\n  |         ^ E\n  = R\n"),
            ("several lines",    "a = [\n1]", Some(4..8),     "error: F\n --> x/t.toml:1:5\n  |\n1 | a = [\n  |     ^ E\n  = R\n"),
            ("the end",          "a =",     Some(3..3),       "error: F\n --> x/t.toml:1:4\n  |\n1 | a =\n  |    ^ E\n  = R\n"),
            ("beyond the end",   "",        Some(9..10),      "error: F\n --> x/t.toml:1:1\n  |\n1 |\n  | ^ E\n  = R\n"),
            ("far down",         &"\n".repeat(9), Some(9..9), "error: F\n  --> x/t.toml:10:1\n   |\n10 |\n   | ^ E\n   = R\n"),
            ("no position",       "a = 1\n", None,             "error: F\n  = E: R\n"),
        ];
        for (name, text, span, want) in cases {
            let file = ConfigFile::new("x/t.toml", *text);
            let error = ConfigError { span: span.clone(), ..ConfigError::new("F", "E", "R") };
            let errors = ConfigErrors::new(Some(&file), vec![error]);
            assert_eq!(errors.to_string(), *want, "{name}");
            let coloured = errors.coloured().to_string();
            assert!(coloured.contains("\u{1b}[") && anstream::adapter::strip_str(&coloured).to_string() == *want, "{name}");
        }
    }
}
