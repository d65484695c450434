//! Listening sockets: from the address that a user configures to the sockets of each worker.
//!
//! ```text
//! "localhost:8080" ─parse─▶ ListenAddress ─▶ Address ─bind─▶ Listener ─┬─ a socket for each worker (SO_REUSEPORT)
//!                                  two here: └▶ Address ─bind─▶ …      └─ or one shared by all (Unix sockets, inherited sockets)
//! ```

use crate::{
    base::address::{Address, ListenAddress},
    base::admin_access::AdminAccess,
    base::error::{UserError, reason},
    base::settings::Http2Use,
    base::socket_access::SocketAccess,
    control::{client_limits::address_list, socket_permissions::SocketPermissions, tls::TlsConfig},
    data::worker::SocketSettings,
    site::server_routes::{ListenerPolicy, ServerRoutes},
    sys::BACKLOG,
    sys::{
        access,
        name::Named,
        socket::{self, share_port},
    },
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketType, bind, connect, getsockname, listen,
        sockopt::{set_ipv6_v6only, set_socket_reuseaddr, set_tcp_nodelay, socket_type},
    },
    process::geteuid,
};
use std::{
    env, fs, io,
    net::{SocketAddr, TcpListener},
    os::{
        fd::OwnedFd,
        unix::{fs::FileTypeExt, net::UnixListener},
    },
    path::{Path, PathBuf},
    sync::Arc,
};
use tarpon_conn::{AddressEntry, AddressList};
use tarpon_site::Printable;

/// The listening sockets of one address, for all workers.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    /// One for each worker, or one for all.
    sockets: Vec<OwnedFd>,
    /// The file of a Unix socket that this process has created.
    socket_file: Option<SocketFile>,
    /// If it is an admin listener: which clients may use it.
    admin_access: AdminAccess,
    /// Whether each connection begins with a PROXY header.
    has_proxy_protocol: bool,
    /// The addresses that may connect. `None`: those of the server.
    addresses: Option<Arc<AddressList>>,
    /// Whether clients may speak HTTP/2, or must. `None`: as everywhere.
    http2: Option<Http2Use>,
    /// If clients must speak TLS: certificates, and what is asked of clients.
    pub(super) tls: Option<TlsConfig>,
}

/// Returns the default address of the admin listener: a Unix socket in the runtime directory of the service, of root or of the user.
/// `None`: there is no runtime directory.
pub fn default_admin_address() -> Option<Address> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    // A list in the order of the unit file. systemd.exec(5)
    let service = variable("RUNTIME_DIRECTORY").and_then(|list| env::split_paths(&list).next());
    let directory = service.or_else(|| match geteuid().is_root() {
        true => Some("/run/tarpon".into()),
        false => variable("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("tarpon")),
    });
    directory.map(|dir| Address::Unix(dir.join("admin.sock")))
}

impl Address {
    /// Returns whether this host supports the address family: some have no IPv6.
    pub fn is_supported(&self) -> bool {
        match self {
            Address::Tcp(address) => {
                let bound = bind_tcp(SocketAddr::new(address.ip(), 0), 1);
                let error = bound.err().and_then(|error| Errno::from_io_error(&error));
                !matches!(error, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT))
            }
            Address::Unix(_) => true,
        }
    }
}

impl Listener {
    /// Returns the addresses that a value of `--listen` names on this host: two for a port at all addresses or at localhost, if the host
    /// has IPv4 and IPv6.
    pub fn addresses(at: &ListenAddress) -> Vec<Address> {
        let mut addresses = at.addresses();
        if addresses.len() > 1 {
            addresses.retain(Address::is_supported);
        }
        addresses
    }

    /// Listens at an address, with this many sockets: one for each worker, or one for all. The file of a Unix socket has the permissions of
    /// the [default](SocketAccess::default), whatever the umask.
    ///
    /// # Errors
    /// The address is in use, even if `SO_REUSEPORT` would silently let two servers share it; it is not an address of this host; or the
    /// process lacks the privileges for it.
    pub fn new(address: &Address, socket_count: usize) -> Result<Listener, UserError> {
        Listener::with_access(address, socket_count, &SocketAccess::default())
    }

    /// Listens at an address, like [`new`](Listener::new). A Unix socket accepts no client that `access` does not admit, at no time.
    ///
    /// # Errors
    /// Those of [`new`](Listener::new). There is no such user or group, or the process may not give the file to them.
    pub fn with_access(
        address: &Address,
        socket_count: usize,
        access: &SocketAccess,
    ) -> Result<Listener, UserError> {
        Listener::with_permissions(address, socket_count, &SocketPermissions::new(access)?)
    }

    pub(crate) fn with_permissions(
        address: &Address,
        socket_count: usize,
        permissions: &SocketPermissions,
    ) -> Result<Listener, UserError> {
        listen_at(address, socket_count, permissions, "--listen")
    }

    /// Checks whether this process could listen at an address, and then does not. A port or a socket that is in use is fine: this may be
    /// the configuration of the server that runs. `is_admin`: the listener is for administrators.
    ///
    /// # Errors
    /// Those of [`with_access`](Listener::with_access).
    pub(crate) fn check(
        address: &Address,
        permissions: &SocketPermissions,
        is_admin: bool,
    ) -> Result<(), UserError> {
        let option = if is_admin { "--admin" } else { "--listen" };
        let bound = match address {
            Address::Tcp(address) => tcp_socket(*address).and_then(|socket| Ok(bind(socket, address)?)),
            Address::Unix(path) => check_unix(path),
        };
        match bound {
            Err(error) if !is_in_use(&error, address) => return Err(listen_error(address, error, option)),
            _ => {}
        }
        match address {
            Address::Unix(path) => permissions.check(path).map_err(|error| access_error(address, &error)),
            Address::Tcp(_) => Ok(()),
        }
    }

    /// Listens at an address for an [`Admin`](crate::Admin). The file of a Unix socket has the mode of `access` from the beginning,
    /// whatever the umask.
    ///
    /// # Errors
    /// As for [`new`](Listener::new).
    pub fn for_admin(address: &Address, access: &AdminAccess) -> Result<Listener, UserError> {
        let permissions = SocketPermissions::of_process(access.mode);
        Ok(listen_at(address, 1, &permissions, "--admin")?.with_admin_access(access))
    }

    /// Sets whether each connection begins with a PROXY header, version 1 or 2, which names the client of a proxy. The server closes a
    /// connection without a valid header, or of a peer that [`Settings::proxy_trust`](crate::Settings::proxy_trust) does not trust. The
    /// specification: <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.
    ///
    /// ```no_run
    /// use std::net::TcpListener;
    /// use tarpon::{Listener, ProxyTrust, Server, Settings, Site};
    ///
    /// let listener = Listener::try_from(TcpListener::bind("127.0.0.1:8080")?)?.with_proxy_protocol(true);
    /// let proxy_trust = ProxyTrust { proxies: ["127.0.0.1".parse()?].into(), field: None };
    /// let settings = Settings { proxy_trust, ..Settings::default() };
    /// let server = Server::start(&settings, vec![listener], Site::from_dir("public")?)?;
    /// # server.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_proxy_protocol(self, has_proxy_protocol: bool) -> Listener {
        Listener { has_proxy_protocol, ..self }
    }

    /// Sets which addresses may connect, in the place of [those of the server](crate::Settings::allow). Two empty lists: those of the server.
    #[must_use]
    pub fn with_addresses(self, allow: &[AddressEntry], deny: &[AddressEntry]) -> Listener {
        Listener { addresses: address_list(allow, deny), ..self }
    }

    /// Sets whether its clients may speak HTTP/2, or must, in the place of what [the server](crate::Settings::http2) sets.
    #[must_use]
    pub fn with_http2(self, http2: Http2Use) -> Listener {
        Listener { http2: Some(http2), ..self }
    }

    /// Returns whether its clients may speak HTTP/2, or must, beside the default of the server.
    pub(crate) fn http2(&self, default: Http2Use) -> Http2Use {
        self.http2.unwrap_or(default)
    }

    /// Returns whether it has addresses of its own that may connect.
    pub(crate) fn has_address_list(&self) -> bool {
        self.addresses.is_some()
    }

    /// Accepts requests that arrive with the first packet of a connection, of this many connections at a time whose clients have not proved their
    /// addresses; with 0, of none. Such a request may arrive twice. Does nothing for a Unix socket. RFC 7413.
    ///
    /// # Errors
    /// The kernel does not support it.
    pub fn set_fast_open(&self, pending_max: u32) -> io::Result<()> {
        if let Address::Tcp(_) = self.address {
            for socket in &self.sockets {
                socket::set_fast_open(socket, pending_max)?;
            }
        }
        Ok(())
    }

    /// Returns its address, and what it asks of its clients.
    pub(crate) fn policy(&self) -> ListenerPolicy<'_> {
        (&self.address, self.tls.as_ref().map(TlsConfig::policy))
    }

    /// Returns whether its connections are encrypted.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether each connection begins with a PROXY header.
    pub(crate) fn has_proxy_protocol(&self) -> bool {
        self.has_proxy_protocol
    }

    /// Returns how workers serve the clients of its sockets. `http2`: the default of the server.
    pub(crate) fn settings(&self, routes: &ServerRoutes, http2: Http2Use) -> SocketSettings {
        let routes = routes.table_of(&self.address);
        let tls = self.tls.as_ref().map(|tls| Arc::clone(tls.server()));
        SocketSettings {
            routes,
            expects_proxy_header: self.has_proxy_protocol,
            addresses: self.addresses.clone(),
            http2: self.http2(http2),
            tls,
        }
    }

    /// Sets which clients may use an admin listener.
    #[must_use]
    pub(crate) fn with_admin_access(self, access: &AdminAccess) -> Listener {
        Listener { admin_access: access.clone(), ..self }
    }

    /// Returns which clients may use an admin listener.
    pub(crate) fn admin_access(&self) -> &AdminAccess {
        &self.admin_access
    }

    /// Wraps the sockets that a predecessor has handed over.
    pub(crate) fn inherited(address: Address, sockets: Vec<OwnedFd>) -> Listener {
        Listener {
            address,
            sockets,
            socket_file: None,
            admin_access: AdminAccess::default(),
            has_proxy_protocol: false,
            addresses: None,
            http2: None,
            tls: None,
        }
    }

    /// Wraps a socket that another program, such as systemd, also holds. All workers share it.
    ///
    /// # Errors
    /// The socket does not listen for connections, or has no address that a user could configure.
    pub(crate) fn from_inherited_socket(socket: OwnedFd) -> io::Result<Listener> {
        let invalid = || io::Error::other("it is not a listening stream socket");
        if socket_type(&socket).map_err(|_| invalid())? != SocketType::STREAM
            || !socket::is_listening(&socket)?
        {
            return Err(invalid());
        }
        let listener: Listener = match getsockname(&socket)?.address_family() {
            AddressFamily::INET | AddressFamily::INET6 => TcpListener::from(socket).try_into(),
            AddressFamily::UNIX => UnixListener::from(socket).try_into(),
            _ => Err(invalid()),
        }?;
        match &listener.address {
            Address::Unix(path) if path.as_os_str().is_empty() => Err(io::Error::other("it has no path")),
            _ => Ok(listener),
        }
    }

    /// Returns the address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the sockets of one of `worker_count` workers. If there are more sockets than workers, as after a reload, a worker gets
    /// several; if there are fewer, workers share.
    pub(crate) fn sockets_for(&self, worker: usize, worker_count: usize) -> io::Result<Vec<OwnedFd>> {
        let count = self.sockets.len();
        let numbers = (worker % count..count.max(worker % count + 1)).step_by(worker_count.min(count));
        numbers.map(|number| self.sockets[number].try_clone()).collect()
    }

    /// Returns all sockets.
    pub(crate) fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// Returns all sockets, for another process. The file of a Unix socket stays.
    pub(crate) fn into_sockets(self) -> Vec<OwnedFd> {
        self.sockets
    }

    /// Takes the file that is removed when the server has ended.
    pub(crate) fn take_file(&mut self) -> Option<SocketFile> {
        self.socket_file.take()
    }
}

/// The file of a Unix socket. Dropping this removes the file, unless another server has replaced it or taken the socket over.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The identity of the file, which differs from that of a successor's socket.
    name: Named,
    is_owned: bool,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), name: Named::at(path)?, is_owned: true })
    }

    /// Wraps the file of another program, which that program still owns.
    pub(crate) fn inherited(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), name: Named::at(path)?, is_owned: false })
    }

    /// Sets whether this program removes the file.
    pub(crate) fn set_owned(&mut self, is_owned: bool) {
        self.is_owned = is_owned;
    }

    /// Sets the permissions of the file, if the configuration has changed them.
    pub(crate) fn update_permissions(&self, permissions: &SocketPermissions) {
        if let Err(error) = self.set_permissions(permissions) {
            let why = reason(&error);
            tracing::warn!("cannot set mode, owner or group of {}: {why}", self.path.printable());
        }
    }

    fn set_permissions(&self, permissions: &SocketPermissions) -> io::Result<()> {
        let (path, name) = (&self.path, &self.name);
        let (uid, gid) = permissions.ids(path);
        let (mode, owner, group) = name.permissions(path)?;
        if (owner, group) != (uid, gid) {
            // The new owner and group must not connect with the former mode, nor the former ones with the new mode.
            name.set_socket_mode(path, 0)?;
            name.set_socket_owner(path, uid, gid).inspect_err(|_| {
                // The error of the change matters more than that of the way back.
                let _ = name.set_socket_mode(path, mode);
            })?;
        }
        name.set_socket_mode(path, permissions.mode)
    }

    /// Returns whether the path still leads to this socket.
    pub(crate) fn is_in_place(&self) -> bool {
        self.name.is_at(&self.path)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_owned && self.is_in_place() {
            // If another process removes the file first, that is fine.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl TryFrom<TcpListener> for Listener {
    type Error = io::Error;

    /// All workers share the listener.
    fn try_from(listener: TcpListener) -> io::Result<Listener> {
        let address = Address::Tcp(listener.local_addr()?);
        listener.set_nonblocking(true)?;
        set_tcp_nodelay(&listener, true)?;
        Ok(Listener::inherited(address, vec![listener.into()]))
    }
}

impl TryFrom<UnixListener> for Listener {
    type Error = io::Error;

    /// All workers share the listener. The file of the socket stays when the server has ended.
    fn try_from(listener: UnixListener) -> io::Result<Listener> {
        let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
        listener.set_nonblocking(true)?;
        Ok(Listener::inherited(Address::Unix(path), vec![listener.into()]))
    }
}

fn bind_tcp(address: SocketAddr, socket_count: usize) -> io::Result<Listener> {
    if address.port() != 0 {
        // With SO_REUSEPORT a second server of the same user could bind the port too, and would get half of the clients. A bind without it
        // fails in that case, so this comes first. SO_REUSEADDR ignores connections that are closing.
        bind(tcp_socket(address)?, &address)?;
    }
    let first = tcp_socket(address)?;
    share_port(&first)?;
    bind(&first, &address)?;
    let address = SocketAddr::try_from(getsockname(&first)?)?;
    let mut sockets = vec![first];
    let count = if socket::PORTS_BALANCE { socket_count } else { 1 };
    while sockets.len() < count {
        let socket = tcp_socket(address)?;
        share_port(&socket)?;
        bind(&socket, &address)?;
        sockets.push(socket);
    }
    for socket in &sockets {
        listen(socket, BACKLOG)?;
    }
    Ok(Listener::inherited(Address::Tcp(address), sockets))
}

fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket::stream(family)?;
    set_socket_reuseaddr(&socket, true)?;
    // Accepted sockets inherit it: a response must not wait for the ACK of the previous one.
    set_tcp_nodelay(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// Listens at an address. `option`: the flag that names it.
fn listen_at(
    address: &Address,
    socket_count: usize,
    permissions: &SocketPermissions,
    option: &str,
) -> Result<Listener, UserError> {
    let bound = match address {
        Address::Tcp(socket) => bind_tcp(*socket, socket_count),
        Address::Unix(path) => bind_unix(path),
    };
    let bound = bound.map_err(|error| listen_error(address, error, option))?;
    if let Some(file) = &bound.socket_file {
        // On failure, dropping `bound` removes the file.
        file.set_permissions(permissions).map_err(|error| access_error(address, &error))?;
    }
    Ok(bound)
}

fn access_error(address: &Address, error: &io::Error) -> UserError {
    UserError::new(
        format_args!("cannot set mode, owner and group of {address}"),
        reason(error),
        "name the user that starts tarpon and one of its groups, or start tarpon as root",
    )
}

/// Checks whether [`bind_unix`] would succeed. A socket at which a server listens is fine.
fn check_unix(path: &Path) -> io::Result<()> {
    SocketAddrUnix::new(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(Errno::ADDRINUSE.into()),
        // If no server listens there, it is replaced.
        Ok(_) => access::may_change(access::dir_of(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => access::may_create(path),
        Err(error) => Err(error),
    }
}

/// Returns whether the error tells that another server has the port.
fn is_in_use(error: &io::Error, address: &Address) -> bool {
    matches!(address, Address::Tcp(_)) && Errno::from_io_error(error) == Some(Errno::ADDRINUSE)
}

/// Listens on a Unix socket. Until its file gets other permissions, only the user of this process may connect.
fn bind_unix(path: &Path) -> io::Result<Listener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = || socket::stream(AddressFamily::UNIX);
    let listener = socket()?;
    let bind = || socket::bind_with_mode(&listener, &address, OWNER_ONLY);
    match bind() {
        // The file of a server that was killed: the socket refuses connections.
        Err(Errno::ADDRINUSE)
            if is_socket(path) && connect(socket()?, &address) == Err(Errno::CONNREFUSED) =>
        {
            fs::remove_file(path)?;
            bind()?;
        }
        bound => bound?,
    }
    listen(&listener, BACKLOG)?;
    let file = SocketFile::new(path)?;
    let listener = Listener::inherited(Address::Unix(path.to_owned()), vec![listener]);
    Ok(Listener { socket_file: Some(file), ..listener })
}

/// The mode of a new socket file.
const OWNER_ONLY: u32 = 0o600;

/// Returns whether the file is a socket: connecting to another file is refused too, but such a file must stay.
fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// Describes the error of a listener. `option`: the flag that names its address.
fn listen_error(address: &Address, error: io::Error, option: &str) -> UserError {
    let form = if let Address::Unix(_) = address { "unix:PATH" } else { "ADDR:PORT" };
    let hint = match Errno::from_io_error(&error) {
        Some(Errno::ADDRINUSE) => {
            &*format!("stop the server that listens there, or choose another with {option} {form}")
        }
        Some(Errno::ADDRNOTAVAIL) => {
            "name an address of this host, such as 127.0.0.1 or 0.0.0.0 for all of them"
        }
        Some(Errno::ACCESS | Errno::PERM) => match address {
            Address::Unix(_) => {
                "choose a directory that this user may write to, or start tarpon as another user"
            }
            Address::Tcp(_) => {
                let program = env::current_exe().unwrap_or_else(|_| "tarpon".into());
                &*format!(
                    "only root may use ports below 1024: let this program do so with setcap cap_net_bind_service=+ep {}, or start it by its \
                     systemd unit, tarpon.service, or choose a port from 1024 up with {option}",
                    program.printable()
                )
            }
        },
        Some(Errno::NOENT | Errno::NOTDIR) => "create the directory of the socket first",
        _ => &*format!("choose another address with {option} ADDR:PORT or {option} unix:PATH"),
    };
    UserError::new(format_args!("cannot listen on {address}"), reason(&error), hint)
}
