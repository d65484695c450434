//! A directory of packed releases, and the one of them that is current.
//!
//! ```text
//! releases/
//!   2026-11-20.tar  2026-11-21.tar      packed sites, with names of their own
//!   current -> 2026-11-21.tar           what is served: tarpon serve releases/current
//!   .tarpon.history                     what was current before
//!   .tarpon.lock                        held by who changes the link
//! ```
//!
//! The link is replaced by renaming another one over it, so that it leads to one release or to the other at any time,
//! whenever the program or the machine stops. The history is written behind it; where it misses a change, the link counts.
//!
//! | file | what |
//! |---|---|
//! | `history.rs` | which releases were active, one after the other |
//! | `lock.rs` | one process at a time |
//!
//! Knows nothing of servers: they notice by themselves.

mod history;
mod lock;

use crate::{
    base::{
        error::{UserError, reason},
        site_config::MAX_UNPACKED_LEN,
    },
    site::{Site, inspect::verify},
};
use history::ReleaseHistory;
use lock::ReleaseLock;
use std::{
    cmp::Reverse,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use tarpon_site::Printable;

/// A directory of releases.
#[derive(Clone, Debug)]
pub struct Releases {
    dir: PathBuf,
}

/// One of them.
#[derive(Debug)]
pub struct Release {
    /// The name of its archive.
    pub name: String,
    /// When the archive was modified, in seconds since 1970.
    pub modified_s: u64,
    /// Bytes of the archive.
    pub len: u64,
    /// How many files it has; or why it cannot be served.
    pub files: Result<u64, UserError>,
    /// Whether it is current, or a rollback leads to it.
    pub state: Option<ReleaseState>,
}

/// What a release is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// The link leads to it.
    Current,
    /// It was current before: a rollback leads to it.
    Previous,
}

/// What became of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The release it leads to.
    pub to: String,
    /// The one it led to before; `None`: there was none. The same: nothing has changed.
    pub from: Option<String>,
}

/// The link to the current release.
const CURRENT: &str = "current";
const HISTORY: &str = ".tarpon.history";
const LOCK: &str = ".tarpon.lock";
/// What is to take the place of the link and of the history. Only who has the lock writes them.
const NEXT_LINK: &str = ".tarpon.link";
const NEXT_HISTORY: &str = ".tarpon.history.new";
/// What the name of a release ends in.
const SUFFIX: &str = ".tar";

impl Releases {
    /// The releases in a directory.
    ///
    /// # Errors
    /// It is no directory.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Releases, UserError> {
        let dir = dir.into();
        let why = match fs::metadata(&dir) {
            Ok(found) if found.is_dir() => return Ok(Releases { dir }),
            Ok(_) => "it is no directory".to_owned(),
            Err(error) => reason(&error),
        };
        let what = format_args!("cannot look for releases in {}", dir.printable());
        Err(UserError::new(what, why, "name the directory that your packed sites lie in"))
    }

    /// All releases, the youngest first.
    ///
    /// # Errors
    /// Directory, link or history cannot be read.
    pub fn list(&self) -> Result<Vec<Release>, UserError> {
        let (current, history) = (self.current()?, self.history()?);
        let unreadable = |error| self.unreadable(&self.dir, &error);
        let mut releases = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // One that was just removed is no release any more; nor is a directory.
            let Some(found) = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file) else { continue };
            if check_name(&name).is_err() {
                continue;
            }
            let turn = match Some(&*name) {
                this if this == current.as_deref() => Some(ReleaseState::Current),
                this if this == history.before() => Some(ReleaseState::Previous),
                _ => None,
            };
            let modified = found.modified().unwrap_or(UNIX_EPOCH);
            let (modified_s, len) = (unix_s(modified), found.len());
            let files = open(&entry.path()).map(|site| site.file_count());
            releases.push(Release { name, modified_s, len, files, state: turn });
        }
        releases.sort_by(|one, other| {
            (Reverse(one.modified_s), &one.name).cmp(&(Reverse(other.modified_s), &other.name))
        });
        Ok(releases)
    }

    /// Makes a release the current one: checks that it can be served, with `verify` also that nothing in it is damaged,
    /// and replaces the link. While another process changes the directory, tells which and waits.
    ///
    /// # Errors
    /// There is no such release, it is no packed site or damaged, or the link cannot be replaced. Then the link is as it was.
    pub fn activate(
        &self,
        name: &str,
        is_verified: bool,
        held_by: impl FnOnce(Option<u32>),
    ) -> Result<Activation, UserError> {
        if let Err(why) = check_name(name) {
            let what = format_args!("cannot activate {}", name.printable());
            return Err(UserError::new(what, why, self.remedy()));
        }
        let _lock = self.lock(held_by)?;
        let mut history = self.history()?;
        self.check(name, is_verified)?;
        let from = self.current()?;
        if from.as_deref() != Some(name) {
            self.point(name)?;
            history.activated(name, now_s());
            self.remember(&history)?;
        }
        Ok(Activation { to: name.to_owned(), from })
    }

    /// Makes the release current that was so before, as [`activate`](Releases::activate) does.
    ///
    /// # Errors
    /// As there; or there was none before.
    pub fn rollback(&self, held_by: impl FnOnce(Option<u32>)) -> Result<Activation, UserError> {
        let _lock = self.lock(held_by)?;
        let mut history = self.history()?;
        let from = self.current()?;
        let Some(to) = history.rolled_back(now_s()) else {
            let what = format_args!("cannot go back in {}", self.dir.printable());
            return Err(UserError::new(what, "no release was active before", self.remedy()));
        };
        self.check(&to, false)?;
        self.point(&to)?;
        self.remember(&history)?;
        Ok(Activation { to, from })
    }

    /// The archives of the releases that were current before, the latest first: those that are still there. Empty: `path`
    /// is not the link to the current one of a directory of releases.
    pub fn earlier_archives(path: &Path) -> Vec<PathBuf> {
        match path.parent() {
            Some(dir) => Releases::earlier_archives_in(path, dir),
            None => Vec::new(),
        }
    }

    /// The same, where the directory of the path is found at `dir` too.
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

    /// The release that the link leads to.
    fn current(&self) -> Result<Option<String>, UserError> {
        let link = self.at(CURRENT);
        let odd = |why: &str| {
            let what = format_args!("cannot use {}", link.printable());
            UserError::new(what, why, "move it away, and activate a release")
        };
        let target = match fs::read_link(&link) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(odd("it is no symbolic link"));
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
                false => Err(odd("it leads to what is no release")),
            },
            _ => Err(odd("it leads out of the directory")),
        }
    }

    /// The history, up to what the link says now.
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
        history.found(self.current()?.as_deref(), now_s());
        Ok(history)
    }

    /// That a release can be served.
    fn check(&self, name: &str, is_verified: bool) -> Result<(), UserError> {
        let path = self.at(name);
        if !path.is_file() {
            let what = format_args!("cannot activate {}", name.printable());
            let why = format_args!("there is no such file in {}", self.dir.printable());
            return Err(UserError::new(what, why, self.remedy()));
        }
        open(&path)?;
        if is_verified && let [first, others @ ..] = &*verify(&path, &[], MAX_UNPACKED_LEN)?.defects {
            let more = match others.len() {
                0 => String::new(),
                count => format!(", and {count} more"),
            };
            let what = format_args!("cannot activate {}", name.printable());
            let why = format_args!("{first}{more}");
            return Err(UserError::new(
                what,
                why,
                "fetch it again, or pack the site anew; see tarpon verify",
            ));
        }
        Ok(())
    }

    /// Has the link lead to a release.
    fn point(&self, name: &str) -> Result<(), UserError> {
        let (next, link) = (self.at(NEXT_LINK), self.at(CURRENT));
        let point = || {
            remove_if_there(&next)?;
            symlink(name, &next)?;
            fs::rename(&next, &link)?;
            self.sync()
        };
        point().map_err(|error| self.unwritable(&link, &error))
    }

    fn remember(&self, history: &ReleaseHistory) -> Result<(), UserError> {
        let (next, path) = (self.at(NEXT_HISTORY), self.at(HISTORY));
        let remember = || {
            remove_if_there(&next)?;
            // What somebody has put there meanwhile is not written to.
            let mut file = File::create_new(&next)?;
            file.write_all(history.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&next, &path)?;
            self.sync()
        };
        remember().map_err(|error| self.unwritable(&path, &error))
    }

    fn lock(&self, held_by: impl FnOnce(Option<u32>)) -> Result<ReleaseLock, UserError> {
        let path = self.at(LOCK);
        ReleaseLock::take(&path, held_by).map_err(|error| self.unwritable(&path, &error))
    }

    /// What was renamed is so after the machine stops, too.
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
        let remedy = format_args!("run it as the user who may write to {}", self.dir.printable());
        UserError::new(what, reason(error), remedy)
    }

    fn remedy(&self) -> String {
        format!("see tarpon release list {} for those there are", self.dir.printable())
    }
}

/// The packed site that an archive has to be.
fn open(path: &Path) -> Result<Site, UserError> {
    let site = Site::from_archive(path, "")?;
    if site.is_packed() {
        return Ok(site);
    }
    let what = format_args!("cannot use {} as a release", path.printable());
    Err(UserError::new(what, "it is no packed site", "pack it, as with tarpon pack DIR -o FILE"))
}

/// A name that a link and a line of the history can have.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.contains('/') {
        return Err("it is no name in the directory, but a path");
    }
    if !history::is_name(name) || !name.ends_with(SUFFIX) {
        return Err("it is no name of a release, such as 2026-11-21.tar");
    }
    Ok(())
}

fn now_s() -> u64 {
    unix_s(SystemTime::now())
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
/// Removes what somebody has left who was stopped.
fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
