//! `[[listener]]`: where the server listens.

use super::{CommandKind, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{Address, default_addresses};
use CommandKind::{Carrier, Serve};

/// What is said of a listener.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Where.
    pub address: Address,
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "listener",
    count: 0..=usize::MAX,
    help: "An address at which the server listens",
    key: Some("address"),
    options: OPTIONS,
    begin: |config| {
        let [address, _] = default_addresses();
        config.listeners.push(ListenerConfig { address });
    },
};

const OPTIONS: &[Opt] = &[Opt {
    name: "address",
    flag: FlagForm::Named("listen", 'l'),
    on: &[Serve, Carrier],
    heading: "Server",
    value_name: "ADDR:PORT",
    kind: ValueKind::Address(|config, address| {
        config.listeners.last_mut().expect("a listener that was begun").address = address;
    }),
    required: true,
    default: OptionDefault::Words("127.0.0.1:8080 and, where there is IPv6, [::1]:8080"),
    example: "127.0.0.1:8080",
    refused: &["", "localhost", "8080", "unix:", "127.0.0.1", "127.0.0.1:65536", "[::1]"],
    help: "Where to listen: ADDR:PORT, such as 127.0.0.1:8080, 0.0.0.0:80 or [::]:80, or unix:PATH",
    ..OPT
}];
