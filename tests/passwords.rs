//! Paths with a password, on every engine: which requests pass, what leads around, and what a flood of wrong passwords costs other clients.

use crate::common::{
    EMBEDDED, ENGINES,
    client::{TestClient, connect_on, get},
    endpoint::TestTls,
    port::ReservedPort,
    program::{ProgramExit, RunningProgram, serve_config, tarpon, wrap_command},
    readable_dir,
    server::{EmbeddedServer, settings_with_http2},
    site, wait_for, workers,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt};
use tarpon::{Engine, LimitChoice, PasswordLimit, PathLimit, Site, UnknownHost, VirtualHost, VirtualHosts};

/// Made by htpasswd with the least cost: "open sesame" and "other".
const ANN: &str = "ann:$2y$04$zLWgRi5P4yFNnkDHB4v7buXQt.c8HCfFGrbjrO3WLGXpdk0zgwi0K";
const BOB: &str = "bob:$2y$04$EloEEo7pR.YO2EuMmdAal.7DOah8kyCqLWY5RWiWxRPN5s8WF.JE6";
/// The hash of "open sesame" that tarpon hash-password makes: it takes 19 MiB.
const SLOW: &str =
    "ann:$argon2id$v=19$m=19456,t=2,p=1$JOGu/j7hcYWZsrILuUZijA$MfEh28NmSWQ20KFWotkY/ZXRwg+O9ndzDGKDnrfX+p8";

/// A path with a password, and one below it without.
const SECTIONS: &str = "[[site.limit]]\npath = \"/admin\"\nusers-file = \"users\"\n\
                        [[site.limit]]\npath = \"/admin/open\"\npasswords = \"off\"\n";

#[test]
fn only_users_with_their_passwords_get_through() {
    let tls = TestTls::new();
    let [certificate, key] = tls.files();
    for &engine in ENGINES {
        let server = format!("tls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n");
        let listeners =
            "[[listener]]\naddress = \"127.0.0.2:0\"\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n";
        let served = Protected::start(engine, ANN, SECTIONS, &server, listeners);
        let right = basic("ann:open sesame");
        #[rustfmt::skip]
        let cases: &[(&str, String, u16)] = &[
            // path                  Authorization                                        status
            ("/",                    String::new(),                                       200),
            ("/admin/",              String::new(),                                       401),
            ("/admin/",              right.clone(),                                       200),
            ("/admin",               right.clone(),                                       301),
            ("/admin/none",          right.clone(),                                       404),
            ("/admin/none",          String::new(),                                       401),
            ("/admin/",              basic("ann:open sesamf"),                            401),
            ("/admin/",              basic("ann:"),                                       401),
            ("/admin/",              basic("Ann:open sesame"),                            401),
            ("/admin/",              basic("eve:open sesame"),                            401),
            ("/admin/",              basic(":open sesame"),                               401),
            ("/admin/",              basic("annopen sesame"),                             401),
            ("/admin/",              right.replace("Basic", "Bearer"),                    401),
            ("/admin/",              right.replace("Basic ", "Basic =")  ,                401),
            ("/admin/",              right.trim_end()[..right.len() - 3].to_owned() + "\r\n", 401),
            ("/admin/",              format!("{right}{right}"),                           401),
            ("/admin/",              right.replace("Basic", "basic"),                     200),
            ("/admin/open/",         String::new(),                                       200),
            ("/admin/open/",         basic("ann:wrong"),                                  200),
        ];
        for endpoint in tls.endpoints_with_http2(engine, &served.program.addresses()) {
            let mut client = endpoint.connect();
            for (path, authorization, want) in cases {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{authorization}\r\n"));
                let response = client.response();
                let place = format!("{engine}, {endpoint}: {path}, {authorization}");
                assert_eq!(response.status, *want, "{place}");
                assert!(!response.closes(), "{place}: the connection stays usable");
                let challenge = response.field("WWW-Authenticate");
                let expected = (*want == 401).then_some("Basic realm=\"/admin\", charset=\"UTF-8\"");
                assert_eq!(challenge, expected, "{place}");
                if *want == 401 {
                    let page = String::from_utf8_lossy(&response.content).into_owned();
                    assert!(page.contains("<h1>401 Unauthorized</h1>"), "{place}: {page}");
                }
                let is_private = path.starts_with("/admin") && !path.contains("open") && *want != 401;
                assert_eq!(
                    response.head.contains("Cache-Control: private"),
                    is_private,
                    "{place}: {}",
                    response.head
                );
            }
        }
        wait_for("the line of the log", || {
            served.program.err().contains("wrong passwords for /admin").then_some(())
        });
        assert_eq!(served.program.err().matches("wrong passwords").count(), 1, "{engine}: one line");
        let log = wait_for("the access log", || {
            let log = fs::read_to_string(served.dir.path().join("access.log")).ok()?;
            (log.matches(" - Ann [").count()
                == tls.endpoints_with_http2(engine, &served.program.addresses()).len())
            .then_some(log)
        });
        let users = |status: u16| {
            let end = format!(" {status} ");
            let lines =
                log.lines().filter(move |line| line.contains("\"GET /admin/ ") && line.contains(&end));
            lines.map(|line| line.split(' ').nth(2).expect("a user").to_owned()).collect::<Vec<_>>()
        };
        assert!(users(200).iter().all(|user| user == "ann"), "{engine}: {log}");
        assert!(
            ["eve", "Ann", "-"].iter().all(|user| users(401).iter().any(|found| found == user)),
            "{engine}: {log}"
        );
    }
}

#[test]
fn no_way_leads_around_a_password() {
    for &engine in ENGINES {
        let served = Protected::start(engine, ANN, SECTIONS, "", LISTENER);
        #[rustfmt::skip]
        let targets = [
            "/admin", "/admin/", "//admin/", "/admin//", "/./admin/", "/x/../admin/", "/%61dmin/", "/%61dm%69n", "/admin%2f", "/x/..%2fadmin/",
            "/x%2f..%2fadmin/", "/admin/index.html", "/admin/index.html?a=b", "/admin/?", "/admin/file.txt", "/admin/file.txt.html", "/admin/list/",
            "/admin/open/../", "/admin/open/../file.txt", "/admin/open/..%2ffile.txt", "/admin/none",
        ];
        for (version, connect) in connect_on(engine) {
            let mut client = connect(served.program.address());
            for target in targets {
                let response = client.get(target);
                assert_eq!(response.status, 401, "{engine}, {version}: {target}");
            }
            for (method, fields) in [
                ("OPTIONS", ""),
                ("GET", "Range: bytes=0-0\r\n"),
                ("GET", "If-None-Match: *\r\n"),
                ("GET", "Accept-Encoding: gzip\r\n"),
                ("POST", "Content-Length: 0\r\n"),
                ("BREW", ""),
            ] {
                client.send(format!("{method} /admin/file.txt HTTP/1.1\r\nHost: b\r\n{fields}\r\n"));
                let response = client.response();
                assert_eq!(response.status, 401, "{engine}, {version}: {method}, {fields}");
            }
            client.send("HEAD /admin/file.txt HTTP/1.1\r\nHost: b\r\n\r\n");
            assert_eq!(client.try_head().expect("a head").status, 401, "{engine}, {version}: HEAD");
        }
        let mut client = TestClient::connect(served.program.address());
        client.send("GET http://other.example/admin/file.txt HTTP/1.1\r\nHost: other.example\r\n\r\n");
        assert_eq!(client.response().status, 401, "{engine}: the form with a host");
        // Those that are answered in a row.
        client.send([get("/"), get("/admin/"), get("/")].concat());
        assert_eq!([(); 3].map(|()| client.response().status), [200, 401, 200], "{engine}");
    }
}

#[test]
fn a_password_is_verified_once_in_all_workers() {
    for &engine in ENGINES {
        let served = Protected::start(engine, &format!("{ANN}\n{BOB}"), SECTIONS, "", LISTENER);
        let right = basic("ann:open sesame");
        for _ in 0..6 {
            // Another worker may have accepted it.
            let mut client = TestClient::connect(served.program.address());
            for _ in 0..3 {
                assert_eq!(served.status(&mut client, &right), 200, "{engine}");
            }
        }
        served.wait_for_passwords(engine, [1, 0, 0, 17]);
        // The wrong ones are not remembered.
        let mut client = TestClient::connect(served.program.address());
        for password in ["ann:wrong", "ann:wrong", "bob:open sesame", "eve:open sesame"] {
            assert_eq!(served.status(&mut client, &basic(password)), 401, "{engine}");
        }
        served.wait_for_passwords(engine, [1, 4, 0, 17]);
        // A reload reads the file again, and forgets only what has changed.
        let other = ANN.replace("ann:", "eve:");
        fs::write(served.dir.path().join("users"), format!("{ANN}\n{other}\n")).expect("a file");
        served.program.signal(Signal::HUP);
        wait_for("the reload", || served.program.out().contains("\nreloaded\n").then_some(()));
        // The former server may accept a last connection.
        let mut client = wait_for("the new user", || {
            let mut client = TestClient::connect(served.program.address());
            (served.status(&mut client, &basic("eve:open sesame")) == 200).then_some(client)
        });
        for (password, want) in [("bob:other", 401), ("ann:open sesame", 200)] {
            assert_eq!(served.status(&mut client, &basic(password)), want, "{engine}: {password}");
        }
        let right_count = served.counts(engine)[0];
        assert_eq!(right_count, 2, "{engine}: that of ann was remembered");
        // A file that is no more valid stops no server.
        fs::write(served.dir.path().join("users"), "ann:secret\n").expect("a file");
        served.program.signal(Signal::HUP);
        wait_for("the refusal", || served.program.err().contains("not reloaded").then_some(()));
        assert!(!served.program.err().contains("secret"), "{engine}: {}", served.program.err());
        assert_eq!(served.status(&mut client, &right), 200, "{engine}");
    }
}

#[test]
fn a_flood_of_wrong_passwords_leaves_the_others_answered() {
    for &engine in ENGINES.iter().filter(|engine| !engine.is_blocking()) {
        let served = Protected::start(engine, SLOW, SECTIONS, "", LISTENER);
        let wrong = basic("ann:wrong");
        let mut flood: Vec<_> = (0..40).map(|_| TestClient::connect(served.program.address())).collect();
        for client in &mut flood {
            client.send(format!("GET /admin/ HTTP/1.1\r\nHost: a\r\n{wrong}\r\n"));
        }
        // Twenty requests pass while the first passwords are verified, each of which takes as long as a thousand.
        let mut client = TestClient::connect(served.program.address());
        (0..20).for_each(|_| assert_eq!(client.get("/").status, 200, "{engine}"));
        let responses: Vec<_> = flood.iter_mut().map(TestClient::response).collect();
        // Few requests of an address wait: the others are refused.
        let (verified, refused): (Vec<_>, Vec<_>) =
            responses.iter().partition(|response| response.status == 401);
        assert!((8..=20).contains(&verified.len()), "{engine}: {responses:?}");
        for response in refused {
            assert_eq!((response.status, response.field("Retry-After")), (429, Some("1")), "{engine}");
        }
        assert_eq!(served.status(&mut client, &basic("ann:open sesame")), 200, "{engine}: the user comes in");
    }
}

#[test]
fn few_passwords_are_verified_at_a_time_in_all_processes() {
    for &engine in ENGINES.iter().filter(|engine| engine.is_blocking()) {
        let served = Protected::start(engine, SLOW, SECTIONS, "", LISTENER);
        let mut clients: Vec<_> = (0..20).map(|_| TestClient::connect(served.program.address())).collect();
        for client in &mut clients {
            client.send(format!("GET /admin/ HTTP/1.1\r\nHost: a\r\n{}\r\n", basic("ann:wrong")));
        }
        let statuses: Vec<_> = clients.iter_mut().map(|client| client.response().status).collect();
        assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{engine}: {statuses:?}");
        assert!(statuses.contains(&401), "{engine}: {statuses:?}");
        assert_eq!(
            served.status(&mut clients[0], &basic("ann:open sesame")),
            200,
            "{engine}: the user comes in"
        );
    }
}

#[test]
fn a_redirect_to_https_comes_before_the_password() {
    let tls = TestTls::new();
    let [certificate, key] = tls.files();
    for &engine in ENGINES {
        let sections = format!("redirect-to-https = true\n{SECTIONS}");
        let server = format!("tls-cert = [\"{certificate}\"]\ntls-key = [\"{key}\"]\n");
        // The redirect names the port.
        let port = ReservedPort::new();
        let plain = "[[listener]]\naddress = \"127.0.0.2:0\"\n";
        let listeners = format!("{plain}[[listener]]\naddress = \"tls:{}\"\n", port.address);
        let served = Protected::start(engine, ANN, &sections, &server, &listeners);
        let [plain, tls13, _] = tls.endpoints(&served.program.addresses());
        assert_eq!(plain.connect().get("/admin/").status, 308, "{engine}");
        assert_eq!(tls13.connect().get("/admin/").status, 401, "{engine}");
    }
}

#[test]
fn programs_learn_the_user_and_not_the_password() {
    let text = "#!/bin/sh\nbody=$(env)\nprintf 'Content-Type: text/plain\\nContent-Length: %d\\n\\n%s' ${#body} \"$body\"\n";
    for &engine in ENGINES {
        let bin = readable_dir();
        // A local redirect leads nowhere that the client could not go itself.
        for (name, text) in [("env", text), ("go", "#!/bin/sh\nprintf 'Location: /admin/file.txt\\n\\n'\n")] {
            fs::write(bin.path().join(name), text).expect("a file");
            fs::set_permissions(bin.path().join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        let bin = bin.path().to_str().expect("UTF-8").to_owned();
        let cgi = format!("cgi = [\"/admin/cgi/={bin}\", \"/cgi/={bin}\"]\n{SECTIONS}");
        let user = if rustix::process::geteuid().is_root() { "cgi-user = \"daemon\"\n" } else { "" };
        let served = Protected::start(engine, ANN, &cgi, user, LISTENER);
        let right = basic("ann:open sesame");
        for (version, connect) in connect_on(engine) {
            let mut client = connect(served.program.address());
            let mut ask = |path: &str, fields: &str| {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
                let response = client.response();
                (response.status, String::from_utf8(response.content).expect("UTF-8"))
            };
            let place = format!("{engine}, {version}");
            assert_eq!(ask("/admin/cgi/env", "").0, 401, "{place}");
            let (status, env) = ask("/admin/cgi/env", &right);
            assert_eq!(status, 200, "{place}");
            let has = |line: &str| env.lines().any(|of| of == line);
            assert!(has("REMOTE_USER=ann") && has("AUTH_TYPE=Basic"), "{place}: {env}");
            assert!(!env.contains("HTTP_AUTHORIZATION"), "{place}: {env}");
            let (status, env) = ask("/cgi/env", &right);
            assert!(
                status == 200 && !env.contains("REMOTE_USER"),
                "{place}: no password was asked for: {env}"
            );
            assert_eq!(ask("/cgi/go", &right).0, 403, "{place}");
            assert_eq!(ask("/admin/cgi/go", &right), (200, "file".to_owned()), "{place}");
        }
    }
}

#[test]
fn embedded_servers_have_passwords_too() {
    for &engine in EMBEDDED {
        let dir = site(&[("index.html", "home"), ("admin/index.html", "admin")]);
        let limit = |path: &str, users: &[&str]| PathLimit {
            path: Some(path.parse().expect("a prefix")),
            passwords: Some(LimitChoice::At(PasswordLimit {
                users: users.iter().map(|user| user.parse().expect("a user")).collect(),
                realm: "Staff \"only\"".to_owned(),
            })),
            ..PathLimit::default()
        };
        let host = VirtualHost {
            path_limits: vec![limit("/admin", &[ANN]), limit("/admin/none", &[])],
            ..VirtualHost::from(Site::from_dir(dir.path()).expect("a site"))
        };
        let hosts = VirtualHosts::new(vec![host], UnknownHost::Site(0)).expect("a site");
        let server = EmbeddedServer::sites(&settings_with_http2(engine, 2), hosts);
        for (_, connect) in connect_on(engine) {
            let mut client = connect(server.address);
            let right = basic("ann:open sesame");
            for (path, fields, want) in [
                ("/admin/", "", 401),
                ("/admin/", &*right, 200),
                ("/admin/none", &right, 401),
                ("/", "", 200),
            ] {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
                let response = client.response();
                assert_eq!(response.status, want, "{engine}: {path}");
                if want == 401 {
                    let challenge = "Basic realm=\"Staff 'only'\", charset=\"UTF-8\"";
                    assert_eq!(response.field("WWW-Authenticate"), Some(challenge), "{engine}");
                }
            }
        }
        let metrics = server.handle.metrics();
        assert!(metrics.passwords_right == 1 && metrics.requests_unauthorized >= 2, "{engine}");
    }
}

#[test]
fn the_start_warns_of_what_makes_passwords_known() {
    for (address, options, mode, want) in [
        ("127.0.0.1:0", "", 0o600, None),
        ("127.0.0.1:0", "", 0o644, Some("may read the file; allow its owner alone: chmod 600")),
        ("0.0.0.0:0", "", 0o600, Some("passwords travel in clear text to 0.0.0.0:0")),
        ("0.0.0.0:0", "trusted-proxies = [\"10.0.0.1\"]\nclient-address-from = \"forwarded\"\n", 0o600, None),
    ] {
        let dir = protected_site(ANN, SECTIONS, options, &format!("[[listener]]\naddress = \"{address}\"\n"));
        fs::set_permissions(dir.path().join("users"), fs::Permissions::from_mode(mode)).expect("a mode");
        let config = dir.path().join("tarpon.toml");
        let check = tarpon(["config".as_ref(), "check".as_ref(), config.as_os_str()]);
        let ProgramExit { status, err, .. } = RunningProgram::run(check);
        assert!(status.success(), "{address}: {err}");
        match want {
            Some(want) => assert!(err.contains(want), "{address}, {mode:o}: {err}"),
            None => assert_eq!(err, "", "{address}, {mode:o}"),
        }
    }
}

#[test]
fn hash_password_makes_lines_that_the_server_reads() {
    for (arguments, start) in [
        (&["--user", "ann"][..], "ann:$argon2id$v=19$m=19456,t=2,p=1$"),
        (&["--algorithm", "bcrypt", "--user", "ann"], "ann:$2y$12$"),
        (&[], "$argon2id$"),
    ] {
        for input in ["open sesame", "open sesame\n", "open sesame\r\n"] {
            let exit = hash_password(arguments, input);
            assert!(exit.status.success() && exit.out.starts_with(start), "{arguments:?}: {exit:?}");
            assert_eq!((exit.out.lines().count(), &*exit.err), (1, ""), "{arguments:?}");
            if arguments.is_empty() || input.ends_with('\n') {
                continue;
            }
            let served = Protected::start(Engine::Auto, &exit.out, SECTIONS, "", LISTENER);
            let mut client = TestClient::connect(served.program.address());
            assert_eq!(served.status(&mut client, &basic("ann:open sesame")), 200, "{arguments:?}");
        }
    }
    let long = "a".repeat(72);
    for (arguments, input, want) in [
        (&[][..], "", "it is empty"),
        (&[], "one\ntwo\n", "standard input has several lines"),
        (&[], "a\tb", "control character"),
        (&["--algorithm", "bcrypt"], &*long, "bcrypt reads no more than 71 bytes"),
        (&["--user", "a:b"], "secret", "a colon ends the name"),
        (&["--user", "#ann"], "secret", "is a comment"),
        (&["--user", ""], "secret", "the name is empty"),
        (&["secret"], "secret", "unexpected argument"),
    ] {
        let exit = hash_password(arguments, input);
        assert!(!exit.status.success() && exit.out.is_empty(), "{arguments:?}: {exit:?}");
        assert!(exit.err.contains(want), "{arguments:?}: {exit:?}");
    }
}

#[test]
fn hash_password_asks_twice_at_a_terminal_and_shows_nothing() {
    // Answers the questions, and prints what the terminal has shown.
    let script = "import os, pty, sys\n\
        pid, master = pty.fork()\n\
        if pid == 0:\n    os.execv(sys.argv[2], sys.argv[2:])\n\
        shown = b''\n\
        for answer in sys.argv[1].split(','):\n\
        \x20   while not shown.endswith(b': '):\n        shown += os.read(master, 1)\n\
        \x20   os.write(1, shown)\n    shown = b''\n    os.write(master, answer.encode() + b'\\n')\n\
        try:\n    while chunk := os.read(master, 4096): os.write(1, chunk)\n\
        except OSError: pass\n\
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    for (answers, want) in [
        ("open sesame,open sesame", Ok("ann:$argon2id$")),
        ("open sesame,close sesame", Err("the two are not the same")),
        ("open\x03", Err("it was cancelled")),
    ] {
        let command = tarpon(["hash-password".as_ref(), "--user".as_ref(), "ann".as_ref()]);
        let exit = RunningProgram::run(wrap_command(&["python3", "-c", script, answers], &command));
        assert_eq!(exit.status.success(), want.is_ok(), "{answers}: {exit:?}");
        assert!(exit.out.contains("Password: ") && !exit.out.contains("sesame"), "{answers}: {exit:?}");
        let (Ok(text) | Err(text)) = want;
        assert!(exit.out.contains(text), "{answers}: {exit:?}");
    }
}

fn hash_password(arguments: &[&str], input: &str) -> ProgramExit {
    let mut command = tarpon(["hash-password".as_ref()]);
    command.args(arguments);
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), input).expect("a file");
    RunningProgram::start_with_stdin(command, fs::File::open(file.path()).expect("a file").into()).wait()
}

const LISTENER: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\n";

/// Returns the field with these credentials.
fn basic(credentials: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(credentials))
}

/// A program with paths that have a password.
struct Protected {
    program: RunningProgram,
    dir: tempfile::TempDir,
}

impl Protected {
    /// Serves a site with these users, sections of the site, options of the server, and listeners.
    fn start(engine: Engine, users: &str, sections: &str, server: &str, listeners: &str) -> Protected {
        let server = format!(
            "engine = \"{engine}\"\nworkers = {}\nadmin = \"unix:admin.sock\"\n{server}\n\
             [log]\naccess-log = \"access.log\"\n",
            workers(engine, 2)
        );
        let dir = protected_site(users, sections, &server, listeners);
        let config = fs::read_to_string(dir.path().join("tarpon.toml")).expect("a file");
        let admin = dir.path().join("admin.sock");
        let admin = format!("unix:{}", admin.to_str().expect("UTF-8"));
        let program = RunningProgram::start_ready(serve_config(&config, dir.path(), &["--admin", &admin]));
        Protected { program, dir }
    }

    /// Returns the status of a request for the path with a password.
    fn status(&self, client: &mut TestClient, fields: &str) -> u16 {
        client.send(format!("GET /admin/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.response().status
    }

    /// Waits until so many passwords were right, wrong, not verified, and remembered.
    #[track_caller]
    fn wait_for_passwords(&self, engine: Engine, want: [u64; 4]) {
        wait_for(&format!("the counts of {engine}: {want:?}"), || {
            (self.counts(engine) == want).then_some(())
        });
    }

    /// Returns how many passwords were right, wrong, not verified, and remembered.
    fn counts(&self, engine: Engine) -> [u64; 4] {
        let admin = self.dir.path().join("admin.sock");
        let metrics = TestClient::connect_unix(&admin).get("/metrics").content;
        let metrics = String::from_utf8(metrics).expect("UTF-8");
        ["right", "wrong", "busy", "remembered"].map(|result| {
            let start = format!("tarpon_passwords_total{{result=\"{result}\"}} ");
            let count = metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
            count.unwrap_or_else(|| panic!("{engine}: {start} in {metrics}"))
        })
    }
}

/// Writes a site with its configuration and its users.
fn protected_site(users: &str, sections: &str, server: &str, listeners: &str) -> tempfile::TempDir {
    let dir = site(&[
        ("site/index.html", "home"),
        ("site/admin/index.html", "admin"),
        ("site/admin/file.txt", "file"),
        ("site/admin/file.txt.html", "other"),
        ("site/admin/list/a.txt", "a"),
        ("site/admin/open/index.html", "open"),
        ("users", users),
    ]);
    fs::set_permissions(dir.path().join("users"), fs::Permissions::from_mode(0o600)).expect("a mode");
    let config =
        format!("[[site]]\npath = \"site\"\nlistings = true\n{sections}{listeners}[server]\n{server}\n");
    fs::write(dir.path().join("tarpon.toml"), config).expect("a file");
    dir
}
