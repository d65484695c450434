//! The blocks main and http: what servers share.

use super::{
    proxy, report_unread,
    scope::{NginxScope, limit_option},
    server::{self, NginxServer},
};
use crate::program::import::{
    plan::{Given, ImportedUpstream, PlannedOption, ServicePlan},
    report::ImportReport,
    source::SourceDirective,
    users::UsersFiles,
};
use std::collections::{BTreeMap, BTreeSet};

/// What servers refer to by name.
#[derive(Debug, Default)]
pub(super) struct HttpContext {
    pub(super) users_files: UsersFiles,
    pub(super) upstreams: Vec<ImportedUpstream>,
    /// Rates of `limit_req_zone`, by zone.
    pub(super) request_zones: BTreeMap<String, String>,
    /// Zones of `limit_conn_zone` that count by address.
    connection_zones: BTreeSet<String>,
    /// Formats of access logs, by name. `None`: tarpon has no such format.
    log_formats: BTreeMap<String, Option<&'static str>>,
}

impl HttpContext {
    /// Returns the format of tarpon for that of this name.
    pub(super) fn log_format(&self, name: &str) -> Option<&'static str> {
        self.log_formats.get(name).copied().flatten()
    }

    fn read(&mut self, directives: &[SourceDirective], report: &mut ImportReport) {
        for directive in directives {
            let origin = directive.origin();
            match &*directive.name {
                "http" => self.read(directive.children(), report),
                "upstream" => self.upstreams.push(proxy::upstream(directive, report)),
                "limit_req_zone" | "limit_conn_zone" if !BY_ADDRESS.contains(&directive.arg(0)) => {
                    let hint = "limit the requests of each address: docs/limits.md";
                    report.left_out(
                        &origin,
                        format_args!(
                            "tarpon counts by the address of the client, and not by {}",
                            directive.arg(0)
                        ),
                        hint,
                    );
                }
                "limit_req_zone" => {
                    let value = |name: &str| {
                        directive.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
                    };
                    if let (Some(zone), Some(rate)) = (value("zone"), value("rate")) {
                        let zone = zone.split(':').next().unwrap_or_default().to_owned();
                        self.request_zones.insert(zone, rate.replace("r/", "/"));
                    }
                }
                "limit_conn_zone" => {
                    let zone = directive.args.iter().find_map(|arg| arg.strip_prefix("zone="));
                    self.connection_zones
                        .extend(zone.and_then(|zone| zone.split(':').next()).map(str::to_owned));
                }
                "log_format" => {
                    let is_json = directive.arg(1) == "escape=json";
                    let text: String = directive
                        .args
                        .iter()
                        .skip(1)
                        .filter(|arg| !arg.starts_with("escape="))
                        .map(String::as_str)
                        .collect();
                    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let known = FORMATS.iter().find(|(format, _)| *format == text).map(|(_, name)| *name);
                    self.log_formats.insert(directive.arg(0).to_owned(), known.or(is_json.then_some("json")));
                }
                _ => {}
            }
        }
    }

    /// Returns the option for `limit_conn`, which counts connections for the whole server.
    pub(super) fn connection_limit(
        &self,
        directive: &SourceDirective,
        report: &mut ImportReport,
    ) -> Option<PlannedOption> {
        let origin = directive.origin();
        match self.connection_zones.contains(directive.arg(0)) {
            true => Some(PlannedOption::new("max-connections-per-ip", directive.arg(1), &origin)),
            false => {
                let hint = "set `max-connections-per-ip` in [server]: docs/limits.md";
                report.left_out(&origin, "its zone does not count by the address of the client", hint);
                None
            }
        }
    }
}

const BY_ADDRESS: &[&str] = &["$binary_remote_addr", "$remote_addr"];

/// Texts of formats, and their names in tarpon. The third is that of the packages of nginx, which has one field more.
const FORMATS: &[(&str, &str)] = &[
    (
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"",
        "combined",
    ),
    ("$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent", "common"),
    (
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\" \"$http_x_forwarded_for\"",
        "combined",
    ),
    (
        "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\"\"$http_user_agent\" \"$http_x_forwarded_for\"",
        "combined",
    ),
];

/// Reads the directives of all files.
pub(super) fn read(
    directives: &[SourceDirective],
    users_files: UsersFiles,
    report: &mut ImportReport,
) -> (ServicePlan, Vec<NginxServer>) {
    let mut context = HttpContext { users_files, ..HttpContext::default() };
    context.read(directives, report);
    let mut reader =
        HttpReader { context, plan: ServicePlan::default(), scope: NginxScope::default(), tls: Vec::new() };
    // Directives behind a server count for it, too.
    let mut servers = Vec::new();
    reader.directives(directives, &mut servers, report);
    for option in reader.scope.access_log.iter().cloned() {
        reader.plan.log.push(option);
    }
    for option in reader.scope.own_limits(report) {
        // In [server] `allow` and `deny` reset connections before anything is read.
        reader.plan.server.push(option);
    }
    let tls = std::mem::take(&mut reader.tls);
    let servers = servers
        .into_iter()
        .map(|directive| server::read(directive, &reader.scope, &reader.context, &tls, report));
    let servers = servers.collect();
    (reader.plan, servers)
}

struct HttpReader {
    context: HttpContext,
    plan: ServicePlan,
    scope: NginxScope,
    /// Directives of TLS, which servers inherit.
    tls: Vec<SourceDirective>,
}

impl HttpReader {
    fn directives<'d>(
        &mut self,
        directives: &'d [SourceDirective],
        servers: &mut Vec<&'d SourceDirective>,
        report: &mut ImportReport,
    ) {
        for directive in directives {
            let origin = directive.origin();
            match &*directive.name {
                "http" => self.directives(directive.children(), servers, report),
                "server" if directive.block.is_some() => servers.push(directive),
                "events" => directive.children().iter().for_each(|child| report_unread(child, report)),
                "upstream" | "limit_req_zone" | "limit_conn_zone" | "log_format" => {}
                "user" => self.plan.server.push(PlannedOption::new("user", directive.arg(0), &origin)),
                "map" if directive.arg(0) == "$http_upgrade" => {
                    report.not_needed(&origin, "`proxy` passes WebSocket and other upgrades on");
                }
                "limit_conn" => self.plan.server.extend(self.context.connection_limit(directive, report)),
                "set_real_ip_from" | "real_ip_header" | "real_ip_recursive" => {
                    real_ip(directive, &mut self.plan.server, report)
                }
                "ssl_certificate"
                | "ssl_certificate_key"
                | "ssl_protocols"
                | "ssl_client_certificate"
                | "ssl_verify_client" => {
                    self.tls.push(directive.clone());
                }
                _ if self.scope.read(directive, &self.context, report) => {}
                _ => match limit_option(directive, report) {
                    Some(option) => self.plan.server.extend(option),
                    None => report_unread(directive, report),
                },
            }
        }
    }
}

/// Reads the directives about proxies in front of the server.
pub(super) fn real_ip(
    directive: &SourceDirective,
    options: &mut Vec<PlannedOption>,
    report: &mut ImportReport,
) {
    let origin = directive.origin();
    let value = directive.arg(0);
    match (&*directive.name, &*value.to_ascii_lowercase()) {
        ("set_real_ip_from", "unix:") => options.push(PlannedOption::new("trusted-proxies", "unix", &origin)),
        ("set_real_ip_from", _) => {
            options.push(PlannedOption { name: "trusted-proxies", given: Given::new(value, &origin) })
        }
        ("real_ip_header", "x-forwarded-for") => {
            options.push(PlannedOption::new("client-address-from", "x-forwarded-for", &origin))
        }
        ("real_ip_header", "forwarded") => {
            options.push(PlannedOption::new("client-address-from", "forwarded", &origin))
        }
        ("real_ip_header", "proxy_protocol") => {
            report.not_needed(&origin, "`proxy-protocol` of the listener names the client")
        }
        ("real_ip_header", _) => {
            let hint = "let the proxy send X-Forwarded-For or Forwarded, and set `client-address-from`: docs/proxies.md";
            report.left_out(&origin, format_args!("tarpon reads no {value}"), hint);
        }
        _ => report
            .not_needed(&origin, "tarpon reads the list up to the first address that is no trusted proxy"),
    }
}
