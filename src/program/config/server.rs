//! `[server]`: the options that apply to all sites and listeners.

use super::{
    CommandKind, Config, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, acme, cgi, limit,
    option::OPT,
};
use crate::{
    AcmeChallenge, AcmeConfig, Address, AddressEntry, AdminAccess, CertificateFiles, CgiConfig, Engine,
    ForwardedField, HostName, Http2Use, KernelTlsUse, Settings, TrustedProxy,
};
use CommandKind::{Embedded, Serve};
use std::{
    num::{NonZeroU32, NonZeroUsize},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};
use tarpon_http::{
    head::{HEAD_LEN_MAX, HEAD_LEN_USUAL},
    target,
};

/// The section `[server]`.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// The settings of the server library. The engine may be `Auto`. Overrides of sites are not included.
    pub settings: Settings,
    /// How long open responses may take to finish at shutdown.
    pub grace_period: Duration,
    /// Whether the server answers 421 to a host that no site has. Otherwise the default site answers.
    pub refuse_unknown_hosts: bool,
    /// The user that the serving processes switch to if the server is started as root.
    pub user: Option<String>,
    /// Whether the serving processes run in a sandbox.
    pub sandbox: bool,
    /// The certificates of the server.
    pub certificates: Vec<CertificateFiles>,
    /// Whether the server makes a certificate for itself.
    pub is_self_signed: bool,
    /// The address of the admin listener.
    pub admin: AdminAt,
    /// Which clients may use the admin listener.
    pub admin_access: AdminAccess,
    /// The file with the token of the admin listener, which [`load_files`](super::load_files) reads.
    pub admin_token_file: Option<PathBuf>,
    /// How CGI programs run.
    pub cgi: CgiConfig,
    /// The directory of certificates, and how to prove names to it.
    pub acme: AcmeConfig,
}

/// The address of the admin listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminAt {
    /// The [default](crate::default_admin_address), if no other server uses it.
    #[default]
    Default,
    /// This address. If it is not available, the server does not start.
    At(Address),
    /// No admin listener.
    Off,
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "server",
    count: 1..=1,
    help: "Options that apply to all sites and listeners",
    key: None,
    options: OPTIONS,
    add: |_| (),
};

/// At most a day: a longer timeout is as good as none, and a server without timeouts runs out of connections.
pub(super) const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

/// At most a gibibyte per second: no client needs to be faster.
pub(super) const SEND_RATES: RangeInclusive<u64> = 0..=1 << 30;

/// The limits of the length of a head that a worker can have.
const HEAD_SIZES: RangeInclusive<u64> = HEAD_LEN_USUAL as u64..=HEAD_LEN_MAX as u64;

/// A greater number is a mistake: no machine has so many cores.
const WORKER_COUNT_MAX: u32 = 1024;

/// The fields that all options here share.
const SERVER: Opt = Opt { commands: &[Serve, Embedded], heading: "Server", ..OPT };

/// The fields that all options of TLS here share.
const TLS: Opt = Opt { heading: "HTTPS", ..SERVER };
/// The fields that all options about certificates share.
const ACME: Opt = Opt { commands: &[Serve], heading: "Certificates by ACME", ..OPT };

/// The fields that all limits of clients share.
const LIMIT: Opt = Opt { heading: "Limits of clients", ..SERVER };

/// The fields that all timeouts here share.
const TIME: Opt = Opt { value_name: "TIME", example: "1m30s", ..SERVER };

/// Accepts every name that a user database can hold.
pub(super) fn user(name: &str) -> Result<String, String> {
    let is_forbidden = |char: char| [':', '/', ' '].contains(&char) || char.is_control();
    let is_name = !name.is_empty() && !name.contains(is_forbidden);
    if is_name { Ok(name.to_owned()) } else { Err("expected a user name".to_owned()) }
}

/// One request in how many has its path counted: that many keep a share of a thousandth exact at a thousand requests in a second.
const HOT_PATHS: RangeInclusive<u32> = 1..=10_000;

/// Accepts an octal mode of a file, without set-user-ID and other special bits.
pub(super) fn mode(text: &str) -> Result<String, String> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.map(|mode| format!("{mode:04o}")).ok_or_else(|| "expected an octal mode up to 0777".to_owned())
}

/// Texts that are no mode.
pub(super) const NO_MODES: &[&str] = &["", "rw", "60", "0o600", "00600", "0680", "1600", "-600", "+600"];

/// Accepts a host name that is no wildcard.
fn admin_host(text: &str) -> Result<String, String> {
    match text.parse::<HostName>() {
        Ok(name) if name.is_wildcard() => Err("expected a host name without *".to_owned()),
        Ok(name) => Ok(name.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Accepts proxies to trust.
fn trusted_proxy(text: &str) -> Result<String, String> {
    text.parse().map(|proxy: TrustedProxy| proxy.to_string())
}

fn set_forwarded_field(config: &mut Config, field: ForwardedField) {
    config.server.settings.proxy_trust.field = Some(field);
}

/// Accepts a path that clients send exactly as it is written here.
fn health_path(path: &str) -> Result<String, String> {
    let is_visible = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    match target::is_plain(path.as_bytes()) && is_visible && !path.contains("//") {
        true => Ok(path.to_owned()),
        false => Err(
            "expected a path that begins with / and has no escapes, spaces, dots after slashes or queries"
                .to_owned(),
        ),
    }
}

const OPTIONS: &[Opt] = &[
    Opt {
        name: "engine",
        flag: FlagForm::Short('e'),
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("auto", |config| config.server.settings.engine = Engine::Auto),
            ("io_uring", |config| config.server.settings.engine = Engine::IoUring),
            ("epoll", |config| config.server.settings.engine = Engine::Epoll),
            ("kqueue", |config| config.server.settings.engine = Engine::Kqueue),
            ("poll", |config| config.server.settings.engine = Engine::Poll),
            ("threads", |config| config.server.settings.engine = Engine::Threads),
            ("prefork", |config| config.server.settings.engine = Engine::Prefork),
            ("fork", |config| config.server.settings.engine = Engine::Fork),
        ]),
        default: OptionDefault::Value("auto"),
        help: "Select the engine that drives the workers",
        details: "The engine io_uring needs Linux 6.1 or newer, epoll Linux, kqueue FreeBSD or macOS. The value auto takes the best engine that this host offers.",
        ..SERVER
    },
    Opt {
        name: "workers",
        flag: FlagForm::Short('w'),
        value_name: "COUNT",
        kind: ValueKind::Count(1..=WORKER_COUNT_MAX, "threads", |config, count| {
            config.server.settings.worker_count = NonZeroUsize::new(count as usize);
        }),
        default: OptionDefault::Described("one per core; 64 with threads and prefork; 256 with fork"),
        example: "4",
        help: "Set the number of worker threads; with prefork and fork, of processes",
        details: "At most 1024. With prefork and fork, each process serves one connection.",
        ..SERVER
    },
    Opt {
        name: "cpu-affinity",
        former_name: "pin",
        kind: ValueKind::Flag(|config, on| config.server.settings.cpu_affinity = on),
        help: "Pin each worker to a core of its own",
        ..SERVER
    },
    Opt {
        name: "header-timeout",
        former_name: "head-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.header_timeout = time),
        default: OptionDefault::Value("20s"),
        help: "Limit how long the request line and headers may take to arrive",
        ..TIME
    },
    Opt {
        name: "body-timeout",
        former_name: "content-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.body_timeout = time),
        default: OptionDefault::Value("30s"),
        help: "Limit how long the body of a request may take to arrive",
        ..TIME
    },
    Opt {
        name: "idle-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.idle_timeout = time),
        default: OptionDefault::Value("1m15s"),
        help: "Limit how long a connection may wait for its next request",
        ..TIME
    },
    Opt {
        name: "send-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.send_timeout = time),
        default: OptionDefault::Value("30s"),
        help: "Limit how long a client may receive a response below --min-send-rate",
        ..TIME
    },
    Opt {
        name: "min-send-rate",
        former_name: "send-rate-min",
        value_name: "BYTES",
        kind: ValueKind::Size(SEND_RATES, "a second", |config, len| {
            config.server.settings.min_send_rate = len.try_into().expect("the range ends at one gibibyte");
        }),
        default: OptionDefault::Value("500"),
        example: "4KiB",
        help: "Require clients to receive this many bytes of a response per second",
        details: "The average over --send-timeout counts. With 0, only a client that receives nothing is cut off.",
        ..SERVER
    },
    Opt {
        name: "keepalive-requests",
        former_name: "requests-max",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=u32::MAX, "requests", |config, count| {
            config.server.settings.keepalive_requests =
                NonZeroU32::new(count).expect("the range starts at 1");
        }),
        default: OptionDefault::Value("100000"),
        example: "1000",
        help: "Close a connection after this many requests",
        details: "As keepalive_requests of nginx.",
        ..SERVER
    },
    Opt {
        name: "max-head-size",
        value_name: "SIZE",
        kind: ValueKind::Size(HEAD_SIZES, "", |config, len| {
            config.server.settings.max_head_size = len.try_into().expect("the range ends at 64 KiB");
        }),
        default: OptionDefault::Value("16KiB"),
        example: "64KiB",
        help: "Refuse a request whose request line and headers are longer than this together",
        details: "It gets 414 or 431. A longer limit is for programs that set many or long cookies; each buffer of a worker becomes as long. Paths have at most 4 KiB, and requests of HTTP/2 at most 16 KiB of headers, whatever the limit.",
        ..SERVER
    },
    Opt {
        name: "allow",
        value_name: "NETWORK",
        kind: ValueKind::Text(limit::address_entry, |config, text| {
            config.server.settings.allow.extend(text.parse::<AddressEntry>());
        }),
        is_list: true,
        example: "10.0.0.0/8",
        invalid: limit::NO_ENTRIES,
        help: "Accept connections from these networks only: 10.0.0.0/8, 2001:db8::/32, unix or all",
        details: "Any other is reset before anything is read of it. The most specific network of allow and deny decides. The address of the peer counts: that of a proxy, not of its clients.",
        ..LIMIT
    },
    Opt {
        name: "deny",
        value_name: "NETWORK",
        kind: ValueKind::Text(limit::address_entry, |config, text| {
            config.server.settings.deny.extend(text.parse::<AddressEntry>());
        }),
        is_list: true,
        example: "192.0.2.0/24",
        invalid: limit::NO_ENTRIES,
        help: "Reset connections from these networks",
        details: "Before anything is read of them. See allow.",
        ..LIMIT
    },
    Opt {
        name: "max-connections",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=1 << 20, "connections", |config, count| {
            config.server.settings.max_connections = NonZeroU32::new(count);
        }),
        default: OptionDefault::Described("what the limit on open files allows"),
        example: "10000",
        help: "Limit the open connections of all clients",
        details: "Further clients wait. Each worker has an equal share, at least one. With threads, prefork and fork, --workers is the limit.",
        ..LIMIT
    },
    Opt {
        name: "max-connections-per-ip",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=100_000, "connections", |config, count| {
            config.server.settings.max_connections_per_ip = NonZeroU32::new(count);
        }),
        example: "50",
        help: "Reset connections of an address that has this many open",
        details: "Before anything is read of them. An address is an IPv4 address, or the first 64 bits of an IPv6 address. Trusted proxies, which carry many clients, and Unix sockets have no limit.",
        ..LIMIT
    },
    Opt {
        name: "request-rate",
        value_name: "RATE",
        kind: ValueKind::Text(limit::rate, |config, rate| {
            config.server.settings.request_rate = rate.parse().ok()
        }),
        example: "50/s",
        invalid: limit::NO_RATES,
        help: "Limit the requests of each address to this rate, as 50/s, 300/m or 1000/h",
        details: "A request over it gets 429 (Too Many Requests) with Retry-After, and the connection stays open. An address is that of the client as a trusted proxy names it; of IPv6 its first 64 bits. [[site.limit]] sets other rates for paths of a site.",
        ..LIMIT
    },
    Opt {
        name: "request-burst",
        value_name: "COUNT",
        kind: ValueKind::Count(limit::BURSTS, "requests", |config, count| {
            config.server.settings.request_burst = NonZeroU32::new(count);
        }),
        default: OptionDefault::Described("the requests of one second"),
        example: "100",
        help: "Let this many requests of an address come at once, as a page with its pictures does",
        details: "It needs --request-rate.",
        ..LIMIT
    },
    Opt {
        name: "refuse-unknown-hosts",
        commands: &[Serve],
        kind: ValueKind::Flag(|config, on| config.server.refuse_unknown_hosts = on),
        help: "Answer 421 (Misdirected Request) to hosts that no site has",
        details: "Otherwise the default site answers them.",
        ..SERVER
    },
    Opt {
        name: "tls-cert",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| {
            config.server.certificates.push(CertificateFiles::of_chain(path))
        }),
        is_list: true,
        example: "/etc/tarpon/fullchain.pem",
        help: "Use the certificate chain in this PEM file for HTTPS",
        details: "The certificate of the server comes first. The client's server name selects among several; the first is for clients that ask for no name or for an unknown one. tarpon reads the files again when they change.",
        ..TLS
    },
    Opt {
        name: "tls-key",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| {
            CertificateFiles::add_key(&mut config.server.certificates, path)
        }),
        is_list: true,
        example: "/etc/tarpon/privkey.pem",
        help: "Use the private key in this PEM file for the certificate at the same place of tls-cert",
        details: "Without it, the key is in the file of the certificate. Keep it secret: tarpon reads it before it drops its rights.",
        ..TLS
    },
    Opt {
        name: "tls-ocsp",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| {
            CertificateFiles::add_ocsp(&mut config.server.certificates, path)
        }),
        is_list: true,
        example: "/etc/tarpon/ocsp.der",
        help: "Send the OCSP response in this DER file with the certificate at the same place of tls-cert",
        ..TLS
    },
    Opt {
        name: "tls",
        value_name: "HOW",
        kind: ValueKind::Choice(&[("self-signed", |config| config.server.is_self_signed = true)]),
        example: "self-signed",
        help: "Make a certificate for localhost and the hosts of all sites, for development",
        details: "The start prints its fingerprint. Browsers warn of it, and curl needs --insecure.",
        ..TLS
    },
    Opt {
        name: "ktls",
        value_name: "HOW",
        kind: ValueKind::Choice(&[
            ("auto", |config| config.server.settings.kernel_tls = KernelTlsUse::Auto),
            ("on", |config| config.server.settings.kernel_tls = KernelTlsUse::On),
            ("off", |config| config.server.settings.kernel_tls = KernelTlsUse::Off),
        ]),
        default: OptionDefault::Value("auto"),
        example: "off",
        help: "Let the kernel encrypt after the handshake",
        details: "With auto, those connections whose version and cipher it has, on Linux with the module tls. With on, the server does not start if it has none. The engines threads, prefork and fork encrypt by themselves.",
        ..TLS
    },
    Opt {
        name: "server-header",
        kind: ValueKind::Flag(|config, on| config.server.settings.server_header = on),
        default: OptionDefault::Value("true"),
        help: "Send the header Server: tarpon",
        ..SERVER
    },
    Opt {
        name: "http2",
        value_name: "WHETHER",
        kind: ValueKind::Choice(&[
            ("on", |config| config.server.settings.http2 = Http2Use::On),
            ("off", |config| config.server.settings.http2 = Http2Use::Off),
            ("only", |config| config.server.settings.http2 = Http2Use::Only),
        ]),
        default: OptionDefault::Value("on"),
        example: "only",
        help: "Select whether clients may speak HTTP/2: on, off, or only it",
        details: "With TLS a client chooses it in the handshake, and without TLS by its first bytes. With only, a client that speaks HTTP/1 is refused. The engines threads, prefork and fork never offer HTTP/2.",
        ..SERVER
    },
    Opt {
        name: "health-path",
        value_name: "PATH",
        kind: ValueKind::Text(health_path, |config, path| config.server.settings.health_path = Some(path)),
        example: "/healthz",
        invalid: &["", "healthz", "/a b", "/%61", "/a?b", "/a#b", "/./a", "//a", "http://h/a", "/\u{e9}"],
        help: "Answer health checks of load balancers at this path",
        details: "GET and HEAD get 200 under every host, and 503 once the server shuts down. A file of the site at this path has precedence.",
        ..SERVER
    },
    Opt {
        name: "trusted-proxies",
        value_name: "NETWORK",
        kind: ValueKind::Text(trusted_proxy, |config, text| {
            let proxy = text.parse().expect("the text is in canonical form");
            let trust = &mut config.server.settings.proxy_trust;
            trust.proxies = trust.proxies.iter().copied().chain([proxy]).collect();
        }),
        is_list: true,
        example: "10.0.0.0/8",
        invalid: &["", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.1:80", "[::1]", "proxy.example", "Unix"],
        help: "Read the address of the client from what these proxies send",
        details: "A network, an address, or the word unix for all clients of Unix sockets. Needs --client-address-from, or a listener with proxy-protocol.",
        ..SERVER
    },
    Opt {
        name: "client-address-from",
        value_name: "HEADER",
        kind: ValueKind::Choice(&[
            ("forwarded", |config| set_forwarded_field(config, ForwardedField::Forwarded)),
            ("x-forwarded-for", |config| set_forwarded_field(config, ForwardedField::XForwardedFor)),
        ]),
        example: "x-forwarded-for",
        help: "Select the header in which trusted proxies name the client",
        details: "The access log then has the address of the client. The server reads the list from right to left, up to the first address that is not in --trusted-proxies.",
        ..SERVER
    },
    Opt {
        name: "grace-period",
        former_name: "grace",
        kind: ValueKind::Time(TIMES, |config, time| config.server.grace_period = time),
        default: OptionDefault::Value("30s"),
        help: "Limit how long responses may take to finish when the server shuts down",
        ..TIME
    },
    Opt {
        name: "user",
        value_name: "NAME",
        kind: ValueKind::Text(user, |config, name| config.server.user = Some(name)),
        default: OptionDefault::Described("if started as root: tarpon if that user exists, else nobody"),
        example: "www-data",
        invalid: &["", "a:b"],
        help: "Run the processes that read and serve the site as this user",
        details: "Takes effect if the server is started as root. Pass root to keep running as root.",
        ..SERVER
    },
    Opt {
        name: "sandbox",
        kind: ValueKind::Flag(|config, on| config.server.sandbox = on),
        default: OptionDefault::Value("true"),
        help: "Restrict the processes that read and serve the site, with Landlock and seccomp",
        details: "Takes away every privilege that they do not need.",
        ..SERVER
    },
    Opt {
        name: "acme-email",
        value_name: "ADDRESS",
        kind: ValueKind::Text(acme::email, |config, email| config.server.acme.email = Some(email)),
        example: "admin@example.org",
        invalid: acme::NO_EMAILS,
        help: "Allow the directory to write to this address about the account",
        details: "Takes effect when the account is made.",
        ..ACME
    },
    Opt {
        name: "acme-directory",
        value_name: "URL",
        kind: ValueKind::Text(acme::directory, |config, url| {
            config.server.acme.directory = acme::directory_url(url);
        }),
        default: OptionDefault::Value("production"),
        example: "staging",
        invalid: acme::NO_DIRECTORIES,
        help: "Use this ACME directory to obtain certificates",
        details: "The word production stands for that of Let's Encrypt, and staging for its directory for tests, whose certificates no browser trusts.",
        ..ACME
    },
    Opt {
        name: "acme-ca",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| config.server.acme.root_file = Some(path)),
        default: OptionDefault::Described("the roots of the system"),
        example: "/etc/ssl/private-ca.pem",
        help: "Use the roots in this file, in PEM, to verify the directory",
        details: "For a directory of your own.",
        ..ACME
    },
    Opt {
        name: "acme-challenge",
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("http-01", |config| config.server.acme.challenge = AcmeChallenge::Http01),
            ("tls-alpn-01", |config| config.server.acme.challenge = AcmeChallenge::TlsAlpn01),
            ("dns-01", |config| config.server.acme.challenge = AcmeChallenge::Dns01),
        ]),
        default: OptionDefault::Value("http-01"),
        help: "Select how the directory checks that the names lead here",
        details: "By http-01 it connects to port 80, by tls-alpn-01 to port 443. By dns-01 it reads a record that --acme-dns-hook publishes; names with * need it.",
        ..ACME
    },
    Opt {
        name: "acme-dns-hook",
        value_name: "PROGRAM",
        kind: ValueKind::Path(|config, path| config.server.acme.dns_hook = Some(path)),
        example: "/usr/local/bin/publish-record",
        help: "Run this program to publish records for dns-01",
        details: "Called as PROGRAM add NAME VALUE, and as PROGRAM remove NAME VALUE, with the rights that tarpon was started with. It returns once all name servers have the record.",
        ..ACME
    },
    Opt {
        name: "acme-eab-kid",
        value_name: "ID",
        kind: ValueKind::Text(acme::key_id, |config, id| {
            acme::external_account(&mut config.server.acme).key_id = id;
        }),
        example: "kid-1",
        invalid: &["", "a b"],
        help: "Use the external account with this key identifier for the ACME account",
        details: "External account binding; the operator of the directory gives identifier and key.",
        ..ACME
    },
    Opt {
        name: "acme-eab-key",
        value_name: "KEY",
        kind: ValueKind::Text(acme::key, |config, key| {
            acme::external_account(&mut config.server.acme).key = key;
        }),
        example: "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W",
        invalid: acme::NO_KEYS,
        help: "Use this key, in base64url, to sign the binding to the external account",
        details: "Write ${NAME} in the file to take it from the environment.",
        ..ACME
    },
    Opt {
        name: "state-directory",
        value_name: "DIR",
        kind: ValueKind::Path(|config, dir| config.server.acme.state_directory = Some(dir)),
        default: OptionDefault::Described(
            "$STATE_DIRECTORY of systemd, else /var/lib/tarpon; $XDG_STATE_HOME/tarpon if not root",
        ),
        example: "/var/lib/tarpon",
        help: "Keep account keys and certificates in this directory",
        details: "Made if it is missing. Only the user that starts tarpon can read the files.",
        ..ACME
    },
    cgi::USER,
    cgi::TIMEOUT,
    cgi::MAX_PROGRAMS,
    cgi::MAX_QUEUE,
    cgi::MAX_BODY,
    cgi::MAX_OUTPUT,
    cgi::MAX_CPU_TIME,
    cgi::MAX_MEMORY,
    cgi::MAX_FILE_SIZE,
    cgi::MAX_OPEN_FILES,
    cgi::MAX_PROCESSES,
    cgi::ENVIRONMENT,
    cgi::AUTHORIZATION,
    Opt {
        name: "hot-paths",
        value_name: "COUNT",
        kind: ValueKind::Count(HOT_PATHS, "requests", |config, count| {
            config.server.settings.hot_paths = NonZeroU32::new(count);
        }),
        default: OptionDefault::Described("none is counted"),
        example: "64",
        help: "Count the path of one request in this many, to show the most frequent ones",
        details: "tarpon top, the dashboard and tarpon status --json show them, without queries. A path may tell what a client reads. 1 counts every request.",
        ..SERVER
    },
    Opt {
        name: "admin",
        value_name: "ADDR:PORT",
        kind: ValueKind::AddressOrOff(|config, address| {
            config.server.admin = address.map_or(AdminAt::Off, AdminAt::At);
        }),
        default: OptionDefault::Described(
            "unix:/run/tarpon/admin.sock; $XDG_RUNTIME_DIR/tarpon/admin.sock if not root",
        ),
        example: "unix:/run/tarpon/admin.sock",
        invalid: &["", "9000", "unix:"],
        help: "Listen here for health checks, metrics and tarpon status, reload and upgrade",
        details: "The value is unix:PATH, ADDR:PORT or off. Answers /health, /ready, /metrics and /dashboard. ADDR:PORT has no authentication without admin-token-file.",
        ..SERVER
    },
    Opt {
        name: "admin-mode",
        value_name: "MODE",
        kind: ValueKind::Text(mode, |config, mode| {
            config.server.admin_access.mode = u32::from_str_radix(&mode, 8).expect("the mode is octal");
        }),
        default: OptionDefault::Value("0600"),
        example: "0660",
        invalid: NO_MODES,
        help: "Set the mode of the Unix socket of the admin listener, whatever the umask",
        details: "With 0600 the user of the supervisor and root may connect; with 0660 its group, too. Clients that may connect may give orders. A socket of systemd keeps its SocketMode=.",
        ..SERVER
    },
    Opt {
        name: "admin-hosts",
        value_name: "NAME",
        kind: ValueKind::Text(admin_host, |config, name| {
            config.server.admin_access.hosts.push(name.parse().expect("the name is in canonical form"));
        }),
        is_list: true,
        example: "metrics.example",
        invalid: &["", "*", "*.example", "a..example", "metrics.example:9090", "http://metrics.example"],
        help: "Allow these host names in requests to the admin listener on TCP",
        details: "IP addresses and localhost are always allowed; requests to other names get 421 (Misdirected Request), as a web page may have sent them. On a Unix socket every name is allowed.",
        ..SERVER
    },
    Opt {
        name: "admin-token-file",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| config.server.admin_token_file = Some(path)),
        example: "/etc/tarpon/admin-token",
        help: "Require the token in this file from clients of the admin listener on TCP",
        details: "The dashboard needs it on TCP. With a token, clients on TCP may read metrics, and give no orders. The file has one line of 20 to 256 letters, digits and -._~+/=; openssl rand -hex 20 makes one. A reload reads it again. A Unix socket needs no token.",
        ..SERVER
    },
];
