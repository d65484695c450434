//! `[server]`: what concerns all sites and listeners.

use super::{CommandKind, ConfigSection, FlagForm, Opt, OptionDefault, ValueKind, option::OPT};
use crate::{Address, Engine, Settings};
use CommandKind::{Carrier, Serve};
use std::{
    num::{NonZeroU32, NonZeroUsize},
    ops::RangeInclusive,
    time::Duration,
};
use tarpon_http::target;

/// What is said of the server.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// How it runs. The engine may be `Auto`; what a site says is not here.
    pub settings: Settings,
    /// How long responses under way may take to finish when it is told to stop.
    pub grace_period: Duration,
    /// A host that no site has is answered with 421, instead of by the default site.
    pub refuse_unknown_hosts: bool,
    /// Whom the processes that serve become, where it is started as root.
    pub user: Option<String>,
    /// Whether what they do not need is taken from them.
    pub sandbox: bool,
    /// Where whoever watches over the server is answered.
    pub admin: AdminAt,
}

/// Where whoever watches over the server is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminAt {
    /// At the [default](crate::default_admin_address) place, unless it is another server's.
    #[default]
    Usual,
    /// There, and not without it.
    At(Address),
    /// Nowhere.
    Nowhere,
}

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "server",
    count: 1..=1,
    help: "What concerns all sites and listeners",
    key: None,
    options: OPTIONS,
    begin: |_| (),
};

/// Up to a day: whoever wants to wait longer wants to wait for ever, and that is not offered.
pub(super) const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

/// A client that takes a gibibyte in each second is nobody to wait for more from.
pub(super) const SEND_RATES: RangeInclusive<u64> = 0..=1 << 30;

/// More workers than this are a mistake: no machine has so many cores to give.
const WORKER_COUNT_MAX: u32 = 1024;

/// What every option here has in common.
const SERVER: Opt = Opt { on: &[Serve, Carrier], heading: "Server", ..OPT };

/// What every time here has in common.
const TIME: Opt = Opt { value_name: "TIME", example: "1m30s", ..SERVER };

/// What no file of users can have in a name.
fn user(name: &str) -> Result<String, String> {
    let is_no_part = |char: char| [':', '/', ' '].contains(&char) || char.is_control();
    let is_name = !name.is_empty() && !name.contains(is_no_part);
    if is_name { Ok(name.to_owned()) } else { Err("expected the name of a user".to_owned()) }
}

/// A path that is asked for as it is written.
fn health_path(path: &str) -> Result<String, String> {
    let is_visible = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    match target::is_plain(path.as_bytes()) && is_visible && !path.contains("//") {
        true => Ok(path.to_owned()),
        false => Err(
            "expected a path that begins with / and has no escapes, spaces, dots behind slashes, or queries"
                .to_owned(),
        ),
    }
}

const OPTIONS: &[Opt] = &[
    Opt {
        name: "engine",
        flag: FlagForm::Short('e'),
        value_name: "NAME",
        kind: ValueKind::Word(&[
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
        help: "What drives the workers: io_uring (Linux 6.1 and newer), epoll (Linux), kqueue (FreeBSD and macOS), poll, threads, prefork, fork, or auto, the best that this host offers",
        ..SERVER
    },
    Opt {
        name: "workers",
        flag: FlagForm::Short('w'),
        value_name: "COUNT",
        kind: ValueKind::Count(1..=WORKER_COUNT_MAX, "threads", |config, count| {
            config.server.settings.worker_count = NonZeroUsize::new(count as usize);
        }),
        default: OptionDefault::Words("one for each core; with threads and prefork, 64; with fork, 256"),
        example: "4",
        help: "Threads that serve, at most 1024; with prefork and fork, processes, of which each has one connection",
        ..SERVER
    },
    Opt {
        name: "cpu-affinity",
        former_name: "pin",
        kind: ValueKind::Flag(|config, on| config.server.settings.cpu_affinity = on),
        help: "Bind each worker to a core of its own",
        ..SERVER
    },
    Opt {
        name: "header-timeout",
        former_name: "head-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.header_timeout = time),
        default: OptionDefault::Value("20s"),
        help: "How long the request line and headers may take to arrive",
        ..TIME
    },
    Opt {
        name: "body-timeout",
        former_name: "content-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.body_timeout = time),
        default: OptionDefault::Value("30s"),
        help: "How long the content of a request may take to arrive",
        ..TIME
    },
    Opt {
        name: "idle-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.idle_timeout = time),
        default: OptionDefault::Value("1m15s"),
        help: "How long a connection may wait for its next request",
        ..TIME
    },
    Opt {
        name: "send-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.server.settings.send_timeout = time),
        default: OptionDefault::Value("30s"),
        help: "How long a client may take less of a response than --min-send-rate",
        ..TIME
    },
    Opt {
        name: "min-send-rate",
        former_name: "send-rate-min",
        value_name: "BYTES",
        kind: ValueKind::Size(SEND_RATES, "a second", |config, len| {
            config.server.settings.min_send_rate = len.try_into().expect("one gibibyte at most");
        }),
        default: OptionDefault::Value("500"),
        example: "4KiB",
        help: "Bytes per second that a client takes of a response, on average over --send-timeout; 0 to cut off only who \
               takes nothing",
        ..SERVER
    },
    Opt {
        name: "keepalive-requests",
        former_name: "requests-max",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=u32::MAX, "requests", |config, count| {
            config.server.settings.keepalive_requests = NonZeroU32::new(count).expect("one at least");
        }),
        default: OptionDefault::Value("100000"),
        example: "1000",
        help: "Requests that are answered on one connection before it is closed (nginx: keepalive_requests)",
        ..SERVER
    },
    Opt {
        name: "refuse-unknown-hosts",
        on: &[Serve],
        kind: ValueKind::Flag(|config, on| config.server.refuse_unknown_hosts = on),
        help: "Answer 421 (Misdirected Request) to names of hosts that no site has, instead of serving the default site",
        ..SERVER
    },
    Opt {
        name: "health-path",
        value_name: "PATH",
        kind: ValueKind::Text(health_path, |config, path| config.server.settings.health_path = Some(path)),
        example: "/healthz",
        refused: &["", "healthz", "/a b", "/%61", "/a?b", "/a#b", "/./a", "//a", "http://h/a", "/\u{e9}"],
        help: "Answer GET and HEAD at this path with 200, under every host and for load balancers, unless a site has something there; \
               with 503 once the server was told to stop",
        ..SERVER
    },
    Opt {
        name: "grace-period",
        former_name: "grace",
        kind: ValueKind::Time(TIMES, |config, time| config.server.grace_period = time),
        default: OptionDefault::Value("30s"),
        help: "How long responses under way may take to finish when the server is told to stop",
        ..TIME
    },
    Opt {
        name: "user",
        value_name: "NAME",
        kind: ValueKind::Text(user, |config, name| config.server.user = Some(name)),
        default: OptionDefault::Words(
            "where it is started as root: tarpon if there is such a user, else nobody",
        ),
        example: "www-data",
        refused: &["", "a:b"],
        help: "Whom the processes that read the site and serve it become, where it is started as root; to stay root has to be \
               said",
        ..SERVER
    },
    Opt {
        name: "sandbox",
        kind: ValueKind::Flag(|config, on| config.server.sandbox = on),
        default: OptionDefault::Value("true"),
        help: "Take from these processes what they do not need, with Landlock and seccomp",
        ..SERVER
    },
    Opt {
        name: "admin",
        value_name: "ADDR:PORT",
        kind: ValueKind::AddressOrOff(|config, address| {
            config.server.admin = address.map_or(AdminAt::Nowhere, AdminAt::At);
        }),
        default: OptionDefault::Words(
            "unix:/run/tarpon/admin.sock; for others than root, in $XDG_RUNTIME_DIR",
        ),
        example: "unix:/run/tarpon/admin.sock",
        refused: &["", "9000", "unix:"],
        help: "Where to answer /health, /ready, /metrics, tarpon status, reload and upgrade: unix:PATH; ADDR:PORT, where nobody is \
               asked who he is; or off",
        ..SERVER
    },
];
