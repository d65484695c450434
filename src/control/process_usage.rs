//! What a server process takes from the system: memory, descriptors, CPU time. proc(5).
//!
//! The files are opened before the sandbox forbids it. Reading them needs no further right.

use crate::{control::metrics::ProcessMetrics, sys::memory};
use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};
use std::{
    fs::File,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::FileExt,
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// What tells the usage of a process.
#[derive(Debug)]
pub(crate) struct ProcessUsage {
    /// `/proc/self/statm`. `None`: this system has none.
    memory: Option<File>,
    /// `/proc/self/fd`, whose length is the number of open descriptors since Linux 6.2.
    descriptors: Option<File>,
    descriptor_max: Option<u64>,
    start_unix_s: u64,
}

impl ProcessUsage {
    /// Opens what tells the usage of this process, and of no child.
    pub(crate) fn of_this_process() -> ProcessUsage {
        ProcessUsage {
            memory: File::open("/proc/self/statm").ok(),
            descriptors: File::open("/proc/self/fd").ok(),
            descriptor_max: getrlimit(Resource::Nofile).current,
            start_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        }
    }

    /// Returns the descriptors that a child must keep.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = RawFd> {
        self.memory.iter().chain(&self.descriptors).map(AsRawFd::as_raw_fd)
    }

    /// Returns what the process takes now. `worker_cpu_us`: CPU time of workers that are processes of their own.
    pub(crate) fn metrics(&self, worker_cpu_us: u64) -> ProcessMetrics {
        let [virtual_len, resident_len] = self.memory_lens().map_or([None; 2], |lens| lens.map(Some));
        let count = self.descriptors.as_ref().and_then(|dir| memory::len(dir).ok());
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        ProcessMetrics {
            cpu_us: (cpu.tv_sec * 1_000_000 + cpu.tv_nsec / 1_000) as u64 + worker_cpu_us,
            resident_len,
            virtual_len,
            open_descriptors: count.filter(|&count| count > 0),
            descriptor_max: self.descriptor_max,
            start_unix_s: self.start_unix_s,
        }
    }

    /// Returns the bytes of address space, and those that are resident.
    fn memory_lens(&self) -> Option<[u64; 2]> {
        let mut text = [0; STATM_LEN_MAX];
        let len = self.memory.as_ref()?.read_at(&mut text, 0).ok()?;
        lens(std::str::from_utf8(&text[..len]).ok()?, page_size() as u64)
    }
}

/// Returns the lengths that the first two numbers are, in pages.
fn lens(statm: &str, page_len: u64) -> Option<[u64; 2]> {
    let mut numbers = statm.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    Some([numbers.next()?? * page_len, numbers.next()?? * page_len])
}

/// Seven numbers.
const STATM_LEN_MAX: usize = 7 * 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_in_pages() {
        for (text, want) in [
            ("1200 300 200 1 0 50 0\n", Some([1200 * 4096, 300 * 4096])),
            ("1200", None),
            ("", None),
            ("one two", None),
        ] {
            assert_eq!(lens(text, 4096), want, "{text}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn usage_is_that_of_this_process() {
        let usage = ProcessUsage::of_this_process();
        let before = usage.metrics(0);
        assert!(
            before.resident_len > Some(1 << 20) && before.virtual_len > before.resident_len,
            "{before:?}"
        );
        assert_eq!(usage.metrics(1 << 40).cpu_us >> 40, 1);
        assert!(usage.numbers().count() == 2);
    }
}
