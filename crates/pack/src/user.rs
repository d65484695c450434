//! User directories, each served at `/~name/`. An error in one of them does not affect the rest of the site.
//!
//! ```text
//! home, directory ─ opened, below the home ─ walk ─▶ files ─ limits ─▶ added to the files of the site
//!        │                    │                └ a file cannot be read ─▶ skipped, and counted
//!        │                    └ outside the home, unreadable, beyond a limit ─▶ omitted, and reported
//!        └ does not exist ─▶ nothing
//! ```
//!
//! The caller selects the users.

use crate::error::PackError;
use crate::rules::is_hidden;
use crate::skip::{SkipReason, Skipped, skip, skip_all};
use crate::tree::{DirTree, ResolveError, TreePath, is_not_found};
use crate::walk::{self, SiteFile, TreeFile};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use tarpon_site::Printable;

/// A directory of a user, which need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirectory {
    /// The name after `/~`: one component of a path.
    pub name: String,
    /// The home of the user. The directory must lie in it after all symbolic links are resolved.
    pub home: PathBuf,
    /// The directory, relative to the home.
    pub dir: PathBuf,
}

/// A user directory that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// The directory.
    pub user: UserDirectory,
    /// The reason.
    pub reason: OmitReason,
}

/// Why a user directory is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmitReason {
    /// The site has an entry at its path.
    Taken,
    /// It lies outside the home.
    Outside,
    /// This process cannot read it.
    Unreadable(io::ErrorKind),
    /// It has more than [`USER_ENTRY_COUNT_MAX`] entries.
    EntryCount,
    /// Its small files exceed [`USER_LEN_MAX`] bytes.
    Len,
    /// It has more large files than this number.
    LargeCount(usize),
}

/// The number of entries of a user directory: files, directories and all others, at any depth. An ordinary home page has less than a
/// hundredth of it.
pub const USER_ENTRY_COUNT_MAX: usize = 10_000;
/// Bytes of the small files in a user directory. They are in memory, for each user.
pub const USER_LEN_MAX: u64 = 64 << 20;
/// A user may have one in this many of the large files that a site may keep open.
const LARGE_PART: usize = 8;

impl UserDirectory {
    /// Returns the path of the directory.
    pub fn path(&self) -> PathBuf {
        self.home.join(&self.dir)
    }

    /// Opens the directory, if it exists and lies in the home. It need not be readable.
    pub fn open(&self) -> Option<OwnedFd> {
        let tree = open_root(self, &mut Vec::new()).ok().flatten()?;
        tree.root().try_clone_to_owned().ok()
    }

    /// Returns the path that serves the directory; ends in a slash.
    fn site_path(&self) -> Vec<u8> {
        format!("/~{}/", self.name).into_bytes()
    }
}

/// The files of all users.
#[derive(Default)]
pub(crate) struct UserFiles {
    pub(crate) files: Vec<SiteFile<TreeFile>>,
    pub(crate) omitted: Vec<Omitted>,
}

/// The limits of a user's files. A file of more than `file_len_min` bytes stays open; all users together may have `file_count_max`
/// of these.
#[derive(Clone, Copy)]
pub(crate) struct UserLimits {
    pub(crate) file_len_min: u64,
    pub(crate) file_count_max: usize,
}

/// Lists the files of users, beside the files of a site.
pub(crate) fn list(
    users: &[UserDirectory],
    site: &[SiteFile<TreeFile>],
    limits: UserLimits,
    skipped: &mut Vec<Skipped>,
) -> UserFiles {
    // The names at the root of the site that begin with a tilde.
    let tops =
        site.iter().filter_map(|file| file.path.strip_prefix(b"/~")?.split(|&byte| byte == b'/').next());
    let taken: BTreeSet<&[u8]> = tops.collect();
    let mut all = UserFiles::default();
    for user in users {
        let path = user.site_path();
        let is_taken = taken.contains(user.name.as_bytes());
        let listed = if is_taken { Err(OmitReason::Taken) } else { files(user, &path, limits, skipped) };
        match listed {
            Ok(mut files) => all.files.append(&mut files),
            Err(reason) => all.omitted.push(Omitted { user: user.clone(), reason }),
        }
    }
    all
}

/// Lists the files of one user, none if the directory does not exist.
fn files(
    user: &UserDirectory,
    path: &[u8],
    limits: UserLimits,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<SiteFile<TreeFile>>, OmitReason> {
    let Some(root) = open_root(user, skipped)? else { return Ok(Vec::new()) };
    let walk = walk::list_user(&Arc::new(root), path, USER_ENTRY_COUNT_MAX);
    let walk = walk.map_err(|error| OmitReason::Unreadable(kind(error)))?;
    let mut walk = walk.ok_or(OmitReason::EntryCount)?;
    // `_headers` and `_redirects` have no effect here, and are not served either.
    walk.files.retain(|file| !is_hidden(&file.path[path.len() - 1..]));
    check_limits(&walk.files, limits)?;
    skip_all(skipped, walk.skipped);
    Ok(walk.files)
}

/// Opens the directory. Returns `None` if it does not exist, or if this process may not enter the home.
fn open_root(user: &UserDirectory, skipped: &mut Vec<Skipped>) -> Result<Option<DirTree>, OmitReason> {
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
    let path = match home.resolve(&TreePath::own(&user.dir)) {
        Ok(TreePath { path, .. }) if path.as_os_str().is_empty() => return Err(OmitReason::Outside),
        Ok(TreePath { path, .. }) => path,
        Err(ResolveError::Outside(_)) => return Err(OmitReason::Outside),
        Err(ResolveError::Dangling) => return Ok(None),
        Err(ResolveError::Loop) => {
            return Err(OmitReason::Unreadable(io::Error::from(Errno::LOOP).kind()));
        }
        Err(ResolveError::Unreadable(error)) => return Err(OmitReason::Unreadable(error.kind())),
    };
    match home.subtree(&path) {
        Ok(tree) => Ok(Some(tree)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(OmitReason::Unreadable(error.kind())),
    }
}

fn check_limits(files: &[SiteFile<TreeFile>], limits: UserLimits) -> Result<(), OmitReason> {
    let large_max = limits.file_count_max / LARGE_PART;
    let (mut len, mut large_count) = (0, 0);
    // A file that no longer exists has no length.
    let lens = files.iter().map(|file| file.location.len().unwrap_or(0));
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
        let Omitted { user, reason } = self;
        let (name, home, path) = (user.name.printable(), user.home.printable(), user.path());
        let path = path.printable();
        write!(f, "omitted /~{name}/: ")?;
        match reason {
            OmitReason::Taken => write!(f, "the site has its own ~{name}; rename that to serve {path}"),
            OmitReason::Outside => write!(f, "{path} is outside {home}; make it a directory there"),
            OmitReason::Unreadable(kind) => {
                write!(f, "cannot read {path}: {kind}; make it readable, for example with chmod o+rx {path}")
            }
            OmitReason::EntryCount => {
                write!(
                    f,
                    "{path} has more than {USER_ENTRY_COUNT_MAX} files and directories; move some out of it"
                )
            }
            OmitReason::Len => write!(
                f,
                "the small files in {path} exceed {} MiB together; move some out of it",
                USER_LEN_MAX >> 20
            ),
            OmitReason::LargeCount(max) => write!(
                f,
                "{path} has more than {max} large files, an eighth of those that the site may keep open; move some out of it, or \
                 raise the open-file limit"
            ),
        }
    }
}
