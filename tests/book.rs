//! The documents as a book: docs/SUMMARY.md lists each page, and each link of a page leads to a file and a heading of the repository, as a
//! forge shows them. docs/build makes the book and checks its links, in tests/packages.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

#[test]
fn summary_lists_each_page() {
    let listed: BTreeSet<_> =
        links(&root().join("docs/SUMMARY.md")).into_iter().map(|(target, _)| target).collect();
    let mut missing = Vec::new();
    for dir in ["docs", "docs/guides"] {
        for page in pages(dir) {
            if page.file_name().is_some_and(|name| name != "SUMMARY.md") && !listed.contains(&page) {
                missing.push(page);
            }
        }
    }
    assert!(missing.is_empty(), "add to docs/SUMMARY.md: {missing:?}");
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut wrong = Vec::new();
    for dir in ["", "docs", "docs/guides", "docs/decisions", "packaging", "lab"] {
        for page in pages(dir) {
            for (target, heading) in links(&page) {
                let is_page = target.extension().is_some_and(|kind| kind == "md");
                if !target.exists() {
                    wrong.push(format!("{}: no file {}", page.display(), target.display()));
                } else if is_page && !heading.is_empty() && !headings(&target).contains(&heading) {
                    wrong.push(format!("{}: no heading {heading} in {}", page.display(), target.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the pages of a directory of the repository.
fn pages(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect()
}

/// Returns the links of a page to files of the repository, with their headings.
fn links(page: &Path) -> Vec<(PathBuf, String)> {
    let text = prose(page);
    let mut found = Vec::new();
    for part in text.split("](").skip(1) {
        let Some((target, _)) = part.split_once(')') else { continue };
        if target.contains("://") || target.starts_with("mailto:") || target.contains(char::is_whitespace) {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = match file {
            "" => page.to_owned(),
            file => normal(&page.parent().expect("a directory").join(file)),
        };
        found.push((path, heading.to_owned()));
    }
    found
}

/// Returns the anchors of the headings of a page, as forges make them.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = prose(page);
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |title: &str| -> String {
        let lower = title.to_lowercase();
        let kept = lower.chars().filter(|char| char.is_alphanumeric() || "-_ ".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect()
    };
    titles.map(anchor).collect()
}

/// Returns the text of a page without its blocks of code.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Resolves `..` in a path.
fn normal(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
