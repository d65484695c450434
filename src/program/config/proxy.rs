//! The option `proxy` of `[[site]]`: paths, and the servers that answer them.
//!
//! ```text
//! /api/=http://127.0.0.1:9000    *.php=php    /app/=https://a.internal/v1,https://b.internal/v1
//! └ paths └ servers                    └ name of an [[upstream]]     └ base ┘
//! ```

use super::{
    CommandKind::Serve,
    Config, Opt, ValueKind, cgi,
    option::OPT,
    upstream_address::{UpstreamUrl, base},
};
use crate::{
    PathPrefix, PathPrefixError, ProxyPaths, SiteProxy, UpstreamConfig, UpstreamProtocol, UpstreamServer,
};

/// A value of `proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProxyValue {
    pub(super) paths: ProxyPaths,
    pub(super) target: ProxyTarget,
    /// What stands in the place of the prefix, without a slash at its end.
    pub(super) base: Option<String>,
}

/// What answers the paths of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProxyTarget {
    /// The `[[upstream]]` of this name.
    Named(String),
    /// These servers, which have no section.
    Servers(Vec<UpstreamUrl>),
}

/// The longest name of an upstream in bytes: tables and metrics have it in each line.
const NAME_LEN_MAX: usize = 64;

pub(super) const PROXY: Opt = Opt {
    name: "proxy",
    commands: &[Serve],
    heading: "Upstream servers",
    value_name: "PATH=TARGET",
    kind: ValueKind::Text(canonical, add),
    is_list: true,
    example: "/api/=http://127.0.0.1:9000",
    invalid: NO_PROXIES,
    help: "Send requests for this path and all below it to upstream servers",
    details: "PATH is such as /api/, / for all paths, or *.php for paths with a segment that ends so. TARGET is the name of an [[upstream]], or one or more \
              addresses with commas between them: http://HOST:PORT, https://HOST:PORT, http://unix:/PATH, fastcgi://HOST:PORT or fastcgi://unix:/PATH. \
              A path behind TARGET, or just a slash, takes the place of PATH in requests.",
    ..OPT
};

const NO_PROXIES: &[&str] = &[
    "",
    "/api/",
    "/api/=",
    "=http://a",
    "api=http://a",
    "/a/../b=http://c",
    "/a//b=http://c",
    "/%7eb=http://c",
    "~ .php=http://a",
    "*=http://a",
    "*php=http://a",
    "/a*=http://b",
    "/a=127.0.0.1:9000",
    "/a=ftp://b",
    "/a=ws://b",
    "/a=http://b,",
    "/a=http://b,fastcgi://c:1",
    "/a=http://b,http://c/",
    "/a=http://b,http://b:80",
    "/a=b,c",
    "/a=b/../c",
    "*.php=b/",
    "*.php=http://b/c",
];

impl ProxyValue {
    /// Parses a value.
    ///
    /// # Errors
    /// What was expected.
    pub(super) fn parse(text: &str) -> Result<ProxyValue, String> {
        let expected = || "expected a path and a target with = between them".to_owned();
        let (paths, target) = text.split_once('=').ok_or_else(expected)?;
        let paths = parse_paths(paths)?;
        let (target, base) = match target {
            "" => return Err(expected()),
            target if target.contains("://") => servers(target)?,
            target => named(target)?,
        };
        if base.is_some() && matches!(paths, ProxyPaths::Suffix(_)) {
            return Err(
                "expected no path behind the target: it replaces a prefix, and *.SUFFIX is none".to_owned()
            );
        }
        Ok(ProxyValue { paths, target, base })
    }

    /// Returns the paths in their canonical form.
    pub(super) fn paths_text(&self) -> String {
        match &self.paths {
            ProxyPaths::All => "/".to_owned(),
            ProxyPaths::Below(prefix) => prefix.to_string(),
            ProxyPaths::Suffix(suffix) => format!("*{suffix}"),
        }
    }

    /// Returns the name of the upstream. That of servers without a section is their text.
    pub(super) fn upstream(&self) -> String {
        match &self.target {
            ProxyTarget::Named(name) => name.clone(),
            ProxyTarget::Servers(urls) => {
                let texts: Vec<_> = urls.iter().map(UpstreamUrl::server_text).collect();
                texts.join(",")
            }
        }
    }

    /// Returns the language of servers that have no section.
    pub(super) fn protocol(&self) -> Option<UpstreamProtocol> {
        match &self.target {
            ProxyTarget::Named(_) => None,
            ProxyTarget::Servers(urls) => urls.first().map(|url| url.protocol),
        }
    }

    /// Returns the value in its canonical form: with the base behind each server.
    fn text(&self) -> String {
        let base = self.base.as_ref().map(|base| if base.is_empty() { "/" } else { base });
        let base = base.unwrap_or_default();
        let targets: Vec<_> = self.upstream().split(',').map(|server| format!("{server}{base}")).collect();
        format!("{}={}", self.paths_text(), targets.join(","))
    }
}

fn canonical(text: &str) -> Result<String, String> {
    ProxyValue::parse(text).map(|value| value.text())
}

/// Adds the paths to the site that was added last, and servers without a section to the upstreams.
fn add(config: &mut Config, text: String) {
    let value = ProxyValue::parse(&text).expect("the value is in canonical form");
    let upstream = value.upstream();
    let is_known = config.upstreams.iter().any(|known| known.name == upstream);
    if let ProxyTarget::Servers(urls) = &value.target
        && !is_known
    {
        let server = |url: &UpstreamUrl| UpstreamServer {
            address: url.address.clone(),
            weight: 1,
            is_backup: false,
            is_draining: false,
        };
        config.upstreams.push(UpstreamConfig {
            name: upstream.clone(),
            protocol: urls[0].protocol,
            servers: urls.iter().map(server).collect(),
            ..UpstreamConfig::default()
        });
    }
    let site = config.site();
    if let ProxyPaths::Suffix(suffix) = &value.paths {
        // The source of a program is never served: no request reaches it by this name, but links and other sites could.
        site.source.programs.suffixes.push(suffix.clone());
    }
    site.proxies.push(SiteProxy { paths: value.paths, upstream, base: value.base });
}

fn parse_paths(text: &str) -> Result<ProxyPaths, String> {
    if let Some(suffix) = text.strip_prefix('*') {
        let expected = |_| "expected *, a dot and an extension, such as *.php, or a path".to_owned();
        return cgi::suffix(suffix).map(ProxyPaths::Suffix).map_err(expected);
    }
    if text.contains('*') {
        return Err("expected a path without *: it stands for all paths below it".to_owned());
    }
    let prefix: PathPrefix = text.parse().map_err(|error: PathPrefixError| error.to_string())?;
    Ok(if prefix.as_str().is_empty() { ProxyPaths::All } else { ProxyPaths::Below(prefix) })
}

/// Parses addresses with commas between them.
fn servers(text: &str) -> Result<(ProxyTarget, Option<String>), String> {
    let mut urls: Vec<UpstreamUrl> = Vec::new();
    let is_several = text.contains(',');
    for (at, part) in text.split(',').enumerate() {
        let place = if is_several { format!(" (address {})", at + 1) } else { String::new() };
        let url = UpstreamUrl::parse(part).map_err(|error| format!("{error}{place}"))?;
        if let Some(first) = urls.first() {
            if first.protocol != url.protocol {
                return Err("expected addresses with one scheme".to_owned());
            }
            if first.base != url.base {
                return Err("expected the same path behind each address".to_owned());
            }
        }
        if urls.contains(&url) {
            return Err(format!("expected each address once{place}"));
        }
        urls.push(url);
    }
    let base = urls.first().and_then(|url| url.base.clone());
    Ok((ProxyTarget::Servers(urls), base))
}

/// Parses the name of an upstream, and a path behind it.
fn named(text: &str) -> Result<(ProxyTarget, Option<String>), String> {
    let (name, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    if name.contains(',') {
        return Err("expected one name: an [[upstream]] has a list of servers".to_owned());
    }
    if name.contains(':') {
        return Err("expected http://, https:// or fastcgi:// in front of the address".to_owned());
    }
    let name = upstream_name(name)?;
    let base = if path.is_empty() { None } else { Some(base(path).map_err(|error| error.to_string())?) };
    Ok((ProxyTarget::Named(name), base))
}

/// Accepts the name of an upstream: no address is such a name.
pub(super) fn upstream_name(name: &str) -> Result<String, String> {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_char) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "expected a name of 1 to {NAME_LEN_MAX} letters, digits, hyphens, underscores and dots"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canonical form, the name of the upstream and the base, or what was expected.
    type ParsedProxy = Result<(&'static str, &'static str, Option<&'static str>), &'static str>;

    #[test]
    #[rustfmt::skip]
    fn value_names_paths_servers_and_a_base() {
        let cases: &[(&str, ParsedProxy)] = &[
            // text                                     canonical, upstream, base
            ("/api/=http://127.0.0.1:9000",             Ok(("/api=http://127.0.0.1:9000", "http://127.0.0.1:9000", None))),
            ("/=http://a:80",                           Ok(("/=http://a", "http://a", None))),
            ("/=http://a/",                             Ok(("/=http://a/", "http://a", Some("")))),
            ("/api/=http://a/v1/",                      Ok(("/api=http://a/v1", "http://a", Some("/v1")))),
            ("/api/=http://a/v1,http://b:80/v1/",       Ok(("/api=http://a/v1,http://b/v1", "http://a,http://b", Some("/v1")))),
            ("/api/=http://a/x=y",                      Ok(("/api=http://a/x=y", "http://a", Some("/x=y")))),
            ("/~a/=http://b",                           Ok(("/~a=http://b", "http://b", None))),
            ("*.php=fastcgi://unix:/run/php/fpm.sock",  Ok(("*.php=fastcgi://unix:/run/php/fpm.sock", "fastcgi://unix:/run/php/fpm.sock", None))),
            ("*.php=php",                               Ok(("*.php=php", "php", None))),
            ("/app=app-1.x_y",                          Ok(("/app=app-1.x_y", "app-1.x_y", None))),
            ("/app=app/",                               Ok(("/app=app/", "app", Some("")))),
            ("/app=app/v2",                             Ok(("/app=app/v2", "app", Some("/v2")))),
            ("/app",                                    Err("expected a path and a target with = between them")),
            ("/app=",                                   Err("expected a path and a target with = between them")),
            ("app=http://a",                            Err("expected a path that begins with /, such as /docs")),
            ("~ \\.php$=http://a",                      Err("expected a path that begins with /, such as /docs")),
            ("/a/../b=http://c",                        Err("expected a path without empty segments, . and ..")),
            ("/%61=http://c",                           Err("expected a decoded path: no %, ?, # or control characters")),
            ("/*.php=http://c",                         Err("expected a path without *: it stands for all paths below it")),
            ("*=http://c",                              Err("expected *, a dot and an extension, such as *.php, or a path")),
            ("/a=localhost:9000",                       Err("expected http://, https:// or fastcgi:// in front of the address")),
            ("/a=unix:/run/a",                          Err("expected http://, https:// or fastcgi:// in front of the address")),
            ("/a=b c",                                  Err("expected a name of 1 to 64 letters, digits, hyphens, underscores and dots")),
            ("/a=b,c",                                  Err("expected one name: an [[upstream]] has a list of servers")),
            ("/a=http://b,ftp://c",                     Err("expected http://, https:// or fastcgi:// (address 2)")),
            ("/a=http://b,",                            Err("expected http://, https:// or fastcgi:// in front of the address (address 2)")),
            ("/a=http://b,https://c",                   Err("expected addresses with one scheme")),
            ("/a=http://b/x,http://c",                  Err("expected the same path behind each address")),
            ("/a=http://b,http://B:80",                 Err("expected each address once (address 2)")),
            ("/a=b/%2e",                                Err("expected a path without empty segments, . and .., escapes and spaces")),
            ("*.php=http://a/",                         Err("expected no path behind the target: it replaces a prefix, and *.SUFFIX is none")),
        ];
        for (text, want) in cases {
            let value = ProxyValue::parse(text);
            let found = value.as_ref().map(|value| (value.text(), value.upstream(), value.base.clone()));
            let want = want.map(|(text, name, base)| (text.to_owned(), name.to_owned(), base.map(str::to_owned)));
            assert_eq!(found.map_err(|error| &**error), want, "{text:?}");
            if let Ok(value) = value {
                assert_eq!(ProxyValue::parse(&value.text()), Ok(value), "{text:?}");
            }
        }
    }
}
