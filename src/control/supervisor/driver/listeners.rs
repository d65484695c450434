//! The listening sockets of all generations. A generation uses those that its configuration names. The last process that has a socket
//! closes it, after it has served the clients in the backlog.

use super::super::Service;
use crate::{
    base::{
        address::{Address, default_addresses},
        error::{UserError, reason},
        listener_options::ListenerOptions,
        socket_access::SocketAccess,
    },
    control::{
        listeners::{Listener, SocketFile},
        process::message::InheritedSocket,
        socket_permissions::SocketPermissions,
        tls::service::PreparedTls,
    },
};
use rustix::net::sockopt::ipv6_v6only;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::DirBuilder,
    io, mem,
    net::{Ipv4Addr, SocketAddr},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::fs::DirBuilderExt,
    },
};
use tarpon_site::Printable;

/// The listeners, by configured address.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    bound: Vec<(Address, Listener)>,
    /// The files of Unix sockets. A child has none of them: it must not remove them.
    files: Vec<(Address, SocketFile)>,
    /// The addresses where systemd listens. These sockets stay open: systemd has them too, so no other program could listen there.
    lent: Vec<Address>,
    /// The permissions of Unix sockets, so that a reload looks no user up again: a database in a network may not answer.
    permissions: BTreeMap<SocketAccess, SocketPermissions>,
    /// The default address of the admin listener, and why this program has no listener there.
    admin_error: Option<(Address, UserError)>,
}

/// Returns whether a program can listen at only one of these, as one is the port of all addresses of the family.
fn shares_port(one: &Address, other: &Address) -> bool {
    let (Address::Tcp(one), Address::Tcp(other)) = (one, other) else { return false };
    one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (one.ip().is_unspecified() || other.ip().is_unspecified())
}

/// Completes a service of a program that systemd has given no sockets: see [`Listeners::complete`].
pub(in super::super) fn complete_addresses(service: &mut Service) {
    Listeners::default().complete(service);
}

impl Listeners {
    /// Wraps the sockets of systemd.
    pub(super) fn lent(sockets: Vec<Listener>) -> Listeners {
        let lent: Vec<_> = sockets.iter().map(|bound| bound.address().clone()).collect();
        let bound = lent.iter().cloned().zip(sockets).collect();
        Listeners { bound, lent, ..Listeners::default() }
    }

    /// Wraps the sockets of the predecessor, which owns the files of Unix sockets until [`own_files`](Listeners::own_files).
    ///
    /// # Errors
    /// Sockets are missing.
    pub(super) fn inherit(
        inherited: Vec<InheritedSocket>,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<Listeners> {
        let mut listeners = Listeners::default();
        let mut descriptors = descriptors.into_iter();
        for InheritedSocket { configured, bound, socket_count, has_file, is_lent } in inherited {
            let sockets: Vec<_> = descriptors.by_ref().take(socket_count).collect();
            if sockets.is_empty() || sockets.len() < socket_count {
                return Err(io::Error::other("sockets are missing"));
            }
            if let Address::Unix(path) = &bound
                && has_file
            {
                listeners.files.push((configured.clone(), SocketFile::inherited(path)?));
            }
            listeners.lent.extend(is_lent.then(|| configured.clone()));
            listeners.bound.push((configured, Listener::inherited(bound, sockets)));
        }
        Ok(listeners)
    }

    /// Returns all listeners with duplicates of their sockets, for a successor.
    pub(super) fn hand_over(&self) -> io::Result<(Vec<InheritedSocket>, Vec<OwnedFd>)> {
        let (mut inherited, mut descriptors) = (Vec::new(), Vec::new());
        for (configured, bound) in &self.bound {
            for socket in bound.sockets() {
                descriptors.push(socket.try_clone()?);
            }
            inherited.push(InheritedSocket {
                configured: configured.clone(),
                bound: bound.address().clone(),
                socket_count: bound.sockets().len(),
                has_file: self
                    .files
                    .iter()
                    .any(|(address, file)| address == configured && file.is_in_place()),
                is_lent: self.lent.contains(configured),
            });
        }
        Ok((inherited, descriptors))
    }

    /// Sets whether this supervisor removes the files of Unix sockets.
    pub(super) fn own_files(&mut self, is_ours: bool) {
        self.files.iter_mut().for_each(|(_, file)| file.set_owned(is_ours));
    }

    /// Completes a service without addresses: it listens where systemd does, or else at the default addresses. Adds the listeners that sites
    /// name.
    pub(super) fn complete(&self, service: &mut Service) {
        let named = service.sites.iter().flat_map(|site| &site.listen).flat_map(Listener::addresses);
        let named: Vec<Address> = named.collect();
        let needs_others = service.sites.iter().any(|site| site.listen.is_empty());
        if service.addresses.is_empty() && needs_others {
            let lent = self.lent.iter().filter(|&address| service.admin.as_ref() != Some(address));
            service.addresses = lent.cloned().collect();
        }
        if service.addresses.is_empty() && needs_others {
            service.addresses = default_addresses().into_iter().filter(Address::is_supported).collect();
        }
        for address in named {
            if !service.addresses.contains(&address) {
                service.addresses.push(address);
            }
        }
        // A socket of systemd at [::] has the clients of 0.0.0.0 too, so none can be bound there: systemd.socket(5), BindIPv6Only=.
        let named = self.bound.iter().filter(|(known, _)| service.addresses.contains(known));
        let both: Vec<Address> = named.filter_map(|(known, bound)| self.ipv4_of(known, bound)).collect();
        service.addresses.retain(|address| !both.contains(address));
    }

    /// Returns the IPv4 address whose clients a socket of systemd has beside those of its own address.
    fn ipv4_of(&self, known: &Address, bound: &Listener) -> Option<Address> {
        let &Address::Tcp(SocketAddr::V6(address)) = known else { return None };
        let is_dual = self.lent.contains(known)
            && address.ip().is_unspecified()
            && bound.sockets().iter().all(|socket| ipv6_v6only(socket) == Ok(false));
        is_dual.then(|| Address::Tcp((Ipv4Addr::UNSPECIFIED, address.port()).into()))
    }

    /// Checks that the service uses every socket of systemd: clients of another would wait for ever.
    ///
    /// # Errors
    /// systemd listens where the service does not.
    pub(super) fn check_lent(&self, service: &Service) -> Result<(), UserError> {
        match self.lent.iter().find(|address| !uses(service, address)) {
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

    /// Listens at the addresses of a service that have no listener yet. Returns them.
    ///
    /// # Errors
    /// One of them cannot be bound; then none is added.
    pub(super) fn add(&mut self, service: &Service) -> Result<Vec<Address>, UserError> {
        for address in &service.addresses {
            let access = service.socket_access(address);
            if let Entry::Vacant(unknown) = self.permissions.entry(access) {
                let permissions = SocketPermissions::new(unknown.key())?;
                unknown.insert(permissions);
            }
        }
        let mut added = Vec::new();
        let socket_count = service.settings.socket_count();
        let clients = service.addresses.iter().map(|address| (address, socket_count));
        for (address, socket_count) in clients.chain(service.admin.iter().map(|address| (address, 1))) {
            if self.has(address) {
                continue;
            }
            let is_admin = service.admin.as_ref() == Some(address);
            let is_default = is_admin && service.admin_is_default;
            let directory = if is_default { make_directory(address) } else { Ok(()) };
            let listener = directory.and_then(|()| match is_admin {
                true => Listener::for_admin(address, &service.admin_access),
                false => {
                    let permissions = &self.permissions[&service.socket_access(address)];
                    Listener::with_permissions(address, socket_count, permissions)
                }
            });
            match listener {
                Ok(mut bound) => {
                    self.files.extend(bound.take_file().map(|file| (address.clone(), file)));
                    self.bound.push((address.clone(), bound));
                    added.push(address.clone());
                }
                Err(error) if is_default => self.admin_error = Some((address.clone(), error)),
                Err(error) => {
                    let own = self.bound.iter().find(|(known, _)| shares_port(known, address));
                    let error = own.map_or(error, |(own, _)| {
                        UserError::new(
                            format_args!("cannot listen on {address}"),
                            format_args!("this server already uses the port, at {own}"),
                            "restart the server, or keep its address",
                        )
                    });
                    self.remove(&added);
                    return Err(error);
                }
            }
        }
        Ok(added)
    }

    /// Returns why a service has no listener at its default admin address.
    pub(super) fn admin_error(&self, service: &Service) -> Option<&UserError> {
        let admin = service.admin.as_ref().filter(|address| !self.has(address))?;
        self.admin_error.as_ref().filter(|(address, _)| address == admin).map(|(_, error)| error)
    }

    /// Returns whether there is a listener for this configured address.
    pub(super) fn has(&self, address: &Address) -> bool {
        self.bound.iter().any(|(known, _)| known == address)
    }

    /// Closes the listeners of these addresses. Another process that has the sockets serves the clients in their backlogs.
    pub(super) fn remove(&mut self, addresses: &[Address]) {
        self.bound.retain(|(address, _)| !addresses.contains(address));
        self.files.retain(|(address, _)| !addresses.contains(address));
    }

    /// Closes all listeners but those of a service.
    pub(super) fn keep_only(&mut self, service: &Service) {
        self.bound.retain(|(address, _)| uses(service, address) || self.lent.contains(address));
        self.files.retain(|(address, _)| uses(service, address));
        for (address, file) in &self.files {
            if service.admin.as_ref() == Some(address) {
                file.update_permissions(&SocketPermissions::of_process(service.admin_access.mode));
            } else if let Some(permissions) = self.permissions.get(&service.socket_access(address)) {
                file.update_permissions(permissions);
            }
        }
    }

    /// Returns whether systemd owns any of the sockets.
    pub(super) fn has_lent(&self) -> bool {
        !self.lent.is_empty()
    }

    /// Closes all sockets. The files of Unix sockets stay until the end.
    pub(super) fn close(&mut self) {
        self.bound.clear();
    }

    /// Returns the numbers of all sockets: a server process inherits them.
    pub(super) fn numbers(&self) -> Vec<RawFd> {
        let sockets = self.bound.iter().flat_map(|(_, bound)| bound.sockets());
        sockets.map(AsRawFd::as_raw_fd).collect()
    }

    /// In a child, which has a copy of this value: takes the listeners for clients and the admin listener, and closes the others.
    pub(super) fn take(&mut self, service: &Service, tls: &PreparedTls) -> (Vec<Listener>, Option<Listener>) {
        let (mut clients, mut admin) = (Vec::new(), None);
        for (address, bound) in mem::take(&mut self.bound) {
            if service.admin.as_ref() == Some(&address) {
                admin = Some(bound.with_admin_access(&service.admin_access));
            } else if service.addresses.contains(&address) {
                let bound = bound.with_proxy_protocol(service.proxy_protocol.contains(&address));
                let bound = with_options(bound, service, &address);
                clients.push(match tls.of(&address) {
                    Some(tls) => bound.with_tls(tls),
                    None => bound,
                });
            }
        }
        (clients, admin)
    }

    /// Returns the addresses of the sockets for these configured addresses, with the ports that the kernel chose.
    pub(super) fn bound_addresses<'a>(&'a self, addresses: &'a [Address]) -> Vec<&'a Address> {
        let bound = self.bound.iter().filter(|(address, _)| addresses.contains(address));
        bound.map(|(_, bound)| bound.address()).collect()
    }
}

/// Returns a listener with the options of its configured address.
fn with_options(bound: Listener, service: &Service, address: &Address) -> Listener {
    let options = service.listener_options.iter().find(|(of, _)| of == address).map(|(_, options)| options);
    let default = ListenerOptions::default();
    let ListenerOptions { allow, deny, fast_open, http2 } = options.unwrap_or(&default);
    let mut bound = bound.with_addresses(allow, deny);
    if let Some(http2) = *http2 {
        bound = bound.with_http2(http2);
    }
    if let Some(pending_max) = *fast_open
        && let Err(error) = bound.set_fast_open(pending_max)
    {
        tracing::warn!("fast-open of {address}: {}; clients take a round trip more", reason(&error));
    }
    bound
}

/// Creates the directory of the default admin socket.
fn make_directory(address: &Address) -> Result<(), UserError> {
    let Address::Unix(path) = address else { return Ok(()) };
    let Some(directory) = path.parent() else { return Ok(()) };
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(UserError::new(
            format_args!("cannot create {}", directory.printable()),
            reason(&error),
            "create it, or choose another address with --admin ADDR:PORT or --admin unix:PATH",
        )),
        _ => Ok(()),
    }
}

/// Returns whether a service has a listener there, for clients or administrators.
fn uses(service: &Service, address: &Address) -> bool {
    service.addresses.contains(address) || service.admin.as_ref() == Some(address)
}
