//! `[[upstream]]`: servers that answer in the place of files, and how requests reach them.

use super::{
    Config, ConfigSection, Opt, OptionDefault, UpstreamConfig, ValueKind, cgi,
    option::OPT,
    proxy::upstream_name,
    server::TIMES,
    site::open_path,
    upstream_address::{ServerValue, authority},
};
use crate::{Balance, HealthCheck, HostPolicy};
use std::{ops::RangeInclusive, time::Duration};

pub(super) const SECTION: ConfigSection = ConfigSection {
    name: "upstream",
    count: 0..=usize::MAX,
    help: "Servers that answer requests for the paths that `proxy` of a site names; they share connections, limits and checks",
    key: None,
    options: OPTIONS,
    add: |config| config.upstreams.push(UpstreamConfig::default()),
};

/// How long a server that is back may take to get its whole part: caches of applications are warm within an hour.
const SLOW_STARTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);

/// Connections of a server: a client address has fewer than 65,536 ports for one server address.
const CONNECTIONS: u32 = 65_535;

const OPTIONS: &[Opt] = &[
    Opt {
        name: "name",
        value_name: "NAME",
        kind: ValueKind::Text(upstream_name, |config, name| config.upstream().name = name),
        required: true,
        example: "app",
        invalid: &["", "a b", "a/b", "a,b", "http://a", "ü"],
        help: "Set the name by which sites, metrics and tarpon status know the upstream",
        ..OPT
    },
    Opt {
        name: "servers",
        value_name: "SERVER",
        kind: ValueKind::Text(server, |config, text| {
            let (ServerValue { protocol, server }, _) =
                ServerValue::parse(&text).expect("the server is in canonical form");
            let upstream = config.upstream();
            // All of them have the same: the search for conflicts checks that.
            upstream.protocol = protocol;
            upstream.servers.push(server);
        }),
        is_list: true,
        required: true,
        example: "http://127.0.0.1:9000",
        invalid: &[
            "",
            "127.0.0.1:9000",
            "http://a/",
            "http://a/b",
            "http://a,http://b",
            "http://a down",
            "http://a weight=0",
            "fastcgi://a",
            "ws://a",
        ],
        help: "Send requests to these servers",
        details: "http://HOST[:PORT], https://HOST[:PORT], http://unix:/PATH, fastcgi://HOST:PORT or fastcgi://unix:/PATH. Behind it may stand weight=N, for N times as many requests; \
                  backup, for a server that gets requests only while no other can take them; and drain, for one that gets no new requests.",
        ..OPT
    },
    Opt {
        name: "balance",
        value_name: "HOW",
        kind: ValueKind::Choice(&[
            ("round-robin", |config| config.upstream().balance = Balance::RoundRobin),
            ("least-connections", |config| config.upstream().balance = Balance::LeastConnections),
            ("hash-client", |config| config.upstream().balance = Balance::HashClient),
            ("hash-path", |config| config.upstream().balance = Balance::HashPath),
        ]),
        default: OptionDefault::Value("round-robin"),
        example: "least-connections",
        help: "Select how the server of a request is chosen",
        details: "In turn; the one with the fewest requests in progress; or the same for all requests of a client address, or of a path. If a server fails, only its clients or paths move.",
        ..OPT
    },
    Opt {
        name: "host",
        value_name: "HOST",
        kind: ValueKind::Text(host, |config, text| {
            config.upstream().host = match &*text {
                "client" => HostPolicy::Client,
                "upstream" => HostPolicy::Upstream,
                _ => HostPolicy::Fixed(text),
            };
        }),
        default: OptionDefault::Value("client"),
        example: "app.internal",
        invalid: &["", "*.example.org", "http://a", "a:b", "a/b", "::1"],
        help: "Set the host in the requests that the servers get",
        details: "The value client is the host that the client has named; upstream is the host and port of the first server. X-Forwarded-Host and Forwarded have the client's in each case.",
        ..OPT
    },
    Opt {
        name: "connect-timeout",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().connect_timeout = time),
        default: OptionDefault::Value("5s"),
        help: "Limit how long a connection to a server may take to open",
        details: "After it, another server is tried; if there is none, the client gets 504.",
        ..OPT
    },
    Opt {
        name: "response-timeout",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().response_timeout = time),
        default: OptionDefault::Value("1m"),
        help: "Limit how long a response may take to begin after the request was sent",
        details: "After it, the client gets 504.",
        ..OPT
    },
    Opt {
        name: "idle-timeout",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().idle_timeout = time),
        default: OptionDefault::Value("1m"),
        help: "Limit how long a server may read nothing of a request, or send nothing of a response",
        details: "After it, the exchange is aborted.",
        ..OPT
    },
    Opt {
        name: "total-timeout",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().total_timeout = Some(time)),
        example: "10m",
        help: "Limit how long a request and its response may take in total",
        ..OPT
    },
    Opt {
        name: "tunnel-timeout",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().tunnel_timeout = time),
        default: OptionDefault::Value("1h"),
        help: "Close a tunnel, such as a WebSocket, on which nothing passes for this long",
        ..OPT
    },
    Opt {
        name: "max-body",
        value_name: "BYTES",
        kind: ValueKind::Size(0..=1 << 50, "", |config, len| config.upstream().max_body = len),
        default: OptionDefault::Value("100MiB"),
        help: "Refuse a request whose body is longer than this",
        details: "It gets 413.",
        ..OPT
    },
    Opt {
        name: "pool-size",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=CONNECTIONS, "connections", |config, count| {
            config.upstream().pool_size = Some(count);
        }),
        default: OptionDefault::Described("128; with FastCGI 0"),
        example: "64",
        help: "Keep at most this many idle connections to each server, of all workers together",
        details: "With 0 each connection carries one request. An idle connection to a server of FastCGI holds one of its processes.",
        ..OPT
    },
    Opt {
        name: "pool-idle-time",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().pool_idle_time = time),
        default: OptionDefault::Value("1m5s"),
        help: "Close a connection to a server that has been idle for this long",
        details: "Shorter than the server's own time, if that is known.",
        ..OPT
    },
    Opt {
        name: "pool-requests",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=u32::MAX, "requests", |config, count| {
            config.upstream().pool_requests = count;
        }),
        default: OptionDefault::Value("1000"),
        help: "Close a connection to a server after this many requests",
        ..OPT
    },
    Opt {
        name: "max-connections",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=CONNECTIONS, "connections", |config, count| {
            config.upstream().max_connections = Some(count);
        }),
        example: "64",
        help: "Open at most this many connections to each server, of all workers together",
        details: "A request waits for connect-timeout at most, and then gets 503. A tunnel counts while it is open.",
        ..OPT
    },
    Opt {
        name: "retries",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=10, "times", |config, count| {
            config.upstream().retries = u8::try_from(count).expect("the range ends at 10");
        }),
        default: OptionDefault::Value("2"),
        help: "Send a request again up to this many times, if a reused connection closes early",
        details: "Only a request with an idempotent method and without a body, and only before the first byte of a response. It also limits how many other servers are tried if connections \
                  cannot be opened, whatever the method.",
        ..OPT
    },
    Opt {
        name: "health-path",
        value_name: "PATH",
        kind: ValueKind::Text(request_path, |config, path| {
            config.upstream().health = Some(HealthCheck { path, ..HealthCheck::default() });
        }),
        example: "/health",
        invalid: &["", "health", "http://a/", "/a b", "/a#b", "/ü"],
        help: "Request this path of each server regularly, and use only servers that answer 200 to 399",
        details: "With FastCGI, whatever the path, a connection is opened and nothing sent.",
        ..OPT
    },
    Opt {
        name: "health-interval",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| health(config, |check| check.interval = time)),
        default: OptionDefault::Value("5s"),
        help: "Set the time between two checks of a server",
        ..OPT
    },
    Opt {
        name: "health-timeout",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| health(config, |check| check.timeout = time)),
        default: OptionDefault::Value("2s"),
        help: "Limit how long a check may take",
        ..OPT
    },
    Opt {
        name: "health-rise",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=100, "checks", |config, count| health(config, |check| check.rise = count)),
        default: OptionDefault::Value("2"),
        help: "Use a server again after this many good checks in a row",
        ..OPT
    },
    Opt {
        name: "health-fall",
        value_name: "COUNT",
        kind: ValueKind::Count(1..=100, "checks", |config, count| health(config, |check| check.fall = count)),
        default: OptionDefault::Value("3"),
        help: "Leave out a server after this many bad checks in a row",
        ..OPT
    },
    Opt {
        name: "max-fails",
        value_name: "COUNT",
        kind: ValueKind::Count(0..=1_000, "failures", |config, count| config.upstream().max_fails = count),
        default: OptionDefault::Value("3"),
        help: "Leave out a server after this many failed requests within fail-time",
        details: "A failure is a connection that cannot be opened, one that closes or is silent for too long before the end of a response, or an invalid response. With 0, and if it is the only \
                  server, none is left out. If all servers are, they are tried nevertheless.",
        ..OPT
    },
    Opt {
        name: "fail-time",
        value_name: "TIME",
        kind: ValueKind::Time(TIMES, |config, time| config.upstream().fail_time = time),
        default: OptionDefault::Value("10s"),
        help: "Count failures within this time, and leave a failed server out for this long",
        ..OPT
    },
    Opt {
        name: "slow-start",
        value_name: "TIME",
        kind: ValueKind::Time(SLOW_STARTS, |config, time| config.upstream().slow_start = time),
        example: "30s",
        help: "Give a server that is back its requests little by little, for this long",
        ..OPT
    },
    Opt {
        name: "ca",
        value_name: "FILE",
        kind: ValueKind::Path(|config, path| config.upstream().tls.ca = Some(path)),
        default: OptionDefault::Described("the roots of the system"),
        example: "/etc/tarpon/upstream-ca.pem",
        help: "Use the roots in this file, in PEM, to verify servers with https",
        ..OPT
    },
    Opt {
        name: "tls-name",
        value_name: "NAME",
        kind: ValueKind::Text(tls_name, |config, name| config.upstream().tls.name = Some(name)),
        default: OptionDefault::Described("the host of the address"),
        example: "app.internal",
        invalid: &["", "*.example.org", "a:443", "https://a"],
        help: "Require that certificates of servers with https are for this name",
        details: "It is also the server name that the handshake sends.",
        ..OPT
    },
    Opt {
        name: "insecure",
        kind: ValueKind::Flag(|config, on| config.upstream().tls.accepts_any = on),
        help: "Allow every certificate of servers with https",
        details: "An attacker on the network between can then read and change everything.",
        ..OPT
    },
    Opt {
        name: "root",
        value_name: "DIR",
        kind: ValueKind::Text(absolute_dir, |config, dir| config.upstream().fastcgi.root = Some(dir.into())),
        default: OptionDefault::Described("the directory of the site"),
        example: "/srv/www/app",
        invalid: &["", "public", "./a", "/a/../b"],
        help: "Set the directory of the scripts, as the FastCGI server sees it",
        details: "An absolute path: DOCUMENT_ROOT, and the start of SCRIPT_FILENAME.",
        ..OPT
    },
    Opt {
        name: "index",
        value_name: "NAME",
        kind: ValueKind::Text(super::site::file_name, |config, name| config.upstream().fastcgi.index = name),
        default: OptionDefault::Value("index.php"),
        invalid: &["", "a/b", ".", "..", ".hidden"],
        help: "Run the script of this name for paths that end with a slash",
        ..OPT
    },
    Opt {
        name: "suffix",
        value_name: "SUFFIX",
        kind: ValueKind::Text(cgi::suffix, |config, suffix| config.upstream().fastcgi.suffix = suffix),
        default: OptionDefault::Value(".php"),
        invalid: &["", "php", ".", "*.php", ".a/b"],
        help: "Set how the names of scripts end: what follows the name in a path is its PATH_INFO",
        ..OPT
    },
    Opt {
        name: "params",
        value_name: "NAME=VALUE",
        kind: ValueKind::Text(param, |config, text| {
            let (name, value) = text.split_once('=').expect("the check asks for it");
            config.upstream().fastcgi.params.push((name.to_owned(), value.to_owned()));
        }),
        is_list: true,
        example: "PHP_VALUE=memory_limit=256M",
        invalid: &["", "=", "A", "A B=1", "1A=1", "HTTP_PROXY=a", "QUERY_STRING=a"],
        help: "Add a parameter to FastCGI requests",
        ..OPT
    },
];

impl Config {
    /// Returns the upstream that was added last.
    fn upstream(&mut self) -> &mut UpstreamConfig {
        self.upstreams.last_mut().expect("add() pushed an upstream")
    }
}

/// Changes the check of the upstream that was added last, if it has one: `health-path` comes before the options of the check.
fn health(config: &mut Config, set: impl FnOnce(&mut HealthCheck)) {
    if let Some(check) = &mut config.upstream().health {
        set(check);
    }
}

/// Returns a server in its canonical form.
fn server(text: &str) -> Result<String, String> {
    ServerValue::parse(text).map(|(_, canonical)| canonical)
}

/// Accepts a host of requests.
fn host(text: &str) -> Result<String, String> {
    authority(text).map_err(|_| "expected client, upstream, or a host with or without a port".to_owned())
}

/// Accepts a name that certificates can have.
fn tls_name(text: &str) -> Result<String, String> {
    let name = authority(text).ok().filter(|_| text.parse::<crate::HostName>().is_ok());
    name.ok_or_else(|| "expected a name or an IP address, without a port".to_owned())
}

/// Accepts a target of requests.
fn request_path(text: &str) -> Result<String, String> {
    match text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        true => open_path(text),
        false => Err("expected a path without spaces, # and other characters than those of ASCII".to_owned()),
    }
}

/// Accepts a directory of another host, or of this one.
fn absolute_dir(text: &str) -> Result<String, String> {
    match text.starts_with('/') && !text.contains('\0') && !text.split('/').any(|step| step == "..") {
        true => Ok(text.to_owned()),
        false => Err("expected an absolute path without ..".to_owned()),
    }
}

/// Accepts a parameter with a value.
fn param(text: &str) -> Result<String, String> {
    let text = if text.contains('=') { text } else { "" };
    cgi::variable(text).map_err(|_| "expected NAME=VALUE, and not a parameter that requests set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ProxyPaths, SiteProxy, UpstreamAddress, UpstreamProtocol, UpstreamServer,
        program::config::{CliFlags, CommandKind, ConfigFile, read},
    };

    fn config(text: &str) -> Config {
        let file = ConfigFile::new("tarpon.toml", text);
        read(Some(&file), &CliFlags::default(), CommandKind::Serve)
            .unwrap_or_else(|errors| panic!("{errors}"))
            .config
    }

    fn tcp(host: &str, port: u16) -> UpstreamServer {
        let address = UpstreamAddress::Tcp { host: host.to_owned(), port };
        UpstreamServer { address, weight: 1, is_backup: false, is_draining: false }
    }

    #[test]
    fn defaults_are_those_of_the_type() {
        let text = "[[site]]\npath = \".\"\nproxy = [\"/=a\"]\n[[upstream]]\nname = \"a\"\nservers = [\"http://a\"]\n";
        let want =
            UpstreamConfig { name: "a".into(), servers: vec![tcp("a", 80)], ..UpstreamConfig::default() };
        assert_eq!(config(text).upstreams, std::slice::from_ref(&want));
        let health = Some(HealthCheck { path: "/h".into(), ..HealthCheck::default() });
        assert_eq!(
            config(&format!("{text}health-path = \"/h\"\n")).upstreams,
            [UpstreamConfig { health, ..want }]
        );
    }

    #[test]
    fn every_option_reaches_its_field() {
        let text = "[[upstream]]\nname = \"a\"\nservers = [\"fastcgi://[::1]:9000 weight=2\", \"fastcgi://unix:/run/a.sock backup\"]\n\
                    balance = \"hash-path\"\nhost = \"A.example:81\"\nconnect-timeout = 1\nresponse-timeout = 2\nidle-timeout = 3\n\
                    total-timeout = 4\ntunnel-timeout = 5\nmax-body = 6\npool-size = 7\npool-idle-time = 8\npool-requests = 9\n\
                    max-connections = 10\nretries = 1\nhealth-interval = 12\nhealth-path = \"/h\"\nhealth-timeout = 11\nhealth-rise = 14\n\
                    health-fall = 15\nmax-fails = 16\nfail-time = 17\nslow-start = 18\nroot = \"/srv/a\"\nindex = \"i.php\"\n\
                    suffix = \".phtml\"\nparams = [\"A=b=c\", \"D=\"]\n\
                    [[site]]\npath = \".\"\nproxy = [\"*.phtml=a\"]\n";
        let s = Duration::from_secs;
        let param = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let want = UpstreamConfig {
            name: "a".into(),
            protocol: UpstreamProtocol::FastCgi,
            servers: vec![
                UpstreamServer { weight: 2, ..tcp("::1", 9000) },
                UpstreamServer {
                    address: UpstreamAddress::Unix("/run/a.sock".into()),
                    is_backup: true,
                    ..tcp("", 0)
                },
            ],
            balance: Balance::HashPath,
            host: HostPolicy::Fixed("a.example:81".into()),
            connect_timeout: s(1),
            response_timeout: s(2),
            idle_timeout: s(3),
            total_timeout: Some(s(4)),
            tunnel_timeout: s(5),
            max_body: 6,
            pool_size: Some(7),
            pool_idle_time: s(8),
            pool_requests: 9,
            max_connections: Some(10),
            retries: 1,
            health: Some(HealthCheck {
                path: "/h".into(),
                interval: s(12),
                timeout: s(11),
                rise: 14,
                fall: 15,
            }),
            max_fails: 16,
            fail_time: s(17),
            slow_start: s(18),
            tls: crate::UpstreamTls::default(),
            fastcgi: crate::UpstreamFastCgi {
                root: Some("/srv/a".into()),
                index: "i.php".into(),
                suffix: ".phtml".into(),
                params: vec![param("A", "b=c"), param("D", "")],
            },
        };
        assert_eq!(config(text).upstreams, [want]);
        let text = "[[upstream]]\nname = \"a\"\nservers = [\"https://a\"]\nca = \"ca.pem\"\ntls-name = \"B.example\"\n\
                    [[site]]\npath = \".\"\nproxy = [\"/=a\"]\n";
        let tls = &config(text).upstreams[0].tls;
        assert_eq!((tls.ca.as_deref(), tls.name.as_deref()), (Some("ca.pem".as_ref()), Some("b.example")));
        assert!(config(&text.replace("ca = \"ca.pem\"", "insecure = true")).upstreams[0].tls.accepts_any);
    }

    #[test]
    fn sites_with_equal_addresses_share_an_upstream() {
        let text = "[[site]]\npath = \"a\"\nproxy = [\"/a/=http://app\", \"/b/=http://app:80/x\", \"*.php=fastcgi://php:9000\"]\n\
                    [[site]]\npath = \"b\"\nhosts = [\"b.example\"]\nproxy = [\"/=http://app,http://[::1]:81\", \"/c=named/\", \"/d=http://app\"]\n\
                    [[upstream]]\nname = \"named\"\nservers = [\"https://c\"]\nidle-timeout = \"7s\"\n";
        let config = config(text);
        let upstreams: Vec<_> =
            config.upstreams.iter().map(|upstream| (&*upstream.name, upstream.servers.len())).collect();
        assert_eq!(
            upstreams,
            [("http://app", 1), ("fastcgi://php:9000", 1), ("http://app,http://[::1]:81", 2), ("named", 1)]
        );
        let first = UpstreamConfig {
            name: "http://app".into(),
            servers: vec![tcp("app", 80)],
            ..UpstreamConfig::default()
        };
        assert_eq!(config.upstreams[0], first);
        assert_eq!(config.upstreams[3].idle_timeout, Duration::from_secs(7));
        let below = |prefix: &str| ProxyPaths::Below(prefix.parse().unwrap());
        let proxy = |paths, upstream: &str, base: Option<&str>| SiteProxy {
            paths,
            upstream: upstream.to_owned(),
            base: base.map(str::to_owned),
        };
        assert_eq!(
            config.sites[0].proxies,
            [
                proxy(below("/a"), "http://app", None),
                proxy(below("/b"), "http://app", Some("/x")),
                proxy(ProxyPaths::Suffix(".php".into()), "fastcgi://php:9000", None),
            ]
        );
        assert_eq!(config.sites[0].source.programs.suffixes, [".php"]);
        assert_eq!(
            config.sites[1].proxies,
            [
                proxy(ProxyPaths::All, "http://app,http://[::1]:81", None),
                proxy(below("/c"), "named", Some("")),
                proxy(below("/d"), "http://app", None),
            ]
        );
    }

    #[test]
    fn flag_of_the_server_leaves_options_of_upstreams_alone() {
        let text = "[[upstream]]\nname = \"a\"\nservers = [\"http://a\"]\nidle-timeout = \"7s\"\n[[site]]\npath = \".\"\nproxy = [\"/=a\"]\n";
        let file = ConfigFile::new("tarpon.toml", text);
        let flags = CliFlags([("idle-timeout", vec!["9s".into()])].into());
        let config = read(Some(&file), &flags, CommandKind::Serve).expect("the file is valid").config;
        assert_eq!(config.upstreams[0].idle_timeout, Duration::from_secs(7));
        // The flag replaces the values of the file; what the file has for them may stay.
        let flags = CliFlags([("proxy", vec!["/b=http://b".into()])].into());
        let config = read(Some(&file), &flags, CommandKind::Serve).expect("the file is valid").config;
        assert_eq!(config.sites[0].proxies.len(), 1);
        assert_eq!(config.sites[0].proxies[0].upstream, "http://b");
    }
}
