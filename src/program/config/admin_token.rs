//! Reads the token of the admin listener, and warns if others can read it.
//!
//! A reload reads the file again.

use super::{
    ConfigErrors, ResolvedConfig,
    passwords::{READ_BY_OTHERS, open},
};
use crate::{AdminToken, UserError, base::error::reason};
use std::path::Path;
use tarpon_site::Printable;

/// Reads the file of the token into the configuration. Returns a warning.
///
/// # Errors
/// The file cannot be read, or has no token.
pub(super) fn load_admin_token(resolved: &mut ResolvedConfig) -> Result<Option<UserError>, ConfigErrors> {
    let Some(path) = &resolved.config.server.admin_token_file else { return Ok(None) };
    match read_admin_token(path) {
        Ok((token, warning)) => {
            resolved.config.server.admin_access.token = Some(token);
            Ok(warning)
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
                (Ok(warning), Ok(want)) => {
                    assert_eq!(warning.is_some(), *want, "{case}");
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
}
