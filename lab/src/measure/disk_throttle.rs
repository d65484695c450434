//! A slow disk: a control group whose processes read at a limited rate.
//!
//! Reads from the page cache stay fast.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor, stat};

use super::control_group::{CgroupController, CgroupVersion, ControlGroup};
use crate::error::LabError;

/// A control group with a limit on reads.
pub(crate) struct DiskThrottle {
    group: ControlGroup,
    /// The file of the limit, and the line that removes the limit.
    limit: &'static str,
    unlimited: String,
}

impl DiskThrottle {
    /// Creates a control group without processes, for the disk of the directory `place`.
    pub(crate) fn new(place: &Path, bytes_per_second: u64) -> Result<DiskThrottle, LabError> {
        let disk = disk_of(place)?;
        let group = ControlGroup::new(CgroupController { one: "blkio", two: "io" })
            .map_err(|error| refusal(&error.to_string()))?;
        let (limit, slow, unlimited) = match group.version() {
            CgroupVersion::One => {
                ("blkio.throttle.read_bps_device", format!("{disk} {bytes_per_second}"), format!("{disk} 0"))
            }
            CgroupVersion::Two => {
                ("io.max", format!("{disk} rbps={bytes_per_second}"), format!("{disk} rbps=max"))
            }
        };
        group.write(limit, &slow).map_err(|error| refusal(&error.to_string()))?;
        Ok(DiskThrottle { group, limit, unlimited })
    }

    /// Moves a process with all its threads into the group.
    pub(crate) fn add(&self, process: u32) -> Result<(), LabError> {
        self.group.add(process)
    }

    /// Removes the limit. A process that waits for the throttled disk cannot exit.
    pub(crate) fn lift(&self) -> Result<(), LabError> {
        self.group.write(self.limit, &self.unlimited)
    }
}

impl Drop for DiskThrottle {
    fn drop(&mut self) {
        let _ = self.lift();
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

fn refusal(why: &str) -> String {
    format!("cannot throttle the disk: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_a_disk_is_refused() {
        let message = disk_of(Path::new("/proc")).unwrap_err().to_string();
        assert!(message.contains("--dir"), "{message}");
    }
}
