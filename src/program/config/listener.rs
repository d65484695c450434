//! `[[listener]]`: the addresses that the server listens on.

use super::limit::{NO_ENTRIES, address_entry};
use super::server::{NO_MODES, mode, user};
use super::{CommandKind, Config, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{
    AddressEntry, Http2Use, ListenAddress, ListenValue, ListenerOptions, SocketAccess, TlsPolicy,
    default_addresses,
};
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
    /// What it asks of the kernel and of the addresses of clients.
    pub options: ListenerOptions,
    /// Whether clients must speak TLS.
    pub has_tls: bool,
    /// The requirements for clients, if it has TLS.
    pub tls: TlsPolicy,
}

impl ListenerConfig {
    /// Returns a listener with the defaults of all other options.
    pub(crate) fn at(ListenValue { address, has_tls }: ListenValue) -> ListenerConfig {
        let (access, tls) = (SocketAccess::default(), TlsPolicy::default());
        let options = ListenerOptions::default();
        ListenerConfig { address, access, proxy_protocol: false, options, has_tls, tls }
    }
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "listener",
    count: 0..=usize::MAX,
    help: "An address that the server listens on",
    key: Some("address"),
    options: OPTIONS,
    add: |config| {
        let [address, _] = default_addresses();
        let value = ListenValue { address: ListenAddress::One(address), has_tls: false };
        config.listeners.push(ListenerConfig::at(value));
    },
};

const OPTIONS: &[Opt] = &[
    Opt {
        name: "address",
        flag: FlagForm::Named("listen", 'l'),
        commands: &[Serve, Embedded],
        heading: "Server",
        value_name: "ADDR:PORT",
        kind: ValueKind::Listen(|config, ListenValue { address, has_tls }| {
            let listener = config.listener();
            (listener.address, listener.has_tls) = (address, has_tls);
        }),
        required: true,
        default: OptionDefault::Described("127.0.0.1:8080, and [::1]:8080 if the host has IPv6"),
        example: "127.0.0.1:8080",
        invalid: &[
            "",
            "tls:",
            "https:443",
            "localhost",
            "example.org:80",
            "65536",
            "unix:",
            "127.0.0.1",
            "127.0.0.1:65536",
            "[::1]",
        ],
        help: "Listen on this address: PORT, ADDR:PORT, localhost:PORT or unix:PATH; tls:… for HTTPS",
        details: "8080 and :8080 mean all addresses of the host, localhost:8080 the loopback addresses, IPv4 and IPv6. Others are such \
              as 192.0.2.1:80, [::1]:80 or unix:/run/tarpon/http.sock. With tls: in front, as in tls:443, clients speak HTTPS: see tls-cert.",
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
    Opt {
        name: "allow",
        value_name: "NETWORK",
        kind: ValueKind::Text(address_entry, |config, text| {
            config.listener().options.allow.extend(text.parse::<AddressEntry>())
        }),
        is_list: true,
        example: "10.0.0.0/8",
        invalid: NO_ENTRIES,
        help: "Accept connections from these networks only, and reset others before anything is read",
        details: "The most specific network of allow and deny decides; both together replace those of [server] for this listener.",
        ..OPT
    },
    Opt {
        name: "deny",
        value_name: "NETWORK",
        kind: ValueKind::Text(address_entry, |config, text| {
            config.listener().options.deny.extend(text.parse::<AddressEntry>())
        }),
        is_list: true,
        example: "192.0.2.0/24",
        invalid: NO_ENTRIES,
        help: "Reset connections from these networks before anything is read",
        details: "See allow.",
        ..OPT
    },
    Opt {
        name: "fast-open",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=65_535, "connections", |config, count| {
            config.listener().options.fast_open = Some(count);
        }),
        default: OptionDefault::Described(
            "as the kernel has it: 0, unless net.ipv4.tcp_fastopen turns it on for all listeners",
        ),
        example: "256",
        help: "Accept requests with the first packet of this many new connections at a time",
        details: "TCP Fast Open (RFC 7413) saves clients that come back a round trip; 0 turns it off. Such a request may arrive twice, so leave it off before servers that must not see one twice. The kernel \
                  must allow it: net.ipv4.tcp_fastopen = 3.",
        ..OPT
    },
    Opt {
        name: "http2",
        value_name: "WHETHER",
        kind: ValueKind::Choice(&[
            ("on", |config| config.listener().options.http2 = Some(Http2Use::On)),
            ("off", |config| config.listener().options.http2 = Some(Http2Use::Off)),
            ("only", |config| config.listener().options.http2 = Some(Http2Use::Only)),
        ]),
        default: OptionDefault::Described("as http2 in [server]"),
        example: "off",
        help: "Select whether clients of this listener may speak HTTP/2: on, off, or only it",
        details: "With off, a client with TLS is offered HTTP/1.1 alone.",
        ..OPT
    },
    Opt {
        name: "tls-client-ca",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| config.listener().tls.client_ca = Some(path)),
        example: "/etc/tarpon/clients.pem",
        help: "Require clients to have a certificate that an authority in this PEM file has signed",
        details: "tls-client-auth makes it optional. For all sites of the listener: a site that only such clients may see names this listener with listen, and no other. A session \
                  of another listener does not resume here.",
        ..OPT
    },
    Opt {
        name: "tls-client-auth",
        value_name: "WHETHER",
        kind: ValueKind::Choice(&[
            ("required", |config| config.listener().tls.is_client_auth_optional = false),
            ("optional", |config| config.listener().tls.is_client_auth_optional = true),
        ]),
        default: OptionDefault::Value("required"),
        help: "Select whether a client without a certificate is refused",
        details: "Only with tls-client-ca. A certificate that no such authority has signed is refused with both.",
        ..OPT
    },
    Opt {
        name: "tls-min-version",
        value_name: "VERSION",
        kind: ValueKind::Choice(&[
            ("1.2", |config| config.listener().tls.requires_tls13 = false),
            ("1.3", |config| config.listener().tls.requires_tls13 = true),
        ]),
        default: OptionDefault::Value("1.2"),
        example: "1.3",
        help: "Refuse clients that speak only an older version of TLS",
        details: "TLS 1.3 has been in every browser since 2020.",
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
