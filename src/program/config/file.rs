//! Parses a configuration file, TOML 1.1, into sections and options.
//!
//! Checks names and types. The range and the meaning of a value are up to its option.

use super::{ConfigError, ConfigSection, Opt, SECTIONS, ValueKind, environment, include, synonyms};
use crate::{
    RulePosition,
    base::error::{UserError, reason},
};
use std::{
    env, fmt,
    fs::{File, Metadata},
    io::{self, Read},
    ops::Range,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};
use tarpon_site::printable::{Printable, is_invisible};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A configuration file, with the files that it includes. Their bytes count on: those of each file begin one behind the end of the file
/// before, so that a position tells the file too.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
    /// The files that it includes, and those that these include, in the order in which they count. They have no files of their own here.
    pub(super) included: Vec<ConfigFile>,
    /// The errors of includes.
    pub(super) include_errors: Vec<ConfigError>,
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
    /// The valid values.
    pub(super) values: Vec<GivenValue>,
    /// The bytes of its name.
    pub(super) span: Range<usize>,
}

/// A value of a file.
#[derive(Clone, Debug)]
pub(super) struct GivenValue {
    /// In the form of the command line.
    pub(super) text: String,
    /// As the file has it, if parts of it are from the environment. Output shows these never.
    pub(super) source: Option<String>,
    /// Its bytes.
    pub(super) span: Range<usize>,
}

impl ConfigFile {
    /// Returns a configuration of one file with this path and content. Reads no other file: an `include` in it has no effect.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> ConfigFile {
        ConfigFile { path: path.into(), text: text.into(), included: Vec::new(), include_errors: Vec::new() }
    }

    /// Reads a file, and the files that it includes. [`read`](super::read()) reports the errors of these.
    ///
    /// # Errors
    /// The file is unreadable or not UTF-8.
    pub fn open(path: impl Into<PathBuf>) -> Result<ConfigFile, UserError> {
        let path = path.into();
        match read(&path, LEN_MAX, false) {
            Ok(text) => {
                let mut file = ConfigFile::new(path, text);
                include::load(&mut file);
                Ok(file)
            }
            Err(error) => {
                let (why, hint) = unreadable(&error);
                Err(UserError::new(format_args!("cannot read {}", path.printable()), why, hint))
            }
        }
    }

    /// Returns all files, each with the position of its first byte.
    fn files(&self) -> impl Iterator<Item = (usize, &ConfigFile)> {
        [self].into_iter().chain(&self.included).scan(0, |start, file| {
            let this = *start;
            *start += file.text.len() + 1;
            Some((this, file))
        })
    }

    /// Returns the number of bytes of all files, with one between two of them.
    pub(super) fn len(&self) -> usize {
        self.files().last().map_or(0, |(start, file)| start + file.text.len())
    }

    /// Returns the number of the file that contains a byte, that file, and the offset in it.
    pub(super) fn find(&self, at: usize) -> (usize, &ConfigFile, usize) {
        let files = self.files().enumerate().take_while(|(_, (start, _))| *start <= at);
        let (number, (start, file)) = files.last().expect("the first file starts at 0");
        (number, file, at - start)
    }

    /// Returns the paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files().map(|(_, file)| &*file.path)
    }

    /// Returns the directory where relative paths start that are written at a byte.
    pub(super) fn base(&self, at: usize) -> &Path {
        self.find(at).1.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns the position of a byte, for errors that are found later.
    pub(super) fn position(&self, at: usize) -> RulePosition {
        let (number, file, at) = self.find(at);
        let line_at = file.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let column = file.text[line_at..at].chars().count() + 1;
        RulePosition { file: number as u32, line: file.line(at) as u32, column: column as u32 }
    }

    /// Returns the number of the line that contains a byte, within its file. Lines start at 1.
    pub(super) fn line(&self, at: usize) -> usize {
        let (_, file, at) = self.find(at);
        file.text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
    }
}

/// Returns why a file cannot be read, and a hint.
pub(super) fn unreadable(error: &io::Error) -> (String, &'static str) {
    match error.kind() {
        io::ErrorKind::InvalidData => ("it is not UTF-8".to_owned(), "save it as UTF-8"),
        io::ErrorKind::InvalidInput => {
            ("it is not a regular file".to_owned(), "save it as a file: a reload reads it again")
        }
        io::ErrorKind::FileTooLarge => {
            (format!("the configuration is larger than {LEN_MAX} bytes"), "name a configuration file")
        }
        _ if error.get_ref().is_some_and(|error| error.is::<Untrusted>()) => (
            error.to_string(),
            "let root or the user of tarpon own it, and remove the rights of others, as with chmod go-w",
        ),
        _ => (reason(error), "name an existing, readable file, as in --config tarpon.toml"),
    }
}

/// The longest configuration, all files together: some 100,000 sites.
pub(super) const LEN_MAX: usize = 16 << 20;

/// Reads a regular file of at most `len_max` bytes. The supervisor reads it while it serves, so it must not wait for the writer of a
/// pipe. `trusted`: refuses a file that other users can change.
pub(super) fn read(path: &Path, len_max: usize, trusted: bool) -> io::Result<String> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if trusted {
        trusted_file(path, &meta)?;
    }
    let mut text = String::new();
    match file.take(len_max as u64 + 1).read_to_string(&mut text)? > len_max {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// Checks that only root and the user of this process can change a file: both own it and its directory, and the modes let no other user
/// write. Otherwise another user could choose what this process serves.
///
/// # Errors
/// [`Untrusted`], if another user can; or the directory cannot be read.
pub(super) fn trusted_file(path: &Path, file: &Metadata) -> io::Result<()> {
    let dir_of = |path: &Path| match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.metadata(),
        _ => Path::new(".").metadata(),
    };
    // Of a link, its own directory counts and that of its target.
    let (dir, target_dir) = (dir_of(path)?, dir_of(&path.canonicalize()?)?);
    for (what, meta) in [("it", file), ("its directory", &dir), ("its directory", &target_dir)] {
        let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
        if owner != 0 && owner != user {
            return Err(io::Error::other(Untrusted { what, problem: "belongs to another user" }));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(io::Error::other(Untrusted { what, problem: "can be changed by other users" }));
        }
    }
    Ok(())
}

/// A file that other users can change.
#[derive(Debug)]
pub(super) struct Untrusted {
    what: &'static str,
    problem: &'static str,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.problem)
    }
}

impl std::error::Error for Untrusted {}

/// Parses all files as far as possible. Returns their sections in order, and adds their errors to `errors`.
pub(super) fn parse(file: &ConfigFile, errors: &mut Vec<ConfigError>) -> Vec<ConfigTable> {
    let mut tables: Vec<ConfigTable> = Vec::new();
    for (start, file) in file.files() {
        let mut found = Vec::new();
        for mut table in parse_one(file, &mut found) {
            table.shift(start);
            let is_second = |earlier: &ConfigTable| {
                !table.section.is_many() && earlier.section.name == table.section.name
            };
            if tables.iter().any(is_second) {
                let header = table.section.header();
                let what = format!("another file has {header} already");
                let hint = format!("write {header} in one file");
                errors.push(ConfigError::at(table.span.clone(), what, "expected it once", hint));
            }
            tables.push(table);
        }
        errors.extend(found.into_iter().map(|error| error.shifted(start)));
    }
    errors.extend(file.include_errors.iter().cloned());
    tables
}

/// Parses one file. Positions count from its start.
fn parse_one(file: &ConfigFile, errors: &mut Vec<ConfigError>) -> Vec<ConfigTable> {
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

impl ConfigTable {
    /// Adds the start of its file to all positions.
    fn shift(&mut self, by: usize) {
        let shift = |span: &mut Range<usize>| *span = span.start + by..span.end + by;
        shift(&mut self.span);
        for given in &mut self.given {
            shift(&mut given.span);
            given.values.iter_mut().for_each(|value| shift(&mut value.span));
        }
        self.nested.iter_mut().for_each(|table| table.shift(by));
    }
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
                None if key.get_ref() == include::NAME => self.include(value),
                None => self.unknown(key, None),
            }
        }
        tables.sort_by_key(|table| table.span.start);
        tables
    }

    /// Checks the type of `include`; its files have been read.
    fn include(&mut self, value: &Spanned<DeValue<'_>>) {
        let is_text = |value: &Spanned<DeValue<'_>>| matches!(value.get_ref(), DeValue::String(_));
        let (span, found) = match value.get_ref() {
            DeValue::Array(values) => match values.iter().find(|value| !is_text(value)) {
                Some(value) => (value.span(), value.get_ref()),
                None => return,
            },
            other => (value.span(), other),
        };
        let (found, hint) =
            (format!("`{}` is {}", include::NAME, type_name(found)), "as in include = [\"sites/*.toml\"]");
        self.errors.push(ConfigError::at(span, found, "expected a list of paths", hint));
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

    fn values(&mut self, option: &'static Opt, value: &Spanned<DeValue<'_>>) -> Vec<GivenValue> {
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
        all.into_iter().filter_map(|value| self.value(option, value)).collect()
    }

    fn value(&mut self, option: &'static Opt, value: &Spanned<DeValue<'_>>) -> Option<GivenValue> {
        let (mut written, mut source) = (cli_value(option, value.get_ref()), None);
        if let (DeValue::String(_), Some(text)) = (value.get_ref(), &written) {
            match environment::expand(text, &|name| env::var(name)) {
                Ok(None) => {}
                Ok(Some(expanded)) => {
                    source = expanded.is_from_environment.then(|| text.clone());
                    written = Some(expanded.text);
                }
                Err((found, hint)) => {
                    let found = format!("`{}` {found}", option.name);
                    self.errors.push(ConfigError::at(
                        value.span(),
                        found,
                        "expected a variable of the environment",
                        hint,
                    ));
                    return None;
                }
            }
        }
        let (found, expected) = match written {
            Some(text) => match option.error_for(text.as_ref()) {
                None => return Some(GivenValue { text, source, span: value.span() }),
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
        let near = nearest(name, known.into_iter());
        let other_section =
            SECTIONS.into_iter().find(|section| section.options.iter().any(|option| option.name == name));
        let other_header = SECTIONS.into_iter().find(|section| section.own_name() == name);
        let hint = if let Some(other) = other_header {
            format!("write it as {}", other.header())
        } else if name == "tls" && section.is_some_and(|section| section.name == "listener") {
            "write it in front of the address, as in address = \"tls:0.0.0.0:443\"".to_owned()
        } else if name == include::NAME {
            "write it above all sections".to_owned()
        } else if let Some(option) = Opt::renamed(name) {
            format!("it is now called `{}`", option.name)
        } else if let Some(advice) = synonyms::advice(name) {
            advice.to_owned()
        } else if let Some(other) = other_section {
            format!("it is an option of {}: move it there", other.header())
        } else if let Some(near) = near {
            format!("did you mean `{near}`?")
        } else {
            "run tarpon manual tarpon.toml for the list".to_owned()
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
pub(crate) fn toml_value(option: &Opt, value: &str) -> String {
    match option.kind {
        ValueKind::Flag(_) | ValueKind::Count(..) => value.to_owned(),
        _ => quoted(value),
    }
}

/// Formats a basic string: <https://toml.io/en/v1.0.0#string>.
pub(super) fn quoted(text: &str) -> String {
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

/// Returns the name that is most like one that does not exist.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = known.map(|known| (strsim::jaro(name, known), known));
    let near = near.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// The similarity from which clap suggests a name.
const SIMILARITY_MIN: f64 = 0.7;
