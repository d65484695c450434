//! Who gave an order at the admin listener, and waits to be told what came of it.
//!
//! His connection has come from a server process, which may end before there is an answer: the supervisor has it, writes one
//! response to it, and reads nothing.

use crate::{control::admin::page, sys::socket::NO_SIGNAL};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::os::fd::OwnedFd;
use tarpon_http::status::Status;

/// A connection with one request, which has not been answered.
#[derive(Debug)]
pub(super) struct Caller(pub(super) OwnedFd);

impl Caller {
    /// It is done.
    pub(super) fn tell_done(self, what: &str) {
        self.answer(Status::Ok, what);
    }

    /// It cannot be done, for this reason.
    pub(super) fn tell_undone(self, why: &str) {
        self.answer(Status::InternalServerError, why);
    }

    /// It was not even tried, for this reason.
    pub(super) fn refuse(self, why: &str) {
        self.answer(Status::ServiceUnavailable, why);
    }

    fn answer(self, status: Status, text: &str) {
        let Caller(client) = self;
        // As on a terminal, but without its colours.
        let text = format!("{}\n", anstream::adapter::strip_str(text));
        // There is room for more than anybody says here. Who does not take it has gone.
        let flags = SendFlags::DONTWAIT | NO_SIGNAL;
        let _ = send(&client, &page(status, &text).bytes(true), flags);
        let _ = shutdown(&client, Shutdown::Write);
    }
}
