//! `[[site.header]]` and `[[site.redirect]]`: rules of a site that its configuration has, not its files.
//!
//! Their patterns, headers and targets are those of `_headers` and `_redirects`, so the packer checks them.

use super::{
    Config, ConfigError, ConfigFile, ConfigSection, Opt, OptionValue, ValueKind, option::OPT, site::open_path,
};
use crate::{HeaderEntry, RedirectEntry, RulePosition, RuleText};
use std::collections::BTreeMap;
use tarpon_site::Printable;

pub(super) const HEADER: ConfigSection = ConfigSection {
    name: "site.header",
    count: 0..=usize::MAX,
    help: "Headers of the responses for some paths of the site above it, as in _headers; entries of that file follow these",
    key: None,
    options: &[
        Opt {
            name: "path",
            value_name: "PATTERN",
            kind: ValueKind::Text(open_path, |config, path| config.header().path = text(path)),
            required: true,
            example: "/assets/*",
            invalid: &["", "assets/*"],
            help: "Select the paths",
            details: "Placeholders and * work as in _headers.",
            ..OPT
        },
        Opt {
            name: "set",
            value_name: "HEADER",
            kind: ValueKind::Text(field, |config, field| config.header().set.push(text(field))),
            is_list: true,
            example: "X-Frame-Options: DENY",
            invalid: &["", "X-Frame-Options"],
            help: "Send these headers",
            details: "The last entry that sets a header counts; with rules = \"cloudflare\" the values are joined.",
            ..OPT
        },
        Opt {
            name: "remove",
            value_name: "NAME",
            kind: ValueKind::Text(field_name, |config, name| config.header().remove.push(text(name))),
            is_list: true,
            example: "Referrer-Policy",
            invalid: &["", "X-Frame-Options: DENY", "a b"],
            help: "Leave out these headers",
            details: "Those of earlier entries, and those that options such as secure-headers add.",
            ..OPT
        },
    ],
    add: |config| config.site().source.policy.rules.headers.push(HeaderEntry::default()),
};

pub(super) const REDIRECT: ConfigSection = ConfigSection {
    name: "site.redirect",
    count: 0..=usize::MAX,
    help: "A redirect or rewrite of the site above it, as in _redirects; the rules of that file come after these",
    key: None,
    options: &[
        Opt {
            name: "from",
            value_name: "PATTERN",
            kind: ValueKind::Text(open_path, |config, from| config.redirect().from = text(from)),
            required: true,
            example: "/news/*",
            invalid: &["", "news"],
            help: "Answer requests for these paths",
            details: "Placeholders, * and parameters behind the path work as in _redirects.",
            ..OPT
        },
        Opt {
            name: "to",
            value_name: "TARGET",
            kind: ValueKind::Text(target, |config, to| config.redirect().to = text(to)),
            required: true,
            example: "/blog/:splat",
            invalid: &["", "blog", "ftp://example.org/"],
            help: "Redirect to this path or URL, or send the file at this path",
            ..OPT
        },
        Opt {
            name: "status",
            value_name: "STATUS",
            kind: ValueKind::Count(200..=599, "", |config, status| {
                config.redirect().status = u16::try_from(status).ok();
            }),
            default: super::OptionDefault::Described("301; 302 with rules = \"cloudflare\""),
            example: "302",
            help: "Set the status of the response",
            details: "301, 302, 303, 307 and 308 redirect; 200, 403, 404, 410, 451, 500 and 503 send a file.",
            ..OPT
        },
        Opt {
            name: "force",
            kind: ValueKind::Flag(|config, on| config.redirect().force = on),
            help: "Answer even if the site has a file at the path",
            details: "As ! in _redirects.",
            ..OPT
        },
    ],
    add: |config| config.site().source.policy.rules.redirects.push(RedirectEntry::default()),
};

/// Sets the positions of all rules, and adds the error of each rule that has one. The packer finds errors that depend on the files of the
/// site, such as a missing target, and reports them with these positions.
pub(super) fn find_errors(
    file: &ConfigFile,
    entries: &[OptionValue],
    config: &mut Config,
    errors: &mut Vec<ConfigError>,
) {
    let mut values = BTreeMap::new();
    for entry in entries {
        let (&[site, ..], Some(number)) = (&entry.within[..], entry.number) else { continue };
        let rules = &mut config.sites[site].source.policy.rules;
        rules.files = file.paths().map(|path| path.printable().to_string().into()).collect();
        for (at, span) in entry.spans.iter().enumerate() {
            let text = match (entry.section.own_name(), entry.option.name) {
                ("header", "path") => &mut rules.headers[number].path,
                ("header", "set") => &mut rules.headers[number].set[at],
                ("header", "remove") => &mut rules.headers[number].remove[at],
                ("redirect", "from") => &mut rules.redirects[number].from,
                ("redirect", "to") => &mut rules.redirects[number].to,
                ("location", "path") => &mut rules.paths[number].path,
                ("location", "cache") => rules.paths[number].cache.get_or_insert_default(),
                ("error-page", "path") => &mut rules.error_pages[number].path,
                _ => continue,
            };
            text.position = file.position(span.start);
            values.insert(text.position, (entry, at));
        }
    }
    for site in &config.sites {
        for (position, error) in site.source.policy.rules.errors(site.source.dialect) {
            let Some((entry, at)) = values.get(&position) else { continue };
            let expected = match entry.section.own_name() {
                "redirect" => "expected a rule as in _redirects",
                "error-page" => "expected an error page",
                _ => "expected a rule as in _headers",
            };
            errors.push(entry.error(*at, error.to_string(), expected, error.hint()));
        }
    }
}

impl Config {
    /// Returns the entry of headers that was added last.
    fn header(&mut self) -> &mut HeaderEntry {
        self.site().source.policy.rules.headers.last_mut().expect("add() pushed an entry")
    }

    /// Returns the redirect that was added last.
    fn redirect(&mut self) -> &mut RedirectEntry {
        self.site().source.policy.rules.redirects.last_mut().expect("add() pushed a redirect")
    }
}

/// Returns a text whose position is not known yet.
pub(super) fn text(text: String) -> RuleText {
    RuleText { text, position: RulePosition::default() }
}

/// Accepts a name and a value.
fn field(field: &str) -> Result<String, String> {
    match field.contains(':') {
        true => Ok(field.to_owned()),
        false => Err("expected a name, a colon and a value".to_owned()),
    }
}

/// Accepts a name.
fn field_name(name: &str) -> Result<String, String> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if is_name { Ok(name.to_owned()) } else { Err("expected the name of a header".to_owned()) }
}

/// Accepts a path of the site, or a URL.
fn target(target: &str) -> Result<String, String> {
    match ["/", "http://", "https://"].iter().any(|start| target.starts_with(start)) {
        true => Ok(target.to_owned()),
        false => {
            Err("expected a path that begins with /, or a URL that begins with http:// or https://"
                .to_owned())
        }
    }
}
