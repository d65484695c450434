//! How certificates are obtained by ACME, as values.

use std::{fmt, path::PathBuf};

/// The directory that issues certificates, and how to prove names to it. All sites with domains share it.
#[derive(Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// The URL of the directory: RFC 8555, section 7.1.1. Default: [`LETS_ENCRYPT`].
    pub directory: String,
    /// A file with the roots in PEM that certify the directory. `None`: those of the system. Default: `None`.
    pub root_file: Option<PathBuf>,
    /// An address that the directory may write to. Default: `None`.
    pub email: Option<String>,
    /// How the directory checks a name. Default: `Http01`.
    pub challenge: AcmeChallenge,
    /// The account with the operator of the directory that the ACME account is bound to: RFC 8555, section 7.3.4. Default: `None`.
    pub external_account: Option<ExternalAccount>,
    /// The program that publishes and removes records, for [`AcmeChallenge::Dns01`]. Default: `None`.
    pub dns_hook: Option<PathBuf>,
    /// The directory for account keys and certificates. `None`: `STATE_DIRECTORY` of systemd; without it `/var/lib/tarpon` for root, and
    /// `$XDG_STATE_HOME/tarpon` for others. Default: `None`.
    pub state_directory: Option<PathBuf>,
}

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The directory of Let's Encrypt for tests: no browser trusts its certificates.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

impl Default for AcmeConfig {
    fn default() -> AcmeConfig {
        AcmeConfig {
            directory: LETS_ENCRYPT.to_owned(),
            root_file: None,
            email: None,
            challenge: AcmeChallenge::default(),
            external_account: None,
            dns_hook: None,
            state_directory: None,
        }
    }
}

impl fmt::Debug for AcmeConfig {
    /// Without the key of the external account.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcmeConfig")
            .field("directory", &self.directory)
            .field("challenge", &self.challenge)
            .finish_non_exhaustive()
    }
}

/// How a directory checks that a name belongs to this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// It reads a path on port 80: RFC 8555, section 8.3.
    #[default]
    Http01,
    /// It begins a TLS handshake on port 443: RFC 8737.
    TlsAlpn01,
    /// It reads a record of the name, which a program publishes: RFC 8555, section 8.4. For names with `*` too.
    Dns01,
}

/// A key that binds an ACME account to an account with the operator of the directory.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The identifier of the key.
    pub key_id: String,
    /// The key in base64url.
    pub key: String,
}
