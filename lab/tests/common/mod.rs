//! Helpers for the tests of experiments.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use serde_json::Value;

/// Returns the command of the lab with these arguments.
pub(crate) fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarpon-lab"));
    command.args(arguments);
    command
}

/// Runs an experiment on the current build of tarpon. Returns its output, and its record if there is one.
#[allow(dead_code)]
pub(crate) fn measured(arguments: &[&str], directory: &Path) -> (Output, Option<Value>) {
    let record = directory.join("record.json");
    let output = lab(arguments).arg("--out").arg(&record).arg("--tarpon").arg(tarpon()).output().unwrap();
    let record = std::fs::read(&record).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    (output, record)
}

/// Writes the report of a record into a document, and returns the document.
#[allow(dead_code)]
pub(crate) fn reported(directory: &Path) -> String {
    let (record, document) = (directory.join("record.json"), directory.join("README.md"));
    std::fs::write(&document, "<!-- record:start -->\n<!-- record:end -->\n").unwrap();
    let report =
        || lab(&["report", "--into"]).arg(&document).arg(&record).args(["--check"]).status().unwrap();
    assert!(!report().success(), "`--check` accepted an empty block");
    assert!(lab(&["report", "--into"]).arg(&document).arg(&record).status().unwrap().success());
    assert!(report().success());
    std::fs::read_to_string(&document).unwrap()
}

/// Returns the program tarpon next to the lab, and builds it if necessary: the tests of this package alone do not build it.
#[allow(dead_code)]
pub(crate) fn tarpon() -> PathBuf {
    built("tarpon")
}

/// Returns the program of a package next to the lab, and builds it if necessary.
#[allow(dead_code)]
pub(crate) fn built(package: &str) -> PathBuf {
    static BUILD: Mutex<()> = Mutex::new(());
    let program = Path::new(env!("CARGO_BIN_EXE_tarpon-lab")).with_file_name(package);
    let _guard = BUILD.lock();
    if !program.exists() {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--package", package, "--locked"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success());
    }
    program
}
