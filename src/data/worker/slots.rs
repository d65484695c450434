//! Slots: the connections of one worker, each with the state that its engine keeps for it.

use super::{buffer_holders::HolderLink, timer_wheel::Timer};
use crate::data::probes;
use std::{os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{BufRange, ConnResources, Connection, DriveState, DriveStep, Pipes, Transport};

/// One connection with its socket. `S` is the engine's own state.
pub(crate) struct Slot<S> {
    pub(crate) fd: OwnedFd,
    pub(crate) conn: Connection,
    /// Between the socket and the connection.
    pub(crate) transport: Transport,
    /// Received bytes that the transport or the connection has not used.
    pub(crate) inbox: Option<BufRange>,
    /// The inbox has changed since it was last offered to the connection.
    pub(crate) inbox_changed: bool,
    /// The sending direction is shut down.
    pub(crate) write_closed: bool,
    /// The number of connections that the slot has held before.
    generation: u32,
    /// Held while the loader reads missing pages; the slot sends nothing meanwhile. Dropping it cancels the job.
    pub(crate) loading: Option<Arc<()>>,
    /// The engine's state of this socket.
    pub(crate) state: S,
}

impl<S: Default> Slot<S> {
    pub(super) fn new(fd: OwnedFd, conn: Connection, transport: Transport) -> Slot<S> {
        Slot {
            fd,
            conn,
            transport,
            inbox: None,
            inbox_changed: false,
            write_closed: false,
            generation: 0,
            loading: None,
            state: S::default(),
        }
    }
}

impl<S> Slot<S> {
    /// Returns the name of the connection, whose slot has this index.
    #[inline]
    pub(crate) fn id(&self, index: u32) -> SlotId {
        SlotId { index, generation: self.generation }
    }

    /// Returns whether the connection holds buffers of the pool.
    #[inline(always)]
    pub(crate) fn holds_buffers(&self, pipes: &Pipes) -> bool {
        self.inbox.is_some() || self.conn.holds_buffers(pipes) || self.transport.holds_buffers()
    }

    /// Returns the next step of a drive. `can_send`: the socket is not known to be full, and no send is in flight.
    #[inline(always)]
    pub(crate) fn next_step(&self, can_send: bool) -> DriveStep {
        self.conn
            .usual_step(&self.transport, self.drive_state(can_send))
            .unwrap_or_else(|| self.any_step(can_send))
    }

    #[inline(never)]
    fn any_step(&self, can_send: bool) -> DriveStep {
        self.conn.next_step(&self.transport, self.drive_state(can_send))
    }

    #[inline(always)]
    fn drive_state(&self, can_send: bool) -> DriveState {
        DriveState {
            can_send,
            is_loading: self.loading.is_some(),
            has_new_input: self.inbox_changed && (self.inbox.is_some() || self.transport.has_input()),
            is_write_shut_down: self.write_closed,
        }
    }

    /// Handles the end of the input. The caller has released the inbox.
    #[inline]
    pub(crate) fn ended(&mut self, cx: &mut ConnResources<'_>) {
        self.transport.ended(&mut self.conn, cx);
    }

    /// Handles the event that the engine has sent `len` bytes.
    #[inline]
    pub(crate) fn sent(&mut self, cx: &mut ConnResources<'_>, len: u64) {
        probes::bytes_sent(&self.fd, len);
        self.transport.sent(&mut self.conn, cx, len);
    }
}

/// Returns the memory that one idle connection takes in the tables of its worker, in bytes. A buffer is held only while bytes wait in it.
pub(crate) const fn idle_len<S>() -> usize {
    let (generation, free) = (size_of::<u32>(), size_of::<u32>());
    size_of::<Option<Slot<S>>>() + generation + free + size_of::<Timer>() + size_of::<HolderLink>()
}

/// Identifies a connection, and not a later one in the same slot.
#[derive(Clone, Copy)]
pub(crate) struct SlotId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The connections of one worker.
pub(crate) struct Slots<S> {
    pub(super) slots: Vec<Option<Slot<S>>>,
    /// Number of connections that each slot has held, without an open one: an event with an older generation is for a closed connection.
    generations: Vec<u32>,
    free: Vec<u32>,
    count: usize,
    /// The number of those with a client.
    client_count: usize,
    count_max: usize,
}

impl<S> Slots<S> {
    pub(super) fn new(count_max: usize) -> Slots<S> {
        Slots {
            slots: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            count: 0,
            client_count: 0,
            count_max,
        }
    }

    /// Allocates the memory for this many connections.
    pub(super) fn reserve(&mut self, count: usize) {
        self.slots.reserve(count);
        self.generations.reserve(count);
        self.free.reserve(count);
    }

    /// Returns the index that the next connection gets.
    pub(super) fn next_index(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub(super) fn insert(&mut self, mut slot: Slot<S>) -> u32 {
        self.count += 1;
        self.client_count += usize::from(slot.conn.is_client());
        if let Some(index) = self.free.pop() {
            slot.generation = self.generations[index as usize];
            self.slots[index as usize] = Some(slot);
            return index;
        }
        self.slots.push(Some(slot));
        self.generations.push(0);
        self.slots.len() as u32 - 1
    }

    pub(super) fn remove(&mut self, index: u32) -> Slot<S> {
        self.count -= 1;
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
        let slot = self.slots[index as usize].take().expect("a slot is removed once");
        self.client_count -= usize::from(slot.conn.is_client());
        slot
    }

    /// Returns the connection in a slot, if there is one.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Slot<S>> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Returns the connection of this name, if it is open.
    #[inline]
    pub(crate) fn find(&mut self, id: SlotId) -> Option<&mut Slot<S>> {
        self.get_mut(id.index).filter(|slot| slot.generation == id.generation)
    }

    /// Returns the indices of all slots in use.
    pub(crate) fn indices(&self) -> Vec<u32> {
        (0..self.slots.len()).filter(|&index| self.slots[index].is_some()).map(|index| index as u32).collect()
    }

    /// Returns the number of connections with a client.
    #[inline]
    pub(crate) fn client_count(&self) -> usize {
        self.client_count
    }

    /// Returns whether any connection is with a client.
    pub(crate) fn has_clients(&self) -> bool {
        self.client_count > 0
    }

    /// Returns whether there are as many connections as there may be.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.count_max
    }
}
