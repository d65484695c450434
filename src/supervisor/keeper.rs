//! The keeper: watches what the sites are made of, builds them, and sends what it has built. Serves nobody.

use super::{
    channel::{Channel, Sender},
    message::FromKeeper,
    told::Told,
};
use crate::{
    config::SiteConfig,
    release::Releases,
    sandbox::{self, Rights},
    site::{Site, Source},
    watch::{Change, Following, Watched},
};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::exit,
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
    rights: &Rights,
    start: Start,
    channel: Channel,
    tell: fn(Told<'_>),
) -> i32 {
    let Channel { sender, mut receiver } = channel;
    let post = Arc::new(Post { sender: Mutex::new(sender), tell });
    let is_first = matches!(start, Start::First);
    let confined = match confine(sites, rights, is_first) {
        Ok(confined) => confined,
        Err(why) => {
            post.send(&FromKeeper::Refused { why }, Vec::new());
            return 1;
        }
    };
    let kept = confined.sites.iter().enumerate().map(|(number, Known { site, earlier })| {
        // Of one site alone it need not be said which.
        let of = (sites.len() > 1).then(|| site.source.path.clone());
        let watched = match is_first {
            true => build(number, site, earlier, of.as_deref(), &post)?,
            false => Watched::unbuilt(site.source.clone()).map_err(|trouble| trouble.to_string())?,
        };
        // Where it is confined to what lies there now, another process has to read what takes its place; and where there are
        // directories of users, to ask who they are.
        let needs_another = confined.in_files || site.source.users.listed_in.is_some();
        let watched = if needs_another { watched.until_replaced() } else { watched };
        follow(number, watched, of, start, &post)
    });
    match kept.collect::<Result<Vec<Following>, String>>() {
        Ok(_following) => {
            // Nothing is ever said to it; but this is how it learns that nobody is there any more.
            while let Ok(Some(((), _))) = receiver.receive() {}
            0
        }
        Err(why) => {
            post.send(&FromKeeper::Refused { why }, Vec::new());
            1
        }
    }
}

/// What a keeper knows when it is confined.
struct Confined {
    sites: Vec<Known>,
    /// What takes the place of a site cannot be read.
    in_files: bool,
}

/// What it has to know of a site.
struct Known {
    /// With the directories of users.
    site: SiteConfig,
    /// The archives of releases before the current one that are to be kept.
    earlier: Vec<PathBuf>,
}

/// Takes from this process all but what it needs to read the sites.
fn confine(sites: &[SiteConfig], rights: &Rights, is_first: bool) -> Result<Confined, String> {
    rights.assume().map_err(|trouble| trouble.to_string())?;
    let known = |site: &SiteConfig| {
        if is_first {
            rights.check_way(&site.source.path).map_err(|trouble| trouble.to_string())?
        }
        let before = if is_first { Releases::before(&site.source.path) } else { Vec::new() };
        let earlier = before.into_iter().take(site.keep_releases).collect();
        // Each keeper asks anew.
        let users = site.users.directories().map_err(|trouble| trouble.to_string())?;
        let source = Source { users, ..site.source.clone() };
        Ok(Known { site: SiteConfig { source, ..site.clone() }, earlier })
    };
    let sites = sites.iter().map(known).collect::<Result<Vec<Known>, String>>()?;
    let paths: Vec<_> = sites.iter().flat_map(Known::paths).collect();
    let confined = sandbox::confine_keeper(rights, &paths)
        .map_err(|error| format!("cannot confine the keeper process: {error}; --no-sandbox does without"))?;
    Ok(Confined { sites, in_files: confined.in_files })
}

impl Known {
    /// What is to be read: a directory of a user only where it is in its home.
    fn paths(&self) -> Vec<PathBuf> {
        let Known { site: SiteConfig { source, .. }, earlier } = self;
        let users = source.users.directories.iter().filter_map(UserDirectory::real);
        earlier.iter().cloned().chain([source.path.clone()]).chain(users).collect()
    }
}

/// Builds a site for the first time, and sends it, behind earlier releases, of which the latest comes first here.
fn build(
    number: usize,
    site: &SiteConfig,
    earlier: &[PathBuf],
    of: Option<&Path>,
    post: &Post,
) -> Result<Watched, String> {
    let (watched, built) = Watched::new(site.source.clone()).map_err(|trouble| trouble.to_string())?;
    (post.tell)(Told::Read(of, &built));
    for archive in earlier.iter().rev() {
        match Site::from_archive(archive, "") {
            Ok(site) => post.send_site(number, site, true),
            Err(trouble) => (post.tell)(Told::NotKept(&trouble)),
        }
    }
    post.send_site(number, built, false);
    Ok(watched)
}

/// Sends a site whenever it changes.
fn follow(
    number: usize,
    watched: Watched,
    of: Option<PathBuf>,
    start: Start,
    post: &Arc<Post>,
) -> Result<Following, String> {
    let post = Arc::clone(post);
    // It need not have changed since another keeper has built it.
    let mut is_same = matches!(start, Start::Again);
    let told = move |change| match change {
        Change::Site(built) => {
            let of = of.as_deref();
            let told = if is_same { Told::Read(of, &built) } else { Told::Changed(of, &built) };
            is_same = false;
            (post.tell)(told);
            post.send_site(number, *built, false);
        }
        Change::Failed(trouble) => (post.tell)(Told::Unchanged(&trouble)),
        Change::Polling(reason) => (post.tell)(Told::Polling(of.as_deref(), &reason)),
        Change::Replaced => {
            post.send(&FromKeeper::Moved, Vec::new());
            exit(0);
        }
    };
    watched.follow(told).map_err(|error| error.to_string())
}

/// What the threads that watch send by.
struct Post {
    sender: Mutex<Sender>,
    tell: fn(Told<'_>),
}

impl Post {
    fn send_site(&self, site: usize, built: Site, is_earlier: bool) {
        let (record, descriptors) = built.into_parcel();
        self.send(&FromKeeper::Site { site, record, is_earlier }, descriptors);
    }

    fn send(&self, message: &FromKeeper, descriptors: Vec<OwnedFd>) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.send(message, &descriptors.into());
        if sent.is_err() {
            // Nobody hears it: the supervisor has ended.
            exit(1);
        }
    }
}
