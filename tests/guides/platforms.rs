//! docs/guides/from-netlify-or-cloudflare-pages.md: the site is deployed by the script of the page, and gives the answers of its table.

use super::{block, blocks, hosts::RemoteHosts, page, replaced};
use crate::common::{
    client::{Response, TestClient},
    program::{RunningProgram, serve_config},
    readable_dir, write_files,
};

const GUIDE: &str = "from-netlify-or-cloudflare-pages";

#[test]
fn site_of_a_platform_gives_the_listed_answers() {
    let dir = readable_dir();
    let hosts = RemoteHosts::new(dir.path(), &["host"]);
    let (redirects, headers) = (block(GUIDE, "redirects"), block(GUIDE, "headers"));
    write_files(
        dir.path(),
        &[
            ("public/_redirects", &*redirects),
            ("public/_headers", &*headers),
            ("public/index.html", "home"),
            ("public/about.html", "about"),
            ("public/new.html", "new"),
            ("public/app/index.html", "app"),
            ("public/assets/app.js", "app()"),
            ("public/de/404.html", "nichts"),
        ],
    );
    let [deploy] = &blocks(GUIDE, "sh")[..] else { panic!("one script") };
    let deployed = hosts.run(&format!("set -eu\n{deploy}"), &[], &[("RELEASE", "first"), ("HOST", "host")]);
    assert!(deployed.status.success(), "{deployed:?}");

    let at = hosts.of("host");
    let config = replaced(&block(GUIDE, "toml"), "/srv/example", at.to_str().expect("UTF-8"));
    let program =
        RunningProgram::start_ready(serve_config(&replaced(&config, "\"80\"", "\"127.0.0.1:0\""), &at, &[]));
    let mut count = 0;
    let page = page(GUIDE);
    let (_, answers) = page.split_once("## Answers\n").expect("the section");
    let (answers, _) = answers.split_once("\n## ").expect("its end");
    for row in answers.lines().filter_map(|line| line.strip_prefix("| `/")) {
        let (target, answer) = row.split_once("` | ").expect("two columns");
        check(&TestClient::connect(program.address()).get(&format!("/{target}")), answer, row);
        count += 1;
    }
    assert_eq!(count, 10, "the table has all its rows");
}

/// Checks a response against a cell of the table: a status, then `Name: value`, or the target of a redirect, or words.
fn check(response: &Response, answer: &str, row: &str) {
    let case = format!("{row}: {}", response.head);
    let answer = answer.trim_end_matches(" |");
    assert!(answer.starts_with(&response.status.to_string()), "{case}");
    let quoted = answer.split('`').nth(1);
    match (quoted.and_then(|text| text.split_once(": ")), quoted) {
        (Some((name, value)), _) => assert_eq!(response.field(name), Some(value), "{case}"),
        (None, Some(target)) if answer.contains(" to `") => {
            assert_eq!(response.field("Location"), Some(target), "{case}");
        }
        (None, Some("about.html")) => assert_eq!(response.content, b"about", "{case}"),
        (None, Some(other)) => panic!("{other} is not checked: {case}"),
        (None, None) => {
            let content = String::from_utf8_lossy(&response.content);
            let want = [("application", "app"), ("German", "nichts")];
            for (_, text) in want.iter().filter(|(word, _)| answer.contains(word)) {
                assert_eq!(content, *text, "{case}");
            }
        }
    }
}
