//! An option: its names, values, default, help and effect.

use super::{Config, time};
use crate::base::size;
use crate::{Address, ListenAddress, ListenValue, LogTarget, PathPrefix, PathPrefixError};
use std::{
    ffi::OsStr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

/// A section of the file and its options.
#[derive(Debug)]
pub struct ConfigSection {
    /// As in `[server]` or `[[site]]`. `site.header` is a section that belongs to the `[[site]]` above it.
    pub name: &'static str,
    /// The minimum and maximum number of such sections. The reader adds missing ones up to the minimum.
    pub count: RangeInclusive<usize>,
    /// A description without a full stop.
    pub help: &'static str,
    /// The option whose values on the command line each make a section; together they replace the sections of the file. Flags of
    /// the other options apply to every section.
    pub key: Option<&'static str>,
    /// Its options, in the order of the documentation.
    pub options: &'static [Opt],
    /// Adds an empty section to the configuration; its options then set their values in it. A nested section is added to the last
    /// section of its parent.
    pub add: fn(&mut Config),
}

/// An option of the file, the command line, or both.
#[derive(Debug)]
pub struct Opt {
    /// In the file, and on the command line behind two dashes.
    pub name: &'static str,
    /// Its name in an earlier version, in the file and on the command line: the error for that name gives the current one. Empty:
    /// it was never renamed.
    pub former_name: &'static str,
    /// Its form on the command line.
    pub flag: FlagForm,
    /// The commands that accept it as a flag. Empty: only the file accepts it.
    pub commands: &'static [CommandKind],
    /// The heading above it in the help.
    pub heading: &'static str,
    /// The placeholder of the value in the help.
    pub value_name: &'static str,
    /// The type of its value, and the function that sets it.
    pub kind: ValueKind,
    /// Whether it takes a list of values.
    pub is_list: bool,
    /// Whether each section of the file must have it.
    pub required: bool,
    /// The value that applies where neither file nor flag sets one.
    pub default: OptionDefault,
    /// A typical value. Empty: the default, or `true` for a flag.
    pub example: &'static str,
    /// Values that must be rejected, for kinds without a range. Tests use them.
    pub invalid: &'static [&'static str],
    /// The effect in at most 90 characters: begins with a verb, has no full stop.
    pub help: &'static str,
    /// Further sentences for `--help`, the manual page and the reference.
    pub details: &'static str,
}

/// The values that the rows of the tables leave out.
pub(super) const OPT: Opt = Opt {
    name: "",
    former_name: "",
    flag: FlagForm::Long,
    commands: &[],
    heading: "",
    value_name: "",
    kind: ValueKind::Flag(|_, _| ()),
    is_list: false,
    required: false,
    default: OptionDefault::None,
    example: "",
    invalid: &[],
    help: "",
    details: "",
};

/// The value that disables a log or a listener. A file of that name is `./off`.
pub(super) const OFF: &str = "off";

/// The form of an option on the command line.
#[derive(Clone, Copy, Debug)]
pub enum FlagForm {
    /// Its name behind two dashes.
    Long,
    /// Its name, or this character behind one dash.
    Short(char),
    /// Another name, or this character behind one dash.
    Named(&'static str, char),
    /// A positional argument.
    Positional,
}

/// A command that reads options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// `tarpon serve`
    Serve,
    /// `tarpon pack`
    Pack,
    /// `tarpon inspect` and `tarpon verify`
    Inspect,
    /// A program with an embedded site.
    Embedded,
}

/// The value of an option that neither file nor flag sets.
#[derive(Clone, Copy, Debug)]
pub enum OptionDefault {
    /// No value: the option is off, or its list is empty.
    None,
    /// This value.
    Value(&'static str),
    /// A value that depends on the system or on other options, described in words.
    Described(&'static str),
}

/// The type of a value, with the function that sets it.
#[derive(Clone, Debug)]
pub enum ValueKind {
    /// On or off.
    Flag(fn(&mut Config, bool)),
    /// A duration within a range.
    Time(RangeInclusive<Duration>, fn(&mut Config, Duration)),
    /// A number within a range, with its unit.
    Count(RangeInclusive<u32>, &'static str, fn(&mut Config, u32)),
    /// A number of bytes within a range, with the unit behind it, such as `a second`, or nothing.
    Size(RangeInclusive<u64>, &'static str, fn(&mut Config, u64)),
    /// One of a few names.
    Choice(Choices),
    /// A path. A relative path in a file starts at the directory of the file.
    Path(fn(&mut Config, PathBuf)),
    /// A path within an archive.
    ArchivePath(fn(&mut Config, PathBuf)),
    /// A path of URIs and a directory, as in `/cgi-bin/=DIR`. A relative directory in a file starts at the directory of the file.
    MountedDirectory(fn(&mut Config, PathPrefix, PathBuf)),
    /// One or two addresses to listen on, with or without TLS.
    Listen(fn(&mut Config, ListenValue)),
    /// An address to listen on, or `off`.
    AddressOrOff(fn(&mut Config, Option<Address>)),
    /// The destination of a log. `None`: off.
    Target(fn(&mut Config, Option<LogTarget>)),
    /// Text. The first function returns its canonical form, or what was expected.
    Text(fn(&str) -> Result<String, String>, fn(&mut Config, String)),
}

/// Names, and the function that each of them calls.
pub type Choices = &'static [(&'static str, fn(&mut Config))];

impl ConfigSection {
    /// Whether a file may have several: `[[site]]`, not `[site]`.
    pub fn is_many(&self) -> bool {
        *self.count.end() > 1
    }

    /// Returns the name of the section that each section of this kind belongs to: `site` for `site.header`.
    pub fn parent(&self) -> Option<&'static str> {
        self.name.rsplit_once('.').map(|(parent, _)| parent)
    }

    /// Returns the name within the parent: `header` for `site.header`.
    pub fn own_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, own)| own)
    }

    /// Returns the sections that belong to a section, or those that belong to none.
    pub(super) fn within(parent: Option<&str>) -> impl Iterator<Item = &'static ConfigSection> {
        super::SECTIONS.into_iter().filter(move |section| section.parent() == parent)
    }

    /// Returns the header as a file has it.
    pub fn header(&self) -> String {
        if self.is_many() { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }
}

impl Opt {
    /// Returns the name on the command line, without dashes.
    pub fn flag_name(&self) -> &'static str {
        match self.flag {
            FlagForm::Named(name, _) => name,
            FlagForm::Long | FlagForm::Short(_) | FlagForm::Positional => self.name,
        }
    }

    /// Returns the flag that changes the default, without its value.
    pub fn flag_usage(&self) -> String {
        match self.flag {
            FlagForm::Positional => self.value_name.to_owned(),
            _ if self.is_on_by_default() => format!("--no-{}", self.flag_name()),
            _ => format!("--{}", self.flag_name()),
        }
    }

    /// Whether it is a flag that is on by default.
    pub fn is_on_by_default(&self) -> bool {
        matches!((&self.kind, self.default), (ValueKind::Flag(_), OptionDefault::Value("true")))
    }

    /// Returns the help and the details as sentences.
    pub fn description(&self) -> String {
        let gap = if self.details.is_empty() { "" } else { " " };
        format!("{}.{gap}{}", self.help, self.details)
    }

    /// Returns the option that had this name in an earlier version.
    pub fn renamed(former_name: &str) -> Option<&'static Opt> {
        let mut options = super::SECTIONS.into_iter().flat_map(|section| section.options);
        options.find(|option| !former_name.is_empty() && option.former_name == former_name)
    }

    /// Whether a command accepts it as a flag.
    pub fn is_accepted_by(&self, command: CommandKind) -> bool {
        self.commands.contains(&command)
    }

    /// Returns a typical value.
    pub fn example(&self) -> &'static str {
        match (self.example, self.default) {
            ("", OptionDefault::Value(value)) => value,
            ("", _) => "true",
            (example, _) => example,
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The value is invalid: what was expected, with an example.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        match self.error_for(value) {
            None => Ok(()),
            Some(expected) => Err(format!("{expected}, such as {}", self.example())),
        }
    }

    /// Returns what was expected in place of an invalid value.
    pub(super) fn error_for(&self, value: &OsStr) -> Option<String> {
        let mut scratch = Config::default();
        for section in super::SECTIONS {
            (section.add)(&mut scratch);
        }
        self.kind.set(value, Path::new(""), &mut scratch).err()
    }
}

impl ValueKind {
    /// Sets the value; a relative path starts at `base`. Returns the value in its canonical form.
    ///
    /// # Errors
    /// The value has another type or is out of range: what was expected.
    pub(super) fn set(&self, value: &OsStr, base: &Path, config: &mut Config) -> Result<String, String> {
        let expected = || self.expected();
        if let ValueKind::Path(set) | ValueKind::ArchivePath(set) = self {
            if value.is_empty() {
                return Err(expected());
            }
            let path = if let ValueKind::Path(_) = self { base.join(value) } else { value.into() };
            let text = path.to_string_lossy().into_owned();
            set(config, path);
            return Ok(text);
        }
        let value = value.to_str().ok_or_else(expected)?;
        match self {
            ValueKind::Flag(set) => set(config, value.parse().map_err(|_| expected())?),
            ValueKind::Time(range, set) => {
                let time = time::parse(value).filter(|time| range.contains(time)).ok_or_else(expected)?;
                set(config, time);
                return Ok(time::format(time));
            }
            ValueKind::Count(range, _, set) => {
                let count = value.parse().ok().filter(|count| range.contains(count)).ok_or_else(expected)?;
                set(config, count);
                return Ok(count.to_string());
            }
            ValueKind::Size(range, _, set) => {
                let len = size::parse(value).filter(|len| range.contains(len)).ok_or_else(expected)?;
                set(config, len);
                return Ok(size::format(len));
            }
            ValueKind::MountedDirectory(set) => {
                let (prefix, directory) = value.split_once('=').ok_or_else(expected)?;
                let prefix: PathPrefix =
                    prefix.parse().map_err(|error: PathPrefixError| error.to_string())?;
                if directory.is_empty() {
                    return Err(expected());
                }
                let directory = base.join(directory);
                let text = format!("{prefix}={}", directory.to_string_lossy());
                set(config, prefix, directory);
                return Ok(text);
            }
            ValueKind::Choice(choices) => {
                let (_, set) = choices.iter().find(|(name, _)| *name == value).ok_or_else(expected)?;
                set(config);
            }
            ValueKind::AddressOrOff(set) if value == OFF => set(config, None),
            ValueKind::AddressOrOff(set) => {
                let address = value.parse().map(|address| based(address, base)).map_err(|_| expected())?;
                let text = address_text(&address);
                set(config, Some(address));
                return Ok(text);
            }
            ValueKind::Listen(set) => {
                let ListenValue { address, has_tls } = value.parse()?;
                let address = match address {
                    ListenAddress::One(address) => ListenAddress::One(based(address, base)),
                    both => both,
                };
                let text = match &address {
                    ListenAddress::One(address) => address_text(address),
                    both => both.to_string(),
                };
                set(config, ListenValue { address, has_tls });
                return Ok(if has_tls { ListenValue::TLS.to_owned() + &text } else { text });
            }
            ValueKind::Target(set) if value == OFF => set(config, None),
            ValueKind::Target(set) => {
                let target = match value.parse().map_err(|_| expected())? {
                    LogTarget::File(path) => LogTarget::File(base.join(path)),
                    LogTarget::Socket(path) => LogTarget::Socket(base.join(path)),
                    LogTarget::Stdout => LogTarget::Stdout,
                };
                let text = match &target {
                    LogTarget::File(path) => path.to_string_lossy().into_owned(),
                    LogTarget::Socket(path) => format!("unix:{}", path.to_string_lossy()),
                    LogTarget::Stdout => target.to_string(),
                };
                set(config, Some(target));
                return Ok(text);
            }
            ValueKind::Text(normalize, set) => {
                let text = normalize(value)?;
                set(config, text.clone());
                return Ok(text);
            }
            ValueKind::Path(_) | ValueKind::ArchivePath(_) => unreachable!("handled above"),
        }
        Ok(value.to_owned())
    }

    /// Returns what the kind expects, for the error about an invalid value.
    pub fn expected(&self) -> String {
        match (self, self.range()) {
            (ValueKind::Choice(_), _) => format!("expected one of {}", self.allowed()),
            (ValueKind::Time(..), Some((min, max))) => format!("expected a time from {min} to {max}"),
            (ValueKind::Size(..), Some((min, max))) => format!("expected a size from {min} to {max}"),
            (_, Some((min, max))) => format!("expected a number from {min} to {max}"),
            (_, None) => format!("expected {}", self.allowed()),
        }
    }

    /// Returns the allowed values.
    pub fn allowed(&self) -> String {
        match self {
            ValueKind::Flag(_) => "true or false".to_owned(),
            ValueKind::Choice(choices) => {
                choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
            }
            ValueKind::Path(_) | ValueKind::ArchivePath(_) => "a path".to_owned(),
            ValueKind::MountedDirectory(_) => "a path and a directory with = between them".to_owned(),
            ValueKind::Listen(_) => {
                "a port, an address and a port, localhost:PORT, or unix:PATH; tls: in front means HTTPS"
                    .to_owned()
            }
            ValueKind::AddressOrOff(_) => format!("an address and a port, unix:PATH, or {OFF}"),
            ValueKind::Target(_) => format!("a path, -, unix:PATH, or {OFF}"),
            ValueKind::Text(..) => "text".to_owned(),
            ValueKind::Time(..) | ValueKind::Count(..) | ValueKind::Size(..) => {
                let (min, max) = self.range().expect("these kinds have a range");
                match self {
                    ValueKind::Count(_, unit, _) => format!("{min} to {max} {unit}").trim_end().to_owned(),
                    ValueKind::Size(_, unit, _) => format!("{min} to {max} {unit}").trim_end().to_owned(),
                    _ => format!("{min} to {max}"),
                }
            }
        }
    }

    /// Returns the minimum and the maximum, if the kind has a range.
    pub fn range(&self) -> Option<(String, String)> {
        match self {
            ValueKind::Time(range, _) => Some((time::format(*range.start()), time::format(*range.end()))),
            ValueKind::Count(range, ..) => Some((range.start().to_string(), range.end().to_string())),
            ValueKind::Size(range, ..) => Some((size::format(*range.start()), size::format(*range.end()))),
            _ => None,
        }
    }
}

/// Returns the address; a relative path of a Unix socket starts at `base`.
fn based(address: Address, base: &Path) -> Address {
    match address {
        Address::Unix(path) => Address::Unix(base.join(path)),
        Address::Tcp(_) => address,
    }
}

/// Returns an address as the text that a file has, with the bytes of its path unescaped.
fn address_text(address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("unix:{}", path.to_string_lossy()),
        Address::Tcp(_) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Settings,
        program::config::{CliFlags, SECTIONS, read},
    };
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = &'static Opt> {
        SECTIONS.into_iter().flat_map(|section| section.options)
    }

    #[test]
    fn options_accept_their_range_and_reject_values_beyond() {
        for option in all() {
            let (valid, invalid): (Vec<String>, Vec<String>) = match &option.kind {
                ValueKind::Flag(_) => (vec!["true".into(), "false".into()], vec!["yes".into(), "1".into()]),
                ValueKind::Time(range, _) => {
                    let (min, max) = (*range.start(), *range.end());
                    let beyond = [min / 2, max + Duration::from_millis(1)];
                    (vec![time::format(min), time::format(max)], beyond.map(time::format).into())
                }
                ValueKind::Count(range, ..) => {
                    let (min, max) = (i64::from(*range.start()), i64::from(*range.end()));
                    let text = |number: i64| number.to_string();
                    (
                        vec![text(min), text(max)],
                        vec![text(min - 1), text(max + 1), "1.5".into(), "many".into()],
                    )
                }
                ValueKind::Size(range, ..) => {
                    let (min, max) = (*range.start(), *range.end());
                    let below = min.checked_sub(1).map_or("-1".to_owned(), size::format);
                    (
                        vec![size::format(min), size::format(max)],
                        vec![below, size::format(max + 1), "1k".into()],
                    )
                }
                ValueKind::Choice(choices) => {
                    (choices.iter().map(|(name, _)| (*name).to_owned()).collect(), vec!["another".into()])
                }
                ValueKind::Path(_) | ValueKind::ArchivePath(_) => (vec!["a b/ü".into()], vec![]),
                ValueKind::Listen(_)
                | ValueKind::MountedDirectory(_)
                | ValueKind::AddressOrOff(_)
                | ValueKind::Target(_)
                | ValueKind::Text(..) => {
                    assert!(!option.invalid.is_empty(), "{} has no invalid examples", option.name);
                    (vec![], option.invalid.iter().map(|value| (*value).to_owned()).collect())
                }
            };
            let default = if let OptionDefault::Value(value) = option.default { Some(value) } else { None };
            let valid = valid.iter().map(|value| &**value).chain([option.example()]).chain(default);
            for value in valid {
                assert_eq!(option.check(value.as_ref()), Ok(()), "{} {value}", option.name);
            }
            for value in invalid.iter().map(|value| &**value).chain(["\0"; 1]) {
                let Err(message) = option.check(value.as_ref()) else {
                    assert!(
                        matches!(option.kind, ValueKind::Path(_) | ValueKind::ArchivePath(_)),
                        "{} {value}",
                        option.name
                    );
                    continue;
                };
                assert!(message.starts_with("expected "), "{message}");
                assert!(message.ends_with(&format!(", such as {}", option.example())), "{message}");
                if let Some((min, max)) = option.kind.range() {
                    assert!(message.contains(&format!(" from {min} to {max}")), "{message}");
                }
            }
        }
    }

    #[test]
    fn canonical_values_are_stable() {
        for option in all() {
            let mut scratch = Config::default();
            for section in SECTIONS {
                (section.add)(&mut scratch);
            }
            let mut written =
                |value: &str| option.kind.set(value.as_ref(), Path::new(""), &mut scratch).expect("a value");
            let once = written(option.example());
            assert_eq!(written(&once), once, "{}", option.name);
            if let OptionDefault::Value(value) = option.default {
                assert_eq!(written(value), value, "the default of {}", option.name);
            }
        }
    }

    #[test]
    fn option_names_are_unique_and_well_formed() {
        let mut flags = BTreeSet::from(["help", "version", "config"]);
        for section in SECTIONS {
            let mut names = BTreeSet::new();
            for option in section.options {
                let name = option.name;
                assert!(names.insert(name), "{name} occurs twice in {}", section.header());
                let mut nested = ConfigSection::within(Some(section.name));
                assert!(nested.all(|nested| nested.own_name() != name), "{name} is an option and a section");
                let is_of_name =
                    |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                assert!(name.bytes().all(is_of_name), "{name}");
                assert_eq!(option.value_name.is_empty(), matches!(option.kind, ValueKind::Flag(_)), "{name}");
                assert!(
                    option.commands.is_empty() || flags.insert(option.flag_name()),
                    "--{}",
                    option.flag_name()
                );
            }
        }
    }

    #[test]
    fn help_is_one_short_line_that_begins_with_a_verb() {
        let mut seen = BTreeSet::new();
        for Opt { name, help, details, .. } in all() {
            let first = help.split(' ').next().unwrap_or_default();
            assert!(VERBS.contains(&first), "{name}: {first} is not among the verbs");
            assert!(help.chars().count() <= 90, "{name}: {} characters", help.chars().count());
            assert!(!help.ends_with('.') && !help.contains(". "), "{name}: more than one sentence");
            assert!(details.is_empty() || details.ends_with('.'), "{name}: the details are no sentence");
            assert!(seen.insert(help), "{name}: another option has the same help");
        }
    }

    /// The verbs that the help of an option may begin with.
    #[rustfmt::skip]
    const VERBS: &[&str] = &[
        "Abort", "Accept", "Add", "Allow", "Answer", "Close", "Compress", "Count", "Exclude", "Give", "Keep", "Kill", "Leave", "Let", "Limit", "Listen", "Log", "Make", "Offer", "Open", "Override", "Pin", "Print", "Read",
        "Redirect", "Refuse", "Request", "Require", "Reset", "Restrict", "Rotate", "Run", "Select", "Send", "Serve", "Set", "Use", "Write",
    ];

    #[test]
    fn defaults_match_those_of_the_library() {
        let config = read(None, &CliFlags::default(), CommandKind::Serve).expect("defaults are valid").config;
        assert_eq!(format!("{:?}", config.server.settings), format!("{:?}", Settings::default()));
        let [site] = &config.sites[..] else { panic!("not one site") };
        // The library does what it is told; a server that is tried out compresses.
        let compression = Some(crate::BackgroundCompression::default());
        let source = crate::SiteSource { path: ".".into(), compression, ..crate::SiteSource::default() };
        assert_eq!(format!("{:?}", site.source), format!("{source:?}"));
        assert!(config.listeners.is_empty());
    }
}
