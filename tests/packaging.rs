//! Checks each file of `packaging/` with the program that reads it.

use crate::common::{
    EMBEDDED,
    client::{TestClient, get},
    server::{EmbeddedServer, settings},
    site, wait_for,
};
use std::{
    fs::{self, File},
    num::NonZeroU32,
    process::Command,
};
use tarpon::{LogClientIp, LogFormat, Logging, Settings};

#[test]
fn systemd_service_has_few_rights_and_many_descriptors() {
    let unit = packaging("systemd/tarpon.service");
    let report =
        output(Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager"]).arg(&unit));
    let (_, score) = report.split_once("Overall exposure level for tarpon.service: ").expect("a score");
    let score: f64 = score.split(' ').next().unwrap().parse().unwrap();
    assert!(score <= 1.5, "{report}");
    assert!(fs::read_to_string(unit).unwrap().contains("\nLimitNOFILE=1048576\n"));
}

#[test]
fn systemd_understands_the_units() {
    // This machine has neither /usr/bin/tarpon nor its manual.
    let dir = tempfile::tempdir().unwrap();
    for name in ["tarpon.service", "tarpon.socket"] {
        let unit = fs::read_to_string(packaging(&format!("systemd/{name}"))).unwrap();
        let unit = unit.replace("/usr/bin/tarpon", env!("CARGO_BIN_EXE_tarpon"));
        fs::write(dir.path().join(name), unit.replace("Documentation=man:tarpon(1)\n", "")).unwrap();
    }
    for name in ["tarpon.service", "tarpon.socket"] {
        let report =
            Command::new("systemd-analyze").arg("verify").arg(dir.path().join(name)).output().unwrap();
        let report = String::from_utf8_lossy(&report.stderr);
        let ours: Vec<_> = report.lines().filter(|line| line.contains("tarpon")).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
}

#[test]
fn each_kernel_setting_exists_and_has_a_reason() {
    let file = fs::read_to_string(packaging("sysctl.d/90-tarpon.conf")).unwrap();
    let mut count = 0;
    for paragraph in file.split("\n\n").skip(1) {
        let (reason, setting) = paragraph.trim_end().rsplit_once('\n').expect("a reason and a setting");
        assert!(reason.lines().all(|line| line.starts_with("# ")), "{paragraph}");
        let (name, _) = setting.split_once(" = ").expect("a name and a value");
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        assert!(fs::exists(&path).unwrap(), "{path}");
        count += 1;
    }
    assert_eq!(count, 7);
}

#[test]
fn logrotate_understands_its_file() {
    let ended = Command::new("/usr/sbin/logrotate")
        .args(["--debug", "--state", "/dev/null", &packaging("logrotate.d/tarpon")])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && report.contains("/var/log/tarpon/*.log"), "{report}");
    assert!(!report.contains("error"), "{report}");
}

/// With log lines that a server writes.
#[test]
fn fail2ban_matches_attacks_and_no_other_request() {
    let dir = site(&[("index.html", "home")]);
    let requests = [
        // request                                         is an offence
        (get("/"), false),
        (get("/missing"), false),
        (get("/?\"%22%20400"), false),
        (get("/%22 400"), true),
        (get("/.env"), true),
        (get("/wp-login.php?x"), true),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), true),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), true),
        ("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \" 400 \\\" 400 137\r\n\r\n".to_owned(), false),
    ];
    for form in [LogFormat::Common, LogFormat::Combined, LogFormat::Simple] {
        let log = dir.path().join("log");
        let logging = Logging { format: form, client_ip: LogClientIp::Full, sample: NonZeroU32::MIN };
        let settings = Settings { logging: Some(logging), ..settings(EMBEDDED[0], 1) };
        let served = EmbeddedServer::dir(&settings, dir.path());
        served.handle.log_to(File::create(&log).unwrap().into());
        for (request, _) in &requests {
            let mut client = TestClient::connect(served.address);
            client.send(request);
            client.response();
        }
        let lines = wait_for("all lines", || {
            let lines = fs::read_to_string(&log).unwrap();
            (lines.lines().count() == requests.len()).then_some(lines)
        });
        // All lines of a kind in one run, as fail2ban-regex takes long to start.
        for (is_offence, want) in [(true, "{} matched, 0 missed"), (false, "0 matched, {} missed")] {
            let ours = lines.lines().zip(&requests).filter(|(_, (_, offence))| *offence == is_offence);
            let ours: Vec<_> = ours.map(|(line, _)| line).collect();
            let file = dir.path().join("ours");
            fs::write(&file, ours.join("\n") + "\n").unwrap();
            let filter = packaging("fail2ban/filter.d/tarpon.conf");
            // fail2ban-regex fails if no line matches, so its exit status does not matter.
            let options = ["--print-all-matched", "--print-all-missed"];
            let report =
                Command::new("fail2ban-regex").args(options).arg(&file).arg(&filter).output().unwrap();
            let report = String::from_utf8_lossy(&report.stdout).into_owned();
            assert!(
                report.contains(&want.replace("{}", &ours.len().to_string())),
                "{form:?}: {ours:#?}: {report}"
            );
        }
    }
}

fn packaging(file: &str) -> String {
    format!("{}/packaging/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("tests/setup installs the program");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
