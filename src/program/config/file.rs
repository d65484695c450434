//! Parses a configuration file, TOML 1.1, into sections and options.
//!
//! Checks names and types. The range and the meaning of a value are up to its option.

use super::{ConfigError, ConfigSection, Opt, SECTIONS, ValueKind};
use crate::{
    RulePosition,
    base::error::{UserError, reason},
};
use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::OpenOptionsExt,
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
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// A section of a file.
#[derive(Debug)]
pub(super) struct ConfigTable {
    pub(super) section: &'static ConfigSection,
    /// The bytes of its header.
    pub(super) span: Range<usize>,
    pub(super) given: Vec<GivenOption>,
    /// The sections that belong to it, in the order of the file.
    pub(super) nested: Vec<ConfigTable>,
}

/// An option of a file.
#[derive(Debug)]
pub(super) struct GivenOption {
    pub(super) option: &'static Opt,
    /// The valid values in the form of the command line, each with its position.
    pub(super) values: Vec<(String, Range<usize>)>,
    /// The bytes of its name.
    pub(super) span: Range<usize>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is unreadable or not UTF-8.
    pub fn open(path: impl Into<PathBuf>) -> Result<ConfigFile, UserError> {
        let path = path.into();
        match read(&path) {
            Ok(text) => Ok(ConfigFile { path, text }),
            Err(error) => {
                let (why, hint) = match error.kind() {
                    io::ErrorKind::InvalidData => ("it is not UTF-8".to_owned(), "save it as UTF-8"),
                    io::ErrorKind::InvalidInput => {
                        ("it is not a regular file".to_owned(), "save it as a file: a reload reads it again")
                    }
                    io::ErrorKind::FileTooLarge => {
                        (format!("it is larger than {LEN_MAX} bytes"), "name a configuration file")
                    }
                    _ => (reason(&error), "name an existing, readable file, as in --config tarpon.toml"),
                };
                Err(UserError::new(format_args!("cannot read {}", path.printable()), why, hint))
            }
        }
    }

    /// Returns the directory where relative paths start.
    pub(super) fn base(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns the position of a byte, for errors that are found later.
    pub(super) fn position(&self, at: usize) -> RulePosition {
        let line_at = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let column = self.text[line_at..at].chars().count() + 1;
        RulePosition { file: 0, line: self.line(at) as u32, column: column as u32 }
    }

    /// Returns the number of the line that contains a byte. Lines start at 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
    }
}

/// The longest configuration: some 100,000 sites.
const LEN_MAX: u64 = 16 << 20;

/// Reads a regular file. The supervisor reads it while it serves, so it must not wait for the writer of a pipe.
fn read(path: &Path) -> io::Result<String> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    match file.take(LEN_MAX + 1).read_to_string(&mut text)? as u64 > LEN_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Parses a file as far as possible. Returns its sections in order, and adds its errors to `errors`.
pub(super) fn parse(file: &ConfigFile, errors: &mut Vec<ConfigError>) -> Vec<ConfigTable> {
    let (root, syntax_errors) = DeTable::parse_recoverable(&file.text);
    let syntax: Vec<_> = syntax_errors
        .iter()
        .map(|error| {
            let span = error.span().unwrap_or_default();
            ConfigError::at(span, "this is not TOML", error.message(), "see https://toml.io for the syntax")
        })
        .collect();
    let mut reader = FileReader { text: &file.text, errors: Vec::new() };
    let tables = reader.root(root.get_ref());
    let found = reader.errors;
    // Further errors in a line with a syntax error are not reliable, nor are those below a broken header.
    let lines: Vec<_> = syntax.iter().filter_map(ConfigError::start).map(|at| file.line(at)).collect();
    let is_header = |line: &&usize| {
        file.text.lines().nth(**line - 1).is_some_and(|line| line.trim_start().starts_with('['))
    };
    let broken = lines.iter().find(is_header).copied().unwrap_or(usize::MAX);
    let is_reliable = |error: &ConfigError| {
        error.start().map(|at| file.line(at)).is_none_or(|line| line < broken && !lines.contains(&line))
    };
    errors.extend(syntax);
    errors.extend(found.into_iter().filter(is_reliable));
    tables
}

/// Walks through the parsed TOML.
struct FileReader<'a> {
    text: &'a str,
    errors: Vec<ConfigError>,
}

impl FileReader<'_> {
    /// Returns the sections of a file, in its order.
    fn root(&mut self, root: &DeTable<'_>) -> Vec<ConfigTable> {
        let mut tables = Vec::new();
        for (key, value) in root {
            match ConfigSection::within(None).find(|section| section.name == key.get_ref()) {
                Some(section) => self.sections(section, key, value, &mut tables),
                None => self.unknown(key, None),
            }
        }
        tables.sort_by_key(|table| table.span.start);
        tables
    }

    /// Reads all sections of one kind: those of the file, or those that belong to one other section.
    fn sections(
        &mut self,
        section: &'static ConfigSection,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        to: &mut Vec<ConfigTable>,
    ) {
        match (value.get_ref(), section.is_many()) {
            (DeValue::Table(table), false) => to.push(self.table(section, value.span(), table)),
            (DeValue::Array(tables), true) => {
                for table in tables.iter() {
                    match table.get_ref() {
                        DeValue::Table(found) => to.push(self.table(section, table.span(), found)),
                        other => self.wrong_type(section, table.span(), other),
                    }
                }
            }
            (other, _) => self.wrong_type(section, key.span(), other),
        }
    }

    fn table(
        &mut self,
        section: &'static ConfigSection,
        span: Range<usize>,
        table: &DeTable<'_>,
    ) -> ConfigTable {
        let (mut given, mut nested) = (Vec::new(), Vec::new());
        for (key, value) in table {
            let name = key.get_ref();
            let mut inner = ConfigSection::within(Some(section.name));
            if let Some(option) = section.options.iter().find(|option| option.name == name) {
                given.push(GivenOption { option, values: self.values(option, value), span: key.span() });
            } else if let Some(inner) = inner.find(|inner| inner.own_name() == name) {
                self.sections(inner, key, value, &mut nested);
            } else {
                self.unknown(key, Some(section));
            }
        }
        given.sort_by_key(|given| given.span.start);
        nested.sort_by_key(|table| table.span.start);
        ConfigTable { section, span, given, nested }
    }

    fn values(&mut self, option: &'static Opt, value: &Spanned<DeValue<'_>>) -> Vec<(String, Range<usize>)> {
        let all = match value.get_ref() {
            DeValue::Array(values) if option.is_list => values.iter().collect(),
            other if option.is_list => {
                let found = format!("`{}` is {}", option.name, type_name(other));
                self.errors.push(ConfigError::at(
                    value.span(),
                    found,
                    "expected a list",
                    toml_example(option),
                ));
                return Vec::new();
            }
            _ => vec![value],
        };
        all.into_iter().filter_map(|value| Some((self.value(option, value)?, value.span()))).collect()
    }

    fn value(&mut self, option: &'static Opt, value: &Spanned<DeValue<'_>>) -> Option<String> {
        let (found, expected) = match cli_value(option, value.get_ref()) {
            Some(text) => match option.error_for(text.as_ref()) {
                None => return Some(text),
                Some(expected) => {
                    let written = self.text.get(value.span()).unwrap_or(&text);
                    (format!("`{}` cannot be {written}", option.name), expected)
                }
            },
            None => (format!("`{}` is {}", option.name, type_name(value.get_ref())), option.kind.expected()),
        };
        self.errors.push(ConfigError::at(value.span(), found, expected, toml_example(option)));
        None
    }

    fn unknown(&mut self, key: &Spanned<impl AsRef<str>>, section: Option<&'static ConfigSection>) {
        let name = key.get_ref().as_ref();
        let known: Vec<&str> = match section {
            Some(section) => {
                let nested = ConfigSection::within(Some(section.name)).map(ConfigSection::own_name);
                section.options.iter().map(|option| option.name).chain(nested).collect()
            }
            None => ConfigSection::within(None).map(|section| section.name).collect(),
        };
        let near = known.iter().map(|known| (strsim::jaro(name, known), *known));
        let near =
            near.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN).max_by(|a, b| a.0.total_cmp(&b.0));
        let other_section =
            SECTIONS.into_iter().find(|section| section.options.iter().any(|option| option.name == name));
        let other_header = SECTIONS.into_iter().find(|section| section.own_name() == name);
        let hint = match (near, other_section, section) {
            _ if let Some(other) = other_header => format!("write it as {}", other.header()),
            _ if let Some(option) = Opt::renamed(name) => format!("it is now called `{}`", option.name),
            (_, Some(other), _) => format!("it is an option of {}: move it there", other.header()),
            (Some((_, near)), ..) => format!("did you mean `{near}`?"),
            (None, ..) => "run tarpon manual tarpon.toml for the list".to_owned(),
        };
        let (found, expected) = match section {
            Some(section) => (
                format!("unknown option `{}`", name.printable()),
                format!("expected an option of {}", section.header()),
            ),
            None => {
                let headers: Vec<_> = ConfigSection::within(None).map(ConfigSection::header).collect();
                (
                    format!("unknown section `{}`", name.printable()),
                    format!("expected {}", headers.join(", ")),
                )
            }
        };
        self.errors.push(ConfigError::at(key.span(), found, expected, hint));
    }

    fn wrong_type(&mut self, section: &ConfigSection, span: Range<usize>, found: &DeValue<'_>) {
        let header = section.header();
        let found = format!("`{}` is {}", section.own_name(), type_name(found));
        let hint = match section.is_many() {
            true => format!("begin each {} with {header}", section.own_name()),
            false => format!("write {header} once, above its options"),
        };
        self.errors.push(ConfigError::at(span, found, format!("expected {header}"), hint));
    }
}

/// Converts a value to the form of the command line. `None`: the option takes no value of this type.
fn cli_value(option: &Opt, value: &DeValue<'_>) -> Option<String> {
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

/// Returns an example of an option in a file.
pub(super) fn toml_example(option: &Opt) -> String {
    let value = toml_value(option, option.example());
    match option.is_list {
        true => format!("as in {} = [{value}]", option.name),
        false => format!("as in {} = {value}", option.name),
    }
}

/// Formats a value as TOML.
pub(super) fn toml_value(option: &Opt, value: &str) -> String {
    match option.kind {
        ValueKind::Flag(_) | ValueKind::Count(..) => value.to_owned(),
        _ => quoted(value),
    }
}

/// Formats a basic string: <https://toml.io/en/v1.0.0#string>.
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

/// Returns the name of a value's type, with its article.
fn type_name(value: &DeValue<'_>) -> &'static str {
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

/// The similarity from which clap suggests a name.
const SIMILARITY_MIN: f64 = 0.7;
