//! Watches the names on the ways to sites: whether each still means the same file or directory.
//!
//! ```text
//! way ── directory, name ── add ─▶ inotify ── event on a watched name ─┬─ created, renamed, removed ─▶ Replaced
//!                                                                      └─ written, another mode ─────▶ Written
//! ```
//!
//! The builder adds its watches by descriptor, while it has the rights to; watching itself needs none. inotify(7).

use super::{BURST_MAX, QUIET};
use crate::site::trusted_path::fd_path;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
    time::Timespec,
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

/// The names on the ways to some sites.
pub(crate) struct NameWatch {
    inotify: OwnedFd,
    /// The names that are watched in a directory, each with the number of its site.
    names: HashMap<i32, Vec<(OsString, usize)>>,
    /// The name of each site itself: the last that was added for it.
    last: HashMap<usize, Last>,
}

/// A name in a directory that is watched.
struct Last {
    watch: i32,
    dir: OwnedFd,
    name: OsString,
}

/// What became of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// It may mean another file or directory, or nothing any more.
    Replaced,
    /// The file of the site with this number was written, or may be read by others than before.
    Written(usize),
}

impl NameWatch {
    /// Without names so far.
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

    /// Watches a name in a directory, on the way to the site of this number.
    ///
    /// # Errors
    /// There are too many watches, or there is no `/proc`.
    pub(crate) fn add(&mut self, dir: BorrowedFd<'_>, name: &OsStr, site: usize) -> io::Result<()> {
        let dir = dir.try_clone_to_owned()?;
        let watch = inotify::add_watch(&self.inotify, fd_path(&dir), EVENTS)?;
        let names = self.names.entry(watch).or_default();
        if !names.iter().any(|(known, of)| known == name && *of == site) {
            names.push((name.to_owned(), site));
        }
        self.last.insert(site, Last { watch, dir, name: name.to_owned() });
        Ok(())
    }

    /// Watches the content of a site that is a file: the last name that was added for it. Its writer may keep it open.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub(crate) fn add_content(&mut self, site: usize) -> io::Result<()> {
        if let Some(Last { dir, .. }) = self.last.get(&site) {
            inotify::add_watch(&self.inotify, fd_path(dir), EVENTS.union(WatchFlags::MODIFY))?;
        }
        Ok(())
    }

    /// Reports each change from a thread of its own, for as long as the process lives. Reports a burst of changes that replace names
    /// once, when the burst is over.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(crate) fn follow(self, mut told: impl FnMut(NameChange) + Send + 'static) -> io::Result<()> {
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
                        told(NameChange::Replaced);
                        continue;
                    }
                    Err(Errno::INTR) => continue,
                    // Nothing is watched any more; the path is still looked at from time to time.
                    Err(_) => return,
                }
                let Ok(changes) = self.read() else { return };
                for change in changes {
                    if change == NameChange::Replaced {
                        since = if is_replaced { since } else { Instant::now() };
                        is_replaced = true;
                    } else {
                        told(change);
                    }
                }
            }
        };
        thread::Builder::new().name("names".to_owned()).spawn(run).map(drop)
    }

    /// Whether there are events, within this time.
    fn wait(&self, time: Option<Duration>) -> Result<bool, Errno> {
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], time.as_ref()).map(|count| count > 0)
    }

    /// The changes that came at once.
    fn read(&self) -> Result<Vec<NameChange>, Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changes = Vec::new();
        loop {
            let event = reader.next()?;
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                // Events were lost: any of them may have been.
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
                    // The mode of a directory on the way changes nothing.
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
    // A directory may be on the way to several sites.
    .union(WatchFlags::MASK_ADD);
const WRITTEN: ReadFlags = ReadFlags::CLOSE_WRITE.union(ReadFlags::MODIFY).union(ReadFlags::ATTRIB);

/// Room for some events: one has at most a name of 255 bytes.
const BUFFER_LEN: usize = 4096;
