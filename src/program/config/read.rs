//! Defaults, file and flags become a configuration: for each option of each section, what is said last and nearest holds.

use super::{
    CommandKind, Config, ConfigError, ConfigErrors, ConfigFile, ConfigSection, FlagForm, Opt, OptionDefault,
    SECTIONS, conflict,
    file::{self, ConfigTable},
};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    ops::Range,
    path::Path,
};
use tarpon_site::Printable;

/// What is said on a command line: values, by the names of flags without their dashes.
#[derive(Clone, Debug, Default)]
pub struct CliFlags(pub BTreeMap<&'static str, Vec<OsString>>);

/// A configuration, and where each value of it came from.
#[derive(Clone, Debug)]
pub struct ResolvedConfig {
    /// What holds.
    pub config: Config,
    /// Option by option.
    pub said: Vec<OptionValue>,
    /// The file that was read.
    pub file: Option<ConfigFile>,
}

/// An option in one section, with what holds there.
#[derive(Clone, Debug)]
pub struct OptionValue {
    /// The section it is in.
    pub section: &'static ConfigSection,
    /// Which of several sections, the first one being 0. `None`: there is none, and a default takes its place.
    pub number: Option<usize>,
    /// The option.
    pub option: &'static Opt,
    /// Each value as it is written at its best. None: what [`OptionDefault`] says.
    pub values: Vec<String>,
    /// Who said it.
    pub from: Origin,
    /// Where each value stands in the file.
    pub(super) places: Vec<Range<usize>>,
}

/// Who said what holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody.
    Default,
    /// The file, in this line.
    File(usize),
    /// The command line.
    Flag,
}

impl OptionValue {
    /// What is wrong with the value of this number.
    pub(super) fn fault(
        &self,
        at: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ConfigError {
        match self.places.get(at) {
            Some(place) => ConfigError::at(place.clone(), found, expected, remedy),
            None => ConfigError::nowhere(found, expected, remedy),
        }
    }
}

/// Makes a configuration of a file and flags, of which the flags win.
///
/// # Errors
/// All that is wrong with them.
pub fn read(
    file: Option<&ConfigFile>,
    flags: &CliFlags,
    program: CommandKind,
) -> Result<ResolvedConfig, ConfigErrors> {
    let mut faults = Vec::new();
    let tables = file.map(|file| file::tables(file, &mut faults)).unwrap_or_default();
    let mut reader =
        ConfigReader { file, flags, program, config: Config::default(), said: Vec::new(), faults };
    for section in SECTIONS {
        let tables: Vec<_> = tables.iter().filter(|table| table.section.name == section.name).collect();
        reader.sections(section, &tables);
    }
    let ConfigReader { config, said, mut faults, .. } = reader;
    conflict::find(&said, &mut faults);
    match faults.is_empty() {
        true => Ok(ResolvedConfig { config, said, file: file.cloned() }),
        false => Err(ConfigErrors::new(file, faults)),
    }
}

struct ConfigReader<'a> {
    file: Option<&'a ConfigFile>,
    flags: &'a CliFlags,
    program: CommandKind,
    config: Config,
    said: Vec<OptionValue>,
    faults: Vec<ConfigError>,
}

impl<'a> ConfigReader<'a> {
    /// All sections of a kind.
    fn sections(&mut self, section: &'static ConfigSection, tables: &[&ConfigTable]) {
        let of_key = section.options.iter().find(|option| section.key == Some(option.name));
        let (tables, count) = match of_key.and_then(|option| self.flag(option)) {
            Some(values) => (&[][..], values.len()),
            None => (tables, tables.len().max(*section.count.start())),
        };
        for number in 0..count {
            (section.begin)(&mut self.config);
            for option in section.options {
                self.option(section, number, option, tables);
            }
        }
        if count == 0 {
            let nobody = |option| OptionValue {
                section,
                number: None,
                option,
                values: vec![],
                from: Origin::Default,
                places: vec![],
            };
            self.said.extend(section.options.iter().map(nobody));
        }
    }

    /// An option of one section.
    fn option(
        &mut self,
        section: &'static ConfigSection,
        number: usize,
        option: &'static Opt,
        tables: &[&ConfigTable],
    ) {
        let table = tables.get(number);
        let given = table.and_then(|table| table.given.iter().find(|given| given.option.name == option.name));
        let mut said = OptionValue {
            section,
            number: Some(number),
            option,
            values: vec![],
            from: Origin::Default,
            places: vec![],
        };
        if let Some(values) = self.flag(option) {
            let values = if section.key == Some(option.name) { &values[number..=number] } else { values };
            said.from = Origin::Flag;
            said.values = values.iter().filter_map(|value| self.of_flag(option, value)).collect();
            if matches!(option.flag, FlagForm::Place) && tables.len() > 1 && number == 0 {
                self.one_for_several(section, option, tables.len());
            }
        } else if given.is_some() && self.is_overruled(option) {
            said.from = Origin::Flag;
        } else if let (Some(file), Some(given)) = (self.file, given) {
            said.from = Origin::File(file.line(given.at.start));
            for (value, place) in &given.values {
                let set = option.kind.set(value.as_ref(), file.base(), &mut self.config);
                said.values.push(set.expect("a value that will do"));
                said.places.push(place.clone());
            }
        } else if let (true, Some(table)) = (option.required, table) {
            let found = format!("this {} has no `{}`", section.head(), option.name);
            let expected = format!("expected it to have `{}`", option.name);
            self.faults.push(ConfigError::at(table.at.clone(), found, expected, file::as_in(option)));
        } else if let OptionDefault::Value(value) = option.default {
            let set = option.kind.set(value.as_ref(), Path::new(""), &mut self.config);
            said.values.push(set.expect("a default is a value"));
        }
        self.said.push(said);
    }

    /// A value of the command line, whose own reader should have refused one that will not do.
    fn of_flag(&mut self, option: &Opt, value: &OsStr) -> Option<String> {
        match option.kind.set(value, Path::new(""), &mut self.config) {
            Ok(value) => Some(value),
            Err(expected) => {
                let found = format!("{} cannot be {}", option.flag_words(), value.printable());
                let remedy = format!("such as {}", option.example());
                self.faults.push(ConfigError::nowhere(found, expected, remedy));
                None
            }
        }
    }

    /// What has its place on the command line cannot be that of several sections.
    fn one_for_several(&mut self, section: &ConfigSection, option: &Opt, count: usize) {
        let found = format!("{} is of one {}, and the file has {count}", option.value_name, section.name);
        self.faults.push(ConfigError::nowhere(found, "expected to find it in the file", "leave it out here"));
    }

    /// Whether the command line says for all what only the file can say for some: a limit of the server, which a site may have
    /// for itself.
    fn is_overruled(&self, option: &Opt) -> bool {
        let mut options = SECTIONS.into_iter().flat_map(|section| section.options);
        options.any(|other| other.name == option.name && self.flag(other).is_some())
    }

    /// What the command line says of an option.
    fn flag(&self, option: &Opt) -> Option<&'a [OsString]> {
        let values = self.flags.0.get(option.flag_name()).filter(|_| option.is_on(self.program))?;
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use std::time::Duration;

    #[test]
    #[rustfmt::skip]
    fn all_that_is_wrong_with_a_file_is_told_at_its_place() {
        let cases: &[(&str, &str, &[&str])] = &[
            // what it shows           the file                                          what is wrong
            ("nothing",                "",                                               &[]),
            ("not TOML",               "[server]\nworkers = \n",
                &["2:11: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for its form"]),
            ("no quotes",              "[server]\nengine = epoll",
                &["2:10: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for its form"]),
            ("said twice",             "[server]\ncpu-affinity = true\ncpu-affinity = false",
                &["3:1: this is not TOML; duplicate key; see https://toml.io for its form"]),
            ("two errors of form",     "[server]\ncpu-affinity = yes\nworkers = 0\ngrace-period = 1s",
                &["2:16: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for its form",
                  "3:11: `workers` cannot be 0; expected a number from 1 to 1024; as in workers = 4",
                  "4:16: this is not TOML; string values must be quoted, expected literal string; see https://toml.io for its form"]),
            ("below a lost head",      "[server\ncpu-affinity = true",
                &["1:8: this is not TOML; unclosed table, expected `]`; see https://toml.io for its form"]),
            ("unknown section",        "[sever]\ncpu-affinity = true",
                &["1:2: unknown section `sever`; expected SECTIONS; did you mean `server`?"]),
            ("far from any",           "[x]",
                &["1:2: unknown section `x`; expected SECTIONS; see tarpon manual tarpon.toml for all there is"]),
            ("no section",             "workers = 3",
                &["1:1: unknown section `workers`; expected SECTIONS; it is an option of [server]: move it there"]),
            ("unknown option",         "[server]\nheader_timeout = 3",
                &["2:1: unknown option `header_timeout`; expected an option of [server]; did you mean `header-timeout`?"]),
            ("of another section",     "[server]\nspa = true",
                &["2:1: unknown option `spa`; expected an option of [server]; it is an option of [[site]]: move it there"]),
            ("like none",              "[[listener]]\naddress = \"[::1]:80\"\nqqq = 1",
                &["3:1: unknown option `qqq`; expected an option of [[listener]]; see tarpon manual tarpon.toml for all there is"]),
            ("one of several",         "[site]\npath = \".\"",
                &["1:2: `site` is a table; expected [[site]]; write [[site]] above its options; there may be several"]),
            ("several of one",         "[[server]]\ncpu-affinity = true",
                &["1:3: `server` is a list; expected [server]; write [server] above its options; there is one"]),
            ("no table at all",        "server = 3\nsite = [1]",
                &["1:1: `server` is a whole number; expected [server]; write [server] above its options; there is one",
                  "2:9: `site` is a whole number; expected [[site]]; write [[site]] above its options; there may be several"]),
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
            ("no address",             "[[listener]]\naddress = \"8080\"",
                &["2:11: `address` cannot be \"8080\"; expected an address and a port, or unix:PATH; as in address = \"127.0.0.1:8080\""]),
            ("what it needs",          "[[listener]]\n\n[[site]]\nspa = true",
                &["1:1: this [[listener]] has no `address`; expected it to have `address`; as in address = \"127.0.0.1:8080\"",
                  "3:1: this [[site]] has no `path`; expected it to have `path`; as in path = \"public\""]),
            ("what controls a terminal", "[server]\n\"\\u001b[31m\" = 1\ngrace-period = \"\"\"\n\t1\n\"\"\"",
                &["2:1: unknown option `\\x1b[31m`; expected an option of [server]; see tarpon manual tarpon.toml for all there is",
                  "3:16: `grace-period` cannot be \"\"\"\\n 1\\n\"\"\"; expected a time from 1ms to 1d; as in grace-period = \"1m30s\""]),
            ("an empty path",          "[[site]]\npath = \"\"",
                &["2:8: `path` cannot be \"\"; expected a path; as in path = \"public\""]),
            ("a former name",          "[server]\nhead-timeout = 5\n[[site]]\npath = \".\"\naliases = [\"a.org\"]",
                &["2:1: unknown option `head-timeout`; expected an option of [server]; it is called `header-timeout` now",
                  "5:1: unknown option `aliases`; expected an option of [[site]]; it is called `redirect-hosts` now"]),
            ("behind what is wide",    "[[site]] # ü\npath = \".\"\n\"bücher\" = { path = 1 }",
                &["3:1: unknown option `bücher`; expected an option of [[site]]; see tarpon manual tarpon.toml for all there is"]),
            ("an address twice",       "[[listener]]\naddress = \"[::1]:80\"\n[[listener]]\naddress = \"[0::1]:80\"",
                &["4:11: listener [::1]:80 is there twice; it is there in line 2 already; leave one of them out"]),
            ("admin and listener",    "[[site]]\npath = \"a\"\n[[listener]]\naddress = \"[::1]:80\"\n[server]\nadmin = \"[::1]:80\"",
                &["6:9: admin [::1]:80 is a listener as well; expected an address of its own; take another port, as in admin = \"127.0.0.1:9000\", a Unix socket, or off"]),
            ("a free port twice",      "[[listener]]\naddress = \"[::1]:0\"\n[[listener]]\naddress = \"[::1]:0\"", &[]),
            ("a host twice",           "[[site]]\npath = \"a\"\nhosts = [\"a.org\", \"A.org.\"]\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\nredirect-hosts = [\"a.org\"]",
                &["3:19: host a.org is there twice; it is there in line 3 already; leave one of them out",
                  "7:19: host a.org is there twice; it is there in line 3 already; leave one of them out"]),
            ("two defaults",           "[[site]]\npath = \"a\"\ndefault = true\n[[site]]\npath = \"b\"\ndefault = true",
                &["6:11: there is a default site already; expected one at most; leave it to one of them"]),
            ("no host, no default",    "[[site]]\npath = \"a\"\nhosts = [\"a.org\"]\n[[site]]\npath = \"b\"",
                &["5:8: nobody can reach this site: it has no hosts, and is not the default; expected `hosts` beside it; add them, or default = true"]),
            ("no host, others refused", "[server]\nrefuse-unknown-hosts = true\n[[site]]\npath = \"a\"",
                &["4:8: nobody can reach this site: it has no hosts, and is not the default; expected `hosts` beside it; add them, or default = true"]),
            ("no host, but the first", "[[site]]\npath = \"a\"\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]", &[]),
            ("a default, others refused", "[server]\nrefuse-unknown-hosts = true\n[[site]]\npath = \"a\"\nhosts = [\"a.org\"]\ndefault = true",
                &["6:11: there is a default site, and hosts that no site has are refused; expected one of the two; leave out default, or refuse-unknown-hosts"]),
            ("redirects to nothing",     "[[site]]\npath = \"a\"\nhosts = [\"*.a.org\"]\nredirect-hosts = [\"b.org\"]",
                &["4:19: `redirect-hosts` have no host to redirect to; expected one of `hosts` without a *; add the name they lead to, as in hosts = [\"example.org\"]"]),
        ];
        let sections = SECTIONS.map(ConfigSection::head).join(", ");
        for (name, text, want) in cases {
            let file = ConfigFile { path: "tarpon.toml".into(), text: (*text).to_owned() };
            let got = read(Some(&file), &CliFlags::default(), CommandKind::Serve);
            let faults = got.map_or_else(|faults| faults.lines(), |_| Vec::new());
            let want: Vec<_> = want.iter().map(|line| line.replace("SECTIONS", &sections)).collect();
            assert_eq!(faults, want, "{name}");
        }
    }

    /// What it shows, the file, the flags; an option, its value, and who said it.
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
    fn what_a_flag_says_wins_and_what_nobody_says_is_the_default() {
        let cases: &[Case] = &[
            // what it shows   the file                      the flags                 option         value     who said it
            ("nobody",         "",                           &[],                      "header-timeout", "20s",    Origin::Default),
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
            ("for other programs", "",                       &[("hosts", "a.org")],    "hosts",        "",       Origin::Default),
        ];
        for &(name, text, flags, option, want, from) in cases {
            let file = ConfigFile { path: "tarpon.toml".into(), text: text.to_owned() };
            let flags = CliFlags(flags.iter().map(|&(flag, value)| (flag, vec![value.into()])).collect());
            let settled = read(Some(&file), &flags, CommandKind::Serve).expect(name);
            let said: Vec<_> = settled.said.iter().filter(|said| said.option.name == option).collect();
            // What a site can say too, the server says last.
            let [.., said] = said[..] else { panic!("{name}: {said:?}") };
            assert_eq!((&*said.words(), said.from), (want, from), "{name}");
        }
    }

    #[test]
    fn what_a_site_says_for_itself_gives_way_to_a_flag_that_says_it_for_all() {
        let text =
            "[[site]]\npath = \".\"\nidle-timeout = 1\nkeepalive-requests = 2\n[server]\nidle-timeout = 5\n";
        let file = ConfigFile { path: "tarpon.toml".into(), text: text.to_owned() };
        let s = Duration::from_secs;
        for (flag, site, server, from) in
            [(None, Some(s(1)), s(5), Origin::File(3)), (Some("7s"), None, s(7), Origin::Flag)]
        {
            let flags =
                CliFlags(flag.map(|value| ("idle-timeout", vec![value.into()])).into_iter().collect());
            let ResolvedConfig { config, said, .. } =
                read(Some(&file), &flags, CommandKind::Serve).expect("in order");
            let limits = &config.sites[0].limits;
            assert_eq!(
                (limits.idle_timeout, config.server.settings.idle_timeout),
                (site, server),
                "{flag:?}"
            );
            assert_eq!(limits.keepalive_requests.map(u32::from), Some(2), "of which no flag says anything");
            let said = said.iter().find(|said| said.option.name == "idle-timeout").expect("that of the site");
            assert_eq!((said.section.name, said.from), ("site", from), "{flag:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_though_a_flag_says_otherwise() {
        let text = "[server]\nworkers = 0\n[[listener]]\naddress = \"8080\"\n";
        let file = ConfigFile { path: "tarpon.toml".into(), text: text.to_owned() };
        let flags = BTreeMap::from([("workers", vec!["3".into()]), ("listen", vec!["[::1]:80".into()])]);
        let faults = read(Some(&file), &CliFlags(flags), CommandKind::Serve).expect_err("two errors");
        assert_eq!(faults.count(), 2, "{faults}");
    }

    #[test]
    fn paths_of_a_file_begin_where_it_is_and_those_of_flags_do_not() {
        let text = "[[site]]\npath = \"public\"\nprefix = \"in/it\"\n[[listener]]\naddress = \"unix:tarpon.sock\"\n\
                    [[listener]]\naddress = \"unix:/run/tarpon.sock\"";
        let file = ConfigFile { path: "/etc/tarpon/tarpon.toml".into(), text: text.to_owned() };
        let config =
            read(Some(&file), &CliFlags::default(), CommandKind::Serve).expect("nothing is wrong").config;
        assert_eq!(config.sites[0].source.path, Path::new("/etc/tarpon/public"));
        assert_eq!(config.sites[0].source.prefix, Path::new("in/it"));
        let addresses: Vec<_> = config.listeners.into_iter().map(|listener| listener.address).collect();
        let unix = |path: &str| Address::Unix(path.into());
        assert_eq!(addresses, [unix("/etc/tarpon/tarpon.sock"), unix("/run/tarpon.sock")]);
        let flags = CliFlags(BTreeMap::from([("path", vec!["public".into()])]));
        let config = read(Some(&file), &flags, CommandKind::Serve).expect("nothing is wrong").config;
        assert_eq!(config.sites[0].source.path, Path::new("public"));
    }

    #[test]
    fn flags_of_a_site_hold_in_every_site_but_its_path_in_none_of_several() {
        let text = "[[site]]\npath = \"a\"\ndefault = true\n[[site]]\npath = \"b\"\nhosts = [\"b.org\"]\n";
        let file = ConfigFile { path: "tarpon.toml".into(), text: text.to_owned() };
        let flags = |flag, value: &str| CliFlags(BTreeMap::from([(flag, vec![value.into()])]));
        let config = read(Some(&file), &flags("keep-releases", "3"), CommandKind::Serve)
            .expect("nothing is wrong")
            .config;
        assert!(config.sites.iter().all(|site| site.keep_releases == 3) && config.sites.len() == 2);
        let faults = read(Some(&file), &flags("path", "c"), CommandKind::Serve).expect_err("which site?");
        let want =
            "PATH is of one site, and the file has 2; expected to find it in the file; leave it out here";
        assert_eq!(faults.lines(), [want]);
    }

    #[test]
    fn a_flag_that_nobody_checked_is_told_without_a_place() {
        let flags = CliFlags(BTreeMap::from([("grace-period", vec!["soon".into()])]));
        let faults = read(None, &flags, CommandKind::Serve).expect_err("no time");
        assert_eq!(
            faults.lines(),
            ["--grace-period cannot be soon; expected a time from 1ms to 1d; such as 1m30s"]
        );
    }
}
