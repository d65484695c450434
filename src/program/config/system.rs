//! Checks a valid configuration against this system: missing files and engines.
//!
//! Starts nothing: `start` finds what the start itself would refuse.

use super::{ConfigErrors, OptionValue, ResolvedConfig, ValueKind};
use crate::base::error::UserError;
use std::path::Path;
use tarpon_site::Printable;

/// Checks the files and the engine of a configuration, apart from those of sites and listeners.
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
                // The server makes the state directory. The builder looks for the sites.
                ValueKind::Path(_) if is_made_or_served(entry) => {}
                ValueKind::Path(_) if !Path::new(value).exists() => {
                    let found = format!("{} does not exist", entry.shown(at).printable());
                    let hint =
                        "create it, or name another; relative paths start at the directory of the file";
                    report(entry, at, found, "expected an existing path", hint);
                }
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

fn is_made_or_served(entry: &OptionValue) -> bool {
    let (section, option) = (entry.section.name, entry.option.name);
    option == "state-directory" || section == "site" && ["path", "follow-links"].contains(&option)
}

/// Returns a warning for each CGI program that cannot run.
pub(crate) fn cgi_warnings(resolved: &ResolvedConfig) -> Vec<UserError> {
    let sites = resolved.config.sites.iter();
    let directories = sites.flat_map(|site| &site.cgi.directories);
    directories.filter_map(|(_, directory)| stuck_program(directory)).collect()
}

/// Returns the warning about a file in a directory of CGI programs that is not executable.
fn stuck_program(directory: &Path) -> Option<UserError> {
    use std::os::unix::fs::PermissionsExt;
    // This user need not read the directory.
    let entries = std::fs::read_dir(directory).ok()?;
    let file = |entry: std::fs::DirEntry| {
        entry.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| (entry.path(), meta))
    };
    let mut files = entries.flatten().filter_map(file).filter(|(path, _)| !is_hidden(path));
    let (path, _) = files.find(|(_, meta)| meta.permissions().mode() & 0o111 == 0)?;
    let what = format!("clients get 403 for {}", path.printable());
    let hint =
        "allow it, as with chmod +x, or move the file elsewhere: below this path every file is a program";
    Some(UserError::new(what, "it is not executable", hint))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
