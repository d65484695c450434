//! Sections of tarpon for the sites of another server.
//!
//! ```text
//! site ─┬─ files ───────────────────────▶ [[site]] with its rules, locations, error pages and limits
//!       ├─ a directory for some paths ──▶ [[site]] with mount
//!       └─ upstream servers ────────────▶ proxy, and [[upstream]] if they have options
//! ```
//!
//! `limits` makes the sections of limits.

use super::{
    draft::{ConfigDraft, DraftSection},
    limits::ImportedLimits,
    path::PathPattern,
    plan::{Given, ImportedSite, ImportedUpstream, PlannedOption, RouteAction, RoutePlan, ServicePlan},
    report::ImportReport,
    source::DirectiveOrigin,
    users::RouteUsers,
};
use std::collections::BTreeSet;

/// The directory of sites without files.
const EMPTY_DIR: &str = "/var/empty";

/// An address without a server: the port of the discard protocol.
const NO_SERVER: &str = "http://127.0.0.1:9";

/// Makes the sections of all sites.
pub(super) fn lower(plan: ServicePlan, report: &mut ImportReport) -> ConfigDraft {
    let ServicePlan { server, log, listeners, mut sites } = plan;
    for site in &mut sites {
        normalise_listen(&mut site.listen);
    }
    let mut sections = Vec::new();
    let mut seen = BTreeSet::new();
    for address in sites.iter().flat_map(|site| &site.listen) {
        if !seen.insert(address.value.clone()) {
            continue;
        }
        let mut section =
            DraftSection::new("listener", &address.origin).with("address", &*address.value, &address.origin);
        for (_, option) in listeners.iter().filter(|(of, _)| *of == address.value) {
            section.set(option.name, &*option.given.value, &option.given.origin);
        }
        sections.push(section);
    }
    let options = |name: &str, options: &[PlannedOption]| {
        let mut section = DraftSection::new(name, &DirectiveOrigin::default());
        for PlannedOption { name, given } in options {
            section.set(name, &*given.value, &given.origin);
        }
        section
    };
    for section in [options("server", &server), options("log", &log)] {
        if !section.is_empty() {
            sections.push(section);
        }
    }
    // A site answers at all listeners unless it names some.
    let sets: BTreeSet<Vec<&str>> =
        sites.iter().map(|site| site.listen.iter().map(|given| given.value.as_str()).collect()).collect();
    let names_listeners = sets.len() > 1;
    let mut upstreams = UpstreamSections::default();
    let mut of_sites = Vec::new();
    let mut has_default = false;
    for site in &sites {
        let mut lowering =
            SiteLowering { site, names_listeners, upstreams: &mut upstreams, report, groups: Vec::new() };
        lowering.run(&mut has_default);
        of_sites.extend(lowering.groups.into_iter().flat_map(SiteGroup::sections));
    }
    sections.extend(upstreams.sections);
    sections.extend(of_sites);
    if let Some(first) = sections.first_mut() {
        first.comments.insert(
            0,
            "Made by `tarpon import`. Its report lists omitted directives; comments repeat them beside their sites."
                .to_owned(),
        );
    }
    ConfigDraft::new(sections)
}

/// Sorts addresses, and drops those that another one contains: `80` contains `0.0.0.0:80` and `[::]:80`.
fn normalise_listen(listen: &mut Vec<Given>) {
    let values: BTreeSet<String> = listen.iter().map(|given| given.value.clone()).collect();
    let contained = |value: &str| {
        let (tls, address) = value.strip_prefix("tls:").map_or(("", value), |address| ("tls:", address));
        let port = address.strip_prefix("0.0.0.0:").or(address.strip_prefix("[::]:"));
        port.is_some_and(|port| values.contains(&format!("{tls}{port}")))
    };
    listen.retain(|given| !contained(&given.value));
    listen.sort_by(|one, other| one.value.cmp(&other.value));
    listen.dedup_by(|one, other| one.value == other.value);
}

/// The sections of upstreams. Sites that name the same servers and options share one.
#[derive(Default)]
struct UpstreamSections {
    known: Vec<(ImportedUpstream, String)>,
    names: BTreeSet<String>,
    sections: Vec<DraftSection>,
}

impl UpstreamSections {
    /// Returns the target of `proxy` for some servers.
    fn target(&mut self, upstream: &ImportedUpstream) -> String {
        let is_same = |known: &ImportedUpstream| {
            let values = |plan: &ImportedUpstream| -> Vec<String> {
                plan.servers.iter().map(|given| given.value.clone()).collect()
            };
            let options = |plan: &ImportedUpstream| -> Vec<(&str, String)> {
                plan.options.iter().map(|option| (option.name, option.given.value.clone())).collect()
            };
            values(known) == values(upstream) && options(known) == options(upstream)
        };
        if let Some((_, name)) = self.known.iter().find(|(known, _)| is_same(known)) {
            return name.clone();
        }
        let target = match &upstream.servers[..] {
            [server] if upstream.options.is_empty() && !server.value.contains([' ', ',']) => {
                server.value.clone()
            }
            _ => self.add(upstream),
        };
        self.known.push((upstream.clone(), target.clone()));
        target
    }

    fn add(&mut self, upstream: &ImportedUpstream) -> String {
        let allowed = |char: char| {
            if char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.') { char } else { '-' }
        };
        let base: String = upstream.name.chars().map(allowed).take(40).collect();
        let base = match base.trim_matches(['-', '.']) {
            "" => "upstream".to_owned(),
            base => base.to_owned(),
        };
        let mut name = base.clone();
        for number in 2.. {
            if self.names.insert(name.clone()) {
                break;
            }
            name = format!("{base}-{number}");
        }
        let mut section =
            DraftSection::new("upstream", &upstream.origin).with("name", &*name, &upstream.origin);
        for server in &upstream.servers {
            section.set("servers", &*server.value, &server.origin);
        }
        for option in &upstream.options {
            section.set(option.name, &*option.given.value, &option.given.origin);
        }
        self.sections.push(section);
        name
    }
}

/// A `[[site]]` with the sections that belong to it.
struct SiteGroup {
    /// The path below which it is mounted; empty for the site itself.
    mount: String,
    site: DraftSection,
    headers: Vec<DraftSection>,
    redirects: Vec<(usize, DraftSection)>,
    locations: Vec<DraftSection>,
    error_pages: Vec<DraftSection>,
    limits: ImportedLimits,
}

impl SiteGroup {
    fn new(mount: &str, site: DraftSection) -> SiteGroup {
        let (headers, redirects, locations, error_pages) = Default::default();
        SiteGroup {
            mount: mount.to_owned(),
            site,
            headers,
            redirects,
            locations,
            error_pages,
            limits: ImportedLimits::default(),
        }
    }

    fn sections(self) -> Vec<DraftSection> {
        let SiteGroup { site, headers, mut redirects, locations, error_pages, limits, .. } = self;
        redirects.sort_by_key(|(rank, _)| *rank);
        let redirects = redirects.into_iter().map(|(_, section)| section);
        [site]
            .into_iter()
            .chain(headers)
            .chain(redirects)
            .chain(locations)
            .chain(error_pages)
            .chain(limits.sections())
            .collect()
    }
}

struct SiteLowering<'a> {
    site: &'a ImportedSite,
    names_listeners: bool,
    upstreams: &'a mut UpstreamSections,
    report: &'a mut ImportReport,
    /// The site itself, then its mounts.
    groups: Vec<SiteGroup>,
}

impl SiteLowering<'_> {
    fn run(&mut self, has_default: &mut bool) {
        let site = self.site;
        let is_all = |route: &&RoutePlan| route.paths.contains(&PathPattern::All);
        let proxies_all =
            site.routes.iter().filter(is_all).any(|route| matches!(route.action, RouteAction::Proxy { .. }));
        let redirects_all = site
            .routes
            .iter()
            .filter(is_all)
            .any(|route| matches!(route.action, RouteAction::Redirect { .. }));
        let mut main = DraftSection::new("site", &site.origin);
        main.comments.clone_from(&site.comments);
        match &site.root {
            Some(root) if !proxies_all || !site.error_pages.is_empty() => {
                main.set("path", &*root.value, &root.origin)
            }
            _ => {
                main.set("path", EMPTY_DIR, &site.origin);
                main.comments.push(format!("This site has no files of its own: mkdir -p {EMPTY_DIR}"));
                if !proxies_all && !redirects_all {
                    let hint = "write the directory of the site into `path`";
                    self.report.left_out(&site.origin, "it names no directory of files", hint);
                }
            }
        }
        self.name_hosts(&mut main);
        for host in &site.redirect_hosts {
            main.set("redirect-hosts", &*host.value, &host.origin);
        }
        if let Some(origin) = &site.default
            && !std::mem::replace(has_default, true)
        {
            main.set("default", "true", origin);
        }
        if let Some(origin) = &site.redirect_to_https {
            main.set("redirect-to-https", "true", origin);
        }
        for PlannedOption { name, given } in &site.options {
            main.set(name, &*given.value, &given.origin);
        }
        self.groups.push(SiteGroup::new("", main));
        for route in &site.routes {
            self.add_mounts(route, proxies_all);
        }
        for route in &site.routes {
            self.add_action(route, proxies_all);
            self.add_options(route, proxies_all);
        }
        for group in &mut self.groups {
            group.limits.finish(self.report);
        }
        for route in &site.routes {
            self.keep_open(route);
        }
        self.keep_targets_protected();
        for (status, page) in &site.error_pages {
            let section = DraftSection::new("site.error-page", &page.origin)
                .with("status", status.to_string(), &page.origin)
                .with("path", &*page.value, &page.origin);
            self.groups[0].error_pages.push(section);
        }
    }

    /// Sets hosts and listeners, which a site shares with its mounts.
    fn name_hosts(&self, section: &mut DraftSection) {
        for (name, hosts) in [("hosts", &self.site.hosts), ("domain", &self.site.domains)] {
            hosts.iter().for_each(|host| section.set(name, &*host.value, &host.origin));
        }
        if self.names_listeners {
            self.site.listen.iter().for_each(|given| section.set("listen", &*given.value, &given.origin));
        }
    }

    /// Adds a mounted site for each path whose files lie in a directory of their own.
    fn add_mounts(&mut self, route: &RoutePlan, proxies_all: bool) {
        let RouteAction::Files(dir) = &route.action else { return };
        for paths in &route.paths {
            let PathPattern::Below(mount) = paths else { continue };
            let dir = match (dir, &self.site.root) {
                (Some(dir), _) => dir.clone(),
                // Upstream servers answer all paths but those of mounts.
                (None, Some(root)) if proxies_all => {
                    let path = format!("{}{mount}", root.value.trim_end_matches('/'));
                    Given { value: path, origin: root.origin.clone() }
                }
                _ => continue,
            };
            if self.groups.iter().any(|group| group.mount == *mount) {
                continue;
            }
            let path = match dir.value.trim_end_matches('/') {
                "" => "/",
                path => path,
            };
            let mut site = DraftSection::new("site", &route.origin).with("path", path, &dir.origin);
            // A certificate is that of the site: a mount has the hosts alone.
            for host in self.site.hosts.iter().chain(&self.site.domains) {
                site.set("hosts", &*host.value, &host.origin);
            }
            if self.names_listeners {
                self.site.listen.iter().for_each(|given| site.set("listen", &*given.value, &given.origin));
            }
            site.set("mount", &**mount, &route.origin);
            for name in ["access-log", "access-log-format", "index", "listings", "redirect-to-https"] {
                for PlannedOption { given, .. } in
                    self.site.options.iter().filter(|option| option.name == name)
                {
                    site.set(name, &*given.value, &given.origin);
                }
            }
            if let Some(origin) = &self.site.redirect_to_https {
                site.set("redirect-to-https", "true", origin);
            }
            self.groups.push(SiteGroup::new(mount, site));
        }
    }

    /// Returns the sites that have some paths, with the paths as each sees them. Options of all paths are for mounts, too.
    fn owners(&self, paths: &PathPattern) -> Vec<(usize, PathPattern)> {
        if matches!(paths, PathPattern::All | PathPattern::Ending(_)) {
            return (0..self.groups.len()).map(|at| (at, paths.clone())).collect();
        }
        let within =
            |(at, group): (usize, &SiteGroup)| Some((at, paths.within(&group.mount)?, group.mount.len()));
        let mounted = self.groups.iter().enumerate().skip(1).filter_map(within).max_by_key(|(.., len)| *len);
        vec![mounted.map_or((0, paths.clone()), |(at, paths, _)| (at, paths))]
    }

    fn add_action(&mut self, route: &RoutePlan, proxies_all: bool) {
        let origin = &route.origin;
        for paths in &route.paths {
            let (at, own) = match paths {
                PathPattern::All | PathPattern::Ending(_) => (0, paths.clone()),
                paths => self.owners(paths).remove(0),
            };
            match &route.action {
                RouteAction::Options => {}
                RouteAction::Files(dir) => {
                    let is_mounted = matches!(paths, PathPattern::Below(mount) if self.groups.iter().any(|group| group.mount == *mount));
                    if is_mounted {
                        continue;
                    }
                    if dir.is_some() {
                        let hint = "move the files to their place in the directory of the site, or serve a prefix with `mount`";
                        self.report.left_out(
                            origin,
                            format_args!(
                                "only a prefix of paths has a directory of its own, and {} is none",
                                paths.rule()
                            ),
                            hint,
                        );
                    } else if proxies_all && *paths != PathPattern::All {
                        let hint = "serve a prefix of paths with `mount` in a [[site]] of its own, or let the upstream server answer";
                        self.report.left_out(
                            origin,
                            format_args!("the upstream server of / answers {} too", paths.rule()),
                            hint,
                        );
                    }
                }
                RouteAction::Proxy { upstream, base } => {
                    self.add_proxy(route, (at, &own, paths), upstream, base.as_deref())
                }
                RouteAction::Redirect { to, status } => {
                    let mut section = DraftSection::new("site.redirect", origin)
                        .with("from", own.rule(), origin)
                        .with("to", &**to, origin);
                    if *status != 301 {
                        section.set("status", status.to_string(), origin);
                    }
                    // Another server redirects before it looks for a file. Paths below that have files of their own keep them.
                    match self.has_inner(paths, route) {
                        false => section.set("force", "true", origin),
                        true => self.report.differs(
                            origin,
                            format_args!("a file at the path comes before the redirect of {}", paths.rule()),
                        ),
                    }
                    self.groups[at].redirects.push((rank(&own), section));
                }
                RouteAction::Fallback { file } if own == PathPattern::All && file == "/index.html" => {
                    self.groups[at].site.set("spa", "true", origin);
                    self.report.differs(
                        origin,
                        "`spa` answers 404 to a missing file whose name is that of an asset, such as /app.js",
                    );
                }
                RouteAction::Fallback { file } | RouteAction::Rewrite { file } => {
                    let file = own_path(&self.groups[at].mount, file);
                    let mut section = DraftSection::new("site.redirect", origin)
                        .with("from", own.rule(), origin)
                        .with("to", file, origin)
                        .with("status", "200", origin);
                    if matches!(route.action, RouteAction::Rewrite { .. }) {
                        section.set("force", "true", origin);
                    }
                    self.groups[at].redirects.push((rank(&own), section));
                }
                RouteAction::Closed => match (own.prefix(), &own) {
                    (Some(prefix), own) => self.groups[at].limits.close(prefix, is_exact(own), origin),
                    (None, PathPattern::Ending(ending)) => self.close_ending(ending, origin),
                    (None, _) => {
                        let why = format!(
                            "addresses are allowed and denied by prefix, and {} is none",
                            paths.rule()
                        );
                        self.report.left_out(origin, why, "remove such files from the directory of the site: until then, every client gets them");
                    }
                },
            }
        }
    }

    /// Leaves files with an ending out of the site: paths that go to a server are no files.
    fn close_ending(&mut self, ending: &str, origin: &DirectiveOrigin) {
        let prefix = format!("*{ending}=");
        if self.groups[0].site.values("proxy").any(|value| value.starts_with(&prefix)) {
            return;
        }
        self.groups[0].site.set("proxy", format!("{prefix}{NO_SERVER}"), origin);
        let how = format!(
            "files such as *{ending} are left out of the site, and answer 502: `proxy` sends them to a port without a server"
        );
        self.report.differs(origin, how);
    }

    fn add_proxy(
        &mut self,
        route: &RoutePlan,
        (at, own, paths): (usize, &PathPattern, &PathPattern),
        upstream: &ImportedUpstream,
        base: Option<&str>,
    ) {
        let origin = &route.origin;
        let Some(prefix) = own.proxy() else {
            let hint = "name a prefix, or an ending such as *.php, in `proxy`";
            self.report.left_out(
                origin,
                format_args!("`proxy` has no pattern such as {}", paths.rule()),
                hint,
            );
            return;
        };
        let target = self.upstreams.target(upstream);
        let value = format!("{prefix}={target}{}", base.unwrap_or_default());
        self.groups[at].site.set("proxy", value, origin);
        if let PathPattern::Exact(path) = paths {
            self.report.differs(origin, format_args!("the server gets requests for paths below {path} too"));
        }
        for header in &route.headers {
            let hint = "let the server behind send the header";
            self.report.left_out(
                &header.origin,
                "headers of a site are not added to responses of upstream servers",
                hint,
            );
        }
    }

    fn add_options(&mut self, route: &RoutePlan, proxies_all: bool) {
        let is_proxied = matches!(route.action, RouteAction::Proxy { .. });
        for paths in &route.paths {
            for (at, own) in self.owners(paths) {
                // Nothing but upstream servers answers these paths.
                let is_files = !(is_proxied || proxies_all && at == 0);
                let rule = own.rule();
                let section =
                    |name| DraftSection::new(name, &route.origin).with("path", &*rule, &route.origin);
                let mut header = section("site.header");
                route.headers.iter().for_each(|given| header.set("set", &*given.value, &given.origin));
                route
                    .removed_headers
                    .iter()
                    .for_each(|given| header.set("remove", &*given.value, &given.origin));
                let mut location = section("site.location");
                let whole_listings = own == PathPattern::All;
                for (name, given) in [
                    ("listings", &route.listings),
                    ("cache", &route.cache),
                    ("access-log", &route.access_log),
                ] {
                    let Some(given) = given else { continue };
                    match name {
                        "listings" if whole_listings => {
                            self.groups[at].site.set(name, &*given.value, &given.origin)
                        }
                        _ if is_files || name == "access-log" => {
                            location.set(name, &*given.value, &given.origin)
                        }
                        _ => {}
                    }
                }
                let has_values = |section: &DraftSection| {
                    section.values("set").chain(section.values("remove")).next().is_some()
                };
                if is_files && has_values(&header) {
                    self.groups[at].headers.push(header);
                }
                if ["listings", "cache", "access-log"]
                    .iter()
                    .any(|name| location.values(name).next().is_some())
                {
                    self.groups[at].locations.push(location);
                }
                if route.limits.is_empty()
                    || route.users.are_protected()
                    || *paths == PathPattern::All && self.is_open_mount(at)
                {
                    continue;
                }
                match own.prefix() {
                    Some(prefix) => {
                        self.groups[at].limits.add(prefix, is_exact(&own), &route.limits, &route.origin);
                    }
                    None if matches!((&own, &route.limits[..]), (PathPattern::Ending(_), [limit]) if limit.name == "deny" && limit.given.value == "all") => {
                        if let PathPattern::Ending(ending) = &own {
                            self.close_ending(ending, &route.limits[0].given.origin);
                        }
                    }
                    None => {
                        let why = format!("limits are for prefixes of paths, and {rule} is none");
                        let hint = "name a prefix in `path` of a [[site.limit]]";
                        self.report.left_out(&route.limits[0].given.origin, why, hint);
                    }
                }
            }
            self.protect(route, paths);
        }
        if proxies_all && !is_proxied && route.paths.contains(&PathPattern::All) && self.groups.len() == 1 {
            for header in route.headers.iter().chain(&route.cache) {
                let hint = "let the server behind send the header";
                self.report.left_out(
                    &header.origin,
                    "headers of a site are not added to responses of upstream servers",
                    hint,
                );
            }
        }
    }

    /// Lets users in to some paths, and no other client. A pattern that is no prefix protects all paths below its fixed part.
    fn protect(&mut self, route: &RoutePlan, paths: &PathPattern) {
        let users = match &route.users {
            RouteUsers::Inherit | RouteUsers::Anyone => return,
            RouteUsers::Listed(users) => Some(users),
            RouteUsers::Nobody => None,
        };
        let is_prefix = paths.prefix().is_some();
        if !is_prefix && route.has_inherited_users {
            return;
        }
        let protected = match is_prefix {
            true => paths.clone(),
            false => PathPattern::below(&paths.fixed_prefix()),
        };
        if let (false, Some(users)) = (is_prefix, users) {
            let how = format!(
                "passwords are for prefixes of paths, and {} is none: all paths of {} need one",
                paths.rule(),
                protected.prefix().unwrap_or("/"),
            );
            self.report.differs(&users.origin, how);
        }
        let mut owners = self.owners(&protected);
        if route.counts_in_mounts || !is_prefix {
            let is_inside =
                |group: &SiteGroup| !group.mount.is_empty() && protected.within_prefix(&group.mount);
            let inside = self.groups.iter().enumerate().filter(|(_, group)| is_inside(group));
            owners.extend(inside.map(|(at, _)| (at, PathPattern::All)));
            owners.dedup();
        }
        for (at, own) in owners {
            if protected.prefix() != Some(&*self.groups[at].mount)
                && own == PathPattern::All
                && self.is_open_mount(at)
            {
                continue;
            }
            let prefix = own.prefix().unwrap_or("/").to_owned();
            let limits = &mut self.groups[at].limits;
            match users {
                Some(users) => limits.protect(&prefix, is_exact(&own), users, route),
                None => limits.close(&prefix, is_exact(&own), &route.origin),
            }
        }
    }

    /// Returns whether the group is a mount for paths that no directive closes.
    fn is_open_mount(&self, at: usize) -> bool {
        let mount = PathPattern::Below(self.groups[at].mount.clone());
        let is_open = |route: &&RoutePlan| {
            route.is_open && route.paths.contains(&mount) && self.may_open(route, &mount)
        };
        at > 0 && self.site.routes.iter().any(|route| is_open(&route))
    }

    /// Returns whether no expression counts before a block, and keeps clients out.
    fn may_open(&self, route: &RoutePlan, paths: &PathPattern) -> bool {
        let prefix = paths.prefix().unwrap_or("/");
        let comes_first = |other: &RoutePlan| {
            let denies = |option: &PlannedOption| option.name == "deny" && option.given.value == "all";
            let is_closed = other.action == RouteAction::Closed || other.limits.iter().any(denies);
            // Files with a closed ending are left out of the site.
            let is_prefix = other.paths.iter().any(|paths| paths.prefix().is_some());
            let keeps_out = other.users.are_protected() || is_closed && is_prefix;
            let covers =
                |paths: &PathPattern| PathPattern::below(&paths.fixed_prefix()).within_prefix(prefix);
            other.is_expression && keeps_out && other.paths.iter().any(covers)
        };
        route.is_preferred || is_exact(paths) || !self.site.routes.iter().any(comes_first)
    }

    /// Lets clients in to the paths of a route although an outer section keeps them out: that section comes from a block beside the route.
    fn keep_open(&mut self, route: &RoutePlan) {
        let has_users = matches!(route.users, RouteUsers::Listed(_)) && !route.is_layered;
        let is_for_anyone = matches!(route.users, RouteUsers::Anyone);
        if !(has_users || is_for_anyone || route.is_open) || route.action == RouteAction::Closed {
            return;
        }
        for paths in &route.paths {
            let is_one = match paths {
                PathPattern::Exact(path) => {
                    // A file, or a server: below a directory there may be closed files.
                    let is_answered =
                        matches!(route.action, RouteAction::Proxy { .. } | RouteAction::Redirect { .. });
                    is_answered || path.rsplit('/').next().is_some_and(|name| name.contains('.'))
                }
                PathPattern::Below(_) => true,
                _ => false,
            };
            let (at, own) = self.owners(paths).remove(0);
            let may_open = is_one && self.may_open(route, paths);
            let limits = &mut self.groups[at].limits;
            let Some(prefix) = own.prefix() else {
                if let Some(origin) = &route.opened_by {
                    let why = format!("limits are for prefixes of paths, and {} is none", paths.rule());
                    self.report.left_out(origin, why, "name a prefix in `path` of a [[site.limit]]");
                }
                continue;
            };
            if may_open && has_users && !is_exact(paths) && limits.has_users(prefix) {
                limits.keep_open(prefix, true, false, &route.origin);
            } else if may_open && !has_users {
                limits.keep_open(prefix, route.is_open, is_for_anyone || route.is_open, &route.origin);
            }
            if let (Some(origin), true) = (&route.opened_by, route.is_open && !limits.is_open(prefix)) {
                let why = format!("other paths would be open, too, and so {prefix} stays protected");
                let hint = "write a [[site.limit]] with passwords = \"off\" or `allow` if that is meant: it counts for all paths below";
                self.report.left_out(origin, why, hint);
            }
        }
    }

    /// Removes rules that answer with a file of other users: limits are those of the path that a client asks for.
    fn keep_targets_protected(&mut self) {
        for SiteGroup { limits, redirects, .. } in &mut self.groups {
            redirects.retain(|(_, section)| {
                let value = |name| section.values(name).next().unwrap_or_default();
                let from = PathPattern::Other(value("from").to_owned()).fixed_prefix();
                let is_kept = value("status") != "200"
                    || limits.is_open(value("to"))
                    || limits.protection(value("to")) == limits.protection(&from);
                if !is_kept {
                    let why = format!("{} is for other clients than {}", value("to"), value("from"));
                    let hint = "write a [[site.redirect]] with another status than 200";
                    self.report.left_out(&section.origin, why, hint);
                }
                is_kept
            });
        }
    }

    /// Returns whether files or servers answer some paths below those of a redirect.
    fn has_inner(&self, paths: &PathPattern, of: &RoutePlan) -> bool {
        let (PathPattern::All | PathPattern::Below(_)) = paths else { return false };
        let outer = paths.prefix().unwrap_or_default().trim_end_matches('/');
        let answers = |route: &&RoutePlan| {
            route.origin != of.origin
                && matches!(route.action, RouteAction::Files(_) | RouteAction::Fallback { .. })
        };
        let inner = self.site.routes.iter().filter(answers).flat_map(|route| &route.paths);
        inner
            .filter_map(PathPattern::prefix)
            .any(|inner| inner.strip_prefix(outer).is_some_and(|rest| rest.len() > 1))
    }
}

/// Returns whether a pattern stands for one path.
fn is_exact(paths: &PathPattern) -> bool {
    matches!(paths, PathPattern::Exact(_))
}

/// Returns a path as a mounted site sees it.
fn own_path(mount: &str, path: &str) -> String {
    let rest = path.strip_prefix(mount).filter(|rest| rest.starts_with('/'));
    rest.unwrap_or(path).to_owned()
}

/// Returns the place of a rule: the first that applies counts, and other servers prefer one path, then the longest prefix.
fn rank(paths: &PathPattern) -> usize {
    match paths {
        PathPattern::Exact(_) => 0,
        PathPattern::Ending(_) | PathPattern::Other(_) => 1,
        PathPattern::Below(path) => usize::MAX / 2 - path.len(),
        PathPattern::All => usize::MAX,
    }
}
