//! Addresses to listen at: of one socket, TCP or Unix, or the text that names one or two of them.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};
use tarpon_site::Printable;

/// The address of one listening socket, such as `127.0.0.1:8080`, `[::1]:8080` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub enum Address {
    /// An IP address of this host and a TCP port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// A value of `--listen`: one address, or the same port at an IPv4 and an IPv6 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// One address.
    One(Address),
    /// This port of all addresses of the host: `8080` or `:8080`.
    All(u16),
    /// This port of the loopback interface: `localhost:8080`. The name is never looked up.
    Localhost(u16),
}

/// Returns the default addresses: port 8080 of the loopback interface, IPv4 and IPv6.
pub fn default_addresses() -> [Address; 2] {
    pair(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 8080)
}

impl ListenAddress {
    /// Returns the TCP port. `None`: it is a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match *self {
            ListenAddress::One(Address::Tcp(address)) => Some(address.port()),
            ListenAddress::One(Address::Unix(_)) => None,
            ListenAddress::All(port) | ListenAddress::Localhost(port) => Some(port),
        }
    }

    /// Returns the addresses of its sockets, whether or not this host has both address families.
    /// [`Listener::addresses`](crate::Listener::addresses) returns those that the host has.
    pub fn addresses(&self) -> Vec<Address> {
        match *self {
            ListenAddress::One(ref address) => vec![address.clone()],
            ListenAddress::All(port) => pair(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, port).into(),
            ListenAddress::Localhost(port) => pair(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port).into(),
        }
    }
}

/// A value of `--listen` with its transport: `tls:` in front of an address stands for HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenValue {
    /// Where to listen.
    pub address: ListenAddress,
    /// Whether clients must speak TLS.
    pub has_tls: bool,
}

impl ListenValue {
    /// The text in front of the address of a listener with TLS.
    pub const TLS: &str = "tls:";

    /// Returns the part of a value that names the sockets.
    pub(crate) fn address_text(value: &str) -> &str {
        value.strip_prefix(ListenValue::TLS).unwrap_or(value)
    }
}

impl FromStr for ListenValue {
    type Err = &'static str;

    /// Parses a value of `--listen`. The error tells what was expected.
    fn from_str(text: &str) -> Result<ListenValue, &'static str> {
        if text.starts_with("https:") {
            return Err("expected tls: in place of https:, as in tls:443 or tls:0.0.0.0:443");
        }
        let address = ListenValue::address_text(text);
        Ok(ListenValue { address: address.parse()?, has_tls: address.len() < text.len() })
    }
}

impl fmt::Display for ListenValue {
    /// Writes a form that `--listen` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenValue { address, has_tls } = self;
        write!(f, "{}{address}", if *has_tls { ListenValue::TLS } else { "" })
    }
}

fn pair(v4: Ipv4Addr, v6: Ipv6Addr, port: u16) -> [Address; 2] {
    [(v4, port).into(), (v6, port).into()].map(Address::Tcp)
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    /// Parses a value of `--listen`. The error tells what was expected.
    fn from_str(text: &str) -> Result<ListenAddress, &'static str> {
        if let Ok(address) = text.parse() {
            return Ok(ListenAddress::One(address));
        }
        let number = |digits: &str| {
            // The parser of numbers accepts a plus sign.
            let port = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            port.and_then(|digits| digits.parse().ok())
        };
        if let Some(port) = text.strip_prefix("localhost:").and_then(number) {
            return Ok(ListenAddress::Localhost(port));
        }
        if let Some(port) = number(text.strip_prefix(':').unwrap_or(text)) {
            return Ok(ListenAddress::All(port));
        }
        match text.rsplit_once(':') {
            Some((name, port))
                if number(port).is_some() && name.starts_with(|char: char| char.is_alphabetic()) =>
            {
                Err(
                    "expected an address of this host in place of a name: hosts in [[site]] selects sites by name",
                )
            }
            _ => Err("expected a port, an address and a port, localhost:PORT, or unix:PATH"),
        }
    }
}

impl fmt::Display for ListenAddress {
    /// Writes a form that `--listen` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::One(address) => address.fmt(f),
            ListenAddress::All(port) => write!(f, ":{port}"),
            ListenAddress::Localhost(port) => write!(f, "localhost:{port}"),
        }
    }
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
    /// Writes a form that `--listen` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.printable()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn prefix_selects_tls() {
        let cases: &[(&str, Option<(&str, bool)>)] = &[
            // text                    canonical, has TLS
            ("tls:443",                Some(("tls::443", true))),
            ("tls::443",               Some(("tls::443", true))),
            ("tls:0.0.0.0:443",        Some(("tls:0.0.0.0:443", true))),
            ("tls:[::1]:443",          Some(("tls:[::1]:443", true))),
            ("tls:localhost:8443",     Some(("tls:localhost:8443", true))),
            ("tls:unix:/run/a.sock",   Some(("tls:unix:/run/a.sock", true))),
            ("443",                    Some((":443", false))),
            ("unix:tls:443",           Some(("unix:tls:443", false))),
            ("tls:",                   None),
            ("tls:tls:443",            None),
            ("TLS:443",                None),
            ("https:443",              None),
            ("https://localhost:443/", None),
            ("tls:example.org:443",    None),
        ];
        for (text, want) in cases {
            let found = text.parse::<ListenValue>().ok().map(|value| (value.to_string(), value.has_tls));
            assert_eq!(found, want.map(|(text, has_tls)| (text.to_owned(), has_tls)), "{text}");
        }
        assert!("https:443".parse::<ListenValue>().unwrap_err().contains("tls:443"));
    }

    #[test]
    #[rustfmt::skip]
    fn text_names_one_or_two_sockets() {
        let cases: &[(&str, &str, &[&str])] = &[
            // text              canonical          sockets
            ("8080",             ":8080",           &["0.0.0.0:8080", "[::]:8080"]),
            (":8080",            ":8080",           &["0.0.0.0:8080", "[::]:8080"]),
            ("0",                ":0",              &["0.0.0.0:0", "[::]:0"]),
            ("localhost:80",     "localhost:80",    &["127.0.0.1:80", "[::1]:80"]),
            ("127.0.0.1:80",     "127.0.0.1:80",    &["127.0.0.1:80"]),
            ("[::]:80",          "[::]:80",         &["[::]:80"]),
            ("unix:8080",        "unix:8080",       &["unix:8080"]),
            ("unix:localhost:1", "unix:localhost:1", &["unix:localhost:1"]),
        ];
        for (text, canonical, sockets) in cases {
            let parsed: ListenAddress = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.to_string(), *canonical, "{text}");
            let found: Vec<_> = parsed.addresses().iter().map(Address::to_string).collect();
            assert_eq!(found, *sockets, "{text}");
        }
        let refused = [
            "", ":", "65536", ":65536", "-1", "+80", " 80", "8 0", "*:80", "localhost", "localhost:", "localhost:+80", "localhost:80:80",
            "LOCALHOST:80", "example.org:80", "example.org", "127.0.0.1", "[::1]", "::1:80x", "unix:", "http://localhost:80/",
        ];
        for text in refused {
            let found = text.parse::<ListenAddress>();
            assert!(found.is_err(), "{text:?} {found:?}");
        }
        assert!("example.org:80".parse::<ListenAddress>().unwrap_err().contains("in place of a name"));
    }
}
