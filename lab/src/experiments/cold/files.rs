//! The cold files: their names and contents, and how the lab drops them from the page cache.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Advice, fadvise};

use crate::error::LabError;
use crate::generated_site::noise;
use crate::records::server::SiteForm;
use crate::servers::test_bed::TestBed;

/// Returns the name of a cold file.
pub(super) fn cold_name(number: usize) -> String {
    format!("cold-{number:04}.mp4")
}

/// Writes `count` cold files of `size` bytes, and the last file, into a site.
pub(super) fn write(site: &Path, size: u64, count: usize) -> Result<(), LabError> {
    for number in 0..count {
        fs::write(site.join(cold_name(number)), noise(number as u64, size as usize))?;
    }
    Ok(fs::write(site.join(LAST), noise(0, LAST_LEN))?)
}

/// Drops the cold files from the page cache, and nothing else, in the form that the server reads.
pub(super) fn drop_from_page_cache(
    bed: &TestBed,
    form: SiteForm,
    size: u64,
    count: usize,
) -> Result<(), LabError> {
    if form == SiteForm::Directory {
        for number in 0..count {
            drop_range(&File::open(bed.site().join(cold_name(number)))?, 0, size)?;
        }
        return Ok(());
    }
    let archive = bed.site_as(form);
    let members = list_members(&archive)?;
    // One call for the whole range of files: the kernel drops large folios completely or not at all.
    let (mut begin, mut end) = (u64::MAX, 0);
    for number in 0..count {
        let name = cold_name(number);
        let member = members.iter().find(|(_, member)| member.trim_start_matches("./") == name);
        let (at, _) = member.ok_or_else(|| format!("{}: no member {name}", archive.display()))?;
        (begin, end) = (begin.min(*at), end.max(at + size));
    }
    drop_range(&File::open(&archive)?, begin, end - begin)
}

fn drop_range(file: &File, at: u64, len: u64) -> Result<(), LabError> {
    // The kernel does not drop dirty pages.
    file.sync_data()?;
    Ok(fadvise(file, at, NonZeroU64::new(len), Advice::DontNeed)?)
}

/// Returns offset and name of each member of a tar archive.
fn list_members(archive: &Path) -> Result<Vec<(u64, String)>, LabError> {
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

/// POSIX, pax, ustar Interchange Format: headers and contents begin at multiples of this length.
const TAR_BLOCK_LEN: u64 = 512;

/// A file after the cold files of an archive, which no client requests. The kernel does not drop a folio of up to 2 MiB that has a
/// page in use, and the last page of a mapped archive is in use.
const LAST: &str = "zz.mp4";
const LAST_LEN: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::programs::run_command;

    #[test]
    fn content_of_a_member_follows_its_header_block() {
        let directory = tempfile::tempdir().unwrap();
        let (archive, content) = (directory.path().join("site.tar"), noise(1, 5000));
        fs::write(directory.path().join("first"), "first").unwrap();
        fs::write(directory.path().join(cold_name(0)), &content).unwrap();
        let mut tar = Command::new("tar");
        tar.current_dir(&directory).args(["-cf", "site.tar", "./first"]).arg(format!("./{}", cold_name(0)));
        run_command(&mut tar).unwrap();
        let members = list_members(&archive).unwrap();
        // After the members, tar lists the end of the archive.
        let names: Vec<_> = members.iter().map(|(_, name)| &**name).take(2).collect();
        assert_eq!(names, ["./first", "./cold-0000.mp4"]);
        let at = (members[1].0 + TAR_BLOCK_LEN) as usize;
        assert_eq!(fs::read(&archive).unwrap()[at..at + content.len()], content);
    }
}
