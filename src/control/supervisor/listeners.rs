//! The listening sockets of all generations. A generation has those that its configuration names; one that no generation names
//! any more is closed by the last process that has it, when it has served who waits there.

use super::Service;
use crate::{
    base::{
        address::{Address, default_addresses},
        error::UserError,
    },
    control::listeners::{Listener, SocketFile},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::DirBuilder,
    io, mem,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::fs::DirBuilderExt,
    },
    sync::Arc,
};

/// Sockets, by the address that was asked for.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    bound: Vec<(Address, Listener)>,
    /// Of Unix sockets. A child has none of them: it must not remove what it has not made.
    files: Vec<(Address, SocketFile)>,
    /// Where systemd listens. These stay open, named or not: systemd has them anyway, so nobody else could listen there.
    lent: Vec<Address>,
}

/// Whether of these two only one can be had, as one is the port of all addresses of the host.
fn shares_port(one: &Address, other: &Address) -> bool {
    let (Address::Tcp(one), Address::Tcp(other)) = (one, other) else { return false };
    one.port() == other.port() && (one.ip().is_unspecified() || other.ip().is_unspecified())
}

/// A listener on its way to another supervisor, beside its descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bequest {
    /// The address that was asked for.
    asked: Address,
    /// Where it listens.
    bound: Address,
    socket_count: usize,
    /// Whoever has it last removes the socket from its place.
    has_file: bool,
    is_lent: bool,
}

impl Listeners {
    /// Those of systemd.
    pub(super) fn lent(sockets: Vec<Listener>) -> Listeners {
        let lent: Vec<_> = sockets.iter().map(|bound| bound.address().clone()).collect();
        let bound = lent.iter().cloned().zip(sockets).collect();
        Listeners { bound, files: Vec::new(), lent }
    }

    /// Those of a supervisor before this one. The names of Unix sockets stay its own until [`own`](Listeners::own).
    pub(super) fn inherit(bequests: Vec<Bequest>, descriptors: Vec<OwnedFd>) -> io::Result<Listeners> {
        let mut listeners = Listeners::default();
        let mut descriptors = descriptors.into_iter();
        for Bequest { asked, bound, socket_count, has_file, is_lent } in bequests {
            let sockets: Vec<_> = descriptors.by_ref().take(socket_count).collect();
            if sockets.is_empty() || sockets.len() < socket_count {
                return Err(io::Error::other("sockets are missing"));
            }
            if let Address::Unix(path) = &bound
                && has_file
            {
                listeners.files.push((asked.clone(), SocketFile::inherited(path)?));
            }
            listeners.lent.extend(is_lent.then(|| asked.clone()));
            listeners.bound.push((asked, Listener::inherited(bound, sockets)));
        }
        Ok(listeners)
    }

    /// All of them, for a supervisor after this one.
    pub(super) fn bequeath(&self) -> io::Result<(Vec<Bequest>, Arc<[OwnedFd]>)> {
        let (mut bequests, mut descriptors) = (Vec::new(), Vec::new());
        for (asked, bound) in &self.bound {
            for socket in bound.sockets() {
                descriptors.push(socket.try_clone()?);
            }
            bequests.push(Bequest {
                asked: asked.clone(),
                bound: bound.address().clone(),
                socket_count: bound.sockets().len(),
                has_file: self.files.iter().any(|(address, file)| address == asked && file.is_in_place()),
                is_lent: self.lent.contains(asked),
            });
        }
        Ok((bequests, descriptors.into()))
    }

    /// Whether this supervisor removes the names of Unix sockets, from now on.
    pub(super) fn own(&mut self, is_ours: bool) {
        self.files.iter_mut().for_each(|(_, file)| file.set_owned(is_ours));
    }

    /// Says where a service listens that does not say so itself: where systemd does, and otherwise where it is usual.
    pub(super) fn settle(&self, service: &mut Service) {
        if service.addresses.is_empty() {
            let lent = self.lent.iter().filter(|&address| service.admin.as_ref() != Some(address));
            service.addresses = lent.cloned().collect();
        }
        if service.addresses.is_empty() {
            service.addresses = default_addresses().into_iter().filter(Address::is_supported).collect();
        }
    }

    /// Whether others than clients and admin of a service would wait there for ever.
    ///
    /// # Errors
    /// systemd listens where the service does not.
    pub(super) fn check_lent(&self, service: &Service) -> Result<(), UserError> {
        match self.lent.iter().find(|address| !is_wanted(service, address)) {
            None => Ok(()),
            Some(address) => Err(UserError::new(
                format_args!("cannot ignore the systemd socket at {address}"),
                "no listener of the configuration uses it, and its clients would wait for ever",
                format_args!(
                    "name it, as with --listen {address}, or leave its ListenStream= out of the socket unit; without any \
                     listener, all sockets of systemd are served"
                ),
            )),
        }
    }

    /// Listens where a service wants to and nobody listens yet. Returns where that is.
    ///
    /// # Errors
    /// One cannot be had; then none is added.
    pub(super) fn add(&mut self, service: &Service) -> Result<Vec<Address>, UserError> {
        let mut added = Vec::new();
        let socket_count = service.settings.socket_count();
        let clients = service.addresses.iter().map(|address| (address, socket_count));
        for (address, socket_count) in clients.chain(service.admin.iter().map(|address| (address, 1))) {
            if self.has(address) {
                continue;
            }
            let is_usual = service.admin_is_default && service.admin.as_ref() == Some(address);
            if is_usual {
                make_place(address);
            }
            let is_admin = service.admin.as_ref() == Some(address);
            let listener = match is_admin {
                true => Listener::for_admin(address, &service.admin_access),
                false => Listener::new(address, socket_count),
            };
            match listener {
                Ok(mut bound) => {
                    self.files.extend(bound.take_file().map(|file| (address.clone(), file)));
                    self.bound.push((address.clone(), bound));
                    added.push(address.clone());
                }
                Err(_) if is_usual => {}
                Err(trouble) => {
                    let own = self.bound.iter().find(|(known, _)| shares_port(known, address));
                    let trouble = own.map_or(trouble, |(own, _)| {
                        UserError::new(
                            format_args!("cannot listen on {address}"),
                            format_args!("this server already uses the port, at {own}"),
                            "restart the server, or keep its address",
                        )
                    });
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
        self.bound.retain(|(address, _)| is_wanted(service, address) || self.lent.contains(address));
        self.files.retain(|(address, _)| is_wanted(service, address));
        let admin = self.files.iter().filter(|(address, _)| service.admin.as_ref() == Some(address));
        admin.for_each(|(_, file)| file.update_mode(service.admin_access.mode));
    }

    /// Whether systemd has any of them too.
    pub(super) fn has_lent(&self) -> bool {
        !self.lent.is_empty()
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
    pub(super) fn take(&mut self, service: &Service) -> (Vec<Listener>, Option<Listener>) {
        let (mut clients, mut admin) = (Vec::new(), None);
        for (address, bound) in mem::take(&mut self.bound) {
            if service.admin.as_ref() == Some(&address) {
                admin = Some(bound.with_admin_hosts(&service.admin_access));
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

/// Whether a service listens there, for clients or for its admin.
fn is_wanted(service: &Service, address: &Address) -> bool {
    service.addresses.contains(address) || service.admin.as_ref() == Some(address)
}
