//! The predecessor: the supervisor that has started this program to take its place.

use super::VARIABLE;
use crate::{
    base::engine::Engine,
    control::{
        counters::CounterHandover,
        process::{
            channel::{Channel, owned},
            message::{FromSuccessor, InheritedSite, InheritedSocket, ToSuccessor},
            shared_files::SharedFiles,
        },
        tls::tickets::TicketSecret,
    },
    sys::{inherited, poll::PollEntry},
};
use libc::{POLLIN, POLLOUT};
use std::{
    env,
    error::Error,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

/// The channel to the predecessor, until it has exited.
#[derive(Debug)]
pub(in crate::control) struct PredecessorChannel {
    pub(in crate::control) channel: Channel,
}

/// What the predecessor hands over.
#[derive(Debug)]
pub(in crate::control) struct Inheritance {
    /// The engine that accepts on the sockets.
    pub(in crate::control) engine: Engine,
    pub(in crate::control) listeners: Vec<InheritedSocket>,
    pub(in crate::control) sockets: Vec<OwnedFd>,
    /// Versions that were served, the oldest first, with their descriptors.
    pub(in crate::control) sites: Vec<(InheritedSite, Vec<Arc<File>>)>,
    /// When the service started, in seconds since 1970.
    pub(in crate::control) start_unix_s: u64,
    pub(in crate::control) counters: CounterHandover,
    /// The files of the tables of the counters.
    pub(in crate::control) counter_files: Vec<OwnedFd>,
    /// The secret of session tickets. `None`: an earlier version had none.
    pub(in crate::control) tickets: Option<TicketSecret>,
}

/// A message of the predecessor.
pub(in crate::control) enum PredecessorEvent {
    /// The predecessor has left. With the connections of the callers that ordered the upgrade.
    Committed(Vec<OwnedFd>),
    /// The predecessor has exited, or violates the protocol.
    Gone,
}

impl PredecessorChannel {
    /// Returns the channel if a predecessor has started this program. Call it once, before the process opens anything.
    ///
    /// # Errors
    /// The environment variable names no descriptor: a user has set it.
    pub(in crate::control) fn find() -> Result<Option<PredecessorChannel>, Box<dyn Error>> {
        let Ok(number) = env::var(VARIABLE) else { return Ok(None) };
        let socket = number.parse().map_err(io::Error::other).and_then(inherited::take);
        let socket = socket.map_err(|error| format!("{VARIABLE} is for tarpon itself: {error}; unset it"))?;
        Ok(Some(PredecessorChannel { channel: Channel::new(socket) }))
    }

    /// Receives what the predecessor hands over. Versions share their `files`.
    ///
    /// # Errors
    /// The predecessor has exited, or this process is out of descriptors.
    pub(in crate::control) fn inherit(&mut self, files: &SharedFiles) -> io::Result<Inheritance> {
        let receiver = &mut self.channel.receiver;
        receiver.share_files(files);
        let Some((
            ToSuccessor::Sockets { engine, listeners, site_count, start_unix_s, counters, tickets },
            sockets,
        )) = receiver.receive()?
        else {
            return Err(gone());
        };
        let sockets = sockets.map_err(io::Error::other)?;
        let mut sockets: Vec<_> = sockets.into_iter().filter_map(owned).collect();
        let socket_count: usize = listeners.iter().map(|listener| listener.socket_count).sum();
        let counter_files = sockets.split_off(socket_count.min(sockets.len()));
        let mut sites = Vec::new();
        for _ in 0..site_count {
            let Some((ToSuccessor::Site(site), descriptors)) = receiver.receive()? else {
                return Err(gone());
            };
            // Without its descriptors, an earlier version is not kept.
            sites.extend(descriptors.ok().map(|descriptors| (site, descriptors)));
        }
        Ok(Inheritance { engine, listeners, sockets, sites, start_unix_s, counters, counter_files, tickets })
    }

    /// Tells the predecessor that this program has all it needs to start. From now on this end does not block.
    ///
    /// # Errors
    /// The predecessor has exited.
    pub(in crate::control) fn config_read(&mut self) -> io::Result<()> {
        self.channel.set_nonblocking();
        self.channel.sender.send(&FromSuccessor::ConfigRead)
    }

    /// Tells the predecessor that this program serves, or queues that. If the predecessor has exited, its channel is at EOF.
    pub(in crate::control) fn serving(&mut self) {
        let _ = self.channel.sender.send(&FromSuccessor::Serving);
    }

    /// Returns what to poll.
    pub(in crate::control) fn polled(&self) -> PollEntry {
        let output = if self.channel.sender.waits_for_room() { POLLOUT } else { 0 };
        PollEntry::new(self.channel.as_fd(), POLLIN | output)
    }

    /// Receives a message. `None`: there is none.
    pub(in crate::control) fn receive(&mut self) -> Option<PredecessorEvent> {
        match self.channel.receiver.receive() {
            Ok(Some((ToSuccessor::Commit, callers))) => {
                let callers = callers.unwrap_or_default().into_iter().filter_map(owned);
                Some(PredecessorEvent::Committed(callers.collect()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(_) | Err(_) => Some(PredecessorEvent::Gone),
        }
    }

    /// Tells the predecessor why this program cannot start: the predecessor reports it. Returns what is left to report here.
    pub(in crate::control) fn start_failed(mut self, why: &dyn Error) -> Box<dyn Error> {
        match self.channel.sender.send(&FromSuccessor::StartFailed { why: why.to_string() }) {
            Ok(()) => "the new program cannot take over, and exits".into(),
            Err(_) => why.to_string().into(),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the predecessor has exited")
}
