//! `reverse_proxy` and `php_fastcgi`.

use super::known;
use crate::program::import::{
    plan::{Given, ImportedUpstream, PlannedOption, duration},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
};

/// Headers that tarpon sends by itself.
const OWN_HEADERS: &[&str] = &[
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "upgrade",
    "connection",
    "forwarded",
    "via",
];

/// Returns the servers of `reverse_proxy`. `None`: it names none, and the report has it.
pub(super) fn reverse_proxy(
    directive: &SourceDirective,
    targets: &[String],
    report: &mut ImportReport,
) -> Option<ImportedUpstream> {
    let origin = directive.origin();
    let mut upstream = ImportedUpstream {
        name: String::new(),
        servers: Vec::new(),
        options: Vec::new(),
        origin: origin.clone(),
    };
    let mut scheme = "http";
    let mut targets: Vec<(String, DirectiveOrigin)> =
        targets.iter().map(|target| (target.clone(), origin.clone())).collect();
    for child in directive.children() {
        let origin = child.origin();
        let value = child.arg(0);
        let mut set = |name, value: &str| upstream.options.push(PlannedOption::new(name, value, &origin));
        match &*child.name {
            "to" => targets.extend(child.args.iter().map(|target| (target.clone(), origin.clone()))),
            "lb_policy" => match value {
                "round_robin" => {}
                "least_conn" => set("balance", "least-connections"),
                "ip_hash" | "client_ip_hash" => set("balance", "hash-client"),
                "uri_hash" => set("balance", "hash-path"),
                policy => report.left_out(
                    &origin,
                    format_args!("tarpon has no policy {policy}"),
                    "set `balance`: docs/upstreams.md#several-servers",
                ),
            },
            "lb_retries" => set("retries", value),
            "lb_try_duration" | "lb_try_interval" => {
                report.not_needed(&origin, "tarpon tries another server by itself: docs/upstreams.md")
            }
            "health_uri" => set("health-path", value.split('?').next().unwrap_or_default()),
            "health_interval" => upstream.options.extend(time_option("health-interval", child, report)),
            "health_timeout" => upstream.options.extend(time_option("health-timeout", child, report)),
            "health_passes" => set("health-rise", value),
            "health_fails" => set("health-fall", value),
            "fail_duration" => upstream.options.extend(time_option("fail-time", child, report)),
            "max_fails" => set("max-fails", value),
            "unhealthy_request_count" => set("max-connections", value),
            "stream_timeout" => upstream.options.extend(time_option("tunnel-timeout", child, report)),
            "header_up" => header_up(child, &mut upstream, report),
            "transport" if value == "http" => transport(child, &mut upstream, &mut scheme, report),
            "transport" if value == "fastcgi" => scheme = "fastcgi",
            "handle_response" | "@error" | "replace_status" | "header_down" | "rewrite" | "method" => {
                report.left_out(
                    &origin,
                    "requests and responses of upstream servers pass unchanged",
                    "let the server behind do it",
                );
            }
            name if name.starts_with('@') => report.left_out(
                &origin,
                "responses of upstream servers pass unchanged",
                "let the server behind do it",
            ),
            name => known::report_unread(name, &origin, report),
        }
    }
    for (target, origin) in targets {
        match address(&target, scheme) {
            Some(address) => {
                if upstream.name.is_empty() {
                    upstream.name = target
                        .rsplit("://")
                        .next()
                        .unwrap_or_default()
                        .trim_start_matches("unix/")
                        .trim_matches('/')
                        .replace('/', "-");
                }
                // All servers of an upstream have one scheme: the first decides.
                upstream.servers.push(Given::new(address, &origin));
            }
            None => {
                let hint = "name a server as http://HOST:PORT in `proxy`";
                report.left_out(&origin, format_args!("tarpon knows no server such as {target}"), hint);
            }
        }
    }
    // Caddy sends the host of the client also to servers with TLS.
    let mut seen = Vec::new();
    upstream.options.reverse();
    upstream.options.retain(|option| {
        !seen.contains(&option.name) && {
            seen.push(option.name);
            true
        }
    });
    upstream.options.reverse();
    (!upstream.servers.is_empty()).then_some(upstream)
}

/// Returns an option whose value is a time.
fn time_option(
    name: &'static str,
    child: &SourceDirective,
    report: &mut ImportReport,
) -> Option<PlannedOption> {
    let time = duration(child.arg(0));
    if time.is_none() {
        let hint = format_args!("set `{name}` of the [[upstream]]");
        report.left_out(&child.origin(), format_args!("it is no time: {}", child.arg(0)), hint);
    }
    time.map(|time| PlannedOption::new(name, time, &child.origin()))
}

/// Returns an address of Caddy as tarpon writes it.
fn address(target: &str, scheme: &str) -> Option<String> {
    if target.contains(['{', '}', ' ']) {
        return None;
    }
    let (scheme, rest) = match target.split_once("://") {
        Some(("http", rest)) => ("http", rest),
        Some(("https", rest)) => ("https", rest),
        Some(_) => return None,
        None => (scheme, target),
    };
    let rest = match rest.strip_prefix("unix/") {
        Some(path) => format!("unix:{path}"),
        None => match rest.strip_prefix(':') {
            Some(port) => format!("localhost:{port}"),
            None => rest.trim_end_matches('/').to_owned(),
        },
    };
    let is_plain = !rest.is_empty() && (rest.starts_with("unix:") || !rest.contains('/'));
    is_plain.then(|| format!("{scheme}://{rest}"))
}

fn header_up(child: &SourceDirective, upstream: &mut ImportedUpstream, report: &mut ImportReport) {
    let origin = child.origin();
    let (name, value) = (child.arg(0).to_ascii_lowercase(), child.arg(1));
    match &*name {
        "host" => match value {
            "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}" => {}
            "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}" | "{upstream_host}" => {
                upstream.options.push(PlannedOption::new("host", "upstream", &origin));
            }
            value if value.contains('{') => report.left_out(
                &origin,
                format_args!("the host {value} depends on the request"),
                "set `host` of the [[upstream]]",
            ),
            value => upstream.options.push(PlannedOption::new("host", value, &origin)),
        },
        name if OWN_HEADERS.contains(&name.trim_start_matches(['+', '-'])) => {
            report.not_needed(&origin, "tarpon writes the headers about client and connection by itself");
        }
        "x-real-ip" => {
            let hint = "let the server behind read X-Forwarded-For or Forwarded";
            report.left_out(
                &origin,
                "tarpon names the client in X-Forwarded-For and Forwarded, and not in X-Real-IP",
                hint,
            );
        }
        name => report.left_out(
            &origin,
            format_args!("tarpon adds no header such as {name} to requests"),
            "let the server behind work without it",
        ),
    }
}

fn transport(
    child: &SourceDirective,
    upstream: &mut ImportedUpstream,
    scheme: &mut &'static str,
    report: &mut ImportReport,
) {
    for option in child.children() {
        let origin = option.origin();
        let value = option.arg(0);
        let mut set = |name, value: &str| upstream.options.push(PlannedOption::new(name, value, &origin));
        let time = duration(value);
        match (&*option.name, time) {
            ("tls", _) => *scheme = "https",
            ("tls_insecure_skip_verify", _) => {
                *scheme = "https";
                set("insecure", "true");
            }
            ("tls_server_name", _) => set("tls-name", value),
            ("tls_trusted_ca_certs", _) => set("ca", value),
            ("tls_trust_pool", _) if value == "file" => set("ca", option.arg(1)),
            ("dial_timeout", Some(time)) => set("connect-timeout", &time),
            ("response_header_timeout", Some(time)) => set("response-timeout", &time),
            ("read_timeout", Some(time)) => set("idle-timeout", &time),
            ("keepalive", Some(time)) => set("pool-idle-time", &time),
            ("keepalive_idle_conns_per_host" | "keepalive_idle_conns", _) => set("pool-size", value),
            ("max_conns_per_host", _) => set("max-connections", value),
            (
                "write_timeout"
                | "compression"
                | "versions"
                | "tls_timeout"
                | "keepalive_interval"
                | "expect_continue_timeout"
                | "dial_fallback_delay"
                | "proxy_protocol_v",
                _,
            ) => {
                report.not_needed(&origin, "tarpon chooses such values by itself");
            }
            (name, _) => known::report_unread(name, &origin, report),
        }
    }
}

/// Returns the servers of `php_fastcgi`.
pub(super) fn php_fastcgi(
    directive: &SourceDirective,
    targets: &[String],
    report: &mut ImportReport,
) -> Option<ImportedUpstream> {
    let origin = directive.origin();
    let mut upstream = ImportedUpstream {
        name: "php".to_owned(),
        servers: Vec::new(),
        options: Vec::new(),
        origin: origin.clone(),
    };
    for target in targets {
        match address(target, "fastcgi") {
            Some(address) if address.starts_with("fastcgi://") => {
                upstream.servers.push(Given::new(address, &origin))
            }
            _ => report.left_out(
                &origin,
                format_args!("tarpon knows no server such as {target}"),
                "name a server as fastcgi://HOST:PORT",
            ),
        }
    }
    for child in directive.children() {
        let origin = child.origin();
        match &*child.name {
            "root" => upstream.options.push(PlannedOption::new("root", child.arg(0), &origin)),
            "env" if !child.arg(1).contains('{') => {
                upstream.options.push(PlannedOption::new(
                    "params",
                    format!("{}={}", child.arg(0), child.arg(1)),
                    &origin,
                ));
            }
            "read_timeout" | "dial_timeout" => {
                let name = if child.name == "read_timeout" { "response-timeout" } else { "connect-timeout" };
                upstream
                    .options
                    .extend(duration(child.arg(0)).map(|time| PlannedOption::new(name, time, &origin)));
            }
            "index" | "try_files" => {}
            "capture_stderr" | "resolve_root_symlink" | "write_timeout" => {
                report.not_needed(&origin, "tarpon does so by itself")
            }
            name => known::report_unread(name, &origin, report),
        }
    }
    if directive.children().iter().all(|child| (&*child.name, child.arg(0)) != ("index", "off")) {
        let hint = "let a [[site.redirect]] lead from / to /index.php: docs/upstreams.md#fastcgi";
        report.left_out(&origin, "a missing file is not answered by /index.php", hint);
    }
    (!upstream.servers.is_empty()).then_some(upstream)
}
