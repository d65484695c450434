//! A short race, without root and without isolation.

mod common;

use common::lab;

#[test]
fn short_race_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("race.json");
    let race = lab(&[
        "race",
        "--no-isolation",
        "--only=null-epoll",
        "--rounds=1",
        "--idle-wait=0",
        "--seconds=0.05",
        "--connections=4,9",
        "--out",
    ])
    .arg(&record)
    .output()
    .unwrap();
    let message = String::from_utf8_lossy(&race.stderr);
    // Other tests may keep the core busy: the race then fails, but still writes its record.
    assert!(race.status.success() || message.contains("the machine is too busy"), "{message}");

    let read: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    for (at, connections) in [4, 9].into_iter().enumerate() {
        let series = &read["series"][at];
        assert_eq!(series["connections"], connections);
        let window = &series["rounds"][0]["windows"][0];
        assert!(window["requests"].as_u64().unwrap() > 100, "{window:?}");
        assert!(window["server_ns"].as_u64().unwrap() > 0, "{window:?}");
    }

    let report = lab(&["report"]).arg(&record).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert_eq!(report.matches("| null epoll |").count(), 2, "{report}");
    assert!(report.contains("**9 connections**"), "{report}");
    // The position of line breaks depends on the numbers.
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("WITHOUT ISOLATION"), "{report}");

    let document = directory.path().join("README.md");
    std::fs::write(&document, "<!-- race:start -->\n<!-- race:end -->\n").unwrap();
    let into = |check: &[&str]| {
        lab(&["report"]).arg(&record).arg("--into").arg(&document).args(check).status().unwrap().success()
    };
    assert!(!into(&["--check"]), "`--check` accepted an empty block");
    assert!(into(&[]));
    assert!(into(&["--check"]));
}

#[test]
fn missing_server_fails_with_a_hint() {
    let race = lab(&["race", "--no-isolation", "--only=tarpon-epoll", "--tarpon=/nonexistent/tarpon"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&race.stderr);
    assert!(!race.status.success());
    assert!(message.contains("cargo build --release"), "{message}");
}
