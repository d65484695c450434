//! The processes of the pool: starts those that are due, and handles what becomes of them.

use super::{PoolRole, PoolStage, WorkerPool};
use crate::control::{
    process::{ProcessExit, ProcessId},
    supervisor::Role,
    worker_pool::vocabulary::{ClientId, PoolAction, PoolMessage, PoolNotice},
};

impl WorkerPool {
    /// Starts the processes that are due.
    pub(super) fn start_processes(&mut self, actions: &mut Vec<PoolAction>) {
        if self.aux.is_due(self.now) {
            let process = self.processes.add(PoolRole::Aux);
            self.aux.begin(process);
            actions.push(PoolAction::StartAux { process });
        }
        if self.is_active()
            && let Some(slot) = self.workers.take_due(self.now)
        {
            // Set before the start: the worker updates the flag itself from then on, and may be busy at once.
            actions.push(PoolAction::SetIdle { slot, is_idle: true });
            self.start_worker(slot, None, actions);
        }
    }

    pub(super) fn start_worker(
        &mut self,
        slot: usize,
        client: Option<ClientId>,
        actions: &mut Vec<PoolAction>,
    ) {
        let process = self.processes.add(PoolRole::Worker(slot));
        self.workers.begin(slot, process, client);
        actions.push(PoolAction::StartWorker { process, slot, client });
    }

    pub(super) fn started(&mut self, process: ProcessId, actions: &mut Vec<PoolAction>) {
        match self.processes.owner(process) {
            Some(PoolRole::Aux) => {
                self.aux.started(self.now);
                let logs = self.logs.iter().map(|&(of, log)| PoolMessage::Log { of, log });
                let site_count = if self.is_serving { self.config.site_count } else { 0 };
                let sites = (0..site_count).map(|site| PoolMessage::SiteCounts { site });
                let shutdown = self.shutdown.map(|shutdown| shutdown.message(self.now));
                let messages = logs.chain(sites).chain(shutdown);
                actions.extend(messages.map(|message| PoolAction::Send { process, message }));
                if matches!(self.stage, PoolStage::EndingAux(_)) {
                    actions.push(PoolAction::EndMessages { process });
                }
            }
            Some(PoolRole::Worker(slot)) => {
                self.workers.started(slot, self.now);
                let shutdown = self.shutdown.map(|shutdown| shutdown.message(self.now));
                actions.extend(shutdown.map(|message| PoolAction::Send { process, message }));
                if self.admission.goes_on() && self.workers.can_take_client() {
                    self.accept(actions);
                }
            }
            None => {}
        }
    }

    pub(super) fn start_failed(&mut self, process: ProcessId, error: String, actions: &mut Vec<PoolAction>) {
        match self.processes.remove(process) {
            Some(PoolRole::Aux) => {
                let retry_delay = self.aux.start_failed(self.now);
                if matches!(self.stage, PoolStage::EndingAux(_)) {
                    self.aux.cancel();
                }
                let role = Role::Aux;
                actions.push(PoolAction::Emit(PoolNotice::StartFailed { role, error, retry_delay }));
            }
            Some(PoolRole::Worker(slot)) => {
                let schedule = !self.config.forks && self.shutdown.is_none();
                let client = self.workers.start_failed(slot, self.now, schedule);
                match self.config.forks {
                    true => self.workers.free(slot),
                    false => actions.push(PoolAction::SetIdle { slot, is_idle: false }),
                }
                self.worker_start_failed(error, actions);
                if let Some(client) = client {
                    self.admission.refuse(client, self.now, actions);
                }
            }
            None => {}
        }
    }

    /// Pauses the start of workers.
    pub(super) fn worker_start_failed(&mut self, error: String, actions: &mut Vec<PoolAction>) {
        let role = Role::Worker;
        let delay = self.workers.gate.failed(self.now, self.workers.process_count());
        let notice = delay.map(|retry_delay| PoolNotice::StartFailed { role, error, retry_delay });
        actions.extend(notice.map(PoolAction::Emit));
    }

    pub(super) fn exited(&mut self, process: ProcessId, exit: ProcessExit, actions: &mut Vec<PoolAction>) {
        match self.processes.remove(process) {
            Some(PoolRole::Aux) => {
                let lived = self.aux.exited(self.now);
                if matches!(self.stage, PoolStage::Active | PoolStage::Overdue(_)) {
                    let restart_delay = self.aux.restart(self.now, lived);
                    let role = Role::Aux;
                    actions.push(PoolAction::Emit(PoolNotice::ProcessEnded { role, exit, restart_delay }));
                }
            }
            Some(PoolRole::Worker(slot)) => self.worker_exited(slot, exit, actions),
            None => {}
        }
    }

    pub(super) fn worker_exited(&mut self, slot: usize, exit: ProcessExit, actions: &mut Vec<PoolAction>) {
        let lived = self.workers.exited(slot, self.now);
        // The channel to it is closed, or left to the next worker.
        self.admission.descriptors_freed();
        if !exit.is_success() {
            actions.push(PoolAction::RepairSlot { slot });
        }
        if self.config.forks {
            if !exit.is_success() && self.is_active() {
                actions.push(PoolAction::Emit(PoolNotice::ConnectionLost { exit }));
            }
            self.workers.free(slot);
        } else if self.shutdown.is_none() && self.is_active() {
            let restart_delay = self.workers.restart(slot, self.now, lived);
            let role = Role::Worker;
            actions.push(PoolAction::Emit(PoolNotice::ProcessEnded { role, exit, restart_delay }));
        }
    }
}
