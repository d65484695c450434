//! A directory of packed releases, and a link to the current one.
//!
//! ```text
//! releases/
//!   2026-11-20.tar  2026-11-21.tar      packed sites
//!   current -> 2026-11-21.tar           the current release: tarpon serve releases/current
//!   .tarpon.history                     the releases that were current before
//!   .tarpon.lock                        locked by the process that changes the link
//! ```
//!
//! A rename replaces the link atomically, so that it always leads to a complete release, even after a crash. The history is written
//! afterwards; if it misses a change, the link takes precedence.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | lists releases |
//! | `activate.rs` | activates a release, rolls back |
//! | `prune.rs` | removes old releases |
//! | `history.rs` | the history file: which releases were active |
//! | `lock.rs` | the lock: one process at a time changes the directory |
//!
//! Does not contact servers: they watch the link.

#[cfg(feature = "pack")]
mod activate;
mod history;
mod lock;
mod prune;

use crate::{
    base::error::{UserError, reason},
    site::Site,
};
#[cfg(feature = "pack")]
pub use activate::Activation;
use history::ReleaseHistory;
use lock::ReleaseLock;
pub use prune::PruneReport;
use std::{
    cmp::Reverse,
    fmt::Display,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_site::Printable;

/// A directory of releases.
#[derive(Clone, Debug)]
pub struct Releases {
    dir: PathBuf,
}

/// A release in the directory.
#[derive(Debug)]
pub struct Release {
    /// The file name of the archive.
    pub name: String,
    /// The modification time of the archive, in seconds since 1970.
    pub modified_s: u64,
    /// The size of the archive, in bytes.
    pub len: u64,
    /// The number of files in the release, or why it cannot be served.
    pub files: Result<u64, UserError>,
    /// Whether the release is the current or the previous one.
    pub state: Option<ReleaseState>,
}

/// The file of a release.
struct ReleaseFile {
    name: String,
    /// Seconds since 1970.
    modified_s: u64,
    /// In bytes.
    len: u64,
}

/// The state of a release that is current, or that a rollback would make current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// The link leads to this release.
    Current,
    /// A rollback would make this release current.
    Previous,
}

/// Why there is nothing to roll back, to prune or to serve.
pub(crate) const NONE_ACTIVE: &str = "no release is active yet";

/// The link to the current release.
const CURRENT: &str = "current";
const HISTORY: &str = ".tarpon.history";
const LOCK: &str = ".tarpon.lock";
/// Temporary names of the new link and the new history, before they are renamed. Only the holder of the lock writes them.
const NEXT_LINK: &str = ".tarpon.link";
const NEXT_HISTORY: &str = ".tarpon.history.new";
/// The suffix of each release.
const SUFFIX: &str = ".tar";
/// A name for hints.
const EXAMPLE: &str = "2026-11-21.tar";

impl Releases {
    /// Opens a directory of releases.
    ///
    /// # Errors
    /// The path is not a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Releases, UserError> {
        let dir = dir.into();
        let why = match fs::metadata(&dir) {
            Ok(found) if found.is_dir() => return Ok(Releases { dir }),
            Ok(_) => "it is not a directory".to_owned(),
            Err(error) => reason(&error),
        };
        let what = format_args!("cannot look for releases in {}", dir.printable());
        Err(UserError::new(what, why, "name the directory that contains your packed sites"))
    }

    /// Lists all releases, the latest first.
    ///
    /// # Errors
    /// The directory, the link or the history cannot be read.
    pub fn list(&self) -> Result<Vec<Release>, UserError> {
        let (current, history) = (self.current()?, self.history()?);
        let release = |ReleaseFile { name, modified_s, len }| {
            let state = match Some(&*name) {
                this if this == current.as_deref() => Some(ReleaseState::Current),
                this if this == history.previous() => Some(ReleaseState::Previous),
                _ => None,
            };
            let files = open(&self.at(&name)).map(|site| site.file_count());
            Release { name, modified_s, len, files, state }
        };
        Ok(self.files()?.into_iter().map(release).collect())
    }

    /// Lists the names of all releases, the latest first, without a look into them.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, UserError> {
        Ok(self.files()?.into_iter().map(|file| file.name).collect())
    }

    /// Returns what to do if no release is active yet. `None`: a release is active.
    ///
    /// # Errors
    /// The directory or the link cannot be read.
    pub fn activation_hint(&self) -> Result<Option<String>, UserError> {
        if self.current()?.is_some() {
            return Ok(None);
        }
        let dir = self.dir.printable();
        Ok(Some(match self.names()?.first() {
            Some(name) => format!("activate one, as in tarpon release activate {dir} {}", name.printable()),
            None => {
                let example = self.at(EXAMPLE);
                format!(
                    "pack one, as in tarpon pack DIR -o {}, and activate it, as in tarpon release activate {dir} {EXAMPLE}",
                    example.printable()
                )
            }
        }))
    }

    /// Returns the files of all releases, the latest first.
    fn files(&self) -> Result<Vec<ReleaseFile>, UserError> {
        let unreadable = |error| self.unreadable(&self.dir, &error);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Skips directories, and files that were removed in the meantime.
            let Some(found) = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file) else { continue };
            if check_name(&name).is_err() {
                continue;
            }
            let modified = found.modified().unwrap_or(UNIX_EPOCH);
            files.push(ReleaseFile { name, modified_s: unix_s(modified), len: found.len() });
        }
        files.sort_by(|one, other| {
            (Reverse(one.modified_s), &one.name).cmp(&(Reverse(other.modified_s), &other.name))
        });
        Ok(files)
    }

    /// Returns the hint for a site that does not exist, if its path is the link of a directory of releases in which none is active yet.
    pub(crate) fn inactive(path: &Path) -> Option<String> {
        let is_link = path.file_name().is_some_and(|name| name == CURRENT);
        let dir = path.parent().filter(|_| is_link)?;
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let releases = Releases::new(dir).ok()?;
        // Other programs have links of this name too: their directories have other entries.
        let is_empty = || fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
        let is_managed = [HISTORY, LOCK].iter().any(|name| releases.at(name).exists());
        let is_for_releases = is_managed || !releases.names().ok()?.is_empty() || is_empty();
        releases.activation_hint().ok()?.filter(|_| is_for_releases)
    }

    /// Returns an error if no release is active yet.
    fn require_active(&self, what: &dyn Display) -> Result<(), UserError> {
        match self.activation_hint()? {
            Some(hint) => Err(UserError::new(what, NONE_ACTIVE, hint)),
            None => Ok(()),
        }
    }

    /// Returns the archives of the releases that were current before and still exist, the latest first. Empty if `path` is not the link
    /// of a releases directory.
    pub fn earlier_archives(path: &Path) -> Vec<PathBuf> {
        match path.parent() {
            Some(dir) => Releases::earlier_archives_in(path, dir),
            None => Vec::new(),
        }
    }

    /// Like [`earlier_archives`](Releases::earlier_archives), with `dir` as another path to the directory.
    pub(crate) fn earlier_archives_in(path: &Path, dir: &Path) -> Vec<PathBuf> {
        if path.file_name().is_none_or(|name| name != CURRENT) {
            return Vec::new();
        }
        let releases = Releases { dir: dir.to_owned() };
        let (Ok(history), Ok(Some(current))) = (releases.history(), releases.current()) else {
            return Vec::new();
        };
        let names = history.latest().into_iter().filter(|name| *name != current);
        names.map(|name| releases.at(name)).filter(|archive| archive.is_file()).collect()
    }

    /// Returns the release that the link leads to.
    fn current(&self) -> Result<Option<String>, UserError> {
        let link = self.at(CURRENT);
        let invalid = |why: &str| {
            let what = format_args!("cannot use {}", link.printable());
            UserError::new(what, why, "move it away, and activate a release")
        };
        let target = match fs::read_link(&link) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(invalid("it is not a symbolic link"));
            }
            Err(error) => return Err(self.unreadable(&link, &error)),
        };
        let is_here = |dir: &Path| {
            let same = |dir: PathBuf| self.dir.canonicalize().is_ok_and(|this| this == dir);
            dir.as_os_str().is_empty() || self.dir.join(dir).canonicalize().is_ok_and(same)
        };
        let name = target.file_name().and_then(|name| name.to_str());
        match (name, target.parent()) {
            (Some(name), Some(dir)) if is_here(dir) => match history::is_name(name) {
                true => Ok(Some(name.to_owned())),
                false => Err(invalid("its target is not a release")),
            },
            _ => Err(invalid("it leads out of the directory")),
        }
    }

    /// Reads the history and brings it in line with the link.
    fn history(&self) -> Result<ReleaseHistory, UserError> {
        let path = self.at(HISTORY);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(self.unreadable(&path, &error)),
        };
        let mut history = ReleaseHistory::parse(&text).map_err(|damaged| {
            let (what, why) = (
                format_args!("cannot read {}", path.printable()),
                format_args!("line {} is damaged", damaged.line),
            );
            UserError::new(what, why, "remove that line; the releases themselves are not affected")
        })?;
        history.sync_with_link(self.current()?.as_deref(), now_s());
        Ok(history)
    }

    fn write_history(&self, history: &ReleaseHistory) -> Result<(), UserError> {
        let (next, path) = (self.at(NEXT_HISTORY), self.at(HISTORY));
        let write = || {
            remove_if_there(&next)?;
            // Fails if another user has created the file in the meantime, instead of writing to that file.
            let mut file = File::create_new(&next)?;
            file.write_all(history.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&next, &path)?;
            self.sync()
        };
        write().map_err(|error| self.unwritable(&path, &error))
    }

    fn lock(&self, held_by: impl FnOnce(Option<u32>)) -> Result<ReleaseLock, UserError> {
        let path = self.at(LOCK);
        ReleaseLock::take(&path, held_by).map_err(|error| self.unwritable(&path, &error))
    }

    /// Syncs the directory, so that the renames survive a crash of the machine.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn unreadable(&self, path: &Path, error: &io::Error) -> UserError {
        let what = format_args!("cannot read {}", path.printable());
        UserError::new(what, reason(error), "make it readable")
    }

    fn unwritable(&self, path: &Path, error: &io::Error) -> UserError {
        let what = format_args!("cannot write {}", path.printable());
        let hint = format_args!("run it as a user that may write to {}", self.dir.printable());
        UserError::new(what, reason(error), hint)
    }

    fn hint(&self) -> String {
        format!("see tarpon release list {}", self.dir.printable())
    }
}

/// Opens an archive as a packed site; any other archive is an error.
fn open(path: &Path) -> Result<Site, UserError> {
    let site = Site::from_archive(path, "")?;
    if site.is_packed() {
        return Ok(site);
    }
    let what = format_args!("cannot use {} as a release", path.printable());
    Err(UserError::new(what, "it is not a packed site", "pack it, as with tarpon pack DIR -o FILE"))
}

/// Checks that a text is the name of a release, valid for the link and for a line of the history.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.contains('/') {
        return Err("it is a path, not the name of a release");
    }
    if !history::is_name(name) || !name.ends_with(SUFFIX) {
        return Err("it is not the name of a release, such as 2026-11-21.tar");
    }
    Ok(())
}

fn now_s() -> u64 {
    unix_s(SystemTime::now())
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Removes a temporary file that an interrupted process has left.
fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
