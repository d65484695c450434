//! What is wrong with a configuration though it contradicts itself nowhere: what only the system knows, and tells at once.
//!
//! Starts nothing, and reads no site: what a server finds when it begins, it tells by itself.

use super::{ConfigErrors, OptionValue, ResolvedConfig, ValueKind};
use crate::{Address, LogTarget};
use std::path::Path;
use tarpon_site::Printable;

/// Asks the system about paths, addresses and engines that a configuration names.
///
/// # Errors
/// All that this system does not have.
pub fn look(settled: &ResolvedConfig) -> Result<(), ConfigErrors> {
    let mut faults = Vec::new();
    let mut missing = |said: &OptionValue, at, found: String, expected: &str, remedy: &str| {
        faults.push(said.fault(at, found, expected, remedy));
    };
    for said in settled.said.iter().filter(|said| said.number.is_some()) {
        for (at, value) in said.values.iter().enumerate() {
            match said.option.kind {
                ValueKind::Path(_) if !Path::new(value).exists() => {
                    let found = format!("there is no {}", value.printable());
                    missing(
                        said,
                        at,
                        found,
                        "expected a path that exists",
                        "name one; it begins where the file is",
                    );
                }
                ValueKind::Address(_) | ValueKind::AddressOrOff(_) => match value.parse() {
                    Ok(Address::Unix(path)) if !dir(&path).is_dir() => {
                        let found = format!("there is no directory {}", dir(&path).printable());
                        missing(
                            said,
                            at,
                            found,
                            "expected a socket in a directory that exists",
                            "make it first",
                        );
                    }
                    Ok(address) if !address.is_supported() => {
                        let found = format!("{} is no address of this host", value.printable());
                        let remedy = "name one, such as 127.0.0.1, or 0.0.0.0 for all of them";
                        missing(said, at, found, "expected an address that this host has", remedy);
                    }
                    _ => {}
                },
                ValueKind::Target(_) => match value.parse() {
                    Ok(LogTarget::File(path) | LogTarget::Socket(path)) if !dir(&path).is_dir() => {
                        let found = format!("there is no directory {}", dir(&path).printable());
                        missing(
                            said,
                            at,
                            found,
                            "expected a log in a directory that exists",
                            "make it first",
                        );
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }
    if let Err(trouble) = settled.config.server.settings.engine.choose()
        && let Some(said) = settled.said.iter().find(|said| said.option.name == "engine")
    {
        missing(said, 0, trouble.to_string(), "expected an engine that this host offers", "leave it to auto");
    }
    if faults.is_empty() { Ok(()) } else { Err(ConfigErrors::new(settled.file.as_ref(), faults)) }
}

/// The directory that a path is in.
fn dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
