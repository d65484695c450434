//! Short loads on a program that embeds tarpon, without root and without isolation.

mod common;

use common::{built, lab, reported};

#[test]
fn short_loads_have_no_errors_and_write_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record.json");
    let program = built("tarpon-function-server");
    let output = lab(ARGUMENTS).arg("--program").arg(program).arg("--out").arg(&record).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains(ONE_CORE) {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success(), "{message}");
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    for series in record["series"].as_array().unwrap() {
        for window in series["rounds"][0]["windows"].as_array().unwrap() {
            assert!(window["requests"].as_u64().unwrap() > 0, "{window}");
            assert!(window["server_ns"].as_u64().unwrap() > 0, "{window}");
            let checked = window["checked"].as_object().unwrap();
            assert!(checked["correct"].as_u64() >= window["requests"].as_u64(), "{window}");
            assert!(checked.iter().all(|(name, count)| name == "correct" || count == 0), "{window}");
        }
    }
    let document = reported(directory.path());
    assert!(document.contains("\n| header stress | 20 | tarpon 0.1.0, epoll |"), "{document}");
    assert!(
        document.contains("\n| heavy payloads, malformed input | 20 | tarpon 0.1.0, epoll |"),
        "{document}"
    );
    assert!(document.contains("WITHOUT ISOLATION"), "{document}");
}

/// More clients than a worker has buffers, which are 4,096, and than the completion queue of a ring has entries: their heads arrive in
/// parts, and none of them may be evicted while it sends.
#[test]
fn thousands_of_clients_with_large_heads_have_no_errors() {
    let arguments = [
        "loads",
        "--no-isolation",
        "--loads=header-stress",
        "--rounds=1",
        "--time-factor=0.1",
        "--connections=4500",
        "--timeout=60",
        "--idle-wait=0",
        "--other-max=60000",
    ];
    let output = lab(&arguments).arg("--program").arg(built("tarpon-function-server")).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains(ONE_CORE) {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success(), "{message}");
}

#[test]
fn missing_program_fails_with_a_hint() {
    let output = lab(ARGUMENTS).arg("--program=/nonexistent/program").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(message.contains(ONE_CORE) || message.contains("cargo build --release"), "{message}");
}

/// Accepts a busy machine: other tests run at the same time.
const ARGUMENTS: &[&str] = &[
    "loads",
    "--no-isolation",
    "--loads=header-stress,heavy-payloads",
    "--rounds=1",
    "--time-factor=0.02",
    "--connections=20",
    "--idle-wait=0",
    "--other-max=60000",
];

/// The message on a machine with one core.
const ONE_CORE: &str = "need a core each";
