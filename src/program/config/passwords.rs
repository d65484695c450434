//! Reads the users of paths with a password, and warns of what makes passwords known to others.
//!
//! ```text
//! users-file = "users" ─ read ─┐
//! users = ["ann:$argon2id$…"] ─┴─▶ PathLimit::passwords ─▶ the server, which opens no file of users
//! ```
//!
//! A reload reads the files again.

use super::{
    Config, ConfigError, ConfigErrors, ConfigFile, OptionValue, ResolvedConfig, conflict::entries_of,
};
use crate::{
    Address, LimitChoice, PasswordLimit, PasswordUser, PathLimit, Service, UserError, base::error::reason,
};
use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// A file of users, and the paths that they may read.
#[derive(Clone, Debug)]
pub struct UsersFile {
    /// The file.
    pub path: PathBuf,
    /// The number of the site.
    pub site: usize,
    /// The number of the section among those of the site.
    pub section: usize,
}

/// A line of a file of users: its number, and the user.
pub(crate) type UserLine = (usize, Result<PasswordUser, crate::InvalidPasswordUser>);

/// The length of the longest file: some thousands of users.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// The permission of other users to read a file.
pub(super) const READ_BY_OTHERS: u32 = 0o004;

impl Config {
    /// Returns the passwords of the paths that were added last.
    pub(super) fn path_passwords(&mut self) -> &mut PasswordLimit {
        let passwords = &mut self.path_limit().passwords;
        if !matches!(passwords, Some(LimitChoice::At(_))) {
            *passwords = Some(LimitChoice::At(PasswordLimit::default()));
        }
        match passwords {
            Some(LimitChoice::At(limit)) => limit,
            _ => unreachable!("it was set"),
        }
    }

    /// Adds a file of users for the paths that were added last.
    pub(super) fn add_users_file(&mut self, path: PathBuf) {
        self.path_passwords();
        let site = self.sites.len() - 1;
        let section = self.sites[site].path_limits.len() - 1;
        self.users_files.push(UsersFile { path, site, section });
    }
}

/// Adds an error for each user that is invalid, and for options that contradict each other.
pub(super) fn find_conflicts(
    file: Option<&ConfigFile>,
    entries: &[OptionValue],
    errors: &mut Vec<ConfigError>,
) {
    let beside = |entry: &OptionValue, name: &str| {
        entries.iter().find(|other| {
            (other.section.name, other.option.name) == ("site.limit", name)
                && (other.number, &other.within) == (entry.number, &entry.within)
                && !other.spans.is_empty()
        })
    };
    for users in entries_of(entries, "site.limit", &["users"]) {
        let mut names = HashSet::new();
        for (at, value) in users.values.iter().enumerate() {
            // The message shows neither a hash nor what may be a password.
            match value.parse::<PasswordUser>() {
                Err(error) => errors.push(users.error(
                    at,
                    format!("value {} of `users` is no user: {}", at + 1, error.why),
                    "expected NAME:HASH",
                    error.hint,
                )),
                Ok(user) if !names.insert(user.name().to_owned()) => errors.push(users.error(
                    at,
                    format!("the user {} occurs twice", user.name().printable()),
                    "expected each name once",
                    "remove one of both",
                )),
                Ok(_) => {}
            }
        }
    }
    for realm in entries_of(entries, "site.limit", &["realm"]).filter(|entry| !entry.spans.is_empty()) {
        if beside(realm, "users").is_none() && beside(realm, "users-file").is_none() {
            let hint = "add users-file = \"users\" beside it, or remove realm";
            errors.push(realm.error(
                0,
                "`realm` has no users",
                "expected `users` or `users-file` beside it",
                hint,
            ));
        }
    }
    for off in entries_of(entries, "site.limit", &["passwords"]) {
        let is_off = off.values.first().is_some_and(|value| value == "off");
        if let Some(users) = beside(off, "users").or_else(|| beside(off, "users-file")).filter(|_| is_off) {
            let found = format!("these paths have `{}`, and need no password", users.option.name);
            let place = super::conflict::place_of(file, users, off);
            errors.push(off.error(0, found, place, "remove one of both"));
        }
    }
}

/// Reads the files of users into the configuration. Returns warnings.
///
/// # Errors
/// Each file that cannot be used, with the first line that is no user.
pub(super) fn load_users(resolved: &mut ResolvedConfig) -> Result<Vec<UserError>, ConfigErrors> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for UsersFile { path, site, section } in &resolved.config.users_files {
        let limit = &mut resolved.config.sites[*site].path_limits[*section];
        match read(path, limit) {
            Ok(warning) => warnings.extend(warning),
            Err((found, hint)) => {
                let is_entry = |entry: &&OptionValue| {
                    entry.section.name == "site.limit"
                        && entry.option.name == "users-file"
                        && (entry.number, &entry.within[..]) == (Some(*section), &[*site][..])
                };
                let entry = resolved.entries.iter().find(is_entry).expect("the file has an option");
                errors.push(entry.error(0, found, "expected a file with lines NAME:HASH", hint));
            }
        }
    }
    if errors.is_empty() { Ok(warnings) } else { Err(ConfigErrors::new(resolved.file.as_ref(), errors)) }
}

/// Adds the users of a file to those of some paths. Returns a warning.
fn read(path: &Path, limit: &mut PathLimit) -> Result<Option<UserError>, (String, String)> {
    let (text, mode) = open(path).map_err(|error| {
        let found = format!("cannot read {}: {}", path.printable(), reason(&error));
        (found, "create it with: tarpon hash-password --user NAME >> FILE".to_owned())
    })?;
    let Some(LimitChoice::At(PasswordLimit { users, .. })) = &mut limit.passwords else { return Ok(None) };
    let mut names: HashSet<String> = users.iter().map(|user| user.name().to_owned()).collect();
    for (line, user) in parse_users(&text) {
        let place = format!("{}:{line}", path.printable());
        let user = user.map_err(|error| (format!("{place}: {}", error.why), error.hint.to_owned()))?;
        if !names.insert(user.name().to_owned()) {
            let found = format!("{place}: the user {} occurs twice", user.name().printable());
            return Err((found, "remove one of both".to_owned()));
        }
        users.push(user);
    }
    if users.is_empty() {
        let hint = "add a user with: tarpon hash-password --user NAME >> FILE".to_owned();
        return Err((format!("{} has no user", path.printable()), hint));
    }
    let is_open = mode & READ_BY_OTHERS != 0;
    Ok(is_open.then(|| {
        UserError::new(
            format_args!("the hashes in {} are no secret", path.printable()),
            "every user of this machine may read the file",
            format_args!("allow its owner alone: chmod 600 {}", path.printable()),
        )
    }))
}

/// Returns the users of a file, each with the number of its line.
///
/// # Errors
/// Why the file cannot be read.
pub(crate) fn read_users(path: &Path) -> Result<Vec<UserLine>, String> {
    match open(path) {
        Ok((text, _)) => Ok(parse_users(&text).collect()),
        Err(error) => Err(reason(&error)),
    }
}

/// Returns the content and the mode of a file.
pub(super) fn open(path: &Path) -> io::Result<(String, u32)> {
    // Without a wait for the writer of a pipe.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if metadata.len() > FILE_LEN_MAX {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    let mut text = String::new();
    file.take(FILE_LEN_MAX).read_to_string(&mut text)?;
    Ok((text, metadata.mode()))
}

/// Returns the users of a file, each with the number of its line. Empty lines and lines with `#` have none.
pub(crate) fn parse_users(text: &str) -> impl Iterator<Item = UserLine> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim_end()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| (number, line.parse()))
}

/// Returns a warning if clients elsewhere may send passwords that others can read on their way.
pub(crate) fn cleartext_warning(service: &Service) -> Option<UserError> {
    let has_passwords = |limit: &PathLimit| matches!(limit.passwords, Some(LimitChoice::At(_)));
    let site = service.sites.iter().find(|site| {
        !site.redirects_to_https.unwrap_or(false) && site.path_limits.iter().any(has_passwords)
    })?;
    // A proxy may encrypt in front of this server.
    if !service.settings.proxy_trust.proxies.is_empty() {
        return None;
    }
    let has_tls = |address: &Address| service.tls.listeners.iter().any(|(known, _)| known == address);
    let is_remote =
        |address: &&Address| matches!(address, Address::Tcp(address) if !address.ip().is_loopback());
    let named: Vec<Address> = site.listen.iter().flat_map(crate::ListenAddress::addresses).collect();
    let addresses = if named.is_empty() { &service.addresses } else { &named };
    let address = addresses.iter().find(|address| is_remote(address) && !has_tls(address))?;
    Some(UserError::new(
        format_args!("passwords travel in clear text to {address}"),
        "the listener has no TLS, and the site has paths with passwords",
        "listen with tls:, or set redirect-to-https = true in [[site]]",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::config::{CliFlags, CommandKind, read as read_config};
    use std::{fs, os::unix::fs::PermissionsExt};

    const HASH: &str = "$2y$04$......................LAtw7/ohmmBAhnXqmkuIz83Rl5Qdjhm";

    /// What it shows; the file, users in the configuration too, the mode of the file; the users, or a part of the error.
    type UsersCase = (&'static str, Option<String>, bool, u32, Result<&'static [&'static str], &'static str>);

    #[test]
    fn files_of_users_are_read_or_refused_with_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let config = "[[site]]\npath = \"public\"\n[[site.limit]]\npath = \"/a\"\nusers-file = \"users\"\n";
        let inline = format!("users = [\"bob:{HASH}\"]\n");
        #[rustfmt::skip]
        let cases: &[UsersCase] = &[
            // case               users                                                inline  mode    users, or the error
            ("one",               Some(format!("ann:{HASH}")),                         false,  0o600,  Ok(&["ann"])),
            ("beside another",    Some(format!("ann:{HASH}\n")),                       true,   0o600,  Ok(&["bob", "ann"])),
            ("comments",          Some(format!("# users\n\nann:{HASH}\r\n  \n#\n")),   false,  0o640,  Ok(&["ann"])),
            ("open to others",    Some(format!("ann:{HASH}\n")),                       false,  0o644,  Ok(&["ann", "warning"])),
            ("twice",             Some(format!("ann:{HASH}\nann:{HASH}\n")),           false,  0o600,  Err("users:2: the user ann occurs twice")),
            ("twice in all",      Some(format!("bob:{HASH}\n")),                       true,   0o600,  Err("users:1: the user bob occurs twice")),
            ("a password",        Some(format!("ann:{HASH}\n\nbob:secret\n")),         false,  0o600,  Err("users:3: it is no hash by argon2id or bcrypt, but perhaps a password or a hash by DES; expected one by argon2id or bcrypt")),
            ("MD5",               Some("ann:$apr1$a$b\n".into()),                      false,  0o600,  Err("users:1: it is a hash by MD5 (apr1); expected one by argon2id or bcrypt")),
            ("empty",             Some("# nobody\n".into()),                           false,  0o600,  Err("users has no user")),
            ("too long",          Some("#".repeat(FILE_LEN_MAX as usize + 1)),         false,  0o600,  Err("users: it is longer than 1 MiB")),
            ("none",              None,                                                false,  0o600,  Err("users: no such file or directory")),
        ];
        for (case, users, has_inline, mode, want) in cases {
            let path = dir.path().join("users");
            let _ = fs::remove_file(&path);
            if let Some(users) = users {
                fs::write(&path, users).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            let text = if *has_inline { format!("{config}{inline}") } else { config.to_owned() };
            let file = ConfigFile::new(dir.path().join("tarpon.toml"), text);
            let mut resolved =
                read_config(Some(&file), &CliFlags::default(), CommandKind::Serve).expect(case);
            match (load_users(&mut resolved), want) {
                (Ok(warnings), Ok(want)) => {
                    let Some(LimitChoice::At(limit)) = &resolved.config.sites[0].path_limits[0].passwords
                    else {
                        panic!("{case}: no passwords")
                    };
                    let names = limit.users.iter().map(PasswordUser::name);
                    let found: Vec<_> = names.chain(warnings.iter().map(|_| "warning")).collect();
                    assert_eq!(found, *want, "{case}");
                }
                (Err(errors), Err(want)) => {
                    let line = errors.lines().concat();
                    assert!(line.starts_with("5:14: ") && line.contains(want), "{case}: {line}");
                    assert!(!line.contains("secret"), "{case}: {line}");
                }
                (found, _) => panic!("{case}: {found:?}"),
            }
        }
    }
}
