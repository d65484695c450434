//! What the supervisor and the helper `tarpon-net` say to each other about certificates.
//!
//! ```text
//! supervisor ── Order ──▶ tarpon-net ── directory
//!            ◀─ Present ─     for each name: the challenge, which the supervisor publishes
//!            ── Presented ─▶
//!            ◀─ Account, Issued or Failed ─
//! ```
//!
//! The helper speaks to strangers, so the supervisor takes nothing of what it says on trust: each message is checked for its lengths and
//! characters, and for names that were ordered.

use super::vocabulary::{JobId, RenewalWindow};
use serde::{Deserialize, Serialize};
use std::fmt;
use tarpon_site::Printable;

/// Bytes of a certificate chain in PEM, at most: chains have some 6 KiB. All of a message must fit in a packet of 64 KiB.
pub(crate) const CHAIN_LEN_MAX: usize = 32 * 1024;
/// Bytes of a private key in PEM, at most: one for P-256 has 241.
pub(crate) const KEY_LEN_MAX: usize = 2048;
/// Bytes of the credentials of an account, at most: a URL and a key.
pub(crate) const ACCOUNT_LEN_MAX: usize = 4096;
/// Bytes of a token, at most: RFC 8555, section 8.3, asks for 128 bits of entropy, which 22 characters have.
pub(crate) const TOKEN_LEN_MAX: usize = 128;
/// Bytes of a thumbprint: SHA-256 in base64url, RFC 8555, section 8.1.
const THUMBPRINT_LEN: usize = 43;
/// Bytes of the certificate and the key for tls-alpn-01 in DER, at most. Both are made here, and have some 400 and 140.
pub(crate) const CHALLENGE_CERTIFICATE_LEN_MAX: usize = 1024;
pub(crate) const CHALLENGE_KEY_LEN_MAX: usize = 256;
/// Characters of the reason of a failure, at most: it becomes a line of the log.
const REASON_LEN_MAX: usize = 600;

/// A message of the supervisor to the helper.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum ToNet {
    /// Order a certificate.
    Order {
        /// The identity of the job.
        id: JobId,
        /// The names. One may begin with `*.`.
        names: Vec<String>,
        /// The stored credentials of the account. `None`: make an account.
        account: Option<String>,
        /// The chain in PEM that is to be replaced: RFC 9773, section 5.
        replaced: Option<String>,
    },
    /// The challenge for this name is published.
    Presented {
        /// The identity of the job.
        id: JobId,
    },
    /// Ask for the renewal window of a certificate.
    AskRenewal {
        /// The identity of the job.
        id: JobId,
        /// The chain in PEM.
        chain: String,
        /// The stored credentials of the account.
        account: Option<String>,
    },
}

/// A message of the helper to the supervisor.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum FromNet {
    /// An account was made: store its credentials.
    Account {
        /// The credentials.
        credentials: String,
    },
    /// Publish a challenge.
    Present {
        /// The identity of the job.
        id: JobId,
        /// The name that is checked.
        name: String,
        /// The answer to publish.
        challenge: ChallengeAnswer,
    },
    /// The certificate.
    Issued {
        /// The identity of the job.
        id: JobId,
        /// The chain in PEM.
        chain: String,
        /// The private key in PEM.
        key: String,
    },
    /// The order failed.
    Failed {
        /// The identity of the job.
        id: JobId,
        /// The reason.
        failure: OrderFailure,
    },
    /// The answer to a question for the renewal window, and after how many seconds to ask again.
    Renewal {
        /// The identity of the job.
        id: JobId,
        /// `None`: the directory does not tell.
        answer: Option<(RenewalWindow, u64)>,
    },
}

/// The answer to a challenge, which a server publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChallengeAnswer {
    /// http-01: the content of `/.well-known/acme-challenge/TOKEN`.
    Http {
        /// The token.
        token: String,
        /// The key authorization.
        key_authorization: String,
    },
    /// tls-alpn-01: what a server shows to a client that offers `acme-tls/1`.
    TlsAlpn {
        /// The certificate in DER.
        certificate: Vec<u8>,
        /// The private key in DER, PKCS #8.
        key: Vec<u8>,
    },
}

/// Why an order has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderFailure {
    pub(crate) kind: FailureKind,
    /// In the words of the directory, the system or this program. One line.
    pub(crate) reason: String,
    /// The name that it is about, if it is about one.
    pub(crate) name: Option<String>,
    /// After how many seconds the directory wants to be asked again.
    pub(crate) retry_after_s: Option<u64>,
}

/// The kinds of failures, each with its hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FailureKind {
    /// The directory cannot be reached, or is not trusted.
    Unreachable,
    /// The directory has answered with an error of its own.
    Directory,
    /// A limit of the directory is reached.
    RateLimited,
    /// The directory refuses to make an account.
    AccountRefused,
    /// The directory does not know the account, or has revoked it.
    AccountGone,
    /// The directory refuses these names.
    NamesRefused,
    /// The directory could not connect to the address of a name.
    NotReachable,
    /// The directory reached another server, or found another value.
    OtherServer,
    /// The directory could not resolve a name.
    Dns,
    /// The directory does not offer the configured challenge for a name.
    NoChallenge,
    /// The directory has rejected the number that makes a request unique: RFC 8555, section 6.5.
    BadNonce,
    /// The hook has failed.
    Hook,
    /// The helper has sent nonsense, or has failed.
    Malformed,
    /// The helper has exited.
    Interrupted,
    /// A file of the state directory cannot be written.
    Storage,
}

impl OrderFailure {
    /// Returns a failure that is about no single name.
    pub(crate) fn new(kind: FailureKind, reason: impl fmt::Display) -> OrderFailure {
        OrderFailure { kind, reason: one_line(&reason.to_string()), name: None, retry_after_s: None }
    }

    /// Names the name that the failure is about.
    pub(crate) fn of(mut self, name: &str) -> OrderFailure {
        self.name = Some(name.to_owned());
        self
    }

    /// Returns a failure that a helper has sent, with what a stranger may have written made harmless.
    pub(crate) fn checked(mut self) -> OrderFailure {
        self.reason = one_line(&self.reason);
        self.name = self.name.filter(|name| is_name(name));
        self
    }

    /// Returns what a user can do.
    pub(crate) fn hint(&self) -> &'static str {
        match self.kind {
            FailureKind::Unreachable => {
                "check --acme-directory and that this host may connect to it; for a private directory, name its root with --acme-ca FILE"
            }
            FailureKind::Directory | FailureKind::BadNonce => {
                "the directory has a problem of its own: look at its status page"
            }
            FailureKind::RateLimited => {
                "nothing to do but wait; try new configurations with --acme-directory staging, which has wider limits"
            }
            FailureKind::AccountRefused => {
                "read the terms of the directory, check --acme-email, and --acme-eab-kid with --acme-eab-key if it wants them"
            }
            FailureKind::AccountGone => "a new account is made",
            FailureKind::NamesRefused => {
                "check --domain: public directories give certificates for public names only, and CAA records may forbid them"
            }
            FailureKind::NotReachable => {
                "open the port in firewall and router: 80 for http-01, 443 for tls-alpn-01; or use --acme-challenge dns-01"
            }
            FailureKind::OtherServer => {
                "let the A and AAAA records of the name lead to this host, and no proxy answer in between; or use --acme-challenge dns-01"
            }
            FailureKind::Dns => {
                "add an A or AAAA record for the name, and check that its name servers answer"
            }
            FailureKind::NoChallenge => "choose another --acme-challenge; names with * need dns-01",
            FailureKind::Hook => "run the program of acme-dns-hook by hand: PROGRAM add NAME VALUE",
            FailureKind::Malformed => "report this",
            FailureKind::Interrupted => "the next attempt follows",
            FailureKind::Storage => {
                "make the state directory writable for the user that starts tarpon, or name another with --state-directory"
            }
        }
    }
}

impl fmt::Display for OrderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{}: ", name.printable())?;
        }
        f.write_str(match self.kind {
            FailureKind::Unreachable => "the directory cannot be reached",
            FailureKind::Directory | FailureKind::BadNonce => "the directory has failed",
            FailureKind::RateLimited => "a limit of the directory is reached",
            FailureKind::AccountRefused => "the directory refuses the account",
            FailureKind::AccountGone => "the directory does not know the account any more",
            FailureKind::NamesRefused => "the directory refuses the name",
            FailureKind::NotReachable => "the directory cannot connect to this name",
            FailureKind::OtherServer => "the directory finds another server at this name",
            FailureKind::Dns => "the directory cannot resolve this name",
            FailureKind::NoChallenge => "the directory does not offer the configured challenge",
            FailureKind::Hook => "the DNS hook has failed",
            FailureKind::Malformed => "the helper process has failed",
            FailureKind::Interrupted => "the order was interrupted",
            FailureKind::Storage => "the state cannot be stored",
        })?;
        write!(f, " ({})", self.reason)
    }
}

impl fmt::Debug for ToNet {
    /// Without the key of the account.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToNet::Order { id, names, .. } => f.debug_tuple("Order").field(id).field(names).finish(),
            ToNet::Presented { id } => f.debug_tuple("Presented").field(id).finish(),
            ToNet::AskRenewal { id, .. } => f.debug_tuple("AskRenewal").field(id).finish(),
        }
    }
}

impl FromNet {
    /// Returns whether the message is about this job, or an account for any.
    pub(super) fn is_of(&self, job: Option<JobId>) -> bool {
        match self {
            FromNet::Account { .. } => job.is_some(),
            FromNet::Present { id, .. }
            | FromNet::Issued { id, .. }
            | FromNet::Failed { id, .. }
            | FromNet::Renewal { id, .. } => job == Some(*id),
        }
    }

    /// Checks a message of the helper, whose present job is for these names.
    ///
    /// # Errors
    /// What is wrong: no helper of ours sends this.
    pub(crate) fn check(&self, names: &[String]) -> Result<(), &'static str> {
        match self {
            FromNet::Account { credentials } => {
                if credentials.len() > ACCOUNT_LEN_MAX {
                    return Err("credentials that are too long");
                }
            }
            FromNet::Present { name, challenge, .. } => {
                if !names.iter().any(|ordered| ordered == name) {
                    return Err("a challenge for a name that was not ordered");
                }
                challenge.check()?;
            }
            FromNet::Issued { chain, key, .. } => {
                if chain.len() > CHAIN_LEN_MAX || key.len() > KEY_LEN_MAX {
                    return Err("a certificate that is too long");
                }
            }
            FromNet::Failed { .. } | FromNet::Renewal { .. } => {}
        }
        Ok(())
    }
}

impl ChallengeAnswer {
    /// Checks lengths and characters.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self {
            ChallengeAnswer::Http { token, key_authorization } => {
                let thumbprint =
                    key_authorization.strip_prefix(&**token).and_then(|rest| rest.strip_prefix('.'));
                let is_thumbprint = |text: &str| text.len() == THUMBPRINT_LEN && is_base64url(text);
                let is_token = (1..=TOKEN_LEN_MAX).contains(&token.len()) && is_base64url(token);
                match is_token && thumbprint.is_some_and(is_thumbprint) {
                    true => Ok(()),
                    false => Err("a token or a key authorization with other characters"),
                }
            }
            ChallengeAnswer::TlsAlpn { certificate, key } => {
                let fits = (1..=CHALLENGE_CERTIFICATE_LEN_MAX).contains(&certificate.len())
                    && (1..=CHALLENGE_KEY_LEN_MAX).contains(&key.len());
                if fits { Ok(()) } else { Err("a challenge certificate that is too long") }
            }
        }
    }
}

/// Returns whether a text has characters of base64url only: RFC 4648, section 5, without padding.
pub(crate) fn is_base64url(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"*.-".contains(&byte);
    (1..=255).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns the text in one line, without invisible characters, and not too long.
fn one_line(text: &str) -> String {
    let mut line: String = text.printable().to_string().chars().take(REASON_LEN_MAX).collect();
    if line.is_empty() {
        line.push_str("no reason given");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_helper_are_checked() {
        let http = |token: &str, rest: &str| FromNet::Present {
            id: JobId(1),
            name: "a.example".to_owned(),
            challenge: ChallengeAnswer::Http {
                token: token.to_owned(),
                key_authorization: format!("{token}{rest}"),
            },
        };
        let alpn = |name: &str, certificate: usize, key: usize| FromNet::Present {
            id: JobId(1),
            name: name.to_owned(),
            challenge: ChallengeAnswer::TlsAlpn { certificate: vec![0; certificate], key: vec![0; key] },
        };
        let issued = |chain: usize, key: usize| FromNet::Issued {
            id: JobId(1),
            chain: "x".repeat(chain),
            key: "x".repeat(key),
        };
        let account = |len: usize| FromNet::Account { credentials: "x".repeat(len) };
        let thumbprint = format!(".{}", "t".repeat(THUMBPRINT_LEN));
        #[rustfmt::skip]
        let cases = [
            ("a token",             http("t-_9", &thumbprint),                       true),
            ("no token",            http("", &thumbprint),                           false),
            ("a path",              http("a/b", &thumbprint),                        false),
            ("a line end",          http("a\r\n", &thumbprint),                      false),
            ("the longest token",   http(&"t".repeat(TOKEN_LEN_MAX), &thumbprint),   true),
            ("too long a token",    http(&"t".repeat(TOKEN_LEN_MAX + 1), &thumbprint), false),
            ("no thumbprint",       http("t", "."),                                  false),
            ("without a dot",       http("t", &thumbprint[1..]),                     false),
            ("a longer thumbprint", http("t", &format!("{thumbprint}t")),            false),
            ("another character",   http("t", &format!(".{}<", "t".repeat(THUMBPRINT_LEN - 1))), false),
            ("a certificate",       alpn("a.example", 400, 140),                     true),
            ("another name",        alpn("b.example", 400, 140),                     false),
            ("empty",               alpn("a.example", 0, 140),                       false),
            ("too long",            alpn("a.example", 1025, 140),                    false),
            ("too long a key",      alpn("a.example", 400, 257),                     false),
            ("a chain",             issued(CHAIN_LEN_MAX, KEY_LEN_MAX),              true),
            ("too long a chain",    issued(CHAIN_LEN_MAX + 1, 1),                    false),
            ("too long a pem key",  issued(1, KEY_LEN_MAX + 1),                      false),
            ("an account",          account(ACCOUNT_LEN_MAX),                        true),
            ("too long an account", account(ACCOUNT_LEN_MAX + 1),                    false),
        ];
        for (name, message, want) in cases {
            assert_eq!(message.check(&["a.example".to_owned()]).is_ok(), want, "{name}");
        }
    }

    #[test]
    fn what_a_stranger_has_written_becomes_one_harmless_line() {
        let failure = OrderFailure {
            kind: FailureKind::Directory,
            reason: format!("one\r\n\u{1b}[31mtwo{}", "x".repeat(2 * REASON_LEN_MAX)),
            name: Some("a\nb".to_owned()),
            retry_after_s: None,
        };
        let failure = failure.checked();
        assert!(!failure.to_string().contains(char::is_control), "{failure}");
        assert_eq!((failure.name, failure.reason.len()), (None, REASON_LEN_MAX));
    }
}
