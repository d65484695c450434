//! A short experiment on stalled programs. It needs root, as programs have a user of their own.

mod common;

use common::{measured, reported};

#[test]
fn short_experiment_writes_record_and_report() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not measured: not root");
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "stalled",
        "--no-isolation",
        "--rounds=1",
        "--seconds=0.2",
        "--idle-wait=0",
        "--other-max=60000",
        "--stalled=5",
        "--rate=200",
        "--servers=tarpon-epoll",
    ];
    let (output, record) = measured(&arguments, directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("server and client need a core each") {
        return eprintln!("not measured: {message}");
    }
    // Other tests may keep both cores busy: the experiment then fails, but still writes its record.
    assert!(output.status.success() || message.contains("the machine is too busy"), "{message}");
    let window = &record.expect("a record")["rounds"][0]["windows"][0];
    for part in ["idle", "stalled"] {
        assert_eq!(window[part]["requests"], 40, "{window}");
        assert!(window[part]["p99_ns"].as_u64() >= window[part]["p50_ns"].as_u64(), "{window}");
    }
    let document = reported(directory.path());
    assert_eq!(document.matches("\n| tarpon ").count(), 1, "{document}");
}
