//! Passwords that open paths: whether a request has the credentials of a user. RFC 7617, RFC 9110, section 11.
//!
//! ```text
//! request ─ credentials ─▶ PasswordUsers ─┬─ verified before ─────────────────────────────────────▶ passes
//!    │                                    └─ PasswordJob ─▶ another thread ─ verified ─▶ offered again ─┬─▶ passes
//!    └─ none, or malformed ─▶ 401                                                                     └─▶ 401
//! ```
//!
//! A hash of a password is slow by design, so the worker computes none: the connection waits, as it does for a page of an image, and the engine
//! lets another thread run the job. A right password is remembered by a keyed hash, so the next request passes at once.
//!
//! Knows neither the hashes nor their file: [`PasswordUsers`] does.

use crate::{
    counters::Counters,
    path_limits::Refusal,
    rate_table::{ClientKey, RetryAfter},
};
use std::{fmt, mem, sync::Arc};
use tarpon_http::basic::BasicCredentials;

/// The users of some paths.
pub trait PasswordUsers: Send + Sync + fmt::Debug {
    /// Returns whether these credentials have been verified before. If not, returns what they are remembered by. Takes no longer than a
    /// few hashes that are not slow, and not longer for a name that no user has.
    ///
    /// # Errors
    /// They have not, or it is forgotten.
    fn recall(&self, credentials: BasicCredentials<'_>) -> Result<(), CredentialDigest>;

    /// Returns whether they are right, and remembers them by their digest if they are. Takes long, and not longer for a user than for a name
    /// that no user has.
    fn verify(&self, credentials: BasicCredentials<'_>, digest: &CredentialDigest) -> bool;
}

/// Credentials, with the hash that they must have, under a secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialDigest(pub [u8; 32]);

/// A rule: the credentials that requests for some paths must have.
#[derive(Clone, Debug)]
pub struct PasswordRule {
    /// The users of these paths.
    pub users: Arc<dyn PasswordUsers>,
    /// The line of the field WWW-Authenticate, with its line end.
    pub challenge: Arc<[u8]>,
    /// The paths, for the log.
    pub label: Arc<str>,
}

/// The number of a rule in [`ClientLimits::passwords`](crate::ClientLimits::passwords).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordRuleId(pub u16);

/// Credentials to verify on another thread.
#[derive(Debug)]
pub struct PasswordJob {
    users: Arc<dyn PasswordUsers>,
    name: Box<[u8]>,
    password: SecretBytes,
    digest: CredentialDigest,
    client: Option<ClientKey>,
    outcome: PasswordOutcome,
}

/// Bytes that are not shown.
struct SecretBytes(Box<[u8]>);

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordOutcome {
    /// The password is that of the user.
    Right,
    /// It is not, or there is no such user.
    Wrong,
    /// It was not verified: too many others wait.
    Busy,
    /// It was not verified: too many of this client wait.
    TooMany,
}

/// Where the check of a connection's next request stands.
#[derive(Debug, Default)]
pub(crate) enum PasswordCheck {
    /// Nothing waits.
    #[default]
    None,
    /// The engine must take a job.
    Due(Box<PasswordJob>),
    /// Another thread has it.
    Running,
    /// It has run: the request is offered again.
    Done(Box<PasswordJob>),
}

/// Whether a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordVerdict {
    Passes,
    Refused(Refusal),
    /// The request is offered again once the job has run.
    Waits,
}

impl PasswordJob {
    /// Returns a job for credentials that [`PasswordUsers::recall`] has not found.
    pub fn new(
        users: Arc<dyn PasswordUsers>,
        BasicCredentials { name, password }: BasicCredentials<'_>,
        digest: CredentialDigest,
        client: Option<ClientKey>,
    ) -> PasswordJob {
        let (name, password) = (name.into(), SecretBytes(password.into()));
        PasswordJob { users, name, password, digest, client, outcome: PasswordOutcome::Busy }
    }

    /// Verifies the credentials. Takes long.
    pub fn run(&mut self) {
        let PasswordJob { users, name, password: SecretBytes(password), digest, .. } = self;
        let is_right = users.verify(BasicCredentials { name, password }, digest);
        self.outcome = if is_right { PasswordOutcome::Right } else { PasswordOutcome::Wrong };
    }

    /// Ends the job without a result. `outcome`: the reason.
    pub fn refuse(&mut self, outcome: PasswordOutcome) {
        self.outcome = outcome;
    }

    /// Returns what became of it. Before it has run: [`PasswordOutcome::Busy`].
    pub fn outcome(&self) -> PasswordOutcome {
        self.outcome
    }

    /// Returns the client. `None`: it has no address.
    pub fn client(&self) -> Option<ClientKey> {
        self.client
    }
}

impl PasswordCheck {
    /// Returns whether the next request waits.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        matches!(self, PasswordCheck::Due(_) | PasswordCheck::Running)
    }

    /// Returns whether the engine must take a job.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        matches!(self, PasswordCheck::Due(_))
    }

    /// Takes the job.
    pub(crate) fn take_job(&mut self) -> Option<Box<PasswordJob>> {
        match mem::replace(self, PasswordCheck::Running) {
            PasswordCheck::Due(job) => Some(job),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Handles the end of a job, and counts it.
    #[cold]
    pub(crate) fn done(&mut self, counters: &Counters, job: Box<PasswordJob>) {
        let counter = match job.outcome {
            PasswordOutcome::Right => &counters.passwords_right,
            PasswordOutcome::Wrong => &counters.passwords_wrong,
            PasswordOutcome::Busy | PasswordOutcome::TooMany => &counters.passwords_busy,
        };
        counter.add(1);
        // The connection may have ended the wait.
        if let PasswordCheck::Running = self {
            *self = PasswordCheck::Done(job);
        }
    }

    /// Checks the credentials of the next request. `client`: it, if it has an address.
    pub(crate) fn check(
        &mut self,
        rule: &PasswordRule,
        id: PasswordRuleId,
        credentials: Option<BasicCredentials<'_>>,
        client: Option<ClientKey>,
        counters: &Counters,
    ) -> PasswordVerdict {
        let unauthorized = PasswordVerdict::Refused(Refusal::Unauthorized(id));
        let Some(credentials) = credentials else { return unauthorized };
        let digest = match rule.users.recall(credentials) {
            Ok(()) => {
                match self {
                    // It has just been counted as right.
                    PasswordCheck::Done(_) => *self = PasswordCheck::None,
                    _ => counters.passwords_remembered.add(1),
                }
                return PasswordVerdict::Passes;
            }
            Err(digest) => digest,
        };
        // The digest is a hash under a secret key: what a comparison takes tells nothing of a password.
        match self {
            PasswordCheck::Done(job) if job.digest == digest => match job.outcome {
                PasswordOutcome::Right => PasswordVerdict::Passes,
                PasswordOutcome::Wrong => unauthorized,
                PasswordOutcome::Busy => PasswordVerdict::Refused(Refusal::Busy(RetryAfter::SECOND)),
                PasswordOutcome::TooMany => {
                    PasswordVerdict::Refused(Refusal::TooManyRequests(RetryAfter::SECOND))
                }
            },
            _ => {
                let job = PasswordJob::new(Arc::clone(&rule.users), credentials, digest, client);
                *self = PasswordCheck::Due(Box::new(job));
                PasswordVerdict::Waits
            }
        }
    }

    /// Forgets the outcome: the request was answered.
    #[inline]
    pub(crate) fn answered(&mut self) {
        if let PasswordCheck::Done(_) = self {
            *self = PasswordCheck::None;
        }
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
