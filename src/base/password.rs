//! Hashes of passwords, and users with such a hash: read, checked, verified, made.
//!
//! ```text
//! ann:$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH      a PHC string
//! bob:$2y$10$SALTHASH                               bcrypt, as htpasswd -B writes it
//! └─ name
//! ```
//!
//! All other hashes are refused: they can be tried a million times faster. So is a hash that takes more memory or time than a server can spend on
//! a client that it does not know.

use argon2::{
    Argon2, Params,
    password_hash::{PasswordHasher, PasswordVerifier, phc},
};
use std::{fmt, str::FromStr};

/// A user, and the hash of its password. Read with [`FromStr`] from `NAME:HASH`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordUser {
    name: String,
    hash: PasswordHash,
}

/// A hash of a password: argon2id or bcrypt.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PasswordHash {
    text: String,
    kind: PasswordHashKind,
}

#[derive(Clone, PartialEq, Eq)]
enum PasswordHashKind {
    Argon2id(Box<phc::PasswordHash>),
    Bcrypt { cost: u32 },
}

/// Why a line is no user, with a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPasswordUser {
    pub(crate) why: String,
    pub(crate) hint: &'static str,
}

/// How a new hash is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordAlgorithm {
    /// Argon2id with 19 MiB and two passes: what OWASP recommends at least.
    Argon2id,
    /// Bcrypt with cost 12, for other programs that read the file.
    Bcrypt,
}

/// The memory that a hash may take, in KiB. A few are computed at a time.
pub(crate) const ARGON2_MEMORY_KIB_MAX: u32 = 128 * 1024;

/// The memory that a hash may pass through, in KiB: a second on a slow core.
pub(crate) const ARGON2_WORK_KIB_MAX: u64 = 1024 * 1024;

/// The cost of bcrypt, at most: each step doubles the time, and 14 takes about a second.
pub(crate) const BCRYPT_COST_MAX: u32 = 14;

/// The cost of bcrypt, at least. Less is only for tests of other programs.
const BCRYPT_COST_MIN: u32 = 4;

/// The cost of new hashes by bcrypt.
const BCRYPT_COST: u32 = 12;

/// The length of a salt that argon2 needs at least.
const ARGON2_SALT_LEN_MIN: usize = 8;

/// The length of the salts of new hashes.
pub(crate) const SALT_LEN: usize = 16;

/// The length of the longest password that bcrypt tells from longer ones.
pub(crate) const BCRYPT_PASSWORD_LEN_MAX: usize = 71;

/// The length of a name, at most.
pub(crate) const USER_NAME_LEN_MAX: usize = 128;

const MAKE: &str = "make a line for the user with: tarpon hash-password --user NAME";
const COSTS_LESS: &str = "make a hash that costs less with: tarpon hash-password --user NAME";

impl PasswordUser {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn hash(&self) -> &PasswordHash {
        &self.hash
    }
}

impl FromStr for PasswordUser {
    type Err = InvalidPasswordUser;

    fn from_str(text: &str) -> Result<PasswordUser, InvalidPasswordUser> {
        let invalid = |why: &str, hint| Err(InvalidPasswordUser { why: why.to_owned(), hint });
        let Some((name, hash)) = text.split_once(':') else {
            return invalid("it has no colon between a name and a hash", MAKE);
        };
        if name.is_empty() {
            return invalid("the name is empty", MAKE);
        }
        if name.len() > USER_NAME_LEN_MAX || name.chars().any(char::is_control) {
            return invalid(
                "the name is longer than 128 bytes, or has a control character",
                "shorten the name",
            );
        }
        Ok(PasswordUser { name: name.to_owned(), hash: hash.parse()? })
    }
}

impl FromStr for PasswordHash {
    type Err = InvalidPasswordUser;

    fn from_str(text: &str) -> Result<PasswordHash, InvalidPasswordUser> {
        let kind = match text {
            _ if text.starts_with("$argon2id$") => PasswordHashKind::Argon2id(Box::new(argon2id(text)?)),
            _ if ["$2a$", "$2b$", "$2y$"].iter().any(|prefix| text.starts_with(prefix)) => {
                PasswordHashKind::Bcrypt { cost: bcrypt_cost(text)? }
            }
            _ => {
                let why = format!("{}; expected one by argon2id or bcrypt", other_hash(text));
                return Err(InvalidPasswordUser { why, hint: MAKE });
            }
        };
        Ok(PasswordHash { text: text.to_owned(), kind })
    }
}

/// Reads a PHC string of argon2id.
fn argon2id(text: &str) -> Result<phc::PasswordHash, InvalidPasswordUser> {
    let invalid = |why: String, hint| InvalidPasswordUser { why, hint };
    let hash = phc::PasswordHash::new(text)
        .map_err(|error| invalid(format!("the hash by argon2id is malformed: {error}"), MAKE))?;
    let params = Params::try_from(&hash)
        .map_err(|error| invalid(format!("the hash by argon2id is malformed: {error}"), MAKE))?;
    let has_salt = hash.salt.as_ref().is_some_and(|salt| salt.len() >= ARGON2_SALT_LEN_MIN);
    if !has_salt || hash.hash.is_none() || !matches!(hash.version, Some(16 | 19)) {
        let why =
            "the hash by argon2id is incomplete: it has no version 16 or 19, no hash, or no salt of 8 bytes";
        return Err(invalid(why.to_owned(), MAKE));
    }
    if params.m_cost() > ARGON2_MEMORY_KIB_MAX {
        let why = format!(
            "the hash takes {} KiB of memory, and at most {ARGON2_MEMORY_KIB_MAX} are allowed",
            params.m_cost()
        );
        return Err(invalid(why, COSTS_LESS));
    }
    if u64::from(params.m_cost()) * u64::from(params.t_cost()) > ARGON2_WORK_KIB_MAX {
        let why = format!(
            "the hash passes {} times through {} KiB of memory, and at most {ARGON2_WORK_KIB_MAX} KiB in all are allowed",
            params.t_cost(),
            params.m_cost()
        );
        return Err(invalid(why, COSTS_LESS));
    }
    Ok(hash)
}

/// Checks a hash by bcrypt, and returns its cost.
fn bcrypt_cost(text: &str) -> Result<u32, InvalidPasswordUser> {
    let parts: Result<bcrypt::HashParts, _> = text.parse();
    let has_digits = text.as_bytes().get(4..6).is_some_and(|cost| cost.iter().all(u8::is_ascii_digit));
    match parts.map(|parts| parts.get_cost()) {
        Ok(cost @ BCRYPT_COST_MIN..=BCRYPT_COST_MAX) if has_digits => Ok(cost),
        Ok(cost) if has_digits => Err(InvalidPasswordUser {
            why: format!(
                "the cost of the hash is {cost}, and {BCRYPT_COST_MIN} to {BCRYPT_COST_MAX} are allowed"
            ),
            hint: COSTS_LESS,
        }),
        _ => Err(InvalidPasswordUser { why: "the hash by bcrypt is malformed".to_owned(), hint: MAKE }),
    }
}

/// Returns what the field behind a name is, if it is no hash of the right kind.
fn other_hash(text: &str) -> &'static str {
    #[rustfmt::skip]
    const KNOWN: [(&str, &str); 10] = [
        ("$argon2i$",  "it is a hash by argon2i"),
        ("$argon2d$",  "it is a hash by argon2d"),
        ("$apr1$",     "it is a hash by MD5 (apr1)"),
        ("$1$",        "it is a hash by MD5"),
        ("$5$",        "it is a hash by SHA-256 (crypt)"),
        ("$6$",        "it is a hash by SHA-512 (crypt)"),
        ("$y$",        "it is a hash by yescrypt"),
        ("$2x$",       "it is a hash by a faulty version of bcrypt"),
        ("{SHA}",      "it is a hash by SHA-1"),
        ("{SSHA}",     "it is a hash by SHA-1"),
    ];
    match KNOWN.iter().find(|(prefix, _)| text.starts_with(prefix)) {
        Some((_, what)) => what,
        None if text.is_empty() => "the hash is missing",
        None => "it is no hash by argon2id or bcrypt, but perhaps a password or a hash by DES",
    }
}

impl PasswordHash {
    /// Returns whether this is the hash of a password. Takes long.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        match &self.kind {
            PasswordHashKind::Argon2id(hash) => Argon2::default().verify_password(password, &**hash).is_ok(),
            PasswordHashKind::Bcrypt { .. } => bcrypt::verify(password, &self.text).unwrap_or(false),
        }
    }

    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns about how long it takes, in microseconds, to compare with others.
    pub(crate) fn cost(&self) -> u64 {
        match &self.kind {
            PasswordHashKind::Argon2id(hash) => {
                let params = Params::try_from(&**hash).expect("it was read before");
                u64::from(params.m_cost()) * u64::from(params.t_cost())
            }
            PasswordHashKind::Bcrypt { cost } => 50 << cost,
        }
    }

    /// Makes a hash of a password. Takes long.
    ///
    /// # Errors
    /// The password is too long for bcrypt, or has a NUL.
    pub(crate) fn new(
        password: &[u8],
        algorithm: PasswordAlgorithm,
        salt: [u8; SALT_LEN],
    ) -> Result<PasswordHash, InvalidPasswordUser> {
        let text = match algorithm {
            PasswordAlgorithm::Argon2id => {
                let hash: Result<phc::PasswordHash, _> =
                    Argon2::default().hash_password_with_salt(password, &salt);
                hash.expect("the usual parameters, and a salt of 16 bytes").to_string()
            }
            PasswordAlgorithm::Bcrypt if password.len() > BCRYPT_PASSWORD_LEN_MAX => {
                let why = format!("bcrypt reads no more than {BCRYPT_PASSWORD_LEN_MAX} bytes of a password");
                return Err(InvalidPasswordUser { why, hint: "use argon2id, or a shorter password" });
            }
            PasswordAlgorithm::Bcrypt => bcrypt::hash_with_salt(password, BCRYPT_COST, salt)
                .expect("a cost within the limits")
                .format_for_version(bcrypt::Version::TwoY),
        };
        Ok(text.parse().expect("a new hash is valid"))
    }
}

impl fmt::Display for InvalidPasswordUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.why, self.hint)
    }
}

impl std::error::Error for InvalidPasswordUser {}

impl fmt::Debug for PasswordUser {
    /// Shows no hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordUser").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of "open sesame" by htpasswd -B.
    const BCRYPT_BY_HTPASSWD: &str = "$2y$05$e6YyFc20MUMKG9/9G8oF6.Y02GOjD/Je.Cr8c6E5FXda7Kth9mIBu";

    #[test]
    fn other_hashes_are_refused_with_a_reason() {
        let argon2 = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$pz8MrR3jEBFzHHXPmrpVJ6yfFgh5aGbMLNjJBJwlN+0";
        let of = |params: &str| argon2.replace("m=64,t=1,p=1", params);
        #[rustfmt::skip]
        let cases: &[(&str, String, &str)] = &[
            // case                      text                                            part of the reason; empty: valid
            ("argon2id",                 format!("ann:{argon2}"),                        ""),
            ("version 16",               format!("ann:{}", argon2.replace("v=19", "v=16")), ""),
            ("bcrypt",                   format!("ann:{BCRYPT_BY_HTPASSWD}"),            ""),
            ("bcrypt 2a",                format!("ann:{}", BCRYPT_BY_HTPASSWD.replace("2y", "2a")), ""),
            ("bcrypt 2b",                format!("ann:{}", BCRYPT_BY_HTPASSWD.replace("2y", "2b")), ""),
            ("the most memory",          format!("ann:{}", of("m=131072,t=8,p=1")),      ""),
            ("no colon",                 "ann".into(),                                   "no colon"),
            ("no name",                  format!(":{argon2}"),                           "the name is empty"),
            ("a control character",      format!("a\tb:{argon2}"),                       "control character"),
            ("a long name",              format!("{}:{argon2}", "a".repeat(129)),        "longer than 128"),
            ("no hash",                  "ann:".into(),                                  "the hash is missing"),
            ("a password",               "ann:secret".into(),                            "perhaps a password"),
            ("apr1",                     "ann:$apr1$abc$def".into(),                     "MD5 (apr1)"),
            ("SHA-1",                    "ann:{SHA}abc".into(),                          "SHA-1"),
            ("crypt",                    "ann:$6$abc$def".into(),                        "SHA-512"),
            ("argon2i",                  format!("ann:{}", argon2.replace("2id", "2i")), "argon2i;"),
            ("2x",                       format!("ann:{}", BCRYPT_BY_HTPASSWD.replace("2y", "2x")), "faulty"),
            ("too much memory",          format!("ann:{}", of("m=131073,t=1,p=1")),      "131073 KiB"),
            ("too many passes",          format!("ann:{}", of("m=131072,t=9,p=1")),      "9 times"),
            ("no passes",                format!("ann:{}", of("m=64,t=0,p=1")),          "malformed"),
            ("another parameter",        format!("ann:{}", of("m=64,t=1,p=1,x=1")),      "malformed"),
            ("no version",               format!("ann:{}", argon2.replace("v=19$", "")), "incomplete"),
            ("another version",          format!("ann:{}", argon2.replace("v=19", "v=18")), "incomplete"),
            ("a short salt",             format!("ann:{}", argon2.replace("c29tZXNhbHQ", "c29tZXM")), "salt too short"),
            ("no output",                format!("ann:{}", argon2.rsplit_once('$').unwrap().0), "incomplete"),
            ("text behind it",           format!("ann:{argon2}:x"),                      "malformed"),
            ("a cost too high",          format!("ann:{}", BCRYPT_BY_HTPASSWD.replace("$05$", "$15$")), "15"),
            ("a cost too low",           format!("ann:{}", BCRYPT_BY_HTPASSWD.replace("$05$", "$03$")), "3,"),
            ("a sign before the cost",   format!("ann:{}", BCRYPT_BY_HTPASSWD.replace("$05$", "$+5$")), "malformed"),
            ("a short hash",             format!("ann:{}", &BCRYPT_BY_HTPASSWD[..59]),   "malformed"),
            ("letters outside ASCII",    format!("ann:{}é", &BCRYPT_BY_HTPASSWD[..58]),  "malformed"),
        ];
        for (case, text, want) in cases {
            match text.parse::<PasswordUser>() {
                Ok(user) => assert_eq!((user.name(), *want), ("ann", ""), "{case}"),
                Err(error) => assert!(!want.is_empty() && error.why.contains(want), "{case}: {error}"),
            }
        }
    }

    #[test]
    fn a_new_hash_is_of_its_password_alone() {
        for algorithm in [PasswordAlgorithm::Argon2id, PasswordAlgorithm::Bcrypt] {
            let hash = PasswordHash::new(b"open sesame", algorithm, [7; SALT_LEN]).expect("a hash");
            assert!(hash.is_of(b"open sesame"), "{algorithm:?}");
            assert!(!hash.is_of(b"open sesamf") && !hash.is_of(b""), "{algorithm:?}");
        }
        let [short, long] = [BCRYPT_PASSWORD_LEN_MAX, BCRYPT_PASSWORD_LEN_MAX + 1].map(|len| "a".repeat(len));
        assert!(PasswordHash::new(short.as_bytes(), PasswordAlgorithm::Bcrypt, [0; SALT_LEN]).is_ok());
        assert!(PasswordHash::new(long.as_bytes(), PasswordAlgorithm::Bcrypt, [0; SALT_LEN]).is_err());
        assert!(PasswordHash::new(long.as_bytes(), PasswordAlgorithm::Argon2id, [0; SALT_LEN]).is_ok());
    }

    #[test]
    fn hashes_of_other_programs_are_verified() {
        let bcrypt: PasswordHash = BCRYPT_BY_HTPASSWD.parse().expect("a hash");
        assert!(bcrypt.is_of(b"open sesame") && !bcrypt.is_of(b"close sesame"));
        // The vector of argon2id in the reference implementation: password "password", salt "somesalt".
        let argon2 = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        let argon2: PasswordHash = argon2.parse().expect("a hash");
        assert!(argon2.is_of(b"password") && !argon2.is_of(b"passwort"));
        // A vector of jBCrypt: password "abc".
        let vector: PasswordHash =
            "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i".parse().expect("a hash");
        assert!(vector.is_of(b"abc") && !vector.is_of(b"abd"));
    }
}
