//! Watches and polls the directories of users, and watches the trees that links may lead into.
//!
//! The kernel watches only directories that exist and that this process may read, and a home is often closed to other users. So the
//! watcher also polls whether each directory exists and is still the same.

use crate::base::site_config::UserDirectories;
use notify::{ErrorKind, RecursiveMode, Watcher};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};
use tarpon_pack::{USER_ENTRY_COUNT_MAX, UserDirectory};

/// The state of all user directories at the last poll.
pub(super) struct Homes {
    /// The identity of each directory. `None`: it does not exist or is not accessible.
    seen: Vec<Option<FileId>>,
    /// The identity of the user database.
    list: Option<FileId>,
    at: Instant,
}

/// How the user directories differ from the last poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeState {
    /// No difference.
    Same,
    /// A directory was removed or became inaccessible.
    Fewer,
    /// A directory was added or replaced, or the user database has changed.
    Others,
}

/// The identity and state of a directory or file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    dev: u64,
    ino: u64,
    mode: u32,
    /// The creation time of a directory, or the modification time of a file.
    since: Option<SystemTime>,
}

impl Homes {
    pub(super) fn look(users: &UserDirectories) -> Homes {
        let seen = users.directories.iter().map(|user| FileId::of_directory(&user.path())).collect();
        let list = users.user_database.as_deref().and_then(FileId::of_file);
        Homes { seen, list, at: Instant::now() }
    }

    /// Polls the directories and returns how they differ. Does nothing within `pause` of the last poll.
    pub(super) fn compare(&mut self, users: &UserDirectories, pause: Duration) -> HomeState {
        if self.at.elapsed() < pause {
            return HomeState::Same;
        }
        let now = Homes::look(users);
        self.at = now.at;
        let is_new = |(now, seen): (&Option<FileId>, &Option<FileId>)| now.is_some() && now != seen;
        if now.list != self.list || now.seen.iter().zip(&self.seen).any(is_new) {
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

/// Returns the paths that events of a user directory may have.
pub(super) fn names(user: &UserDirectory) -> impl Iterator<Item = PathBuf> {
    let path = user.path();
    let real = path.canonicalize().ok().filter(|real| *real != path);
    [path].into_iter().chain(real)
}

/// Watches each readable directory by itself, so that an unreadable one does not affect the others. New directories are not watched
/// until the next call.
///
/// # Errors
/// The limit on watches is reached.
pub(super) fn watch(users: &UserDirectories, watcher: &mut dyn Watcher) -> notify::Result<()> {
    for user in &users.directories {
        let mut dirs = Vec::new();
        // A user directory with too many entries is not served, so only its root is watched.
        if list(&user.path(), USER_ENTRY_COUNT_MAX, &mut dirs).is_err() {
            dirs.truncate(1);
        }
        watch_each(&dirs, watcher)?;
    }
    Ok(())
}

/// Watches each readable directory of a tree by itself, like [`watch`]: a link may lead into a part of a tree while another part is closed.
///
/// # Errors
/// The limit on watches is reached.
pub(super) fn watch_tree(root: &Path, watcher: &mut dyn Watcher) -> notify::Result<()> {
    let mut dirs = Vec::new();
    list(root, usize::MAX, &mut dirs).map_err(notify::Error::io)?;
    watch_each(&dirs, watcher)
}

fn watch_each(dirs: &[PathBuf], watcher: &mut dyn Watcher) -> notify::Result<()> {
    for dir in dirs {
        match watcher.watch(dir, RecursiveMode::NonRecursive) {
            Err(error) if matches!(error.kind, ErrorKind::MaxFilesWatch) => return Err(error),
            // The directory was removed, or is not readable.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Collects a directory and all directories below it, up to `count_max`. Does not follow links: their targets are collected by another name, or are not
/// served.
fn list(dir: &Path, count_max: usize, to: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    to.push(dir.to_owned());
    if to.len() > count_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&entry.path(), count_max, to)?;
        }
    }
    Ok(())
}
