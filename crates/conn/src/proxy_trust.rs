//! Which proxies in front of the server are trusted, and how they name the client.
//!
//! ```text
//! client ─▶ proxy ─────────▶ server       peer: the address of the socket, or that of its PROXY header
//!           └ Forwarded: for=client       read if the peer is trusted
//! ```

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};
use tarpon_http::forwarded::ForwardedField;

/// The address of the other end of a connection, without its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// An IP address.
    Ip(IpAddr),
    /// The peer is connected through a Unix socket.
    Unix,
}

/// Which proxies are trusted, and how they name the client. The default trusts none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyTrust {
    /// The trusted proxies. Default: none.
    pub proxies: Box<[TrustedProxy]>,
    /// The field in which they name the client. `None`: no field is read. Default: `None`.
    pub field: Option<ForwardedField>,
}

/// Proxies that are trusted to name their clients. The text is a network as in `10.0.0.0/8`, an address, or `unix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedProxy {
    /// The addresses of a network.
    Network(IpNetwork),
    /// Every client of a Unix socket: the permissions of its file decide about them.
    Unix,
}

/// A network: the addresses that begin with the same bits. The address of the network has zeros behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    prefix_len: u8,
}

impl PeerAddress {
    /// Returns the IP address. `None`: there is none.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            PeerAddress::Ip(ip) => Some(ip),
            PeerAddress::Unix => None,
        }
    }
}

impl ProxyTrust {
    /// Returns whether a peer is trusted.
    pub fn trusts(&self, peer: PeerAddress) -> bool {
        self.proxies.iter().any(|proxy| match (proxy, peer) {
            (TrustedProxy::Network(network), PeerAddress::Ip(ip)) => network.contains(ip),
            (TrustedProxy::Unix, PeerAddress::Unix) => true,
            _ => false,
        })
    }
}

impl IpNetwork {
    /// Returns the network of the addresses that have the same first `prefix_len` bits as `address`. `None`: the address does not have so
    /// many. An IPv4-mapped network is in its IPv4 form.
    pub fn new(address: IpAddr, prefix_len: u8) -> Option<IpNetwork> {
        let (address, prefix_len) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), v4 @ IpAddr::V4(_)) if prefix_len >= MAPPED_LEN => (v4, prefix_len - MAPPED_LEN),
            (given, _) => (given, prefix_len),
        };
        let address = match address {
            IpAddr::V4(v4) => {
                let host_len = 32_u32.checked_sub(prefix_len.into())?;
                Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(host_len).unwrap_or(0)).into()
            }
            IpAddr::V6(v6) => {
                let host_len = 128_u32.checked_sub(prefix_len.into())?;
                Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(host_len).unwrap_or(0)).into()
            }
        };
        Some(IpNetwork { address, prefix_len })
    }

    /// Returns the first address of the network.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of bits that its addresses have in common.
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// Returns whether an address belongs to the network. An IPv4-mapped address counts as its IPv4 form.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && IpNetwork::new(address, self.prefix_len).is_some_and(|network| network.address == self.address)
    }
}

/// The length of the prefix that IPv4-mapped addresses have: RFC 4291, section 2.5.5.2.
const MAPPED_LEN: u8 = 96;

impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<TrustedProxy, String> {
        if text == "unix" {
            return Ok(TrustedProxy::Unix);
        }
        let expected = || "expected a network, an IP address or the word unix".to_owned();
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let len_max = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |len: &str| len.bytes().all(|byte| byte.is_ascii_digit());
        let len = match len {
            None => len_max,
            Some(len) => len.parse().ok().filter(|_| is_number(len)).ok_or_else(expected)?,
        };
        let network = IpNetwork::new(address, len)
            .ok_or_else(|| format!("expected a prefix of at most {len_max} bits"))?;
        let has_host_bits =
            network.address != address && network.address.to_canonical() != address.to_canonical();
        match has_host_bits {
            true => {
                Err(format!("expected the first address of the network, {}", TrustedProxy::Network(network)))
            }
            false => Ok(TrustedProxy::Network(network)),
        }
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustedProxy::Unix => f.write_str("unix"),
            TrustedProxy::Network(IpNetwork { address, prefix_len }) => {
                let is_whole = *prefix_len == if address.is_ipv4() { 32 } else { 128 };
                match is_whole {
                    true => address.fmt(f),
                    false => write!(f, "{address}/{prefix_len}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_proxies_are_networks_addresses_and_unix() {
        let (none, first) = (
            "expected a network, an IP address or the word unix",
            "expected the first address of the network, ",
        );
        #[rustfmt::skip]
        let cases: &[(&str, Result<&str, String>)] = &[
            // text                  canonical form
            ("10.0.0.0/8",           Ok("10.0.0.0/8")),
            ("192.0.2.7",            Ok("192.0.2.7")),
            ("192.0.2.7/32",         Ok("192.0.2.7")),
            ("0.0.0.0/0",            Ok("0.0.0.0/0")),
            ("::/0",                 Ok("::/0")),
            ("::1",                  Ok("::1")),
            ("2001:DB8::/32",        Ok("2001:db8::/32")),
            ("::ffff:10.0.0.0/104",  Ok("10.0.0.0/8")),
            ("::ffff:10.0.0.7",      Ok("10.0.0.7")),
            ("unix",                 Ok("unix")),
            ("10.0.0.1/8",           Err(format!("{first}10.0.0.0/8"))),
            ("2001:db8::1/32",       Err(format!("{first}2001:db8::/32"))),
            ("10.0.0.0/33",          Err("expected a prefix of at most 32 bits".to_owned())),
            ("::/129",               Err("expected a prefix of at most 128 bits".to_owned())),
            ("10.0.0.0/",            Err(none.to_owned())),
            ("10.0.0.0/+8",          Err(none.to_owned())),
            ("10.0.0.0/255.0.0.0",   Err(none.to_owned())),
            ("10.0.0.0/256",         Err(none.to_owned())),
            ("10.0.0.1:80",          Err(none.to_owned())),
            ("[::1]",                Err(none.to_owned())),
            ("fe80::1%eth0",         Err(none.to_owned())),
            ("10.0.0.01",            Err(none.to_owned())),
            ("10.0",                 Err(none.to_owned())),
            ("Unix",                 Err(none.to_owned())),
            ("proxy.example",        Err(none.to_owned())),
            ("",                     Err(none.to_owned())),
        ];
        for (text, want) in cases {
            let found = text.parse().map(|proxy: TrustedProxy| proxy.to_string());
            assert_eq!(found, want.clone().map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_network_has_the_addresses_with_its_prefix() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, bool)] = &[
            // trusted             peer                 is trusted
            ("10.0.0.0/8",         "10.255.255.255",    true),
            ("10.0.0.0/8",         "11.0.0.0",          false),
            ("10.0.0.0/8",         "9.255.255.255",     false),
            ("10.0.0.0/8",         "::ffff:10.1.2.3",   true),
            ("10.0.0.0/8",         "::10.1.2.3",        false),
            ("10.0.0.0/8",         "unix",              false),
            ("0.0.0.0/0",          "203.0.113.7",       true),
            ("0.0.0.0/0",          "::1",               false),
            ("::/0",               "2001:db8::1",       true),
            ("::/0",               "203.0.113.7",       false),
            ("::/0",               "::ffff:203.0.113.7", false),
            ("::ffff:0:0/96",      "203.0.113.7",       true),
            ("192.0.2.7",          "192.0.2.7",         true),
            ("192.0.2.7",          "192.0.2.6",         false),
            ("2001:db8::/33",      "2001:db8:7fff::",   true),
            ("2001:db8::/33",      "2001:db8:8000::",   false),
            ("::1",                "::1",               true),
            ("::1",                "127.0.0.1",         false),
            ("unix",               "unix",              true),
            ("unix",               "127.0.0.1",         false),
        ];
        for &(trusted, peer, want) in cases {
            let trust = ProxyTrust { proxies: [trusted.parse().expect(trusted)].into(), field: None };
            let peer_address = peer.parse().map_or(PeerAddress::Unix, PeerAddress::Ip);
            assert_eq!(trust.trusts(peer_address), want, "{peer} of {trusted}");
            assert!(!ProxyTrust::default().trusts(peer_address), "{peer}");
        }
    }
}
