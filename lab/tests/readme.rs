//! The tables in the README are those that the kept result files make.

mod common;

use std::path::Path;

use common::lab;

#[test]
fn each_table_in_the_readme_is_that_of_its_result_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = root.join("README.md");
    let document = std::fs::read_to_string(&readme).unwrap();
    for name in ["race", "cold", "start", "pack"] {
        let (start, end) = (format!("<!-- {name}:start -->"), format!("<!-- {name}:end -->"));
        let (_, behind) = document.split_once(&start).expect("the README has a place for each table");
        let (block, _) = behind.split_once(&end).expect("the README has an end for each table");
        let file = format!("lab/results/{name}.json");
        let result = root.join(&file);
        if !result.exists() {
            assert!(block.trim().is_empty(), "the README tells numbers whose record is not kept: {name}");
            continue;
        }
        let mut check = lab(&["report", "--check", "--into"]);
        let check = check.arg(&readme).arg(&result).output().unwrap();
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{said}; `tarpon-lab report {file} --into README.md` renews it");
    }
}
