//! Notices that a site's directory has changed, and builds the site anew, aside.
//!
//! ```text
//! kernel ─ event ─▶ wait until it is quiet ─▶ build ─▶ told
//!              ▲                                 └ failed: told why, the site stays as it is
//!              └─ the directory itself was replaced: watch the new one
//! ```

use crate::{
    error::Trouble,
    site::{Builder, Site},
};
use notify::{
    Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// A site that follows its directory.
pub struct Watched {
    dir: PathBuf,
    builder: Builder,
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
    pub fn new(dir: impl Into<PathBuf>) -> Result<(Watched, Site), Trouble> {
        let mut watched = Watched { dir: dir.into(), builder: Builder::default() };
        let site = watched.builder.build(&watched.dir)?;
        Ok((watched, site))
    }

    /// Tells of each change from now on, from a thread of its own, until it returns false.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn follow(self, told: impl FnMut(Change) -> bool + Send + 'static) -> std::io::Result<()> {
        thread::Builder::new().name("watch".to_owned()).spawn(move || self.run(told)).map(drop)
    }

    fn run(mut self, mut told: impl FnMut(Change) -> bool) {
        let (send, receive) = channel();
        let mut watch = Watch::new(&self.dir, &send);
        let mut said = None;
        loop {
            if let Some(reason) = watch.polling.take()
                && said.as_ref() != Some(&reason)
            {
                said = Some(reason.clone());
                if !told(Change::Polling(reason)) {
                    return;
                }
            }
            if !watch.changed(&receive) {
                continue;
            }
            if watch.is_elsewhere(&self.dir) {
                watch = Watch::new(&self.dir, &send);
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
}

/// The directory as it is watched now.
struct Watch {
    /// Stops watching when dropped.
    _watcher: Option<Box<dyn Watcher>>,
    /// Which directory it is, by device and inode: another one may come to have the same name.
    id: Option<(u64, u64)>,
    /// Why the kernel does not tell.
    polling: Option<String>,
}

impl Watch {
    fn new(dir: &Path, send: &Sender<notify::Result<Event>>) -> Watch {
        let id = identity(dir);
        match kernel_watcher(dir, send) {
            Ok(watcher) => Watch { _watcher: Some(watcher), id, polling: None },
            // A directory that is not there is looked for until it is.
            Err(_) if id.is_none() => Watch { _watcher: None, id, polling: None },
            Err(error) => {
                let watcher = poll_watcher(dir, send).ok();
                Watch { _watcher: watcher, id, polling: Some(plain(error)) }
            }
        }
    }

    /// Whether it has changed; waits for a burst of changes to end. False after a while without any.
    fn changed(&self, receive: &Receiver<notify::Result<Event>>) -> bool {
        match receive.recv_timeout(POLL) {
            Ok(event) if is_change(&event) => {}
            Ok(_) => return false,
            // Without a watch on it, only looking tells.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return self.id.is_none(),
        }
        let since = Instant::now();
        while since.elapsed() < BURST_MAX && receive.recv_timeout(QUIET).is_ok() {}
        true
    }

    /// Whether the name means another directory than the one that is watched, or none.
    fn is_elsewhere(&self, dir: &Path) -> bool {
        self.id.is_none() || self.id != identity(dir)
    }
}

fn kernel_watcher(dir: &Path, send: &Sender<notify::Result<Event>>) -> notify::Result<Box<dyn Watcher>> {
    let mut watcher = RecommendedWatcher::new(send.clone(), Config::default())?;
    watcher.watch(dir, RecursiveMode::Recursive)?;
    // Whoever replaces the directory itself, or the symbolic link to it, does so one level up.
    if let Some(parent) = parent(dir) {
        watcher.watch(&parent, RecursiveMode::NonRecursive)?;
    }
    Ok(Box::new(watcher))
}

fn poll_watcher(dir: &Path, send: &Sender<notify::Result<Event>>) -> notify::Result<Box<dyn Watcher>> {
    let mut watcher = PollWatcher::new(send.clone(), Config::default().with_poll_interval(POLL))?;
    watcher.watch(dir, RecursiveMode::Recursive)?;
    Ok(Box::new(watcher))
}

/// The directory in which the name of `dir` stands.
fn parent(dir: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(dir).ok()?;
    absolute.parent().map(Path::to_owned)
}

fn identity(dir: &Path) -> Option<(u64, u64)> {
    fs::metadata(dir).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Whether an event says that something may be served differently now. Reading, which we do too, does not.
fn is_change(event: &notify::Result<Event>) -> bool {
    match event {
        Ok(Event { kind: EventKind::Access(AccessKind::Close(AccessMode::Write)), .. }) => true,
        Ok(Event { kind: EventKind::Access(_), .. }) => false,
        // Events were lost: anything may have changed.
        Ok(_) | Err(_) => true,
    }
}

fn plain(error: notify::Error) -> String {
    match error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit on watches is reached, see sysctl fs.inotify.max_user_watches".to_owned()
        }
        kind => format!("{kind:?}"),
    }
}
