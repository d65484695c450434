//! `[[site]]`: the files of a site, its hosts, and how it answers.

use super::server::{SEND_RATES, TIMES};
use super::{
    CommandKind, Config, ConfigSection, FlagForm, Opt, OptionDefault, SiteConfig, ValueKind, option::OPT,
};
use super::{acme, cgi, proxy};
use crate::{
    BackgroundCompression, CertificateFiles, CompressionEffort, Dialect, HostName, ListenValue, LogClientIp,
    LogFormat, PathPrefix, TrailingSlash, UnknownHost,
};
use CommandKind::{Embedded, Inspect, Pack, Serve};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Component, Path};
use std::time::Duration;

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "site",
    count: 1..=usize::MAX,
    help: "A site: its files, its hosts, and how it answers",
    key: None,
    options: OPTIONS,
    add: |config| config.sites.push(SiteConfig::default()),
};

const CGI: &str = "CGI programs";
const USERS: &str = "Directories of users";
const PAGES: &str = "Pages (a packed site keeps the values that it was packed with)";

/// The fields that all overrides of limits share.
const LIMIT: Opt = Opt { default: OptionDefault::Described("the value in [server]"), ..OPT };
const TIME: Opt = Opt { value_name: "TIME", example: "1m30s", ..LIMIT };

/// The fields that all overrides of the log share.
const LOG: Opt = Opt { default: OptionDefault::Described("the value in [log]"), ..OPT };

/// How long browsers may be told to use HTTPS only: lists of preloaded hosts ask for a year or two.
const HSTS_TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400);

const OPTIONS: &[Opt] = &[
    Opt {
        name: "path",
        flag: FlagForm::Positional,
        commands: &[Serve],
        value_name: "PATH",
        kind: ValueKind::Path(|config, path| config.site().source.path = path),
        required: true,
        default: OptionDefault::Value("."),
        example: "public",
        help: "Serve this directory or tar archive",
        ..OPT
    },
    Opt {
        name: "prefix",
        commands: &[Serve, Pack],
        value_name: "DIR",
        kind: ValueKind::ArchivePath(|config, dir| config.site().source.prefix = dir),
        example: "site-1.0/public",
        help: "Use only this directory of an archive",
        ..OPT
    },
    Opt {
        name: "max-unpacked-size",
        commands: &[Serve, Pack, Inspect],
        value_name: "BYTES",
        kind: ValueKind::Size(1 << 10..=1 << 40, "", |config, len| {
            config.site().source.max_unpacked_len = len
        }),
        default: OptionDefault::Value("1GiB"),
        example: "4GiB",
        help: "Refuse a compressed archive that unpacks to more than this",
        details: "It is unpacked in memory.",
        ..OPT
    },
    Opt {
        name: "rules",
        commands: &[Serve, Pack],
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("netlify", |config| config.site().source.dialect = Dialect::Netlify),
            ("cloudflare", |config| config.site().source.dialect = Dialect::Cloudflare),
            ("off", |config| config.site().source.dialect = Dialect::Off),
        ]),
        default: OptionDefault::Value("netlify"),
        help: "Select the syntax of the files _headers and _redirects at the root of the site",
        details: "The value off ignores both files. A packed site keeps the rules that it was packed with.",
        ..OPT
    },
    Opt {
        name: "hosts",
        value_name: "NAME",
        kind: ValueKind::Text(host, |config, name| config.site().hosts.push(host_name(&name))),
        is_list: true,
        example: "example.org",
        invalid: NO_HOSTS,
        help: "Serve the site under these host names",
        details: "*.example.org stands for all names that end in .example.org.",
        ..OPT
    },
    Opt {
        name: "domain",
        commands: &[Serve],
        value_name: "NAME",
        kind: ValueKind::Text(acme::domain, |config, name| {
            let name = host_name(&name);
            let site = config.site();
            if !site.hosts.contains(&name) {
                site.hosts.push(name.clone());
            }
            site.domains.push(name);
        }),
        is_list: true,
        example: "example.org",
        invalid: acme::NO_DOMAINS,
        help: "Serve the site under these names, and obtain a certificate for them by ACME",
        details: "The names are hosts of the site, too. By default from Let's Encrypt, whose terms you accept by this. Without --listen, the server listens on port 80.",
        ..OPT
    },
    Opt {
        name: "redirect-hosts",
        former_name: "aliases",
        value_name: "NAME",
        kind: ValueKind::Text(host, |config, name| config.site().redirect_hosts.push(host_name(&name))),
        is_list: true,
        example: "www.example.org",
        invalid: NO_HOSTS,
        help: "Redirect these host names to the first of hosts without a wildcard",
        details: "The path stays the same.",
        ..OPT
    },
    Opt {
        name: "mount",
        commands: &[Serve],
        value_name: "PATH",
        kind: ValueKind::Text(url_prefix, |config, path| {
            config.site().mount = (path != "/").then(|| path.parse().expect("the path is in canonical form"));
        }),
        example: "/docs",
        invalid: NO_PREFIXES,
        help: "Serve the site below this path of its hosts, or of every host if it names none",
        details: "The longest mount comes first, and all mounts come before the sites without one. /docs matches /docs and /docs/a, but not /docsa.",
        ..OPT
    },
    Opt {
        name: "listen",
        value_name: "ADDR:PORT",
        kind: ValueKind::Listen(|config, ListenValue { address, has_tls }| {
            let site = config.site();
            site.listen.push(address.clone());
            site.tls_listen.extend(has_tls.then_some(address));
        }),
        is_list: true,
        example: "127.0.0.1:8081",
        invalid: &["", "localhost", "example.org:80", "65536", "unix:", "tls:"],
        help: "Serve the site at these listeners only, which no other site has unless it names them too",
        details: "As address in [[listener]], which sets the mode of a Unix socket. A site without this option answers at all other listeners.",
        ..OPT
    },
    Opt {
        name: "redirect-to-https",
        kind: ValueKind::Flag(|config, on| config.site().redirects_to_https = Some(on)),
        help: "Redirect requests without TLS to the same address with https",
        details: "To the port of the first listener with TLS that the site answers at; with a trusted proxy that ends TLS and no such listener, to the default port. Health checks are answered without TLS too. True by default for a site with domain and a listener with TLS.",
        ..OPT
    },
    Opt {
        name: "tls-cert",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| {
            config.site().certificates.push(CertificateFiles::of_chain(path))
        }),
        is_list: true,
        example: "/etc/tarpon/fullchain.pem",
        help: "Use the certificate chain in this PEM file for the hosts of the site",
        details: "As tls-cert in [server], whose certificates come first.",
        ..OPT
    },
    Opt {
        name: "tls-key",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| {
            CertificateFiles::add_key(&mut config.site().certificates, path)
        }),
        is_list: true,
        example: "/etc/tarpon/privkey.pem",
        help: "Use the private key in this PEM file for the certificate of the site at the same place",
        details: "Without it, the key is in the file of the certificate. Keep it secret: tarpon reads it before it drops its rights.",
        ..OPT
    },
    Opt {
        name: "tls-ocsp",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| {
            CertificateFiles::add_ocsp(&mut config.site().certificates, path)
        }),
        is_list: true,
        example: "/etc/tarpon/ocsp.der",
        help: "Send the OCSP response in this DER file with the certificate of the site at this place",
        ..OPT
    },
    Opt {
        name: "default",
        kind: ValueKind::Flag(|config, on| config.site().is_default = on),
        help: "Answer requests to host names that no site has",
        details: "If no site has this option, the first site answers them.",
        ..OPT
    },
    Opt {
        name: "spa",
        commands: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.spa = on),
        help: "Answer missing pages with /index.html, for single-page applications",
        details: "A missing file whose name is that of an asset gets 404.",
        ..OPT
    },
    Opt {
        name: "clean-urls",
        commands: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.clean_urls = on),
        help: "Serve about.html at /about and dir/index.html at /dir/",
        details: "Requests for the file names are redirected there.",
        ..OPT
    },
    Opt {
        name: "trailing-slash",
        commands: &[Serve, Pack],
        heading: PAGES,
        value_name: "WHEN",
        kind: ValueKind::Choice(&[
            ("auto", |config| config.site().source.policy.trailing_slash = TrailingSlash::Auto),
            ("always", |config| config.site().source.policy.trailing_slash = TrailingSlash::Always),
            ("never", |config| config.site().source.policy.trailing_slash = TrailingSlash::Never),
        ]),
        default: OptionDefault::Value("auto"),
        help: "Select which pages have an address that ends in a slash",
        details: "With auto those of directories, with always all, with never none. The other form redirects to the selected one.",
        ..OPT
    },
    Opt {
        name: "listings",
        commands: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.listings = on),
        help: "Answer a directory without index.html with a list of its contents",
        details: "Programs that ask for JSON get the list as JSON.",
        ..OPT
    },
    Opt {
        name: "index",
        commands: &[Serve, Pack],
        heading: PAGES,
        value_name: "NAME",
        kind: ValueKind::Text(file_name, |config, name| config.site().source.policy.index.push(name)),
        is_list: true,
        default: OptionDefault::Described("index.html"),
        example: "index.html",
        invalid: &["", "a/b", ".", "..", ".hidden"],
        help: "Serve the file of this name as the page of its directory",
        details: "The first name that a directory has counts.",
        ..OPT
    },
    Opt {
        name: "allow-sniffing",
        commands: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.allow_sniffing = on),
        help: "Leave out the header X-Content-Type-Options: nosniff",
        details: "Browsers may then treat a file as another type than the one it is sent as.",
        ..OPT
    },
    Opt {
        name: "secure-headers",
        commands: &[Serve, Pack],
        heading: PAGES,
        kind: ValueKind::Flag(|config, on| config.site().source.policy.secure_headers = on),
        help: "Send Referrer-Policy, X-Frame-Options and Cross-Origin-Opener-Policy",
        details: "Their values break no ordinary site.",
        ..OPT
    },
    Opt {
        name: "hsts",
        commands: &[Serve, Pack],
        heading: PAGES,
        value_name: "TIME",
        kind: ValueKind::Time(HSTS_TIMES, |config, time| {
            config.site().source.policy.hsts = Some(format!("max-age={}", time.as_secs()));
        }),
        example: "365d",
        help: "Make browsers use HTTPS only, for this long after each response: Strict-Transport-Security",
        details: "It needs redirect-to-https, as browsers must not get it without TLS. [[site.header]] can set includeSubDomains too.",
        ..OPT
    },
    Opt {
        name: "cors",
        commands: &[Serve, Pack],
        heading: PAGES,
        value_name: "PATH",
        kind: ValueKind::Text(open_path, |config, path| config.site().source.policy.cors.push(path)),
        is_list: true,
        example: "/fonts",
        invalid: &["", "fonts", "https://example.org/"],
        help: "Allow scripts of every origin to read the files at this path and below",
        details: "Sends Access-Control-Allow-Origin: *.",
        ..OPT
    },
    Opt {
        name: "immutable",
        commands: &[Serve, Pack],
        heading: PAGES,
        value_name: "GLOB",
        kind: ValueKind::Text(glob, |config, glob| config.site().source.policy.immutable.push(glob)),
        is_list: true,
        example: "/assets/**",
        invalid: &["", "[a-", "{js,css"],
        help: "Let browsers keep these files for a year, as their names change with their contents",
        details: "Names with a long hash are recognised without it. * stands for any characters but a slash, ** for any directories; a glob without \
                  a slash is about the names of files.",
        ..OPT
    },
    Opt {
        name: "base",
        commands: &[Serve, Pack],
        heading: PAGES,
        value_name: "PATH",
        kind: ValueKind::Text(url_prefix, |config, path| {
            config.site().source.policy.base = path.trim_end_matches('/').to_owned();
        }),
        example: "/docs",
        invalid: NO_PREFIXES,
        help: "Write redirects and listings below this path, which a proxy strips from requests",
        details: "A site with a mount adds the path of the mount by itself, after this one. A packed site has the base that it was packed with.",
        ..OPT
    },
    Opt {
        name: "follow-links",
        commands: &[Serve, Pack],
        heading: "Symbolic links",
        value_name: "DIR",
        kind: ValueKind::Path(|config, dir| config.site().source.follow_links.push(dir)),
        is_list: true,
        example: "/usr/share/javascript",
        help: "Allow symbolic links of the site to lead into this directory",
        details: "Other links that leave the site are skipped. The directory and its path belong to root or to the user that starts \
                  tarpon, and no other user may change them.",
        ..OPT
    },
    Opt {
        name: "cgi",
        commands: &[Serve],
        heading: CGI,
        value_name: "PATH=DIR",
        kind: ValueKind::MountedDirectory(|config, prefix, dir| {
            let site = config.site();
            site.source.programs.directories.push(dir.clone());
            site.cgi.directories.push((prefix, dir));
        }),
        is_list: true,
        example: "/cgi-bin/=/usr/lib/cgi-bin",
        invalid: &["", "/cgi-bin/", "/cgi-bin/=", "cgi-bin=/a", "=/a", "/a/../b=/c"],
        help: "Run the files of this directory as CGI programs, below this path of the site",
        details: "The server serves none of them as a file, also if the directory lies within the site.",
        ..OPT
    },
    Opt {
        name: "cgi-suffix",
        commands: &[Serve, Pack],
        heading: CGI,
        value_name: "SUFFIX",
        kind: ValueKind::Text(cgi::suffix, |config, suffix| {
            let site = config.site();
            site.source.programs.suffixes.push(suffix.clone());
            site.cgi.suffix = Some(suffix);
        }),
        example: ".cgi",
        invalid: &["", "cgi", ".", "*.cgi", ".a/b"],
        help: "Run the files of the site whose names end in this as CGI programs",
        details: "The server serves none of them as a file, and a packed site has none of them. A site with such programs must be a directory.",
        ..OPT
    },
    proxy::PROXY,
    Opt {
        name: "user-directories",
        commands: &[Serve],
        heading: USERS,
        value_name: "DIR",
        kind: ValueKind::Text(home_path, |config, dir| config.site().users.dir = Some(dir.into())),
        example: "public_html",
        invalid: &["", "/srv", "..", "a/../..", ".", "~"],
        help: "Serve this directory in the home of each user at /~name/",
        details: "System users and root are excluded.",
        ..OPT
    },
    Opt {
        name: "user-directories-of",
        commands: &[Serve],
        heading: USERS,
        value_name: "USER",
        kind: ValueKind::Text(user, |config, name| config.site().users.only.push(name)),
        is_list: true,
        example: "alice",
        invalid: NO_USERS,
        help: "Serve the directories of these users only",
        details: "System users may be among them.",
        ..OPT
    },
    Opt {
        name: "user-directories-except",
        commands: &[Serve],
        heading: USERS,
        value_name: "USER",
        kind: ValueKind::Text(user, |config, name| config.site().users.except.push(name)),
        is_list: true,
        example: "bob",
        invalid: NO_USERS,
        help: "Exclude the directories of these users",
        ..OPT
    },
    Opt {
        name: "strict",
        commands: &[Serve],
        heading: "Server",
        kind: ValueKind::Flag(|config, on| config.site().source.is_strict = on),
        help: "Refuse a site with files that cannot be read",
        details: "Otherwise such a file or directory answers 403, and the rest is served. _headers and _redirects must be readable anyway.",
        ..OPT
    },
    Opt {
        name: "compress",
        commands: &[Serve],
        heading: "Server",
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("off", |config| config.site().source.compression = None),
            ("fast", |config| compress(config, CompressionEffort::Fast)),
            ("best", |config| compress(config, CompressionEffort::Best)),
        ]),
        default: OptionDefault::Value("fast"),
        help: "Compress the files of a directory or plain archive in the background",
        details: "The site is served at once; files that gain from it are compressed at low priority, and responses become smaller as soon as \
                  they are. The value best takes up to a hundred times as long. A packed site is compressed already.",
        ..OPT
    },
    Opt {
        name: "compress-memory",
        commands: &[Serve],
        heading: "Server",
        value_name: "BYTES",
        kind: ValueKind::Size(1 << 20..=1 << 40, "", |config, len| {
            if let Some(compression) = &mut config.site().source.compression {
                compression.memory_max = len;
            }
        }),
        default: OptionDefault::Value("256MiB"),
        example: "1GiB",
        help: "Keep this much of compressed files in memory, those that save most first",
        details: "A file longer than an eighth of it is not compressed. While files are compressed, up to half as much is used besides.",
        ..OPT
    },
    Opt {
        name: "preload",
        commands: &[Serve, Embedded],
        heading: "Server",
        kind: ValueKind::Flag(|config, on| config.site().source.preload = on),
        help: "Read the whole site into memory before serving it",
        details: "Uses huge pages where the system allows them.",
        ..OPT
    },
    Opt {
        name: "keep-releases",
        commands: &[Serve, Embedded],
        heading: "Server",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=100, "releases", |config, count| {
            config.site().keep_releases = count as usize
        }),
        default: OptionDefault::Value("0"),
        example: "3",
        help: "Keep assets of this many earlier releases, for pages loaded before a change",
        details: "Scripts, styles and pictures with a hash in their name stay, unless the current release has another file of that name.",
        ..OPT
    },
    Opt {
        name: "body-timeout",
        former_name: "content-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.site().limits.body_timeout = Some(time)),
        help: "Override body-timeout of [server]",
        ..TIME
    },
    Opt {
        name: "idle-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.site().limits.idle_timeout = Some(time)),
        help: "Override idle-timeout of [server]",
        details: "Takes effect once a connection has made a request to this site.",
        ..TIME
    },
    Opt {
        name: "send-timeout",
        kind: ValueKind::Time(TIMES, |config, time| config.site().limits.send_timeout = Some(time)),
        help: "Override send-timeout of [server]",
        ..TIME
    },
    Opt {
        name: "min-send-rate",
        former_name: "send-rate-min",
        value_name: "BYTES",
        kind: ValueKind::Size(SEND_RATES, "a second", |config, len| {
            config.site().limits.min_send_rate =
                Some(len.try_into().expect("the range ends at one gibibyte"));
        }),
        example: "4KiB",
        help: "Override min-send-rate of [server]",
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
        help: "Override keepalive-requests of [server]",
        details: "All requests on the connection count; it closes if the last one was to this site.",
        ..LIMIT
    },
    Opt {
        name: "access-log",
        value_name: "WHERE",
        kind: ValueKind::Target(|config, target| config.site().log.access = Some(target)),
        example: "example.org.log",
        invalid: &["", "unix:"],
        help: "Override access-log of [log]",
        details: "The lines of this site then go there only. Rotation follows [log].",
        ..LOG
    },
    Opt {
        name: "access-log-format",
        former_name: "access-log-form",
        value_name: "NAME",
        kind: ValueKind::Choice(&[
            ("combined", |config| config.site().log.format = Some(LogFormat::Combined)),
            ("common", |config| config.site().log.format = Some(LogFormat::Common)),
            ("json", |config| config.site().log.format = Some(LogFormat::Json)),
            ("simple", |config| config.site().log.format = Some(LogFormat::Simple)),
        ]),
        example: "json",
        help: "Override access-log-format of [log]",
        ..LOG
    },
    Opt {
        name: "log-client-ip",
        former_name: "log-addresses",
        value_name: "HOW",
        kind: ValueKind::Choice(&[
            ("full", |config| config.site().log.client_ip = Some(LogClientIp::Full)),
            ("truncated", |config| config.site().log.client_ip = Some(LogClientIp::Truncated)),
            ("none", |config| config.site().log.client_ip = Some(LogClientIp::None)),
        ]),
        example: "truncated",
        help: "Override log-client-ip of [log]",
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
        help: "Override access-log-sample of [log]",
        ..LOG
    },
];

impl Config {
    /// Returns how the server answers a host that no site has.
    pub fn unknown_host(&self) -> UnknownHost {
        match self.server.refuse_unknown_hosts {
            true => UnknownHost::Refused,
            false => {
                let default = self.sites.iter().position(|site| site.is_default);
                let first = || self.sites.iter().position(|site| site.mount.is_none());
                UnknownHost::Site(default.or_else(first).unwrap_or(0))
            }
        }
    }

    /// Returns the site that was added last.
    pub(super) fn site(&mut self) -> &mut SiteConfig {
        self.sites.last_mut().expect("add() pushed a site")
    }
}

/// Sets how the site is compressed in the background.
fn compress(config: &mut Config, effort: CompressionEffort) {
    config.site().source.compression =
        Some(BackgroundCompression { effort, ..BackgroundCompression::default() });
}

/// Accepts a path of a site.
pub(super) fn open_path(path: &str) -> Result<String, String> {
    if path.starts_with('/') {
        Ok(path.to_owned())
    } else {
        Err("expected a path that begins with /".to_owned())
    }
}

/// Checks a glob: a bracket or brace that is open would match nothing.
fn glob(text: &str) -> Result<String, String> {
    let balance = |open, close| text.matches(open).count() == text.matches(close).count();
    match text {
        "" => Err("expected the path or the name of files".to_owned()),
        _ if !balance('[', ']') => Err("expected a glob whose brackets are closed".to_owned()),
        _ if !balance('{', '}') => Err("expected a glob whose braces are closed".to_owned()),
        _ if text.contains(char::is_control) => {
            Err("expected the path or the name of files, without control characters".to_owned())
        }
        glob => Ok(glob.to_owned()),
    }
}

/// Returns a prefix of paths in its canonical form.
fn url_prefix(text: &str) -> Result<String, String> {
    text.parse().map(|prefix: PathPrefix| prefix.to_string()).map_err(|error| error.to_string())
}

const NO_PREFIXES: &[&str] = &["", "docs", "//", "/a/../b", "/a%20b", "/a?b", "/a#b", "https://example.org/"];

/// Accepts the name of a file that is served.
pub(super) fn file_name(name: &str) -> Result<String, String> {
    match name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        true => Err("expected the name of a file".to_owned()),
        false => Ok(name.to_owned()),
    }
}

/// Accepts a directory within a home directory.
fn home_path(path: &str) -> Result<String, String> {
    let is_name = |component| matches!(component, Component::Normal(_));
    let is_path = !path.is_empty() && Path::new(path).components().all(is_name);
    match is_path && !path.starts_with('~') && !path.contains('\0') {
        true => Ok(path.to_owned()),
        false => Err("expected a directory within a home directory".to_owned()),
    }
}

/// Accepts a user who may have a directory.
fn user(name: &str) -> Result<String, String> {
    match name.is_empty() || name.contains(['/', ':', '\0']) || name == "root" {
        true => Err("expected a user name other than root".to_owned()),
        false => Ok(name.to_owned()),
    }
}

const NO_USERS: &[&str] = &["", "root", "a/b", "a:b"];

/// Returns a host name in its canonical form.
fn host(name: &str) -> Result<String, String> {
    name.parse().map(|name: HostName| name.to_string()).map_err(|error| error.to_string())
}

/// Parses a host name in canonical form.
fn host_name(name: &str) -> HostName {
    name.parse().expect("the name is in canonical form")
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
