//! Landlock: which files a process may open, whatever its user may. landlock(7).

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use std::{io, path::PathBuf};

/// From now on this process opens nothing but what lies at these paths and below them, to read it; opens and uses no TCP port; and
/// reaches no abstract Unix socket and no process outside. What is open stays open.
///
/// # Errors
/// The kernel does not offer it: `NOSYS` or `OPNOTSUPP`.
pub(super) fn allow_to_read(paths: &[PathBuf]) -> io::Result<()> {
    let status = confine(paths).map_err(io::Error::other)?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(rustix::io::Errno::OPNOTSUPP.into()),
    }
}

fn confine(paths: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    // An older kernel knows fewer kinds of access, of which then all are refused that it knows.
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_MAX))?
        .handle_access(AccessNet::from_all(ABI_MAX))?
        .scope(Scope::from_all(ABI_MAX))?
        .create()?
        // What is not there cannot be read either.
        .add_rules(path_beneath_rules(paths, AccessFs::ReadFile | AccessFs::ReadDir))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// The latest that the crate knows. Of an older kernel all is asked that it knows.
const ABI_MAX: ABI = ABI::V9;
