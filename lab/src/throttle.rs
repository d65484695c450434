//! A slow disk: a control group whose processes read only so many bytes a second.
//!
//! What is in memory already is read as fast as ever. Needs root, and either version of control groups.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor, stat};

use crate::Trouble;

/// The control group. It ends with this value, and has to be empty then.
pub(crate) struct Throttle {
    group: PathBuf,
    /// The file with the limit, and the line in it that lifts it.
    limit: &'static str,
    unlimited: String,
}

impl Throttle {
    /// A group without processes, for the disk that `place` lies on.
    pub(crate) fn new(place: &Path, bytes_per_second: u64) -> Result<Throttle, Trouble> {
        let disk = disk_of(place)?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let controllers =
            |root: &Path| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (root, version) = hierarchy(&mounts, controllers).ok_or_else(|| refusal(NO_HIERARCHY))?;
        let failed = |error| refusal(&format!("{}: {error}", root.display()));
        let group = root.join(format!("tarpon-lab-{}", std::process::id()));
        if version == Version::Two {
            fs::write(root.join("cgroup.subtree_control"), "+io").map_err(failed)?;
        }
        match fs::create_dir(&group) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(error).into());
            }
            _ => {}
        }
        let (limit, slow, unlimited) = match version {
            Version::One => {
                ("blkio.throttle.read_bps_device", format!("{disk} {bytes_per_second}"), format!("{disk} 0"))
            }
            Version::Two => ("io.max", format!("{disk} rbps={bytes_per_second}"), format!("{disk} rbps=max")),
        };
        let throttle = Throttle { group, limit, unlimited };
        fs::write(throttle.group.join(limit), slow).map_err(failed)?;
        Ok(throttle)
    }

    /// From now on this process, with all its threads, reads slowly.
    pub(crate) fn hold(&self, process: u32) -> Result<(), Trouble> {
        Ok(fs::write(self.group.join("cgroup.procs"), process.to_string())
            .map_err(|error| refusal(&error.to_string()))?)
    }

    /// What is held reads as fast as ever: nobody ends while he waits for a disk.
    pub(crate) fn lift(&self) -> Result<(), Trouble> {
        Ok(fs::write(self.group.join(self.limit), &self.unlimited)?)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = self.lift();
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("tarpon-lab: {}: {error}; remove it", self.group.display());
        }
    }
}

/// Bytes that a process had read from a disk for it, in all its life. proc(5).
pub(crate) fn read_from_disk(process: u32) -> Result<u64, Trouble> {
    let io = fs::read_to_string(format!("/proc/{process}/io"))?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    Ok(bytes.ok_or("/proc/PID/io has no read_bytes")?)
}

/// The disk with the file system of `place`, as `8:0`. Limits are for whole disks, and not for parts of them.
fn disk_of(place: &Path) -> Result<String, Trouble> {
    let device = stat(place).map_err(|error| format!("{}: {error}", place.display()))?.st_dev;
    let block = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let block = block.canonicalize().map_err(|_| {
        let why = format!("{} lies on no disk, but in memory, in layers or in a network", place.display());
        format!("{}; name a directory on a disk with --place", refusal(&why))
    })?;
    let is_part = block.join("partition").exists();
    let disk = if is_part { block.parent().unwrap_or(&block) } else { &block };
    Ok(fs::read_to_string(disk.join("dev"))?.trim().to_owned())
}

/// Of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where groups that limit reading are made.
fn hierarchy(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<(PathBuf, Version)> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (root, kind, options) = (Path::new(fields.next()?), fields.next()?, fields.next()?);
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "blkio") => Version::One,
            "cgroup2" if controllers(root).split_whitespace().any(|name| name == "io") => Version::Two,
            _ => return None,
        };
        Some((root.to_owned(), version))
    })
}

fn refusal(why: &str) -> String {
    format!("the disk cannot be slowed: {why}")
}

const NO_HIERARCHY: &str =
    "no control groups with `blkio` (version 1) or `io` (version 2) are mounted; both need root";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hierarchy_that_limits_reading_is_found() {
        const ONE: &str = "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/io cgroup rw,relatime,blkio 0 0\n";
        const TWO: &str = "proc /proc proc rw 0 0\ncgroup2 /cg cgroup2 rw,nosuid 0 0\n";
        const BOTH: &str = "cgroup2 /cg/unified cgroup2 rw 0 0\ncgroup /cg/blkio cgroup rw,blkio 0 0\n";
        #[rustfmt::skip]
        let cases = [
            // what it shows           mounts   controllers   where
            ("version 1",              ONE,     "",           Some(("/cg/io", Version::One))),
            ("version 2",              TWO,     "cpu io pids", Some(("/cg", Version::Two))),
            ("version 2, without io",  TWO,     "cpu iostat", None),
            ("io is in version 1",     BOTH,    "",           Some(("/cg/blkio", Version::One))),
            ("none",                   "",      "io",         None),
        ];
        for (name, mounts, controllers, want) in cases {
            let found = hierarchy(mounts, |_| controllers.to_owned());
            assert_eq!(found, want.map(|(root, version)| (root.into(), version)), "{name}");
        }
    }

    #[test]
    fn what_lies_on_no_disk_is_refused() {
        let said = disk_of(Path::new("/proc")).unwrap_err().to_string();
        assert!(said.contains("--place"), "{said}");
    }
}
