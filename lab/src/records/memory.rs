//! The memory of a server.

use serde::{Deserialize, Serialize};

/// Memory of all processes of a server together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryUse {
    /// Resident set size, summed over the processes: a page that several processes share counts several times.
    pub(crate) rss: u64,
    /// Proportional set size, summed over the processes: a shared page counts once.
    pub(crate) pss: u64,
    /// The part of `pss` that no file backs.
    pub(crate) anonymous: u64,
    /// Memfds: files that exist in memory only.
    pub(crate) memory_files: u64,
}

impl MemoryUse {
    /// Returns the memory that only the exit of these processes frees: anonymous memory and memfds.
    pub(crate) fn private(self) -> u64 {
        self.anonymous + self.memory_files
    }
}
