//! What a server holds of the memory of the machine.
//!
//! ```text
//! resident ─┬─ anonymous ─────────────┬─ own: ends with the process, and cannot be had otherwise
//!           └─ files, mapped          │
//! files that exist in memory alone ───┘  (memfd), mapped or not
//! ```
//!
//! What is mapped of a file on a disk the kernel can take back at any time; it would be in its cache without the server too.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use crate::Trouble;

/// Of all processes of a server together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Resident, for each process: what several share counts several times.
    pub(crate) rss: u64,
    /// Resident: what several share counts once, divided among them.
    pub(crate) pss: u64,
    /// The part of that which is no file.
    pub(crate) anonymous: u64,
    /// Files that exist in memory alone.
    pub(crate) memory_files: u64,
}

impl Memory {
    /// What these processes hold now.
    pub(crate) fn of(processes: &[u32]) -> Result<Memory, Trouble> {
        let mut memory = Memory::default();
        let mut seen = HashSet::new();
        for process in processes {
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
            let sum = |name| kib(&rollup, name).ok_or_else(|| format!("smaps_rollup has no {name}"));
            memory.rss += sum("Rss:")? << 10;
            memory.pss += sum("Pss:")? << 10;
            memory.anonymous += sum("Pss_Anon:")? << 10;
            for file in fs::read_dir(format!("/proc/{process}/fd"))? {
                let file = file?.path();
                // A descriptor may be closed while we look.
                let (Ok(name), Ok(metadata)) = (fs::read_link(&file), fs::metadata(&file)) else { continue };
                let is_memory = name.to_string_lossy().starts_with("/memfd:");
                if is_memory && seen.insert((metadata.dev(), metadata.ino())) {
                    memory.memory_files += metadata.blocks() * 512;
                }
            }
        }
        Ok(memory)
    }

    /// What ends with the process, and cannot be had before.
    pub(crate) fn own(self) -> u64 {
        self.anonymous + self.memory_files
    }
}

/// A line of `smaps_rollup`, as `Rss:      1024 kB`.
fn kib(rollup: &str, name: &str) -> Option<u64> {
    rollup.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pwrite;

    #[test]
    fn what_is_taken_is_seen() {
        const LEN: usize = 8 << 20;
        let here = [std::process::id()];
        let before = Memory::of(&here).unwrap();
        let held = vec![1u8; LEN];
        let file = memfd_create("held", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4 * LEN as u64).unwrap();
        assert_eq!(pwrite(&file, &held, 0), Ok(LEN));
        let after = Memory::of(&here).unwrap();
        assert!(after.anonymous >= before.anonymous + LEN as u64 / 2, "{before:?}, {after:?}");
        assert!(after.pss >= before.pss + LEN as u64 / 2 && after.rss >= after.pss, "{before:?}, {after:?}");
        // Other tests may have memory files too.
        assert!(after.memory_files >= LEN as u64, "{before:?}, {after:?}");
        assert_eq!(after.own(), after.anonymous + after.memory_files);
    }

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let rollup = "00400000-7ff rollup\nRss:      12 kB\nPss:       7 kB\nPss_Anon:    5 kB\n";
        for (name, want) in [("Rss:", Some(12)), ("Pss:", Some(7)), ("Pss_Anon:", Some(5)), ("Swap:", None)] {
            assert_eq!(kib(rollup, name), want, "{name}");
        }
    }
}
