//! A browser: what a page that asks for everything gets in headless Chromium. What it asks for is in
//! `tests/browser/check.js`.

mod common;

use common::{
    ENGINES,
    page::Page,
    program::{Program, serve},
    web::{CODED, PLAIN, web},
    write_files,
};
use std::{
    collections::HashSet,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn a_page_that_asks_for_everything_gets_it_in_a_browser() {
    let site = web();
    let page = include_str!("browser/check.html");
    write_files(site.path(), &[("check.html", page), ("check.js", include_str!("browser/check.js"))]);
    for engine in ENGINES {
        let program = Program::started(serve(site.path(), &["--engine", engine.name()]));
        let url = format!("http://{}/", program.address());
        let page = Page::load(&format!("{url}check.html"), &["--cache", "--verdict", "#verdict"]);
        assert!(!page.verdict.contains("wrong: "), "{engine}: {}", page.verdict);
        // Each of them once as it is, and once more when the browser has asked whether it still holds; one out of parts.
        assert_eq!(page.verdict.lines().count(), 2 * (PLAIN.len() + 1) + 1, "{engine}: {}", page.verdict);
        compare(site.path(), &page.verdict);
        // The player asks for the beginning, and then for where it is to play; it takes only what it needs.
        let (player, others): (Vec<_>, Vec<_>) =
            page.resources.iter().partition(|line| line.contains("?player"));
        assert!(
            player.len() >= 2 && player.iter().all(|line| line.contains(r#""status": 206"#)),
            "{player:?}"
        );
        assert!(others.iter().all(|line| line.contains(r#""error": null"#)), "{engine}: {others:?}");
        assert_eq!(page.count(r#""protocol": "http/1.1""#), page.resources.len(), "{engine}: {page:?}");
        // Over a few connections, which it uses again and again.
        let connection = |resource: &String| {
            Some(resource.split_once(r#""connection": "#)?.1.split_once(',')?.0.to_owned())
        };
        let connections: HashSet<_> = page.resources.iter().filter_map(connection).collect();
        assert!(page.resources.len() > 40 && connections.len() <= 10, "{engine}: {page:?}");
        let failed = |answer: &str, file: &str| {
            let failed = "Failed to load resource: the server responded with a status of";
            format!("\"{failed} {answer} {url}{file}\"")
        };
        let unsatisfiable = failed("416 (Range Not Satisfiable)", "sound.wav");
        assert_eq!(
            page.errors,
            format!("[{unsatisfiable}, {}]", failed("404 (Not Found)", "nothing")),
            "{engine}"
        );
        assert_eq!(program.err(), "", "{engine}");
    }
}

/// Compares files with what `sha256sum` would write of them.
fn compare(dir: &Path, sums: &str) {
    assert!(sums.contains(CODED.trim_start_matches('/')));
    let mut command = Command::new("sha256sum");
    command.args(["--check", "--strict", "--quiet"]).current_dir(dir).stdin(Stdio::piped());
    let mut child = command.spawn().expect("sha256sum, of the coreutils");
    writeln!(child.stdin.take().expect("a pipe"), "{sums}").expect("a pipe");
    assert!(child.wait().expect("a child").success(), "{sums}");
}
