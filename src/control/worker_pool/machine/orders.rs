//! What the supervisor sends: sites, logs, and orders to shut down.

use super::{PoolStage, WorkerPool, shutdown::PoolShutdown};
use crate::{
    base::log_config::LogOwner,
    control::{
        process::message::SiteRejection,
        worker_pool::vocabulary::{ArrivalId, PoolAction, PoolMessage, PoolNotice, PoolReport},
    },
    data::worker::mailbox::ShutdownMode,
};
use std::time::Duration;

impl WorkerPool {
    /// Adds a version of a site. Until the pool serves, it counts towards the start; later, it replaces the version that is served.
    pub(super) fn add_site(
        &mut self,
        site: usize,
        version: ArrivalId,
        is_earlier: bool,
        actions: &mut Vec<PoolAction>,
    ) {
        if site >= self.config.site_count {
            let why = format!("there is no site number {site}");
            let rejection = SiteRejection { why, is_shortage: false };
            actions.push(PoolAction::Report(PoolReport::SiteRejected { site, rejection }));
            actions.push(PoolAction::Release { arrival: version });
        } else if self.shutdown.is_some() || self.is_serving && is_earlier || !self.is_active() {
            actions.push(PoolAction::Release { arrival: version });
        } else if self.is_serving {
            actions.push(PoolAction::Replace { site, version });
            self.send_to_workers(PoolMessage::Site { site, version }, actions);
            self.send_to_aux(PoolMessage::SiteCounts { site }, actions);
            actions.push(PoolAction::Release { arrival: version });
        } else {
            let replaced = self.sites.add(site, version, is_earlier);
            actions.extend(replaced.map(|arrival| PoolAction::Release { arrival }));
            if let Some(sites) = self.sites.take_complete() {
                actions.push(PoolAction::Serve { sites });
                self.serve(actions);
            }
        }
    }

    /// Starts to serve: all sites have arrived.
    pub(super) fn serve(&mut self, actions: &mut Vec<PoolAction>) {
        self.is_serving = true;
        for site in 0..self.config.site_count {
            self.send_to_aux(PoolMessage::SiteCounts { site }, actions);
        }
        match self.config.forks {
            true => {
                self.workers.free_all();
                self.admission.open();
            }
            false => self.workers.schedule_all(self.now),
        }
    }

    /// Leaves out a version that this process cannot use.
    pub(super) fn reject_site(
        &mut self,
        site: usize,
        is_earlier: bool,
        rejection: SiteRejection,
        actions: &mut Vec<PoolAction>,
    ) {
        if is_earlier {
            if !self.is_serving {
                actions.push(PoolAction::Emit(PoolNotice::ReleaseNotKept { why: rejection.why }));
            }
        } else if self.is_serving || self.shutdown.is_some() {
            actions.push(PoolAction::Report(PoolReport::SiteRejected { site, rejection }));
        } else {
            self.abort(rejection.why, actions);
        }
    }

    pub(super) fn set_log(&mut self, of: LogOwner, log: ArrivalId, actions: &mut Vec<PoolAction>) {
        self.send_to_aux(PoolMessage::Log { of, log }, actions);
        match self.logs.iter_mut().find(|(owner, _)| *owner == of) {
            Some((_, before)) => {
                actions.push(PoolAction::Release { arrival: std::mem::replace(before, log) });
            }
            None => self.logs.push((of, log)),
        }
    }

    /// Starts a shutdown, or makes the one under way stricter or shorter.
    pub(super) fn shut_down(&mut self, mode: ShutdownMode, grace: Duration, actions: &mut Vec<PoolAction>) {
        let shutdown = PoolShutdown::merge(self.shutdown, self.now, mode, grace);
        if !self.is_active() || self.shutdown == Some(shutdown) {
            return;
        }
        self.shutdown = Some(shutdown);
        let message = shutdown.message(self.now);
        self.send_to_workers(message, actions);
        self.send_to_aux(message, actions);
        self.workers.cancel_all();
        actions.extend(self.sites.take_all().map(|arrival| PoolAction::Release { arrival }));
        self.admission.shut_down(shutdown.mode == ShutdownMode::Drain, actions);
    }

    pub(super) fn send_to_workers(&self, message: PoolMessage, actions: &mut Vec<PoolAction>) {
        actions.extend(self.workers.running().map(|process| PoolAction::Send { process, message }));
    }

    pub(super) fn send_to_aux(&self, message: PoolMessage, actions: &mut Vec<PoolAction>) {
        // Later, the aux process has received EOF.
        let receives = matches!(self.stage, PoolStage::Active | PoolStage::Overdue(_));
        let aux = self.aux.running().filter(|_| receives);
        actions.extend(aux.map(|process| PoolAction::Send { process, message }));
    }
}
