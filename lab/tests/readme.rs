//! The table in the README is the one that the kept result file makes.

use std::path::Path;
use std::process::Command;

#[test]
fn the_table_in_the_readme_is_that_of_the_result_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (result, readme) = (root.join(RESULT), root.join("README.md"));
    let document = std::fs::read_to_string(&readme).unwrap();
    let (_, behind) =
        document.split_once("<!-- race:start -->").expect("the README has a place for the table");
    let (block, _) = behind.split_once("<!-- race:end -->").expect("the README has an end for the table");
    if !result.exists() {
        assert!(block.trim().is_empty(), "the README tells numbers of a race whose record is not kept");
        return;
    }
    let check = Command::new(env!("CARGO_BIN_EXE_tarpon-lab"))
        .arg("report")
        .arg(&result)
        .arg("--into")
        .arg(&readme)
        .arg("--check")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{said}; `tarpon-lab report {RESULT} --into README.md` renews it");
}

const RESULT: &str = "lab/results/race.json";
