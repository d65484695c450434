//! The handover to a successor: the program file as it is now, started by the supervisor that it replaces.
//!
//! ```text
//! supervisor                                             successor
//!   start ── listening sockets, versions of sites ─────▶ reads its configuration, binds what is new, starts its processes
//!         ◀─────────────────────────────── ConfigRead ──
//!         ◀────────────────────────────────── Serving ── both servers accept
//!         ── Commit, connections of the callers ───────▶ owns the files of Unix sockets; tells systemd and the callers
//!   drains, exits
//! ```
//!
//! Until the commit the successor is a child like the others: if it fails, it is killed, and nothing has changed.
//!
//! | file | what |
//! |---|---|
//! | `successor` | starts the successor |
//! | `predecessor` | the other side: the supervisor that has started this program |
//! | `program` | the path of the program file |

pub(super) mod predecessor;
pub(super) mod program;
pub(super) mod successor;

/// The environment variable with the number of the descriptor to the predecessor.
const VARIABLE: &str = "TARPON_HANDOVER";
