//! Short experiments with an upstream, without root and without isolation.

mod common;

use common::{measured, reported};

#[test]
fn short_proxy_race_checks_all_responses_and_writes_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["proxy", "--sizes=1024,65536", "--connections=1,8", "--seconds=0.1", "--other-max=60000"];
    let Some(record) = measure(&arguments, directory.path()) else { return };
    for series in record["series"].as_array().unwrap() {
        for window in series["rounds"][0]["windows"].as_array().unwrap() {
            assert!(window["requests"].as_u64() > Some(0), "{window}");
            assert!(window["server_ns"].as_u64() > Some(0), "{window}");
            assert!(window["upstream_ns"].as_u64() > Some(0), "{window}");
            assert_only_correct(&window["checked"]);
        }
    }
    let document = reported(directory.path());
    assert!(document.contains("**64 KiB, 8 connections**"), "{document}");
    assert_eq!(document.matches("\n| tarpon ").count(), 4, "{document}");
    assert_eq!(document.matches("\n| nginx ").count(), 4, "{document}");
    assert_eq!(document.matches("\n| HAProxy ").count(), 4, "{document}");
}

#[test]
fn proxies_work_without_a_pool() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["proxy", "--sizes=1024", "--connections=4", "--pool-size=0", "--seconds=0.1", "--other-max=60000"];
    let Some(record) = measure(&arguments, directory.path()) else { return };
    for window in record["series"][0]["rounds"][0]["windows"].as_array().unwrap() {
        assert_only_correct(&window["checked"]);
    }
}

#[test]
fn idle_tunnels_take_memory_and_two_descriptors_each() {
    let directory = tempfile::tempdir().unwrap();
    let Some(record) = measure(&["tunnels", "--tunnels=200", "--sample=20"], directory.path()) else {
        return;
    };
    for window in record["rounds"][0]["windows"].as_array().unwrap() {
        let number = |part: &str, name: &str| window[part][name].as_u64().unwrap();
        assert!(number("open", "descriptors") >= number("before", "descriptors") + 2 * 200 - 10, "{window}");
        // Other tests may run the same programs, and then share their pages: the PSS may shrink.
        let anonymous = |part: &str| window[part]["memory"]["anonymous"].as_u64().unwrap();
        assert!(anonymous("open") > anonymous("before"), "{window}");
        assert_eq!(window["echoed"], 20, "{window}");
    }
    let document = reported(directory.path());
    assert!(document.contains("\n| HAProxy "), "{document}");
}

#[test]
fn short_ladder_has_its_stages() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["ladder", "--servers=nginx,tarpon-epoll", "--seconds=0.1", "--connections=20", "--other-max=60000"];
    let Some(record) = measure(&arguments, directory.path()) else { return };
    for window in record["rounds"][0]["windows"].as_array().unwrap() {
        let steps = window["steps"].as_array().unwrap();
        let stages: Vec<&str> = steps.iter().map(|step| step["stage"].as_str().unwrap()).collect();
        match window["server"] == "nginx" {
            true => assert_eq!(stages, ["initial", "sendfile", "keep-clients", "keep-upstream"]),
            // A host without io_uring has no such stage.
            false => assert!(stages.ends_with(&["keep-clients", "keep-upstream"]), "{stages:?}"),
        }
        steps.iter().for_each(|step| assert_only_correct(&step["checked"]));
    }
    let document = reported(directory.path());
    assert!(document.contains("\n| + io_uring | – |"), "{document}");
    assert!(document.contains("System tuning needs"), "{document}");
}

#[test]
fn short_experiment_with_a_stalled_upstream_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "stalled",
        "--upstream",
        "--servers=nginx,tarpon-epoll",
        "--seconds=0.2",
        "--stalled=5",
        "--rate=200",
        "--other-max=60000",
    ];
    let Some(record) = measure(&arguments, directory.path()) else { return };
    for window in record["rounds"][0]["windows"].as_array().unwrap() {
        for part in ["idle", "stalled"] {
            assert_eq!(window[part]["requests"], 40, "{window}");
        }
    }
    assert!(reported(directory.path()).contains("| p99 alone, µs |"));
}

/// Runs an experiment of one round. Returns its record, or `None` if this machine lacks what it needs.
fn measure(arguments: &[&str], directory: &std::path::Path) -> Option<serde_json::Value> {
    let has_servers = arguments.iter().any(|argument| argument.starts_with("--servers"));
    let servers = if has_servers { None } else { Some("--servers=tarpon-epoll,nginx,haproxy") };
    let others = ["--no-isolation", "--rounds=1", "--idle-wait=0"];
    let arguments: Vec<&str> = arguments.iter().copied().chain(others).chain(servers).collect();
    let (output, record) = measured(&arguments, directory);
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("server and client need a core each") || message.contains("left out: ") {
        eprintln!("not measured: {message}");
        return None;
    }
    assert!(output.status.success(), "{message}");
    Some(record.expect("a record"))
}

/// Checks the counts of a client: responses, and no errors.
fn assert_only_correct(checked: &serde_json::Value) {
    let counts = checked.as_object().unwrap();
    assert!(counts["correct"].as_u64() > Some(0), "{checked}");
    assert!(counts.iter().all(|(name, count)| name == "correct" || count == 0), "{checked}");
}
