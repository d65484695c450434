//! A place for a process: who is there, and when another takes its place.

use super::{
    Notice, Role,
    child::{Child, End},
};
use crate::control::process::{
    channel::{Channel, Descriptors},
    restart::RestartPolicy,
};
use serde::de::DeserializeOwned;
use std::{io, os::fd::RawFd, time::Instant};

/// A place for a process.
pub(super) struct Post {
    role: Role,
    pub(super) child: Option<Child>,
    /// How it has ended, as far as that was noticed before it was heard for the last time.
    end: Option<End>,
    backoff: RestartPolicy,
    /// When there is to be a process again.
    pub(super) due: Option<Instant>,
    /// Why the process cannot go on, in its own words.
    pub(super) why: Option<String>,
    /// For a server: that it has been sent the sites.
    pub(super) is_supplied: bool,
    /// For a keeper: that it asks to be started anew, as it may not read where a site lies now.
    pub(super) has_moved: bool,
}

impl Post {
    pub(super) fn new(role: Role) -> Post {
        Post {
            role,
            child: None,
            end: None,
            backoff: RestartPolicy::default(),
            due: None,
            why: None,
            is_supplied: false,
            has_moved: false,
        }
    }

    pub(super) fn start(&mut self, keep: &[RawFd], main: impl FnOnce(Channel) -> i32) -> io::Result<()> {
        (self.due, self.why) = (None, None);
        (self.end, self.child) = (None, Some(Child::start(self.role, keep, main)?));
        Ok(())
    }

    /// Ends it, and waits for that.
    pub(super) fn end(&mut self) {
        (self.due, self.end, self.child) = (None, None, None);
    }

    /// What it says, with descriptors.
    pub(super) fn hear<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Descriptors)>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        // In this order: of one that has ended nothing more can come than what is heard now.
        if self.end.is_none() {
            self.end = child.ended()?;
        }
        match child.hear() {
            Ok(heard) => Ok(heard),
            Err(error) => {
                // No process of ours says such things: it is not believed any more.
                self.why = Some(format!("it sent a malformed message: {error}"));
                child.kill();
                Ok(None)
            }
        }
    }

    /// How it ended, if it has; all that it has said was heard.
    pub(super) fn ended(&mut self) -> Option<End> {
        let end = self.end.take()?;
        self.child = None;
        Some(end)
    }

    /// Why it has ended: in its own words, or how.
    pub(super) fn reason(&mut self, end: &End) -> String {
        self.why.take().unwrap_or_else(|| format!("the {} process {end}", self.role))
    }

    /// It has ended, and another will take its place.
    pub(super) fn again(&mut self, end: &End, tell: fn(Notice<'_>)) {
        let after = self.backoff.after_exit(end.lived);
        let how = match self.why.take() {
            Some(why) => format!("{end}: {why}"),
            None => end.to_string(),
        };
        tell(Notice::ProcessEnded { role: self.role, how: &how, restart_delay: after });
        self.due = Some(Instant::now() + after);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}
