//! The messages of the children, as events.

use super::{
    super::event::{ProcessStart, SiteVersion, SupervisorEvent, VersionId, VersionLost},
    Driver,
};
use crate::{
    control::helpers::HelperKind,
    control::process::{
        ProcessId,
        channel::{Descriptors, owned},
        message::{FromBuilder, FromServer, FromSuccessor},
    },
    site::transfer::SiteTransfer,
};
use std::{collections::HashSet, sync::Arc};

/// Messages of one child that the driver receives in one turn of its loop, so that no child keeps it from the others.
const MESSAGES_PER_TURN: usize = 64;

impl Driver<'_> {
    /// Receives messages of all children, and sends what they had no room for before.
    pub(super) fn receive_messages(&mut self) {
        self.children.flush();
        let processes: Vec<_> = self.children.ids().collect();
        for process in processes {
            self.receive_from(process, MESSAGES_PER_TURN);
        }
    }

    /// Receives at most this many messages of a child.
    pub(super) fn receive_from(&mut self, process: ProcessId, count_max: usize) {
        let Some(start) = self.starts.get(&process).copied() else { return };
        for _ in 0..count_max {
            let event = match start {
                ProcessStart::Builder(..) => self.receive_from_builder(process),
                ProcessStart::Server { .. } => self.receive_from_server(process),
                ProcessStart::Helper(_, HelperKind::Net) => self.receive_from_net(process),
                ProcessStart::Helper(generation, HelperKind::Upstreams) => {
                    self.receive_from_upstreams(process, generation)
                }
                // The others speak to workers only.
                ProcessStart::Helper(_, HelperKind::Cgi) => return,
                #[cfg(test)]
                ProcessStart::Helper(_, HelperKind::StandIn) => return,
                ProcessStart::Successor(..) => self.receive_from_successor(process),
            };
            match event {
                Ok(Some(event)) => self.events.push_back(event),
                Ok(None) => return,
                Err(error) => {
                    self.events.push_back(SupervisorEvent::Malformed(process, error.to_string()));
                    return;
                }
            }
        }
    }

    fn receive_from_builder(&mut self, process: ProcessId) -> std::io::Result<Option<SupervisorEvent>> {
        let Some((message, descriptors)) = self.children.receive(process)? else { return Ok(None) };
        Ok(Some(match message {
            FromBuilder::Site { site, transfer, is_earlier } => {
                let version = self.add_version(transfer, descriptors);
                SupervisorEvent::SiteBuilt { builder: process, site, version, is_earlier }
            }
            FromBuilder::RootReplaced => SupervisorEvent::RootReplaced(process),
            FromBuilder::StartFailed { why } => SupervisorEvent::Failed(process, why),
        }))
    }

    fn receive_from_server(&mut self, process: ProcessId) -> std::io::Result<Option<SupervisorEvent>> {
        let Some((message, descriptors)) = self.children.receive::<FromServer>(process)? else {
            return Ok(None);
        };
        let connection = match message {
            FromServer::AdminRequest { .. } => {
                descriptors.unwrap_or_default().into_iter().next().and_then(owned)
            }
            _ => None,
        };
        let caller = connection.map(|connection| self.add_caller(connection));
        Ok(Some(SupervisorEvent::Server(process, message, caller)))
    }

    fn receive_from_successor(&mut self, process: ProcessId) -> std::io::Result<Option<SupervisorEvent>> {
        let Some((message, _)) = self.children.receive(process)? else { return Ok(None) };
        Ok(Some(match message {
            FromSuccessor::ConfigRead => SupervisorEvent::SuccessorReady(process),
            FromSuccessor::Serving => SupervisorEvent::SuccessorServes(process),
            FromSuccessor::StartFailed { why } => SupervisorEvent::Failed(process, why),
        }))
    }

    fn add_version(
        &mut self,
        transfer: SiteTransfer,
        descriptors: Descriptors,
    ) -> Result<SiteVersion, VersionLost> {
        let descriptors = descriptors.map_err(|lost| VersionLost {
            descriptor_count: lost.count,
            unfit_count: Some(lost.new_count)
                .filter(|&new_count| self.held_count() + new_count > self.files.count_max()),
        })?;
        self.version_count += 1;
        let id = VersionId(self.version_count);
        let version = site_version(id, &transfer, descriptors.len());
        self.versions.insert(id, (transfer, descriptors.into()));
        Ok(version)
    }

    /// Returns how many descriptors all versions have, each counted once. Messages that are not sent yet may hold others.
    fn held_count(&self) -> usize {
        let held = self.versions.values().flat_map(|(_, descriptors)| &**descriptors);
        held.map(Arc::as_ptr).collect::<HashSet<_>>().len()
    }
}

/// Returns what the supervisor needs to know of a version.
pub(super) fn site_version(id: VersionId, transfer: &SiteTransfer, descriptor_count: usize) -> SiteVersion {
    let [high, low] = transfer.content_id;
    SiteVersion {
        id,
        descriptor_count,
        file_count: transfer.file_count,
        content_len: transfer.content_len,
        content_id: u128::from(high) << 64 | u128::from(low),
    }
}
