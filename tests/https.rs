//! HTTPS: certificates by name, what listeners ask of clients, and files that change. Clients are curl and openssl.

use crate::common::{
    ENGINES,
    port::ReservedPort,
    program::{
        ProgramExit, RunningProgram, UpgradedProgram, serve, serve_config, tarpon, without_user_change,
        wrap_command,
    },
    site,
    tls_files::TlsFiles,
    wait_for,
};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

#[test]
fn certificate_follows_the_name_and_client_certificates_the_listener() {
    let files = TlsFiles::new();
    let dir = site(&[("index.html", "home")]);
    let (intern, port) = (site(&[("index.html", "intern")]), ReservedPort::new());
    files.issue("a", &["a.test"]);
    files.issue("b", &["b.test", "*.b.test"]);
    files.issue_for_client("client");
    let config = format!(
        "[[site]]\npath = {site:?}\nhosts = [\"a.test\"]\n\
         [[site]]\npath = {site:?}\nhosts = [\"b.test\", \"x.b.test\"]\ntls-cert = [\"b.pem\"]\ntls-key = [\"b.key\"]\n\
         [[site]]\npath = {intern:?}\nhosts = [\"a.test\"]\nlisten = [\"tls:{closed}\"]\n\
         [[listener]]\naddress = \"tls:127.0.0.2:0\"\n\
         [[listener]]\naddress = \"tls:{closed}\"\ntls-client-ca = \"ca.pem\"\n\
         [[listener]]\naddress = \"tls:127.0.0.3:0\"\ntls-client-ca = \"ca.pem\"\ntls-client-auth = \"optional\"\n\
         [[listener]]\naddress = \"tls:127.0.0.4:0\"\ntls-min-version = \"1.3\"\n\
         [server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n",
        site = dir.path(),
        intern = intern.path(),
        closed = port.address,
    );
    let identity = ["--cert", "client.pem", "--key", "client.key"];
    #[rustfmt::skip]
    let cases: &[(&str, usize, &str, &[&str], bool)] = &[
        // case                         listener name       options                  answered: the site of the listener
        ("of the server",               0, "a.test",        &[],                     true),
        ("of the site",                 0, "b.test",        &[],                     true),
        ("wildcard",                    0, "x.b.test",      &[],                     true),
        ("two labels",                  0, "y.x.b.test",    &[],                     false),
        ("unknown",                     0, "c.test",        &[],                     false),
        ("unknown, unchecked",          0, "c.test",        &["--insecure"],         true),
        ("TLS 1.2",                     0, "a.test",        &["--tls-max", "1.2"],   true),
        ("TLS 1.1",                     0, "a.test",        &["--tls-max", "1.1", "--ciphers", "DEFAULT:@SECLEVEL=0"], false),
        ("required, none",              1, "a.test",        &[],                     false),
        ("required, given",             1, "a.test",        &identity,               true),
        ("required, none, TLS 1.2",     1, "a.test",        &["--tls-max", "1.2"],   false),
        ("optional, none",              2, "a.test",        &[],                     true),
        ("optional, given",             2, "a.test",        &identity,               true),
        ("1.3 only",                    3, "a.test",        &[],                     true),
        ("1.3 only, TLS 1.2",           3, "a.test",        &["--tls-max", "1.2"],   false),
    ];
    let refusing = format!("{config}refuse-unknown-hosts = true\n");
    let program = RunningProgram::start_ready(serve_config(&refusing, files.path(), &[]));
    let refused = files.curl(program.address(), "c.test", &["--insecure"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("unrecognized name"), "RFC 6066, section 3: {why}");
    assert!(files.curl(program.address(), "x.b.test", &[]).status.success());
    drop(program);
    for &engine in ENGINES {
        let program =
            RunningProgram::start_ready(serve_config(&config, files.path(), &["--engine", engine.name()]));
        let addresses = program.addresses();
        for (name, listener, host, options, is_answered) in cases {
            let output = files.curl(addresses[*listener], host, options);
            let body = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                output.status.success() && body == ["home", "intern"][usize::from(*listener == 1)],
                *is_answered,
                "{engine}, {name}: {output:?}"
            );
        }
    }
}

#[test]
fn session_resumes_across_workers_reloads_and_upgrades() {
    let files = TlsFiles::new();
    let dir = site(&[("index.html", "home")]);
    files.issue("a", &["a.test"]);
    for &engine in ENGINES {
        let options = ["--engine", engine.name(), "--workers", "2", "--admin", "unix:admin.sock"];
        let program = files.serve(dir.path(), &options);
        let mut upgraded = None;
        for (version, order) in
            [("-tls1_3", ""), ("-tls1_2", ""), ("-tls1_3", "reload"), ("-tls1_3", "upgrade")]
        {
            let session = files.path().join("session");
            let _ = fs::remove_file(&session);
            files.openssl(program.address(), &[version, "-sess_out", "session"]);
            if !order.is_empty() {
                let exit = files.order(order);
                assert!(exit.status.success(), "{engine}, {order}: {exit:?}");
                upgraded = (order == "upgrade").then(|| UpgradedProgram::from_output(&exit.out));
            }
            for _ in 0..2 {
                let text = files.openssl(program.address(), &[version, "-sess_in", "session"]);
                assert!(text.contains("\nReused, TLSv1."), "{engine}, {version}, {order}\n{text}");
            }
        }
        upgraded.expect("the last order is an upgrade").stop();
    }
}

/// A client that was never asked for a certificate cannot resume its session where one is required.
#[test]
fn response_of_ocsp_is_stapled() {
    let files = TlsFiles::new();
    let dir = site(&[("index.html", "home")]);
    let openssl = |arguments: &str| {
        let ended = files.run("openssl", &arguments.split(' ').collect::<Vec<_>>());
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).expect("text")
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 1 -subj /CN=a.test \
         -addext subjectAltName=DNS:a.test -keyout a.key -out a.pem",
    );
    let serial = openssl("x509 -in a.pem -noout -serial").trim().replace("serial=", "");
    let index = format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=a.test\n");
    fs::write(files.path().join("index"), index).unwrap();
    openssl(
        "ocsp -index index -CA a.pem -rsigner a.pem -rkey a.key -issuer a.pem -cert a.pem -ndays 1 -respout a.ocsp",
    );
    let config = |ocsp: &str| {
        format!(
            "[[site]]\npath = {:?}\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n\
             [server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n{ocsp}",
            dir.path()
        )
    };
    for (ocsp, want) in
        [("tls-ocsp = [\"a.ocsp\"]\n", "Cert Status: good"), ("", "OCSP response: no response sent")]
    {
        let served = RunningProgram::start_ready(serve_config(&config(ocsp), files.path(), &[]));
        for version in ["-tls1_3", "-tls1_2"] {
            let shown = files.openssl(served.address(), &["-status", version, "-servername", "a.test"]);
            assert!(shown.contains(want), "{version}: {shown}");
        }
    }
}

#[test]
fn session_of_one_listener_does_not_resume_at_another_with_client_certificates() {
    let files = TlsFiles::new();
    let (open, intern, closed) =
        (site(&[("index.html", "open")]), site(&[("index.html", "intern")]), ReservedPort::new());
    files.issue("a", &["a.test"]);
    files.issue_for_client("client");
    let config = format!(
        "[[site]]\npath = {:?}\n[[site]]\npath = {:?}\nlisten = [\"tls:{closed}\"]\n\
         [[listener]]\naddress = \"tls:127.0.0.2:0\"\n[[listener]]\naddress = \"tls:{closed}\"\ntls-client-ca = \"ca.pem\"\n\
         [server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n",
        open.path(),
        intern.path(),
        closed = closed.address,
    );
    let identity = ["-cert", "client.pem", "-key", "client.key"];
    #[rustfmt::skip]
    let cases: &[(&str, usize, &[&str], &str, &str)] = &[
        // case          at  options    session    content
        ("the same",     0,  &[],       "Reused",  "open"),
        ("required",     1,  &[],       "",        ""),
        ("given",        1,  &identity, "New",     "intern"),
    ];
    for &engine in ENGINES {
        let program =
            RunningProgram::start_ready(serve_config(&config, files.path(), &["--engine", engine.name()]));
        let addresses = program.addresses();
        for version in ["-tls1_3", "-tls1_2"] {
            let first = files.openssl(addresses[0], &[version, "-sess_out", "session"]);
            assert!(first.contains("\nNew, TLSv1."), "{engine}, {version}: {first}");
            for (name, at, options, session, content) in cases {
                let options = [&[version, "-sess_in", "session"], *options].concat();
                let text = files.openssl(addresses[*at], &options);
                let has_session = |kind: &str| text.contains(&format!("\n{kind}, TLSv1."));
                assert_eq!(
                    has_session("Reused"),
                    *session == "Reused",
                    "{engine}, {name}, {version}: {text}"
                );
                assert!(*session != "New" || has_session("New"), "{engine}, {name}, {version}: {text}");
                let answered =
                    ["open", "intern"].into_iter().find(|site| text.contains(&format!("\r\n\r\n{site}")));
                assert_eq!(answered.unwrap_or_default(), *content, "{engine}, {name}, {version}: {text}");
            }
        }
    }
}

/// A listener with TLS answers 421 for a host whose site answers only under another policy, also on a connection that it has answered others on.
#[test]
fn hosts_of_listeners_with_another_policy_are_misdirected() {
    let files = TlsFiles::new();
    files.issue("a", &["a.test"]);
    files.issue_for_client("client");
    let [main, intern, modern, plain, second] =
        ["main", "intern", "modern", "plain", "second"].map(|name| site(&[("index.html", name)]));
    let reserved = [(); 4].map(|()| ReservedPort::new());
    let [closed, new_only, without, same] = reserved.each_ref().map(|port| port.address);
    let of = |dir: &TempDir, hosts: &str, listen: &str| {
        format!("[[site]]\npath = {:?}\nhosts = [{hosts}]\n{listen}\n", dir.path())
    };
    let at = |address: String| format!("listen = [\"{address}\"]");
    let config = [
        of(&main, "\"a.test\", \"*.wild.test\"", "redirect-hosts = [\"www.a.test\"]"),
        of(&intern, "\"intern.test\", \"x.wild.test\"", &at(format!("tls:{closed}"))),
        of(&modern, "\"modern.test\", \"*.modern.test\"", &at(format!("tls:{new_only}"))),
        of(&plain, "\"plain.test\"", &at(without.to_string())),
        of(&second, "\"second.test\"", &at(format!("tls:{same}"))),
        format!(
            "[[listener]]\naddress = \"tls:127.0.0.2:0\"\n[[listener]]\naddress = \"127.0.0.3:0\"\n\
             [[listener]]\naddress = \"tls:{closed}\"\ntls-client-ca = \"ca.pem\"\n\
             [[listener]]\naddress = \"tls:{new_only}\"\ntls-min-version = \"1.3\"\n\
             [server]\ntls-cert = [\"a.pem\"]\ntls-key = [\"a.key\"]\n"
        ),
    ]
    .concat();
    #[rustfmt::skip]
    let hosts =
        ["a.test", "www.a.test", "y.wild.test", "intern.test", "x.wild.test", "Modern.Test.", "b.modern.test", "plain.test", "second.test", "c.test"];
    #[rustfmt::skip]
    let cases: &[(&str, [&str; 10])] = &[
        // at                    each host
        ("TLS of all others",    ["main", "301", "main", "421", "421", "421", "421", "421", "main", "main"]),
        ("no TLS of all others", ["main", "301", "main", "main", "main", "main", "main", "main", "main", "main"]),
        ("client certificates",  ["421", "421", "421", "intern", "intern", "421", "421", "421", "421", "intern"]),
        ("version 1.3",          ["421", "421", "421", "421", "421", "modern", "modern", "421", "421", "modern"]),
        ("no TLS of a site",     ["plain"; 10]),
        ("the same policy",      ["second", "second", "second", "421", "421", "421", "421", "421", "second", "second"]),
    ];
    for &engine in ENGINES {
        let program =
            RunningProgram::start_ready(serve_config(&config, files.path(), &["--engine", engine.name()]));
        let of_main = |ip: &str| {
            *program.addresses().iter().find(|address| address.ip().to_string() == ip).expect("a listener")
        };
        let addresses = [of_main("127.0.0.2"), of_main("127.0.0.3"), closed, new_only, without, same];
        for ((name, want), address) in cases.iter().zip(addresses) {
            let scheme = if name.starts_with("no TLS") { "http" } else { "https" };
            let url = format!("{scheme}://a.test:{}/", address.port());
            let resolve = format!("a.test:{}:{}", address.port(), address.ip());
            let mut curl = Command::new("curl");
            for (number, host) in hosts.iter().enumerate() {
                let usual = ["-sS", "--cacert", "ca.pem", "--cert", "client.pem", "--key", "client.key"];
                curl.args((number > 0).then_some("--next")).args(usual).args(["--resolve", &resolve]);
                curl.args(["-H", &format!("Host: {host}"), "-o", &number.to_string()]);
                curl.args(["-w", "%{http_code} %{num_connects}\n", &url]);
            }
            let output = curl.current_dir(files.path()).output().expect("curl");
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(text.lines().count(), hosts.len(), "{engine}, {name}: {output:?}");
            for (number, (line, want)) in text.lines().zip(want).enumerate() {
                let host = hosts[number];
                let (status, connections) = line.split_once(' ').expect("two numbers");
                assert_eq!(
                    connections,
                    if number == 0 { "1" } else { "0" },
                    "{engine}, {name}, {host}: one connection"
                );
                let content = fs::read_to_string(files.path().join(number.to_string())).expect("a response");
                let got = if status == "200" { &*content } else { status };
                assert_eq!(got, *want, "{engine}, {name}, {host}: {line} {content}");
                assert!(
                    status != "421" || content.contains("Misdirected Request"),
                    "{engine}, {name}: {content}"
                );
            }
        }
    }
}

#[test]
fn renewed_certificate_is_served_after_a_reload_and_half_a_renewal_changes_nothing() {
    let files = TlsFiles::new();
    let dir = site(&[("index.html", "home")]);
    files.issue("a", &["a.test"]);
    let program = files.serve(dir.path(), &["--admin", "unix:admin.sock"]);
    let reload = || files.order("reload");
    let is_served = |host: &str| files.curl(program.address(), host, &[]).status.success();
    assert!(is_served("a.test"));
    files.issue("b", &["b.test"]);
    fs::copy(files.path().join("b.pem"), files.path().join("a.pem")).unwrap();
    let failed = reload();
    assert!(
        !failed.status.success() && failed.err.contains("the key does not fit the certificate"),
        "{failed:?}"
    );
    assert!(is_served("a.test") && !is_served("b.test"), "the former certificate stays");
    fs::copy(files.path().join("b.key"), files.path().join("a.key")).unwrap();
    assert!(reload().status.success());
    wait_for("the new certificate", || is_served("b.test").then_some(()));
}

#[test]
fn self_signed_certificate_is_announced_by_its_fingerprint() {
    let files = TlsFiles::new();
    let dir = site(&[("index.html", "home")]);
    let program = RunningProgram::start_ready(serve(
        dir.path(),
        &["--listen", "tls:127.0.0.1:0", "--tls", "self-signed"],
    ));
    let out = program.out();
    assert!(out.contains("  https://127.0.0.1:"), "{out}");
    let fingerprint =
        out.lines().find_map(|line| line.strip_prefix("self-signed certificate: SHA-256 ")).expect(&out);
    let certificate = files.openssl(program.address(), &[]);
    fs::write(files.path().join("served.pem"), certificate).unwrap();
    let shown = files.run(
        "openssl",
        &["x509", "-in", "served.pem", "-noout", "-fingerprint", "-sha256", "-ext", "subjectAltName"],
    );
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(fingerprint), "{shown} {fingerprint}");
    assert!(shown.contains("DNS:localhost, IP Address:127.0.0.1"), "{shown}");
    let curl =
        files.run("curl", &["-s", "--cacert", "served.pem", &format!("https://{}/", program.address())]);
    assert_eq!(String::from_utf8_lossy(&curl.stdout), "home", "{curl:?}");
}

#[test]
fn mistakes_get_errors_and_warnings_with_the_way_out() {
    let files = TlsFiles::new();
    let dir = site(&[("index.html", "home")]);
    files.issue("a", &["a.test"]);
    files.issue("b", &["b.test"]);
    files.issue_with("old", &["a.test"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let public = files.path().join("public.key");
    fs::copy(files.path().join("a.key"), &public).unwrap();
    fs::set_permissions(&public, fs::Permissions::from_mode(0o644)).unwrap();
    let site = format!(
        "[[site]]\npath = {:?}\nhosts = [\"a.test\"]\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n[server]\n",
        dir.path()
    );
    let pair = |certificate: &str, key: &str| {
        format!("{site}tls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n")
    };
    let obtained = format!(
        "[[site]]\npath = {:?}\ndomain = [\"a.test\"]\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n",
        dir.path()
    );
    #[rustfmt::skip]
    let cases: &[(&str, String, bool, &[&str])] = &[
        // case                configuration               valid  the check says
        ("valid",              pair("a.pem", "a.key"),     true,  &["is valid"]),
        ("another's key",      pair("a.pem", "b.key"),     false, &["tarpon.toml:7:13", "the key does not fit the certificate", "= name the key that"]),
        ("no file",            pair("none", "a.key"),      false, &["tarpon.toml:7:13", "none does not exist"]),
        ("expired",            pair("old.pem", "old.key"), false, &["tarpon.toml:7:13", "it has expired at 2021-01-01 00:00 UTC", "= renew it"]),
        ("an open key",        pair("a.pem", "public.key"), true, &["warning: key", "every user of this machine can read it; run chmod o-r"]),
        ("a host uncovered",   pair("b.pem", "b.key"),     true,  &["warning: browsers warn of a.test: no certificate covers it, so they get"]),
        ("no certificate",     site.clone(),               false, &["tarpon.toml:5:11", "there is no certificate for this listener", "--tls self-signed"]),
        ("ACME elsewhere",     obtained.clone(),           true,  &["warning: a directory may not reach a.test: by http-01 it connects to port 80", "add --listen :80"]),
        ("ACME beside files",  format!("{obtained}[[site]]\npath = {:?}\nhosts = [\"b.test\"]\ntls-cert = [\"b.pem\"]\ntls-key = [\"b.key\"]\n", dir.path()), true, &["is valid"]),
    ];
    for (name, config, is_valid, says) in cases {
        fs::write(files.path().join("tarpon.toml"), config).unwrap();
        let mut check = tarpon(["config", "check", "--config", "tarpon.toml"].map(AsRef::as_ref));
        check.current_dir(files.path());
        let exit = RunningProgram::run(check);
        let text = format!("{}{}", exit.out, exit.err);
        assert_eq!(exit.status.success(), *is_valid, "{name}: {text}");
        for says in *says {
            assert!(text.contains(says), "{name}: {says:?} in\n{text}");
        }
        assert!(*name == "a host uncovered" || !text.contains("no certificate covers it"), "{name}: {text}");
    }
    // The start says the same.
    let exit = RunningProgram::run(serve_config(&pair("a.pem", "b.key"), files.path(), &[]));
    assert!(!exit.status.success() && exit.err.contains("the key does not fit the certificate"), "{exit:?}");
    assert!(exit.err.contains("name the key that"), "{exit:?}");
    // The server starts with a certificate that has expired: a client may accept it all the same.
    let program = RunningProgram::start_ready(serve_config(&pair("old.pem", "old.key"), files.path(), &[]));
    wait_for("the warning", || program.err().contains("old.pem: it has expired at 2021-01-01").then_some(()));
    assert!(files.curl(program.address(), "a.test", &["--insecure"]).status.success());
}

/// A process with private keys writes no core dump, and no other process of its user can read its memory: proc(5), ptrace(2).
#[cfg(target_os = "linux")]
#[test]
fn memory_with_private_keys_is_hidden() {
    let dir = site(&[("index.html", "home")]);
    // Root can read all memory with one of these capabilities.
    let dropped = "-sys_ptrace,-perfmon,-sys_admin";
    let setpriv = ["setpriv", "--inh-caps", dropped, "--bounding-set", dropped];
    let wrapper: &[&str] = if rustix::process::geteuid().is_root() { &setpriv } else { &["env"] };
    for (options, is_hidden) in [
        (&["--listen", "127.0.0.1:0"][..], false),
        (&["--listen", "tls:127.0.0.1:0", "--tls", "self-signed"], true),
    ] {
        let options = [options, without_user_change(), &["--no-sandbox"]].concat();
        let program = RunningProgram::start_ready(wrap_command(wrapper, &serve(dir.path(), &options)));
        for pid in [program.pid(), program.server()] {
            let environ = format!("/proc/{}/environ", pid.as_raw_nonzero());
            let mut cat = Command::new("cat");
            cat.arg(&environ);
            let read = wrap_command(wrapper, &cat).output().expect("cat");
            assert_eq!(read.status.success(), !is_hidden, "{options:?}, {environ}: {read:?}");
        }
    }
}

impl TlsFiles {
    /// Starts a server with certificate `a`.
    fn serve(&self, dir: &Path, options: &[&str]) -> RunningProgram {
        let usual = ["--listen", "tls:127.0.0.1:0", "--tls-cert", "a.pem", "--tls-key", "a.key"];
        let mut command = serve(dir, &[&usual[..], options].concat());
        command.current_dir(self.path());
        RunningProgram::start_ready(command)
    }

    /// Gives the server an order.
    fn order(&self, order: &str) -> ProgramExit {
        let mut command = tarpon([order, "--admin", "unix:admin.sock"].map(AsRef::as_ref));
        command.current_dir(self.path());
        RunningProgram::run(command)
    }

    /// Gets the home page under a name.
    fn curl(&self, address: SocketAddr, host: &str, options: &[&str]) -> Output {
        let (port, ip) = (address.port(), address.ip());
        let (resolve, url) = (format!("{host}:{port}:{ip}"), format!("https://{host}:{port}/"));
        let arguments = ["-sS", "--cacert", "ca.pem", "--resolve", &resolve];
        self.run("curl", &[&arguments[..], options, &[&*url]].concat())
    }

    /// Requests the home page, and returns what openssl says of the connection.
    fn openssl(&self, address: SocketAddr, options: &[&str]) -> String {
        let address = address.to_string();
        let arguments = [&["s_client", "-connect", &address, "-ign_eof"][..], options].concat();
        let request = self.path().join("request");
        fs::write(&request, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(self.path()).stdin(fs::File::open(request).unwrap());
        String::from_utf8_lossy(&command.output().expect("openssl").stdout).into_owned()
    }
}
