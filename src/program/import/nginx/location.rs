//! A block location: paths, and what answers them.

use super::{
    protection::NginxProtection,
    proxy, report_unread,
    scope::{NginxScope, limit_option},
    server::{RedirectedHost, ServerReader, WholeHostRedirect},
};
use crate::program::import::{
    path::PathPattern,
    plan::{Given, PlannedOption, RouteAction, RoutePlan},
    regex::{self, RegexPattern},
    report::ImportReport,
    source::{DirectiveOrigin, SourceDirective},
    users,
};

/// What `return` answers.
pub(super) enum ReturnValue {
    /// A status without text.
    Status(u16),
    Redirect {
        to: String,
        status: u16,
    },
    /// A text.
    Text,
    /// A redirect whose target depends on this variable.
    Variable(String),
}

/// Expressions for PHP scripts, with and without what follows their name.
const PHP: &[&str] = &[
    r"\.php$",
    r"\.php",
    r".php$",
    r"\.php(/|$)",
    r"\.php(?:$|/)",
    r"\.php(?:/|$)",
    r"\.php($|/)",
    r"[^/]\.php(/|$)",
    r"[^/]\.php(?:/|$)",
    r"^.+\.php$",
    r"^.+\.php",
    r"^(.+\.php)(/.+)?$",
    r"^(.+\.php)(.*)$",
    r"^(.+\.php)(/.+)$",
    r"^.+\.php(/|$)",
    r"^(.+?\.php)(/.*)?$",
    r"^/.+\.php(/|$)",
    r"\.php(?:$|\/)",
    r"^.+?\.php(/.*)?$",
];

/// Reads a location and those within it.
pub(super) fn read(
    directive: &SourceDirective,
    outer: &NginxScope,
    reader: &mut ServerReader<'_>,
    report: &mut ImportReport,
) {
    let origin = directive.origin();
    let (kind, path) = match &directive.args[..] {
        [path] => split_modifier(path),
        [kind, path] => (&**kind, &**path),
        _ => return report.left_out(&origin, "it has no path", "write the path after `location`"),
    };
    let mut scope = outer.inner();
    let mut body = LocationBody::default();
    for child in directive.children() {
        body.read(child, &mut scope, reader, report);
    }
    scope.protection.report_unused(directive.children(), report);
    let denies = scope.denies_all().or(body.denies(reader, &scope));
    let paths = match (kind, scope.literal(path)) {
        ("" | "^~", _) if path.starts_with('@') => return,
        ("=", Some(path)) => Some(vec![PathPattern::Exact(path)]),
        ("" | "^~", Some(path)) => Some(vec![PathPattern::below(&path)]),
        ("~" | "~*", _) if PHP.contains(&path) => Some(vec![PathPattern::Ending(".php".to_owned())]),
        ("~" | "~*", _) if is_dotfiles(path) => {
            match denies {
                Some(denies) => report.not_needed(
                    &denies,
                    "names that begin with a dot are not served, except those below /.well-known",
                ),
                None => {
                    report.left_out(&origin, "names that begin with a dot are not served", "rename the files")
                }
            }
            return;
        }
        ("~" | "~*", _) => {
            regex::patterns(path).map(|patterns| patterns.into_iter().map(|pattern| pattern.paths).collect())
        }
        _ => None,
    };
    let Some(paths) = paths else {
        if scope.protection.is_closed() {
            return protect_expression(&origin, path, &scope, reader, report);
        }
        match denies {
            Some(_) => report.left_out(
                &origin,
                format_args!("tarpon has no pattern for {path}"),
                "remove such files from the directory of the site: until then, every client gets them",
            ),
            None => report.left_out(
                &origin,
                format_args!("tarpon has no pattern for {path}"),
                "write its directives for a prefix, or for a pattern with one *: docs/rules.md",
            ),
        }
        return;
    };
    if paths
        .iter()
        .any(|paths| paths.prefix().is_some_and(|prefix| prefix.starts_with("/.well-known/acme-challenge")))
    {
        report.not_needed(&origin, "with `domain` tarpon obtains certificates by itself; files below /.well-known are served for certbot, too");
        return;
    }
    let is_within_segment = !kind.starts_with('~') && kind != "=" && !path.ends_with('/');
    let is_repeated = outer.protection.is_closed() && scope.protection.is_inherited();
    if let [PathPattern::Below(prefix)] = &paths[..]
        && is_within_segment
        && scope.protection.is_closed()
        && !is_repeated
    {
        report.differs(&origin, users::segment_remark(prefix));
    }
    body.apply(&origin, (kind, paths), scope, outer, reader, report);
}

/// Protects all paths that an expression may match, as tarpon has no pattern for it.
fn protect_expression(
    origin: &DirectiveOrigin,
    expression: &str,
    scope: &NginxScope,
    reader: &mut ServerReader<'_>,
    report: &mut ImportReport,
) {
    let paths = PathPattern::below(&fixed_prefix(expression));
    let prefix = paths.prefix().unwrap_or("/").to_owned();
    report.left_out(
        origin,
        format_args!(
            "tarpon has no pattern for {expression}: all paths of {prefix} are protected in its place"
        ),
        "write its directives for a prefix: docs/passwords.md",
    );
    let mut route = RoutePlan::new(origin, vec![paths]);
    route.users = scope.users(reader.context, report);
    route.has_inherited_users = scope.protection.is_inherited();
    (route.is_expression, route.counts_in_mounts) = (true, true);
    reader.server.site.routes.push(route);
}

/// Returns a prefix that all paths have which match an expression.
fn fixed_prefix(expression: &str) -> String {
    let Some(text) = expression.strip_prefix('^').filter(|text| !text.contains('|')) else {
        return "/".to_owned();
    };
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '-' | '_');
    let end = text.find(|char| !is_plain(char)).unwrap_or(text.len());
    // What follows may repeat the last character, or leave it out.
    let end = if end < text.len() { end.saturating_sub(1) } else { end };
    let fixed = &text[..end];
    fixed.rfind('/').map_or("/", |at| &fixed[..at.max(1)]).to_owned()
}

fn split_modifier(path: &str) -> (&str, &str) {
    for kind in ["~*", "^~", "~", "="] {
        if let Some(path) = path.strip_prefix(kind) {
            return (kind, path);
        }
    }
    ("", path)
}

/// Returns whether an expression stands for names that begin with a dot.
fn is_dotfiles(regex: &str) -> bool {
    let starts = [r"/\.", r"(^|/)\.", r"^/\.", r"^\.", r"/\.(?!", r"(?:^|/)\.", r"/[.]"];
    starts.iter().any(|start| regex.starts_with(start))
        && !regex.contains("|css")
        && !regex.starts_with(r"/\.well")
}

/// The directives of a location that say what answers.
#[derive(Default)]
struct LocationBody {
    alias: Option<Given>,
    own_root: bool,
    pass: Option<SourceDirective>,
    returned: Option<SourceDirective>,
    rewrites: Vec<SourceDirective>,
    try_files: Option<SourceDirective>,
    internal: Option<DirectiveOrigin>,
    nested: Vec<SourceDirective>,
}

impl LocationBody {
    fn read(
        &mut self,
        child: &SourceDirective,
        scope: &mut NginxScope,
        reader: &mut ServerReader<'_>,
        report: &mut ImportReport,
    ) {
        let origin = child.origin();
        match &*child.name {
            "location" => self.nested.push(child.clone()),
            "alias" => match scope.literal(child.arg(0)) {
                Some(path) => self.alias = Some(Given::new(path, &origin)),
                None => {
                    let hint = "write a [[site]] with `mount` for each directory";
                    report.left_out(
                        &origin,
                        format_args!("the directory {} depends on a variable", child.arg(0)),
                        hint,
                    );
                }
            },
            "proxy_pass" | "fastcgi_pass" => self.pass = Some(child.clone()),
            "return" => self.returned = Some(child.clone()),
            "rewrite" => self.rewrites.push(child.clone()),
            "try_files" => self.try_files = Some(child.clone()),
            "internal" => self.internal = Some(origin),
            "break" => report.not_needed(&origin, "rules apply once"),
            "limit_conn" => drop(reader.context.connection_limit(child, report).map(|_| {
                report.left_out(
                    &origin,
                    "connections are counted for the whole server",
                    "set `max-connections-per-ip` in [server]",
                );
            })),
            "root" => {
                self.own_root = true;
                scope.read(child, reader.context, report);
            }
            // Passwords for some methods only: all others need them, too.
            "limit_except" if child.children().iter().any(NginxProtection::asks) => {
                let asking = child.children().iter().filter(|inner| inner.arg(0) != "off");
                asking.for_each(|inner| _ = scope.protection.read(inner));
                report.differs(&origin, "its password is for all methods: tarpon has none for some of them");
            }
            _ if scope.read(child, reader.context, report) => {}
            _ => match limit_option(child, report) {
                Some(_) => {
                    report.left_out(&origin, "timeouts are those of a site", "set them in the [[site]]")
                }
                None => report_unread(child, report),
            },
        }
    }

    /// Returns the directive that answers every request with an error.
    fn denies(&self, reader: &ServerReader<'_>, scope: &NginxScope) -> Option<DirectiveOrigin> {
        let returned = self.returned.as_ref()?;
        match return_value(returned, reader, scope, &PathPattern::All) {
            ReturnValue::Status(status) if status >= 400 => Some(returned.origin()),
            _ => None,
        }
    }

    fn apply(
        self,
        origin: &DirectiveOrigin,
        (kind, paths): (&str, Vec<PathPattern>),
        scope: NginxScope,
        outer: &NginxScope,
        reader: &mut ServerReader<'_>,
        report: &mut ImportReport,
    ) {
        let is_whole = paths == [PathPattern::All];
        let mut route = RoutePlan::new(origin, paths.clone());
        route.headers = scope.own_headers().to_vec();
        route.cache = scope.own_cache();
        route.listings = scope.own_listings();
        route.is_expression = kind.starts_with('~');
        route.is_preferred = ["=", "^~"].contains(&kind);
        self.options(&mut route, &scope, outer, reader, report);
        if scope.has_own_headers() && !outer.headers.is_empty() && self.pass.is_none() {
            report.differs(origin, "headers of the block around it are sent here, too: nginx leaves them out where a location has its own");
        }
        for rewrite in &self.rewrites {
            if self.pass.is_none() {
                self::rewrite(rewrite, reader, &scope, &paths, report);
            }
        }
        route.action = self.action(origin, &paths, &scope, outer, reader, report);
        // The directory for all paths is that of the site.
        if let (true, RouteAction::Files(dir @ Some(_))) = (is_whole, &mut route.action) {
            reader.server.site.root = dir.take();
        } else if is_whole && route.action == RouteAction::Files(None) {
            reader.server.site.root = scope.root.clone().or(reader.server.site.root.take());
        }
        if is_whole && route.action == RouteAction::Files(None) {
            let index = scope.index.iter().map(|given| PlannedOption { name: "index", given: given.clone() });
            if scope.index.iter().map(|given| &*given.value).ne(["index.html"]) {
                reader.server.site.options.retain(|option| option.name != "index");
                reader.server.site.options.extend(index);
            }
        }
        if let (Some(fallback), RouteAction::Files(None)) =
            (scope.fallback.as_ref().filter(|_| outer.fallback.is_none()), &route.action)
        {
            route.action = RouteAction::Fallback { file: fallback.value.clone() };
        }
        if !scope.error_pages.is_empty() && scope.error_pages != outer.error_pages {
            for (status, page) in scope.error_pages.iter().filter(|_| is_whole) {
                reader.server.site.error_pages.push((*status, page.clone()));
            }
            if let Some((_, page)) = scope.error_pages.first().filter(|_| !is_whole) {
                report.left_out(
                    &page.origin,
                    "an error page is that of a whole site",
                    "put a 404.html into the directory, or use [[site.error-page]]",
                );
            }
        }
        route.is_open = scope.is_unrestricted() && route.action != RouteAction::Closed;
        reader.server.site.routes.push(route);
        for nested in &self.nested {
            read(nested, &scope, reader, report);
        }
    }

    /// Sets limits and the access log.
    fn options(
        &self,
        route: &mut RoutePlan,
        scope: &NginxScope,
        outer: &NginxScope,
        reader: &mut ServerReader<'_>,
        report: &mut ImportReport,
    ) {
        route.users = scope.users(reader.context, report);
        route.has_inherited_users = scope.protection.is_inherited();
        route.opened_by = scope.protection.opened_by().filter(|_| outer.protection.is_closed());
        route.limits = match (route.users.are_protected(), outer.protection.is_closed()) {
            (true, _) => scope.own_rates(),
            (false, false) => scope.own_limits(report),
            // The section of the block around may be closed, with no address in it.
            (false, true) => [scope.effective_addresses(report), scope.own_rates()].concat(),
        };
        let is_whole = route.paths == [PathPattern::All];
        for option in scope.own_access_log() {
            match (option.name, &*option.given.value) {
                _ if is_whole => reader.server.site.options.push(option.clone()),
                ("access-log", "off") => route.access_log = Some(option.given.clone()),
                _ => report.left_out(
                    &option.given.origin,
                    "a path has no log of its own",
                    "set `access-log` in the [[site]]",
                ),
            }
        }
    }

    fn action(
        &self,
        origin: &DirectiveOrigin,
        paths: &[PathPattern],
        scope: &NginxScope,
        outer: &NginxScope,
        reader: &mut ServerReader<'_>,
        report: &mut ImportReport,
    ) -> RouteAction {
        if let Some(returned) = &self.returned {
            return self.return_action(returned, paths, scope, reader, report);
        }
        if let Some(pass) = &self.pass {
            if let Some(action) = self.proxied(pass, paths, scope, reader, report) {
                return action;
            }
            // No file takes the place of a server: it might be the source of a script.
            return RouteAction::Closed;
        }
        if let Some(internal) = &self.internal {
            let is_error_page = paths
                .iter()
                .all(|paths| matches!(paths, PathPattern::Exact(path) if reader.error_paths.contains(path)));
            if is_error_page {
                report.not_needed(internal, "an error page may be asked for by its path, too");
                return RouteAction::Options;
            }
            report.left_out(
                internal,
                "no server behind can name a file in X-Accel-Redirect",
                "let it send the file itself; the paths are closed",
            );
            return RouteAction::Closed;
        }
        if let Some(directive) = &self.try_files {
            let first = paths.first().cloned().unwrap_or(PathPattern::All);
            let action = try_files(directive, reader, scope, &first, report);
            if action != RouteAction::Options
                && !(matches!(action, RouteAction::Files(None)) && (self.alias.is_some() || self.own_root))
            {
                if let (RouteAction::Fallback { .. }, Some(dir)) = (&action, self.dir(paths, scope, outer)) {
                    // The fallback is another route: this one has the files.
                    reader.server.site.routes.push(
                        RoutePlan::new(origin, paths.to_vec()).with_action(RouteAction::Files(Some(dir))),
                    );
                } else if paths == [PathPattern::All] {
                    reader.server.site.root = scope.root.clone().or(reader.server.site.root.take());
                }
                return action;
            }
        }
        RouteAction::Files(self.dir(paths, scope, outer))
    }

    /// Returns the directory that stands for the paths, if it is not that of the site.
    fn dir(&self, paths: &[PathPattern], scope: &NginxScope, outer: &NginxScope) -> Option<Given> {
        if let Some(alias) = &self.alias {
            return Some(alias.clone());
        }
        let root = scope.root.as_ref().filter(|_| self.own_root)?;
        if outer
            .root
            .as_ref()
            .is_some_and(|outer| outer.value.trim_end_matches('/') == root.value.trim_end_matches('/'))
        {
            return None;
        }
        match paths {
            [PathPattern::All] => None,
            [PathPattern::Below(path)] => Some(Given {
                value: format!("{}{path}", root.value.trim_end_matches('/')),
                origin: root.origin.clone(),
            }),
            _ => Some(root.clone()),
        }
    }

    fn return_action(
        &self,
        returned: &SourceDirective,
        paths: &[PathPattern],
        scope: &NginxScope,
        reader: &mut ServerReader<'_>,
        report: &mut ImportReport,
    ) -> RouteAction {
        let origin = returned.origin();
        if paths == [PathPattern::All]
            && let Some(redirect) = host_redirect(returned, reader, scope)
        {
            reader.server.redirect = Some(redirect);
            return RouteAction::Options;
        }
        // Each path has its own target.
        let mut first = None;
        for paths in paths {
            match return_value(returned, reader, scope, paths) {
                ReturnValue::Status(status @ 400..) => {
                    if status != 403 {
                        report.differs(&origin, format_args!("these paths answer 403 in place of {status}"));
                    }
                    return RouteAction::Closed;
                }
                ReturnValue::Status(_) | ReturnValue::Text => {
                    match paths {
                        PathPattern::Exact(path) if is_health(path) && reader.health_path.is_none() => {
                            report.differs(&origin, "`health-path` answers 200 under every host, and 503 once the server shuts down");
                            reader.health_path = Some(Given::new(path.as_str(), &origin));
                        }
                        _ => report.left_out(
                            &origin,
                            "a response is a file, a redirect or an error",
                            "write the text into a file of the site",
                        ),
                    }
                }
                ReturnValue::Variable(name) => {
                    report.left_out(
                        &origin,
                        format_args!("the target depends on {name}"),
                        "write a [[site.redirect]] for each target",
                    );
                }
                ReturnValue::Redirect { to, status } => {
                    let action = RouteAction::Redirect { to, status };
                    match first {
                        None => first = Some((paths.clone(), action)),
                        Some(_) => reader
                            .server
                            .site
                            .routes
                            .push(RoutePlan::new(&origin, vec![paths.clone()]).with_action(action)),
                    }
                }
            }
        }
        let Some((own, action)) = first else { return RouteAction::Options };
        if paths.len() > 1 {
            reader.server.site.routes.push(RoutePlan::new(&origin, vec![own]).with_action(action));
            return RouteAction::Options;
        }
        action
    }

    fn proxied(
        &self,
        pass: &SourceDirective,
        paths: &[PathPattern],
        scope: &NginxScope,
        reader: &mut ServerReader<'_>,
        report: &mut ImportReport,
    ) -> Option<RouteAction> {
        let action = proxy::action(pass, scope, reader.context, report)?;
        let RouteAction::Proxy { upstream, mut base } = action else { return Some(action) };
        for rewrite in &self.rewrites {
            match (paths, stripped_prefix(rewrite)) {
                ([PathPattern::Below(path)], Some((prefix, to))) if prefix.trim_end_matches('/') == path => {
                    base = Some(to)
                }
                _ => {
                    let hint = "name a path behind the target of `proxy`, which takes the place of the prefix: docs/upstreams.md";
                    report.left_out(
                        &rewrite.origin(),
                        "tarpon replaces a prefix of the path, and rewrites it in no other way",
                        hint,
                    );
                }
            }
        }
        // A path takes the place of a prefix; that of one path or an ending is no prefix.
        if let Some(text) = &base {
            match paths {
                [PathPattern::Below(_)] => {}
                [PathPattern::Exact(path)] if path == text => base = None,
                [PathPattern::All] if text == "/" => base = None,
                [PathPattern::Exact(_) | PathPattern::All] => {}
                _ => {
                    report.left_out(
                        &pass.origin(),
                        format_args!("the path {text} takes the place of no prefix"),
                        "write a value of `proxy` for each prefix",
                    );
                    base = None;
                }
            }
        }
        if let Some(try_files) = &self.try_files {
            let hint = "serve a prefix of paths with `mount` in a [[site]] of its own";
            report.left_out(
                &try_files.origin(),
                "the upstream server answers all of its paths: no file comes first",
                hint,
            );
        }
        Some(RouteAction::Proxy { upstream, base })
    }
}

fn is_health(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    ["health", "ping", "alive", "live", "ready", "status"].iter().any(|word| path.contains(word))
}

/// Returns the prefix that a rewrite replaces, and by what: `^/api/(.*)$ /$1` replaces `/api/` by `/`.
fn stripped_prefix(rewrite: &SourceDirective) -> Option<(String, String)> {
    let [RegexPattern { paths: PathPattern::Below(prefix), captures }] =
        &regex::patterns(rewrite.arg(0))?[..]
    else {
        return None;
    };
    match (&captures[..], rewrite.arg(1).strip_suffix("$1")) {
        ([Some(capture)], Some(to)) if capture == ":splat" && to.ends_with('/') => {
            Some((prefix.clone(), to.to_owned()))
        }
        ([Some(capture)], Some("")) if capture == "/:splat" => Some((prefix.clone(), "/".to_owned())),
        _ => None,
    }
}

/// Returns what `try_files` does for some paths.
pub(super) fn try_files(
    directive: &SourceDirective,
    reader: &mut ServerReader<'_>,
    scope: &NginxScope,
    paths: &PathPattern,
    report: &mut ImportReport,
) -> RouteAction {
    let origin = directive.origin();
    let Some((last, tried)) = directive.args.split_last() else { return RouteAction::Options };
    for file in tried {
        match &**file {
            "$uri" | "$uri/" | "$uri/index.html" => {}
            "$uri.html" => {
                reader.server.site.options.push(PlannedOption::new("clean-urls", "true", &origin));
                report.differs(&origin, "`clean-urls` redirects /about.html to /about, too");
            }
            file => {
                let hint = "name the file in a [[site.redirect]] with status 200";
                report.left_out(
                    &origin,
                    format_args!("files are looked for at the path of the request, and not at {file}"),
                    hint,
                );
            }
        }
    }
    let path = last.split('?').next().unwrap_or_default().trim_end_matches("$is_args$args");
    match path {
        path if path.starts_with('=') || ["$uri", "$uri/"].contains(&path) => RouteAction::Files(None),
        name if name.starts_with('@') => named(name, directive, reader, scope, paths, report),
        path if path.ends_with(".php") => {
            let hint = "let the server of scripts answer all paths, or redirect `/` to the script: docs/upstreams.md#fastcgi";
            report.left_out(
                &origin,
                format_args!("a missing file is not answered by the script {path}"),
                hint,
            );
            RouteAction::Files(None)
        }
        path if path.starts_with('/') && !path.contains('$') => {
            RouteAction::Fallback { file: path.to_owned() }
        }
        path => {
            report.left_out(
                &origin,
                format_args!("a missing file is answered by a file with a fixed path, and not by {path}"),
                "name it in a [[site.redirect]] with status 200",
            );
            RouteAction::Files(None)
        }
    }
}

/// Returns what a location with a name does after `try_files`.
fn named(
    name: &str,
    directive: &SourceDirective,
    reader: &mut ServerReader<'_>,
    scope: &NginxScope,
    paths: &PathPattern,
    report: &mut ImportReport,
) -> RouteAction {
    let origin = directive.origin();
    let Some(location) = reader.named.iter().find(|location| location.arg(0) == name).cloned() else {
        report.left_out(&origin, format_args!("there is no location {name}"), "write the location");
        return RouteAction::Files(None);
    };
    let mut inner = scope.inner();
    let mut pass = None;
    let mut returned = None;
    for child in location.children() {
        match &*child.name {
            "proxy_pass" | "fastcgi_pass" => pass = Some(child),
            "return" | "rewrite" => returned = Some(child),
            _ if inner.read(child, reader.context, report) => {}
            _ => report_unread(child, report),
        }
    }
    // A location with a name inherits from the server, not from the location of the request.
    let is_closed = match inner.protection.is_inherited() {
        true => reader.is_protected && !scope.protection.is_closed(),
        false => inner.protection.is_closed(),
    };
    if is_closed {
        let hint = "write its directives into the location of the paths";
        report.left_out(
            &location.origin(),
            format_args!("{name} has another access control: all of {} is closed", paths.rule()),
            hint,
        );
        return RouteAction::Closed;
    }
    if let Some(pass) = pass {
        let hint = "serve the directories of files with `mount` in a [[site]] of their own";
        report.left_out(
            &origin,
            format_args!("the upstream server answers all of {}: no file comes first", paths.rule()),
            hint,
        );
        return proxy::action(pass, &inner, reader.context, report).unwrap_or(RouteAction::Files(None));
    }
    if let Some(returned) = returned.filter(|returned| returned.name == "return")
        && let ReturnValue::Redirect { to, status } = return_value(returned, reader, &inner, paths)
    {
        // Only missing files are redirected: the rule has no `force`.
        let mut route = RoutePlan::new(&returned.origin(), vec![paths.clone()]);
        route.action = RouteAction::Redirect { to, status };
        report.differs(
            &returned.origin(),
            "the redirect comes before files of the site: remove `force` if they come first",
        );
        return route.action;
    }
    if let Some(rewrite) = returned.filter(|returned| {
        returned.name == "rewrite" && returned.arg(1).starts_with('/') && !returned.arg(1).contains('$')
    }) {
        let file = rewrite.arg(1).split('?').next().unwrap_or_default();
        if !file.ends_with(".php") {
            return RouteAction::Fallback {
                file: if file == "/" { "/index.html".to_owned() } else { file.to_owned() },
            };
        }
    }
    let hint = "name a file in a [[site.redirect]] with status 200";
    report.left_out(&origin, format_args!("a missing file is not answered by {name}"), hint);
    RouteAction::Files(None)
}

/// Reads `rewrite`.
pub(super) fn rewrite(
    directive: &SourceDirective,
    reader: &mut ServerReader<'_>,
    scope: &NginxScope,
    within: &[PathPattern],
    report: &mut ImportReport,
) {
    let origin = directive.origin();
    let (regex, to, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
    let Some(patterns) = regex::patterns(regex) else {
        let hint = "write a [[site.redirect]] with placeholders: docs/rules.md";
        return report.left_out(&origin, format_args!("tarpon has no pattern for {regex}"), hint);
    };
    let is_url = to.contains("://") || to.starts_with("$scheme");
    let status = match flag {
        "permanent" => Some(301),
        "redirect" => Some(302),
        _ if is_url => Some(302),
        _ => None,
    };
    for RegexPattern { paths, captures } in patterns {
        let paths = match (paths, within) {
            // The location chooses the paths.
            (PathPattern::All, [one]) if captures.iter().all(Option::is_none) => one.clone(),
            (paths, _) => paths,
        };
        let is_inside = |outer: &PathPattern| match (outer, paths.prefix()) {
            (PathPattern::All, _) => true,
            (PathPattern::Below(outer), Some(inner)) => inner.starts_with(&**outer),
            (outer, _) if *outer == paths => true,
            (PathPattern::Below(outer), None) => paths.rule().starts_with(&**outer),
            _ => false,
        };
        if !within.iter().any(is_inside) {
            report.left_out(
                &origin,
                format_args!("{regex} matches paths outside of the location"),
                "write a [[site.redirect]]: docs/rules.md",
            );
            continue;
        }
        match target(to, reader, scope, &paths, &captures) {
            Ok(to) => {
                let action = match status {
                    Some(status) => RouteAction::Redirect { to, status },
                    None if to.split('?').next().unwrap_or_default().ends_with(".php")
                        || to.contains('?') =>
                    {
                        let hint = "let the server behind answer the path itself";
                        report.left_out(&origin, format_args!("a path is not rewritten to {to}"), hint);
                        continue;
                    }
                    None => RouteAction::Rewrite { file: to },
                };
                reader.server.site.routes.push(RoutePlan::new(&origin, vec![paths]).with_action(action));
            }
            Err(name) => report.left_out(
                &origin,
                format_args!("the target depends on {name}"),
                "write a [[site.redirect]] for each target",
            ),
        }
    }
}

/// Returns the redirect of whole hosts that a `rewrite` of all paths is.
pub(super) fn whole_rewrite(
    directive: &SourceDirective,
    reader: &ServerReader<'_>,
    scope: &NginxScope,
) -> Option<WholeHostRedirect> {
    let [RegexPattern { paths: PathPattern::All, captures }] = &regex::patterns(directive.arg(0))?[..] else {
        return None;
    };
    let status = match directive.arg(2) {
        "permanent" => 301,
        _ => 302,
    };
    let url = directive.arg(1).trim_end_matches('?');
    let url = match captures.first() {
        Some(Some(capture)) if capture == "/:splat" => {
            url.strip_suffix("$1").map(|host| format!("{host}$request_uri"))
        }
        Some(Some(capture)) if capture == ":splat" => {
            url.strip_suffix("/$1").map(|host| format!("{host}$request_uri"))
        }
        _ => None,
    };
    parse_host(
        url.as_deref().unwrap_or(directive.arg(1).trim_end_matches('?')),
        status,
        &directive.origin(),
        reader,
        scope,
    )
}

/// Returns the redirect of whole hosts that a `return` is.
pub(super) fn host_redirect(
    directive: &SourceDirective,
    reader: &ServerReader<'_>,
    scope: &NginxScope,
) -> Option<WholeHostRedirect> {
    let (status, url) = match &directive.args[..] {
        [url] => (302, url),
        [status, url] => (status.parse().ok()?, url),
        _ => return None,
    };
    parse_host(url, status, &directive.origin(), reader, scope)
}

fn parse_host(
    url: &str,
    status: u16,
    origin: &DirectiveOrigin,
    reader: &ServerReader<'_>,
    scope: &NginxScope,
) -> Option<WholeHostRedirect> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = match scheme {
        "https" => Some("https"),
        "http" => Some("http"),
        "$scheme" => None,
        _ => return None,
    };
    let host = rest
        .strip_suffix("$request_uri")
        .or(rest.strip_suffix("$uri$is_args$args"))
        .or(rest.strip_suffix("$uri"))?;
    let to = match host {
        // Port 443 is that of the scheme.
        host if reader.is_own_name(host.trim_end_matches(":443")) => {
            (scheme == Some("https")).then_some(RedirectedHost::SameWithTls)?
        }
        host => {
            let host = scope.literal(host)?;
            let is_name = !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
            is_name.then_some(RedirectedHost::Other { scheme, host })?
        }
    };
    (300..400).contains(&status).then(|| WholeHostRedirect { to, status, origin: origin.clone() })
}

/// Returns what `return` answers for some paths.
pub(super) fn return_value(
    directive: &SourceDirective,
    reader: &ServerReader<'_>,
    scope: &NginxScope,
    paths: &PathPattern,
) -> ReturnValue {
    let (status, text) = match &directive.args[..] {
        [one] => match one.parse() {
            Ok(status) => return ReturnValue::Status(status),
            Err(_) => (302, one.as_str()),
        },
        [status, text, ..] => (status.parse().unwrap_or(200), text.as_str()),
        [] => return ReturnValue::Status(200),
    };
    match status {
        301 | 302 | 303 | 307 | 308 => match target(text, reader, scope, paths, &[]) {
            Ok(to) => ReturnValue::Redirect { to, status },
            Err(name) => ReturnValue::Variable(name),
        },
        400.. => ReturnValue::Status(status),
        _ => ReturnValue::Text,
    }
}

/// Returns the target of a redirect in the syntax of rules.
///
/// # Errors
/// The variable that it depends on.
fn target(
    text: &str,
    reader: &ServerReader<'_>,
    scope: &NginxScope,
    paths: &PathPattern,
    captures: &[Option<String>],
) -> Result<String, String> {
    // tarpon keeps the query by itself.
    let text = ["$is_args$args", "?$args", "?$query_string", "?"]
        .iter()
        .fold(text, |text, end| text.strip_suffix(end).unwrap_or(text));
    let mut to = String::new();
    let mut rest = text;
    for own in
        ["$scheme://$host", "$scheme://$http_host", "$scheme://$server_name", "$scheme://$host:$server_port"]
    {
        if let Some(path) = rest.strip_prefix(own).filter(|path| path.starts_with(['/', '$'])) {
            rest = path;
        }
    }
    while let Some(at) = rest.find('$') {
        to += &percent_encoded(&rest[..at]);
        let tail = &rest[at + 1..];
        let (name, behind) = match tail.strip_prefix('{') {
            Some(tail) => tail.split_once('}').unwrap_or((tail, "")),
            None if tail.starts_with(|char: char| char.is_ascii_digit()) => tail.split_at(1),
            None => tail.split_at(
                tail.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(tail.len()),
            ),
        };
        let unknown = || format!("${name}");
        to += &match (name, name.parse::<usize>()) {
            (_, Ok(number)) => {
                let capture = number
                    .checked_sub(1)
                    .and_then(|at| captures.get(at))
                    .cloned()
                    .flatten()
                    .ok_or_else(unknown)?;
                // A name of a placeholder ends where no further letter follows.
                if capture.contains(':')
                    && behind.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_')
                {
                    return Err(unknown());
                }
                capture.strip_prefix('/').filter(|_| to.ends_with('/')).unwrap_or(&capture).to_owned()
            }
            ("request_uri" | "uri" | "document_uri", _) => {
                let path = match paths {
                    PathPattern::All => "/:splat".to_owned(),
                    PathPattern::Exact(path) => percent_encoded(path),
                    PathPattern::Below(path) => format!("{}/:splat", percent_encoded(path)),
                    PathPattern::Ending(_) | PathPattern::Other(_) => return Err(unknown()),
                };
                path.strip_prefix('/').filter(|_| to.ends_with('/')).unwrap_or(&path).to_owned()
            }
            ("scheme", _) if to.is_empty() => reader.scheme().to_owned(),
            ("server_name", _) => {
                reader.server.site.hosts.first().map(|host| host.value.clone()).ok_or_else(unknown)?
            }
            ("host" | "http_host", _) => match &reader.server.site.hosts[..] {
                [host] => host.value.clone(),
                _ => return Err(unknown()),
            },
            _ => scope.variables.get(name).cloned().ok_or_else(unknown)?,
        };
        rest = behind;
        if to.len() > 16 << 10 {
            return Err(unknown());
        }
    }
    Ok(to + &percent_encoded(rest))
}

/// Escapes characters that a target of a rule would read otherwise.
fn percent_encoded(text: &str) -> String {
    let mut to = String::new();
    for (at, char) in text.char_indices() {
        match char {
            ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => {
                to += &format!("%{:02X}", u32::from(char))
            }
            ':' if text[at + 1..].starts_with(|char: char| char.is_ascii_alphabetic()) => to += "%3A",
            char => to.push(char),
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_prefix_of_an_expression_contains_all_its_paths() {
        #[rustfmt::skip]
        let cases: &[(&str, &str)] = &[
            // expression            prefix
            (r"^/a/b[0-9]+",         "/a"),
            (r"^/a/[0-9]+",          "/"),
            (r"^/files/x/[0-9]+/y",  "/files"),
            (r"^/a/?b",              "/"),
            (r"^/a/b/*c",            "/a"),
            (r"^/a|/b/c",            "/"),
            (r"/a/b[0-9]",           "/"),
            (r"\.php$",              "/"),
            (r"^[a-z]",              "/"),
            (r"^",                   "/"),
        ];
        for (expression, want) in cases {
            assert_eq!(fixed_prefix(expression), *want, "{expression}");
        }
    }
}
