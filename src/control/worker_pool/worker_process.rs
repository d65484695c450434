//! The mailbox of a worker process: turns messages of the master into messages of a worker.

use crate::{
    control::{
        process::{channel::Channel, message::ToServer, shared_files::SharedFiles},
        server_process::receive_site,
    },
    data::worker::mailbox::{Mailbox, ShutdownMode, WorkerMessage},
    site::{Site, descriptor_budget::DescriptorBudget, versions::SiteHistory},
    sys::process::exit_now,
};
use std::{io, mem, sync::Arc, time::Duration};
use tarpon_conn::SiteId;

/// How long the connections of a worker without room for a site may take: longer than any response.
const DRAIN_TIME: Duration = Duration::from_secs(24 * 3_600);

/// Returns the mailbox of a worker, which the master fills through the other end of the non-blocking `channel`. `histories` are the sites as
/// of the fork.
pub(super) fn mailbox(channel: Channel, mut histories: Arc<Vec<SiteHistory>>) -> Mailbox {
    let socket = channel.socket();
    let mut receiver = channel.receiver;
    let mut is_sharing = false;
    let receive = move || {
        let mut messages = Vec::new();
        // Not before the first message: with `fork` most workers never get one.
        if !mem::replace(&mut is_sharing, true) {
            let files = SharedFiles::new(DescriptorBudget::of_process().total_max);
            histories
                .iter()
                .flat_map(SiteHistory::held)
                .for_each(|site: Arc<Site>| files.add(site.descriptors()));
            receiver.share_files(&files);
        }
        loop {
            let (message, descriptors) = match receiver.receive() {
                Ok(Some(received)) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return messages,
                // Without the master no process could stop this one.
                Ok(None) | Err(_) => exit_now(1),
            };
            match message {
                ToServer::Site { site, transfer, is_earlier: false, .. } => {
                    let Some(history) = Arc::make_mut(&mut histories).get_mut(site) else { continue };
                    messages.push(match receive_site(&transfer, descriptors) {
                        Ok(built) => WorkerMessage::UpdateSite(SiteId::new(site), history.next(built)),
                        // The master has checked the site, so this process is short of descriptors or memory. It exits when its
                        // connections end, and the next one starts with the site.
                        Err(_) => WorkerMessage::Shutdown { mode: ShutdownMode::Drain, grace: DRAIN_TIME },
                    });
                }
                ToServer::Shutdown { mode, grace } => messages.push(WorkerMessage::Shutdown { mode, grace }),
                ToServer::Site { .. } | ToServer::Log { .. } => {}
            }
        }
    };
    Mailbox::for_process(socket, receive)
}
