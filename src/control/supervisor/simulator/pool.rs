//! Worker pools as server processes: both machines in one world.

use super::{
    super::event::{ProcessStart, SupervisorEvent, ToChild},
    world::{SimChild, World, WorldStep},
};
use crate::{
    control::{
        process::{
            ProcessExit, ProcessId, clock,
            message::{FromServer, ToServer},
        },
        worker_pool::simulator::{SimPool, SimPoolConfig},
    },
    site::transfer::SiteTransfer,
};
use std::time::Duration;

/// The master of a pool kills its workers and exits within this time after its supervisor.
const ORPHAN_TIME_MAX: Duration = Duration::from_secs(10);

impl World {
    /// Starts a worker pool as the server process.
    pub(super) fn start_pool(&mut self, process: ProcessId, site_count: usize) {
        let mut config = SimPoolConfig::random(&mut self.random);
        config.pool.site_count = site_count;
        // The simulator of the pool alone has more clients and crashes: these worlds are about both machines.
        config.client_interval_ms = 1_000;
        config.pool.slot_count = config.pool.slot_count.min(4);
        let mut pool = SimPool::new(self.now, self.random.fork(), config);
        if self.is_calm {
            pool.calm();
        }
        if let Some(sim) = self.processes.get_mut(&process) {
            sim.pool = Some(Box::new(pool));
        }
        self.after_pool(process);
    }

    /// Sends a message to a worker pool. Returns whether the process is one.
    pub(super) fn send_to_pool(&mut self, process: ProcessId, message: &ToChild) -> bool {
        let now = self.now;
        let Some(sim) = self.processes.get_mut(&process) else { return false };
        let Some(pool) = &mut sim.pool else { return false };
        let message = match *message {
            ToChild::Site { site, version, is_earlier, loads } => {
                ToServer::Site { site, transfer: SiteTransfer::simulated(version.0), is_earlier, loads }
            }
            ToChild::Log { of, .. } => ToServer::Log { of },
            ToChild::Shutdown { mode, grace } => ToServer::Shutdown { mode, grace },
            ToChild::Commit { .. } => return false,
        };
        sim.is_ending |= matches!(message, ToServer::Shutdown { .. });
        pool.receive(now, message);
        self.after_pool(process);
        true
    }

    /// Lets happen what is due in a worker pool.
    pub(super) fn wake_pool(&mut self, process: ProcessId) {
        let now = self.now;
        let Some(sim) = self.processes.get_mut(&process).filter(|sim| !sim.is_exiting) else { return };
        let Some(pool) = &mut sim.pool else { return };
        pool.wake(now);
        self.after_pool(process);
    }

    /// Delivers the messages of a worker pool, and plans what follows.
    fn after_pool(&mut self, process: ProcessId) {
        let Some(sim) = self.processes.get_mut(&process) else { return };
        let Some(pool) = &mut sim.pool else { return };
        let (messages, deadline, exit) = (pool.take_messages(), pool.deadline(), pool.exit());
        for message in messages {
            // The orders of these worlds come from their scripts, which know the callers.
            if matches!(message, FromServer::AdminRequest { .. }) {
                continue;
            }
            if matches!(message, FromServer::Serving { .. }) {
                self.processes.entry(process).and_modify(|sim| sim.serves = true);
                self.history.pool_served += 1;
            }
            self.emit(process, SupervisorEvent::Server(process, message, None));
        }
        match (exit, deadline) {
            (Some(exit), _) => {
                let Some(sim) = self.processes.get_mut(&process).filter(|sim| !sim.is_exiting) else {
                    return;
                };
                sim.is_exiting = true;
                self.plan(WorldStep::Exit(process, exit), 0..20);
            }
            (None, Some(at)) => {
                self.step_count += 1;
                // Another wake may be planned already: a pool that is woken early does nothing.
                self.agenda.insert((at.max(self.now), self.step_count), WorldStep::Pool(process));
            }
            (None, None) => {}
        }
    }

    /// Ends the faults of all pools.
    pub(super) fn calm_pools(&mut self) {
        self.processes.values_mut().filter_map(|sim| sim.pool.as_mut()).for_each(|pool| pool.calm());
    }

    /// Checks that the pool that serves does so with all its workers, and with the latest versions.
    pub(super) fn check_pool(&mut self) {
        let now = self.now;
        let wanted: Vec<_> = self.machine.current_versions().into_iter().map(|version| version.0).collect();
        let is_serving = |sim: &&mut SimChild| sim.serves && !sim.is_ending && !sim.is_exiting;
        for sim in self.processes.values_mut().filter(is_serving) {
            for pool in sim.pool.iter_mut() {
                pool.check_recovered(now);
                assert_eq!(pool.versions(), wanted, "the pool has the latest versions");
            }
        }
    }

    /// The supervisor is killed. The kernel kills its children, unless one has just changed its user: a master sees EOF, and exits with
    /// all its processes.
    pub(super) fn supervisor_dies(&mut self) {
        let now = self.now;
        let end = clock::after(now, ORPHAN_TIME_MAX);
        for (_, mut sim) in std::mem::take(&mut self.processes) {
            let Some(mut pool) = sim.pool.take().filter(|_| !sim.is_exiting) else { continue };
            assert!(matches!(sim.start, ProcessStart::Server { .. }));
            pool.supervisor_gone(now);
            while let Some(at) = pool.deadline().filter(|at| *at <= end) {
                pool.wake(at.max(now));
            }
            assert!(
                matches!(pool.exit(), Some(ProcessExit::Status(_))),
                "a pool without a supervisor does not exit: {:?}",
                pool.exit()
            );
            self.history.pool_orphaned += 1;
        }
        self.exit = Some(Ok(()));
        self.forget_all();
    }
}
