//! Makes another release the current one, after a check: the next one, or the previous one again.

use super::{CURRENT, NEXT_LINK, Releases, check_name, now_s, open, remove_if_there};
use crate::{
    base::{error::UserError, site_config::MAX_UNPACKED_LEN},
    site::verify::verify,
};
use std::{fs, os::unix::fs::symlink};
use tarpon_pack::Progress;
use tarpon_site::Printable;

/// The result of an activation or a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The release that is current now.
    pub to: String,
    /// The release that was current before. `None`: no release was. Equal to `to`: nothing has changed.
    pub from: Option<String>,
}

impl Releases {
    /// Makes a release the current one: checks that it can be served, verifies all of it if `verification` has its progress, and replaces
    /// the link. While another process holds the lock of the directory, calls `held_by` with its PID, if known, and waits.
    ///
    /// # Errors
    /// The release does not exist, is not a packed site or is damaged, or the link cannot be replaced. An error leaves the link unchanged.
    pub fn activate(
        &self,
        name: &str,
        verification: Option<&Progress>,
        held_by: impl FnOnce(Option<u32>),
    ) -> Result<Activation, UserError> {
        if let Err(why) = check_name(name) {
            let what = format_args!("cannot activate {}", name.printable());
            return Err(UserError::new(what, why, self.hint()));
        }
        let _lock = self.lock(held_by)?;
        let mut history = self.history()?;
        self.check(name, verification)?;
        let from = self.current()?;
        if from.as_deref() != Some(name) {
            self.replace_link(name)?;
            history.activated(name, now_s());
            self.write_history(&history)?;
        }
        Ok(Activation { to: name.to_owned(), from })
    }

    /// Makes the previous release the current one again, like [`activate`](Releases::activate).
    ///
    /// # Errors
    /// Those of [`activate`](Releases::activate), or there is no previous release.
    pub fn rollback(&self, held_by: impl FnOnce(Option<u32>)) -> Result<Activation, UserError> {
        let _lock = self.lock(held_by)?;
        let mut history = self.history()?;
        let from = self.current()?;
        let what = format_args!("cannot roll back in {}", self.dir.printable());
        self.require_active(&what)?;
        let Some(to) = history.rolled_back(now_s()) else {
            return Err(UserError::new(what, "no release was active before", self.hint()));
        };
        self.check(&to, None)?;
        self.replace_link(&to)?;
        self.write_history(&history)?;
        Ok(Activation { to, from })
    }

    /// Checks that a release can be served; verifies all of it if `verification` has its progress.
    fn check(&self, name: &str, verification: Option<&Progress>) -> Result<(), UserError> {
        let path = self.at(name);
        if !path.is_file() {
            let what = format_args!("cannot activate {}", name.printable());
            let why = format_args!("there is no such file in {}", self.dir.printable());
            return Err(UserError::new(what, why, self.hint()));
        }
        open(&path)?;
        if let Some(progress) = verification
            && let [first, others @ ..] = &*verify(&path, &[], MAX_UNPACKED_LEN, progress)?.defects
        {
            let more = match others.len() {
                0 => String::new(),
                count => format!(", and {count} more"),
            };
            let what = format_args!("cannot activate {}", name.printable());
            let why = format_args!("{first}{more}");
            return Err(UserError::new(
                what,
                why,
                "download it again, or pack the site again; see tarpon verify",
            ));
        }
        Ok(())
    }

    /// Replaces the link by one to this release.
    fn replace_link(&self, name: &str) -> Result<(), UserError> {
        let (next, link) = (self.at(NEXT_LINK), self.at(CURRENT));
        let replace = || {
            remove_if_there(&next)?;
            symlink(name, &next)?;
            fs::rename(&next, &link)?;
            self.sync()
        };
        replace().map_err(|error| self.unwritable(&link, &error))
    }
}
