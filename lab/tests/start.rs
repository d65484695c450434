//! A short experiment on starts.

mod common;

use common::{measured, reported};

#[test]
fn short_experiment_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let (output, record) = measured(
        &[
            "start",
            "--no-isolation",
            "--rounds=1",
            "--files=50",
            "--requests=20",
            "--servers=tarpon-epoll-packed,tarpon-epoll-tar,tarpon-epoll,nginx",
        ],
        directory.path(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record = record.expect("a record");
    for at in 0..4 {
        let window = &record["rounds"][0][at];
        assert!(window["first_response_ns"].as_u64().unwrap() > 0, "{window}");
        assert_eq!(window["requests"], 20, "{window}");
        assert!(window["memory_at_first_response"]["pss"].as_u64().unwrap() > 0, "{window}");
        // Only a directory or a plain archive needs an image in memory. The counters take a few pages.
        let has_memfd = ["tarpon-epoll", "tarpon-epoll-tar"].contains(&window["server"].as_str().unwrap());
        let memory_files = window["memory_after_requests"]["memory_files"].as_u64().unwrap();
        assert_eq!(memory_files > 16 * 1024, has_memfd, "{window}");
    }
    let document = reported(directory.path());
    assert_eq!(document.matches("\n| tarpon ").count(), 3, "{document}");
}
