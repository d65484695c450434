//! A race runs from its start to its record, small, without root and without a network of its own.

mod common;

use common::lab;

#[test]
fn a_small_race_leaves_a_record_and_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("race.json");
    let race = lab(&[
        "race",
        "--here",
        "--only=null-epoll",
        "--rounds=1",
        "--quiet-wait=0",
        "--seconds=0.05",
        "--connections=4,9",
        "--out",
    ])
    .arg(&record)
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&race.stderr);
    // Beside other tests a core may be too busy for a clean round: the race says so, and keeps its record.
    assert!(race.status.success() || said.contains("this machine is too busy now"), "{said}");

    let read: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    for (at, connections) in [4, 9].into_iter().enumerate() {
        let heat = &read["heats"][at];
        assert_eq!(heat["connections"], connections);
        let window = &heat["rounds"][0]["windows"][0];
        assert!(window["requests"].as_u64().unwrap() > 100, "{window:?}");
        assert!(window["server_ns"].as_u64().unwrap() > 0, "{window:?}");
    }

    let report = lab(&["report"]).arg(&record).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert_eq!(report.matches("| null epoll |").count(), 2, "{report}");
    assert!(report.contains("**9 connections**"), "{report}");
    // Folded, and where depends on the numbers.
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("CONDITIONS AS FOUND"), "{report}");

    let document = directory.path().join("README.md");
    std::fs::write(&document, "<!-- race:start -->\n<!-- race:end -->\n").unwrap();
    let into = |check: &[&str]| {
        lab(&["report"]).arg(&record).arg("--into").arg(&document).args(check).status().unwrap().success()
    };
    assert!(!into(&["--check"]), "an empty block passed for up to date");
    assert!(into(&[]));
    assert!(into(&["--check"]));
}

#[test]
fn a_race_with_a_missing_server_says_how_to_get_it() {
    let race =
        lab(&["race", "--here", "--only=tarpon-epoll", "--tarpon=/nonexistent/tarpon"]).output().unwrap();
    let said = String::from_utf8_lossy(&race.stderr);
    assert!(!race.status.success());
    assert!(said.contains("cargo build --release"), "{said}");
}
