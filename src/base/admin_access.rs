//! Which clients may use the admin listener.

use std::{fmt, str::FromStr};
use tarpon_conn::HostName;

/// Which clients may use the admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAccess {
    /// The mode of its Unix socket in the file system. On Linux, a client needs the permission to write. Default: 0o600.
    pub mode: u32,
    /// The host names under which clients reach it over TCP, besides `localhost`. Without ports and wildcards. Default: none.
    pub hosts: Vec<HostName>,
    /// What clients over TCP must present to read metrics and the dashboard; then they may give no orders. Default: none. Then
    /// every client may read metrics over TCP, clients of this host may give orders, and there is no dashboard over TCP.
    pub token: Option<AdminToken>,
}

impl Default for AdminAccess {
    /// Only the user of the process and root may connect.
    fn default() -> AdminAccess {
        AdminAccess { mode: 0o600, hosts: Vec::new(), token: None }
    }
}

/// A secret that clients of the admin listener present over TCP. Debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

/// The length of the shortest token: 120 bits, if it is random.
const TOKEN_LEN_MIN: usize = 20;

/// The length of the longest token. A request to the admin listener has 4 KiB.
const TOKEN_LEN_MAX: usize = 256;

impl AdminToken {
    /// Returns the token as clients send it.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl FromStr for AdminToken {
    type Err = String;

    /// Parses a token of 20 to 256 letters, digits and `-._~+/=`, which RFC 6750 calls b64token.
    ///
    /// # Errors
    /// Why the text is no token, without the text.
    fn from_str(text: &str) -> Result<AdminToken, String> {
        if !(TOKEN_LEN_MIN..=TOKEN_LEN_MAX).contains(&text.len()) {
            return Err(format!("a token has {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX} characters"));
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        match text.bytes().all(is_allowed) {
            true => Ok(AdminToken(text.to_owned())),
            false => Err("a token consists of letters, digits and -._~+/=".to_owned()),
        }
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_safe_characters_and_a_length() {
        #[rustfmt::skip]
        let cases: &[(&str, String, bool)] = &[
            ("shortest",   "a".repeat(TOKEN_LEN_MIN),       true),
            ("too short",  "a".repeat(TOKEN_LEN_MIN - 1),   false),
            ("longest",    "a".repeat(TOKEN_LEN_MAX),       true),
            ("too long",   "a".repeat(TOKEN_LEN_MAX + 1),   false),
            ("all kinds",  "azAZ09-._~+/==azAZ09".into(),   true),
            ("a space",    "azAZ09 azAZ09azAZ09azAZ".into(), false),
            ("a line end", "azAZ09azAZ09azAZ09azAZ\n".into(), false),
            ("a quote",    "azAZ09\"azAZ09azAZ09azAZ".into(), false),
            ("no ASCII",   "azAZ09äazAZ09azAZ09azAZ".into(), false),
        ];
        for (case, text, is_valid) in cases {
            let token = text.parse::<AdminToken>();
            assert_eq!(token.is_ok(), *is_valid, "{case}");
            assert!(!format!("{token:?}").contains("azAZ09"), "{case}");
        }
    }
}
