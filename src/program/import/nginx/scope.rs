//! Directives that inner blocks inherit.
//!
//! ```text
//! http ─▶ server ─▶ location ─▶ location      each starts with the scope of its outer block
//! ```
//!
//! A list, such as that of `add_header`, begins anew in a block that has the directive.

use super::{
    http::HttpContext,
    protection::NginxProtection,
    proxy::{ProxyScope, nginx_size},
};
use crate::program::import::{
    plan::{Given, PlannedOption, duration, milliseconds},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
    users::RouteUsers,
};
use std::collections::BTreeMap;

/// The own and inherited directives of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct NginxScope {
    pub(super) root: Option<Given>,
    pub(super) index: Vec<Given>,
    /// Lines of headers other than Cache-Control.
    pub(super) headers: Vec<Given>,
    pub(super) cache: Vec<Given>,
    pub(super) listings: Option<Given>,
    pub(super) access_log: Vec<PlannedOption>,
    /// Whether an address is allowed, and the address, in order.
    access: Vec<(bool, Given)>,
    rate: Vec<PlannedOption>,
    send_rate: Option<PlannedOption>,
    pub(super) protection: NginxProtection,
    pub(super) error_pages: Vec<(u16, Given)>,
    /// An `error_page` that answers with a page and status 200.
    pub(super) fallback: Option<Given>,
    pub(super) max_body: Option<Given>,
    pub(super) proxy: ProxyScope,
    pub(super) variables: BTreeMap<String, String>,
    /// The lists that began in this block.
    own: OwnLists,
}

/// Lists that a block does not inherit, as it has its own.
#[derive(Clone, Copy, Debug, Default)]
struct OwnLists {
    index: bool,
    headers: bool,
    cache: bool,
    access: bool,
    rate: bool,
    send_rate: bool,
    listings: bool,
    access_log: bool,
    error_pages: bool,
}

/// The header of `ssl_…` and similar that is no header of a response.
const CACHE_CONTROL: &str = "cache-control";

impl NginxScope {
    /// Returns the scope of an inner block.
    pub(super) fn inner(&self) -> NginxScope {
        let protection = self.protection.inner();
        let mut inner = NginxScope { own: OwnLists::default(), protection, ..self.clone() };
        inner.proxy.enter();
        inner
    }

    pub(super) fn own_headers(&self) -> &[Given] {
        if self.own.headers { &self.headers } else { &[] }
    }

    pub(super) fn has_own_headers(&self) -> bool {
        self.own.headers
    }

    /// Returns the value of Cache-Control that this block sets.
    pub(super) fn own_cache(&self) -> Option<Given> {
        self.effective_cache().filter(|_| self.own.cache)
    }

    /// Returns the value of Cache-Control that this block has or inherits.
    pub(super) fn effective_cache(&self) -> Option<Given> {
        let first = self.cache.first()?;
        let values: Vec<&str> = self.cache.iter().map(|given| given.value.as_str()).collect();
        Some(Given { value: values.join(", "), origin: first.origin.clone() })
    }

    pub(super) fn own_listings(&self) -> Option<Given> {
        self.listings.clone().filter(|_| self.own.listings)
    }

    pub(super) fn own_access_log(&self) -> &[PlannedOption] {
        if self.own.access_log { &self.access_log } else { &[] }
    }

    /// Returns the limits that this block sets: addresses and rates.
    pub(super) fn own_limits(&self, report: &mut ImportReport) -> Vec<PlannedOption> {
        let mut limits = Vec::new();
        if self.own.access {
            limits.extend(access_options(&self.access, report));
        }
        limits.extend(self.own_rates());
        limits
    }

    /// Returns `allow` and `deny` that this block has or inherits.
    pub(super) fn effective_addresses(&self, report: &mut ImportReport) -> Vec<PlannedOption> {
        access_options(&self.access, report)
    }

    /// Returns the rates that this block sets.
    pub(super) fn own_rates(&self) -> Vec<PlannedOption> {
        let mut limits = Vec::new();
        if self.own.rate {
            limits.extend(self.rate.iter().cloned());
        }
        if self.own.send_rate {
            limits.extend(self.send_rate.clone());
        }
        limits
    }

    /// Returns whether no directive here or around keeps clients out.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.access.is_empty() && !self.protection.is_closed()
    }

    /// Returns the clients that may read the paths of this block, as far as passwords decide.
    pub(super) fn users(&self, context: &HttpContext, report: &mut ImportReport) -> RouteUsers {
        let addresses = match self.protection.is_closed() {
            true => self.effective_addresses(report),
            false => Vec::new(),
        };
        self.protection.users(addresses, |text| self.literal(text), context, report)
    }

    /// Returns whether the block denies every client, and the directive that does.
    pub(super) fn denies_all(&self) -> Option<DirectiveOrigin> {
        match &self.access[..] {
            [(false, given)] if self.own.access && given.value == "all" => Some(given.origin.clone()),
            _ => None,
        }
    }

    /// Reads a directive that http, server and location may have. Returns whether it is one.
    pub(super) fn read(
        &mut self,
        directive: &SourceDirective,
        context: &HttpContext,
        report: &mut ImportReport,
    ) -> bool {
        let origin = directive.origin();
        let given = |value: &str| Given::new(value, &origin);
        match &*directive.name {
            "root" => match self.literal(directive.arg(0)) {
                Some(path) => self.root = Some(given(&path)),
                None => report.left_out(
                    &origin,
                    "the directory depends on a variable",
                    "write a [[site]] with `path` for each directory",
                ),
            },
            "index" => {
                if !std::mem::replace(&mut self.own.index, true) {
                    self.index.clear();
                }
                for name in &directive.args {
                    match self.literal(name) {
                        // PHP files are no pages of the site.
                        Some(name) if name.ends_with(".php") => {}
                        Some(name) => self.index.push(given(name.trim_start_matches('/'))),
                        None => report.left_out(
                            &origin,
                            "the name depends on a variable",
                            "write the names into `index`",
                        ),
                    }
                }
            }
            "add_header" => self.add_header(directive, report),
            "expires" => self.expires(directive, report),
            "autoindex" => {
                self.own.listings = true;
                self.listings = Some(given(if directive.arg(0) == "on" { "true" } else { "false" }));
            }
            "access_log" => self.access_log(directive, context, report),
            "allow" | "deny" => {
                if !std::mem::replace(&mut self.own.access, true) {
                    self.access.clear();
                }
                let address = if directive.arg(0) == "unix:" { "unix" } else { directive.arg(0) };
                self.access.push((directive.name == "allow", given(address)));
            }
            "limit_req" => self.limit_req(directive, context, report),
            "limit_rate" => match nginx_size(directive.arg(0)) {
                Some(rate) => {
                    self.own.send_rate = true;
                    self.send_rate = Some(PlannedOption::new("max-send-rate", rate, &origin));
                }
                None => report.left_out(
                    &origin,
                    "its rate depends on the request",
                    "set max-send-rate in [[site.limit]]: docs/limits.md",
                ),
            },
            "error_page" => self.error_page(directive, report),
            "client_max_body_size" => self.max_body = Some(given(directive.arg(0))),
            "set" => match (directive.arg(0).strip_prefix('$'), self.literal(directive.arg(1))) {
                (Some(name), Some(value)) => drop(self.variables.insert(name.to_owned(), value)),
                _ => return false,
            },
            _ if self.protection.read(directive) => {}
            _ => return self.proxy.read(directive, report),
        }
        true
    }

    /// Returns a text with the variables that have a fixed value. `None`: it has others.
    pub(super) fn literal(&self, text: &str) -> Option<String> {
        let mut to = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            to += &rest[..at];
            let name = &rest[at + 1..];
            let (name, behind) = match name.strip_prefix('{') {
                Some(name) => name.split_once('}')?,
                None => name.split_at(
                    name.find(|char: char| !char.is_ascii_alphanumeric() && char != '_')
                        .unwrap_or(name.len()),
                ),
            };
            to += self.variables.get(name)?;
            rest = behind;
            if to.len() > VALUE_LEN_MAX {
                return None;
            }
        }
        Some(to + rest)
    }

    fn add_header(&mut self, directive: &SourceDirective, report: &mut ImportReport) {
        let origin = directive.origin();
        if !std::mem::replace(&mut self.own.headers, true) {
            self.headers.clear();
        }
        let (name, value) = (directive.arg(0), directive.arg(1));
        let Some(value) = self.literal(value) else {
            let hint = "write the value into [[site.header]], or let the server behind send it";
            report.left_out(&origin, format_args!("the value of {name} depends on a variable"), hint);
            return;
        };
        match &*name.to_ascii_lowercase() {
            CACHE_CONTROL => {
                if !std::mem::replace(&mut self.own.cache, true) {
                    self.cache.clear();
                }
                self.cache.push(Given::new(value, &origin));
            }
            "x-content-type-options" => {
                report.not_needed(&origin, "tarpon sends X-Content-Type-Options: nosniff")
            }
            "alt-svc" => {
                report.left_out(&origin, "tarpon does not speak HTTP/3 yet", "nothing: clients use HTTP/2")
            }
            "vary" if value.eq_ignore_ascii_case("accept-encoding") => {
                report.not_needed(&origin, "tarpon sends Vary for each file that has several encodings");
            }
            "pragma" => report.not_needed(&origin, "Cache-Control replaces it since HTTP/1.1"),
            // An empty value: nginx sends no header.
            _ if value.is_empty() => report.not_needed(&origin, "its value is empty"),
            _ => self
                .headers
                .push(Given::new(format!("{name}: {}", value.replace(['\n', '\r', '\t'], " ")), &origin)),
        }
    }

    fn expires(&mut self, directive: &SourceDirective, report: &mut ImportReport) {
        let origin = directive.origin();
        let value = match directive.arg(0) {
            "off" => {
                self.own.cache = true;
                self.cache.clear();
                return;
            }
            "max" => Some("max-age=315360000".to_owned()),
            "epoch" => Some("no-cache".to_owned()),
            text if text.starts_with('-') => Some("no-cache".to_owned()),
            text if directive.args.len() == 1 => {
                milliseconds(text.trim_start_matches('+')).map(|ms| format!("max-age={}", ms / 1000))
            }
            _ => None,
        };
        let Some(value) = value else {
            let hint = "write the value for each kind of file into `cache` of a [[site.location]]";
            report.left_out(&origin, "the time depends on a variable or on the file", hint);
            return;
        };
        if !std::mem::replace(&mut self.own.cache, true) {
            self.cache.clear();
        }
        self.cache.insert(0, Given::new(value, &origin));
    }

    fn access_log(&mut self, directive: &SourceDirective, context: &HttpContext, report: &mut ImportReport) {
        let origin = directive.origin();
        let target = directive.arg(0);
        if !self.access_log.is_empty() && self.own.access_log {
            report.left_out(
                &origin,
                "a site has one access log",
                "copy the log behind tarpon, as with journald or vector",
            );
            return;
        }
        let path = match target {
            "off" => "off".to_owned(),
            "/dev/stdout" | "/dev/stderr" | "/proc/self/fd/1" => "-".to_owned(),
            target if target.contains('$') || target.starts_with("syslog:") => {
                let hint = "set `access-log` to a file, or to unix:PATH for the socket of a log daemon";
                report.left_out(&origin, "tarpon logs to a file, to standard output or to a socket", hint);
                return;
            }
            target => target.to_owned(),
        };
        self.own.access_log = true;
        self.access_log = vec![PlannedOption::new("access-log", path, &origin)];
        let format =
            directive.args.get(1).map(String::as_str).filter(|arg| !arg.contains('=') && *arg != "gzip");
        match format.map(|name| (name, context.log_format(name))) {
            None | Some(("combined", _) | (_, Some("combined"))) => {}
            Some((_, Some(format))) => {
                self.access_log.push(PlannedOption::new("access-log-format", format, &origin))
            }
            Some((name, None)) => {
                report.differs(
                    &origin,
                    format_args!(
                        "the log has the Combined format, in place of {name}; `access-log-format` has others"
                    ),
                );
            }
        }
        for arg in directive.args.iter().skip(1).filter(|arg| arg.starts_with("if=")) {
            report.left_out(
                &origin,
                format_args!("no condition such as {arg} chooses requests"),
                "set access-log = \"off\" in a [[site.location]]",
            );
        }
    }

    fn limit_req(&mut self, directive: &SourceDirective, context: &HttpContext, report: &mut ImportReport) {
        let origin = directive.origin();
        let value =
            |name: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        let Some(rate) = value("zone").and_then(|zone| context.request_zones.get(zone)) else {
            let hint = "set `request-rate` in [[site.limit]]: docs/limits.md";
            report.left_out(&origin, "its zone does not count requests by the address of the client", hint);
            return;
        };
        if std::mem::replace(&mut self.own.rate, true) {
            report.left_out(&origin, "one rate counts for a path", "see docs/limits.md");
            return;
        }
        let burst = value("burst").and_then(|burst| burst.parse::<u32>().ok()).unwrap_or(0).saturating_add(1);
        self.rate = vec![
            PlannedOption::new("request-rate", &**rate, &origin),
            PlannedOption::new("request-burst", burst.to_string(), &origin),
        ];
        if burst > 1 && !directive.args.iter().any(|arg| arg == "nodelay") {
            report.differs(&origin, "a request over the rate gets 429 at once, and is not delayed");
        }
    }

    fn error_page(&mut self, directive: &SourceDirective, report: &mut ImportReport) {
        let origin = directive.origin();
        let Some((page, codes)) = directive.args.split_last() else { return };
        if !std::mem::replace(&mut self.own.error_pages, true) {
            self.error_pages.clear();
            self.fallback = None;
        }
        let (codes, answer): (Vec<&String>, Vec<&String>) =
            codes.iter().partition(|code| !code.starts_with('='));
        let codes: Vec<u16> = codes.iter().filter_map(|code| code.parse().ok()).collect();
        if !page.starts_with('/') || page.contains('$') {
            let hint = "write the page as a file of the site, and name it in a [[site.error-page]]";
            report.left_out(&origin, "an error page of tarpon is a file of the site", hint);
            return;
        }
        if answer.first().is_some_and(|answer| *answer == "=200") && codes.contains(&404) {
            self.fallback = Some(Given::new(page.as_str(), &origin));
            return;
        }
        if !answer.is_empty() {
            report.differs(&origin, "an error page keeps the status of the error");
        }
        for code in codes {
            // The nearest 404.html answers without an option.
            if (code, page.as_str()) != (404, "/404.html") {
                self.error_pages.push((code, Given::new(page.as_str(), &origin)));
            }
        }
    }
}

/// The longest text that variables may make.
const VALUE_LEN_MAX: usize = 64 << 10;

/// Returns the options for addresses. In nginx the first that matches decides, in tarpon the most specific.
fn access_options(access: &[(bool, Given)], report: &mut ImportReport) -> Vec<PlannedOption> {
    // Those behind `all` never match.
    let end = access.iter().position(|(_, given)| given.value == "all").map_or(access.len(), |at| at + 1);
    let access = &access[..end];
    let contradicts = |at: usize| {
        let (allows, given) = &access[at];
        // A network that contains a later one of the other kind decides in nginx, and not in tarpon.
        access[at + 1..].iter().any(|(other, later)| other != allows && contains(&given.value, &later.value))
    };
    let allows_none = |origin: &DirectiveOrigin| vec![PlannedOption::new("deny", "all", origin)];
    let Some((_, first)) = access.first() else { return Vec::new() };
    if let Some(at) = (0..access.len()).find(|&at| contradicts(at)) {
        let hint = "these paths are closed until you write `allow` and `deny`: docs/limits.md";
        report.left_out(
            &access[at].1.origin,
            "the order of the addresses decides in nginx, and in tarpon the most specific one",
            hint,
        );
        return allows_none(&first.origin);
    }
    let is_default = |(allows, given): &(bool, Given)| given.value == "all" && *allows;
    let has_allow = access.iter().any(|(allows, given)| *allows && given.value != "all");
    let denies_rest = access.last().is_some_and(|(allows, given)| !allows && given.value == "all");
    let mut options: Vec<PlannedOption> = Vec::new();
    for entry in access {
        let (allows, given) = entry;
        // `allow` alone denies all others, and `deny` alone allows them.
        if given.value == "all" && (*allows || has_allow) && !(is_default(entry) && has_allow) {
            continue;
        }
        options.push(PlannedOption { name: if *allows { "allow" } else { "deny" }, given: given.clone() });
    }
    // Addresses that are in no list are allowed in nginx.
    if has_allow && !denies_rest && !access.iter().any(is_default) {
        options.push(PlannedOption::new("allow", "all", &first.origin));
    }
    options
}

/// Returns whether a network contains another one, in a simple form: `all`, the same text, or the same first bits.
fn contains(outer: &str, inner: &str) -> bool {
    let parse = |text: &str| -> Option<(Vec<u8>, usize)> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let bytes = match address.parse::<std::net::IpAddr>().ok()? {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        };
        let len = len.map_or(Some(bytes.len() * 8), |len| len.parse().ok())?;
        (len <= bytes.len() * 8).then_some((bytes, len))
    };
    if outer == "all" || outer == inner {
        return true;
    }
    let (Some((outer, len)), Some((inner, inner_len))) = (parse(outer), parse(inner)) else { return false };
    outer.len() == inner.len()
        && len <= inner_len
        && (0..len).all(|bit| (outer[bit / 8] ^ inner[bit / 8]) & (0x80 >> (bit % 8)) == 0)
}

/// Returns the option of tarpon for a limit of time or number. `None`: the directive is none.
pub(super) fn limit_option(
    directive: &SourceDirective,
    report: &mut ImportReport,
) -> Option<Option<PlannedOption>> {
    let origin = directive.origin();
    let name = match &*directive.name {
        "client_header_timeout" => "header-timeout",
        "client_body_timeout" => "body-timeout",
        "send_timeout" => "send-timeout",
        "keepalive_timeout" => "idle-timeout",
        "keepalive_requests" => "keepalive-requests",
        _ => return None,
    };
    let value = match name {
        "keepalive-requests" => Some(directive.arg(0).to_owned()),
        _ => duration(directive.arg(0)),
    };
    if value.is_none() {
        let hint = format!("set `{name}` to a time, such as \"30s\"");
        report.left_out(&origin, format_args!("it is no time that tarpon has: {}", directive.arg(0)), hint);
    }
    Some(value.map(|value| PlannedOption::new(name, value, &origin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn addresses_become_lists_of_the_same_meaning() {
        let cases: &[(&str, &str)] = &[
            // nginx                                          tarpon
            ("deny all",                                      "deny all"),
            ("allow all",                                     ""),
            ("allow 10.0.0.0/8, deny all",                    "allow 10.0.0.0/8"),
            ("deny 192.0.2.1",                                "deny 192.0.2.1"),
            ("deny 192.0.2.1, allow all",                     "deny 192.0.2.1"),
            ("deny 10.1.0.0/16, allow 10.0.0.0/8, deny all",  "deny 10.1.0.0/16, allow 10.0.0.0/8"),
            ("allow 192.0.2.7, deny 192.0.2.0/24",            "allow 192.0.2.7, deny 192.0.2.0/24, allow all"),
            ("allow 192.0.2.7, deny 192.0.2.0/24, allow all", "allow 192.0.2.7, deny 192.0.2.0/24, allow all"),
            ("allow ::1, allow unix, deny all",               "allow ::1, allow unix"),
            // In nginx the first one counts, so the second never does.
            ("allow 10.0.0.0/8, deny 10.1.0.0/16",            "deny all"),
            ("deny all, allow 10.0.0.0/8",                    "deny all"),
        ];
        for (text, want) in cases {
            let access: Vec<_> = text.split(", ").map(|entry| {
                let (kind, address) = entry.split_once(' ').expect("two words");
                (kind == "allow", Given::new(address, &DirectiveOrigin::default()))
            }).collect();
            let options = access_options(&access, &mut ImportReport::default());
            let found: Vec<_> = options.iter().map(|option| format!("{} {}", option.name, option.given.value)).collect();
            assert_eq!(found.join(", "), *want, "{text}");
        }
    }
}
