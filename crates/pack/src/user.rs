//! Directories of users, each served below a path of its own: `/~name/`. None of them is a danger to the rest.
//!
//! ```text
//! home, directory ─ canonical, within the home ─ walk ─▶ files ─ measured ─▶ found, behind those of the site
//!        │                    │                    └ single ones cannot be read ─▶ skipped, and counted
//!        │                    └ leads out, cannot be read, too much ─▶ left out, and told
//!        └ not there ─▶ nothing
//! ```
//!
//! Who the users are, and which of them may have such a directory, others decide.

use crate::error::PackError;
use crate::rules::is_hidden;
use crate::skip::{SkipReason, Skipped, skip, skip_all};
use crate::tree::{DirTree, ResolveError, TreeFile};
use crate::walk::{self, SiteFile, is_not_found};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use tarpon_site::Printable;

/// A directory of a user, which need not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirectory {
    /// What stands behind `/~`: one name of a path.
    pub name: String,
    /// The home of the user, where the directory has to lie, whatever links lead to.
    pub home: PathBuf,
    /// The directory, from there.
    pub dir: PathBuf,
}

/// A directory of a user that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Which.
    pub user: UserDirectory,
    /// Why.
    pub reason: OmitReason,
}

/// Why a directory of a user is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmitReason {
    /// The site itself has something at its path.
    Taken,
    /// It leads out of the home.
    Outside,
    /// It cannot be read.
    Unreadable(io::ErrorKind),
    /// It has more than [`ENTRY_COUNT_MAX`] entries.
    EntryCount,
    /// Its files have more than [`LEN_MAX`] bytes that would be held in memory.
    Len,
    /// It has more large files than may stay open, which are so many.
    LargeCount(usize),
}

/// What a directory of a user may have: files, directories and all else, at any depth. Of a home page a hundredth is much.
pub const USER_ENTRY_COUNT_MAX: usize = 10_000;
/// Bytes of small files in a directory of a user: they lie in memory, for each user again.
pub const USER_LEN_MAX: u64 = 64 << 20;
/// A user may have this part of the large files that a site may keep open.
const LARGE_PART: usize = 8;

impl UserDirectory {
    /// Where the directory is, if it is.
    pub fn path(&self) -> PathBuf {
        self.home.join(&self.dir)
    }

    /// The directory, opened, if it is there, and in its home. It need not be readable.
    pub fn open(&self) -> Option<OwnedFd> {
        let tree = root(self, &mut Vec::new()).ok().flatten()?;
        tree.root().try_clone_to_owned().ok()
    }

    /// What it is served as; ends in a slash.
    fn served_as(&self) -> Vec<u8> {
        format!("/~{}/", self.name).into_bytes()
    }
}

/// What is to be served of users.
#[derive(Default)]
pub(crate) struct UserFiles {
    pub(crate) found: Vec<SiteFile<TreeFile>>,
    pub(crate) omitted: Vec<Omitted>,
}

/// How much a user may have: what is longer than `file_len_min` bytes stays open, and of that there may be `file_count_max` files
/// for all.
#[derive(Clone, Copy)]
pub(crate) struct UserLimits {
    pub(crate) file_len_min: u64,
    pub(crate) file_count_max: usize,
}

/// Lists what users have, beside what a site has itself.
pub(crate) fn list(
    users: &[UserDirectory],
    site: &[SiteFile<TreeFile>],
    limits: UserLimits,
    skipped: &mut Vec<Skipped>,
) -> UserFiles {
    // What the site has at its root, as far as a user could have it.
    let tops =
        site.iter().filter_map(|found| found.path.strip_prefix(b"/~")?.split(|&byte| byte == b'/').next());
    let taken: BTreeSet<&[u8]> = tops.collect();
    let mut all = UserFiles::default();
    for user in users {
        let path = user.served_as();
        let is_taken = taken.contains(user.name.as_bytes());
        let listed = if is_taken { Err(OmitReason::Taken) } else { files(user, &path, limits, skipped) };
        match listed {
            Ok(mut found) => all.found.append(&mut found),
            Err(why) => all.omitted.push(Omitted { user: user.clone(), reason: why }),
        }
    }
    all
}

/// The files of one user; none if there is no such directory.
fn files(
    user: &UserDirectory,
    path: &[u8],
    limits: UserLimits,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<SiteFile<TreeFile>>, OmitReason> {
    let Some(root) = root(user, skipped)? else { return Ok(Vec::new()) };
    let walk = walk::list_user(&Arc::new(root), path, USER_ENTRY_COUNT_MAX);
    let walk = walk.map_err(|error| OmitReason::Unreadable(kind(error)))?;
    let mut walk = walk.ok_or(OmitReason::EntryCount)?;
    // Rules are of the site. What says nothing need not be seen.
    walk.found.retain(|found| !is_hidden(&found.path[path.len() - 1..]));
    measure(&walk.found, limits)?;
    skip_all(skipped, walk.skipped);
    Ok(walk.found)
}

/// The directory, opened; none if it is not there, or cannot be seen.
fn root(user: &UserDirectory, skipped: &mut Vec<Skipped>) -> Result<Option<DirTree>, OmitReason> {
    if let Err(error) = fs::symlink_metadata(user.path())
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        skip(skipped, SkipReason::UserHomeClosed, &user.home);
        return Ok(None);
    }
    let home = match DirTree::open(&user.home) {
        Ok(home) => home,
        Err(error) if is_not_found(&error) => return Ok(None),
        Err(error) => return Err(OmitReason::Unreadable(error.kind())),
    };
    let path = match home.resolve(&user.dir) {
        Ok(path) if path.as_os_str().is_empty() => return Err(OmitReason::Outside),
        Ok(path) => path,
        Err(ResolveError::Outside) => return Err(OmitReason::Outside),
        Err(ResolveError::Dangling) => return Ok(None),
        Err(ResolveError::Loop) => return Err(OmitReason::Unreadable(io::Error::from(Errno::LOOP).kind())),
        Err(ResolveError::Unreadable(error)) => return Err(OmitReason::Unreadable(error.kind())),
    };
    match home.subtree(&path) {
        Ok(tree) => Ok(Some(tree)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(OmitReason::Unreadable(error.kind())),
    }
}

/// Whether it is not too much.
fn measure(found: &[SiteFile<TreeFile>], limits: UserLimits) -> Result<(), OmitReason> {
    let large_max = limits.file_count_max / LARGE_PART;
    let (mut len, mut large_count) = (0, 0);
    // What is gone by now has no length.
    let lens = found.iter().map(|found| found.file.len().unwrap_or(0));
    for file_len in lens {
        match file_len <= limits.file_len_min {
            true => len += file_len,
            false => large_count += 1,
        }
    }
    if large_count > large_max {
        Err(OmitReason::LargeCount(large_max))
    } else if len > USER_LEN_MAX {
        Err(OmitReason::Len)
    } else {
        Ok(())
    }
}

fn kind(error: PackError) -> io::ErrorKind {
    match error {
        PackError::Root { error, .. } | PackError::Read { error, .. } | PackError::Write(error) => {
            error.kind()
        }
        PackError::Denied { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    }
}

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Omitted { user, reason: why } = self;
        let (name, home, path) = (user.name.printable(), user.home.printable(), user.path());
        let path = path.printable();
        write!(f, "left out /~{name}/: ")?;
        match why {
            OmitReason::Taken => write!(f, "the site has ~{name} itself; rename that to serve {path}"),
            OmitReason::Outside => write!(f, "{path} is not within {home}; make it a directory there"),
            OmitReason::Unreadable(kind) => {
                write!(f, "cannot read {path}: {kind}; let the server, as with chmod o+rx {path}")
            }
            OmitReason::EntryCount => {
                write!(
                    f,
                    "{path} has more than {USER_ENTRY_COUNT_MAX} files and directories; move some out of it"
                )
            }
            OmitReason::Len => write!(
                f,
                "the small files of {path} have more than {} MiB together; move some out of it",
                USER_LEN_MAX >> 20
            ),
            OmitReason::LargeCount(max) => write!(
                f,
                "{path} has more large files than the {max} that one user may have, an eighth of all; move some out of it, or \
                 raise the limit on open files"
            ),
        }
    }
}
