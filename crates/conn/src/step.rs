//! Decides the next step of a drive. Each engine takes the step in its own way, and queries the next one until it must wait for an event.

use crate::{Close, Connection, Input, Need, Party, Transport};

/// The state of a slot that only the engine knows.
#[derive(Clone, Copy, Debug)]
pub struct DriveState {
    /// Whether a send may find room: the socket is not known to be full, and no send is in flight.
    pub can_send: bool,
    /// Whether the loader reads missing pages for this slot.
    pub is_loading: bool,
    /// Whether the inbox has bytes that the connection has not seen, or has seen before a pause that has ended.
    pub has_new_input: bool,
    /// Whether the sending side of the socket is shut down.
    pub is_write_shut_down: bool,
}

/// The next step of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveStep {
    /// Close the socket.
    Close,
    /// Send the front of the outbox; load it first if it is not in memory. A transport that seals puts it into a record first, or sends a
    /// record of its own.
    Send,
    /// Load the [missing page](Connection::missing_page), and then call [`Connection::loaded`].
    Load,
    /// Run the [job of a password](Connection::take_password_job) on another thread, and then call [`Connection::verified`].
    Verify,
    /// Run the [step of the handshake](Transport::take_step), here or on another thread, and then call [`Transport::stepped`].
    Handshake,
    /// Give the keys of the transport to the kernel, or keep them: [`Transport::give_keys`], [`Transport::keep_keys`]. The socket has no
    /// receive in flight, and all that it received was offered.
    InstallKeys,
    /// Shut down the sending side of the socket.
    ShutDown,
    /// Offer the inbox to the connection.
    Offer,
    /// Read, as much as fits into the buffer of the inbox. Without bytes to read, wait for an event.
    Read,
    /// Receive content into [buffers of the connection](Connection::content_room). If the inbox is not empty, [read](DriveStep::Read) instead.
    ReadContent,
    /// Receive, and drop what was received.
    Discard,
    /// Wait for an event, and do not read.
    Pause,
}

impl Connection {
    /// Returns the next step.
    #[inline(always)]
    pub fn next_step(&self, transport: &Transport, slot: DriveState) -> DriveStep {
        self.usual_step(transport, slot).unwrap_or_else(|| self.any_step(transport, slot))
    }

    /// Returns the [next step](Connection::next_step) in the usual states, decided at a glance. `None`: it takes a closer look.
    #[inline(always)]
    pub fn usual_step(&self, transport: &Transport, slot: DriveState) -> Option<DriveStep> {
        let (Party::Client(client), Transport::Plain) = (&self.party, transport) else { return None };
        let step = client.usual_step(&self.wire, slot);
        debug_assert!(step.is_none_or(|step| step == self.any_step(transport, slot)));
        step
    }

    /// Returns the next step in any state. The order matters: the transport's own output, an alert too, leaves before the socket closes; after
    /// a time-out the rest of the outbox must not be sent; and while output is pending the connection waits for no page. A full socket delays
    /// no close.
    #[inline(never)]
    fn any_step(&self, transport: &Transport, slot: DriveState) -> DriveStep {
        let Need { input, close } = self.need();
        let has_output = !self.outbox().is_empty() && transport.takes_output();
        let has_own_output = transport.has_own_output(close, has_output);
        if has_own_output && slot.can_send {
            return DriveStep::Send;
        }
        if close == Close::Both && !transport.holds_close() {
            return DriveStep::Close;
        }
        if transport.offers_keys(close, has_output) {
            return DriveStep::InstallKeys;
        }
        if has_output && slot.can_send && !slot.is_loading {
            return DriveStep::Send;
        }
        if !has_output && !slot.is_loading && self.missing_page().is_some() {
            return DriveStep::Load;
        }
        if self.has_password_job() {
            return DriveStep::Verify;
        }
        if close == Close::Write && !slot.is_write_shut_down && !has_own_output {
            return DriveStep::ShutDown;
        }
        if transport.awaits_step() {
            return if transport.has_step() { DriveStep::Handshake } else { DriveStep::Pause };
        }
        match input {
            Input::Bytes | Input::Content | Input::Discard if slot.has_new_input => DriveStep::Offer,
            Input::Bytes => DriveStep::Read,
            Input::Content if matches!(transport, Transport::Plain) => DriveStep::ReadContent,
            Input::Discard if matches!(transport, Transport::Plain) => DriveStep::Discard,
            Input::Content | Input::Discard => DriveStep::Read,
            Input::Pause => DriveStep::Pause,
        }
    }
}
