//! Where a server listens, as a value.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};
use tarpon_site::Printable;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// A TCP port of an address of this host.
    Tcp(SocketAddr),
    /// A Unix socket at a path.
    Unix(PathBuf),
}

/// Where a server listens that was told nothing, and handed nothing: this host only.
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
    /// As it is given to `--listen`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.printable()),
        }
    }
}
