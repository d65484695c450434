//! Room for log files, and for the state of ACME.

use super::finding::Finding;
use crate::{
    base::{error::reason, log_config::LogTarget},
    control::supervisor::{Service, acme_sets, log_targets},
    sys::access,
};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// The room of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DiskRoom {
    /// Bytes that users other than root may write.
    free_len: u64,
    len: u64,
    free_inodes: u64,
    /// 0: the file system makes them as it needs them.
    inodes: u64,
    is_read_only: bool,
    /// The kind of the file system, if it keeps files for a limited time only.
    transient: Option<&'static str>,
}

/// Examines the file systems of the logs and of the state directory.
pub(super) fn examine(service: &Service) -> Vec<Finding> {
    let targets = log_targets(&service.log, &service.sites).filter_map(|(_, target)| match target {
        LogTarget::File(path) if !path.starts_with("/dev") => Some(access::dir_of(path).to_owned()),
        _ => None,
    });
    let logs: BTreeSet<PathBuf> = targets.collect();
    let (sets, state) = acme_sets(service);
    let logs = logs.iter().map(|dir| of("log-disk", "A full disk loses lines of the access log.", dir));
    let state = (!sets.is_empty()).then(|| {
        of("state-disk", "A certificate that cannot be stored is obtained again at each start, until the directory refuses.", &state)
    });
    logs.chain(state).collect()
}

fn of(check: &'static str, why: &str, dir: &Path) -> Finding {
    // The directory may be made later.
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let finding = match room(existing) {
        Ok(room) => judge(check, why, &room),
        Err(error) => Finding::unknown(check, reason(&error), why),
    };
    finding.about(dir.printable())
}

fn room(dir: &Path) -> std::io::Result<DiskRoom> {
    let stat = statvfs(dir)?;
    Ok(DiskRoom {
        free_len: stat.f_bavail.saturating_mul(stat.f_frsize),
        len: stat.f_blocks.saturating_mul(stat.f_frsize),
        free_inodes: stat.f_favail,
        inodes: stat.f_files,
        is_read_only: stat.f_flag.contains(StatVfsMountFlags::RDONLY),
        transient: transient(dir),
    })
}

/// Returns the kind of a file system that loses its files. statfs(2)
#[cfg(target_os = "linux")]
fn transient(dir: &Path) -> Option<&'static str> {
    match u64::try_from(rustix::fs::statfs(dir).ok()?.f_type).ok()? & 0xffff_ffff {
        0x0102_1994 => Some("tmpfs: files are lost at a restart of the machine"),
        0x8584_58f6 => Some("ramfs: files are lost at a restart of the machine"),
        0x794c_7630 => Some("overlay: files are lost with the container"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn transient(_: &Path) -> Option<&'static str> {
    None
}

fn judge(check: &'static str, why: &str, room: &DiskRoom) -> Finding {
    let DiskRoom { free_len, len, free_inodes, inodes, is_read_only, transient } = room;
    let mut value = format!("{} MiB of {} MiB free", free_len >> 20, len >> 20);
    if *inodes > 0 {
        value += &format!(", {free_inodes} of {inodes} inodes");
    }
    value.extend(transient.iter().flat_map(|kind| ["; ", kind]));
    let few_inodes = |least: u64| *inodes > 0 && *free_inodes < least;
    let command = "df -h; df -i";
    if *is_read_only {
        return Finding::problem(
            check,
            format!("{value}; read-only"),
            why,
            "mount it for writing, or name another place",
        );
    }
    if *free_len < FREE_LEN_MIN || few_inodes(FREE_INODES_MIN) {
        return Finding::problem(
            check,
            value,
            why,
            "make room: rotate logs with log-max-size, or remove files",
        )
        .command(command);
    }
    // A share of the disk, but no more than a week of logs may need.
    if *free_len < (len / 20).min(FREE_LEN_ENOUGH) || few_inodes(inodes / 20) {
        return Finding::advice(check, value, why, "make room before it is full").command(command);
    }
    match transient {
        Some(_) => {
            Finding::advice(check, value, why, "use a directory on a disk, such as a volume of the container")
        }
        None => Finding::good(check, value, why),
    }
}

/// With less, a busy hour of logs does not fit.
const FREE_LEN_MIN: u64 = 64 << 20;
/// No disk needs more than this free.
const FREE_LEN_ENOUGH: u64 = 4 << 30;
/// Rotated logs and temporary files take a few.
const FREE_INODES_MIN: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::doctor::finding::Verdict::{self, Advice, Good, Problem};

    #[test]
    fn disks_have_verdicts() {
        let gib = |count: u64| count << 30;
        let room = |free_len, len| DiskRoom {
            free_len,
            len,
            free_inodes: 1 << 20,
            inodes: 2 << 20,
            is_read_only: false,
            transient: None,
        };
        let tmpfs = Some("tmpfs: files are lost at a restart of the machine");
        #[rustfmt::skip]
        let cases: &[(&str, DiskRoom, Verdict)] = &[
            ("room",            room(gib(50), gib(100)),                                          Good),
            ("large disk",      room(gib(5), gib(10_000)),                                        Good),
            ("nearly full",     room(gib(3), gib(100)),                                           Advice),
            ("full",            room(1 << 20, gib(100)),                                          Problem),
            ("no inodes",       DiskRoom { free_inodes: 0, ..room(gib(50), gib(100)) },           Problem),
            ("few inodes",      DiskRoom { free_inodes: 1000, ..room(gib(50), gib(100)) },        Advice),
            ("inodes on demand", DiskRoom { free_inodes: 0, inodes: 0, ..room(gib(50), gib(100)) }, Good),
            ("read-only",       DiskRoom { is_read_only: true, ..room(gib(50), gib(100)) },       Problem),
            ("tmpfs",           DiskRoom { transient: tmpfs, ..room(gib(50), gib(100)) },         Advice),
        ];
        for (name, room, verdict) in cases {
            let found = judge("log-disk", "why", room);
            assert_eq!(found.verdict, *verdict, "{name}: {found:?}");
        }
    }

    #[test]
    fn room_of_this_machine_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let found = of("log-disk", "why", &dir.path().join("missing/deeper"));
        assert!(found.value.contains("MiB free") && found.subject.is_some(), "{found:?}");
    }
}
