//! Which paths a directive is for.

use crate::program::import::{
    path::PathPattern,
    regex::{self, RegexPattern},
    source::SourceDirective,
};
use std::collections::BTreeMap;

/// What a matcher selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MatchedRequests {
    /// The paths, each with what an expression has captured.
    pub(super) paths: Vec<(PathPattern, Vec<Option<String>>)>,
    /// The name of the expression, by which its captures are known.
    pub(super) regex_name: String,
    /// Networks, and whether the matcher selects the clients outside of them.
    pub(super) clients: Option<(Vec<String>, bool)>,
    /// Whether only missing files are meant.
    pub(super) is_missing: bool,
}

impl MatchedRequests {
    pub(super) fn all() -> MatchedRequests {
        MatchedRequests::of(PathPattern::All)
    }

    pub(super) fn of(paths: PathPattern) -> MatchedRequests {
        MatchedRequests { paths: vec![(paths, Vec::new())], ..MatchedRequests::default() }
    }

    pub(super) fn patterns(&self) -> Vec<PathPattern> {
        self.paths.iter().map(|(paths, _)| paths.clone()).collect()
    }
}

/// The matchers of a site, by name. `Err`: why tarpon has no such matcher.
pub(super) type NamedMatchers = BTreeMap<String, Result<MatchedRequests, String>>;

/// Returns the matcher of a directive, and its other arguments.
///
/// # Errors
/// Why tarpon has no such matcher.
pub(super) fn split<'d>(
    directive: &'d SourceDirective,
    named: &NamedMatchers,
) -> Result<(MatchedRequests, &'d [String]), String> {
    let Some((first, rest)) = directive.args.split_first() else { return Ok((MatchedRequests::all(), &[])) };
    // These take a path that stands alone as their value.
    let is_value =
        rest.is_empty() && first.starts_with('/') && ["root", "rewrite", "redir"].contains(&&*directive.name);
    match &**first {
        _ if is_value => Ok((MatchedRequests::all(), &directive.args)),
        "*" => Ok((MatchedRequests::all(), rest)),
        name if name.starts_with('@') => match named.get(name) {
            Some(matcher) => Ok((matcher.clone()?, rest)),
            None => Err(format!("no matcher has the name {name}")),
        },
        path if path.starts_with('/') => {
            let paths = pattern(path).ok_or_else(|| format!("tarpon has no pattern for {path}"))?;
            Ok((MatchedRequests::of(paths), rest))
        }
        _ => Ok((MatchedRequests::all(), &directive.args)),
    }
}

/// Returns the pattern for a path of Caddy, in which `*` stands for any characters.
pub(super) fn pattern(path: &str) -> Option<PathPattern> {
    match path {
        "*" | "/*" => Some(PathPattern::All),
        _ => match (path.strip_suffix("/*"), path.strip_suffix('*'), path.strip_prefix('*')) {
            _ if path.matches('*').count() == 0 => {
                path.starts_with('/').then(|| PathPattern::Exact(path.to_owned()))
            }
            _ if path.matches('*').count() > 1 => None,
            (Some(path), ..) if path.starts_with('/') => Some(PathPattern::below(path)),
            // `/api*` is meant for /api and what lies below it.
            (_, Some(path), _) if path.starts_with('/') => Some(PathPattern::below(path)),
            (_, _, Some(ending)) if ending.starts_with('.') && !ending.contains('/') => {
                Some(PathPattern::Ending(ending.to_owned()))
            }
            _ => None,
        },
    }
}

/// Reads the definition of a matcher: `@name path /a/*`, or `@name { … }`.
pub(super) fn define(directive: &SourceDirective) -> Result<MatchedRequests, String> {
    let mut conditions: Vec<(String, Vec<String>)> = Vec::new();
    if let Some((kind, args)) = directive.args.split_first() {
        conditions.push((kind.clone(), args.to_vec()));
    }
    for child in directive.children() {
        // `not` may have a block, too.
        match (&*child.name, child.children()) {
            ("not", [inner]) => {
                conditions.push(("not".to_owned(), [vec![inner.name.clone()], inner.args.clone()].concat()))
            }
            _ => conditions.push((child.name.clone(), child.args.clone())),
        }
    }
    let mut found = MatchedRequests::default();
    for (kind, args) in &conditions {
        let (is_not, kind, args) = match (&**kind, args.split_first()) {
            ("not", Some((kind, args))) => (true, &**kind, args),
            (kind, _) => (false, kind, &args[..]),
        };
        match (kind, is_not) {
            ("path", false) if found.paths.is_empty() => {
                for path in args {
                    let paths = pattern(path).ok_or_else(|| format!("tarpon has no pattern for {path}"))?;
                    found.paths.push((paths, Vec::new()));
                }
            }
            ("path_regexp", false) if found.paths.is_empty() => {
                let (name, text) = match args {
                    [text] => (directive.name.trim_start_matches('@'), text),
                    [name, text] => (&**name, text),
                    _ => return Err("the expression is missing".to_owned()),
                };
                let patterns =
                    regex::patterns(text).ok_or_else(|| format!("tarpon has no pattern for {text}"))?;
                found.regex_name = name.to_owned();
                found.paths =
                    patterns.into_iter().map(|RegexPattern { paths, captures }| (paths, captures)).collect();
            }
            ("remote_ip" | "client_ip", _) if found.clients.is_none() => {
                let mut networks = Vec::new();
                for network in args.iter().filter(|arg| *arg != "forwarded") {
                    match &**network {
                        "private_ranges" => networks
                            .extend(super::global::PRIVATE.iter().map(|network| (*network).to_owned())),
                        network => networks.push(network.to_owned()),
                    }
                }
                found.clients = Some((networks, is_not));
            }
            ("file", true) => found.is_missing = true,
            (kind, _) => {
                let not = if is_not { "not " } else { "" };
                return Err(format!("tarpon has no condition such as {not}{kind}"));
            }
        }
    }
    if found.paths.is_empty() {
        found.paths.push((PathPattern::All, Vec::new()));
    }
    Ok(found)
}
