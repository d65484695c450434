//! The directives of a site.

use super::{
    address::{self, SiteTls},
    global::GlobalOptions,
    known,
    matcher::{self, MatchedRequests, NamedMatchers},
    proxy,
};
use crate::program::import::{
    path::PathPattern,
    plan::{Given, ImportedSite, PlannedOption, RouteAction, RoutePlan, ServicePlan},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
    users::{self, HashOutput, PlannedUsers, RouteUsers, UsersRefused},
};

/// A site, and the redirect of its whole host if it has no other directive.
#[derive(Debug)]
pub(super) struct CaddySite {
    site: ImportedSite,
    whole: Option<(String, u16, DirectiveOrigin)>,
}

/// Where the directives of a block count.
#[derive(Clone, Debug)]
struct CaddyBlock {
    /// The paths of the block.
    paths: Vec<PathPattern>,
    /// What `handle_path` strips from the path; empty: nothing.
    stripped: String,
    root: Option<Given>,
    /// Whether a directive of this block or of one around keeps clients out.
    is_guarded: bool,
    /// Whether another directive than `basic_auth` for all paths of the block does so.
    is_layered: bool,
}

/// Reads a site.
pub(super) fn read(
    directive: &SourceDirective,
    options: &GlobalOptions,
    plan: &mut ServicePlan,
    report: &mut ImportReport,
) -> CaddySite {
    let origin = directive.origin();
    let mut reader = SiteReader {
        site: ImportedSite { origin: origin.clone(), ..ImportedSite::default() },
        plan,
        report,
        named: NamedMatchers::new(),
        max_body: None,
        hashes: options.hashes,
    };
    let children = directive.children();
    let bind: Vec<String> =
        children.iter().filter(|child| child.name == "bind").flat_map(|child| child.args.clone()).collect();
    let tls =
        children.iter().filter(|child| child.name == "tls").fold(SiteTls::default(), |tls, child| SiteTls {
            has_files: tls.has_files || child.args.len() >= 2,
            is_internal: tls.is_internal
                || child.arg(0) == "internal"
                || child
                    .children()
                    .iter()
                    .any(|option| option.name == "issuer" && option.arg(0) == "internal"),
        });
    if address::read(directive, tls, &bind, options, &mut reader.site, reader.report) {
        reader.plan.server.push(PlannedOption::new("tls", "self-signed", &origin));
        address::report_own(&origin, reader.report);
    }
    let block = CaddyBlock {
        paths: vec![PathPattern::All],
        stripped: String::new(),
        root: None,
        is_guarded: false,
        is_layered: true,
    };
    reader.block(children, &block);
    let SiteReader { mut site, .. } = reader;
    let meaningful: Vec<_> = site
        .routes
        .iter()
        .filter(|route| route.action != RouteAction::Options || !route.headers.is_empty())
        .collect();
    let whole = match &meaningful[..] {
        [RoutePlan { paths, action: RouteAction::Redirect { to, status }, origin, .. }]
            if paths == &[PathPattern::All] && site.root.is_none() =>
        {
            to.strip_suffix("/:splat").map(|to| (to.to_owned(), *status, origin.clone()))
        }
        _ => None,
    };
    // Those with a path go first, and the more special they are the earlier.
    site.routes.sort_by_key(|route| route.paths.contains(&PathPattern::All));
    CaddySite { site, whole }
}

/// Adds the sites to the plan. Hosts that only redirect become redirect hosts of the site that they lead to.
pub(super) fn merge(sites: Vec<CaddySite>, plan: &mut ServicePlan) {
    let (redirecting, others): (Vec<_>, Vec<_>) = sites.into_iter().partition(|site| site.whole.is_some());
    plan.sites.extend(others.into_iter().map(|site| site.site));
    for CaddySite { site, whole } in redirecting {
        let (to, ..) = whole.as_ref().expect("it has a redirect");
        let host = to.split_once("://").map_or(to.as_str(), |(_, host)| host);
        // A certificate for a redirect host would be missing.
        let has_own_certificate = !site.domains.is_empty();
        let target = plan.sites.iter_mut().find(|site| site.hosts.iter().any(|own| own.value == host));
        match target.filter(|_| !has_own_certificate) {
            Some(target) => {
                if let Some(at) = target.hosts.iter().position(|own| own.value == host) {
                    let first = target.hosts.remove(at);
                    target.hosts.insert(0, first);
                }
                target.redirect_hosts.extend(site.hosts.into_iter().filter(|own| own.value != host));
                target.listen.extend(site.listen);
            }
            None => plan.sites.push(site),
        }
    }
}

struct SiteReader<'a> {
    site: ImportedSite,
    plan: &'a mut ServicePlan,
    report: &'a mut ImportReport,
    named: NamedMatchers,
    max_body: Option<Given>,
    hashes: HashOutput,
}

impl SiteReader<'_> {
    fn block(&mut self, directives: &[SourceDirective], outer: &CaddyBlock) {
        for directive in directives.iter().filter(|directive| directive.name.starts_with('@')) {
            self.named.insert(directive.name.clone(), matcher::define(directive));
        }
        let mut block = outer.clone();
        // The directory of a block counts for all of its directives, wherever it stands.
        for directive in directives.iter().filter(|directive| directive.name == "root") {
            if let Ok((matched, [path])) =
                matcher::split(directive, &self.named).as_ref().map(|(matched, rest)| (matched, *rest))
                && matched.patterns() == [PathPattern::All]
            {
                block.root = Some(Given::new(&**path, &directive.origin()));
            }
        }
        let is_guard = |directive: &&SourceDirective| {
            GUARDS.contains(&&*directive.name) || directive.name.starts_with('@')
        };
        let guards: Vec<_> = directives.iter().filter(is_guard).collect();
        let is_whole = block.paths == [PathPattern::All];
        // Blocks beside each other exclude each other, so the directives of this one are complete.
        let is_users = |directive: &SourceDirective| ["basic_auth", "basicauth"].contains(&&*directive.name);
        block.is_layered = is_whole || outer.is_guarded || !matches!(&guards[..], [guard] if is_users(guard));
        block.is_guarded |= !guards.is_empty();
        if !is_whole
            && !block.is_guarded
            && let Some(first) = directives.first()
        {
            let mut route = RoutePlan::new(&first.origin(), block.paths.clone());
            route.is_open = true;
            route.users = RouteUsers::Anyone;
            self.site.routes.push(route);
        }
        if is_whole && let Some(root) = &block.root {
            match root.value.contains('{') {
                true => self.report.left_out(
                    &root.origin,
                    "the directory depends on the request",
                    "write a [[site]] with `path` for each directory",
                ),
                false => self.site.root = Some(root.clone()),
            }
        } else if let Some(root) = block.root.clone().filter(|root| Some(root) != outer.root.as_ref()) {
            self.mount(&block, root);
        }
        for directive in directives {
            self.directive(directive, &block);
        }
    }

    /// Adds a directory that stands for the paths of a block.
    fn mount(&mut self, block: &CaddyBlock, root: Given) {
        let paths = block.paths.clone();
        for paths in paths {
            let dir = match (&paths, block.stripped.is_empty()) {
                (PathPattern::Below(path), true) => Given {
                    value: format!("{}{path}", root.value.trim_end_matches('/')),
                    origin: root.origin.clone(),
                },
                (PathPattern::Below(path), false) => {
                    let rest = path.strip_prefix(&*block.stripped).unwrap_or_default();
                    Given {
                        value: format!("{}{rest}", root.value.trim_end_matches('/')),
                        origin: root.origin.clone(),
                    }
                }
                _ => root.clone(),
            };
            // The same directory as that of the site needs no mount.
            if let (PathPattern::Below(path), Some(site)) = (&paths, &self.site.root)
                && dir.value == format!("{}{path}", site.value.trim_end_matches('/'))
            {
                continue;
            }
            let route = RoutePlan::new(&root.origin, vec![paths]);
            self.site.routes.push(route.with_action(RouteAction::Files(Some(dir))));
        }
    }

    /// Returns the paths of a directive within a block, each with its captures. `None`: the report has it.
    fn matched<'d>(
        &mut self,
        directive: &'d SourceDirective,
        block: &CaddyBlock,
    ) -> Option<(MatchedRequests, &'d [String])> {
        match matcher::split(directive, &self.named) {
            Ok((mut matched, rest)) => {
                let mut paths = Vec::new();
                for (own, captures) in &matched.paths {
                    for outer in &block.paths {
                        let found = match PROTECTING.contains(&&*directive.name) {
                            true => protected_within(outer, own, &block.stripped),
                            false => within(outer, own, &block.stripped),
                        };
                        paths.extend(found.map(|found| (found, captures.clone())));
                    }
                }
                matched.paths = paths;
                Some((matched, rest))
            }
            // Passwords for more paths than those of the matcher protect these, too.
            Err(why) if PROTECTING.contains(&&*directive.name) => {
                let rest = directive.args.get(1..).unwrap_or_default();
                let rules: Vec<String> = block.paths.iter().map(PathPattern::rule).collect();
                self.report.left_out(
                    &directive.origin(),
                    format_args!(
                        "{why}: all paths of {} are protected in place of its matcher",
                        rules.join(", ")
                    ),
                    "write a [[site.limit]] for the paths that are meant: docs/passwords.md",
                );
                let paths = block.paths.iter().map(|paths| (paths.clone(), Vec::new())).collect();
                Some((MatchedRequests { paths, ..MatchedRequests::default() }, rest))
            }
            Err(why) => {
                let hint = match GUARDS.contains(&&*directive.name) {
                    true => {
                        "remove such files from the directory of the site: until then, every client gets them"
                    }
                    false => "write a rule for a prefix, or for a pattern with one *: docs/rules.md",
                };
                self.report.left_out(&directive.origin(), why, hint);
                None
            }
        }
    }

    fn route(&mut self, origin: &DirectiveOrigin, matched: &MatchedRequests) -> &mut RoutePlan {
        self.site.routes.push(RoutePlan::new(origin, matched.patterns()));
        self.site.routes.last_mut().expect("it was pushed")
    }

    fn directive(&mut self, directive: &SourceDirective, block: &CaddyBlock) {
        let origin = directive.origin();
        match &*directive.name {
            name if name.starts_with('@') => return,
            "bind" => return,
            "tls" => return self.tls(directive),
            "log" => return self.log(directive),
            "handle_errors" => return self.handle_errors(directive),
            "import" => {
                return self.report.left_out(&origin, "its snippet is missing", "write the lines here");
            }
            _ => {}
        }
        let Some((matched, args)) = self.matched(directive, block) else { return };
        match &*directive.name {
            "root" => {
                // That of the whole block counts already.
                let paths = matched.patterns();
                if paths != block.paths
                    && let [path] = args
                {
                    self.mount(&CaddyBlock { paths, ..block.clone() }, Given::new(&**path, &origin));
                }
            }
            "handle" | "route" => {
                let inner = CaddyBlock { paths: matched.patterns(), ..block.clone() };
                self.guarded(&matched, &origin);
                self.block(directive.children(), &inner);
            }
            "handle_path" => {
                let paths = matched.patterns();
                let stripped = paths
                    .first()
                    .and_then(PathPattern::prefix)
                    .unwrap_or_default()
                    .trim_end_matches('/')
                    .to_owned();
                let inner = CaddyBlock { paths, stripped, root: None, ..block.clone() };
                let has_root = directive.children().iter().any(|child| child.name == "root");
                // Without a directory of its own, that of the site stands for the paths.
                if let (false, Some(root), true) = (
                    has_root,
                    block.root.clone().or(self.site.root.clone()),
                    directive.children().iter().any(|child| child.name == "file_server"),
                ) {
                    self.mount(&inner, root);
                }
                self.block(directive.children(), &inner);
            }
            "file_server" => self.file_server(directive, args, &matched, block),
            "redir" => self.redir(directive, args, &matched),
            "rewrite" | "try_files" => self.rewrite(directive, args, &matched, block),
            "header" => self.header(directive, args, &matched),
            "reverse_proxy" => self.reverse_proxy(directive, args, &matched, block),
            "php_fastcgi" => {
                if let Some(upstream) = proxy::php_fastcgi(directive, args, self.report) {
                    let route = RoutePlan::new(&origin, vec![PathPattern::Ending(".php".to_owned())]);
                    self.site.routes.push(route.with_action(RouteAction::Proxy { upstream, base: None }));
                }
            }
            "uri" => {
                let is_in_proxy =
                    args.first().is_some_and(|kind| kind == "strip_prefix") && !block.stripped.is_empty();
                if !is_in_proxy && args.first().is_none_or(|kind| kind != "strip_prefix") {
                    self.report.left_out(
                        &origin,
                        "a path is replaced by a rule, or by the target of `proxy`",
                        "see docs/rules.md and docs/upstreams.md",
                    );
                }
            }
            "basic_auth" | "basicauth" => self.basic_auth(directive, args, &matched, block),
            "forward_auth" => {
                self.report_segment(directive);
                self.close(&matched, &origin);
            }
            "respond" | "error" | "abort" => self.respond(directive, args, &matched),
            "log_skip" | "skip_log" => {
                self.route(&origin, &matched).access_log = Some(Given::new("off", &origin))
            }
            "request_body" => {
                if let Some(size) = directive.children().iter().find(|child| child.name == "max_size") {
                    self.max_body = Some(Given::new(binary_size(size.arg(0)), &size.origin()));
                }
            }
            "encode" => {
                self.report.not_needed(&origin, "tarpon compresses each file once, in the background")
            }
            name => known::report_unread(name, &origin, self.report),
        }
    }

    /// Reports the conditions of a block on clients.
    fn guarded(&mut self, matched: &MatchedRequests, origin: &DirectiveOrigin) {
        if matched.clients.is_some() {
            self.report.left_out(
                origin,
                "a block is for paths, and not for addresses of clients",
                "use `allow` and `deny` in [[site.limit]]: docs/limits.md; these paths are closed",
            );
            let route = self.route(origin, matched);
            route.limits.push(PlannedOption::new("deny", "all", origin));
        }
    }

    /// Lets the users of a list in, and no other client.
    fn basic_auth(
        &mut self,
        directive: &SourceDirective,
        args: &[String],
        matched: &MatchedRequests,
        block: &CaddyBlock,
    ) {
        let origin = directive.origin();
        self.report_segment(directive);
        let lines = directive.children();
        let line = |line: &SourceDirective| Given::new("", &line.origin());
        let lines: Vec<_> = lines.iter().map(|user| (&*user.name, user.arg(0), line(user))).collect();
        let users = match users::listed(&lines, self.hashes) {
            Ok(users) => {
                if matched.clients.is_some() {
                    self.report.differs(&origin, "clients from all addresses need a password");
                }
                RouteUsers::Listed(Box::new(PlannedUsers {
                    origin: origin.clone(),
                    users,
                    file: None,
                    realm: args.get(1).map(|realm| Given::new(&**realm, &origin)),
                    addresses: Vec::new(),
                }))
            }
            Err(UsersRefused { why, hint }) => {
                let hint = format!("until then the paths are closed by deny = [\"all\"]: {hint}");
                self.report.left_out(&origin, why, hint);
                RouteUsers::Nobody
            }
        };
        let route = self.route(&origin, matched);
        route.users = users;
        route.is_layered = block.is_layered || matched.patterns() != block.paths;
        route.counts_in_mounts = true;
    }

    /// Reports a prefix that ends within a segment.
    fn report_segment(&mut self, directive: &SourceDirective) {
        let prefix = directive.arg(0).strip_suffix('*').filter(|prefix| prefix.starts_with('/'));
        if let Some(prefix) = prefix.filter(|prefix| !prefix.ends_with('/')) {
            self.report.differs(&directive.origin(), users::segment_remark(prefix));
        }
    }

    /// Closes paths, as the directive that protects them has no counterpart.
    fn close(&mut self, matched: &MatchedRequests, origin: &DirectiveOrigin) {
        let hint = "until then the paths are closed by deny = [\"all\"]; docs/limits.md and docs/passwords.md tell which clients and users a [[site.limit]] can let in";
        self.report.left_out(origin, "the access control of these paths is not carried over", hint);
        let route = self.route(origin, matched);
        (route.users, route.counts_in_mounts) = (RouteUsers::Nobody, true);
    }

    fn file_server(
        &mut self,
        directive: &SourceDirective,
        args: &[String],
        matched: &MatchedRequests,
        block: &CaddyBlock,
    ) {
        let origin = directive.origin();
        let mut browses = args.iter().any(|arg| arg == "browse");
        for child in directive.children() {
            let origin = child.origin();
            match &*child.name {
                "browse" => browses = true,
                "root" => {
                    let inner = CaddyBlock { paths: matched.patterns(), ..block.clone() };
                    match inner.paths == [PathPattern::All] {
                        true => self.site.root = Some(Given::new(child.arg(0), &origin)),
                        false => self.mount(&inner, Given::new(child.arg(0), &origin)),
                    }
                }
                "index" => child
                    .args
                    .iter()
                    .for_each(|name| self.site.options.push(PlannedOption::new("index", &**name, &origin))),
                "precompressed" => self
                    .report
                    .not_needed(&origin, "compressed files beside the originals are sent by themselves"),
                "hide" => {
                    for name in child.args.iter().filter(|name| !name.starts_with('.')) {
                        match matcher::pattern(name) {
                            Some(paths @ PathPattern::Ending(_)) => {
                                let route = RoutePlan::new(&origin, vec![paths]);
                                self.site.routes.push(route.with_action(RouteAction::Closed));
                            }
                            _ => {
                                let hint = "remove such files from the directory of the site: until then, every client gets them";
                                self.report.left_out(
                                    &origin,
                                    format_args!("files such as {name} are not hidden"),
                                    hint,
                                );
                            }
                        }
                    }
                }
                "status" | "pass_thru" | "disable_canonical_uris" | "etag_file_extensions" => {
                    self.report.left_out(
                        &origin,
                        "tarpon has no such setting for files",
                        "see docs/pages-and-caching.md",
                    );
                }
                name => known::report_unread(name, &origin, self.report),
            }
        }
        let route = self.route(&origin, matched);
        if browses {
            route.listings = Some(Given::new("true", &origin));
        }
        // A block with a directory has its route already.
        if route.paths != [PathPattern::All] {
            route.action = RouteAction::Options;
        } else {
            route.action = RouteAction::Files(None);
        }
    }

    fn redir(&mut self, directive: &SourceDirective, args: &[String], matched: &MatchedRequests) {
        let origin = directive.origin();
        let Some(to) = args.first() else {
            return self.report.left_out(&origin, "it has no target", "write the target after the matcher");
        };
        let status = match args.get(1).map(String::as_str) {
            None | Some("temporary") => 302,
            Some("permanent") => 301,
            Some(code) => match code.parse() {
                Ok(status) => status,
                Err(_) => {
                    return self.report.left_out(
                        &origin,
                        format_args!("tarpon has no redirect of the kind {code}"),
                        "use a [[site.redirect]] with a status",
                    );
                }
            },
        };
        for (paths, captures) in &matched.paths {
            match self.target(to, paths, captures, &matched.regex_name) {
                Ok(to) => {
                    let route = RoutePlan::new(&origin, vec![paths.clone()]);
                    self.site.routes.push(route.with_action(RouteAction::Redirect { to, status }));
                }
                Err(name) => self.report.left_out(
                    &origin,
                    format_args!("the target depends on {name}"),
                    "write a [[site.redirect]] for each target",
                ),
            }
        }
    }

    /// Returns a target in the syntax of rules.
    ///
    /// # Errors
    /// The placeholder that it depends on.
    fn target(
        &self,
        text: &str,
        paths: &PathPattern,
        captures: &[Option<String>],
        regex: &str,
    ) -> Result<String, String> {
        // tarpon keeps the query by itself.
        let text = ["?{query}", "?{http.request.uri.query}"]
            .iter()
            .fold(text, |text, end| text.strip_suffix(end).unwrap_or(text));
        let mut to = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            to += &escaped(&rest[..at]);
            let Some((name, behind)) = rest[at + 1..].split_once('}') else {
                return Err(rest[at..].to_owned());
            };
            let unknown = || format!("{{{name}}}");
            let short = name.strip_prefix("http.").unwrap_or(name);
            let capture = short.strip_prefix("re.").or(short.strip_prefix("regexp."));
            to += &match (short, capture) {
                (_, Some(capture)) => {
                    let number = capture
                        .strip_prefix(regex)
                        .and_then(|rest| rest.strip_prefix('.'))
                        .unwrap_or(capture);
                    let number: usize = number.parse().map_err(|_| unknown())?;
                    let value = number
                        .checked_sub(1)
                        .and_then(|at| captures.get(at))
                        .cloned()
                        .flatten()
                        .ok_or_else(unknown)?;
                    value.strip_prefix('/').filter(|_| to.ends_with('/')).unwrap_or(&value).to_owned()
                }
                ("uri" | "path" | "request.uri" | "request.uri.path", _) => {
                    let path = match paths {
                        PathPattern::All => "/:splat".to_owned(),
                        PathPattern::Exact(path) => escaped(path),
                        PathPattern::Below(path) => format!("{}/:splat", escaped(path)),
                        PathPattern::Ending(_) | PathPattern::Other(_) => return Err(unknown()),
                    };
                    path.strip_prefix('/').filter(|_| to.ends_with('/')).unwrap_or(&path).to_owned()
                }
                ("scheme" | "request.scheme", _) if to.is_empty() => {
                    if self.site.listen.iter().any(|given| given.value.starts_with("tls:")) {
                        "https"
                    } else {
                        "http"
                    }
                    .to_owned()
                }
                ("host" | "request.host", _) => {
                    match &[&self.site.hosts[..], &self.site.domains[..]].concat()[..] {
                        [host] => host.value.clone(),
                        _ => return Err(unknown()),
                    }
                }
                _ => return Err(unknown()),
            };
            rest = behind;
        }
        Ok(to + &escaped(rest))
    }

    fn rewrite(
        &mut self,
        directive: &SourceDirective,
        args: &[String],
        matched: &MatchedRequests,
        block: &CaddyBlock,
    ) {
        let origin = directive.origin();
        let is_try = directive.name == "try_files";
        let Some((last, tried)) = args.split_last() else { return };
        for file in tried {
            match &**file {
                "{path}" | "{path}/" | "{path}/index.html" | "{http.request.uri.path}" => {}
                "{path}.html" => {
                    self.site.options.push(PlannedOption::new("clean-urls", "true", &origin));
                    self.report.differs(&origin, "`clean-urls` redirects /about.html to /about, too");
                }
                file => self.report.left_out(
                    &origin,
                    format_args!("files are looked for at the path of the request, and not at {file}"),
                    "name the file in a [[site.redirect]] with status 200",
                ),
            }
        }
        let file = last.split('?').next().unwrap_or_default();
        if is_try && (file.starts_with('=') || file == "{path}" || file == "{path}/") {
            return;
        }
        if is_try && file == "{path}.html" {
            self.site.options.push(PlannedOption::new("clean-urls", "true", &origin));
            return self.report.differs(&origin, "`clean-urls` redirects /about.html to /about, too");
        }
        let file = if file.starts_with('/') { file.to_owned() } else { format!("/{file}") };
        if file.contains('{') && is_try || file.ends_with(".php") {
            let hint = "let the server behind answer the path itself";
            return self.report.left_out(&origin, format_args!("a path is not answered by {last}"), hint);
        }
        for (paths, captures) in &matched.paths {
            match self.target(&file, paths, captures, &matched.regex_name) {
                // The path stays.
                Ok(to) if to.ends_with(":splat") && file == "/{path}" => {}
                Ok(to) => {
                    // Within `handle_path` the file has the path without its prefix.
                    let file = format!("{}{to}", block.stripped);
                    let action = match is_try || matched.is_missing {
                        true => RouteAction::Fallback { file },
                        false => RouteAction::Rewrite { file },
                    };
                    self.site.routes.push(RoutePlan::new(&origin, vec![paths.clone()]).with_action(action));
                }
                Err(name) => self.report.left_out(
                    &origin,
                    format_args!("the file depends on {name}"),
                    "write a [[site.redirect]] with status 200",
                ),
            }
        }
    }

    fn header(&mut self, directive: &SourceDirective, args: &[String], matched: &MatchedRequests) {
        let mut route = RoutePlan::new(&directive.origin(), matched.patterns());
        if let Some((name, value)) = args.split_first() {
            self.header_line(name, value, &directive.origin(), &mut route);
        }
        for child in directive.children().iter().filter(|child| child.name != "defer") {
            self.header_line(&child.name, &child.args, &child.origin(), &mut route);
        }
        self.site.routes.push(route);
    }

    fn header_line(&mut self, name: &str, value: &[String], origin: &DirectiveOrigin, route: &mut RoutePlan) {
        if let Some(name) = name.strip_prefix('-') {
            match &*name.to_ascii_lowercase() {
                "server" => self.plan.server.push(PlannedOption::new("server-header", "false", origin)),
                "via" | "x-powered-by" => {
                    self.report.not_needed(origin, "tarpon sends no such header of its own")
                }
                _ => route.removed_headers.push(Given::new(name, origin)),
            }
            return;
        }
        let name = name.trim_start_matches(['+', '?', '>']);
        let Some(text) = value.first() else { return };
        if value.len() > 1 {
            return self.report.left_out(
                origin,
                "a part of a header is not replaced",
                "write the whole value into [[site.header]]",
            );
        }
        if text.contains('{') && text.contains('}') {
            return self.report.left_out(
                origin,
                format_args!("the value of {name} depends on the request"),
                "write a fixed value into [[site.header]]",
            );
        }
        match &*name.to_ascii_lowercase() {
            "cache-control" => route.cache = Some(Given::new(&**text, origin)),
            "x-content-type-options" => {
                self.report.not_needed(origin, "tarpon sends X-Content-Type-Options: nosniff")
            }
            "alt-svc" => self.report.left_out(
                origin,
                "tarpon does not speak HTTP/3 yet",
                "nothing: clients use HTTP/2",
            ),
            "server" => self.report.left_out(
                origin,
                "the name of the server is tarpon",
                "set server-header = false in [server]",
            ),
            _ => route
                .headers
                .push(Given::new(format!("{name}: {}", text.replace(['\n', '\r', '\t'], " ")), origin)),
        }
    }

    fn reverse_proxy(
        &mut self,
        directive: &SourceDirective,
        args: &[String],
        matched: &MatchedRequests,
        block: &CaddyBlock,
    ) {
        let origin = directive.origin();
        self.guarded(matched, &origin);
        let Some(mut upstream) = proxy::reverse_proxy(directive, args, self.report) else { return };
        if let Some(size) = &self.max_body {
            upstream.options.push(PlannedOption { name: "max-body", given: size.clone() });
        }
        for paths in matched.patterns() {
            let is_stripped = !block.stripped.is_empty() && paths == PathPattern::below(&block.stripped);
            if !block.stripped.is_empty() && !is_stripped {
                self.report.left_out(
                    &origin,
                    format_args!("only the whole prefix {} is taken from the path", block.stripped),
                    "write a value of `proxy` for each prefix",
                );
                continue;
            }
            let base = is_stripped.then(|| "/".to_owned());
            let route = RoutePlan::new(&origin, vec![paths]);
            self.site.routes.push(route.with_action(RouteAction::Proxy { upstream: upstream.clone(), base }));
        }
    }

    fn respond(&mut self, directive: &SourceDirective, args: &[String], matched: &MatchedRequests) {
        let origin = directive.origin();
        let status = args.iter().find_map(|arg| arg.parse::<u16>().ok()).or(directive
            .children()
            .iter()
            .find(|child| child.name == "status")
            .and_then(|child| child.arg(0).parse().ok()));
        let status = match &*directive.name {
            "respond" => status.unwrap_or(200),
            "abort" => 403,
            _ => status.unwrap_or(500),
        };
        if status >= 400
            && let Some((networks, is_outside)) = &matched.clients
        {
            // The matcher selects the clients to refuse.
            let name = if *is_outside { "allow" } else { "deny" };
            let limits =
                networks.iter().map(|network| PlannedOption::new(name, &**network, &origin)).collect();
            self.route(&origin, matched).limits = limits;
            return;
        }
        if status >= 400 {
            if status != 403 {
                self.report.differs(&origin, format_args!("these paths answer 403 in place of {status}"));
            }
            let route = self.route(&origin, matched);
            route.action = RouteAction::Closed;
            return;
        }
        match &matched.patterns()[..] {
            [PathPattern::Exact(path)]
                if ["health", "ping", "alive", "ready", "status"].iter().any(|word| path.contains(word)) =>
            {
                self.report.differs(
                    &origin,
                    "`health-path` answers 200 under every host, and 503 once the server shuts down",
                );
                self.plan.server.push(PlannedOption::new("health-path", &**path, &origin));
            }
            _ => self.report.left_out(
                &origin,
                "a response is a file, a redirect or an error",
                "write the text into a file of the site",
            ),
        }
    }

    fn tls(&mut self, directive: &SourceDirective) {
        let origin = directive.origin();
        match &directive.args[..] {
            [cert, key] => {
                self.site.options.push(PlannedOption::new("tls-cert", &**cert, &origin));
                self.site.options.push(PlannedOption::new("tls-key", &**key, &origin));
            }
            [email] if email.contains('@') => {
                self.plan.server.push(PlannedOption::new("acme-email", &**email, &origin))
            }
            _ => {}
        }
        let addresses: Vec<String> = self
            .site
            .listen
            .iter()
            .map(|given| given.value.clone())
            .filter(|value| value.starts_with("tls:"))
            .collect();
        for child in directive.children() {
            let origin = child.origin();
            match (&*child.name, child.arg(0)) {
                ("protocols", "tls1.3") => {
                    let option = PlannedOption::new("tls-min-version", "1.3", &origin);
                    self.plan
                        .listeners
                        .extend(addresses.iter().map(|address| (address.clone(), option.clone())));
                }
                ("protocols" | "ciphers" | "curves" | "alpn" | "key_type", _) => {
                    self.report
                        .not_needed(&origin, "tarpon offers TLS 1.2 and 1.3 with the ciphers of rustls");
                }
                ("issuer", "internal" | "acme") => {}
                (
                    "dns"
                    | "dns_challenge_override_domain"
                    | "propagation_delay"
                    | "propagation_timeout"
                    | "resolvers",
                    _,
                ) => {
                    let hint = "set acme-challenge = \"dns-01\" and acme-dns-hook in [server]: docs/acme.md";
                    self.report.left_out(&origin, "a program of yours publishes the records", hint);
                }
                ("ca", directory) => {
                    self.plan.server.push(PlannedOption::new("acme-directory", directory, &origin))
                }
                ("client_auth", _) => {
                    let of = |name: &str| child.children().iter().find(|option| option.name == name);
                    let file = of("trusted_ca_cert_file").map(|option| option.arg(0)).or(of("trust_pool")
                        .filter(|option| option.arg(0) == "file")
                        .map(|option| option.arg(1)));
                    let is_required = of("mode").is_none_or(|mode| mode.arg(0) == "require_and_verify");
                    match file.filter(|file| !file.is_empty() && is_required) {
                        Some(file) => {
                            let option = PlannedOption::new("tls-client-ca", file, &origin);
                            self.plan
                                .listeners
                                .extend(addresses.iter().map(|address| (address.clone(), option.clone())));
                        }
                        None => self.close(&MatchedRequests::all(), &origin),
                    }
                }
                (name, _) => known::report_unread(name, &origin, self.report),
            }
        }
    }

    fn log(&mut self, directive: &SourceDirective) {
        let origin = directive.origin();
        let (mut target, mut target_origin) = ("-".to_owned(), origin.clone());
        let mut is_json = true;
        for child in directive.children() {
            let origin = child.origin();
            match (&*child.name, child.arg(0)) {
                ("output", "file") => (target, target_origin) = (child.arg(1).to_owned(), origin),
                ("output", "stdout" | "stderr") => {}
                ("output", "discard") => (target, target_origin) = ("off".to_owned(), origin),
                ("output", kind) => self.report.left_out(
                    &origin,
                    format_args!("tarpon writes no log to {kind}"),
                    "set `access-log` to a file, or to unix:PATH for the socket of a log daemon",
                ),
                ("format", "json") => {}
                ("format", "console") => is_json = false,
                ("format", kind) => self.report.left_out(
                    &origin,
                    format_args!("the log has no format {kind}"),
                    "`access-log-format` and `log-client-ip` have others: docs/logging.md",
                ),
                ("level", _) => self.report.not_needed(&origin, "a log has every request"),
                (name, _) => known::report_unread(name, &origin, self.report),
            }
            for option in child.children().iter().filter(|_| child.name == "output") {
                let origin = option.origin();
                let size = |text: &str| {
                    text.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b').to_uppercase()
                        + "iB"
                };
                match &*option.name {
                    "roll_size" => self.plan.log.push(PlannedOption::new(
                        "access-log-size",
                        size(option.arg(0)),
                        &origin,
                    )),
                    "roll_keep" => {
                        self.plan.log.push(PlannedOption::new("access-log-keep", option.arg(0), &origin))
                    }
                    _ => self.report.left_out(
                        &origin,
                        "tarpon rotates a log by size and age",
                        "set `access-log-size`, `access-log-age` and `access-log-keep`",
                    ),
                }
            }
        }
        if is_json && target != "off" {
            self.site.options.push(PlannedOption::new("access-log", target, &target_origin));
            self.site.options.push(PlannedOption::new("access-log-format", "json", &origin));
            self.report.differs(&origin, "the fields of the log have other names: docs/logging.md");
        } else {
            self.site.options.push(PlannedOption::new("access-log", target, &target_origin));
        }
    }

    fn handle_errors(&mut self, directive: &SourceDirective) {
        let origin = directive.origin();
        let codes: Vec<u16> = directive.args.iter().filter_map(|code| code.parse().ok()).collect();
        let mut page = None;
        for child in directive.children() {
            match &*child.name {
                "rewrite" => page = child.args.last().cloned(),
                "file_server" | "root" => {}
                _ => self.report.left_out(
                    &child.origin(),
                    "an error page is an HTML file of the site",
                    "write the page, and name it in a [[site.error-page]]",
                ),
            }
        }
        match page.as_deref() {
            None => {}
            Some("/404.html") => {
                self.report.not_needed(&origin, "the nearest 404.html answers missing paths")
            }
            Some(page) if page.contains('{') => {
                let hint = "write a [[site.error-page]] for each status; 404.html needs none";
                self.report.left_out(&origin, format_args!("the page {page} depends on the error"), hint);
            }
            Some(page) => {
                let codes = if codes.is_empty() { vec![404] } else { codes };
                self.site.error_pages.extend(codes.into_iter().map(|code| (code, Given::new(page, &origin))));
            }
        }
    }
}

/// Directives that keep clients out.
const GUARDS: &[&str] = &["basic_auth", "basicauth", "forward_auth", "respond", "abort", "error"];

/// Those of them that let some clients in.
const PROTECTING: &[&str] = &["basic_auth", "basicauth", "forward_auth"];

/// Returns the paths that lie in a block and match a directive within it.
fn within(outer: &PathPattern, own: &PathPattern, stripped: &str) -> Option<PathPattern> {
    let prefixed = |path: &str| format!("{stripped}{path}");
    let own = match own {
        PathPattern::All => return Some(outer.clone()),
        PathPattern::Exact(path) => PathPattern::Exact(prefixed(path)),
        PathPattern::Below(path) => PathPattern::Below(prefixed(path)),
        other if stripped.is_empty() => other.clone(),
        PathPattern::Ending(ending) => PathPattern::Other(format!("{stripped}/*{ending}")),
        PathPattern::Other(rule) => PathPattern::Other(prefixed(rule)),
    };
    let is_inside = match (outer, own.prefix()) {
        (PathPattern::All, _) => true,
        (PathPattern::Below(path) | PathPattern::Exact(path), Some(inner)) => inner.starts_with(&**path),
        (PathPattern::Below(path), None) => own.rule().starts_with(&**path),
        (outer, _) => *outer == own,
    };
    is_inside.then_some(own)
}

/// Returns paths of a block that contain all those that match a directive within it. `None`: there are none.
fn protected_within(outer: &PathPattern, own: &PathPattern, stripped: &str) -> Option<PathPattern> {
    let meets = || match (own.prefix(), outer.prefix()) {
        (Some(own), Some(outer)) => PathPattern::below(&format!("{stripped}{own}")).within_prefix(outer),
        _ => true,
    };
    within(outer, own, stripped).or_else(|| meets().then(|| outer.clone()))
}

/// Escapes characters that a target of a rule would read otherwise.
fn escaped(text: &str) -> String {
    let mut to = String::new();
    for (at, char) in text.char_indices() {
        match char {
            ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '|' | '}' => {
                to += &format!("%{:02X}", u32::from(char))
            }
            ':' if text[at + 1..].starts_with(|char: char| char.is_ascii_alphabetic()) => to += "%3A",
            char => to.push(char),
        }
    }
    to
}

/// Returns a size such as `10MB` in the form of tarpon.
fn binary_size(text: &str) -> String {
    let text = text.trim();
    let at = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[at..].trim().to_ascii_lowercase().chars().next() {
        Some('k') => "KiB",
        Some('m') => "MiB",
        Some('g') => "GiB",
        _ => "",
    };
    format!("{}{unit}", &text[..at])
}
