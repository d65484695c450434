//! The channels to the workers of `fork`. A worker that exits leaves its channel to a later one: making and closing one costs more than most
//! of what a worker does for a request.
//!
//! ```text
//! new ─▶ spare ── a client ──▶ of a worker ── exited, and no message has passed ──▶ spare
//!                                   └─ any other end ──▶ closed
//! ```

use super::worker_process;
use crate::{
    control::process::{ProcessId, channel::Channel, map::ProcessMap},
    data::worker::mailbox::Mailbox,
    site::versions::SiteHistory,
};
use std::{io, sync::Arc};

/// The channels to workers.
#[derive(Default)]
pub(super) struct WorkerChannels {
    spare: Vec<WorkerChannel>,
    /// The other ends of the channels to workers that run.
    mailboxes: ProcessMap<Arc<Mailbox>>,
}

/// A channel to a worker.
pub(super) struct WorkerChannel {
    /// The end of the master.
    pub(super) ours: Box<Channel>,
    /// The end of the worker.
    pub(super) mailbox: Arc<Mailbox>,
}

/// As many channels stay spare, at most: they take descriptors.
const SPARE_COUNT_MAX: usize = 16;

impl WorkerChannels {
    /// Makes a channel, unless one is spare. `histories`: the sites that its worker starts with.
    pub(super) fn prepare(&mut self, histories: impl FnOnce() -> Arc<Vec<SiteHistory>>) -> io::Result<()> {
        if self.spare.is_empty() {
            let (ours, theirs) = Channel::nonblocking_pair()?;
            let mailbox = Arc::new(worker_process::mailbox(theirs, histories()));
            self.spare.push(WorkerChannel { ours: Box::new(ours), mailbox });
        }
        Ok(())
    }

    /// Returns the channel for the next worker.
    pub(super) fn next(&self) -> Option<&WorkerChannel> {
        self.spare.last()
    }

    /// Takes the channel of a worker that runs now, and returns the end of the master.
    pub(super) fn begin(&mut self, process: ProcessId) -> Option<Box<Channel>> {
        let WorkerChannel { ours, mailbox } = self.spare.pop()?;
        self.mailboxes.insert(process, mailbox);
        Some(ours)
    }

    /// Keeps the channel of a worker that has exited as it should, if nothing of that worker is left in it.
    pub(super) fn end(&mut self, process: ProcessId, ours: Option<Box<Channel>>, is_success: bool) {
        let (Some(mailbox), Some(ours)) = (self.mailboxes.remove(process), ours) else { return };
        if is_success && self.spare.len() < SPARE_COUNT_MAX && ours.is_unused() {
            self.spare.push(WorkerChannel { ours, mailbox });
        }
    }

    /// Closes the spare channels: the sites have changed, or descriptors are short.
    pub(super) fn clear(&mut self) {
        self.spare.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::process::ProcessTable;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn channel_serves_another_worker_unless_a_message_has_passed_or_the_worker_failed() {
        let (mut table, mut channels) = (ProcessTable::default(), WorkerChannels::default());
        let mut next = |channels: &mut WorkerChannels| {
            channels.prepare(Arc::default).unwrap();
            let mailbox = Arc::clone(&channels.next().unwrap().mailbox);
            let process = table.add(());
            (process, channels.begin(process).unwrap(), mailbox)
        };
        let (process, ours, first) = next(&mut channels);
        let number = ours.as_fd().as_raw_fd();
        channels.end(process, Some(ours), true);
        let (process, mut ours, again) = next(&mut channels);
        assert!(ours.as_fd().as_raw_fd() == number && Arc::ptr_eq(&first, &again));

        ours.sender.send(&"to the worker").unwrap();
        channels.end(process, Some(ours), true);
        let (process, ours, mailbox) = next(&mut channels);
        assert!(!Arc::ptr_eq(&first, &mailbox));

        Channel::new(mailbox.as_fd().try_clone_to_owned().unwrap()).sender.send(&"from the worker").unwrap();
        channels.end(process, Some(ours), true);
        let (process, ours, failed) = next(&mut channels);
        assert!(!Arc::ptr_eq(&mailbox, &failed));

        channels.end(process, Some(ours), false);
        assert!(channels.next().is_none());
    }

    #[test]
    fn few_channels_stay_spare() {
        let (mut table, mut channels) = (ProcessTable::default(), WorkerChannels::default());
        let begun: Vec<_> = (0..SPARE_COUNT_MAX + 2)
            .map(|_| {
                channels.prepare(Arc::default).unwrap();
                let process = table.add(());
                (process, channels.begin(process).unwrap())
            })
            .collect();
        for (process, ours) in begun {
            channels.end(process, Some(ours), true);
        }
        assert_eq!(channels.spare.len(), SPARE_COUNT_MAX);
        channels.clear();
        assert!(channels.next().is_none());
    }
}
