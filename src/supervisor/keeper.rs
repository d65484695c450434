//! The keeper: watches what the sites are made of, builds them, and sends what it has built. Serves nobody.

use super::{
    channel::{Channel, Sender},
    message::FromKeeper,
    told::Told,
};
use crate::{
    config::SiteConfig,
    release::Releases,
    site::Site,
    watch::{Change, Following, Watched},
};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::exit,
    sync::{Arc, Mutex, PoisonError},
};

/// What it begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// Nothing is served yet: a site that cannot be built is refused. Releases before the current one are sent too.
    First,
    /// Another keeper has ended.
    Again,
}

/// Runs until the supervisor ends it. Returns an exit status.
pub(super) fn run(sites: &[SiteConfig], start: Start, channel: Channel, tell: fn(Told<'_>)) -> i32 {
    let Channel { sender, mut receiver } = channel;
    let post = Arc::new(Post { sender: Mutex::new(sender), tell });
    let is_alone = sites.len() == 1;
    let kept = sites.iter().enumerate().map(|(number, site)| keep(number, site, is_alone, start, &post));
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

/// Builds a site, sends it, and follows its changes.
fn keep(
    number: usize,
    site: &SiteConfig,
    is_alone: bool,
    start: Start,
    post: &Arc<Post>,
) -> Result<Following, String> {
    let SiteConfig { source, keep_releases, .. } = site;
    let of = (!is_alone).then(|| source.path.clone());
    let watched = match start {
        Start::First => {
            let (watched, built) = Watched::new(source.clone()).map_err(|trouble| trouble.to_string())?;
            (post.tell)(Told::Read(of.as_deref(), &built));
            for earlier in earlier(&source.path, *keep_releases, post.tell).into_iter().rev() {
                post.send_site(number, earlier, true);
            }
            post.send_site(number, built, false);
            watched
        }
        Start::Again => Watched::unbuilt(source.clone()).map_err(|trouble| trouble.to_string())?,
    };
    let post = Arc::clone(post);
    let mut is_first = matches!(start, Start::Again);
    let told = move |change| match change {
        Change::Site(built) => {
            // It need not have changed since the other keeper has built it.
            let of = of.as_deref();
            let told = if is_first { Told::Read(of, &built) } else { Told::Changed(of, &built) };
            is_first = false;
            (post.tell)(told);
            post.send_site(number, *built, false);
        }
        Change::Failed(trouble) => (post.tell)(Told::Unchanged(&trouble)),
        Change::Polling(reason) => (post.tell)(Told::Polling(of.as_deref(), &reason)),
    };
    watched.follow(told).map_err(|error| error.to_string())
}

/// So many releases that were current before what a path leads to, the latest first.
fn earlier(path: &Path, count: usize, tell: fn(Told<'_>)) -> Vec<Site> {
    let archives = Releases::before(path);
    let open = |archive: &PathBuf| match Site::from_archive(archive, "") {
        Ok(site) => Some(site),
        Err(trouble) => {
            tell(Told::NotKept(&trouble));
            None
        }
    };
    archives.iter().take(count).filter_map(open).collect()
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
