//! The listening sockets of all generations. A generation has those that its configuration names; one that no generation names
//! any more is closed by the last process that has it, when it has served who waits there.

use super::Service;
use crate::{
    error::Trouble,
    listen::{Address, Bound, SocketFile},
};
use std::{
    fs::DirBuilder,
    mem,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::DirBuilderExt,
    },
};

/// Sockets, by the address that was asked for.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    bound: Vec<(Address, Bound)>,
    /// Of Unix sockets. A child has none of them: it must not remove what it has not made.
    files: Vec<(Address, SocketFile)>,
}

impl Listeners {
    /// Listens where a service wants to and nobody listens yet. Returns where that is.
    ///
    /// # Errors
    /// One cannot be had; then none is added.
    pub(super) fn add(&mut self, service: &Service) -> Result<Vec<Address>, Trouble> {
        let mut added = Vec::new();
        let socket_count = service.settings.socket_count();
        let clients = service.addresses.iter().map(|address| (address, socket_count));
        for (address, socket_count) in clients.chain(service.admin.iter().map(|address| (address, 1))) {
            if self.has(address) {
                continue;
            }
            let is_usual = service.admin_is_usual && service.admin.as_ref() == Some(address);
            if is_usual {
                make_place(address);
            }
            match Bound::new(address, socket_count) {
                Ok(mut bound) => {
                    self.files.extend(bound.take_file().map(|file| (address.clone(), file)));
                    self.bound.push((address.clone(), bound));
                    added.push(address.clone());
                }
                Err(_) if is_usual => {}
                Err(trouble) => {
                    self.remove(&added);
                    return Err(trouble);
                }
            }
        }
        Ok(added)
    }

    /// Whether there is a listener that was asked for by this address.
    pub(super) fn has(&self, address: &Address) -> bool {
        self.bound.iter().any(|(known, _)| known == address)
    }

    /// Listens no longer there. What waits is served by who still has the socket.
    pub(super) fn remove(&mut self, addresses: &[Address]) {
        self.bound.retain(|(address, _)| !addresses.contains(address));
        self.files.retain(|(address, _)| !addresses.contains(address));
    }

    /// Listens where a service wants to, and nowhere else.
    pub(super) fn keep(&mut self, service: &Service) {
        let is_wanted = |address: &Address| {
            service.addresses.contains(address) || service.admin.as_ref() == Some(address)
        };
        self.bound.retain(|(address, _)| is_wanted(address));
        self.files.retain(|(address, _)| is_wanted(address));
    }

    /// Closes all sockets; their files stay until the end.
    pub(super) fn close(&mut self) {
        self.bound.clear();
    }

    /// The numbers of all sockets: a child has to have them, to take or to close them.
    pub(super) fn numbers(&self) -> Vec<RawFd> {
        let sockets = self.bound.iter().flat_map(|(_, bound)| bound.sockets());
        sockets.map(AsRawFd::as_raw_fd).collect()
    }

    /// In a child, which has a memory of its own: takes those for clients and that of the admin, and closes the others.
    pub(super) fn take(&mut self, service: &Service) -> (Vec<Bound>, Option<Bound>) {
        let (mut clients, mut admin) = (Vec::new(), None);
        for (address, bound) in mem::take(&mut self.bound) {
            if service.admin.as_ref() == Some(&address) {
                admin = Some(bound);
            } else if service.addresses.contains(&address) {
                clients.push(bound);
            }
        }
        (clients, admin)
    }

    /// Where a generation with these addresses listens, with the ports that the kernel chose.
    pub(super) fn at<'a>(&'a self, addresses: &'a [Address]) -> Vec<&'a Address> {
        let bound = self.bound.iter().filter(|(address, _)| addresses.contains(address));
        bound.map(|(_, bound)| bound.address()).collect()
    }
}

/// Makes the directory of a socket that nobody was asked to make one for. Where that fails, so does listening there.
fn make_place(address: &Address) {
    if let Address::Unix(path) = address
        && let Some(directory) = path.parent()
    {
        let _ = DirBuilder::new().mode(0o755).create(directory);
    }
}
