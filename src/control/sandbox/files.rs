//! Landlock: which files a process may open, whatever its user may. landlock(7).

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};
use std::{io, os::fd::BorrowedFd};

/// From now on this process opens nothing but these files, and what lies in these directories, to read it; opens and uses no TCP port; and
/// reaches no abstract Unix socket and no process outside. What is open stays open.
///
/// # Errors
/// The kernel does not offer it: `NOSYS` or `OPNOTSUPP`.
pub(super) fn allow_to_read(opened: &[BorrowedFd<'_>]) -> io::Result<()> {
    let status = confine(opened).map_err(io::Error::other)?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(rustix::io::Errno::OPNOTSUPP.into()),
    }
}

fn confine(opened: &[BorrowedFd<'_>]) -> Result<RulesetStatus, RulesetError> {
    // Rules by descriptor: one by a path that cannot be opened would be left out without a word.
    let rules = opened.iter().map(|&fd| {
        // A file has no entries.
        let is_dir = fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let access = if is_dir { AccessFs::ReadFile | AccessFs::ReadDir } else { AccessFs::ReadFile.into() };
        Ok::<_, RulesetError>(PathBeneath::new(fd, access))
    });
    // An older kernel knows fewer kinds of access, of which then all are refused that it knows.
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_MAX))?
        .handle_access(AccessNet::from_all(ABI_MAX))?
        .scope(Scope::from_all(ABI_MAX))?
        .create()?
        .add_rules(rules)?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// The latest that the crate knows. Of an older kernel all is asked that it knows.
const ABI_MAX: ABI = ABI::V9;
