//! The address of a listening socket: TCP or Unix.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};
use tarpon_site::Printable;

/// An address to listen at. Its text is that of `--listen`: `127.0.0.1:8080`, `[::1]:8080` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// An IP address of this host and a TCP port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Returns the default addresses: port 8080 of the loopback interface, IPv4 and IPv6.
pub fn default_addresses() -> [Address; 2] {
    let port = 8080;
    [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()].map(Address::Tcp)
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Address, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("a path must follow unix:, as in unix:/run/tarpon.sock"),
                path => Ok(Address::Unix(path.into())),
            };
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            "expected an address and a port, such as 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080, or unix:PATH"
        })
    }
}

impl fmt::Display for Address {
    /// Writes the form that `--listen` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.printable()),
        }
    }
}
