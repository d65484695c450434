//! The limits of clients for some paths of a site, as they are configured.

use std::num::NonZeroU32;
use tarpon_conn::{PathPrefix, RequestRate};

/// Limits of clients for some paths of a site. What it does not set is that of the section with the longest prefix of its own path, or of the
/// server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathLimit {
    /// The paths, in whole segments, below the mount of the site. `None`: all. Default: `None`.
    pub path: Option<PathPrefix>,
    /// How many requests each address may send. Default: `None`.
    pub request_rate: Option<LimitChoice<RequestRate>>,
    /// How many requests may come at once. `None`: those of one second. Default: `None`.
    pub request_burst: Option<NonZeroU32>,
}

/// A limit, or none where the server has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChoice<T> {
    /// No limit.
    Off,
    /// This one.
    At(T),
}
