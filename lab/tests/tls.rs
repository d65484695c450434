//! Short experiments with TLS on tarpon and nginx, without root and without isolation.

mod common;

use common::{measured, reported};

#[test]
fn short_experiment_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&["--operations=full,resumed,large"][..], ARGUMENTS].concat();
    let (output, record) = measured(&arguments_of_tls(&arguments), directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains(ONE_CORE) {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success(), "{message}");
    let record = record.expect("a record");
    for series in record["series"].as_array().unwrap() {
        let windows = series["rounds"][0]["windows"].as_array().unwrap();
        assert_eq!(windows.len(), 2, "{series}");
        for window in windows {
            assert!(window["requests"].as_u64().unwrap() > 0, "{window}");
            assert!(window["server_ns"].as_u64().unwrap() > 0, "{window}");
            assert!(window["p99_ns"].as_u64() >= window["p50_ns"].as_u64(), "{window}");
        }
    }
    let document = reported(directory.path());
    assert_eq!(document.matches("\n| nginx ").count(), 3, "{document}");
    assert_eq!(document.matches("\n| tarpon ").count(), 3, "{document}");
    assert!(document.contains("WITHOUT ISOLATION"), "{document}");
}

#[test]
fn short_storm_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&["--storm=100", "--rate=200"][..], ARGUMENTS].concat();
    let (output, record) = measured(&arguments_of_tls(&arguments), directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains(ONE_CORE) {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success(), "{message}");
    let window = &record.expect("a record")["rounds"][0]["windows"][0];
    for part in ["ecdsa", "rsa"] {
        assert!(window[part]["handshakes"].as_u64().unwrap() > 0, "{window}");
        for times in ["quiet", "storm"] {
            assert_eq!(window[part][times]["requests"], 20, "{window}");
        }
    }
    let document = reported(directory.path());
    assert_eq!(document.matches("\n| nginx ").count(), 2, "{document}");
}

fn arguments_of_tls<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["tls"][..], arguments].concat()
}

/// Accepts a busy machine: other tests run at the same time.
const ARGUMENTS: &[&str] = &[
    "--no-isolation",
    "--servers=tarpon-epoll,nginx",
    "--rounds=1",
    "--seconds=0.1",
    "--idle-wait=0",
    "--other-max=60000",
];

/// The message on a machine with one core.
const ONE_CORE: &str = "need a core each";

#[test]
#[ignore = "soak: boots an emulated machine"]
fn kernel_takes_fewer_instructions_for_large_files() {
    let directory = tempfile::tempdir().unwrap();
    let (output, record) = measured(&["ktls"], directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let responses = record.expect("a record")["inside"]["responses"].as_array().unwrap().clone();
    let instructions = |engine: &str, sealing: &str| {
        let row = responses
            .iter()
            .find(|row| row["engine"] == engine && row["sealing"] == sealing && row["size"] == 16 << 20);
        row.expect("a row")["instructions"].as_u64().unwrap()
    };
    for engine in ["epoll", "io_uring"] {
        let [clear, server, kernel] =
            ["clear", "server", "kernel"].map(|sealing| instructions(engine, sealing));
        assert!(clear < kernel && kernel < server, "{engine}: {clear}, {kernel}, {server}");
    }
}
