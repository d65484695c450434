//! The addresses of a site: hosts, listeners, certificates.

use super::global::GlobalOptions;
use crate::program::import::{
    plan::{Given, ImportedSite},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
};
use std::net::IpAddr;

/// How a site gets its certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteTls {
    /// `tls` names files.
    pub(super) has_files: bool,
    /// `tls internal`.
    pub(super) is_internal: bool,
}

/// Sets hosts and listeners of a site. Returns whether it needs a certificate that the server makes by itself.
pub(super) fn read(
    directive: &SourceDirective,
    tls: SiteTls,
    bind: &[String],
    options: &GlobalOptions,
    site: &mut ImportedSite,
    report: &mut ImportReport,
) -> bool {
    let origin = directive.origin();
    let bind = if bind.is_empty() { &options.default_bind } else { bind };
    let mut needs_own = false;
    let words = [&directive.name].into_iter().chain(&directive.args);
    for address in words.flat_map(|word| word.split(',')).map(str::trim).filter(|address| !address.is_empty())
    {
        let Some(CaddyAddress { scheme, host, port }) = parse(address) else {
            report.left_out(
                &origin,
                format_args!("tarpon knows no address such as {address}"),
                "write host names into `hosts`, and ports into a [[listener]]",
            );
            continue;
        };
        let is_http = scheme == Some("http")
            || port == Some(options.http_port)
            || (scheme.is_none()
                && host.is_empty()
                && port != Some(options.https_port)
                && !tls.has_files
                && !tls.is_internal);
        let is_local = is_local_name(&host) || options.is_local || tls.is_internal;
        let uses_tls =
            !is_http && (options.obtains || tls.has_files || tls.is_internal || scheme == Some("https"));
        let port = port.unwrap_or(if uses_tls { options.https_port } else { options.http_port });
        let listen = |port: u16, prefix: &str| -> Vec<Given> {
            match bind.is_empty() {
                true => vec![Given::new(format!("{prefix}{port}"), &origin)],
                false => bind
                    .iter()
                    .map(|address| Given::new(format!("{prefix}{}", bound(address, port)), &origin))
                    .collect(),
            }
        };
        site.listen.extend(listen(port, if uses_tls { "tls:" } else { "" }));
        if uses_tls && options.redirects && port == options.https_port {
            site.listen.extend(listen(options.http_port, ""));
            site.redirect_to_https = Some(origin.clone());
        }
        if host.is_empty() {
            site.default = Some(origin.clone());
            needs_own |= uses_tls && !tls.has_files;
            continue;
        }
        let given = Given::new(&*host, &origin);
        match uses_tls && !is_local && !tls.has_files && options.obtains {
            true if host.starts_with('*') && !options.proves_by_dns => {
                let hint = "write it into `domain`, and set acme-challenge = \"dns-01\" and acme-dns-hook in [server]: docs/acme.md";
                report.left_out(
                    &origin,
                    format_args!("a certificate for {host} needs a record of DNS"),
                    hint,
                );
                site.hosts.push(given);
                needs_own = true;
            }
            true => site.domains.push(given),
            false => {
                needs_own |= uses_tls && !tls.has_files;
                site.hosts.push(given);
            }
        }
    }
    needs_own
}

struct CaddyAddress {
    scheme: Option<&'static str>,
    host: String,
    port: Option<u16>,
}

fn parse(address: &str) -> Option<CaddyAddress> {
    let (scheme, rest) = match address.split_once("://") {
        Some(("http", rest)) => (Some("http"), rest),
        Some(("https", rest)) => (Some("https"), rest),
        Some(_) => return None,
        None => (None, address),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '{', '}', '"']) {
        return None;
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
        _ => (rest, None),
    };
    Some(CaddyAddress { scheme, host: host.to_ascii_lowercase(), port })
}

/// Returns whether no directory issues certificates for a name.
fn is_local_name(host: &str) -> bool {
    let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_address
        || host == "localhost"
        || [".localhost", ".local", ".internal", ".home.arpa"].iter().any(|end| host.ends_with(end))
}

fn bound(address: &str, port: u16) -> String {
    match address.strip_prefix("unix/") {
        Some(path) => format!("unix:{}", path.split('|').next().unwrap_or_default()),
        None if address.contains(':') && !address.starts_with('[') => format!("[{address}]:{port}"),
        None => format!("{address}:{port}"),
    }
}

/// Reports that a site has a certificate that no client trusts.
pub(super) fn report_own(origin: &DirectiveOrigin, report: &mut ImportReport) {
    report.differs(
        origin,
        "the certificate is self-signed, and made at each start: docs/https.md#for-development",
    );
}
