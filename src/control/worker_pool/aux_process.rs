//! The desk of a server whose workers are processes: writes the log and answers the admin listener. It has threads for it, which the
//! process that forks must not have.

use crate::{
    control::{
        access_log::{AccessLog, LogPlan},
        admin::Admin,
        listeners::Listener,
        sandbox,
        stats::ServerStats,
        supervisor::{
            channel::{Channel, Sender},
            journal,
            message::{FromServer, ToServer},
        },
    },
    data::log_ring::LogRings,
    sys::shared::SharedArray,
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};
use tarpon_conn::Counters;

/// What it begins with.
pub(super) struct AuxStart<'a> {
    pub(super) admin: Option<Listener>,
    /// Another server answers there meanwhile.
    pub(super) is_successor: bool,
    pub(super) logs: &'a LogPlan,
    pub(super) rings: Option<&'a LogRings>,
    pub(super) stats: ServerStats,
    pub(super) counters: Arc<SharedArray<Counters>>,
    /// How many.
    pub(super) sites: usize,
    /// Its system calls are filtered.
    pub(super) in_calls: bool,
}

/// Runs until the control process lets go of it. Returns an exit status.
pub(super) fn run(start: AuxStart<'_>, channel: Channel) -> i32 {
    match attend(start, channel) {
        Ok(()) => 0,
        Err(error) => {
            tracing::warn!("the aux process failed: {error}");
            1
        }
    }
}

fn attend(start: AuxStart<'_>, channel: Channel) -> io::Result<()> {
    let AuxStart { admin: bound, is_successor, logs, rings, stats, counters, sites, in_calls } = start;
    let Channel { sender, mut receiver } = channel;
    let parent = Arc::new(MasterChannel(Mutex::new(sender)));
    let answer = |bound: &Listener, stats: Option<Arc<ServerStats>>| {
        let parent = Arc::clone(&parent);
        let ask = move |order, client| parent.send(&FromServer::Asked { order }, [client]);
        Admin::start_with(bound, stats, ask)
    };
    let log = rings.map(|rings| AccessLog::start(logs, rings, &counters)).transpose()?;
    let mut admin = bound.as_ref().filter(|_| !is_successor).map(|bound| answer(bound, None)).transpose()?;
    let mut may_begin_threads = is_successor && bound.is_some();
    if !may_begin_threads {
        // What it took to begin is not needed any more.
        sandbox::confine_begun_server(in_calls, false)?;
    }
    let stats = Arc::new(stats);
    let mut awaited: Vec<usize> = (0..sites).collect();
    while let Some((message, descriptors)) = receiver.receive()? {
        match message {
            ToServer::Site { is_earlier: true, .. } => {}
            ToServer::Site { site, record, .. } => {
                stats.read(site, record.file_count, record.content_len);
                awaited.retain(|&number| number != site);
                if !awaited.is_empty() {
                    continue;
                }
                if std::mem::take(&mut may_begin_threads) {
                    let stats = Some(Arc::clone(&stats));
                    admin = bound.as_ref().map(|bound| answer(bound, stats)).transpose()?;
                    sandbox::confine_begun_server(in_calls, false)?;
                }
                if let Some(admin) = &admin {
                    admin.set_stats(&stats);
                }
            }
            ToServer::Log { of } => {
                let parent = Arc::clone(&parent);
                let broken = move || parent.send(&FromServer::LogBroken { of }, []);
                if let (Some(log), Some(sink)) = (&log, journal::sink(descriptors, broken)) {
                    log.log_to(of, sink);
                }
            }
            ToServer::Stop { .. } => stats.stopping(),
            ToServer::Drain { .. } => {
                // Its successor answers there.
                drop(admin.take());
                stats.stopping();
            }
        }
    }
    if let Some(log) = log {
        log.end();
    }
    Ok(())
}

/// The process that has forked this one.
struct MasterChannel(Mutex<Sender>);

impl MasterChannel {
    fn send<const N: usize>(&self, message: &FromServer, descriptors: [OwnedFd; N]) {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Where nobody hears it this process is about to end, too.
        let _ = sender.send(message, &descriptors.into());
    }
}
