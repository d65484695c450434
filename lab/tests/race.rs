//! A short race and a short sweep, without root and without isolation.

mod common;

use common::{lab, measured, reported, tarpon};

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
        "--seconds=0.4",
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
    // A report has clean rounds only.
    if race.status.success() {
        // Each number of connections has a table of rates, and one of response times.
        assert_eq!(report.matches("\n| null epoll |").count(), 4, "{report}");
        assert!(report.contains("**9 connections**"), "{report}");
    }
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
fn each_form_of_request_gets_its_response() {
    let directory = tempfile::tempdir().unwrap();
    for form in ["--request=conditional", "--request=gzip", "--reconnect"] {
        let arguments =
            ["race", "--no-isolation", "--only=tarpon-epoll,nginx", "--rounds=1", "--idle-wait=0"];
        let arguments =
            [&arguments[..], &["--seconds=0.2", "--connections=3", "--size=10000,700", form]].concat();
        let (output, record) = measured(&arguments, directory.path());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || message.contains("the machine is too busy"), "{form}: {message}");
        let record = record.expect("a record");
        for (series, size) in [(0, 10_000), (1, 700)] {
            let series = &record["series"][series];
            assert_eq!(series["size"], size, "{form}");
            let window = &series["rounds"][0]["windows"][0];
            let (requests, len) =
                (window["requests"].as_u64().unwrap(), window["response_len"].as_u64().unwrap());
            assert!(requests > 0, "{form}: {window}");
            let is_whole = len > size;
            assert_eq!(is_whole, form == "--reconnect", "{form}: {window}");
            let reconnects = window["reconnects"].as_u64().unwrap();
            assert_eq!(reconnects > 0, form == "--reconnect", "{form}: {window}");
        }
        assert!(!reported(directory.path()).contains("null"), "{form}");
    }
}

#[test]
fn visitors_of_a_site_get_each_response() {
    let (directory, site) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(site.path().join("sub")).unwrap();
    std::fs::write(site.path().join("style.css"), "p { color: red }".repeat(100)).unwrap();
    std::fs::write(site.path().join("index.html"), "<link href=\"style.css\">").unwrap();
    std::fs::write(site.path().join("sub/page.html"), "<link href=\"../style.css\">".repeat(200)).unwrap();
    let arguments = [
        "race",
        "--no-isolation",
        "--only=tarpon-epoll,nginx",
        "--rounds=1",
        "--idle-wait=0",
        "--seconds=0.2",
    ];
    let site = site.path().to_str().expect("UTF-8");
    let (output, record) =
        measured(&[&arguments[..], &["--connections=3", "--site", site]].concat(), directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || message.contains("the machine is too busy"), "{message}");
    let record = record.expect("a record");
    let window = &record["series"][0]["rounds"][0]["windows"][0];
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{window}"));
    // Contents in gzip, and some answers without content.
    assert!(number(&window["bytes"]) / number(&window["requests"]) < 1500, "{window}");
    let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|name| number(&window["times"][name]));
    assert!(0 < p50 && p50 <= p99 && p99 <= p999, "{window}");
    assert!(number(&window["memory"]["anonymous"]) > 100_000, "{window}");
    assert_eq!(record["settings"]["site"][1], 2);
    // A report has clean rounds only.
    assert!(
        !output.status.success() || reported(directory.path()).contains("response times, bytes and memory")
    );
}

#[test]
fn naive_servers_race() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["race", "--no-isolation", "--only=naive-log,naive-bytes,naive-files", "--rounds=1", "--idle-wait=0"];
    let arguments = [&arguments[..], &["--seconds=0.2", "--connections=2", "--reconnect"]].concat();
    let (output, record) = measured(&arguments, directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || message.contains("the machine is too busy"), "{message}");
    let record = record.expect("a record");
    assert_eq!(record["servers"].as_array().unwrap().len(), 3);
    let window = &record["series"][0]["rounds"][0]["windows"][0];
    assert!(window["requests"].as_u64() > Some(0) && window["server_ns"].as_u64() > Some(0), "{window}");
}

#[test]
fn any_server_can_race_by_its_command() {
    let directory = tempfile::tempdir().unwrap();
    let program = tarpon();
    let other = format!(
        "{} serve {{site}} --listen {{address}} --workers 1 --admin off --compress off",
        program.to_str().expect("UTF-8")
    );
    let arguments = [
        "race",
        "--no-isolation",
        "--only=other",
        "--rounds=1",
        "--idle-wait=0",
        "--seconds=0.05",
        "--other",
        &other,
    ];
    let (output, record) = measured(&arguments, directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || message.contains("the machine is too busy"), "{message}");
    assert_eq!(record.expect("a record")["servers"][0]["server"], "other");
}

#[test]
fn allocator_of_another_library_serves() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["race", "--no-isolation", "--only=tarpon-epoll,tarpon-epoll-jemalloc", "--rounds=1"];
    let arguments = [&arguments[..], &["--idle-wait=0", "--seconds=0.05", "--connections=2"]].concat();
    let (output, record) = measured(&arguments, directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("left out: libjemalloc.so.2") {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success() || message.contains("the machine is too busy"), "{message}");
    let servers = record.expect("a record")["servers"].clone();
    assert_eq!(servers[1]["server"], "tarpon-epoll-jemalloc");
    assert!(servers[1]["name"].as_str().unwrap().contains(", jemalloc 5."), "{servers}");
}

#[test]
fn race_over_another_protocol_is_the_experiment_of_that() {
    let directory = tempfile::tempdir().unwrap();
    let usual = ["race", "--no-isolation", "--only=null-epoll,tarpon-epoll", "--rounds=1", "--idle-wait=0"];
    let arguments = ["--seconds=0.2", "--connections=2", "--protocol=https"];
    let (output, record) = measured(&[&usual[..], &arguments].concat(), directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("need a core each") {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success() || message.contains("the machine is too busy"), "{message}");
    let record = record.expect("a record");
    let command = record["command"].as_str().unwrap();
    assert!(command.starts_with("tarpon-lab tls --rounds 1 --seconds 0.2 --operations small"), "{command}");
    let windows = &record["series"][0]["rounds"][0]["windows"];
    assert_eq!(windows.as_array().unwrap().len(), 1, "{windows}");
    assert!(windows[0]["requests"].as_u64() > Some(0), "{windows}");

    for (arguments, want) in [
        (&["--protocol=h2c", "--reconnect"][..], "leave `--reconnect` out"),
        (&["--protocol=https", "--pipeline=2"], "leave `--pipeline` out"),
        (&["--protocol=h2", "--only=null-epoll"], "no server left"),
    ] {
        let refused = lab(&["race", "--no-isolation"]).args(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && message.contains(want), "{arguments:?}: {message}");
    }
}

#[test]
fn short_sweep_writes_record_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["sweep", "--no-isolation", "--links=loopback", "--rounds=1", "--window=1", "--sizes=1000,100000"];
    let (output, record) = measured(&arguments, directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("may use one core only") {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success(), "{message}");
    let windows = record.expect("a record")["series"][0]["rounds"][0].as_array().unwrap().clone();
    assert_eq!(windows.len(), 2 * 5);
    assert!(windows.iter().all(|window| window["cpu_ns"].as_u64() > Some(0)), "{windows:?}");
    assert!(reported(directory.path()).contains("\n| 97 KiB | "));
}

#[test]
fn attacker_and_burning_process_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["attacks", "--no-isolation", "--rounds=1", "--seconds=0.2", "--kinds=ranges", "--rate=200"];
    let (output, record) =
        measured(&[&arguments[..], &["--servers=tarpon-epoll"]].concat(), directory.path());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("may use one core only") {
        return eprintln!("not measured: {message}");
    }
    assert!(output.status.success(), "{message}");
    let window = record.expect("a record")["windows"][0].clone();
    assert!(window["attacked"]["Ok"]["all"]["requests"].as_u64() > Some(0), "{window}");
    assert!(window["burning"]["all"]["requests"].as_u64() > Some(0), "{window}");
    let slices = |times: &serde_json::Value| times["slice_p99s_ns"].as_array().map(Vec::len);
    assert!(slices(&window["attacked"]["Ok"]) > Some(0) && slices(&window["burning"]) > Some(0), "{window}");
    assert_eq!(window["descriptors"][0], window["descriptors"][1], "{window}");
    assert!(reported(directory.path()).contains("**1,300 ranges in a request**"));
}

#[test]
fn set_tells_its_commands_beforehand() {
    let planned = lab(&["set", "short", "--plan"]).output().unwrap();
    let text = String::from_utf8(planned.stdout).unwrap();
    assert!(
        planned.status.success()
            && text.contains("tarpon-lab race ")
            && text.contains(" minutes on an idle machine"),
        "{text}"
    );
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
