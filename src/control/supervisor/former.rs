//! The program that this one takes over from: the other side of `heir`.

use super::{caller::Caller, lineup::Legacy, listeners::Listeners};
use crate::{
    base::engine::Engine,
    control::process::{
        channel::Channel,
        message::{FromSuccessor, ToSuccessor},
    },
    sys::inherited,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};
use std::{env, error::Error, io};

/// The program that runs, until it has left its place.
#[derive(Debug)]
pub(super) struct Former {
    channel: Channel,
}

/// The number of the descriptor by which it speaks to this program.
pub(super) const VARIABLE: &str = "TARPON_HANDOVER";

impl Former {
    /// There is one, if it has started this program. To be asked once, before anything is opened.
    pub(super) fn find() -> Result<Option<Former>, Box<dyn Error>> {
        let Ok(number) = env::var(VARIABLE) else { return Ok(None) };
        let socket = number.parse().map_err(io::Error::other).and_then(inherited::take);
        let socket = socket.map_err(|error| format!("{VARIABLE} is for tarpon itself: {error}; unset it"))?;
        Ok(Some(Former { channel: Channel::new(socket) }))
    }

    /// Its engine, its listening sockets, and what it has kept of sites.
    pub(super) fn legacy(&mut self) -> io::Result<(Engine, Listeners, Legacy)> {
        let Some((ToSuccessor::Sockets { engine, listeners, site_count: kept_count, .. }, sockets)) =
            self.channel.receiver.receive()?
        else {
            return Err(gone());
        };
        let listeners = Listeners::inherit(listeners, sockets.map_err(io::Error::other)?)?;
        let mut legacy = Legacy::new();
        while legacy.len() < kept_count {
            let Some((ToSuccessor::Site(kept), descriptors)) = self.channel.receiver.receive()? else {
                return Err(gone());
            };
            legacy.push((kept, descriptors.map_err(io::Error::other)?.into()));
        }
        Ok((engine, listeners, legacy))
    }

    /// This program has all it needs to begin.
    pub(super) fn has_taken(&mut self) -> io::Result<()> {
        self.channel.sender.send(&FromSuccessor::ConfigRead)
    }

    /// What to wait for, as long as it has nothing to say: its end.
    pub(super) fn polled(&self) -> PollFd<'_> {
        PollFd::new(&self.channel, PollFlags::IN)
    }

    /// Whether it has ended. Then this program is to end too.
    pub(super) fn mind(&self) -> io::Result<()> {
        match poll(&mut [self.polled()], Some(&Timespec::default())) {
            Ok(1..) => Err(gone()),
            _ => Ok(()),
        }
    }

    /// This program serves. Returns when it is the only one that accepts, with those to be told so.
    pub(super) fn succeed(mut self) -> io::Result<Vec<Caller>> {
        self.channel.sender.send(&FromSuccessor::Serving)?;
        match self.channel.receiver.receive()? {
            Some((ToSuccessor::Commit, callers)) => {
                Ok(callers.unwrap_or_default().into_iter().map(Caller).collect())
            }
            Some((ToSuccessor::Sockets { .. } | ToSuccessor::Site(_), _)) | None => Err(gone()),
        }
    }

    /// This program cannot begin: the one that goes on tells why. Returns what is left to say here.
    pub(super) fn refuse(mut self, why: &dyn Error) -> Box<dyn Error> {
        match self.channel.sender.send(&FromSuccessor::StartFailed { why: why.to_string() }) {
            Ok(()) => "the new program cannot take over, and exits".into(),
            Err(_) => why.to_string().into(),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the predecessor has exited")
}
