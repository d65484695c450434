//! The tables in `docs/performance.md` are those that the kept result files make.

mod common;

use std::path::Path;

use common::lab;

#[test]
fn each_table_in_a_document_is_that_of_its_result_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (document, names) in DOCUMENTS {
        let path = root.join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        for name in *names {
            let (start, end) = (format!("<!-- {name}:start -->"), format!("<!-- {name}:end -->"));
            let (_, behind) = text.split_once(&start).expect("there is a place for each table");
            let (block, _) = behind.split_once(&end).expect("there is an end for each table");
            let file = format!("lab/results/{name}.json");
            let result = root.join(&file);
            if !result.exists() {
                assert!(block.trim().is_empty(), "{document} tells numbers whose record is not kept: {name}");
                continue;
            }
            let mut check = lab(&["report", "--check", "--into"]);
            let check = check.arg(&path).arg(&result).output().unwrap();
            let said = String::from_utf8_lossy(&check.stderr);
            let renew = format!("`tarpon-lab report {file} --into {document}` renews it");
            assert!(check.status.success(), "{said}; {renew}");
        }
    }
}

/// Documents, and the tables in them.
const DOCUMENTS: &[(&str, &[&str])] =
    &[("docs/performance.md", &["race", "log", "cold", "start", "pack", "pack-many"])];
