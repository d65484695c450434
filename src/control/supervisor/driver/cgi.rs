//! Ends the helpers that run CGI programs: each gets some time to kill and reap its programs, which would outlive it otherwise.

use super::{super::event::ProcessStart, Driver};
use crate::control::{
    helpers::HelperKind,
    process::{ProcessId, clock},
};
use std::time::Duration;

/// How long a helper may take to end its programs. It kills them, so this takes milliseconds.
const END_TIME: Duration = Duration::from_secs(2);

impl Driver<'_> {
    /// Ends a process: at once, or a CGI helper after its programs.
    pub(super) fn end_process(&mut self, process: ProcessId) {
        let is_cgi = matches!(self.starts.get(&process), Some(ProcessStart::Helper(_, HelperKind::Cgi)));
        let is_ending = self.ending_helpers.iter().any(|(ending, _)| *ending == process);
        if !is_cgi || is_ending {
            return self.children.kill(process);
        }
        self.children.end_messages(process);
        self.ending_helpers.push((process, clock::after(self.clock.now(), END_TIME)));
    }

    /// Kills the helpers that have not ended in time.
    pub(super) fn kill_overdue_helpers(&mut self) {
        let now = self.clock.now();
        let (children, starts) = (&self.children, &self.starts);
        self.ending_helpers.retain(|(process, deadline)| {
            if *deadline <= now {
                children.kill(*process);
            }
            *deadline > now && starts.contains_key(process)
        });
    }

    /// Notes that a process has exited.
    pub(super) fn cgi_helper_exited(&mut self, process: ProcessId) {
        self.ending_helpers.retain(|(ending, _)| *ending != process);
        let is_cgi = |start: &ProcessStart| matches!(start, ProcessStart::Helper(_, HelperKind::Cgi));
        if !self.starts.values().any(is_cgi)
            && let Some(stats) = &self.cgi_stats
        {
            stats.reset();
        }
    }
}
