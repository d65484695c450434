//! What the machine of ACME and its driver say to each other: events go in, actions come out.

use crate::control::acme::message::OrderFailure;
use std::time::Duration;
use tarpon_conn::Tick;

/// A set of names that share a certificate: those of one site. By its number in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameSetId(pub(crate) usize);

/// The identity of a job that the helper works on. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct JobId(pub(crate) u64);

/// The time, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcmeTime {
    /// The monotonic clock: back-off and time limits.
    pub(crate) tick: Tick,
    /// The wall clock in seconds since 1970, which may jump: when certificates expire.
    pub(crate) unix_s: u64,
}

/// What decides when a certificate is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// In seconds since 1970.
    pub(crate) not_before_s: u64,
    /// In seconds since 1970.
    pub(crate) not_after_s: u64,
}

impl Validity {
    /// Returns the lifetime in seconds.
    pub(super) fn lifetime_s(self) -> u64 {
        self.not_after_s.saturating_sub(self.not_before_s)
    }
}

/// When the directory wants a certificate to be renewed: RFC 9773, section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RenewalWindow {
    /// In seconds since 1970.
    pub(crate) start_s: u64,
    /// In seconds since 1970.
    pub(crate) end_s: u64,
}

/// A set of names in a configuration.
#[derive(Clone, Debug)]
pub(crate) struct NameSetPlan {
    /// The names, for messages and to tell the set from others.
    pub(crate) names: Vec<String>,
    /// The stored certificate. `None`: there is none, or it is unusable.
    pub(crate) stored: Option<Validity>,
}

/// An event: something has happened, or an action was carried out.
#[derive(Debug)]
pub(crate) enum AcmeEvent {
    /// Time has passed.
    Timer,
    /// A generation with this configuration serves. A set that was known before keeps its state, but a failed order is tried again at once.
    Configured(Vec<NameSetPlan>),
    /// The helper runs, and has no job.
    HelperStarted,
    /// The helper has exited.
    HelperExited,
    /// The helper has brought a certificate, which was stored and is served.
    Issued(JobId, Validity),
    /// An order failed.
    OrderFailed(JobId, OrderFailure),
    /// The answer to a question for the renewal window, and when to ask again. `None`: the directory does not tell.
    RenewalAnswered(JobId, Option<(RenewalWindow, Duration)>),
}

/// An action: the driver carries it out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AcmeAction {
    /// Order a certificate, with the stored account or a new one.
    Order(JobId, NameSetId),
    /// Ask the directory when the certificate should be renewed.
    AskRenewal(JobId, NameSetId),
    /// Remove all challenges: no order is under way.
    ClearChallenges,
    /// Set the stored account aside: the directory does not know it any more. The next order makes a new one.
    ForgetAccount,
    /// Kill the helper. Its exit is reported, and another one started.
    KillHelper,
    /// Tell the user.
    Emit(AcmeNotice),
}

/// What a user wants to know of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcmeNotice {
    /// A certificate has arrived, which is valid for so many days.
    Obtained { names: String, days: u64 },
    /// A certificate could not be obtained.
    Failed {
        /// The names.
        names: String,
        /// The reason.
        failure: OrderFailure,
        /// The time until the next attempt.
        retry_delay: Duration,
        /// How many days the present certificate is valid for; negative: since when it is not. `None`: there is none.
        days_left: Option<i64>,
    },
    /// The directory does not know the account any more: the next order makes a new one.
    AccountReplaced,
    /// A file of the state directory is damaged, and was set aside.
    Damaged(String),
    /// A new certificate or account is used, but could not be stored.
    NotStored { what: String, why: String },
    /// The store has now what it could not take before.
    StoredLate(String),
}

/// The state of a set of names, for `tarpon status` and the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameSetStatus {
    pub(crate) names: Vec<String>,
    pub(crate) validity: Option<Validity>,
    /// When the certificate is to be renewed, in seconds since 1970.
    pub(crate) renew_at_s: Option<u64>,
    /// Failed orders since the last success.
    pub(crate) failure_count: u32,
    /// The reason of the last failure.
    pub(crate) failure: Option<OrderFailure>,
    /// The time until the next attempt.
    pub(crate) retry_delay: Option<Duration>,
}
