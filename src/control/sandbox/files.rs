//! Landlock: limits which files a process may open, independent of its user. landlock(7).

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

/// Restricts this process to reading these files and everything below these directories. The process can bind and connect no TCP port, and
/// can reach no abstract Unix socket and no process outside. Open descriptors stay usable.
///
/// # Errors
/// The kernel has no Landlock: `NOSYS` or `OPNOTSUPP`.
pub(super) fn allow_to_read(opened: &[BorrowedFd<'_>]) -> io::Result<()> {
    allow_to_read_and_connect(opened, &[], &[])
}

/// Restricts this process as [`allow_to_read`] does, except that it may connect to these TCP ports, and to the Unix sockets in these
/// directories: a kernel that does not know this right allows all that have a file.
///
/// # Errors
/// As above.
pub(super) fn allow_to_read_and_connect(
    opened: &[BorrowedFd<'_>],
    ports: &[u16],
    sockets: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let status = confine(opened, ports, sockets).map_err(io::Error::other)?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(rustix::io::Errno::OPNOTSUPP.into()),
    }
}

fn confine(
    opened: &[BorrowedFd<'_>],
    ports: &[u16],
    sockets: &[BorrowedFd<'_>],
) -> Result<RulesetStatus, RulesetError> {
    // Rules by descriptor: the crate silently drops a rule whose path cannot be opened.
    let rules = opened.iter().map(|&fd| {
        // `ReadDir` is invalid for a file.
        let is_dir = fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let access = if is_dir { AccessFs::ReadFile | AccessFs::ReadDir } else { AccessFs::ReadFile.into() };
        Ok::<_, RulesetError>(PathBeneath::new(fd, access))
    });
    let sockets =
        sockets.iter().map(|&fd| Ok::<_, RulesetError>(PathBeneath::new(fd, AccessFs::ResolveUnix)));
    let ports = ports.iter().map(|&port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp)));
    // An older kernel knows fewer kinds of access; the ruleset handles all that the kernel knows.
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_MAX))?
        .handle_access(AccessNet::from_all(ABI_MAX))?
        .scope(Scope::from_all(ABI_MAX))?
        .create()?
        .add_rules(rules)?
        .add_rules(sockets)?
        .add_rules(ports)?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Returns rules that keep a process from signalling processes outside, and from connecting to abstract Unix sockets. `None`: the kernel has
/// no such rules.
///
/// # Errors
/// The process is out of descriptors or memory.
pub(super) fn scopes() -> io::Result<Option<OwnedFd>> {
    let rules = Ruleset::default().scope(Scope::from_all(ABI_MAX)).and_then(Ruleset::create);
    rules.map(Option::from).map_err(io::Error::other)
}

/// The latest version that the crate knows. On an older kernel the crate asks for what that kernel supports.
const ABI_MAX: ABI = ABI::V9;
