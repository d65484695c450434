//! What a configuration file says, by sections and options: TOML 1.1.
//!
//! Knows names and types. What a value means, and how far it may go, its option says.

use super::{ConfigError, ConfigSection, Opt, SECTIONS, ValueKind};
use crate::base::error::{UserError, reason};
use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};
use tarpon_site::printable::{Printable, is_invisible};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A configuration file.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// A section as it stands in a file.
#[derive(Debug)]
pub(super) struct ConfigTable {
    pub(super) section: &'static ConfigSection,
    /// Its head.
    pub(super) at: Range<usize>,
    pub(super) given: Vec<GivenOption>,
}

/// An option as it stands in a file.
#[derive(Debug)]
pub(super) struct GivenOption {
    pub(super) option: &'static Opt,
    /// Each that will do, as it would be given on the command line, and where it stands.
    pub(super) values: Vec<(String, Range<usize>)>,
    /// Its name.
    pub(super) at: Range<usize>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no text.
    pub fn open(path: impl Into<PathBuf>) -> Result<ConfigFile, UserError> {
        let path = path.into();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(ConfigFile { path, text }),
            Err(error) => {
                let (why, remedy) = match error.kind() {
                    io::ErrorKind::InvalidData => ("it is not UTF-8".to_owned(), "save it as UTF-8"),
                    _ => (
                        reason(&error),
                        "name a file that exists and may be read, as in --config tarpon.toml",
                    ),
                };
                Err(UserError::new(format_args!("cannot read {}", path.printable()), why, remedy))
            }
        }
    }

    /// Where its paths begin.
    pub(super) fn base(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The line of a byte, the first one being 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
    }
}

/// What a file says, in its order, as far as it can be understood.
pub(super) fn tables(file: &ConfigFile, faults: &mut Vec<ConfigError>) -> Vec<ConfigTable> {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    let syntax: Vec<_> = errors
        .iter()
        .map(|error| {
            let at = error.span().unwrap_or_default();
            ConfigError::at(at, "this is not TOML", error.message(), "see https://toml.io for its form")
        })
        .collect();
    let mut reader = FileReader { text: &file.text, tables: Vec::new(), faults: Vec::new() };
    reader.root(root.get_ref());
    let FileReader { mut tables, faults: found, .. } = reader;
    tables.sort_by_key(|table| table.at.start);
    // What else is found in a line that was not understood is not to be trusted, nor what stands below a head that was not.
    let lines: Vec<_> = syntax.iter().filter_map(ConfigError::start).map(|at| file.line(at)).collect();
    let is_head = |line: &&usize| {
        file.text.lines().nth(**line - 1).is_some_and(|line| line.trim_start().starts_with('['))
    };
    let lost = lines.iter().find(is_head).copied().unwrap_or(usize::MAX);
    let is_sound = |fault: &ConfigError| {
        fault.start().map(|at| file.line(at)).is_none_or(|line| line < lost && !lines.contains(&line))
    };
    faults.extend(syntax);
    faults.extend(found.into_iter().filter(is_sound));
    tables
}

/// Goes through what was parsed.
struct FileReader<'a> {
    text: &'a str,
    tables: Vec<ConfigTable>,
    faults: Vec<ConfigError>,
}

impl FileReader<'_> {
    fn root(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            let Some(section) = SECTIONS.into_iter().find(|section| section.name == key.get_ref()) else {
                self.unknown(key, None);
                continue;
            };
            match (value.get_ref(), section.is_many()) {
                (DeValue::Table(table), false) => self.table(section, value.span(), table),
                (DeValue::Array(tables), true) => {
                    for table in tables.iter() {
                        match table.get_ref() {
                            DeValue::Table(found) => self.table(section, table.span(), found),
                            other => self.no_section(section, table.span(), other),
                        }
                    }
                }
                (other, _) => self.no_section(section, key.span(), other),
            }
        }
    }

    fn table(&mut self, section: &'static ConfigSection, at: Range<usize>, table: &DeTable<'_>) {
        let mut given = Vec::new();
        for (key, value) in table {
            match section.options.iter().find(|option| option.name == key.get_ref()) {
                Some(option) => {
                    given.push(GivenOption { option, values: self.values(option, value), at: key.span() });
                }
                None => self.unknown(key, Some(section)),
            }
        }
        given.sort_by_key(|given| given.at.start);
        self.tables.push(ConfigTable { section, at, given });
    }

    fn values(&mut self, option: &'static Opt, value: &Spanned<DeValue<'_>>) -> Vec<(String, Range<usize>)> {
        let all = match value.get_ref() {
            DeValue::Array(values) if option.many => values.iter().collect(),
            other if option.many => {
                let found = format!("`{}` is {}", option.name, noun(other));
                self.faults.push(ConfigError::at(value.span(), found, "expected a list", as_in(option)));
                return Vec::new();
            }
            _ => vec![value],
        };
        all.into_iter().filter_map(|value| Some((self.value(option, value)?, value.span()))).collect()
    }

    fn value(&mut self, option: &'static Opt, value: &Spanned<DeValue<'_>>) -> Option<String> {
        let (found, expected) = match text(option, value.get_ref()) {
            Some(text) => match option.refusal(text.as_ref()) {
                None => return Some(text),
                Some(expected) => {
                    let written = self.text.get(value.span()).unwrap_or(&text);
                    (format!("`{}` cannot be {written}", option.name), expected)
                }
            },
            None => (format!("`{}` is {}", option.name, noun(value.get_ref())), option.kind.expected()),
        };
        self.faults.push(ConfigError::at(value.span(), found, expected, as_in(option)));
        None
    }

    fn unknown(&mut self, key: &Spanned<impl AsRef<str>>, section: Option<&'static ConfigSection>) {
        let name = key.get_ref().as_ref();
        let known: Vec<&str> = match section {
            Some(section) => section.options.iter().map(|option| option.name).collect(),
            None => SECTIONS.into_iter().map(|section| section.name).collect(),
        };
        let near = known.iter().map(|known| (strsim::jaro(name, known), *known));
        let near = near.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).max_by(|a, b| a.0.total_cmp(&b.0));
        let elsewhere =
            SECTIONS.into_iter().find(|section| section.options.iter().any(|option| option.name == name));
        let remedy = match (near, elsewhere, section) {
            _ if let Some(option) = Opt::renamed(name) => format!("it is called `{}` now", option.name),
            (_, Some(other), _) => format!("it is an option of {}: move it there", other.head()),
            (Some((_, near)), ..) => format!("did you mean `{near}`?"),
            (None, ..) => "see tarpon manual tarpon.toml for all there is".to_owned(),
        };
        let (found, expected) = match section {
            Some(section) => (
                format!("unknown option `{}`", name.printable()),
                format!("expected an option of {}", section.head()),
            ),
            None => {
                let heads: Vec<_> = SECTIONS.into_iter().map(ConfigSection::head).collect();
                (format!("unknown section `{}`", name.printable()), format!("expected {}", heads.join(", ")))
            }
        };
        self.faults.push(ConfigError::at(key.span(), found, expected, remedy));
    }

    fn no_section(&mut self, section: &ConfigSection, at: Range<usize>, found: &DeValue<'_>) {
        let head = section.head();
        let found = format!("`{}` is {}", section.name, noun(found));
        let remedy = match section.is_many() {
            true => format!("write {head} above its options; there may be several"),
            false => format!("write {head} above its options; there is one"),
        };
        self.faults.push(ConfigError::at(at, found, format!("expected {head}"), remedy));
    }
}

/// A value as it would be given on the command line, if its type can be one of the option.
fn text(option: &Opt, value: &DeValue<'_>) -> Option<String> {
    match (&option.kind, value) {
        (ValueKind::Flag(_), DeValue::Boolean(on)) => Some(on.to_string()),
        (ValueKind::Time(..) | ValueKind::Count(..) | ValueKind::Size(..), DeValue::Integer(number)) => {
            let plain = i128::from_str_radix(number.as_str(), number.radix());
            Some(plain.map_or_else(|_| number.to_string(), |number| number.to_string()))
        }
        (ValueKind::Time(..), DeValue::Float(number)) => Some(number.as_str().to_owned()),
        (ValueKind::Flag(_) | ValueKind::Count(..), _) => None,
        (_, DeValue::String(text)) => Some(text.clone().into_owned()),
        _ => None,
    }
}

/// How a file says an option.
pub(super) fn as_in(option: &Opt) -> String {
    let value = written(option, option.example());
    match option.many {
        true => format!("as in {} = [{value}]", option.name),
        false => format!("as in {} = {value}", option.name),
    }
}

/// A value in the form of TOML.
pub(super) fn written(option: &Opt, value: &str) -> String {
    match option.kind {
        ValueKind::Flag(_) | ValueKind::Count(..) => value.to_owned(),
        _ => quoted(value),
    }
}

/// A basic string: <https://toml.io/en/v1.0.0#string>.
fn quoted(text: &str) -> String {
    let mut to = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => to.extend(['\\', char]),
            char if is_invisible(char) => {
                to += &match u32::from(char) {
                    code @ ..=0xffff => format!("\\u{code:04X}"),
                    code => format!("\\U{code:08X}"),
                }
            }
            char => to.push(char),
        }
    }
    to + "\""
}

fn noun(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// As alike as clap wants names to be that it suggests.
const LIKENESS_MIN: f64 = 0.7;
