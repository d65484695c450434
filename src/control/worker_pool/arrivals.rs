//! Messages that arrive with descriptors, and the events that the machine gets of them.

use super::{
    master::Master,
    vocabulary::{ArrivalId, PoolEvent},
};
use crate::{
    control::{
        admin::Order,
        process::{
            channel::Descriptors,
            message::{FromServer, SiteRejection, ToServer},
        },
        server_process::{receive_site, rejection},
    },
    site::{Site, transfer::SiteTransfer},
};
use std::{fs::File, sync::Arc};

/// A message with descriptors, which the driver keeps until the machine releases it.
pub(super) enum Arrival {
    /// A version of a site.
    Version(Box<ReceivedSite>),
    /// The descriptor of a log.
    Log(Arc<[Arc<File>]>),
    /// An administrator's order, with the connection for the reply.
    Request(Order, Arc<[Arc<File>]>),
}

/// A version of a site that was received and checked.
pub(super) struct ReceivedSite {
    pub(super) transfer: SiteTransfer,
    pub(super) loads: u64,
    /// The descriptors, to pass on to workers.
    pub(super) descriptors: Arc<[Arc<File>]>,
    /// `None` after the machine has used it.
    pub(super) site: Option<Site>,
}

impl Master<'_> {
    /// Returns the event of a message of the supervisor.
    pub(super) fn arrived(&mut self, message: ToServer, descriptors: Descriptors) -> PoolEvent {
        match message {
            ToServer::Site { site, transfer, is_earlier, loads } => {
                match check(transfer, loads, descriptors) {
                    Ok(version) => {
                        let version = self.keep(Arrival::Version(Box::new(version)));
                        PoolEvent::SiteArrived { site, version, is_earlier }
                    }
                    Err(rejection) => PoolEvent::SiteUnusable { site, is_earlier, rejection },
                }
            }
            ToServer::Log { of } => match descriptors {
                Ok(descriptors) => {
                    PoolEvent::LogArrived { of, log: self.keep(Arrival::Log(descriptors.into())) }
                }
                Err(lost) => PoolEvent::LogLost { of, why: lost.to_string() },
            },
            ToServer::Shutdown { mode, grace } => PoolEvent::ShutdownOrdered { mode, grace },
        }
    }

    /// Returns the event of a message of a child. `None`: the message is ignored.
    pub(super) fn child_reports(
        &mut self,
        message: FromServer,
        descriptors: Descriptors,
    ) -> Option<PoolEvent> {
        match message {
            FromServer::LogBroken { of } => Some(PoolEvent::LogBroken { of }),
            // Without a descriptor there is no connection for the reply. A supervisor that does not read its messages gets no more
            // requests: the administrator sees that the connection closes.
            FromServer::AdminRequest { order } if !self.channel.sender.has_queued() => {
                let request = self.keep(Arrival::Request(order, descriptors.ok()?.into()));
                Some(PoolEvent::AdminRequested { request })
            }
            _ => None,
        }
    }

    fn keep(&mut self, arrival: Arrival) -> ArrivalId {
        let id = ArrivalId(self.next_number());
        self.arrivals.insert(id, arrival);
        id
    }
}

/// Checks a version of a site, and opens it for this process.
fn check(
    transfer: SiteTransfer,
    loads: u64,
    descriptors: Descriptors,
) -> Result<ReceivedSite, SiteRejection> {
    let descriptors: Arc<[_]> = descriptors.map_err(|lost| rejection(&lost, true))?.into();
    let site = receive_site(&transfer, Ok(descriptors.to_vec()))?;
    Ok(ReceivedSite { transfer, loads, descriptors, site: Some(site) })
}
