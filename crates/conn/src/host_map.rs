//! A map from the names of hosts to values.
//!
//! ```text
//! WWW.Example.org.:8080 ─ normalize ─▶ www.example.org ─┬─ this name ─────────────────▶ its value
//!                                                       ├─ *.example.org, then *.org ─▶ its value
//!                                                       └─ no match
//! ```

use crate::hosts::HostName;
use std::{
    collections::{HashMap, hash_map::Entry},
    io::Write,
    net::Ipv6Addr,
};
use tarpon_http::host;

/// Values by the names of hosts. Names are compared without case, port and the dot of the root; IPv6 addresses by value.
#[derive(Clone, Debug)]
pub(crate) struct HostMap<T> {
    /// By normalized name.
    values: HashMap<Box<[u8]>, T>,
    /// The length of the longest wildcard in bytes.
    wildcard_len_max: usize,
}

impl<T> HostMap<T> {
    /// Adds a name. Returns the value that was added for it before, if there is one; that stays.
    pub(crate) fn insert(&mut self, name: &HostName, value: T) -> Result<(), &T> {
        if name.is_wildcard() {
            self.wildcard_len_max = self.wildcard_len_max.max(name.as_bytes().len());
        }
        match self.values.entry(name.as_bytes().into()) {
            Entry::Occupied(taken) => Err(taken.into_mut()),
            Entry::Vacant(free) => {
                free.insert(value);
                Ok(())
            }
        }
    }

    /// Returns the values of all names.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.values()
    }

    /// Finds the value of a valid host, with or without a port: of its name, or of the longest wildcard that matches.
    pub(crate) fn find(&self, host: &[u8]) -> Option<&T> {
        let mut scratch = [0; KEY_LEN_MAX];
        let key = normalize(host::split_port(host).0, &mut scratch)?;
        self.values.get(&key[..]).or_else(|| self.find_wildcard(key))
    }

    /// Finds the longest wildcard that matches. Overwrites parts of `key`.
    fn find_wildcard(&self, key: &mut [u8]) -> Option<&T> {
        // A longer rest cannot match: this bounds the cost of a host with many dots.
        let from = (key.len() + 1).saturating_sub(self.wildcard_len_max).max(1);
        (from..key.len()).find_map(|dot| {
            let is_dot = key[dot] == b'.';
            // The star stands for one or more labels, so at least one byte precedes the dot.
            is_dot.then(|| key[dot - 1] = b'*')?;
            self.values.get(&key[dot - 1..])
        })
    }
}

impl<T> Default for HostMap<T> {
    fn default() -> HostMap<T> {
        HostMap { values: HashMap::new(), wildcard_len_max: 0 }
    }
}

/// The length of a buffer that any valid name and any address fits in.
const KEY_LEN_MAX: usize = 256;

/// Normalizes a host without port for the lookup. `None`: it is longer than any name.
fn normalize<'k>(host: &[u8], scratch: &'k mut [u8; KEY_LEN_MAX]) -> Option<&'k mut [u8]> {
    if let [b'[', address @ .., b']'] = host
        && let Some(address) = str::from_utf8(address).ok().and_then(|text| text.parse::<Ipv6Addr>().ok())
    {
        let mut room = &mut scratch[..];
        write!(room, "[{address}]").ok()?;
        let len = KEY_LEN_MAX - room.len();
        return Some(&mut scratch[..len]);
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    let key = scratch.get_mut(..host.len())?;
    key.copy_from_slice(host);
    key.make_ascii_lowercase();
    Some(key)
}
