//! Short experiments with HTTP/2 on tarpon and nginx, without root and without isolation.

mod common;

use common::{measured, reported};

#[test]
fn short_race_over_http2_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["http2", "--loads=2x4", "--sizes=1024", "--seconds=0.1", "--idle-wait=0"];
    let Some(record) = measure(&arguments, directory.path()) else { return };
    for series in record["series"].as_array().unwrap() {
        let windows = series["rounds"][0]["windows"].as_array().unwrap();
        assert_eq!(windows.len(), 2, "{series}");
        for window in windows {
            assert!(window["requests"].as_u64() > Some(0), "{window}");
            assert!(window["rate"].as_f64() > Some(0.0), "{window}");
            assert!(window["server_ns"].as_u64() > Some(0), "{window}");
        }
    }
    let document = reported(directory.path());
    assert!(document.contains("**TLS, 1 KiB, 2 connections with 4 streams each**"), "{document}");
    assert_eq!(document.matches("\n| nginx ").count(), 2, "{document}");
    assert_eq!(document.matches("\n| tarpon ").count(), 2, "{document}");
    assert!(document.contains("WITHOUT ISOLATION"), "{document}");
}

#[test]
fn open_streams_take_memory() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["streams", "--connections=100", "--busy-connections=20"];
    let Some(record) = measure(&arguments, directory.path()) else { return };
    for series in record["series"].as_array().unwrap() {
        for window in series["rounds"][0]["windows"].as_array().unwrap() {
            // Other tests may run the same programs, and then share their pages: the PSS may shrink.
            let anonymous = |part: &str| window[part]["anonymous"].as_u64().unwrap();
            assert!(anonymous("open") > anonymous("idle"), "{window}");
        }
    }
    let document = reported(directory.path());
    assert!(document.contains("**TLS**"), "{document}");
    assert_eq!(document.matches("\n| nginx ").count(), 2, "{document}");
}

/// Runs an experiment of one round. Returns its record, or `None` if this machine lacks what it needs.
fn measure(arguments: &[&str], directory: &std::path::Path) -> Option<serde_json::Value> {
    let others = ["--no-isolation", "--rounds=1", "--servers=tarpon-epoll,nginx", "--other-max=60000"];
    let (output, record) = measured(&[arguments, &others].concat(), directory);
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("need a core each")
        || message.contains("left out: ")
        || message.contains("install it")
    {
        eprintln!("not measured: {message}");
        return None;
    }
    assert!(output.status.success(), "{message}");
    Some(record.expect("a record"))
}
