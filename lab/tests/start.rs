//! Starts of servers with a small site.

mod common;

use common::{measured, reported};

#[test]
fn a_small_measurement_of_starts_leaves_a_record_and_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let (output, record) = measured(
        &[
            "start",
            "--here",
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
        assert!(window["answer_ns"].as_u64().unwrap() > 0, "{window}");
        assert_eq!(window["requests"], 20, "{window}");
        assert!(window["started"]["pss"].as_u64().unwrap() > 0, "{window}");
        // Only the image of a directory or a plain archive is made at the start.
        let is_made = ["tarpon-epoll", "tarpon-epoll-tar"].contains(&window["server"].as_str().unwrap());
        assert_eq!(window["asked"]["memory_files"].as_u64().unwrap() > 0, is_made, "{window}");
    }
    let document = reported(directory.path());
    assert_eq!(document.matches("\n| tarpon ").count(), 3, "{document}");
}
