//! What is there of the directories of users, and what to watch of it.
//!
//! The kernel tells of a directory only to who may read it, and of one that is not there to nobody: a home is often closed to all but
//! its user. So it is looked at again and again, by its name, whether there is a directory, and the same.

use crate::base::site_config::UserDirectories;
use notify::{ErrorKind, RecursiveMode, Watcher};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};
use tarpon_pack::{ENTRY_COUNT_MAX, UserDirectory};

/// Directories of users, as they were when they were looked at.
pub(super) struct Homes {
    /// Of each.
    seen: Vec<Option<FileId>>,
    /// Of the file that users are listed in.
    list: Option<FileId>,
    at: Instant,
}

/// How they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeState {
    /// As they were.
    Same,
    /// One is gone, or cannot be seen any more.
    Fewer,
    /// There is one that was not there, or another one in its place, or there are other users.
    Others,
}

/// A directory or file in one state.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    dev: u64,
    ino: u64,
    mode: u32,
    /// When it was made; of what is written anew in its place, when it was last written to.
    since: Option<SystemTime>,
}

impl Homes {
    pub(super) fn look(users: &UserDirectories) -> Homes {
        let seen = users.directories.iter().map(|user| FileId::of_directory(&user.path())).collect();
        let list = users.user_database.as_deref().and_then(FileId::of_file);
        Homes { seen, list, at: Instant::now() }
    }

    /// How they are; the same within `pause` after they were looked at last.
    pub(super) fn compare(&mut self, users: &UserDirectories, pause: Duration) -> HomeState {
        if self.at.elapsed() < pause {
            return HomeState::Same;
        }
        let now = Homes::look(users);
        self.at = now.at;
        let is_other = |(now, seen): (&Option<FileId>, &Option<FileId>)| now.is_some() && now != seen;
        if now.list != self.list || now.seen.iter().zip(&self.seen).any(is_other) {
            HomeState::Others
        } else if now.seen != self.seen {
            HomeState::Fewer
        } else {
            HomeState::Same
        }
    }
}

impl FileId {
    fn of_directory(path: &Path) -> Option<FileId> {
        let meta = fs::metadata(path).ok()?;
        Some(FileId { dev: meta.dev(), ino: meta.ino(), mode: meta.mode(), since: meta.created().ok() })
    }

    fn of_file(path: &Path) -> Option<FileId> {
        let meta = fs::metadata(path).ok()?;
        Some(FileId { dev: meta.dev(), ino: meta.ino(), mode: meta.mode(), since: meta.modified().ok() })
    }
}

/// Where events about a user's directory may be said to be.
pub(super) fn names(user: &UserDirectory) -> impl Iterator<Item = PathBuf> {
    let path = user.path();
    let real = path.canonicalize().ok().filter(|real| *real != path);
    [path].into_iter().chain(real)
}

/// Watches what can be read of them, each directory by itself: one that cannot does not keep others from being watched. New ones
/// are not watched before the next call.
///
/// # Errors
/// There are too many.
pub(super) fn watch(users: &UserDirectories, watcher: &mut dyn Watcher) -> notify::Result<()> {
    for user in &users.directories {
        let mut dirs = Vec::new();
        // What is too much is not served, so it need not be watched.
        if list(&user.path(), &mut dirs).is_err() {
            dirs.truncate(1);
        }
        for dir in dirs {
            match watcher.watch(&dir, RecursiveMode::NonRecursive) {
                Err(error) if matches!(error.kind, ErrorKind::MaxFilesWatch) => return Err(error),
                // Gone again, or not to be read.
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// A directory, and those below it. Links are not followed: what they lead to is there by another name, or is not served.
fn list(dir: &Path, to: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    to.push(dir.to_owned());
    if to.len() > ENTRY_COUNT_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), to)?;
        }
    }
    Ok(())
}
