//! Which addresses may be clients: networks that are allowed, and networks that are denied.
//!
//! ```text
//! allow 10.0.0.0/8, deny 10.9.0.0/16      0.0.0.0   10.0.0.0   10.9.0.0   10.10.0.0   11.0.0.0
//!                                         │ denied │ allowed  │ denied   │ allowed   │ denied
//! ```
//!
//! The most specific network that has an address decides. If none has it, it is denied if any network is allowed, and allowed otherwise. The
//! networks become ranges when the list is made, so a lookup is a binary search, however many there are.

use crate::proxy_trust::{IpNetwork, TrustedProxy};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Addresses that are allowed or denied. The text is a network as in `10.0.0.0/8`, an address, `unix` for clients of Unix sockets, or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressEntry {
    /// All addresses, and Unix sockets.
    All,
    /// These.
    Some(TrustedProxy),
}

/// A list of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressList {
    /// The start of each range, and whether its addresses are allowed. The first range starts at 0.
    v4: Box<[(u32, bool)]>,
    v6: Box<[(u128, bool)]>,
    unix: bool,
}

impl AddressList {
    /// Returns a list. An entry that is in both is denied.
    pub fn new(allow: &[AddressEntry], deny: &[AddressEntry]) -> AddressList {
        let is_open = allow.is_empty();
        let entries =
            || allow.iter().map(|entry| (entry, true)).chain(deny.iter().map(|entry| (entry, false)));
        // The result for addresses of no network; then the networks change it.
        let mut rest = (is_open, is_open, is_open);
        for (entry, is_allowed) in entries() {
            if let AddressEntry::All = entry {
                rest = (is_allowed, is_allowed, is_allowed);
            }
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (entry, is_allowed) in entries() {
            match entry {
                AddressEntry::All => {}
                AddressEntry::Some(TrustedProxy::Unix) => rest.2 = is_allowed,
                AddressEntry::Some(TrustedProxy::Network(network)) => match network.address() {
                    IpAddr::V4(v4_address) => v4.push(NetworkRange::of_v4(v4_address, network, is_allowed)),
                    IpAddr::V6(v6_address) => v6.push(NetworkRange::of_v6(v6_address, network, is_allowed)),
                },
            }
        }
        let v4 = ranges(v4, rest.0, u128::from(u32::MAX)).into_iter();
        AddressList {
            v4: v4.map(|(start, is_allowed)| (start as u32, is_allowed)).collect(),
            v6: ranges(v6, rest.1, u128::MAX).into(),
            unix: rest.2,
        }
    }

    /// Returns whether a client may come from this address. `None`: it has none, as at a Unix socket.
    pub fn allows(&self, address: Option<IpAddr>) -> bool {
        match address.map(|address| address.to_canonical()) {
            None => self.unix,
            Some(IpAddr::V4(v4)) => find(&self.v4, v4.to_bits()),
            Some(IpAddr::V6(v6)) => find(&self.v6, v6.to_bits()),
        }
    }
}

/// The addresses of a network.
struct NetworkRange {
    first: u128,
    last: u128,
    is_allowed: bool,
}

impl NetworkRange {
    fn of_v4(address: Ipv4Addr, network: &IpNetwork, is_allowed: bool) -> NetworkRange {
        let first = address.to_bits();
        let last = first | u32::MAX.checked_shr(network.prefix_len().into()).unwrap_or(0);
        NetworkRange { first: first.into(), last: last.into(), is_allowed }
    }

    fn of_v6(address: Ipv6Addr, network: &IpNetwork, is_allowed: bool) -> NetworkRange {
        let first = address.to_bits();
        let last = first | u128::MAX.checked_shr(network.prefix_len().into()).unwrap_or(0);
        NetworkRange { first, last, is_allowed }
    }
}

/// Returns where each range begins in which one network decides. `rest`: whether addresses of no network are allowed.
fn ranges(mut networks: Vec<NetworkRange>, rest: bool, last: u128) -> Vec<(u128, bool)> {
    // A network sorts before those within it. A denied network sorts after an equal one that is allowed, and so decides.
    networks.sort_by_key(|network| (network.first, u128::MAX - network.last, !network.is_allowed));
    let mut starts = vec![(0, rest)];
    // The networks around the place that is reached, the outermost first.
    let mut around: Vec<(u128, bool)> = vec![(last, rest)];
    let put = |starts: &mut Vec<(u128, bool)>, start: u128, is_allowed: bool| match starts.last_mut() {
        Some((at, last)) if *at == start => *last = is_allowed,
        _ => starts.push((start, is_allowed)),
    };
    let leave = |starts: &mut Vec<(u128, bool)>, around: &mut Vec<(u128, bool)>, before: Option<u128>| {
        while let &[.., (_, outer), (end, _)] = &around[..] {
            if before.is_some_and(|before| end >= before) {
                break;
            }
            around.pop();
            if end < last {
                put(starts, end + 1, outer);
            }
        }
    };
    for NetworkRange { first, last, is_allowed } in networks {
        leave(&mut starts, &mut around, Some(first));
        put(&mut starts, first, is_allowed);
        around.push((last, is_allowed));
    }
    leave(&mut starts, &mut around, None);
    starts.dedup_by_key(|(_, is_allowed)| *is_allowed);
    starts
}

/// Returns whether an address is allowed.
fn find<T: Ord + Copy>(ranges: &[(T, bool)], address: T) -> bool {
    let after = ranges.partition_point(|(start, _)| *start <= address);
    ranges[after - 1].1
}

impl FromStr for AddressEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<AddressEntry, String> {
        match text {
            "all" => Ok(AddressEntry::All),
            _ => text.parse().map(AddressEntry::Some).map_err(|expected: String| {
                expected.replace(" or the word unix", ", or the word unix or all")
            }),
        }
    }
}

impl fmt::Display for AddressEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressEntry::All => f.write_str("all"),
            AddressEntry::Some(entry) => entry.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// Entries that are allowed, entries that are denied, and addresses with whether they are allowed.
    type ListCase =
        (&'static str, &'static [&'static str], &'static [&'static str], &'static [(&'static str, bool)]);

    #[test]
    fn the_most_specific_network_decides() {
        #[rustfmt::skip]
        let cases: &[ListCase] = &[
            // case                   allow                     deny                             address, is allowed
            ("nothing",               &[],                      &[],                             &[("192.0.2.1", true), ("::1", true), ("unix", true)]),
            ("some are allowed",      &["10.0.0.0/8"],          &[],                             &[("10.0.0.0", true), ("10.255.255.255", true), ("9.255.255.255", false), ("11.0.0.0", false), ("::1", false), ("unix", false), ("::ffff:10.0.0.1", true)]),
            ("some are denied",       &[],                      &["192.0.2.0/24", "2001:db8::/32"], &[("192.0.2.0", false), ("192.0.2.255", false), ("192.0.3.0", true), ("192.0.1.255", true), ("2001:db8::", false), ("2001:db9::", true), ("unix", true)]),
            ("a part is denied",      &["10.0.0.0/8"],          &["10.9.0.0/16"],                &[("10.8.255.255", true), ("10.9.0.0", false), ("10.9.255.255", false), ("10.10.0.0", true), ("8.8.8.8", false)]),
            ("a part is allowed",     &["all", "192.0.2.7"],    &["192.0.2.0/24"],               &[("192.0.2.6", false), ("192.0.2.7", true), ("192.0.2.8", false), ("192.0.3.1", true), ("::1", true), ("unix", true)]),
            ("three levels",          &["10.0.0.0/8", "10.9.9.0/24"], &["10.9.0.0/16", "10.9.9.9"], &[("10.9.8.0", false), ("10.9.9.8", true), ("10.9.9.9", false), ("10.9.9.10", true), ("10.9.10.0", false), ("10.10.0.0", true)]),
            ("at both ends",          &["0.0.0.0/8", "255.0.0.0/8"], &[],                         &[("0.0.0.0", true), ("1.0.0.0", false), ("254.255.255.255", false), ("255.255.255.255", true)]),
            ("the last address",      &["all"],                 &["255.255.255.255", "ffff::/16"], &[("255.255.255.254", true), ("255.255.255.255", false), ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false), ("fffe::", true)]),
            ("all of a version",      &["0.0.0.0/0"],           &[],                             &[("192.0.2.1", true), ("::1", false), ("unix", false)]),
            ("only Unix sockets",     &["unix"],                &[],                             &[("192.0.2.1", false), ("unix", true)]),
            ("all but Unix sockets",  &[],                      &["unix"],                       &[("192.0.2.1", true), ("unix", false)]),
            ("nothing at all",        &[],                      &["all"],                        &[("192.0.2.1", false), ("::1", false), ("unix", false)]),
            ("in both",               &["10.0.0.0/8"],          &["10.0.0.0/8"],                 &[("10.0.0.1", false)]),
        ];
        for (case, allow, deny, addresses) in cases {
            let list = AddressList::new(&entries(allow), &entries(deny));
            for (address, want) in *addresses {
                assert_eq!(list.allows(address.parse().ok()), *want, "{case}: {address}");
            }
        }
        for (text, want) in [
            ("10.0.0.1/8", "expected the first address of the network, 10.0.0.0/8"),
            ("example.org", "expected a network, an IP address, or the word unix or all"),
        ] {
            assert_eq!(text.parse::<AddressEntry>(), Err(want.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn a_list_is_the_same_as_a_search_for_the_longest_prefix(
            networks in vec((0_u32..64, 24_u8..=32, any::<bool>()), 0..12),
            address in 0_u32..64,
        ) {
            // Networks in a small part of all addresses, so that they lie in one another.
            let networks: Vec<_> = networks.into_iter().map(|(bits, len, is_allowed)| {
                (IpNetwork::new(Ipv4Addr::from_bits(bits).into(), len).expect("a prefix"), len, is_allowed)
            }).collect();
            let of = |wanted: bool| -> Vec<_> {
                let of = networks.iter().filter(|(.., is_allowed)| *is_allowed == wanted);
                of.map(|(network, ..)| AddressEntry::Some(TrustedProxy::Network(*network))).collect()
            };
            let list = AddressList::new(&of(true), &of(false));
            let address = IpAddr::from(Ipv4Addr::from_bits(address));
            let matching = networks.iter().filter(|(network, ..)| network.contains(address));
            let longest = matching.max_by_key(|(_, len, is_allowed)| (*len, !*is_allowed));
            let want = longest.map_or(of(true).is_empty(), |(.., is_allowed)| *is_allowed);
            prop_assert_eq!(list.allows(Some(address)), want);
        }
    }

    fn entries(texts: &[&str]) -> Vec<AddressEntry> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }
}
