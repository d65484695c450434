//! Checks a valid configuration against this system: missing paths, foreign addresses, missing engines.
//!
//! Starts nothing and reads no site: the server itself reports what it finds when it starts.

use super::{ConfigErrors, OptionValue, ResolvedConfig, ValueKind};
use crate::{Address, ListenValue, LogTarget};
use std::path::Path;
use tarpon_site::Printable;

/// Checks the paths, addresses and engine of a configuration.
///
/// # Errors
/// Each of them that this system does not have.
pub fn check_system(resolved: &ResolvedConfig) -> Result<(), ConfigErrors> {
    let mut errors = Vec::new();
    let mut report = |entry: &OptionValue, at, found: String, expected: &str, hint: &str| {
        errors.push(entry.error(at, found, expected, hint));
    };
    for entry in resolved.entries.iter().filter(|entry| entry.number.is_some()) {
        for (at, value) in entry.values.iter().enumerate() {
            match entry.option.kind {
                // The server makes the state directory.
                ValueKind::Path(_) if entry.option.name == "state-directory" => {}
                ValueKind::Path(_) if !Path::new(value).exists() => {
                    let found = format!("{} does not exist", entry.shown(at).printable());
                    let hint =
                        "create it, or name another; relative paths start at the directory of the file";
                    report(entry, at, found, "expected an existing path", hint);
                }
                ValueKind::Listen(_) | ValueKind::AddressOrOff(_) => match ListenValue::address_text(value)
                    .parse()
                {
                    Ok(Address::Unix(path)) if !dir(&path).is_dir() => {
                        let expected = "expected a socket in an existing directory";
                        report(entry, at, missing_dir(entry, at, &path), expected, "create the directory");
                    }
                    Ok(address) if !address.is_supported() => {
                        let found = format!("{} is no address of this host", entry.shown(at).printable());
                        let hint = "use one, such as 127.0.0.1, or 0.0.0.0 for all of them";
                        report(entry, at, found, "expected an address of this host", hint);
                    }
                    _ => {}
                },
                ValueKind::Target(_) => match value.parse() {
                    Ok(LogTarget::File(path) | LogTarget::Socket(path)) if !dir(&path).is_dir() => {
                        let expected = "expected a log in an existing directory";
                        report(entry, at, missing_dir(entry, at, &path), expected, "create the directory");
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }
    if let Err(error) = resolved.config.server.settings.engine.choose()
        && let Some(entry) = resolved.entries.iter().find(|entry| entry.option.name == "engine")
    {
        report(entry, 0, error.to_string(), "expected an engine of this host", "use engine = \"auto\"");
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(resolved.file.as_ref(), errors)) }
}

fn missing_dir(entry: &OptionValue, at: usize, path: &Path) -> String {
    match entry.source(at) {
        None => format!("directory {} does not exist", dir(path).printable()),
        Some(_) => format!("the directory of {} does not exist", entry.shown(at)),
    }
}

/// Returns the directory of a path.
fn dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
