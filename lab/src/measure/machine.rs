//! Reads kernel, processor and date.

use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::records::machine::MachineInfo;

/// Describes this machine. Call it before the process is pinned to a core, as it counts the cores that the process may use.
pub(crate) fn this_machine() -> MachineInfo {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    MachineInfo {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
        core_count: available_parallelism().map_or(0, usize::from),
        congestion_control: congestion_control(),
        start_time: now(),
    }
}

/// Returns the time in UTC.
pub(crate) fn now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

fn congestion_control() -> Option<String> {
    fs::read_to_string(CONGESTION_CONTROL).ok().map(|name| name.trim().to_owned())
}

/// Formats seconds since 1970 as a time in UTC. 400 years form a cycle of 146,097 days. Years begin in March here, so that the
/// leap day is the last day of a year.
fn utc(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let second = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The file of the congestion control that new connections of this network namespace use.
pub(crate) const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_a_date() {
        #[rustfmt::skip]
        let cases = [
            (0,             "1970-01-01T00:00:00Z"),
            (951_782_399,   "2000-02-28T23:59:59Z"),
            (951_782_400,   "2000-02-29T00:00:00Z"),
            (951_868_800,   "2000-03-01T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, want) in cases {
            assert_eq!(utc(seconds), want);
        }
    }
}
