//! Watches each name on the paths to sites: whether it still leads to the same file or directory.
//!
//! ```text
//! path ── directory, name ── add ─▶ inotify ── event on a watched name ─┬─ created, renamed, removed ─▶ Replaced
//!                                                                       └─ written, mode changed ─────▶ Written
//! ```
//!
//! The site builder adds the watches by descriptor while it still has the rights; receiving events needs no rights. inotify(7).

use super::{BURST_MAX, QUIET};
use crate::{site::trusted_path::fd_path, sys::io::timespec};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    thread,
    time::{Duration, Instant},
};

/// A watch on the names of the paths to all sites.
pub(crate) struct NameWatch {
    inotify: OwnedFd,
    /// The names in each watched directory, by watch descriptor; each with the number of its site.
    names: HashMap<i32, Vec<(OsString, usize)>>,
    /// The last name of each path: the site itself.
    last: HashMap<usize, LastName>,
}

/// The last name of a path, in its directory.
struct LastName {
    watch: i32,
    dir: OwnedFd,
    name: OsString,
}

/// A change of a watched name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// The name was created, renamed or removed: it may lead to another file or directory.
    Replaced,
    /// The file of the site with this number was written, or its permissions have changed.
    Written(usize),
}

impl NameWatch {
    /// Returns a watch without names.
    ///
    /// # Errors
    /// The limit on inotify instances of this user is reached.
    pub(crate) fn new() -> io::Result<NameWatch> {
        Ok(NameWatch {
            inotify: inotify::init(CreateFlags::CLOEXEC)?,
            names: HashMap::new(),
            last: HashMap::new(),
        })
    }

    /// Watches a name in a directory, on the path to the site with this number.
    ///
    /// # Errors
    /// The limit on watches is reached, or `/proc` is not mounted.
    pub(crate) fn add(&mut self, dir: BorrowedFd<'_>, name: &OsStr, site: usize) -> io::Result<()> {
        let dir = dir.try_clone_to_owned()?;
        let watch = inotify::add_watch(&self.inotify, fd_path(&dir), EVENTS)?;
        let names = self.names.entry(watch).or_default();
        if !names.iter().any(|(known, number)| known == name && *number == site) {
            names.push((name.to_owned(), site));
        }
        self.last.insert(site, LastName { watch, dir, name: name.to_owned() });
        Ok(())
    }

    /// Watches the content of a site that is a file: the last name added for it. Reports each write, as the writer may keep the file open.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(crate) fn add_content(&mut self, site: usize) -> io::Result<()> {
        if let Some(LastName { dir, .. }) = self.last.get(&site) {
            inotify::add_watch(&self.inotify, fd_path(dir), EVENTS.union(WatchFlags::MODIFY))?;
        }
        Ok(())
    }

    /// Starts a thread that calls `report` for each change until the process ends. Reports a burst of replaced names once, when it is
    /// over.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn follow(self, mut report: impl FnMut(NameChange) + Send + 'static) -> io::Result<()> {
        let run = move || {
            let mut is_replaced = false;
            let mut since = Instant::now();
            loop {
                let quiet = match is_replaced {
                    true => Some(QUIET.min((since + BURST_MAX).saturating_duration_since(Instant::now()))),
                    false => None,
                };
                match self.wait(quiet) {
                    Ok(true) => {}
                    Ok(false) => {
                        is_replaced = false;
                        report(NameChange::Replaced);
                        continue;
                    }
                    Err(Errno::INTR) => continue,
                    // The watch has failed. `SiteWatcher` still polls the path.
                    Err(_) => return,
                }
                let Ok(changes) = self.read() else { return };
                for change in changes {
                    if change == NameChange::Replaced {
                        since = if is_replaced { since } else { Instant::now() };
                        is_replaced = true;
                    } else {
                        report(change);
                    }
                }
            }
        };
        thread::Builder::new().name("names".to_owned()).spawn(run).map(drop)
    }

    /// Waits for events, and returns whether there are any before the timeout.
    fn wait(&self, timeout: Option<Duration>) -> Result<bool, Errno> {
        let mut polled = [PollFd::new(&self.inotify, PollFlags::IN)];
        poll(&mut polled, timeout.map(timespec).as_ref()).map(|count| count > 0)
    }

    /// Reads all pending events as changes.
    fn read(&self) -> Result<Vec<NameChange>, Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changes = Vec::new();
        loop {
            let event = reader.next()?;
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                // The kernel dropped events, so any name may have been replaced.
                changes.push(NameChange::Replaced);
            }
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            let sites = self.names.get(&event.wd()).into_iter().flatten();
            let sites = sites.filter(|(known, _)| Some(&**known) == name);
            let is_written = event.events().intersects(WRITTEN);
            for (name, site) in sites {
                let is_last =
                    self.last.get(site).is_some_and(|last| last.watch == event.wd() && last.name == *name);
                match is_written {
                    true if is_last => changes.push(NameChange::Written(*site)),
                    // The mode of a directory on the path does not matter.
                    true => {}
                    false => changes.push(NameChange::Replaced),
                }
            }
            if reader.is_buffer_empty() {
                return Ok(changes);
            }
        }
    }
}

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::ONLYDIR)
    // A directory may be on the paths to several sites.
    .union(WatchFlags::MASK_ADD);
const WRITTEN: ReadFlags = ReadFlags::CLOSE_WRITE.union(ReadFlags::MODIFY).union(ReadFlags::ATTRIB);

/// Size of the event buffer: room for several events, each with a name of at most 255 bytes.
const BUFFER_LEN: usize = 4096;
