//! The sites of another server, in a form that nginx and Caddy share.

use super::{path::PathPattern, source::DirectiveOrigin, users::RouteUsers};

/// A value with the directive that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) value: String,
    pub(super) origin: DirectiveOrigin,
}

/// An option of tarpon with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedOption {
    pub(super) name: &'static str,
    pub(super) given: Given,
}

/// All sites, and what they share.
#[derive(Debug, Default)]
pub(super) struct ServicePlan {
    pub(super) server: Vec<PlannedOption>,
    pub(super) log: Vec<PlannedOption>,
    /// Options of listeners, by address.
    pub(super) listeners: Vec<(String, PlannedOption)>,
    pub(super) sites: Vec<ImportedSite>,
}

/// A site with its paths.
#[derive(Clone, Debug, Default)]
pub(super) struct ImportedSite {
    pub(super) origin: DirectiveOrigin,
    /// Lines above the section.
    pub(super) comments: Vec<String>,
    pub(super) hosts: Vec<Given>,
    /// Hosts for which tarpon obtains certificates.
    pub(super) domains: Vec<Given>,
    pub(super) redirect_hosts: Vec<Given>,
    /// Addresses of listeners, with `tls:` in front of those with TLS.
    pub(super) listen: Vec<Given>,
    pub(super) default: Option<DirectiveOrigin>,
    pub(super) redirect_to_https: Option<DirectiveOrigin>,
    pub(super) root: Option<Given>,
    pub(super) options: Vec<PlannedOption>,
    pub(super) routes: Vec<RoutePlan>,
    /// Statuses with their pages.
    pub(super) error_pages: Vec<(u16, Given)>,
}

/// What a site does for some paths.
#[derive(Clone, Debug, Default)]
pub(super) struct RoutePlan {
    pub(super) origin: DirectiveOrigin,
    pub(super) paths: Vec<PathPattern>,
    pub(super) action: RouteAction,
    /// Lines of headers, as in `X-A: 1`.
    pub(super) headers: Vec<Given>,
    /// Names of headers that are left out of responses.
    pub(super) removed_headers: Vec<Given>,
    pub(super) cache: Option<Given>,
    pub(super) listings: Option<Given>,
    pub(super) access_log: Option<Given>,
    /// Whether no directive keeps clients out, not even one of a block around it.
    pub(super) is_open: bool,
    /// `allow`, `deny`, `request-rate` and `request-burst`.
    pub(super) limits: Vec<PlannedOption>,
    /// The clients that may read the paths, as far as passwords decide.
    pub(super) users: RouteUsers,
    /// Whether the users are those of the block around it.
    pub(super) has_inherited_users: bool,
    /// The directive that lets all clients in although a block around it does not.
    pub(super) opened_by: Option<DirectiveOrigin>,
    /// Whether the block counts before those with longer prefixes, as an expression does in nginx.
    pub(super) is_expression: bool,
    /// Whether the block counts before expressions.
    pub(super) is_preferred: bool,
    /// Whether clients must pass the directives of shorter paths, too, as in Caddy.
    pub(super) is_layered: bool,
    /// Whether the directive counts for blocks within its paths that have a directory of their own.
    pub(super) counts_in_mounts: bool,
}

/// What answers the paths of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum RouteAction {
    /// Whatever the site has: the route only sets options.
    #[default]
    Options,
    /// The files of the site, or those of a directory that stands for the paths.
    Files(Option<Given>),
    /// Upstream servers.
    Proxy {
        upstream: ImportedUpstream,
        /// What takes the place of the path.
        base: Option<String>,
    },
    /// A redirect.
    Redirect { to: String, status: u16 },
    /// A file of the site in place of a missing one.
    Fallback { file: String },
    /// A file of the site, whatever is at the path.
    Rewrite { file: String },
    /// 403.
    Closed,
}

/// Upstream servers with their options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedUpstream {
    pub(super) name: String,
    pub(super) servers: Vec<Given>,
    pub(super) options: Vec<PlannedOption>,
    pub(super) origin: DirectiveOrigin,
}

impl Given {
    pub(super) fn new(value: impl Into<String>, origin: &DirectiveOrigin) -> Given {
        Given { value: value.into(), origin: origin.clone() }
    }
}

impl PlannedOption {
    pub(super) fn new(
        name: &'static str,
        value: impl Into<String>,
        origin: &DirectiveOrigin,
    ) -> PlannedOption {
        PlannedOption { name, given: Given::new(value, origin) }
    }
}

impl RoutePlan {
    pub(super) fn new(origin: &DirectiveOrigin, paths: Vec<PathPattern>) -> RoutePlan {
        RoutePlan { origin: origin.clone(), paths, ..RoutePlan::default() }
    }

    #[must_use]
    pub(super) fn with_action(self, action: RouteAction) -> RoutePlan {
        RoutePlan { action, ..self }
    }
}

/// Returns the whole seconds of a time as tarpon writes it. `None`: it is no time of nginx or Caddy, such as `1d12h`, `90`, `500ms`.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = [
            ("ms", 1),
            ("s", 1000),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", 86_400_000),
            ("w", 604_800_000),
            ("M", 2_592_000_000),
            ("y", 31_536_000_000),
        ];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest.starts_with(unit)).unwrap_or(("", 1000));
        if unit.is_empty() && !rest.is_empty() {
            return None;
        }
        rest = rest[unit.len()..].trim_start();
        total = total.checked_add(number.checked_mul(factor)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// Returns a time in the form of tarpon.
pub(super) fn duration(text: &str) -> Option<String> {
    match milliseconds(text)? {
        0 => None,
        ms if ms % 1000 == 0 => Some(format!("{}s", ms / 1000)),
        ms => Some(format!("{ms}ms")),
    }
}
