//! `proxy_pass`, `fastcgi_pass`, and the options of upstream servers.

use super::{http::HttpContext, scope::NginxScope};
use crate::program::import::{
    plan::{Given, ImportedUpstream, PlannedOption, RouteAction, duration},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
};

/// Options of upstream servers that inner blocks inherit.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxyScope {
    /// Headers of requests, in the order of the file.
    headers: Vec<(String, Given)>,
    has_own_headers: bool,
    /// Options of `[[upstream]]`.
    options: Vec<PlannedOption>,
    params: Vec<Given>,
    verifies: bool,
}

/// Headers that tarpon sends, or removes, by itself.
const OWN_HEADERS: &[&str] = &[
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "forwarded",
    "upgrade",
    "connection",
    "proxy",
    "via",
    "x-forwarded-server",
    "x-forwarded-scheme",
    "x-scheme",
    "x-forwarded-ssl",
    "x-forwarded-port",
    "te",
    "keep-alive",
    "content-length",
    "early-data",
];

/// Parameters of FastCGI that each request sets.
const OWN_PARAMS: &[&str] = &[
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "DOCUMENT_ROOT",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "HTTP_PROXY",
    "REDIRECT_STATUS",
];

impl ProxyScope {
    /// Begins an inner block.
    pub(super) fn enter(&mut self) {
        self.has_own_headers = false;
    }

    /// Reads a directive. Returns whether it is one of upstream servers.
    pub(super) fn read(&mut self, directive: &SourceDirective, report: &mut ImportReport) -> bool {
        let origin = directive.origin();
        let value = directive.arg(0);
        match &*directive.name {
            "proxy_set_header" => {
                if !std::mem::replace(&mut self.has_own_headers, true) {
                    self.headers.clear();
                }
                self.headers.push((value.to_ascii_lowercase(), Given::new(directive.arg(1), &origin)));
            }
            "proxy_connect_timeout" | "fastcgi_connect_timeout" => {
                self.time("connect-timeout", directive, report)
            }
            "proxy_read_timeout" | "fastcgi_read_timeout" => {
                self.time("response-timeout", directive, report);
                self.time("idle-timeout", directive, report);
                self.time("tunnel-timeout", directive, report);
            }
            "proxy_send_timeout" | "fastcgi_send_timeout" => {
                report.not_needed(&origin, "`idle-timeout` of [[upstream]] counts in both directions")
            }
            "proxy_ssl_trusted_certificate" => self.set(PlannedOption::new("ca", value, &origin)),
            "proxy_ssl_name" if !value.contains('$') => {
                self.set(PlannedOption::new("tls-name", value, &origin))
            }
            "proxy_ssl_verify" => self.verifies = value == "on",
            "fastcgi_index" => self.set(PlannedOption::new("index", value, &origin)),
            "fastcgi_param" => self.param(directive, report),
            _ => return false,
        }
        true
    }

    fn time(&mut self, name: &'static str, directive: &SourceDirective, report: &mut ImportReport) {
        let origin = directive.origin();
        match duration(directive.arg(0)) {
            Some(time) => self.set(PlannedOption::new(name, time, &origin)),
            None => {
                let hint = format!("set `{name}` of the [[upstream]] to a time, such as \"30s\"");
                report.left_out(&origin, format_args!("it is no time: {}", directive.arg(0)), hint);
            }
        }
    }

    fn set(&mut self, option: PlannedOption) {
        self.options.retain(|known| known.name != option.name);
        self.options.push(option);
    }

    fn param(&mut self, directive: &SourceDirective, report: &mut ImportReport) {
        let origin = directive.origin();
        let (name, value) = (directive.arg(0), directive.arg(1));
        if OWN_PARAMS.contains(&name) {
            report.not_needed(&origin, "each FastCGI request has the usual parameters");
        } else if value.contains('$') {
            let hint = "let the script read a header, or set `params` to a fixed value";
            report.left_out(&origin, format_args!("the value of {name} depends on a variable"), hint);
        } else {
            self.params.retain(|known| !known.value.starts_with(&format!("{name}=")));
            self.params.push(Given::new(format!("{name}={value}"), &origin));
        }
    }
}

/// Returns what `proxy_pass` or `fastcgi_pass` means. `None`: it has no counterpart, and the report has it.
pub(super) fn action(
    directive: &SourceDirective,
    scope: &NginxScope,
    context: &HttpContext,
    report: &mut ImportReport,
) -> Option<RouteAction> {
    let origin = directive.origin();
    let is_fastcgi = directive.name == "fastcgi_pass";
    // Variables of the request behind the host make no difference: tarpon sends path and query by itself.
    let text = directive.arg(0).trim_end_matches("$request_uri").trim_end_matches("$is_args$args");
    let Some(text) = scope.literal(text) else {
        let hint = "name the server in `proxy`, or each one in an [[upstream]]";
        report.left_out(&origin, "the address depends on a variable", hint);
        return None;
    };
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) if !is_fastcgi => (scheme, rest),
        None if is_fastcgi => ("fastcgi", &*text),
        _ => {
            let hint = "name a server as http://HOST:PORT in `proxy`";
            report.left_out(&origin, format_args!("tarpon knows no address such as {text}"), hint);
            return None;
        }
    };
    // `unix:/path:` ends with a colon before the path of the request.
    let (address, base) = match rest.strip_prefix("unix:") {
        Some(path) if is_fastcgi => (format!("unix:{path}"), None),
        Some(path) => match path.split_once(':') {
            Some((path, base)) => (format!("unix:{path}"), Some(base).filter(|base| !base.is_empty())),
            None => (format!("unix:{path}"), None),
        },
        None => match rest.find('/') {
            Some(at) => (rest[..at].to_owned(), Some(&rest[at..])),
            None => (rest.to_owned(), None),
        },
    };
    let base = match base {
        Some(base) if base.contains(['?', '#', '$']) => {
            let hint = "name a path without a query: tarpon adds that of the client";
            report.left_out(&origin, format_args!("a query or fragment in the address: {base}"), hint);
            None
        }
        base => base.map(str::to_owned),
    };
    let upstream = match context.upstreams.iter().find(|upstream| upstream.name == address) {
        Some(group) => {
            let servers = group.servers.iter().map(|server| Given {
                value: format!("{scheme}://{}", server.value),
                origin: server.origin.clone(),
            });
            ImportedUpstream { servers: servers.collect(), ..group.clone() }
        }
        None => {
            if address.is_empty() {
                report.left_out(
                    &origin,
                    "it names no server",
                    "name a server as http://HOST:PORT in `proxy`",
                );
                return None;
            }
            ImportedUpstream {
                name: address.trim_start_matches("unix:").trim_matches('/').replace('/', "-"),
                servers: vec![Given::new(format!("{scheme}://{address}"), &origin)],
                options: Vec::new(),
                origin: origin.clone(),
            }
        }
    };
    let upstream = with_options(upstream, scope, (scheme, &address), &origin, report);
    Some(RouteAction::Proxy { upstream, base })
}

/// Adds the options of a location to those of its upstream.
fn with_options(
    mut upstream: ImportedUpstream,
    scope: &NginxScope,
    (scheme, address): (&str, &str),
    origin: &DirectiveOrigin,
    report: &mut ImportReport,
) -> ImportedUpstream {
    let proxy = &scope.proxy;
    let is_fastcgi = scheme == "fastcgi";
    for option in &proxy.options {
        let is_wanted = match option.name {
            "index" => is_fastcgi,
            "ca" | "tls-name" => scheme == "https",
            _ => true,
        };
        // PHP's usual name is the default.
        if is_wanted && (option.name, &*option.given.value) != ("index", "index.php") {
            upstream.options.retain(|known| known.name != option.name);
            upstream.options.push(option.clone());
        }
    }
    if let Some(size) = &scope.max_body {
        match max_body(&size.value) {
            Some(value) => upstream.options.push(PlannedOption {
                name: "max-body",
                given: Given { value, origin: size.origin.clone() },
            }),
            None => report.left_out(&size.origin, "it is no size", "set `max-body` of the [[upstream]]"),
        }
    }
    if is_fastcgi {
        upstream
            .options
            .extend(proxy.params.iter().map(|given| PlannedOption { name: "params", given: given.clone() }));
        return upstream;
    }
    if scheme == "https" && !proxy.verifies {
        let how = "tarpon verifies the certificate of the server; `ca` names a root of your own, and `insecure = true` verifies nothing";
        report.differs(origin, how);
    }
    let host = proxy.headers.iter().rev().find(|(name, _)| name == "host").map(|(_, given)| given);
    let host_option = match host.map(|given| &*given.value) {
        Some("$host" | "$http_host" | "$host:$server_port" | "$host:$proxy_port") => None,
        // Without the directive nginx sends the name in `proxy_pass`.
        None | Some("$proxy_host" | "") if address.starts_with("unix:") => Some("localhost".to_owned()),
        None | Some("$proxy_host" | "") => {
            Some(match upstream.servers[..] == [Given::new(format!("{scheme}://{address}"), origin)] {
                true => "upstream".to_owned(),
                false => address.to_owned(),
            })
        }
        Some(value) => match scope.literal(value) {
            Some(value) => Some(value),
            None => {
                let given = host.expect("it has a value");
                report.left_out(
                    &given.origin,
                    format_args!("the host {value} depends on a variable"),
                    "set `host` of the [[upstream]]",
                );
                None
            }
        },
    };
    if let Some(value) = host_option {
        let origin = host.map_or(origin, |given| &given.origin);
        upstream.options.push(PlannedOption::new("host", value, origin));
    }
    for (name, given) in &proxy.headers {
        match &**name {
            "host" => {}
            "x-real-ip" | "x-client-ip" | "true-client-ip" | "x-original-forwarded-for" => {
                let hint = "let the server behind read X-Forwarded-For or Forwarded";
                report.left_out(
                    &given.origin,
                    format_args!(
                        "tarpon names the client in X-Forwarded-For and Forwarded, and not in {name}"
                    ),
                    hint,
                );
            }
            name if OWN_HEADERS.contains(&name) => {
                report.not_needed(
                    &given.origin,
                    "tarpon writes the headers about client and connection by itself",
                );
            }
            "accept-encoding" if given.value.is_empty() => {
                report.not_needed(&given.origin, "tarpon passes the content of responses on unchanged");
            }
            name => {
                let hint = "let the server behind work without it";
                report.left_out(
                    &given.origin,
                    format_args!("tarpon adds no header such as {name} to requests"),
                    hint,
                );
            }
        }
    }
    upstream
}

/// Returns a limit of a content in the form of tarpon. 0 stands for no limit.
fn max_body(text: &str) -> Option<String> {
    nginx_size(text).map(|size| if size == "0" { "1024TiB".to_owned() } else { size })
}

/// Returns a size of nginx in the form of tarpon.
pub(super) fn nginx_size(text: &str) -> Option<String> {
    let (digits, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = digits.parse().ok()?;
    let unit = match unit {
        "" => "",
        "k" | "K" => "KiB",
        "m" | "M" => "MiB",
        "g" | "G" => "GiB",
        _ => return None,
    };
    Some(if number == 0 { "0".to_owned() } else { format!("{number}{unit}") })
}

/// Reads a block `upstream`.
pub(super) fn upstream(directive: &SourceDirective, report: &mut ImportReport) -> ImportedUpstream {
    let origin = directive.origin();
    let mut plan = ImportedUpstream {
        name: directive.arg(0).to_owned(),
        servers: Vec::new(),
        options: Vec::new(),
        origin,
    };
    for child in directive.children() {
        let origin = child.origin();
        let mut set = |name, value: &str| plan.options.push(PlannedOption::new(name, value, &origin));
        match &*child.name {
            "server" => {
                let mut server = child.arg(0).to_owned();
                let mut is_used = true;
                for arg in child.args.iter().skip(1) {
                    match arg.split_once('=') {
                        Some(("weight", weight)) => server += &format!(" weight={weight}"),
                        Some(("max_fails", count)) => set("max-fails", count),
                        // Without a time, failures are never counted.
                        Some(("fail_timeout", "0" | "0s")) => set("max-fails", "0"),
                        Some(("fail_timeout", time)) => match duration(time) {
                            Some(time) => set("fail-time", &time),
                            None => report.left_out(
                                &origin,
                                format_args!("it is no time: {arg}"),
                                "set `fail-time`",
                            ),
                        },
                        Some(("max_conns", count)) => set("max-connections", count),
                        Some(("slow_start", time)) => match duration(time) {
                            Some(time) => set("slow-start", &time),
                            None => report.left_out(
                                &origin,
                                format_args!("it is no time: {arg}"),
                                "set `slow-start`",
                            ),
                        },
                        None if arg == "backup" => server += " backup",
                        None if arg == "drain" => server += " drain",
                        None if arg == "down" => is_used = false,
                        _ => report.left_out(
                            &origin,
                            format_args!("`servers` has no {arg}"),
                            "see docs/upstreams.md",
                        ),
                    }
                }
                match is_used {
                    true => plan.servers.push(Given::new(server, &origin)),
                    false => report.not_needed(&origin, "the server is down"),
                }
            }
            "least_conn" => set("balance", "least-connections"),
            "ip_hash" => set("balance", "hash-client"),
            "hash" if ["$remote_addr", "$binary_remote_addr"].contains(&child.arg(0)) => {
                set("balance", "hash-client")
            }
            "hash" if ["$request_uri", "$uri"].contains(&child.arg(0)) => set("balance", "hash-path"),
            "keepalive" => set("pool-size", child.arg(0)),
            "keepalive_requests" => set("pool-requests", child.arg(0)),
            "keepalive_timeout" => match duration(child.arg(0)) {
                Some(time) => set("pool-idle-time", &time),
                None => report.left_out(
                    &origin,
                    format_args!("it is no time: {}", child.arg(0)),
                    "set `pool-idle-time`",
                ),
            },
            "zone" | "resolver" => {
                report.not_needed(&origin, "all workers share the state of upstream servers")
            }
            name => report.left_out(
                &origin,
                format_args!("[[upstream]] has no counterpart of {name}"),
                "see docs/upstreams.md",
            ),
        }
    }
    // The last value of an option counts.
    let mut seen = Vec::new();
    plan.options.reverse();
    plan.options.retain(|option| {
        !seen.contains(&option.name) && {
            seen.push(option.name);
            true
        }
    });
    plan.options.reverse();
    plan
}
