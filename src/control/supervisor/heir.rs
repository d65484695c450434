//! The program as its file is now, started by the one that runs to take its place.
//!
//! ```text
//! this program                                      its heir
//!   start ── the listening sockets, earlier sites ─▶ reads the configuration, binds what is new, starts its processes
//!         ◀──────────────────────────────── Taken ──
//!         ◀────────────────────────────── Serving ── both accept
//!         ── Yours, and who waits for the answer ──▶ the names of the sockets are its own; it tells who it is
//!   drains, ends
//! ```
//!
//! It is a child like the others until then: whatever goes wrong before, it is ended, and nothing has changed.

use super::{child::Child, former, lineup::Legacy};
use crate::{
    base::engine::Engine,
    control::{
        process::{
            channel::Channel,
            message::{FromSuccessor, InheritedSocket, ToSuccessor},
        },
        systemd,
    },
};
use rustix::{
    event::PollFd,
    io::{FdFlags, fcntl_setfd},
    process::Pid,
};
use std::{
    env, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// A program that is to take the place of this one.
pub(super) struct Heir {
    child: Child,
    pub(super) id: u32,
    /// When it has to have said more.
    by: Instant,
    /// Why it will not, in its own words.
    why: Option<String>,
}

/// What has become of it.
pub(super) enum Course {
    /// It is at it.
    Beginning,
    /// It serves, beside this program.
    Serving,
    /// It will not, for this reason.
    Failed(String),
}

/// The first word of a program that knows what it is to do. It has read its configuration then.
const FIRST_WORD_TIME_MAX: Duration = Duration::from_secs(5);
/// For a start, of which most is reading sites: longer than that of the largest from the slowest disk.
const START_TIME_MAX: Duration = Duration::from_secs(900);

impl Heir {
    /// Starts the program with the words that this one was started with.
    pub(super) fn start(
        program: &Path,
        engine: Engine,
        listeners: Vec<InheritedSocket>,
        sockets: &Arc<[OwnedFd]>,
        legacy: Legacy,
    ) -> io::Result<Heir> {
        let (channel, theirs) = Channel::pair()?;
        // No other program is started before it is closed here.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let mut arguments = env::args_os();
        let mut command = Command::new(program);
        command.arg0(arguments.next().unwrap_or_else(|| program.into())).args(arguments);
        for variable in systemd::LISTEN_VARIABLES {
            command.env_remove(variable);
        }
        command.env(former::VARIABLE, theirs.as_fd().as_raw_fd().to_string());
        // No signal stays blocked: the library sees to it.
        let spawned = command.spawn()?;
        let mut child = Child::adopt(Pid::from_child(&spawned), channel)?;
        child.send(
            &ToSuccessor::Sockets { engine, listeners, site_count: legacy.len(), start_unix_s: 0 },
            sockets,
        );
        for (kept, descriptors) in legacy {
            child.send(&ToSuccessor::Site(kept), &descriptors);
        }
        Ok(Heir { child, id: spawned.id(), by: Instant::now() + FIRST_WORD_TIME_MAX, why: None })
    }

    /// What to wait for.
    pub(super) fn polled(&self) -> Vec<PollFd<'_>> {
        self.child.polled()
    }

    pub(super) fn due(&self) -> Instant {
        self.by
    }

    /// Hears what it says.
    pub(super) fn mind(&mut self) -> io::Result<Course> {
        loop {
            match self.child.hear() {
                Ok(Some((FromSuccessor::ConfigRead, _))) => self.by = Instant::now() + START_TIME_MAX,
                Ok(Some((FromSuccessor::Serving, _))) => return Ok(Course::Serving),
                Ok(Some((FromSuccessor::StartFailed { why }, _))) => self.why = Some(why),
                Ok(None) => break,
                Err(error) => {
                    return Ok(Course::Failed(format!("the new program does not understand: {error}")));
                }
            }
        }
        Ok(match (self.child.ended()?, self.why.take()) {
            (Some(_), Some(why)) => Course::Failed(why),
            (Some(end), None) => Course::Failed(format!("the new program {end}")),
            (None, _) if self.by <= Instant::now() => {
                Course::Failed("the new program did not serve in time, and was killed".to_owned())
            }
            (None, why) => {
                self.why = why;
                Course::Beginning
            }
        })
    }

    /// It goes on alone, and answers who waits for that.
    pub(super) fn release(mut self, callers: Arc<[OwnedFd]>) {
        self.child.send(&ToSuccessor::Commit, &callers);
        self.child.release();
    }
}
