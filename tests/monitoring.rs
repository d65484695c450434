//! packaging/prometheus and packaging/grafana: each metric that they name is one that a server reports. promtool checks the rules themselves,
//! in tests/packages.

use crate::common::{
    client::TestClient,
    program::{RunningProgram, serve_config},
    site, wait_for,
};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// With all that has metrics of its own. No server listens at port 1.
const CONFIG: &str = "
[[listener]]
address = \"127.0.0.1:0\"
[[listener]]
address = \"tls:127.0.0.2:0\"
[server]
acme-directory = \"https://127.0.0.1:1/directory\"
state-directory = \"state\"
[[site]]
path = \"www\"
domain = [\"a.example\"]
proxy = [\"/api/=http://127.0.0.1:1\"]
cgi = [\"/cgi-bin/=cgi-bin\"]
";

#[test]
fn named_metrics_are_reported() {
    let dir = site(&[("www/index.html", "home"), ("cgi-bin/none", ""), ("state/none", "")]);
    let user =
        if rustix::process::geteuid().is_root() { "[server]\ncgi-user = \"daemon\"\n" } else { "[server]\n" };
    let config = CONFIG.replace("[server]\n", user);
    let admin = dir.path().join("admin");
    let option = format!("unix:{}", admin.display());
    let _program = RunningProgram::start_ready(serve_config(&config, dir.path(), &["--admin", &option]));
    let metrics = wait_for("metrics of all kinds", || {
        let metrics =
            String::from_utf8(TestClient::connect_unix(&admin).get("/metrics").content).expect("UTF-8");
        let kinds = [
            "tarpon_certificate_order_failures{",
            "tarpon_upstream_server_up{",
            "tarpon_cgi_programs_running ",
        ];
        kinds.iter().all(|kind| metrics.contains(kind)).then_some(metrics)
    });
    let mut reported: BTreeSet<String> = BTreeSet::new();
    for (name, kind) in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        reported.insert(name.to_owned());
        if kind == "histogram" {
            reported.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
        }
    }
    for (file, count_min) in [
        ("prometheus/tarpon.rules.yml", 12),
        ("prometheus/tarpon.rules.test.yml", 12),
        ("grafana/tarpon.json", 30),
    ] {
        let named = metric_names(&packaging(file));
        let unknown: Vec<_> = named.difference(&reported).collect();
        assert!(unknown.is_empty(), "packaging/{file} names metrics that no server reports: {unknown:?}");
        assert!(named.len() >= count_min, "{file}: {named:?}");
    }
}

#[test]
fn each_alert_has_a_case_and_a_severity() {
    let rules = packaging("prometheus/tarpon.rules.yml");
    let cases = packaging("prometheus/tarpon.rules.test.yml");
    let alerts: Vec<_> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 10, "{}", alerts.len());
    for alert in alerts {
        let (name, rest) = alert.split_once('\n').expect("a name");
        assert!(
            cases.contains(&format!("{{alertname=\"{name}\"}}")),
            "tarpon.rules.test.yml has no case for {name}"
        );
        for part in ["severity: ", "summary: ", "description: "] {
            assert!(rest.contains(part), "{name} has no {part}");
        }
    }
}

#[test]
fn dashboard_asks_the_chosen_job_and_servers() {
    let dashboard: Value = serde_json::from_str(&packaging("grafana/tarpon.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().expect("a number")), "two panels have one id: {panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            let names = metric_names(expression).len();
            let selectors = expression.matches("job=\"$job\", instance=~\"$instance\"").count();
            assert!(names > 0 && selectors >= names, "{}: {expression}", panel["title"]);
        }
    }
    let rows = panels.iter().filter(|panel| panel["type"] == "row").count();
    assert!(rows >= 4 && panels.len() > 4 * rows, "{rows} rows, {} panels", panels.len());
}

/// Returns the words that look like metrics of a server.
fn metric_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words
        .filter(|word| word.starts_with("tarpon_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

fn packaging(file: &str) -> String {
    fs::read_to_string(format!("{}/packaging/{file}", env!("CARGO_MANIFEST_DIR"))).expect("a file")
}
