//! What the tests of measurements share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

use serde_json::Value;

/// The lab, with these arguments.
pub(crate) fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarpon-lab"));
    command.args(arguments);
    command
}

/// Runs a measurement that keeps a record, and returns what it said, and the record if it has one.
#[allow(dead_code)]
pub(crate) fn measured(arguments: &[&str], directory: &Path) -> (Output, Option<Value>) {
    let record = directory.join("record.json");
    let output = lab(arguments).arg("--out").arg(&record).arg("--tarpon").arg(tarpon()).output().unwrap();
    let record = std::fs::read(&record).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    (output, record)
}

/// The table of a record, in the only document that has a place for it.
#[allow(dead_code)]
pub(crate) fn reported(directory: &Path) -> String {
    let (record, document) = (directory.join("record.json"), directory.join("README.md"));
    std::fs::write(&document, "<!-- record:start -->\n<!-- record:end -->\n").unwrap();
    let report =
        || lab(&["report", "--into"]).arg(&document).arg(&record).args(["--check"]).status().unwrap();
    assert!(!report().success(), "an empty block passed for up to date");
    assert!(lab(&["report", "--into"]).arg(&document).arg(&record).status().unwrap().success());
    assert!(report().success());
    std::fs::read_to_string(&document).unwrap()
}

/// The program, beside the lab: all tests of the workspace build it, those of this package alone do not.
#[allow(dead_code)]
pub(crate) fn tarpon() -> PathBuf {
    static BUILT: Once = Once::new();
    let program = Path::new(env!("CARGO_BIN_EXE_tarpon-lab")).with_file_name("tarpon");
    BUILT.call_once(|| {
        if !program.exists() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--package", "tarpon", "--locked"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(built.unwrap().success());
        }
    });
    program
}
