//! A worker process: what it is given, and how it hears its parent.

use crate::{
    control::supervisor::{channel::Channel, message::ToServer, serving::take_over},
    data::worker::mailbox::{Mailbox, ShutdownMode, WorkerMessage},
    site::versions::SiteHistory,
};
use std::{io, process::exit};
use tarpon_conn::SiteId;

/// The mailbox of a worker, which its parent fills. `recents` are those of the parent when it was forked.
pub(super) fn mailbox(channel: Channel, mut recents: Vec<SiteHistory>) -> io::Result<Mailbox> {
    channel.waits_no_more()?;
    let socket = channel.socket();
    let mut receiver = channel.receiver;
    let hear = move || {
        let mut messages = Vec::new();
        loop {
            let (message, descriptors) = match receiver.receive() {
                Ok(Some(heard)) => heard,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return messages,
                // Without a parent nobody could stop us.
                Ok(None) | Err(_) => exit(1),
            };
            match message {
                ToServer::Site { site, record, is_earlier: false } => {
                    // Its parent has found it in order. Where descriptors are lacking, this one serves what it had.
                    if let (Ok(built), Some(recent)) =
                        (take_over(&record, descriptors), recents.get_mut(site))
                    {
                        messages.push(WorkerMessage::UpdateSite(SiteId::new(site), recent.next(built)));
                    }
                }
                ToServer::Stop { grace } => {
                    messages.push(WorkerMessage::Shutdown { mode: ShutdownMode::Stop, grace })
                }
                ToServer::Drain { grace } => {
                    messages.push(WorkerMessage::Shutdown { mode: ShutdownMode::Drain, grace })
                }
                ToServer::Site { .. } | ToServer::Log { .. } => {}
            }
        }
    };
    Ok(Mailbox::for_process(socket, hear))
}
