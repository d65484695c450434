//! Watches the directory or archive of a site, and rebuilds the site on a thread of its own when files change.
//!
//! ```text
//! kernel ─ event ─▶ wait for a pause ─▶ build ─▶ report the new site
//!              ▲                           └ failed: report the error, the server keeps the old site
//!              └─ the directory or archive itself was replaced: watch the new one
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | [`SiteWatcher`]: collects events, debounces them, rebuilds |
//! | `homes.rs` | the directories of users and the trees for links: watches them directory by directory |
//! | `names.rs` | watches the names on the path to a site, with inotify |
//! | `no_names.rs` | the same interface for systems without inotify: does nothing |

mod homes;
#[cfg_attr(not(target_os = "linux"), path = "no_names.rs")]
pub(crate) mod names;

use crate::{
    base::{
        error::{UserError, reason},
        site_config::SiteSource,
    },
    site::{Site, builder::SiteBuilder, compressor::Compressor, missing, trusted_path::SiteRoot},
    sys::{inject, process::release_free_memory},
};
use homes::{HomeState, Homes};
use notify::{
    Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use std::{
    fs,
    fs::File,
    io, mem,
    os::unix::fs::MetadataExt,
    path::{self, Component, Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};
use tarpon_pack::{MadeVariant, Progress};
use tarpon_site::Printable;

/// A watcher that rebuilds a site when its directory or archive changes.
pub struct SiteWatcher {
    /// The path is absolute, so that it can be compared with the paths of events.
    source: SiteSource,
    builder: SiteBuilder,
    /// The open directory or archive to read and watch. `None`: open it by its path.
    root: Option<Arc<SiteRoot>>,
    /// The open trees that links may lead into. `None`: open and watch them by their paths.
    links: Option<Vec<Arc<SiteRoot>>>,
    watch: DirectoryWatch,
    send: Sender<WatchEvent>,
    events: Receiver<WatchEvent>,
    /// Compresses contents. `None`: nothing was to be compressed yet.
    compressor: Option<Compressor>,
    /// The variants that the next build uses.
    made: Vec<MadeVariant>,
    /// The hash of the content of the last site. `None`: the site was not built yet.
    content_id: Option<u128>,
    /// Whether to stop and report when another directory or archive replaces this one, instead of reading it.
    until_replaced: bool,
}

/// A handle of a running watcher. Dropping it stops the watcher.
pub struct WatchHandle {
    send: Sender<WatchEvent>,
}

/// A report of a watcher.
pub enum SiteChange {
    /// The rebuilt site.
    Site(Box<Site>),
    /// The same site, with more compressed variants. Only a source with [`compression`](SiteSource::compression) has this report.
    Compressed(Box<Site>),
    /// A rebuild failed. The server keeps the site it has; the watcher retries.
    Failed(UserError),
    /// The kernel cannot watch the files, for this reason: the watcher polls every two seconds.
    Polling(String),
    /// Another directory or archive has replaced the watched one. This is the last report, and only a watcher with
    /// [`until_replaced`](SiteWatcher::until_replaced) sends it.
    Replaced,
}

/// An event for the watching thread.
enum WatchEvent {
    Event(notify::Result<Event>),
    /// Another process wrote to the archive.
    Written,
    /// Contents were compressed.
    Compressed(Vec<MadeVariant>),
    /// The handle was dropped.
    Stop,
}

/// What the watching thread does next. A later variant includes the earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WatchState {
    Nothing,
    Build,
    /// Set up the watches again, as they may be incomplete; then build.
    WatchAndBuild,
    /// Like `WatchAndBuild`: another directory or archive is at the path, or a user directory was added.
    Replaced,
    Stop,
}

/// A burst of changes ends after this pause: editors and generators write many files.
const QUIET: Duration = Duration::from_millis(50);
/// Maximum length of a burst, unless the last build took longer. The bound by the build time keeps a file that is written all the time
/// from occupying a core.
const BURST_MAX: Duration = Duration::from_millis(1_000);
/// Interval for polling a directory or archive that does not exist or that the kernel cannot watch, and for retrying a failed build.
const POLL: Duration = Duration::from_secs(2);

impl SiteWatcher {
    /// Builds the site for the first time.
    ///
    /// # Errors
    /// Those of [`Site::from_dir`] and [`Site::from_archive`].
    pub fn new(source: SiteSource) -> Result<(SiteWatcher, Site), UserError> {
        let mut watcher = SiteWatcher::prepare(source, None, None)?;
        let site = watcher.build()?;
        Ok((watcher, site))
    }

    /// Builds the site for the first time.
    pub(crate) fn build(&mut self) -> Result<Site, UserError> {
        let site = self.builder.build(&self.source)?;
        self.content_id = Some(site.content_id);
        Ok(site)
    }

    /// Returns the progress of the current build, for another thread.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        self.builder.progress()
    }

    /// Sets up the watches without building the site. [`follow`](SiteWatcher::follow) builds it at once and reports the result, unless
    /// [`build`](SiteWatcher::build) was called before. With an open root or open trees for links, the watcher never reads others.
    pub(crate) fn prepare(
        source: SiteSource,
        root: Option<Arc<SiteRoot>>,
        links: Option<Vec<Arc<SiteRoot>>>,
    ) -> Result<SiteWatcher, UserError> {
        // An open root needs no lookup of its path, for which this process may lack the rights.
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
        let (send, events) = channel();
        // Watching begins before the build, so that no change during the build is missed.
        let watch = DirectoryWatch::new(&source, root.as_deref(), links.as_deref(), &send);
        let builder = root.clone().map_or_else(SiteBuilder::default, SiteBuilder::with_root);
        let builder = builder.with_links(links.clone());
        let until_replaced = root.is_some();
        let (compressor, made, content_id) = (None, Vec::new(), None);
        Ok(SiteWatcher {
            source,
            builder,
            root,
            links,
            watch,
            send,
            events,
            compressor,
            made,
            content_id,
            until_replaced,
        })
    }

    /// Allows as many large files as processes can serve that share the unchanged ones.
    #[must_use]
    pub(crate) fn for_other_processes(self) -> SiteWatcher {
        SiteWatcher { builder: self.builder.for_other_processes(), ..self }
    }

    /// Sets the user that this process has switched to, for messages.
    #[must_use]
    pub(crate) fn with_user(self, user: Option<String>) -> SiteWatcher {
        SiteWatcher { builder: self.builder.with_user(user), ..self }
    }

    /// Sets an image of the same source, whose compressed variants the site gets.
    #[must_use]
    pub(crate) fn with_variants_of(mut self, store: Option<File>) -> SiteWatcher {
        if let (Some(_), Some(store)) = (self.source.compression, store) {
            self.builder.use_variants_of(store);
        }
        self
    }

    /// Returns a function to call after another process has written to the archive.
    pub(crate) fn on_written(&self) -> impl Fn() + Send + use<> {
        let send = self.send.clone();
        move || {
            // A failed send means that the watcher has stopped.
            let _ = send.send(WatchEvent::Written);
        }
    }

    /// Watches only the current directory or archive. If another one replaces it, the watcher reports that and stops.
    #[must_use]
    pub fn until_replaced(self) -> SiteWatcher {
        SiteWatcher { until_replaced: true, ..self }
    }

    /// Calls `report` for each change, on a thread of its own, until the returned handle is dropped.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn follow(self, report: impl FnMut(SiteChange) + Send + 'static) -> io::Result<WatchHandle> {
        let handle = WatchHandle { send: self.send.clone() };
        thread::Builder::new().name("watch".to_owned()).spawn(move || self.run(report))?;
        Ok(handle)
    }

    fn run(mut self, mut report: impl FnMut(SiteChange)) {
        let mut reported = None;
        let mut build_time = Duration::ZERO;
        let mut last_error: Option<String> = None;
        let mut retry_at = None;
        loop {
            if let Some(reason) = self.watch.polling.take()
                && reported.as_ref() != Some(&reason)
            {
                reported = Some(reason.clone());
                report(SiteChange::Polling(reason));
            }
            self.compress();
            let state = match self.content_id {
                None if retry_at.is_none() => WatchState::Build,
                _ => self.next(retry_at, build_time),
            };
            match state {
                WatchState::Nothing => continue,
                WatchState::Build => {}
                WatchState::Replaced if self.until_replaced => return report(SiteChange::Replaced),
                WatchState::WatchAndBuild | WatchState::Replaced => {
                    self.watch = DirectoryWatch::new(
                        &self.source,
                        self.root.as_deref(),
                        self.links.as_deref(),
                        &self.send,
                    );
                }
                WatchState::Stop => return,
            }
            let started = Instant::now();
            let made = mem::take(&mut self.made);
            let is_compressed = made.iter().any(|made| made.len() > 0);
            let is_for_jobs = !made.is_empty() && !is_compressed;
            self.builder.add_variants(made, &self.source);
            let built = self.builder.build(&self.source);
            build_time = started.elapsed();
            let previous_error = last_error.take();
            retry_at = built.is_err().then(|| Instant::now() + POLL);
            match built {
                Ok(site) => {
                    let former_id = self.content_id.replace(site.content_id);
                    let is_former = former_id == self.content_id;
                    if is_former && is_for_jobs {
                        // Only the jobs are new.
                        continue;
                    }
                    let site = Box::new(site);
                    report(match is_compressed && is_former {
                        true => SiteChange::Compressed(site),
                        false => SiteChange::Site(site),
                    });
                    if is_compressed {
                        // The variants are in the image now.
                        release_free_memory();
                    }
                }
                Err(error) => {
                    let text = last_error.insert(error.to_string());
                    // A retry that fails for the same reason is not reported again.
                    if previous_error.as_ref() != Some(text) {
                        report(SiteChange::Failed(error));
                    }
                }
            }
        }
    }

    /// Returns what an event requires, and keeps the variants that it has.
    fn received(&mut self, event: WatchEvent) -> WatchState {
        let state = event.state(&self.watch.names);
        let WatchEvent::Compressed(made) = event else { return state };
        self.made.extend(made);
        // The next build has jobs for the others, even if no variant was worthwhile.
        if self.builder.has_more_jobs() { WatchState::Build } else { state }
    }

    /// Begins to compress what the last build left to compress.
    fn compress(&mut self) {
        let options = self.source.compression.filter(|_| inject::compresses());
        let (Some(options), Some(batch)) = (options, self.builder.take_batch()) else { return };
        let send = self.send.clone();
        let report = move |made| {
            // A failed send means that the watcher has stopped.
            let _ = send.send(WatchEvent::Compressed(made));
        };
        if self.compressor.is_none() {
            // Without a thread the site is served uncompressed; the next build tries again.
            self.compressor = Compressor::start(options, report).ok();
        }
        if let Some(compressor) = &self.compressor {
            compressor.compress(batch);
        }
    }

    /// Waits for a change and the end of its burst, or for the polling interval, and returns what to do.
    fn next(&mut self, retry_at: Option<Instant>, build_time: Duration) -> WatchState {
        let mut state = match self.events.recv_timeout(POLL) {
            Ok(event) => self.received(event),
            Err(RecvTimeoutError::Timeout) => WatchState::Nothing,
            Err(RecvTimeoutError::Disconnected) => return WatchState::Stop,
        };
        // Runs after unrelated events too, as these may never pause.
        if state == WatchState::Nothing {
            // Replacing the directory, or a link above it, may cause no event on the old one.
            state = self.watch.check(&self.source, POLL);
            if state == WatchState::Nothing && retry_at.is_some_and(|at| at <= Instant::now()) {
                state = WatchState::Build;
            }
        }
        let since = Instant::now();
        let mut quiet_from = since;
        while !matches!(state, WatchState::Nothing | WatchState::Stop)
            && since.elapsed() < BURST_MAX.max(build_time)
        {
            match self.events.recv_timeout(QUIET.saturating_sub(quiet_from.elapsed())) {
                Ok(event) => match self.received(event) {
                    WatchState::Nothing => {}
                    WatchState::Stop => return WatchState::Stop,
                    more => (state, quiet_from) = (state.max(more), Instant::now()),
                },
                Err(_) => break,
            }
        }
        match state {
            WatchState::Nothing | WatchState::Stop => state,
            // A new directory within a user directory, or within a tree for links, is not watched automatically.
            WatchState::Build
                if !self.source.users.directories.is_empty() || !self.source.follow_links.is_empty() =>
            {
                WatchState::WatchAndBuild.max(self.watch.check(&self.source, Duration::ZERO))
            }
            state => state.max(self.watch.check(&self.source, Duration::ZERO)),
        }
    }
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        // A failed send means that the thread has already ended.
        let _ = self.send.send(WatchEvent::Stop);
    }
}

impl WatchEvent {
    /// Returns what an event requires. `names` are the paths of the directory or archive: events on other paths, and events of reads,
    /// require nothing.
    fn state(&self, names: &[PathBuf]) -> WatchState {
        let event = match self {
            WatchEvent::Event(Ok(event)) => event,
            // The kernel dropped events, or a new directory cannot be watched.
            WatchEvent::Event(Err(_)) => return WatchState::WatchAndBuild,
            WatchEvent::Written => return WatchState::Build,
            // Without a variant there is nothing new to serve.
            WatchEvent::Compressed(made) if made.iter().all(|made| made.len() == 0) => {
                return WatchState::Nothing;
            }
            WatchEvent::Compressed(_) => return WatchState::Build,
            WatchEvent::Stop => return WatchState::Stop,
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

/// The watches on the current directory or archive.
struct DirectoryWatch {
    /// The paths of the directory or archive and of user directories, with and without links.
    names: Vec<PathBuf>,
    /// Watches until it is dropped.
    _watcher: Option<Box<dyn Watcher + Send>>,
    /// The identity of the directory or archive, to notice another one at the same path.
    id: Option<(u64, u64, Option<SystemTime>)>,
    /// The identities of the trees that links may lead into.
    link_ids: Vec<Option<(u64, u64, Option<SystemTime>)>>,
    homes: Homes,
    /// Why the kernel cannot watch the files, until reported.
    polling: Option<String>,
}

impl DirectoryWatch {
    fn new(
        source: &SiteSource,
        root: Option<&SiteRoot>,
        links: Option<&[Arc<SiteRoot>]>,
        send: &Sender<WatchEvent>,
    ) -> DirectoryWatch {
        let path = &*source.path;
        let link_ids = source.follow_links.iter().map(|path| identity(path)).collect();
        let links = link_paths(&source.follow_links, links);
        let (id, homes) = (identity(path), Homes::look(&source.users));
        // The path through the descriptor needs no rights on its parents.
        let real = match root {
            Some(root) => root.reopen_path().unwrap_or_else(|| path.to_owned()),
            None => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        };
        let (watcher, polling) = match kernel_watcher(source, root, &real, &links, send) {
            Ok(watcher) => (Some(watcher), None),
            // The path does not exist: `check` polls for it.
            Err(_) if id.is_none() && root.is_none() => (None, None),
            Err(error) => (poll_watcher(source, &real, &links, send).ok(), Some(error_text(&error))),
        };
        let users = source.users.directories.iter().flat_map(homes::names);
        let names = [path.to_owned(), real].into_iter().chain(links).chain(users).collect();
        DirectoryWatch { names, _watcher: watcher, id, link_ids, homes, polling }
    }

    /// Polls for changes without an event: another directory or archive at the path. Polls user directories at most once per `pause`, as
    /// there may be many.
    fn check(&mut self, source: &SiteSource, pause: Duration) -> WatchState {
        if identity(&source.path).is_some_and(|id| Some(id) != self.id) {
            return WatchState::Replaced;
        }
        let links = source.follow_links.iter().zip(&self.link_ids);
        if links.into_iter().any(|(path, id)| identity(path).is_some_and(|found| Some(found) != *id)) {
            return WatchState::Replaced;
        }
        match self.homes.compare(&source.users, pause) {
            HomeState::Same => WatchState::Nothing,
            HomeState::Fewer => WatchState::WatchAndBuild,
            HomeState::Others => WatchState::Replaced,
        }
    }
}

/// Returns the absolute path. A path with `..` is resolved with its links, as only the kernel knows where `..` leads behind a link.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let upwards = path.components().any(|component| component == Component::ParentDir);
    if upwards { path.canonicalize() } else { path::absolute(path) }
}

fn kernel_watcher(
    source: &SiteSource,
    root: Option<&SiteRoot>,
    real: &Path,
    links: &[PathBuf],
    send: &Sender<WatchEvent>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    let mut watcher = RecommendedWatcher::new(event_handler(send), config())?;
    for link in links {
        homes::watch_tree(link, &mut watcher)?;
    }
    if let Some(root) = root {
        // `NameWatch` watches the names on the path to the root, and the archive, whose name is one of them.
        if root.reopen_path().is_some() {
            watcher.watch(real, RecursiveMode::Recursive)?;
        }
        homes::watch(&source.users, &mut watcher)?;
        return Ok(Box::new(watcher));
    }
    match real.parent() {
        // Watches the directory of an archive, not the archive: the directory stays when another file is renamed over the archive.
        Some(parent) if !real.is_dir() => watcher.watch(parent, RecursiveMode::NonRecursive)?,
        _ => watcher.watch(real, RecursiveMode::Recursive)?,
    }
    // Replacing the directory or archive itself, or the symbolic link to it, changes the directory above.
    if let Some(parent) = source.path.parent() {
        watcher.watch(parent, RecursiveMode::NonRecursive)?;
    }
    homes::watch(&source.users, &mut watcher)?;
    Ok(Box::new(watcher))
}

fn poll_watcher(
    source: &SiteSource,
    real: &Path,
    links: &[PathBuf],
    send: &Sender<WatchEvent>,
) -> notify::Result<Box<dyn Watcher + Send>> {
    let mut watcher = PollWatcher::new(event_handler(send), config().with_poll_interval(POLL))?;
    for link in links {
        watcher.watch(link, RecursiveMode::Recursive)?;
    }
    watcher.watch(real, RecursiveMode::Recursive)?;
    homes::watch(&source.users, &mut watcher)?;
    Ok(Box::new(watcher))
}

/// Returns the paths to watch for changes of the trees that links may lead into.
fn link_paths(paths: &[PathBuf], opened: Option<&[Arc<SiteRoot>]>) -> Vec<PathBuf> {
    match opened {
        None => paths.iter().filter_map(|path| path.canonicalize().ok()).collect(),
        // The path through the descriptor needs no rights on its parents, but /proc.
        Some(roots) => {
            let reopened = |root: &Arc<SiteRoot>| root.reopen_path().filter(|path| path.is_dir());
            roots.iter().map(|root| reopened(root).unwrap_or_else(|| root.path().to_owned())).collect()
        }
    }
}

fn event_handler(send: &Sender<WatchEvent>) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let send = send.clone();
    move |event| {
        // A failed send means that the watcher has stopped.
        let _ = send.send(WatchEvent::Event(event));
    }
}

/// Returns the configuration of `notify`. Links need not be followed: the target of each link that the site serves lies in the site, or in
/// a tree that is watched too.
fn config() -> Config {
    Config::default().with_follow_symlinks(false)
}

/// Returns the identity of a file or directory. The creation time is part of it, as the file system soon reuses inode numbers.
fn identity(path: &Path) -> Option<(u64, u64, Option<SystemTime>)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino(), meta.created().ok()))
}

fn error_text(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit on watches is reached, see sysctl fs.inotify.max_user_watches".to_owned()
        }
        // Each site takes one instance: inotify_init1(2).
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
    fn only_events_that_change_the_site_require_a_build() {
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
            ("a sibling",               event(create, "/other"),             WatchState::Nothing),
            ("a name with this prefix", event(create, "/site2"),             WatchState::Nothing),
            ("beside the archive",      event(create, "/site.tar.part"),     WatchState::Nothing),
            ("dropped events",          lost,                                WatchState::WatchAndBuild),
            ("an error of the watcher", Err(notify::Error::generic("gone")), WatchState::WatchAndBuild),
        ];
        for (name, event, want) in cases {
            let names = ["/site", "/releases/7", "/site.tar"].map(PathBuf::from);
            assert!(WatchEvent::Event(event).state(&names) == want, "{name}");
        }
    }
}
