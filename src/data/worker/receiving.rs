//! Receiving: hands received bytes to connections and keeps the bytes that they have not used.

use super::{context::WorkerContext, slots::Slot};
use crate::{data::probes, sys::io};
use rustix::io::{Errno, retry_on_intr};
use std::io::IoSliceMut;
use tarpon_conn::{BufRange, HandshakeStep, Input, SiteId, TransportError};

/// The connection must close: the buffer pool is empty, a record is invalid, or a file behind the response was truncated.
pub(crate) struct SendError;

impl WorkerContext {
    /// Offers `run` to the connection and keeps the unused rest. `run` is the inbox, or lies in the scratch buffer.
    #[inline(always)]
    pub(crate) fn offer<S>(&mut self, slot: &mut Slot<S>, run: BufRange) -> Result<(), SendError> {
        let mut used = self.receive(slot, run)?;
        while let Some(missing) = slot.conn.missing_page()
            && self.is_resident(missing)
        {
            slot.conn.loaded();
            used += self.receive(slot, run.skip(used))?;
        }
        if self.is_any_source_damaged() {
            return Err(SendError);
        }
        let rest = run.skip(used);
        match (slot.inbox, rest.len) {
            (None, 0) => {}
            (None, _) => self.keep_in_inbox(slot, rest)?,
            (Some(_), 0) => self.release_inbox(slot),
            (Some(_), _) => slot.inbox = Some(rest),
        }
        // After a pause the connection must see the same bytes again, without new ones.
        slot.inbox_changed = used > 0 || slot.conn.need().input == Input::Pause;
        Ok(())
    }

    /// Offers the inbox to the connection. Without one, offers the plain bytes that wait in the transport.
    #[inline(never)]
    pub(crate) fn offer_inbox<S>(&mut self, slot: &mut Slot<S>) -> Result<(), SendError> {
        match slot.inbox {
            Some(inbox) => self.offer(slot, inbox),
            None if slot.transport.has_input() => {
                self.offer(slot, BufRange { buf: self.scratch, at: 0, len: 0 })
            }
            None => Ok(()),
        }
    }

    /// Receives content of a backend into buffers of the pool, which the connection passes on. The inbox is empty. Returns the result of the
    /// call, and how many bytes there was room for. `None`: there is none, and the next step is another one.
    #[inline(never)]
    pub(crate) fn receive_content<S>(&mut self, slot: &mut Slot<S>) -> Option<(Result<usize, Errno>, usize)> {
        let room = slot.conn.content_room(&mut self.conn_resources())?;
        let room_len = room.capacity();
        let mut parts = self.pool.ranges_mut(room.parts()).map(IoSliceMut::new);
        let received = retry_on_intr(|| io::receive_gathered(&slot.fd, &mut parts));
        slot.conn.content_received(&mut self.conn_resources(), room, received.unwrap_or(0));
        Some((received, room_len))
    }

    /// Takes the next step of a handshake, for another thread. Without such threads runs it here, and returns `None`.
    #[cold]
    pub(crate) fn take_handshake_step<S>(
        &mut self,
        slot: &mut Slot<S>,
    ) -> Result<Option<Box<HandshakeStep>>, SendError> {
        let Some(mut step) = slot.transport.take_step() else { return Ok(None) };
        if !self.runs_handshakes {
            return Ok(Some(step));
        }
        step.run();
        self.stepped(slot, step).map(|()| None)
    }

    /// Handles the end of a step of a handshake.
    #[cfg_attr(not(feature = "tls"), expect(clippy::boxed_local, reason = "no such step exists without TLS"))]
    pub(super) fn stepped<S>(
        &mut self,
        slot: &mut Slot<S>,
        step: Box<HandshakeStep>,
    ) -> Result<(), SendError> {
        let Slot { transport, conn, .. } = slot;
        let stepped = transport.stepped(conn, &mut self.conn_resources(), *step);
        // The connection sees the bytes that the step has not used.
        slot.inbox_changed = true;
        stepped.map_err(|TransportError| SendError)
    }

    #[inline]
    fn receive<S>(&mut self, slot: &mut Slot<S>, run: BufRange) -> Result<usize, SendError> {
        let Slot { fd, transport, conn, .. } = slot;
        let used = transport.received(conn, &mut self.conn_resources(), run);
        probes::bytes_received(fd, used.unwrap_or(0));
        used.map_err(|TransportError| SendError)
    }

    /// Makes a run of the scratch buffer the inbox. The connection keeps that buffer, and a new one becomes the scratch buffer.
    pub(crate) fn keep_in_inbox<S>(&mut self, slot: &mut Slot<S>, run: BufRange) -> Result<(), SendError> {
        self.scratch = self.pool.take().ok_or(SendError)?;
        slot.inbox = Some(run);
        slot.inbox_changed = true;
        Ok(())
    }

    /// Drops the unused bytes of a connection and frees their buffer.
    pub(crate) fn release_inbox<S>(&mut self, slot: &mut Slot<S>) {
        if let Some(run) = slot.inbox.take() {
            self.pool.release(run.buf);
        }
    }

    /// Returns whether a file behind the last responses was truncated.
    #[inline(always)]
    pub(super) fn is_any_source_damaged(&mut self) -> bool {
        if !self.any_on_disk {
            return false;
        }
        let earlier_used = self.sites.take_earlier_used();
        for site in self.sites.take_requested() {
            let current = self.sites.current_id(site);
            if self.served(current).is_image_damaged() || earlier_used && self.drop_damaged(site) {
                return true;
            }
        }
        false
    }

    /// Stops serving earlier versions whose files were truncated. Returns whether there were any.
    #[cold]
    pub(super) fn drop_damaged(&mut self, site: SiteId) -> bool {
        let current = self.sites.current_id(site);
        let (damaged, sound): (Vec<_>, Vec<_>) =
            self.sites.earlier(site).iter().partition(|&&image| self.site(image).is_damaged());
        if damaged.is_empty() {
            return false;
        }
        self.sites.serve(site, current, sound);
        true
    }
}
