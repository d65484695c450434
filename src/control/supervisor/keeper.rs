//! The keeper: watches what the sites are made of, builds them, and sends what it has built. Serves nobody.

use super::told::Notice;
use crate::sys::process::exit_now;
use crate::{
    base::{
        error::UserError,
        site_config::{SiteConfig, SiteSource},
    },
    control::process::{
        channel::{Channel, Sender},
        message::FromBuilder,
    },
    control::sandbox::{self, Privileges},
    site::{
        Site,
        archive::Archive,
        from_archive,
        releases::Releases,
        trusted_path::{PathBarrier, SiteRoot, TrustedPath, fd_path, open_path, reopen},
        watch::{
            SiteChange, SiteWatcher, WatchHandle,
            names::{NameChange, NameWatch},
        },
    },
};
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tarpon_pack::UserDirectory;

/// What it begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// Nothing is served yet: a site that cannot be built is refused. Releases before the current one are sent too.
    First,
    /// Another keeper has ended.
    Again,
    /// Another keeper may not read where a site lies now.
    Moved,
}

/// Runs until the supervisor ends it. Returns an exit status.
pub(super) fn run(
    sites: &[SiteConfig],
    rights: &Privileges,
    start: Start,
    channel: Channel,
    tell: fn(Notice<'_>),
) -> i32 {
    let Channel { sender, mut receiver } = channel;
    let post = Arc::new(Post { sender: Mutex::new(sender), tell });
    let is_first = matches!(start, Start::First);
    let confined = match confine(sites, rights, is_first) {
        Ok(confined) => confined,
        Err(why) => {
            post.send(&FromBuilder::StartFailed { why }, Vec::new());
            return 1;
        }
    };
    let Confined { sites: known, in_files, names } = confined;
    let mut written = Vec::new();
    let kept = known.into_iter().enumerate().map(|(number, site)| {
        // Of one site alone it need not be said which.
        let of = (sites.len() > 1).then(|| site.config.source.path.clone());
        let Some(watched) = watch(number, site, of.as_deref(), start, in_files, &post)? else {
            return Ok(None);
        };
        written.push((number, watched.on_written()));
        follow(number, watched, of, start, &post).map(Some)
    });
    let followed = kept.collect::<Result<Vec<Option<WatchHandle>>, String>>().and_then(|following| {
        let post = Arc::clone(&post);
        let told = move |change| match change {
            NameChange::Replaced => post.replaced(),
            NameChange::Written(site) => {
                written.iter().filter(|(number, _)| *number == site).for_each(|(_, tell)| tell());
            }
        };
        let followed = names.map_or(Ok(()), |names| names.follow(told));
        followed.map(|()| following).map_err(|error| error.to_string())
    });
    match followed {
        Ok(_following) => {
            // Nothing is ever said to it; but this is how it learns that nobody is there any more.
            while let Ok(Some(((), _))) = receiver.receive() {}
            0
        }
        Err(why) => {
            post.send(&FromBuilder::StartFailed { why }, Vec::new());
            1
        }
    }
}

/// What a keeper knows when it is confined.
struct Confined {
    sites: Vec<Known>,
    /// This process cannot read a replacement of a site.
    in_files: bool,
    /// The names on the ways to the sites.
    names: Option<NameWatch>,
}

/// What it has to know of a site.
struct Known {
    /// With the directories of users.
    config: SiteConfig,
    /// Opened with the rights it was started with: the site, or why it cannot be served now. `None`: it is read by its path.
    root: Option<Result<Arc<SiteRoot>, UserError>>,
    /// The archives of releases before the current one that are to be kept.
    earlier: Vec<(PathBuf, File)>,
    user: Option<String>,
}

/// Takes from this process all but what it needs to read the sites.
fn confine(sites: &[SiteConfig], rights: &Privileges, is_first: bool) -> Result<Confined, String> {
    let (ways, names) = match rights.trusted() {
        Some(trusted) => find_ways(sites, &trusted),
        None => (sites.iter().map(|_| None).collect(), None),
    };
    let mut earlier: Vec<_> = sites.iter().map(|_| Vec::new()).collect();
    let open_earlier = |earlier: &mut [Vec<_>], by_way: bool| {
        let sites =
            sites.iter().zip(&ways).zip(earlier).filter(|((_, way), _)| is_first && way.is_some() == by_way);
        sites.for_each(|((site, way), earlier)| *earlier = open_releases(site, way.as_ref()));
    };
    // If a site can be reached only with root's rights, so can the releases beside it.
    open_earlier(&mut earlier, true);
    rights.assume().map_err(|trouble| trouble.to_string())?;
    open_earlier(&mut earlier, false);
    let known = sites.iter().zip(ways).zip(earlier);
    let known = known.map(|((site, way), earlier)| Known::new(site, way, earlier, rights, is_first));
    let sites = known.collect::<Result<Vec<Known>, UserError>>().map_err(|trouble| trouble.to_string())?;
    let opened: Vec<OwnedFd> = sites.iter().flat_map(Known::readable).collect();
    let opened: Vec<BorrowedFd<'_>> = opened.iter().map(OwnedFd::as_fd).collect();
    let confined = sandbox::confine_builder(rights, &opened).map_err(|error| {
        format!("cannot confine the builder process: {error}; --no-sandbox turns the sandbox off")
    })?;
    Ok(Confined { sites, in_files: confined.has_landlock, names })
}

/// Goes the way to each site with the rights this process has. `None`: another user may decide what lies on the way, or changes of the
/// names on it cannot be watched.
fn find_ways(sites: &[SiteConfig], trusted: &[u32]) -> (Vec<Option<TrustedPath>>, Option<NameWatch>) {
    let Ok(mut names) = NameWatch::new() else { return (sites.iter().map(|_| None).collect(), None) };
    let ways = sites.iter().enumerate().map(|(number, site)| {
        let path = path::absolute(&site.source.path).ok()?;
        let mut is_watched = true;
        let way = TrustedPath::find(&path, Some(trusted), |dir, name| {
            is_watched &= names.add(dir, name, number).is_ok();
        });
        if way.end.as_ref().is_ok_and(SiteRoot::is_file) {
            is_watched &= names.add_content(number).is_ok();
        }
        let is_usable = is_watched && matches!(way.end, Ok(_) | Err(PathBarrier::Missing(_)));
        is_usable.then_some(way)
    });
    (ways.collect(), Some(names))
}

/// Opens the archives of releases before the current one that are to be kept, to name them.
fn open_releases(site: &SiteConfig, way: Option<&TrustedPath>) -> Vec<(PathBuf, OwnedFd)> {
    let path = &site.source.path;
    let archives = match way {
        Some(TrustedPath { last_dir: Some(dir), .. }) => Releases::earlier_archives_in(path, &fd_path(dir)),
        _ => Releases::earlier_archives(path),
    };
    let opened = archives.into_iter().filter_map(|archive| {
        let named = path.with_file_name(archive.file_name()?);
        Some((named, open_path(&archive).ok()?))
    });
    opened.take(site.keep_releases).collect()
}

impl Known {
    /// Asked once this process has the rights of its user.
    fn new(
        site: &SiteConfig,
        way: Option<TrustedPath>,
        earlier: Vec<(PathBuf, OwnedFd)>,
        rights: &Privileges,
        is_first: bool,
    ) -> Result<Known, UserError> {
        let path = &site.source.path;
        let root = match way {
            Some(way) => Some(way.end.map(Arc::new).map_err(|stop| rights.trouble(path, &stop))),
            None => None,
        };
        if is_first {
            check(path, root.as_ref(), rights)?;
        }
        // Each keeper asks anew.
        let source = SiteSource { users: site.users.directories()?, ..site.source.clone() };
        let config = SiteConfig { source, ..site.clone() };
        let earlier = earlier.into_iter().filter_map(|(path, file)| Some((path, reopen(&file).ok()?)));
        Ok(Known { config, root, earlier: earlier.collect(), user: rights.user_name() })
    }

    /// What is to be read: a directory of a user only where it is in its home.
    fn readable(&self) -> Vec<OwnedFd> {
        let SiteSource { path, users, .. } = &self.config.source;
        let root = match &self.root {
            Some(Ok(root)) => root.descriptor().try_clone_to_owned().ok(),
            Some(Err(_)) => None,
            None => open_path(path).ok(),
        };
        root.into_iter().chain(users.directories.iter().filter_map(UserDirectory::open)).collect()
    }
}

/// Checks whether permissions allow this process to reach a site and to read its root.
fn check(
    path: &Path,
    root: Option<&Result<Arc<SiteRoot>, UserError>>,
    rights: &Privileges,
) -> Result<(), UserError> {
    let root = match root {
        Some(Ok(root)) => Arc::clone(root),
        // The build of the site reports any other fault.
        Some(Err(_)) => return Ok(()),
        None => {
            let Ok(absolute) = path::absolute(path) else { return Ok(()) };
            let way = TrustedPath::find(&absolute, None, |_, _| ());
            Arc::new(way.end.map_err(|stop| rights.trouble(path, &stop))?)
        }
    };
    root.barrier().map_or(Ok(()), |barrier| Err(rights.barred(path, &barrier)))
}

/// Watches a site. If none was served yet, builds it, and sends it after earlier releases, of which the latest comes first here.
/// Returns `None` if there is no site now, and has then reported it.
fn watch(
    number: usize,
    known: Known,
    of: Option<&Path>,
    start: Start,
    in_files: bool,
    post: &Post,
) -> Result<Option<SiteWatcher>, String> {
    let Known { config: SiteConfig { source, .. }, root, earlier, user } = known;
    let is_first = matches!(start, Start::First);
    let root = match root.transpose() {
        Ok(root) => root,
        Err(trouble) if is_first => return Err(trouble.to_string()),
        Err(trouble) => {
            (post.tell)(Notice::SiteReloadFailed(&trouble));
            return Ok(None);
        }
    };
    // If this process may read only what lies there now, another process has to read a replacement. If the site has directories of
    // users, another process has to look the users up.
    let needs_another = in_files || source.users.user_database.is_some();
    let watched = SiteWatcher::prepare(source, root).map_err(|trouble| trouble.to_string())?;
    let mut watched = watched.with_user(user);
    if needs_another {
        watched = watched.until_replaced();
    }
    if is_first {
        let built = watched.build().map_err(|trouble| trouble.to_string())?;
        (post.tell)(Notice::SiteLoaded(of, &built));
        for (path, file) in earlier.into_iter().rev() {
            let source = SiteSource { path, ..SiteSource::default() };
            let archive = Archive::from_file(file, &source.path, source.max_unpacked_len, false);
            match archive.and_then(|archive| from_archive(archive, &source)) {
                Ok(site) => post.send_site(number, site, true),
                Err(trouble) => (post.tell)(Notice::ReleaseNotKept(&trouble)),
            }
        }
        post.send_site(number, built, false);
    }
    Ok(Some(watched))
}

/// Sends a site whenever it changes.
fn follow(
    number: usize,
    watched: SiteWatcher,
    of: Option<PathBuf>,
    start: Start,
    post: &Arc<Post>,
) -> Result<WatchHandle, String> {
    let post = Arc::clone(post);
    // It need not have changed since another keeper has built it.
    let mut is_same = matches!(start, Start::Again);
    let told = move |change| match change {
        SiteChange::Site(built) => {
            let of = of.as_deref();
            let told =
                if is_same { Notice::SiteLoaded(of, &built) } else { Notice::SiteReloaded(of, &built) };
            is_same = false;
            (post.tell)(told);
            post.send_site(number, *built, false);
        }
        SiteChange::Failed(trouble) => (post.tell)(Notice::SiteReloadFailed(&trouble)),
        SiteChange::Polling(reason) => (post.tell)(Notice::PollingForChanges(of.as_deref(), &reason)),
        SiteChange::Replaced => post.replaced(),
    };
    watched.follow(told).map_err(|error| error.to_string())
}

/// What the threads that watch send by.
struct Post {
    sender: Mutex<Sender>,
    tell: fn(Notice<'_>),
}

impl Post {
    /// Another process has to read what lies there now.
    fn replaced(&self) -> ! {
        self.send(&FromBuilder::RootReplaced, Vec::new());
        exit_now(0);
    }

    fn send_site(&self, site: usize, built: Site, is_earlier: bool) {
        let (record, descriptors) = built.into_transfer();
        self.send(&FromBuilder::Site { site, transfer: record, is_earlier }, descriptors);
    }

    fn send(&self, message: &FromBuilder, descriptors: Vec<OwnedFd>) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.send_with(message, &descriptors.into());
        if sent.is_err() {
            // Nobody hears it: the supervisor has ended.
            exit_now(1);
        }
    }
}
