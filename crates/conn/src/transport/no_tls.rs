//! The transport of a build without TLS: none of these values can exist, so the compiler removes the code that handles them.

use super::{SealedRecord, TransportError};
use crate::{BufRange, Close, ConnResources, Connection, Pool};
use std::sync::Arc;

/// A connection in sealed records. There is none.
#[derive(Debug)]
pub enum Sealed {}

/// A step of a handshake. There is none.
#[derive(Debug)]
pub enum HandshakeStep {}

/// What clients of TLS get. There is none.
#[derive(Debug)]
pub enum TlsServerConfig {}

impl HandshakeStep {
    /// Returns whether this is the first step of a connection with a client.
    #[must_use]
    pub fn is_first(&self) -> bool {
        match *self {}
    }

    /// Ends the connection in place of a step that has panicked.
    pub fn fail(&mut self) {
        match *self {}
    }

    /// Does the step.
    pub fn run(&mut self) {
        match *self {}
    }
}

impl Sealed {
    pub(super) fn tls(config: &Arc<TlsServerConfig>) -> Result<Sealed, TransportError> {
        match **config {}
    }

    pub(super) fn received(
        &mut self,
        _: &mut Connection,
        _: &mut ConnResources<'_>,
        _: BufRange,
    ) -> Result<usize, TransportError> {
        match *self {}
    }

    pub(super) fn is_silent(&self) -> bool {
        match *self {}
    }

    pub(super) fn take_step(&mut self) -> Option<Box<HandshakeStep>> {
        match *self {}
    }

    pub(super) fn has_step(&self) -> bool {
        match *self {}
    }

    pub(super) fn awaits_step(&self) -> bool {
        match *self {}
    }

    pub(super) fn stepped(
        &mut self,
        _: &mut Connection,
        _: &mut ConnResources<'_>,
        _: HandshakeStep,
    ) -> Result<(), TransportError> {
        match *self {}
    }

    pub(super) fn ended(&mut self, _: &mut Connection, _: &mut ConnResources<'_>) {
        match *self {}
    }

    pub(super) fn record_len(
        &mut self,
        _: &Connection,
        _: &mut Pool,
    ) -> Result<Option<usize>, TransportError> {
        match *self {}
    }

    pub(super) fn seal(&mut self, _: &mut Pool, _: &[u8]) -> Result<SealedRecord, TransportError> {
        match *self {}
    }

    pub(super) fn queue(&mut self, _: SealedRecord) {
        match *self {}
    }

    pub(super) fn queued(&self) -> Option<BufRange> {
        match *self {}
    }

    pub(super) fn has_more(&self, _: &Connection) -> bool {
        match *self {}
    }

    pub(super) fn sent(&mut self, _: &mut Connection, _: &mut ConnResources<'_>, _: u64) {
        match *self {}
    }

    pub(super) fn offers_keys(&self) -> bool {
        match *self {}
    }

    pub(super) fn takes_output(&self) -> bool {
        match *self {}
    }

    pub(super) fn sent_len(&self) -> u64 {
        match *self {}
    }

    pub(super) fn has_input(&self) -> bool {
        match *self {}
    }

    pub(super) fn holds_buffers(&self) -> bool {
        match *self {}
    }

    pub(super) fn has_own_output(&self, _: Close, _: bool) -> bool {
        match *self {}
    }

    pub(super) fn drop_input(&mut self, _: &mut Pool) {
        match *self {}
    }

    pub(super) fn release(&mut self, _: &mut Pool) {
        match *self {}
    }
}
