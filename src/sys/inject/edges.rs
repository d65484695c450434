//! Events of epoll that belong to injected faults.
//!
//! A socket that returns fewer bytes than asked for, or EAGAIN, is drained or full: the engine waits for the next edge. The fault
//! pretends that the rest comes later, so that edge must come later too. `EPOLL_CTL_MOD` raises it: the kernel reports the
//! present state of the socket once more, as it does when bytes arrive.

use super::seeded::is_active;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

thread_local! {
    static EDGES: RefCell<Edges> = RefCell::default();
}

/// The edge-triggered sockets of a thread.
#[derive(Default)]
struct Edges {
    watched: HashMap<RawFd, (u64, EventFlags)>,
    /// Sockets of which a fault has held something back.
    owed: Vec<RawFd>,
}

/// Notes that epoll watches a descriptor.
pub(crate) fn watched(descriptor: impl AsFd, data: EventData, flags: EventFlags) {
    if !is_active() {
        return;
    }
    let number = descriptor.as_fd().as_raw_fd();
    EDGES.with_borrow_mut(|edges| match flags.contains(EventFlags::ET) {
        true => drop(edges.watched.insert(number, (data.u64(), flags))),
        false => drop(edges.watched.remove(&number)),
    });
}

/// Notes that a fault has held back something that the socket can do. If epoll does not watch it yet, its registration raises the
/// event.
pub(super) fn held_back(socket: impl AsFd) {
    let number = socket.as_fd().as_raw_fd();
    EDGES.with_borrow_mut(|edges| {
        if edges.watched.contains_key(&number) {
            edges.owed.push(number);
        }
    });
}

/// Raises the events of all sockets that were held back.
pub(crate) fn raise_edges(epoll: impl AsFd) {
    if !is_active() {
        return;
    }
    EDGES.with_borrow_mut(|Edges { watched, owed }| {
        for number in owed.drain(..) {
            let Some(&(data, flags)) = watched.get(&number) else { continue };
            // SAFETY: the call only names the number. If the socket is closed, the call fails, or a new socket of the same number
            // gets an event too many, which engines allow for.
            let socket = unsafe { BorrowedFd::borrow_raw(number) };
            if epoll::modify(&epoll, socket, EventData::new_u64(data), flags).is_err() {
                watched.remove(&number);
            }
        }
    });
}
