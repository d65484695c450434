//! Notices that a site's directory or archive has changed, and builds the site anew, aside.
//!
//! ```text
//! kernel ─ event ─▶ wait until it is quiet ─▶ build ─▶ told
//!              ▲                                 └ failed: told why, the site stays as it is
//!              └─ the directory or archive itself was replaced: watch the new one
//! ```

mod homes;
#[cfg_attr(not(target_os = "linux"), path = "no_names.rs")]
pub(crate) mod names;

use crate::{
    base::{
        error::{UserError, reason},
        site_config::SiteSource,
    },
    site::{Site, builder::SiteBuilder, missing, trusted_path::SiteRoot},
};
use homes::{HomeState, Homes};
use notify::{
    Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use std::{
    fs, io, mem,
    os::unix::fs::MetadataExt,
    path::{self, Component, Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};
use tarpon_site::Printable;

/// A site that follows its directory or archive.
pub struct SiteWatcher {
    /// Its path is absolute, so that events, which carry whole paths, can be compared with it.
    source: SiteSource,
    builder: SiteBuilder,
    /// The directory or archive to read and to watch, if it is open already.
    root: Option<Arc<SiteRoot>>,
    watch: DirectoryWatch,
    send: Sender<WatchEvent>,
    heard: Receiver<WatchEvent>,
    /// It has been built once.
    is_built: bool,
    /// Reports another directory or archive in its place, and does not read it.
    until_replaced: bool,
}

/// Following ends when this is dropped.
pub struct WatchHandle {
    send: Sender<WatchEvent>,
}

/// What became of a change.
pub enum SiteChange {
    /// The site as it is now.
    Site(Box<Site>),
    /// It cannot be built; what was served before still is. It is tried again.
    Failed(UserError),
    /// The kernel does not tell of changes here, for this reason: directory or archive is looked at every two seconds.
    Polling(String),
    /// Another directory or archive is in its place. Only a site that [does not follow it](Watched::until_replaced) reports this, and
    /// then nothing more.
    Replaced,
}

/// What the watching thread hears.
enum WatchEvent {
    Event(notify::Result<Event>),
    /// The archive was written.
    Written,
    /// Nobody follows any more.
    End,
}

/// What the watching thread has to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WatchState {
    Nothing,
    Build,
    /// Watch anew, as what is watched is not all there is; then build.
    WatchAndBuild,
    /// The same, as it is another directory or archive by now, or another one belongs to it.
    Replaced,
    End,
}

/// A burst of changes is over when nothing has come for so long: editors and generators write many files.
const QUIET: Duration = Duration::from_millis(50);
/// A burst without an end is not waited for longer than this; but as long as the last build took, so that a file that
/// is written all the time does not keep a core busy.
const BURST_MAX: Duration = Duration::from_millis(1_000);
/// How often a directory or archive is looked at that the kernel does not watch, or that is not there; and how often a
/// build that failed is tried again.
const POLL: Duration = Duration::from_secs(2);

impl SiteWatcher {
    /// Builds the site for the first time.
    ///
    /// # Errors
    /// Those of [`Site::from_dir`] and [`Site::from_archive`].
    pub fn new(source: SiteSource) -> Result<(SiteWatcher, Site), UserError> {
        let mut watched = SiteWatcher::prepare(source, None)?;
        let site = watched.build()?;
        Ok((watched, site))
    }

    /// Builds the site for the first time.
    pub(crate) fn build(&mut self) -> Result<Site, UserError> {
        let site = self.builder.build(&self.source)?;
        self.is_built = true;
        Ok(site)
    }

    /// Prepares a site. [`follow`](Watched::follow) builds it at once, unless [`build`](Watched::build) did before, and reports the
    /// result as a change. With a root that is open already, never reads another one in its place.
    pub(crate) fn prepare(source: SiteSource, root: Option<Arc<SiteRoot>>) -> Result<SiteWatcher, UserError> {
        // A root that is open needs no way to it, which this process may not be able to go.
        let path = if root.is_some() { path::absolute(&source.path) } else { absolute(&source.path) };
        let path = path.map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                return missing(&source.path, &source.path);
            }
            let what = format_args!("cannot serve {}", source.path.printable());
            UserError::new(
                what,
                reason(&error),
                "name a directory or tar archive that exists and may be read, as in tarpon serve DIR",
            )
        })?;
        let source = SiteSource { path, ..source };
        let (send, heard) = channel();
        // Watched first: what changes while the site is built is not missed.
        let watch = DirectoryWatch::new(&source, root.as_deref(), &send);
        let builder = root.clone().map_or_else(SiteBuilder::default, SiteBuilder::with_root);
        let until_replaced = root.is_some();
        Ok(SiteWatcher { source, builder, root, watch, send, heard, is_built: false, until_replaced })
    }

    /// The user that this process has become, for messages.
    #[must_use]
    pub(crate) fn with_user(self, user: Option<String>) -> SiteWatcher {
        SiteWatcher { builder: self.builder.with_user(user), ..self }
    }

    /// Returns a function to call when the archive was written, and may be another one.
    pub(crate) fn on_written(&self) -> impl Fn() + Send + use<> {
        let send = self.send.clone();
        move || {
            // A failed send means that nothing follows the site any more, so there is nothing to build.
            let _ = send.send(WatchEvent::Written);
        }
    }

    /// Follows only the directory or archive that is there now: reports another one in its place, and does not read it.
    #[must_use]
    pub fn until_replaced(self) -> SiteWatcher {
        SiteWatcher { until_replaced: true, ..self }
    }

    /// Tells of each change from now on, from a thread of its own, until what is returned is dropped.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn follow(self, told: impl FnMut(SiteChange) + Send + 'static) -> io::Result<WatchHandle> {
        let following = WatchHandle { send: self.send.clone() };
        thread::Builder::new().name("watch".to_owned()).spawn(move || self.run(told))?;
        Ok(following)
    }

    fn run(mut self, mut told: impl FnMut(SiteChange)) {
        let mut said = None;
        let mut took = Duration::ZERO;
        let mut failed: Option<String> = None;
        let mut retry_at = None;
        loop {
            if let Some(reason) = self.watch.polling.take()
                && said.as_ref() != Some(&reason)
            {
                said = Some(reason.clone());
                told(SiteChange::Polling(reason));
            }
            let todo = if mem::replace(&mut self.is_built, true) {
                self.next(retry_at, took)
            } else {
                WatchState::Build
            };
            match todo {
                WatchState::Nothing => continue,
                WatchState::Build => {}
                WatchState::Replaced if self.until_replaced => return told(SiteChange::Replaced),
                WatchState::WatchAndBuild | WatchState::Replaced => {
                    self.watch = DirectoryWatch::new(&self.source, self.root.as_deref(), &self.send);
                }
                WatchState::End => return,
            }
            let begun = Instant::now();
            let built = self.builder.build(&self.source);
            took = begun.elapsed();
            let before = failed.take();
            retry_at = built.is_err().then(|| Instant::now() + POLL);
            match built {
                Ok(site) => told(SiteChange::Site(Box::new(site))),
                Err(trouble) => {
                    let why = failed.insert(trouble.to_string());
                    // What fails again for the same reason need not be said again.
                    if before.as_ref() != Some(why) {
                        told(SiteChange::Failed(trouble));
                    }
                }
            }
        }
    }

    /// Waits for a change, and for the burst it begins to end; or for a while, to look without having been told.
    fn next(&mut self, retry_at: Option<Instant>, took: Duration) -> WatchState {
        let mut todo = match self.heard.recv_timeout(POLL) {
            Ok(heard) => heard.todo(&self.watch.names),
            Err(RecvTimeoutError::Timeout) => WatchState::Nothing,
            Err(RecvTimeoutError::Disconnected) => return WatchState::End,
        };
        // What happens beside it may never pause, so these do not wait for a pause.
        if todo == WatchState::Nothing {
            // It, or a link above it, may have been replaced without a word to whoever watches the old one.
            todo = self.watch.look(&self.source, POLL);
            if todo == WatchState::Nothing && retry_at.is_some_and(|at| at <= Instant::now()) {
                todo = WatchState::Build;
            }
        }
        let since = Instant::now();
        let mut quiet_from = since;
        while !matches!(todo, WatchState::Nothing | WatchState::End) && since.elapsed() < BURST_MAX.max(took)
        {
            match self.heard.recv_timeout(QUIET.saturating_sub(quiet_from.elapsed())) {
                Ok(heard) => match heard.todo(&self.watch.names) {
                    WatchState::Nothing => {}
                    WatchState::End => return WatchState::End,
                    more => (todo, quiet_from) = (todo.max(more), Instant::now()),
                },
                Err(_) => break,
            }
        }
        match todo {
            WatchState::Nothing | WatchState::End => todo,
            // A directory that is new within that of a user is not watched by itself.
            WatchState::Build if !self.source.users.directories.is_empty() => {
                WatchState::WatchAndBuild.max(self.watch.look(&self.source, Duration::ZERO))
            }
            todo => todo.max(self.watch.look(&self.source, Duration::ZERO)),
        }
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        // A thread that has ended needs no telling.
        let _ = self.send.send(WatchEvent::End);
    }
}

impl WatchEvent {
    /// What an event asks for. Reading, which we do too, changes nothing; nor does what happens beside `names`, those
    /// of the directory or archive.
    fn todo(&self, names: &[PathBuf]) -> WatchState {
        let event = match self {
            WatchEvent::Event(Ok(event)) => event,
            // Events were lost, or a new directory cannot be watched.
            WatchEvent::Event(Err(_)) => return WatchState::WatchAndBuild,
            WatchEvent::Written => return WatchState::Build,
            WatchEvent::End => return WatchState::End,
        };
        if event.need_rescan() {
            return WatchState::WatchAndBuild;
        }
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
            EventKind::Access(_) => return WatchState::Nothing,
            _ => {}
        }
        let is_here = |path: &PathBuf| names.iter().any(|name| path.starts_with(name));
        if event.paths.is_empty() || event.paths.iter().any(is_here) {
            WatchState::Build
        } else {
            WatchState::Nothing
        }
    }
}

/// The directory or archive as it is watched now.
struct DirectoryWatch {
    /// Where it lies, and where without links; and the same of users' directories.
    names: Vec<PathBuf>,
    /// Watches until it is dropped.
    _watcher: Option<Box<dyn Watcher + Send>>,
    /// Which it is, by device and inode: another one may come to have the same name.
    id: Option<(u64, u64, Option<SystemTime>)>,
    homes: Homes,
    /// Why the kernel does not tell.
    polling: Option<String>,
}

impl DirectoryWatch {
    fn new(source: &SiteSource, root: Option<&SiteRoot>, send: &Sender<WatchEvent>) -> DirectoryWatch {
        let path = &*source.path;
        let (id, homes) = (identity(path), Homes::look(&source.users));
        // The path of a descriptor needs no rights on the way.
        let real = match root {
            Some(root) => root.reopen_path().unwrap_or_else(|| path.to_owned()),
            None => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        };
        let (watcher, polling) = match kernel_watcher(source, root, &real, send) {
            Ok(watcher) => (Some(watcher), None),
            // What is not there is looked for until it is.
            Err(_) if id.is_none() && root.is_none() => (None, None),
            Err(error) => (poll_watcher(source, &real, send).ok(), Some(in_words(&error))),
        };
        let users = source.users.directories.iter().flat_map(homes::names);
        let names = [path.to_owned(), real].into_iter().chain(users).collect();
        DirectoryWatch { names, _watcher: watcher, id, homes, polling }
    }

    /// What there is to do though nobody has told of it: a name may mean another one by now. Homes are looked at again only
    /// after `pause`: there may be many.
    fn look(&mut self, source: &SiteSource, pause: Duration) -> WatchState {
        if identity(&source.path).is_some_and(|id| Some(id) != self.id) {
            return WatchState::Replaced;
        }
        match self.homes.compare(&source.users, pause) {
            HomeState::Same => WatchState::Nothing,
            HomeState::Fewer => WatchState::WatchAndBuild,
            HomeState::Others => WatchState::Replaced,
        }
    }
}

/// The path from the root. One that goes upwards loses its links on the way, as only the kernel knows where they lead.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let upwards = path.components().any(|component| component == Component::ParentDir);
    if upwards { path.canonicalize() } else { path::absolute(path) }
}

fn kernel_watcher(
    source: &SiteSource,
    root: Option<&SiteRoot>,
    real: &Path,
    send: &Sender<WatchEvent>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    let mut watcher = RecommendedWatcher::new(hearer(send), config())?;
    if let Some(root) = root {
        // The names on the way to it are watched elsewhere, and so is an archive, which is one of them.
        if root.reopen_path().is_some() {
            watcher.watch(real, RecursiveMode::Recursive)?;
        }
        homes::watch(&source.users, &mut watcher)?;
        return Ok(Box::new(watcher));
    }
    match real.parent() {
        // The directory an archive lies in tells more than the archive: it is still there when another one is renamed
        // over it.
        Some(parent) if !real.is_dir() => watcher.watch(parent, RecursiveMode::NonRecursive)?,
        _ => watcher.watch(real, RecursiveMode::Recursive)?,
    }
    // Whoever replaces the directory or archive itself, or the symbolic link to it, does so one level up.
    if let Some(parent) = source.path.parent() {
        watcher.watch(parent, RecursiveMode::NonRecursive)?;
    }
    homes::watch(&source.users, &mut watcher)?;
    Ok(Box::new(watcher))
}

fn poll_watcher(
    source: &SiteSource,
    real: &Path,
    send: &Sender<WatchEvent>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    let mut watcher = PollWatcher::new(hearer(send), config().with_poll_interval(POLL))?;
    watcher.watch(real, RecursiveMode::Recursive)?;
    homes::watch(&source.users, &mut watcher)?;
    Ok(Box::new(watcher))
}

fn hearer(send: &Sender<WatchEvent>) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let send = send.clone();
    move |event| {
        // Nobody hears an event after the end.
        let _ = send.send(WatchEvent::Event(event));
    }
}

/// A link that leaves the site is not served, so what it leads to is not watched; one that stays inside leads to what is
/// watched anyway.
fn config() -> Config {
    Config::default().with_follow_symlinks(false)
}

/// Which file or directory a name means: a number is soon used again, but not with the time it was made.
fn identity(path: &Path) -> Option<(u64, u64, Option<SystemTime>)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino(), meta.created().ok()))
}

fn in_words(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit on watches is reached, see sysctl fs.inotify.max_user_watches".to_owned()
        }
        // One for each site: inotify_init1(2).
        notify::ErrorKind::Io(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            "the limit on watchers is reached, see sysctl fs.inotify.max_user_instances".to_owned()
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
        let lost = Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan));
        #[rustfmt::skip]
        let cases = [
            ("a new file",              event(create, "/site/new"),          WatchState::Build),
            ("a file written",          event(written, "/site/dir/file"),    WatchState::Build),
            ("the directory itself",    event(modify, "/site"),              WatchState::Build),
            ("behind a link",           event(modify, "/releases/7/file"),   WatchState::Build),
            ("the archive itself",      event(written, "/site.tar"),         WatchState::Build),
            ("a file read",             event(read, "/site/file"),           WatchState::Nothing),
            ("a neighbour",             event(create, "/other"),             WatchState::Nothing),
            ("a neighbour by name",     event(create, "/site2"),             WatchState::Nothing),
            ("beside the archive",      event(create, "/site.tar.part"),     WatchState::Nothing),
            ("events that were lost",   lost,                                WatchState::WatchAndBuild),
            ("an error of the watcher", Err(notify::Error::generic("gone")), WatchState::WatchAndBuild),
        ];
        for (name, event, want) in cases {
            let names = ["/site", "/releases/7", "/site.tar"].map(PathBuf::from);
            assert!(WatchEvent::Event(event).todo(&names) == want, "{name}");
        }
    }
}
