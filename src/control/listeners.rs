//! Listening sockets: what a user names, and what the workers get.
//!
//! ```text
//! "127.0.0.1:8080" ─parse─▶ Address ─bind─▶ Bound ─┬─ a socket of its own for each worker (SO_REUSEPORT)
//!                                                  └─ or one shared by all (Unix sockets, sockets handed over)
//! ```

use crate::{
    base::address::Address,
    base::error::{UserError, reason},
    sys::BACKLOG,
    sys::{
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
};

/// A socket that listens, for every worker.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    /// One for each worker, or one for all.
    sockets: Vec<OwnedFd>,
    /// Made here.
    made: Option<SocketFile>,
}

/// Where a server that was told nothing answers whoever watches over it: a Unix socket where the system has such things, for the
/// service, for root or for the user. `None`: it has no such place.
pub fn usual_admin() -> Option<Address> {
    let place = |name| env::var_os(name).filter(|value| !value.is_empty());
    // A list, of which the first was named first. systemd.exec(5)
    let service = place("RUNTIME_DIRECTORY").and_then(|list| env::split_paths(&list).next());
    let directory = service.or_else(|| match geteuid().is_root() {
        true => Some("/run/tarpon".into()),
        false => place("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("tarpon")),
    });
    directory.map(|dir| Address::Unix(dir.join("admin.sock")))
}

impl Address {
    /// Whether this host has the family of the address at all: some have no IPv6.
    pub fn is_supported(&self) -> bool {
        match self {
            // The name of a port is free to have: only the address can be wrong.
            Address::Tcp(address) => bind_tcp(SocketAddr::new(address.ip(), 0), 1).is_ok(),
            Address::Unix(_) => true,
        }
    }
}

impl Listener {
    /// Listens at an address, with so many sockets: one for each worker, or one for all.
    ///
    /// # Errors
    /// The address is in use, also where `SO_REUSEPORT` would let two servers share it without a word; it is
    /// not one of this host; or it needs rights that are not there.
    pub fn new(address: &Address, socket_count: usize) -> Result<Listener, UserError> {
        match address {
            Address::Tcp(socket) => bind_tcp(*socket, socket_count),
            Address::Unix(path) => bind_unix(path),
        }
        .map_err(|error| trouble(address, error))
    }

    /// What another program has bound, and handed over.
    pub(crate) fn inherited(address: Address, sockets: Vec<OwnedFd>) -> Listener {
        Listener { address, sockets, made: None }
    }

    /// A socket that another program goes on holding. All workers share it.
    ///
    /// # Errors
    /// It does not listen for connections, or at no address that a user could name.
    pub(crate) fn lent(socket: OwnedFd) -> io::Result<Listener> {
        let none = || io::Error::other("it is no socket that listens for connections");
        if socket_type(&socket).map_err(|_| none())? != SocketType::STREAM || !socket::is_listening(&socket)?
        {
            return Err(none());
        }
        let bound: Listener = match getsockname(&socket)?.address_family() {
            AddressFamily::INET | AddressFamily::INET6 => TcpListener::from(socket).try_into(),
            AddressFamily::UNIX => UnixListener::from(socket).try_into(),
            _ => Err(none()),
        }?;
        match &bound.address {
            Address::Unix(path) if path.as_os_str().is_empty() => Err(io::Error::other("it has no path")),
            _ => Ok(bound),
        }
    }

    /// Where it listens; with the port the kernel chose, if it was asked to choose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The sockets for one of so many workers. Where there are more sockets than workers, as after a reload, each is somebody's;
    /// where there are fewer, workers share.
    pub(crate) fn sockets_for(&self, worker: usize, worker_count: usize) -> io::Result<Vec<OwnedFd>> {
        let count = self.sockets.len();
        let numbers = (worker % count..count.max(worker % count + 1)).step_by(worker_count.min(count));
        numbers.map(|number| self.sockets[number].try_clone()).collect()
    }

    /// All of its sockets.
    pub(crate) fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// All of them, for somebody else to have. Where it listens on a Unix socket, the path stays.
    pub(crate) fn into_sockets(self) -> Vec<OwnedFd> {
        self.sockets
    }

    /// What is to be removed when the server has ended.
    pub(crate) fn take_file(&mut self) -> Option<SocketFile> {
        self.made.take()
    }
}

/// A Unix socket's place in the file system. It is removed when this is dropped, unless another server has taken the
/// place meanwhile, or the socket over.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Not the listener but its name: the socket of a successor is another.
    name: Named,
    is_ours: bool,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), name: Named::at(path)?, is_ours: true })
    }

    /// That of another program, so far.
    pub(crate) fn inherited(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), name: Named::at(path)?, is_ours: false })
    }

    /// Whether this program removes it, from now on.
    pub(crate) fn set_ours(&mut self, is_ours: bool) {
        self.is_ours = is_ours;
    }

    /// Whether the path still leads to it.
    pub(crate) fn is_in_place(&self) -> bool {
        self.name.is_at(&self.path)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours && self.is_in_place() {
            // Whoever removes it at this moment does what was to be done.
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
        Ok(Listener { address, sockets: vec![listener.into()], made: None })
    }
}

impl TryFrom<UnixListener> for Listener {
    type Error = io::Error;

    /// All workers share the listener. Its path stays when the server has ended.
    fn try_from(listener: UnixListener) -> io::Result<Listener> {
        let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
        listener.set_nonblocking(true)?;
        Ok(Listener { address: Address::Unix(path), sockets: vec![listener.into()], made: None })
    }
}

fn bind_tcp(address: SocketAddr, socket_count: usize) -> io::Result<Listener> {
    if address.port() != 0 {
        // With SO_REUSEPORT a second server of the same user would be let in and take half of the clients.
        // Without it the kernel refuses, so this is tried first. SO_REUSEADDR overlooks what is only closing.
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
    Ok(Listener { address: Address::Tcp(address), sockets, made: None })
}

fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket::stream(family)?;
    set_socket_reuseaddr(&socket, true)?;
    // Inherited by what is accepted: a response must not wait for the acknowledgement of the one before.
    set_tcp_nodelay(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = || socket::stream(AddressFamily::UNIX);
    let listener = socket()?;
    match bind(&listener, &address) {
        // What a server left behind that was killed: nobody answers there.
        Err(Errno::ADDRINUSE)
            if is_socket(path) && connect(socket()?, &address) == Err(Errno::CONNREFUSED) =>
        {
            fs::remove_file(path)?;
            bind(&listener, &address)?;
        }
        bound => bound?,
    }
    listen(&listener, BACKLOG)?;
    let made = Some(SocketFile::new(path)?);
    Ok(Listener { address: Address::Unix(path.to_owned()), sockets: vec![listener], made })
}

/// Of a file that is no socket the kernel says, too, that nobody answers; but it is not ours to remove.
fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn trouble(address: &Address, error: io::Error) -> UserError {
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::ADDRINUSE) => {
            "stop the server that listens there, or choose another with --listen ADDR:PORT"
        }
        Some(Errno::ADDRNOTAVAIL) => {
            "name an address of this host, such as 127.0.0.1 or 0.0.0.0 for all of them"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "choose a port from 1024 up and a directory you may write to, or start with the rights to use this one"
        }
        Some(Errno::NOENT | Errno::NOTDIR) => "make the directory of the socket first",
        _ => "choose another with --listen ADDR:PORT or --listen unix:PATH",
    };
    UserError::new(format_args!("cannot listen on {address}"), reason(&error), remedy)
}
