//! Certificates by ACME from directories that misbehave, and in between: challenges while they are checked, and a state that is damaged.
//!
//! A proxy in front of Pebble answers in its place, or holds requests.

use crate::common::{
    ENGINES,
    acme::{SimulatedClock, files, retry_delays, wait_for_certificate, wait_for_warning},
    client::TestClient,
    directory::{AcmeDirectory, DirectoryOptions, DirectoryProxy},
    port::ReservedPort,
    program::{RunningProgram, process_name, serve_config},
    site, wait_for,
};
use rcgen::generate_simple_self_signed;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Starts Pebble, with the port for http-01 and that for tls-alpn-01.
fn directory(dir: &Path, [http_port, tls_port]: [u16; 2]) -> AcmeDirectory {
    let options = DirectoryOptions { http_port, tls_port, validity_s: 86_400, needs_external_account: false };
    AcmeDirectory::start(dir, &options)
}

/// Returns the configuration of a site at these listeners.
fn config(listeners: &[String], url: &str, directory: &AcmeDirectory, challenge: &str) -> String {
    let listeners: String =
        listeners.iter().map(|address| format!("[[listener]]\naddress = \"{address}\"\n")).collect();
    format!(
        "[[site]]\npath = \"www\"\ndomain = [\"a.example\"]\n{listeners}[server]\nacme-directory = \"{url}\"\nacme-ca = \"{}\"\n\
         acme-challenge = \"{challenge}\"\nstate-directory = \"state\"\n",
        directory.root(),
    )
}

/// Returns the process that speaks to the directory.
fn helper(served: &RunningProgram) -> Option<Pid> {
    served.child_pids().into_iter().find(|pid| process_name(*pid).is_some_and(|name| name == "tarpon-net"))
}

/// Each misbehaviour fails an order, is told with the way out, and ends nothing: the same helper then obtains a certificate.
#[test]
fn hostile_directories_fail_orders_and_nothing_else() {
    let dir = site(&[("www/index.html", "home")]);
    let port = ReservedPort::new();
    let directory = directory(dir.path(), [port.address.port(), 1]);
    let proxy = DirectoryProxy::start(&directory);
    let response = |name: &str, head: &str, content: &str| {
        let len = content.len();
        proxy.file(name, format!("HTTP/1.1 {head}\r\nContent-Length: {len}\r\n\r\n{content}").as_bytes())
    };
    let json =
        |name: &str, content: &str| response(name, "200 OK\r\nContent-Type: application/json", content);
    let problem = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many certificates"}"#;
    let chain_of =
        |host: &str| generate_simple_self_signed([host.to_owned()]).expect("a certificate").cert.pem();
    let pem = |name: &str, chain: &str| {
        response(name, "200 OK\r\nContent-Type: application/pem-certificate-chain", chain)
    };
    let urls = |scheme: &str| {
        let url = proxy.url().replacen("https", scheme, 1);
        ["newNonce", "newAccount", "newOrder"].map(|name| format!("\"{name}\":\"{url}\"")).join(",")
    };
    let authorization = |host: &str, token: &str| {
        format!(
            r#"{{"identifier":{{"type":"dns","value":"{host}"}},"status":"pending","challenges":[{{"type":"http-01","url":"https://localhost/","status":"pending","token":"{token}"}}]}}"#
        )
    };
    let limited = "429 Too Many Requests\r\nContent-Type: application/problem+json\r\nRetry-After: 7200";
    #[rustfmt::skip]
    let cases = [
        // case                     rule                                                                                            the warning says
        ("a rate limit",            format!("POST /order-plz answer {}", response("limited", limited, problem)),                    "a limit of the directory is reached (too many certificates); nothing to do but wait"),
        ("another key",             format!("POST /certZ/ answer {}", pem("other-key", &chain_of("a.example"))),                    "its key does not belong to its certificate"),
        ("other names",             format!("POST /certZ/ answer {}", pem("other-name", &chain_of("b.example"))),                   "its certificate lacks a name"),
        ("no chain",                format!("POST /certZ/ answer {}", response("page", "200 OK\r\nContent-Type: text/html", "<!doctype html>")), "it has no certificate"),
        ("another name to check",   format!("POST /authZ/ answer {}", json("other", &authorization("b.example", "token"))),         "it wants to check another name"),
        ("a token with a path",     format!("POST /authZ/ answer {}", json("token", &authorization("a.example", "../a"))),          "a token or a key authorization with other characters"),
        ("a page",                  format!("GET /dir answer {}", response("html", "200 OK\r\nContent-Type: text/html", "<!doctype html>")), "its answer is not that of an ACME directory"),
        ("a redirect",              format!("GET /dir answer {}", response("redirect", &format!("302 Found\r\nLocation: {}", directory.url()), "")), "its answer is not that of an ACME directory"),
        ("URLs without TLS",        format!("GET /dir answer {}", json("plain", &format!("{{{}}}", urls("http")))),                 "it names a URL that is not https"),
        ("a huge directory",        format!("GET /dir answer {}", json("huge", &format!("{{{},\"x\":\"{}\"}}", urls("https"), "x".repeat(300_000)))), "its response cannot be read"),
        ("nested without end",      format!("GET /dir answer {}", json("nested", &"[".repeat(200_000))),                            "its answer is not that of an ACME directory"),
        ("content without end",     format!("GET /dir endless {}", proxy.file("endless", b"HTTP/1.1 200 OK\r\n\r\n")),              "its response cannot be read"),
        ("fields without end",      format!("GET /dir endless {}", proxy.file("fields", b"HTTP/1.1 200 OK\r\nA: ")),                "the directory cannot be reached"),
        ("half a response",         format!("GET /dir answer {}", proxy.file("half", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")), "its response cannot be read"),
        ("no HTTP",                 format!("GET /dir answer {}", proxy.file("nonsense", b"220 mail.example ESMTP\r\n")),           "the directory cannot be reached"),
    ];
    let config = config(&[port.address.to_string()], &proxy.url(), &directory, "http-01");
    let mut command = serve_config(&config, dir.path(), &[]);
    let clock = SimulatedClock::new(dir.path(), &mut command);
    proxy.set_rules(&cases[0].1);
    let served = RunningProgram::start_ready(command);
    let mut said = 0;
    for (number, (name, rule, want)) in cases.iter().enumerate() {
        if number > 0 {
            proxy.set_rules(rule);
            let delay = *retry_delays(&served.err()).last().expect("a delay");
            clock.pass(Duration::from_secs(60 * delay), served.pid());
        }
        let err = wait_for("another warning", || {
            let err = served.err();
            (retry_delays(&err).len() > number).then_some(err)
        });
        let warning = &err[said..];
        said = err.len();
        assert!(warning.starts_with("warning: no new certificate for a.example: "), "{name}: {warning}");
        assert!(warning.contains(want), "{name}: {warning}");
        assert!(warning.contains("there is none yet; next attempt in "), "{name}: {warning}");
        assert!(warning.lines().count() == 2, "{name}, nothing else: {warning}");
    }
    let delays = retry_delays(&served.err());
    assert_eq!(delays[0], 120, "Retry-After");
    let process = helper(&served).expect("a helper");

    proxy.set_rules("");
    clock.pass(Duration::from_secs(60 * delays.last().expect("a delay")), served.pid());
    wait_for_certificate(&dir.path().join("state"), "");
    assert_eq!(helper(&served), Some(process), "the helper has survived all of it");
    assert_eq!(served.err().len(), said);
}

/// A helper that is killed in the middle of an order is replaced, and the order begins anew.
#[test]
fn killed_helper_is_replaced_and_the_order_begins_anew() {
    let dir = site(&[("www/index.html", "home")]);
    let port = ReservedPort::new();
    let directory = directory(dir.path(), [port.address.port(), 1]);
    let proxy = DirectoryProxy::start(&directory);
    let config = config(&[port.address.to_string()], &proxy.url(), &directory, "http-01");
    let mut command = serve_config(&config, dir.path(), &[]);
    let clock = SimulatedClock::new(dir.path(), &mut command);
    // Before the account, before the order, while a name is checked, and when the certificate is there.
    let steps = ["GET /dir", "POST /sign-me-up", "POST /order-plz", "POST /chalZ/", "POST /certZ/"];
    proxy.set_rules(&format!("{} hold", steps[0]));
    let served = RunningProgram::start_ready(command);
    let held = |step: &str| {
        let (method, path) = step.split_once(' ').expect("a method and a path");
        let is_it = |entry: &serde_json::Value| {
            entry["method"] == method
                && entry["path"].as_str().is_some_and(|found| found.starts_with(path))
                && entry["status"].is_null()
        };
        proxy.log().iter().filter(|entry| is_it(entry)).count()
    };
    for (number, step) in steps.iter().enumerate() {
        wait_for(step, || (held(step) > 0).then_some(()));
        let next = steps.get(number + 1).map_or(String::new(), |next| format!("{next} hold"));
        kill_process(helper(&served).expect("a helper"), Signal::KILL).expect("a helper");
        let err = wait_for("the warnings", || {
            let err = served.err();
            (retry_delays(&err).len() > number
                && err.matches("the helper process was killed by SIGKILL").count() > number)
                .then_some(err)
        });
        assert!(err.contains("the order was interrupted (the helper process has exited)"), "{err}");
        proxy.set_rules(&next);
        let delay = *retry_delays(&err).last().expect("a delay");
        clock.pass(Duration::from_secs(60 * delay), served.pid());
    }
    wait_for_certificate(&dir.path().join("state"), "");
}

/// The answers to http-01 come before routes, redirects and rules, also to clients of a generation that drains. Other requests below the path, and
/// for other hosts, are requests like others.
#[test]
fn http_challenges_come_first_in_each_generation() {
    for &engine in ENGINES {
        let dir = site(&[
            ("www/index.html", "home"),
            ("www/_redirects", "/.well-known/* /elsewhere 301!"),
            ("mounted/index.html", "mounted"),
        ]);
        let [plain, tls] = [(); 2].map(|()| ReservedPort::new());
        let directory = directory(dir.path(), [plain.address.port(), 1]);
        let proxy = DirectoryProxy::start(&directory);
        let listeners = [plain.address.to_string(), format!("tls:{}", tls.address)];
        let config = config(&listeners, &proxy.url(), &directory, "http-01")
            + "[[site]]\npath = \"mounted\"\nhosts = [\"a.example\"]\nmount = \"/.well-known/acme-challenge/mounted\"\n";
        proxy.set_rules("POST /chalZ/ hold");
        let options = ["--engine", engine.name(), "--workers", "4"];
        let served = RunningProgram::start_ready(serve_config(&config, dir.path(), &options));
        // The token of the order under way: the directory asks for none before this request is released.
        let token = |after: usize| {
            wait_for("a challenge that is ready", || {
                let log = proxy.log().split_off(after);
                log.iter()
                    .find(|entry| entry["path"].as_str().is_some_and(|path| path.starts_with("/chalZ/")))?;
                let authorization = log.iter().find(|entry| {
                    entry["path"].as_str().is_some_and(|path| path.starts_with("/authZ/"))
                        && entry["status"] == 200
                })?;
                let authorization: serde_json::Value =
                    serde_json::from_str(authorization["content"].as_str()?).ok()?;
                let challenge = authorization["challenges"]
                    .as_array()?
                    .iter()
                    .find(|challenge| challenge["type"] == "http-01")?;
                Some(challenge["token"].as_str()?.to_owned())
            })
        };
        let get = |client: &mut TestClient, host: &str, path: &str| {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            client.response()
        };
        let assert_answered = |client: &mut TestClient, token: &str| {
            let response = get(client, "A.example:80", &format!("/.well-known/acme-challenge/{token}"));
            let content = String::from_utf8(response.content.clone()).expect("ASCII");
            assert_eq!(response.status, 200, "{engine}: {}", response.head);
            assert_eq!(response.field("Content-Type"), Some("text/plain"), "{engine}");
            assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{engine}");
            let thumbprint = content.strip_prefix(token).and_then(|rest| rest.strip_prefix('.'));
            assert_eq!(thumbprint.map(str::len), Some(43), "{engine}: {content}");
            response
        };
        let first = token(0);
        let mut client = TestClient::connect(plain.address);
        assert_answered(&mut client, &first);
        for (host, path, want) in [
            ("a.example", format!("/.well-known/acme-challenge/{first}x"), 308),
            ("a.example", "/.well-known/acme-challenge/".to_owned(), 308),
            ("a.example", "/.well-known/acme-challenge/mounted/".to_owned(), 200),
            ("b.example", format!("/.well-known/acme-challenge/{first}"), 308),
        ] {
            let response = get(&mut client, host, &path);
            assert_eq!(response.status, want, "{engine}, {host}, {path}: {}", response.head);
        }
        // A connection that the first generation has accepted, and the token of the second.
        let log_len = proxy.log().len();
        served.signal(Signal::HUP);
        let second = token(log_len);
        assert_ne!(second, first, "{engine}");
        let response = assert_answered(&mut client, &second);
        assert!(response.closes(), "{engine}: it drains");
        let response = get(
            &mut TestClient::connect(plain.address),
            "a.example",
            &format!("/.well-known/acme-challenge/{first}"),
        );
        assert_eq!(response.status, 308, "{engine}: the order of this token is over");
        proxy.set_rules("");
        wait_for_certificate(&dir.path().join("state"), "");
        wait_for("the end of the challenge", || {
            let response = get(
                &mut TestClient::connect(plain.address),
                "a.example",
                &format!("/.well-known/acme-challenge/{second}"),
            );
            (response.status == 308).then_some(())
        });
    }
}

/// A handshake of tls-alpn-01 shows the certificate of the challenge and carries no HTTP, on each engine, and the order succeeds.
#[test]
fn handshakes_of_tls_alpn_carry_no_http() {
    for &engine in ENGINES {
        let dir = site(&[("www/index.html", "home")]);
        let port = ReservedPort::new();
        let directory = directory(dir.path(), [1, port.address.port()]);
        let proxy = DirectoryProxy::start(&directory);
        let config = config(&[format!("tls:{}", port.address)], &proxy.url(), &directory, "tls-alpn-01");
        proxy.set_rules("POST /chalZ/ hold");
        let options = ["--engine", engine.name(), "--workers", "4"];
        let _served = RunningProgram::start_ready(serve_config(&config, dir.path(), &options));
        wait_for("a challenge that is ready", || {
            let is_it = |entry: &serde_json::Value| {
                entry["path"].as_str().is_some_and(|path| path.starts_with("/chalZ/"))
            };
            proxy.log().iter().any(is_it).then_some(())
        });
        let request =
            proxy.file("request", b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        let openssl = |options: &[&str]| {
            let mut command = Command::new("openssl");
            command.args(["s_client", "-connect", &port.address.to_string(), "-ign_eof"]).args(options);
            command.stdin(fs::File::open(&request).expect("a file")).stderr(Stdio::null());
            String::from_utf8_lossy(&command.output().expect("openssl").stdout).into_owned()
        };
        let shown = openssl(&["-alpn", "acme-tls/1", "-servername", "a.example"]);
        assert!(shown.contains("ALPN protocol: acme-tls/1"), "{engine}: {shown}");
        assert!(
            shown.contains("-----BEGIN CERTIFICATE-----") && !shown.contains("HTTP/1.1"),
            "{engine}: {shown}"
        );
        for (name, options) in [
            ("another name", ["-alpn", "acme-tls/1", "-servername", "b.example"]),
            ("no certificate yet", ["-alpn", "http/1.1", "-servername", "a.example"]),
            ("both protocols", ["-alpn", "acme-tls/1,http/1.1", "-servername", "a.example"]),
        ] {
            let shown = openssl(&options);
            assert!(shown.contains("no peer certificate available"), "{engine}, {name}: {shown}");
        }
        proxy.set_rules("");
        wait_for_certificate(&dir.path().join("state"), "");
        let shown = wait_for("a certificate", || {
            let shown = openssl(&["-alpn", "acme-tls/1,http/1.1", "-servername", "a.example"]);
            shown.contains("-----BEGIN CERTIFICATE-----").then_some(shown)
        });
        assert!(
            shown.contains("ALPN protocol: http/1.1") && shown.contains("HTTP/1.1 200"),
            "{engine}: {shown}"
        );
    }
}

/// After a crash in the middle of a write, or with a damaged disk, the program says so, uses nothing of it and obtains what it lacks.
#[test]
fn damaged_state_is_told_and_not_used() {
    let dir = site(&[("www/index.html", "home")]);
    let (state, port) = (dir.path().join("state"), ReservedPort::new());
    let directory = directory(dir.path(), [port.address.port(), 1]);
    let config = config(&[port.address.to_string()], &directory.url(), &directory, "http-01");
    let start = || RunningProgram::start_ready(serve_config(&config, dir.path(), &[]));
    let served = start();
    let (first, _) = wait_for_certificate(&state, "");
    drop(served);
    let [certificate, account] =
        ["certificate.pem", "account.json"].map(|name| files(&state, name).pop().expect(name));
    let mode = |file: &Path| fs::metadata(file).expect("a file").permissions().mode() & 0o777;
    assert_eq!([&*certificate, &*account].map(mode), [0o600; 2]);
    let text = fs::read_to_string(&certificate).expect("a file");
    // What a crash may leave: half a file beside the whole one.
    fs::write(certificate.with_extension("new"), &text[..text.len() / 2]).expect("a file");
    let served = start();
    assert_eq!(served.err(), "");
    drop(served);
    assert_eq!(wait_for_certificate(&state, "").0, first, "the whole one is used");
    // Half a file in its place.
    fs::write(&certificate, &text[..text.len() / 2]).expect("a file");
    fs::write(&account, "{").expect("a file");
    let served = start();
    let (second, _) = wait_for_certificate(&state, &first);
    let err = wait_for_warning(&served, "account.json: ");
    assert!(err.contains("certificate.pem: its certificate cannot be read; it is set aside"), "{err}");
    assert_ne!(second, first);
    for name in ["certificate.pem.damaged", "account.json.damaged"] {
        assert_eq!(files(&state, name).len(), 1, "{name}");
    }
    assert_eq!(files(&state, ".new"), [] as [std::path::PathBuf; 0], "what the crash has left is gone");
    assert_eq!([&*certificate, &*account].map(mode), [0o600; 2]);
}
