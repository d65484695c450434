//! Notices that a site's directory has changed, and builds the site anew, aside.
//!
//! ```text
//! kernel ─ event ─▶ wait until it is quiet ─▶ build ─▶ told
//!              ▲                                 └ failed: told why, the site stays as it is
//!              └─ the directory itself was replaced: watch the new one
//! ```

use crate::{
    error::{Trouble, reason},
    site::{Builder, Site},
};
use notify::{
    Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{self, Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// A site that follows its directory.
pub struct Watched {
    /// Absolute, so that events, which carry whole paths, can be compared with it.
    dir: PathBuf,
    builder: Builder,
    watch: Watch,
    send: Sender<notify::Result<Event>>,
    events: Receiver<notify::Result<Event>>,
}

/// What became of a change.
pub enum Change {
    /// The site as it is now.
    Site(Box<Site>),
    /// It cannot be built; what was served before still is.
    Failed(Trouble),
    /// The kernel does not tell of changes here, for this reason: the directory is read every two seconds.
    Polling(String),
}

/// A burst of changes is over when nothing has come for so long: editors and generators write many files.
const QUIET: Duration = Duration::from_millis(50);
/// A burst without an end is not waited for longer than this.
const BURST_MAX: Duration = Duration::from_millis(1_000);
/// How often a directory is looked at that the kernel does not watch, or that is not there.
const POLL: Duration = Duration::from_secs(2);

impl Watched {
    /// Builds the site for the first time.
    ///
    /// # Errors
    /// Those of [`Site::from_dir`].
    pub fn new(dir: impl AsRef<Path>) -> Result<(Watched, Site), Trouble> {
        let dir = path::absolute(&dir).map_err(|error| {
            let what = format_args!("cannot serve {}", dir.as_ref().display());
            Trouble::new(what, reason(&error), "name a directory that exists")
        })?;
        let (send, events) = channel();
        // Watched first: what changes while the site is built is not missed.
        let watch = Watch::new(&dir, &send);
        let mut builder = Builder::default();
        let site = builder.build(&dir)?;
        Ok((Watched { dir, builder, watch, send, events }, site))
    }

    /// Tells of each change from now on, from a thread of its own, until it returns false.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn follow(self, told: impl FnMut(Change) -> bool + Send + 'static) -> io::Result<()> {
        thread::Builder::new().name("watch".to_owned()).spawn(move || self.run(told)).map(drop)
    }

    fn run(mut self, mut told: impl FnMut(Change) -> bool) {
        let mut said = None;
        loop {
            let polling = self.watch.polling.take();
            if let Some(reason) = polling
                && said.as_ref() != Some(&reason)
            {
                said = Some(reason.clone());
                if !told(Change::Polling(reason)) {
                    return;
                }
            }
            if !self.has_changed() {
                continue;
            }
            if self.watch.id.is_none() || self.watch.id != identity(&self.dir) {
                self.watch = Watch::new(&self.dir, &self.send);
            }
            let change = match self.builder.build(&self.dir) {
                Ok(site) => Change::Site(Box::new(site)),
                Err(error) => Change::Failed(error),
            };
            if !told(change) {
                return;
            }
        }
    }

    /// Waits for a change, and for the burst it begins to end. False after a while without any.
    fn has_changed(&self) -> bool {
        match self.events.recv_timeout(POLL) {
            Ok(event) if is_change(&event, &self.dir) => {}
            Ok(_) => return false,
            // A directory that is not there has no watch on it: only looking tells.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return self.watch.id.is_none() && identity(&self.dir).is_some();
            }
        }
        let since = Instant::now();
        while since.elapsed() < BURST_MAX && self.events.recv_timeout(QUIET).is_ok() {}
        true
    }
}

/// The directory as it is watched now.
struct Watch {
    /// Watches until it is dropped.
    _watcher: Option<Box<dyn Watcher + Send>>,
    /// Which directory it is, by device and inode: another one may come to have the same name.
    id: Option<(u64, u64)>,
    /// Why the kernel does not tell.
    polling: Option<String>,
}

impl Watch {
    fn new(dir: &Path, send: &Sender<notify::Result<Event>>) -> Watch {
        let id = identity(dir);
        let (watcher, polling) = match kernel_watcher(dir, send) {
            Ok(watcher) => (Some(watcher), None),
            // A directory that is not there is looked for until it is.
            Err(_) if id.is_none() => (None, None),
            Err(error) => (poll_watcher(dir, send).ok(), Some(in_words(&error))),
        };
        Watch { _watcher: watcher, id, polling }
    }
}

fn kernel_watcher(
    dir: &Path,
    send: &Sender<notify::Result<Event>>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    let mut watcher = RecommendedWatcher::new(send.clone(), Config::default())?;
    watcher.watch(dir, RecursiveMode::Recursive)?;
    // Whoever replaces the directory itself, or the symbolic link to it, does so one level up.
    if let Some(parent) = dir.parent() {
        watcher.watch(parent, RecursiveMode::NonRecursive)?;
    }
    Ok(Box::new(watcher))
}

fn poll_watcher(dir: &Path, send: &Sender<notify::Result<Event>>) -> notify::Result<Box<dyn Watcher + Send>> {
    let mut watcher = PollWatcher::new(send.clone(), Config::default().with_poll_interval(POLL))?;
    watcher.watch(dir, RecursiveMode::Recursive)?;
    Ok(Box::new(watcher))
}

fn identity(dir: &Path) -> Option<(u64, u64)> {
    fs::metadata(dir).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Whether an event says that something in `dir` may be served differently now. Reading, which we do too, does
/// not; nor does what happens beside the directory.
fn is_change(event: &notify::Result<Event>, dir: &Path) -> bool {
    // An error, or events that were lost: anything may have changed.
    let Ok(event) = event else { return true };
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
        EventKind::Access(_) => return false,
        _ => {}
    }
    event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(|path| path.starts_with(dir))
}

fn in_words(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit on watches is reached, see sysctl fs.inotify.max_user_watches".to_owned()
        }
        notify::ErrorKind::Io(error) => reason(error),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, Flag, ModifyKind};

    #[test]
    fn only_what_may_be_served_differently_is_a_change() {
        let event = |kind, path: &str| Ok(Event::new(kind).add_path(path.into()));
        let create = EventKind::Create(CreateKind::File);
        let modify = EventKind::Modify(ModifyKind::Any);
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let read = EventKind::Access(AccessKind::Open(AccessMode::Read));
        #[rustfmt::skip]
        let cases = [
            ("a new file",              event(create, "/site/new"),                        true),
            ("a file written",          event(written, "/site/dir/file"),                  true),
            ("the directory itself",    event(modify, "/site"),                            true),
            ("a file read",             event(read, "/site/file"),                         false),
            ("a neighbour",             event(create, "/other"),                           false),
            ("a neighbour by name",     event(create, "/site2"),                           false),
            ("events that were lost",   Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)), true),
            ("an error of the watcher", Err(notify::Error::generic("gone")),               true),
        ];
        for (name, event, want) in cases {
            assert_eq!(is_change(&event, Path::new("/site")), want, "{name}");
        }
    }
}
