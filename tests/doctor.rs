//! `tarpon doctor` examines this machine and a configuration, and changes settings only on request, with a way back.

use crate::common::{
    program::{ProgramExit, RunningProgram, tarpon, wrap_command},
    readable_dir, site,
    tls_files::TlsFiles,
};
use serde_json::Value;
use std::{
    collections::BTreeSet, ffi::OsStr, fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path,
    process::Command,
};

/// The checks of the system. Each has one finding on each machine.
const SYSTEM_CHECKS: [&str; 30] = [
    "open-files",
    "open-files-maximum",
    "file-table",
    "watches",
    "watch-instances",
    "locked-memory",
    "overcommit",
    "accept-backlog",
    "syn-backlog",
    "syn-cookies",
    "send-buffers",
    "receive-buffers",
    "slow-start-after-idle",
    "fast-open",
    "time-wait-reuse",
    "local-ports",
    "congestion-control",
    "queue-discipline",
    "huge-pages",
    "shared-huge-pages",
    "reserved-huge-pages",
    "io-uring",
    "io-uring-features",
    "kernel-tls",
    "landlock",
    "seccomp",
    "cpu-governor",
    "numa-nodes",
    "workers",
    "clock-source",
];

/// The checks of a configuration.
const CONFIG_CHECKS: [&str; 14] = [
    "configuration",
    "start",
    "user",
    "site-path",
    "certificate",
    "certificate-key",
    "certificate-names",
    "acme-certificate",
    "acme-port",
    "cgi-programs",
    "name",
    "listener",
    "port",
    "log-disk",
];

fn doctor(arguments: &[&OsStr]) -> Command {
    let mut command = tarpon([OsStr::new("doctor")]);
    command.args(arguments).env_remove("STATE_DIRECTORY");
    command
}

/// Runs `tarpon doctor --json` with a configuration. Returns its findings.
fn examine(config: &Path) -> (ProgramExit, Vec<Value>) {
    let exit = RunningProgram::run(doctor(&["--json".as_ref(), config.as_os_str()]));
    let findings = findings(&exit);
    (exit, findings)
}

#[track_caller]
fn findings(exit: &ProgramExit) -> Vec<Value> {
    let value: Value = serde_json::from_str(&exit.out).unwrap_or_else(|error| panic!("{error}: {exit:?}"));
    value["findings"].as_array().unwrap_or_else(|| panic!("{exit:?}")).clone()
}

/// Returns the only finding of a check about something whose name has this part.
#[track_caller]
fn finding<'f>(findings: &'f [Value], check: &str, subject: &str) -> &'f Value {
    let about = |finding: &&Value| {
        finding["check"] == check && finding["subject"].as_str().unwrap_or_default().contains(subject)
    };
    let found: Vec<_> = findings.iter().filter(about).collect();
    let [found] = found[..] else { panic!("{check}, {subject}: {found:?} of {findings:#?}") };
    found
}

/// Writes a configuration beside the site `public`.
fn configure(dir: &Path, more: &str) -> std::path::PathBuf {
    let path = dir.join("tarpon.toml");
    let text = format!("{more}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[server]\nadmin = \"off\"\n");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn json_has_each_check_of_the_system_once() {
    let exit = RunningProgram::run(doctor(&["--json".as_ref()]));
    let found = findings(&exit);
    let checks: Vec<_> = found.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    assert_eq!(checks, SYSTEM_CHECKS);
    for finding in &found {
        let text = |name: &str| finding[name].as_str().unwrap_or_default();
        assert!(
            !text("value").is_empty() && !text("why").is_empty() && !text("group").is_empty(),
            "{finding}"
        );
        let has_advice = ["advice", "problem"].contains(&text("verdict"));
        assert!(has_advice || ["good", "unknown"].contains(&text("verdict")), "{finding}");
        assert_eq!(finding["advice"].is_string(), has_advice, "{finding}");
        assert!(finding["change"].is_null() || finding["verdict"] == "advice", "{finding}");
    }
    let has_problem = found.iter().any(|finding| finding["verdict"] == "problem");
    assert_eq!(exit.status.code(), Some(i32::from(has_problem)), "{exit:?}");
}

#[test]
fn document_explains_each_check() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/doctor.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let explained: BTreeSet<&str> = rows.map(|(check, _)| check).collect();
    let checks = SYSTEM_CHECKS.iter().chain(&CONFIG_CHECKS).chain(&["state-disk"]);
    assert_eq!(explained, checks.copied().collect());
}

#[test]
fn good_configuration_has_no_problem() {
    let dir = site(&[("public/index.html", "home")]);
    let config = configure(dir.path(), "[[site]]\npath = \"public\"\n[log]\naccess-log = \"access.log\"");
    let (exit, found) = examine(&config);
    assert_eq!(exit.status.code(), Some(0), "{exit:?}");
    for (check, subject) in [("start", ""), ("site-path", "public")] {
        assert_eq!(finding(&found, check, subject)["verdict"], "good", "{found:#?}");
    }
    finding(&found, "log-disk", "");
    assert!(!dir.path().join("access.log").exists(), "nothing was made");
}

#[test]
fn closed_site_is_a_problem_that_the_command_mends() {
    let dir = site(&[("public/index.html", "home")]);
    let public = dir.path().join("public");
    fs::set_permissions(&public, fs::Permissions::from_mode(0o000)).unwrap();
    let config = configure(dir.path(), "[[site]]\npath = \"public\"");
    let (exit, found) = examine(&config);
    assert_eq!(exit.status.code(), Some(1), "{exit:?}");
    assert_eq!(finding(&found, "start", "")["verdict"], "problem");
    let found = finding(&found, "site-path", "public");
    assert_eq!(found["verdict"], "problem", "{found}");
    let value = found["value"].as_str().unwrap();
    assert!(value.contains("may not enter") && value.contains("mode 0000"), "{value}");
    let command = found["command"].as_str().unwrap();
    assert!(command.starts_with("chmod ") && command.contains("+rx "), "{command}");
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
    let (exit, found) = examine(&config);
    assert_eq!(exit.status.code(), Some(0), "{exit:?}");
    assert_eq!(finding(&found, "site-path", "public")["verdict"], "good");
}

#[test]
fn certificates_that_expire_and_hosts_without_one_are_found() {
    let dir = site(&[("public/index.html", "home")]);
    let files = TlsFiles::new();
    files.issue("new", &["localhost"]);
    files.issue_with("old", &["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    #[rustfmt::skip]
    let cases = [
        // certificate, host    status  verdict    value                 names
        ("new", "localhost",    0,      "good",    "expires in ",        None),
        ("old", "localhost",    1,      "problem", "expired ",           None),
        ("new", "a.localhost",  0,      "good",    "names: localhost",   Some("no certificate covers a.localhost")),
    ];
    for (name, host, status, verdict, value, names) in cases {
        let at = files.path().join(name);
        let more = format!(
            "[[site]]\npath = \"public\"\nhosts = [\"{host}\"]\ntls-cert = [\"{0}.pem\"]\ntls-key = [\"{0}.key\"]\n[[listener]]\naddress = \"tls:127.0.0.2:0\"",
            at.display()
        );
        let (exit, found) = examine(&configure(dir.path(), &more));
        assert_eq!(exit.status.code(), Some(status), "{name}, {host}: {exit:?}");
        let certificate = finding(&found, "certificate", name);
        assert_eq!(certificate["verdict"], verdict, "{certificate}");
        assert!(certificate["value"].as_str().unwrap().contains(value), "{certificate}");
        let uncovered = found.iter().find(|finding| finding["check"] == "certificate-names");
        let uncovered = uncovered.map(|finding| finding["value"].as_str().unwrap());
        assert_eq!(uncovered.is_some(), names.is_some(), "{uncovered:?}");
        assert!(uncovered.is_none_or(|value| value.starts_with(names.unwrap())), "{uncovered:?}");
    }
}

#[test]
fn listener_that_answers_is_told() {
    let dir = site(&[("public/index.html", "home")]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let more = format!("[[site]]\npath = \"public\"\n[[listener]]\naddress = \"{address}\"");
    let (_, found) = examine(&configure(dir.path(), &more));
    let found = finding(&found, "listener", &address);
    assert_eq!((&found["verdict"], &found["value"]), (&"good".into(), &"a program answers".into()));
}

#[test]
fn faulty_values_of_the_file_are_problems() {
    let dir = site(&[("public/index.html", "home"), ("public/key.pem", "")]);
    let listener = "[[listener]]\naddress = \"192.0.2.1:5991\"";
    let config = configure(
        dir.path(),
        &format!("[[site]]\npath = \"public\"\n{listener}\n[log]\naccess-log = \"public/a\""),
    );
    let (exit, found) = examine(&config);
    assert_eq!(exit.status.code(), Some(1), "{exit:?}");
    let starts: Vec<_> = found.iter().filter(|finding| finding["check"] == "start").collect();
    assert!(
        starts
            .iter()
            .any(|found| found["value"].as_str().unwrap().contains("cannot listen on 192.0.2.1:5991")),
        "{starts:?}"
    );
    let exposed = finding(&found, "configuration", "");
    assert!(exposed["value"].as_str().unwrap().contains("whose files a site serves"), "{exposed}");
}

#[test]
fn colours_and_symbols_appear_on_terminals_only() {
    let piped = RunningProgram::run(doctor(&[]));
    assert!(!piped.out.contains('\x1b') && piped.out.is_ascii(), "{piped:?}");
    assert!(piped.out.contains("\n  good    "), "{piped:?}");
    let on_terminal = |colour: bool| {
        let mut command = doctor(&[]);
        if !colour {
            // `start_on_terminal` removes NO_COLOR.
            command = wrap_command(&["env", "NO_COLOR=1"], &command);
        }
        RunningProgram::start_on_terminal(command).wait().out
    };
    let (coloured, plain) = (on_terminal(true), on_terminal(false));
    assert!(coloured.contains('\x1b') && coloured.contains('✓'), "{coloured}");
    assert!(!plain.contains('\x1b') && plain.contains('✓'), "{plain}");
    // A terminal without a size has 80 columns. Commands stay whole.
    let long = |line: &&str| line.trim_end().chars().count() > 80 && !line.contains("command  ");
    assert_eq!(plain.lines().find(long), None);
}

#[test]
fn wrong_arguments_have_status_2_and_missing_files_status_1() {
    let both = RunningProgram::run(doctor(&["--apply".as_ref(), "--undo".as_ref()]));
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let none = RunningProgram::run(doctor(&["/none/tarpon.toml".as_ref()]));
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(none.error_line().contains("cannot read /none/tarpon.toml"), "{none:?}");
}

#[test]
fn only_root_may_change_settings() {
    for option in ["--apply", "--undo"] {
        let command = doctor(&[option.as_ref()]);
        let command = match rustix::process::geteuid().is_root() {
            // The program may lie in a directory that another user cannot enter: it keeps the right to.
            true => wrap_command(&["unshare", "--user", "--map-user=1000"], &command),
            false => command,
        };
        let exit = RunningProgram::run(command);
        if exit.err.contains("unshare") {
            return eprintln!("not run: this user may not make a user namespace: {}", exit.err);
        }
        assert_eq!(exit.status.code(), Some(1), "{exit:?}");
        let want = format!(
            "tarpon: cannot run tarpon doctor {option}: only root may change settings of the kernel; "
        );
        assert!(exit.error_line().starts_with(&want), "{exit:?}");
    }
}

/// Runs the doctor where only settings of the network are writable. They belong to a namespace that ends with the test: the machine keeps its own.
const NAMESPACE: &str = r#"
mkdir "$0/net"
mount --bind /proc/sys/net "$0/net"
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount --bind "$0/net" /proc/sys/net
echo 1048576 > "$0/enough"
for name in file-max inotify/max_user_watches inotify/max_user_instances; do
    mount --bind "$0/enough" "/proc/sys/fs/$name"
done
echo 100 > /proc/sys/net/core/somaxconn
echo 0 > /proc/sys/net/ipv4/tcp_syncookies
show() { echo "= $(cat /proc/sys/net/core/somaxconn) $(cat /proc/sys/net/ipv4/tcp_syncookies)"; }
show
"$@" --sysctl > "$0/proposed"
"$@" --apply
show
"$@" --apply | tail -n 1
"$@" --undo
show
"$@" --undo
"#;

#[test]
fn settings_are_changed_and_restored_in_a_namespace() {
    let wrapper = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec"];
    let may_wrap = Command::new(wrapper[0]).args(&wrapper[1..5]).arg("true").output();
    // Mapped to root, another user could not show that a path belongs to root.
    if !rustix::process::geteuid().is_root() || !may_wrap.is_ok_and(|output| output.status.success()) {
        return eprintln!("not run: this user may not make namespaces");
    }
    let before = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let dir = readable_dir();
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(NAMESPACE).arg(dir.path());
    command.args([OsStr::new(env!("CARGO_BIN_EXE_tarpon")), "doctor".as_ref()]);
    command.env("STATE_DIRECTORY", dir.path().join("state"));
    let exit = RunningProgram::run(command);
    assert_eq!(exit.status.code(), Some(0), "{exit:?}");
    let shown: Vec<_> = exit.out.lines().filter(|line| line.starts_with("= ")).collect();
    assert_eq!(shown, ["= 100 0", "= 4096 1", "= 100 0"], "{exit:?}");
    for line in [
        "changed net.core.somaxconn: 100 -> 4096",
        "changed net.ipv4.tcp_syncookies: 0 -> 1",
        "no setting changed: there is nothing to do",
        "restored net.core.somaxconn: 4096 -> 100",
        "restored net.ipv4.tcp_syncookies: 1 -> 0",
        "no setting restored: there is nothing to do",
    ] {
        assert_eq!(exit.out.lines().filter(|found| *found == line).count(), 1, "{line}: {exit:?}");
    }
    let proposed = fs::read_to_string(dir.path().join("proposed")).unwrap();
    assert!(proposed.contains("# It was 100.\nnet.core.somaxconn = 4096\n"), "{proposed}");
    assert!(!dir.path().join("state/doctor-undo.json").exists(), "nothing is left to undo");
    assert_eq!(
        fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap(),
        before,
        "the machine keeps its own"
    );
}

/// A namespace with a public address of its own, and names that a file has. No packet leaves it.
const NAMES: &str = r#"
ip link set lo up
ip address add 9.9.9.1/32 dev lo
printf '9.9.9.1 here.test\n9.9.9.9 away.test\n127.0.0.1 loop.test\n' > "$0/hosts"
mount --bind "$0/hosts" /etc/hosts
exec "$@"
"#;

#[test]
fn names_are_compared_with_the_addresses_of_a_namespace() {
    let wrapper = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec"];
    let may_wrap = Command::new(wrapper[0]).args(&wrapper[1..5]).arg("true").output();
    if !rustix::process::geteuid().is_root() || !may_wrap.is_ok_and(|output| output.status.success()) {
        return eprintln!("not run: this user may not make namespaces");
    }
    let dir = site(&[("public/index.html", "home")]);
    let more = "[[site]]\npath = \"public\"\nhosts = [\"here.test\", \"away.test\", \"loop.test\", \"*.test\"]\n\
                [[listener]]\naddress = \"0.0.0.0:80\"";
    let config = configure(dir.path(), more);
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(NAMES).arg(dir.path());
    command
        .args([OsStr::new(env!("CARGO_BIN_EXE_tarpon")), "doctor".as_ref(), "--json".as_ref()])
        .arg(config);
    let exit = RunningProgram::run(command);
    let found = findings(&exit);
    #[rustfmt::skip]
    let cases = [
        // check, subject              verdict    value
        ("name", "here.test",          "good",    "9.9.9.1: this machine"),
        ("name", "away.test",          "advice",  "9.9.9.9: not this machine"),
        ("name", "loop.test",          "unknown", "other machines may get another answer"),
        ("port", "here.test:80",       "unknown", "start the server, and ask again"),
        ("listener", "0.0.0.0:80",     "good",    "free"),
    ];
    for (check, subject, verdict, value) in cases {
        let found = finding(&found, check, subject);
        assert_eq!(found["verdict"], verdict, "{found}");
        assert!(found["value"].as_str().unwrap().contains(value), "{found}");
    }
    assert_eq!(
        found.iter().filter(|finding| finding["check"] == "name").count(),
        3,
        "no wildcard: {found:#?}"
    );
}
