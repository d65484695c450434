//! Reads the token of the admin listener, and warns if others can read it: in its file, or on its way.
//!
//! A reload reads the file again.

use super::{
    AdminAt, ConfigErrors, ResolvedConfig,
    passwords::{READ_BY_OTHERS, open},
};
use crate::{Address, AdminToken, UserError, base::error::reason};
use std::path::Path;
use tarpon_site::Printable;

/// Reads the file of the token into the configuration. Returns warnings.
///
/// # Errors
/// The file cannot be read, or has no token.
pub(super) fn load_admin_token(resolved: &mut ResolvedConfig) -> Result<Vec<UserError>, ConfigErrors> {
    let Some(path) = &resolved.config.server.admin_token_file else { return Ok(Vec::new()) };
    match read_admin_token(path) {
        Ok((token, warning)) => {
            resolved.config.server.admin_access.token = Some(token);
            Ok(warning.into_iter().chain(cleartext_warning(&resolved.config.server.admin)).collect())
        }
        Err(found) => {
            let is_entry = |entry: &&super::OptionValue| {
                entry.section.name == "server" && entry.option.name == "admin-token-file"
            };
            let entry = resolved.entries.iter().find(is_entry).expect("the file has an option");
            let hint = format!("create it with: (umask 077; openssl rand -hex 20 > {})", path.printable());
            let error = entry.error(0, found, "expected a file with one line, the token", hint);
            Err(ConfigErrors::new(resolved.file.as_ref(), vec![error]))
        }
    }
}

/// Returns a warning if clients elsewhere send the token to the listener: it has no TLS.
fn cleartext_warning(admin: &AdminAt) -> Option<UserError> {
    match admin {
        AdminAt::At(Address::Tcp(address)) if !address.ip().to_canonical().is_loopback() => {
            Some(UserError::new(
                format_args!("the token of the admin listener travels in clear text to {address}"),
                "the listener has no TLS, and every network on the way can read the token",
                "listen at 127.0.0.1 and put a proxy with TLS in front, or use a Unix socket (docs/admin.md)",
            ))
        }
        _ => None,
    }
}

/// Returns the token in a file, and a warning if every user may read it.
///
/// # Errors
/// The file cannot be read, or has no token. The message does not show its content.
pub(crate) fn read_admin_token(path: &Path) -> Result<(AdminToken, Option<UserError>), String> {
    let (text, mode) =
        open(path).map_err(|error| format!("cannot read {}: {}", path.printable(), reason(&error)))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let token = line.strip_suffix('\r').unwrap_or(line).parse();
    let token = token.map_err(|why: String| format!("{} has no token: {why}", path.printable()))?;
    let warning = (mode & READ_BY_OTHERS != 0).then(|| {
        UserError::new(
            format_args!("the token in {} is no secret", path.printable()),
            "every user of this machine may read the file",
            format_args!("allow its owner alone: chmod 600 {}", path.printable()),
        )
    });
    Ok((token, warning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::config::{CliFlags, CommandKind, ConfigFile, read};
    use std::{fs, os::unix::fs::PermissionsExt};

    /// What it shows; the content and the mode of the file; whether it warns, or a part of the error.
    type TokenCase = (&'static str, Option<String>, u32, Result<bool, &'static str>);

    #[test]
    fn token_is_one_line_of_a_file() {
        const TOKEN: &str = "secret-secret-secret";
        let dir = tempfile::tempdir().unwrap();
        #[rustfmt::skip]
        let cases: &[TokenCase] = &[
            // case             file                              mode    whether it warns, or the error
            ("a line",          Some(format!("{TOKEN}\n")),       0o600,  Ok(false)),
            ("no line end",     Some(TOKEN.into()),               0o640,  Ok(false)),
            ("CRLF",            Some(format!("{TOKEN}\r\n")),     0o600,  Ok(false)),
            ("open to others",  Some(format!("{TOKEN}\n")),       0o644,  Ok(true)),
            ("two lines",       Some(format!("{TOKEN}\n\n")),     0o600,  Err("token has no token: a token consists of letters")),
            ("a space before",  Some(format!(" {TOKEN}\n")),      0o600,  Err("token has no token: a token consists of letters")),
            ("short",           Some("secret\n".into()),          0o600,  Err("token has no token: a token has 20 to 256 characters")),
            ("empty",           Some(String::new()),              0o600,  Err("token has no token: a token has 20 to 256 characters")),
            ("none",            None,                             0o600,  Err("token: no such file or directory")),
        ];
        for (case, content, mode, want) in cases {
            let path = dir.path().join("token");
            let _ = fs::remove_file(&path);
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            let text = "[[site]]\npath = \"public\"\n[server]\nadmin-token-file = \"token\"\n";
            let file = ConfigFile::new(dir.path().join("tarpon.toml"), text.to_owned());
            let mut resolved = read(Some(&file), &CliFlags::default(), CommandKind::Serve).expect(case);
            match (load_admin_token(&mut resolved), want) {
                (Ok(warnings), Ok(want)) => {
                    assert_eq!(!warnings.is_empty(), *want, "{case}");
                    let token = resolved.config.server.admin_access.token.expect(case);
                    assert_eq!(token.secret(), TOKEN, "{case}");
                }
                (Err(errors), Err(want)) => {
                    let line = errors.lines().concat();
                    assert!(line.starts_with("4:20: ") && line.contains(want), "{case}: {line}");
                    assert!(!line.contains("secret"), "{case}: {line}");
                }
                (found, _) => panic!("{case}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_token_that_leaves_the_machine_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "secret-secret-secret\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        #[rustfmt::skip]
        let cases: &[(&str, bool, bool)] = &[
            // admin                          with a token   warns
            ("127.0.0.1:9000",                true,          false),
            ("127.9.0.1:9000",                true,          false),
            ("[::1]:9000",                    true,          false),
            ("[::ffff:127.0.0.1]:9000",       true,          false),
            ("unix:admin.sock",               true,          false),
            ("off",                           true,          false),
            ("192.0.2.7:9000",                true,          true),
            ("0.0.0.0:9000",                  true,          true),
            ("[::]:9000",                     true,          true),
            // There is nothing to read.
            ("192.0.2.7:9000",                false,         false),
        ];
        for (admin, has_token, want) in cases {
            let token = if *has_token { "admin-token-file = \"token\"\n" } else { "" };
            let text = format!("[[site]]\npath = \"public\"\n[server]\nadmin = \"{admin}\"\n{token}");
            let file = ConfigFile::new(dir.path().join("tarpon.toml"), text);
            let mut resolved = read(Some(&file), &CliFlags::default(), CommandKind::Serve).expect(admin);
            let warnings = load_admin_token(&mut resolved).expect(admin);
            let lines: Vec<_> = warnings.iter().map(ToString::to_string).collect();
            let start = format!("the token of the admin listener travels in clear text to {admin}: ");
            assert_eq!(lines.iter().any(|line| line.starts_with(&start)), *want, "{admin}: {lines:?}");
            assert!(lines.iter().all(|line| !line.contains("secret")), "{admin}: {lines:?}");
        }
    }
}
