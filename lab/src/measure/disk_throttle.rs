//! A slow disk: a control group whose processes read at a limited rate.
//!
//! Reads from the page cache stay fast. Needs root, and version 1 or 2 of control groups.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor, stat};

use crate::error::LabError;

/// A control group with a limit on reads. Dropping the value removes the group, which must be empty by that time.
pub(crate) struct DiskThrottle {
    group: PathBuf,
    /// The file of the limit, and the line that removes the limit.
    limit: &'static str,
    unlimited: String,
}

impl DiskThrottle {
    /// Creates a control group without processes, for the disk of the directory `place`.
    pub(crate) fn new(place: &Path, bytes_per_second: u64) -> Result<DiskThrottle, LabError> {
        let disk = disk_of(place)?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let controllers =
            |root: &Path| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (root, version) = hierarchy(&mounts, controllers).ok_or_else(|| refusal(NO_HIERARCHY))?;
        let failed = |error| refusal(&format!("{}: {error}", root.display()));
        let group = root.join(format!("tarpon-lab-{}", std::process::id()));
        if version == CgroupVersion::Two {
            fs::write(root.join("cgroup.subtree_control"), "+io").map_err(failed)?;
        }
        match fs::create_dir(&group) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(error).into());
            }
            _ => {}
        }
        let (limit, slow, unlimited) = match version {
            CgroupVersion::One => {
                ("blkio.throttle.read_bps_device", format!("{disk} {bytes_per_second}"), format!("{disk} 0"))
            }
            CgroupVersion::Two => {
                ("io.max", format!("{disk} rbps={bytes_per_second}"), format!("{disk} rbps=max"))
            }
        };
        let throttle = DiskThrottle { group, limit, unlimited };
        fs::write(throttle.group.join(limit), slow).map_err(failed)?;
        Ok(throttle)
    }

    /// Moves a process with all its threads into the group.
    pub(crate) fn add(&self, process: u32) -> Result<(), LabError> {
        Ok(fs::write(self.group.join("cgroup.procs"), process.to_string())
            .map_err(|error| refusal(&error.to_string()))?)
    }

    /// Removes the limit. A process that waits for the throttled disk cannot exit.
    pub(crate) fn lift(&self) -> Result<(), LabError> {
        Ok(fs::write(self.group.join(self.limit), &self.unlimited)?)
    }
}

impl Drop for DiskThrottle {
    fn drop(&mut self) {
        let _ = self.lift();
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("tarpon-lab: {}: {error}; remove this control group", self.group.display());
        }
    }
}

/// Returns the bytes that a process has caused to be read from a disk since its start. proc_pid_io(5).
pub(crate) fn read_from_disk(process: u32) -> Result<u64, LabError> {
    let io = fs::read_to_string(format!("/proc/{process}/io"))?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    Ok(bytes.ok_or("/proc/PID/io has no read_bytes")?)
}

/// Returns the disk of a directory, as `8:0`. The kernel limits whole disks, not partitions.
fn disk_of(place: &Path) -> Result<String, LabError> {
    let device = stat(place).map_err(|error| format!("{}: {error}", place.display()))?.st_dev;
    let block = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let block = block.canonicalize().map_err(|_| {
        let why = format!("{} is not on a disk but in memory, an overlay or a network", place.display());
        format!("{}; pass a directory on a disk with `--dir`", refusal(&why))
    })?;
    let is_partition = block.join("partition").exists();
    let disk = if is_partition { block.parent().unwrap_or(&block) } else { &block };
    Ok(fs::read_to_string(disk.join("dev"))?.trim().to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// Returns the root of the control groups that can limit reads.
fn hierarchy(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<(PathBuf, CgroupVersion)> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (root, kind, options) = (Path::new(fields.next()?), fields.next()?, fields.next()?);
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "blkio") => CgroupVersion::One,
            "cgroup2" if controllers(root).split_whitespace().any(|name| name == "io") => CgroupVersion::Two,
            _ => return None,
        };
        Some((root.to_owned(), version))
    })
}

fn refusal(why: &str) -> String {
    format!("cannot throttle the disk: {why}")
}

const NO_HIERARCHY: &str =
    "no control groups with `blkio` (version 1) or `io` (version 2) are mounted; both need root";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchy_with_an_io_controller_is_found() {
        const ONE: &str = "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/io cgroup rw,relatime,blkio 0 0\n";
        const TWO: &str = "proc /proc proc rw 0 0\ncgroup2 /cg cgroup2 rw,nosuid 0 0\n";
        const BOTH: &str = "cgroup2 /cg/unified cgroup2 rw 0 0\ncgroup /cg/blkio cgroup rw,blkio 0 0\n";
        #[rustfmt::skip]
        let cases = [
            // case                    mounts   controllers   found
            ("version 1",              ONE,     "",           Some(("/cg/io", CgroupVersion::One))),
            ("version 2",              TWO,     "cpu io pids", Some(("/cg", CgroupVersion::Two))),
            ("version 2, without io",  TWO,     "cpu iostat", None),
            ("io is in version 1",     BOTH,    "",           Some(("/cg/blkio", CgroupVersion::One))),
            ("none",                   "",      "io",         None),
        ];
        for (name, mounts, controllers, want) in cases {
            let found = hierarchy(mounts, |_| controllers.to_owned());
            assert_eq!(found, want.map(|(root, version)| (root.into(), version)), "{name}");
        }
    }

    #[test]
    fn directory_without_a_disk_is_refused() {
        let message = disk_of(Path::new("/proc")).unwrap_err().to_string();
        assert!(message.contains("--dir"), "{message}");
    }
}
