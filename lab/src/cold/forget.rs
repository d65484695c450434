//! Drops the cold files from memory, as they lie, and nothing beside them.

use std::fs::File;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Advice, fadvise};

use super::cold_name;
use crate::Trouble;
use crate::peer::{Form, Stage};

/// Has the kernel drop the cold files from memory, in the form that is served, and nothing beside them.
pub(super) fn forget(stage: &Stage, form: Form, large: u64, cold_count: usize) -> Result<(), Trouble> {
    if form == Form::Directory {
        for number in 0..cold_count {
            drop_from_memory(&File::open(stage.site().join(cold_name(number)))?, 0, large)?;
        }
        return Ok(());
    }
    let archive = stage.site_as(form);
    let members = members(&archive)?;
    // At once, as they lie side by side: of pages that the kernel keeps together it drops all or none.
    let (mut begin, mut end) = (u64::MAX, 0);
    for number in 0..cold_count {
        let name = cold_name(number);
        let lies = members.iter().find(|(_, member)| member.trim_start_matches("./") == name);
        let (at, _) = lies.ok_or_else(|| format!("{}: no {name}", archive.display()))?;
        (begin, end) = (begin.min(*at), end.max(at + large));
    }
    drop_from_memory(&File::open(&archive)?, begin, end - begin)
}

fn drop_from_memory(file: &File, at: u64, len: u64) -> Result<(), Trouble> {
    // What is not on the disk yet cannot be dropped.
    file.sync_data()?;
    Ok(fadvise(file, at, NonZeroU64::new(len), Advice::DontNeed)?)
}

/// Where the members of a tar archive begin, and their names.
fn members(archive: &Path) -> Result<Vec<(u64, String)>, Trouble> {
    let listed = Command::new("tar").args(["--list", "--block-number", "--file"]).arg(archive).output()?;
    if !listed.status.success() {
        return Err(format!("tar: {}", String::from_utf8_lossy(&listed.stderr)).into());
    }
    let member = |line: &str| {
        let (block, name) = line.strip_prefix("block ")?.split_once(": ")?;
        Some((block.parse::<u64>().ok()? * TAR_BLOCK_LEN, name.to_owned()))
    };
    Ok(String::from_utf8_lossy(&listed.stdout).lines().filter_map(member).collect())
}

/// POSIX, pax, ustar Interchange Format: all begins at a multiple of it.
const TAR_BLOCK_LEN: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::run;
    use crate::site::noise;

    #[test]
    fn a_member_lies_behind_the_block_that_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let (archive, content) = (directory.path().join("site.tar"), noise(1, 5000));
        std::fs::write(directory.path().join("first"), "first").unwrap();
        std::fs::write(directory.path().join(cold_name(0)), &content).unwrap();
        let mut tar = Command::new("tar");
        tar.current_dir(&directory).args(["-cf", "site.tar", "./first"]).arg(format!("./{}", cold_name(0)));
        run(&mut tar).unwrap();
        let members = members(&archive).unwrap();
        // Behind them it names the end.
        let names: Vec<_> = members.iter().map(|(_, name)| &**name).take(2).collect();
        assert_eq!(names, ["./first", "./cold-0000.mp4"]);
        let at = (members[1].0 + TAR_BLOCK_LEN) as usize;
        assert_eq!(std::fs::read(&archive).unwrap()[at..at + content.len()], content);
    }
}
