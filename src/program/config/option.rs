//! An option: all there is to know of it.

use super::{Config, time};
use crate::base::size;
use crate::{Address, LogTarget};
use std::{
    ffi::OsStr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

/// A section of the file, and the options that stand in it.
#[derive(Debug)]
pub struct ConfigSection {
    /// As in `[server]` or `[[site]]`.
    pub name: &'static str,
    /// How many there are at least, said or not, and at most.
    pub count: RangeInclusive<usize>,
    /// What it is about, as a sentence without its full stop.
    pub help: &'static str,
    /// The option of which each value on the command line makes a section of its own; all together take the place of those
    /// in the file. Flags of the others hold in every section.
    pub key: Option<&'static str>,
    /// Its options, in the order in which users read of them.
    pub options: &'static [Opt],
    /// Makes room for one more, where the options then set their values.
    pub begin: fn(&mut Config),
}

/// An option, whoever says it.
#[derive(Debug)]
pub struct Opt {
    /// In the file, and on the command line behind two dashes.
    pub name: &'static str,
    /// Its name in an earlier version, in the file and on the command line: the error for it names the one of today. Empty: none.
    pub former_name: &'static str,
    /// How it is said on the command line.
    pub flag: FlagForm,
    /// Where it may stand on the command line; nowhere: it is for the file alone.
    pub on: &'static [CommandKind],
    /// The title of the part of the help that it is in.
    pub heading: &'static str,
    /// What stands for the value in the help.
    pub value_name: &'static str,
    /// What its value may be, and what becomes of it.
    pub kind: ValueKind,
    /// Whether there may be several values.
    pub many: bool,
    /// Whether a section of the file is of no use without it.
    pub required: bool,
    /// What holds where nobody says anything.
    pub default: OptionDefault,
    /// A value as somebody might want it. Empty: the default, or for a flag that it is on.
    pub example: &'static str,
    /// Values that are refused, of a kind that has no range.
    pub refused: &'static [&'static str],
    /// What it does, as a sentence without its full stop.
    pub help: &'static str,
}

/// What the rows of the tables leave out.
pub(super) const OPT: Opt = Opt {
    name: "",
    former_name: "",
    flag: FlagForm::Long,
    on: &[],
    heading: "",
    value_name: "",
    kind: ValueKind::Flag(|_, _| ()),
    many: false,
    required: false,
    default: OptionDefault::Nothing,
    example: "",
    refused: &[],
    help: "",
};

/// What says that something is to be nowhere. A file of that name is `./off`.
pub(super) const OFF: &str = "off";

/// How an option is said on the command line.
#[derive(Clone, Copy, Debug)]
pub enum FlagForm {
    /// By its name, behind two dashes.
    Long,
    /// By its name, or by this character behind one dash.
    Short(char),
    /// By another name, or by this character behind one dash.
    Named(&'static str, char),
    /// By its place, without a name.
    Place,
}

/// What reads a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// `tarpon serve`
    Serve,
    /// `tarpon pack`
    Pack,
    /// `tarpon inspect` and `tarpon verify`
    Inspect,
    /// A program that carries its site.
    Carrier,
}

/// What holds where nobody says anything.
#[derive(Clone, Copy, Debug)]
pub enum OptionDefault {
    /// Nothing: the option is off, or its list is empty.
    Nothing,
    /// This value.
    Value(&'static str),
    /// What is worked out then, in words.
    Words(&'static str),
}

/// What a value may be, and what it sets.
#[derive(Clone, Debug)]
pub enum ValueKind {
    /// On or off.
    Flag(fn(&mut Config, bool)),
    /// A time within a range.
    Time(RangeInclusive<Duration>, fn(&mut Config, Duration)),
    /// So many of what is named, within a range.
    Count(RangeInclusive<u32>, &'static str, fn(&mut Config, u32)),
    /// So many bytes within a range, and what they are counted by, as in `a second`, or nothing.
    Size(RangeInclusive<u64>, &'static str, fn(&mut Config, u64)),
    /// One of a few words.
    Word(WordList),
    /// A path; one that a file says begins where the file is.
    Path(fn(&mut Config, PathBuf)),
    /// A path within something, where it begins.
    Inner(fn(&mut Config, PathBuf)),
    /// An address to listen at.
    Address(fn(&mut Config, Address)),
    /// The same, or `off`: at none.
    AddressOrOff(fn(&mut Config, Option<Address>)),
    /// Where a log goes. `None`: nowhere.
    Target(fn(&mut Config, Option<LogTarget>)),
    /// Text of a form: the first function writes it at its best, or says what was expected.
    Text(fn(&str) -> Result<String, String>, fn(&mut Config, String)),
}

/// Words, and what each of them sets.
pub type WordList = &'static [(&'static str, fn(&mut Config))];

impl ConfigSection {
    /// Whether there may be several: `[[site]]`, not `[site]`.
    pub fn is_many(&self) -> bool {
        *self.count.end() > 1
    }

    /// As it stands in a file.
    pub fn head(&self) -> String {
        if self.is_many() { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }
}

impl Opt {
    /// Its name on the command line, without dashes.
    pub fn flag_name(&self) -> &'static str {
        match self.flag {
            FlagForm::Named(name, _) => name,
            FlagForm::Long | FlagForm::Short(_) | FlagForm::Place => self.name,
        }
    }

    /// As a user says it on the command line, without a value, where it is not to be as by default.
    pub fn flag_words(&self) -> String {
        match self.flag {
            FlagForm::Place => self.value_name.to_owned(),
            _ if self.is_on_unsaid() => format!("--no-{}", self.flag_name()),
            _ => format!("--{}", self.flag_name()),
        }
    }

    /// Whether it is on or off, and on where nobody says anything.
    pub fn is_on_unsaid(&self) -> bool {
        matches!((&self.kind, self.default), (ValueKind::Flag(_), OptionDefault::Value("true")))
    }

    /// Returns the option that had this name in an earlier version.
    pub fn renamed(former_name: &str) -> Option<&'static Opt> {
        let mut options = super::SECTIONS.into_iter().flat_map(|section| section.options);
        options.find(|option| !former_name.is_empty() && option.former_name == former_name)
    }

    /// Whether it can be said to a program.
    pub fn is_on(&self, program: CommandKind) -> bool {
        self.on.contains(&program)
    }

    /// A value as somebody might want it.
    pub fn example(&self) -> &'static str {
        match (self.example, self.default) {
            ("", OptionDefault::Value(value)) => value,
            ("", _) => "true",
            (example, _) => example,
        }
    }

    /// Whether a value will do.
    ///
    /// # Errors
    /// It will not: what was expected, with an example.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        match self.refusal(value) {
            None => Ok(()),
            Some(expected) => Err(format!("{expected}, such as {}", self.example())),
        }
    }

    /// What was expected of a value that will not do.
    pub(super) fn refusal(&self, value: &OsStr) -> Option<String> {
        let mut scratch = Config::default();
        for section in super::SECTIONS {
            (section.begin)(&mut scratch);
        }
        self.kind.set(value, Path::new(""), &mut scratch).err()
    }
}

impl ValueKind {
    /// Sets the value; a path begins at `base`. Returns it as it is written at its best.
    ///
    /// # Errors
    /// It is none of this kind, or out of range: what was expected.
    pub(super) fn set(&self, value: &OsStr, base: &Path, config: &mut Config) -> Result<String, String> {
        let refused = || self.expected();
        if let ValueKind::Path(set) | ValueKind::Inner(set) = self {
            if value.is_empty() {
                return Err(refused());
            }
            let path = if let ValueKind::Path(_) = self { base.join(value) } else { value.into() };
            let text = path.to_string_lossy().into_owned();
            set(config, path);
            return Ok(text);
        }
        let value = value.to_str().ok_or_else(refused)?;
        match self {
            ValueKind::Flag(set) => set(config, value.parse().map_err(|_| refused())?),
            ValueKind::Time(range, set) => {
                let time = time::parse(value).filter(|time| range.contains(time)).ok_or_else(refused)?;
                set(config, time);
                return Ok(time::say(time));
            }
            ValueKind::Count(range, _, set) => {
                let count = value.parse().ok().filter(|count| range.contains(count)).ok_or_else(refused)?;
                set(config, count);
                return Ok(count.to_string());
            }
            ValueKind::Size(range, _, set) => {
                let len = size::parse(value).filter(|len| range.contains(len)).ok_or_else(refused)?;
                set(config, len);
                return Ok(size::format(len));
            }
            ValueKind::Word(words) => {
                let (_, set) = words.iter().find(|(word, _)| *word == value).ok_or_else(refused)?;
                set(config);
            }
            ValueKind::AddressOrOff(set) if value == OFF => set(config, None),
            ValueKind::Address(_) | ValueKind::AddressOrOff(_) => {
                let address = match value.parse().map_err(|_| refused())? {
                    Address::Unix(path) => Address::Unix(base.join(path)),
                    address @ Address::Tcp(_) => address,
                };
                let text = match &address {
                    Address::Unix(path) => format!("unix:{}", path.to_string_lossy()),
                    Address::Tcp(_) => address.to_string(),
                };
                match self {
                    ValueKind::Address(set) => set(config, address),
                    ValueKind::AddressOrOff(set) => set(config, Some(address)),
                    _ => unreachable!("matched above"),
                }
                return Ok(text);
            }
            ValueKind::Target(set) if value == OFF => set(config, None),
            ValueKind::Target(set) => {
                let target = match value.parse().map_err(|_| refused())? {
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
            ValueKind::Text(form, set) => {
                let text = form(value)?;
                set(config, text.clone());
                return Ok(text);
            }
            ValueKind::Path(_) | ValueKind::Inner(_) => unreachable!("set above"),
        }
        Ok(value.to_owned())
    }

    /// What was expected of a value that is refused.
    pub fn expected(&self) -> String {
        match (self, self.range()) {
            (ValueKind::Word(_), _) => format!("expected one of {}", self.words()),
            (ValueKind::Time(..), Some((min, max))) => format!("expected a time from {min} to {max}"),
            (ValueKind::Size(..), Some((min, max))) => format!("expected a size from {min} to {max}"),
            (_, Some((min, max))) => format!("expected a number from {min} to {max}"),
            (_, None) => format!("expected {}", self.words()),
        }
    }

    /// What values there are.
    pub fn words(&self) -> String {
        match self {
            ValueKind::Flag(_) => "true or false".to_owned(),
            ValueKind::Word(words) => words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
            ValueKind::Path(_) | ValueKind::Inner(_) => "a path".to_owned(),
            ValueKind::Address(_) => "an address and a port, or unix:PATH".to_owned(),
            ValueKind::AddressOrOff(_) => format!("an address and a port, unix:PATH, or {OFF}"),
            ValueKind::Target(_) => format!("a path, -, unix:PATH, or {OFF}"),
            ValueKind::Text(..) => "text".to_owned(),
            ValueKind::Time(..) | ValueKind::Count(..) | ValueKind::Size(..) => {
                let (min, max) = self.range().expect("of a kind that has one");
                match self {
                    ValueKind::Count(_, unit, _) => format!("{min} to {max} {unit}"),
                    ValueKind::Size(_, unit, _) => format!("{min} to {max} {unit}").trim_end().to_owned(),
                    _ => format!("{min} to {max}"),
                }
            }
        }
    }

    /// The least and the greatest value, of a kind that has them.
    pub fn range(&self) -> Option<(String, String)> {
        match self {
            ValueKind::Time(range, _) => Some((time::say(*range.start()), time::say(*range.end()))),
            ValueKind::Count(range, ..) => Some((range.start().to_string(), range.end().to_string())),
            ValueKind::Size(range, ..) => Some((size::format(*range.start()), size::format(*range.end()))),
            _ => None,
        }
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
    fn each_option_takes_the_ends_of_its_range_and_nothing_beyond() {
        for option in all() {
            let (taken, refused): (Vec<String>, Vec<String>) = match &option.kind {
                ValueKind::Flag(_) => (vec!["true".into(), "false".into()], vec!["yes".into(), "1".into()]),
                ValueKind::Time(range, _) => {
                    let (min, max) = (*range.start(), *range.end());
                    let beyond = [min / 2, max + Duration::from_millis(1)];
                    (vec![time::say(min), time::say(max)], beyond.map(time::say).into())
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
                ValueKind::Word(words) => {
                    (words.iter().map(|(word, _)| (*word).to_owned()).collect(), vec!["another".into()])
                }
                ValueKind::Path(_) | ValueKind::Inner(_) => (vec!["a b/ü".into()], vec![]),
                ValueKind::Address(_)
                | ValueKind::AddressOrOff(_)
                | ValueKind::Target(_)
                | ValueKind::Text(..) => {
                    assert!(!option.refused.is_empty(), "{} refuses nothing", option.name);
                    (vec![], option.refused.iter().map(|value| (*value).to_owned()).collect())
                }
            };
            let default = if let OptionDefault::Value(value) = option.default { Some(value) } else { None };
            let taken = taken.iter().map(|value| &**value).chain([option.example()]).chain(default);
            for value in taken {
                assert_eq!(option.check(value.as_ref()), Ok(()), "{} {value}", option.name);
            }
            for value in refused.iter().map(|value| &**value).chain(["\0"; 1]) {
                let Err(message) = option.check(value.as_ref()) else {
                    assert!(
                        matches!(option.kind, ValueKind::Path(_) | ValueKind::Inner(_)),
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
    fn a_value_is_written_as_it_is_read() {
        for option in all() {
            let mut scratch = Config::default();
            for section in SECTIONS {
                (section.begin)(&mut scratch);
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
    fn each_option_is_told_and_no_name_is_taken_twice() {
        let mut flags = BTreeSet::from(["help", "version", "config"]);
        for section in SECTIONS {
            let mut names = BTreeSet::new();
            for option in section.options {
                let name = option.name;
                assert!(names.insert(name), "{name} is twice in {}", section.head());
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
                assert!(option.help.starts_with(char::is_uppercase) && !option.help.ends_with('.'), "{name}");
                assert_eq!(option.value_name.is_empty(), matches!(option.kind, ValueKind::Flag(_)), "{name}");
                assert!(option.on.is_empty() || flags.insert(option.flag_name()), "--{}", option.flag_name());
            }
        }
    }

    #[test]
    fn nothing_said_is_what_the_library_does_by_itself() {
        let config = read(None, &CliFlags::default(), CommandKind::Serve)
            .expect("nothing is wrong with nothing")
            .config;
        assert_eq!(format!("{:?}", config.server.settings), format!("{:?}", Settings::default()));
        let [site] = &config.sites[..] else { panic!("one site") };
        let source = crate::SiteSource { path: ".".into(), ..crate::SiteSource::default() };
        assert_eq!(format!("{:?}", site.source), format!("{source:?}"));
        assert!(config.listeners.is_empty());
    }
}
