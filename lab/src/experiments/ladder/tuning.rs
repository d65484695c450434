//! The settings of the kernel that the case study changes, as far as a network namespace has its own.
//!
//! The limit on open files is high enough in all experiments, and each server stays on its core.

use std::fs;

use crate::error::LabError;

/// Sets the values of the case study, or the defaults of Linux.
pub(super) fn apply(is_tuned: bool) -> Result<(), LabError> {
    for (name, default, tuned) in SETTINGS {
        let value = if is_tuned { tuned } else { default };
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, value).map_err(|error| format!("cannot write {value} to {path}: {error}"))?;
    }
    Ok(())
}

/// Names, the defaults of Linux, and the values of the case study.
#[rustfmt::skip]
const SETTINGS: [(&str, &str, &str); 7] = [
    // name                        default                  case study
    ("ipv4/tcp_rmem",              "4096 131072 6291456",   "4096 131072 16777216"),
    ("ipv4/tcp_wmem",              "4096 16384 4194304",    "4096 65536 16777216"),
    ("core/somaxconn",             "4096",                  "65535"),
    ("ipv4/tcp_max_syn_backlog",   "1024",                  "65535"),
    // 2: on loopback alone.
    ("ipv4/tcp_tw_reuse",          "2",                     "1"),
    ("ipv4/tcp_fin_timeout",       "60",                    "15"),
    // 1: for clients alone.
    ("ipv4/tcp_fastopen",          "1",                     "3"),
];
