//! What is wrong with a configuration, where, and what to do: as compilers say it.
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

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The bytes of the file that it is about. `None`: a flag, or no place at all.
    at: Option<Range<usize>>,
    /// What was found.
    found: String,
    /// What was expected in its place.
    expected: String,
    /// What to do about it.
    remedy: String,
}

/// All that is wrong, in the order of the file.
#[derive(Clone, Debug)]
pub struct ConfigErrors {
    file: Option<ConfigFile>,
    list: Vec<ConfigError>,
}

impl ConfigError {
    pub(super) fn at(
        at: Range<usize>,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ConfigError {
        ConfigError { at: Some(at), ..ConfigError::nowhere(found, expected, remedy) }
    }

    pub(super) fn nowhere(
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ConfigError {
        // Names and values of a file may stand in each of them.
        let [found, expected, remedy] =
            [found.into(), expected.into(), remedy.into()].map(|text| shown(text.trim_end()));
        ConfigError { at: None, found, expected, remedy }
    }

    /// The byte of the file where it begins.
    pub(super) fn start(&self) -> Option<usize> {
        self.at.as_ref().map(|at| at.start)
    }
}

impl ConfigErrors {
    pub(super) fn new(file: Option<&ConfigFile>, mut list: Vec<ConfigError>) -> ConfigErrors {
        list.sort_by_key(ConfigError::start);
        ConfigErrors { file: file.cloned(), list }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The file they are in.
    pub fn path(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(|file| &file.path)
    }

    /// A line for each: `7:1: what was found; what was expected; what to do`, with line and column, the first ones being
    /// 1. Columns count characters.
    pub fn lines(&self) -> Vec<String> {
        let line = |ConfigError { at, found, expected, remedy }: &ConfigError| {
            let place = self.file.as_ref().zip(at.as_ref()).map(|(file, at)| SourceLine::of(file, at.start));
            let place = place.map(|line| format!("{}:{}: ", line.number, line.column)).unwrap_or_default();
            format!("{place}{found}; {expected}; {remedy}")
        };
        self.list.iter().map(line).collect()
    }

    /// The same text with colours.
    pub fn coloured(&self) -> impl fmt::Display {
        StyledErrors { faults: self, styles: COLOURED }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        StyledErrors { faults: self, styles: PLAIN }.fmt(f)
    }
}

impl Error for ConfigErrors {}

/// The line of a file that a byte is in.
struct SourceLine<'a> {
    number: usize,
    column: usize,
    /// Where it begins.
    start: usize,
    text: &'a str,
}

impl SourceLine<'_> {
    fn of(file: &ConfigFile, at: usize) -> SourceLine<'_> {
        // A fault may lie behind the last byte.
        let at = at.min(file.text.len());
        let start = file.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let text = file.text[start..].lines().next().unwrap_or_default();
        let column = file.text[start..at].chars().count() + 1;
        SourceLine { number: file.line(at), column, start, text }
    }
}

struct StyledErrors<'a> {
    faults: &'a ConfigErrors,
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
        for (number, fault) in self.faults.list.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            self.fault(fault, f)?;
        }
        Ok(())
    }
}

impl StyledErrors<'_> {
    fn fault(&self, fault: &ConfigError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { at, found, expected, remedy } = fault;
        let Styles { error, strong, frame } = self.styles;
        writeln!(f, "{error}error{error:#}{strong}: {found}{strong:#}")?;
        let Some((file, at)) = self.faults.file.as_ref().zip(at.as_ref()) else {
            return writeln!(f, "  {frame}={frame:#} {expected}: {remedy}");
        };
        let SourceLine { number, column, start, text } = SourceLine::of(file, at.start);
        let margin = " ".repeat(number.to_string().len());
        // To the end of the line at most, and something in any case.
        let end = at.end.min(start + text.len());
        // An escape is wider than what it stands for.
        let width_of = |place| file.text.get(place).map_or(0, |text| shown(text).chars().count());
        let (indent, carets) =
            (" ".repeat(width_of(start..at.start)), "^".repeat(width_of(at.start..end).max(1)));
        writeln!(f, "{margin}{frame}-->{frame:#} {}:{number}:{column}", file.path.printable())?;
        writeln!(f, "{margin} {frame}|{frame:#}")?;
        let source = shown(text.trim_end());
        let gap = if source.is_empty() { "" } else { " " };
        writeln!(f, "{frame}{number} |{frame:#}{gap}{source}")?;
        writeln!(f, "{margin} {frame}|{frame:#} {indent}{error}{carets} {expected}{error:#}")?;
        writeln!(f, "{margin} {frame}={frame:#} {remedy}")
    }
}

/// Returns text in one line, with escapes for what a reader would not see. A backslash stays one: the text may be a part of the
/// file, or hold names that are escaped already.
fn shown(text: &str) -> String {
    let mut line = String::new();
    let _ = write_escaped(text.replace('\t', " ").as_bytes(), is_invisible, &mut line);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn a_fault_is_shown_in_its_line() {
        let tabs = "a\n\tüb = \u{1b}[31m1\r\nc";
        let bidi = "\u{202e}ü = 1";
        let cases: &[(&str, &str, Option<Range<usize>>, &str)] = &[
            // what it shows     the file   place             how it is shown
            ("the first",        "a = 1\n", Some(0..1),       "error: F\n --> x/t.toml:1:1\n  |\n1 | a = 1\n  | ^ E\n  = R\n"),
            ("the middle",       "a = 1\n", Some(4..5),       "error: F\n --> x/t.toml:1:5\n  |\n1 | a = 1\n  |     ^ E\n  = R\n"),
            ("characters",       tabs,      Some(3..6),       "error: F\n --> x/t.toml:2:2\n  |\n2 |  üb = \\x1b[31m1\n  |  ^^ E\n  = R\n"),
            ("behind an escape", bidi,      Some(3..5),       "error: F\n --> x/t.toml:1:2\n  |\n1 | \\u{202e}ü = 1\n  |         ^ E\n  = R\n"),
            ("several lines",    "a = [\n1]", Some(4..8),     "error: F\n --> x/t.toml:1:5\n  |\n1 | a = [\n  |     ^ E\n  = R\n"),
            ("the end",          "a =",     Some(3..3),       "error: F\n --> x/t.toml:1:4\n  |\n1 | a =\n  |    ^ E\n  = R\n"),
            ("beyond the end",   "",        Some(9..10),      "error: F\n --> x/t.toml:1:1\n  |\n1 |\n  | ^ E\n  = R\n"),
            ("far down",         &"\n".repeat(9), Some(9..9), "error: F\n  --> x/t.toml:10:1\n   |\n10 |\n   | ^ E\n   = R\n"),
            ("nowhere",          "a = 1\n", None,             "error: F\n  = E: R\n"),
        ];
        for (name, text, at, want) in cases {
            let file = ConfigFile { path: "x/t.toml".into(), text: (*text).to_owned() };
            let fault = ConfigError { at: at.clone(), ..ConfigError::nowhere("F", "E", "R") };
            let faults = ConfigErrors::new(Some(&file), vec![fault]);
            assert_eq!(faults.to_string(), *want, "{name}");
            let coloured = faults.coloured().to_string();
            assert!(coloured.contains("\u{1b}[") && anstream::adapter::strip_str(&coloured).to_string() == *want, "{name}");
        }
    }
}
