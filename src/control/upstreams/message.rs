//! What the helper tells the supervisor about upstream servers. The supervisor takes nothing of it on trust: it checks numbers and lengths.

use serde::{Deserialize, Serialize};

/// A message of the helper to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromUpstreams {
    /// A server gets no requests any more.
    Down {
        /// Its number.
        server: u16,
        /// The reason, in a few words.
        why: String,
    },
    /// A server gets requests again.
    Up {
        /// Its number.
        server: u16,
    },
    /// The name of a server cannot be looked up.
    Unresolved {
        /// Its number.
        server: u16,
        /// The reason, in a few words.
        why: String,
    },
}

/// Characters of a reason, at most: it becomes a line of the log.
const REASON_LEN_MAX: usize = 200;

/// Returns the front of a reason, without control characters.
pub(crate) fn shortened(why: &str) -> String {
    why.chars().filter(|char| !char.is_control()).take(REASON_LEN_MAX).collect()
}
