//! The aux process: writes the access log and answers the admin listener, on threads of its own. The master must have a single thread,
//! as it forks.

use crate::{
    control::{
        access_log::{AccessLog, LogPlan, LogSink},
        admin::Admin,
        counters::ServerCounters,
        listeners::Listener,
        process::{
            channel::{Channel, Sender, owned, unshared},
            message::{FromServer, ToServer},
        },
        sandbox::{self, ServerNeeds},
        stats::ServerStats,
    },
    data::{log_ring::LogRings, worker::mailbox::ShutdownMode},
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

/// The state that an aux process starts with.
pub(super) struct AuxStart<'a> {
    pub(super) admin: Option<Listener>,
    /// Another server answers at the admin listener until this server serves.
    pub(super) is_successor: bool,
    pub(super) logs: &'a LogPlan,
    pub(super) rings: Option<&'a LogRings>,
    pub(super) stats: ServerStats,
    pub(super) counters: ServerCounters,
    pub(super) site_count: usize,
    /// A seccomp filter confines the process.
    pub(super) has_seccomp: bool,
}

/// Runs until the master closes the channel. Returns an exit status.
pub(super) fn run(start: AuxStart<'_>, channel: Channel) -> i32 {
    match serve(start, channel) {
        Ok(()) => 0,
        Err(error) => {
            tracing::warn!("the aux process failed: {error}");
            1
        }
    }
}

fn serve(start: AuxStart<'_>, channel: Channel) -> io::Result<()> {
    let AuxStart { admin: listener, is_successor, logs, rings, stats, counters, site_count, has_seccomp } =
        start;
    let Channel { sender, mut receiver } = channel;
    let master = Arc::new(MasterChannel(Mutex::new(sender)));
    let start_admin = |listener: &Listener, stats: Option<Arc<ServerStats>>| {
        let master = Arc::clone(&master);
        let forward = move |order, client| master.send(&FromServer::AdminRequest { order }, [client]);
        Admin::start_with(listener, &counters, stats, forward)
    };
    let log = rings.map(|rings| AccessLog::start(logs, rings, &counters, &stats)).transpose()?;
    let early = listener.as_ref().filter(|_| !is_successor);
    let mut admin = early.map(|listener| start_admin(listener, None)).transpose()?;
    let mut may_start_threads = is_successor && listener.is_some();
    if !may_start_threads {
        // All threads run: the process drops the calls that starting them took.
        sandbox::confine_running_server(has_seccomp, ServerNeeds::default())?;
    }
    let stats = Arc::new(stats);
    let mut pending: Vec<usize> = (0..site_count).collect();
    while let Some((message, descriptors)) = receiver.receive()? {
        match message {
            ToServer::Site { is_earlier: true, .. } => {}
            ToServer::Site { site, transfer, loads, .. } => {
                stats.site_loaded(site, transfer.file_count, transfer.content_len);
                stats.set_loads(site, loads);
                pending.retain(|&number| number != site);
                if !pending.is_empty() {
                    continue;
                }
                if std::mem::take(&mut may_start_threads) {
                    let stats = Some(Arc::clone(&stats));
                    admin = listener.as_ref().map(|listener| start_admin(listener, stats)).transpose()?;
                    sandbox::confine_running_server(has_seccomp, ServerNeeds::default())?;
                }
                if let Some(admin) = &admin {
                    admin.set_stats(&stats);
                }
            }
            ToServer::Log { of } => {
                let master = Arc::clone(&master);
                let on_disconnect = move || master.send(&FromServer::LogBroken { of }, []);
                match (&log, descriptors.unwrap_or_default().into_iter().next().and_then(owned)) {
                    (Some(log), Some(descriptor)) => {
                        log.log_to(of, LogSink::from(descriptor).on_disconnect(on_disconnect));
                    }
                    // Lost: the supervisor sends another.
                    (Some(_), None) => on_disconnect(),
                    (None, _) => {}
                }
            }
            ToServer::Shutdown { mode, .. } => {
                if mode == ShutdownMode::Drain {
                    // The successor answers at the admin listener now.
                    drop(admin.take());
                }
                stats.set_draining();
            }
        }
    }
    if let Some(log) = log {
        log.end();
    }
    Ok(())
}

/// The channel to the master.
struct MasterChannel(Mutex<Sender>);

impl MasterChannel {
    fn send<const N: usize>(&self, message: &FromServer, descriptors: [OwnedFd; N]) {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A failed send means that the master has exited: this process ends too.
        let _ = sender.send_with(message, &unshared(descriptors));
    }
}
