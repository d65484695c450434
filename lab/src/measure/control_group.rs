//! A control group: processes whose use of a resource the kernel limits. Needs root, and version 1 or 2 of control groups.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::LabError;

/// A control group. Dropping the value removes the group, which must be empty by that time.
pub(super) struct ControlGroup {
    path: PathBuf,
    version: CgroupVersion,
}

/// How often the removal of a busy group is repeated, and how long the pause between is.
const REMOVE_COUNT_MAX: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// What limits a resource, by the version of control groups.
#[derive(Clone, Copy)]
pub(super) struct CgroupController {
    pub(super) one: &'static str,
    pub(super) two: &'static str,
}

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    One,
    Two,
}

impl ControlGroup {
    /// Creates a control group without processes.
    pub(super) fn new(controller: CgroupController) -> Result<ControlGroup, LabError> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let controllers =
            |root: &Path| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (root, version) = hierarchy(&mounts, controller, controllers).ok_or_else(|| {
            format!(
                "no control groups with `{}` (version 1) or `{}` (version 2) are mounted; both need root",
                controller.one, controller.two
            )
        })?;
        let failed = |error| format!("{}: {error}", root.display());
        let path = root.join(format!("tarpon-lab-{}", std::process::id()));
        if version == CgroupVersion::Two {
            fs::write(root.join("cgroup.subtree_control"), format!("+{}", controller.two)).map_err(failed)?;
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(failed(error).into()),
            _ => Ok(ControlGroup { path, version }),
        }
    }

    pub(super) fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Writes to a file of the group.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), LabError> {
        Ok(fs::write(self.path.join(file), text)
            .map_err(|error| format!("{}: {error}", self.path.join(file).display()))?)
    }

    /// Moves a process with all its threads into the group.
    pub(super) fn add(&self, process: u32) -> Result<(), LabError> {
        self.write("cgroup.procs", &process.to_string())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let mut removed = fs::remove_dir(&self.path);
        // A process that was killed is in the group until the kernel has ended it.
        for _ in 0..REMOVE_COUNT_MAX {
            match &removed {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(REMOVE_PAUSE),
                _ => break,
            }
            removed = fs::remove_dir(&self.path);
        }
        if let Err(error) = removed {
            eprintln!("tarpon-lab: {}: {error}; remove this control group", self.path.display());
        }
    }
}

/// Returns the root of the control groups with a controller.
fn hierarchy(
    mounts: &str,
    controller: CgroupController,
    controllers: impl Fn(&Path) -> String,
) -> Option<(PathBuf, CgroupVersion)> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (root, kind, options) = (Path::new(fields.next()?), fields.next()?, fields.next()?);
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == controller.one) => CgroupVersion::One,
            "cgroup2" if controllers(root).split_whitespace().any(|name| name == controller.two) => {
                CgroupVersion::Two
            }
            _ => return None,
        };
        Some((root.to_owned(), version))
    })
}

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
            let found =
                hierarchy(mounts, CgroupController { one: "blkio", two: "io" }, |_| controllers.to_owned());
            assert_eq!(found, want.map(|(root, version)| (root.into(), version)), "{name}");
        }
    }
}
