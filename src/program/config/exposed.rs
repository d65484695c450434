//! Finds files of the server itself that a site would serve to every client: the configuration, logs, sockets.
//!
//! A directory is served without the names in it that begin with a dot, and with `.well-known`.

use super::{ConfigErrors, OptionValue, ResolvedConfig, ValueKind};
use crate::{Address, ListenAddress, ListenValue, LogTarget};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// Checks that no site serves a file of the server itself.
///
/// # Errors
/// Each file that lies in the directory of a site, or in one that its links may lead into.
pub fn check_exposed(resolved: &ResolvedConfig) -> Result<(), ConfigErrors> {
    let served: Vec<ServedDir<'_>> = resolved.entries.iter().flat_map(ServedDir::all).collect();
    let mut errors = Vec::new();
    if let Some(file) = &resolved.file
        && let Some(dir) = find(&served, &file.path)
    {
        let found = exposed(&file.path, dir);
        errors.push(dir.entry.error(dir.at, found, EXPECTED, HINT));
    }
    for entry in resolved.entries.iter().filter(|entry| entry.number.is_some()) {
        for (at, value) in entry.values.iter().enumerate() {
            if let Some(own) = own_path(entry, value)
                && let Some(dir) = find(&served, &own)
            {
                errors.push(entry.error(at, exposed(&own, dir), EXPECTED, HINT));
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(resolved.file.as_ref(), errors)) }
}

const EXPECTED: &str = "expected files of the server outside of the directories of sites";
const HINT: &str = "keep the site in a directory of its own, such as public, or move the file out of it";

fn exposed(own: &Path, dir: &ServedDir<'_>) -> String {
    format!("{} lies in the directory {}, whose files a site serves", own.printable(), dir.value.printable())
}

/// A directory that clients can read.
struct ServedDir<'a> {
    /// Without symbolic links.
    real: PathBuf,
    entry: &'a OptionValue,
    /// The index of its value.
    at: usize,
    value: &'a str,
}

impl<'a> ServedDir<'a> {
    /// Returns the directories that an option names for clients.
    fn all(entry: &'a OptionValue) -> impl Iterator<Item = ServedDir<'a>> {
        let is_served = entry.number.is_some() && is_served(entry);
        let values = entry.values.iter().enumerate().filter(move |_| is_served);
        values.filter_map(move |(at, value)| {
            // A directory that does not exist, or cannot be reached, is not served.
            let real = Path::new(value).canonicalize().ok().filter(|real| real.is_dir())?;
            Some(ServedDir { real, entry, at, value })
        })
    }
}

fn is_served(entry: &OptionValue) -> bool {
    entry.section.name == "site" && ["path", "follow-links"].contains(&entry.option.name)
}

/// Returns the path of a file that the server reads or writes for itself.
fn own_path(entry: &OptionValue, value: &str) -> Option<PathBuf> {
    match entry.option.kind {
        ValueKind::Path(_) => (!is_served(entry)).then(|| value.into()),
        ValueKind::Target(_) => match value.parse() {
            Ok(LogTarget::File(path)) => Some(path),
            _ => None,
        },
        ValueKind::AddressOrOff(_) | ValueKind::Listen(_) => match ListenValue::address_text(value).parse() {
            Ok(ListenAddress::One(Address::Unix(path))) => Some(path),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the directory that contains a file among those that it serves. The file need not exist yet.
fn find<'s, 'a>(served: &'s [ServedDir<'a>], file: &Path) -> Option<&'s ServedDir<'a>> {
    let real = file.canonicalize().or_else(|_| {
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok::<_, std::io::Error>(dir.canonicalize()?.join(file.file_name().unwrap_or_default()))
    });
    let real = real.ok()?;
    let is_hidden = |name: &OsStr| name.as_bytes().starts_with(b".") && name != ".well-known";
    served.iter().find(|dir| real.strip_prefix(&dir.real).is_ok_and(|below| !below.iter().any(is_hidden)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::config::{CliFlags, CommandKind, ConfigFile, read};
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn file_that_a_site_would_serve_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["public/logs", "public/.cache", "public/.well-known", "releases/7", "run"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        symlink("releases/7", dir.join("current")).unwrap();
        symlink("public", dir.join("elsewhere")).unwrap();
        let log = "[log]\naccess-log = ";
        #[rustfmt::skip]
        let cases: &[(&str, String, &[&str])] = &[
            // case                  configuration                                                     refused
            ("beside the site",      "[[site]]\npath = \"public\"".into(),                             &[]),
            ("itself",               "[[site]]\npath = \".\"".into(),                                  &["2:8: DIR/tarpon.toml lies in the directory DIR/., whose files a site serves"]),
            ("itself, default path", String::new(),                                                    &[]),
            ("a log elsewhere",      format!("[[site]]\npath = \"public\"\n{log}\"run/log\""),         &[]),
            ("a log",                format!("[[site]]\npath = \"public\"\n{log}\"public/logs/a\""),   &["4:14: DIR/public/logs/a lies in the directory DIR/public, whose files a site serves"]),
            ("a log behind a link",  format!("[[site]]\npath = \"public\"\n{log}\"elsewhere/a\""),     &["4:14: DIR/elsewhere/a lies in the directory DIR/public, whose files a site serves"]),
            ("a site behind a link", format!("[[site]]\npath = \"current\"\n{log}\"releases/7/a\""),   &["4:14: DIR/releases/7/a lies in the directory DIR/current, whose files a site serves"]),
            ("beside a release",     format!("[[site]]\npath = \"current\"\n{log}\"releases/a\""),     &[]),
            ("a hidden log",         format!("[[site]]\npath = \"public\"\n{log}\"public/.cache/a\""), &[]),
            ("a hidden name",        format!("[[site]]\npath = \"public\"\n{log}\"public/.log\""),     &[]),
            ("well-known",           format!("[[site]]\npath = \"public\"\n{log}\"public/.well-known/a\""), &["4:14: DIR/public/.well-known/a lies in the directory DIR/public, whose files a site serves"]),
            ("the log of a site",    "[[site]]\npath = \"public\"\naccess-log = \"public/a\"".into(),  &["3:14: DIR/public/a lies in the directory DIR/public, whose files a site serves"]),
            ("a key",                "[[site]]\npath = \"public\"\ntls-cert = [\"public/c\"]\ntls-key = [\"public/logs/k\"]\n[[listener]]\naddress = \"tls:443\"".into(),
                &["3:13: DIR/public/c lies in the directory DIR/public, whose files a site serves", "4:12: DIR/public/logs/k lies in the directory DIR/public, whose files a site serves"]),
            ("certificates by ACME", "[[site]]\npath = \"public\"\n[server]\nstate-directory = \"public/state\"".into(),
                &["4:19: DIR/public/state lies in the directory DIR/public, whose files a site serves"]),
            ("sockets",              "[[site]]\npath = \"public\"\n[[listener]]\naddress = \"unix:public/a\"\n[server]\nadmin = \"unix:public/b\"".into(),
                &["4:11: DIR/public/a lies in the directory DIR/public, whose files a site serves", "6:9: DIR/public/b lies in the directory DIR/public, whose files a site serves"]),
            ("a log elsewhere",      format!("[[site]]\npath = \"public\"\n{log}\"unix:public/a\""),   &[]),
            ("no directory",         format!("[[site]]\npath = \"none\"\n{log}\"none/a\""),            &[]),
        ];
        for (name, text, want) in cases {
            let file = ConfigFile::new(dir.join("tarpon.toml"), text.clone());
            fs::write(&file.path, text).unwrap();
            let resolved = read(Some(&file), &CliFlags::default(), CommandKind::Serve).expect(name);
            let found = check_exposed(&resolved).map_or_else(|errors| errors.lines(), |()| Vec::new());
            let tail = format!("; {EXPECTED}; {HINT}");
            let want: Vec<_> =
                want.iter().map(|line| line.replace("DIR", &dir.printable().to_string()) + &tail).collect();
            assert_eq!(found, want, "{name}");
        }
    }
}
