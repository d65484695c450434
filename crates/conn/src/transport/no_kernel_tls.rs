//! Kernel TLS in a build without TLS: none of these values can exist, so the compiler removes the code that handles them.

use crate::{BufRange, Close, ConnResources, Connection, Tick};

/// A connection in records of the kernel. There is none.
#[derive(Debug)]
pub enum KernelTls {}

/// A record of another kind than data. There is none.
#[derive(Clone, Copy, Debug)]
pub enum OwnRecord {}

impl KernelTls {
    pub(super) fn received(&mut self, _: &mut Connection, _: &mut ConnResources<'_>, _: BufRange) -> usize {
        match *self {}
    }

    pub(super) fn ended(&mut self, _: &mut Connection, _: &mut ConnResources<'_>) {
        match *self {}
    }

    pub(super) fn prepare_close(&mut self, _: Close, _: bool) {
        match *self {}
    }

    pub(super) fn own_record(&self) -> Option<OwnRecord> {
        match *self {}
    }

    pub(super) fn sent(&mut self, _: &mut Connection, _: &mut ConnResources<'_>, _: u64) {
        match *self {}
    }

    pub(super) fn sent_len(&self) -> u64 {
        match *self {}
    }

    pub(super) fn holds_close(&self) -> bool {
        match *self {}
    }

    pub(super) fn sends_outbox(&self, _: &Connection) -> bool {
        match *self {}
    }

    pub(super) fn deadline(&self, _: Tick) -> Tick {
        match *self {}
    }

    pub(super) fn expired(&mut self, _: Tick) {
        match *self {}
    }

    pub(super) fn drop_input(&mut self) {
        match *self {}
    }

    pub(super) fn has_own_output(&self, _: Close, _: bool) -> bool {
        match *self {}
    }
}
