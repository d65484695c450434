//! Certificates by ACME, against Pebble.

use crate::common::{
    ENGINES,
    acme::{SimulatedClock, files, retry_delays, wait_for_certificate, wait_for_warning},
    client::TestClient,
    directory::{AcmeDirectory, DirectoryOptions, EXTERNAL_ACCOUNT},
    load::LoadGenerator,
    port::ReservedPort,
    program::{RunningProgram, UpgradedProgram, serve, serve_config, tarpon},
    site,
    tls::TlsConnector,
    wait_for,
};
use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, process::Command, time::Duration};

/// Waits until clients without a session get the certificate with this serial number.
fn wait_until_served(address: SocketAddr, name: &str, serial: &str) {
    wait_for("handshakes with the certificate", || {
        TlsConnector::serial(address, name).is_ok_and(|served| served == serial).then_some(())
    });
}

/// Checks that the delays of failed orders double from a minute up to 6 hours, with a random part of a tenth.
fn assert_doubling(delays: &[u64]) {
    for (number, &delay) in delays.iter().enumerate() {
        let least = (1 << number.min(16)).min(6 * 60);
        assert!((least..=least + least / 10 + 1).contains(&delay), "{delays:?}");
    }
}

/// The life of a certificate, with simulated time: the first one, a renewal that the directory recommends, an account that the directory has
/// deactivated, and a directory that is down for a day while the program is upgraded. No request fails.
#[test]
fn certificates_are_obtained_and_renewed_while_no_request_fails() {
    const DAY: Duration = Duration::from_secs(86_400);
    let dir = site(&[("www/index.html", "home")]);
    let state = dir.path().join("state");
    let ports = [(); 2].map(|()| ReservedPort::new());
    let [plain, tls] = ports.each_ref().map(|port| port.address);
    let options = DirectoryOptions {
        http_port: plain.port(),
        tls_port: 1,
        validity_s: 90 * DAY.as_secs(),
        needs_external_account: false,
    };
    let mut directory = AcmeDirectory::start(dir.path(), &options);
    let admin = format!("unix:{}", dir.path().join("admin").display());
    let config = format!(
        "[[site]]\npath = \"www\"\ndomain = [\"a.example\", \"b.example\"]\nredirect-to-https = false\n\n\
         [[listener]]\naddress = \"{plain}\"\n\n[[listener]]\naddress = \"tls:{tls}\"\n\n\
         [server]\nacme-email = \"admin@example.org\"\nacme-directory = \"{}\"\nacme-ca = \"{}\"\nstate-directory = \"state\"\n",
        directory.url(),
        directory.root(),
    );
    let mut command = serve_config(&config, dir.path(), &["--admin", &admin]);
    let clock = SimulatedClock::new(dir.path(), &mut command);
    let served = RunningProgram::start_ready(command);
    let tarpon = |arguments: [&str; 2]| {
        let output = tarpon(arguments.iter().chain(&[&*admin]).map(AsRef::as_ref)).output().expect("it runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let stored = |end: &str| fs::read_to_string(files(&state, end).pop().expect(end)).expect("a file");
    let metric = |name: &str| {
        let mut client = TestClient::connect_unix(&dir.path().join("admin"));
        let metrics = String::from_utf8(client.get("/metrics").content).expect("UTF-8");
        let line = metrics.lines().find(|line| line.starts_with(&format!("tarpon_certificate_{name}{{")));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).expect(name)
    };
    let load = LoadGenerator::start(plain, "/", b"home");

    let (first, names) = wait_for_certificate(&state, "");
    assert_eq!(names, ["a.example", "b.example"]);
    for (end, mode) in [("certificate.pem", 0o600), ("account.json", 0o600)] {
        let file = files(&state, end).pop().expect(end);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, mode, "{end}");
    }
    wait_until_served(tls, "a.example", &first);
    let tls_load = LoadGenerator::start_tls(tls, &TlsConnector::new("b.example"), "/", b"home");
    let mut client = TestClient::connect(plain);
    client.send("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(client.response().status, 404, "an unknown token");

    // The directory recommends to renew the certificate: it may have to revoke it.
    let recommend = || {
        let now = clock.unix_s();
        let stored = stored("certificate.pem");
        let chain = &stored[stored.find("-----BEGIN CERTIFICATE").expect("a chain")..];
        directory.recommend_renewal(chain, [now, now + 3600]);
        clock.pass(DAY + Duration::from_secs(3600), served.pid());
    };
    recommend();
    let (second, _) = wait_for_certificate(&state, &first);
    wait_until_served(tls, "a.example", &second);
    assert_eq!(served.err(), "");

    let account = stored("account.json");
    directory.deactivate(&account);
    recommend();
    let (third, _) = wait_for_certificate(&state, &second);
    wait_until_served(tls, "b.example", &third);
    assert_ne!(stored("account.json"), account);
    served.wait_for_err("warning: the directory does not know the account any more; a new account is made\n");

    // The directory is down for a day in which the certificate is to be renewed.
    directory.stop();
    assert!(metric("renewal_seconds") < clock.unix_s() + 62 * DAY.as_secs());
    clock.pass(62 * DAY, served.pid());
    let warnings = |count: usize| {
        wait_for("a warning", || Some(retry_delays(&served.err())).filter(|delays| delays.len() >= count))
    };
    for number in 1..=5 {
        let delays = warnings(number);
        clock.pass(Duration::from_secs(60 * delays[number - 1]), served.pid());
    }
    let before = warnings(6);
    assert_doubling(&before);
    let status = tarpon(["status", "--admin"]);
    assert!(status.contains("certificate a.example, b.example  valid for 89 days"), "{status}");
    assert!(status.contains("failing: 6 orders: the directory cannot be reached"), "{status}");
    assert_eq!(metric("order_failures"), 6);
    // The successor serves what is stored, and tries at once.
    let next = UpgradedProgram::from_output(&tarpon(["upgrade", "--admin"]));
    let (mut minutes, mut number) = (0, before.len() + 1);
    let mut delays = warnings(number);
    while minutes < 24 * 60 {
        minutes += delays[number - 1];
        clock.pass(Duration::from_secs(60 * delays[number - 1]), next.0);
        number += 1;
        delays = warnings(number);
    }
    assert_doubling(&delays[before.len()..]);
    assert!(
        delays.iter().filter(|delay| **delay >= 6 * 60).count() >= 2,
        "it grows to its maximum: {delays:?}"
    );
    let err = served.err();
    assert!(
        err.contains("no new certificate for a.example, b.example: the directory cannot be reached"),
        "{err}"
    );
    assert!(err.contains("the present one is valid for 25 days; next attempt in 6 h "), "{err}");
    wait_until_served(tls, "a.example", &third);

    // It comes back, and has forgotten all accounts.
    directory.restart();
    clock.pass(Duration::from_secs(60 * delays[number - 1]), next.0);
    let (fourth, names) = wait_for_certificate(&state, &third);
    assert_eq!(names, ["a.example", "b.example"]);
    wait_until_served(tls, "b.example", &fourth);
    assert!(metric("not_after_seconds") > clock.unix_s() && metric("order_failures") == 0);
    for load in [load, tls_load] {
        load.wait_for_responses(10);
        let failures = load.stop();
        assert!(failures.is_empty(), "{failures:?}");
    }
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
    // An order that fails, as the directory does now and then, has records of its own.
    let log = wait_for("the removal of the records", || {
        let log = fs::read_to_string(dir.path().join("hook.log")).ok()?;
        let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
        (count("remove ") > 0 && count("remove ") == count("add ")).then_some(log)
    });
    let added: Vec<_> = log.lines().filter(|line| line.starts_with("add ")).collect();
    assert!(added.iter().all(|line| line.starts_with("add _acme-challenge.a.example ")), "{log}");
    for line in added {
        assert!(log.lines().any(|other| other == line.replace("add", "remove")), "{log}");
    }
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
