//! The paths of a directive, as a pattern of tarpon: `/a`, `/a/*`, `/*.css`, `/a/:p1/b`.

/// Paths that a directive applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPattern {
    /// All paths.
    All,
    /// One path.
    Exact(String),
    /// A path and all paths below it; without a slash at the end.
    Below(String),
    /// Paths with this ending, as in `/*.css`. It begins with a dot.
    Ending(String),
    /// Any other pattern, in the syntax of rules.
    Other(String),
}
use PathPattern::{All, Below, Ending, Exact, Other};

impl PathPattern {
    /// Returns the pattern for a path and all paths below it.
    pub(super) fn below(path: &str) -> PathPattern {
        match path.trim_end_matches('/') {
            "" => All,
            path => Below(path.to_owned()),
        }
    }

    /// Returns the pattern in the syntax of `_headers` and `_redirects`.
    pub(super) fn rule(&self) -> String {
        match self {
            All => "/*".to_owned(),
            Exact(path) => escaped(path),
            Below(path) => format!("{}/*", escaped(path)),
            Ending(ending) => format!("/*{}", escaped(ending)),
            Other(rule) => rule.clone(),
        }
    }

    /// Returns the pattern as a prefix, if it is one. One path counts as a prefix of itself.
    pub(super) fn prefix(&self) -> Option<&str> {
        match self {
            All => Some("/"),
            Exact(path) | Below(path) => Some(path),
            Ending(_) | Other(_) => None,
        }
    }

    /// Returns the longest prefix that all paths of the pattern have: whole segments.
    pub(super) fn fixed_prefix(&self) -> String {
        match self {
            All | Ending(_) => "/".to_owned(),
            Exact(path) | Below(path) => path.clone(),
            Other(rule) => {
                let fixed = rule.find(['*', ':', '%']).map_or(rule.as_str(), |at| &rule[..at]);
                fixed.rfind('/').map_or("/", |at| &fixed[..at.max(1)]).to_owned()
            }
        }
    }

    /// Returns whether a path lies below this one. Only for prefixes.
    pub(super) fn within_prefix(&self, path: &str) -> bool {
        let outer = self.prefix().unwrap_or("/").trim_end_matches('/');
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the pattern as the option `proxy` has it.
    pub(super) fn proxy(&self) -> Option<String> {
        match self {
            All => Some("/".to_owned()),
            Exact(path) => Some(path.clone()),
            Below(path) => Some(format!("{path}/")),
            Ending(ending) => Some(format!("*{ending}")),
            Other(_) => None,
        }
    }

    /// Returns the pattern as seen by a site that is mounted at a path. `None`: its paths lie elsewhere.
    pub(super) fn within(&self, mount: &str) -> Option<PathPattern> {
        let strip = |path: &str| {
            path.strip_prefix(mount)
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
                .map(str::to_owned)
        };
        match self {
            Exact(path) => Some(match strip(path)? {
                rest if rest.is_empty() => Exact("/".to_owned()),
                rest => Exact(rest),
            }),
            Below(path) => Some(PathPattern::below(&strip(path)?)),
            Other(rule) => Some(Other(strip(rule)?)),
            All | Ending(_) => None,
        }
    }
}

/// Escapes the characters of a path that a rule would read otherwise.
pub(super) fn escaped(path: &str) -> String {
    let mut to = String::new();
    for char in path.chars() {
        match char {
            '*' | ':' | '%' | '?' | '#' | ' ' => to += &format!("%{:02X}", u32::from(char)),
            char => to.push(char),
        }
    }
    to
}
