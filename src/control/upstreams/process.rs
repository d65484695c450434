//! The process `tarpon-net` of upstream servers: keeps the right to connect to them, and no other.

use super::{
    event_loop::UpstreamLoop,
    inbox::{Inbox, InboxItem},
    message::FromUpstreams,
    report_log::ReportLog,
    resolve::Resolver,
    service::UpstreamService,
};
use crate::control::{
    helpers::serve,
    process::channel::Channel,
    sandbox::{self, Privileges},
};
use std::{io, sync::Arc, thread};

/// What the process starts with.
#[derive(Clone, Copy)]
pub(crate) struct UpstreamStart<'a> {
    pub(crate) service: &'a UpstreamService,
    pub(crate) privileges: &'a Privileges,
}

/// Runs until the supervisor exits or kills it. Returns an exit status.
pub(crate) fn run(start: UpstreamStart<'_>, channel: Channel) -> i32 {
    match confine_and_serve(start, channel) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("tarpon: the process tarpon-net cannot continue: {why}");
            1
        }
    }
}

fn confine_and_serve(
    UpstreamStart { service, privileges }: UpstreamStart<'_>,
    channel: Channel,
) -> Result<(), String> {
    let in_words = |error: io::Error| error.to_string();
    let setups = service.setups();
    privileges.assume().map_err(|error| error.to_string())?;
    // Before the first thread: each begins with the restrictions of this one.
    sandbox::confine_upstreams(privileges, &service.ports(), &service.socket_directories())
        .map_err(in_words)?;
    let inbox = Arc::new(Inbox::new().map_err(in_words)?);
    let resolved = Arc::clone(&inbox);
    let resolver = Resolver::start(service.names(), move |server, addresses| {
        resolved.push(InboxItem::Addresses(server, addresses));
    })
    .map_err(in_words)?;
    let mut sender = channel.sender;
    // Fails if the supervisor has exited, which ends this process, too.
    let report = move |message: &FromUpstreams| drop(sender.send(message));
    let log = ReportLog::new(service.reports().clone(), service.described(), &service.table());
    let event_loop = UpstreamLoop::new(setups, Arc::clone(&inbox), service.table(), resolver, log, report);
    let run = move || event_loop.run();
    thread::Builder::new().name("connections".to_owned()).spawn(run).map_err(in_words)?;
    serve(service.helper(), |request, reply| inbox.push(InboxItem::Request(request, reply))).map_err(in_words)
}
