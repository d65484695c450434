//! Reads the memory of a server.
//!
//! ```text
//! resident ─┬─ anonymous ────┬─ private: only the exit of the process frees it
//!           └─ mapped files  │
//! memfds, mapped or not ─────┘
//! ```
//!
//! The kernel can drop mapped pages of files on disk at any time; they would be in the page cache without the server too.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::error::LabError;
use crate::records::memory::MemoryUse;

/// Returns the memory of these processes together.
pub(crate) fn memory_of(processes: &[u32]) -> Result<MemoryUse, LabError> {
    let mut memory = MemoryUse::default();
    let mut seen = HashSet::new();
    for process in processes {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
        let sum = |name| kib(&rollup, name).ok_or_else(|| format!("smaps_rollup has no {name}"));
        memory.rss += sum("Rss:")? << 10;
        memory.pss += sum("Pss:")? << 10;
        memory.anonymous += sum("Pss_Anon:")? << 10;
        for file in fs::read_dir(format!("/proc/{process}/fd"))? {
            let file = file?.path();
            // The process may close a descriptor between the two calls.
            let (Ok(name), Ok(metadata)) = (fs::read_link(&file), fs::metadata(&file)) else { continue };
            let is_memory = name.to_string_lossy().starts_with("/memfd:");
            if is_memory && seen.insert((metadata.dev(), metadata.ino())) {
                memory.memory_files += metadata.blocks() * 512;
            }
        }
    }
    Ok(memory)
}

/// Returns the number of descriptors that these processes have open together.
pub(crate) fn descriptors_of(processes: &[u32]) -> Result<usize, LabError> {
    let counts = processes.iter().map(|process| Ok(fs::read_dir(format!("/proc/{process}/fd"))?.count()));
    counts.sum()
}

/// Returns the memory that the kernel has allocated for itself, on the whole machine, and cannot reclaim: sockets, for example.
pub(crate) fn kernel_memory() -> Result<u64, LabError> {
    let info = fs::read_to_string("/proc/meminfo")?;
    Ok(kib(&info, "SUnreclaim:").ok_or("meminfo has no SUnreclaim")? << 10)
}

/// Returns a value of `smaps_rollup` or `meminfo`, from a line such as `Rss:      1024 kB`.
fn kib(rollup: &str, name: &str) -> Option<u64> {
    rollup.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pwrite;

    #[test]
    fn allocations_and_memfds_are_counted() {
        const LEN: usize = 8 << 20;
        let here = [std::process::id()];
        let before = memory_of(&here).unwrap();
        let held = vec![1u8; LEN];
        let file = memfd_create("held", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4 * LEN as u64).unwrap();
        assert_eq!(pwrite(&file, &held, 0), Ok(LEN));
        let after = memory_of(&here).unwrap();
        assert!(after.anonymous >= before.anonymous + LEN as u64 / 2, "{before:?}, {after:?}");
        assert!(after.pss >= before.pss + LEN as u64 / 2 && after.rss >= after.pss, "{before:?}, {after:?}");
        // Other tests may hold memfds too.
        assert!(after.memory_files >= LEN as u64, "{before:?}, {after:?}");
        assert_eq!(after.private(), after.anonymous + after.memory_files);
    }

    #[test]
    fn line_is_found_by_its_whole_name() {
        let rollup = "00400000-7ff rollup\nRss:      12 kB\nPss:       7 kB\nPss_Anon:    5 kB\n";
        for (name, want) in [("Rss:", Some(12)), ("Pss:", Some(7)), ("Pss_Anon:", Some(5)), ("Swap:", None)] {
            assert_eq!(kib(rollup, name), want, "{name}");
        }
    }
}
