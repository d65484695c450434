//! `[[site.limit]]`: what each client may do at some paths of a site, and values that the server has too.

use super::{
    Config, ConfigSection, Opt, OptionDefault, ValueKind, option::OFF, option::OPT, server::SEND_RATES,
};
use crate::{AddressEntry, LimitChoice, PasswordUser, PathLimit, PathPrefix, RequestRate, SendRate};
use std::{num::NonZeroU32, ops::RangeInclusive};

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "site.limit",
    count: 0..=usize::MAX,
    help: "Limits of clients for some paths of the site above it; the section with the longest path counts",
    key: None,
    options: &[
        Opt {
            name: "path",
            value_name: "PATH",
            kind: ValueKind::Text(prefix, |config, path| {
                config.path_limit().path = Some(path.parse().expect("the path is in canonical form"));
            }),
            default: OptionDefault::Value("/"),
            example: "/login",
            invalid: NO_PREFIXES,
            help: "Set limits for this path and all paths below it",
            details: "In whole segments: /api stands for /api and /api/a, but not for /apis. A section inherits other limits from the section with the next shorter path, and at last from [server].",
            ..OPT
        },
        Opt {
            name: "request-rate",
            value_name: "RATE",
            kind: ValueKind::Text(rate_or_off, |config, text| {
                let rate = text.parse().map_or(LimitChoice::Off, LimitChoice::At);
                config.path_limit().request_rate = Some(rate);
            }),
            default: OptionDefault::Described("the rate of the next shorter path"),
            example: "30/m",
            invalid: NO_RATES,
            help: "Override request-rate of [server] for these paths",
            details: "Requests to these paths count here alone. The value off lifts the limit.",
            ..OPT
        },
        Opt {
            name: "request-burst",
            value_name: "COUNT",
            kind: ValueKind::Count(BURSTS, "requests", |config, count| {
                config.path_limit().request_burst = NonZeroU32::new(count);
            }),
            default: OptionDefault::Described("the requests of one second"),
            example: "5",
            help: "Let this many requests to these paths come at once",
            details: "As request-burst in [server]; it needs request-rate beside it.",
            ..OPT
        },
        Opt {
            name: "allow",
            value_name: "NETWORK",
            kind: ValueKind::Text(address_entry, |config, text| {
                config.path_limit().allow.extend(text.parse::<AddressEntry>())
            }),
            is_list: true,
            example: "10.0.0.0/8",
            invalid: NO_ENTRIES,
            help: "Serve these paths to clients from these networks only, and answer 403 to others",
            details: "Trusted proxies name the client. The most specific network of allow and deny decides; both together replace those of a shorter path.",
            ..OPT
        },
        Opt {
            name: "deny",
            value_name: "NETWORK",
            kind: ValueKind::Text(address_entry, |config, text| {
                config.path_limit().deny.extend(text.parse::<AddressEntry>())
            }),
            is_list: true,
            example: "192.0.2.0/24",
            invalid: NO_ENTRIES,
            help: "Answer 403 (Forbidden) to clients from these networks",
            details: "See allow.",
            ..OPT
        },
        Opt {
            name: "max-send-rate",
            value_name: "BYTES",
            kind: ValueKind::Size(SEND_RATES, "a second", |config, len| {
                let rate = u32::try_from(len).ok().and_then(NonZeroU32::new);
                let choice = rate.map_or(LimitChoice::Off, |rate| LimitChoice::At(SendRate(rate)));
                config.path_limit().max_send_rate = Some(choice);
            }),
            default: OptionDefault::Described("the rate of the next shorter path, or none"),
            example: "1MiB",
            help: "Send the content of each response no faster than this many bytes per second",
            details: "Each response counts for itself. The value 0 lifts the limit of a shorter path. Other values must be at least twice min-send-rate.",
            ..OPT
        },
        Opt {
            name: "users-file",
            value_name: "FILE",
            kind: ValueKind::Path(Config::add_users_file),
            example: "users",
            help: "Require a password for these paths: that of a user in this file",
            details: "Each line is NAME:HASH, with a hash by argon2id or bcrypt, as tarpon hash-password prints it. Others get 401 (Unauthorized). A reload reads the file again. Users replace those of a shorter path.",
            ..OPT
        },
        Opt {
            name: "users",
            value_name: "NAME:HASH",
            kind: ValueKind::Text(user, |config, text| {
                config.path_passwords().users.extend(text.parse::<PasswordUser>());
            }),
            is_list: true,
            example: "ann:$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$pz8MrR3jEBFzHHXPmrpVJ6yfFgh5aGbMLNjJBJwlN+0",
            invalid: &["", "ann\n"],
            help: "Require a password for these paths: that of one of these users",
            details: "As lines of users-file.",
            ..OPT
        },
        Opt {
            name: "realm",
            value_name: "TEXT",
            kind: ValueKind::Text(realm, |config, text| config.path_passwords().realm = text),
            default: OptionDefault::Described("the path"),
            example: "Staff only",
            invalid: &["", "a\"b", "a\\b", "a\nb"],
            help: "Set the text beside the question for a password",
            details: "Browsers ask once for all paths of a host with the same realm.",
            ..OPT
        },
        Opt {
            name: "passwords",
            value_name: "CHOICE",
            kind: ValueKind::Choice(&[
                ("inherit", |_| ()),
                ("off", |config| config.path_limit().passwords = Some(LimitChoice::Off)),
            ]),
            default: OptionDefault::Value("inherit"),
            example: "off",
            help: "Set whether these paths need the password of a shorter path",
            details: "The value off serves them without one.",
            ..OPT
        },
    ],
    add: |config| config.site().path_limits.push(PathLimit::default()),
};

/// The requests that may come at once.
pub(super) const BURSTS: RangeInclusive<u32> = 1..=1_000_000;

/// Texts that are no rate.
pub(super) const NO_RATES: &[&str] =
    &["", "10", "0/s", "10/d", "10 /s", "10r/s", "-1/s", "1.5/s", "10001/s", "on"];

const NO_PREFIXES: &[&str] = &["", "api", "//", "/a/../b", "/a%20b", "/a?b", "/api/*"];

impl Config {
    /// Returns the limits of paths that were added last.
    pub(super) fn path_limit(&mut self) -> &mut PathLimit {
        self.site().path_limits.last_mut().expect("add() pushed a section")
    }
}

/// Texts that are no addresses.
pub(super) const NO_ENTRIES: &[&str] =
    &["", "10.0.0.1/8", "10.0.0.0/33", "localhost", "10.0.0.0-10.0.0.9", "none"];

/// Accepts addresses to allow or deny.
pub(super) fn address_entry(text: &str) -> Result<String, String> {
    text.parse().map(|entry: AddressEntry| entry.to_string())
}

/// Accepts a rate of requests.
pub(super) fn rate(text: &str) -> Result<String, String> {
    text.parse().map(|rate: RequestRate| rate.to_string()).map_err(str::to_owned)
}

/// Accepts a rate of requests, or `off`.
fn rate_or_off(text: &str) -> Result<String, String> {
    if text == OFF {
        Ok(text.to_owned())
    } else {
        rate(text).map_err(|expected| format!("{expected}, or off"))
    }
}

/// Accepts any user: a message about another one would show what may be a password.
fn user(text: &str) -> Result<String, String> {
    let is_line = !text.is_empty() && !text.chars().any(char::is_control);
    if is_line { Ok(text.to_owned()) } else { Err("expected NAME:HASH".to_owned()) }
}

/// Accepts the text beside the question for a password: it stands between quotes in a field.
fn realm(text: &str) -> Result<String, String> {
    let is_valid = !text.is_empty() && !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\'));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("expected text without quotes and backslashes".to_owned())
    }
}

/// Returns a prefix of paths in its canonical form. A star is a mistake: there are no patterns.
fn prefix(text: &str) -> Result<String, String> {
    match text.contains('*') {
        true => Err("expected a path without *, which stands for all paths below it".to_owned()),
        false => text.parse().map(|prefix: PathPrefix| prefix.to_string()).map_err(|error| error.to_string()),
    }
}
