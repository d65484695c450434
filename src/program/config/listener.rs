//! `[[listener]]`: the addresses that the server listens on.

use super::server::{NO_MODES, mode, user};
use super::{CommandKind, Config, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{ListenAddress, SocketAccess, default_addresses};
use CommandKind::{Embedded, Serve};

/// A listener of the configuration.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The address to listen on, or two of them.
    pub address: ListenAddress,
    /// Which users may connect, if it is a Unix socket.
    pub access: SocketAccess,
    /// Whether each connection begins with a PROXY header.
    pub proxy_protocol: bool,
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "listener",
    count: 0..=usize::MAX,
    help: "An address that the server listens on",
    key: Some("address"),
    options: OPTIONS,
    add: |config| {
        let [address, _] = default_addresses();
        let (address, access) = (ListenAddress::One(address), SocketAccess::default());
        config.listeners.push(ListenerConfig { address, access, proxy_protocol: false });
    },
};

const OPTIONS: &[Opt] = &[
    Opt {
        name: "address",
        flag: FlagForm::Named("listen", 'l'),
        commands: &[Serve, Embedded],
        heading: "Server",
        value_name: "ADDR:PORT",
        kind: ValueKind::Listen(|config, address| {
            config.listener().address = address;
        }),
        required: true,
        default: OptionDefault::Described("127.0.0.1:8080, and [::1]:8080 if the host has IPv6"),
        example: "127.0.0.1:8080",
        invalid: &[
            "",
            "localhost",
            "example.org:80",
            "65536",
            "unix:",
            "127.0.0.1",
            "127.0.0.1:65536",
            "[::1]",
        ],
        help: "Listen on this address: PORT, ADDR:PORT, localhost:PORT or unix:PATH",
        details: "8080 and :8080 mean all addresses of the host, localhost:8080 the loopback addresses, IPv4 and IPv6. Others are such \
              as 192.0.2.1:80, [::1]:80 or unix:/run/tarpon/http.sock.",
        ..OPT
    },
    Opt {
        name: "mode",
        value_name: "MODE",
        kind: ValueKind::Text(mode, |config, mode| {
            config.listener().access.mode = u32::from_str_radix(&mode, 8).expect("the mode is octal");
        }),
        default: OptionDefault::Described("0660"),
        example: "0666",
        invalid: NO_MODES,
        help: "Set the mode of the Unix socket, whatever the umask",
        details: "A client needs the permission to write: with 0660 the owner and the group of the socket may connect, with 0666 every \
                  user. A socket of systemd keeps its SocketMode=.",
        ..OPT
    },
    Opt {
        name: "owner",
        value_name: "USER",
        kind: ValueKind::Text(user, |config, name| config.listener().access.owner = Some(name)),
        default: OptionDefault::Described("the user that starts tarpon"),
        example: "www-data",
        invalid: &["", "a:b", "a b", "a/b"],
        help: "Set the owner of the Unix socket: the name or number of a user",
        details: "Only root can name another user.",
        ..OPT
    },
    Opt {
        name: "group",
        value_name: "GROUP",
        kind: ValueKind::Text(group, |config, name| config.listener().access.group = Some(name)),
        default: OptionDefault::Described("the group that new files in the directory get"),
        example: "www-data",
        invalid: &["", "a:b", "a b", "a/b"],
        help: "Set the group of the Unix socket: its name or number",
        details: "Its members may connect, such as a proxy on the same host. Users other than root can name a group of theirs only.",
        ..OPT
    },
    Opt {
        name: "proxy-protocol",
        kind: ValueKind::Flag(|config, on| config.listener().proxy_protocol = on),
        help: "Require each connection to begin with a PROXY header, version 1 or 2",
        details: "It names the client of the proxy, which must be one of trusted-proxies. A connection without a valid header is closed.",
        ..OPT
    },
];

/// Accepts every name that a group database can hold.
fn group(name: &str) -> Result<String, String> {
    user(name).map_err(|_| "expected a group name".to_owned())
}

impl Config {
    /// Returns the listener that was added last.
    fn listener(&mut self) -> &mut ListenerConfig {
        self.listeners.last_mut().expect("add() pushed a listener")
    }
}
