//! The options at the start of a Caddyfile.

use super::known;
use crate::program::import::{
    plan::{PlannedOption, ServicePlan, duration},
    report::ImportReport,
    source::SourceDirective,
    users::HashOutput,
};

/// Options that sites refer to.
#[derive(Clone, Debug)]
pub(super) struct GlobalOptions {
    pub(super) http_port: u16,
    pub(super) https_port: u16,
    pub(super) default_bind: Vec<String>,
    /// Whether sites get certificates by themselves.
    pub(super) obtains: bool,
    /// Whether sites with TLS redirect requests without it.
    pub(super) redirects: bool,
    /// Whether certificates come from an authority of the machine.
    pub(super) is_local: bool,
    /// Whether names are proved by records of DNS.
    pub(super) proves_by_dns: bool,
    /// Whether the result may have hashes of passwords.
    pub(super) hashes: HashOutput,
}

/// Reads the options.
pub(super) fn read(
    directives: &[SourceDirective],
    plan: &mut ServicePlan,
    report: &mut ImportReport,
) -> GlobalOptions {
    let mut options = GlobalOptions {
        http_port: 80,
        https_port: 443,
        default_bind: Vec::new(),
        obtains: true,
        redirects: true,
        is_local: false,
        proves_by_dns: false,
        hashes: HashOutput::LeaveOut,
    };
    for directive in directives {
        let origin = directive.origin();
        let value = directive.arg(0);
        let mut set = |name, value: &str| plan.server.push(PlannedOption::new(name, value, &origin));
        match &*directive.name {
            "http_port" => options.http_port = value.parse().unwrap_or(80),
            "https_port" => options.https_port = value.parse().unwrap_or(443),
            "default_bind" => options.default_bind.clone_from(&directive.args),
            "email" => set("acme-email", value),
            "acme_ca" => set(
                "acme-directory",
                if value.contains("acme-staging-v02.api.letsencrypt.org") { "staging" } else { value },
            ),
            "acme_ca_root" => set("acme-ca", value),
            "acme_dns" => {
                options.proves_by_dns = true;
                let hint = "set acme-challenge = \"dns-01\" and acme-dns-hook in [server]: docs/acme.md";
                report.left_out(&origin, "a program of yours publishes the records", hint);
            }
            "local_certs" => options.is_local = true,
            "auto_https" => match value {
                "off" => (options.obtains, options.redirects) = (false, false),
                "disable_redirects" => options.redirects = false,
                "disable_certs" => options.obtains = false,
                _ => report.not_needed(&origin, "a certificate of a file comes first"),
            },
            "admin" => match value {
                "off" => set("admin", "off"),
                _ => report.differs(
                    &origin,
                    "the admin listener of tarpon is a Unix socket, and has other paths: docs/admin.md",
                ),
            },
            "grace_period" => match duration(value) {
                Some(time) => set("grace-period", &time),
                None => report.left_out(&origin, "it is no time", "set `grace-period` in [server]"),
            },
            "debug" => report.not_needed(&origin, "`tarpon serve --debug` prints each request"),
            "servers" => servers(directive, plan, report),
            "log" => report.not_needed(&origin, "messages go to standard error, as for journald"),
            "metrics" => report.not_needed(&origin, "the admin listener has metrics: docs/admin.md"),
            name => known::report_unread(name, &origin, report),
        }
    }
    options
}

fn servers(directive: &SourceDirective, plan: &mut ServicePlan, report: &mut ImportReport) {
    for child in directive.children() {
        let origin = child.origin();
        let mut set = |name, value: &str| plan.server.push(PlannedOption::new(name, value, &origin));
        match (&*child.name, child.arg(0)) {
            ("trusted_proxies", "static") => {
                for network in &child.args[1..] {
                    match &**network {
                        "private_ranges" => {
                            PRIVATE.iter().for_each(|network| set("trusted-proxies", network))
                        }
                        network => set("trusted-proxies", network),
                    }
                }
                set("client-address-from", "x-forwarded-for");
            }
            ("timeouts", _) => {
                for timeout in child.children() {
                    let name = match &*timeout.name {
                        "read_header" => "header-timeout",
                        "read_body" => "body-timeout",
                        "write" => "send-timeout",
                        "idle" => "idle-timeout",
                        name => {
                            known::report_unread(name, &timeout.origin(), report);
                            continue;
                        }
                    };
                    match duration(timeout.arg(0)) {
                        Some(time) => plan.server.push(PlannedOption::new(name, time, &timeout.origin())),
                        None => report.left_out(
                            &timeout.origin(),
                            "it is no time",
                            format_args!("set `{name}` in [server]"),
                        ),
                    }
                }
            }
            ("protocols", _) => {
                if child.args.iter().any(|arg| arg == "h3") {
                    report.left_out(
                        &origin,
                        "tarpon does not speak HTTP/3 yet",
                        "nothing: clients use HTTP/2",
                    );
                }
                if !child.args.iter().any(|arg| arg == "h2") {
                    set("http2", "off");
                }
            }
            ("client_ip_headers", _)
                if child.args.iter().any(|arg| arg.eq_ignore_ascii_case("x-forwarded-for")) =>
            {
                report.not_needed(&origin, "tarpon reads X-Forwarded-For of trusted proxies");
            }
            ("metrics", _) => report.not_needed(&origin, "the admin listener has metrics: docs/admin.md"),
            (name, _) => known::report_unread(name, &origin, report),
        }
    }
}

/// What `private_ranges` stands for.
pub(super) const PRIVATE: &[&str] =
    &["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];
