//! `[[listener]]`: the addresses that the server listens on.

use super::{CommandKind, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{ListenAddress, default_addresses};
use CommandKind::{Embedded, Serve};

/// A listener of the configuration.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The address to listen on, or two of them.
    pub address: ListenAddress,
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "listener",
    count: 0..=usize::MAX,
    help: "An address that the server listens on",
    key: Some("address"),
    options: OPTIONS,
    add: |config| {
        let [address, _] = default_addresses();
        config.listeners.push(ListenerConfig { address: ListenAddress::One(address) });
    },
};

const OPTIONS: &[Opt] = &[Opt {
    name: "address",
    flag: FlagForm::Named("listen", 'l'),
    commands: &[Serve, Embedded],
    heading: "Server",
    value_name: "ADDR:PORT",
    kind: ValueKind::Listen(|config, address| {
        config.listeners.last_mut().expect("add() pushed a listener").address = address;
    }),
    required: true,
    default: OptionDefault::Described("127.0.0.1:8080, and [::1]:8080 if the host has IPv6"),
    example: "127.0.0.1:8080",
    invalid: &["", "localhost", "example.org:80", "65536", "unix:", "127.0.0.1", "127.0.0.1:65536", "[::1]"],
    help: "Listen on this address: PORT, ADDR:PORT, localhost:PORT or unix:PATH",
    details: "8080 and :8080 mean all addresses of the host, localhost:8080 the loopback addresses, IPv4 and IPv6. Others are such \
              as 192.0.2.1:80, [::1]:80 or unix:/run/tarpon/http.sock.",
    ..OPT
}];
