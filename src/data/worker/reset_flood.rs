//! Notices a flood of connections that their clients reset before they send anything, and has the kernel hold silent connections back.
//!
//! Such a connection costs a worker an accept, a receive and a close, and the kernel frees its memory later, on the same core: its thread for that
//! takes turns with the worker, and clients wait for milliseconds. A connection that the kernel holds back until its first byte costs the worker
//! nothing if it is reset before. At other times the kernel holds none back, as the worker could then neither limit silent clients nor end them (decision 53).

use super::Worker;
use crate::sys::socket;
use std::os::fd::OwnedFd;
use tarpon_conn::Tick;

/// Connections that are reset in silence within [`WINDOW_MS`] at which a flood begins. They cost a worker a hundredth of its core.
const RESET_COUNT: u32 = 256;

/// How long they count together, in milliseconds.
const WINDOW_MS: u64 = 1_000;

/// How long the kernel holds silent connections back, in milliseconds. Then the worker sees whether the flood goes on.
const HOLD_MS: u64 = 10_000;

/// How often the log tells of floods, in milliseconds.
const REPORT_MS: u64 = 60_000;

/// What a worker knows of a flood.
pub(super) struct ResetFlood {
    /// Connections that were reset since `since`.
    count: u32,
    since: Tick,
    /// Set while the kernel holds silent connections back.
    until: Option<Tick>,
    /// When the next line of the log is due.
    report_at: Tick,
}

impl ResetFlood {
    /// Lets the kernel hand over all connections: a worker that has died during a flood may have left it otherwise.
    pub(super) fn new(listeners: &[OwnedFd]) -> ResetFlood {
        hold_silent(listeners, false);
        ResetFlood { count: 0, since: Tick(0), until: None, report_at: Tick(0) }
    }

    /// Counts a connection that was reset in silence. Returns whether a flood begins with it.
    #[inline]
    fn count(&mut self, now: Tick) -> bool {
        if now >= self.since.after(WINDOW_MS) {
            (self.count, self.since) = (0, now);
        }
        self.count += 1;
        self.count >= RESET_COUNT && self.until.is_none()
    }

    /// Returns when the worker ends what it does against a flood.
    #[inline]
    pub(super) fn until(&self) -> Option<Tick> {
        self.until
    }
}

impl<S> Worker<S> {
    /// Counts a connection that its client has reset before it sent anything.
    #[inline]
    pub(super) fn count_silent_reset(&mut self) {
        if self.shutdown_mode.is_none() && self.reset_flood.count(self.context.now) {
            self.begin_reset_flood();
        }
    }

    #[cold]
    fn begin_reset_flood(&mut self) {
        let now = self.context.now;
        self.reset_flood.until = Some(now.after(HOLD_MS));
        if !hold_silent(&self.listeners, true) {
            return;
        }
        self.context.counters.reset_floods.add(1);
        if now >= self.reset_flood.report_at {
            self.reset_flood.report_at = now.after(REPORT_MS);
            tracing::warn!(
                "clients connect and reset at once: the kernel holds back connections until their first byte, for {} s; \
                 tarpon_reset_floods_total counts how often",
                HOLD_MS / 1_000
            );
        }
    }

    /// Lets the kernel hand over all connections again, if a flood has begun.
    #[cold]
    pub(super) fn end_reset_flood(&mut self) {
        if self.reset_flood.until.take().is_some() {
            self.reset_flood.count = 0;
            hold_silent(&self.listeners, false);
        }
    }
}

/// Returns whether one of the listeners can hold silent connections back. Those of Unix sockets cannot.
fn hold_silent(listeners: &[OwnedFd], holds: bool) -> bool {
    listeners.iter().filter(|listener| socket::hold_silent(listener, holds).is_ok()).count() > 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::data::worker::WorkerConfig;
    use crate::data::worker::mailbox::{ShutdownMode, WorkerMessage};
    use std::{
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    /// Accepts connections, and closes them as the engine does after an error.
    fn reset_in_silence(worker: &mut Worker<()>, count: u32) {
        for _ in 0..count {
            let pair = TcpListener::bind("127.0.0.1:0").unwrap();
            let _client = TcpStream::connect(pair.local_addr().unwrap()).unwrap();
            let index = worker.insert(pair.accept().unwrap().0.into(), 0).unwrap();
            worker.remove(index);
        }
    }

    #[test]
    fn many_resets_in_a_short_time_hold_silent_clients_back_for_a_while() {
        let cases = [
            // milliseconds, resets, silent clients are held back, floods
            (0, RESET_COUNT - 1, false, 0),
            (WINDOW_MS, RESET_COUNT - 1, false, 0),
            (WINDOW_MS + 1, 1, true, 1),
            (WINDOW_MS + 2, RESET_COUNT, true, 1),
            (WINDOW_MS + HOLD_MS, 0, true, 1),
            (WINDOW_MS + 1 + HOLD_MS, RESET_COUNT - 1, false, 1),
            (WINDOW_MS + 2 + HOLD_MS, 1, true, 2),
        ];
        let listener: OwnedFd = TcpListener::bind("127.0.0.1:0").unwrap().into();
        socket::hold_silent(&listener, true).unwrap();
        let listeners = vec![listener.try_clone().unwrap()];
        let mut worker: Worker<()> = Worker::new(WorkerConfig::for_test(8, listeners));
        for (ms, resets, is_held, floods) in cases {
            worker.advance_to(Tick(ms));
            reset_in_silence(&mut worker, resets);
            let got = (socket::is_holding_silent(&listener), worker.context.counters.reset_floods.get());
            assert_eq!(got, (is_held, floods), "{ms} ms");
        }
        assert!(worker.wait_ms().is_some_and(|ms| ms <= HOLD_MS), "the engine wakes up for the end");
        worker
            .mailbox
            .post(WorkerMessage::Shutdown { mode: ShutdownMode::Drain, grace: Duration::from_secs(60) });
        worker.read_messages();
        assert!(!socket::is_holding_silent(&listener), "another server may use the listener");
    }
}
