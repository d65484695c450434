//! The limits of clients for some paths of a site, as they are configured.

#[cfg(feature = "program")]
use super::password::PasswordUser;
use std::num::NonZeroU32;
use tarpon_conn::{AddressEntry, PathPrefix, RequestRate, SendRate};

/// Limits of clients for some paths of a site. It inherits other limits from the section with the longest prefix of its path, or from the
/// server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathLimit {
    /// The paths, in whole segments, below the mount of the site. `None`: all. Default: `None`.
    pub path: Option<PathPrefix>,
    /// How many requests each address may send. Default: `None`.
    pub request_rate: Option<LimitChoice<RequestRate>>,
    /// How many requests may come at once. `None`: those of one second. Default: `None`.
    pub request_burst: Option<NonZeroU32>,
    /// The addresses that get responses. If this or `deny` is set, both replace those of shorter paths. Default: none.
    pub allow: Vec<AddressEntry>,
    /// The addresses that get 403 (Forbidden). Default: none.
    pub deny: Vec<AddressEntry>,
    /// How fast the content of each response leaves. Default: `None`, as for shorter paths.
    pub max_send_rate: Option<LimitChoice<SendRate>>,
    /// The users that get responses, with a password. Default: `None`.
    #[cfg(feature = "program")]
    pub passwords: Option<LimitChoice<PasswordLimit>>,
}

/// A rule: requests for some paths need the name and the password of a user. RFC 7617.
#[cfg(feature = "program")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordLimit {
    /// The users. Empty: no request gets a response. Default: none.
    pub users: Vec<PasswordUser>,
    /// What browsers show when they ask for a password. Empty: the paths. Default: empty.
    pub realm: String,
}

/// A limit, or none where the server has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChoice<T> {
    /// No limit.
    Off,
    /// This one.
    At(T),
}
