//! Rules are tried as one who reads them would: whatever rules, files and requests, the answer is that of a reference that
//! splits strings and knows neither records nor tables.

#![allow(clippy::disallowed_methods, reason = "a test writes the site that is packed")]

use bytes::Bytes;
use proptest::prelude::*;
use std::{fs, io::Cursor};
use tarpon_conn::sim::{Cuts, Sim, UNIX_S};
use tarpon_pack::{Dialect, Memo, Options, pack_dir};
use tarpon_site::{
    Image,
    rules::{Asked, Holds, RuleRow, matches},
};

#[derive(Clone, Debug)]
struct Rule {
    source: String,
    /// Name, and value if not any will do.
    parameter: Option<(&'static str, Option<&'static str>)>,
    forced: bool,
}

proptest! {
    #[test]
    fn the_answer_is_that_of_the_reference(
        rules in prop::collection::vec(rule(), 0..7),
        files in prop::sample::subsequence(vec!["a/b", "b", "c/index.html"], 0..=3),
        requests in prop::collection::vec(request(), 1..12),
        netlify in any::<bool>(),
        absolute: bool,
    ) {
        let dialect = if netlify { Dialect::Netlify } else { Dialect::Cloudflare };
        let rules: Vec<_> = rules.into_iter().filter(|rule| netlify || rule.parameter.is_none()).collect();
        let dir = tempfile::tempdir().expect("a directory");
        for name in &files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, "x").expect("a file");
        }
        let text: String = rules.iter().enumerate().map(|(number, rule)| rule.line(number, netlify)).collect();
        fs::write(dir.path().join("_redirects"), &text).expect("a file");
        let mut out = Cursor::new(Vec::new());
        let options = Options { dialect, ..Options::new(UNIX_S) };
        pack_dir(dir.path(), &mut out, &options, &mut Memo::default()).expect("a site");
        let image = Image::new(Bytes::from(out.into_inner())).expect("an image");
        for (path, query) in requests {
            let target = query.map_or(path.clone(), |query| format!("{path}?{query}"));
            let target = match (absolute, target.strip_prefix('/').filter(|_| path == "/")) {
                (false, _) => target,
                // The path of the root may be missing.
                (true, Some(rest)) => format!("http://a{rest}"),
                (true, None) => format!("http://a{target}"),
            };
            let mut sim = Sim::new(image.clone());
            sim.client_sends(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            sim.run(Cuts::NONE);
            let got = String::from_utf8_lossy(&sim.wire).into_owned();
            let status = got.split(' ').nth(1).expect("a status").to_owned();
            let location = got.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
            let want = expected(&rules, &files, &path, query, netlify);
            prop_assert_eq!((status, location), want, "{}\n{:?} {}", text, files, target);
        }
    }

    #[test]
    fn no_bytes_make_a_rule_panic(
        bytes in prop::collection::vec(prop_oneof![0..8u8, any::<u8>(), Just(b'/')], 0..80),
        path in "/[a/]{0,6}",
    ) {
        let mut held = Holds::default();
        matches(&bytes, true, path.as_bytes(), &mut held);
        let asked = Asked { path: path.as_bytes(), query: Some(b"a=b"), exists: false };
        if let Some(found) = RuleRow::matched(&bytes, asked) {
            let mut to = [0; 64];
            prop_assert!(found.location(&mut to).is_none_or(|len| len <= to.len()));
            prop_assert!(found.path(&mut to).is_none_or(|len| len <= to.len()));
        }
    }
}

impl Rule {
    fn line(&self, number: usize, netlify: bool) -> String {
        let parameter = match self.parameter {
            None => String::new(),
            Some((name, None)) => format!("{name}=:held "),
            Some((name, Some(value))) => format!("{name}={value} "),
        };
        let force = if self.forced && netlify { "!" } else { "" };
        format!("{} {parameter}https://t/{number}{} 302{force}\n", self.source, self.names())
    }

    /// All that is held, as it stands in the target.
    fn names(&self) -> String {
        let names = [":x", ":y", ":held"].into_iter().filter(|name| {
            self.source.contains(name) || *name == ":held" && matches!(self.parameter, Some((_, None)))
        });
        let splat = self.source.ends_with('*').then_some(":splat");
        names.chain(splat).map(|name| format!("/{name}")).collect()
    }

    /// Where it leads, if it applies.
    fn leads(&self, number: usize, path: &str, query: Option<&str>, netlify: bool) -> Option<String> {
        let mut held = Vec::new();
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
                true => held.push((pattern, segment)),
                false if pattern != segment => return None,
                false => {}
            }
        }
        held.sort_unstable();
        if let Some((name, wanted)) = self.parameter {
            let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
            match wanted {
                Some(wanted) if wanted != value => return None,
                Some(_) => {}
                None if value.is_empty() => return None,
                None => held.push((":held", value)),
            }
        }
        held.extend(splat.map(|splat| (":splat", splat)));
        let held: String = held.into_iter().map(|(_, value)| format!("/{value}")).collect();
        let query = query.filter(|_| self.parameter.is_none()).map(|query| format!("?{query}"));
        Some(format!("https://t/{number}{held}{}", query.unwrap_or_default()))
    }
}

fn expected(
    rules: &[Rule],
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
        if let Some(location) = rule.leads(number, path, query, netlify) {
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

fn rule() -> impl Strategy<Value = Rule> {
    let segment = |name| prop::sample::select(vec!["a", "b", "c", name]);
    let source =
        (segment(":x"), prop::option::of(segment(":y")), prop_oneof![Just(""), Just("/"), Just("/*")]);
    let parameter = prop::option::of(prop::sample::select(vec![("q", None), ("q", Some("1")), ("r", None)]));
    (source, parameter, any::<bool>()).prop_map(|((one, other, end), parameter, forced)| {
        let other = other.map(|other| format!("/{other}")).unwrap_or_default();
        Rule { source: format!("/{one}{other}{end}"), parameter, forced }
    })
}

fn request() -> impl Strategy<Value = (String, Option<&'static str>)> {
    let query = prop::option::of(prop::sample::select(vec!["q=1", "q=2", "q=", "r=7&q=1", "s=1", ""]));
    ("(/[abc]){0,3}/?", query).prop_map(|(path, query)| {
        let path = if path.is_empty() { "/".to_owned() } else { path };
        (path, query)
    })
}
