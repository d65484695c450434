//! Finds what keeps a server with a valid configuration from starting on this system, and tells the place of each error in the file.
//!
//! The control plane knows the errors: the same code starts the server. It names the part of the service, and perhaps an option.

use super::{ConfigError, ConfigErrors, OptionValue, Origin, ResolvedConfig, conflict};
use crate::{
    Address, ListenValue, Service,
    base::log_config::LogOwner,
    control::supervisor::{ServicePart, StartError, start_errors},
};
use std::path::{Path, PathBuf};
use tarpon_site::Printable;

/// Checks that a server with this configuration would start. `service`: what the configuration serves.
///
/// # Errors
/// Each reason why it would not.
pub(crate) fn check_start(
    resolved: &ResolvedConfig,
    mut service: Service,
    unix_s: i64,
) -> Result<(), ConfigErrors> {
    let errors: Vec<_> =
        start_errors(&mut service, unix_s).iter().map(|error| located(resolved, error)).collect();
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(resolved.file.as_ref(), errors)) }
}

/// Returns an error with the position of the value that it is about.
fn located(resolved: &ResolvedConfig, StartError { part, error }: &StartError) -> ConfigError {
    let (found, hint) = error.found_and_hint();
    let expected = match part {
        ServicePart::Server => "expected what this system has",
        ServicePart::Listener(_) | ServicePart::Admin => "expected an address where the server can listen",
        ServicePart::Log(_) => "expected a log that can be opened",
        ServicePart::Site(_) => "expected a site that can be served",
        ServicePart::Cgi(_) => "expected a directory of programs",
        ServicePart::Upstream(_) => "expected an upstream that can be used",
        ServicePart::Tls => "expected certificates that can be used",
    };
    match place(resolved, part, error.option()) {
        Some((entry, at)) => {
            entry.error(at, masked(entry, at, found), expected, masked(entry, at, hint.to_owned()))
        }
        None => ConfigError::new(found, expected, hint),
    }
}

/// Returns text without the value of an option that has parts of the environment, and without the directories on the path that it names.
fn masked(entry: &OptionValue, at: usize, text: String) -> String {
    if entry.source(at).is_none() {
        return text;
    }
    let value = ListenValue::address_text(&entry.values[at]);
    let path = Path::new(value.strip_prefix("unix:").unwrap_or(value));
    // The base of relative paths is no secret, but a path that the value gives as a whole may be.
    let parts = path.ancestors().filter(|part| part.components().count() > 1);
    parts.fold(text.replace(value, entry.shown(at)), |text, part| {
        text.replace(&part.printable().to_string(), entry.shown(at))
    })
}

/// Returns the option, and the index of its value, that an error is about.
fn place<'a>(
    resolved: &'a ResolvedConfig,
    part: &ServicePart,
    option: Option<&str>,
) -> Option<(&'a OptionValue, usize)> {
    let given = |section: &str, number: Option<usize>, name: &str| {
        resolved.entries.iter().find(|entry| {
            conflict::is_option(entry, section, name)
                && number.is_none_or(|number| entry.number == Some(number))
                && !entry.values.is_empty()
                && entry.origin != Origin::Default
        })
    };
    let first = |section: &str, number: Option<usize>, names: &[&str]| {
        let named = option.iter().chain(names);
        named.copied().find_map(|name| given(section, number, name)).map(|entry| (entry, 0))
    };
    match part {
        ServicePart::Server => first("server", None, &["user", "cgi-user"])
            .or_else(|| ["cgi", "cgi-suffix"].iter().find_map(|name| Some((given("site", None, name)?, 0)))),
        ServicePart::Admin => first("server", None, &["admin"]),
        ServicePart::Log(LogOwner::Server) => first("log", None, &["access-log"]),
        ServicePart::Log(LogOwner::Site(site)) => first("site", Some(*site), &["access-log"]),
        ServicePart::Site(site) => first("site", Some(*site), &["path"]),
        ServicePart::Cgi(site) => first("site", Some(*site), &["cgi", "cgi-suffix", "path"]),
        ServicePart::Upstream(None) => first("upstream", None, &["servers"]),
        ServicePart::Upstream(Some(name)) => match upstream_number(resolved, name) {
            Some(number) => first("upstream", Some(number), &["servers"]),
            None => proxy(resolved, name),
        },
        ServicePart::Tls => first("listener", None, &[]),
        ServicePart::Listener(address) => {
            let (entry, at) = listener(resolved, address)?;
            let access = option.and_then(|name| given("listener", entry.number, name));
            Some(access.filter(|_| entry.section.name == "listener").map_or((entry, at), |entry| (entry, 0)))
        }
    }
}

/// Returns the number of the section of an upstream. `None`: the value of a site has its servers.
fn upstream_number(resolved: &ResolvedConfig, name: &str) -> Option<usize> {
    let mut names = resolved.entries.iter().filter(|entry| conflict::is_option(entry, "upstream", "name"));
    names.find(|entry| entry.values.iter().any(|value| value == name)).and_then(|entry| entry.number)
}

/// Returns the value that sends requests to an upstream.
fn proxy<'a>(resolved: &'a ResolvedConfig, upstream: &str) -> Option<(&'a OptionValue, usize)> {
    let given = resolved.entries.iter().filter(|entry| conflict::is_option(entry, "site", "proxy"));
    let mut values =
        given.flat_map(|entry| entry.values.iter().enumerate().map(move |(at, value)| (entry, at, value)));
    let found =
        values.find(|(_, _, value)| value.split_once('=').is_some_and(|(_, to)| to.starts_with(upstream)));
    found.map(|(entry, at, _)| (entry, at))
}

/// Returns the value that names an address.
fn listener<'a>(resolved: &'a ResolvedConfig, address: &Address) -> Option<(&'a OptionValue, usize)> {
    // A path may be absolute in one place and relative in the other.
    let same = |value: &str| match (address, value.parse()) {
        (Address::Unix(path), Ok(Address::Unix(other))) => absolute(path) == absolute(&other),
        _ => value == address.to_string(),
    };
    let named = resolved.entries.iter().filter(|entry| {
        conflict::is_option(entry, "listener", "address") || conflict::is_option(entry, "site", "listen")
    });
    let mut values =
        named.flat_map(|entry| entry.values.iter().enumerate().map(move |(at, value)| (entry, at, value)));
    let found = values.find(|(_, _, value)| conflict::sockets(value).iter().any(|socket| same(socket)));
    found.map(|(entry, at, _)| (entry, at))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
