//! Certificates by ACME, against Pebble.

#![allow(clippy::disallowed_methods, reason = "tests name their own files")]

mod common;

use common::{
    ENGINES,
    client::TestClient,
    directory::{AcmeDirectory, DirectoryOptions, EXTERNAL_ACCOUNT},
    load::LoadGenerator,
    port::ReservedPort,
    program::{RunningProgram, UpgradedProgram, serve, serve_config},
    site, wait_for,
};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use x509_parser::{pem::Pem, prelude::GeneralName};

/// Returns the files below a directory whose name ends so.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path, end)),
            false if path.to_string_lossy().ends_with(end) => found.push(path),
            false => {}
        }
    }
    found
}

/// Waits for a stored certificate that is not the one of before. Returns its serial number and its names.
fn wait_for_certificate(state: &Path, before: &str) -> (String, Vec<String>) {
    wait_for("a certificate", || {
        let file = files(state, "certificate.pem").pop()?;
        let text = fs::read(file).ok()?;
        let pem = Pem::iter_from_buffer(&text).flatten().find(|pem| pem.label == "CERTIFICATE")?;
        let certificate = pem.parse_x509().expect("a certificate");
        let serial = certificate.raw_serial_as_string();
        let names = certificate.subject_alternative_name().ok()??;
        let names = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        (serial != before).then_some((serial, names))
    })
}

/// Waits until standard error contains a text, and returns all of it.
fn wait_for_warning(served: &RunningProgram, text: &str) -> String {
    wait_for(text, || Some(served.err()).filter(|err| err.contains(text)))
}

#[test]
fn certificates_are_obtained_and_renewed_while_no_request_fails() {
    let dir = site(&[("www/index.html", "home")]);
    let state = dir.path().join("state");
    let port = ReservedPort::new();
    let options = DirectoryOptions {
        http_port: port.address.port(),
        tls_port: 1,
        validity_s: 5,
        needs_external_account: false,
    };
    let mut directory = AcmeDirectory::start(dir.path(), &options);
    let (listen, admin) = (port.address.to_string(), format!("unix:{}", dir.path().join("admin").display()));
    let served = RunningProgram::start_ready(serve(
        &dir.path().join("www"),
        &[
            ["--listen", &listen],
            ["--admin", &admin],
            ["--domain", "a.example"],
            ["--domain", "b.example"],
            ["--acme-email", "admin@example.org"],
            ["--acme-directory", &directory.url()],
            ["--acme-ca", &directory.root()],
            ["--state-directory", &state.display().to_string()],
        ]
        .concat(),
    ));
    let tarpon = |arguments: [&str; 2]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarpon"));
        command.args(arguments).arg(&admin);
        command
    };
    let load = LoadGenerator::start(port.address, "/", b"home");
    let (first, names) = wait_for_certificate(&state, "");
    assert_eq!(names, ["a.example", "b.example"]);
    for (end, mode) in [("certificate.pem", 0o600), ("account.json", 0o600)] {
        let file = files(&state, end).pop().expect(end);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, mode, "{end}");
    }
    let mut client = TestClient::connect(port.address);
    client.send("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(client.response().status, 404, "an unknown token");

    let (second, _) = wait_for_certificate(&state, &first);
    let account = || fs::read_to_string(files(&state, "account.json").pop()?).ok();
    let before = account().expect("an account");
    // The directory forgets all accounts, and is down for a while.
    directory.stop();
    wait_for_warning(&served, "the directory cannot be reached");
    assert!(load.failure_count() == 0, "{:?}", load.stop());
    directory.restart();
    let status = tarpon(["status", "--admin"]).output();
    let status = String::from_utf8(status.expect("it runs").stdout).expect("UTF-8");
    assert!(status.contains("certificate a.example, b.example"), "{status}");
    assert!(status.contains("failing: 1 order: the directory cannot be reached"), "{status}");
    // A reload tries again at once.
    served.signal(Signal::HUP);
    let (third, _) = wait_for_certificate(&state, &second);
    assert_ne!(account().expect("an account"), before, "a new account");
    // The successor serves what is stored, and renews it.
    let upgraded = tarpon(["upgrade", "--admin"]).output().expect("it runs");
    let next = UpgradedProgram::from_output(&String::from_utf8_lossy(&upgraded.stdout));
    let (_, names) = wait_for_certificate(&state, &third);
    assert_eq!(names, ["a.example", "b.example"]);
    load.wait_for_responses(10);
    let failures = load.stop();
    assert!(failures.is_empty(), "{failures:?}");
    next.stop();
}

/// A domain is all that HTTPS needs, with each engine and each challenge: the certificate reaches workers that serve already.
#[test]
fn a_domain_is_all_that_https_needs() {
    let challenges = ["http-01", "tls-alpn-01"].into_iter().cycle();
    for (engine, challenge) in ENGINES.iter().map(|engine| engine.name()).zip(challenges) {
        let dir = site(&[
            ("www/index.html", "home"),
            ("www/_redirects", "/.well-known/* /elsewhere 301!"),
            ("mounted/index.html", "mounted"),
        ]);
        let (state, [plain, tls]) = (dir.path().join("state"), [(); 2].map(|()| ReservedPort::new()));
        let options = DirectoryOptions {
            http_port: plain.address.port(),
            tls_port: tls.address.port(),
            validity_s: 86_400,
            needs_external_account: false,
        };
        let directory = AcmeDirectory::start(dir.path(), &options);
        // The answers to the directory come before a mount, a forced rule and the redirect to HTTPS.
        let config = format!(
            "[[site]]\npath = \"www\"\ndomain = [\"a.example\"]\n\n\
             [[site]]\npath = \"mounted\"\nhosts = [\"a.example\"]\nmount = \"/.well-known\"\n\n\
             [[listener]]\naddress = \"{}\"\n\n[[listener]]\naddress = \"tls:{}\"\n\n\
             [server]\nacme-directory = \"{}\"\nacme-ca = \"{}\"\nacme-challenge = \"{challenge}\"\n\
             state-directory = \"state\"\n",
            plain.address,
            tls.address,
            directory.url(),
            directory.root(),
        );
        let options = ["--engine", engine, "--workers", "4"];
        let _served = RunningProgram::start_ready(serve_config(&config, dir.path(), &options));
        let (serial, names) = wait_for_certificate(&state, "");
        assert_eq!(names, ["a.example"], "{engine}, {challenge}");
        let (host, port) = (tls.address.ip(), tls.address.port());
        let url = format!("https://a.example:{port}/");
        let resolve = format!("a.example:{port}:{host}");
        // The file is there a moment before the workers see the certificate.
        let shown = wait_for("an answer by HTTPS", || {
            let mut curl = Command::new("curl");
            let output =
                curl.args(["--silent", "--insecure", "--verbose", "--resolve", &resolve, &url]).output();
            let output = output.expect("curl runs");
            output
                .status
                .success()
                .then(|| (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned()))
        });
        assert_eq!(shown.0, b"home", "{engine}, {challenge}, {serial}: {}", shown.1);
        assert!(shown.1.contains("Pebble"), "{engine}: the issuer: {}", shown.1);
        let mut client = TestClient::connect(plain.address);
        client.send("GET /a?b HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        let response = client.response();
        let location = response.field("Location").unwrap_or_default().to_owned();
        assert_eq!((response.status, location), (308, format!("{url}a?b")), "{engine}");
    }
}

#[test]
fn wildcards_are_proved_by_a_hook_and_accounts_bound_to_another() {
    let dir = site(&[("www/index.html", "home")]);
    let options =
        DirectoryOptions { http_port: 1, tls_port: 1, validity_s: 86_400, needs_external_account: true };
    let directory = AcmeDirectory::start(dir.path(), &options);
    let hook = dir.path().join("hook");
    let script = format!(
        "#!/bin/sh\nset -e\necho \"$1 $2 $3\" >> {log}\ncase $1 in\n\
         add) curl --silent --fail --data \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://{at}/set-txt ;;\n\
         remove) curl --silent --fail --data \"{{\\\"host\\\":\\\"$2.\\\"}}\" http://{at}/clear-txt ;;\nesac\n",
        log = dir.path().join("hook.log").display(),
        at = directory.management.address,
    );
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let [key_id, key] = EXTERNAL_ACCOUNT;
    let config = format!(
        "[[site]]\npath = \"www\"\ndomain = [\"*.a.example\"]\n\n[[listener]]\naddress = \"127.0.0.1:0\"\n\n\
         [server]\nacme-directory = \"{}\"\nacme-ca = \"{}\"\nacme-challenge = \"dns-01\"\nacme-dns-hook = \"hook\"\n\
         acme-eab-kid = \"{key_id}\"\nacme-eab-key = \"${{EAB_KEY}}\"\nstate-directory = \"state\"\n",
        directory.url(),
        directory.root(),
    );
    let mut command = serve_config(&config, dir.path(), &["--log-format", "human"]);
    command.env("EAB_KEY", key);
    let _served = RunningProgram::start_ready(command);
    let (_, names) = wait_for_certificate(&dir.path().join("state"), "");
    assert_eq!(names, ["*.a.example"]);
    let log = wait_for("the removal of the record", || {
        let log = fs::read_to_string(dir.path().join("hook.log")).ok()?;
        log.contains("remove").then_some(log)
    });
    let lines: Vec<_> = log.lines().collect();
    assert!(lines[0].starts_with("add _acme-challenge.a.example "), "{log}");
    assert_eq!(lines[1], lines[0].replace("add", "remove"), "{log}");
}

#[test]
fn mistakes_are_told_with_the_way_out() {
    let dir = site(&[("www/index.html", "home")]);
    let port = ReservedPort::new();
    let other = ReservedPort::new();
    // A server that answers something else at the name.
    let somebody = RunningProgram::start_ready(serve(
        &dir.path().join("www"),
        &["--listen", &other.address.to_string()],
    ));
    let options = |http_port, needs_external_account| DirectoryOptions {
        http_port,
        tls_port: 1,
        validity_s: 86_400,
        needs_external_account,
    };
    #[rustfmt::skip]
    let cases = [
        ("closed",  options(1, false),                    "cannot connect to this name",                "open the port in firewall and router"),
        ("other",   options(other.address.port(), false), "finds another server at this name",          "let the A and AAAA records"),
        ("account", options(1, true),                     "the directory refuses the account",          "--acme-eab-kid"),
    ];
    for (name, options, why, hint) in cases {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        let directory = AcmeDirectory::start(&folder, &options);
        let listen = port.address.to_string();
        let state = folder.join("state").display().to_string();
        let served = RunningProgram::start_ready(serve(
            &dir.path().join("www"),
            &[
                ["--listen", &listen],
                ["--domain", "a.example"],
                ["--acme-directory", &directory.url()],
                ["--acme-ca", &directory.root()],
                ["--state-directory", &state],
            ]
            .concat(),
        ));
        let err = wait_for_warning(&served, "there is none yet; next attempt in ");
        assert!(err.contains("no new certificate for a.example: "), "{name}: {err}");
        assert!(err.contains(why) && err.contains(hint), "{name}: {err}");
    }
    drop(somebody);
}
