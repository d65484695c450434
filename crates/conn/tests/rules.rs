//! Rules of a site, compared with a simple reference: for any rules, files and requests, the response is that of the reference, which
//! splits strings and uses neither records nor tables.

#![allow(clippy::disallowed_methods, reason = "a test writes the site that is packed")]

use bytes::Bytes;
use proptest::prelude::*;
use std::{fs, io::Cursor};
use tarpon_conn::sim::{Cuts, Sim, UNIX_S};
use tarpon_pack::{BuildCache, Dialect, PackOptions, Policy, check_rules, pack_dir};
use tarpon_site::{
    Image,
    rules::{Captures, RuleRequest, RuleRow, match_pattern},
};

#[derive(Clone, Debug)]
struct ReferenceRule {
    source: String,
    /// The name of a query parameter, and its value. `None`: any value but the empty one.
    parameter: Option<(&'static str, Option<&'static str>)>,
    forced: bool,
}

proptest! {
    #[test]
    fn the_response_is_that_of_the_reference(
        rules in prop::collection::vec(rule(), 0..7),
        files in prop::sample::subsequence(vec!["a/b", "b", "c/index.html"], 0..=3),
        requests in prop::collection::vec(request(), 1..12),
        netlify in any::<bool>(),
        absolute: bool,
    ) {
        let dialect = if netlify { Dialect::Netlify } else { Dialect::Cloudflare };
        let rules: Vec<_> = rules.into_iter().filter(|rule| netlify || rule.parameter.is_none()).collect();
        let text: String = rules.iter().enumerate().map(|(number, rule)| rule.line(number, netlify)).collect();
        let image = packed(&files, &text, PackOptions { dialect, ..PackOptions::new(UNIX_S) })?;
        for (path, query) in requests {
            let target = query.map_or(path.clone(), |query| format!("{path}?{query}"));
            let target = match (absolute, target.strip_prefix('/').filter(|_| path == "/")) {
                (false, _) => target,
                // The path of the root may be missing.
                (true, Some(rest)) => format!("http://a{rest}"),
                (true, None) => format!("http://a{target}"),
            };
            let got = respond(&image, &target);
            let want = expected(&rules, &files, &path, query, netlify);
            prop_assert_eq!(got, want, "{}\n{:?} {}", text, files, target);
        }
    }

    #[test]
    fn a_target_with_a_path_never_redirects_to_another_host(
        rules in prop::collection::vec(path_rule(), 1..4),
        files in prop::sample::subsequence(vec!["evil.com/index.html", "\\evil.com/index.html", "a/evil.com.html"], 0..=3),
        clean_urls: bool,
        requests in prop::collection::vec(request_of_pieces(), 1..8),
    ) {
        // Keep the rules that the packer accepts.
        let mut accepted = String::new();
        for rule in &rules {
            let more = format!("{accepted}{rule}\n");
            if check_rules(b"", more.as_bytes(), Dialect::Netlify, &[]).is_ok() {
                accepted = more;
            }
        }
        let policy = Policy { clean_urls, ..Policy::default() };
        let image = packed(&files, &accepted, PackOptions { policy, ..PackOptions::new(UNIX_S) })?;
        for target in requests {
            let (_, location) = respond(&image, &target);
            let location = location.unwrap_or("/".to_owned());
            prop_assert!(names_no_host(&location), "{accepted}{files:?} {target:?} redirects to {location:?}");
        }
    }

    #[test]
    fn no_bytes_make_a_rule_panic(
        bytes in prop::collection::vec(prop_oneof![0..8u8, any::<u8>(), Just(b'/')], 0..80),
        path in "/[a/]{0,6}",
    ) {
        let mut captures = Captures::default();
        match_pattern(&bytes, true, path.as_bytes(), &mut captures);
        let request = RuleRequest { path: path.as_bytes(), query: Some(b"a=b"), exists: false };
        if let Some(found) = RuleRow::match_request(&bytes, request) {
            let mut to = [0; 64];
            prop_assert!(found.location(&mut to).is_none_or(|len| len <= to.len()));
            prop_assert!(found.rewrite_path(&mut to).is_none_or(|len| len <= to.len()));
        }
    }
}

#[test]
#[rustfmt::skip]
fn redirects_to_a_path_stay_on_this_host() {
    let cases: &[(&str, &str, &str, &str)] = &[
        // case                     rule                            request              status and Location
        ("an empty splat",          "/docs/* /:splat/x",            "/docs/",            "301 /x"),
        ("without the slash",       "/docs/* /:splat/x",            "/docs",             "301 /x"),
        ("a host after it",         "/a/:id/* /:splat/:id 301",     "/a/evil.com/",      "301 /evil.com"),
        ("many slashes",            "/a/:id/* /:splat/:id 301",     "/a/evil.com////",   "301 /evil.com"),
        ("slashes in the splat",    "/a/* /:splat",                 "/a///evil.com",     "301 /evil.com"),
        ("slashes elsewhere stay",  "/a/* /b:splat",                "/a///c",            "301 /b//c"),
        ("a backslash",             "/a/* /:splat",                 "/a/\\evil.com",     "301 /%5Cevil.com"),
        ("an escaped backslash",    "/a/* /:splat",                 "/a/%5Cevil.com",    "301 /%5Cevil.com"),
        ("an escaped slash",        "/a/* /:splat",                 "/a/%2Fevil.com",    "404"),
        ("a tab",                   "/a/* /:splat",                 "/a/%09/evil.com",   "301 /%09/evil.com"),
        ("a line end",              "/a/* /:splat",                 "/a/%0D%0A/evil.com", "301 /%0D%0A/evil.com"),
        ("a slash in a parameter",  "/a p=:p /:p",                  "/a?p=/evil.com",    "301 /%2Fevil.com"),
        ("the same, escaped",       "/a p=:p /:p",                  "/a?p=%2Fevil.com",  "301 /%2Fevil.com"),
        ("a query",                 "/docs/* /:splat/x",            "/docs/?//evil.com", "301 /x?//evil.com"),
        ("a directory of this name", "/a /b",                       "/evil.com",         "301 /evil.com/"),
        ("by two slashes",          "/a /b",                        "//evil.com",        "404"),
        ("by slash and backslash",  "/a /b",                        "/\\evil.com",       "404"),
        ("another host by a rule",  "/a/* https://b.org/:splat",    "/a//x",             "301 https://b.org//x"),
        ("a rewrite",               "/a/* /:splat/evil.com/ 200",   "/a/",               "200"),
    ];
    for (name, rule, request, want) in cases {
        let image = packed(&["evil.com/index.html"], rule, PackOptions::new(UNIX_S)).expect("a site");
        let (status, location) = respond(&image, request);
        let got = location.map_or(status.clone(), |location| format!("{status} {location}"));
        assert_eq!(got, *want, "{name}: {rule}, {request}");
    }
}

/// Returns the image of a site with these files and rules.
fn packed(files: &[&str], rules: &str, options: PackOptions) -> Result<Image, TestCaseError> {
    let dir = tempfile::tempdir().expect("a directory");
    for name in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, "x").expect("a file");
    }
    fs::write(dir.path().join("_redirects"), rules).expect("a file");
    let mut out = Cursor::new(Vec::new());
    match pack_dir(dir.path(), &mut out, &options, &mut BuildCache::default()) {
        Ok(_) => Ok(Image::new(Bytes::from(out.into_inner())).expect("an image")),
        Err(error) => Err(TestCaseError::reject(error.to_string())),
    }
}

/// Returns status and Location of the response to a request for `target`.
fn respond(image: &Image, target: &str) -> (String, Option<String>) {
    let mut sim = Sim::new(image.clone());
    sim.client_sends(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    sim.run(Cuts::NONE);
    let got = String::from_utf8_lossy(&sim.wire).into_owned();
    let status = got.split(' ').nth(1).expect("a status").to_owned();
    (status, got.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned))
}

/// Returns whether a reference is a path, also for a browser, which treats `\` as a slash and drops control bytes.
fn names_no_host(location: &str) -> bool {
    let is_graphic = location.bytes().all(|byte| byte.is_ascii_graphic());
    is_graphic && location.starts_with('/') && !location[1..].starts_with(['/', '\\'])
}

/// A rule whose target is a path with placeholders and slashes anywhere.
fn path_rule() -> impl Strategy<Value = String> {
    let sources: Vec<(&str, &[&str])> = vec![
        ("/a/*", &[":splat"]),
        ("/a/:x/*", &[":x", ":splat"]),
        ("/:x/b/*", &[":x", ":splat"]),
        ("/a/:x", &[":x"]),
        ("/a p=:p", &[":p"]),
    ];
    let statuses = prop::sample::select(vec!["301", "302!", "308"]);
    (prop::sample::select(sources), statuses).prop_flat_map(|((source, names), status)| {
        let pieces = [names, names, &["/", "/", "evil.com", "%2F", "%5C", "?", "#"]].concat();
        prop::collection::vec(prop::sample::select(pieces), 1..5)
            .prop_map(move |pieces| format!("{source} /{} {status}", pieces.concat()))
    })
}

/// A target of a request. Most match one of the rules.
fn request_of_pieces() -> impl Strategy<Value = String> {
    let front = prop::sample::select(vec!["/a/", "/a/", "/a/evil.com/", "/x/b/", "/a?p=", "//", "/%5C", "/"]);
    let piece = prop::sample::select(vec![
        "/", "//", "evil.com", "%5C", "\\", "%2F", "%09", "%0d%0a", "%2e%2e/", "?",
    ]);
    (front, prop::collection::vec(piece, 0..4))
        .prop_map(|(front, pieces)| format!("{front}{}", pieces.concat()))
}

impl ReferenceRule {
    /// Returns the line of the rule in `_redirects`.
    fn line(&self, number: usize, netlify: bool) -> String {
        let parameter = match self.parameter {
            None => String::new(),
            Some((name, None)) => format!("{name}=:held "),
            Some((name, Some(value))) => format!("{name}={value} "),
        };
        let force = if self.forced && netlify { "!" } else { "" };
        format!("{} {parameter}https://t/{number}{} 302{force}\n", self.source, self.names())
    }

    /// Returns the placeholders of the target, one segment each.
    fn names(&self) -> String {
        let names = [":x", ":y", ":held"].into_iter().filter(|name| {
            self.source.contains(name) || *name == ":held" && matches!(self.parameter, Some((_, None)))
        });
        let splat = self.source.ends_with('*').then_some(":splat");
        names.chain(splat).map(|name| format!("/{name}")).collect()
    }

    /// Returns the Location of the redirect, if the rule matches.
    fn location(&self, number: usize, path: &str, query: Option<&str>, netlify: bool) -> Option<String> {
        let mut captured = Vec::new();
        let bare = |text: &str| match text.strip_suffix('/') {
            Some(bare) if netlify && !bare.is_empty() => bare.to_owned(),
            _ => text.to_owned(),
        };
        let (source, path, splat) = match self.source.strip_suffix("/*") {
            None => (bare(&self.source), bare(path), None),
            Some(source) => {
                let count = source.split('/').count();
                let parts: Vec<&str> = path.splitn(count + 1, '/').collect();
                let rest = parts.get(count).copied().or(netlify.then_some(""))?;
                (source.to_owned(), parts[..count.min(parts.len())].join("/"), Some(rest))
            }
        };
        let (source, path): (Vec<&str>, Vec<&str>) = (source.split('/').collect(), path.split('/').collect());
        if source.len() != path.len() {
            return None;
        }
        for (pattern, segment) in source.into_iter().zip(path) {
            match pattern.starts_with(':') {
                true if segment.is_empty() => return None,
                true => captured.push((pattern, segment)),
                false if pattern != segment => return None,
                false => {}
            }
        }
        captured.sort_unstable();
        if let Some((name, wanted)) = self.parameter {
            let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
            match wanted {
                Some(wanted) if wanted != value => return None,
                Some(_) => {}
                None if value.is_empty() => return None,
                None => captured.push((":held", value)),
            }
        }
        captured.extend(splat.map(|splat| (":splat", splat)));
        let captured: String = captured.into_iter().map(|(_, value)| format!("/{value}")).collect();
        let query = query.filter(|_| self.parameter.is_none()).map(|query| format!("?{query}"));
        Some(format!("https://t/{number}{captured}{}", query.unwrap_or_default()))
    }
}

/// Returns the expected status and Location.
fn expected(
    rules: &[ReferenceRule],
    files: &[&str],
    path: &str,
    query: Option<&str>,
    netlify: bool,
) -> (String, Option<String>) {
    let name = &path[1..];
    let is_file = files.contains(&name) || files.contains(&&*format!("{name}index.html"));
    let is_dir = files.contains(&&*format!("{name}/index.html"));
    for (number, rule) in rules.iter().enumerate() {
        if (is_file || is_dir) && netlify && !rule.forced {
            continue;
        }
        if let Some(location) = rule.location(number, path, query, netlify) {
            return ("302".to_owned(), Some(location));
        }
    }
    match (is_file, is_dir) {
        (true, _) => ("200".to_owned(), None),
        (_, true) => {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            ("301".to_owned(), Some(format!("{path}/{query}")))
        }
        _ => ("404".to_owned(), None),
    }
}

fn rule() -> impl Strategy<Value = ReferenceRule> {
    let segment = |name| prop::sample::select(vec!["a", "b", "c", name]);
    let source =
        (segment(":x"), prop::option::of(segment(":y")), prop_oneof![Just(""), Just("/"), Just("/*")]);
    let parameter = prop::option::of(prop::sample::select(vec![("q", None), ("q", Some("1")), ("r", None)]));
    (source, parameter, any::<bool>()).prop_map(|((one, other, end), parameter, forced)| {
        let other = other.map(|other| format!("/{other}")).unwrap_or_default();
        ReferenceRule { source: format!("/{one}{other}{end}"), parameter, forced }
    })
}

fn request() -> impl Strategy<Value = (String, Option<&'static str>)> {
    let query = prop::option::of(prop::sample::select(vec!["q=1", "q=2", "q=", "r=7&q=1", "s=1", ""]));
    ("(/[abc]){0,3}/?", query).prop_map(|(path, query)| {
        let path = if path.is_empty() { "/".to_owned() } else { path };
        (path, query)
    })
}
