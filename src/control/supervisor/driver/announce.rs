//! Tells the user, systemd and the administrators what serves, and what came of their orders.

use super::{
    super::{
        Notice, ServingReport,
        event::{Announcement, AnnouncementKind, CallerId, OrderOutcome, ServingInfo},
    },
    Driver,
};
use crate::{
    base::settings::Settings,
    control::{admin::page, tls::self_signed::SelfSigned},
    sys::{io::output_has_room, socket::NO_SIGNAL},
};
use rustix::{
    net::{SendFlags, Shutdown, send, shutdown},
    process::getpid,
};
use tarpon_http::status::Status;

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Driver<'_> {
    /// Tells that a generation serves.
    pub(super) fn announce(&mut self, announcement: Announcement) {
        let Announcement { generation, kind, serving, sites, callers } = announcement;
        let Some(prepared) = self.generations.get(&generation) else { return };
        let ServingInfo { engine, fallback_reason, confinement } = serving;
        let service = &prepared.service;
        let sites = service.sites.iter().zip(sites).map(|(site, (files, len))| (site, files, len));
        let tls_addresses: Vec<_> =
            service.tls.listeners.iter().map(|(address, _)| address.clone()).collect();
        let report = ServingReport {
            sites: sites.collect(),
            addresses: self.listeners.bound_addresses(&service.addresses),
            tls_addresses: self.listeners.bound_addresses(&tls_addresses),
            fingerprint: prepared.tls.self_signed.as_ref().map(SelfSigned::fingerprint),
            settings: &Settings { engine, ..service.settings.clone() },
            fallback_reason: fallback_reason.as_deref(),
            confinement: &confinement,
            admin_error: self.listeners.admin_error(service),
        };
        let notice = match kind {
            AnnouncementKind::Started | AnnouncementKind::Upgraded => Notice::Serving(&report),
            AnnouncementKind::Reloaded => Notice::Reloaded(&report),
        };
        if output_has_room() {
            (self.emit)(notice);
        }
        let report = report.to_string();
        self.systemd.ready(&report);
        let text = match kind {
            AnnouncementKind::Started | AnnouncementKind::Reloaded => format!("reloaded: {report}"),
            AnnouncementKind::Upgraded => {
                format!("upgraded: process {}, tarpon {VERSION}; {report}", getpid().as_raw_nonzero())
            }
        };
        for caller in callers {
            self.answer(caller, Status::Ok, &text);
        }
    }

    /// Replies to an administrator whose order failed or was refused.
    pub(super) fn reply(&mut self, caller: CallerId, outcome: OrderOutcome) {
        match outcome {
            OrderOutcome::Failed(why) => self.answer(caller, Status::InternalServerError, &why),
            OrderOutcome::Refused(why) => self.answer(caller, Status::ServiceUnavailable, why),
        }
    }

    /// Writes a response to the connection of an administrator, and closes it. Reads nothing.
    fn answer(&mut self, caller: CallerId, status: Status, text: &str) {
        let Some(client) = self.callers.remove(&caller) else { return };
        // The words of the terminal, without its colours.
        let text = format!("{}\n", anstream::adapter::strip_str(text));
        // A new connection has room for the response. A client that has gone does not matter.
        let _ = send(&client, &page(status, &text).bytes(true), SendFlags::DONTWAIT | NO_SIGNAL);
        let _ = shutdown(&client, Shutdown::Write);
    }
}
