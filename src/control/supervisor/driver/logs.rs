//! The descriptors of the logs of a generation. Owners that log to the same place share one, so that its file is rotated once.

use super::super::log_files::LogFilePlan;
use crate::{
    base::{
        error::{UserError, reason},
        log_config::{LogConfig, LogOwner, LogTarget, Rotation},
        site_config::SiteConfig,
    },
    control::{access_log::rotate_files, process::channel::SentDescriptors},
};
use std::{fs::File, io, path::Path, sync::Arc, time::SystemTime};
use tarpon_site::Printable;

/// A log that is open.
#[derive(Debug)]
pub(super) struct OpenLog {
    owners: Vec<LogOwner>,
    target: LogTarget,
    rotation: Rotation,
    descriptor: SentDescriptors,
    created: SystemTime,
}

/// Returns the logs of a configuration.
pub(crate) fn log_targets<'a>(
    config: &'a LogConfig,
    sites: &'a [SiteConfig],
) -> impl Iterator<Item = (LogOwner, &'a LogTarget)> {
    let of_sites = sites.iter().enumerate();
    let of_sites = of_sites
        .filter_map(|(number, site)| Some((LogOwner::Site(number), site.log.access.as_ref()?.as_ref()?)));
    config.access.iter().map(|target| (LogOwner::Server, target)).chain(of_sites)
}

impl OpenLog {
    /// Opens all logs of a configuration.
    ///
    /// # Errors
    /// A log cannot be opened.
    pub(super) fn open_all(config: &LogConfig, sites: &[SiteConfig]) -> Result<Vec<OpenLog>, UserError> {
        let mut logs: Vec<OpenLog> = Vec::new();
        for (owner, target) in log_targets(config, sites) {
            match logs.iter_mut().find(|log| log.target == *target) {
                Some(log) => log.owners.push(owner),
                None => {
                    let (descriptor, created) = open(target)?;
                    let (owners, target, rotation) = (vec![owner], target.clone(), config.rotation);
                    logs.push(OpenLog { owners, target, rotation, descriptor, created });
                }
            }
        }
        Ok(logs)
    }

    /// Returns what the supervisor knows of the log.
    pub(super) fn plan(&self) -> LogFilePlan {
        let rotates = self.target.rotates() && self.rotation.is_enabled();
        LogFilePlan { owners: self.owners.clone(), rotates }
    }

    /// Returns the descriptor, which a server gets.
    pub(super) fn descriptor(&self) -> &SentDescriptors {
        &self.descriptor
    }

    /// Opens the log again: an administrator has renamed the file, or another process listens on the socket.
    ///
    /// # Errors
    /// The log cannot be opened, and keeps its descriptor.
    pub(super) fn reopen(&mut self) -> Result<(), UserError> {
        (self.descriptor, self.created) = open(&self.target)?;
        Ok(())
    }

    /// Rotates the file if it is full or old. Returns whether it was.
    ///
    /// # Errors
    /// The file cannot be rotated, and grows.
    pub(super) fn rotate_if_due(&mut self) -> Result<bool, UserError> {
        let LogTarget::File(path) = &self.target else { return Ok(false) };
        let stat =
            rustix::fs::fstat(&self.descriptor[0]).map_err(|error| rotate_error(path, &error.into()))?;
        if !self.rotation.is_due(stat.st_size.max(0) as u64, self.created) {
            return Ok(false);
        }
        rotate_files(path, self.rotation.keep).map_err(|error| rotate_error(path, &error))?;
        self.reopen()?;
        Ok(true)
    }
}

fn rotate_error(path: &Path, error: &io::Error) -> UserError {
    UserError::new(
        format_args!("cannot rotate {}", path.printable()),
        reason(error),
        "let the supervisor write to its directory; until then the file grows",
    )
}

fn open(target: &LogTarget) -> Result<(SentDescriptors, SystemTime), UserError> {
    let file = File::from(target.open()?.into_descriptor());
    // Some file systems do not record when a file was created, and a socket has no such time.
    let created = file.metadata().and_then(|meta| meta.created()).unwrap_or_else(|_| SystemTime::now());
    Ok((Arc::new([Arc::new(file)]), created))
}
