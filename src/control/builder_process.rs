//! The site builder: a process that watches the sources of the sites, builds the sites, and sends them to the supervisor.
//!
//! ```text
//! confine: opens the roots, drops its rights ─▶ watch: builds each site ─▶ follow: builds again on each change
//!                                                   └── sites ─▶ supervisor ◀── sites ──┘
//! ```

use crate::{
    base::{
        error::UserError,
        site_config::{SiteConfig, SiteSource},
    },
    control::{
        process::{
            channel::{Channel, Sender},
            message::FromBuilder,
        },
        sandbox::{self, Confinement, Privileges},
        site_states::SiteStates,
        supervisor::{BuilderStart, Notice},
    },
    site::{
        Site,
        archive::Archive,
        from_archive, link_trees,
        releases::Releases,
        trusted_path::{PathBarrier, SiteRoot, TrustedPath, fd_path, open_path, reopen},
        watch::{
            SiteChange, SiteWatcher, WatchHandle,
            names::{NameChange, NameWatch},
        },
    },
    sys::process::exit_now,
};
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};
use tarpon_pack::{BuildCache, Progress, ProgressSnapshot, UserDirectory};

/// What a builder gets from the supervisor.
pub(super) struct BuilderProcessStart<'s> {
    pub(super) sites: &'s [SiteConfig],
    pub(super) privileges: &'s Privileges,
    pub(super) start: BuilderStart,
    /// The image of the latest version of each site, in sealed memory, if it has one.
    pub(super) images: Vec<Option<File>>,
    pub(super) states: Arc<SiteStates>,
    pub(super) emit: fn(Notice<'_>),
}

/// Runs until the supervisor exits or kills it. Returns an exit status.
pub(super) fn run(start: BuilderProcessStart<'_>, channel: Channel) -> i32 {
    let BuilderProcessStart { sites, privileges, start, images, states, emit } = start;
    let Channel { sender, mut receiver } = channel;
    let supervisor = Arc::new(BuilderChannel { sender: Mutex::new(sender), states, emit });
    let trusted = link_trees::trusted_users();
    let is_first = start == BuilderStart::First;
    let confined = match confine(sites, privileges, is_first) {
        Ok(confined) => confined,
        Err(why) => {
            supervisor.send(&FromBuilder::StartFailed { why: why.to_string() }, Arc::default());
            return 1;
        }
    };
    let ConfinedBuilder { sites: known, in_files, names } = confined;
    let mut written = Vec::new();
    let has_names = names.is_some();
    let kept = known.into_iter().zip(images).enumerate().map(|(number, (site, image))| {
        // Messages about the only site do not name it.
        let of = (sites.len() > 1).then(|| site.config.source.path.clone());
        let links = site.config.source.follow_links.clone();
        let from = WatchFrom { start, in_files, image };
        let Some(watched) = watch(number, site, of.as_deref(), from, &supervisor)? else {
            if !has_names && !links.is_empty() {
                await_links(links, trusted, &supervisor)?;
            }
            return Ok(None);
        };
        written.push((number, watched.on_written()));
        let path = sites[number].source.path.clone();
        follow(number, path, watched, of, start, &supervisor).map(Some)
    });
    let followed = kept.collect::<Result<Vec<Option<WatchHandle>>, String>>().and_then(|following| {
        let supervisor = Arc::clone(&supervisor);
        let handle = move |change| match change {
            NameChange::Replaced => supervisor.replaced(),
            NameChange::Written(site) => {
                written.iter().filter(|(number, _)| *number == site).for_each(|(_, notify)| notify());
            }
        };
        let followed = names.map_or(Ok(()), |names| names.follow(handle));
        followed.map(|()| following).map_err(|error| error.to_string())
    });
    match followed {
        Ok(_following) => {
            // The supervisor sends no message; EOF tells that it has exited.
            while let Ok(Some(((), _))) = receiver.receive() {}
            0
        }
        Err(why) => {
            supervisor.send(&FromBuilder::StartFailed { why }, Arc::default());
            1
        }
    }
}

/// The sites that a builder has opened, with the rights of the server's user.
struct OpenedSites {
    /// Each site, or why it cannot be served.
    sites: Vec<Result<ConfinedSite, UserError>>,
    /// The names on the paths to the sites.
    names: Option<NameWatch>,
}

/// What a confined builder has.
struct ConfinedBuilder {
    sites: Vec<ConfinedSite>,
    /// This process cannot read a replacement of a site.
    in_files: bool,
    /// The names on the paths to the sites.
    names: Option<NameWatch>,
}

/// What a confined builder knows of a site.
struct ConfinedSite {
    /// With the directories of users.
    config: SiteConfig,
    /// Opened with the rights it was started with: the site, or why it cannot be served now. `None`: it is read by its path.
    root: Option<Result<Arc<SiteRoot>, UserError>>,
    /// The trees that its links may lead into, or why the site cannot be served now.
    links: Result<Vec<Arc<SiteRoot>>, UserError>,
    /// The archives of releases before the current one that are to be kept.
    earlier: Vec<(PathBuf, File)>,
    user: Option<String>,
}

/// Checks whether a builder could build the sites: opens each, becomes the user of the server, confines this process, and builds each.
/// Returns the number of each site that cannot be built, and why.
///
/// # Errors
/// This process may not become the user, or cannot be confined.
pub(super) fn check_sites(
    sites: &[SiteConfig],
    privileges: &Privileges,
) -> Result<Vec<(usize, UserError)>, UserError> {
    let OpenedSites { sites: known, .. } = open_sites(sites, privileges, true)?;
    confine_to(known.iter().flatten(), privileges)?;
    let mut errors = Vec::new();
    for (number, known) in known.into_iter().enumerate() {
        let built = known.and_then(|known| prepare(known)?.build());
        errors.extend(built.err().map(|error| (number, error)));
    }
    Ok(errors)
}

/// Drops every right of this process that reading the sites does not need.
fn confine(
    sites: &[SiteConfig],
    privileges: &Privileges,
    is_first: bool,
) -> Result<ConfinedBuilder, UserError> {
    let OpenedSites { sites: known, names } = open_sites(sites, privileges, is_first)?;
    let sites = known.into_iter().collect::<Result<Vec<ConfinedSite>, UserError>>()?;
    let confined = confine_to(sites.iter(), privileges)?;
    Ok(ConfinedBuilder { sites, in_files: confined.has_landlock, names })
}

/// Confines this process to reading these sites.
fn confine_to<'a>(
    sites: impl Iterator<Item = &'a ConfinedSite>,
    privileges: &Privileges,
) -> Result<Confinement, UserError> {
    let opened: Vec<OwnedFd> = sites.flat_map(ConfinedSite::readable).collect();
    let opened: Vec<BorrowedFd<'_>> = opened.iter().map(OwnedFd::as_fd).collect();
    sandbox::confine_builder(privileges, &opened).map_err(|error| {
        let hint = "--no-sandbox turns the sandbox off";
        UserError::new("cannot confine the builder process", &error, hint).about("sandbox")
    })
}

/// Opens each site, and drops the rights of this process but those of the server's user.
///
/// # Errors
/// This process may not become the user.
fn open_sites(
    sites: &[SiteConfig],
    privileges: &Privileges,
    is_first: bool,
) -> Result<OpenedSites, UserError> {
    let (paths, mut names) = match privileges.trusted() {
        Some(trusted) => find_trusted_paths(sites, &trusted),
        None => (sites.iter().map(|_| None).collect(), None),
    };
    let links = open_links(sites, names.as_mut());
    let mut earlier: Vec<_> = sites.iter().map(|_| Vec::new()).collect();
    let open_earlier = |earlier: &mut [Vec<_>], by_trusted_path: bool| {
        let sites = sites
            .iter()
            .zip(&paths)
            .zip(earlier)
            .filter(|((_, trusted_path), _)| is_first && trusted_path.is_some() == by_trusted_path);
        sites.for_each(|((site, trusted_path), earlier)| {
            *earlier = open_releases(site, trusted_path.as_ref())
        });
    };
    // If a site can be reached only with root's privileges, so can the releases beside it.
    open_earlier(&mut earlier, true);
    privileges.assume()?;
    open_earlier(&mut earlier, false);
    let known = sites.iter().zip(paths).zip(links).zip(earlier);
    let known = known.map(|(((site, trusted_path), links), earlier)| {
        ConfinedSite::new(site, trusted_path, links, earlier, privileges, is_first)
    });
    Ok(OpenedSites { sites: known.collect(), names })
}

/// Follows the path of each site with the rights of this process. `None`: another user can change what lies on the path, or the names on
/// it cannot be watched.
fn find_trusted_paths(
    sites: &[SiteConfig],
    trusted: &[u32],
) -> (Vec<Option<TrustedPath>>, Option<NameWatch>) {
    let Ok(mut names) = NameWatch::new() else { return (sites.iter().map(|_| None).collect(), None) };
    let paths = sites.iter().enumerate().map(|(number, site)| {
        let path = path::absolute(&site.source.path).ok()?;
        let mut is_watched = true;
        let trusted_path = TrustedPath::find(&path, Some(trusted), |dir, name| {
            is_watched &= names.add(dir, name, number).is_ok();
        });
        if trusted_path.end.as_ref().is_ok_and(SiteRoot::is_file) {
            is_watched &= names.add_content(number).is_ok();
        }
        let is_usable = is_watched && matches!(trusted_path.end, Ok(_) | Err(PathBarrier::Missing(_)));
        is_usable.then_some(trusted_path)
    });
    (paths.collect(), Some(names))
}

/// Opens the trees that the links of each site may lead into, with the rights that this process was started with. Watches the names on the
/// paths to them.
fn open_links(
    sites: &[SiteConfig],
    mut names: Option<&mut NameWatch>,
) -> Vec<Result<Vec<Arc<SiteRoot>>, UserError>> {
    // Numbers behind those of the sites: such a name is part of no path to a site.
    let mut number = sites.len();
    let mut open = |path: &PathBuf| {
        number += 1;
        link_trees::open(path, &link_trees::trusted_users(), |dir, name| {
            // Without the watch, polling the path still notices another directory there.
            if let Some(names) = &mut names {
                let _ = names.add(dir, name, number);
            }
        })
    };
    sites.iter().map(|site| site.source.follow_links.iter().map(&mut open).collect()).collect()
}

/// Polls until the trees for links can be opened again, and reports that: no watch on their names does so.
fn await_links(
    paths: Vec<PathBuf>,
    trusted: [u32; 2],
    supervisor: &Arc<BuilderChannel>,
) -> Result<(), String> {
    let supervisor = Arc::clone(supervisor);
    let run = move || {
        let (_sender, never) = mpsc::channel::<()>();
        loop {
            let _ = never.recv_timeout(LINKS_POLL);
            if paths.iter().all(|path| link_trees::open(path, &trusted, |_, _| ()).is_ok()) {
                supervisor.replaced();
            }
        }
    };
    thread::Builder::new().name("links".to_owned()).spawn(run).map(drop).map_err(|error| error.to_string())
}

/// Interval for polling the trees for links that cannot be opened.
const LINKS_POLL: Duration = Duration::from_secs(2);

/// Opens the archives of the earlier releases that are kept, by path.
fn open_releases(site: &SiteConfig, trusted_path: Option<&TrustedPath>) -> Vec<(PathBuf, OwnedFd)> {
    let path = &site.source.path;
    let archives = match trusted_path {
        Some(TrustedPath { last_dir: Some(dir), .. }) => Releases::earlier_archives_in(path, &fd_path(dir)),
        _ => Releases::earlier_archives(path),
    };
    let opened = archives.into_iter().filter_map(|archive| {
        let named = path.with_file_name(archive.file_name()?);
        Some((named, open_path(&archive).ok()?))
    });
    opened.take(site.keep_releases).collect()
}

impl ConfinedSite {
    /// Returns what is known of a site, once this process has the rights of its user.
    fn new(
        site: &SiteConfig,
        trusted_path: Option<TrustedPath>,
        links: Result<Vec<Arc<SiteRoot>>, UserError>,
        earlier: Vec<(PathBuf, OwnedFd)>,
        privileges: &Privileges,
        is_first: bool,
    ) -> Result<ConfinedSite, UserError> {
        let path = &site.source.path;
        let root = match trusted_path {
            Some(trusted_path) => {
                Some(trusted_path.end.map(Arc::new).map_err(|stop| privileges.site_error(path, &stop)))
            }
            None => None,
        };
        if is_first {
            check(path, root.as_ref(), privileges)?;
        }
        // Each builder looks the users up.
        let source = SiteSource { users: site.users.directories()?, ..site.source.clone() };
        let config = SiteConfig { source, ..site.clone() };
        let earlier = earlier.into_iter().filter_map(|(path, file)| Some((path, reopen(&file).ok()?)));
        Ok(ConfinedSite { config, root, links, earlier: earlier.collect(), user: privileges.user_name() })
    }

    /// Returns why the site cannot be served now.
    fn error(&self) -> Option<&UserError> {
        let root = self.root.as_ref().and_then(|root| root.as_ref().err());
        root.or(self.links.as_ref().err())
    }

    /// Returns what this process may read: of user directories only those in the homes of their users.
    fn readable(&self) -> Vec<OwnedFd> {
        let SiteSource { path, users, .. } = &self.config.source;
        let root = match &self.root {
            Some(Ok(root)) => root.descriptor().try_clone_to_owned().ok(),
            Some(Err(_)) => None,
            None => open_path(path).ok(),
        };
        let links = self.links.iter().flatten();
        let links = links.filter_map(|link| link.descriptor().try_clone_to_owned().ok());
        root.into_iter()
            .chain(links)
            .chain(users.directories.iter().filter_map(UserDirectory::open))
            .collect()
    }
}

/// Checks whether permissions allow this process to reach a site and to read its root.
fn check(
    path: &Path,
    root: Option<&Result<Arc<SiteRoot>, UserError>>,
    privileges: &Privileges,
) -> Result<(), UserError> {
    let root = match root {
        Some(Ok(root)) => Arc::clone(root),
        // The build of the site reports any other fault.
        Some(Err(_)) => return Ok(()),
        None => {
            let Ok(absolute) = path::absolute(path) else { return Ok(()) };
            let trusted_path = TrustedPath::find(&absolute, None, |_, _| ());
            Arc::new(trusted_path.end.map_err(|stop| privileges.site_error(path, &stop))?)
        }
    };
    root.barrier().map_or(Ok(()), |barrier| Err(privileges.barred(path, &barrier)))
}

/// What a watch begins with.
struct WatchFrom {
    start: BuilderStart,
    /// This process cannot read a replacement of a site.
    in_files: bool,
    /// The image of the latest version.
    image: Option<File>,
}

/// Watches a site. If none was served yet, builds it, and sends it after earlier releases, of which the latest comes first here.
/// Returns `None` if there is no site now, and has then reported it.
fn watch(
    number: usize,
    mut known: ConfinedSite,
    of: Option<&Path>,
    WatchFrom { start, in_files, image }: WatchFrom,
    supervisor: &BuilderChannel,
) -> Result<Option<SiteWatcher>, String> {
    let is_first = start == BuilderStart::First;
    if !is_first && let Some(error) = known.error() {
        supervisor.failed(number, error);
        return Ok(None);
    }
    let source = &known.config.source;
    let path = source.path.clone();
    // If this process may read only what lies there now, another process has to read a replacement. If the site has directories of
    // users, another process has to look the users up. Trees for links are opened before this process is confined.
    let needs_another = in_files || source.users.user_database.is_some() || !source.follow_links.is_empty();
    let earlier = std::mem::take(&mut known.earlier);
    let mut watched = prepare(known).map_err(|error| error.to_string())?.with_variants_of(image);
    if needs_another {
        watched = watched.until_replaced();
    }
    if is_first {
        let progress = watched.progress();
        let emit = |now: ProgressSnapshot| (supervisor.emit)(Notice::SiteLoading(of, now.done, now.total));
        let built = report_progress(&progress, emit, || watched.build());
        (supervisor.emit)(Notice::SiteLoadingEnded);
        let built = built.map_err(|error| error.to_string())?;
        supervisor.states.read(number, &path, &built);
        (supervisor.emit)(Notice::SiteLoaded(of, &built));
        for (path, file) in earlier.into_iter().rev() {
            let source = SiteSource { path, ..SiteSource::default() };
            let archive = Archive::from_file(file, &source.path, source.max_unpacked_len, false);
            let (mut cache, progress) = (BuildCache::default(), Progress::default());
            match archive.and_then(|archive| from_archive(archive, &source, &mut cache, &progress)) {
                Ok(site) => supervisor.send_site(number, site, true),
                Err(error) => (supervisor.emit)(Notice::ReleaseNotKept(&error)),
            }
        }
        supervisor.send_site(number, built, false);
    }
    Ok(Some(watched))
}

/// Prepares the build of a site.
///
/// # Errors
/// The site, or a tree for its links, cannot be served now.
fn prepare(known: ConfinedSite) -> Result<SiteWatcher, UserError> {
    let ConfinedSite { config: SiteConfig { source, .. }, root, links, user, .. } = known;
    let watched = SiteWatcher::prepare(source, root.transpose()?, Some(links?))?;
    Ok(watched.with_user(user).for_other_processes())
}

/// Does the work and reports its progress at intervals. Short work has no report.
fn report_progress<T>(
    progress: &Progress,
    emit: impl Fn(ProgressSnapshot) + Send,
    work: impl FnOnce() -> T,
) -> T {
    let (done, finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let is_due = move || finished.recv_timeout(PROGRESS_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout);
        let report = || emit_while(is_due, progress, emit);
        // Without the thread the work has no report.
        let _ = thread::Builder::new().name("progress".to_owned()).spawn_scoped(scope, report);
        let result = work();
        drop(done);
        result
    })
}

/// Reports the progress each time that `is_due` returns `true`.
fn emit_while(mut is_due: impl FnMut() -> bool, progress: &Progress, emit: impl Fn(ProgressSnapshot)) {
    while is_due() {
        emit(progress.now());
    }
}

/// How often the progress of reading a site is reported: a bar moves smoothly enough.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Builds and sends a site whenever it changes.
fn follow(
    number: usize,
    path: PathBuf,
    watched: SiteWatcher,
    of: Option<PathBuf>,
    start: BuilderStart,
    supervisor: &Arc<BuilderChannel>,
) -> Result<WatchHandle, String> {
    let supervisor = Arc::clone(supervisor);
    // The site may be the one that an earlier builder has built.
    let mut is_same = start == BuilderStart::Again;
    let handle = move |change| match change {
        SiteChange::Site(built) => {
            let of = of.as_deref();
            let notice =
                if is_same { Notice::SiteLoaded(of, &built) } else { Notice::SiteReloaded(of, &built) };
            is_same = false;
            supervisor.states.read(number, &path, &built);
            (supervisor.emit)(notice);
            supervisor.send_site(number, *built, false);
        }
        SiteChange::Compressed(built) => {
            supervisor.states.read(number, &path, &built);
            (supervisor.emit)(Notice::SiteCompressed(of.as_deref(), &built));
            supervisor.send_site(number, *built, false);
        }
        SiteChange::Failed(error) => supervisor.failed(number, &error),
        SiteChange::Polling(reason) => (supervisor.emit)(Notice::PollingForChanges(of.as_deref(), &reason)),
        SiteChange::Replaced => supervisor.replaced(),
    };
    watched.follow(handle).map_err(|error| error.to_string())
}

/// The channel to the supervisor, for the threads that watch.
struct BuilderChannel {
    sender: Mutex<Sender>,
    states: Arc<SiteStates>,
    emit: fn(Notice<'_>),
}

impl BuilderChannel {
    /// Exits, as only the next builder may read the new root of a site.
    fn replaced(&self) -> ! {
        self.send(&FromBuilder::RootReplaced, Arc::default());
        exit_now(0);
    }

    /// Reports that a site could not be read again.
    fn failed(&self, site: usize, error: &UserError) {
        self.states.failed(site, &error.to_string());
        (self.emit)(Notice::SiteReloadFailed(error));
    }

    fn send_site(&self, site: usize, built: Site, is_earlier: bool) {
        let (transfer, descriptors) = built.into_transfer();
        self.send(&FromBuilder::Site { site, transfer, is_earlier }, descriptors);
    }

    fn send(&self, message: &FromBuilder, descriptors: Arc<[Arc<File>]>) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.send_with(message, &descriptors);
        if sent.is_err() {
            // The supervisor has exited.
            exit_now(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, fs};
    use tarpon_pack::{BuildCache, DirTree, PackOptions, PackStep, pack_tree};

    #[test]
    fn progress_is_reported_at_each_interval_until_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join(name), name).expect("a file");
        }
        let (progress, reports) = (Progress::default(), RefCell::new(Vec::new()));
        let mut intervals = 0;
        // Stands for the clock: between the first and the second interval, the site is read.
        let is_due = || {
            intervals += 1;
            if intervals == 2 {
                let tree = DirTree::open(dir.path()).expect("a directory");
                let mut out = std::io::Cursor::new(Vec::new());
                let options = PackOptions::new(0);
                pack_tree(tree, &mut out, &options, &mut BuildCache::default(), &progress).expect("a site");
            }
            intervals < 3
        };
        emit_while(is_due, &progress, |now| reports.borrow_mut().push((now.step, now.done, now.total)));
        assert_eq!(*reports.borrow(), [(PackStep::Reading, 0, 0), (PackStep::Reading, 3, 3)]);
    }

    #[test]
    fn short_work_has_no_report() {
        let report = |now: ProgressSnapshot| panic!("a report: {now:?}");
        assert_eq!(report_progress(&Progress::default(), report, || 7), 7);
    }
}
