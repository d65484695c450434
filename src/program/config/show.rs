//! The resolved configuration as a file.

use super::{
    OptionDefault, OptionValue, Origin, ResolvedConfig, ValueKind,
    file::{quoted, toml_value},
};
use crate::{Address, ListenValue, LogTarget};
use std::path::absolute;
use tarpon_site::Printable;

impl ResolvedConfig {
    /// Returns an equivalent configuration file, which works in any directory. It has all values, defaults included, with their
    /// origins as comments.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| &self.entries[before]);
            let is_same_section = |before: &OptionValue| {
                before.section.name == entry.section.name
                    && (before.number, &before.within) == (entry.number, &entry.within)
            };
            if !before.is_some_and(is_same_section) {
                let gap = if text.is_empty() { "" } else { "\n" };
                let comment = if entry.number.is_none() { "# " } else { "" };
                text += &format!("{gap}{comment}{}\n", entry.section.header());
            }
            text += &format!("{}  # {}\n", line(entry), self.origin(entry));
        }
        text
    }

    /// Returns the origin of a value: `default`, a line of the file, or a flag.
    pub fn origin(&self, entry: &OptionValue) -> String {
        match (entry.origin, &self.file) {
            (Origin::File(line), Some(file)) => {
                let path = entry.path_in(Some(file)).unwrap_or(&file.path);
                format!("{}:{line}", path.printable())
            }
            (Origin::Flag, _) => match (&entry.option.kind, &entry.values[..]) {
                (ValueKind::Flag(_), [off]) if off == "false" => format!("--no-{}", entry.option.flag_name()),
                (ValueKind::Flag(_), _) => format!("--{}", entry.option.flag_name()),
                _ => entry.option.flag_usage(),
            },
            _ => "default".to_owned(),
        }
    }
}

impl OptionValue {
    /// Returns the value as text for people.
    pub fn text(&self) -> String {
        match (&self.values[..], &self.option.default, &self.option.kind) {
            ([], OptionDefault::Described(text), _) => (*text).to_owned(),
            ([], _, ValueKind::Flag(_)) => "false".to_owned(),
            ([], ..) if !self.option.is_list => "not set".to_owned(),
            (values, ..) => {
                let values = (0..values.len()).map(|at| self.shown(at).printable().to_string());
                let values: Vec<_> = values.collect();
                values.join(", ")
            }
        }
    }
}

/// Returns the line of an option in a file. An option without a value becomes a comment.
fn line(entry: &OptionValue) -> String {
    let name = entry.option.name;
    let value = |(at, value): (usize, &String)| match entry.source(at) {
        // The text of the file names the variables, and does not show their values.
        Some(source) => quoted(source),
        None => toml_value(entry.option, &literal(entry, &absolute_value(entry, value))),
    };
    let values: Vec<_> = entry.values.iter().enumerate().map(value).collect();
    match (&values[..], &entry.option.kind) {
        _ if entry.number.is_none() => format!("# {name}: {}", entry.text()),
        (values, _) if entry.option.is_list => format!("{name} = [{}]", values.join(", ")),
        ([value, ..], _) => format!("{name} = {value}"),
        ([], ValueKind::Flag(_)) if !matches!(entry.option.default, OptionDefault::Described(_)) => {
            format!("{name} = false")
        }
        ([], _) => format!("# {name}: {}", entry.text()),
    }
}

/// Returns a value as a file has it: `${` needs another `$`.
fn literal(entry: &OptionValue, value: &str) -> String {
    match entry.option.kind {
        ValueKind::Flag(_) | ValueKind::Count(..) => value.to_owned(),
        _ => value.replace("${", "$${"),
    }
}

/// Returns a value with absolute paths, so that it does not depend on the directory of the file.
fn absolute_value(entry: &OptionValue, value: &str) -> String {
    let whole =
        |path: &str| absolute(path).map_or(path.to_owned(), |path| path.to_string_lossy().into_owned());
    match entry.option.kind {
        ValueKind::Path(_) => whole(value),
        ValueKind::MountedDirectory(_) => match value.split_once('=') {
            Some((prefix, directory)) => format!("{prefix}={}", whole(directory)),
            None => value.to_owned(),
        },
        ValueKind::Listen(_) | ValueKind::AddressOrOff(_) => {
            let address = ListenValue::address_text(value);
            match address.parse() {
                Ok(Address::Unix(path)) => {
                    let tls = &value[..value.len() - address.len()];
                    format!("{tls}unix:{}", whole(&path.to_string_lossy()))
                }
                _ => value.to_owned(),
            }
        }
        ValueKind::Target(_) => match value.parse() {
            Ok(LogTarget::File(_)) => whole(value),
            Ok(LogTarget::Socket(path)) => format!("unix:{}", whole(&path.to_string_lossy())),
            _ => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}
