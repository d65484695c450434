//! The end of the pool: its stages from an order to shut down, or from a failure, to the exit.

use super::{PoolStage, WorkerPool};
use crate::control::{
    process::clock,
    worker_pool::vocabulary::{PoolAction, PoolReport},
};
use std::time::Duration;

/// How long the aux process may take to write the log records that the workers have left.
pub(in crate::control::worker_pool) const AUX_TIME_MAX: Duration = Duration::from_secs(3);

/// How long a killed process may take to exit: it may wait for a disk.
pub(in crate::control::worker_pool) const KILL_TIME_MAX: Duration = Duration::from_secs(1);

impl WorkerPool {
    /// Goes on to the next stage if it is time. Returns whether it was.
    pub(super) fn advance(&mut self, actions: &mut Vec<PoolAction>) -> bool {
        let now = self.now;
        let has_workers = self.workers.process_count() > 0;
        match self.stage {
            PoolStage::Active => match self.shutdown {
                Some(_) if !has_workers && self.admission.is_closed() => self.end_aux(actions),
                Some(shutdown) if shutdown.deadline() <= now => {
                    self.admission.close(actions);
                    actions.extend(self.workers.running().map(|process| PoolAction::Kill { process }));
                    self.stage = PoolStage::Overdue(clock::after(now, KILL_TIME_MAX));
                }
                _ => return false,
            },
            PoolStage::Overdue(at) if !has_workers || at <= now => self.end_aux(actions),
            PoolStage::EndingAux(_) if self.aux.process().is_none() && self.aux.due().is_none() => {
                self.exit(0, actions);
            }
            PoolStage::EndingAux(at) if at <= now => self.kill_all(0, actions),
            PoolStage::Killing(at, status) if self.processes.is_empty() || at <= now => {
                self.exit(status, actions);
            }
            _ => return false,
        }
        true
    }

    /// Lets the aux process write the log records that the workers have left, and exit. Starts another one if it has just died.
    pub(super) fn end_aux(&mut self, actions: &mut Vec<PoolAction>) {
        self.stage = PoolStage::EndingAux(clock::after(self.now, AUX_TIME_MAX));
        match self.aux.running() {
            Some(process) => actions.push(PoolAction::EndMessages { process }),
            None if self.config.has_log => {
                self.aux.schedule(self.now);
                self.start_processes(actions);
            }
            None => self.aux.cancel(),
        }
    }

    pub(super) fn exit(&mut self, status: i32, actions: &mut Vec<PoolAction>) {
        self.stage = PoolStage::Exited;
        actions.push(PoolAction::Exit { status });
    }

    /// Ends the pool at once: it cannot continue, for this reason.
    pub(super) fn abort(&mut self, why: String, actions: &mut Vec<PoolAction>) {
        if matches!(self.stage, PoolStage::Killing(..)) {
            return;
        }
        actions.push(PoolAction::Report(PoolReport::StartFailed { why }));
        self.kill_all(1, actions);
    }

    pub(super) fn kill_all(&mut self, status: i32, actions: &mut Vec<PoolAction>) {
        self.admission.close(actions);
        self.workers.cancel_all();
        self.aux.cancel();
        actions.extend(self.processes.ids().map(|process| PoolAction::Kill { process }));
        self.stage = PoolStage::Killing(clock::after(self.now, KILL_TIME_MAX), status);
    }
}
