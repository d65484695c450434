//! The access logs, as far as the supervisor is concerned: it opens what the server then writes to.
//!
//! Of several that go to the same place there is one journal: its file takes turns once for all of them.
//!
//! Files take turns, and are opened anew, by the supervisor alone: the server can open nothing. Until it is handed the next
//! file it goes on writing to the one it has, whatever that is called by then, so no line is lost.

use crate::{
    base::{
        error::{UserError, reason},
        log_config::{LogConfig, LogOwner, LogTarget, Rotation},
        site_config::SiteConfig,
    },
    control::access_log::{LogSink, rotate_files},
};
use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tarpon_site::Printable;

/// A log that is open.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Whose lines go there.
    pub(crate) owners: Vec<LogOwner>,
    target: LogTarget,
    rotation: Rotation,
    descriptor: Arc<[OwnedFd]>,
    made: SystemTime,
    /// When to look whether the file has had its time.
    look: Option<Instant>,
}

/// How often it is looked whether a file has had its time. A core writes some 20 MB in so long, at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Journal {
    /// Opens all logs that are to be.
    pub(crate) fn open_all(config: &LogConfig, sites: &[SiteConfig]) -> Result<Vec<Journal>, UserError> {
        let of_sites = sites.iter().enumerate();
        let of_sites = of_sites
            .filter_map(|(number, site)| Some((LogOwner::Site(number), site.log.access.as_ref()?.as_ref()?)));
        let mut journals: Vec<Journal> = Vec::new();
        for (owner, target) in config.access.iter().map(|target| (LogOwner::Server, target)).chain(of_sites) {
            match journals.iter_mut().find(|journal| journal.target == *target) {
                Some(journal) => journal.owners.push(owner),
                None => journals.push(Journal::new(owner, target, config.rotation)?),
            }
        }
        Ok(journals)
    }

    fn new(owner: LogOwner, target: &LogTarget, rotation: Rotation) -> Result<Journal, UserError> {
        let look = (target.rotates() && rotation.is_enabled()).then(Instant::now);
        let (descriptor, made) = open(target)?;
        Ok(Journal { owners: vec![owner], target: target.clone(), rotation, descriptor, made, look })
    }

    /// Opens it anew: somebody has renamed the file, or another listens on the socket.
    pub(crate) fn reopen(&mut self) -> Result<(), UserError> {
        (self.descriptor, self.made) = open(&self.target)?;
        Ok(())
    }

    /// What a server is handed.
    pub(crate) fn descriptor(&self) -> &Arc<[OwnedFd]> {
        &self.descriptor
    }

    /// When it wants to be minded.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.look
    }

    /// Begins the next file, if this one has had its time. Returns whether it did.
    pub(crate) fn mind(&mut self, now: Instant) -> Result<bool, UserError> {
        let LogTarget::File(path) = &self.target else { return Ok(false) };
        if self.look.is_none_or(|look| look > now) {
            return Ok(false);
        }
        self.look = Some(now + LOOK_INTERVAL);
        let meta = rustix::fs::fstat(&self.descriptor[0]).map_err(|error| self.stuck(path, &error.into()))?;
        if !self.rotation.is_due(meta.st_size.max(0) as u64, self.made) {
            return Ok(false);
        }
        rotate_files(path, self.rotation.keep).map_err(|error| self.stuck(path, &error))?;
        self.reopen()?;
        Ok(true)
    }

    fn stuck(&self, path: &Path, error: &io::Error) -> UserError {
        let what = format_args!("cannot rotate {}", path.printable());
        UserError::new(
            what,
            reason(error),
            "let the supervisor write to its directory; until then the file grows",
        )
    }
}

fn open(target: &LogTarget) -> Result<(Arc<[OwnedFd]>, SystemTime), UserError> {
    let descriptor = target.open()?.into_descriptor();
    let file = File::from(descriptor);
    // Not every file system knows when a file was made, and what is no file was made by nobody.
    let made = file.metadata().and_then(|meta| meta.created()).unwrap_or_else(|_| SystemTime::now());
    Ok((Arc::new([file.into()]), made))
}

/// What a server does with a descriptor that it was handed for its log.
pub(crate) fn sink(descriptors: Vec<OwnedFd>, broken: impl FnMut() + Send + 'static) -> Option<LogSink> {
    let descriptor = descriptors.into_iter().next()?;
    Some(LogSink::from(descriptor).on_disconnect(broken))
}
