//! The tables in documents match the result files.

mod common;

use std::path::Path;

use common::lab;

#[test]
fn tables_in_documents_match_their_result_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (document, names) in DOCUMENTS {
        let path = root.join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        for name in *names {
            let (start, end) = (format!("<!-- {name}:start -->"), format!("<!-- {name}:end -->"));
            let (_, rest) = text.split_once(&start).expect("each table has a start mark");
            let (block, _) = rest.split_once(&end).expect("each table has an end mark");
            let file = format!("lab/results/{name}.json");
            let result = root.join(&file);
            if !result.exists() {
                assert!(block.trim().is_empty(), "{document}: no result file for the table {name}");
                continue;
            }
            let mut check = lab(&["report", "--check", "--into"]);
            let check = check.arg(&path).arg(&result).output().unwrap();
            let message = String::from_utf8_lossy(&check.stderr);
            let hint = format!("update it with `tarpon-lab report {file} --into {document}`");
            assert!(check.status.success(), "{message}; {hint}");
        }
    }
}

#[test]
fn page_of_all_results_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let check = lab(&["page", "--check"]).current_dir(root).output().unwrap();
    let message = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{message}; update it with `tarpon-lab page`");
}

#[test]
fn figures_of_the_readme_are_those_of_the_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let check = lab(&["figures", "--check"]).current_dir(root).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

/// Documents and their tables.
const DOCUMENTS: &[(&str, &[&str])] = &[
    ("docs/hardening.md", &["attacks"]),
    (
        "docs/performance.md",
        &[
            "race",
            "race-sizes",
            "race-large",
            "race-large-bbr",
            "mix",
            "sizes",
            "sizes-fine",
            "race-new",
            "race-browser",
            "race-pipelined",
            "race-gzip",
            "race-range",
            "race-conditional",
            "rungs",
            "stories",
            "sweep",
            "connections",
            "log",
            "pgo",
            "cold",
            "disk",
            "start",
            "tls",
            "tls-storm",
            "ktls",
            "http2",
            "http2-share",
            "http2-share-tls",
            "http2-tls-large",
            "streams",
            "functions",
            "loads",
            "programs",
            "stalled",
            "proxy",
            "tunnels",
            "ladder",
            "stalled-upstream",
            "pack",
            "pack-many",
        ],
    ),
];
