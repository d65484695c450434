//! Users with a password, as another server has them.
//!
//! ```text
//! nginx   auth_basic_user_file ─ a file that tarpon reads ────▶ users-file
//! Caddy   basic_auth { NAME HASH } ─ hashes that tarpon reads ▶ users, in a file that its owner alone may read
//!                                  └─ all others ─────────────▶ a reason, and paths that stay closed
//! ```

use super::{
    plan::{Given, PlannedOption},
    source::{DirectiveOrigin, SourceAccess},
};
use crate::{PasswordUser, config::read_users};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// Whether hashes of passwords may be written into the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashOutput {
    /// Write them. No other user may read the text.
    Write,
    /// Leave them out: their paths stay closed.
    LeaveOut,
}

/// Users, and what else a section needs that lets them in.
#[derive(Clone, Debug, Default)]
pub(super) struct PlannedUsers {
    pub(super) origin: DirectiveOrigin,
    /// Lines `NAME:HASH`.
    pub(super) users: Vec<Given>,
    /// A file of such lines.
    pub(super) file: Option<Given>,
    pub(super) realm: Option<Given>,
    /// `allow` and `deny`: clients need an address and a password.
    pub(super) addresses: Vec<PlannedOption>,
}

/// Which clients may read the paths of a route, as far as passwords decide.
#[derive(Clone, Debug, Default)]
pub(super) enum RouteUsers {
    /// Whatever holds for shorter paths.
    #[default]
    Inherit,
    /// All: no directive asks for a password here.
    Anyone,
    /// Those of a list.
    Listed(Box<PlannedUsers>),
    /// None: what protects the paths has no counterpart.
    Nobody,
}

/// Why users are not carried over, with a hint.
pub(super) struct UsersRefused {
    pub(super) why: String,
    pub(super) hint: String,
}

impl PlannedUsers {
    /// Returns whether both lists have the same users, and ask with the same text.
    pub(super) fn is_same(&self, other: &PlannedUsers) -> bool {
        let values = |of: &PlannedUsers| {
            let lists = of.users.iter().chain(&of.file).chain(&of.realm);
            lists.map(|given| given.value.clone()).collect::<Vec<_>>()
        };
        values(self) == values(other)
    }
}

impl RouteUsers {
    /// Returns whether a directive keeps clients out.
    pub(super) fn are_protected(&self) -> bool {
        matches!(self, RouteUsers::Listed(_) | RouteUsers::Nobody)
    }
}

/// The files of users that nginx reads.
#[derive(Debug)]
pub(super) struct UsersFiles {
    access: SourceAccess,
    /// Where relative names lead: the directory of the main file, and its parent.
    dirs: Vec<PathBuf>,
}

impl Default for UsersFiles {
    /// Reads nothing.
    fn default() -> UsersFiles {
        UsersFiles { access: SourceAccess::Nothing, dirs: Vec::new() }
    }
}

impl UsersFiles {
    /// Returns the files that the configuration with this main file names.
    pub(super) fn new(access: SourceAccess, main: &Path) -> UsersFiles {
        let dir = main.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dirs = match access {
            SourceAccess::Files => fs::canonicalize(dir).ok(),
            SourceAccess::Nothing => None,
        };
        let dirs = dirs.into_iter().flat_map(|dir| [Some(dir.clone()), dir.parent().map(Path::to_owned)]);
        UsersFiles { access, dirs: dirs.flatten().collect() }
    }

    /// Returns the absolute path of a file, if tarpon reads each user in it.
    ///
    /// # Errors
    /// The file is unreadable, or has a line that tarpon refuses. No message shows a part of a line.
    pub(super) fn check(&self, name: &str) -> Result<String, UsersRefused> {
        let candidates: Vec<PathBuf> = match Path::new(name).is_absolute() {
            true => vec![PathBuf::from(name)],
            false => self.dirs.iter().map(|dir| dir.join(name)).collect(),
        };
        let found = candidates.iter().find(|path| self.access == SourceAccess::Files && path.exists());
        let Some(path) = found.or(candidates.first()).and_then(|path| path.to_str()) else {
            let why = format!("there is no file {}", name.printable());
            return Err(UsersRefused { why, hint: absent_hint(name) });
        };
        if self.access == SourceAccess::Nothing {
            let why = format!("{} was not read", path.printable());
            return Err(UsersRefused { why, hint: absent_hint(path) });
        }
        match read_users(Path::new(path)) {
            Ok(users) => {
                let mut refused = users.iter().filter_map(|(line, user)| Some((line, user.as_ref().err()?)));
                if let Some((line, error)) = refused.next() {
                    let more = match refused.count() {
                        0 => String::new(),
                        count => format!(", and {count} more of its lines are refused"),
                    };
                    let why = format!("{}:{line}: {}{more}", path.printable(), error.why);
                    return Err(UsersRefused { why, hint: renew_hint(&path.printable().to_string()) });
                }
                let users: Vec<&PasswordUser> =
                    users.iter().filter_map(|(_, user)| user.as_ref().ok()).collect();
                match refused_list(&users) {
                    Some(why) => Err(UsersRefused {
                        why: format!("{}: {why}", path.printable()),
                        hint: "correct the file, and import again".to_owned(),
                    }),
                    None => Ok(path.to_owned()),
                }
            }
            Err(reason) => {
                let why = format!("cannot read {}: {reason}", path.printable());
                Err(UsersRefused { why, hint: absent_hint(path) })
            }
        }
    }
}

/// Returns users of lines `NAME HASH`.
///
/// # Errors
/// A hash is none that tarpon reads, or `output` allows none. No message shows a hash.
pub(super) fn listed(lines: &[(&str, &str, Given)], output: HashOutput) -> Result<Vec<Given>, UsersRefused> {
    let mut given = Vec::new();
    let mut users = Vec::new();
    for (name, hash, line) in lines {
        let text = format!("{name}:{}", plain_hash(hash));
        match text.parse::<PasswordUser>() {
            Ok(user) => users.push(user),
            Err(error) => {
                let why = format!("the user {}: {}", name.printable(), error.why);
                return Err(UsersRefused { why, hint: renew_hint("the list") });
            }
        }
        given.push(Given { value: text, origin: line.origin.clone() });
    }
    if let Some(why) = refused_list(&users.iter().collect::<Vec<_>>()) {
        return Err(UsersRefused { why, hint: "correct the list, and import again".to_owned() });
    }
    if output == HashOutput::LeaveOut {
        let why = "standard output has no hashes, as a file of it may be readable for others".to_owned();
        let hint = "name a file with --output, which its owner alone may read".to_owned();
        return Err(UsersRefused { why, hint });
    }
    Ok(given)
}

/// Returns a hash without the base64 that Caddy has put around it before version 2.6.
fn plain_hash(hash: &str) -> String {
    let decoded = BASE64_STANDARD.decode(hash).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.filter(|text| text.starts_with('$')).unwrap_or_else(|| hash.to_owned())
}

/// Returns why tarpon refuses a list of valid users.
fn refused_list(users: &[&PasswordUser]) -> Option<String> {
    let mut count_by_name: BTreeMap<&str, usize> = BTreeMap::new();
    users.iter().for_each(|user| *count_by_name.entry(user.name()).or_default() += 1);
    let twice = count_by_name.iter().find(|(_, count)| **count > 1);
    match (twice, users.is_empty()) {
        (Some((name, _)), _) => Some(format!("the user {} occurs twice", name.printable())),
        (None, true) => Some("it has no user".to_owned()),
        (None, false) => None,
    }
}

/// Returns how a prefix that ends within a segment differs: nginx and Caddy compare characters, and tarpon segments.
pub(super) fn segment_remark(prefix: &str) -> String {
    format!("{prefix} and the paths below it are protected, and not others that begin so, such as {prefix}b")
}

fn absent_hint(path: &str) -> String {
    let path = path.printable();
    format!(
        "import as a user that may read it, or write users-file = \"{path}\" in its place once tarpon can read it (docs/passwords.md)"
    )
}

fn renew_hint(place: &str) -> String {
    format!(
        "make new hashes for such users of {place}, with `tarpon hash-password --user NAME` or `htpasswd -B`, and import again (docs/passwords.md)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::import::source::DirectiveOrigin;

    const BCRYPT: &str = "$2y$04$......................LAtw7/ohmmBAhnXqmkuIz83Rl5Qdjhm";
    const ARGON2: &str =
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$pz8MrR3jEBFzHHXPmrpVJ6yfFgh5aGbMLNjJBJwlN+0";

    #[test]
    fn files_are_carried_over_if_every_line_is_a_user() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("sites-enabled/a.conf");
        fs::create_dir(main.parent().unwrap()).unwrap();
        #[rustfmt::skip]
        let cases: &[(&str, Option<String>, &str)] = &[
            // case           the file                                            part of the reason; empty: carried over
            ("bcrypt",        Some(format!("ann:{BCRYPT}\n")),                    ""),
            ("argon2id",      Some(format!("# users\n\nann:{ARGON2}\n")),         ""),
            ("MD5",           Some("ann:$apr1$secret$secret\n".into()),           "users:1: it is a hash by MD5 (apr1)"),
            ("one of three",  Some(format!("ann:{BCRYPT}\nbob:{{SHA}}secret\neve:$6$secret\n")), "users:2: it is a hash by SHA-1; expected one by argon2id or bcrypt, and 1 more of its lines"),
            ("crypt",         Some("ann:$6$secret$secret\n".into()),              "SHA-512"),
            ("DES",           Some("ann:secretsecret1\n".into()),                 "perhaps a password or a hash by DES"),
            ("plain",         Some("ann:{PLAIN}secret\n".into()),                 "it is no hash"),
            ("a comment",     Some(format!("ann:{BCRYPT}:secret\n")),             "malformed"),
            ("twice",         Some(format!("ann:{BCRYPT}\nann:{BCRYPT}\n")),      "users: the user ann occurs twice"),
            ("no user",       Some("# none\n".into()),                            "users: it has no user"),
            ("no file",       None,                                               "no such file or directory"),
        ];
        let path = dir.path().join("users");
        for (case, text, want) in cases {
            let _ = fs::remove_file(&path);
            if let Some(text) = text {
                fs::write(&path, text).unwrap();
            }
            // A relative name leads from the file of a site to the directory above.
            for name in [path.to_str().unwrap(), "users"] {
                match (UsersFiles::new(SourceAccess::Files, &main).check(name), *want) {
                    (Ok(found), "") => {
                        assert_eq!(fs::canonicalize(&path).unwrap(), Path::new(&found), "{case}")
                    }
                    (Err(UsersRefused { why, hint }), want) => {
                        assert!(!want.is_empty() && why.contains(want), "{case}, {name}: {why}");
                        assert!(!why.contains("secret") && !hint.contains("secret"), "{case}: {why}; {hint}");
                    }
                    (Ok(found), want) => panic!("{case}: {found}, and not {want}"),
                }
            }
            let refused = UsersFiles::new(SourceAccess::Nothing, &main).check("users");
            assert!(refused.is_err(), "{case}: a file that is not read is not carried over");
        }
    }

    /// What it shows; lines; the users, or a part of the reason.
    type UserListCase<'a> = (&'a str, &'a [(&'a str, &'a str)], Result<&'a [&'a str], &'a str>);

    #[test]
    fn lists_are_carried_over_to_a_file_alone() {
        let old = BASE64_STANDARD.encode(BCRYPT);
        let bcrypt = format!("ann:{BCRYPT}");
        let argon2 = format!("ann:{ARGON2}");
        #[rustfmt::skip]
        let cases: &[UserListCase] = &[
            // case      lines                               users, or a part of the reason
            ("bcrypt",   &[("ann", BCRYPT)],                  Ok(&[&bcrypt])),
            ("argon2id", &[("ann", ARGON2)],                  Ok(&[&argon2])),
            ("base64",   &[("ann", &old)],                    Ok(&[&bcrypt])),
            ("scrypt",   &[("ann", "c2VjcmV0")],              Err("the user ann: it is no hash")),
            ("a later",  &[("ann", BCRYPT), ("bob", "secret")], Err("the user bob: it is no hash")),
            ("variable", &[("ann", "{env.SECRET}")],          Err("the user ann: it is no hash")),
            ("no hash",  &[("ann", "")],                      Err("the hash is missing")),
            ("twice",    &[("ann", BCRYPT), ("ann", ARGON2)], Err("the user ann occurs twice")),
            ("none",     &[],                                 Err("it has no user")),
        ];
        for (case, lines, want) in cases {
            let given = Given::new("", &DirectiveOrigin::default());
            let lines: Vec<_> = lines.iter().map(|(name, hash)| (*name, *hash, given.clone())).collect();
            let found = listed(&lines, HashOutput::Write);
            match (&found, want) {
                (Ok(found), Ok(want)) => {
                    let found: Vec<&str> = found.iter().map(|given| given.value.as_str()).collect();
                    assert_eq!(found, *want, "{case}");
                }
                (Err(found), Err(want)) => assert!(found.why.contains(want), "{case}: {}", found.why),
                _ => panic!("{case}: {:?}", found.map_err(|refused| refused.why)),
            }
            if let Err(UsersRefused { why, hint }) = listed(&lines, HashOutput::LeaveOut) {
                assert!(!why.contains("$2y$") && !hint.contains("$2y$"), "{case}: {why}");
            } else {
                panic!("{case}: hashes were written");
            }
        }
    }
}
