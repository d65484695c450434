//! Checks a valid configuration against this system: missing paths, foreign addresses, missing engines.
//!
//! Starts nothing and reads no site: the server itself reports what it finds when it starts.

use super::{ConfigErrors, OptionValue, ResolvedConfig, ServerConfig, ValueKind};
use crate::{
    Address, ListenValue, LogTarget,
    base::error::UserError,
    control::{cgi::service::program_user, sandbox::Privileges},
};
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
                ValueKind::MountedDirectory(_) => {
                    let (_, directory) = value.split_once('=').unwrap_or_default();
                    if let Some((found, hint)) = cgi_error(Path::new(directory)) {
                        report(entry, at, found, "expected a directory of programs", hint);
                    }
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
    let is_cgi =
        |entry: &&OptionValue| ["cgi", "cgi-suffix"].contains(&entry.option.name) && !entry.values.is_empty();
    if let Some(entry) = resolved.entries.iter().filter(|entry| entry.number.is_some()).find(is_cgi)
        && let Err(error) = check_program_user(&resolved.config.server)
    {
        let (found, hint) = error.found_and_hint();
        report(entry, 0, found, "expected a user for the programs", hint);
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

/// Checks the user that CGI programs run as. Errors of the server's own user come at the start.
fn check_program_user(server: &ServerConfig) -> Result<(), UserError> {
    match Privileges::new(server.user.as_deref(), server.sandbox) {
        Ok(of_server) => program_user(&server.cgi, &of_server).map(drop),
        Err(_) => Ok(()),
    }
}

/// Returns what is wrong with a directory of CGI programs, and a hint.
fn cgi_error(directory: &Path) -> Option<(String, &'static str)> {
    use std::os::unix::fs::PermissionsExt;
    let shown = directory.printable();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(_) if !directory.exists() => {
            let hint = "create it, or name another; relative paths start at the directory of the file";
            return Some((format!("{shown} does not exist"), hint));
        }
        Err(_) if !directory.is_dir() => {
            return Some((format!("{shown} is no directory"), "name a directory"));
        }
        // This user need not read it.
        Err(_) => return None,
    };
    let file = |entry: std::fs::DirEntry| {
        entry.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| (entry.path(), meta))
    };
    let mut files = entries.flatten().filter_map(file).filter(|(path, _)| !is_hidden(path));
    let stuck = files.find(|(_, meta)| meta.permissions().mode() & 0o111 == 0);
    stuck.map(|(path, _)| {
        let hint =
            "allow it, as with chmod +x, or move the file elsewhere: below this path every file is a program";
        (format!("{} is not executable", path.printable()), hint)
    })
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Returns the directory of a path.
fn dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
