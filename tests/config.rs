//! Reading, checking, showing and serving the configuration; the documentation generated from the options.

use crate::common::{
    client::{TestClient, get},
    program::{ProgramExit, RunningProgram, serve, tarpon},
    releases::pack,
    site, wait_for, write_files,
};
use rustix::process::Signal;
use std::{
    env,
    ffi::OsStr,
    fs,
    net::TcpListener,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::{Command, Stdio},
};
use tarpon::config::{self, CliFlags, ConfigFile};

#[test]
fn flags_override_the_file() {
    let text = "[server]\nworkers = 3\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
                [[site]]\npath = \"public\"\nspa = true\ncors = [\"/a\"]\n";
    let dir = site(&[("tarpon.toml", text), ("public/index.html", "shell"), ("public/a/b.txt", "b")]);
    let cases: &[(&[&str], &str, u16)] = &[
        (&[], ", 3 workers;", 200),
        (&["--workers", "2"], ", 2 workers;", 200),
        (&["--no-spa", "--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"], ", 3 workers;", 404),
        (&["--no-spa", "--spa"], ", 3 workers;", 200),
    ];
    for (flags, want, status) in cases {
        let file = dir.path().join("tarpon.toml");
        let program = RunningProgram::start_ready(tarpon_command(
            &["serve", "--config", file.to_str().unwrap()],
            flags,
        ));
        assert!(program.out().contains(want), "{flags:?}: {}", program.out());
        let listeners = flags.iter().filter(|flag| **flag == "--listen").count().max(1);
        assert_eq!(program.addresses().len(), listeners);
        for address in program.addresses() {
            let mut client = TestClient::connect(address);
            assert_eq!(client.get("/route").status, *status, "{flags:?}");
            assert_eq!(client.get("/a/b.txt").field("Access-Control-Allow-Origin"), Some("*"));
        }
        assert_eq!(program.err(), "");
    }
}

#[test]
fn limit_flag_overrides_the_limits_of_sites() {
    let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"public\"\nkeepalive-requests = 2\n[server]\nkeepalive-requests = 4\n";
    let dir = site(&[("tarpon.toml", text), ("public/index.html", "home")]);
    let file = dir.path().join("tarpon.toml");
    for (flags, last) in [(&[][..], 2), (&["--keepalive-requests", "3"], 3)] {
        let program = RunningProgram::start_ready(tarpon_command(
            &["serve", "--config", file.to_str().unwrap()],
            flags,
        ));
        let mut client = TestClient::connect(program.address());
        let closes: Vec<_> = (0..last).map(|_| client.get("/").closes()).collect();
        assert_eq!(closes.iter().position(|&closes| closes), Some(last - 1), "{flags:?}");
    }
}

#[test]
fn hosts_select_the_configured_site() {
    let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n\
                [[site]]\npath = \"a\"\nhosts = [\"a.example\", \"*.a.example\"]\nredirect-hosts = [\"www.a.example\"]\n\
                [[site]]\npath = \"b\"\ndefault = true\n";
    let dir = site(&[("tarpon.toml", text), ("a/index.html", "this is a"), ("b/index.html", "this is b")]);
    let program = RunningProgram::start_ready(tarpon_command(
        &["serve", "--config"],
        &[dir.path().join("tarpon.toml").to_str().unwrap()],
    ));
    let mut client = TestClient::connect(program.address());
    let cases = [
        ("a.example", 200, "a"),
        ("x.a.example", 200, "a"),
        ("b.example", 200, "b"),
        ("www.a.example", 301, ""),
    ];
    for (host, status, want) in cases {
        client.send(get("/").replace("Host: localhost", &format!("Host: {host}")));
        let response = client.response();
        assert_eq!(response.status, status, "{host}");
        assert!(response.content.ends_with(want.as_bytes()), "{host}");
    }
}

#[test]
fn help_shows_the_flag_that_changes_the_default() {
    let help = RunningProgram::run(tarpon_command(&["serve", "--help"], &[])).out;
    for (flag, is_there) in
        [("--spa", true), ("--no-spa", false), ("--sandbox", false), ("--no-sandbox", true)]
    {
        assert_eq!(help.contains(&format!(" {flag}\n")), is_there, "{flag}");
    }
    assert!(help.contains("Do not restrict the processes that read and serve the site"), "{help}");
    for (flag, want) in
        [("--spa", "true"), ("--no-spa", "false"), ("--sandbox", "true"), ("--no-sandbox", "false")]
    {
        let shown = RunningProgram::run(tarpon_command(&["config", "show"], &[flag])).out;
        let line = shown.lines().find(|line| line.ends_with(&format!("  {flag}")));
        assert!(line.is_some_and(|line| line.contains(&format!(" {want} "))), "{shown}");
    }
}

#[test]
fn path_argument_may_be_invalid_utf8() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(OsStr::from_bytes(b"\xff"));
    write_files(&root, &[("index.html", "here")]);
    let program = RunningProgram::start_ready(serve(&root, &[]));
    assert_eq!(TestClient::connect(program.address()).get("/").content, b"here");
}

#[test]
fn broken_file_is_reported_and_not_served() {
    let dir = site(&[(
        "tarpon.toml",
        "[server]\nworkers = 0\ncpu-affinity = yes\n\n[[site]]\npath = \"missing\"\nclean-url = true\n",
    )]);
    let file = dir.path().join("tarpon.toml").display().to_string();
    let want = "tarpon: cannot use FILE: 3 errors\n\n\
                error: `workers` cannot be 0\n --> FILE:2:11\n  |\n2 | workers = 0\n  |           ^ expected a number from 1 to 1024\n  = as in workers = 4\n\n\
                error: this is not TOML\n --> FILE:3:16\n  |\n3 | cpu-affinity = yes\n  |                ^^^ string values must be quoted, expected literal string\n  = see https://toml.io for the syntax\n\n\
                error: unknown option `clean-url`\n --> FILE:7:1\n  |\n7 | clean-url = true\n  | ^^^^^^^^^ expected an option of [[site]]\n  = did you mean `clean-urls`?\n\n";
    for command in [&["config", "check"][..], &["config", "show"], &["serve"]] {
        let ended = RunningProgram::run(tarpon_command(command, &["--config", &file]));
        assert_eq!(ended.status.code(), Some(1), "{command:?}");
        assert_eq!(
            (ended.out.as_str(), ended.err.replace(&file, "FILE").as_str()),
            ("", want),
            "{command:?}"
        );
    }
}

#[test]
fn check_reports_missing_paths_and_addresses() {
    let text = "[[listener]]\naddress = \"192.0.2.1:80\"\n[[listener]]\naddress = \"unix:run/tarpon.sock\"\n\
                [[site]]\npath = \"public\"\n";
    let dir = site(&[("tarpon.toml", text)]);
    let file = dir.path().join("tarpon.toml").display().to_string();
    let check = || RunningProgram::run(tarpon_command(&["config", "check"], &["--config", &file]));
    let (ended, at) = (check(), dir.path().display());
    let found: Vec<_> = ended.err.lines().filter(|line| line.starts_with("error: ")).collect();
    let want = [
        "error: cannot listen on 192.0.2.1:80: cannot assign requested address".to_owned(),
        format!("error: cannot listen on unix:{at}/run/tarpon.sock: no such file or directory"),
        format!("error: cannot serve {at}/public: it does not exist"),
    ];
    assert_eq!((ended.status.code(), found), (Some(1), want.iter().map(|line| &**line).collect()));

    let text = text.replace("192.0.2.1", "127.0.0.1");
    write_files(dir.path(), &[("tarpon.toml", &*text), ("run/x", ""), ("public/index.html", "")]);
    // A port in use is not an error: a server with this configuration may be listening there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    write_files(
        dir.path(),
        &[("tarpon.toml", text.replace("127.0.0.1:80", &port.local_addr().unwrap().to_string()))],
    );
    let ended = check();
    assert_eq!((ended.status.code(), ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, format!("{file} is valid: 1 site, 2 listeners\n"));

    let ended =
        RunningProgram::run(tarpon_command(&["config", "check"], &["--config", "/nowhere/tarpon.toml"]));
    let want = "tarpon: cannot read /nowhere/tarpon.toml: no such file or directory; name an existing, readable file, as in \
                --config tarpon.toml";
    assert_eq!((ended.status.code(), ended.error_line()), (Some(1), want));
}

/// Returns `tarpon serve` in a directory, without a path and without `--config`.
fn serve_there(dir: &Path, flags: &[&str]) -> Command {
    let mut command = tarpon_command(&["serve"], flags);
    command.current_dir(dir);
    command
}

#[test]
fn file_in_the_current_directory_is_read_if_no_argument_names_a_site() {
    let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"public\"\nspa = true\n[server]\nadmin = \"off\"\n";
    let dir = site(&[("tarpon.toml", text), ("public/index.html", "home")]);
    set_mode(&dir.path().join("tarpon.toml"), 0o644);
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let program = RunningProgram::start_ready(serve_there(dir.path(), &[]));
    assert_eq!(first_line(program.out()), "configuration: ./tarpon.toml");
    let page = TestClient::connect(program.address()).get("/route");
    assert_eq!((page.status, &page.content[..]), (200, &b"home"[..]));
    // A reload reads it again, and serves nothing else without it.
    for (is_there, want) in
        [(true, "\nreloaded\n"), (false, "cannot use ./tarpon.toml: no such file or directory")]
    {
        if !is_there {
            fs::remove_file(dir.path().join("tarpon.toml")).unwrap();
        }
        program.signal(Signal::HUP);
        wait_for(want, || (program.out() + &program.err()).contains(want).then_some(()));
    }
    assert_eq!(program.out().matches("configuration:").count(), 1);
    assert_eq!(TestClient::connect(program.address()).get("/route").status, 200);

    write_files(dir.path(), &[("tarpon.toml", text)]);
    set_mode(&dir.path().join("tarpon.toml"), 0o644);
    // Flags win, and messages can be JSON.
    let program = RunningProgram::start(serve_there(dir.path(), &["--no-spa", "--log-format", "json"]));
    wait_for("the start", || program.err().contains("\"serving\"").then_some(()));
    let first = first_line(program.err());
    assert!(first.contains("\"file\":\"./tarpon.toml\"") && first.contains("\"configuration\""), "{first}");
    let shown = RunningProgram::run({
        let mut command = tarpon_command(&["config", "show"], &[]);
        command.current_dir(dir.path());
        command
    });
    assert!(shown.out.contains("tarpon.toml:4"), "{shown:?}");
    // A path replaces it.
    let program = RunningProgram::start_ready(serve_there(
        dir.path(),
        &["public", "--listen", "127.0.0.1:0", "--admin", "off"],
    ));
    assert!(!program.out().contains("configuration:"));
    assert_eq!(TestClient::connect(program.address()).get("/route").status, 404);
}

#[test]
fn file_in_the_current_directory_that_others_can_write_is_refused() {
    let is_root = rustix::process::geteuid().is_root();
    #[rustfmt::skip]
    let cases: &[(&str, u32, u32, &str)] = &[
        // case             directory  file   why
        ("group file",      0o755,     0o664, "other users may write to it (mode 0664)"),
        ("world file",      0o755,     0o646, "other users may write to it (mode 0646)"),
        ("group directory", 0o775,     0o644, "other users may write to its directory (mode 0775)"),
        ("sticky",          0o1777,    0o644, "other users may write to its directory (mode 1777)"),
        ("a link",          0o755,     0,     "it is no regular file"),
        ("foreign file",    0o755,     0o644, "it belongs to another user, number 1"),
        ("foreign dir",     0o755,     0o644, "its directory belongs to another user, number 1"),
    ];
    for &(case, dir_mode, mode, why) in cases {
        let dir = site(&[("public/index.html", "home"), ("other.toml", "[[site]]\npath = \"public\"\n")]);
        let file = dir.path().join("tarpon.toml");
        match mode {
            0 => std::os::unix::fs::symlink("other.toml", &file).unwrap(),
            mode => {
                fs::copy(dir.path().join("other.toml"), &file).unwrap();
                set_mode(&file, mode);
            }
        }
        set_mode(dir.path(), dir_mode);
        if case.starts_with("foreign") {
            if !is_root {
                println!("skipped: only root can give a file to another user");
                continue;
            }
            let path = if case == "foreign file" { &file } else { dir.path() };
            std::os::unix::fs::chown(path, Some(1), None).unwrap();
        }
        let ended = RunningProgram::run(serve_there(dir.path(), &["--listen", "127.0.0.1:0"]));
        let want = format!(
            "tarpon: cannot use ./tarpon.toml: {why}; to use it, name it, as in tarpon serve --config tarpon.toml; to serve the \
             directory without it, name that: tarpon serve ."
        );
        assert_eq!((ended.status.code(), ended.error_line()), (Some(1), &*want), "{case}");
        // The way out.
        let named = ["--config", "tarpon.toml", "--listen", "127.0.0.1:0", "--admin", "off"];
        RunningProgram::start_ready(serve_there(dir.path(), &named));
    }
}

#[test]
fn site_that_holds_files_of_the_server_is_refused() {
    let text = "[[site]]\npath = \".\"\n";
    let dir = site(&[("tarpon.toml", text), ("public/index.html", "home")]);
    let at = dir.path().to_str().unwrap();
    set_mode(&dir.path().join("tarpon.toml"), 0o644);
    let why = "keep the site in a directory of its own, such as public, or move the file out of it";
    let log = format!("{at}/public/access.log");
    #[rustfmt::skip]
    let cases: &[(&[&str], &str)] = &[
        (&["serve"],                                            "tarpon.toml lies in the directory ., whose files a site serves"),
        (&["serve", "--config", "tarpon.toml"],                 " --> tarpon.toml:2:8"),
        (&["config", "check", "--config", "tarpon.toml"],       " --> tarpon.toml:2:8"),
        (&["serve", "public", "--access-log", &log],            "/public/access.log lies in the directory public, whose files a site serves"),
        (&["serve", "public", "--listen", "unix:public/socket"], "public/socket lies in the directory public, whose files a site serves"),
    ];
    for (arguments, want) in cases {
        let mut command = tarpon(arguments.iter().map(|argument| argument.as_ref()));
        command.current_dir(dir.path());
        let ended = RunningProgram::run(command);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(want) && ended.err.contains(why), "{arguments:?}: {ended:?}");
    }
    assert!(!dir.path().join("public/access.log").exists());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn engine_of_another_system_is_refused_by_name() {
    let absent = if cfg!(target_os = "linux") { "kqueue" } else { "epoll" };
    let dir =
        site(&[("tarpon.toml", &*format!("[server]\nengine = \"{absent}\"\n")), ("public/index.html", "")]);
    let reason = format!("cannot use {absent}: this system does not have it; take --engine ");
    let (path, file) = (dir.path().join("public"), dir.path().join("tarpon.toml"));
    let (path, file) = (path.to_str().unwrap(), file.to_str().unwrap());
    for arguments in [
        &["serve", path, "--listen", "127.0.0.1:0", "--engine", absent][..],
        &["serve", path, "--listen", "127.0.0.1:0", "--config", file],
        &["config", "check", "--config", file],
    ] {
        let mut command = tarpon_command(arguments, &[]);
        // The site is the current directory if nothing names one.
        command.current_dir(dir.path());
        let ended = RunningProgram::run(command);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(&reason), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn show_prints_each_value_with_its_source() {
    let text =
        "[[site]]\npath = \"public\"\nhosts = [\"a.example\", \"b.example\"]\n[server]\ngrace-period = 90\n";
    let dir = site(&[("tarpon.toml", text)]);
    let mut command =
        tarpon_command(&["config", "show", "--config", "tarpon.toml"], &["--spa", "--workers", "3"]);
    command.current_dir(dir.path());
    let ended = RunningProgram::run(command);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    #[rustfmt::skip]
    let cases = [
        ("[[site]] 1", "path",         "public",               "tarpon.toml:2"),
        ("[[site]] 1", "prefix",       "not set",              "default"),
        ("[[site]] 1", "hosts",        "a.example, b.example", "tarpon.toml:3"),
        ("[[site]] 1", "spa",          "true",                 "--spa"),
        ("[[site]] 1", "clean-urls",   "false",                "default"),
        ("[server]",   "workers",      "3",                    "--workers"),
        ("[server]",   "header-timeout", "20s",                "default"),
        ("[server]",   "grace-period", "1m30s",                "tarpon.toml:5"),
        ("[[listener]]", "address",    "127.0.0.1:8080, and [::1]:8080 if the host has IPv6", "default"),
    ];
    for (section, option, value, want_source) in cases {
        let line =
            ended.out.lines().find(|line| line.starts_with(section) && line.contains(&format!(" {option} ")));
        let rest = line.and_then(|line| line.split_once(&format!(" {option} "))).map(|(_, rest)| rest.trim());
        let (got, source) = rest.and_then(|rest| rest.split_once("  ")).unwrap_or_default();
        assert_eq!((got, source.trim()), (value, want_source), "{option}");
    }
}

#[test]
fn shown_toml_has_the_same_meaning_in_another_directory() {
    let text = "[[listener]]\naddress = \"unix:a \\\"b\\\".sock\"\n[[site]]\npath = \"ü\\\\\"\nhosts = [\"a.example\"]\nredirect-hosts = [\"b.example\"]\n\
                cors = [\"/a\", \"/b\"]\nprefix = \"in/it\"\nspa = true\ntrailing-slash = \"never\"\n\
                [[site]]\npath = \"/srv/b\"\ndefault = true\nkeep-releases = 3\n\
                [server]\nengine = \"epoll\"\nworkers = 3\nheader-timeout = 0.5\nmin-send-rate = \"2KiB\"\n";
    for (text, flags) in [(text, &["--grace-period", "1m"][..]), ("", &[])] {
        let dir = site(&[("tarpon.toml", text), ("elsewhere/tarpon.toml", "")]);
        let show = |dir: &Path, flags: &[&str]| {
            let mut command = tarpon_command(&["config", "show", "--toml", "--config", "tarpon.toml"], flags);
            command.current_dir(dir);
            let ProgramExit { status, out, err } = RunningProgram::run(command);
            assert!(status.success(), "{err}");
            out
        };
        let first = show(dir.path(), flags);
        let elsewhere = dir.path().join("elsewhere");
        write_files(&elsewhere, &[("tarpon.toml", &first)]);
        let second = show(&elsewhere, &[]);
        let values = |text: &str| {
            text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(values(&first), values(&second));
        assert_eq!(
            first.contains(&format!("unix:{}/a \\\"b\\\".sock", dir.path().display())),
            !text.is_empty(),
            "{first}"
        );
    }
}

#[test]
fn examples_in_the_documents_are_valid() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut count = 0;
    for document in
        fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let text = fs::read_to_string(&document).unwrap();
        for example in text.split("```toml\n").skip(1) {
            let file = ConfigFile::new(document.clone(), example.split("```").next().unwrap());
            let read = config::read(Some(&file), &CliFlags::default(), config::CommandKind::Serve);
            assert!(read.is_ok(), "{}", read.unwrap_err());
            count += 1;
        }
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn reference_matches_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let (start, end) = ("<!-- options:start -->\n", "<!-- options:end -->");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(start).expect("a start mark");
    let (_, after) = rest.split_once(end).expect("an end mark");
    let reference = RunningProgram::run(tarpon_command(&["manual", "--markdown"], &[])).out;
    let want = format!("{before}{start}{reference}{end}{after}");
    if env::var_os("RENEW").is_some() {
        fs::write(&path, &want).unwrap();
    } else {
        assert!(
            document == want,
            "docs/configuration.md is out of date; renew it: RENEW=1 cargo test --test all config::reference"
        );
    }
}

#[test]
fn manual_pages_pass_mandoc_lint() {
    let dir = crate::common::readable_dir();
    let ended = RunningProgram::run(tarpon_command(&["manual", "--all", dir.path().to_str().unwrap()], &[]));
    assert!(ended.status.success(), "{}", ended.err);
    let pages: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() > 10, "{pages:?}");
    for page in &pages {
        let lint =
            Command::new("mandoc").args(["-T", "lint", "-W", "error"]).arg(page).output().expect("mandoc");
        assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    }
    let shown = |page: &str| {
        let shown = Command::new("mandoc")
            .args(["-T", "utf8", "-O", "width=200"])
            .arg(dir.path().join(page))
            .output();
        // Removes the overstrikes that make letters bold on a printer.
        let text = String::from_utf8(shown.expect("mandoc").stdout).unwrap();
        text.split('\u{8}')
            .map(|part| part.to_owned())
            .reduce(|mut all, part| {
                all.pop();
                all + &part
            })
            .unwrap()
    };
    let serve = shown("tarpon-serve.1");
    for part in
        ["--header-timeout <TIME> [default: 20s]", "CONFIGURATION FILE", "SIGNALS", "SIGTERM", "EXIT STATUS"]
    {
        assert!(serve.contains(part), "{part}");
    }
    for page in ["tarpon.1", "tarpon-serve.1", "tarpon-release-prune.1", "tarpon.toml.5"] {
        let text = shown(page);
        let at =
            ["EXAMPLES", "FILES", "ENVIRONMENT", "SEE ALSO"].map(|title| text.find(&format!("\n{title}\n")));
        assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{page}: {text}");
    }
    let file = shown("tarpon.toml.5");
    for part in ["[[site]]", "header-timeout = 1ms to 1d [20s]", "On the command line: --listen."] {
        assert!(file.contains(part), "{part}: {file}");
    }
    assert_eq!(
        RunningProgram::run(tarpon_command(&["manual", "serve"], &[])).out,
        fs::read_to_string(dir.path().join("tarpon-serve.1")).unwrap()
    );
    let ended = RunningProgram::run(tarpon_command(&["manual", "nothing"], &[]));
    assert!(
        ended.error_line().starts_with("tarpon: no manual page nothing; the pages are tarpon, serve, pack"),
        "{}",
        ended.err
    );
}

#[test]
fn shells_accept_their_completions() {
    let dir = crate::common::readable_dir();
    for shell in ["bash", "zsh", "fish"] {
        let script = dir.path().join(shell);
        fs::write(&script, RunningProgram::run(tarpon_command(&["completions", shell], &[])).out).unwrap();
        let checked = Command::new(shell).arg("-n").arg(&script).output().expect(shell);
        assert!(checked.status.success() && checked.stderr.is_empty(), "{shell}: {checked:?}");
    }
    // Requests completions as the line editor of bash does.
    let script = "source \"$0\"; COMP_WORDS=(tarpon serve --secu); COMP_CWORD=2; _tarpon tarpon --secu serve; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).arg(dir.path().join("bash")).stdin(Stdio::null());
    let answer = bash.output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "--secure-headers\n", "{answer:?}");
}

#[test]
fn shells_complete_the_names_of_releases() {
    let dir = crate::common::readable_dir();
    let releases = dir.path().join("my releases");
    fs::create_dir(&releases).unwrap();
    for name in ["a.tar", "b c.tar", "b:1.tar"] {
        pack(&[("index.html", name)], &releases.join(name));
    }
    let program = Path::new(env!("CARGO_BIN_EXE_tarpon"));
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    // Each runs in the directory above: with the part of the name that is typed, and what the shell inserts, sorted.
    let bash = |typed: &str| {
        format!(
            "source ./bash; COMP_LINE='tarpon release activate --verify my\\ releases {typed}'; COMP_POINT=${{#COMP_LINE}}; \
             _tarpon_with_releases tarpon x x; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
    };
    let zsh = |typed: &str| {
        format!(
            "compdef() {{ }}; compadd() {{ print -l -- $names }}; _call_program() {{ shift; eval $@ }}; source ./zsh; \
             words=(activate --verify 'my\\ releases' '{typed}'); CURRENT=4; _tarpon_releases"
        )
    };
    let fish = |typed: &str| {
        format!("source ./fish; complete -C 'tarpon release activate --verify my\\ releases {typed}'")
    };
    #[rustfmt::skip]
    let cases: &[(&str, String, &[&str])] = &[
        ("bash", bash(""),       &["a.tar", "b:1.tar", "b\\ c.tar"]),
        ("bash", bash("b"),      &["b:1.tar", "b\\ c.tar"]),
        ("bash", bash("b:"),     &["1.tar"]),
        ("bash", bash("a.tar "), &[""]),
        // zsh itself selects those that begin with the text.
        ("zsh",  zsh("b"),       &["a.tar", "b c.tar", "b:1.tar"]),
        ("fish", fish(""),       &["a.tar", "b c.tar", "b:1.tar"]),
        ("fish", fish("b"),      &["b c.tar", "b:1.tar"]),
    ];
    for shell in ["bash", "zsh", "fish"] {
        let script = RunningProgram::run(tarpon_command(&["completions", shell], &[])).out;
        fs::write(dir.path().join(shell), script).unwrap();
    }
    for (shell, commands, want) in cases {
        let mut command = Command::new(shell);
        command.args(["-c", commands]).current_dir(dir.path()).stdin(Stdio::null());
        let answer = command.env("PATH", &path).env("HOME", dir.path()).output().expect(shell);
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut names: Vec<_> = text.lines().collect();
        names.sort_unstable();
        assert_eq!(names, *want, "{shell}: {commands}: {answer:?}");
    }
    let script = fs::read_to_string(dir.path().join("zsh")).unwrap();
    assert!(script.contains("':name -- Activate the archive of this name:_tarpon_releases'"), "{script}");
}

/// Returns the program with these arguments.
fn tarpon_command(command: &[&str], arguments: &[&str]) -> Command {
    tarpon(command.iter().chain(arguments).map(AsRef::as_ref))
}
