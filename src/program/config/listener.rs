//! `[[listener]]`: the addresses that the server listens on.

use super::{CommandKind, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{Address, default_addresses};
use CommandKind::{Embedded, Serve};

/// A listener of the configuration.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The address to listen on.
    pub address: Address,
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "listener",
    count: 0..=usize::MAX,
    help: "An address that the server listens on",
    key: Some("address"),
    options: OPTIONS,
    add: |config| {
        let [address, _] = default_addresses();
        config.listeners.push(ListenerConfig { address });
    },
};

const OPTIONS: &[Opt] = &[Opt {
    name: "address",
    flag: FlagForm::Named("listen", 'l'),
    commands: &[Serve, Embedded],
    heading: "Server",
    value_name: "ADDR:PORT",
    kind: ValueKind::Address(|config, address| {
        config.listeners.last_mut().expect("add() pushed a listener").address = address;
    }),
    required: true,
    default: OptionDefault::Described("127.0.0.1:8080, and [::1]:8080 if the host has IPv6"),
    example: "127.0.0.1:8080",
    invalid: &["", "localhost", "8080", "unix:", "127.0.0.1", "127.0.0.1:65536", "[::1]"],
    help: "Listen on this address: ADDR:PORT or unix:PATH",
    details: "Such as 127.0.0.1:8080, 0.0.0.0:80, [::]:80 or unix:/run/tarpon/http.sock.",
    ..OPT
}];
