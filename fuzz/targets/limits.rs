//! Values of the limits of clients: addresses, rates and users. A valid one is the same after it was written and read again; a list of addresses
//! decides as a search for the longest prefix does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;
use tarpon::{AddressEntry, PasswordUser, RequestRate, TrustedProxy};
use tarpon_conn::AddressList;

// The first byte selects the kind of value. The rest is one in each line.
fuzz_target!(|input: &[u8]| {
    let Some((&selector, rest)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match selector % 3 {
        0 => check_addresses(text),
        1 => text.lines().for_each(check_rate),
        _ => text.lines().for_each(check_user),
    }
});

/// The first line is an address; the others are allowed, or denied behind a `!`.
fn check_addresses(text: &str) {
    let mut lines = text.lines();
    let address = lines.next().and_then(|line| line.parse::<IpAddr>().ok());
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    for line in lines {
        let (list, line) = match line.strip_prefix('!') {
            Some(line) => (&mut deny, line),
            None => (&mut allow, line),
        };
        let Ok(entry) = line.parse::<AddressEntry>() else { continue };
        assert_eq!(entry.to_string().parse(), Ok(entry), "{line}");
        list.push(entry);
    }
    let list = AddressList::new(&allow, &deny);
    // The longest prefix decides, and a denied one before an equal one that is allowed.
    let canonical = address.map(|address| address.to_canonical());
    let rank = |entry: &AddressEntry| match (entry, canonical) {
        (AddressEntry::All, _) => Some(0),
        (AddressEntry::Some(TrustedProxy::Unix), None) => Some(1),
        (AddressEntry::Some(TrustedProxy::Network(network)), Some(address)) => {
            network.contains(address).then(|| 1 + u16::from(network.prefix_len()))
        }
        _ => None,
    };
    let [allowed, denied] = [&allow, &deny].map(|entries| entries.iter().filter_map(rank).max());
    let want = match (allowed, denied) {
        (None, None) => allow.is_empty(),
        (allowed, denied) => allowed > denied,
    };
    assert_eq!(list.allows(address), want, "{text}");
}

fn check_rate(line: &str) {
    let Ok(rate) = line.parse::<RequestRate>() else { return };
    assert_eq!(rate.to_string().parse(), Ok(rate), "{line}");
}

fn check_user(line: &str) {
    match line.parse::<PasswordUser>() {
        Ok(user) => {
            assert!(line.starts_with(user.name()) && !user.name().is_empty());
            assert!(
                ["$argon2id$", "$2a$", "$2b$", "$2y$"]
                    .iter()
                    .any(|start| line[user.name().len() + 1..].starts_with(start))
            );
        }
        // The reason shows nothing of the line, which may be a password.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
