//! Merges defaults, file and flags into a configuration: a flag wins over the file, the file over the default.

use super::{
    CommandKind, Config, ConfigError, ConfigErrors, ConfigFile, ConfigSection, FlagForm, Opt, OptionDefault,
    SECTIONS, SiteConfig, conflict,
    file::{self, ConfigTable, GivenValue},
    rules,
};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    ops::Range,
    path::Path,
};
use tarpon_site::Printable;

/// The values on the command line, by the name of the flag without dashes.
#[derive(Clone, Debug, Default)]
pub struct CliFlags(pub BTreeMap<&'static str, Vec<OsString>>);

/// A configuration, and the origin of each value.
#[derive(Clone, Debug)]
pub struct ResolvedConfig {
    /// The configuration.
    pub config: Config,
    /// The value of each option in each section.
    pub entries: Vec<OptionValue>,
    /// The file, if there is one.
    pub file: Option<ConfigFile>,
}

/// The value of an option in one section.
#[derive(Clone, Debug)]
pub struct OptionValue {
    /// The section.
    pub section: &'static ConfigSection,
    /// The index of the section among those of its kind that belong to the same section. `None`: the configuration has no such section;
    /// the entry stands for the default.
    pub number: Option<usize>,
    /// The indices of the sections around it, outermost first: that of the `[[site]]` for a `[[site.header]]`.
    pub within: Vec<usize>,
    /// The option.
    pub option: &'static Opt,
    /// The values in canonical form. Empty if neither file nor flag sets any, and [`OptionDefault`] has none or describes it in words.
    pub values: Vec<String>,
    /// The origin of the values.
    pub origin: Origin,
    /// The number of the file that has the values, if one has.
    pub(super) place: Option<usize>,
    /// The range of bytes of each value in the file. Empty if the values are not from the file.
    pub(super) spans: Vec<Range<usize>>,
    /// For each value of the file: the text of the file, if the value has parts of the environment, which output must not show.
    pub(super) sources: Vec<Option<String>>,
}

/// Stands for a value that has parts of the environment.
const MASK: &str = "***";

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// This line of its file.
    File(usize),
    /// A flag. Without values: a flag of the server removed the override of this site.
    Flag,
}

impl OptionValue {
    fn new(
        section: &'static ConfigSection,
        number: Option<usize>,
        within: &[usize],
        option: &'static Opt,
    ) -> OptionValue {
        let within = within.to_vec();
        OptionValue {
            section,
            number,
            within,
            option,
            values: vec![],
            origin: Origin::Default,
            place: None,
            spans: vec![],
            sources: vec![],
        }
    }

    /// Returns the section for people: its header, and its place among several: `[[site]] 2`, `[[site.header]] 2.1`.
    pub fn section_text(&self) -> String {
        let header = self.section.header();
        let Some(number) = self.number.filter(|_| self.section.is_many()) else { return header };
        let numbers: Vec<_> =
            self.within.iter().chain([&number]).map(|number| (number + 1).to_string()).collect();
        format!("{header} {}", numbers.join("."))
    }

    /// Returns the value with the index `at` for messages. A value with parts of the environment is masked.
    pub(super) fn shown(&self, at: usize) -> &str {
        if self.source(at).is_some() { MASK } else { &self.values[at] }
    }

    /// Returns the text of the file for the value with the index `at`, if that value has parts of the environment.
    pub(super) fn source(&self, at: usize) -> Option<&str> {
        self.sources.get(at).and_then(Option::as_deref)
    }

    /// Returns the path of the file that has the values.
    pub(super) fn path_in<'f>(&self, file: Option<&'f ConfigFile>) -> Option<&'f Path> {
        file?.paths().nth(self.place?)
    }

    /// Returns an error about the value with the index `at`. It has a position if the value is from the file.
    pub(super) fn error(
        &self,
        at: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        match self.spans.get(at) {
            Some(span) => ConfigError::at(span.clone(), found, expected, hint),
            None => ConfigError::new(found, expected, hint),
        }
    }
}

/// Merges a file and flags into a configuration.
///
/// # Errors
/// All errors of the file and the flags.
pub fn read(
    file: Option<&ConfigFile>,
    flags: &CliFlags,
    command: CommandKind,
) -> Result<ResolvedConfig, ConfigErrors> {
    let mut errors = Vec::new();
    let tables = file.map(|file| file::parse(file, &mut errors)).unwrap_or_default();
    let mut reader =
        ConfigReader { file, flags, command, config: Config::default(), entries: Vec::new(), errors };
    for section in ConfigSection::within(None) {
        let tables: Vec<_> = tables.iter().filter(|table| table.section.name == section.name).collect();
        reader.sections(section, &tables, &[]);
    }
    let ConfigReader { mut config, entries, mut errors, .. } = reader;
    config.sites.iter_mut().for_each(SiteConfig::add_mount_to_base);
    conflict::find(file, &entries, &config, &mut errors);
    if let Some(file) = file {
        rules::find_errors(file, &entries, &mut config, &mut errors);
    }
    match errors.is_empty() {
        true => Ok(ResolvedConfig { config, entries, file: file.cloned() }),
        false => Err(ConfigErrors::new(file, errors)),
    }
}

struct ConfigReader<'a> {
    file: Option<&'a ConfigFile>,
    flags: &'a CliFlags,
    command: CommandKind,
    config: Config,
    entries: Vec<OptionValue>,
    errors: Vec<ConfigError>,
}

impl<'a> ConfigReader<'a> {
    /// Reads all sections of one kind. Values of its key on the command line, such as `--listen`, replace all its sections in the file.
    fn sections(&mut self, section: &'static ConfigSection, tables: &[&ConfigTable], within: &[usize]) {
        let key_option = section.options.iter().find(|option| section.key == Some(option.name));
        let (tables, count) = match key_option.and_then(|option| self.flag_values(option)) {
            Some(values) => (&[][..], values.len()),
            None => (tables, tables.len().max(*section.count.start())),
        };
        for number in 0..count {
            (section.add)(&mut self.config);
            for option in section.options {
                self.option(section, number, within, option, tables);
            }
            let nested = tables.get(number).map(|table| &table.nested[..]).unwrap_or_default();
            for inner in ConfigSection::within(Some(section.name)) {
                let tables: Vec<_> = nested.iter().filter(|table| table.section.name == inner.name).collect();
                self.sections(inner, &tables, &[within, &[number]].concat());
            }
        }
        if within.is_empty() {
            self.add_missing(section);
        }
    }

    /// Adds an entry for each option of a section that the configuration does not have anywhere, and for those that belong to it.
    fn add_missing(&mut self, section: &'static ConfigSection) {
        if !self.entries.iter().any(|entry| entry.section.name == section.name) {
            let missing = section.options.iter().map(|option| OptionValue::new(section, None, &[], option));
            self.entries.extend(missing);
        }
        ConfigSection::within(Some(section.name)).for_each(|inner| self.add_missing(inner));
    }

    /// Reads an option of one section.
    fn option(
        &mut self,
        section: &'static ConfigSection,
        number: usize,
        within: &[usize],
        option: &'static Opt,
        tables: &[&ConfigTable],
    ) {
        let table = tables.get(number);
        let given = table.and_then(|table| table.given.iter().find(|given| given.option.name == option.name));
        let mut entry = OptionValue::new(section, Some(number), within, option);
        if let Some(values) = self.flag_values(option) {
            let values = if section.key == Some(option.name) { &values[number..=number] } else { values };
            entry.origin = Origin::Flag;
            entry.values = values.iter().filter_map(|value| self.set_flag(option, value)).collect();
            if matches!(option.flag, FlagForm::Positional) && tables.len() > 1 && number == 0 {
                self.reject_for_several(section, option, tables.len());
            }
        } else if given.is_some() && section.name == "site" && self.is_overridden(option) {
            entry.origin = Origin::Flag;
        } else if let (Some(file), Some(given)) = (self.file, given) {
            entry.origin = Origin::File(file.line(given.span.start));
            entry.place = Some(file.find(given.span.start).0);
            for GivenValue { text, source, span } in &given.values {
                let set = option.kind.set(text.as_ref(), file.base(span.start), &mut self.config);
                entry.values.push(set.expect("the file reader checked the value"));
                entry.spans.push(span.clone());
                entry.sources.push(source.clone());
            }
        } else if let (true, Some(table)) = (option.required, table) {
            let found = format!("this {} has no `{}`", section.header(), option.name);
            let expected = format!("expected `{}` in it", option.name);
            self.errors.push(ConfigError::at(
                table.span.clone(),
                found,
                expected,
                file::toml_example(option),
            ));
        } else if let OptionDefault::Value(value) = option.default {
            let set = option.kind.set(value.as_ref(), Path::new(""), &mut self.config);
            entry.values.push(set.expect("defaults are valid"));
        }
        self.entries.push(entry);
    }

    /// Sets a value of the command line, or adds an error. The parser of the command line has rejected most invalid values already.
    fn set_flag(&mut self, option: &Opt, value: &OsStr) -> Option<String> {
        match option.kind.set(value, Path::new(""), &mut self.config) {
            Ok(value) => Some(value),
            Err(expected) => {
                let found = format!("{} cannot be {}", option.flag_usage(), value.printable());
                let hint = format!("such as {}", option.example());
                self.errors.push(ConfigError::new(found, expected, hint));
                None
            }
        }
    }

    /// Adds an error: a positional argument cannot apply to several sections.
    fn reject_for_several(&mut self, section: &ConfigSection, option: &Opt, count: usize) {
        let (argument, section) = (option.value_name, section.name);
        let found = format!("the argument {argument} is for one {section}, but the file has {count}");
        let expected = format!("expected `{}` in the file only", option.name);
        self.errors.push(ConfigError::new(found, expected, format!("leave out {argument}")));
    }

    /// Returns whether a flag sets an option of this name in any section: a flag for a limit of the server replaces the limits that sites
    /// have in the file. The caller asks for options of sites only: those of upstreams and of parts of a site share no more than their
    /// names with flags.
    fn is_overridden(&self, option: &Opt) -> bool {
        let mut options = SECTIONS.into_iter().flat_map(|section| section.options);
        options.any(|other| other.name == option.name && self.flag_values(other).is_some())
    }

    /// Returns the values of an option on the command line. `None`: no flag sets it, or the command does not accept the option.
    fn flag_values(&self, option: &Opt) -> Option<&'a [OsString]> {
        let values = self.flags.0.get(option.flag_name()).filter(|_| option.is_accepted_by(self.command))?;
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, ListenAddress};
    use std::time::Duration;

    #[test]
    #[rustfmt::skip]
    fn every_error_of_a_file_is_reported_with_its_position() {
        let cases: &[(&str, &str, &[&str])] = &[
            // case                    file                                              errors
            ("nothing",                "",                                               &[]),
            ("not TOML",               "[server]\nworkers = \n",
                &["2:11: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for the syntax"]),
            ("no quotes",              "[server]\nengine = epoll",
                &["2:10: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for the syntax"]),
            ("duplicate key",            "[server]\ncpu-affinity = true\ncpu-affinity = false",
                &["3:1: this is not TOML; duplicate key; see https://toml.io for the syntax"]),
            ("two syntax errors",     "[server]\ncpu-affinity = yes\nworkers = 0\ngrace-period = 1s",
                &["2:16: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for the syntax",
                  "3:11: `workers` cannot be 0; expected a number from 1 to 1024; as in workers = 4",
                  "4:16: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for the syntax"]),
            ("below a bad header",     "[server\ncpu-affinity = true",
                &["1:8: this is not TOML; unclosed table, expected `]`; see https://toml.io for the syntax"]),
            ("unknown section",        "[sever]\ncpu-affinity = true",
                &["1:2: unknown section `sever`; expected SECTIONS; did you mean `server`?"]),
            ("far from any",           "[x]",
                &["1:2: unknown section `x`; expected SECTIONS; run tarpon manual tarpon.toml for the list"]),
            ("no section",             "workers = 3",
                &["1:1: unknown section `workers`; expected SECTIONS; it is an option of [server]: move it there"]),
            ("unknown option",         "[server]\nheader_timeout = 3",
                &["2:1: unknown option `header_timeout`; expected an option of [server]; did you mean `header-timeout`?"]),
            ("of another section",     "[server]\nspa = true",
                &["2:1: unknown option `spa`; expected an option of [server]; it is an option of [[site]]: move it there"]),
            ("of another server",      "[[site]]\nroot = \"public\"\npath = \".\"",
                &["2:1: unknown option `root`; expected an option of [[site]]; the directory or archive of a site is `path` in [[site]]"]),
            ("like none",              "[[listener]]\naddress = \"[::1]:80\"\nqqq = 1",
                &["3:1: unknown option `qqq`; expected an option of [[listener]]; run tarpon manual tarpon.toml for the list"]),
            ("one of several",         "[site]\npath = \".\"",
                &["1:2: `site` is a table; expected [[site]]; begin each site with [[site]]"]),
            ("several of one",         "[[server]]\ncpu-affinity = true",
                &["1:3: `server` is a list; expected [server]; write [server] once, above its options"]),
            ("no table at all",        "server = 3\nsite = [1]",
                &["1:1: `server` is a whole number; expected [server]; write [server] once, above its options",
                  "2:9: `site` is a whole number; expected [[site]]; begin each site with [[site]]"]),
            ("text for a number",      "[server]\nworkers = \"3\"",
                &["2:11: `workers` is text; expected a number from 1 to 1024; as in workers = 4"]),
            ("beyond the range",       "[server]\nworkers = 0x401",
                &["2:11: `workers` cannot be 0x401; expected a number from 1 to 1024; as in workers = 4"]),
            ("below the range",        "[server]\nworkers = -1\nkeepalive-requests = 0",
                &["2:11: `workers` cannot be -1; expected a number from 1 to 1024; as in workers = 4",
                  "3:22: `keepalive-requests` cannot be 0; expected a number from 1 to 4294967295; as in keepalive-requests = 1000"]),
            ("a number for a word",    "[[site]]\npath = \".\"\nrules = 3",
                &["3:9: `rules` is a whole number; expected one of netlify, cloudflare, off; as in rules = \"netlify\""]),
            ("another word",           "[[site]]\npath = \".\"\nrules = \"apache\"",
                &["3:9: `rules` cannot be \"apache\"; expected one of netlify, cloudflare, off; as in rules = \"netlify\""]),
            ("text for a flag",        "[server]\ncpu-affinity = \"true\"",
                &["2:16: `cpu-affinity` is text; expected true or false; as in cpu-affinity = true"]),
            ("no time",                "[server]\ngrace-period = \"soon\"\nheader-timeout = 0\nidle-timeout = 1979-05-27\nsend-timeout = nan",
                &["2:16: `grace-period` cannot be \"soon\"; expected a time from 1ms to 1d; as in grace-period = \"1m30s\"",
                  "3:18: `header-timeout` cannot be 0; expected a time from 1ms to 1d; as in header-timeout = \"1m30s\"",
                  "4:16: `idle-timeout` is a date; expected a time from 1ms to 1d; as in idle-timeout = \"1m30s\"",
                  "5:16: `send-timeout` cannot be nan; expected a time from 1ms to 1d; as in send-timeout = \"1m30s\""]),
            ("no size",                "[server]\nmin-send-rate = \"1k\"",
                &["2:17: `min-send-rate` cannot be \"1k\"; expected a size from 0 to 1GiB; as in min-send-rate = \"4KiB\""]),
            ("no list",                "[[site]]\npath = \".\"\nhosts = \"example.org\"",
                &["3:9: `hosts` is text; expected a list; as in hosts = [\"example.org\"]"]),
            ("no text in it",          "[[site]]\npath = \".\"\ncors = [\"/a\", 3, \"b\"]",
                &["3:15: `cors` is a whole number; expected text; as in cors = [\"/fonts\"]",
                  "3:18: `cors` cannot be \"b\"; expected a path that begins with /; as in cors = [\"/fonts\"]"]),
            ("no host",                "[[site]]\npath = \".\"\nhosts = [\"http://a/\"]",
                &["3:10: `hosts` cannot be \"http://a/\"; expected a host, such as example.org, *.example.org or 192.0.2.7; as in hosts = [\"example.org\"]"]),
            ("no port",                "[[listener]]\naddress = \"localhost\"",
                &["2:11: `address` cannot be \"localhost\"; expected a port, an address and a port, localhost:PORT, or unix:PATH; as in address = \"127.0.0.1:8080\""]),
            ("a port without quotes",  "[[listener]]\naddress = 8080",
                &["2:11: `address` is a whole number; expected a port, an address and a port, localhost:PORT, or unix:PATH; tls: in front means HTTPS; as in address = \"127.0.0.1:8080\""]),
            ("a name as address",      "[[listener]]\naddress = \"example.org:80\"",
                &["2:11: `address` cannot be \"example.org:80\"; expected an address of this host in place of a name: hosts in [[site]] selects sites by name; as in address = \"127.0.0.1:8080\""]),
            ("what it needs",          "[[listener]]\n\n[[site]]\nspa = true",
                &["1:1: this [[listener]] has no `address`; expected `address` in it; as in address = \"127.0.0.1:8080\"",
                  "3:1: this [[site]] has no `path`; expected `path` in it; as in path = \"public\""]),
            ("what controls a terminal", "[server]\n\"\\u001b[31m\" = 1\ngrace-period = \"\"\"\n\t1\n\"\"\"",
                &["2:1: unknown option `\\x1b[31m`; expected an option of [server]; run tarpon manual tarpon.toml for the list",
                  "3:16: `grace-period` cannot be \"\"\"\\n 1\\n\"\"\"; expected a time from 1ms to 1d; as in grace-period = \"1m30s\""]),
            ("an empty path",          "[[site]]\npath = \"\"",
                &["2:8: `path` cannot be \"\"; expected a path; as in path = \"public\""]),
            ("a former name",          "[server]\nhead-timeout = 5\n[[site]]\npath = \".\"\naliases = [\"a.org\"]",
                &["2:1: unknown option `head-timeout`; expected an option of [server]; it is now called `header-timeout`",
                  "5:1: unknown option `aliases`; expected an option of [[site]]; it is now called `redirect-hosts`"]),
            ("behind what is wide",    "[[site]] # ü\npath = \".\"\n\"bücher\" = { path = 1 }",
                &["3:1: unknown option `bücher`; expected an option of [[site]]; run tarpon manual tarpon.toml for the list"]),
            ("an address twice",       "[[listener]]\naddress = \"[::1]:80\"\n[[listener]]\naddress = \"[0::1]:80\"",
                &["4:11: listener [::1]:80 occurs twice; line 2 has it already; remove one of them"]),
            ("admin and listener",    "[[site]]\npath = \"a\"\n[[listener]]\naddress = \"[::1]:80\"\n[server]\nadmin = \"[::1]:80\"",
                &["6:9: admin [::1]:80 is also a listener; expected an address of its own; use another port, as in admin = \"127.0.0.1:9000\", a Unix socket, or off"]),
            ("one of two twice",       "[[listener]]\naddress = \":80\"\n[[listener]]\naddress = \"[::]:80\"",
                &["4:11: listener [::]:80 occurs twice; line 2 has it already; remove one of them"]),
            ("admin and one of two",   "[[site]]\npath = \"a\"\n[[listener]]\naddress = \"localhost:80\"\n[server]\nadmin = \"[::1]:80\"",
                &["6:9: admin [::1]:80 is also a listener; expected an address of its own; use another port, as in admin = \"127.0.0.1:9000\", a Unix socket, or off"]),
            ("a free port twice",      "[[listener]]\naddress = \"[::1]:0\"\n[[listener]]\naddress = \"[::1]:0\"", &[]),
            ("a host twice",           "[[site]]\npath = \"a\"\nhosts = [\"a.org\", \"A.org.\"]\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\nredirect-hosts = [\"a.org\"]",
                &["3:19: host a.org occurs twice; line 3 has it already; remove one of them",
                  "7:19: host a.org occurs twice; line 3 has it already; remove one of them"]),
            ("two defaults",           "[[site]]\npath = \"a\"\ndefault = true\n[[site]]\npath = \"b\"\ndefault = true",
                &["6:11: another site is the default already; expected one default site; keep `default` in one site"]),
            ("no host, no default",    "[[site]]\npath = \"a\"\nhosts = [\"a.org\"]\n[[site]]\npath = \"b\"",
                &["5:8: no request reaches this site: it has no `hosts` and is not the default; expected `hosts` beside it; add `hosts`, or default = true"]),
            ("no host, others refused", "[server]\nrefuse-unknown-hosts = true\n[[site]]\npath = \"a\"",
                &["4:8: no request reaches this site: it has no `hosts` and is not the default; expected `hosts` beside it; add `hosts`, or default = true"]),
            ("no host, but the first", "[[site]]\npath = \"a\"\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]", &[]),
            ("a default, others refused", "[server]\nrefuse-unknown-hosts = true\n[[site]]\npath = \"a\"\nhosts = [\"a.org\"]\ndefault = true",
                &["6:11: this site is the default, but refuse-unknown-hosts refuses what it would answer; expected one of the two; remove default or refuse-unknown-hosts"]),
            ("nested, none above",     "[[site.header]]\npath = \"/*\"",
                &["1:3: `site` is a table; expected [[site]]; begin each site with [[site]]"]),
            ("nested, one of several", "[[site]]\npath = \"a\"\n[site.header]\npath = \"/*\"",
                &["3:7: `header` is a table; expected [[site.header]]; begin each header with [[site.header]]"]),
            ("nested, no table",       "[[site]]\npath = \"a\"\nheader = [3]",
                &["3:11: `header` is a whole number; expected [[site.header]]; begin each header with [[site.header]]"]),
            ("without its parent",     "[[header]]\npath = \"/*\"",
                &["1:3: unknown section `header`; expected SECTIONS; write it as [[site.header]]"]),
            ("a section of the file",  "[[site]]\npath = \"a\"\n[site.log]\ndebug = true",
                &["3:7: unknown option `log`; expected an option of [[site]]; write it as [log]"]),
            ("nested, unknown option", "[[site]]\npath = \"a\"\n[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nforced = true",
                &["6:1: unknown option `forced`; expected an option of [[site.redirect]]; did you mean `force`?"]),
            ("nested, of another",     "[[site]]\npath = \"a\"\nforce = true",
                &["3:1: unknown option `force`; expected an option of [[site]]; it is an option of [[site.redirect]]: move it there"]),
            ("nested, what it needs",  "[[site]]\npath = \"a\"\n[[site.header]]\nset = [\"X-A: b\"]\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\n[[site.redirect]]\nstatus = 302",
                &["3:1: this [[site.header]] has no `path`; expected `path` in it; as in path = \"/assets/*\"",
                  "8:1: this [[site.redirect]] has no `from`; expected `from` in it; as in from = \"/news/*\"",
                  "8:1: this [[site.redirect]] has no `to`; expected `to` in it; as in to = \"/blog/:splat\""]),
            ("rules",                  "[[site]]\npath = \"a\"\n[[site.header]]\npath = \"/a/*/*\"\n[[site.header]]\npath = \"/*\"\nset = [\"X-A: b\", \"Content-Length: 3\"]\n[[site.redirect]]\nfrom = \"/a\"\nto = \"/:b\"\nstatus = 418",
                &["4:8: the path has more than one *; expected a rule as in _headers; use placeholders before the last *, as in /:a/*",
                  "7:18: rules cannot set this header: the server sets it; expected a rule as in _headers; remove it",
                  "10:6: rules cannot have this status; expected a rule as in _redirects; use 301, 302, 303, 307 or 308 to redirect, or 200, 403, 404, 410, 451, 500 or 503 to send a page"]),
            ("rules of a dialect",     "[[site]]\npath = \"a\"\nrules = \"cloudflare\"\n[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nforce = true",
                &["6:6: ! needs --rules netlify; with --rules cloudflare every rule comes before files; expected a rule as in _redirects; remove it"]),
            ("parts of a site",        "[[site]]\npath = \"a\"\nindex = [\"a/b\"]\n[[site.location]]\nlistings = 1\n[[site.error-page]]\nstatus = 200\npath = \"a\"",
                &["3:10: `index` cannot be \"a/b\"; expected the name of a file; as in index = [\"index.html\"]",
                  "4:1: this [[site.location]] has no `path`; expected `path` in it; as in path = \"/downloads/*\"",
                  "5:12: `listings` is a whole number; expected true or false; as in listings = true",
                  "7:10: `status` cannot be 200; expected a number from 400 to 599; as in status = 404",
                  "8:8: `path` cannot be \"a\"; expected a path that begins with /; as in path = \"/missing.html\""]),
            ("the log of a part",      "[[site]]\npath = \"a\"\n[[site.location]]\npath = \"/a/*\"\naccess-log = \"a.log\"\n[[site.location]]\npath = \"/b\"\naccess-log = false\n[[site.location]]\npath = \"/*/*\"\naccess-log = \"on\"",
                &["5:14: `access-log` cannot be \"a.log\"; expected one of on, off; as in access-log = \"off\"",
                  "8:14: `access-log` is true or false; expected one of on, off; as in access-log = \"off\"",
                  "10:8: the path has more than one *; expected a rule as in _headers; use placeholders before the last *, as in /:a/*"]),
            ("patterns of parts",      "[[site]]\npath = \"a\"\n[[site.location]]\npath = \"/*/*\"\n[[site.location]]\npath = \"/\"\ncache = \"a\\nb\"\n[[site.error-page]]\nstatus = 410\npath = \"/a\"",
                &["4:8: the path has more than one *; expected a rule as in _headers; use placeholders before the last *, as in /:a/*",
                  "7:9: the text has a control character or is not UTF-8; expected a rule as in _headers; write the file as UTF-8",
                  "10:8: the server has no page of its own for this status; expected an error page; use 400, 401, 403 to 405, 408, 411 to 414, 416, 417, 421, 429, 431 or 500 to 505; for another status write a redirect with it"]),
            ("limits of paths",        "[[site]]\npath = \"a\"\n[[site.limit]]\npath = \"/a/*\"\nrequest-rate = \"10\"\n[[site.limit]]\npath = \"/b\"\nrequest-burst = 0",
                &["4:8: `path` cannot be \"/a/*\"; expected a path without *, which stands for all paths below it; as in path = \"/login\"",
                  "5:16: `request-rate` cannot be \"10\"; expected a number of requests and s, m or h, up to 10000 in a second, or off; as in request-rate = \"30/m\"",
                  "8:17: `request-burst` cannot be 0; expected a number from 1 to 1000000; as in request-burst = 5"]),
            ("bursts without a rate",  "[[site]]\npath = \"a\"\n[[site.limit]]\nrequest-rate = \"off\"\nrequest-burst = 5\n[server]\nrequest-burst = 5",
                &["5:17: `request-burst` has no rate; expected `request-rate` beside it; add request-rate, as in request-rate = \"10/s\", or remove request-burst",
                  "7:17: `request-burst` has no rate; expected `request-rate` beside it; add request-rate, as in request-rate = \"10/s\", or remove request-burst"]),
            ("a rate too slow",        "[[site]]\npath = \"a\"\n[[site.limit]]\npath = \"/a\"\nmax-send-rate = 0\n[[site.limit]]\npath = \"/b\"\nmax-send-rate = 999\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\nmin-send-rate = 499\n[[site.limit]]\nmax-send-rate = 998",
                &["8:17: a client must receive at least 500 bytes per second, min-send-rate; expected twice as much, so that no client is cut off; raise max-send-rate, or lower min-send-rate of the site"]),
            ("a burst of two days",    "[server]\nrequest-rate = \"1/h\"\nrequest-burst = 48",
                &["3:17: the requests of a burst are those of more than a day; expected fewer; lower request-burst, or raise request-rate"]),
            ("allowed and denied",     "[[site]]\npath = \"a\"\n[[site.limit]]\nallow = [\"10.0.0.0/8\", \"::1\"]\ndeny = [\"::1\", \"10.0.0.1/8\"]\n[server]\ndeny = [\"all\"]\nallow = [\"unix\"]",
                &["5:9: ::1 is allowed and denied; line 4 has it already; remove it from one of both lists",
                  "5:16: `deny` cannot be \"10.0.0.1/8\"; expected the first address of the network, 10.0.0.0/8; as in deny = [\"192.0.2.0/24\"]"]),
            ("the same in both",       "[server]\nallow = [\"10.0.0.0/8\", \"::1\"]\ndeny = [\"::0001\"]",
                &["3:9: ::1 is allowed and denied; line 2 has it already; remove it from one of both lists"]),
            ("limits twice",           "[[site]]\npath = \"a\"\n[[site.limit]]\npath = \"/a\"\nrequest-rate = \"1/s\"\n[[site.limit]]\npath = \"/a/\"\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\n[[site.limit]]\npath = \"/a\"",
                &["7:8: the limits of /a occur twice; line 4 has it already; merge the two sections"]),
            ("proxies for nothing",    "[server]\ntrusted-proxies = [\"10.0.0.0/8\"]",
                &["2:20: nothing reads what the trusted proxies send; expected `client-address-from` beside it; add client-address-from = \"x-forwarded-for\" or \"forwarded\", whichever header your proxies set"]),
            ("a header of no proxy",   "[server]\ntrusted-proxies = []\nclient-address-from = \"forwarded\"",
                &["3:23: this header is never read, as no proxy is trusted to send it; expected `trusted-proxies` in [server]; add the addresses of your proxies, as in trusted-proxies = [\"10.0.0.0/8\", \"unix\"]"]),
            ("PROXY headers of none",  "[[listener]]\naddress = \"[::1]:80\"\nproxy-protocol = true",
                &["3:18: every connection is refused, as no proxy is trusted; expected `trusted-proxies` in [server]; add the addresses of your proxies, as in trusted-proxies = [\"10.0.0.0/8\", \"unix\"]"]),
            ("proxies for a listener", "[[listener]]\naddress = \"[::1]:80\"\nproxy-protocol = true\n[server]\ntrusted-proxies = [\"unix\"]", &[]),
            ("proxies and a header",   "[server]\ntrusted-proxies = [\"unix\", \"::1\"]\nclient-address-from = \"forwarded\"", &[]),
            ("a host in a network",    "[server]\ntrusted-proxies = [\"10.0.0.1/8\"]\nclient-address-from = \"forwarded\"",
                &["2:20: `trusted-proxies` cannot be \"10.0.0.1/8\"; expected the first address of the network, 10.0.0.0/8; as in trusted-proxies = [\"10.0.0.0/8\"]"]),
            ("another header",         "[server]\ntrusted-proxies = [\"unix\"]\nclient-address-from = \"x-real-ip\"",
                &["3:23: `client-address-from` cannot be \"x-real-ip\"; expected one of forwarded, x-forwarded-for; as in client-address-from = \"x-forwarded-for\""]),
            ("a wildcard by http-01",  "[[site]]\npath = \"a\"\ndomain = [\"a.org\", \"*.a.org\"]",
                &["3:20: a name with * is proved by dns-01 only; expected a name without *; add acme-challenge = \"dns-01\" and acme-dns-hook to [server], or name each host"]),
            ("dns-01 without a hook",  "[server]\nacme-challenge = \"dns-01\"",
                &["2:18: dns-01 needs a program that publishes records; expected `acme-dns-hook`; add acme-dns-hook = \"PROGRAM\", which publishes the records"]),
            ("dns-01 with a hook",     "[[site]]\npath = \"a\"\ndomain = [\"*.a.org\"]\n[server]\nacme-challenge = \"dns-01\"\nacme-dns-hook = \"hook\"", &[]),
            ("half an account",        "[server]\nacme-eab-kid = \"k\"",
                &["2:16: acme-eab-kid without acme-eab-key; expected both of them; add the other one: the operator of the directory gives both"]),
            ("a key in base64",        "[server]\nacme-eab-kid = \"k\"\nacme-eab-key = \"a+b/\"",
                &["3:16: `acme-eab-key` cannot be \"a+b/\"; expected a key in base64url; as in acme-eab-key = \"zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\""]),
            ("one name of two sites",  "[[site]]\npath = \"a\"\nhosts = [\"a.org\"]\n[[site]]\npath = \"b\"\ndomain = [\"a.org\"]",
                &["6:11: host a.org occurs twice; line 3 has it already; remove one of them"]),
            ("an address",             "[[site]]\npath = \"a\"\ndomain = [\"192.0.2.1\"]",
                &["3:11: `domain` cannot be \"192.0.2.1\"; expected a name of the DNS, as directories give no certificates for addresses; as in domain = [\"example.org\"]"]),
            ("redirects to nothing",     "[[site]]\npath = \"a\"\nhosts = [\"*.a.org\"]\nredirect-hosts = [\"b.org\"]",
                &["4:19: `redirect-hosts` have no host to redirect to; expected one of `hosts` without a *; add the target of the redirects, as in hosts = [\"example.org\"]"]),
        ];
        let sections: Vec<_> = ConfigSection::within(None).map(ConfigSection::header).collect();
        let sections = sections.join(", ");
        for (name, text, want) in cases {
            let file = ConfigFile::new("tarpon.toml", *text);
            let got = read(Some(&file), &CliFlags::default(), CommandKind::Serve);
            let errors = got.map_or_else(|errors| errors.lines(), |_| Vec::new());
            let want: Vec<_> = want.iter().map(|line| line.replace("SECTIONS", &sections)).collect();
            assert_eq!(errors, want, "{name}");
        }
    }

    /// A case: its name, the file, the flags; then an option, its value, and the origin of the value.
    type Case = (
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static str,
        &'static str,
        Origin,
    );

    #[test]
    #[rustfmt::skip]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let cases: &[Case] = &[
            // case            file                          flags                     option         value     origin
            ("neither",        "",                           &[],                      "header-timeout", "20s",    Origin::Default),
            ("the file",       "[server]\nheader-timeout = 5", &[],                      "header-timeout", "5s",     Origin::File(2)),
            ("a flag",         "",                           &[("header-timeout", "5s")],  "header-timeout", "5s",   Origin::Flag),
            ("both",           "[server]\nheader-timeout = 5", &[("header-timeout", "6")], "header-timeout", "6s",     Origin::Flag),
            ("with units",     "[server]\nheader-timeout = \"1m\"", &[],                 "header-timeout", "1m",     Origin::File(2)),
            ("a fraction",     "[server]\nheader-timeout = 0.25", &[],                   "header-timeout", "250ms",  Origin::File(2)),
            ("a size",         "[server]\nmin-send-rate = 2048", &[],                  "min-send-rate", "2KiB",  Origin::File(2)),
            ("switched on",    "[[site]]\npath = \".\"\nspa = true", &[],              "spa",          "true",   Origin::File(3)),
            ("switched off",   "[[site]]\npath = \".\"\nspa = true", &[("spa", "false")], "spa",       "false",  Origin::Flag),
            ("a list",         "[[site]]\npath = \".\"\ncors = [\"/a\", \"/b\"]", &[], "cors",         "/a, /b", Origin::File(3)),
            ("another list",   "[[site]]\npath = \".\"\ncors = [\"/a\", \"/b\"]", &[("cors", "/c")], "cors", "/c", Origin::Flag),
            ("listeners",      "[[listener]]\naddress = \"[::1]:80\"", &[("listen", "[::1]:81")], "address", "[::1]:81", Origin::Flag),
            ("for other commands", "",                       &[("hosts", "a.org")],    "hosts",        "",       Origin::Default),
        ];
        for &(name, text, flags, option, want, origin) in cases {
            let file = ConfigFile::new("tarpon.toml", text);
            let flags = CliFlags(flags.iter().map(|&(flag, value)| (flag, vec![value.into()])).collect());
            let resolved = read(Some(&file), &flags, CommandKind::Serve).expect(name);
            let entries: Vec<_> = resolved.entries.iter().filter(|entry| entry.option.name == option).collect();
            // The entry of the server comes after those of sites.
            let [.., entry] = entries[..] else { panic!("{name}: {entries:?}") };
            assert_eq!((&*entry.text(), entry.origin), (want, origin), "{name}");
        }
    }

    #[test]
    fn flags_of_the_server_replace_overrides_of_sites() {
        let text =
            "[[site]]\npath = \".\"\nidle-timeout = 1\nkeepalive-requests = 2\n[server]\nidle-timeout = 5\n";
        let file = ConfigFile::new("tarpon.toml", text);
        let s = Duration::from_secs;
        for (flag, site, server, origin) in
            [(None, Some(s(1)), s(5), Origin::File(3)), (Some("7s"), None, s(7), Origin::Flag)]
        {
            let flags =
                CliFlags(flag.map(|value| ("idle-timeout", vec![value.into()])).into_iter().collect());
            let ResolvedConfig { config, entries, .. } =
                read(Some(&file), &flags, CommandKind::Serve).expect("the file is valid");
            let limits = &config.sites[0].limits;
            assert_eq!(
                (limits.idle_timeout, config.server.settings.idle_timeout),
                (site, server),
                "{flag:?}"
            );
            assert_eq!(limits.keepalive_requests.map(u32::from), Some(2), "no flag sets this limit");
            let entry =
                entries.iter().find(|entry| entry.option.name == "idle-timeout").expect("the site has it");
            assert_eq!((entry.section.name, entry.origin), ("site", origin), "{flag:?}");
        }
    }

    #[test]
    fn nested_sections_belong_to_the_section_above_them() {
        let text = "[[site]]\npath = \"a\"\n[[site.header]]\npath = \"/1\"\n[[site.redirect]]\nfrom = \"/2\"\nto = \"/\"\n\
                    [[site.header]]\npath = \"/3\"\n[server]\nworkers = 2\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\n\
                    redirect = [{ from = \"/4\", to = \"/b\", status = 302 }]\n";
        let file = ConfigFile::new("tarpon.toml", text);
        // A flag of the same name changes the option of its own section only.
        let flags = CliFlags(BTreeMap::from([("spa", vec!["true".into()])]));
        let resolved = read(Some(&file), &flags, CommandKind::Serve).expect("the file is valid");
        let rules = |site: usize| &resolved.config.sites[site].source.policy.rules;
        let paths = |site: usize| {
            let headers = rules(site).headers.iter().map(|entry| &entry.path);
            let redirects = rules(site).redirects.iter().map(|entry| &entry.from);
            headers
                .chain(redirects)
                .map(|path| format!("{} {}", path.text, path.position.line))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (paths(0), paths(1)),
            (vec!["/1 4".into(), "/3 9".into(), "/2 6".into()], vec!["/4 15".into()])
        );
        assert_eq!(rules(1).redirects[0].status, Some(302));
        let sections: Vec<_> = resolved.entries.iter().map(OptionValue::section_text).collect();
        let wanted = [
            "[[site]] 1",
            "[[site.header]] 1.1",
            "[[site.header]] 1.2",
            "[[site.redirect]] 1.1",
            "[[site]] 2",
            "[[site.redirect]] 2.1",
        ];
        let mut at = sections.iter();
        for section in wanted {
            assert!(at.any(|found| found == section), "{section} in order among {sections:?}");
        }
        let shown = ConfigFile::new("shown.toml", resolved.toml());
        let again =
            read(Some(&shown), &CliFlags::default(), CommandKind::Serve).expect("the shown file is valid");
        let values = |resolved: &ResolvedConfig| {
            resolved
                .entries
                .iter()
                .map(|entry| (entry.section_text(), entry.option.name, entry.text()))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&again).len(), values(&resolved).len());
        assert_eq!(again.config.sites[0].source.policy.rules.headers.len(), 2);
        assert_eq!(again.config.sites[1].source.policy.rules.redirects[0].status, Some(302));
    }

    #[test]
    fn errors_of_overridden_options_are_reported() {
        let text = "[server]\nworkers = 0\n[[listener]]\naddress = \"localhost\"\n";
        let file = ConfigFile::new("tarpon.toml", text);
        let flags = BTreeMap::from([("workers", vec!["3".into()]), ("listen", vec!["[::1]:80".into()])]);
        let errors = read(Some(&file), &CliFlags(flags), CommandKind::Serve).expect_err("two errors");
        assert_eq!(errors.count(), 2, "{errors}");
    }

    #[test]
    fn paths_of_a_file_start_at_its_directory_and_paths_of_flags_do_not() {
        let text = "[[site]]\npath = \"public\"\nprefix = \"in/it\"\n[[listener]]\naddress = \"unix:tarpon.sock\"\n\
                    [[listener]]\naddress = \"unix:/run/tarpon.sock\"";
        let file = ConfigFile::new("/etc/tarpon/tarpon.toml", text);
        let config =
            read(Some(&file), &CliFlags::default(), CommandKind::Serve).expect("the file is valid").config;
        assert_eq!(config.sites[0].source.path, Path::new("/etc/tarpon/public"));
        assert_eq!(config.sites[0].source.prefix, Path::new("in/it"));
        let addresses: Vec<_> = config.listeners.into_iter().map(|listener| listener.address).collect();
        let unix = |path: &str| ListenAddress::One(Address::Unix(path.into()));
        assert_eq!(addresses, [unix("/etc/tarpon/tarpon.sock"), unix("/run/tarpon.sock")]);
        let flags = CliFlags(BTreeMap::from([("path", vec!["public".into()])]));
        let config = read(Some(&file), &flags, CommandKind::Serve).expect("the file is valid").config;
        assert_eq!(config.sites[0].source.path, Path::new("public"));
    }

    #[test]
    fn flags_of_sites_apply_to_all_sites_but_the_path_needs_a_single_site() {
        let text = "[[site]]\npath = \"a\"\ndefault = true\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\n";
        let file = ConfigFile::new("tarpon.toml", text);
        let flags = |flag, value: &str| CliFlags(BTreeMap::from([(flag, vec![value.into()])]));
        let config = read(Some(&file), &flags("keep-releases", "3"), CommandKind::Serve)
            .expect("the file is valid")
            .config;
        assert!(config.sites.iter().all(|site| site.keep_releases == 3) && config.sites.len() == 2);
        let errors =
            read(Some(&file), &flags("path", "c"), CommandKind::Serve).expect_err("the path is ambiguous");
        let want = "the argument PATH is for one site, but the file has 2; expected `path` in the file only; leave out PATH";
        assert_eq!(errors.lines(), [want]);
    }

    #[test]
    fn errors_of_flags_have_no_position() {
        let flags = CliFlags(BTreeMap::from([("grace-period", vec!["soon".into()])]));
        let errors = read(None, &flags, CommandKind::Serve).expect_err("soon is no time");
        assert_eq!(
            errors.lines(),
            ["--grace-period cannot be soon; expected a time from 1ms to 1d; such as 1m30s"]
        );
    }
}
