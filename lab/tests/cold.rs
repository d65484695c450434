//! Hot beside cold, small. It needs root and control groups; elsewhere it is refused, for that reason alone.

mod common;

use std::fs;
use std::path::Path;

use common::{measured, reported};

#[test]
fn a_small_measurement_of_cold_reads_leaves_a_record_and_a_report() {
    // Beside the program: where temporary files are, the file system may be memory itself.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = directory.path().to_str().unwrap();
    let (output, record) = measured(
        &[
            "cold",
            "--here",
            "--rounds=1",
            "--seconds=0.3",
            "--quiet-wait=0",
            "--rate=200",
            "--large=131072",
            "--servers=tarpon-epoll,tarpon-epoll-packed,nginx",
            "--place",
            place,
        ],
        directory.path(),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("the disk cannot be slowed") {
        assert!(!output.status.success());
        assert!(!is_root_with_control_groups() || said.contains("lies on no disk"), "{said}");
        eprintln!("not measured: {said}");
        return;
    }
    // Beside other tests a core may be too busy for a clean round: it says so, and keeps its record.
    assert!(output.status.success() || said.contains("this machine is too busy now"), "{said}");
    let record = record.expect("a record");
    let window = &record["rounds"][0]["windows"][0];
    assert!(window["cold_bytes"].as_u64().unwrap() > 0, "{window}");
    assert!(window["disk_bytes"].as_u64().unwrap() > 0, "{window}");
    for part in ["alone", "beside"] {
        assert_eq!(window[part]["requests"], 60, "{window}");
        assert!(window[part]["p99_ns"].as_u64() >= window[part]["p50_ns"].as_u64(), "{window}");
    }
    let document = reported(directory.path());
    assert_eq!(document.matches("\n| tarpon ").count(), 2, "{document}");
    assert!(document.contains("CONDITIONS AS FOUND"), "{document}");
}

fn is_root_with_control_groups() -> bool {
    let has_io = |controllers: String| controllers.split_whitespace().any(|name| name == "io");
    rustix::process::geteuid().is_root()
        && (Path::new("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device").exists()
            || fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok_and(has_io))
}
