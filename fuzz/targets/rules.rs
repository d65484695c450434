//! Rules of a site: any rules files are compiled, or refused with a line and column that exist. Any encoded rule matches or does not,
//! and never writes beyond its buffer. Any section of log paths is refused or decides about every path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarpon_pack::{Dialect, RuleFile, RuleFileError, check_rules};
use tarpon_site::rules::{LOG_PATH_COUNT_MAX, LogPaths, RuleRequest, RuleRow};

// The first byte selects the dialect; then `_headers` and `_redirects`, separated by 0xff, or an encoded rule, or a section of log paths.
fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let dialect = [Dialect::Netlify, Dialect::Cloudflare, Dialect::Off][usize::from(first % 3)];
    let (headers, redirects) = match rest.iter().position(|&byte| byte == 0xff) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (&b""[..], rest),
    };
    match check_rules(headers, redirects, dialect, &[b"/index.html", b"/a/b.html"]) {
        Ok(()) => {}
        Err(errors) => errors.iter().for_each(|RuleFileError { file, line, column, .. }| {
            let text = if *file == RuleFile::Headers { headers } else { redirects };
            let line = text.split(|&byte| byte == b'\n').nth(*line as usize - 1).expect("a line of the file");
            assert!(*column as usize <= line.len() + 1);
        }),
    }

    if let Some(paths) = LogPaths::new(rest) {
        let rows: Vec<_> = paths.all().map(|(steps, is_logged)| (steps.count(), is_logged)).collect();
        assert!((1..=LOG_PATH_COUNT_MAX).contains(&rows.len()) && rows.iter().all(|(steps, _)| *steps > 0));
        let is_uniform = |on: bool| rows.iter().all(|(_, is_logged)| *is_logged == on);
        for path in [&b"/"[..], b"/a/b", b"/a//b/", b""] {
            // A path that nothing matches is logged.
            assert!(paths.is_logged(path) || !is_uniform(true));
        }
    }

    for (path, query) in [(&b"/"[..], None), (b"/a/b", Some(&b"a=b&c=%zz+"[..])), (b"/a//b/", Some(b""))] {
        if let Some(found) = RuleRow::match_request(rest, RuleRequest { path, query, exists: first >= 128 }) {
            let mut to = [0; 100];
            let location = found.location(&mut to).map(|len| &to[..len]);
            // A valid rule redirects to a path, or to a host in the rule.
            let is_safe = |to: &[u8]| match to {
                [b'/', behind @ ..] => !matches!(behind, [b'/' | b'\\', ..]),
                other => other.starts_with(b"http://") || other.starts_with(b"https://"),
            };
            let is_redirect = (300..400).contains(&found.status());
            let may_be_sent = RuleRow::is_valid(rest) && is_redirect;
            assert!(
                !may_be_sent || location.is_none_or(|to| is_safe(to) && to.iter().all(u8::is_ascii_graphic))
            );
            assert!(found.rewrite_path(&mut to).is_none_or(|len| len <= to.len()));
        }
    }
});
