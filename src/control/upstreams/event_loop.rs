//! The event loop of the helper: requests of workers, addresses of names, connections and checks, in one poll(2).

use super::{
    inbox::{Inbox, InboxItem},
    message::FromUpstreams,
    report_log::ReportLog,
    resolve::Resolver,
    server::{HelperServer, ServerContext, ServerSetup, ServerWait},
};
use crate::{
    control::process::clock::{MonotonicClock, whole_ms},
    data::upstreams::{connect::ConnectOutcome, table::UpstreamTable},
    sys::poll::{PollEntry, poll},
};
use libc::POLLIN;
use rustix::io::Errno;
use std::{os::fd::AsFd, sync::Arc, thread, time::Duration};

/// The state of the event loop.
pub(super) struct UpstreamLoop<F> {
    inbox: Arc<Inbox>,
    table: Arc<UpstreamTable>,
    servers: Vec<HelperServer>,
    resolver: Resolver,
    log: ReportLog,
    clock: MonotonicClock,
    report: F,
}

/// How long the loop waits before it polls again after poll(2) has failed: the system is out of memory.
const POLL_RETRY_TIME: Duration = Duration::from_millis(10);

impl<F: FnMut(&FromUpstreams)> UpstreamLoop<F> {
    /// Returns the loop. `report` gets what the supervisor should know.
    pub(super) fn new(
        setups: Vec<ServerSetup>,
        inbox: Arc<Inbox>,
        table: Arc<UpstreamTable>,
        resolver: Resolver,
        log: ReportLog,
        report: F,
    ) -> UpstreamLoop<F> {
        let servers = setups.into_iter().enumerate();
        let servers = servers.map(|(number, setup)| HelperServer::new(number, setup, &table)).collect();
        UpstreamLoop { inbox, table, servers, resolver, log, clock: MonotonicClock::new(), report }
    }

    /// Runs as long as the process.
    pub(super) fn run(mut self) -> ! {
        loop {
            self.turn();
            self.wait();
        }
    }

    /// Does what is possible without waiting.
    fn turn(&mut self) {
        let (mut messages, mut look_up, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        let UpstreamLoop { inbox, table, servers, log, clock, .. } = self;
        let now = clock.now();
        log.turn(now, table);
        let mut cx = ServerContext {
            now,
            table,
            messages: &mut messages,
            failures: &mut failures,
            look_up: &mut look_up,
        };
        for item in inbox.take() {
            match item {
                InboxItem::Request(request, reply) => match servers.get_mut(usize::from(request.server)) {
                    Some(server) => server.request(request, reply, now),
                    // No worker of ours asks for it.
                    None => reply.send(Ok(ConnectOutcome::Unreachable), None),
                },
                InboxItem::Addresses(number, addresses) => {
                    if let Some(server) = servers.get_mut(number) {
                        server.resolved(addresses, &mut cx);
                    }
                }
            }
        }
        servers.iter_mut().for_each(|server| server.drive(&mut cx));
        failures.into_iter().for_each(|(server, reason)| log.failed(now, server, &reason));
        messages.iter().for_each(&mut self.report);
        look_up.into_iter().for_each(|server| self.resolver.look_up_soon(server));
    }

    /// Waits for an event or the next deadline.
    fn wait(&mut self) {
        let mut polled = vec![PollEntry::new(self.inbox.as_fd(), POLLIN)];
        polled.extend(self.log.polled());
        let own_count = polled.len();
        for server in &mut self.servers {
            server.each_wait(|wait| polled.extend(wait.polled()));
        }
        let now = self.clock.now();
        let deadlines = self.servers.iter().filter_map(|server| server.deadline(&self.table, now));
        let wait_ms = deadlines.chain(self.log.deadline()).min().map(|at| whole_ms(self.clock.until(at)));
        match poll(&mut polled, wait_ms) {
            Ok(_) => {}
            Err(Errno::INTR) => return,
            Err(_) => return thread::sleep(POLL_RETRY_TIME),
        }
        let mut events = polled[own_count..].iter().map(|entry| entry.revents() != 0);
        for server in &mut self.servers {
            // In the same order.
            server.each_wait(|wait| {
                if wait.polled().is_some() && events.next() == Some(true) {
                    wait.set_ready();
                }
            });
        }
    }
}

impl ServerWait<'_> {
    fn polled(&self) -> Option<PollEntry> {
        match self {
            ServerWait::Attempt(attempt) => attempt.polled(),
            ServerWait::Check(check) => check.polled(),
        }
    }

    fn set_ready(self) {
        match self {
            ServerWait::Attempt(attempt) => attempt.set_ready(),
            ServerWait::Check(check) => check.set_ready(),
        }
    }
}
