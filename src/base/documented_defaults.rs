//! The documentation of each field of the settings tells its default, and the true one.

use super::{
    admin_access::AdminAccess,
    cgi_config::{CgiConfig, SiteCgi},
    log_config::{LogConfig, Logging, Rotation, SiteLogConfig},
    settings::{Settings, SiteLimits},
    site_config::{SiteConfig, SiteSource, UserConfig, UserDirectories},
    socket_access::SocketAccess,
    tls_config::{ServiceTls, TlsPolicy},
    upstream_config::{HealthCheck, UpstreamConfig, UpstreamFastCgi, UpstreamTls},
};
use std::{any::type_name, collections::BTreeMap, fmt::Debug};

#[test]
fn each_default_is_documented() {
    const SITE: &str = include_str!("site_config.rs");
    const LOG: &str = include_str!("log_config.rs");
    const UPSTREAM: &str = include_str!("upstream_config.rs");
    check(include_str!("settings.rs"), &Settings::default());
    check(include_str!("settings.rs"), &SiteLimits::default());
    check(LOG, &Logging::default());
    check(LOG, &Rotation::default());
    check(LOG, &LogConfig::default());
    check(LOG, &SiteLogConfig::default());
    check(SITE, &SiteConfig::default());
    check(SITE, &SiteSource::default());
    check(SITE, &UserDirectories::default());
    check(SITE, &UserConfig::default());
    check(include_str!("cgi_config.rs"), &CgiConfig::default());
    check(include_str!("cgi_config.rs"), &SiteCgi::default());
    check(UPSTREAM, &UpstreamConfig::default());
    check(UPSTREAM, &HealthCheck::default());
    check(UPSTREAM, &UpstreamTls::default());
    check(UPSTREAM, &UpstreamFastCgi::default());
    check(include_str!("socket_access.rs"), &SocketAccess::default());
    check(include_str!("admin_access.rs"), &AdminAccess::default());
    check(include_str!("tls_config.rs"), &TlsPolicy::default());
    check(include_str!("tls_config.rs"), &ServiceTls::default());
}

/// Compares the documentation of a struct in its source with its default.
fn check<T: Debug>(source: &str, default: &T) {
    let name = type_name::<T>().rsplit("::").next().unwrap_or_default();
    let (_, body) = source.split_once(&format!("pub struct {name} {{\n")).expect(name);
    let (body, _) = body.split_once("\n}\n").expect(name);
    let debug = format!("{default:#?}");
    let values: BTreeMap<_, _> =
        debug.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": ")).collect();
    let mut docs = String::new();
    for line in body.lines() {
        match line.trim_start() {
            text if text.starts_with("///") => {
                docs += text;
                docs += "\n";
            }
            text if text.starts_with("pub ") => {
                let (field, _) = text["pub ".len()..].split_once(':').expect("a field");
                let (_, documented) = docs.split_once("Default: ").unwrap_or_else(|| {
                    panic!("{name}::{field}: end its documentation with its default: \"Default: 10 s.\"")
                });
                let (documented, _) = documented.split_once(".\n").expect("the end of a line");
                let value = values[field].trim_end_matches(',');
                let value = if value.ends_with('(') { "Some" } else { value };
                assert!(
                    is_same(documented, value),
                    "{name}::{field}: {documented} is documented, not {value}"
                );
                docs.clear();
            }
            _ => {}
        }
    }
}

/// Returns whether a documented default is this value, as `Debug` writes it.
fn is_same(documented: &str, value: &str) -> bool {
    let quoted = documented.trim_matches('`');
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let (count, unit) = documented.split_once(' ').unwrap_or((documented, ""));
    match (number(count.trim_end_matches(',')), unit) {
        (Some(count), "s") => value == format!("{count}s") || count == 0 && value == "0ns",
        (Some(count), "h") => value == format!("{}s", count * 3_600),
        (Some(count), "MiB") => value == (count << 20).to_string(),
        (Some(count), "GiB") => value == (count << 30).to_string(),
        (Some(count), _) => value == count.to_string(),
        (None, _) if documented.starts_with("0o") => {
            u64::from_str_radix(&documented[2..], 8).is_ok_and(|mode| value == mode.to_string())
        }
        // A value of several lines, which has documentation of its own.
        (None, _) if value.ends_with('{') => !documented.starts_with('`'),
        _ if matches!(documented, "none" | "empty") => matches!(value, "[]" | "\"\"" | "{}"),
        _ if documented.starts_with('[') => true,
        _ if documented.starts_with('`') => {
            value.trim_matches('"') == quoted.rsplit("::").next().unwrap_or(quoted)
        }
        _ => true,
    }
}
