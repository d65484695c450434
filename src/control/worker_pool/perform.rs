//! Performs the actions that the machine decides.

use super::{
    arrivals::{Arrival, ReceivedSite},
    listeners::{Accepted, close_refused, refuse},
    master::Master,
    vocabulary::{
        ArrivalId, ClientId, PoolAction, PoolEvent, PoolMessage, PoolNotice, PoolReport, SiteArrivals,
    },
};
use crate::{
    base::error::{UserError, reason},
    control::{
        process::{
            ProcessId,
            message::{FromServer, ToServer},
        },
        server_process::PendingSite,
        supervisor::Notice,
    },
    data::{
        connection_limit::{ConnectionOwner, ConnectionVerdict},
        engine::AcceptedSocket,
        worker::{StartTime, peer},
    },
    site::set::SiteSet,
    sys::io::output_has_room,
};
use std::{io, mem, sync::Arc};

/// Functions with large variables are not inlined into those that run for each client: see `start`.
impl Master<'_> {
    /// Performs an action. Returns the event that answers it.
    pub(super) fn perform(&mut self, action: PoolAction) -> Option<PoolEvent> {
        match action {
            PoolAction::StartAux { process } => {
                let started = self.start_aux(process);
                return Some(started_event(process, started));
            }
            PoolAction::StartWorker { process, slot, client } => {
                let started = self.start_worker(process, slot, client);
                return Some(started_event(process, started));
            }
            PoolAction::Accept { for_worker } => return Some(self.accept(for_worker)),
            PoolAction::Send { process, message } => self.send(process, message),
            PoolAction::EndMessages { process } => self.children.end_messages(process),
            PoolAction::Kill { process } => self.children.kill(process),
            PoolAction::Refuse { client } => {
                if let Some(connection) = self.clients.get(&client) {
                    let own_row = self.settings.workers().get();
                    let has_tls = self.socket_settings[connection.listener].tls.is_some();
                    refuse(&connection.fd, has_tls, &self.shared.counters[own_row]);
                }
            }
            PoolAction::Close { client } => {
                if let Some(connection) = self.clients.remove(&client) {
                    close_refused(connection.fd);
                }
            }
            PoolAction::CloseListeners => drop(self.listeners.take()),
            PoolAction::Serve { sites } => self.serve(sites),
            PoolAction::Replace { site, version } => self.replace(site, version),
            PoolAction::Release { arrival } => drop(self.arrivals.remove(&arrival)),
            PoolAction::Report(report) => self.report(report),
            PoolAction::Emit(notice) => self.emit_notice(notice),
            PoolAction::SetIdle { slot, is_idle } => self.shared.idle_workers.set(slot, is_idle),
            PoolAction::RepairSlot { slot } => {
                self.shared.counters[slot].lose_open();
                if let Some(limit) = &self.shared.connection_limit {
                    limit.forget(ConnectionOwner::of_place(self.shared.counters.place(slot)));
                }
                self.shared.idle_workers.set(slot, false);
                if let Some(upstreams) =
                    self.shared.helper_stats.as_ref().and_then(|stats| stats.upstreams.as_ref())
                {
                    upstreams.reset_row(slot);
                }
            }
            PoolAction::Exit { status } => self.exit_status = Some(status),
        }
        None
    }

    /// Accepts a client. Its worker is prepared before.
    fn accept(&mut self, for_worker: bool) -> PoolEvent {
        if for_worker && let Err(error) = self.prepare_worker() {
            return self.accept_failed(&error);
        }
        match self.listeners.accept() {
            Accepted::Client(connection) => {
                let Some(connection) = self.admitted(connection) else {
                    // If others wait, the next poll tells.
                    return PoolEvent::BacklogEmpty;
                };
                let client = ClientId(self.next_number());
                self.clients.insert(client, connection);
                PoolEvent::ClientAccepted(client)
            }
            Accepted::Empty => PoolEvent::BacklogEmpty,
            Accepted::Short(error) => self.accept_failed(&error),
            Accepted::Failed(error) => PoolEvent::ListenerFailed { error: reason(&error) },
        }
    }

    /// Resets a connection that its worker would reset, before a process is forked for it. Returns any other.
    fn admitted(&self, connection: AcceptedSocket) -> Option<AcceptedSocket> {
        let Some(limit) = &self.shared.connection_limit else { return Some(connection) };
        let addresses = self.socket_settings[connection.listener].addresses.as_deref();
        match limit.check(peer(&connection.fd).0, addresses) {
            verdict @ (ConnectionVerdict::Refused | ConnectionVerdict::Denied) => {
                let own_row = self.settings.workers().get();
                limit.reset(connection.fd, verdict, &self.shared.counters[own_row], StartTime::now().us());
                None
            }
            ConnectionVerdict::Counted(_) | ConnectionVerdict::Unlimited => Some(connection),
        }
    }

    /// Notes that the process is out of descriptors or memory.
    #[cold]
    fn accept_failed(&mut self, error: &io::Error) -> PoolEvent {
        self.channels.clear();
        PoolEvent::AcceptFailed { error: reason(error) }
    }

    #[inline(never)]
    fn send(&mut self, process: ProcessId, message: PoolMessage) {
        let (message, descriptors) = match message {
            PoolMessage::Site { site, version } => {
                let Some(Arrival::Version(version)) = self.arrivals.get(&version) else { return };
                let ReceivedSite { transfer, loads, descriptors, .. } = &**version;
                let message =
                    ToServer::Site { site, transfer: transfer.clone(), is_earlier: false, loads: *loads };
                (message, Arc::clone(descriptors))
            }
            // The statistics need only the numbers.
            PoolMessage::SiteCounts { site } => {
                let Some((transfer, loads)) = self.transfers[site].clone() else { return };
                (ToServer::Site { site, transfer, is_earlier: false, loads }, Arc::default())
            }
            PoolMessage::Log { of, log } => {
                let Some(Arrival::Log(descriptors)) = self.arrivals.get(&log) else { return };
                (ToServer::Log { of }, Arc::clone(descriptors))
            }
            PoolMessage::Shutdown { mode, grace } => (ToServer::Shutdown { mode, grace }, Arc::default()),
        };
        self.children.send(process, message.key(), &message, &descriptors);
    }

    /// Makes these sites the ones that new workers serve.
    #[inline(never)]
    fn serve(&mut self, sites: Vec<SiteArrivals>) {
        let mut hosts = Vec::new();
        for (number, SiteArrivals { current, earlier }) in sites.into_iter().enumerate() {
            let mut pending = PendingSite::default();
            let versions = earlier.into_iter().map(|version| (version, true)).chain([(current, false)]);
            for (version, is_earlier) in versions {
                let Some(Arrival::Version(version)) = self.arrivals.remove(&version) else { continue };
                let ReceivedSite { transfer, loads, site: Some(site), .. } = *version else { continue };
                self.transfers[number] = Some((transfer, loads));
                pending.add(site, is_earlier);
            }
            hosts.push(pending.host(&self.site_configs[number], self.log_config.logging));
        }
        self.sites = Some(SiteSet::new(&self.settings, hosts));
        self.forget_worker();
    }

    #[inline(never)]
    fn replace(&mut self, number: usize, version: ArrivalId) {
        let Some(Arrival::Version(version)) = self.arrivals.get_mut(&version) else { return };
        if let (Some(site), Some(sites)) = (version.site.take(), &mut self.sites) {
            sites.swap(number, site);
            self.transfers[number] = Some((version.transfer.clone(), version.loads));
            self.forget_worker();
        }
    }

    /// Sends a message to the supervisor. A newer report about the same replaces one that waits.
    #[inline(never)]
    fn report(&mut self, report: PoolReport) {
        let (message, descriptors) = match report {
            PoolReport::Serving => {
                let engine = self.settings.engine;
                let confinement = mem::take(&mut self.confinement).summary(engine);
                (FromServer::Serving { engine, fallback_reason: None, confinement }, Arc::default())
            }
            PoolReport::SiteRejected { site, rejection } => {
                (FromServer::SiteRejected { site, rejection }, Arc::default())
            }
            PoolReport::LogBroken { of } => (FromServer::LogBroken { of }, Arc::default()),
            PoolReport::AdminRequest { request } => {
                let Some(Arrival::Request(order, descriptors)) = self.arrivals.remove(&request) else {
                    return;
                };
                (FromServer::AdminRequest { order }, descriptors)
            }
            PoolReport::StartFailed { why } => (FromServer::StartFailed { why }, Arc::default()),
        };
        // A failed send means that the supervisor has exited, which the next receive reports.
        let _ = self.channel.sender.send_keyed(message.key(), &message, &descriptors);
    }

    /// Emits the numbers of suppressed notices that are due.
    pub(super) fn emit_suppressed(&mut self) {
        while let Some((role, count)) = self.notice_limit.take_suppressed(self.clock.now()) {
            if output_has_room() {
                (self.emit)(Notice::Suppressed(role, count));
            }
        }
    }

    /// Emits a notice, unless its process has caused too many, or it would have to wait for a reader.
    #[inline(never)]
    fn emit_notice(&mut self, notice: PoolNotice) {
        let is_admitted = self.notice_limit.admit(self.clock.now(), notice.cause());
        if !is_admitted || !output_has_room() {
            return;
        }
        let emit = self.emit;
        match notice {
            PoolNotice::ProcessEnded { role, exit, restart_delay } => {
                emit(Notice::ProcessEnded { role, how: &exit.to_string(), restart_delay });
            }
            PoolNotice::ConnectionLost { exit } => emit(Notice::ConnectionLost(&exit.to_string())),
            PoolNotice::StartFailed { role, error, retry_delay } => {
                emit(Notice::StartFailed { role, error: &error, retry_delay });
            }
            PoolNotice::ReleaseNotKept { why } => {
                emit(Notice::ReleaseNotKept(&UserError::new(
                    "cannot use an earlier release",
                    why,
                    RELEASE_HINT,
                )));
            }
            PoolNotice::LogNotReopened { why } => {
                emit(Notice::LogReopenFailed(&UserError::new(
                    "cannot write to the new log file",
                    why,
                    LOG_HINT,
                )));
            }
        }
    }
}

fn started_event(process: ProcessId, started: io::Result<()>) -> PoolEvent {
    match started {
        Ok(()) => PoolEvent::Started(process),
        Err(error) => PoolEvent::StartFailed { process, error: reason(&error) },
    }
}

const RELEASE_HINT: &str = "raise the limit on open files, or keep fewer releases";
const LOG_HINT: &str = "raise the limit on open files; until then the log stays in its current file";
