//! A block server: hosts, listeners, and redirects of whole hosts.

use super::{
    http::{self, HttpContext},
    location::{self, ReturnValue},
    protection::report_closed,
    report_unread,
    scope::{NginxScope, limit_option},
};
use crate::program::import::{
    path::PathPattern,
    plan::{Given, ImportedSite, PlannedOption, RouteAction, RoutePlan},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
    users::RouteUsers,
};

/// A server block.
#[derive(Debug, Default)]
pub(super) struct NginxServer {
    pub(super) site: ImportedSite,
    /// Options of its listeners, by address.
    pub(super) listeners: Vec<(String, PlannedOption)>,
    /// Options of `[server]`.
    pub(super) server: Vec<PlannedOption>,
    /// Where the server redirects all requests to, but for those of ACME.
    pub(super) redirect: Option<WholeHostRedirect>,
    /// Where conditions on the host redirect to, and the hosts.
    pub(super) conditional: Vec<(String, WholeHostRedirect)>,
    /// What refuses every request.
    pub(super) refused: Option<DirectiveOrigin>,
}

/// A redirect of whole hosts that keeps the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WholeHostRedirect {
    pub(super) to: RedirectedHost,
    pub(super) status: u16,
    pub(super) origin: DirectiveOrigin,
}

/// Where a host redirects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RedirectedHost {
    /// The same host with TLS.
    SameWithTls,
    /// Another host, with this scheme if it names one.
    Other { scheme: Option<&'static str>, host: String },
}

/// Reads a block server. `tls`: directives of TLS of the block around it.
pub(super) fn read(
    directive: &SourceDirective,
    outer: &NginxScope,
    context: &HttpContext,
    tls: &[SourceDirective],
    report: &mut ImportReport,
) -> NginxServer {
    let origin = directive.origin();
    let mut reader = ServerReader {
        context,
        named: Vec::new(),
        server: NginxServer {
            site: ImportedSite { origin: origin.clone(), ..ImportedSite::default() },
            ..NginxServer::default()
        },
        error_paths: Vec::new(),
        health_path: None,
        is_protected: false,
        has_tls: false,
    };
    let mut scope = outer.inner();
    reader.names(directive.children(), report);
    let mut rest = Vec::new();
    let mut proxies = Vec::new();
    for child in directive.children() {
        match &*child.name {
            "listen" | "server_name" | "location" | "ssl" => {}
            "return"
            | "rewrite"
            | "if"
            | "try_files"
            | "ssl_certificate"
            | "ssl_certificate_key"
            | "ssl_protocols"
            | "ssl_client_certificate"
            | "ssl_verify_client" => rest.push(child),
            "proxy_pass" | "fastcgi_pass" => proxies.push(child),
            "set_real_ip_from" | "real_ip_header" | "real_ip_recursive" => {
                http::real_ip(child, &mut reader.server.server, report)
            }
            "limit_conn" => reader.server.server.extend(context.connection_limit(child, report)),
            _ if scope.read(child, context, report) => {}
            _ => match limit_option(child, report) {
                Some(Some(option)) if option.name == "header-timeout" => reader.server.server.push(option),
                Some(option) => reader.server.site.options.extend(option),
                None => report_unread(child, report),
            },
        }
    }
    scope.protection.report_unused(directive.children(), report);
    reader.is_protected = scope.protection.is_closed();
    reader.error_paths = scope.error_pages.iter().map(|(_, page)| page.value.clone()).collect();
    reader.error_paths.push("/404.html".to_owned());
    reader.tls(
        tls.iter().filter(|outer| rest.iter().all(|own| own.name != outer.name)).chain(rest.iter().copied()),
        report,
    );
    let children = directive.children();
    reader.named = children
        .iter()
        .filter(|child| child.name == "location" && child.arg(0).starts_with('@'))
        .cloned()
        .collect();
    let mut whole = RoutePlan::new(&origin, vec![PathPattern::All]);
    for child in rest {
        match &*child.name {
            "return" => match location::host_redirect(child, &reader, &scope) {
                Some(redirect) => reader.server.redirect = Some(redirect),
                None => reader.returned(child, &scope, report),
            },
            "rewrite" => match location::whole_rewrite(child, &reader, &scope) {
                Some(redirect) => reader.server.redirect = Some(redirect),
                None => location::rewrite(child, &mut reader, &scope, &[PathPattern::All], report),
            },
            "if" => reader.condition(child, &scope, report),
            "try_files" => {
                whole.action = location::try_files(child, &mut reader, &scope, &PathPattern::All, report)
            }
            _ => {}
        }
    }
    reader.server.site.root.clone_from(&scope.root);
    for child in children.iter().filter(|child| child.name == "location") {
        location::read(child, &scope, &mut reader, report);
    }
    proxies.iter().for_each(|child| report_unread(child, report));
    reader.finish(scope, whole, report);
    reader.server
}

/// Reads a server; locations add their routes.
pub(super) struct ServerReader<'a> {
    pub(super) context: &'a HttpContext,
    /// Locations with a name.
    pub(super) named: Vec<SourceDirective>,
    pub(super) server: NginxServer,
    /// Paths of error pages.
    pub(super) error_paths: Vec<String>,
    pub(super) health_path: Option<Given>,
    /// Whether the whole server asks for a password, or something like it.
    pub(super) is_protected: bool,
    has_tls: bool,
}

impl ServerReader<'_> {
    /// Returns the scheme of the server's own URLs.
    pub(super) fn scheme(&self) -> &'static str {
        if self.has_tls { "https" } else { "http" }
    }

    /// Returns whether a text is a name of this server.
    pub(super) fn is_own_name(&self, name: &str) -> bool {
        ["$host", "$server_name", "$http_host"].contains(&name)
            || self.server.site.hosts.iter().any(|host| host.value == name)
    }

    fn names(&mut self, children: &[SourceDirective], report: &mut ImportReport) {
        let is_ssl = children.iter().any(|child| child.name == "ssl" && child.arg(0) == "on");
        for child in children {
            let origin = child.origin();
            match &*child.name {
                "listen" => self.listen(child, is_ssl, report),
                "server_name" => child.args.iter().for_each(|name| self.name(name, &origin, report)),
                _ => {}
            }
        }
        if self.server.site.listen.is_empty() {
            let origin = self.server.site.origin.clone();
            self.server.site.listen.push(Given::new(if is_ssl { "tls:80" } else { "80" }, &origin));
            self.has_tls = is_ssl;
        }
    }

    fn name(&mut self, name: &str, origin: &DirectiveOrigin, report: &mut ImportReport) {
        let hosts = &mut self.server.site.hosts;
        match name {
            "_" | "" => {}
            name if name.starts_with('~') => {
                let hint = "write the names, or a wildcard such as *.example.org, into `hosts`";
                report.left_out(
                    origin,
                    format_args!("hosts are names and wildcards, and not expressions such as {name}"),
                    hint,
                );
            }
            name if name.contains('$') => {
                report.left_out(origin, "the name depends on a variable", "write the name into `hosts`")
            }
            name => match name.strip_prefix('.') {
                Some(domain) => {
                    hosts.extend([Given::new(domain, origin), Given::new(format!("*.{domain}"), origin)])
                }
                None => hosts.push(Given::new(name, origin)),
            },
        }
    }

    fn listen(&mut self, directive: &SourceDirective, is_ssl: bool, report: &mut ImportReport) {
        let origin = directive.origin();
        let (address, parameters) =
            directive.args.split_first().map_or(("80", &[][..]), |(first, rest)| (&**first, rest));
        let has = |name: &str| parameters.iter().any(|parameter| parameter == name);
        if has("quic") {
            report.left_out(&origin, "tarpon does not speak HTTP/3 yet", "nothing: clients use HTTP/2");
            return;
        }
        let address = match address {
            address if address.starts_with("unix:") => address.to_owned(),
            address if address.bytes().all(|byte| byte.is_ascii_digit()) => address.to_owned(),
            address => match address.strip_prefix("*:") {
                Some(port) => port.to_owned(),
                // A port is optional.
                None if address.ends_with(']') || !address.contains(':') => format!("{address}:80"),
                None => address.to_owned(),
            },
        };
        let tls = if is_ssl || has("ssl") { "tls:" } else { "" };
        self.has_tls |= !tls.is_empty();
        let value = format!("{tls}{address}");
        if has("default_server") || has("default") {
            self.server.site.default.get_or_insert_with(|| origin.clone());
        }
        if has("proxy_protocol") {
            self.server
                .listeners
                .push((value.clone(), PlannedOption::new("proxy-protocol", "true", &origin)));
        }
        self.server.site.listen.push(Given::new(value, &origin));
        let own = [
            "ssl",
            "http2",
            "spdy",
            "default_server",
            "default",
            "proxy_protocol",
            "deferred",
            "bind",
            "reuseport",
        ];
        for parameter in parameters.iter().filter(|parameter| !own.contains(&&***parameter)) {
            report.not_needed(
                &origin,
                format_args!(
                    "tarpon sets the options of its sockets by itself, such as {}",
                    parameter.split('=').next().unwrap_or_default()
                ),
            );
        }
    }

    fn tls<'d>(&mut self, directives: impl Iterator<Item = &'d SourceDirective>, report: &mut ImportReport) {
        let tls_listeners: Vec<String> = self
            .server
            .site
            .listen
            .iter()
            .map(|given| given.value.clone())
            .filter(|value| value.starts_with("tls:"))
            .collect();
        let mut client_ca: Option<Given> = None;
        let mut verify: Option<Given> = None;
        for directive in directives {
            let origin = directive.origin();
            let value = directive.arg(0);
            match &*directive.name {
                "ssl_certificate" | "ssl_certificate_key"
                    if value.contains('$') || value.starts_with("data:") || value.starts_with("engine:") =>
                {
                    report.left_out(
                        &origin,
                        "certificates and keys are files",
                        "write the path into `tls-cert` and `tls-key`",
                    );
                }
                "ssl_certificate" | "ssl_certificate_key" if tls_listeners.is_empty() => {
                    report.not_needed(&origin, "the server listens without TLS");
                }
                "ssl_certificate" => {
                    self.server.site.options.push(PlannedOption::new("tls-cert", value, &origin))
                }
                "ssl_certificate_key" => {
                    self.server.site.options.push(PlannedOption::new("tls-key", value, &origin))
                }
                "ssl_protocols" => {
                    let has = |version: &str| directive.args.iter().any(|arg| arg == version);
                    let old = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"].into_iter().find(|version| has(version));
                    match old {
                        Some(_) => report.differs(&origin, "clients that speak only TLS 1.1 or older are refused"),
                        None if has("TLSv1.3") && !has("TLSv1.2") => {
                            let option = PlannedOption::new("tls-min-version", "1.3", &origin);
                            self.server.listeners.extend(tls_listeners.iter().map(|address| (address.clone(), option.clone())));
                        }
                        None => report.not_needed(&origin, "tarpon offers TLS 1.2 and 1.3 with the ciphers of rustls, and makes its tickets by itself"),
                    }
                }
                "ssl_client_certificate" => client_ca = Some(Given::new(value, &origin)),
                "ssl_verify_client" if value != "off" => verify = Some(Given::new(value, &origin)),
                _ => {}
            }
        }
        match (verify, client_ca) {
            (Some(verify), Some(ca)) if ["on", "optional"].contains(&&*verify.value) => {
                for address in tls_listeners {
                    let add = |name, value: &str, origin: &DirectiveOrigin| {
                        (address.clone(), PlannedOption::new(name, value, origin))
                    };
                    self.server.listeners.push(add("tls-client-ca", &ca.value, &ca.origin));
                    if verify.value == "optional" {
                        self.server.listeners.push(add("tls-client-auth", "optional", &verify.origin));
                    }
                }
            }
            (Some(verify), _) => {
                self.close(&verify.origin, report);
            }
            (None, Some(ca)) => report.not_needed(&ca.origin, "no client is asked for a certificate"),
            (None, None) => {}
        }
    }

    /// Closes the whole site, as the directive that protects it has no counterpart.
    fn close(&mut self, origin: &DirectiveOrigin, report: &mut ImportReport) {
        report_closed(origin, report);
        let mut route = RoutePlan::new(origin, vec![PathPattern::All]);
        route.limits.push(PlannedOption::new("deny", "all", origin));
        self.server.site.routes.push(route);
    }

    /// Reads `return` of the whole server.
    fn returned(&mut self, directive: &SourceDirective, scope: &NginxScope, report: &mut ImportReport) {
        let origin = directive.origin();
        match location::return_value(directive, self, scope, &PathPattern::All) {
            ReturnValue::Status(_) => self.server.refused = Some(origin),
            ReturnValue::Redirect { to, status } => {
                let route = RoutePlan::new(&origin, vec![PathPattern::All]);
                self.server.site.routes.push(route.with_action(RouteAction::Redirect { to, status }));
            }
            ReturnValue::Text => report.left_out(
                &origin,
                "every response is a file",
                "write the text into a file of the site, and serve it",
            ),
            ReturnValue::Variable(name) => report.left_out(
                &origin,
                format_args!("the target depends on {name}"),
                "write a [[site.redirect]] for each target",
            ),
        }
    }

    /// Reads `if` of a server: redirects of the host and the scheme.
    fn condition(&mut self, directive: &SourceDirective, scope: &NginxScope, report: &mut ImportReport) {
        let condition = directive.args.join(" ");
        let condition = condition.trim().trim_start_matches('(').trim_end_matches(')').trim();
        let words: Vec<&str> = condition.split_whitespace().collect();
        let returned = directive.children().iter().find(|child| child.name == "return");
        let redirect = returned.and_then(|child| location::host_redirect(child, self, scope));
        match (&words[..], redirect) {
            (
                ["$scheme", "=", "http" | "\"http\""]
                | ["$scheme", "!=", "https" | "\"https\""]
                | ["$https", "=", "\"\"" | "off"]
                | ["$https", "!=", "on"]
                | ["$server_port", "=", "80"]
                | ["$ssl_protocol", "=", "\"\""],
                Some(redirect),
            ) if redirect.to == RedirectedHost::SameWithTls => {
                self.server.site.redirect_to_https = Some(redirect.origin);
            }
            (["$https", "="], Some(redirect)) if redirect.to == RedirectedHost::SameWithTls => {
                self.server.site.redirect_to_https = Some(redirect.origin);
            }
            (["$host" | "$http_host" | "$server_name", "=", host], Some(redirect)) => {
                self.server.conditional.push(((*host).to_owned(), redirect));
            }
            _ => {
                let children: Vec<&str> = directive.children().iter().map(|child| &*child.name).collect();
                let why =
                    format!("tarpon has no condition such as ({condition}) for {}", children.join(", "));
                report.left_out(
                    &directive.origin(),
                    why,
                    "write a rule for the path or the host: docs/rules.md",
                );
            }
        }
    }

    /// Adds what the block has for all paths.
    fn finish(&mut self, scope: NginxScope, mut whole: RoutePlan, report: &mut ImportReport) {
        let site = &mut self.server.site;
        whole.headers.clone_from(&scope.headers);
        whole.cache = scope.effective_cache();
        whole.listings.clone_from(&scope.listings);
        // A location for all paths has its own users; only expressions inherit those of the server.
        let is_replaced = |route: &RoutePlan| {
            route.paths == [PathPattern::All] && !matches!(route.users, RouteUsers::Inherit)
        };
        let is_needed = |route: &RoutePlan| route.is_expression && route.has_inherited_users;
        if site.routes.iter().any(is_needed) || !site.routes.iter().any(is_replaced) {
            whole.users = scope.users(self.context, report);
        }
        whole.limits.extend(match whole.users.are_protected() {
            true => scope.own_rates(),
            false => scope.own_limits(report),
        });
        site.options.extend(scope.own_access_log().iter().cloned());
        if scope.index.iter().map(|given| &*given.value).ne(["index.html"]) {
            let index = scope.index.iter().map(|given| PlannedOption { name: "index", given: given.clone() });
            if site.options.iter().all(|option| option.name != "index") {
                site.options.extend(index);
            }
        }
        if let (Some(fallback), RouteAction::Options) = (&scope.fallback, &whole.action) {
            whole.action = RouteAction::Fallback { file: fallback.value.clone() };
            whole.origin = fallback.origin.clone();
        }
        site.routes.push(whole);
        let unknown = |status: &u16| !PAGE_STATUSES.contains(status);
        for (status, page) in scope.error_pages {
            match unknown(&status) {
                true => report.left_out(
                    &page.origin,
                    format_args!("tarpon itself sends no {status}"),
                    "let the server behind send its page",
                ),
                false => site.error_pages.push((status, page)),
            }
        }
        if let Some(path) = self.health_path.take() {
            self.server.server.push(PlannedOption { name: "health-path", given: path });
        }
    }
}

/// Statuses that have a page.
const PAGE_STATUSES: &[u16] =
    &[400, 403, 404, 405, 408, 411, 412, 413, 414, 416, 417, 421, 429, 431, 500, 501, 502, 503, 504, 505];
