//! `[[site]]`: what is served, and how it answers.

use super::server::{SEND_RATES, TIMES};
use super::{
    CommandKind, Config, ConfigSection, FlagForm, Opt, OptionDefault, SiteConfig, ValueKind, option::OPT,
};
use crate::{Dialect, HostName, LogClientIp, LogFormat, TrailingSlash, UnknownHost};
use CommandKind::{Carrier, Inspect, Pack, Serve};
use std::num::NonZeroU32;
use std::path::{Component, Path};

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "site",
    count: 1..=usize::MAX,
    help: "A site: what is served, to whom, and how it answers",
    key: None,
    options: OPTIONS,
    begin: |config| config.sites.push(SiteConfig::default()),
};

const USERS: &str = "Directories of users";
const PAGES: &str = "Pages (a packed site answers as it was packed)";

/// What a site grants instead of what the server does.
const LIMIT: Opt = Opt { default: OptionDefault::Words("that of [server]"), ..OPT };
const TIME: Opt = Opt { value_name: "TIME", example: "1m30s", ..LIMIT };

/// What a site logs otherwise than the others.
const LOG: Opt = Opt { default: OptionDefault::Words("that of [log]"), ..OPT };

const OPTIONS: &[Opt] = &[
    Opt {
        name: "path",
        flag: FlagForm::Place,
        on: &[Serve],
        value_name: "PATH",
        kind: ValueKind::Path(|config, path| config.site().source.path = path),
        required: true,
        default: OptionDefault::Value("."),
        example: "public",
        help: "The directory to serve, or a tar archive of it",
        ..OPT
    },
    Opt {
        name: "prefix",
        on: &[Serve, Pack],
        value_name: "DIR",
        kind: ValueKind::Inner(|config, dir| config.site().source.prefix = dir),
        example: "site-1.0/public",
        help: "Of an archive, take only what lies in this directory",
        ..OPT
    },
    Opt {
        name: "max-unpacked-size",
        on: &[Serve, Pack, Inspect],
        value_name: "BYTES",
        kind: ValueKind::Size(1 << 10..=1 << 40, "", |config, len| {
            config.site().source.max_unpacked_len = len
        }),
        default: OptionDefault::Value("1GiB"),
        example: "4GiB",
        help: "Refuse a compressed archive that unpacks to more, as it is unpacked in memory",
        ..OPT
    },
    Opt {
        name: "rules",
        on: &[Serve, Pack],
        value_name: "NAME",
        kind: ValueKind::Word(&[
            ("netlify", |config| config.site().source.dialect = Dialect::Netlify),
            ("cloudflare", |config| config.site().source.dialect = Dialect::Cloudflare),
            ("off", |config| config.site().source.dialect = Dialect::Off),
        ]),
        default: OptionDefault::Value("netlify"),
        help: "Whose form the files _headers and _redirects at the root of the site have: netlify, cloudflare, or off to \
               ignore them. A packed site is as it was packed",
        ..OPT
    },
    Opt {
        name: "hosts",
        value_name: "NAME",
        kind: ValueKind::Text(host, |config, name| config.site().hosts.push(named(&name))),
        many: true,
        example: "example.org",
        refused: NO_HOSTS,
        help: "Names of hosts that the site answers to: example.org, or *.example.org for all names that end so",
        ..OPT
    },
    Opt {
        name: "redirect-hosts",
        former_name: "aliases",
        value_name: "NAME",
        kind: ValueKind::Text(host, |config, name| config.site().redirect_hosts.push(named(&name))),
        many: true,
        example: "www.example.org",
        refused: NO_HOSTS,
        help: "Names of hosts that lead to the same address at the first of hosts that is no wildcard",
        ..OPT
    },
    Opt {
        name: "default",
        kind: ValueKind::Flag(|config, on| config.site().is_default = on),
        help: "Answer to all names that no site has. Where no site says so, the first does",
        ..OPT
    },
    Opt {
        name: "spa",
        on: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.spa = on),
        help: "Answer what is not there, and is not named as an asset, with /index.html",
        ..OPT
    },
    Opt {
        name: "clean-urls",
        on: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.clean_urls = on),
        help: "Show about.html at /about, and dir/index.html at /dir/; their names lead there",
        ..OPT
    },
    Opt {
        name: "trailing-slash",
        on: &[Serve, Pack],
        heading: PAGES,
        value_name: "WHEN",
        kind: ValueKind::Word(&[
            ("auto", |config| config.site().source.policy.trailing_slash = TrailingSlash::Auto),
            ("always", |config| config.site().source.policy.trailing_slash = TrailingSlash::Always),
            ("never", |config| config.site().source.policy.trailing_slash = TrailingSlash::Never),
        ]),
        default: OptionDefault::Value("auto"),
        help: "Whether addresses of pages end in a slash: auto, of directories only; always; or never. The other form leads \
               to the one that counts",
        ..OPT
    },
    Opt {
        name: "listings",
        on: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.listings = on),
        help: "Answer a directory without index.html with a list of what it has, as a page or, for programs, as JSON",
        ..OPT
    },
    Opt {
        name: "allow-sniffing",
        on: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.allow_sniffing = on),
        help: "Let browsers take a file for another type than the one it is sent as: leave X-Content-Type-Options: nosniff out",
        ..OPT
    },
    Opt {
        name: "secure-headers",
        on: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.secure_headers = on),
        help: "Send Referrer-Policy, X-Frame-Options and Cross-Origin-Opener-Policy, with values that break no ordinary site",
        ..OPT
    },
    Opt {
        name: "cors",
        on: &[Serve, Pack],
        heading: PAGES,
        value_name: "PATH",
        kind: ValueKind::Text(open_path, |config, path| config.site().source.policy.cors.push(path)),
        many: true,
        example: "/fonts",
        refused: &["", "fonts", "https://example.org/"],
        help: "Let scripts of every origin read the files at this path and below it (Access-Control-Allow-Origin: *)",
        ..OPT
    },
    Opt {
        name: "user-directories",
        on: &[Serve],
        heading: USERS,
        value_name: "DIR",
        kind: ValueKind::Text(home_path, |config, dir| config.site().users.dir = Some(dir.into())),
        example: "public_html",
        refused: &["", "/srv", "..", "a/../..", ".", "~"],
        help: "Serve this directory in the home of each user at /~name/. Users of the system and root have none",
        ..OPT
    },
    Opt {
        name: "user-directories-of",
        on: &[Serve],
        heading: USERS,
        value_name: "USER",
        kind: ValueKind::Text(user, |config, name| config.site().users.only.push(name)),
        many: true,
        example: "alice",
        refused: NO_USERS,
        help: "Only of these users, of which some may be of the system",
        ..OPT
    },
    Opt {
        name: "user-directories-except",
        on: &[Serve],
        heading: USERS,
        value_name: "USER",
        kind: ValueKind::Text(user, |config, name| config.site().users.except.push(name)),
        many: true,
        example: "bob",
        refused: NO_USERS,
        help: "Not of these users",
        ..OPT
    },
    Opt {
        name: "preload",
        on: &[Serve, Carrier],
        heading: "Server",
        kind: ValueKind::Flag(|config, on| config.site().source.preload = on),
        help: "Read all of the site into memory first, in huge pages where the system allows",
        ..OPT
    },
    Opt {
        name: "keep-releases",
        on: &[Serve, Carrier],
        heading: "Server",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=100, "releases", |config, count| {
            config.site().keep_releases = count as usize
        }),
        default: OptionDefault::Value("0"),
        example: "3",
        help: "Earlier releases of which scripts, styles and pictures stay, for pages that were loaded before a change: what \
               has a hash in its name, unless the current release has something else there",
        ..OPT
    },
    Opt {
        name: "body-timeout",
        former_name: "content-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.site().limits.body_timeout = Some(time)),
        help: "How long the content of a request may take to arrive",
        ..TIME
    },
    Opt {
        name: "idle-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.site().limits.idle_timeout = Some(time)),
        help: "How long a connection may wait for its next request, once it has asked for something of this site",
        ..TIME
    },
    Opt {
        name: "send-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.site().limits.send_timeout = Some(time)),
        help: "How long a client may take less of a response than min-send-rate",
        ..TIME
    },
    Opt {
        name: "min-send-rate",
        former_name: "send-rate-min",
        value_name: "BYTES",
        kind: ValueKind::Size(SEND_RATES, "a second", |config, len| {
            config.site().limits.min_send_rate = Some(len.try_into().expect("one gibibyte at most"));
        }),
        example: "4KiB",
        help: "Bytes per second that a client takes of a response, on average over send-timeout; 0 to cut off only who takes \
               nothing",
        ..LIMIT
    },
    Opt {
        name: "keepalive-requests",
        former_name: "requests-max",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=u32::MAX, "requests", |config, count| {
            config.site().limits.keepalive_requests = NonZeroU32::new(count);
        }),
        example: "1000",
        help: "Requests on one connection, of which the last is for this site, before it is closed",
        ..LIMIT
    },
    Opt {
        name: "access-log",
        value_name: "WHERE",
        kind: ValueKind::Target(|config, target| config.site().log.access = Some(target)),
        example: "example.org.log",
        refused: &["", "unix:"],
        help: "Where a line of each request to this site goes instead of where [log] says: a file, -, unix:PATH, or off, nowhere. \
               Files take turns as [log] says",
        ..LOG
    },
    Opt {
        name: "access-log-format",
        former_name: "access-log-form",
        value_name: "NAME",
        kind: ValueKind::Word(&[
            ("combined", |config| config.site().log.format = Some(LogFormat::Combined)),
            ("common", |config| config.site().log.format = Some(LogFormat::Common)),
            ("json", |config| config.site().log.format = Some(LogFormat::Json)),
            ("simple", |config| config.site().log.format = Some(LogFormat::Simple)),
        ]),
        example: "json",
        help: "What such a line looks like",
        ..LOG
    },
    Opt {
        name: "log-client-ip",
        former_name: "log-addresses",
        value_name: "HOW",
        kind: ValueKind::Word(&[
            ("full", |config| config.site().log.client_ip = Some(LogClientIp::Full)),
            ("truncated", |config| config.site().log.client_ip = Some(LogClientIp::Truncated)),
            ("none", |config| config.site().log.client_ip = Some(LogClientIp::None)),
        ]),
        example: "truncated",
        help: "What of clients' addresses is logged",
        ..LOG
    },
    Opt {
        name: "access-log-sample",
        former_name: "access-log-one-in",
        value_name: "COUNT",
        kind: ValueKind::Count(super::log::ONE_IN, "requests", |config, count| {
            config.site().log.sample = NonZeroU32::new(count);
        }),
        example: "100",
        help: "Log one request in so many, and each that is answered with status 400 or above",
        ..LOG
    },
];

impl Config {
    /// What a host means that no site has.
    pub fn unknown(&self) -> UnknownHost {
        match self.server.refuse_unknown_hosts {
            true => UnknownHost::Refused,
            false => UnknownHost::Site(self.sites.iter().position(|site| site.is_default).unwrap_or(0)),
        }
    }

    /// The one that was begun last.
    pub(super) fn site(&mut self) -> &mut SiteConfig {
        self.sites.last_mut().expect("a site that was begun")
    }
}

/// A path of a site.
fn open_path(path: &str) -> Result<String, String> {
    if path.starts_with('/') {
        Ok(path.to_owned())
    } else {
        Err("expected a path that begins with /".to_owned())
    }
}

/// A directory in a home.
fn home_path(path: &str) -> Result<String, String> {
    let is_name = |component| matches!(component, Component::Normal(_));
    let is_path = !path.is_empty() && Path::new(path).components().all(is_name);
    match is_path && !path.starts_with('~') && !path.contains('\0') {
        true => Ok(path.to_owned()),
        false => Err("expected a directory within a home".to_owned()),
    }
}

/// Who may have a directory.
fn user(name: &str) -> Result<String, String> {
    match name.is_empty() || name.contains(['/', ':', '\0']) || name == "root" {
        true => Err("expected the name of a user, and not root".to_owned()),
        false => Ok(name.to_owned()),
    }
}

const NO_USERS: &[&str] = &["", "root", "a/b", "a:b"];

/// A name as names are compared.
fn host(name: &str) -> Result<String, String> {
    name.parse().map(|name: HostName| name.to_string()).map_err(|error| error.to_string())
}

/// The same as what it is.
fn named(name: &str) -> HostName {
    name.parse().expect("a name in the form of one")
}

const NO_HOSTS: &[&str] = &[
    "",
    "*",
    "*.",
    "a.*.org",
    "a..org",
    "example.org:80",
    "example.org/",
    "https://example.org",
    "bücher.example",
];
