//! `tarpon config check` finds exactly what keeps `tarpon serve` from starting, and changes nothing.

use crate::common::{
    program::{ProgramExit, RunningProgram, tarpon},
    readable_dir,
    tls_files::TlsFiles,
    wait_for, write_files,
};
use std::{
    ffi::OsStr,
    fs,
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
};

const LISTEN: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\n";
const OFF: &str = "[server]\nadmin = \"off\"\n";

/// Writes the files of all cases.
fn prepare(dir: &Path) -> TlsFiles {
    let headers = "/*\n  X-A: 1\n  X-B\n/b c\n";
    let redirects = "/old /new\nnone /new\n/gone /missing.html 200\n";
    write_files(
        dir,
        &[
            ("good/index.html", "home"),
            ("good/closed/page.html", "page"),
            ("noindex/page.html", "page"),
            ("rules/index.html", "home"),
            ("rules/_headers", headers),
            ("rules/_redirects", redirects),
            ("secret/index.html", "secret"),
            ("locked/index.html", "locked"),
            ("file", "no archive"),
            ("run/taken", "a file"),
            ("logs/other", ""),
        ],
    );
    fs::set_permissions(dir.join("secret/index.html"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink("other", dir.join("logs/link")).unwrap();
    let mut pack = tarpon(["pack", "good", "-o", "packed.tar"].map(OsStr::new));
    assert!(
        RunningProgram::run({
            pack.current_dir(dir);
            pack
        })
        .status
        .success()
    );
    let tar = Command::new("tar").args(["-cf", "plain.tar", "-C", "good", "."]).current_dir(dir).status();
    assert!(tar.unwrap().success());
    let files = TlsFiles::new();
    files.issue("a", &["localhost"]);
    files.issue("b", &["localhost"]);
    files.issue_with("old", &["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    fs::write(files.path().join("ca.bad"), "no certificate").unwrap();
    fs::create_dir(files.path().join("dir.key")).unwrap();
    files
}

fn run(dir: &Path, arguments: &[&str]) -> ProgramExit {
    let mut command = tarpon(arguments.iter().map(OsStr::new));
    command.current_dir(dir);
    RunningProgram::run(command)
}

/// Returns all paths below a directory with their lengths and times of change.
fn snapshot(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap()) {
        let meta = entry.path().symlink_metadata().unwrap();
        found.push(format!("{:?} {} {:?}", entry.path(), meta.len(), meta.modified().unwrap()));
        if meta.is_dir() {
            found.extend(snapshot(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn check_fails_exactly_if_the_start_fails() {
    let temp = readable_dir();
    let dir = temp.path();
    let tls = prepare(dir);
    let site = |path: &str, more: &str| format!("{LISTEN}[[site]]\npath = \"{path}\"\n{more}\n{OFF}");
    let server = |more: &str| format!("{LISTEN}[[site]]\npath = \"good\"\n{OFF}{more}\n");
    let listen = |text: &str| format!("[[site]]\npath = \"good\"\n{OFF}{text}\n");
    let pair = |certificate: &str, key: &str| {
        let at = tls.path().display();
        format!(
            "[[listener]]\naddress = \"tls:127.0.0.1:0\"\n[[site]]\npath = \"good\"\n{OFF}tls-cert = [\"{at}/{certificate}\"]\ntls-key = [\"{at}/{key}\"]\n"
        )
    };
    let client_ca = |file: &str| {
        let at = tls.path().display();
        format!(
            "[[listener]]\naddress = \"tls:127.0.0.1:0\"\ntls-client-ca = \"{at}/{file}\"\n[[site]]\npath = \"good\"\n{OFF}tls-cert = [\"{at}/a.pem\"]\ntls-key = [\"{at}/a.key\"]\n"
        )
    };
    let proxy = |server: &str| {
        let at = tls.path().display();
        format!(
            "{LISTEN}[[site]]\npath = \"good\"\nproxy = [\"/api/=app\"]\n{OFF}[[upstream]]\nname = \"app\"\nservers = [\"{server}\"]\nca = \"{at}/ca.bad\"\n"
        )
    };
    #[rustfmt::skip]
    let cases: &[(&str, String, &[&str])] = &[
        // case                    configuration                                                 errors with their places
        ("a good site",            site("good", ""),                                             &[]),
        ("an application",         site("good", "spa = true"),                                   &[]),
        ("a plain archive",        site("plain.tar", "spa = true\nprefix = \"closed\"\n[[site.header]]\npath = \"/*\"\nset = [\"X-A: b\"]"), &["5:7: cannot serve the site with --spa"]),
        ("a packed site",          site("packed.tar", ""),                                       &[]),
        ("a log of its own",       site("good", "access-log = \"logs/new\""),                    &[]),
        ("no such user",           server("user = \"nobody-here\""),                             &["7:8: cannot run as user nobody-here: the user does not exist"]),
        ("no directory",           site("none", ""),                                             &["4:8: cannot serve DIR/none: it does not exist"]),
        ("no file",                site("none.tar", ""),                                         &["4:8: cannot serve DIR/none.tar: it does not exist"]),
        ("no archive",             site("file", ""),                                             &["4:8: cannot read DIR/file: not a tar archive"]),
        ("an unreadable file",     site("secret", ""),                                           &[]),
        ("a strict site",          site("secret", "strict = true"),                              &["4:8: cannot read DIR/secret/index.html"]),
        ("a locked directory",     site("locked", ""),                                           &["4:8: cannot serve DIR/locked"]),
        ("rules",                  site("rules", ""),                                            &["4:8: _headers:3:3: ", "4:8: _headers:4:4: ", "4:8: _redirects:2:1: ", "4:8: _redirects:3:7: "]),
        ("no index",               site("noindex", "spa = true"),                                &["5:7: cannot serve the site with --spa: a single-page application needs an index.html"]),
        ("packed, spa",            site("packed.tar", "spa = true"),                             &["5:7: cannot serve DIR/packed.tar with --spa: it is a packed site"]),
        ("packed, prefix",         site("packed.tar", "prefix = \"in\""),                        &["5:10: cannot serve in of DIR/packed.tar: it is a packed site"]),
        ("packed, rules",          site("packed.tar", "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\""), &["4:8: cannot serve DIR/packed.tar with rules of the configuration"]),
        ("packed, links",          site("packed.tar", "follow-links = [\"good\"]"),              &["5:17: cannot let links of DIR/packed.tar lead out of it"]),
        ("packed, several",        site("packed.tar", "spa = true\nclean-urls = true\nprefix = \"in\"\nfollow-links = [\"good\"]\nmount = \"/docs/\"\n[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\""), &["5:7: cannot serve DIR/packed.tar with --spa", "6:14: cannot serve DIR/packed.tar with --clean-urls", "7:10: cannot serve in of DIR/packed.tar", "8:17: cannot let links", "9:9: cannot serve DIR/packed.tar below /docs", "4:8: cannot serve DIR/packed.tar with rules"]),
        ("no tree for links",      site("good", "follow-links = [\"none\"]"),                    &["5:17: cannot let links lead into DIR/none"]),
        ("prefix of a directory",  site("good", "prefix = \"closed\""),                          &["5:10: cannot serve closed of DIR/good: it is not an archive"]),
        ("the same port twice",    listen("[[listener]]\naddress = \"127.0.0.1:5991\"\n[[listener]]\naddress = \"127.0.0.1:5991\""), &["8:11: listener 127.0.0.1:5991 occurs twice"]),
        ("one port of all",        listen("[[listener]]\naddress = \"0.0.0.0:5991\"\n[[listener]]\naddress = \"127.0.0.1:5991\""), &["8:11: 127.0.0.1:5991 uses the port of 0.0.0.0:5991"]),
        ("one port of the admin",  "[[listener]]\naddress = \"0.0.0.0:5991\"\n[[site]]\npath = \"good\"\n[server]\nadmin = \"127.0.0.1:5991\"\n".into(), &["6:9: 127.0.0.1:5991 uses the port of 0.0.0.0:5991"]),
        ("a foreign address",      listen("[[listener]]\naddress = \"192.0.2.1:5991\""),         &["6:11: cannot listen on 192.0.2.1:5991"]),
        ("a Unix socket",          listen("[[listener]]\naddress = \"unix:run/socket\"\n[[listener]]\naddress = \"127.0.0.1:0\""), &[]),
        ("no directory for it",    listen("[[listener]]\naddress = \"unix:none/socket\""),       &["6:11: cannot listen on unix:DIR/none/socket"]),
        ("a file in its place",    listen("[[listener]]\naddress = \"unix:run/taken\""),         &["6:11: cannot listen on unix:DIR/run/taken"]),
        ("no owner, no group",     listen("[[listener]]\naddress = \"unix:run/socket\"\nowner = \"nobody-here\"\n"), &["7:9: cannot use owner = \"nobody-here\" of a listener: the user does not exist"]),
        ("no group",               listen("[[listener]]\naddress = \"unix:run/socket\"\ngroup = \"nobody-here\"\n"), &["7:9: cannot use group = \"nobody-here\" of a listener: the group does not exist"]),
        ("no place for admin",     format!("{LISTEN}[[site]]\npath = \"good\"\n[server]\nadmin = \"unix:none/admin\"\n"), &["6:9: cannot listen on unix:DIR/none/admin"]),
        ("no directory of logs",   server("[log]\naccess-log = \"none/log\""),                   &["8:14: cannot log to DIR/none/log: no such file or directory"]),
        ("a log that is a link",   server("[log]\naccess-log = \"logs/link\""),                  &["8:14: cannot log to DIR/logs/link: it is a symbolic link"]),
        ("a log that is a directory", server("[log]\naccess-log = \"logs\""),                    &["8:14: cannot log to DIR/logs: is a directory"]),
        ("no reader of the log",   server("[log]\naccess-log = \"unix:none\""),                  &["8:14: cannot log to unix:DIR/none"]),
        ("a log of the site",      site("good", "access-log = \"none/log\""),                    &["5:14: cannot log to DIR/none/log"]),
        ("HTTP/2 alone",           server("http2 = \"only\""),                                    &[]),
        ("an engine without it",   server("engine = \"prefork\"\nhttp2 = \"only\""),              &["8:9: the engine prefork does not offer HTTP/2"]),
        ("a listener without it",  server("engine = \"prefork\"\n[[listener]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"only\""), &["10:9: the engine prefork does not offer HTTP/2"]),
        ("a listener and http-01", format!("[[site]]\npath = \"good\"\ndomain = [\"a.test\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\nhttp2 = \"only\"\n[[listener]]\naddress = \"tls:127.0.0.2:0\"\nhttp2 = \"only\"\n{OFF}"), &["6:9: a directory that checks a name by http-01 speaks HTTP/1"]),
        ("another for http-01",    format!("[[site]]\npath = \"good\"\ndomain = [\"a.test\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[listener]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"only\"\n{OFF}"), &[]),
        ("the server and http-01", format!("[[site]]\npath = \"good\"\ndomain = [\"a.test\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\nhttp2 = \"on\"\n{OFF}http2 = \"only\"\n"), &[]),
        ("HTTP/2 and http-01",     format!("[[site]]\npath = \"good\"\ndomain = [\"a.test\"]\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n{OFF}http2 = \"only\"\n"), &["8:9: a directory that checks a name by http-01 speaks HTTP/1"]),
        ("no engine",              server("engine = \"kqueue\""),                                &["7:10: cannot use kqueue"]),
        ("no state directory",     format!("{}domain = [\"a.test\"]\n[[listener]]\naddress = \"tls:127.0.0.1:0\"\n{OFF}state-directory = \"file/state\"\n", "[[site]]\npath = \"good\"\n"), &["8:19: cannot use the state directory DIR/file/state"]),
        ("a certificate",          pair("a.pem", "a.key"),                                       &[]),
        ("no certificate",         pair("none.pem", "a.key"),                                    &["none.pem does not exist"]),
        ("no key",                 pair("a.pem", "none.key"),                                    &["none.key does not exist"]),
        ("a key that cannot be read", pair("a.pem", "dir.key"),                                  &["dir.key"]),
        ("another's key",          pair("a.pem", "b.key"),                                       &["7:13: ", "the key does not fit the certificate"]),
        ("no certificate in it",   pair("ca.bad", "a.key"),                                      &["7:13: "]),
        ("authorities of clients", client_ca("ca.pem"),                                          &[]),
        ("no authority in it",     client_ca("ca.bad"),                                          &["3:17: "]),
        ("an upstream",            proxy("http://127.0.0.1:9").replace("\nca", "\n#"),           &[]),
        ("no authority for it",    proxy("https://127.0.0.1:9"),                                 &["11:6: "]),
        ("several upstreams",      format!("{}[[upstream]]\nname = \"other\"\nservers = [\"https://127.0.0.1:9\"]\nca = \"none\"\n", proxy("https://127.0.0.1:9").replace("=app", "=app\", \"/b/=other")), &["11:6: ", "15:6: "]),
        ("several at once",        format!("{}[[site]]\npath = \"rules\"\nhosts = [\"b.test\"]\n[log]\naccess-log = \"none/log\"\n", site("none", "").replace(OFF, &format!("{OFF}user = \"nobody-here\"\n"))), &["4:8: ", "8:8: ", "10:8: ", "13:14: "]),
    ];
    let file = dir.join("tarpon.toml").to_str().unwrap().to_owned();
    let mut wrong = Vec::new();
    for (name, config, wants) in cases {
        fs::write(dir.join("tarpon.toml"), config).unwrap();
        let before = snapshot(dir);
        let checked = run(dir, &["config", "check", &file]);
        assert_eq!(snapshot(dir), before, "{name}: the check changes nothing");
        let lines = located(&checked.err, dir);
        let missing = wants.iter().filter(|want| !lines.iter().any(|line| line.contains(**want)));
        let missing: Vec<_> = missing.collect();
        if checked.status.success() != wants.is_empty() || !missing.is_empty() {
            wrong.push(format!("{name}: not reported: {missing:?}\n{}{}", checked.out, checked.err));
            continue;
        }
        let serve = tarpon(["serve", "-c", &file].map(OsStr::new));
        match wants.is_empty() {
            true => drop(RunningProgram::start_ready(serve)),
            false => {
                let served = RunningProgram::run(serve);
                assert_eq!(served.status.code(), Some(1), "{name}: {served:?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    fs::set_permissions(dir.join("locked"), fs::Permissions::from_mode(0o755)).unwrap();
    // The exception that docs/https.md tells: clients may accept the certificate all the same.
    fs::write(dir.join("tarpon.toml"), pair("old.pem", "old.key")).unwrap();
    let checked = run(dir, &["config", "check", "tarpon.toml"]);
    assert!(!checked.status.success() && checked.err.contains("it has expired"), "{checked:?}");
    let mut serve = tarpon(["serve", "-c", "tarpon.toml"].map(OsStr::new));
    serve.current_dir(dir);
    let program = RunningProgram::start_ready(serve);
    wait_for("the warning", || program.err().contains("it has expired").then_some(()));
}

/// Returns each error in one line: `LINE:COLUMN: what`.
fn located(text: &str, dir: &Path) -> Vec<String> {
    let text = text.replace(dir.to_str().unwrap(), "DIR");
    let errors = text.split("error: ").skip(1);
    let one = |error: &str| {
        let what = error.lines().next().unwrap_or_default();
        let place = error.lines().find_map(|line| line.trim_start().strip_prefix("--> "));
        let place = place.and_then(|place| place.split_once(':')).map(|(_, place)| place.to_owned());
        format!("{}: {what}", place.unwrap_or_default())
    };
    errors.map(one).collect()
}

#[test]
fn all_errors_of_all_kinds_come_at_once() {
    let temp = readable_dir();
    let dir = temp.path();
    let _tls = prepare(dir);
    let text = "[[site]]\npath = \"rules\"\nhosts = [\"a.test\"]\naccess-log = \"none/log\"\n[[site]]\npath = \"none\"\nhosts = [\"b.test\"]\n\
                [[listener]]\naddress = \"unix:none/socket\"\ngroup = \"nobody-here\"\n[server]\nadmin = \"off\"\nengine = \"kqueue\"\n";
    fs::write(dir.join("tarpon.toml"), text).unwrap();
    let checked = run(dir, &["config", "check", "-c", "tarpon.toml"]);
    let places: Vec<_> = located(&checked.err, dir)
        .iter()
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        places,
        ["2:8", "2:8", "2:8", "2:8", "4:14", "6:8", "9:11", "10:9", "13:10"],
        "{}",
        checked.err
    );
    // Without this machine only the file counts.
    let offline = run(dir, &["config", "check", "--offline", "tarpon.toml"]);
    assert!(offline.status.success() && offline.out.contains("is valid"), "{offline:?}");
    fs::write(dir.join("tarpon.toml"), text.replace("\"kqueue\"", "\"kqueues\"")).unwrap();
    assert!(!run(dir, &["config", "check", "--offline", "tarpon.toml"]).status.success());
}

#[test]
fn configuration_of_a_running_server_is_valid() {
    let temp = readable_dir();
    let dir = temp.path();
    write_files(dir, &[("public/index.html", "home")]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let _socket = UnixListener::bind(dir.join("socket")).unwrap();
    let text = format!(
        "[[listener]]\naddress = \"{}\"\n[[listener]]\naddress = \"unix:socket\"\n[[site]]\npath = \"public\"\n{OFF}",
        port.local_addr().unwrap()
    );
    fs::write(dir.join("tarpon.toml"), text).unwrap();
    let checked = run(dir, &["config", "check", "tarpon.toml"]);
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn commands_find_the_server_of_a_configuration() {
    let temp = readable_dir();
    let dir = temp.path();
    write_files(dir, &[("public/index.html", "home"), ("elsewhere/x", "")]);
    let text = format!("{LISTEN}[[site]]\npath = \"public\"\n[server]\nadmin = \"unix:admin.sock\"\n");
    fs::write(dir.join("tarpon.toml"), &text).unwrap();
    let mut serve = tarpon(["serve", "-c", "tarpon.toml"].map(OsStr::new));
    serve.current_dir(dir);
    let _program = RunningProgram::start_ready(serve);
    let elsewhere = dir.join("elsewhere");
    let status = run(&elsewhere, &["status", "-c", "../tarpon.toml"]);
    assert!(status.status.success() && status.out.contains("serving for"), "{status:?}");
    let reload = run(&elsewhere, &["reload", "--config", "../tarpon.toml"]);
    assert_eq!((reload.status.code(), reload.err.as_str()), (Some(0), ""), "{reload:?}");
    let both = run(&elsewhere, &["status", "-c", "../tarpon.toml", "--admin", "127.0.0.1:1"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    fs::write(dir.join("off.toml"), text.replace("unix:admin.sock", "off")).unwrap();
    let off = run(dir, &["status", "-c", "off.toml"]);
    assert!(!off.status.success() && off.err.contains("its admin listener is off"), "{off:?}");
}
